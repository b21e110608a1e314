"""`primitive`: functions that dispatch on traced arguments as NumPy's do; and the product in which zero times anything is zero."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

import numpy as np

from ..support.hints import Rest, Result

PLAIN = {np.ndarray, np.float64, float, int, bool, str, slice, type(None)}
INDICES = {*PLAIN, tuple, type(...)}  # what stands in tuples and is not traced itself
SEQUENCES = {tuple, list}  # an index with traced integers in it, a list of traced numbers


def applier_for(sequence):
    """Return the function that applies functions to traced values of the kind in a sequence, None where it has none."""
    for part in sequence:
        if (apply := applier_for(part) if type(part) in SEQUENCES else getattr(type(part), "__dualad_apply__", None)) is not None:
            return apply
    return None


def dispatching(fn, named=None):
    """Return `fn` as a function that looks for traced values among all its arguments; interpreters are given `named`, or itself."""

    @wraps(fn)
    def call(*args, **kwargs):
        for arg in (*args, *kwargs.values()) if kwargs else args:
            kind = type(arg)
            if kind not in PLAIN:
                apply = getattr(kind, "__dualad_apply__", None)
                if apply is None and kind in SEQUENCES and not INDICES.issuperset(map(type, arg)):
                    apply = applier_for(arg)
                if apply is not None:
                    return apply(named or call, args, kwargs)
        return fn(*args, **kwargs)

    return call


def primitive(fn: Callable[Rest, Result]) -> Callable[Rest, Result]:
    """Make `fn` dispatch on traced arguments, so that a rule can be entered for it.

    Parameters
    ----------
    fn : function of positional arrays (and keywords that are no arrays) on plain values; its rule is entered with one of the
        kinds in `dualad.rules` (`elementwise`, `linear`, `explicit`, ...). One rule serves forward mode, reverse mode and chains.

    Returns
    -------
    function ``fn``, which on traced arguments follows its rule, and raises where it has none.

    Raises
    ------
    TypeError
        At a call with traced arguments, where no rule was entered for it.

    Examples
    --------
    >>> import dualad
    >>> @dualad.primitive
    ... def cube(x):
    ...     return x**3
    >>> _ = dualad.rules.elementwise(cube, lambda ans, x: 3 * x**2)
    >>> dualad.derivative(cube)(2.0), dualad.derivative(cube, order=2)(2.0)
    (12.0, 12.0)
    """

    call = dispatching(fn)
    call.plain = fn  # type: ignore[attr-defined]  # for those who know that nothing is traced
    return call


@primitive
def strong_multiply(p, t):
    """Return p * t, and 0 wherever t is 0, even where p is infinite or NaN."""
    with np.errstate(all="ignore"):
        return zero_wins(p * t, t)


def zero_wins(r, t):
    """Return the product r of something and t, with 0 wherever t is 0."""
    if all_finite(r):
        return r
    r = np.where(np.equal(t, 0), 0.0, r)
    return r if r.ndim else r[()]


def all_finite(x):
    """Return whether all of `x` is finite; may say no where a square overflows (one cheap pass decides for an array)."""
    if type(x) is np.ndarray:
        flat = x if x.ndim == 1 else x.ravel("K")
        x = flat.dot(flat)
    return x - x == 0


@primitive
def ratio(x, r):
    """Return x / r, and 0 where r is 0."""
    if issubclass(type(x), float) and issubclass(type(r), float):
        return x / r if r else 0.0
    zero = np.equal(r, 0.0)
    return np.where(zero, 0.0, x / np.where(zero, 1.0, r))[()] if np.count_nonzero(zero) else x / r
