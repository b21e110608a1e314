"""Streaming in chunks: their size for a budget of bytes, and where they are written."""

from math import prod

import numpy as np

from ..support.byte_sizes import format_bytes, parse_bytes
from ..support.costs import CHUNK_BYTES, CHUNK_DIRECTIONS
from ..support.equality import differing, nearly_same
from ..support.measured import measure_peak


def chunk_size(count, nbytes, chunk=None, room=CHUNK_BYTES):
    """Return how many of `count` directions go at once: `chunk` where it is given, else as many as `room` holds of `nbytes` each."""
    return max(1, min(count, chunk or max(CHUNK_DIRECTIONS, room // max(nbytes, 1))))


def spans(start, size, lanes):
    """Yield what is computed at once, from `start` on: pairs (start, stop)."""
    for first in range(start, size, lanes):
        yield first, min(first + lanes, size)


class Budget:
    """How many directions at once keep within some bytes: found by measuring the first two chunks, of one direction and of a few.

    The measure is tracemalloc's: what compiled code allocates it does not see, but what goes in and comes out is counted in any case.
    """

    def __init__(self, memory, where, what):
        self.bytes, self.given, self.where, self.what = parse_bytes(memory, where, "memory"), memory, where, what
        self.peaks, self.kept = [], 0

    def held(self, compute, *args):
        """Return the result of a function, which is kept as long as there are chunks: there is less for them."""
        result = self.measured(compute, *args)
        self.kept += self.peaks.pop()
        return result

    def measured(self, compute, *args):
        """Return the result of a function, and note the memory that it took at most."""
        result, peak = measure_peak(compute, *args)
        self.peaks.append(peak)
        return result

    def check(self, least):
        """Raise where one direction takes more than there is; `least` bytes go in and come out."""
        needed = max(min(self.peaks), least) + self.kept
        if needed > self.bytes:
            raise ValueError(
                f"{self.where}: memory={self.given!r} is less than one {self.what} takes: {format_bytes(needed)}, with the temporaries of "
                f"f and its derivative"
            )

    def lanes(self, least, measured):
        """Return how many directions there may be at once, at least one, if so many as were measured last have taken what they did."""
        return max(1, int((self.bytes - self.kept) // max(self.peaks[-1] / measured, least)))


def chunks(size, lanes, compute, budget=None, least=None, send=None):
    """Yield (start, stop, ``compute(start, stop)``) for all directions, at most `lanes` at once, and as many as the budget allows.

    `least` tells of a chunk of one direction the bytes that go in and come out; ``send(spans)`` computes elsewhere.
    """
    start = 0
    if budget is not None and size:
        chunk = budget.measured(compute, 0, 1)
        needed = least(chunk)
        if budget.peaks[0] + budget.kept > budget.bytes:  # the first time may have filled caches
            budget.peaks.clear()
            chunk = budget.measured(compute, 0, 1)
        budget.check(needed)
        yield 0, 1, chunk
        del chunk
        start = 1
        if few := min(CHUNK_DIRECTIONS, lanes, budget.lanes(needed, 1), size - 1):
            start += few
            yield 1, start, budget.measured(compute, 1, start)
        lanes = min(lanes, budget.lanes(needed, max(few, 1)))
    if send is not None:
        yield from send(spans(start, size, lanes))
    else:
        for first, stop in spans(start, size, lanes):
            yield first, stop, compute(first, stop)


class Unchanged:
    """The value of f, which every chunk computes again: it must be the same each time, or the chunks belong to several functions."""

    def __init__(self, where, what):
        self.where, self.what, self.value = where, what, None

    def check(self, value, start, stop):
        """Raise where a value is another one than before, by more than other processors make it."""
        if type(value) not in (np.ndarray, np.float64, float):
            return
        if self.value is None:
            self.value = value
            return
        first = self.value
        if nearly_same(value, first):
            return
        if np.shape(value) == np.shape(first):
            at = np.unravel_index(np.argmax(differing(np.asarray(value), np.asarray(first))), np.shape(value))
            differs = f"element {tuple(map(int, at))} is {np.asarray(value)[at]!s}, it was {np.asarray(first)[at]!s}"
        else:
            differs = f"its shape is {np.shape(value)}, it was {np.shape(first)}"
        raise RuntimeError(
            f"{self.where}: f is not deterministic: its value has changed when it was evaluated again, for {self.what} {start} to "
            f"{stop - 1}: {differs}. Draw random numbers before, and pass them to f"
        )


# --- where chunks go ----------------------------------------------------------------------------------------------------------------


def make_writer(out, where, what):
    """Return a function ``write(start, stop, block, value shape, x shape)`` for a callback or an array.

    A block has its columns (of the shape of f's value) or rows (of the shape of x) along the first axis.
    """
    if callable(out):
        return lambda start, stop, block, rows, columns: out(slice(start, stop), np.moveaxis(block, 0, -1) if what == "column" else block)
    if not hasattr(out, "__setitem__") or not hasattr(out, "shape"):
        raise TypeError(f"{where}: out is {out!r}: give an array, a memmap, or a function of a slice and a block of {what}s")
    if issubclass(type(out), np.ndarray) and not out.flags.writeable:
        raise ValueError(f"{where}: out is read-only: open a memmap with mode 'r+' or 'w+'")

    def write(start, stop, block, rows, columns):
        full, flat = (*rows, *columns), (prod(rows), prod(columns))
        shape = tuple(out.shape)
        if shape not in (full, flat):
            raise ValueError(f"{where}: out has shape {shape}, the Jacobian {full}" + (f", or {flat} flat" if flat != full else ""))
        dtype = getattr(out, "dtype", block.dtype)
        if not np.can_cast(block.dtype, dtype, "same_kind"):
            raise TypeError(f"{where}: out has dtype {dtype}, the Jacobian {block.dtype}: give one that holds it")
        if shape != full:
            rows, columns = flat[:1], flat[1:]
        own, other = (columns, rows) if what == "column" else (rows, columns)
        block = np.reshape(block, (stop - start, *other))
        if not own:
            out[...] = block[0]
            return
        index = (slice(start, stop),) if len(own) == 1 else np.unravel_index(np.arange(start, stop), own)
        if what == "column":
            out[(Ellipsis, *index)] = np.moveaxis(block, 0, -1)
        else:
            out[index] = block

    return write
