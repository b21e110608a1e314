"""Rearranging, selecting and making arrays, beyond `shapes`; all made of other rows.

Where NumPy only moves elements about, the rule asks it to move their positions, and takes the elements there.
"""

import math
from contextlib import suppress
from functools import reduce
from itertools import accumulate
from numbers import Number

from numpy.lib.array_utils import normalize_axis_index

from .batching import axis_form, joined_form
from .constants import evaluate, functions_named
from .cotangents import FLOAT, Abstract, is_complex, ndim_of, shape_of
from .indexing import cast, in_range, is_traced, scatter
from .kinds import composite, elementwise, joined, linear
from .memory import as_plain_array, in_order
from .names import np
from .scalars import kernel
from .shapes import as_array, by_numpy, clamp_high, clamp_inside, clamp_low, positions

NO = np._NoValue
windows = np.lib.stride_tricks.sliding_window_view


def scatter_back(g, places, x):
    """Return the cotangent of `x`, where `g` is that of its elements at flat places."""
    return np.reshape(scatter(np.ravel(g), np.ravel(places), Abstract.of((x.size,), x.dtype)), x.shape)


# --- turning and splitting --------------------------------------------------------------------------------------------------


def split(x, indices_or_sections, axis=0):
    axis = normalize_axis_index(axis, ndim_of(x))
    if issubclass(type(indices_or_sections), int | np.integer) and shape_of(x)[axis] % indices_or_sections:
        raise ValueError("array split does not result in an equal division")
    return array_split(x, indices_or_sections, axis)


def array_split(x, indices_or_sections, axis=0):
    axis = normalize_axis_index(axis, ndim_of(x))
    n = shape_of(x)[axis]
    if issubclass(type(indices_or_sections), int | np.integer):
        short, extra = divmod(n, indices_or_sections)
        cuts = np.cumsum([short + 1] * extra + [short] * (indices_or_sections - extra))[:-1].tolist()
    else:
        cuts = list(indices_or_sections)
    before = (slice(None),) * axis
    return [x[(*before, slice(a, b))] for a, b in zip([0, *cuts], [*cuts, n], strict=True)]


def broadcast_arrays(*args, subok=False):
    shape = np.broadcast_shapes(*map(np.shape, args))
    if all(np.shape(arg) == shape for arg in args):
        return tuple(arg if np.ndim(arg) else as_plain_array(arg) for arg in args)
    return tuple(np.broadcast_to(arg, shape) for arg in args)


def meshgrid(*xi, copy=True, sparse=False, indexing="xy"):
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    axes = list(range(len(xi)))
    if indexing == "xy" and len(xi) > 1:
        axes[:2] = 1, 0
    grid = [np.reshape(x, [-1 if k == axis else 1 for k in range(len(xi))]) for x, axis in zip(xi, axes, strict=True)]
    grid = grid if sparse else np.broadcast_arrays(*grid)
    return tuple(np.copy(x, "C") for x in grid) if copy else tuple(grid)


# --- joining: the table sees the arrays as positional arguments ---------------------------------------------------------------


def positional(args, kwargs):
    """Turn ``join(arrays, axis)`` into ``join(*arrays, axis=axis)``."""
    arrays, *axis = args
    return tuple([list(a) if type(a) is tuple else a for a in arrays]), {**kwargs, **({"axis": axis[0]} if axis else {})}


def variadic(fn):
    """Return the function that takes its arrays as positional arguments."""
    return lambda *arrays, **kwargs: fn(arrays, **kwargs)


def stacked(*arrays, axis=0, **options):
    """Compute ``np.stack``; for numbers and vectors by ``np.array``, at a quarter of its cost."""
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


def hstack(arrays, **options):
    arrays = [a if ndim_of(a) else np.atleast_1d(a) for a in arrays]
    return np.concatenate(arrays, axis=0 if ndim_of(arrays[0]) == 1 else 1, **options)


def column_stack(arrays):
    return np.concatenate([a if ndim_of(a) > 1 else np.reshape(a, (-1, 1)) for a in arrays], axis=1)


# --- nesting, inserting, leaving out ----------------------------------------------------------------------------------------


def block(arrays):
    ndim = max(depth(arrays), *(np.ndim(leaf) for leaf in leaves(arrays)))

    def join(arrays, levels):
        if not isinstance(arrays, list):
            return np.reshape(arrays, (1,) * (ndim - np.ndim(arrays)) + np.shape(arrays))
        return np.concatenate([join(part, levels - 1) for part in arrays], axis=-levels)

    return join(arrays, depth(arrays)) if depth(arrays) else np.copy(arrays, "C")


def depth(arrays):
    """Return how deep lists are nested."""
    return 1 + max(map(depth, arrays)) if isinstance(arrays, list) else 0


def leaves(arrays):
    return [leaf for part in arrays for leaf in leaves(part)] if isinstance(arrays, list) else [arrays]


def insert_arrays(args, kwargs):
    """Bring the arrays of ``np.insert`` into position, as arrays."""
    arr, obj, values, *axis = (*args, *(kwargs.pop("values"),)[: 3 - len(args)]) if "values" in kwargs else args
    arr, given, values = as_array(arr), values, as_array(values)
    if is_complex(values) and not (is_complex(arr) or hasattr(given, "dtype")):
        raise TypeError("numpy.insert: complex numbers cannot be inserted into a real array, as in NumPy: make it complex (x + 0j)")
    return (arr, obj, values, *axis), kwargs


def insert_transpose(i, g, arr, obj, values, axis=None):
    places = np.insert(positions(arr), obj, arr.size + positions(values), axis)
    mine = (places >= arr.size) == (i == 2)
    return scatter_back(g[mine], places[mine] - (arr.size if i == 2 else 0), values if i == 2 else arr)


# --- choosing ---------------------------------------------------------------------------------------------------------------


def compress(condition, a, axis=None, out=None):
    return np.take(a, np.flatnonzero(condition), axis)


def choose(a, choices, out=None, mode="raise"):
    choices = [choices[i] for i in range(len(choices))]
    a = a if is_traced(a) else np.asarray(a)
    a = in_range(a, len(choices), mode)
    if mode == "raise" and np.any((a < 0) | (a >= len(choices))):
        raise ValueError("invalid entry in choice array")
    ans = choices[0]
    for i, choice in enumerate(choices[1:], 1):
        ans = np.where(a == i, choice, ans)
    return in_order(np.broadcast_to(ans, np.broadcast_shapes(np.shape(a), *map(np.shape, choices))), "C")[()]


def select(condlist, choicelist, default=0):
    if len(condlist) != len(choicelist) or not len(condlist):
        raise ValueError("list of cases must be same length as list of conditions")
    ans = default
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        ans = np.where(condition, choice, ans)
    return in_order(ans, "C")


def piecewise(x, condlist, funclist, *args, **kw):
    """Evaluate each function only where its condition holds, so that no other branch spoils the derivative."""
    ndim = np.ndim(x)
    single = not hasattr(condlist, "__len__") or (ndim and not (issubclass(type(condlist[0]), list | np.ndarray) or np.ndim(condlist[0])))
    conditions = [np.not_equal(c, 0) if is_traced(c) else np.asarray(c, bool) for c in ([condlist] if single else condlist)]
    if len(funclist) == len(conditions) + 1:
        conditions.append(np.logical_not(reduce(np.logical_or, conditions)))
    if len(funclist) != len(conditions):
        raise ValueError(f"numpy.piecewise: {len(funclist)} functions for {len(conditions)} conditions: give as many, or one more")
    y = np.zeros_like(x) if ndim else np.zeros_like(x, shape=(1,))
    rows = x if ndim else np.reshape(x, (1,))
    for condition, fn in zip(conditions, funclist, strict=True):
        place = condition if ndim else np.reshape(condition, (1,))
        if is_traced(place) or np.any(place):
            y[place] = fn(rows[place], *args, **kw) if callable(fn) else fn
    return y if ndim else np.reshape(y, ())


def sort_complex(a):
    ans = np.sort(a)
    return ans if np.iscomplexobj(ans) else cast(ans, np.dtype(complex))


def unique(ar, return_index=False, return_inverse=False, return_counts=False, axis=None, *, equal_nan=True, **options):
    values = evaluate(unique_parts, ar, axis, {"equal_nan": equal_nan, **options})
    ans = np.take(ar, values[1], axis)
    wanted = [part for part, asked in zip(values[1:], (return_index, return_inverse, return_counts), strict=True) if asked]
    return (ans, *wanted) if wanted else ans


def unique_parts(ar, axis, options):
    return np.unique(ar, True, True, True, axis, **options)


# --- along axes -------------------------------------------------------------------------------------------------------------


def apply_along_axis(func1d, axis, arr, *args, **kwargs):
    axis = normalize_axis_index(axis, np.ndim(arr))
    moved = np.moveaxis(arr, axis, -1)
    outer = np.shape(moved)[:-1]
    rows = np.reshape(moved, (math.prod(outer), np.shape(moved)[-1]))
    if not np.shape(rows)[0]:
        raise ValueError("Cannot apply_along_axis when any iteration dimensions are 0")
    results = [func1d(rows[i], *args, **kwargs) for i in range(np.shape(rows)[0])]
    inner = np.shape(results[0])
    ans = np.reshape(np.stack(results), (*outer, *inner))
    kind = getattr(results[0], "dtype", ans.dtype)  # NumPy's buffer has the dtype of the first result
    ans = cast(ans, kind) if kind.kind in "fc" and ans.dtype != kind else ans
    return np.moveaxis(ans, tuple(range(len(outer), len(outer) + len(inner))), tuple(range(axis, axis + len(inner))))


# --- sequences --------------------------------------------------------------------------------------------------------------


def step_shares(num, endpoint, like):
    """Return k / (number of steps), for each k, on a leading axis; in the precision of `like`."""
    if num < 0:
        raise ValueError(f"Number of samples, {num}, must be non-negative.")
    steps = max(num - 1 if endpoint else num, 1)
    return np.reshape((np.arange(num) / steps).astype(np.empty(0, like.dtype).real.dtype), (-1, *(1,) * np.ndim(like)))


def common_ends(*ends):
    """Return the ends as arrays of floats of one shape and dtype; Python's numbers take the others' dtype."""
    kind = np.result_type(*(end if hasattr(end, "dtype") or issubclass(type(end), Number) else np.asarray(end) for end in ends), 1.0)
    return np.broadcast_arrays(*(cast(end if hasattr(end, "dtype") else np.asarray(end), kind) for end in ends))


def linspace(start, stop, num=50, endpoint=True, retstep=False, dtype=None, axis=0, *, device=None):
    num = int(num)
    start, stop = common_ends(start, stop)
    ans = start + step_shares(num, endpoint, start) * (stop - start)
    if endpoint and num > 1:
        ans = np.concatenate([ans[:-1], np.expand_dims(stop, 0)], axis=0)
    ans = np.moveaxis(ans, 0, axis)
    ans = ans if dtype is None else (np.floor(ans) if np.dtype(dtype).kind in "iu" else ans).astype(dtype)
    return (ans, (stop - start) / max(num - 1 if endpoint else num, 1)) if retstep else ans


def logspace(start, stop, num=50, endpoint=True, base=10.0, dtype=None, axis=0):
    start, stop, base = common_ends(start, stop, base)
    ans = np.moveaxis(np.power(base, linspace(start, stop, num, endpoint)), 0, axis)
    return ans if dtype is None else ans.astype(dtype)


def geomspace(start, stop, num=50, endpoint=True, dtype=None, axis=0):
    start, stop = common_ends(start, stop, np.float64(0.0))[:2]
    evaluate(check_no_zero, start, stop)
    ans = start * np.power(stop / start, step_shares(num, endpoint, start))
    ans = np.moveaxis(ans, 0, axis)
    return ans if dtype is None else ans.astype(dtype)


def check_no_zero(start, stop):
    if np.any(start == 0) or np.any(stop == 0):
        raise ValueError("Geometric sequence cannot include zero")
    return start


def astype(x, dtype, /, *, copy=True, device=None):
    return x if not copy and x.dtype == np.dtype(dtype) else x.astype(dtype)


# --- the table --------------------------------------------------------------------------------------------------------------

# fmt: off
for fn in functions_named(np, """rot90 rollaxis fliplr flipud hsplit vsplit dsplit ix_ apply_over_axes
                               dstack unstack append resize extract"""):
    composite(fn, by_numpy(fn))
composite(np.split,     split)
composite(np.array_split, array_split)
composite(np.broadcast_arrays, broadcast_arrays)
composite(np.meshgrid,  meshgrid)
linear(windows,         lambda g, x, window_shape, axis=None, **options: scatter_back(g, windows(positions(x), window_shape, axis), x),
       view="always", moves=True, batch=axis_form, lower="windows")
joined(np.concatenate, concatenate_transpose, call=variadic(np.concatenate), canonical=positional, moves=True, joins="axis", cheap=True,
       parts=concatenated_parts, batch=joined_form, blocks="concatenated", lower="concatenate")
joined(np.stack,       lambda i, g, *arrays, axis=0, **options: g[(*(slice(None),) * (axis % ndim_of(g)), i)], call=stacked,
       canonical=positional, moves=True, joins="rows", cheap=True, parts=stacked_parts, batch=joined_form, blocks="stacked", lower="stack")
composite(np.vstack,       lambda arrays, **options: np.concatenate([np.atleast_2d(a) for a in arrays], axis=0, **options))
composite(np.hstack,       hstack)
composite(np.column_stack, column_stack)
composite(np.block,     block)
joined(np.insert,       insert_transpose, argnums=(0, 2), canonical=insert_arrays, pattern="inserted", lower="insert")
linear(np.delete,       lambda g, x, *args, **kwargs: scatter_back(g, np.delete(positions(x), *args, **kwargs), x), moves=True,
       blocks="without", lower="delete")
composite(np.diagflat,  lambda v, k=0: np.diag(np.ravel(v), k))
composite(np.compress,  compress)
composite(np.choose,    choose)
composite(np.select,    select, with_numpy_value=True)
composite(np.piecewise, piecewise)
composite(np.unique, unique, value_dependent=True, with_numpy_value=True)
for fn in functions_named(np, "trim_zeros unique_all unique_counts unique_inverse unique_values union1d intersect1d setxor1d setdiff1d"):
    composite(fn, by_numpy(fn), value_dependent=True)
composite(np.sort_complex, sort_complex)
composite(np.apply_along_axis, apply_along_axis)
composite(np.linspace,  linspace, with_numpy_value=True)
composite(np.logspace,  logspace, with_numpy_value=True)
composite(np.geomspace, geomspace, with_numpy_value=True)
elementwise(np._core.umath.clip, clamp_inside, clamp_low, clamp_high, name="numpy._core.umath.clip",  # the method of plain arrays
            scalar=kernel("clip", 3, 4, "fiu", dtype=None))
composite(np._core.umath._ones_like, lambda x: np.ones_like(x))
composite(np.astype,    astype)
# fmt: on
