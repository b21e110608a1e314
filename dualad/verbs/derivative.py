"""jvp and derivative: one direction at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Literal, overload

import numpy as np

from ..forward.push import push_along
from ..forward.seeding import check_function, chosen_positions, curried, shape_of, with_arguments
from ..support.callers import trim, trimmed
from ..support.checks import flags
from ..support.hints import Aux, Decorator, Fn, Rest, Result

# --- public -----------------------------------------------------------------------------------------------------------------


@overload
def jvp(
    f: Callable[..., Result], primals: Sequence[Any], tangents: Sequence[Any], *, nan_safe: bool = False, has_aux: Literal[False] = False
) -> tuple[Result, Result]: ...
@overload
def jvp(
    f: Callable[..., tuple[Result, Aux]], primals: Sequence[Any], tangents: Sequence[Any], *, nan_safe: bool = False, has_aux: Literal[True]
) -> tuple[Result, Result, Aux]: ...
def jvp(
    f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], *, nan_safe: bool = False, has_aux: bool = False
) -> tuple[Any, ...]:
    """Return the value of `f` and its derivative along one direction (a Jacobian-vector product).

    Parameters
    ----------
    f : function of ``len(primals)`` arguments, each a pytree of numbers and arrays; it returns one too.
    primals : tuple, one entry an argument. Integers are promoted to float64. Of dask arrays the results are dask arrays, too.
    tangents : tuple of the same structure and shapes: the direction.
    nan_safe : a zero tangent times any partial is zero, also where the partial is infinite or NaN.
    has_aux : `f` returns ``(result, aux)``; the aux is passed through as a third result.

    Returns
    -------
    (value, tangent) of the structure and shapes of f's result; ``(value, tangent, aux)`` with `has_aux`.

    Raises
    ------
    TypeError
        Where `primals` and `tangents` are no tuples of one structure, or a leaf is not numeric.
    ValueError
        Where a tangent has another shape than its primal.

    Examples
    --------
    >>> import numpy as np
    >>> from dualad import jvp
    >>> jvp(lambda x, y: x * np.sin(y), (2.0, 0.0), (0.0, 1.0))
    (0.0, 2.0)

    Notes
    -----
    One tangent costs at most about 2.5 evaluations of `f` (Griewank & Walther 2008, section 3.2).
    """
    if not callable(f) or nan_safe or has_aux:
        check_function(f, "jvp")
        flags("jvp", nan_safe=nan_safe, has_aux=has_aux)
    try:
        if not isinstance(primals, tuple | list) or not isinstance(tangents, tuple | list):
            raise TypeError(
                f"jvp: primals is {type(primals).__name__}, tangents is {type(tangents).__name__}: give tuples with one "
                f"entry an argument, such as jvp(f, (x,), (v,))"
            )
        if not isinstance(primals, tuple):
            primals, tangents = tuple(primals), tuple(tangents)
        return push_along(f, primals, tangents, nan_safe, has_aux, "jvp", None)
    except Exception as error:
        trim(error)
        raise


@overload
def derivative(f: None = None, order: int = 1, *, nan_safe: bool = False) -> Decorator: ...
@overload
def derivative(f: Fn[Any, Rest, Result], order: int = 1, *, nan_safe: bool = False) -> Fn[Any, Rest, Result]: ...
@curried
def derivative(f: Fn[Any, Rest, Result], order: int = 1, *, nan_safe: bool = False) -> Fn[Any, Rest, Result]:
    """Return a function that computes the derivative of `f`, a function of one number.

    Parameters
    ----------
    f : function of a number x (and further arguments, which are passed through); returns a pytree of numbers and arrays.
        Without it `derivative` returns a decorator: ``@derivative(nan_safe=True)``.
    order : the order n of the derivative, a non-negative integer; order 0 is f itself.
    nan_safe : see `jvp`.

    Returns
    -------
    function ``df(x, *args, **kwargs)`` with results of the structure and shapes of f's.

    Raises
    ------
    TypeError
        Where x is an array (use `gradient` or `jacobian`).
    ValueError
        Where `order` is no non-negative integer.

    Examples
    --------
    >>> from dualad import derivative
    >>> derivative(lambda x: x**3)(2.0), derivative(lambda x: x**3, order=2)(2.0)
    (12.0, 12.0)
    """
    if not issubclass(type(order), int | np.integer) or type(order) is bool or order < 0:
        raise ValueError(f"derivative: order is {order!r}: give a non-negative integer")

    @wraps(f)
    def differentiated(x, *args, **kwargs):
        try:
            check_number(x, "derivative")
            g = lambda x: f(x, *args, **kwargs)
            for _ in range(order):
                g = tangent_of(g, nan_safe)
            return g(x)
        except Exception as error:
            trim(error)
            raise

    return differentiated


@overload
def value_and_derivative(f: None = None, *, nan_safe: bool = False, has_aux: bool = False) -> Decorator: ...
@overload
def value_and_derivative(
    f: Fn[Any, Rest, Result], *, nan_safe: bool = False, has_aux: Literal[False] = False
) -> Fn[Any, Rest, tuple[Result, Result]]: ...
@overload
def value_and_derivative(
    f: Fn[Any, Rest, tuple[Result, Aux]], *, nan_safe: bool = False, has_aux: Literal[True]
) -> Fn[Any, Rest, tuple[Result, Result, Aux]]: ...
@curried
def value_and_derivative(f: Callable[..., Any], *, nan_safe: bool = False, has_aux: bool = False) -> Callable[..., tuple[Any, ...]]:
    """Return a function that computes ``(f(x), f'(x))`` in one evaluation, for a function of one number.

    Parameters
    ----------
    f : function of a number x (and further arguments, which are passed through); returns a pytree of numbers and arrays.
        Without it `value_and_derivative` returns a decorator: ``@value_and_derivative(nan_safe=True)``.
    nan_safe, has_aux : see `jvp`.

    Returns
    -------
    function ``(x, *args, **kwargs) -> (value, derivative)``, each of the structure and shapes of f's result;
    ``(value, derivative, aux)`` with `has_aux`.

    Raises
    ------
    TypeError
        Where x is an array (use `value_and_gradient` or `value_and_jacobian`).

    Examples
    --------
    >>> from dualad import value_and_derivative
    >>> value_and_derivative(lambda x: x**3)(2.0)
    (8.0, 12.0)
    """

    @trimmed
    @wraps(f)
    def differentiated(x, *args, **kwargs):
        check_number(x, "value_and_derivative")
        return along_ones(lambda x: f(x, *args, **kwargs), x, nan_safe, has_aux, "value_and_derivative")

    return differentiated


def elementwise_grad(f: Callable[..., Any], argnums: int = 0, *, nan_safe: bool = False) -> Callable[..., Any]:
    """Return a function that computes the derivative of each element of `f` by the same element of an argument, in one evaluation.

    Parameters
    ----------
    f : function whose result has the shape of the argument, each element of which depends on the same element of it alone. This
        is not checked; for other functions it gives the sums of the rows of the Jacobian.
    argnums : the position of the argument.
    nan_safe : see `jvp`.

    Returns
    -------
    function with f's arguments; its result has the shape of the argument.

    Raises
    ------
    TypeError
        Where `argnums` is no integer, or the argument is no number or array.
    ValueError
        Where there is no argument at the position, or the result has another shape than it.

    Examples
    --------
    >>> import numpy as np
    >>> from dualad import elementwise_grad
    >>> elementwise_grad(elementwise_grad(np.tanh))(np.zeros(2) + 0.5)
    array([-0.72686198, -0.72686198])
    """
    check_function(f, "elementwise_grad")
    if type(argnums) is not int:
        raise TypeError(f"elementwise_grad: argnums is {argnums!r}: give the position of one argument, an integer")

    @trimmed
    @wraps(f)
    def differentiated(*args, **kwargs):
        positions, _ = chosen_positions(args, argnums, "elementwise_grad")
        x, of_x = args[argnums], with_arguments(f, args, kwargs, positions)
        if isinstance(x, tuple | list | dict):
            raise TypeError(f"elementwise_grad: the argument is a {type(x).__name__}: pass a number or an array (np.array)")
        value, tangent = along_ones(of_x, x, nan_safe, False, "elementwise_grad")
        if shape_of(value) != shape_of(x):
            raise ValueError(
                f"elementwise_grad: f returns shape {shape_of(value)}, its argument has {shape_of(x)}: they must be equal. For other "
                f"functions use gradient or jacobian"
            )
        return tangent

    return differentiated


# --- parts ------------------------------------------------------------------------------------------------------------------


def tangent_of(f, nan_safe):
    return lambda x: push_along(f, (x,), (1.0,), nan_safe, False, "derivative", ("x", "the direction"))[1]


def along_ones(f, x, nan_safe, has_aux, where):
    return push_along(f, (x,), (np.ones_like(x)[()],), nan_safe, has_aux, where, ("x", "the direction"))


def check_number(x, where):
    shape = shape_of(x) if not isinstance(x, tuple | list | dict) else None
    if shape != ():
        verb = "value_and_" * where.startswith("value_and_")
        what = f"has shape {shape}" if shape else f"is a {type(x).__name__}"
        raise TypeError(
            f"{where}: x {what}, and a derivative is with respect to one number: use {verb}gradient (f returns a number), "
            f"{verb}jacobian, or jvp along one direction"
        )
