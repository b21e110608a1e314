"""Indexing, assignment into fresh arrays, and casts: functions of our own that the operators and methods call."""

from __future__ import annotations

from .batching import aligned
from .kinds import ROWS, Abstract, constant, explicit, is_complex, joined, linear, primitive, shape_of
from .memory import copied_to_write, shows_memory, writable
from .names import np
from .scalars import ANY, Scalar, itself

BASIC = (int, slice, np.integer)


@primitive
def getitem(x, index):
    """Return ``x[index]``."""
    return x[index] if type(x) is not float else np.float64(x)[index]


@primitive
def scatter(g, index, like):
    """Return zeros of the shape and dtype of `like` (an `Abstract`) with `g` added at `index`; repeated indices sum."""
    out = np.zeros(like.shape, np.result_type(g, like.dtype) if is_complex(g) else like.dtype)
    if reads_once(index):
        out[index] = g  # which keeps the sign of a zero
    else:
        np.add.at(out, index, g)
    return out


def accumulated(y, v, index):
    """Add `v` to `y` at `index`, once more for each time that a position of a plain array repeats, and return `y`."""
    if reads_once(index) or type(y) is not np.ndarray:
        y[index] += v
    else:
        np.add.at(y, index, v)
    return y


@primitive
def updated(x, v, index, ops=()):
    """Return a copy of `x` in which the part that `ops` and then `index` show is `v`."""
    return overwritten(copied_to_write(np.asarray(x)), v, index, ops)


def overwritten(y, v, index, ops=()):
    """Assign `v` to the part of `y` that `ops` and then `index` show, and return `y`.

    `ops` are views, in whatever order the elements of y are in memory here: where `reshape` gives a copy, its elements are found in y.
    """
    if not ops:
        y[index] = v
    elif (part := locate(ops, y)) is y or getattr(part, "base", None) is y or shows_memory(part, y):
        part[index] = v
    else:
        places = locate(ops, np.arange(y.size).reshape(y.shape))[index]
        y[np.unravel_index(places, y.shape)] = v
    return y


def updated_transpose(i, g, x, v, index, ops=(), into=updated):
    """Give the written part of `g` to v, and the rest to x: by `overwritten`, in the buffer of `g`."""
    if i == 0:
        return into(g, 0.0, index, ops)
    part = locate(ops, g) if ops else g
    if reads_once(index) and type(part) is not float:
        share = part[index]
    else:
        share = getitem(part, index)
        if hasattr(share, "summed"):  # v is one number, or one row, for all elements that a traced mask selects
            share = share.summed()
        elif (stays := last_write_mask(shape_of(part), index)) is not None:
            share = np.where(stays, share, 0.0)
    return -share if ops and any(fn is np.imag for fn, *_ in ops) else share  # Re(g * 1j * t) is -Im(g) * t


def locate(ops, x):
    """Return the view of `x` after `ops`, each an (fn, arguments, keywords)."""
    for fn, args, kwargs in ops:
        x = fn(x, *args, **kwargs)
    return x


@primitive
def cast(x, dtype, order="K"):
    """Return `x` as another dtype."""
    return x.astype(dtype, order) if issubclass(type(x), np.ndarray) else np.asarray(x).astype(dtype)[()]


@primitive
def discretize(x, dtype, order="K"):
    """Return `x` as an integer, boolean or other dtype without derivative."""
    return x.astype(dtype, order) if issubclass(type(x), np.ndarray) else np.asarray(x).astype(dtype)[()]


@primitive
def number(x):
    """Return `x`, which is one of Python if it is a number: its dtype yields to that of arrays."""
    return x if np.ndim(x) else float(x)


@primitive
def restate(x):
    """Return `x`: what a value that NumPy computed itself has its derivative from."""
    return x


@primitive
def stated(value, x):
    """Return `value`, with the derivative of `x`: in a program, what `restate` is where values are known."""
    return value


def is_basic(index) -> bool:
    """Return whether an index is basic (integers, slices, Ellipsis, None), so that it gives a view."""
    if type(index) is tuple:
        return all(map(is_basic, index))
    return index is None or index is Ellipsis or (issubclass(type(index), BASIC) and type(index) is not bool)


def in_range(index, n, mode):
    """Return positions among n as `take` brings them there by its modes "wrap" and "clip"; for "raise" as they are."""
    return index if mode == "raise" else index % n if mode == "wrap" else np.clip(index, 0, n - 1)


def reads_once(index) -> bool:
    """Return whether an index, by its type, shows no element twice."""
    return index.dtype.kind == "b" if type(index) is np.ndarray else is_basic(index)


def is_whole(index) -> bool:
    """Return whether an index shows all of an array, whatever its axes."""
    return index is Ellipsis or (type(index) is tuple and all(part is Ellipsis for part in index))


def expand_index(index, ndim):
    """Return the parts of an index into this many axes, with slices for its Ellipsis or for the axes that it leaves out."""
    parts = list(index) if type(index) is tuple else [index]
    at = next((k for k, part in enumerate(parts) if part is Ellipsis), len(parts))
    parts[at : at + 1] = [slice(None)] * (ndim - sum(part is not None and part is not Ellipsis for part in parts))
    return parts


def last_write_mask(shape, index):
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
    return x if type(x) is Abstract else Abstract(x)


def getitem_form(fn, args, kwargs, batched):
    x, index = args
    parts = index if type(index) is tuple else (index,)
    if is_basic(index):
        return x[(slice(None), *parts)]
    return np.moveaxis(fn(np.moveaxis(x, 0, -1), last_kept(parts)), -1, 0)


def last_kept(parts):
    """Return an index that leaves one more, last axis alone (K in front would mix with advanced indices)."""
    return (*parts, slice(None)) if any(part is Ellipsis for part in parts) else parts


def scatter_form(fn, args, kwargs, batched):
    g, index, like = args
    parts = index if type(index) is tuple else (index,)
    if is_basic(index):
        return fn(g, (slice(None), *parts), Abstract.of((g.shape[0], *like.shape), like.dtype))
    whole = Abstract.of((*like.shape, g.shape[0]), like.dtype)
    return np.moveaxis(fn(np.moveaxis(g, 0, -1), last_kept(parts), whole), -1, 0)


def updated_form(fn, args, kwargs, batched):
    x, v, index, *ops = args
    count = next(args[i].shape[0] for i in batched)
    x, v = (
        arg if i in batched or (i and not np.ndim(arg)) else np.broadcast_to(arg, (count, *np.shape(arg))) for i, arg in enumerate((x, v))
    )
    y = copied_to_write(x) if type(x) is np.ndarray else np.copy(x)
    for part in (v, *(index if type(index) is tuple else (index,))):
        y = writable(y, part)
    return overwritten_directions(y, v, index, *ops)


def overwritten_directions(y, v, index, ops=()):
    """Do for K arrays what `overwritten` does for one; `v` has the leading axis, too, or is a number."""
    part, several = y, getattr(v, "ndim", 0)
    for op, args, kwargs in ops:
        form = ROWS[op].batch
        part = form(op, (part, *args), kwargs, {0}) if form else NotImplemented
        if part is NotImplemented:
            break
    parts = index if type(index) is tuple else (index,)
    if ops and getattr(part, "base", None) is not y and not shows_memory(part, y):
        for k in range(y.shape[0]):
            overwritten(y[k, ...], v[k] if several else v, index, ops)
    elif is_basic(index):
        part = part[(slice(None), *parts)]
        if several > part.ndim:  # axes of length 1 in front are NumPy's to add or to leave out
            v = np.reshape(v, (v.shape[0], *v.shape[several - part.ndim + 1 :]))
        part[...] = aligned(v, part.ndim - 1) if 0 < several < part.ndim else v
    else:
        part = np.moveaxis(part, 0, -1)
        part[last_kept(parts)] = np.moveaxis(v, 0, -1) if several else v
    return y


def zeros_of(x):
    return np.zeros_like(x) if shape_of(x) or is_complex(x) else 0.0


def moves_whole(x, v, index, ops=()):
    """Return whether an assignment moves whole elements, not the real or imaginary parts of complex ones."""
    return not any(fn in (np.real, np.imag) for fn, *_ in ops)


# fmt: off
linear(getitem, lambda g, x, index: scatter(g, index, abstract(x)), view="maybe", moves=True, pattern="element", batch=getitem_form,
       blocks="element", lower="get")
linear(scatter, lambda g, x, index, like: getitem(g, index), cheap=True, pattern="scattered", batch=scatter_form, blocks="scattered",
       lower="scattered")
joined(updated, updated_transpose, argnums=(0, 1), zero=zeros_of, cheap=True, moves=moves_whole, batch=updated_form, lower="assigned",
       pattern="assigned", blocks="assigned")
constant(discretize, chooses=True, elementwise=True, scalar=Scalar(itself, 0, ANY))
linear(number, lambda g, x: g, elementwise=True, scalar=Scalar(itself, 0))
constant(last_of, lower="last_of")
linear(cast,    lambda g, x, dtype, order="K": g, cheap=True, neutral=True, elementwise=True, scalar=Scalar(itself, 0, ANY))
linear(restate, lambda g, x: g, moves=True, elementwise=True)
explicit(stated, (lambda t, *args: None, lambda t, *args: t), (lambda g, *args: None, lambda g, *args: g), elementwise=True,
         scalar=Scalar(lambda value, x: value, 0, ANY))
# fmt: on
