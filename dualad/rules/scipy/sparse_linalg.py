"""``scipy.sparse.linalg``: direct solvers."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse as sp
from scipy.sparse import linalg as spl

from ..batching import of_columns
from ..kinds import any_traced, explicit, linear, primitive, shape_of
from ..shapes import as_array
from ..sparse import is_sparse
from .sparse import CALLED, Entries, product, share_of_entries, with_entries

# --- primitives ---------------------------------------------------------------------------------------------------------------------


@primitive
def solved(data, b, places, options):
    """Return the solution of an array of one or two axes."""
    return spl.spsolve(with_entries(data, places, copy=True), b, **dict(options))


def solved_by_b(g, ans, data, b, places, options):
    return solved(data, g, places.T, options)


def solved_by_entries(g, ans, data, b, places, options):
    return -share_of_entries(solved_by_b(g, ans, data, b, places, options), ans, places)


@primitive
def solved_by_factors(b, factors, trans):
    """Return the solution by the LU factors of a constant matrix."""
    return factors.solve(b, trans)


# --- what SciPy calls them ----------------------------------------------------------------------------------------------------------


def split_system(a: Any, name: str, b: Any) -> tuple:
    """Return the entries and the places of a matrix, and the right-hand side as SciPy's solvers take it."""
    if is_sparse(b):
        raise TypeError(f"scipy.sparse.linalg.{name} has no derivative of sparse right-hand sides: give an array, b.toarray()")
    if isinstance(a, Entries):
        data, places = a.data, a.places
    else:
        places = a if is_sparse(a) and a.format in ("csr", "csc") else sp.csc_array(a)
        data = places.data
    b = as_array(b)
    return data, places, np.reshape(b, (-1,)) if len(shape_of(b)) == 2 and shape_of(b)[1] == 1 else b


def spsolve(A: Any, b: Any, permc_spec: str | None = None, use_umfpack: bool = True) -> Any:
    """``scipy.sparse.linalg.spsolve``, with derivatives by b, and by the entries of a matrix made of traced data."""
    if not any_traced(b) and not isinstance(A, Entries):
        return spl.spsolve(A, b, permc_spec, use_umfpack)
    data, places, b = split_system(A, "spsolve", b)
    return solved(data, b, places, (("permc_spec", permc_spec), ("use_umfpack", use_umfpack)))


class Factors:
    """The LU factors of a matrix: SciPy's, of which `solve` takes traced arrays."""

    def __init__(self, scipys: Any) -> None:
        self.scipys = scipys

    def __getattr__(self, name: str) -> Any:
        return getattr(self.scipys, name)

    def solve(self, rhs: Any, trans: str = "N") -> Any:
        if not any_traced(rhs):
            return self.scipys.solve(rhs, trans)
        if trans == "H":
            return np.conj(solved_by_factors(np.conj(rhs), self.scipys, "T"))
        return solved_by_factors(rhs, self.scipys, trans)


def splu(A: Any, *args: Any, **kwargs: Any) -> Factors:
    """``scipy.sparse.linalg.splu`` of a constant matrix; its ``solve`` has derivatives."""
    if isinstance(A, Entries):
        raise TypeError("scipy.sparse.linalg.splu has no derivative by the entries of the matrix: write spsolve(A, b)")
    return Factors(spl.splu(A, *args, **kwargs))


def factorized(A: Any) -> Any:
    """``scipy.sparse.linalg.factorized`` of a constant matrix: a function that solves, with derivatives."""
    return splu(A).solve


# --- the table --------------------------------------------------------------------------------------------------------------------

# fmt: off
explicit(solved,
         (lambda t, ans, data, b, places, options: -solved(data, product(t, ans, places=places), places, options),
          lambda t, ans, data, b, places, options: solved(data, t, places, options)),
         (solved_by_entries, solved_by_b),
         argnums=(0, 1), batch=of_columns(1), called=CALLED)
linear(solved_by_factors, lambda g, b, factors, trans: solved_by_factors(g, factors, "T" if trans == "N" else "N"), batch=of_columns(0),
       called=CALLED)
# fmt: on
FUNCTIONS = {"spsolve": spsolve, "splu": splu, "factorized": factorized}
