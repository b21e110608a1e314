"""hessian: forward mode over reverse mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, Literal, Unpack, overload

from numpy.typing import NDArray

from dualad.forward.seeding import check_chunk, curried
from dualad.support.hints import Argnums, Aux, Chunk, Decorator, Element, HessianFlags, HessianOptions, Rest
from dualad.verbs.hessian import sparse_hessian
from dualad.verbs.jacobian import jacobian_for, refuse_verify

from .recording import gradient_function

__all__ = ["hessian"]


@overload
def hessian(f: None = None, argnums: Argnums = 0, chunk: Chunk = None, **options: Unpack[HessianOptions]) -> Decorator: ...
@overload
def hessian(
    f: Callable[Concatenate[NDArray[Element], Rest], Any],
    argnums: Literal[0] = 0,
    chunk: Chunk = None,
    *,
    sparsity: None = None,
    has_aux: Literal[False] = False,
    **flags: Unpack[HessianFlags],
) -> Callable[Concatenate[NDArray[Element], Rest], NDArray[Element]]: ...
@overload
def hessian(
    f: Callable[Concatenate[NDArray[Element], Rest], tuple[Any, Aux]],
    argnums: Literal[0] = 0,
    chunk: Chunk = None,
    *,
    sparsity: None = None,
    has_aux: Literal[True],
    **flags: Unpack[HessianFlags],
) -> Callable[Concatenate[NDArray[Element], Rest], tuple[NDArray[Element], Aux]]: ...
@overload
def hessian(f: Callable[..., Any], argnums: Argnums = 0, chunk: Chunk = None, **options: Unpack[HessianOptions]) -> Any: ...
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
