"""Reductions, scans and sorting: sums, products, extrema, moments."""

from __future__ import annotations

import numpy as np

from .kinds import composite, explicit, linear, primitive, restore_axes, spread_out

NO = np._NoValue


# --- sums -----------------------------------------------------------------------------------------------------------------

def sum_transpose(g, x, axis=None, dtype=None, out=None, keepdims=False, initial=None, where=True):
    g = spread_out(g, x, axis)
    return g if where is True or where is NO else np.where(where, g, 0.0)


def add_reduce(x, axis=None, dtype=None, out=None, keepdims=NO, initial=NO, where=NO):
    """Return ``np.sum``, without its wrappers for plain arrays."""
    if type(x) is np.ndarray and initial is NO and where is NO:
        return np.add.reduce(x, axis, dtype, out, keepdims is not NO and keepdims)
    return np.sum(x, axis, dtype, out, keepdims, initial, where)


def cumsum_transpose(g, x, axis=None, dtype=None, out=None):
    if axis is None:
        return np.reshape(np.flip(np.cumsum(np.flip(g))), x.shape)
    return np.flip(np.cumsum(np.flip(g, axis), axis), axis)


# --- moments --------------------------------------------------------------------------------------------------------------

def given(keepdims):
    return False if keepdims is NO else keepdims


def count(x, axis, where, keepdims=False):
    """Return how many elements a reduction takes together: a number, or an array where a mask says so."""
    if where is not NO and where is not True:
        return np.sum(np.broadcast_to(where, np.shape(x)), axis=axis, keepdims=keepdims)
    shape = np.shape(x)
    axes = range(len(shape)) if axis is None else (axis,) if isinstance(axis, int | np.integer) else axis
    return int(np.prod([shape[a] for a in axes], dtype=int))


def divided(total, n):
    """Return total / n, for n as `count` gives it, in the precision of `total` as in NumPy."""
    return total / (n if isinstance(n, int | float) else n.astype(total.dtype))


def mean_transpose(g, x, axis=None, dtype=None, out=None, keepdims=NO, *, where=NO):
    g = spread_out(g / count(x, axis, where, given(keepdims)), x, axis)
    return g if where is NO or where is True else np.where(where, g, 0.0)


def spread(x, axis, where, ddof, correction):
    """Return the deviations from the mean, and the degrees of freedom."""
    n = count(x, axis, where)
    free = n - (ddof if correction is NO else correction)
    return x - np.mean(x, axis=axis, keepdims=True, where=where), np.maximum(free, 0) if isinstance(free, np.ndarray) else max(free, 0)


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
    square = np.square(np.real(x - mean)) + np.square(np.imag(x - mean)) if np.iscomplexobj(x) else np.square(x - mean)
    total = np.sum(square, axis=axis, dtype=dtype, keepdims=given(keepdims), where=where)
    free = count(x, axis, where, given(keepdims)) - (ddof if correction is NO else correction)
    return np.divide(total, np.maximum(free, 0))


def var(x, *args, mean=NO, **options):
    return variance(x, *args, **options) if mean is NO else about_given_mean(x, mean, *args, **options)


def std(x, *args, mean=NO, **options):
    return deviation(x, *args, **options) if mean is NO else flat_sqrt(about_given_mean(x, mean, *args, **options))


def variance_jvp(t, ans, x, axis=None, dtype=None, out=None, ddof=0, keepdims=NO, *, where=NO, correction=NO):
    apart, free = spread(x, axis, where, ddof, correction)
    slope = np.real(np.conjugate(apart) * t) if np.iscomplexobj(x) else apart * t
    total = np.sum(slope, axis=axis, keepdims=given(keepdims), where=where)
    return np.divide(2.0 * total, np.reshape(free, np.shape(total)) if np.ndim(free) else free)


def variance_vjp(g, ans, x, axis=None, dtype=None, out=None, ddof=0, keepdims=NO, *, where=NO, correction=NO):
    apart, free = spread(x, axis, where, ddof, correction)
    g = restore_axes(np.divide(2.0 * g, np.reshape(free, np.shape(g)) if np.ndim(free) else free), x, axis)
    share = g * (np.conjugate(apart) if np.iscomplexobj(x) else apart)
    return share if where is NO or where is True else np.where(where, share, 0.0)


def half_inverse(ans):
    """Return 1 / (2 ans), and 0 where ans is 0: std' = 0 of a constant."""
    zero = np.equal(ans, 0)
    return np.where(zero, 0.0, 0.5 / np.where(zero, 1.0, ans))


def deviation_jvp(t, ans, x, *args, **kwargs):
    return half_inverse(ans) * variance_jvp(t, None, x, *args, **kwargs)


def deviation_vjp(g, ans, x, *args, **kwargs):
    return variance_vjp(g * half_inverse(ans), None, x, *args, **kwargs)


def flat_sqrt(v):
    """Return sqrt(v) with derivative 0 at 0: the square root of a sum of squares has its kink there."""
    zero = np.equal(v, 0)
    return np.where(zero, 0.0, np.sqrt(np.where(zero, 1.0, v)))[()]


# --- products -------------------------------------------------------------------------------------------------------------

def fold(x, axis):
    """Return `x` with the axes to reduce moved to the end and merged into one."""
    ndim = np.ndim(x)
    axes = range(ndim) if axis is None else sorted({a % ndim for a in ((axis,) if isinstance(axis, int | np.integer) else axis)})
    kept = [i for i in range(ndim) if i not in axes]
    x = np.transpose(x, (*kept, *axes))
    return np.reshape(x, (*x.shape[:len(kept)], int(np.prod(x.shape[len(kept):], dtype=int))))


def unfold(y, x, axis):
    """Return `y`, of the shape of ``fold(x, axis)``, in the layout of `x`."""
    shape, ndim = np.shape(x), np.ndim(x)
    axes = range(ndim) if axis is None else sorted({a % ndim for a in ((axis,) if isinstance(axis, int | np.integer) else axis)})
    order = [*(i for i in range(ndim) if i not in axes), *axes]
    return np.transpose(np.reshape(y, [shape[i] for i in order]), tuple(np.argsort(order)))


def exclusive(x):
    """Return the products of the elements before each one, along the last axis."""
    if np.shape(x)[-1] == 0:
        return x
    return np.concatenate([np.ones_like(x[..., :1]), np.cumprod(x[..., :-1], axis=-1)], axis=-1)


def other_products(x, axis, where):
    """Return for each element the product of all others in its reduction; exact where elements are zero."""
    if type(x) is np.ndarray and where is NO and np.all(np.not_equal(x, 0)):  # plain values only: the quotient has no second derivative
        return restore_axes(np.prod(x, axis=axis), x, axis) / x
    folded = fold(x if where is NO or where is True else np.where(where, x, 1.0), axis)
    others = exclusive(folded) * np.flip(exclusive(np.flip(folded, -1)), -1)
    others = unfold(others, x, axis)
    return others if where is NO or where is True else np.where(where, others, 0.0)


def prod_jvp(t, ans, x, axis=None, dtype=None, out=None, keepdims=NO, initial=1.0, where=NO):
    total = np.sum(t * other_products(x, axis, where), axis=axis, keepdims=given(keepdims))
    return total if initial is NO else initial * total


def prod_vjp(g, ans, x, axis=None, dtype=None, out=None, keepdims=NO, initial=1.0, where=NO):
    g = restore_axes(g if initial is NO else initial * g, x, axis)
    return g * other_products(x, axis, where)


def recurrence(a, b):
    """Return s with s_i = b_i + a_i * s_{i-1} along the last axis, by doubling (Hillis and Steele 1986)."""
    n, step = np.shape(b)[-1], 1
    while step < n:
        b = np.concatenate([b[..., :step], b[..., step:] + a[..., step:] * b[..., :-step]], axis=-1)
        a = np.concatenate([a[..., :step], a[..., step:] * a[..., :-step]], axis=-1)
        step *= 2
    return b


def cumprod_jvp(t, ans, x, axis=None, dtype=None, out=None):
    x, t = (np.reshape(x, -1), np.reshape(t, -1)) if axis is None else (np.moveaxis(x, axis, -1), np.moveaxis(t, axis, -1))
    s = recurrence(x, t * exclusive(x))
    return s if axis is None else np.moveaxis(s, -1, axis)


def cumprod_vjp(g, ans, x, axis=None, dtype=None, out=None):
    rows = np.reshape(x, -1) if axis is None else np.moveaxis(x, axis, -1)
    g = g if axis is None else np.moveaxis(g, axis, -1)
    later = np.concatenate([rows[..., 1:], np.ones_like(rows[..., :1])], axis=-1)
    s = np.flip(recurrence(np.flip(later, -1), np.flip(g, -1)), -1) * exclusive(rows)
    return np.reshape(s, np.shape(x)) if axis is None else np.moveaxis(s, -1, axis)


# --- extrema and order ------------------------------------------------------------------------------------------------------

def winning_share(ans, x, axis, where):
    """Return the weight of each element in an extremum: ties share equally."""
    best = np.logical_or(np.equal(x, restore_axes(ans, x, axis)), np.isnan(x))
    if where is not NO and where is not True:
        best = np.logical_and(best, where)
    return best / np.maximum(np.sum(best, axis=axis, keepdims=True), 1)


def extremum_jvp(t, ans, x, axis=None, out=None, keepdims=NO, initial=NO, where=NO):
    share = winning_share(ans, x, axis, where)
    return np.sum(np.where(np.equal(share, 0), 0.0, t * share), axis=axis, keepdims=given(keepdims))


def extremum_vjp(g, ans, x, axis=None, out=None, keepdims=NO, initial=NO, where=NO):
    share = winning_share(ans, x, axis, where)
    return np.where(np.equal(share, 0), 0.0, restore_axes(g, x, axis) * share)


def sort(x, axis=-1, kind=None, order=None, *, stable=None):
    order = np.argsort(x, axis=axis, kind="stable")
    return np.ravel(x)[order] if axis is None else np.take_along_axis(x, order, axis)


def take_along_axis(x, indices, axis=-1):
    if axis is None:
        return np.ravel(x)[np.ravel(indices)]
    axis %= np.ndim(x)
    shape = [1] * np.ndim(x)
    grid = []
    for i, n in enumerate(np.shape(x)):
        grid.append(indices if i == axis else np.arange(n).reshape((*shape[:i], n, *shape[i + 1:])))
    return x[tuple(grid)]


def diff(x, n=1, axis=-1, prepend=NO, append=NO):
    if n < 0:
        raise ValueError(f"numpy.diff: n is {n}: give a non-negative order")
    edges = [np.broadcast_to(e, (*np.shape(x)[:axis % np.ndim(x)], 1, *np.shape(x)[axis % np.ndim(x) + 1:])) if np.ndim(e) == 0
             else e for e in (prepend, append) if e is not NO]
    if edges:
        x = np.concatenate([*edges[:prepend is not NO], x, *edges[prepend is not NO:]], axis=axis)
    x = np.moveaxis(x, axis, -1) if np.ndim(x) > 1 else x
    for _ in range(n):
        x = x[..., 1:] - x[..., :-1]
    return np.moveaxis(x, -1, axis) if np.ndim(x) > 1 else x


# --- the table --------------------------------------------------------------------------------------------------------------

linear(np.sum,     sum_transpose, affine=("initial",), call=add_reduce)
linear(np.cumsum,  cumsum_transpose)
linear(np.mean,    mean_transpose)
explicit(variance,  variance_jvp, variance_vjp)
explicit(deviation, deviation_jvp, deviation_vjp)  # std' = 0 of a constant
composite(np.var,  var)
composite(np.std,  std)
explicit(np.prod,    prod_jvp, prod_vjp)
explicit(np.cumprod, cumprod_jvp, cumprod_vjp)
explicit(np.max, extremum_jvp, extremum_vjp)  # ties share equally
explicit(np.min, extremum_jvp, extremum_vjp)
composite(np.sort, sort)
composite(np.take_along_axis, take_along_axis)
composite(np.diff, diff)
