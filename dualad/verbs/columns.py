"""jacobian_columns: the columns of a Jacobian that is too large to hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import ExitStack
from typing import Any, Unpack, overload

import numpy as np

from ..core.dispatch import dtype_of
from ..forward.chunks import Seeds, inexact, push_chunk
from ..forward.seeding import check_chunk, check_function, check_holomorphic, shape_of
from ..forward.streaming import Budget, Unchanged, chunks, make_writer
from ..support.callers import trim, trimmed
from ..support.checks import flags
from ..support.executors import Crew, check_executor
from ..support.hints import Chunk, StreamOptions
from ..support.progress import Bar

# --- public -----------------------------------------------------------------------------------------------------------------


@overload
def jacobian_columns(
    f: Callable[[Any], Any], x: Any, chunk: Chunk = None, *, out: None = None, **options: Unpack[StreamOptions]
) -> Iterator[tuple[int, Any]]: ...
@overload
def jacobian_columns(f: Callable[[Any], Any], x: Any, chunk: Chunk = None, *, out: Any, **options: Unpack[StreamOptions]) -> Any: ...
@trimmed
def jacobian_columns(
    f: Callable[[Any], Any],
    x: Any,
    chunk: Chunk = None,
    *,
    out: Any = None,
    memory: float | str | None = None,
    progress: bool = False,
    executor: Executor | None = None,
    holomorphic: bool = False,
    nan_safe: bool = False,
) -> Any:
    """Compute the columns of the Jacobian of `f` at `x` in forward mode, without ever holding the whole matrix.

    Peak memory is O(K * (n + m)) for K directions at a time, besides f's own temporaries. f is evaluated once a chunk;
    `checkpoint.jacobian_columns` evaluates it once, and holds what it computed.

    Parameters
    ----------
    f : function of one array, returning one array.
    x : number or array of floats.
    chunk : how many columns to compute at once; by default as many as stay in the cache, or in `memory`.
    out : where to write the columns: an array or a memmap of shape ``f(x).shape + x.shape`` (or of its two sizes), or a function
        ``out(columns, block)`` of a slice and of these columns, of shape ``f(x).shape + (K,)``; ``block[..., i]`` is the derivative by
        ``x.flat[columns.start + i]``.
    memory : bytes that a chunk may take, as an integer or a text (``"200 MB"``), temporaries included, `out` and what f holds not. The
        first two chunks, of one column and of a few, are measured. With an executor it is what each worker may take.
    progress : show a bar (needs tqdm).
    executor : computes the chunks, two a worker at once; see `jacobian`.
    holomorphic, nan_safe : see `jacobian`.

    Returns
    -------
    without `out` an iterator of (j, column): the derivative of f by ``x.flat[j]``, of the shape of ``f(x)``, in the order of j. The
    column is the caller's own. With an array, the array; with a function, None.

    Raises
    ------
    TypeError
        Where x or f(x) is a pytree: use `jacobian`; where `out` cannot hold the columns, or an executor cannot pickle f.
    ValueError
        Where `out` has another shape, or `memory` is less than one column takes.
    RuntimeError
        Where a worker dies, or f is not deterministic.

    Examples
    --------
    >>> import numpy as np
    >>> from dualad import jacobian_columns
    >>> for j, column in jacobian_columns(lambda x: x**2, np.array([1.0, 3.0])):
    ...     print(j, column)
    0 [2. 0.]
    1 [0. 6.]
    >>> jacobian_columns(lambda x: x**2, np.array([1.0, 3.0]), out=np.empty((2, 2)), memory="1 MB")
    array([[2., 0.],
           [0., 6.]])
    """
    return streamed(Columns(f, x, chunk, memory, executor, holomorphic, nan_safe), out, progress)


# --- parts ------------------------------------------------------------------------------------------------------------------


class Columns:
    """The columns of a Jacobian in blocks; what has none raises."""

    where, what = "jacobian_columns", "column"
    on_workers: Any = None  # the class that computes there, if it is another one

    def __init__(self, f, x, chunk, memory, executor, holomorphic, nan_safe):
        check_function(f, self.where)
        flags(self.where, holomorphic=holomorphic, nan_safe=nan_safe)
        check_chunk(chunk, self.where)
        check_executor(executor, self.where)
        self.f, self.x, self.chunk, self.executor, self.holomorphic, self.nan_safe = f, x, chunk, executor, holomorphic, nan_safe
        self.budget = None if memory is None else Budget(memory, self.where, self.what)
        self.seeds = Seeds((x,), self.where, chunk)
        check_holomorphic(self.seeds.leaves, holomorphic, self.where)
        if len(self.seeds.leaves) != 1 or isinstance(x, tuple | list | dict):
            raise TypeError(f"{self.where}: x is a pytree, whose {self.what}s have no single number: use jacobian, or one array")

    @property
    def size(self):
        """How many there are."""
        return self.seeds.size

    @property
    def lanes(self):
        """How many to compute at once, if memory does not decide."""
        return self.seeds.chunk

    def compute(self, start, stop):
        """Return the value and a block, its columns or rows along the first axis."""
        values, tangents, _, _ = push_chunk(self.f, self.seeds, self.nan_safe, False, self.where, start, stop)
        if len(values) != 1:
            raise TypeError(f"{self.where}: f returned a pytree: use jacobian, or return one array")
        value, block = values[0], tangents[0]
        return value, np.zeros((stop - start, *shape_of(value)), inexact(value, self.seeds)) if block is None else block

    def least(self, pair):
        """Return the bytes that go in and come out for one direction."""
        return sum(dtype_of(part).itemsize * int(np.prod(shape_of(part), dtype=int)) for part in (self.x, pair[0]))

    def shown(self, progress):
        """Yield (start, stop, value, block), with a bar."""
        unchanged, words = Unchanged(self.where, f"{self.what}s"), f"{self.what}s"
        with ExitStack() as stack:
            bar = stack.enter_context(Bar(progress, self.where, self.what))
            size, send = self.size, None
            lanes = size if self.chunk is None and self.budget is not None else self.lanes
            if self.executor is not None:
                crew = stack.enter_context(Crew(self.executor, self.where, {"the function": self.f, "the argument": self.x}))
                sent = self.on_workers or type(self), self.f, self.x, self.holomorphic, self.nan_safe
                send = lambda spans: crew.in_order(spans, words, compute_on_worker, sent)
                lanes = crew.lanes(size, lanes, self.chunk)
            bar.start(size)
            for start, stop, pair in chunks(size, lanes, self.compute, self.budget, self.least, send):
                unchanged.check(pair[0], start, stop)
                yield start, stop, *pair
                del pair
                bar.advance(stop - start)


def compute_on_worker(kind, f, x, holomorphic, nan_safe, start, stop):
    return kind(f, x, 1, None, None, holomorphic, nan_safe).compute(start, stop)


def streamed(blocks, out, progress):
    """Return an iterator over columns or rows; or write them, and return where they are."""
    if out is None:
        return numbered(blocks, progress)
    write = make_writer(out, blocks.where, blocks.what)
    for start, stop, value, block in blocks.shown(progress):
        write(start, stop, writable(block), shape_of(value), shape_of(blocks.x))
        del block
    return None if callable(out) else out


def numbered(blocks, progress):
    """Yield columns or rows with their numbers."""
    try:
        for start, _, _, block in blocks.shown(progress):
            for k in range(block.shape[0]):
                yield start + k, np.copy(block[k])[()]
            del block
    except Exception as error:
        trim(error)
        raise


def writable(block):
    """Return a block that a caller may write."""
    return block if type(block) is not np.ndarray or block.flags.writeable else block.copy()
