"""Pulling a value at an index: the expression of numbers that its element at that index is, through all that is not stored.

An index is a position for each axis: a number, an `AffineIndex` of one loop axis, or an expression that computes it. A box, a range for
each loop axis, is where the expression must hold: conditions that are decided in the box vanish.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ..rules.scalars import MULTIPLY_ADD, itself
from .forms import AffineIndex, Buffer, Cumulative, Fill, GatherIndex, Index, Map, Piecewise, Position, Reduce
from .maps import scalar_of


@dataclass(eq=False, slots=True)
class Expression:
    """A number in loops, of a kind: ``number``, ``map``, ``read``, ``where`` or ``index`` (of loops), ``cast``, ``position``, ``local``."""

    kind: str
    what: Any
    args: tuple[Expression, ...]
    dtype: np.dtype
    level: int  # how many loops it stands in
    line: Any = None


def start(box):
    """Return the index of the loops themselves."""
    return tuple(AffineIndex(axis, ((low, high, 1, 0),)) for axis, (low, high) in enumerate(box))


def preimage(piece, low, high):
    """Return the range of a piece's indices whose positions are from low to high."""
    first, last, stride, offset = piece
    if stride > 0:
        return max(first, -((offset - low) // stride)), min(last, -((offset - high) // stride))
    if stride < 0:
        return max(first, (offset - high) // -stride + 1), min(last, (offset - low) // -stride + 1)
    return (first, last) if low <= offset < high else (first, first)


def merged(pieces):
    """Return pieces in order, neighbours of one map as one."""
    result: list[tuple] = []
    for piece in sorted(pieces):
        if result and result[-1][1] == piece[0] and result[-1][2:] == piece[2:]:
            result[-1] = (result[-1][0], *piece[1:])
        else:
            result.append(piece)
    return tuple(result)


@lru_cache(maxsize=65536)
def compose(position, outer):
    """Return where a map (`AffineIndex`) reads, if the axis it goes along is at the position `outer`."""
    if issubclass(type(outer), int):
        return next((stride * outer + offset for low, high, stride, offset in position.pieces if low <= outer < high), 0)
    pieces = []
    for piece in outer.pieces:
        for low, high, stride, offset in position.pieces:
            first, last = preimage(piece, low, high)
            if first < last:
                pieces.append((first, last, stride * piece[2], stride * piece[3] + offset))
    return AffineIndex(outer.axis, merged(pieces))


@lru_cache(maxsize=65536)
def widened(position, span, n):
    """Return a map of one piece on all of a span on which it stays from 0 to n - 1."""
    low, high = preimage((*span, *position.pieces[0][2:]), 0, n)
    return AffineIndex(position.axis, ((low, high, *position.pieces[0][2:]),))


@lru_cache(maxsize=65536)
def guard(position, low, high):
    """Return whether a position is between two bounds: True, False, or the loop axis and the ranges of its index where it is."""
    if issubclass(type(position), int):
        return low <= position < high
    ranges = [preimage(piece, low, high) for piece in position.pieces]
    if all((first, last) == piece[:2] for (first, last), piece in zip(ranges, position.pieces, strict=True)):
        return True
    ranges = [piece[:2] for piece in merged([(first, last, 0, 0) for first, last in ranges if first < last])]
    return (position.axis, tuple(ranges)) if ranges else False


def positions(maps, at, computed):
    """Return the positions that maps of an index say; `computed` gives that of a `GatherIndex`."""
    return tuple(
        compose(entry, at[entry.axis]) if type(entry) is AffineIndex else computed(entry, at) if type(entry) is GatherIndex else entry
        for entry in maps
    )


def broadcast_at(operand, at):
    """Return the index at which an operand of a map is read."""
    lead = len(at) - operand.ndim
    return tuple(0 if n == 1 else at[lead + k] for k, n in enumerate(operand.shape))


class Pull:
    """Expressions at the indices of a loop nest, each made once; `stored` nodes have a buffer, which is read.

    Of an `adjoint` the sign of zeros does not matter. If it `fuses`, a product that is added or subtracted is not rounded; of two, that on
    the right.
    """

    def __init__(self, stored, lasting, box, adjoint=False, fuses=False):
        self.stored, self.adjoint, self.fuses = stored, adjoint, fuses
        self.lasting = lasting  # expressions at constant indices, which hold in all nests
        self.box = tuple(box)  # the range of each loop axis
        self.made: dict = {}
        self.own = tuple(0 if span == (0, 1) else p for span, p in zip(self.box, start(self.box), strict=True))  # as `map` reads it
        self.conditions: list = []
        self.slabs: dict = {}  # of forms, the regions by their positions along an axis

    def __call__(self, node, at):
        """Return the expression of a node at an index."""
        found = self.memo(at).get((node, at))
        if found is None:
            if node not in self.stored:
                self.ahead(node, at)
            found = self.make(node, at)
        return found

    def ahead(self, node, at):
        """Make what a chain of nodes reads, the deepest first: it may be longer than Python's stack."""
        chain = [(node, at, iter(self.reads(node, at)))]
        while chain:
            unmade = next((read for read in chain[-1][-1] if read not in self.memo(read[1])), None)
            if unmade is not None:
                chain.append((*unmade, iter(self.reads(*unmade))))
                continue
            node, at, _ = chain.pop()
            if chain:
                self.make(node, at)

    def make(self, node, at):
        """Enter and return the expression of a node whose reads are made."""
        found = self.memo(at)[node, at] = self.read(node, at) if node in self.stored else self.define(node, at)
        return found

    def memo(self, at):
        """Return where expressions at an index are entered."""
        return self.lasting if all(type(position) is int for position in at) else self.made

    def reads(self, node, at):
        """Return the nodes that the expression of a node is made of, with their indices, as far as they are read in any case."""
        form = node.form
        if node in self.stored:
            return []
        if isinstance(form, Map):
            return [(operand, broadcast_at(operand, at)) for operand in form.operands]
        if isinstance(form, Index) and not any(isinstance(entry, GatherIndex) for entry in form.maps):
            return [(form.source, self.within(form.source, self.at(form.maps, at)))]
        return []

    def keep(self, node, at, expression):
        """Enter the expression that a stored node has in this nest; one that is stored is rounded."""
        self.lasting["rounded", expression] = True
        self.memo(at)[node, at] = expression

    def read(self, node, at):
        if isinstance(node.form, Buffer) and node.form.array is not None and at and all(type(position) is int for position in at):
            return self.number(node.form.array[at], node.dtype)
        args = tuple(position for position in at if isinstance(position, Expression))
        level = max([0, *(position.axis + 1 for position in at if isinstance(position, AffineIndex)), *(arg.level for arg in args)])
        return Expression("read", (node, at), args, node.dtype, level, node.line)

    def define(self, node, at):
        """Return the expression that a node's form says."""
        form = node.form
        if isinstance(form, Map):
            return self.map(node, form, at)
        if isinstance(form, Index):
            return self(form.source, self.within(form.source, self.at(form.maps, at)))
        if isinstance(form, Fill):
            return self.number(form.number, node.dtype)
        if isinstance(form, Position):
            return self.counted(at[form.axis])
        if isinstance(form, Piecewise):
            return self.pieces(form, at)
        if isinstance(form, Reduce):
            return self.unrolled(node, form, at)
        if isinstance(form, Cumulative):
            element = self(form.source, at)
            if at[form.axis] == 0:
                return element
            before = (*at[: form.axis], at[form.axis] - 1, *at[form.axis + 1 :])
            return self.apply(scalar_of(COMBINE[form.name]), (self(node, before), element), node.dtype, node.line)
        if isinstance(form, Buffer) and form.view_of is not None and all(type(position) is int for position in at):
            flat = int(np.ravel_multi_index(at, node.shape)) if node.shape else 0
            return self(form.view_of, tuple(map(int, np.unravel_index(flat, form.view_of.shape))))
        return self.read(node, at)

    def counted(self, position):
        """Return a position as a number."""
        if isinstance(position, AffineIndex):
            return Expression("index", position, (), INTEGER, position.axis + 1)
        return position if isinstance(position, Expression) else self.number(position, INTEGER)

    def number(self, number, dtype):
        return Expression("number", dtype.type(number), (), dtype, 0)

    def map(self, node, form, at):
        args = []
        scalar, result = form.scalar, node.dtype
        double = scalar.wide and result.char in "fF"
        for operand, dtype in zip(form.operands, form.dtypes, strict=True):
            args.append(self.cast(self(operand, broadcast_at(operand, at)), np.promote_types(dtype, DOUBLE) if double else dtype))
        made = self.apply(scalar, args, np.promote_types(result, DOUBLE) if double else result, node.line)
        return self.cast(made, result) if double else made

    def apply(self, scalar, args, dtype, line=None):
        if scalar.function is itself:
            return self.cast(args[0], dtype)
        args = tuple(args)
        same = self.neutral(scalar, args)
        if same is not None:
            return same
        level = max(arg.level for arg in args)
        if self.fuses and dtype.kind == "f" and scalar in (scalar_of(np.add), scalar_of(np.subtract)):
            scalar, args = self.fused(scalar, args)
        return Expression("map", scalar, args, dtype, level, line)

    def fused(self, scalar, args):
        """Return a sum or difference as that of a product, which is not rounded, and a number, if it is one."""
        subtracts = scalar is scalar_of(np.subtract)
        for place in (1, 0):
            one, other = args[place], args[1 - place]
            pair = factors(one)
            if pair is not None and one.level >= other.level and ("rounded", one) not in self.lasting:
                x, y = pair
                if subtracts:
                    x, other = (negative(x), other) if place == 1 else (x, negative(other))
                return MULTIPLY_ADD, (x, y, other)
        return scalar, args

    def neutral(self, scalar, args):
        """Return the argument that a sum with 0 or a product with 1 is, None where it is no such one."""
        number = 1 if scalar is scalar_of(np.multiply) else 0 if scalar is scalar_of(np.add) and self.adjoint else None
        if number is None or args[0].dtype.kind != "f":
            return None
        for one, other in (args, args[::-1]):
            if one.kind == "number" and one.what == number:
                return other
        return None

    def cast(self, expression, dtype):
        if expression.dtype == dtype:
            return expression
        if expression.kind == "number":
            with np.errstate(all="ignore"):
                return self.number(expression.what, dtype)
        return Expression("cast", dtype, (expression,), dtype, expression.level, expression.line)

    def at(self, maps, at):
        return positions(maps, at, self.computed)

    def within(self, node, at):
        """Return an index whose single affine maps hold wherever in the box they stay in a node: what conditions leave out is not read."""
        return tuple(
            widened(p, self.box[p.axis], n) if type(p) is AffineIndex and p.axis < len(self.box) and len(p.pieces) == 1 else p
            for p, n in zip(at, node.shape, strict=True)
        )

    def computed(self, entry: GatherIndex, at):
        position = self.cast(self(entry.array, self.at(entry.at, at)), INTEGER)
        if not entry.length:
            return position
        checked = (self.made if position.level else self.lasting).get((position, entry.length))
        if checked is None:
            checked = Expression("position", entry.length, (position,), INTEGER, position.level, position.line)
            (self.made if position.level else self.lasting)[position, entry.length] = checked
        return checked

    def pieces(self, form, at):
        """Return the choice between regions that the loops' box leaves open."""
        open_regions = []
        for region in self.regions_at(form, at):
            guards = [guard(position, low, high) for position, (low, high) in zip(at, region.box, strict=True)]
            if all(g is True for g in guards):
                return self(region.source, self.within(region.source, self.at(region.maps, at)))
            if not any(g is False for g in guards):
                open_regions.append((region, tuple(g for g in guards if g is not True)))
        result = None
        if not self.covered(open_regions):
            result = self(form.base, at)
        for region, guards in reversed(open_regions):
            inside = self(region.source, self.within(region.source, self.at(region.maps, at)))
            if result is None:
                result = inside
                self.conditions += guards
                continue
            self.conditions += guards
            level = max(inside.level, result.level, *(axis + 1 for axis, _ in guards))
            result = Expression("where", guards, (inside, result), inside.dtype, level, inside.line)
        return result

    def regions_at(self, form, at):
        """Return the regions that an element may be in: the one at a position that is a number, if each has a single one on its axis."""
        for axis, position in enumerate(at):
            if type(position) is int:
                if (form, axis) not in self.slabs:
                    single = all(region.box[axis][1] - region.box[axis][0] == 1 for region in form.regions)
                    slabs: dict[int, list] = {}
                    for region in form.regions if single else ():
                        slabs.setdefault(region.box[axis][0], []).append(region)
                    self.slabs[form, axis] = slabs if single else None
                if self.slabs[form, axis] is not None:
                    return self.slabs[form, axis].get(position, ())
        return form.regions

    def covered(self, regions):
        """Return whether regions that are open along one axis fill the box."""
        axes = {guards[0][0] for _, guards in regions if len(guards) == 1}
        if len(axes) != 1 or any(len(guards) != 1 for _, guards in regions):
            return False
        (axis,) = axes
        filled = merged([(low, high, 0, 0) for _, guards in regions for low, high in guards[0][1]])
        return len(filled) == 1 and filled[0][:2] == self.box[axis]

    def unrolled(self, node, form, at):
        """Return a short reduction, term after term."""
        kept = [axis for axis in range(form.source.ndim) if axis not in form.axes]
        index: list[Any] = [0] * form.source.ndim
        for axis, position in zip(kept, at, strict=True):
            index[axis] = position
        total = self.number(0, node.dtype) if form.name == "sum" and node.dtype.kind in "fc" else None  # the sum of -0.0 is 0.0
        for place in np.ndindex(*(form.source.shape[axis] for axis in form.axes)):
            for axis, k in zip(form.axes, place, strict=True):
                index[axis] = k
            term = self(form.source, tuple(index))
            total = term if total is None else self.apply(scalar_of(COMBINE[form.name]), (total, term), node.dtype, node.line)
        return total


def factors(expression):
    """Return the factors of a real product, or of the negative of one; None of anything else."""
    if expression.kind != "map" or expression.dtype.kind != "f":
        return None
    if expression.what is scalar_of(np.multiply):
        return expression.args
    if expression.what is scalar_of(np.square):
        return expression.args * 2
    pair = factors(expression.args[0]) if expression.what is scalar_of(np.negative) else None
    return pair and (negative(pair[0]), pair[1])


def negative(x):
    if x.kind == "map" and x.what is scalar_of(np.negative):
        return x.args[0]
    if x.kind == "number":
        return Expression("number", -x.what, (), x.dtype, 0)
    return Expression("map", scalar_of(np.negative), (x,), x.dtype, x.level, x.line)


DOUBLE, INTEGER = np.dtype(float), np.dtype(np.int64)
COMBINE = {
    "sum": np.add, "product": np.multiply, "maximum": np.maximum, "minimum": np.minimum, "all": np.logical_and, "any": np.logical_or,
}  # fmt: skip
