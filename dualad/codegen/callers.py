"""The generated function that calls the compiled parts of a program.

Results are allocated, work comes from a pool, parts and operations are called in their order. What is called besides parts may keep what it
is given: then no array is used again.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

import numpy as np

from ..graph.handled import rerun_in_numpy
from ..graph.program import Value
from ..graph.to_numpy import joined
from ..loops.forms import Buffer, Fill, Made, Node
from ..loops.fuse import memory_of
from ..loops.packing import UNPACKED
from ..loops.python_calls import evaluated
from ..support.sources import define
from .emit import Source


def prepared(node, x):
    """Return an input, a constant or a result as the compiled function takes it."""
    if node.shape or not isinstance(node.form, Buffer):  # work and results of no axes are arrays
        flags = x.flags
        return x if flags.c_contiguous and flags.aligned and x.dtype == node.dtype else np.array(x, node.dtype, order="C")
    x = x[()] if issubclass(type(x), np.ndarray) else x
    return x if node.weak or (type(x) is float and node.dtype == float) else node.dtype.type(x)


class Callers:
    """Statements that call parts, by the names of the buffers, and what else they refer to: the `space`."""

    def __init__(self, plan, emitted: Source, fixed: Container[Node], functions: list[Callable]):
        self.plan, self.outs = plan, plan.program.outputs
        self.reruns: dict[str, tuple[int, str]] = {}  # see `rerun_in_numpy`
        # the nodes whose buffers the part of each step takes
        self.buffers = {k: [node for node in nodes if node not in fixed] for k, nodes in emitted.parts.items()}
        self.names = dict(emitted.names)
        self.called = {} if emitted.joined else {k: step.form.operation for k, step in enumerate(plan.steps) if k not in self.buffers}
        self.packs = len(plan.given) < len(plan.program.inputs)
        returned = {plan.nodes[value] for operation in self.called.values() for value in operation.outputs}
        pairs = zip(plan.results, self.outs, strict=True)
        results = {memory_of(node) for node, out in pairs if node is not None and out.kind == "array"}
        first: dict[str, Node] = {}  # of those that share an array, the one whose shape it has
        for node, name in self.names.items():
            if node in plan.stored and node not in returned:
                first.setdefault(name, node)
        own = first.values()
        self.own, self.fitting = {*own}, {*own, *emitted.constants}
        self.results = [node for node in own if node in results or self.called]
        self.work = [node for node in own if node not in results and not self.called]
        self.space: dict[str, Any] = {
            "empty": np.empty,
            "full": np.full,
            "array": np.array,
            "asarray": np.asarray,
            "errstate": np.errstate,
            "fortran": np.asfortranarray,
            "fit": prepared,
            "rerun_in_numpy": rerun_in_numpy,
            "program": plan.program,
            "reruns": self.reruns,
            "takes": list(plan.given.values()),
            "work": [(node.shape, node.dtype) for node in self.work],
            "pool": [],
        }
        self.space.update({self.names[node]: prepared(node, node.form.array) for node in emitted.constants})
        for k, node in enumerate(plan.given):
            self.names.setdefault(node, f"x{k}")
        self.steps = self.statements(dict(zip(self.buffers, functions, strict=True)))

    def constant(self, thing):
        """Return a name under which statements find an object."""
        name = f"held{len(self.space)}"
        self.space[name] = thing
        return name

    # --- buffers and values -----------------------------------------------------------------------------------------------------

    def buffer(self, node):
        """Return a node's array: a buffer, or one in another shape."""
        if node not in self.names and isinstance(node.form, Fill):
            return f"full({node.shape}, {self.constant(node.form.number)}, {self.constant(node.dtype)})"
        if node not in self.names and memory_of(node) is not node:
            return f"asarray({self.buffer(memory_of(node))}).reshape({node.shape})"
        if node not in self.names:
            self.names[node] = self.constant(node.form.array)
        return self.names[node]

    def argument(self, node):
        """Return a buffer as a part takes it."""
        return self.names[node] if node in self.fitting or not self.called else f"fit({self.constant(node)}, {self.names[node]})"

    def value(self, value):
        """Return a value as the operation that is called takes it."""
        x = self.buffer(self.plan.nodes[value])
        if value.kind == "array":
            return f"asarray({x})"
        return f"asarray({x}).item()" if value.kind == "python" else f"asarray({x}, {self.constant(value.dtype)})[()]"

    def is_own(self, k):
        """Return whether an output is a result's own buffer, or the number in one."""
        node, results = self.plan.results[k], self.plan.results
        return node in self.own and node.dtype == self.outs[k].dtype and results.index(node) == k

    def output(self, k):
        """Return an output."""
        out, node = self.outs[k], self.plan.results[k]
        if not isinstance(out, Value):
            return self.constant(out)
        if k in self.plan.packed:
            return f"{self.names[node]}_numbers[{self.plan.packed[k][1]}]"
        if isinstance(node.form, Fill) and out.kind == "array" and out.layout == "C":
            return f"full({node.shape}, {self.constant(node.form.number)}, {self.constant(out.dtype)})"
        x, own, dtype = self.buffer(node), self.is_own(k), self.constant(out.dtype)
        if out.kind == "python":
            return f"{x}.item()" if own else f"asarray({x}).item()"
        if out.kind == "scalar":
            return f"{x}[()]" if own else f"{dtype}.type(asarray({x})[()])"
        if node is not self.plan.nodes[out]:
            return f"{x}.T" if own else f"array({x}, {dtype}).T"
        order = "F" if out.layout == "F" else "C"
        if own:
            return f"fortran({x})" if order == "F" and out.ndim > 1 else x
        return f"array({x}, {dtype}, order={order!r}).reshape({out.shape}, order={order!r})"

    # --- statements -------------------------------------------------------------------------------------------------------------

    def statements(self, functions):
        """Return what calls parts and operations in their order."""
        steps = []
        for k in range(len(self.plan.steps)) if self.called else functions:
            if k in functions:
                steps.append(f"{self.constant(functions[k])}({', '.join(map(self.argument, self.buffers[k]))})")
                continue
            operation = self.called[k]
            nodes = [self.plan.nodes[value] for value in operation.outputs]
            targets = [self.names.setdefault(node, f"called{k}_{i}") for i, node in enumerate(nodes)]
            steps.append(f"{', '.join(targets)}, = {self.constant(evaluated(operation))}({', '.join(map(self.value, operation.reads))})")
            steps += [f"{target} = asarray({target})" for target, node in zip(targets, nodes, strict=True) if isinstance(node.form, Made)]
        if self.called:
            steps = ["with errstate(all='ignore'):", *(f"    {step}" for step in steps)]
        for node, kind in dict.fromkeys((node, self.outs[k].kind) for k, (node, _) in self.plan.packed.items()):
            steps.append(f"{self.names[node]}_numbers = {self.constant(UNPACKED[kind])}({self.names[node]})")
        return steps

    def define(self, name, parameters, allocated, returned, otherwise):
        """Enter a function that allocates results, takes the steps, and returns an expression of the results."""
        lines = [*allocated, *self.steps, f"outs = {returned}", "return outs"]
        if self.work:
            taken = "buffers = pool.pop() if pool else [empty(shape, dtype) for shape, dtype in work]"
            lines[:0] = [taken, f"[{', '.join(self.names[node] for node in self.work)}] = buffers"]
            lines[-1:] = ["pool.append(buffers)", "return outs"]
        lines = ["try:", *(f"    {line}" for line in lines), f"except Exception: return {otherwise}"]
        define([f"def {name}({parameters}):", *lines], self.space)

    def compiled(self) -> tuple[Callable, ...]:
        """Return the functions of the plain inputs, of those that fit and of any, and these with an array into which the outputs go."""
        space, inputs = self.space, [f"x{k}" for k in range(len(self.plan.given))]
        given, needed = ", ".join(inputs), {node for nodes in self.buffers.values() for node in nodes if not self.called}
        fitted = [f"fit({self.constant(node)}, {x})" if node in needed else x for node, x in zip(self.plan.given, inputs, strict=True)]
        allocated = [f"{self.names[node]} = empty({node.shape}, {self.constant(node.dtype)})" for node in self.results]
        outs = f"({''.join(f'{self.output(k)}, ' for k in range(len(self.outs)))})"
        if self.packs:
            taken = [f"[{given}] = [take(inputs) for take in takes]", *map("{} = {}".format, inputs, fitted)]
            self.define("raw", "*inputs", [*taken, *allocated], outs, "rerun_in_numpy(program, inputs, reruns)")
            space["call"] = space["raw"]
        else:
            self.define("raw", given, allocated, outs, f"rerun_in_numpy(program, ({given}{',' * bool(given)}), reruns)")
            define([f"def call({given}): return raw({', '.join(fitted)})"], space)
        space["joined"] = joined(space["call"])
        into = self.into()
        if into is None:
            return space["raw"], space["call"], space["joined"], space["joined"]
        given = ", ".join([*inputs, "into"])
        self.define("raw_flat", given, into, "into", f"joined({given})")
        define([f"def flat({given}): return raw_flat({', '.join([*fitted, 'into'])})"], space)
        return space["raw"], space["call"], space["raw_flat"], space["flat"]

    def into(self):
        """Return the lines that place all results in the array `into`, None where they cannot be."""
        outs, nodes = self.outs, self.plan.results
        alike = all(isinstance(out, Value) and out.kind == "array" and out.layout == "C" and out.dtype == outs[0].dtype for out in outs)
        own = alike and all(isinstance(node.form, Fill) or self.is_own(k) for k, node in enumerate(nodes))
        if not outs or not own or self.called or self.packs or self.plan.packed:
            return None
        lines, stop = [f"if into is None: into = empty({sum(out.size for out in outs)}, {self.constant(outs[0].dtype)})"], 0
        for out, node in zip(outs, nodes, strict=True):
            start, stop = stop, stop + out.size
            if isinstance(node.form, Fill):
                lines.append(f"into[{start if out.size == 1 else f'{start}:{stop}'}] = {self.constant(node.form.number)}")
            else:
                whole = "into" if len(outs) == 1 else f"into[{start}:{stop}]"
                lines.append(f"{self.names[node]} = {whole}{f'.reshape({out.shape})' if out.ndim != 1 else ''}")
        return lines
