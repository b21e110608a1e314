"""Units: programs as statements of a loop; and the emission of loops (`repeat`), whose turns are such statements.

A loop is one function of all turns, with two buffers for what is carried, which change places. After the last turn, what is carried stands
in the results. Where threads share nests of a turn, the function is not compiled: it is `driven` by Python, which calls compiled parts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..graph.program import Program, Value
from ..loops.forms import Buffer, Fill, Made, Node, NoLoopForm, Repeat
from ..loops.fuse import Part, adds, memory_of, plan
from ..loops.threads import in_blocks
from ..rules.calling import public_name
from ..support.forks import cached_property
from .emit import HEADER, Function, emit

__all__ = ["STEPS", "Unit", "assignment"]


class Unit:
    """A program as statements of a loop.

    Attributes
    ----------
    driven : whether Python runs the loop; to be settled before the statements are asked for, for all units of one loop alike.
    fuses : whether products are not rounded before they are added.
    added : the positions of those among the outputs `adding` that are added to what their targets hold.
    """

    def __init__(self, program: Program, prefix: str, blocks: bool = False, adding: Iterable[int] = (), fuses: bool = False):
        self.program, self.prefix = program, prefix
        made = plan(program)
        made.fuses = fuses
        nodes = {i: made.nodes[out] for i in adding if isinstance(out := program.outputs[i], Value)}
        self.added = [i for i, node in nodes.items() if node.shape and adds(made, node)]
        made.adding.update(nodes[i] for i in self.added)
        self.plan = in_blocks(made) if blocks else made
        self.source = emit(self.plan, STEPS)
        self.driven = bool(self.source.blocks or self.source.driven)
        for k, step in enumerate(self.plan.steps):
            if k not in self.source.parts:
                raise NoLoopForm(f"it calls {public_name(step.form.operation.fn)}: {step.form.reason}")
        self.work: list[tuple[str, tuple[int, ...], np.dtype]] = []
        self.constants = [f"{prefix}{self.source.names[node]}" for node in self.source.constants]
        self.arrays = [np.array(node.form.array, order="C") for node in self.source.constants]

    @cached_property
    def numbers(self):
        """Whether there is only one part, which computes numbers from numbers: it returns them, so they stay in registers."""
        if self.driven or len(self.source.parts) != 1 or not isinstance(self.plan.steps[0], Part):
            return False
        return not any(node.shape for part in self.source.parts.values() for node in part)

    @cached_property
    def text(self):
        """The functions of the parts."""
        text = self.named_here(self.source.text.removeprefix(HEADER)).strip()
        return self.returning_numbers(text) if self.numbers else text

    def named_here(self, text):
        """Return text with the parts' names as they are in this unit."""
        return re.sub(r"part(\d)", rf"{self.prefix}part\1", text)

    @property
    def room(self):
        """Name, shape and dtype of the arrays that the statements work in."""
        return list(dict.fromkeys(self.work))

    @property
    def others(self):
        """Those arrays and the constants, by name, with what they are."""
        rooms = {name: (shape, dtype.name) for name, shape, dtype in self.room}
        return rooms | {name: (array.shape, array.dtype.name) for name, array in zip(self.constants, self.arrays, strict=True)}

    def returning_numbers(self, text):
        """Return the text of the only part with its numbers returned."""
        (part,) = self.source.parts.values()
        made = [name for node in part if (name := self.source.names[node])[0] in "yw"]
        lines = [line for line in text.replace("[()]", "").split("\n") if line]
        given = ", ".join(name for node in part if (name := self.source.names[node]) not in made)
        at = next(i for i, line in enumerate(lines) if line.startswith("def "))
        lines[at] = f"def {self.prefix}part0({given}):"
        return "\n".join([*lines, f"    return {', '.join(made)},"])

    def statements(self, inputs: list[str], targets: list[str], values: list) -> list[str]:
        """Return the lines that compute the outputs from `inputs`: arrays into the arrays `targets`, numbers assigned to them.

        `values` have the shapes of the outputs, which may be literals, or None for zero.
        """
        nodes = [self.plan.nodes[out] if isinstance(out, Value) else out for out in self.program.outputs]
        names: dict[str, str] = {}
        rest = []
        for node, target, value in zip(nodes, targets, values, strict=True):
            if isinstance(node, Node) and node.shape != value.shape:
                raise NoLoopForm(f"an output has the shape {node.shape} instead of {value.shape}")
            name = self.source.names.get(node) if isinstance(node, Node) and node.shape else None
            if name is not None and name[0] == "y" and name not in names:
                names[name] = target
            else:
                rest.append((target, node, value.shape))
        lines: list[str] = []
        for k, function in self.source.parts.items():
            made = [] if not self.numbers else [f"{self.prefix}{name}" for node in function if (name := self.source.names[node])[0] in "yw"]
            given = [self.argument(node, names, inputs) for node in function if f"{self.prefix}{self.source.names[node]}" not in made]
            part, arguments, blocks = f"{self.prefix}part{len(lines)}", ", ".join(given), self.source.blocks.get(k)
            call = f"{part}({arguments})" if blocks is None else f"run({part}, {blocks}, ({arguments},))"
            lines.append((f"{', '.join(made)}, = " if made else "") + call)
        numbers = [(target, self.seen(node, names, inputs)) for target, node, shape in rest if not shape]
        for target, node, shape in rest:
            if shape:
                number = not isinstance(node, Node) or isinstance(memory_of(node).form, Fill)
                lines += self.assignment(target, self.seen(node, names, inputs), shape, number)
        if numbers:  # at once: one may be read for another
            lines.append(f"{', '.join(target for target, _ in numbers)} = {', '.join(value for _, value in numbers)}")
        return lines

    def assignment(self, target, source, shape, number, operator="="):
        """Return the lines that assign an array, or add it."""
        if self.driven and shape:
            return [f"{target}[...] {operator} {source}"]
        return assignment(target, source, shape, number, operator)

    def argument(self, node, names, inputs):
        """Return what stands for a parameter of a part."""
        name = self.source.names[node]
        if name[0] in "yw" and name not in names:
            names[name] = f"{self.prefix}{name}"
            self.work.append((names[name], node.shape, node.dtype))
        return self.named(name, names, inputs)

    def named(self, name, names, inputs):
        if name[0] == "x":
            return inputs[int(name[1:])]
        return names.get(name, f"{self.prefix}{name}")

    def seen(self, node, names, inputs):
        """Return the source of an output that is not computed in its place: a literal, an input, another output, a constant, a number."""
        if not isinstance(node, Node):
            return literal(0.0 if node is None else node)
        memory = memory_of(node)
        if isinstance(memory.form, Fill):
            return literal(memory.form.number)
        name = self.source.names.get(memory)
        if name is None:  # an input or a constant that no part reads
            given = [self.plan.nodes[value] for value in self.program.inputs]
            if memory not in given:
                return self.constant(memory.form.array, node.shape)
            name = f"x{given.index(memory)}"
        text = self.named(name, names, inputs)
        if not memory.shape:
            return text if name[0] == "x" or self.numbers else f"{text}[()]"
        return in_shape(text, memory.shape, node.shape)

    def constant(self, array, shape):
        """Return the source of a constant array, which becomes one of those that the loops are given."""
        if not array.shape:
            return literal(array[()])
        self.constants.append(f"{self.prefix}z{len(self.constants)}")
        self.arrays.append(np.array(array, order="C"))
        return in_shape(self.constants[-1], array.shape, shape)


def in_shape(text, shape, wanted):
    """Return the source of an array in another shape, or of its only element."""
    if shape == wanted:
        return text
    return f"{text}.reshape({wanted})" if wanted else f"{text}[{', '.join('0' * len(shape))}]"


def literal(number):
    """Return the source of a number."""
    number = number.item() if issubclass(type(number), np.generic) else number
    if issubclass(type(number), float) and not math.isfinite(number):
        return "math.nan" if math.isnan(number) else f"{'-' if number < 0 else ''}math.inf"
    return repr(number)


def assignment(target, source, shape, number, operator="="):
    """Return the lines that assign an array, or add it."""
    loops = [f"{'    ' * axis}for i{axis} in range({n}):" for axis, n in enumerate(shape)]
    at = f"[{', '.join(f'i{axis}' for axis in range(len(shape)))}]" if shape else ""
    return [*loops, f"{'    ' * len(shape)}{target}{at} {operator} {source}{'' if number else at}"]


def emit_loop(function: Function, step: Node) -> None:
    """Emit the function of a loop; a body that calls functions raises `NoLoopForm`."""
    operation = step.form.operation
    loop = operation.fn
    unit = Unit(loop.body, f"{function.title}_", function.plan.blocks, fuses=function.plan.fuses)
    results = [function.plan.nodes[out] for out in operation.outputs]
    carried, stacks, params = loop.split(step.form.operands)
    _, *values = loop.body.inputs
    lines = function.lines
    state, into, swaps, last = [], [], [], []
    for i, (start, value, result) in enumerate(zip(carried, values, results, strict=False)):
        if not value.shape:
            lines.append(f"s{i} = {number_of(function, start)}")
            state.append(f"s{i}")
            into.append(f"s{i}")
            last.append(f"{function.buffer(result)}[()] = s{i}")
            continue
        pair = [function.buffer(result), work(function, value.shape, value.dtype)]
        first, second = pair if loop.count % 2 == 0 else pair[::-1]
        lines += [f"s{i} = {first}", f"t{i} = {second}"]
        source = memory_of(start)
        number = isinstance(source.form, Fill)
        lines += unit.assignment(f"s{i}", literal(source.form.number) if number else function.buffer(start), value.shape, number)
        state.append(f"s{i}")
        into.append(f"t{i}")
        swaps.append(f"s{i}, t{i} = t{i}, s{i}")
    rows = [f"{array_of(function, stack)}[k]" for stack in stacks]
    given = [
        array_of(function, param) if value.shape else number_of(function, param)
        for param, value in zip(params, values[len(carried) + len(stacks) :], strict=True)
    ]
    outs = [f"{function.buffer(result)}[k]" for result in results[len(carried) :]]
    shapes = [*values[: len(carried)], *(Node(None, result.shape[1:], result.dtype) for result in results[len(carried) :])]
    turn = unit.statements(["k", *state, *rows, *given], [*into, *outs], shapes)
    for name, shape, dtype in unit.room:
        lines.append(f"{name} = {work(function, shape, dtype)}")
    for name, array in zip(unit.constants, unit.arrays, strict=True):
        lines.append(f"{name} = {function.buffer(Node(Buffer(None, array), array.shape, array.dtype))}")
    lines.append(f"for k in range({f'{loop.count - 1}, -1, -1' if loop.backwards else loop.count}):")
    lines += [f"    {line}" for line in (*turn, *swaps)]
    lines += last
    function.loops_emitted += unit.source.nests
    function.additions = loop.count * unit.source.additions
    function.before = [*([unit.text, "", ""] if unit.text else [])]
    function.driven = unit if unit.driven else None


def work(function, shape, dtype):
    """Return the name of a new array to work in."""
    node = Node(Made(), shape, dtype)
    function.plan.stored.add(node)
    return function.buffer(node)


def number_of(function, node):
    """Return the source of a number that a loop is given."""
    source = memory_of(node)
    return literal(source.form.number) if isinstance(source.form, Fill) else function.scalar(node)


def array_of(function, node):
    """Return the name of an array that a loop is given."""
    source = memory_of(node)
    if not isinstance(source.form, Fill):
        return function.buffer(node)
    name = work(function, node.shape, node.dtype)
    function.lines += assignment(name, literal(source.form.number), node.shape, True)
    return name


#: how steps that are no parts are emitted, by their form
STEPS: dict[type, Any] = {Repeat: emit_loop}
