"""Stats: counts of a sweep."""

from dataclasses import dataclass
from typing import Any

from dualad.support.byte_sizes import format_bytes

from ..support.tables import html, markdown


@dataclass
class Stats:
    """Counts of one sweep. Give an instance as ``stats=`` and it is filled in place.

    A chain on plain values or in forward mode fills in what it has: steps, advances, seconds and the reason.

    Attributes
    ----------
    steps : length N of the chain.
    advances : plain calls of the step, all of them: the first sweep to x_N and every recomputation. The one evaluation inside each pull is
        not among them.
    pulls : steps reversed.
    saves, loads : states copied into, and out of, the storage.
    peak_states, peak_bytes : the most that was saved at one moment.
    seconds : time spent inside the sweep, steps and pulls included.
    schedule : the schedule that was used.
    reason : why it was used, if it was chosen automatically.

    Examples
    --------
    >>> print(Stats(steps=16, advances=29, pulls=16, saves=11, loads=16, peak_states=5, peak_bytes=40))
    16 steps: 29 advances (1.81 a step), 16 pulls; 11 saves, 16 loads, at most 5 states (40 B) saved; 0 s
    """

    steps: int = 0
    advances: int = 0
    pulls: int = 0
    saves: int = 0
    loads: int = 0
    peak_states: int = 0
    peak_bytes: int = 0
    seconds: float = 0.0
    schedule: str = ""
    reason: str = ""

    def __str__(self) -> str:
        each = f" ({self.advances / self.steps:.3g} a step)" if self.steps else ""
        text = (
            f"{self.steps} steps: {self.advances} advances{each}, {self.pulls} pulls; {self.saves} saves, "
            f"{self.loads} loads, at most {self.peak_states} states ({format_bytes(self.peak_bytes)}) saved; "
            f"{self.seconds:.3g} s"
        )
        if self.schedule:
            text += f"; {self.schedule}"
        return f"{text}: {self.reason}" if self.reason else text

    def _cells(self) -> list[tuple[str, str]]:
        numbers = {name: f"{getattr(self, name):,}" for name in ("steps", "advances", "pulls", "saves", "loads")}
        peak = f"{self.peak_states:,} ({format_bytes(self.peak_bytes)})"
        known = {**numbers, "most saved states": peak, "seconds": f"{self.seconds:.3g}", "schedule": self.schedule, "reason": self.reason}
        return [("sweep", ""), *((name, said) for name, said in known.items() if said)]

    def _repr_html_(self) -> str:
        return html(self._cells())

    def _repr_markdown_(self) -> str:
        return markdown(self._cells())


def filled_stats(given: Stats | None, where: str) -> Stats:
    """Return the stats to fill: those given, or fresh ones."""
    if given is not None and not isinstance(given, Stats):
        raise TypeError(f"{where}: stats must be an instance that is filled in place, stats = Stats(), got {given!r}")
    return Stats() if given is None else given


def fill(stats: Stats, **counts: Any) -> None:
    """Fill stats, which may hold those of another call."""
    vars(stats).update(EMPTY, **counts)


EMPTY = vars(Stats()).copy()
