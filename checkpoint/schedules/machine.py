"""A machine of integers: it executes a schedule on indices instead of states, checks every action, and counts."""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from ..support.checks import whole_number
from . import Schedule
from .actions import Action, Advance
from .cursor import Cursor, ScheduleError

__all__ = ["Counts", "ScheduleError", "executed", "simulate"]


class Counts(NamedTuple):
    """What a schedule needs for one chain."""

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
    yield from cursor.executed(schedule.forward(steps) if known else _until_end(cursor, schedule.forward(None), steps))
    if cursor.working != (steps - 1 if steps else None):
        raise ScheduleError(f"{schedule}: the first sweep of {steps} steps ends at x_{cursor.working}")
    cursor.end_forward(steps)
    yield None
    yield from cursor.executed(schedule.reverse(steps, sorted(cursor.saved)))
    cursor.check_end()


def _until_end(cursor: Cursor, actions: Iterator[Action], steps: int) -> Iterator[Action]:
    """An endless first sweep, cut where the chain turns out to end; the step to x_N is the driver's."""
    for action in actions if steps else ():
        if type(action) is Advance:
            if action.stop != action.start + 1:
                raise cursor.illegal(action, "an unknown length goes one step at a time")
            if action.stop == steps:
                return
            cursor.previous = action.start  # the driver's copy of the state before the working one
        yield action
