"""Functions without derivative: predicates, positions, text and files; and those refused, with the reason.

Functions whose results are elements of their arguments (`unique`, `intersect1d`) have derivatives: see `layout`.
"""

from ..support.costs import CACHE_ELEMENTS
from .kinds import constant, primitive, refused
from .names import np
from .scalars import ANY, Scalar, itself, kernel


@primitive
def evaluate(fn, *args, **kwargs):
    """Return ``fn(*args, **kwargs)`` of the plain values: what a derivative does not pass through."""
    return fn(*args, **kwargs)


@primitive
def stopped(x):
    """Return `x` as a constant: also in a program, which is differentiated later."""
    return x.copy("K") if issubclass(type(x), np.ndarray) else x


def functions_named(namespace, names):
    """Return the functions called `names`."""
    return [getattr(namespace, name) for name in names.split()]


# --- of functions that compiled loops have -----------------------------------------------------------------------------------


def isin_by_pairs(element, test_elements, assume_unique=False, invert=False, *, kind=None):
    """Compute `isin` by comparing all pairs of a few elements."""
    if np.size(element) * np.size(test_elements) > CACHE_ELEMENTS:
        raise LookupError
    found = np.any(np.equal(np.reshape(element, (*np.shape(element), 1)), np.ravel(test_elements)), axis=-1)
    return np.logical_not(found) if invert else found


def all_equal(a, b):
    """Compute `array_equiv` of arrays of one shape."""
    if np.shape(a) != np.shape(b):
        raise LookupError
    return np.all(np.equal(a, b))


def lexsort_by_keys(keys, axis=-1):
    """Compute `lexsort` by sorting by one key after the other."""
    first, *others = keys
    order = np.argsort(first, axis=axis, kind="stable")
    for key in others:
        places = np.argsort(np.take_along_axis(key, order, axis), axis=axis, kind="stable")
        order = np.take_along_axis(order, places, axis)
    return order


TEXT = """str_len count find rfind index rindex startswith endswith isalnum isalpha isdecimal isdigit islower isnumeric isspace
          istitle isupper _center _expandtabs _expandtabs_length _ljust _rjust _zfill _slice _replace _partition _partition_index
          _rpartition _rpartition_index _lstrip_chars _lstrip_whitespace _rstrip_chars _rstrip_whitespace _strip_chars _strip_whitespace"""


# --- the table --------------------------------------------------------------------------------------------------------------

# fmt: off
constant(evaluate, called="its result is no array of numbers")
constant(stopped, scalar=Scalar(itself, 0, ANY))
constant(np.isposinf, elementwise=True, scalar=Scalar(lambda x: x == np.inf))
constant(np.isneginf, elementwise=True, scalar=Scalar(lambda x: x == -np.inf))
constant(np.fix, elementwise=True, scalar=kernel("np.trunc", 1, 2))
constant(*functions_named(np, "around"), elementwise=True, lower="rounded")
constant(np.array_equiv, called="it compares whole arrays", inlined=all_equal)
constant(np.argwhere, data_shaped=True)
constant(np.flatnonzero, data_shaped="flat_positions")
constant(*functions_named(np, "nanargmax nanargmin in1d"), called="it searches or sorts")
constant(np.lexsort, called="it searches or sorts", inlined=lexsort_by_keys)
constant(np.isin, called="it searches or sorts", inlined=isin_by_pairs)
constant(np.digitize, lower="digitize")
constant(*functions_named(np, "diag_indices_from tril_indices_from triu_indices_from common_type einsum_path"), metadata=True)
constant(np.min_scalar_type, called="its result is no array of numbers")
constant(np.unravel_index, lower="unravel_index")
constant(np.ravel_multi_index, called="it checks bounds")

refused("what is read from a file again is a constant. Save plain values: dualad.primal(x)",
        *functions_named(np, "save savez savez_compressed savetxt"))
refused("it is defined on strings", *functions_named(np._core.umath, TEXT))
refused("it is defined on dates: pass plain dates",
        *functions_named(np, "busday_count busday_offset is_busday datetime_as_string"))
refused("it is defined on integers and bits: pass plain integers (dualad.primal(x).astype(int))",
        *functions_named(np, "packbits unpackbits"))
# fmt: on
