"""The lowering of reductions, scans and products: loops that accumulate. See `lower`."""

import math

from ..rules.names import np
from ..rules.shapes import select
from ..rules.ufunc_methods import segments
from ..support.costs import LANES, LIBRARY_PRODUCTS
from .elimination import regular
from .forms import (
    LOWERINGS,
    AffineIndex,
    Cumulative,
    GatherIndex,
    Index,
    Map,
    Node,
    NoLoopForm,
    Reduce,
    Scatter,
    along,
    broadcast,
    converted,
    fill,
    identity,
    indexed,
    lowers,
    mapped,
    parts_of,
    taken,
)
from .moves import along_axis, as_node, known, placed, position, positions_along, reshaped

NO = np._NoValue


def axes_of(x, axis):
    """Return the axes that a reduction goes over; a number has none, though NumPy lets it have axis 0."""
    if axis is None or not x.ndim:
        return tuple(range(x.ndim))
    return tuple(sorted(int(a) % x.ndim for a in (axis if isinstance(axis, tuple | list) else (axis,))))


def reduced(name, x, axes, keepdims=False, fused=False):
    """Return the reduction of a node over axes."""
    if not axes:
        return x
    shape = tuple(n for k, n in enumerate(x.shape) if k not in axes)
    node = Node(Reduce(name, x, tuple(axes), fused), shape, x.dtype)
    return reshaped(node, tuple(1 if k in axes else n for k, n in enumerate(x.shape))) if keepdims not in (False, NO) else node


def masked(x, where, neutral):
    """Return a node with a neutral number where a mask is false."""
    if where is True or where is NO:
        return x
    where = as_node(where)
    x = broadcast(x, np.broadcast_shapes(x.shape, where.shape))
    return mapped(select, where, x, fill(x.dtype.type(neutral), (), x.dtype), out=x.dtype)


def accumulated(name, fn, neutral):
    """Make the rule of a sum or product."""

    def rule(out, x, axis=None, dtype=None, into=None, keepdims=False, initial=NO, where=True):
        wide = np.dtype(float) if out.dtype == np.float32 else out.dtype
        node = reduced(name, masked(converted(x, wide), where, neutral), axes_of(x, axis), keepdims)
        if initial is not NO and initial is not None:
            node = mapped(fn, node, initial, out=wide)
        return converted(node, out.dtype)

    return rule


LOWERINGS["sum"] = accumulated("sum", np.add, 0)
LOWERINGS["prod"] = accumulated("product", np.multiply, 1)


@lowers
def add_reduceat(out, x, indices, axis=0, dtype=None):
    starts, axis, x = known(indices), axis % x.ndim, converted(x, out.dtype)
    first, parts = taken(x, axis, starts), [range(a + 1, b) for a, b in segments(starts, x.shape[axis])]
    if not any(parts):
        return first
    rest = taken(x, axis, np.concatenate(parts).astype(int))
    turns = np.repeat(np.arange(len(parts)), list(map(len, parts)))
    maps = list(identity(rest.shape))
    maps[axis] = positions_along(turns, len(parts), axis, rest.shape[axis : axis + 1])
    zeros = fill(out.dtype.type(-0.0), out.shape, out.dtype)
    return mapped(np.add, first, Node(Scatter(zeros, rest, tuple(maps), True), out.shape, out.dtype))


def extremum(name, fn):
    """Make the rule of a maximum or minimum."""

    def rule(out, x, axis=None, into=None, keepdims=False, initial=NO, where=True):
        if x.dtype.kind == "c":
            raise NoLoopForm("of complex numbers")
        if where is not True and where is not NO and not issubclass(type(initial), int | float | np.generic):
            raise NoLoopForm("it has a mask")
        x = masked(x, where, initial)  # which takes part in any case
        node = reduced(name, x, axes_of(x, axis), keepdims)
        return node if initial is NO or initial is None else mapped(fn, node, initial, out=out.dtype)

    return rule


LOWERINGS["max"] = extremum("maximum", np.maximum)
LOWERINGS["min"] = extremum("minimum", np.minimum)


@lowers
def defined(out, x, fine, reason):
    return regular(as_node(x), truth(as_node(fine)))


def truth(x):
    return x if x.dtype.kind == "b" else mapped(np.not_equal, x, fill(x.dtype.type(0), (), x.dtype))


@lowers
def every(out, x, axis=None, into=None, keepdims=False, where=True):
    return reduced("all", masked(truth(x), where, True), axes_of(x, axis), keepdims)


@lowers
def some(out, x, axis=None, into=None, keepdims=False, where=True):
    return reduced("any", masked(truth(x), where, False), axes_of(x, axis), keepdims)


@lowers
def count_nonzero(out, x, axis=None, keepdims=False):
    return reduced("sum", converted(truth(x), np.dtype(int)), axes_of(x, axis), keepdims)


# --- moments -----------------------------------------------------------------------------------------------------------------------


def average(x, axis, dtype, keepdims, where):
    """Return the mean in double precision."""
    if dtype is not None and np.dtype(dtype).kind not in "fc" and x.dtype.kind in "fc":
        raise NoLoopForm("numbers are rounded to integers before they are added up")
    axes = axes_of(x, axis)
    return mapped(np.divide, reduced("sum", masked(widened(x), where, 0), axes, keepdims), counted(x, axes, keepdims, where))


def counted(x, axes, keepdims, where):
    """Return how many elements are added up, as a float."""
    if where is True or where is NO:
        return float(math.prod(x.shape[a] for a in axes))
    ones = masked(fill(1.0, x.shape, np.dtype(float)), where, 0)
    return reduced("sum", ones, axes, keepdims)


def widened(x):
    """Return numbers in double precision."""
    return converted(x, np.dtype(complex if x.dtype.kind == "c" else float))


def squared(x):
    """Return the squares of magnitudes."""
    if x.dtype.kind != "c":
        return mapped(np.square, x)
    return mapped(np.add, *(mapped(np.square, part) for part in parts_of(x)))


@lowers
def mean(out, x, axis=None, dtype=None, into=None, keepdims=False, where=True):
    return converted(average(x, axis, dtype, keepdims, where), out.dtype)


def squares(x, axis, dtype, ddof, keepdims, where, correction):
    """Return the variance in double precision."""
    if isinstance(ddof, Node) or isinstance(correction, Node):
        raise NoLoopForm("its degrees of freedom are computed")
    if dtype is not None and x.dtype.kind == "c" and np.dtype(dtype).kind != "c":
        raise NoLoopForm("the mean of complex numbers is real")
    axes = axes_of(x, axis)
    apart = mapped(np.subtract, widened(x), average(x, axis, dtype, True, where))
    total, count = reduced("sum", masked(squared(apart), where, 0), axes, keepdims), counted(x, axes, keepdims, where)
    lost = ddof if correction is NO else correction
    if type(count) is float:
        return mapped(np.divide, total, max(count - lost, 0.0))
    return mapped(np.divide, total, mapped(np.maximum, mapped(np.subtract, count, float(lost)), 0.0))


@lowers
def var(out, x, axis=None, dtype=None, into=None, ddof=0, keepdims=False, where=True, correction=NO):
    return converted(squares(x, axis, dtype, ddof, keepdims, where, correction), out.dtype)


@lowers
def std(out, x, axis=None, dtype=None, into=None, ddof=0, keepdims=False, where=True, correction=NO):
    return converted(mapped(np.sqrt, squares(x, axis, dtype, ddof, keepdims, where, correction)), out.dtype)


@lowers
def norm(out, x, axis, keepdims):
    return converted(mapped(np.sqrt, reduced("sum", squared(widened(x)), axes_of(x, axis), keepdims)), out.dtype)


# --- scans -------------------------------------------------------------------------------------------------------------------------


def scanned(name):
    """Make the rule of a cumulative sum or product."""

    def rule(out, x, axis=None, dtype=None, into=None):
        x, axis = along_axis(x, axis)
        return Node(Cumulative(name, converted(x, out.dtype), axis), x.shape, out.dtype)

    return rule


LOWERINGS["cumsum"] = scanned("sum")
LOWERINGS["cumprod"] = scanned("product")


# --- products ----------------------------------------------------------------------------------------------------------------------


def product(out, terms, result, *operands):
    """Return the sum of products that letters say, as einsum: the innermost loop goes along memory.

    The letters that are summed stand before the last one of the result; behind it, where an operand's memory runs along them instead.
    """
    sizes: dict[str, int] = {}
    for term, x in zip(terms, operands, strict=True):
        if len(term) != x.ndim or x.dtype.kind not in "fc":
            raise NoLoopForm("its letters or dtypes are unusual")
        for letter, n in zip(term, x.shape, strict=True):
            if sizes.setdefault(letter, n) != n:
                raise NoLoopForm("its axes are broadcast")
    summed = [letter for letter in sizes if letter not in result]
    work = math.prod(sizes.values())
    few = math.prod(sizes[letter] for letter in summed) < LANES
    if work > LIBRARY_PRODUCTS:
        raise NoLoopForm(f"it takes {work} multiplications, which the library does faster")
    last = result[-1:]
    along_last = [runs_along(x, term) == last for term, x in zip(terms, operands, strict=True) if last in term]
    apart = 1 if last and (all(along_last) or (all(term[-1] == last for term in terms if last in term) and few)) else 0
    split = len(result) - apart
    order = [*result[:split], *summed, *result[split:]]
    shape = tuple(sizes[letter] for letter in order)
    factors = [
        indexed(x, [along(order.index(letter), sizes[letter]) for letter in term], shape) for term, x in zip(terms, operands, strict=True)
    ]
    products = factors[0]
    for factor in factors[1:]:
        products = mapped(np.multiply, products, factor)
    return total(out, products, tuple(range(split, split + len(summed))), fused=len(factors) > 1)


def total(out, products, axes, fused=True):
    """Return the sum of products over axes, which are not rounded in double precision; of single precision it is wider."""
    wide = np.dtype(float) if out.dtype == np.float32 else out.dtype
    return converted(reduced("sum", converted(products, wide), axes, fused=fused and products.dtype == np.float64), out.dtype)


def runs_along(x, term):
    """Return the letter of an operand along which its elements stand one after the other in memory, "" where there is none."""
    while isinstance(x.form, Map) and any(operand.shape == x.shape for operand in x.form.operands):
        x = next(operand for operand in x.form.operands if operand.shape == x.shape)
    inner = x.form.maps[-1] if isinstance(x.form, Index) and x.form.maps else None
    if isinstance(inner, AffineIndex):
        return term[inner.axis]
    return "" if isinstance(x.form, Index) else term[-1:]


@lowers
def matmul(out, a, b):
    a, b = as_node(a), as_node(b)
    batch = "ABCDEFGH"
    if a.ndim > 2 and b.ndim > 2 and a.shape[:-2] != b.shape[:-2]:
        raise NoLoopForm("its stacks are broadcast")
    first = batch[: max(a.ndim - 2, 0)] + ("ik" if a.ndim > 1 else "k")
    second = batch[: max(b.ndim - 2, 0)] + ("kj" if b.ndim > 1 else "k")
    outer = batch[: max(a.ndim, b.ndim, 2) - 2] + ("i" if a.ndim > 1 else "") + ("j" if b.ndim > 1 else "")
    return product(out, (first, second), outer, a, b)


@lowers
def dot(out, a, b):
    a, b = as_node(a), as_node(b)
    if not 1 <= a.ndim <= 2 or not 1 <= b.ndim <= 2:
        raise NoLoopForm("its arguments are numbers or stacks")
    return matmul(out, a, b)


@lowers
def convolve(out, a, v):
    """Return the sums of products of a vector, between zeros, with another one that runs backwards."""
    a, v = sorted((converted(as_node(x), out.dtype) for x in (a, v)), key=lambda x: -x.size)
    if a.size * v.size > LIBRARY_PRODUCTS:
        raise NoLoopForm(f"it takes {a.size * v.size} multiplications, which the library does faster")
    shape, around = (*out.shape, v.size), v.size - 1
    padded = placed(fill(out.dtype.type(0), (a.size + 2 * around,), out.dtype), a, slice(around, around + a.size))
    at = GatherIndex(mapped(np.add, position(0, shape), position(1, shape)), identity(shape), 0)
    products = mapped(np.multiply, indexed(padded, (at,), shape), indexed(v, (along(1, v.size, -1, around),), shape))
    return total(out, products, (1,), fused=False)


@lowers
def outer(out, a, b):
    a, b = (reshaped(x, (x.size,)) for x in map(as_node, (a, b)))
    return mapped(np.multiply, indexed(a, [along(0, a.size)], out.shape), indexed(b, [along(1, b.size)], out.shape))


@lowers
def einsum(out, *operands, subscripts, **options):
    if options or "." in subscripts:
        raise NoLoopForm("it has options")
    inputs, result = subscripts.replace(" ", "").split("->")
    return product(out, inputs.split(","), result, *map(as_node, operands))
