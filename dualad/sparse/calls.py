"""The functions of a program, read for sparsity by what their rows say: how they move elements, the axes that they work along.

A row may name one of the functions here (``pattern="product"``); what says nothing is dense over what it touches. Of the arguments, `of`
gives the sets, and `known` what is the same for all inputs, None where it is computed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..graph.program import Value, map_values, values_in
from ..rules.calling import signature
from ..rules.indexing import expand_index, overwritten, reads_once, stated
from ..rules.kinds import ROWS, Constant, strong_multiply
from ..rules.reductions import neighbours, take_along_axis
from ..rules.ufunc_methods import places_of_segments
from .sets import Sets, map_tables, scipy_sparse, union, with_empty_row

#: keywords of a function that moves elements that say what the elements are, not where they go
CASTS = ("dtype", "casting")


def called(operation, of, known) -> list[Sets]:
    """Return the sets of the results of an operation."""
    outs = operation.outputs
    if all(out.dtype.kind not in "fc" or not out.size for out in outs):
        return [Sets(out.shape) for out in outs]
    result = derived(operation, of, known)
    if result is None:
        total = union((), [of(value).total() for value in operation.reads])
        result = [total.broadcast(out.shape) for out in outs]
    return [
        Sets(out.shape) if out.dtype.kind not in "fc" else sets
        for out, sets in zip(outs, result if isinstance(result, list) else [result], strict=True)
    ]


def derived(operation, of, known):
    """Return the sets of the results that follow from the row of a function, None where it does not say."""
    row, out = ROWS.get(operation.fn), operation.outputs[0]
    if type(row) is Constant:
        return [Sets(out.shape) for out in operation.outputs]
    arrays, move = mover(operation, known)
    if move is not None:
        return map_tables(out.shape, list(map(of, arrays)), move)
    if row is None or (operation.several and type(row.axes) is not tuple):
        return None
    if row.pattern is not None and (found := globals()[row.pattern](out, of, known, *operation.args, **operation.kwargs)) is not None:
        return found
    if row.elementwise:
        return elementwise(operation, of, known)
    if type(row.axes) is tuple:
        return stacked(operation, len(row.axes), of)
    return None if row.axes is None else along(operation, row.axes, of, known)


def constants(known, arguments):
    """Return arguments with arrays for the values that are always the same; None where one is computed."""
    return None if computed(known, arguments) else map_values(known, arguments)


def computed(known, arguments):
    """Return whether a value in arguments is not always the same."""
    return any(known(value) is None for value in values_in(arguments))


def mover(operation, known):
    """Return the array arguments of a function that only moves their elements, and the function of their positions, which are above 0.

    It is None where the function does more, or an argument that says how to move is computed.
    """
    args = operation.args
    row: Any = ROWS.get(operation.fn)
    if row is None or not row.moves or not (row.moves is True or row.moves(*args)):
        return [], None
    places = list(row.arrays(args))
    rest = constants(known, [None if i in places else arg for i, arg in enumerate(args)])
    options = constants(known, {name: x for name, x in operation.kwargs.items() if name not in (*CASTS, *row.affine)})

    def move(*positions):
        moved = dict(zip(places, positions, strict=True))
        made = operation.call(*(moved.get(i, arg) for i, arg in enumerate(rest)), **options)
        return np.asarray(made).astype(np.intp, copy=False)

    return [args[i] for i in places], None if rest is None or options is None else move


def elementwise(operation, of, known):
    """Return the unions of the arguments at each element; a factor that is always zero there leaves none."""
    fn, args, out = operation.fn, operation.args, operation.outputs[0]
    if fn is stated:
        return of(args[1]).broadcast(out.shape)
    if fn is np.imag and args[0].dtype.kind != "c":
        return Sets(out.shape)
    if fn is np.multiply or fn is strong_multiply:
        return multiplied(out, [(of(arg), known(arg)) for arg in args])
    return union(out.shape, [of(value) for value in operation.reads])


def multiplied(out, factors):
    """Return the unions of factors, each the sets and the array that it always is; none where one is zero."""
    result = union(out.shape, [sets for sets, _ in factors])
    for _, array in factors:
        if array is not None and not np.all(array):
            result = result.where(np.broadcast_to(array, out.shape) != 0)
    return result


def along(operation, name, of, known):
    """Return the unions along the axes that an argument names, for each element of the result."""
    call = signature(operation.fn).bind(*operation.args, **operation.kwargs)
    call.apply_defaults()
    x, axis, out = operation.args[0], call.arguments[name], operation.outputs[0]
    if type(x) is not Value or any(of(value).parts for value in operation.reads if value is not x):
        return None
    sets, mask = of(x), call.arguments.get("where", True)
    if type(mask) is Value and (chosen := known(mask)) is not None:
        sets = sets.where(np.broadcast_to(chosen, x.shape))
    if axis is None or not x.ndim:
        return sets.total().broadcast(out.shape)
    axes = tuple(int(k) % x.ndim for k in (axis if isinstance(axis, tuple | list) else (axis,)))
    return sets.reduced(axes, keep=out.ndim > x.ndim - len(axes)).broadcast(out.shape)


# --- elements at places ---------------------------------------------------------------------------------------------------------------


def element(out, of, known, x, index):
    """``x[index]`` at computed places: any along their axes."""
    return picked(out, of(x), expand_index(index, x.ndim), known)


def taken(out, of, known, x, indices, axis=None, *options, **named):
    sets = of(x) if axis is not None else of(x).map(np.ravel, (x.size,))
    before = (slice(None),) * ((axis or 0) % max(x.ndim, 1))
    return picked(out, sets, expand_index((*before, indices), len(sets.shape)), known)


def picked(out, sets, parts, known):
    if any(type(part) is Value and part.dtype == bool for part in parts):  # which takes as many axes as it has
        return None
    axis, index = 0, list[Any]()
    for part in parts:
        if computed(known, part):
            sets = sets.reduced((axis,), keep=True)
            index.append(np.zeros(part.shape, int))
        else:
            index.append(map_values(known, part))
        axis += part is not None
    return sets.map(lambda rows: rows[tuple(index)], out.shape)


def assigned(out, of, known, x, v, index, ops=()):
    """An assignment to the real or imaginary parts, which leaves the others, or at computed places, which may be any."""
    place = constants(known, index)
    if place is None:
        return union(out.shape, [of(x), of(v).total()])
    views = [op for op in ops if op[0] not in (np.real, np.imag)]
    return union(out.shape, [of(x), of(v).map(lambda rows: overwritten(np.zeros(out.shape, rows.dtype), rows, place, views), out.shape)])


def scattered(out, of, known, g, index, like):
    return scatter(out, of(g), index, known)


def added_at(out, of, known, x, b, index):
    spread = scatter(out, of(b), index, known)
    return None if spread is None else union(out.shape, [of(x), spread])


def scatter(out, sets, index, known):
    """Return the sets at an index, their unions where it repeats; None where it is computed."""
    index = constants(known, index)
    if index is None:
        return None
    if reads_once(index):
        return sets.map(lambda rows: overwritten(np.zeros(out.shape, rows.dtype), rows, index), out.shape)
    target = np.arange(out.size).reshape(out.shape)[index]
    return summed(out, sets.broadcast(target.shape), target)


def summed(out, sets, target):
    """Return for each element of the result the union of the sets whose `target` it is."""
    ones, size = np.ones(target.size, bool), target.size
    matrix = scipy_sparse().csr_array((ones, (np.ravel(target), np.arange(size))), shape=(out.size, size))
    return times(out, matrix, sets.map(np.ravel, (size,)).united())


def reordered(out, of, known, x, places, axis, **options):
    """Sorted elements, at known places."""
    places = known(places)
    return None if places is None else of(x).map(lambda rows: take_along_axis(rows, places, axis), out.shape)


def inserted(out, of, known, arr, obj, values, axis=None):
    place = constants(known, obj)
    return None if place is None else map_tables(out.shape, [of(arr), of(values)], lambda arr, values: np.insert(arr, place, values, axis))


# --- along an axis ----------------------------------------------------------------------------------------------------------------------


def running(out, of, known, x, axis=None, *options, **named):
    """Each element depends on all before it along the axis."""
    sets = (of(x) if axis is not None and x.ndim else of(x).map(np.ravel, (x.size,))).united()
    axis = 0 if axis is None else axis % out.ndim
    for power in range((out.shape[axis] - 1).bit_length()):

        def shifted(rows, step=1 << power):
            moved = np.zeros(out.shape, rows.dtype)
            before = (slice(None),) * axis
            moved[(*before, slice(step, None))] = rows[(*before, slice(None, -step))]
            return moved

        sets = union(out.shape, [sets, sets.map(shifted, out.shape)]).united()
    return sets


def differences(out, of, known, x, axis):
    return union(out.shape, [of(x).map(lambda rows, k=k: neighbours(rows, axis)[k], out.shape) for k in (0, 1)])


def scattered_differences(out, of, known, g, axis):
    def moved(rows, k):
        back = np.zeros(out.shape, rows.dtype)
        neighbours(back, axis)[k][...] = rows
        return back

    return union(out.shape, [of(g).map(lambda rows, k=k: moved(rows, k), out.shape) for k in (0, 1)])


def segments(out, of, known, x, indices, axis=0, dtype=None):
    """Each element depends on the elements of a segment along the axis."""
    given = constants(known, indices)
    if given is None:
        return None
    into, spread = places_of_segments(given, x.shape[axis])
    shape = (*x.shape[: axis % x.ndim], len(into), *x.shape[axis % x.ndim + 1 :])
    sets = of(x).map(lambda rows: np.take(rows, into, axis), shape)
    return summed(out, sets, np.take(np.arange(out.size).reshape(out.shape), spread, axis))


# --- products -----------------------------------------------------------------------------------------------------------------------


def product(out, of, known, a, b, **options):
    """``a @ b``: exact where one factor is constant and has zeros."""
    if type(a) is not Value or type(b) is not Value:
        return None
    first, second = of(a), of(b)
    factors = [None if sets.parts else known(value) for sets, value in ((first, a), (second, b))]
    for factor, sets, left in ((factors[0], second, True), (factors[1], first, False)):
        if factor is not None and factor.ndim == 2 and len(sets.shape) in (1, 2) and not np.all(factor):
            return times(out, factor if left else factor.T, sets, left)
    both = a.ndim > 1 and b.ndim > 1
    return union(out.shape, [first.reduced((-1,), both), second.reduced((max(b.ndim - 2, 0),), both)])


def times(out, factor, sets, left=True):
    """Return the sets of a constant matrix times an array of one or two axes, from the left, or (transposed) from the right."""
    sparse = scipy_sparse()
    pattern = sparse.csr_array(factor, dtype=bool)
    if len(sets.shape) == 2:
        eye = sparse.eye_array(sets.shape[1] if left else sets.shape[0], dtype=bool)
        pattern = sparse.csr_array(sparse.kron(pattern, eye) if left else sparse.kron(eye, pattern), dtype=bool)  # no entries: floats
    parts = []
    for rows, table in sets.parts:
        chosen = sparse.csr_array((np.ones(rows.size, bool), np.ravel(rows), np.arange(rows.size + 1)), shape=(rows.size, table.shape[0]))
        numbers = np.arange(1, pattern.shape[0] + 1).reshape(out.shape)
        parts.append((numbers, with_empty_row(pattern @ (chosen @ table))))
    return Sets(out.shape, parts)


def outer(out, of, known, a, b):
    factors = []
    for x, shape in ((a, (out.shape[0], 1)), (b, (1, out.shape[1]))):
        array = known(x)
        sets = of(x).map(lambda rows, shape=shape: np.reshape(rows, shape), shape)
        factors.append((sets, None if array is None else np.reshape(array, shape)))
    return multiplied(out, factors)


def dot(out, of, known, a, b):
    if not all(type(x) is Value and 1 <= x.ndim <= 2 for x in (a, b)):
        return None
    return product(out, of, known, a, b)


def sparse_product(out, of, known, x, matrix):
    sparse = scipy_sparse()
    coo = sparse.coo_array(matrix)
    stored = coo.data != 0
    pattern = sparse.csr_array((np.ones(stored.sum(), bool), (coo.row[stored], coo.col[stored])), shape=coo.shape)
    return times(out, pattern, of(x))


def einsum(out, of, known, *operands, subscripts, **options):
    """Each element depends on the operands at its letters."""
    inputs, result = subscripts.replace(" ", "").split("->")
    terms = inputs.split(",")
    if "." in subscripts or any(len(set(term)) < len(term) for term in terms):
        return None
    many = []
    for term, x in zip(terms, operands, strict=True):
        if type(x) is not Value:
            return None
        sets = of(x).reduced(tuple(k for k, letter in enumerate(term) if letter not in result))
        kept = [letter for letter in term if letter in result]
        order = sorted(range(len(kept)), key=lambda k: result.index(kept[k]))
        index = tuple(slice(None) if letter in kept else None for letter in result)
        shape = tuple(n if letter in kept else 1 for letter, n in zip(result, out.shape, strict=True))
        many.append(sets.map(lambda rows: np.transpose(rows, order)[index], shape))
    return union(out.shape, many)


def convolved(out, of, known, a, v):
    """Element k depends on a[i] and v[k - i]."""
    if type(a) is not Value or type(v) is not Value:
        return None
    many = []
    for one, other in ((a, v), (v, a)):
        sets = of(one)
        if not sets.parts:
            continue
        factor = None if of(other).parts else known(other)
        shifts = range(other.size) if factor is None else np.flatnonzero(factor)
        if not len(shifts):
            continue
        ones, offsets = [np.ones(one.size)] * len(shifts), [-int(k) for k in shifts]
        many.append(times(out, scipy_sparse().diags_array(ones, offsets=offsets, shape=(out.size, one.size)), sets))
    return union(out.shape, many)


# --- stacks of matrices ---------------------------------------------------------------------------------------------------------------


def stacked(operation, count, of):
    """A function of stacks of matrices: dense over each, which has its last `count` axes."""
    values = [value for value in operation.args if type(value) is Value]
    leads = [value.shape[: max(value.ndim - count, 0)] for value in values]
    lead = np.broadcast_shapes(*leads)
    if any(out.shape[: len(lead)] != lead for out in operation.outputs):
        return None
    one = union(lead, [of(value).reduced(tuple(range(len(own), value.ndim))) for value, own in zip(values, leads, strict=True)])
    results = []
    for out in operation.outputs:
        shape = (*lead, *(1,) * (out.ndim - len(lead)))
        results.append(one.map(lambda rows, shape=shape: np.reshape(rows, shape), shape).broadcast(out.shape))
    return results


def solved(out, of, known, a, b):
    """``np.linalg.solve``: each column of b by itself."""
    if type(a) is not Value or type(b) is not Value or b.ndim == 1:
        return None
    return union(out.shape, [of(a).reduced((-2, -1), keep=True), of(b).reduced((-2,), keep=True)])


def lower_factor(out, of, known, a):
    return of(a).reduced((-2, -1), keep=True).broadcast(out.shape).where(np.tril(np.ones(out.shape, bool)))


def sign_and_logarithm(out, of, known, a):
    """``np.linalg.slogdet``: the sign of a real determinant is constant."""
    if a.dtype.kind == "c":
        return None
    return [Sets(out.shape), of(a).reduced((-2, -1))]
