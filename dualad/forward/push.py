"""A function evaluated on Duals: the values of its results and their tangents."""

import numpy as np

from ..core.dispatch import dtype_of
from ..core.levels import FILLED, INSTEAD, Handle, Level, replacement_of
from ..dask.arrays import LAZY, DaskValue, like_chunks
from ..rules.indexing import cast
from .dual import Dual, make_dual
from .seeding import (
    FLOAT,
    LEAF,
    flatten_arguments,
    flatten_input,
    flatten_output,
    note_lists,
    own_buffers,
    plain,
    scalar_kinds,
    shape_of,
    strip_level,
    take_aux,
    unflatten_arguments,
    unflatten_output,
)


def push(f, structure, leaves, seeds, level, where, has_aux=False):
    """Evaluate `f` of leaves with tangents; return the values and tangents of its results (None is zero), their structure, the aux."""
    aux = None
    if INSTEAD:
        f = replacement_of(f, leaves)
    with level:
        duals = []
        for leaf, seed in zip(leaves, seeds, strict=True):  # no comprehension, which would be one more call
            duals.append(make_dual(leaf, seed, level))
        if LAZY.met or type(structure) is not int:
            duals = unflatten_arguments(structure, duals)
        try:
            out = f(*duals)
        except TypeError as error:
            note_lists(error, structure)
            raise
        if has_aux:
            out, aux = take_aux(out, True, where)
        outs, out_structure = ([out], LEAF) if type(out) is Dual and not FILLED else flatten_output(out, where)
        values, tangents = [], []
        for leaf in outs:
            mine = type(leaf) is Dual and leaf.level is level
            if mine and leaf.alias is not None:
                leaf._refresh()
            values.append(leaf.primal if mine else leaf)
            tangents.append(leaf.tangent if mine else None)
        if has_aux:
            aux = strip_level(aux, level)
    return values, tangents, out_structure, aux


def push_along(f, primals, tangents, nan_safe, has_aux, where, names):
    """Return the result of `jvp`; errors name the verb `where`, and its two arguments by `names`."""
    leaves, directions, structure, python_scalars, weak = seed_leaves(primals, tangents, where, names)
    values, pushed, out_structure, aux = push(f, structure, leaves, directions, Level(None, nan_safe, weak), where, has_aux)
    number = float if python_scalars else np.float64
    for k, value in enumerate(values):
        tangent = pushed[k]
        if issubclass(type(value), float):
            tangent = 0.0 if tangent is None else tangent
            values[k] = number(value) if type(value) in NUMBERS else value
            pushed[k] = number(tangent) if type(tangent) in NUMBERS else tangent
        elif tangent is None:
            pushed[k] = zero_like(value)
        elif python_scalars:
            values[k], pushed[k] = plain(value, True), plain(tangent, True)
    if out_structure is LEAF and type(pushed[0]) in NUMBERS:  # nobody's buffer
        result = values[0], pushed[0]
    else:
        pushed = own_buffers(pushed, directions)
        result = unflatten_output(out_structure, values), unflatten_output(out_structure, pushed)
    return (*result, aux) if has_aux else result


NUMBERS = {float, np.float64}


def seed_leaves(primals, tangents, where, names):
    """Return the leaves and their directions, the structure of the arguments, and what `scalar_kinds` tells of them."""
    kind = type(primals[0]) if primals and len(primals) == len(tangents) else None
    if kind is float or kind is np.ndarray:  # all of them floats, or arrays of floats: most calls
        for x, v in zip(primals, tangents, strict=True):
            alike = type(x) is kind is type(v) and (kind is float or (x.dtype is FLOAT is v.dtype and x.shape == v.shape))
            if not alike:
                break
        else:
            return primals, tangents, len(primals), kind is float, kind is float
    x, v = ("primals", "tangents") if names is None else ((names[0],), (names[1],))
    leaves, structure = flatten_arguments(primals, where, x)
    directions, other = flatten_arguments(tangents, where, v)
    if type(structure) is not type(other):
        leaves, structure = flatten_input(primals, where, x)
        directions, other = flatten_input(tangents, where, v)
    if other != structure:
        given = f"{len(primals)} and {len(tangents)} arguments" if len(primals) != len(tangents) else f"{structure} and {other}"
        raise TypeError(f"{where}: {' and '.join(names or ('primals', 'tangents'))} differ in structure: {given}")
    directions = [direction_for(leaf, direction, where, names) for leaf, direction in zip(leaves, directions, strict=True)]
    return leaves, directions, structure, *scalar_kinds(primals)


NOUNS = "its primal", "a tangent"


def direction_for(leaf, direction, where, names=None):
    """Return a direction in the dtype of its primal; one of another shape raises, and calls the two by `names`."""
    if type(direction) is np.ndarray is type(leaf) and direction.dtype is leaf.dtype and direction.shape == leaf.shape:
        return direction
    if shape_of(leaf) != shape_of(direction):
        x, v = names or NOUNS
        raise ValueError(f"{where}: {v} has shape {shape_of(direction)}, {x} {shape_of(leaf)}: they must be equal")
    dtype, now = dtype_of(leaf), dtype_of(direction)
    if dtype.kind != "c" and now.kind == "c":
        x, v = names or NOUNS
        raise TypeError(f"{where}: {v} is complex and {x} real: give {x} a complex dtype")
    if type(leaf) is DaskValue:
        direction = like_chunks(direction, leaf)
    if type(leaf) is np.ndarray and not issubclass(type(direction), np.ndarray | Handle):  # a 0-d array and a number
        return np.asarray(direction, dtype)
    return direction if now == dtype else cast(direction, dtype)


def zero_like(value):
    """Return a zero of the value's shape and an inexact dtype."""
    if type(value) is float:
        return 0.0
    dtype = dtype_of(value)
    if type(value) is DaskValue:
        return np.zeros_like(value, dtype if dtype.kind in "fc" else float)
    return np.zeros(np.shape(value), dtype if dtype.kind in "fc" else float)[()]
