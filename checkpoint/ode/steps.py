"""The steps that SciPy's solver accepts, on plain numbers, and which of them hold the times that are asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..support.costs import LEAST_ROWS, ROWS_PER_TIME

__all__ = ["Accepted", "accepted", "runs"]


@dataclass(frozen=True)
class Accepted:
    """What SciPy found: its result, and the times t_0 < ... < t_N (or falling) between its steps."""

    result: Any
    times: np.ndarray

    def step_of(self, times: np.ndarray) -> np.ndarray:
        """Return the step that each time is in; one between two steps is in the first."""
        sign = 1.0 if self.times[-1] >= self.times[0] else -1.0
        found = np.searchsorted(sign * self.times[1:], sign * times, side="left")
        return np.minimum(found, max(len(self.times) - 2, 0))


def accepted(solver: Any, fun: Any, span: tuple, y0: np.ndarray, options: dict[str, Any]) -> Accepted:
    """Return what SciPy's `solve_ivp` finds by a solver, and the steps that this took."""
    from scipy import integrate

    times: list[float] = []

    class Noted(solver):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            times.append(self.t)

        def step(self) -> Any:
            message = super().step()
            if self.status != "failed":
                times.append(self.t)
            return message

    result = integrate.solve_ivp(fun, span, y0, method=Noted, **options)
    return Accepted(result, np.array(times, float))


def runs(counts: list[int], alone: set[int]) -> list[tuple[int, int]]:
    """Return ranges of steps, of which each is one chain: rows for the times in a step are alike in all steps of one.

    `counts` says how many times there are in each step; the steps in `alone` are a range each.
    """
    found: list[tuple[int, int]] = []
    start = 0
    while start < len(counts):
        stop, total, most = start, 0, 0
        while stop < len(counts) and not (stop in alone and stop > start):
            total, most = total + counts[stop], max(most, counts[stop])
            if stop > start and (stop + 1 - start) * most > ROWS_PER_TIME * total + LEAST_ROWS:
                break
            stop += 1
            if stop - 1 in alone:
                break
        found.append((start, stop))
        start = stop
    return found
