"""Trace: the level of Symbols, which enters what is done with them into a program; its errors name the user's line."""

from __future__ import annotations

import os
import sys
from collections import Counter
from typing import Any, NamedTuple

import numpy as np
from numpy._core.umath import _extobj_contextvar  # the state of floating-point errors: another object after each `np.errstate`
from numpy.lib.stride_tricks import as_strided

from ..core.dispatch import array, holds_traced, with_parts
from ..core.levels import Level, errors_as_in, new
from ..core.traced import Traced
from ..rules.calling import public_name, without_defaults
from ..rules.indexing import getitem
from ..rules.kinds import ROWS, row_says
from ..rules.reductions import Undefined, defined
from ..support.callers import asking_frame, is_handled
from ..support.costs import PROGRAM_OPERATIONS, SMALL_ARRAY_BYTES
from .program import Program, Value, dead, key_of, values_in
from .selection import Selection
from .symbol import Symbol, with_whole_bounds
from .visits import Visit, visit

#: errors that depend on the values of a call
BY_VALUE = (np.linalg.LinAlgError, ArithmeticError, IndexError, Undefined)
ATOMS = (int, float, bool, str, type(None), type(...))
UNROLLED = "loops in Python are unrolled. Write the long loop as checkpoint.chain, which is one operation, or compile its step alone"


class TraceError(TypeError):
    """The function cannot be compiled: it needs a value, or a shape, that is known only when the program runs."""

    #: a plain array may have been indexed by a traced integer
    indexed = False
    #: a value was looked at, after a test
    looked = False
    #: it takes more paths than are compiled
    many = False


def user_line():
    """Return the file and the number of the line of the user's code that is being evaluated, None if there is none."""
    frame = asking_frame(sys._getframe(1))
    return None if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def where_in(line):
    """Return a line as it is named in messages."""
    return "" if line is None else f"{os.path.basename(line[0])}, line {line[1]}: "


class Answer(NamedTuple):
    """A test: after which operation it was made, of which boolean value, its answer, the line, and where it is known, the `Visit`.

    `number` is its place in the trace, and `again` has those of tests whose answers were asked for once more before the next test.
    """

    position: int
    value: Value
    truth: bool
    line: tuple | None
    visit: Visit | None = None
    number: int = -1
    again: Any = ()


class Trace(Level):
    """The level of Symbols, and the program that their operations are added to.

    With `tests`, truth values are answered by the examples and noted, so that it is one path of the function; else they are refused. An
    integer is answered by tests for the values met before: `integers`, by the operations before and the value's number, of all traces.
    """

    abstract = True

    def __init__(self, tests=False, integers=None):
        super().__init__()
        self.tests: Any = [] if tests else None  # a list of `Answer`
        self.integers: dict[tuple[int, int], list[int]] = {} if integers is None else integers
        self.asked: dict[Any, int] = {}  # the numbers of tests
        self.frames: list = []  # of the functions whose tests are noted, and what is in their variables
        self.seen: list = []
        self.below: Any = None  # what stands for the functions that verbs differentiate in it, if not these themselves
        self.sampled = False  # there is a loop, of which examples know one turn
        self.tables = False  # plain arrays may be indexed by Symbols
        self.shown = False  # an example, in what is printed or in the message of an error
        self.given: list = []  # the examples of the inputs
        self.program = Program()
        self.known = {}
        self.outermost = self.refusal = self.raised = None  # the last: the line, and the error that depends on the values of this call
        self.tried: list = []  # operations that may raise, where the user's code handles it
        self.selections = None  # the level of what traced masks select
        self.line = None  # what is entered counts as evaluated there
        self.checked: Any = ()  # NumPy's state of floating-point errors, where they are ignored

    def __enter__(self):
        self.outermost = sys._getframe(1).f_code
        try:
            np.seterr(all="ignore")
        except BaseException:  # an interrupt, perhaps behind it: the block is not entered, so nobody calls `__exit__`
            errors_as_in(self.context)
            raise
        return super().__enter__()

    def __exit__(self, *exception):
        self.frames.clear()
        self.seen.clear()
        errors_as_in(self.context)
        super().__exit__(*exception)

    def input(self, example):
        """Return a Symbol of a new input."""
        self.given.append(example)
        return self.symbol(example, self.program.input(example))

    def symbol(self, example, value):
        s = new(Symbol)
        s.primal, s.payload, s.level, s.alias = value, example, self, None
        return s

    def lift(self, constant):
        """Return a Symbol of a plain array or number."""
        plain = constant if issubclass(type(constant), np.generic) else np.asarray(constant)
        return self.symbol(plain.copy("K"), self.constant(constant if issubclass(type(constant), np.ndarray) else plain))

    def constant(self, plain):
        """Return the value of a constant array; one met again with the same bits is the same."""
        known = self.known.get(id(plain))
        if known is not None and known[0] is plain:
            held = self.program.constants[known[1]]
            if held.tobytes() == plain.tobytes():
                return known[1]
        value = self.program.constant(np.asarray(plain))
        if not issubclass(type(plain), np.ndarray):
            value.kind = "scalar"
        self.known[id(plain)] = plain, value
        return value

    def answer(self, symbol, looking=True) -> bool:
        """Return the truth value of a Symbol's example, and note the test, unless it is of a constant or was made before."""
        example, value = self.asked_for(symbol)
        truth = bool(example)
        if value in self.program.constants:
            return truth
        if value.shape:
            symbol = symbol.reshape(())
        if value.dtype.kind != "b":
            symbol = symbol != 0
        value = self.split(symbol)[1]
        made = next((operation for operation in reversed(self.program.operations) if value in operation.outputs), None)
        key = value if made is None else (made.fn, key_of(made.args), key_of(made.kwargs), made.outputs.index(value))
        if key in self.asked:
            self.tests[-1].again.append(self.asked[key])
        else:
            index = self.asked[key] = len(self.tests)
            frame = asking_frame(sys._getframe(1)) if looking and self.line is None else None
            seen = None if frame is None else visit(frame, self)
            self.tests.append(Answer(len(self.program.operations), value, truth, self.here(), seen, index, []))
        return truth

    def whole(self, symbol) -> int:
        """Return the integer that a Symbol's example is cut off to, and note the tests for which it is this one."""
        example, value = self.asked_for(symbol)
        if value.dtype.kind == "b":
            return int(self.answer(symbol))
        met = self.integers.setdefault((len(self.program.operations), value.number), [])
        if int(example) not in met:
            met.append(int(example))
        cut = symbol if value.dtype.kind in "iu" else np.trunc(symbol)
        return next(number for number in met if self.answer(cut == number, looking=False))

    def asked_for(self, symbol):
        """Return the example of a Symbol, for the examples of the inputs with all turns of loops, and its value."""
        self.check()
        example, value = self.split(symbol)
        if self.sampled:
            example = dead(self.program.replace(outputs=[value])).run(*self.given)[0]
        return example, value

    def at(self, operation):
        """Let what is entered from here on count as evaluated where an operation of another program was."""
        self.line = operation.line

    def finish(self, outputs):
        """Return the program, with these results: Symbols, plain arrays, or literals."""
        self.program.outputs = [self.split(out)[1] if issubclass(type(out), Traced | np.ndarray) else out for out in outputs]
        return self.program

    def here(self):
        """Return the line that what is entered now counts as evaluated on."""
        return self.line or user_line()

    def refuse(self, message, indexed=False, looked=False, line=None):
        """Return the error that the function cannot be traced, naming the user's line."""
        self.refusal = TraceError(f"jit: {where_in(line or user_line())}{message}")
        self.refusal.indexed = indexed
        self.refusal.looked = bool(self.tests) and looked
        return self.refusal

    def record(self, fn, call, args, kwargs):
        """Enter ``fn(*args, **kwargs)`` and return its result as Symbols."""
        self.check()
        line, errors = self.here(), _extobj_contextvar.get(None)
        if errors is not self.checked and not {"raise", "call"}.isdisjoint(np.geterr().values()):
            raise self.refuse(
                "np.errstate or np.seterr asks for floating-point errors, which a compiled function does not raise: test the result "
                "(np.isfinite(y)) and choose with np.where, or call the function outside of jit"
            )
        self.checked = errors
        if len(self.program.operations) >= PROGRAM_OPERATIONS:
            raise self.refuse(f"more than {PROGRAM_OPERATIONS} operations are traced, most of them {self.busiest()}: {UNROLLED}")
        row = ROWS.get(fn)
        if row is None or row.canonical is None:
            args, kwargs = without_defaults(fn, args, kwargs)
        examples, entered = self.split(args)
        options, named = self.split(kwargs) if kwargs else ({}, {})
        try:
            result = call(*examples, **options)
        except BY_VALUE as error:
            if type(error) is not IndexError or self.varies(entered[1:]):
                self.raised = user_line(), error
            raise
        if result is None:
            return None
        if isinstance(result, tuple | list):
            if not all(numeric(part) for part in result):
                raise self.refuse(f"{public_name(fn)} of traced values gives {result!r}, which is no array or number")
            parts = [
                self.symbol(part, value) for part, value in zip(result, self.program.append(fn, entered, named, result, line), strict=True)
            ]
            parts[0] = self.tried_in(row, args, entered, parts[0])
            return with_parts(result, parts)
        if not numeric(result):
            raise self.refuse(f"{public_name(fn)} of traced values gives {type(result).__name__} {result!r}, which is no array or number")
        made = self.symbol(result, self.program.append(fn, entered, named, result, line))
        return self.tried_in(row, args, entered, made)

    def tried_in(self, row, args, entered, made):
        """Return a result of the operation entered last; where it may raise, and the function's code handles errors there, note it."""
        if row is None:
            return made
        divisor = row.divides  # by zero it raises, in compiled loops it gives inf as NumPy's
        divides = divisor is not None and type(made.payload) in (float, complex) and self.varies(entered[divisor])
        may_raise = divides or row.raises or (row.fn is getitem and self.varies(entered[1:]))
        if may_raise and is_handled(sys._getframe(1), self.outermost):
            if divides:
                return defined(made, np.not_equal(args[divisor], 0), "division by zero")
            self.tried.append(self.program.operations[-1])
        return made

    def varies(self, argument):
        """Return whether there are values in an argument that are no constants."""
        return any(value not in self.program.constants for value in values_in(argument))

    def busiest(self):
        """Return the name of the line that entered most operations."""
        (line, _), *_ = Counter(operation.line for operation in self.program.operations).most_common(1)
        return where_in(line).rstrip(": ") or "on an unknown line"

    def split(self, argument):
        """Return an argument with the examples of its Symbols, and as it stands in the program."""
        kind = type(argument)
        if kind is Symbol:
            if argument.level is not self:
                raise self.refuse("a value traced by another call of jit is used: pass it as an argument")
            if argument.alias is not None:
                argument._refresh()
            return argument.payload, argument.primal
        if kind in ATOMS:
            return argument, argument
        if kind is Selection:
            raise argument.needs_length("an argument x[mask] of another function")
        if isinstance(argument, Traced):
            raise self.refuse(
                f"the function uses a {kind.__name__} that it was not given (from a variable outside): its derivative would be lost. "
                f"Pass it as an argument"
            )
        if issubclass(type(argument), np.ndarray):
            if argument.dtype == object:
                if holds_traced(argument):
                    return self.split(array(argument))
                raise self.refuse("an array of Python objects is used: make it one of numbers")
            plain = argument if kind is np.ndarray else np.asarray(argument)
            return plain, self.constant(argument)
        if kind in (tuple, list):
            parts, entered = zip(*map(self.split, argument), strict=True) if argument else ((), ())
            return kind(parts), kind(entered)
        if kind is dict:
            named = {key: self.split(part) for key, part in argument.items()}
            return {key: pair[0] for key, pair in named.items()}, {key: pair[1] for key, pair in named.items()}
        if kind is slice:
            argument = with_whole_bounds(argument)
            pairs = [self.split(part) for part in (argument.start, argument.stop, argument.step)]
            if any(isinstance(pair[1], Value) for pair in pairs):
                raise self.refuse(
                    "a slice has a traced bound, so the shape would depend on the data: use np.where with a mask, or declare the "
                    "argument static (jit(f, static_argnames=...))"
                )
        return argument, argument


def numeric(x):
    """Return whether a result is a number or an array of numbers."""
    return issubclass(type(x), int | float | complex) or (issubclass(type(x), np.ndarray | np.generic) and x.dtype.kind in "biufc")


# --- examples ---------------------------------------------------------------------------------------------------------------------


class Examples:
    """Lets the large floating-point examples of a program's values share one array of ones for each dtype.

    Programs know no writes, so nobody sees that they do. Where a function raises for some numbers (a singular matrix), examples are kept.
    """

    def __init__(self, program):
        self.ones: dict[np.dtype, np.ndarray] = {}
        self.sizes: dict[np.dtype, int] = {}
        if not any(row_says(operation.fn, "raises") for operation in program.operations):
            for value in (value for operation in program.operations for value in operation.outputs if is_large(value)):
                self.sizes[value.dtype] = max(value.size, self.sizes.get(value.dtype, 0))

    def replace(self, values, held):
        """Let these values give up the memory of their examples."""
        for value in values:
            symbol = held[value]
            if type(symbol) is Symbol and value.dtype in self.sizes and is_large(value):
                symbol.payload = self.like(symbol.payload, value.dtype)

    def like(self, array, dtype):
        """Return ones with the shape and the strides of an array; the array, where it is spread over too much memory."""
        if dtype not in self.ones:
            self.ones[dtype] = np.ones(self.sizes[dtype], dtype)
        ones, steps = self.ones[dtype], [abs(step) for step in array.strides]
        extent = sum((n - 1) * step for n, step in zip(array.shape, steps, strict=True)) + dtype.itemsize
        if array.size and (extent > ones.nbytes or any(step % dtype.itemsize for step in steps)):
            return array
        return as_strided(ones, array.shape, steps)[tuple([slice(None, None, -1 if step < 0 else 1) for step in array.strides])]


def is_large(value):
    """Return whether a value is an array of floats that is not kept for its size."""
    return value.kind == "array" and value.dtype.kind in "fc" and value.size * value.dtype.itemsize > SMALL_ARRAY_BYTES
