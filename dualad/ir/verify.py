"""What is wrong with a module of the loop IR, found before it is compiled: always in tests, and where ``DUALAD_CHECK=1``.

Types agree, variables are set before they are read, indices stay within shapes and lanes are those of their loops, and what a function is
not given is stored before it is read. A branch may be taken or not, a loop is assumed to run; ranges that are not known are not checked.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from .nodes import ArrayType, Call, Const, Function, Lane, Load, Module, Op, Table, Type, Var
from .ranges import FLIPPED, OPPOSITE, Range, offset_of, scaled, total
from .to_python import OPERATORS
from .values import PART, arithmetic_dtype, promoted
from .walk import set_by


class Fault(Exception):
    """A module of the loop IR is wrong."""


def checking() -> bool:
    """Return whether all that is compiled is verified."""
    return os.environ.get("DUALAD_CHECK", "0") not in ("", "0")


def verify(module: Module, sequence: Iterable[str] = (), given: Iterable[str] | None = None) -> None:
    """Raise `Fault` if a module is wrong.

    The functions of `sequence` are called one after the other, with arrays that they share by name; at first only those of `given` hold
    something, by default all.
    """
    checks: dict[str, Check] = {}
    tables = {part.name: part for part in module.parts if isinstance(part, Table)}
    for part in module.parts:
        if isinstance(part, Function):
            checks[part.name] = Check(part, checks, tables)
    if given is None:
        return
    held = set(given)
    for name in sequence:
        for array in sorted(checks[name].reads - held):
            raise Fault(f"{name} reads {array} before it is stored")
        held |= checks[name].stores


class Memory:
    """What has been stored of an array: a mask of its elements, None where that is not known; those of its parts have more axes."""

    def __init__(self, kind: ArrayType):
        self.stored = False
        self.mask = None if -1 in kind.shape else np.zeros(kind.shape, bool)


@dataclass(frozen=True)
class Place:
    """An array in memory: the memories that it may be in, and its part of the mask if that is known."""

    memories: tuple[Memory, ...]
    mask: np.ndarray | None

    def at(self, index, rest):
        """Return the part at ranges along the first axes, after which there are `rest` more."""
        if self.mask is None:
            return self
        return Place(self.memories, self.mask[(..., *index, *[slice(None)] * rest)])

    @property
    def known(self):
        return len(self.memories) == 1 and self.memories[0].mask is not None and self.mask is not None


class Check:
    """The verification of a function: `reads` are the array parameters that must hold something, `stores` those that do afterwards."""

    def __init__(self, function: Function, checks: dict[str, Check], tables: dict[str, Table]):
        self.function, self.checks, self.tables = function, checks, tables
        self.types: dict[str, Type] = {}
        self.ranges: dict[str, Range | None] = {}  # of integers
        self.rows: dict[str, tuple[int, ...]] = {}  # of tables, by the variable
        self.places: dict[str, Place] = {}
        self.lanes: dict[str, int] = {}  # of the loops around, by the index
        self.memories: dict[str, Memory] = {}
        for var in function.parameters:
            self.types[var.name] = var.type
            if isinstance(var.type, ArrayType):
                self.memories[var.name] = self.new(var)
        self.given = {id(memory): name for name, memory in self.memories.items()}
        self.reads: set[str] = set()
        self.block(function.body)
        self.stores = {name for name, memory in self.memories.items() if memory.stored}
        self.checks = {}  # it holds this one: a cycle would be left to the collector

    def new(self, var):
        memory = Memory(var.type)
        self.places[var.name] = Place((memory,), memory.mask)
        return memory

    def require(self, condition, message):
        if not condition:
            raise Fault(f"{self.function.name}: {message}")

    # --- statements -------------------------------------------------------------------------------------------------------------

    def block(self, statements):
        for statement in statements:
            getattr(self, f"do_{type(statement).__name__}")(statement)

    def do_Assign(self, node):
        found = [(kind_of(value), self.value(value), self.range(value)) for value in node.values]
        self.require(len(found) == len(node.targets), f"{len(node.targets)} variables are set to {len(found)} values")
        for target, (kind, place, reach) in zip(node.targets, found, strict=True):
            self.declare(target, kind)
            self.ranges[target.name] = reach
            if isinstance(kind, ArrayType) and place is not None:
                self.places[target.name] = place

    def declare(self, target, kind):
        """Note that a variable is set to something of a type."""
        same = target.type == kind if isinstance(kind, ArrayType) else arithmetic_dtype(target.dtype) == arithmetic_dtype(kind)
        self.require(same and isinstance(target.type, ArrayType) == isinstance(kind, ArrayType), f"{target.name} is set to {kind}")
        known = self.types.setdefault(target.name, target.type)
        self.require(known == target.type, f"{target.name} is {known} and {target.type}")

    def do_Store(self, node):
        self.number(node.value)
        self.require(node.value.dtype not in PART or node.array.dtype in PART, f"a complex number is stored into {node.array.dtype}")
        if node.adds:
            self.of_Load(Load(node.array, node.index))
        self.store(*self.element(node.array, node.index))

    def do_Fill(self, node):
        place = self.array(node.array)
        if isinstance(kind_of(node.value), ArrayType):
            self.require(kind_of(node.value) == kind_of(node.array), f"{kind_of(node.array)} is filled with {kind_of(node.value)}")
            self.read(self.array(node.value), True)
        else:
            self.number(node.value)
        if node.adds:
            self.read(place, True)
        self.store(place, True)

    def do_Room(self, node):
        self.declare(node.target, node.target.type)
        self.new(node.target)

    def do_For(self, node):
        low, high = self.integer(node.low), self.integer(node.high)
        self.require(node.step in (1, -1), f"the loop over {node.index.name} has steps of {node.step}")
        self.declare(node.index, "int64")
        if node.step < 0 and low is not None and high is not None:
            low, high = high.moved(1), low.moved(1)
        reach = None if low is None or high is None else Range(low.low, high.high - 1, 1, low.low == low.high and high.low == high.high)
        if reach is not None and reach.high < reach.low:
            return  # it makes no turn
        self.lanes[node.index.name] = node.lanes
        self.turn(node, node.index.name, reach)
        del self.lanes[node.index.name]

    def turn(self, node, index, reach):
        """Verify the body of a loop; an array that changes places with others there may be in the memory of any of them."""
        before = dict(self.places)
        self.ranges.update(dict.fromkeys(set_by(node.body)))
        self.ranges[index] = reach
        self.block(node.body)
        changed = [name for name, place in before.items() if self.places[name] is not place and len(place.memories) == 1]
        for name in changed:
            memories = dict.fromkeys((*before[name].memories, *self.places[name].memories))
            self.places[name] = Place(tuple(memories), None)
        for name in (index, *set_by(node.body)):
            self.ranges.pop(name, None)

    def do_ForRows(self, node):
        table = self.tables.get(node.table.name)
        if table is None:
            raise Fault(f"{self.function.name}: {node.table.name} is no table")
        low, high = self.integer(node.low), self.integer(node.high)
        self.types.pop(node.row.name, None)  # rows of another table may be of another length
        self.declare(node.row, ArrayType("int64", (len(table.rows[0]),)))
        known = low is not None and high is not None and low.low == low.high and high.low == high.high
        self.require(not known or 0 <= low.low <= high.low <= len(table.rows), f"rows of {node.table.name} are out of bounds")
        for row in table.rows[low.low : high.low] if known else table.rows:
            self.rows[node.row.name] = row
            self.places[node.row.name] = Place((), None)
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
        letters, count = node.types.replace("->", ""), node.types.index("->")
        self.require(len(letters) == len(node.arrays), f"{node.ufunc} is called with {len(node.arrays)} arrays")
        self.require(len(node.dimensions) > 0 and len(node.steps) >= len(node.arrays), f"{node.ufunc} has no strides")
        places = [self.array(array) for array in node.arrays]
        for letter, array in zip(letters, node.arrays, strict=True):
            self.require(np.dtype(letter).name == array.dtype, f"{node.ufunc} is called with {array.dtype} for {letter}")
        for place in places[:count]:
            self.read(place, True)
        for place in places[count:]:
            self.store(place, True)

    # --- memory -----------------------------------------------------------------------------------------------------------------

    def store(self, place, exact, elements=True):
        """Note that elements are stored; which of them is known if that is `exact`."""
        for memory in place.memories:
            memory.stored = True
            if not exact or not place.known:
                memory.mask = None
        if exact and place.known:
            place.mask[...] |= elements

    def read(self, place, exact):
        """Note that elements are read, all of them if that is `exact`: what is not stored must have been there before."""
        if any(memory.stored for memory in place.memories) and not (exact and place.known and not place.mask.all()):
            return
        for memory in place.memories:
            name = self.given.get(id(memory))
            if name is None:
                raise Fault(f"{self.function.name}: an array on the stack is read before it is stored")
            self.reads.add(name)

    def element(self, array, index):
        """Return the place of elements of an array, and whether they are all of those that the loops around reach."""
        place = self.array(array)
        shape = kind_of(array).shape
        self.require(len(index) == len(shape), f"an element of an array of {len(shape)} axes has {len(index)} indices")
        return self.part(place, shape, index)

    def part(self, place, shape, index):
        ranges = [self.index(part, n) for part, n in zip(index, shape, strict=False)]
        names = [var.name for part in index for var in variables(part)]
        exact = all(reach is not None and reach.exact for reach in ranges) and len(set(names)) == len(names)
        if not exact:
            return Place(place.memories, None), False
        return place.at([slice(reach.low, reach.high + 1, reach.step) for reach in ranges], len(shape) - len(index)), True

    def index(self, node, n):
        """Return the range of an index, which must be within an axis."""
        reach = self.integer(node)
        if reach is not None and n >= 0:
            self.require(reach.low >= 0 and reach.high < n, f"an index from {reach.low} to {reach.high} of an axis of {n}")
        return reach

    # --- expressions ------------------------------------------------------------------------------------------------------------

    def value(self, node):
        """Verify an expression; return the place of an array."""
        return getattr(self, f"of_{type(node).__name__}")(node)

    def number(self, node):
        self.require(not isinstance(kind_of(node), ArrayType), "an array stands for a number")
        self.value(node)

    def array(self, node):
        self.require(isinstance(kind_of(node), ArrayType), "a number stands for an array")
        return self.value(node)

    def integer(self, node):
        self.number(node)
        self.require(arithmetic_dtype(node.dtype) in ("bool", "int64", "uint64"), f"{node.dtype} is an index or a bound")
        return self.range(node)

    def of_Const(self, node):
        self.require((type(node.value) is complex) <= (node.dtype in PART), f"{node.value} is of {node.dtype}")

    def of_Var(self, node):
        if node.name in self.tables and node.name not in self.types:
            return Place((), None)
        known = self.types.get(node.name)
        self.require(known is not None, f"{node.name} is read before it is set")
        self.require(known == node.type, f"{node.name} is {known}, not {node.type}")
        return self.places.get(node.name)

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
            last = (reach.high + 1) // node.count * node.count
            self.require((reach.low, last) == (0, node.below), f"lanes end at {node.below}, not at {last}")

    def of_Load(self, node):
        place, exact = self.element(node.array, node.index)
        if place.memories:
            self.read(place, exact)

    def of_Row(self, node):
        place, shape = self.array(node.array), kind_of(node.array).shape
        rest = shape[len(node.index) :]
        if node.low is not None:
            self.require(len(rest) == 1 and 0 <= node.low <= node.high <= rest[0], f"a range from {node.low} to {node.high} of {rest}")
            rest = (node.high - node.low,)
        self.require(node.type == ArrayType(node.array.dtype, rest), f"a part of {kind_of(node.array)} is no {node.type}")
        part, _ = self.part(place, shape, node.index)
        if node.low is None or part.mask is None:
            return part
        return Place(part.memories, part.mask[..., node.low : node.high])

    def of_Reshape(self, node):
        place, kind = self.array(node.array), kind_of(node.array)
        self.require(math.prod(kind.shape) == math.prod(node.type.shape) and kind.dtype == node.type.dtype, f"{kind} is no {node.type}")
        if place.mask is None:
            return place
        free = place.mask.shape[: place.mask.ndim - len(kind.shape)]
        mask = place.mask.reshape(free + node.type.shape)
        return Place(place.memories, mask if np.shares_memory(mask, place.mask) else None)

    def of_Call(self, node):
        places = []
        for arg in node.args:
            places.append(self.value(arg) if isinstance(kind_of(arg), ArrayType) else self.number(arg))
        callee = self.checks.get(node.function)
        if callee is None:
            for place in places:
                if place is not None:
                    self.read(place, False)
            return
        parameters = callee.function.parameters
        self.require(len(parameters) == len(places), f"{node.function} is called with {len(places)} arguments")
        for parameter, arg in zip(parameters, node.args, strict=True):
            self.require(fits(kind_of(arg), parameter.type), f"{node.function} is called with {kind_of(arg)} for {parameter.name}")
        given = {parameter.name: place for parameter, place in zip(parameters, places, strict=True) if place is not None}
        for name, place in given.items():
            if name in callee.reads:
                self.read(place, False)
        for name, place in given.items():
            if name in callee.stores:
                mask = callee.memories[name].mask
                alike = mask is not None and place.known and mask.shape == place.mask.shape
                self.store(place, alike, mask if alike else True)
        self.require(node.dtype is None, f"{node.function} returns nothing, not {node.dtype}")

    # --- ranges -----------------------------------------------------------------------------------------------------------------

    def range(self, node):
        """Return the range of an integer, None where it is not known."""
        match node:
            case Const(value=int() as value):
                return Range(int(value), int(value))
            case Var():
                return self.ranges.get(node.name)
            case Load(array=Var(name=name), index=(Const(value=int() as k),)) if name in self.rows:
                return Range(self.rows[name][k], self.rows[name][k])
            case Lane():
                return Range(0, node.count - (node.below is None), 1, False)
            case Call(function="at_least_inside", args=(_, Const(value=int() as n))):
                return Range(0, n - 1, 1, False)
            case Op(name="select" | "branch", args=(condition, x, y)):
                return self.either(self.where(condition, True, x), self.where(condition, False, y))
            case Op(name="negative", args=(x,)):
                return scaled(self.range(x), -1)
            case Op(name="add" | "subtract" as name, args=(x, y)):
                x, y = self.range(x), self.range(y)
                return None if x is None or y is None else total(x, y if name == "add" else scaled(y, -1))
            case Op(name="multiply", args=(x, y)):
                x, y = self.range(x), self.range(y)
                if x is not None and y is not None and 1 in (y.high - y.low + 1, x.high - x.low + 1):
                    return scaled(x, y.low) if y.low == y.high else scaled(y, x.low)
            case Op(name="and", args=(_, Const(value=int() as most))) if most >= 0:
                return Range(0, most, 1, False)
        return None

    def where(self, condition, holds, node):
        """Return the range of an expression where a condition holds, or does not; False where that is nowhere."""
        kept = self.ranges
        try:
            self.ranges = dict(kept)
            if not self.narrow(condition, holds):
                return False
            return self.range(node)
        finally:
            self.ranges = kept

    def narrow(self, condition, holds):
        """Narrow the ranges to where a condition holds, or does not; return whether anything is left."""
        if not isinstance(condition, Op):
            return True
        if (condition.name == "and" and holds) or (condition.name == "or" and not holds):
            left = [self.narrow(arg, holds) for arg in condition.args]
            return all(left)
        name, args = condition.name, condition.args
        if name not in FLIPPED:
            return True
        if isinstance(args[0], Const):
            name, args = FLIPPED[name], args[::-1]
        if not holds:
            name = OPPOSITE[name]
        var, offset = offset_of(args[0])
        reach = None if var is None else self.ranges.get(var)
        if reach is None or not isinstance(args[1], Const) or reach.step != 1:
            return True
        bound = args[1].value - offset
        low = max(reach.low, bound + (name == "greater")) if name.startswith("greater") else reach.low
        high = min(reach.high, bound - (name == "less")) if name.startswith("less") else reach.high
        self.ranges[var] = Range(low, high, 1, reach.exact)
        return low <= high

    def either(self, x, y):
        if x is False or y is False:
            return (y or None) if x is False else x
        if x is None or y is None:
            return None
        joined = x.step == y.step == 1 and x.low <= y.high + 1 and y.low <= x.high + 1
        return Range(min(x.low, y.low), max(x.high, y.high), 1, x.exact and y.exact and joined)


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


def variables(node):
    """Return the variables of an index."""
    if isinstance(node, Var):
        return [node]
    parts = node.args if isinstance(node, Op | Call) else [node.index] if isinstance(node, Lane) else []
    return [var for part in parts for var in variables(part)]
