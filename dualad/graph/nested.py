"""Operations that are made of programs: a branch, which is one of two, and a loop, many turns of one.

A branch is ``branch(test, *values)``: both programs take the values and give outputs of the same kinds. Its derivatives are branches with
the same test (see `differentiate`). A path of a function that nobody has traced yet is an ordinary program, too (see `paths`).

A loop's body is the program of one turn ``(k, *carried, *rows, *params) -> (*carried, *outs)``: what it carries on from turn to turn, a
row of each stacked array, what is the same in all turns; and its outs, which are stacked. The operation takes ``(*carried, *stacks,
*params)`` and gives the carried values after the last turn, and the stacked outs. A loop may run backwards, from row ``count - 1`` to row
0: so its derivatives are loops again. Of a loop that is `live` by one of the body's inputs (its place among those behind k), only the turns
are made for which that is True: the others change nothing that is carried, and their outs are zeros.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.dispatch import highest
from ..rules.indexing import cast
from ..support.forks import cached_property
from .program import Kind, Program, Value, kind_of
from .symbol import Symbol
from .to_numpy import compile_python
from .trace import BY_VALUE


class Nested:
    """The function of such an operation, of its `bodies` by name; those of equal `key` are equal."""

    bodies: Any
    key: Any
    evaluate: Any  # what it does with plain values
    interpret: Any  # and with traced ones
    example: Any  # and in place of plain values, for the shapes of its results
    sampled = False  # examples are of one turn

    def __eq__(self, other):
        return self is other or (type(other) is type(self) and self.key == other.key)

    def __hash__(self):
        return hash((type(self), *(len(body.operations) for body in self.bodies.values())))

    def __call__(self, *args):
        """Return the results for plain values, or for Symbols, into whose program the operation is entered; for others, by the programs."""
        top = highest(args)
        if top is None:
            return self.evaluate(*args)
        if type(top) is Symbol:
            top.level.sampled |= self.sampled
            return top.level.record(self, self.example, args, {})
        return self.interpret(*args)


class Branch(Nested):
    """The function of a branch's operation."""

    __name__ = "branch"
    fresh = True  # results show no memory of arguments

    def __init__(self, then: Program, otherwise: Program):
        self.then, self.otherwise = then, otherwise
        self.bodies = {"then": then, "otherwise": otherwise}

    @cached_property
    def key(self):
        return self.then.key(), self.otherwise.key()

    @cached_property
    def executables(self):
        return [compile_python(body) for body in (self.otherwise, self.then)]

    def evaluate(self, test, *values):
        return self.executables[bool(test)].call(*values)

    def interpret(self, test, *values):
        return tuple((self.then if test else self.otherwise).run(*values))

    def plain(self, test, *values):
        """Return the results for plain values, where somebody else ignores floating-point errors."""
        return self.executables[bool(test)].bare(*values)

    def example(self, test, *values):
        """Return results of the right shapes; an example may be what `solve` refuses."""
        for truth in (test, not test):
            try:
                return self.plain(truth, *values)
            except BY_VALUE:
                pass
        return tuple([ones_of(kind_of(out)) for out in self.then.outputs])


class Scan(Nested):
    """The function of a loop's operation."""

    __name__ = "loop"
    sampled = True

    def __init__(self, body: Program, count: int, carried: int, rows: int, backwards=False, live: int | None = None):
        self.body, self.count, self.carried, self.rows, self.backwards, self.live = body, count, carried, rows, backwards, live

    @property
    def bodies(self):
        return {repr(self): self.body}

    @cached_property
    def key(self):
        return self.count, self.carried, self.rows, self.backwards, self.live, self.body.key()

    def __repr__(self):
        most = "at most " * (self.live is not None)
        return f"loop of {most}{self.count} turns{' backwards' * self.backwards}, {self.carried} carried, {self.rows} stacked"

    def split(self, args):
        """Return what is carried, the stacks and the params."""
        return args[: self.carried], args[self.carried : self.carried + self.rows], args[self.carried + self.rows :]

    def first(self, args):
        """Return arguments of the body's first turn, without k."""
        carried, stacks, params = self.split(args)
        return [*carried, *(self.row(i, stack, 0) for i, stack in enumerate(stacks)), *params]

    def row(self, i, stack, k):
        row = stack[k]
        return row.item() if self.body.inputs[1 + self.carried + i].kind == "python" else row

    @cached_property
    def turn(self):
        return compile_python(self.body).call

    def evaluate(self, *args):
        carried, stacks, params = self.split(args)
        outs = self.zeros(self.count)
        for k in self.order:
            given = [*carried, *(self.row(i, stack, k) for i, stack in enumerate(stacks)), *params]
            if self.live is None or given[self.live]:
                carried = self.put(self.turn(k, *given), outs, k)
        return (*carried, *outs)

    def zeros(self, *rows):
        """Return zeros in place of the outs of a turn, or of so many rows of them."""
        return [np.zeros((*rows, *out.shape), out.dtype) for out in map(kind_of, self.body.outputs[self.carried :])]

    def put(self, made, outs, k):
        """Return what a turn carries on; its outs become rows."""
        for stack, out in zip(outs, made[self.carried :], strict=True):
            stack[k] = out
        return made[: self.carried]

    def example(self, *args):
        """Return results of the right shapes: those of one turn, stacked as if all turns gave them (zeros may be what `solve` refuses)."""
        outs = self.zeros(self.count)
        results = (*self.put(self.turn(self.order[0], *self.first(args)), outs, self.order[0]), *outs)
        for stack in results[self.carried :]:
            stack[...] = stack[self.order[0]].copy()
        return results

    def interpret(self, *args):
        carried, stacks, params = self.split(args)
        rows: dict = {}
        for k in self.order:
            given = [*carried, *(stack[k] for stack in stacks), *params]
            if self.live is None or given[self.live]:
                made = self.body.run(k, *given)
                carried, rows[k] = made[: self.carried], made[self.carried :]
            else:
                rows[k] = self.zeros()
        return (*carried, *(np.stack(column) for column in zip(*(rows[k] for k in range(self.count)), strict=True)))

    @property
    def order(self):
        return range(self.count)[:: -1 if self.backwards else 1]


# --- branches -----------------------------------------------------------------------------------------------------------------


def ones_of(kind: Kind):
    """Return ones of a kind."""
    x = np.ones(kind.shape, kind.dtype, order="F" if kind.layout == "F" else "C")
    return x if kind.kind == "array" else x[()] if kind.kind == "scalar" else x.item()


def align(programs: list[Program]) -> list[bool]:
    """Let programs have outputs of the same kinds; drop those that are None, for zero, in all of them, and return which were kept."""
    columns = list(zip(*(program.outputs for program in programs), strict=True))
    shown = [any(out is not None for out in column) for column in columns]
    kinds = [joint([kind_of(out) for out in column if out is not None]) for column, some in zip(columns, shown, strict=True) if some]
    for program in programs:
        outs = [out for out, some in zip(program.outputs, shown, strict=True) if some]
        program.outputs = [as_kind(program, out, kind) for out, kind in zip(outs, kinds, strict=True)]
    return shown


def joint(kinds: list[Kind]) -> Kind:
    """Return the kind that values of some kinds can have together."""
    layouts = {kind.layout for kind in kinds}
    dtype = np.result_type(*(kind.dtype for kind in kinds))
    role = min((kind.kind for kind in kinds), key=("array", "scalar", "python").index)
    return Kind(kinds[0].shape, dtype, role, layouts.pop() if len(layouts) == 1 else "C")


def as_kind(program: Program, out, kind: Kind):
    """Return an output of a program as one of a kind, of zeros where it is None."""
    like = Value(0, *kind)
    order: Any = "F" if kind.layout == "F" else "C"
    if type(out) is not Value:
        number = np.asarray(0 if out is None else out, kind.dtype)[()]
        if kind.kind != "array":
            return number if kind.kind == "scalar" else number.item()
        if out is not None:
            return program.constant(np.full(kind.shape, number, order=order))
        return program.append(np.zeros, (kind.shape, kind.dtype), {"order": order} if order == "F" else {}, like)
    if out.dtype != kind.dtype or (out.kind == "python" and kind.kind == "scalar"):
        return program.append(cast, (out, kind.dtype), {}, like)
    if kind.kind == "array" and (out.kind != "array" or out.layout != kind.layout):
        return program.append(np.copy, (out,), {"order": order}, like)
    return out
