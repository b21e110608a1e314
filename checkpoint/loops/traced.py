"""A chain in code that is traced by `dualad.jit`: one operation of the program, a loop, whatever its length.

Its derivatives are loops too. What they need of each step is kept where it fits into a budget; else the loop is one of loops, and the
steps between two turns of the outer one are made again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import optree

from dualad.core.traced import Traced, example_of
from dualad.graph.passes import optimised
from dualad.graph.program import Program
from dualad.graph.reroll import rolled
from dualad.graph.scan import Scan
from dualad.graph.trace import Trace, TraceError
from dualad.jit.compiled import Compiled
from dualad.jit.tables import with_symbols

from ..storage import Storage
from ..support.byte_sizes import parse_bytes
from ..support.costs import TRACED_STATES_BYTES
from ..sweep.stats import Stats, fill
from .spec import FlatStep, StepSpec

__all__ = ["traced_loop"]

NUMBERS = float | int | complex | np.generic | np.ndarray | Traced


def traced_loop(spec: StepSpec, steps: int | None, storage: Storage, memory: float | str | None, stats: Stats | None) -> Any:
    """Return what a chain returns, as one operation; None where it is not of a known number of steps of one function."""
    if storage.durable:
        raise TypeError(
            f"chain: {storage!r} inside of a function that jit compiles, where a chain is one operation of a program that nothing can go "
            "on from: compile the step, chain(jit(step), ..., storage=...), or leave the storage out"
        )
    if not steps or isinstance(spec.source, tuple):
        return None
    if not all(issubclass(type(leaf), NUMBERS) and type(leaf) is not bool for leaf in spec.state):
        return None
    moving = [i for i, leaf in enumerate(spec.params) if issubclass(type(leaf), float | complex | np.ndarray | np.inexact | Traced)]
    try:
        body, structure = body_of(spec, moving)
    except TraceError:  # arrays outside may be indexed by k, or be constants of the trace around this one
        body, structure = body_of(spec, moving, with_symbols)
    count, rows = len(spec.state), len(spec.inputs)
    args = [*spec.state, *spec.inputs, *(spec.params[i] for i in moving)]
    nbytes = sum(np.asarray(example_of(leaf)).nbytes for leaf in spec.state)
    room = TRACED_STATES_BYTES if memory is None else parse_bytes(memory, "chain", "memory")
    with Trace() as trace:
        given = [trace.input(example_of(arg)) for arg in args]
        program = trace.finish(list(repeated(optimised(rolled(body)), steps, count, rows, given, steps * nbytes <= room)))
    results = Compiled(program, "numpy", "chain")(*args)
    if stats is not None:
        fill(stats, steps=steps, reason="one operation of a program that jit compiles")
    final = spec.tree(results[:count])
    return (final, optree.tree_unflatten(structure, results[count:])) if spec.outputs else final


def body_of(spec: StepSpec, moving: list[int], prepared: Callable[..., Any] | None = None) -> tuple[Program, Any]:
    """Return the program of a step, or of ``prepared(step, trace)``, to these parameters, and the structure of its out."""
    with Trace() as trace:
        k, *state = [trace.input(example) for example in (0, *map(example_of, spec.state))]
        row = [trace.input(example_of(leaf)[0]) for leaf in spec.inputs]
        params = list(spec.params)
        for i in moving:
            params[i] = trace.input(example_of(params[i]))
        flat: FlatStep = spec.flat_step(prepared and prepared(spec.step, trace))
        try:
            leaves, out = flat(k, state, row, spec.arguments(params))
        except Exception as error:
            if trace.refusal is not None and error is not trace.refusal:
                raise trace.refusal from error
            raise
        outs, structure = optree.tree_flatten(out)
        return trace.finish([*leaves, *outs]), structure


def repeated(body: Program, steps: int, count: int, rows: int, args: Sequence[Any], fits: bool) -> Any:
    """Return the results of a loop, or of a loop of loops where the states of all steps do not fit into the budget."""
    inner = math.isqrt(steps)
    if fits or inner < 4:
        return Scan(body, steps, count, rows)(*args)
    turns = steps // inner
    carried, stacks, params = args[:count], args[count : count + rows], args[count + rows :]
    examples = list(map(example_of, args))
    with Trace() as trace:  # a step whose index counts from `before`
        k, before = trace.input(0), trace.input(0)
        state = [trace.input(x) for x in examples[:count]]
        row = [trace.input(x[0]) for x in examples[count : count + rows]]
        rest = [trace.input(x) for x in examples[count + rows :]]
        shifted = trace.finish(body.run(k + before, *state, *row, *rest, each=trace.at))
    shifted.inputs = [k.primal, *(x.primal for x in (*state, *row, *rest)), before.primal]
    with Trace() as trace:
        k, *state = [trace.input(x) for x in (0, *examples[:count])]
        part = [trace.input(x[:inner]) for x in examples[count : count + rows]]
        rest = [trace.input(x) for x in examples[count + rows :]]
        block = trace.finish(list(Scan(optimised(shifted), inner, count, rows)(*state, *part, *rest, k * inner)))
    whole = turns * inner
    results = Scan(block, turns, count, rows)(
        *carried, *(np.reshape(stack[:whole], (turns, inner, *stack.shape[1:])) for stack in stacks), *params
    )
    final, outs = results[:count], [np.reshape(out, (whole, *out.shape[2:])) for out in results[count:]]
    if whole == steps:
        return (*final, *outs)
    last = Scan(optimised(shifted), steps - whole, count, rows)(*final, *(stack[whole:] for stack in stacks), *params, whole)
    return (*last[:count], *(np.concatenate(pair) for pair in zip(outs, last[count:], strict=True)))
