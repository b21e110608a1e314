"""Numbers, indices, bounds and reductions as they are written in emitted source."""

from __future__ import annotations

import math

import numpy as np

__all__ = [
    "COMBINE", "PARTIAL", "PARTS_OF", "PLAIN", "affine", "bounds", "chained", "condition_text", "in_block", "least", "literal", "neutral",
    "piecewise", "shape_text",
]  # fmt: skip

COMBINE = {
    "sum": "{} + {}", "product": "{} * {}", "maximum": "maximum({}, {})", "minimum": "minimum({}, {})", "all": "{} & {}", "any": "{} | {}",
}  # fmt: skip
#: the reductions that have partial ones, with the kinds of dtypes; element k of a loop belongs to partial k modulo their number
PARTIAL = {"sum": "fc", "product": "f"}
PARTS_OF = {"sum": "sum_of", "product": "product_of"}


def literal(number):
    """Return a number as it is written in source."""
    dtype = getattr(number, "dtype", None)
    if issubclass(type(number), bool | np.bool_):
        return str(bool(number))
    if issubclass(type(number), int | np.integer):
        text = str(int(number))
    elif issubclass(type(number), complex | np.complexfloating):
        text = f"complex({literal(float(number.real))}, {literal(float(number.imag))})"
    else:
        number = float(number)
        text = "math.nan" if number != number else f"{'-' * (number < 0)}math.inf" if math.isinf(number) else repr(number)
    text = f"({text})" if text.startswith("-") else text
    return text if dtype is None or dtype.name in PLAIN else f"np.{dtype.name}({text})"


PLAIN = ("float64", "int64", "bool", "complex128")


def neutral(name, dtype):
    """Return the number that a reduction starts from."""
    if name in ("maximum", "minimum") and dtype.kind in "iu":
        number = dtype.type(getattr(np.iinfo(dtype), "min" if name == "maximum" else "max"))
    else:
        number = dtype.type({"sum": 0, "product": 1, "maximum": -np.inf, "minimum": np.inf, "all": 1, "any": 0}[name])
    return literal(number)


def affine(index, stride, offset):
    """Return stride * index + offset as source."""
    text = index if stride == 1 else f"-{index}" if stride == -1 else f"{stride} * {index}"
    if stride == 0:
        return str(offset)
    return text if not offset else f"{text} {'+' if offset > 0 else '-'} {abs(offset)}"


def piecewise(pieces, index, span):
    """Return a position that is affine in each piece of an index's span as source; 0 where there is no piece."""
    text, next_low = None, span[1]
    for low, high, stride, offset in reversed(pieces):
        if high < next_low:
            text = "0" if text is None else f"(0 if {index} < {next_low} else {text})"
        here = affine(index, stride, offset)
        text = here if text is None else f"({here} if {index} < {high} else {text})"
        next_low = low
    return text if next_low <= span[0] else f"0 if {index} < {next_low} else {text}"


def condition_text(ranges, index):
    """Return the condition that an index is in one of some ranges."""
    return " | ".join(f"(({low} <= {index}) & ({index} < {high}))" for low, high in ranges)


def shape_text(shape):
    return f"({', '.join(map(str, shape))}{',' * (len(shape) == 1)})"


# --- bounds of loops ----------------------------------------------------------------------------------------------------------------


def bounds(box):
    """Return the bounds of fast loops as source: the innermost counts from 0."""
    *outer, (low, high) = box
    return [*((str(a), str(b)) for a, b in outer), ("0", str(high - low))]


def in_block(nest, ranges, offset=None):
    """Return the bounds of loops within the rows of a block; the loop along a row of a fast box counts from `offset`."""
    if not nest.rows:
        return ranges
    (low, high), *others = ranges
    if others or offset is None:
        return [(largest("block_low", low), least("block_high", high)), *others]
    less = f" - {offset}" if offset else ""
    return [(largest(f"block_low{less}", low), least(f"block_high{less}", high))]


def least(x, y):
    return f"choose({x} < {y}, {x}, {y})"


def largest(x, y):
    return f"choose({x} > {y}, {x}, {y})"


# --- reductions ---------------------------------------------------------------------------------------------------------------------


def chained(name, first, others):
    """Return what combines one with others, from the left to the right; of two factors it is their product that is added."""
    for other in others:
        first = (COMBINE[name] if len(other) == 1 else "multiply_add({1}, {2}, {0})").format(first, *other)
    return first
