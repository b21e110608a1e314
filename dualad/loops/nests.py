"""How a loop nest is cut and turned: the boxes of its index space, the steps that a loop takes at once, the partial sums.

A nest's conditions on indices cut its index space into boxes. In the large ones all conditions are decided; their loops are emitted
without branches, with rows cut to the exact range and one index for all, which is what LLVM vectorises. All other boxes go through one
loop with the conditions in it, and so do all boxes again where an angle was too large for the kernels of `kernels`.
"""

import itertools
import math
from operator import attrgetter

import numpy as np

from ..support.costs import LANES, UNROLLED_ELEMENTS
from .forms import AffineIndex, Reduce, reachable


def cuts_of(pull, targets):
    """Return for each loop axis where conditions on its index change."""
    cuts = [{low, high} for low, high in pull.box]
    for axis, ranges in pull.conditions:
        cuts[axis].update(edge for pair in ranges for edge in pair)
    inner = len(pull.box) - 1
    for expression in below(targets):
        if expression.kind == "read":
            for position in expression.what[1]:
                if isinstance(position, AffineIndex) and position.axis == inner and len(position.pieces) > 1:
                    cuts[inner].update(edge for piece in position.pieces for edge in piece[:2])
    return [sorted(edges) for edges in cuts]


def boxes_of(cuts, apart):
    """Return the boxes with fast loops, and the rest. Wide ranges of an axis are boxes of their own, or else only the widest one is.

    If one box of a row has them, all have: its ends are computed while it is in the cache (a relaxation 9.2 ms, with conditions 14.6).
    """
    cells = [merged(list(itertools.pairwise(edges)), 2 * LANES if apart else math.inf) for edges in cuts]
    boxes = sorted(itertools.product(*cells), key=volume, reverse=True)
    large = {box for box in boxes if volume(box) >= 2 * LANES}
    rows = {box[:-1] for box in large if len(box) > 1}
    fast = [box for box in boxes if box in large or box[:-1] in rows]
    return fast, sorted(set(boxes).difference(fast))


def slab_axis(nest, cuts):
    """Return the axis along which each position is a case of its own, if these are few, or None.

    Where something is reduced, so it is with a last axis too short for vectors, beside a long one (10^4 rows of three: 8.9 us off, 3.5).
    """
    last = len(nest.shape) - 1
    if any(isinstance(root.form, Reduce) for root in nest.roots):
        short = last > 0 and 2 <= nest.shape[last] < LANES // 2 and nest.shape[last - 1] >= LANES
        return last if short and all(len(edges) == 2 for edges in cuts[:last]) else None
    for axis in range(bool(nest.rows), len(nest.shape)):
        count, edges = nest.shape[axis], cuts[axis]
        size = int(np.prod(nest.shape)) // count
        if 2 <= count == len(edges) - 1 <= UNROLLED_ELEMENTS and size > 1:
            return axis
    return None


def flattens(nest, pull, targets):
    """Return whether a nest reads and writes whole arrays alike, so that it is one loop over their elements."""
    if pull.conditions or any(isinstance(root.form, Reduce) and root.shape for root in nest.roots):
        return False
    for expression in below(targets):
        if expression.kind == "read" and expression.level:
            node, at = expression.what
            if at != pull.own or node.shape != nest.shape:
                return False
    return True


def jams(nest, pull, targets):
    """Return whether the last but one of a nest's loops takes several steps at once (see `jammed`).

    That saves most of the time where little is computed for an element of a reduction: the products of matrices, sums over first axes.
    """
    if len(nest.shape) < 2 + bool(nest.rows) or nest.shape[-1] < LANES or nest.shape[-2] < LANES // 2 or pull.conditions:
        return False
    last, inner = len(nest.shape) - 2, len(nest.shape) - 1
    sums = [{last, inner} & {*root.form.axes} for root in nest.roots if isinstance(root.form, Reduce)]
    if {last, inner} in sums or not ({last} in sums or {inner} in sums):
        return False
    return is_light(targets)


def lanes_of(nest, pull, targets, count, slabs):
    """Return how many partial sums a reduction has along an innermost loop of so many elements: a power of two."""
    if count < LANES:
        return 1
    if jams(nest, pull, targets):
        return LANES // 2 if len(nest.shape) > 2 else LANES
    if slabs or scattered(pull, targets):
        return LANES
    most = 4 * LANES if count == math.prod(nest.shape) else 2 * LANES
    most //= max(1, sum(isinstance(root.form, Reduce) for root in nest.roots)) if is_light(targets) else 2
    return max(LANES, 1 << (min(most, count // 4).bit_length() - 1))


def scattered(pull, targets):
    """Return whether an innermost loop reads numbers that do not stand side by side: more than `LANES` would be gathered one by one."""
    inner = len(pull.box) - 1
    reads = (position for expression in below(targets) if expression.kind == "read" for position in expression.what[1])
    strided = any(isinstance(at, AffineIndex) and at.axis == inner and at.pieces[0][2] not in (1, -1) for at in reads)
    return strided or any(expression.dtype.kind == "c" for expression in below(targets))


def is_light(targets):
    """Return whether little is computed for an element, so that eight partial sums would wait for each other."""
    cost = sum(expression.what.cost if expression.kind == "map" else 1 for expression in below(targets) if expression.args)
    return cost <= 2 * LANES


def jam(axis, count, together):
    """Return the loops over an axis that take steps together, and the steps that are left: their ranges, and the positions in each."""
    turns = count // together
    rest = [((), [(step,) for step in range(turns * together, count)])] if count % together else []
    return [*([(((0, turns),), [(AffineIndex(axis, ((0, turns, together, step),)),) for step in range(together)])] if turns else []), *rest]


def volume(box):
    return math.prod(map(width, box))


def merged(pairs, narrow):
    """Return ranges, of which narrow ones beside each other are one, all but the widest (a relaxation 13.6 us with all apart, 8.0)."""
    widest = max(pairs, key=width)
    groups = itertools.groupby(pairs, lambda pair: pair if pair == widest or width(pair) >= narrow else None)
    spans = (list(group) for _, group in groups)
    return [(span[0][0], span[-1][1]) for span in spans]


def width(pair):
    return pair[1] - pair[0]


def is_angle(expression):
    """Return whether an expression is a function of an angle, which may be too large for `kernels`."""
    return expression.kind == "map" and expression.what.of_angle


def below(targets):
    """Return all expressions that targets need, operands first."""
    return reachable(targets, attrgetter("args"))
