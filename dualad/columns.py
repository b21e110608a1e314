"""jacobian_columns: the columns of a Jacobian that is too large to hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .callers import trim
from .hints import Chunk
from .jacobian import Seeds, push_chunks
from .seeding import check_chunk, check_function, check_holomorphic, shape_of

__all__ = ["jacobian_columns"]


# --- public -----------------------------------------------------------------------------------------------------------------


def jacobian_columns(
    f: Callable[[Any], Any], x: Any, chunk: Chunk = None, *, holomorphic: bool = False, nan_safe: bool = False
) -> Iterator[tuple[int, Any]]:
    """Iterate over the columns of the Jacobian of `f` at `x`, without ever holding the whole matrix.

    Peak memory is O(K * (n + m)) for K directions at a time, besides f's own temporaries.

    Parameters
    ----------
    f : function of one array, returning one array.
    x : number or array of floats.
    chunk : how many columns to compute at once; by default as many as stay in the cache.
    holomorphic, nan_safe : see `jacobian`.

    Yields
    ------
    (j, column) : the derivative of f by ``x.flat[j]``, of the shape of ``f(x)``. The column is the caller's own.

    Raises
    ------
    TypeError
        Where x or f(x) is a pytree: use `jacobian`.

    Examples
    --------
    >>> import numpy as np
    >>> from dualad import jacobian_columns
    >>> for j, column in jacobian_columns(lambda x: x**2, np.array([1.0, 3.0])):
    ...     print(j, column)
    0 [2. 0.]
    1 [0. 6.]
    """
    try:
        return columns_of(f, column_seeds(f, x, chunk, holomorphic), nan_safe)
    except Exception as error:
        trim(error)
        raise


# --- parts ------------------------------------------------------------------------------------------------------------------


def column_seeds(f, x, chunk, holomorphic):
    """Return the directions of the columns; what has none raises."""
    check_function(f, "jacobian_columns")
    check_chunk(chunk, "jacobian_columns")
    seeds = Seeds((x,), "jacobian_columns", chunk)
    check_holomorphic(seeds.leaves, holomorphic, "jacobian_columns")
    if len(seeds.leaves) != 1 or isinstance(x, tuple | list | dict):
        raise TypeError("jacobian_columns: x is a pytree, whose columns have no single number: use jacobian, or one array")
    return seeds


def columns_of(f, seeds, nan_safe):
    """Yield the columns with their numbers."""
    try:
        yield from each_column(f, seeds, nan_safe)
    except Exception as error:
        trim(error)
        raise


def each_column(f, seeds, nan_safe):
    for start, stop, values, tangents, _, _ in push_chunks(f, seeds, nan_safe, False, "jacobian_columns"):
        if len(values) != 1:
            raise TypeError("jacobian_columns: f returned a pytree: use jacobian, or return one array")
        for j in range(start, stop):
            yield j, (np.zeros(shape_of(values[0]))[()] if tangents[0] is None else np.copy(tangents[0][j - start])[()])
