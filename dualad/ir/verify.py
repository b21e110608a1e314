"""What is wrong with a module of the loop IR, found before it is compiled: always in tests, and where ``DUALAD_CHECK=1``.

Types agree, variables are set before they are read, indices stay within shapes and lanes are those of their loops. A branch may be taken or
not, a loop is assumed to run; ranges that are not known are not checked. What is read before it is stored shows in results (`unset`).
"""

from __future__ import annotations

import itertools
import math
import operator
import os

import numpy as np

from .nodes import ArrayType, Call, Const, Function, Lane, Load, Module, Op, Table, Type, Var
from .to_python import OPERATORS
from .values import PART, arithmetic_dtype, promoted
from .walk import set_by

__all__ = ["Fault", "checking", "unset", "verify"]

FLIPPED = {"less": "greater", "less_equal": "greater_equal", "greater": "less", "greater_equal": "less_equal"}
OPPOSITE = {"less": "greater_equal", "less_equal": "greater", "greater": "less_equal", "greater_equal": "less"}
EDGES = {"negative": operator.neg, "add": operator.add, "subtract": operator.sub, "multiply": operator.mul}
Range = tuple[int, int]  # the least and the largest of integers


class Fault(Exception):
    """A module of the loop IR is wrong."""


def checking() -> bool:
    """Return whether all that is compiled is verified."""
    return os.environ.get("DUALAD_CHECK", "0") not in ("", "0")


def unset(shape, dtype):
    """Return a new array, of NaN where it can hold that."""
    array = np.empty(shape, dtype)
    array.fill(np.nan if array.dtype.kind in "fc" else 1)
    return array


def verify(module: Module) -> None:
    """Raise `Fault` if a module is wrong."""
    functions: dict[str, Function] = {}
    tables = {part.name: part for part in module.parts if isinstance(part, Table)}
    for part in module.parts:
        if isinstance(part, Function):
            Check(part, functions, tables)
            functions[part.name] = part


class Check:
    """The verification of a function."""

    def __init__(self, function: Function, functions: dict[str, Function], tables: dict[str, Table]):
        self.function, self.functions, self.tables = function, functions, tables
        self.types: dict[str, Type] = {var.name: var.type for var in function.parameters}
        self.ranges: dict[str, Range | None] = {}  # of integers
        self.rows: dict[str, tuple[int, ...]] = {}  # of tables, by the variable
        self.lanes: dict[str, int] = {}  # of the loops around, by the index
        self.block(function.body)

    def require(self, condition, message):
        if not condition:
            raise Fault(f"{self.function.name}: {message}")

    # --- statements -------------------------------------------------------------------------------------------------------------

    def block(self, statements):
        for statement in statements:
            getattr(self, f"do_{type(statement).__name__}")(statement)

    def do_Assign(self, node):
        for value in node.values:
            self.value(value)
        found = [(kind_of(value), self.range(value)) for value in node.values]
        self.require(len(found) == len(node.targets), f"{len(node.targets)} variables are set to {len(found)} values")
        for target, (kind, reach) in zip(node.targets, found, strict=True):
            self.declare(target, kind)
            self.ranges[target.name] = reach

    def declare(self, target, kind):
        """Note that a variable is set to something of a type."""
        same = target.type == kind if isinstance(kind, ArrayType) else arithmetic_dtype(target.dtype) == arithmetic_dtype(kind)
        self.require(same and isinstance(target.type, ArrayType) == isinstance(kind, ArrayType), f"{target.name} is set to {kind}")
        known = self.types.setdefault(target.name, target.type)
        self.require(known == target.type, f"{target.name} is {known} and {target.type}")

    def do_Store(self, node):
        self.number(node.value)
        self.require(node.value.dtype not in PART or node.array.dtype in PART, f"a complex number is stored into {node.array.dtype}")
        self.of_Load(node)

    def do_Fill(self, node):
        self.array(node.array)
        if isinstance(kind_of(node.value), ArrayType):
            self.require(kind_of(node.value) == kind_of(node.array), f"{kind_of(node.array)} is filled with {kind_of(node.value)}")
        self.value(node.value)

    def do_Room(self, node):
        self.declare(node.target, node.target.type)

    def do_For(self, node):
        low, high = self.integer(node.low), self.integer(node.high)
        self.require(node.step in (1, -1), f"the loop over {node.index.name} has steps of {node.step}")
        self.declare(node.index, "int64")
        reach = None
        if low is not None and high is not None:
            reach = (low[0], high[1] - 1) if node.step > 0 else (high[0] + 1, low[1])
            if reach[1] < reach[0]:
                return  # it makes no turn
        self.lanes[node.index.name] = node.lanes
        self.turn(node, node.index.name, reach)
        del self.lanes[node.index.name]

    def turn(self, node, index, reach):
        """Verify the body of a loop."""
        self.ranges.update(dict.fromkeys(set_by(node.body)))
        self.ranges[index] = reach
        self.block(node.body)
        for name in (index, *set_by(node.body)):
            self.ranges.pop(name, None)

    def do_ForRows(self, node):
        table = self.tables.get(node.table.name)
        if table is None:
            raise Fault(f"{self.function.name}: {node.table.name} is no table")
        low, high = self.integer(node.low), self.integer(node.high)
        self.types.pop(node.row.name, None)  # rows of another table may be of another length
        self.declare(node.row, ArrayType("int64", (len(table.rows[0]),)))
        known = low is not None and high is not None and low[0] == low[1] and high[0] == high[1]
        self.require(not known or 0 <= low[0] <= high[0] <= len(table.rows), f"rows of {node.table.name} are out of bounds")
        for row in table.rows[low[0] : high[0]] if known else table.rows:
            self.rows[node.row.name] = row
            self.turn(node, node.row.name, None)

    def do_If(self, node):
        self.number(node.condition)
        before = dict(self.types), dict(self.ranges)
        found = []
        for body in (node.then, node.otherwise):
            self.types, self.ranges = dict(before[0]), dict(before[1])
            self.block(body)
            found.append((self.types, self.ranges))
        (types, ranges), (others, other_ranges) = found
        self.types = {name: kind for name, kind in types.items() if name in others}
        self.ranges = {name: reach for name, reach in ranges.items() if name in other_ranges and other_ranges[name] == reach}

    def do_Do(self, node):
        block = () if node.blocks is None else (Const(0, "int64"),)
        self.value(Call(node.call.function, (*node.call.args, *block), node.call.dtype))

    def do_CallLoop(self, node):
        letters = node.types.replace("->", "")
        self.require(len(letters) == len(node.arrays), f"{node.ufunc} is called with {len(node.arrays)} arrays")
        self.require(len(node.dimensions) > 0 and len(node.steps) >= len(node.arrays), f"{node.ufunc} has no strides")
        for letter, array in zip(letters, node.arrays, strict=True):
            self.array(array)
            self.require(np.dtype(letter).name == array.dtype, f"{node.ufunc} is called with {array.dtype} for {letter}")

    # --- expressions ------------------------------------------------------------------------------------------------------------

    def value(self, node):
        """Verify an expression."""
        getattr(self, f"of_{type(node).__name__}")(node)

    def number(self, node):
        self.require(not isinstance(kind_of(node), ArrayType), "an array stands for a number")
        self.value(node)

    def array(self, node):
        self.require(isinstance(kind_of(node), ArrayType), "a number stands for an array")
        self.value(node)

    def integer(self, node):
        """Verify an integer; return its range."""
        self.number(node)
        self.require(arithmetic_dtype(node.dtype) in ("bool", "int64", "uint64"), f"{node.dtype} is an index or a bound")
        return self.range(node)

    def within(self, nodes, shape):
        """Verify indices, which must be within the first axes."""
        for node, n in zip(nodes, shape, strict=False):
            reach = self.integer(node)
            if reach is not None and n >= 0:
                self.require(reach[0] >= 0 and reach[1] < n, f"an index from {reach[0]} to {reach[1]} of an axis of {n}")

    def of_Const(self, node):
        self.require((type(node.value) is complex) <= (node.dtype in PART), f"{node.value} is of {node.dtype}")

    def of_Var(self, node):
        if node.name not in self.tables or node.name in self.types:
            known = self.types.get(node.name)
            self.require(known is not None, f"{node.name} is read before it is set")
            self.require(known == node.type, f"{node.name} is {known}, not {node.type}")

    def of_Op(self, node):
        self.require(node.name in OPERATORS, f"there is no operator {node.name}")
        for arg in node.args:
            self.number(arg)
        found = promoted(node.name, tuple(arg.dtype for arg in node.args))
        self.require(found == node.dtype, f"{node.name} gives {found}, not {node.dtype}")

    def of_Cast(self, node):
        self.number(node.arg)
        self.require(node.arg.dtype not in PART or node.dtype in PART, f"a complex number becomes {node.dtype}")

    def of_Lane(self, node):
        self.value(node.index)
        lanes = self.lanes.get(node.index.name)
        self.require(lanes == node.count, f"{node.index.name} has {lanes} lanes, not {node.count}")
        reach = self.ranges.get(node.index.name)
        if node.below is not None and reach is not None:
            last = (reach[1] + 1) // node.count * node.count
            self.require((reach[0], last) == (0, node.below), f"lanes end at {node.below}, not at {last}")

    def of_Load(self, node):
        self.array(node.array)
        shape = kind_of(node.array).shape
        self.require(len(node.index) == len(shape), f"an element of an array of {len(shape)} axes has {len(node.index)} indices")
        self.within(node.index, shape)

    def of_Row(self, node):
        self.array(node.array)
        shape = kind_of(node.array).shape
        rest = shape[len(node.index) :]
        if node.low is not None:
            self.require(len(rest) == 1 and 0 <= node.low <= node.high <= rest[0], f"a range from {node.low} to {node.high} of {rest}")
            rest = (node.high - node.low,)
        self.require(node.type == ArrayType(node.array.dtype, rest), f"a part of {kind_of(node.array)} is no {node.type}")
        self.within(node.index, shape)

    def of_Reshape(self, node):
        self.array(node.array)
        kind = kind_of(node.array)
        self.require(math.prod(kind.shape) == math.prod(node.type.shape) and kind.dtype == node.type.dtype, f"{kind} is no {node.type}")

    def of_Call(self, node):
        for arg in node.args:
            self.value(arg)
        callee = self.functions.get(node.function)
        if callee is None:
            return
        self.require(len(callee.parameters) == len(node.args), f"{node.function} is called with {len(node.args)} arguments")
        for parameter, arg in zip(callee.parameters, node.args, strict=True):
            self.require(fits(kind_of(arg), parameter.type), f"{node.function} is called with {kind_of(arg)} for {parameter.name}")
        self.require(node.dtype is None, f"{node.function} returns nothing, not {node.dtype}")

    # --- ranges -----------------------------------------------------------------------------------------------------------------

    def range(self, node):
        """Return the range of an integer, None where it is not known."""
        match node:
            case Const(value=int() as value):
                return int(value), int(value)
            case Var():
                return self.ranges.get(node.name)
            case Load(array=Var(name=name), index=(Const(value=int() as k),)) if name in self.rows:
                return self.rows[name][k], self.rows[name][k]
            case Lane():
                return 0, node.count - (node.below is None)
            case Call(function="at_least_inside", args=(_, Const(value=int() as n))):
                return 0, n - 1
            case Op(name="and", args=(_, Const(value=int() as most))) if most >= 0:
                return 0, most
            case Op(name="select" | "branch", args=(condition, x, y)):
                sides = self.where(condition, True, x), self.where(condition, False, y)
                reached = [side for side in sides if side is not False]
                return None if None in reached or not reached else (min(low for low, _ in reached), max(high for _, high in reached))
            case Op(name="negative" | "add" | "subtract" | "multiply" as name, args=args):
                found = list(map(self.range, args))
                if None not in found:
                    edges = [EDGES[name](*pair) for pair in itertools.product(*found)]
                    return min(edges), max(edges)
        return None

    def where(self, condition, holds, node):
        """Return the range of an expression where a condition holds, or does not; False where that is nowhere."""
        kept = self.ranges
        try:
            self.ranges = dict(kept)
            return self.narrow(condition, holds) and self.range(node)
        finally:
            self.ranges = kept

    def narrow(self, condition, holds):
        """Narrow the ranges to where a condition holds, or does not; return whether anything is left."""
        if not isinstance(condition, Op):
            return True
        if (condition.name == "and" and holds) or (condition.name == "or" and not holds):
            return all(self.narrow(arg, holds) for arg in condition.args)
        name, args = condition.name, condition.args
        if name not in FLIPPED:
            return True
        if isinstance(args[0], Const):
            name, args = FLIPPED[name], args[::-1]
        if not holds:
            name = OPPOSITE[name]
        var, offset = offset_of(args[0])
        reach = None if var is None else self.ranges.get(var)
        if reach is None or not isinstance(args[1], Const):
            return True
        bound = args[1].value - offset
        low = max(reach[0], bound + (name == "greater")) if name.startswith("greater") else reach[0]
        high = min(reach[1], bound - (name == "less")) if name.startswith("less") else reach[1]
        self.ranges[var] = low, high
        return low <= high


def offset_of(node):
    """Return the name of a variable and a number, of which an expression is the sum; None if it is another."""
    match node:
        case Var(name=name):
            return name, 0
        case Op(name="add" | "subtract" as sign, args=(Var(name=name), Const(value=number))):
            return name, number if sign == "add" else -number
    return None, 0


def kind_of(node):
    """Return the type of an expression."""
    kind = getattr(node, "type", None)
    return kind if isinstance(kind, ArrayType) else node.dtype


def fits(kind, wanted):
    """Return whether something of a type may be given where another is wanted."""
    if isinstance(kind, ArrayType) != isinstance(wanted, ArrayType):
        return False
    if not isinstance(kind, ArrayType):
        return arithmetic_dtype(kind) == arithmetic_dtype(wanted)
    same = len(kind.shape) == len(wanted.shape) and all(n == -1 or m in (-1, n) for m, n in zip(kind.shape, wanted.shape, strict=True))
    return kind.dtype == wanted.dtype and same
