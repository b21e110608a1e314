"""dualad.scipy.integrate: its solvers of equations are SciPy's of plain values, and have derivatives of traced ones."""

import sys
from types import ModuleType

import numpy as np
import pytest

import dualad
from checkpoint import grad

si = pytest.importorskip("scipy.integrate")
integrate = pytest.importorskip("dualad.scipy.integrate")

TIGHT = {"rtol": 1e-9, "atol": 1e-9}
SOURCE = """
import numpy as np
import scipy.integrate
from scipy.integrate import odeint, solve_ivp

def slope(t, y, rate): return [-rate * y[0], rate * y[0]]
def by_args(rate): return solve_ivp(slope, (0.0, 1.0), [1.0, 0.0], args=(rate,), rtol=1e-9, atol=1e-9).y[0, -1]
def by_closure(rate):
    run = scipy.integrate.solve_ivp(lambda t, y: np.array([-rate * y[0]]), [0, 1], [1.0], "DOP853", rtol=1e-9, atol=1e-9, max_step=0.5)
    return run.y[0, -1]
def by_odeint(rate): return odeint(lambda y, t: -rate * y, [1.0], np.linspace(0.0, 1.0, 5), (), None, 0, 0, hmax=0.5, mxstep=900)[-1, 0]
"""


@pytest.fixture
def other():
    module = ModuleType("other_equations")
    exec(SOURCE, vars(module))
    sys.modules[module.__name__] = module
    yield module
    del sys.modules[module.__name__]


def test_adapted_code_finds_solvers_with_derivatives(other):
    with dualad.adapt(other):
        for end in (other.by_args, other.by_closure, other.by_odeint):
            for derived in (grad, dualad.derivative):
                np.testing.assert_allclose(derived(end)(0.7), -np.exp(-0.7), rtol=1e-6)
            assert end(0.7) == pytest.approx(np.exp(-0.7), rel=1e-6)
    assert other.solve_ivp is si.solve_ivp


def test_of_plain_values_they_are_scipys():
    for method in ("LSODA", "BDF"):
        found = integrate.solve_ivp(lambda t, y: -y, (0.0, 1.0), [1.0], method)
        assert found.y.tobytes() == si.solve_ivp(lambda t, y: -y, (0.0, 1.0), [1.0], method).y.tobytes()
    assert integrate.odeint(lambda y, t: -y, [1.0], [0.0, 1.0], full_output=True)[1]["nst"][0] > 0


def test_of_traced_values_what_has_no_derivative_is_named():
    end = lambda rate, method: integrate.solve_ivp(lambda t, y: -rate * y, (0.0, 1.0), [1.0], method, t_eval=[1.0], **TIGHT).y[0, 0]
    with pytest.raises(ValueError, match=r"'LSODA' has no derivatives.*'Radau' is for stiff problems"):
        grad(end)(0.7, "LSODA")
    with pytest.raises(TypeError, match="odeint: full_output= reports on LSODA"):
        grad(lambda rate: integrate.odeint(lambda y, t: -rate * y, [1.0], [0.0, 1.0], full_output=True)[0][-1, 0])(0.7)
    with pytest.raises(TypeError, match=r"write dualad\.scipy\.integrate\.solve_ivp"):
        grad(lambda rate: si.solve_ivp(lambda t, y: -rate * y, (0.0, 1.0), [1.0]).y[0, 0])(0.7)
