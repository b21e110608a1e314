"""The walk shared by all schedules that divide a gap: advance from a saved state, saving on the way, to the one needed.

A gap of n steps starts at a saved state, its base. `split(n, slots, base)` says how far to advance from there before the
next save, n - 1 meaning straight to the end. A stack of indices is all the memory: no recursion, no tables, and the first
action of a chain of 10^9 steps comes at once. Actions are made a few at a time, so that the generators are resumed once for those.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, count
from typing import TypeAlias

from . import binomial
from .actions import Action, Advance, Drop, Load, Reverse, Save
from .schedule import Schedule

__all__ = ["Refilled", "Slotted", "Split", "first"]

joined = chain.from_iterable
new = tuple.__new__  # the constructor of a named tuple is a function of Python, called several times a step

Split: TypeAlias = Callable[[int, int, int], int]


class Refilled(Schedule):
    """A schedule that saves some states in the first sweep, and refills the gaps between them in the reverse sweep."""

    def forward(self, steps: int | None) -> Iterator[Action]:
        if steps is None and self._outlived(0) is not None:
            return self._endless()
        steps = self._steps(steps)
        return joined(along(self._first(steps), steps - 1))

    def reverse(self, steps: int, saved: Sequence[int]) -> Iterator[Action]:
        steps = self._steps(steps)
        return joined(reverse(steps, self._saved(steps, saved), self.limit(steps), self._split(steps)))

    @abstractmethod
    def _first(self, steps: int) -> Iterable[int]:
        """Return the states that the first sweep saves, ascending."""

    def _outlived(self, k: int) -> Iterable[int] | None:
        """Return the states that are dropped before x_k is saved while the length is unknown; None where it has to be known."""
        return None

    def _endless(self) -> Iterator[Action]:
        """Yield the first sweep of unknown length."""
        for k in count():
            for index in self._outlived(k) or ():
                yield new(Drop, (index,))
            yield new(Save, (k,))
            yield new(Advance, (k, k + 1))

    def _split(self, steps: int) -> Split:
        return binomial.split


class Slotted(Refilled):
    """A schedule that saves at most `slots` states."""

    slots: int

    def limit(self, steps: int) -> int:
        """`slots`, or fewer for a short chain; see `Schedule.limit`."""
        return min(self.slots, max(self._steps(steps) - 1, 1) if steps else 0)

    def _first(self, steps: int) -> Iterable[int]:
        return first(steps, self.slots, self._split(steps))


def along(indices: Iterable[int], last: int) -> Iterator[Sequence[Action]]:
    """Yield the first sweep of a schedule that saves the states `indices` (ascending, 0 first) and ends at x_last, last = N - 1."""
    position = 0
    for index in indices:
        save = new(Save, (index,))
        yield (new(Advance, (position, index)), save) if position < index else (save,)
        position = index
    if position < last:
        yield (new(Advance, (position, last)),)


def first(steps: int, slots: int, split: Split) -> Iterator[int]:
    """Yield the states that the first sweep saves if the whole chain is one gap, by ``split(n, free, base) -> int``."""
    base, last = 0, steps - 1
    if steps:
        yield base
    while base < last:
        base += split(steps - base, slots, base)
        slots -= 1
        if base < last:
            yield base


def reverse(steps: int, saved: Sequence[int], slots: int, split: Split) -> Iterator[Sequence[Action]]:
    """Yield the reverse sweep: refill each gap from its base with the slots that are free at that moment.

    ``split(n, free, base) -> int`` counts the base's own slot among the free ones."""
    stack = list(saved)
    del saved
    for last in reversed(range(steps)):
        actions: list[Action] = []
        if last < steps - 1:
            base = stack[-1]
            actions.append(new(Load, (base,)))
            while base < last:
                stop = base + split(last - base + 1, slots - len(stack) + 1, base)
                actions.append(new(Advance, (base, stop)))
                base = stop
                if base < last:
                    stack.append(base)
                    actions.append(new(Save, (base,)))
                    yield actions
                    actions = []
        if stack[-1] == last:  # its last use: free the place before the pull, which needs memory of its own
            stack.pop()
            actions.append(new(Drop, (last,)))
        actions.append(new(Reverse, (last,)))
        yield actions
