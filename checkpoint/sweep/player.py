"""The player: actions of a schedule executed on the states of one sweep."""

import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from time import monotonic
from typing import Any, TypeAlias

from ..schedules.actions import Action, Advance, Drop, Load, Record, Reverse, Save
from ..storage import DamagedState
from ..storage.states import canonical, has_arrays
from ..storage.storage import Session

__all__ = ["Player", "Pull", "Recorder", "Step", "misplaced"]

Step: TypeAlias = Callable[[int, Any], Any]
Pull: TypeAlias = Callable[[int, Any, Any], Any]
Recorder: TypeAlias = Callable[[int, Any], tuple[Any, Callable[[Any], Any]]]


class Player:
    """Executes actions, checks their legality and counts; `again` recomputes a state that cannot be read back.
    A wrong schedule is an error, never a wrong gradient. `peak_bytes` adds the `nbytes` of recorded pullbacks, where they have it."""

    def __init__(self, session: Session, initial: Any, again: Step, record: Recorder | None) -> None:
        self._session, self._initial, self._again, self.record = session, initial, again, record
        self.pullbacks: dict[int, Callable[[Any], Any]] = {}
        self.journal: Any = None  # of a durable storage: it is told a working state when that is due
        self.arrays = has_arrays(initial)
        self.advances = self.pulls = self.peak_states = self.peak_bytes = 0
        self._pullback_bytes = 0

    def play(
        self,
        step: Step,
        actions: Iterable[Action],
        at: int | None,
        goal: int | None,
        x: Any,
        pull: Pull | None = None,
        g: Any = None,
        left: int = 0,
    ) -> tuple[Any, Any]:
        """Execute actions from x = x_at to x_goal; return the working state and the cotangent.
        With a pull, the `left` first steps are reversed (goal None). ``step.many(start, stop, x) -> x_stop``, if present, makes all
        steps of an action."""
        session, arrays, journal, many = self._session, self.arrays, self.journal, getattr(step, "many", None)
        save, load, drop, pullbacks = session.save, session.load, session.drop, self.pullbacks
        position = at  # None while there is no working state
        advances = pulls = 0
        try:
            for action in actions:
                kind = type(action)
                if kind is Reverse:
                    k = action[0]
                    if (k != position and k not in pullbacks) or k != left - 1:
                        raise misplaced(action, position, left)
                    g = pull(k, canonical(x) if arrays else x, g)  # type: ignore[misc]  # left > 0: there is a pull
                    pulls += 1
                    left = k
                    x = position = None
                elif kind is Load:
                    position = action[0]
                    try:
                        x = load(position)
                    except DamagedState as error:
                        x = self.made_again(position, error)
                elif kind is Advance:
                    start, stop = action  # type: ignore[misc]
                    if start != position:
                        raise misplaced(action, position, left)
                    advances += stop - start
                    if many is not None:
                        x, start = many(start, stop, canonical(x)), stop
                        if journal is not None and session.due <= monotonic():
                            journal.at(stop, x)
                    elif not start and not arrays:  # a number may become an array in the first step
                        x = step(0, x)
                        start = 1
                        arrays = self.arrays = has_arrays(x)
                    if journal is not None:
                        for k in range(start, stop):
                            x = step(k, canonical(x) if arrays else x)
                            if session.due <= monotonic():
                                journal.at(k + 1, x)
                    elif arrays:
                        for k in range(start, stop):
                            x = step(k, canonical(x))
                    else:
                        for k in range(start, stop):
                            x = step(k, x)
                    position = stop
                elif kind is Save:
                    if action[0] != position:
                        raise misplaced(action, position, left)
                    save(position, x)
                    if pullbacks:
                        self._measure()
                elif kind is Drop:
                    drop(action[0])
                elif kind is Record:
                    if action[0] != position or self.record is None:
                        raise misplaced(action, position, left)
                    x, pullbacks[position] = self.record(position, canonical(x))
                    self._pullback_bytes += getattr(pullbacks[position], "nbytes", 0)
                    position += 1
                    arrays = self.arrays = arrays or has_arrays(x)
                    self._measure()
                else:
                    raise TypeError(f"sweep: the schedule yielded {action!r}, which is not an action")
            if position != goal or left:
                raise misplaced("the end", position, left)
        finally:
            self.advances += advances
            self.pulls += pulls
        return x, g

    def made_again(self, index: int, error: DamagedState) -> Any:
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
            journal, self.journal = self.journal, None  # which knows the actions of the schedule only
            try:
                x = self.play(self._again, (Advance(base, index),), base, index, x)[0]
            finally:
                self.journal = journal
        session.save(index, x)
        return x

    def using_records(self, pull: Pull) -> Pull:
        """The same pull; the record of a step is used instead, where there is one, and used up."""

        def pulled(k: int, x: Any, g: Any) -> Any:
            if k not in self.pullbacks:
                return pull(k, x, g)
            pullback = self.pullbacks.pop(k)
            self._pullback_bytes -= getattr(pullback, "nbytes", 0)
            return pullback(g)

        return pulled

    def clear(self) -> None:
        """Free the records; the counts stay."""
        self.pullbacks.clear()
        self._pullback_bytes = 0

    def _measure(self) -> None:
        self.peak_states = max(self.peak_states, len(self.pullbacks) + len(self._session))
        self.peak_bytes = max(self.peak_bytes, self._pullback_bytes + self._session.nbytes())


def misplaced(action: Action | str, position: int | None, left: int) -> RuntimeError:
    """The error for an action that does not fit the working state."""
    state = "there is no working state" if position is None else f"the working state is x_{position}"
    rest = f" and {left} steps are left to reverse" if left else ""
    advice = "check it with checkpoint.schedules.machine.simulate"
    return RuntimeError(f"sweep: the schedule asks for {action} while {state}{rest}; {advice}")
