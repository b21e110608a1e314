"""Decompositions of matrices, and stacks of them: ``numpy.linalg`` beyond products and solving (see `linalg`, `products`).

Sources: Giles 2008 (NA-08/01) and Townsend 2016 ("Differentiating the singular value decomposition") for real matrices; Wan &
Zhang 2019 (arXiv:1909.02659) for complex ones; Seeger et al. 2017 (arXiv:1710.08717) for QR and Cholesky. Where a basis is free
(the phase of a complex vector, the basis of a null space), its derivative is the one that turns the least; functions that do not
depend on that choice get their exact derivatives.

Where NumPy reads one triangle of a matrix, so does the derivative: the other triangle has derivative 0.
Below, ``n = u^H t v`` is the tangent in the basis of the decomposition; its cotangent is called `x`.
"""

import warnings
from functools import cache

from ..support.ufunc_loops import ufunc_name, ufunc_named
from .constants import evaluate, stopped
from .cotangents import notes_tests
from .indexing import cast
from .kinds import composite, constant, explicit, primitive, strong_multiply
from .linalg import lapack, mT
from .names import np

SVD_RESULT = type(np.linalg.svd(np.zeros((1, 1))))


# --- what the decompositions share ------------------------------------------------------------------------------------------


def conj(a):
    return np.conjugate(a) if np.iscomplexobj(a) else a


def adjoint(a):
    """Return the conjugate transpose."""
    return conj(mT(a))


def diagonal(a):
    return np.diagonal(a, 0, -2, -1)


def eye(n):
    return np.eye(n, dtype=bool)


def on_diagonal(x):
    """Return diagonal matrices of the vectors `x`."""
    return np.where(eye(np.shape(x)[-1]), x[..., None], 0.0)


def triangle(a, upper=False):
    """Return the Hermitian matrix of which `a` holds one triangle; an imaginary diagonal is ignored, as in LAPACK."""
    strict = np.triu(a, 1) if upper else np.tril(a, -1)
    return strict + adjoint(strict) + np.where(eye(np.shape(a)[-1]), np.real(a), 0.0)


@primitive
def close_pairs(w):
    """Return which pairs of values coincide within rounding: by n * eps of the largest."""
    tolerance = np.shape(w)[-1] * np.finfo(w.dtype).eps * np.max(np.abs(w), axis=-1, keepdims=True, initial=0.0)
    near = np.less_equal(np.abs(w[..., None, :] - w[..., :, None]), tolerance[..., None])
    return np.logical_and(near, np.logical_not(eye(np.shape(w)[-1])))


def over_gaps(w, gap, n, name):
    """Return n / gap off the diagonal. Where values coincide it is NaN, with a warning, but 0 where n is 0."""
    close = close_pairs(w)
    warn_close(name, np.logical_and(close, np.not_equal(n, 0)))
    hidden = np.logical_or(close, eye(np.shape(w)[-1]))
    factors = np.where(close, np.nan, np.where(hidden, 0.0, 1.0 / np.where(hidden, 1.0, gap)))
    return strong_multiply(factors, n)


@primitive
def warn_close(name, close):
    """Warn where vectors of coinciding values are differentiated."""
    if np.any(close):
        warnings.warn(
            f"{name}: some of its values coincide (within rounding), so the derivatives of their vectors are undefined "
            f"(NaN). The values themselves have derivatives: eigvalsh, eigvals, svdvals",
            RuntimeWarning,
            stacklevel=2,
        )
    return close


def divide_or_zero(a, s):
    """Return a / s, and 0 wherever a is 0, even where s is."""
    zero = np.equal(s, 0)
    return strong_multiply(np.where(zero, np.inf, 1.0 / np.where(zero, 1.0, s)), a)


@primitive
def complement(q, basis):
    """Return `basis`, orthonormal columns orthogonal to those of `q`; it turns with `q` as little as it can."""
    return basis


def complement_jvp(t, ans, q, basis):
    return -q @ (adjoint(t) @ ans)


def complement_vjp(g, ans, q, basis):
    return -conj(ans) @ (adjoint(g) @ conj(q))


# --- Cholesky ---------------------------------------------------------------------------------------------------------------


@primitive
def cholesky_factor(a):
    """Return the Cholesky factor of a matrix of which both triangles are given."""
    return np.linalg.cholesky(a)


def half_lower(a):
    """Return the lower triangle with half the diagonal."""
    return np.tril(a, -1) + np.where(eye(np.shape(a)[-1]), 0.5 * np.real(a), 0.0)


def cholesky_jvp(t, ans, a):
    return ans @ half_lower(np.linalg.solve(ans, adjoint(np.linalg.solve(ans, adjoint(t)))))


def cholesky_vjp(g, ans, a):
    x = np.linalg.solve(mT(ans), half_lower(mT(ans) @ g))
    return mT(np.linalg.solve(adjoint(ans), mT(x)))


def cholesky(a, /, *, upper=False):
    factor = cholesky_factor(triangle(a, upper))
    return adjoint(factor) if upper else factor


# --- eigenvalues ------------------------------------------------------------------------------------------------------------


@primitive
def eigh_factors(a, UPLO="L"):
    """Return the eigenvalues and vectors of a matrix of which both triangles are given."""
    return np.linalg.eigh(a, UPLO)


def eigh_jvp(t, ans, a, UPLO):
    w, v = ans
    n = adjoint(v) @ (t @ v)
    return np.real(diagonal(n)), v @ over_gaps(w, w[..., None, :] - w[..., :, None], n, "numpy.linalg.eigh")


def eigh_vjp(g, ans, a, UPLO):
    (gw, gv), (w, v) = g, ans
    x = over_gaps(w, w[..., None, :] - w[..., :, None], mT(v) @ gv, "numpy.linalg.eigh") + on_diagonal(gw)
    return conj(v) @ (x @ mT(v))


@primitive
def eigenvalues(a, UPLO="L"):
    """Return the eigenvalues of a matrix of which both triangles are given."""
    return np.linalg.eigvalsh(a, UPLO)


def eigenvalues_jvp(t, ans, a, UPLO):
    v = eigh_factors(a, UPLO)[1]
    return np.real(np.sum(conj(v) * (t @ v), axis=-2))


def eigenvalues_vjp(g, ans, a, UPLO):
    v = eigh_factors(a, UPLO)[1]
    return (conj(v) * g[..., None, :]) @ mT(v)


@cache
def eig_of_one():
    """Return, of NumPy's `eig`, the class of its result, and whether eigenvalues are always complex (NumPy 2.5)."""
    return np.linalg.eig(np.zeros((1, 1)))


def eigen(a):
    """Return the eigenvalues and vectors that NumPy finds, as constants; in a trace a test tells whether all are real."""
    if not notes_tests(a):
        return evaluate(np.linalg.eig, a)
    if not np.all(np.isfinite(a)):
        raise np.linalg.LinAlgError("Array must not contain infs or NaNs")
    w, v = complex_eigen(a)
    always = np.iscomplexobj(a) or np.iscomplexobj(eig_of_one()[0])
    return (w, v) if always or np.any(np.not_equal(np.imag(w), 0)) else (np.real(w), np.real(v))


@primitive
def complex_eigen(a):
    """Return the eigenvalues and vectors of a square matrix as complex numbers."""
    return tuple(x.astype(np.result_type(a.dtype, np.complex64)) for x in np.linalg.eig(a))


@primitive
def eigen_factors(a, w, v):
    """Return the eigenvalues `w` of a matrix and its vectors `v`, whose tangents are not normalised."""
    return w, v


def eig_jvp(t, ans, a, *found):
    w, v = ans
    n = np.linalg.solve(v, t @ v)
    return diagonal(n), v @ over_gaps(w, w[..., None, :] - w[..., :, None], n, "numpy.linalg.eig")


def eig_vjp(g, ans, a, *found):
    (gw, gv), (w, v) = g, ans
    x = over_gaps(w, w[..., None, :] - w[..., :, None], mT(v) @ gv, "numpy.linalg.eig") + on_diagonal(gw)
    return np.linalg.solve(mT(v), x @ mT(v))


def eig(a, found=eigen):
    """Normalise as LAPACK does: length 1, and the largest component real."""
    w, v = eigen_factors(a, *found(a))
    if np.iscomplexobj(v):
        largest = np.take_along_axis(v, np.argmax(np.abs(stopped(v)), axis=-2, keepdims=True), -2)
        v = v * (np.conjugate(largest) / np.abs(largest) * np.copysign(1.0, np.real(stopped(largest))))
    return w, v / np.sqrt(np.sum(np.square(np.real(v)) + np.square(np.imag(v)), axis=-2, keepdims=True))


@primitive
def general_eigenvalues(a, w, v):
    """Return the eigenvalues `w` of a square matrix with the vectors `v`."""
    return w


def general_eigenvalues_jvp(t, ans, a, w, v):
    v = eigen_factors(a, w, v)[1]
    return diagonal(np.linalg.solve(v, t @ v))


def general_eigenvalues_vjp(g, ans, a, w, v):
    v = eigen_factors(a, w, v)[1]
    return np.linalg.solve(mT(v), g[..., :, None] * mT(v))


# --- singular values --------------------------------------------------------------------------------------------------------


@primitive
def svd_factors(a, full=False):
    """Return ``np.linalg.svd(a, full_matrices=full)``."""
    return np.linalg.svd(a, full_matrices=full)


def thin_factors(ans):
    """Return the factors of the thin decomposition, the singular values also as a row and as a column."""
    u, s, vh = ans
    k = np.shape(s)[-1]
    return u[..., :k], s, vh[..., :k, :], s[..., None, :], s[..., :, None]


def svd_gaps(s, n):
    """Return n_ij / (s_j^2 - s_i^2)."""
    row, column = s[..., None, :], s[..., :, None]
    return over_gaps(s, (row - column) * (row + column), n, "numpy.linalg.svd")


def svd_jvp(t, ans, a, full=False, *driver):
    u, s, vh, row, column = thin_factors(ans)
    n = adjoint(u) @ (t @ adjoint(vh))
    turn = svd_gaps(s, n * row + column * adjoint(n))
    if np.iscomplexobj(n):
        turn = turn + 1j * on_diagonal(divide_or_zero(np.imag(diagonal(n)), s))
    du = u @ turn
    dvh = -svd_gaps(s, column * n + adjoint(n) * row) @ vh
    if np.shape(u)[-2] > np.shape(u)[-1]:
        du = du + divide_or_zero(t @ adjoint(vh) - u @ n, row)
    if np.shape(vh)[-1] > np.shape(vh)[-2]:
        dvh = dvh + divide_or_zero(adjoint(u) @ t - n @ vh, column)
    if full:
        du, dvh = with_complements(du, dvh, ans)
    return du, np.real(diagonal(n)), dvh


def svd_vjp(g, ans, a, full=False, *driver):
    u, s, vh, row, column = thin_factors(ans)
    gu, gs, gvh = without_complements(g, ans) if full else g
    left, right = mT(u) @ gu, gvh @ mT(vh)
    turn, counter = svd_gaps(s, left), svd_gaps(s, right)
    x = on_diagonal(gs) + (turn + adjoint(turn)) * row - column * (counter + adjoint(counter))
    if np.iscomplexobj(left):
        x = x + 1j * on_diagonal(divide_or_zero(np.imag(diagonal(left)), s))
    total = 0.0
    if np.shape(u)[-2] > np.shape(u)[-1]:
        x, total = x - divide_or_zero(left, row), divide_or_zero(gu, row) @ conj(vh)
    if np.shape(vh)[-1] > np.shape(vh)[-2]:
        x, total = x - divide_or_zero(right, column), conj(u) @ divide_or_zero(gvh, column)
    return conj(u) @ (x @ conj(vh)) + total


def with_complements(du, dvh, ans):
    """Return the tangents of the thin factors with those of the null spaces' bases."""
    u, s, vh, _, _ = thin_factors(ans)
    k = np.shape(s)[-1]
    rest, others = ans[0][..., k:], ans[2][..., k:, :]
    if np.shape(rest)[-1]:
        du = np.concatenate([du, complement_jvp(du, rest, u, rest)], axis=-1)
    if np.shape(others)[-2]:
        dvh = np.concatenate([dvh, -others @ (adjoint(dvh) @ vh)], axis=-2)
    return du, dvh


def without_complements(g, ans):
    """Return the cotangents of the thin factors, with the shares of the null spaces' bases."""
    u, s, vh, _, _ = thin_factors(ans)
    k = np.shape(s)[-1]
    gu, gvh = g[0][..., :k], g[2][..., :k, :]
    if np.shape(ans[0])[-1] > k:
        gu = gu + complement_vjp(g[0][..., k:], ans[0][..., k:], u, None)
    if np.shape(ans[2])[-2] > k:
        gvh = gvh - conj(vh) @ (adjoint(g[2][..., k:, :]) @ conj(ans[2][..., k:, :]))
    return gu, g[1], gvh


@primitive
def singular_values(a):
    """Return the singular values."""
    return np.linalg.svd(a, compute_uv=False)


def singular_values_jvp(t, ans, a):
    u, _, vh = svd_factors(a)
    return np.real(np.sum(conj(u) * (t @ adjoint(vh)), axis=-2))


def singular_values_vjp(g, ans, a):
    u, _, vh = svd_factors(a)
    return (conj(u) * g[..., None, :]) @ conj(vh)


def svd(a, full_matrices=True, compute_uv=True, hermitian=False):
    if hermitian:
        return hermitian_svd(a) if compute_uv else np.flip(np.sort(np.abs(np.linalg.eigvalsh(a))), -1)
    if not compute_uv:
        return singular_values(a)
    return svd_factors(a, full_matrices and np.shape(a)[-1] != np.shape(a)[-2])


def hermitian_svd(a):
    """Return the SVD of a Hermitian matrix from its eigenvalues, as NumPy does."""
    w, u = np.linalg.eigh(a)
    order = np.flip(np.argsort(np.abs(w)), -1)
    w = np.take_along_axis(w, order, -1)
    u = np.take_along_axis(u, order[..., None, :], -1)
    return SVD_RESULT(u, np.abs(w), adjoint(u * np.sign(w)[..., None, :]))


# --- QR ---------------------------------------------------------------------------------------------------------------------


@primitive
def qr_factors(a):
    """Return the reduced QR factors of a matrix with at least as many rows as columns."""
    return np.linalg.qr(a)


@primitive
def reflectors(a):
    """Return LAPACK's QR factors of a matrix: R, below it the vectors of reflections, and their factors."""
    h, factors = np.linalg.qr(a, mode="raw")
    return mT(h), factors


@primitive
def reflected(h, factors):
    """Return the first columns of the product of reflections."""
    return ufunc_named(ufunc_name("qr_reduced"))(h, factors)


@primitive
def reflected_square(h, factors):
    """Return the product of reflections."""
    return ufunc_named(ufunc_name("qr_complete"))(h, factors)


def by_reflections(a):
    h, factors = reflectors(cast(a, np.result_type(a.dtype, float)))
    return reflected(h, factors), np.triu(h[..., : np.shape(a)[-1], :])


def mirrored(c):
    """Return c - w, upper triangular with a real diagonal, where w is antihermitian: what turns R."""
    return np.triu(c, 1) + adjoint(np.tril(c, -1)) + np.where(eye(np.shape(c)[-1]), np.real(c), 0.0)


def mirrored_transpose(m):
    strict = np.triu(m, 1)
    return strict + adjoint(strict) + np.where(eye(np.shape(m)[-1]), np.real(m), 0.0)


def qr_jvp(t, ans, a):
    q, r = ans
    w = mT(np.linalg.solve(mT(r), mT(t)))
    y = mirrored(adjoint(q) @ w)
    return w - q @ y, y @ r


def qr_vjp(g, ans, a):
    (gq, gr), (q, r) = g, ans
    back = gq + conj(q) @ mirrored_transpose(gr @ mT(r) - mT(q) @ gq)
    return mT(np.linalg.solve(r, mT(back)))


def complete_qr(a, factored, basis, full):
    """Return the factors of the first columns of a matrix, and q and r of all of it; if it is to be `full`, q is square."""
    m, n = np.shape(a)[-2:]
    k = min(m, n)
    factors = factored(a[..., :k])
    q, r = factors
    if n > k:
        r = np.concatenate([r, adjoint(q) @ a[..., k:]], axis=-1)
    if full and m > k:
        q = np.concatenate([q, complement(q, basis(a, k))], axis=-1)
        r = np.concatenate([r, np.zeros((*np.shape(a)[:-2], m - k, n), r.dtype)], axis=-2)
    return factors, q, r


def qr(a, mode="reduced"):
    if mode not in ("reduced", "complete", "r"):
        raise TypeError(f"numpy.linalg.qr: mode={mode!r} has no derivative rule in dualad: use 'reduced', 'complete' or 'r'")
    factors, q, r = complete_qr(a, qr_factors, null_basis, mode == "complete")
    return r if mode == "r" else type(factors)(q, r)


@primitive
def null_basis(a, k):
    """Return the columns of the square q from `k` on."""
    return np.linalg.qr(a, mode="complete")[0][..., k:]


# --- the ufuncs underneath --------------------------------------------------------------------------------------------------


def svd_name(kind, a):
    """Return the name of a decomposition into singular values, and that in NumPy before 2.2."""
    m, n = np.shape(a)[-2:]
    return tuple(f"{name}_{kind}".rstrip("_") for name in ("svd", "svd_m" if m < n else "svd_n"))


def with_triangle(name):
    return lambda a, UPLO="L": f"{name}_{'lo' if UPLO.upper() == 'L' else 'up'}"


# --- the table --------------------------------------------------------------------------------------------------------------

# fmt: off
constant(close_pairs, inlined=True)
constant(warn_close, called="its result is no array of numbers")
explicit(complement,      complement_jvp, complement_vjp, inlined=True)
explicit(cholesky_factor, cholesky_jvp, cholesky_vjp, raises=True, axes=(-2, -1), pattern="lower_factor", lower="cholesky",
         inner=lapack("cholesky_lo", "D->D"))
explicit(eigh_factors,    eigh_jvp, eigh_vjp, raises=True, axes=(-2, -1), inner=lapack(with_triangle("eigh"), "D->dD"))
explicit(eigenvalues,     eigenvalues_jvp, eigenvalues_vjp, raises=True, axes=(-2, -1), inner=lapack(with_triangle("eigvalsh"), "D->d"))
constant(complex_eigen, raises=True, axes=(-2, -1), inner=lapack("eig", "D->DD", "d->DD"))
explicit(eigen_factors, (eig_jvp, None, None), (eig_vjp, None, None), axes=(-2, -1), inlined=True)
explicit(general_eigenvalues, (general_eigenvalues_jvp, None, None), (general_eigenvalues_vjp, None, None), axes=(-2, -1), inlined=True)
explicit(svd_factors,     svd_jvp, svd_vjp, raises=True, axes=(-2, -1),
         inner=lapack(lambda a, full=False: svd_name("f" if full else "s", a), "D->DdD"))
explicit(singular_values, singular_values_jvp, singular_values_vjp, raises=True, axes=(-2, -1),
         inner=lapack(lambda a: svd_name("", a), "D->d"))
explicit(qr_factors,      qr_jvp, qr_vjp, axes=(-2, -1), inlined=by_reflections)
constant(reflectors, axes=(-2, -1), inner=lapack(("qr_r_raw", "qr_r_raw_n"), "D->D", overwrites=True))
constant(reflected, axes=(-2, -1), inner=lapack("qr_reduced", "DD->D"))
constant(reflected_square, axes=(-2, -1), inner=lapack("qr_complete", "DD->D"))
constant(null_basis, inlined=lambda a, k: reflected_square(*reflectors(cast(a, np.result_type(a.dtype, float))))[..., k:])
composite(np.linalg.cholesky, cholesky, with_numpy_value=True)
composite(np.linalg.eigh,     lambda a, UPLO="L": eigh_factors(triangle(a, UPLO.upper() == "U"), UPLO), with_numpy_value=True)
composite(np.linalg.eigvalsh, lambda a, UPLO="L": eigenvalues(triangle(a, UPLO.upper() == "U"), UPLO), with_numpy_value=True)
composite(np.linalg.eig,      lambda a: type(eig_of_one())(*eig(a)), with_numpy_value=True)
composite(np.linalg.eigvals,  lambda a: general_eigenvalues(a, *eigen(a)), with_numpy_value=True)
composite(np.linalg.svd,      svd, with_numpy_value=True)
composite(np.linalg.qr,       qr, with_numpy_value=True)
composite(np.linalg.svdvals,  lambda x: singular_values(x), with_numpy_value=True)
# fmt: on
