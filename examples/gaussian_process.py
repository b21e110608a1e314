"""Fit a Gaussian process to 40 measurements, written with SciPy's own functions, and draw the curve with its slope.

    python examples/gaussian_process.py [--plot gaussian_process.png]

The model knows nothing of derivatives (Rasmussen & Williams 2006, chapters 2 and 5). Inside of `adapt` the functions of SciPy keep them:
minimize gets the gradient of the likelihood by the logarithms of amplitude, length and noise, and the expected curve its slope.
"""

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize
from scipy.spatial.distance import cdist
from scipy.stats import multivariate_normal
from shared import options, picture

from checkpoint import value_and_grad
from dualad import adapt, jvp

RNG = np.random.default_rng(7)
PLACES = np.sort(RNG.uniform(0.0, 10.0, 40))
HEIGHTS = np.sin(2.0 * PLACES) * np.exp(-0.2 * PLACES) + 0.1 * RNG.standard_normal(40)


def kernel(x, y, logs):
    """Return the covariances of the true heights at some places with those at others."""
    amplitude, length, _ = np.exp(logs)
    return amplitude**2 * np.exp(-0.5 * cdist(x[:, None] / length, y[:, None] / length, "sqeuclidean"))


def misfit(logs):
    """Return minus the logarithm of the likelihood of the measurements."""
    return -multivariate_normal.logpdf(HEIGHTS, np.zeros(40), kernel(PLACES, PLACES, logs) + np.exp(2.0 * logs[2]) * np.eye(40))


def expected(places, logs):
    """Return the expected heights at some places, and their standard deviations."""
    across, factor = kernel(places, PLACES, logs), cho_factor(kernel(PLACES, PLACES, logs) + np.exp(2.0 * logs[2]) * np.eye(40))
    variances = np.exp(2.0 * logs[0]) - np.sum(across * cho_solve(factor, across.T).T, axis=1)
    return across @ cho_solve(factor, HEIGHTS), np.sqrt(variances)


def main():
    plot = options(__doc__).plot
    found = minimize(value_and_grad(adapt(misfit)), np.log([1.0, 2.0, 0.5]), jac=True, options={"gtol": 1e-6})
    print(f"{found.nfev} evaluations: log likelihood {-found.fun:.4f}, amplitude, length, noise {np.exp(found.x).round(3)}")
    places = np.linspace(-0.5, 10.5, 300)
    (curve, deviations), (slope, _) = jvp(adapt(expected), (places, found.x), (np.ones(300), np.zeros(3)))  # each by its own place
    with picture(plot, rows=2, size=(7, 5), sharex=True, height_ratios=[2, 1]) as (top, bottom):
        top.fill_between(places, curve - 2.0 * deviations, curve + 2.0 * deviations, alpha=0.3, label="two standard deviations")
        top.plot(places, curve, label="expected")
        top.plot(PLACES, HEIGHTS, "k.", label="measured")
        top.set(ylabel="height")
        top.legend(fontsize=8)
        bottom.plot(places, slope, "C1")
        bottom.axhline(0.0, color="gray", lw=0.8)
        bottom.set(xlabel="place", ylabel="slope")


if __name__ == "__main__":
    main()
