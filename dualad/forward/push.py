"""A function evaluated on Duals along one direction: its value and its tangent."""

from __future__ import annotations

import numpy as np

from ..core.dispatch import dtype_of
from ..core.levels import Handle, Level
from ..dask.arrays import DaskValue, like_chunks
from ..rules.indexing import cast
from .dual import make_dual
from .seeding import (
    flatten_arguments,
    flatten_input,
    flatten_output,
    made_own,
    plain,
    scalar_kinds,
    shape_of,
    split_value,
    strip_level,
    take_aux,
    unflatten_arguments,
    unflatten_output,
)

__all__ = ["along", "direction_for", "zero_like"]


def along(f, primals, tangents, nan_safe, has_aux, where, names):
    """Return what `jvp` does, in which errors name the verb `where`, and the two arguments of a verb that has them by `names`."""
    x, v = ("primals", "tangents") if names is None else ((names[0],), (names[1],))
    leaves, structure = flatten_arguments(primals, where, x)
    directions, other = flatten_arguments(tangents, where, v)
    if type(structure) is not type(other):
        leaves, structure = flatten_input(primals, where, x)
        directions, other = flatten_input(tangents, where, v)
    if other != structure:
        raise TypeError(f"{where}: {' and '.join(names or (x, v))} differ in structure: {structure} and {other}")
    python_scalars, weak = scalar_kinds(primals)
    with Level(None, nan_safe, weak) as level:
        duals = []
        for leaf, direction in zip(leaves, directions, strict=True):  # no comprehension, which would be one more call
            duals.append(make_dual(leaf, direction_for(leaf, direction, where, names), level))
        out, aux = take_aux(f(*unflatten_arguments(structure, duals)), has_aux, where)
        outs, out_structure = flatten_output(out, where)
        values, pushed = [], []
        for leaf in outs:
            value, tangent = split_value(leaf, level)
            if issubclass(type(value), float):
                value = plain(value, python_scalars)
                tangent = plain(0.0 if tangent is None else tangent, python_scalars)
            elif tangent is None:
                tangent = zero_like(value)
            values.append(value)
            pushed.append(tangent)
        aux = strip_level(aux, level) if has_aux else None
    pushed = made_own(pushed, directions)
    result = unflatten_output(out_structure, values), unflatten_output(out_structure, pushed)
    return (*result, aux) if has_aux else result


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
