"""Fit a model of an epidemic to the influenza in an English boarding school, 1978, through SciPy's differential-equation solver.

    python examples/epidemic.py [--plot epidemic.png]

763 boys; the numbers in bed on 14 days are from the British Medical Journal of 4 March 1978, page 587. The model is that of Kermack and
McKendrick (1927): susceptible, infectious and recovered boys. SciPy's `minimize` asks for the gradient of the squared residuals, which
goes through `solve_ivp`; the Jacobian of the curve says how well the two rates are known.
"""

import numpy as np
from scipy.optimize import minimize
from shared import options, picture

from checkpoint import jacobian, solve_ivp, value_and_grad

BOYS, DAYS = 763.0, np.arange(14.0)
IN_BED = np.array([3, 8, 26, 76, 225, 298, 258, 233, 189, 128, 68, 29, 14, 4.0])


def epidemic(t, y, infection, recovery):
    """Return how fast the numbers of susceptible and of infectious boys change, a day."""
    susceptible, infectious = y
    infections = infection * susceptible * infectious / BOYS
    return [-infections, infections - recovery * infectious]


def ill(log_rates, days=DAYS):
    """Return the number of infectious boys; the rates are given by their logarithms, so that they are positive."""
    rates = np.exp(log_rates)
    return solve_ivp(epidemic, (0.0, 14.0), [BOYS - 3.0, 3.0], t_eval=days, args=(rates[0], rates[1]), rtol=1e-8, atol=1e-8).y[1]


def misfit(log_rates):
    """Return the mean squared residual."""
    return np.mean((ill(log_rates) - IN_BED) ** 2)


def fit():
    """Return SciPy's result, and the standard deviations of the logarithms of the rates."""
    found = minimize(value_and_grad(misfit), np.log([1.0, 1.0 / 7.0]), jac=True, options={"gtol": 1e-3})
    slope = jacobian(ill)(found.x)
    return found, np.sqrt(np.diag(np.linalg.inv(slope.T @ slope)) * found.fun * len(DAYS) / (len(DAYS) - 2))


def main():
    plot = options(__doc__).plot
    found, deviations = fit()
    (infection, recovery), percent = np.exp(found.x), 100.0 * deviations
    print(f"infections {infection:.3f} a day ± {percent[0]:.1f} %, ill for {1 / recovery:.2f} days ± {percent[1]:.1f} %")
    print(f"each ill boy infects {infection / recovery:.2f} others at first; root mean square residual {np.sqrt(found.fun):.2f} boys")
    with picture(plot) as axes:
        days = np.linspace(0.0, 14.0, 200)
        axes.plot(days, ill(found.x, days), label="model")
        axes.plot(DAYS, IN_BED, "o", label="boys in bed")
        axes.set(xlabel="days", ylabel="boys")
        axes.legend()


if __name__ == "__main__":
    main()
