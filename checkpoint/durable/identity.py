"""What a function reads, part by part: its code, what it closes over, global values, attributes, and what the functions that it calls read.

Values are digested as they are now, in the same way in every process: numbers and arrays by their bits, functions by their code,
objects of the user's classes by those attributes that some code names, and other objects (sparse matrices, data frames, quantities,
generators) by their pickled state. Objects of installed packages count by name.
"""

from __future__ import annotations

import copyreg
import marshal
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from operator import attrgetter
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MappingProxyType,
    MethodWrapperType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from dualad.jit.reads import Reads, getattr_static, installed, mentioned, named_by
from dualad.support.costs import ONE_BY_ONE

from ..storage.digests import code_pieces, hash_pieces, summed_parts
from ..storage.states import raw_bytes

ATOMS = frozenset({float, int, bool, complex, str, bytes, type(None)})
CONTAINERS = (tuple, list, dict, set, frozenset)
CODE, VERB = "its code", "the verb"
OWN_PACKAGES = ("dualad", "checkpoint")
CODE_DIGESTS: WeakKeyDictionary[CodeType, bytes] = WeakKeyDictionary()  # else each call of a fit walks through all code again
MOST_VALUES = 100_000  # that are looked at: a function may hold a world of objects


def dependency_digests(function: Callable[..., Any]) -> dict[str, str]:
    """Return a digest for each dependency of a function, by names such as ``model.rate``; a wrapper counts by what it wraps, too."""
    reads = Digests()
    reads.root(function)
    return reads.parts


def identity(value: Any, what: str) -> str:
    """Return a digest of a value: functions by what they read, arrays by their memory order too.
    TypeError, which begins with `what`, for something that cannot be looked into."""
    reads = Digests(what)
    reads.look(value)
    reads.walk()
    return digest_of_parts(reads.parts)


def function_digest(function: Callable[..., Any]) -> str:
    return digest_of_parts(dependency_digests(function))


def digest_of_parts(parts: dict[str, str]) -> str:
    """Return one digest of many, by name."""
    return hash_pieces(f"{name}={found}".encode() for name, found in sorted(parts.items()))


class Digests(Reads):
    """Walks through what a function or an argument reads; `parts` are the digests by name.
    With `what`, a value that cannot be looked into is an error that begins so; without it, its type counts."""

    def __init__(self, what: str = "") -> None:
        super().__init__()
        self.parts: dict[str, str] = {}
        self.what, self.all = what, bool(what)
        self.is_part = False  # of an object, of which all is to be looked into or nothing

    def root(self, function: Callable[..., Any]) -> None:
        """Add the function itself and its wrappers, and all that they read."""
        wrappers, seen = [], set[int]()
        while hasattr(function, "__wrapped__") and id(function) not in seen:
            seen.add(id(function))
            wrappers.append(function)
            function = function.__wrapped__
        self.space = getattr(function, "__globals__", None)
        self.look(function)
        for wrapper in wrappers:
            self.look(wrapper, VERB)
        self.walk()

    def add(self, name: str, pieces: Iterable[Any]) -> None:
        found = hash_pieces(pieces)
        self.parts[name] = hash_pieces([self.parts[name].encode(), found.encode()]) if name in self.parts else found

    def look_into(self, value: Any, name: str, depth: int) -> None:
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
            return
        if kind is BuiltinFunctionType or kind is MethodWrapperType:
            self.add(name, [value.__qualname__.encode()])
        elif isinstance(value, ModuleType):
            self.add(name, [value.__name__.encode()])
        elif isinstance(value, type):
            self.add(name, [f"{value.__module__}.{value.__qualname__}".encode()])
        elif kind is attrgetter:
            self.add(name, map(str.encode, named_by(value)))
        super().look_into(value, name, depth)

    def data(self, value: Any, name: str, depth: int) -> None:
        kind = type(value)
        if kind in CONTAINERS:
            self.container(name, value)
        elif kind is MappingProxyType:
            self.look(dict(value), name)
        elif kind is np.ndarray:  # of objects
            self.add(name, [repr(value.shape).encode()])
            self.container(f"{name}.flat", value.ravel().tolist())
        else:
            self.object(name, value)

    def note(self, get: Callable[..., Any], key: Any, held: Any) -> None:
        """Keep nothing: values count as they are now."""

    def code(self, function: FunctionType, name: str) -> None:
        self.add(name or CODE, [code_digest(function.__code__)])
        for key in mentioned(function.__code__):  # importlib.import_module("model"), sys.modules["model"]
            self.module(key)

    def wrapper(self, function: Any, name: str) -> None:
        self.add(name or VERB, [function.__module__.encode(), function.__qualname__.encode()])
        for key, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            self.place(partial(getattr, cell), "cell_contents", f"{name}.{key}" if name else key)

    def container(self, name: str, value: Any) -> None:
        kind = type(value)
        self.add(name, [f"{kind.__name__} {len(value)}".encode()])
        if kind is dict:
            self.add(name, [repr([key if type(key) in ATOMS else type(key) for key in value]).encode()])
            for key, item in list(value.items()):
                self.look(item, f"{name}[{key!r}]" if type(key) in ATOMS else f"{name}[{type(key).__name__}]")
                if type(key) not in ATOMS:
                    self.look(key, f"{name}, keys")
        elif kind in (set, frozenset):  # whose order is another one in every process
            parts = sorted(self.digest_of(item, shared=False) or type(item).__qualname__ for item in list(value))
            self.add(name, [part.encode() for part in parts])
        else:
            for i, item in enumerate(list(value)):
                self.look(item, f"{name}[{i}]")

    def object(self, name: str, value: Any) -> None:
        kind = type(value)
        self.add(name, [kind.__module__.encode(), kind.__qualname__.encode()])
        wrapped = getattr_static(value, "__wrapped__")
        if wrapped is not None:
            self.look(wrapped, name)
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
        self.class_of(kind)
        members = getattr_static(value, "__dict__") or {}
        self.attributes(members, members.__getitem__, name, kind is SimpleNamespace)
        self.slots(value, name, False)
        if type(said) is list:  # what it is besides its attributes, as a container, a number, an array
            _, arguments, state, *elements = said
            for part in (*arguments, *elements, None if is_attributes(state) else state):
                if part is not kind and part is not None:
                    self.look(part, name)

    def digest_of(self, value: Any, shared: bool = True) -> str | None:
        """Return a digest of all that a value consists of; None if something in it cannot be looked into."""
        inner = Digests()
        inner.all = inner.is_part = True
        inner.space, before = self.space, len(self.seen)
        if shared:
            inner.seen = self.seen
        inner.look(value)
        try:
            inner.walk()
        except Unseen:
            while shared and len(self.seen) > before:
                self.seen.popitem()
            return None
        self.mention(inner.names)
        for key, places in inner.unasked.items():
            for get, _, part, _ in places:
                self.attributes([key], get, part.rpartition(".")[0], waiting=self.unasked)
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
