"""jacobian_rows and recorded jacobian_columns: the matrix that checkpoint.jacobian gives, from one recording."""

import tracemalloc

import numpy as np
import pytest
from in_groups import for_each

import dualad
from checkpoint import CTZ, chain, jacobian, jacobian_columns, jacobian_rows, linearize

X = np.array([0.5, -1.5, 2.0, 0.25])
M = np.arange(12.0).reshape(3, 4) / 7.0


def writes(x):
    y = np.zeros_like(x)
    y[1:] = x[:-1] * 3.0
    y[::2] += x[::2] ** 2
    y[0] = 5.0
    z = y.reshape(2, 2).T
    z[0, 1] = y[3] * x[0]
    return np.concatenate([y, np.ravel(z)])


def scalars(x):
    total = 1.0
    for value in x:
        total = total * value + np.sin(value)
    return total


PROGRAMS = {
    "matmul": lambda x: np.tanh(M @ x),
    "elements": lambda x: np.stack([x[0] * x[1], np.sin(x[2]), np.sum(x * x)]),
    "writes": writes,
    "scalars": scalars,
    "reductions": lambda x: np.outer(np.sort(x), x / np.linalg.norm(x)) + np.max(x),
    "solve": lambda x: np.linalg.solve(np.eye(4) * 3 + np.outer(x, x), x),
    "svd": lambda x: np.linalg.svd(np.outer(x, np.ones(3)) + M.T)[1],
    "fft": lambda x: np.abs(np.fft.fft(x)) ** 2,
    "where": lambda x: np.where(x > 0, x**3, np.exp(x))[[0, 2, 2, 3]],
    "complex": lambda x: np.exp(1j * x),
    "constant": lambda x: np.ones(3),
    "identity": lambda x: x,
    "big": lambda x: np.sum(np.sin(x[:, None] * np.linspace(0, 1, 300)), axis=0),
    "chain": lambda x: chain(lambda k, x, p: np.sin(x) * p, x, x[0], steps=5, schedule=CTZ()),
}


@for_each("chunk", [1, 3, None], str)
@pytest.mark.parametrize("verb", [jacobian_rows, jacobian_columns])
@pytest.mark.parametrize("name", PROGRAMS)
def test_they_are_the_jacobian(name, verb, chunk, entries):
    f = PROGRAMS[name]
    expected = np.asarray(jacobian(f)(X))
    np.testing.assert_allclose(expected, dualad.jacobian(f)(X), rtol=1e-10, atol=1e-13)
    out = np.full(expected.shape, np.nan, expected.dtype)
    assert verb(f, X, chunk, out=out) is out
    np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-14)
    size = expected.size // X.size
    if verb is jacobian_rows:
        rows = list(verb(f, X, chunk))
        assert [i for i, _ in rows] == list(range(size)) and all(row.shape == X.shape for _, row in rows)
        np.testing.assert_array_equal(np.stack([row for _, row in rows]).reshape(expected.shape), out)
    else:
        columns = list(verb(f, X, chunk))
        assert [j for j, _ in columns] == [0, 1, 2, 3] and all(np.shape(column) == np.shape(f(X)) for _, column in columns)
        np.testing.assert_array_equal(np.stack([column for _, column in columns], axis=-1), out)


@pytest.mark.parametrize("verb", [jacobian_rows, jacobian_columns])
def test_the_function_is_evaluated_once(verb):
    calls = []

    def f(x):
        calls.append(1)
        return np.tanh(M @ x)

    results = verb(f, X, chunk=1)
    assert not calls
    assert len(list(results)) in (3, 4) and len(calls) == 1
    calls.clear()
    verb(f, X, 1, out=np.empty((3, 4)), memory="1 MB")
    assert len(calls) == 1


@pytest.mark.parametrize("verb", [jacobian_rows, jacobian_columns])
def test_budgets(verb):
    n = 200
    x = np.linspace(0.0, 1.0, n)
    f = lambda x: np.cumsum(np.sin(x)) * x
    expected = jacobian(f)(x)
    np.testing.assert_allclose(verb(f, x, out=np.empty((n, n)), memory="300 kB"), expected, rtol=1e-12, atol=1e-15)
    tracemalloc.start()
    try:
        verb(f, x, out=np.empty((n, n)), memory="300 kB")
        peak = tracemalloc.get_traced_memory()[1] - 8 * n * n
    finally:
        tracemalloc.stop()
    assert peak < 350_000
    with pytest.raises(ValueError, match=f"{verb.__name__}: memory='3 kB' is less than one {verb.__name__[9:-1]} takes"):
        verb(f, x, out=np.empty((n, n)), memory="3 kB")


@pytest.mark.parametrize("verb", [jacobian_rows, jacobian_columns])
def test_budgets_of_chains(verb):
    out = verb(PROGRAMS["chain"], X, out=np.empty((4, 4)), memory="10 MB")
    np.testing.assert_allclose(out, jacobian(PROGRAMS["chain"])(X), rtol=1e-12)


@pytest.mark.parametrize("verb", [jacobian_rows, jacobian_columns])
def test_wrong_calls(verb):
    for call, error, reason in (
        (lambda: verb(np.sin, [1.0, 2.0]), TypeError, "x is a pytree"),
        (lambda: next(verb(lambda x: (x, x), X)), TypeError, "f returned a pytree"),
        (lambda: verb(1.0, X), TypeError, "the first argument is float"),
        (lambda: verb(np.sin, X, 0), ValueError, "chunk is 0"),
        (lambda: verb(np.sin, X + 1j), TypeError, "an input is complex"),
        (lambda: verb(PROGRAMS["matmul"], X, out=np.empty((4, 3))), ValueError, r"out has shape \(4, 3\), the Jacobian \(3, 4\)"),
    ):
        with pytest.raises(error, match=f"{verb.__name__}: {reason}"):
            call()
    z = X + 1j
    np.testing.assert_allclose(verb(np.sin, z, out=np.empty((4, 4), complex), holomorphic=True), np.diag(np.cos(z)), rtol=1e-14)


def test_rows_in_another_layout_are_written_too():
    """A view of an array in Fortran order, in whose copy a reshape is no view."""

    def f(x):
        y = x * 1.0
        v = y.T.reshape(-1)
        v[1] = x[1, 1] ** 2
        return y

    x = np.asfortranarray(np.arange(6.0).reshape(2, 3) + 1.0)
    tangent = np.cos(x)
    np.testing.assert_array_equal(linearize(f, x)[1](tangent), dualad.jvp(f, (x,), (tangent,))[1])
    expected = dualad.jacobian(f)(x)
    for verb in (jacobian_rows, jacobian_columns):
        np.testing.assert_array_equal(verb(f, x, out=np.empty((2, 3, 2, 3))), expected)
