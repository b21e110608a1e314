"""Directions of inputs (unit ones, or those of the colours of their elements), pushed forward K at a time, here or on an executor."""

from math import prod

import numpy as np

from ..core.dispatch import FLOAT, dtype_of
from ..core.levels import Handle, Level
from ..support.costs import CHUNK_BYTES, MEMORY_BYTES
from ..support.executors import Crew
from .push import push
from .seeding import flatten_arguments, scalar_kinds, shape_of, with_arguments
from .streaming import Unchanged, chunk_size, spans


class Seeds:
    """The unit directions of the inputs, numbered through all leaves; where the elements have colours, the sums of those of one colour.

    `rows` are these sums as an array, if they are at hand.
    """

    def __init__(self, primals, where, chunk, colors=None, rows=None):
        self.chosen, self.colors, self.rows = chunk, colors, rows
        if len(primals) == 1 and type(primals[0]) is np.ndarray and primals[0].dtype is FLOAT:
            self.leaves, self.structure, self.python_scalars, self.weak = primals, 1, False, False
        else:
            self.leaves, self.structure = flatten_arguments(primals, where, None)
            self.python_scalars, self.weak = scalar_kinds(primals)
        self.slots, stop, largest, room = [], 0, 1, CHUNK_BYTES
        for leaf in self.leaves:
            shape = shape_of(leaf)
            start, stop = stop, stop + prod(shape)
            self.slots.append((start, stop, shape))
            largest = max(largest, dtype_of(leaf).itemsize * (stop - start))
            if isinstance(leaf, Handle) and leaf.level.abstract and leaf.level.id:  # compiled: every chunk is code, and no cache is passed
                room = MEMORY_BYTES // 16
        self.size = stop if colors is None else int(colors.max(initial=-1)) + 1 if rows is None else len(rows)
        self.chunk = chunk_size(self.size, largest, chunk, room)

    def directions(self, start, stop):
        """Return directions for each leaf, None where all are zero."""
        if start == stop:
            return [None] * len(self.leaves)
        out, lanes = [], stop - start
        if self.colors is not None:
            rows = one_hot(self.colors, start, stop) if self.rows is None else self.rows[start:stop]
            for leaf, (a, b, shape) in zip(self.leaves, self.slots, strict=True):
                out.append(rows[:, a:b].reshape(lanes, *shape).astype(dtype_of(leaf), copy=False))
            return out
        for leaf, (a, b, shape) in zip(self.leaves, self.slots, strict=True):
            first, last = max(a, start), min(b, stop)
            tangent = None
            if first < last:
                flat, step = np.zeros(lanes * (b - a), dtype_of(leaf)), b - a + 1
                begin = (first - start) * (b - a) + first - a
                flat[begin : begin + (last - first) * step : step] = 1.0
                tangent = flat.reshape(lanes, *shape)
            out.append(tangent)
        return out


def one_hot(colors, start, stop):
    """Return for each of some colours which elements have it, as ones and zeros."""
    rows = np.zeros((stop - start, len(colors)))
    chosen = np.flatnonzero((colors >= start) & (colors < stop))
    rows[colors[chosen] - start, chosen] = 1.0
    return rows


def push_chunks(f, args, kwargs, positions, seeds, nan_safe, has_aux, where, executor=None):
    """Evaluate `f` chunk by chunk, here or on an executor; yields (start, stop, values, tangents, structure of the output, aux)."""
    if executor is None or not seeds.size:
        g = with_arguments(f, args, kwargs, positions)
        for start in range(0, seeds.size, seeds.chunk) or [0]:
            stop = min(start + seeds.chunk, seeds.size)
            yield start, stop, *push_chunk(g, seeds, nan_safe, has_aux, where, start, stop)
        return
    sent, words = (f, args, kwargs, positions, seeds.colors, nan_safe, has_aux, where), "columns" if seeds.colors is None else "colours"
    with Crew(executor, where, {"the function": f, "an argument": (args, kwargs)}) as crew:
        first: list[Unchanged] = []
        lanes = crew.lanes(seeds.size, seeds.chunk, seeds.chosen)
        for start, stop, pushed in crew.in_order(spans(0, seeds.size, lanes), words, push_sent, sent):
            first = first or [Unchanged(where, words) for _ in pushed[0]]
            for known, value in zip(first, pushed[0], strict=True):
                known.check(value, start, stop)
            yield start, stop, *pushed


def push_chunk(f, seeds, nan_safe, has_aux, where, start, stop):
    """Evaluate `f` with some directions; returns (values, tangents, structure of the output, aux)."""
    level = Level(max(stop - start, 1), nan_safe, seeds.weak)
    return push(f, seeds.structure, seeds.leaves, seeds.directions(start, stop), level, where, has_aux)


def push_sent(f, args, kwargs, positions, colors, nan_safe, has_aux, where, start, stop):
    """Run `push_chunk` on a worker."""
    seeds = Seeds(tuple(args[i] for i in positions), where, 1, colors)
    return push_chunk(with_arguments(f, args, kwargs, positions), seeds, nan_safe, has_aux, where, start, stop)


def inexact(value, seeds):
    """Return the dtype of derivatives of `value`."""
    dtype = dtype_of(value)
    if dtype.kind in "fc":
        return dtype
    return np.result_type(*(dtype_of(leaf) for leaf in seeds.leaves))
