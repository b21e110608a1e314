"""Functions of numbers that emitted loops call, beyond the elementary ones of `kernels`: NumPy's answers, without branches."""

from __future__ import annotations

import math

import numpy as np
from numba import njit, types
from numba.extending import intrinsic, overload

from . import arithmetic
from .arithmetic import multiply_add
from .kernels import FUSES, OPTIONS, choose, exp, fma

__all__ = ["at_least_inside", "multiply_add", "product_of", "remainder", "sum_of"]


# --- sums and products ------------------------------------------------------------------------------------------------------------


@intrinsic
def fused(typingctx, x, y, z):
    """Return x * y + z, rounded once where the processor has an instruction for it."""
    common = typingctx.unify_types(x, y, z)

    def emit(context, builder, signature, args):
        x, y, z = (context.cast(builder, arg, old, common) for arg, old in zip(args, signature.args, strict=True))
        return builder.fma(x, y, z) if FUSES else builder.fadd(builder.fmul(x, y), z)

    return common(x, y, z), emit


@overload(multiply_add)
def compiled_multiply_add(x, y, z):
    return lambda x, y, z: fused(x, y, z)


sum_of, product_of = njit(**OPTIONS)(arithmetic.sum_of), njit(**OPTIONS)(arithmetic.product_of)


# --- extrema ----------------------------------------------------------------------------------------------------------------------


@njit(**OPTIONS)
def maximum(x, y):
    return choose((x >= y) | (x != x), x, y)


@njit(**OPTIONS)
def minimum(x, y):
    return choose((x <= y) | (x != x), x, y)


@njit(**OPTIONS)
def fmax(x, y):
    return choose((x >= y) | (y != y), x, y)


@njit(**OPTIONS)
def fmin(x, y):
    return choose((x <= y) | (y != y), x, y)


@njit(**OPTIONS)
def clip(x, low, high):
    x = choose((x != x) | (x > low), x, low)
    return choose((x != x) | (x < high), x, high)


@njit(**OPTIONS)
def larger_share(ans, x, y):
    return choose((x == ans) | (x != x), choose((y == ans) | (y != y), 0.5, 1.0), 0.0)


@njit(**OPTIONS)
def fmax_share(ans, x, y):
    return choose((x == ans) | (y != y), choose((y == ans) | (x != x), 0.5, 1.0), 0.0)


# --- arithmetic -------------------------------------------------------------------------------------------------------------------


@njit(**OPTIONS)
def sign(x):
    return choose(x > 0, 1.0, choose(x < 0, -1.0, choose(x == x, 0.0, x)))


@njit(**OPTIONS)
def heaviside(x, middle):
    return choose(x > 0, 1.0, choose(x < 0, 0.0, choose(x == x, middle, x)))


@njit(**OPTIONS)
def ratio(x, r):
    zero = r == 0.0
    return choose(zero, 0.0, x / choose(zero, 1.0, r))


@njit(**OPTIONS)
def strong_multiply(p, t):
    r = p * t
    return choose((t == 0.0) & (r != r), 0.0, r)


@njit(**OPTIONS)
def softmax_share(x, y, rate):
    return choose(x == y, 0.5, 1.0 / (1.0 + exp(rate * (y - x))))


@njit(**OPTIONS)
def remainder(x, y):
    r = np.fmod(x, y)
    return choose(r == 0.0, math.copysign(0.0, y), choose((y < 0.0) != (r < 0.0), r + y, r))


@njit(**OPTIONS)
def floor_divide(x, y):
    r = np.fmod(x, y)
    q = (x - r) / y - choose((r != 0.0) & ((y < 0.0) != (r < 0.0)), 1.0, 0.0)
    whole = np.floor(q)
    whole = choose(q - whole > 0.5, whole + 1.0, whole)
    return choose(y == 0.0, x / y, choose(q == 0.0, math.copysign(0.0, x / y), whole))


@njit(**OPTIONS)
def is_finite(x):
    return abs(x) < math.inf


@njit(**OPTIONS)
def is_infinite(x):
    return abs(x) == math.inf


# --- complex numbers, with the roundings of NumPy's loops -------------------------------------------------------------------------


@njit(**OPTIONS)
def complex_quotient(x, y):
    turned = not abs(y.real) >= abs(y.imag)
    large, small = choose(turned, y.imag, y.real), choose(turned, y.real, y.imag)
    rest = small / large
    scale = 1.0 / (large + small * rest)
    real = choose(turned, x.real * rest + x.imag, x.real + x.imag * rest) * scale
    imag = choose(turned, x.imag * rest - x.real, x.imag - x.real * rest) * scale
    zero = (y.real == 0.0) & (y.imag == 0.0)
    return complex(choose(zero, x.real / abs(y.real), real), choose(zero, x.imag / abs(y.real), imag))


@njit(**OPTIONS)
def complex_reciprocal(x):
    upright = abs(x.imag) <= abs(x.real)
    large, small = choose(upright, x.real, x.imag), choose(upright, x.imag, x.real)
    rest = small / large
    scale = choose(upright, large + small * rest, small * rest + large)
    return complex(choose(upright, 1.0, rest) / scale, -choose(upright, rest, 1.0) / scale)


@njit(**OPTIONS)
def complex_magnitude(x):
    a, b = abs(x.real), abs(x.imag)
    infinite = (a == math.inf) | (b == math.inf)
    large, small = choose(a > b, a, b), choose(a > b, b, a)
    rest = choose(large == 0.0, 0.0, small / large)
    y = large * math.sqrt(fma(rest, rest, 1.0))
    return choose(infinite, math.inf, choose((a == a) & (b == b), y, math.nan))


@njit(**OPTIONS)
def complex_turn(x, y, e, c, s):
    """Return exp(x + i y) of e, which is exp(x), or exp(x - 100) beyond 700, of cos(y) and of sin(y)."""
    scale = choose(x > 700.0, 2.6881171418161356e43, 1.0)
    odd = y - y != 0.0
    real = choose(odd & is_infinite(x), e, (e * c) * scale)
    imag = choose(odd & (x == -math.inf), math.copysign(0.0, y), (e * s) * scale)
    return complex(real, choose(y == 0.0, y, imag))


# --- partials that keep their digits (see dualad.rules.stable) --------------------------------------------------------------------


@njit(**OPTIONS)
def turn(x, y):
    r = x * x + y * y
    if 1e-280 < r < 1e280:
        return x / r
    r = math.hypot(x, y)
    return ratio(ratio(x, r), r)


@njit(**OPTIONS)
def root_above_one(x):
    r = math.sqrt(1.0 + x * x)
    return choose(is_finite(r), r, abs(x))


@njit(**OPTIONS)
def exp_of_expm1(x, e):
    return choose(e + 1.0 < 0.01, exp(x), e + 1.0)


# --- Python's integers ------------------------------------------------------------------------------------------------------------


def checked(name):
    """Make the function of two int64 that raises where the result of an instruction of LLVM overflows."""

    @intrinsic
    def compute(typingctx, x, y):
        def emit(context, builder, signature, args):
            pair = getattr(builder, f"{name}_with_overflow")(*args)
            return context.make_tuple(builder, signature.return_type, [builder.extract_value(pair, k) for k in (0, 1)])

        return types.Tuple((types.int64, types.boolean))(types.int64, types.int64), emit

    @njit(**OPTIONS)
    def exact(x, y):
        result, overflows = compute(np.int64(x), np.int64(y))
        if overflows:
            raise OverflowError(TOO_LARGE)
        return result

    return exact


TOO_LARGE = "jit: a Python integer grows beyond 64 bits"
MOST = 2**63 - 1
exact_sum, exact_difference, exact_product = checked("sadd"), checked("ssub"), checked("smul")
#: instructions of LLVM that say whether they overflow
OVERFLOWS = {exact_sum: "sadd", exact_difference: "ssub", exact_product: "smul"}


@njit(**OPTIONS)
def exact_absolute(x):
    return choose(x < 0, exact_difference(0, x), x)


@njit(**OPTIONS)
def exact_power(x, n):
    exact_sum(choose(n < 0, MOST, 0), 1)  # a power below 0 is no integer
    result, base, rest = 1, x, n
    for _ in range(63):
        result = exact_product(result, choose((rest & 1) != 0, base, 1))
        rest = rest >> 1
        factor = choose(rest != 0, base, 1)
        base = exact_product(factor, factor)
    return result


@njit(**OPTIONS)
def exact_quotient(x, y):
    if y == 0:
        raise ZeroDivisionError("integer division or modulo by zero")
    return exact_difference(0, x) if y == -1 else np.int64(x) // np.int64(y)


@njit(**OPTIONS)
def exact_remainder(x, y):
    if y == 0:
        raise ZeroDivisionError("integer modulo by zero")
    return np.int64(0) if y == -1 else np.int64(x) % np.int64(y)


# --- pivots -----------------------------------------------------------------------------------------------------------------------


@njit(**OPTIONS)
def regular(x, fine):
    """Return a pivot; of one that is not fine, NumPy says what it is about (see `again`)."""
    if not fine:
        raise OverflowError("jit: a matrix is singular, or not positive definite")
    return x


# --- indices ------------------------------------------------------------------------------------------------------------------------


@njit(**OPTIONS)
def at_least_inside(k, n):
    """Return an index as one from 0 to n - 1, counted from the end if it is negative."""
    if k < -n or k >= n:
        raise IndexError("jit: an index that is computed is out of bounds for the axis it indexes")
    return choose(k < 0, k + n, k)
