"""``scipy.linalg``: factors of matrices, by the rules of NumPy's (`dualad.rules.decompositions`) on what SciPy found.

The signs and the order of vectors are those of SciPy's LAPACK, which may be another one than NumPy's.
"""

import numpy as np
from scipy import linalg as sl

from ..constants import evaluate
from ..decompositions import (
    adjoint,
    complete_qr,
    conj,
    diagonal,
    eig,
    eigh_jvp,
    eigh_vjp,
    on_diagonal,
    over_gaps,
    qr_jvp,
    qr_vjp,
    svd_jvp,
    svd_vjp,
    triangle,
)
from ..kinds import explicit, primitive, shape_of
from ..linalg import mT
from .entering import by_name

# --- LU ---------------------------------------------------------------------------------------------------------------------------


@primitive
def pack_factors(a, lu):
    """Return the factors `lu` of a matrix whose rows are in the order of the pivots."""
    return lu


def lower_of(lu):
    return np.tril(lu, -1) + np.eye(shape_of(lu)[-1])


def packed_jvp(t, ans, a, lu):
    inner = mT(np.linalg.solve(mT(np.triu(ans)), mT(np.linalg.solve(lower_of(ans), t))))
    return lower_of(ans) @ np.tril(inner, -1) + np.triu(inner) @ np.triu(ans)


def packed_vjp(g, ans, a, lu):
    lower, upper = lower_of(ans), np.triu(ans)
    inner = np.tril(mT(lower) @ np.tril(g, -1), -1) + np.triu(np.triu(g) @ mT(upper))
    return np.linalg.solve(mT(lower), mT(np.linalg.solve(upper, mT(inner))))


def order_of(pivots):
    """Return the order of rows that exchanges make."""
    order = np.arange(len(pivots))
    for k, other in enumerate(pivots):
        order[[k, other]] = order[[other, k]]
    return order


def places_of(pivots):
    return np.argsort(order_of(pivots))


def permutation_of(pivots):
    return np.eye(len(pivots))[places_of(pivots)]


def lu_factor_body(a):
    if len(shape_of(a)) != 2 or shape_of(a)[0] != shape_of(a)[1]:
        raise NotImplementedError(f"scipy.linalg: LU factors have a derivative of a square matrix, not of shape {shape_of(a)}")
    lu, pivots = evaluate(sl.lu_factor, a)
    return pack_factors(a[evaluate(order_of, pivots)], lu), pivots


def lu_body(a, permute_l=False, p_indices=False):
    lu, pivots = lu_factor_body(a)
    lower = lower_of(lu)
    if permute_l:
        return lower[evaluate(places_of, pivots)], np.triu(lu)
    return evaluate(places_of if p_indices else permutation_of, pivots), lower, np.triu(lu)


def lu_solve_body(lu_and_piv, b, trans=0):
    lu, pivots = lu_and_piv
    lower, upper = lower_of(lu), np.triu(lu)
    if trans == 0:
        return np.linalg.solve(upper, np.linalg.solve(lower, b[evaluate(order_of, pivots)]))
    back = (lambda a: adjoint(a)) if trans == 2 else mT
    return np.linalg.solve(back(lower), np.linalg.solve(back(upper), b))[evaluate(places_of, pivots)]


# --- QR ---------------------------------------------------------------------------------------------------------------------------


@primitive
def qr_factors(a):
    """Return the reduced QR factors of a matrix with at least as many rows as columns."""
    return sl.qr(a, mode="economic")


def null_basis(a, k):
    return sl.qr(a)[0][..., k:]


def pivots_of(a):
    return sl.qr(a, mode="r", pivoting=True)[-1]


def qr_body(a, mode="full", pivoting=False):
    if mode not in ("full", "r", "economic"):
        raise NotImplementedError(f"scipy.linalg.qr has no derivative with mode={mode!r}: use 'full', 'r' or 'economic'")
    order = [evaluate(pivots_of, a)] if pivoting else []
    a = a[:, order[0]] if pivoting else a
    _, q, r = complete_qr(a, qr_factors, lambda a, k: evaluate(null_basis, a, k), mode != "economic")
    return (r, *order) if mode == "r" else (q, r, *order)


# --- eigenvalues and singular values ----------------------------------------------------------------------------------------------


@primitive
def svd_factors(a, full=False, lapack_driver="gesdd"):
    """Return ``scipy.linalg.svd(a, full_matrices=full)``."""
    return sl.svd(a, full_matrices=full, lapack_driver=lapack_driver)


def svd_body(a, full_matrices=True, compute_uv=True, lapack_driver="gesdd"):
    if not compute_uv:
        return np.linalg.svd(a, compute_uv=False)
    return svd_factors(a, full_matrices and shape_of(a)[-1] != shape_of(a)[-2], lapack_driver)


def spectrum(subset, **call):
    """Return all eigenvalues and vectors, those of a subset with the signs that a call for the subset alone gives them."""
    w, v = sl.eigh(**call)
    if subset is not None:
        take_subset(v, subset)[...] = sl.eigh(**call, subset_by_index=subset)[1]
    return w, v


def take_subset(x, subset):
    return x if subset is None else x[..., subset[0] : subset[1] + 1]


@primitive
def eigh_factors(a, lower, driver, subset=None):
    """Return the eigenvalues and vectors of a matrix of which both triangles are given."""
    return spectrum(subset, a=a, lower=lower, driver=driver)


@primitive
def pencil_factors(a, b, lower, driver, subset=None):
    """Return those of ``a v = w b v``."""
    return spectrum(subset, a=a, b=b, lower=lower, driver=driver)


def by_pencil(w, x):
    """Return x / (w_j - w_i)."""
    return over_gaps(w, w[..., None, :] - w[..., :, None], x, "scipy.linalg.eigh")


def pencil_by_b(t, ans, a, b, *options):
    w, v = ans
    n = adjoint(v) @ (t @ v)
    turn = by_pencil(w, n * w[..., None, :]) + on_diagonal(0.5 * np.real(diagonal(n)))
    return -np.real(diagonal(n)) * w, -v @ turn


def pencil_back_by_b(g, ans, a, b, *options):
    (gw, gv), (w, v) = g, ans
    inner = mT(v) @ gv
    x = by_pencil(w, inner) * w[..., None, :] + on_diagonal(gw * w + 0.5 * diagonal(inner))
    return -conj(v) @ (x @ mT(v))


def eigh_body(a, b=None, lower=True, eigvals_only=False, subset_by_index=None, driver=None):
    if eigvals_only:
        return eigvalsh_body(a, b, lower, subset_by_index)
    a, options = triangle(a, not lower), (lower, driver, subset_by_index)
    w, v = eigh_factors(a, *options) if b is None else pencil_factors(a, triangle(b, not lower), *options)
    return take_subset(w, subset_by_index), take_subset(v, subset_by_index)


def eigvalsh_body(a, b=None, lower=True, subset_by_index=None, driver=None):
    a = triangle(a, not lower)
    if b is not None:
        factor = np.linalg.cholesky(triangle(b, not lower))
        a = adjoint(np.linalg.solve(factor, adjoint(np.linalg.solve(factor, a))))
    return take_subset(np.linalg.eigvalsh(a), subset_by_index)


def lstsq_body(a, b, cond=None, lapack_driver=None):
    return np.linalg.lstsq(a, b, rcond=-1 if cond is None else cond)


# --- the table --------------------------------------------------------------------------------------------------------------------

# fmt: off
explicit(pack_factors,         (packed_jvp, None), (packed_vjp, None))
explicit(qr_factors,     qr_jvp, qr_vjp)
explicit(svd_factors,    svd_jvp, svd_vjp)
explicit(eigh_factors,   lambda t, ans, a, *options: eigh_jvp(t, ans, a, "L"),
                         lambda g, ans, a, *options: eigh_vjp(g, ans, a, "L"))
explicit(pencil_factors, (lambda t, ans, a, b, *options: eigh_jvp(t, ans, a, "L"), pencil_by_b),
                         (lambda g, ans, a, b, *options: eigh_vjp(g, ans, a, "L"), pencil_back_by_b))
BODIES = by_name(lu_factor_body, lu_body, lu_solve_body, qr_body, svd_body, eigh_body, eigvalsh_body, lstsq_body)
BODIES |= {
    "svdvals": lambda a: np.linalg.svd(a, compute_uv=False),
    "eig": lambda a: eig(a, lambda a: evaluate(sl.eig, a)),
    "eigvals": lambda a: np.linalg.eigvals(a) + 0.0j,
    "eigvalsh_tridiagonal": lambda d, e, tol=0.0, lapack_driver="auto": np.linalg.eigvalsh(np.diag(d) + np.diag(e, 1) + np.diag(e, -1)),
}
# fmt: on
