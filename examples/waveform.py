"""Find what lies inside of a ring of sources and receivers from the waves that pass through: full-waveform inversion.

    python examples/waveform.py [--cells 40] [--iterations 30] [--plot waveform.png]

Waves u_tt = c^2 (u_xx + u_yy) are sent from one source after the other and recorded around the ring. The squared speed c^2 at each point
inside is what minimizes the misfit to the records (Tarantola 1984); outside it is known. The gradient is what is called the adjoint state
method: waves run backwards in time, from the residuals at the receivers. Here that is `value_and_grad` of a `chain` of plain NumPy steps,
whose inputs are the source's signal and whose outputs are the records. The records are made by the same steps, without noise.
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy.optimize import minimize

from checkpoint import chain, value_and_grad
from dualad import jit

DAMPING = 0.05  # a step, at the edge, where waves are to leave
SPEED = 0.25  # the square of the Courant number where nothing is hidden


@jit
def step(k, state, push, squared, absorbed, source, receivers):
    """Advance (u, u one step before) by one step, and return what the receivers record."""
    u, before = state
    inner = u[1:-1, 1:-1]
    laplacian = np.zeros_like(u)
    laplacian[1:-1, 1:-1] = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4.0 * inner
    after = absorbed * (2.0 * u - absorbed * before + squared * laplacian) + push * source
    return (after, u), np.sum(receivers * after, axis=(1, 2))


class Survey:
    """Sources and receivers around the middle of a square of so many cells, and the waves between them."""

    def __init__(self, cells, shots=6, receivers=16):
        self.cells, self.steps = cells, 4 * cells
        edge = np.minimum(np.arange(cells), np.arange(cells)[::-1])
        depth = np.minimum(edge[:, None], edge) / (0.15 * cells)
        self.absorbed = 1.0 - DAMPING * np.maximum(1.0 - depth, 0.0)
        self.inside = self.ball(0.0, 0.0, 0.55)
        self.sources = self.ring(shots, 0.62)
        self.receivers = self.ring(receivers, 0.7)
        t = (np.arange(self.steps) - 0.35 * cells) / (0.12 * cells)
        self.signal = (1.0 - 2.0 * t**2) * np.exp(-(t**2))

    def ball(self, x, y, radius):
        """Return 1.0 inside of a ball, 0.0 outside; the square is 2 wide."""
        at = np.linspace(-1.0, 1.0, self.cells)
        return ((at[:, None] - x) ** 2 + (at - y) ** 2 < radius**2).astype(float)

    def ring(self, count, radius):
        """Return arrays with a one each, at points around the middle."""
        angles = 2.0 * np.pi * np.arange(count) / count
        rows, columns = (np.rint((1.0 + radius * f(angles)) / 2.0 * (self.cells - 1)).astype(int) for f in (np.cos, np.sin))
        points = np.zeros((count, self.cells, self.cells))
        points[np.arange(count), rows, columns] = 1.0
        return points

    def records(self, squared, source):
        """Return what the receivers record of one shot, a row for each step."""
        still = np.zeros((self.cells, self.cells))
        return chain(step, (still, still.copy()), squared, self.absorbed, source, self.receivers, inputs=self.signal, outputs=True)[1]

    def misfit(self, change, measured):
        """Return half the squared difference to the records of all shots, for a relative change of the squared speed inside."""
        squared = SPEED * (1.0 + self.inside * np.reshape(change, self.inside.shape))
        return 0.5 * sum(np.sum((self.records(squared, source) - data) ** 2) for source, data in zip(self.sources, measured, strict=True))

    def hidden(self):
        """Return what is to be found: a fast and a slow body."""
        return 0.3 * self.ball(0.2, 0.15, 0.16) - 0.3 * self.ball(-0.2, -0.15, 0.2)


def invert(survey, iterations):
    """Return the change of the squared speed that was found, and the misfits on the way."""
    truth = SPEED * (1.0 + survey.hidden())
    measured = [survey.records(truth, source) for source in survey.sources]
    both, misfits = value_and_grad(survey.misfit), []

    def counted(change):
        value, slope = both(change, measured)
        misfits.append(float(value))
        return value, np.ravel(slope)

    bounds = [(-0.6, 0.8)] * survey.cells**2
    found = minimize(counted, np.zeros(survey.cells**2), jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": iterations})
    return np.reshape(found.x, survey.inside.shape) * survey.inside, misfits


def plot(survey, found, misfits, path):
    """Draw what is hidden, what was found, and the misfits."""
    import matplotlib.pyplot as plt

    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    for axes, field, title in ((left, survey.hidden(), "hidden"), (middle, found, "found")):
        image = axes.imshow(field, cmap="RdBu_r", vmin=-0.35, vmax=0.35)
        for points, marker in ((survey.sources, "k*"), (survey.receivers, "k.")):
            axes.plot(*np.nonzero(points.sum(0))[::-1], marker, ms=5)
        axes.set(title=f"{title}: change of c²", xticks=[], yticks=[])
    figure.colorbar(image, ax=[left, middle], shrink=0.8)
    right.semilogy(np.array(misfits) / misfits[0])
    right.set(xlabel="gradients", title="misfit / misfit at the start")
    figure.savefig(path, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, default=40)
    parser.add_argument("--iterations", type=int, default=30)
    parser.add_argument("--plot", help="file for a picture")
    options = parser.parse_args()
    survey = Survey(options.cells)
    found, misfits = invert(survey, options.iterations)
    hidden = survey.hidden()
    agreement = np.sum(found * hidden) / np.sqrt(np.sum(found**2) * np.sum(hidden**2))
    print(f"{options.cells**2:,} unknowns, {len(survey.sources)} shots of {survey.steps} steps, {len(misfits)} gradients")
    print(f"misfit {misfits[0]:.4g} -> {min(misfits):.4g}, correlation with what is hidden {agreement:.3f}")
    if options.plot:
        plot(survey, found, misfits, options.plot)


if __name__ == "__main__":
    main()
