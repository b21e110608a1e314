"""Examples of traced values on little memory, where a trace keeps many: their shapes, dtypes and strides count, and no number."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ..rules.kinds import row_says
from ..support.costs import SMALL_ARRAY_BYTES
from .symbol import Symbol

__all__ = ["Examples"]


class Examples:
    """Lets the large floating-point examples of a program's values share one array of ones for each dtype.

    Programs know no writes, so nobody sees that they do. Where a function raises for some numbers (a singular matrix), examples are kept.
    """

    def __init__(self, program):
        self.ones: dict[np.dtype, np.ndarray] = {}
        self.sizes: dict[np.dtype, int] = {}
        if not any(row_says(operation.fn, "raises") for operation in program.operations):
            for value in (value for operation in program.operations for value in operation.outputs if is_large(value)):
                self.sizes[value.dtype] = max(value.size, self.sizes.get(value.dtype, 0))

    def replace(self, values, held):
        """Let these values give up the memory of their examples."""
        for value in values:
            symbol = held[value]
            if type(symbol) is Symbol and value.dtype in self.sizes and is_large(value):
                symbol.payload = self.like(symbol.payload, value.dtype)

    def like(self, array, dtype):
        """Return ones with the shape and the strides of an array; the array, where it is spread over too much memory."""
        if dtype not in self.ones:
            self.ones[dtype] = np.ones(self.sizes[dtype], dtype)
        ones, steps = self.ones[dtype], [abs(step) for step in array.strides]
        extent = sum((n - 1) * step for n, step in zip(array.shape, steps, strict=True)) + dtype.itemsize
        if array.size and (extent > ones.nbytes or any(step % dtype.itemsize for step in steps)):
            return array
        return as_strided(ones, array.shape, steps)[tuple([slice(None, None, -1 if step < 0 else 1) for step in array.strides])]


def is_large(value):
    """Return whether a value is an array of floats that is not kept for its size."""
    return value.kind == "array" and value.dtype.kind in "fc" and value.size * value.dtype.itemsize > SMALL_ARRAY_BYTES
