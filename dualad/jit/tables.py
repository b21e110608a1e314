"""Plain arrays that traced integers index, read from outside or made by NumPy inside, and functions of `math` of traced numbers."""

from __future__ import annotations

import math
import sys
from contextlib import suppress
from copy import copy
from functools import partial, wraps
from itertools import chain
from types import CellType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import optree

from ..core.dispatch import highest
from ..core.levels import Handle
from ..core.traced import Traced
from ..graph.symbol import Symbol
from ..graph.visits import parts_of
from ..support.callers import owner
from .reads import installed, mentioned


class Wrapper:
    """What stands for a function `f`, which is traced in its place."""

    f: Any


class Table(np.ndarray):
    """A plain array in all but one respect: it, and what is computed of it, may be indexed by traced integers."""

    def __getitem__(self, index):
        parts = list(index) if type(index) is tuple else [index]
        bounds = {k: (part.start, part.stop) for k, part in enumerate(parts) if type(part) is slice}
        symbol = highest([*parts, *chain(*bounds.values())], deep=True)
        if symbol is None:
            return super().__getitem__(index)
        x = symbol.level.lift(self)
        for k, pair in bounds.items():
            if highest(pair) is not None and parts[k].step in (None, 1) and all(type(part) in (int, slice) for part in parts[:k]):
                x, parts[k] = x[(slice(None),) * k + (places(*pair, self.shape[k]),)], slice(None)
        return x[tuple(parts)]

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
        return optree.tree_map(table, super().__array_function__(fn, types, args, kwargs))


def places(start, stop, size):
    """Return the places between traced bounds along an axis; how many they are is known to a path of the function."""
    start, stop = (
        np.clip(np.where(bound < 0, bound + size, bound), 0, size)
        for bound in (0 if start is None else start, size if stop is None else stop)
    )
    return start + np.arange(int(np.maximum(stop - start, 0)))


def table(x):
    """Return a plain array of numbers as a table, and anything else as it is."""
    return x.view(Table) if type(x) is np.ndarray and x.dtype.kind in "biufc" else x


def with_symbols(f, tracing, numpys=lambda fn: fn):
    """Return a function that may index plain arrays by traced integers, and ask `math` for functions of traced numbers: it sees tables, and
    functions that have rows, in their place, and `numpys` of NumPy's functions."""
    tracing.tables = True

    def instead(held):
        if type(held) is Symbol:  # of the trace around this one
            constant = held.level.program.constants.get(held.primal)
            return held if constant is None else tracing.lift(constant)
        return stand_in(held) if getattr(held, "__module__", None) == "math" else table(held)

    return Outside(instead, lambda fn: makes_tables(numpys(fn)))(f)


def stand_in(held):
    """Return what stands for a value in adapted code."""
    from ..core.standins import look_up, stand_in

    look_up()
    return stand_in(held)


def closed_over(functions, kept=(), live=False):
    """Return the traced values that functions read from variables outside, and what makes these functions of other values for them.

    What they read besides stays what it is now, whatever becomes of the variables (those of modules may be left `live`); but of what
    they keep (see `Contents`) each of the functions made has a copy of its own.
    """
    found: dict[int, tuple[Any, Place]] = {}
    starts = {id(held): start for held, start in kept}

    def noted(held):
        if type(starts.get(id(held))) is not Start and id(held) in starts:
            start, starts[id(held)] = starts[id(held)], Start()
            starts[id(held)].held = outside.maker(start, type(start))(start)
        if id(held) in starts:
            return starts[id(held)]
        return found.setdefault(id(held), (held, Place(len(found))))[1] if isinstance(held, Traced) else held

    outside = Outside(noted, live=live)
    open_functions = outside(functions)

    def made(values):
        copies: dict[int, Any] = {}

        def instead(held):
            if type(held) is Start:
                if id(held) not in copies:
                    copies[id(held)] = copy(inside.maker(held.held, type(held.held))(held.held))
                return copies[id(held)]
            return values[held.number] if type(held) is Place else held

        inside = Outside(instead, live=live)
        return inside(open_functions)

    return tuple(held for held, _ in found.values()), made


class Place:
    """What stands for a traced value in functions that are open to others."""

    def __init__(self, number):
        self.number = number


class Start:
    """What stands for something that functions keep values in: what it held at first."""

    held: Any


class Contents:
    """What functions, and lists, dicts and objects that they read from variables outside, hold."""

    def __init__(self, functions):
        self.found: dict[int, tuple] = {}

        def noted(held):
            if (parts := contents_of(held)) is not None:
                self.found[id(held)] = held, dict(parts), outside.maker(held, type(held)) in (outside.object, outside.container)
            return held

        outside = Outside(noted)
        outside(functions)

    def changed(self):
        """Return whether any of them holds something else."""
        return any(new_parts(held, before) or len(contents_of(held)) < len(before) for held, before, _ in self.found.values())

    def kept(self):
        """Return those, besides functions, that keep values of calls: each with what it was. Numbers that count, and what is appended to
        logs, are none."""
        kept = []
        for held, before, _ in (found for found in self.found.values() if found[2]):
            new = new_parts(held, before)
            if any(type(part) not in COUNTS for key, part in new.items() if key in before or type(held) is not list):
                kept.append((held, as_before(held, before)))
        return kept


COUNTS = {int, bool, str, bytes, type(None)}
ABSENT = object()


def contents_of(held) -> Any:
    """Return what a function, a list, a dict or an object holds, None of anything else."""
    if type(held) in (FunctionType, list, dict):
        return parts_of(held)
    return None if isinstance(held, ModuleType | type) else getattr(held, "__dict__", None)


def new_parts(held, before):
    """Return the parts that something did not hold before."""
    return {key: part for key, part in contents_of(held).items() if before.get(key, ABSENT) is not part}


def as_before(held, parts):
    """Return a copy of a list, a dict or an object with the parts that it had."""
    if type(held) in (list, dict):
        return list(parts.values()) if type(held) is list else parts
    other = copy(held)
    vars(other).clear()
    vars(other).update(parts)
    return other


class Outside:
    """What a function reads from variables outside, with `instead` in the place of some values: what holds one of these is copied.

    Functions are rebuilt, and objects copied with their attributes; classes, and what installed packages hold, are not, except objects with
    such attributes. `numpys` replaces functions of NumPy. Variables of `live` modules are read in place unless they hold another value.
    """

    def __init__(self, instead, numpys=None, live=False):
        self.instead, self.numpys, self.live = instead, numpys, live
        self.known: dict[int, tuple] = {}  # by identity: what was there, which it keeps alive, and what stands for it

    def __call__(self, held):
        kind = type(held)
        new = self.instead(held)
        if new is not held or kind is np.ndarray or isinstance(held, Handle):
            return new
        make = self.maker(held, kind)
        if make is None:
            return held
        if id(held) not in self.known:
            self.known[id(held)] = held, held  # in itself it is what it was
            self.known[id(held)] = held, make(held)
        return self.known[id(held)][1]

    def maker(self, held, kind):
        """Return what makes what stands for a value, None where it stays."""
        if kind is MethodType:
            return lambda held: MethodType(self(held.__func__), self(held.__self__))
        if issubclass(kind, Wrapper):
            return lambda held: self(held.f)
        if kind is partial:
            return self.partial
        if kind in (list, dict) or isinstance(held, tuple):
            return self.container
        if issubclass(kind, type | np.ufunc | np.generic):
            return None
        if isinstance(held, ModuleType):
            looked_through = self.numpys and (held is math or of_numpy(held.__name__) or not installed(held))
            return (lambda held: Module(held, self)) if looked_through else None
        if self.numpys and callable(held) and of_numpy(getattr(held, "__module__", None)):
            return self.numpys
        if kind is FunctionType:
            return self.function
        if not hasattr(held, "__dict__"):
            return None
        users = kind is SimpleNamespace or not installed(sys.modules.get(kind.__module__))
        return self.object if users or (not self.numpys and any(self.instead(part) is not part for part in vars(held).values())) else None

    def container(self, held):
        parts = held if type(held) is dict else dict(enumerate(held))
        new = {key: self(part) for key, part in parts.items()}
        if all(new[key] is part for key, part in parts.items()):
            return held
        if type(held) is dict:
            return new
        return type(held)(*new.values()) if hasattr(held, "_fields") else type(held)(new.values())

    def partial(self, held):
        parts = held.func, held.args, held.keywords
        new = self.container(parts)
        return held if new is parts else partial(new[0], *new[1], **new[2])

    def object(self, held):
        shared = {name: part for base in reversed(type(held).__mro__) for name, part in vars(base).items() if type(part) is np.ndarray}
        own = shared | vars(held)
        new = self.container(own)
        if new is own:
            return held
        other = copy(held)
        vars(other).update(new)
        return other

    def function(self, f):
        """Return a function whose variables outside are those that stand for its own."""
        elsewhere = owner(f.__code__.co_filename) != ""
        if elsewhere and (hasattr(f, "plain") or not f.__closure__):  # primitives are known by identity
            return f
        outer = f.__globals__
        names = [] if elsewhere else [name for name in mentioned(f.__code__) if name in outer]
        if self.live:
            names = [name for name in names if not callable(outer[name]) and self(outer[name]) is not outer[name]]
        space = dict(outer) if names else outer
        cells = tuple(CellType() for _ in f.__closure__ or ())
        new = FunctionType(f.__code__, space, f.__name__, None, cells or None)
        self.known[id(f)] = f, new
        vars(new).update(vars(f))

        def seen(held):
            of_user = not elsewhere or isinstance(held, FunctionType | MethodType | Handle | Place | Wrapper)
            return self(held) if of_user else held  # what grad(f) and the like hold besides f is their own

        new.__defaults__ = f.__defaults__ and tuple(map(seen, f.__defaults__))
        new.__kwdefaults__ = f.__kwdefaults__ and {name: seen(held) for name, held in f.__kwdefaults__.items()}
        for name in names:
            space[name] = seen(space[name])
        for cell, old in zip(cells, f.__closure__ or (), strict=True):
            with suppress(ValueError):  # not yet bound
                cell.cell_contents = seen(old.cell_contents)
        return new


class Module(ModuleType):
    """A module whose arrays are tables, and whose functions see them."""

    def __init__(self, module, outside):
        super().__init__(module.__name__)
        self.__dict__["__getattr__"] = lambda name: outside(getattr(module, name))


def of_numpy(name):
    return (name or "").partition(".")[0] == "numpy"


def makes_tables(fn):
    """Return a function of NumPy whose results are tables."""

    @wraps(fn)
    def call(*args, **kwargs):
        return optree.tree_map(table, fn(*args, **kwargs))

    return call
