"""Arrays made ``like=`` a traced one: ``np.zeros(3, like=x)`` is a traced buffer to write derivatives into.

The bodies get the traced array first. What holds integers, booleans or no numbers stays plain.
"""

from __future__ import annotations

from .constants import named
from .kinds import composite
from .layout import as_array
from .names import np
from .shapes import filled


def lift(like, plain):
    """Return a plain array of floats as one traced like `like`."""
    if getattr(plain, "dtype", None) is None or plain.dtype.kind not in "fc":
        return plain
    buffer = filled(like, plain.shape, plain.dtype)
    buffer[...] = plain
    return buffer


def made(fn):
    """Make the body of a function that makes an array."""
    return lambda like, *args, **kwargs: lift(like, fn(*args, **kwargs))


def full(like, shape, fill_value, dtype=None, order="C", **options):
    if not hasattr(fill_value, "__dualad_apply__"):
        return lift(like, np.full(shape, fill_value, dtype))
    buffer = filled(like, shape, dtype or fill_value.dtype)
    buffer[...] = fill_value
    return buffer


def array(like, x, dtype=None, *, ndmin=0, **options):
    """Return `x`, a number, array or nested lists of them, plain or traced, as an array traced like `like`."""
    x = as_array(x)
    x = lift(like, x) if isinstance(x, np.ndarray) else np.copy(x) if options.get("copy", True) else x
    x = x if dtype is None else x.astype(dtype)
    return np.reshape(x, (1,) * (ndmin - x.ndim) + x.shape) if ndmin > x.ndim else x


def same_array(like, x, dtype=None, *args, **options):
    return array(like, x, dtype, copy=False)


def row_like(like, x, dtype=None, **options):
    return array(like, x, dtype, ndmin=1, copy=False)


# --- the table --------------------------------------------------------------------------------------------------------------

for fn in named(np, "zeros ones empty eye identity tri arange fromfunction frombuffer fromfile fromiter fromstring loadtxt genfromtxt"):
    composite(fn, made(fn), like=True)
# fmt: off
composite(np.full,              full, like=True)
composite(np.array,             array, like=True)
composite(np.asarray,           same_array, like=True)
composite(np.asanyarray,        same_array, like=True)
composite(np.ascontiguousarray, row_like, like=True)
composite(np.asfortranarray,    row_like, like=True)
composite(np.require,           same_array, like=True)
# fmt: on
