"""The dtypes that a function computes in: a partial sees the arguments as the function's own loop does, the primal call as given."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from .cotangents import FLOAT, Abstract

PYTHON_NUMBERS = (float, int, complex)


def in_loop_dtypes(fn, ans, args):
    """Return the arguments of ``ans = fn(*args)`` in the dtypes that `fn` computes in: wide enough for its partials.

    Python numbers stay, and a real argument of a complex function stays real.
    """
    kind = getattr(ans, "dtype", FLOAT)
    for arg in args:
        if getattr(arg, "dtype", kind) is not kind:
            break
    else:
        return args
    dtypes = loop_dtypes(fn, tuple(map(weak_dtype, args)))
    return [arg if dtype is None or isinstance(arg, Abstract) else as_dtype(arg, dtype) for arg, dtype in zip(args, dtypes, strict=True)]


def weak_dtype(arg):
    """Return an argument's dtype, the type of a Python number, None for anything else."""
    dtype = getattr(arg, "dtype", None)
    return dtype if dtype is not None else type(arg) if type(arg) in PYTHON_NUMBERS else None


def as_dtype(arg, dtype):
    """Return an array, NumPy scalar or traced value in a dtype, or in its real counterpart; a Python number as it is."""
    now = getattr(arg, "dtype", dtype)
    if dtype.kind == "c" and now.kind != "c":
        dtype = np.empty(0, dtype).real.dtype
    return arg if now == dtype else arg.astype(dtype)


@lru_cache(1024)
def loop_dtypes(fn, dtypes, dtype=None, casting="same_kind"):
    """Return the dtypes in which a function takes arguments of these dtypes or Python types: of a ufunc those of its loop, of another
    floats as wide as the widest, and integers of 64 bits; None where it takes them as given. `dtype` and `casting` are as for a ufunc:
    raises what it does."""
    if isinstance(fn, np.ufunc) and all(d is not None for d in dtypes):  # np.dtype(float) == None
        asked: Any = {} if dtype is None else {"signature": (None,) * fn.nin + (dtype,) * fn.nout}
        try:
            return fn.resolve_dtypes((*dtypes, *(None,) * fn.nout), casting=casting, **asked)[: fn.nin]
        except TypeError:
            if dtype is not None:
                raise
    kind = np.result_type(*(d for d in dtypes if isinstance(d, np.dtype)))
    wide = np.empty(0, kind).real.dtype if kind.kind in "fc" else FLOAT
    return tuple(wide_enough(d, wide) for d in dtypes)


def wide_enough(dtype, wide):
    """Return `wide` for a narrower dtype of floats, and 64 bits for integers."""
    if not isinstance(dtype, np.dtype) or dtype.kind not in "iufc":
        return None
    if dtype.kind in "iu":
        return np.dtype(np.int64) if dtype.itemsize < 8 else None
    return wide if dtype.kind == "f" else np.result_type(wide, dtype)
