"""A given number of saved states, for a chain whose length need not be known."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from ..actions import Action, Advance, Drop, Save
from ..checks import whole_number
from . import refill
from .binomial import SLOTS_HINT, beta, split
from .schedule import Schedule

__all__ = ["Online"]


@dataclass(frozen=True)
class Online(Schedule):
    """Keep `slots` states well spread while the chain goes on, without knowing where it ends.

    The places are chosen like this. As long as r = 2 is enough, that is for N up to beta(slots, 2) + 1 =
    (slots + 1)(slots + 2)/2 + 1, gaps of slots + 1, slots, ..., 2 steps are filled up one after another, the first one
    first: the number of advances is the optimum of Revolve at every such N (as in Algorithm I of Stumm & Walther 2010,
    SISC 32:836). Then states have levels (Wang, Moin & Iaccarino 2009, SISC 31:2549). A new one takes, at level 0, the
    place of the newest that is older than one of a higher level; if there is none, it takes the place of the newest, one
    level higher. That goes on for any N. In the reverse sweep gaps are refilled in the best way for the slots that are
    free (Griewank & Walther 2000). Altogether less than 1.4 times the advances of Revolve(slots), for slots <= 21 and
    N <= 4000.

    While the length is unknown, the newest state is held by the driver, as the working state is, and not in a slot.

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
    CTZ : if the number of saved states may grow with log2 of the length.
    Revolve : if the length is known.

    Examples
    --------
    >>> from checkpoint.actions import Save
    >>> [action.index for action in Online(4).forward(15) if type(action) is Save]
    [0, 5, 9, 12]
    """

    slots: int

    def __post_init__(self) -> None:
        slots = whole_number(self.slots, where="Online", argument="slots", least=1, hint=SLOTS_HINT)
        object.__setattr__(self, "slots", slots)

    def forward(self, steps: int | None) -> Iterator[Action]:
        """Actions of the first sweep; see `Schedule.forward`."""
        return _unknown(self.slots) if steps is None else _known(self._steps(steps), self.slots)

    def reverse(self, steps: int, saved: Sequence[int]) -> Iterator[Action]:
        """Actions of the reverse sweep; see `Schedule.reverse`."""
        steps = self._steps(steps)
        return refill.reverse(steps, self._saved(steps, saved), self.slots, split)

    def limit(self, steps: int) -> int:
        """`slots`, or fewer for a short chain; see `Schedule.limit`."""
        return min(self.slots, max(self._steps(steps) - 1, 1) if steps else 0)


def evictions(slots: int) -> Iterator[int | None]:
    """What makes room for x_1, x_2, ..., one after another: never x_0.

    Parameters
    ----------
    slots : int
        S >= 1.

    Yields
    ------
    int or None
        For x_i: the index of a saved state, i itself if x_i is not to be saved, None if there is a free slot.

    Examples
    --------
    >>> from itertools import islice
    >>> list(islice(evictions(3), 15))
    [None, None, 1, 2, 3, 5, 6, 7, 8, 9, 8, 4, 12, 11, 14]
    """
    yield from [None] * (slots - 1)
    if slots == 1:
        yield from count(1)
    kept = list(range(slots))
    j = 1
    for i in range(slots, beta(slots, 2)):  # gap j - 1 ends at kept[j]; a later gap has one step
        while j < slots and (kept + [i])[j + 1] - kept[j - 1] > slots - j + 2:
            j += 1
        if j == slots:
            yield i
        else:
            kept.append(i)
            yield kept.pop(j)

    levels = [slots + i] + [1] * (slots - 1)
    ...
