"""The lowering of linear algebra with matrices of a few rows: Gaussian elimination of their elements, which are numbers in the loops.

Rows change places by selections, as LAPACK chooses its pivots: that of the largest magnitude. Where one is zero the loops raise, and NumPy
evaluates the program again, whose error it is.
"""

import itertools

from ..rules.names import np
from ..rules.primitives import ratio
from ..rules.scalars import kernel
from ..rules.shapes import select
from ..support.costs import UNROLLED_ELEMENTS
from .forms import Map, Node, NoLoopForm, Piecewise, Region, broadcast, converted, fill, identity, indexed, lowers, mapped
from .moves import as_node

CALLED = "it is linear algebra, which LAPACK does"
REGULAR = kernel("regular", 2, dtype=None)


@lowers
def solve(out, a, b):
    a, b = as_node(a), as_node(b)
    rows, vector = rows_of(out, a), b.ndim == 1
    if not vector and b.shape[-2] * b.shape[-1] > UNROLLED_ELEMENTS:
        raise NoLoopForm(CALLED)
    sides = [[element(b, out.dtype, i)] for i in range(len(rows))] if vector else elements(b, out.dtype)
    return assembled(out, [[x] for (x,) in solved(rows, sides)] if vector else solved(rows, sides), vector)


@lowers
def inverse(out, a):
    rows = rows_of(out, a)
    count = range(len(rows))
    return assembled(out, solved(rows, [[fill(out.dtype.type(i == j), (), out.dtype) for j in count] for i in count]))


@lowers
def determinant(out, a):
    pivots, product = pivots_and_sign(out, a)
    for pivot in pivots:
        product = mapped(np.multiply, product, pivot)
    return mapped(np.add, product, 0.0)  # no -0.0


@lowers
def sign_and_logarithm(outs, a):
    pivots, sign = pivots_and_sign(outs[1], a)
    logarithm = fill(0.0, (), outs[1].dtype)
    for pivot in pivots:
        sign = chosen(mapped(np.less, pivot, 0.0), mapped(np.negative, sign), sign)
        sign = chosen(mapped(np.equal, pivot, 0.0), fill(0.0, (), sign.dtype), sign)
        logarithm = mapped(np.add, logarithm, mapped(np.log, mapped(np.absolute, pivot)))
    return sign, logarithm


@lowers
def cholesky(out, a):
    rows = rows_of(out, a)
    factor = [[fill(out.dtype.type(0), (), out.dtype)] * len(rows) for _ in rows]
    for i, row in enumerate(rows):
        for j in range(i + 1):
            rest = row[j]
            for k in range(j):
                rest = mapped(np.subtract, rest, mapped(np.multiply, factor[i][k], factor[j][k]))
            if i == j:
                factor[i][i] = mapped(np.sqrt, regular(rest, mapped(np.greater, rest, 0.0)))
            else:
                factor[i][j] = mapped(np.divide, rest, factor[j][j])
    return assembled(out, factor)


# --- steps of the elimination -------------------------------------------------------------------------------------------------------


def eliminated(rows):
    """Make rows upper triangular, in place; return where two of them have changed places. What stands beside the matrix goes with them."""
    swaps = []
    for k, row in enumerate(rows):
        for low in rows[k + 1 :]:
            swaps.append(mapped(np.greater, mapped(np.absolute, low[k]), mapped(np.absolute, row[k])))
            exchange(swaps[-1], row, low)
        for low in rows[k + 1 :]:
            subtract(low, row, mapped(ratio, low[k], row[k], out=row[k].dtype), k + 1)
    return swaps


def pivots_and_sign(out, a):
    """Return the pivots of an elimination, and the sign of the permutation of the rows."""
    rows, sign = rows_of(out, a), fill(out.dtype.type(1), (), out.dtype)
    for swap in eliminated(rows):
        sign = chosen(swap, mapped(np.negative, sign), sign)
    return [row[k] for k, row in enumerate(rows)], sign


def solved(rows, sides):
    """Return the solutions for the right-hand sides, element by element."""
    rows, count = [[*row, *side] for row, side in zip(rows, sides, strict=True)], len(rows)
    eliminated(rows)
    for k in reversed(range(count)):
        for below in range(k + 1, count):
            subtract(rows[k], rows[below], rows[k][below], count)
        pivot = regular(rows[k][k], mapped(np.not_equal, rows[k][k], 0.0))
        rows[k][count:] = [mapped(np.divide, x, pivot) for x in rows[k][count:]]
    return [row[count:] for row in rows]


def chosen(condition, x, y):
    return mapped(select, condition, x, y, out=x.dtype)


def exchange(swap, high, low):
    """Let two rows change places where a condition holds."""
    for j, (x, y) in enumerate(zip(high, low, strict=True)):
        high[j], low[j] = chosen(swap, y, x), chosen(swap, x, y)


def subtract(row, other, factor, start=0):
    """Subtract a multiple of another row."""
    for j in range(start, len(row)):
        row[j] = mapped(np.subtract, row[j], mapped(np.multiply, factor, other[j]))


def regular(pivot, fine):
    """Return a pivot, which is checked."""
    return Node(Map(REGULAR, (pivot, fine), (pivot.dtype, fine.dtype)), np.broadcast_shapes(pivot.shape, fine.shape), pivot.dtype)


# --- elements -----------------------------------------------------------------------------------------------------------------------


def rows_of(out, a):
    """Return the elements of a matrix, or of many of them."""
    if a.shape[-1] ** 2 > UNROLLED_ELEMENTS // 2 or out.dtype.kind != "f" or a.dtype.kind not in "fiub":
        raise NoLoopForm(CALLED)
    return elements(a, out.dtype)


def elements(x, dtype):
    return [[element(x, dtype, i, j) for j in range(x.shape[-1])] for i in range(x.shape[-2])]


def element(x, dtype, *at):
    """Return an element of the last axes."""
    shape = x.shape[: x.ndim - len(at)]
    return converted(indexed(x, (*identity(shape), *at), shape), dtype)


def assembled(out, rows, vector=False):
    """Return the array of these elements."""
    regions = []
    batch = out.shape[: len(out.shape) - (1 if vector else 2)]
    for i, j in itertools.product(range(len(rows)), range(len(rows[0]))):
        place = ((i, i + 1),) if vector else ((i, i + 1), (j, j + 1))
        regions.append(Region((*((0, n) for n in batch), *place), broadcast(rows[i][j], batch), identity(batch)))
    return Node(Piecewise(tuple(regions), fill(out.dtype.type(0), out.shape, out.dtype)), out.shape, out.dtype)
