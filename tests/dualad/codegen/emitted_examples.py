"""Functions whose emitted source is kept in ``golden``, and their programs."""

from __future__ import annotations

import numpy as np
from interpreted import traced
from program_examples import EXAMPLES, adjoint_of_slices, diffusion, laplacian

from checkpoint import vjp
from dualad import jvp


def wave(x):
    return np.sum(np.sin(x) * np.exp(-(x**2)) / (1.0 + x**2))


def gray_scott(u, v):
    def spread(a):
        return np.roll(a, 1, 0) + np.roll(a, -1, 0) + np.roll(a, 1, 1) + np.roll(a, -1, 1) - 4.0 * a

    reaction = u * v * v
    return u + 0.2 * spread(u) - reaction + 0.04 * (1.0 - u), v + 0.1 * spread(v) + reaction - 0.1 * v


def in_slices(u):
    new = u.copy()
    new[1:-1, 1:-1] += 0.1 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4.0 * u[1:-1, 1:-1])
    return new


def rows_and_columns(a, b):
    return np.sum(a * b, axis=0), np.max(a, axis=1), np.cumsum(a, axis=0)


GRID = np.random.default_rng(0).uniform(0.1, 1.0, (3, 40, 50))
SOURCES = {
    **{name: traced(EXAMPLES[name][0], *EXAMPLES[name][1]) for name in ("diffusion", "lorenz", "forced")},
    "diffusion_large": traced(diffusion, np.zeros(1000), np.float64(0.1)),
    "adjoint_large": traced(adjoint_of_slices, np.zeros(1000), np.float64(2.0)),
    "laplacian_large": traced(laplacian, np.zeros((60, 50))),
    "wave": traced(wave, np.zeros(1000)),
    "wave_jvp": traced(lambda x, v: jvp(wave, (x,), (v,)), np.zeros(1000), np.zeros(1000)),
    "gray_scott_vjp": traced(lambda u, v, g, h: vjp(gray_scott, u, v)[1]((g, h)), *GRID, GRID[0]),
    "in_slices_vjp": traced(lambda u, g: vjp(in_slices, u)[1](g), *GRID[:2]),
    "rows_and_columns": traced(rows_and_columns, *GRID[:2]),
}
