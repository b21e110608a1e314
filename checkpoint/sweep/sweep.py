"""The public sweep: actions x step x pull x storage -> cotangent, with its arguments checked."""

from types import MappingProxyType
from typing import Any, NamedTuple

from dualad.support.callers import trimmed
from dualad.support.checks import flags

from ..schedules import CTZ, Schedule
from ..schedules.schedule import check_schedule
from ..storage import Memory, Storage
from ..storage.storage import check_storage
from ..storage.tiered import with_tiers
from ..support.checks import check_call, check_until, whole_number
from .player import Player, Pull, Recorder, RowRestorers, Step, Until
from .stats import Stats, filled_stats


class Result(NamedTuple):
    """What `reverse` returns.

    Attributes
    ----------
    final : x_N.
    cotangent : cotangent of x_0.
    stats : what it took.
    """

    final: Any
    cotangent: Any
    stats: Stats


class Sweep(Player):
    """A chain x_{k+1} = step(k, x_k), k = 0 ... N-1, run forward and then pulled back.

    Between the two phases it holds the states that the schedule saved. They are freed by `release`, by leaving a
    ``with`` block, by any exception inside a phase, and when the last reference to the sweep is lost.

    Every state that a step or a pull is handed is its own, to write into if it likes, and is in the canonical layout
    (ndarray leaves C-contiguous), so the cotangent has the same bits under every schedule.

    Parameters
    ----------
    step : ``step(k, x) -> x_{k+1}``. Called again for the same k in the reverse sweep: it has to give the same result.
    state : x_0. Copied at once.
    steps : N >= 0. Leave it out if `until` says when to stop.
    schedule : which states are saved.
    storage : where they are saved.
    stats : filled in place when a phase ends.
    until : ``until(k, x) -> bool``, asked before step k: the chain ends at the first x_N for which it is true. Asked in the first sweep
        only, never again on a replay.
    max_steps : with `until`: raise if it is still not true after so many steps.
    progress : show a bar for each phase; needs tqdm.
    check : take checksums of all states in the first sweep, four bytes each, and raise in the reverse sweep, naming the first step whose
        replay gives another result, where the gradient would be silently wrong.
    token : with a durable storage: what the step depends on besides its state, such as parameters. A sweep goes on only from one with the
        same token. Functions in it count by their code.
    record : ``record(k, x) -> (x_{k+1}, pullback)``, with ``pullback(g)`` instead of the later ``pull(k, x, g)``: for ``Mixed(slots)``. A
        pullback that has an attribute `nbytes` is counted with it in the stats.
    restorers : with a durable storage, for each sweep (``"first"``, ``"reverse"``) that gives rows to `add_row`: a function that is told,
        before the first call, the rows of those steps that an earlier process has made, as lists of leaves by the index of the step.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind, both or neither of `steps` and `until` are given, or `token` without a durable storage.

    Examples
    --------
    The derivative of x -> x/3 + 2 repeated 16 times is 3^-16:

    >>> sweep = Sweep(lambda k, x: x / 3 + 2, 1.0, steps=16)
    >>> round(sweep.forward(), 6)
    3.0
    >>> round(sweep.backward(lambda k, x, g: g / 3, 1.0) * 3**16, 12)
    1.0
    >>> sweep.stats.advances, sweep.stats.peak_states
    (29, 5)
    """

    where = "sweep"

    def __init__(
        self,
        step: Step,
        state: Any,
        *,
        steps: int | None = None,
        schedule: Schedule = CTZ(),  # noqa: B008  (an immutable value)
        storage: Storage = Memory(),  # noqa: B008
        stats: Stats | None = None,
        until: Until | None = None,
        max_steps: int | None = None,
        progress: bool = False,
        check: bool = False,
        token: Any = None,
        record: Recorder | None = None,
        restorers: RowRestorers = MappingProxyType({}),
    ) -> None:
        if (steps is None) == (until is None):
            raise TypeError("sweep: give either steps=N or, if N is not known before, until=predicate")
        max_steps = check_until(until, max_steps, "sweep")
        progress, check = flags("sweep", progress=progress, check=check)
        if steps is not None:
            steps = whole_number(steps, where="sweep", argument="steps", least=0, hint="give the number of steps of the chain")
        check_saved(schedule, storage, token, check, steps, "sweep")
        if schedule.records and record is None:
            raise TypeError(f"sweep: {schedule!r} needs record=, a function of k and x; chain has one of its own")
        options: dict[str, Any] = {"until": until, "max_steps": max_steps, "progress": progress, "check": check, "restorers": restorers}
        super().__init__(step, state, steps, schedule, storage, filled_stats(stats, "sweep"), token=token, record=record, **options)


@trimmed
def reverse(
    step: Step,
    pull: Pull,
    state: Any,
    seed: Any,
    *,
    steps: int | None = None,
    schedule: Schedule = CTZ(),  # noqa: B008
    storage: Storage = Memory(),  # noqa: B008
    stats: Stats | None = None,
    until: Until | None = None,
    max_steps: int | None = None,
    progress: bool = False,
    check: bool = False,
    token: Any = None,
    record: Recorder | None = None,
) -> Result:
    """Run a chain and pull a cotangent back through it, with any step and its adjoint.

    The adjoint (`pull`) may be written by hand or use ``jax.vjp`` or torch; states and cotangents are opaque to the sweep. Put sums
    over the steps (gradients of parameters, a loss along the trajectory) into the cotangent.

    Parameters
    ----------
    step : ``step(k, x_k) -> x_{k+1}``.
    pull : ``pull(k, x_k, g) -> g'``: the cotangent of x_k, given that of x_{k+1}.
    state : x_0.
    seed : the cotangent of x_N, or a function of x_N that gives it.
    steps, schedule, storage, stats, until, max_steps, progress, check, token, record
        As in `Sweep`.

    Returns
    -------
    Result
        ``final``, ``cotangent`` and ``stats``.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind, both or neither of `steps` and `until` are given, or `token` without a durable storage.

    Examples
    --------
    >>> result = reverse(lambda k, x: x * x, lambda k, x, g: 2 * x * g, 1.5, 1.0, steps=3)
    >>> result.final == 1.5**8, result.cotangent == 8 * 1.5**7
    (True, True)
    """
    check_call(step, "step(k, x)", "sweep")
    check_call(pull, "pull(k, x, g)", "sweep")
    options: dict[str, Any] = {"schedule": schedule, "storage": storage, "stats": stats, "until": until, "max_steps": max_steps}
    with Sweep(step, state, steps=steps, progress=progress, check=check, token=token, record=record, **options) as sweep:
        final = sweep.forward()
        check_returned("step", "state", final, state)
        g = seed(sweep._session.copy(final)) if callable(seed) else seed
        cotangent = sweep.backward(pull, g)
        check_returned("pull", "cotangent", cotangent, g)
    return Result(final, cotangent, sweep.stats)


def check_returned(name: str, what: str, made: object, given: object) -> None:
    if made is None and given is not None:
        raise TypeError(f"sweep: {name} returned None; return the new {what} (is its return statement missing?)")


def check_saved(schedule: Schedule, storage: Storage, token: object, check: bool, steps: int | None, where: str) -> None:
    """Raise where a schedule or a storage is none, where they do not go with each other, with a token, with `check`, or with a length
    that is not known."""
    check_schedule(schedule, where)
    check_storage(storage, where)
    if token is not None and not storage.durable:
        raise TypeError(f"{where}: token= is used only to resume a sweep: give storage=Disk(path, resume=True) too, or leave it out")
    if schedule.records and (check or storage.durable):
        other, why = ("check=True", "compared") if check else (repr(storage), "written to disk")
        raise ValueError(f"{where}: {schedule!r} does not go with {other}: recorded steps are not {why}")
    if check and storage.durable:
        raise ValueError(f"{where}: check=True compares the sweeps of one process; it does not go with {storage!r}, which outlives it")
    if steps is None:
        schedule.forward(None)
    elif storage.durable:
        with_tiers(storage, schedule.on_disk(steps))
