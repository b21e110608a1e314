"""Integers that Python asks for are paths: values and gradients are those of plain code, whichever integer is met first."""

import math
import warnings

import numpy as np
import pytest
from comparing import close

from checkpoint import Stats, chain, grad
from dualad import jit
from dualad.graph.trace import Trace
from dualad.jit.compiled import BACKENDS

pytestmark = pytest.mark.parametrize("backend", BACKENDS)

TABLE = np.array([1.0, 5.0, -2.0, 9.0])


def written(x, index, v):
    part = x[index]
    part *= 2.0  # a view
    x[index] += v
    return x


FUNCTIONS = {
    "range": lambda x, n: sum((x * k for k in range(n)), x),
    "int": lambda x, n: x * int(2.0 * np.sum(x)) + n,
    "list": lambda x, n: [np.sin, np.cos, np.tanh, np.square][n](x),
    "math": lambda x, n: x * math.floor(x[0]) + math.ceil(x[1]) - math.trunc(x[0] * 3.0),
    "length": lambda x, n: np.zeros(n) + x[0] * x[1],
    "slice": lambda x, n: x[: int(n)] * 2.0,
    "a table, too": lambda x, n: TABLE[n] * x + int(n) * x,
    "tests, too": lambda x, n: (x * 2.0 if n > 1 else x * int(n + 5)) * range(1, 7)[n],
    "again": lambda x, n: (x * int(n) if x[0] > 0.0 else x) * int(n),
    "repeated": lambda x, n: x * sum([1.0, 2.0] * n) + sum(int(n) * (x[0],)) + len(n * [0]),
    "a shift, an axis and a place": lambda x, n: np.roll(x, n) * x[[n % 2, 0]] + np.cumsum(np.outer(x, x), axis=n % 2)[0],
    "two places of one": lambda x, n: x * np.outer(x, x)[np.unravel_index(np.argmax(np.outer(x, -x)) + 0 * n, (2, 2))],
    "bounds": lambda x, n: x * np.sum(np.outer(x, x)[n % 2 : n % 2 + 1, -n:]) + x[: x.argmax() + 1][-1],
    "bounds of what is written": lambda x, n: written(x * 1.0, slice(n % 2, n % 2 + 1), x[0]),
    "bounds of a table": lambda x, n: x * np.sum(TABLE[n - 1 : n + 2]) + np.sum(np.outer(TABLE, TABLE)[1:, :n]),
    "dict": lambda x, n: x * {0: 1.0, 1: 2.0, 2: 0.5, 3: 4.0}[n] + (n in {1: "one"}),
    "truth": lambda x, n: x * [2.0, 3.0][int(x[0] > 0.5)],
}
X = np.array([0.2, 1.4])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_gradients_are_those_of_plain_code(name, backend):
    f = FUNCTIONS[name]
    fast = jit(f, backend=backend)
    loss = lambda f: lambda x, n: np.sum(f(x, n) ** 2)
    for n in (2, 0, 3, 1, 2, 3):
        for x in (X * 3.0, -X):
            close(fast(x, n), f(x, n), rtol=1e-15)
            np.testing.assert_allclose(grad(loss(fast))(x, n), grad(loss(f))(x, n), rtol=1e-14)
    assert fast.traces <= 10


def test_further_integers_are_evaluated_by_the_plain_function_with_one_warning(backend):
    f = jit(lambda x: x * int(x), backend=backend, paths=3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert [f(k + 0.5) for k in range(8)] == [(k + 0.5) * k for k in range(8)]
    assert f.traces == 3 and [str(one.message) for one in caught if "takes more than 3 paths" in str(one.message)]
    assert len(caught) == 1 and "x.astype(int)" in str(caught[0].message)


def test_what_is_no_integer_raises_the_error_of_python(backend):
    f = jit(lambda x: x * int(x), backend=backend)
    assert f(2.5) == 5.0
    for x, error in ((np.nan, ValueError), (np.inf, OverflowError)):
        with pytest.raises(error, match="cannot convert float"):
            f(x)


def test_chains(backend):
    def step(k, x):
        return x * [0.9, 1.1, 0.7][k % 3] + 0.01 * int(3.0 * x[0])

    stats = Stats()
    expected, slope = chain(step, X, steps=12), grad(lambda x: np.sum(chain(step, x, steps=12)))(X)
    np.testing.assert_allclose(chain(jit(step, backend=backend), X, steps=12, stats=stats), expected, rtol=1e-14)
    assert backend == "numpy" or "the step has taken" in stats.reason
    np.testing.assert_allclose(grad(lambda x: np.sum(chain(jit(step, backend=backend), x, steps=12)))(X), slope, rtol=1e-14)
    np.testing.assert_allclose(jit(lambda x: chain(step, x, steps=12), backend=backend)(X), expected, rtol=1e-14)


def test_where_there_are_no_paths_they_are_refused(backend):
    with Trace() as trace:
        n = trace.input(3)
        for ask, message in ((int, r"int\(\) needs .* static"), (range, "plain integer.* make a list an array .* static")):
            with pytest.raises(TypeError, match=message):
                ask(n)
        with pytest.raises(TypeError, match=r"a slice has a traced bound.* static"):
            trace.input(X)[:n]


@pytest.mark.parametrize(("a", "b"), [(7, 2), (-7, 2), (7.5, -2.0), (2**60, 7), (-0.0, 2.0)])
def test_quotients_and_remainders_of_numbers_of_python_are_such_numbers(a, b, backend):
    def f(x, a, b):
        return *divmod(a, b), *divmod(10, b), *divmod(a, 2.5), *divmod(x, b), divmod(a, b)[0] * x

    x = np.arange(1, 4, dtype=np.float32)
    with np.errstate(over="ignore"):
        expected = f(x, a, b)
    for found, right in zip(jit(f, backend=backend)(x, a, b), expected, strict=True):
        assert type(found) is type(right) and np.asarray(found).dtype == np.asarray(right).dtype
        np.testing.assert_array_equal(found, right)
