"""Loop nests as lines of Python, which become machine code: the boxes of an index space, and the statements in each.

A nest's conditions on indices cut its index space into boxes. In the large ones all conditions are decided; their loops are emitted
without branches, with rows cut to the exact range and one index for all, which is what LLVM vectorises. All other boxes go through one
loop with the conditions in it, and so do all boxes again where an angle was too large for the kernels of `kernels`.
"""

from __future__ import annotations

import itertools
import math
from operator import attrgetter

import numpy as np

from ..support.costs import (
    CACHE_ELEMENTS,
    FAST_SHARE,
    JAMMED_STEPS,
    LANES,
    LIGHT_COST,
    MOST_LANES,
    SLABS,
    SPLIT_BOXES,
)
from .forms import AffineIndex, Node, Reduce
from .fuse import reachable
from .inline import Expression
from .written import COMBINE, PARTS_OF, PLAIN, affine, chained, condition_text, literal, neutral, piecewise

__all__ = [
    "Body", "below", "boxes_of", "cuts_of", "ends_of_rows", "flattens", "is_angle", "jam", "jams", "lanes_of",
    "loops_of", "slab_axis",
]  # fmt: skip


def cuts_of(pull, targets):
    """Return for each loop axis where conditions on its index change."""
    cuts = [{low, high} for low, high in pull.box]
    for axis, ranges in pull.conditions:
        cuts[axis].update(edge for pair in ranges for edge in pair)
    inner = len(pull.box) - 1
    for expression in below(targets):
        if expression.kind == "read":
            for position in expression.what[1]:
                if isinstance(position, AffineIndex) and position.axis == inner and len(position.pieces) > 1:
                    cuts[inner].update(edge for piece in position.pieces for edge in piece[:2])
    return [sorted(edges) for edges in cuts]


def boxes_of(cuts):
    """Return the boxes with fast loops, and the rest."""
    cells = [list(itertools.pairwise(edges)) for edges in cuts]
    if math.prod(map(len, cells)) > SPLIT_BOXES:
        cells = [merged_around(pairs) for pairs in cells]
    boxes = sorted(itertools.product(*cells), key=volume, reverse=True)
    total = sum(map(volume, boxes))
    fast, covered = [], 0
    for box in boxes:
        if fast and (len(fast) > 8 or volume(box) < 64 or covered > FAST_SHARE * total):
            break
        if volume(box) >= 16:
            fast.append(box)
            covered += volume(box)
    return fast, sorted(boxes[len(fast) :])


def ends_of_rows(fast, rest):
    """Return the ranges that the loop along a row has in `rest`, by the bounds of the outer loops, if these are those of a box in `fast`.

    In the rows of that box they are met while its rows are in the cache. Return the other boxes, too: all, if the loops with conditions
    are needed for some of them anyway and the nest is small.
    """
    outer = {box[:-1] for box in fast if len(box) > 1}
    ends: dict = {}
    for box in rest:
        if box[:-1] in outer:
            ends.setdefault(box[:-1], []).append(box[-1])
    others = [box for box in rest if box[:-1] not in ends]
    if (others or len(ends) > 1) and sum(map(volume, (*fast, *rest))) < CACHE_ELEMENTS:
        return {}, rest
    return ends, others


def slab_axis(nest, cuts):
    """Return the axis along which each position is a case of its own, if these are few and what is at one of them is small, or None."""
    if any(isinstance(root.form, Reduce) for root in nest.roots):
        return None
    for axis, (count, edges) in enumerate(zip(nest.shape, cuts, strict=True)):
        size = int(np.prod(nest.shape)) // count
        few = 2 <= count <= SLABS and axis == len(nest.shape) - 1 > 0
        if count == len(edges) - 1 <= SLABS and size > 1 and (few or (count >= 4 and size <= CACHE_ELEMENTS)):
            return axis
    return None


def flattens(nest, pull, targets):
    """Return whether a nest reads and writes whole arrays alike, so that it is one loop over their elements."""
    if pull.conditions or any(isinstance(root.form, Reduce) and root.shape for root in nest.roots):
        return False
    for expression in below(targets):
        if expression.kind == "read" and expression.level:
            node, at = expression.what
            if at != pull.own or node.shape != nest.shape:
                return False
    return True


def jams(nest, pull, targets):
    """Return whether the last but one of a nest's loops takes several steps at once (see `jammed`).

    That saves most of the time where little is computed for an element of a reduction: the products of matrices, sums over first axes.
    """
    if len(nest.shape) < 2 + bool(nest.rows) or nest.shape[-1] < LANES or nest.shape[-2] < JAMMED_STEPS or pull.conditions:
        return False
    last, inner = len(nest.shape) - 2, len(nest.shape) - 1
    sums = [{last, inner} & {*root.form.axes} for root in nest.roots if isinstance(root.form, Reduce)]
    if {last, inner} in sums or not ({last} in sums or {inner} in sums):
        return False
    return cost(targets) <= LIGHT_COST


def lanes_of(nest, pull, targets, count):
    """Return how many partial sums a reduction has along an innermost loop of so many elements: a power of two."""
    if count < LANES:
        return 1
    if jams(nest, pull, targets):
        return LANES // (JAMMED_STEPS // 2) if len(nest.shape) > 2 else LANES
    if scattered(pull, targets):
        return LANES
    most = MOST_LANES if count == math.prod(nest.shape) else MOST_LANES // 2
    most //= max(1, sum(isinstance(root.form, Reduce) for root in nest.roots)) if cost(targets) <= LIGHT_COST else 2
    return max(LANES, 1 << (min(most, count // 4).bit_length() - 1))


def scattered(pull, targets):
    """Return whether an innermost loop reads numbers that do not stand side by side: more than `LANES` would be gathered one by one."""
    inner = len(pull.box) - 1
    reads = (position for expression in below(targets) if expression.kind == "read" for position in expression.what[1])
    strided = any(isinstance(at, AffineIndex) and at.axis == inner and at.pieces[0][2] not in (1, -1) for at in reads)
    return strided or any(expression.dtype.kind == "c" for expression in below(targets))


def cost(targets):
    return sum(expression.what.cost if expression.kind == "map" else 1 for expression in below(targets) if expression.args)


def jam(axis, count, together):
    """Return the loops over an axis that take steps together, and the steps that are left: their ranges, and the positions in each."""
    turns = count // together
    rest = [((), [(step,) for step in range(turns * together, count)])] if count % together else []
    return [*([(((0, turns),), [(AffineIndex(axis, ((0, turns, together, step),)),) for step in range(together)])] if turns else []), *rest]


def volume(box):
    return math.prod(high - low for low, high in box)


def merged_around(pairs):
    """Return the largest range, and what is before and after it."""
    low, high = max(pairs, key=lambda pair: pair[1] - pair[0])
    return [pair for pair in ((pairs[0][0], low), (low, high), (high, pairs[-1][1])) if pair[0] < pair[1]]


def repeats(expression):
    """Return what is left of an expression's template after its first argument: another ``{0}`` there repeats the argument."""
    return expression.what.template.partition("{0}")[2] if expression.kind == "map" else ""


def is_angle(expression):
    """Return whether an expression is a function of an angle, which may be too large for `kernels`."""
    return expression.kind == "map" and expression.what.of_angle


def below(targets):
    """Return all expressions that targets need, operands first."""
    return reachable(targets, attrgetter("args"))


class Body:
    """The statements of one box of a nest, by the number of loops they stand in.

    Parameters
    ----------
    function : the function being emitted: it names buffers and makes new names.
    depth : the number of loops.
    space : the range of each loop's index, which may be any of it.
    box : that range, for fast loops; None where the loops run over any box in it.
    hoisted : statements stand in as few loops as they may.
    """

    def __init__(self, function, space, fast=False, hoisted=True, flat=None):
        self.function, self.space, self.depth, self.hoisted, self.flat = function, tuple(space), len(space), hoisted, flat
        self.box = self.space if fast else None
        depth = self.depth
        self.before = [[] for _ in range(depth + 1)]  # of each level: before the next loop
        self.after = [[] for _ in range(depth + 1)]
        self.names: dict[Expression, str] = {}
        self.rows: dict = {}
        self.positions: dict = {}
        self.checks: list[str] = []
        self.index = [f"i{axis}" for axis in range(depth)]
        if fast:
            self.index[-1] = "j"
        self.last_line = None

    def level_of(self, expression):
        return expression.level if self.hoisted or not expression.level else self.depth

    def evaluate(self, targets):
        """Emit what the targets need; their names (or short texts) are in `names` then."""
        order = [expression for expression in below(targets) if expression not in self.names and expression not in self.function.names]
        readers: dict[Expression, list] = {}
        for expression in order:
            for arg in expression.args:
                readers.setdefault(arg, []).append(expression)
        targeted, inlined = set(targets), []
        for expression in order:
            text, closed = self.text(expression)
            level = self.level_of(expression)
            mine = readers.get(expression, [])
            once = (
                len(mine) == 1 and expression not in targeted and self.level_of(mine[0]) == level and mine[0].kind not in ("read", "where")
            )
            repeatable = expression.kind == "number" or (expression.kind == "read" and (text.endswith("[j]") or text.isidentifier()))
            if repeatable or (once and len(text) < 80 and not is_angle(mine[0]) and "{0}" not in repeats(mine[0])):
                self.enter(expression, text if closed else f"({text})")
                if not repeatable:
                    inlined.append(expression)
            else:
                name = self.function.new("t")
                self.say(level, f"{name} = {text}", expression.line)
                self.enter(expression, name)

        for expression in inlined:  # whoever reads it in another place evaluates it there
            (self.names if expression.level else self.function.names).pop(expression)

    def enter(self, expression, name):
        (self.names if expression.level else self.function.names)[expression] = name

    def name(self, expression):
        return self.names.get(expression) or self.function.names[expression]

    def say(self, level, text, line=None):
        if line is not None and line != self.last_line:
            self.last_line = line
            text = f"{text}  # {self.function.where(line)}"
        (self.function.lines if level == 0 else self.before[level]).append(text)

    def text(self, expression):
        """Return an expression's source, and whether it may stand in another without parentheses."""
        kind, what = expression.kind, expression.what
        args = [self.name(arg) for arg in expression.args]
        if kind == "number":
            return literal(what), True
        if kind == "read":
            return self.read(*what, self.level_of(expression))
        if kind == "where":
            conditions = " & ".join(f"({condition_text(ranges, self.absolute(axis))})" for axis, ranges in what)
            return f"choose({conditions}, {args[0]}, {args[1]})", True
        if kind == "position":
            return f"at_least_inside({args[0]}, {what})", True
        if kind == "cast":
            if what.kind == "b":
                return f"{args[0]} != 0", False
            return f"np.{what.name}({args[0]})", True
        template = what.template if expression.args[0].dtype.kind != "b" or what.booleans is None else what.booleans
        if is_angle(expression):
            if self.box is None or self.level_of(expression) < self.depth:
                template = f"any_{template}"
            else:
                if args[0] not in self.checks:
                    self.checks.append(args[0])
                    self.say(self.depth, f"large |= abs({args[0]}) > LARGEST_ANGLE")
        text = template.format(*args)
        if expression.dtype.name not in PLAIN:
            return f"np.{expression.dtype.name}({text})", True
        return text, template.endswith(")") and " " not in template.partition("(")[0] and not template.startswith(("(", "-"))

    def absolute(self, axis):
        """Return the index of a loop as source."""
        return affine(self.index[axis], 1, self.box[-1][0] if self.box is not None and axis == self.depth - 1 else 0)

    # --- reads ------------------------------------------------------------------------------------------------------------------

    def read(self, node, at, level):
        if not at:
            return self.function.scalar(node), True
        buffer = self.function.buffer(node)
        if self.flat and at == self.flat:
            return f"{self.row(f'{buffer}.reshape({node.size})', 0)}[j]", True
        return self.element(buffer, at, level), True

    def element(self, buffer, at, level):
        """Return an element of a buffer as source: of a row cut to the loop's range where that goes."""
        if not at:
            return f"{buffer}[()]"
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
            outer = "".join(f"{self.position(position)}, " for position in at[:-1])
            low, high = (edge + inner.pieces[0][3] for edge in self.box[-1])
            deepest = max([0, *(position.axis + 1 for position in at[:-1] if isinstance(position, AffineIndex))])
            deepest = max([deepest, *(position.level for position in at[:-1] if isinstance(position, Expression))])
            return f"{self.row(f'{buffer}[{outer}{low}:{high}]', deepest)}[j]"
        return f"{buffer}[{', '.join(self.position(position) for position in at)}]"

    def depends(self, position, axis):
        if isinstance(position, AffineIndex):
            return position.axis == axis
        return isinstance(position, Expression) and position.level > axis

    def row(self, text, level):
        """Return the name of a row, cut before the innermost loop."""
        if text not in self.rows:
            self.rows[text] = self.function.new("r")
            self.say(level, f"{self.rows[text]} = {text}")
        return self.rows[text]

    def position(self, position):
        if issubclass(type(position), int):
            return str(position)
        if isinstance(position, Expression):
            return self.name(position)
        index = self.absolute(position.axis)
        if len(position.pieces) == 1 and position.pieces[0][:2] == tuple(self.space[position.axis]):
            _, _, stride, offset = position.pieces[0]
            if index != self.index[position.axis]:
                return affine("j", stride, offset + stride * self.box[-1][0])
            return affine(index, stride, offset)
        if position not in self.positions:
            name = self.positions[position] = self.function.new("p")
            self.say(
                position.axis + 1 if self.hoisted else self.depth,
                f"{name} = {piecewise(position.pieces, index, self.space[position.axis])}",
            )
        return self.positions[position]

    # --- results ----------------------------------------------------------------------------------------------------------------

    def store(self, root: Node, expression, own):
        """Store a root's element."""
        if root in self.function.plan.passing:
            return
        target = f"{self.row(f'{self.function.buffer(root)}.reshape({root.size})', 0)}[j]" if self.flat else self.element(
            self.function.buffer(root), own, self.depth
        )  # fmt: skip
        value = self.name(expression) if root not in self.function.plan.adding else None
        if value is None:
            value = chained("sum", target, [[self.name(part) for part in self.function.added(root, expression)]])
        self.before[self.depth].append(f"{target} = {value}")

    def accumulate(self, root: Node, elements, alone):
        """Add elements to a reduction, each at its place."""
        form, combine = root.form, COMBINE[root.form.name]
        terms: dict = {}
        for expression, at in elements:
            kept = tuple(position for axis, position in enumerate(at) if axis not in form.axes)
            terms.setdefault(kept, []).append([self.name(part) for part in self.function.added(root, expression)])
        for kept, parts in terms.items():
            level = max((position.axis + 1 for position in kept if isinstance(position, AffineIndex)), default=0)
            if level == self.depth and kept:
                target = self.element(self.function.buffer(root), kept, self.depth)
                self.before[self.depth].append(f"{target} = {chained(form.name, target, parts)}")
                continue
            total, lanes = self.function.partial(root) if kept else self.function.total(root)
            place = total if lanes == 1 else f"{total}[{self.lane(lanes)}]"
            if kept:
                self.before[level].append(f"{total}{'[...]' if lanes > 1 else ''} = {neutral(form.name, root.dtype)}")
            self.before[self.depth].append(f"{place} = {chained(form.name, place, parts)}")
            if kept:
                target = f"{self.function.buffer(root)}[{', '.join(map(self.position, kept))}]"
                result = total if lanes == 1 else f"{PARTS_OF[form.name]}({total})"
                self.after[level].append(f"{target} = {result if alone else combine.format(target, result)}")

    def lane(self, lanes):
        """Return as source which of the partial ones an element belongs to."""
        if self.box is None:
            return lanes
        low, high = self.box[-1]
        left = 0 if self.function.rows and self.depth == 1 else (high - low) % lanes  # of the part of a block it is not known
        return f"j & {lanes - 1} if j < {high - low - left} else {lanes}" if left else f"j & {lanes - 1}"

    # --- lines ------------------------------------------------------------------------------------------------------------------

    def lines(self, ranges):
        """Return the loops as lines; `ranges` are the loops' bounds as source."""
        return loops_of(ranges[:-1], [(self, (ranges[-1] if ranges else None, None))])


def loops_of(outer, bodies):
    """Return loops as lines: the outer ones, with these bounds, and in them for each body the innermost loop.

    Of that a body comes with the bounds, and with the name of a table or None: there is an innermost loop for each row ``b`` of it.
    """
    depth = bodies[0][0].depth
    lines = []
    for level in range(depth):
        if level:
            lines.append("    " * (level - 1) + header(bodies[0][0].index[level - 1], outer[level - 1]))
        lines += ["    " * level + text for body, _ in bodies for text in body.before[level]]
    for body, (bounds, table) in bodies:
        indent = "    " * (depth - 1)
        if table is not None:
            lines.append(f"{indent}for b in {table}[:]:")
            indent += "    "
        if depth:
            lines.append(indent + header(body.index[-1], bounds))
            indent += "    "
        lines += [indent + text for text in (*body.before[depth], *body.after[depth])]
    for level in reversed(range(depth)):
        lines += ["    " * level + text for body, _ in bodies for text in body.after[level]]
    return lines


def header(index, bounds):
    low, high = bounds
    return f"for {index} in range({high if low == '0' else f'{low}, {high}'}):"
