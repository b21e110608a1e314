"""What emitted loops compute beyond Python's operators, as Python computes it: the compiled functions give the same bits."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

__all__ = ["multiply_add", "product_of", "sum_of"]


def multiply_add(x, y, z):
    """Return x * y + z of numbers of one floating type, rounded once; compiled, rounded twice where a processor has no instruction."""
    single = all(type(number) is np.float32 for number in (x, y, z))
    kind = np.float32 if single else np.float64
    with np.errstate(all="ignore"):
        plain = kind(kind(x) * kind(y) + kind(z))
    if not (math.isfinite(x) and math.isfinite(y)) or x == 0 or y == 0:
        return plain
    if not math.isfinite(z):
        return kind(z)
    exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
    try:
        double = np.float64(float(exact))
    except OverflowError:
        return kind(math.inf if exact > 0 else -math.inf)
    if single and Fraction(float(double)) != exact and not double.view(np.int64) & 1:  # an odd last bit keeps the side of a tie
        double = np.nextafter(double, math.copysign(math.inf, exact - Fraction(float(double))))
    with np.errstate(all="ignore"):
        return kind(double)


def sum_of(parts):
    """Return the sum of partial sums: of all but the last, a power of two, halves are added until one is left, and that to the last."""
    count = parts.size - 1
    while count > 1:
        count //= 2
        for k in range(count):
            parts[k] += parts[k + count]
    return parts[0] + parts[-1]


def product_of(parts):
    """Return the product of partial products, as `sum_of`."""
    count = parts.size - 1
    while count > 1:
        count //= 2
        for k in range(count):
            parts[k] *= parts[k + count]
    return parts[0] * parts[-1]
