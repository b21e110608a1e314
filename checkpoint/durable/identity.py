"""What a function reads, part by part: its code, what it closes over, global values, attributes, and what the functions that it calls read.

Values are digested as they are now, in the same way in every process: numbers and arrays by their bits, functions by their code,
objects of the user's classes by those attributes that some code names, and other objects (sparse matrices, data frames, quantities,
generators) by their pickled state. Objects of installed packages count by name.
"""

from __future__ import annotations

import copyreg
import marshal
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from operator import attrgetter
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from dualad.jit.watch import WHEN_MADE, getattr_static, installed, mentioned, named_by
from dualad.support.callers import owner
from dualad.support.costs import ONE_BY_ONE

from ..storage.digests import code_pieces, hash_pieces, summed_parts
from ..storage.states import raw_bytes

ATOMS = frozenset({float, int, bool, complex, str, bytes, type(None)})
CONTAINERS = (tuple, list, dict, set, frozenset)
CODE, DEFAULTS, VERB = "its code", "its defaults", "the verb"
DYNAMIC = frozenset({"__dict__", "__slots__", "vars", "asdict", "astuple", "fields", "attrgetter", "getattr", "getmembers"})
OWN_PACKAGES = ("dualad", "checkpoint")
CODE_DIGESTS: WeakKeyDictionary[CodeType, bytes] = WeakKeyDictionary()  # else each call of a fit walks through all code again
MOST_VALUES = 100_000  # that are looked at: a function may hold a world of objects


def dependency_digests(function: Callable[..., Any]) -> dict[str, str]:
    """Return a digest for each dependency of a function, by names such as ``model.rate``; a wrapper counts by what it wraps, too."""
    reads = Reads()
    reads.root(function)
    return reads.parts


def identity(value: Any, what: str) -> str:
    """Return a digest of a value: functions by what they read, arrays by their memory order too.
    TypeError, which begins with `what`, for something that cannot be looked into."""
    reads = Reads(what)
    reads.look("", value)
    reads.finish()
    return digest_of_parts(reads.parts)


def function_digest(function: Callable[..., Any]) -> str:
    return digest_of_parts(dependency_digests(function))


def digest_of_parts(parts: dict[str, str]) -> str:
    """Return one digest of many, by name."""
    return hash_pieces(f"{name}={found}".encode() for name, found in sorted(parts.items()))


class Reads:
    """Walks through what a function or an argument reads; `parts` are the digests by name.
    With `what`, a value that cannot be looked into is an error that begins so; without it, its type counts."""

    def __init__(self, what: str = "") -> None:
        self.parts: dict[str, str] = {}
        self.what, self.all = what, bool(what)
        self.is_part = False  # of an object, of which all is to be looked into or nothing
        self.seen: dict[int, Any] = {}  # with the objects, so that no other takes the place of one
        self.left: deque[tuple[str, Any]] = deque()  # in the order in which it was found, so that names stay short
        self.names: set[str] = set()  # that some code mentions
        self.waiting: dict[str, list[tuple[str, Any]]] = {}  # attributes that no code has named yet
        self.of_modules: dict[str, list[tuple[str, Any]]] = {}  # the same of modules, which no code asks for any
        self.space: Any = None  # of the function
        self.classes: set[type] = set()  # of instances

    def root(self, function: Callable[..., Any]) -> None:
        """Add the function itself and its wrappers, and all that they read."""
        wrappers, seen = [], set[int]()
        while hasattr(function, "__wrapped__") and id(function) not in seen:
            seen.add(id(function))
            wrappers.append(function)
            function = function.__wrapped__
        self.space = getattr(function, "__globals__", None)
        self.look("", function)
        for wrapper in wrappers:
            self.look(VERB, wrapper)
        self.finish()

    def finish(self) -> None:
        """Look into all values that are queued."""
        while self.left:
            self.look_into(*self.left.popleft())

    def look(self, name: str, value: Any) -> None:
        self.left.append((name, value))

    def add(self, name: str, pieces: Iterable[Any]) -> None:
        found = hash_pieces(pieces)
        self.parts[name] = hash_pieces([self.parts[name].encode(), found.encode()]) if name in self.parts else found

    def mention(self, names: Iterable[str]) -> None:
        """Queue the attributes of these names, of all objects that are known now or found later."""
        for name in names:
            if name not in self.names:
                self.names.add(name)
                self.left += [*self.waiting.pop(name, ()), *self.of_modules.pop(name, ())]
                if name in DYNAMIC and not self.all:
                    self.all = True
                    for waiting in self.waiting.values():
                        self.left += waiting
                    self.waiting.clear()

    def attributes(self, name: str, members: dict[Any, Any], always: bool = False) -> None:
        """Queue the attributes that some code mentions; all of them where code computes the names."""
        for key, value in list(members.items()):
            self.attribute(key, value, f"{name}.{key}" if name else str(key), always or self.all, self.waiting)

    def attribute(self, key: Any, value: Any, part: str, now: bool, waiting: dict[str, list[tuple[str, Any]]]) -> None:
        """Queue an attribute, now or when some code mentions it."""
        if now or key in self.names:
            self.look(part, value)
        elif type(key) is str:
            waiting.setdefault(key, []).append((part, value))

    def look_into(self, name: str, value: Any) -> None:
        kind = type(value)
        if kind in ATOMS or issubclass(kind, np.generic):
            self.add(name, atom_pieces(value))
            return
        if kind is np.ndarray and not value.dtype.hasobject:
            self.add(name, array_pieces(value, bool(self.what)))
            return
        if kind in CONTAINERS and (kind is not dict or len(value) > ONE_BY_ONE or self.what) and is_plain(value):
            self.add(name, [kind.__name__.encode(), marshal.dumps(value, 2)])
            return
        if id(value) in self.seen:
            self.add(name, [b"seen"])
            return
        self.seen[id(value)] = value
        if len(self.seen) > MOST_VALUES:
            self.add("the rest", [kind.__qualname__.encode()])
        elif kind is FunctionType:
            self.function(name, value)
        elif kind is MethodType:
            self.look(name, value.__func__)
            self.look(name and f"{name}.__self__", value.__self__)
        elif kind is partial:
            self.look(name, value.func)
            self.look(f"{name}.args" if name else "args", value.args)
            self.look(f"{name}.keywords" if name else "keywords", value.keywords)
        elif kind is ModuleType:
            self.module(name, value)
        elif isinstance(value, type):
            self.class_parts(name, value)
        elif kind is BuiltinFunctionType:
            self.add(name, [value.__qualname__.encode()])
            if not isinstance(value.__self__, ModuleType | type):
                self.look(name, value.__self__)
        elif kind in CONTAINERS:
            self.container(name, value)
        elif kind is MappingProxyType:
            self.look(name, dict(value))
        elif kind is attrgetter:
            self.add(name, map(str.encode, named_by(value)))
            self.mention(named_by(value))
        elif kind is np.ndarray:  # of objects
            self.add(name, [repr(value.shape).encode()])
            self.container(f"{name}.flat", value.ravel().tolist())
        else:
            self.object(name, value)

    # --- functions, classes, modules ----------------------------------------------------------------------------------

    def function(self, name: str, function: FunctionType) -> None:
        """Add the code and defaults of a function and what it closes over; of an installed one, its name in place of its code."""
        code = function.__code__
        foreign = owner(code.co_filename) != ""
        root = not name and not foreign
        dot = f"{name}." if name else ""
        if foreign:
            self.add(name or VERB, [function.__module__.encode(), function.__qualname__.encode()])
        else:
            self.add(CODE if root else name, [code_digest(code)])
            names = mentioned(code)
            self.mention(names)
            self.globals(function, names)
            for key, defaults in ((DEFAULTS, function.__defaults__), ("its keyword defaults", function.__kwdefaults__)):
                if defaults:
                    self.look(key if root else f"{name}, {key}", defaults)
            if function.__dict__:
                self.attributes(name, {key: item for key, item in function.__dict__.items() if key != "__wrapped__"})
        for key, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            try:
                item = cell.cell_contents
            except ValueError:  # not yet bound
                continue
            self.look(f"{dot}{key}", item)

    def globals(self, function: FunctionType, names: Iterable[str]) -> None:
        """Queue the global values that code names, and the modules that it imports."""
        space = function.__globals__
        prefix = "" if space is self.space or self.space is None else f"{function.__module__}."
        for key in names:
            if key in space:
                self.look(prefix + key, space[key])
            if type(module := sys.modules.get(key)) is ModuleType and not installed(module):  # it may be imported inside
                self.look(key, module)

    def class_parts(self, name: str, value: type, of_instance: bool = False) -> None:
        """Add a class; of the user's, its methods and attributes, those of an instance without `__init__` and its like."""
        called = f"{value.__module__}.{value.__qualname__}"
        self.add(name, [called.encode()])
        if installed(value) or value.__module__.partition(".")[0] in OWN_PACKAGES:
            return
        name = called
        for base in value.__mro__[1:]:
            if of_instance:
                self.class_of(name, base)
            else:
                self.look(name, base)
        for key, member in list(vars(value).items()):
            special = key.startswith("__") and key.endswith("__")
            if isinstance(member, GetSetDescriptorType | MemberDescriptorType) or (special and not callable(member)):
                continue
            if of_instance and key in WHEN_MADE:
                continue
            if isinstance(member, staticmethod | classmethod):
                member = member.__func__
            for part in (member.fget, member.fset) if isinstance(member, property) else (getattr(member, "func", member),):
                if part is not None:
                    self.attributes(name, {key: part}, always=special and type(part) is FunctionType)

    def class_of(self, name: str, kind: type) -> None:
        if kind not in self.classes and not installed(kind):
            self.classes.add(kind)
            self.class_parts(name, kind, of_instance=True)

    def module(self, name: str, module: ModuleType) -> None:
        """Add a module; of the user's, what some code names in it."""
        self.add(name, [module.__name__.encode()])
        if not installed(module) and module.__name__.partition(".")[0] not in OWN_PACKAGES:
            for key, value in list(vars(module).items()):
                self.attribute(key, value, f"{module.__name__}.{key}", False, self.of_modules)

    # --- data ---------------------------------------------------------------------------------------------------------

    def container(self, name: str, value: Any) -> None:
        kind = type(value)
        self.add(name, [f"{kind.__name__} {len(value)}".encode()])
        if kind is dict:
            self.add(name, [repr([key if type(key) in ATOMS else type(key) for key in value]).encode()])
            for key, item in list(value.items()):
                self.look(f"{name}[{key!r}]" if type(key) in ATOMS else f"{name}[{type(key).__name__}]", item)
                if type(key) not in ATOMS:
                    self.look(f"{name}, keys", key)
        elif kind in (set, frozenset):  # whose order is another one in every process
            parts = sorted(self.digest_of(item, shared=False) or type(item).__qualname__ for item in list(value))
            self.add(name, [part.encode() for part in parts])
        else:
            for i, item in enumerate(list(value)):
                self.look(f"{name}[{i}]", item)

    def object(self, name: str, value: Any) -> None:
        kind = type(value)
        self.add(name, [kind.__module__.encode(), kind.__qualname__.encode()])
        wrapped = getattr_static(value, "__wrapped__")
        if wrapped is not None:
            self.look(name, wrapped)
        if kind.__module__.partition(".")[0] in OWN_PACKAGES:  # a schedule, a storage, compiled code: no result depends on them
            return
        said = reduced(value)
        if installed(kind) and kind is not SimpleNamespace:
            found = None if said is None else self.digest_of(said)
            if found is not None:
                self.add(name, [found.encode()])
            elif self.is_part:
                raise Unseen
            elif self.what and name.startswith("[") and "." not in name:  # not of an object, nor read by a function
                raise TypeError(f"{self.what} has a leaf of type {kind.__name__}, whose data cannot be compared")
            return
        self.class_of(name, kind)
        members = getattr_static(value, "__dict__") or {}
        self.attributes(name, members | slots_of(value), always=kind is SimpleNamespace)
        if type(said) is list:  # what it is besides its attributes, as a container, a number, an array
            _, arguments, state, *elements = said
            for part in (*arguments, *elements, None if is_attributes(state) else state):
                if part is not kind and part is not None:
                    self.look(name, part)

    def digest_of(self, value: Any, shared: bool = True) -> str | None:
        """Return a digest of all that a value consists of; None if something in it cannot be looked into."""
        inner = Reads()
        inner.all = inner.is_part = True
        inner.space, before = self.space, len(self.seen)
        if shared:
            inner.seen = self.seen
        inner.look("", value)
        try:
            inner.finish()
        except Unseen:
            while shared and len(self.seen) > before:
                self.seen.popitem()
            return None
        self.mention(inner.names)
        for key, places in inner.of_modules.items():
            for part, item in places:
                self.attribute(key, item, part, False, self.of_modules)
        return digest_of_parts(inner.parts)


class Unseen(Exception):
    """A value cannot be looked into."""


def atom_pieces(value: Any) -> Iterator[bytes]:
    """Yield the type and the bits of a number or a text."""
    yield type(value).__name__.encode()
    if issubclass(type(value), np.generic) and not value.dtype.hasobject:
        yield str(value.dtype).encode()
        yield value.tobytes()
    else:
        yield repr(value).encode("utf-8", "surrogatepass")


def array_pieces(value: np.ndarray, order: bool) -> Iterator[Any]:
    """Yield the dtype, the shape and the bits of an array, and with `order` the order of its axes in memory."""
    yield f"{value.dtype!r} {value.shape} {order and np.argsort(value.strides, kind='stable').tolist()}".encode()
    yield from summed_parts(raw_bytes(value))


def is_plain(value: Any) -> bool:
    """Return whether there is nothing but numbers and texts in a container, nor in those in it."""
    if type(value) in (tuple, list):
        parts = value
    elif type(value) is dict:
        parts = [*value.keys(), *value.values()]
    elif type(value) in (set, frozenset):
        return set(map(type, value)) <= ATOMS
    else:
        return False
    return set(map(type, parts)) <= ATOMS or all(type(part) in ATOMS or (part is not value and is_shallow(part)) for part in parts)


def is_shallow(value: Any) -> bool:
    return type(value) in (tuple, list) and set(map(type, value)) <= ATOMS


def code_digest(code: CodeType) -> bytes:
    """Return a digest of compiled code, computed once while that lives."""
    found = CODE_DIGESTS.get(code)
    if found is None:
        found = CODE_DIGESTS[code] = hash_pieces(code_pieces(code)).encode()
    return found


def slots_of(value: Any) -> dict[str, Any]:
    members = {}
    for base in type(value).__mro__:
        for key, member in vars(base).items():
            if type(member) is MemberDescriptorType:
                with suppress(AttributeError):  # not set
                    members[key] = member.__get__(value)
    return members


def is_attributes(state: Any) -> bool:
    """Return whether the state of an object, as it is pickled, is nothing but its attributes."""
    return type(state) is dict or (type(state) is tuple and len(state) == 2 and type(state[1]) is dict)


def reduced(value: Any) -> Any:
    """Return what an object would be pickled as, a list or a name; None if it cannot be pickled."""
    kind = type(value)
    if kind is object or kind.__module__ == "itertools":
        return None
    try:
        reducer = copyreg.dispatch_table.get(kind)
        said = reducer(value) if reducer is not None else value.__reduce_ex__(4)
        if type(said) is str:
            return said
        made, arguments, state, elements, items = (*said, None, None, None)[:5]
        return [made, arguments, state, elements and list(elements), items and list(items)]
    except Exception:  # whatever its class raises: it cannot be pickled
        return None
