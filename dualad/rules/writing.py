"""Functions that write into an array: into a traced one by assignment; a plain one cannot hold a derivative."""

from .calling import public_name
from .indexing import accumulated, getitem, in_range, is_traced, last_kept
from .kinds import composite, joined, primitive
from .names import np


def written(instead):
    """Make a body that writes into its first argument, and raises where that is a plain array, saying what to write instead."""

    def decorate(write):
        def body(x, *args, **kwargs):
            check_destination(x, public_name(getattr(np, write.__name__)), instead)
            write(x, *args, **kwargs)

        return body

    return decorate


def check_destination(x, name, instead):
    """Raise where the array to write into is a plain one."""
    if not hasattr(x, "__dualad_apply__"):
        kind = np.ndarray if issubclass(type(x), np.ndarray) else type(x)
        raise TypeError(
            f"{name}: the array to write into is a plain {kind.__name__}, which cannot hold traced values. Make it "
            f"with np.zeros_like(x, shape=...) or, from a plain array a, with np.array(a, like=x) of a traced array x, or use {instead}"
        )


def places(ind, size, mode="raise"):
    """Return flat positions as non-negative integers."""
    ind = in_range(np.ravel(ind), size, mode)
    if ind.size and (ind.max() >= size or ind.min() < -size):
        raise IndexError(f"index {ind[np.argmax(np.abs(ind))]} is out of bounds for an array of {size} elements")
    return ind % size if size else ind


def cycled(values, count):
    """Return `count` of the values, from the first again after the last."""
    values = np.ravel(values)
    return values[np.arange(count) % np.size(values)]


@written("np.where(mask, src, dst) (np.full and np.full_like of a traced value come here too: np.ones_like(a) * v)")
def copyto(dst, src, casting="same_kind", where=True):
    if src is dst:  # nothing, also into what is read-only
        return
    if where is True:
        dst[...] = src
    else:
        dst[...] = np.where(where, src, dst)


@written("x[ind] = v, or np.where")
def put(a, ind, v, mode="raise"):
    flat = places(ind, a.size, mode)
    if flat.size:
        a[np.unravel_index(flat, a.shape)] = cycled(v, flat.size)


@written("np.where(mask, values, x)")
def putmask(a, mask, values):
    mask = np.broadcast_to(np.not_equal(mask, 0), a.shape)
    a[...] = np.where(mask, np.reshape(cycled(values, a.size), a.shape), a)


@written("np.where(mask, vals, x)")
def place(arr, mask, vals):
    mask = np.reshape(np.not_equal(mask, 0), arr.shape)
    if is_traced(mask) or np.any(mask):
        turn = np.reshape(np.cumsum(mask) - 1, arr.shape) % np.size(vals)
        arr[...] = np.where(mask, getitem(np.ravel(vals), turn), arr)


@written("np.where(np.eye(n, dtype=bool), val, x)")
def fill_diagonal(a, val, wrap=False):
    inside = np.zeros(a.shape, bool)
    np.fill_diagonal(inside, True, wrap)
    a[inside] = cycled(val, int(np.sum(inside)))


@written("np.where")
def put_along_axis(arr, indices, values, axis):
    if axis is None:
        put(arr, indices, values)
        return
    axis %= arr.ndim
    grid = np.ogrid[tuple(slice(n) for n in np.shape(indices))] if np.ndim(indices) else ()
    spread = np.ogrid[tuple(slice(n) for n in arr.shape)]
    arr[tuple(indices if i == axis else grid[i] if np.shape(indices)[i] > 1 else spread[i] for i in range(arr.ndim))] = values


# --- ufunc.at ---------------------------------------------------------------------------------------------------------------


def at(ufunc):
    """Return ``ufunc.at``: ``x[index] = ufunc(x[index], b)``, once more for each time that a position repeats."""

    def body(x, index, *b):
        check_destination(x, f"numpy.{ufunc.__name__}.at", "np.bincount, or x[index] = ... without repeated positions")
        position = getitem(np.arange(x.size).reshape(x.shape), index)
        if ufunc in (np.add, np.subtract) and np.ndim(position):
            x[...] = added(x, b[0] if ufunc is np.add else -b[0], index)
            return
        flat = np.ravel(position)
        b = tuple(np.ravel(np.broadcast_to(v, np.shape(position))) for v in b)
        if is_traced(index):
            x[...] = np.reshape(changed_at(ufunc, np.ravel(x), flat, b), x.shape)
            return
        for turn in turns_of_positions(flat):
            where = np.unravel_index(flat[turn], x.shape)
            x[where] = ufunc(x[where], *(v[turn] for v in b))

    return body


@primitive
def added(x, b, index):
    """Return a copy of `x` with `b` added at `index`, in the order of the index where positions repeat."""
    return accumulated(x.copy("K"), b, index)


def added_form(fn, args, kwargs, batched):
    x, b, index = args
    count = next(args[i].shape[0] for i in batched)
    x, b = (
        np.moveaxis(arg, 0, -1) if i in batched else np.broadcast_to(arg[..., None], (*np.shape(arg), count)) if np.ndim(arg) else arg
        for i, arg in enumerate((x, b))
    )
    return np.moveaxis(fn(x, b, last_kept(index if type(index) is tuple else (index,))), -1, 0)


def changed_at(ufunc, x, flat, b):
    """Return what ``ufunc.at`` makes of a vector at traced positions: how often one of them repeats is known to a path of the function."""
    rank = repetitions(flat)
    for turn in range(flat.size):
        if turn and not np.any(rank == turn):  # of one position nothing is asked
            break
        longer = np.concatenate([x, x[:1]])
        longer[np.where(rank == turn, flat, x.size)] = ufunc(x[flat], *b)  # what has another turn is written behind the end
        x = longer[:-1]
    return x


def turns_of_positions(flat):
    """Return, for each repetition, the places in `flat` where a position stands for the first, second, ... time."""
    rank = repetitions(flat)
    return [np.flatnonzero(rank == k) for k in range(int(rank.max(initial=-1)) + 1)]


def repetitions(flat):
    """Return how often each position stands in `flat` before."""
    order, numbers = np.argsort(flat, kind="stable"), np.arange(flat.size)
    fresh = np.concatenate([numbers[:1] == 0, np.diff(flat[order]) != 0])
    return (numbers - np.maximum.accumulate(np.where(fresh, numbers, 0)))[np.argsort(order, kind="stable")]


# --- the table --------------------------------------------------------------------------------------------------------------

# fmt: off
composite(np.copyto,         copyto, writes=True)
composite(np.put,            put, writes=True)
composite(np.putmask,        putmask, writes=True)
composite(np.place,          place, writes=True)
composite(np.fill_diagonal,  fill_diagonal, writes=True)
composite(np.put_along_axis, put_along_axis, writes=True)
joined(added,                lambda i, g, x, b, index: g if i == 0 else getitem(g, index), argnums=(0, 1), pattern="added_at",
       batch=added_form, lower="added_at", name="np.add.at")  # x - v is x + (-v), to the last bit
# fmt: on
