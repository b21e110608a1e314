"""Indexing, assignment into fresh arrays, and casts: functions of our own that the operators and methods call."""

from __future__ import annotations

import numpy as np

from .kinds import Abstract, constant, linear, primitive

__all__ = ["cast", "discretize", "getitem", "is_basic", "restate", "scatter", "winners"]


@primitive
def getitem(x, index):
    """Return ``x[index]``."""
    return x[index] if type(x) is not float else np.float64(x)[index]


@primitive
def scatter(g, index, like):
    """Return zeros of the shape and dtype of `like` (an `Abstract`) with `g` added at `index`; repeated indices sum."""
    out = np.zeros(like.shape, np.result_type(g, like.dtype) if np.iscomplexobj(g) else like.dtype)
    if is_basic(index):
        out[index] = g
    else:
        np.add.at(out, index, g)
    return out


@primitive
def cast(x, dtype):
    """Return `x` as another dtype."""
    return x.astype(dtype) if isinstance(x, np.ndarray) else np.asarray(x).astype(dtype)[()]


@primitive
def discretize(x, dtype):
    """Return `x` as an integer, boolean or other dtype without derivative."""
    return np.asarray(x).astype(dtype)[()]


@primitive
def restate(x):
    """Return `x`: what a value that NumPy computed itself has its derivative from."""
    return x


def is_basic(index) -> bool:
    """Return whether an index is basic (integers, slices, Ellipsis, None), so that it gives a view."""
    if type(index) is tuple:
        return all(map(is_basic, index))
    return index is None or index is Ellipsis or (isinstance(index, int | slice | np.integer) and not isinstance(index, bool))


def winners(shape, index):
    """Return, for an assignment ``x[index] = v``, where v's elements stay: the last one wins where an index repeats.

    None where every element stays.
    """
    if is_basic(index) or getattr(index, "dtype", None) == np.dtype(bool):
        return None
    place = np.arange(int(np.prod(shape, dtype=int))).reshape(shape)[index]
    order = np.arange(place.size).reshape(place.shape)
    last = np.zeros(int(np.prod(shape, dtype=int)), int)
    last[place] = order
    stays = last[place] == order
    return None if stays.all() else stays


def abstract(x):
    return x if isinstance(x, Abstract) else Abstract(x)


# fmt: off
linear(getitem, lambda g, x, index: scatter(g, index, abstract(x)), view="maybe")
linear(scatter, lambda g, x, index, like: getitem(g, index))
constant(discretize)
linear(cast,    lambda g, x, dtype: g)
linear(restate, lambda g, x: g)
# fmt: on
