"""gradient: of a function that returns one number, in forward mode (for few inputs)."""

from __future__ import annotations

from functools import wraps

import optree

from .dispatch import dtype_of
from .jacobian import value_and_jacobian
from .rules.kinds import like_primal
from .seeding import check_function, chosen, shape_of, take_aux
from .traced import Traced

__all__ = ["gradient", "value_and_gradient"]


# --- public -----------------------------------------------------------------------------------------------------------------


def gradient(f, argnums=0, chunk=None, *, nan_safe=False, has_aux=False):
    """Return a function that computes the gradient of `f` in forward mode; for few inputs, or scalar Python code.

    For many inputs reverse mode is cheaper: `checkpoint.grad`.

    Parameters
    ----------
    f : function that returns one number (shape ()); its arguments are numbers, arrays or pytrees of them.
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
    pair = value_and_gradient(f, argnums, chunk, nan_safe=nan_safe, has_aux=has_aux, where="gradient")

    @wraps(f)
    def differentiated(*args, **kwargs):
        value, grad = pair(*args, **kwargs)
        return (grad, value[1]) if has_aux else grad

    return differentiated


def value_and_gradient(f, argnums=0, chunk=None, *, nan_safe=False, has_aux=False, where="value_and_gradient"):
    """Return a function that computes ``(f(x), gradient)``; with `has_aux` ``((f(x), aux), gradient)``. See `gradient`.

    Examples
    --------
    >>> import numpy as np
    >>> from dualad import value_and_gradient
    >>> value_and_gradient(lambda x: np.sum(x**2))(np.array([1.0, 3.0]))
    (np.float64(10.0), array([2., 6.]))
    """
    check_function(f, where)

    def scalar(*args, **kwargs):
        out = f(*args, **kwargs)
        check_scalar(take_aux(out, has_aux, where)[0], where)
        return out

    pair = value_and_jacobian(scalar, argnums, chunk, nan_safe=nan_safe, has_aux=has_aux, where=where)

    @wraps(f)
    def differentiated(*args, **kwargs):
        value, grad, *aux = pair(*args, **kwargs)
        if type(value) is not float:  # not of Python numbers alone: as in reverse mode, a gradient has the dtype of its argument
            positions, single = chosen(args, argnums, where)
            grad = optree.tree_map(like_primal, grad, args[positions[0]] if single else tuple(args[i] for i in positions))
        return ((value, *aux), grad) if has_aux else (value, grad)

    return differentiated


# --- parts ------------------------------------------------------------------------------------------------------------------


def check_scalar(out, where):
    """Raise unless the function returned one number."""
    if isinstance(out, Traced) and type(out.primal) is float:
        return
    if isinstance(out, tuple | list | dict) or out is None:
        raise TypeError(
            f"{where}: the function returned {'a ' + type(out).__name__ if out is not None else None}, not a number: "
            f"use jacobian, which takes pytrees"
        )
    if shape_of(out) != ():
        raise TypeError(f"{where}: f returns shape {shape_of(out)}: use jacobian, or return one number (np.sum, say)")
    if not isinstance(out, Traced) and getattr(out, "dtype", None) is None and not isinstance(out, int | float | complex):
        raise TypeError(f"{where}: the function returned {type(out).__name__} {out!r}, not a number")
    kind = dtype_of(out).kind
    if kind == "c":
        raise TypeError(
            f"{where}: f returns a complex number, which has no gradient: use jacobian (holomorphic=True for a complex argument), or "
            f"return a real number (np.abs, np.real or np.imag of it)"
        )
    if kind in "biu":
        raise TypeError(
            f"{where}: f returns {dtype_of(out)}, whose derivative is zero wherever it has one: return a float. Comparisons, astype(int), "
            f"int() and round() lose the derivative; a constant is 0.0"
        )
