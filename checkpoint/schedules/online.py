"""A given number of saved states, for a chain whose length need not be known."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from .actions import Action, Advance, Drop, Save
from .binomial import SLOTS_HINT, beta
from .schedule import Slotted


@dataclass(frozen=True)
class Online(Slotted):
    """Keep `slots` states well spread while the chain goes on, without knowing where it ends.

    States are chosen as follows. As long as r = 2 is enough, that is for N up to beta(slots, 2) + 1 =
    (slots + 1)(slots + 2)/2 + 1, gaps of slots + 1, slots, ..., 2 steps are filled up one after another, the first one
    first: the number of advances is the optimum of Revolve at every such N (as in Algorithm I of Stumm & Walther 2010,
    SISC 32:836). Then states have levels (Wang, Moin & Iaccarino 2009, SISC 31:2549). A new one takes, at level 0, the
    place of the newest that is older than one of a higher level; if there is none, it takes the place of the newest, one
    level higher. That goes on for any N. In the reverse sweep gaps are refilled optimally with the slots that are
    free (Griewank & Walther 2000). In all, less than 1.4 times the advances of Revolve(slots), for slots <= 21 and
    N <= 4000.

    While the length is unknown, the newest state is held by the driver, as the working state is, and not in a slot.

    Parameters
    ----------
    slots : most states saved at the same time, x_0 included, the working state not; at least 1.

    Raises
    ------
    ValueError, TypeError
        If `slots` is less than 1 or not an integer.

    See Also
    --------
    CTZ : if the number of saved states may grow with log2 of the length.
    Revolve : if the length is known.

    Examples
    --------
    >>> from checkpoint.schedules.actions import Save
    >>> [action.index for action in Online(4).forward(15) if type(action) is Save]
    [0, 5, 9, 12]
    """

    slots: int

    def __post_init__(self) -> None:
        self._check("slots", 1, SLOTS_HINT)

    def forward(self, steps: int | None) -> Iterator[Action]:
        return self._endless() if steps is None else super().forward(steps)

    def _first(self, steps: int) -> Iterator[int]:
        """What the rule leaves saved in the end; x_0 comes at once."""
        if not steps:
            return
        yield 0
        saved = []
        for i, evicted in zip(range(1, steps - 1), evictions(self.slots), strict=False):
            saved.append(i)
            if evicted is not None:
                saved.remove(evicted)
        yield from saved

    def _endless(self) -> Iterator[Action]:
        """Whether x_i is saved is decided when it is known that x_{i+1} is not the end."""
        yield Save(0)
        yield Advance(0, 1)
        yield Advance(1, 2)
        for i, evicted in zip(count(1), evictions(self.slots), strict=False):
            if evicted != i:
                if evicted is not None:
                    yield Drop(evicted)
                yield Save(i)
            yield Advance(i + 1, i + 2)


def evictions(slots: int) -> Iterator[int | None]:
    """Yield for x_1, x_2, ... which saved state makes room: an index, i itself (x_i is not saved) or None (a slot is free)."""
    yield from [None] * (slots - 1)
    if slots == 1:
        yield from count(1)
    saved = list(range(slots))
    j = 1
    for i in range(slots, beta(slots, 2)):
        saved.append(i)
        while j < slots and saved[j + 1] - saved[j - 1] > slots - j + 2:  # the gap that ends at saved[j] is full
            j += 1
        yield saved.pop(j)
    levels = [0] + [1] * (slots - 1)  # that of x_0 is never looked at
    for i in count(beta(slots, 2)):
        j = last = slots - 1
        highest = -1
        while j and levels[j] >= highest:
            highest = levels[j]
            j -= 1
        levels.append(0 if j else levels[last] + 1)
        del levels[j or last]
        saved.append(i)
        yield saved.pop(j or last)
