"""``scipy.linalg``: functions that NumPy lacks, or has with another convention."""

import numpy as np
from scipy import linalg as sl

from ..decompositions import adjoint, diagonal, on_diagonal
from ..decompositions import triangle as hermitian
from ..kinds import explicit, is_complex, ndim_of, shape_of
from ..linalg import mT
from . import equations, factors
from .entering import by_name, dispatching_as, enter_bodies
from .equations import solve_sylvester


def triangle(a, lower):
    return np.tril(a) if lower else np.triu(a)


def assumed(a, lower, assume_a):
    """Return the matrix of which an equation is solved: of a symmetric one, a triangle is read."""
    if assume_a in ("sym", "symmetric"):
        strict = np.tril(a, -1) if lower else np.triu(a, 1)
        return strict + mT(strict) + on_diagonal(diagonal(a))
    if assume_a in ("her", "pos", "hermitian", "positive definite"):
        return hermitian(a, not lower)
    if assume_a not in (None, "gen", "general"):
        raise NotImplementedError(f"scipy.linalg has no derivative with assume_a={assume_a!r}: leave it out")
    return a


def solve_body(a, b, lower=False, *, assume_a=None, transposed=False):
    a = assumed(a, lower, assume_a)
    return np.linalg.solve(mT(a) if transposed else a, b)


def solve_triangular_body(a, b, trans=0, lower=False, unit_diagonal=False):
    a = triangle(a, lower)
    if unit_diagonal:
        a = a - np.diag(np.diagonal(a)) + np.eye(shape_of(a)[-1])
    if trans in (1, "T"):
        a = mT(a)
    elif trans in (2, "C"):
        a = adjoint(a)
    return np.linalg.solve(a, b)


def cholesky_body(a, lower=False):
    return np.linalg.cholesky(a, upper=not lower)


def cho_solve_body(c_and_lower, b):
    c, lower = c_and_lower
    factor = triangle(c, True) if lower else adjoint(triangle(c, False))
    return np.linalg.solve(adjoint(factor), np.linalg.solve(factor, b))


def block_diag_body(*arrays):
    blocks = [np.atleast_2d(block) for block in arrays]
    width, start, rows = sum(shape_of(block)[1] for block in blocks), 0, []
    for block in blocks:
        stop = start + shape_of(block)[1]
        rows.append(np.pad(block, [(0, 0), (start, width - stop)]))
        start = stop
    return np.concatenate(rows)


def toeplitz_body(c, r=None):
    c = np.reshape(c, (-1,))
    r = np.conj(c) if r is None else np.reshape(r, (-1,))
    n, m = shape_of(c)[0], shape_of(r)[0]
    return np.concatenate([c[::-1], r[1:]])[np.arange(n - 1, -1, -1)[:, None] + np.arange(m)]


def hankel_body(c, r=None):
    c = np.reshape(c, (-1,))
    r = np.zeros(shape_of(c)) if r is None else np.reshape(r, (-1,))
    return np.concatenate([c, r[1:]])[np.arange(shape_of(c)[0])[:, None] + np.arange(shape_of(r)[0])]


def circulant_body(c):
    c = np.atleast_1d(c)
    places = np.arange(shape_of(c)[-1])
    return c[..., places[:, None] - places]


def solve_circulant_body(c, b):
    x = np.moveaxis(np.fft.ifft(np.moveaxis(np.fft.fft(b, axis=0), 0, -1) / np.fft.fft(c)), -1, 0)
    return x if is_complex(c) or is_complex(b) else np.real(x)


def toeplitz_of(c_or_cr):
    return toeplitz_body(*c_or_cr) if type(c_or_cr) is tuple else toeplitz_body(c_or_cr)


def matrix(a):
    if ndim_of(a) < 2:
        raise ValueError("scipy.linalg: a function of matrices has no derivative of a number: give a matrix of shape (1, 1)")
    return a


def frechet(fn, t, a, *rest):
    """Return the Frechet derivative of a function of matrices, a block of its value at a block matrix (Higham 2008, theorem 3.6)."""
    n = shape_of(matrix(a))[-1]
    return fn(np.concatenate([np.concatenate([a, t], -1), np.concatenate([0.0 * a, a], -1)], -2), *rest)[..., :n, n:]


def of_matrix(fn, name):
    """Enter a function of matrices."""
    entered = dispatching_as(fn, name)
    explicit(entered, lambda t, ans, a: frechet(entered, t, a), lambda g, ans, a: frechet(entered, g, mT(matrix(a))), batch=False)
    return entered


def sqrtm_jvp(t, ans, a):
    """Return the solution x of s x + x s = t (Higham 2008, section 6.1)."""
    matrix(a)
    return solve_sylvester(ans, ans, t)


def polar_body(a, side="right"):
    """Return the unitary factor and the other one, on its side, by singular values."""
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    return u @ vh, adjoint(vh) @ (s[..., None] * vh) if side == "right" else (u * s[..., None, :]) @ adjoint(u)


def procrustes_body(A, B):
    equations.real("orthogonal_procrustes", A, B)
    u, s, vh = np.linalg.svd(mT(A) @ B)
    return u @ vh, np.sum(s)


BODIES = by_name(
    solve_body, solve_triangular_body, polar_body, cholesky_body, cho_solve_body, block_diag_body, toeplitz_body, hankel_body,
    circulant_body, solve_circulant_body,
)  # fmt: skip
BODIES |= {
    "inv": lambda a, *, assume_a=None, lower=False: np.linalg.inv(assumed(a, lower, assume_a)),
    "det": lambda a: np.linalg.det(a),
    "pinv": lambda a, rtol=None: np.linalg.pinv(a, rtol=rtol),
    "pinvh": lambda a, rtol=None, lower=True: np.linalg.pinv(assumed(a, lower, "her"), rtol=rtol, hermitian=True),
    "orthogonal_procrustes": procrustes_body,
    "companion": lambda a: np.concatenate([(-a[1:] / a[0])[None], np.eye(shape_of(a)[0] - 1)[:-1]]),
    "cho_factor": lambda a, lower=False: (cholesky_body(a, lower), lower),
    "norm": lambda a, ord=None, axis=None, keepdims=False: np.linalg.norm(a, ord, axis, keepdims),
    "khatri_rao": lambda a, b: np.reshape(a[:, None, :] * b, (-1, shape_of(a)[1])),
    "solve_toeplitz": lambda c_or_cr, b: np.linalg.solve(toeplitz_of(c_or_cr), b),
    "matmul_toeplitz": lambda c_or_cr, x, workers=None: toeplitz_of(c_or_cr) @ x,
    **equations.BODIES,
    **factors.BODIES,
}
OF_MATRICES = ("expm", "logm", "cosm", "sinm", "tanm", "coshm", "sinhm", "tanhm", "signm")
FUNCTIONS = {
    **enter_bodies(sl, BODIES),
    **{name: of_matrix(getattr(sl, name), f"scipy.linalg.{name}") for name in OF_MATRICES},
    "sqrtm": dispatching_as(sl.sqrtm, "scipy.linalg.sqrtm"),
    "fractional_matrix_power": dispatching_as(sl.fractional_matrix_power, "scipy.linalg.fractional_matrix_power"),
}
logm, power = FUNCTIONS["logm"], FUNCTIONS["fractional_matrix_power"]
explicit(FUNCTIONS["sqrtm"], sqrtm_jvp, lambda g, ans, a: sqrtm_jvp(g, mT(matrix(ans)), matrix(a)), batch=False)
explicit(
    power,
    (lambda t, ans, a, exponent: frechet(power, t, a, exponent), lambda t, ans, a, exponent: t * (ans @ logm(a))),
    (lambda g, ans, a, exponent: frechet(power, g, mT(matrix(a)), exponent), lambda g, ans, a, exponent: np.sum(g * (ans @ logm(a)))),
    batch=False,
)
