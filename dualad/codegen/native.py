"""The backend of LLVM: programs as compiled loops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection

import numpy as np

from ..graph.program import Program
from ..graph.trace import where_in
from ..ir.nodes import Function, Module
from ..ir.verify import checking, verify
from ..ir.walk import line_count
from ..loops.forms import Node
from ..loops.fuse import Plan, plan
from ..loops.threads import in_blocks
from ..support.costs import PROGRAM_OPERATIONS, SMALL_ARRAY_BYTES, WOKEN_ADDITIONS
from ..support.forks import compiler
from .callers import Callers, prepared
from .emit import Source, emit
from .fragments import STEPS


def too_long(module: Module, *programs: Program) -> str | None:
    """Return why a module should not be compiled, None where it may."""
    lines = sum(line_count(part.body) for part in module.parts if isinstance(part, Function))
    if lines <= 2 * PROGRAM_OPERATIONS:
        return None
    busiest = Counter(operation.line for program in programs for operation in program.operations).most_common(1)[0][0]
    return (
        f"the emitted source has {lines:,} lines, which would be compiled for long, most of it for "
        f"{where_in(busiest).rstrip(': ') or 'an unknown line'}: its loop is unrolled, and its turns are not alike enough to be rolled up. "
        f"Write it as chain(...), or compile its step alone"
    )


class Native:
    """A program made ready to run as machine code, as an `Executable` is; `raw` and `raw_flat` take numbers of the program's kinds."""

    def __init__(self, program: Program, threads: int | None = None):
        self.plan = plan(program)
        if threads is not None:
            self.plan = in_blocks(self.plan)
        self.emitted = emit(self.plan, STEPS, joins=True)
        self.threads = (threads or 1) if self.emitted.additions >= WOKEN_ADDITIONS else 1
        self.notes = notes(self.plan, self.emitted)
        self.fixed: dict[Node, np.ndarray] = {}  # the small constant arrays, which parts hold themselves
        self.functions = self.compile()
        callers = Callers(self.plan, self.emitted, self.fixed, self.functions)
        self.reruns = callers.reruns
        self.raw, self.call, self.raw_flat, self.flat = callers.compiled()

    @property
    def source(self) -> str:
        return self.emitted.text

    def compile(self):
        """Compile all functions for the types of their buffers, or load their machine code; return what runs without looking at types."""
        reason = too_long(self.emitted.module, self.plan.program)
        if reason is not None:
            raise OverflowError(reason)
        if checking():
            given = [name for node, name in self.emitted.names.items() if node not in self.plan.stored]
            verify(self.emitted.module, self.emitted.functions.values(), given)
        small = [node for node in self.emitted.constants if node.shape and node.form.array.nbytes <= SMALL_ARRAY_BYTES]
        self.fixed = {node: prepared(node, node.form.array) for node in small}
        return [
            compiled(self.emitted.module, name, {i: self.fixed[node] for i, node in enumerate(nodes) if node in self.fixed}, self.threads)
            for name, nodes in zip(self.emitted.functions.values(), self.emitted.parts.values(), strict=True)
        ]


def compiled(
    module: Module, name: str, constants: dict[int, np.ndarray] | None = None, threads: int = 1, shared: Collection[str] = ()
) -> Callable:
    """Return a function of a module as machine code, whose blocks are shared by so many threads.

    The `constants` are parameters, by position, that are always these arrays. What is `shared` with others is compiled once.
    """
    with compiler():
        from . import machine  # and llvmlite
    return machine.compiled(module, name, constants, threads, shared)


def notes(plan: Plan, emitted: Source) -> str:
    """Return what was made of a program: loops, calls, stored values."""
    calls = [] if emitted.joined else [step.form for k, step in enumerate(plan.steps) if k not in emitted.parts]
    stored = [name for name in emitted.names.values() if name[0] == "w"]
    text = f"LLVM: {emitted.nests} loop nests in {len(emitted.parts)} compiled parts, {len(stored)} values stored between them"
    for call in calls:
        text += f"\n  called: {call.operation!r}: {call.reason}"
    for call in emitted.in_python:
        text += f"\n  called in loops: {call}"
    return text
