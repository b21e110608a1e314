"""Plain arrays that are indexed by traced integers: from outside, wherever they are held, and made by NumPy inside."""

import dataclasses
import math
from math import exp
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from comparing import close
from numpy import linspace

from checkpoint import chain, grad, jacobian
from dualad import adapt, jit, jvp

X = np.array([0.3, -1.2, 2.0, 0.1, 0.7])
TABLE = np.arange(12.0).reshape(3, 4)
SQUARES = np.arange(10.0) ** 2
HELD = {"list": [SQUARES, SQUARES + 1.0], "deep": (1, {"a": [SQUARES]})}


KNOTS, CHOICE = np.linspace(0.0, 1.0, 8) ** 2, np.array([True, False, True])


def interpolated(y, x):
    """Values between knots, of which other arrays are made besides."""
    steps = np.diff(KNOTS)
    matrix = np.eye(8)
    matrix[np.arange(1, 7), np.arange(6)] = steps[:-1]  # a plain array into a plain one
    j = np.clip(np.searchsorted(KNOTS, x) - 1, 0, 6)
    slopes = np.linalg.solve(matrix, y)
    return slopes[j] + (x - KNOTS[j]) / steps[j] * (y[j + 1] - y[j]) * (2.0 if TABLE[1, 2] > 0.0 else float(TABLE[0, 0]))


def indexed(x):
    j = np.argmax(x)
    rows = sum(row[j] * row.max() for row in TABLE)
    chosen = TABLE.take(j) + np.where(CHOICE[j % 3], x, 2.0 * x) + TABLE[[0, 1]][0, j] * TABLE.sum()
    return rows + TABLE.T[j, 1] * x + TABLE[1:, j] @ x[:2] + chosen


def made_of_tables(x):
    """Arrays that NumPy's functions make of others."""
    j = np.argmax(x)
    q, r = np.linalg.qr(TABLE[:, :3] + np.eye(3))
    return x[0] * np.stack(
        [
            np.concatenate((KNOTS, KNOTS))[j],
            np.where(KNOTS > 0.5, KNOTS, 0.0)[j],
            np.stack((KNOTS, KNOTS))[1, j],
            np.outer(KNOTS, KNOTS)[j, 1],
            np.einsum("i,i->i", KNOTS, KNOTS)[j],
            np.split(np.tile(KNOTS, 2), 2)[1][j],
            np.take(KNOTS, j) + np.take(TABLE, indices=j % 3, axis=0)[0],
            KNOTS.take([1, 2, 3])[j % 3] + (q @ r)[j % 3, 1],
        ]
    )


@pytest.mark.parametrize("f", [lambda x: interpolated(np.sin(np.arange(8.0) * x[0]), x / 2.0), lambda x: indexed(x[:4]), made_of_tables])
def test_an_array_outside_that_is_indexed_by_a_traced_integer_is_a_plain_one_besides(f):
    for x in (X, X[::-1].copy()):
        got, expected = jit(f, backend="numpy")(x), f(x)
        np.testing.assert_array_equal(got, expected)
        assert type(got) is type(expected)
        np.testing.assert_allclose(jacobian(jit(f))(x), jacobian(f)(x), rtol=1e-12)


class Pair(NamedTuple):
    name: str
    table: Any


class Material:
    shared = SQUARES + 3.0

    def __init__(self):
        self.own, self.calls = SQUARES - 2.0, []
        self.itself = self

    def at(self, x):
        return self.own[places(x)] * x + self.itself.own[0]

    def of_the_class(self, x):
        return self.shared[places(x)] * x


@dataclasses.dataclass(frozen=True)
class Frozen:
    table: Any


MATERIAL, FROZEN, SPACE, PAIR = Material(), Frozen(SQUARES), SimpleNamespace(table=SQUARES), Pair("a", SQUARES)


def places(x):
    return (np.abs(x) * 3.0).astype(int) % 10


def through(table, places):
    return table[places]


def within(x):
    inside = np.zeros(10)
    inside[2:5] = 1.0
    return inside[places(x)] * x


WHERE = {
    "a list": lambda x: HELD["list"][1][places(x)] * x,
    "a dict in a tuple": lambda x: HELD["deep"][1]["a"][0][places(x)] * x,
    "a named tuple": lambda x: PAIR.table[places(x)] * x,
    "a namespace": lambda x: SPACE.table[places(x)] * x,
    "an object": lambda x: MATERIAL.own[places(x)] * x,
    "a frozen dataclass": lambda x: FROZEN.table[places(x)] * x,
    "a method": MATERIAL.at,
    "a method, of the class": MATERIAL.of_the_class,
    "an argument of another function": lambda x: through(SQUARES, places(x)) * x,
    "arange": lambda x: np.arange(10.0)[places(x)] * x,
    "an array of literals": lambda x: np.array([1.0, -1.0])[(x > 0.2).astype(int)] * x,
    "one place": lambda x: x * TABLE[1, places(x)[0] % 4] + TABLE[2].take(places(x)[1] % 4),
    "linspace by its own name": lambda x: linspace(0.0, 1.0, 10)[places(x)] * x,
    "functions of such": lambda x: np.cos(np.linspace(0.0, 1.0, 10) + 1.0)[places(x)] * x,
    "in a submodule": lambda x: np.fft.fftfreq(10)[places(x)] * x,
    "one of several results": lambda x: np.meshgrid(np.arange(10.0), np.arange(3.0))[0][1][places(x)] * x,
    "integers that are an index": lambda x: x[np.arange(5)[::-1][places(x) % 5]] ** 2,
    "taken from": lambda x: np.take(np.arange(10.0), places(x)) * x,
    "assigned to": within,
}


@pytest.mark.parametrize("f", WHERE.values(), ids=WHERE)
def test_wherever_it_is_held_or_made(f):
    for x in (X, X[::-1].copy()):
        got = jit(f)(x)
        assert type(got) is np.ndarray
        np.testing.assert_array_equal(got, f(x))
    np.testing.assert_allclose(jit(grad(lambda x: np.sum(f(x) ** 2)))(X), grad(lambda x: np.sum(f(x) ** 2))(X), rtol=1e-12)
    turn = lambda k, x: 0.1 * np.sin(f(x)) + x
    expected = grad(lambda x: np.sum(chain(turn, x, steps=5)))(X)
    np.testing.assert_allclose(grad(lambda x: np.sum(chain(jit(turn), x, steps=5)))(X), expected, rtol=1e-12)


def test_what_is_held_stays_what_it_is():
    before = [type(MATERIAL.own), type(HELD["list"][0]), type(SPACE.table), np.arange]
    jit(MATERIAL.at)(X)
    jit(WHERE["a list"])(X)
    assert before == [type(MATERIAL.own), type(HELD["list"][0]), type(SPACE.table), np.arange] and before[0] is np.ndarray


@pytest.mark.parametrize("backend", [None, "numpy"])
def test_functions_of_math_take_traced_numbers_and_give_pythons(backend):
    def f(x):
        near = math.isclose(x, 0.7) or math.floor(x) > 3
        numbers = [math.sin(x), exp(-x), math.hypot(x, 1.0), math.log(x, 2), math.pi * x, 1.0 if near else 2.0]
        return [*numbers, math.sqrt(x) * np.ones(2, np.float32)]

    got, expected = jit(f, backend=backend)(0.7), f(0.7)
    close(got, expected, rtol=1e-15)
    assert list(map(type, got)) == list(map(type, expected))
    g = lambda x: math.sin(x) * exp(x)
    np.testing.assert_allclose(grad(jit(g, backend=backend))(0.7), (math.cos(0.7) + math.sin(0.7)) * exp(0.7), rtol=1e-14)


@pytest.mark.parametrize("fn", [math.sin, math.fabs, lambda x: math.pow(x, 41), lambda x: math.pow(x, -1)])
def test_functions_of_math_make_doubles_of_other_numbers(fn):
    of_first = lambda x: fn(x[0])
    for x in (np.float32([0.3, 0.7]), np.array([3, 2]), np.uint8([7, 1])):
        value = jit(of_first)(x)
        assert type(value) is float and value == pytest.approx(of_first(x), rel=4e-16)


def test_steps_ask_math_for_functions_of_k():
    turn = lambda k, x: x + 0.1 * math.sin(0.2 * k) * np.cos(x)
    loss = lambda turn: grad(lambda x: np.sum(chain(turn, x, steps=20)))
    np.testing.assert_allclose(loss(jit(turn))(X), loss(turn)(X), rtol=1e-13)


def ranks(x):
    order, found = np.argsort(x), np.empty(5)
    found[order] = np.linspace(0.0, 1.0, 5)
    return x * found


def counted_twice(x):
    total = np.zeros(3)
    np.add.at(total, (np.abs(x) > 0.5).astype(int), 1.0)
    return x * total[0] + total[1]


def swept(x):
    """The sweep forth of Thomas' algorithm, into an array of plain numbers."""
    c = np.zeros(5)
    c[0] = x[0] / 3.0
    for i in range(1, 5):
        c[i] = x[i] / (3.0 - c[i - 1])
    return c


@pytest.mark.parametrize("f", [ranks, counted_twice, swept])
def test_an_array_made_inside_is_written_to(f):
    """At traced integers, and traced values."""
    for x in (X, X[::-1] * 2.0):
        np.testing.assert_array_equal(jit(f)(x), f(x))
        np.testing.assert_allclose(grad(lambda x: np.sum(jit(f)(x)))(x), jacobian(adapt(f))(x).sum(axis=0), rtol=1e-13)


def limited(x):
    """Slopes of the rows of an array that NumPy makes of traced ones, an array of objects."""
    rows = np.array([x, x * x])
    ahead, behind = np.roll(rows, -1, axis=1) - rows, rows - np.roll(rows, 1, axis=1)
    slope = (np.sign(ahead) + np.sign(behind)) * np.minimum(np.abs(ahead), np.abs(behind))
    return x * 2.0 if x[0] > 10.0 else slope.sum(axis=0)


def test_an_array_of_objects_asks_for_no_paths():
    f = jit(limited, paths=1)  # a second one warns
    for x in (X, X[::-1], -X):
        np.testing.assert_array_equal(f(x), limited(x))
        np.testing.assert_allclose(grad(lambda x: np.sum(f(x)))(x), jacobian(limited)(x).sum(axis=0), rtol=1e-13)


def test_a_tie_of_numbers_is_none_of_an_array_of_objects():
    f = jit(lambda y: np.where(np.sum(np.array([y[0], y[1]])) * 0.0 + y[0] >= y[1], y[0], y[1]), paths=1)
    assert (f(np.ones(2)), f(np.array([1.0, 2.0])), f(np.array([3.0, 2.0]))) == (1.0, 2.0, 3.0)


def pair(x):
    return np.array([x[0] * x[1], x[2]])


HANDED_OUT = {
    "np.interp": lambda x: np.interp(pair(x), [-1.0, 1.0], pair(-x)),
    "np.linalg.solve": lambda x: np.linalg.solve(np.array([[x[0], x[1]], [x[1], x[2]]]), pair(x)),
    "np.fft.rfft": lambda x: np.fft.rfft(np.array([*x, 1.0])).imag,
    "np.isfinite": lambda x: x[0] * np.all(np.isfinite(pair(x))),
    "sums of arrays": lambda x: np.linalg.norm(np.array([x * 2.0, -x]), axis=0),
}


def test_arrays_made_of_traced_numbers_are_taken_by_functions_that_do_not_ask_for_them():
    for f in HANDED_OUT.values():
        fast = jit(f, backend="numpy")
        for x in (X[:3], X[2:]):
            np.testing.assert_array_equal(fast(x), f(x))
            slope = (f(x * (1.0 + 1e-6)) - f(x * (1.0 - 1e-6))) / 2e-6
            np.testing.assert_allclose(jvp(fast, (x,), (x,))[1], slope, rtol=1e-7, atol=1e-8)


def test_a_type_error_of_the_function_stays_its_own():
    def f(x):
        raise TypeError("of the function")

    with pytest.raises(TypeError, match=r"^of the function"):
        jit(f)(X)
