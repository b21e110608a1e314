"""Inner loops of ufuncs: C functions that need no Python, which stand in the public part of the object (NumPy's ``ufuncobject.h``)."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

#: the flag of an invalid operation in C's ``fenv.h``, which LAPACK's loops raise where a matrix is singular
INVALID = 1
PROCESSORS = ("x86_64", "AMD64", "aarch64", "arm64")  # where it is that


#: how a loop is called
LOOP = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)
#: functions of Python that are called as loops are, by name and types; they are never given back
entered: dict[tuple[str, str], Any] = {}


class Head(ctypes.Structure):
    """The public part of a PyUFuncObject, behind what all objects have."""

    _fields_ = (
        ("nin", ctypes.c_int),
        ("nout", ctypes.c_int),
        ("nargs", ctypes.c_int),
        ("identity", ctypes.c_int),
        ("functions", ctypes.POINTER(ctypes.c_void_p)),
        ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("ntypes", ctypes.c_int),
        ("reserved", ctypes.c_int),
        ("name", ctypes.c_char_p),
        ("types", ctypes.POINTER(ctypes.c_ubyte)),
    )


@cache
def ufunc_named(name: str) -> np.ufunc:
    """Return the ufunc of a name such as ``numpy.linalg._umath_linalg.inv``."""
    module, _, last = name.rpartition(".")
    try:
        found = getattr(import_module(module), last, None)
    except ImportError:
        found = None
    if type(found) is not np.ufunc:
        raise LookupError(f"there is no ufunc {name}")
    return found


def enter(name: str, types: str, function: Callable[..., None]) -> None:
    """Register a Python function that takes the pointers of a loop, to be called like one."""
    entered[name, types] = LOOP(function)


def ufunc_name(*names: str) -> str:
    """Return the whole name of a ufunc under `numpy.linalg`: the first of these that there is, or the first."""
    whole = [f"numpy.linalg._umath_linalg.{name}" for name in names]
    for name in whole:
        try:
            ufunc_named(name)
        except LookupError:
            continue
        return name
    return whole[0]


@cache
def address_of(name: str, types: str) -> tuple[int, int]:
    """Return where the loop of these types is, written as in ``ufunc.types``, and the data that it is given."""
    if (name, types) in entered:
        return ctypes.cast(entered[name, types], ctypes.c_void_p).value or 0, 0
    ufunc = ufunc_named(name)
    if sys.implementation.name != "cpython":
        raise LookupError("this is not CPython")
    if types not in ufunc.types:
        raise LookupError(f"{name} has no loop {types}")
    head = Head.from_address(id(ufunc) + object.__basicsize__)
    if (head.nin, head.nout, head.nargs, head.ntypes) != (ufunc.nin, ufunc.nout, ufunc.nargs, ufunc.ntypes):
        raise LookupError("ufuncs have other fields")
    numbers = [np.dtype(letter).num for letter in "".join(ufunc.types).replace("->", "")]
    if head.name.decode() != ufunc.__name__ or head.types[: len(numbers)] != numbers:
        raise LookupError("ufuncs have other fields")
    k = ufunc.types.index(types)
    address = head.functions[k]
    if not address:
        raise LookupError(f"{name} has no loop {types}")
    return address, (head.data[k] if head.data else None) or 0


def symbol_of(name: str, types: str) -> str:
    """Return the name that machine code has for a loop: of another version it is another."""
    version = getattr(sys.modules.get(name.partition(".")[0]), "__version__", "")
    return f"ufunc_{name.replace('.', '_')}_{types.replace('->', '_')}_{version}"


@cache
def flag_functions() -> tuple:
    """Return C's functions that clear and test flags of floating-point operations."""
    library: Any = ctypes.CDLL(None) if os.name == "posix" and platform.machine() in PROCESSORS else None
    if not hasattr(library, "feclearexcept") or not hasattr(library, "fetestexcept"):
        raise LookupError("the flags of floating-point operations are not known here")
    return library.feclearexcept, library.fetestexcept


def call_loop(
    name: str, types: str, dimensions: tuple, steps: tuple, *arrays: np.ndarray, raises: bool = False, part: tuple[int, int] | None = None
) -> None:
    """Call a loop with the pointers of arrays, for a part of its first axis; one that `raises` says by a flag that a matrix is singular."""
    low, high = part or (0, dimensions[0])
    address, data = address_of(name, types)
    loop = LOOP(address)
    pointers = (ctypes.c_void_p * len(arrays))(*[array.ctypes.data + low * step for array, step in zip(arrays, steps, strict=False)])
    lengths, strides = (np.array(numbers, np.intp) for numbers in ((high - low, *dimensions[1:]), steps))
    clear, test = flag_functions() if raises else (None, None)
    if raises:
        clear(INVALID)
    loop(ctypes.addressof(pointers), lengths.ctypes.data, strides.ctypes.data, data)
    if raises and test(INVALID):
        raise OverflowError("jit: a matrix is singular, or LAPACK did not converge")
