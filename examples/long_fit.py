"""Fit four parameters through 50,000 steps, within a limit of memory, by a process that is killed again and again.

    python examples/long_fit.py [--kills 20] [--steps 50000] [--folder long_fit]

A driven, damped pendulum, angle'' = -a sin(angle) - b angle' + c cos(d t), is observed at 100 moments. The state of the chain is
(angle, speed, accumulated misfit), so that the misfit is the last component of one chain; its step is compiled where llvmlite is installed,
and ``memory=`` bounds what the chain holds. `Fit` keeps every finished evaluation in a folder: a process that is started again walks
through them in no time and goes on with the next one. With --kills the fit runs in processes of its own, which are killed at random until
so many were, and the result is compared with that of a process that nobody has killed.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

import dualad
from checkpoint import Fit, Stats, chain, value_and_grad

COMPILED = find_spec("llvmlite") is not None
MEMORY = "4 MB"
SECONDS, MOMENTS = 10.0, 100
TRUE = np.array([9.0, 0.4, 1.5, 2.0])
START = np.array([8.0, 0.7, 1.0, 2.1])


def make_step(observed, steps):
    """Return the step of the chain, symplectic Euler; the misfit of a moment is added before its step."""
    dt, apart = SECONDS / steps, steps // MOMENTS

    def step(k, state, parameters):
        angle, speed, misfit = state
        of_moment = (angle - observed[k // apart]) ** 2
        misfit = misfit + np.where(k % apart == 0, of_moment, 0.0)
        a, b, c, d = (parameters[i] for i in range(4))
        speed = speed + dt * (-a * np.sin(angle) - b * speed + c * np.cos(d * (dt * k)))
        return angle + dt * speed, speed, misfit

    return dualad.jit(step) if COMPILED else step


def observations(steps):
    """Return the angles at the moments, for the true parameters, with an error of 0.01."""
    dt, angle, speed, seen = SECONDS / steps, 1.0, 0.0, []
    a, b, c, d = TRUE.tolist()
    for k in range(steps):
        if k % (steps // MOMENTS) == 0:
            seen.append(angle)
        speed += dt * (-a * np.sin(angle) - b * speed + c * np.cos(d * (dt * k)))
        angle += dt * speed
    return np.array(seen) + 0.01 * np.random.default_rng(1).standard_normal(MOMENTS)


def make_misfit(steps, stats=None, memory=MEMORY):
    """Return the sum of squared differences as a function of the four parameters, and perhaps of fewer steps."""
    step = make_step(observations(steps), steps)
    return lambda parameters, steps=steps: chain(step, (1.0, 0.0, 0.0), parameters, steps=steps, memory=memory, stats=stats)[2]


def fitted(folder, steps, told=lambda fit: None):
    """Fit with the evaluations of a folder; return SciPy's result, the fit, and the seconds."""
    fit, misfit = Fit(folder), make_misfit(steps)
    evaluate = fit(value_and_grad(misfit), name="misfit")

    def telling(parameters):
        made = fit.made
        result = evaluate(parameters)
        if fit.made > made:
            told(fit)
        return result

    started = time.perf_counter()
    result = minimize(telling, START, jac=True, method="L-BFGS-B", bounds=[(0.0, 20.0)] * 4, options={"maxiter": 200})
    return result, fit, time.perf_counter() - started


def killed(folder, steps, kills, seed=0):
    """Run the fit in processes that are killed after none, one or two evaluations, until so many were; return the last one's lines."""
    chance, count = random.Random(seed), 0
    words = [sys.executable, __file__, "--folder", str(folder), "--steps", str(steps), "--worker"]
    while True:
        left = chance.randrange(3) if count < kills else None
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
            lines = []
            for line in process.stdout:
                lines.append(line.strip())
                if left == 0:
                    process.kill()
                    break
                if left is not None:
                    left -= 1
        if left is None:
            assert process.returncode == 0
            return lines, count
        count += process.returncode != 0  # else it came through before


def resident(f):
    """Return what `f` returns, and by how many bytes the process grew while it ran at most; None where the system does not say."""
    status, refs = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    if not (status.exists() and refs.exists()):
        return f(), None
    size = lambda name: 1024 * int(next(line for line in status.read_text().splitlines() if line.startswith(name)).split()[1])
    try:
        refs.write_text("5")  # forget the peak
    except OSError:
        return f(), None
    before = size("VmRSS")
    result = f()
    return result, size("VmHWM") - before


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--folder", help="of the fit; a temporary one by default")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        print("started", flush=True)
        result, fit, _ = fitted(options.folder, options.steps, told=lambda fit: print("made", fit.made, flush=True))
        print("result", result.x.tobytes().hex(), fit.answered, fit.made)
        return

    stats = Stats()
    gradient = value_and_grad(make_misfit(options.steps, stats))
    started = time.perf_counter()
    gradient(START, steps=100)
    first = time.perf_counter() - started
    started = time.perf_counter()
    _, grown = resident(lambda: gradient(START))
    seconds = time.perf_counter() - started
    print(f"one gradient: {seconds:.3f} s, compiled in {first:.1f} s; {stats}")
    print(f"limit {MEMORY}; the process grew by " + ("? bytes" if grown is None else f"{grown / 1e6:.2f} MB"))

    with tempfile.TemporaryDirectory() as parent:
        folder = Path(options.folder or f"{parent}/fit")
        result, fit, seconds = fitted(f"{parent}/whole", options.steps)
        print(f"fit: {seconds:.2f} s, {fit.made} evaluations, misfit {result.fun:.5f}, parameters {result.x.round(4)} (true: {TRUE})")
        lines, count = killed(folder, options.steps, options.kills)
        _, bits, answered, made = lines[-1].split()
        same = bits == result.x.tobytes().hex()
        print(f"killed {count} times: the last process was answered {answered} evaluations and made {made}; the same bits: {same}")


if __name__ == "__main__":
    main()
