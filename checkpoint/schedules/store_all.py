"""No checkpointing: every state is saved."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from .actions import Action, Advance, Drop, Load, Reverse, Save
from .schedule import Schedule

__all__ = ["StoreAll"]


@dataclass(frozen=True)
class StoreAll(Schedule):
    """Save every state: no step is advanced twice, and memory grows with the length of the chain.

    The length may be unknown.

    Examples
    --------
    >>> list(StoreAll().forward(2))
    [Save(index=0), Advance(start=0, stop=1), Save(index=1)]
    """

    def forward(self, steps: int | None) -> Iterator[Action]:
        """Actions of the first sweep; see `Schedule.forward`."""
        return _forward(None if steps is None else self._steps(steps))

    def reverse(self, steps: int, saved: Sequence[int]) -> Iterator[Action]:
        """Actions of the reverse sweep; see `Schedule.reverse`."""
        steps = self._steps(steps)
        if len(saved) != steps:
            raise ValueError(f"StoreAll: saved must hold all {steps} states, got {len(saved)}; give what forward left saved")
        return _reverse(steps)

    def limit(self, steps: int) -> int:
        """N; see `Schedule.limit`."""
        return self._steps(steps)


def _forward(steps: int | None) -> Iterator[Action]:
    for k in count() if steps is None else range(steps):
        yield Save(k)
        if k + 1 != steps:
            yield Advance(k, k + 1)


def _reverse(steps: int) -> Iterator[Action]:
    for k in reversed(range(steps)):
        if k + 1 != steps:
            yield Load(k)
        yield Drop(k)
        yield Reverse(k)
