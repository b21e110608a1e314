"""What the chain takes besides time: memory for large states, the disk beside the memory, and schedules as such."""

from __future__ import annotations

import math
import multiprocessing
import os
import sys
import tempfile
from collections import deque
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import NamedTuple

import numpy as np

from checkpoint import Disk, Stats, chain, grad, sweep
from checkpoint import Memory as InMemory
from checkpoint.schedules import Revolve
from checkpoint.schedules.actions import Advance, Save
from checkpoint.schedules.parse import parse
from checkpoint.storage.codec import write_leaves

from .harness import Case, Memory, Peer, Table, main

PEAK = Table("Peak memory of a chain of 2000 steps, in states", unit="s", by_peer=True, arrays=True)
DISK = Table("States on disk, against states in memory", unit="s", by_peer=True, base="in memory")
ACTIONS = Table("All actions of a schedule with 20 slots", unit="s", by_peer=True, base="N tuples")
TABLES = [PEAK, DISK, ACTIONS]

ROOM, SLOWER, GENERATED = 1.25, 1.3, 2.2  # limits: of the memory needed, of the time in memory, seconds
H, STEPS = 0.01, 2000
SLOTS = math.ceil(math.log2(STEPS)) + 1  # states that CTZ saves; as many for Revolve, and in a budget of 12.5 states
FACTOR, ON_DISK = 1.001, 64
FOLDER = os.environ.get("TMPDIR") or ("/var/tmp" if os.path.isdir("/var/tmp") else None)  # /tmp may be in main memory


def primals(quick):
    yield PEAK.title, of_peak(quick), Case(lambda: plain(start(quick)))
    for schedule in ("ctz", "store_all"):
        yield DISK.title, of_disk(schedule, quick), Case(lambda schedule=schedule: pulled(schedule, InMemory(), quick))
    yield ACTIONS.title, of_actions(quick), Case(lambda: deque(((k, k + 1) for k in range(length(quick))), maxlen=0))


def verdict(value, limit, unit, quick):
    kept = "kept" if value <= limit else "MISSED"
    return f"{limit:.3g}{unit}" if quick else f"{limit:.3g}{unit}: {kept}"


# --- peak memory ------------------------------------------------------------------------------------------------------------


def start(quick):
    """Return x_0, of 8 MB."""
    return np.linspace(0.1, 0.9, 25_000 if quick else 1_000_000)


def of_peak(quick):
    return f"{STEPS} steps, {0.2 if quick else 8} MB"


def step(k, x):
    """One step of logistic growth."""
    return x + H * x * (1.0 - x)


def plain(x):
    for k in range(STEPS):
        x = step(k, x)
    return x


def tangents(quick):
    """The Jacobian is diagonal: it rides along, no state is saved."""

    def derivative(x):
        product = np.ones_like(x)
        for k in range(STEPS):
            product *= 1.0 + H * (1.0 - 2.0 * x)
            x = step(k, x)
        return product

    measured = Memory(derivative)
    yield (
        PEAK.title,
        of_peak(quick),
        Case(measured, (start(quick),), columns=lambda seconds, primal: {"peak": in_states(measured.grown, quick)}),
    )


def in_states(grown, quick):
    return f"{grown / start(quick).nbytes:.1f}"


def need_of_one_step(quick):
    """Return the growth of memory in the gradient of one step without a chain, in bytes."""
    measured, x = Memory(grad(lambda x: np.sum(step(0, x)))), start(quick)
    measured.f(x[:10])
    measured(x)
    return measured.grown


def peak_memory(**options):
    """Return the builder for a chain with these options; "memory" is in states."""

    def build(quick):
        def gradient(x):
            return grad(lambda x: np.sum(chain(step, x, steps=STEPS, stats=stats, **chosen)))(x)

        def columns(seconds, primal):
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as fresh:  # whose heap is as it was here
                need = fresh.submit(need_of_one_step, quick).result()
            bound = SLOTS + need / x.nbytes
            return {
                "peak": in_states(measured.grown, quick),
                "saved": str(stats.peak_states),
                "one step": in_states(need, quick),
                f"limit, {ROOM} x": verdict(measured.grown / x.nbytes, ROOM * bound, "", quick),
            }

        x, stats = start(quick), Stats()
        chosen = {name: int(value * x.nbytes) if name == "memory" else parse(value) for name, value in options.items()}
        grad(lambda x: np.sum(chain(step, x, steps=3)))(x[:10])  # what is set up in a first call is not counted
        measured = Memory(gradient)
        yield PEAK.title, of_peak(quick), Case(measured, (x,), columns=columns)

    return build


# --- the disk ---------------------------------------------------------------------------------------------------------------


class Pace(NamedTuple):
    """Seconds of one step and of writing one state, and how the step is made to last."""

    step: float
    write: float
    write_through: float
    rounds: int
    rate: np.ndarray


def of_disk(schedule, quick):
    return f"{ON_DISK} steps, {0.008 if quick else 50} MB, {schedule}"


@cache
def first(quick):
    """Return x_0, of 50 MB."""
    return np.linspace(1.0, 2.0, 1000 if quick else 6_250_000)


@cache
def pace(quick):
    """Make a step take as long as writing a state does, by giving it more work."""
    x = first(quick).copy()

    def seconds(f):
        times = []
        for _ in range(5):
            started = perf_counter()
            f()
            times.append(perf_counter() - started)
        return median(times)

    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        path = Path(folder, "state")
        write_leaves(path, 0, [x])
        write = seconds(lambda: write_leaves(path, 0, [x]))
        through = seconds(lambda: write_leaves(path, 0, [x], sync=True))
    rounds, step = 1, 0.0
    while step < write:
        rounds += math.ceil(0.2 * rounds)
        rate = np.full_like(x, FACTOR ** (1 / rounds))
        step = seconds(lambda: scale(x, rate, rounds))
    return Pace(step, write, through, rounds, rate)


def scale(x, rate, rounds):
    for _ in range(rounds):
        x *= rate
    return x


def pulled(schedule, storage, quick):
    """Return the gradient of the sum of x_N; the step is linear, and its own adjoint."""
    x, (*_, rounds, rate) = first(quick), pace(quick)
    return sweep.reverse(
        lambda k, x: scale(x, rate, rounds),
        lambda k, x, g: scale(g, rate, rounds),
        x,
        np.ones_like(x),
        steps=ON_DISK,
        schedule=parse(schedule),
        storage=storage,
    ).cotangent


def on_disk(quick):
    for schedule in ("ctz", "store_all"):

        def same(result, schedule=schedule):
            if not np.array_equal(result, pulled(schedule, InMemory(), quick)):
                raise ValueError("not the bits of the gradient with the states in memory")
            return result[:1]

        def columns(seconds, primal):
            measured = pace(quick)
            return {
                "one step": f"{measured.step * 1e3:.3g} ms",
                "one write": f"{measured.write * 1e3:.3g} ms",
                "with fsync": f"{measured.write_through * 1e3:.3g} ms",
                "limit": verdict(seconds / primal, SLOWER, "x", quick),
            }

        pace(quick)
        yield (
            DISK.title,
            of_disk(schedule, quick),
            Case(lambda schedule=schedule: pulled(schedule, Disk(FOLDER), quick), answer=same, columns=columns),
        )


# --- schedules --------------------------------------------------------------------------------------------------------------


def length(quick):
    return 1000 if quick else 1_000_000


def of_actions(quick):
    return f"N = {length(quick)}"


def closed_form(quick):
    """Advances of the binomial optimum: r N - C(S + r, r - 1), with the least r for which C(S + r, S) >= N."""

    def advances():
        repeats = next(r for r in range(steps) if math.comb(slots + r, slots) >= steps)
        return repeats * steps - math.comb(slots + repeats, repeats - 1)

    steps, slots = length(quick), 20
    yield ACTIONS.title, of_actions(quick), Case(advances)


def revolve(quick):
    def advances():
        schedule, saved, total = Revolve(20), [], 0
        for action in schedule.forward(steps):
            kind = type(action)
            if kind is Save:
                saved.append(action.index)
            elif kind is Advance:
                total += action.stop - action.start
        for action in schedule.reverse(steps, saved):
            if type(action) is Advance:
                total += action.stop - action.start
        return total

    def columns(seconds, primal):
        started = perf_counter()
        next(Revolve(20).forward(10**9))
        at_once = perf_counter() - started
        return {"first of 10^9": f"{at_once * 1e6:.3g} us", "peak memory": str(measured), "limit": verdict(seconds, GENERATED, " s", quick)}

    steps = length(quick)
    measured = Memory(advances)
    yield ACTIONS.title, of_actions(quick), Case(measured, columns=columns)


def multistage(quick):
    """`MultistageCheckpointSchedule`, the binomial schedule of checkpoint-schedules that is made action by action."""
    from checkpoint_schedules import EndReverse, Forward, MultistageCheckpointSchedule

    def advances():
        total = 0
        for action in MultistageCheckpointSchedule(steps, 20, 0):
            if isinstance(action, Forward):
                total += action.n1 - action.n0
            elif isinstance(action, EndReverse):
                return total - steps  # it evaluates each step once more before it is reversed
        return None

    steps = length(quick)
    measured = Memory(advances)
    yield ACTIONS.title, of_actions(quick), Case(measured, columns=lambda seconds, primal: {"peak memory": str(measured)})


PEERS = {
    "tangents": Peer(tangents),
    "CTZ": Peer(peak_memory(schedule="ctz"), ours=True),
    "Revolve(12)": Peer(peak_memory(schedule="revolve:12"), ours=True),
    'memory="190 MB"': Peer(peak_memory(memory=23.75), ours=True),
    "on disk": Peer(on_disk, ours=True),
    "closed form": Peer(closed_form),
    "Revolve(20)": Peer(revolve, ours=True),
    "multistage": Peer(multistage, "checkpoint_schedules"),
}

if __name__ == "__main__":
    sys.exit(main("storage", TABLES, primals, PEERS))
