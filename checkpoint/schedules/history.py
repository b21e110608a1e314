"""What a schedule does with a chain over time, for pictures; one evaluation of the step takes one unit of time."""

from .actions import Action, Advance, Drop, Record, Reverse, Save
from .machine import Cursor, executed
from .schedule import Schedule

__all__ = ["LINES", "History"]

WIDTH = 400  # evaluations that a picture tells apart

LINES = {"first sweep": "#0072B2", "advanced again": "#E69F00", "reversed": "#1a1a1a"}  # what the working state goes through: colours


class History:
    """The times at which states are saved, and what the working state goes through; records count as saved states."""

    def __init__(self, schedule: Schedule, steps: int) -> None:
        self.now = self.first_end = furthest = 0
        self.saves: list[tuple[int, int]] = []  # time and index
        self.intervals: list[tuple[int, int, int]] = []  # index, begin and end of what was saved
        #: start and end, in time and index, of what the working state goes through, by what it is for
        self.lines: dict[str, list[tuple[tuple[int, int], tuple[int, int]]]] = {name: [] for name in LINES}
        self._since: dict[tuple[type[Action], int], int] = {}
        for action in executed(schedule, Cursor(steps)):
            match action:
                case None:
                    self.first_end = self.now
                case Save(k):
                    self._begin(Save, k)
                case Drop(k):
                    self._end(Save, k)
                case Record(k) | Advance(k):
                    if type(action) is Record:
                        self._begin(Record, k)
                    stop = action.stop if type(action) is Advance else k + 1
                    self._move("first sweep" if k >= furthest else "advanced again", k, stop, stop - k)
                    furthest = max(furthest, stop)
                case Reverse(k):
                    recorded = (Record, k) in self._since
                    if recorded:
                        self._end(Record, k)
                    self._move("reversed", k + 1, k, not recorded)

    def _begin(self, kind: type[Action], index: int) -> None:
        self._since[kind, index] = self.now
        self.saves.append((self.now, index))

    def _end(self, kind: type[Action], index: int) -> None:
        self.intervals.append((index, self._since.pop((kind, index)), self.now))

    def _move(self, name: str, start: int, stop: int, evaluations: int) -> None:
        begin, self.now = self.now, self.now + evaluations
        self.lines[name].append(((begin, start), (self.now, stop)))

    def visible(self) -> list[tuple[int, int, int]]:
        """Return the intervals that a picture can show: of long chains, of states saved long enough to be seen."""
        return [line for line in self.intervals if line[2] - line[1] >= self.now // WIDTH]
