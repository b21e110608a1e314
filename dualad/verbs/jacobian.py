"""jacobian: all directions, K at a time, or as many as a sparse one has colours."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from functools import wraps
from typing import Any, Literal, Unpack, overload

import numpy as np
import optree
from numpy.typing import NDArray

from ..forward.chunks import Seeds, inexact, push_chunks
from ..forward.seeding import check_chunk, check_holomorphic, chosen_positions, curried, plain, shape_of, unflatten_arguments, without_aux
from ..sparse.compressed import Colored, Compressed
from ..sparse.operators import forward_operator
from ..sparse.structural import from_structure
from ..sparse.verbs import sparse_function
from ..support.cached import Cached
from ..support.callers import trimmed
from ..support.executors import check_executor
from ..support.hints import (
    Argnums,
    Aux,
    Chunk,
    Decorator,
    Element,
    Fn,
    ForwardFlags,
    ForwardOptions,
    Jacobian,
    Rest,
    Result,
    ValueAndJacobian,
    X,
)

# --- public -----------------------------------------------------------------------------------------------------------------


@overload
def jacobian(f: None = None, argnums: Argnums = 0, chunk: Chunk = None, **options: Unpack[ForwardOptions]) -> Decorator: ...
@overload
def jacobian(
    f: Fn[X, Rest, Result],
    argnums: Literal[0] = 0,
    chunk: Chunk = None,
    *,
    sparsity: None = None,
    has_aux: Literal[False] = False,
    **flags: Unpack[ForwardFlags],
) -> Jacobian[X, Rest, Result]: ...
@overload
def jacobian(
    f: Fn[NDArray[Any], Rest, tuple[NDArray[Element], Aux]],
    argnums: Literal[0] = 0,
    chunk: Chunk = None,
    *,
    sparsity: None = None,
    has_aux: Literal[True],
    **flags: Unpack[ForwardFlags],
) -> Fn[NDArray[Any], Rest, tuple[NDArray[Element], Aux]]: ...
@overload
def jacobian(f: Fn[X, Rest, Result], argnums: Argnums = 0, chunk: Chunk = None, **options: Unpack[ForwardOptions]) -> Any: ...
@curried
def jacobian(
    f: Callable[..., Any],
    argnums: Argnums = 0,
    chunk: Chunk = None,
    *,
    executor: Executor | None = None,
    sparsity: Any = None,
    verify: bool = False,
    holomorphic: bool = False,
    nan_safe: bool = False,
    has_aux: bool = False,
) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of `f` in forward mode, K columns at a time.

    Parameters
    ----------
    f : function of numbers, arrays or pytrees of them; it returns one too.
        Without it `jacobian` returns a decorator: ``@jacobian(argnums=1)``.
    argnums : position of the argument to differentiate, or a tuple of positions.
    chunk : how many columns (directions) to compute at once; by default as many as stay in the cache.
    executor : computes the chunks (of columns, or of colours): any of `concurrent.futures`, processes for NumPy code (f and its arguments
        are pickled), threads for code that releases Python's lock; ``client.get_executor()`` of dask.distributed for many machines.
    sparsity : the Jacobian is sparse: "auto" finds its pattern (`dualad.sparsity`) and colours it, once for each kind of arguments; a
        pattern, or a colouring (`dualad.coloring`), is taken as it is. One direction then serves all columns of a colour. For few dense
        rows, or more columns than rows, `checkpoint.jacobian` takes rows, or both.
    verify : multiply the sparse Jacobian by random vectors at each call, and raise where the pattern misses an entry.
    holomorphic : f is complex-differentiable, so that one complex number is its derivative by a complex input. Without it a complex
        input raises: its derivative would take two numbers, by the real and by the imaginary part.
    nan_safe : see `jvp`.
    has_aux : `f` returns ``(result, aux)``; the Jacobian function returns ``(jacobian, aux)``.

    Returns
    -------
    function with f's arguments (so SciPy takes it as ``jac=``). Its result is, for each leaf of f's output, the tree of
    the input's leaves, of shape ``out.shape + in.shape``; with a tuple `argnums`, a tuple of those. With `sparsity` it is one
    ``scipy.sparse.csr_array``: a row for each element of the outputs, a column for each of the inputs (leaves one after the other, in
    C order); its stored entries are those of the pattern. Over `jit(f)` all entries come from one compiled call.

    The function's ``linear_operator(*args)`` is the Jacobian as a ``scipy.sparse.linalg.LinearOperator``, without entries: products
    by forward mode, products with the transpose by the transposed program of `f`, which `jit` must be able to trace.

    With `sparsity`, ``fill(matrix, *args)`` writes the entries into a matrix of the same pattern and dtype, in csr or csc form,
    from an earlier call (over `jit(f)` straight into its ``data``, with no new array), and returns it.

    Raises
    ------
    TypeError, ValueError
        Where an argument is not numeric, or `argnums` or `chunk` is wrong; where the pattern has another shape than the Jacobian, or the
        matrix to fill another pattern or dtype.

    Examples
    --------
    >>> import numpy as np
    >>> from dualad import jacobian
    >>> jacobian(lambda x: np.stack([x[0] * x[1], np.sin(x[0])]))(np.array([0.0, 2.0]))
    array([[2., 0.],
           [1., 0.]])
    >>> jac = jacobian(lambda x: x[1:] * x[:-1], sparsity="auto")
    >>> print(jac(np.array([1.0, 2.0, 3.0])).toarray())
    [[2. 1. 0.]
     [0. 3. 2.]]
    >>> matrix = jac(np.zeros(3))
    >>> jac.fill(matrix, np.array([1.0, 2.0, 3.0])) is matrix, matrix.data
    (True, array([2., 1., 3., 2.]))
    """
    refuse_verify(sparsity, verify, "jacobian")
    g = without_aux(f, has_aux, "jacobian")
    if sparsity is None:
        differentiated = jacobian_for(f, argnums, chunk, nan_safe, "jacobian", holomorphic, has_aux, executor)
    else:
        compressed = compressed_of(f, argnums, chunk, sparsity, holomorphic, nan_safe, has_aux, "jacobian", executor, valued=False)
        differentiated = sparse_function(f, compressed, verify, g)
    vars(differentiated)["linear_operator"] = lambda *args, **kwargs: forward_operator(g, argnums, args, kwargs, holomorphic, nan_safe)
    return differentiated


@overload
def value_and_jacobian(
    f: None = None, argnums: Argnums = 0, chunk: Chunk = None, *, cache: bool = False, **options: Unpack[ForwardOptions]
) -> Decorator: ...
@overload
def value_and_jacobian(
    f: Fn[X, Rest, Result],
    argnums: Literal[0] = 0,
    chunk: Chunk = None,
    *,
    cache: Literal[False] = False,
    sparsity: None = None,
    has_aux: Literal[False] = False,
    **flags: Unpack[ForwardFlags],
) -> ValueAndJacobian[X, Rest, Result]: ...
@overload
def value_and_jacobian(
    f: Fn[NDArray[Any], Rest, tuple[NDArray[Element], Aux]],
    argnums: Literal[0] = 0,
    chunk: Chunk = None,
    *,
    cache: Literal[False] = False,
    sparsity: None = None,
    has_aux: Literal[True],
    **flags: Unpack[ForwardFlags],
) -> Fn[NDArray[Any], Rest, tuple[NDArray[Element], NDArray[Element], Aux]]: ...
@overload
def value_and_jacobian(
    f: Callable[Rest, Result],
    argnums: Argnums = 0,
    chunk: Chunk = None,
    *,
    cache: Literal[True],
    sparsity: Any = None,
    has_aux: Literal[False] = False,
    **flags: Unpack[ForwardFlags],
) -> Cached[Rest, Result]: ...
@overload
def value_and_jacobian(
    f: Fn[X, Rest, Result], argnums: Argnums = 0, chunk: Chunk = None, *, cache: bool = False, **options: Unpack[ForwardOptions]
) -> Any: ...
@curried
def value_and_jacobian(
    f: Callable[..., Any],
    argnums: Argnums = 0,
    chunk: Chunk = None,
    *,
    cache: bool = False,
    executor: Executor | None = None,
    sparsity: Any = None,
    verify: bool = False,
    holomorphic: bool = False,
    nan_safe: bool = False,
    has_aux: bool = False,
) -> Callable[..., Any]:
    """Return a function that computes ``(f(x), jacobian)`` in forward mode.

    Parameters
    ----------
    f, argnums, chunk, executor, sparsity, verify, holomorphic, nan_safe : see `jacobian`.
    cache : for solvers that call f and its Jacobian one after the other: the result has the functions `value` and
        `jacobian`, which share one evaluation for each point, whichever is called first. A new point replaces
        the last one of its thread. For solvers that need the Jacobian at most points; where they seldom do (`solve_ivp`,
        ``root(method="hybr")``), f and ``jacobian(f)`` are cheaper. f must depend on nothing but its arguments; a call with others than
        numbers, arrays, texts and pytrees of them is evaluated each time.
    has_aux : `f` returns ``(result, aux)``; the function returns ``(result, jacobian, aux)``.

    Returns
    -------
    function with f's arguments, which returns what f does and the Jacobian: see `jacobian`.

    Raises
    ------
    TypeError, ValueError
        Where an argument is not numeric, or `argnums` or `chunk` is wrong.

    Examples
    --------
    >>> import numpy as np
    >>> from dualad import value_and_jacobian
    >>> value_and_jacobian(lambda x: x**2)(np.array([1.0, 3.0]))
    (array([1., 9.]), array([[2., 0.],
           [0., 6.]]))

    One evaluation a point, with SciPy:

    >>> from scipy.optimize import least_squares
    >>> both = value_and_jacobian(lambda x: np.stack([10.0 * (x[1] - x[0] ** 2), 1.0 - x[0]]), cache=True)
    >>> least_squares(both.value, np.array([-1.2, 1.0]), jac=both.jacobian).x.round(6)
    array([1., 1.])
    """
    if sparsity is None:
        pair = with_jacobian(f, argnums, chunk, holomorphic, nan_safe, has_aux, "value_and_jacobian", executor)
    else:
        compressed = compressed_of(f, argnums, chunk, sparsity, holomorphic, nan_safe, has_aux, "value_and_jacobian", executor)
        pair = sparse_function(f, compressed, verify, without_aux(f, has_aux, "value_and_jacobian"))
    refuse_verify(sparsity, verify, "value_and_jacobian")

    return Cached(f, pair) if cache else trimmed(wraps(f)(pair))


# --- parts ------------------------------------------------------------------------------------------------------------------


def jacobian_for(f, argnums, chunk, nan_safe, where, holomorphic=False, has_aux=False, executor=None):
    """Return the function that computes the dense Jacobian, and aux where there is one; errors name the verb `where`."""
    return without_value(f, with_jacobian(f, argnums, chunk, holomorphic, nan_safe, has_aux, where, executor), has_aux)


def without_value(f, pair, has_aux):
    """Return the function of the derivative alone, and aux where there is one, of one that computes a pair or a triple for `f`."""

    @trimmed
    @wraps(f)
    def differentiated(*args, **kwargs):
        _, *rest = pair(*args, **kwargs)
        return tuple(rest) if has_aux else rest[0]

    return differentiated


def with_jacobian(f, argnums, chunk, holomorphic, nan_safe, has_aux, where, executor=None):
    """Return the function that computes value and Jacobian, and aux where there is one; errors name the verb `where`."""
    check_chunk(chunk, where)
    check_executor(executor, where)

    def computed(*args, **kwargs):
        if chunk is None and executor is None:
            made = from_structure(f, args, kwargs, argnums, where, holomorphic=holomorphic, nan_safe=nan_safe, has_aux=has_aux)
            if made is not None:
                return made
        positions, single = chosen_positions(args, argnums, where)
        seeds = Seeds(tuple(args[i] for i in positions), where, chunk)
        check_holomorphic(seeds.leaves, holomorphic, where)
        blocks: Any = []  # of each result its columns, along the first axis: chunks are written contiguously
        parts: Any = []
        for start, stop, values, tangents, out_structure, aux in push_chunks(  # noqa: B007
            f, args, kwargs, positions, seeds, nan_safe, has_aux, where, executor
        ):
            if not parts and len(tangents) == 1 and type(t := tangents[0]) is np.ndarray and len(t) == seeds.size and t.base is None:
                blocks, parts = tangents, [()]  # all at once, and nobody else's
                continue
            if not parts:
                blocks, parts = [np.empty((seeds.size, *shape_of(v)), inexact(v, seeds)) for v in values], [[] for _ in values]
            for block, known, tangent in zip(blocks, parts, tangents, strict=True):
                if tangent is None or type(tangent) is np.ndarray:
                    block[start:stop] = 0.0 if tangent is None else tangent
                    tangent = block[start:stop]
                known.append(tangent)
        results = []
        for value, block, known in zip(values, blocks, parts, strict=True):
            columns = np.moveaxis(block if ARRAYS.issuperset(map(type, known)) else np.concatenate(known), 0, -1)
            leaves = [np.reshape(columns[..., a:b], (*shape_of(value), *shape)) for a, b, shape in seeds.slots]
            tree = unflatten_arguments(seeds.structure, [leaf[()] if np.ndim(leaf) == 0 else leaf for leaf in leaves])
            results.append(tree[0] if single else tuple(tree))
        value = optree.tree_unflatten(out_structure, [plain(v, seeds.python_scalars) for v in values])
        jac = optree.tree_unflatten(out_structure, results)
        return (value, jac, aux) if has_aux else (value, jac)

    return computed


ARRAYS = {np.ndarray}
FORWARD = ("forward", "symmetric"), "dualad.jacobian is forward mode. Use checkpoint.jacobian, or dualad.coloring(pattern)"


def compressed_of(f, argnums, chunk, sparsity, holomorphic, nan_safe, has_aux, where, executor=None, valued=True):
    """Return the function that computes sparse Jacobians."""
    check_chunk(chunk, where)
    check_executor(executor, where)
    colored = Colored(without_aux(f, has_aux, where), argnums, sparsity, "forward", FORWARD, where)
    return Compressed(
        f, argnums, colored, chunk, where, holomorphic=holomorphic, nan_safe=nan_safe, has_aux=has_aux, valued=valued, executor=executor
    )


def refuse_verify(sparsity, verify, where):
    """Raise where there is nothing to verify."""
    if verify and sparsity is None:
        raise ValueError(f"{where}: verify=True compares a sparse Jacobian with f: it requires sparsity=")
