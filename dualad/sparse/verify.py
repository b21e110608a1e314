"""verify=True: a sparse Jacobian against the function itself, along a random direction; an entry that the pattern misses is named."""

import numpy as np

from ..core.dispatch import dtype_of
from ..jit.jit import Jit
from .vectors import Flattened, flat


def check_product(f, args, kwargs, matrix, compressed):
    """Raise where the product of a Jacobian, which `compressed` made, with a random vector is not the derivative of f along it.

    The error names an entry that the pattern misses, or says that f gives two values at one point.
    """
    f, where, nan_safe = f.f if isinstance(f, Jit) else f, compressed.where, compressed.options["nan_safe"]
    given = Flattened(f, args, kwargs, compressed.argnums, where)
    random = np.random.default_rng(len(matrix.indices))

    def along(v):
        """Return the value and the derivative of f along a vector, both flat."""
        return tuple(map(flat, given.along(v, nan_safe)))

    def scattered(columns):
        """Return the same along a random vector that is zero outside of these columns."""
        v = np.zeros(given.size)
        v[columns] = random.standard_normal(len(columns))
        return along(v)

    precision = max(float(np.finfo(dtype_of(leaf)).eps) for leaf in given.leaves)
    v = random.standard_normal(given.size)
    value, tangent = along(v)
    size = abs(matrix) @ abs(v) + abs(tangent)
    wrong = abs(matrix @ v - tangent) > np.sqrt(precision) * size
    if not wrong.any():
        return
    again, _ = along(v)
    if not np.array_equal(value, again, equal_nan=True):
        raise ValueError(f"{where}: f gives two values at the same arguments: it is not deterministic, and has no Jacobian")
    for row in np.flatnonzero(wrong)[:100].tolist():
        outside = np.setdiff1d(np.arange(given.size), matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]])
        column = missing_column(row, outside, scattered)
        if column is not None:
            unit = np.zeros(given.size)
            unit[column] = 1.0
            raise ValueError(
                f"{where}: the pattern misses entry ({row}, {column}): the derivative of output {row} by input {column} is "
                f"{along(unit)[1][row]:.6g} here"
            )
    raise ValueError(f"{where}: row {row} of the sparse Jacobian differs from the derivative of f along a random vector")


def missing_column(row, columns, along):
    """Return one of these columns in which a row of the Jacobian is different from zero, found by halving; None if there is none."""

    def touched(columns):
        return along(columns)[1][row] != 0

    if not len(columns) or not touched(columns):
        return None
    while len(columns) > 1:
        half = len(columns) // 2
        columns = columns[:half] if touched(columns[:half]) else columns[half:]
    return int(columns[0])
