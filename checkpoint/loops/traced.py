"""A chain in code that `dualad.jit` traces: one operation, a loop whatever its length, whose derivatives are loops, too.

A step that branches is traced along all paths that it takes for the examples. The loop carries whether a step has left these paths, or a
predicate has not ended it; then the code around it is traced again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import numpy as np
import optree

from dualad.core.traced import Traced, example_of
from dualad.graph.nested import Scan
from dualad.graph.passes import optimised
from dualad.graph.paths import Path, alike, counted
from dualad.graph.program import Program, kind_of
from dualad.graph.reroll import rolled
from dualad.graph.to_numpy import compile_python
from dualad.graph.trace import Trace, TraceError, where_in
from dualad.jit.compiled import Compiled
from dualad.jit.jit import Jit
from dualad.jit.tables import with_symbols
from dualad.support.byte_sizes import parse_bytes
from dualad.support.costs import KEPT_VARIANTS

from ..support.checks import too_many, truth
from ..support.costs import KEPT_VARIANT_BYTES, LOOP_BYTES
from ..sweep.stats import fill
from .spec import FlatStep, Loop, StepSpec, as_kind, is_number, kept

#: of turns that branch, by their key, what they were given when they took a new path: the next trace takes these, too
MET = SimpleNamespace()


def traced_loop(spec: StepSpec, loop: Loop) -> Any:
    """Return what a chain returns, as one operation; None where it is not of one function, or an unknown number of outs is asked."""
    steps, until, max_steps = loop[:3]
    if loop.storage.durable:
        raise TypeError(
            f"chain: {loop.storage!r} cannot resume inside a function that jit compiles, where the whole chain is one operation: compile "
            "the step, chain(jit(step), ..., storage=...), or leave storage= out"
        )
    if steps == 0 or isinstance(spec.source, tuple) or (until is not None and spec.outputs):
        return None
    if not all(map(is_number, spec.state)):
        return None
    moving = [i for i, leaf in enumerate(spec.params) if issubclass(type(leaf), float | complex | np.ndarray | np.inexact | Traced)]
    turn = Turn(spec, moving, until)
    try:
        body, turns = turn.taken(steps, max_steps)
    except TraceError as error:  # arrays outside may be indexed by k, or be constants of the trace around this one
        if error.many:
            raise
        turn.prepared = with_symbols
        body, turns = turn.taken(steps, max_steps)
    count, rows = len(spec.state), len(spec.inputs)
    flags = [np.False_] * (len(body.inputs) - 1 - count - rows - len(moving))
    args = [*spec.state, *flags, *spec.inputs, *(spec.params[i] for i in moving)]
    nbytes = sum(np.asarray(example_of(leaf)).nbytes for leaf in spec.state)
    room = LOOP_BYTES if loop.memory is None else parse_bytes(loop.memory, "chain", "memory")
    with Trace() as trace:
        given, carried = [trace.input(example_of(arg)) for arg in args], count + len(flags)
        program = trace.finish(list(repeated(optimised(rolled(body)), turns, carried, rows, given, turns * nbytes <= room)))
    results = Compiled(program, "numpy", "chain")(*args)
    for flag in results[count:carried]:
        bool(flag)  # a test of the code around: where it is another, that is traced again
    if loop.stats is not None:
        fill(loop.stats, steps=steps, reason="one operation of a program that jit compiles")
    final = spec.tree(results[:count])
    return (final, optree.tree_unflatten(turn.structure, results[carried:])) if spec.outputs else final


class Turn:
    """A turn of a traced chain: the step, and the predicate where there is one, to the parameters `moving`.
    Its program takes k, the state, whether the chain has ended if there is a predicate, a row of each input, and the parameters."""

    def __init__(self, spec: StepSpec, moving: list[int], until: Callable[..., Any] | None) -> None:
        self.spec, self.moving, self.until = spec, moving, until
        self.prepared: Callable[..., Any] | None = None
        self.structure: Any = None  # of an out
        self.integers: dict[tuple[int, int], list[int]] = {}  # see `Trace`

    def taken(self, steps: int | None, max_steps: int | None) -> tuple[Program, int]:
        """Return the program of all paths that the turns take for the examples, and how many turns to make."""
        x, k = list(map(example_of, self.spec.state)), 0
        paths = [self.path(self.arguments(k, x))]
        if self.until is not None:  # where it has ended, a state is handed on as steps return it
            x = [as_kind(np.asarray(leaf), kind_of(out).kind) for leaf, out in zip(x, paths[0].program.outputs, strict=False)]
            paths, x = [self.path(self.arguments(k, [*x, ends])) for ends in (np.False_, np.True_)], [*x, np.False_]
        met: list[list[Any]] = kept(MET, self.key(self.arguments(k, x)), list) if paths[0].tests else []
        before = []
        for arguments in met:
            with suppress(Exception):  # the step may read other variables by now
                before.append(self.path(arguments))
                more = with_path(paths, before[-1])
                program_of(more)  # which raises where this one does not go with them
                paths = more
        if all(path.truths != paths[0].truths for path in before):
            note(met, self.arguments(k, x))
        body, _ = program_of(paths)
        turn, outs = compile_python(body).call, len(paths[0].program.outputs)
        while paths[0].tests and k != steps and not (self.until is not None and x[-1]):
            made = turn(*self.arguments(k, x))
            if any(made[outs:]):
                arguments = self.arguments(k, x)
                paths = with_path(paths, self.path(arguments))
                body, count = program_of(paths)
                note(met, arguments)
                if count > KEPT_VARIANTS:
                    error = TraceError(
                        f"jit: {where_in(paths[-1].tests[-1].line)}the steps of a chain take more than {KEPT_VARIANTS} paths: choose with "
                        f"np.where, or call the chain outside of jit, chain(jit(step), ...), whose steps are then made one by one"
                    )
                    error.many = True
                    raise error
                turn = compile_python(body).call
                continue
            x = [as_kind(np.asarray(leaf), value.kind) for leaf, value in zip(made[: len(x)], body.inputs[1:], strict=False)]
            if self.until is not None and k == max_steps and not x[-1]:
                raise too_many(k)
            k += 1
        if len(body.outputs) > outs:
            *results, left = body.outputs
            gone = body.value(np.False_)
            body.inputs.insert(1 + len(x), gone)
            body.outputs = [*results[: len(x)], body.append(np.logical_or, (gone, left), {}, gone), *results[len(x) :]]
        return body, steps if steps is not None else 1 << k.bit_length() if max_steps is None else min(1 << k.bit_length(), max_steps + 1)

    def arguments(self, k: int, x: list[Any]) -> list[Any]:
        rows = [example_of(leaf)[k] for leaf in self.spec.inputs]
        return [k, *x, *rows, *(example_of(self.spec.params[i]) for i in self.moving)]

    def key(self, arguments: list[Any]) -> Hashable:
        """Return what tells turns of one kind from others."""
        source = self.spec.source.f if isinstance(self.spec.source, Jit) else self.spec.source
        return (*(getattr(f, "__code__", f) for f in (source, self.until)), *map(kind_of, arguments))

    def path(self, examples: list[Any]) -> Path:
        spec, params, (k, *_) = self.spec, list(self.spec.params), examples
        with Trace(True, self.integers) as trace:
            index, *arguments = map(trace.input, examples)
            end = len(arguments) - len(spec.inputs) - len(self.moving)
            x, rest = arguments[:end], arguments[end:]
            state = x[: len(spec.state)]
            for i, param in zip(self.moving, rest[len(spec.inputs) :], strict=True):
                params[i] = param
            step, until = (f if f is None or self.prepared is None else self.prepared(f, trace) for f in (spec.step, self.until))
            flat: FlatStep = spec.flat_step(step)
            ends = [bool(flag) for flag in x[len(state) :]]
            try:
                if until is not None and ends:
                    ends = [ends[0] or truth(until(index, spec.tree(state)), where="chain", k=k)]
                leaves, out = (state, None) if any(ends) else flat(index, state, rest[: len(spec.inputs)], spec.arguments(params))
            except Exception as error:
                if trace.refusal is not None and error is not trace.refusal:
                    raise trace.refusal from error
                raise
            outs, self.structure = optree.tree_flatten(out)  # type: ignore[arg-type]
            return Path(trace.finish([*leaves, *ends, *outs]), trace.tests)


def with_path(paths: list[Path], path: Path) -> list[Path]:
    return paths if path.truths in [known.truths for known in paths] else [*paths, path]


def program_of(paths: list[Path]) -> tuple[Program, int]:
    """Return the program of paths, and how many it tells apart; their results differ at most in what numbers are to Python."""
    same = alike(paths)
    if same is None:
        raise TraceError("jit: a step of a chain returns results of several types, by the path that it takes: return the same types")
    return counted(same)


def note(met: list[list[Any]], arguments: list[Any]) -> None:
    """Keep the arguments of a turn, if they are small and not too many."""
    if sum(np.asarray(leaf).nbytes for leaf in arguments) <= KEPT_VARIANT_BYTES and len(met) < KEPT_VARIANTS:
        met.append(arguments)


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
