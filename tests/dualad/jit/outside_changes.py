"""Ways to change what a function reads besides its arguments: each a function that returns ``f(x)`` and the change."""

import array
import operator
import os
import sys
import threading
import types
import weakref
from collections import ChainMap, Counter, OrderedDict, UserDict, UserList, defaultdict, deque, namedtuple
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property, partial, reduce
from itertools import count

import numpy as np

CASES = {}
names = (f"dualad_outside_{k}" for k in count())


def module(**held):
    made = types.ModuleType(next(names))
    vars(made).update(held)
    sys.modules[made.__name__] = made
    return made


class Config:
    a = 2.0

    def __init__(self, **held):
        vars(self).update(held)


def table_case(name, make, change, read):
    """Enter a case: what is read, how it is changed, how it is read."""

    def made():
        held = make()

        def f(x):
            return x * read(held)

        return f, lambda: change(held)

    CASES[name] = made


def item(key):
    return lambda held: held[key]


def setting(key, value=5.0):
    return lambda held: operator.setitem(held, key, value)


def helper_a(held):
    return held.a


def put(name="a", value=5.0):
    return lambda held: setattr(held, name, value)


Point = namedtuple("Point", "a b")


class Table(dict):
    pass


class Missing(dict):
    def __missing__(self, key):
        return self["b"]


class Attributes(dict):
    __getattr__ = dict.__getitem__


class Own(list):
    pass


class Suffixed(dict):
    def __getitem__(self, key):
        return dict.__getitem__(self, key + "_")


class Slots:
    __slots__ = ("a",)

    def __init__(self, a):
        self.a = a


class Keeping:
    kept = None

    def __init__(self, a):
        self.held = a

    def table(self):
        if self.kept is None:
            self.kept = np.full(3, self.held)
        return self.kept


class Holder:
    def __init__(self, a):
        self.held = a

    @cached_property
    def a(self):
        return self.held

    @property
    def twice(self):
        return 2.0 * self.held

    def __call__(self):
        return self.held

    def __float__(self):
        return self.held

    def __len__(self):
        return int(self.held)

    def __mul__(self, x):
        return x * self.held


class Level(Enum):
    LOW = 2.0


@dataclass
class Inner:
    a: float = 2.0


@dataclass
class Outer:
    inner: Inner = field(default_factory=Inner)


@dataclass(frozen=True)
class Frozen:
    held: list


A, L = np.array([2.0, 3.0, 4.0]), [2.0, 3.0]
fill = operator.methodcaller("fill", 5.0)

for name, (make, change, read) in {
    # arrays
    "array": (A.copy, setting(0), lambda held: held),
    "array, one element": (A.copy, setting(0), item(0)),
    "array, view": (lambda: (a := A.copy(), a[::-1]), lambda held: fill(held[0]), item(1)),
    "array of no axes": (lambda: np.array(2.0), lambda held: held.fill(5.0), lambda held: held[()]),
    "array, Fortran": (lambda: np.asfortranarray(np.ones((3, 3))), fill, lambda held: held.sum(0)),
    "array, large": (lambda: np.ones(100_000), setting(99_999), lambda held: held.max()),
    "array, -0.0": (lambda: np.array([0.0]), setting(0, -0.0), lambda held: np.copysign(2.0, held[0]) + 3.0),
    "array of bits": (lambda: np.array([True, False, True]), setting(1, True), lambda held: np.where(held, 1.0, 2.0)),
    "array of objects": (lambda: np.array([2.0, None], object), setting(0), item(0)),
    "array of arrays": (lambda: np.array([A.copy(), None], object), lambda held: fill(held[0]), item(0)),
    "array with fields": (lambda: np.zeros(2, [("a", float)]), lambda held: fill(held["a"]), lambda held: held["a"][0] + 1.0),
    "array with a name": (lambda: np.rec.array([(2.0,)], dtype=[("a", float)]), lambda held: fill(held["a"]), lambda held: held["a"][0]),
    "array of its own class": (lambda: A.view(type("Own", (np.ndarray,), {})).copy(), setting(0), lambda held: np.asarray(held)[0]),
    "array, masked": (lambda: np.ma.array(A.copy(), mask=[0, 0, 1]), setting(0), lambda held: float(held[0])),
    "array in a list": (lambda: [A.copy()], lambda held: fill(held[0]), item(0)),
    "tuple of a list, in a tuple": (lambda: ((2.0, [2.0]),), lambda held: operator.setitem(held[0][1], 0, 5.0), lambda held: held[0][1][0]),
    "array in an object": (lambda: Config(a=A.copy()), lambda held: fill(held.a), lambda held: held.a),
    "memory map": (lambda: mapped(), setting(0), lambda held: np.asarray(held)[0]),
    "array.array": (lambda: array.array("d", L), setting(0), item(0)),
    "bytearray": (lambda: bytearray(b"\x02"), setting(0, 5), item(0)),
    "memoryview": (lambda: memoryview(bytearray(b"\x02")), setting(0, 5), item(0)),
    # containers
    "list": (L.copy, setting(0), item(0)),
    "list, appended": (L.copy, lambda held: held.append(1.0), sum),
    "list, long": (lambda: [2.0] * 500, setting(400), item(400)),
    "list, very long": (lambda: [2.0] * 6000, setting(4000), item(4000)),
    "list of arrays, long": (lambda: [np.ones(2) for _ in range(200)], lambda held: fill(held[150]), lambda held: held[150][1]),
    "list in a list": (lambda: [[2.0]], lambda held: operator.setitem(held[0], 0, 5.0), lambda held: held[0][0]),
    "list of a class of its own": (lambda: Own(L), setting(0), item(0)),
    "dict": (lambda: {"a": 2.0}, setting("a"), item("a")),
    "dict, get": (lambda: {"a": 2.0}, setting("a"), lambda held: held.get("a", 1.0)),
    "dict, new key": (lambda: {"b": 2.0}, setting("a"), lambda held: held.get("a", 1.0)),
    "dict, order": (lambda: {"a": 2.0, "b": 3.0}, lambda held: held.update(a=held.pop("a")), lambda held: next(iter(held.values()))),
    "dict of a class of its own": (lambda: Table(a=2.0), setting("a"), item("a")),
    "dict with __missing__": (lambda: Missing(b=2.0), setting("b"), item("a")),
    "dict with attributes": (lambda: Attributes(a=2.0), setting("a"), lambda held: held.a),
    "dict with computed keys": (lambda: Suffixed(a_=2.0), setting("a_"), item("a")),
    "OrderedDict": (lambda: OrderedDict(a=2.0), setting("a"), item("a")),
    "OrderedDict, moved": (lambda: OrderedDict(a=2.0, b=3.0), lambda held: held.move_to_end("a"), lambda held: next(iter(held.values()))),
    "defaultdict": (lambda: defaultdict(float, a=2.0), setting("a"), item("a")),
    "Counter": (lambda: Counter(a=2), setting("a", 5), item("a")),
    "deque": (lambda: deque(L), setting(0), item(0)),
    "set": (lambda: {2.0}, lambda held: held.add(5.0), max),
    "frozenset in a list": (lambda: [frozenset({2.0})], setting(0, frozenset({5.0})), lambda held: max(held[0])),
    "UserDict": (lambda: UserDict(a=2.0), setting("a"), item("a")),
    "UserList": (lambda: UserList(L), setting(0), item(0)),
    "ChainMap": (lambda: ChainMap({}, {"a": 2.0}), lambda held: operator.setitem(held.maps[1], "a", 5.0), item("a")),
    "ChainMap, in front": (lambda: ChainMap({}, {"a": 2.0}), setting("a"), item("a")),
    "mapping proxy": (lambda: (d := {"a": 2.0}, types.MappingProxyType(d)), lambda held: held[0].update(a=5.0), lambda held: held[1]["a"]),
    "named tuple, an array": (lambda: Point(A.copy(), 1.0), lambda held: fill(held.a), lambda held: held.a),
    "named tuple, an object": (lambda: Point(Config(a=2.0), 1.0), lambda held: put()(held.a), lambda held: held.a.a),
    "named tuple, a list": (lambda: Point([2.0], 1.0), lambda held: held.a.append(1.0), lambda held: sum(held.a)),
    "weak dict": (
        lambda: (c := Config(), weakref.WeakKeyDictionary({c: 2.0})),
        lambda held: held[1].update({held[0]: 5.0}),
        lambda held: held[1][held[0]],
    ),
    "reference": (lambda: (c := Config(a=2.0), weakref.ref(c)), lambda held: put()(held[0]), lambda held: held[1]().a),
    # objects
    "attribute": (lambda: Config(a=2.0), put(), lambda held: held.a),
    "attribute that hides one of the class": (Config, put(), lambda held: held.a),
    "attribute, new": (lambda: Config(b=1.0), put("c"), lambda held: getattr(held, "c", 2.0)),
    "attribute of an attribute": (lambda: Config(b=Config(a=2.0)), lambda held: put()(held.b), lambda held: held.b.a),
    "attribute, by a name in a variable": (lambda: Config(a=2.0), put(), lambda held: sum(getattr(held, name) for name in ("a",))),
    "attribute, computed name": (lambda: Config(a_1=2.0), put("a_1"), lambda held: getattr(held, f"a_{1}")),
    "attribute, by an attrgetter made before": (
        lambda: (Config(ab=Config(cd=2.0)), operator.attrgetter("".join(["ab", ".cd"]))),
        lambda held: setattr(held[0].ab, "cd", 5.0),
        lambda held: held[1](held[0]),
    ),
    "attribute, by attrgetter": (lambda: Config(ab=2.0), put("ab"), lambda held: operator.attrgetter("".join("ab"))(held)),
    "attribute, by a helper": (lambda: Config(a=2.0), put(), lambda held: helper_a(held)),
    "attribute, of what a function returns": (
        lambda: (c := Config(a=2.0), lambda: c),
        lambda held: put()(held[0]),
        lambda held: helper_a(held[1]()),
    ),
    "attributes of a list of objects": (lambda: [Config(a=2.0)], lambda held: put()(held[0]), lambda held: sum(map(helper_a, held))),
    "attributes of a dict of objects": (
        lambda: {1: Config(a=2.0)},
        lambda held: put()(held[1]),
        lambda held: reduce(lambda s, c: s + c.a, held.values(), 0.0),
    ),
    "slot": (lambda: Slots(2.0), put(), lambda held: held.a),
    "kept by the first call": (lambda: Keeping(2.0), lambda held: fill(held.kept), lambda held: held.table()[0]),
    "kept by the first call, set": (lambda: Keeping(2.0), put("kept", [5.0]), lambda held: held.table()[0]),
    "cached property, kept by the first call": (lambda: Holder(2.0), lambda held: vars(held).update(a=5.0), lambda held: held.a),
    "property": (lambda: Holder(2.0), put("held"), lambda held: held.twice),
    "cached property": (lambda: Holder(2.0), lambda held: vars(held).update(a=5.0, held=5.0), lambda held: held.a),
    "callable object": (lambda: Holder(2.0), put("held"), lambda held: held()),
    "__float__": (lambda: Holder(2.0), put("held"), float),
    "__len__": (lambda: Holder(2.0), put("held"), len),
    "__mul__": (lambda: Holder(2.0), put("held"), lambda held: held * 1.0),
    "namespace": (lambda: types.SimpleNamespace(a=2.0), put(), lambda held: held.a),
    "namespace, computed name": (lambda: types.SimpleNamespace(ab=2.0), put("ab"), lambda held: getattr(held, "".join("ab"))),
    "dataclass": (Inner, put(), lambda held: held.a),
    "dataclass in a dataclass": (Outer, lambda held: put()(held.inner), lambda held: helper_a(held.inner)),
    "dataclass, frozen": (lambda: Frozen([2.0]), lambda held: operator.setitem(held.held, 0, 5.0), lambda held: held.held[0]),
    "partial": (lambda: (c := Config(a=2.0), partial(helper_a, c)), lambda held: put()(held[0]), lambda held: held[1]()),
    "bound method of a dict": (lambda: (d := {"a": 2.0}, d.get), lambda held: held[0].update(a=5.0), lambda held: held[1]("a")),
    "bound method of a list": (lambda: (d := [2.0], d.__getitem__), lambda held: setting(0)(held[0]), lambda held: held[1](0)),
    "bound method of an array": (lambda: (a := A.copy(), a.sum), lambda held: fill(held[0]), lambda held: held[1]()),
    "bound method of a deque": (lambda: (d := deque([2.0]), d.__getitem__), lambda held: setting(0)(held[0]), lambda held: held[1](0)),
    "bound method of an object": (lambda: (c := Holder(2.0), c.__call__), lambda held: put("held")(held[0]), lambda held: held[1]()),
    "context variable": (lambda: made_variable(2.0), lambda held: held.set(5.0), lambda held: held.get()),
    "context variable, default": (lambda: ContextVar("v", default=2.0), lambda held: held.set(5.0), lambda held: held.get()),
    "thread local": (lambda: made_local(2.0), put(), lambda held: held.a),
    "module": (lambda: module(a=2.0), put(), lambda held: held.a),
    "module, an array": (lambda: module(a=A.copy()), lambda held: fill(held.a), lambda held: held.a),
    "module, a function": (lambda: module(a=lambda: 2.0), put("a", lambda: 5.0), lambda held: held.a()),
    "environment": (lambda: None, lambda _: os.environ.update(DUALAD_OUTSIDE="5"), lambda _: float(os.environ.get("DUALAD_OUTSIDE", "2"))),
    "keys of an iterator": (lambda: {"a": 2.0}, setting("a"), lambda held: sum(map(held.__getitem__, ["a"]))),
    # of NumPy and SciPy
    "poly1d": (lambda: np.poly1d([2.0, 1.0]), setting(1), lambda held: held(1.0)),
    "iterator of arrays": (
        lambda: np.nditer(A.copy(), op_flags=["readwrite"]),
        lambda held: setting(0)(held.operands[0]),
        lambda held: held.operands[0][0],
    ),
    "flat iterator": (lambda: A.copy().flat, setting(0), item(0)),
}.items():
    table_case(name, make, change, read)


def mapped():
    import tempfile

    with tempfile.NamedTemporaryFile() as file:
        a = np.memmap(file.name, float, "w+", shape=(3,))
        a[:] = 2.0
        return a


def made_variable(value):
    made = ContextVar("v")
    made.set(value)
    return made


def made_local(value):
    made = threading.local()
    made.a = value
    return made
