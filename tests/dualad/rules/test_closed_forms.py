"""Oracles from outside: mpmath's derivatives at 30 digits, the complex step, closed forms of higher derivatives."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from checkpoint import grad
from dualad import derivative, gradient, hessian, jacobian, jvp
from dualad.rules import ROWS
from dualad.rules.calling import public_name
from dualad.rules.kinds import Elementwise
from dualad.rules.ufuncs import fraction

mpmath.mp.dps = 40
NUMBERS = [-2.3, -0.7, -1e-3, 1e-6, 0.2, 0.9, 3.1]

#: ufunc of one argument: (the same in mpmath, points)
UNARY = {
    np.negative: (lambda x: -x, NUMBERS),
    np.positive: (lambda x: +x, NUMBERS),
    np.square: (lambda x: x * x, NUMBERS),
    np.reciprocal: (lambda x: 1 / x, NUMBERS),
    np.absolute: (abs, NUMBERS),
    np.fabs: (abs, NUMBERS),
    np.sqrt: (mpmath.sqrt, [1e-9, 0.3, 2.0, 1e9]),
    np.cbrt: (lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)), NUMBERS),
    np.exp: (mpmath.exp, [*NUMBERS, -300.0, 300.0]),
    np.exp2: (lambda x: mpmath.mpf(2) ** x, NUMBERS),
    np.expm1: (mpmath.expm1, [*NUMBERS, 1e-12]),
    np.log: (mpmath.log, [1e-300, 0.3, 2.0, 1e300]),
    np.log2: (lambda x: mpmath.log(x, 2), [0.3, 2.0, 9.0]),
    np.log10: (mpmath.log10, [0.3, 2.0, 9.0]),
    np.log1p: (mpmath.log1p, [-0.999, -1e-9, 1e-9, 0.5, 1e9]),
    np.sin: (mpmath.sin, NUMBERS),
    np.cos: (mpmath.cos, NUMBERS),
    np.tan: (mpmath.tan, NUMBERS),
    np.arcsin: (mpmath.asin, [-0.999999, -0.3, 1e-9, 0.7, 0.999999]),
    np.arccos: (mpmath.acos, [-0.999999, -0.3, 1e-9, 0.7, 0.999999]),
    np.arctan: (mpmath.atan, [*NUMBERS, 1e8]),
    np.sinh: (mpmath.sinh, NUMBERS),
    np.cosh: (mpmath.cosh, NUMBERS),
    np.tanh: (mpmath.tanh, NUMBERS),
    np.arcsinh: (mpmath.asinh, [*NUMBERS, 1e8]),
    np.arccosh: (mpmath.acosh, [1.000001, 1.5, 9.0, 1e8]),
    np.arctanh: (mpmath.atanh, [-0.999999, -0.3, 1e-9, 0.7, 0.999999]),
    np.deg2rad: (mpmath.radians, NUMBERS),
    np.radians: (mpmath.radians, NUMBERS),
    np.rad2deg: (mpmath.degrees, NUMBERS),
    np.degrees: (mpmath.degrees, NUMBERS),
    fraction: (lambda x: x - mpmath.floor(x), [0.3, 1.7]),
    np.conjugate: (lambda x: x, NUMBERS),
    np.real: (lambda x: x, NUMBERS),
    np.imag: (lambda x: 0 * x, NUMBERS),
}
PAIRS = [(0.3, 0.7), (2.5, -1.2), (1.5, 4.0), (3.0, 1e-3)]
BINARY = {
    np.add: (lambda x, y: x + y, PAIRS),
    np.subtract: (lambda x, y: x - y, PAIRS),
    np.multiply: (lambda x, y: x * y, PAIRS),
    np.divide: (lambda x, y: x / y, PAIRS),
    np.power: (lambda x, y: x**y, PAIRS),
    np.float_power: (lambda x, y: x**y, PAIRS),
    np.arctan2: (mpmath.atan2, [*PAIRS, (-0.3, -2.0), (1e-9, 1.0)]),
    np.hypot: (mpmath.hypot, [*PAIRS, (1e-9, 1.0)]),
    np.logaddexp: (lambda x, y: mpmath.log(mpmath.exp(x) + mpmath.exp(y)), [*PAIRS, (800.0, 801.5), (-900.0, 3.0)]),
    np.logaddexp2: (lambda x, y: mpmath.log(mpmath.mpf(2) ** x + mpmath.mpf(2) ** y, 2), [*PAIRS, (1000.0, 1001.5)]),
    np.maximum: (max, PAIRS),
    np.minimum: (min, PAIRS),
    np.fmax: (max, PAIRS),
    np.fmin: (min, PAIRS),
    np.remainder: (lambda x, y: x - y * mpmath.floor(x / y), [(7.3, 2.0), (-7.3, 2.0), (7.3, -2.0)]),
    np.fmod: (lambda x, y: x - y * (mpmath.floor(x / y) if x / y > 0 else mpmath.ceil(x / y)), [(7.3, 2.0), (-7.3, 2.0), (7.3, -2.0)]),
    np.copysign: (lambda x, y: abs(x) * mpmath.sign(y), PAIRS),
}


def name(fn):
    return public_name(fn)


@pytest.mark.parametrize("fn", UNARY, ids=name)
@pytest.mark.parametrize("order", [1, 2, 3])
def test_unary_against_mpmath(fn, order):
    same, points = UNARY[fn]
    for x in points:
        expected = float(mpmath.diff(same, mpmath.mpf(x), order, h=mpmath.mpf(abs(x)) * mpmath.mpf(10) ** -14, relative=False))
        if not math.isfinite(expected) or abs(expected) > 1e280:
            continue  # beyond double precision
        got = derivative(fn, order)(x)
        assert got == pytest.approx(expected, rel=2e-9 if order == 3 else 2e-11, abs=1e-10 if order > 1 else 1e-13), f"{x}"


@pytest.mark.parametrize("fn", BINARY, ids=name)
@pytest.mark.parametrize("i", [0, 1])
def test_binary_against_mpmath(fn, i):
    same, points = BINARY[fn]
    for point in points:
        expected = float(mpmath.diff(same, tuple(map(mpmath.mpf, point)), (1 - i, i), h=mpmath.mpf(10) ** -20))
        assert gradient(fn, i)(*point) == pytest.approx(expected, rel=1e-12, abs=1e-14), f"{point}"
        assert grad(fn, i)(*point) == pytest.approx(expected, rel=1e-12, abs=1e-14), f"{point}"


def test_every_real_elementwise_ufunc_has_an_oracle():
    known = {*UNARY, *BINARY, np.ldexp, np.nextafter}  # those two are exact: see test_ldexp_and_nextafter
    assert not [
        row.name
        for row in ROWS.values()
        if isinstance(row, Elementwise)
        and row.trusted
        and isinstance(row.fn, np.ufunc)
        and row.fn not in known
        and row.fn in vars(np).values()
    ]


def test_ldexp_and_nextafter():
    assert jvp(lambda x: np.ldexp(x, 3), (1.5,), (2.0,)) == (12.0, 16.0)
    assert jvp(lambda x: np.nextafter(x, 2.0), (1.5,), (2.0,)) == (np.nextafter(1.5, 2.0), 2.0)
    assert gradient(lambda y: np.nextafter(1.5, y))(2.0) == 0.0


# --- closed forms -----------------------------------------------------------------------------------------------------------


def test_high_derivatives():
    assert derivative(np.exp, 12)(0.7) == pytest.approx(math.exp(0.7), rel=1e-14)
    assert [derivative(np.sin, n)(0.0) for n in range(8)] == [0.0, 1.0, 0.0, -1.0, 0.0, 1.0, 0.0, -1.0]
    assert derivative(lambda x: 1.0 / x, 7)(2.0) == pytest.approx(-math.factorial(7) / 2.0**8, rel=1e-13)
    assert derivative(lambda x: x**5, 5)(1.7) == pytest.approx(120.0)
    assert derivative(np.log, 6)(1.5) == pytest.approx(-math.factorial(5) / 1.5**6, rel=1e-12)


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


def test_moments_in_closed_form():
    x = np.array([1.0, 2.0, 4.0, 9.0])
    np.testing.assert_allclose(gradient(np.var)(x), 2 * (x - 4) / 4, rtol=1e-14)
    np.testing.assert_allclose(gradient(lambda x: np.var(x, ddof=1))(x), 2 * (x - 4) / 3, rtol=1e-14)
    np.testing.assert_allclose(gradient(np.std)(x), (x - 4) / 4 / np.std(x), rtol=1e-14)
    np.testing.assert_allclose(hessian(np.var)(x), 2 / 4 * (np.eye(4) - 1 / 4), rtol=1e-14, atol=1e-16)
