"""Symbol: a value of a function that is being traced; what is done with it is entered into a `Program`.

A Symbol stands below every derivative: it is of the level of its `Trace`, which is opened before the levels of the verbs that run
inside, so the primal and the tangent of a Dual, the primal and the cotangents of a Var are Symbols, and the rules of the table
themselves enter the derivative into the program. Each carries an example (the value at the arguments of the first call), so that
shapes, dtypes, and which results are views are NumPy's own answers; the example of no Symbol reaches the program.
"""

from __future__ import annotations

import math
import operator
import os
import sys
from collections import Counter
from pathlib import Path

import numpy as np

from ..core.dispatch import array, highest, holds_traced
from ..core.levels import Level, Owner, errors_as_in, new, shared_view, version_of
from ..core.methods import BINARY, COMPARE, UNARY
from ..core.traced import Traced
from ..forward.dual import shows_memory
from ..rules.calling import public_name, without_defaults
from ..rules.indexing import getitem, is_basic
from ..rules.kinds import ROWS, row_says
from ..rules.shapes import select
from ..rules.ufunc_methods import METHODS
from ..support.callers import asserting, handles
from ..support.costs import PROGRAM_OPERATIONS, SMALL_ARRAY_BYTES
from .program import Program, Value, updated, values_in

__all__ = ["BY_VALUE", "Symbol", "Trace", "TraceError", "user_line", "where_in"]

PACKAGES = Path(__file__).parents[2]
ROOMS = (PACKAGES / "dualad", PACKAGES / "checkpoint", Path(np.__file__).parent)
LIBRARIES = (*(f"{path}{os.sep}" for path in ROOMS), "<dualad", "<__array")

#: rows whose results have a shape that depends on values

#: errors that depend on the values of a call
BY_VALUE = (np.linalg.LinAlgError, ArithmeticError, IndexError)
#: of Python numbers raise at zero, in compiled loops give inf as NumPy's: which operand counts
DIVISIONS = {np.true_divide: 1, np.floor_divide: 1, np.remainder: 1, np.divmod: 1, np.power: 0, np.float_power: 0}
ATOMS = (int, float, bool, str, type(None), type(...))
UNROLLED = "loops in Python are unrolled. Write the long loop as checkpoint.chain, which is one operation, or compile its step alone"


class TraceError(TypeError):
    """The function cannot be compiled: it needs a value, or a shape, that is known only when the program runs."""

    #: a plain array may have been indexed by a traced integer
    indexed = False


def user_line():
    """Return the file and the number of the line of the user's code that is being evaluated, None if there is none."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(LIBRARIES):
        frame = frame.f_back
    return None if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def where_in(line):
    """Return a line as it is named in messages."""
    return "" if line is None else f"{os.path.basename(line[0])}, line {line[1]}: "


class Trace(Level):
    """The level of Symbols, and the program that what is done with them is entered into."""

    __slots__ = ("divided", "known", "line", "outermost", "program", "raised", "refusal", "tried")
    abstract = True

    def __init__(self):
        super().__init__()
        self.program = Program()
        self.known = {}
        self.outermost = self.refusal = self.raised = None  # the last: the line, and the error that depends on the values of this call
        self.tried: list = []  # operations that may raise, where the user's code handles it
        self.divided: list = []  # divisions of Python numbers, where it does
        self.line = None  # what is entered counts as evaluated there

    def __enter__(self):
        self.outermost = sys._getframe(1).f_code
        try:
            np.seterr(all="ignore")
        except BaseException:  # an interrupt, perhaps behind it: the block is not entered, so nobody calls `__exit__`
            errors_as_in(self.context)
            raise
        return self

    def __exit__(self, *exception):
        errors_as_in(self.context)
        super().__exit__(*exception)

    def input(self, example):
        """Return a Symbol of a new input."""
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

    def at(self, operation):
        """Let what is entered from here on count as evaluated where an operation of another program was."""
        self.line = operation.line

    def finish(self, outputs):
        """Return the program, with these results: Symbols, plain arrays, or literals."""
        self.program.outputs = [self.split(out)[1] if issubclass(type(out), Traced | np.ndarray) else out for out in outputs]
        return self.program

    def refuse(self, message, indexed=False):
        """Return the error that the function cannot be traced, naming the user's line."""
        self.refusal = TraceError(f"jit: {where_in(user_line())}{message}")
        self.refusal.indexed = indexed
        return self.refusal

    def record(self, fn, call, args, kwargs):
        """Enter ``fn(*args, **kwargs)`` and return its result as Symbols."""
        self.check()
        if not {"raise", "call"}.isdisjoint(np.geterr().values()):
            raise self.refuse(
                "np.errstate or np.seterr asks for floating-point errors, which a compiled function does not raise: test the result "
                "(np.isfinite(y)) and choose with np.where, or call the function outside of jit"
            )
        if len(self.program.operations) >= PROGRAM_OPERATIONS:
            raise self.refuse(f"more than {PROGRAM_OPERATIONS} operations are traced, most of them {self.busiest()}: {UNROLLED}")
        if (row := ROWS.get(fn)) is None or row.canonical is None:
            args, kwargs = without_defaults(fn, args, kwargs)
        examples, entered = self.split(args)
        options, named = self.split(kwargs)
        try:
            result = call(*examples, **options)
        except BY_VALUE as error:
            if type(error) is not IndexError or self.varies(entered[1:]):
                self.raised = user_line(), error
            raise
        if result is None:
            return None
        line = self.line or user_line()
        if isinstance(result, tuple | list):
            if not all(numeric(part) for part in result):
                raise self.refuse(f"{public_name(fn)} of traced values gives {result!r}, which is no array or number")
            parts = [
                self.symbol(part, value) for part, value in zip(result, self.program.append(fn, entered, named, result, line), strict=True)
            ]
            self.note_tried(fn, entered, result[0])
            return type(result)(parts) if type(result) in (tuple, list) else type(result)(*parts)
        if not numeric(result):
            raise self.refuse(f"{public_name(fn)} of traced values gives {type(result).__name__} {result!r}, which is no array or number")
        made = self.symbol(result, self.program.append(fn, entered, named, result, line))
        self.note_tried(fn, entered, result)
        return made

    def note_tried(self, fn, entered, example):
        """Note the operation entered last where it may raise, and the function's code handles errors there."""
        divides = fn in DIVISIONS and type(example) in (float, complex) and self.varies(entered[DIVISIONS[fn]])
        may_raise = divides or row_says(fn, "raises") or (fn is getitem and self.varies(entered[1:]))
        if may_raise and handles(sys._getframe(1), self.outermost):
            (self.divided if divides else self.tried).append(self.program.operations[-1])

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
            pairs = [self.split(part) for part in argument]
            return kind(pair[0] for pair in pairs), kind(pair[1] for pair in pairs)
        if kind is dict:
            pairs = {key: self.split(part) for key, part in argument.items()}
            return {key: pair[0] for key, pair in pairs.items()}, {key: pair[1] for key, pair in pairs.items()}
        if kind is slice:
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


class Symbol(Traced):
    """A value that is traced: `primal` is its `Value` in the program, `payload` its example."""

    __slots__ = ()

    def __repr__(self):
        self._refresh()
        return f"Symbol({self.primal}: {self.primal.type})"

    # --- operations -------------------------------------------------------------------------------------------------------

    def _interpret(self, row, args, kwargs, evaluate=None):
        trace = self.level
        trace.check()
        if row.fn is getitem:
            args = self.checked_index(args)
        result = trace.record(row.fn, row.call, args, kwargs)
        if row.views(args) and type(args[0]) is Symbol and type(result) is Symbol and shows_memory(result.payload, args[0].payload):
            result.alias = shared_view(args[0], args[0].alias, row.viewed, tuple(args[1:]), kwargs)
        return result

    def _constant(self, row, args, kwargs):
        trace = self.level
        trace.check()
        if row.metadata:
            return row.fn(*trace.split(args)[0], **trace.split(kwargs)[0])
        if row.data_shaped:
            raise trace.refuse(
                f"{row.name} of a traced value has a shape that depends on the data, which a program cannot have: use "
                f"np.where(mask, a, b), or sums and products with the mask"
            )
        return trace.record(row.fn, row.fn, args, kwargs)

    def _below(self, fn, args, kwargs):
        return self.level.record(fn, fn, args, kwargs)

    def __array_ufunc__(self, ufunc, method, *args, **kwargs):
        if any(map(holds_traced, args)) and method != "at":
            args = tuple(array(arg) if holds_traced(arg) else arg for arg in args)
        top = highest((*args, *kwargs.values()), deep=True)
        if type(top) is Symbol:
            if not any(isinstance(arg, Traced) for arg in args):  # but a mask, or what is written into
                args = (top.level.lift(args[0]), *args[1:])
            if method != "__call__" and row_says(ufunc, "logical") and (same := METHODS.get((ufunc, method))) is not None:
                return same(*args, **({"axis": 0} if len(args) < 2 and "axis" not in kwargs else {}), **kwargs)
            if method != "__call__" and (ROWS[ufunc].bits or ROWS[ufunc].kind == "constant"):
                fn = getattr(ufunc, method)
                return top.level.record(fn, fn, args, kwargs)
            if row_says(ufunc, "bits") and not kwargs:
                return top.level.record(ufunc, ufunc, args, kwargs)
        return super().__array_ufunc__(ufunc, method, *args, **kwargs)

    def checked_index(self, args):
        """Return the arguments of ``getitem``; an index that gives a shape depending on data raises."""
        index, trace = args[1], self.level
        for part in index if type(index) is tuple else (index,):
            if type(part) is Symbol and part.dtype.kind == "b":
                raise trace.refuse(
                    "a boolean mask that is traced selects elements, so the shape would depend on the data: use np.where(mask, x, 0.0), "
                    "np.sum(..., where=mask); to assign, x[mask] = number works"
                )
            if type(part) is Symbol and part.dtype.kind not in "iu":
                raise IndexError("only integers, slices, ellipsis, None and integer or boolean arrays are valid indices")
        return args

    # --- assignment -------------------------------------------------------------------------------------------------------

    def _assign(self, ops, index, v):
        trace = self.level
        trace.check()
        parts = index if type(index) is tuple else (index,)
        if any(map(is_mask, parts)):
            self.assign_masked(ops, parts, v)
            return
        if index is Ellipsis and ops and ops[-1][0] is getitem:  # x[1:] += w assigns to all of the view x[1:]
            (*ops, (_, (index,), _)) = ops
        if index is Ellipsis and not ops and type(v) is Symbol and v.primal.kind == "array" and v.level is trace and same_type(v, self):
            written = in_layout(v, self)
        elif index is Ellipsis and not ops and type(v) is np.ndarray and same_type(v, self):
            blank = v.nbytes > SMALL_ARRAY_BYTES and not np.ascontiguousarray(v).reshape(-1).view(np.uint8).any()
            written = trace.record(np.zeros, np.zeros, (v.shape, v.dtype), {}) if blank else trace.lift(v)
        else:
            written = trace.record(updated, updated, (self, v, index, tuple(ops)), {})
        self.primal, self.payload, self.alias = written.primal, written.payload, Owner(version_of(self) + 1, False)

    def assign_masked(self, ops, parts, v):
        """Assign where a traced mask is true: the shape of what is assigned must not depend on the data."""
        at = [k for k, part in enumerate(parts) if is_mask(part)]
        mask, before, after = parts[at[0]], parts[: at[0]], parts[at[0] + 1 :]
        if len(at) > 1 or not is_basic((*before, *after)):
            raise self.level.refuse("an assignment selects elements by a traced mask and other arrays: use np.where(mask, new, old)")
        if before or after:
            ops = [*ops, (getitem, ((*before, *(slice(None),) * mask.ndim, *after),), {})]
        part = self
        for fn, arguments, options in ops:
            part = fn(part, *arguments, **options)
        kept = lambda parts: sum(part is None or type(part) is slice for part in parts)
        behind = kept(after) if any(part is Ellipsis for part in before) else part.ndim - kept(before) - mask.ndim
        met, shape = part.shape[part.ndim - behind - mask.ndim : part.ndim - behind], np.shape(v)
        if met != mask.shape:
            raise IndexError(f"boolean index did not match indexed array: the mask has shape {mask.shape}, the axes that it meets {met}")
        if len(shape) > behind:
            counted = len(shape) - 1 - (part.ndim - mask.ndim if apart(parts) else behind)  # the axis of v along what the mask chooses
            if counted >= 0 and shape[counted] != 1:
                raise self.level.refuse(
                    "x[mask] = values with a traced mask takes as many values as the mask has: use x[...] = np.where(mask, values, x)"
                )
            shape = shape[:counted] + shape[counted + 1 :] if counted >= 0 else shape
            lead = len(shape) - behind
            v = np.reshape(v, (*shape[:lead], *(1,) * mask.ndim, *shape[lead:]))
        chosen = select(np.reshape(mask, mask.shape + (1,) * behind), v, part)
        if chosen.dtype != part.dtype:
            chosen = chosen.astype(part.dtype)
        self._assign(ops, ..., chosen)

    def _holds_array(self):
        return self._refresh().primal.kind == "array"

    @classmethod
    def _lifted(cls, buffer, level):
        return level.lift(buffer)

    # --- what needs a value -----------------------------------------------------------------------------------------------

    def _needed(self, what, instead, indexed=False):
        return self.level.refuse(f"{what} of a traced value, which is known only when the program runs: {instead}", indexed)

    def _peek(self):
        raise self._needed(
            "the plain value (to print, format or assert it) is asked", "return it as a result, or look at it outside of jit"
        )

    def __bool__(self):
        raise self._needed(
            "a branch (if, while, and, or, not, min, max, in) asks for the truth",
            "use np.where(condition, a, b), & | ~ and np.minimum, np.maximum; a loop that ends by a condition is chain(until=...)",
        )

    def __int__(self):
        raise self._needed("int() is asked", "use x.astype(int), or declare the argument static (jit(f, static_argnames=...))")

    def __hash__(self):
        raise self._needed(
            "a hash (as the key of a dict, an element of a set, an argument of a cached function) is asked",
            "choose with np.where, index an array with it, or declare the argument static (jit(f, static_argnames=...))",
        )

    def __index__(self):
        raise self._needed(
            "an integer (an index into a list or a plain array, a length, the range of a loop) is asked",
            "make a list an array (np.array), and pass what is indexed as an argument; for a length or a range declare the argument static "
            "(jit(f, static_argnames=...)); a long loop is checkpoint.chain",
            indexed=True,
        )

    def __float__(self):
        raise self._needed(
            "float() (or a function of math, or an assignment into a plain array) is asked",
            "use NumPy functions (np.sin, not math.sin), write into np.zeros_like(x) of a traced x, or use np.stack([...])",
        )

    def __complex__(self):
        raise self._needed("complex() is asked", "write a + 1j * b")

    def __round__(self, ndigits=None):
        return np.round(self, ndigits or 0)

    def __floor__(self):
        raise self._needed("math.floor is asked", "use np.floor")

    def __ceil__(self):
        raise self._needed("math.ceil is asked", "use np.ceil")

    def __trunc__(self):
        raise self._needed("math.trunc is asked", "use np.trunc")

    def __array__(self, dtype=None, copy=None):
        if dtype is not None and np.dtype(dtype) != object:
            raise self._needed(
                f"a plain array of {np.dtype(dtype)} is asked (np.asarray, or an assignment into a plain array)",
                "make the array with np.zeros_like(x, shape=...) or np.array(a, like=x) of a traced array x, or use np.stack([...])",
                indexed=self.dtype.kind in "biu",  # np.take of a plain array
            )
        if self.dtype.kind in "biu":
            raise self._needed(
                "a plain array is indexed by (or made of) an integer or a mask",
                "pass the array that is indexed as an argument; choose with np.where(mask, a, b)",
                indexed=True,
            )
        return self._peek() if asserting(sys._getframe(1)) else super().__array__(dtype, copy)


def is_mask(part):
    """Return whether a part of an index is a traced mask."""
    return type(part) is Symbol and part.dtype.kind == "b"


def apart(parts):
    """Return whether slices part the integers and the mask of an index: NumPy then puts what the mask chooses first."""
    chooses = [not (part is None or part is Ellipsis or type(part) is slice) for part in parts]
    return not all(chooses[chooses.index(True) : len(parts) - chooses[::-1].index(True)])


def same_type(a, b):
    """Return whether two arrays are of one shape and dtype."""
    return a.shape == b.shape and a.dtype == b.dtype


def in_layout(v, x):
    """Return a Symbol in the memory layout of another: `ravel` and `reshape` of what is assigned are views where they were before."""
    old, new = x.payload, v.payload
    if old.strides == new.strides:
        return v
    if old.flags.forc:
        return v.level.record(np.copy, np.copy, (v,), {"order": "F" if old.flags.fnc else "C"})
    return v.level.record(updated, updated, (x, v, ..., ()), {})


def weak(x):
    """Return whether an operand is a Python number, or stands for one."""
    return x.primal.kind == "python" if type(x) is Symbol else type(x) in (int, float, bool, complex)


def define_operators():
    """Define the operators of Symbol: of Python numbers they are Python's, whose results are Python numbers again."""

    def binary(ufunc, operate, usual, reflected):
        def method(self, other):
            if self.primal.kind == "python" and weak(other):
                pair = (other, self) if reflected else (self, other)
                return self.level.record(ufunc, scalar_operator(operate), pair, {})
            return usual(self, other)

        return method

    def unary(ufunc, operate, usual):
        return lambda self: self.level.record(ufunc, operate, (self,), {}) if self.primal.kind == "python" else usual(self)

    for name, ufunc in {**BINARY, **COMPARE}.items():
        if name in ("matmul", "divmod"):
            continue
        operate = getattr(operator, f"__{name}__")
        setattr(Symbol, f"__{name}__", binary(ufunc, operate, getattr(Traced, f"__{name}__"), False))
        if name in BINARY:
            setattr(Symbol, f"__r{name}__", binary(ufunc, operate, getattr(Traced, f"__r{name}__"), True))
    for name, ufunc in UNARY.items():
        setattr(Symbol, f"__{name}__", unary(ufunc, getattr(operator, f"__{name}__"), getattr(Traced, f"__{name}__")))


def scalar_operator(operate):
    """Return Python's operator; where it raises (1.0 / 0.0) or leaves the reals for this example, any number will do."""

    def example(a, b):
        try:
            result = operate(a, b)
        except ArithmeticError:
            return 0 if type(a) is type(b) is int and operate is not operator.truediv else math.nan
        return math.nan if type(result) is complex and complex not in (type(a), type(b)) else result

    return example


define_operators()
