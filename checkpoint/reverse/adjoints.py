"""The adjoints of one sweep over a tape, apart from the tape: one recording serves any number of cotangents."""

from __future__ import annotations

from typing import Any

import numpy as np

from dualad.forward.directions import Directions

__all__ = ["ZERO", "Adjoints"]

ZERO = 0.0  # this very object stands for an adjoint that nothing was added to


NUMBER = (float, np.generic)


class Adjoints:
    """The adjoints of one sweep, by place on the tape; `owned` are the places whose buffer has no other reference.

    `entries` begins with those that the tape references; a share that reaches another one adds it, always before the sweep gets there."""

    __slots__ = ("entries", "nan_safe", "owned", "values")

    def __init__(self, entries: list[Any], nan_safe: bool = False) -> None:
        self.values: list[Any] = [ZERO] * len(entries)
        self.entries = entries
        self.owned: set[int] = set()
        self.nan_safe = nan_safe

    def place(self, node: Any) -> int:
        """Return the place of a node on the tape, where its entry is known from now on."""
        if type(node) is int:
            return node
        self.entries[node.place] = node
        return node.place

    def add(self, node: Any, share: Any, fresh: bool) -> int:
        """Add a share to the adjoint of a node and return its place; `fresh` tells that the share's buffer has no other reference."""
        k, values, owned = self.place(node), self.values, self.owned
        now = values[k]
        if now is ZERO:
            values[k] = share
            if fresh and type(share) is np.ndarray:
                owned.add(k)
        elif k in owned and type(now) is np.ndarray is type(share) and share.shape == now.shape and share.dtype == now.dtype:
            np.add(now, share, now)
        else:
            values[k] = total = now + share
            owned.discard(k)
            if type(total) is np.ndarray:
                owned.add(k)
        return k

    def buffer(self, k: int, like: Any) -> Any:
        """Return the adjoint at a place as an array that may be written; None where it cannot be (`Directions`)."""
        now = self.values[k]
        if now is ZERO:
            now = np.zeros(like.shape, like.dtype)
        elif isinstance(now, Directions):
            return None
        elif k not in self.owned or issubclass(type(now), NUMBER):
            now = np.array(now) if issubclass(type(now), (*NUMBER, np.ndarray)) else np.copy(now)
        self.values[k] = now
        self.owned.add(k)
        return now
