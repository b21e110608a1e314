"""Fit a model of an epidemic to the influenza in an English boarding school, 1978, through SciPy's differential-equation solver.

    python examples/epidemic.py [--plot epidemic.png]

763 boys, of whom one was ill at first; the numbers in bed on 14 days are from the British Medical Journal of 4 March 1978, page 587. The
model is that of Kermack and McKendrick (1927): susceptible, infectious and recovered boys. SciPy's `minimize` asks for the gradient of
the squared residuals, which goes through `solve_ivp`; the Jacobian of the curve says how well the two rates are known.
"""

import argparse

import numpy as np
from scipy.optimize import minimize

from checkpoint import jacobian, solve_ivp, value_and_grad

BOYS = 763.0
DAYS = np.arange(14.0)
IN_BED = np.array([3, 8, 26, 76, 225, 298, 258, 233, 189, 128, 68, 29, 14, 4.0])


def epidemic(t, y, infection, recovery):
    """Return how fast the numbers of susceptible and of infectious boys change, a day."""
    susceptible, infectious = y
    infections = infection * susceptible * infectious / BOYS
    return [-infections, infections - recovery * infectious]


def ill(log_rates, days=DAYS):
    """Return the number of infectious boys; the rates are given by their logarithms, so that they are positive."""
    start, rates = [BOYS - 3.0, 3.0], np.exp(log_rates)
    return solve_ivp(epidemic, (0.0, 14.0), start, t_eval=days, args=(rates[0], rates[1]), rtol=1e-8, atol=1e-8).y[1]


def misfit(log_rates):
    """Return the mean squared residual."""
    return np.mean((ill(log_rates) - IN_BED) ** 2)


def fit():
    """Return SciPy's result, from an infection each day and a week in bed."""
    options = {"gtol": 1e-3}  # a smaller slope is noise: the curve is known to the tolerance of the solver
    return minimize(value_and_grad(misfit), np.log([1.0, 1.0 / 7.0]), jac=True, method="BFGS", options=options)


def deviations(log_rates):
    """Return the standard deviations of the logarithms of the rates."""
    slope = jacobian(ill)(log_rates)
    return np.sqrt(np.diag(np.linalg.inv(slope.T @ slope)) * misfit(log_rates) * len(DAYS) / (len(DAYS) - 2))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plot", metavar="FILE", help="write a picture")
    options = parser.parse_args()
    found = fit()
    infection, recovery = np.exp(found.x)
    known = deviations(found.x)
    print(f"{found.nfev} evaluations, root mean square residual {np.sqrt(found.fun):.2f} boys")
    print(f"infections {infection:.3f} a day ± {100 * known[0]:.1f} %, ill for {1 / recovery:.2f} days ± {100 * known[1]:.1f} %")
    print(f"each ill boy infects {infection / recovery:.2f} others at first")
    if options.plot:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6.4, 3.8), layout="constrained")
        axes = figure.subplots()
        days = np.linspace(0.0, 14.0, 200)
        axes.plot(days, ill(found.x, days), label="model")
        axes.plot(DAYS, IN_BED, "o", label="boys in bed")
        axes.set(xlabel="days", ylabel="boys")
        axes.legend()
        figure.savefig(options.plot, dpi=120)
        print(f"wrote {options.plot}")


if __name__ == "__main__":
    main()
