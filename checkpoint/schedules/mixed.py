"""Restart states and recorded steps in the same slots."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..support.costs import TABLE_BYTES, TABLE_STEPS
from ..support.kept import kept_within
from .actions import Action, Advance, Drop, Load, Record, Reverse, Save
from .schedule import Schedule

RECORD = 0  # the choice of a table entry that is no number of steps


@dataclass(frozen=True)
class Mixed(Schedule):
    """Reverse a chain of known length with the fewest evaluations, where a slot holds a state or a recorded step.

    A step that is recorded in the first sweep is pulled back without being evaluated again, but the chain cannot restart
    from a record. If both take about as much memory, the best mixture saves evaluations over Revolve (Maddison 2024, "Step-based
    checkpointing with high-level algorithmic differentiation", J. Comput. Sci. 82:102405): m(n, s) of them, where m(n, s) = n
    for n <= s + 1, m(n, 1) = n (n + 1) / 2 - 1, and otherwise the least of 1 + m(n - 1, s - 1), which records the first step, and
    of i + m(i, s) + m(n - i, s - 1), which saves the first state. That is A + N, as plain advances and pulls are counted here.

    `chain` records its steps itself; `sweep.reverse` must be given ``record``. Unlike in the other schedules x_0 is not always
    saved: the sweep holds it anyway.

    Parameters
    ----------
    slots : most states and records held at the same time, the working state not counted; at least 1.

    Raises
    ------
    ValueError, TypeError
        If `slots` is less than 1 or not an integer.

    Examples
    --------
    >>> for action in Mixed(2).forward(5):
    ...     print(action)
    Save(index=0)
    Advance(start=0, stop=3)
    Record(index=3)
    >>> from checkpoint.schedules.machine import simulate
    >>> simulate(Mixed(2), 10).advances + 10, simulate(Mixed(3), 10).advances + 10
    (26, 19)
    """

    slots: int
    records: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self._check("slots", 1, "give the number of states and records that fit")

    def forward(self, steps: int | None) -> Iterator[Action]:
        return descend(self._table(self._steps(steps)), self.slots, 0, steps or 0, [])

    def reverse(self, steps: int, saved: Sequence[int]) -> Iterator[Action]:
        return reverse_part(self._table(self._steps(steps)), self.slots, steps, list(saved))

    def limit(self, steps: int) -> int:
        """`slots`, or fewer for a short chain; see `Schedule.limit`."""
        return min(self.slots, max(self._steps(steps) - 1, 0))

    def _table(self, steps: int) -> np.ndarray:
        if steps > TABLE_STEPS:
            raise ValueError(f"Mixed: steps must be at most {TABLE_STEPS}, because its table covers all shorter chains, got {steps}")
        return choices_of(steps, min(self.slots, max(steps - 1, 1)))


@kept_within(TABLE_BYTES)
def choices_of(steps: int, slots: int) -> np.ndarray:
    """What to do first with n steps left and s slots: `RECORD`, or save and advance so many steps."""
    totals = np.zeros(steps + 1, np.int64)
    choices = np.zeros((slots + 1, steps + 1), np.int16)
    for s in range(1, slots + 1):
        fewer, totals = totals, np.arange(steps + 1)  # with s - 1 slots, and with s
        for n in range(min(s + 1, steps) + 1, steps + 1):
            if s == 1:
                totals[n], choices[s, n] = n * (n + 1) // 2 - 1, n - 1
                continue
            found = np.arange(2, n) + totals[2:n] + fewer[n - 2 : 0 : -1]
            best = int(np.argmin(found))
            totals[n], choices[s, n] = min((found[best], best + 2), (1 + fewer[n - 1], RECORD))
    return choices


def descend(table: np.ndarray, slots: int, at: int, stop: int, units: list[tuple[type[Action], int]]) -> Iterator[Action]:
    """From the working state x_at to x_{stop - 1}, filling slots on the way; `units` is the stack of what they hold."""
    while at < stop - 1:
        reused = units[-1:] == [(Save, at)]
        choice = int(table[min(slots - len(units) + reused, len(table) - 1), stop - at])
        if choice == RECORD:
            yield Record(at)
            units.append((Record, at))
            at += 1
            continue
        if not reused:
            yield Save(at)
            units.append((Save, at))
        yield Advance(at, at + choice)
        at += choice


def reverse_part(table: np.ndarray, slots: int, steps: int, saved: list[int]) -> Iterator[Action]:
    units: list[tuple[type[Action], int]] = []
    for _ in descend(table, slots, 0, steps, units):  # what the first sweep left
        pass
    if saved != [k for kind, k in units if kind is Save]:
        raise ValueError(f"Mixed: saved must be what forward left saved, got {saved}")
    for k in reversed(range(steps)):
        if k + 1 < steps:
            kind, at = units[-1]
            if kind is Record:
                units.pop()
            else:
                yield Load(at)
                if at == k or table[min(slots - len(units) + 1, len(table) - 1), k + 1 - at] == RECORD:
                    yield Drop(at)
                    units.pop()
                yield from descend(table, slots, at, k + 1, units)
        yield Reverse(k)
