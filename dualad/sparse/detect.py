"""Detection: a program is read for which inputs each element of its outputs depends on.

The lowering says of every operation which elements an element of its result is made of (`forms`): that is what is read here, with
sets of inputs in the place of numbers. What is called between the loops stands in `calls`.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ..graph.nested import unrolled
from ..graph.program import Program, Value
from ..loops.forms import (
    AffineIndex,
    Buffer,
    Call,
    Cumulative,
    Fill,
    GatherIndex,
    Index,
    Made,
    Map,
    Piecewise,
    Position,
    Reduce,
    Scatter,
    identity,
)
from ..loops.lower import lower
from ..loops.maps import scalar_of
from ..rules.kinds import ROWS, Constant, strong_multiply
from ..rules.shapes import select
from ..support.costs import PATTERN_PARTS, PROGRAM_OPERATIONS
from .calls import called
from .sets import Sets, TooDense, identity_table, together, union

#: elementwise functions whose derivative is zero everywhere, and those that are a product or a choice
FLAT = {id(row.scalar) for row in ROWS.values() if row.scalar is not None and isinstance(row, Constant)}
PRODUCTS = {id(scalar_of(np.multiply)), id(scalar_of(strong_multiply))}
CHOICE = id(scalar_of(select))
SAME = {id(scalar_of(np.copy))}
SUMS = {id(scalar_of(np.add)), id(scalar_of(np.subtract))}


def dependencies(program: Program, active, columns, numbered) -> list:
    """Return for each output of a program which columns its elements depend on: boolean sparse matrices of one row an element.

    `active` inputs stand for the columns, in order; `numbered` says how many elements each output has, literals too.
    """
    table, start = identity_table(columns), 1
    given: dict[Value, Sets] = {}
    for value in active:
        numbers = np.arange(start, start + value.size, dtype=np.int32).reshape(value.shape)
        given[value] = Sets(value.shape, [(numbers, table)])
        start += value.size
    program = unrolled(program, PROGRAM_OPERATIONS)
    reader = Reader(given, program)
    rows = []
    for k, (out, size) in enumerate(zip(program.outputs, numbered, strict=True)):
        sets = reader.held[reader.nodes[out]] if isinstance(out, Value) else Sets((size,))
        try:
            rows.append(sets.matrix(columns))
        except TooDense as error:
            raise TooDense(f"sparsity: of output {k}, {out.type}, {error}: the derivative is dense") from None
    return rows


class Reader:
    """The sets of the nodes of a program; those that nothing reads any more are forgotten."""

    def __init__(self, given, program):
        self.nodes = lower(program)
        self.held: dict = {}
        self.constants: dict = {}
        self.given = {value: Sets(value.shape) for value in program.inputs} | given
        for value in (*program.inputs, *program.constants):
            self.sets(self.nodes[value])
        last = self.last_uses(program)
        for k, operation in enumerate(program.operations):
            try:
                self.read(operation)
            except TooDense as error:
                where = f" of line {operation.line[1]} of {operation.line[0]}" if operation.line else ""
                raise TooDense(f"sparsity: at the result {operation.outputs[0].type}{where} {error}: the derivative is dense") from None
            self.held = {node: sets for node, sets in self.held.items() if last.get(node, -1) > k}

    def last_uses(self, program):
        """Return for each node of a value which operation reads it last: also through nodes that are of no value."""
        last = dict.fromkeys(self.nodes.values(), -1)
        for k, operation in enumerate(program.operations):
            own = [self.nodes[out] for out in operation.outputs]
            reads, seen = [*own, *(self.nodes[value] for value in operation.reads)], set()
            while reads:
                node = reads.pop()
                if node not in seen:
                    seen.add(node)
                    if node in last:
                        last[node] = k
                    if node not in last or node in own:
                        reads.extend(getattr(node.form, "operands", ()))
                        reads.extend(filter(None, [getattr(node.form, "view_of", None)]))
        never = len(program.operations)
        kept = (*program.inputs, *program.constants, *(out for out in program.outputs if isinstance(out, Value)))
        return last | {self.nodes[value]: never for value in kept}

    def read(self, operation):
        nodes = [self.nodes[out] for out in operation.outputs]
        form = nodes[0].form
        if type(form) is Made or (type(form) is Buffer and form.operands and type(form.operands[0].form) is Call):
            results = called(operation, self.of, self.known_value)
            self.held.update(zip(nodes, results, strict=True))
        else:
            for node in nodes:
                self.sets(node)

    def of(self, value):
        """Return the sets of a value of the program."""
        return self.held[self.nodes[value]]

    def known_value(self, value):
        """Return the array that a value of the program always is, None where it is computed."""
        return self.known(self.nodes[value])

    # --- forms ----------------------------------------------------------------------------------------------------------------

    def sets(self, node):
        """Return the sets of a node."""
        found = self.held.get(node)
        if found is None:
            found = self.held[node] = Sets(node.shape) if node.dtype.kind in "biu" else self.READ[type(node.form)](self, node, node.form)
        return found

    def none(self, node, form):
        return Sets(node.shape)

    def buffer(self, node, form):
        if form.view_of is not None:
            return self.sets(form.view_of).map(lambda rows: np.reshape(rows, node.shape), node.shape)
        if form.array is None and form.value not in self.given:
            raise AssertionError(f"the sets of {form.value!r} are asked after they were forgotten: please report this function")
        return self.given.get(form.value) or Sets(node.shape)

    def map(self, node, form):
        kind = id(form.scalar)
        if kind in FLAT:
            return Sets(node.shape)
        if kind == CHOICE:
            condition, first, second = form.operands
            mask = self.known(condition)
            if mask is not None:
                first, second = (self.sets(operand).broadcast(node.shape) for operand in (first, second))
                return first.where(np.broadcast_to(mask, node.shape), second)
        result = union(node.shape, [self.sets(operand) for operand in form.operands])
        if kind in PRODUCTS and result.parts:
            for operand in form.operands:
                factor = self.known(operand)
                if factor is not None and not np.all(factor):
                    result = result.where(np.broadcast_to(factor, node.shape) != 0)
        return result

    def index(self, node, form):
        source, maps = self.sets(form.source), list(form.maps)
        if not source.parts:
            return Sets(node.shape)
        for axis, m in enumerate(maps):
            if type(m) is GatherIndex and self.known(m.array) is None:  # any position
                source = source.reduced((axis,))
                source = source.map(lambda rows: np.expand_dims(rows, axis), (*source.shape[:axis], 1, *source.shape[axis:]))
                maps[axis] = 0
        return source.map(lambda rows: self.located(rows, maps, node.shape), node.shape)

    def pieces(self, node, form):
        sources = [self.sets(region.source) for region in form.regions]

        def assembled(base, *rows):
            result = np.array(np.broadcast_to(base, node.shape))
            for region, part in zip(form.regions, rows, strict=True):
                result[tuple(slice(low, high) for low, high in region.box)] = self.located(part, region.maps, node.shape, region.box)
            return result

        return together(node.shape, [self.sets(form.base), *sources], assembled)

    def reduce(self, node, form):
        return self.sets(form.source).reduced(form.axes)

    def scan(self, node, form):
        """Each element depends on all before it along the axis."""
        source = self.sets(form.source).united()
        for power in range((node.shape[form.axis] - 1).bit_length()):

            def shifted(rows, step=1 << power):
                out = np.zeros(node.shape, rows.dtype)
                to, start = ([slice(None)] * node.ndim for _ in range(2))
                to[form.axis], start[form.axis] = slice(step, None), slice(None, -step)
                out[tuple(to)] = rows[tuple(start)]
                return out

            source = union(node.shape, [source, source.map(shifted, node.shape)]).united()
        return source

    def scatter(self, node, form):
        base, source = self.sets(form.base), self.sets(form.source)
        axes = [axis for axis, m in enumerate(form.maps) if type(m) is GatherIndex and self.known(m.array) is None]
        if axes:  # anywhere
            return union(node.shape, [base, source.total()])
        shape = form.source.shape
        places = [np.broadcast_to(self.positions(m, shape), shape) for m in form.maps]
        target = np.ravel_multi_index(tuple(places), node.shape).ravel()
        order = np.argsort(target, kind="stable")
        turn = np.zeros(len(target), int)  # how many elements went to the same place before
        starts = np.flatnonzero(np.r_[True, np.diff(target[order]) > 0])
        turn[order] = np.arange(len(target)) - np.repeat(starts, np.diff(np.r_[starts, len(target)]))
        if not form.adds:
            mask = np.ones(node.size, bool)
            mask[target] = False
            base = base.where(mask.reshape(node.shape))
        source, result = source.united(), [base]
        for k in range(turn.max(initial=-1) + 1):
            chosen = turn == k

            def moved(rows, chosen=chosen):
                out = np.zeros(node.size, rows.dtype)
                out[target[chosen]] = np.ravel(rows)[chosen]
                return out.reshape(node.shape)

            result.append(source.map(moved, node.shape))
            if len(result) > PATTERN_PARTS:
                result = [union(node.shape, result).united()]
        return union(node.shape, result)

    READ: ClassVar = {
        Fill: none, Buffer: buffer, Map: map, Index: index, Piecewise: pieces, Reduce: reduce, Cumulative: scan, Scatter: scatter,
        Call: none,
    }  # fmt: skip

    # --- positions ------------------------------------------------------------------------------------------------------------

    def known(self, node):
        """Return the array that a node always is, None where it is computed."""
        if node not in self.constants:
            form, found = node.form, None
            if type(form) is Fill:
                found = np.broadcast_to(form.number, node.shape)
            elif type(form) is Buffer and form.array is not None:
                found = form.array
            elif type(form) is Buffer and form.view_of is not None:
                found = self.known(form.view_of)
                found = None if found is None else np.reshape(found, node.shape)
            elif type(form) is Map and id(form.scalar) in SAME:
                found = self.known(form.operands[0])
            elif type(form) is Position:
                found = np.broadcast_to(self.positions(identity(node.shape)[form.axis], node.shape), node.shape)
            elif type(form) is Map and id(form.scalar) in SUMS and node.dtype.kind == "i":
                known = [self.known(operand) for operand in form.operands]
                found = None if any(part is None for part in known) else np.broadcast_to(form.scalar.function(*known), node.shape)
            elif type(form) is Index and all(type(m) is not GatherIndex or self.known(m.array) is not None for m in form.maps):
                found = self.known(form.source)
                found = None if found is None else self.located(found, form.maps, node.shape)
            self.constants[node] = found
        return self.constants[node]

    def positions(self, m, shape):
        """Return the positions that the map of one axis says, as an array that broadcasts to a shape."""
        if type(m) is AffineIndex:
            places = positions_of(m, shape[m.axis])
            return places.reshape([-1 if axis == m.axis else 1 for axis in range(len(shape))])
        if type(m) is GatherIndex:
            places = self.located(self.known(m.array), m.at, shape)
            return places % m.length if m.length else places
        return np.asarray(m)

    def located(self, array, maps, shape, box=None):
        """Return an array at mapped positions, in a shape (or a box of it): a view where that can be."""
        box = tuple((0, n) for n in shape) if box is None else box
        axes = [m.axis for m in maps if type(m) is AffineIndex]
        if any(type(m) is GatherIndex for m in maps) or len(set(axes)) < len(axes):
            index = np.broadcast_arrays(*(self.positions(m, shape) for m in maps)) if maps else ()
            return np.broadcast_to(array[tuple(index)], shape)[tuple(slice(low, high) for low, high in box)]
        array = array[tuple(basic(m, *box[m.axis]) if type(m) is AffineIndex else m for m in maps)]
        for k, m in enumerate(m for m in maps if type(m) is AffineIndex):
            if basic(m, 0, 1) == slice(None):
                array = np.take(array, positions_of(m, shape[m.axis])[slice(*box[m.axis])], k)
        array = np.transpose(array, np.argsort(axes)) if array.ndim > 1 else array
        array = array.reshape([n if axis in axes else 1 for axis, n in enumerate(high - low for low, high in box)])
        return np.broadcast_to(array, [high - low for low, high in box])


def positions_of(m, count):
    """Return the positions that affine pieces say."""
    places = np.zeros(count, np.intp)
    for low, high, stride, offset in m.pieces:
        places[low:high] = stride * np.arange(low, high) + offset
    return places


def basic(m, low, high):
    """Return the slice that one affine piece reads for indices from `low` to `high`; all of the axis where it is no slice."""
    (_, _, stride, offset), *more = m.pieces
    if more or not stride:
        return slice(None)
    start, stop = stride * low + offset, stride * high + offset
    return slice(start, None if stop < 0 else stop, stride)
