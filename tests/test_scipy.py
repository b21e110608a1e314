"""SciPy's solvers with exact derivatives: the recipes of the README, and how often they evaluate f."""

import numpy as np
import pytest
import scipy.sparse
from scipy.integrate import solve_bvp, solve_ivp
from scipy.optimize import NonlinearConstraint, least_squares, minimize, newton_krylov, root
from scipy.sparse.linalg import LinearOperator, splu

from checkpoint import grad, hvp
from dualad import gradient, hessian, jacobian, jvp, value_and_gradient, value_and_jacobian


class Counted:
    """A function that counts its evaluations."""

    def __init__(self, f):
        self.f, self.calls = f, 0

    def __call__(self, *args):
        self.calls += 1
        return self.f(*args)


def chained(x):
    """The residuals of the chained Rosenbrock function; zero at ones."""
    return np.concatenate([10.0 * (x[1:] - x[:-1] ** 2), 1.0 - x[:-1]])


def broyden(x):
    """Broyden's tridiagonal function (Moré, Garbow & Hillstrom 1981, problem 30)."""
    y = (3.0 - 2.0 * x) * x + 1.0
    y[1:] -= x[:-1]
    y[:-1] -= 2.0 * x[1:]
    return y


def rosenbrock(x):
    """The extended Rosenbrock function, whose only minimum is at ones."""
    return np.sum(100.0 * (x[1::2] - x[::2] ** 2) ** 2 + (1.0 - x[::2]) ** 2)


START = np.tile([-1.2, 1.0], 10)


@pytest.mark.parametrize("method", ["trf", "dogbox", "lm"])
def test_least_squares(method):
    f, plain = Counted(chained), Counted(chained)
    both = value_and_jacobian(f, cache=True)
    exact = least_squares(both.value, START, jac=both.jacobian, method=method)
    differences = least_squares(plain, START, method=method)
    np.testing.assert_allclose(exact.x, 1.0, rtol=1e-10)
    assert f.calls == exact.nfev < plain.calls / 5
    assert exact.cost <= differences.cost + 1e-20


def test_least_squares_sparse():
    n = 300
    f, plain = Counted(broyden), Counted(broyden)
    jac = jacobian(f, sparsity="auto")
    exact = least_squares(f, -np.ones(n), jac=jac)
    pattern = scipy.sparse.diags_array([np.ones(n)] * 3, offsets=[-1, 0, 1], shape=(n, n))
    grouped = least_squares(plain, -np.ones(n), jac_sparsity=pattern)
    assert exact.cost < 1e-16 and f.calls < plain.calls
    np.testing.assert_allclose(exact.x, grouped.x, atol=1e-6)


def test_root():
    f, plain = Counted(broyden), Counted(broyden)
    exact, differences = root(f, -np.ones(40), jac=jacobian(f)), root(plain, -np.ones(40))
    assert exact.success and f.calls < plain.calls and np.abs(exact.fun).max() < 1e-7
    np.testing.assert_allclose(exact.x, differences.x, atol=1e-8)
    both = value_and_jacobian(broyden, cache=True)
    assert root(both.value, -np.ones(40), jac=both.jacobian, method="lm").success


@pytest.mark.parametrize("method", ["BFGS", "L-BFGS-B", "CG", "SLSQP"])
def test_minimize(method):
    f, plain = Counted(rosenbrock), Counted(rosenbrock)
    exact, differences = minimize(f, START, jac=grad(f), method=method), minimize(plain, START, method=method)
    assert f.calls < plain.calls / 3 and exact.fun <= max(differences.fun, 1e-8)


def test_minimize_with_values_and_further_arguments():
    assert minimize(value_and_gradient(rosenbrock), START[:4], jac=True).fun < 1e-8
    shifted = lambda x, a: np.sum((x - a) ** 2)
    np.testing.assert_allclose(minimize(shifted, np.zeros(2), args=(3.0,), jac=gradient(shifted)).x, 3.0)


@pytest.mark.parametrize("method", ["Newton-CG", "trust-ncg", "trust-krylov", "trust-constr"])
def test_minimize_with_products_of_the_hessian(method):
    result = minimize(rosenbrock, START, jac=grad(rosenbrock), hessp=lambda x, v: hvp(rosenbrock, x, v), method=method)
    np.testing.assert_allclose(result.x, 1.0, atol=1e-4)


def test_minimize_with_the_hessian():
    result = minimize(rosenbrock, START, jac=grad(rosenbrock), hess=hessian(rosenbrock), method="trust-exact")
    np.testing.assert_allclose(result.x, 1.0, atol=1e-6)


def test_nonlinear_constraints():
    """The point of the unit circle, and of a parabola, that is nearest to (2, 1)."""
    c = Counted(lambda x: np.stack([x[0] ** 2 + x[1] ** 2, x[1] - x[0] ** 2]))
    both = value_and_jacobian(c, cache=True)
    constraint = NonlinearConstraint(
        both.value, [1.0, -np.inf], [1.0, 0.5], jac=both.jacobian, hess=lambda x, v: hessian(lambda x: np.sum(v * c.f(x)))(x)
    )
    f = lambda x: np.sum((x - np.array([2.0, 1.0])) ** 2)
    result = minimize(f, np.array([0.5, 0.5]), jac=grad(f), hess=hessian(f), constraints=[constraint], method="trust-constr")
    np.testing.assert_allclose(result.x, np.array([2.0, 1.0]) / np.sqrt(5.0), atol=1e-4)
    assert c.calls <= result.nfev + 1  # SciPy asks for the first point before it counts


def robertson(t, y):
    slow, fast = 0.04 * y[0] - 1e4 * y[1] * y[2], 3e7 * y[1] ** 2
    return np.stack([-slow, slow - fast, fast])


@pytest.mark.parametrize("method", ["Radau", "BDF", "LSODA"])
def test_solve_ivp(method):
    f, plain = Counted(robertson), Counted(robertson)
    options = {"method": method, "rtol": 1e-8, "atol": [1e-10, 1e-14, 1e-10]}
    exact = solve_ivp(f, (0.0, 40.0), [1.0, 0.0, 0.0], jac=jacobian(f, argnums=1), **options)
    differences = solve_ivp(plain, (0.0, 40.0), [1.0, 0.0, 0.0], **options)
    assert exact.success and f.calls <= plain.calls
    np.testing.assert_allclose(exact.y[:, -1], [0.7158270687, 9.185534764e-06, 0.2841637457], rtol=1e-5)  # Hairer & Wanner II, IV.10
    np.testing.assert_allclose(exact.y[:, -1], differences.y[:, -1], rtol=1e-5)


def diffusion(t, u):
    """Fisher's equation on a line, in N = u.size points."""
    rate = u * (1.0 - u)
    rate[1:-1] += u.size**2 * 1e-3 * (u[2:] - 2.0 * u[1:-1] + u[:-2])
    rate[0] += u.size**2 * 1e-3 * (u[1] - u[0])
    rate[-1] += u.size**2 * 1e-3 * (u[-2] - u[-1])
    return rate


@pytest.mark.parametrize("method", ["Radau", "BDF"])
def test_solve_ivp_sparse(method):
    n, u = 200, np.exp(-(np.linspace(0, 10, 200) ** 2))
    f, plain = Counted(diffusion), Counted(diffusion)
    exact = solve_ivp(f, (0.0, 4.0), u, jac=jacobian(f, argnums=1, sparsity="auto"), method=method, rtol=1e-6)
    pattern = scipy.sparse.diags_array([np.ones(n)] * 3, offsets=[-1, 0, 1], shape=(n, n))
    differences = solve_ivp(plain, (0.0, 4.0), u, jac_sparsity=pattern, method=method, rtol=1e-6)
    assert exact.success and f.calls <= plain.calls + 5  # the pattern takes some
    np.testing.assert_allclose(exact.y[:, -1], differences.y[:, -1], rtol=1e-4)


def test_solve_bvp():
    """Bratu's problem in one dimension, which has a closed solution."""
    f = Counted(lambda x, y: np.stack([y[1], -np.exp(y[0])]))

    def by_y(x, y):
        """The derivative by y at each mesh point: (n, n, m), a direction for each component."""
        units = np.eye(len(y))[:, :, None] * np.ones(y.shape[1])
        return np.stack([jvp(lambda y: f(x, y), (y,), (unit,))[1] for unit in units], axis=1)

    ends = lambda ya, yb: np.stack([ya[0], yb[0]])
    by_ends = lambda ya, yb: jacobian(ends, argnums=(0, 1))(ya, yb)
    mesh = np.linspace(0.0, 1.0, 9)
    exact = solve_bvp(f, ends, mesh, np.zeros((2, 9)), fun_jac=by_y, bc_jac=by_ends, tol=1e-8)
    theta = root(lambda s: s - np.sqrt(2.0) * np.cosh(s / 4.0), 1.5).x[0]
    closed = lambda x: -2.0 * np.log(np.cosh((x - 0.5) * theta / 2.0) / np.cosh(theta / 4.0))
    assert exact.success
    x = np.linspace(0.0, 1.0, 50)
    np.testing.assert_allclose(exact.sol(x)[0], closed(x), atol=1e-8)
    calls, f.calls = f.calls, 0
    solve_bvp(f, ends, mesh, np.zeros((2, 9)), tol=1e-8)
    assert calls <= f.calls


def test_newton_krylov():
    """The exact Jacobian at the start, factorised, as the preconditioner of the inner iterations."""
    n = 400
    f, plain = Counted(broyden), Counted(broyden)
    start = -np.ones(n)
    factors = splu(jacobian(f, sparsity="auto")(start).tocsc())
    exact = newton_krylov(f, start, inner_M=LinearOperator((n, n), factors.solve), f_tol=1e-10)
    newton_krylov(plain, start, f_tol=1e-10)
    assert np.abs(broyden(exact)).max() < 1e-10 and f.calls < plain.calls
