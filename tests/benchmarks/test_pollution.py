"""The pollution model is the published one: its solution at t = 60 is that of the IVP test set, its Jacobian that of complex steps."""

import numpy as np
import pytest
from loaded import load

from dualad import jacobian, jit


@pytest.fixture(scope="module")
def model():
    return load("benchmarks/pollution.py")


def test_solution(model):
    integrate = pytest.importorskip("scipy.integrate")
    slope = jacobian(model.pollution)
    solved = integrate.solve_ivp(
        lambda t, y: model.pollution(y), (0.0, 60.0), model.START, "BDF", rtol=1e-8, atol=1e-13, jac=lambda t, y: slope(y)
    )
    published = [0.5646255480022769e-1, 0.1342484130422339, 0.4139734331099427e-8]
    np.testing.assert_allclose(solved.y[:3, -1], published, rtol=1e-6)


def test_jacobian(model):
    y = np.linspace(0.1, 1.0, 20)
    columns = [model.pollution(y + 1e-30j * e).imag / 1e-30 for e in np.eye(20)]
    for made in (jacobian(model.pollution), jit(jacobian(model.pollution), backend="numpy")):
        np.testing.assert_allclose(made(y), np.stack(columns, axis=1), rtol=1e-14, atol=1e-300)
