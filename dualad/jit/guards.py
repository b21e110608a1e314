"""Guards: the fast path from the arguments of a call to the program that was traced for their kinds.

A guard is written out once a program is made: it tests that arguments are of the kinds the program was traced for, takes their leaves
apart, runs the program, and puts the result together. Where a test fails it returns `MISS`, and the call goes the long way.
"""

from __future__ import annotations

from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np
import optree

from ..graph.program import kind_of
from ..support.sources import define
from .arguments import exact, names_keywords

MISS = object()
NUMBERS = (float, int, complex)
ATOMS = (bool, type(None), type(...))
CONSTANTS = (str, bytes, FunctionType, BuiltinFunctionType, type, np.ufunc)


class Unguarded(Exception):
    """Arguments or results of these classes go the long way."""


def guard_of(call, args, kwargs, entry, flat=False) -> Callable | None:
    """Return the guard ``(args, kwargs) -> result or MISS`` of the program of a call, None where there is none.

    With `flat` it is ``(args, kwargs, into) -> result or MISS``, of all results in one flat array.
    """
    writer = Writer()
    try:
        writer.arguments(call, args, kwargs)
        names, results = list[str](), []
        for structure in entry.structures:
            own = [f"y{len(names) + k}" for k in range(structure.num_leaves)]
            names += own
            results.append(writer.result(optree.tree_unflatten(structure, own)))
    except Unguarded:
        return None
    if len(writer.leaves) != len(call.leaves) or not all(a is b for a, b in zip(writer.leaves.values(), call.leaves, strict=True)):
        return None
    executable = entry.compiled.executable
    if flat:
        outs = entry.compiled.program.outputs
        writer.space["program"] = executable.raw_flat if writer.contiguous else executable.flat
        dtype, size = writer.constant(outs[0].dtype), sum(out.size for out in outs)
        writer.test(f"into is None or (into.dtype == {dtype} and into.size == {size})")
    else:
        writer.space["program"] = executable.raw if writer.contiguous else executable.call
    writer.watched(entry.watch)
    given = ", ".join(writer.leaves)
    if flat:
        lines = ["def guard(args, kwargs, into):", *writer.lines]
        returned = [f"return program({given}{', ' * bool(given)}into)"]
    else:
        lines = ["def guard(args, kwargs):", *writer.lines]
        names += ["kind"] * entry.several + ["unseen"] * entry.left
        returned = [f"{''.join(f'{name}, ' for name in names)[:-1] or '_'} = program({given})"]
        returned += ["if unseen: return MISS"] * entry.left
        returned += [f"if kind == {k}: return {result}" for k, result in enumerate(results[1:], 1)] + [f"return {results[0]}"]
    lines += ["for _ in left:", *(f"    {line}" for line in returned), "return MISS"]
    define(lines, writer.space)
    entry.checks.share(writer.space)
    return writer.space["guard"]


class Writer:
    """Writes the lines of one guard."""

    def __init__(self):
        self.lines: list[str] = []
        self.space: dict[str, Any] = {"MISS": MISS, "array": np.ndarray, "exact": exact}
        self.leaves: dict[str, Any] = {}
        self.contiguous = True
        self.count = 0

    def new(self):
        self.count += 1
        return f"a{self.count}"

    def constant(self, thing):
        """Return the name under which the guard knows a thing."""
        name = f"c{len(self.space)}"
        self.space[name] = thing
        return name

    def test(self, condition):
        self.lines.append(f"if not ({condition}): return MISS")

    def watched(self, watch):
        """Test what the function reads: what identity tells first."""
        alike = [source.format(*map(self.constant, named)) for source, named in watch.quick]
        if alike:
            self.space["fresh"] = watch.fresh
            self.lines += [f"try: alike = {' and '.join(alike)}", "except Exception: alike = False"]
            self.test("alike or fresh()")
        if watch.slow or watch.arrays:
            self.space.update(fresh=watch.fresh, slow=watch.slow)
            self.test("fresh(slow)")

    def arguments(self, call, args, kwargs):
        """Test the positional arguments and those given by name."""
        named = "not kwargs"
        if kwargs:
            named = f"[*kwargs] == {[*kwargs]}" if names_keywords(call.f) else f"len(kwargs) == {len(kwargs)}"
        self.test(named)
        names = [self.new() for _ in args]
        if names:  # which is quicker than asking how many there are
            self.lines += [f"try: {''.join(f'{name}, ' for name in names)}= args", "except ValueError: return MISS"]
        else:
            self.test("not args")
        pairs = [*zip(names, range(len(args)), args, strict=True)]
        for key in sorted(kwargs):
            pairs.append((self.new(), key, kwargs[key]))
            self.lines.append(f"{pairs[-1][0]} = kwargs.get({key!r}, MISS)")
        for name, key, arg in pairs:
            if key in call.fixed:
                self.test(f"exact({name}) == {self.constant(exact(arg))}")
            else:
                self.argument(name, arg)

    def argument(self, name, x):
        """Test an argument, or a part of one, and enter its leaves."""
        kind = type(x)
        if kind is np.ndarray:
            self.array(name, x)
        elif kind in NUMBERS or issubclass(kind, np.number):
            self.test(f"type({name}) is {self.constant(kind)}")
            self.leaves[name] = x
        elif kind in ATOMS:
            self.test(f"{name} is {self.constant(x)}")
        elif kind in CONSTANTS:
            self.test(f"type({name}) is {self.constant(kind)} and {name} == {self.constant(x)}")
        elif kind in (tuple, list) or optree.is_namedtuple_class(kind):
            self.test(f"type({name}) is {self.constant(kind)} and len({name}) == {len(x)}")
            names = [self.new() for _ in x]
            self.lines.append(f"[{', '.join(names)}] = {name}")
            for inner, part in zip(names, x, strict=True):
                self.argument(inner, part)
        elif kind is dict:
            self.dict(name, x)
        else:
            raise Unguarded

    def dict(self, name, x):
        """Test a dict: its keys, too, and their order, because functions may go through it in order."""
        try:
            keys = sorted(x)
        except TypeError:
            raise Unguarded from None
        self.test(f"type({name}) is dict and [*{name}] == {self.constant([*x])}")
        for key in keys:
            inner = self.new()
            self.lines.append(f"{inner} = {name}[{repr(key) if type(key) is str else self.constant(key)}]")
            self.argument(inner, x[key])

    def array(self, name, x):
        layout, dtype = kind_of(x, strides=True).layout, self.constant(x.dtype)
        self.test(f"type({name}) is array and {name}.shape == {x.shape} and ({name}.dtype is {dtype} or {name}.dtype == {dtype})")
        if layout == "C":
            self.lines.append(f"f = {name}.flags")
            self.test("f.carray or (f.c_contiguous and f.aligned)")
        else:
            self.contiguous = False
            self.test(f"not {name}.flags.c_contiguous and {name}.flags.f_contiguous" if layout == "F" else f"{name}.strides == {layout}")
        self.leaves[name] = x

    def result(self, tree):
        """Return the source of a result whose leaves are names."""
        kind = type(tree)
        if kind is str or tree is None:
            return str(tree)
        if kind is dict:
            return "{" + ", ".join(f"{self.constant(key)}: {self.result(part)}" for key, part in tree.items()) + "}"
        if kind in (tuple, list) or optree.is_namedtuple_class(kind):
            inner = "".join(f"{self.result(part)}, " for part in tree)
            return f"({inner})" if kind is tuple else f"[{inner}]" if kind is list else f"{self.constant(kind)}({inner})"
        raise Unguarded
