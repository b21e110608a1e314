"""The unit directions of inputs, pushed forward K at a time, here or on an executor."""

from math import prod

import numpy as np

from ..core.dispatch import dtype_of
from ..core.levels import Level
from ..forward.push import push
from ..forward.seeding import flatten_arguments, scalar_kinds, shape_of, with_arguments
from ..forward.streaming import Unchanged, chunk_size, spans
from ..graph.symbol import Symbol
from ..support.costs import CHUNK_BYTES, MEMORY_BYTES
from ..support.executors import Crew

FLOAT = np.dtype(float)


class Seeds:
    """The unit directions of the inputs, numbered through all leaves."""

    def __init__(self, primals, where, chunk):
        self.chosen = chunk
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
            if type(leaf) is Symbol:  # compiled: nothing passes through the cache, and every chunk is code
                room = MEMORY_BYTES // 16
        self.size = stop
        self.chunk = chunk_size(self.size, largest, chunk, room)

    def directions(self, start, lanes):
        """Return unit directions from `start` on for each leaf, None where all are zero."""
        out = []
        for leaf, (a, b, shape) in zip(self.leaves, self.slots, strict=True):
            first, last = max(a, start), min(b, start + lanes)
            tangent = None
            if first < last:
                flat, step = np.zeros(lanes * (b - a), dtype_of(leaf)), b - a + 1
                begin = (first - start) * (b - a) + first - a
                flat[begin : begin + (last - first) * step : step] = 1.0
                tangent = flat.reshape(lanes, *shape)
            out.append(tangent)
        return out


def push_chunks(f, args, kwargs, positions, seeds, nan_safe, has_aux, where, executor=None):
    """Evaluate `f` chunk by chunk, here or on an executor; yields (start, stop, values, tangents, structure of the output, aux)."""
    if executor is None or not seeds.size:
        g = with_arguments(f, args, kwargs, positions)
        for start in range(0, seeds.size, seeds.chunk) or [0]:
            stop = min(start + seeds.chunk, seeds.size)
            yield start, stop, *push_chunk(g, seeds, nan_safe, has_aux, where, start, stop)
        return
    sent = f, args, kwargs, positions, nan_safe, has_aux, where
    with Crew(executor, where, {"the function": f, "an argument": (args, kwargs)}) as crew:
        first: list[Unchanged] = []
        lanes = crew.lanes(seeds.size, seeds.chunk, seeds.chosen)
        for start, stop, pushed in crew.in_order(spans(0, seeds.size, lanes), "columns", push_sent, sent):
            first = first or [Unchanged(where, "columns") for _ in pushed[0]]
            for known, value in zip(first, pushed[0], strict=True):
                known.check(value, start, stop)
            yield start, stop, *pushed


def push_chunk(f, seeds, nan_safe, has_aux, where, start, stop):
    """Evaluate `f` with some unit directions; returns (values, tangents, structure of the output, aux)."""
    lanes = max(stop - start, 1)
    level = Level(lanes, nan_safe, seeds.weak)
    values, tangents, structure, aux = push(f, seeds.structure, seeds.leaves, seeds.directions(start, lanes), level, where, has_aux)
    return values, [t if t is None or len(t) == stop - start else t[: stop - start] for t in tangents], structure, aux


def push_sent(f, args, kwargs, positions, nan_safe, has_aux, where, start, stop):
    """Run `push_chunk` on a worker."""
    seeds = Seeds(tuple(args[i] for i in positions), where, 1)
    return push_chunk(with_arguments(f, args, kwargs, positions), seeds, nan_safe, has_aux, where, start, stop)


def inexact(value, seeds):
    """Return the dtype of derivatives of `value`."""
    dtype = dtype_of(value)
    if dtype.kind in "fc":
        return dtype
    return np.result_type(*(dtype_of(leaf) for leaf in seeds.leaves))
