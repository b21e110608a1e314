"""Doors: functions that NumPy does not dispatch on traced values, for adapted code; for plain arguments they are NumPy's own."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from itertools import islice
from operator import is_
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ..rules.calling import public_name
from . import dispatch
from .buffers import Buffer, as_array, as_buffer, is_traced, lift_like, owner_of
from .conversions import lift, map_nested, refuse_stale
from .levels import FILLED, LIVE, Handle


def as_traced_array(x: Any, dtype: Any = None) -> Any:
    """Return a traced value, or a container of such, as one traced array of a dtype, by default its own; a number has no axes."""
    x = dispatch.array(lift(x))
    x = x if x.ndim or x._holds_array() else np.reshape(np.reshape(x, 1), ())
    return x if dtype is None or np.dtype(dtype) == x.dtype else x.astype(dtype)


def may_share(x: Any, made: Any) -> bool:
    """Return whether what was made of an argument is that, or may show the memory of it."""
    return made is x or type(x) is Buffer


def finite(x: Any) -> Any:
    if not np.all(np.isfinite(x)):
        raise ValueError("array must not contain infs or NaNs")
    return x


def without_stale_numbers(x: Any, numpys: Callable[..., Any]) -> Any:
    """Return a plain array; one of the memory of an array that became traced is refused."""
    if FILLED:
        refuse_stale([x], public_name(numpys))
    return x


def own_conversion(x: Any, method: str) -> Any:
    """Return the traced value that an object gives where it is asked for an array or a number; call where NumPy or Python raised."""
    made = getattr(type(x), method)(x) if hasattr(type(x), method) else None
    if not is_traced(made):
        raise
    return made


def door(numpys: Callable[..., Any], made: Callable[[Any], Any] = lambda x: x) -> Callable[..., Any]:
    """Return the stand-in for a function that makes an array of its first argument; for a traced one it returns `made(x)`."""

    @wraps(numpys)
    def opened(a: Any, dtype: Any = None, *args: Any, copy: Any = None, **kwargs: Any) -> Any:
        options = kwargs if copy is None else {"copy": copy, **kwargs}
        whole = type(a) is Buffer and made is not finite  # NumPy says whether it shows the same memory
        if whole and owner_of(x := numpys(as_array(a), dtype, *args, **options)) is owner_of(a):
            return as_buffer(x, a)
        if is_traced(a):
            x = made(as_traced_array(a, dtype))
            return x.copy("K") if (copy or whole) and may_share(a, x) else x
        try:
            x = without_stale_numbers(numpys(a, dtype, *args, **options), numpys)
        except ValueError:
            return opened(own_conversion(a, "__array__"), dtype, *args, **options)
        return as_buffer(x, a) if type(a) is Buffer else as_buffer(x) if LIVE and type(a) in (list, tuple) else x

    return opened


def as_arrays(args: Any) -> list[Any]:
    """Return arguments with lists, tuples and arrays of objects that hold traced numbers as traced arrays."""
    return [as_traced_array(x) if type(x) in (list, tuple, np.ndarray) and is_traced(x) else x for x in args]


def taking_lists(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return the stand-in for a function that refuses lists and object arrays of traced numbers: it receives traced arrays."""
    return wraps(fn)(lambda *args, **kwargs: fn(*as_arrays(args), **dict(zip(kwargs, as_arrays(kwargs.values()), strict=True))))


@cache
def ufunc_of_lists(ufunc: np.ufunc) -> Callable[..., Any]:
    """Return the stand-in for a ufunc of SciPy, which takes no objects: lists of traced numbers become traced arrays."""

    @wraps(ufunc)
    def given(*args: Any, **kwargs: Any) -> Any:
        try:
            return ufunc(*args, **kwargs)
        except TypeError:
            arrays = as_arrays(args)
            if all(map(is_, arrays, args)):
                raise
        return ufunc(*arrays, **kwargs)

    vars(given).update((name, getattr(ufunc, name)) for name in dir(ufunc) if not name.startswith("_"))
    return given


def array_maker(numpys: Callable[..., Any], shown: bool = False, blank: bool = False) -> Callable[..., Any]:
    """Return the stand-in for a function that makes a new array: one that takes traced values, while there may be some.

    Of one that is `shown`, NumPy returns a view; what a `blank` one holds, which was in memory before, is no constant.
    """

    @wraps(numpys)
    def made(*args: Any, **kwargs: Any) -> Any:
        if not LIVE:
            return numpys(*args, **kwargs)
        x = numpys(*args, **kwargs)
        x = as_buffer(np.copy(x) if shown and type(x) is np.ndarray else x)
        if blank and type(x) is Buffer:
            x.fill(0)
        return x

    return made


def array(object: Any, dtype: Any = None, *, copy: Any = True, order: Any = "K", ndmin: int = 0, **kwargs: Any) -> Any:
    copies = getattr(copy, "value", copy) == 1  # may be a _CopyMode, which has no truth value
    if not is_traced(object):
        made = without_stale_numbers(np.array(object, dtype, copy=copy, order=order, ndmin=ndmin, **kwargs), np.array)
        return as_buffer(made) if LIVE and copies else made
    made = as_traced_array(object, dtype)
    made = made.copy(order) if copies and may_share(object, made) else made
    return np.reshape(made, (1,) * (ndmin - made.ndim) + made.shape) if made.ndim < ndmin else made


def fromiter(iter: Any, dtype: Any, count: int = -1, **kwargs: Any) -> Any:
    parts = list(iter if count < 0 else islice(iter, count))
    return as_traced_array(parts, dtype) if is_traced(parts) else np.fromiter(parts, dtype, count, **kwargs)


@wraps(np.arange)
def arange(*args: Any, **kwargs: Any) -> Any:
    if not is_traced((args, kwargs)):
        return plain_arange(*args, **kwargs)
    numbers = plain_arange(*map(dispatch.primal, args), **{key: dispatch.primal(x) for key, x in kwargs.items()})
    if numbers.dtype.kind not in "fc":
        return numbers
    names = ("stop",) if len(args) == 1 and "stop" not in kwargs else ("start", "stop", "step")
    given = {"start": 0.0, "step": 1.0, **dict(zip(names, args, strict=False)), **kwargs}
    exact = (given["start"] + given["step"] * np.arange(numbers.size)).astype(numbers.dtype)
    return numbers + (exact - dispatch.primal(exact))


plain_arange = array_maker(np.arange)


class Joined:
    """The stand-in for ``np.r_`` and ``np.c_``: traced parts are joined to a traced array, not to an object array."""

    def __init__(self, numpys: Any) -> None:
        self.numpys = numpys

    def __getitem__(self, key: Any) -> Any:
        parts = key if type(key) is tuple else (key,)
        if not is_traced(parts) or any(isinstance(x, str) for x in parts):
            return as_buffer(self.numpys[key])
        return np.concatenate([self.part(x) if is_traced(x) else self.numpys[x,] for x in parts], axis=self.numpys.axis)

    def part(self, x: Any) -> Any:
        x = as_traced_array(x)
        return np.reshape(x, (*x.shape, *(1,) * (self.numpys.ndmin - x.ndim)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.numpys, name)


def full(shape: Any, fill_value: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
    if not is_traced(fill_value):
        return as_buffer(np.full(shape, fill_value, dtype, *args, **kwargs))
    return np.copy(np.broadcast_to(as_traced_array(fill_value, dtype), shape))


def full_like(a: Any, fill_value: Any, *args: Any, **kwargs: Any) -> Any:
    a = lift_like(fill_value, a) if is_traced(fill_value) and not is_traced(a) else a
    return as_buffer(np.full_like(a, fill_value, *args, **kwargs))


def ndenumerate(arr: Any) -> Any:
    return zip(np.ndindex(arr.shape), arr.flat, strict=True) if is_traced(arr) else np.ndenumerate(arr)


def strided_view(x: Any, *args: Any, **kwargs: Any) -> Any:
    made = as_strided(as_array(x), *args, **kwargs)
    return as_buffer(made, x) if type(x) is Buffer else made


def nditer(op: Any, *args: Any, **kwargs: Any) -> Any:
    if is_traced(op) and type(op) is not np.ndarray:  # one of objects holds the traced numbers themselves
        raise TypeError("numpy.nditer has no derivative: write a loop over np.ndindex(x.shape), or functions of whole arrays")
    return np.nditer(op, *args, **kwargs)


class vectorize(np.vectorize):
    """A loop over elements, also over traced ones, of which it makes traced arrays."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not is_traced((args, kwargs)):
            return super().__call__(*args, **kwargs)
        return map_nested(lambda x: dispatch.array(x) if dispatch.holds_traced(x) else x, super().__call__(*lift(args), **lift(kwargs)))


class NumberType(type):
    """The type of types that stand for one of NumPy's or Python's: they make its numbers, but of traced ones traced ones."""

    of: type
    dtype: np.dtype

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if not is_traced((args, kwargs)):
            try:
                return cls.of(*args, **kwargs)
            except TypeError:
                if len(args) != 1:
                    raise
                return cls(own_conversion(args[0], "__float__"))
        if cls.of is complex:
            parts = dict(zip(("real", "imag"), args, strict=False), **kwargs)
            if "imag" in parts:
                return cls(parts.get("real", 0.0)) + 1j * cls(parts["imag"])
            args = (parts["real"],)
        x = as_traced_array(args[0], None if cls.of in (float, complex) else cls.of)
        if x.dtype.kind == "c" and cls.of is float:
            raise TypeError("float() argument must be a string or a real number, not 'complex'")
        if x.size != 1 and not issubclass(cls.of, np.generic):
            raise TypeError("only 0-dimensional arrays can be converted to Python scalars")
        x = x if issubclass(cls.of, np.generic) else x.item()
        return x + 0j if cls.of is complex and x.dtype.kind != "c" else x[()]

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, cls.of)

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, cls.of)

    def __eq__(cls, other: Any) -> bool:
        return cls.of == other or cls is other

    def __hash__(cls) -> int:
        return hash(cls.of)


def number_type(kind: type, metaclass: type[NumberType] = NumberType) -> NumberType:
    """Return the stand-in for a type of numbers, or for `type`."""
    made = metaclass(kind.__name__, (kind,), {"__module__": kind.__module__, "__doc__": kind.__doc__})
    made.of = kind
    if not issubclass(kind, np.generic | type):
        made.dtype = np.dtype(kind)  # NumPy before 2.4 asks for it where the type is given as dtype=
    return made


def kind_of(x: Any) -> type:
    """Return the type of the value."""
    kind = type(x)
    return x.__class__ if issubclass(kind, Handle) else np.ndarray if kind is Buffer else kind


def is_instance(x: Any, kinds: Any) -> bool:
    """Answer ``isinstance`` as for the value: a number is not `Iterable`, say."""
    return issubclass(kind_of(x), kinds) if issubclass(type(x), Handle) else isinstance(x, kinds)


def has_attribute(x: Any, name: str) -> bool:
    """Answer ``hasattr`` as for the value."""
    return hasattr(x, name) and (not issubclass(type(x), Handle) or hasattr(kind_of(x), name))


class TypeOfTypes(NumberType):
    """The type of what stands for `type`."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return type(*args, **kwargs) if kwargs or len(args) != 1 else kind_of(args[0])


MAKERS = (
    "column_stack concatenate copy diag diagflat dot dstack eye hstack identity inner logspace ones ones_like outer repeat stack tri tril "
    "triu vstack zeros zeros_like"
)
#: what does not take all arrays of objects that NumPy makes of lists
ARRAYED = "allclose amax amin corrcoef cov gradient histogram interp isclose max min percentile polyfit quantile"

DOORS: list[Any] = [
    *(array_maker(getattr(np, name)) for name in MAKERS.split()),
    *(array_maker(fn, shown=True) for fn in (np.kron, np.linspace, np.tile)),
    *(array_maker(fn, blank=True) for fn in (np.empty, np.empty_like)),
    arange,
    array,
    fromiter,
    full,
    full_like,
    *(taking_lists(getattr(np, name)) for name in ARRAYED.split()),
    ndenumerate,
    nditer,
    vectorize,
    door(np.asarray),
    door(np.asanyarray),
    door(np.require),
    door(np.asarray_chkfinite, finite),
    door(np.ascontiguousarray, np.atleast_1d),
    door(np.asfortranarray, lambda x: np.copy(np.atleast_1d(x), "F")),
]
JOINED = {name: Joined(getattr(np, name)) for name in ("r_", "c_")}
NUMBERS = [number_type(kind) for kind in (float, complex, np.float32, np.float64, np.complex64, np.complex128)]
#: Python's own names that adapted code finds among its globals
BUILTINS: dict[str, Any] = {kind.__name__: kind for kind in NUMBERS if kind.of in (float, complex)}
BUILTINS |= {"isinstance": is_instance, "hasattr": has_attribute, "type": number_type(type, TypeOfTypes)}
