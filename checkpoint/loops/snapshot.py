"""Results are compared: a step that is evaluated again must give the state that it gave before, or the gradient is wrong.

Whatever the cause (a generator, a counter, data that changed between the sweeps, an array that two places share), it shows in the
result. So causes are not guessed at: when step k is recorded in the reverse sweep, what it gives is compared with x_{k+1}, which
was the working state a moment ago.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import ref

import numpy as np

from dualad.core.dispatch import primal
from dualad.core.levels import Handle
from dualad.support.equality import nearly_same, same_bits

from ..support.costs import SNAPSHOT_ELEMENTS

__all__ = ["Snapshot"]


class Snapshot:
    """What is compared of x_index with what its step gives when it is evaluated again, up to rounding: 1024 elements of large arrays,
    others at each step (less than 1 % of a step and no memory); all of the final state, where it is still alive. With `exact` all
    elements are held, and compared bit for bit."""

    __slots__ = ("alive", "exact", "index", "known")

    def __init__(self, index: int, leaves: Sequence[Any], exact: bool = False, final: bool = False) -> None:
        self.index, self.exact = index, exact
        self.known: list[Any] = []
        known = self.known
        for leaf in leaves:  # no comprehension: this is done at every step
            known.append(leaf if type(leaf) is float else self.held(leaf))
        self.alive = [ref(leaf) if type(leaf) is np.ndarray else None for leaf in leaves] if final and not exact else None

    def held(self, leaf: Any) -> Any:
        leaf = leaf if type(leaf) is np.ndarray else primal(leaf)
        if not issubclass(type(leaf), np.ndarray):
            return leaf
        if self.exact or leaf.dtype.kind not in "fc":
            return leaf.copy()
        return leaf if leaf.size <= SNAPSHOT_ELEMENTS else elements(leaf, self.index)

    def compare(self, index: int, leaves: Sequence[Any], path: Callable[[int], str] | None) -> None:
        """Raise where a leaf of x_index, evaluated again, is another one; `path` returns its name, and is None where none is compared."""
        i = None if path is None else self.differing(index, leaves)
        if i is not None:
            raise RuntimeError(
                f"chain: step {index - 1}, evaluated again from the same state, returned another x_{index} (in {path(i)}), so "  # type: ignore[misc]
                f"the gradient would be wrong. Usual causes: the step draws random numbers, counts its calls or reads a clock (make "
                f"what it needs from k); something that it reads besides its arguments has changed since the first sweep, such as a "
                f"global, an attribute or an array that it closes over (pass it as a parameter); it writes into an array that it "
                f"also keeps elsewhere. check=True names the first step that differs"
            )

    def differing(self, index: int, leaves: Sequence[Any]) -> int | None:
        """Return the number of the first leaf that differs from x_index, None where none does or this is another state."""
        if self.index != index:
            return None
        alive = self.alive
        for i, (known, leaf) in enumerate(zip(self.known, leaves, strict=True)):
            given = leaf.primal if isinstance(leaf, Handle) else leaf
            if type(given) is float and given == known:
                continue
            if type(given) is not np.ndarray or (given is not leaf and leaf.alias is not None):
                given = primal(leaf)  # brought up to date
            if isinstance(given, Handle):  # of a function that jit traces, whose two traces are compared
                continue
            if self.exact:
                same = same_bits(known, given)
            elif alive is not None and (held := alive[i]) is not None and (whole := held()) is not None:
                same = nearly_same(whole, given)
            else:
                same = nearly_same(known, elements(given, index) if np.shape(known) != np.shape(given) else given)
            if not same:
                return i
        return None


def elements(array: np.ndarray, index: int) -> np.ndarray:
    """Return those elements of an array that are compared at a step: copies, unless it is small."""
    if array.size <= SNAPSHOT_ELEMENTS:
        return array
    every = -(-array.size // SNAPSHOT_ELEMENTS)
    flat = array.reshape(-1) if array.flags.c_contiguous else array.flat
    return flat[index % every :: every].copy()
