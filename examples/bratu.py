"""Solve Bratu's equation, u_xx + u_yy + lambda exp(u) = 0 on the unit square, by Newton's method with exact sparse Jacobians.

    python examples/bratu.py [--cells 128] [--plot bratu.png]

u is zero on the boundary. For each lambda below a turning point near 6.81 there are two solutions; they are one curve, which is
followed through the turning point by pseudo-arclength continuation: lambda is an unknown, too, and its column makes the Jacobian an
arrow, whose last row is the only dense one. The pattern is found from the residual itself and coloured once; a Newton step then costs a
few directions of forward mode and one row of reverse mode, compiled where llvmlite is installed, and one sparse factorisation.
"""

from __future__ import annotations

import argparse
import time
from importlib.util import find_spec

import numpy as np
from scipy.sparse import csc_array
from scipy.sparse.linalg import splu

import dualad
from checkpoint import jacobian

COMPILED = find_spec("llvmlite") is not None
SCALE = 0.1  # of lambda along the curve, so that it counts as much as u
LARGEST_LAMBDA = 6.808124423  # where the curve turns (Doedel, Keller & Kernevez 1991), for fine grids


def laplacian(u):
    """Return the five-point sum of the neighbours minus four times the middle, with zeros around."""
    around = np.pad(u, 1)
    return around[2:, 1:-1] + around[:-2, 1:-1] + around[1:-1, 2:] + around[1:-1, :-2] - 4.0 * u


def make_residual(cells):
    """Return the residual of (u, lambda), a flat vector, with the arclength condition as its last element."""
    h = 1.0 / (cells + 1)

    def residual(x, start, tangent, length):
        u, strength = x[:-1].reshape(cells, cells), x[-1]
        equation = laplacian(u) + h**2 * strength * np.exp(u)
        along = tangent[:-1] @ (x[:-1] - start[:-1]) * h**2 + SCALE**2 * tangent[-1] * (strength - start[-1]) - length
        return np.concatenate([equation.reshape(-1), along[None]])

    return residual


class Curve:
    """The solutions of the discretised equation, one after the other along their curve."""

    def __init__(self, cells, compiled=COMPILED):
        self.cells, self.weight = cells, 1.0 / (cells + 1) ** 2
        n = cells**2 + 1
        residual = make_residual(cells)
        self.residual = dualad.jit(residual) if compiled else residual
        example = np.zeros(n), np.zeros(n), np.ones(n), 0.1
        seconds = time.perf_counter()
        pattern = dualad.sparsity(residual, *example)
        self.found = time.perf_counter() - seconds
        self.coloring = dualad.coloring(pattern, "both")
        self.colored = time.perf_counter() - seconds - self.found
        self.jacobian = jacobian(self.residual, sparsity=self.coloring)
        self.jacobian(*example)  # compiled once
        self.seconds = {"Jacobian": 0.0, "solve": 0.0}
        self.steps = 0

    def dot(self, a, b):
        """Return the product of two points of the curve, as integrals."""
        return self.weight * (a[:-1] @ b[:-1]) + SCALE**2 * a[-1] * b[-1]

    def newton(self, x, *condition):
        """Return the solution near x, and the factors of the last Jacobian."""
        for _ in range(20):
            begin = time.perf_counter()
            matrix = self.jacobian(x, *condition)
            middle = time.perf_counter()
            factors = splu(csc_array(matrix), permc_spec="COLAMD" if self.cells < 64 else "MMD_AT_PLUS_A")
            change = factors.solve(-self.residual(x, *condition))
            self.seconds["Jacobian"] += middle - begin
            self.seconds["solve"] += time.perf_counter() - middle
            self.steps += 1
            x = x + change
            if np.max(np.abs(change)) < 1e-10:
                return x, factors
        raise RuntimeError("Newton's method does not converge: take shorter steps along the curve")

    def follow(self, points, length):
        """Yield points of the curve, from u = 0, lambda = 0 on."""
        x = np.zeros(self.cells**2 + 1)
        tangent = np.zeros_like(x)
        tangent[-1] = 1.0 / SCALE
        yield x
        for _ in range(points):
            x, factors = self.newton(x + length * tangent, x, tangent, length)
            last = np.zeros_like(x)
            last[-1] = 1.0
            tangent = factors.solve(last)  # along the curve, since its products with all rows but the last are zero
            tangent /= np.sqrt(self.dot(tangent, tangent))
            yield x


def plot(points, curve, path):
    """Draw the curve, the solution at its turning point, and the coloured pattern of a small grid."""
    from matplotlib import pyplot

    pyplot.switch_backend("agg")
    figure, (left, middle, right) = pyplot.subplots(1, 3, figsize=(13.5, 4.2), layout="constrained")
    strengths, peaks = [x[-1] for x in points], [x[:-1].max() for x in points]
    turn = int(np.argmax(strengths))
    left.plot(strengths, peaks, "o-", markersize=3)
    left.plot(strengths[turn], peaks[turn], "o", color="tab:red")
    left.set(xlabel="lambda", ylabel="largest u", title="Bratu's equation: two solutions for each lambda")
    image = middle.imshow(points[turn][:-1].reshape(curve.cells, -1), extent=(0, 1, 0, 1), origin="lower")
    middle.set(title=f"u at the turning point, lambda = {strengths[turn]:.3f}")
    figure.colorbar(image, ax=middle)
    small = Curve(8, compiled=False).coloring
    small.plot(right)
    right.set_title(f"Jacobian of 8 x 8 cells, {small.forward_colors} + {small.reverse_colors} colours")
    figure.savefig(path, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cells", type=int, default=128, help="in each direction (default: 128)")
    parser.add_argument("--points", type=int, default=16, help="of the curve (default: 16)")
    parser.add_argument("--plot", metavar="FILE")
    options = parser.parse_args()
    curve = Curve(options.cells)
    print(curve.coloring)
    print(f"pattern found in {curve.found:.2f} s, coloured in {curve.colored:.2f} s")
    points = list(curve.follow(options.points, 0.15))
    best = max(points, key=lambda x: x[-1])
    print(f"turning point near lambda = {best[-1]:.4f} (fine grids: {LARGEST_LAMBDA:.4f}), largest u {best[:-1].max():.4f}")
    share = curve.seconds["Jacobian"] / curve.seconds["solve"]
    each = {what: 1e3 * seconds / curve.steps for what, seconds in curve.seconds.items()}
    print(f"{curve.steps} Newton steps: Jacobian {each['Jacobian']:.1f} ms, solve {each['solve']:.1f} ms each ({100 * share:.1f} %)")
    if options.plot:
        plot(points, curve, options.plot)
        print(f"wrote {options.plot}")


if __name__ == "__main__":
    main()
