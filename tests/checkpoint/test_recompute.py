"""checkpoint(f): evaluated again in the reverse sweep, not recorded."""

import numpy as np
import pytest

import dualad
from checkpoint import checkpoint, grad, hvp, linearize
from checkpoint.gradient import Recording


def block(x, c=1.0):
    return {"a": np.sin(np.cos(x)) * c, "b": np.tanh(x)}


def plain(x, c):
    inner = block(block(x, c)["a"], c=c)
    return np.sum(inner["a"] * inner["b"])


def recomputed(x, c):
    f = checkpoint(block)
    inner = f(f(x, c)["a"], c=c)
    return np.sum(inner["a"] * inner["b"])


X = np.linspace(0.2, 1.4, 4)


def test_same_gradient_with_fewer_entries():
    for ours, theirs in zip(grad(recomputed, argnums=(0, 1))(X, 2.0), grad(plain, argnums=(0, 1))(X, 2.0), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-13)
    entries = [len(Recording(f, (X, 2.0), "test", False, False).tape.entries) for f in (recomputed, plain)]
    assert entries == [10, 12]  # 2 inputs, 2 x (the call and its two results), product and sum; against every operation


def test_evaluated_once_more_in_the_reverse_sweep():
    calls = []

    @checkpoint
    def f(x):
        calls.append(type(x))
        return x * x

    assert grad(lambda x: f(x) + f(2.0 * x))(3.0) == pytest.approx(6.0 + 24.0)
    assert len(calls) == 4
    assert f(3.0) == 9.0 and dualad.derivative(f)(3.0) == 6.0


def test_nests_and_takes_second_order():
    nested = checkpoint(lambda x: np.sum(checkpoint(lambda y: np.exp(np.sin(y)))(x) ** 2))
    reference = lambda x: np.sum(np.exp(np.sin(x)) ** 2)
    np.testing.assert_allclose(grad(nested)(X), grad(reference)(X), rtol=1e-13)
    np.testing.assert_allclose(hvp(nested, X, X), hvp(reference, X, X), rtol=1e-12)
    _, push = linearize(lambda x: recomputed(x, 2.0), X)
    assert push(X) == pytest.approx(dualad.jvp(lambda x: plain(x, 2.0), (X,), (X,))[1])


def test_closures_and_writes_into_arguments_raise():
    with pytest.raises(TypeError, match="closes over"):
        grad(lambda y: checkpoint(lambda x: x * y)(2.0 * y))(1.0)

    def writes(x, c):
        c[0] = 1.0
        return x * c

    with pytest.raises(ValueError, match="read-only"):
        grad(lambda x: np.sum(checkpoint(writes)(x, np.ones(2))))(np.ones(2))
