"""Closed forms of higher derivatives, products, determinants, norms and moments; the digits of single functions are in test_accuracy."""

from __future__ import annotations

import math

import numpy as np
import pytest

from checkpoint import grad
from dualad import derivative, gradient, hessian, jacobian, jvp


def test_ldexp_and_nextafter():
    assert jvp(lambda x: np.ldexp(x, 3), (1.5,), (2.0,)) == (12.0, 16.0)
    assert jvp(lambda x: np.nextafter(x, 2.0), (1.5,), (2.0,)) == (np.nextafter(1.5, 2.0), 2.0)
    assert gradient(lambda y: np.nextafter(1.5, y))(2.0) == 0.0


# --- closed forms -----------------------------------------------------------------------------------------------------------


def test_derivatives_of_the_sine_at_zero():
    assert [derivative(np.sin, n)(0.0) for n in range(8)] == [0.0, 1.0, 0.0, -1.0, 0.0, 1.0, 0.0, -1.0]


@pytest.mark.parametrize("n", range(6))
def test_derivatives_of_powers_at_zero(n):
    """The k-th derivative of x**n at 0 is n! where k = n, else 0."""
    for k in range(n + 3):
        expected = float(math.factorial(n)) if k == n else 0.0
        assert derivative(lambda x: x**n, k)(0.0) == expected
        assert derivative(lambda x: x ** float(n), k)(0.0) == expected
        assert derivative(lambda x: np.power(x, n), k)(0.0) == expected
        got = derivative(lambda x: np.sum(np.power(x * np.ones(2), n)), k)(0.0)
        assert got == 2 * expected


def test_derivatives_of_a_product_without_a_zero():
    x = np.array([2.0, 0.0, 3.0, 0.0])
    np.testing.assert_array_equal(gradient(np.prod)(x), [0.0, 0.0, 0.0, 0.0])
    np.testing.assert_array_equal(grad(np.prod)(x[:3]), [0.0, 6.0, 0.0])
    expected = np.zeros((4, 4))
    expected[1, 3] = expected[3, 1] = 6.0
    np.testing.assert_array_equal(hessian(np.prod)(x), expected)
    jac = jacobian(np.cumprod)(x)
    np.testing.assert_array_equal(jac, [[1, 0, 0, 0], [0, 2, 0, 0], [0, 6, 0, 0], [0, 0, 0, 0]])


def test_cumprod_without_zeros_is_the_closed_form():
    x = np.array([2.0, -0.5, 3.0, 4.0])
    expected = np.tril(np.cumprod(x)[:, None] / x[None, :])
    np.testing.assert_allclose(jacobian(np.cumprod)(x), expected, rtol=1e-14)


def test_determinant_of_singular_matrices():
    a = np.outer([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]) + np.diag([1.0, 1.0, 0.0])
    a[2] = a[0] + a[1]
    cofactors = np.array([[(-1) ** (i + j) * np.linalg.det(np.delete(np.delete(a, i, 0), j, 1)) for j in range(3)] for i in range(3)])
    a = a * np.array([[1.0], [1.0], [1.0]])
    np.testing.assert_allclose(gradient(np.linalg.det)(a), cofactors, atol=1e-9)
    np.testing.assert_allclose(gradient(np.linalg.det)(np.diag([2.0, 3.0, 0.0])), np.diag([0.0, 0.0, 6.0]), atol=1e-14)
    np.testing.assert_allclose(grad(np.linalg.det)(np.diag([2.0, 3.0, 0.0])), np.diag([0.0, 0.0, 6.0]), atol=1e-14)
    np.testing.assert_array_equal(gradient(np.linalg.det)(np.zeros((3, 3))), np.zeros((3, 3)))


def test_inverse_and_solve_in_closed_form():
    a, t, b = np.array([[2.0, 1.0], [0.5, 3.0]]), np.array([[0.1, -0.4], [0.7, 0.2]]), np.array([1.0, -2.0])
    inverse = np.linalg.inv(a)
    np.testing.assert_allclose(jvp(np.linalg.inv, (a,), (t,))[1], -inverse @ t @ inverse, rtol=1e-13)
    np.testing.assert_allclose(jvp(np.linalg.solve, (a, b), (t, b))[1], inverse @ b - inverse @ t @ inverse @ b, rtol=1e-13)


def test_hessian_of_the_norm():
    x = np.array([3.0, -4.0, 12.0])
    n = np.linalg.norm(x)
    np.testing.assert_allclose(hessian(np.linalg.norm)(x), np.eye(3) / n - np.outer(x, x) / n**3, rtol=1e-13, atol=1e-16)
    matrix = np.outer(x, [3.0, 4.0])
    slopes = gradient(lambda x: np.sum(np.linalg.norm(x, axis=np.int64(1))))(matrix)
    np.testing.assert_allclose(slopes, matrix / np.linalg.norm(matrix, axis=1, keepdims=True), rtol=1e-13)


def test_moments_in_closed_form():
    x = np.array([1.0, 2.0, 4.0, 9.0])
    np.testing.assert_allclose(gradient(np.var)(x), 2 * (x - 4) / 4, rtol=1e-14)
    np.testing.assert_allclose(gradient(lambda x: np.var(x, ddof=1))(x), 2 * (x - 4) / 3, rtol=1e-14)
    np.testing.assert_allclose(gradient(np.std)(x), (x - 4) / 4 / np.std(x), rtol=1e-14)
    np.testing.assert_allclose(hessian(np.var)(x), 2 / 4 * (np.eye(4) - 1 / 4), rtol=1e-14, atol=1e-16)
