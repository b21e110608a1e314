"""Emission: a program as explicit loops, in the loop IR.

Each part of the plan becomes a function of numbers and arrays, ``part0(x0, x1, c0, w0, y0)``: inputs, constants, work and results,
which it writes into. It allocates nothing. What is emitted depends on the program alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ..ir import nodes as ir
from ..ir.nodes import Call, Do, Module
from ..ir.to_python import module_text
from ..loops.forms import Node, NoLoopForm
from ..loops.fuse import Part, Plan, additions, memory_of
from ..support.forks import cached_property
from .function import Function, Names

HEADER = '''"""Emitted by dualad: do not edit."""

import math

import numpy as np

from dualad.codegen.arithmetic import *
from dualad.codegen.kernels import *
from dualad.codegen.scalars import *
'''
LOOPS = "from dualad.support.ufunc_loops import call_loop\n"
BLOCKS = "from dualad.loops.threads import run, thread\n"


def text_of(module: Module) -> str:
    """Return the source of a module, which Python runs."""
    text = module_text(module)
    return f"{HEADER}{LOOPS if 'call_loop(' in text else ''}{BLOCKS if ' run(' in text else ''}\n\n{text}"


@dataclass
class Source:
    """The emitted module."""

    module: Module
    parts: dict[int, list[Node]]  # for each part and loop among the plan's steps, the nodes whose buffers its function takes
    functions: dict[int, str]  # the names of these functions
    names: dict[Node, str]  # of buffers
    constants: list[Node]  # the nodes of constant arrays, ``c0``, ``c1``, ...
    nests: int  # how many loop nests there are
    additions: float  # about how many it all takes
    in_python: list[str]  # what Python is called for, and why
    joined: bool  # whether one function calls those of all steps

    @cached_property
    def text(self):
        """The module as Python."""
        return text_of(self.module)


def emit(
    plan: Plan,
    others: Mapping[type, Callable] = MappingProxyType({}),
    prefix: str = "",
    joins: bool = False,
    depth: int = 0,
    called: int | None = None,
) -> Source:
    """Return the module of a plan, whose functions' names begin with `prefix`; `others` emit the steps that are no parts, by their form.

    A step without one there, or that is known to be `called`, is a call of Python, and holds its own work arrays. Without such steps a plan
    shares work arrays between parts, and one more function may call all parts in order (`joins`).
    """
    shares = called is None and all(isinstance(step, Part) or type(step.form) in others for step in plan.steps)
    buffers = Names(plan, shares)
    functions: dict[int, Function] = {}
    for k, step in enumerate(plan.steps):
        function = Function(plan, buffers, f"{prefix}part{len(functions)}", depth)
        if isinstance(step, Part):
            functions[k] = function
            for nest in step.nests:
                function.emit(nest)
                buffers.end()
        elif type(step.form) in others and k != called:
            try:
                others[type(step.form)](function, step)
                functions[k] = function
            except NoLoopForm:
                if prefix:  # of a unit, which is computed whole or not at all
                    raise
                if shares:
                    return emit(plan, others, prefix, joins, depth, called=k)
            buffers.end()
    needed = set(plan.outputs)
    for k, step in enumerate(plan.steps):
        if k not in functions:
            needed.update(map(memory_of, step.form.operands))
    needed.update(memory_of(node) for node in plan.outputs)
    for function in functions.values():
        needed.update(function.used)
    module = Module(tuple(part for function in functions.values() for part in function.finished(needed)))
    parts = {k: function.parameters for k, function in functions.items()}
    joined = joins and len(functions) == len(plan.steps) > 1
    if joined:
        parts = {0: list(dict.fromkeys(node for nodes in parts.values() for node in nodes))}
        calls = tuple(Do(Call(one.title, tuple(map(buffers.variable, one.parameters)), None)) for one in functions.values())
        module = Module((*module.parts, ir.Function("joined", tuple(map(buffers.variable, parts[0])), calls)))
    return Source(
        module,
        parts=parts,
        functions={0: "joined"} if joined else {k: function.title for k, function in functions.items()},
        names={node: variable.name for node, variable in buffers.variables.items()},
        constants=buffers.constants,
        nests=sum(function.loops_emitted for function in functions.values()),
        additions=additions(plan.outputs) + sum(function.additions for function in functions.values()),
        in_python=list(dict.fromkeys(call for function in functions.values() for call in function.in_python)),
        joined=joined,
    )
