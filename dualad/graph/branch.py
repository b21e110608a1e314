"""Branch: one of two programs, as one operation ``branch(test, *values)``.

Both programs take the values and give outputs of the same kinds. The derivatives of a branch are branches with the same test (see
`differentiate`). A path of a function that nobody has traced yet is an ordinary program, too (see `paths`).
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

__all__ = ["Branch", "align", "as_kind"]


class Branch:
    """The function of a branch's operation; branches of equal programs are equal."""

    __name__ = "branch"
    fresh = True  # results show no memory of arguments

    def __init__(self, then: Program, otherwise: Program):
        self.then, self.otherwise = then, otherwise

    @property
    def bodies(self):
        return {"then": self.then, "otherwise": self.otherwise}

    @cached_property
    def key(self):
        return self.then.key(), self.otherwise.key()

    def __eq__(self, other):
        return self is other or (type(other) is Branch and self.key == other.key)

    def __hash__(self):
        return hash((Branch, len(self.then.operations), len(self.otherwise.operations)))

    def arm(self, test) -> Program:
        return self.then if test else self.otherwise

    @cached_property
    def executables(self):
        return [compile_python(body) for body in (self.otherwise, self.then)]

    def __call__(self, test, *values):
        """Return the results for plain values, or for Symbols, into whose program the branch is entered; for others, those of one arm."""
        top = highest((test, *values))
        if top is None:
            return self.executables[bool(test)].call(*values)
        if type(top) is Symbol:
            return top.level.record(self, self.example, (test, *values), {})
        return tuple(self.arm(test).run(*values))

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
