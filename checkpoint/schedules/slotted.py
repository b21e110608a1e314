"""What is the same of the schedules that have a number of slots."""

from collections.abc import Iterator, Sequence

from . import binomial, refill
from .actions import Action
from .schedule import Schedule

__all__ = ["Slotted"]


class Slotted(Schedule):
    """A schedule that saves at most `slots` states, and refills gaps by splits: the binomial ones, unless it says others."""

    slots: int

    def forward(self, steps: int | None) -> Iterator[Action]:
        """Actions of the first sweep; see `Schedule.forward`."""
        steps = self._known(steps)
        return refill.forward(steps, self.slots, self._split(steps))

    def reverse(self, steps: int, saved: Sequence[int]) -> Iterator[Action]:
        """Actions of the reverse sweep; see `Schedule.reverse`."""
        steps = self._steps(steps)
        return refill.reverse(steps, self._saved(steps, saved), self.slots, self._split(steps))

    def limit(self, steps: int) -> int:
        """`slots`, or fewer for a short chain; see `Schedule.limit`."""
        return min(self.slots, max(self._steps(steps) - 1, 1) if steps else 0)

    def _split(self, steps: int) -> refill.Split:
        return binomial.split
