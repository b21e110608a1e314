"""``scipy.sparse``: matrices that multiply traced arrays, and matrices with traced entries at constant places."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any

import numpy as np
from scipy import sparse as sp

from ..batching import of_columns
from ..kinds import any_traced, bilinear, primitive, shape_of
from ..linalg import mT
from ..shapes import as_array
from ..sparse import is_sparse, times_sparse
from .entering import plain_copies

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
    """A sparse matrix of constant places and traced entries: sums, multiples, ``@``, indexing; it cannot be changed."""

    __array_ufunc__ = None  # its operators go first
    ndim = 2

    def __init__(self, data: Any, places: Any) -> None:
        self.data, self.places, self.shape = data, places, places.shape

    def __repr__(self) -> str:
        return f"<sparse matrix of shape {self.shape} with {self.nnz} traced entries>"

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"a sparse matrix with traced entries has no {name}: it has {', '.join(HAS)}")

    @property
    def nnz(self) -> int:
        return self.places.nnz

    @property
    def dtype(self) -> Any:
        return self.data.dtype

    @property
    def T(self) -> Entries:
        return Entries(self.data, self.places.T)

    def transpose(self) -> Entries:
        return self.T

    def tocsr(self, copy: bool = False) -> Entries:
        return moved(lambda matrix: matrix.tocsr(), self)

    def tocsc(self, copy: bool = False) -> Entries:
        return moved(lambda matrix: matrix.tocsc(), self)

    def __getitem__(self, index: Any) -> Any:
        return moved(lambda matrix: matrix[index], self)

    def __setitem__(self, index: Any, value: Any) -> None:
        raise TypeError(
            "a sparse matrix with traced entries cannot be changed: change its data before it is made, or solve for the free unknowns, "
            "A[free][:, free]"
        )

    def __add__(self, other: Any) -> Any:
        if not is_sparse(other) and not isinstance(other, Entries):
            return self.toarray() + other if shape_of(other) else self if is_zero(other) else NotImplemented
        if self.shape != other.shape:
            raise ValueError(f"a sparse matrix of shape {self.shape} plus one of shape {other.shape}: they must be equal")
        parts = [(x.data, x.places.tocoo()) if isinstance(x, Entries) else (x.tocoo().data, x.tocoo()) for x in (self, other)]
        rows, columns = (np.concatenate([getattr(places, name) for _, places in parts]) for name in ("row", "col"))
        return entries(type(self.places), (np.concatenate([data for data, _ in parts]), (rows, columns)), self.shape)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self + -other

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __matmul__(self, x: Any) -> Any:
        x = as_array(not_sparse(x))
        if len(shape_of(x)) not in (1, 2) or shape_of(x)[0] != self.shape[1]:
            raise ValueError(f"a sparse matrix of shape {self.shape} times an array of shape {shape_of(x)}: the dimensions do not match")
        return product(self.data, x, places=self.places)

    def __rmatmul__(self, x: Any) -> Any:
        return mT(self.T @ mT(x)) if len(shape_of(not_sparse(x))) == 2 else self.T @ x

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
        return moved(lambda matrix: matrix.toarray(), self)

    def diagonal(self) -> Any:
        return moved(lambda matrix: matrix.diagonal(), self)


HAS = ("@", "+", "-", "multiples", "indexing", ".T", ".tocsr()", ".tocsc()", ".toarray()", ".diagonal()", ".data")


def not_sparse(x: Any) -> Any:
    """Return the other factor of a product, an array."""
    if is_sparse(x) or isinstance(x, Entries):
        raise TypeError("a sparse matrix with traced entries times a sparse matrix: multiply arrays by one after the other, a @ (b @ x)")
    return x


def is_zero(x: Any) -> bool:
    """Return whether `x` is the plain number 0, with which ``sum([...])`` begins."""
    return not any_traced(x) and bool(x == 0)


def moved(move: Callable[..., Any], given: Any) -> Any:
    """Evaluate a function that only moves entries, of a matrix or of lists of parts: NumPy moves their numbers, and entries follow."""
    pool: list[Any] = []  # what has the numbers from 1; 0 is at places without an entry

    def numbers(x: Any) -> Any:
        if x is None or type(x) in (list, tuple):
            return x and type(x)(map(numbers, x))
        if is_sparse(x):
            x = Entries((x := x.tocsr()).data, x)
        first = 1 + sum(len(part) for part in pool)
        if not isinstance(x, Entries):
            pool.append(np.reshape(x, (-1,)))
            return np.arange(first, first + len(pool[-1]), dtype=float).reshape(shape_of(x))[()]
        at = x.places.tocoo()
        if np.unique(np.ravel_multi_index((at.row, at.col), x.shape)).size < x.nnz:  # some are at one place
            x = entries(type(x.places), (x.data, (at.row, at.col)), x.shape)
        pool.append(x.data)
        return with_entries(np.arange(first, first + x.nnz, dtype=float), x.places)

    found, data = move(numbers(given)), np.concatenate(pool)
    if not is_sparse(found):
        return np.concatenate([np.zeros(1, data.dtype), data])[np.asarray(found).astype(int)]
    if found.ndim == 1:
        raise TypeError("a row of a sparse matrix with traced entries has two axes: write A[[i]] for A[i]")
    found = found if found.format in ("csr", "csc") else found.tocsr()
    return Entries(data[found.data.astype(int) - 1], found)


def entries(kind: type, given: tuple, shape: tuple | None) -> Entries:
    """Return a matrix of traced data, given as SciPy takes plain ones: (data, indices, indptr) or (data, (rows, columns))."""
    data = as_array(given[0])
    if len(given) == 3:
        indices, indptr = given[1:]
        return Entries(data, kind((np.ones(len(indices)), indices, indptr), shape=shape, copy=True))
    rows, columns = (np.asarray(x, int) for x in given[1])
    places = kind((np.ones(len(rows)), (rows, columns)), shape=shape)
    by_kind = (rows, columns) if "csr" in kind.__name__ else (columns, rows)
    order = np.unique(np.ravel_multi_index(by_kind, (max(places.shape),) * 2), return_inverse=True)[1]
    shape = places.nnz, len(order)
    adding = sp.csr_array((np.ones(len(order), data.dtype), (order, np.arange(len(order)))), shape=shape)  # those at one place
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
            # the second question is for buffers of plain numbers
            if type(arg1) is tuple and any_traced(arg1[0]) and any_traced(plain_copies(as_array(arg1[0])[:0])):
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


def has_traced(x: Any) -> bool:
    """Return whether a matrix or an array, also one in lists, has traced entries."""
    return any(map(has_traced, x)) if type(x) in (list, tuple) else isinstance(x, Entries) or any_traced(x)


def made_by(name: str) -> Any:
    """Return a function that makes sparse matrices, of our kinds."""
    scipys = getattr(sp, name)

    @wraps(scipys)
    def make(*args: Any, **kwargs: Any) -> Any:
        if has_traced((*args, *kwargs.values())):
            if name not in MOVES:
                raise TypeError(f"scipy.sparse.{name} takes no traced entries: give csr_array((data, (rows, columns)), shape)")
            (_, parts), *options = signature(scipys).bind(*args, **kwargs).arguments.items()
            dtype = dict(options).get("dtype")  # of the entries, not of their numbers
            result = moved(lambda parts: scipys(parts, **{key: value for key, value in options if key != "dtype"}), parts)
            return result if dtype is None else Entries(result.data.astype(dtype), result.places)
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
MOVES = set(MAKERS) - {"kron", "kronsum", "eye", "eye_array", "identity"}
FUNCTIONS: dict[str, Any] = KINDS | {name: made_by(name) for name in MAKERS if hasattr(sp, name)}
