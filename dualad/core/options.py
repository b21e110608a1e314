"""Keywords of calls: ``dtype=``, ``casting=`` and ``order=`` of ufuncs, integer dtypes of any function."""

import numpy as np

from ..rules.calling import public_name
from ..rules.precision import loop_dtypes, weak_dtype


def inexact(dtype, name):
    """Return whether a dtype has derivatives, or is one of integers, which have none; any other raises."""
    kind = np.dtype(dtype).kind
    if kind not in "biufc":
        raise TypeError(f"{name}: dtype={dtype!r} has no derivative: give one of floats or complex numbers")
    return kind in "fc"


def asks_for_integers(row, args, kwargs):
    """Return whether a call of an array function has a dtype of integers or booleans: then it is constant, as ``x.astype(int)`` is."""
    if row.dtype_at is None:
        return False
    dtype = kwargs.get("dtype") if "dtype" in kwargs else args[row.dtype_at] if len(args) > row.dtype_at else None
    if dtype is None or dtype is np._NoValue:
        return False
    return (row.labels is not None and row.labels(*args, **kwargs)) or not inexact(dtype, row.name)


def cast_operands(fn, args, dtype, casting):
    """Return the operands of a ufunc in the dtypes in which its loop takes them, for ``dtype=`` under a rule of casting.

    Python's numbers stay, and yield. Raises what NumPy raises where the rule does not allow it.
    """
    args = tuple(arg if hasattr(arg, "dtype") or issubclass(type(arg), int | float | complex) else np.asarray(arg) for arg in args)
    dtypes = loop_dtypes(fn, tuple(map(weak_dtype, args)), None if dtype is None else np.dtype(dtype), casting or "same_kind")
    if dtype is None:
        return args
    return tuple(arg.astype(own) if getattr(arg, "dtype", own) != own else arg for arg, own in zip(args, dtypes, strict=True))


#: what ``a @= x`` of an array gives as ``axes=``: those that are taken anyway
IN_PLACE = [(-2, -1), (-2, -1), (-2, -1)], [(-1,), (-2, -1), (-1,)]


def taken_options(ufunc, kwargs):
    """Take ``dtype=``, ``casting=`` and ``order=`` out of a ufunc's keywords and return them; one without a rule raises by name."""
    kwargs.pop("subok", None)  # there are no subclasses
    if ufunc is np.matmul and "out" in kwargs and kwargs.get("axes") in IN_PLACE:
        del kwargs["axes"]
    taken = kwargs.pop("dtype", None), kwargs.pop("casting", None), kwargs.pop("order", "K")
    for name in kwargs:
        if name in ("axes", "axis") and not (name == "axis" and ufunc is getattr(np, "vecdot", None)):
            raise TypeError(
                f"{public_name(ufunc)}: {name}= has no derivative rule in dualad: move the axes first (np.moveaxis), or use np.einsum"
            )
        if name not in ("out", "axis"):
            raise TypeError(f"{public_name(ufunc)}: {name}= has no derivative rule in dualad: leave it out, or cast the arguments")
    return taken
