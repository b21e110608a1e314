"""Watch: whether values that a compiled function reads besides its arguments have changed since the trace."""

from __future__ import annotations

import array as arrays
import builtins
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from io import IOBase
from operator import is_
from struct import Struct
from threading import local
from types import CellType, FunctionType, MappingProxyType
from weakref import ReferenceType

import numpy as np

from ..graph.visits import OURS
from ..support.costs import MEMORY_BYTES, ONE_BY_ONE, WATCHED_DEPTH, WATCHED_LENGTH
from ..support.equality import same_arrays
from .impure import generators_of
from .reads import ABSENT, Reads, getattr_static, held_at, imported, installed, mentioned

BITS = Struct("dd").pack
ANY = ("random",)  # names of an attribute of NumPy
ATOMS = (float, int, bool, complex, str, bytes, type(None))
MAPPINGS, SEQUENCES, SETS = (dict, OrderedDict, defaultdict, Counter), (list, deque), (set, frozenset)
BYTES = (bytearray, arrays.array, memoryview)
#: containers whose subclasses are looked at, and what gives their elements
PARTS = {
    tuple: lambda held: list(tuple.__iter__(held)),
    dict: lambda held: [*dict.__iter__(held), *dict.values(held)],
    list: lambda held: list(list.__iter__(held)),
    set: lambda held: list(set.__iter__(held)),
    frozenset: lambda held: list(frozenset.__iter__(held)),
    deque: lambda held: list(deque.__iter__(held)),
    MappingProxyType: lambda held: [*held, *held.values()],
}  # fmt: skip


class Watch(Reads):
    """What a function and static arguments close over, as it is now: variables, defaults, parts of containers, arrays bit by bit, code.

    Of objects of installed classes all attributes are watched. What else installed packages have is taken for constant.
    """

    def __init__(self, function, values=()):
        super().__init__()
        self.places: list = []  # (get, key, held): get(key) is to be held
        self.arrays: list = []  # (array, a copy of it)
        self.random: list = []  # what may be a generator of random numbers
        self.absent: list[str] = []  # modules that functions import when they are called
        for value in (function, *values):
            self.look(value)
        self.walk()
        self.generators = [pair for value in self.random for pair in generators_of(value, self.names).items()]
        self.quick, self.slow = [], self.places

    def settle(self) -> bool:
        """Leave out what has changed since, and return whether anything has: the function changes it itself, as counters and logs."""
        before = len(self.places) + len(self.arrays)
        self.places = [place for place in self.places if holds(place)]
        self.arrays = [pair for pair in self.arrays if same_arrays(*pair)]
        left_out = len(self.places) + len(self.arrays) < before
        for name in self.absent:
            self.module(name)
        self.absent = [name for name in self.absent if name not in sys.modules]
        self.walk()
        self.places = [place for place in self.places if place[0] is not position]  # others write to the file between calls
        if len(self.places) == 1 and self.places[0][1] == "__code__" and not self.arrays:
            self.places = []  # a function that reads nothing: a look at its code would take a tenth of its call
        quick = [(place, source) for place in self.places if (source := source_of(place)) is not None][:ONE_BY_ONE]
        self.quick = [source for _, source in quick]
        known = {id(place) for place, _ in quick}
        self.slow = [place for place in self.places if id(place) not in known]
        return left_out

    def fresh(self, places=None) -> bool:
        """Return whether nothing has changed, at all places or at these."""
        return all(map(holds, self.places if places is None else places)) and all(same_arrays(*pair) for pair in self.arrays)

    # --- the look -----------------------------------------------------------------------------------------------------------

    def note(self, get, key, held):
        self.places.append((get, key, held))

    def look_into(self, value, name, depth):
        kind = type(value)
        if kind in ATOMS:
            return
        if generators_of(value, ANY):
            self.random.append(value)
        if not (issubclass(kind, np.generic | np.ufunc) or installed(value) or id(value) in self.seen):
            self.seen[id(value)] = value
            super().look_into(value, name, depth)

    def data(self, value, name, depth):
        kind = type(value)
        if issubclass(kind, np.ndarray):
            if value.dtype == object:
                self.at_once(value, lambda held: held.ravel().tolist(), depth)
            elif not value.dtype.hasobject and (value.nbytes <= MEMORY_BYTES // 16 or (not depth and not issubclass(kind, np.memmap))):
                self.arrays.append((value, value.copy()))
        elif kind is tuple:  # which holds what it holds
            for part in value[: WATCHED_LENGTH + 1]:
                self.look(part, depth=depth)
        elif kind in MAPPINGS or kind in SEQUENCES or kind in SETS:
            self.container(value, kind, depth)
        elif kind in BYTES:
            self.place(bytes, value)
        elif issubclass(kind, IOBase):
            self.place(position, value)
        elif kind is ContextVar:
            self.place(value.get, ABSENT)
        elif kind is ReferenceType:
            self.place(ReferenceType.__call__, value)
        elif kind is np.flatiter:
            self.look(value.base)
        else:
            base = next((base for base in PARTS if isinstance(value, base)), None)
            if base is not None:  # of a class of its own
                self.at_once(value, PARTS[base], depth)
            self.object(value, depth)

    def container(self, value, kind, depth):
        """Watch the elements of a container: one by one, of a long one at once, of a very long one how many there are."""
        self.places.append((len, value, len(value)))
        if len(value) > WATCHED_LENGTH:
            return
        if kind in SETS or len(value) > ONE_BY_ONE:
            self.at_once(value, parts_of, depth)
            return
        if kind in MAPPINGS:  # whose order counts, too
            self.places.append((partial(same_order, list(value)), value, True))
        get = partial(without_default, value) if hasattr(kind, "__missing__") else value.__getitem__
        for key in list(value) if kind in MAPPINGS else range(len(value)):
            self.place(get, key, depth=depth)

    def at_once(self, value, parts_in, depth):
        """Watch all elements of a container, unless there are very many."""
        parts = parts_in(value)
        if len(parts) > 2 * WATCHED_LENGTH:
            return
        self.places.append((lambda held: same_parts(parts_in(held), parts), value, True))
        for part in parts:
            if type(part) not in ATOMS:
                self.look(part, depth=depth)

    def code(self, function, name):
        self.note(partial(getattr, function), "__code__", function.__code__)  # autoreload replaces it
        space = function.__globals__
        for key in mentioned(function.__code__):
            if key not in space and hasattr(builtins, key):
                self.note(space.__contains__, key, False)
        self.absent += [key for key in imported(function.__code__, space.get("__package__")) if key not in sys.modules]

    def wrapper(self, function, name):
        found = list(vars(function).values())
        for cell in function.__closure__ or ():
            held = held_at(partial(getattr, cell), "cell_contents")
            found += held.values() if type(held) is dict else (held,)
        for part in found:
            if callable(part):
                self.look(part)

    def members(self, kind, of_instance=False):
        self.note(partial(getattr, kind), "__mro__", kind.__mro__)
        self.count(vars(kind))
        super().members(kind, of_instance)

    def class_of(self, kind):
        """Look at a class as a whole: code that holds an instance may make others."""
        self.look(kind)

    def count(self, space):
        """Watch how many attributes there are: a new one may hide one of a class, or be what the code asks for."""
        if ("count", id(space)) not in self.seen:
            self.seen["count", id(space)] = space
            self.note(len, space, len(space))

    def object(self, value, depth):
        """Watch attributes of an object: those that are mentioned, and all where code reads them that is not looked at."""
        cls, held = type(value), getattr_static(value, "__dict__")
        foreign = installed(cls)
        if held is not None and "__wrapped__" in held:
            self.look(held["__wrapped__"])
        if foreign and (depth == WATCHED_DEPTH or cls.__module__.partition(".")[0] in OURS):
            return
        depth += foreign
        if isinstance(value, local):  # whose attributes are those of a thread
            held = vars(value)
        if held is not None:
            self.count(held)
            get = partial(getattr, value) if isinstance(value, local) else held.__getitem__
            self.attributes(held, get, "", foreign or any(map(installed, cls.__mro__[1:-1])), depth)
        self.slots(value, "", foreign, depth)
        if not foreign:
            self.note(type, value, cls)
            self.class_of(cls)


def position(file):
    """Return the place in a file that was read or written last, None where there is none."""
    with suppress(OSError, ValueError):  # a pipe, a closed file
        return file.tell()


def without_default(mapping, key):
    """Return the value at a key, which is not put there if it is absent."""
    if key not in mapping:
        raise KeyError(key)
    return mapping[key]


def parts_of(container):
    """Return the elements of a container, keys and values of a mapping."""
    return [*container, *container.values()] if isinstance(container, dict) else list(container)


def same_parts(now, held):
    """Return whether containers hold the same: objects that are identical, or the same numbers and texts."""
    return len(now) == len(held) and (all(map(is_, now, held)) or all(a is b or same(a, b) for a, b in zip(now, held, strict=True)))


def same_order(keys, mapping):
    """Return whether the first keys of a mapping are these."""
    return all(map(is_, mapping, keys)) or same_parts(list(mapping)[: len(keys)], keys)


def same(now, held):
    """Return whether numbers or texts are of one type and equal: floats bit for bit, so the sign of zero counts and NaN equals itself."""
    kind = type(now)
    if kind is not type(held) or kind not in ATOMS:
        return False
    if kind is float:
        return BITS(now, 0.0) == BITS(held, 0.0)
    if kind is complex:
        return BITS(now.real, now.imag) == BITS(held.real, held.imag)
    return now == held


def source_of(place):
    """Return the source of a test that a place holds what it did, and what it names; None where identity does not tell."""
    get, key, held = place
    if held is ABSENT:
        return None
    of = getattr(get, "__self__", None)
    if get is len:
        return "len({}) == {}", (key, held)
    if type(of) in (dict, list, MappingProxyType) and get.__name__ == "__getitem__":
        return "{}[{}] is {}", (of, key, held)
    if type(of) is dict and get.__name__ == "__contains__":
        return f"{{}} {'in' if held else 'not in'} {{}}", (key, of)
    if get is type:
        return "type({}) is {}", (key, held)
    if type(get) is partial and get.func is getattr and (type(get.args[0]) in (CellType, FunctionType) or key == "__mro__"):
        return f"{{}}.{key} is {{}}", (*get.args, held)
    return None


def holds(place):
    """Return whether a place holds what it did."""
    get, key, held = place
    now = held_at(get, key)
    return now is held or same(now, held)
