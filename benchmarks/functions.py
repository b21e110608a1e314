"""The functions that more than one workload differentiates, each for any NumPy-like namespace, and their derivatives by hand."""

from __future__ import annotations

import numpy as np

# --- arrays -----------------------------------------------------------------------------------------------------------------


def rosenbrock(x, np=np):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def chain(x, np=np):
    return np.sum(np.tanh(np.sin(x) * np.exp(-0.5 * x) + np.sqrt(1.0 + x * x)))


def functions(np):
    """Return the two functions of arrays, in the namespace `np`."""
    return {"Rosenbrock": lambda x: rosenbrock(x, np), "elementwise chain": lambda x: chain(x, np)}


def rosenbrock_gradient(x):
    g = np.zeros_like(x)
    apart = x[1:] - x[:-1] ** 2
    g[1:] = 200.0 * apart
    g[:-1] += -400.0 * x[:-1] * apart - 2.0 * (1 - x[:-1])
    return g


def chain_gradient(x):
    e, s, r = np.exp(-0.5 * x), np.sin(x), np.sqrt(1.0 + x * x)
    return (1.0 - np.tanh(s * e + r) ** 2) * (np.cos(x) * e - 0.5 * s * e + x / r)


def points(n):
    """Return a point and a direction, the same in every subprocess."""
    return np.linspace(0.5, 1.5, n), np.cos(np.arange(n))


# --- scalar Python code -----------------------------------------------------------------------------------------------------


def loop(x):
    """Rosenbrock's function, number by number."""
    total = 0.0
    for i in range(len(x) - 1):
        total = total + 100.0 * (x[i + 1] - x[i] ** 2) ** 2 + (1 - x[i]) ** 2
    return total


def loop_gradient(x):
    g = [0.0] * len(x)
    for i in range(len(x) - 1):
        apart = x[i + 1] - x[i] ** 2
        g[i + 1] += 200.0 * apart
        g[i] += -400.0 * x[i] * apart - 2.0 * (1 - x[i])
    return g


# --- steps of simulations ---------------------------------------------------------------------------------------------------

DU, DV, FEED, KILL = 0.16, 0.08, 0.035, 0.065


def spread(a, np=np):
    """The Laplacian on a periodic grid."""
    return np.roll(a, 1, 0) + np.roll(a, -1, 0) + np.roll(a, 1, 1) + np.roll(a, -1, 1) - 4.0 * a


def gray_scott(k, state, feed=FEED, kill=KILL, np=np):
    """A step of Gray-Scott's reaction and diffusion."""
    u, v = state
    reaction = u * v * v
    return u + DU * spread(u, np) - reaction + feed * (1.0 - u), v + DV * spread(v, np) + reaction - (feed + kill) * v


def runge_kutta(h):
    """Return a step of Lorenz-63 of length h by the classical Runge-Kutta method, in plain numbers."""

    def slope(x, y, z, s, r, b):
        return s * (y - x), x * (r - z) - y, x * y - b * z

    def step(k, state, s, r, b):
        x, y, z = state
        a1, b1, c1 = slope(x, y, z, s, r, b)
        a2, b2, c2 = slope(x + 0.5 * h * a1, y + 0.5 * h * b1, z + 0.5 * h * c1, s, r, b)
        a3, b3, c3 = slope(x + 0.5 * h * a2, y + 0.5 * h * b2, z + 0.5 * h * c2, s, r, b)
        a4, b4, c4 = slope(x + h * a3, y + h * b3, z + h * c3, s, r, b)
        w = h / 6.0
        return x + w * (a1 + 2 * a2 + 2 * a3 + a4), y + w * (b1 + 2 * b2 + 2 * b3 + b4), z + w * (c1 + 2 * c2 + 2 * c3 + c4)

    return step


# --- states and gradients, of parts -----------------------------------------------------------------------------------------


def parts(state):
    return state if isinstance(state, tuple) else (state,)


def copied(state):
    return tuple(map(np.copy, state)) if isinstance(state, tuple) else state.copy()


def leaves(gradient):
    """Return all numbers of a gradient by states and parameters."""
    return np.concatenate([np.ravel(leaf) for part in gradient for leaf in parts(part)])
