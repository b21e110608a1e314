"""No checkpointing: every state is saved."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from .actions import Action
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

    def _outlived(self, k: int) -> Iterable[int]:
        return ()

    def reverse(self, steps: int, saved: Sequence[int]) -> Iterator[Action]:
        if len(saved) != self._steps(steps):
            raise ValueError(f"StoreAll: saved must hold all {steps} states, got {len(saved)}; give what forward left saved")
        return super().reverse(steps, saved)

    def limit(self, steps: int) -> int:
        """N; see `Schedule.limit`."""
        return self._steps(steps)
