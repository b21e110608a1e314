"""Fit a predator-prey model to the pelts of the Hudson's Bay Company, with the gradient of a checkpointed simulation.

    python examples/lynx_hare.py [--plot lynx_hare.png]

Lotka-Volterra: hare' = a hare - b hare lynx, lynx' = -c lynx + d hare lynx; classical Runge-Kutta. The state of the chain is
(hare, lynx, accumulated misfit), so the misfit of all 21 years is the last component of one chain, and its gradient by the
four rates and the two initial populations is one reverse sweep. The step is compiled where llvmlite is installed.
"""

from __future__ import annotations

import argparse
import csv
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

import dualad
from checkpoint import CTZ, Stats, StoreAll, chain, grad, value_and_grad

STEPS_A_YEAR = 100
COMPILED = find_spec("llvmlite") is not None
DATA = Path(__file__).parent / "data" / "lynx_hare.csv"
# log of a, b, c, d (a year, populations in thousands of pelts) and of the hares and lynxes of 1900
START = np.log([0.5, 0.02, 0.8, 0.02, 30.0, 4.0])


def read_pelts():
    """Return the years, and the hares and lynxes (thousands of pelts) of each."""
    with DATA.open() as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    return ([int(row["year"]) for row in rows], [float(row["hare"]) for row in rows], [float(row["lynx"]) for row in rows])


def runge_kutta(hare, lynx, rates, dt):
    """Return both populations after one step of the classical Runge-Kutta method."""
    a, b, c, d = rates

    def slope(hare, lynx):
        return hare * (a - b * lynx), lynx * (d * hare - c)

    h1, l1 = slope(hare, lynx)
    h2, l2 = slope(hare + 0.5 * dt * h1, lynx + 0.5 * dt * l1)
    h3, l3 = slope(hare + 0.5 * dt * h2, lynx + 0.5 * dt * l2)
    h4, l4 = slope(hare + dt * h3, lynx + dt * l3)
    return hare + dt / 6.0 * (h1 + 2.0 * h2 + 2.0 * h3 + h4), lynx + dt / 6.0 * (l1 + 2.0 * l2 + 2.0 * l3 + l4)


def make_step(hares, lynxes, steps_a_year, compiled):
    """Return the step of the chain: the misfit of a year is added before the year's first step."""
    log_hares, log_lynxes = np.log(hares), np.log(lynxes)
    dt = 1.0 / steps_a_year

    def step(k, state, *rates):
        hare, lynx, misfit = state
        year, within = k // steps_a_year, k % steps_a_year
        of_year = (np.log(hare) - log_hares[year]) ** 2 + (np.log(lynx) - log_lynxes[year]) ** 2
        return (*runge_kutta(hare, lynx, rates, dt), misfit + np.where(within == 0, of_year, 0.0))

    return dualad.jit(step) if compiled else step


def make_misfit(hares, lynxes, steps_a_year=STEPS_A_YEAR, compiled=COMPILED, **options):
    """Return the sum over the years of squared log differences, as a function of the logs of rates and populations."""
    step = make_step(hares, lynxes, steps_a_year, compiled)
    steps = (len(hares) - 1) * steps_a_year + 1  # one step into the last year, which adds its misfit

    def misfit(logs):
        rates_and_start = np.exp(logs)
        a, b, c, d, hare, lynx = (rates_and_start[i] for i in range(6))
        return chain(step, (hare, lynx, 0.0), a, b, c, d, steps=steps, **options)[2]

    return misfit


def fit(misfit, start=START):
    """Fit by L-BFGS-B with the chain's gradient; returns SciPy's result and the misfit after each iteration."""
    history = [float(misfit(start))]
    result = minimize(
        value_and_grad(misfit),
        start,
        jac=True,
        method="L-BFGS-B",
        callback=lambda intermediate_result: history.append(float(intermediate_result.fun)),
        options={"maxiter": 200},
    )
    return result, history


def compare_schedules(hares, lynxes, logs):
    """Print memory against recomputation for one gradient at the fit."""
    print(f"\n{'schedule':<16}{'saved states':>13}{'advances':>10}{'seconds':>9}   gradient against store-all")
    reference = None
    for name, schedule in (("store all", StoreAll()), ("CTZ bisect", CTZ("bisect")), ("CTZ binomial", CTZ("binomial"))):
        stats = Stats()
        gradient = grad(make_misfit(hares, lynxes, compiled=False, schedule=schedule, stats=stats))(logs)
        reference = gradient if reference is None else reference
        difference = np.max(np.abs(gradient - reference))
        print(f"{name:<16}{stats.peak_states:>13}{stats.advances:>10}{stats.seconds:>9.3f}   {difference:.1e}")


def compare_compiled(hares, lynxes, logs):
    """Print a gradient of the step as it is and of the compiled one, side by side."""
    if not COMPILED:
        print("\nNot compiled: llvmlite is not installed (pip install 'dualad[jit]')")
        return
    gradients, seconds = [], []
    for compiled in (False, True):
        gradient = grad(make_misfit(hares, lynxes, compiled=compiled))
        if compiled:
            gradient(logs)  # compiles
        started = time.perf_counter()
        gradients.append(gradient(logs))
        seconds.append(time.perf_counter() - started)
    print(
        f"\nOne gradient: {seconds[0]:.3f} s, compiled {1e3 * seconds[1]:.2f} ms, {seconds[0] / seconds[1]:.0f}x faster; "
        f"difference {np.max(np.abs(gradients[0] - gradients[1])):.1e}"
    )


def check_forward(misfit, logs):
    """Print the difference between reverse and forward mode along one direction, where the gradient is far from 0."""
    direction = np.array([1.0, -2.0, 0.5, 1.5, -1.0, 0.3])
    _, forward = dualad.jvp(misfit, (logs,), (direction,))
    reverse = grad(misfit)(logs) @ direction
    print(
        f"\nAlong one direction at the start: reverse mode {reverse:.12g}, forward mode {forward:.12g}, "
        f"difference {abs(reverse - forward):.1e}"
    )


def long_run(hares, lynxes, logs, steps=200_000):
    """Differentiate one long run, of a smaller step, and print what it took."""
    stats = Stats()
    steps_a_year = steps // (len(hares) - 1)
    started = time.perf_counter()
    gradient = grad(make_misfit(hares, lynxes, steps_a_year, stats=stats))(logs)
    print(
        f"\n{stats.steps:,} steps ({steps_a_year:,} a year): at most {stats.peak_states:,} states held, {stats.advances:,} advances, "
        f"{time.perf_counter() - started:.1f} s; |gradient| = {np.linalg.norm(gradient):.3g}"
    )
    return stats


def plot(path, years, hares, lynxes, logs):
    """Save a picture of data and fit, where matplotlib is installed."""
    try:
        import matplotlib
    except ImportError:
        print("\nNo picture: matplotlib is not installed (pip install 'dualad[plot]')")
        return
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    *rates, hare, lynx = np.exp(logs)
    times, curve = [], []
    for k in range((len(years) - 1) * STEPS_A_YEAR + 1):
        times.append(years[0] + k / STEPS_A_YEAR)
        curve.append((hare, lynx))
        hare, lynx = runge_kutta(hare, lynx, rates, 1.0 / STEPS_A_YEAR)
    figure, axes = plt.subplots(figsize=(8.0, 4.5), layout="constrained")
    for i, (name, data, colour) in enumerate((("hares", hares, "tab:blue"), ("lynxes", lynxes, "tab:red"))):
        axes.plot(times, [point[i] for point in curve], color=colour, label=f"{name}, fit")
        axes.plot(years, data, "o", color=colour, label=f"{name}, pelts")
    axes.set(
        xlabel="year",
        ylabel="thousands",
        title="Hudson's Bay pelts and the fitted Lotka-Volterra model",
        xticks=range(1900, 1921, 4),
        ylim=(0.0, 95.0),
    )
    axes.legend(ncols=4, loc="upper center", fontsize="small")
    figure.savefig(path, dpi=120)
    plt.close(figure)
    print(f"\nPicture: {path}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plot", default="lynx_hare.png", help="file of the picture")
    arguments = parser.parse_args()
    dualad.keep_heap()
    years, hares, lynxes = read_pelts()
    misfit = make_misfit(hares, lynxes)

    started = time.perf_counter()
    result, history = fit(misfit)
    marks = sorted({0, 1, 2, 5, 10, 20, 40, len(history) - 1} & set(range(len(history))))
    print(
        f"{len(years)} years, {STEPS_A_YEAR} steps a year; L-BFGS-B: {result.nit} iterations, {result.nfev} gradients, "
        f"{time.perf_counter() - started:.1f} s"
    )
    print("misfit: " + ", ".join(f"{history[i]:.4f} (iteration {i})" for i in marks))
    a, b, c, d, hare, lynx = np.exp(result.x)
    print(
        f"hare' = {a:.4f} hare - {b:.5f} hare lynx, lynx' = -{c:.4f} lynx + {d:.5f} hare lynx; "
        f"1900: {hare:.2f} hares, {lynx:.2f} lynxes (thousands)"
    )

    compare_schedules(hares, lynxes, result.x)
    compare_compiled(hares, lynxes, result.x)
    check_forward(misfit, START)
    long_run(hares, lynxes, result.x)
    plot(arguments.plot, years, hares, lynxes, result.x)


if __name__ == "__main__":
    main()
