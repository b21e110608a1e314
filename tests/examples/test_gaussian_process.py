"""The example of a Gaussian process: its gradient and its slope in closed form, by plain SciPy; an interior maximum."""

import numpy as np
import pytest
from loaded import load

pytest.importorskip("scipy.stats")
import dualad
from checkpoint import grad

example = load("examples/gaussian_process.py")
LOGS = np.log([0.6, 1.1, 0.2])


def covariance(logs):
    """The covariance of the measurements, whose gradient the textbook gives."""
    return example.kernel(example.PLACES, example.PLACES, logs) + np.exp(2.0 * logs[2]) * np.eye(40)


def test_the_gradient_is_that_of_the_textbook():
    """Rasmussen & Williams (2006), equation 5.9."""
    (_, length, noise), places = np.exp(LOGS), example.PLACES
    pure = example.kernel(places, places, LOGS)
    by_logs = [2.0 * pure, pure * ((places[:, None] - places) / length) ** 2, 2.0 * noise**2 * np.eye(40)]
    inverse = np.linalg.inv(covariance(LOGS))
    weights = inverse @ example.HEIGHTS
    expected = [-0.5 * np.trace((np.outer(weights, weights) - inverse) @ slope) for slope in by_logs]
    np.testing.assert_allclose(grad(dualad.adapt(example.misfit))(LOGS), expected, rtol=1e-9)


def test_the_curve_its_deviations_and_its_slope():
    at, length = np.linspace(0.5, 9.5, 7), np.exp(LOGS[1])
    across, inverse = example.kernel(at, example.PLACES, LOGS), np.linalg.inv(covariance(LOGS))
    (curve, deviations), (slope, _) = dualad.jvp(dualad.adapt(example.expected), (at, LOGS), (np.ones(7), np.zeros(3)))
    np.testing.assert_allclose(curve, across @ inverse @ example.HEIGHTS, rtol=1e-9)
    np.testing.assert_allclose(deviations**2, np.exp(2.0 * LOGS[0]) - np.diag(across @ inverse @ across.T), rtol=1e-8)
    apart = (at[:, None] - example.PLACES) / length**2
    np.testing.assert_allclose(slope, (-apart * across) @ inverse @ example.HEIGHTS, rtol=1e-9)
