"""Shadow: a traced value without a value.

The third interpreter of the table, for tests only. A `Shadow` knows its shape and dtype and records which functions it passed
through; whoever asks for its elements gets an error. A rule that runs on Shadows touches values through functions with rows alone,
so it nests, reverses and compiles.
"""

from __future__ import annotations

import numpy as np

from dualad.levels import Level, new
from dualad.rules.kinds import Abstract
from dualad.traced import Traced

LEVEL = Level()


class ValueTouched(Exception):
    """A rule looked at the elements of an array."""


class Shadow(Traced):
    """Shape and dtype; `payload` is the record: (name, shapes, dtypes) of every function evaluated."""

    __slots__ = ()

    @property
    def shape(self):
        return self.primal.shape

    @property
    def dtype(self):
        return self.primal.dtype

    def _refresh(self):
        return self

    def _peek(self):
        raise ValueTouched("bool(), int(), format() or the like of a Shadow")

    def __float__(self):
        raise ValueTouched("float() of a Shadow")

    def __array__(self, dtype=None, copy=None):
        raise ValueTouched("np.asarray() of a Shadow")

    def __setitem__(self, index, v):
        self.payload.append(("setitem", np.shape(v)))

    def _in_place(self, operate, other):
        operate(self, other)
        return self

    def __repr__(self):
        return f"Shadow({self.dtype}{list(self.shape)})"

    def _interpret(self, row, args, kwargs, evaluate=None):
        record = self.payload
        record.append((row.name, tuple(shown(arg) for arg in args)))
        with np.errstate(all="ignore"):
            return shadowed(row.call(*map(embodied, args), **{key: embodied(value) for key, value in kwargs.items()}), record)

    def _constant(self, row, args, kwargs):
        record = self.payload
        record.append((row.name, tuple(shown(arg) for arg in args)))
        with np.errstate(all="ignore"):
            ans = row.fn(*map(embodied, args), **{key: embodied(value) for key, value in kwargs.items()})
        return ans if row.metadata else shadowed(ans, record)


def shadow(like, record):
    """A Shadow of the shape and dtype of an array or number."""
    s = new(Shadow)
    s.primal, s.payload, s.level, s.alias = Abstract(like), record, LEVEL, None
    return s


def shadowed(ans, record):
    if type(ans) in (tuple, list):
        return type(ans)(shadowed(part, record) for part in ans)
    if isinstance(ans, tuple):
        return type(ans)(*(shadowed(part, record) for part in ans))
    return shadow(ans, record)


def embodied(arg):
    """Some array of the shape and dtype of a Shadow: invertible where square, indices within bounds."""
    if type(arg) is Shadow:
        if arg.dtype.kind not in "fc":
            return np.zeros(arg.shape, arg.dtype)[()]
        n = arg.shape[-1] if arg.ndim > 1 and arg.shape[-1] == arg.shape[-2] else None
        sample = np.random.default_rng(3).uniform(0.2, 0.8, arg.shape)
        return (sample if n is None else sample + 3.0 * np.eye(n)).astype(arg.dtype)[()]
    if type(arg) in (tuple, list):
        return type(arg)(map(embodied, arg))
    return arg


def shown(arg):
    return (arg.shape, str(arg.dtype)) if type(arg) is Shadow else type(arg).__name__
