"""Reverse mode: vjp, jacobian, linearize; forward over reverse: hvp, hessian. Sparse Jacobians by rows, or by rows and columns."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Literal, Unpack, overload

import numpy as np
import optree
from numpy.typing import NDArray

from dualad.core.dispatch import dtype_of
from dualad.forward.push import push_along
from dualad.forward.seeding import (
    check_chunk,
    check_function,
    check_holomorphic,
    chosen_positions,
    curried,
    shape_of,
    unflatten_arguments,
    with_arguments,
    without_aux,
)
from dualad.forward.streaming import chunk_size
from dualad.sparse.compressed import Colored, Compressed, check_columns, check_rows
from dualad.sparse.operators import make_operator
from dualad.sparse.structural import from_structure
from dualad.sparse.vectors import Flattened, flat, shaped_like, sizes
from dualad.sparse.verbs import sparse_function
from dualad.support.callers import trim, trimmed
from dualad.support.checks import flags
from dualad.support.hints import Argnums, Aux, Chunk, Decorator, Element, Flags, Fn, Jacobian, JacobianOptions, Rest, Result, X, typed_as
from dualad.verbs.hessian import hessian as forward_hessian
from dualad.verbs.hessian import sparse_hessian
from dualad.verbs.jacobian import jacobian as forward_jacobian
from dualad.verbs.jacobian import jacobian_for, refuse_verify

from .recording import Recording, gradient_function

# --- public -----------------------------------------------------------------------------------------------------------------


@overload
def vjp(
    f: Callable[..., Result], *primals: Any, nan_safe: bool = False, has_aux: Literal[False] = False
) -> tuple[Result, Callable[[Any], tuple[Any, ...]]]: ...
@overload
def vjp(
    f: Callable[..., tuple[Result, Aux]], *primals: Any, nan_safe: bool = False, has_aux: Literal[True]
) -> tuple[Result, Callable[[Any], tuple[Any, ...]], Aux]: ...
def vjp(f: Callable[..., Any], *primals: Any, nan_safe: bool = False, has_aux: bool = False) -> tuple[Any, ...]:
    """Evaluate `f` and return its value together with its pullback (vector-Jacobian product).

    Parameters
    ----------
    f : function of ``len(primals)`` arguments, each a pytree of numbers and arrays; it returns one too.
    primals : the arguments; integers are promoted to float64, arrays are copied. Of dask arrays the results are dask arrays, too.
    nan_safe : a zero cotangent times any partial is zero, also where the partial is infinite or NaN.
    has_aux : `f` returns ``(result, aux)``; the aux is returned as a third result.

    Returns
    -------
    (value, pullback) or, with `has_aux`, (value, pullback, aux). ``pullback(g)``, for a cotangent of the structure and shapes
    of the value, returns always a tuple, one cotangent for each argument. It may be called again.

    Raises
    ------
    TypeError
        Where a leaf of the arguments, of the result or of a cotangent is not numeric, or a cotangent has another structure than the value.
    ValueError
        Where a cotangent has another shape than the value.

    Examples
    --------
    >>> import numpy as np
    >>> from checkpoint import vjp
    >>> value, pullback = vjp(lambda x, y: x * y + np.sin(x), 0.0, 2.0)
    >>> value, pullback(1.0)
    (0.0, (3.0, 0.0))

    Notes
    -----
    Cotangents pair with tangents as Re(g * t), without conjugation. A gradient costs at most about 4 evaluations of `f` (Griewank
    & Walther 2008, section 3.3), and the memory of all that `f` computes; `chain` bounds that memory for long loops.
    """
    try:
        check_function(f, "vjp")
        if nan_safe or has_aux:
            flags("vjp", nan_safe=nan_safe, has_aux=has_aux)
        recording = Recording(f, primals, "vjp", nan_safe, has_aux)
    except Exception as error:
        trim(error)
        raise

    def pullback(g: Any) -> tuple[Any, ...]:
        try:
            return recording.pull(g)
        except Exception as error:
            trim(error)
            raise

    return (recording.value, pullback, recording.aux) if has_aux else (recording.value, pullback)


@overload
def jacobian(f: None = None, argnums: Argnums = 0, chunk: Chunk = None, **options: Unpack[JacobianOptions]) -> Decorator: ...
@overload
def jacobian(
    f: Fn[X, Rest, Result],
    argnums: Literal[0] = 0,
    chunk: Chunk = None,
    *,
    sparsity: None = None,
    has_aux: Literal[False] = False,
    **flags: Unpack[Flags],
) -> Jacobian[X, Rest, Result]: ...
@overload
def jacobian(
    f: Fn[NDArray[Any], Rest, tuple[NDArray[Element], Aux]],
    argnums: Literal[0] = 0,
    chunk: Chunk = None,
    *,
    sparsity: None = None,
    has_aux: Literal[True],
    **flags: Unpack[Flags],
) -> Fn[NDArray[Any], Rest, tuple[NDArray[Element], Aux]]: ...
@overload
def jacobian(f: Fn[X, Rest, Result], argnums: Argnums = 0, chunk: Chunk = None, **options: Unpack[JacobianOptions]) -> Any: ...
@curried
def jacobian(
    f: Callable[..., Any],
    argnums: Argnums = 0,
    chunk: Chunk = None,
    *,
    sparsity: Any = None,
    verify: bool = False,
    holomorphic: bool = False,
    nan_safe: bool = False,
    has_aux: bool = False,
) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of `f` in reverse mode, K rows at a time; for few outputs.

    Parameters
    ----------
    f : function of numbers, arrays or pytrees of them; it returns one too.
        Without it `jacobian` returns a decorator: ``@jacobian(argnums=1)``.
    argnums : position of the argument to differentiate, or a tuple of positions.
    chunk : how many rows (cotangents) to pull back at once; by default as many as stay in the cache.
    sparsity : the Jacobian is sparse: "auto", a pattern or a colouring (`dualad.coloring`), as for `dualad.jacobian`. A pattern is
        coloured by columns, rows or both, whatever has fewest colours; so few dense rows, or an arrow, take few products too. Columns
        are computed in forward mode, rows in reverse mode.
    verify : see `dualad.jacobian`.
    holomorphic : f is complex-differentiable: needed where an input is complex, see `dualad.jacobian`.
    nan_safe, has_aux : see `grad`.

    Returns
    -------
    function with f's arguments. Its result is, for each leaf of f's output, the tree of the input's leaves, of shape
    ``out.shape + in.shape``; with a tuple `argnums`, a tuple of those. With `sparsity` it is one ``scipy.sparse.csr_array``, as for
    `dualad.jacobian`. The function's ``linear_operator(*args)`` is the Jacobian as a ``scipy.sparse.linalg.LinearOperator``: f is
    recorded once, and products with the Jacobian and its transpose sweep over the recording.

    Raises
    ------
    TypeError, ValueError
        Where an argument is not numeric, or `argnums` or `chunk` is wrong.

    Examples
    --------
    >>> import numpy as np
    >>> from checkpoint import jacobian
    >>> jacobian(lambda x: np.stack([x[0] * x[1], np.sin(x[0])]))(np.array([0.0, 2.0]))
    array([[2., 0.],
           [1., 0.]])
    >>> jac = jacobian(lambda x: np.stack([np.sum(x), x[2] ** 2]), sparsity="auto")
    >>> print(jac(np.array([1.0, 2.0, 3.0])).toarray())
    [[1. 1. 1.]
     [0. 0. 6.]]
    """
    check_chunk(chunk, "jacobian")
    refuse_verify(sparsity, verify, "jacobian")
    g = without_aux(f, has_aux, "jacobian")

    if sparsity is None:
        differentiated = dense_jacobian(f, argnums, chunk, holomorphic, nan_safe, has_aux)
    else:
        differentiated = sparse_jacobian(f, argnums, chunk, sparsity, verify, holomorphic, nan_safe, has_aux)
    vars(differentiated)["linear_operator"] = lambda *args, **kwargs: recorded_operator(g, argnums, args, kwargs, holomorphic, nan_safe)
    return differentiated


@overload
def linearize(
    f: Callable[..., tuple[Result, Aux]], *primals: Any, nan_safe: bool = False, has_aux: Literal[True]
) -> tuple[Result, Callable[..., Result], Aux]: ...
@overload
def linearize(
    f: Callable[..., Result], *primals: Any, nan_safe: bool = False, has_aux: Literal[False] = False
) -> tuple[Result, Callable[..., Result]]: ...
@trimmed
def linearize(f: Callable[..., Any], *primals: Any, nan_safe: bool = False, has_aux: bool = False) -> tuple[Any, ...]:
    """Evaluate `f` once and return its value and the linear map of its tangents: one recording, many JVPs.

    Parameters
    ----------
    f, primals, nan_safe : see `vjp`.
    has_aux : `f` returns ``(result, aux)``; the triple ``(result, push, aux)`` is returned.

    Returns
    -------
    (value, push) where ``push(*tangents)`` returns the tangent of the value, of its structure and shapes.

    Raises
    ------
    TypeError
        Where a leaf of the arguments or of the result is not numeric, or tangents have other shapes than the arguments.

    Notes
    -----
    The states of a `chain` are not kept: each push runs the chain again, in forward mode. It also re-evaluates functions
    wrapped in `checkpoint`.

    Examples
    --------
    >>> from checkpoint import linearize
    >>> value, push = linearize(lambda x: x * x, 3.0)
    >>> value, push(1.0), push(2.0)
    (9.0, 6.0, 12.0)
    """
    check_function(f, "linearize")
    flags("linearize", nan_safe=nan_safe, has_aux=has_aux)
    recording = Recording(f, primals, "linearize", nan_safe, has_aux)
    recording.release()

    @trimmed
    def push(*tangents: Any) -> Any:
        return recording.push(tangents)

    return (recording.value, push, recording.aux) if has_aux else (recording.value, push)


@overload
def hvp(f: Callable[[X], tuple[Any, Aux]], x: X, v: X, *, nan_safe: bool = False, has_aux: Literal[True]) -> tuple[X, Aux]: ...
@overload
def hvp(f: Callable[[X], Any], x: X, v: X, *, nan_safe: bool = False, has_aux: Literal[False] = False) -> X: ...
@trimmed
def hvp(f: Callable[[Any], Any], x: Any, v: Any, *, nan_safe: bool = False, has_aux: bool = False) -> Any:
    """Return the product of the Hessian of `f` at `x` with the direction `v`, by forward over reverse mode.

    Parameters
    ----------
    f : function of one argument (a pytree) that returns one number.
    x, v : pytrees of one structure and shapes: the point and the direction.
    nan_safe : see `vjp`.
    has_aux : `f` returns ``(result, aux)``; the pair of the product and aux is returned.

    Returns
    -------
    pytree of the structure and shapes of `x`.

    Raises
    ------
    TypeError, ValueError
        Where f does not return one number, or `x` and `v` differ in structure or shape.

    Examples
    --------
    >>> import numpy as np
    >>> from checkpoint import hvp
    >>> hvp(lambda x: x[0] ** 2 * x[1], np.array([3.0, 5.0]), np.array([1.0, 0.0]))
    array([10.,  6.])
    """
    check_function(f, "hvp")
    flags("hvp", nan_safe=nan_safe, has_aux=has_aux)
    _, *pushed = push_along(gradient_function(f, 0, "hvp", nan_safe, has_aux), (x,), (v,), nan_safe, has_aux, "hvp", ("x", "v"))
    return tuple(pushed) if has_aux else pushed[0]


@typed_as(forward_hessian)
@curried
def hessian(
    f: Callable[..., Any],
    argnums: Argnums = 0,
    chunk: Chunk = None,
    *,
    sparsity: Any = None,
    verify: bool = False,
    nan_safe: bool = False,
    has_aux: bool = False,
) -> Callable[..., Any]:
    """Return a function that computes the Hessian of `f`, a function that returns one number, forward over reverse: K columns at a time.

    Parameters
    ----------
    f : function that returns one number (shape ()).
        Without it `hessian` returns a decorator: ``@hessian(argnums=1)``.
    argnums : position of the argument to differentiate twice, or a tuple of positions (all blocks are returned).
    chunk : how many columns to compute at once, see `dualad.jacobian`.
    sparsity : the Hessian is sparse: "auto", a pattern (``dualad.sparsity(f, x, order=2)``) or a colouring
        (``dualad.coloring(pattern, "symmetric")``).
    verify, nan_safe : see `dualad.jacobian`.
    has_aux : `f` returns ``(result, aux)``; the function returns ``(hessian, aux)``.

    Returns
    -------
    function with f's arguments; for an array argument its result has shape ``x.shape + x.shape``; for pytrees, the tree
    of trees. With `sparsity` it is one ``scipy.sparse.csr_array``, as for `dualad.jacobian`.

    Raises
    ------
    TypeError, ValueError
        Where f does not return one number, or the pattern is that of another function.

    Examples
    --------
    >>> import numpy as np
    >>> from checkpoint import hessian
    >>> f = lambda x: np.sum(x[1:] ** 2 * x[:-1])
    >>> hessian(f)(np.array([1.0, 2.0, 3.0]))
    array([[0., 4., 0.],
           [4., 2., 6.],
           [0., 6., 4.]])
    >>> hessian(f, sparsity="auto")(np.array([1.0, 2.0, 3.0])).nnz
    6
    """
    refuse_verify(sparsity, verify, "hessian")
    check_chunk(chunk, "hessian")
    slope = gradient_function(f, argnums, "hessian", nan_safe, has_aux)
    if sparsity is None:
        return jacobian_for(slope, argnums, chunk, nan_safe, "hessian", has_aux=has_aux)
    return sparse_hessian(f, slope, argnums, chunk, sparsity, verify, nan_safe, has_aux)


# --- parts ------------------------------------------------------------------------------------------------------------------


def dense_jacobian(
    f: Callable[..., Any], argnums: Any, chunk: Chunk, holomorphic: bool, nan_safe: bool, has_aux: bool
) -> Callable[..., Any]:
    """Return the function that computes the Jacobian, and aux where there is one."""

    @trimmed
    @wraps(f)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        if chunk is None:
            made = from_structure(f, args, kwargs, argnums, "jacobian", holomorphic=holomorphic, nan_safe=nan_safe, has_aux=has_aux)
            if made is not None:
                return made[1:] if has_aux else made[1]
        positions, single = chosen_positions(args, argnums, "jacobian")
        recording = Recording(with_arguments(f, args, kwargs, positions), tuple(args[i] for i in positions), "jacobian", nan_safe, has_aux)
        check_holomorphic(recording.leaves, holomorphic, "jacobian")
        if chunk is None and recording.cheaper_forward():
            return forward_jacobian(f, argnums, holomorphic=holomorphic, nan_safe=nan_safe, has_aux=has_aux)(*args, **kwargs)
        results = []
        for k, value in enumerate(recording.values):
            tree = unflatten_arguments(recording.structure, recording.rows(k, value, chunk))
            results.append(tree[0] if single else tuple(tree))
        jac = optree.tree_unflatten(recording.out_structure, results)
        return (jac, recording.aux) if has_aux else jac

    return differentiated


# --- sparse -----------------------------------------------------------------------------------------------------------------

ALL = ("forward", "reverse", "both", "symmetric"), ""


class CompressedRows(Compressed):
    """The sparse Jacobian of a function, by forward mode where the colouring has columns and by reverse mode where it has rows."""

    def entries(self, colors: Any, args: tuple[Any, ...], kwargs: dict[str, Any], f: Callable[..., Any] | None = None) -> tuple[Any, ...]:
        if colors.rows is None:
            return super().entries(colors, args, kwargs, f)
        f = f or self.f
        positions, _ = chosen_positions(args, self.argnums, self.where)
        g = with_arguments(f, args, kwargs, positions)
        products, aux = [], None
        if colors.forward_colors:
            _, pushed, aux = self.pushed(colors, args, kwargs, positions, f)
            products = [pushed]
        recording = Recording(g, tuple(args[i] for i in positions), self.where, self.options["nan_safe"], self.options["has_aux"])
        products.append(self.pulled(recording, colors))
        data = np.take(np.concatenate(products) if len(products) > 1 else products[0], colors.found_at)
        return recording.value, data, *(aux or [recording.aux] if self.options["has_aux"] else [])

    def pulled(self, recording: Recording, colors: Any) -> np.ndarray:
        """Return the cotangents along the rows of a colouring, flat: (colours, columns)."""
        check_columns(colors, recording.leaves, self.options["holomorphic"], self.where)
        check_rows(colors, sum(sizes(recording.values)), self.where)
        count = colors.reverse_colors
        seeds = np.split(colors.cotangents, np.cumsum(sizes(recording.values))[:-1], axis=1)
        largest = max(
            dtype_of(x).itemsize * size for part in (recording.leaves, recording.values) for x, size in zip(part, sizes(part), strict=True)
        )
        lanes = chunk_size(count, largest, self.chunk)
        rows = []
        for start in range(0, count, lanes):
            stop = min(start + lanes, count)
            pairs = [
                (node, np.reshape(seed[start:stop], (stop - start, *shape_of(value))).astype(dtype_of(value)))
                for node, seed, value in zip(recording.nodes, seeds, recording.values, strict=True)
                if node is not None
            ]
            pulled = recording.pull_units(pairs, stop - start) if pairs else [None] * len(recording.leaves)
            shares = [
                np.zeros((stop - start, size)) if g is None else np.reshape(g, (stop - start, size))
                for g, size in zip(pulled, sizes(recording.leaves), strict=True)
            ]
            rows.append(shares[0] if len(shares) == 1 else np.concatenate(shares, axis=1))
        return np.reshape(rows[0] if len(rows) == 1 else np.concatenate(rows), (-1,)) if rows else np.zeros(0)


def sparse_jacobian(
    f: Callable[..., Any], argnums: Any, chunk: Chunk, sparsity: Any, verify: bool, holomorphic: bool, nan_safe: bool, has_aux: bool
) -> Callable[..., Any]:
    """Return the function that computes the sparse Jacobian, and aux where there is one."""
    g = without_aux(f, has_aux, "jacobian")
    colored = Colored(g, argnums, sparsity, "auto", ALL, "jacobian")
    options = {"holomorphic": holomorphic, "nan_safe": nan_safe, "has_aux": has_aux, "valued": False}
    return sparse_function(f, CompressedRows(f, argnums, colored, chunk, "jacobian", **options), verify, g)


def recorded_operator(
    f: Callable[..., Any], argnums: Any, args: tuple[Any, ...], kwargs: dict[str, Any], holomorphic: bool = False, nan_safe: bool = False
) -> Any:
    """Return the Jacobian at a point as a linear operator: f is recorded once, products sweep over the recording."""
    where = "jacobian.linear_operator"
    given = Flattened(f, args, kwargs, argnums, where)
    recording = Recording(given.f, given.primals, where, nan_safe, False)
    outs = recording.values

    def matvec(v: Any) -> Any:
        return flat(recording.push(given.unflatten(v)))

    def rmatvec(w: Any) -> Any:
        parts = np.split(np.ravel(w), np.cumsum(sizes(outs))[:-1])
        return flat(recording.pull_leaves([shaped_like(part, out) for part, out in zip(parts, outs, strict=True)]))

    return make_operator(given.leaves, outs, holomorphic, matvec, rmatvec)
