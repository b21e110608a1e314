"""A chain with a large state: Gray-Scott on 256 x 256 points, its gradient by the initial fields and both rates.

    python -m benchmarks.large_state [--quick]

Primal and gradients run in turn in one process with `dualad.keep_heap()`; the memory is the growth of the resident memory over
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
from importlib.util import find_spec

import numpy as np

from checkpoint import CTZ, Revolve, Stats, chain, grad, sweep
from dualad import keep_heap

from .harness import resident_peak

DU, DV, FEED, KILL = 0.16, 0.08, 0.035, 0.065


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
    return (
        gu + DU * laplacian(gu) - FEED * gu + gr * v * v,
        gv + DV * laplacian(gv) - (FEED + KILL) * gv + 2.0 * gr * u * v,
        by_feed,
        by_kill,
    )


# --- peers: each returns a function that gives the gradient by u, v, feed and kill, and is called once before it is timed ----------


def step_of(roll):
    """Return the step as ``(u, v, feed, kill) -> (u, v)`` with the `roll` of another library."""

    def spread(a):
        return roll(a, 1, 0) + roll(a, -1, 0) + roll(a, 1, 1) + roll(a, -1, 1) - 4.0 * a

    def advance(u, v, feed, kill):
        r = u * v * v
        return u + DU * spread(u) - r + feed * (1.0 - u), v + DV * spread(v) + r - (feed + kill) * v

    return advance


def by_torch(state, steps):
    """``torch.utils.checkpoint`` over sqrt(N) segments."""
    import torch
    from torch.utils.checkpoint import checkpoint

    torch.set_num_threads(1)
    advance = step_of(torch.roll)

    def segment(u, v, feed, kill, count):
        for _ in range(count):
            u, v = advance(u, v, feed, kill)
        return u, v

    def gradient():
        leaves = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (*state, FEED, KILL)]
        u, v = leaves[:2]
        for count in segments(steps):
            u, v = checkpoint(segment, u, v, *leaves[2:], count, use_reentrant=True)
        (v**2).sum().backward()
        return [leaf.grad.numpy() for leaf in leaves]

    return gradient


def by_jax(state, steps):
    """Two nested scans, the inner one under ``jax.checkpoint`` (remat); compiled."""
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    advance = step_of(jnp.roll)
    inner = max(d for d in range(1, steps + 1) if steps % d == 0 and d * d <= steps)

    def loss(u, v, feed, kill):
        def one(x, _):
            return advance(*x, feed, kill), None

        @jax.checkpoint
        def segment(x, _):
            return jax.lax.scan(one, x, None, length=inner)[0], None

        return jnp.sum(jax.lax.scan(segment, (u, v), None, length=steps // inner)[0][1] ** 2)

    gradient = jax.jit(jax.grad(loss, argnums=(0, 1, 2, 3)))
    return lambda: [np.asarray(g) for g in gradient(*state, FEED, KILL)]


def by_equinox(state, steps):
    """``equinox.internal.scan`` with 12 checkpoints, the online schedule of Stumm & Walther; compiled."""
    import jax
    import jax.numpy as jnp
    from equinox.internal import scan

    jax.config.update("jax_enable_x64", True)
    advance = step_of(jnp.roll)

    def loss(u, v, feed, kill):
        def one(x, _):
            return advance(*x, feed, kill), None

        return jnp.sum(scan(one, (u, v), None, length=steps, kind="checkpointed", checkpoints=12)[0][1] ** 2)

    gradient = jax.jit(jax.grad(loss, argnums=(0, 1, 2, 3)))
    return lambda: [np.asarray(g) for g in gradient(*state, FEED, KILL)]


def by_autograd(state, steps):
    """autograd's ``checkpoint`` over sqrt(N) segments."""
    import autograd
    import autograd.numpy as anp
    from autograd.differential_operators import checkpoint

    advance = step_of(anp.roll)

    def segment(fields, feed, kill, count):
        u, v = fields[0], fields[1]
        for _ in range(count):
            u, v = advance(u, v, feed, kill)
        return anp.stack([u, v])

    def loss(u, v, feed, kill):
        fields = anp.stack([u, v])
        for count in segments(steps):
            fields = checkpoint(segment)(fields, feed, kill, count)
        return anp.sum(fields[1] ** 2)

    gradient = autograd.grad(loss, argnum=(0, 1, 2, 3))
    return lambda: gradient(*state, FEED, KILL)


def segments(steps):
    """Return the lengths of about sqrt(N) segments."""
    length = max(1, round(steps**0.5))
    return [length] * (steps // length) + ([steps % length] if steps % length else [])


PEERS = {"torch": by_torch, "jax": by_jax, "equinox": by_equinox, "autograd": by_autograd}
COMPILED = ("jax", "equinox")


def initial(n):
    u, v = np.ones((n, n)), np.zeros((n, n))
    middle = slice(2 * n // 5, 3 * n // 5)
    u[middle, middle], v[middle, middle] = 0.5, 0.25
    return u + 0.01 * np.random.default_rng(0).random((n, n)), v


def measure(name, n, steps):
    """Run one case in this process and print: seconds of a primal and of the gradient, growth of memory, a checksum, the counts."""
    if name not in ("torch", *COMPILED):  # which have pools of memory of their own
        keep_heap()
    state, stats = initial(n), Stats()
    options = {"ctz": {"schedule": CTZ()}, "revolve": {"schedule": Revolve(12)}, "budget": {"memory": "100 MB"}}.get(name, {})

    def primal():
        x = state
        for k in range(steps):
            x = step(k, x, FEED, KILL)
        return np.sum(x[1] ** 2)

    peer = PEERS[name](state, steps) if name in PEERS else None

    def gradient():
        if peer is not None:
            return peer()
        if name == "by hand":
            seed = lambda x: (np.zeros((n, n)), 2.0 * x[1], 0.0, 0.0)
            return sweep.reverse(
                lambda k, x: step(k, x, FEED, KILL), adjoint, state, seed, steps=steps, schedule=Revolve(12), stats=stats
            ).cotangent
        loss = lambda u, v, feed, kill: np.sum(chain(step, (u, v), feed, kill, steps=steps, stats=stats, **options)[1] ** 2)
        return grad(loss, argnums=(0, 1, 2, 3))(*state, FEED, KILL)

    started = time.perf_counter()
    primal()
    middle, before = time.perf_counter(), resident_peak(reset=True)
    result = gradient()
    seconds = time.perf_counter() - middle
    if name in COMPILED:  # the first call has compiled
        again = time.perf_counter()
        result = gradient()
        seconds = time.perf_counter() - again
    check = [float(np.sum(result[0] * state[0])), float(np.sum(result[1] * state[1])), float(result[2]), float(result[3])]
    print(repr((middle - started, seconds, (resident_peak() - before) / 1e6, check, stats.advances, stats.peak_states, stats.schedule)))


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
        for case in ("by hand", "revolve", "ctz", "budget", *PEERS):
            if case in PEERS and find_spec(case) is None:
                print(f"| {case} | not installed |")
                continue
            runs = [run_apart(case, n, steps) for _ in range(1 if arguments.quick else arguments.repeats)]
            primal, gradient, memory = (statistics.median(run[i] for run in runs) for i in range(3))
            check, advances, peak, schedule = runs[0][3:]
            reference = check if reference is None else reference
            agrees = np.allclose(check, reference, rtol=1e-9)
            status |= not agrees
            name = {
                "by hand": "by hand, Revolve(12)",
                "torch": "torch.utils.checkpoint",
                "jax": "JAX, nested remat, compiled",
                "equinox": "equinox, 12 checkpoints, compiled",
                "autograd": "autograd's checkpoint",
            }.get(case, f"chain, {schedule}")
            advances, peak = (advances, peak) if case not in PEERS else ("", "")
            times = f"{primal:.2f} | {gradient:.2f} | {gradient / primal:.1f}x" if agrees else "| | DISAGREES"
            print(f"| {name} | {times} | {memory:.0f} | {advances} | {peak} | {'agrees' if agrees else check} |")
    return status


def run_apart(case, n, steps):
    """Measure in a process of its own; returns what `measure` prints."""
    command = [sys.executable, "-m", "benchmarks.large_state", "--case", case, "--points", str(n), "--steps", str(steps)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return ast.literal_eval(done.stdout)


if __name__ == "__main__":
    sys.exit(main())
