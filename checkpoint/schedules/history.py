"""What a schedule does with a chain over time, for pictures; one evaluation of the step takes one unit of time."""

from typing import Any

from ..support.costs import DRAWN_EVALUATIONS, DRAWN_PARTS
from .actions import Advance, Drop, Load, Record, Reverse, Save

__all__ = ["History"]


class History:
    """Collects actions over time; one evaluation of the step takes one unit."""

    def __init__(self) -> None:
        self.now = self.first_end = 0
        self.saved: dict[int, int] = {}  # since when
        self.recorded: set[int] = set()
        self.furthest = 0
        self.first: list[tuple[int, int, int, int]] = []
        self.again: list[tuple[int, int, int, int]] = []
        self.pulled: list[tuple[int, int, int, int]] = []
        self.intervals: list[tuple[int, int, int]] = []
        self.saves: list[tuple[int, int]] = []

    @classmethod
    def of(cls, schedule: Any, steps: int) -> "History":
        """The history of a chain of N steps; `first_end` is when the first sweep ends."""
        history = cls()
        for action in schedule.forward(steps):
            history.add(action)
        history.first_end = history.now
        for action in schedule.reverse(steps, sorted(history.saved.keys() - history.recorded)):
            history.add(action)
        return history

    def add(self, action: Any) -> None:
        match action:
            case Save():
                self.saved[action.index] = self.now
                self.saves.append((self.now, action.index))
            case Drop():
                self.intervals.append((action.index, self.saved.pop(action.index), self.now))
            case Advance():
                line = self.now, self.now + action.stop - action.start, action.start, action.stop
                (self.first if action.start >= self.furthest else self.again).append(line)
                self.furthest = max(self.furthest, action.stop)
                self.now = line[1]
            case Record():
                self.add(Save(action.index))
                self.add(Advance(action.index, action.index + 1))
                self.recorded.add(action.index)
            case Reverse():
                evaluated = action.index not in self.recorded
                if not evaluated:
                    self.recorded.remove(action.index)
                    self.add(Drop(action.index))
                self.pulled.append((self.now, self.now + evaluated, action.index + 1, action.index))
                self.now += evaluated
            case Load():
                pass  # takes no evaluation

    def lines(self) -> dict[str, list[tuple[tuple[int, int], tuple[int, int]]]]:
        """Start and end, in time and index, of what the working state goes through, by what it is for."""
        groups = {"first sweep": self.first, "advanced again": self.again, "reversed": self.pulled}
        return {name: [((t0, k0), (t1, k1)) for t0, t1, k0, k1 in group] for name, group in groups.items()}

    def visible(self) -> list[tuple[int, int, int]]:
        """Index, begin and end of the saved states that a picture can show: of long chains those saved long enough to be seen."""
        shortest = self.now / DRAWN_PARTS if self.now > DRAWN_EVALUATIONS else 0
        return [line for line in self.intervals if line[2] - line[1] >= shortest]
