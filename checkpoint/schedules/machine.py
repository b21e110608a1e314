"""The meaning of actions: a machine executes them on indices instead of states, checks each one, and counts."""

from collections import deque
from collections.abc import Iterable, Iterator
from math import inf
from typing import NamedTuple

from ..support.checks import whole_number
from . import Schedule
from .actions import Action, Advance, Drop, Load, Record, Reverse, Save


class ScheduleError(AssertionError):
    """A schedule asked for something that cannot be done, or did not do what it has to."""


class Cursor:
    """The state of a schedule's execution: working state, saved and recorded sets, counts. An illegal action raises ScheduleError.
    All steps from `next` on are reversed; `peak` counts saved and recorded states together and never exceeds `limit`.
    `stepwise`: the length is not known, and the driver goes step by step, holding a copy of the `previous` state if it is not saved."""

    def __init__(self, steps: int | None, name: str = "the schedule", limit: float = inf) -> None:
        self.steps, self.name, self.limit = steps, name, limit
        self.saved: set[int] = set()
        self.recorded: set[int] = set()
        self.working: int | None = None if steps == 0 else 0
        self.next: float = inf if steps is None else steps
        self.stepwise = steps is None
        self.previous: int | None = None
        self.reversing = False
        self.saves = self.loads = self.advances = self.records = self.peak = 0

    def run(self, actions: Iterable[Action]) -> None:
        deque(self.executed(actions), maxlen=0)

    def executed(self, actions: Iterable[Action]) -> Iterator[Action]:
        """Yield actions, each of them when it is executed."""
        saved = self.saved
        for action in actions:
            kind = type(action)
            if kind is Reverse:
                index = action[0]
                if index != self.next - 1 or not self.reversing:
                    raise self.illegal(action, f"steps from {self.next} on are reversed")
                if index in self.recorded:
                    self.recorded.remove(index)
                elif index != self.working:
                    raise self.elsewhere(action)
                self.next = index
                self.working = None
            elif kind is Load:
                index = action[0]
                if index not in saved:
                    raise self.illegal(action, "it is not saved")
                if self.stepwise:
                    raise self.illegal(action, "an unknown length goes one step at a time")
                self.working = index
                self.loads += 1
            elif kind is Advance:
                start, stop = action  # type: ignore[misc]
                if start != self.working:
                    raise self.elsewhere(action)
                if not start < stop < self.next:
                    raise self.illegal(action, f"the state needed next is x_{self.next - 1}")
                if self.stepwise:
                    if stop != start + 1:
                        raise self.illegal(action, "an unknown length goes one step at a time")
                    self.previous = None if start in saved else start
                self.working = stop
                self.advances += stop - start
            elif kind is Save:
                index = action[0]
                if index not in (self.working, self.previous):
                    raise self.elsewhere(action)
                if index in saved:
                    raise self.illegal(action, "it is saved already")
                saved.add(index)
                self.saves += 1
                self.count(action)
            elif kind is Record:
                index = action[0]
                if index != self.working or index in self.recorded:
                    raise self.elsewhere(action)
                if index + 1 >= self.next or self.stepwise:
                    raise self.illegal(action, f"the state needed next is x_{self.next - 1}")
                self.recorded.add(index)
                self.records += 1
                self.working = index + 1
                self.count(action)
            elif kind is Drop:
                index = action[0]
                if index not in saved:
                    raise self.illegal(action, "it is not saved")
                saved.remove(index)
            else:
                raise self.illegal(action, "it is not an action")
            yield action

    def count(self, action: Action) -> None:
        resident = len(self.saved) + len(self.recorded)
        if resident > self.limit:
            raise self.illegal(action, f"the limit of {self.limit} saved states is reached")
        if resident > self.peak:
            self.peak = resident

    def end_forward(self, steps: int) -> None:
        """Go from the first sweep, of so many steps, to the reverse sweep, which begins at x_{N-1}."""
        self.steps = self.next = steps
        self.working = steps - 1 if steps else None
        self.stepwise, self.previous = False, None
        self.reversing = True

    def check_end(self) -> None:
        """Raise unless every step is reversed, and nothing is left saved."""
        if self.next or self.saved or self.recorded:
            left = f"steps below {self.next} are not reversed" if self.next else f"{sorted(self.saved)} are left saved"
            raise ScheduleError(f"{self.name}: at the end of {self.steps} steps, {left}")

    def illegal(self, action: Action, reason: str) -> ScheduleError:
        length = "" if self.steps is None else f", {self.steps} steps"
        return ScheduleError(f"{self.name}{length}: {action} is not legal: {reason}")

    def elsewhere(self, action: Action) -> ScheduleError:
        state = "there is no working state" if self.working is None else f"the working state is x_{self.working}"
        return self.illegal(action, state)


class Remaining(NamedTuple):
    """The remaining part of a sweep."""

    actions: Iterator[Action]
    saved: list[int]  # indices of the saved states
    position: int | None  # index of the working state
    left: int  # steps not yet reversed


class Counts(NamedTuple):
    """Costs of a schedule for one chain."""

    saves: int
    loads: int
    advances: int  # plain steps: first sweep to x_{N-1} and recomputation; not the step to x_N, pulls or recorded steps
    pulls: int  # steps reversed
    peak_states: int  # most states saved at one moment, recorded steps included
    records: int = 0  # steps recorded in the first sweep, whose pullbacks stay in memory until they are pulled


def simulate(schedule: Schedule, steps: int, *, known: bool = True) -> Counts:
    """Execute a schedule on integers and return its counts; an illegal action, or a state left saved, raises ScheduleError.
    `known`: whether the schedule is told N before the first sweep, or only after it (``until``)."""
    steps = whole_number(steps, where="simulate", argument="steps", least=0, hint="give the length of the chain")
    cursor = Cursor(steps, str(schedule), schedule.limit(steps))
    deque(executed(schedule, cursor, known=known), maxlen=0)
    return Counts(cursor.saves, cursor.loads, cursor.advances, steps, cursor.peak, cursor.records)


def executed(schedule: Schedule, cursor: Cursor, *, known: bool = True) -> Iterator[Action | None]:
    """Execute both sweeps of a schedule: yield each action when the cursor has executed it, and None between the sweeps."""
    steps = cursor.steps or 0
    cursor.stepwise = not known
    yield from cursor.executed(schedule.forward(steps) if known else until_end(cursor, schedule.forward(None), steps))
    if cursor.working != (steps - 1 if steps else None):
        raise ScheduleError(f"{schedule}: the first sweep of {steps} steps ends at x_{cursor.working}")
    cursor.end_forward(steps)
    yield None
    yield from cursor.executed(schedule.reverse(steps, sorted(cursor.saved)))
    cursor.check_end()


def until_end(cursor: Cursor, actions: Iterator[Action], steps: int) -> Iterator[Action]:
    """An endless first sweep, cut where the chain turns out to end; the step to x_N is the driver's."""
    for action in actions if steps else ():
        if type(action) is Advance and action == (cursor.working, steps):
            return
        yield action
