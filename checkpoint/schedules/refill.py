"""The walk shared by all schedules that divide a gap: advance from a kept state, saving on the way, to the one needed.

A gap of n steps starts at a saved state, its base. `split(n, slots, base)` says how far to advance from there before the
next save, n - 1 meaning straight to the end. A stack of indices is all the memory: no recursion, no tables, and the first
action of a chain of 10^9 steps comes at once.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from .actions import Action, Advance, Drop, Load, Reverse, Save

__all__ = ["Split", "along", "forward", "reverse"]

Split: TypeAlias = Callable[[int, int, int], int]


def along(indices: Iterable[int], last: int) -> Iterator[Action]:
    """The first sweep of a schedule that knows which states are to be left saved.

    Parameters
    ----------
    indices : iterable of int
        The states to save, ascending, 0 first.
    last : int
        Where the sweep ends, N - 1.

    Yields
    ------
    Action

    Examples
    --------
    >>> [tuple(action) for action in along([0, 4], 6)]
    [(0,), (0, 4), (4,), (4, 6)]
    """
    position = 0
    for index in indices:
        if position < index:
            yield Advance(position, index)
            position = index
        yield Save(index)
    if position < last:
        yield Advance(position, last)


def forward(steps: int, slots: int, split: Split) -> Iterator[Action]:
    """The first sweep: fill the whole chain as one gap.

    Parameters
    ----------
    steps : int
        N.
    slots : int
        Limit on saved states.
    split : callable
        ``split(n, free, base) -> int``.

    Yields
    ------
    Action

    Examples
    --------
    >>> from checkpoint.schedules.binomial import split
    >>> [tuple(action) for action in forward(10, 3, split)]
    [(0,), (0, 4), (4,), (4, 7), (7,), (7, 9)]
    """
    if not steps:
        return
    base, last = 0, steps - 1
    yield Save(0)
    while base < last:
        stop = base + split(steps - base, slots, base)
        yield Advance(base, stop)
        base = stop
        if base < last:
            slots -= 1
            yield Save(base)


def reverse(steps: int, saved: Sequence[int], slots: int, split: Split) -> Iterator[Action]:
    """The reverse sweep: refill each gap from its base, using the places that are free at that moment.

    Parameters
    ----------
    steps : int
        N.
    saved : sequence of int
        Saved states, ascending, 0 first.
    slots : int
        Limit on saved states.
    split : callable
        ``split(n, free, base) -> int``, where `free` counts the place of the base.

    Yields
    ------
    Action

    Examples
    --------
    >>> from checkpoint.schedules.binomial import split
    >>> [type(action).__name__ for action in reverse(3, [0], 1, split)][:5]
    ['Reverse', 'Load', 'Advance', 'Reverse', 'Load']
    """
    if not steps:
        return
    kept = list(saved)
    del saved
    last = steps - 1
    if kept[-1] == last:
        kept.pop()
        yield Drop(last)
    yield Reverse(last)
    while last:
        last -= 1
        base = kept[-1]
        yield Load(base)
        while base < last:
            stop = base + split(last - base + 1, slots - len(kept) + 1, base)
            yield Advance(base, stop)
            base = stop
            if base < last:
                kept.append(base)
                yield Save(base)
        if kept[-1] == last:  # its last use: free the place before the pull, which needs memory of its own
            kept.pop()
            yield Drop(last)
        yield Reverse(last)
