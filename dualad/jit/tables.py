"""Plain arrays that functions read from outside, as such that may be indexed by traced integers."""

from __future__ import annotations

from contextlib import suppress
from types import CellType, FunctionType, MethodType
from typing import Any

import numpy as np
import optree

from ..core.dispatch import highest
from ..graph.symbol import Symbol
from .impure import ELSEWHERE
from .watch import mentioned

__all__ = ["Wrapper", "with_symbols"]


class Wrapper:
    """What stands for a function `f`, which is traced in its place."""

    f: Any


class Table(np.ndarray):
    """A plain array in all but one respect: it, and what is computed of it, may be indexed by traced integers."""

    def __getitem__(self, index):
        symbol = highest(index if type(index) is tuple else (index,), deep=True)
        return super().__getitem__(index) if symbol is None else symbol.level.lift(self)[index]

    def take(self, indices, *args, **kwargs):
        symbol = highest((indices,), deep=True)
        return super().take(indices, *args, **kwargs) if symbol is None else symbol.level.lift(self).take(indices, *args, **kwargs)

    def __array_wrap__(self, array, context=None, return_scalar=False):
        return array[()] if return_scalar else array.view(Table)

    def __array_function__(self, fn, types, args, kwargs):
        symbol = highest((*args, *kwargs.values()), deep=True)
        if symbol is not None and type(symbol) not in types:  # NumPy does not ask the indices of np.take
            given: Any = args, kwargs
            args, kwargs = optree.tree_map(lambda leaf: symbol.level.lift(leaf) if type(leaf) is Table else leaf, given)
            return fn(*args, **kwargs)
        result = super().__array_function__(fn, types, args, kwargs)
        return optree.tree_map(lambda leaf: leaf.view(Table) if type(leaf) is np.ndarray else leaf, result)


def with_symbols(f, tracing, known=None):
    """Return a function that may index arrays by traced integers that it, or one that it calls, reads from variables outside."""
    known = {} if known is None else known
    if type(f) is MethodType:
        return MethodType(with_symbols(f.__func__, tracing, known), f.__self__)
    if isinstance(f, Wrapper):  # whose function is entered into the trace
        return with_symbols(f.f, tracing, known)
    elsewhere = type(f) is FunctionType and f.__code__.co_filename.startswith(ELSEWHERE)
    if type(f) is not FunctionType or (elsewhere and (hasattr(f, "plain") or not f.__closure__)):  # primitives are known by identity
        return f
    if f in known:
        return known[f]
    space = f.__globals__ if elsewhere else dict(f.__globals__)
    cells = tuple(CellType() for _ in f.__closure__ or ())
    new = known[f] = FunctionType(f.__code__, space, f.__name__, None, cells or None)
    vars(new).update(vars(f))

    def replaced(held):
        if type(held) is np.ndarray and held.dtype.kind in "biufc" and not elsewhere:  # grad(f) and the like: f may be the user's
            return held.view(Table)
        if type(held) is Symbol and (array := held.level.program.constants.get(held.primal)) is not None:  # of the trace around this one
            return tracing.lift(array)
        return with_symbols(held, tracing, known)

    new.__defaults__ = f.__defaults__ and tuple(map(replaced, f.__defaults__))
    new.__kwdefaults__ = f.__kwdefaults__ and {name: replaced(held) for name, held in f.__kwdefaults__.items()}
    for name in () if elsewhere else mentioned(f.__code__):
        if name in space:
            space[name] = replaced(space[name])
    for cell, old in zip(cells, f.__closure__ or (), strict=True):
        with suppress(ValueError):  # not yet bound
            cell.cell_contents = replaced(old.cell_contents)
    return new
