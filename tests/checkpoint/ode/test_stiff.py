"""Stiff problems: Radau's steps with dense and sparse Jacobians, and compiled right-hand sides."""

import numpy as np
import pytest
from interpreted import no_optimiser  # noqa: F401  (a fixture: LLVM optimises nothing)

import dualad
from checkpoint import grad, hvp, solve_ivp
from checkpoint.ode.methods import method_of

integrate = pytest.importorskip("scipy.integrate")
sparse = pytest.importorskip("scipy.sparse")
OPTIONS = {"rtol": 1e-5, "atol": 1e-8}
N = 12
BAND = sparse.diags_array([np.ones(N)] * 3, offsets=[-1, 0, 1], shape=(N, N))
START = np.exp(-(np.linspace(0.0, 3.0, N) ** 2))


def front(t, u, speed):
    """Diffusion along a line, written into an array of zeros, and growth."""
    rate = np.zeros_like(u)
    flow = speed * (u[1:] - u[:-1])
    rate[:-1] += flow
    rate[1:] -= flow
    return rate + u * (1.0 - u)


def final(speed, fun=front, solver=solve_ivp, **options):
    return np.sum(solver(fun, (0.0, 0.2), START, "Radau", t_eval=[0.2], args=(speed,), **OPTIONS, **options).y[:, 0] * START)


@pytest.mark.slow
def test_sparse_jacobians_give_what_dense_ones_give():
    dense = grad(final)(20.0)
    np.testing.assert_allclose(grad(lambda speed: final(speed, jac_sparsity=BAND))(20.0), dense, rtol=1e-11)
    np.testing.assert_allclose(dualad.derivative(lambda speed: final(speed, jac_sparsity=BAND.toarray()))(20.0), dense, rtol=1e-11)
    scipys = (final(20.01, solver=integrate.solve_ivp) - final(19.99, solver=integrate.solve_ivp)) / 0.02
    np.testing.assert_allclose(dense, scipys, rtol=1e-3)
    bent = hvp(lambda speed: final(speed, jac_sparsity=BAND), 20.0, 1.0)
    np.testing.assert_allclose(bent, (grad(final)(20.01) - grad(final)(19.99)) / 0.02, rtol=1e-3)


def test_the_jacobians_take_as_many_directions_as_colours():
    """Three stages of a band of three: nine directions for 36 unknowns."""
    coloring = method_of("Radau", BAND)[1].coloring
    assert (coloring.shape, coloring.forward_colors) == ((36, 36), 9)


def test_a_compiled_function_is_called_in_implicit_steps():
    pytest.importorskip("llvmlite")
    decay = lambda t, y, rate: -rate * y
    end = lambda rate, fun: solve_ivp(fun, (0.0, 1.0), [1.0], "Radau", t_eval=[1.0], args=(rate,)).y[0, 0]
    assert grad(end)(50.0, dualad.jit(decay)) == pytest.approx(grad(end)(50.0, decay), rel=1e-9)


@pytest.mark.parametrize("derived", [grad, dualad.derivative])
def test_a_jacobian_by_hand_may_close_over_what_the_function_closes_over(derived):
    def end(rate, **options):
        return solve_ivp(lambda t, y: -rate * y, (0.0, 1.0), [1.0], "Radau", t_eval=[1.0], **OPTIONS, **options).y[0, 0]

    wanted = derived(end)(3.0)
    assert derived(lambda rate: end(rate, jac=lambda t, y: np.array([[-3.0]])))(3.0) == pytest.approx(wanted, rel=1e-6)
    assert derived(lambda rate: end(rate, jac=lambda t, y: np.stack([[-rate]])))(3.0) == pytest.approx(wanted, rel=1e-6)
