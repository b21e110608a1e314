"""The published grid of `accuracy`: what is differentiated, where, and the exact function in mpmath.

A point is a number, or a tuple of the arguments. Integers (and what stands in brackets) are not differentiated.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

from mpmath import mp, mpf


class Entry(NamedTuple):
    """A function, its exact one, and where the two are compared.

    Attributes
    ----------
    group : of the table of figures it counts in.
    name : what peers look for in their namespace; unique with `part` and `points`.
    exact : the same function in mpmath, of the differentiated arguments and the others.
    points : tuples of arguments.
    part : of which result, where there are several.
    inverse : `exact` is the inverse of the function in its last argument.
    shift : `exact` is an antiderivative (of this order) of the function.
    slope : the exact derivative of `exact` by its last argument, where differences of it cost too much.
    """

    group: str
    name: str
    exact: Callable
    points: list[tuple]
    part: int | None = None
    inverse: bool = False
    shift: int = 0
    call: Any = None
    slope: Callable | None = None


GRID: list[Entry] = []
GROUPS = ["ufuncs", "special functions", "arrays"]


# --- where ------------------------------------------------------------------------------------------------------------------

TINY = [1e-300, 1e-200, 1e-30, 1e-15, 1e-8]
SMALL = [1e-15, 1e-8, 1e-3]
MIDDLE = [0.1, 0.3, 0.9, 1.7, 4.2]
LARGE = [9.5, 20.0, 40.0, 300.0]
HUGE = [1e4, 1e8, 1e15]
EDGE = [1e30, 1e200, 1e300]


def both(*parts):
    points = [x for part in parts for x in part]
    return [*(-x for x in points), *points]


POSITIVE = [*TINY, *SMALL[2:], *MIDDLE, *LARGE, *HUGE, *EDGE]
LINE = [0.0, *both(POSITIVE)]
BOUNDED = [0.0, *both(TINY, [1e-3, 0.1, 0.3, 0.6, 0.9, 0.999, 1 - 1e-8, 1 - 2**-50])]
UNIT = [*TINY, 1e-3, 0.1, 0.3, 0.5, 0.7, 0.9, 0.999, 1 - 1e-8, 1 - 2**-50]
MODERATE = [*SMALL, *MIDDLE, *LARGE]
SHORT = [1e-8, 0.3, 1.7, 4.2, 20.0]
ANGLES = [0.0, *both(TINY, [1e-3, 0.5, 1.0, 1.5, 2.0, 3.0, 10.0, 355.0, 1e5, 1e15, 1e200])]


def each(*lists):
    return list(product(*lists))


def held(values):
    """Values that are not differentiated."""
    return [(value,) for value in values]


def enter(group, name, exact, points, **options):
    points = [point if isinstance(point, tuple) else (point,) for point in points]
    GRID.append(Entry(group, name, exact, points, **options))


# --- ufuncs -----------------------------------------------------------------------------------------------------------------


def ufunc(name, exact, points, **options):
    enter("ufuncs", name, exact, points, **options)


PAIRS = [
    (0.3, 1.7),
    (-2.5, 4.2),
    (1.7, -0.3),
    (-9.5, -1e-8),
    (1e-200, 3e-200),
    (1e200, -2e200),
    (3e-300, 1e-300),
    (1e155, 1e160),
    (1.0, 1e8),
]
NEAR = [(0.3, 0.7), (700.0, 699.5), (-800.0, -801.0), (0.0, 40.0), (0.0, -40.0), (1e-8, 2e-8), (1e8, 1e8 + 1), (-1e200, 3.0)]
ROOT = lambda x: mp.sqrt(x)

ufunc("add", lambda x, y: x + y, PAIRS)
ufunc("subtract", lambda x, y: x - y, PAIRS)
ufunc("multiply", lambda x, y: x * y, PAIRS)
ufunc("divide", lambda x, y: x / y, PAIRS)
ufunc("negative", lambda x: -x, LINE)
ufunc("positive", lambda x: +x, LINE)
ufunc("reciprocal", lambda x: 1 / x, both(POSITIVE))
ufunc("square", lambda x: x * x, LINE)
ufunc(
    "power",
    lambda x, y: x**y,
    [
        *each([1e-200, 1e-8, 0.3, 1.0, 1.7, 40.0, 1e8, 1e200], [-1.5, -1e-8, 1e-8, 0.5, 1.0, 2.0, 3.5, 30.0]),
        *each([-2.5, -1e-8, -1e200, -1e-200], held([-3, -1, 1, 2, 3, 5])),
    ],
)
ufunc("float_power", lambda x, y: x**y, each([1e-8, 0.3, 1.7, 1e8], [-1.5, 0.5, 2.0, 30.0]))
ufunc("remainder", lambda x, y: x - y * mp.floor(x / y), PAIRS[:4])
ufunc("fmod", lambda x, y: x - y * (mp.floor(x / y) if x / y > 0 else mp.ceil(x / y)), PAIRS[:4])
ufunc("ldexp", lambda x, n: mp.ldexp(x, int(n)), [(0.3, (3,)), (-2.5, (-900,)), (1e-200, (900,)), (1e200, (-1000,))])
ufunc("divmod", lambda x, y: x - y * mp.floor(x / y), PAIRS[:4], part=1)
ufunc("modf", lambda x: x - (mp.floor(x) if x > 0 else mp.ceil(x)), [0.3, -1.7, 1e8 + 0.5, 1e-200], part=0)
ufunc("frexp", lambda x: x / mpf(2) ** (mp.floor(mp.log(abs(x), 2)) + 1), [0.3, -1.7, 1e8 + 0.5, 1e-200, 1e200], part=0)
ufunc("sqrt", ROOT, POSITIVE)
ufunc("cbrt", lambda x: mp.sign(x) * mp.cbrt(abs(x)), both(POSITIVE))
for name, exact in (("exp", mp.exp), ("expm1", mp.expm1), ("exp2", lambda x: mpf(2) ** x)):
    ufunc(name, exact, LINE)
ufunc("log", mp.log, [*POSITIVE, 0.999, 1 - 2**-50])
ufunc("log2", lambda x: mp.log(x) / mp.log(2), [*POSITIVE, 0.999])
ufunc("log10", lambda x: mp.log(x) / mp.log(10), [*POSITIVE, 0.999])
ufunc("log1p", mp.log1p, [*POSITIVE, 0.0, -1e-300, -1e-8, -0.3, -0.9, -0.999, -1 + 2**-50])
ufunc("logaddexp", lambda x, y: mp.log(mp.exp(x) + mp.exp(y)), NEAR)
ufunc("logaddexp2", lambda x, y: mp.log(mpf(2) ** x + mpf(2) ** y) / mp.log(2), NEAR)
ufunc("sin", mp.sin, ANGLES)
ufunc("cos", mp.cos, ANGLES)
ufunc("tan", mp.tan, ANGLES)
ufunc("arcsin", mp.asin, BOUNDED)
ufunc("arccos", mp.acos, BOUNDED)
ufunc("arctan", mp.atan, LINE)
ufunc("arctan2", mp.atan2, [*PAIRS, (2.0, 0.0), (0.0, 2.0), (1.0, 1e-200), (1e-200, 1.0), (1e300, 1e300), (-1e-300, -1e-300), (1e5, 1e-5)])
ufunc("hypot", mp.hypot, [*PAIRS, (2.0, 0.0), (1e5, 1e-3), (1e-3, 1e5), (1e-200, 1.0), (1e300, 1e300), (1e-300, 1e-300)])
ufunc("sinh", mp.sinh, LINE)
ufunc("cosh", mp.cosh, LINE)
ufunc("tanh", mp.tanh, [*LINE, 0.5, 2.0, 3.0, 5.0, -18.0, 350.0, 360.0])
ufunc("arcsinh", mp.asinh, LINE)
ufunc("arccosh", mp.acosh, [1 + 2**-50, 1 + 1e-8, 1.001, 1.3, 1.7, 4.2, *LARGE, *HUGE, *EDGE])
ufunc("arctanh", mp.atanh, BOUNDED)
for name, factor in (("deg2rad", 1), ("radians", 1), ("rad2deg", -1), ("degrees", -1)):
    ufunc(name, lambda x, factor=factor: x * (mp.pi / 180) ** factor, LINE)
ufunc("absolute", abs, both(POSITIVE))
ufunc("fabs", abs, both(POSITIVE))
for name, exact in (("maximum", max), ("fmax", max), ("minimum", min), ("fmin", min)):
    ufunc(name, lambda x, y, exact=exact: exact(x, y), PAIRS)
ufunc("copysign", lambda x, y: abs(x) * mp.sign(y), PAIRS)
ufunc("clip", lambda x, low, high: min(max(x, low), high), [(0.3, 0.1, 1.7), (0.3, 0.5, 1.7), (1e200, 0.5, 1.7)])
ufunc("conjugate", lambda x: +x, LINE)
ufunc("nextafter", lambda x, y: +x, PAIRS[:4])


# --- arrays: of one number t, by which all elements move ----------------------------------------------------------------------


def arrays(name, exact, points, call):
    """`call` is given the namespace and t, `exact` the elements as numbers of mpmath."""
    enter("arrays", name, exact, points, call=call)


WEIGHTS, OFFSETS = (1.0, -2.0, 0.5, 3.0), (0.3, 1.7, -4.2, 0.9)
STEPS = [0.0, 0.7, -2.5, 1e-8]
MATRIX = ((2.0, -1.0, 0.5), (1.0, 3.0, -2.0), (0.5, 1.0, 4.0))
NEARLY = ((1.0, 2.0, 3.0), (4.0, 5.0, 6.0), (7.0, 8.0, 9.0))  # singular at t = 0
RANK_ONE = ((1.0, 2.0, 3.0), (2.0, 4.0, 6.0), (-1.0, -2.0, -3.0))
DIRECTION = ((1.0, 0.5, -1.0), (0.25, 2.0, 1.0), (-0.5, 1.0, 3.0))


def moving(t, xp=None):
    if xp is None:
        return [mpf(o) + t * mpf(w) for o, w in zip(OFFSETS, WEIGHTS, strict=True)]
    return xp.array(OFFSETS) + t * xp.array(WEIGHTS)


def vector(function):
    return lambda xp, t: function(xp, moving(t, xp))


def scaled(name, exact, call, steps=STEPS):
    """Enter a function of the moving vector, and of one very long and very short: both homogeneous."""
    for suffix, scale in (("", 1.0), (" x 1e150", 1e150), (" x 1e-150", 1e-150)):
        arrays(
            name + suffix,
            lambda t, scale=scale: exact([scale * x for x in moving(t)]),
            steps,
            lambda xp, t, scale=scale: call(xp, scale * moving(t, xp)),
        )


def variance(x):
    mean = mp.fsum(x) / len(x)
    return mp.fsum((v - mean) ** 2 for v in x) / len(x)


def matrix(start, t, xp=None):
    if xp is None:
        return mp.matrix([[mpf(a) + t * mpf(b) for a, b in zip(*rows, strict=True)] for rows in zip(start, DIRECTION, strict=True)])
    return xp.array(start) + t * xp.array(DIRECTION)


def determinant(start):
    return {"exact": lambda t: mp.det(matrix(start, t)), "call": lambda xp, t: xp.linalg.det(matrix(start, t, xp))}


for order in (1, 2, 2.5, 3, float("inf")):
    scaled(
        f"norm, ord={order}",
        lambda x, order=order: max(map(abs, x)) if order == float("inf") else mp.fsum(abs(v) ** mpf(order) for v in x) ** (1 / mpf(order)),
        lambda xp, x, order=order: xp.linalg.norm(x, float(order)),
    )
scaled("matmul", lambda x: mp.fsum(v * v for v in x), lambda xp, x: xp.matmul(x, x))
scaled("vecdot", lambda x: mp.fsum(v * v for v in x), lambda xp, x: xp.vecdot(x, x))
scaled("mean", lambda x: mp.fsum(x) / 4, lambda xp, x: xp.mean(x))
scaled("var", variance, lambda xp, x: xp.var(x))
scaled("std", lambda x: mp.sqrt(variance(x)), lambda xp, x: xp.std(x))
arrays("prod", lambda t: mp.fprod(moving(t)), [*STEPS, 8.4], vector(lambda xp, x: xp.prod(x)))
arrays("det", points=STEPS, **determinant(MATRIX))
arrays("det, nearly singular", points=[1e-1, 1e-3, 1e-5, 1e-6, 1e-8, 1e-12, 0.0], **determinant(NEARLY))
arrays("det, nearly of rank 1", points=[1e-1, 1e-3, 1e-5, 1e-6, 1e-8, 1e-12, 0.0], **determinant(RANK_ONE))
arrays(
    "sinc",
    lambda x: mp.sinpi(x) / (mp.pi * x) if x else mpf(1),
    [0.0, *both([1e-200, 1e-8, 0.3, 0.99, 1.7, 9.6, 300.3, 1e8 + 0.25])],
    lambda xp, x: xp.sinc(x),
)
arrays("i0", lambda x: mp.besseli(0, x), [0.0, *both([1e-200, 1e-8, 0.3, 1.7, 9.6, 40.0, 300.0, 700.0])], lambda xp, x: xp.i0(x))
arrays("angle", lambda t: mp.atan2(mpf(2e200), 1e200 * t), [0.7, -2.5], lambda xp, t: xp.angle(1e200 * t + 2e200j))
arrays("angle", lambda t: mp.atan2(mpf(2e-200), 1e-200 * t), [0.7, -2.5], lambda xp, t: xp.angle(1e-200 * t + 2e-200j))
