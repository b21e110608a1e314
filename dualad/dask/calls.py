"""Functions on dask arrays, by the options of their rows: elementwise ones chunk by chunk; moves and reductions by dask's own functions.

A row may name one of the functions here (``blocks="taken"``); functions whose rows say nothing are refused by name.
"""

from __future__ import annotations

import operator
from collections import OrderedDict

import dask.array as da
import numpy as np

from ..rules import ufuncs
from ..rules.calling import public_name, signature
from ..rules.indexing import expand_index, getitem, is_basic
from ..rules.kinds import ROWS
from ..support.costs import PROGRAM_OPERATIONS

#: the chunks of the arrays met last, by shape: zeros and what is broadcast, as cotangents of sums are, are made in them
CHUNKS: OrderedDict[tuple, tuple] = OrderedDict()


def remember(x, given):
    """Keep the chunks of an array for others of its shape; those of an array that is given go first."""
    if given or x.shape not in CHUNKS:
        CHUNKS[x.shape] = x.chunks
        while len(CHUNKS) > PROGRAM_OPERATIONS:
            CHUNKS.popitem(last=False)


def as_dask(array):
    """Return a plain array in chunks."""
    return da.from_array(array, chunks=CHUNKS.get(array.shape, "auto"))


def is_lazy(row):
    """Return whether the function of a row is computed of dask arrays."""
    return bool(row.elementwise or row.blocks or row.reduces or (row.moves and row.alone) or dasks_own(row))


def dasks_own(row):
    """Return the function of dask that is called as NumPy's, for one that moves elements or works along axes; None if there is none."""
    same = (row.moves or row.axes) and getattr(row.fn, "__module__", None) == "numpy"
    return getattr(da, row.fn.__name__, None) if same else None


def call_lazily(fn, args, kwargs):
    """Call a function of dask and other arrays lazily."""
    row = ROWS.get(fn)
    if row.elementwise and not row.blocks if row else isinstance(fn, np.ufunc):
        dtype = kwargs.pop("dtype", None) if isinstance(fn, np.ufunc) else None
        count = 1 if row and row.alone else len(args)  # what stands behind the one array says how
        return da.core.elemwise(Quiet(fn, args[count:], kwargs), *args[:count], dtype=dtype)
    if row is None or not is_lazy(row):
        raise TypeError(f"{public_name(fn)} of a dask array has no lazy form in dualad: compute the array first, x.compute()")
    try:
        if row.blocks:
            return globals()[row.blocks](*args, **without_defaults(fn, kwargs))
        call = without_defaults(fn, signature(fn).bind(*args, **kwargs).arguments)
        x = call.pop(next(iter(call)))
        if row.reduces:
            return reduced(row, x, **call)
        if dasks_own(row) is None:
            return gather(row, x, *args[1:], **kwargs)
        x = da.ravel(x) if row.axes and not x.ndim else x  # NumPy takes a number for one element along an axis
        return as_dask_does(dasks_own(row), x, call)
    except NotImplementedError as error:
        raise TypeError(f"{public_name(fn)} of a dask array: {error or 'dask does not compute it'}") from error


def as_dask_does(same, x, options):
    """Call dask's own function, which may have fewer options than NumPy's."""
    try:
        signature(same).bind(x, **options)
    except TypeError as error:
        raise NotImplementedError(f"dask.array.{same.__name__} does not take this call ({error})") from None
    return same(x, **{name: option.tolist() if type(option) is np.ndarray else option for name, option in options.items()})


def gather(row, x, *args, **kwargs):
    """Return the elements of x where a function moves them that dask has not: it moves their positions."""
    if row.affine or any(isinstance(arg, da.Array) for arg in (*args, *kwargs.values())):
        raise NotImplementedError("it moves elements to computed places, or adds a constant")
    places = np.asarray(row.call(np.arange(1, x.size + 1).reshape(x.shape), *args, **kwargs))
    with_zero = da.concatenate([da.zeros(1, dtype=x.dtype), da.ravel(x)])
    return da.reshape(da.take(with_zero, np.ravel(places), 0), places.shape)


def without(x, *args, **kwargs):
    return gather(ROWS[np.delete], x, *args, **kwargs)  # dask takes a mask for integers


def without_defaults(fn, kwargs):
    """Return arguments by name without those that say nothing."""
    known = signature(fn).parameters
    return {name: x for name, x in kwargs.items() if not (name in known and x is known[name].default) and x is not np._NoValue}


class Quiet:
    """A function of chunks, without floating-point warnings: derivatives are evaluated where values have none."""

    def __init__(self, fn, rest, options):
        self.fn, self.rest, self.options, self.__name__ = fn, rest, options, getattr(fn, "__name__", "function")

    def __call__(self, *args):
        with np.errstate(all="ignore"):
            return self.fn(*args, *self.rest, **self.options)

    def __reduce__(self):
        return Quiet, (self.fn, self.rest, self.options)


def as_floats(fn):
    """Make a share of a tie: chunks without one give booleans, where others give floats."""
    return lambda ans, x, y: da.core.elemwise(Quiet(fn, (), {}), ans, x, y, dtype=da.real(ans).dtype)


larger_share, fmax_share = map(as_floats, (ufuncs.larger_share, ufuncs.fmax_share))


# --- reductions ---------------------------------------------------------------------------------------------------------------------


def reduced(row, x, axis=None, dtype=None, out=None, keepdims=False, initial=None, where=True):
    """Reduce by dask's function of this name, which has no options `initial` and `where`."""
    if where is not True:
        start = initial if row.reduces.identity is None else row.reduces.identity
        if start is None:
            raise NotImplementedError("dask takes no where=")
        x = da.where(where, x, start).astype(x.dtype)
    ans = getattr(da, row.fn.__name__)(x, axis=axis, keepdims=keepdims is True, **({} if dtype is None else {"dtype": dtype}))
    return ans if initial is None else getattr(da, row.reduces.__name__)(ans, initial).astype(ans.dtype)


def mean(x, axis=None, dtype=None, out=None, keepdims=False, *, where=True):
    if where is True:
        return da.mean(x, axis=axis, dtype=dtype, keepdims=keepdims is True)
    count = da.sum(da.broadcast_to(da.asarray(where), x.shape), axis=axis, keepdims=keepdims is True)
    ans = reduced(ROWS[np.sum], x, axis, dtype, None, keepdims, None, where)
    return (ans / count).astype(ans.dtype if ans.dtype.kind in "fc" else float)


def spread(reduce):
    def rule(x, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, where=True, correction=None):
        if where is not True and where is not np._NoValue:
            raise NotImplementedError("dask takes no where=")
        ddof = ddof if correction in (None, np._NoValue) else correction
        return reduce(x, axis=axis, dtype=dtype, ddof=ddof, keepdims=keepdims is True)

    return rule


variance, deviation = spread(da.var), spread(da.std)


def root_of_squares(x, axis, keepdims):
    return da.sqrt(da.sum(da.real(x) ** 2 + da.imag(x) ** 2 if x.dtype.kind == "c" else x * x, axis=axis, keepdims=keepdims))


def counted(x, axis=None, *, keepdims=False):
    return da.sum(x != 0, axis=axis, keepdims=keepdims)


# --- moving elements ----------------------------------------------------------------------------------------------------------------


def reshaped(x, shape=None, order="C", **options):
    if order != "C":
        raise NotImplementedError(f"the order is {order!r}: dask has order C only")
    return da.reshape(x, (shape,) if issubclass(type(shape), int | np.integer) else shape)


def element(x, index):
    parts = index if type(index) is tuple else (index,)
    if len(parts) == 1 and issubclass(type(x), np.ndarray) and isinstance(parts[0], da.Array):
        return looked_up(x, parts[0])
    if any(isinstance(part, da.Array) for part in parts):
        raise NotImplementedError("it is indexed by a dask array: choose with np.where")
    arrays = [part for part in parts if not is_basic(part)]
    if len(arrays) > 1 and all(np.ndim(part) == 1 for part in arrays):
        return pointed(x, expand_index(index, x.ndim))
    if (
        len(arrays) > 1
        or any(np.ndim(part) != 1 for part in arrays)
        or (arrays and any(issubclass(type(p), int | np.integer) for p in parts))
    ):
        raise NotImplementedError("dask indexes with one array of one axis at a time, and with no integers beside it")
    return x[index]


def pointed(x, parts):
    """Return the elements at places that several arrays give, as those of a diagonal are."""
    arrays = [k for k, part in enumerate(parts) if not is_basic(part)]
    if arrays != list(range(arrays[0], arrays[-1] + 1)) or any(is_basic(part) and part != slice(None) for part in parts):
        raise NotImplementedError("several arrays index it beside integers and slices: index in two steps")
    return da.moveaxis(x.vindex[tuple(parts)], 0, arrays[0])


def looked_up(table, places):
    """Return the rows of a plain array at computed places."""
    behind = table.ndim - 1
    return da.map_blocks(
        lambda places: table[places],
        places,
        dtype=table.dtype,
        new_axis=[places.ndim + k for k in range(behind)] or None,
        chunks=(*places.chunks, *((n,) for n in table.shape[1:])),
    )


def placed_in_order(a, v, side="left", sorter=None):
    if sorter is not None or isinstance(a, da.Array):
        raise NotImplementedError("the sorted array is a dask array, or sorter= is given")
    return da.map_blocks(lambda v: np.searchsorted(a, v, side), v, dtype=np.intp)


def assigned(x, v, index, ops=()):
    """Return a dask array in which the part that views and then an index show is another."""
    if ops:
        (fn, args, _), *rest = ops
        if fn is not getitem:
            raise TypeError(f"a dask array is written through a view made by {public_name(fn)}: write x[index] = v")
        index, v = args[0], assigned(x[args[0]], v, index, rest)
    parts = expand_index(index, x.ndim)
    if any(part is None for part in parts):  # which dask does not take here
        shown = [part for part in parts if part is None or isinstance(part, slice)]
        new_axes = tuple(k - len(shown) for k, part in enumerate(shown) if part is None)
        v = np.squeeze(v, tuple(axis for axis in new_axes if -axis <= np.ndim(v)))
        index = tuple(part for part in parts if part is not None)
    if any(issubclass(type(part), np.ndarray) and part.ndim > 1 for part in parts):
        raise TypeError("a dask array is not assigned to at a mask or at places of several axes: write numpy.where(mask, v, x)")
    y = x.copy()
    try:
        y[index] = v
    except TypeError as error:
        raise TypeError(f"dask does not assign to a dask array at {index!r}: write numpy.where(mask, v, x)") from error
    return y


def scattered(g, index, like):
    """The transpose of `element`."""
    whole = da.zeros(like.shape, dtype=like.dtype, chunks=chunks_of(like.shape, like.dtype))
    if 0 in g.shape:  # of which dask neither takes nor assigns elements in several axes
        return whole
    g, parts = da.asarray(g), expand_index(index, len(like.shape))
    arrays = [i for i, part in enumerate(parts) if np.ndim(part)]
    advanced = [i for i, part in enumerate(parts) if part is not None and not isinstance(part, slice)]
    if arrays and advanced[-1] - advanced[0] >= len(advanced):  # numbers and arrays apart: NumPy puts the axis of the places first
        g = da.moveaxis(g, 0, sum(part is None or isinstance(part, slice) for part in parts[: arrays[0]]))
    if len(arrays) > 1:
        g = paired(g, arrays, parts, like)
    elif arrays:
        [i] = arrays
        axis, before = i - sum(part is None for part in parts[:i]), [part for part in parts[:i] if part is None or isinstance(part, slice)]
        g = collected(g, len(before), np.asarray(parts[i]), like.shape[axis])
    return assigned(whole, g.astype(like.dtype), tuple(slice(None) if np.ndim(part) else part for part in parts))


def paired(g, arrays, parts, like):
    """Return elements along one axis at pairs of places in two, as on a diagonal."""
    k, axis = arrays[0], arrays[0] - sum(part is None for part in parts[: arrays[0]])
    n, m = like.shape[axis : axis + 2]
    rows, columns = (np.asarray(parts[i]) for i in arrays[:2])
    alike = rows.ndim == 1 and rows.shape == columns.shape and bool not in (rows.dtype, columns.dtype)
    if arrays != [k, k + 1] or not alike or len(np.unique(rows % n)) < len(rows):
        raise NotImplementedError("the transpose of indexing with several arrays: write it with slices or np.where")
    column = np.full(n, -1)
    column[rows] = columns % m
    behind = (None,) * (g.ndim - k - 1)
    chosen = (da.from_array(column)[:, None] == da.arange(m))[(..., *behind)]
    return da.where(chosen, da.expand_dims(collected(g, k, rows, n), k + 1), 0.0)


def collected(g, axis, places, n):
    """Return n elements along an axis, each the sum of those of g that come from its place."""
    if places.ndim > 1:
        raise NotImplementedError("the transpose of indexing with an array of several axes: index with one axis")
    places = np.flatnonzero(places) if places.dtype == bool else places % n
    order = np.argsort(places, kind="stable")
    turn = np.empty(len(places), int)  # how many came from the same place before
    turn[order] = np.arange(len(places)) - np.searchsorted(places[order], places[order])
    zeros = [(0, 1) if k == axis else (0, 0) for k in range(g.ndim)]
    padded, total = surrounded(g, zeros), 0.0
    for k in range(turn.max(initial=0) + 1):
        source = np.full(n, len(places))
        source[places[turn == k]] = np.flatnonzero(turn == k)
        total = total + da.take(padded, source, axis)
    return total


def surrounded(x, pad_width, constant_values=0):
    """Pad, with chunks no larger than those that are there."""
    if np.ndim(constant_values):
        raise NotImplementedError("the constants of a pad differ")
    for axis, (before, after) in enumerate(pad_width):
        parts = []
        for count in (before, None, after):
            if count is None:
                parts.append(x)
            elif count:
                shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
                chunks = (*x.chunks[:axis], max(1, *x.chunks[axis]), *x.chunks[axis + 1 :])
                parts.append(da.full(shape, constant_values, dtype=x.dtype, chunks=chunks))
        x = da.concatenate(parts, axis=axis) if len(parts) > 1 else x
    return x


def repeated(x, repeats, axis=None):
    if not issubclass(type(repeats), int | np.integer):
        raise NotImplementedError("each element is repeated another number of times")
    return da.repeat(da.ravel(x), repeats, 0) if axis is None or not x.ndim else da.repeat(x, repeats, axis)


def taken(x, indices, axis=None, out=None, mode="raise"):
    if mode != "raise" or isinstance(indices, da.Array):
        raise NotImplementedError(f"mode={mode!r}" if mode != "raise" else "it is indexed by a dask array")
    if np.ndim(indices) > 1:
        raise NotImplementedError("dask takes indices of one axis")
    return da.take(da.ravel(x) if axis is None else x, int(indices) if np.ndim(indices) == 0 else np.asarray(indices), axis or 0)


def rolled(x, shift, axis=None):
    if axis is None:
        return da.roll(x, int(np.sum(shift)))
    return da.roll(x, *(part.ravel().tolist() for part in np.broadcast_arrays(shift, axis)))


def triangle(keeps):
    def rule(x, k=0):
        if x.ndim < 2:
            raise NotImplementedError("it has one axis")
        rows, columns = (da.arange(n, chunks=(chunks,)) for n, chunks in zip(x.shape[-2:], x.chunks[-2:], strict=True))
        return da.where(keeps(columns, rows[:, None] + k), x, x.dtype.type(0))

    return rule


lower_triangle, upper_triangle = triangle(operator.le), triangle(operator.ge)  # dask's own warn of complex numbers


def joined(join):
    def rule(*arrays, axis=0, dtype=None, casting=None):
        parts = [da.asarray(x) for x in arrays]
        if axis is None:
            parts, axis = [da.ravel(x) for x in parts], 0
        result = join(parts, axis=axis)
        return result if dtype is None else result.astype(dtype)

    return rule


concatenated, stacked = joined(da.concatenate), joined(da.stack)


def differences(x, axis):
    before = (slice(None),) * (axis % x.ndim)
    return x[(*before, slice(1, None))] - x[(*before, slice(None, -1))]


def scattered_differences(g, axis):
    widths = [[(0, 0)] * g.ndim for _ in range(2)]
    widths[0][axis % g.ndim], widths[1][axis % g.ndim] = (1, 0), (0, 1)
    return surrounded(g, widths[0]) - surrounded(g, widths[1])


def blank_like(x, dtype=None, order="K"):
    return da.zeros_like(x, dtype=dtype)


def blank_filled(x, shape, dtype=None, order="C"):
    shape = (shape,) if issubclass(type(shape), int | np.integer) else tuple(shape)
    return da.zeros(shape, dtype=dtype or x.dtype, chunks=chunks_of(shape, x.dtype))


def chunks_of(shape, dtype):
    """Return chunks for a new array: those of the last one of its shape, or dask's choice."""
    known = CHUNKS.get(shape)
    return da.core.normalize_chunks("auto", shape, dtype=dtype) if known is None else known


def broadcast(x, shape, subok=False):
    shape = (shape,) if issubclass(type(shape), int | np.integer) else tuple(shape)
    lead, chunks = len(shape) - x.ndim, list(chunks_of(shape, x.dtype))
    for axis, n in enumerate(x.shape):
        if n != 1 or shape[lead + axis] == 1:
            chunks[lead + axis] = x.chunks[axis]
    return da.broadcast_to(x, shape, chunks=tuple(chunks))


def product(multiply):
    def rule(a, b, **options):
        a, b = da.asarray(a), da.asarray(b)
        return multiply(a, b) if a.ndim and b.ndim else a * b

    return rule


matrix_product, dot_product = product(da.matmul), product(da.dot)


def outer(a, b, out=None):
    return da.outer(da.asarray(a), da.asarray(b))


def einsum(*arrays, subscripts, **options):
    return da.einsum(subscripts, *arrays)
