"""Closed forms of gradients, Jacobians, Hessians and higher derivatives; the digits of single functions are in test_accuracy."""

import math

import numpy as np
import pytest
from in_groups import for_each

from checkpoint import grad
from checkpoint import jacobian as reverse_jacobian
from dualad import derivative, gradient, hessian, jacobian, jvp

NAN = np.nan
#: of a parabola of moments, of zeros in a product, of a vector whose norm is 13
X, ZEROS, V = np.array([1.0, 2.0, 4.0, 9.0]), [2.0, 0.0, 3.0, 0.0], np.array([3.0, -4.0, 12.0])
SINGULAR = np.array([[5.0, 5.0, 6.0], [8.0, 11.0, 12.0], [13.0, 16.0, 18.0]])  # its last row is the sum of the others
COFACTORS = np.array([[(-1) ** (i + j) * np.linalg.det(np.delete(np.delete(SINGULAR, i, 0), j, 1)) for j in range(3)] for i in range(3)])
BY_COLUMNS = [[1, 0], [-1, 0], [0, 1], [0, -1]]
APART = np.zeros((4, 4))
APART[1, 3] = APART[3, 1] = 6.0


@for_each(
    "f, x, expected",
    [
        (np.var, X, (X - 4) / 2),
        (lambda x: np.var(x, ddof=1), X, 2 * (X - 4) / 3),
        (np.std, X, (X - 4) / 4 / np.std(X)),
        (lambda x: np.sum(np.linalg.norm(x, axis=np.int64(1))), np.outer(V, [3.0, 4.0]), np.outer(np.sign(V), [0.6, 0.8])),
        (np.prod, ZEROS, [0.0, 0.0, 0.0, 0.0]),
        (np.prod, ZEROS[:3], [0.0, 6.0, 0.0]),
        (np.linalg.det, SINGULAR, COFACTORS),
        (np.linalg.det, np.diag([2.0, 3.0, 0.0]), np.diag([0.0, 0.0, 6.0])),
        (np.linalg.det, np.zeros((3, 3)), np.zeros((3, 3))),
        (lambda a: np.sum(np.linalg.svd(a, compute_uv=False)), np.eye(2), np.eye(2)),
        # what is NaN has no share
        (np.nansum, [1.0, NAN, 3.0], [1.0, 0.0, 1.0]),
        (np.nanmean, [1.0, NAN, 3.0], [0.5, 0.0, 0.5]),
        (np.nanmax, [1.0, NAN, 3.0], [0.0, 0.0, 1.0]),
        (np.nanmedian, [1.0, NAN, 3.0], [0.5, 0.0, 0.5]),
        (lambda x: np.sum(np.nan_to_num(x)), [1.0, NAN, 3.0], [1.0, 0.0, 1.0]),
        (np.nanstd, [2.0, NAN, 2.0], [0.0, 0.0, 0.0]),
        (lambda x: np.nanquantile(x, 0.5, weights=[1.0, 9.0, 1.0, 1.0], method="inverted_cdf"), [3.0, NAN, 2.0, 1.0], [0.0, 0.0, 1.0, 0.0]),
        (lambda x: np.quantile(x, 0.3), [3.0, 1.0, 2.0], [0.0, 0.4, 0.6]),
        (lambda q: np.quantile([3.0, 1.0, 2.0], q), 0.3, 2.0),
        (lambda x: np.sum(np.piecewise(x, [x > 0], [np.log, lambda x: x * x])), [2.0, 0.0, -3.0], [0.5, 0.0, -6.0]),
        (lambda x: np.sum(np.select([x > 0, x <= 0], [np.sqrt(np.abs(x)), x])), [4.0, 0.0], [0.25, 1.0]),
        (lambda y: np.nextafter(1.5, y), 2.0, 0.0),
    ],
)
@pytest.mark.parametrize("verb", [gradient, grad])
def test_gradients(verb, f, x, expected):
    np.testing.assert_allclose(verb(f)(np.array(x) if np.ndim(x) else x), expected, rtol=1e-13, atol=1e-9 if x is SINGULAR else 1e-14)


@for_each(
    "f, x, expected",
    [
        (np.cumprod, ZEROS, [[1, 0, 0, 0], [0, 2, 0, 0], [0, 6, 0, 0], [0, 0, 0, 0]]),
        (np.cumprod, X, np.tril(np.cumprod(X)[:, None] / X)),
        (np.unique, [2.0, 1.0, 2.0], [[0, 1, 0], [1, 0, 0]]),  # of repeated elements the first
        (lambda x: np.histogram(x, 4)[1], [0.7, -1.3, 2.1], [[0, 1 - k / 4, k / 4] for k in range(5)]),  # bins move with the data
        (np.trim_zeros, [0.0, 2.0, -3.0, 1.0, 0.0], np.eye(5)[1:4]),
        # orders as NumPy takes them
        *((lambda x, order=order: np.ravel(np.stack([x, -x]), order), X[:2], BY_COLUMNS) for order in ("f", np.str_("F"), b"F")),
        (lambda x: np.reshape(np.stack([x, -x]), -1, order="f"), X[:2], BY_COLUMNS),
    ],
)
@pytest.mark.parametrize("verb", [jacobian, reverse_jacobian])
def test_jacobians(verb, f, x, expected):
    np.testing.assert_allclose(verb(f)(np.array(x)), expected, rtol=1e-14)


@for_each(
    "f, x, expected",
    [
        (np.var, X, np.eye(4) / 2 - 1 / 8),
        (np.std, np.ones(3), np.zeros((3, 3))),
        (np.prod, ZEROS, APART),
        (np.linalg.norm, V, np.eye(3) / 13 - np.outer(V, V) / 13**3),
        (np.linalg.norm, np.zeros(2), np.zeros((2, 2))),
        (lambda x: np.logaddexp(x[0], x[1]), [2.0, 2.0], [[0.25, -0.25], [-0.25, 0.25]]),
        (lambda x: np.logaddexp2(x[0], 1.0), [1.0], [[np.log(2.0) / 4.0]]),
    ],
)
def test_hessians(f, x, expected):
    np.testing.assert_allclose(hessian(f)(np.array(x)), expected, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize(
    ("f", "expected"),
    [(np.sin, [0.0, 1.0, 0.0, -1.0, 0.0, 1.0, 0.0, -1.0]), (np.sinc, [1.0, 0.0, -(np.pi**2) / 3, 0.0, np.pi**4 / 5, 0.0, -(np.pi**6) / 7])],
)
def test_derivatives_of_all_orders_at_zero(f, expected):
    assert [derivative(f, n)(0.0) for n in range(len(expected))] == pytest.approx(expected, rel=1e-12, abs=0.0)


@pytest.mark.parametrize("n", range(6))
def test_derivatives_of_powers_at_zero(n):
    """The k-th derivative of x**n at 0 is n! where k = n, else 0."""
    for k in range(n + 3):
        expected = float(math.factorial(n)) if k == n else 0.0
        for f in (lambda x: x**n, lambda x: x ** float(n), lambda x: np.power(x, n), lambda x: np.sum(np.power(x * np.ones(2), n)) / 2):
            assert derivative(f, k)(0.0) == expected


def test_ldexp_and_nextafter():
    assert jvp(lambda x: np.ldexp(x, 3), (1.5,), (2.0,)) == (12.0, 16.0)
    assert jvp(lambda x: np.nextafter(x, 2.0), (1.5,), (2.0,)) == (np.nextafter(1.5, 2.0), 2.0)
