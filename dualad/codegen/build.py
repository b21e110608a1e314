"""Numbers, positions, bounds and reductions as expressions of the loop IR."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from ..ir.nodes import ArrayType, Assign, Call, Const, Expression, Load, Op, Row, Var, number
from ..ir.values import common, op

OPERATORS = {"sum": "add", "product": "multiply", "all": "and", "any": "or"}
#: the reductions that have partial ones, with the kinds of dtypes; element k of a loop belongs to partial k modulo their number
PARTIAL = {"sum": "fc", "product": "f"}
PARTS_OF = {"sum": "sum_of", "product": "product_of"}


def literal(value: Any, dtype: Any = None) -> Const:
    """Return a number of NumPy's or Python's as a constant, of its own dtype or of another."""
    dtype = getattr(value, "dtype", None) if dtype is None else dtype
    return number(value) if dtype is None else number(dtype.type(value), dtype.name)


def array(name, value, rows=0):
    """Return the variable of an array with the shape and dtype of a value, or of any number of `rows` of them."""
    return Var(name, ArrayType(value.dtype.name, (-1,) * rows + tuple(value.shape)))


def variable(name, value):
    """Return the variable of a value: an array, or a number."""
    return array(name, value) if value.shape else Var(name, value.dtype.name)


def row_of(stack: Var, index: Expression) -> Expression:
    """Return what stands in an array at an index of its first axis."""
    shape = stack.shape[1:]
    return Row(stack, (index,), None, None, ArrayType(stack.dtype, shape)) if shape else Load(stack, (index,))


# --- positions ----------------------------------------------------------------------------------------------------------------------


def affine(index: Expression, stride: int, offset: int) -> Expression:
    """Return stride * index + offset."""
    if stride == 0:
        return number(offset)
    at = index if stride == 1 else op("negative", index) if stride == -1 else op("multiply", number(stride), index)
    return op("add" if offset > 0 else "subtract", at, number(abs(offset))) if offset else at


def piecewise(pieces, index: Expression, span) -> Expression:
    """Return a position that is affine in each piece of an index's span; 0 where there is no piece."""
    at: Any = None
    next_low = span[1]
    for low, high, stride, offset in reversed(pieces):
        if high < next_low:
            at = number(0) if at is None else below(index, next_low, number(0), at)
        here = affine(index, stride, offset)
        at = here if at is None else below(index, high, here, at)
        next_low = low
    return at if next_low <= span[0] else below(index, next_low, number(0), at)


def below(index, bound, x, y):
    return op("select", op("less", index, number(bound)), x, y)


def condition(ranges, index, first=0):
    """Return the condition that an index, counted from `first`, is in one of some ranges."""
    spans = [(number(low - first), number(high - first)) for low, high in ranges]
    return joined("or", [op("and", op("less_equal", low, index), op("less", index, high)) for low, high in spans])


def joined(name, nodes):
    return reduce(lambda x, y: op(name, x, y), nodes)


# --- bounds of loops ----------------------------------------------------------------------------------------------------------------

BLOCK, BLOCK_LOW, BLOCK_HIGH = Var("block", "int64"), Var("block_low", "int64"), Var("block_high", "int64")


def bounds(box):
    """Return the bounds of fast loops: the innermost counts from 0."""
    *outer, (low, high) = box
    return [*((number(a), number(b)) for a, b in outer), (number(0), number(high - low))]


def block_of(rows, count):
    """Return what sets the bounds of a block of so many of the rows."""
    return [
        Assign((BLOCK_LOW,), (op("multiply", number(rows), BLOCK),)),
        Assign((BLOCK_HIGH,), (least(op("add", BLOCK_LOW, number(rows)), number(count)),)),
    ]


def in_block(nest, ranges, offset=0):
    """Return the bounds of loops within the rows of a block; a loop along a row counts from `offset`."""
    if not nest.rows:
        return ranges
    (low, high), *others = ranges
    less = 0 if others else -offset
    return [(largest(affine(BLOCK_LOW, 1, less), low), least(affine(BLOCK_HIGH, 1, less), high)), *others]


def least(x, y):
    return op("select", op("less", x, y), x, y)


def largest(x, y):
    return op("select", op("greater", x, y), x, y)


# --- reductions ---------------------------------------------------------------------------------------------------------------------


def neutral(name, dtype):
    """Return the number that a reduction starts from."""
    if name in ("maximum", "minimum") and dtype.kind in "iu":
        return literal(getattr(np.iinfo(dtype), "min" if name == "maximum" else "max"), dtype)
    return literal({"sum": 0, "product": 1, "maximum": -np.inf, "minimum": np.inf, "all": 1, "any": 0}[name], dtype)


def combined(name: str, x: Expression, y: Expression) -> Op | Call:
    """Return what a reduction makes of two numbers."""
    return op(OPERATORS[name], x, y) if name in OPERATORS else Call(name, (x, y), common(x.dtype, y.dtype))


def chained(name, first, others):
    """Return what combines one with others, from the left to the right; of two factors it is their product that is added."""
    for other in others:
        if len(other) == 1:
            first = combined(name, first, other[0])
        else:
            first = Call("multiply_add", (*other, first), common(first.dtype, *(factor.dtype for factor in other)))
    return first
