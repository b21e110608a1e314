"""Reads: a walk through all that functions read besides their arguments, at the places where they read it.

Functions that the code calls are followed, and members of objects. Of attributes those count that any of these functions mentions; all
where names are computed. Of installed packages, what their wrappers hold is looked at, and nothing else.
"""

from __future__ import annotations

import dis
import sys
from collections import deque
from collections.abc import Callable, Iterable
from functools import cached_property, lru_cache, partial
from importlib.util import resolve_name
from operator import attrgetter
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
)
from typing import Any

import numpy as np

from ..support.callers import owner

ABSENT = object()  # what a place holds that holds nothing
#: what may read attributes of any name
DYNAMIC = {"getattr", "vars", "__dict__", "__getattribute__", "__slots__", "asdict", "astuple", "fields", "attrgetter", "getmembers"}
WHEN_MADE = ("__init__", "__new__", "__post_init__")  # methods that no use of an instance calls
WRAPPERS = (property, staticmethod, classmethod, cached_property)


class Reads:
    """A walk; what it does is said by subclasses. Names of places are such as ``model.rate``."""

    note: Callable  # a place, ``(get, key)``, and what it holds
    code: Callable  # a function of the user's, and its name
    wrapper: Callable  # a function of an installed package, and its name
    data: Callable  # a container or an object, its name and its depth

    def __init__(self) -> None:
        self.names: dict[str, None] = {}  # that some code mentions
        self.all = False  # code computes names
        self.left: deque[tuple[Any, str, int]] = deque()  # in the order in which it was found, so that names stay short
        self.seen: dict[Any, Any] = {}  # with the objects, so that no other takes the place of one
        self.waiting: dict[str, list[tuple]] = {}  # places of attributes that no code has mentioned yet
        #: the same of modules, and of special names such as `__doc__`, which computed names do not read
        self.unasked: dict[str, list[tuple]] = {}
        self.space: Any = None  # whose global values have short names

    def walk(self) -> None:
        """Look into all values that are queued."""
        while self.left:
            self.look_into(*self.left.popleft())

    def look(self, value: Any, name: str = "", depth: int = 0) -> None:
        """Queue a value, which is in so many objects of installed classes."""
        self.left.append((value, name, depth))

    def place(self, get: Callable, key: Any, name: str = "", depth: int = 0) -> None:
        """Note a place, and queue what is there."""
        held = held_at(get, key)
        self.note(get, key, held)
        if held is not ABSENT:
            self.look(held, name, depth)

    def attributes(self, members: Iterable[Any], get: Callable, name: str, always=False, depth=0, waiting=None) -> None:
        """Note the places of members that some code mentions, now or when it does."""
        for key in list(members):
            place = get, key, f"{name}.{key}" if name else str(key), depth
            if always or key in self.names or (self.all and waiting is None):
                self.place(*place)
            elif type(key) is str:
                (self.waiting if waiting is None else waiting).setdefault(key, []).append(place)

    def mention(self, names: Iterable[str]) -> None:
        """Note the places of the attributes of these names, of all objects that are known now or found later."""
        for name in names:
            if name not in self.names:
                self.names[name] = None
                places = [*self.waiting.pop(name, ()), *self.unasked.pop(name, ())]
                if name in DYNAMIC and not self.all:
                    self.all = True
                    places += [place for waiting in self.waiting.values() for place in waiting]
                    self.waiting.clear()
                for place in places:
                    self.place(*place)

    def look_into(self, value: Any, name: str, depth: int) -> None:
        """Look into a value that holds others."""
        kind: Any = type(value)
        if kind is FunctionType:
            self.function(value, name)
        elif kind is MethodType:
            self.look(value.__func__, name)
            self.look(value.__self__, name and f"{name}.__self__", depth)
        elif kind is partial:
            self.look(value.func, name, depth)
            self.look(value.args, f"{name}.args" if name else "args", depth)
            self.look(value.keywords, f"{name}.keywords" if name else "keywords", depth)
        elif kind is BuiltinFunctionType or kind is MethodWrapperType:  # table.get, table.__getitem__
            if not isinstance(value.__self__, ModuleType | type | None):
                self.look(value.__self__, name, depth)
        elif isinstance(value, ModuleType):
            if not installed(value):
                self.attributes(vars(value), vars(value).__getitem__, value.__name__, waiting=self.unasked)
        elif isinstance(value, type):
            self.members(value)
        elif isinstance(value, WRAPPERS):
            if kind not in WRAPPERS:
                self.class_of(kind)
            for part in (getattr(value, part, None) for part in ("fget", "fset", "__func__", "func")):
                if part is not None:
                    self.look(part, name)
        elif kind is attrgetter:
            self.mention(named_by(value))
        else:
            self.data(value, name, depth)

    # --- functions ----------------------------------------------------------------------------------------------------------

    def function(self, function: Any, name: str) -> None:
        """Look at a function, what it closes over, and what else it reads."""
        code, dot = function.__code__, f"{name}." if name else ""
        if owner(code.co_filename):  # grad(f) and other wrappers: what they wrap may be the user's
            self.wrapper(function, name)
            return
        self.code(function, name)
        names = mentioned(code)
        self.mention(names)
        for part, told in (("__defaults__", "its defaults"), ("__kwdefaults__", "its keyword defaults")):
            if getattr(function, part):
                self.place(partial(getattr, function), part, f"{name}, {told}" if name else told)
        for key, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            self.place(partial(getattr, cell), "cell_contents", f"{dot}{key}")
        space = function.__globals__
        prefix = "" if space is self.space or self.space is None else f"{function.__module__}."
        for key in names:
            if key in space:
                self.place(space.__getitem__, key, prefix + key)
        self.attributes([key for key in vars(function) if key != "__wrapped__"], vars(function).__getitem__, name)
        for key in imported(code, space.get("__package__")):
            self.module(key)

    def module(self, name: str) -> None:
        """Look at a module that a function imports when it is called."""
        if name in sys.modules and not installed(sys.modules[name]):  # which may be any object
            self.place(sys.modules.__getitem__, name, name)

    # --- objects and classes ------------------------------------------------------------------------------------------------

    def slots(self, value: Any, name: str, always: bool, depth: int = 0) -> None:
        """Look at attributes that are in slots, set or not."""
        spaces = map(vars, reversed(type(value).__mro__))
        slots = {key: slot for space in spaces for key, slot in space.items() if type(slot) is MemberDescriptorType}
        self.attributes(slots, lambda key: slots[key].__get__(value), name, always, depth)

    def class_of(self, kind: type) -> None:
        """Look at the class of an instance."""
        if ("class", kind) not in self.seen and not installed(kind):
            self.seen["class", kind] = kind
            self.members(kind, of_instance=True)

    def members(self, kind: Any, of_instance: bool = False) -> None:
        """Look at methods and attributes of a class: those that are mentioned, and special methods, for an instance those that it calls."""
        name = f"{kind.__module__}.{kind.__qualname__}"
        if installed(kind):
            return
        if type(kind) is not type:
            self.look(type(kind), name)
        for base in kind.__mro__[1:]:
            if of_instance:
                self.class_of(base)
            else:
                self.look(base, name)
        space = vars(kind)
        for key, member in list(space.items()):
            if isinstance(member, GetSetDescriptorType | MemberDescriptorType) or (of_instance and key in WHEN_MADE):
                continue
            special = key.startswith("__") and key.endswith("__")
            called = special and runs_code(member)
            waiting = self.unasked if special and not called else None
            self.attributes([key], space.__getitem__, name, called, waiting=waiting)


def held_at(get, key):
    """Return what a place holds."""
    try:
        return get(key)
    except (LookupError, AttributeError, ValueError):  # not yet bound
        return ABSENT


def named_by(getter):
    """Return the names of the attributes that an `operator.attrgetter` reads."""
    return [name for path in getter.__reduce__()[1] for name in path.split(".")]


def getattr_static(value, name):
    """Return an attribute of an object without calling code of its class, None if there is none."""
    try:
        return object.__getattribute__(value, name)
    except (AttributeError, TypeError):
        return None


def runs_code(member):
    """Return whether a function of Python runs where a member of a class is used."""
    if isinstance(member, (FunctionType, *WRAPPERS)):
        return True
    return any(type(getattr(type(member), name, None)) is FunctionType for name in ("__get__", "__call__"))


def installed(value):
    """Return whether a module or class is of NumPy, Python or another package that is no work in progress."""
    if isinstance(value, type):
        value = sys.modules.get(value.__module__, np)
    return (
        isinstance(value, ModuleType)
        and owner(getattr(value, "__file__", None) or "<frozen") != ""
        and (hasattr(value, "__file__") or value.__name__ in sys.builtin_module_names)
    )


@lru_cache(maxsize=512)
def mentioned(code) -> tuple[str, ...]:
    """Return the names that globals and attributes may have in a function's code, and in the functions that it defines."""
    if code is None:
        return ()
    inner = [name for constant in code.co_consts if isinstance(constant, CodeType) for name in mentioned(constant)]
    texts = [text for text in code.co_consts if type(text) is str and text.isidentifier()]  # getattr(x, "a"), vars(x)["a"]
    return tuple(dict.fromkeys((*code.co_names, *texts, *inner)))


@lru_cache(maxsize=512)
def imported(code, package) -> tuple[str, ...]:
    """Return the names of the modules that a function's code imports, and the functions that it defines."""
    found = []
    instructions = [instruction for instruction in dis.get_instructions(code) if instruction.opname != "EXTENDED_ARG"]
    for k, instruction in enumerate(instructions):
        if instruction.opname == "IMPORT_NAME":
            level, name = instructions[k - 2].argval, instruction.argval
            if level and package:
                name = resolve_name("." * level + name, package)
            found += [name, name.split(".")[0]]
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found += imported(constant, package)
    return tuple(dict.fromkeys(found))
