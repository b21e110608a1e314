"""The example of a Gaussian process: its gradient and its slope in closed form, by plain SciPy; an interior maximum."""

import numpy as np
import pytest
from loaded import load

pytest.importorskip("scipy.stats")
import dualad
from checkpoint import grad

example = load("examples/gaussian_process.py")
LOGS = np.log([0.6, 1.1, 0.2])


def test_the_gradient_is_that_of_the_textbook():
    """Rasmussen & Williams (2006), equation 5.9."""
    amplitude, length, noise = np.exp(LOGS)
    places = example.PLACES
    pure = example.kernel(places, places, amplitude, length)
    by_logs = [2.0 * pure, pure * ((places[:, None] - places) / length) ** 2, 2.0 * noise**2 * np.eye(len(places))]
    inverse = np.linalg.inv(example.covariance(LOGS))
    weights = inverse @ example.HEIGHTS
    expected = [-0.5 * np.trace((np.outer(weights, weights) - inverse) @ slope) for slope in by_logs]
    np.testing.assert_allclose(grad(dualad.adapt(example.misfit))(LOGS), expected, rtol=1e-9)


def test_the_slope_of_the_mean():
    at, (amplitude, length, _) = np.linspace(0.5, 9.5, 7), np.exp(LOGS)
    weights = np.linalg.solve(example.covariance(LOGS), example.HEIGHTS)
    apart = (at[:, None] - example.PLACES) / length**2
    expected = (-apart * example.kernel(at, example.PLACES, amplitude, length)) @ weights
    np.testing.assert_allclose(example.slope(at, LOGS), expected, rtol=1e-9)
