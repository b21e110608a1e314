"""Sets of inputs, one for each element of an array: the algebra in which a program is read for its sparsity.

The sets stand in tables, as the rows of boolean sparse matrices; row 0 is the empty set. An array of sets is a list of parts, each an
array of row numbers in one table, and the set of an element is the union over the parts. So what moves elements is done to arrays of
integers, by NumPy's own views, and a union costs nothing until a reduction, or too many parts, ask for it.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from ..support.costs import MEMORY_BYTES, PATTERN_PARTS


class TooDense(ValueError):
    """A pattern has more entries than it is worth to write down."""


def scipy_sparse():
    """Return ``scipy.sparse``, or say what is missing."""
    try:
        from scipy import sparse
    except ImportError:
        raise ImportError("sparse derivatives are held by scipy.sparse, which is not installed: pip install 'dualad[scipy]'") from None
    return sparse


def identity_table(count):
    """Return the table of the sets of one input each."""
    return with_empty_row(scipy_sparse().eye_array(count, dtype=bool, format="csr"))


class Sets:
    """A set of inputs for each element of an array of this shape; `parts` are pairs of row numbers and their table."""

    __slots__ = ("parts", "shape")

    def __init__(self, shape, parts=()):
        self.shape, self.parts = tuple(shape), list(parts)

    def __repr__(self):
        return f"Sets(shape={self.shape}, parts={len(self.parts)})"

    def map(self, move, shape):
        """Return the sets where `move`, which rearranges elements of an array of integers, puts them."""
        return Sets(shape, [(move(rows), table) for rows, table in self.parts])

    def broadcast(self, shape):
        return self if self.shape == tuple(shape) else self.map(lambda rows: np.broadcast_to(rows, shape), shape)

    def where(self, mask, other=None):
        """Return the sets where the mask is true, those of `other` (none) where it is false."""
        return map_tables(self.shape, [self, other or Sets(self.shape)], lambda ours, theirs: np.where(mask, ours, theirs))

    def reduced(self, axes, keep=False):
        """Return the unions over axes, as one part; where asked for, axes of one element are kept."""
        axes = tuple(axis % len(self.shape) for axis in axes)
        if keep:
            shape = tuple(1 if axis in axes else n for axis, n in enumerate(self.shape))
            return self.reduced(axes).map(lambda rows: np.expand_dims(rows, axes), shape)
        shape = tuple(n for axis, n in enumerate(self.shape) if axis not in axes)
        if not self.parts or not all(self.shape):
            return Sets(shape)
        kept, rows = self.varying(self.parts), []
        for numbers, table in self.parts:
            own = self.varying([(numbers, table)])
            needed = [own[axis] if axis in axes else kept[axis] for axis in range(numbers.ndim)]
            numbers = numbers[tuple(slice(None) if wanted else slice(0, 1) for wanted in needed)]
            numbers = np.moveaxis(numbers, axes, range(-len(axes), 0)) if axes else numbers
            small = numbers.shape[: len(shape)]
            rows.append((numbers.reshape(math.prod(small), -1), table))
        numbers, table = unite_rows(rows)
        return Sets(shape, [(np.broadcast_to(numbers.reshape(small), shape), table)])

    def varying(self, parts):
        """Return for each axis whether the row numbers of some part differ along it."""
        return [any(rows.strides[axis] and rows.shape[axis] != 1 for rows, _ in parts) for axis in range(len(self.shape))]

    def total(self):
        """Return the union of all."""
        return self.reduced(tuple(range(len(self.shape))))

    def united(self):
        """Return the same sets in one part."""
        return self if len(self.parts) < 2 else self.reduced(())

    def matrix(self, columns):
        """Return the sets as the rows of a boolean sparse matrix, elements in C order."""
        if not self.parts:
            return scipy_sparse().csr_array((math.prod(self.shape), columns), dtype=bool)
        numbers, table = unite_rows([(np.reshape(numbers, (-1, 1)), table) for numbers, table in self.parts])
        refuse(int(np.diff(table.indptr)[numbers].sum()))
        return table[numbers]


def map_tables(shape, many, move):
    """Return the sets that `move` makes of the row numbers of several Sets, which are of one table at a time."""
    tables = {id(table): table for sets in many for _, table in sets.parts}
    parts = []
    for key, table in tables.items():
        columns = [[rows for rows, own in sets.parts if id(own) == key] for sets in many]
        for k in range(max(map(len, columns))):
            rows = [column[k] if k < len(column) else np.broadcast_to(0, sets.shape) for column, sets in zip(columns, many, strict=True)]
            parts.append((move(*rows), table))
    return Sets(shape, parts)


def union(shape, many):
    """Return the unions of several Sets, broadcast to a shape."""
    known: dict = {}
    for sets in many:
        for rows, table in sets.broadcast(shape).parts:
            memory = rows.__array_interface__
            known.setdefault((memory["data"][0], rows.strides, id(table)), (rows, table))
    result = Sets(shape, known.values())
    return result.united() if len(result.parts) > PATTERN_PARTS else result


def unite_rows(rows):
    """Return the unions of the table rows that (m, k) arrays of numbers name: m row numbers, and their table."""
    sparse = scipy_sparse()
    count, columns = len(rows[0][0]), rows[0][1].shape[1]
    by_table: dict = {}
    for numbers, table in rows:
        by_table.setdefault(id(table), (table, []))[1].append(numbers)
    joined = [(table, parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)) for table, parts in by_table.values()]
    lengths = [np.diff(table.indptr) for table, _ in joined]
    entries = sum(int(length[numbers].sum()) for length, (_, numbers) in zip(lengths, joined, strict=True))
    inverse = None
    if entries > PATTERN_PARTS * sum(numbers.size for _, numbers in joined):  # it is worth to find those that are equal, or full
        joined, inverse, count = distinct(joined, lengths, columns)
        entries = sum(int(length[numbers].sum()) for length, (_, numbers) in zip(lengths, joined, strict=True))
    refuse(min(entries, count * columns))
    total = None
    for table, numbers in joined:
        width = numbers.shape[1]
        chosen = sparse.csr_array(
            (np.ones(numbers.size, bool), np.ravel(numbers), np.arange(0, numbers.size + 1, width) if width else np.zeros(count + 1, int)),
            shape=(count, table.shape[0]),
        )
        product = chosen @ table
        total = product if total is None else total + product
    return (np.arange(1, count + 1, dtype=np.intp) if inverse is None else inverse + 1), with_empty_row(total)


def refuse(entries):
    """Raise where there are too many entries."""
    if 8 * entries > MEMORY_BYTES:
        raise TooDense(f"the pattern would have about {entries:.1e} entries")


def distinct(joined, lengths, columns):
    """Return the different rows, where each is, and how many; a full set takes all others in."""
    numbers = np.concatenate([own for _, own in joined], axis=1)
    starts = np.cumsum([0, *(own.shape[1] for _, own in joined)])
    for (a, b), length in zip(pairwise(starts), lengths, strict=True):
        full = length[numbers[:, a:b]] == columns
        found = np.flatnonzero(full.any(axis=1))
        if found.size:
            keep = numbers[found, a + full[found].argmax(axis=1)]
            numbers[found] = 0
            numbers[found, a] = keep
    for a, b in pairwise(starts):
        numbers[:, a:b].sort(axis=1)
    different, inverse = np.unique(numbers, axis=0, return_inverse=True)
    tables = (table for table, _ in joined)
    return (
        [(table, different[:, a:b]) for table, a, b in zip(tables, starts, starts[1:], strict=False)],
        inverse.ravel(),
        len(different),
    )


def with_empty_row(matrix):
    """Return a matrix below an empty row."""
    indptr = np.concatenate([matrix.indptr[:1], matrix.indptr])
    return scipy_sparse().csr_array((matrix.data, matrix.indices, indptr), shape=(matrix.shape[0] + 1, matrix.shape[1]))
