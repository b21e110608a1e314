"""``scipy.sparse``: matrices that multiply traced arrays, and matrices with traced entries at constant places."""

from __future__ import annotations

from functools import wraps
from typing import Any

import numpy as np
from scipy import sparse as sp

from ..batching import of_columns
from ..kinds import any_traced, bilinear, primitive, shape_of
from ..linalg import mT
from ..shapes import as_array
from ..sparse import is_sparse, times_sparse
from .entering import settled

# --- primitives: the places of the entries are those of a plain matrix in csr or csc format ---------------------------------------------


def with_entries(data, places, copy=False):
    """Return a matrix; SciPy's solvers sort entries in place, and add up those at one place, so they are given a copy."""
    return type(places)((data, places.indices, places.indptr), shape=places.shape, copy=copy)


@primitive
def product(data, x, *, places):
    """Return the product with an array of one or two axes."""
    return with_entries(data, places) @ x


def share_of_entries(g, x, places):
    """Return g_i x_j for the place (i, j) of each entry, summed over further axes."""
    at = places.tocoo()
    share = g[at.row] * x[at.col]
    return share if len(shape_of(share)) == 1 else np.sum(share, axis=1)


# --- matrices ---------------------------------------------------------------------------------------------------------------------------


class Entries:
    """A sparse matrix of constant places and traced entries: ``@``, multiples, ``.T``, ``.toarray()``; it cannot be changed."""

    __array_ufunc__ = None  # its operators go first
    ndim = 2

    def __init__(self, data: Any, places: Any) -> None:
        self.data, self.places, self.shape = data, places, places.shape

    def __repr__(self) -> str:
        return f"<sparse matrix of shape {self.shape} with {self.nnz} traced entries>"

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"a sparse matrix with traced entries has no {name}: it has @, multiples, .T, .toarray() and .diagonal()")

    @property
    def nnz(self) -> int:
        return self.places.nnz

    @property
    def dtype(self) -> Any:
        return self.data.dtype

    @property
    def T(self) -> Entries:
        return Entries(self.data, self.places.T)

    def __matmul__(self, x: Any) -> Any:
        if is_sparse(x) or isinstance(x, Entries):
            raise TypeError(
                "a sparse matrix with traced entries times a sparse matrix: multiply arrays by one after the other, a @ (b @ x)"
            )
        x = as_array(x)
        if len(shape_of(x)) not in (1, 2) or shape_of(x)[0] != self.shape[1]:
            raise ValueError(f"a sparse matrix of shape {self.shape} times an array of shape {shape_of(x)}: the dimensions do not match")
        return product(self.data, x, places=self.places)

    def __rmatmul__(self, x: Any) -> Any:
        return mT(self.T @ mT(x)) if len(shape_of(x)) == 2 else self.T @ x

    dot = __matmul__

    def __mul__(self, factor: Any) -> Entries:
        if shape_of(factor):
            raise TypeError("a sparse matrix with traced entries is multiplied by numbers; products with arrays are written with @")
        return Entries(self.data * factor, self.places)

    __rmul__ = __mul__

    def __truediv__(self, factor: Any) -> Entries:
        return self * (1.0 / factor)

    def __neg__(self) -> Entries:
        return self * -1.0

    def toarray(self) -> Any:
        return self @ np.eye(self.shape[1])

    def diagonal(self) -> Any:
        return np.diagonal(self.toarray())


def entries(kind: type, given: tuple, shape: tuple | None) -> Entries:
    """Return a matrix of traced data, given as SciPy takes plain ones: (data, indices, indptr) or (data, (rows, columns))."""
    data = as_array(given[0])
    if len(given) == 3:
        indices, indptr = given[1:]
        return Entries(data, kind((np.ones(len(indices)), indices, indptr), shape=shape, copy=True))
    rows, columns = given[1]
    places = kind((np.ones(len(rows)), (rows, columns)), shape=shape)
    by_kind = [rows, columns] if "csr" in kind.__name__ else [columns, rows]
    order = np.unique(by_kind, axis=1, return_inverse=True)[1].ravel()
    adding = sp.csr_array((np.ones(len(order), data.dtype), (order, np.arange(len(order)))))  # those at one place
    return Entries(times_sparse(data, adding), places)


def kind_of(name: str) -> Any:
    """Return a kind of SciPy's sparse matrices, whose products take traced arrays; of traced data it makes `Entries`."""
    scipys: Any = getattr(sp, name)
    its_type: Any = type(scipys)
    kind_of_entries = getattr(sp, name.replace("coo", "csr")) if name[:3] in ("csr", "csc", "coo") else None

    class Kind(its_type):
        def __instancecheck__(cls, x: Any) -> bool:
            return isinstance(x, scipys)  # SciPy's are instances of ours, too

    class Made(scipys, metaclass=Kind):
        def __new__(cls, arg1: Any = None, shape: Any = None, *args: Any, **kwargs: Any) -> Any:
            if type(arg1) is tuple and any_traced(arg1[0]) and any_traced(settled(as_array(arg1[0])[:0])):  # no buffer of plain numbers
                if kind_of_entries is None:
                    raise TypeError(f"scipy.sparse.{name} takes no traced entries: give csr_array((data, (rows, columns)), shape)")
                return entries(kind_of_entries, arg1, shape)
            return super().__new__(cls)

        def __matmul__(self, x: Any) -> Any:
            return times_sparse(x, self) if any_traced(x) else super().__matmul__(x)

        def dot(self, x: Any) -> Any:
            return self @ x if any_traced(x) else super().dot(x)

        if name.endswith("matrix"):

            def __mul__(self, x: Any) -> Any:
                return self @ x if any_traced(x) and shape_of(x) else super().__mul__(x)

    for other in FORMATS:  # what its methods return
        setattr(Made, f"_{other}_container", kind_returned(f"{other}_{name[4:]}"))
    Made.__name__ = Made.__qualname__ = name
    Made.__module__, Made.__doc__ = "dualad.scipy.sparse", scipys.__doc__
    return Made


def kind_returned(name: str) -> property:
    return property(lambda matrix: KINDS[name])


def made_by(name: str) -> Any:
    """Return a function that makes sparse matrices, of our kinds."""
    scipys = getattr(sp, name)

    @wraps(scipys)
    def make(*args: Any, **kwargs: Any) -> Any:
        result = scipys(*args, **kwargs)
        return KINDS[type(result).__name__](result)

    return make


# --- the table --------------------------------------------------------------------------------------------------------------------------

CALLED = "the library does it faster than a loop"

# fmt: off
bilinear(product, lambda g, data, x, *, places: share_of_entries(g, x, places),
         lambda g, data, x, *, places: product(data, g, places=places.T), batch=of_columns(1), called=CALLED)
# fmt: on
FORMATS = ("csr", "csc", "coo", "dia", "bsr", "lil", "dok")
KINDS: dict[str, Any] = {name: kind_of(name) for form in FORMATS for name in (f"{form}_array", f"{form}_matrix")}
MAKERS = (
    "diags", "diags_array", "eye", "eye_array", "identity", "kron", "kronsum", "block_diag", "bmat", "block_array", "hstack", "vstack",
    "tril", "triu",
)  # fmt: skip
FUNCTIONS: dict[str, Any] = KINDS | {name: made_by(name) for name in MAKERS if hasattr(sp, name)}
