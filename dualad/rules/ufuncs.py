"""Ufuncs: elementwise partials, each given ``(ans, *args)``. Kinks are decided here, in the trailing comments."""

from __future__ import annotations

import math

from .kinds import (
    ANS,
    FIRST,
    MINUS_ONE,
    ONE,
    SECOND,
    composite,
    constant,
    elementwise,
    is_complex,
    one_over,
    primitive,
    real_linear,
    refused,
)
from .names import np
from .primitives import all_finite, ratio
from .stable import (
    cosine,
    expm1_keeps,
    expm1_partial,
    one_minus_square,
    one_more,
    root_above_one,
    root_below_one,
    tanh_keeps,
    tanh_partial,
    turn,
)

LOG2, LOG10, DEGREE = math.log(2.0), math.log(10.0), math.pi / 180.0


# --- partials that do not fit on one line -------------------------------------------------------------------------------


def power_base(ans, x, y):
    """Return y * x**(y - 1), and 0 where y is 0."""
    if type(y) in (int, float):
        if y == 2:
            return x + x
        if type(x) is float and x <= 0.0 and y:  # NaN or infinite, where Python's ** is complex or raises
            with np.errstate(all="ignore"):
                return y * float(np.power(x, y - 1.0))
        return y * x ** (y - 1) if y else np.zeros_like(x)
    zero = np.equal(y, 0)
    return np.where(zero, 0.0, y * np.power(x, np.where(zero, 1.0, y - 1.0)))


def power_singular(x, y):
    """Return whether a partial of x**y may be infinite; a constant exponent of 1 or more has none."""
    return not (type(y) in (int, float) and y >= 1)


def power_exponent(ans, x, y):
    """Return x**y * log(x): for x = 0 the limit, 0 for y > 0 and -inf below."""
    if type(x) in (int, float) and not is_complex(y):  # a Python scalar leaves single precision as it is
        if x:
            return ans * (math.log(x) if x > 0 else math.nan)
        return np.where(np.greater(y, 0), 0.0, np.where(np.isnan(ans), ans, -math.inf))
    flat = np.logical_and(np.equal(x, 0), np.greater(np.real(y), 0))
    return np.where(flat, 0.0, ans * np.log(np.where(flat, 1.0, x)))


@primitive
def larger_share(ans, x, y):
    """Return 1 where x is the larger, 1/2 at a tie, 0 elsewhere; NaN counts as ``maximum`` and ``minimum`` count it."""
    mine, other = np.equal(x, ans), np.equal(y, ans)
    return mine if exclusive(mine, other) else halved(np.logical_or(mine, np.isnan(x)), np.logical_or(other, np.isnan(y)))


@primitive
def fmax_share(ans, x, y):
    """Return the share of x in fmax or fmin, which ignore NaN."""
    mine, other = np.equal(x, ans), np.equal(y, ans)
    return mine if exclusive(mine, other) else halved(np.logical_or(mine, np.isnan(y)), np.logical_or(other, np.isnan(x)))


def exclusive(mine, other):
    """Return whether exactly one of the two is true everywhere: there is no tie, and no NaN wins."""
    return not np.count_nonzero(np.equal(mine, other))


def halved(mine, other):
    """Return 1 where only the first is true, 1/2 where both are, 0 elsewhere."""
    return mine * (1.0 - 0.5 * other)


def second(partial):
    """Turn the partial of a symmetric function's first argument into that of its second."""
    return lambda ans, x, y: partial(ans, y, x)


@primitive
def softmax_share(x, y, rate=1.0):
    """Return exp(rate x) / (exp(rate x) + exp(rate y)), 1/2 where both are the same infinity."""
    with np.errstate(all="ignore"):
        share = 1.0 / (1.0 + np.exp(y - x if rate == 1.0 else rate * (y - x)))
        return share if all_finite(share) else np.where(np.equal(x, y), 0.5, share)[()]


def magnitude(z):
    return np.hypot(np.real(z), np.imag(z))


def direction(z):
    return ratio(z, magnitude(z))


@primitive
def exponent(x):
    """Return the integer exponent of frexp."""
    return np.frexp(x)[1]


@primitive
def fraction(x):
    """Return the fractional part of modf."""
    return np.modf(x)[0]


@primitive
def integral_part(x):
    """Return the integral part of modf, of integers as a float."""
    return np.modf(x)[1]


# --- arithmetic ---------------------------------------------------------------------------------------------------------

# fmt: off
elementwise(np.add,         ONE, ONE, operator="add")
elementwise(np.subtract,    ONE, MINUS_ONE, operator="sub")
elementwise(np.multiply,    SECOND, FIRST, operator="mul")
elementwise(ratio,          lambda ans, x, r: ratio(1.0, r), lambda ans, x, r: -ratio(ans, r), chooses=True)  # 0 where r is 0
elementwise(np.divide,      one_over(SECOND), lambda ans, x, y: -ans / y, operator="truediv", divides=1)
elementwise(np.negative,    MINUS_ONE, operator="neg")
elementwise(np.positive,    ONE, neutral=True, operator="pos")
elementwise(np.reciprocal,  lambda ans, x: -ans * ans)
elementwise(np.square,      lambda ans, x: x + x)
# x**0: 0 everywhere; 0**y: 0 for y > 0
elementwise(np.power,       power_base, power_exponent, singular=power_singular, operator="pow", divides=0)
elementwise(np.float_power, power_base, power_exponent, singular=power_singular, divides=0)
elementwise(np.remainder,   ONE, lambda ans, x, y: -np.floor_divide(x, y), chooses=True, operator="mod", divides=1)
elementwise(np.fmod,        ONE, lambda ans, x, y: -np.rint((x - ans) / y), chooses=True)
elementwise(np.ldexp,       lambda ans, x, n: np.exp2(n * 1.0), None, called="it is rarely asked")
composite(np.divmod,        lambda x, y: (np.floor_divide(x, y), np.remainder(x, y)), operator="divmod", divides=1)
elementwise(fraction,       ONE)
constant(exponent, called="it is rarely asked")
constant(integral_part, elementwise=True)
composite(np.modf,          lambda x: (fraction(x), integral_part(x)))
composite(np.frexp,         lambda x: (np.ldexp(x, -exponent(x)), exponent(x)))

# --- powers, exponentials, logarithms -------------------------------------------------------------------------------------

elementwise(np.sqrt,       lambda ans, x: 0.5 / ans, singular=True)                # sqrt'(0) = inf
elementwise(np.cbrt,       one_over(lambda ans, x: 3.0 * ans * ans), singular=True)  # cbrt'(0) = inf
elementwise(np.exp,        ANS)
elementwise(np.exp2,       lambda ans, x: LOG2 * ans)
elementwise(np.expm1,      expm1_partial, brief=lambda ans, x: ans + 1.0, enough=expm1_keeps)
elementwise(np.log,        one_over(lambda ans, x: x), singular=True)
elementwise(np.log2,       one_over(lambda ans, x: LOG2 * x), singular=True)
elementwise(np.log10,      one_over(lambda ans, x: LOG10 * x), singular=True)
elementwise(np.log1p,      one_over(lambda ans, x: 1.0 + x), singular=True)
elementwise(softmax_share, lambda ans, x, y, rate=1.0: rate * ans * softmax_share(y, x, rate),
                           lambda ans, x, y, rate=1.0: -rate * ans * softmax_share(y, x, rate), None)
elementwise(np.logaddexp,  lambda ans, x, y: softmax_share(x, y), lambda ans, x, y: softmax_share(y, x))
elementwise(np.logaddexp2, lambda ans, x, y: softmax_share(x, y, LOG2), lambda ans, x, y: softmax_share(y, x, LOG2))

# --- trigonometric and hyperbolic -----------------------------------------------------------------------------------------

elementwise(np.sin,     lambda ans, x: np.cos(x))
elementwise(np.cos,     lambda ans, x: -np.sin(x))
elementwise(np.tan,     lambda ans, x: 1.0 + ans * ans)
elementwise(np.arcsin,  one_over(lambda ans, x: root_below_one(x)), singular=True)   # arcsin'(+-1) = inf
elementwise(np.arccos,  one_over(lambda ans, x: -root_below_one(x)), singular=True)  # arccos'(+-1) = -inf
elementwise(np.arctan,  one_over(lambda ans, x: 1.0 + x * x))
elementwise(np.arctan2, lambda ans, y, x: turn(x, y), lambda ans, y, x: -turn(y, x), singular=True)  # arctan2'(0, 0) = 0
elementwise(np.hypot,   lambda ans, x, y: cosine(x, y, ans), lambda ans, x, y: cosine(y, x, ans), singular=True)  # hypot'(0, 0) = 0
elementwise(np.sinh,    lambda ans, x: np.cosh(x))
elementwise(np.cosh,    lambda ans, x: np.sinh(x))
elementwise(np.tanh,    tanh_partial, brief=lambda ans, x: 1.0 - ans * ans, enough=tanh_keeps)
elementwise(np.arcsinh, one_over(lambda ans, x: root_above_one(x)))
elementwise(np.arccosh, one_over(lambda ans, x: np.sqrt(x - 1.0) * np.sqrt(one_more(x))), singular=True)
elementwise(np.arctanh, one_over(lambda ans, x: one_minus_square(x)), singular=True)
elementwise(np.deg2rad, lambda ans, x: DEGREE)
elementwise(np.radians, lambda ans, x: DEGREE)
elementwise(np.rad2deg, lambda ans, x: 1.0 / DEGREE)
elementwise(np.degrees, lambda ans, x: 1.0 / DEGREE)

# --- kinks ----------------------------------------------------------------------------------------------------------------

elementwise(np.absolute, lambda ans, x: np.sign(x), complex_body=magnitude, operator="abs")  # abs'(0) = 0
elementwise(np.fabs,     lambda ans, x: np.sign(x))                                # fabs'(0) = 0
elementwise(np.maximum,  larger_share, second(larger_share))                       # ties share equally
elementwise(np.minimum,  larger_share, second(larger_share))                       # ties share equally
elementwise(np.fmax,     fmax_share, second(fmax_share))                           # follows what is not NaN
elementwise(np.fmin,     fmax_share, second(fmax_share))
elementwise(np.copysign, lambda ans, x, y: np.sign(x) * np.sign(ans), lambda ans, x, y: 0.0, chooses=True)  # copysign'(0) = 0
elementwise(np.nextafter, ONE, lambda ans, x, y: 0.0)
constant(larger_share, fmax_share, chooses=True, elementwise=True)
constant(np.ceil, np.floor, np.trunc, np.rint, np.heaviside, chooses=True)
constant(np.floor_divide, chooses=True, operator="floordiv", divides=1)
constant(np.spacing)
constant(np.sign, complex_body=direction, chooses=True)

# --- complex --------------------------------------------------------------------------------------------------------------

real_linear(np.conjugate, lambda g, x: np.conjugate(g), neutral=True, lower="conjugate")
real_linear(np.real,      lambda g, x: g, view="maybe", neutral=True, elementwise=True, lower="real")
real_linear(np.imag,      lambda g, x: -1j * g, view="maybe", elementwise=True, lower="imaginary")

# --- predicates, integers, bits, strings ------------------------------------------------------------------------------------

for name, fn in {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}.items():
    constant(fn, chooses=True, operator=name)
constant(np.signbit, chooses=True)
constant(np.logical_and, np.logical_or, np.logical_xor, np.logical_not, logical=True)
constant(np.isfinite, np.isinf, np.isnan)
constant(np.isnat, called="it is rarely asked")
for operator, fns in {"and": [np.bitwise_and], "or": [np.bitwise_or], "xor": [np.bitwise_xor], "invert": [np.invert],
                  "lshift": [np.left_shift], "rshift": [np.right_shift], None: [np.bitwise_count, np.gcd, np.lcm]}.items():
    refused("it is defined on integers and bits: pass plain integers (dualad.primal(x).astype(int))", *fns, bits=True, operator=operator)
# fmt: on
