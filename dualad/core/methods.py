"""The operators and methods of Traced, from tables: each calls the NumPy function of its name."""

import operator
import sys
from functools import partial
from numbers import Rational
from typing import Any

import numpy as np

from ..rules.calling import public_name
from ..rules.kinds import COMPARISONS, OPERATORS, ROWS, SYMBOLS
from ..rules.sparse import is_sparse
from ..support.callers import is_of_optimizers
from .conversions import STANDING, comes_from_a_loop, conversion_error, is_container, lifter_of, refuse_kind, refuse_search, refuse_tie
from .traced import Traced, example_of

SAME_METHODS = (
    "all", "any", "argmax", "argmin", "argpartition", "argsort", "choose", "clip", "cumprod", "cumsum", "diagonal", "dot",
    "max", "mean", "min", "nonzero", "prod", "ravel", "repeat", "round", "searchsorted", "squeeze", "std", "sum", "swapaxes",
    "take", "trace", "var",
)  # fmt: skip


OPERANDS = (Traced, float, int, complex, np.generic, list)


def operand(x):
    """Return whether an operator may take `x` as the other operand; others get their turn."""
    kind: Any = type(x)
    if kind is np.ndarray or kind is tuple or issubclass(kind, OPERANDS) or kind in STANDING:  # tuples of others are vectors of theirs
        return True
    array_like = issubclass(kind, np.ndarray) or hasattr(x, "__array__") or is_sparse(x)
    return array_like and (not is_container(kind) or lifter_of(kind) is not None)


#: attributes of ndarray that show its memory, or a value written from it
MEMORY = (
    "__dlpack__", "__dlpack_device__", "base", "byteswap", "ctypes", "data", "dump", "dumps", "getfield", "resize", "setfield",
    "setflags", "strides", "tobytes", "tofile",
)  # fmt: skip
REAL = {float, int, np.float64, np.ndarray}


def python_number(x):
    """Return the type of the Python number that `x` is or stands for, None for anything else."""
    kind, weak = type(x), True
    while isinstance(x, Traced):
        weak, x = x.level.weak, x.primal
        kind = complex if weak and type(x) is np.complex128 else type(x)  # NumPy's, of a computation with Python's
    return kind if kind is complex or (weak and kind in (float, int, bool)) else None


def refuse_ordering(x, other, symbol):
    """Raise where Python does not order complex numbers; NumPy does."""
    kinds = python_number(x), python_number(other)
    if complex in kinds and None not in kinds:
        raise TypeError(
            f"'{symbol}' not supported between instances of {kinds[0].__name__!r} and {kinds[1].__name__!r} (traced): "
            f"compare abs(x), x.real or x.imag"
        )


def conjugate(self, *args, **kwargs):
    """Return ``np.conjugate(x, ...)``; what is not complex is not copied, as in NumPy."""
    return np.conjugate(self, *args, **kwargs) if args or kwargs or self.dtype.kind == "c" else self


def define_operators():
    def binary(ufunc, reflected):
        def call(self, other):
            if operand(other):
                return self.__array_ufunc__(ufunc, "__call__", *((other, self) if reflected else (self, other)))
            return call(self, float(other)) if issubclass(type(other), Rational) else NotImplemented

        return call

    def in_place(operate):
        return lambda self, other: self._in_place(operate, other)

    def method(fn):
        def call(self, *args, **kwargs):
            return fn(self, *args, **kwargs)

        call.__doc__ = f"Return ``{public_name(fn)}(x, ...)``."
        return call

    def comparison(name, ufunc):
        symbol, chooses, operate = SYMBOLS[name], name in ("ge", "le"), getattr(operator, name)
        orders = name not in ("eq", "ne")

        def compare(self, other):
            if is_of_optimizers((frame := sys._getframe(1)).f_code.co_filename):
                refuse_search(frame)
            level, a = self.level, self.primal
            if type(a) is float and level.plain and level.objects is None:
                b = other.primal if type(other) is type(self) and other.level is level else other
                if type(b) is float or (type(b) is int and b.bit_length() < 53):  # NumPy compares with the nearest float
                    return np.bool_(operate(a, b))
            if orders and (type(a) not in REAL or type(other) not in REAL):
                refuse_ordering(self, other, symbol)
            if not operand(other):
                return compare(self, float(other)) if issubclass(type(other), Rational) else NotImplemented
            result = self.__array_ufunc__(ufunc, "__call__", self, other)
            if (
                chooses  # NumPy's loops over object arrays ask for the larger or the smaller
                and self.level.objects is not None
                and other is not self
                and np.ndim(result) == 0
                and comes_from_a_loop()
                and result
                and self == other
            ):
                refuse_tie()
            return result

        return compare

    for name, row in OPERATORS.items():
        if row.fn.nin == 1:
            setattr(Traced, f"__{name}__", method(row.fn))
        elif name in COMPARISONS:
            setattr(Traced, f"__{name}__", comparison(name, row.fn))
        else:
            setattr(Traced, f"__{name}__", binary(row.fn, False))
            setattr(Traced, f"__r{name}__", binary(row.fn, True))
            if name != "divmod":
                setattr(Traced, f"__i{name}__", in_place(row.of_numbers))
    for name in SAME_METHODS:
        setattr(Traced, name, method(getattr(np, name)))
    for row in list(ROWS.values()):  # NumPy's loops over object arrays call x.sin()
        if isinstance(row.fn, np.ufunc) and {"O->O", "OO->O"} & set(row.fn.types) and not hasattr(Traced, row.fn.__name__):
            setattr(Traced, row.fn.__name__, method(row.fn))
    for name in MEMORY:
        setattr(Traced, name, property(partial(no_memory, name=name)))
    for name, instead in (("shape", "reshape"), ("dtype", "astype")):
        setattr(Traced, name, vars(Traced)[name].setter(partial(no_setting, name=name, instead=instead)))
    kind: Any = Traced
    kind.__dir__ = lambda self: sorted({*dir(type(self))} - {*MEMORY})
    kind.conj = kind.conjugate = conjugate
    kind.view = view
    kind.flags = property(flags)
    kind.as_integer_ratio = as_integer_ratio
    kind.is_integer = is_integer
    kind.to_device = to_device
    kind.__array_namespace__ = array_namespace
    kind.__hash__ = None
    kind.__abs__ = absolute


def absolute(self):
    """Return ``abs(x)``, which NumPy rounds otherwise than its ufunc where x is a complex number."""
    if self.dtype.kind == "c" and not self.shape:
        return self._restate(abs, ROWS[np.absolute].complex_body, (self,), {})
    return np.absolute(self)


def no_memory(x, name):
    """Raise for an attribute of ndarray that shows its memory."""
    raise AttributeError(
        f"a traced {type(x).__name__} has no {name!r}: it is a value and its derivative, not one block of memory. "
        f"dualad.primal(x).{name} is that of the value; x[...] is a view, and x.astype(dtype) has another dtype"
    )


def no_setting(x, _, name, instead):
    """Raise for an attribute that is set, which in NumPy changes all that refers to the array."""
    raise AttributeError(f"{name}: that of a traced {type(x).__name__} cannot be set; write x = x.{instead}({name})")


def view(self, *args, **kwargs):
    """Return a view; one of another dtype, or as a class that gives operators or elements a meaning of its own, is refused."""
    for kind in (*args, *kwargs.values()):
        of_class = isinstance(kind, type) and issubclass(kind, np.ndarray)
        if of_class:
            refuse_kind(kind)
        if kind not in (np.ndarray, np.recarray, np.memmap) if of_class else np.dtype(kind) != self.dtype:
            wanted = kind.__name__ if of_class else np.dtype(kind)
            raise TypeError(
                f"view: a traced {type(self).__name__} cannot be seen as {wanted}: it is a value and its derivative, not one block of "
                f"memory. x.astype(dtype) converts it; x[..., ::2] + 1j * x[..., 1::2] makes complex "
                f"numbers of pairs of floats, np.stack([x.real, x.imag], -1) the pairs; dualad.primal(x).view is that of the value"
            )
    return self[...]


def flags(self):
    """Return how the value lies in memory."""
    value = example_of(self)
    return value.view().flags if type(value) is np.ndarray else no_memory(self, "flags")


def as_integer_ratio(self):
    """Raise: a ratio of integers, which `Fraction` and others make of a float, has no derivative."""
    raise conversion_error(self, "a ratio of integers (Fraction)", "compute with floats, or take dualad.primal(x) for the plain number")


def is_integer(self):
    """Return whether a number is whole, as floats answer."""
    return bool(np.isfinite(self) and self == np.floor(self))


def to_device(self, device, /, *, stream=None):
    """Return the value itself: it is on the one device that there is, the "cpu"."""
    if device != self.device or stream is not None:
        raise ValueError(f"to_device: a traced value is on the device 'cpu', as NumPy's arrays are, and knows no streams; not {device!r}")
    return self


def array_namespace(self, *, api_version=None):
    """Return the functions of the array API standard: NumPy's, with those that make an array of a traced value keeping its derivative."""
    from .standins import ARRAY_API

    np.empty(0).__array_namespace__(api_version=api_version)  # raises for versions that NumPy does not know
    return ARRAY_API


define_operators()
