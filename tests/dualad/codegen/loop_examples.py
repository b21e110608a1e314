"""Functions with loops in Python that are rolled up, and their arguments."""

from __future__ import annotations

import numpy as np

RNG = np.random.default_rng(11)


def relaxed(p, b, turns=40):
    """Iterate a pressure equation in place, with walls."""
    p = p.copy()
    for _ in range(turns):
        old = p.copy()
        p[1:-1, 1:-1] = 0.25 * (old[1:-1, 2:] + old[1:-1, :-2] + old[2:, 1:-1] + old[:-2, 1:-1] - b[1:-1, 1:-1])
        p[:, -1] = p[:, -2]
        p[0, :] = p[1, :]
        p[-1, :] = 0
    return p


def attracted(positions, masses):
    """Sum forces over pairs: two loops, whose indices march unevenly."""
    forces = np.zeros_like(positions)
    for i in range(len(positions)):
        for j in range(len(positions)):
            if i != j:
                apart = positions[j] - positions[i]
                forces[i] += masses[j] * apart / (np.sum(apart * apart) + 0.1) ** 1.5
    return forces


def marched(x, rates):
    """Carry two values on, with times, weights and stacked results of all turns."""
    y, path = np.zeros(()), []
    for k in range(90):
        x = x + 0.01 * (np.sin(x) * rates[k % 5] - y * (0.5 + k))
        y = y * 0.9 + np.sum(x) * 0.001
        path.append(y)
    return x, np.stack(path), y


def layered(x, *weights):
    """Layers of values that are no constants."""
    for w in weights:
        for _ in range(1):
            x = np.tanh(w @ x + np.cos(x) * 0.5 - 0.1 * x * x)
    return x


def delayed(x):
    """Two turns back: the first turns are not like the others, and the last one is left over."""
    a, b = x, np.cos(x)
    total = np.zeros_like(x)
    for _ in range(60):
        a, b = b, 2.0 * b - a + 0.01 * np.sin(b)
        total += b * b
        total = total / (1.0 + 0.001 * total)
    return total * a, b


EXAMPLES = {
    "relaxed": (relaxed, (RNG.uniform(size=(12, 11)), RNG.uniform(size=(12, 11)))),
    "attracted": (attracted, (RNG.standard_normal((8, 3)), RNG.uniform(1.0, 2.0, 8))),
    "marched": (marched, (RNG.standard_normal(4), RNG.uniform(0.5, 1.0, 5))),
    "layered": (layered, (RNG.standard_normal(3), *RNG.standard_normal((70, 3, 3)))),
    "delayed": (delayed, (RNG.standard_normal(5),)),
}
