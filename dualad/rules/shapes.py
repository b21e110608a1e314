"""Shapes: rearranging, selecting, repeating and padding elements; buffers like a given array."""

import math
import operator
import sys
from functools import cache, partial, wraps
from types import FunctionType, ModuleType

from .batching import (
    axis_form,
    broadcast_to_form,
    flat_form,
    last_two,
    natural,
    over_axes,
    permuted_form,
    reshape_form,
    roll_form,
    surround_form,
    tile_form,
)  # fmt: skip
from .calling import public_name
from .constants import evaluate
from .cotangents import Abstract, any_traced, is_complex, is_symbolic, ndim_of, shape_of, unbroadcast
from .indexing import getitem, in_range, scatter, stated
from .kinds import composite, constant, elementwise, explicit, joined, linear
from .memory import axes_and_order, in_order
from .names import np
from .primitives import dispatching, primitive
from .scalars import ANY, Scalar, choose, itself, kernel

NO = np._NoValue


# --- functions of our own ---------------------------------------------------------------------------------------------------


@primitive
def select(condition, x, y):
    """Return ``np.where(condition, x, y)``."""
    return np.where(condition, x, y)


@primitive
def clamp(x, low, high):
    """Return ``np.clip(x, low, high)`` with both bounds given."""
    return np.clip(x, low, high)


@primitive
def length(mask):
    """Return how many elements a mask selects, as Python's number, which the length of an array is."""
    return int(np.count_nonzero(mask))


@primitive
def blank(x, dtype=None, order="K"):
    """Return zeros of the shape of `x`: a buffer to write into."""
    return np.zeros_like(x, dtype=dtype, order=order, subok=False)


@primitive
def zeros_of_shape(x, shape, dtype=None, order="C"):
    """Return zeros of another shape, traced like `x`: a buffer to write into."""
    if order in ("C", "F"):
        return np.zeros(shape, dtype or getattr(x, "dtype", None) or np.result_type(x), order)
    return np.zeros_like(x, dtype, order, False, shape)


# --- rearranging ------------------------------------------------------------------------------------------------------------


def known_order(args, kwargs):
    """Bring a call of `ravel` or `reshape` to one with order "C" or "F", which others ("A", "f", b"F") mean for the memory layout."""
    given = kwargs.get("order") or next((arg for arg in args[1:] if issubclass(type(arg), str | bytes)), "C")
    if (type(given) is str and given in ("C", "F")) or not args:
        return args, kwargs
    order = (given.decode() if isinstance(given, bytes) else str(given)).upper()
    axes, known = axes_and_order(args[0], order) if order in ("A", "K") else (None, order)
    if known not in ("C", "F"):
        return args, kwargs
    rest = [known if arg is given else arg for arg in args[1:]]
    kwargs = {**kwargs, "order": known} if "order" in kwargs else kwargs
    return (args[0] if axes is None else np.transpose(args[0], axes), *rest), kwargs


def of_number(fn):
    """Make `fn` take a Python float for the NumPy number that it stands for, of which a NumPy function makes a number."""
    return wraps(fn)(lambda x, *args, **kwargs: fn(np.float64(x) if type(x) is float else x, *args, **kwargs))


def transpose_transpose(g, x, axes=None):
    return np.transpose(g) if axes is None else np.transpose(g, tuple(np.argsort([a % g.ndim for a in axes])))


roll = dispatching(np.roll, np.roll)


@wraps(np.roll)
def rolled(a, shift, axis=None):
    if axis is None and type(a) is np.ndarray and a.ndim == 1:
        axis = 0
    if type(a) is not np.ndarray or type(shift) is not int or type(axis) is not int or not (a.size and -a.ndim <= axis < a.ndim):
        return roll(a, shift, axis)
    out, whole = np.empty_like(a), (slice(None),) * (axis % a.ndim)  # two copies, at a third of NumPy's cost
    shift %= a.shape[axis]
    out[(*whole, slice(shift, None))] = a[(*whole, slice(None, a.shape[axis] - shift))]
    out[(*whole, slice(None, shift))] = a[(*whole, slice(a.shape[axis] - shift, None))]
    return out


def roll_transpose(g, x, shift, axis=None):
    return rolled(g, tuple(-s for s in shift) if isinstance(shift, tuple | list) else -shift, axis)


# --- diagonals --------------------------------------------------------------------------------------------------------------


def diagonal_transpose(g, x, offset=0, axis1=0, axis2=1):
    index = [slice(None)] * len(x.shape)
    n = shape_of(g)[-1]
    rows, columns = np.arange(n) + max(-offset, 0), np.arange(n) + max(offset, 0)
    axes = [axis1 % len(x.shape), axis2 % len(x.shape)]
    rest = [i for i in range(len(x.shape)) if i not in axes]
    full = scatter(g, (*index[:-2], rows, columns), Abstract.of((x.shape[i] for i in (*rest, *axes)), x.dtype))
    return np.transpose(full, tuple(np.argsort([*rest, *axes])))


def diag(v, k=0):
    if ndim_of(v) == 2:
        return np.diagonal(v, k)
    if ndim_of(v) != 1:
        raise ValueError("Input must be 1- or 2-d.")
    places = np.arange(shape_of(v)[0])
    return scatter(v, (places + max(-k, 0), places + max(k, 0)), Abstract.of((shape_of(v)[0] + abs(k),) * 2, v.dtype))


# --- repeating and padding --------------------------------------------------------------------------------------------------


def take_transpose(g, x, indices, axis=None, out=None, mode="raise"):
    shape, axis = ((math.prod(x.shape),), 0) if axis is None or not x.shape else (x.shape, axis % len(x.shape))
    n, indices = shape[axis], indices if hasattr(indices, "__dualad_apply__") else np.asarray(indices)
    if not math.prod(shape):
        return np.zeros(x.shape, x.dtype)
    indices = in_range(indices, n, mode)
    element = not indices.ndim and issubclass(type(indices), np.ndarray | np.generic)
    index = (*(slice(None),) * axis, int(indices) if element else indices)
    return np.reshape(scatter(g, index, Abstract.of(shape, x.dtype)), x.shape)


def repeat_transpose(g, x, repeats, axis=None):
    shape, axis = ((math.prod(x.shape),), 0) if axis is None or not x.shape else (x.shape, axis % len(x.shape))
    if issubclass(type(repeats), int | np.integer):
        g = np.reshape(g, (*shape[: axis + 1], repeats, *shape[axis + 1 :]))
        last = axis + 1 == len(shape)  # np.sum is slow over a last axis this short
        return np.reshape(np.matmul(g, np.ones(repeats, x.dtype)) if last else np.sum(g, axis=axis + 1), x.shape)
    index = (*(slice(None),) * axis, np.repeat(np.arange(shape[axis]), repeats))
    return np.reshape(scatter(g, index, Abstract.of(shape, x.dtype)), x.shape)


def tile_transpose(g, x, reps):
    reps = tuple(map(operator.index, reps)) if np.iterable(reps) else (operator.index(reps),)
    ndim = max(len(reps), len(x.shape))
    shape, reps = (1,) * (ndim - len(x.shape)) + x.shape, (1,) * (ndim - len(reps)) + reps
    pairs = np.reshape(g, tuple(m for r, n in zip(reps, shape, strict=True) for m in (r, n)))
    return np.reshape(np.sum(pairs, axis=tuple(range(0, 2 * ndim, 2))), x.shape)


@primitive
def surround(x, pad_width, constant_values=0):
    """Return ``np.pad(x, pad_width, constant_values=...)``."""
    return np.pad(x, pad_width, constant_values=constant_values)


def pad(x, pad_width, mode="constant", **options):
    ndim = ndim_of(x)
    if isinstance(pad_width, dict):
        if any(not -ndim <= axis < ndim for axis in pad_width):
            raise IndexError(f"numpy.pad: pad_width is {pad_width!r}, the array has {ndim} axes")
        widths = np.array([(w, w) if ndim_of(w) == 0 else w for w in (pad_width.get(i, pad_width.get(i - ndim, 0)) for i in range(ndim))])
    else:
        widths = ((pad_width, pad_width),) * ndim if type(pad_width) is int else np.broadcast_to(pad_width, (ndim, 2))
    if type(widths) is not tuple:
        widths = tuple((int(before), int(after)) for before, after in widths)
    if not widths:
        return np.copy(x)
    if mode == "constant" and not any_traced(options.get("constant_values")):
        return surround(x, widths, **options)
    if callable(mode):
        raise TypeError("numpy.pad: a function as mode= has no derivative rule in dualad: write into np.zeros_like(x, shape=...)")
    sides = {name: per_axis(setting, ndim) for name, setting in options.items() if name != "reflect_type"}
    for axis, width in enumerate(widths):
        if width != (0, 0):
            x = padded(x, axis, width, mode, options.get("reflect_type", "even"), {name: pair[axis] for name, pair in sides.items()})
    return x


def per_axis(setting, ndim):
    """Return, for each axis, what holds before and after: given once, as a pair, or for each axis."""
    if setting is None or ndim_of(setting) == 0:
        return [(setting, setting)] * ndim
    setting = np.broadcast_to(as_array(setting), (ndim, 2))
    return [(setting[i, 0], setting[i, 1]) for i in range(ndim)]


def as_array(x, dtype=None):
    """Return numbers, nested lists or object arrays of numbers, plain or traced, as one array."""
    if dtype is not None:
        x = as_array(x)
        return x if x.dtype == dtype else x.astype(dtype)
    if hasattr(type(x), "__dualad_apply__"):
        return x
    x = list(x) if issubclass(type(x), np.ndarray) and x.dtype == object and x.ndim else x
    if not isinstance(x, list | tuple):
        return x if hasattr(x, "ndim") else np.asarray(x)
    rows = [as_array(row) for row in x]
    return np.stack(rows) if any_traced(rows) else np.asarray(x)


def new_array(x, dtype=None, *, copy=True, order="K", subok=False, ndmin=0):
    """Return ``np.array`` of numbers, plain or traced."""
    if not any_traced(x):
        return np.array(x, dtype, copy=copy, order=order, subok=subok, ndmin=ndmin)
    given, x = x, as_array(x, dtype)
    x = np.copy(x, "K") if copy and (x is given or not any_traced(x)) else x
    x = in_order(x, order) if order in ("C", "F") else x
    return np.reshape(x, (1,) * (ndmin - x.ndim) + x.shape) if ndmin > x.ndim else x


def by_numpy(fn, **others):
    """Return NumPy's own code of a function, which calls functions that have rows, as its body: what it takes for arrays stays traced.
    Instead of functions of NumPy's that are named it calls others."""
    own = getattr(fn, "__wrapped__", None)
    if type(own) is not FunctionType:  # absent, or not written in Python, in this version of NumPy
        return partial(without_code, fn)
    return with_names(own, traced_names(own.__globals__["__name__"]) | others)


def without_code(fn, *args, **kwargs):
    raise NotImplementedError(
        f"{public_name(fn)} has no derivative with NumPy {np.__version__}, which has no Python code of it: use another version"
    )


def with_names(fn, names):
    """Return a function that finds other global names."""
    found = FunctionType(fn.__code__, names, fn.__name__, fn.__defaults__, fn.__closure__)
    found.__kwdefaults__ = fn.__kwdefaults__
    return found


@cache
def traced_names(module):
    """Return the names of a module of NumPy, in which `array` and its kin take traced arrays, and so in the modules it names."""
    names = dict(vars(sys.modules[module]))
    for name, thing in names.items():
        if thing is np.asarray or thing is np.asanyarray or thing is np.array:
            names[name] = new_array if thing is np.array else as_array
        elif name in ("np", "NX", "_nx"):
            names[name] = ModuleType(thing.__name__)
            vars(names[name]).update(vars(thing), array=new_array, asarray=as_array, asanyarray=as_array)
        elif type(thing) is FunctionType and thing.__globals__ is vars(sys.modules[module]):
            names[name] = with_names(thing, names)
    return names


def padded(x, axis, width, mode, reflect_type, sides):
    """Return an array padded along one axis."""
    n = shape_of(x)[axis]
    lead = (slice(None),) * axis
    if mode == "empty":  # undefined: NumPy leaves what the memory holds
        widths = [(0, 0)] * ndim_of(x)
        widths[axis] = width
        return surround(x, tuple(widths))
    if mode == "constant":
        shapes = ([count if i == axis else m for i, m in enumerate(shape_of(x))] for count in width)
        ends = (v if v.dtype == x.dtype else v.astype(x.dtype) for v in sides["constant_values"])
        before, after = (np.broadcast_to(v, shape) for v, shape in zip(ends, shapes, strict=True))
    elif mode in STATISTICS:
        lengths = [n if length is None else min(int(length), n) for length in sides.get("stat_length", (None, None))]
        parts = (x[(*lead, slice(None, lengths[0]))], x[(*lead, slice(n - lengths[1], None))])
        before, after = (
            repeated(STATISTICS[mode](part, axis=axis, keepdims=True), count, axis) for part, count in zip(parts, width, strict=True)
        )
    elif mode == "linear_ramp":
        first, last = x[(*lead, slice(None, 1))], x[(*lead, slice(n - 1, None))]
        shape = [-1 if i == axis else 1 for i in range(ndim_of(x))]
        up, down = (np.reshape(np.arange(count) / max(count, 1), shape).astype(x.dtype) for count in width)
        ends = sides.get("end_values", (0, 0))
        before, after = ends[0] + up * (first - ends[0]), ends[1] + np.flip(down, axis) * (last - ends[1])
    elif reflect_type == "odd" and mode in ("reflect", "symmetric"):
        return reflected_oddly(x, axis, width, mode)
    else:
        return np.take(x, np.pad(np.arange(n), width, mode=mode), axis)
    return np.concatenate([before, x, after], axis=axis)


STATISTICS = {"mean": np.mean, "maximum": np.max, "minimum": np.min, "median": np.median}


def repeated(edge, count, axis):
    """Return an array of length 1 along an axis repeated along it."""
    return np.broadcast_to(edge, tuple(count if i == axis else n for i, n in enumerate(shape_of(edge))))


def reflected_oddly(x, axis, width, mode):
    """Return the padding ``2 * edge - reflected`` beyond both ends, repeated where the padding is longer than the array."""
    n, edge = shape_of(x)[axis], int(mode == "symmetric")
    if n == 1:  # NumPy repeats it
        return np.take(x, np.pad(np.arange(n), width, mode="edge"), axis)
    lead = (slice(None),) * axis
    before, after = width
    while before > 0 or after > 0:
        m = shape_of(x)[axis]
        whole = m // n * n if edge else (m - 1) // (n - 1) * (n - 1)
        left, right = min(whole, before), min(whole, after)
        low = 2 * x[(*lead, slice(None, 1))] - np.flip(x[(*lead, slice(1 - edge, 1 - edge + left))], axis)
        high = 2 * x[(*lead, slice(m - 1, None))] - np.flip(x[(*lead, slice(m + edge - 1 - right, m + edge - 1))], axis)
        x = np.concatenate([low, x, high], axis=axis)
        before, after = before - left, after - right
    return x


def positions(x):
    """Return the flat position of each element, in the shape of `x`."""
    return np.arange(math.prod(shape_of(x))).reshape(shape_of(x))


# --- choosing ---------------------------------------------------------------------------------------------------------------

BOOL = np.dtype(bool)


def where(condition, *choices):
    if not choices:
        return np.nonzero(condition)
    if getattr(condition, "dtype", BOOL) != BOOL and hasattr(condition, "__dualad_apply__"):
        condition = np.not_equal(condition, 0)
    return select(condition, *choices)


def clip(x, a_min=None, a_max=None, out=None, *, min=None, max=None, **options):
    low, high = (min if a_min is None or a_min is NO else a_min), (max if a_max is None or a_max is NO else a_max)
    return clamp(x, -np.inf if low is None else low, np.inf if high is None else high)


def above(x, low, high):
    return np.greater(np.maximum(x, low), high)


def clamp_inside(ans, x, low, high):
    return np.logical_not(np.logical_or(np.less(x, low), np.greater(x, high)))


def clamp_low(ans, x, low, high):
    return np.where(np.logical_and(np.less(x, low), np.logical_not(above(x, low, high))), 1.0, 0.0)


def clamp_high(ans, x, low, high):
    return np.where(above(x, low, high), 1.0, 0.0)


def double(x):
    """Return `x` in double precision, in which NumPy interpolates."""
    x = x if hasattr(x, "ndim") else np.asarray(x)
    return x if x.dtype in (float, complex) else x.astype(complex if x.dtype.kind == "c" else float)


def interp(x, xp, fp, left=None, right=None, period=None):
    x, xp, fp = map(double, (x, xp, fp))
    if period is not None:
        period = abs(period)
        x, xp = np.remainder(x, period), np.remainder(xp, period)
        order = np.argsort(xp)
        xp, fp = getitem(xp, order), getitem(fp, order)
        xp = np.concatenate([xp[-1:] - period, xp, xp[:1] + period])
        fp = np.concatenate([fp[-1:], fp, fp[:1]])
    j = np.clip(np.searchsorted(xp, x, side="right") - 1, 0, max(shape_of(xp)[0] - 2, 0))  # the right segment at a knot
    if shape_of(xp)[0] == 1:
        inside = np.broadcast_to(fp[0], shape_of(x))
    else:
        x0, y0 = getitem(xp, j), getitem(fp, j)  # j may be traced where xp and fp are not
        rise = (y1 := getitem(fp, j + 1)) - y0
        slope = rise / ((x1 := getitem(xp, j + 1)) - x0)
        inside = slope * (x - x0) + y0
        if is_symbolic(inside) and not is_complex(inside):  # NumPy's bits at knots, and where numbers are not finite
            value = np.where(np.isnan(inside), slope * (x - x1) + y1, inside)
            value = np.where(np.logical_and(np.isnan(value), np.equal(y0, y1)), y0, value)
            value = np.where(np.equal(x, x0), y0, np.where(np.equal(x, xp[-1]), fp[-1], value))
            inside = stated(np.where(np.isnan(x), x, value), inside)
    below, beyond = np.less(x, xp[0]), np.greater(x, xp[-1])
    return np.where(below, fp[0] if left is None else left, np.where(beyond, fp[-1] if right is None else right, inside))[()]


# --- buffers ----------------------------------------------------------------------------------------------------------------


def like(fill):
    """Make the body of ``zeros_like`` and its kin: a traced buffer, or a plain one for integers and booleans."""

    def body(x, *given, dtype=None, order="K", subok=True, shape=None, device=None):
        value, *rest = given if fill is None else (fill, *given)
        dtype = rest[0] if rest else dtype
        plain = dtype is not None and np.dtype(dtype).kind not in "fc"
        if plain:
            return evaluate(np.full_like, x, value, dtype, order, shape=shape)
        buffer = blank(x, dtype, order) if shape is None else zeros_of_shape(x, shape, dtype, order)
        if not (type(value) in (int, float) and value == 0):
            buffer[...] = value if hasattr(value, "__dualad_apply__") else np.asarray(value).astype(buffer.dtype)
        return buffer

    return body


# --- the table --------------------------------------------------------------------------------------------------------------

# fmt: off
linear(np.reshape,      lambda g, x, shape=None, /, order="C", **options: np.reshape(g, x.shape, order=order), view="maybe",
       canonical=known_order, call=of_number(np.reshape), moves=True, neutral=True, batch=reshape_form,
       blocks="reshaped", lower="reshape", selected="in_one_axis")
linear(np.ravel,        lambda g, x, order="C": np.reshape(g, x.shape, order=order), view="maybe", canonical=known_order, moves=True,
       batch=reshape_form, lower="reshape", selected="in_one_axis")
linear(np.transpose,    transpose_transpose, view="always", call=of_number(np.transpose), moves=True, neutral=True, batch=permuted_form)
linear(np.swapaxes,     lambda g, x, axis1, axis2: np.swapaxes(g, axis1, axis2), view="always", moves=True, batch=permuted_form)
linear(np.moveaxis,     lambda g, x, source, destination: np.moveaxis(g, destination, source), view="always", moves=True,
       batch=permuted_form)
linear(np.expand_dims,  lambda g, x, axis: np.reshape(g, x.shape), view="always", moves=True, batch=reshape_form, lower="reshape")
linear(np.squeeze,      lambda g, x, axis=None: np.reshape(g, x.shape), view="always", call=of_number(np.squeeze), moves=True, neutral=True,
       batch=reshape_form, lower="reshape")
linear(np.broadcast_to, lambda g, x, shape, subok=False: unbroadcast(g, x), view="always", moves=True, neutral=True,
       batch=broadcast_to_form, blocks="broadcast", lower="broadcast_to")
linear(np.flip,         lambda g, x, axis=None: np.flip(g, axis), view="always", moves=True, batch=axis_form)
linear(np.diagonal,     diagonal_transpose, view="maybe", moves=True, batch=over_axes("axis1", "axis2"))
linear(np.copy,         lambda g, x, order="K", subok=False: g, moves=True, neutral=True, cheap=True, elementwise=True,
       scalar=Scalar(itself, 0, ANY))
linear(np.take,         take_transpose, call=dispatching(np.take, np.take), moves=True, pattern="taken", batch=flat_form,
       blocks="taken", lower="take", selected="taken")
linear(np.roll,         roll_transpose, call=rolled, moves=True, axes="axis", cheap=True, batch=roll_form, blocks="rolled",
       lower="roll")
linear(np.repeat,       repeat_transpose, moves=True, batch=flat_form, blocks="repeated", lower="repeat")
linear(np.tile,         tile_transpose, moves=True, batch=tile_form, lower="tile")
linear(np.tril,         lambda g, x, k=0: unbroadcast(np.tril(g, k), x), moves=True, batch=last_two, blocks="lower_triangle", lower="tril")
linear(np.triu,         lambda g, x, k=0: unbroadcast(np.triu(g, k), x), moves=True, batch=last_two, blocks="upper_triangle", lower="triu")
linear(surround,        lambda g, x, widths, **options: g[tuple(slice(a, a + n) for (a, _), n in zip(widths, x.shape, strict=True))],
       affine=("constant_values",), moves=True, batch=surround_form, blocks="surrounded", lower="surrounded")
joined(select,          lambda i, g, condition, x, y: np.where(condition, g, 0.0) if i == 1 else np.where(condition, 0.0, g),
       argnums=(1, 2), zero=lambda x: 0.0, cheap=True, moves=True, elementwise=True, scalar=Scalar(choose, 1, ANY))
elementwise(clamp,      clamp_inside, clamp_low, clamp_high,  # 1 inside and at the bounds, 0 to a bound at the bound
            scalar=kernel("clip", 3, 4, "fiu", dtype=None))
explicit(blank,         lambda t, ans, x, *options: None, lambda g, ans, x, *options: None, cheap=True, moves=True, batch=natural,
         blocks="blank_like", buffer=True, lower="zeros")
explicit(zeros_of_shape, lambda t, ans, x, *options: None, lambda g, ans, x, *options: None, cheap=True, moves=True, blocks="blank_filled",
         buffer=True, lower="zeros", selected="blank_like")
composite(np.where,       where)
composite(np.clip,        clip)
composite(np.interp,      interp, with_numpy_value=True)
for fn in (np.atleast_1d, np.atleast_2d, np.atleast_3d):
    composite(fn, by_numpy(fn))
composite(np.diag,        diag)
composite(np.trace,       lambda x, offset=0, axis1=0, axis2=1, dtype=None, out=None:
                          np.sum(np.diagonal(x, offset, axis1, axis2), axis=-1, dtype=dtype))
composite(np.pad,         pad, with_numpy_value=lambda x, widths, mode="constant", **options: mode not in ("constant", "empty"))
composite(np.zeros_like,  like(0))
composite(np.ones_like,   like(1))
composite(np.empty_like,  like(0))
composite(np.full_like,   like(None), labels=lambda x, fill_value=None, *rest, **options: type(fill_value) is str)
constant(np.nonzero, data_shaped="positions")
constant(np.argsort, lower="argsort")
constant(np.argpartition, called="it searches or sorts")
constant(np.argmax, axes="axis", lower="argmax", selected="place_of_maximum")
constant(np.argmin, axes="axis", lower="argmin", selected="place_of_minimum")
constant(np.allclose, np.array_equal, called="it compares whole arrays")
constant(np.array2string, np.array_repr, np.array_str, called="its result is no array of numbers")
constant(np.all, reduces=np.logical_and, lower="every")
constant(np.any, reduces=np.logical_or, lower="some")
constant(length, lower="count_nonzero")
constant(np.count_nonzero, skips_zeros=True, blocks="counted", lower="count_nonzero")
constant(np.searchsorted, blocks="placed_in_order", lower="searchsorted")
constant(np.isclose, elementwise=True, called="it compares whole arrays")
constant(np.isreal, np.iscomplex, elementwise=True, called="it is rarely asked")
constant(np.round, elementwise=True, lower="rounded")
constant(np.shape, metadata=True, selected="shape")
constant(np.size, metadata=True, selected="size")
constant(np.ndim, np.iscomplexobj, np.isrealobj, np.result_type, np.can_cast, np.may_share_memory,
         np.shares_memory, metadata=True)
# fmt: on
