"""The binomial schedule over two storages: the busiest places in memory, the others on disk."""

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from .binomial import split
from .schedule import Slotted


@dataclass(frozen=True)
class Tiered(Slotted):
    """Revolve with some of the saved states in memory and the others on disk, chosen to move the fewest to and from disk.

    The advances are those of Revolve(memory_slots + disk_slots). Its saved states are a stack whose places are used very
    unequally, and how often each is written and read follows from the length of the chain; the `memory_slots` busiest
    places are in memory (Stumm & Walther 2009, SIAM J. Sci. Comput. 31:1946).

    ``schedule=Tiered(4, 20)`` is all that is needed: the schedule gives the places that belong on disk (`on_disk`), and the
    sweep opens the storage accordingly. ``storage=`` sets one of the two tiers (``Disk("/scratch")``, ``Memory(compress="zlib")``);
    the other has its default.

    Parameters
    ----------
    memory_slots, disk_slots : most states saved in memory, the working state not counted, and on disk; at least 1, and 0.

    Raises
    ------
    ValueError, TypeError
        If one is less than that or not an integer.

    See Also
    --------
    checkpoint.schedules.tiered.traffic : reads and writes of each place.

    Examples
    --------
    >>> Tiered(2, 2).on_disk(30)
    frozenset({0, 1})
    """

    memory_slots: int
    disk_slots: int

    def __post_init__(self) -> None:
        for argument, least in (("memory_slots", 1), ("disk_slots", 0)):
            self._check(argument, least, "give the number of states that may be there at the same time")

    @property
    def slots(self) -> int:  # type: ignore[override]
        return self.memory_slots + self.disk_slots

    def on_disk(self, steps: int | None) -> frozenset[int]:
        """The places with the least traffic, if there are more than fit in memory; see `Schedule.on_disk`."""
        steps = self._steps(steps)
        places = range(self.limit(steps))
        use = traffic(steps, len(places))
        idle_first = sorted(places, key=lambda place: (use[place].total, place))
        return frozenset(idle_first[: max(0, len(places) - self.memory_slots)])


class Traffic(NamedTuple):
    """How often states are saved to, and loaded from, one place of the stack of saved states."""

    writes: int
    reads: int

    @property
    def total(self) -> int:
        return self.writes + self.reads


def traffic(steps: int, slots: int) -> list[Traffic]:
    """Return the writes and reads of each place under the binomial schedule, that of x_0 first, without running it.
    A gap splits into two shorter ones; gaps of equal length are counted together, longest first."""
    use = []
    gaps = Counter({steps: 1})
    writes = 1
    for free in range(slots, 0, -1):
        reads = 0
        inner: Counter[int] = Counter()
        while gaps:
            n = max(gaps)
            times = gaps.pop(n)
            if n < 2:
                continue
            if free == 1:  # one step less after every read
                reads += (n - 1) * times
                continue
            stop = split(n, free)
            reads += times
            gaps[stop] += times
            if n - stop > 1:
                inner[n - stop] += times
        use.append(Traffic(writes, reads))
        writes, gaps = sum(inner.values()), inner
    return use
