"""Functions of numbers that emitted loops call, beyond the elementary ones of `kernels`: NumPy's answers, without branches."""

import math

import numpy as np

from ..ir.values import Value
from .arithmetic import bits, branch, choose, complex_of, exact_difference, exact_product, exact_sum, fma, from_bits, from_bits32, library
from .kernels import exp, log1p

__all__ = [
    "clip", "complex_magnitude", "complex_quotient", "complex_reciprocal", "complex_strong_multiply", "complex_turn", "exact_absolute",
    "exact_power", "exp_of_expm1", "floor_divide", "fmax", "fmax_share", "fmin", "heaviside", "is_finite", "is_infinite", "larger_share",
    "logaddexp", "logaddexp2", "maximum", "minimum", "nextafter", "ratio", "remainder", "root_above_one", "sign", "signbit",
    "softmax_share", "spacing", "strong_multiply", "turn",
]  # fmt: skip

copysign, exp2, floor, fmod, hypot, sqrt = map(library, ("math.copysign", "np.exp2", "np.floor", "np.fmod", "math.hypot", "math.sqrt"))


# --- extrema ----------------------------------------------------------------------------------------------------------------------


def maximum(x, y):
    return choose((x >= y) | (x != x), x, y)


def minimum(x, y):
    return choose((x <= y) | (x != x), x, y)


def fmax(x, y):
    return choose((x >= y) | (y != y), x, y)


def fmin(x, y):
    return choose((x <= y) | (y != y), x, y)


def clip(x, low, high):
    x = choose((x != x) | (x > low), x, low)
    return choose((x != x) | (x < high), x, high)


def larger_share(ans, x, y):
    return choose((x == ans) | (x != x), choose((y == ans) | (y != y), 0.5, 1.0), 0.0)


def fmax_share(ans, x, y):
    return choose((x == ans) | (y != y), choose((y == ans) | (x != x), 0.5, 1.0), 0.0)


# --- arithmetic -------------------------------------------------------------------------------------------------------------------


def sign(x):
    return choose(x > 0, 1.0, choose(x < 0, -1.0, choose(x == x, 0.0, x)))


def heaviside(x, middle):
    return choose(x > 0, 1.0, choose(x < 0, 0.0, choose(x == x, middle, x)))


def ratio(x, r):
    zero = r == 0.0
    return choose(zero, 0.0, x / choose(zero, 1.0, r))


def strong_multiply(p, t):
    r = p * t
    return choose((t == 0.0) & (r != r), 0.0, r)


def softmax_share(x, y, rate):
    return choose(x == y, 0.5, 1.0 / (1.0 + exp(rate * (y - x))))


def remainder(x, y):
    r = fmod(x, y)
    return choose(r == 0.0, copysign(0.0, y), choose((y < 0.0) != (r < 0.0), r + y, r))


def floor_divide(x, y):
    r = fmod(x, y)
    q = (x - r) / y - choose((r != 0.0) & ((y < 0.0) != (r < 0.0)), 1.0, 0.0)
    whole = floor(q)
    whole = choose(q - whole > 0.5, whole + 1.0, whole)
    return choose(y == 0.0, x / y, choose(q == 0.0, copysign(0.0, x / y), whole))


def is_finite(x):
    return abs(x) < math.inf


def is_infinite(x):
    return abs(x) == math.inf


# --- complex numbers, with the roundings of NumPy's loops -------------------------------------------------------------------------


def complex_quotient(x, y):
    turned = ~(abs(y.real) >= abs(y.imag))
    large, small = choose(turned, y.imag, y.real), choose(turned, y.real, y.imag)
    rest = small / large
    scale = 1.0 / (large + small * rest)
    real = choose(turned, x.real * rest + x.imag, x.real + x.imag * rest) * scale
    imag = choose(turned, x.imag * rest - x.real, x.imag - x.real * rest) * scale
    zero = (y.real == 0.0) & (y.imag == 0.0)
    return complex_of(choose(zero, x.real / abs(y.real), real), choose(zero, x.imag / abs(y.real), imag))


def complex_reciprocal(x):
    upright = abs(x.imag) <= abs(x.real)
    large, small = choose(upright, x.real, x.imag), choose(upright, x.imag, x.real)
    rest = small / large
    scale = choose(upright, large + small * rest, small * rest + large)
    return complex_of(choose(upright, 1.0, rest) / scale, -choose(upright, rest, 1.0) / scale)


def complex_magnitude(x):
    a, b = abs(x.real), abs(x.imag)
    infinite = (a == math.inf) | (b == math.inf)
    large, small = choose(a > b, a, b), choose(a > b, b, a)
    rest = choose(large == 0.0, 0.0, small / large)
    y = large * sqrt(fma(rest, rest, 1.0))
    return choose(infinite, math.inf, choose((a == a) & (b == b), y, math.nan))


def complex_strong_multiply(p, t):
    r = p * t
    lost = (t.real == 0.0) & (t.imag == 0.0) & ((r.real != r.real) | (r.imag != r.imag))
    return complex_of(choose(lost, 0.0, r.real), choose(lost, 0.0, r.imag))


def complex_turn(x, y, e, c, s):
    """Return exp(x + i y) of e, which is exp(x), or exp(x - 100) beyond 700, of cos(y) and of sin(y)."""
    scale = choose(x > 700.0, 2.6881171418161356e43, 1.0)
    odd = y - y != 0.0
    real = choose(odd & is_infinite(x), e, (e * c) * scale)
    imag = choose(odd & (x == -math.inf), copysign(0.0, y), (e * s) * scale)
    return complex_of(real, choose(y == 0.0, y, imag))


# --- partials that keep their digits (see dualad.rules.stable) --------------------------------------------------------------------


def turn(x, y):
    r = x * x + y * y
    far = hypot(x, y)
    return branch((r > 1e-280) & (r < 1e280), lambda: x / r, lambda: ratio(ratio(x, far), far))


def root_above_one(x):
    r = sqrt(1.0 + x * x)
    return choose(is_finite(r), r, abs(x))


def exp_of_expm1(x, e):
    return choose(e + 1.0 < 0.01, exp(x), e + 1.0)


# --- sums of exponentials ---------------------------------------------------------------------------------------------------------


def logaddexp(x, y):
    lead = x - y
    total = choose(lead > 0.0, x, y) + log1p(exp(-abs(lead)))
    return choose(x == y, x + math.log(2.0), choose(lead == lead, total, lead))


def logaddexp2(x, y):
    lead = x - y
    total = choose(lead > 0.0, x, y) + log1p(exp2(-abs(lead))) * (1.0 / math.log(2.0))
    return choose(x == y, x + 1.0, choose(lead == lead, total, lead))


# --- bits, of float32 and of float64 ----------------------------------------------------------------------------------------------


def is_single(x):
    return (x.node.dtype if isinstance(x, Value) else np.asarray(x).dtype.name) == "float32"


def signbit(x):
    return bits(x) < 0


def nextafter(x, y):
    made = from_bits32 if is_single(x) else from_bits
    stepped = made(bits(x) + choose((x < y) == (x > 0.0), 1, -1))
    first = choose(y > 0.0, made(1), -made(1))
    return choose(x == y, y, choose((x == x) & (y == y), choose(x == 0.0, first, stepped), x + y))


def spacing(x):
    made = from_bits32 if is_single(x) else from_bits
    beyond = choose(x == 0.0, made(1), made(bits(x) + 1))
    return choose(abs(x) < math.inf, beyond - x, x - x)


# --- Python's integers ------------------------------------------------------------------------------------------------------------

MOST = 2**63 - 1


def exact_absolute(x):
    return choose(x < 0, exact_difference(0, x), x)


def exact_power(x, n):
    n = exact_sum(choose(n < 0, MOST, choose(n > 65, 64 + (n & 1), n)), 1) - 1  # a power below 0 is no integer; large ones are 0, 1, -1
    result, base = 1, x
    for _ in range(7):
        result = exact_product(result, choose((n & 1) != 0, base, 1))
        n = n >> 1
        factor = choose(n != 0, base, 1)
        base = exact_product(factor, factor)
    return result
