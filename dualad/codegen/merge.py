"""Merging: statements that sort numbers, without branches in the innermost loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ir.nodes import Assign, For, Load, Statement, Store, Var, number
from ..ir.values import Value, arithmetic_dtype, choose, unwrapped

__all__ = ["merged"]


def merged(keys: list[Var], places: list[Var], new: Callable[[str], Var]) -> list[Statement]:
    """Return the statements that sort the first of two vectors of numbers, and with it the first of two vectors of their places.

    Runs that are sorted, at first of one number, are merged in pairs from one vector into the other; then these change places. Of equal
    numbers that of the first run comes first, NaN is the largest. The last element of each vector is no number, but may be read.
    `new` makes variables.
    """
    (x, into), (at, at_into) = keys, places
    n = x.shape[0] - 1
    turn, pair, k, width, middle, stop, i, j = (new("int64") for _ in range(8))
    left, right = (new(arithmetic_dtype(x.dtype)) for _ in range(2))
    second = new("bool")

    a, b = Value(left), Value(right)
    earlier = (b < a) | ((a != a) & (b == b)) if left.dtype.startswith("float") else b < a
    step = (
        put((left, Load(x, (i,))), (right, Load(x, (j,)))),
        put((second, (Value(j) < Value(stop)) & ((Value(i) >= Value(middle)) | earlier))),
        Store(into, (k,), unwrapped(choose(Value(second), b, a))),
        Store(at_into, (k,), unwrapped(choose(Value(second), Value(Load(at, (j,))), Value(Load(at, (i,)))))),
        put((i, Value(i) + choose(Value(second), 0, 1)), (j, Value(j) + choose(Value(second), 1, 0))),
    )
    both = 2 * Value(width)
    start = Value(pair) * both
    merge = (
        put((i, start), (j, least(start + Value(width), n)), (stop, least(start + both, n))),
        put((middle, Value(j))),
        For(k, i, stop, step),
    )
    turns = (
        put((width, 1 << Value(turn))),
        For(pair, number(0), unwrapped((n - 1 + both) // both), merge),
        put((x, into), (into, x), (at, at_into), (at_into, at)),
    )
    return [For(turn, number(0), number((n - 1).bit_length()), turns)]


def least(x: Value, most: int) -> Value:
    return choose(x < most, x, most)


def put(*pairs: tuple[Var, Any]) -> Assign:
    """Return the statement that sets variables to values, all at once."""
    targets, values = zip(*pairs, strict=True)
    return Assign(targets, tuple(unwrapped(value) if isinstance(value, Value) else value for value in values))
