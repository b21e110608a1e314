"""The lowering of searching and sorting: ranks by counting, places by bisection. See `lower`.

NaN comes last, as NumPy sorts; equal elements keep their order, so that `argsort` of any kind is the stable one here. Many are sorted
by NumPy.
"""

import math

from ..rules.names import np
from ..rules.shapes import select
from ..support.costs import CACHE_ELEMENTS, ONE_BY_ONE
from .forms import (
    LOWERINGS,
    Cumulative,
    GatherIndex,
    Node,
    NoLoopForm,
    Scatter,
    along,
    converted,
    fill,
    identity,
    indexed,
    lowers,
    mapped,
    taken,
)
from .maps import WHOLE
from .moves import along_axis, as_node, known, position, reshaped
from .sums import reduced

NO = np._NoValue


def ordered(x):
    """Return numbers that are compared: of truth values integers."""
    if x.dtype.kind == "c":
        raise NoLoopForm("of complex numbers")
    return converted(x, WHOLE) if x.dtype.kind == "b" else x


def before(x, y):
    """Return whether x is sorted before y."""
    less = mapped(np.less, x, y)
    if less.form.dtypes[0].kind != "f":
        return less
    return mapped(np.logical_or, less, mapped(np.logical_and, mapped(np.not_equal, y, y), mapped(np.equal, x, x)))


def places_along(places, axis, length):
    """Return the maps of the elements that stand at places along an axis."""
    maps = list(identity(places.shape))
    maps[axis] = GatherIndex(places, identity(places.shape), length)
    return tuple(maps)


# --- sorting -------------------------------------------------------------------------------------------------------------------------


def ranks(x, axis):
    """Return for each element how many are sorted before it."""
    shape = (*x.shape, x.shape[axis])
    other = list(identity(x.shape))
    other[axis] = along(x.ndim, x.shape[axis])
    mine, others = indexed(x, identity(x.shape), shape), indexed(x, other, shape)
    earlier = mapped(np.less, position(x.ndim, shape), position(axis, shape))
    first = mapped(select, earlier, mapped(np.logical_not, before(mine, others)), before(others, mine), out=np.dtype(bool))
    return reduced("sum", converted(first, WHOLE), (x.ndim,))


@lowers
def argsort(out, x, axis=-1, kind=None, order=None, stable=None):
    x, axis = along_axis(ordered(x), axis)
    if order is not None:
        raise NoLoopForm("it sorts by fields")
    if x.shape[axis] > ONE_BY_ONE:
        raise NoLoopForm("NumPy sorts many numbers faster")
    return put_back(out, position(axis, x.shape), ranks(x, axis), axis, x.shape)


@lowers
def reordered(out, x, places, axis, **options):
    x, axis = along_axis(x, axis)
    return indexed(x, places_along(places, axis, x.shape[axis]), places.shape)


@lowers
def put_back(out, y, places, axis, shape):
    if axis is None:
        return reshaped(put_back(out, y, places, 0, (y.size,)), shape)
    axis %= len(shape)
    zeros = fill(y.dtype.type(0), shape, y.dtype)
    return Node(Scatter(zeros, y, places_along(places, axis, shape[axis]), False), shape, y.dtype)


# --- searching -----------------------------------------------------------------------------------------------------------------------


@lowers
def searchsorted(out, a, v, side="left", sorter=None):
    a, v = as_node(a), as_node(v)
    shared = np.promote_types(a.dtype, v.dtype)
    a, v = ordered(converted(a, shared)), ordered(converted(v, shared))
    if sorter is not None:
        a = indexed(a, places_along(as_node(sorter), 0, a.size), a.shape)
    return bisected(a, v, side.startswith("r"))


def bisected(a, v, right):
    """Return how many elements of a sorted vector are before each of v, with `right` also those that are equal."""
    count, step = fill(0, v.shape, WHOLE), 1 << a.size.bit_length() - 1
    while step:
        more = mapped(np.add, count, step)
        at = mapped(np.subtract, mapped(np.minimum, more, a.size), 1)
        found = indexed(a, (GatherIndex(at, identity(v.shape), 0),), v.shape)
        passed = mapped(np.logical_not, before(v, found)) if right else before(found, v)
        passed = mapped(np.logical_and, mapped(np.less_equal, more, a.size), passed)
        count, step = mapped(select, passed, more, count, out=WHOLE), step >> 1
    return count


@lowers
def digitize(out, x, bins, right=False):
    edges, side = known(bins), "left" if right else "right"
    if np.isnan(edges).any():
        raise NoLoopForm("NaN is among its bins")
    if edges[0] <= edges[-1]:
        return searchsorted(out, as_node(edges), x, side)
    return mapped(np.subtract, edges.size, searchsorted(out, as_node(edges[::-1]), x, side))


@lowers
def unravel_index(outs, indices, shape, order="C"):
    size = math.prod(shape) if np.ndim(shape) else shape
    if size > CACHE_ELEMENTS:
        raise NoLoopForm("it checks bounds")
    x = as_node(indices)
    at = mapped(select, mapped(np.less, x, 0), size, x, out=WHOLE)  # which raises
    tables = np.unravel_index(np.arange(size), shape, order)
    return [indexed(as_node(table), (GatherIndex(at, identity(at.shape), size),), at.shape) for table in tables]


def place_of(name):
    """Make the rule of the place of the first largest or smallest element, or of the first NaN."""

    def rule(out, x, axis=None, into=None, keepdims=NO):
        x, axis = along_axis(ordered(x), axis)
        best = mapped(np.equal, x, reduced(name, x, (axis,), True))
        best = mapped(np.logical_or, best, mapped(np.not_equal, x, x))
        places = mapped(select, best, position(axis, x.shape), x.shape[axis], out=WHOLE)
        return reshaped(reduced("minimum", places, (axis,)), out.shape)

    return rule


LOWERINGS["argmax"] = place_of("maximum")
LOWERINGS["argmin"] = place_of("minimum")


@lowers
def leader(out, ufunc, x, axis):
    x, axis = ordered(x), axis % x.ndim
    best = Node(Cumulative(ufunc.__name__, x, axis), x.shape, x.dtype)
    last = taken(best, axis, np.maximum(np.arange(x.shape[axis]) - 1, 0))
    both = mapped(np.logical_and, mapped(np.not_equal, best, best), mapped(np.not_equal, last, last))
    places = mapped(select, mapped(np.logical_or, mapped(np.equal, best, last), both), 0, position(axis, x.shape), out=WHOLE)
    return Node(Cumulative("maximum", places, axis), x.shape, WHOLE)


@lowers
def last_of(out, place, order, size):
    return Node(Scatter(fill(0, (size,), WHOLE), as_node(order), (GatherIndex(place, identity(place.shape), size),), False), (size,), WHOLE)


@lowers
def bins_of(out, x, size):
    """Return bins, of which those that are none are beyond the last one."""
    return mapped(select, mapped(np.less, x, 0), size, x, out=out.dtype)
