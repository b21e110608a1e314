"""Ranges of integers, as far as the verifier follows them."""

from __future__ import annotations

from dataclasses import dataclass

from .nodes import Const, Op, Var

FLIPPED = {"less": "greater", "less_equal": "greater_equal", "greater": "less", "greater_equal": "less_equal"}
OPPOSITE = {"less": "greater_equal", "less_equal": "greater", "greater": "less_equal", "greater_equal": "less"}


@dataclass(frozen=True)
class Range:
    """The integers that an expression may be: from `low` to `high`, each `step`, all of them if it is `exact`."""

    low: int
    high: int
    step: int = 1
    exact: bool = True

    def moved(self, by):
        return Range(self.low + by, self.high + by, self.step, self.exact)


def scaled(reach, by):
    """Return a range times a number."""
    if reach is None or by == 0:
        return None if reach is None else Range(0, 0)
    low, high = sorted((reach.low * by, reach.high * by))
    return Range(low, high, reach.step * abs(by) if low < high else 1, reach.exact)


def total(x, y):
    """Return the range of a sum."""
    if y.low == y.high:
        return x.moved(y.low)
    return y.moved(x.low) if x.low == x.high else Range(x.low + y.low, x.high + y.high, 1, False)


def offset_of(node):
    """Return the name of a variable and a number, of which an expression is the sum; None if it is another."""
    match node:
        case Var(name=name):
            return name, 0
        case Op(name="add" | "subtract" as sign, args=(Var(name=name), Const(value=number))):
            return name, number if sign == "add" else -number
    return None, 0
