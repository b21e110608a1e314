"""The paths of a function that branches on traced values, merged into one program with a `Branch` at each test.

A trace follows the path of its example values and notes the tests on it. Paths are equal, operation by operation, up to the test where
they part; all that follows it stands in the arms of a branch. An arm that nobody has traced gives zeros. A program that has one gives,
as its last output, whether it was reached: `left`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .branch import Branch, as_kind
from .program import Kind, Operation, Program, Value, key_of, kind_of, values_in
from .trace import Answer, TraceError, where_in

__all__ = ["Apart", "Path", "Unlike", "merged"]


class Apart(TraceError):
    """Two traces differ before the first test that they answer differently."""


class Unlike(TraceError):
    """The results of two paths differ in their shapes, dtypes or types."""


class Path(NamedTuple):
    """A trace, and the tests on it."""

    program: Program
    tests: list[Answer]

    @property
    def truths(self):
        return [test.truth for test in self.tests]

    def known(self) -> dict[int, Value]:
        """Return the values by number."""
        program = self.program
        made = (value for operation in program.operations for value in operation.outputs)
        return {value.number: value for value in (*program.inputs, *program.constants, *made)}


def merged(paths: list[Path]) -> Program:
    """Return the program of all paths, whose results are of the same structure."""
    whole = paths[0].program
    if not paths[0].tests:
        return whole
    chosen = [k for k in range(len(whole.outputs)) if not is_fixed(paths, k)]
    tree = Tree(paths, chosen)
    program = tree.grown(paths, 0, 0)
    outs = iter(program.outputs)
    program.outputs = [next(outs) if k in chosen else out for k, out in enumerate(whole.outputs)] + list(outs)
    program.inputs = whole.inputs
    return program


def is_fixed(paths, k):
    """Return whether an output is the same literal on all paths."""
    outs = [path.program.outputs[k] for path in paths]
    return not any(type(out) is Value for out in outs) and len(set(map(key_of, outs))) == 1


class Tree:
    """The tree of paths: the kinds of the outputs that are `chosen` by branches, and whether there is an arm that nobody has traced."""

    def __init__(self, paths: list[Path], chosen: list[int]):
        self.chosen = chosen
        self.kinds = [self.kind(paths, k) for k in chosen]
        self.known = {id(path): path.known() for path in paths}
        self.left = not complete(paths, 0)

    def kind(self, paths, k) -> Kind:
        """Return the kind of an output, which is that of all paths."""
        first, *others = (told(path.program.outputs[k]) for path in paths)
        for path, other in zip(paths[1:], others, strict=True):
            if first is None or other is None or first[:3] != other[:3]:
                depth = next(i for i, (a, b) in enumerate(zip(paths[0].truths, path.truths, strict=False)) if a is not b)
                raise Unlike(
                    f"jit: {where_in(paths[0].tests[depth].line)}the two sides of a branch give results of other shapes, dtypes or types: "
                    f"{described(first)} and {described(other)}"
                )
        layouts = {first.layout, *(other.layout for other in others)}
        return first._replace(layout=layouts.pop() if len(layouts) == 1 else "C")

    def grown(self, paths: list[Path], depth: int, start: int) -> Program:
        """Return the program of paths that have answered so many tests alike, from an operation on."""
        lead, program = paths[0], Program()
        program.count = lead.program.count
        if depth == len(lead.tests):
            program.operations = lead.program.operations[start:]
            outs = [lead.program.outputs[k] for k in self.chosen]
            program.outputs = [as_kind(program, out, kind) for out, kind in zip(outs, self.kinds, strict=True)] + [False] * self.left
            return self.closed(program, lead)
        test = lead.tests[depth]
        for path in paths[1:]:
            self.compare(lead, path, depth, start)
        program.operations = lead.program.operations[start : test.position]
        arms = []
        for truth in (True, False):
            group = [path for path in paths if path.tests[depth].truth is truth]
            arms.append((self.grown(group, depth + 1, test.position), self.known[id(group[0])]) if group else None)
        numbers = sorted({value.number for arm in arms if arm is not None for value in arm[0].inputs})
        mine = self.known[id(lead)]
        given = [mine[number] for number in numbers]
        for arm in arms:
            if arm is not None:
                arm[0].inputs = [arm[1][number] for number in numbers]
        then, otherwise = (arm[0] if arm is not None else self.unseen(given) for arm in arms)
        outputs = tuple(program.value(Value(0, *kind)) for kind in (*self.kinds, *[LEFT] * self.left))
        program.operations.append(Operation(Branch(then, otherwise), (test.value, *given), {}, outputs, True, test.line))
        program.outputs = list(outputs)
        return self.closed(program, lead)

    def unseen(self, given) -> Program:
        """Return the program of an arm that nobody has traced."""
        program = Program()
        for value in given:
            program.input(value)
        program.outputs = [as_kind(program, None, kind) for kind in self.kinds] + [True]
        return program

    def closed(self, program, lead) -> Program:
        """Give a part of a path its constants, and as inputs the other values that it reads."""
        made = {value for operation in program.operations for value in operation.outputs}
        read = dict.fromkeys(value for operation in program.operations for value in operation.reads)
        read |= dict.fromkeys(values_in(program.outputs))
        constants = lead.program.constants
        program.constants = {value: constants[value] for value in read if value in constants}
        program.inputs = [value for value in read if value not in made and value not in constants]
        return program

    def compare(self, lead, path, depth, start):
        """Raise where another path is not equal to the first one up to a test."""
        test, other = lead.tests[depth], path.tests[depth] if depth < len(path.tests) else None
        alike = other is not None and (other.position, other.value.number) == (test.position, test.value.number)
        for a, b in zip(*(one.program.operations[start : test.position] for one in (lead, path)), strict=False):
            alike = alike and (a.fn is b.fn or a.fn == b.fn) and (key_of(a.args), key_of(a.kwargs)) == (key_of(b.args), key_of(b.kwargs))
            for u, v in zip(a.reads, b.reads, strict=False):
                alike = alike and key_of(lead.program.constants.get(u)) == key_of(path.program.constants.get(v))
            if not alike:
                raise Apart(f"jit: {where_in(a.line)}two traces of the function differ before the first value that they branch on")
        if not alike:
            raise Apart(f"jit: {where_in(test.line)}two traces of the function branch on other values")


LEFT = kind_of(False)


def complete(paths, depth) -> bool:
    """Return whether both answers of all tests are known."""
    if depth == len(paths[0].tests):
        return True
    groups = [[path for path in paths if path.truths[depth : depth + 1] == [truth]] for truth in (True, False)]
    return all(group and complete(group, depth + 1) for group in groups)


def told(out) -> Kind | None:
    """Return the kind of an output, None of one that is neither array nor number."""
    return kind_of(out) if type(out) is Value or issubclass(type(out), NUMBERS) else None


NUMBERS = (bool, int, float, complex, np.generic)


def described(kind: Kind | None) -> str:
    return "no number" if kind is None else f"a {kind.kind} of {kind.dtype}{list(kind.shape) if kind.shape else ''}"
