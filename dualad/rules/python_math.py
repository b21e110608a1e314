"""Functions of Python's `math` and `cmath` for adapted code: Python computes the value, NumPy's functions give the derivative."""

from __future__ import annotations

import cmath
import math
import sys
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import numpy as np

from ..support.callers import is_handled
from .cotangents import is_symbolic, level_of_symbol
from .indexing import number
from .reductions import defined
from .scipy.entering import by_body


def function_of(ufunc: np.ufunc) -> Callable:
    """Return a ufunc as a function with a signature."""
    return (lambda x: ufunc(x)) if ufunc.nin == 1 else lambda x, y: ufunc(x, y)


def special(name: str) -> Callable:
    """Return a function of scipy.special, which is imported at the first call."""

    def body(x: Any) -> Any:
        from scipy import special

        return getattr(special, name)(x)

    return body


def close(a: Any, b: Any, *, rel_tol: float = 1e-09, abs_tol: float = 0.0) -> Any:
    return (a == b) | (np.abs(a - b) <= np.maximum(rel_tol * np.maximum(np.abs(a), np.abs(b)), abs_tol))


def hypotenuse(*coordinates: Any) -> Any:
    return np.sqrt(sum(x * x for x in coordinates))


def logarithm(x: Any, base: Any = None) -> Any:
    return np.log(x) if base is None else np.log(x) / np.log(base)


#: functions of one number that NumPy has under the same name, or as arcsin for asin
SAME = "cbrt cos cosh degrees exp exp2 expm1 isfinite isinf isnan log10 log1p log2 radians sin sinh sqrt tan tanh"
INVERSE = "acos acosh asin asinh atan atanh"


def remainder(x: Any, y: Any) -> Any:
    """Return what is left of x, at most half of y: all steps are exact."""
    y = np.abs(y)
    rest = np.fmod(np.abs(x), 2.0 * y)
    less = rest - y
    less = less - np.where(less >= 0.5 * y, y, 0.0)
    return np.copysign(1.0, x) * np.where(rest > 0.5 * y, less, rest)


BODIES: dict[str, Callable] = {
    **{name: function_of(getattr(np, name)) for name in SAME.split()},
    **{name: function_of(getattr(np, f"arc{name[1:]}")) for name in INVERSE.split()},
    **{name: special(name) for name in ("erf", "erfc", "gamma")},
    "atan2": lambda y, x: np.arctan2(y, x),
    "copysign": function_of(np.copysign),
    "fabs": function_of(np.abs),
    "fmod": function_of(np.fmod),
    "hypot": hypotenuse,
    "isclose": close,
    "lgamma": special("gammaln"),
    "log": logarithm,
    "pow": function_of(np.power),
    "remainder": remainder,
}


NARROW = "efbBhHiIlLqQ"  # dtypes whose numbers `math` converts to doubles


def compiled(body: Callable, name: str) -> Callable:
    """Return a body that is of numbers of Python in compiled code, too, and raises there where the caller handles the error."""

    @wraps(body)
    def of_numbers(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = tuple(map(double, args)), {key: double(x) for key, x in kwargs.items()}
        out = body(*args, **kwargs)
        level = level_of_symbol(out)
        if level is None or out.dtype.kind != "f":
            return out
        if hasattr(level, "outermost") and is_handled(sys._getframe(1), level.outermost):
            out = defined(out, is_value(out, (*args, *kwargs.values())), f"{name}: domain or range error")
        return number(out)

    return of_numbers


def double(x: Any) -> Any:
    return number(x) if is_symbolic(x) and x.dtype.char in NARROW else x


def is_value(out: Any, args: tuple) -> Any:
    """Return whether a function gives a number, rather than NaN or infinity of arguments that are neither."""
    fine = np.isfinite(out)
    for x in (x for x in args if x is not None):
        fine = fine | np.isnan(x) | (np.isinf(x) & np.isinf(out))
    return fine


FUNCTIONS = {
    name: by_body(getattr(math, name), compiled(body, f"math.{name}"), f"math.{name}")
    for name, body in BODIES.items()
    if hasattr(math, name)
}
summed = by_body(lambda *values: math.fsum(values), lambda *values: sum(values, 0.0), "math.fsum")


def fsum(seq: Iterable[Any], /) -> Any:
    return summed(*seq)


def dist(p: Iterable[Any], q: Iterable[Any], /) -> Any:
    return FUNCTIONS["hypot"](*(a - b for a, b in zip(p, q, strict=True)))


FUNCTIONS |= {"fsum": fsum, "dist": dist}


# --- cmath ------------------------------------------------------------------------------------------------------------------


def of_complex(ufunc: Callable) -> Callable:
    """Return a ufunc that is given complex numbers, whatever the argument is."""
    return lambda z: ufunc(z + 0j)


COMPLEX_BODIES: dict[str, Callable] = {
    **{name: of_complex(getattr(np, name)) for name in ["cos", "cosh", "exp", "log10", "sin", "sinh", "sqrt", "tan", "tanh"]},
    **{name: of_complex(getattr(np, f"arc{name[1:]}")) for name in INVERSE.split()},
    "log": lambda z, base=None: logarithm(z + 0j, base),
    "phase": lambda z: np.angle(z),
    "rect": lambda r, phi: r * np.cos(phi) + 1j * (r * np.sin(phi)),
    **{name: function_of(getattr(np, name)) for name in ("isfinite", "isinf", "isnan")},
}

COMPLEX_FUNCTIONS = {name: by_body(getattr(cmath, name), body, f"cmath.{name}") for name, body in COMPLEX_BODIES.items()}


def polar(z: Any, /) -> Any:
    return abs(z), COMPLEX_FUNCTIONS["phase"](z)


COMPLEX_FUNCTIONS |= {"polar": polar}
