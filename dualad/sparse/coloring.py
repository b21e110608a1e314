"""coloring: groups of columns (or rows) that one direction serves, and where each entry of a Jacobian is then found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..forward.chunks import one_hot
from ..support.callers import trimmed
from ..support.costs import CACHE_ELEMENTS, CHUNK_DIRECTIONS, COLORING_STEPS
from ..support.forks import cached_property
from .greedy import ORDERS, columns_colored, star_colored
from .sets import scipy_sparse

MODES = ("forward", "reverse", "both", "symmetric", "auto")


# --- public -----------------------------------------------------------------------------------------------------------------


@trimmed
def coloring(pattern: Any, mode: str = "forward", order: str | None = None) -> Coloring:
    """Colour a sparsity pattern: columns (or rows) of one colour share no row, so one derivative along their sum gives them all.

    Parameters
    ----------
    pattern : ``scipy.sparse`` matrix, whose stored entries count (`sparsity` gives one), or an array, whose nonzeros count.
    mode : "forward" colours columns, "reverse" rows; "both" takes the rows with most entries by reverse mode and the rest by forward
        mode (for an arrow matrix); "auto" takes the one with the fewest colours. "symmetric" is a star colouring, for Hessians.
    order : order of the greedy algorithm: "natural" (bands get as many colours as there are bands), "largest_first" or
        "smallest_last". By default the natural one; the others too where that is quick and some colour may be saved.

    Returns
    -------
    Coloring, an immutable value that can be reused and pickled; its `str` gives the number of colours and a lower bound.

    Raises
    ------
    ValueError, TypeError
        Where `pattern` is no matrix, or (for "symmetric") not symmetric.

    Examples
    --------
    >>> import numpy as np
    >>> from dualad import coloring
    >>> coloring(np.eye(5) + np.eye(5, k=1) + np.eye(5, k=-1))
    Coloring(5 x 5, 13 entries, forward: 3 colours of columns, at least 3)
    >>> arrow = np.eye(6)
    >>> arrow[0, :] = arrow[:, 0] = 1
    >>> coloring(arrow, "symmetric")
    Coloring(6 x 6, 16 entries, symmetric: 2 colours of columns, at least 2)
    >>> coloring(arrow, "auto")
    Coloring(6 x 6, 16 entries, both: 2 colours of columns and 1 of rows, at least 3)

    Notes
    -----
    Curtis, Powell & Reid (1974) for the idea; Gebremedhin, Manne & Pothen, "What color is your Jacobian?", SIAM Review 47 (2005), for
    the algorithms. "symmetric" finds each entry in one product (direct recovery), from its row or from its column.
    """
    return colored(pattern, mode, order)


def colored(pattern, mode, order=None):
    """Return the colouring of a pattern."""
    if mode not in MODES:
        raise ValueError(f"coloring: mode is {mode!r}: give one of {', '.join(map(repr, MODES))}")
    if order is not None and order not in ORDERS:
        raise ValueError(f"coloring: order is {order!r}: give one of {', '.join(map(repr, ORDERS))}, or None")
    matrix = as_pattern(pattern, "coloring")
    if mode != "auto":
        return MAKERS[mode](matrix, order)
    found = [MAKERS[mode](matrix, order) for mode in ("forward", "reverse")]
    if min(each.colors for each in found) > 2:
        found.append(both(matrix, order))
    return min(found, key=lambda each: each.colors)


@dataclass(frozen=True, eq=False, repr=False)
class Coloring:
    """A pattern and the colours of its columns and rows; see `coloring`.

    Attributes
    ----------
    shape, indptr, indices : the pattern, in compressed rows; `pattern` is it as a matrix.
    mode : "forward", "reverse", "both" or "symmetric".
    columns, rows : the colour of each column and of each row; None, or -1, for one that needs none.
    rows_first : whether an entry is found in its row's product where its column has a colour too.
    """

    shape: tuple[int, int]
    indptr: np.ndarray
    indices: np.ndarray
    mode: str
    columns: np.ndarray | None
    rows: np.ndarray | None
    rows_first: bool = True

    def __post_init__(self):
        for array in (self.indptr, self.indices, self.columns, self.rows):
            if array is not None:
                array.flags.writeable = False

    @property
    def pattern(self):
        """The pattern, a new ``csr_array`` of booleans."""
        entries = np.ones(len(self.indices), bool), self.indices.copy(), self.indptr.copy()
        return scipy_sparse().csr_array(entries, shape=self.shape)

    @cached_property
    def forward_colors(self):
        """How many directions forward mode takes."""
        return 0 if self.columns is None else int(self.columns.max(initial=-1)) + 1

    @cached_property
    def reverse_colors(self):
        """How many cotangents reverse mode takes."""
        return 0 if self.rows is None else int(self.rows.max(initial=-1)) + 1

    @property
    def colors(self):
        """How many colours there are."""
        return self.forward_colors + self.reverse_colors

    @cached_property
    def lower_bound(self):
        """A number of colours that no colouring of this mode can have fewer of."""
        entries = len(self.indices)
        if not entries:
            return 0
        in_rows, in_columns = np.diff(self.indptr).max(), np.bincount(self.indices).max()
        if self.mode == "forward":
            return int(in_rows)
        if self.mode == "reverse":
            return int(in_columns)
        if self.mode == "both":  # a product gives as many entries as there are rows, or columns, that have any
            most = max(np.count_nonzero(np.diff(self.indptr)), np.count_nonzero(np.bincount(self.indices)))
            return max(-(-entries // most), min(2, int(in_rows), int(in_columns)))
        above = np.repeat(np.arange(self.shape[0]), np.diff(self.indptr)) <= self.indices
        return max(-(-int(above.sum()) // self.shape[0]), 2 if in_rows > 1 else 1)

    @cached_property
    def rows_of_entries(self):
        """The row of each entry."""
        return np.repeat(np.arange(self.shape[0], dtype=np.intp), np.diff(self.indptr))

    @cached_property
    def found_at(self):
        """Where each entry stands in the products: in the flat (colours, rows) array of the tangents, or behind it in the flat
        (colours, columns) array of the cotangents."""
        rows, columns = self.rows_of_entries, self.indices.astype(np.intp)
        if self.mode == "symmetric":
            return self.symmetric_places(rows, columns)
        height, width = self.shape
        ahead = None if self.columns is None else self.columns[columns] * np.intp(height) + rows
        if self.rows is None:
            return ahead
        back = self.rows[rows] * np.intp(width) + columns
        if self.columns is None:
            return back
        by_row = self.rows[rows] >= 0 if self.rows_first else self.columns[columns] < 0
        return np.where(by_row, self.forward_colors * height + back, ahead)

    def symmetric_places(self, rows, columns):
        """An entry is in its row's product where no other of the row has its colour; else its mirror image is."""
        colors: Any = self.columns
        size = self.shape[0]
        key = rows * np.intp(self.colors) + colors[columns]
        alone = np.bincount(key, rows != columns, size * self.colors)[key] <= 1
        alone |= rows == columns
        row, column = np.where(alone, rows, columns), np.where(alone, columns, rows)
        return colors[column] * np.intp(size) + row

    @cached_property
    def seeds(self):
        """The directions of forward mode, a (colours, columns) array of ones and zeros."""
        return membership(self.columns, self.forward_colors)

    @cached_property
    def cotangents(self):
        """The cotangents of reverse mode, a (colours, rows) array of ones and zeros."""
        return membership(self.rows, self.reverse_colors)

    def matrix(self, data):
        """Return the entries as a ``csr_array`` of its own."""
        made = object.__new__(self.kind)
        made.__dict__.update(self.fields, data=data, indices=self.indices.copy(), indptr=self.indptr.copy())
        return made

    @cached_property
    def fields(self):
        """The attributes of a matrix of this pattern besides its arrays."""
        made = self.pattern
        made.has_canonical_format = True
        return {name: value for name, value in vars(made).items() if name not in ("data", "indices", "indptr")}

    @cached_property
    def kind(self):
        return scipy_sparse().csr_array

    @cached_property
    def signature(self):
        """Indices and indptr to compare those of a matrix with: small ones as bytes, which is faster."""
        return tuple(part.tobytes() if part.size < CACHE_ELEMENTS else part for part in (self.indices, self.indptr))

    def __repr__(self):
        of = [f"{n} {'colour' + 's' * (n != 1) + ' ' if k == 0 else ''}of {what}" for k, (n, what) in enumerate(self.parts())]
        text = " and ".join(of)
        entries = f"{len(self.indices)} {'entries' if len(self.indices) != 1 else 'entry'}"
        return f"Coloring({self.shape[0]} x {self.shape[1]}, {entries}, {self.mode}: {text}, at least {self.lower_bound})"

    def parts(self):
        """The numbers of colours, and of what."""
        counts = (self.columns, self.forward_colors, "columns"), (self.rows, self.reverse_colors, "rows")
        return [(count, what) for colors, count, what in counts if colors is not None]

    def __eq__(self, other):
        return isinstance(other, Coloring) and self.key() == other.key()

    def __hash__(self):
        return hash(self.key())

    def key(self):
        arrays = (self.indptr, self.indices, self.columns, self.rows)
        return self.shape, self.mode, self.rows_first, *(None if array is None else array.tobytes() for array in arrays)

    def __getstate__(self):
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def plot(self, ax=None):
        """Draw the pattern, each entry in the colour of the product that gives it, and return the axes.

        Parameters
        ----------
        ax : axes of matplotlib; new ones by default.
        """
        from .plot import plot_coloring

        return plot_coloring(self, ax)


# --- parts ------------------------------------------------------------------------------------------------------------------


def membership(colors, count):
    """Return which elements have each colour, as ones and zeros that are read-only; None where there is no colour."""
    if colors is None:
        return None
    rows = one_hot(colors, 0, count)
    rows.flags.writeable = False
    return rows


def as_pattern(pattern, where):
    """Return a pattern as a canonical ``csr_array`` of booleans of its own; stored entries count, nonzeros of an array."""
    sparse = scipy_sparse()
    if sparse.issparse(pattern):
        matrix = sparse.csr_array(pattern, copy=True)
        if matrix.ndim != 2:
            raise ValueError(f"{where}: the pattern has {matrix.ndim} axis: give a matrix, one row for each output")
        matrix = sparse.csr_array((np.ones(len(matrix.data), bool), matrix.indices, matrix.indptr), shape=matrix.shape)
    else:
        try:
            array = np.asarray(pattern)
            numeric = array.dtype.kind in "biufc"
        except ValueError:
            numeric = False
        if not numeric or array.ndim != 2:
            raise TypeError(
                f"{where}: the pattern is {type(pattern).__name__}{f' of shape {array.shape}' if numeric else ''}: give a matrix, of "
                f"scipy.sparse or an array of two axes"
            )
        matrix = sparse.csr_array(array != 0)
    matrix.sum_duplicates()
    matrix.sort_indices()
    matrix.prune()
    matrix.data[:] = True
    return matrix


def best_colors(matrix, order, color, least):
    """Return the colours by an order; by default the natural one, and where that is quick the others."""
    if order is not None:
        return color(matrix, ORDERS[order](matrix))
    found = color(matrix, ORDERS["natural"](matrix))
    counts = np.diff(matrix.indptr).astype(float)
    if found.max(initial=-1) + 1 > least and counts @ counts <= COLORING_STEPS:
        found = min((found, *(color(matrix, ORDERS[name](matrix)) for name in ("largest_first", "smallest_last"))), key=np.max)
    return found


def coloring_of(matrix, mode, columns, rows, rows_first=True):
    indptr, indices = (array.astype(np.int32) for array in (matrix.indptr, matrix.indices))
    return Coloring((int(matrix.shape[0]), int(matrix.shape[1])), indptr, indices, mode, columns, rows, rows_first)


def most_entries(matrix):
    return np.diff(matrix.indptr).max(initial=0)


def forward(matrix, order):
    return coloring_of(matrix, "forward", best_colors(matrix, order, columns_colored, most_entries(matrix)), None)


def reverse(matrix, order):
    turned = matrix.T.tocsr()
    return coloring_of(matrix, "reverse", None, best_colors(turned, order, columns_colored, most_entries(turned)))


def both(matrix, order):
    """Take the rows with most entries by reverse mode, or the columns with most by forward mode, the rest by the other."""
    candidates = []
    for turned in (False, True):
        own = matrix.T.tocsr() if turned else matrix
        counts = np.diff(own.indptr)
        for longest in thresholds(counts):
            dense = counts > longest
            rest = rows_kept(own, ~dense)
            few, many = rows_kept(own, dense).T.tocsr(), np.full(own.shape[0], -1, np.int32)
            across = best_colors(rest, order, columns_colored, most_entries(rest))
            along = best_colors(few, order, columns_colored, most_entries(few))
            many[dense] = along[dense]
            unused = np.bincount(rest.indices, minlength=own.shape[1]) == 0
            across = np.where(unused, np.int32(-1), across).astype(np.int32)
            columns, rows = (many, across) if turned else (across, many)
            candidates.append(coloring_of(matrix, "both", columns, rows, not turned))
    return min(candidates, key=lambda each: each.colors)


def thresholds(counts):
    """Return a few numbers of entries from which a row may count as dense: where the sorted numbers jump most."""
    levels = np.unique(counts)[::-1]
    jumps = np.argsort(-(levels[:-1] - levels[1:]), kind="stable")[:CHUNK_DIRECTIONS]
    return levels[1:][jumps].tolist() or [int(levels[0]) if len(levels) else 0]


def rows_kept(matrix, mask):
    """Return a matrix with the entries of some rows only."""
    kept = np.repeat(mask, np.diff(matrix.indptr))
    indptr = np.concatenate([[0], np.cumsum(np.where(mask, np.diff(matrix.indptr), 0))])
    return scipy_sparse().csr_array((matrix.data[kept], matrix.indices[kept], indptr), shape=matrix.shape)


def symmetric(matrix, order):
    if matrix.shape[0] != matrix.shape[1] or (matrix != matrix.T).nnz:
        raise ValueError(f"coloring: mode='symmetric' requires a symmetric pattern; this one of shape {matrix.shape} is not symmetric")
    off = matrix.tocoo()
    apart = off.row != off.col
    edges = scipy_sparse().csr_array((off.data[apart], (off.row[apart], off.col[apart])), shape=matrix.shape)
    return coloring_of(matrix, "symmetric", best_colors(edges, order, star_colored, 2 if edges.nnz else 1), None)


MAKERS = {"forward": forward, "reverse": reverse, "both": both, "symmetric": symmetric}
