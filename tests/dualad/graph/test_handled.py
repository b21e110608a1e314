"""Errors that depend on values: a compiled function handles them as the plain one does, whatever it was traced at."""

import math
import warnings
from contextlib import suppress

import numpy as np
import pytest
from comparing import close, outcome

from checkpoint import chain, grad
from dualad import adapt, gradient, jit
from dualad.support.callers import try_ranges

REGULAR, SINGULAR, OTHER = np.array([[2.0, 1.0], [1.0, 3.0]]), np.ones((2, 2)), np.array([[9.0, 1.0], [1.0, 0.0]])
LARGE, LARGE_SINGULAR = np.eye(12) * 2.0, np.ones((12, 12))
ORDERS = [(REGULAR, SINGULAR, OTHER, REGULAR, SINGULAR), (SINGULAR, REGULAR, SINGULAR, OTHER), (LARGE, LARGE_SINGULAR, LARGE)]


def inverse_or_not(a):
    try:
        return np.linalg.inv(a)
    except np.linalg.LinAlgError:
        return -2.0 * a


def suppressed(a):
    b = a * 2.0
    with suppress(np.linalg.LinAlgError):
        b = np.linalg.solve(a, a[0] + 1.0) + b
    return b


def another_error(a):
    try:
        return np.linalg.inv(a)
    except np.linalg.LinAlgError:
        raise ValueError("bad model") from None


def assigning(a):
    a[0, 0] += 1.0
    try:
        return np.linalg.inv(a - np.diag([1.0] + [0.0] * (len(a) - 1)))
    except np.linalg.LinAlgError:
        a[0] = 5.0
        return a


def chosen(a):
    try:
        return a[a[0, 0].astype(int)]
    except IndexError:
        return a[0] * 10.0


def helper(a):
    return np.linalg.inv(a)


def around_a_call(a):
    try:
        return np.sum(helper(a) ** 2)
    except np.linalg.LinAlgError:
        return np.sum(a**2)


FUNCTIONS = [inverse_or_not, suppressed, another_error, assigning, chosen, around_a_call, helper]


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
@pytest.mark.parametrize("f", FUNCTIONS)
@pytest.mark.parametrize("order", range(3))
def test_compiled_functions_handle_errors_as_plain_ones(f, order, backend):
    compiled = jit(f, backend=backend)
    for a in ORDERS[order]:
        given = a.copy()
        got, expected = outcome(compiled, given), outcome(f, a.copy())
        np.testing.assert_array_equal(given, a)
        if type(expected) is tuple:
            assert got[0] is expected[0]
        else:
            close(got, expected)


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
@pytest.mark.parametrize("order", range(2))
def test_gradients_handle_errors_as_plain_ones(order, backend):
    compiled = jit(around_a_call, backend=backend)
    for a in ORDERS[order]:
        inverse = None if a is SINGULAR else np.linalg.inv(a)
        expected = 2.0 * a if a is SINGULAR else -2.0 * inverse.T @ inverse @ inverse.T
        for g in (grad(compiled), gradient(compiled), jit(grad(around_a_call), backend=backend)):
            np.testing.assert_allclose(g(a), expected, rtol=1e-12)


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
@pytest.mark.parametrize("at", [REGULAR, SINGULAR])
def test_chains_of_steps_that_handle_errors(at, backend):
    def step(k, a):
        try:
            return np.linalg.inv(a - np.where(k == 2, a, 0.0)) * 0.5
        except np.linalg.LinAlgError:
            return a + np.eye(2) * (1.0 + k)

    run = lambda step: lambda a: np.sum(chain(step, a, steps=4))
    np.testing.assert_allclose(run(jit(step, backend=backend))(at), run(step)(at), rtol=1e-12)
    np.testing.assert_allclose(grad(run(jit(step, backend=backend)))(at), grad(run(step))(at), rtol=1e-11)


def test_what_would_not_be_evaluated_is_refused():
    def positive_definite(a):
        try:
            np.linalg.cholesky(a)
        except np.linalg.LinAlgError:
            return -a
        return 1.0 * a

    for backend in ("numpy", "llvm"):
        with pytest.raises(TypeError, match=r"test_handled.py, line \d+: a call in a try block may raise an error.*positive_definite"):
            jit(positive_definite, backend=backend)(REGULAR)
    elsewhere = jit(lambda a: [np.linalg.inv(a) for _ in range(2)] and a[0])
    try:  # around the call, not in the function
        np.testing.assert_array_equal(elsewhere(REGULAR), REGULAR[0])
    finally:
        pass


def divided(a, b):
    try:
        return a / b
    except ZeroDivisionError:
        return -7.0 * a


def raised_to(a, b):
    try:
        return a * b**-1.5
    except ZeroDivisionError:
        return -7.0 * a


def root(a, b):
    try:
        return a * math.sqrt(b - 1.0)
    except ValueError:
        return a * b


def logarithm(a, b):
    try:
        return math.log(a * b)
    except ValueError:
        return a * b


def remainder(a, b):
    try:
        return divmod(a, b)[0] + math.log(b)
    except (ValueError, ZeroDivisionError):
        return -a


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
@pytest.mark.parametrize("f", [divided, raised_to, root, logarithm, remainder])
def test_errors_of_numbers_are_handled(f, backend):
    """Loops give inf or NaN there, so that the handler would never act."""
    compiled = jit(f, backend=backend)
    for b in (2.0, 0.0, 4.0):
        assert compiled(3.0, b) == pytest.approx(f(3.0, b), rel=1e-15)
    for b in (2.0, 0.0):  # NumPy's numbers do not raise
        with np.errstate(divide="ignore", invalid="ignore"), warnings.catch_warnings(action="ignore"):
            assert compiled(np.float64(3.0), np.float64(b)) == pytest.approx(f(np.float64(3.0), np.float64(b)), rel=1e-15, nan_ok=True)


@pytest.mark.parametrize("f", [root, logarithm])
def test_gradients_handle_errors_of_numbers(f):
    slope = jit(grad(adapt(f)))
    for b in (2.0, 0.0, -1.0, 4.0):
        assert slope(3.0, b) == pytest.approx((f(3.0 + 1e-4, b) - f(3.0 - 1e-4, b)) / 2e-4, rel=1e-8)


def test_constant_divisors_in_try_blocks_are_compiled():
    def halved(a):
        try:
            return a / 2.0 + 3.0**a
        except ZeroDivisionError:
            return a

    assert jit(halved)(3.0) == 28.5


def test_floating_point_errors_are_refused():
    def careful(x):
        try:
            with np.errstate(divide="raise"):
                return 1.0 / x
        except FloatingPointError:
            return x

    with pytest.raises(TypeError, match=r"np.errstate or np.seterr asks for floating-point errors"):
        jit(careful)(np.ones(3))

    def inverse(x):
        return 1.0 / x

    def careful_later(x):  # on a line that was looked at before
        y = inverse(x)
        with np.errstate(divide="raise"):
            return inverse(y)

    with pytest.raises(TypeError, match=r"np.errstate or np.seterr asks for floating-point errors"):
        jit(careful_later)(np.ones(3))
    with np.errstate(all="raise"):  # outside, as before
        assert np.isinf(jit(lambda x: 1.0 / x, backend="numpy")(np.zeros(2))).all()


def test_the_table_of_exceptions_is_read_for_try_blocks_only():
    assert len(try_ranges(inverse_or_not.__code__)) and not try_ranges(suppressed.__code__)
    assert not try_ranges(helper.__code__) and not try_ranges((lambda a: [v + 1 for v in a]).__code__)
