"""A machine of integers: it executes a schedule on indices instead of states, checks every action, and counts."""

from collections.abc import Iterator
from typing import NamedTuple

from ..support.checks import whole_number
from . import Schedule
from .actions import Action, Advance
from .cursor import Cursor, ScheduleError

__all__ = ["Counts", "ScheduleError", "simulate"]


class Counts(NamedTuple):
    """What a schedule needs for one chain.

    Attributes
    ----------
    saves, loads : int
        Times a state is saved, and made the working state again.
    advances : int
        Plain steps: the first sweep to x_{N-1} and every recomputation, but neither the step to x_N nor the evaluation
        inside each pull, nor steps that are recorded, for whose pulls that is the evaluation.
    pulls : int
        Steps reversed.
    peak_states : int
        The most states saved at one moment, records included.
    records : int
        Steps recorded when they are made, whose records are kept until their pulls.
    """

    saves: int
    loads: int
    advances: int
    pulls: int
    peak_states: int
    records: int = 0


def simulate(schedule: Schedule, steps: int, *, known: bool = True) -> Counts:
    """Execute a schedule on integers and count, checking that every action is legal.

    Legal means: a Save, Advance, Record or Reverse finds the working state it names, a Load or Drop a saved one, a Reverse
    perhaps a record instead; nothing is saved twice; the schedule's own limit holds; the first sweep ends at x_{N-1}; steps
    are reversed once each, last to first; and nothing is left saved.

    Parameters
    ----------
    schedule : Schedule
        What to execute.
    steps : int
        N >= 0.
    known : bool
        Whether the schedule is told N before the first sweep, or only after it, as with ``until``.

    Returns
    -------
    Counts

    Raises
    ------
    ScheduleError
        At the first action that is not legal.

    Examples
    --------
    >>> from checkpoint.schedules import CTZ, Revolve
    >>> simulate(Revolve(3), 10)
    Counts(saves=6, loads=9, advances=15, pulls=10, peak_states=3, records=0)
    >>> simulate(CTZ("bisect"), 16).advances
    32
    """
    steps = whole_number(steps, where="simulate", argument="steps", least=0, hint="give the length of the chain")
    cursor = Cursor(steps, str(schedule), schedule.limit(steps))
    cursor.run(schedule.forward(steps) if known else _until_end(cursor, schedule.forward(None), steps))
    if cursor.working != (steps - 1 if steps else None):
        raise ScheduleError(f"{schedule}: the first sweep of {steps} steps ends at x_{cursor.working}")
    cursor.turn(steps)
    cursor.run(schedule.reverse(steps, sorted(cursor.saved)))
    cursor.check_end()
    return Counts(cursor.saves, cursor.loads, cursor.advances, steps, cursor.peak, cursor.records)


def _until_end(cursor: Cursor, actions: Iterator[Action], steps: int) -> Iterator[Action]:
    """An endless first sweep, cut where the chain turns out to end; the step to x_N is the driver's."""
    for action in actions if steps else ():
        if type(action) is Advance:
            if action.stop != action.start + 1:
                raise cursor.illegal(action, "an unknown length goes one step at a time")
            if action.stop == steps:
                return
            cursor.held = action.start  # the driver's copy of the state before the working one
        yield action
