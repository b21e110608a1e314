"""Integrate the Brusselator in two dimensions by an implicit method, whose Newton steps have exact sparse Jacobians.

    python examples/brusselator.py [--cells 64] [--steps 250] [--plot brusselator.png]

Two substances react and diffuse on a periodic square; from t = 1.1 on, one of them is fed in on a small disc (BRUSS-2D of Hairer &
Wanner, Solving Ordinary Differential Equations II, section IV.10). Diffusion makes it stiff: explicit steps would have to be a hundred
times as short. Each step has two stages of one implicit equation (the diagonally implicit method of order 2 of Alexander, 1977, which is
L-stable), solved by Newton's method. Its matrix is that of the residual itself: the pattern is found and coloured once, then all entries
are written into the matrix at hand by one call, compiled where llvmlite is installed; its factors serve as long as they converge well.
"""

from __future__ import annotations

import argparse
import time
from importlib.util import find_spec

import numpy as np
from scipy.sparse.linalg import splu

import dualad

COMPILED = find_spec("llvmlite") is not None
DIFFUSION, FEED, START = 0.1, 5.0, 1.1
GAMMA = 1.0 - np.sqrt(0.5)  # which makes both stages alike, and the method L-stable
SLOW = 0.03  # a change that falls less from one iteration to the next asks for a new Jacobian


def laplacian(u):
    """Return the sum of the four neighbours on a periodic square minus four times the middle."""
    return np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1) - 4.0 * u


def rates(y, feed, cells):
    """Return dy/dt of both substances, a flat vector."""
    u, v = y.reshape(2, cells, cells)
    spread = DIFFUSION * cells**2
    reaction = u**2 * v
    du = 1.0 + reaction - 4.4 * u + spread * laplacian(u) + feed
    dv = 3.4 * u - reaction + spread * laplacian(v)
    return np.stack([du, dv]).reshape(-1)


def grid(cells):
    """Return the coordinates of the cells, x along the second axis."""
    axis = np.arange(cells) / cells
    return np.meshgrid(axis, axis)


def initial(cells):
    """Return the state at t = 0."""
    x, y = grid(cells)
    return np.stack([22.0 * y * (1.0 - y) ** 1.5, 27.0 * x * (1.0 - x) ** 1.5]).reshape(-1)


def feeding(cells):
    """Return what is fed in from t = 1.1 on."""
    x, y = grid(cells)
    return np.where((x - 0.3) ** 2 + (y - 0.6) ** 2 <= 0.1**2, FEED, 0.0)


class Implicit:
    """Steps of the method, with one matrix for the Newton iterations of all of them."""

    def __init__(self, cells, compiled=COMPILED):
        self.cells, self.feed = cells, feeding(cells)

        def residual(y, known, share, feed):
            return y - known - share * rates(y, feed, cells)

        self.residual = dualad.jit(residual) if compiled else residual
        example = np.ones(2 * cells**2), np.zeros(2 * cells**2), 1.0, self.feed
        begin = time.perf_counter()
        pattern = dualad.sparsity(residual, *example)
        self.coloring = dualad.coloring(pattern)
        self.once = time.perf_counter() - begin
        self.jacobian = dualad.jacobian(self.residual, sparsity=self.coloring)
        self.matrix = self.jacobian(*example)
        self.factors = None
        self.seconds = {"Jacobians": 0.0, "factors": 0.0, "all": 0.0}
        self.counts = {"Jacobians": 0, "iterations": 0, "steps": 0}

    def factorise(self, *arguments):
        """Fill the matrix and factorise it."""
        begin = time.perf_counter()
        self.jacobian.fill(self.matrix, *arguments)
        middle = time.perf_counter()
        self.factors = splu(self.matrix.tocsc(), permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True})
        self.seconds["Jacobians"] += middle - begin
        self.seconds["factors"] += time.perf_counter() - middle
        self.counts["Jacobians"] += 1

    def newton(self, y, known, share, feed):
        """Return the solution of ``y = known + share * rates(y)`` near y."""
        last = np.inf
        for _ in range(30):
            if self.factors is None:
                self.factorise(y, known, share, feed)
                last = np.inf
            change = self.factors.solve(-self.residual(y, known, share, feed))
            y = y + change
            size = np.max(np.abs(change))
            self.counts["iterations"] += 1
            if size < 1e-10:
                return y
            if size > SLOW * last:
                self.factors = None
            last = size
        raise RuntimeError("Newton's method does not converge: take shorter steps")

    def step(self, y, t, h):
        """Return the state a step later."""
        begin = time.perf_counter()
        share, feed = GAMMA * h, self.feed if t + 1e-9 * h >= START else np.zeros_like(self.feed)
        first = self.newton(y, y, share, feed)
        slope = (first - y) / share
        result = self.newton(first, y + (1.0 - GAMMA) * h * slope, share, feed)
        self.seconds["all"] += time.perf_counter() - begin
        self.counts["steps"] += 1
        return result

    def run(self, y, end, steps):
        """Yield t and the state after each step."""
        h = end / steps
        for k in range(steps):
            y = self.step(y, k * h, h)
            yield (k + 1) * h, y


def plot(shown, cells, path):
    """Draw u, the first substance, at some times, and the coloured pattern of a small grid."""
    from matplotlib import pyplot

    pyplot.switch_backend("agg")
    figure, axes = pyplot.subplots(1, len(shown) + 1, figsize=(4.1 * (len(shown) + 1), 4.0), layout="constrained")
    for ax, (t, y) in zip(axes, shown, strict=False):
        image = ax.imshow(y.reshape(2, cells, cells)[0], extent=(0, 1, 0, 1), origin="lower", cmap="viridis")
        ax.set(title=f"u at t = {t:.2f}", xlabel="x", ylabel="y")
        figure.colorbar(image, ax=ax, shrink=0.8)
    small = Implicit(5, compiled=False).coloring
    small.plot(axes[-1])
    axes[-1].set_title(f"5 x 5 cells, {small.forward_colors} colours")
    figure.savefig(path, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cells", type=int, default=64, help="in each direction (default: 64)")
    parser.add_argument("--steps", type=int, default=250, help="until t = 2.5 (default: 250)")
    parser.add_argument("--plot", metavar="FILE")
    options = parser.parse_args()
    method = Implicit(options.cells)
    print(method.coloring)
    print(f"pattern found and coloured in {method.once:.2f} s")
    states = [(0.0, initial(options.cells)), *method.run(initial(options.cells), 2.5, options.steps)]
    counts, seconds = method.counts, method.seconds
    print(f"{counts['steps']} steps, {counts['iterations']} Newton iterations, {counts['Jacobians']} Jacobians")
    share = 100 * seconds["Jacobians"] / seconds["all"]
    print(f"{seconds['all']:.2f} s: Jacobians {share:.1f} %, their factors {100 * seconds['factors'] / seconds['all']:.1f} %")
    u = states[-1][1].reshape(2, -1)[0]
    print(f"u, the first substance, at t = 2.5: from {u.min():.4f} to {u.max():.4f}, mean {u.mean():.4f}")
    if options.plot:
        times = np.array([t for t, _ in states])
        plot([states[int(np.argmin(abs(times - t)))] for t in (0.5, START, 1.5)], options.cells, options.plot)
        print(f"wrote {options.plot}")


if __name__ == "__main__":
    main()
