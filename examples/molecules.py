"""Who pushed this particle? Molecular dynamics with a neighbour list, and the gradient of one position by all earlier ones.

    python examples/molecules.py [--plot molecules.png] [--steps 150]

Particles in a periodic box attract and repel each other (Lennard-Jones, truncated with its force), and move by Verlet's method (1967).
The list of neighbours is made of plain positions every ten steps, which are one step of a `chain`: it says which pairs are computed, and
has no derivative. How far each particle's first position matters to the last one in the middle spreads with the speed of sound.
"""

import numpy as np
from shared import options, picture

from checkpoint import chain, grad
from dualad import primal

CUT, SKIN, H, SPACING, SIDE = 2.5, 0.4, 0.005, 1.12, 12
BOX, MIDDLE = SPACING * SIDE, SIDE // 2 * (SIDE + 1)
START = SPACING * np.stack(np.meshgrid(np.arange(SIDE), np.arange(SIDE)), axis=-1).reshape(-1, 2)  # a lattice
VELOCITIES = np.random.default_rng(0).normal(0.0, 0.6, START.shape)


def between(x, pairs):
    """Return the vectors from the second to the first particle of pairs, to the nearest image."""
    d = x[pairs[0]] - x[pairs[1]]
    return d - BOX * np.round(primal(d) / BOX)


def forces(x, pairs):
    """Return the forces on all particles; that at the cut is taken off, so that it is continuous."""
    d, strength = between(x, pairs), lambda r: 24.0 * (2.0 / r**13 - 1.0 / r**7)
    r, total = np.sqrt(np.sum(d**2, axis=1)), np.zeros_like(x)
    pulls = np.where(r < CUT, (strength(r) - strength(CUT)) / r, 0.0)[:, None] * d
    np.add.at(total, pairs, np.stack([pulls, -pulls]))
    return total


def ten_steps(k, state):
    (x, v), pairs = state, np.stack(np.triu_indices(len(START), 1))
    pairs = pairs[:, np.sum(between(primal(x), pairs) ** 2, axis=1) < (CUT + SKIN) ** 2]  # those that may come close meanwhile
    for _ in range(10):
        v = v + H * forces(x, pairs)  # half a step before and after x
        x = x + H * v
    return x, v


def main():
    words = options(__doc__, steps=(150, "a multiple of ten"))
    last = lambda x: chain(ten_steps, (x, VELOCITIES), steps=words.steps // 10)[0]
    matters = np.linalg.norm([grad(lambda x, axis=axis: last(x)[MIDDLE, axis])(START) for axis in (0, 1)], axis=(0, 2))
    print(f"{len(START)} particles, {words.steps} steps: {np.sum(matters > 1e-3)} particles matter by more than 0.001")
    with picture(words.plot, size=(5.2, 4.4)) as axes:
        x = last(START) % BOX
        dots = axes.scatter(*x.T, c=np.log10(np.maximum(matters, 1e-6)), s=110, cmap="magma_r", edgecolors="0.6")
        axes.plot(*x[MIDDLE], "c+", markersize=12, markeredgewidth=3)
        axes.set(title="influence on the particle marked +", xlabel="x", ylabel="y", aspect="equal")
        axes.figure.colorbar(dots, ax=axes, label="log10 |derivative|")


if __name__ == "__main__":
    main()
