"""Methods of ufuncs: ``reduce``, ``accumulate``, ``reduceat``, ``at``, where no array function does the same.

`METHODS` holds the special ones; `method` adds those that any ufunc of two arguments has, as a loop along the axis.
"""

import math
from functools import partial

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from .batching import axis_form
from .indexing import abstract, scatter
from .kinds import ROWS, Elementwise, constant, linear, primitive
from .writing import at

NO = np._NoValue


# --- reduce -----------------------------------------------------------------------------------------------------------------


def log_sum(ufunc, exp, log):
    """Make the reduction of ``logaddexp``: the logarithm of the sum of exponentials, without overflow (Blanchard et al. 2021)."""

    def body(x, axis=0, dtype=None, keepdims=False, initial=NO, where=True):
        x = x if where is True else np.where(where, x, -np.inf)
        top = np.max(x, axis=axis, keepdims=True, initial=-np.inf)
        top = np.where(np.isfinite(top), top, 0.0)
        with np.errstate(divide="ignore"):  # log(0) = -inf is the result where all are
            total = log(np.sum(exp(x - top), axis=axis, keepdims=True)) + top
        total = total if keepdims else np.squeeze(total, axis=tuple(range(np.ndim(x))) if axis is None else axis)[()]
        return total if initial is NO or initial is None else ufunc(total, initial)

    return body


def fold_along(ufunc):
    """Make the ``reduce`` of a ufunc: one call for each element of the axis."""

    def body(x, axis=0, dtype=None, keepdims=False, initial=NO, where=True):
        if where is not True:
            raise TypeError(f"numpy.{ufunc.__name__}.reduce: where= has no derivative rule in dualad: use np.where first")
        x = x if dtype is None else x.astype(dtype)
        axes = tuple(range(np.ndim(x))) if axis is None else axis if isinstance(axis, tuple) else (axis,)
        x = np.moveaxis(x, axes, tuple(range(len(axes))))
        x = np.reshape(x, (math.prod(x.shape[: len(axes)]), *x.shape[len(axes) :]))
        initial = ufunc.identity if initial is NO else initial
        ans = x[0] if initial is None else ufunc(initial, x[0])
        for i in range(1, len(x)):
            ans = ufunc(ans, x[i])
        return np.expand_dims(ans, axes) if keepdims else ans

    return body


# --- accumulate -------------------------------------------------------------------------------------------------------------


def running_extremum(ufunc):
    """Make the ``accumulate`` of ``maximum`` or ``minimum``: the first of equals wins."""

    def body(x, axis=0, dtype=None):
        axis = normalize_axis_index(axis, np.ndim(x))
        return np.take_along_axis(x, leader(ufunc, x, axis), axis)

    return body


@primitive
def leader(ufunc, x, axis):
    """Return where the running maximum or minimum stands so far."""
    best = np.moveaxis(ufunc.accumulate(x, axis), axis, 0)
    same = (best[1:] == best[:-1]) | (np.isnan(best[1:]) & np.isnan(best[:-1]))
    place = np.zeros(best.shape, int)
    place[1:] = np.where(same, 0, np.reshape(np.arange(1, len(best)), (-1, *(1,) * (best.ndim - 1))))
    return np.moveaxis(np.maximum.accumulate(place, 0), 0, axis)


def steps_along(ufunc):
    """Make the ``accumulate`` of a ufunc: one call for each element of the axis."""

    def body(x, axis=0, dtype=None):
        x = np.moveaxis(x if dtype is None else x.astype(dtype), axis, 0)
        results = [x[0]]
        for i in range(1, len(x)):
            results.append(ufunc(results[-1], x[i]))
        return np.stack(results, axis=axis)

    return body


# --- reduceat ---------------------------------------------------------------------------------------------------------------


def segments(indices, n):
    """Return the start and stop of each segment of ``reduceat``: one element where an index does not come before the next."""
    starts = np.asarray(indices)
    stops = np.append(starts[1:], n)
    return [(int(a), int(b) if b > a else int(a) + 1) for a, b in zip(starts, stops, strict=True)]


def places_of_segments(indices, n):
    """Return the places of the elements of all segments, one after the other, and which segment each is in."""
    parts = segments(indices, n)
    return np.concatenate([np.arange(a, b) for a, b in parts]), np.repeat(np.arange(len(parts)), [b - a for a, b in parts])


def at_segments(reduce):
    """Make the ``reduceat`` of a ufunc from its ``reduce``."""

    def body(x, indices, axis=0, dtype=None):
        before = (slice(None),) * normalize_axis_index(axis, np.ndim(x))
        parts = segments(indices, np.shape(x)[axis])
        return np.stack([reduce(x[(*before, slice(a, b))], axis=axis) for a, b in parts], axis=axis)

    return body


@primitive
def add_reduceat(x, indices, axis=0, dtype=None):
    """Return ``np.add.reduceat(x, indices, axis)``."""
    return np.add.reduceat(x, indices, axis, dtype)


def add_reduceat_transpose(g, x, indices, axis=0, dtype=None):
    axis %= len(x.shape)
    into, spread = places_of_segments(indices, x.shape[axis])
    return scatter(np.take(g, spread, axis), (*(slice(None),) * axis, into), abstract(x))


# --- the table --------------------------------------------------------------------------------------------------------------

# fmt: off
constant(leader, lower="leader")
linear(add_reduceat, add_reduceat_transpose, pattern="segments", batch=axis_form, lower="add_reduceat")

METHODS = {
    (np.add,      "reduce"): np.sum,
    (np.multiply, "reduce"): np.prod,
    (np.maximum,  "reduce"): np.max,
    (np.minimum,  "reduce"): np.min,
    (np.logical_and, "reduce"): np.all,
    (np.logical_or,  "reduce"): np.any,
    (np.add,      "accumulate"): np.cumsum,
    (np.multiply, "accumulate"): np.cumprod,
    (np.logaddexp,  "reduce"): log_sum(np.logaddexp, np.exp, np.log),
    (np.logaddexp2, "reduce"): log_sum(np.logaddexp2, np.exp2, np.log2),
    (np.maximum, "accumulate"): running_extremum(np.maximum),
    (np.minimum, "accumulate"): running_extremum(np.minimum),
    (np.add,      "reduceat"): add_reduceat,
    (np.multiply, "reduceat"): at_segments(np.prod),
    (np.maximum,  "reduceat"): at_segments(np.max),
    (np.minimum,  "reduceat"): at_segments(np.min),
}
# fmt: on


def method(ufunc, name):
    """Return the function that evaluates a method of a ufunc on traced arguments, None where there is none."""
    if (ufunc, name) in METHODS:
        return METHODS[ufunc, name]
    if not isinstance(ROWS.get(ufunc), Elementwise):
        return None
    if name == "at":
        return at(ufunc)
    segmented = lambda ufunc: at_segments(partial(fold_along(ufunc), initial=None))  # a segment begins with its first element
    loops = {"reduce": fold_along, "accumulate": steps_along, "reduceat": segmented}
    return loops[name](ufunc) if ufunc.nin == 2 and name in loops else None
