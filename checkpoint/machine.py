"""A machine of integers: it executes a schedule on indices instead of states, checks every action, and counts."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from .actions import Action, Advance, Drop, Load, Record, Reverse, Save
from .checks import whole_number
from .schedules import Schedule

__all__ = ["Counts", "ScheduleError", "simulate"]


class ScheduleError(AssertionError):
    """A schedule asked for something that cannot be done, or did not do what it has to."""


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
    """

    saves: int
    loads: int
    advances: int
    pulls: int
    peak_states: int


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
    Counts(saves=6, loads=9, advances=15, pulls=10, peak_states=3)
    >>> simulate(CTZ("bisect"), 16).advances
    32
    """
    steps = whole_number(steps, where="simulate", argument="steps", least=0, hint="give the length of the chain")
    machine = _Machine(schedule, steps)
    machine.run(schedule.forward(steps) if known else machine.until_end(schedule.forward(None)))
    machine.turn()
    machine.run(schedule.reverse(steps, sorted(machine.saved)))
    return machine.counts()


class _Machine:
    def __init__(self, schedule: Schedule, steps: int) -> None:
        self.schedule, self.steps = schedule, steps
        self.limit = schedule.limit(steps)
        self.saved: set[int] = set()
        self.recorded: set[int] = set()
        self.working: int | None = 0 if steps else None
        self.next = steps  # all steps from here on are reversed
        self.held: int | None = None
        self.turned = False
        self.saves = self.loads = self.advances = self.peak = 0

    def run(self, actions: Iterable[Action]) -> None:
        saved = self.saved
        for action in actions:
            kind = type(action)
            if kind is Reverse:
                index = action[0]
                if index != self.next - 1 or not self.turned:
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
                self.working = index
                self.loads += 1
            elif kind is Advance:
                start, stop = action  # type: ignore[misc]
                if start != self.working:
                    raise self.elsewhere(action)
                if not start < stop < self.next:
                    raise self.illegal(action, f"the state needed next is x_{self.next - 1}")
                self.working = stop
                self.advances += stop - start
            elif kind is Save:
                index = action[0]
                if index not in (self.working, self.held):
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
                if index + 1 >= self.next:
                    raise self.illegal(action, f"the state needed next is x_{self.next - 1}")
                self.recorded.add(index)
                self.working = index + 1
                self.count(action)
            elif kind is Drop:
                index = action[0]
                if index not in saved:
                    raise self.illegal(action, "it is not saved")
                saved.remove(index)
            else:
                raise self.illegal(action, "it is not an action")

    def count(self, action: Action) -> None:
        """One more state or record is held."""
        held = len(self.saved) + len(self.recorded)
        if held > self.limit:
            raise self.illegal(action, f"the limit of {self.limit} saved states is reached")
        if held > self.peak:
            self.peak = held

    def until_end(self, actions: Iterable[Action]) -> Iterator[Action]:
        """An endless first sweep, cut where the chain turns out to end; the step to x_N is the driver's."""
        for action in actions if self.steps else ():
            if type(action) is Advance:
                if action.stop != action.start + 1:
                    raise self.illegal(action, "an unknown length goes one step at a time")
                if action.stop == self.steps:
                    return
                self.held = action.start  # the driver's copy of the state before the working one
            yield action

    def turn(self) -> None:
        """From the first sweep to the reverse sweep."""
        if self.working != (self.steps - 1 if self.steps else None):
            raise ScheduleError(f"{self.schedule}: the first sweep of {self.steps} steps ends at x_{self.working}")
        self.held = None
        self.turned = True

    def counts(self) -> Counts:
        if self.next or self.saved or self.recorded:
            left = f"steps below {self.next} are not reversed" if self.next else f"{sorted(self.saved)} are left saved"
            raise ScheduleError(f"{self.schedule}: at the end of {self.steps} steps, {left}")
        return Counts(self.saves, self.loads, self.advances, self.steps, self.peak)

    def illegal(self, action: Action, reason: str) -> ScheduleError:
        return ScheduleError(f"{self.schedule}, {self.steps} steps: {action} is not legal: {reason}")

    def elsewhere(self, action: Action) -> ScheduleError:
        state = "there is no working state" if self.working is None else f"the working state is x_{self.working}"
        return self.illegal(action, state)
