"""Optimal checkpointing for a known length and a given number of saved states."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..actions import Action
from ..checks import whole_number
from . import refill
from .binomial import SLOTS_HINT, split
from .schedule import Schedule

__all__ = ["Revolve"]


@dataclass(frozen=True)
class Revolve(Schedule):
    """Reverse a chain of known length with the fewest advances that `slots` saved states allow.

    The actions follow from the closed form of Algorithm 799 (Griewank & Walther 2000, ACM TOMS 26:19), one at a time.

    Parameters
    ----------
    slots : int
        Most states saved at the same time, x_0 included, the working state not; at least 1.

    Raises
    ------
    ValueError, TypeError
        If `slots` is less than 1 or not an integer.

    See Also
    --------
    checkpoint.schedules.binomial.advances : how many advances it will take.

    Examples
    --------
    >>> for action in Revolve(2).forward(6):
    ...     print(action)
    Save(index=0)
    Advance(start=0, stop=3)
    Save(index=3)
    Advance(start=3, stop=5)
    """

    slots: int

    def __post_init__(self) -> None:
        slots = whole_number(self.slots, where="Revolve", argument="slots", least=1, hint=SLOTS_HINT)
        object.__setattr__(self, "slots", slots)

    def forward(self, steps: int | None) -> Iterator[Action]:
        """Actions of the first sweep; see `Schedule.forward`."""
        return refill.forward(self._known(steps), self.slots, split)

    def reverse(self, steps: int, saved: Sequence[int]) -> Iterator[Action]:
        """Actions of the reverse sweep; see `Schedule.reverse`."""
        steps = self._steps(steps)
        return refill.reverse(steps, self._saved(steps, saved), self.slots, split)

    def limit(self, steps: int) -> int:
        """`slots`, or fewer for a short chain; see `Schedule.limit`."""
        return min(self.slots, max(self._steps(steps) - 1, 1) if steps else 0)
