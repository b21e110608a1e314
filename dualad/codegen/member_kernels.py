"""Members of an ensemble in compiled loops: the program of one is the body of a loop over rows of its arguments and of its results.

Where a program is of numbers and arrays too short for vectors, a row holds some members side by side (`graph/side_by_side.py`), which LLVM
puts into the lanes of vectors. A member's bits do not depend on the others, nor on how many there are.
"""

from __future__ import annotations

import math
from itertools import chain

import numpy as np

from ..graph.nested import Scan
from ..graph.program import Program, Value
from ..graph.side_by_side import Separate, side_by_side
from ..ir.nodes import ArrayType, Call, Do, For, Function, Reshape, Row, Var
from ..ir.values import Value as Number
from ..ir.values import unwrapped
from ..support.costs import CACHE_ELEMENTS, LANES, THREAD_BLOCKS, WOKEN_ADDITIONS
from .build import BLOCK
from .chain_kernels import ChainKernels, Group, assign
from .fragments import Unit

APART = 128  # bytes between what threads write


class MemberKernels:
    """The compiled loop over the members of a program, whose inputs are stacked where they are `moving`.

    What has no loop form raises `NoLoopForm`.
    """

    def __init__(self, program: Program, examples: list, moving: tuple[bool, ...], threads: int | None):
        self.threads, self.blocks, self.moving, self.beside = threads or 1, threads is not None, moving, 1
        self.outputs = [out for out in program.outputs if isinstance(out, Value)]
        alone = program.replace(outputs=self.outputs)
        kept = elements_of(alone)
        if kept is not None:
            self.beside = LANES * max(1, min(LANES, CACHE_ELEMENTS // max(kept, 1)))
            self.beside = 1 << self.beside.bit_length() - 1
            try:
                alone = side_by_side(alone, examples, moving, self.beside)
            except Separate:
                self.beside = 1
        self.kernels = self.emitted(alone)
        self.kernels.compile()
        (unit,) = self.kernels.units
        most = max(1, int(LANES * WOKEN_ADDITIONS // max(unit.source.additions, 1.0)))
        self.most = most * self.threads  # rows of a call, so that an interrupt is noticed between them
        self.pool: list = []

    def emitted(self, program):
        """Return the loop over rows of the arguments; threads share blocks of them, and each works in arrays of its own."""
        unit = Unit(program, "member_", self.blocks)
        if unit.source.in_python:  # which lets one thread in at a time, and says for each whether it failed
            self.threads = 1
        k, k0, k1, low, high = (Var(name, "int64") for name in ("k", "k0", "k1", "low", "high"))
        stacked = [value for value, moves in zip(program.inputs, self.moving, strict=True) if moves]
        shared = [value for value, moves in zip(program.inputs, self.moving, strict=True) if not moves]
        u, p, o = Group("u", stacked, 1), Group("p", shared), Group("o", program.outputs, 1)
        rows, numbers = iter(u.rows(k)), iter(p.names)
        given = [next(rows) if moves else next(numbers) for moves in self.moving]
        turn = unit.statements(given, o.rows(k), program.outputs)
        self.own = [Own(room) for room in unit.work.values()]
        parameters = (k0, k1, *u.arrays, *p.arrays, *o.arrays, *(each.stack for each in self.own), *unit.constants)
        first, count, n = Number(k0), Number(k1) - Number(k0), Number(BLOCK)
        share = [first + count * n // THREAD_BLOCKS, first + count * (n + 1) // THREAD_BLOCKS]
        begun = [*map(assign, (low, high), map(unwrapped, share)), *(each.set() for each in self.own), *p.load()]
        block = Function("members_block", (*parameters, BLOCK), (*begun, For(k, low, high, tuple(turn))))
        whole = Function("members", parameters, (Do(Call(block.name, parameters, None), THREAD_BLOCKS),))
        return ChainKernels([unit], [whole], self.threads, [block])

    def __call__(self, values: list, count: int) -> list[np.ndarray]:
        """Return the outputs of so many members, stacked; so are the inputs that move."""
        rows = -(-count // self.beside)
        last = min(rows, THREAD_BLOCKS) if count % self.beside else 0  # are copied, one with others in place of those that lack
        stacked = [np.ascontiguousarray(x) for x, moves in zip(values, self.moving, strict=True) if moves]
        shared = [np.asarray(x, order="C") for x, moves in zip(values, self.moving, strict=True) if not moves]
        outs = [np.empty((rows * self.beside, *out.shape), out.dtype) for out in self.outputs]
        work = self.pool.pop() if self.pool else self.work()
        for low, high in ((0, rows - last), (rows - last, rows)):
            part = slice(low * self.beside, high * self.beside)
            arrays = [self.grouped(x[part], high - low) for x in stacked], shared, [self.grouped(out[part], high - low) for out in outs]
            for first in range(0, high - low, self.most):
                self.kernels.members(first, min(first + self.most, high - low), *chain.from_iterable(arrays), *work)
        self.pool.append(work)
        return [out[:count] for out in outs]

    def grouped(self, x, rows):
        """Return an array of members as one of rows of them; the last one stands in for those that lack."""
        if self.beside == 1:
            return x
        if lacking := rows * self.beside - len(x):
            x = np.concatenate([x, np.repeat(x[-1:], lacking, axis=0)])
        return x.reshape(rows, self.beside, *x.shape[1:])

    def work(self):
        """Return new arrays to work in and the constants."""
        (unit,) = self.kernels.units
        return [*(np.empty((self.threads, *each.stack.shape[1:]), each.stack.dtype) for each in self.own), *unit.arrays]


class Own:
    """An array to work in, of which each thread has one of its own, on lines of the cache that it shares with nobody."""

    def __init__(self, room: Var):
        assert isinstance(room.type, ArrayType)
        self.room, self.type, self.size = room, room.type, math.prod(room.shape)
        self.stack = Var(f"all_{room.name}", ArrayType(room.dtype, (-1, self.size + APART // np.dtype(room.dtype).itemsize)))

    def set(self):
        """Return the statement that sets it to this thread's."""
        row = Row(self.stack, (Call("thread", (), "int64"),), 0, self.size, ArrayType(self.room.dtype, (self.size,)))
        return assign(self.room, Reshape(row, self.type))


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
