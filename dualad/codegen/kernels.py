"""Elementary functions without branches, which LLVM vectorises where they stand in a loop: at most 1 ulp from the exact value.

Each is arithmetic that is right by itself for every argument (infinite, NaN, -0, subnormal), except ``sin``, ``cos`` and ``tan``, which
hold for ``|x| <= LARGEST_ANGLE`` and NaN; the functions ``any_sin``, ... call the C library beyond it. The emitted loops use the first kind
and ask afterwards whether an angle was too large.

The methods are classical: Cody and Waite's reduction with fused multiply-adds and the rounding error of the last product (Muller,
*Elementary Functions*, 3rd ed., ch. 11), a polynomial of least relative error (``python -m benchmarks.coefficients``), and sums of two
doubles where one rounding more would cost an ulp (Dekker 1971).
"""

import math

from .arithmetic import bits, branch, choose, fma, from_bits, library, polynomial

__all__ = [
    "LARGEST_ANGLE", "any_cos", "any_sin", "any_tan", "arctan", "cbrt", "cos", "cosh", "cube", "exp", "expm1", "large_angle",
    "log", "log1p", "sech_squared", "sin", "sinh", "tan", "tanh",
]  # fmt: skip

#: beyond this, the reduction modulo pi/2 is no longer exact
LARGEST_ANGLE = 2.0**30


# --- constants ---------------------------------------------------------------------------------------------------

ROUND = 1.5 * 2.0**52  # added and subtracted, it rounds to an integer, whose last bits stand in the sum's
TWO_OVER_PI = float.fromhex("0x1.45f306dc9c883p-1")
HALF_PI_1, HALF_PI_2, HALF_PI_3 = map(float.fromhex, ("0x1.921fb54442d18p+0", "0x1.1a62633145c07p-54", "-0x1.f1976b7ed8fbcp-110"))
ONE_OVER_LN2 = float.fromhex("0x1.71547652b82fep+0")
LN2_1, LN2_2 = map(float.fromhex, ("0x1.62e42fee00000p-1", "0x1.a39ef35793c76p-33"))  # integers times the first are exact
MIDDLE = 0.1267  # of the reduced arguments of tanh: 0 is reduced to 0, and no sum of parts of them cancels
SIGN = -(2**63)

# (sin(x) - x) / x^3, (cos(x) - 1 + x^2 / 2) / x^4 and (sinh(x) - x) / x^3 in x^2; (exp(x) - 1 - x) / x^2 in x;
# (2 artanh(s) - 2 s) / s^3 in s^2; (arctan(x) - x) / x^3 in x^2; (x coth(x) - 1) / x^2 in x^2, in three parts; a first cube root
# fmt: off
SIN_TAIL = polynomial(-0.16666666666666666, 0.008333333333330913, -0.00019841269836709782, 2.755731607927478e-06,
                      -2.505112732233254e-08, 1.5917822376056543e-10)
COS_TAIL = polynomial(0.041666666666666664, -0.001388888888888738, 2.4801587298741928e-05, -2.755731726023169e-07,
                      2.0876144005787094e-09, -1.1382477111586714e-11)
EXP_TAIL = polynomial(0.5, 0.1666666666666667, 0.041666666666666616, 0.008333333333326112, 0.0013888888888918037,
                      0.00019841269874917465, 2.480158724579084e-05, 2.755725526417561e-06, 2.755734935653542e-07,
                      2.5105277922962977e-08, 2.088953211219861e-09)
LOG_TAIL = polynomial(0.6666666666666666, 0.40000000000000885, 0.2857142857079807, 0.22222222392929125, 0.1818179551390305,
                      0.15386246405172505, 0.13268597333446092, 0.13088431743533951)
SINH_TAIL = polynomial(0.16666666666666666, 0.0083333333333333, 0.00019841269841323517, 2.7557319191672644e-06,
                       2.5052117639711845e-08, 1.6057684626340735e-10, 7.746011650956894e-13)
ARCTAN_TAIL = polynomial(-0.33333333333333326, 0.19999999999991808, -0.14285714284138548, 0.11111110992107442,
                         -0.09090904431950379, 0.07692199578418754, -0.06665065712996017, 0.058665909514914426,
                         -0.05157959734284481, 0.04284875446995652, -0.028974948859174426, 0.011168198407712276)
COTH_1, COTH_2 = 0.33333333333333326, -0.022222222222177547
COTH_MIDDLE = polynomial(0.0021164021106163406, -0.00021163993743596272)
COTH_TAIL = polynomial(2.1371918191602404e-05, -2.106100569745895e-06)
CBRT_START = polynomial(0.3584644703728105, 1.4364409701740684, -1.7007333757609258, 1.3775197393596412, -0.4798018270427515)
# fmt: on


# --- helpers ---------------------------------------------------------------------------------------------------


def with_sign_of(x, y):
    """Return x, which is not negative, with the sign of y."""
    return from_bits(bits(x) | (bits(y) & SIGN))


def times_power_of_two(x, k):
    """Return x * 2**k for an integer k of at most twice the exponents' range, rounded once where the result is not subnormal."""
    first = k >> 1
    return x * from_bits((first + 1023) << 52) * from_bits((k - first + 1023) << 52)


def two_sum(x, y):
    """Return x + y and what its rounding leaves, for abs(y) <= abs(x)."""
    total = x + y
    return total, y - (total - x)


def quotient(x, x_low, y, y_low):
    """Return (x + x_low) / (y + y_low), and the rest that the rounding leaves."""
    inverse = 1.0 / y
    q = x * inverse
    return q, (fma(-q, y, x) + (x_low - q * y_low)) * inverse


# --- exponentials ---------------------------------------------------------------------------------------------------


def reduced_exp(x):
    """Return k, r and the rest t with exp(x) = 2**k * (1 + r + t)."""
    shifted = fma(x, ONE_OVER_LN2, ROUND)
    whole = shifted - ROUND
    high = fma(-whole, LN2_1, x)
    low = whole * LN2_2
    r = high - low
    return bits(shifted) - bits(ROUND), whole, r, fma(r * r, EXP_TAIL(r), (high - r) - low)


def within(x, low, high):
    """Return x between two bounds; NaN stays."""
    x = choose(x < low, low, x)
    return choose(x > high, high, x)


def exp(x):
    k, _, r, t = reduced_exp(within(x, -760.0, 720.0))
    high = 1.0 + r
    return times_power_of_two(high + ((r - (high - 1.0)) + t), k)


def half_expm1(x):
    """Return (exp(x) - 1) / 2 as a sum of two."""
    k, _, r, t = reduced_exp(x)
    scale = from_bits((k + 1022) << 52)
    first, second = scale - 0.5, scale * r
    total = first + second
    return two_sum(total, (second - (total - first)) + scale * t)


def expm1(x):
    high, low = half_expm1(within(x, -60.0, 710.0))
    y = 2.0 * (high + low)
    return choose(abs(x) < 1e-17, x, y)


def reduced_tanh(x):
    """Return k, s = 2**-k (at least 2**-1000), r and c with min(abs(x), 400) = k * log(2) / 2 + r and c = r / tanh(r) - 1."""
    a = abs(x)
    a = choose(a > 400.0, 400.0, a)
    shifted = fma(a - MIDDLE, -2.0 * ONE_OVER_LN2, ROUND)
    k = shifted - ROUND
    r = fma(k, 0.5 * LN2_2, fma(k, 0.5 * LN2_1, a))
    s = from_bits((bits(choose(shifted < ROUND - 1000.0, ROUND - 1000.0, shifted)) + 1023) << 52)
    z = r * r
    square = z * z
    return -k, s, r, fma(z * square, fma(square, COTH_TAIL(z), COTH_MIDDLE(z)), fma(square, COTH_2, COTH_1 * z))


def tanh(x):
    """Return ((1 - s) (1 + c) + (1 + s) r) / ((1 + s) (1 + c) + (1 - s) r), see `reduced_tanh`."""
    _, s, r, c = reduced_tanh(x)
    small, large = 1.0 - s, 1.0 + s
    inverse = 1.0 / fma(c, large, fma(r, small, large))
    q = fma(c, small, fma(r, large, small)) * inverse
    first = fma(-s, q, small - q)  # exact where small and large are; so the rest that q leaves is rounded in the factor of r alone
    rest = fma(c, first, fma(r, fma(-q, small, large), first))
    return with_sign_of(fma(rest, inverse, q), x)


def sech_squared(x, t):
    """Return 1 - t**2 for t = tanh(x), to 7 ulp, by the first steps of `tanh`: both in one loop take hardly more than one."""
    k, s, r, c = reduced_tanh(x)
    inverse = 1.0 / fma(c, 1.0 + s, fma(r, 1.0 - s, 1.0 + s))
    beyond = from_bits((bits(choose(k > 1000.0, ROUND - (k - 1000.0), ROUND)) + 1023) << 52)
    return 4.0 * (fma(1.0 + c, 1.0 + c, -(r * r)) * (inverse * inverse) * s) * beyond


def exp_parts(x):
    """Return k and two parts with exp(x) = 2**k * (high + low), for 0 <= x <= 720."""
    k, _, r, t = reduced_exp(x)
    high = 1.0 + r
    return (k, *two_sum(high, (r - (high - 1.0)) + t))


def inverse_square(k):
    """Return 2**(-2 k) for an integer k >= 0, at least 2**-1000."""
    return from_bits((1023 - 2 * choose(k > 500, 500, k)) << 52)


def sinh(x):
    a = abs(x)
    z = a * a
    small = fma(a * z, SINH_TAIL(z), a)
    k, high, low = exp_parts(within(a, 0.0, 720.0))
    inverse, rest = quotient(1.0, 0.0, high, low)
    scale = inverse_square(k)
    top = high - inverse * scale
    large = times_power_of_two(top + (((high - top) - inverse * scale) + (low - rest * scale)), k - 1)
    return choose(x == x, with_sign_of(choose(a < 1.0, small, large), x), x)


def cosh(x):
    k, high, low = exp_parts(within(abs(x), 0.0, 720.0))
    inverse, rest = quotient(1.0, 0.0, high, low)
    scale = inverse_square(k)
    top = high + inverse * scale
    return times_power_of_two(top + (((high - top) + inverse * scale) + (low + rest * scale)), k - 1)


# --- logarithms ---------------------------------------------------------------------------------------------------


def log_of_parts(f, k, rest):
    """Return k * log(2) + log(1 + f) + rest, for 1 + f between sqrt(1/2) and sqrt(2)."""
    s = f / (2.0 + f)
    w = s * s
    half = 0.5 * f * f
    tail = s * (half + w * LOG_TAIL(w))
    return fma(k, LN2_1, f - (half - (tail + fma(k, LN2_2, rest))))


def split_exponent(x):
    """Return m and a float k with x = m * 2**k and m between sqrt(1/2) and sqrt(2), for a normal positive x."""
    n = bits(x)
    above = n - 0x3FE6A09E667F3BCD  # the bits of sqrt(1/2)
    k = above >> 52
    return from_bits(n - (k << 52)), from_bits(k + bits(ROUND)) - ROUND


def log(x):
    tiny = x < 2.2250738585072014e-308
    m, k = split_exponent(choose(tiny, x * 2.0**54, x))
    y = log_of_parts(m - 1.0, choose(tiny, k - 54.0, k), 0.0)
    y = choose(x == math.inf, x, y)
    y = choose(x == 0.0, -math.inf, y)
    return choose(x >= 0.0, y, math.nan)


def log1p(x):
    u = 1.0 + x
    m, k = split_exponent(u)
    exact = k == 0.0
    rest = choose(exact | (u > 2.0**53), 0.0, (x - (u - 1.0)) / u)
    y = log_of_parts(choose(exact, x, m - 1.0), k, rest)
    y = choose((x == math.inf) | (abs(x) < 1e-17), x, y)
    y = choose(x == -1.0, -math.inf, y)
    return choose(x >= -1.0, y, math.nan)


# --- angles ---------------------------------------------------------------------------------------------------


def reduced_angle(x):
    """Return the quadrant (its last two bits) and x modulo pi/2 between -pi/4 and pi/4, as a sum of two."""
    shifted = fma(x, TWO_OVER_PI, ROUND)
    k = shifted - ROUND
    a = fma(-k, HALF_PI_1, x)  # exact
    p = k * HALF_PI_2
    high = a - p
    back = high - a
    error = (a - (high - back)) - (p + back)
    low = error - fma(k, HALF_PI_3, fma(k, HALF_PI_2, -p))
    top = high + low
    return bits(shifted), top, low - (top - high)


def sin_cos(r, low):
    """Return the sine and the cosine of a reduced angle, each as a sum of two."""
    z = r * r
    sine_tail = fma(z * r, SIN_TAIL(z), fma(-0.5 * z, low, low))
    half = 0.5 * z
    top = 1.0 - half
    cosine_tail = ((1.0 - top) - half) + fma(z * z, COS_TAIL(z), fma(-r, low, 0.5 * -fma(r, r, -z)))
    return r, sine_tail, top, cosine_tail


def turned(x, quadrant):
    """Return sin(x + quadrant * pi/2)."""
    n, r, low = reduced_angle(x)
    n += quadrant
    sine, sine_tail, cosine, cosine_tail = sin_cos(r, low)
    y = choose((n & 1) != 0, cosine + cosine_tail, sine + sine_tail)
    return from_bits(bits(y) ^ ((n & 2) << 62))


def sin(x):
    return choose(x != 0.0, turned(x, 0), x)


def cos(x):
    return turned(x, 1)


def tan(x):
    n, r, low = reduced_angle(x)
    sine, sine_tail, cosine, cosine_tail = sin_cos(r, low)
    s = sine + sine_tail
    s_low = sine_tail - (s - sine)
    c = cosine + cosine_tail
    c_low = cosine_tail - (c - cosine)
    odd = (n & 1) != 0
    q, rest = quotient(choose(odd, -c, s), choose(odd, -c_low, s_low), choose(odd, s, c), choose(odd, s_low, c_low))
    return choose(x != 0.0, q + rest, x)


def arctan(x):
    a = within(abs(x), 0.0, 1e300)
    large, middle = a > 2.0, (a > 0.5) & (a <= 2.0)
    bottom = a + 1.0
    lost = choose(a > 1.0, 1.0 - (bottom - a), a - (bottom - 1.0))
    top = choose(large, -1.0, choose(middle, a - 1.0, a))
    t, rest = quotient(top, 0.0, choose(large, a, choose(middle, bottom, 1.0)), choose(middle, lost, 0.0))
    z = t * t
    turn = choose(large, 1.0, choose(middle, 0.5, 0.0))
    high, low = two_sum(turn * HALF_PI_1, t)
    y = high + (low + (fma(t * z, ARCTAN_TAIL(z), rest) + turn * HALF_PI_2))
    return choose(x == x, with_sign_of(choose(a < 1e-17, a, y), x), x)


# --- roots ---------------------------------------------------------------------------------------------------


def cbrt(x):
    a = abs(x)
    tiny = a < 2.2250738585072014e-308
    m, k = split_exponent(choose(tiny, a * 2.0**54, a))
    m, k = m * 0.5, k + 1.0  # between 0.35 and 0.71
    shifted = fma(k, 1.0 / 3.0, ROUND)
    third = shifted - ROUND
    rest = k - 3.0 * third  # -1, 0 or 1
    y = CBRT_START(m)
    y += fma(-y * y, y, m) / (3.0 * y * y)
    y *= choose(rest == 0.0, 1.0, choose(rest > 0.0, 1.2599210498948732, 0.7937005259840998))
    m *= choose(rest == 0.0, 1.0, choose(rest > 0.0, 2.0, 0.5))
    square = y * y
    error = fma(square, y, -m) + fma(y, y, -square) * y
    y -= error / (3.0 * square)
    y = times_power_of_two(y, bits(shifted) - bits(ROUND) - choose(tiny, 18, 0))
    return choose((a > 0.0) & (a < math.inf), with_sign_of(y, x), x)


def cube(x):
    """Return x**3, rounded nearly once."""
    square = x * x
    low = fma(x, x, -square) * x
    return choose(abs(low) < math.inf, fma(square, x, low), square * x)


# --- any argument ---------------------------------------------------------------------------------------------------


def large_angle(x):
    """Return whether an angle is one that the functions above do not hold for."""
    return abs(x) > LARGEST_ANGLE


def of_any(kernel):
    """Return a function of any angle: that of the C library where the kernel does not hold."""
    called = library(f"math.{kernel.__name__}")
    return lambda x: branch(large_angle(x), lambda: called(x), lambda: kernel(x))


any_sin, any_cos, any_tan = map(of_any, (sin, cos, tan))
