"""The example of an epidemic: the rates by SciPy alone, and their uncertainty by differences."""

import numpy as np
import pytest
from loaded import load

optimize = pytest.importorskip("scipy.optimize")
integrate = pytest.importorskip("scipy.integrate")
example = load("examples/epidemic.py")


def curve(logs):
    """SciPy's solution with plain numbers."""
    rates = tuple(np.exp(logs))
    return integrate.solve_ivp(example.epidemic, (0.0, 14.0), [760.0, 3.0], t_eval=example.DAYS, args=rates, rtol=1e-9, atol=1e-9).y[1]


def test_the_fit_is_that_of_differences():
    found, deviations = example.fit()
    by_differences = optimize.least_squares(lambda logs: curve(logs) - example.IN_BED, np.log([1.7, 0.45]), x_scale="jac", xtol=1e-12)
    np.testing.assert_allclose(found.x, by_differences.x, atol=1e-4)
    assert found.nfev < 20
    slope = np.stack([(curve(found.x + 1e-4 * e) - curve(found.x - 1e-4 * e)) / 2e-4 for e in np.eye(2)], axis=1)
    spread = np.sqrt(np.diag(np.linalg.inv(slope.T @ slope)) * np.sum((curve(found.x) - example.IN_BED) ** 2) / 12)
    np.testing.assert_allclose(deviations, spread, rtol=1e-4)
