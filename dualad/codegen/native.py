"""The backend of LLVM: programs as compiled loops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from ..graph.handled import again
from ..graph.program import Program, Value, map_values
from ..graph.to_numpy import joined
from ..graph.trace import where_in
from ..ir.nodes import Module
from ..ir.verify import checking, verify
from ..loops.forms import Buffer, Fill, Made, Node
from ..loops.fuse import Plan, memory_of, plan
from ..loops.packing import UNPACKED
from ..loops.threads import in_blocks
from ..support.costs import PROGRAM_OPERATIONS, SMALL_ARRAY_BYTES, WOKEN_ADDITIONS
from ..support.forks import compiler
from .emit import Source, emit
from .fragments import STEPS

__all__ = ["Native", "compile_llvm", "compiled", "too_long"]


def too_long(source: str, *programs: Program) -> str | None:
    """Return why a source should not be compiled, None where it may."""
    lines = source.count("\n")
    if lines <= 2 * PROGRAM_OPERATIONS:
        return None
    busiest = Counter(operation.line for program in programs for operation in program.operations).most_common(1)[0][0]
    return (
        f"the emitted source has {lines:,} lines, which would be compiled for long, most of it for "
        f"{where_in(busiest).rstrip(': ') or 'an unknown line'}: its loop is unrolled, and its turns are not alike enough to be rolled up. "
        f"Write it as chain(...), or compile its step alone"
    )


class Native:
    """A program made ready to run as machine code.

    Attributes
    ----------
    call : maps the plain inputs to a tuple of outputs.
    raw : the same of inputs as the compiled function takes them: arrays in the order of C, numbers of the program's kinds.
    flat : maps inputs, and an array or None, to all outputs (arrays of one dtype), one after the other in that array or in a new one.
    raw_flat : the same of inputs as `raw` takes them.
    emitted : the emitted module: ``part0`` is compiled and takes buffers only, in the order of ``buffers``.
    source : the module as Python.
    notes : what was fused into how many loops, what is called, what is stored.
    plan, buffers : how the program is computed; the nodes whose buffers the part of each step takes.
    fixed : the small constant arrays, which parts hold themselves.
    """

    def __init__(self, program: Program, threads: int | None = None):
        self.plan = plan(program)
        if threads is not None:
            self.plan = in_blocks(self.plan)
        self.emitted = emit(self.plan, STEPS, joins=True)
        self.threads = (threads or 1) if self.emitted.additions >= WOKEN_ADDITIONS else 1
        self.source = self.emitted.text
        self.notes = notes(self.plan, self.emitted)
        self.fixed: dict[Node, np.ndarray] = {}
        self.functions = self.compile()
        self.buffers = {k: [node for node in nodes if node not in self.fixed] for k, nodes in self.emitted.parts.items()}
        self.raw, self.call, self.raw_flat, self.flat = self.callers()

    def compile(self):
        """Compile all functions for the types of their buffers, or load their machine code; return what runs without looking at types."""
        reason = too_long(self.source, self.plan.program)
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

    # --- calls ------------------------------------------------------------------------------------------------------------------

    def callers(self):
        """Return the functions of the plain inputs: of those that fit, and of any."""
        simple = self.emitted.joined or len(self.emitted.parts) == len(self.plan.steps)
        outs = [self.output(out, k) for k, out in enumerate(self.plan.program.outputs)] if simple else [None]
        if None not in outs:
            return self.written_out(outs)
        by_steps, program = self.by_steps(), self.plan.program

        def call(*inputs):
            try:
                return by_steps(*inputs)
            except Exception:
                return again(program, inputs)

        return call, call, joined(call), joined(call)

    def output(self, out, k):
        """Return an output as source where it is a result's own buffer, or a number everywhere; None where more is to be done."""
        if not isinstance(out, Value):
            return f"literals[{k}]"
        node: Any = self.plan.results[k]
        if k in self.plan.packed:
            return f"{self.emitted.names[node]}_numbers[{self.plan.packed[k][1]}]"
        if isinstance(node.form, Fill) and out.kind == "array" and out.layout == "C":
            return f"full({node.shape}, literal{k}, dtype{k})"
        if node not in self.plan.stored or node.dtype != out.dtype or self.plan.results.index(node) != k:
            return None
        name = self.emitted.names[node]
        if out.kind == "array":
            return f"{name}.T" if node is not self.plan.nodes[out] else f"fortran({name})" if out.layout == "F" and out.ndim > 1 else name
        return name + {"scalar": "[()]", "python": ".item()"}[out.kind]

    def written_out(self, outs):
        """Return the functions as a few statements: results are allocated, work comes from a pool, the parts are called."""
        plan, names = self.plan, self.emitted.names
        pairs = list(zip(plan.results, plan.program.outputs, strict=True))
        results = {memory_of(node) for node, out in pairs if node is not None and out.kind == "array"}
        made = {name: node for node, name in names.items() if node in plan.stored}.values()
        work = [node for node in made if node not in results]
        space: dict[str, Any] = {
            "empty": np.empty,
            "fit": prepared,
            "fortran": np.asfortranarray,
            "again": again,
            "program": plan.program,
            "literals": plan.program.outputs,
            "full": np.full,
            "pool": [],
        }
        space["work"] = [(node.shape, node.dtype) for node in work]
        space.update({names[node]: prepared(node, node.form.array) for node in self.emitted.constants})
        for k, out in enumerate(plan.program.outputs):
            if isinstance(out, Value) and isinstance(plan.nodes[out].form, Fill):
                space[f"literal{k}"], space[f"dtype{k}"] = plan.nodes[out].form.number, out.dtype
        allocated = []
        for node in made:
            if node in results:
                space[f"{names[node]}_dtype"] = node.dtype
                allocated.append(f"{names[node]} = empty({node.shape}, {names[node]}_dtype)")
        parts = []
        for (k, parameters), function in zip(self.buffers.items(), self.functions, strict=True):
            space[f"part{k}"] = function
            given = ", ".join(names[node] for node in parameters)
            parts.append(f"part{k}({given})")
        for name, kind in {(names[node], plan.program.outputs[k].kind) for k, (node, _) in plan.packed.items()}:
            space[f"numbers_{kind}"] = UNPACKED[kind]
            parts.append(f"{name}_numbers = numbers_{kind}({name})")
        inputs = [f"x{k}" for k in range(len(plan.given))]
        given, fitted = ", ".join(inputs), list(inputs)
        for k, node in enumerate(plan.given):
            if node in names:
                space[f"node{k}"] = node
                fitted[k] = f"fit(node{k}, x{k})"

        def define(name, parameters, allocated, returned, otherwise):
            """Write a function that allocates results, calls the parts, and returns an expression of the results."""
            lines = [*allocated, *parts, f"outs = {returned}", "return outs"]
            if work:
                taken = "buffers = pool.pop() if pool else [empty(shape, dtype) for shape, dtype in work]"
                lines[:0] = [taken, f"[{', '.join(names[node] for node in work)}] = buffers"]
                lines[-1:] = ["pool.append(buffers)", "return outs"]
            lines = ["try:", *(f"    {line}" for line in lines), f"except Exception: return {otherwise}"]
            exec("\n    ".join([f"def {name}({parameters}):", *lines]), space)

        returned = f"({', '.join(outs)}{',' * (len(outs) == 1)})"
        if len(plan.given) < len(plan.program.inputs):
            space["takes"] = list(plan.given.values())
            taken = [f"[{given}] = [take(inputs) for take in takes]", *(f"x{k} = {fit}" for k, fit in enumerate(fitted))]
            define("call", "*inputs", [*taken, *allocated], returned, "again(program, inputs)")
            return space["call"], space["call"], joined(space["call"]), joined(space["call"])
        define("raw", given, allocated, returned, f"again(program, ({given}{',' * bool(given)}))")
        exec(f"def call({given}): return raw({', '.join(fitted)})", space)
        space["joined"] = joined(space["call"])
        lines = self.in_one_array(space)
        if lines is None:
            return space["raw"], space["call"], space["joined"], space["joined"]
        own = ", ".join([*inputs, "into"])
        define("raw_flat", own, lines, "into", f"joined({own})")
        exec(f"def flat({own}): return raw_flat({', '.join([*fitted, 'into'])})", space)
        return space["raw"], space["call"], space["raw_flat"], space["flat"]

    def in_one_array(self, space):
        """Return the lines that place all results in the array `into`, None where they cannot be."""
        outs = self.plan.program.outputs
        alike = all(isinstance(out, Value) and out.kind == "array" and out.layout == "C" and out.dtype == outs[0].dtype for out in outs)
        if not outs or not alike or self.plan.packed:
            return None
        computed = [self.plan.nodes[out] for out in outs if not isinstance(self.plan.nodes[out].form, Fill)]
        if len(set(computed)) < len(computed):
            return None
        space["whole_dtype"], stop = outs[0].dtype, 0
        lines = [f"if into is None: into = empty({sum(out.size for out in outs)}, whole_dtype)"]
        for k, out in enumerate(outs):
            start, stop = stop, stop + out.size
            node = self.plan.nodes[out]
            if isinstance(node.form, Fill):
                lines.append(f"into[{start if out.size == 1 else f'{start}:{stop}'}] = literal{k}")
            else:
                whole = "into" if len(outs) == 1 else f"into[{start}:{stop}]"
                lines.append(f"{self.emitted.names[node]} = {whole}{f'.reshape({out.shape})' if out.ndim != 1 else ''}")
        return lines

    def by_steps(self):
        """Return the function that runs parts and calls in order, and holds all values by node."""
        plan = self.plan
        constants = {node: prepared(node, node.form.array) for node in self.emitted.constants}
        compiled = dict(zip(self.emitted.parts, self.functions, strict=True))
        places = [plan.packed[k][1] if k in plan.packed else () for k in range(len(plan.results))]
        finish = [finisher(node, plan.nodes, out, at) for node, out, at in zip(plan.results, plan.program.outputs, places, strict=True)]
        made = dict.fromkeys(node for nodes in self.buffers.values() for node in nodes if node in plan.stored)
        fitting = {*constants, *(node for node in made if not isinstance(node.form, Made))}

        def part(k):
            function = compiled[k]
            buffers = [(node, node in fitting) for node in self.buffers[k]]

            def run(held):
                arguments = [held[node] if fits else prepared(node, held[node]) for node, fits in buffers]
                function(*arguments)

            return run

        if self.emitted.joined:
            steps = [part(0)]
        else:
            steps = [part(k) if k in compiled else called(step.form.operation, plan.nodes) for k, step in enumerate(plan.steps)]

        def call(*given):
            held: dict[Node, Any] = dict(constants)
            held.update((node, take(given)) for node, take in plan.given.items())
            held.update((node, np.empty(node.shape, node.dtype)) for node in made)
            with np.errstate(all="ignore"):
                for step in steps:
                    step(held)
            return tuple([last(held) for last in finish])

        return call


def called(operation, nodes):
    """Return the function that calls an operation with what is held, by node, and holds the results."""
    results = [(nodes[value], isinstance(nodes[value].form, Made)) for value in operation.outputs]

    def run(held):
        value_of = lambda value: as_value(value, held, nodes)
        args = [value_of(arg) if type(arg) is Value else map_values(value_of, arg) for arg in operation.args]
        out = operation.call(*args, **map_values(value_of, operation.kwargs))
        for (node, made), x in zip(results, out if operation.several else (out,), strict=True):
            held[node] = np.asarray(x) if made else x

    return run


def compiled(
    module: Module, name: str, constants: dict[int, np.ndarray] | None = None, threads: int = 1, shared: Collection[str] = ()
) -> Callable:
    """Return a function of a module as machine code, whose blocks are shared by so many threads.

    The `constants` are parameters, by position, that are always these arrays. What is `shared` with others is compiled once.
    """
    with compiler():
        from . import machine  # and llvmlite
    return machine.compiled(module, name, constants, threads, shared)


def compile_llvm(program: Program, threads: int | None = None) -> Native:
    """Make a program ready to run as compiled loops."""
    return Native(program, threads)


def prepared(node, x):
    """Return an input, a constant or a result as the compiled function takes it."""
    if node.shape or not isinstance(node.form, Buffer):  # work and results of no axes are arrays
        flags = x.flags
        return x if flags.c_contiguous and flags.aligned and x.dtype == node.dtype else np.array(x, node.dtype, order="C")
    x = x[()] if issubclass(type(x), np.ndarray) else x
    return x if node.weak or (type(x) is float and node.dtype == float) else node.dtype.type(x)


def seen(node, held):
    """Return a node's array: a buffer, or one in another shape."""
    if node in held:
        return held[node]
    if isinstance(node.form, Fill):
        return np.full(node.shape, node.form.number, node.dtype)
    if node.form.array is not None:
        return node.form.array
    return np.reshape(seen(memory_of(node), held), node.shape)


def as_value(value: Value, held, nodes):
    """Return a value as the operation that is called takes it."""
    x = seen(nodes[value], held)
    if value.kind == "array":
        return np.asarray(x)
    return np.asarray(x).item() if value.kind == "python" else np.asarray(x, value.dtype)[()]


def finisher(node, nodes, out, at):
    """Return the function that makes an output of the buffers; what `node` has at a place is computed of it, itself or its transpose."""
    if not isinstance(out, Value):
        return lambda held: out
    dtype = out.dtype
    if out.kind == "python":
        return lambda held: np.asarray(seen(node, held))[at].item()
    if out.kind == "scalar":
        return lambda held: dtype.type(np.asarray(seen(node, held))[at])
    if node is not nodes[out]:
        return lambda held: np.array(np.asarray(seen(node, held))[at], dtype).T
    order: Any = "F" if out.layout == "F" else "C"
    return lambda held: np.array(seen(node, held), dtype, order=order).reshape(out.shape, order=order)


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
