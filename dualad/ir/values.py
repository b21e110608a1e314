"""Values: expressions of the loop IR with Python's operators, so that a kernel or an elementwise function is a plain Python function.

``x + y`` of values is an `Op`. Of plain numbers the same functions compute, so that Python is the oracle of what is compiled.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from .nodes import ARITHMETIC, Call, Cast, Const, Expression, Op, number

COMPARISONS = {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"}
LOGICAL = {"and", "or", "xor", "not"}
PART = {"complex64": "float32", "complex128": "float64"}


def arithmetic_dtype(dtype: str) -> str:
    """Return the type in which a number of a dtype is computed."""
    return dtype if dtype in ARITHMETIC else "int64"


@cache
def common(*dtypes: str) -> str:
    """Return the arithmetic type of which all are special cases: as NumPy's, but for integers, which are int64 unless one is uint64."""
    kinds = [arithmetic_dtype(dtype) for dtype in dtypes]
    best = max(kinds, key=ARITHMETIC.index)
    if best in ("float32", "complex64") and not {"int64", "uint64", "float64"}.isdisjoint(kinds):
        return "float64" if best == "float32" else "complex128"
    return best


@cache
def promoted(name: str, dtypes: tuple[str, ...]) -> str:
    """Return the dtype of an operator's result."""
    if name in COMPARISONS or name == "not":
        return "bool"
    if name in ("select", "branch"):
        return common(*dtypes[1:])
    result = common(*dtypes)
    if name in LOGICAL:
        return result
    if name in ("real", "imag"):
        return PART[result]
    if name == "complex":
        return "complex64" if set(dtypes) == {"float32"} else "complex128"
    if name == "absolute" and result in PART:
        return PART[result]
    if result == "bool":
        result = "int64"
    return "float64" if name == "divide" and result in ("int64", "uint64") else result


def op(name: str, *args: Expression) -> Op:
    """Return an operator of expressions."""
    return Op(name, args, promoted(name, tuple(arg.dtype for arg in args)))


def binary(name: str) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
    """Return the methods of an operator, as it is and reflected."""

    def method(self: Any, other: Any) -> Value:
        return Value(op(name, unwrapped(self), unwrapped(other)))

    def reflected(self: Any, other: Any) -> Value:
        return Value(op(name, unwrapped(other), unwrapped(self)))

    return method, reflected


class Value:
    """A number in emitted code."""

    __slots__ = ("node",)
    __array_ufunc__ = None

    def __init__(self, node: Expression):
        self.node = node

    __add__, __radd__ = binary("add")
    __sub__, __rsub__ = binary("subtract")
    __mul__, __rmul__ = binary("multiply")
    __truediv__, __rtruediv__ = binary("divide")
    __pow__, __rpow__ = binary("power")
    __floordiv__, __rfloordiv__ = binary("floor_divide")
    __mod__, __rmod__ = binary("remainder")
    __and__, __rand__ = binary("and")
    __or__, __ror__ = binary("or")
    __xor__, __rxor__ = binary("xor")
    __lshift__, __rlshift__ = binary("left_shift")
    __rshift__, __rrshift__ = binary("right_shift")
    __eq__, __ne__ = binary("equal")[0], binary("not_equal")[0]
    __lt__, __le__ = binary("less")[0], binary("less_equal")[0]
    __gt__, __ge__ = binary("greater")[0], binary("greater_equal")[0]
    __hash__ = None  # type: ignore[assignment]

    @property
    def real(self) -> Value:
        return Value(op("real", self.node))

    @property
    def imag(self) -> Value:
        return Value(op("imag", self.node))

    def __neg__(self) -> Value:
        return Value(op("negative", self.node))

    def __invert__(self) -> Value:
        return Value(op("not" if self.node.dtype == "bool" else "invert", self.node))

    def __abs__(self) -> Value:
        return Value(op("absolute", self.node))

    def __bool__(self) -> bool:
        raise TypeError("a number of emitted code has no truth value: write choose(condition, x, y), or & and | for and and or")


def unwrapped(x: Any) -> Expression:
    """Return the expression of a value or of a plain number."""
    return x.node if isinstance(x, Value) else number(x)


def wrapped(fn: Callable, *nodes: Expression) -> Expression:
    """Return the expression that a function of values makes of expressions."""
    return unwrapped(fn(*map(Value, nodes)))


def call(function: str, *args: Any, dtype: str | None) -> Value:
    """Return the call of a function by name."""
    return Value(Call(function, tuple(map(unwrapped, args)), dtype))


def cast(x: Any, dtype: str) -> Value:
    """Return a number as one of another dtype."""
    node = unwrapped(x)
    if type(node) is Const and dtype in ("float64", "int64"):
        value: Any = node.value
        if type(value) is not complex and math.isfinite(value):
            return Value(number(float(value) if dtype == "float64" else int(value)))
    return Value(Cast(node, dtype))


def choose(condition: Any, x: Any, y: Any) -> Any:
    """Return x where a condition holds, else y; both are computed."""
    if not any(isinstance(part, Value) for part in (condition, x, y)):
        chosen = x if condition else y
        return np.float64(chosen) if type(chosen) is float else chosen  # which divides by zero
    return Value(op("select", *map(unwrapped, (condition, x, y))))
