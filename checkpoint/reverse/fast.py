"""The fast path of any row for numbers and arrays of double precision; entries of small arrays, which the tape itself references."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy import float64, ndarray

from dualad.core.levels import Handle
from dualad.rules.cotangents import FLOAT
from dualad.rules.kinds import Abstract, Elementwise, Joint
from dualad.rules.partials import evaluate_partial
from dualad.rules.precision import in_loop_dtypes

from .entries import Evaluation, Node, Number, Pointwise
from .tape import NEVER_WRITTEN, Tape, Var, append_entry, make_var, parts_of, place_of_entry, pull_broadcast, pull_part, pull_row

NO_KEYWORDS: dict[str, Any] = {}
NUMBERS: set[type] = {float, int, float64}


def evaluate_directly(row: Any, fn: Callable[..., Any], args: Any, kwargs: dict[str, Any], tape: Tape) -> Any:
    """Evaluate a row of numbers and arrays of double precision that were never written; None where the general path is needed."""
    if not (tape.plain and row.trusted and (row.view is None or not row.views(args))) or "out" in kwargs:
        return None
    arrays, values, active, parents, to_copy, mixed, large = row.arrays(args), list(args), [], [], [], False, False
    for i, arg in enumerate(args):
        kind = type(arg)
        if kind is Var:
            if i not in arrays or arg.level is not tape or not ((alias := arg.alias) is None or alias.base.alias is None):
                return None
            values[i] = value = arg.primal
            if type(value) is ndarray:
                if value.dtype is not FLOAT:
                    return None
                large = large or value.nbytes > tape.small
            elif type(value) is not float:
                return None
            if (node := arg.node) is not None:
                active.append(i)
                parents.append(node)
        elif kind is ndarray:
            large = large or arg.nbytes > tape.small
            if arg.dtype is not FLOAT:
                if arg.dtype.kind not in "bi":
                    return None
                mixed = True
            if not row.shape_only or i not in arrays:
                to_copy.append(i)
        elif kind not in NUMBERS:
            if i in arrays or isinstance(arg, Handle):
                return None
            if kind not in NEVER_WRITTEN and (kind is not tuple or not NEVER_WRITTEN.issuperset(map(type, arg))):
                to_copy.append(i)
    for value in kwargs.values():
        if isinstance(value, Handle):
            return None
    try:
        v = fn(*values, **kwargs)
    except ArithmeticError:  # of Python floats, where NumPy has inf or NaN
        return None
    other = False  # whether the result is no number or array of double precision
    if type(v) in NUMBERS:
        v = float(v)
    elif type(v) is ndarray and (v.ndim or large):
        large, other = large or v.nbytes > tape.small, v.dtype is not FLOAT
    elif isinstance(v, tuple | list) and tape.objects is None:
        other = True
    else:
        return None
    if large or other:
        kind = Evaluation if kwargs or other or type(row) is not Elementwise else Pointwise
        node = tape.evaluation(kind, row, v, values, kwargs, active, parents, args) if active else None
        if type(v) is not ndarray and other:
            return parts_of(v, node, tape)
        r = make_var(v, node, tape)
        if type(v) is ndarray and v.base is not None:
            tape.own_small_view(r)
        return r
    if not active:
        return make_var(v, None, tape)
    for i in to_copy:
        arg = args[i]
        values[i] = arg.copy("K") if type(arg) is ndarray else tape.freeze(arg)
    if mixed and type(row) is Elementwise:
        values = in_loop_dtypes(row.fn, v, values)
    place = entry_of(row, v, values, kwargs, active, args, tape)
    return None if place is None else make_var(v, place, tape)


def stack(parts: Any, tape: Tape) -> Any:
    """Stack numbers of which some are variables of the tape; None where the general path is needed."""
    values, active = [], []
    for i, part in enumerate(parts):
        kind = type(part)
        if kind is Var and part.level is tape and type(part.primal) is float:
            values.append(part.primal)
            if (node := part.node) is not None:
                active.append((i, node if type(node) is int else tape.keep(node)))
        elif kind is float or kind is float64:
            values.append(part)
        else:
            return None
    v = np.array(values)
    if v.nbytes > tape.small:
        return None
    like = Abstract(v)
    entry = [(node, pull_part, (i, like)) for i, node in active]
    return make_var(v, append_entry(tape.entries, entry) if entry else None, tape)


def entry_of(row: Any, v: Any, values: Any, kwargs: dict[str, Any], active: Sequence[int], args: Any, tape: Tape) -> Node | None:
    """Record what `evaluate_directly` has evaluated of small arrays and return the node; None where a number has an infinite partial."""
    entry: Any
    nodes = [args[i].node for i in active]
    if type(row) is Elementwise and type(v) is float:
        with np.errstate(all="ignore"):
            partials = [float(evaluate_partial(row.partial(i), v, values)) for i in active]
        if not all(map(math.isfinite, partials)):
            return None
        if len(nodes) > 2 or not all(type(node) is int for node in nodes):  # what is not on the tape may be freed when this is
            return tape.record(Number(nodes, partials))
        entry = (nodes[0], partials[0]) if len(nodes) == 1 else (nodes[0], partials[0], nodes[1], partials[1])
    else:
        for i in active:
            if type(args[i].node) is not int:
                args[i].node = tape.keep(args[i].node)
        if type(row) is Joint and (parts := row.parts and row.parts(values, v.ndim, **kwargs)):
            like = Abstract(v)
            entry = [(args[i].node, pull_part, (parts[i], like)) for i in active]
        elif type(row) is not Elementwise:
            values = row.saved(values, ()) if row.shape_only else values
            kwargs = kwargs and tape.freeze(kwargs)
            entry = [(args[i].node, pull_row, (row, i, v, values, kwargs)) for i in active]
        else:
            residuals = (v, *values)
            entry = [
                (args[i].node, row.pullbacks[i], residuals)
                if type(values[i]) is ndarray and values[i].shape == v.shape
                else (args[i].node, pull_broadcast, (row.pullbacks[i], residuals, values[i]))
                for i in active
            ]
    entries = tape.entries
    k = len(entries)
    entries.append(entry)
    return k if entries[k] is entry else place_of_entry(entries, entry)
