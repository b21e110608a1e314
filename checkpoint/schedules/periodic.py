"""Equal segments: the classical scheme of about 2 sqrt(N) saved states; and all of them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import isqrt

from .actions import Action
from .schedule import Refilled, Split


@dataclass(frozen=True)
class Periodic(Refilled):
    """Save the first state of each of s segments; then, last segment first, every state of the segment to be reversed.

    No step is advanced more than once again. With r steps in the last segment there are A = 2 N - r - s plain advances.
    At most s - 1 + r states are saved, or s - 2 plus the steps of a full segment if that is more. With the
    default that is less than 2 sqrt(N) + 1 states, where CTZ takes log2(N) + 1 and about log2(N) / 4 times the advances.

    Parameters
    ----------
    every : steps in a segment; the last one may be shorter. The length of the chain may then be unknown.
    segments : s, or N if that is less; if s does not divide N, the first ones are one step longer. The default, if neither is given, is
        segments of sqrt(N) steps, rounded up.

    Raises
    ------
    TypeError, ValueError
        If both are given, or one is not an integer of at least 1.

    Examples
    --------
    >>> from checkpoint.schedules.actions import Save
    >>> [action.index for action in Periodic().forward(10) if type(action) is Save]
    [0, 4, 8, 9]
    """

    every: int | None = None
    segments: int | None = None

    def __post_init__(self) -> None:
        if self.every is not None and self.segments is not None:
            raise TypeError("Periodic: give either every= (steps in a segment) or segments= (their number)")
        for argument in ("every", "segments"):
            if getattr(self, argument) is not None:
                self._check(argument, 1, "leave it out for segments of sqrt(N) steps")

    def __repr__(self) -> str:
        given = [f"{name}={value}" for name, value in (("every", self.every), ("segments", self.segments)) if value is not None]
        return f"Periodic({', '.join(given)})"

    def _first(self, steps: int) -> Sequence[int]:
        bases = self._bases(steps)
        return [*bases[:-1], *range(bases[-1], steps)] if bases else ()

    def _outlived(self, k: int) -> Iterable[int] | None:
        if self.every is None:
            return None
        return range(k - self.every + 1, k) if k and k % self.every == 0 else ()

    def _split(self, steps: int) -> Split:
        return lambda steps, slots, base: 1

    def limit(self, steps: int) -> int:
        """max(s - 1 + r, s - 2 + every); see `Schedule.limit`."""
        bases = self._bases(self._steps(steps))
        if len(bases) < 2:
            return steps
        return max(len(bases) - 1 + steps - bases[-1], len(bases) - 2 + bases[1])

    def _bases(self, steps: int) -> Sequence[int]:
        """First state of each segment."""
        if self.segments is None:
            return range(0, steps, self.every or isqrt(max(steps - 1, 0)) + 1)  # sqrt(steps), rounded up
        number = min(self.segments, steps)
        size, longer = divmod(steps, max(number, 1))
        return [j * size + min(j, longer) for j in range(number)]


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
