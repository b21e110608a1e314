"""Tracked: a value that says in a program how it was computed, and may be looked at.

It is a `Symbol` that has its value, so that code that branches on values can be read for its sparsity at one point: the program is
that of the way taken there. What has no derivative (comparisons, integers) is plain.
"""

import numpy as np

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
        """Return an argument as it stands in the program, and as it is."""
        kind = type(argument)
        if kind is Tracked and argument.level is self:
            argument._refresh()
            return argument.payload if argument.payload is not None else self.entered(argument.primal)[0], argument.primal
        if kind is np.ndarray:
            return self.program.constant(argument), argument
        if kind in (tuple, list):
            pairs = [self.entered(part) for part in argument]
            return kind(pair[0] for pair in pairs), kind(pair[1] for pair in pairs)
        if kind is dict:
            named = {key: self.entered(part) for key, part in argument.items()}
            return {key: pair[0] for key, pair in named.items()}, {key: pair[1] for key, pair in named.items()}
        return argument, argument

    def record(self, fn, call, args, kwargs):
        """Evaluate, enter it into the program and return the result: Tracked where it can have a derivative."""
        self.check()
        pairs = [self.entered(arg) for arg in args]
        entered, values = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        if not self.weak and len(values) > 1:
            strengthen(values, args)
        options, plain = self.entered(kwargs)
        result = call(*values, **plain)
        if isinstance(result, tuple | list):
            made = self.program.append(fn, tuple(entered), options, result, user_line())
            parts = [make(part, value, self) for part, value in zip(result, made, strict=True)]
            return with_parts(result, parts)
        if dtype_of(result).kind not in "fc":
            return result
        return make(result, self.program.append(fn, tuple(entered), options, result, user_line()), self)


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
