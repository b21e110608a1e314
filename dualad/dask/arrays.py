"""DaskValue: a dask array as a value of the lowest level, below all derivatives, so that every operation on it stays lazy.

A Dual or Var whose value is a dask array holds a DaskValue, as under `jit` it holds a Symbol: the rules of the table run on it, and each
function that they call is one of dask's (`calls`). Verbs take dask arrays and return them. dask is never imported here: whoever
has such an array has imported it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.conversions import LIFTS, conversion_error, lifter_of
from ..core.dispatch import highest
from ..core.levels import Handle, Level, Owner, new, shared_view, version_of
from ..core.traced import Traced
from ..rules.calling import public_name
from ..rules.indexing import getitem, is_basic
from ..rules.kinds import ROWS

#: verbs that take dask arrays
VERBS = ("jvp", "vjp", "grad", "value_and_grad", "hvp", "linearize", "Dual")


class Bottom(Level):
    """The level of dask arrays: below every other, and never over."""

    __slots__ = ("met",)
    abstract = True

    def __init__(self):
        super().__init__()
        self.id = 0
        self.met = False  # whether there is such a value at all

    def refuse(self, message, indexed=False):
        return TypeError(f"a dask array: {message.replace('a traced function', 'what is computed later')}")


LAZY = Bottom()


class DaskValue(Traced):
    """A dask array (`primal`) that is computed with."""

    __slots__ = ()

    def __repr__(self):
        return f"DaskValue({self._refresh().primal!r})"

    def _interpret(self, row, args, kwargs, evaluate=None):
        result = self._below(row.fn, args, kwargs)
        x = args[0]
        if row.views(args) and type(result) is DaskValue is type(x) and (row.fn is not getitem or is_basic(args[1])):
            result.alias = shared_view(x, x.alias, row.viewed, tuple(args[1:]), kwargs)
        return result

    def _constant(self, row, args, kwargs):
        if row.metadata:
            stand_in = lambda x: np.broadcast_to(np.zeros((), x.dtype), x.shape)
            return row.fn(*(stand_in(x) if isinstance(x, DaskValue) else x for x in args), **kwargs)
        return self._below(row.fn, args, kwargs)

    def _below(self, fn, args, kwargs):
        from .calls import call_lazily

        result = call_lazily(fn, tuple(map(to_dask, args)), {name: to_dask(arg) for name, arg in kwargs.items()})
        if isinstance(result, tuple | list):
            return type(result)(lift(part, public_name(fn)) for part in result)
        result = lift(result, public_name(fn))
        row = ROWS.get(fn)
        if type(result) is DaskValue and row and (row.buffer or (is_copy(row) and args[0].payload is ARRAY)):
            result.payload = ARRAY
        return result

    def _assign(self, ops, index, v):
        from .calls import assigned

        self.primal = assigned(self._refresh().primal, to_dask(v), to_dask(index), ops)
        self.alias = Owner(version_of(self) + 1, False)

    def _holds_array(self):
        return bool(self.ndim) or self.payload is ARRAY

    @classmethod
    def _lifted(cls, buffer, level):
        from .calls import as_dask

        return lift(as_dask(buffer))

    def _peek(self):
        return self._refresh().primal.compute()  # a branch on a value computes it

    def __array_ufunc__(self, ufunc, method, *args, **kwargs):
        if type(highest((*args, *kwargs.values()), deep=True)) is DaskValue and method == "__call__" and set(kwargs) <= {"dtype"}:
            return self._below(ufunc, args, kwargs)
        return super().__array_ufunc__(ufunc, method, *args, **kwargs)


#: what marks an array of no axes: other results without axes are numbers, as NumPy's are
ARRAY = "array"


def is_copy(row):
    """Return whether a function gives the elements of its first argument, in their places."""
    return row.alone and row.moves and row.elementwise


# --- in and out ---------------------------------------------------------------------------------------------------------------------


def lift(x, where=None):
    """Return a dask array as a DaskValue, anything else as it is."""
    kind: Any = type(x)
    if lifter_of(kind) is not lift:
        return x
    if any(math.isnan(n) for n in x.shape):
        made = f"{where} of a dask array gives one" if where else "a dask array is"
        raise TypeError(
            f"{made} of unknown shape {x.shape}: choose with np.where or a mask; before, x.compute_chunk_sizes() finds its shape"
        )
    LAZY.met = True
    from .calls import remember

    remember(x, where is None)
    lazy = new(DaskValue)
    lazy.primal, lazy.payload, lazy.level, lazy.alias = x, None, LAZY, None
    return lazy


LIFTS["dask.array.core.Array"] = lift


def refuse_token(x):
    """Raise where dask makes a traced value a part of a graph, which no derivative passes through: it asks for its token first."""
    raise conversion_error(
        x, "a part of a dask graph", "use NumPy functions, which take dask arrays and traced ones together: np.dot(B, x)"
    )


Traced.__dask_tokenize__ = refuse_token  # type: ignore[attr-defined]


def to_dask(x):
    """Return a value with dask arrays in the place of such values, also in tuples, lists and slices."""
    kind = type(x)
    if kind is DaskValue:
        return x._refresh().primal
    if kind in (tuple, list):
        return kind(map(to_dask, x))
    return x


def like_chunks(x, model):
    """Return a plain number or array of the shape of a Lazy as one in its chunks, anything else as it is."""
    if type(model) is not DaskValue or isinstance(x, Handle):
        return x
    import dask.array as da

    plain = to_dask(model)
    array = np.asarray(x, None if issubclass(type(x), np.ndarray | np.generic) else plain.dtype)
    return lift(da.broadcast_to(da.from_array(array, chunks=plain.chunks if array.shape == plain.shape else -1), plain.shape))
