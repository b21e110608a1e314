"""Operations apart from their operands, by which equal ones are found in the iterations of a loop."""

from __future__ import annotations

import numpy as np

from ..rules.indexing import getitem, updated
from ..rules.kinds import ROWS, Elementwise
from .program import Operation, Value, key_of

#: the types of numbers that may be values
NUMBERS = (int, float, np.float64, np.float32, np.int64)


def shape_of(operation):
    """Return all of an operation but its operands, hashable, and these: its values, and numbers that may be values."""
    if operation.shaped is None:
        operands: list = []
        free = may_vary(operation.fn)
        shape = (
            operation.fn,
            walked(operation.args, free, operands),
            walked(operation.kwargs, False, operands),
            tuple([(out.shape, out.dtype, out.kind) for out in operation.outputs]),
        )
        operation.shaped = shape, operands
    return operation.shaped


def may_vary(fn):
    """Return whether numbers among a function's arguments may be values."""
    return fn in (getitem, updated) or isinstance(fn, np.ufunc) or isinstance(ROWS.get(fn), Elementwise)


def walked(argument, free, operands):
    kind = type(argument)
    if kind is Value:
        operands.append(argument)
        return Value, argument.shape, argument.dtype, argument.kind
    if kind in NUMBERS and free:
        operands.append(argument)
        return kind
    if kind is tuple or kind is list:
        return kind, *[walked(part, free, operands) for part in argument]
    if kind is dict:
        return dict, *((name, walked(argument[name], free, operands)) for name in sorted(argument))
    if kind is slice:
        return slice, *(walked(part, False, operands) for part in (argument.start, argument.stop, argument.step))
    return key_of(argument)


def replaced(argument, free, operands):
    """Return an argument with others in the places of its operands."""
    kind = type(argument)
    if kind is Value or (kind in NUMBERS and free):
        return next(operands)
    if kind is tuple or kind is list:
        return kind([replaced(part, free, operands) for part in argument])
    if kind is dict:
        return {name: replaced(argument[name], free, operands) for name in sorted(argument)}
    if kind is slice:
        return slice(*(replaced(part, False, operands) for part in (argument.start, argument.stop, argument.step)))
    return argument


def with_operands(operation: Operation, operands, outputs) -> Operation:
    """Return an operation of other operands, one after the other, with other outputs."""
    operands = iter(operands)
    args = replaced(operation.args, may_vary(operation.fn), operands)
    return Operation(operation.fn, args, replaced(operation.kwargs, False, operands), outputs, operation.several, operation.line)
