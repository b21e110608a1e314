"""Symbol: a value of a function that is being traced; what is done with it is entered into a `Program`.

A Symbol stands below every derivative: it is of the level of its `Trace`, which is opened before the levels of the verbs that run
inside, so the primal and the tangent of a Dual, the primal and the cotangents of a Var are Symbols, and the rules of the table
themselves enter the derivative into the program. Each carries an example (the value at the arguments of the first call), so that
shapes, dtypes, and which results are views are NumPy's own answers; the example of no Symbol reaches the program.
"""

import math
import operator
import sys

import numpy as np

from ..core.conversions import check_result
from ..core.dispatch import array, highest, holds_traced
from ..core.levels import Owner, shared_view, version_of
from ..core.traced import Traced
from ..rules.indexing import getitem, is_basic, locate, number, updated
from ..rules.kinds import COMPARISONS, OPERATORS, ROWS, row_says
from ..rules.memory import shows_memory
from ..rules.shapes import select
from ..rules.ufunc_methods import method as method_of
from ..support.callers import is_assertion, is_handled, operation
from ..support.costs import SMALL_ARRAY_BYTES
from . import selection
from .selection import apart, met_by_mask, selected, with_masks


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
            if any(isinstance(part, Traced) and part._chooses() for part in (args[1] if type(args[1]) is tuple else (args[1],))):
                return selected(args[0], args[1], trace)
            args = self.checked_index(args)
        if row.fn is updated:
            index, _ = with_masks(args[2], trace)
            args = (*args[:2], index if type(args[2]) is tuple else index[0], *args[3:])
        result = trace.record(row.fn, row.call, args, kwargs)
        if trace.objects is not None:
            check_result(row, result, trace)
        if row.views(args) and type(args[0]) is Symbol and type(result) is Symbol and shows_memory(result.payload, args[0].payload):
            result.alias = shared_view(args[0], args[0].alias, row.viewed, tuple(args[1:]), kwargs)
        return result

    def _constant(self, row, args, kwargs):
        trace = self.level
        trace.check()
        if row.metadata:
            return row.fn(*trace.split(args)[0], **trace.split(kwargs)[0])
        if type(row.data_shaped) is str:
            return getattr(selection, row.data_shaped)(*args)
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
            if method != "__call__" and row_says(ufunc, "logical") and (same := method_of(ufunc, method)) is not None:
                return same(*args, **({"axis": 0} if len(args) < 2 and "axis" not in kwargs else {}), **kwargs)
            if method != "__call__" and (ROWS[ufunc].bits or ROWS[ufunc].kind == "constant"):
                fn = getattr(ufunc, method)
                return top.level.record(fn, fn, args, kwargs)
            if row_says(ufunc, "bits") and not kwargs:
                return top.level.record(ufunc, ufunc, args, kwargs)
        return super().__array_ufunc__(ufunc, method, *args, **kwargs)

    def _chooses(self):
        return self.dtype.kind == "b"

    def _choose(self, x, index):
        return selected(x, index, self.level)

    def checked_index(self, args):
        """Return the arguments of ``getitem``; an index that is none raises."""
        index = args[1]
        for part in index if type(index) is tuple else (index,):
            if type(part) is Symbol and part.dtype.kind not in "iu":
                raise IndexError("only integers, slices, ellipsis, None and integer or boolean arrays are valid indices")
        return args[0], with_whole_bounds(index), *args[2:]

    # --- assignment -------------------------------------------------------------------------------------------------------

    def _assign(self, ops, index, v):
        trace = self.level
        trace.check()
        index = with_whole_bounds(index)
        parts, corner = with_masks(index, trace)
        if any(map(is_mask, parts)):
            self.assign_masked(ops, parts, v, corner)
            return
        if index is Ellipsis and ops and ops[-1][0] is getitem:  # x[1:] += w assigns to all of the view x[1:]
            (*ops, (_, (index,), _)) = ops
        if index is Ellipsis and not ops and type(v) is Symbol and v.primal.kind == "array" and v.level is trace and same_type(v, self):
            written = in_layout(v, self)
        elif index is Ellipsis and not ops and type(v) is np.ndarray and same_type(v, self):
            blank = v.nbytes > SMALL_ARRAY_BYTES and not np.ascontiguousarray(v).reshape(-1).view(np.uint8).any()
            written = in_layout(trace.record(np.zeros, np.zeros, (v.shape, v.dtype), {}) if blank else trace.lift(v), self)
        else:
            written = trace.record(updated, updated, (self, v, index, tuple(ops)), {})
        self.primal, self.payload, self.alias = written.primal, written.payload, Owner(version_of(self) + 1, False)

    def assign_masked(self, ops, parts, v, corner):
        """Assign where a traced mask is true: the shape of what is assigned must not depend on the data."""
        at = [k for k, part in enumerate(parts) if is_mask(part)]
        mask, before, after = parts[at[0]], parts[: at[0]], parts[at[0] + 1 :]
        if len(at) > 1 or not is_basic((*before, *after)):
            raise self.level.refuse("an assignment selects elements by a traced mask and other arrays: use np.where(mask, new, old)")
        part, place, index = met_by_mask(locate(ops, self), parts, at[0], corner)
        if index is not None:
            ops = [*ops, (getitem, (index,), {})]
        behind, shape = part.ndim - place - mask.ndim, np.shape(v)
        if len(shape) > behind:
            counted = len(shape) - 1 - (part.ndim - mask.ndim if apart(parts) else behind)  # the axis of v along what the mask chooses
            if counted >= 0 and shape[counted] != 1:
                raise self.level.refuse(
                    "x[mask] = values with a traced mask takes as many values as the mask has: use x[...] = np.where(mask, values, x)"
                )
            shape = shape[:counted] + shape[counted + 1 :] if counted >= 0 else shape
            lead = len(shape) - behind
            v = np.reshape(v, (*shape[:lead], *(1,) * mask.ndim, *shape[lead:]))
        self._assign(ops, ..., select(np.reshape(mask, mask.shape + (1,) * behind), v, part))

    def _holds_array(self):
        return self._refresh().primal.kind == "array"

    @classmethod
    def _lifted(cls, buffer, level):
        return level.lift(buffer)

    # --- what needs a value -----------------------------------------------------------------------------------------------

    def _needed(self, what, instead, indexed=False):
        return self.level.refuse(f"{what}, which is known only when the program runs: {instead}", indexed, looked=True)

    def _peek(self):
        raise self._needed("printing, formatting or asserting needs a plain value", "return it as a result, or look at it outside of jit")

    def __format__(self, spec):
        """Return the text of the example on a path that is one of several: the plain function is called there (see `Path.loud`)."""
        if not self.level.tests:
            return super().__format__(spec)
        self.level.shown = True
        return format(self._refresh().payload, spec)

    def __str__(self):
        return format(self, "") if self.level.tests else repr(self)

    def __bool__(self):
        if self.level.tests is not None:
            return self.level.answer(self)
        raise self._needed(
            "a branch (if, while, and, or, not, min, max, in) needs the truth of a traced value",
            "use np.where(condition, a, b), & | ~ and np.minimum, np.maximum; a loop that ends by a condition is chain(until=...)",
        )

    def __int__(self):
        if self.answers_integers:
            return self.level.whole(self)
        raise self._needed("int() needs a plain number", "use x.astype(int), or declare the argument static (jit(f, static_argnames=...))")

    def __hash__(self):
        frame = sys._getframe(1)
        if self.answers_integers and self.dtype.kind in "iu" and operation(frame.f_code, frame.f_lasti) in ("BINARY_SUBSCR", "CONTAINS_OP"):
            return hash(self.level.whole(self))  # nothing keeps it as a key
        raise self._needed(
            "a hash (as the key of a dict, an element of a set, an argument of a cached function) needs a plain value",
            "choose with np.where, index an array with it, or declare the argument static (jit(f, static_argnames=...))",
        )

    @property
    def answers_integers(self):
        """Whether it is a number whose integer a path of the function may know."""
        return self.level.tests is not None and not self.shape and self.dtype.kind in "biuf"

    def __index__(self):
        if self.answers_integers and self.dtype.kind != "f" and self.level.tables:
            return self.level.whole(self)
        raise self._needed(
            "an index into a list or a plain array, a length or the range of a loop needs a plain integer",
            "make a list an array (np.array), and pass what is indexed as an argument; for a length or a range declare the argument static "
            "(jit(f, static_argnames=...)); a long loop is checkpoint.chain",
            indexed=True,
        )

    @property
    def of_python(self):
        return self.primal.kind == "python" and self.dtype.char in "dl"

    def __float__(self):
        raise self._needed(
            "float() (or a function of math, or an assignment into a plain array) needs a plain number",
            "use NumPy functions (np.sin, not math.sin), write into np.zeros_like(x) of a traced x, or use np.stack([...])",
            indexed=True,
        )

    def __complex__(self):
        raise self._needed("complex() needs a plain number", "write a + 1j * b")

    def _rounded(self, ndigits):
        rounded = np.round(self, ndigits or 0)
        return number(rounded) if self.primal.kind == "python" and self.dtype.kind == "f" else rounded, self

    def __floor__(self):
        return self._cut(np.floor)

    def __ceil__(self):
        return self._cut(np.ceil)

    def __trunc__(self):
        return self._cut(np.trunc)

    def _cut(self, rounded):
        if self.answers_integers:
            return int(rounded(self))
        raise self._needed(f"math.{rounded.__name__} needs a plain number", f"use np.{rounded.__name__}")

    def __array__(self, dtype=None, copy=None):
        if dtype is not None and np.dtype(dtype) != object:
            raise self._needed(
                f"a plain array of {np.dtype(dtype)} (np.asarray, or an assignment into a plain array) needs plain values",
                "make the array with np.zeros_like(x, shape=...) or np.array(a, like=x) of a traced array x, or use np.stack([...])",
                indexed=self.dtype.kind in "biu",  # np.take of a plain array
            )
        if self.dtype.kind in "biu":
            raise self._needed(
                "a plain array is indexed by (or made of) a traced integer or mask",
                "pass the array that is indexed as an argument; choose with np.where(mask, a, b)",
                indexed=True,
            )
        return self._peek() if is_assertion(sys._getframe(1)) else super().__array__(dtype, copy)


def with_whole_bounds(index):
    """Return an index with integers in the place of the traced bounds of slices, which paths of the function know."""
    if type(index) is tuple:
        return tuple(map(with_whole_bounds, index))
    if type(index) is not slice:
        return index
    bounds = index.start, index.stop, index.step
    known = (type(bound) is Symbol and bound.answers_integers and bound.dtype.kind in "iu" for bound in bounds)
    return slice(*(int(bound) if whole else bound for bound, whole in zip(bounds, known, strict=True)))


def is_mask(part):
    """Return whether a part of an index is a traced mask."""
    return type(part) is Symbol and part.dtype.kind == "b"


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

    def binary(name, row, usual, reflected):
        def method(self, other):
            if self.primal.kind == "python" and weak(other):
                a, b = (other, self) if reflected else (self, other)
                if name != "divmod":
                    return self.level.record(row.fn, scalar_operator(row.of_numbers), (a, b), {})
                if not is_handled(sys._getframe(1), self.level.outermost):  # where a result that is not used may not raise
                    return a // b, a % b
            if name == "pow" and not reflected and type(other) is int and other == 2 and is_mask(self) and self.primal.kind == "array":
                return np.square(self)  # as NumPy's operator does: in 8 bits
            if name == "mul" and type(other) in (list, tuple) and self.primal.kind != "array":
                return NotImplemented  # Python repeats it so many times
            return usual(self, other)

        return method

    def unary(ufunc, operate, usual):
        return lambda self: self.level.record(ufunc, operate, (self,), {}) if self.primal.kind == "python" else usual(self)

    for name, row in OPERATORS.items():
        if name == "matmul":
            continue
        usual = getattr(Traced, f"__{name}__")
        if row.fn.nin == 1:
            setattr(Symbol, f"__{name}__", unary(row.fn, row.of_numbers, usual))
            continue
        setattr(Symbol, f"__{name}__", binary(name, row, usual, False))
        if name not in COMPARISONS:
            setattr(Symbol, f"__r{name}__", binary(name, row, getattr(Traced, f"__r{name}__"), True))


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
