"""Conversions of traced values to plain numbers, and mixing with other kinds of arrays: mostly errors, which name a way out."""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from ..support.callers import (
    WAYS_OUT,
    asking_frame,
    compiled,
    innermost,
    is_item_assignment,
    of_numpy,
    operation,
    outer_frames,
    package_function,
    place,
    user_frame,
    warn,
)
from ..support.costs import UNROLLED_ELEMENTS
from .levels import ADAPTED, Handle

# --- conversions ------------------------------------------------------------------------------------------------------------


def conversion_error(x, what, advice):
    """Return the error for a conversion that would lose the derivative; called by the method that Python or NumPy asks for it."""
    frame = sys._getframe(2)
    name, where = package_function(outer_frames(frame))
    if name is not None:
        spelling = own_spelling(name)
        inner, root = innermost(frame)
        ways_out = WAYS_OUT if spelling is None else f"write {spelling}, or {WAYS_OUT}"
        if spelling is None and root is not None and id(asking_frame(frame).f_globals) not in ADAPTED:
            ways_out = f"let its code keep derivatives (`with dualad.adapt({root}):`), or {ways_out}"
        asked = what if inner in (None, name) else f"{what}, in {inner}"
        x.level.refusal = TypeError(
            f"{name} asks a traced {type(x).__name__} for {asked}, which would lose its derivative (called {where}): {ways_out}"
        )
        return x.level.refusal
    if is_item_assignment(frame):
        return TypeError(
            f"a traced {type(x).__name__} cannot be written into an array of plain numbers, which would lose its derivative: make the "
            f"array with np.zeros_like(x, shape=...) or, from a plain array a, with np.array(a, like=x) of a traced array x, or all at "
            f"once with np.stack([...]) or dualad.array([...])"
        )
    if (name := of_numpy(frame)) is not None:
        return TypeError(
            f"{name} asks a traced {type(x).__name__} for {what}, which would lose its derivative: NumPy does not show it to us in this "
            f"argument while the others are plain. Make an array argument of the call traced, too (a + 0.0 * x), or write it with other "
            f"functions (np.where chooses between values)"
        )
    return TypeError(f"{what} of a traced {type(x).__name__} would lose its derivative: {advice}")


class Text(str):
    """The text of a traced number: it can be shown, but parsing a number from it would lose the derivative."""

    __slots__ = ()

    def __float__(self):
        raise TypeError(
            f"float() of {str(self)!r}, the text of a traced value, would lose its derivative: compute with the value itself (round(x, n) "
            f"rounds it), or pass dualad.stop_gradient(x) where no derivative is needed"
        )


class Description(Text):
    """The text of a traced value without its number."""

    __slots__ = ()
    __hash__ = Text.__hash__


def refusing_method(name):
    """Return a method of texts that computes with what is described."""

    def method(self, *args):
        raise TypeError(
            f"{name.strip('_')} of {str(self)!r}, the text of a traced value, is not that of its number: return the value as a result and "
            f"format it outside, or format its number, dualad.primal(x)"
        )

    return method


for name in (
    "__contains__", "__eq__", "__float__", "__ge__", "__getitem__", "__gt__", "__int__", "__iter__", "__le__", "__len__", "__lt__",
    "__ne__", "count", "endswith", "find", "index", "isdecimal", "isdigit", "isnumeric", "partition", "rfind", "rpartition", "split",
    "startswith", "zfill",
):  # fmt: skip
    setattr(Description, name, refusing_method(name))


#: modules of SciPy with functions that have rows
NAMES = (
    "fft", "fftpack", "integrate", "interpolate", "linalg", "ndimage", "optimize", "signal", "sparse", "sparse.linalg", "spatial.distance",
    "spatial.transform", "special", "stats",
)  # fmt: skip
ROWS_OF_SCIPY = tuple(f"scipy.{name}" for name in NAMES)


def own_spelling(name):
    """Return how to write what a function of SciPy does: by a row of ours, or in NumPy; None if there is no short way."""
    package, _, function = name.rpartition(".")
    rows = import_module(f"dualad.{package}").FUNCTIONS if package in ROWS_OF_SCIPY else {}
    if function in rows and (package != "scipy.sparse" or isinstance(rows[function], type)):  # which are no functions of entries
        return f"dualad.{name}"
    if name.startswith("scipy.sparse."):
        return (
            "x @ M.T for the product with a sparse matrix, or M = dualad.scipy.sparse.csr_array(M); of traced entries "
            "dualad.scipy.sparse.csr_array((data, (rows, columns)))"
        )
    if package.startswith("scipy.stats."):  # a method of a distribution
        rows = import_module("dualad.scipy.stats").FUNCTIONS
        return f"dualad.{name}" if hasattr(rows.get(package.removeprefix("scipy.stats.")), function) else None
    return f"np.linalg.{function}" if package == "scipy.linalg" and hasattr(np.linalg, function) else None


def as_objects(x, copy=None):
    """Return a traced value as an object array of traced numbers, which NumPy makes of lists of them and of ``np.asarray(x)``.

    It is laid out in memory as `x` is, and read-only unless a copy is asked for: what is written into it does not reach `x`.
    """
    x.level.check()
    frame = asking_frame(inner := sys._getframe(2))
    if frame is not None and compiled(frame):
        conversion_error(x, "an array of plain numbers", "")  # to be raised in the place of what compiled code raises, if it does
    if x.dtype.kind == "c":
        raise TypeError(
            "a complex traced value cannot sit in an object array (NumPy would take its .imag for 0): use "
            "np.stack([...]) or dualad.array([...])"
        )
    for makers, kind in {"numpy.ma.": np.ma.MaskedArray, "numpy.matrixlib.": np.matrix}.items():
        if inner.f_globals.get("__name__", "").startswith(makers):
            refuse_kind(kind)
    user = user_frame(inner)
    if user is not None and x.level.objects is None:
        x.level.objects = place(user, user.f_lineno)
    if user is not None and x.size > UNROLLED_ELEMENTS:  # about a few numbers, a warning is noise
        warn(object_array_warning(x, package_function(outer_frames(frame))[0]), user)
    plain = x
    while isinstance(plain, Handle):
        plain = plain.payload if plain.level.abstract else plain.primal
    elements = np.empty_like(plain, dtype=object) if type(plain) is np.ndarray else np.empty(x.shape, dtype=object)
    if x.ndim == 0:
        elements[()] = x if type(x.primal) is not np.ndarray else x[()]
    else:
        for index in np.ndindex(x.shape):
            elements[index] = x[index]
    elements.flags.writeable = bool(copy)
    return elements


def object_array_warning(x, name):
    """Return the warning that a large array becomes one of objects, in a function of an installed package if it has a name."""
    made = f"a traced array of {x.size} elements becomes an object array here"
    why = "correct but slow, an operation of Python for each element"
    if name is None:
        return f"{made} (np.asarray or np.array of it): {why}. Leave np.asarray out, or use np.stack([...]) or dualad.array([...])"
    return f"{made}, in {name}: {why}. Faster: {own_spelling(name) or 'written with NumPy functions'}"


#: functions of scipy.optimize that compare values and return what they computed with them, derivatives included
ITERATIONS = {"newton", "_array_newton"}


def refuse_search(frame):
    """Raise where a search of SciPy compares traced values: no derivative passes through its decisions, and it may return nothing else."""
    if frame.f_code.co_name in ITERATIONS:
        return
    name, where = package_function(outer_frames(frame))
    ours = own_spelling(name) if name else None
    ways = f"write {ours}, or " if ours else ""
    raise TypeError(
        f"{name or frame.f_code.co_qualname} compares traced values to decide where it looks next, so its result would lose their "
        f"derivative (called {where or place(frame, frame.f_lineno)}): {ways}let it search on plain "
        f"values (dualad.primal), and differentiate the equation that its result solves (dualad.implicit): of a root the function itself, "
        f"of a minimum its derivative"
    )


# --- numbers in object arrays -----------------------------------------------------------------------------------------------


def check_result(row, ans, level):
    """Raise where a result may hide derivatives from us: an object array, or a complex number that NumPy may put into one.

    NumPy answers ``.imag`` of an object array itself, with zeros. Called where traced numbers of the level were put into one.
    """
    if type(ans) is np.ndarray and ans.dtype == object:
        raise TypeError(f"{row.name}: NumPy does not pass on an object array of traced numbers: make it with np.stack([...])")
    kind = ans.dtype.type if isinstance(ans, Handle) else type(ans)
    if issubclass(kind, complex | np.complexfloating) and not np.ndim(ans) and isinstance(row.fn, np.ufunc):
        raise TypeError(
            f"{row.name}: a traced number becomes complex while an object array holds traced numbers ({level.objects}): NumPy gives "
            f".real and .imag of such an array without their derivatives. Make that array with np.stack([...]) or dualad.array([...])"
        )


#: fills the memory of arrays that became traced: a NaN that is known again, also of fewer bits, and after most operations
STALE = np.uint64(0x7FFDA00000000000).view(np.float64)


def refuse_stale(values, where):
    """Raise where the values of results were computed of the memory of an array that became traced."""
    for x in values:
        if issubclass(type(x), float | complex | np.inexact | np.ndarray) and np.isnan(x).any():
            bits = np.ravel(x).astype(complex).view(np.uint64) & np.uint64(2**63 - 1)
            if np.any(bits == STALE.view(np.uint64)):
                raise TypeError(
                    f"{where}: the result is NaN where code that does not see derivatives (compiled code, a memoryview) has read an array "
                    f"that a traced value was written into: hand it dualad.primal(x), or give it a rule (dualad.primitive)"
                )


def comes_from_a_loop():
    """Return whether a comparison of two traced numbers was asked for by a loop of NumPy over an object array, to choose one of them."""
    frame: Any = sys._getframe(2)
    while frame.f_globals.get("__name__") == "dualad.graph.symbol":
        frame = frame.f_back
    return operation(frame.f_code, frame.f_lasti) != "COMPARE_OP" and frame.f_code.co_name != "_clip"  # clip is decided at its bounds


def refuse_tie():
    raise TypeError(
        "numpy.maximum or minimum (max, min) of an object array of traced numbers with a tie: the two share the derivative, but NumPy "
        "chooses one of them itself. Make the array with np.stack([...]) or dualad.array([...])"
    )


# --- other kinds of arrays --------------------------------------------------------------------------------------------------


#: what makes a traced value of an array of another package, by the name of its class: such arrays are computed with like NumPy's
LIFTS: dict = {}
#: what arrays that may stand for traced ones, and answer NumPy's functions themselves, stand for, by their class
STANDING: dict = {}


@cache
def lifter_of(kind):
    """Return the function that lifts arrays of a class, None for those that are not lifted."""
    return LIFTS.get(f"{kind.__module__}.{kind.__qualname__}")


def map_nested(make, x):
    """Apply a function to `x`, or to the elements of a tuple, list or dict, also nested."""
    kind = type(x)
    if kind in (tuple, list):
        return kind([map_nested(make, part) for part in x])
    return {name: map_nested(make, part) for name, part in x.items()} if kind is dict else make(x)


def lifted(x):
    kind: Any = type(x)
    lifting = STANDING.get(kind) or lifter_of(kind)
    return x if lifting is None else lifting(x)


def lift(x):
    """Return arrays of other packages that are computed with like NumPy's as traced ones, also in tuples, lists and dicts."""
    return map_nested(lifted, x)


@cache
def is_container(kind):
    """Return whether a type is a container that answers NumPy's functions itself (pandas, xarray, pint, astropy): its turn comes first."""
    if issubclass(kind, Handle | np.generic):
        return False
    own = getattr(kind, "__array_ufunc__", np.ndarray.__array_ufunc__)
    return own is None or own is not np.ndarray.__array_ufunc__


@cache
def defers_to_container(kinds):
    """Return whether one of the types of a call's arrays is a container that goes first; raise for matrices and masked arrays."""
    for kind in kinds:
        refuse_kind(kind)
    return any(map(is_container, kinds))


def refuse_kind(kind):
    """Raise for the subclasses of arrays that give operators or elements a meaning of their own, which plain arrays do not have."""
    if issubclass(kind, np.matrix):
        raise TypeError(
            "numpy.matrix together with a traced value: * would be the elementwise product. Pass np.asarray(A), and write "
            "A @ x for the product"
        )
    if issubclass(kind, np.ma.MaskedArray):
        raise TypeError(
            "a masked array together with a traced value: its mask would be lost. Pass plain numbers (a.filled(value), or "
            "dualad.primal(x) to plot it) and choose with np.where"
        )
