"""Members side by side: the program of one, for arguments that have one more axis in front, along which the members stand.

The rows say how their functions act on a leading axis (`rules/batching.py`). What is a number in the program of one is an array here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.traced import example_of
from ..rules.kinds import ROWS
from .nested import Scan
from .passes import optimised
from .program import Program, Value, map_values, values_in
from .trace import Trace


class Separate(Exception):
    """Members cannot stand side by side: a function has no form for a leading axis, or another dtype with it."""


def side_by_side(program: Program, examples, moving, count: int) -> Program:
    """Return the program of `count` members, from inputs of which those that are `moving` have the leading axis, as all outputs have.

    The examples are those of one member. What has no such program raises `Separate`.
    """
    with Trace() as trace:
        given = [trace.input(np.stack([x] * count) if moves else x) for x, moves in zip(examples, moving, strict=True)]
        members = Members(trace, program, given, moving, count)
        made = trace.finish([members.member(out) for out in program.outputs])
    return optimised(made, adjoint=program.adjoint)


class Members:
    """What is held while a program is evaluated for many members: values that are the `same` for all, those with the axis of members in
    front (`along`), and results of loops with the axis of `turns` in front of that."""

    def __init__(self, trace, program, given, moving, count):
        self.count = count
        self.same, self.along, self.turns = dict(program.constants), dict[Value, Any](), dict[Value, Any]()
        for value, x, moves in zip(program.inputs, given, moving, strict=True):
            (self.along if moves else self.same)[value] = x
        for operation in program.operations:
            trace.at(operation)
            if not any(map(self.moves, operation.reads)):
                operation.evaluate(self.same)
            elif type(operation.fn) is Scan:
                self.loop(operation)
            else:
                self.operation(operation)

    def moves(self, argument):
        """Return whether an argument is a value that differs from member to member."""
        return type(argument) is Value and (argument in self.along or argument in self.turns)

    def shared(self, argument):
        """Return an argument that is the same for all members."""
        if any(map(self.moves, values_in(argument))):
            raise Separate("an index, or what stands in a list, differs from member to member")
        return map_values(self.same.__getitem__, argument)

    def member(self, argument):
        """Return an argument with the axis of members in front."""
        if not self.moves(argument):
            x = self.shared(argument)
            return np.broadcast_to(x, (self.count, *np.shape(x)))
        if argument not in self.along:
            self.along[argument] = np.moveaxis(self.turns[argument], 1, 0)
        return self.along[argument]

    def operation(self, operation):
        """Evaluate an operation by its row's form for a leading axis."""
        row, args = ROWS.get(operation.fn), operation.args
        batched = {i for i, arg in enumerate(args) if self.moves(arg)}
        given = [self.member(arg) if i in batched else self.shared(arg) for i, arg in enumerate(args)]
        made = NotImplemented
        if row is not None and row.batch:
            made = row.batch(row.fn if row.canonical is None else row.call, given, self.shared(operation.kwargs), batched)
        if made is NotImplemented:
            raise Separate(f"{operation!r} has no form for a leading axis")
        for value, x in zip(operation.outputs, made if operation.several else (made,), strict=True):
            integer = value.kind == "python" and value.dtype.kind == "i"  # which may grow beyond 64 bits
            if integer or np.shape(x) != (self.count, *value.shape) or x.dtype != value.dtype:
                raise Separate(f"{operation!r} has another result with a leading axis")
            self.along[value] = x

    def loop(self, operation):
        """Enter a loop, whose body is the program of a turn of all members."""
        loop, args = operation.fn, operation.args
        if loop.live is not None and any(map(self.moves, args)):
            raise Separate("each member makes a number of turns of its own")
        count, last = loop.carried, loop.carried + loop.rows
        moving = list(map(self.moves, args))
        while True:
            given = [self.member(arg) if moves else self.shared(arg) for arg, moves in zip(args, moving, strict=True)]
            for i in range(count, last):
                if moving[i]:
                    given[i] = self.turns[args[i]] if args[i] in self.turns else np.moveaxis(given[i], 0, 1)
            examples = list(map(example_of, given))
            for i in range(count, last):
                examples[i] = examples[i][0] if moving[i] else loop.row(i - count, examples[i], 0)
            with Trace() as trace:
                inputs = [trace.input(x) for x in (0, *examples)]
                turn = Members(trace, loop.body, inputs, [False, *moving], self.count)
                outs = [(i < count and moving[i]) or turn.moves(out) for i, out in enumerate(loop.body.outputs)]
                if outs[:count] == moving[:count]:
                    results = [turn.member(out) if moves else turn.shared(out) for out, moves in zip(loop.body.outputs, outs, strict=True)]
                    body = optimised(trace.finish(results), adjoint=loop.body.adjoint)
                    break
            moving[:count] = outs[:count]
        made = Scan(body, loop.count, loop.carried, loop.rows, loop.backwards)(*given)
        for i, (value, x, moves) in enumerate(zip(operation.outputs, made, outs, strict=True)):
            (self.same if not moves else self.along if i < count else self.turns)[value] = x
