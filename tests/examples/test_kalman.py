"""The example of a Kalman filter: its gradient by differences of filterpy's own likelihood. Its levels are in `test_all`."""

import numpy as np
import pytest
from loaded import load

from checkpoint import value_and_grad
from dualad import adapt, gradient

kalman = pytest.importorskip("filterpy.kalman")
example = load("examples/kalman.py")


def test_the_gradient_is_that_of_differences():
    _, measured = example.measurements(6)
    logs, plain = np.log([0.4, 1.5]), lambda logs: example.filtered(logs, measured)[0]
    with adapt(kalman):
        value, slope = value_and_grad(plain)(logs)
        forward = gradient(plain)(logs)
    assert value == pytest.approx(plain(logs), rel=1e-12)
    differences = [(plain(logs + 1e-5 * e) - plain(logs - 1e-5 * e)) / 2e-5 for e in np.eye(2)]
    np.testing.assert_allclose(slope, differences, rtol=1e-7)
    np.testing.assert_allclose(forward, slope, rtol=1e-10)
