"""The arguments of a call of a compiled function: leaves that are traced, and what is compiled in."""

from functools import lru_cache, partial
from typing import Any

import numpy as np
import optree

from ..core.dispatch import array, holds_traced
from ..core.levels import Handle
from ..core.traced import Traced, example_of
from ..graph.program import Kind, Value, key_of, kind_of, plain_kind
from ..rules.calling import signature

FLAT = {np.ndarray, float, int}
SMALLEST, LARGEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


class Call:
    """The arguments of one call: traced leaves, static ones, and the key of their kinds."""

    def __init__(self, jitted, args, kwargs):
        self.f, self.where, self.count, self.abstract = jitted.f, jitted.__name__, len(args), False
        self.fixed = self.static(jitted, args, kwargs) if jitted.static_argnums or jitted.static_argnames else {}
        moving: Any = {key: arg for key, arg in (*enumerate(args), *kwargs.items()) if key not in self.fixed}
        self.moving = moving
        leaves, self.structure = optree.tree_flatten(moving)
        orders = key_orders(moving, kwargs if kwargs and names_keywords(jitted.f) else ())
        self.leaves, self.kinds, self.slots, self.traced, key = [], [], [], False, []
        for i, leaf in enumerate(leaves):
            kind = plain_kind(leaf)
            if kind is None:
                if type(leaf) is np.ndarray and leaf.dtype == object and holds_traced(leaf):
                    leaf = array(leaf)
                kind, leaf = self.kind(leaf, i), native(leaf)
                self.traced = self.traced or isinstance(leaf, Handle)
            self.slots.append(leaf if kind is None else Value)
            if kind is not None:
                self.leaves.append(leaf)
                self.kinds.append(kind)
            key.append(kind or (type(leaf), leaf))
        try:
            self.key = self.structure, orders, tuple(key), tuple((name, exact(value)) for name, value in self.fixed.items())
            hash(self.key)
        except TypeError:
            raise TypeError(f"jit: a static argument of {self.where} is not hashable: {list(self.fixed.values())!r}") from None

    def static(self, jitted, args, kwargs):
        """Return the arguments that are declared static, by position or name."""
        named = jitted.static_argnames
        fixed = {i % len(args) for i in jitted.static_argnums if -len(args) <= i < len(args)}
        if named:
            fixed |= {i for i, name in enumerate(positional_names(jitted.f)[: len(args)]) if name in named}
        return {i: args[i] for i in fixed} | {name: value for name, value in kwargs.items() if name in named}

    def named(self, i):
        """Return the leaf `i` as messages name it."""
        first, *rest = optree.tree_paths(self.moving)[i]
        return f"{self.where}: argument {first!r}" + "".join(f"[{part!r}]" for part in rest)

    def kind(self, leaf, i):
        """Return what the program depends on of a leaf, None of one that is compiled in."""
        kind = type(leaf)
        if isinstance(leaf, Traced):
            bottom, level = leaf, leaf.level
            while isinstance(bottom, Traced):
                bottom._refresh()
                level = bottom.level
                if level.abstract:
                    self.abstract = True
                    return Kind((), leaf.dtype, "symbol")
                bottom = bottom.primal
            told = "python" if level.weak else "scalar"
            kind = kind_of(bottom, strides=True)
            return Kind(leaf.shape, native_dtype(leaf.dtype), told if type(bottom) is float else kind.kind, kind.layout)
        if issubclass(type(leaf), np.ndarray | np.generic):
            if isinstance(leaf, np.ma.MaskedArray | np.matrix):
                raise TypeError(f"jit: {self.named(i)} is a {kind.__name__}: pass a plain array (np.asarray)")
            dtype = leaf.dtype
            if dtype.kind not in "biufc":
                raise TypeError(f"jit: {self.named(i)} has dtype {dtype}, which a program cannot hold: pass numbers")
            return kind_of(leaf, strides=True)._replace(dtype=native_dtype(dtype))
        if kind in (float, int, complex):
            if kind is int and not SMALLEST <= leaf <= LARGEST:  # which Python has, and no program
                self.abstract = True
            return kind_of(leaf)
        if kind is bool or isinstance(leaf, str | bytes | type | np.dtype) or callable(leaf) or leaf is ...:
            return None
        raise TypeError(
            f"jit: {self.named(i)} is a {kind.__name__}, neither array nor number: register its class with "
            f"dualad.register_dataclass, or declare the argument static (jit(f, static_argnames=...))"
        )

    def arguments(self, symbols):
        """Return the arguments with these leaves in the places of the traced ones."""
        symbols = iter(symbols)
        moving = optree.tree_unflatten(self.structure, [next(symbols) if slot is Value else slot for slot in self.slots])
        given = {**self.fixed, **moving}
        return [given[i] for i in range(self.count)], {name: value for name, value in given.items() if isinstance(name, str)}

    def examples(self):
        """Return plain values of the leaves."""
        return [
            np.float64(example) if kind.kind == "scalar" and type(example := example_of(leaf)) is float else example_of(leaf)
            for leaf, kind in zip(self.leaves, self.kinds, strict=True)
        ]


def key_orders(moving, kwargs):
    """Return the order of the keys of all dicts among the arguments, and of keywords: equal structures may differ in it."""
    orders = [tuple(kwargs)]

    def note(key, node):
        if isinstance(node, dict):
            orders.append((key, *node))
        return False

    for key, arg in moving.items():
        if type(arg) not in FLAT:
            optree.tree_flatten(arg, is_leaf=partial(note, key))
    return tuple(orders)


def native(x):
    """Return a value, of an array in the byte order of the machine, without the class of memory maps."""
    if not issubclass(type(x), np.ndarray | Handle):
        return x
    x = np.asarray(x) if issubclass(type(x), np.ndarray) else x
    return x if x.dtype.isnative else x.astype(native_dtype(x.dtype))


def native_dtype(dtype):
    """Return a dtype in the byte order of the machine."""
    return dtype if dtype.isnative else dtype.newbyteorder("=")


def exact(value):
    """Return a key of a static argument: equal ones are of one type, -0.0 differs from 0.0, also in tuples."""
    kind = type(value)
    return (tuple, *map(exact, value)) if kind is tuple else key_of(value) if kind in (float, complex) else (kind, value)


def names_keywords(f):
    """Return whether a function sees the order in which keywords are given (``**options``), or may."""
    parameters = signature(f).parameters.values()
    return not parameters or any(p.kind is p.VAR_KEYWORD for p in parameters)


@lru_cache(maxsize=1024)
def positional_names(f):
    """Return the names of a function's positional parameters, those of what it wraps."""
    return [p.name for p in signature(f).parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
