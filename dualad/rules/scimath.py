"""``numpy.lib.scimath``: complex results where real ones do not exist. The dtype depends on the values."""

from .constants import functions_named
from .kinds import composite
from .names import np
from .shapes import as_array, by_numpy

scimath = np.lib.scimath


def widened(fn):
    """Make the body of a function: NumPy's own code makes real numbers outside its domain complex."""
    of_reals, of_complex = by_numpy(fn), getattr(np, fn.__name__)
    return lambda *args: (of_complex if any(map(np.iscomplexobj, args)) else of_reals)(*map(as_array, args))


for fn in functions_named(scimath, "sqrt log log2 log10 arccos arcsin arctanh"):
    composite(fn, widened(fn), value_dependent=True)
composite(scimath.power, widened(scimath.power), value_dependent=True, with_numpy_value=True)  # Python's numbers are arrays there
composite(scimath.logn, lambda n, x: scimath.log(x) / scimath.log(n), value_dependent=True, with_numpy_value=True)
