"""One emitted function: the loop nests of a part, and the names of what they read and write."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from ..ir import nodes as ir
from ..ir.nodes import ArrayType, Assign, Call, Fill, For, If, Load, Reshape, Room, Store, Table, Var, number
from ..ir.values import arithmetic_dtype, op
from ..loops.forms import Buffer, Made, Node, NoLoopForm, Reduce, Scatter
from ..loops.fuse import Nest, Part, Plan, memory_of, stored_reads
from ..loops.inline import Expression, Pull, factors
from ..loops.nests import below, boxes_of, cuts_of, flattens, jam, jams, lanes_of, slab_axis
from ..support.costs import CALLED_DEPTH, LANES, LONG_FUNCTION, SMALL_ARRAY_BYTES
from .body import LARGE, Body, around, each_row, started, table_row
from .build import BLOCK, BLOCK_HIGH, BLOCK_LOW, PARTIAL, PARTS_OF, array, block_of, bounds, combined, in_block, literal, neutral, row_of


class Names:
    """The variables of all buffers of a plan. Where it `shares` them, a large array to work in is one that is not read any more."""

    def __init__(self, plan: Plan, shares: bool = False):
        self.variables: dict[Node, Var] = {}
        self.owners: dict[Var, Node] = {}  # the first node of each
        self.results = {node: k for k, node in reversed(list(enumerate(plan.outputs)))}
        self.constants: list[Node] = []
        self.given = {node: k for k, node in enumerate(plan.given)}
        self.work = 0
        self.place = 0  # in the order of `uses`
        self.due: dict[int, list[Node]] = {}  # what is not read after a place
        self.shares, self.sharing = shares, set[Node]()
        self.free: dict[tuple, list[Var]] = {}
        if shares and any(map(is_large, plan.stored)):
            kept = {*map(memory_of, plan.outputs), *unrolled_roots(plan)}
            last = {node: place for place, nodes in enumerate(uses(plan)) for node in nodes}
            for node, place in last.items():
                if is_large(node) and node in plan.stored and node not in kept:
                    self.share(node, place)

    def share(self, node, last):
        """Let the array of a node be that of others before, and after its last place."""
        self.sharing.add(node)
        self.due.setdefault(last, []).append(node)

    def end(self):
        """End a place."""
        for node in self.due.pop(self.place, ()):
            if node in self.variables:
                self.free.setdefault((node.size, node.dtype), []).append(self.variables[node])
        self.place += 1

    def variable(self, node):
        """Return the variable of a node that is stored or given."""
        if node not in self.variables:
            if node in self.given:
                name = f"x{self.given[node]}"
            elif isinstance(node.form, Buffer) and node.form.array is not None:
                self.constants.append(node)
                name = f"c{len(self.constants) - 1}"
            elif node in self.results:
                name = f"y{self.results[node]}"
            elif node in self.sharing and (left := self.free.get((node.size, node.dtype))):
                return self.variables.setdefault(node, left.pop())
            else:
                name = f"w{self.work}"
                self.work += 1
            self.variables[node] = Var(name, node.dtype.name) if is_number(node) else array(name, node)
            self.owners[self.variables[node]] = node
        return self.variables[node]


def is_large(node):
    return node.size * node.dtype.itemsize >= SMALL_ARRAY_BYTES


def unrolled_roots(plan):
    """Yield what unrolled nests store, which is known to be read only when all is emitted."""
    for step in plan.steps:
        for nest in step.nests if isinstance(step, Part) else ():
            yield from nest.roots if nest.kind == "unrolled" else ()


def uses(plan):
    """Yield the nodes that each nest, and each step that is no part, reads or makes."""
    results: dict[Node, list[Node]] = {}
    for node in plan.made:
        for step in node.form.operands:
            results.setdefault(step, []).append(node)
    for step in plan.steps:
        if isinstance(step, Part):
            for nest in step.nests:
                yield [*nest.roots, *(node for root in nest.roots for node, *_ in stored_reads(root, plan.stored))]
        else:
            yield [*map(memory_of, step.form.operands), *results.get(step, ())]


def is_number(node):
    """Return whether a node that is given is a number, not an array without axes."""
    return not node.shape and isinstance(node.form, Buffer) and node.form.view_of is None


class Function:
    """One emitted function: the nests of a part, which stand in the bodies of `depth` branches and loops."""

    def __init__(self, plan: Plan, names: Names, title: str, depth: int = 0):
        self.plan, self.buffers, self.title, self.depth = plan, names, title, depth
        self.names: dict = {}  # of expressions outside of all loops
        self.lasting: dict = {}
        self.statements: list = []  # a store into an array is (root, index, value): it is made if somebody reads that
        self.used: dict[Node, None] = {}
        self.views: dict[Node, Var] = {}
        self.totals: dict[Node, Var] = {}
        self.products: dict[Expression, Any] = {}  # the factors of what is added
        self.lanes = 1  # partial sums of each reduction along the innermost loops of a nest
        self.before: list = []  # other functions that it calls
        self.tables: list[Table] = []
        self.count = 0
        self.loops_emitted = 0
        self.additions = 0.0  # of the turns of a loop
        self.parameters: list[Node] = []
        self.in_python: list[str] = []  # what Python is called for, and why
        self.blocks: int | None = None  # how many the nest has

    # --- names ------------------------------------------------------------------------------------------------------------------

    def new(self, letter):
        self.count += 1
        return f"{letter}{self.count}"

    def buffer(self, node):
        """Return a node's buffer in this function."""
        if node in self.views:
            return self.views[node]
        source = memory_of(node)
        self.used[source] = None
        variable = self.buffers.variable(source)
        if source is not node or (source.shape and variable.type.shape != source.shape):
            view = self.views[node] = array(self.new("v"), node)
            self.statements.append(Assign((view,), (Reshape(variable, view.type),)))
            return view
        return variable

    def scalar(self, node):
        """Return a stored number."""
        if node in self.totals:
            return self.totals[node]
        source = memory_of(node)
        buffer = self.buffer(source)
        return Load(buffer, (number(0),) * source.ndim) if isinstance(buffer.type, ArrayType) else buffer

    def total(self, root):
        """Return the variable in which a reduction over everything is accumulated, and how many partial ones it holds."""
        if root not in self.totals:
            self.totals[root] = self.partial(root)[0]
        return self.totals[root], self.lanes_of(root)

    def partial(self, root):
        """Return a new variable to accumulate a reduction in, and how many partial ones it holds."""
        name, lanes = self.new("s"), self.lanes_of(root)
        if lanes == 1:
            return Var(name, arithmetic_dtype(root.dtype.name)), 1
        parts = Var(name, ArrayType(root.dtype.name, (lanes + 1,)))
        self.statements.append(Room(parts))
        return parts, lanes

    def lanes_of(self, root):
        return self.lanes if root.dtype.kind in PARTIAL.get(root.form.name, "") else 1

    def work(self, shape, dtype):
        """Return an array to work in until the place ends."""
        node = Node(Made(), shape, dtype)
        self.plan.stored.add(node)
        if self.buffers.shares and is_large(node):
            self.buffers.share(node, self.buffers.place)
        return self.buffer(node)

    # --- nests ------------------------------------------------------------------------------------------------------------------

    def emit(self, nest: Nest):
        getattr(self, nest.kind)(nest)

    def pull(self, box):
        return Pull(self.plan.stored, self.lasting, box, self.plan.program.adjoint, self.plan.fuses)

    def unrolled(self, nest):
        """Emit small roots element by element."""
        pull = self.pull(())
        body = Body(self, ())
        elements = {}
        for root in nest.roots:
            for at in np.ndindex(*root.shape):
                elements[root, at] = pull.define(root, at)
                pull.keep(root, at, elements[root, at])
        body.evaluate(list(elements.values()))
        self.statements += [(root, tuple(map(number, at)), body.name(expression)) for (root, at), expression in elements.items()]

    def loops(self, nest):
        """Emit roots over one index space: fast loops where it is large, and loops with conditions for the rest."""
        self.loops_emitted += 1
        self.blocks = -(-nest.shape[0] // nest.rows) if nest.rows else None
        whole = [(0, n) for n in nest.shape]
        trial = self.pull(whole)
        targets = self.targets(nest, trial, trial.own)
        cuts = cuts_of(trial, targets)
        fast, rest = self.boxes(nest, cuts)
        alone = len(fast) + len(rest) == 1
        flat = len(fast) == 1 and not rest and len(whole) > 1 and flattens(nest, trial, targets)
        axis = None if flat else slab_axis(nest, cuts)
        if axis is not None:
            rest, alone = [], True
        count = int(np.prod(nest.shape)) if flat else [1, *(n for k, n in enumerate(nest.shape) if k != axis)][-1]
        self.lanes = lanes_of(nest, trial, targets, count, axis is not None)
        if flat:
            body = Body(self, ((0, count),), True, False, trial.own)
            size = number(count // nest.shape[0])
            ranges = [tuple(op("multiply", size, row) for row in (BLOCK_LOW, BLOCK_HIGH))] if nest.rows else bounds([(0, count)])
            pairs = [(self.fill(nest, targets, [trial.own], body, alone), ranges)]
        elif axis is not None:
            pairs = [self.slabs(nest, axis)]
        elif alone and jams(nest, trial, targets):
            pairs = self.jammed(nest, whole)
        else:
            pairs = self.rowwise(nest, fast, alone)
        checks = any(body.checks for body, _ in pairs)
        if nest.rows:
            self.statements[:0] = block_of(nest.rows, nest.shape[0])
        self.statements += self.begun(nest, alone)
        if checks:
            self.statements.append(Assign((LARGE,), (number(False),)))
        for body, ranges in pairs:
            self.statements += around(body, ranges)
        if rest or checks:
            self.guarded(nest, self.body(nest, whole, False, alone), rest, whole, checks, alone)
        for root in nest.roots:
            if is_total(root):
                total, lanes = self.total(root)
                if lanes > 1:
                    self.totals[root] = Var(f"{total.name}_", total.dtype)
                    self.statements.append(Assign((self.totals[root],), (Call(PARTS_OF[root.form.name], (total,), total.dtype),)))
                self.statements.append((root, (BLOCK,) if nest.rows else (), self.totals[root]))

    def boxes(self, nest, cuts):
        """Return the boxes with fast loops, and the rest.

        Where each element would be asked many conditions, all wide ranges have loops if that is little code (50 columns: 5.1 ms off, 0.1).
        """
        widest = boxes_of(cuts, False)
        if max(map(len, cuts)) <= LANES:
            return widest
        wide = boxes_of(cuts, True)
        if len(wide[0]) <= len(widest[0]):
            return widest
        left = LONG_FUNCTION // 2
        for pull in map(self.pull, wide[0]):
            left -= len(below(self.targets(nest, pull, pull.own)))
            if left < 0:
                return widest
        return wide

    def rowwise(self, nest, boxes, alone):
        """Return the bodies of fast boxes with the bounds of their loops. Those of boxes in the same rows are one."""
        pairs: dict = {}
        for box in boxes:
            body, ranges = self.body(nest, box, True, alone), in_block(nest, bounds(box), box[0][0])
            first, _ = pairs.setdefault(box[:-1], (body, ranges))
            if first is not body:
                first.follow(body, *ranges[-1])
        return list(pairs.values())

    def jammed(self, nest, whole):
        """Return bodies with the bounds of their loops, of which the last but one takes several steps at once; what is left comes after it.

        An element that all of these steps add to is loaded and stored once for them, and the order of the additions stays. The loop
        around it takes two steps at once, if it is none of blocks: what is read for one of them is there for the other.
        """
        *outer, (_, count), inner = whole
        pairs = []
        around = jam(len(outer) - 1, outer.pop()[1], LANES // 4) if outer and not nest.rows else [((), [()])]
        for rows, row_steps in around:
            for turns, steps in jam(len(outer) + len(rows), count, LANES // 2):
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
        """Return a body with the bounds of its loops, over all axes but one, at each position of which roots are other expressions."""
        pull = self.pull([(0, n) for k, n in enumerate(nest.shape) if k != axis])
        places = [(*pull.own[:axis], k, *pull.own[axis:]) for k in range(nest.shape[axis])]
        targets = [target for at in places for target in self.targets(nest, pull, at)]
        body = self.fill(nest, targets, places, Body(self, pull.box, not pull.conditions), True)
        return body, in_block(nest, bounds(pull.box))

    def guarded(self, nest, body, rest, whole, checks, alone):
        """Emit the loops over the boxes in `rest`, and over all if an angle was too large."""
        if len(rest) == 1 and not checks:
            self.statements += around(body, in_block(nest, [tuple(map(number, span)) for span in rest[0]]))
            return
        boxes = [*rest, *([tuple(whole)] if checks else [])]
        table = self.table([[edge for pair in box for edge in pair] for box in boxes])
        low: ir.Expression = number(0)
        high: ir.Expression = number(len(boxes))
        if checks:
            first, last = Var("first", "int64"), Var("last", "int64")
            begun = (*self.begun(nest, alone), Assign((first, last), (number(len(rest)), high)))
            self.statements += [Assign((first, last), (low, number(len(rest)))), If(LARGE, begun)]
            low, high = first, last
        ranges = [(entry(table, 2 * axis), entry(table, 2 * axis + 1)) for axis in range(len(whole))]
        self.statements.append(each_row(table, low, high, around(body, in_block(nest, ranges))))

    def table(self, rows):
        """Return a constant table."""
        self.tables.append(Table(f"BOXES_{self.title}_{len(self.tables)}", tuple(map(tuple, rows))))
        return Var(self.tables[-1].name, ArrayType("int64", (len(rows), len(rows[0]))))

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

    def begun(self, nest, alone):
        """Return the statements that set reductions to what they start from."""
        statements: list = []
        for root in nest.roots:
            if isinstance(root.form, Reduce):
                start_from = neutral(root.form.name, root.dtype)
                if is_total(root):
                    statements.append(started(self.total(root)[0], start_from))
                elif alone and suffix(root.form.axes, len(nest.shape)):
                    continue
                elif nest.rows:
                    i0 = Var("i0", "int64")
                    place = row_of(self.buffer(root), i0)
                    one = Store(place.array, place.index, start_from) if isinstance(place, Load) else Fill(place, start_from)
                    statements.append(For(i0, BLOCK_LOW, BLOCK_HIGH, (one,)))
                else:
                    statements.append(Fill(self.buffer(root), start_from))
        return statements

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
        (root,), form = nest.roots, nest.roots[0].form
        self.loops_emitted += 1
        pull = self.pull([(0, n) for n in nest.shape])
        expression = pull(form.source, pull.own)
        body = Body(self, pull.box, hoisted=False)
        body.evaluate([expression])
        place = body.element(self.buffer(root), pull.own)
        total = Var(self.new("s"), arithmetic_dtype(root.dtype.name))
        first = literal(-root.dtype.type(0)) if form.name == "sum" else neutral(form.name, root.dtype)  # the first is the element itself
        combine = Assign((total,), (combined(form.name, total, body.name(expression)),))
        statements = [*body.before[body.depth], combine, Store(place.array, place.index, total)]
        along = For(body.index[form.axis], number(0), number(nest.shape[form.axis]), tuple(statements))
        statements = [Assign((total,), (first,)), along]
        for axis in (k for k in reversed(range(body.depth)) if k != form.axis):
            statements = [For(body.index[axis], number(0), number(nest.shape[axis]), tuple(statements))]
        self.statements += statements

    def scatter(self, nest):
        """Emit an array with elements added or written at chosen positions."""
        (root,) = nest.roots
        form = root.form
        self.loops(Nest("loops", root.shape, [root]))
        pull = self.pull([(0, n) for n in form.source.shape])
        expression, positions = pull(form.source, pull.own), pull.at(form.maps, pull.own)
        body = Body(self, pull.box, hoisted=False)
        body.evaluate([expression, *(position for position in positions if isinstance(position, Expression))])
        place = body.element(self.buffer(root), positions)
        body.before[body.depth].append(Store(place.array, place.index, body.name(expression), form.adds))
        self.statements += around(body, [(number(0), number(n)) for n in form.source.shape])

    # --- the function -------------------------------------------------------------------------------------------------------------

    def finished(self, needed):
        """Return the function and what stands before it; of unrolled nests only those elements are stored that are read from memory."""
        statements = [statement for statement in self.statements if not isinstance(statement, tuple) or statement[0] in needed]
        self.used.update((statement[0], None) for statement in statements if isinstance(statement, tuple))
        used = dict.fromkeys(self.buffers.owners[self.buffers.variable(node)] for node in self.used)
        self.parameters = sorted(used, key=lambda node: parameter_order(self.buffers.variable(node).name))
        body = [Store(self.buffer(s[0]), *s[1:]) if isinstance(s, tuple) else s for s in statements]
        parameters = list(map(self.buffers.variable, self.parameters))
        made, inlined = [*self.before, *self.tables], not is_called(self.depth)
        if self.blocks is not None:
            made.append(ir.Function(f"{self.title}_block", (*parameters, BLOCK), tuple(body), inlined))
            body = [ir.Do(Call(made[-1].name, tuple(parameters), None), self.blocks)]
        return [*made, ir.Function(self.title, tuple(parameters), tuple(body), inlined)]


def is_called(depth):
    """Return whether functions in so many bodies are called, not copied to where they are called."""
    return depth > 0 and depth % CALLED_DEPTH == 0


def entry(table, k):
    """Return an element of a table's row `b`."""
    return Load(table_row(table), (number(k),))


def is_total(root):
    """Return whether a root is a reduction over all axes; in a nest in blocks, each has one."""
    return isinstance(root.form, Reduce) and len(root.form.axes) == root.form.source.ndim


def suffix(axes, count):
    """Return whether the axes of a reduction are the last ones."""
    return tuple(axes) == tuple(range(count - len(axes), count))


def parameter_order(name):
    return "xcrwy".index(name[0]) if name[0] != "y" else 5, int(name[1:])
