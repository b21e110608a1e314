"""Levels: an interrupt at any instruction leaves NumPy's handling of floating-point errors as it was, and no level behind."""

import sys
from itertools import count

import numpy as np
import pytest
from interrupting import interrupted

import dualad
from checkpoint import chain, grad, vjp
from checkpoint.reverse.tape import Tape
from dualad.core.levels import FILLED, Level
from dualad.graph.trace import Trace

X = np.array([0.25, 0.5])
WATCHED = {np.errstate.__enter__.__code__, np.errstate.__exit__.__code__, Trace.__enter__.__code__, Trace.__exit__.__code__}
WATCHED |= {Level.__enter__.__code__, Level.__exit__.__code__, Tape.sweep_quietly.__code__}
WATCHED |= {np.seterr.__code__} if hasattr(np.seterr, "__code__") else set()
PULLBACK = vjp(lambda x: np.sum(np.sqrt(x)), X)[1]


def steps(k, x):
    return np.sqrt(x) + 0.1 * k


CALLS = {
    "derivative": lambda: dualad.derivative(np.sqrt)(0.25),
    "jacobian": lambda: dualad.jacobian(np.sqrt)(X),
    "grad": lambda: grad(lambda x: np.sum(np.sqrt(x)))(X),
    "pullback": lambda: PULLBACK(1.0),
    "chain": lambda: grad(lambda x: np.sum(chain(steps, x, steps=2)))(X),
    "jit": lambda: dualad.jit(lambda x: np.sqrt(x), backend="numpy")(X),
    "compiled chain": lambda: grad(lambda x: np.sum(chain(dualad.jit(steps, backend="numpy"), x, steps=2)))(X),
    "explain_nan": lambda: dualad.explain_nan(np.sqrt, X),
}


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="not every instruction is traced there")
@pytest.mark.parametrize("name", CALLS)
def test_an_interrupt_leaves_the_error_state(name):
    call = CALLS[name]
    call()
    with np.errstate(divide="raise", over="ignore", invalid="warn", under="print"):
        errors = np.geterr()
        for number in count(0, {"derivative": 1, "pullback": 1, "compiled chain": 23}.get(name, 7)):
            hit = interrupted(call, number, WATCHED.__contains__)
            now = np.geterr()
            np.seterr(**errors)
            assert now == errors, number
            if not hit:
                break
        assert number > 20
    assert not FILLED
