"""What every row of SciPy's functions is asked: SciPy's bits, and the derivatives of differences, in both modes, to order 2."""

import numpy as np
import pytest

import dualad
from checkpoint import grad, jacobian, vjp
from dualad.testing import check_derivatives

__all__ = ["check_adapted", "check_call", "check_calls", "check_refused"]


def leaves(x):
    return [leaf for part in x for leaf in leaves(part)] if isinstance(x, tuple | list) else [np.asarray(x)]


def check_calls(ours, scipys, calls, plain=()):
    """Check calls of a function, given as arguments and keywords: the first one to order 2."""
    for k, (args, kwargs) in enumerate(calls):
        check_call(ours, scipys, args, kwargs, plain, order=1 if k else 2)


def check_call(ours, scipys, args, kwargs, plain=(), order=2, step=None):
    """Check a call with derivatives by all arguments that are floats or arrays of them, but those at the positions `plain`.

    Of order 2, the Jacobians of both modes are compared, too.
    """
    wanted = leaves(scipys(*args, **kwargs))
    moving = [i for i, x in enumerate(args) if isinstance(x, float | np.ndarray) and i not in plain and np.asarray(x).dtype.kind in "fc"]

    def call(*moved):
        given = list(args)
        for i, x in zip(moving, moved, strict=True):
            given[i] = x
        made = ours(*given, **kwargs)
        return tuple(made) if isinstance(made, list) else made

    at = [args[i] for i in moving]
    assert at
    for made in (ours(*args, **kwargs), vjp(call, *at)[0]):
        for own, theirs in zip(leaves(made), wanted, strict=True):
            assert own.dtype == theirs.dtype
            assert own.tobytes() == theirs.tobytes(), "the value is SciPy's to the last bit"
    check_derivatives(call, *at, vjp=vjp, order=order, step=step)
    if order == 2 and len(wanted) == 1 and wanted[0].dtype.kind == "f" and at[0].dtype.kind == "f":
        of_first = lambda x: call(x, *at[1:])
        np.testing.assert_allclose(dualad.value_and_jacobian(of_first)(at[0])[1], jacobian(of_first)(at[0]), rtol=1e-6, atol=1e-9)


def check_refused(x, cases):
    """Check that calls of a traced argument raise in both modes; cases are pairs of a function of it and what the error says."""
    for call, words in cases:
        for derived in (grad, dualad.jacobian):
            with pytest.raises((TypeError, ValueError, AttributeError, NotImplementedError), match=words):
                derived(lambda x, call=call: np.sum(np.abs(call(x))))(x)


def check_adapted(loss, p):
    """Check that a function of `p` that calls SciPy has derivatives where it is adapted, in both modes and compiled."""
    adapted = dualad.adapt(loss)
    assert adapted(p) == loss(p)
    np.testing.assert_allclose(grad(adapted)(p), dualad.gradient(adapted)(p), rtol=1e-12)
    pytest.importorskip("llvmlite")
    np.testing.assert_allclose(dualad.jit(grad(adapted))(p), grad(adapted)(p), rtol=1e-10)
