"""Compiled: a program and its executable, and the programs of its derivatives, which are made when they are asked for.

To the interpreters it is a function with a row like any other: on Duals the values and tangents are computed by one program, on
Vars the row's VJP is the pullback program, on Symbols it is entered into the program that is being traced, operation by operation.
"""

from __future__ import annotations

import warnings

import numpy as np

from ..batch import Batch, wrap
from ..dispatch import highest
from ..dual import Dual, make_dual
from ..levels import Handle
from ..rules.kinds import Differentiable
from .differentiate import pullback, pushforward
from .emit_python import Executable, compile_python
from .passes import optimised
from .program import Program, kind_of
from .symbol import Symbol

__all__ = ["BACKENDS", "Compiled", "example_of"]

#: what makes a program ready to run, by name: ``(program) -> Executable``
BACKENDS = {"numpy": compile_python}

FEWEST = np.dtype(float)


class Compiled:
    """A program that is called with its inputs, plain or traced, and returns the tuple of its outputs."""

    def __init__(self, program: Program, backend="numpy", name="program"):
        self.__name__ = name
        self.backend = backend
        self.program = optimised(program)
        self.scalars = [i for i, value in enumerate(program.inputs) if value.kind == "scalar"]
        self.made: Executable | None = None
        self.derived: dict[object, tuple[Compiled, list[int]]] = {}
        self.row = ProgramRow(self)

    @property
    def executable(self) -> Executable:
        """What runs the program, compiled at the first use."""
        if self.made is None:
            try:
                self.made = BACKENDS[self.backend](self.program)
            except Exception as error:
                if self.backend == "numpy":
                    raise
                warnings.warn(f"jit: {self.backend} failed on {self.__name__}, NumPy runs it instead: {error!r}", stacklevel=2)
                self.made = compile_python(self.program)
        return self.made

    def __call__(self, *leaves):
        top = highest(leaves)
        if top is None:
            for i in self.scalars:
                if type(leaves[i]) is float:
                    leaves = (*leaves[:i], np.float64(leaves[i]), *leaves[i + 1 :])
            return self.executable.call(*leaves)
        if type(top) is Symbol:
            return tuple(self.program.run(*leaves))
        if type(top) is Dual:
            return self.on_duals(leaves, top.level)
        return top._interpret(self.row, leaves, {})

    def on_duals(self, leaves, level):
        """Return the outputs of Duals: values and tangents from one program."""
        level.check()
        values, tangents = list(leaves), [None] * len(leaves)
        for i, leaf in enumerate(leaves):
            if type(leaf) is Dual and leaf.level is level:
                shared = leaf._shares_written()
                values[i], tangents[i] = (np.copy(leaf.primal), leaf.tangent) if shared else (leaf.primal, leaf.tangent)
        if all(t is None for t in tangents):
            return tuple(make_dual(out, None, level) if inexact(out) else out for out in self(*values))
        outs = self.pushed(values, tangents, level.directions)
        count = len(outs) // 2
        return tuple(self.dual(out, t, level) if inexact(out) else out for out, t in zip(outs[:count], outs[count:], strict=True))

    def dual(self, out, tangent, level):
        if level.directions is not None and tangent is not None:
            return make_dual(out.item() if type(out) is np.float64 else out, tangent, level)
        return Dual._result(make_dual(out, None, level), self.row, out, tangent, level, False, ())

    # --- derived programs ---------------------------------------------------------------------------------------------------

    def pushed(self, values, tangents, directions):
        """Return the values and the tangents of the outputs (None for zero)."""
        key = "pushforward", directions, *map(signature_of, tangents)
        if key not in self.derived:
            examples = [as_kind(example_of(x), value) for x, value in zip(values, self.program.inputs, strict=True)]
            program = pushforward(self.program, examples, list(map(example_of, tangents)), directions)
            self.derived[key] = Compiled(program, self.backend, f"jvp of {self.__name__}")
        return self.derived[key](*values, *(t for t in tangents if t is not None))

    def pulled(self, values, wanted, cotangents, directions):
        """Return the cotangents of the inputs that are wanted (None for zero)."""
        key = "pullback", directions, tuple(wanted), *map(signature_of, cotangents)
        if key not in self.derived:
            examples = [as_kind(example_of(x), value) for x, value in zip(values, self.program.inputs, strict=True)]
            program = pullback(self.program, examples, wanted, list(map(example_of, cotangents)), directions)
            self.derived[key] = Compiled(program, self.backend, f"vjp of {self.__name__}")
        return self.derived[key](*values, *(g for g in cotangents if g is not None))


class ProgramRow(Differentiable):
    """The row of a compiled program, whose rules are programs."""

    kind = "program"
    uses_ans = False
    trusted = False

    def __init__(self, compiled: Compiled):
        inputs = compiled.program.inputs
        super().__init__(compiled, (), (), [i for i, value in enumerate(inputs) if value.dtype.kind in "fc"])
        self.name = compiled.__name__

    def saved(self, args, active):
        return Saved(args, active)

    def jvp(self, ans, args, kwargs, tangents):
        batches = [t for t in tangents if type(t) is Batch]
        if not batches:
            outs = self.fn.pushed(list(args), tangents, None)
            return tuple(outs[len(outs) // 2 :])
        level = batches[0].level
        tangents = [None if t is None else broadcast(t, level) for t in tangents]
        outs = self.fn.pushed(list(args), tangents, level.directions)
        return tuple(wrap(t, level) for t in outs[len(outs) // 2 :])

    def vjp(self, i, g, ans, args, kwargs):
        if not isinstance(args, Saved):
            args = Saved(args, [i])
        return args.pulled(self.fn, g)[args.active.index(i)]


class Saved(list):
    """The arguments of a program in the reverse sweep; the cotangents of all active ones are computed together."""

    def __init__(self, args, active):
        super().__init__(args)
        self.active, self.given, self.shares = list(active), None, None

    def pulled(self, compiled, g):
        """Return the cotangents of the active arguments for the cotangents `g` of the outputs."""
        if self.given is not g:
            batches = [part for part in g if type(part) is Batch]
            level = batches[0].level if batches else None
            parts = [part if level is None else broadcast(part, level) for part in g]
            wanted = [i in self.active for i in range(len(self))]
            outputs = compiled.program.outputs
            parts = [part if getattr(out, "dtype", FEWEST).kind in "fc" else None for part, out in zip(parts, outputs, strict=True)]
            shares = compiled.pulled(list(self), wanted, parts, None if level is None else level.directions)
            self.given, self.shares = g, [share if level is None else wrap(share, level) for share in shares]
        return self.shares


# --- values ---------------------------------------------------------------------------------------------------------------------


def broadcast(t, level):
    """Return the (K, ...) buffer of a Batch, or of what is the same in all directions."""
    return t.primal if type(t) is Batch else np.broadcast_to(t, (level.directions, *np.shape(t)))


def inexact(out):
    """Return whether an output can have a tangent."""
    return type(out) is float or type(out) is complex or (hasattr(out, "dtype") and out.dtype.kind in "fc")


def example_of(x):
    """Return the plain value of a value, that of the example of a Symbol."""
    while isinstance(x, Handle):
        x._refresh()
        x = x.payload if type(x) is Symbol else x.primal
    return x


def as_kind(example, value):
    """Return an example as what the program's input is to Python: a Dual holds all numbers as Python's."""
    return np.float64(example) if value.kind == "scalar" and type(example) is float else example


def signature_of(x):
    """Return what a program depends on of an input: None, or shape, dtype and kind."""
    if x is None:
        return None
    x = example_of(x)
    return getattr(x, "shape", ()), getattr(x, "dtype", type(x)), kind_of(x)
