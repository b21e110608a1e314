"""What is the same of the binomial schedules that have a number of slots."""

from collections.abc import Iterable

from . import refill

__all__ = ["Slotted"]


class Slotted(refill.Refilled):
    """A schedule that saves at most `slots` states."""

    slots: int

    def limit(self, steps: int) -> int:
        """`slots`, or fewer for a short chain; see `Schedule.limit`."""
        return min(self.slots, max(self._steps(steps) - 1, 1) if steps else 0)

    def _first(self, steps: int) -> Iterable[int]:
        return refill.first(steps, self.slots, self._split(steps))
