"""Functions of ``x[mask]`` that depend on the order of its elements, but not on their number: elements, places, running sums, contractions.

The functions take the selection, and a call as a row says it: a row names the one that evaluates it, `selected`.
"""

from functools import partial

import numpy as np

from ..core.traced import Traced
from ..rules.reductions import defined
from ..rules.statistics import as_inexact


def is_integer(index):
    """Return whether an index is a number, which may be traced; a truth value is a mask."""
    if isinstance(index, Traced):
        return not index.ndim and index.dtype.kind in "iu"
    return issubclass(type(index), int | np.integer) and type(index) is not bool


def element(s, index):
    """Return ``s[index]`` for an integer, which may be traced; of no such element the plain function raises."""
    if s.at:
        raise s.needs_length("an element of x[:, mask]")
    mask = np.reshape(s.mask, (-1,))
    full = np.reshape(s.primal, (mask.size, *s.primal.shape[s.mask.ndim :]))
    ranks = np.cumsum(mask)
    rank = index + np.where(np.less(index, 0), ranks[-1], 0) + 1
    place = np.argmax(mask & (ranks == rank))
    return full[np.where((rank > 0) & (rank <= ranks[-1]), place, mask.size)]


def shape(s, row, x):
    return s.shape


def size(s, row, x):
    return s.size


def taken(s, row, x, index, axis=None, mode="raise"):
    """Return ``np.take(x, index)``, where `x` or `index` is the selection."""
    if mode != "raise":
        raise s.needs_length(f"{row.name} with mode= of x[mask]")
    x, axis = (np.ravel(x), 0) if axis is None else (x, axis % np.ndim(x))
    return s.indexed(x, (*(slice(None),) * axis, index), shown=False)


def place_of_extremum(extremum, s, row, x, axis=None, **options):
    """Return ``np.argmin(s)`` or ``np.argmax(s)``."""
    for name, value in options.items():
        if value is not None and value is not False:
            raise s.needs_length(f"{row.name} with {name}= of x[mask]")
    along(s, row, x, axis)
    best = extremum(s)
    mask, full = np.reshape(s.mask, (-1,)), np.reshape(s.primal, (-1,))
    return np.cumsum(mask)[np.argmax(mask & ((full == best) | (full != full)))] - 1


place_of_minimum, place_of_maximum = partial(place_of_extremum, np.min), partial(place_of_extremum, np.max)


def running(neutral, s, row, x, axis=None, **options):
    """Return ``np.cumsum(s)`` or ``np.cumprod(s)``: a number that changes nothing stands where the mask is false."""
    along(s, row, x, axis)
    full = row.fn(np.reshape(s.cleaned(neutral), (-1,)), **options)
    return s.selection(np.reshape(full, s.mask.shape), 0)


running_sum, running_product = partial(running, -0.0), partial(running, 1)


def median(s, row, x, *args, axis=None, **options):
    """Return ``np.median(s)``, as `row.fn` is: where the mask is false stand NaN, which do not count."""
    along(s, row, x, axis)
    if s.dtype.kind == "c":
        raise s.needs_length(f"{row.name} of x[mask] of {s.dtype}")
    of_numbers = getattr(np, f"nan{row.fn.__name__}")
    s = as_inexact(s)
    return np.where(np.any(np.isnan(s)), np.nan, of_numbers(np.reshape(s.cleaned(np.nan), (-1,)), *args, **options))[()]


def quantile(s, row, *args, **options):
    """Return ``np.quantile(s, q)`` or ``np.percentile(s, q)``."""
    if s.dtype.kind != "f":  # of integers some methods choose integers
        raise s.needs_length(f"{row.name} of x[mask] of {s.dtype}")
    return defined(median(s, row, *args, **options), s.shape[0], f"{row.name} of no elements")


def blank_like(s, row, x, *args):
    """Return an array of a shape that is given, as the full array's level has them."""
    return row.fn(s.primal, *args)


def in_one_axis(s, row, x, shape=(-1,), **options):
    """Return ``np.ravel(s)`` or ``np.reshape(s, -1)``."""
    if x is not s or s.at or shape not in (-1, (-1,), "C", "K") or options.get("order", "C") != "C":
        raise s.needs_length(f"{row.name} of x[mask]")
    return s if not s.behind else s.selected_by(np.broadcast_to(s.spread_mask(s.behind), s.primal.shape))


def product(s, row, a, b):
    """Return a product of vectors or matrices that adds up along the axis that the mask made."""
    if not type(a) is type(b) is type(s):
        raise s.needs_length(f"{row.name} of x[mask]")
    s.check_mask(a)
    s.check_mask(b)
    if a.behind or b.at or b.behind > 1:
        raise s.needs_length(f"{row.name} along another axis of x[mask]")
    a, b, count = a.cleaned(0), b.cleaned(0), s.mask.ndim
    return row.fn(np.reshape(a, (*a.shape[: a.ndim - count], -1)), np.reshape(b, (-1, *b.shape[count:])))


def contracted(s, row, *operands, subscripts, **options):
    """Return an einsum that adds up along the axis that the mask made."""
    *terms, output = subscripts.replace("->", ",").split(",")
    letters = {term[x.at] for term, x in zip(terms, operands, strict=True) if type(x) is type(s)}
    elsewhere = [term for term, x in zip(terms, operands, strict=True) if type(x) is not type(s)]
    if s.mask.ndim > 1 or len(letters) > 1 or any(letters & set(term) for term in (*elsewhere, output)):
        raise s.needs_length(f"{row.name} of x[mask], but for a sum along it,")
    for x in operands:
        if type(x) is type(s):
            s.check_mask(x)
    return row.fn(subscripts, *(x.cleaned(0) if type(x) is type(s) else x for x in operands), **options)


def along(s, row, x, axis):
    """Raise unless a function is evaluated along the axis that the mask made, and no other is there."""
    if x is not s or s.ndim > 1 or axis not in (None, 0, -1):
        raise s.needs_length(f"{row.name} of x[mask]")
