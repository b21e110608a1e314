"""Reductions, scans and sorting: sums, products, extrema, moments."""

import math

from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from .batching import flat_form, gathered_form
from .cotangents import FLOAT
from .indexing import cast, getitem
from .kinds import composite, explicit, is_complex, linear, ndim_of, primitive, restore_axes, shape_of
from .names import np
from .primitives import ratio

NO = np._NoValue
LARGEST_HALF = float(np.finfo(np.float16).max)


# --- sums -----------------------------------------------------------------------------------------------------------------


def broadcast_back(g, x, axis=None):
    """Return `g`, the cotangent of a reduction of `x` over `axis`, broadcast back to the shape of `x`."""
    if type(g) is float and axis is None:  # what np.broadcast_to gives, at a tenth of its cost
        if not x.shape:
            return g
        whole = np.ndarray(x.shape, FLOAT, np.array(g), 0, (0,) * len(x.shape))
        whole.flags.writeable = False
        return whole
    return stretched(restore_axes(g, x, axis), x.shape)


def stretched(g, shape):
    """Return ``np.broadcast_to(g, shape)``, of an array with as many axes at a third of its cost."""
    if type(g) is not np.ndarray or not g.flags.c_contiguous or g.ndim != len(shape) or not g.size:
        return np.broadcast_to(g, shape)
    whole = np.ndarray(shape, g.dtype, g, 0, tuple(s if n == m else 0 for s, n, m in zip(g.strides, g.shape, shape, strict=True)))
    whole.flags.writeable = False
    return whole


def sum_transpose(g, x, axis=None, dtype=None, out=None, keepdims=False, initial=None, where=True):
    g = broadcast_back(g, x, axis)
    return g if where is True or where is NO else np.where(where, g, 0.0)


def add_reduce(x, axis=None, dtype=None, out=None, keepdims=NO, initial=NO, where=NO):
    """Return ``np.sum``, without its wrappers for plain arrays and numbers."""
    if (type(x) is np.ndarray or type(x) is float) and initial is NO and where is NO:
        return np.add.reduce(x, axis, dtype, out, keepdims is not NO and keepdims)
    return np.sum(x, axis, dtype, out, keepdims, initial, where)


def cumsum_transpose(g, x, axis=None, dtype=None, out=None):
    if axis is None:
        return np.reshape(np.flip(np.cumsum(np.flip(g))), x.shape)
    if not x.shape:  # NumPy takes it for a vector
        return np.reshape(g, ())
    return np.flip(np.cumsum(np.flip(g, axis), axis), axis)


# --- moments --------------------------------------------------------------------------------------------------------------


def keeps_dims(keepdims):
    return False if keepdims is NO else keepdims


def count(x, axis, where, keepdims=False):
    """Return how many elements a reduction takes together: a number, or an array where a mask says so."""
    if where is not NO and where is not True:
        return np.sum(np.broadcast_to(where, shape_of(x)), axis=axis, keepdims=keepdims)
    shape = shape_of(x)
    if axis is None:
        return math.prod(shape)
    return math.prod(shape[a] for a in ((axis,) if issubclass(type(axis), int | np.integer) else axis))


def mask_cotangent(g, where, n, x, axis):
    """Return cotangents with 0 where a mask takes no element: NaN, as the result is, where all that it takes of an axis is too few."""
    if where is NO or where is True:
        return g
    return np.where(np.equal(broadcast_back(n, x, axis), 0), np.nan, np.where(where, g, 0.0))


def mean_transpose(g, x, axis=None, dtype=None, out=None, keepdims=NO, *, where=NO):
    n = count(x, axis, where, keeps_dims(keepdims))
    if type(n) is int and n == 0:  # a Python float is not divided by 0, and there is no element to spread it over
        n = 1
    share = cast(cast(g, np.float32) / n, np.float16) if type(n) is int and n > LARGEST_HALF and g.dtype == np.float16 else g / n
    return mask_cotangent(broadcast_back(share, x, axis), where, n, x, axis)


def real_in(x, dtype):
    """Return what a reduction in a dtype works on: of complex numbers in a real one the real parts."""
    return np.real(x) if dtype is not None and dtype is not NO and is_complex(x) and np.dtype(dtype).kind != "c" else x


def spread(x, axis, dtype, where, ddof, correction):
    """Return the deviations from the mean, and the degrees of freedom."""
    n = count(x, axis, where)
    free = n - (ddof if correction is NO else correction)
    free = max(free, 0) if issubclass(type(free), int | float) else np.maximum(free, 0)
    return x - np.mean(real_in(x, dtype), axis=axis, keepdims=True, where=where), free


@primitive
def variance(x, axis=None, dtype=None, out=None, ddof=0, keepdims=NO, *, where=NO, correction=NO):
    """Return ``np.var(x)`` about the mean of `x` itself."""
    return np.var(x, axis, dtype, out, ddof, keepdims, where=where, correction=correction)


@primitive
def deviation(x, axis=None, dtype=None, out=None, ddof=0, keepdims=NO, *, where=NO, correction=NO):
    """Return ``np.std(x)`` about the mean of `x` itself."""
    return np.std(x, axis, dtype, out, ddof, keepdims, where=where, correction=correction)


def about_given_mean(x, mean, axis=None, dtype=None, out=None, ddof=0, keepdims=NO, *, where=NO, correction=NO):
    """Return ``np.var(x, mean=mean)``."""
    square = np.square(np.real(x - mean)) + np.square(np.imag(x - mean)) if is_complex(x) else np.square(x - mean)
    total = np.sum(square, axis=axis, dtype=dtype, keepdims=keeps_dims(keepdims), where=where)
    free = count(x, axis, where, keeps_dims(keepdims)) - (ddof if correction is NO else correction)
    return np.divide(total, np.maximum(free, 0))


def var(x, *args, mean=NO, **options):
    return variance(x, *args, **options) if mean is NO else about_given_mean(x, mean, *args, **options)


def std(x, *args, mean=NO, **options):
    return deviation(x, *args, **options) if mean is NO else flat_sqrt(about_given_mean(x, mean, *args, **options))


def variance_jvp(t, ans, x, axis=None, dtype=None, out=None, ddof=0, keepdims=NO, *, where=NO, correction=NO):
    apart, free = spread(x, axis, dtype, where, ddof, correction)
    slope = np.real(np.conjugate(apart) * t) if is_complex(x) else apart * t
    total = np.sum(slope, axis=axis, keepdims=keeps_dims(keepdims), where=where)
    return np.divide(2.0 * total, np.reshape(free, shape_of(total)) if ndim_of(free) else free)


def variance_vjp(g, ans, x, axis=None, dtype=None, out=None, ddof=0, keepdims=NO, *, where=NO, correction=NO):
    apart, free = spread(x, axis, dtype, where, ddof, correction)
    g = np.real(g) if is_complex(g) else g
    g = restore_axes(np.divide(2.0 * g, np.reshape(free, shape_of(g)) if ndim_of(free) else free), x, axis)
    return mask_cotangent(g * (np.conjugate(apart) if is_complex(x) else apart), where, free, x, axis)


def half_inverse(ans):
    """Return 1 / (2 ans), and 0 where ans is 0: std' = 0 of a constant."""
    return ratio(0.5, ans)


def flat_sqrt(v):
    """Return sqrt(v) with derivative 0 at 0: the square root of a sum of squares has its kink there."""
    zero = np.equal(v, 0)
    return np.where(zero, 0.0, np.sqrt(np.where(zero, 1.0, v)))[()]


# --- products -------------------------------------------------------------------------------------------------------------


def fold(x, axis):
    """Return `x` with the axes to reduce moved to the end and merged into one."""
    ndim = ndim_of(x)
    axes = range(ndim) if axis is None or not ndim else sorted(normalize_axis_tuple(axis, ndim))
    kept = [i for i in range(ndim) if i not in axes]
    x = np.transpose(x, (*kept, *axes))
    return np.reshape(x, (*x.shape[: len(kept)], int(np.prod(x.shape[len(kept) :], dtype=int))))


def unfold(y, x, axis):
    """Return `y`, of the shape of ``fold(x, axis)``, in the layout of `x`."""
    shape, ndim = shape_of(x), ndim_of(x)
    axes = range(ndim) if axis is None or not ndim else sorted(normalize_axis_tuple(axis, ndim))
    order = [*(i for i in range(ndim) if i not in axes), *axes]
    return np.transpose(np.reshape(y, [shape[i] for i in order]), tuple(np.argsort(order)))


def exclusive(x):
    """Return the products of the elements before each one, along the last axis."""
    if shape_of(x)[-1] == 0:
        return x
    return np.concatenate([np.ones_like(x[..., :1]), np.cumprod(x[..., :-1], axis=-1)], axis=-1)


def times_others(g, ans, x, axis=None, dtype=None, out=None, keepdims=NO, initial=NO, where=NO):
    """Return g times, for each element, the product of all others in its reduction; exact where elements are zero."""
    x = real_in(x, dtype)
    if type(x) is np.ndarray and initial is NO and where is NO and np.all(np.logical_and(ans, np.isfinite(ans))):
        return restore_axes(g * ans, x, axis) / x  # of plain values only: the quotient has no second derivative
    folded = fold(x if where is NO or where is True else np.where(where, x, 1.0), axis)
    others = exclusive(folded) * np.flip(exclusive(np.flip(folded, -1)), -1)
    others = restore_axes(g if initial is NO else initial * g, x, axis) * unfold(others, x, axis)
    return others if where is NO or where is True else np.where(where, others, 0.0)


def prod_jvp(t, ans, x, axis=None, dtype=None, out=None, keepdims=NO, initial=NO, where=NO):
    t, x = real_in(t, dtype), real_in(x, dtype)
    return np.sum(t * times_others(1.0, ans, x, axis, initial=initial, where=where), axis=axis, keepdims=keeps_dims(keepdims))


def recurrence(a, b):
    """Return s with s_i = b_i + a_i * s_{i-1} along the last axis, by doubling (Hillis and Steele 1986)."""
    n, step = shape_of(b)[-1], 1
    while step < n:
        b = np.concatenate([b[..., :step], b[..., step:] + a[..., step:] * b[..., :-step]], axis=-1)
        a = np.concatenate([a[..., :step], a[..., step:] * a[..., :-step]], axis=-1)
        step *= 2
    return b


def cumprod_jvp(t, ans, x, axis=None, dtype=None, out=None):
    axis, t, x = axis if shape_of(x) else None, real_in(t, dtype), real_in(x, dtype)  # NumPy takes a 0-d array for a vector
    x, t = (np.reshape(x, -1), np.reshape(t, -1)) if axis is None else (np.moveaxis(x, axis, -1), np.moveaxis(t, axis, -1))
    s = recurrence(x, t * exclusive(x))
    return s if axis is None else np.moveaxis(s, -1, axis)


def cumprod_vjp(g, ans, x, axis=None, dtype=None, out=None):
    axis, x = axis if shape_of(x) else None, real_in(x, dtype)
    rows = np.reshape(x, -1) if axis is None else np.moveaxis(x, axis, -1)
    g = g if axis is None else np.moveaxis(g, axis, -1)
    later = np.concatenate([rows[..., 1:], np.ones_like(rows[..., :1])], axis=-1)
    s = np.flip(recurrence(np.flip(later, -1), np.flip(g, -1)), -1) * exclusive(rows)
    return np.reshape(s, shape_of(x)) if axis is None else np.moveaxis(s, -1, axis)


# --- extrema and order ------------------------------------------------------------------------------------------------------


def tie_shares(ans, x, axis, where):
    """Return where an extremum is taken on, and in how many places: ties share equally."""
    best = np.logical_or(np.equal(x, restore_axes(ans, x, axis)), np.isnan(x))
    if where is not NO and where is not True:
        best = np.logical_and(best, where)
    return best, restore_axes(np.maximum(np.count_nonzero(best, axis=axis), 1), x, axis)


class Undefined(ValueError):
    """A function has no value at these arguments."""


@primitive
def defined(x, fine, reason):
    """Return a value, which is one where a number is not zero: else the plain function raises."""
    if not np.all(fine):
        raise Undefined(reason)
    return x


def extremum_jvp(t, ans, x, axis=None, out=None, keepdims=NO, initial=NO, where=NO):
    best, ties = tie_shares(ans, x, axis, where)
    return np.sum(np.where(best, t / ties, 0.0), axis=axis, keepdims=keeps_dims(keepdims))


def extremum_vjp(g, ans, x, axis=None, out=None, keepdims=NO, initial=NO, where=NO):
    best, ties = tie_shares(ans, x, axis, where)
    return np.where(best, restore_axes(g, x, axis) / ties, 0.0)


def ranks(x, axis):
    """Return where each element stands when they are sorted along an axis, all in one if it is None."""
    order = np.argsort(x, axis=axis, kind="stable")
    return np.argsort(order, axis=axis)


def rearranged(y, a, b, axis):
    """Return `y` with its elements moved along an axis (all in one if it is None) as those of `a` are moved in `b`."""
    if axis is None:
        y, a, b, axis = np.ravel(y), np.ravel(a), np.ravel(b), -1
    return take_along_axis(y, take_along_axis(np.argsort(a, axis=axis, kind="stable"), ranks(b, axis), axis), axis)


@primitive
def reordered(x, places, axis, **options):
    """Return ``np.sort(x, axis, **options)``, its bits and its layout, where `places` sort the elements of x along an axis."""
    if type(x) is np.ndarray and x.dtype.kind == "f" and not options and (axis is None or x.flags.c_contiguous):
        ans = x[places] if x.ndim == 1 else take_along_axis(x, places, axis)
        if equal_bits(ans):
            return ans
    return np.sort(x, axis=axis, **options)


def equal_bits(x):
    """Return whether equal numbers are of equal bits in a sorted array: there is neither a zero nor NaN in it."""
    if x.ndim != 1 or not x.size:
        return np.count_nonzero(x) == x.size and not np.isnan(x).any()
    last = x.item(-1)
    return last == last and (last < 0.0 or ((zero := x.searchsorted(0.0)) < x.size and x.item(zero) > 0.0))


@primitive
def put_back(y, places, axis, shape):
    """Return an array of a shape whose elements at `places` along an axis are those of y: the inverse of `take_along_axis`."""
    x = np.empty(shape, y.dtype)
    if axis is None or len(shape) == 1:
        x.reshape(-1)[places] = y
    else:
        x[index_along(places, axis, shape)] = y
    return x


def sort(x, axis=-1, kind=None, order=None, *, stable=None, descending=NO):
    places = np.argsort(-x if descending is True else x, axis=axis, kind="stable")
    if kind is order is stable is None and descending is NO:
        return reordered(x, places, axis)
    options = {"kind": kind, "order": order, "stable": stable, "descending": None if descending is NO else descending}
    return reordered(x, places, axis, **{name: option for name, option in options.items() if option is not None})


def take_along_axis(x, indices, axis=-1):
    if axis is None:
        if ndim_of(indices) != 1:
            raise ValueError("numpy.take_along_axis: with axis=None, the indices must have one axis")
        x, axis = (x if ndim_of(x) == 1 else np.ravel(x)), 0
    index = index_along(indices, axis, shape_of(x))
    return getitem(x, index) if hasattr(indices, "__dualad_apply__") else x[index]  # x may be a plain array


def index_along(indices, axis, shape):
    """Return the index of an array of a shape by which its elements are taken along an axis."""
    if len(shape) == 1 and (axis == -1 or axis == 0):
        return indices
    axis, ones = normalize_axis_index(axis, len(shape)), [1] * len(shape)
    grid = [indices if i == axis else np.arange(n).reshape((*ones[:i], n, *ones[i + 1 :])) for i, n in enumerate(shape)]
    return tuple(grid)


@primitive
def difference(x, axis):
    """Return the differences of neighbours along an axis."""
    later, earlier = neighbours(x, axis)
    return later - earlier


@primitive
def scattered_difference(g, axis):
    """Return the transpose of `difference`: g_(i-1) - g_i, with zeros beyond the ends."""
    shape = list(g.shape)
    shape[axis] += 1
    back = np.zeros(shape, g.dtype)
    later, earlier = neighbours(back, axis)
    later[...] = g
    earlier -= g
    return back


def neighbours(x, axis):
    """Return all but the first and all but the last along an axis."""
    before = (slice(None),) * (axis % x.ndim)
    return x[(*before, slice(1, None))], x[(*before, slice(None, -1))]


def diff(x, n=1, axis=-1, prepend=NO, append=NO):
    if n < 0:
        raise ValueError(f"numpy.diff: n is {n}: give a non-negative order")
    if n == 0:
        return x
    if ndim_of(x) == 0:
        raise ValueError("numpy.diff: the array has no axis: diff requires input that is at least one dimensional")
    axis = normalize_axis_index(axis, ndim_of(x))
    edges = [
        np.broadcast_to(e, (*shape_of(x)[:axis], 1, *shape_of(x)[axis + 1 :])) if ndim_of(e) == 0 else e
        for e in (prepend, append)
        if e is not NO
    ]
    if edges:
        x = np.concatenate([*edges[: prepend is not NO], x, *edges[prepend is not NO :]], axis=axis)
    for _ in range(n):
        x = difference(x, axis)
    return x


# --- the table --------------------------------------------------------------------------------------------------------------

# fmt: off
linear(np.sum,     sum_transpose, affine=("initial",), call=add_reduce, axes="axis", reduces=np.add, lower="sum")
linear(np.cumsum,  cumsum_transpose, axes="axis", pattern="running", batch=flat_form, lower="cumsum", selected="running_sum")
linear(np.mean,    mean_transpose, axes="axis", blocks="mean", lower="mean")
explicit(variance,  variance_jvp, variance_vjp, axes="axis", blocks="variance", lower="var")
explicit(deviation, lambda t, ans, *args, **kwargs: half_inverse(ans) * variance_jvp(t, None, *args, **kwargs),  # std' = 0 of a constant
                    lambda g, ans, *args, **kwargs: variance_vjp(g * half_inverse(ans), None, *args, **kwargs),
                    axes="axis", blocks="deviation", lower="std")
composite(np.var,  var)
composite(np.std,  std)
explicit(np.prod,    prod_jvp, times_others, axes="axis", reduces=np.multiply, lower="prod")
explicit(np.cumprod, cumprod_jvp, cumprod_vjp, axes="axis", pattern="running", batch=flat_form, lower="cumprod", selected="running_product")
explicit(np.max, extremum_jvp, extremum_vjp, axes="axis", reduces=np.maximum, lower="max")  # ties share equally
explicit(np.min, extremum_jvp, extremum_vjp, axes="axis", reduces=np.minimum, lower="min")
linear(defined, lambda g, x, fine, reason: defined(g, fine, reason), elementwise=True, raises=True, lower="defined")
explicit(reordered, lambda t, ans, x, places, axis, **options: take_along_axis(t, places, axis),
                    lambda g, ans, x, places, axis, **options: put_back(g, places, axis, shape_of(x)),
                    shape_only=True, uses_ans=False, axes="axis", pattern="reordered", batch=False, lower="reordered")
linear(put_back,    lambda g, y, places, axis, shape: take_along_axis(g, places, axis), moves=True, axes="axis", batch=gathered_form,
       lower="put_back")
composite(np.sort,     sort)
explicit(np.partition, lambda t, ans, x, kth, axis=-1, *options, **named: rearranged(t, x, ans, axis),
                       lambda g, ans, x, kth, axis=-1, *options, **named: np.reshape(rearranged(g, ans, x, axis), shape_of(x)),
                       axes="axis", called="it searches or sorts")
composite(np.take_along_axis, take_along_axis)
linear(difference,           lambda g, x, axis: scattered_difference(g, axis) if x.shape[axis] else g, axes="axis", pattern="differences",
       blocks="differences", lower="differences", name="np.diff")
linear(scattered_difference, lambda g, x, axis: difference(g, axis), axes="axis", pattern="scattered_differences",
       blocks="scattered_differences", lower="scattered_differences")
composite(np.diff, diff)
# fmt: on
