"""Watch: what a compiled function reads besides its arguments: has it changed since it was traced?"""

from __future__ import annotations

import builtins
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from contextlib import suppress
from functools import cached_property, lru_cache, partial
from operator import is_
from struct import Struct
from types import BuiltinFunctionType, CodeType, FunctionType, MemberDescriptorType, MethodType, ModuleType

import numpy as np

from .impure import ELSEWHERE, generators_of

__all__ = ["LONGEST", "Watch"]

LONG, LONGEST = 100, 5000  # containers whose elements are compared at once, and those of which the length alone is looked at
SMALL = 2**16  # bytes of an array that is compared at once
BITS = Struct("dd").pack
ATOMS = (float, int, bool, complex, str, bytes, type(None))
ABSENT = object()  # what a place holds that holds nothing
MAPPINGS, SEQUENCES, SETS = (dict, OrderedDict, defaultdict, Counter), (list, deque), (set, frozenset)
WHEN_MADE = ("__init__", "__new__", "__post_init__")  # methods that no use of an instance calls


class Watch:
    """The data that a function closes over, as it is now.

    Looked at are variables of enclosing functions and global ones that the code names, default values, bound and partial arguments,
    attributes that the code names (of objects, classes and modules), the elements of containers, and arrays bit by bit; functions
    that the code calls are followed, and so are methods, properties and special methods of objects. What belongs to installed packages
    is taken for constant.

    Parameters
    ----------
    function : the function.
    values : static arguments, looked at in the same way.
    """

    def __init__(self, function, values=()):
        self.places = []  # (get, key, held): get(key) is to be held
        self.arrays = []  # (array, a copy of it)
        self.generators = []  # of random numbers: (name, generator)
        self.seen = set()
        self.look(function, ())
        for value in values:
            self.look(value, mentioned(getattr(function, "__code__", None)))
        self.bare = False

    def settle(self):
        """Leave out what has changed since: the function changes it itself, as counters and logs."""
        self.places = [place for place in self.places if holds(place)]
        self.arrays = [pair for pair in self.arrays if same_bits(*pair)]
        self.bare = not self.places and not self.arrays

    def fresh(self) -> bool:
        """Return whether nothing has changed."""
        for get, key, held in self.places:
            try:
                now = get(key)
            except (LookupError, AttributeError, ValueError):
                now = ABSENT
            if now is not held and not same(now, held):
                return False
        return all(same_bits(array, copy) for array, copy in self.arrays)

    # --- the look -----------------------------------------------------------------------------------------------------------

    def place(self, get, key, names):
        """Watch one place, and what is there."""
        try:
            held = get(key)
        except (LookupError, AttributeError, ValueError):  # not yet bound
            held = ABSENT
        self.places.append((get, key, held))
        if held is not ABSENT:
            self.look(held, names)

    def look(self, value, names):
        """Watch what a value holds; of an object's attributes, those with these names count."""
        kind = type(value)
        self.generators += generators_of(value, names).items()
        if kind in ATOMS or issubclass(type(value), np.generic | BuiltinFunctionType | np.ufunc) or installed(value):
            return
        key = id(value), names
        if key in self.seen:
            return
        self.seen.add(key)
        if kind is FunctionType:
            self.function(value)
        elif issubclass(type(value), np.ndarray):
            if not value.dtype.hasobject and not isinstance(value, np.memmap):
                self.arrays.append((value, value.copy()))
        elif kind is tuple:  # which holds what it holds
            for part in value[: LONGEST + 1]:
                self.look(part, names)
        elif kind in MAPPINGS or kind in SEQUENCES or kind in SETS:
            self.container(value, kind, names)
        elif kind is MethodType:
            self.look(value.__func__, ())
            self.look(value.__self__, mentioned(getattr(value.__func__, "__code__", None)))
        elif kind is partial:
            for part in (value.func, value.args, value.keywords):
                self.look(part, names)
        elif isinstance(value, type | ModuleType):
            for space in map(vars, value.__mro__[:-1] if isinstance(value, type) else (value,)):
                for name in names:
                    if name in space and (isinstance(value, ModuleType) or not hasattr(space[name], "__get__")):
                        self.place(space.__getitem__, name, names)
            if isinstance(value, type):
                for space in map(vars, value.__mro__[:-1]):
                    self.count(space)
                self.members(value, value, names)
        else:
            self.attributes(value, names)

    def container(self, value, kind, names):
        """Watch the elements of a container: one by one, of a long one at once, of a very long one how many there are."""
        self.places.append((len, value, len(value)))
        if len(value) > LONGEST:
            return
        if kind not in SETS and len(value) <= LONG:
            if kind in MAPPINGS:  # whose order counts, too
                self.places.append((partial(same_order, list(value)), value, True))
            get = partial(without_default, value) if hasattr(kind, "__missing__") else value.__getitem__
            for key in list(value) if kind in MAPPINGS else range(len(value)):
                self.place(get, key, names)
            return
        parts = parts_of(value)
        self.places.append((lambda held: same_parts(parts_of(held), parts), value, True))
        for part in parts:
            if type(part) not in ATOMS:
                self.look(part, names)

    def function(self, function):
        """Watch what a function closes over."""
        code = function.__code__
        if code.co_filename.startswith(ELSEWHERE):  # grad(f) and other wrappers: what they wrap may be the user's
            for cell in function.__closure__ or ():
                with suppress(ValueError):  # not yet bound
                    if callable(cell.cell_contents):
                        self.look(cell.cell_contents, ())
            return
        names = mentioned(code)
        for cell in function.__closure__ or ():
            self.place(partial(getattr, cell), "cell_contents", names)
        for name in names:
            if name in function.__globals__:
                self.place(function.__globals__.__getitem__, name, names)
            elif hasattr(builtins, name):
                self.places.append((function.__globals__.__contains__, name, False))
        for part in (function.__defaults__, function.__kwdefaults__):
            if part:
                self.look(part, names)

    def count(self, space):
        """Watch how many attributes there are: a new one may hide one of a class, or be what the code asks for."""
        if ("count", id(space)) not in self.seen:
            self.seen.add(("count", id(space)))
            self.places.append((len, space, len(space)))

    def attributes(self, value, names):
        """Watch attributes of an object, and what its methods of these names, and special ones, read."""
        held = getattr_static(value, "__dict__")
        if held is not None:
            self.count(held)
        for name in names:
            if held is not None and name in held:
                self.place(held.__getitem__, name, names)
            elif type(slot := getattr(type(value), name, None)) is MemberDescriptorType:  # of __slots__, set or not
                self.place(slot.__get__, value, names)
        if held is not None and "__wrapped__" in held:
            self.look(held["__wrapped__"], ())
        self.look(type(value), names)
        if not installed(type(value)):
            self.members(type(value), value, names)

    def members(self, cls, value, names):
        """Watch what methods, properties and descriptors of a class read, of these names and special ones: of the class or an instance."""
        for space in map(vars, cls.__mro__[:-1]):
            for name, member in list(space.items()):
                special = name.startswith("__") and (value is cls or name not in WHEN_MADE)
                function = code_behind(member) if special or name in names else None
                if function is not None and not function.__code__.co_filename.startswith(ELSEWHERE):
                    self.look(function, ())
                    inner = mentioned(function.__code__)
                    if (id(value), inner) not in self.seen:
                        self.look(value, inner)


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
        and (getattr(value, "__file__", None) or "<frozen").startswith(ELSEWHERE)
        and (hasattr(value, "__file__") or value.__name__ in sys.builtin_module_names)
    )


def holds(place):
    """Return whether a place holds what it did."""
    get, key, held = place
    try:
        now = get(key)
    except (LookupError, AttributeError, ValueError):
        now = ABSENT
    return now is held or same(now, held)


def same_bits(array, copy):
    """Return whether an array holds the same bits as its copy."""
    if array.shape != copy.shape or array.dtype != copy.dtype:
        return False
    if array.nbytes > SMALL and array.flags.c_contiguous and copy.flags.c_contiguous:
        word = np.int64 if array.nbytes % 8 == 0 else np.uint8
        return bool((array.reshape(-1).view(word) == copy.reshape(-1).view(word)).all())
    return array.tobytes() == copy.tobytes()


@lru_cache(maxsize=512)
def mentioned(code) -> tuple[str, ...]:
    """Return the names that globals and attributes may have in a function's code, and in the functions that it defines."""
    if code is None:
        return ()
    inner = [name for constant in code.co_consts if isinstance(constant, CodeType) for name in mentioned(constant)]
    texts = [text for text in code.co_consts if type(text) is str and text.isidentifier()]  # getattr(x, "a"), vars(x)["a"]
    return tuple(dict.fromkeys((*code.co_names, *texts, *inner)))
