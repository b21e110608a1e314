"""The programs of a chain's step: their inputs and outputs in groups, with tangents where forward mode asks for them.

A step has the inputs ``(k,), state, rows, params`` and the outputs ``state, outs, left``, of which the last says where there is one whether
a path not yet seen was taken; its pullback takes the cotangents of the first two besides and gives those of the state, of the rows and of
the parameters. A level of forward mode doubles each group: the values, then the tangents of those that have one. So a chain in forward
mode is a chain again, and forward over reverse a reverse sweep again.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from .differentiate import pullback, pushforward
from .nested import ones_of
from .passes import optimised
from .program import Kind, Program, Value, kind_of


class Routine(NamedTuple):
    """A program, its inputs in groups, what its outputs are, in groups, and values like its inputs, for tracing."""

    program: Program
    inputs: list[list[Value]]
    outputs: list[list[Kind]]
    examples: list[list]


def changed(given, out) -> str:
    """Return what an output is and an input was not, of shape, dtype, and whether it is an array, which can be written into."""
    out = kind_of(out)
    if given.shape != out.shape:
        return f"of the shape {out.shape}, which was {given.shape}"
    if given.dtype != out.dtype:
        return f"{out.dtype}, which was {given.dtype}"
    if out.kind == "array" and given.kind != "array":
        return "an array without axes, which was a number: begin with np.asarray(number)"
    return "a number, which was an array without axes: begin with the number" if given.kind == "array" != out.kind else ""


def inexact(values) -> list[int]:
    """Return the positions of the values that have derivatives."""
    return [i for i, value in enumerate(values) if value.dtype.kind in "fc"]


def example(out, directions=None):
    """Return a number or array of ones like a value; a tangent of it, where there are directions."""
    return ones_of(Kind(out.shape, out.dtype, out.kind)) if directions is None else np.ones((directions, *out.shape), out.dtype)


def pulled(step: Routine, rows: list[int], params: list[int], nan_safe: bool) -> Routine:
    """Return the pullback of a step: the cotangents of its state, and of these rows and parameters."""
    state, outs, left = step.outputs
    wanted_state = inexact(step.inputs[1])
    parts: Any = (([], step.inputs[0]), (wanted_state, step.inputs[1]), (rows, step.inputs[2]), (params, step.inputs[3]))
    wanted = [i in asked for asked, values in parts for i in range(len(values))]
    cotangents = [example(out) if out.dtype.kind in "fc" else None for out in (*state, *outs, *left)]
    program = pullback(step.program, flat(step.examples), wanted, cotangents, nan_safe=nan_safe)
    del program.outputs[sum(wanted) :]
    program = optimised(program, exact=False, adjoint=True)
    inputs = iter(program.inputs)
    groups = [list(islice(inputs, count)) for count in (*map(len, step.inputs), len(inexact(state)), len(inexact(outs)))]
    given = [[step.inputs[group][i] for i in asked] for group, asked in ((1, wanted_state), (2, rows), (3, params))]
    gs = [[one for one in ones if one is not None] for ones in (cotangents[: len(state)], cotangents[len(state) :])]
    return Routine(program, groups, [list(map(kind_of, group)) for group in given], [*step.examples, *gs])


def pushed(routine: Routine, active: list[list[int]], directions, nan_safe: bool) -> Routine:
    """Return a routine with tangents of these inputs of each group, and of all outputs that can have one."""
    program, ts = routine.program, []
    for group, positions in zip(routine.inputs, active, strict=True):
        ts += [example(value, directions) if i in positions else None for i, value in enumerate(group)]
    made = pushforward(program, flat(routine.examples), ts, directions, nan_safe)
    count = len(ts)
    values, tangents = iter(made.inputs[:count]), iter(made.inputs[count:])
    groups = [[*islice(values, len(group)), *islice(tangents, len(asked))] for group, asked in zip(routine.inputs, active, strict=True)]
    made.inputs = flat(groups)
    outs, out_tangents = (iter(part) for part in (made.outputs[: len(made.outputs) // 2], made.outputs[len(made.outputs) // 2 :]))
    outputs, shapes = [], list[Any]()
    for kinds in routine.outputs:
        kept, moving = inexact(kinds), list(islice(out_tangents, len(kinds)))
        outputs += [*islice(outs, len(kinds)), *(moving[i] for i in kept)]
        shapes.append([*kinds, *(tangent_of(kinds[i], directions) for i in kept)])
    made.outputs = outputs
    ones = iter([t for t in ts if t is not None])
    examples = [[*group, *islice(ones, len(asked))] for group, asked in zip(routine.examples, active, strict=True)]
    return Routine(optimised(made, exact=False), groups, shapes, examples)


def tangent_of(out, directions) -> Kind:
    """Return what the tangent of an output is."""
    return out if directions is None else Kind((directions, *out.shape), out.dtype, "array")


def flat(groups):
    return [value for group in groups for value in group]
