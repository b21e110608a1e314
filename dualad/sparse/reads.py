"""Compiled sparse Jacobians without directions of ones and zeros: the derivative by all that one read of the arguments gives.

A scheme reads its arguments through a few movements: slices, rolls, pads (`reads`). Where each element of the results depends on one
element of such a read at most, all of its derivatives are the tangents along ones, a number, so that nothing but the arguments is read
from memory; reads that no result shares go together. The tangents of neighbouring rows that are made alike are the columns of a part
of the entries.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import optree

from ..core.levels import Level
from ..core.traced import example_of
from ..forward.dual import make_dual
from ..forward.seeding import flatten_input, flatten_output, shape_of, split_value
from ..graph.nested import Scan
from ..graph.passes import optimised
from ..graph.program import Value, values_in
from ..graph.symbol import Symbol
from ..graph.trace import Trace, TraceError
from ..rules import names
from ..support.costs import PATTERN_PARTS
from .calls import mover
from .detect import dependencies
from .sets import scipy_sparse


def by_reads(f, args, kwargs, positions, colors, where, nan_safe):
    """Return the value of a function of Symbols, and the entries of its Jacobian as arrays, one after the other.

    None where the way by the colours of columns is as good, or the only one.
    """
    leaves, _ = flatten_input(tuple(args[i] for i in positions), where)
    if not all(type(leaf) is Symbol and leaf.primal.kind == "array" and leaf.dtype.kind in "fc" for leaf in leaves):
        return None
    if len({leaf.dtype for leaf in leaves}) > 1 or not len(colors.indices) or colors.rows is not None:
        return None
    try:
        program, structure, given = program_of(f, args, kwargs, where)
    except TraceError:  # it branches on values: the trace around it takes one path
        return None
    active = [value for value, leaf in given.items() if any(leaf is x for x in leaves)]
    outs = program.outputs
    if len(active) < len(leaves) or any(type(operation.fn) is Scan for operation in program.operations):
        return None
    if not all(type(out) is Value and out.dtype == leaves[0].dtype for out in outs):
        return None
    if sum(value.size for value in active) != colors.shape[1] or sum(out.size for out in outs) != colors.shape[0]:
        return None  # which raises there
    columns, later = reads(program, active)
    groups = group_reads(program, columns, later, colors)
    if groups is None:
        return None
    trace = leaves[0].level
    held = {**given, **program.constants}
    for operation in program.operations:
        trace.at(operation)
        operation.evaluate(held)
    tangents = [push_group(group, later, held, outs, trace, nan_safe) for group, _ in groups]
    trace.line = None
    parts = entries(tangents, [found for _, found in groups], outs, colors)
    return None if parts is None else (optree.tree_unflatten(structure, [held[out] for out in outs]), parts)


def program_of(f, args, kwargs, where):
    """Return the program of f, the structure of its result, and the Symbol that stands for each input of the program."""
    given: Any = list(args), kwargs
    leaves, tree = optree.tree_flatten(given)
    with Trace() as trace:
        inputs = [trace.input(example_of(leaf)) if type(leaf) is Symbol else leaf for leaf in leaves]
        given = {x.primal: leaf for x, leaf in zip(inputs, leaves, strict=True) if type(leaf) is Symbol}
        inner, named = optree.tree_unflatten(tree, inputs)
        outs, structure = flatten_output(f(*inner, **named), where)
        program = trace.finish(outs)
    return optimised(program), structure, given


def reads(program, active):
    """Return, for each value that is read of the active inputs, the columns that its elements are (-1: none), and the operations after."""
    columns, start, later = {}, 0, []
    for value in active:
        columns[value] = np.arange(start, start + value.size).reshape(value.shape)
        start += value.size
    for operation in program.operations:
        arrays, move = mover(operation, program.constants.get)
        data = values_in(arrays)
        if move and any(value in columns for value in data) and all(value in columns or value in program.constants for value in data):
            places = (columns[arg] + 1 if arg in columns else np.zeros(shape_of(arg), int) for arg in arrays)
            columns[operation.outputs[0]] = move(*places) - 1
        else:
            later.append(operation)
    used = {value for operation in later for value in operation.reads} | set(values_in(program.outputs))
    return {value: places for value, places in columns.items() if value in used}, later


def group_reads(program, columns, later, colors):
    """Return groups of reads that no element of the results shares, with the column of each row (-1: none); None if it does not pay."""
    rest = program.replace(inputs=list(dict.fromkeys([*columns, *program.inputs])), operations=later)
    columns = {value: places for value, places in columns.items() if places.max(initial=-1) >= 0}  # the others are what was padded with
    sizes = [out.size for out in program.outputs]
    width = sum(value.size for value in columns)
    pattern = scipy_sparse().csc_array(scipy_sparse().vstack(dependencies(rest, list(columns), width, sizes), format="csc"))
    groups: list[Any] = []
    start = 0
    for value, places in columns.items():
        part = pattern[:, start : start + value.size].tocoo()
        start += value.size
        found = np.full(colors.shape[0], -1)
        found[part.row] = places.ravel()[part.col]
        touched: Any = np.bincount(part.row, minlength=colors.shape[0])
        if touched.max(initial=0) > 1:
            return None
        touched = touched > 0
        for group, known, taken in groups:
            if not (taken & touched).any():
                group.append(value)
                known[touched] = found[touched]
                taken |= touched
                break
        else:
            groups.append(([value], found, touched))
    if not 0 < len(groups) <= min(62, 2 * colors.forward_colors):  # bits of an integer
        return None
    return [(group, found) for group, found, _ in groups]


def push_group(group, later, held, outs, trace, nan_safe):
    """Return the tangents of the results along ones in all elements of some reads, None for zero."""
    with Level(None, nan_safe) as level:
        mine = {value: make_dual(held[value], ones(value, trace), level) for value in group}
        for operation in later:
            if any(value in mine for value in operation.reads):
                trace.at(operation)
                local = {value: mine.get(value, held.get(value)) for value in operation.reads}
                operation.evaluate(local)
                mine.update((value, local[value]) for value in operation.outputs)
        return [split_value(mine.get(out), level)[1] for out in outs]


def ones(value, trace):
    return trace.record(names.np.broadcast_to, np.broadcast_to, (value.dtype.type(1), value.shape), {})


# --- entries ------------------------------------------------------------------------------------------------------------------------


def entries(tangents, found, outs, colors):
    """Return the entries of the pattern in parts, rows that are made alike in one; None if there is no short way."""
    height, width = colors.shape
    counts, indptr = np.diff(colors.indptr), colors.indptr.astype(np.int64)
    keys = colors.rows_of_entries * np.int64(width) + colors.indices
    made = np.zeros(len(keys), np.int64)  # a bit for each group that has a share
    for k, places in enumerate(found):
        rows = np.flatnonzero(places >= 0)
        wanted = rows * np.int64(width) + places[rows]
        at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        made[at[keys[at] == wanted]] |= np.int64(1) << k
    borders = np.cumsum([0, *(out.size for out in outs)])
    starts = runs(made, counts, indptr, borders)
    if len(starts) <= PATTERN_PARTS:
        return [
            block(tangents, made[indptr[low] : indptr[low + 1]], low, high, outs, borders)
            for low, high in zip(starts, [*starts[1:], height], strict=True)
            if counts[low]
        ]
    if np.any(made & (made - 1)) or len(tangents) > 2 * counts.max():
        return None
    flat = [np.concatenate([row(t, out) for t, out in zip(parts, outs, strict=True)]) for parts in tangents]
    which = np.zeros(len(keys), np.int64)
    for k in range(len(tangents)):
        which[made == 1 << k] = k
    taken = np.take(np.concatenate(flat), which * height + colors.rows_of_entries)
    return [taken if made.all() else np.where(made != 0, taken, taken.dtype.type(0))]


def runs(made, counts, indptr, borders):
    """Return the rows with which others begin that are made alike."""
    height = len(counts)
    same = counts[1:] == counts[:-1]
    before = np.arange(len(made)) - np.repeat(counts, counts)
    differs = made != made[np.maximum(before, 0)]
    wrong = np.add.reduceat(np.r_[differs, False], np.minimum(indptr[:-1], len(made))) if height else np.zeros(0)
    same &= (wrong[1:] == 0) | (counts[1:] == 0)
    first = np.r_[True, ~same]
    first[borders[:-1][borders[:-1] < height]] = True
    return np.flatnonzero(first).tolist()


def row(tangent, out):
    """Return the tangent of a result as one axis."""
    return np.zeros(out.size, out.dtype) if tangent is None else np.reshape(tangent, -1)


def block(tangents, made, low, high, outs, borders):
    """Return the entries of the rows from `low` on, as many columns as each has entries."""
    k = int(np.searchsorted(borders, low, side="right")) - 1
    part = slice(low - int(borders[k]), high - int(borders[k]))
    columns = []
    for bits in made.tolist():
        shares = [parts[k] for c, parts in enumerate(tangents) if bits >> c & 1 and parts[k] is not None]
        total = np.zeros(high - low, outs[k].dtype) if not shares else row(shares[0], outs[k])[part]
        for share in shares[1:]:
            total = total + row(share, outs[k])[part]
        columns.append(total)
    return columns[0] if len(columns) == 1 else np.stack(columns, axis=1)
