"""Pseudo-inverses, least squares, ranks: computed from singular values. Source: Golub & Pereyra 1973."""

from ..support.ufunc_loops import ufunc_name, ufunc_named
from .constants import evaluate
from .cotangents import notes_tests
from .decompositions import adjoint, conj, hermitian_svd, singular_values, svd_factors, triangle
from .indexing import cast, stated
from .kinds import composite, constant, explicit, primitive
from .linalg import lapack, mT
from .names import np

# --- pseudo-inverse ---------------------------------------------------------------------------------------------------------


@primitive
def pseudo_inverse(a, rcond, hermitian):
    """Return ``np.linalg.pinv(a, rcond, hermitian)``."""
    return np.linalg.pinv(a, hermitian=hermitian) if rcond is None else np.linalg.pinv(a, rcond, hermitian)


def by_factors(a, rcond, hermitian):
    """Return the pseudo-inverse of what NumPy makes it of."""
    u, s, vh = hermitian_svd(a) if hermitian else svd_factors(a)
    cutoff = np.expand_dims(1e-15 if rcond is None else rcond, -1) * np.max(s, axis=-1, keepdims=True)
    inverses = np.where(s > cutoff, 1.0 / np.where(s > cutoff, s, 1.0), 0.0)
    return adjoint(vh) @ (inverses[..., None] * adjoint(u))


def pinv_jvp(t, p, a, rcond, hermitian):
    """Return the derivative at constant rank (Golub & Pereyra 1973, eq. 4.12)."""
    back = adjoint(t)
    kernel = (p @ adjoint(p)) @ (back - (back @ a) @ p)
    return kernel - p @ (t @ p) + (back - p @ (a @ back)) @ (adjoint(p) @ p)


def pinv_vjp(g, p, a, rcond, hermitian):
    back = adjoint(g)
    kernel = (back - conj(a) @ (conj(p) @ back)) @ conj(p @ adjoint(p))
    return kernel - mT(p) @ (g @ mT(p)) + conj(adjoint(p) @ p) @ (back - back @ conj(p) @ conj(a))


def pinv(a, rcond=None, hermitian=False, *, rtol=np._NoValue):
    rcond = rcond if rtol is np._NoValue or rtol is None else rtol
    if rtol is None:
        rcond = max(np.shape(a)[-2:]) * np.finfo(a.dtype).eps
    return pseudo_inverse(triangle(a) if hermitian else a, rcond, hermitian)


# --- least squares ----------------------------------------------------------------------------------------------------------


def loops_of_least_squares(a, *rest):
    """Return the name of the ufunc, and that in NumPy before 2.2."""
    m, n = np.shape(a)
    return "lstsq", "lstsq_m" if m <= n else "lstsq_n"


@primitive
def least_squares(a, b, rcond):
    """Return the solutions of the columns of `b`, their sums of squares (where the rank is full), the rank, and the singular values."""
    loop = ufunc_named(ufunc_name(*loops_of_least_squares(a)))
    x, squares, rank, s = loop(*(y.astype(np.result_type(a.dtype, float)) for y in (a, b)), np.float64(rcond))
    real = a.real.dtype
    return x.astype(a.dtype), squares.astype(real), rank, s.astype(real)


def lstsq(a, b, rcond=None):
    a, b = (x if hasattr(x, "shape") else np.asarray(x) for x in (a, b))
    kind = np.result_type(a, b)
    kind = kind if kind.kind in "fc" else np.dtype(float)
    a, b = (x if x.dtype == kind else cast(x, kind) for x in (a, b))
    m, n = np.shape(a)
    rcond = np.finfo(a.dtype).eps * (max(m, n) if rcond is None else 1) if rcond in (None, -1) else rcond
    found = least_squares(a, np.reshape(b, (m, -1)), rcond) if notes_tests(a) else None
    x, values = pseudo_inverse(a, rcond, False) @ b, singular_values(a)
    rest = b - a @ x
    square = np.square(np.real(rest)) + np.square(np.imag(rest))
    residuals = np.sum(np.reshape(square, (m, -1)), axis=0)
    if found is None:
        rank = evaluate(np.linalg.lstsq, a, np.zeros(m), rcond)[2]
    else:
        columns, squares, rank, s = found
        x, residuals, values = stated(np.reshape(columns, np.shape(x)), x), stated(squares, residuals), stated(s, values)
    return x, residuals if m > n and rank == n else np.zeros(0, square.dtype), rank, values


def rank_by_values(A, tol=None, hermitian=False, *, rtol=None):
    values = np.linalg.svd(A, compute_uv=False, hermitian=hermitian)
    if tol is None:
        tol = np.max(values, axis=-1, initial=0) * (max(np.shape(A)[-2:]) * np.finfo(values.dtype).eps if rtol is None else rtol)
    return np.count_nonzero(values > np.expand_dims(tol, -1), axis=-1)


# --- the table --------------------------------------------------------------------------------------------------------------

# fmt: off
explicit(pseudo_inverse,  pinv_jvp, pinv_vjp, raises=True, axes=(-2, -1), inlined=by_factors)
constant(least_squares,   raises=True, called="it is linear algebra, which LAPACK does", inner=lapack(loops_of_least_squares, "DDd->Ddid"))
constant(np.linalg.matrix_rank, raises=True, inlined=rank_by_values)
composite(np.linalg.pinv,  pinv, with_numpy_value=True)
composite(np.linalg.lstsq, lstsq, value_dependent=lambda a, *rest, **options: () if notes_tests(a) else (a,), with_numpy_value=True)
# fmt: on
