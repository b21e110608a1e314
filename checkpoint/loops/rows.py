"""What the steps of a chain put out, and what they give to the gradient of its inputs: a row for each step."""

from __future__ import annotations

from typing import Any

import numpy as np
import optree

from dualad.core.dispatch import dtype_of
from dualad.core.traced import Traced
from dualad.forward.seeding import FLOAT, pack_leaf

from .spec import described

__all__ = ["Rows", "Stacked"]


class Stacked:
    """Rows of pytrees, stacked on a leading axis; plain rows are written into arrays of the full length at once."""

    def __init__(self, count: int | None) -> None:
        self.count, self.length = count, 0
        self.structure: optree.PyTreeSpec | None = None
        self.columns: list[Any] | None = None

    def add(self, k: int, tree: Any) -> None:
        """Take the row of step k."""
        leaves, structure = optree.tree_flatten(tree)
        self.structure = structure if self.structure is None else self.structure
        if structure != self.structure:
            raise TypeError(f"chain: step {k} put out the structure {structure}, the first step {self.structure}")
        self.put(k, [pack_leaf(leaf) for leaf in leaves])

    def put(self, k: int, leaves: list[Any]) -> None:
        """Take the leaves of the row of step k. The dtype of a column is what NumPy promotes its rows to."""
        if self.columns is None:
            self.columns = [
                [] if self.count is None or isinstance(leaf, Traced) else np.empty((self.count, *np.shape(leaf)), self.dtype(k, i, leaf))
                for i, leaf in enumerate(leaves)
            ]
        for i, leaf in enumerate(leaves):
            column = self.columns[i]
            shape = np.shape(column[0]) if k else np.shape(leaf)
            if np.shape(leaf) != shape:
                raise TypeError(f"chain: step {k} put out an array of shape {np.shape(leaf)} as leaf {i}, the first step one of {shape}")
            dtype = self.dtype(k, i, leaf)
            if isinstance(leaf, Traced) and type(column) is not list:
                self.columns[i] = column = list(column[:k])
            if type(column) is list:
                column.append(np.copy(leaf)[()])
                continue
            if dtype is not column.dtype and (common := np.result_type(column.dtype, dtype)) != column.dtype:
                self.columns[i] = column = column.astype(common)
            column[k] = leaf
        self.length = k + 1

    def dtype(self, k: int, i: int, leaf: Any) -> np.dtype:
        """Return the dtype of an out; one that is no number or array of numbers raises."""
        if type(leaf) is float:
            return FLOAT
        dtype = dtype_of(leaf) if issubclass(type(leaf), int | complex | np.ndarray | np.generic | Traced) else None
        if dtype is None or dtype.kind not in "biufc":
            raise TypeError(
                f"chain: step {k} put out {described(leaf)} as leaf {i}: outs are stacked on a leading axis, so they must be numbers or "
                f"arrays of numbers, of one shape at every step"
            )
        return dtype

    def arrays(self) -> list[Any]:
        """Return the stacked leaves."""
        return [np.stack(column) if type(column) is list else column for column in self.columns or ()]

    def tree(self, leaves: list[Any]) -> Any:
        """Return the tree of stacked leaves."""
        if self.structure is None:
            raise ValueError("chain: outputs=True of a chain that made no step: what a step would put out is not known")
        return optree.tree_unflatten(self.structure, leaves)


class Rows:
    """The cotangent of an array that is used row by row."""

    def __init__(self, like: Any) -> None:
        self.like = like
        self.buffer: np.ndarray | None = None
        self.rows: dict[int, Traced] = {}

    def put(self, k: int, share: Any) -> None:
        """Write the share of row k, None where it is zero."""
        if share is None:
            return
        if isinstance(share, Traced):
            self.rows[k] = share
            return
        if self.buffer is None:
            self.buffer = np.zeros(np.shape(self.like), self.like.dtype)
        self.buffer[k] = share

    def array(self) -> Any:
        """Return the whole cotangent, None where it is zero."""
        if not self.rows:
            return self.buffer
        zero = np.zeros_like(next(iter(self.rows.values())))
        plain = [zero if self.buffer is None else zero + self.buffer[k] for k in range(np.shape(self.like)[0])]
        return np.stack([self.rows.get(k, plain[k]) for k in range(len(plain))])
