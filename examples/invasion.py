"""Where a species must arrive to spread best: 256 x 256 differential equations over 1000 steps of SciPy's solver, in less than 100 MB.

    python examples/invasion.py [--plot invasion.png] [--size 256]

A population u on a landscape spreads by diffusion and grows where the land is fertile (Fisher 1937, Kolmogorov, Petrovsky & Piskunov
1937): u' = Laplace(u) + r u (1 - u). The gradient of the final population by the initial one tells, for each place at once, how much one
more animal there is worth; that by the rate r, what a better place is worth. All states of the solver would take a gigabyte. Longer
steps than STABLE would amplify waves from cell to cell, which the solution does not have, but its derivatives may.
"""

from __future__ import annotations

import argparse

import numpy as np

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


def plot(size, gradients, path):
    """Draw the landscape with the initial population, and both gradients."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(10.0, 3.4), layout="constrained")
    start, rate = landscape(size)
    names = ["growth rate, first group", "worth of an animal there", "worth of a better place"]
    for ax, values, name in zip(axes, [rate, *gradients], names, strict=True):
        figure.colorbar(ax.imshow(values, cmap="viridis"), ax=ax, shrink=0.75)
        ax.contour(start, levels=[0.1], colors="w")
        ax.set(title=name, xticks=[], yticks=[])
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plot", metavar="FILE", help="write a picture")
    parser.add_argument("--size", type=int, default=256, help="cells on a side (default 256)")
    parser.add_argument("--end", type=float, default=400.0, help="the last time (default 400)")
    options = parser.parse_args()
    stats = Stats()
    total, gradients = worth(options.size, options.end, stats)
    print(f"{options.size**2} equations, {stats.steps} steps: a final population of {total:.0f}")
    print(f"at most {stats.peak_states} states of the solver are saved, {stats.peak_bytes / 1e6:.1f} MB")
    if options.plot:
        plot(options.size, gradients, options.plot)
        print(f"wrote {options.plot}")


if __name__ == "__main__":
    main()
