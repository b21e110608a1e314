"""Products of vectors and matrices beyond `linalg`, all made of others: newer names, chains, tensors, norms."""

from __future__ import annotations

import operator
from functools import cache

from numpy.lib.array_utils import normalize_axis_index

from .constants import evaluate, named
from .decompositions import conj
from .kinds import composite
from .linalg import mT, norm, vector_norm
from .names import np

# --- vectors ----------------------------------------------------------------------------------------------------------------


def vecdot(a, b, /, *, axis=-1):
    a, b = (np.moveaxis(x, axis, -1) if axis != -1 else x for x in (a, b))
    return np.matmul(np.expand_dims(conj(a), -2), np.expand_dims(b, -1))[..., 0, 0][()]


def cross(a, b, axisa=-1, axisb=-1, axisc=-1, axis=None):
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = np.moveaxis(a, axisa, -1), np.moveaxis(b, axisb, -1)
    if not {np.shape(a)[-1], np.shape(b)[-1]} <= {2, 3}:
        raise ValueError(f"numpy.cross: shapes {np.shape(a)} and {np.shape(b)}: the vectors must have 2 or 3 components")
    (a0, a1, a2), (b0, b1, b2) = components(a), components(b)
    last = a0 * b1 - a1 * b0
    if np.shape(a)[-1] == np.shape(b)[-1] == 2:
        return last
    return np.moveaxis(np.stack([a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, last], axis=-1), -1, axisc)


def components(a):
    """Return the three components of vectors of two or three."""
    return a[..., 0], a[..., 1], a[..., 2] if np.shape(a)[-1] == 3 else 0.0


def linalg_cross(x1, x2, /, *, axis=-1):
    if np.shape(x1)[axis] != 3 or np.shape(x2)[axis] != 3:
        raise ValueError(
            f"numpy.linalg.cross: both arrays must hold vectors of 3 components along axis {axis}; their shapes are "
            f"{np.shape(x1)} and {np.shape(x2)}"
        )
    return cross(x1, x2, axis=axis)


def linalg_outer(x1, x2, /):
    if np.ndim(x1) != 1 or np.ndim(x2) != 1:
        raise ValueError(f"numpy.linalg.outer: shapes {np.shape(x1)} and {np.shape(x2)}: both arrays must have one axis")
    return np.outer(x1, x2)


# --- matrices ---------------------------------------------------------------------------------------------------------------


def matrix_power(a, n):
    try:
        n = operator.index(n)
    except TypeError:
        raise TypeError(f"numpy.linalg.matrix_power: the exponent is {n!r}: it must be an integer") from None
    if n < 0:
        return matrix_power(np.linalg.inv(a), -n)
    if n == 0:
        return np.zeros_like(a) + np.eye(np.shape(a)[-1], dtype=a.dtype)
    square = matrix_power(np.matmul(a, a), n // 2) if n > 1 else None
    return a if square is None else np.matmul(square, a) if n % 2 else square


def multi_dot(arrays, *, out=None):
    """Multiply in the order of the fewest operations (Cormen et al., Introduction to Algorithms, 15.2)."""
    arrays = list(arrays)
    if len(arrays) == 2:
        return np.dot(*arrays)
    sizes = [
        1 if np.ndim(arrays[0]) == 1 else np.shape(arrays[0])[0],
        *(np.shape(a)[0] for a in arrays[1:]),
        1 if np.ndim(arrays[-1]) == 1 else np.shape(arrays[-1])[1],
    ]

    @cache
    def best(i, j):
        """Return the fewest operations for the product of arrays i to j, and where to split it."""
        return min(((best(i, k)[0] + best(k + 1, j)[0] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j)), default=(0, i))

    def product(i, j):
        if i == j:
            return arrays[i]
        k = best(i, j)[1]
        return np.matmul(product(i, k), product(k + 1, j))

    return product(0, len(arrays) - 1)


def tensorinv(a, ind=2):
    if ind <= 0:
        raise ValueError(f"numpy.linalg.tensorinv: ind is {ind}: it must be positive")
    shape = np.shape(a)
    return np.reshape(np.linalg.inv(np.reshape(a, (int(np.prod(shape[ind:])), -1))), (*shape[ind:], *shape[:ind]))


def tensorsolve(a, b, axes=None):
    if axes is not None:
        moved = [normalize_axis_index(axis, np.ndim(a)) for axis in axes]
        a = np.transpose(a, (*(i for i in range(np.ndim(a)) if i not in moved), *moved))
    shape = np.shape(a)[np.ndim(b) :]
    size = int(np.prod(shape))
    return np.reshape(np.linalg.solve(np.reshape(a, (np.size(b), size)), np.ravel(b)), shape)


def cond(x, p=None):
    if p in (None, 2, -2):
        s = np.linalg.svd(x, compute_uv=False)
        return s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    singular = evaluate(is_singular, x)
    inverse = np.where(singular, np.nan, np.linalg.inv(np.where(singular, np.eye(np.shape(x)[-1], dtype=bool), x)))
    return norm(x, p, axis=(-2, -1)) * norm(inverse, p, axis=(-2, -1))


def is_singular(x):
    return np.equal(np.linalg.slogdet(x)[0], 0)[..., None, None]


# --- the table --------------------------------------------------------------------------------------------------------------

# fmt: off
composite(np.cross,               cross, with_numpy_value=True)
composite(np.linalg.cross,        linalg_cross, with_numpy_value=True)
composite(np.linalg.outer,        linalg_outer, with_numpy_value=True)
composite(np.linalg.matmul,       lambda x1, x2, /: np.matmul(x1, x2))
composite(np.linalg.tensordot,    lambda x1, x2, /, *, axes=2: np.tensordot(x1, x2, axes))
composite(np.linalg.vecdot,       vecdot, with_numpy_value=True)
composite(np.linalg.diagonal,     lambda x, /, *, offset=0: np.diagonal(x, offset, -2, -1))
composite(np.linalg.trace,        lambda x, /, *, offset=0, dtype=None: np.trace(x, offset, -2, -1, dtype))
composite(np.linalg.matrix_power, matrix_power, with_numpy_value=True)
composite(np.linalg.multi_dot,    multi_dot, with_numpy_value=True)
composite(np.linalg.tensorinv,    tensorinv, with_numpy_value=True)
composite(np.linalg.tensorsolve,  tensorsolve, with_numpy_value=True)
composite(np.linalg.cond,         cond, with_numpy_value=True)
composite(np.linalg.matrix_norm,  lambda x, /, *, keepdims=False, ord="fro": norm(x, ord, (-2, -1), keepdims), with_numpy_value=True)
composite(np.linalg.vector_norm,  lambda x, /, *, axis=None, keepdims=False, ord=2:
                                  vector_norm(x, ord, tuple(range(np.ndim(x))) if axis is None else axis, keepdims), with_numpy_value=True)
# fmt: on
for fn in {np.matrix_transpose, np.linalg.matrix_transpose}:
    composite(fn, lambda x, /: mT(x))
for fn in named(np, "vecdot"):
    composite(fn, vecdot, with_numpy_value=True)
for fn in named(np, "matvec"):
    composite(fn, lambda a, x: np.matmul(a, x[..., None])[..., 0], with_numpy_value=True)
for fn in named(np, "vecmat"):
    composite(fn, lambda x, a: np.matmul(conj(x)[..., None, :], a)[..., 0, :], with_numpy_value=True)
