"""Optimal checkpointing for a known length and a given number of saved states."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import isfinite
from typing import NamedTuple

import numpy as np

from ..support.costs import TABLE_BYTES, TABLE_STEPS
from ..support.kept import kept_within
from . import binomial
from .schedule import Slotted, Split


@dataclass(frozen=True)
class Revolve(Slotted):
    """Reverse a chain of known length with the fewest advances that `slots` saved states allow.

    The actions follow from the closed form of Algorithm 799 (Griewank & Walther 2000, ACM TOMS 26:19), one at a time:
    A = t(N, S) = r N - C(S + r, r - 1) plain advances, with C(S + r - 1, S) < N <= C(S + r, S).

    Parameters
    ----------
    slots : most states saved at the same time, x_0 included, the working state not; at least 1.
    costs : what each step costs, in seconds or any other unit, if that is not the same for all: the chain is then reversed with advances of
        the least total cost, found by dynamic programming. As many as there are steps, at most 4096.

    Raises
    ------
    ValueError, TypeError
        If `slots` is less than 1 or not an integer, or `costs` are not finite numbers of at least 0.

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
    >>> list(Revolve(2, costs=[1, 1, 1, 9, 1, 1]).forward(6))[1]
    Advance(start=0, stop=4)
    """

    slots: int
    costs: Sequence[float] | None = None

    def __post_init__(self) -> None:
        self._check("slots", 1, binomial.SLOTS_HINT)
        if self.costs is not None:
            object.__setattr__(self, "costs", as_costs(self.costs))

    def __repr__(self) -> str:
        return f"Revolve(slots={self.slots})" if self.costs is None else f"Revolve(slots={self.slots}, costs=...)"

    def _split(self, steps: int) -> Split:
        if self.costs is None:
            return binomial.split
        if len(self.costs) != steps:
            raise ValueError(f"Revolve: costs has {len(self.costs)} entries, but the chain has {steps} steps; give one cost for each")
        return cheapest_split(tuple(self.costs), self.slots)


# --- steps of unequal cost, by dynamic programming ------------------------------------------------------------------------------------


class Table(NamedTuple):
    """Splits by slots (at least 2), length and base, the least cost of the whole chain, and the bytes of the splits."""

    splits: list[list[np.ndarray]]
    cost: float
    nbytes: int


def as_costs(costs: Sequence[float]) -> tuple[float, ...]:
    """Return the step costs as a tuple: finite, not negative, at most 4096."""
    try:
        values = tuple(float(cost) for cost in costs)
    except TypeError:
        raise TypeError(f"Revolve: costs must be a sequence of numbers, one for each step, got {costs!r}") from None
    if len(values) > TABLE_STEPS:
        raise ValueError(
            f"Revolve: costs for at most {TABLE_STEPS} steps can be used, got {len(values)}: the table grows with their "
            "square; leave costs out, or merge several steps into one"
        )
    for k, cost in enumerate(values):
        if not (isfinite(cost) and cost >= 0):
            raise ValueError(f"Revolve: costs must be finite and not negative, but costs[{k}] is {cost}")
    return values


def cheapest_split(costs: tuple[float, ...], slots: int) -> Split:
    """Return the split of a gap that is reversed at the least cost (Walther 1999, thesis, TU Dresden), in O(slots * N^2).
    With c(i, j) for steps i ... j-1: t(i, j, s) = min over i < m < j of c(i, m) + t(m, j, s-1) + t(i, m, s); m is monotone in i and j."""
    table = table_of_costs(costs, slots).splits

    def split(steps: int, slots: int, base: int) -> int:
        if slots == 1 or steps == 2:
            return steps - 1
        return int(table[min(slots, len(table) - 1)][steps][base])

    return split


@kept_within(TABLE_BYTES)
def table_of_costs(costs: tuple[float, ...], slots: int) -> Table:
    """Each array below belongs to one length n; its entry i is about steps i ... i+n-1."""
    steps = len(costs)
    upto = np.array([0.0, *accumulate(costs)])
    sums = np.array([0.0, *accumulate(upto)])  # for one slot: x_i, and from there to every other state
    start, stop = np.ogrid[: steps + 1, : steps + 1]
    fewer = np.where(start < stop, sums[stop] - sums[np.minimum(start + 1, steps)] - (stop - start - 1) * upto[start], 0.0)
    table: list[list[np.ndarray]] = [[], []]
    for _ in range(2, min(slots, max(steps - 1, 1)) + 1):
        cheapest = np.zeros_like(fewer)  # t(i, j, s); `fewer` is t(i, j, s - 1)
        splits = [np.zeros(0, np.int16), np.zeros(steps, np.int16)]
        for n in range(2, steps + 1):
            i = np.arange(steps - n + 1)
            if n == 2:
                splits.append(np.ones(len(i), np.int16))
                cheapest[i, i + 2] = upto[i + 1] - upto[i]
                continue
            shorter = splits[n - 1].astype(np.int64)
            low, high = shorter[:-1], shorter[1:] + 1  # offsets from i of the best m for (i, j - 1) and for (i + 1, j)
            number = np.minimum(high, n - 1) - low + 1
            first = np.cumsum(number) - number
            bases = np.repeat(i, number)
            m = bases + np.arange(len(bases)) + np.repeat(low - first, number)
            tried = upto[m] - upto[bases] + fewer[m, bases + n] + cheapest[bases, m]
            least = np.minimum.reduceat(tried, first)
            cheapest[i, i + n] = least
            at = np.flatnonzero(tried == np.repeat(least, number))
            winner = at[np.searchsorted(at, first)]
            splits.append((m[winner] - i).astype(np.int16))
        table.append(splits)
        fewer = cheapest
    return Table(table, float(fewer[0, steps]), (len(table) - 2) * steps * (steps + 1))
