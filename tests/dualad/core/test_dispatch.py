"""Numbers of a traced array are as strong as NumPy's (NEP 50), although they are kept as Python floats."""

import numpy as np
import pytest
from central import differences

from checkpoint import grad, linearize, value_and_grad, vjp
from dualad import derivative, gradient, jvp

W = np.array([0.1], np.float32)  # a little more than 0.1
X = np.array([0.1])
CHOICES = {
    "less": lambda x: np.where(x < W, x, -x),
    "reflected": lambda x: np.where(np.greater(W, x), x, -x),
    "equal": lambda x: np.where(x == W, x, -x),
    "isclose": lambda x: np.where(np.isclose(x, W, rtol=1e-9, atol=0.0), x, -x),
    "isclose by keyword": lambda x: np.where(np.isclose(a=x, b=W, rtol=1e-9, atol=0.0), x, -x),
    "searchsorted": lambda x: np.searchsorted(W, x) * x,
    "floor_divide": lambda x: np.floor_divide(np.array([1.0], np.float16), x) * x,
    "divmod": lambda x: np.divmod(np.array([1.0], np.float16), x)[0] * x,
    "result_type": lambda x: x.astype(np.result_type(x, W)) * 1.0 if hasattr(x, "astype") else x * 1.0,
    "product": lambda x: (x * 3000.0) * np.array([0.1, 300.0], np.float16),
    "difference of single precision": lambda x: x - W,
    "power": lambda x: np.array([3.1], np.float16) ** x,
}


def together(f, x):
    """Return value, tangent and cotangents of both modes, after a check that the value is NumPy's."""
    plain = f(x)
    value, t = jvp(f, (x,), (np.ones_like(x),))
    again, pull = vjp(f, x)
    _, push = linearize(f, x)
    for v in (value, again):
        assert np.asarray(v).dtype == np.asarray(plain).dtype
        np.testing.assert_array_equal(v, plain)
    (g,) = pull(np.ones_like(plain))
    np.testing.assert_allclose(np.sum(g), np.sum(t), rtol=1e-12)
    np.testing.assert_allclose(push(np.ones_like(x)), t, rtol=1e-15)
    return t


@pytest.mark.parametrize("f", CHOICES.values(), ids=CHOICES)
def test_elements_and_numbers_are_strong(f):
    t = together(f, np.float64(0.1))
    np.testing.assert_allclose(together(lambda x: f(x[0]), X), t, rtol=1e-15)
    inner = jvp(lambda y: jvp(lambda x: f(x * y[0]), (np.float64(0.1),), (1.0,))[1], (np.array([1.0]),), (np.array([1.0]),))
    np.testing.assert_allclose(inner[0], t, rtol=1e-12)


def test_python_numbers_are_weak():
    for f in (lambda x: np.where(x < W, x, -x), lambda x: (x * 3.0) * W, lambda x: x == W):
        value = jvp(f, (0.1,), (1.0,))[0]
        assert value.dtype == f(0.1).dtype
        np.testing.assert_array_equal(value, f(0.1))


WIDER = {
    "element times sum": lambda x: x[0] * np.sum(x * np.ones(3)),
    "array times mean": lambda x: x * np.mean(x * np.ones(3)),
    "element times array": lambda x: (x * np.ones(3))[0] * x,
    "constant times element": lambda x: 2.0 * x[0] * x,
}


@pytest.mark.parametrize("f", WIDER.values(), ids=WIDER)
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_numbers_computed_of_narrow_arrays_are_strong(f, dtype):
    x = np.array([0.3, 0.7, 0.9], dtype)
    plain = f(x)
    for value in (jvp(f, (x,), (np.ones(3, dtype),))[0], vjp(f, x)[0], jvp(lambda x: jvp(f, (x,), (x,))[0], (x,), (x,))[0]):
        assert value.dtype == plain.dtype
        np.testing.assert_array_equal(value, plain)


def test_the_tangent_of_a_number_has_its_precision():
    t = together(lambda x: (x[0] * 3000.0) * np.array([0.1, 300.0], np.float16), X)
    np.testing.assert_allclose(t, 3000.0 * np.array([0.1, 300.0], np.float16).astype(float), rtol=1e-15)


LISTS = {
    "dot": lambda x: np.dot(x, [1.0, 2.0, 3.0]),
    "dot second": lambda x: np.dot((1, 2, 3), x),
    "dot of a matrix": lambda x: np.sum(np.dot([[1.0, 2.0, 0.5], [0.0, 3.0, 1.0]], x)),
    "number": lambda x: np.sum(np.dot(x[0], [1.0, 2.0])),
    "inner": lambda x: np.inner(x, (1.0, 2.0, 3.0)),
    "matmul": lambda x: x @ [1.0, 2.0, 3.0] + [1.0, 2.0, 3.0] @ x,
    "operators": lambda x: np.sum(x * (1.0, 2.0, 3.0) + (x[0], 2.0, x[2]) - [x[1], 1.0, 2.0] / x),
    "vdot": lambda x: np.vdot([1.0, 2.0, 3.0], x),
    "linalg.vecdot": lambda x: np.linalg.vecdot(x, [1.0, 2.0, 3.0]),
    "multi_dot": lambda x: np.linalg.multi_dot([[1.0, 2.0, 3.0], [[1.0, 0, 0], [0, 1, 0], [0, 0, 2.0]], x]),
    "einsum": lambda x: np.einsum("i,i", x, (1.0, 2.0, 3.0)) + np.einsum(x, [0], [1.0, 2.0, 3.0], [0]),
    "arctan2": lambda x: np.sum(np.arctan2(x, [1.0, 2.0, 3.0])),
    "hypot": lambda x: np.sum(np.hypot([[1.0], [2.0]], x)),
    "maximum": lambda x: np.sum(np.maximum(x, (0.2, 2.0, 0.5))),
}


@pytest.mark.parametrize("f", LISTS.values(), ids=LISTS)
def test_lists_of_numbers_beside_traced_arrays_are_arrays(f):
    x = np.array([0.3, 0.7, 1.1])
    for verb in (gradient, grad):
        np.testing.assert_allclose(verb(f)(x), differences(f, x), rtol=1e-8)
    assert value_and_grad(f)(x)[0] == f(x)


class Vector(tuple):
    """A vector of somebody else's, with operators of its own."""

    def __rmul__(self, factor):
        return Vector(factor * x for x in self)


def test_tuples_with_operators_of_their_own_get_their_turn():
    for verb in (derivative, grad):
        assert verb(lambda x: sum(x * Vector((1.0, 2.0))) + x)(3.0) == 4.0
