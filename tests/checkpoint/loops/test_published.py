"""Schemes as they are published, unedited: chains of their compiled steps, against the steps themselves and central differences."""

import numpy as np
import optree
import pytest

pytest.importorskip("llvmlite")

from checkpoint import Stats, chain, grad
from dualad import jit

RNG = np.random.default_rng(0)
N = 12


def kuramoto_sivashinsky(k, u, nu):
    dx, dt = 0.5, 0.002
    ux = (np.roll(u, -1) - np.roll(u, 1)) / (2 * dx)
    uxx = (np.roll(u, -1) - 2 * u + np.roll(u, 1)) / dx**2
    u4 = (np.roll(u, -2) - 4 * np.roll(u, -1) + 6 * u - 4 * np.roll(u, 1) + np.roll(u, 2)) / dx**4
    return u - dt * (u * ux + uxx + nu * u4)


def brusselator(k, state, A, B):
    u, v = state

    def lap(z):
        z = np.pad(z, 1, mode="edge")
        return z[:-2, 1:-1] + z[2:, 1:-1] + z[1:-1, :-2] + z[1:-1, 2:] - 4 * z[1:-1, 1:-1]

    return u + 0.01 * (A - (B + 1) * u + u**2 * v + 0.2 * lap(u)), v + 0.01 * (B * u - u**2 * v + 0.1 * lap(v))


def swift_hohenberg(k, u, eps):
    def lap(a):
        b = np.zeros_like(a)
        b[1:-1, 1:-1] = a[2:, 1:-1] + a[:-2, 1:-1] + a[1:-1, 2:] + a[1:-1, :-2] - 4 * a[1:-1, 1:-1]
        b[0], b[-1] = b[1], b[-2]
        b[:, 0], b[:, -1] = b[:, 1], b[:, -2]
        return b

    w = u + lap(u)
    return u + 0.01 * (eps * u - (w + lap(w)) - u**3)


def lax_wendroff(k, u, c):
    du = np.roll(u, -1) - u
    steep = np.abs(du) > 1e-12
    r = np.where(steep, (u - np.roll(u, 1)) / np.where(steep, du, 1.0), 0.0)
    superbee = np.maximum(0, np.maximum(np.minimum(2 * r, 1), np.minimum(r, 2)))
    flux = c * u + 0.5 * c * (1 - c) * superbee * du
    return u - (flux - np.roll(flux, 1))


def particles(k, state, h):
    x, v, m = state
    d = x[:, None, :] - x[None, :, :]
    q = np.sqrt((d**2).sum(-1) + 1e-12) / h
    W = np.where(q < 1, (1 - q) ** 4 * (4 * q + 1), 0.0) * 7 / (np.pi * h**2)
    slope = np.where(q < 1, -20 * q * (1 - q) ** 3, 0.0) * 7 / (np.pi * h**3)
    rho = (m * W).sum(1)
    share = m * ((rho**7 - 1) / rho**2)
    a = -((share[None, :] + share[:, None]) * slope / (q * h))[:, :, None] * d
    v = v + 1e-3 * a.sum(1)
    return x + 1e-3 * v, v, m


def phase_field(k, state, D):
    phi, T = state
    gx, gy = np.gradient(phi)
    m = 0.3 * np.arctan(5 * (1 - T))
    lap = np.gradient(np.gradient(phi, axis=0), axis=0) + np.gradient(np.gradient(phi, axis=1), axis=1)
    dphi = D * lap + phi * (1 - phi) * (phi - 0.5 + m) - 0.01 * (np.einsum("ij,ij->ij", gx, gx) + gy**2)
    return phi + 0.05 * dphi, T + 0.05 * np.gradient(np.gradient(T, axis=0), axis=0) + 0.05 * dphi


def heat_around_obstacles(k, u, c):
    mask = np.zeros(u.shape, bool)
    mask[3:6, 3:6] = True
    new = u.copy()
    new[1:-1, 1:-1] += c * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1])
    new[mask] = 0.0
    new[~mask] *= 0.999
    new[0, :] = np.sin(0.1 * k)
    rows = np.array([1, 3, 5])
    new[rows, -1] = u[rows, 0]
    np.clip(new, -1, 1, out=new)
    return new


def alternating_directions(k, T, alpha):
    n, r = T.shape[0], alpha * 0.5
    A = (1 + 2 * r) * np.eye(n) - r * np.eye(n, k=1) - r * np.eye(n, k=-1)
    rhs = (1 - 2 * r) * T + r * np.vstack([T[1:], np.zeros((1, n))]) + r * np.vstack([np.zeros((1, n)), T[:-1]])
    half = np.linalg.solve(A, rhs.T).T
    rhs = (1 - 2 * r) * half + r * np.hstack([half[:, 1:], np.zeros((n, 1))]) + r * np.hstack([np.zeros((n, 1)), half[:, :-1]])
    return np.linalg.solve(A, rhs)


SCHEMES = {
    kuramoto_sivashinsky: (0.1 * RNG.standard_normal(40), 1.0),
    brusselator: ((1 + 0.1 * RNG.random((9, 8)), 3 + 0.1 * RNG.random((9, 8))), 1.0, 3.0),
    swift_hohenberg: (0.1 * RNG.standard_normal((9, 8)), 0.3),
    lax_wendroff: (np.exp(-(np.linspace(-3, 3, 30) ** 2)), 0.4),
    particles: ((RNG.random((8, 2)), np.zeros((8, 2)), np.full(8, 1 / 8)), 0.5),
    phase_field: ((RNG.random((7, 8)), RNG.random((7, 8))), 0.4),
    heat_around_obstacles: (RNG.random((8, 9)), 0.1),
    alternating_directions: (RNG.random((7, 7)), 0.4),
}


def total(state):
    return sum(np.sum(np.sin(leaf)) for leaf in optree.tree_leaves(state))


@pytest.mark.parametrize("step", SCHEMES, ids=lambda step: step.__name__)
def test_published_schemes(step):
    args, stats = SCHEMES[step], Stats()
    every = tuple(range(len(args)))
    gradient = grad(lambda *args: total(chain(jit(step), *args, steps=N, stats=stats)), argnums=every)(*args)
    expected = grad(lambda *args: total(chain(step, *args, steps=N)), argnums=every)(*args)
    assert "compiled steps" in stats.reason
    for got, want in zip(optree.tree_leaves(gradient), optree.tree_leaves(expected), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12 * np.max(np.abs(want)))
    if step is lax_wendroff:  # whose minima and maxima have kinks within the step
        return
    leaves, tree = optree.tree_flatten(args)
    directions = [RNG.standard_normal(np.shape(leaf)) for leaf in leaves]

    def along(h):
        x, *params = optree.tree_unflatten(tree, [leaf + h * v for leaf, v in zip(leaves, directions, strict=True)])
        for k in range(N):
            x = step(k, x, *params)
        return total(x)

    slope = sum(np.sum(g * v) for g, v in zip(optree.tree_leaves(gradient), directions, strict=True))
    assert slope == pytest.approx((along(1e-5) - along(-1e-5)) / 2e-5, rel=1e-5, abs=1e-7)
