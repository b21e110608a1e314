"""The statements of one box of a loop nest, and the loops around them."""

from __future__ import annotations

from ..ir.nodes import ArrayType, Assign, Call, Cast, Fill, For, ForRows, Lane, Load, Reshape, Row, Statement, Store, Var, number
from ..ir.values import arithmetic_dtype, op, wrapped
from ..ir.walk import walked
from ..loops.forms import AffineIndex, Node
from ..loops.inline import Expression
from ..loops.nests import below, is_angle
from .build import PARTS_OF, affine, chained, combined, condition, joined, literal, neutral, piecewise

LARGE = Var("large", "bool")
#: operands and operators of an expression that is written in one line
LONG_LINE = 25


class Body:
    """The statements of one box of a nest, by the number of loops they stand in; if `hoisted`, in as few as they may.

    The `function` being emitted names buffers and makes new names. Fast loops run over the whole range of each index, `space`, others over
    any box in it.
    """

    def __init__(self, function, space, fast=False, hoisted=True, flat=None):
        self.function, self.space, self.depth, self.hoisted, self.flat = function, tuple(space), len(space), hoisted, flat
        self.box = self.space if fast else None
        depth = self.depth
        self.before = [list[Statement]() for _ in range(depth + 1)]  # of each level: before the next loop
        self.after = [list[Statement]() for _ in range(depth + 1)]
        self.names: dict[Expression, object] = {}
        self.rows: dict = {}
        self.positions: dict = {}
        self.checks: list = []
        self.lanes = 0  # partial sums that its innermost loop chooses by the index
        self.index = [Var("j" if fast and axis == depth - 1 else f"i{axis}", "int64") for axis in range(depth)]
        self.last_line = None

    def level_of(self, expression):
        return expression.level if self.hoisted or not expression.level else self.depth

    def follow(self, other, low, high):
        """Let the innermost loop of another body, with these bounds, come after that of this one; the loops around it are the same."""
        *_, row, inner = range(self.depth + 1)
        for level in range(row):
            self.before[level] += other.before[level]
            self.after[level] += other.after[level]
        loop = For(other.index[row], low, high, (*other.before[inner], *other.after[inner]), lanes=other.lanes)
        self.after[row] += [*other.before[row], loop, *other.after[row]]
        self.checks += other.checks

    def evaluate(self, targets):
        """Emit what the targets need; their variables (or short expressions) are in `names` then."""
        order = [expression for expression in below(targets) if expression not in self.names and expression not in self.function.names]
        readers: dict[Expression, list] = {}
        for expression in order:
            for arg in expression.args:
                readers.setdefault(arg, []).append(expression)
        targeted, inlined = set(targets), []
        for expression in order:
            node = self.node(expression)
            level = self.level_of(expression)
            mine = readers.get(expression, [])
            once = (
                len(mine) == 1 and expression not in targeted and self.level_of(mine[0]) == level and mine[0].kind not in ("read", "where")
            )
            if expression.kind == "number" or (expression.kind == "read" and self.at_hand(node)):
                self.enter(expression, node)
            elif once and not is_angle(mine[0]) and not repeats(mine[0]) and sum(1 for _ in walked(node)) < LONG_LINE:
                self.enter(expression, node)
                inlined.append(expression)
            else:
                self.enter(expression, self.let(level, "t", node, expression.line))

        for expression in inlined:  # whoever reads it in another place evaluates it there
            (self.names if expression.level else self.function.names).pop(expression)

    def enter(self, expression, node):
        (self.names if expression.level else self.function.names)[expression] = node

    def name(self, expression):
        return self.names.get(expression) or self.function.names[expression]

    def say(self, level, statement):
        (self.function.statements if level == 0 else self.before[level]).append(statement)

    def let(self, level, letter, node, line=None):
        """Return a new variable that is set to a number or an array."""
        kind = node.type if isinstance(node, Row | Reshape) else arithmetic_dtype(node.dtype)
        variable = Var(self.function.new(letter), kind)
        new = line is not None and line != self.last_line
        self.last_line = line if new else self.last_line
        self.say(level, Assign((variable,), (node,), line if new else None))
        return variable

    def at_hand(self, node):
        """Return whether what is read is a variable, or the element of a row that the innermost loop is at."""
        return isinstance(node, Var) or (self.box is not None and isinstance(node, Load) and node.index == (self.index[-1],))

    def node(self, expression):
        """Return an expression as one of the loop IR."""
        kind, what = expression.kind, expression.what
        args = [self.name(arg) for arg in expression.args]
        if kind == "number":
            return literal(what)
        if kind == "read":
            return self.read(*what)
        if kind == "where":
            return op("select", joined("and", [condition(ranges, self.index[axis], self.first(axis)) for axis, ranges in what]), *args)
        if kind == "index":
            return self.position(what)
        if kind == "position":
            return Call("at_least_inside", (*args, number(what)), "int64")
        if kind == "cast":
            return op("not_equal", args[0], number(0)) if what.kind == "b" else Cast(args[0], what.name)
        if is_angle(expression):
            if self.box is None or self.level_of(expression) < self.depth:
                return self.rounded(Call(f"any_{what.name}", tuple(args), "float64"), expression.dtype)
            if args[0] not in self.checks:
                self.checks.append(args[0])
                self.say(self.depth, Assign((LARGE,), (op("or", LARGE, Call("large_angle", (args[0],), "bool")),)))
        function = what.function if what.booleans is None or expression.args[0].dtype.kind != "b" else what.booleans
        return self.rounded(wrapped(function, *args), expression.dtype)

    def rounded(self, node, dtype):
        """Return a number as one of its dtype: what is computed in single precision is rounded, and small integers wrap."""
        return node if dtype.name in ("float64", "int64", "bool", "complex128") else Cast(node, dtype.name)

    def first(self, axis):
        """Return which index a loop begins with where it counts from 0."""
        return self.box[-1][0] if self.box is not None and axis == self.depth - 1 else 0

    # --- reads ------------------------------------------------------------------------------------------------------------------

    def read(self, node, at):
        if not at:
            return self.function.scalar(node)
        if self.flat and at == self.flat:
            return self.in_one_row(node)
        return self.element(self.function.buffer(node), at)

    def in_one_row(self, node):
        """Return an element of a buffer whose elements are all in one row."""
        buffer = self.function.buffer(node)
        return Load(self.row((buffer,), Reshape(buffer, ArrayType(buffer.dtype, (node.size,))), 0), (self.index[-1],))

    def element(self, buffer, at):
        """Return an element of a buffer: of a row cut to the loop's range where that goes."""
        if not at:
            return Load(buffer, ())
        inner = at[-1]
        axis = self.depth - 1
        rest = [position for position in at[:-1] if self.depends(position, axis)]
        if (
            self.box is not None
            and isinstance(inner, AffineIndex)
            and inner.axis == axis
            and not rest
            and len(inner.pieces) == 1
            and inner.pieces[0][2] == 1
            and inner.pieces[0][0] <= self.box[-1][0]
            and self.box[-1][1] <= inner.pieces[0][1]  # else it is read where a condition holds
        ):
            outer = tuple(self.position(position) for position in at[:-1])
            low, high = (edge + inner.pieces[0][3] for edge in self.box[-1])
            deepest = max([0, *(position.axis + 1 for position in at[:-1] if isinstance(position, AffineIndex))])
            deepest = max([deepest, *(position.level for position in at[:-1] if isinstance(position, Expression))])
            row = Row(buffer, outer, low, high, ArrayType(buffer.dtype, (high - low,)))
            return Load(self.row((buffer, outer, low, high), row, deepest), (self.index[-1],))
        return Load(buffer, tuple(self.position(position) for position in at))

    def depends(self, position, axis):
        if isinstance(position, AffineIndex):
            return position.axis == axis
        return isinstance(position, Expression) and position.level > axis

    def row(self, key, node, level):
        """Return the variable of a row, cut before the innermost loop."""
        if key not in self.rows:
            self.rows[key] = self.let(level, "r", node)
        return self.rows[key]

    def position(self, position):
        """Return a position in an array; the same one for the same position."""
        if isinstance(position, Expression):
            return self.name(position)
        if issubclass(type(position), int):
            return self.once(int(position), lambda: number(int(position)))
        axis, first = position.axis, self.first(position.axis)
        low, high = self.space[axis]
        pieces = [(a - first, b - first, stride, offset + stride * first) for a, b, stride, offset in position.pieces]
        if len(pieces) == 1 and pieces[0][:2] == (low - first, high - first):
            return self.once((axis, *pieces[0]), lambda: affine(self.index[axis], *pieces[0][2:]))
        level = axis + 1 if self.hoisted else self.depth
        return self.once(position, lambda: self.let(level, "p", piecewise(pieces, self.index[axis], (low - first, high - first))))

    def once(self, key, make):
        if key not in self.positions:
            self.positions[key] = make()
        return self.positions[key]

    # --- results ----------------------------------------------------------------------------------------------------------------

    def store(self, root: Node, expression, own):
        """Store a root's element."""
        if root in self.function.plan.local:
            return
        place = self.in_one_row(root) if self.flat else self.element(self.function.buffer(root), own)
        value = self.name(expression) if root not in self.function.plan.adding else None
        if value is None:
            value = chained("sum", place, [[self.name(part) for part in self.function.added(root, expression)]])
        self.before[self.depth].append(Store(place.array, place.index, value))

    def accumulate(self, root: Node, elements, alone):
        """Add elements to a reduction, each at its place."""
        form = root.form
        terms: dict = {}
        for expression, at in elements:
            kept = tuple(position for axis, position in enumerate(at) if axis not in form.axes)
            terms.setdefault(kept, []).append([self.name(part) for part in self.function.added(root, expression)])
        for kept, parts in terms.items():
            level = max((position.axis + 1 for position in kept if isinstance(position, AffineIndex)), default=0)
            if level == self.depth and kept:
                place = self.element(self.function.buffer(root), kept)
                first = neutral(form.name, root.dtype) if alone else place  # of slabs along the axes that are reduced
                self.before[self.depth].append(Store(place.array, place.index, chained(form.name, first, parts)))
                continue
            total, lanes = self.function.partial(root) if kept else self.function.total(root)
            if kept:
                self.before[level].append(started(total, neutral(form.name, root.dtype)))
            if lanes > 1:
                place = Load(total, (self.lane(lanes),))
                self.before[self.depth].append(Store(total, place.index, chained(form.name, place, parts)))
            else:
                self.before[self.depth].append(Assign((total,), (chained(form.name, total, parts),)))
            if kept:
                place = Load(self.function.buffer(root), tuple(map(self.position, kept)))
                result = total if lanes == 1 else Call(PARTS_OF[form.name], (total,), total.dtype)
                self.after[level].append(Store(place.array, place.index, result if alone else combined(form.name, place, result)))

    def lane(self, lanes):
        """Return which of the partial ones an element belongs to."""
        if self.box is None:
            return number(lanes)
        self.lanes = lanes
        low, high = self.box[-1]
        left = 0 if self.function.blocks and self.depth == 1 else (high - low) % lanes  # of the part of a block it is not known
        return Lane(self.index[-1], lanes, high - low - left if left else None)


def repeats(expression):
    """Return whether the first argument of an expression stands in it more than once."""
    return expression.kind == "map" and expression.what.repeats


def started(total, value):
    """Return the statement that sets an accumulator, or all its partial ones."""
    return Fill(total, value) if isinstance(total.type, ArrayType) else Assign((total,), (value,))


def around(body, ranges):
    """Return the loops around a body; `ranges` are their bounds."""
    statements = [*body.before[body.depth], *body.after[body.depth]]
    for level in reversed(range(body.depth)):
        low, high = ranges[level]
        lanes = body.lanes if level == body.depth - 1 else 0
        loop = For(body.index[level], low, high, tuple(statements), lanes=lanes)
        statements = [*body.before[level], loop, *body.after[level]]
    return statements


def each_row(table, low, high, statements):
    """Return the loop over rows ``b`` of a table."""
    return ForRows(table_row(table), table, low, high, tuple(statements))


def table_row(table):
    return Var("b", ArrayType("int64", table.type.shape[1:]))
