"""Where results go: out= of ufuncs and functions, by name and by place, where= and dtype=; and what is refused."""

import operator
import re

import numpy as np
import pytest
from agreement import check

from checkpoint import grad, vjp
from checkpoint import jacobian as reverse_jacobian
from dualad import gradient, jacobian, jit, jvp, stop_gradient

X = np.array([[0.3, -0.7, 1.2], [0.9, 0.4, -0.2]])
V = np.array([0.5, -1.5, 2.0, 0.25])


def changed(y, change):
    change(y)
    return y


def test_predicates_reduce_to_plain_results():
    seen = []
    jvp(lambda x: seen.append(np.logical_and.reduce(x)) or x, (V,), (V,))
    assert seen == [True]


def out_of_a_ufunc(x):
    out = np.empty_like(x)
    result = np.multiply(x, 2.0, out=out)
    assert result is out
    np.add(out, x, out=out)
    np.sin(out, out)
    return out


def out_of_a_reduction(x):
    out = np.zeros_like(x[0])
    np.sum(x, axis=0, out=out)
    np.add.reduce(x, axis=0, out=out[:])
    return out * out


def where_of_a_ufunc(x):
    out = np.zeros_like(x)
    np.divide(1.0, x, out=out, where=x > 0)
    return out


def where_of_a_ufunc_of_two_results(x):
    out = x * 2.0, x * 3.0
    parts = np.modf(x, out=out, where=x > 0)
    assert parts[0] is out[0] and parts[1] is out[1]
    return out[0] * out[1]


@pytest.mark.parametrize(
    "f",
    [
        out_of_a_ufunc,
        out_of_a_reduction,
        where_of_a_ufunc,
        where_of_a_ufunc_of_two_results,
        lambda x: np.add(x, 1, dtype=float),
        lambda x: np.multiply(x, x, dtype=complex).real,
    ],
)
def test_keywords_of_ufuncs(f):
    check(f, X)


PLACED = {
    "sum": lambda x, out: np.sum(x, 0, None, out[0]),
    "sum keepdims": lambda x, out: np.sum(x, 0, None, out[:1], True),
    "x.mean": lambda x, out: x.mean(0, None, out[0]),
    "max": lambda x, out: np.max(x, 0, out[0]),
    "x.std": lambda x, out: x.std(0, None, out[0], 1),
    "cumsum": lambda x, out: np.cumsum(x, 1, None, out),
    "x.cumprod": lambda x, out: x.cumprod(1, None, out),
    "dot": lambda x, out: np.dot(x, np.outer(x[0], x[1]), out),
    "x.dot": lambda x, out: x.dot(np.outer(x[0], x[1]), out),
    "outer": lambda x, out: np.outer(x[:, 0], x[1], out),
    "take": lambda x, out: np.take(x, [5, 1, 0], None, out[0]),
    "concatenate": lambda x, out: np.concatenate([x[:1], x[:1] ** 2], 0, out),
    "stack": lambda x, out: np.stack([x[0], x[1] ** 2], 0, out),
    "clip": lambda x, out: np.clip(x, -0.5, 0.8, out),
    "x.trace": lambda x, out: x.trace(0, 0, 1, None, out[0, 0:1].reshape(())),
    "median": lambda x, out: np.median(x, 0, out[0]),
}


@pytest.mark.parametrize("name", PLACED)
def test_out_in_its_place(name):
    check(lambda x: PLACED[name](x, x * 7.0), X)
    check(lambda x: changed(x * 7.0, lambda out: PLACED[name](x, out)) if "trace" not in name else x, X)


@pytest.mark.parametrize("fn", [np.dot, np.outer, np.multiply])
def test_out_that_is_none(fn):
    check(lambda x: fn(x[0], x[1], out=None), X)
    check(lambda x: fn(x[0], x[1], None), X)
    check(lambda x: np.concatenate([np.sum(x, 0, None, None), np.cumsum(x, None, None, None)]), X)


def test_functions_without_derivative_write_anywhere():
    """A plain out= holds all of their results; in a traced one no tangent of what was there is left."""

    def compared(x):
        chosen = np.greater(x, 0.0, out=np.zeros((2, 3), bool), where=np.array([True, False, True]))
        assert chosen.tolist() == (np.greater(X, 0.0) & np.array([True, False, True])).tolist()
        assert np.less(x, x + 1.0, np.zeros((2, 3), bool)).all() and np.floor(x, out=np.zeros((2, 3))).tolist() == np.floor(X).tolist()
        return np.where(chosen, x, 0.0)

    def floored(x):
        y, z = x * 1.0, x * 2.0
        np.floor(x, out=y)
        np.floor(x, out=z, where=X > 0)
        assert np.logical_or.reduce(x, axis=0, out=np.zeros_like(x[0])).shape == (3,)
        return y * x + z

    check(compared, X)
    for differentiate in (jacobian, reverse_jacobian):
        by_x = np.floor(X) + np.where(X > 0, 0.0, 2.0)
        np.testing.assert_array_equal(differentiate(floored)(X), np.diag(by_x.ravel()).reshape(2, 3, 2, 3))
    with pytest.raises(TypeError, match="where= leaves the other elements undefined"):
        jvp(lambda x: np.greater(x, 0.0, where=X > 0), (X,), (X,))


@pytest.mark.parametrize("operate", [operator.iadd, operator.imul, operator.ipow], ids=["+", "*", "**"])
def test_operators_in_place_of_plain_arrays_are_refused_by_name(operate, request):
    symbol = re.escape(request.node.callspec.id)
    for verb in (gradient, grad):
        with pytest.raises(TypeError, match=rf"^a {symbol}= x of a traced x: a is a plain array.*a = a {symbol} x, or.*zeros_like"):
            verb(lambda x: np.sum(operate(np.ones(3), x)))(X[0])


def test_plain_out_is_refused():
    for f in (
        lambda x: np.add(x, 1.0, out=np.zeros((2, 3))),
        lambda x: np.sum(x, axis=0, out=np.zeros(3)),
        lambda x: np.sin(x, np.zeros((2, 3))),
    ):
        with pytest.raises(TypeError, match=r"out= is a plain array, which cannot hold derivatives.*np\.empty_like"):
            jvp(f, (X,), (X,))
        with pytest.raises(TypeError, match="out= is a plain array"):
            vjp(f, X)


def test_where_without_out_is_refused():
    with pytest.raises(TypeError, match=r"numpy\.sin: where= leaves the other elements undefined"):
        jvp(lambda x: np.sin(x, where=x > 0), (X,), (X,))
    with pytest.raises(TypeError, match=r"numpy\.modf: where= leaves the other elements undefined"):
        jvp(lambda x: np.modf(x, out=(x * 1.0, None), where=x > 0), (X,), (X,))


def test_dtype_of_ufuncs():
    value, tangent = jvp(lambda x: np.sin(x, dtype=np.float32), (X,), (X,))
    assert value.dtype == tangent.dtype == np.float32


def test_out_of_a_function_of_a_list():
    value, tangent = jvp(lambda x: np.concatenate([x, 2.0 * x], out=np.zeros(4, like=x)), (np.ones(2),), (np.ones(2),))
    assert value.tolist() == tangent.tolist() == [1.0, 1.0, 2.0, 2.0]


def test_a_ufunc_writes_only_what_the_array_can_hold():
    """A compiled one wrote 0.5 into integers."""
    x = np.arange(3)

    def halved(x, casting):
        out = np.zeros_like(x)
        np.multiply(x, 0.5, out=out, casting=casting)
        return out

    def turned(x):
        out = np.zeros_like(x)
        np.multiply(x, 1j, out=out)
        return out

    for f in (halved, jit(halved)):
        with pytest.raises(TypeError, match=r"(?s)multiply.*int64"):
            f(x, "same_kind")
    np.testing.assert_array_equal(jit(halved)(x, "unsafe"), halved(x, "unsafe"))
    for f in (turned, jit(turned), lambda x: jvp(turned, (x,), (x,))):
        with pytest.raises(TypeError, match=r"(?s)multiply.*complex128"):
            f(x * 1.0)


def test_a_matrix_product_in_place_takes_constants_and_refuses_traced_factors_in_these_words():
    def product(a, x):
        a @= x
        return a

    x = np.eye(2) + 1.0
    for shape in ((2, 2), (2,)):
        expected = product(np.ones(shape), x)
        value, tangent = jvp(lambda x, shape=shape: product(np.ones(shape), stop_gradient(x)) + 0.0 * x[0], (x,), (x,))
        np.testing.assert_array_equal(value, expected)
        assert not np.any(tangent)
        with pytest.raises(TypeError, match=r"a @= x of a traced x: a is a plain array, .*Write a = a @ x"):
            jvp(lambda x, shape=shape: product(np.ones(shape), x), (x,), (x,))
