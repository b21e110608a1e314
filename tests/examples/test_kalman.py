"""The example of a Kalman filter: its gradient by differences of filterpy's own likelihood, and what stays of it."""

import numpy as np
import pytest
from loaded import load

from checkpoint import value_and_grad
from dualad import gradient

kalman = pytest.importorskip("filterpy.kalman")
example = load("examples/kalman.py")


def test_the_gradient_is_that_of_differences():
    _, measured = example.measurements(6)
    logs, plain = np.log([0.4, 1.5]), lambda logs: example.filtered(logs, measured)[0]
    value, slope = value_and_grad(example.misfit)(logs, measured)
    assert value == pytest.approx(plain(logs), rel=1e-12)
    differences = [(plain(logs + 1e-5 * e) - plain(logs - 1e-5 * e)) / 2e-5 for e in np.eye(2)]
    np.testing.assert_allclose(slope, differences, rtol=1e-7)
    np.testing.assert_allclose(gradient(lambda logs: example.misfit(logs, measured))(logs), slope, rtol=1e-10)


def test_the_levels_are_better_than_the_first_ones():
    _, measured = example.measurements(12)
    found = example.tuned(measured)
    assert found.fun < example.filtered(np.zeros(2), measured)[0] - 0.5
    assert np.max(np.abs(found.jac)) < 1e-3
