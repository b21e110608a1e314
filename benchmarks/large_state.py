"""A chain with a large state: Gray-Scott on 256 x 256 points, its gradient by the initial fields and both rates.

    python -m benchmarks.large_state [--quick]

Primal and gradients run in turn in one process with the allocator pinned; the memory is the growth of the resident memory over
the whole gradient, with two states of 1 MB (u and v, 0.5 MB each) at the start. A hand-written adjoint with the same snapshots is
the reference: its gradient must agree before any time is shown.
"""

from __future__ import annotations

import argparse
import ast
import os
import statistics
import subprocess
import sys
import time

import numpy as np

from checkpoint import CTZ, Revolve, Stats, chain, grad, sweep

DU, DV, FEED, KILL = 0.16, 0.08, 0.035, 0.065
PINNED = {"MALLOC_MMAP_THRESHOLD_": "1000000000", "MALLOC_TRIM_THRESHOLD_": "1000000000", "OMP_NUM_THREADS": "1"}


def laplacian(a):
    return np.roll(a, 1, 0) + np.roll(a, -1, 0) + np.roll(a, 1, 1) + np.roll(a, -1, 1) - 4.0 * a


def step(k, state, feed, kill):
    u, v = state
    r = u * v * v
    return u + DU * laplacian(u) - r + feed * (1.0 - u), v + DV * laplacian(v) + r - (feed + kill) * v


def adjoint(k, state, cotangent):
    """Pull back by hand; the rates' sums ride in the cotangent."""
    (u, v), (gu, gv, by_feed, by_kill) = state, cotangent
    gr = gv - gu
    by_feed, by_kill = by_feed + np.sum(gu * (1.0 - u)) - np.sum(gv * v), by_kill - np.sum(gv * v)
    return (gu + DU * laplacian(gu) - FEED * gu + gr * v * v, gv + DV * laplacian(gv) - (FEED + KILL) * gv + 2.0 * gr * u * v,
            by_feed, by_kill)


def initial(n):
    u, v = np.ones((n, n)), np.zeros((n, n))
    middle = slice(2 * n // 5, 3 * n // 5)
    u[middle, middle], v[middle, middle] = 0.5, 0.25
    return u + 0.01 * np.random.default_rng(0).random((n, n)), v


def resident():
    """Return the peak of the resident memory so far, in MB."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1e3


def measure(name, n, steps):
    """Run one case in this process and print: seconds of a primal and of the gradient, growth of memory, a checksum, the counts."""
    state, stats = initial(n), Stats()
    options = {"ctz": {"schedule": CTZ()}, "revolve": {"schedule": Revolve(12)}, "budget": {"memory": "100 MB"}}.get(name, {})

    def primal():
        x = state
        for k in range(steps):
            x = step(k, x, FEED, KILL)
        return np.sum(x[1] ** 2)

    def gradient():
        if name == "by hand":
            seed = lambda x: (np.zeros((n, n)), 2.0 * x[1], 0.0, 0.0)
            return sweep.reverse(lambda k, x: step(k, x, FEED, KILL), adjoint, state, seed, steps=steps, schedule=Revolve(12),
                                 stats=stats).cotangent
        loss = lambda u, v, feed, kill: np.sum(chain(step, (u, v), feed, kill, steps=steps, stats=stats, **options)[1] ** 2)
        return grad(loss, argnums=(0, 1, 2, 3))(*state, FEED, KILL)

    started = time.perf_counter()
    primal()
    middle, before = time.perf_counter(), resident()
    result = gradient()
    seconds = time.perf_counter() - middle
    check = [float(np.sum(result[0] * state[0])), float(np.sum(result[1] * state[1])), float(result[2]), float(result[3])]
    print(repr((middle - started, seconds, resident() - before, check, stats.advances, stats.peak_states, stats.schedule)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a small state and few steps, to see that it runs")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--points", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--steps", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.case:
        measure(arguments.case, arguments.points, arguments.steps)
        return 0
    status = 0
    for n, steps in [(32, 20)] if arguments.quick else [(256, 500), (256, 2000)]:
        print(f"\n### Gray-Scott, {n} x {n}, {steps} steps (a state of {2 * 8 * n * n / 1e6:.2g} MB)\n")
        print("| | primal, s | gradient, s | ratio | memory, MB | advances | saved states | gradient |")
        print("|---|---:|---:|---:|---:|---:|---:|---|")
        reference = None
        for case in ("by hand", "revolve", "ctz", "budget"):
            runs = [run_apart(case, n, steps) for _ in range(1 if arguments.quick else arguments.repeats)]
            primal, gradient, memory = (statistics.median(run[i] for run in runs) for i in range(3))
            check, advances, peak, schedule = runs[0][3:]
            reference = check if reference is None else reference
            agrees = np.allclose(check, reference, rtol=1e-9)
            status |= not agrees
            name = "by hand, Revolve(12)" if case == "by hand" else f"chain, {schedule}"
            times = f"{primal:.2f} | {gradient:.2f} | {gradient / primal:.1f}x" if agrees else "| | DISAGREES"
            print(f"| {name} | {times} | {memory:.0f} | {advances} | {peak} | {'agrees' if agrees else check} |")
    return status


def run_apart(case, n, steps):
    """Measure in a process of its own; returns what `measure` prints."""
    command = [sys.executable, "-m", "benchmarks.large_state", "--case", case, "--points", str(n), "--steps", str(steps)]
    done = subprocess.run(command, env={**os.environ, **PINNED}, capture_output=True, text=True, check=True)
    return ast.literal_eval(done.stdout)


if __name__ == "__main__":
    sys.exit(main())
