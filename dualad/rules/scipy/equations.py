"""``scipy.linalg``: equations of banded matrices, of Sylvester, Lyapunov and Riccati. SciPy's solver gives the derivative, too."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import linalg as sl

from ..decompositions import adjoint
from ..kinds import explicit, is_complex, shape_of
from ..linalg import mT
from .entering import by_name, dispatching_as


def real(name: str, *arrays):
    if any(map(is_complex, arrays)):
        raise NotImplementedError(f"scipy.linalg.{name} has no derivative of complex matrices: give real ones")


def one_kind(name: str, matrices: tuple, right: object) -> None:
    """Refuse what SciPy solves wrongly (1.17): with a complex array in the equation, real matrices whose eigenvalues are complex."""
    if any(map(is_complex, (*matrices, right))) and not all(map(is_complex, matrices)):
        raise NotImplementedError(f"scipy.linalg.{name} has no derivative of real matrices with complex arrays: give complex ones, a + 0j")


# --- banded matrices: element (i, j) stands in ab[upper + i - j, j] ------------------------------------------------------------------


def on_band(l_and_u, n):
    """Return rows and columns of the elements of a band, and which of them are in the matrix."""
    lower, upper = l_and_u
    rows = np.arange(n) + np.arange(-upper, lower + 1)[:, None]
    return np.clip(rows, 0, n - 1), np.broadcast_to(np.arange(n), rows.shape), (rows >= 0) & (rows < n)


def banded_product(l_and_u, ab, x):
    """Return A @ x."""
    lower, upper = l_and_u
    n, total = shape_of(ab)[1], np.zeros(())
    for k in range(-upper, lower + 1):
        first, stop = max(0, -k), min(n, n - k)  # of columns
        part = ab[upper + k, first:stop]
        part = (part if len(shape_of(x)) == 1 else part[:, None]) * x[first:stop]
        total = total + np.pad(part, [(first + k, n - stop - k), (0, 0)][: len(shape_of(x))])
    return total


def transposed(l_and_u, ab):
    """Return the band of the transposed matrix."""
    lower, upper = l_and_u
    rows, columns, inside = on_band((upper, lower), shape_of(ab)[1])
    return np.where(inside, ab[upper + columns - rows, rows], 0.0)


banded = dispatching_as(lambda l_and_u, ab, b: sl.solve_banded(l_and_u, ab, b), "scipy.linalg.solve_banded")


def banded_transpose(g, ans, l_and_u, ab, b):
    return banded(l_and_u[::-1], transposed(l_and_u, ab), g)


def banded_by_matrix(g, ans, l_and_u, ab, b):
    rows, columns, inside = on_band(l_and_u, shape_of(ab)[1])
    back = banded_transpose(g, ans, l_and_u, ab, b)
    share = back[rows] * ans[columns]
    return -np.where(inside, share if len(shape_of(share)) == 2 else np.sum(share, -1), 0.0)


def solve_banded_body(l_and_u, ab, b):
    return banded(tuple(map(int, l_and_u)), ab, b)


def solveh_banded_body(ab, b, lower=False):
    """Return the solution of a Hermitian matrix of which the diagonals of one triangle are given; its own diagonal is real."""
    width = shape_of(ab)[0] - 1
    other = transposed((width, 0) if lower else (0, width), np.conj(ab))
    above, below = (other, ab) if lower else (ab, other)
    return banded((width, width), np.concatenate([above[:-1], np.real(below[:1]), below[1:]]), b)


# --- Sylvester and Lyapunov -------------------------------------------------------------------------------------------------------

solve_sylvester = dispatching_as(lambda a, b, q: sl.solve_sylvester(a, b, q), "scipy.linalg.solve_sylvester")
discrete = dispatching_as(lambda a, q: sl.solve_discrete_lyapunov(a, q), "scipy.linalg.solve_discrete_lyapunov")


def sylvester_back(g, a, b):
    return solve_sylvester(mT(a), mT(b), g)


def discrete_by_matrix(g, ans, a, q):
    back = discrete(mT(a), g)
    return back @ mT(ans @ adjoint(a)) + np.conj(mT(back) @ (a @ ans))


# --- Riccati ----------------------------------------------------------------------------------------------------------------------


def riccati(name: str, closed: Callable, solve: Callable) -> Callable:
    """Enter the solver of an equation of Riccati.

    ``closed(x, a, b, r)`` returns the gain k and the factor w of its tangent ``da^T w + w^T da + dq - k^T db^T w - w^T db k + k^T dr k``
    (Laub 1979), which ``solve(c, tangent)`` turns into that of x, c the transpose of the closed loop a - b k.
    """
    equation = dispatching_as(lambda a, b, q, r: getattr(sl, name)(a, b, q, r), f"scipy.linalg.{name}")

    def tangent(change: Callable) -> Callable:
        def jvp(t, ans, a, b, q, r):
            k, w = closed(ans, a, b, r)
            half = change(t, k, w)
            return solve(mT(a - b @ k), half)

        return jvp

    def cotangent(share: Callable) -> Callable:
        def vjp(g, ans, a, b, q, r):
            k, w = closed(ans, a, b, r)
            return share(solve(a - b @ k, g), k, w)

        return vjp

    def both(half):
        return half + mT(half)

    explicit(
        equation,
        (
            tangent(lambda t, k, w: both(mT(t) @ w)),
            tangent(lambda t, k, w: -both(mT(t @ k) @ w)),
            tangent(lambda t, k, w: t),
            tangent(lambda t, k, w: mT(k) @ (t @ k)),
        ),
        (
            cotangent(lambda s, k, w: w @ both(s)),
            cotangent(lambda s, k, w: -(w @ both(s)) @ mT(k)),
            cotangent(lambda s, k, w: s),
            cotangent(lambda s, k, w: k @ (s @ mT(k))),
        ),
        batch=False,
    )

    def body(a, b, q, r, balanced=True):
        real(name, a, b, q, r)
        return equation(a, b, q, r)

    return body


def continuous_gain(x, a, b, r):
    return np.linalg.solve(r, mT(b) @ x), x


def discrete_gain(x, a, b, r):
    k = np.linalg.solve(r + mT(b) @ (x @ b), mT(b) @ (x @ a))
    return k, x @ (a - b @ k)


def solve_sylvester_body(a, b, q):
    one_kind("solve_sylvester", (a, b), q)
    return solve_sylvester(a, b, q)


def solve_continuous_lyapunov_body(a, q):
    one_kind("solve_continuous_lyapunov", (a,), q)
    return solve_sylvester(a, adjoint(a), q)


def solve_discrete_lyapunov_body(a, q, method=None):
    if method == "bilinear" or (method is None and shape_of(a)[0] >= 10):  # else SciPy solves one system of equations for all elements
        one_kind("solve_discrete_lyapunov", (a,), q)
    return discrete(a, q)


# --- the table --------------------------------------------------------------------------------------------------------------------

# fmt: off
explicit(banded,
         (lambda t, ans, l_and_u, ab, b: -banded(l_and_u, ab, banded_product(l_and_u, t, ans)),
          lambda t, ans, l_and_u, ab, b: banded(l_and_u, ab, t)),
         (banded_by_matrix, banded_transpose), argnums=(1, 2), batch=False)
explicit(solve_sylvester,
         (lambda t, ans, a, b, q: -solve_sylvester(a, b, t @ ans), lambda t, ans, a, b, q: -solve_sylvester(a, b, ans @ t),
          lambda t, ans, a, b, q: solve_sylvester(a, b, t)),
         (lambda g, ans, a, b, q: -sylvester_back(g, a, b) @ mT(ans), lambda g, ans, a, b, q: -mT(ans) @ sylvester_back(g, a, b),
          lambda g, ans, a, b, q: sylvester_back(g, a, b)), batch=False)
explicit(discrete,
         (lambda t, ans, a, q: discrete(a, t @ (ans @ adjoint(a)) + a @ (ans @ adjoint(t))), lambda t, ans, a, q: discrete(a, t)),
         (discrete_by_matrix, lambda g, ans, a, q: discrete(mT(a), g)), batch=False)
BODIES = by_name(solve_banded_body, solveh_banded_body, solve_sylvester_body, solve_continuous_lyapunov_body, solve_discrete_lyapunov_body)
BODIES["solve_continuous_are"] = riccati("solve_continuous_are", continuous_gain, lambda c, s: -solve_sylvester(c, mT(c), s))
BODIES["solve_discrete_are"] = riccati("solve_discrete_are", discrete_gain, lambda c, s: discrete(c, s))
# fmt: on
