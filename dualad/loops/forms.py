"""Loop forms: what an operation of a program is to a loop nest.

A `Node` is a value that can be computed at any index: of its form, one of those below. Index maps are given for each axis of what is
read, as the position there: a number, an `AffineIndex` (affine pieces of one axis of the result) or a `GatherIndex` (an element of an array
of integers).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ..graph.program import Value
from ..rules.cotangents import Shaped
from ..rules.kinds import ROWS
from ..rules.scalars import IMAGINARY, REAL_PART, Scalar, itself
from ..rules.shapes import select
from ..support.costs import LANES, ONE_BY_ONE
from .maps import WHOLE, resolved, scalar_of, within


class NoLoopForm(Exception):
    """An operation has no loop form here, for the reason given: it is called."""


class Node(Shaped):
    """A value as the loops see it."""

    __slots__ = ("dtype", "form", "line", "shape", "weak")

    def __init__(self, form, shape, dtype, weak=False):
        self.form, self.shape, self.dtype, self.weak, self.line = form, tuple(shape), np.dtype(dtype), weak, None


@dataclass(frozen=True, eq=False, slots=True)
class Buffer:
    """An array that is given: an input, a constant (its array is known), a result of a call, or another buffer seen in another shape."""

    value: Value | None
    array: Any = None
    view_of: Node | None = None
    operands: tuple = ()


@dataclass(frozen=True, eq=False, slots=True)
class Fill:
    """A literal number everywhere."""

    number: Any


@dataclass(frozen=True, slots=True)
class Position:
    """The position along an axis, counted from 0."""

    axis: int


@dataclass(frozen=True, eq=False, slots=True)
class Map:
    """A scalar function of nodes at the same index, with broadcasting, each cast to one of `dtypes`."""

    scalar: Scalar
    operands: tuple[Node, ...]
    dtypes: tuple[np.dtype, ...]


@dataclass(frozen=True, slots=True)
class AffineIndex:
    """Positions along one axis of the result: in each piece ``(low, high, stride, offset)``, index i reads ``stride * i + offset``."""

    axis: int
    pieces: tuple[tuple[int, int, int, int], ...]


@dataclass(frozen=True, eq=False, slots=True)
class GatherIndex:
    """Positions that an array of integers says, itself read at `at`; those in an array `length` long are checked, if it is not 0."""

    array: Node
    at: tuple
    length: int


@dataclass(frozen=True, eq=False, slots=True)
class Index:
    """The elements of another node at mapped positions."""

    source: Node
    maps: tuple

    @property
    def operands(self):
        return (self.source, *(m.array for m in self.maps if isinstance(m, GatherIndex)))


@dataclass(frozen=True, eq=False, slots=True)
class Region:
    """A box of the result, ``(low, high)`` on each axis, in which it is `source` at mapped positions."""

    box: tuple[tuple[int, int], ...]
    source: Node
    maps: tuple


@dataclass(frozen=True, eq=False, slots=True)
class Piecewise:
    """Boxes that do not overlap, and `base` outside of them."""

    regions: tuple[Region, ...]
    base: Node

    @property
    def operands(self):
        return (*(region.source for region in self.regions), self.base)


@dataclass(frozen=True, eq=False, slots=True)
class Reduce:
    """A sum, product, maximum, ... over axes of another node; a `fused` sum adds products without rounding them."""

    name: str
    source: Node
    axes: tuple[int, ...]
    fused: bool = False

    @property
    def operands(self):
        return (self.source,)


@dataclass(frozen=True, eq=False, slots=True)
class Cumulative:
    """A cumulative sum or product along an axis."""

    name: str
    source: Node
    axis: int

    @property
    def operands(self):
        return (self.source,)


@dataclass(frozen=True, eq=False, slots=True)
class Scatter:
    """`base` with `source` added (or written) at the positions that `maps`, of source's axes, say."""

    base: Node
    source: Node
    maps: tuple
    adds: bool

    @property
    def operands(self):
        return (self.base, self.source, *(m.array for m in self.maps if isinstance(m, GatherIndex)))


@dataclass(frozen=True, eq=False, slots=True)
class Call:
    """What is evaluated by NumPy between the loops, and why; its results are buffers."""

    operation: Any
    operands: tuple[Node, ...]
    reason: str


@dataclass(frozen=True, eq=False, slots=True)
class Repeat(Call):
    """A loop (see `repeat`), which is a compiled function of its own; its results are `Made`."""


@dataclass(frozen=True, eq=False, slots=True)
class Choose(Call):
    """A branch, which is a compiled function of its own; its operands are the test and the values, its results are `Made`."""


@dataclass(frozen=True, eq=False, slots=True)
class Made:
    """An array that a loop writes: a result of `operands`, the one that stands at a `place` among them, or what it works in."""

    operands: tuple[Node, ...] = ()
    place: int = 0


def operands(node):
    return getattr(node.form, "operands", ())


def reachable(outputs, operands=operands):
    """Return all nodes that the outputs need, operands first."""
    order, seen = [], set()
    stack = [(node, False) for node in reversed(outputs)]
    while stack:
        node, done = stack.pop()
        if done:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack += [(operand, False) for operand in reversed(operands(node)) if operand not in seen]
    return order


# --- the table ----------------------------------------------------------------------------------------------------------------------

#: the rules that make a node of an operation's arguments, by the names that rows say them with (`lower=`)
LOWERINGS: dict[str, Callable] = {}


def lowers(rule):
    """Enter a rule under its name: given the result's `Value` and the arguments, with nodes for values, it returns a node."""
    LOWERINGS[rule.__name__] = rule
    return rule


# --- making nodes ------------------------------------------------------------------------------------------------------------------


def fill(number, shape=(), dtype=None):
    """Return a node that is a number everywhere; a Python number's dtype yields to others."""
    if type(number) is int and not -(1 << 63) <= number < 1 << 63:
        raise NoLoopForm("a Python integer has more than 64 bits")
    return Node(
        Fill(number),
        shape,
        np.asarray(number).dtype if dtype is None else dtype,
        dtype is None and type(number) in (int, float, complex, bool),
    )


def buffer(value: Value) -> Node:
    """Return the node of an input."""
    return Node(Buffer(value), value.shape, value.dtype, value.weak)


def along(axis, count, stride=1, offset=0):
    return AffineIndex(axis, ((0, count, stride, offset),))


def identity(shape):
    return tuple(along(axis, n) for axis, n in enumerate(shape))


def indexed(source, maps, shape):
    """Return the node that reads `source` at mapped positions."""
    if isinstance(source.form, Fill):
        return Node(source.form, shape, source.dtype, source.weak and not shape)
    maps = tuple(maps)
    return source if source.shape == tuple(shape) and maps == identity(shape) else Node(Index(source, maps), shape, source.dtype)


def broadcast(source, shape):
    """Return a node in a larger shape."""
    lead = len(shape) - source.ndim
    maps = [0 if n == 1 else along(lead + k, n) for k, n in enumerate(source.shape)]
    return indexed(source, maps, shape) if source.shape != tuple(shape) else source


def operand_type(node):
    """Return a node's dtype as NumPy's resolution takes it: the type of a Python number that yields to others."""
    return {"b": bool, "i": int, "f": float, "c": complex}[node.dtype.kind] if node.weak else node.dtype


def mapped(fn, *operands, out=None):
    """Return the node of an elementwise function."""
    row = ROWS[fn]
    scalar = row.scalar
    floating = out is not None and out.kind in "fc"
    nodes = [x if isinstance(x, Node) else fill(float(x) if floating and type(x) is int else x) for x in operands]
    dtypes, result = resolved(fn, [operand_type(node) for node in nodes], out)
    kinds = {dtype.kind for dtype in dtypes}
    weak = all(node.weak for node in nodes)
    if weak and row.exact is not None and kinds <= {"i", "b"} and (out is None or out.kind in "ib"):
        scalar, dtypes, result = row.exact, (WHOLE,) * len(nodes), WHOLE
    elif kinds <= {"i", "u"}:
        scalar = row.of_integers or scalar
    elif kinds == {"c"}:
        scalar = row.of_complex or scalar
    if not kinds <= set(scalar.kinds) or any(dtype.char in "egG" for dtype in (*dtypes, result)):
        raise NoLoopForm(f"of {', '.join(map(str, dtypes))}")
    shape = np.broadcast_shapes(*(node.shape for node in nodes))
    held = nodes if fn is select else map(fitting, nodes, dtypes)  # np.where wraps
    return Node(Map(scalar, tuple(held), dtypes), shape, result, weak)


def parts_of(z):
    """Return the nodes of the real and the imaginary parts of complex numbers."""
    return [Node(Map(part, (z,), (z.dtype,)), z.shape, z.dtype.type(0).real.dtype) for part in (REAL_PART, IMAGINARY)]


def runs_of(positions):
    """Return the affine pieces of a list of positions, or None where there are many."""
    positions = positions.tolist()
    pieces, start = [], 0
    while start < len(positions):
        stop = start + 1
        stride = positions[stop] - positions[start] if stop < len(positions) else 1
        while stop < len(positions) and positions[stop] - positions[stop - 1] == stride:
            stop += 1
        if stop - start == 2 and stop < len(positions) and abs(stride) != 1:  # an element alone, before a jump
            stop, stride = start + 1, 1
        pieces.append((start, stop, stride, positions[start] - stride * start))
        if len(pieces) > LANES:
            return None
        start = stop
    return tuple(pieces)


def taken(node, axis, positions):
    """Return the elements at constant positions along an axis."""
    shape = (*node.shape[:axis], len(positions), *node.shape[axis + 1 :])
    maps = list(identity(node.shape))
    pieces = runs_of(positions)
    if pieces is not None:
        maps[axis] = AffineIndex(axis, pieces)
    else:
        constant = Node(Buffer(None, np.ascontiguousarray(positions, np.int64)), (len(positions),), np.int64)
        maps[axis] = GatherIndex(constant, (along(axis, len(positions)),), 0)
    return indexed(node, maps, shape)


def elements_of_one(nodes):
    """Return the array of many numbers that are elements of one vector at known places, None for any others."""
    places: dict[Node, list[int]] = {}
    for node in nodes if len(nodes) > ONE_BY_ONE else ():
        dtype = node.dtype
        while isinstance(node.form, Map) and node.form.scalar.function is itself and node.form.operands[0].dtype == dtype:
            (node,) = node.form.operands
        if not isinstance(node.form, Index) or type(node.form.maps[0]) is not int or node.form.source.ndim > 1:
            return None
        places.setdefault(node.form.source, []).append(node.form.maps[0])
    return taken(node.form.source, 0, np.array(places[node.form.source])) if len(places) == 1 else None


def in_memory(operation):
    """Return all that an operation reads and gives, where compiled code can hold it."""
    values = (*operation.reads, *operation.outputs)
    for value in values:
        if value.size == 0 or value.dtype.kind not in "fiubc" or value.dtype.char in "gGe":
            raise NoLoopForm(f"compiled loops have no {value.type if value.size == 0 else value.dtype}")
    return values


def converted(node, dtype):
    """Return a node cast to a dtype."""
    if node.dtype == dtype:
        return node
    if node.dtype.kind == "c" and dtype.kind in "iuf":
        return converted(parts_of(node)[0], dtype)
    if isinstance(node.form, Fill):
        return Node(Fill(dtype.type(node.form.number)), node.shape, dtype)
    return copied(fitting(node, dtype), dtype)


def fitting(node, dtype):
    """Return a node whose numbers a dtype can hold: Python's integers do not wrap, NumPy refuses them (see `rerun`)."""
    if not node.weak or node.dtype.kind != "i" or dtype.kind not in "iu" or dtype == WHOLE or isinstance(node.form, Fill):
        return node
    return Node(Map(within(dtype), (node,), (WHOLE,)), node.shape, WHOLE)


def copied(node, dtype, weak=False):
    """Return another node of the same elements."""
    return Node(Map(scalar_of(np.copy), (node,), (node.dtype,)), node.shape, dtype, weak)


# --- views -------------------------------------------------------------------------------------------------------------------------


def shown(shape, fn):
    """Return what a function that gives a view shows of an array, as its strides say, if each axis of the array has one of its own.

    For each of these axes, that is the axis of the view along it, or None, the stride, and the first position; and the view's shape.
    """
    steps = [math.prod(4 * n for n in shape[k + 1 :]) for k in range(len(shape))]
    memory = as_strided(np.empty(1, np.uint8), shape, steps)  # which is never read
    view = fn(memory)
    start, first = (array.__array_interface__["data"][0] for array in (view, memory))
    strides = [stride if n > 1 or abs(stride) in steps else 0 for n, stride in zip(view.shape, view.strides, strict=True)]
    start, places = start - first, list[tuple[int | None, int, int]]()
    for n in reversed(shape):
        digits = [(stride + 2 * n) % (4 * n) - 2 * n for stride in strides]
        strides = [(stride - digit) // (4 * n) for stride, digit in zip(strides, digits, strict=True)]
        start, first = divmod(start, 4 * n)
        axes = [k for k, digit in enumerate(digits) if digit]
        if len(axes) > 1:
            raise NoLoopForm("two axes of its result go along one")
        places.append((axes[0], digits[axes[0]], first) if axes else (None, 0, first))
    return places[::-1], view.shape


def maps_of(places, shape):
    return [first if axis is None else along(axis, shape[axis], stride, first) for axis, stride, first in places]


def view(fn, x, *rest, **options):
    """Return the node of a function that gives a view."""
    places, shape = shown(x.shape, lambda memory: fn(memory, *rest, **options))
    return indexed(x, maps_of(places, shape), shape)
