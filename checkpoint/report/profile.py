"""Memory against recomputation, measured: the cost of schedules for a real chain, beside the prediction."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
import optree

from dualad.forward.seeding import check_function
from dualad.jit.jit import Jit
from dualad.support.callers import trimmed
from dualad.support.measured import measure_peak as bytes_taken

from ..loops.chain import chain
from ..loops.spec import is_floating
from ..reverse.verbs import vjp
from ..schedules import Schedule
from ..storage import Memory, Storage
from ..storage.states import canonical, copy_state, nbytes
from ..storage.storage import check_storage
from ..sweep.player import Pull, Recorder, Step
from ..sweep.stats import Stats
from ..sweep.sweep import Sweep
from .compare import Measured, Tradeoff, compare_schedules, measured_costs


@trimmed
def profile(
    step: Callable[..., Any],
    state: Any,
    *params: Any,
    steps: int,
    schedules: Iterable[Schedule] | None = None,
    storage: Storage = Memory(),  # noqa: B008  (an immutable value)
    memory: float | str | None = None,
    pull: Pull | None = None,
    seed: Any = None,
    record: Recorder | None = None,
) -> Tradeoff:
    """Run a chain and its reverse sweep under several schedules, and measure.

    Every schedule is run twice: once for the seconds, once, slower, under tracemalloc for the bytes. A chain without any
    saving is run before them, as the unit of time.

    Parameters
    ----------
    step : function ``step(k, state, *params) -> state``. As in `chain`, which derives its pull; it may be compiled by `dualad.jit`. With
        `pull`, ``step(k, state)``, as in `sweep.reverse`.
    state : x_0.
    params : passed to every step. The derivative that is measured is that of the sum of x_N, by all numbers in the state and in them.
    steps : length N of the chain, at least 1.
    schedules, memory
        As in `compare`.
    storage : where states are saved.
    pull : of a foreign engine, or written by hand: ``pull(k, x_k, g) -> g'``, as in `sweep.reverse`.
    seed : with `pull`: the cotangent of x_N, or a function of x_N that gives it.
    record : with `pull`: as in `sweep.reverse`, for the schedules that record steps, ``Mixed(slots)``.

    Returns
    -------
    Tradeoff
        With `Row.measured` beside the prediction. Its `pull_cost` and `record_cost` are medians of what the runs took, for `compare` of
        other lengths and schedules.

    Raises
    ------
    ValueError, TypeError
        If an argument cannot be used.

    Examples
    --------
    >>> from checkpoint.schedules import CTZ, Mixed, Revolve
    >>> table = profile(lambda k, x, c: x / 3 + c, 1.0, 2.0, steps=100, schedules=[CTZ(), Revolve(4)])
    >>> [(row.advances, row.measured.advances, row.measured.saves, row.measured.peak_states) for row in table.rows]
    [(274, 275, 59, 8), (374, 375, 35, 4)]

    A foreign engine's step with its pull; with ``record`` also a schedule that records steps:

    >>> record = lambda k, x: (x / 3 + 2, lambda g: g / 3)
    >>> foreign = {"pull": lambda k, x, g: g / 3, "seed": 1.0, "record": record}
    >>> table = profile(lambda k, x: x / 3 + 2, 1.0, **foreign, steps=10, schedules=[Mixed(3)])
    >>> [(row.advances, row.measured.advances, row.measured.peak_states) for row in table.rows]
    [(9, 10, 3)]
    """
    if callable(state):
        raise TypeError("profile: state is a function; a pull is given by its name: profile(step, state, pull=pull, seed=seed, steps=N)")
    check_function(step, "profile")
    for argument, function in (("pull", pull), ("record", record)):
        if function is not None and not callable(function):
            raise TypeError(f"profile: {argument} must be a function, got {function!r}")
    check_storage(storage, "profile")
    if pull is None and (seed is not None or record is not None):
        raise TypeError("profile: seed and record go with pull=; without it, the step's derivative is that of `chain`")
    if pull is not None and params:
        raise TypeError("profile: with pull= a step takes k and the state only, as in sweep.reverse; give the params to it by a closure")
    table = compare_schedules(steps, nbytes(state), schedules, memory, "profile")
    if pull is None:
        chain(step, state, *params, steps=1)  # compiles
    run = partial(chain, step, state, *params) if pull is None else partial(run_once, step, state)
    started = perf_counter()
    run(steps=steps)
    simulation = perf_counter() - started

    def measured(schedule: Schedule) -> Measured:
        def swept() -> tuple[Stats, tuple[float, float]]:
            options: dict[str, Any] = {"steps": steps, "schedule": schedule, "storage": storage}
            if pull is None:
                stats = Stats()
                return stats, time_sweeps(lambda: pullback_of(step, state, params, stats=stats, **options), lambda pullback: pullback(1.0))
            with Sweep(step, state, record=record, **options) as sweep:
                seeded = lambda final: sweep.backward(pull, seed(final) if callable(seed) else seed)
                return sweep.stats, time_sweeps(sweep.forward, seeded)

        if isinstance(step, Jit):
            swept()  # compiles
        stats, seconds = swept()
        _, peak = bytes_taken(swept)
        work = sum(seconds) / simulation
        return Measured(*seconds, work, peak, stats.advances, stats.saves, stats.loads, stats.peak_states)

    rows = (replace(row, measured=measured(schedule)) for row, schedule in zip(table.rows, table.schedules, strict=True))
    return measured_costs(replace(table, rows=tuple(rows), simulation_seconds=simulation))


def pullback_of(step: Callable[..., Any], state: Any, params: tuple[Any, ...], **options: Any) -> Callable[[float], Any]:
    """Make the first sweep of a chain; return its pullback to all numbers."""
    flat: Any = optree.tree_flatten((state, params), none_is_leaf=True)  # type: ignore[arg-type]
    leaves, structure = flat
    places = [i for i, leaf in enumerate(leaves) if is_floating(leaf)]

    def total(*values: Any) -> Any:
        given: list[Any] = list(leaves)
        for i, value in zip(places, values, strict=True):
            given[i] = value
        first, rest = optree.tree_unflatten(structure, given)
        final: list[Any] = optree.tree_leaves(chain(step, first, *rest, **options))
        return sum(np.sum(np.real(leaf)) for leaf in final if is_floating(leaf))

    return vjp(total, *(leaves[i] for i in places))[1]


def run_once(step: Step, state: Any, steps: int) -> None:
    """Run a chain without saving."""
    x = copy_state(state)
    for k in range(steps):
        x = step(k, canonical(x))


def time_sweeps(first: Callable[[], Any], reverse: Callable[[Any], object]) -> tuple[float, float]:
    """Seconds of the two sweeps; the second one is given what the first one returns."""
    started = perf_counter()
    made = first()
    between = perf_counter()
    reverse(made)
    return between - started, perf_counter() - between
