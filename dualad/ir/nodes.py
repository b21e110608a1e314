"""The loop IR: numbers, arrays of known shapes, loops over ranges, branches and calls, as frozen data that holds no code.

Expressions are numbers (each has a ``dtype``, the name of NumPy's) or arrays (``Var``, ``Row`` and ``Reshape`` of an `ArrayType`).
Arithmetic is in seven types: integers of other widths are int64 from the load to the cast or the store that wraps them. An expression may
be an operand of several others in one statement and is computed once there. Statements are computed in order; a variable has one type.
Products are not contracted and sums not reordered: what is fused is a call of ``multiply_add``, and partial sums are elements at a `Lane`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

#: the types of numbers in expressions; arrays may have elements of any other dtype of NumPy's integers, too
ARITHMETIC = ("bool", "int64", "uint64", "float32", "float64", "complex64", "complex128")


@dataclass(frozen=True, slots=True)
class ArrayType:
    """An array in C order: the dtype of its elements and its shape; -1 is the number of rows of a parameter that takes any."""

    dtype: str
    shape: tuple[int, ...]


Type = str | ArrayType  # that of a number is its dtype


# --- expressions ------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Const:
    """A number that is written out."""

    value: bool | int | float | complex
    dtype: str


@dataclass(frozen=True, slots=True, eq=False)
class Var:
    """A parameter, a variable, the index of a loop, or an array by its name."""

    name: str
    type: Type

    @property
    def dtype(self) -> Any:
        return self.type.dtype if isinstance(self.type, ArrayType) else self.type

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape if isinstance(self.type, ArrayType) else ()


@dataclass(frozen=True, slots=True, eq=False)
class Op:
    """An operator (of `to_python.OPERATORS`) of numbers: `select` chooses one of two, `branch` computes that one alone."""

    name: str
    args: tuple[Expression, ...]
    dtype: str


@dataclass(frozen=True, slots=True, eq=False)
class Cast:
    """A number as one of another dtype; integers wrap."""

    arg: Expression
    dtype: str


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A function of the module, a kernel or a function of the C library of numbers and arrays, by name; the dtype of its result."""

    function: str
    args: tuple[Expression, ...]
    dtype: str | None


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """The element of an array at an index."""

    array: Expression
    index: tuple[Expression, ...]

    @property
    def dtype(self) -> Any:
        return self.array.dtype


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """The part of an array at positions along its first axes: all of the others; or with `low` and `high`, a range of the only other."""

    array: Expression
    index: tuple[Expression, ...]
    low: int | None
    high: int | None
    type: ArrayType

    @property
    def dtype(self) -> Any:
        return self.type.dtype


@dataclass(frozen=True, slots=True, eq=False)
class Reshape:
    """An array in another shape."""

    array: Expression
    type: ArrayType

    @property
    def dtype(self) -> Any:
        return self.type.dtype


@dataclass(frozen=True, slots=True, eq=False)
class Lane:
    """Which of `count` partial sums element `index` belongs to: its last bits, or the last one (`count`) from the element `below` on."""

    index: Var
    count: int
    below: int | None = None
    dtype: str = "int64"


Expression = Const | Var | Op | Cast | Call | Load | Row | Reshape | Lane


# --- statements -------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Assign:
    """Variables set to values, all at once; `line` is the user's, as ``(file, number)``."""

    targets: tuple[Var, ...]
    values: tuple[Expression, ...]
    line: tuple[str, int] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Store:
    """An element of an array set to a number, or with `adds` increased by it."""

    array: Expression
    index: tuple[Expression, ...]
    value: Expression
    adds: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Fill:
    """All elements of an array set to a number, or to those of an array of the same shape; with `adds`, increased by them."""

    array: Expression
    value: Expression
    adds: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Room:
    """A new small array on the stack, for partial sums."""

    target: Var


@dataclass(frozen=True, slots=True, eq=False)
class For:
    """A loop of an index from `low` to `high` - 1, or backwards from `low` to `high` + 1 if `step` is -1.

    `lanes` is the number of partial sums that its body chooses by the index (`Lane`), 0 where there are none: so many turns are one of
    vectors.
    """

    index: Var
    low: Expression
    high: Expression
    body: tuple[Statement, ...]
    step: int = 1
    lanes: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class ForRows:
    """A loop over rows of a table, from row `low` to `high` - 1."""

    row: Var
    table: Var
    low: Expression
    high: Expression
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True, eq=False)
class If:
    """A branch; it never stands in an innermost loop of numbers, where `select` does."""

    condition: Expression
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Do:
    """A call that returns nothing; with `blocks`, a function of each block, which threads share (see `loops.threads`)."""

    call: Call
    blocks: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Return:
    """The end of a kernel, with its result; functions of a module have none."""

    value: Expression


@dataclass(frozen=True, slots=True, eq=False)
class CallLoop:
    """A call of the inner loop of a ufunc with arrays, those that it reads first: the lengths of its axes and its strides in bytes.

    The loop is that of the ufunc's `types`. One that `raises` says by a flag where a matrix is singular. The bounds of a `part` along
    the first of the axes, or none.
    """

    ufunc: str
    types: str
    dimensions: tuple[int, ...]
    steps: tuple[int, ...]
    arrays: tuple[Expression, ...]
    raises: bool = False
    part: tuple[Expression, ...] = ()


Statement = Assign | Store | Fill | Room | For | ForRows | If | Do | CallLoop | Return


# --- modules ----------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """A function: its parameters are numbers, and arrays that do not overlap.

    An `inlined` one becomes part of its caller's loops.
    """

    name: str
    parameters: tuple[Var, ...]
    body: tuple[Statement, ...]
    inlined: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A constant array of int64: the bounds of boxes."""

    name: str
    rows: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Module:
    """Functions and tables, each before those that use it."""

    parts: tuple[Function | Table, ...]

    def function(self, name: str) -> Function:
        """Return a function by its name."""
        return next(part for part in self.parts if isinstance(part, Function) and part.name == name)


def number(value: Any, dtype: str | None = None) -> Const:
    """Return a constant of a dtype, by default that of NumPy for the Python number."""
    value = value.item() if issubclass(type(value), np.generic) else value
    return Const(value, dtype or {bool: "bool", int: "int64", float: "float64", complex: "complex128"}[type(value)])
