"""Detection: a program is read for which inputs each element of its outputs depends on.

Its operations are evaluated on sets of inputs in the place of numbers, as the rows of their functions say (`calls`).
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from ..graph.nested import Scan
from ..graph.program import Program, Value
from ..support.costs import PROGRAM_OPERATIONS
from .calls import called
from .sets import Sets, TooDense, identity_table, map_tables


def dependencies(program: Program, active, columns, numbered) -> list:
    """Return for each output of a program which columns its elements depend on: boolean sparse matrices of one row an element.

    `active` inputs stand for the columns, in order; `numbered` says how many elements each output has, literals too.
    """
    table, start = identity_table(columns), 1
    sets = {value: Sets(value.shape) for value in program.inputs}
    for value in active:
        numbers = np.arange(start, start + value.size, dtype=np.intp).reshape(value.shape)
        sets[value] = Sets(value.shape, [(numbers, table)])
        start += value.size
    reader = Reader(program, sets, {})
    rows = []
    for k, (out, size) in enumerate(zip(program.outputs, numbered, strict=True)):
        try:
            rows.append((reader.of(out) if isinstance(out, Value) else Sets((size,))).matrix(columns))
        except TooDense as error:
            raise TooDense(f"sparsity: output {k}, {out.type}: {error}: the derivative is dense") from None
    return rows


class Reader:
    """The sets of the values of a program, and the arrays of those that are the same for all inputs; what dies is forgotten."""

    def __init__(self, program: Program, sets: dict[Value, Sets], arrays: dict[Value, object]):
        self.sets = sets | {value: Sets(value.shape) for value in program.constants}
        self.arrays = arrays | program.constants
        for operation, dead in zip(program.operations, program.last_uses(), strict=True):
            self.read(operation)
            for value in dead:
                self.sets.pop(value, None)
                self.arrays.pop(value, None)

    def of(self, argument) -> Sets:
        """Return the sets of an argument of an operation, none of what is no value."""
        return self.sets[argument] if type(argument) is Value else Sets(np.shape(argument))

    def known(self, argument):
        """Return the array or number that an argument always is, None where it is computed."""
        return self.arrays.get(argument) if type(argument) is Value else argument

    def read(self, operation):
        """Find the sets of the results of an operation."""
        loop, reads, outs = operation.fn, operation.reads, operation.outputs
        if all(value in self.arrays for value in reads):
            with np.errstate(all="ignore"), suppress(Exception):  # it raises when the function is called
                operation.evaluate(self.arrays)
        if not any(self.sets[value].parts for value in reads):
            results = [Sets(out.shape) for out in outs]
        elif type(loop) is Scan and loop.live is None and loop.count * len(loop.body.operations) <= PROGRAM_OPERATIONS:
            results = self.loop_results(loop, operation.args)
        else:
            try:
                results = called(operation, self.of, self.known)
            except TooDense as error:
                where = f" of line {operation.line[1]} of {operation.line[0]}" if operation.line else ""
                raise TooDense(f"sparsity: at the result {outs[0].type}{where} {error}: the derivative is dense") from None
        self.sets.update(zip(outs, results, strict=True))

    def loop_results(self, loop, args):
        """Return the sets of the results of a loop, whose turns are read one after the other."""
        carried, stacks, params = loop.split([(self.of(arg), self.known(arg)) for arg in args])
        columns: dict = {}
        for turn in loop.order:
            rows = [
                (sets.map(lambda rows, turn=turn: rows[turn], sets.shape[1:]), None if array is None else loop.row(i, array, turn))
                for i, (sets, array) in enumerate(stacks)
            ]
            given = dict(zip(loop.body.inputs, [(Sets(()), turn), *carried, *rows, *params], strict=True))
            arrays = {value: array for value, (_, array) in given.items() if array is not None}
            reader = Reader(loop.body, {value: sets for value, (sets, _) in given.items()}, arrays)
            made = [(reader.of(out), reader.known(out)) for out in loop.body.outputs]
            carried, columns[turn] = made[: loop.carried], [sets for sets, _ in made[loop.carried :]]
        stacked = zip(*(columns[turn] for turn in range(loop.count)), strict=True)
        results = [map_tables((loop.count, *column[0].shape), column, lambda *rows: np.stack(rows)) for column in stacked]
        return [*(sets for sets, _ in carried), *results]
