"""implicit: derivatives of solutions by the implicit function theorem, in both modes and to second order."""

import numpy as np
import pytest
from central import differences

import dualad
from checkpoint import chain, grad, hvp
from checkpoint import jacobian as reverse_jacobian
from dualad import implicit, jacobian

MATRIX = np.array([[2.0, 0.3, 0.1], [0.0, 1.5, 0.2], [0.4, 0.0, 3.0]])


def residual(x, p):
    return MATRIX @ x + 0.1 * x**3 - p * np.array([1.0, 2.0, 3.0]) - p[::-1] ** 2


def newton(p):
    assert type(p) is np.ndarray  # the solver sees plain values only
    x = np.ones(3)
    for _ in range(30):
        x = x - np.linalg.solve(MATRIX + np.diag(0.3 * x**2), residual(x, p))
    return x


solution = implicit(residual, newton)
P = np.array([0.5, 0.7, 0.2])


def test_first_order_in_both_modes():
    expected = differences(newton, P, 1e-5).T
    np.testing.assert_allclose(jacobian(solution)(P), expected, atol=1e-8)
    np.testing.assert_allclose(reverse_jacobian(solution)(P), expected, atol=1e-8)
    np.testing.assert_array_equal(solution(P), newton(P))


def test_second_order():
    f = lambda p: np.sum(solution(p) ** 2)
    hessian = dualad.hessian(f)(P)
    np.testing.assert_allclose(hessian, differences(grad(f), P, 1e-5), atol=1e-7)
    np.testing.assert_allclose(hvp(f, P, P), hessian @ P, rtol=1e-12)
    np.testing.assert_allclose(reverse_jacobian(grad(f))(P), hessian, rtol=1e-10)


def test_inside_a_chain():
    f = lambda p: np.sum(chain(lambda k, x, p: x + 0.1 * implicit(residual, newton)(p + 0.1 * x), np.zeros(3), p, steps=4))
    np.testing.assert_allclose(grad(f)(P), differences(f, P, 1e-5), atol=1e-7)
    np.testing.assert_allclose(grad(f)(P), dualad.gradient(f)(P), rtol=1e-12)


@pytest.mark.slow
def test_programs_call_the_solver():
    """A program is differentiated as often as asked, inside and outside; two traces of a function that makes one are the same."""
    f = lambda p: np.sum(implicit(residual, newton)(p) ** 2)
    compiled = dualad.jit(f)
    assert compiled(P) == f(P) and compiled(P + 0.1) == f(P + 0.1) and compiled.traces == 1
    np.testing.assert_allclose(dualad.jit(grad(f))(P), grad(f)(P), rtol=1e-13)
    hessian = dualad.hessian(f)(P)
    for second in (
        dualad.hessian(compiled),
        dualad.jit(dualad.hessian(f)),
        reverse_jacobian(grad(compiled)),
        dualad.jit(reverse_jacobian(grad(f))),
        dualad.jacobian(dualad.jit(grad(f))),
    ):
        np.testing.assert_allclose(second(P), hessian, rtol=1e-10, atol=1e-13)
    third = lambda g: dualad.derivative(lambda t: g(t * P), order=3)(1.0)
    np.testing.assert_allclose(third(compiled), third(f), rtol=1e-10)


def test_compiled_steps_of_a_chain():
    step = dualad.jit(lambda k, x, p: x + 0.1 * solution(p + 0.1 * x))
    f = lambda step: lambda p: np.sum(chain(step, np.zeros(3), p, steps=4))
    np.testing.assert_allclose(grad(f(step))(P), grad(f(step.__wrapped__))(P), rtol=1e-13)


def test_numbers_and_several_parameters():
    root = implicit(lambda x, a, b: x * x * b - a, lambda a, b: (a / b) ** 0.5)
    assert dualad.gradient(root, argnums=(0, 1))(4.0, 1.0) == pytest.approx((0.25, -1.0))
    assert grad(root, argnums=(0, 1))(4.0, 1.0) == pytest.approx((0.25, -1.0))


def test_bad_problems():
    with pytest.raises(ValueError, match=r"residual has shape \(2,\), the solution \(3,\)"):
        jacobian(implicit(lambda x, p: x[:2] * p[0], newton))(P)
    with pytest.raises(np.linalg.LinAlgError):
        jacobian(implicit(lambda x, p: 0.0 * x + p - p, newton))(P)
    with pytest.raises(TypeError, match="implicit: solve"):
        implicit(residual, None)


def test_sparse_jacobians():
    """A tridiagonal system, x + a x[i-1] x[i+1] = b: what the dense Jacobian gives, to order two; a singular one is named."""
    pytest.importorskip("scipy.sparse")

    def residual(x, a):
        wide = np.concatenate([np.ones(1), x, np.ones(1)])
        return x + a * wide[:-2] * wide[2:] - 2.0

    def newton(a):
        x = np.ones(5)
        for _ in range(40):
            x = x - np.linalg.solve(dualad.jacobian(residual)(x, a), residual(x, a))
        return x

    band = np.eye(5) + np.eye(5, k=1) + np.eye(5, k=-1)
    end = lambda a, **options: np.sum(np.sin(implicit(residual, newton, **options)(a)))
    for derived in (dualad.derivative, grad, lambda f: dualad.derivative(f, order=2), lambda f: grad(grad(f))):
        np.testing.assert_allclose(derived(lambda a: end(a, sparsity=band))(0.3), derived(end)(0.3), rtol=1e-10)
    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        grad(lambda a: np.sum(implicit(lambda x, a: 0.0 * x * a, lambda a: np.ones(2), sparsity=np.eye(2))(a)))(1.0)
