"""The loops of a chain: many steps in one compiled call, forward and in reverse.

``advance`` makes steps k0 to k1 - 1 with two buffers that change places. ``pull`` keeps the states of a block of steps in one buffer, and
runs the pullbacks backwards; the first of them, x_{k0}, is there already. Both call the parts of the programs of a step and of its
pullback; nothing is allocated a step. After an odd number of steps the results that are arrays stand in the second buffers.

==========  ==========================================================================================
``s  t``    state: the leaves, and their second buffers (all arrays; numbers are arrays without axes)
``p  u``    parameters; inputs, with a row for each step
``o``       outs, with a row for each step
``g  h``    cotangents of the floating leaves of the state, and their second buffers
``d  e``    cotangents of the outs (rows); of the inputs (rows, written)
``q  r``    sums of the cotangents of the parameters; the share of one step
``b``       states of a block, with a leading axis
==========  ==========================================================================================
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np

from .cache import load, seal
from .emit_numba import HEADER, emit, memory_of
from .forms import Fill, Node, Unliftable
from .fuse import Part, plan
from .native import LONGEST_SOURCE, compiled
from .program import Program, Value

__all__ = ["Loops", "Shape", "compile_loops", "emit_loops"]


@dataclass
class Shape:
    """What a step is given and gives: abstract values of state leaves, rows, parameters and outs, and which of them have cotangents."""

    state: list[Value]
    rows: list[Value]
    params: list[Value]
    outs: list[Value]
    floating: list[int]
    active_rows: list[int]
    active_params: list[int]
    floating_outs: list[int]

    @property
    def active(self):
        """What the emitted loops depend on besides the programs' inputs."""
        return tuple(map(tuple, (self.floating, self.active_rows, self.active_params, self.floating_outs)))


@dataclass
class Emitted:
    """The emitted module: its text, the arrays that its functions work in (shape and dtype), and the constants that they read."""

    text: str
    work: list[tuple[tuple[int, ...], np.dtype]]
    constants: list[np.ndarray]


class Loops:
    """The compiled loops of a chain: ``advance`` and ``pull``, and what they work in."""

    def __init__(self, emitted: Emitted):
        self.source = emitted.text
        self.module = load(emitted.text)
        self.work_of, self.compiled = emitted.work, False
        self.constants = [np.array(constant, order="C") for constant in emitted.constants]

    def work(self):
        """Return new arrays to work in, and the constants."""
        return [*(np.empty(shape, dtype) for shape, dtype in self.work_of), *self.constants]

    def compile(self, advance, pull):
        """Compile for arguments like these, or load the machine code."""
        self.advance, self.pull = (
            compiled(self.module, self.source, name, list(map(kind_of, arguments)))
            for name, arguments in (("advance", advance), ("pull", pull))
        )
        seal(self.module)
        self.compiled = True


def kind_of(argument):
    return (argument.shape, argument.dtype.name) if isinstance(argument, np.ndarray) else "int64"


def compile_loops(step: Program, pullback: Program, shape: Shape) -> Loops:
    """Return the compiled loops of `emit_loops`."""
    emitted = emit_loops(step, pullback, shape)
    if emitted.text.count("\n") > 2 * LONGEST_SOURCE:
        raise Unliftable(f"its source has more than {2 * LONGEST_SOURCE:,} lines")
    return Loops(emitted)


DECORATED = "@njit(**OPTIONS, cache=CACHED)\ndef "


class Unit:
    """A program as statements of a loop."""

    def __init__(self, program: Program, prefix: str):
        self.program, self.prefix = program, prefix
        self.plan = plan(program)
        for step in self.plan.steps:
            if not isinstance(step, Part):
                raise Unliftable(step.form.reason)
        self.source = emit(self.plan)
        self.work: list[tuple[str, tuple[int, ...], np.dtype]] = []
        self.constants = [(f"{prefix}{self.source.names[node]}", node.form.array) for node in self.source.constants]
        text = self.source.text.removeprefix(HEADER).split(f"{DECORATED}main(")[0]
        self.text = re.sub(r"part(\d)", rf"{prefix}part\1", text).strip()
        self.numbers = len(self.source.parts) == 1 and not any(node.shape for part in self.source.parts.values() for node in part)
        if self.numbers:
            self.return_numbers()

    def return_numbers(self):
        """Let the only part, which computes numbers from numbers, return them: so they stay in registers."""
        (part,) = self.source.parts.values()
        made = [name for node in part if (name := self.source.names[node])[0] in "yw"]
        lines = [line for line in self.text.replace("[()]", "").split("\n") if line]
        given = ", ".join(name for node in part if (name := self.source.names[node]) not in made)
        at = next(i for i, line in enumerate(lines) if line.startswith("def "))
        lines[at] = f"def {self.prefix}part0({given}):"
        self.text = "\n".join([*lines, f"    return {', '.join(made)},"])

    def statements(self, inputs: list[str], targets: list[str], values: list) -> list[str]:
        """Return the lines that compute the outputs from `inputs`: arrays into the arrays `targets`, numbers assigned to them.

        `values` have the shapes of the outputs, which may be literals, or None for zero.
        """
        nodes = [self.plan.nodes[out] if isinstance(out, Value) else out for out in self.program.outputs]
        names: dict[str, str] = {}
        rest = []
        for node, target, value in zip(nodes, targets, values, strict=True):
            name = self.source.names.get(node) if isinstance(node, Node) and node.shape else None
            if name is not None and name[0] == "y" and name not in names:
                names[name] = target
            else:
                rest.append((target, node, value.shape))
        lines: list[str] = []
        for function in self.source.parts.values():
            made = [] if not self.numbers else [f"{self.prefix}{name}" for node in function if (name := self.source.names[node])[0] in "yw"]
            given = [self.argument(node, names, inputs) for node in function if f"{self.prefix}{self.source.names[node]}" not in made]
            lines.append((f"{', '.join(made)}, = " if made else "") + f"{self.prefix}part{len(lines)}({', '.join(given)})")
        numbers = [(target, self.seen(node, names, inputs)) for target, node, shape in rest if not shape]
        for target, node, shape in rest:
            if shape:
                number = not isinstance(node, Node) or isinstance(memory_of(node).form, Fill)
                lines += assignment(target, self.seen(node, names, inputs), shape, number)
        if numbers:  # at once: one may be read for another
            lines.append(f"{', '.join(target for target, _ in numbers)} = {', '.join(value for _, value in numbers)}")
        return lines

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
        if name is None:  # an input that no part reads
            name = f"x{[self.plan.nodes[value] for value in self.program.inputs].index(memory)}"
        text = self.named(name, names, inputs)
        if not memory.shape:
            return text if name[0] == "x" or self.numbers else f"{text}[()]"
        if node.shape == memory.shape:
            return text
        return f"{text}.reshape({node.shape})" if node.shape else f"{text}[{', '.join('0' * memory.ndim)}]"


def literal(number):
    """Return the source of a number."""
    number = number.item() if isinstance(number, np.generic) else number
    if isinstance(number, float) and not math.isfinite(number):
        return "math.nan" if math.isnan(number) else f"{'-' if number < 0 else ''}math.inf"
    return repr(number)


def assignment(target, source, shape, number):
    """Return the lines that copy an array: loops, because numba takes seconds to compile the assignment of a slice."""
    index = [f"i{axis}" for axis in range(len(shape))]
    loops = [f"{'    ' * axis}for i{axis} in range({n}):" for axis, n in enumerate(shape)]
    at = f"[{', '.join(index)}]"
    return [*loops, f"{'    ' * len(shape)}{target}{at} = {source}{'' if number else at}"]


class Group:
    """Arrays of one role (see the module) in the loops: those of no axes are numbers there, in variables of their own."""

    def __init__(self, letter, values, positions=None):
        positions = range(len(values)) if positions is None else positions
        self.values = [values[i] for i in positions]
        self.arrays = [f"{letter}{i}" for i in positions]
        self.names = [name if value.shape else f"{name}_" for name, value in zip(self.arrays, self.values, strict=True)]

    def load(self):
        """Return the lines that take the numbers out of their arrays."""
        return [f"{name} = {array}[()]" for name, array in zip(self.names, self.arrays, strict=True) if name != array]

    def store(self):
        """Return the lines that put the numbers back."""
        return [f"{array}[()] = {name}" for name, array in zip(self.names, self.arrays, strict=True) if name != array]

    def rows(self, index):
        return [f"{array}[{index}]" for array in self.arrays]

    def into(self, other):
        """Return where new values go: numbers into the same variables, arrays into those of `other`."""
        return [a if a != array else b for a, array, b in zip(self.names, self.arrays, other.names, strict=True)]

    def swap(self, other):
        """Return the lines after which the arrays of `other` are this one's."""
        return [f"{a}, {b} = {b}, {a}" for a, b, value in zip(self.arrays, other.arrays, self.values, strict=True) if value.shape]


def emit_loops(step: Program, pullback: Program, shape: Shape) -> Emitted:
    """Return the module of a step's program ``(k, *state, *rows, *params) -> (*state, *outs)`` and that of its pullback.

    The pullback takes the cotangents of the floating leaves of the state and of the floating outs besides, and gives those of the
    floating leaves, of the active rows and of the active parameters. What has no loop form raises `Unliftable`.
    """
    forward, back = Unit(step, "step_"), Unit(pullback, "pull_")
    s, t, b = (Group(letter, shape.state) for letter in "stb")
    g, h = (Group(letter, shape.state, shape.floating) for letter in "gh")
    p, u, o = Group("p", shape.params), Group("u", shape.rows), Group("o", shape.outs)
    d, e = Group("d", shape.outs, shape.floating_outs), Group("e", shape.rows, shape.active_rows)
    q, r = (Group(letter, shape.params, shape.active_params) for letter in "qr")

    def pulled(state):
        given = ["k", *state, *u.rows("k"), *p.names, *g.names, *d.rows("k")]
        sums = [f"{total} += {share}" for total, share in zip(q.names, r.names, strict=True)]
        return [*back.statements(given, [*g.into(h), *e.rows("k"), *r.names], [*g.values, *e.values, *r.values]), *sums, *g.swap(h)]

    once = forward.statements(["k", *s.names, *u.rows("k"), *p.names], [*s.into(t), *o.rows("k")], [*s.values, *o.values])
    again = forward.statements(["k", *b.rows("j"), *u.rows("k"), *p.names], [*b.rows("j + 1"), *o.rows("k")], [*s.values, *o.values])
    one, many = pulled(s.names), pulled(b.rows("j"))
    work = list(dict.fromkeys((*forward.work, *back.work)))
    constants = [*forward.constants, *back.constants]
    common = [*s.arrays, *t.arrays, *p.arrays, *u.arrays, *o.arrays, *(name for name, *_ in (*work, *constants))]
    others = [*g.arrays, *h.arrays, *d.arrays, *e.arrays, *q.arrays, *r.arrays, *b.arrays]
    lines = [
        f"{DECORATED}advance({', '.join(('k0', 'k1', *common))}):",
        *indented(1, s.load(), p.load()),
        "    for k in range(k0, k1):",
        *indented(2, once, s.swap(t)),
        *indented(1, s.store() or ["return"]),
        "",
        "",
        f"{DECORATED}pull({', '.join(('k0', 'k1', *common, *others))}):",
        *indented(1, s.load(), p.load(), g.load(), q.load()),
        "    if k1 - k0 == 1:",
        "        k = k0",
        *indented(2, one),
        "    else:",
        "        for k in range(k0, k1 - 1):",
        "            j = k - k0",
        *indented(3, again),
        "        for k in range(k1 - 1, k0 - 1, -1):",
        "            j = k - k0",
        *indented(3, many),
        *indented(1, g.store(), q.store()),
    ]  # fmt: skip
    text = "\n\n\n".join([HEADER.rstrip(), forward.text, back.text, "\n".join(lines)]) + "\n"
    return Emitted(text, [(shape, dtype) for _, shape, dtype in work], [array for _, array in constants])


def indented(depth, *groups):
    return [f"{'    ' * depth}{line}" for lines in groups for line in lines]
