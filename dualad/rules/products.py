"""Products of vectors and matrices beyond `linalg`, all made of others: newer names, chains, tensors, norms."""

from numpy.lib.array_utils import normalize_axis_index

from .constants import evaluate
from .decompositions import conj
from .kinds import composite
from .linalg import norm, vector_norm
from .names import np
from .shapes import by_numpy

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


# --- matrices ---------------------------------------------------------------------------------------------------------------


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
composite(np.linalg.vecdot,       vecdot, with_numpy_value=True)
composite(np.linalg.tensorsolve,  tensorsolve, with_numpy_value=True)
composite(np.linalg.cond,         cond, with_numpy_value=True)
composite(np.linalg.matrix_norm,  lambda x, /, *, keepdims=False, ord="fro": norm(x, ord, (-2, -1), keepdims), with_numpy_value=True)
composite(np.linalg.vector_norm,  lambda x, /, *, axis=None, keepdims=False, ord=2:
                                  vector_norm(x, ord, tuple(range(np.ndim(x))) if axis is None else axis, keepdims), with_numpy_value=True)
for fn in (np.linalg.cross, np.linalg.outer, np.linalg.multi_dot, np.linalg.tensorinv, np.linalg.matmul, np.linalg.tensordot,
           np.linalg.trace, np.linalg.diagonal, np.linalg.matrix_power):
    composite(fn, by_numpy(fn))
# fmt: on
for fn in {np.matrix_transpose, np.linalg.matrix_transpose}:
    composite(fn, by_numpy(fn))
composite(np.vecdot, vecdot, with_numpy_value=True)
composite(np.matvec, lambda a, x: np.matmul(a, x[..., None])[..., 0], with_numpy_value=True)
composite(np.vecmat, lambda x, a: np.matmul(conj(x)[..., None, :], a)[..., 0, :], with_numpy_value=True)
