"""Shapes and dtypes of cotangents: what a rule may know of an array without its values, and how a cotangent fits its primal."""

from __future__ import annotations

import math
import operator
from functools import lru_cache
from typing import Any

import numpy as np

FLOAT, COMPLEX = np.dtype(float), np.dtype(complex)


class Shaped:
    """Attributes that follow from the shape, which a subclass has."""

    __slots__ = ()

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)  # type: ignore[attr-defined]

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(math.prod(self.shape))  # type: ignore[attr-defined]


class Abstract(Shaped):
    """The shape and dtype of an array without its values: all that the transpose of a linear function may see."""

    __slots__ = ("dtype", "shape")

    def __init__(self, array):
        self.shape: tuple[int, ...]
        if type(array) is float:
            self.shape, self.dtype = (), FLOAT
        elif type(array) is np.ndarray:
            self.shape, self.dtype = array.shape, array.dtype
        else:
            self.shape = shape_of(array)
            self.dtype = getattr(array, "dtype", None) or np.dtype(type(array))

    @classmethod
    def of(cls, shape, dtype):
        like = cls.__new__(cls)
        like.shape, like.dtype = tuple(shape), np.dtype(dtype)
        return like


def shape_of(x) -> tuple[int, ...]:
    """Return the shape of a number, array, traced value or `Abstract`; ``np.shape`` of a traced value is a call through the table."""
    shape = getattr(x, "shape", None)
    return np.shape(x) if shape is None else shape


def plus(total, share):
    """Return the sum of two shares of a tangent, which of several results is a tuple."""
    return tuple(map(plus, total, share)) if type(share) in (tuple, list) else total + share


def ndim_of(x) -> int:
    """Return the number of axes of a number, array, traced value or `Abstract`."""
    shape = getattr(x, "shape", None)
    return np.ndim(x) if shape is None else len(shape)


def is_complex(x) -> bool:
    """Return whether `x` (number, array, traced or `Abstract`) has a complex dtype."""
    dtype = getattr(x, "dtype", None)
    return issubclass(type(x), complex) if dtype is None else dtype.kind == "c"


def any_traced(x) -> bool:
    """Return whether `x` is traced, or nested lists and tuples hold a traced value."""
    return any(map(any_traced, x)) if type(x) in (list, tuple) else hasattr(type(x), "__dualad_apply__")


def is_symbolic(x) -> bool:
    """Return whether `x` is traced and stands, below all derivatives, for a value that is known only when a program runs."""
    return level_of_symbol(x) is not None


def notes_tests(x) -> bool:
    """Return whether `x` is symbolic in a trace that answers questions for its truth, and notes them."""
    return getattr(level_of_symbol(x), "tests", None) is not None


def level_of_symbol(x):
    while (level := getattr(x, "level", None)) is not None:
        if level.abstract:
            return level
        x = x.primal
    return None


def is_number(x) -> bool:
    """Return whether `x` is a number or an array, which the shape and dtype may stand for."""
    return hasattr(x, "dtype") or issubclass(type(x), float | int | complex)


def like_primal(g, x):
    """Return the cotangent `g` as one of the primal `x`: real where x is real, complex where it is, and of its precision."""
    if g is None or (type(g) is float and type(x) is float):
        return g
    dtype = getattr(x, "dtype", None)
    if dtype is None:
        dtype = COMPLEX if issubclass(type(x), complex) else FLOAT
    now = getattr(g, "dtype", None)
    if now is None:  # a Python number
        g = g.real if type(g) is complex and dtype.kind != "c" else g
        return g if dtype is FLOAT or dtype.kind not in "fc" else dtype.type(g)
    if now != dtype:
        if now.kind == "c" and dtype.kind != "c":
            g = np.real(g)
        if g.dtype != dtype and dtype.kind in "fc":
            g = g.astype(dtype)
    return g


def unbroadcast(g, x):
    """Return the cotangent of `x`, where `g` is that of `x` broadcast to a larger shape."""
    shape = shape_of(x)
    now = getattr(g, "shape", ())
    if now != shape:
        whole, axes = stretched_axes(now, shape)
        if whole != now:
            g = np.broadcast_to(g, whole)
        stay: Any = len(whole) == len(shape)
        g = np.add.reduce(g, axes, keepdims=stay) if type(g) is np.ndarray else np.sum(g, axis=axes)
        if type(g) is not np.ndarray or g.shape != shape:
            g = np.reshape(g, shape)
    return like_primal(g, x)


@lru_cache(1024)
def stretched_axes(now, shape):
    """Return the shape that arrays of both shapes broadcast to, and the axes along which it stretches the second one."""
    lead = len(now) - len(shape)
    if lead < 0 or any(n != m and n != 1 for n, m in zip(shape, now[lead:], strict=True)):
        now = np.broadcast_shapes(now, shape)
        lead = len(now) - len(shape)
    return now, (*range(lead), *(lead + i for i, n in enumerate(shape) if n == 1 and now[lead + i] != 1))


def restore_axes(g, x, axis=None):
    """Return `g`, the cotangent of a reduction of `x` over `axis`, with the reduced axes back as axes of length 1.

    A number stays one: it broadcasts as it is.
    """
    if not shape_of(g):
        return g
    shape = shape_of(x)
    if ndim_of(g) == len(shape):  # they were kept
        return g
    if axis is None:
        return np.reshape(g, (1,) * len(shape))
    if type(axis) is int:
        axis %= len(shape)
        return np.reshape(g, (*shape[:axis], 1, *shape[axis + 1 :]))
    axes = {operator.index(a) % len(shape) for a in (axis if isinstance(axis, tuple | list) else (axis,))}
    return np.reshape(g, tuple(1 if i in axes else n for i, n in enumerate(shape)))
