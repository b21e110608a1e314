"""The paths of a function that branches on traced values, merged into one program with a `Branch` at each test.

A trace follows the path of its example values and notes the tests on it. Paths are equal, operation by operation, up to the test where
they part; all that follows it stands in the arms of a branch. An arm that nobody has traced gives zeros. A program that has one gives,
as its last output, whether it was reached: `left`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..support.costs import CALLED_DEPTH
from .nested import Branch, align, as_kind
from .program import Kind, Operation, Program, Value, key_of, kind_of
from .trace import Answer, TraceError, where_in
from .turns import Turns

#: tests of one known answer that are branches in each other; later ones of a path ask at its end whether it was left
NESTED_TESTS = 3 * CALLED_DEPTH


class Apart(TraceError):
    """Two traces differ before the first test that they answer differently."""


class Path(NamedTuple):
    """A trace, the tests on it, the structure of its result, and if it is `loud`, what it does besides (it prints)."""

    program: Program
    tests: list[Answer]
    structure: Any = None
    loud: str | None = None

    @property
    def truths(self):
        return [test.truth for test in self.tests]

    @property
    def type(self):
        """What tells its result from those of other types: the structure, and of each leaf the kind, or itself if it is no number."""
        return self.structure, *((out_kind[:3] if (out_kind := told(out)) else key_of(out)) for out in self.program.outputs)

    def known(self) -> dict[int, Value]:
        """Return the values by number."""
        program = self.program
        made = (value for operation in program.operations for value in operation.outputs)
        return {value.number: value for value in (*program.inputs, *program.constants, *made)}


def types_of(paths: list[Path]) -> list[Path]:
    """Return the first path of each type of result."""
    return list({path.type: path for path in reversed(paths)}.values())[::-1]


def alike(paths: list[Path]) -> list[Path] | None:
    """Return paths as ones whose results are of one type, where these differ in what numbers are to Python alone; else None."""
    if len(types_of(paths)) == 1:
        return paths
    columns = zip(*([told(out) for out in path.program.outputs] for path in paths), strict=False)
    if any(None in kinds or len({kind[:2] for kind in kinds}) > 1 for kinds in columns) or len({path.structure for path in paths}) > 1:
        return None
    programs = [path.program.replace(operations=list(path.program.operations), constants=dict(path.program.constants)) for path in paths]
    align(programs)
    return [path._replace(program=program) for path, program in zip(paths, programs, strict=True)]


def counted(paths: list[Path], certain: bool = False) -> tuple[Program, int]:
    """Return the program of all paths, and their number, in which loops (see `turns`) with other numbers of turns count once.

    A `certain` one leaves out tests of which only one answer is known. Its outputs are the leaves of the result (of each type of result,
    see `types_of`, and the number of the type), and last `left`: 1 where the path is not known, 2 where it is loud.
    """
    whole = paths[0].program
    if not paths[0].tests:
        return whole, 1
    tree = Tree(paths, certain)
    program = tree.grown(paths, 0, 0)
    outs = iter(program.outputs)
    program.outputs = [next(outs) if kind is not None else fixed for *_, kind, fixed in tree.columns] + list(outs)
    program.inputs = whole.inputs
    return program, tree.ends


class Tree:
    """The tree of paths; `columns` are the leaves of all types of results, each with type, its place, its kind or the same literal."""

    def __init__(self, paths: list[Path], certain: bool):
        self.certain = certain
        firsts = [path.type for path in types_of(paths)]
        self.type = {id(path): firsts.index(path.type) for path in paths}
        self.columns = [
            (t, k, *column([path.program.outputs[k] for path in paths if path.type == first]))
            for t, first in enumerate(firsts)
            for k in range(len(first) - 1)
        ]
        self.several = len(firsts) > 1
        self.kinds = [kind for *_, kind, _ in self.columns if kind is not None]
        self.known = {id(path): path.known() for path in paths}
        loud = any(path.loud for path in paths)
        self.number = int if loud else bool
        self.left = not certain and (loud or not complete(paths, 0))
        self.kinds_at_end = [kind_of(0)] * self.several + [kind_of(self.number(0))] * self.left
        self.ends = 0  # those of paths that were entered
        self.loops: list[Turns] = []

    def outputs(self, program, path) -> list:
        """Return the outputs of a program that ends a path, or one that nobody has traced: zeros but for its own."""
        mine = None if path is None else self.type[id(path)]
        outs = [path.program.outputs[k] if t == mine else None for t, k, kind, _ in self.columns if kind is not None]
        outs = [as_kind(program, out, kind) for out, kind in zip(outs, self.kinds, strict=True)]
        return outs + [mine or 0] * self.several + [self.number(1 if path is None else 2 if path.loud else 0)] * self.left

    def grown(self, paths: list[Path], first: int, start: int, nested: int = 0) -> Program:
        """Return the program of paths that have answered so many tests alike, from an operation on; it stands in so many branches."""
        lead, met = paths[0], start
        guards: list[Answer] = []  # tests of one known answer, of which the program says at its end whether they were answered so
        for depth in range(first, len(lead.tests)):
            test = lead.tests[depth]
            for path in paths[1:]:
                self.compare(lead, path, depth, met)
            met, turns, ends = test.position, Turns.found(paths, depth), self.ends
            if turns is not None:
                try:
                    return self.guarded(self.looped(turns, paths, depth, start), guards, lead)
                except Apart:  # the turns are not alike
                    self.ends = ends
            alone = all(path.tests[depth].truth is test.truth for path in paths)
            if not (alone and (self.certain or nested >= NESTED_TESTS)):
                return self.guarded(self.branched(paths, depth, start, nested), guards, lead)
            guards += [] if self.certain else [test]
        if any(len(path.tests) > len(lead.tests) for path in paths):
            raise Apart("jit: one trace of the function makes a test where another one ends")
        program = Program()
        program.count = lead.program.count
        program.operations = lead.program.operations[start:]
        program.outputs = self.outputs(program, lead)
        self.ends += 1
        return self.guarded(program.closed(lead.program.constants), guards, lead)

    def guarded(self, program: Program, guards: list[Answer], lead: Path) -> Program:
        """Return a program that has left, too, where tests are answered otherwise."""
        if not guards:
            return program
        stays: Any = True
        for test in guards:
            asked = test.value if test.truth else program.append(np.logical_not, (test.value,), {}, np.True_, test.line)
            stays = program.append(np.logical_and, (stays, asked), {}, np.True_, test.line)
        *outs, left = program.outputs
        arms = Program(), Program()
        known = [arm.input(Value(0, *kind_of(left))) for arm in arms]
        for arm, out in zip(arms, (known[0], self.number(1)), strict=True):
            arm.outputs = [out]
        program.outputs = [*outs, *program.append(Branch(*arms), (stays, left), {}, known[:1], guards[-1].line)]
        return program.closed(lead.program.constants | program.constants)

    def branched(self, paths: list[Path], depth: int, start: int, nested: int) -> Program:
        """Return the program of paths that part at a test, or of which one answer is known alone."""
        lead, test, program = paths[0], paths[0].tests[depth], Program()
        program.count = lead.program.count
        program.operations = lead.program.operations[start : test.position]
        arms = []
        for truth in (True, False):
            group = [path for path in paths if path.tests[depth].truth is truth]
            arms.append((self.grown(group, depth + 1, test.position, nested + 1), self.known[id(group[0])]) if group else None)
        numbers = sorted({value.number for arm in arms if arm is not None for value in arm[0].inputs})
        mine = self.known[id(lead)]
        given = [mine[number] for number in numbers]
        for arm in arms:
            if arm is not None:
                arm[0].inputs = [arm[1][number] for number in numbers]
        then, otherwise = (arm[0] if arm is not None else self.unseen(given) for arm in arms)
        like = [Value(0, *kind) for kind in (*self.kinds, *self.kinds_at_end)]
        program.outputs = list(program.append(Branch(then, otherwise), (test.value, *given), {}, like, test.line))
        return program.closed(lead.program.constants)

    def looped(self, turns: Turns, paths: list[Path], depth: int, start: int) -> Program:
        """Return the program of paths that make a loop from there on."""
        # where a turn may be left before its end, a test tells that of which all turns give one answer
        lead, program, tree = paths[0], Program(), Tree(turns.turns, self.certain and not turns.breaks)
        body = tree.grown(turns.turns, 0, 0)
        for path, tail in zip(paths, turns.tails, strict=True):
            self.type[id(tail)], self.known[id(tail)] = self.type[id(path)], tail.known()
        self.loops.append(turns)
        self.ends += tree.ends
        rest = self.grown(turns.tails, 0, 0)
        program.operations = lead.program.operations[start : lead.tests[depth].position]
        program.count = rest.count
        turns.enter(program, body, tree.left)
        program.operations += rest.operations
        program.outputs = rest.outputs
        return program.closed(lead.program.constants | program.constants | rest.constants)

    def unseen(self, given) -> Program:
        """Return the program of an arm that nobody has traced."""
        program = Program()
        for value in given:
            program.input(value)
        program.outputs = self.outputs(program, None)
        return program

    def compare(self, lead, path, depth, start):
        """Raise where another path is not equal to the first one up to a test."""
        test, other = lead.tests[depth], path.tests[depth] if depth < len(path.tests) else None
        alike = other is not None and (other.position, other.value.number) == (test.position, test.value.number)
        unlike = first_unlike(lead.program, path.program, start, test.position)
        if unlike is not None:
            line = unlike[0].line
            raise Apart(f"jit: {where_in(line)}two traces of the function differ before the first value that they branch on")
        if not alike:
            raise Apart(f"jit: {where_in(test.line)}two traces of the function branch on other values")


def first_unlike(one: Program, other: Program, start=0, stop=None) -> tuple[Operation, Operation] | None:
    """Return the first operations of two programs, of those at these places, that are not alike; None if all are."""
    pairs = zip(one.operations[start:stop], other.operations[start:stop], strict=False)
    return next(((a, b) for a, b in pairs if a.fn != b.fn or described(a, one) != described(b, other)), None)


def described(operation, program):
    """Return what tells operations of one function apart, the elements of constant arrays last."""
    kinds = [kind_of(value)[:3] for value in operation.outputs]
    return key_of(operation.args), key_of(operation.kwargs), kinds, [key_of(program.constants.get(value)) for value in operation.reads]


def column(outs) -> tuple[Kind | None, Any]:
    """Return the kind of what is in one place of results of one type, or None and the same literal of all."""
    first, *others = outs
    if type(first) is not Value and all(type(out) is not Value and key_of(out) == key_of(first) for out in others):
        return None, first
    kinds = [kind_of(out) for out in outs]
    return (kinds[0] if len(set(kinds)) == 1 else kinds[0]._replace(layout="C")), None


def complete(paths, depth) -> bool:
    """Return whether both answers of all tests are known."""
    if depth == len(paths[0].tests):
        return True
    groups = [[path for path in paths if path.truths[depth : depth + 1] == [truth]] for truth in (True, False)]
    return all(groups) and all(complete(group, depth + 1) for group in groups)


def told(out) -> Kind | None:
    """Return the kind of an output, None of one that is neither array nor number."""
    return kind_of(out) if type(out) is Value or issubclass(type(out), NUMBERS) else None


NUMBERS = (bool, int, float, complex, np.generic)
