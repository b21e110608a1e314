"""Steps as people write them: everyday NumPy on 16 numbers, each with the one thing in it that a compiler might stumble over.

A step is called ``step(k, state, *params)`` and returns the next state. Nothing in it is written for a compiler.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import erf, jv

from .functions import copied, parts

N = 16


class Program(NamedTuple):
    """A step, its first state and parameters, and how many steps are made.

    `last_bits` says what may round otherwise in compiled loops than in NumPy; where nothing does, values are NumPy's bit for bit.
    ``in_jax(jax.numpy)`` is the step for JAX.
    """

    step: Callable
    state: object
    params: tuple
    steps: int = 200
    last_bits: str = ""
    in_jax: Callable | None = None
    threads: int | None = None


def numbers(*shape, low=0.2, high=1.2, seed=1):
    return np.random.default_rng(seed).uniform(low, high, shape)


def arguments(program):
    return program.state, *program.params


def plain(program):
    """The steps as a plain loop of NumPy, which returns the last state."""

    def run():
        x = copied(program.state)
        for k in range(program.steps):
            x = program.step(k, x, *program.params)
        return x

    return run


def loss(state, np=np):
    """A real number to which every element of the last state contributes."""
    return sum(np.sum(np.real(part * np.cos(part))) for part in parts(state))


# --- branches -----------------------------------------------------------------------------------------------------------------


def branch_on_a_value(k, x, a):
    if x[0] > 0.7:
        x = x * 0.98
    else:
        x = x + a
    return x + 0.01 * (np.roll(x, 1) - x)


def branch_on_k(k, x, a):
    if k % 10 == 0:
        x = x * (1.0 - a)
    return x + 0.01 * (np.roll(x, 1) - x)


def branch_on_both(k, x, a):
    if k % 10 == 0 and x[0] > 0.7:
        x = x * (1.0 - a)
    elif k % 10 == 5:
        x = x + a
    return x + 0.01 * (np.roll(x, 1) - x)


def newton_while(k, x, a):
    y = x  # implicit Euler for x' = -a x^3
    residual = 0.1 * a * y**3
    while np.max(np.abs(residual)) > 1e-10:
        y = y - residual / (1.0 + 0.3 * a * y**2)
        residual = y - x + 0.1 * a * y**3
    return y


def for_with_break(k, x, a):
    y = x
    for _ in range(20):
        new = x + 0.1 * a * np.cos(y)
        change = np.max(np.abs(new - y))
        y = new
        if change < 1e-4:
            break
    return 0.95 * y


def assert_finite(k, x, a):
    x = x + 0.01 * a * (x - x**3)
    assert np.all(np.isfinite(x)), f"step {k} diverged"
    return x


def raise_where_diverged(k, x, a):
    x = x + 0.01 * a * (x - x**3)
    if np.any(np.abs(x) > 100.0):
        raise FloatingPointError(f"step {k} diverged")
    return x


def minimum_of_numbers(k, x, a):
    dt = min(0.05, 0.02 / np.max(np.abs(x)))
    return x + dt * a * (np.roll(x, 1) - x)


def print_every_100(k, x, a):
    if k % 100 == 0:
        print(f"step {k}: total {np.sum(x)}")
    return x + 0.01 * a * (np.roll(x, 1) - 2.0 * x + np.roll(x, -1))


# --- masks --------------------------------------------------------------------------------------------------------------------


def masked_power(k, x, p):
    x = x + 0.02 * (np.roll(x, 1) - x)
    m = x > 0.7
    x[m] = x[m] ** p
    return x


def masked_scaling(k, x, a):
    x = x + 0.02 * a * (np.roll(x, 1) - x) + 0.001
    m = x > 0.7
    x[m] *= 0.9
    return x


def masked_sum(k, x, a):
    excess = np.sum(x[x > 0.7]) - 4.0
    return x - 0.002 * a * excess * x


def piecewise(k, x, a):
    force = np.piecewise(x, [x < 0.4, x > 0.8], [lambda x: 0.4 - x, lambda x: 0.8 - x, 0.0])
    return x + 0.1 * force + 0.01 * a * np.sin(5.0 * x)


# --- indices made of values ---------------------------------------------------------------------------------------------------


def cloud_in_cell(k, state, a):
    x, v = state  # charges on a ring of 16 cells, and the field between them
    cell = np.floor(x * N).astype(int) % N
    rho = np.zeros_like(x)
    np.add.at(rho, cell, np.exp(-a * v**2))
    field = 0.5 * (np.roll(rho, 1) - np.roll(rho, -1))
    v = 0.99 * v + 0.001 * field[cell]
    return (x + 0.01 * v) % 1.0, v


def histogram(k, x, a):
    bins = np.minimum((x * 8).astype(int), 15)
    weight = np.bincount(bins, weights=x, minlength=16)
    return x + 0.01 * a * (1.0 - weight[bins] * x)


# --- library calls ------------------------------------------------------------------------------------------------------------


def real_fft(k, x, a):
    wave = np.fft.rfftfreq(N)
    return np.fft.irfft(np.exp(-a * wave**2) * np.fft.rfft(x), N) + 0.001 * np.sin(x)


def fft_of_a_grid(k, u, a):
    wave = np.fft.fftfreq(4)
    decay = np.exp(-a * (wave[:, None] ** 2 + wave**2))
    return np.real(np.fft.ifft2(decay * np.fft.fft2(u))) + 0.001 * np.sin(u)


def solve_16_rows(k, x, a):
    A = np.eye(N) + 0.01 * a * np.outer(x, x)
    return np.linalg.solve(A, x) + 0.01


def symmetric_eigenvalues(k, A, a):
    w, V = np.linalg.eigh(0.5 * (A + A.T))
    return (V * (w - 0.01 * a * w**3)) @ V.T + 0.001 * np.diag(np.arange(4.0))


def orthogonal_basis(k, A, a):
    Q, R = np.linalg.qr(A)
    return Q + 0.05 * a * R * np.tri(4).T


def table_lookup(k, x, a):
    knots = np.linspace(0.0, 2.0, 9)
    return x + 0.05 * a * np.interp(x, knots, np.sin(3.0 * knots))


def search_in_a_table(k, x, a):
    knots = np.linspace(0.0, 2.0, 9)
    values = np.cos(knots)
    i = np.clip(np.searchsorted(knots, x) - 1, 0, 7)
    t = (x - knots[i]) / (knots[i + 1] - knots[i])
    return x + 0.02 * a * ((1.0 - t) * values[i] + t * values[i + 1] - x)


def sorted_ranks(k, x, a):
    return 0.99 * x + 0.01 * a * np.sort(x)[::-1]


def towards_the_median(k, x, a):
    return x + 0.02 * a * np.tanh(np.median(x) - x)


def smoothed(k, x, a):
    kernel = np.array([0.25, 0.5, 0.25])
    return x + 0.1 * a * (np.convolve(x, kernel, mode="same") - x)


def error_function(k, x, a):
    return x + 0.02 * a * (erf(1.0 - x) - 0.1 * x)


def bessel_function(k, x, a):
    return x + 0.02 * a * jv(0, 3.0 * x)


# --- what has always compiled ---------------------------------------------------------------------------------------------------


def heat(k, x, a):
    new = x.copy()
    new[1:-1] += 0.1 * a * (x[2:] - 2.0 * x[1:-1] + x[:-2])
    return new


def oscillators(k, state, a):
    angle, speed = state
    pull = np.sin(np.roll(angle, 1) - angle) + np.sin(np.roll(angle, -1) - angle)
    speed = 0.99 * speed + 0.02 * a * pull
    return angle + 0.02 * speed, speed


# --- all of them --------------------------------------------------------------------------------------------------------------------

X, A = numbers(N), (0.3,)
KERNELS = "exp, sin, tanh and their like by own kernels"
SUMS = "sums in another order"
POWERS = "powers by own kernels"


def symmetric():
    a = numbers(4, 4)
    return a + a.T + np.diag(np.arange(4.0))


#: in order of the table
EVERYDAY = {
    "a branch on a value": Program(branch_on_a_value, X, (0.05,)),
    "a branch on k % 10": Program(branch_on_k, X, (0.05,)),
    "a branch on both": Program(branch_on_both, X, (0.05,)),
    "Newton, while": Program(newton_while, X, A, last_bits=POWERS),
    "for ... break": Program(for_with_break, X, A, last_bits=KERNELS),
    "assert all finite": Program(assert_finite, X, A, last_bits=POWERS),
    "raise where diverged": Program(raise_where_diverged, X, A, last_bits=POWERS),
    "min(a, b)": Program(minimum_of_numbers, X, A),
    "print every 100 steps": Program(print_every_100, X, A),
    "x[m] = x[m]**p": Program(masked_power, X, (1.05,), last_bits=POWERS),
    "x[m] *= 0.9": Program(masked_scaling, X, A),
    "sum(x[m])": Program(masked_sum, X, A, last_bits=SUMS),
    "piecewise": Program(piecewise, X, A, last_bits=KERNELS),
    "add.at, traced integers": Program(cloud_in_cell, (numbers(N, low=0.0, high=1.0), numbers(N, seed=2)), A, last_bits=KERNELS),
    "bincount, traced integers": Program(histogram, X, A),
    "rfft": Program(real_fft, X, A, last_bits=KERNELS),
    "fft2": Program(fft_of_a_grid, numbers(4, 4), A, last_bits=KERNELS),
    "solve, 16 rows": Program(solve_16_rows, X, A),
    "eigh, 4 rows": Program(symmetric_eigenvalues, symmetric(), A, last_bits=SUMS),
    "qr, 4 rows": Program(orthogonal_basis, numbers(4, 4), A),
    "interp": Program(table_lookup, X, A),
    "searchsorted": Program(search_in_a_table, X, A),
    "sort": Program(sorted_ranks, X, A),
    "median": Program(towards_the_median, X, A, last_bits=KERNELS),
    "convolve": Program(smoothed, X, A, last_bits=SUMS),
    "erf": Program(error_function, X, A),
    "bessel": Program(bessel_function, X, A),
    "heat, slices": Program(heat, X, A),
    "coupled oscillators": Program(oscillators, (numbers(N), np.zeros(N)), A, last_bits=KERNELS),
}
