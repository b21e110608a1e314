"""Rolling up: a loop in Python, which the trace has unrolled, becomes one operation again (`repeat`).

The list of operations is periodic where such a loop was: in each turn the same functions of operands that stand at the same places, in
the turn itself (the same in all turns) or in the one before (carried), or outside of the loop: one value for all turns (a param), or
one for each (stacked to rows), as numbers that differ are: indices that march, weights, times.
"""

from __future__ import annotations

import numpy as np

from ..rules.indexing import getitem, updated
from ..rules.kinds import ROWS, Elementwise
from ..support.costs import LOOP_TURNS, REROLL_ALIGNED_OPERATIONS, REROLL_OPERATIONS
from .nested import Scan
from .operands import shape_of, with_operands
from .passes import optimised
from .program import Program, Value, key_of, values_in


def worth(operations: int, aligned: bool, whole: int) -> bool:
    """Return whether so many operations, of `whole` in the program, are better rolled up. Turns that read elsewhere than they write have
    nests of their own anyway: unrolled they only take longer to compile. `aligned` ones become one nest, whose values stay in registers:
    unrolled they run faster, until compiling takes too long (`support/costs.py`)."""
    return operations >= REROLL_OPERATIONS and (not aligned or whole >= REROLL_ALIGNED_OPERATIONS)


def rolled(program: Program, exact=True) -> Program:
    """Return the program with its loops rolled up; with `exact`, their bodies are optimised to the same bits."""
    whole = len(program.operations)
    while len(program.operations) >= REROLL_OPERATIONS:
        shapes, operands = zip(*map(shape_of, program.operations), strict=True)
        known: dict = {}
        letters = np.array([known.setdefault(shape, len(known)) for shape in shapes])
        aligned = np.array(list(map(is_aligned, program.operations)))
        found = next(filter(None, (Run(program, operands, *place).rolled(exact) for place in periods(letters, aligned, whole))), None)
        if found is None:
            break
        program = found
    return program


def periods(letters, aligned, whole):
    """Yield where letters are periodic, as (start, period, turns), the one that saves most first."""
    best: list[tuple] = []
    for period in range(1, len(letters) // LOOP_TURNS + 1):
        same = letters[:-period] == letters[period:]
        least = max(REROLL_OPERATIONS - period, (LOOP_TURNS - 1) * period, best[-1][0] + 1 if best else 0)
        if np.count_nonzero(same) < least:
            continue
        ends = np.concatenate([[-1], np.flatnonzero(~same), [len(same)]])
        longest = int(np.argmax(np.diff(ends)))
        turns = (ends[longest + 1] - ends[longest] - 1) // period + 1
        saves = (turns - 1) * period
        start = int(ends[longest]) + 1
        if turns >= LOOP_TURNS and worth(turns * period, all(aligned[start : start + period]), whole) and (not best or saves > best[-1][0]):
            best.append((saves, start, period, int(turns)))
    for _, *place in reversed(best):
        yield place


def is_aligned(operation):
    """Return whether an operation reads elements where it writes them: of numbers and rows that a number chooses, too."""
    fn, args = operation.fn, operation.args
    if fn in (getitem, updated):
        index = args[1 if fn is getitem else 2]
        return not any(isinstance(part, slice) and part != slice(None) for part in (index if type(index) is tuple else (index,)))
    return isinstance(fn, np.ufunc) or isinstance(ROWS.get(fn), Elementwise) or all(out.size == 1 for out in operation.outputs)


# --- a run of turns -----------------------------------------------------------------------------------------------------------------


class Run:
    """Turns of `period` operations, one after the other from `start` on."""

    def __init__(self, program, operands, start, period, turns):
        self.program, self.operands = program, operands
        self.start, self.period, self.stop = start, period, start + turns * period
        self.places = {value: (i, k) for i, operation in enumerate(program.operations) for k, value in enumerate(operation.outputs)}

    @property
    def turns(self):
        return (self.stop - self.start) // self.period

    def rolled(self, exact):
        """Return the program with the run as one operation, None where its turns are not alike; what comes before may look like a turn."""
        last = self.start + 2 * self.period
        while self.start <= last and self.turns >= LOOP_TURNS:
            wrong = self.compare()
            if wrong is None:
                return self.rewritten(exact)
            self.start += wrong + 1
        return None

    def place(self, value):
        """Return the turn, the operation in it and the output that a value of the run is; None of one that is outside."""
        i, k = self.places.get(value, (-1, 0)) if type(value) is Value else (-1, 0)
        return (*divmod(i - self.start, self.period), k) if self.start <= i < self.start + self.turns * self.period else None

    def compare(self):
        """Find out what the operands of a turn are; return the operation whose operands differ from turn to turn, if there is one."""
        self.roles: list[list] = []
        for i in range(self.period):
            columns = zip(*(self.operands[self.start + t * self.period + i] for t in range(self.turns)), strict=True)
            roles = [self.role(column) for column in columns]
            if None in roles:
                return i
            self.roles.append(roles)
        return None

    def role(self, column):
        """Return what an operand is: its kind, and where it comes from."""
        places = list(map(self.place, column))
        first, *rest = places
        if first is not None:
            return ("here", *first[1:]) if all(place == (t, *first[1:]) for t, place in enumerate(places)) else None
        if rest[0] is not None:
            before, (init, value) = rest[0][1:], column[:2]
            alike = type(init) is Value and (init.shape, init.dtype, init.kind) == (value.shape, value.dtype, value.kind)
            return ("carried", *before, init) if alike and all(place == (t, *before) for t, place in enumerate(rest)) else None
        if any(place is not None for place in rest):
            return None
        if type(column[0]) is not Value:
            return ("same", column[0]) if len(set(map(key_of, column))) == 1 else ("row", column)
        return ("same", column[0]) if all(value is column[0] for value in column) else ("row", column)

    def rewritten(self, exact):
        """Return the program with the run as one operation, None where it would not be shorter: each turn's results are read one by one."""
        old, new, body = self.program, self.program.begun(), Program()
        stop = self.start + self.turns * self.period
        new.operations = old.operations[: self.start]
        finals, columns = self.read_after(stop)
        if any(value.kind == "python" for value in columns.values()):
            return None
        body.input(0)
        roles = list(dict.fromkeys(role for roles in self.roles for role in roles))
        carried = {role: body.input(role[3]) for role in roles if role[0] == "carried"}
        carried |= {("final", *place): body.input(value) for place, value in finals.items() if not any(r[1:3] == place for r in carried)}
        rows = {role: body.input(role[1][0]) for role in roles if role[0] == "row"}
        params = {role: body.input(role[1]) for role in roles if role[0] == "same" and type(role[1]) is Value}
        given = carried | rows | params
        made: dict = {}
        for i, roles in enumerate(self.roles):
            operation = old.operations[self.start + i]
            operands = [made[role[1:]] if role[0] == "here" else given.get(role, role[1]) for role in roles]
            outputs = tuple(map(body.value, operation.outputs))
            body.operations.append(with_operands(operation, operands, outputs))
            made.update({(i, k): out for k, out in enumerate(outputs)})
        body.outputs = [*(made[role[1:3]] for role in carried), *(made[place] for place in columns)]
        args = [role[3] if role[0] == "carried" else blank(new, value) for role, value in carried.items()]
        args += [stacked(new, role[1]) for role in rows]
        args += [role[1] for role in params]
        loop = Scan(optimised(rolled(body, exact), exact), self.turns, len(carried), len(rows))
        like = [*carried.values(), *(Value(0, (self.turns, *value.shape), value.dtype) for value in columns.values())]
        results = new.append(loop, tuple(args), {}, like, old.operations[self.start].line)
        self.read_results(new, stop, carried, columns, results)
        return new if len(new.operations) < len(old.operations) else None

    def read_after(self, stop):
        """Return the values of the run that are read after it, by place: those of the last turn, and those of several."""
        finals: dict = {}
        columns: dict = {}
        read = [value for operands in self.operands[stop:] for value in operands if type(value) is Value]
        for value in (*read, *values_in(self.program.outputs)):
            place = self.place(value)
            if place is not None:
                (finals if place[0] == self.turns - 1 else columns)[place[1:]] = value
        return {place: value for place, value in finals.items() if place not in columns}, columns

    def read_results(self, new, stop, carried, columns, results):
        """Enter what follows the run, which reads the results of the loop."""
        last = {role[1:3]: result for role, result in zip(carried, results, strict=False)}
        stacks = dict(zip(columns, results[len(carried) :], strict=True))
        taken: dict = {}

        def now(value):
            place = self.place(value)
            if place is None:
                return value
            turn, *where = place
            if turn == self.turns - 1 and tuple(where) in last:
                return last[tuple(where)]
            if value not in taken:
                taken[value] = new.append(getitem, (stacks[tuple(where)], turn), {}, value)
            return taken[value]

        for operation, operands in zip(self.program.operations[stop:], self.operands[stop:], strict=True):
            if any(self.place(value) is not None for value in operands):
                operation = with_operands(operation, [now(value) for value in operands], operation.outputs)
            new.operations.append(operation)
        new.outputs = [now(out) if type(out) is Value else out for out in self.program.outputs]


def blank(program, value):
    """Return what a loop carries into its first turn where nothing reads it."""
    if value.kind == "python":
        return value.dtype.type(0).item()
    return program.append(np.zeros, (value.shape, value.dtype), {}, value)


def stacked(program, column):
    """Return a column of values or numbers, one for each turn, as one array."""
    if type(column[0]) is not Value:
        return program.constant(np.array(column))
    if all(value in program.constants for value in column):
        return program.constant(np.stack([program.constants[value] for value in column]))
    like = Value(0, (len(column), *column[0].shape), column[0].dtype)
    return program.append(np.stack, tuple(column), {"axis": 0}, like)
