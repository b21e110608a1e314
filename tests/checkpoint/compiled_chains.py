"""Steps that are compiled, with what chains of them are given: numbers, mixed states, rows and outs, products, calls."""

import numpy as np
import optree

import dualad

N = 37


def lorenz(k, state, s, r, b):
    x, y, z = state
    return x + 0.01 * s * (y - x), y + 0.01 * (x * (r - z) - y), z + 0.01 * (x * y - b * z)


def waves(k, state, speed, shape):
    u, v, energy = state["u"], state["v"], state["energy"]
    v = v + speed * (np.roll(u, 1, 0) - u) * shape
    u = u + v
    u[:, -1] *= 0.5
    return {"u": u, "v": v, "energy": 0.9 * energy + np.sum(u**2) * np.cos(0.1 * k), "count": state["count"]}


def driven(k, state, row, c):
    x, v = state
    v = v + 0.1 * (np.sin(x) * c + row["force"] * row["gain"])
    return (x + 0.1 * v, v), {"x2": x * x, "norm": np.sum(v**2), "late": np.where(k > 5, v, 0.0)}


def dense(k, x, M, b):
    return np.tanh(x @ M + b)


def in_place(k, x, c):
    x[1:-1] += c * (x[2:] - 2.0 * x[1:-1] + x[:-2])
    return x


def relaxed(k, x, A):
    return 0.5 * x + np.linalg.solve(A, x)


def scaled(k, state, c):
    x, y = state
    return c * x, y * c + x * c  # cotangents are sums and products of products


random = np.random.default_rng(3)
GRID = random.uniform(size=(20, 30))
WAVES = {"u": GRID, "v": np.zeros((20, 30)), "energy": 0.5, "count": 3}
ROWS = {"force": random.uniform(size=(N, 4)), "gain": np.linspace(1.0, 2.0, N)}


def total(tree):
    return sum(np.sum(np.sin(abs(leaf) if np.iscomplexobj(leaf) else leaf)) for leaf in optree.tree_leaves(tree))


CASES = {
    "numbers": (lorenz, ((1.0, 1.0, 1.0), 10.0, 28.0, 8 / 3), {}),
    "strong numbers": (lorenz, (tuple(map(np.float64, (1.0, 1.0, 1.0))), np.float64(10.0), 28.0, 8 / 3), {}),
    "a mixed state": (waves, (WAVES, 0.05, random.uniform(size=(20, 30))), {}),
    "inputs and outs": (driven, ((np.ones(4), np.zeros(4)), 0.7), {"inputs": ROWS, "outputs": True}),
    "products": (dense, (np.ones(5), random.normal(size=(5, 5)), np.zeros(5)), {}),
    "in place": (in_place, (random.uniform(size=50), 0.1), {}),
    "float32": (in_place, (random.uniform(size=50).astype(np.float32), np.float32(0.1)), {}),
    "products of numbers": (scaled, ((0.3, 0.7), 0.9), {}),
    "products of a few": (scaled, ((np.array([0.3, 0.1, 1.3]), np.array([1.1, 0.7, 0.9])), 0.9), {}),
    "complex products": (scaled, ((np.array([0.3, 0.1j]), np.array([1.1j, 0.7])), 0.9 + 0.1j), {}),
    "calls": (relaxed, (np.ones(3), np.eye(3) * 3.0 + 0.1), {}),
}

JITTED = {step: dualad.jit(step) for step, *_ in CASES.values()}
