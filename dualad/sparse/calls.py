"""What is called between the loops, read for sparsity: products with constants, functions along axes; else dense over what it touches."""

from __future__ import annotations

import numpy as np

from ..core.levels import locate
from ..graph.program import Value, map_values, updated
from ..rules import decompositions, names
from ..rules.calculus import convolve_full
from ..rules.indexing import cast, getitem, restate
from ..rules.kinds import ROWS, Elementwise
from ..rules.linalg import cofactor_matrix
from ..rules.memory import as_plain_array, copied, in_order
from ..rules.reductions import put_back, reordered
from ..rules.shapes import blank, filled
from ..rules.sparse import times_sparse
from .sets import Sets, scipy_sparse, together, union, with_empty_row

__all__ = ["called"]


def called(operation, of, known) -> list[Sets]:
    """Return the sets of the results of an operation; `of` says those of a value, `known` the array that it always is, or None."""
    outs = operation.outputs
    if all(out.dtype.kind not in "fc" or not out.size for out in outs):
        return [Sets(out.shape) for out in outs]
    fn, row = operation.fn, ROWS.get(operation.fn)
    result = None
    if fn in CALLS and len(outs) == 1:
        result = CALLS[fn](outs[0], of, known, *operation.args, **operation.kwargs)
    elif isinstance(row, Elementwise) and len(outs) == 1:
        result = union(outs[0].shape, [of(value) for value in operation.reads])
    elif fn in STACKED:
        result = stacked(operation, of)
    if result is None:
        total = union((), [of(value).total() for value in operation.reads])
        result = [total.broadcast(out.shape) for out in outs]
    return [
        Sets(out.shape) if out.dtype.kind not in "fc" else sets
        for out, sets in zip(outs, result if isinstance(result, list) else [result], strict=True)
    ]


def constants(known, arguments):
    """Return arguments with arrays for the values that are always the same; None where one is computed."""
    found = []

    def put(value):
        found.append(known(value))
        return found[-1]

    arguments = map_values(put, arguments)
    return None if any(array is None for array in found) else arguments


def moves(fn):
    """Make the rule of a function that moves the elements of its first argument."""

    def rule(out, of, known, x, *rest, **options):
        rest, options = constants(known, list(rest)), constants(known, options)
        if rest is None or options is None or type(x) is not Value:
            return None
        return of(x).map(lambda rows: np.asarray(fn(rows, *rest, **options)), out.shape)

    return rule


def assigned(out, of, known, x, v, index, ops=()):
    rest = constants(known, [index, ops])
    if rest is None:
        return None
    index, ops = rest
    places = locate(ops, np.arange(out.size).reshape(out.shape))[index]

    def put(rows, new):
        rows = np.array(rows).reshape(-1)
        rows[places] = np.reshape(new, np.shape(new)[max(np.ndim(new) - np.ndim(places), 0) :])  # axes of length 1 may stand in front
        return rows.reshape(out.shape)

    sets, written = (of(arg) if type(arg) is Value else Sets(np.shape(arg)) for arg in (x, v))
    return together(out.shape, [sets, written], put)


def joining(fn):
    """Make the rule of a function that joins arrays."""

    def rule(out, of, known, *arrays, axis=0, dtype=None, casting=None):
        many = [of(arg) if type(arg) is Value else Sets(np.shape(arg)) for arg in arrays]
        return together(out.shape, many, lambda *rows: fn(rows, axis=axis))

    return rule


def transformed(out, of, known, x, n=None, axis=-1, norm=None):
    """A Fourier transform: all along an axis depends on all along it."""
    return spread(out, of(x), axis)


def sorted_along(out, of, known, x, places, axis, *rest, **options):
    return spread(out, of(x), axis)


def partitioned(out, of, known, x, kth, axis=-1, *rest, **options):
    return spread(out, of(x), axis)


def spread(out, sets, axis):
    """Return the unions along an axis, for each element of the result along it."""
    if axis is None:
        return sets.total().broadcast(out.shape)
    axis = int(axis) % len(sets.shape)
    one = sets.reduced((axis,))
    shape = (*one.shape[:axis], 1, *one.shape[axis:])
    return one.map(lambda rows: np.expand_dims(rows, axis), shape).broadcast(out.shape)


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


def stacked(operation, of):
    """A function of stacks of matrices: dense over each."""
    values = [value for value in operation.args if type(value) is Value]
    lead = values[0].shape[:-2]
    if not lead or any(value.ndim < 3 or value.shape[:-2] != lead for value in values):
        return None
    one = union(lead, [of(value).reduced((value.ndim - 2, value.ndim - 1)) for value in values])
    results = []
    for out in operation.outputs:
        if out.shape[: len(lead)] != lead:
            return None
        shape = (*lead, *(1,) * (out.ndim - len(lead)))
        results.append(one.map(lambda rows: np.reshape(rows, shape), shape).broadcast(out.shape))
    return results


STACKED = {
    np.linalg.solve, np.linalg.inv, np.linalg.det, np.linalg.slogdet, cofactor_matrix, decompositions.cholesky_factor,
    decompositions.eigh_factors, decompositions.eigenvalues, decompositions.eig_factors, decompositions.general_eigenvalues,
    decompositions.svd_factors, decompositions.singular_values, decompositions.qr_factors, decompositions.pseudo_inverse,
}  # fmt: skip

MOVES = [
    np.reshape, np.ravel, np.transpose, np.swapaxes, np.moveaxis, np.expand_dims, np.squeeze, np.broadcast_to, np.flip, np.diagonal,
    np.take, np.roll, np.repeat, np.tile, np.delete, np.lib.stride_tricks.sliding_window_view, getitem,
]  # fmt: skip

CALLS = {
    **{fn: moves(fn) for fn in MOVES},
    **{fn: moves(lambda rows, *rest, **options: rows) for fn in (np.copy, cast, restate, copied, in_order, as_plain_array, np.conjugate)},
    **{fn: moves(lambda rows, *rest, **options: rows) for fn in (np.real, np.imag)},
    **{fn: lambda out, *rest, **options: Sets(out.shape) for fn in (blank, filled, np.zeros, np.sign, np.floor)},
    np.concatenate: joining(np.concatenate),
    np.stack: joining(np.stack),
    updated: assigned,
    np.matmul: product,
    np.dot: dot,
    names.np.einsum: einsum,
    times_sparse: sparse_product,
    convolve_full: convolved,
    reordered: sorted_along,
    put_back: sorted_along,
    np.partition: partitioned,
    **dict.fromkeys((np.fft.fft, np.fft.ifft, np.fft.rfft, np.fft.irfft), transformed),
}
