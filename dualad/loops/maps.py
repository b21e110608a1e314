"""Elementwise functions in loops: the expression of the row, in the dtypes in which NumPy computes it."""

from functools import cache

from ..ir.values import call
from ..rules import scalars  # enters the expressions
from ..rules.indexing import cast, discretize
from ..rules.kinds import row_says
from ..rules.names import np
from ..rules.shapes import select

BOOL, WHOLE = np.dtype(bool), np.dtype(np.int64)


def resolved(fn, operands, out):
    """Return the dtypes in which `fn` takes its operands, and that of its result; `operands` are dtypes, or the type of a Python number."""
    if row_says(fn, "logical"):
        return (BOOL,) * len(operands), BOOL
    operands = [BOOL if operand is bool else operand for operand in operands]  # Python's are no weaker
    if all(isinstance(operand, type) for operand in operands):  # numbers of Python alone
        operands = [np.dtype(operand) for operand in operands]
    if isinstance(fn, np.ufunc):
        *inner, result = fn.resolve_dtypes((*operands, None))
        if result == BOOL:  # NumPy compares Python's integers as they are, also beyond the other dtype
            inner = [WHOLE if operand is int and dtype.kind in "iu" else dtype for operand, dtype in zip(operands, inner, strict=True)]
        return tuple(inner), result
    if fn is select:
        return (BOOL, out, out), out
    if fn in (cast, discretize, np.copy):
        return tuple(np.dtype(operand) for operand in operands), out
    if out == BOOL:
        taken = np.result_type(*(np.dtype(operand) for operand in operands))
        return (taken,) * len(operands), taken if row_says(fn, "chooses") else out  # a share that was traced where there is no tie
    return (out,) * len(operands), out


def scalar_of(fn):
    """Return the expression of a function, None where its row has none."""
    return row_says(fn, "scalar")


@cache
def within(dtype):
    """Return the expression of integers that notes those which a dtype cannot hold."""
    low, high = int(np.iinfo(dtype).min), min(int(np.iinfo(dtype).max), np.iinfo(WHOLE).max)
    return scalars.Scalar(lambda k: call("regular", k, (k >= low) & (k <= high), dtype="int64"), 2, "i")
