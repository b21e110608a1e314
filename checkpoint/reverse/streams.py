"""jacobian_rows and jacobian_columns: Jacobians that are too large to hold, from one recording."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

import numpy as np

from dualad.forward.seeding import shape_of
from dualad.support.callers import trimmed
from dualad.support.forks import cached_property
from dualad.support.hints import Chunk, typed_as
from dualad.verbs.columns import Columns, streamed
from dualad.verbs.columns import jacobian_columns as forward_columns

from .recording import Recording, dtype_by, size_of

# --- public -----------------------------------------------------------------------------------------------------------------


@typed_as(forward_columns)
@trimmed
def jacobian_rows(
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
    """Compute the rows of the Jacobian of `f` at `x` in reverse mode, without ever holding the whole matrix.

    f is evaluated and recorded once, then K cotangents at a time are pulled back.

    Parameters
    ----------
    f : function of one array, returning one array.
    x : number or array of floats.
    chunk : how many rows to compute at once; by default as many as stay in the cache, or in `memory`.
    out : where to write the rows: an array or a memmap of shape ``f(x).shape + x.shape`` (or of its two sizes), or a function
        ``out(rows, block)`` of a slice and of these rows, of shape ``(K,) + x.shape``; ``block[i]`` is the gradient of
        ``f(x).flat[rows.start + i]``.
    memory : see `dualad.jacobian_columns`; the recording is counted.
    progress : show a bar (needs tqdm).
    executor : computes the chunks, two a worker at once; f is recorded again for each. See `dualad.jacobian`.
    holomorphic, nan_safe : see `jacobian`.

    Returns
    -------
    without `out` an iterator of (i, row): the gradient of ``f(x).flat[i]``, of the shape of x, in the order of i. The row is the
    caller's own. With an array, the array; with a function, None.

    Raises
    ------
    TypeError, ValueError, RuntimeError
        See `dualad.jacobian_columns`.

    Examples
    --------
    >>> import numpy as np
    >>> from checkpoint import jacobian_rows
    >>> for i, row in jacobian_rows(lambda x: np.stack([np.sum(x), x[0] * x[1]]), np.array([3.0, 5.0])):
    ...     print(i, row)
    0 [1. 1.]
    1 [5. 3.]
    """
    return streamed(Rows(f, x, chunk, memory, executor, holomorphic, nan_safe), out, progress)


@typed_as(forward_columns)
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
    """Compute the columns of the Jacobian of `f` at `x` from one recording, without ever holding the whole matrix.

    f is evaluated once, and K tangents at a time are pushed through the recording, which holds all that f computed.
    `dualad.jacobian_columns` holds nothing, and evaluates f once a chunk; so does this function where f runs a `chain`, whose states
    are not kept, or with an executor.

    Parameters
    ----------
    f, x, chunk, out, memory, progress, executor, holomorphic, nan_safe : see `dualad.jacobian_columns`. The recording is counted in
        `memory`.

    Returns
    -------
    an iterator, `out` or None: see `dualad.jacobian_columns`.

    Raises
    ------
    TypeError, ValueError, RuntimeError
        See `dualad.jacobian_columns`.

    Examples
    --------
    >>> import numpy as np
    >>> from checkpoint import jacobian_columns
    >>> jacobian_columns(lambda x: np.sin(x) * x[::-1], np.array([0.0, 2.0]), out=np.empty((2, 2))).round(6)
    array([[2.      , 0.      ],
           [0.909297, 0.      ]])
    """
    return streamed(RecordedColumns(f, x, chunk, memory, executor, holomorphic, nan_safe), out, progress)


# --- parts ------------------------------------------------------------------------------------------------------------------


class RecordedColumns(Columns):
    """The columns of a Jacobian, from one recording where there can be one."""

    on_workers = Columns

    @property
    def size(self) -> int:
        _ = self.recording  # its memory is not that of a chunk
        return super().size

    @cached_property
    def recording(self) -> Recording | None:
        """The recorded function; None where its states are not kept."""
        if self.executor is not None:
            return None
        recording = record_array_function(self.f, self.x, self.where, self.nan_safe, self.budget)
        if getattr(recording.tape, "sweeps", ()):
            recording.release()
            if self.budget is not None:
                self.budget.kept = 0
            return None
        return recording

    def compute(self, start: int, stop: int) -> tuple[Any, Any]:
        if self.recording is None:
            return super().compute(start, stop)
        block, value = self.recording.block_of_columns(start, stop), self.recording.values[0]
        return value, np.zeros((stop - start, *shape_of(value)), dtype_by(value, self.recording.leaves[0])) if block is None else block


class Rows(Columns):
    where, what = "jacobian_rows", "row"

    @cached_property
    def recording(self) -> Recording:
        """The recorded function."""
        return record_array_function(self.f, self.x, self.where, self.nan_safe, self.budget)

    @property
    def size(self) -> int:
        return size_of(self.recording.values[0])

    @property
    def lanes(self) -> int:
        return self.recording.lanes(self.recording.values[0], self.chunk)

    def compute(self, start: int, stop: int) -> tuple[Any, Any]:
        recording = self.recording
        value, (x,) = recording.values[0], recording.leaves
        rows = None if recording.nodes[0] is None else recording.block_of_rows(0, value, start, stop)[0]
        return value, np.zeros((stop - start, *shape_of(x)), dtype_by(value, x)) if rows is None else rows


def record_array_function(f: Callable[..., Any], x: Any, where: str, nan_safe: bool, budget: Any = None) -> Recording:
    """Return the recording of a function of one array that returns one."""
    arguments = f, (x,), where, nan_safe, False
    recording = Recording(*arguments) if budget is None else budget.held(Recording, *arguments)
    if len(recording.values) != 1:
        raise TypeError(f"{where}: f returned a pytree: use jacobian, or return one array")
    return recording
