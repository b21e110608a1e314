"""The backend without a compiler: a program as straight-line NumPy code, which computes what the traced function does, bit for bit.

What is saved is Python's own work (attributes, protocols, branches) and buffers: a result takes the buffer of an operand that is read
for the last time, an assignment is made in place where nobody reads the old value, and large arrays are dropped after their last use.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np

from ..rules.indexing import getitem, is_basic, overwritten, scatter, updated
from ..rules.kinds import ROWS, SYMBOLS, Differentiable, row_says
from ..support.costs import SMALL_ARRAY_BYTES
from .handled import rerun_in_numpy
from .program import Program, Value, values_in

numbers = count()


class Executable:
    """A program made ready to run: `call` maps plain inputs to a tuple of outputs, `raw` the same where all arrays are in the order of
    C; `flat` and `raw_flat` map them, and an array or None, to all outputs, one after the other in that array or a new one. `bare` is
    `call` for a caller that ignores floating-point errors, and says where others are raised."""

    __slots__ = ("bare", "call", "flat", "notes", "raw", "raw_flat", "reruns", "source")

    def __init__(self, call: Callable, bare: Callable, source: str, notes: str, reruns: dict[str, tuple[int, str]]):
        self.call, self.raw, self.bare, self.source, self.notes, self.reruns = call, call, bare, source, notes, reruns
        self.flat = self.raw_flat = joined(call)


def joined(call) -> Callable:
    """Return a function of the inputs and of an array or None, which holds what `call` returns, one output after the other."""
    return lambda *given: np.concatenate([np.ravel(out) for out in call(*given[:-1])], out=given[-1])


def compile_python(program: Program, threads: int | None = None) -> Executable:
    """Make a program ready to run as straight-line NumPy code, in one thread."""
    writer = Writer(program)
    source = writer.text()
    file = f"<dualad program {next(numbers)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    exec(compile(source, file, "exec"), writer.space)
    program_in_numpy: Any = writer.space["program"]
    reruns: dict[str, tuple[int, str]] = {}

    def quiet(*inputs):
        try:
            with np.errstate(all="ignore"):
                return program_in_numpy(*inputs)
        except Exception:
            return rerun_in_numpy(program, inputs, reruns)

    def named(*inputs):
        try:
            return program_in_numpy(*inputs)
        except Exception:
            return rerun_in_numpy(program, inputs, reruns)

    called = len(program.operations)
    notes = f"NumPy: {called} operations, {writer.reused} into buffers of operands, {writer.in_place} assignments in place"
    warns = any(value.kind != "python" for operation in program.operations for value in operation.outputs)
    return Executable(quiet if warns else named, program_in_numpy, source, notes, reruns)


class Writer:
    """Writes one program as the source of a function."""

    def __init__(self, program):
        self.program = program
        self.space = {"__builtins__": {"slice": slice}, "__name__": "dualad program"}
        self.names = {}
        self.reused = self.in_place = 0
        #: for each value that may show another's memory, that one; None where it is unknown
        self.root = {}
        #: for each value, those that may show its memory and are read again
        self.views = {}

    def text(self):
        """Return the source."""
        program = self.program
        lines = [f"def program({', '.join(map(repr, program.inputs))}):"]
        for value, array in program.constants.items():
            self.space[repr(value)] = array
        self.find_roots()
        self.leave_alone = {self.rooted(value) for value in (*program.inputs, *program.constants)}
        alive_at_end = {self.rooted(value) for value in values_in(program.outputs)}
        for operation, dead in zip(program.operations, program.last_uses(), strict=True):
            line = self.statement(operation, dead)
            for value in dead:
                if value in self.root:
                    self.views[self.root[value]].discard(value)
            where = "" if operation.line is None else f"  # {operation.line[0].rsplit('/', 1)[-1]}:{operation.line[1]}"
            lines.append(f"    {line:<60}{where}".rstrip())
            large = [repr(v) for v in dead if v.size * v.dtype.itemsize >= SMALL_ARRAY_BYTES and self.rooted(v) not in alive_at_end]
            if large:
                lines.append(f"    del {', '.join(large)}")
        return "\n".join([*lines, f"    return {self.results()}", ""])

    def find_roots(self):
        """Find out whose memory each value may show: None where that is unknown."""
        for operation in self.program.operations:
            row, reads = ROWS.get(operation.fn), operation.reads
            if isinstance(operation.fn, np.ufunc) or not reads or getattr(operation.fn, "fresh", False):
                continue
            if isinstance(row, Differentiable) and row.trusted and not row.views(operation.args):
                continue
            for value in operation.outputs:
                if value.kind == "array":
                    self.root[value] = root = self.rooted(reads[0]) if row is not None and row.views(operation.args) else None
                    self.views.setdefault(root, set()).add(value)

    def rooted(self, value):
        return self.root.get(value, value)

    def statement(self, operation, dead):
        """Return the statement of one operation."""
        out, fn, args = operation.outputs[0], operation.fn, operation.args
        if fn is updated:
            return self.assignment(operation, dead)
        if fn is getitem and not operation.kwargs:
            return f"{out!r} = {self.argument(args[0])}[{self.index(args[1])}]"
        if out.kind == "python" and (operate := row_says(fn, "of_numbers")) is not None:
            if len(args) == 2:
                return f"{out!r} = {self.argument(args[0])} {SYMBOLS[row_says(fn, 'operator')]} {self.argument(args[1])}"
            return f"{out!r} = {self.name(operate)}({', '.join(map(self.argument, args))})"
        if fn is scatter and is_basic(args[1]):
            blank = f"{self.name(np.zeros)}({out.shape!r}, {self.argument(out.dtype)})"
            return f"{out!r} = {blank}; {out!r}[{self.index(args[1])}] = {self.argument(args[0])}"
        if row_says(fn, "joins"):
            joined = ", ".join(map(self.argument, args)) + ","
            options = "".join(f", {name}={self.argument(arg)}" for name, arg in operation.kwargs.items())
            return f"{out!r} = {self.name(fn)}(({joined}){options})"
        given = [self.argument(arg) for arg in args]
        if isinstance(fn, np.ufunc) and not operation.several and not operation.kwargs and out.kind == "array":
            buffer = self.buffer(out, args, dead)
            if buffer is not None:
                self.reused += 1
                given.append(f"out={buffer!r}")
        given += [f"{name}={self.argument(arg)}" for name, arg in operation.kwargs.items()]
        targets = ", ".join(map(repr, operation.outputs)) + ("," if operation.several and len(operation.outputs) == 1 else "")
        call = operation.call
        return f"{targets} = {self.name(getattr(call, 'plain', call))}({', '.join(given)})"

    def assignment(self, operation, dead):
        """Return the statements of an assignment: in place where the old value is not read again."""
        x, v, index, *ops = operation.args
        out = operation.outputs[0]
        if type(x) is Value and self.mine(x, dead):
            self.in_place += 1
            start = f"{out!r} = {x!r}"
        else:
            array = x.kind == "array" if type(x) is Value else type(x) is np.ndarray  # a view of a number would be a copy
            copied = self.argument(x)
            start = f"{out!r} = {copied}.copy('K')" if array else f"{out!r} = {self.name(np.array)}({copied})"
        part, ops = repr(out), ops[0] if ops else ()
        if any(row_says(fn, "canonical") is not None for fn, *_ in ops):  # views or copies, by the order of the elements in memory
            return f"{start}; {self.name(overwritten)}({', '.join(map(self.argument, (out, v, index, ops)))})"
        for fn, args, kwargs in ops:
            if fn is getitem:
                part = f"{part}[{self.index(args[0])}]"
            else:
                given = [part, *map(self.argument, args), *(f"{name}={self.argument(arg)}" for name, arg in kwargs.items())]
                part = f"{self.name(fn)}({', '.join(given)})"
        return f"{start}; {part}[{self.index(index)}] = {self.argument(v)}"

    def mine(self, value, dead):
        """Return whether a value dies here, was made by the program, and no living value shows its memory."""
        if value.kind != "array" or value not in dead or self.root.get(value, value) is not value or value in self.leave_alone:
            return False
        return not any(other not in dead for root in (value, None) for other in self.views.get(root, ()))

    def buffer(self, out, args, dead):
        """Return the operand whose buffer a ufunc's result may take, None if there is none."""
        if any(type(arg) is Value and arg.ndim and arg.layout != "C" for arg in args) or out.layout != "C" or not out.ndim:
            return None
        for arg in args:
            if type(arg) is Value and arg.shape == out.shape and arg.dtype == out.dtype and self.mine(arg, dead):
                return arg
        return None

    def results(self):
        """Return the tuple of outputs: arrays of their own, which share no memory with one another or with what was given."""
        seen, texts = set(), []
        for out in self.program.outputs:
            text = self.argument(out)
            if type(out) is Value and out.kind == "array":
                root = self.rooted(out)
                if root is not out or out in seen or out in self.leave_alone:
                    text += ".copy('K')"
                seen.add(out)
            texts.append(text)
        return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"

    # --- arguments ----------------------------------------------------------------------------------------------------------

    def argument(self, arg):
        """Return the source of an argument."""
        kind = type(arg)
        if kind is Value or kind in (int, bool, str, bytes, type(None), type(...)):
            return "..." if arg is ... else repr(arg)
        if kind is float and arg - arg == 0.0:
            return repr(arg)
        if kind in (tuple, list) and not any(type(part) is np.ndarray for part in arg):
            inner = ", ".join(map(self.argument, arg)) + ("," if kind is tuple and len(arg) == 1 else "")
            return f"({inner})" if kind is tuple else f"[{inner}]"
        if kind is dict:
            return "{" + ", ".join(f"{key!r}: {self.argument(value)}" for key, value in arg.items()) + "}"
        if kind is slice:
            return f"slice({', '.join(map(self.argument, (arg.start, arg.stop, arg.step)))})"
        return self.name(arg)

    def index(self, index):
        """Return the source of an index, as it stands between brackets."""
        parts = index if type(index) is tuple else (index,)
        if not parts:
            return "()"
        texts = []
        for part in parts:
            if type(part) is slice:
                ends = ["" if end is None else self.argument(end) for end in (part.start, part.stop, part.step)]
                texts.append(":".join(ends if part.step is not None else ends[:2]))
            else:
                texts.append(self.argument(part))
        return ", ".join(texts) + ("," if type(index) is tuple and len(parts) == 1 else "")

    def name(self, thing):
        """Return the name under which the function knows a function or any other object."""
        known = self.names.get(id(thing))
        if known is None:
            plain = getattr(thing, "__name__", type(thing).__name__)
            plain = plain if isinstance(plain, str) and plain.isidentifier() else "fn"
            known = plain if plain not in self.space else next(name for k in count(2) if (name := f"{plain}_{k}") not in self.space)
            self.space[known] = thing
            self.names[id(thing)] = known
        return known
