"""``numpy.lib.scimath``: complex results where real ones do not exist. The dtype depends on the values."""

from .constants import evaluate, named
from .kinds import composite, elementwise, primitive
from .names import np
from .shapes import as_array, by_numpy

scimath = np.lib.scimath


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


def widened(real, above):
    """Make the body of an inverse function that becomes complex beyond [-1, 1]."""

    def body(x):
        x = as_array(x)
        if not np.iscomplexobj(x) and bool(evaluate(np.any, np.greater(np.abs(x), 1))):
            x = x + 0j
        return above(x) if np.iscomplexobj(x) else real(x)

    return body


# --- the table --------------------------------------------------------------------------------------------------------------

# fmt: off
elementwise(arcsin_above, lambda ans, z: 1.0 / slope(z), singular=True, called="NumPy evaluates it by a series of its own")
elementwise(arccos_above, lambda ans, z: -1.0 / slope(z), singular=True, called="NumPy evaluates it by a series of its own")
composite(scimath.arccos, widened(np.arccos, arccos_above), value_dependent=True, with_numpy_value=True)
composite(scimath.arcsin, widened(np.arcsin, arcsin_above), value_dependent=True, with_numpy_value=True)
for fn in named(scimath, "sqrt log log2 log10 logn power arctanh"):
    composite(fn, by_numpy(fn), value_dependent=True)
# fmt: on
