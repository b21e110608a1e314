"""Compressed derivatives: the products of a Jacobian with the directions of a colouring, and the matrix that its entries make."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
import optree

from ..core.dispatch import dtype_of
from ..core.levels import Level
from ..forward.push import push
from ..forward.seeding import LEAF, check_holomorphic, chosen_positions, flatten_input, plain, scalar_kinds, shape_of, with_arguments
from ..forward.streaming import Unchanged, chunk_size, spans
from ..jit.jit import Jit
from ..jit.watch import Watch
from ..support.costs import KEPT_VARIANTS
from ..support.executors import Crew
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
        self.options = {"holomorphic": holomorphic, "nan_safe": nan_safe, "has_aux": has_aux, "valued": valued}
        self.executor = executor
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
        if self.executor is not None and colors.forward_colors:
            return self.elsewhere(colors, args, kwargs, positions)
        products = self.products(with_arguments(f or self.f, args, kwargs, positions), args, positions, colors)
        return products.value, products.flat.take(colors.found_at), *products.aux

    def elsewhere(self, colors, args, kwargs, positions):
        """Do what `entries` does on an executor, some colours at a time."""
        where, options = self.where, {**self.options, "valued": True}
        with Crew(self.executor, where, {"the function": self.f, "an argument": (args, kwargs)}) as crew:
            count = colors.forward_colors
            lanes = crew.lanes(count, count, self.chunk) if self.chunk is None else self.chunk
            flat, unchanged = [], Unchanged(where, "colours")
            shipped = self.f, args, kwargs, positions, colors.shape, colors.columns, where, options
            for start, stop, (tangents, value, aux) in crew.in_order(spans(0, count, lanes), "colours", products_sent, shipped):  # noqa: B007
                for leaf in optree.tree_leaves(value)[:1]:
                    unchanged.check(leaf, start, stop)
                flat.append(tangents)
        return value, np.concatenate(flat).take(colors.found_at), *aux

    def products(self, f, args, positions, colors):
        """Return the products with the directions of the colouring."""
        primals = args if len(args) == len(positions) == 1 else tuple(args[i] for i in positions)
        return Products(f, primals, colors, self.chunk, self.where, **self.options)


class Products:
    """The tangents of a function along the directions of a colouring, flat: (colours, rows)."""

    def __init__(self, f, primals, colors, chunk, where, nan_safe=False, has_aux=False, holomorphic=False, valued=True):
        self.where, self.colors, self.has_aux, self.valued = where, colors, has_aux, valued
        if len(primals) == 1 and type(primals[0]) is np.ndarray and primals[0].dtype is FLOAT:
            self.leaves, self.structure, self.python_scalars, self.weak = list(primals), 1, False, False
        else:
            self.leaves, self.structure = flatten_input(primals, where)
            self.python_scalars, self.weak = scalar_kinds(primals)
        check_columns(colors, self.leaves, holomorphic, where)
        self.value: Any = None
        self.aux: list[Any] = []
        self.flat = self.push(f, chunk, nan_safe)

    def push(self, f, chunk, nan_safe):
        """Return the tangents, as many directions at once as the chunk has."""
        count, seeds = self.colors.forward_colors, self.seeds()
        largest = max(leaf.nbytes if type(leaf) is np.ndarray else dtype_of(leaf).itemsize for leaf in self.leaves)
        lanes = chunk_size(count, largest, chunk)
        if count <= lanes:
            return self.push_chunk(f, seeds, max(count, 1), nan_safe).reshape(-1)
        rows = [
            self.push_chunk(f, [s[start : start + lanes] for s in seeds], min(lanes, count - start), nan_safe)
            for start in range(0, count, lanes)
        ]
        return np.concatenate(rows).reshape(-1)

    def seeds(self):
        """Return the directions of each leaf."""
        seeds = self.colors.seeds
        if seeds is None or not len(seeds):
            return [None] * len(self.leaves)
        if self.structure == 1:
            (leaf,) = self.leaves
            return [seeds if leaf.ndim == 1 else seeds.reshape(len(seeds), *leaf.shape)]
        parts = np.split(seeds, np.cumsum(sizes(self.leaves))[:-1], axis=1)
        return [
            part.reshape(len(seeds), *shape_of(leaf)).astype(dtype_of(leaf), copy=False)
            for part, leaf in zip(parts, self.leaves, strict=True)
        ]

    def push_chunk(self, f, seeds, lanes, nan_safe):
        """Return the (lanes, rows) tangents along some directions; the value is kept."""
        level = Level(lanes, nan_safe, self.weak)
        values, tangents, structure, aux = push(f, self.structure, self.leaves, seeds, level, self.where, self.has_aux)
        self.aux = [aux] if self.has_aux else []
        if self.valued:
            self.value = optree.tree_unflatten(structure, [plain(value, self.python_scalars) for value in values])
        parts = [zeros_of(value, lanes) if t is None else t.reshape(lanes, -1) for value, t in zip(values, tangents, strict=True)]
        tangents = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
        check_rows(self.colors, tangents.shape[1], self.where)
        return tangents


def products_sent(f, args, kwargs, positions, shape, columns, where, options, start, stop):
    """Return the tangents along some colours, the value, and a list of the aux, where a worker was sent."""
    mine = np.where((columns >= start) & (columns < stop), columns - start, np.int32(-1))
    empty = np.zeros(shape[0] + 1, np.int32), np.zeros(0, np.int32)
    colors = Coloring(shape, *empty, "forward", mine, None)
    primals = tuple(args[i] for i in positions)
    products = Products(with_arguments(f, args, kwargs, positions), primals, colors, stop - start, where, **options)
    return products.flat, products.value, products.aux


def in_outer_call(where):
    """Return the error of a sparse Jacobian inside of a derivative, or of compiled code."""
    return TypeError(
        f"{where}: f is being differentiated or compiled by an outer call, and a matrix of SciPy holds plain numbers only: "
        f"leave out sparsity= there, or jit f itself"
    )


def zeros_of(value, lanes):
    """Return the tangents of a constant."""
    dtype = dtype_of(value)
    return np.zeros((lanes, *sizes([value])), dtype if dtype.kind in "fc" else float)


FLOAT = np.dtype(float)


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
