"""Where a species must arrive to spread best: 256 x 256 differential equations over 1000 steps of SciPy's solver, in less than 100 MB.

    python examples/invasion.py [--plot invasion.png] [--size 256] [--end 400]

A population u on a landscape spreads by diffusion and grows where the land is fertile (Fisher 1937, Kolmogorov, Petrovsky & Piskunov
1937): u' = Laplace(u) + r u (1 - u). The gradient of the final population by the initial one tells, for each place at once, how much one
more animal there is worth; that by the rate r, what a better place is worth. All states of the solver would take a gigabyte. Longer
steps than STABLE would amplify waves from cell to cell, which the solution does not have, but its derivatives may.
"""

import numpy as np
from shared import options, picture

from checkpoint import CTZ, Stats, solve_ivp, value_and_grad

STABLE = 0.4  # 3.3 / 8: RK45 is stable on [-3.3, 0], the Laplacian has eigenvalues in [-8, 0]


def slope(t, y, rate):
    """Return how fast the population changes in each cell, on a torus."""
    u = y.reshape(rate.shape)
    flow = np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1) - 4.0 * u
    return (flow + rate * u * (1.0 - u)).ravel()


def landscape(size):
    """Return the initial population, a group in the middle, and the growth rates, with a valley across."""
    x, y = np.meshgrid(*[np.linspace(-1.0, 1.0, size, endpoint=False)] * 2)
    fertile = 0.01 + 0.04 * np.exp(-(((y - 0.4 * np.sin(np.pi * x)) / 0.3) ** 2))
    return np.exp(-((x**2 + y**2) * size / 2.0)), fertile


def population(start, rate, end, stats=None):
    """Return the final population; `t_eval` asks for the end alone, so no other state is kept."""
    saved = {"schedule": CTZ(), "stats": stats}
    return np.sum(solve_ivp(slope, (0.0, end), start.ravel(), t_eval=[end], args=(rate,), max_step=STABLE, **saved).y)


def worth(size, end, stats=None):
    """Return the final population, and its gradients by the initial one and by the rates."""
    return value_and_grad(population, argnums=(0, 1))(*landscape(size), end, stats)


def main():
    words, stats = options(__doc__, size=(256, "cells on a side"), end=(400.0, "the last time")), Stats()
    total, gradients = worth(words.size, words.end, stats)
    print(f"{words.size**2} equations, {stats.steps} steps: a final population of {total:.0f}")
    print(f"at most {stats.peak_states} states of the solver are saved, {stats.peak_bytes / 1e6:.1f} MB")
    start, rate = landscape(words.size)
    names = ["growth rate, first group", "worth of an animal there", "worth of a better place"]
    with picture(words.plot, columns=3, size=(10.0, 3.4)) as panels:
        for axes, values, name in zip(panels, [rate, *gradients], names, strict=True):
            axes.figure.colorbar(axes.imshow(values, cmap="viridis"), ax=axes, shrink=0.75)
            axes.contour(start, levels=[0.1], colors="w")
            axes.set(title=name, xticks=[], yticks=[])


if __name__ == "__main__":
    main()
