"""Buffer: an array that adapted code makes of plain numbers, and that takes traced values where they are written into it.

It is an array of NumPy until then. At the first traced write a traced array takes the place of its memory, for it and for all its views,
and the memory is filled with NaN: what still reads it by another way gets no stale number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ..rules.calling import positional_call, public_name, with_out_named
from ..rules.creation import lift as lifted_like
from ..rules.kinds import ROWS
from .conversions import STALE, STANDING, lift, map_nested
from .dispatch import highest, holds_traced
from .flat import Flat
from .levels import FILLED, LIVE, Handle


class Root:
    """The memory that a buffer and its views share: a traced vector stands for all its elements, once one was written."""

    __slots__ = ("memory", "owner", "vector")
    memory: Any
    owner: Any
    vector: Any

    def __init__(self) -> None:
        self.memory = self.owner = self.vector = None


class Buffer(np.ndarray):
    """An array that becomes traced when a traced value is written into it."""

    _root: Root

    def __array_finalize__(self, model: Any) -> None:
        self._root = model._root if type(model) is Buffer and self.base is not None else Root()

    # --- NumPy's protocols ------------------------------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, out: Any = (), **kwargs: Any) -> Any:
        if not is_traced((*args, *out, *kwargs.values())):
            result = getattr(ufunc, method)(*as_array(args), **as_array({**kwargs, "out": out} if out else kwargs))
            return ufunc_result(result, out) if out else as_buffer(result)
        if method == "at":
            return write_into_buffer(lambda x: ufunc.at(x, *lift(args[1:])), args[0], args)
        inputs, kwargs = lift(args), lift(kwargs)
        if not out:
            return getattr(ufunc, method)(*inputs, **kwargs)
        targets = tuple(promoted(x, args) if type(x) is Buffer else x for x in out)
        results = getattr(ufunc, method)(*inputs, out=targets, **kwargs)
        for x, target in zip(out, targets, strict=True):
            copy_to_buffer(x, target)
        return ufunc_result(results, out)

    def __array_function__(self, fn: Callable, types: Any, args: Any, kwargs: Any) -> Any:
        row = ROWS.get(fn)
        if row is not None and row.writes:
            args, kwargs = positional_call(fn, args, kwargs)
            if not args:  # NumPy before 2.4 does not tell the names of its arguments
                raise TypeError(f"{public_name(fn)}: pass the array that is written into as a positional argument")
        if row is not None and len(args) > row.out_at:
            args, kwargs = with_out_named(fn, row.out_at, args, kwargs)
        kwargs = dict(kwargs)
        out = kwargs.get("out")
        if not is_traced((args, kwargs)):
            result = fn(*as_array(args), **as_array(kwargs))
            return out if out is not None else as_buffer(result, *leaves((args, kwargs)))
        if row is not None and row.writes and type(args[0]) is Buffer:
            return write_into_buffer(lambda x: fn(x, *lift(args[1:]), **lift(kwargs)), args[0], (args, kwargs))
        if type(out) is not Buffer:
            return fn(*lift(args), **lift(kwargs))
        del kwargs["out"]
        out[...] = fn(*lift(args), **lift(kwargs))
        return out

    @classmethod
    def __dualad_apply__(cls, fn: Callable, args: Any, kwargs: Any) -> Any:
        return fn(*lift(args), **lift(kwargs))

    # --- reading and writing ----------------------------------------------------------------------------------------------

    def __getitem__(self, index: Any) -> Any:
        if not became_traced(self):
            return lift_like(index, as_array(self))[index] if is_traced(index) else super().__getitem__(index)
        if view_of(self) is None and type(part := super().__getitem__(index)) is Buffer and became_traced(part):
            return part  # to be written through
        return value_of(self)[index]

    def __setitem__(self, index: Any, v: Any) -> None:
        if self.dtype.kind not in "fc" or not (became_traced(self) or is_traced(v) or is_traced(index)):
            return super().__setitem__(index, v)
        traced = promoted(self, (v, index))
        if view_of(self) is None:
            self._root.vector[positions(self)[index]] = lift(v)
        else:
            traced[index] = lift(v)
        return None

    @property
    def flat(self) -> Any:
        """The elements in C order, to iterate over, read and write."""
        return Flat(self)

    @flat.setter
    def flat(self, v: Any) -> None:
        Flat(self)[...] = v

    def view(self, *args: Any, **kwargs: Any) -> Any:
        """Return a view; one as an array of NumPy is a buffer, too, which sees what is written, and is seen."""
        kinds = [kwargs.pop("type", np.ndarray), *args]
        if became_traced(self) and any(issubclass(kind, np.ndarray) and kind is not np.ndarray for kind in kinds if type(kind) is type):
            return value_of(self).view(*kinds)  # which raises
        return super().view(*(kind for kind in kinds if kind is not np.ndarray), **kwargs)

    def __imatmul__(self, other: Any) -> Any:  # type: ignore[misc]
        return np.matmul(self, other, out=self) if is_traced((self, other)) else super().__imatmul__(other)

    def __repr__(self) -> str:
        return repr(contents(self))

    def __str__(self) -> str:
        return str(contents(self))

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    def __reduce__(self) -> Any:
        return contents(self).__reduce__()

    def __reduce_ex__(self, protocol: Any) -> Any:
        return contents(self).__reduce_ex__(protocol)


STANDING[Buffer] = lambda x: value_of(x)


def became_traced(x: Buffer) -> bool:
    """Return whether a traced array stands for a buffer."""
    root = x._root
    if root.vector is None:
        return False
    if owner_of(x) is not root.owner:  # a copy that NumPy made of it
        x._root = Root()
        return False
    return True


def value_of(x: Buffer) -> Any:
    """Return the traced array that a buffer stands for, a copy of its plain numbers where there is none."""
    if not became_traced(x):
        return as_array(x).copy("K")
    vector = x._root.vector
    if not np.isnan(x._root.memory).all():
        raise TypeError(
            "traced values were written into an array, and then code that bypasses NumPy's functions wrote plain numbers into its "
            "memory, which would be lost. Make the array with np.zeros_like(x, shape=...) of a traced x"
        )
    view = view_of(x)
    return vector[positions(x)] if view is None else view(vector)


def view_of(x: Buffer) -> Callable[[Any], Any] | None:
    """Return what makes the view that a buffer shows of a vector with the elements of its memory; None where slices, integers and
    transpositions of the array that has the memory do not make it."""
    owner = as_array(owner_of(x))
    if not owner.flags.forc or x.dtype != owner.dtype:
        return None
    whole = lambda a: np.reshape(a, owner.shape) if owner.flags.c_contiguous else np.transpose(np.reshape(a, owner.shape[::-1]))
    if x.flags.c_contiguous and x.size == owner.size and owner.flags.c_contiguous:
        return lambda a: np.reshape(a, x.shape)
    rest = address(x) - address(owner)
    starts: list[int] = [0] * owner.ndim
    free = sorted((axis for axis in range(owner.ndim) if owner.shape[axis] > 1), key=lambda axis: -owner.strides[axis])
    for axis in free:
        starts[axis], rest = divmod(rest, owner.strides[axis])
    index: list[Any] = list(starts)
    order = []
    for n, stride in zip(x.shape, x.strides, strict=True):
        if n != 1:
            fits = [axis for axis in free if owner.strides[axis] <= abs(stride) and stride % owner.strides[axis] == 0]
            if not fits:
                return None
            axis = fits[0]
            step = stride // owner.strides[axis]
            stop = starts[axis] + n * step
            index[axis] = slice(starts[axis], stop if stop >= 0 else None, step)
            free.remove(axis)
            order.append(axis)
    kept = sorted(order)
    spread = tuple(None if n == 1 else slice(None) for n in x.shape)
    view = lambda a: np.transpose(whole(a)[tuple(index)], [kept.index(axis) for axis in order])[spread]
    made = view(owner.ravel("K"))
    same = made.shape == x.shape and all(n == 1 or a == b for n, a, b in zip(x.shape, made.strides, x.strides, strict=True))
    return view if same and address(made) == address(x) else None


def address(x: Any) -> int:
    return x.__array_interface__["data"][0]


def positions(x: Buffer) -> Any:
    """Return where the elements of a buffer are in its memory."""
    memory, itemsize = x._root.memory, x.itemsize
    if x.dtype != memory.dtype:
        raise TypeError(f"a view of dtype {x.dtype} of an array of {memory.dtype} that holds traced values: take np.real or np.imag of it")
    places = np.arange(memory.size)
    start = (address(x) - address(memory)) // itemsize
    return as_strided(places[start:], x.shape, [stride // itemsize * places.itemsize for stride in x.strides])


def owner_of(x: Any) -> Any:
    """Return the array whose memory an array shows."""
    while issubclass(type(x.base), np.ndarray | STRIDED):
        x = x.base
    return x


#: what stands between an array and what as_strided makes of it
STRIDED = type(as_strided(np.zeros(1)).base)


def promoted(x: Buffer, given: Any) -> Any:
    """Return the traced array that a buffer stands for, from now on if need be, one of the level of what is given."""
    if x.dtype.kind not in "fc":
        return as_array(x)
    if not x.flags.writeable:
        raise ValueError("assignment destination is read-only")
    if not became_traced(x):
        owner = owner_of(x)
        memory = as_strided(as_array(owner), (owner.size,), (owner.itemsize,))
        vector = lift_like(given, memory.copy())
        memory[...] = STALE if x.dtype.kind == "f" else complex(STALE, STALE)
        FILLED.update(LIVE)
        x._root.memory, x._root.owner, x._root.vector = memory, owner, vector
    return value_of(x)


def write_into_buffer(write: Callable, x: Any, given: Any) -> None:
    """Call a function that writes into a buffer."""
    target = promoted(x, given) if type(x) is Buffer else x
    write(target)
    copy_to_buffer(x, target)


def copy_to_buffer(x: Any, target: Any) -> None:
    """Write what was computed into the traced array of a buffer, where that is a copy."""
    if type(x) is Buffer and became_traced(x) and view_of(x) is None:
        x[...] = target


# --- around buffers -----------------------------------------------------------------------------------------------------------------


NUMBERS = {float, int, bool, complex, np.float64, str, type(None)}


def is_traced(x: Any) -> bool:
    """Return whether a value is, or holds, traced values."""
    kind = type(x)
    if kind in NUMBERS:
        return False
    if kind is np.ndarray:
        return x.dtype.char == "O" and holds_traced(x)
    if kind is Buffer:
        return became_traced(x)
    if kind in (tuple, list):
        return any(map(is_traced, x))
    return any(map(is_traced, x.values())) if kind is dict else isinstance(x, Handle)


def leaves(x: Any) -> Iterator[Any]:
    """Yield what is in nested tuples, lists, dicts and object arrays."""
    kind = type(x)
    if kind in (tuple, list, dict) or (kind is np.ndarray and x.dtype.char == "O"):
        for part in x.values() if kind is dict else x.flat if kind is np.ndarray else x:
            yield from leaves(part)
    else:
        yield x


def lift_like(given: Any, x: Any) -> Any:
    """Return an array as a traced constant, of the level of what is given."""
    return lifted_like(highest(list(leaves(lift(given)))), x)


def as_array(x: Any) -> Any:
    """Return buffers as NumPy's arrays, also in tuples, lists and dicts."""
    return map_nested(plain, x)


def plain(x: Any) -> Any:
    return np.ndarray.view(x, np.ndarray) if type(x) is Buffer else x


def contents(x: Any) -> Any:
    """Return the content of a buffer for code outside: an array of NumPy, or a traced one."""
    return value_of(x) if became_traced(x) else as_array(x)


def as_buffer(made: Any, *sources: Any) -> Any:
    """Return an array that a function made as a buffer, if it is new, or shows the memory of one of its arguments that are buffers."""
    if type(made) in (tuple, list):
        return type(made)(as_buffer(part, *sources) for part in made)
    if type(made) is not np.ndarray or made.dtype.kind not in "fc":
        return made
    for source in sources:
        if type(source) is Buffer and owner_of(made) is owner_of(source):
            view = made.view(Buffer)
            view._root = source._root
            return view
    return made.view(Buffer) if LIVE and made.base is None and made.flags.writeable else made


def ufunc_result(result: Any, out: Any) -> Any:
    """Return the result of a ufunc with ``out=``: the arrays that it wrote into, or new ones where there was none."""
    if len(out) == 1:
        return out[0]
    return tuple(as_buffer(made) if given is None else given for made, given in zip(result, out, strict=True))


# --- methods ------------------------------------------------------------------------------------------------------------------------

#: methods and attributes whose result shows the same memory, or a copy of it where it cannot
SHOWING = ("real", "imag", "ravel", "reshape")
WRITING = ("fill", "partition", "put", "sort")
READING = (
    "all", "any", "argmax", "argmin", "argpartition", "argsort", "astype", "byteswap", "choose", "clip", "compress", "conj", "conjugate",
    "copy", "cumprod", "cumsum", "dot", "dump", "dumps", "flatten", "getfield", "item", "max", "mean", "min", "nonzero", "prod", "repeat",
    "round", "searchsorted", "std", "sum", "take", "tobytes", "tofile", "tolist", "trace", "var", "__bool__", "__complex__",
    "__contains__", "__copy__", "__deepcopy__", "__float__", "__format__", "__index__", "__int__",
)  # fmt: skip


def reading(name: str) -> Callable:
    """Return a method that asks the traced array, where there is one or an argument is traced."""
    numpys = getattr(np.ndarray, name)

    def method(self: Buffer, *args: Any, **kwargs: Any) -> Any:
        if not (became_traced(self) or is_traced((args, kwargs))):
            return numpys(self, *args, **kwargs)
        if name in ("conj", "conjugate") and self.dtype.kind == "f" and not (args or kwargs):
            return self  # as NumPy's
        if (fn := getattr(np, name, None)) is not None and name not in ("astype", "compress", "copy"):
            return fn(self, *args, **kwargs)
        return getattr(value_of(self), name)(*lift(args), **lift(kwargs))

    return method


def writing(name: str) -> Callable:
    numpys = getattr(np.ndarray, name)

    def method(self: Buffer, *args: Any, **kwargs: Any) -> None:
        if not became_traced(self) and not is_traced((args, kwargs)):
            return numpys(self, *args, **kwargs)
        return write_into_buffer(lambda x: getattr(x, name)(*lift(args), **lift(kwargs)), self, (args, kwargs))

    return method


def viewing(name: str) -> Any:
    """Return a method, or a property, whose result is a buffer of the same memory, or a part of the traced array."""
    numpys = getattr(np.ndarray, name)
    ask = numpys.__get__ if hasattr(numpys, "__set__") else None

    def method(self: Buffer, *args: Any, **kwargs: Any) -> Any:
        made = ask(self) if ask else numpys(self, *args, **kwargs)
        if not became_traced(self) or (made.dtype == self.dtype and owner_of(made) is self._root.owner):
            return made
        traced = value_of(self)
        return getattr(traced, name) if ask else getattr(traced, name)(*args, **kwargs)

    def assign(self: Buffer, v: Any) -> None:
        if became_traced(self) or is_traced(v):
            write_into_buffer(lambda x: setattr(x, name, lift(v)), self, v)
        else:
            numpys.__set__(self, v)

    return property(method, assign) if ask else method


def memory_view(name: str) -> property:
    """Return an attribute that shows the memory, which a traced array has not."""
    numpys = getattr(np.ndarray, name)
    return property(lambda self: getattr(value_of(self), name) if became_traced(self) else numpys.__get__(self))


for make, names in ((memory_view, ("ctypes", "data")), (reading, READING), (writing, WRITING), (viewing, SHOWING)):
    for name in names:
        setattr(Buffer, name, make(name))
