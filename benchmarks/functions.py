"""The functions that more than one workload differentiates, each for any NumPy-like namespace, and their derivatives by hand."""

from __future__ import annotations

import numpy as np

__all__ = ["chain", "chain_gradient", "functions", "loop", "loop_gradient", "points", "rosenbrock", "rosenbrock_gradient"]


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
