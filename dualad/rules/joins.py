"""Joins: several arrays become one. The table sees them with the arrays as positional arguments."""

from __future__ import annotations

from contextlib import suppress
from itertools import accumulate

from .batching import joined_form
from .cotangents import FLOAT
from .kinds import composite, joined, ndim_of, shape_of
from .names import np


def positional(args, kwargs):
    """Turn ``join(arrays, axis)`` into ``join(*arrays, axis=axis)``."""
    arrays, *axis = args
    return tuple([list(a) if type(a) is tuple else a for a in arrays]), {**kwargs, **({"axis": axis[0]} if axis else {})}


def variadic(fn):
    """Return the function that takes its arrays as positional arguments."""
    return lambda *arrays, **kwargs: fn(arrays, **kwargs)


def stacked(*arrays, axis=0, **options):
    """Return what ``np.stack`` does; of numbers and vectors by ``np.array``, at a quarter of its cost."""
    if axis == 0 and not options and all(type(a) is float or (type(a) is np.ndarray and a.ndim < 2 and a.dtype is FLOAT) for a in arrays):
        with suppress(ValueError):  # of unequal shapes, which NumPy names below
            return np.array(arrays)
    return np.stack(arrays, axis=axis, **options)


def concatenate_transpose(i, g, *arrays, axis=0, dtype=None, casting=None):
    if axis is None:
        shapes = [shape_of(a) for a in arrays]
        sizes = [int(np.prod(shape, dtype=int)) for shape in shapes]
        return np.reshape(g[sum(sizes[:i]) : sum(sizes[: i + 1])], shapes[i])
    return g[concatenated_parts(arrays, ndim_of(g), axis)[i]]


def concatenated_parts(arrays, ndim, axis=0, dtype=None, casting=None):
    if axis is None:
        return None
    stops = list(accumulate(shape_of(a)[axis] for a in arrays))
    whole = (slice(None),) * (axis % ndim)
    return [(*whole, slice(start, stop)) for start, stop in zip([0, *stops], stops, strict=False)]


def stacked_parts(arrays, ndim, axis=0, dtype=None, casting=None):
    whole = (slice(None),) * (axis % ndim)
    return [(*whole, i) for i in range(len(arrays))] if whole else range(len(arrays))


def axis_of(n):
    """Return the axis that hstack joins: the first of vectors, else the second."""
    return 0 if n == 1 else 1


def hstack(arrays, **options):
    arrays = [a if ndim_of(a) else np.atleast_1d(a) for a in arrays]
    return np.concatenate(arrays, axis=axis_of(ndim_of(arrays[0])), **options)


def column_stack(arrays):
    return np.concatenate([a if ndim_of(a) > 1 else np.reshape(a, (-1, 1)) for a in arrays], axis=1)


# fmt: off
joined(np.concatenate, concatenate_transpose, call=variadic(np.concatenate), canonical=positional, moves=True, joins=True, cheap=True,
       parts=concatenated_parts, batch=joined_form, blocks="concatenated", lower="concatenate")
joined(np.stack,       lambda i, g, *arrays, axis=0, **options: g[(*(slice(None),) * (axis % ndim_of(g)), i)], call=stacked,
       canonical=positional, moves=True, joins=True, cheap=True, parts=stacked_parts, batch=joined_form, blocks="stacked", lower="stack")
composite(np.vstack,       lambda arrays, **options: np.concatenate([np.atleast_2d(a) for a in arrays], axis=0, **options))
composite(np.hstack,       hstack)
composite(np.dstack,       lambda arrays: np.concatenate([np.atleast_3d(a) for a in arrays], axis=2))
composite(np.column_stack, column_stack)
# fmt: on
