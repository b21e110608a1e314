"""NumPy's own values for functions whose derivative is that of a body: the same last bits, dtype, shape, warnings and errors."""

from typing import Any

import numpy as np
import optree

from ..rules.calling import public_name
from ..rules.cotangents import is_symbolic
from ..rules.indexing import restate
from ..rules.kinds import ROWS
from ..rules.shapes import as_array
from .dispatch import dtype_of, with_parts
from .levels import Handle

RESTATE = ROWS[restate]


def with_numpy_value(top, fn, body, args, kwargs):
    """Return ``fn(*args, **kwargs)`` as NumPy computes it one level below that of `top`, with the derivatives of ``body(...)``."""
    if is_symbolic(top):
        return body(*args, **kwargs)
    value = top._below(fn, args, kwargs)
    given: Any = args, kwargs
    if not any(isinstance(x, Handle) and x.size for x in optree.tree_leaves(given)):
        return value
    with np.errstate(all="ignore"):
        result = body(*args, **kwargs)
    return with_value(result, value, top.level, fn)


def with_value(result, value, level, fn):
    """Return a result of a level (or each of several) with another value of its shape and the same derivative."""
    if isinstance(value, tuple | list):
        return with_parts(value, [with_value(part, own, level, fn) for part, own in zip(result, value, strict=True)])
    if isinstance(value, np.poly1d):
        return np.poly1d(with_value(np.poly1d(result).coeffs, value.coeffs, level, fn))
    result = as_array(result)  # else traced numbers in a list, or in an array of objects, would lose their derivatives
    if not isinstance(result, Handle) or result.level is not level or dtype_of(value).kind not in "fc":
        return value
    shape = np.shape(value)
    if result.shape != shape:
        if [n for n in result.shape if n != 1] != [n for n in shape if n != 1]:
            raise RuntimeError(f"{public_name(fn)}: its rule in dualad gives shape {result.shape}, NumPy {shape}: please report this call")
        result = np.reshape(result, shape)
    return result._interpret(RESTATE, (result,), {}, lambda plain: value)
