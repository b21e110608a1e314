"""Compressed derivatives: the products of a Jacobian with the directions of a colouring, and the matrix that its entries make."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import wraps

import numpy as np
import optree

from ..core.dispatch import FLOAT
from ..core.levels import Level
from ..forward.chunks import Seeds, inexact, push_chunks
from ..forward.push import push
from ..forward.seeding import LEAF, check_holomorphic, chosen_positions, plain
from ..forward.streaming import chunk_size
from ..jit.jit import Jit
from ..jit.watch import Watch
from ..support.costs import KEPT_VARIANTS
from .coloring import Coloring, as_pattern, coloring
from .pattern import Arguments, find_pattern
from .reads import by_reads
from .vectors import flat, sizes


class Colored:
    """The colouring for a call: the one that was given ("auto", a pattern or a `Coloring`), or found once for each kind of arguments.

    `mode` is that of colourings made here, `allowed` the modes that can be used, and what to do with others; `order` is 2 for Hessians.
    """

    def __init__(self, f, argnums, given, mode, allowed, where, order=1):
        self.f, self.argnums, self.mode, self.where, self.order = f, argnums, mode, where, order
        self.found: OrderedDict[object, tuple[Coloring, Watch]] = OrderedDict()
        self.given = None
        if issubclass(type(given), str | bool):
            if given != "auto":
                raise ValueError(f'{where}: sparsity is {given!r}: give "auto", a pattern, or a colouring (dualad.coloring)')
        elif isinstance(given, Coloring):
            modes, instead = allowed
            if given.mode not in modes:
                raise ValueError(f"{where}: the colouring is for mode {given.mode!r}: {instead}")
            self.given = given
        else:
            self.given = coloring(as_pattern(given, where), mode)

    def __call__(self, args, kwargs) -> Coloring:
        if self.given is not None:
            return self.given
        arguments = Arguments(args, kwargs, self.argnums, self.where)
        if arguments.traced:
            raise in_outer_call(self.where)
        key = arguments.key()
        known = self.found.get(key)
        if known is None or not known[1].fresh():
            watch = Watch(self.f, ())
            pattern = find_pattern(self.f, args, kwargs, self.argnums, self.order)
            watch.settle()
            known = self.found[key] = coloring(pattern, self.mode), watch
            while len(self.found) > KEPT_VARIANTS:
                self.found.popitem(last=False)
        return known[0]


class Compressed:
    """The value, the sparse Jacobian and the aux of a function, in forward mode; without `valued`, the value may be None."""

    def __init__(self, f, argnums, colored, chunk, where, *, holomorphic=False, nan_safe=False, has_aux=False, valued=True, executor=None):
        self.f, self.argnums, self.colored, self.chunk, self.where = f, argnums, colored, chunk, where
        self.options = {"holomorphic": holomorphic, "nan_safe": nan_safe, "has_aux": has_aux}
        self.valued, self.executor = valued, executor
        self.is_compiled = isinstance(f, Jit) and executor is None
        self.made: list[tuple[Coloring, Callable]] = []
        self.only_entries = not valued and not has_aux
        self.flat: Callable | None = None  # that call, where there is one colouring only
        self.alone = self.is_compiled and self.only_entries  # one compiled call gives the entries, and nothing else
        self.usual = argnums == 0 and not has_aux and not self.is_compiled and executor is None

    def data(self, args, kwargs, into=None):
        """Return the colouring, the value, the entries (in `into`, where they are compiled and it fits), and a list of the aux."""
        if self.flat is not None and type(data := self.flat(args, kwargs, into)) is np.ndarray:
            return self.colored.given, None, data, ()
        colors = self.colored.given or self.colored(args, kwargs)
        if self.alone:
            call = self.in_one_call(colors).flat
            value, data, aux = None, call(args, kwargs, into), ()
            self.flat = call if self.colored.given is colors else None
        elif self.is_compiled:
            value, parts, *aux = self.in_one_call(colors)(*args, **kwargs)
            data = flat(parts)
        elif self.usual and len(args) == 1 and not kwargs and (found := self.short_way(colors, args[0])) is not None:
            value, data, aux = found
        else:
            value, data, *aux = self.entries(colors, args, kwargs)
        if type(data) is not np.ndarray:
            raise in_outer_call(self.where)
        return colors, value, data, aux

    def short_way(self, colors, x):
        """Return the fast path for a function from one vector to one; None for any other, which is not tried again."""
        lanes = colors.forward_colors
        if type(x) is not np.ndarray or x.dtype is not FLOAT or x.shape != colors.shape[1:] or not lanes or colors.rows is not None:
            return None
        if lanes > chunk_size(lanes, x.nbytes, self.chunk):
            return None
        values, (t, *_), structure, _ = push(self.f, 1, [x], [colors.seeds], Level(lanes, self.options["nan_safe"]), self.where)
        if structure is not LEAF or type(t) is not np.ndarray or t.size != lanes * colors.shape[0]:
            self.usual = False
            return None
        return plain(values[0], False), t.reshape(-1).take(colors.found_at), ()

    def in_one_call(self, colors):
        """Return the function of the value and the entries of a compiled function, compiled itself; the entries may be in parts."""
        for known, made in self.made:
            if known is colors:
                return made
        jitted, only_entries = self.f, self.only_entries
        inner = type(self)(jitted.f, self.argnums, None, max(colors.forward_colors, colors.reverse_colors), self.where, **self.options)
        f = jitted.f  # seen here by what watches what a compiled function reads

        @wraps(f)  # names of static arguments are found by its signature
        def entries(*args, **kwargs):
            value, parts, *aux = inner.in_parts(colors, args, kwargs, f)
            return parts if only_entries else (value, parts, *aux)

        made = Jit(entries, *jitted.options)
        self.made = [(colors, made), *self.made[: KEPT_VARIANTS - 1]]
        return made

    def in_parts(self, colors, args, kwargs, f):
        """Return the entries as `entries` does, as arrays, one after the other."""
        positions, _ = chosen_positions(args, self.argnums, self.where)
        found = None if self.options["has_aux"] else by_reads(f, args, kwargs, positions, colors, self.where, self.options["nan_safe"])
        if found is None:
            value, data, *aux = self.entries(colors, args, kwargs, f)
            return value, [data], *aux
        return found

    def entries(self, colors, args, kwargs, f=None):
        """Return the value, the entries of the Jacobian in the order of the pattern, and the aux if there is one."""
        positions, _ = chosen_positions(args, self.argnums, self.where)
        value, pushed, aux = self.pushed(colors, args, kwargs, positions, f or self.f)
        return value, pushed.take(colors.found_at), *aux

    def pushed(self, colors, args, kwargs, positions, f):
        """Return the value, the tangents along the directions of the colours, flat: (colours, rows), and a list of the aux."""
        return push_colors(f, args, kwargs, positions, colors, self.chunk, self.where, executor=self.executor, **self.options)


def push_colors(f, args, kwargs, positions, colors, chunk, where, *, holomorphic, nan_safe, has_aux, executor=None):
    """Return the value of a function, its tangents along the directions of a colouring, and a list of the aux; see `Compressed.pushed`."""
    rows = colors.seeds if executor is None else None  # workers make those of their colours
    seeds = Seeds(tuple(args[i] for i in positions), where, chunk, colors.columns, rows)
    check_columns(colors, seeds.leaves, holomorphic, where)
    blocks = []
    for start, stop, values, tangents, structure, aux in push_chunks(  # noqa: B007
        f, args, kwargs, positions, seeds, nan_safe, has_aux, where, executor
    ):
        parts = [
            np.zeros((stop - start, *sizes([value])), inexact(value, seeds)) if t is None else t.reshape(stop - start, -1)
            for value, t in zip(values, tangents, strict=True)
        ]
        blocks.append(parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1))
        check_rows(colors, blocks[-1].shape[1], where)
    value = optree.tree_unflatten(structure, [plain(value, seeds.python_scalars) for value in values])
    return value, (blocks[0] if len(blocks) == 1 else np.concatenate(blocks)).reshape(-1), [aux] if has_aux else []


def in_outer_call(where):
    """Return the error of a sparse Jacobian inside of a derivative, or of compiled code."""
    return TypeError(
        f"{where}: f is being differentiated or compiled by an outer call, and a matrix of SciPy holds plain numbers only: "
        f"leave out sparsity= there, or jit f itself"
    )


def check_columns(colors, leaves, holomorphic, where):
    """Raise where the differentiated arguments are not those of the pattern."""
    columns = leaves[0].size if len(leaves) == 1 and type(leaves[0]) is np.ndarray else sum(sizes(leaves))
    if columns != colors.shape[1]:
        raise ValueError(
            f"{where}: the arguments have {columns} elements, the pattern {colors.shape[1]} columns: it belongs to another function"
        )
    check_holomorphic(leaves, holomorphic, where)


def check_rows(colors, rows, where):
    """Raise where the results are not those of the pattern."""
    if rows != colors.shape[0]:
        raise ValueError(f"{where}: f returns {rows} numbers, the pattern has {colors.shape[0]} rows: it belongs to another function")
