"""The driver: actions x step x pull x storage -> cotangent. It knows no engine of differentiation."""

import weakref
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from time import monotonic, perf_counter
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from dualad.support.callers import trimmed
from dualad.support.progress import Bar
from dualad.support.repeated import repeated

from ..schedules import CTZ, Schedule
from ..schedules.actions import Action, Advance, Drop, Load, Save
from ..schedules.schedule import check_schedule
from ..storage import Memory, Storage
from ..storage.states import canonical, copy_state, has_arrays
from ..storage.storage import check_storage
from ..storage.tiered import tiers
from ..support.checks import check_until, flags, too_many, truth, whole_number
from .guard import ReplayCheck
from .player import Player, Pull, Recorder, Step, misplaced
from .stats import Stats, filled_stats

__all__ = ["Pull", "Recorder", "Result", "RowRestorers", "Step", "Sweep", "Until", "check_saved", "reverse"]

Until: TypeAlias = Callable[[int, Any], Any]
RowRestorers: TypeAlias = Mapping[str, Callable[[dict[int, list[Any]]], None] | None]


class Result(NamedTuple):
    """What `reverse` returns.

    Attributes
    ----------
    final : pytree
        x_N.
    cotangent : pytree
        Cotangent of x_0.
    stats : Stats
        What it took.
    """

    final: Any
    cotangent: Any
    stats: Stats


class Sweep:
    """A chain x_{k+1} = step(k, x_k), k = 0 ... N-1, run forward and then pulled back.

    Between the two phases it holds the states that the schedule saved. They are freed by `release`, by leaving a
    ``with`` block, by any exception inside a phase, and when the last reference to the sweep is lost.

    Every state that a step or a pull is handed is its own, to write into if it likes, and is in the canonical layout
    (ndarray leaves C-contiguous), so the cotangent has the same bits under every schedule.

    Parameters
    ----------
    step : callable
        ``step(k, x) -> x_{k+1}``. Called again for the same k in the reverse sweep: it has to give the same result.
    state : pytree
        x_0. Copied at once.
    steps : int, optional
        N >= 0. Leave it out if `until` says when to stop.
    schedule : Schedule
        Which states are saved.
    storage : Storage
        Where they are saved.
    stats : Stats, optional
        Filled in place when a phase ends.
    until : callable, optional
        ``until(k, x) -> bool``, asked before step k: the chain ends at the first x_N for which it is true. Asked in the
        first sweep only, never again on a replay.
    max_steps : int, optional
        With `until`: raise if it is still not true after so many steps.
    progress : bool
        Show a bar for each phase; needs tqdm.
    check : bool
        Take checksums of all states in the first sweep, four bytes each, and raise in the reverse sweep, naming the first
        step whose replay gives another result, where the gradient would be silently wrong.
    token : pytree
        With a durable storage: what the step depends on besides its state, such as parameters. A sweep goes on only from one with
        the same token. Functions in it count by their code.
    record : callable, optional
        ``record(k, x) -> (x_{k+1}, pullback)``, with ``pullback(g)`` instead of the later ``pull(k, x, g)``: for ``Mixed(slots)``.
        A pullback that has an attribute `nbytes` is counted with it in the stats.
    restorers : dict, optional
        With a durable storage, for each sweep (``"first"``, ``"reverse"``) that gives rows to `add_row`: a function that is told, before
        the first call, the rows of those steps that an earlier process has made, as lists of leaves by the index of the step.

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
        self._max_steps = check_until(until, max_steps, "sweep")
        self._progress, check = flags("sweep", progress=progress, check=check)
        check_saved(schedule, storage, token, "sweep")
        hint = "give the number of steps of the chain"
        self._steps = None if steps is None else whole_number(steps, where="sweep", argument="steps", least=0, hint=hint)
        self._step, self._until = step, until
        self._check, self._schedule = ReplayCheck() if check else None, schedule
        self._bar: Bar | None = None  # of the phase that is under way
        on_disk = schedule.on_disk(self._steps)
        self._session = (tiers(storage, on_disk) if on_disk else storage).open()
        self._finalizer = weakref.finalize(self, self._session.clear)
        self._initial = self._session.copy(state)
        if schedule.records and record is None:
            raise TypeError(f"sweep: {schedule!r} needs record=, a function of k and x; chain has one of its own")
        if schedule.records and (check or storage.durable):
            other, why = ("check=True", "compared") if check else (repr(storage), "written to disk")
            raise ValueError(f"sweep: {schedule!r} does not go with {other}: recorded steps are not {why}")
        self._again = step if self._check is None else self._check.replay(step)
        self._record = record if schedule.records else None
        self._player = Player(self._session, self._initial, self._again, self._record)
        if check and storage.durable:
            raise ValueError(f"sweep: check=True compares the sweeps of one process; it does not go with {storage!r}, which outlives it")
        begin = self._session.journal  # of a storage that outlives the process: it notes how far the sweep has come
        if begin is not None:
            self._player.journal = begin(self._session, self._initial, step, token, schedule, until, restorers)
        self._last: list[Any] = []  # x_{N-1} between the phases, if it is not among the saved states
        self._ready = False
        self._seconds = 0.0
        self.stats = filled_stats(stats, "sweep")

    # ---------------------------------------------------------------------------------------------- the two phases

    def forward(self) -> Any:
        """Run the chain, saving what the schedule wants, and return x_N, the caller's own."""
        self.release()  # in a process that was forked within a sweep, too
        started = perf_counter()
        try:
            with repeated:
                final = self._session.copy(self._first())
            self._ready = True
            return final
        except BaseException:
            self._surely_released()
            raise
        finally:
            self._report(started)

    def backward(self, pull: Pull, cotangent: Any, token: Any = None) -> Any:
        """Pull a cotangent of x_N back to x_0.

        The saved states are used up. Called again, it runs the chain forward again first.

        Parameters
        ----------
        pull : callable
            ``pull(k, x_k, g) -> g'``: the cotangent of x_k, given that of x_{k+1}.
        cotangent : pytree
            Cotangent of x_N. Copied, so a pull may write into what it is handed.
        token : pytree
            As in `Sweep`: what the pull depends on besides.

        Returns
        -------
        pytree
            Cotangent of x_0.
        """
        if not self._ready:
            self.forward()
        self._ready = False  # also in a process that is forked meanwhile
        started = perf_counter()
        try:
            g = self._second(pull, cotangent, self._steps, token) if self._steps else copy_state(cotangent)
            if self._player.journal is not None:
                self._session.finish()
            return g
        finally:
            self._surely_released()
            self._report(started)

    def add_row(self, k: int, leaves: list[Any]) -> None:
        """With a durable storage, keep what step k, which is under way, leaves behind besides its state or cotangent: see `restorers`.

        In a sweep there is one row for each step, or for none; the leaves, numbers and arrays, are copied.
        """
        if self._player.journal is not None:
            self._player.journal.add_row(k, leaves)

    def release(self) -> None:
        """Free every saved state. The sweep stays usable: the next `backward` runs forward again."""
        self._ready = False
        self._last.clear()
        self._player.clear()
        self._session.clear()

    def _surely_released(self) -> None:
        try:
            self.release()
        except BaseException:  # an interrupt may come in the middle of it
            self.release()
            raise

    def __enter__(self) -> "Sweep":
        return self

    def __exit__(self, *exception: object) -> None:
        self.release()

    # ------------------------------------------------------------------------------------------------- the machinery

    def _first(self) -> Any:
        """The first sweep, or what is left of it."""
        player, journal, step, steps = self._player, self._player.journal, self._step, self._steps
        done = None if journal is None else journal.begin(steps)
        if done is not None:
            final, self._last, self._steps = done
            player.arrays = has_arrays(final)
            if self._progress:
                self._show("first sweep", self._steps, self._steps or 0)
            return final
        player.record = self._record
        if steps == 0:
            final = self._session.copy(self._initial)
        else:
            actions, begun, working = (self._schedule.forward(steps), None, []) if journal is None else journal.forward()
            if begun is None:
                working = [self._session.copy(self._initial)]
            else:
                player.arrays = has_arrays(working[0])
            at = begun or 0
            if self._check is not None:
                step = self._check.first(step)
            if self._progress:
                bar = self._show("first sweep", steps, at)
                step, player.record = bar.counting(step), self._record and bar.counting(self._record)
            if journal is not None:
                step = journal.watching(step)
            final = (self._run_until if steps is None else self._run_known)(step, actions, at, working)
        if journal is not None:
            journal.end_forward(final, self._last, self._steps)
        return final

    def _second(self, pull: Pull, g: Any, steps: int, token: Any) -> Any:
        """The reverse sweep, or what is left of it."""
        player, session, working = self._player, self._session, list[Any]()
        at: int | None = steps - 1
        if player.journal is None:
            saved, left = session.indices(), steps
            actions = self._schedule.reverse(steps, saved)
        else:
            (actions, saved, at, left), g, x = player.journal.reverse(steps, g, token, pull)
            working += [] if x is None else [x]
            del x
            pull = player.journal.noting(pull)
        if saved:
            session.prefetch(saved[-1])
        del saved  # of many small states such a list is as large as they are
        if self._check is not None:
            pull = self._check.pull(pull)
        if self._record is not None:
            player.record = self._record
            pull = player.using_records(pull)
        if self._progress:
            pull = self._show("reverse sweep", steps, steps - left).counting(pull)
        # only the player refers to the working state and the copied cotangent: each is freed when the next one is there
        if not working and left == steps and at == left - 1:
            working += self._last
        self._last.clear()
        if not working and at is not None:
            actions, at = chain((Load(at),), actions), None
        return player.play(self._again, actions, at, None, working.pop() if working else None, pull, copy_state(g), left)[1]

    def _show(self, label: str, steps: int | None, done: int) -> Bar:
        """Show the bar of a sweep of which `done` steps are made."""
        self._bar = bar = Bar(True, label)
        bar.start(steps, done)
        return bar

    def _run_known(self, step: Step, actions: Iterator[Action], at: int, working: list[Any]) -> Any:
        last = (self._steps or 0) - 1
        x = self._player.play(step, actions, at, last, working.pop(0))[0]
        if last not in self._session:  # a copy is kept: the step may write into x, or own it as a buffer it uses again
            self._last.append(self._session.copy(x))
        self._player.advances += 1
        return step(last, canonical(x))

    def _run_until(self, step: Step, actions: Iterator[Action], k: int, working: list[Any]) -> Any:
        """The first sweep of a chain of unknown length, one step at a time; a newest state that is not saved is held."""
        until, session, journal = self._until, self._session, self._player.journal
        assert until is not None
        previous = self._last
        x = canonical(working.pop(0))
        previous += working
        while not truth(until(k, x), where="sweep", k=k):
            if k == self._max_steps:
                raise too_many(k, "sweep")
            for action in actions:
                if type(action) is Advance:
                    break
                if type(action) is Drop:
                    session.drop(action.index)
                elif type(action) is Save and action.index == k:
                    session.save(k, x)
                elif type(action) is Save and action.index == k - 1 and previous:
                    session.save(k - 1, previous[0])
                else:
                    raise misplaced(action, k, 0)
            previous.clear()
            if k not in session:
                previous.append(session.copy(x))
            self._player.advances += 1
            x = step(k, x)
            k += 1
            if not k - 1:  # a number may become an array in the first step
                self._player.arrays = has_arrays(x)
            if self._player.arrays:
                x = canonical(x)
            if journal is not None and session.due <= monotonic():
                journal.at(k, x, *previous)
        self._steps = k
        return x

    def _report(self, started: float) -> None:
        """Fill the stats after a phase, and leave its bar as it is."""
        session, player, stats = self._session, self._player, self.stats
        if self._bar is not None:
            self._bar.close()
        self._seconds += perf_counter() - started
        stats.steps, stats.pulls, stats.seconds = self._steps or 0, player.pulls, self._seconds
        stats.advances = player.advances + (player.journal.made if player.journal is not None else 0)
        stats.saves, stats.loads = session.saves, session.loads
        stats.peak_states = max(session.peak_states, player.peak_states)
        stats.peak_bytes = max(session.peak_bytes, player.peak_bytes)
        stats.schedule = str(self._schedule)


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
    """Run a chain and pull a cotangent back through it, with a step and a pull that may be anybody's.

    The pull may be a hand-written adjoint, ``jax.vjp`` or torch; states and cotangents are opaque to the sweep. Sums
    over the steps (gradients of parameters, a loss along the trajectory) ride in the cotangent.

    Parameters
    ----------
    step : callable
        ``step(k, x_k) -> x_{k+1}``.
    pull : callable
        ``pull(k, x_k, g) -> g'``: the cotangent of x_k, given that of x_{k+1}.
    state : pytree
        x_0.
    seed : pytree or callable
        The cotangent of x_N, or a function of x_N that gives it.
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
    options: dict[str, Any] = {"schedule": schedule, "storage": storage, "stats": stats, "until": until, "max_steps": max_steps}
    with Sweep(step, state, steps=steps, progress=progress, check=check, token=token, record=record, **options) as sweep:
        final = sweep.forward()
        cotangent = sweep.backward(pull, seed(sweep._session.copy(final)) if callable(seed) else seed)
    return Result(final, cotangent, sweep.stats)


def check_saved(schedule: object, storage: Storage, token: object, where: str) -> None:
    """Raise where a schedule or a storage is none, or a token has nobody who compares it."""
    check_schedule(schedule, where)
    check_storage(storage, where)
    if token is not None and not storage.durable:
        raise TypeError(f"{where}: token= is compared by a call that goes on: give storage=Disk(path, resume=True) too, or leave it out")
