"""Tracked: a value that says in a program how it was computed, and may be looked at.

It is a `Symbol` that has its value, so that code that branches on values can be read for its sparsity at one point: the program is
that of the way taken there. What has no derivative (comparisons, integers) is plain.
"""

import numpy as np

from ..core.conversions import map_nested
from ..core.dispatch import dtype_of, strengthen, with_parts
from ..core.levels import Level, Owner, new, shared_view, version_of
from ..core.traced import Traced
from ..core.with_numpy_value import with_numpy_value
from ..graph.program import Program
from ..graph.trace import user_line
from ..jit.compiled import ProgramRow
from ..rules.indexing import overwritten, updated
from ..rules.memory import own_to_write, shows_memory, writable


class Recorder(Level):
    """The level of Tracked values, and the program that what is done with them is entered into."""

    __slots__ = ("program",)

    def __init__(self):
        super().__init__()
        self.program = Program()

    def input(self, plain):
        return make(plain, self.program.input(plain), self)

    def entered(self, argument):
        """Return an argument as it stands in the program."""
        return map_nested(self.value_of, argument)

    def value_of(self, x):
        if type(x) is Tracked and x.level is self:
            x._refresh()
            return x.payload if x.payload is not None else self.value_of(x.primal)
        return self.program.constant(x) if type(x) is np.ndarray else x

    def plain_of(self, x):
        return x._refresh().primal if type(x) is Tracked and x.level is self else x

    def record(self, fn, call, args, kwargs):
        """Evaluate, enter it into the program and return the result: Tracked where it can have a derivative."""
        self.check()
        entered, options = self.entered(list(args)), self.entered(kwargs)
        values, plain = map_nested(self.plain_of, list(args)), map_nested(self.plain_of, kwargs)
        if not self.weak and len(values) > 1:
            strengthen(values, args)
        result = call(*values, **plain)
        if not isinstance(result, tuple | list) and dtype_of(result).kind not in "fc":
            return result
        made = self.program.append(fn, tuple(entered), options, result, user_line())
        if isinstance(result, tuple | list):
            return with_parts(result, [make(part, value, self) for part, value in zip(result, made, strict=True)])
        return make(result, made, self)


class Tracked(Traced):
    """A value and its `Value` in a program."""

    __slots__ = ()

    def __repr__(self):
        return f"Tracked({self._refresh().primal})"

    def _interpret(self, row, args, kwargs, evaluate=None):
        level = self.level
        if isinstance(row, ProgramRow):  # a compiled function: operation by operation
            return tuple(row.fn.program.run(*args))
        result = level.record(row.fn, evaluate or row.call, args, kwargs)
        if row.views(args) and type(args[0]) is Tracked and type(result) is Tracked and shows_memory(result.primal, args[0].primal):
            result.alias = shared_view(args[0], args[0].alias, row.viewed, tuple(args[1:]), kwargs)
        return result

    def _assign(self, ops, index, v):
        owned = self.alias is not None and self.alias.exclusive

        def written(x, value, index, ops):
            return overwritten(writable(x if owned else own_to_write(x), value), value, index, ops)

        result = self.level.record(updated, written, (self, v, index, tuple(ops)), {})
        self.primal, self.payload = result.primal, result.payload
        if not owned:
            self.alias = Owner(version_of(self) + 1, True)
        self.alias.version += 1


Tracked._restate = with_numpy_value  # type: ignore[method-assign]


def make(plain, value, level):
    """Return a Tracked; a number of NumPy is kept as one."""
    tracked = new(Tracked)
    tracked.primal, tracked.payload, tracked.level, tracked.alias = plain, value, level, None
    return tracked
