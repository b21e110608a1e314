"""Products with a constant SciPy sparse matrix. SciPy is not imported: a sparse matrix is known by its methods."""

from __future__ import annotations

import numpy as np

from .batching import of_columns
from .kinds import linear, primitive


def is_sparse(x) -> bool:
    """Return whether `x` is a SciPy sparse matrix or array."""
    return hasattr(x, "tocsr") and hasattr(x, "format")


@primitive
def times_sparse(x, matrix):
    """Return ``matrix @ x`` for a constant sparse matrix and an array of one or two axes.

    A vector times a ``coo_array`` of one row is a number for SciPy, where other matrices give a vector of one element.
    """
    return matrix @ x


def sparse_matmul(a, b):
    """Return ``a @ b`` where one factor is sparse: ``np.matmul(M, x)`` and ``x @ M``."""
    if is_sparse(a):
        if np.ndim(b) > 2:
            raise ValueError(f"matmul: a sparse matrix times an array of shape {np.shape(b)}: it must have one or two axes")
        return times_sparse(b, a)
    return np.transpose(times_sparse(np.transpose(a), b.T))


def times_sparse_form(fn, args, kwargs, batched):
    x, matrix = args
    ans = of_columns(0)(fn, args, kwargs, batched)
    number = np.ndim(x) == 2 and matrix.shape[0] == 1 and not np.ndim(matrix @ np.zeros(matrix.shape[1]))
    return ans[:, 0] if number else ans


# fmt: off
linear(times_sparse, lambda g, x, matrix: times_sparse(np.atleast_1d(g), matrix.T), pattern="sparse_product",
       batch=times_sparse_form, called="the library does it faster than a loop")
# fmt: on
