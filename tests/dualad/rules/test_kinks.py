"""What happens at kinks, singular points and with NaN: every line of the published table, in both modes."""

import numpy as np
import pytest
from in_groups import for_each

from checkpoint import grad, hvp, vjp
from checkpoint import jacobian as reverse_jacobian
from dualad import derivative, gradient, hessian, jacobian, jit, jvp

inf, nan = np.inf, np.nan
both = pytest.mark.parametrize("gradient", [gradient, grad], ids=["forward", "reverse"])


def assert_same(got, expected):
    np.testing.assert_array_equal(np.asarray(got), np.asarray(expected))


# --- the table --------------------------------------------------------------------------------------------------------------


@both
@for_each(
    "f, x, expected",
    [
        (np.abs, 0.0, 0.0),
        (abs, 0.0, 0.0),
        (np.fabs, 0.0, 0.0),
        (np.sign, 0.0, 0.0),
        (np.sign, 2.0, 0.0),
        (np.sqrt, 0.0, inf),
        (np.cbrt, 0.0, inf),
        (np.arcsin, 1.0, inf),
        (np.arcsin, -1.0, inf),
        (np.arccos, 1.0, -inf),
        (np.arccosh, 1.0, inf),
        (np.arctanh, 1.0, inf),
        (np.log, 0.0, inf),
        (np.log1p, -1.0, inf),
        (lambda x: x**0.5, 0.0, inf),
        (lambda x: x**-0.5, 0.0, -inf),
        (lambda x: x**0, 0.0, 0.0),
        (lambda x: x**0, -3.0, 0.0),
        (lambda x: x**0.0, 0.0, 0.0),
        (lambda x: np.power(x, 0.0), 0.0, 0.0),
        (lambda y: 0.0**y, 2.0, 0.0),
        (lambda y: 0.0**y, 0.5, 0.0),
        (lambda y: np.power(0.0, y), 1.0, 0.0),
        (lambda y: np.power(0.0, y), -1.0, -inf),
        (lambda x: np.hypot(x, 0.0), 0.0, 0.0),
        (lambda x: np.arctan2(x, 0.0), 0.0, 0.0),
        (lambda x: np.arctan2(0.0, x), 0.0, 0.0),
        (lambda x: np.maximum(x, 0.0), 0.0, 0.5),
        (lambda x: np.minimum(x, 0.0), 0.0, 0.5),
        (lambda x: np.maximum(x, x), 1.0, 1.0),
        (lambda x: np.fmax(x, 0.0), 0.0, 0.5),
        (lambda x: np.fmax(x, nan), 2.0, 1.0),
        (lambda x: np.fmin(nan, x), 2.0, 1.0),
        (lambda x: np.fmax(x, 1.0), nan, 0.0),
        (lambda x: np.copysign(x, 2.0), 0.0, 0.0),
        (lambda x: np.clip(x, 0.0, 1.0), 0.0, 1.0),
        (lambda x: np.clip(x, 0.0, 1.0), 1.0, 1.0),
        (lambda x: np.clip(x, 0.0, 1.0), -1e-9, 0.0),
        (lambda x: np.clip(0.0, x, 1.0), 0.0, 0.0),
        (lambda x: np.clip(1.0, 0.0, x), 1.0, 0.0),
        (lambda x: np.clip(-1.0, x, 1.0), 0.0, 1.0),
        (lambda x: np.clip(2.0, 0.0, x), 1.0, 1.0),
        (lambda x: np.interp(x, [0.0, 1.0, 2.0], [0.0, 1.0, 5.0]), 1.0, 4.0),
        (lambda x: np.interp(x, [0.0, 1.0, 2.0], [0.0, 1.0, 5.0]), 0.0, 1.0),
        (lambda x: np.interp(x, [0.0, 1.0, 2.0], [0.0, 1.0, 5.0]), -0.5, 0.0),
        (lambda x: np.interp(x, [0.0, 1.0, 2.0], [0.0, 1.0, 5.0]), 2.5, 0.0),
        (np.floor, 1.0, 0.0),
        (np.ceil, 1.0, 0.0),
        (np.trunc, 0.0, 0.0),
        (np.rint, 0.5, 0.0),
        (lambda x: np.heaviside(x, 0.5), 0.0, 0.0),
        (lambda x: np.remainder(x, 2.0), 4.0, 1.0),
        (lambda x: x % 2.0, 5.5, 1.0),
        (lambda x: x // 2.0, 5.5, 0.0),
        (lambda x: np.logaddexp(x, -inf), 1.0, 1.0),
        (lambda x: np.logaddexp(x, -inf), -inf, 0.5),
        # floats of Python do not raise where NumPy gives infinity
        (lambda x: 1.0 / x, 0.0, -inf),
        (lambda x: x / 0.0, 1.0, inf),
        (lambda x: x**2, 1e300, 2e300),
        (lambda x: x**2.5, 1e200, 2.5 * 1e200**1.5),
        (lambda x: x**0.5, -1.0, nan),
    ],
)
def test_scalar_kinks(gradient, f, x, expected):
    with np.errstate(all="ignore"):
        assert_same(gradient(f)(x), expected)
        assert_same(np.squeeze(gradient(lambda x: np.sum(f(x)))(np.array([x]))), expected)


@both
@for_each(
    "f, x, expected",
    [
        (lambda x: np.sum(np.sqrt(x)), [0.0, 1.0], [inf, 0.5]),
        (np.linalg.norm, [0.0, 0.0], [0.0, 0.0]),
        *((lambda x, o=o: np.linalg.norm(x, o), [0.0, 0.0], [0.0, 0.0]) for o in (None, 1, 2, 3, 0.5, 0, inf, -inf)),
        *((lambda x, o=o: np.linalg.norm(x, o), 2 * [[0.0, 0.0]], 2 * [[0.0, 0.0]]) for o in (None, "fro", "nuc", 1, -1, 2, -2, inf, -inf)),
        (lambda x: np.sum(np.linalg.norm(x, axis=1)), [[3.0, 4.0], [0.0, 0.0]], [[0.6, 0.8], [0.0, 0.0]]),
        (lambda x: np.sum(np.linalg.norm(x, 3, axis=1)), [[3.0, 0.0], [0.0, 0.0]], [[1.0, 0.0], [0.0, 0.0]]),
        (np.std, [2.0, 2.0, 2.0], [0.0, 0.0, 0.0]),
        (lambda x: np.sum(np.std(x, axis=0)), [[1.0, 2.0], [3.0, 2.0]], [[-0.5, 0.0], [0.5, 0.0]]),
        (np.max, [1.0, 3.0, 3.0], [0.0, 0.5, 0.5]),
        (np.min, [1.0, 1.0, 1.0, 2.0], [1 / 3, 1 / 3, 1 / 3, 0.0]),
        (lambda x: np.sum(np.max(x, axis=1)), [[1.0, 1.0], [2.0, 1.0]], [[0.5, 0.5], [1.0, 0.0]]),
        (lambda x: np.sum(np.max(x, axis=0, keepdims=True)), [[1.0, 1.0], [1.0, 2.0]], [[0.5, 0.0], [0.5, 1.0]]),
        (lambda x: np.max(x, axis=(0, 1)), [[1.0, 1.0], [1.0, 0.0]], [[1 / 3, 1 / 3], [1 / 3, 0.0]]),
        (lambda x: np.sum(np.maximum(x, [1.0, 3.0, 0.0, 2.0])), [1.0, 2.0, np.nan, 3.0], [0.5, 0.0, 1.0, 1.0]),
        (lambda x: np.sum(np.fmin(x, [1.0, 3.0, 0.0, 2.0])), [1.0, 2.0, np.nan, 3.0], [0.5, 1.0, 0.0, 0.0]),
        (lambda x: np.sum(np.logaddexp(x, [1.0, inf, -inf, 0.0])), [1.0, inf, -inf, -50.0], [0.5, 0.5, 0.5, np.exp(-50.0)]),
        (lambda x: np.maximum(x[0], x[1]), [2.0, 2.0], [0.5, 0.5]),
        (lambda x: np.hypot(x[0], x[1]), [0.0, 0.0], [0.0, 0.0]),
        (lambda x: np.prod(x), [0.0, 2.0, 3.0], [6.0, 0.0, 0.0]),
        (np.prod, [0.0, 0.0, 3.0], [0.0, 0.0, 0.0]),
        (lambda x: np.sum(np.where(x > 0, np.log(x), 0.0)), [0.0, 2.0], [0.0, 0.5]),
        (lambda x: np.sum(np.clip(x, 0.0, 1.0)), [-1.0, 0.0, 0.5, 1.0, 2.0], [0.0, 1.0, 1.0, 1.0, 0.0]),
        (lambda x: np.sum(np.sort(x)[:1]), [2.0, 1.0, 1.0], [0.0, 1.0, 0.0]),
        (lambda x: np.cumprod(x)[2], [0.0, 2.0, 3.0], [6.0, 0.0, 0.0]),
    ],
)
def test_array_kinks(gradient, f, x, expected):
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(gradient(f)(np.array(x)), expected, rtol=1e-15)


@both
def test_the_complex_plane(gradient):
    assert jvp(abs, (3 + 4j,), (1j,))[1] == pytest.approx(0.8)
    assert jvp(np.abs, (np.array([3 + 4j, 0j]),), (np.array([1j, 1j]),))[1] == pytest.approx([0.8, 0.0])
    value, tangent = jvp(np.sign, (3 + 4j,), (1.0 + 0j,))
    assert value == pytest.approx(0.6 + 0.8j)
    assert tangent == pytest.approx((1 - 0.6 * (0.6 + 0.8j)) / 5)
    assert jvp(np.conj, (1 + 2j,), (3 + 4j,))[1] == 3 - 4j
    assert gradient(lambda x: np.real(np.exp(1j * x)))(0.3) == pytest.approx(-np.sin(0.3))
    assert gradient(lambda x: np.abs(np.exp(1j * x) * x) ** 2)(0.3) == pytest.approx(0.6)


def test_the_sign_of_complex_extremes_compiles():
    parts = (inf, -inf, 1.0, -2.0, 0.0, 5e-324, -3e-320, 1.7e308, nan, 1e-160)
    z = np.array([complex(x, y) for x in parts for y in parts])
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(jit(np.sign)(z).view(float), np.sign(z).view(float), rtol=4e-16)
        assert jit(np.sign)(z.astype(np.complex64)).dtype == np.complex64


def test_complex_multiplication_is_linear_over_the_reals_and_pairs_without_conjugation():
    g = grad(lambda z: np.real(z * (2 + 3j)))(1 + 1j)
    assert g == 2 + 3j  # Re(g * t) is the derivative along t
    assert grad(lambda z: np.abs(z) ** 2)(3 + 4j) == pytest.approx(6 - 8j)


# --- where --------------------------------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("x", [-2.0, -1e-300, 0.0, 1e-300, 2.0])
def test_where_never_multiplies_by_the_mask(gradient, x):
    with np.errstate(all="ignore"):
        log = gradient(lambda x: np.sum(np.where(x > 0, np.log(np.where(x > 0, x, 1.0)), 0.0)))(np.array([x]))
        assert_same(log, [1.0 / x if x > 0 else 0.0])
        root = gradient(lambda x: np.sum(np.where(x >= 0, x, np.sqrt(-x))))(np.array([x]))
    assert np.isfinite(root[0]) or gradient is grad
    assert root[0] == (1.0 if x >= 0 else -0.5 / np.sqrt(-x))


def test_where_log_is_finite_at_every_x_in_forward_mode():
    x = np.array([-1.0, 0.0, 2.0])
    with np.errstate(all="ignore"):
        assert_same(gradient(lambda x: np.sum(np.where(x > 0, np.log(x), 0.0)))(x), [0.0, 0.0, 0.5])
        assert_same(np.diag(jacobian(lambda x: np.where(x > 0, np.log(x), 0.0))(x)), [0.0, 0.0, 0.5])
        assert_same(np.diag(jacobian(lambda x: np.where(x >= 0, x, np.sqrt(-x)))(x)), [-0.5, 1.0, 1.0])


# --- singular rows: a zero tangent wins over an infinite partial ------------------------------------------------------------------


def test_no_nan_where_an_infinite_partial_meets_a_zero_tangent():
    assert gradient(lambda x: np.sqrt(x * x))(0.0) == 0.0
    assert gradient(lambda x: np.sqrt(0.0 * x))(1.0) == 0.0
    assert gradient(lambda x: (x * x) ** 0.5)(0.0) == 0.0
    assert gradient(lambda x: np.cbrt(x**3))(0.0) == 0.0


POWERS = [(x, y) for x in (-2.0, -0.5, 0.0, 0.5) for y in (2, 1.5, 1, 0.5, 0, -0.5, -2)]


@both
@for_each("x, y", POWERS)
def test_powers(gradient, x, y):
    with np.errstate(all="ignore"):
        by_base = 0.0 if y == 0 else y * np.power(np.float64(x), y - 1.0)
        by_exponent = 0.0 if x == 0 and y > 0 else np.power(np.float64(x), float(y)) * np.log(np.float64(x))
        forms = [lambda x, y: x**y, np.power, np.float_power]
        for f in forms:
            assert_same(gradient(f)(x, float(y)), by_base)
            assert_same(gradient(f)(np.float64(x), y), by_base)
            assert_same(gradient(lambda x, f=f: np.sum(f(x, y)))(np.array([x])), [by_base])
            assert_same(gradient(lambda x, f=f: np.sum(f(x, np.array([float(y)]))))(np.array([x])), [by_base])
            if x or y:  # 0**0 by its exponent: the limit is -inf or 0 by the side
                assert_same(gradient(f, 1)(x, float(y)), by_exponent)
                assert_same(gradient(lambda y, f=f: np.sum(f(np.array([x]), y)))(np.array([float(y)])), [by_exponent])


# --- at second order ----------------------------------------------------------------------------------------------------------


def test_second_order_at_kinks():
    assert derivative(np.abs, 2)(0.0) == 0.0
    assert derivative(lambda x: np.maximum(x, 0.0) ** 2, 2)(0.0) == 0.5 or derivative(lambda x: np.maximum(x, 0.0) ** 2, 2)(1.0) == 2.0
    assert_same(hvp(np.linalg.norm, np.zeros(2), np.ones(2)), np.zeros(2))


@pytest.mark.parametrize("jacobian", [jacobian, reverse_jacobian], ids=["forward", "reverse"])
def test_sorting_moves_tangents_with_their_elements(jacobian):
    x = np.array([[3.0, 1.0, 2.0], [1.0, 1.0, 0.0]])
    jac = jacobian(lambda x: np.sort(x, axis=1))(x)
    for i in range(2):
        np.testing.assert_array_equal(jac[i, :, i], np.eye(3)[np.argsort(x[i], kind="stable")])
    np.testing.assert_array_equal(
        jacobian(lambda x: np.sort(x, axis=None))(x).reshape(6, 6), np.eye(6)[np.argsort(x.ravel(), kind="stable")]
    )
    assert not jac[0, :, 1].any()


@pytest.mark.parametrize("dtype", "efdFD")
@pytest.mark.parametrize("shape", [(0,), (1,), (6,), (3, 4), (4, 3, 2)])
def test_sorted_values_have_the_bits_and_the_layout_of_numpy(shape, dtype):
    x = np.cos(np.arange(np.prod(shape))).reshape(shape).astype(dtype)
    zeros, nans, infinite = x.copy(), x.copy(), x.copy()
    zeros.flat[::2], zeros.flat[::4], nans.flat[::2], infinite.flat[::3] = 0.0, -0.0, np.nan, -np.inf
    nans.flat[::4] *= -1.0
    for values in (x, abs(x), -abs(x), zeros, nans, infinite):
        for a in (values, np.asfortranarray(values)):
            for axis in (None, 0, -1):
                for options in ({}, {"kind": "heapsort"}, {"stable": True}):
                    f = lambda x: np.sort(x, axis, **options)
                    for value in (jvp(f, (a,), (a,))[0], vjp(f, a)[0]):
                        assert value.tobytes() == f(a).tobytes() and value.dtype == f(a).dtype
                        assert value.strides == f(a).strides


# --- nan_safe -----------------------------------------------------------------------------------------------------------------


def zero_tangent_meets_infinity(x):
    return np.sum((0.0 * x) * inf + x * x)


def zero_cotangent_meets_infinity(x):
    return np.sum(0.0 * (x * inf) + x * x)


X = np.array([1.0, 2.0])


def test_nan_safe_makes_zero_tangents_strong():
    with np.errstate(all="ignore"):
        f = zero_tangent_meets_infinity
        assert np.isnan(gradient(f)(X)).all()
        assert_same(gradient(f, nan_safe=True)(X), 2 * X)
        assert_same(jacobian(f, nan_safe=True)(X), 2 * X)
        assert jvp(f, (X,), (np.ones(2),), nan_safe=True)[1] == 6.0
        assert derivative(f, nan_safe=True)(3.0) == 6.0
        assert_same(hessian(f, nan_safe=True)(X), 2 * np.eye(2))
        assert_same(gradient(lambda x: np.sum(1.0 / (0.0 * x) + x), nan_safe=True)(X), [1.0, 1.0])


def test_nan_safe_makes_zero_cotangents_strong():
    with np.errstate(all="ignore"):
        f = zero_cotangent_meets_infinity
        assert np.isnan(grad(f)(X)).all()
        assert_same(grad(f, nan_safe=True)(X), 2 * X)
        assert_same(reverse_jacobian(f, nan_safe=True)(X), 2 * X)
        assert_same(hvp(f, X, np.ones(2), nan_safe=True), [2.0, 2.0])
        assert grad(f, nan_safe=True)(3.0) == 6.0


def test_nan_safe_changes_nothing_else():
    f = lambda x: np.sum(np.tanh(x @ x) * np.sqrt(x) / np.linalg.norm(x))
    assert_same(gradient(f)(X), gradient(f, nan_safe=True)(X))
    assert_same(grad(f)(X), grad(f, nan_safe=True)(X))


@pytest.mark.parametrize("jacobian", [jacobian, reverse_jacobian], ids=["forward", "reverse"])
@pytest.mark.parametrize("fn", [np.mean, np.var, np.std])
def test_a_mean_of_nothing_is_nan_with_its_derivatives(fn, jacobian):
    x, taken = np.array([[1.0, 2.0, 4.0], [3.0, 5.0, 0.5]], np.float32), np.array([[True, True, False], [False, False, False]])
    with np.errstate(all="ignore"), pytest.warns(RuntimeWarning):
        slopes = jacobian(lambda x: fn(x, axis=1, where=taken))(x)
        alone = jacobian(lambda x: fn(x, axis=1, where=taken[:1]))(x[:1])
    np.testing.assert_array_equal(slopes[0, 0], alone[0, 0])
    assert np.all(np.isfinite(alone)) and np.all(np.isnan(slopes[1, 1])) and slopes.dtype == np.float32


def test_powers_of_zero_have_zero_derivatives_of_any_order():
    """0**y is 0 for all y > 0, also where the base is a number of Python; and no column of a Hessian is spoilt."""
    for zero in (0.0, 0, np.float64(0.0), np.zeros(1)):
        f = lambda y, zero=zero: np.sum(zero**y)
        for y in (0.5, 1.0, 3.0):
            orders = [
                derivative(f)(y),
                grad(f)(y),
                derivative(f, order=2)(y),
                grad(grad(f))(y),
                derivative(grad(f))(y),
                grad(derivative(f))(y),
            ]
            assert orders == [0.0] * 6
    np.testing.assert_array_equal(hessian(lambda x: np.sum(0.0 ** x[0] * x[1]))(np.array([0.5, 2.0])), np.zeros((2, 2)))
    with np.errstate(divide="ignore"):
        assert grad(lambda y: 0.0**y)(-1.0) == -inf
    assert np.isnan(grad(lambda y: 0.0**y)(nan))


@pytest.mark.parametrize("f", [np.tanh, np.expm1, np.exp, np.logaddexp.reduce, np.std, np.linalg.norm])
def test_a_partial_that_underflows_raises_nothing_where_the_function_does_not(f):
    x = np.array([-700.0, -1.0, 0.5, 30.0])
    with np.errstate(all="raise"):
        for value in (x, x[0], float(x[-1])):
            for verb in (gradient, grad, hessian):
                assert np.isfinite(verb(lambda x: np.sum(f(np.stack([x, x]))))(value)).all()


def second_minors(a):
    """The second derivative of a determinant: determinants without two rows and two columns."""
    n = len(a)
    second = np.zeros((n, n, n, n))
    for i, j, k, m in np.ndindex(second.shape):
        if i != k and j != m:
            rest = np.delete(np.delete(a, (i, k), 0), (j, m), 1)
            second[i, j, k, m] = (-1.0) ** (i + j + k + m) * (1.0 if (i < k) == (j < m) else -1.0) * np.linalg.det(rest)
    return second


@pytest.mark.parametrize("n", [2, 3, 5])
def test_second_derivatives_of_determinants_of_singular_matrices(n):
    regular = np.random.default_rng(0).normal(size=(n, n))
    singular, nearly = regular.copy(), regular.copy()
    singular[0], nearly[0] = 2.0 * singular[-1], 2.0 * nearly[-1] + 1e-15
    for a in (regular, singular, nearly, *([np.zeros((n, n))] if n < 4 else [])):
        for verb in (hessian, lambda f: jacobian(grad(f))):
            np.testing.assert_allclose(verb(np.linalg.det)(a), second_minors(a), atol=1e-12)
    if n < 4:
        np.testing.assert_allclose(hessian(jit(np.linalg.det))(singular), second_minors(singular), atol=1e-12)


def test_first_derivatives_of_determinants_whose_size_leaves_the_range():
    """Elements of very different sizes: powers of the largest overflow where the determinant and its gradient do not."""
    for n, corner, dtype in ((3, 1e14, np.float32), (12, 1e30, float), (16, 1e3, np.float32)):
        a = np.eye(n, dtype=dtype)
        a[0, 1] = corner
        expected = np.eye(n)
        expected[1, 0] = -corner
        for verb in (gradient, grad):
            np.testing.assert_allclose(verb(np.linalg.det)(a), expected)
    for f in (np.linalg.det, jit(np.linalg.det)):
        assert hessian(f)(np.array([[0.0]])).tolist() == [[[[0.0]]]]
        assert jit(hessian(f))(np.array([[0.0]])).tolist() == [[[[0.0]]]]
