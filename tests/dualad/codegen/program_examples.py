"""Functions of a few operations, and their arguments: their traces are the programs of tests of passes, lowering and emission."""

from __future__ import annotations

import numpy as np

from checkpoint import vjp
from dualad.rules.indexing import getitem

FORCING = np.arange(12.0).reshape(3, 4)


def diffusion(x, c):
    y = x.copy()
    y[1:-1] += c * (x[2:] - 2.0 * x[1:-1] + x[:-2])
    return y


def adjoint_of_slices(x, g):
    return vjp(lambda x: np.sum(x[1:] * x[:-1]), x)[1](g)[0]


def laplacian(x):
    rest = np.roll(x, 1, 0) + np.roll(x, -1, 0) + np.roll(x, 1, 1) - 3 * x
    return np.sum(rest**2), rest


def lorenz(state, sigma):
    """One explicit Euler step on a vector of three."""
    x, y, z = state
    return state + 0.01 * np.stack([sigma * (y - x), x * (28.0 - z) - y, x * y - 8.0 / 3.0 * z])


def forced(k, x):
    return np.where(k == 0, x, x + getitem(FORCING, (k,)))


EXAMPLES = {
    "diffusion": (diffusion, (np.linspace(0.0, 1.0, 10) ** 2, np.float64(0.1))),
    "adjoint_of_slices": (adjoint_of_slices, (np.linspace(0.5, 1.0, 10), np.float64(2.0))),
    "laplacian": (laplacian, (np.arange(30.0).reshape(6, 5) ** 2,)),
    "lorenz": (lorenz, (np.array([1.0, 2.0, 3.0]), 10.0)),
    "forced": (forced, (2, np.linspace(0.0, 1.0, 4))),
}
