"""Indexing, assignment into fresh arrays, and casts: functions of our own that the operators and methods call."""

from __future__ import annotations

from .kinds import Abstract, constant, linear, primitive
from .names import np

__all__ = ["cast", "discretize", "expanded", "getitem", "is_basic", "is_traced", "is_whole", "last_kept", "restate", "scatter", "winners"]


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
def cast(x, dtype, order="K"):
    """Return `x` as another dtype."""
    return x.astype(dtype, order) if issubclass(type(x), np.ndarray) else np.asarray(x).astype(dtype)[()]


@primitive
def discretize(x, dtype, order="K"):
    """Return `x` as an integer, boolean or other dtype without derivative."""
    return x.astype(dtype, order) if issubclass(type(x), np.ndarray) else np.asarray(x).astype(dtype)[()]


@primitive
def restate(x):
    """Return `x`: what a value that NumPy computed itself has its derivative from."""
    return x


def is_basic(index) -> bool:
    """Return whether an index is basic (integers, slices, Ellipsis, None), so that it gives a view."""
    if type(index) is tuple:
        return all(map(is_basic, index))
    return index is None or index is Ellipsis or (issubclass(type(index), int | slice | np.integer) and type(index) is not bool)


def is_whole(index) -> bool:
    """Return whether an index shows all of an array, whatever its axes."""
    return index is Ellipsis or (type(index) is tuple and all(part is Ellipsis for part in index))


def expanded(index, ndim):
    """Return the parts of an index into this many axes, with slices for its Ellipsis or for the axes that it leaves out."""
    parts = list(index) if type(index) is tuple else [index]
    at = next((k for k, part in enumerate(parts) if part is Ellipsis), len(parts))
    parts[at : at + 1] = [slice(None)] * (ndim - sum(part is not None and part is not Ellipsis for part in parts))
    return parts


def winners(shape, index):
    """Return, for an assignment ``x[index] = v``, where v's elements stay: the last one wins where an index repeats.

    None where every element stays.
    """
    traced = is_traced(index)
    if is_basic(stand_in(index) if traced else index) or getattr(index, "dtype", None) == np.dtype(bool):
        return None
    size = int(np.prod(shape, dtype=int))
    place = getitem(np.arange(size).reshape(shape), index)
    order = np.arange(place.size).reshape(place.shape)
    last = last_of(place, order, size)
    stays = getitem(last, place) == order
    return stays if traced else None if stays.all() else stays


def is_traced(index) -> bool:
    """Return whether an index is traced, or a part of it."""
    return any(hasattr(part, "__dualad_apply__") for part in (index if type(index) is tuple else (index,)))


def stand_in(index):
    """Return an index with some integer for each traced one."""
    if type(index) is tuple:
        return tuple(map(stand_in, index))
    return 0 if hasattr(index, "__dualad_apply__") and not index.ndim else index


@primitive
def last_of(place, order, size):
    """Return an array of integers of this size, in which `order` was assigned at `place`."""
    last = np.zeros(size, int)
    last[place] = order
    return last


def abstract(x):
    return x if isinstance(x, Abstract) else Abstract(x)


def getitem_form(fn, args, kwargs, batched):
    x, index = args
    parts = index if type(index) is tuple else (index,)
    if is_basic(index):
        return fn(x, (slice(None), *parts))
    return np.moveaxis(fn(np.moveaxis(x, 0, -1), last_kept(parts)), -1, 0)


def last_kept(parts):
    """Return an index that leaves one more, last axis alone (K in front would mix with advanced indices)."""
    return (*parts, slice(None)) if any(part is Ellipsis for part in parts) else parts


def scatter_form(fn, args, kwargs, batched):
    g, index, like = args
    parts = index if type(index) is tuple else (index,)
    whole = Abstract.__new__(Abstract)
    whole.dtype = like.dtype
    if is_basic(index):
        whole.shape = (g.shape[0], *like.shape)
        return fn(g, (slice(None), *parts), whole)
    whole.shape = (*like.shape, g.shape[0])
    return np.moveaxis(fn(np.moveaxis(g, 0, -1), last_kept(parts), whole), -1, 0)


# fmt: off
linear(getitem, lambda g, x, index: scatter(g, index, abstract(x)), view="maybe", moves=True, batch=getitem_form, blocks="element",
       lower="get")
linear(scatter, lambda g, x, index, like: getitem(g, index), cheap=True, batch=scatter_form, blocks="scattered", lower="scattered")
constant(discretize, chooses=True, elementwise=True)
constant(last_of)
linear(cast,    lambda g, x, dtype, order="K": g, cheap=True, neutral=True, elementwise=True)
linear(restate, lambda g, x: g, moves=True, elementwise=True)
# fmt: on
