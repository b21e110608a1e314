"""``quad``, ``nquad`` and ``fixed_quad`` of ``scipy.integrate`` with derivatives by the limits, `args` and what the integrand closes over.

The value is SciPy's, of a plain integrand. The derivative is that of a sum over places that stay where they are: Gauss' rule on each
interval that SciPy ended with, or, where a singular end made it extrapolate, the tanh-sinh rule (Takahasi & Mori 1974). That the sum
gives SciPy's value is checked. A limit moves as the integrand there says, whatever it does inside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any

import numpy as np
from scipy import integrate as si
from scipy.special import roots_legendre

from ..core.dispatch import array, holds_traced, plain_of, strengthen_one
from ..core.traced import Traced
from ..rules.constants import evaluate
from ..rules.cotangents import is_symbolic
from ..support.callers import trimmed
from ..verbs.called import called, interned, traced_arguments
from ..verbs.implicit import plain_value

WAY_OUT = "scipy.integrate.quad chooses its places on plain values, which are known only when the program runs: call it outside of jit"


def plain(x: Any) -> Any:
    return plain_value(array(x), WAY_OUT) if isinstance(x, Traced) or holds_traced(x) else x


# --- places -------------------------------------------------------------------------------------------------------------------------


def gauss(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return places and weights of Gauss' rule on intervals."""
    x, w = roots_legendre(21)
    half = 0.5 * (high - low)[:, None]
    return (low[:, None] + half * (1.0 + x)).ravel(), (half * w).ravel()


def tanh_sinh(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return places and weights that crowd at the ends of intervals, without the ends."""
    s = np.arange(-5.5, 5.51, 0.05)
    inner = np.pi * np.sinh(s)
    share = 1.0 / (1.0 + np.exp(inner))  # from the low end on
    w = 0.05 * np.pi * np.cosh(s) * share * (1.0 - share)
    width = (high - low)[:, None]
    places = np.where(share < 0.5, low[:, None] + width * share, high[:, None] - width / (1.0 + np.exp(-inner)))
    weights = width * w
    kept = (places > low[:, None]) & (places < high[:, None])
    return places[kept], weights[kept]


def halved(f: Callable, low: np.ndarray, high: np.ndarray, asked: float) -> tuple[np.ndarray, np.ndarray]:
    """Return Gauss' rule on intervals of which the worst is halved until the sums of halves tell nothing new: near a kink, say."""
    for _ in range(60):
        middle = 0.5 * (low + high)
        whole, first, second = (piecewise(f, *ends) for ends in ((low, high), (low, middle), (middle, high)))
        errors = np.abs(first + second - whole)
        if np.sum(errors) <= asked:
            break
        k = int(np.argmax(errors))
        low, high = np.insert(low, k + 1, middle[k]), np.insert(high, k, middle[k])
    return gauss(low, high)


def piecewise(f: Callable, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the integral by Gauss' rule on each interval."""
    x, w = gauss(low, high)
    return np.sum((w * values_of(f, x)).reshape(len(low), -1), axis=1)


def values_of(f: Callable, x: np.ndarray) -> np.ndarray:
    """Return the plain values of an integrand; NaN at a place where it has none."""

    def value(place: float) -> float:
        try:
            return f(place)
        except ZeroDivisionError:
            return np.nan

    with np.errstate(all="ignore"):
        return np.array([value(place) for place in x.tolist()], float)


def unbounded(t: np.ndarray, w: np.ndarray, a: float, b: float) -> tuple[np.ndarray, np.ndarray]:
    """Return places and weights on an infinite interval, which SciPy maps to (0, 1]."""
    far, w = (1.0 - t) / t, w / t**2
    if np.isfinite(a):
        return a + far, w
    return (b - far, w) if np.isfinite(b) else (np.concatenate([far, -far]), np.concatenate([w, w]))


def rules(f: Callable, ends: tuple, info: dict, points: Any, asked: float) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield places and weights, the next ones for integrands that the ones before do not get right."""
    (a, b), last = ends, info["last"]
    parts = info["alist"][:last], info["blist"][:last]
    if np.isfinite(a) and np.isfinite(b):
        low, high = parts if (parts[1][0] < parts[0][0]) == (b < a) else parts[::-1]
        yield gauss(low, high)
        inner = [p for p in np.ravel(() if points is None else points) if min(a, b) < p < max(a, b)]
        cuts = np.array([a, *sorted(inner, reverse=b < a), b], float)
        yield tanh_sinh(cuts[:-1], cuts[1:])
        yield halved(f, low, high, 0.1 * asked)
    else:
        for rule in (gauss(*parts), tanh_sinh(np.zeros(1), np.ones(1))):
            x, w = unbounded(*rule, min(a, b), max(a, b))
            yield x, w if a < b else -w


# --- sums ---------------------------------------------------------------------------------------------------------------------------


def weighted(f: Callable, x: np.ndarray, w: np.ndarray, values: np.ndarray) -> Any:
    """Return the sum of an integrand over places, whose plain values are known: of all at once if it takes arrays, else of each."""
    try:
        at_once = array(f(x))
        if np.shape(at_once) == x.shape and np.allclose(plain_of(at_once), values, rtol=1e-12, atol=0.0):
            return np.sum(w * at_once)
    except Exception:  # whatever a function of numbers makes of an array
        pass
    return sum(weight * f(place) for place, weight in zip(x.tolist(), w.tolist(), strict=True))


def moved(f: Callable, end: Any) -> Any:
    """Return the integral from the plain value of a limit to the limit: zero, with derivatives (exact to order 4, by Gauss)."""
    if not isinstance(end, Traced) or not np.isfinite(plain_of(end)):
        return 0.0
    step, share = end - plain_of(end), 0.5 - 0.5 / 3.0**0.5
    start = float(plain_of(end))
    return 0.5 * step * (f(start + share * step) + f(start + (1.0 - share) * step))


@trimmed
@wraps(si.quad)
def quad(
    func: Any, a: Any, b: Any, args: Any = (), full_output: int = 0, epsabs: float = 1.49e-8, epsrel: float = 1.49e-8,
    limit: int = 50, points: Any = None, weight: Any = None, wvar: Any = None, **options: Any,
) -> Any:  # fmt: skip
    if not callable(func):  # of C
        return si.quad(func, a, b, args, full_output, epsabs, epsrel, limit, points, weight, wvar, **options)
    compiled = traced_arguments(((func, a, b, args, full_output, epsabs, epsrel, limit, points, weight, wvar), options))
    if compiled:
        if full_output:
            raise TypeError("scipy.integrate.quad: with full_output= it cannot be compiled: leave it out")
        return in_program(quad, *compiled)
    args, found = args if isinstance(args, tuple) else (args,), []

    def integrand(x: Any) -> Any:
        return func(x, *args)

    def plainly(x: float) -> Any:
        value = integrand(x)
        if isinstance(value, Traced) or holds_traced(value):
            found.append(True)
            return plain(value)
        return value

    ends = plain(a), plain(b)
    result = si.quad(plainly, *ends, (), 1, epsabs, epsrel, limit, points, weight, wvar, **options)
    shown = result if full_output else result[:2]
    if len(result) > 3 and not full_output:  # a warning: SciPy says it
        shown = si.quad(plainly, *ends, (), 0, epsabs, epsrel, limit, points, weight, wvar, **options)
    if not (found or isinstance(a, Traced) or isinstance(b, Traced)):
        return shown
    for name, given in {"weight": weight, "complex_func": options.get("complex_func")}.items():
        if given:
            raise TypeError(f"scipy.integrate.quad has no derivative with {name}=: write it into the integrand, of real values")
    integral = moved(integrand, b) - moved(integrand, a)
    if found:
        integral = integral + fixed(integrand, plainly, ends, result, points, max(epsabs, epsrel * abs(result[0])))
    return (integral - plain_of(integral) + strengthen_one(result[0], integral), *shown[1:])


@dataclass(frozen=True)
class Part:
    """One of the things that an integration returns, as a function of the numbers that its arguments are made of."""

    integrate: Callable
    rebuild: Callable
    index: int

    def __call__(self, *numbers: Any) -> Any:
        args, options = self.rebuild(numbers)
        return self.integrate(*args, **options)[self.index]


def in_program(integrate: Callable, values: tuple, rebuild: Callable, key: Any) -> tuple:
    """Return the integral, and SciPy's estimate of its error, that a program calls for."""
    value, error = (interned(Part(integrate, rebuild, index), key, index) for index in (0, 1))
    return called(value, *values), evaluate(error, *values)


def fixed(f: Callable, plainly: Callable, ends: tuple, result: tuple, points: Any, asked: float) -> Any:
    """Return the integral as a sum over plain places that gives SciPy's value, as nearly as was asked for or SciPy says it is known."""
    value, error, info = result[:3]
    for x, w in rules(plainly, ends, info, points, asked):
        values = values_of(plainly, x)
        if abs(np.sum(w * values) - value) <= max(asked, 10.0 * error):
            return weighted(f, x, w, values)
    raise ValueError(
        "scipy.integrate.quad: no rule with fixed nodes reproduces SciPy's value, so the derivative would be wrong: give the points where "
        "the integrand is singular (points=), or substitute"
    )


@trimmed
@wraps(si.fixed_quad)
def fixed_quad(func: Callable, a: Any, b: Any, args: Any = (), n: int = 5) -> Any:
    if any(not is_symbolic(end) and np.any(np.isinf(plain_of(end))) for end in (a, b)):
        return si.fixed_quad(func, a, b, args, n)  # which says what is wrong
    x, w = roots_legendre(n)
    places = (b - a) * (np.real(x) + 1.0) / 2.0 + a
    return (b - a) / 2.0 * np.sum(w * func(places, *args), axis=-1), None


@trimmed
@wraps(si.nquad)
def nquad(func: Callable, ranges: Any, args: Any = None, opts: Any = None, full_output: bool = False) -> Any:
    """As SciPy's, the integral by the last variable of integrals by those before it."""
    if full_output or not callable(func):
        return si.nquad(func, ranges, args, opts, full_output)
    compiled = traced_arguments(((func, ranges, args, opts), {}))
    if compiled:
        return in_program(nquad, *compiled)
    each: Any = opts if isinstance(opts, list | tuple) else [opts or {}] * len(ranges)
    errors: list[float] = []

    def inner(depth: int, *outer: Any) -> Any:
        a, b = ranges[depth](*outer) if callable(ranges[depth]) else ranges[depth]
        options = dict(each[depth](*outer) if callable(each[depth]) else each[depth])
        if "points" in options:
            options["points"] = [p for p in options["points"] if plain(a) <= p <= plain(b)]
        integrand = partial(inner, depth - 1) if depth else func
        value, error = quad(lambda x, *rest: integrand(x, *rest), a, b, outer, **options)
        errors.append(error)
        return value

    return inner(len(ranges) - 1, *(() if args is None else args if isinstance(args, tuple) else (args,))), max(errors)


@trimmed
@wraps(si.dblquad)
def dblquad(func: Callable, a: Any, b: Any, gfun: Any, hfun: Any, args: Any = (), epsabs: float = 1.49e-8, epsrel: float = 1.49e-8) -> Any:
    ends = lambda y, *rest: [end(y) if callable(end) else end for end in (gfun, hfun)]
    return nquad(func, [ends, [a, b]], args, {"epsabs": epsabs, "epsrel": epsrel})


@trimmed
@wraps(si.tplquad)
def tplquad(
    func: Callable, a: Any, b: Any, gfun: Any, hfun: Any, qfun: Any, rfun: Any, args: Any = (), epsabs: float = 1.49e-8,
    epsrel: float = 1.49e-8,
) -> Any:  # fmt: skip
    first = lambda y, x, *rest: [end(x, y) if callable(end) else end for end in (qfun, rfun)]
    second = lambda x, *rest: [end(x) if callable(end) else end for end in (gfun, hfun)]
    return nquad(func, [first, second, [a, b]], args, {"epsabs": epsabs, "epsrel": epsrel})


FUNCTIONS = {"quad": quad, "fixed_quad": fixed_quad, "nquad": nquad, "dblquad": dblquad, "tplquad": tplquad}
