"""Compiled: a program and its executable, and the programs of its derivatives, which are made when they are asked for.

To the interpreters it is a function with a row like any other: on Duals the values and tangents are computed by one program, on
Vars the row's VJP is the pullback program, on Symbols it is entered into the program that is being traced, operation by operation.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import optree

from ..core.dispatch import highest
from ..core.traced import Traced, example_of
from ..forward.directions import Directions, wrap
from ..forward.dual import Dual, make_dual
from ..graph.differentiate import pullback, pushforward, split_forward_backward
from ..graph.passes import optimised
from ..graph.program import Program, Value, kind_of
from ..graph.reroll import rolled
from ..graph.symbol import Symbol
from ..graph.to_numpy import Executable, compile_python
from ..rules.kinds import Differentiable
from ..support.collector import collecting_seldom
from ..support.forks import compiler
from ..support.repeated import REPEATED

if TYPE_CHECKING:
    from ..codegen.native import Native


def compile_llvm(program, threads=None):
    """Compile a program to loops; the rooms that make them are imported when the first is made."""
    with compiler():
        try:
            from ..codegen import machine  # noqa: F401  (llvmlite)
            from ..codegen.native import Native
        except Exception as error:  # where a library is broken, an OSError for one
            raise ImportError(repr(error)) from error

    with collecting_seldom:
        return Native(program, threads)


def compile_members(compiled, examples, moving):
    """Compile the loop over the members of an ensemble; None where their program has no loop form, or cannot be compiled at all."""
    with compiler():
        try:
            from ..codegen import machine  # noqa: F401  (llvmlite)
            from ..codegen.member_kernels import MemberKernels
            from ..loops.forms import NoLoopForm
        except Exception:  # of which a single call tells
            return None
    try:
        return MemberKernels(compiled.program, examples, moving, compiled.threads)
    except NoLoopForm:
        return None
    except Exception as error:
        warnings.warn(f"jit: llvm failed on the members of {compiled.__name__}, they are computed one by one: {error!r}", stacklevel=2)
        return None


def without_llvm() -> str:
    """Return why LLVM is not used, nothing where it is."""
    try:
        installed = find_spec("llvmlite") is not None
    except (ValueError, OSError):  # another module stands for it, or the path cannot be read
        installed = False
    return "" if installed else "llvmlite is not installed: pip install 'dualad[jit]'"


#: what makes a program ready to run, by name: ``(program, threads) -> Executable``
BACKENDS: dict[str, Callable] = {"numpy": compile_python, **({} if without_llvm() else {"llvm": compile_llvm})}

FLOAT = np.dtype(float)


class Compiled:
    """A program that is called with its inputs, plain or traced, and returns the tuple of its outputs.

    It `waits` for so many calls, which NumPy makes, before it is compiled; so do the programs of its derivatives.
    """

    def __init__(self, program: Program, backend="numpy", name="program", threads=None, waits=0):
        self.__name__ = name
        self.backend, self.threads, self.waits = backend, threads, waits
        self.exact = backend == "numpy"  # loops are compiled with other roundings anyway
        self.program = optimised(rolled(program, self.exact), self.exact)
        self.scalars = [i for i, value in enumerate(program.inputs) if value.kind == "scalar"]
        self.made: Executable | Native | None = None
        self.meanwhile: Executable | None = None
        self.inexact = [inexact(out) for out in self.program.outputs]
        self.derived: dict[object, Any] = {}
        self.row = ProgramRow(self, None, False)

    @property
    def executable(self) -> Executable | Native:
        """What runs the program, compiled at the first use."""
        if self.made is None:
            try:
                self.made = BACKENDS[self.backend](self.program, *([] if self.threads is None else [self.threads]))
            except Exception as error:
                if self.backend == "numpy":
                    raise
                what = f"{self.backend} failed on {self.__name__}, NumPy runs it instead"
                if isinstance(error, ImportError):  # as it will on all that follow
                    what = f"{self.backend} cannot be imported, NumPy runs what is compiled"
                    BACKENDS[self.backend] = compile_python
                warning = UserWarning(f"jit: {what}: {error!r}")
                warning.__cause__ = error
                warnings.warn(warning, stacklevel=2)
                self.made = compile_python(self.program)
                self.made.notes += f", because {self.backend} failed: {error!r}"
            self.waits, self.meanwhile = 0, None
        return self.made

    def next_executable(self) -> Executable | Native:
        """Return what makes a call of a program that is not compiled."""
        if self.waits <= 0 or REPEATED:  # several threads may count
            return self.executable
        self.waits -= 1
        meanwhile = self.meanwhile = self.meanwhile or compile_python(self.program)
        return meanwhile

    def __call__(self, *leaves):
        top = highest(leaves)
        if top is None:
            for i in self.scalars:
                if type(leaves[i]) is float:
                    leaves = (*leaves[:i], np.float64(leaves[i]), *leaves[i + 1 :])
            return (self.made or self.next_executable()).call(*leaves)
        if type(top) is Symbol:
            return tuple(self.program.run(*leaves))
        if type(top) is Dual:
            return self.on_duals(leaves, top.level)
        level = top.level
        wanted = tuple(type(leaf) is type(top) and leaf.level is level and leaf.payload is not None for leaf in leaves)
        parts = top._interpret(ProgramRow(self, wanted, level.nan_safe), leaves, {})
        return tuple([
            part if moves or not isinstance(part, Traced) else part.primal for part, moves in zip(parts, self.inexact, strict=True)
        ])  # fmt: skip

    def on_duals(self, leaves, level):
        """Return the outputs of Duals: values and tangents from one program."""
        level.check()
        values, tangents = list(leaves), [None] * len(leaves)
        for i, leaf in enumerate(leaves):
            if type(leaf) is Dual and leaf.level is level:
                shared = leaf._shares_written()
                values[i], tangents[i] = (np.copy(leaf.primal), leaf.tangent) if shared else (leaf.primal, leaf.tangent)
        if all(t is None for t in tangents):
            return tuple(make_dual(out, None, level) if moves else out for out, moves in zip(self(*values), self.inexact, strict=True))
        outs = self.pushed(values, tangents, level.directions, level.nan_safe)
        values, tangents = outs[: len(self.inexact)], outs[len(self.inexact) :]
        triples = zip(values, tangents, self.inexact, strict=True)
        return tuple(self.dual(out, t, level) if moves else out for out, t, moves in triples)

    def dual(self, out, tangent, level):
        if level.directions is not None and tangent is not None:
            return make_dual(out.item() if type(out) is np.float64 else out, tangent, level)
        return Dual._result(make_dual(out, None, level), self.row, out, tangent, level, False, ())

    def reruns(self) -> Iterator[tuple[str, int, str]]:
        """Yield the errors of compiled code after which NumPy made calls, also of derivatives: their type, count and last text."""
        if self.made is not None:
            yield from ((kind, *counted) for kind, counted in self.made.reruns.items())
        made: Any = list(self.derived.values())
        for part in optree.tree_leaves(made):
            if type(part) is Compiled:
                yield from part.reruns()

    # --- derived programs ---------------------------------------------------------------------------------------------------

    def examples(self, values):
        """Return plain values like those of a call."""
        return [as_kind(example_of(x), value) for x, value in zip(values, self.program.inputs, strict=True)]

    def compiled_like(self, program, what):
        """Return a derived program, which is compiled as this one is."""
        return Compiled(program, self.backend, f"{what} of {self.__name__}", self.threads, self.waits)

    def pushed(self, values, tangents, directions, nan_safe=False):
        """Return the values and the tangents of the outputs (None for zero)."""
        key = "pushforward", directions, nan_safe, *map(signature_of, tangents)
        if key not in self.derived:
            program = pushforward(self.program, self.examples(values), list(map(example_of, tangents)), directions, nan_safe)
            self.derived[key] = self.compiled_like(program, "jvp")
        return self.derived[key](*values, *(t for t in tangents if t is not None))

    def pulled(self, values, wanted, cotangents, directions, nan_safe=False):
        """Return the cotangents of the inputs that are wanted (None for zero)."""
        key = "pullback", directions, nan_safe, tuple(wanted), *map(signature_of, cotangents)
        if key not in self.derived:
            program = pullback(self.program, self.examples(values), wanted, list(map(example_of, cotangents)), directions, nan_safe)
            del program.outputs[sum(wanted) :]
            self.derived[key] = self.compiled_like(program, "vjp")
        return self.derived[key](*values, *(g for g in cotangents if g is not None))

    def members(self, examples, moving):
        """Return the compiled loop over members, whose inputs are stacked where they are `moving`; None where there is none."""
        key = "members", moving
        if key not in self.derived and self.backend == "llvm":
            self.derived[key] = compile_members(self, examples, moving)
        return self.derived.get(key)

    def split_forward_backward(self, values, wanted, nan_safe):
        """Return two programs: one gives the outputs and what the other needs to pull one cotangent of each back."""
        key = "split_forward_backward", nan_safe, wanted
        if key not in self.derived:
            gs = [np.ones(out.shape, out.dtype)[()] if type(out) is Value and inexact(out) else None for out in self.program.outputs]
            program = optimised(pullback(self.program, self.examples(values), wanted, gs, None, nan_safe), self.exact, adjoint=True)
            halves = split_forward_backward(program, len(self.program.inputs), sum(wanted))
            self.derived[key] = tuple(map(self.compiled_like, halves, ("forward", "backward")))
        return self.derived[key]


class ProgramRow(Differentiable):
    """The row of one call of a compiled program, whose rules are programs."""

    kind = "program"
    fn: Compiled
    uses_ans = False
    trusted = False

    def __init__(self, compiled: Compiled, wanted, nan_safe):
        self.fn, self.name, self.nan_safe = compiled, compiled.__name__, nan_safe
        self.jvps = self.vjps = ()
        self.argnums = tuple(i for i, value in enumerate(compiled.program.inputs) if value.dtype.kind in "fc")
        self.last = max(self.argnums, default=-1)
        self.wanted = wanted if wanted is not None and any(wanted) and any(map(inexact, compiled.program.outputs)) else None
        self.kept = None

    def call(self, *values):
        """Evaluate, and keep what the pullback needs."""
        if self.wanted is None:
            return self.fn(*values)
        count = len(self.fn.program.outputs)
        outs = self.fn.split_forward_backward(values, self.wanted, self.nan_safe)[0](*values)
        self.kept = outs[count:]
        return outs[:count]

    def saved(self, args, active):
        return Saved(args, active)

    def jvp(self, ans, args, kwargs, tangents):
        batches = [t for t in tangents if type(t) is Directions]
        if not batches:
            outs = self.fn.pushed(list(args), tangents, None, self.nan_safe)
            return tuple(outs[len(outs) // 2 :])
        level = batches[0].level
        tangents = [None if t is None else broadcast(t, level) for t in tangents]
        outs = self.fn.pushed(list(args), tangents, level.directions, self.nan_safe)
        return tuple(wrap(t, level) for t in outs[len(outs) // 2 :])

    def vjp(self, i, g, ans, args, kwargs):
        if not isinstance(args, Saved):
            args = Saved(args, [i])
        return args.pulled(self, g)[args.active.index(i)]


class Saved(list):
    """The arguments of a program in the reverse sweep; the cotangents of all active ones are computed together."""

    def __init__(self, args, active):
        super().__init__(args)
        self.active, self.given, self.shares = list(active), None, None

    def pulled(self, row, g):
        """Return the cotangents of the active arguments for the cotangents `g` of the outputs."""
        if self.given is g:
            return self.shares
        batches = [part for part in g if type(part) is Directions]
        level = batches[0].level if batches else None
        wanted = tuple(i in self.active for i in range(len(self)))
        outputs = row.fn.program.outputs
        parts = [part if type(out) is Value and inexact(out) else None for part, out in zip(g, outputs, strict=True)]
        if level is None and row.kept is not None and wanted == row.wanted and all(map(fits, parts, outputs)):
            backward = row.fn.split_forward_backward(self, wanted, row.nan_safe)[1]
            shares = backward(*self, *row.kept, *(g for g in parts if g is not None))
        else:
            parts = [part if part is None or level is None else broadcast(part, level) for part in parts]
            shares = row.fn.pulled(list(self), wanted, parts, None if level is None else level.directions, row.nan_safe)
        self.given, self.shares = g, [share if level is None else wrap(share, level) for share in shares]
        return self.shares


def fits(g, out):
    """Return whether a cotangent has the dtype of its output, or there is none."""
    return g is None or (type(out) is Value and getattr(g, "dtype", FLOAT) == out.dtype)


# --- values ---------------------------------------------------------------------------------------------------------------------


def broadcast(t, level):
    """Return the (K, ...) buffer of Directions, or of what is the same in all directions."""
    return t.primal if type(t) is Directions else np.broadcast_to(t, (level.directions, *np.shape(t)))


def inexact(out):
    """Return whether an output can have a tangent."""
    dtype = getattr(out, "dtype", None)  # which of a type is none
    return type(out) is float or type(out) is complex or (isinstance(dtype, np.dtype) and dtype.kind in "fc")


def as_kind(example, value):
    """Return an example as what the program's input is to Python: a Dual holds all numbers as Python's."""
    return np.float64(example) if value.kind == "scalar" and type(example) is float else example


def signature_of(x):
    """Return what a program depends on of an input: None, or shape, dtype and kind."""
    return None if x is None else kind_of(example_of(x))[:3]
