"""The walk shared by all schedules that divide a gap: advance from a saved state, saving on the way, to the one needed.

A gap of n steps starts at a saved state, its base. `split(n, slots, base)` says how far to advance from there before the
next save, n - 1 meaning straight to the end. A stack of indices is all the memory: no recursion, no tables, and the first
action of a chain of 10^9 steps comes at once.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from .actions import Action, Advance, Drop, Load, Reverse, Save

__all__ = ["Split", "along", "forward", "reverse"]

new = tuple.__new__  # the constructor of a named tuple is a function of Python, called several times a step

Split: TypeAlias = Callable[[int, int, int], int]


def along(indices: Iterable[int], last: int) -> Iterator[Action]:
    """Yield the first sweep of a schedule that saves the states `indices` (ascending, 0 first) and ends at x_last, last = N - 1."""
    position = 0
    for index in indices:
        if position < index:
            yield new(Advance, (position, index))
            position = index
        yield new(Save, (index,))
    if position < last:
        yield new(Advance, (position, last))


def forward(steps: int, slots: int, split: Split) -> Iterator[Action]:
    """Yield the first sweep: fill the whole chain as one gap, by ``split(n, free, base) -> int``."""
    if not steps:
        return
    base, last = 0, steps - 1
    yield new(Save, (0,))
    while base < last:
        stop = base + split(steps - base, slots, base)
        yield new(Advance, (base, stop))
        base = stop
        if base < last:
            slots -= 1
            yield new(Save, (base,))


def reverse(steps: int, saved: Sequence[int], slots: int, split: Split) -> Iterator[Action]:
    """Yield the reverse sweep: refill each gap from its base with the slots that are free at that moment.

    ``split(n, free, base) -> int`` counts the base's own slot among the free ones."""
    if not steps:
        return
    stack = list(saved)
    del saved
    last = steps - 1
    if stack[-1] == last:
        stack.pop()
        yield new(Drop, (last,))
    yield new(Reverse, (last,))
    while last:
        last -= 1
        base = stack[-1]
        yield new(Load, (base,))
        while base < last:
            stop = base + split(last - base + 1, slots - len(stack) + 1, base)
            yield new(Advance, (base, stop))
            base = stop
            if base < last:
                stack.append(base)
                yield new(Save, (base,))
        if stack[-1] == last:  # its last use: free the place before the pull, which needs memory of its own
            stack.pop()
            yield new(Drop, (last,))
        yield new(Reverse, (last,))
