"""Ufuncs: elementwise partials, each given ``(ans, *args)``. Kinks are decided here, in the trailing comments."""

import math
import operator as operators

from .cotangents import is_complex, is_symbolic
from .kinds import composite, constant, elementwise, real_linear, refused
from .names import np
from .partials import ANS, FIRST, MINUS_ONE, ONE, SECOND, one_over
from .primitives import all_finite, primitive, ratio, strong_multiply
from .scalars import ANY, REAL, Scalar, by_operator, call, fractional, itself, kernel, whole, wide
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
    """Return z / abs(z), where that is infinite 1 or -1 along the axis of the infinite part, as NumPy does."""
    if not is_symbolic(z):  # NumPy gives the value
        return ratio(z, magnitude(z))
    x, y, r = np.real(z), np.imag(z), magnitude(z)
    far, wide = np.isinf(r), np.isinf(x)
    r = np.where(far & wide & np.isinf(y), np.nan, np.where(far, 1.0, r))
    x, y = np.where(far, np.where(wide, np.sign(x), 0.0), x), np.where(far, np.where(wide, 0.0, np.sign(y)), y)
    return ratio(x, r) + 1j * ratio(y, r)


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
elementwise(np.add,         ONE, ONE, operator="add", exact=whole("exact_sum", 2),
            scalar=Scalar(lambda x, y: x + y, kinds=ANY, booleans=lambda x, y: x | y))
elementwise(np.subtract,    ONE, MINUS_ONE, operator="sub", exact=whole("exact_difference", 2), scalar=by_operator(operators.sub, "fiuc"))
elementwise(np.multiply,    SECOND, FIRST, operator="mul", exact=whole("exact_product", 2),
            scalar=Scalar(lambda x, y: x * y, kinds=ANY, booleans=lambda x, y: x & y))
elementwise(strong_multiply, SECOND, FIRST, singular=True, scalar=kernel("strong_multiply", 2, 3),
            of_complex=kernel("complex_strong_multiply", 2, 8, "c", dtype="complex128"))
elementwise(ratio,          lambda ans, x, r: ratio(1.0, r), lambda ans, x, r: -ratio(ans, r), chooses=True,  # 0 where r is 0
            scalar=kernel("ratio", 2, 7))
elementwise(np.divide,      one_over(SECOND), lambda ans, x, y: -ans / y, operator="truediv", divides=1,
            scalar=Scalar(lambda x, y: x / y, 5), of_complex=kernel("complex_quotient", 2, 8, "c", wide=True, dtype="complex128"))
elementwise(np.negative,    MINUS_ONE, operator="neg", scalar=Scalar(lambda x: -x, 0, "fiuc"),  # LLVM negates what it is made of
            exact=Scalar(lambda k: call("exact_difference", 0, k, dtype="int64"), 2, "ib"))
elementwise(np.positive,    ONE, neutral=True, operator="pos", scalar=Scalar(itself, 0, "fiuc"))
elementwise(np.reciprocal,  lambda ans, x: -ans * ans, scalar=Scalar(lambda x: 1.0 / x, 5),
            of_complex=kernel("complex_reciprocal", 1, 6, "c", wide=True, dtype="complex128"))
elementwise(np.square,      lambda ans, x: x + x, scalar=Scalar(lambda x: x * x, kinds="fiuc"),
            exact=Scalar(lambda k: call("exact_product", k, k, dtype="int64"), 2, "ib"))
# x**0: 0 everywhere; 0**y: 0 for y > 0
elementwise(np.power,       power_base, power_exponent, singular=power_singular, operator="pow", divides=0, lower="power",
            scalar=Scalar(lambda x, y: x ** y, 60, wide=True), exact=whole("exact_power", 2, 60))
elementwise(np.float_power, power_base, power_exponent, singular=power_singular, divides=0,
            scalar=Scalar(lambda x, y: x ** y, 60, wide=True))
elementwise(np.remainder,   ONE, lambda ans, x, y: -np.floor_divide(x, y), chooses=True, operator="mod", divides=1,
            scalar=kernel("remainder", 2, 20), of_integers=Scalar(lambda x, y: x % y, 20, "iu"), exact=whole("exact_remainder", 2, 20))
elementwise(np.fmod,        ONE, lambda ans, x, y: -np.rint((x - ans) / y), chooses=True, scalar=kernel("np.fmod", 2, 20))
elementwise(np.ldexp,       lambda ans, x, n: np.exp2(n * 1.0), None, called="it is rarely asked")
composite(np.divmod,        lambda x, y: (np.floor_divide(x, y), np.remainder(x, y)), operator="divmod", divides=1)
elementwise(fraction,       ONE, scalar=Scalar(fractional, 5))
constant(exponent, called="it is rarely asked")
constant(integral_part, elementwise=True, scalar=kernel("np.trunc", 1, 2))
composite(np.modf,          lambda x: (fraction(x), integral_part(x)))
composite(np.frexp,         lambda x: (np.ldexp(x, -exponent(x)), exponent(x)))

# --- powers, exponentials, logarithms -------------------------------------------------------------------------------------

elementwise(np.sqrt,       lambda ans, x: 0.5 / ans, singular=True, scalar=kernel("math.sqrt", 1, 6))                # sqrt'(0) = inf
elementwise(np.cbrt,       one_over(lambda ans, x: 3.0 * ans * ans), singular=True, scalar=wide("cbrt", 1, 25))  # cbrt'(0) = inf
elementwise(np.exp,        ANS, scalar=wide("exp", 1, 14), lower="exp")
elementwise(np.exp2,       lambda ans, x: LOG2 * ans, scalar=wide("np.exp2", 1, 40))
elementwise(np.expm1,      expm1_partial, brief=lambda ans, x: ans + 1.0, enough=expm1_keeps, scalar=wide("expm1", 1, 18))
elementwise(np.log,        one_over(lambda ans, x: x), singular=True, scalar=wide("log", 1, 18))
elementwise(np.log2,       one_over(lambda ans, x: LOG2 * x), singular=True, scalar=wide("np.log2", 1, 40))
elementwise(np.log10,      one_over(lambda ans, x: LOG10 * x), singular=True, scalar=wide("np.log10", 1, 40))
elementwise(np.log1p,      one_over(lambda ans, x: 1.0 + x), singular=True, scalar=wide("log1p", 1, 22))
elementwise(softmax_share, lambda ans, x, y, rate=1.0: rate * ans * softmax_share(y, x, rate),
                           lambda ans, x, y, rate=1.0: -rate * ans * softmax_share(y, x, rate), None, scalar=wide("softmax_share", 3, 25))
elementwise(np.logaddexp,  lambda ans, x, y: softmax_share(x, y), lambda ans, x, y: softmax_share(y, x), scalar=wide("np.logaddexp", 2, 80))
elementwise(np.logaddexp2, lambda ans, x, y: softmax_share(x, y, LOG2), lambda ans, x, y: softmax_share(y, x, LOG2),
                           scalar=wide("np.logaddexp2", 2, 80))

# --- trigonometric and hyperbolic -----------------------------------------------------------------------------------------

elementwise(np.sin,     lambda ans, x: np.cos(x), scalar=wide("sin", 1, 20))
elementwise(np.cos,     lambda ans, x: -np.sin(x), scalar=wide("cos", 1, 20))
elementwise(np.tan,     lambda ans, x: 1.0 + ans * ans, scalar=wide("tan", 1, 30))
elementwise(np.arcsin,  one_over(lambda ans, x: root_below_one(x)), singular=True, scalar=wide("np.arcsin", 1, 40))   # arcsin'(+-1) = inf
elementwise(np.arccos,  one_over(lambda ans, x: -root_below_one(x)), singular=True, scalar=wide("np.arccos", 1, 40))  # arccos'(+-1) = -inf
elementwise(np.arctan,  one_over(lambda ans, x: 1.0 + x * x), scalar=wide("arctan", 1, 25))
elementwise(np.arctan2, lambda ans, y, x: turn(x, y), lambda ans, y, x: -turn(y, x), singular=True,  # arctan2'(0, 0) = 0
                        scalar=wide("np.arctan2", 2, 60))
elementwise(np.hypot,   lambda ans, x, y: cosine(x, y, ans), lambda ans, x, y: cosine(y, x, ans), singular=True,  # hypot'(0, 0) = 0
                        scalar=wide("np.hypot", 2, 20), lower="hypot")
elementwise(np.sinh,    lambda ans, x: np.cosh(x), scalar=wide("sinh", 1, 40))
elementwise(np.cosh,    lambda ans, x: np.sinh(x), scalar=wide("cosh", 1, 30))
elementwise(np.tanh,    tanh_partial, brief=lambda ans, x: 1.0 - ans * ans, enough=tanh_keeps, scalar=wide("tanh", 1, 25))
elementwise(np.arcsinh, one_over(lambda ans, x: root_above_one(x)), scalar=wide("np.arcsinh", 1, 60))
elementwise(np.arccosh, one_over(lambda ans, x: np.sqrt(x - 1.0) * np.sqrt(one_more(x))), singular=True, scalar=wide("np.arccosh", 1, 60))
elementwise(np.arctanh, one_over(lambda ans, x: one_minus_square(x)), singular=True, scalar=wide("np.arctanh", 1, 60))
elementwise(np.deg2rad, lambda ans, x: DEGREE, scalar=Scalar(lambda x: x * (math.pi / 180.0), wide=True))
elementwise(np.radians, lambda ans, x: DEGREE, scalar=Scalar(lambda x: x * (math.pi / 180.0), wide=True))
elementwise(np.rad2deg, lambda ans, x: 1.0 / DEGREE, scalar=Scalar(lambda x: x * (180.0 / math.pi), wide=True))
elementwise(np.degrees, lambda ans, x: 1.0 / DEGREE, scalar=Scalar(lambda x: x * (180.0 / math.pi), wide=True))

# --- kinks ----------------------------------------------------------------------------------------------------------------

elementwise(np.absolute, lambda ans, x: np.sign(x), complex_body=magnitude, operator="abs", scalar=by_operator(abs, "fi", 1),  # abs'(0) = 0
            of_complex=kernel("complex_magnitude", 1, 12, "c", wide=True), exact=whole("exact_absolute", 1))
elementwise(np.fabs,     lambda ans, x: np.sign(x), scalar=by_operator(abs, "f", 1))  # fabs'(0) = 0
for fn in (np.maximum, np.minimum):  # ties share equally
    elementwise(fn, larger_share, second(larger_share), scalar=kernel(fn.__name__, 2, 2, "fiu", dtype=None))
for fn in (np.fmax, np.fmin):  # follow what is not NaN
    elementwise(fn, fmax_share, second(fmax_share), scalar=kernel(fn.__name__, 2, 2, "fiu", dtype=None))
elementwise(np.copysign, lambda ans, x, y: np.sign(x) * np.sign(ans), lambda ans, x, y: 0.0, chooses=True,  # copysign'(0) = 0
            scalar=kernel("math.copysign", 2, 2))
elementwise(np.nextafter, ONE, lambda ans, x, y: 0.0, scalar=kernel("np.nextafter", 2, 20))
for fn in (larger_share, fmax_share):
    constant(fn, chooses=True, elementwise=True, blocks=fn.__name__, scalar=kernel(fn.__name__, 3, 4))
for fn in (np.ceil, np.floor, np.trunc, np.rint):
    constant(fn, chooses=True, scalar=kernel(f"np.{fn.__name__}", 1, 2))
constant(np.heaviside, chooses=True, scalar=kernel("heaviside", 2, 3))
constant(np.floor_divide, chooses=True, operator="floordiv", divides=1, scalar=kernel("floor_divide", 2, 20),
         of_integers=Scalar(lambda x, y: x // y, 20, "iu"), exact=whole("exact_quotient", 2, 20))  # by zero it is 0, as in NumPy
constant(np.spacing, scalar=kernel("np.spacing", 1, 20))
constant(np.sign, complex_body=direction, chooses=True, scalar=kernel("sign", 1, 3))

# --- complex --------------------------------------------------------------------------------------------------------------

real_linear(np.conjugate, lambda g, x: np.conjugate(g), neutral="real", lower="conjugate")
real_linear(np.real,      lambda g, x: g, view="maybe", neutral=True, elementwise=True, lower="real")
real_linear(np.imag,      lambda g, x: -1j * g, view="maybe", elementwise=True, lower="imaginary")

# --- predicates, integers, bits, strings ------------------------------------------------------------------------------------

for name, fn in {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}.items():
    constant(fn, chooses=True, operator=name, scalar=by_operator(getattr(operators, name), ANY if name in ("eq", "ne") else REAL))
constant(np.signbit, chooses=True, scalar=kernel("np.signbit", 1, 2, dtype="bool"))
for fn, operate in {np.logical_and: operators.and_, np.logical_or: operators.or_, np.logical_xor: operators.xor}.items():
    constant(fn, logical=True, scalar=by_operator(operate, "b"))
constant(np.logical_not, logical=True, scalar=by_operator(operators.invert, "b", 1))
constant(np.isfinite, scalar=kernel("is_finite", 1, dtype="bool"))
constant(np.isinf,    scalar=kernel("is_infinite", 1, dtype="bool"))
constant(np.isnan,    scalar=Scalar(lambda x: x != x))
constant(np.isnat, called="it is rarely asked")
INTEGERS = "it is defined on integers and bits: pass plain integers (dualad.primal(x).astype(int))"
for operate in (operators.and_, operators.or_, operators.xor):
    name = operate.__name__.strip("_")
    refused(INTEGERS, getattr(np, f"bitwise_{name}"), bits=True, operator=name, scalar=by_operator(operate, "iub"))
refused(INTEGERS, np.invert, bits=True, operator="invert", scalar=by_operator(operators.invert, "iub", 1))
refused(INTEGERS, np.left_shift, bits=True, operator="lshift")
refused(INTEGERS, np.right_shift, bits=True, operator="rshift")
refused(INTEGERS, np.bitwise_count, np.gcd, np.lcm, bits=True)
# fmt: on
