"""``scipy.linalg``: what NumPy has not, or under another convention."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import linalg as sl

from ..kinds import explicit, shape_of
from ..linalg import mT
from .entering import by_body, named

__all__ = ["FUNCTIONS"]


def plain_keywords(body):
    """Return a body that also takes the keywords of LAPACK's wrappers, which change no value."""

    def taking(*args, overwrite_a=False, overwrite_b=False, check_finite=True, **kwargs):
        return body(*args, **kwargs)

    return taking


def triangle(a, lower):
    return np.tril(a) if lower else np.triu(a)


def mirrored(a, lower):
    """Return the symmetric matrix of which one triangle is read."""
    part = triangle(a, lower)
    return part + mT(part) - np.diag(np.diagonal(a))


def solve_body(a, b, lower=False, *, assume_a=None, transposed=False):
    if assume_a in ("sym", "her", "pos", "symmetric", "hermitian", "positive definite"):
        a = mirrored(a, lower)
    elif assume_a not in (None, "gen", "general"):
        raise NotImplementedError(f"scipy.linalg.solve has no derivative with assume_a={assume_a!r}: leave it out")
    return np.linalg.solve(mT(a) if transposed else a, b)


def solve_triangular_body(a, b, trans=0, lower=False, unit_diagonal=False):
    a = triangle(a, lower)
    if unit_diagonal:
        a = a - np.diag(np.diagonal(a)) + np.eye(shape_of(a)[-1])
    return np.linalg.solve(mT(a) if trans in (1, 2, "T", "C") else a, b)


def cholesky_body(a, lower=False):
    factor = np.linalg.cholesky(mirrored(a, lower))
    return factor if lower else mT(factor)


def cho_solve_body(c_and_lower, b):
    c, lower = c_and_lower
    factor = triangle(c, True) if lower else mT(triangle(c, False))
    return np.linalg.solve(mT(factor), np.linalg.solve(factor, b))


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


def sylvester_body(a, b, q):
    """Solve a x + x b = q as one system of equations (Higham 2008, appendix B.13)."""
    n, m = shape_of(q)
    whole = np.kron(a, np.eye(m)) + np.kron(np.eye(n), mT(b))
    return np.reshape(np.linalg.solve(whole, np.reshape(q, (n * m,))), (n, m))


def expm_jvp(t, ans, a):
    """Return the Frechet derivative, a block of the exponential of a block matrix (Higham 2008, theorem 3.6)."""
    n = shape_of(a)[-1]
    return expm(np.concatenate([np.concatenate([a, t], -1), np.concatenate([0.0 * a, a], -1)], -2))[..., :n, n:]


def sqrtm_jvp(t, ans, a):
    """Return the solution x of s x + x s = t (Higham 2008, section 6.1)."""
    return solve_sylvester(ans, ans, t)


BODIES: dict[str, Any] = {
    "solve": solve_body,
    "solve_triangular": solve_triangular_body,
    "inv": lambda a: np.linalg.inv(a),
    "det": lambda a: np.linalg.det(a),
    "pinv": lambda a: np.linalg.pinv(a),
    "cholesky": cholesky_body,
    "cho_factor": lambda a, lower=False: (cholesky_body(a, lower), lower),
    "cho_solve": cho_solve_body,
    "block_diag": block_diag_body,
    "toeplitz": toeplitz_body,
    "norm": lambda a, ord=None, axis=None, keepdims=False: np.linalg.norm(a, ord, axis, keepdims),
    "solve_sylvester": sylvester_body,
    "solve_continuous_lyapunov": lambda a, q: sylvester_body(a, np.conj(mT(a)), q),
}
FUNCTIONS = {name: by_body(getattr(sl, name), plain_keywords(body), f"scipy.linalg.{name}") for name, body in BODIES.items()}
solve_sylvester = FUNCTIONS["solve_sylvester"]
expm, sqrtm = named(sl.expm, "scipy.linalg.expm"), named(sl.sqrtm, "scipy.linalg.sqrtm")
explicit(expm, expm_jvp, lambda g, ans, a: expm_jvp(g, ans, mT(a)), batch=False)
explicit(sqrtm, sqrtm_jvp, lambda g, ans, a: sqrtm_jvp(g, mT(ans), mT(a)), batch=False)
FUNCTIONS |= {"expm": expm, "sqrtm": sqrtm}
