"""Places where code finds what it calls: global names, attributes of classes, defaults and closures of functions."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property, partial
from itertools import pairwise
from operator import is_
from types import CodeType, FunctionType, MappingProxyType, MethodType
from typing import Any

import numpy as np

from ..core.doors import BUILTINS
from ..core.standins import look_up, python_original, stand_in
from ..support.costs import WATCHED_LENGTH

ABSENT = object()
PLAIN = {str, bytes, bool, int, float, complex, tuple, list, set, frozenset, type(None), np.ndarray, np.float64}
WRAPPERS = {staticmethod, classmethod, MethodType, cached_property, type(cache(len))}


@dataclass(slots=True)
class Change:
    """A key of a dict, or an attribute, that holds something new; of what is put there in the meantime nothing is undone."""

    owner: Any
    key: str
    old: Any
    new: Any

    def make(self) -> None:
        with suppress(AttributeError, TypeError):  # an attribute that cannot be set, of an Enum say
            self.write(self.new)

    def undo(self) -> None:
        holds = vars(self.owner) if isinstance(self.owner, type) else self.owner
        if (holds.get(self.key, ABSENT) if isinstance(holds, dict | MappingProxyType) else getattr(holds, self.key)) is self.new:
            self.write(self.old)

    def write(self, value: Any) -> None:
        if not isinstance(self.owner, dict):
            setattr(self.owner, self.key, value)
        elif value is ABSENT:
            del self.owner[self.key]
        else:
            self.owner[self.key] = value


def changes_of_space(space: dict[str, Any]) -> Iterator[Change]:
    """Yield the changes of a module's names, and of the functions and classes that are defined there."""
    look_up()
    functions: list[FunctionType] = []
    wrappers: list[FunctionType] = []  # of decorators that another module of the package has
    for name, value in list(space.items()):
        kind = type(value)
        if kind in PLAIN:
            continue
        if issubclass(kind, type) and value.__module__ == space.get("__name__"):
            for key, part in list(vars(value).items()):
                if type(part) not in PLAIN:
                    functions += functions_of(part)
                    yield from changed(value, key, part)
        elif kind is dict and name != "__builtins__" and len(value) <= WATCHED_LENGTH:
            for key, part in list(value.items()):
                if type(part) not in PLAIN:
                    yield from changed(value, key, part)
        else:
            for function in functions_of(value):
                if function.__globals__ is space:
                    functions.append(function)
                elif function.__closure__ and package_of(function.__globals__) == package_of(space):
                    wrappers.append(function)
            if kind is not FunctionType or value.__globals__ is not space:
                yield from changed(space, name, value)
    for function in functions + wrappers:
        yield from changes_of_function(function)
    used = set().union(*(uses_of(function.__code__) for function in functions))
    for name in {name for name, _ in used} - {name for name, exact in used if exact} - space.keys():
        yield Change(space, name, ABSENT, BUILTINS[name])


def package_of(space: dict[str, Any]) -> str:
    return f"{space.get('__package__') or space.get('__name__')}".partition(".")[0]


def changed(owner: Any, key: str, value: Any) -> Iterator[Change]:
    """Yield the change of a place, if what it holds has a stand-in."""
    kind = type(value)
    if issubclass(kind, np.vectorize):
        yield from changed(value, "pyfunc", value.pyfunc)
        yield Change(value, "__class__", kind, stand_in(kind))
    elif issubclass(kind, staticmethod):
        if (new := stand_in(value.__func__)) is not value.__func__:
            yield Change(owner, key, value, staticmethod(new))
    elif (new := stand_in(value)) is not value:
        yield Change(owner, key, value, new)


def functions_of(x: Any) -> Iterator[FunctionType]:
    """Yield the Python functions that a callable, or an attribute of a class, is made of: those that decorators wrap, too."""
    kind = type(x)
    if kind is FunctionType:
        yield x
        if (inner := vars(x).get("__wrapped__")) is not None:
            yield from functions_of(inner)
    elif kind is partial:
        yield from functions_of(x.func)
    elif kind is property:
        yield from functions_of(x.fget)
        yield from functions_of(x.fset)
    elif kind in WRAPPERS or issubclass(kind, np.vectorize):
        yield from functions_of(next(getattr(x, name) for name in ("__func__", "__wrapped__", "func", "pyfunc") if hasattr(x, name)))
    elif (function := python_original(x)) is not None:
        yield from functions_of(function)


def changes_of_function(function: FunctionType) -> Iterator[Change]:
    """Yield the changes of the defaults and of the closure of a function."""
    if (old := function.__defaults__) is not None:
        new = tuple(map(stand_in, old))
        if not all(map(is_, new, old)):
            yield Change(function, "__defaults__", old, new)
    for name, value in (function.__kwdefaults__ or {}).items():
        yield from changed(function.__kwdefaults__, name, value)
    for cell in function.__closure__ or ():
        try:
            yield from changed(cell, "cell_contents", cell.cell_contents)
        except ValueError:  # not yet bound
            continue


@cache
def uses_of(code: CodeType) -> set[tuple[str, bool]]:
    """Return the builtins that a function's code uses, each with whether nothing can stand for it there: ``type(x) is float``."""
    used: set[tuple[str, bool]] = set().union(*(uses_of(part) for part in code.co_consts if isinstance(part, CodeType)))
    if names := BUILTINS.keys() & set(code.co_names):
        for step, after in pairwise(dis.get_instructions(code)):
            if step.argval in names and "GLOBAL" in step.opname:
                used.add((step.argval, after.opname == "IS_OP"))
    return used
