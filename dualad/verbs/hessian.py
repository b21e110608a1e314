"""hessian: forward mode over forward mode; a sparse one by forward mode over the transposed program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Unpack, overload

from numpy.typing import NDArray

from ..forward.seeding import check_chunk, curried, without_aux
from ..sparse.compressed import Colored, Compressed
from ..sparse.transposed import Transposed
from ..sparse.verbs import sparse_function
from ..support.hints import Argnums, Aux, Chunk, Decorator, Element, Fn, HessianFlags, HessianOptions, Rest
from .gradient import gradient_for
from .jacobian import jacobian_for, refuse_verify

# --- public -----------------------------------------------------------------------------------------------------------------


@overload
def hessian(f: None = None, argnums: Argnums = 0, chunk: Chunk = None, **options: Unpack[HessianOptions]) -> Decorator: ...
@overload
def hessian(
    f: Fn[NDArray[Element], Rest, Any],
    argnums: Literal[0] = 0,
    chunk: Chunk = None,
    *,
    sparsity: None = None,
    has_aux: Literal[False] = False,
    **flags: Unpack[HessianFlags],
) -> Fn[NDArray[Element], Rest, NDArray[Element]]: ...
@overload
def hessian(
    f: Fn[NDArray[Element], Rest, tuple[Any, Aux]],
    argnums: Literal[0] = 0,
    chunk: Chunk = None,
    *,
    sparsity: None = None,
    has_aux: Literal[True],
    **flags: Unpack[HessianFlags],
) -> Fn[NDArray[Element], Rest, tuple[NDArray[Element], Aux]]: ...
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
    """Return a function that computes the Hessian of `f`, a function that returns one number, forward over forward.

    For one product with a vector, `checkpoint.hvp` is far cheaper.

    Parameters
    ----------
    f : function that returns one number (shape ()).
        Without it `hessian` returns a decorator: ``@hessian(argnums=1)``.
    argnums : position of the argument to differentiate twice, or a tuple of positions (all blocks are returned).
    chunk, nan_safe : see `jacobian`.
    sparsity : the Hessian is sparse: "auto", a pattern or a colouring, as for `jacobian`; colourings are symmetric ones
        (``coloring(pattern, "symmetric")``). The gradient is then the transposed program of `f`, as `jit` traces it; for a function
        that cannot be traced use `checkpoint.hessian`.
    verify : see `jacobian`.
    has_aux : `f` returns ``(result, aux)``; the function returns ``(hessian, aux)``.

    Returns
    -------
    function with f's arguments; for an array argument its result has shape ``x.shape + x.shape``; for pytrees, the tree
    of trees. With `sparsity` it is one ``scipy.sparse.csr_array``, as for `jacobian`.

    Raises
    ------
    TypeError
        Where f does not return one number.

    Examples
    --------
    >>> import numpy as np
    >>> from dualad import hessian
    >>> hessian(lambda x: x[0] ** 2 * x[1])(np.array([3.0, 5.0]))
    array([[10.,  6.],
           [ 6.,  0.]])
    """
    refuse_verify(sparsity, verify, "hessian")
    if sparsity is None:
        slope = gradient_for(f, argnums, chunk, nan_safe, has_aux, "hessian")
        return jacobian_for(slope, argnums, chunk, nan_safe, "hessian", has_aux=has_aux)
    check_chunk(chunk, "hessian")
    slope = Transposed(f, argnums, "hessian", INSTEAD, has_aux).gradient
    return sparse_hessian(f, slope, argnums, chunk, sparsity, verify, nan_safe, has_aux)


# --- parts ------------------------------------------------------------------------------------------------------------------


def sparse_hessian(f, slope, argnums, chunk, sparsity, verify, nan_safe, has_aux):
    """Return the function that computes the sparse Hessian of f, whose gradient is `slope`, and aux where there is one."""
    colored = Colored(without_aux(f, has_aux, "hessian"), argnums, sparsity, "symmetric", SYMMETRIC, "hessian", order=2)
    compressed = Compressed(slope, argnums, colored, chunk, "hessian", nan_safe=nan_safe, has_aux=has_aux, valued=False)
    return sparse_function(f, compressed, verify, without_aux(slope, has_aux, "hessian"))


SYMMETRIC = ("symmetric", "forward"), 'give one of a symmetric pattern: dualad.coloring(pattern, "symmetric")'
INSTEAD = "Use checkpoint.hessian, which records f as it runs, with sparsity=dualad.sparsity(f, x, order=2, local=True)"
