"""Tune a Kalman filter of filterpy by its own likelihood: another package's code, unedited, with derivatives.

    python examples/kalman.py [--plot kalman.png]

A target moves with nearly constant velocity; its position is measured with noise. `KalmanFilter` of filterpy sums up how likely the
measurements are (`log_likelihood`). Its gradient by the logarithms of both noise levels goes through `predict` and `update` as they are
(`dualad.adapt`), and SciPy's `minimize` finds the levels that explain the measurements best. Needs filterpy.
"""

import argparse

import filterpy.kalman
import numpy as np
from scipy.optimize import minimize

from checkpoint import value_and_grad
from dualad import adapt

STEP, PUSH, NOISE = 1.0, 0.3, 2.0  # seconds, and the true levels: of the velocity's changes, and of the measurements


def measurements(count):
    """Return positions, and what is measured of them."""
    rng = np.random.default_rng(4)
    velocity = np.cumsum(PUSH * rng.normal(size=count))
    positions = np.cumsum(velocity)
    return positions, positions + NOISE * rng.normal(size=count)


def filtered(logs, measured):
    """Return the negative log-likelihood of measurements, and the positions that the filter estimates."""
    push, noise = np.exp(logs)
    kalman = filterpy.kalman.KalmanFilter(dim_x=2, dim_z=1)
    kalman.F = np.array([[1.0, STEP], [0.0, 1.0]])
    kalman.H = np.array([[1.0, 0.0]])
    kalman.P = np.diag([100.0, 10.0])
    kalman.Q = push**2 * np.array([[STEP**3 / 3.0, STEP**2 / 2.0], [STEP**2 / 2.0, STEP]])
    kalman.R = noise**2 * np.eye(1)
    total, estimates = 0.0, []
    for z in measured:
        kalman.predict()
        kalman.update(z)
        total = total - kalman.log_likelihood
        estimates.append(kalman.x[0, 0])
    return total, estimates


@adapt(filterpy.kalman)
def misfit(logs, measured):
    return filtered(logs, measured)[0]


def tuned(measured):
    """Return SciPy's result, from levels of 1."""
    return minimize(value_and_grad(misfit), np.zeros(2), (measured,), jac=True, method="BFGS")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plot", metavar="FILE", help="write a picture")
    parser.add_argument("--count", type=int, default=80, help="measurements (default 80)")
    options = parser.parse_args()
    positions, measured = measurements(options.count)
    found = tuned(measured)
    push, noise = np.exp(found.x)
    print(f"{found.nfev} evaluations: pushes of {push:.2f} (truly {PUSH}), noise of {noise:.2f} (truly {NOISE})")
    if options.plot:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6.4, 3.6), layout="constrained")
        axes = figure.subplots()
        axes.plot(measured - positions, ".", color="0.6", label="measured")
        for levels, name in ((np.zeros(2), "filter, both levels 1"), (found.x, "filter, tuned")):
            axes.plot(np.array(filtered(levels, measured)[1]) - positions, label=name)
        axes.set(xlabel="time, s", ylabel="error of the position")
        axes.legend()
        figure.savefig(options.plot, dpi=120)
        print(f"wrote {options.plot}")


if __name__ == "__main__":
    main()
