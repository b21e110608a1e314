"""No checkpointing: every state is saved."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from .actions import Action, Advance, Save
from .refill import Refilled

__all__ = ["StoreAll"]


@dataclass(frozen=True)
class StoreAll(Refilled):
    """Save every state: no step is advanced twice, and memory grows with the length of the chain.

    The length may be unknown.

    Examples
    --------
    >>> list(StoreAll().forward(2))
    [Save(index=0), Advance(start=0, stop=1), Save(index=1)]
    """

    def _first(self, steps: int) -> range:
        return range(steps)

    def _endless(self) -> Iterator[Action]:
        for k in count():
            yield Save(k)
            yield Advance(k, k + 1)

    def reverse(self, steps: int, saved: Sequence[int]) -> Iterator[Action]:
        if len(saved) != self._steps(steps):
            raise ValueError(f"StoreAll: saved must hold all {steps} states, got {len(saved)}; give what forward left saved")
        return super().reverse(steps, saved)

    def limit(self, steps: int) -> int:
        """N; see `Schedule.limit`."""
        return self._steps(steps)
