"""hessian: forward mode over forward mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, Literal, overload

from numpy.typing import NDArray

from .gradient import gradient
from .hints import Argnums, Chunk, Element, Rest
from .jacobian import jacobian

__all__ = ["hessian"]


# --- public -----------------------------------------------------------------------------------------------------------------


@overload
def hessian(
    f: Callable[Concatenate[NDArray[Element], Rest], Any], argnums: Literal[0] = 0, chunk: Chunk = None, *, nan_safe: bool = False
) -> Callable[Concatenate[NDArray[Element], Rest], NDArray[Element]]: ...
@overload
def hessian(f: Callable[..., Any], argnums: Argnums = 0, chunk: Chunk = None, *, nan_safe: bool = False) -> Any: ...
def hessian(f: Callable[..., Any], argnums: Argnums = 0, chunk: Chunk = None, *, nan_safe: bool = False) -> Callable[..., Any]:
    """Return a function that computes the Hessian of `f`, a function that returns one number, forward over forward.

    For one product with a vector, `checkpoint.hvp` is far cheaper.

    Parameters
    ----------
    f : function that returns one number (shape ()).
    argnums : position of the argument to differentiate twice, or a tuple of positions (all blocks are returned).
    chunk, nan_safe : see `jacobian`.

    Returns
    -------
    function with f's arguments; for an array argument its result has shape ``x.shape + x.shape``; for pytrees, the tree
    of trees.

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
    return jacobian(gradient(f, argnums, chunk, nan_safe=nan_safe), argnums, chunk, nan_safe=nan_safe)
