"""Memory against recomputation, measured: what schedules take for a real chain, beside what was predicted."""

import tracemalloc
from collections.abc import Callable, Iterable
from dataclasses import replace
from time import perf_counter
from typing import Any

from .checks import whole_number
from .schedules import Schedule
from .stats import Stats
from .storage import Memory, Storage
from .storage.states import canonical, copy_state, nbytes
from .sweep import Pull, Recorder, Step, Sweep
from .tradeoff import Measured, Tradeoff, compare

__all__ = ["profile"]


def profile(
    step: Step,
    pull: Pull,
    state: Any,
    seed: Any,
    *,
    steps: int,
    schedules: Iterable[Schedule] | None = None,
    storage: Storage = Memory(),  # noqa: B008  (an immutable value)
    memory: int | str | None = None,
    record: Recorder | None = None,
) -> Tradeoff:
    """Run a chain and its reverse sweep under several schedules, and measure.

    Every schedule is run twice: once for the seconds, once, slower, under tracemalloc for the bytes. A chain without any
    saving is run before them, as the unit of time.

    Parameters
    ----------
    step, pull, state, seed
        As in `sweep.reverse`.
    steps : int
        Length N of the chain, at least 1.
    schedules, memory
        As in `compare`.
    storage : Storage
        Where states are saved.
    record : callable, optional
        As in `sweep.reverse`, for the schedules that record steps: ``Mixed(slots)``.

    Returns
    -------
    Tradeoff
        With `Row.measured` beside the prediction.

    Raises
    ------
    ValueError, TypeError
        If an argument cannot be used.

    Examples
    --------
    >>> from checkpoint.schedules import CTZ, Mixed, Revolve
    >>> table = profile(lambda k, x: x / 3 + 2, lambda k, x, g: g / 3, 1.0, 1.0, steps=100, schedules=[CTZ(), Revolve(4)])
    >>> [(row.advances, row.measured.advances, row.measured.saves, row.measured.peak_states) for row in table.rows]
    [(274, 275, 59, 8), (374, 375, 35, 4)]

    With ``record``, also a schedule that keeps records of steps:

    >>> table = profile(lambda k, x: x / 3 + 2, lambda k, x, g: g / 3, 1.0, 1.0, steps=10, schedules=[Mixed(3)],
    ...                 record=lambda k, x: (x / 3 + 2, lambda g: g / 3))
    >>> [(row.advances, row.measured.advances, row.measured.peak_states) for row in table.rows]
    [(9, 10, 3)]
    """
    steps = whole_number(steps, where="profile", argument="steps", least=1, hint="give the length of the chain")
    schedules = None if schedules is None else list(schedules)
    table = compare(steps=steps, state_bytes=nbytes(state), schedules=schedules, memory=memory)
    simulation = _simulation(step, state, steps)

    def measured(schedule: Schedule) -> Measured:
        def run() -> tuple[Stats, tuple[float, float]]:
            with Sweep(step, state, steps=steps, schedule=schedule, storage=storage, record=record) as sweep:
                return sweep.stats, _timed(sweep, pull, seed)

        stats, seconds = run()
        peak = _traced(run)
        work = sum(seconds) / simulation
        return Measured(*seconds, work, peak, stats.advances, stats.saves, stats.loads, stats.peak_states)

    rows = (replace(row, measured=measured(schedule)) for row, schedule in zip(table.rows, table.schedules, strict=True))
    return replace(table, rows=tuple(rows), simulation_seconds=simulation)


def _simulation(step: Step, state: Any, steps: int) -> float:
    """Seconds of one run without saving."""
    x = copy_state(state)
    started = perf_counter()
    for k in range(steps):
        x = step(k, canonical(x))
    return perf_counter() - started


def _timed(sweep: Sweep, pull: Pull, seed: Any) -> tuple[float, float]:
    """Seconds of the two phases."""
    started = perf_counter()
    final = sweep.forward()
    turned = perf_counter()
    sweep.backward(pull, seed(final) if callable(seed) else seed)
    return turned - started, perf_counter() - turned


def _traced(run: Callable[[], object]) -> int:
    """The most bytes allocated at one moment, beyond those before."""
    ours = not tracemalloc.is_tracing()
    if ours:
        tracemalloc.start()
    try:
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        run()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        if ours:
            tracemalloc.stop()
