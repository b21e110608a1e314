"""Programs made by hand: what the trace of a few functions looks like, for the tests of passes, lowering and emission."""

from __future__ import annotations

import numpy as np

from dualad.graph.program import Program
from dualad.rules.indexing import getitem, scatter, updated
from dualad.rules.kinds import Abstract

INNER, LEFT, RIGHT = slice(1, -1), slice(None, -2), slice(2, None)


def diffusion(n=10):
    """``y = x.copy(); y[1:-1] += c * (x[2:] - 2 * x[1:-1] + x[:-2])`` of x and a NumPy scalar c."""
    p = Program()
    x, c = p.input(np.zeros(n)), p.input(np.float64(0.1))
    inner = np.zeros(n - 2)
    right, middle, left = (p.append(getitem, (x, part), {}, inner) for part in (RIGHT, INNER, LEFT))
    twice = p.append(np.multiply, (2.0, middle), {}, inner)
    total = p.append(np.add, (p.append(np.subtract, (right, twice), {}, inner), left), {}, inner)
    step = p.append(np.multiply, (c, total), {}, inner)
    y = p.append(updated, (x, p.append(np.add, (middle, step), {}, inner), INNER, ()), {}, np.zeros(n))
    p.outputs = [y]
    return p, lambda x, c: [np.concatenate([x[:1], x[1:-1] + c * (x[2:] - 2.0 * x[1:-1] + x[:-2]), x[-1:]])]


def adjoint_of_slices(n=10):
    """The adjoint of ``sum(x[1:] * x[:-1])``: two scatters and their sum."""
    p = Program()
    x, g = p.input(np.zeros(n)), p.input(np.float64(1.0))
    like, part = Abstract(np.zeros(n)), np.zeros(n - 1)
    ahead, behind = p.append(getitem, (x, slice(1, None)), {}, part), p.append(getitem, (x, slice(None, -1)), {}, part)
    spread = p.append(np.broadcast_to, (g, (n - 1,)), {}, part)
    first = p.append(scatter, (p.append(np.multiply, (behind, spread), {}, part), slice(1, None), like), {}, np.zeros(n))
    second = p.append(scatter, (p.append(np.multiply, (ahead, spread), {}, part), slice(None, -1), like), {}, np.zeros(n))
    p.outputs = [p.append(np.add, (first, second), {}, np.zeros(n))]
    return p, lambda x, g: [np.concatenate([[0.0], g * x[:-1]]) + np.concatenate([g * x[1:], [0.0]])]


def laplacian(n=6, m=5):
    """``sum(np.roll(x, 1, 0) + np.roll(x, -1, 0) + np.roll(x, 1, 1) - 3 * x) ** 2`` of a matrix, and the rolled sum itself."""
    p = Program()
    x, like = p.input(np.zeros((n, m))), np.zeros((n, m))
    up, down, left = (p.append(np.roll, (x, k), {"axis": axis}, like) for k, axis in ((1, 0), (-1, 0), (1, 1)))
    total = p.append(np.add, (p.append(np.add, (up, down), {}, like), left), {}, like)
    rest = p.append(np.subtract, (total, p.append(np.multiply, (3, x), {}, like)), {}, like)
    norm = p.append(np.sum, (p.append(np.power, (rest, 2), {}, like),), {"axis": None}, np.float64(0.0))
    p.outputs = [norm, rest]

    def plain(x):
        rest = np.roll(x, 1, 0) + np.roll(x, -1, 0) + np.roll(x, 1, 1) - 3 * x
        return [np.sum(rest**2), rest]

    return p, plain


def lorenz():
    """One explicit Euler step of the Lorenz system on a vector of three, with a weak parameter and constants."""
    p = Program()
    state, sigma = p.input(np.zeros(3)), p.input(10.0)
    number = np.float64(0.0)
    x, y, z = (p.append(getitem, (state, i), {}, number) for i in range(3))
    dx = p.append(np.multiply, (sigma, p.append(np.subtract, (y, x), {}, number)), {}, number)
    inner = p.append(np.subtract, (28.0, z), {}, number)
    dy = p.append(np.subtract, (p.append(np.multiply, (x, inner), {}, number), y), {}, number)
    product, loss = p.append(np.multiply, (x, y), {}, number), p.append(np.multiply, (8.0 / 3.0, z), {}, number)
    slope = p.append(np.stack, (dx, dy, p.append(np.subtract, (product, loss), {}, number)), {}, np.zeros(3))
    p.outputs = [p.append(np.add, (state, p.append(np.multiply, (0.01, slope), {}, np.zeros(3))), {}, np.zeros(3))]

    def plain(state, sigma):
        x, y, z = state
        return [state + 0.01 * np.stack([sigma * (y - x), x * (28.0 - z) - y, x * y - 8.0 / 3.0 * z])]

    return p, plain


def forced():
    """``np.where(k == 0, x, x + f[k])`` with a traced integer k and a constant array f."""
    p = Program()
    k, x, f = p.input(3), p.input(np.zeros(4)), p.constant(np.arange(12.0).reshape(3, 4))
    row = p.append(getitem, (f, (k,)), {}, np.zeros(4))
    first = p.append(np.equal, (k, 0), {}, np.True_)
    p.outputs = [p.append(np.where, (first, x, p.append(np.add, (x, row), {}, np.zeros(4))), {}, np.zeros(4))]
    return p, lambda k, x: [x if k == 0 else x + np.arange(12.0).reshape(3, 4)[k]]


EXAMPLES = {
    "diffusion": (diffusion, (np.linspace(0.0, 1.0, 10) ** 2, np.float64(0.1))),
    "adjoint_of_slices": (adjoint_of_slices, (np.linspace(0.5, 1.0, 10), np.float64(2.0))),
    "laplacian": (laplacian, (np.arange(30.0).reshape(6, 5) ** 2,)),
    "lorenz": (lorenz, (np.array([1.0, 2.0, 3.0]), 10.0)),
    "forced": (forced, (2, np.linspace(0.0, 1.0, 4))),
}
