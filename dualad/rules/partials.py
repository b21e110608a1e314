"""Partials of elementwise functions: marking, evaluating and multiplying them."""

from __future__ import annotations

import dis
import inspect

import numpy as np

# --- marked partials: the interpreters know these by identity and save the multiplication or the call ------------------


def ONE(ans, *args):
    """Mark the partial 1."""
    return 1.0


def MINUS_ONE(ans, *args):
    """Mark the partial -1."""
    return -1.0


def ANS(ans, *args):
    """Mark a partial that equals the function's value, as for ``exp``."""
    return ans


def FIRST(ans, x, *args):
    """Mark a partial that equals the first argument."""
    return x


def SECOND(ans, x, y, *args):
    """Mark a partial that equals the second argument."""
    return y


#: marks, and no partial: nothing is computed of the arguments
MARKS = {ONE, MINUS_ONE, ANS, FIRST, SECOND, None}


def used_by(function, count):
    """Return which of so many arguments a partial (or a predicate) reads: the others need not be held for the reverse sweep."""
    function = getattr(function, "divisor", function)
    if not inspect.isfunction(function):  # a method, or an object that is called: its code has other arguments, or none
        return range(count)
    code, read = function.__code__, set[str]()
    for instruction in dis.get_instructions(code):
        read.update(instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,))
    named = code.co_varnames[: code.co_argcount]
    rest = range(len(named), count) if code.co_flags & inspect.CO_VARARGS and code.co_varnames[code.co_argcount] in read else ()
    return [*(i for i, name in enumerate(named[:count]) if name in read), *rest]


# --- a partial that is a quotient -----------------------------------------------------------------------------------------


def one_over(divisor):
    """Make the partial 1 / divisor; arrays are divided by it, which is one pass less than to multiply by the partial."""

    def partial(ans, *args, **kwargs):
        return 1.0 / divisor(ans, *args, **kwargs)

    partial.divisor = divisor  # type: ignore[attr-defined]
    return partial


# --- what the interpreters do with a partial --------------------------------------------------------------------------------


def evaluate_partial(partial, ans, args):
    """Return a partial; where Python's numbers raise, as NumPy's have it (inf)."""
    try:
        return partial(ans, *args)
    except (ZeroDivisionError, OverflowError):
        with np.errstate(all="ignore"):
            return partial(*(NUMPYS[type(v)](v) if type(v) in NUMPYS else v for v in (ans, *args)))


NUMPYS = {float: np.float64, int: np.float64, complex: np.complex128}


def product(partial, t, ans, args, mine=False):
    """Return a partial times `t`; of plain arrays in a buffer of the partial where that may be reused, or in `t` if it is `mine`."""
    divisor = getattr(partial, "divisor", None)
    if divisor is None:
        try:
            p = partial(ans, *args)
        except (ZeroDivisionError, OverflowError):
            p = evaluate_partial(partial, ans, args)
        if type(p) is not np.ndarray:
            return p * t
        return np.multiply(p, t, t) if mine else scale(p, t, ans, args)
    d = divisor(ans, *args)
    if type(d) in NUMPYS and not d:
        return evaluate_partial(partial, ans, args) * t
    buffer = t if mine else d if reusable(d, t, ans, args) else None
    return t / d if buffer is None else np.divide(t, d, buffer)


def scale(p, t, ans, args):
    """Return p * t, in the buffer of `p` where that may be reused."""
    return np.multiply(p, t, p) if reusable(p, t, ans, args) else p * t


def reusable(p, t, ans, args) -> bool:
    """Return whether `p` is a fresh array that nobody else holds, of the shape and dtype of the array `t`."""
    return (
        type(p) is np.ndarray is type(t)
        and p.base is None
        and p.shape == t.shape
        and p.dtype == t.dtype
        and p is not ans
        and p is not args[0]
        and p is not args[-1]
        and (len(args) < 3 or all(p is not arg for arg in args))
    )


def fits_into(buffer, term) -> bool:
    """Return whether `term` may be added into `buffer` in place."""
    return (
        type(buffer) is np.ndarray
        and buffer.base is None
        and (
            type(term) is float
            or (type(term) is np.ndarray and term.dtype == buffer.dtype and (term.shape == buffer.shape or term.ndim == 0))
        )
    )
