"""Set functions: their results are elements of the arguments, and have their derivatives; where they stand is constant."""

from __future__ import annotations

from .constants import evaluate, named
from .kinds import composite
from .names import np


def where_found(fn, count, *args, **kwargs):
    """Return the results of a set function, and the flat positions of its elements among those of the first `count` arguments."""
    results = fn(*args, **kwargs)
    values = results[0] if isinstance(results, tuple) else results
    pool = np.concatenate([np.ravel(arg) for arg in args[:count]])
    order = np.argsort(pool, kind="stable")
    return results, order[np.searchsorted(pool[order], values)]


def chosen(fn, count):
    """Make the body of a set function of `count` arrays: what it returns first is taken from them."""

    def body(*args, **kwargs):
        results, places = evaluate(where_found, fn, count, *args, **kwargs)
        values = np.concatenate([np.ravel(arg) for arg in args[:count]])[places]
        if not isinstance(results, tuple):
            return values
        return (values, *results[1:]) if type(results) is tuple else type(results)(values, *results[1:])

    return body


def unique(ar, return_index=False, return_inverse=False, return_counts=False, axis=None, *, equal_nan=True, **options):
    options = {"equal_nan": equal_nan, **options}
    if axis is None:
        values = (*(x for x in evaluate(unique_parts, ar, None, options)),)
        ans = np.ravel(ar)[values[1]]
    else:
        values = evaluate(unique_parts, ar, axis, options)
        ans = np.take(ar, values[1], axis)
    wanted = [part for part, asked in zip(values[1:], (return_index, return_inverse, return_counts), strict=True) if asked]
    return (ans, *wanted) if wanted else ans


def unique_parts(ar, axis, options):
    return np.unique(ar, True, True, True, axis, **options)


# --- the table --------------------------------------------------------------------------------------------------------------

# fmt: off
composite(np.unique, unique, value_dependent=True, with_numpy_value=True)
for fn in named(np, "unique_all unique_counts unique_inverse unique_values"):
    composite(fn, chosen(fn, 1), value_dependent=True, with_numpy_value=True)
for fn in named(np, "union1d intersect1d setxor1d"):
    composite(fn, chosen(fn, 2), value_dependent=True, with_numpy_value=True)
composite(np.setdiff1d, chosen(np.setdiff1d, 1), value_dependent=True, with_numpy_value=True)
# fmt: on
