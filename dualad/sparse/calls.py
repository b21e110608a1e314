"""What is called between the loops, read for sparsity by what its row says: how it moves elements, the axes that it works along.

A row may name one of the functions here (``pattern="product"``); what says nothing is dense over what it touches.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..graph.program import Value, map_values
from ..rules.calling import signature
from ..rules.kinds import ROWS, Constant
from .sets import Sets, scipy_sparse, together, union, with_empty_row

#: keywords of a function that moves elements that say what the elements are, not where they go
CASTS = ("dtype", "casting")


def called(operation, of, known) -> list[Sets]:
    """Return the sets of the results of an operation; `of` says those of a value, `known` the array that it always is, or None."""
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
        return together(out.shape, [of(arg) if type(arg) is Value else Sets(np.shape(arg)) for arg in arrays], move)
    if row is None or (operation.several and type(row.axes) is not tuple):
        return None
    if row.pattern is not None:
        return globals()[row.pattern](out, of, known, *operation.args, **operation.kwargs)
    if row.elementwise:
        return union(out.shape, [of(value) for value in operation.reads])
    if type(row.axes) is tuple:
        return stacked(operation, len(row.axes), of)
    return None if row.axes is None else along(operation, row.axes, of, known)


def constants(known, arguments):
    """Return arguments with arrays for the values that are always the same; None where one is computed."""
    found = []

    def put(value):
        found.append(known(value))
        return found[-1]

    arguments = map_values(put, arguments)
    return None if any(array is None for array in found) else arguments


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
        return np.asarray(operation.call(*(moved.get(i, arg) for i, arg in enumerate(rest)), **options)).astype(np.int32)

    return [args[i] for i in places], None if rest is None or options is None else move


def along(operation, name, of, known):
    """Return the unions along the axes that an argument names, for each element of the result."""
    call = signature(operation.fn).bind(*operation.args, **operation.kwargs)
    call.apply_defaults()
    x, axis, out = operation.args[0], call.arguments[name], operation.outputs[0]
    if type(x) is not Value or any(of(value).parts for value in operation.reads if value is not x):
        return None
    if axis is None or not x.ndim:
        return of(x).total().broadcast(out.shape)
    axes = tuple(int(k) % x.ndim for k in (axis if isinstance(axis, tuple | list) else (axis,)))
    one = of(x).reduced(axes)
    if out.ndim == len(one.shape):
        return one.broadcast(out.shape)
    shape = tuple(1 if k in axes else n for k, n in enumerate(x.shape))
    return one.map(lambda rows: np.expand_dims(rows, axes), shape).broadcast(out.shape)


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
    first, second = first.reduced((a.ndim - 1,)), second.reduced((max(b.ndim - 2, 0),))
    if a.ndim > 1 and b.ndim > 1:
        first = first.map(lambda rows: rows[..., None], (*first.shape, 1))
        second = second.map(lambda rows: rows[..., None, :], (*second.shape[:-1], 1, *second.shape[-1:]))
    return union(out.shape, [first, second])


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
    lead = values[0].shape[:-count]
    if not lead or any(value.ndim <= count or value.shape[:-count] != lead for value in values):
        return None
    one = union(lead, [of(value).reduced(tuple(range(value.ndim - count, value.ndim))) for value in values])
    results = []
    for out in operation.outputs:
        if out.shape[: len(lead)] != lead:
            return None
        shape = (*lead, *(1,) * (out.ndim - len(lead)))
        results.append(one.map(lambda rows: np.reshape(rows, shape), shape).broadcast(out.shape))
    return results
