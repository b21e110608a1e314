"""Fragments: programs as statements of a loop; and the emission of loops (`repeat`), whose body is such a fragment.

A loop is one function of all turns, with two buffers for what is carried, which change places. After the last turn, what is carried stands
in the results.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..graph.program import Program, Value
from ..graph.trace import where_in
from ..ir.nodes import (
    ArrayType,
    Assign,
    Call,
    CallLoop,
    Do,
    Expression,
    Fill,
    For,
    If,
    Load,
    Reshape,
    Room,
    Row,
    Statement,
    Store,
    Var,
    number,
)
from ..ir.values import op
from ..loops import forms
from ..loops.forms import Buffer, Choose, Made, Node, NoLoopForm, Repeat
from ..loops.fuse import adds, memory_of, plan
from ..loops.inner_loops import CallOfLoop
from ..loops.threads import floats, in_blocks, rows_of_block
from ..rules.calling import public_name
from ..support.costs import LANES
from .build import BLOCK_HIGH, BLOCK_LOW, block_of, literal, row_of, variable
from .emit import emit
from .function import Function, is_called, is_number


class Unit:
    """A program as statements of a loop; the functions of its parts have names that begin with `prefix`.

    Of the outputs `adding` some are added to what their targets hold. With `fuses`, products are not rounded before they are added.
    """

    def __init__(
        self, program: Program, prefix: str, blocks: bool = False, adding: Iterable[int] = (), fuses: bool = False, depth: int = 0
    ):
        if is_called(depth):
            prefix = f"deep{hashlib.sha256(prefix.encode()).hexdigest()[:12]}_"  # LLVM cuts names of more than 1024 letters
        self.program, self.prefix = program, prefix
        made = plan(program, inside=True)
        for step in made.steps:
            if type(step) is Node and type(step.form) not in STEPS:
                raise NoLoopForm(f"it calls {told(step.form)}")
        made.fuses = fuses
        nodes = {i: made.nodes[out] for i in adding if isinstance(out := program.outputs[i], Value)}
        self.added = [i for i, node in nodes.items() if node.shape and adds(made, node)]
        made.adding.update(nodes[i] for i in self.added)
        self.plan = in_blocks(made) if blocks else made
        self.source = emit(self.plan, STEPS, prefix, depth=depth)
        self.module = self.source.module
        self.work: dict[str, Var] = {}  # the arrays that the statements work in
        self.constants = [variable(f"{prefix}{self.source.names[node]}", node) for node in self.source.constants]
        self.arrays = [np.array(node.form.array, order="C") for node in self.source.constants]

    @property
    def others(self):
        """The arrays that the statements work in, and the constants."""
        return [*self.work.values(), *self.constants]

    def statements(self, inputs: list[Expression], targets: list[Expression], values: list) -> list[Statement]:
        """Return the statements that compute the outputs from `inputs` into the arrays, the variables and the elements `targets`.

        `values` have the shapes of the outputs, which may be literals, or None for zero.
        """
        nodes = [self.plan.nodes[out] if isinstance(out, Value) else out for out in self.program.outputs]
        names: dict[str, Expression] = {}
        rest = []
        for node, target, value in zip(nodes, targets, values, strict=True):
            if isinstance(node, Node) and node.shape != value.shape:
                raise NoLoopForm(f"an output has the shape {node.shape} instead of {value.shape}")
            name = self.source.names.get(node) if isinstance(node, Node) and node.shape else None
            if name is not None and name[0] == "y" and name not in names:
                names[name] = target
            else:
                rest.append((target, node, value))
        statements: list[Statement] = []
        for k, function in self.source.parts.items():
            given = tuple(self.argument(node, names, inputs) for node in function)
            statements.append(Do(Call(self.source.functions[k], given, None)))
        seen = [(target, self.seen(node, value, names, inputs)) for target, node, value in rest]
        statements += [Fill(target, x) for (target, x), (*_, value) in zip(seen, rest, strict=True) if value.shape]
        numbers = [pair for pair, (*_, value) in zip(seen, rest, strict=True) if not value.shape]
        statements += [Store(target.array, target.index, x) for target, x in numbers if isinstance(target, Load)]
        variables = [pair for pair in numbers if isinstance(pair[0], Var)]
        if variables:  # at once: one may be read for another
            statements.append(Assign(*map(tuple, zip(*variables, strict=True))))
        return statements

    def argument(self, node, names, inputs):
        """Return what stands for a parameter of a part."""
        name = self.source.names[node]
        if name[0] in "yw" and name not in names:
            names[name] = self.work[name] = Var(f"{self.prefix}{name}", ArrayType(node.dtype.name, node.shape))
        return self.named(node, name, names, inputs)

    def named(self, node, name, names, inputs):
        if name[0] == "x":
            return inputs[int(name[1:])]
        return names[name] if name in names else variable(f"{self.prefix}{name}", node)

    def seen(self, node, value, names, inputs):
        """Return an output that is not computed in its place: a literal, an input, another output, a constant, a number."""
        if not isinstance(node, Node):
            return literal(0.0 if node is None else node, value.dtype)
        memory = memory_of(node)
        if isinstance(memory.form, forms.Fill):
            return literal(memory.form.number, value.dtype)
        name = self.source.names.get(memory)
        if name is None:  # an input or a constant that no part reads
            given = [self.plan.nodes[value] for value in self.program.inputs]
            if memory not in given:
                return self.constant(memory.form.array, node.shape)
            name = f"x{given.index(memory)}"
        found = self.named(memory, name, names, inputs)
        if not memory.shape:
            return Load(found, ()) if isinstance(getattr(found, "type", None), ArrayType) else found
        return in_shape(found, memory.shape, node.shape)

    def constant(self, array, shape):
        """Return a constant array, which becomes one of those that the loops are given."""
        if not array.shape:
            return literal(array[()])
        self.constants.append(variable(f"{self.prefix}z{len(self.constants)}", array))
        self.arrays.append(np.array(array, order="C"))
        return in_shape(self.constants[-1], array.shape, shape)


def told(call):
    """Return what is called, where, and why."""
    return f"{where_in(call.operation.line)}{public_name(call.operation.fn)}: {call.reason}"


def in_shape(array, shape, wanted):
    """Return an array in another shape, or its only element."""
    if shape == wanted:
        return array
    return Reshape(array, ArrayType(array.dtype, wanted)) if wanted else Load(array, (number(0),) * len(shape))


def emit_loop(function: Function, step: Node) -> None:
    """Emit the function of a loop; a body that calls functions raises `NoLoopForm`."""
    operation = step.form.operation
    loop = operation.fn
    unit = Unit(loop.body, f"{function.title}_", function.plan.blocks, fuses=function.plan.fuses, depth=function.depth + 1)
    results = [function.plan.nodes[out] for out in operation.outputs]
    carried, stacks, params = loop.split(step.form.operands)
    _, *values = loop.body.inputs
    statements = function.statements
    k = Var("k", "int64")
    state, into, swaps, last = [], [], [], list[Statement]()
    odd = Var("odd", "bool")  # whether so many turns were made that what is carried stands in the second buffers
    for i, (start, value, result) in enumerate(zip(carried, values, results, strict=False)):
        now, after = variable(f"s{i}", value), variable(f"t{i}", value)
        state.append(now)
        if not value.shape:
            statements.append(Assign((now,), (number_of(function, start),)))
            into.append(now)
            last.append(Store(function.buffer(result), (), now))
            continue
        pair = [function.buffer(result), function.work(value.shape, value.dtype)]
        if loop.live is not None:
            last.append(If(odd, (Fill(pair[0], pair[1]),)))
        first, second = pair if loop.count % 2 == 0 or loop.live is not None else pair[::-1]
        statements += [Assign((now,), (first,)), Assign((after,), (second,))]
        source = memory_of(start)
        literally = isinstance(source.form, forms.Fill)
        statements.append(Fill(now, literal(source.form.number, value.dtype) if literally else function.buffer(start)))
        into.append(after)
        swaps.append(Assign((now, after), (after, now)))
    rows = [row_of(array_of(function, stack), k) for stack in stacks]
    given = [
        array_of(function, param) if value.shape else number_of(function, param)
        for param, value in zip(params, values[len(carried) + len(stacks) :], strict=True)
    ]
    outs = [row_of(function.buffer(result), k) for result in results[len(carried) :]]
    shapes = [*values[: len(carried)], *(Node(None, result.shape[1:], result.dtype) for result in results[len(carried) :])]
    turn = unit.statements([k, *state, *rows, *given], [*into, *outs], shapes)
    name_others(function, unit)
    low, high, by = (loop.count - 1, -1, -1) if loop.backwards else (0, loop.count, 1)
    if loop.live is not None:
        statements += [Assign((odd,), (number(False),)), *(Fill(function.buffer(x), literal(0, x.dtype)) for x in results[len(carried) :])]
        turn = [If([*state, *rows][loop.live], (*turn, *swaps, Assign((odd,), (op("not", odd),))))]
        swaps = []
    statements += [For(k, number(low), number(high), (*turn, *swaps), by), *last]
    function.loops_emitted += unit.source.nests
    function.additions = loop.count * unit.source.additions
    function.in_python = unit.source.in_python
    function.before = [*unit.module.parts]


def emit_branch(function: Function, step: Node) -> None:
    """Emit the function of a branch; a program that calls functions raises `NoLoopForm`."""
    branch = step.form.operation.fn
    test, *operands = step.form.operands
    results = [function.plan.nodes[out] for out in step.form.operation.outputs]
    targets = [function.buffer(result) if result.shape else Load(function.buffer(result), ()) for result in results]
    given = [array_of(function, node) if node.shape else number_of(function, node) for node in operands]
    arms = []
    for name, body in branch.bodies.items():
        unit = Unit(body, f"{function.title}_{name}_", fuses=function.plan.fuses, depth=function.depth + 1)
        statements = unit.statements(given, targets, results)
        name_others(function, unit)
        arms.append((unit, tuple(statements)))
    function.statements.append(If(number_of(function, test), *(statements for _, statements in arms)))
    function.loops_emitted += sum(unit.source.nests for unit, _ in arms)
    function.additions = max(unit.source.additions for unit, _ in arms)
    function.in_python = [call for unit, _ in arms for call in unit.source.in_python]
    function.before = [part for unit, _ in arms for part in unit.module.parts]


def name_others(function, unit):
    """Set the names of the arrays that a unit works in, and of its constants."""
    for room in unit.work.values():
        function.statements.append(Assign((room,), (function.work(room.type.shape, np.dtype(room.dtype)),)))
    for constant, array in zip(unit.constants, unit.arrays, strict=True):
        function.statements.append(Assign((constant,), (function.buffer(Node(Buffer(None, array), array.shape, array.dtype)),)))


def number_of(function, node):
    """Return a number that a loop is given."""
    source = memory_of(node)
    return literal(source.form.number, node.dtype) if isinstance(source.form, forms.Fill) else function.scalar(node)


def array_of(function, node):
    """Return an array that a loop is given."""
    source = memory_of(node)
    if not isinstance(source.form, forms.Fill):
        return function.buffer(node)
    filled = function.work(node.shape, node.dtype)
    function.statements.append(Fill(filled, literal(source.form.number, node.dtype)))
    return filled


def emit_call_of_loop(function: Function, step: Node) -> None:
    """Emit the call of an inner loop of a ufunc."""
    form = step.form
    made = {node.form.place: node for node in function.plan.made if node.form.operands == (step,)}
    results = [made.get(k) or Node(Made((step,), k), *kind) for k, kind in enumerate(form.results)]
    function.plan.stored.update(results)
    arrays = [pointed(function, node) for node in form.operands] + [function.buffer(node) for node in results[form.overwrites :]]
    if form.overwrites:
        function.statements.append(Fill(function.buffer(results[0]), arrays[0]))
        arrays[0] = function.buffer(results[0])
    turns, k = form.layout.turns, Var("k", "int64")
    if turns > 1:
        parts = [(x, math.prod(x.type.shape) // turns) for x in arrays]
        arrays = [
            Row(Reshape(x, ArrayType(x.dtype, (turns, count))), (k,), None, None, ArrayType(x.dtype, (count,))) if apart else x
            for (x, count), apart in zip(parts, form.layout.parted, strict=True)
        ]
    if form.reason:
        function.in_python = [told(form)]
    function.additions = LANES * max(floats(*result) for result in form.results)  # one element at a time
    part: tuple = ()
    count = turns if turns > 1 else form.layout.dimensions[0]
    if rows := rows_of_call(function, form, count):
        function.blocks = -(-count // rows)
        function.statements += block_of(rows, count)
        part = BLOCK_LOW, BLOCK_HIGH
    loop = form.ufunc, form.types, form.layout.dimensions, form.layout.steps, tuple(arrays), form.raises
    if turns > 1:
        low, high = part or (number(0), number(turns))
        function.statements.append(For(k, low, high, (CallLoop(*loop),)))
    else:
        function.statements.append(CallLoop(*loop, part))


def rows_of_call(function, form, count):
    """Return how many rows each thread's block of a call has, 0 where it is made by one: what it says by flags, and what it needs besides
    its arrays, belongs to a thread."""
    alone = form.raises or form.reason or form.overwrites or any(isinstance(statement, Fill) for statement in function.statements)
    if alone or not function.plan.blocks:
        return 0
    return rows_of_block(count, int(function.additions), prepares=len(form.layout.dimensions) > 1)


def pointed(function, node):
    """Return an operand as an array, also a number."""
    source = memory_of(node)
    if node.shape or not (isinstance(source.form, forms.Fill) or is_number(source)):
        return array_of(function, node)
    room = Var(function.new("n"), ArrayType(node.dtype.name, (1,)))
    function.statements += [Room(room), Store(room, (number(0),), number_of(function, node))]
    return room


#: how steps that are no parts are emitted, by their form
STEPS: dict[type, Any] = {Choose: emit_branch, Repeat: emit_loop, CallOfLoop: emit_call_of_loop}
