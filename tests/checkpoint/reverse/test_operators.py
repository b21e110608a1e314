"""The shortest paths of Var: what one operation more takes, in Python calls, and that their adjoints are those of other paths."""

import numpy as np
import pytest
from walking import walked

from checkpoint import grad, linearize, vjp
from dualad import jvp

M = np.rint(9.0 * np.random.default_rng(2).standard_normal((16, 20)))  # sums of which do not round
OPERATIONS = {  # of arrays that the tape does not reference itself; the calls of one, of its sum, and back
    "a product of matrices": (lambda x: np.dot(x, x.T), 56),
    "a sum with a row": (lambda x: x + x[3], 32),
    "a sum with a column": (lambda x: x - x[:, :1], 45),
    "a join": (lambda x: np.hstack([M, x]), 59),
    "a sum along an axis": (lambda x: np.sum(x, axis=1, keepdims=True), 25),
    "a part": (lambda x: x[2:, None], 18),
    "a product with a number": (lambda x: x[0, 0] * x, 38),
    "what a mask selects": (lambda x: x[M > 0.0], 39),
    "a vector turned around": (lambda x: np.roll(x[0], 3), 29),
    "another shape": (lambda x: np.reshape(x, (8, 40)), 25),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_takes_few_calls(name):
    operation, most = OPERATIONS[name]
    several = lambda n: lambda x: sum(np.sum(operation(x)) for _ in range(n))
    more, less = (walked(grad(several(n)), M) for n in (12, 2))
    assert (more.calls - less.calls) / 10 <= most


def test_a_result_of_another_dtype():
    w, pull = vjp(np.linalg.eigvals, np.random.default_rng(0).standard_normal((12, 12)))
    assert w.dtype == complex
    np.testing.assert_allclose(pull(np.ones(12))[0], np.eye(12), atol=1e-12)  # of the trace


@pytest.mark.parametrize("index", [(slice(1, 3), None), (None, 2), (slice(None), 1), (slice(None, None, -2), slice(3), None), 2, slice(4)])
def test_cotangents_of_parts_are_added_into_those_of_the_whole(index):
    part = M[index]
    g = np.arange(1.0, part.size + 1.0).reshape(part.shape)[()]
    wanted = np.zeros(M.shape)
    wanted[index] = g
    (found,) = vjp(lambda x: x[index], M)[1](g)
    np.testing.assert_array_equal(found, wanted)
    (twice,) = vjp(lambda x: (x[index], x * 2.0, x[index]), M)[1]((g, M, g))
    np.testing.assert_array_equal(twice, 2.0 * wanted + 2.0 * M)


def test_a_number_may_be_stretched_over_large_arrays():
    low = np.linspace(-1.0, 1.0, 3000)
    high = low + 0.3
    assert grad(lambda x: np.sum(np.clip(x, low, high)))(0.2) == np.sum((low < 0.2) & (high > 0.2))


def stretched(n):
    """Return programs in which arrays of so many rows are stretched, and what they are of."""
    large, row, column = (np.random.default_rng(n).standard_normal(shape) for shape in ((n, 20), 20, (n, 1)))
    return [
        (lambda x: large + x, (row,)),
        (lambda x: x - large, (column,)),
        (lambda x: x * row / column, (large,)),
        (lambda x, y: (x - y) * y, (large, column)),
        (lambda x, y: x / (y * y + 1.0), (row, large)),
        (lambda x, y: np.arctan(x * y) * (large > 0.0), (column, row)),
        (lambda x, y: (x + y) + y, (np.array(0.7), large)),
        (lambda x: x[:, np.int64(3)] + x[np.int64(0), :1], (large,)),
        (lambda x, y: x ** (y / x) - y * x, (np.float64(2.0), large)),
        (lambda x: (x - large) * (row / x) + (x + x) * column, (np.float64(0.7),)),
        (lambda x: (np.sum(x) * row - np.sum(x * x)) / np.sum(x[0] * x), (column,)),
    ]


@pytest.mark.parametrize("n", [3, 40])
def test_arrays_that_are_stretched_have_the_derivatives_of_all_their_copies(n):
    rng = np.random.default_rng(1)
    for f, args in stretched(n):
        value, pull = vjp(f, *args)
        assert value.tobytes() == f(*args).tobytes()
        tangents = tuple(rng.standard_normal(x.shape) for x in args)
        g = rng.standard_normal(value.shape)
        along = f(*(x + 1e-20j * t for x, t in zip(args, tangents, strict=True))).imag / 1e-20
        assert sum(np.sum(s * t) for s, t in zip(pull(g), tangents, strict=True)) == pytest.approx(np.sum(g * along), rel=1e-12)


@pytest.mark.parametrize("n", [3, 40])
def test_what_is_pushed_over_a_tape_is_stretched_with_its_value(n):
    rng = np.random.default_rng(2)
    for f, args in stretched(n):
        of_sum = lambda *args, f=f: np.sum(f(*args) + 0.5)  # which adds up a tangent of the result's shape
        tangents = tuple(rng.standard_normal(x.shape) for x in args)
        assert linearize(of_sum, *args)[1](*tangents) == pytest.approx(jvp(of_sum, args, tangents)[1], rel=1e-12)
