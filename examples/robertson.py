"""Integrate Robertson's stiff reaction along a line of cells, with the exact sparse Jacobian.

    python examples/robertson.py [--cells 60] [--plot robertson.png]

Three substances, A -> B slowly, 2 B -> B + C very fast, B + C -> A + C fast (Robertson 1966; Hairer & Wanner, Solving Ordinary
Differential Equations II, IV.10), in cells whose first reaction is the slower the further they are from the left end, and between which
they diffuse. The Jacobian has 7 colours, however many cells there are.
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy.integrate import solve_ivp

from dualad import coloring, jacobian, sparsity

SLOW, FASTEST, FAST = 0.04, 3e7, 1e4
END = 1e4


class Line:
    """The reaction in some cells; unknowns are A, B and C of the first cell, then of the next."""

    def __init__(self, cells, diffusion=1e-3, spread=2.0):
        self.cells, self.diffusion, self.evaluations = cells, diffusion, 0
        self.slow = SLOW * np.exp(-spread * np.linspace(0.0, 1.0, cells))
        self.start = np.tile([1.0, 0.0, 0.0], cells)

    def rate(self, t, y):
        """Return the time derivative of all unknowns."""
        self.evaluations += 1
        y = y.reshape(self.cells, 3)
        a, b, c = y[:, 0], y[:, 1], y[:, 2]
        ab, bc = self.slow * a - FAST * b * c, FASTEST * b**2
        change = np.stack([-ab, ab - bc, bc], axis=1)
        flow = self.diffusion * (y[1:] - y[:-1])
        change[:-1] += flow
        change[1:] -= flow
        return change.reshape(-1)

    def coloring(self):
        """Return the colouring of the Jacobian, from its pattern."""
        return coloring(sparsity(self.rate, 0.0, self.start, argnums=1))

    def integrate(self, end=END, exact=True, method="BDF", **options):
        """Return SciPy's solution and the evaluations that it took, with the exact Jacobian or SciPy's differences."""
        jac = jacobian(self.rate, argnums=1, sparsity=self.coloring()) if exact else None
        self.evaluations = 0
        tolerances = {"rtol": 1e-6, "atol": np.tile([1e-8, 1e-12, 1e-8], self.cells)}
        solution = solve_ivp(self.rate, (0.0, end), self.start, method=method, jac=jac, **tolerances | options)
        return solution, self.evaluations


def plot(line, solution, path):
    """Draw the substances in the first and the last cell, and the pattern of the Jacobian with its colours."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.2), layout="constrained")
    y = solution.y.reshape(line.cells, 3, -1)
    after = solution.t > 1e-5
    for substance, (name, scale) in enumerate((("A", 1.0), ("10$^4$ B", 1e4), ("C", 1.0))):
        for cell, style in ((0, "-"), (-1, "--")):
            label = f"{name}, {'first' if cell == 0 else 'last'} cell"
            left.semilogx(solution.t[after], scale * y[cell, substance, after], style, color=f"C{substance}", label=label)
    left.set(xlabel="time", ylabel="concentration", title=f"{solution.t.size - 1} steps, {solution.njev} Jacobians")
    left.legend(fontsize=8)
    few = Line(min(line.cells, 8)).coloring()
    few.plot(right)
    right.set_title(f"Jacobian of {min(line.cells, 8)} cells: {few.forward_colors} colours")
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, default=60)
    parser.add_argument("--plot", metavar="FILE", help="write a picture")
    options = parser.parse_args()
    line = Line(options.cells)
    colors = line.coloring()
    print(f"{line.start.size} unknowns, {colors.forward_colors} colours")
    results = {}
    for name, exact in (("exact sparse Jacobian", True), ("SciPy's differences", False)):
        solution, evaluations = line.integrate(exact=exact)
        total = solution.y.reshape(line.cells, 3, -1).sum(axis=(0, 1)) / line.cells
        results[name] = solution
        print(
            f"{name:<22} {solution.t.size - 1:5} steps {solution.njev:4} Jacobians {evaluations:6} evaluations, "
            f"mass changed by {np.max(np.abs(total - 1.0)):.1e}"
        )
    if options.plot:
        plot(line, results["exact sparse Jacobian"], options.plot)
        print(f"wrote {options.plot}")


if __name__ == "__main__":
    main()
