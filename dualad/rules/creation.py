"""Arrays made ``like=`` a traced one: ``np.zeros(3, like=x)`` is a traced buffer to write derivatives into.

The bodies get the traced array first. What holds integers, booleans or no numbers stays plain.
"""

from .constants import functions_named
from .kinds import composite
from .names import np
from .shapes import as_array, new_array, zeros_of_shape


def lift(like, plain):
    """Return a plain array of floats as one traced like `like`."""
    if getattr(plain, "dtype", None) is None or plain.dtype.kind not in "fc":
        return plain
    buffer = zeros_of_shape(like, plain.shape, plain.dtype, "F" if plain.flags.fnc else "C")
    buffer[...] = plain
    return buffer


def lifted(fn):
    """Make the body of a function that makes an array."""
    return lambda like, *args, **kwargs: lift(like, fn(*args, **kwargs))


def full(like, shape, fill_value, dtype=None, order="C", **options):
    if not hasattr(fill_value, "__dualad_apply__"):
        return lift(like, np.full(shape, fill_value, dtype, order))
    buffer = zeros_of_shape(like, shape, dtype or fill_value.dtype, order)
    buffer[...] = fill_value
    return buffer


def array(like, x, dtype=None, *, copy=True, order="K", subok=False, ndmin=0):
    """Return `x`, a number, array or nested lists of them, plain or traced, as an array traced like `like`."""
    packed = as_array(x)
    lifted = lift(like, packed) if issubclass(type(packed), np.ndarray) else packed
    return new_array(lifted, dtype, copy=copy and lifted is x, order=order, ndmin=ndmin)


def same_array(like, x, dtype=None, order=None, **options):
    return array(like, x, dtype, copy=False, order=order)


def required(like, x, dtype=None, requirements=None):
    wanted = {text[0] for text in requirements or ()}  # "C", "C_CONTIGUOUS", "CONTIGUOUS", "F", "FORTRAN", ...
    return array(like, x, dtype, copy=False, order="C" if "C" in wanted else "F" if "F" in wanted else "K")


def row_like(order):
    return lambda like, x, dtype=None: array(like, x, dtype, copy=False, order=order, ndmin=1)


# --- the table --------------------------------------------------------------------------------------------------------------

for fn in functions_named(np, "ones empty eye identity tri arange fromfunction frombuffer fromfile fromiter fromstring loadtxt genfromtxt"):
    composite(fn, lifted(fn), like=True)
# fmt: off
composite(np.zeros,             lifted(np.zeros), like=True, cheap=True, lower="zeros")
composite(np.full,              full, like=True)
composite(np.array,             array, like=True)
composite(np.asarray,           same_array, like=True)
composite(np.asanyarray,        same_array, like=True)
composite(np.ascontiguousarray, row_like("C"), like=True)
composite(np.asfortranarray,    row_like("F"), like=True)
composite(np.require,           required, like=True)
# fmt: on
