"""``numpy.lib.scimath``: complex results where real ones do not exist. The dtype depends on the values."""

from .constants import evaluate
from .kinds import composite, elementwise, primitive
from .names import np
from .shapes import as_array

scimath = np.lib.scimath


def complex_beyond(fn, outside):
    """Make the body of a function that becomes complex where some of its arguments lie outside its real domain."""

    def body(*args):
        args = tuple(map(as_array, args))
        if not any(np.iscomplexobj(x) for x in args) and bool(evaluate(np.any, outside(*args))):
            args = (args[0] + 0j, *args[1:])
        return fn(*args)

    return body


@primitive
def arcsin_above(z):
    """Return arcsin of complex numbers; those on the real axis stand for the limit from above."""
    return np.arcsin(z)


@primitive
def arccos_above(z):
    """Return arccos of complex numbers; those on the real axis stand for the limit from above."""
    return np.arccos(z)


def slope(z):
    """Return sqrt(1 - z^2), on its cuts as the limit from above the real axis."""
    cut = np.logical_and(np.equal(np.imag(z), 0), np.greater(np.abs(np.real(z)), 1))
    inside, outside = np.where(cut, 0.0, z), np.where(cut, z, 2.0)
    return np.where(cut, -1j * np.sign(np.real(z)) * np.sqrt(outside * outside - 1.0), np.sqrt((1.0 - inside) * (1.0 + inside)))


def inverse(real, above):
    """Return an inverse function on real numbers within [-1, 1], or on complex ones."""
    return lambda x: above(x) if np.iscomplexobj(x) else real(x)


def negative(x, *rest):
    return np.less(x, 0)


def beyond_one(x):
    return np.greater(np.abs(x), 1)


def logn(n, x):
    return scimath.log(x) / scimath.log(n)


# --- the table --------------------------------------------------------------------------------------------------------------

# fmt: off
elementwise(arcsin_above, lambda ans, z: 1.0 / slope(z), singular=True, called="NumPy evaluates it by a series of its own")
elementwise(arccos_above, lambda ans, z: -1.0 / slope(z), singular=True, called="NumPy evaluates it by a series of its own")
composite(scimath.sqrt,    complex_beyond(np.sqrt, negative), value_dependent=True, with_numpy_value=True)
composite(scimath.log,     complex_beyond(np.log, negative), value_dependent=True, with_numpy_value=True)
composite(scimath.log2,    complex_beyond(np.log2, negative), value_dependent=True, with_numpy_value=True)
composite(scimath.log10,   complex_beyond(np.log10, negative), value_dependent=True, with_numpy_value=True)
composite(scimath.power,   complex_beyond(np.power, negative), value_dependent=True, with_numpy_value=True)
composite(scimath.arccos,  complex_beyond(inverse(np.arccos, arccos_above), beyond_one), value_dependent=True, with_numpy_value=True)
composite(scimath.arcsin,  complex_beyond(inverse(np.arcsin, arcsin_above), beyond_one), value_dependent=True, with_numpy_value=True)
composite(scimath.arctanh, complex_beyond(np.arctanh, beyond_one), value_dependent=True, with_numpy_value=True)
composite(scimath.logn,    logn, value_dependent=True, with_numpy_value=True)
# fmt: on
