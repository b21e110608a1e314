"""Tune a Kalman filter of filterpy by its own likelihood: another package's code, unedited, with derivatives.

    python examples/kalman.py [--plot kalman.png] [--count 80]

A target moves with nearly constant velocity; its position is measured with noise. `KalmanFilter` of filterpy sums up how likely the
measurements are (`log_likelihood`). Its gradient by the logarithms of both noise levels goes through `predict` and `update` as they are
(`dualad.adapt`), and SciPy's `minimize` finds the levels that explain the measurements best.
"""

import numpy as np
from scipy.optimize import minimize
from shared import needed, options, picture

from checkpoint import value_and_grad
from dualad import adapt

filters = needed("filterpy.kalman", "filterpy")
PUSH, NOISE = 0.3, 2.0  # the true levels: of the velocity's changes in a second, and of the measurements, m


def measurements(count):
    """Return positions, and what is measured of them."""
    rng = np.random.default_rng(4)
    positions = np.cumsum(np.cumsum(PUSH * rng.normal(size=count)))
    return positions, positions + NOISE * rng.normal(size=count)


def filtered(logs, measured):
    """Return the negative log-likelihood of measurements, and the positions that the filter estimates."""
    push, noise = np.exp(logs)
    kalman = filters.KalmanFilter(dim_x=2, dim_z=1)  # of position and velocity
    kalman.F, kalman.H = np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([[1.0, 0.0]])
    kalman.P, kalman.R = np.diag([100.0, 10.0]), noise**2 * np.eye(1)
    kalman.Q = push**2 * np.array([[1.0 / 3.0, 0.5], [0.5, 1.0]])
    surprise, estimates = 0.0, []
    for z in measured:
        kalman.predict()
        kalman.update(z)
        surprise = surprise - kalman.log_likelihood
        estimates.append(kalman.x[0, 0])
    return surprise, estimates


def main():
    words = options(__doc__, count=(80, "measurements"))
    positions, measured = measurements(words.count)
    misfit = adapt(filters)(lambda logs: filtered(logs, measured)[0])
    found = minimize(value_and_grad(misfit), np.zeros(2), jac=True)  # from levels of 1
    push, noise = np.exp(found.x)
    print(f"{found.nfev} evaluations: pushes of {push:.2f} (truly {PUSH}), noise of {noise:.2f} (truly {NOISE})")
    with picture(words.plot) as axes:
        axes.plot(measured - positions, ".", color="0.6", label="measured")
        for logs, name in ((np.zeros(2), "filter, both levels 1"), (found.x, "filter, tuned")):
            axes.plot(filtered(logs, measured)[1] - positions, label=name)
        axes.set(xlabel="time, s", ylabel="error of the position, m")
        axes.legend()


if __name__ == "__main__":
    main()
