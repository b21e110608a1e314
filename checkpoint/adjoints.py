"""The adjoints of one sweep over a tape, apart from the tape: one recording serves any number of cotangents."""

from __future__ import annotations

import numpy as np

from dualad.batch import Batch

__all__ = ["ZERO", "Adjoints"]

ZERO = 0.0  # this very object stands for an adjoint that nothing was added to


class Adjoints:
    """The adjoints of one sweep; `owned` are the nodes whose adjoint buffer nobody else holds."""

    __slots__ = ("nan_safe", "owned", "values")

    def __init__(self, count, nan_safe=False):
        self.values = [ZERO] * count
        self.owned = set()
        self.nan_safe = nan_safe

    def add(self, node, share, fresh):
        """Add a share to the adjoint of a node; `fresh` tells that nobody else holds the share's buffer."""
        values, owned = self.values, self.owned
        now = values[node]
        if now is ZERO:
            values[node] = share
            if fresh and type(share) is np.ndarray:
                owned.add(node)
        elif node in owned and type(now) is np.ndarray is type(share) and share.shape == now.shape and share.dtype == now.dtype:
            np.add(now, share, now)
        else:
            values[node] = total = now + share
            owned.discard(node)
            if type(total) is np.ndarray:
                owned.add(node)

    def buffer(self, node, like):
        """Return the adjoint of a node as an array that may be written; None where it cannot be (a Batch)."""
        now = self.values[node]
        if now is ZERO:
            now = np.zeros(like.shape, like.dtype)
        elif isinstance(now, Batch):
            return None
        elif node not in self.owned:
            now = np.array(now) if isinstance(now, float | np.generic | np.ndarray) else np.copy(now)
        self.values[node] = now
        self.owned.add(node)
        return now
