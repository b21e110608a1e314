"""Members of an ensemble in compiled loops: the program of one is the body of a loop over rows of its arguments and of its results.

Where a program is of numbers and arrays too short for vectors, a row holds some members side by side (`graph/side_by_side.py`), which LLVM
puts into the lanes of vectors. A member's bits do not depend on the others, nor on how many there are.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..graph.program import Program, Value
from ..graph.scan import Scan
from ..graph.side_by_side import Separate, side_by_side
from ..ir.nodes import For, Function, Var
from ..loops.forms import NoLoopForm
from ..loops.threads import runner
from ..support.costs import LANES, MEMBERS_ADDITIONS, MEMBERS_ELEMENTS, MEMBERS_SIDE_BY_SIDE
from .chain_kernels import ChainKernels, Group
from .fragments import Unit

__all__ = ["MemberKernels"]


class MemberKernels:
    """The compiled loop over the members of a program, whose inputs are stacked where they are `moving`.

    What has no loop form raises `NoLoopForm`.
    """

    def __init__(self, program: Program, examples: list, moving: tuple[bool, ...], threads: int | None):
        self.threads, self.moving, self.beside = threads, moving, 1
        self.outputs = [out for out in program.outputs if isinstance(out, Value)]
        alone = program.replace(outputs=self.outputs)
        kept = elements_of(alone)
        if kept is not None:
            self.beside = max(LANES, min(MEMBERS_SIDE_BY_SIDE, MEMBERS_ELEMENTS // max(kept, 1)))
            self.beside = 1 << self.beside.bit_length() - 1
            try:
                alone = side_by_side(alone, examples, moving, self.beside)
            except Separate:
                self.beside = 1
        self.kernels = self.emitted(alone)
        self.kernels.compile()
        additions = self.kernels.units[0].source.additions
        self.most = max(1, int(MEMBERS_ADDITIONS // max(additions, 1.0)))  # rows of a call, so that an interrupt is noticed between them
        self.run: Callable = runner(threads or 1)
        self.pool: list = []

    def emitted(self, program):
        """Return the loop over rows of the arguments."""
        unit = Unit(program, "member_", self.threads is not None)
        if unit.driven:
            raise NoLoopForm("threads share the loops of a member")
        k, k0, k1 = (Var(name, "int64") for name in ("k", "k0", "k1"))
        stacked = [value for value, moves in zip(program.inputs, self.moving, strict=True) if moves]
        shared = [value for value, moves in zip(program.inputs, self.moving, strict=True) if not moves]
        u, p, o = Group("u", stacked, 1), Group("p", shared), Group("o", program.outputs, 1)
        rows, numbers = iter(u.rows(k)), iter(p.names)
        given = [next(rows) if moves else next(numbers) for moves in self.moving]
        turn = unit.statements(given, o.rows(k), program.outputs)
        parameters = (k0, k1, *u.arrays, *p.arrays, *o.arrays, *unit.others)
        return ChainKernels([unit], [Function("members", parameters, (*p.load(), For(k, k0, k1, tuple(turn))))], None)

    def __call__(self, values: list, count: int) -> list[np.ndarray]:
        """Return the outputs of so many members, stacked; so are the inputs that move."""
        stacked = [np.ascontiguousarray(x) for x, moves in zip(values, self.moving, strict=True) if moves]
        shared = [np.asarray(x, order="C") for x, moves in zip(values, self.moving, strict=True) if not moves]
        outs = [np.empty((count, *out.shape), out.dtype) for out in self.outputs]
        whole = count - count % self.beside
        self.rows([self.grouped(x[:whole]) for x in stacked], shared, [self.grouped(out[:whole]) for out in outs])
        if whole < count:  # the last member stands in for those that lack
            last = [np.concatenate([x[whole:], np.repeat(x[-1:], self.beside - count + whole, axis=0)]) for x in stacked]
            made = [np.empty((self.beside, *out.shape), out.dtype) for out in self.outputs]
            self.rows([self.grouped(x) for x in last], shared, [self.grouped(out) for out in made])
            for out, some in zip(outs, made, strict=True):
                out[whole:] = some[: count - whole]
        return outs

    def grouped(self, x):
        """Return an array of members as one of rows of them."""
        return x if self.beside == 1 else x.reshape(len(x) // self.beside, self.beside, *x.shape[1:])

    def rows(self, stacked, shared, outs):
        """Compute all rows, in blocks that threads share."""
        count = len((stacked or outs)[0])
        block = min(self.most, -(-count // (self.threads or 1)))

        def part(i):
            (work,) = self.pool.pop() if self.pool else self.kernels.work()
            self.kernels.members(i * block, min((i + 1) * block, count), *stacked, *shared, *outs, *work)
            self.pool.append((work,))

        if count:
            self.run(part, -(-count // block), ())


def elements_of(program: Program) -> int | None:
    """Return how many elements the loops of a program keep, None if it computes arrays that are long enough for vectors."""
    kept = 0
    for operation in program.operations:
        outputs = operation.outputs
        if type(operation.fn) is Scan:
            within = elements_of(operation.fn.body)
            if within is None:
                return None
            kept += within + sum(out.size for out in outputs)
        elif any(out.size >= LANES for out in outputs):
            return None
    return kept
