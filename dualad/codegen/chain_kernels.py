"""The loops of a chain: many steps in one compiled call, forward and in reverse.

``advance`` makes steps k0 to k1 - 1 from a state that it does not write, with two buffers that change places: after an odd number of
steps the result is in the first of them, else in the second. ``fill`` puts the states x_{k0 + 1} to x_{k1 - 1}, behind a state that it
does not write, into one buffer, over which ``pull`` runs the pullbacks backwards. They call the parts of the programs of a step and of
its pullback; nothing is allocated a step. With a predicate, ``advance`` asks it before each step but the first. A step, or a predicate,
that takes a path not yet seen (its output `left`) ends the loop, and the state before it stays. ``end`` takes the k at which a loop ended,
``~k`` where step k left.

==========  ==========================================================================================
``s t w``   state: the leaves, and two buffers for them (all arrays; numbers are arrays without axes)
``n``       numbers of the next state, where a step may leave
``p  u``    parameters; inputs, with a row for each step
``o``       outs, with a row for each step
``b  c``    states of a block but the first, with a leading axis; the state under way
``g  h``    cotangents of the floating leaves of the state; second buffers, in which they are after an odd number of steps
``d  e``    cotangents of the outs (rows); of the inputs (rows, written)
``q  r``    sums of the cotangents of the parameters; of those that are not added where they are computed, the share of one step
==========  ==========================================================================================
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..graph.nested import Scan
from ..graph.split import Routine
from ..ir.nodes import Assign, Call, Fill, For, ForRows, Function, If, Load, Module, Store, Var, number
from ..ir.values import Value, op, unwrapped
from ..ir.verify import checking, verify
from ..ir.walk import walked
from ..loops.forms import NoLoopForm
from ..rules.kinds import row_says
from .build import array, row_of, variable
from .fragments import Unit
from .native import compiled, too_long


def place(room, free, kind):
    """Return the next free array of a kind, or a new one."""
    array = next(free.get(kind, iter(())), None)
    if array is None:
        array = np.empty(*kind)
        room.setdefault(kind, []).append(array)
    return array


class ChainKernels:
    """Emitted functions, which may call those `within`, and what they work in; compiled ones are attributes of the same name.

    `threads` says how many share nests in blocks, None where there are none.
    """

    def __init__(self, units: list[Unit], functions: list[Function], threads: int | None, within: Sequence[Function] = ()):
        self.module = Module((*(part for unit in units for part in unit.module.parts), *within, *functions))
        reason = too_long(self.module, *(unit.program for unit in units))
        if reason is not None:
            raise NoLoopForm(reason)
        self.units, self.functions, self.threads, self.compiled = units, functions, threads, False
        self.rooms = [[(x.shape, x.dtype) for x in unit.work.values()] for unit in units]
        self.shares: list[int] = []  # the positions of the parameters that have a share
        self.in_python = list(dict.fromkeys(call for unit in units for call in unit.source.in_python))

    def work(self, room):
        """Return, for each unit, arrays to work in and the constants. Arrays are taken from `room`, lists of them by shape and dtype, and
        added to it; units of one function share none, as its arguments must not overlap."""
        if not any(self.rooms):
            return [list(unit.arrays) for unit in self.units]
        together, made = len(self.functions) < len(self.units), list[list]()
        free: dict = {}
        for unit, kinds in zip(self.units, self.rooms, strict=True):
            free = free if together and made else {kind: iter(tuple(arrays)) for kind, arrays in room.items()}
            made.append([*[place(room, free, kind) for kind in kinds], *unit.arrays])
        return made

    def compile(self):
        """Compile the functions, or load their machine code."""
        if checking():
            verify(self.module)
        step = {part.name for part in self.units[0].module.parts if isinstance(part, Function) and has_loops(part)}
        for function in self.functions:
            shared = step & {node.function for node in walked(function.body) if isinstance(node, Call)}
            setattr(self, function.name, compiled(self.module, function.name, threads=self.threads or 1, shared=sorted(shared)))
        self.compiled = True


def has_loops(function):
    """Return whether there are loops in a function, so that it is no part of those of its caller."""
    return any(isinstance(node, For | ForRows) for node in walked(function.body))


class Group:
    """Arrays of one role (see the module) in the loops: those of no axes are numbers there, in variables of their own, or have `rows`."""

    def __init__(self, letter, values, rows=0):
        self.values = values
        self.arrays = [array(f"{letter}{i}", value, rows) for i, value in enumerate(values)]
        self.names = [x if value.shape else variable(f"{x.name}_", value) for x, value in zip(self.arrays, values, strict=True)]
        self.numbers = [i for i, value in enumerate(values) if not value.shape]

    def load(self):
        """Return the statements that take the numbers out of their arrays."""
        return [assign(self.names[i], Load(self.arrays[i], ())) for i in self.numbers]

    def store(self, *others):
        """Return the statements that put the numbers into the arrays of other groups."""
        return [Store(other.arrays[i], (), self.names[i]) for other in others for i in self.numbers]

    def rows(self, index):
        return [row_of(x, index) for x in self.arrays]

    def into(self, targets):
        """Return where new values go: numbers into the same variables, arrays into these targets."""
        return [name if i in self.numbers else target for i, (name, target) in enumerate(zip(self.names, targets, strict=True))]

    def swap(self, first, second):
        """Return the statements after which these arrays are the newest ones; `second` takes their place."""
        return [
            Assign((new, one, two), (one, two, one)) if one is not two else Assign((new, one), (one, new))
            for new, one, two, value in zip(self.arrays, first.arrays, second.arrays, self.values, strict=True)
            if value.shape
        ]


def assign(target, value):
    return Assign((target,), (value,))


k, k0, k1, j = (Var(name, "int64") for name in ("k", "k0", "k1", "j"))
K, K0, K1 = Value(k), Value(k0), Value(k1)
going, reached, end = Var("going", "bool"), Var("reached", "int64"), array("end", np.empty((), np.int64))
LEAVES = (assign(going, number(False)), assign(reached, unwrapped(~K)))


class Roles:
    """The groups of arrays of a step."""

    def __init__(self, step: Routine, threads: int | None):
        _, state, rows, params = step.inputs
        self.outputs = [out for group in step.outputs for out in group]
        self.unit = Unit(step.program, "step_", threads is not None)
        self.s, self.t, self.w, self.c, self.n, self.p = (
            Group(letter, values) for letter, values in zip("stwcnp", (*[state] * 5, params), strict=True)
        )
        self.left = left_of(step)
        self.b, self.u, self.o = Group("b", state, 1), Group("u", rows, 1), Group("o", step.outputs[1], 1)
        self.given = [*self.p.arrays, *self.u.arrays]

    def step(self, state, into, then):
        """Return the statements of step k of `state`, which its numbers and the arrays `into` hold, and of what follows unless it left."""
        given = [k, *state, *self.u.rows(k), *self.p.names]
        new = self.n if self.left else self.s
        made = self.unit.statements(given, [*new.into(into), *self.o.rows(k), *self.left], self.outputs)
        if not self.left:
            return [*made, *then]
        taken = [assign(self.s.names[i], self.n.names[i]) for i in self.s.numbers]
        return [If(going, (*made, If(leaves(self.left), LEAVES, (*taken, *then))))]


def left_of(routine):
    """Return the variable, in a list, of the output that says whether a program took a path not yet seen; none where all are known."""
    return [variable("left", out) for out in routine.outputs[-1]]


def leaves(left):
    """Return the condition that it does so: a program that knows paths on which it does more than compute gives a number."""
    return left[0] if left[0].dtype == "bool" else op("not_equal", left[0], number(0))


def emit_advance(step: Routine, until: Routine | None = None, threads: int | None = None) -> ChainKernels:
    """Return the loops that make steps; with a predicate of k and the first leaves of the state, they end where it comes true.

    What has no loop form raises `NoLoopForm`.
    """
    roles = Roles(step, threads)
    s, t, w, p = roles.s, roles.t, roles.w, roles.p
    units = [roles.unit, *([] if until is None else [Unit(until.program, "until_", threads is not None)])]
    counted = [] if until is None else [assign(reached, unwrapped(K + 1))]
    made = roles.step(s.names, t.arrays, [*s.swap(t, w), *counted])
    if until is not None:  # the IR has no break
        over, left = variable("over", until.outputs[0][0]), left_of(until)
        asked = units[-1].statements([k, *s.names[: len(until.inputs[1])]], [over, *left], [*until.outputs[0], *until.outputs[1]])
        ends = assign(going, op("not", over))
        asked.append(If(leaves(left), LEAVES, (ends,)) if left else ends)
        made = [If(op("and", going, unwrapped(K > K0)), tuple(asked)), If(going, tuple(made))]
    given = [k0, k1, end, *s.arrays, *t.arrays, *w.arrays, *roles.given, *roles.o.arrays, *(x for unit in units for x in unit.others)]
    statements = [
        *s.load(),
        *p.load(),
        assign(going, number(True)),
        assign(reached, k1 if until is None else k0),
        For(k, k0, k1, tuple(made)),
        *s.store(t, w),
        Store(end, (), reached),
    ]
    return ChainKernels(units, [Function("advance", tuple(given), tuple(statements))], threads)


def emit_pull(step: Routine, pull: Routine, threads: int | None = None) -> ChainKernels:
    """Return the loops that fill a buffer with states, and pull cotangents back over it."""
    roles = Roles(step, threads)
    first_sum = len(pull.program.outputs) - len(pull.outputs[2])
    # derivatives need not have NumPy's roundings, unless they ask which element is the maximum, or where there is a kink
    fuses = not (roles.left or chooses(pull.program))
    unit = Unit(pull.program, "pull_", threads is not None, range(first_sum, len(pull.program.outputs)), fuses)
    shares = [i for i in range(len(pull.outputs[2])) if first_sum + i not in unit.added]
    s, b, c, u, p, o = roles.s, roles.b, roles.c, roles.u, roles.p, roles.o
    g, h = (Group(letter, pull.inputs[4]) for letter in "gh")
    d, e = Group("d", pull.inputs[5], 1), Group("e", pull.outputs[1], 1)
    q, r = Group("q", pull.outputs[2]), Group("r", [pull.outputs[2][i] for i in shares])
    first = [assign(now, x) for now, x in zip(c.names, s.names, strict=True)]
    kept = [
        Store(row.array, row.index, x) if i in s.numbers else assign(now, row)
        for i, (now, row, x) in enumerate(zip(c.names, b.rows(j), s.names, strict=True))
    ]
    made = roles.step(s.into(c.arrays), b.rows(j), kept)
    inputs = [k, *c.names, *u.rows(k), *p.names, *g.names, *d.rows(k)]
    places = [q.names[i] if i not in shares else r.names[shares.index(i)] for i in range(len(q.names))]
    pulled = unit.statements(inputs, [*g.into(h.arrays), *e.rows(k), *places], [*g.values, *e.values, *q.values])
    sums = [
        Fill(q.names[i], x, adds=True) if value.shape else assign(q.names[i], op("add", q.names[i], x))
        for i, x, value in zip(shares, r.names, r.values, strict=True)
    ]
    block = [k0, k1, *s.arrays, *b.arrays, *roles.given]
    before = [assign(now, row) for now, row in zip(c.names, b.rows(unwrapped(K - K0 - 1)), strict=True)]
    fill = Function(
        "fill",
        (*block, end, *o.arrays, *roles.unit.others),
        (
            *s.load(),
            *p.load(),
            *first,
            assign(going, number(True)),
            assign(reached, unwrapped(K1 - 1)),
            For(k, k0, unwrapped(K1 - 1), (assign(j, unwrapped(K - K0)), *made)),
            Store(end, (), reached),
        ),
    )
    turn = (*first, If(unwrapped(K > K0), tuple(before)), *pulled, *sums, *g.swap(h, h))
    pulling = Function(
        "pull",
        (*block, *(x for group in (g, h, d, e, q, r) for x in group.arrays), *unit.others),
        (
            *(statement for group in (s, p, g, q) for statement in group.load()),
            For(k, unwrapped(K1 - 1), unwrapped(K0 - 1), turn, -1),
            *g.store(g, h),
            *q.store(q),
        ),
    )
    loops = ChainKernels([roles.unit, unit], [fill, pulling], threads)
    loops.shares = shares
    return loops


def chooses(program):
    """Return whether a program calls functions that jump."""
    return any(
        (type(operation.fn) is Scan and chooses(operation.fn.body))
        or (row_says(operation.fn, "chooses") and any(value.dtype.kind in "fc" for value in operation.reads))
        for operation in program.operations
    )
