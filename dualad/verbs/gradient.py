"""gradient: of a function that returns one number, in forward mode (for few inputs)."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Literal, Unpack, overload

import optree

from ..forward.seeding import check_scalar, chosen_positions, curried, take_aux
from ..rules.cotangents import like_primal
from ..support.callers import trimmed
from ..support.hints import Argnums, Aux, Chunk, Decorator, Fn, GradientOptions, Rest, Result, X
from .jacobian import with_jacobian, without_value

# --- public -----------------------------------------------------------------------------------------------------------------


@overload
def gradient(f: None = None, argnums: Argnums = 0, chunk: Chunk = None, **options: Unpack[GradientOptions]) -> Decorator: ...
@overload
def gradient(
    f: Fn[X, Rest, tuple[Any, Aux]], argnums: Literal[0] = 0, chunk: Chunk = None, *, nan_safe: bool = False, has_aux: Literal[True]
) -> Fn[X, Rest, tuple[X, Aux]]: ...
@overload
def gradient(
    f: Fn[X, Rest, Any], argnums: Literal[0] = 0, chunk: Chunk = None, *, nan_safe: bool = False, has_aux: Literal[False] = False
) -> Fn[X, Rest, X]: ...
@overload
def gradient(
    f: Callable[..., Any], argnums: tuple[int, ...], chunk: Chunk = None, *, nan_safe: bool = False, has_aux: Literal[False] = False
) -> Callable[..., tuple[Any, ...]]: ...
@overload
def gradient(f: Callable[..., Any], argnums: Argnums, chunk: Chunk = None, **options: Unpack[GradientOptions]) -> Callable[..., Any]: ...
@curried
def gradient(
    f: Callable[..., Any], argnums: Argnums = 0, chunk: Chunk = None, *, nan_safe: bool = False, has_aux: bool = False
) -> Callable[..., Any]:
    """Return a function that computes the gradient of `f` in forward mode; for few inputs, or scalar Python code.

    For many inputs reverse mode is cheaper: `checkpoint.grad`.

    Parameters
    ----------
    f : function that returns one number (shape ()); its arguments are numbers, arrays or pytrees of them.
        Without it `gradient` returns a decorator: ``@gradient(argnums=1)``.
    argnums, chunk, nan_safe, has_aux : see `jacobian`.

    Returns
    -------
    function with f's arguments; its result has the structure and shapes of the differentiated argument.

    Raises
    ------
    TypeError
        Where f returns an array or a pytree (use `jacobian`), or a complex number, an integer or a boolean.

    Examples
    --------
    >>> import numpy as np
    >>> from dualad import gradient
    >>> gradient(lambda x: np.sum(x**2))(np.array([1.0, 3.0]))
    array([2., 6.])
    """
    return gradient_for(f, argnums, chunk, nan_safe, has_aux, "gradient")


@overload
def value_and_gradient(f: None = None, argnums: Argnums = 0, chunk: Chunk = None, **options: Unpack[GradientOptions]) -> Decorator: ...
@overload
def value_and_gradient(
    f: Fn[X, Rest, Result], argnums: Literal[0] = 0, chunk: Chunk = None, **options: Unpack[GradientOptions]
) -> Fn[X, Rest, tuple[Result, X]]: ...
@overload
def value_and_gradient(
    f: Callable[..., Result], argnums: tuple[int, ...], chunk: Chunk = None, **options: Unpack[GradientOptions]
) -> Callable[..., tuple[Result, tuple[Any, ...]]]: ...
@overload
def value_and_gradient(
    f: Callable[..., Result], argnums: int, chunk: Chunk = None, **options: Unpack[GradientOptions]
) -> Callable[..., tuple[Result, Any]]: ...
@curried
def value_and_gradient(
    f: Callable[..., Any], argnums: Argnums = 0, chunk: Chunk = None, *, nan_safe: bool = False, has_aux: bool = False
) -> Callable[..., Any]:
    """Return a function that computes ``(f(x), gradient)`` in forward mode.

    Parameters
    ----------
    f : function that returns one number (shape ()); its arguments are numbers, arrays or pytrees of them.
        Without it `value_and_gradient` returns a decorator: ``@value_and_gradient(argnums=1)``.
    argnums, chunk, nan_safe : see `jacobian`.
    has_aux : `f` returns ``(result, aux)``; the function returns ``((result, aux), gradient)``.

    Returns
    -------
    function with f's arguments, which returns what f does and the gradient: see `gradient`.

    Raises
    ------
    TypeError
        Where f returns an array or a pytree (use `value_and_jacobian`), or a complex number, an integer or a boolean.

    Examples
    --------
    >>> import numpy as np
    >>> from dualad import value_and_gradient
    >>> value_and_gradient(lambda x: np.sum(x**2))(np.array([1.0, 3.0]))
    (np.float64(10.0), array([2., 6.]))
    """
    triple = with_value(f, argnums, chunk, nan_safe, has_aux, "value_and_gradient")

    @trimmed
    @wraps(f)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        value, grad, *aux = triple(*args, **kwargs)
        return ((value, *aux), grad) if has_aux else (value, grad)

    return differentiated


# --- parts ------------------------------------------------------------------------------------------------------------------


def gradient_for(f, argnums, chunk, nan_safe, has_aux, where):
    """Return the function of `gradient`; errors name the verb `where`."""
    return without_value(f, with_value(f, argnums, chunk, nan_safe, has_aux, where), has_aux)


def with_value(f, argnums, chunk, nan_safe, has_aux, where):
    """Return the function that computes value and gradient, and aux where there is one; errors name the verb `where`."""

    def scalar(*args, **kwargs):
        out = f(*args, **kwargs)
        check_scalar(take_aux(out, has_aux, where)[0], where)
        return out

    pair = with_jacobian(scalar, argnums, chunk, False, nan_safe, has_aux, where)

    def computed(*args, **kwargs):
        value, grad, *aux = pair(*args, **kwargs)
        if type(value) is not float:  # not of Python numbers alone: as in reverse mode, a gradient has the dtype of its argument
            positions, single = chosen_positions(args, argnums, where)
            primals: Any = args[positions[0]] if single else tuple(args[i] for i in positions)
            grad = optree.tree_map(like_primal, grad, primals)
        return (value, grad, *aux)

    return computed
