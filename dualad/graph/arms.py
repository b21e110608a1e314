"""What the arms of a branch have in common comes out of them: what both compute of the same values before it, equal ends behind it.

So tests one after the other, whose paths a trace tells apart one by one, are again branches one after the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np

from ..rules.kinds import row_says
from .nested import Branch
from .operands import shape_of, with_operands
from .program import Program, Value, key_of


def with_arms(program: Program, optimise: Callable[[Program], Program]) -> Program:
    """Return the program with the arms of its branches optimised, and without what they have in common."""
    new = program.begun()
    read = program.read
    put: dict = {}
    for old in program.operations:
        operation = old.renamed(put)
        if type(old.fn) is not Branch:
            new.operations.append(operation)
            continue
        shown = [out in read for out in old.outputs]
        outs = Arms(new, operation, shown, optimise).entered()
        put.update(zip((out for out, some in zip(old.outputs, shown, strict=True) if some), outs, strict=True))
    return new.finished(program.outputs, put)


def specialised(body: Program, given, constants, shown) -> tuple[Program, dict]:
    """Return a program with these outputs for arguments of which some are literals or constants; and for its inputs the others."""
    arm, swap, first = Program(), dict[Value, object](), dict[Value, Value]()
    arm.constants, arm.count, arm.adjoint = dict(body.constants), body.count, body.adjoint
    for value, x in zip(body.inputs, given, strict=True):
        if type(x) is not Value or x in first:
            swap[value] = first[x] if type(x) is Value else x
        elif x in constants:
            arm.constants[value] = constants[x]
        else:
            first[x] = value
    arm.inputs = list(first.values())
    arm.operations = [operation.renamed(swap) for operation in body.operations]
    arm.finished((out for out, some in zip(body.outputs, shown, strict=True) if some), swap)
    return arm, {value: x for x, value in first.items()}


class Arms:
    """The two programs of a branch, and what stands for their values in the program around it, `new`."""

    def __init__(self, new, operation, shown, optimise):
        self.new, self.line, (self.test, *given) = new, operation.line, operation.args
        made = [specialised(body, given, new.constants, shown) for body in operation.fn.bodies.values()]
        self.arms, self.put = [optimise(arm) for arm, _ in made], [put for _, put in made]
        self.left = [arm.operations for arm in self.arms]

    def entered(self) -> list:
        """Enter the branch, and what comes before and behind it; return what is put in the place of its outputs."""
        if type(self.test) is not Value:
            return self.alone(0 if self.test else 1)
        self.before()
        outs = list(zip(*(arm.outputs for arm in self.arms), strict=True))
        behind = self.behind(outs)
        made = {(a, b) for pair in behind for a, b in zip(*(operation.outputs for operation in pair), strict=True)}
        pairs = [pair for one, other in behind for pair in zip(shape_of(one)[1], shape_of(other)[1], strict=True)]
        chosen = {key_of_pair(pair): pair for pair in (*pairs, *outs) if self.common(*pair) is None and pair not in made}
        found = dict(zip(chosen, self.branch(list(chosen.values())), strict=True))

        def now(a, b):
            same = self.common(a, b)
            return found[key_of_pair((a, b))] if same is None else same[0]

        for one, other in behind:
            operands = [now(a, b) for a, b in zip(shape_of(one)[1], shape_of(other)[1], strict=True)]
            outputs = tuple(map(self.new.value, one.outputs))
            self.new.operations.append(with_operands(one, operands, outputs))
            for out, a, b in zip(outputs, one.outputs, other.outputs, strict=True):
                self.put[0][a] = self.put[1][b] = self.numbers[0][a] = self.numbers[1][b] = out
        return [now(*pair) for pair in outs]

    def alone(self, k):
        """Enter one arm, which is always taken."""
        arm = self.arms[k]
        for operation in arm.operations:
            self.enter(operation, k)
        return [self.outside(out, k) if type(out) is Value else out for out in arm.outputs]

    def enter(self, operation, k):
        """Enter an operation of an arm into the program around the branch."""
        for value in operation.reads:
            self.outside(value, k)
        outputs = tuple(map(self.new.value, operation.outputs))
        self.new.operations.append(operation.renamed(self.put[k], outputs))
        self.put[k].update(zip(operation.outputs, outputs, strict=True))

    def outside(self, value, k):
        """Return what stands for a value of an arm in the program around the branch, which gets the constants of both."""
        if value not in self.put[k]:
            constant = self.put[k][value] = self.new.constant(self.arms[k].constants[value])
            constant.kind = value.kind
        return self.put[k][value]

    # --- before the branch --------------------------------------------------------------------------------------------------------

    def before(self):
        """Enter what both arms compute of the same values; equal `numbers` are those of equal values."""
        known: dict = {}
        self.numbers: list[dict] = []
        keys: list[dict] = []
        for arm, put in zip(self.arms, self.put, strict=True):
            number: dict = {value: known.setdefault(put[value], len(known)) for value in arm.inputs}
            for value, array in arm.constants.items():
                number[value] = known.setdefault((key_of(array), value.kind, array.strides), len(known))
            mine = {}
            for operation in arm.operations:
                kinds = tuple((out.type, out.kind, out.layout) for out in operation.outputs)
                mine[operation] = key = operation.fn, key_of(operation.args, number), key_of(operation.kwargs, number), kinds
                number.update({out: known.setdefault((key, k), len(known)) for k, out in enumerate(operation.outputs)})
            self.numbers.append(number)
            keys.append(mine)
        shared = set(keys[0].values()) & set(keys[1].values())
        entered: dict = {}
        for k in (0, 1):
            for operation, key in keys[k].items():
                if key in shared:
                    if key not in entered:
                        self.enter(operation, k)
                        entered[key] = [self.put[k][out] for out in operation.outputs]
                    self.put[k].update(zip(operation.outputs, entered[key], strict=True))
            self.left[k] = [operation for operation in self.left[k] if keys[k][operation] not in shared]

    # --- behind the branch --------------------------------------------------------------------------------------------------------

    def common(self, a, b):
        """Return what is the same in both arms, in a tuple; None where they differ."""
        if type(a) is Value and type(b) is Value:
            return (self.outside(a, 0),) if self.numbers[0][a] == self.numbers[1][b] else None
        return (a,) if type(a) is not Value and type(b) is not Value and key_of(a) == key_of(b) else None

    def behind(self, outs):
        """Take off the ends of both arms what is the same, of operands that may differ: pairs of operations, in order.

        A number or array more that the branch chooses costs about what two operations do.
        """
        makers = [{out: operation for operation in left for out in operation.outputs} for left in self.left]
        uses = [Counter(value for operation in left for value in operation.reads) for left in self.left]
        front = {key_of_pair(pair): pair for pair in outs if self.common(*pair) is None}
        found: list = []
        best, most = 0, -2 * len(front)
        for one in reversed(self.left[0]):
            touched = {key: pair for key, pair in front.items() if pair[0] in one.outputs}
            others = {makers[1].get(b) if type(b) is Value else None for _, b in touched.values()}
            other = others.pop() if len(others) == 1 else None
            if other is None or any(uses[0][out] for out in one.outputs) or any(uses[1][out] for out in other.outputs):
                continue
            (shape, mine), (same, theirs) = shape_of(one), shape_of(other)
            pairs = list(zip(one.outputs, other.outputs, strict=False))
            reached = [pair for pair in front.values() if pair[0] in one.outputs or pair[1] in other.outputs]
            if shape != same or any(pair not in pairs for pair in reached):
                continue
            operands = [pair for pair in zip(mine, theirs, strict=True) if self.common(*pair) is None]
            if not all(may_choose(one.fn, *pair) for pair in operands):
                continue
            front = {key: pair for key, pair in front.items() if key not in touched}
            front.update({key_of_pair(pair): pair for pair in operands})
            for k, operation in enumerate((one, other)):
                uses[k].subtract(operation.reads)
            found.append((one, other))
            if len(found) - 2 * len(front) >= most:
                best, most = len(found), len(found) - 2 * len(front)
        found = found[:best]
        for k in (0, 1):
            gone = {pair[k] for pair in found}
            self.left[k] = [operation for operation in self.left[k] if operation not in gone]
        return found[::-1]

    # --- what is left -------------------------------------------------------------------------------------------------------------

    def branch(self, pairs):
        """Enter what is left of the branch, which chooses between the values of these pairs; return its outputs."""
        if not pairs:
            return []
        arms, given = [], dict[Value, None]()
        for k, arm in enumerate(self.arms):
            body = Program()
            body.count, body.operations, body.outputs, body.adjoint = arm.count, self.left[k], [pair[k] for pair in pairs], arm.adjoint
            mine: dict = {}
            for value in body.closed(arm.constants).inputs:
                mine.setdefault(self.put[k][value], []).append(value)
            swap = {value: first for first, *others in mine.values() for value in others}
            if swap:
                body.operations = [operation.renamed(swap) for operation in body.operations]
                body.finished(body.outputs, swap)
            given |= dict.fromkeys(mine)
            arms.append((body, mine))
        for body, mine in arms:
            body.inputs = [mine[x][0] if x in mine else body.value(x) for x in given]
        return self.new.append(Branch(*(body for body, _ in arms)), (self.test, *given), {}, [a for a, _ in pairs], self.line)


def may_choose(fn, a, b):
    """Return whether a branch may choose between two operands of a function."""
    if type(a) is Value:
        return (a.shape, a.dtype, a.kind, a.layout) == (b.shape, b.dtype, b.kind, b.layout)
    return isinstance(fn, np.ufunc) and row_says(fn, "operator") != "pow"


def key_of_pair(pair):
    """Return a hashable key of what the two arms have in one place."""
    return tuple([x if type(x) is Value else key_of(x) for x in pair])
