"""Misfit and gradient of a pendulum for many guesses of its start and its damping, computed on a dask cluster.

    python examples/ensemble.py [--executor dask|processes|here] [--plot ensemble.png]

Each member is a chain of 1000 steps, reversed with a few saved states. The arrows of the picture, the gradients, stand across the
contours of the misfit, which are drawn from the values alone.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager

import numpy as np

from checkpoint import chain, map_gradients

DT, STEPS = 0.02, 1000
TRUTH = np.array([1.0, 0.15])  # angle at the start, damping
EVERY = 50


def step(k, state, damping):
    """One step of the damped pendulum, symplectic but for the damping; the angle is put out."""
    angle, speed = state
    speed = speed - DT * (np.sin(angle) + damping * speed)
    angle = angle + DT * speed
    return (angle, speed), angle


def angles(guess, steps=STEPS):
    """Return the angle after each step."""
    return chain(step, (guess[0], 0.0), guess[1], steps=steps, outputs=True)[1]


def misfit(guess, measured):
    """Return the mean square difference from the measured angles."""
    return np.mean((angles(guess, EVERY * len(measured))[EVERY - 1 :: EVERY] - measured) ** 2)


def measure(truth=TRUTH, count=STEPS // EVERY):
    """Return what would be measured, without noise."""
    return angles(truth, EVERY * count)[EVERY - 1 :: EVERY]


def members(n):
    """Return n x n guesses: of angles, and of dampings."""
    return np.linspace(0.4, 1.6, n), np.linspace(0.05, 0.3, n)


def landscape(n, measured, executor=None, progress=False):
    """Return the misfits (n, n) and their gradients (n, n, 2)."""
    xs = [np.array([angle, damping]) for angle in members(n)[0] for damping in members(n)[1]]
    values, gradients = map_gradients(misfit, xs, measured, executor=executor, progress=progress)
    return np.reshape(values, (n, n)), np.reshape(gradients, (n, n, 2))


@contextmanager
def workers(name):
    """Open an executor: None computes here."""
    if name == "dask":
        from dask.distributed import Client, LocalCluster

        with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
            yield client.get_executor()
    elif name == "processes":
        with ProcessPoolExecutor(2) as pool:
            yield pool
    else:
        yield None


def plot(values, gradients, path):
    """Draw the contours of the misfit, and the direction of steepest descent at each guess."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    angle, damping = members(len(values))
    box = np.array([angle[-1] - angle[0], damping[-1] - damping[0]])
    figure, axes = plt.subplots(figsize=(7, 5.5), layout="constrained")
    lines = axes.contour(angle, damping, np.log10(values + 1e-12).T, 14, cmap="viridis")
    figure.colorbar(lines, label="log10 of the misfit")
    descent = -gradients * box**2  # across the contours of a picture whose axes have other scales
    descent = descent / np.linalg.norm(descent / box, axis=-1, keepdims=True)
    axes.quiver(
        *np.meshgrid(angle, damping, indexing="ij"),
        descent[..., 0],
        descent[..., 1],
        angles="xy",
        width=0.003,
        scale=14,
        scale_units="width",
    )
    axes.plot(*TRUTH, "r*", ms=14, label="truth")
    axes.set(xlabel="angle at the start", ylabel="damping")
    axes.legend()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--executor", choices=["dask", "processes", "here"], default="dask")
    parser.add_argument("--members", type=int, default=10, help="along each axis")
    parser.add_argument("--plot", metavar="FILE", help="write a picture")
    options = parser.parse_args()
    with workers(options.executor) as executor:
        values, gradients = landscape(options.members, measure(), executor)
    best = np.unravel_index(np.argmin(values), values.shape)
    angle, damping = members(options.members)
    print(f"{values.size} members of {STEPS} steps; the best is angle {angle[best[0]]:.3f}, damping {damping[best[1]]:.3f}")
    print(f"misfit {values[best]:.2e}, gradient {gradients[best]}; truth {TRUTH}")
    if options.plot:
        plot(values, gradients, options.plot)
        print(f"wrote {options.plot}")


if __name__ == "__main__":
    main()
