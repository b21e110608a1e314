"""K directions at once, for the rules that are written for one.

A rule sees a `Directions` as an array of the shape of one direction; what it does to it is done to all K. It lives only inside
a rule: `Dual` and the tape wrap the (K, ...) buffers before and unwrap them after.
"""

import numpy as np

from ..core.dispatch import with_parts
from ..core.levels import new
from ..core.traced import Traced
from ..rules.batching import aligned


class Directions(Traced):
    """K arrays of one shape, on a leading axis that the rules do not see."""

    __slots__ = ()

    @property  # type: ignore[misc]
    def __class__(self):
        """The class of one direction."""
        return np.ndarray if self.shape else self.dtype.type

    @property
    def shape(self):
        """The shape of one direction."""
        return self.primal.shape[1:]

    def __repr__(self):
        return f"Directions(K={self.primal.shape[0]}, shape={self.shape})"

    def _interpret(self, row, args, kwargs, evaluate=None):
        level = self.level
        raw, batched = list(args), set()
        for i, arg in enumerate(args):
            if type(arg) is Directions and arg.level is level:
                raw[i] = arg.primal
                batched.add(i)
        ans = NotImplemented if not row.batch else row.batch(row.call, raw, kwargs, batched)
        if ans is NotImplemented:
            ans = loop(row, raw, kwargs, batched)
        if issubclass(type(ans), tuple | list):
            return with_parts(ans, [wrap(part, level) for part in ans])
        return wrap(ans, level)

    def _in_place(self, operate, other):
        """Return NotImplemented: rules do not write, and adjoints may share the buffer."""
        return NotImplemented

    def _constant(self, row, args, kwargs):
        if row.metadata:
            return row.fn(*(stand_in(arg) if type(arg) is Directions else arg for arg in args), **kwargs)
        return self._interpret(row, args, kwargs)


def stand_in(batch):
    """Return an array of the shape and dtype of one direction, in the memory of one element."""
    return np.ndarray(batch.shape, batch.dtype, np.zeros((), batch.dtype), 0, (0,) * batch.ndim)


def loop(row, args, kwargs, batched):
    """Evaluate one direction after the other; right for every function."""
    count = next(args[i].shape[0] for i in batched)
    results = [row.call(*(arg[k] if i in batched else arg for i, arg in enumerate(args)), **kwargs) for k in range(count)]
    if isinstance(results[0], tuple | list):
        return with_parts(results[0], [np.stack(part) for part in zip(*results, strict=True)])
    return np.stack(results)


def wrap(buffer, level):
    """Return a (K, ...) buffer as Directions of that level; None stays None."""
    if buffer is None:
        return None
    batch = new(Directions)
    batch.primal, batch.payload, batch.level, batch.alias = buffer, None, level, None
    return batch


def unwrap(batch, level, shape):
    """Return the (K, ...) buffer of a rule's result; one that does not depend on the direction is broadcast."""
    if batch is None:
        return None
    if type(batch) is Directions and batch.level is level:
        buffer = batch.primal
    else:
        buffer = np.broadcast_to(batch, (level.directions, *np.shape(batch)))
    return buffer if buffer.shape[1:] == shape else np.broadcast_to(aligned(buffer, len(shape)), (level.directions, *shape))
