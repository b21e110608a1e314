"""Watch: whether values that a compiled function reads besides its arguments have changed since the trace."""

from __future__ import annotations

import array as arrays
import builtins
import dis
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from contextlib import suppress
from contextvars import ContextVar
from functools import cached_property, lru_cache, partial
from importlib.util import resolve_name
from io import IOBase
from operator import attrgetter, is_
from struct import Struct
from threading import local
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
)
from typing import Any
from weakref import ReferenceType

import numpy as np

from ..graph.visits import OURS
from ..support.callers import owner
from ..support.costs import MEMORY_BYTES, ONE_BY_ONE, WATCHED_DEPTH, WATCHED_LENGTH
from ..support.equality import same_arrays
from .impure import generators_of

BITS = Struct("dd").pack
ATOMS = (float, int, bool, complex, str, bytes, type(None))
ABSENT = object()  # what a place holds that holds nothing
MAPPINGS, SEQUENCES, SETS = (dict, OrderedDict, defaultdict, Counter), (list, deque), (set, frozenset)
BYTES = (bytearray, arrays.array, memoryview)
COMPUTED = {"getattr", "vars", "__dict__", "__getattribute__", "attrgetter"}  # what may read attributes of any name
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
WHEN_MADE = ("__init__", "__new__", "__post_init__")  # methods that no use of an instance calls


class Watch:
    """What a function and static arguments close over, as it is now: variables, defaults, parts of containers, arrays bit by bit, code.

    Functions that the code calls are followed, and members of objects. Of attributes those count that any of these functions mentions;
    all where names are computed, or the class is an installed one. What else installed packages have is taken for constant.
    """

    def __init__(self, function, values=()):
        self.names: dict[str, None] = {}  # that functions mention, in order
        known = -1
        while len(self.names) > known:  # functions that are found mention other names
            known = len(self.names)
            self.places: list[Any] = []  # (get, key, held): get(key) is to be held
            self.arrays: list[Any] = []  # (array, a copy of it)
            self.generators = []  # of random numbers: (name, generator)
            self.absent = []  # modules that functions import when they are called
            self.seen = set()
            for value in (function, *values):
                self.look(value)
        self.arrays = [(array, array.copy()) for array, _ in self.arrays]
        self.quick, self.slow = [], self.places

    def settle(self) -> bool:
        """Leave out what has changed since, and return whether anything has: the function changes it itself, as counters and logs."""
        before = len(self.places) + len(self.arrays)
        self.places = [place for place in self.places if holds(place)]
        self.arrays = [pair for pair in self.arrays if same_arrays(*pair)]
        left_out = len(self.places) + len(self.arrays) < before
        count = len(self.arrays)
        for name in self.absent:
            self.module(name)
        self.arrays[count:] = [(array, array.copy()) for array, _ in self.arrays[count:]]
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

    def place(self, get, key, depth=0):
        """Watch one place, and what is there."""
        try:
            held = get(key)
        except (LookupError, AttributeError, ValueError):  # not yet bound
            held = ABSENT
        self.places.append((get, key, held))
        if held is not ABSENT:
            self.look(held, depth)

    def look(self, value, depth=0):
        """Watch what a value holds."""
        kind = type(value)
        self.generators += generators_of(value, self.names).items()
        if kind in ATOMS or issubclass(kind, np.generic | np.ufunc) or installed(value) or id(value) in self.seen:
            return
        self.seen.add(id(value))
        if kind is BuiltinFunctionType or kind is MethodWrapperType:  # table.get, table.__getitem__
            if not isinstance(value.__self__, ModuleType | type | None):
                self.look(value.__self__, depth)
        elif kind is FunctionType:
            self.function(value)
        elif issubclass(kind, np.ndarray):
            if value.dtype == object:
                self.at_once(value, lambda held: held.ravel().tolist(), depth)
            elif not value.dtype.hasobject and (value.nbytes <= MEMORY_BYTES // 16 or (not depth and not issubclass(kind, np.memmap))):
                self.arrays.append((value, None))
        elif kind is tuple:  # which holds what it holds
            for part in value[: WATCHED_LENGTH + 1]:
                self.look(part, depth)
        elif kind in MAPPINGS or kind in SEQUENCES or kind in SETS:
            self.container(value, kind, depth)
        elif kind is MethodType:
            self.look(value.__func__)
            self.look(value.__self__, depth)
        elif kind is partial:
            for part in (value.func, value.args, value.keywords):
                self.look(part, depth)
        elif kind in BYTES:
            self.place(bytes, value)
        elif isinstance(value, IOBase):
            self.place(position, value)
        elif kind is attrgetter:
            self.names |= dict.fromkeys(named_by(value))
        elif kind is ContextVar:
            self.place(value.get, ABSENT)
        elif kind is ReferenceType:
            self.place(ReferenceType.__call__, value)
        elif kind is np.flatiter:
            self.look(value.base)
        elif isinstance(value, ModuleType):
            space = vars(value)
            for name in tuple(self.names):
                if name in space:
                    self.place(space.__getitem__, name)
        elif isinstance(value, type):
            self.members(value, value)
        else:
            base = next((base for base in PARTS if isinstance(value, base)), None)
            if base is not None:  # of a class of its own
                self.at_once(value, PARTS[base], depth)
            self.attributes(value, depth)

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
            self.place(get, key, depth)

    def at_once(self, value, parts_in, depth):
        """Watch all elements of a container, unless there are very many."""
        parts = parts_in(value)
        if len(parts) > 2 * WATCHED_LENGTH:
            return
        self.places.append((lambda held: same_parts(parts_in(held), parts), value, True))
        for part in parts:
            if type(part) not in ATOMS:
                self.look(part, depth)

    def function(self, function):
        """Watch a function, and what it closes over."""
        code = function.__code__
        if owner(code.co_filename):  # grad(f) and other wrappers: what they wrap may be the user's
            found = list(vars(function).values())
            for cell in function.__closure__ or ():
                with suppress(ValueError):  # not yet bound
                    held = cell.cell_contents
                    found += held.values() if type(held) is dict else (held,)
            for part in found:
                if callable(part):
                    self.look(part)
            return
        names = mentioned(code)
        self.names |= dict.fromkeys(names)
        self.places.append((partial(getattr, function), "__code__", code))  # autoreload replaces it
        for part in ("__defaults__", "__kwdefaults__"):
            if getattr(function, part):
                self.place(partial(getattr, function), part)
        for cell in function.__closure__ or ():
            self.place(partial(getattr, cell), "cell_contents")
        for name in names:
            if name in function.__globals__:
                self.place(function.__globals__.__getitem__, name)
            elif hasattr(builtins, name):
                self.places.append((function.__globals__.__contains__, name, False))
            if name in vars(function):
                self.place(vars(function).__getitem__, name)
        for name in imported(code, function.__globals__.get("__package__")):
            if name in sys.modules:
                self.module(name)
            else:
                self.absent.append(name)

    def module(self, name):
        """Watch a module that a function imports when it is called."""
        if name in sys.modules and not installed(sys.modules[name]):
            self.place(sys.modules.__getitem__, name)

    def count(self, space):
        """Watch how many attributes there are: a new one may hide one of a class, or be what the code asks for."""
        if ("count", id(space)) not in self.seen:
            self.seen.add(("count", id(space)))
            self.places.append((len, space, len(space)))

    def attributes(self, value, depth):
        """Watch attributes of an object: those that are mentioned, and all where code reads them that is not looked at."""
        cls, held, names = type(value), getattr_static(value, "__dict__"), dict(self.names)
        if held is not None and "__wrapped__" in held:
            self.look(held["__wrapped__"])
        if isinstance(value, local):
            held = vars(value)
        if installed(cls):
            if depth == WATCHED_DEPTH or cls.__module__.partition(".")[0] in OURS:
                return
            names, depth = dict.fromkeys(held or ()), depth + 1
        elif not COMPUTED.isdisjoint(names) or any(map(installed, cls.__mro__[1:-1])):
            names |= dict.fromkeys(held or ())
        if held is not None:
            self.count(held)
            get = partial(getattr, value) if isinstance(value, local) else held.__getitem__  # which are those of a thread
            for name in names:
                if type(name) is str and name in held:
                    self.place(get, name, depth)
        for space in map(vars, cls.__mro__[:-1]):
            for name, slot in space.items():
                if type(slot) is MemberDescriptorType and (name in names or installed(cls)):  # of __slots__, set or not
                    self.place(slot.__get__, value, depth)
        if not installed(cls):
            self.places.append((type, value, cls))
            self.look(cls)
            self.members(cls, value)

    def members(self, cls, value):
        """Watch members of a class that are mentioned, and special ones, of which no use of an instance calls some."""
        if value is cls:
            self.places.append((partial(getattr, cls), "__mro__", cls.__mro__))
            self.look(type(cls))
        for space in map(vars, cls.__mro__[:-1]):
            if value is cls and not installed(cls):
                self.count(space)
            for name, member in list(space.items()):
                special = name.startswith("__") and code_behind(member) is not None and (value is cls or name not in WHEN_MADE)
                if (special or name in self.names) and type(member) is not MemberDescriptorType:
                    self.place(space.__getitem__, name)
                    function = code_behind(member)
                    if function is not None and not owner(function.__code__.co_filename):
                        self.look(function)


def position(file):
    """Return the place in a file that was read or written last, None where there is none."""
    with suppress(OSError, ValueError):  # a pipe, a closed file
        return file.tell()


def named_by(getter):
    """Return the names of the attributes that an `operator.attrgetter` reads."""
    return [name for path in getter.__reduce__()[1] for name in path.split(".")]


def getattr_static(value, name):
    """Return an attribute of an object without calling code of its class, None if there is none."""
    try:
        return object.__getattribute__(value, name)
    except (AttributeError, TypeError):
        return None


def code_behind(member):
    """Return the function that runs where a member of a class is used, None if there is none."""
    if isinstance(member, property):
        member = member.fget
    elif isinstance(member, classmethod | staticmethod):
        member = member.__func__
    elif isinstance(member, cached_property):
        member = member.func
    elif type(member) is not FunctionType:
        member = getattr(type(member), "__get__", None)
    return member if type(member) is FunctionType else None


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


def installed(value):
    """Return whether a module or class is of NumPy, Python or another package that is no work in progress."""
    if isinstance(value, type):
        value = sys.modules.get(value.__module__, np)
    return (
        isinstance(value, ModuleType)
        and owner(getattr(value, "__file__", None) or "<frozen") != ""
        and (hasattr(value, "__file__") or value.__name__ in sys.builtin_module_names)
    )


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
    try:
        now = get(key)
    except (LookupError, AttributeError, ValueError):
        now = ABSENT
    return now is held or same(now, held)


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
    instructions = list(dis.get_instructions(code))
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
