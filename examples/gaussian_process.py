"""Fit a Gaussian process to 40 measurements, written with SciPy's own functions, and draw the curve with its slope.

    python examples/gaussian_process.py [--plot gaussian_process.png]

The model knows nothing of derivatives: scipy.spatial, scipy.stats and scipy.linalg, as one would write it (Rasmussen & Williams 2006,
chapters 2 and 5). Inside of `adapt` the same functions keep them: minimize gets the gradient of the likelihood by the logarithms of the
amplitude, the length and the noise, and the mean curve its slope by the place.
"""

import argparse

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize
from scipy.spatial.distance import cdist
from scipy.stats import multivariate_normal

from checkpoint import value_and_grad
from dualad import adapt, jvp

RNG = np.random.default_rng(7)
PLACES = np.sort(RNG.uniform(0.0, 10.0, 40))
HEIGHTS = np.sin(2.0 * PLACES) * np.exp(-0.2 * PLACES) + 0.1 * RNG.standard_normal(40)
START = np.log([1.0, 2.0, 0.5])


def kernel(x, y, amplitude, length):
    """Return the covariances of the heights at some places with those at others."""
    return amplitude**2 * np.exp(-0.5 * cdist(x[:, None] / length, y[:, None] / length, "sqeuclidean"))


def covariance(logs):
    """Return the covariance of the measurements."""
    amplitude, length, noise = np.exp(logs)
    return kernel(PLACES, PLACES, amplitude, length) + noise**2 * np.eye(len(PLACES))


def misfit(logs):
    """Return minus the logarithm of the likelihood of the measurements."""
    return -multivariate_normal.logpdf(HEIGHTS, np.zeros(len(PLACES)), covariance(logs))


def expected(places, logs):
    """Return the expected heights at some places, and their standard deviations."""
    across, factor = kernel(places, PLACES, *np.exp(logs[:2])), cho_factor(covariance(logs))
    variances = np.exp(2.0 * logs[0]) - np.sum(across * cho_solve(factor, across.T).T, axis=1)
    return across @ cho_solve(factor, HEIGHTS), np.sqrt(variances)


def fit():
    """Return SciPy's result."""
    return minimize(value_and_grad(adapt(misfit)), START, jac=True, method="BFGS", options={"gtol": 1e-6})


def slope(places, logs):
    """Return the slope of the expected heights: each depends on its own place alone."""
    return jvp(lambda x: adapt(expected)(x, logs)[0], (places,), (np.ones_like(places),))[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plot", metavar="FILE", help="write a picture")
    options = parser.parse_args()
    found = fit()
    print(f"{found.nfev} evaluations: log likelihood {-found.fun:.4f}, amplitude, length, noise {np.exp(found.x).round(3)}")
    if options.plot:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7, 5), layout="constrained")
        top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[2, 1])
        places = np.linspace(-0.5, 10.5, 300)
        curve, deviations = expected(places, found.x)
        top.fill_between(places, curve - 2.0 * deviations, curve + 2.0 * deviations, alpha=0.3, label="two standard deviations")
        top.plot(places, curve, label="expected")
        top.plot(PLACES, HEIGHTS, "k.", label="measured")
        top.set(ylabel="height")
        top.legend(fontsize=8)
        bottom.plot(places, slope(places, found.x), "C1")
        bottom.axhline(0.0, color="gray", lw=0.8)
        bottom.set(xlabel="place", ylabel="slope")
        figure.savefig(options.plot, dpi=90)
        print(f"wrote {options.plot}")


if __name__ == "__main__":
    main()
