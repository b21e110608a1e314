"""Arithmetic beyond Python's operators: for values of the loop IR it builds calls and operators, for numbers it computes as compiled.

The functions of `kernels` and `scalars` are made of these, so that each runs in Python, too, bit for bit as it is compiled.
"""

from __future__ import annotations

import ctypes
import operator
import os
import struct
from collections.abc import Callable

import numpy as np

from ..ir.values import Value, call, choose, common, op, unwrapped

__all__ = [
    "OVERFLOWS", "at_least_inside", "bits", "branch", "choose", "complex_of", "exact_difference", "exact_product", "exact_quotient",
    "exact_remainder", "exact_sum", "fma", "from_bits", "from_bits32", "library", "multiply_add", "polynomial", "product_of", "regular",
    "sum_of",
]  # fmt: skip


def of_values(args):
    return any(isinstance(arg, Value) for arg in args)


def both(name: str, of_numbers: Callable, dtype: str | None = "float64") -> Callable:
    """Return a function of values, a call by name, and of numbers; its result has the dtype, or that of its arguments."""

    def function(*args):
        if of_values(args):
            return call(name, *args, dtype=dtype or common(*(unwrapped(arg).dtype for arg in args)))
        return of_numbers(*args)

    function.__name__ = name
    return function


def branch(condition, then, otherwise):
    """Return what one of two functions without arguments returns, which alone is called when this is computed."""
    if of_values((condition,)):
        return Value(op("branch", *map(unwrapped, (condition, then(), otherwise()))))
    return then() if condition else otherwise()


def complex_of(x, y):
    """Return the complex number of two parts."""
    if of_values((x, y)):
        return Value(op("complex", *map(unwrapped, (x, y))))
    return np.complex128(complex(x, y))


# --- bits -------------------------------------------------------------------------------------------------------------------------


def bits_of(x):
    whole, kind = ("<i", "<f") if type(x) is np.float32 else ("<q", "<d")
    return struct.unpack(whole, struct.pack(kind, x))[0]


#: the bits of a float64 or a float32 as an integer with its sign; the float64 and the float32 that have the last bits of an integer
bits = both("bits", bits_of, "int64")
from_bits = both("from_bits", lambda n: np.float64(struct.unpack("<d", struct.pack("<Q", n & (2**64 - 1)))[0]))
from_bits32 = both("from_bits32", lambda n: np.float32(struct.unpack("<f", struct.pack("<I", n & (2**32 - 1)))[0]), "float32")


# --- products that are not rounded ------------------------------------------------------------------------------------------------


def rounded_once(x, y, z):
    """Return x * y + z of numbers of one floating type, rounded once."""
    single = all(type(number) is np.float32 for number in (x, y, z))
    return np.float32(FMA["fmaf"](x, y, z)) if single else np.float64(FMA["fma"](x, y, z))


LIBRARY = ctypes.CDLL(None if os.name == "posix" else "ucrtbase")
FMA = {name: ctypes.CFUNCTYPE(kind, *[kind] * 3)((name, LIBRARY)) for name, kind in (("fma", ctypes.c_double), ("fmaf", ctypes.c_float))}
#: x * y + z, rounded once; the second rounds twice where a processor has no instruction for it
fma = both("fma", rounded_once)
multiply_add = both("multiply_add", rounded_once, None)


def polynomial(*coefficients):
    """Return the function that evaluates a polynomial, lowest coefficient first, by Horner's rule.

    Its odd and its even part come side by side: half as long a chain as one after the other.
    """

    def evaluate(x):
        square = x * x
        odd, even = coefficients[1::2][-1], coefficients[::2][-1]
        for c in coefficients[1::2][-2::-1]:
            odd = fma(odd, square, c)
        for c in coefficients[::2][-2::-1]:
            even = fma(even, square, c)
        return fma(odd, x, even)

    return evaluate


def library(name):
    """Return a function of the C library, by the name that Python has for it; of numbers it is NumPy's."""
    return both(name, getattr(np, name.partition(".")[2]))


# --- partial sums -----------------------------------------------------------------------------------------------------------------


def by_halves(parts, combine):
    """Return what combines partial results: of all but the last, a power of two, halves until one is left, and that with the last."""
    count = parts.size - 1
    while count > 1:
        count //= 2
        for k in range(count):
            parts[k] = combine(parts[k], parts[k + count])
    return combine(parts[0], parts[-1])


def sum_of(parts):
    """Return the sum of partial sums."""
    return by_halves(parts, operator.add)


def product_of(parts):
    """Return the product of partial products."""
    return by_halves(parts, operator.mul)


# --- what raises ------------------------------------------------------------------------------------------------------------------


def exact(operate):
    """Return an operation of integers that raises beyond 64 bits."""

    def compute(*numbers):
        result = operate(*map(int, numbers))
        if not -(2**63) <= result < 2**63:
            raise OverflowError("jit: a Python integer grows beyond 64 bits")
        return result

    return compute


#: the instructions that say whether they overflow
OVERFLOWS = {"exact_sum": "sadd", "exact_difference": "ssub", "exact_product": "smul"}
exact_sum = both("exact_sum", exact(operator.add), "int64")
exact_difference = both("exact_difference", exact(operator.sub), "int64")
exact_product = both("exact_product", exact(operator.mul), "int64")
exact_quotient = both("exact_quotient", exact(operator.floordiv), "int64")
exact_remainder = both("exact_remainder", exact(operator.mod), "int64")


def inside(k, n):
    if not -n <= k < n:
        raise IndexError("jit: a computed index is out of bounds for its axis")
    return k + n if k < 0 else k


def fine(x, condition):
    if not condition:
        raise OverflowError("jit: a matrix is singular, or not positive definite")
    return x


#: an index as one from 0 to n - 1, counted from the end if it is negative
at_least_inside = both("at_least_inside", inside, "int64")


def regular(x, condition):
    """Return a pivot; of one that is not fine, NumPy says what it is about (see `rerun`)."""
    return call("regular", x, condition, dtype=unwrapped(x).dtype) if of_values((x, condition)) else fine(x, condition)
