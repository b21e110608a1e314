"""Shared by all verbs with sparsity=: the function that returns a matrix, and the one that fills a given matrix in place."""

from __future__ import annotations

from functools import wraps
from typing import Any

import numpy as np
import optree

from ..support.callers import trim
from .sets import scipy_sparse
from .verify import check_product


def sparse_function(f, compressed, verify, slope=None):
    """Return the function of f's arguments that returns a sparse matrix, before it the value and after it aux where they are asked for.

    `slope` is what is verified, if not f. ``fill(matrix, *args, **kwargs)`` writes the entries into a matrix of the same pattern.
    """
    slope, where, has_aux, valued = slope or f, compressed.where, compressed.options["has_aux"], compressed.valued

    @wraps(f)
    def differentiated(*args, **kwargs):
        try:
            colors, value, data, aux = compressed.data(args, kwargs)
            matrix = colors.matrix(data)
            if verify:
                check_product(slope, args, kwargs, matrix, compressed)
        except Exception as error:
            trim(error)
            raise
        if valued:
            return value, matrix, *aux
        return (matrix, *aux) if has_aux else matrix

    def fill(matrix, *args, **kwargs):
        try:
            colors = compressed.colored.given or compressed.colored(args, kwargs)
            order = order_of(matrix, colors, where)
            own = order is None and matrix.data.flags.carray and not shares_memory(args, kwargs, matrix.data)
            _, _, data, aux = compressed.data(args, kwargs, matrix.data if own else None)
            if data is not matrix.data:
                if data.dtype != matrix.dtype:
                    raise TypeError(
                        f"{where}.fill: the matrix holds {matrix.dtype}, the derivatives are {data.dtype}: give matrix.astype({data.dtype})"
                    )
                matrix.data[...] = data if order is None else data[order]
            if verify:
                check_product(slope, args, kwargs, colors.matrix(data), compressed)
        except Exception as error:
            trim(error)
            raise
        return (matrix, *aux) if has_aux else matrix

    if not valued:
        vars(differentiated)["fill"] = fill
    return differentiated


# --- the entries of a given matrix --------------------------------------------------------------------------------------------------


def order_of(matrix, colors, where):
    """Return which entry of a pattern each of a matrix is, None where they are in one order; raise where it has another pattern."""
    if type(matrix) is colors.kind and matrix.shape == colors.shape:
        indices, indptr = colors.signature
        if same_integers(matrix.indptr, indptr) and same_integers(matrix.indices, indices):
            return None
    kind = getattr(matrix, "format", None)
    if not scipy_sparse().issparse(matrix) or kind not in ("csr", "csc"):
        raise TypeError(
            f"{where}.fill: the matrix is {type(matrix).__name__}{f' in {kind} form' if kind else ''}: give one in csr or csc form"
        )
    if matrix.shape != colors.shape:
        raise ValueError(f"{where}.fill: the matrix has shape {matrix.shape}, the pattern {colors.shape}")
    if kind == "csr" and same_integers(matrix.indptr, colors.indptr) and same_integers(matrix.indices, colors.indices):
        return None
    width, entries = np.int64(colors.shape[1]), matrix.tocoo(copy=False)
    known, held = colors.rows_of_entries * width + colors.indices, entries.row * width + entries.col
    order = np.searchsorted(known, held)
    if len(held) == len(known) and np.array_equal(known[np.minimum(order, len(known) - 1)], held) and len(np.unique(order)) == len(held):
        return order
    missing, more = np.setdiff1d(known, held), np.setdiff1d(held, known)
    if len(missing):
        entry, what = missing[0], "misses entry ({}, {}) of the pattern"
    elif len(more):
        entry, what = more[0], "has entry ({}, {}), which is not in the pattern"
    else:
        entry, what = held[np.diff(np.sort(held), prepend=-1) == 0][0], "has entry ({}, {}) twice"
    named = what.format(*divmod(int(entry), int(width)))
    raise ValueError(f"{where}.fill: the matrix {named}: give one that this function has returned, or one of its pattern")


def shares_memory(args, kwargs, data):
    """Return whether an argument shows the memory that is to be written."""
    own = data.base is None
    for arg in args if not kwargs else (None,):
        if type(arg) is not np.ndarray:
            given: Any = args, kwargs
            leaves = optree.tree_leaves(given)
            return any(np.may_share_memory(leaf, data) for leaf in leaves if issubclass(type(leaf), np.ndarray))
        if not (own and arg.base is None and arg is not data) and np.may_share_memory(arg, data):
            return True
    return False


def same_integers(array, known):
    """Return whether an array of integers is another, which may be its bytes."""
    if type(known) is bytes:
        return array.dtype.char == "i" and array.tobytes() == known
    return array.shape == known.shape and bool((array == known).all())
