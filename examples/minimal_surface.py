"""Span a soap film over the edge of a square: a nonlinear equation in two dimensions, its Jacobian given to scipy.optimize.root.

    python examples/minimal_surface.py [--cells 28] [--plot minimal_surface.png]

The height u of a film is (1 + u_y^2) u_xx - 2 u_x u_y u_xy + (1 + u_x^2) u_yy = 0 inside, and given on the edge. Over the square of
half-width 1 with the edge of Scherk's surface, u = log(cos(x) / cos(y)), the film is that surface, so the error of the discretisation is
known. The residual is plain NumPy: the unknowns are written into a copy of the edge, which `np.array(..., like=)` makes so that it takes
traced values, too. For a Jacobian by differences `root` needs an evaluation for each of the unknowns; `jacobian(residual)` pushes as many
directions through a few evaluations, and knowing that a point of the grid has nine neighbours, nine directions through one.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from scipy.optimize import root

import dualad
from dualad import jacobian

HALF = 1.0  # of the width of the square; Scherk's surface has walls at pi / 2


def scherk(cells):
    """Return Scherk's surface at the points of a grid of so many cells in each direction, the edge included."""
    x = np.linspace(-HALF, HALF, cells + 1)
    return np.log(np.cos(x)[:, None] / np.cos(x))


def make_residual(edge):
    """Return the residual of the film inside of an array of heights whose edge is given, as a function of a flat vector."""
    inside = edge.shape[0] - 2, edge.shape[1] - 2
    h = 2.0 * HALF / (edge.shape[0] - 1)

    def residual(flat):
        u = np.array(edge, like=flat)
        u[1:-1, 1:-1] = flat.reshape(inside)
        middle = u[1:-1, 1:-1]
        u_x = (u[2:, 1:-1] - u[:-2, 1:-1]) / (2.0 * h)
        u_y = (u[1:-1, 2:] - u[1:-1, :-2]) / (2.0 * h)
        u_xx = (u[2:, 1:-1] - 2.0 * middle + u[:-2, 1:-1]) / h**2
        u_yy = (u[1:-1, 2:] - 2.0 * middle + u[1:-1, :-2]) / h**2
        u_xy = (u[2:, 2:] - u[2:, :-2] - u[:-2, 2:] + u[:-2, :-2]) / (4.0 * h**2)
        return ((1.0 + u_y**2) * u_xx - 2.0 * u_x * u_y * u_xy + (1.0 + u_x**2) * u_yy).ravel()

    return residual


def film(cells, kind="coloured"):
    """Return the film as an array of heights, what `root` says, and the number of evaluations of the residual.

    The kind of Jacobian is "coloured" (sparse, made dense for `root`), "dense", or "differences".
    """
    edge = scherk(cells)
    edge[1:-1, 1:-1] = 0.0
    residual, evaluations = make_residual(edge), 0

    def counted(flat):
        nonlocal evaluations
        evaluations += 1
        return residual(flat)

    sparse = jacobian(counted, sparsity=dualad.coloring(dualad.sparsity(residual, np.zeros((cells - 1) ** 2))))
    given = {"coloured": lambda flat: sparse(flat).toarray(), "dense": jacobian(counted), "differences": None}
    solution = root(counted, np.zeros((cells - 1) ** 2), jac=given[kind])
    edge[1:-1, 1:-1] = solution.x.reshape(cells - 1, cells - 1)
    return edge, solution, evaluations


def plot(u, path):
    """Draw the film."""
    from matplotlib import pyplot

    pyplot.switch_backend("agg")
    x = np.linspace(-HALF, HALF, len(u))
    figure, axes = pyplot.subplots(subplot_kw={"projection": "3d"}, layout="constrained")
    axes.plot_surface(*np.meshgrid(x, x, indexing="ij"), u, cmap="viridis", edgecolor="k", linewidth=0.2)
    axes.set(xlabel="x", ylabel="y", zlabel="height", title="Scherk's surface, from its edge")
    figure.savefig(path, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cells", type=int, default=28, help="in each direction (default: 28)")
    parser.add_argument("--plot", metavar="FILE")
    options = parser.parse_args()
    for kind in ("differences", "dense", "coloured"):
        started = time.perf_counter()
        u, solution, evaluations = film(options.cells, kind)
        seconds = time.perf_counter() - started
        error = np.abs(u - scherk(options.cells)).max()
        print(f"{kind:<11} {evaluations:5} evaluations, {seconds:.2f} s: {solution.message} Largest error {error:.2e}")
    if options.plot:
        plot(u, options.plot)
        print(f"wrote {options.plot}")


if __name__ == "__main__":
    main()
