"""Traced: the base class of traced values, as NumPy and Python see it.

NumPy's protocols (``__array_ufunc__``, ``__array_function__``), the operators and the ndarray methods all end in one
place, `dispatch.apply`. Here is what does not depend on the interpreter: Python's and NumPy's protocols, indexing and
assignment, views.
"""

from __future__ import annotations

import operator
import sys
from typing import Any

import numpy as np

from ..rules.calling import public_name
from ..rules.constants import stopped
from ..rules.cotangents import Shaped
from ..rules.indexing import cast, discretize, getitem, locate
from ..rules.kinds import ROWS, Composite, Differentiable
from ..rules.sparse import is_sparse, sparse_matmul
from ..support.callers import asks_exactly, is_assertion
from .conversions import STANDING, Description, Text, as_objects, conversion_error, defers_to_container, lift, lifter_of
from .dispatch import apply, apply_method, array, dtype_of, highest, holds_traced, masked_call, pack, plain_of, primal, strengthen
from .flat import Flat
from .levels import Handle, Owner, View, new, version_of
from .options import cast_operands, inexact, taken_options

GETITEM = ROWS[getitem]
PLAIN = {float, int, bool, complex, np.ndarray, np.float64}
VALUES = (np.ndarray, np.generic, int, float, complex)
become = object.__dict__["__class__"].__set__  # changes the type of a handle, whose `__class__` is that of its value


class Traced(Shaped, Handle):
    """A value that is being differentiated: a number or an ndarray to the code that uses it. Subclasses are interpreters; they say what
    an operation does (`_interpret`), and how a part of the value is replaced (`_assign`)."""

    __slots__ = ()
    __array_priority__ = 1000.0
    device = "cpu"  # as NumPy's arrays

    @property
    def of_python(self) -> bool:
        """Whether it stands for a number of Python."""
        return False

    # --- what a subclass says ---------------------------------------------------------------------------------------------

    def _interpret(self, row, args, kwargs, evaluate=None):
        """Evaluate a row; `self` is of the highest level among the arguments."""
        raise NotImplementedError

    def _constant(self, row, args, kwargs):
        """Evaluate a function without derivative: one level down."""
        return self._below(row.fn, args, kwargs)

    def _restate(self, fn, body, args, kwargs):
        """Evaluate the body of a function whose value NumPy may compute to other last bits; an interpreter of values takes NumPy's."""
        return body(*args, **kwargs)

    def _below(self, fn, args, kwargs):
        """Evaluate a function one level down."""
        level = self.level
        level.check()
        given = (*args, *kwargs.values())
        values = [with_values(arg, level) for arg in given]
        if not level.weak and len(given) > 1:
            strengthen(values, given)
        return fn(*values[: len(args)], **dict(zip(kwargs, values[len(args) :], strict=True)))

    def _assign(self, ops, index, v):
        """Replace the part of this handle that `ops` and then `index` show by `v`, which is of no higher level."""
        raise NotImplementedError

    # --- NumPy's protocols ------------------------------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc, method, *args, **kwargs):
        if method != "__call__":
            return apply_method(ufunc, method, args, kwargs)
        if kwargs:
            row = ROWS.get(ufunc)
            where = kwargs.pop("where", True)
            if kwargs and isinstance(row, Differentiable | Composite):
                dtype, casting, order = taken_options(ufunc, kwargs)
                if dtype is not None and not inexact(dtype, row.name):
                    casting = {} if casting is None else {"casting": casting}
                    return highest(args)._below(ufunc, args, {**kwargs, "dtype": dtype, **casting})
                if dtype is not None or casting is not None:
                    args = cast_operands(ufunc, args, dtype, casting)
                if order != "K":
                    return write_in_order(ufunc, args, kwargs, order)
                if casting is not None and "out" in kwargs and where is True:
                    kwargs["casting"] = casting  # for what is written
            if where is not True:
                return masked_call(ufunc, args, kwargs, where)
        if ufunc is np.matmul and any(map(is_sparse, args)):
            return sparse_matmul(*args)
        for arg in args:
            kind: Any = type(arg)
            if kind is list:
                args = tuple(map(pack, args))
            elif kind not in PLAIN and not isinstance(arg, Traced):
                if kind in STANDING or lifter_of(kind) is not None:
                    args = tuple(map(lift, args))
                elif defers_to_container((kind,)):
                    return NotImplemented
        return apply(ufunc, args, kwargs)

    def __array_function__(self, fn, types, args, kwargs):
        if len(types) > 1:
            if any(map(lifter_of, types)):
                args, kwargs = lift(args), lift(kwargs)
            elif defers_to_container(types):
                return NotImplemented
        if (
            type(row := ROWS.get(fn)) is Composite
            and row.direct
            and row.required <= len(args) <= row.most
            and not (kwargs and ("out" in kwargs or (row.dtype_at is not None and "dtype" in kwargs)))
            and self.level.objects is None
            and not (row.with_numpy_value and row.restates(args, kwargs))
        ):
            return row.body(*args, **kwargs)
        return apply(fn, (self, *args) if row is not None and row.like else args, kwargs)

    @classmethod
    def __dualad_apply__(cls, fn, args, kwargs):
        return apply(fn, args, kwargs)

    def __array__(self, dtype=None, copy=None):
        dtype = np.dtype(object if dtype is None else dtype)
        if is_assertion(sys._getframe(1)):
            return np.array(plain_of(self), None if dtype.kind == "O" else dtype)
        if dtype.kind in "biu":  # no derivative is lost
            return np.array(primal(self)).astype(dtype)
        if dtype.kind != "O":
            raise conversion_error(
                self,
                f"a plain array of {dtype}",
                "drop the dtype if one was given, use np.stack([...]) or dualad.array([...]), make the array with np.zeros_like(x) of a "
                "traced x, or take dualad.primal(x)",
            )
        return as_objects(self, copy)

    # --- Python's protocols -----------------------------------------------------------------------------------------------

    def __bool__(self):
        return bool(self._peek())

    def __int__(self):
        return int(self._peek())

    def __index__(self):
        return operator.index(self._peek())

    def __float__(self):
        if is_assertion(sys._getframe(1)):
            return float(plain_of(self))
        raise conversion_error(
            self,
            "float()",
            "use NumPy functions (np.sin, not math.sin); to fill an array write into np.zeros_like(x) of a traced x or use "
            "np.stack([...]); for the plain number take dualad.primal(x)",
        )

    def __complex__(self):
        raise conversion_error(self, "complex()", "write a + 1j * b, or take dualad.primal(x) for the plain number")

    def __len__(self):
        if self.ndim == 0:
            raise TypeError("len() of an unsized (0-dimensional) traced value")
        return self.shape[0]

    def __iter__(self):
        if self.ndim == 0:
            raise TypeError("iteration over a 0-dimensional traced value")
        return (self[i] for i in range(self.shape[0]))

    def __contains__(self, item):
        return bool(np.any(np.equal(self, item)))

    def __format__(self, spec):
        return Text(format(self._peek(), spec)) if spec else Description(self)

    def __reduce__(self):
        raise TypeError(
            f"a traced {type(self).__name__} cannot be pickled: it belongs to a derivative call that is running. Pickle dualad.primal(x)"
        )

    def __copy__(self):
        return self.copy("K")

    def __deepcopy__(self, memo):
        return self.__copy__()

    def __round__(self, ndigits=None):
        """Return a constant; but of eight or more decimals, which tidy a result up, the value itself to derivatives."""
        rounded, plain = self._rounded(ndigits)
        return self + stopped(rounded - plain) if ndigits is not None and ndigits >= 8 and self.dtype.kind == "f" else rounded

    def _rounded(self, ndigits):
        """Return the rounded value, and the value."""
        value = self._peek()
        return round(value) if ndigits is None else round(value, ndigits), value

    def __floor__(self):
        return int(np.floor(self._peek()))

    def __ceil__(self):
        return int(np.ceil(self._peek()))

    __trunc__ = __int__

    def _peek(self):
        """Return the value one level down, with the level checked."""
        self.level.check()
        self._refresh()
        return self.primal

    # --- attributes -------------------------------------------------------------------------------------------------------

    @property  # type: ignore[misc]
    def __class__(self):
        """The class of the value, so that ``isinstance`` answers as for the value itself; ``type(x)`` is that of the interpreter."""
        if asks_exactly(sys._getframe(1)):
            return type(self)
        value = self
        while isinstance(value, Traced):
            level, value = value.level, value.payload if value.level.abstract else value.primal
        kind = type(value)
        if kind is float and not (level.weak or level.abstract):  # such levels keep float64 scalars as Python's
            return np.float64
        return kind if issubclass(kind, VALUES) else type(self)

    @property
    def shape(self):
        """The shape of the value."""
        if self.alias is not None:
            self._refresh()
        return getattr(self.primal, "shape", ())

    @property
    def dtype(self):
        """The dtype of the value."""
        if self.level.objects is not None and sys._getframe(1).f_globals.get("__name__") == "numpy._core._methods":
            raise AttributeError  # np.mean, var and std of an object array would convert their result to this dtype
        return dtype_of(self.primal)

    @property
    def itemsize(self):
        """The bytes of one element of the value."""
        return self.dtype.itemsize

    @property
    def nbytes(self):
        """The bytes of the value."""
        return self.size * self.itemsize

    @property
    def T(self):
        """The transpose."""
        return np.transpose(self)

    @property
    def mT(self):
        """The transpose of the last two axes."""
        return np.swapaxes(self, -1, -2)

    @property
    def real(self):
        """The real part."""
        return np.real(self)

    @real.setter
    def real(self, v):
        np.real(self)[...] = v

    @property
    def imag(self):
        """The imaginary part."""
        return np.imag(self)

    @imag.setter
    def imag(self, v):
        if self.dtype.kind != "c":
            raise TypeError("array does not have imaginary part to set")
        np.imag(self)[...] = v

    @property
    def flat(self):
        """The elements in C order, to iterate over, read and write."""
        return Flat(self)

    @flat.setter
    def flat(self, v):
        Flat(self)[...] = v

    # --- indexing and assignment ------------------------------------------------------------------------------------------

    def __getitem__(self, index):
        return self._interpret(GETITEM, (self, index), {})

    def _chooses(self):
        """Return whether it makes ``x[it]`` a selection, whose length depends on data: ``it._choose(x, index)``."""
        return False

    def _put(self, y, index):
        """Assign to a part of `y` in a way of its own; return whether there is one."""
        return False

    def __setitem__(self, index, v):
        self._refresh()
        if not self._holds_array():
            raise TypeError(f"a scalar {type(self).__name__} does not support assignment to its elements: it is immutable")
        v = array(v) if holds_traced(v) else STANDING[type(v)](v) if type(v) in STANDING else v
        base, ops = (self.alias.base, self.alias.ops) if type(self.alias) is View else (self, ())
        if is_view_at(v, base, ops, index):  # x[1:] += w updates the view x[1:], then assigns it to itself
            if not getattr(getattr(locate(ops, example_of(base)), "flags", None), "writeable", True):
                raise ValueError("assignment destination is read-only")
        else:
            base.level.check()
            if isinstance(v, Traced) and v.level.id > base.level.id:
                if v._put(self, index):
                    return
                base._promote(v)
            with base.level.writing:
                base._assign(ops, index, v)

    def _in_place(self, operate, other):
        """Evaluate ``x op= other``: an array is changed, with all its views; a scalar is replaced."""
        if self.ndim == 0 and not self._holds_array():
            return NotImplemented
        result = operate(self, other)
        if (result.shape if type(result) is type(self) else np.shape(result)) != self.shape:
            raise ValueError(
                f"non-broadcastable output operand with shape {self.shape} does not match the broadcast shape {np.shape(result)}"
            )
        if (dtype := dtype_of(result)) != self.dtype and not np.can_cast(dtype, self.dtype, "same_kind"):
            raise TypeError(f"cannot cast the result from {dtype} to {self.dtype} in place: write x = x op y")
        if (
            self.ndim
            and type(result) is type(self)
            and result.level is self.level
            and type(self.alias) is not View
            and dtype == self.dtype
            and laid_out_alike(example_of(result), example_of(self))
        ):
            self.alias = Owner(version_of(self) + 1, False)
            self.primal, self.payload = result.primal, result.payload
        else:
            self[...] = result
            self._refresh()
        return self

    def _holds_array(self):
        """Return whether the value is an ndarray, which can be assigned to, and no number."""
        value = self._refresh().primal
        return value._holds_array() if isinstance(value, Traced) else issubclass(type(value), np.ndarray)

    @classmethod
    def _lifted(cls, buffer, level):
        """Return a constant of lower level as a value of this one, with a zero derivative."""
        lifted = new(cls)
        lifted.primal, lifted.payload, lifted.level, lifted.alias = buffer, None, level, None
        return lifted

    def _refresh(self):
        """Bring a view up to date with its base."""
        alias = self.alias
        if type(alias) is View and alias.version != version_of(alias.base):
            fresh = alias.base
            for fn, args, kwargs in alias.ops:
                fresh = fresh[args[0]] if fn is getitem and type(args[0]) is slice else fn(fresh, *args, **kwargs)
            if type(self) is not type(fresh):
                become(self, type(fresh))
            self.primal, self.payload, self.level = fresh.primal, fresh.payload, fresh.level
            self.alias = View(alias.base, alias.ops, version_of(alias.base))
        return self

    def _shares_written(self):
        """Refresh, and return whether the buffers are those of a handle that is written in place."""
        alias = self.alias
        if type(alias) is View:
            self._refresh()
            alias = alias.base.alias
        return alias is not None and alias.exclusive

    def _promote(self, to):
        """Become a value of the higher level of `to`, in place, so that a derivative of that level can be written."""
        inner = new(type(self))
        inner.primal, inner.payload, inner.level, inner.alias = self.primal, self.payload, self.level, None
        self.alias = Owner(version_of(self) + 1, False)
        become(self, type(to))
        self.primal, self.payload, self.level = inner, None, to.level

    # --- methods that differ from the function ----------------------------------------------------------------------------

    def reshape(self, *shape, order="C"):
        """Return ``np.reshape(x, shape)``."""
        return np.reshape(self, shape[0] if len(shape) == 1 else shape, order=order)

    def transpose(self, *axes):
        """Return ``np.transpose(x, axes)``."""
        return np.transpose(self, (axes[0] if len(axes) == 1 else axes) if axes else None)

    def flatten(self, order="C"):
        """Return a flattened copy."""
        return np.copy(np.ravel(self, order), "C")

    def copy(self, order="C"):
        """Return a copy."""
        return np.copy(self, order) if self.ndim or self._holds_array() else self

    def astype(self, dtype, order="K", casting="unsafe", subok=True, copy=True):
        """Return a copy of another dtype; an integer or boolean one is a constant, one of objects holds traced numbers."""
        if not np.can_cast(self.dtype, dtype, casting):
            raise TypeError(f"astype: cannot cast from {self.dtype} to {np.dtype(dtype)} under casting={casting!r}")
        dtype = np.dtype(dtype)
        if not copy and dtype == self.dtype:
            return self
        if dtype.kind == "O":
            return np.array(self, dtype, order=order)[()]
        return (cast if dtype.kind in "fc" else discretize)(self, dtype, order)

    def fill(self, value):
        """Assign one value to all elements."""
        self[...] = value

    def sort(self, axis=-1, kind=None):
        """Sort in place."""
        self[...] = np.sort(self, axis=axis, kind=kind)

    def partition(self, kth, axis=-1, kind="introselect", order=None):
        """Partition in place."""
        self[...] = np.partition(self, kth, axis, kind, order)

    def put(self, indices, values, mode="raise"):
        """Assign to elements at flat positions."""
        np.put(self, indices, values, mode)  # type: ignore[arg-type]

    def item(self, *index):
        """Return one element as a traced scalar."""
        if not index:
            if self.size != 1:
                raise ValueError(f"can only convert an array of size 1 to a scalar; this one has shape {self.shape}")
            return np.reshape(self, (-1,))[0] if self.ndim else self[()]
        if isinstance(index[0], tuple):
            return self[index[0]]
        return self[index] if len(index) > 1 else np.ravel(self)[index[0]]

    def tolist(self):
        """Return nested lists of traced scalars."""
        return [row.tolist() for row in self] if self.ndim else self[()]

    def compress(self, condition, axis=None, out=None):
        """Return ``np.compress(condition, x, axis)``."""
        return np.compress(condition, self, axis, out)


def is_view_at(v, base, ops, index):
    """Return whether `v` is the up-to-date view of `base` at `ops` and then `index`."""
    if not isinstance(v, Traced) or type(v.alias) is not View or v.alias.base is not base:
        return False
    *before, (fn, arguments, _) = v._refresh().alias.ops
    return fn is getitem and arguments[0] is index and all(map(operator.is_, before, ops)) and len(before) == len(ops)


def example_of(x):
    """Return the plain value of a value, that of the example of a symbol."""
    while isinstance(x, Handle):
        x._refresh()
        x = x.payload if x.level.abstract else x.primal
    return x


def laid_out_alike(result, x):
    """Return whether a new array has the memory layout of the one whose place it takes."""
    return getattr(result, "strides", None) == getattr(x, "strides", None) and (type(x) is not np.ndarray or x.flags.aligned)


def write_in_order(ufunc, args, kwargs, order):
    """Evaluate a ufunc with ``order=``: its result is laid out in memory as asked."""
    if kwargs:
        raise TypeError(f"{public_name(ufunc)}: order= says nothing about out=: leave it out")
    results = ufunc(*args)
    return tuple(np.copy(r, order) for r in results) if isinstance(results, tuple) else np.copy(results, order)


def with_values(arg, level):
    """Return an argument with the values of this level's traced values in their place."""
    if isinstance(arg, Traced):
        if arg.level is level:
            return arg._refresh().primal
    elif type(arg) in (list, tuple):
        items = (with_values(item, level) for item in arg)
        return type(arg)(
            np.float64(v) if type(v) is float and v is not item and not level.weak else v for v, item in zip(items, arg, strict=True)
        )
    return arg
