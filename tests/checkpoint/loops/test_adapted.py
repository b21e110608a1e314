"""Steps that fill arrays in adapted code: their states and outs are what they filled."""

import sys
from types import ModuleType

import numpy as np
import pytest

import dualad
from checkpoint import StoreAll, chain, grad, hvp

SOURCE = """
import numpy as np

def moved(s):
    b = np.zeros(4)
    b[:] = s
    b[1:] += 0.1 * s[:-1] ** 2
    b *= 0.9
    return b

def state(k, s): return moved(s)
def pair(k, s): return moved(s[0]), np.ones(3) * s[1]
def out(k, s): return s * 1.1, moved(s)
def both(k, s): return moved(s), moved(s * s)
"""


@pytest.fixture
def code(monkeypatch):
    module = ModuleType("steps_that_fill")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(SOURCE, vars(module))
    with dualad.adapt(module):
        yield module


@pytest.mark.parametrize("schedule", [None, StoreAll()], ids=["default", "StoreAll"])
@pytest.mark.parametrize("name", ["state", "pair", "out", "both"])
def test_filled_arrays_are_states_and_outs(code, name, schedule):
    def loss(x):
        start, outputs = ((x, x[1:]) if name == "pair" else x), name in ("out", "both")
        options = {} if schedule is None else {"schedule": schedule}
        result = chain(getattr(code, name), start, steps=7, outputs=outputs, **options)
        return sum(np.sum(part**2) for part in (result if type(result) is tuple else (result,)))

    x = np.array([0.3, -0.2, 0.4, 0.1])
    exact = dualad.gradient(loss)(x)
    np.testing.assert_allclose(grad(loss)(x), exact, rtol=1e-13)
    h = 1e-6
    np.testing.assert_allclose(exact, [(loss(x + h * e) - loss(x - h * e)) / (2.0 * h) for e in np.eye(4)], rtol=1e-7)
    np.testing.assert_allclose(hvp(loss, x, x), dualad.jvp(dualad.gradient(loss), (x,), (x,))[1], rtol=1e-12)
