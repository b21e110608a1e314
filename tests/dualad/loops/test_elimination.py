"""Linear algebra of a few rows in the loops: against NumPy and residuals; what is singular raises NumPy's error."""

import math

import numpy as np
import pytest
from comparing import close
from hypothesis import given, settings
from hypothesis import strategies as st
from in_groups import for_each

from checkpoint import CTZ, Stats, chain, grad, hvp
from dualad import jit, jvp
from dualad.support.costs import UNROLLED_ELEMENTS

pytest.importorskip("llvmlite", reason="llvmlite is not installed")

FUNCTIONS = {
    "solve": lambda a: np.linalg.solve(a, a[..., ::-1] + 1.0),
    "solve a vector": lambda a: np.linalg.solve(a, np.arange(1.0, a.shape[-1] + 1.0)),
    "solve for many": lambda a: np.linalg.solve(a, np.cos(np.arange(6.0 * a.shape[-1]).reshape(3, *(1,) * (a.ndim - 2), a.shape[-1], 2))),
    "solve for one side": lambda a: np.linalg.solve(a, a[..., :1]),
    "solve for too many sides": lambda a: np.linalg.solve(a, np.repeat(a, 9, -1)),
    "inv": np.linalg.inv,
    "det": np.linalg.det,
    "slogdet": np.linalg.slogdet,
    "cholesky": lambda a: np.linalg.cholesky(a @ np.swapaxes(a, -1, -2)),
}
ROWS = math.isqrt(UNROLLED_ELEMENTS // 2)
functions = pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)


def matrix(n, batch=(), seed=0):
    return np.random.default_rng(seed).standard_normal((*batch, n, n))


@pytest.mark.slow
@functions
@for_each("n, batch", [*((n, ()) for n in range(1, ROWS + 2)), (2, (5,)), (ROWS + 1, (5,)), (3, (2, 3))], str)
def test_values_and_derivatives_are_the_eager_ones(f, n, batch):
    a, t = matrix(n, batch), matrix(n, batch, 1)
    fast = jit(f)
    close(np.atleast_1d(fast(a)), np.atleast_1d(f(a)), rtol=1e-10, atol=1e-11)
    if not batch and n in (1, 4, ROWS + 1):
        loss = lambda f: lambda a: sum(np.sum(np.sin(part)) for part in (f(a) if isinstance(f(a), tuple) else (f(a),)))
        for made in (lambda a: grad(loss(f))(a), lambda a: jvp(loss(f), (a,), (t,))[1], lambda a: hvp(loss(f), a, t)):
            np.testing.assert_allclose(jit(made)(a), made(a), rtol=1e-8, atol=1e-9)


@given(st.integers(1, ROWS), st.integers(0, 2**32), st.sampled_from([0.0, 1e-20, 1e20]))
@settings(max_examples=30, deadline=None)
def test_rows_change_places_where_pivots_are_small(n, seed, first):
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((2, n, n)) * 10.0 ** rng.integers(-8, 8, (2, n, 1))
    a[0, 0] = first if n > 1 else 1.0
    x = SOLVED(a, b)
    backward = np.abs(a @ x - b) / (np.abs(a) @ np.abs(x) + np.abs(b))
    assert np.max(backward) < 1e-13


SOLVED = jit(lambda a, b: np.linalg.solve(a, b))


@pytest.mark.parametrize("dtype", [np.float32, np.int64, bool, complex])
def test_other_dtypes(dtype):
    a = np.array([[0, 1, 1], [1, 0, 1], [1, 1, 0]]).astype(dtype)
    for f in (np.linalg.inv, np.linalg.det, lambda a: np.linalg.solve(a, a[0])):
        got, expected = jit(f)(a), f(a)
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(got, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("f", "text"),
    [
        (lambda a: np.linalg.solve(a, np.ones(2)), "Singular matrix"),
        (lambda a: np.linalg.inv(a), "Singular matrix"),
        (lambda a: np.linalg.cholesky(a), "not positive definite"),
    ],
)
def test_singular_matrices_raise_what_numpy_raises(f, text):
    singular = np.array([[1.0, 2.0], [2.0, 4.0]])
    many = np.stack([np.eye(2), singular, np.eye(2)])
    for made in (jit(f), jit(grad(lambda a: np.sum(f(a))))):
        for a in (singular, many):
            made(a + np.eye(2))
            with pytest.raises(np.linalg.LinAlgError, match=text) as caught:
                made(a)
            assert "test_elimination.py, line" in caught.value.__notes__[0]
    with pytest.raises(np.linalg.LinAlgError, match=text):
        chain(jit(lambda k, a: a - f(a) * (k == 2) - np.where(k == 1, a - singular, 0.0)), np.eye(2), steps=5)


def test_determinants_of_singular_matrices_and_special_values():
    for a in (np.zeros((3, 3)), np.array([[1.0, 2.0], [2.0, 4.0]]), np.full((2, 2), np.nan), -np.eye(3)):
        with np.errstate(all="ignore"):
            for f in (np.linalg.det, np.linalg.slogdet):
                np.testing.assert_array_equal(jit(f)(a), f(a))
        assert not np.signbit(jit(np.linalg.det)(a)) or a[0, 0] == -1.0


def filtered(k, state, y, q, r):
    """A step of Kalman's filter, with the logarithm of the likelihood."""
    m, p, total = state
    p = p + q * np.eye(2)
    s, e = p + r * np.eye(2), y - m
    gain = np.linalg.solve(s, p).T
    _, logarithm = np.linalg.slogdet(s)
    return m + gain @ e, (np.eye(2) - gain) @ p, total - 0.5 * (e @ np.linalg.solve(s, e) + logarithm)


def test_a_filter_is_a_compiled_chain():
    ys, stats = np.cos(np.arange(60.0)).reshape(30, 2), Stats()

    def likelihood(step, **options):
        return lambda q, r: chain(step, (np.zeros(2), np.eye(2), 0.0), q, r, inputs=ys, **options)[2]

    expected = grad(likelihood(filtered), argnums=(0, 1))(0.3, 0.5)
    got = grad(likelihood(jit(filtered), stats=stats, schedule=CTZ()), argnums=(0, 1))(0.3, 0.5)
    np.testing.assert_allclose(got, expected, rtol=1e-12)
    assert "compiled steps" in stats.reason
    np.testing.assert_allclose(jit(grad(likelihood(filtered), argnums=(0, 1)))(0.3, 0.5), expected, rtol=1e-12)
