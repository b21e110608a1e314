"""The driver of a sweep: actions of a schedule executed on states, forward and back. It knows no engine of differentiation."""

import warnings
import weakref
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from time import monotonic, perf_counter
from types import MappingProxyType
from typing import Any, Self, TypeAlias

from dualad.support.progress import Bar
from dualad.support.repeated import REPEATED

from ..schedules import Schedule
from ..schedules.actions import Action, Advance, Drop, Load, Record, Reverse, Save
from ..storage import DamagedState, Storage
from ..storage.digests import checksum
from ..storage.memory import MemorySession, identity
from ..storage.states import canonical, copy_state, has_arrays
from ..storage.tiered import with_tiers
from ..support.checks import too_many, truth
from .stats import Stats

Step: TypeAlias = Callable[[int, Any], Any]
Pull: TypeAlias = Callable[[int, Any, Any], Any]
Recorder: TypeAlias = Callable[[int, Any], tuple[Any, Callable[[Any], Any]]]
Until: TypeAlias = Callable[[int, Any], Any]
RowRestorers: TypeAlias = Mapping[str, Callable[[dict[int, list[Any]]], None] | None]

SWEEP_STATES = 3  # besides the saved ones: x_0, x_{N-1} between the sweeps, the working state; of a chain x_N, too
BLOCK_STATES = 6  # of a compiled chain: x_0, x_N, the working state and the buffer that changes places with it, two cotangents
SWEEP_BYTES = 112 << 10  # the objects of a sweep, whatever its states are (`tracemalloc` of chains of one float)


class Player:
    """Executes a schedule in two phases, checks that its actions are legal, and counts; of the arguments of `Sweep`, which are right here.
    A wrong schedule is an error, never a wrong gradient. `peak_bytes` adds the `nbytes` of recorded pullbacks, where they have it."""

    where = "chain"  # who asks `until`, in messages

    def __init__(
        self,
        step: Step,
        state: Any,
        steps: int | None,
        schedule: Schedule,
        storage: Storage,
        stats: Stats,
        *,
        until: Until | None = None,
        max_steps: int | None = None,
        progress: bool = False,
        check: bool = False,
        token: Any = None,
        record: Recorder | None = None,
        restorers: RowRestorers = MappingProxyType({}),
    ) -> None:
        self._step, self._steps, self._schedule, self.stats = step, steps, schedule, stats
        self._until, self._max_steps, self._progress = until, max_steps, progress
        marks: tuple[Callable[..., Any], Callable[..., Any]] = replay_check() if check else (identity, identity)
        self._noted, self._checked = marks
        self._again = self._checked(step)  # it computes a state again that cannot be read back, too
        self._bar: Bar | None = None  # of the phase that is under way
        on_disk = schedule.on_disk(steps)
        self._session = session = (with_tiers(storage, on_disk) if on_disk else storage).open()
        if type(session) is not MemorySession:  # whose memory goes with it: an interrupt in a finalizer would be lost
            weakref.finalize(self, session.clear)
        self._initial = session.copy(state)
        self._arrays = has_arrays(self._initial)
        self._recorder = self._record = record if schedule.records else None
        self._pullbacks: dict[int, Callable[[Any], Any]] = {}
        self._pullback_bytes = 0
        #: of a storage that outlives the process: it is told a working state when that is due
        self._journal: Any = None
        if session.journal is not None:
            self._journal = session.journal(session, self._initial, step, token, schedule, until, restorers)
        self._last: list[Any] = []  # x_{N-1} between the phases, if it is not among the saved states
        self._begun = self._ready = False
        self._seconds = 0.0
        self._advances = self._pulls = self._peak_states = self._peak_bytes = 0

    def forward(self) -> Any:
        """Run the chain, saving what the schedule wants, and return x_N, the caller's own."""
        if self._begun:
            self.release()  # in a process that was forked within a sweep, too
        self._begun = True
        started = perf_counter()
        REPEATED.append(None)
        try:
            final = self._session.copy(self._first())
            self._ready = True
            return final
        except BaseException:
            self._surely_released()
            raise
        finally:
            REPEATED.pop()
            self._report(started)

    def backward(self, pull: Pull, cotangent: Any, token: Any = None) -> Any:
        """Pull a cotangent of x_N back to x_0.

        The saved states are used up. Called again, it runs the chain forward again first.

        Parameters
        ----------
        pull : ``pull(k, x_k, g) -> g'``: the cotangent of x_k, given that of x_{k+1}.
        cotangent : cotangent of x_N. Copied, so a pull may write into what it is handed.
        token : as in `Sweep`: what the pull depends on besides.

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
            if self._journal is not None:
                self._session.finish()
            return g
        finally:
            self._surely_released()
            self._report(started)

    def add_row(self, k: int, leaves: list[Any]) -> None:
        """With a durable storage, keep what step k, which is under way, leaves behind besides its state or cotangent: see `restorers`.

        In a sweep there is one row for each step, or for none; the leaves, numbers and arrays, are copied.
        """
        if self._journal is not None:
            self._journal.add_row(k, leaves)

    def release(self) -> None:
        """Free every saved state. The sweep stays usable: the next `backward` runs forward again."""
        self._ready = False
        self._last.clear()
        self._pullbacks.clear()
        self._pullback_bytes = 0
        self._session.clear()

    def _surely_released(self) -> None:
        try:
            self.release()
        except BaseException:  # an interrupt may come in the middle of it
            self.release()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.release()

    # --- the two phases ------------------------------------------------------------------------------------------------------

    def _first(self) -> Any:
        """The first sweep, or what is left of it."""
        journal, step, steps = self._journal, self._step, self._steps
        done = None if journal is None else journal.begin(steps)
        if done is not None:
            final, self._last, self._steps = done
            self._arrays = has_arrays(final)
            if self._progress:
                self._show("first sweep", self._steps, self._steps or 0)
            return final
        self._record = self._recorder
        if steps == 0:
            final = self._session.copy(self._initial)
        else:
            actions, begun, working = (self._schedule.forward(steps), None, []) if journal is None else journal.forward()
            if begun is None:
                working = [self._session.copy(self._initial)]
            else:
                self._arrays = has_arrays(working[0])
            at = begun or 0
            step = self._noted(step)
            if self._progress:
                bar = self._show("first sweep", steps, at)
                step, self._record = bar.counting(step), self._recorder and bar.counting(self._recorder)
            if journal is not None:
                step = journal.with_digest(step)
            final = (self._run_until if steps is None else self._run_known)(step, actions, at, working)
        if journal is not None:
            journal.end_forward(final, self._last, self._steps)
        return final

    def _second(self, pull: Pull, g: Any, steps: int, token: Any) -> Any:
        """The reverse sweep, or what is left of it."""
        session, working = self._session, list[Any]()
        at: int | None = steps - 1
        if self._journal is None:
            saved, left = session.indices(), steps
            actions = self._schedule.reverse(steps, saved)
        else:
            while (rest := self._journal.reverse(steps, g, token, pull)) is None:  # what was found is of another sweep
                seconds = self._seconds
                self.forward()
                self._ready, self._seconds = False, seconds  # which are among those of the reverse sweep
            (actions, saved, at, left), g, working = rest
            pull = self._journal.with_points(pull)
        if saved:
            session.prefetch(saved[-1])
        del saved  # of many small states such a list is as large as they are
        pull = self._checked(pull)
        if self._recorder is not None:
            self._record = self._recorder
            pull = self._using_records(pull)
        if self._progress:
            pull = self._show("reverse sweep", steps, steps - left).counting(pull)
        # only `_play` refers to the working state and the copied cotangent: each is freed when the next one is there
        if not working and left == steps and at == left - 1:
            working += self._last
        self._last.clear()
        if not working and at is not None:
            actions, at = chain((Load(at),), actions), None
        return self._play(self._again, actions, at, left - 1, working.pop() if working else None, pull, copy_state(g))[1]

    def _show(self, label: str, steps: int | None, done: int) -> Bar:
        """Show the bar of a sweep of which `done` steps are made."""
        self._bar = bar = Bar(True, label)
        bar.start(steps, done)
        return bar

    def _run_known(self, step: Step, actions: Iterator[Action], at: int, working: list[Any]) -> Any:
        last = (self._steps or 0) - 1
        x = self._play(step, actions, at, last, working.pop(0))[0]
        if last not in self._session:  # a copy is kept: the step may write into x, or own it as a buffer it uses again
            self._last.append(self._session.copy(x))
        self._advances += 1
        return step(last, canonical(x) if self._arrays else x)

    def _run_until(self, step: Step, actions: Iterator[Action], k: int, working: list[Any]) -> Any:
        """The first sweep of a chain of unknown length, one step at a time; a newest state that is not saved is held."""
        until, session, journal = self._until, self._session, self._journal
        assert until is not None
        previous = self._last
        x = canonical(working.pop(0))
        previous += working
        while not truth(until(k, x), where=self.where, k=k):
            if k == self._max_steps:
                raise too_many(k, self.where)
            for action in actions:
                if type(action) is Advance and action == (k, k + 1):
                    break
                if type(action) is Drop:
                    session.drop(action.index)
                elif type(action) is Save and action.index == k:
                    session.save(k, x)
                elif type(action) is Save and action.index == k - 1 and previous:
                    session.save(k - 1, previous[0])
                else:
                    raise misplaced(action, k)
            else:
                raise misplaced("the end", k)
            previous.clear()
            if k not in session:
                previous.append(session.copy(x))
            self._advances += 1
            x = step(k, x)
            k += 1
            if not k - 1:  # a number may become an array in the first step
                self._arrays = has_arrays(x)
            if self._arrays:
                x = canonical(x)
            if journal is not None and session.due <= monotonic():
                journal.commit(k, x, *previous)
        self._steps = k
        return x

    def _report(self, started: float) -> None:
        session, stats = self._session, self.stats
        if self._bar is not None:
            self._bar.close()
        self._seconds += perf_counter() - started
        stats.steps, stats.pulls, stats.seconds = self._steps or 0, self._pulls, self._seconds
        stats.advances = self._advances + (self._journal.made if self._journal is not None else 0)
        stats.saves, stats.loads = session.saves, session.loads
        stats.peak_states = max(session.peak_states, self._peak_states)
        stats.peak_bytes = max(session.peak_bytes, self._peak_bytes)
        stats.schedule = str(self._schedule)

    # --- actions -------------------------------------------------------------------------------------------------------------

    # What is legal is said here again, and not by `schedules.machine.Cursor` with this as its observer: 100 steps of a float took 3.9 %
    # longer. A test has both refuse the same action of schedules with one action changed.
    def _play(
        self,
        step: Step,
        actions: Iterable[Action],
        at: int | None,
        goal: int,
        x: Any,
        pull: Pull | None = None,
        g: Any = None,
    ) -> tuple[Any, Any]:
        """Execute actions from x = x_at to x_goal; return the working state and the cotangent.
        With a pull all steps up to x_{goal + 1} are reversed; the goal falls with each. ``step.many(start, stop, x) -> x_stop``, if
        present, makes all steps of an action."""
        session, arrays, journal, many = self._session, self._arrays, self._journal, getattr(step, "many", None)
        save, load, drop, pullbacks = session.save, session.load, session.drop, self._pullbacks
        position = at  # None while there is no working state
        advances = pulls = 0
        try:
            for action in actions:
                kind = type(action)
                if kind is Reverse:
                    k = action[0]
                    if (k != position and k not in pullbacks) or k != goal or pull is None:
                        break
                    g = pull(k, canonical(x) if arrays else x, g)
                    pulls += 1
                    goal = k - 1
                    x = position = None
                elif kind is Load:
                    position = action[0]
                    try:
                        x = load(position)
                    except DamagedState as error:
                        x = self._made_again(position, error)
                elif kind is Advance:
                    start, stop = action  # type: ignore[misc]
                    if start != position or not start < stop <= goal:
                        break
                    advances += stop - start
                    if many is not None:
                        x, start = many(start, stop, canonical(x)), stop
                        if journal is not None and session.due <= monotonic():
                            journal.commit(stop, x)
                    elif not start and not arrays:  # a number may become an array in the first step
                        x = step(0, x)
                        start = 1
                        arrays = self._arrays = type(x) is not float and has_arrays(x)
                    if journal is not None:
                        for k in range(start, stop):
                            x = step(k, canonical(x) if arrays else x)
                            if session.due <= monotonic():
                                journal.commit(k + 1, x)
                    elif arrays:
                        for k in range(start, stop):
                            x = step(k, canonical(x))
                    else:
                        for k in range(start, stop):
                            x = step(k, x)
                    position = stop
                elif kind is Save:
                    if action[0] != position:
                        break
                    save(position, x)
                    if pullbacks:
                        self._measure()
                elif kind is Drop:
                    drop(action[0])
                elif kind is Record:
                    if action[0] != position or position >= goal or position in pullbacks or self._record is None:
                        break
                    x, pullbacks[position] = self._record(position, canonical(x))
                    self._pullback_bytes += getattr(pullbacks[position], "nbytes", 0)
                    position += 1
                    arrays = self._arrays = arrays or has_arrays(x)
                    self._measure()
                else:
                    raise TypeError(f"sweep: the schedule yielded {action!r}, which is not an action")
            else:
                action = "the end"  # type: ignore[assignment]
                if goal == (position if pull is None else -1):
                    return x, g
            raise misplaced(action, position, 0 if pull is None else goal + 1)
        finally:
            self._advances += advances
            self._pulls += pulls

    def _made_again(self, index: int, error: DamagedState) -> Any:
        """Compute x_index, which cannot be read back, again from the newest state before it that can be."""
        session = self._session
        if not error.told:
            warnings.warn(f"{error}; x_{index} is computed again", RuntimeWarning, stacklevel=5)
        session.drop(index)
        base, x = 0, session.copy(self._initial)
        for earlier in reversed([k for k in session.indices() if k < index]):
            with suppress(DamagedState):
                base, x = earlier, session.load(earlier)
                break
        if base < index:
            journal, self._journal = self._journal, None  # which knows the actions of the schedule only
            try:
                x = self._play(self._again, (Advance(base, index),), base, index, x)[0]
            finally:
                self._journal = journal
        session.save(index, x)
        return x

    def _using_records(self, pull: Pull) -> Pull:
        """The same pull; the record of a step is used instead, where there is one, and used up."""

        def pulled(k: int, x: Any, g: Any) -> Any:
            if k not in self._pullbacks:
                return pull(k, x, g)
            pullback = self._pullbacks.pop(k)
            self._pullback_bytes -= getattr(pullback, "nbytes", 0)
            return pullback(g)

        return pulled

    def _measure(self) -> None:
        self._peak_states = max(self._peak_states, len(self._pullbacks) + len(self._session))
        self._peak_bytes = max(self._peak_bytes, self._pullback_bytes + self._session.nbytes())


def misplaced(action: Action | str, position: int | None, left: int = 0) -> RuntimeError:
    state = "there is no working state" if position is None else f"the working state is x_{position}"
    rest = f" and {left} steps are left to reverse" if left else ""
    advice = "check it with checkpoint.schedules.machine.simulate"
    return RuntimeError(f"sweep: the schedule asks for {action} while {state}{rest}; {advice}")


def replay_check() -> tuple[Callable[[Step], Step], Callable[..., Any]]:
    """Return the function of a step that has it store the checksum of every state of the first sweep, four bytes each; and that of a step
    on a replay, or of a pull, which raises where the state that it is handed, or that a step gives, is another one."""
    seen = array("I")  # x_0, x_1, ...

    def first(step: Step) -> Step:
        def noted(k: int, x: Any) -> Any:
            if not k:
                seen[:] = array("I", [checksum(x)])
            y = step(k, x)
            seen.append(checksum(y))
            return y

        return noted

    def again(function: Callable[..., Any]) -> Callable[..., Any]:
        def checked(k: int, x: Any, *cotangent: Any) -> Any:
            if checksum(x) != seen[k]:
                raise RuntimeError(
                    f"sweep: the storage returned another x_{k} than was saved; check=True needs a lossless storage and a copy= that "
                    "copies all"
                )
            y = function(k, x, *cotangent)
            if not cotangent and checksum(y) != seen[k + 1]:
                raise RuntimeError(
                    f"sweep: step {k} is not reproducible: running it again from the same state gave another x_{k + 1}. "
                    "Random numbers, clocks and counters must depend on k only"
                )
            return y

        return checked

    return first, again
