"""Emission: a program as Python source with explicit loops, which become machine code.

Each part of the plan becomes a function of numbers and arrays, ``part0(x0, x1, c0, w0, y0)``: inputs, constants, work and results,
which it writes into. It allocates nothing. The source depends on the program alone.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from ..loops.forms import Buffer, Node, NoLoopForm, Reduce, Scatter
from ..loops.fuse import Nest, Part, Plan, additions, memory_of
from ..loops.inline import Expression, Pull, factors
from ..loops.nests import Body, below, boxes_of, cuts_of, ends_of_rows, flattens, is_angle, jam, jams, lanes_of, loops_of, slab_axis
from ..loops.written import PARTIAL, PARTS_OF, bounds, in_block, least, literal, neutral, shape_text
from ..support.costs import JAMMED_STEPS

__all__ = ["Function", "Source", "emit"]

HEADER = '''"""Emitted by dualad: do not edit."""

import math

import numpy as np

from dualad.codegen.arithmetic import choose
from dualad.codegen.kernels import (
    LARGEST_ANGLE, any_cos, any_sin, any_tan, arctan, cbrt, cos, cosh, exp, expm1, log, log1p, sech_squared, sin,
    sinh, tan, tanh,
)
from dualad.codegen.scalars import (
    at_least_inside, clip, complex_magnitude, complex_quotient, complex_reciprocal, complex_turn, exact_absolute, exact_difference,
    exact_power, exact_product, exact_quotient, exact_remainder, exact_sum, exp_of_expm1, floor_divide, fmax, fmax_share, fmin,
    heaviside, is_finite, is_infinite, larger_share, maximum, minimum, multiply_add, product_of, ratio, regular, remainder,
    root_above_one, sign, softmax_share, strong_multiply, sum_of, turn,
)
'''


@dataclass
class Source:
    """The emitted module.

    Attributes
    ----------
    text : its source.
    parts : for each part and loop among the plan's steps, the nodes whose buffers its function takes.
    names : the name of each buffer.
    constants : the nodes of constant arrays, ``c0``, ``c1``, ...
    nests : how many loop nests there are.
    blocks : for each part that runs in blocks, how many there are; its function takes the number of one.
    driven : for each loop that Python runs, the unit (see `units`) of its turns.
    additions : about how many additions it all takes.
    """

    text: str = ""
    parts: dict[int, list[Node]] = field(default_factory=dict)
    names: dict[Node, str] = field(default_factory=dict)
    constants: list[Node] = field(default_factory=list)
    nests: int = 0
    blocks: dict[int, int] = field(default_factory=dict)
    driven: dict[int, Any] = field(default_factory=dict)
    additions: float = 0.0


class Names:
    """The names of all buffers of a plan."""

    def __init__(self, plan: Plan):
        self.names: dict[Node, str] = {}
        self.results = {node: k for k, node in reversed(list(enumerate(plan.outputs)))}
        self.constants: list[Node] = []
        self.given = {plan.nodes[value]: k for k, value in enumerate(plan.program.inputs)}
        self.work = 0

    def name(self, node):
        """Return the name of a node that is stored or given."""
        if node not in self.names:
            if node in self.given:
                name = f"x{self.given[node]}"
            elif isinstance(node.form, Buffer) and node.form.array is not None:
                self.constants.append(node)
                name = f"c{len(self.constants) - 1}"
            elif node in self.results:
                name = f"y{self.results[node]}"
            else:
                name = f"w{self.work}"
                self.work += 1
            self.names[node] = name
        return self.names[node]


class Function:
    """One emitted function: the nests of a part."""

    def __init__(self, plan: Plan, names: Names, title: str):
        self.plan, self.buffers, self.title = plan, names, title
        self.names: dict = {}  # of expressions outside of all loops
        self.lasting: dict = {}
        self.lines: list = []
        self.used: dict[Node, None] = {}
        self.views: dict[Node, str] = {}
        self.totals: dict[Node, str] = {}
        self.products: dict[Expression, Any] = {}  # the factors of what is added
        self.lanes = 1  # partial sums of each reduction along the innermost loops of a nest
        self.before: list[str] = []  # other functions that it calls
        self.tables: list[str] = []
        self.count = 0
        self.loops_emitted = 0
        self.additions = 0.0  # of the turns of a loop
        self.parameters: list[Node] = []
        self.rows = 0  # of a nest in blocks
        self.block: list[str] = []  # the rows of the block that it is called for
        self.driven: Any = None  # the unit of a loop that Python runs

    # --- names ------------------------------------------------------------------------------------------------------------------

    def new(self, letter):
        self.count += 1
        return f"{letter}{self.count}"

    def where(self, line):
        return f"{os.path.basename(line[0])}:{line[1]}"

    def buffer(self, node):
        """Return the name of a node's buffer in this function."""
        form = node.form
        if isinstance(form, Buffer) and form.view_of is not None:
            if node not in self.views:
                source = form.view_of
                while isinstance(source.form, Buffer) and source.form.view_of is not None:
                    source = source.form.view_of
                name = self.views[node] = self.new("v")
                text = self.buffer(source)
                self.lines.append(f"{name} = {text}.reshape({shape_text(node.shape)})" if node.shape else f"{name} = {text}")
            return self.views[node]
        self.used[node] = None
        return self.buffers.name(node)

    def scalar(self, node):
        """Return a stored number as source."""
        form = node.form
        if isinstance(form, Buffer) and form.view_of is not None:
            return f"{self.buffer(node)}[{', '.join('0' for _ in form.view_of.shape) or '()'}]"
        if node in self.totals:
            return self.totals[node]
        name = self.buffer(node)
        return name if isinstance(form, Buffer) else f"{name}[()]"

    def total(self, root):
        """Return the variable in which a reduction over everything is accumulated, and how many partial ones it holds."""
        if root not in self.totals:
            self.totals[root] = self.partial(root)[0]
        return self.totals[root], self.lanes_of(root)

    def partial(self, root):
        """Return a new variable to accumulate a reduction in, and how many partial ones it holds."""
        name, lanes = self.new("s"), self.lanes_of(root)
        if lanes > 1:
            self.lines.append(f"{name} = np.empty({lanes + 1}, np.{root.dtype.name})")
        return name, lanes

    def lanes_of(self, root):
        return self.lanes if root.dtype.kind in PARTIAL.get(root.form.name, "") else 1

    # --- nests ------------------------------------------------------------------------------------------------------------------

    def emit(self, nest: Nest):
        getattr(self, nest.kind)(nest)

    def pull(self, box):
        return Pull(self.plan.stored, self.lasting, box, self.plan.program.adjoint, self.plan.fuses)

    def straight(self, nest):
        """Emit small roots element by element."""
        pull = self.pull(())
        body = Body(self, ())
        elements = {}
        for root in nest.roots:
            for at in np.ndindex(*root.shape):
                elements[root, at] = pull.define(root, at)
                pull.keep(root, at, elements[root, at])
        body.evaluate(list(elements.values()))
        for (root, at), expression in elements.items():
            place = ", ".join(map(str, at)) or "()"
            self.lines.append((root, f"[{place}] = {body.name(expression)}"))

    def loops(self, nest):
        """Emit roots over one index space: fast loops where it is large, and loops with conditions for the rest."""
        self.loops_emitted += 1
        self.rows = nest.rows
        whole = [(0, n) for n in nest.shape]
        trial = self.pull(whole)
        targets = self.targets(nest, trial, trial.own)
        cuts = cuts_of(trial, targets)
        axis = None if nest.rows else slab_axis(nest, cuts)
        if axis is not None and self.slabs(nest, axis):
            return
        fast, rest = boxes_of(cuts)
        alone = len(fast) + len(rest) == 1
        flat = len(fast) == 1 and not rest and len(whole) > 1 and flattens(nest, trial, targets)
        count = int(np.prod(nest.shape)) if flat else [1, *nest.shape][-1]
        self.lanes = lanes_of(nest, trial, targets, count)
        if flat:
            body = Body(self, ((0, count),), True, False, trial.own)
            size = count // nest.shape[0]
            ranges = [(f"{size} * block_low", f"{size} * block_high") if nest.rows else ("0", str(count))]
            pairs = [(self.fill(nest, targets, [trial.own], body, alone), ranges)]
        elif alone and jams(nest, trial, targets):
            pairs = self.jammed(nest, whole)
        else:
            pairs = [(self.body(nest, box, True, alone), in_block(nest, bounds(box), box[0][0])) for box in fast]
        checks = any(body.checks for body, _ in pairs)
        within, rest = ({}, rest) if checks else ends_of_rows(fast, rest)
        if nest.rows:
            self.block = [f"block_low = {nest.rows} * block", f"block_high = {least(f'block_low + {nest.rows}', nest.shape[0])}"]
            self.lines = [*self.block, *self.lines]
        self.begin(nest, alone)
        if checks:
            self.lines.append("large = False")
        rows: dict = {}  # bodies by the bounds of the loops around their rows
        for body, ranges in pairs:
            rows.setdefault(tuple(ranges[:-1]), []).append((body, (ranges[-1], None)))
        for outer, ends in within.items():
            around = in_block(nest, bounds((*outer, ends[0])))[:-1]
            rows[tuple(around)].append((self.body(nest, whole, False, alone), self.one_or_all(ends)))
        for outer, bodies in rows.items():
            self.lines += loops_of(outer, bodies)
        if rest or checks:
            self.guarded(nest, self.body(nest, whole, False, alone), rest, whole, checks, alone)
        for root in nest.roots:
            if is_total(root):
                total, lanes = self.total(root)
                if lanes > 1:
                    self.lines.append(f"{total}_ = {PARTS_OF[root.form.name]}({total})")
                    total = self.totals[root] = f"{total}_"
                self.lines.append((root, f"[{'block' if nest.rows else '()'}] = {total}"))

    def jammed(self, nest, whole):
        """Return bodies with the bounds of their loops, of which the last but one takes several steps at once; what is left comes after it.

        An element that all of these steps add to is loaded and stored once for them, and the order of the additions stays. The loop
        around it takes two steps at once, if it is none of blocks: what is read for one of them is there for the other.
        """
        *outer, (_, count), inner = whole
        pairs = []
        around = jam(len(outer) - 1, outer.pop()[1], JAMMED_STEPS // 2) if outer and not nest.rows else [((), [()])]
        for rows, row_steps in around:
            for turns, steps in jam(len(outer) + len(rows), count, JAMMED_STEPS):
                pull = self.pull([*outer, *rows, *turns, inner])
                own = pull.own[: len(outer)]
                pairs.append((pull, [(*own, *row, *step, pull.own[-1]) for row in row_steps for step in steps]))
        return [
            (
                self.fill(
                    nest, [target for at in places for target in self.targets(nest, pull, at)], places, Body(self, pull.box, True), True
                ),
                in_block(nest, bounds(pull.box), pull.box[0][0]),
            )
            for pull, places in pairs
        ]

    def slabs(self, nest, axis):
        """Emit roots that are another expression at each position of an axis: the loops are over the other axes, and store into all.

        Return whether that goes.
        """
        inner = [n for k, n in enumerate(nest.shape) if k != axis]
        pull = self.pull([(0, n) for n in inner])
        places = [(*pull.own[:axis], k, *pull.own[axis:]) for k in range(nest.shape[axis])]
        elements = []
        for root, at in itertools.product(nest.roots, places):
            elements.append((root, at, self.target(root, pull, at)))
        expressions = [expression for *_, expression in elements]
        if any(is_angle(expression) for expression in below(expressions)):  # whose loops are emitted twice
            return False
        body = Body(self, pull.box, fast=not pull.conditions)
        body.evaluate(expressions)
        for root, at, expression in elements:
            body.store(root, expression, at)
        self.lines += body.lines([("0", str(n)) for n in inner] if pull.conditions else bounds(pull.box))
        return True

    def guarded(self, nest, body, rest, whole, checks, alone):
        """Emit the loops over the boxes in `rest`, and over all if an angle was too large."""
        if len(rest) == 1 and not checks:
            self.lines += body.lines(in_block(nest, [(str(low), str(high)) for low, high in rest[0]]))
            return
        boxes = [*rest, *([tuple(whole)] if checks else [])]
        table = self.table([[edge for pair in box for edge in pair] for box in boxes])
        if checks:
            self.lines += [f"first, last = 0, {len(rest)}", "if large:"]
            kept, self.lines = self.lines, []
            self.begin(nest, alone)
            kept += [f"    {line}" for line in (*self.lines, f"first, last = {len(rest)}, {len(boxes)}")]
            self.lines = kept
        self.lines.append(f"for b in {table}[{'first:last' if checks else ':'}]:")
        ranges = [(f"b[{2 * axis}]", f"b[{2 * axis + 1}]") for axis in range(len(whole))]
        self.lines += [f"    {line}" for line in body.lines(in_block(nest, ranges))]

    def one_or_all(self, ranges):
        """Return the bounds of a loop, and the name of the table of ranges that they are taken from, None of a single one."""
        if len(ranges) == 1:
            return tuple(map(str, ranges[0])), None
        return ("b[0]", "b[1]"), self.table(ranges)

    def table(self, rows):
        """Return the name of a constant table."""
        name = f"BOXES_{self.title}_{len(self.tables)}"
        self.tables.append(f"{name} = np.array({list(map(list, rows))})")
        return name

    def targets(self, nest, pull, at):
        """Return the expression of each root at an index."""
        return [self.target(root, pull, at) for root in nest.roots]

    def target(self, root, pull, at):
        """Return the expression of a root at an index; of a reduction, what it accumulates."""
        if isinstance(root.form, Reduce):
            return pull(root.form.source, at)
        if isinstance(root.form, Scatter):  # what is scattered comes in loops of its own
            return pull(root.form.base, at)
        target = pull.define(root, at)
        pull.keep(root, at, target)
        return target

    def begin(self, nest, alone):
        """Emit what reductions start from."""
        for root in nest.roots:
            if isinstance(root.form, Reduce):
                start_from = neutral(root.form.name, root.dtype)
                if is_total(root):
                    total, lanes = self.total(root)
                    self.lines.append(f"{total}{'[...]' if lanes > 1 else ''} = {start_from}")
                elif alone and suffix(root.form.axes, len(nest.shape)):
                    continue
                elif nest.rows:
                    self.lines += ["for i0 in range(block_low, block_high):", f"    {self.buffer(root)}[i0] = {start_from}"]
                else:
                    self.lines.append(f"{self.buffer(root)}[...] = {start_from}")

    def added(self, root, expression):
        """Return what must be evaluated for an expression to be added to a root: the factors where it is fused with the addition."""
        adds = (isinstance(root.form, Reduce) and root.form.name == "sum") or root in self.plan.adding
        if not adds or not (self.plan.fuses or getattr(root.form, "fused", False)):
            return (expression,)
        if expression not in self.products:
            self.products[expression] = factors(expression)
        return self.products[expression] or (expression,)

    def body(self, nest, box, fast, alone):
        """Return the body of the loops over a box."""
        pull = self.pull(box)
        return self.fill(nest, self.targets(nest, pull, pull.own), [pull.own], Body(self, box, fast), alone)

    def fill(self, nest, targets, places, body, alone):
        """Let a body compute the targets, those of all roots at each place in turn."""
        if any(expression.kind == "read" and expression.what[0] in nest.roots for expression in below(targets)):
            raise NoLoopForm("a loop reads what it stores")  # where it may not be stored yet
        body.evaluate([part for root, target in zip(itertools.cycle(nest.roots), targets) for part in self.added(root, target)])
        for k, root in enumerate(nest.roots):
            elements = list(zip(targets[k :: len(nest.roots)], places, strict=True))
            if isinstance(root.form, Reduce):
                body.accumulate(root, elements, alone and suffix(root.form.axes, len(nest.shape)))
                continue
            for expression, at in elements:
                body.store(root, expression, at)
        return body

    def scan(self, nest):
        """Emit a cumulative sum or product: the axis it goes along is the innermost loop."""
        (root,) = nest.roots
        form = root.form
        self.loops_emitted += 1
        pull = self.pull([(0, n) for n in nest.shape])
        expression = pull(form.source, pull.own)
        body = Body(self, pull.box, hoisted=False)
        body.evaluate([expression])
        total, indent = self.new("s"), ""
        target = body.element(self.buffer(root), pull.own, body.depth)
        for axis in (*(k for k in range(body.depth) if k != form.axis), form.axis):
            if axis == form.axis:
                first = -root.dtype.type(0) if form.name == "sum" else root.dtype.type(1)  # so that the first is the element itself
                self.lines.append(f"{indent}{total} = {literal(first)}")
            self.lines.append(f"{indent}for {body.index[axis]} in range({nest.shape[axis]}):")
            indent += "    "
        operator = "+" if form.name == "sum" else "*"
        combined = f"{total} = {total} {operator} {body.name(expression)}"
        self.lines += [indent + line for line in (*body.before[body.depth], combined, f"{target} = {total}")]

    def scatter(self, nest):
        """Emit an array with elements added or written at chosen positions."""
        (root,) = nest.roots
        form = root.form
        self.loops(Nest("loops", root.shape, [root]))
        pull = self.pull([(0, n) for n in form.source.shape])
        expression, positions = pull(form.source, pull.own), pull.at(form.maps, pull.own)
        body = Body(self, pull.box, hoisted=False)
        body.evaluate([expression, *(position for position in positions if isinstance(position, Expression))])
        target = body.element(self.buffer(root), positions, body.depth)
        body.before[body.depth].append(f"{target} {'+=' if form.adds else '='} {body.name(expression)}")
        self.lines += body.lines([("0", str(n)) for n in form.source.shape])

    # --- text -------------------------------------------------------------------------------------------------------------------

    def text(self, needed):
        """Return the function's source; of straight code only those elements are stored that are read from memory."""
        body = []
        for line in self.lines:
            if isinstance(line, tuple):
                root, rest = line
                if root not in needed:
                    continue
                line = f"{self.buffer(root)}{rest}"
            body.append(f"    {line}")
        self.parameters = sorted(self.used, key=lambda node: parameter_order(self.buffers.name(node)))
        names = ", ".join([*(self.buffers.name(node) for node in self.parameters), *(["block"] if self.block else [])])
        before = [*self.before, *self.tables]
        return "\n".join([*before, f"def {self.title}({names}):", *(body or ["    pass"])])


def is_total(root):
    """Return whether a root is a reduction over all axes; in a nest in blocks, each has one."""
    return isinstance(root.form, Reduce) and len(root.form.axes) == root.form.source.ndim


def suffix(axes, count):
    """Return whether the axes of a reduction are the last ones."""
    return tuple(axes) == tuple(range(count - len(axes), count))


def parameter_order(name):
    return "xcrwy".index(name[0]) if name[0] != "y" else 5, int(name[1:])


# --- the module --------------------------------------------------------------------------------------------------------------------


def emit(plan: Plan, others: Mapping[type, Callable] = MappingProxyType({})) -> Source:
    """Return the source of a plan; `others` say how steps that are no parts are emitted, by their form: what is called has no entry."""
    buffers = Names(plan)
    functions: dict[int, Function] = {}
    for k, step in enumerate(plan.steps):
        function = Function(plan, buffers, f"part{len(functions)}")
        if isinstance(step, Part):
            functions[k] = function
            for nest in step.nests:
                function.emit(nest)
        elif type(step.form) in others:
            with suppress(NoLoopForm):
                others[type(step.form)](function, step)
                functions[k] = function
    needed = set(plan.outputs)
    for k, step in enumerate(plan.steps):
        if k not in functions:
            needed.update(map(memory_of, step.form.operands))
    needed.update(memory_of(node) for node in plan.outputs)
    for function in functions.values():
        needed.update(function.used)
    source = Source(nests=sum(function.loops_emitted for function in functions.values()))
    texts = [function.text(needed) for function in functions.values()]
    source.parts = {k: function.parameters for k, function in functions.items()}
    first = {k: step.nests[0] for k, step in enumerate(plan.steps) if isinstance(step, Part)}
    source.blocks = {k: -(-nest.shape[0] // nest.rows) for k, nest in first.items() if nest.rows}
    source.additions = additions(plan.outputs) + sum(function.additions for function in functions.values())
    source.driven = {k: function.driven for k, function in functions.items() if function.driven}
    source.names = buffers.names
    source.constants = buffers.constants
    source.text = "\n\n\n".join([HEADER, *texts]) + "\n"
    return source
