"""Derivatives of programs, as programs: the rows' rules run on Symbols.

Forward mode runs the program on Duals of Symbols. Reverse mode takes the program for what it is, a Wengert list, and runs the rows'
VJPs over it backwards. K directions at once are Batches of Symbols.
"""

from __future__ import annotations

from ..batch import unwrap, wrap
from ..dual import make_dual
from ..levels import Level, locate
from ..rules.cotangents import like_primal, unbroadcast
from ..rules.indexing import cast, getitem, scatter, winners
from ..rules.kinds import ROWS, Constant, Differentiable, Elementwise
from ..rules.names import np
from ..rules.shapes import blank, filled, select
from ..seeding import split_value
from .passes import dead
from .program import Program, Value, map_values, updated, values_in
from .symbol import Symbol, Trace

__all__ = ["halves", "pullback", "pushforward"]


def pushforward(program: Program, examples, tangents, directions=None, nan_safe=False) -> Program:
    """Return the program of the values and the tangents of the outputs.

    Parameters
    ----------
    examples : plain inputs.
    tangents : example tangents, None for an input that is constant; with a leading axis where `directions` says of what length.

    Returns
    -------
    Program of the inputs and the tangents that are not None; its outputs are those of `program`, and their tangents (None for zero).
    """
    with Trace() as trace:
        xs = [trace.input(x) for x in examples]
        ts = [None if t is None else trace.input(t) for t in tangents]
        with Level(directions, nan_safe) as level:
            outs = program.run(*(x if t is None else make_dual(x, t, level) for x, t in zip(xs, ts, strict=True)), each=trace.at)
            values, pushed = zip(*(split_value(out, level) for out in outs), strict=True) if outs else ((), ())
        return trace.finish([*values, *pushed])


def pullback(program: Program, examples, wanted, cotangents, directions=None, nan_safe=False) -> Program:
    """Return the program of the cotangents of inputs, from the inputs and the cotangents of the outputs.

    Parameters
    ----------
    examples : plain inputs.
    wanted : for each input, whether its cotangent is asked for.
    cotangents : example cotangents of the outputs, None for zero; with a leading axis where `directions` says of what length.

    Returns
    -------
    Program of the inputs and the cotangents that are not None; its outputs are the cotangents that are wanted (None for zero), and
    those of `program`.
    """
    with Trace() as trace:
        xs = [trace.input(x) for x in examples]
        gs = [None if g is None else trace.input(g) for g in cotangents]
        held = {**dict(zip(program.inputs, xs, strict=True)), **program.constants}
        active = {value for value, asked in zip(program.inputs, wanted, strict=True) if asked}
        for operation in program.operations:
            trace.at(operation)
            operation.evaluate(held)
            if any(value in active for value in values_in(operation.args)):
                active.update(value for value in operation.outputs if value.dtype.kind in "fc")
        outs = [held[out] if type(out) is Value else out for out in program.outputs]
        with Level(directions, nan_safe) as level:
            adjoints: dict[Value, object] = {}
            for out, g in zip(program.outputs, gs, strict=True):
                if g is not None and out in active:
                    add(adjoints, out, g if directions is None else wrap(g, level))
            with np.errstate(all="ignore"):
                for operation in reversed(program.operations):
                    trace.at(operation)
                    pull(operation, held, active, adjoints, nan_safe)
            results = []
            for value, x in zip(program.inputs, xs, strict=True):
                g = adjoints.get(value)
                if value in active and g is not None:
                    g = g if directions is None else unwrap(g, level, x.shape)
                    g = like_primal(g, x)
                results.append(g)
        return trace.finish([g for g, asked in zip(results, wanted, strict=True) if asked] + outs)


def pull(operation, held, active, adjoints, nan_safe):
    """Add the shares of an operation's arguments to their adjoints."""
    gs = [adjoints.pop(value, None) for value in operation.outputs]
    if all(g is None for g in gs):
        return
    if operation.fn is updated:
        pull_update(operation, gs[0], held, active, adjoints)
        return
    row = ROWS.get(operation.fn)
    if not isinstance(row, Differentiable):
        return
    args = [held[arg] if type(arg) is Value else arg for arg in with_values(operation.args, held)]
    kwargs = with_values(operation.kwargs, held)
    ans = [held[value] for value in operation.outputs] if operation.several else held[operation.outputs[0]]
    g = gs[0]
    if operation.several:
        g = [np.zeros(value.shape, value.dtype) if part is None else part for part, value in zip(gs, operation.outputs, strict=True)]
    strong = (True,) if nan_safe and isinstance(row, Elementwise) else ()
    for i in row.arrays(operation.args):
        value = operation.args[i]
        if type(value) is Value and value in active:
            add(adjoints, value, row.vjp(i, g, ans, args, kwargs, *strong))


# --- what the forward program keeps for the pullback ------------------------------------------------------------------------------


def halves(program: Program, count: int, wanted: int) -> tuple[Program, Program]:
    """Split an optimised pullback into a forward program and the rest.

    Parameters
    ----------
    program : as `pullback` gives it.
    count : how many of its inputs are those of the differentiated program.
    wanted : how many of its outputs are cotangents.

    Returns
    -------
    (forward, backward) : the outputs of `forward` are those of the differentiated program, and dear values that `backward` gets as
    inputs after the first `count` ones. It computes cheap ones again.
    """
    known = {*program.inputs[:count], *program.constants}
    early, late, kept = [], [], []
    for operation in program.operations:
        if not all(value in known for value in operation.reads):
            late.append(operation)
            continue
        known.update(operation.outputs)
        early.append(operation)
        if dear(operation):
            kept += operation.outputs
        else:
            late.append(operation)
    backward = rest(program, [*program.inputs[:count], *kept, *program.inputs[count:]], late, program.outputs[:wanted])
    read = {value for operation in backward.operations for value in operation.reads} | set(values_in(backward.outputs))
    kept = [value for value in kept if value in read]
    backward.inputs = [*program.inputs[:count], *kept, *program.inputs[count:]]
    return rest(program, program.inputs[:count], early, [*program.outputs[wanted:], *kept]), backward


def rest(program, inputs, operations, outputs):
    """Return the part of a program that these outputs need."""
    part = Program()
    part.inputs, part.constants, part.operations, part.outputs = list(inputs), program.constants, operations, list(outputs)
    part.count = program.count
    return dead(part)


def dear(operation):
    """Return whether a value is sooner kept than computed again: not what is elementwise or only moves elements."""
    row = ROWS.get(operation.fn)
    cheap = isinstance(row, Elementwise) or (row is not None and row.view is not None) or operation.fn in CHEAP
    return not cheap and not (isinstance(row, Constant) and isinstance(operation.fn, np.ufunc))


CHEAP = {updated, getitem, scatter, select, cast, blank, filled, np.zeros, np.concatenate, np.stack, np.roll, np.copy, np.flip}


def with_values(argument, held):
    """Return an argument with what is held for its values."""
    return map_values(held.__getitem__, argument)


def pull_update(operation, g, held, active, adjoints):
    """Pull back through ``updated(x, v, index, ops)``: what was overwritten has no share, v has that of its part."""
    x, v, *rest = operation.args
    index, ops = with_values(rest[0], held), tuple(with_values(rest[1], held)) if len(rest) > 1 else ()
    if type(v) is Value and v in active:
        part = locate(ops, g)
        share = getitem(part, index)
        stays = winners(part.shape, index)
        if stays is not None:
            share = select(stays, share, 0.0)
        add(adjoints, v, unbroadcast(share, held[v]))
    if type(x) is Value and x in active:
        if type(g) is Symbol:
            add(adjoints, x, updated(g, 0.0, index, ops))
        else:  # a Batch is never written
            mask = np.zeros(x.shape, bool)
            symbolic = next((part for part in (index if type(index) is tuple else (index,)) if type(part) is Symbol), None)
            mask = updated(mask if symbolic is None else symbolic.level.lift(mask), True, index, ops)
            add(adjoints, x, select(mask, 0.0, g))


def add(adjoints, value, share):
    """Add a share to the adjoint of a value."""
    if share is not None:
        now = adjoints.get(value)
        adjoints[value] = share if now is None else now + share
