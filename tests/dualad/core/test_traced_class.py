"""`isinstance` of a traced value answers as for the value itself, so that code takes the branch that it takes for plain values."""

import collections.abc
import copy
import dataclasses
import functools
import numbers

import numpy as np
import optree
import pytest

import dualad
from checkpoint import grad, hvp, vjp
from dualad import Dual, gradient, jit, jvp

KINDS = (
    np.ndarray, np.generic, np.floating, float, complex, numbers.Real, numbers.Number, collections.abc.Sequence, (int, float), str, type,
)  # fmt: skip
VALUES = [2.0, np.float64(2.0), np.float32(2.0), np.array(2.0), np.arange(3.0), np.ones((2, 2), np.float32, order="F"), np.ones((0, 3))]


def answers(x):
    return [isinstance(x, kind) for kind in KINDS] + [np.isscalar(x), np.ndim(x) == 0]


@pytest.mark.parametrize("value", VALUES, ids=repr)
@pytest.mark.parametrize("verb", [gradient, grad, jit, lambda f: jit(grad(f))])
def test_isinstance_answers_as_for_the_value(verb, value):
    asked = []

    def f(x):
        asked.append((type(x), answers(x)))
        return np.sum(x * x)

    verb(f)(value)
    assert asked
    for kind, answer in asked:
        assert issubclass(kind, dualad.core.traced.Traced) and answer == answers(value)


def test_complex_and_nested_values():
    asked = []

    def f(x):
        asked.append(answers(x))
        return np.sum(x * x * x)

    jvp(f, (1.0 + 2.0j,), (1.0 + 0.0j,))
    jvp(f, (np.array([1.0 + 2.0j]),), (np.array([1.0 + 0.0j]),))
    hvp(f, np.arange(3.0), np.ones(3))
    assert asked == [answers(1.0 + 2.0j), answers(np.array([1j])), *[answers(np.ones(3))] * (len(asked) - 2)]
    assert isinstance(Dual(1.0 + 2.0j), complex) and not isinstance(Dual(1.0 + 2.0j), float)


def test_elements_views_and_results():
    def f(x):
        assert isinstance(x[0], np.float64) and isinstance(x[1:], np.ndarray) and isinstance(np.sum(x), float)
        assert isinstance(x > 1.0, np.ndarray) and isinstance(x[:0], np.ndarray)
        y = np.zeros_like(x)
        view = y[1:]
        y[1] = x[0] ** 2  # y becomes what x is, and so does its view
        assert isinstance(view, np.ndarray) and isinstance(view, type(x))
        return np.sum(view * x[1:])

    X = np.array([2.0, 3.0, 5.0])
    for verb in (gradient, grad, lambda f: jit(grad(f))):
        np.testing.assert_array_equal(verb(f)(X), [12.0, 4.0, 0.0])


def area(x):
    """Code of users that asks what it was given."""
    if isinstance(x, np.ndarray):
        return np.sum(x**2)
    if np.isscalar(x):
        return 10.0 * x
    return 0.0 * x


@functools.singledispatch
def size_of(x):
    return 0.0 * x


@size_of.register
def _(x: np.ndarray):
    return np.sum(x**3)


@size_of.register
def _(x: float):
    return 5.0 * x


def by_pattern(x):
    match x:
        case float():
            return 7.0 * x
        case np.ndarray():
            return np.sum(np.sin(x))
    return 0.0 * x


@pytest.mark.parametrize("f", [area, size_of, by_pattern])
@pytest.mark.parametrize("value", [2.0, np.float64(2.0), np.array([1.0, 2.0])], ids=repr)
def test_the_branch_is_that_of_plain_values(f, value):
    """The derivative is that of what plain values go through: central differences."""
    h = 1e-6
    value_h = [value + h * e for e in ([1.0, -1.0] if np.ndim(value) == 0 else [np.array([1.0, 0.0]), np.array([-1.0, 0.0])])]
    expected = (f(value_h[0]) - f(value_h[1])) / (2 * h)
    for verb in (gradient, grad, lambda f: jit(grad(f))):
        np.testing.assert_allclose(np.ravel(verb(f)(value))[0], expected, rtol=1e-7)
    assert jvp(f, (value,), (value,))[0] == f(value)


def test_a_dual_stays_a_dual_to_those_who_look_at_types():
    x = Dual(np.arange(3.0), np.ones(3))
    assert type(x) is Dual and isinstance(x, Dual) and isinstance(x, np.ndarray)
    assert not {"strides", "ctypes", "__array_struct__"} & set(dir(x)) and "tangent" in dir(x)
    assert len(optree.tree_leaves([x, (x,)])) == 2
    assert type(copy.copy(x)) is Dual and copy.copy(x) is not x
    assert super(Dual, x).__len__() == 3

    @dataclasses.dataclass
    class Binary:
        a: object
        b: object

    s = Dual(2.0, 1.0)
    assert Binary(s, 1) == Binary(s, 1) and dataclasses.replace(Binary(s, 1), b=2).a is s


@pytest.mark.parametrize("verb", [gradient, grad])
def test_a_value_that_outlives_its_call_still_says_what_it_is(verb):
    kept = []
    verb(lambda x: (kept.append(x), np.sum(x))[1])(np.arange(3.0))
    assert isinstance(kept[0], np.ndarray)
    for use in (lambda x: x + 1.0, np.sin):
        with pytest.raises(RuntimeError, match="after the derivative call"):
            use(kept[0])


def test_containers_see_traced_values():
    """dask takes what is an array to it for a constant part of its graph; it must ask us instead."""
    da = pytest.importorskip("dask.array")
    A = np.random.default_rng(0).normal(size=(4, 4))
    B = da.from_array(A, chunks=2)
    np.testing.assert_allclose(np.asarray(grad(lambda x: np.sum(np.tanh(B @ x)))(A[0])), grad(lambda x: np.sum(np.tanh(A @ x)))(A[0]))


@pytest.mark.parametrize("value", [2.0, np.ones(2)], ids=repr)
def test_numba_does_not_compile_for_the_value(value):
    numba = pytest.importorskip("numba")
    square = numba.njit(lambda x: x * x)
    for verb in (gradient, grad):
        with pytest.raises(Exception, match=r"Cannot determine Numba type of <class '(dualad|checkpoint)") as caught:
            verb(lambda x: np.sum(square(x)))(value)
        assert "dualad.primitive" in "".join(caught.value.__notes__)
    assert not square.signatures


def test_pullbacks_of_rules_see_directions():
    """K cotangents at once are, to the rules, what one is."""
    asked = []

    @dualad.primitive
    def triple(x):
        return 3.0 * x

    def share(g, x):
        asked.append((isinstance(g, np.ndarray), np.isscalar(g)))
        return 3.0 * g

    dualad.rules.linear(triple, share)
    assert vjp(triple, np.ones(2))[1](np.ones(2))[0].tolist() == [3.0, 3.0]
    np.testing.assert_array_equal(dualad.jacobian(triple)(np.ones(2)), 3.0 * np.eye(2))
    assert set(asked) == {(True, False)}
