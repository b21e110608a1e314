"""The loops of a chain: many steps in one compiled call, forward and in reverse.

``advance`` makes steps k0 to k1 - 1 from a state that it does not write, with two buffers that change places: after an odd number of
steps the result is in the first of them, else in the second. ``fill`` puts the states x_{k0 + 1} to x_{k1 - 1}, behind a state that it
does not write, into one buffer, over which ``pull`` runs the pullbacks backwards. They call the parts of the programs of a step and of
its pullback; nothing is allocated a step. With a predicate, ``advance`` asks it before each step but the first; it returns the k at
which it ended. Where threads share nests of a step, Python runs them.

==========  ==========================================================================================
``s t w``   state: the leaves, and two buffers for them (all arrays; numbers are arrays without axes)
``p  u``    parameters; inputs, with a row for each step
``o``       outs, with a row for each step
``b  c``    states of a block but the first, with a leading axis; the state under way
``g  h``    cotangents of the floating leaves of the state; second buffers, in which they are after an odd number of steps
``d  e``    cotangents of the outs (rows); of the inputs (rows, written)
``q  r``    sums of the cotangents of the parameters; of those that are not added where they are computed, the share of one step
==========  ==========================================================================================
"""

from __future__ import annotations

import numpy as np

from ..graph.scan import Scan
from ..graph.split import Routine
from ..loops.forms import NoLoopForm
from ..loops.threads import runner
from ..rules.kinds import row_says
from .cache import load
from .emit import HEADER
from .fragments import Unit
from .native import compiled, driven, parts_of, too_long

__all__ = ["ChainKernels", "emit_advance", "emit_pull"]


class ChainKernels:
    """Emitted functions, and what they work in.

    Attributes
    ----------
    source : the emitted module.
    functions : for each function, the kinds of its parameters; compiled ones are attributes of the same name.
    threads : how many run the parts in blocks.
    shares : the positions of the parameters that have a share.
    """

    def __init__(self, units: list[Unit], functions: dict[str, list], lines: list[str], threads: int | None):
        self.source = "\n\n\n".join([HEADER.rstrip(), *(unit.text for unit in units if unit.text), "\n".join(lines)]) + "\n"
        reason = too_long(self.source, sum(unit.source.nests for unit in units), *(unit.program for unit in units))
        if reason is not None:
            raise NoLoopForm(reason)
        self.units, self.functions, self.threads, self.compiled = units, functions, threads, False
        self.shares: list[int] = []

    def work(self):
        """Return, for each unit, new arrays to work in and the constants."""
        return [[*(np.empty(shape, dtype) for _, shape, dtype in unit.room), *unit.arrays] for unit in self.units]

    def compile(self):
        """Compile the functions, or load their machine code."""
        module = load(self.source)
        if self.units[0].driven:
            run = runner(self.threads)
            parts: dict = {}
            for unit in self.units:
                parts |= parts_of(unit.source, module, self.source, run, named=unit.named_here)
            for name in self.functions:
                setattr(self, name, driven(module, name, parts, run))
        else:
            for name, kinds in self.functions.items():
                setattr(self, name, compiled(self.source, name, kinds))
        self.compiled = True


class Group:
    """Arrays of one role (see the module) in the loops: those of no axes are numbers there, in variables of their own."""

    def __init__(self, letter, values):
        self.values = values
        self.arrays = [f"{letter}{i}" for i in range(len(values))]
        self.names = [name if value.shape else f"{name}_" for name, value in zip(self.arrays, values, strict=True)]

    def kinds(self, rows=0):
        """Return the arrays by name, with what they are; of rows the number does not matter."""
        return {name: ((-1,) * rows + value.shape, value.dtype.name) for name, value in zip(self.arrays, self.values, strict=True)}

    def load(self):
        """Return the lines that take the numbers out of their arrays."""
        return [f"{name} = {array}[()]" for name, array in zip(self.names, self.arrays, strict=True) if name != array]

    def store(self, *others):
        """Return the lines that put the numbers into the arrays of other groups."""
        pairs = [(i, name) for i, name in enumerate(self.names) if name != self.arrays[i]]
        return [f"{other.arrays[i]}[()] = {name}" for other in others for i, name in pairs]

    def rows(self, index):
        return [f"{array}[{index}]" for array in self.arrays]

    def into(self, targets):
        """Return where new values go: numbers into the same variables, arrays into these targets."""
        return [name if name != array else target for name, array, target in zip(self.names, self.arrays, targets, strict=True)]

    def swap(self, first, second):
        """Return the lines after which these arrays are the newest ones; `second` takes their place."""
        return [
            f"{new}, {one}, {two} = {one}, {two}, {one}" if one != two else f"{new}, {one} = {one}, {new}"
            for new, one, two, value in zip(self.arrays, first.arrays, second.arrays, self.values, strict=True)
            if value.shape
        ]


class Roles:
    """The groups of arrays of a step."""

    def __init__(self, step: Routine, threads: int | None):
        _, state, rows, params = step.inputs
        self.unit = Unit(step.program, "step_", threads is not None)
        self.s, self.t, self.w, self.b, self.c = (Group(letter, state) for letter in "stwbc")
        self.u, self.p, self.o = Group("u", rows), Group("p", params), Group("o", step.outputs[1])
        self.given = self.p.kinds() | self.u.kinds(1)

    def step(self, state, into):
        """Return the lines of step k of `state`."""
        given = ["k", *state, *self.u.rows("k"), *self.p.names]
        return self.unit.statements(given, [*self.s.into(into), *self.o.rows("k")], [*self.s.values, *self.o.values])


def settle(units: list[Unit]) -> None:
    """Let Python run the loops of these units if it does for one of them."""
    by_python = any(unit.driven for unit in units)
    for unit in units:
        unit.driven = by_python


def emit_advance(step: Routine, until: Routine | None = None, threads: int | None = None) -> ChainKernels:
    """Return the loops that make steps; with a predicate of k and the first leaves of the state, they end where it comes true.

    What has no loop form raises `NoLoopForm`.
    """
    roles = Roles(step, threads)
    s, t, w, p = roles.s, roles.t, roles.w, roles.p
    units, asked = [roles.unit, *([] if until is None else [Unit(until.program, "until_", threads is not None)])], []
    settle(units)
    if until is not None:
        asked = units[-1].statements(["k", *s.names[: len(until.inputs[1])]], ["over"], until.outputs[0])
    made = [*roles.step(s.names, t.arrays), *s.swap(t, w)]
    if until is not None:  # the language of emitted functions has no break
        made = ["if going & (k > k0):", *indented(1, asked, ["going = not over"]), "if going:", *indented(1, made, ["reached = k + 1"])]
    given = {"k0": "int64", "k1": "int64", "end": ((), "int64")} | s.kinds() | t.kinds() | w.kinds() | roles.given | roles.o.kinds(1)
    for unit in units:
        given |= unit.others
    lines = [
        f"def advance({', '.join(given)}):",
        *indented(1, s.load(), p.load(), ["going = True", "reached = k1" if until is None else "reached = k0"]),
        "    for k in range(k0, k1):",
        *indented(2, made),
        *indented(1, s.store(t, w), ["end[()] = reached"]),
    ]
    return ChainKernels(units, {"advance": list(given.values())}, lines, threads)


def emit_pull(step: Routine, pull: Routine, threads: int | None = None) -> ChainKernels:
    """Return the loops that fill a buffer with states, and pull cotangents back over it."""
    roles = Roles(step, threads)
    first_sum = len(pull.program.outputs) - len(pull.outputs[2])
    # derivatives need not have NumPy's roundings, unless they ask which element is the maximum, or where there is a kink
    fuses = not chooses(pull.program)
    unit = Unit(pull.program, "pull_", threads is not None, range(first_sum, len(pull.program.outputs)), fuses)
    shares = [i for i in range(len(pull.outputs[2])) if first_sum + i not in unit.added]
    settle([roles.unit, unit])
    s, b, c, u, p, o = roles.s, roles.b, roles.c, roles.u, roles.p, roles.o
    g, h = (Group(letter, pull.inputs[4]) for letter in "gh")
    d, e = Group("d", pull.inputs[5]), Group("e", pull.outputs[1])
    q, r = Group("q", pull.outputs[2]), Group("r", [pull.outputs[2][i] for i in shares])
    under_way = [name if name != array else row for name, array, row in zip(s.names, s.arrays, c.arrays, strict=True)]
    first = [f"{name} = {x}" for name, x in zip(c.names, s.names, strict=True)]
    kept = [
        f"{name} = {row}" if name == c_array else f"{row} = {x}"
        for name, c_array, row, x in zip(c.names, c.arrays, b.rows("j"), s.names, strict=True)
    ]
    made = roles.step(under_way, b.rows("j"))
    inputs = ["k", *c.names, *u.rows("k"), *p.names, *g.names, *d.rows("k")]
    totals = [q.names[i] for i in shares]
    places = [q.names[i] if i not in shares else r.names[shares.index(i)] for i in range(len(q.names))]
    pulled = unit.statements(inputs, [*g.into(h.arrays), *e.rows("k"), *places], [*g.values, *e.values, *q.values])
    sums = [line for a, x, value in zip(totals, r.names, r.values, strict=True) for line in unit.assignment(a, x, value.shape, False, "+=")]
    block = {"k0": "int64", "k1": "int64"}
    filling = block | s.kinds() | b.kinds(1) | roles.given | o.kinds(1) | roles.unit.others
    pulling = (
        block | s.kinds() | b.kinds(1) | roles.given | g.kinds() | h.kinds() | d.kinds(1) | e.kinds(1) | q.kinds() | r.kinds() | unit.others
    )
    lines = [
        f"def fill({', '.join(filling)}):",
        *indented(1, s.load(), p.load(), first),
        "    for k in range(k0, k1 - 1):",
        "        j = k - k0",
        *indented(2, made, kept),
        "",
        "",
        f"def pull({', '.join(pulling)}):",
        *indented(1, s.load(), p.load(), g.load(), q.load()),
        "    for k in range(k1 - 1, k0 - 1, -1):",
        *indented(2, first, ["if k > k0:"]),
        *indented(3, [f"{name} = {row}" for name, row in zip(c.names, b.rows("k - k0 - 1"), strict=True)]),
        *indented(2, pulled, sums, g.swap(h, h)),
        *indented(1, g.store(g, h), q.store(q)),
    ]
    loops = ChainKernels([roles.unit, unit], {"fill": list(filling.values()), "pull": list(pulling.values())}, lines, threads)
    loops.shares = shares
    return loops


def chooses(program):
    """Return whether a program calls functions that jump."""
    return any(
        (type(operation.fn) is Scan and chooses(operation.fn.body))
        or (row_says(operation.fn, "chooses") and any(value.dtype.kind in "fc" for value in operation.reads))
        for operation in program.operations
    )


def indented(depth, *groups):
    return [f"{'    ' * depth}{line}" for lines in groups for line in lines]
