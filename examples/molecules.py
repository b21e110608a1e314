"""Who pushed this particle? Molecular dynamics with a neighbour list, and the gradient of one position by all earlier ones.

    python examples/molecules.py [--plot molecules.png] [--side 12]

Particles in a periodic box attract and repel each other (Lennard-Jones, truncated with its force at r = 2.5), and move by the velocity
Verlet method (Verlet 1967). The list of neighbours is made of plain positions every ten steps, as molecular dynamics codes do: it says
which pairs are computed, and has no derivative. The ten steps are one step of a `chain`. The gradient says how far each particle's first
position matters to the last one of the particle in the middle: influence spreads with the speed of sound.
"""

import argparse

import numpy as np

from checkpoint import chain, grad
from dualad import primal

CUT, SKIN, H = 2.5, 0.4, 0.005
SPACING = 1.12


def lattice(side):
    """Return positions on a square lattice, random velocities without drift, and the length of the box."""
    x = SPACING * np.stack(np.meshgrid(np.arange(side), np.arange(side)), axis=-1).reshape(-1, 2).astype(float)
    v = np.random.default_rng(0).normal(0.0, 0.6, x.shape)
    return x, v - v.mean(axis=0), SPACING * side


def between(x, pairs, box):
    """Return the vectors from the second to the first particle of pairs, to the nearest image."""
    d = x[pairs[0]] - x[pairs[1]]
    return d - box * np.round(primal(d) / box)


def neighbours(x, box):
    """Return the pairs of particles that may come close within ten steps."""
    pairs = np.triu_indices(len(x), 1)
    near = np.sum(between(x, pairs, box) ** 2, axis=1) < (CUT + SKIN) ** 2
    return pairs[0][near], pairs[1][near]


def strength(r2):
    """Return the force over the distance, of a squared distance."""
    return 24.0 * (2.0 / r2**7 - 1.0 / r2**4)


def forces(x, pairs, box):
    """Return the forces on all particles; that at the cut is taken off, so that it is continuous."""
    d = between(x, pairs, box)
    r2 = np.sum(d**2, axis=1)
    within = np.where(r2 < CUT**2, strength(r2) - strength(CUT**2) * CUT / np.sqrt(r2), 0.0)
    pull, total = within[:, None] * d, np.zeros_like(x)
    np.add.at(total, pairs[0], pull)
    np.subtract.at(total, pairs[1], pull)
    return total


def ten_steps(k, state, box):
    x, v = state
    pairs = neighbours(primal(x), box)
    force = forces(x, pairs, box)
    for _ in range(10):
        v = v + 0.5 * H * force
        x = x + H * v
        force = forces(x, pairs, box)
        v = v + 0.5 * H * force
    return x, v


def run(x, v, box, tens):
    return chain(ten_steps, (x, v), box, steps=tens)


def influence(side, tens):
    """Return the last positions, and how far each first position matters to the last one of the particle in the middle."""
    x, v, box = lattice(side)
    middle = side // 2 * (side + 1)
    rows = [grad(lambda x, axis=axis: run(x, v, box, tens)[0][middle, axis])(x) for axis in (0, 1)]
    return run(x, v, box, tens)[0], middle, np.sqrt(sum(np.sum(row**2, axis=1) for row in rows))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plot", metavar="FILE", help="write a picture")
    parser.add_argument("--side", type=int, default=12, help="particles on a side (default 12)")
    parser.add_argument("--steps", type=int, default=150, help="steps, a multiple of ten (default 150)")
    options = parser.parse_args()
    x, middle, matters = influence(options.side, options.steps // 10)
    print(f"{len(x)} particles, {options.steps} steps: {np.sum(matters > 1e-3)} particles matter by more than 0.001")
    if options.plot:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(5.2, 4.4), layout="constrained")
        ax = figure.subplots()
        x = x % (SPACING * options.side)
        dots = ax.scatter(*x.T, c=np.log10(np.maximum(matters, 1e-6)), s=16000 / options.side**2, cmap="magma_r", edgecolors="0.6")
        ax.plot(*x[middle], "c+", markersize=12, markeredgewidth=3)
        ax.set(title="influence on the particle marked +", xticks=[], yticks=[], aspect="equal")
        figure.colorbar(dots, ax=ax, label="log10 |derivative|")
        figure.savefig(options.plot, dpi=120)
        print(f"wrote {options.plot}")


if __name__ == "__main__":
    main()
