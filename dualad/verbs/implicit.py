"""implicit: derivatives of the solution of an equation, by the implicit function theorem."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
import optree

from ..core.dispatch import highest, primal
from ..core.traced import Traced
from ..forward.seeding import check_function
from ..support.hints import Rest, Result
from .jacobian import jacobian

__all__ = ["implicit"]


# --- public -----------------------------------------------------------------------------------------------------------------


def implicit(residual: Callable[..., Any], solve: Callable[Rest, Result]) -> Callable[Rest, Result]:
    """Return `solve` as a differentiable function: the derivatives of its solution come from ``residual(x, *params) = 0``.

    The solver sees plain values only, so it may be anything (SciPy's ``root``, a Newton loop, a table). Works in forward and
    reverse mode, in chains, and to every order.

    Parameters
    ----------
    residual : function ``residual(x, *params)``, zero at the solution, of x's shape; in functions that have rules.
    solve : function ``solve(*params) -> x``, a number or array.

    Returns
    -------
    function ``(*params) -> x``.

    Raises
    ------
    ValueError
        Where the residual has another size than x.
    numpy.linalg.LinAlgError
        Where the Jacobian of the residual by x is singular: the solution has no derivative there.

    Notes
    -----
    dx/dp = -(dr/dx)^-1 dr/dp (Griewank & Walther 2008, section 15.2), as one Newton step from the solution whose Jacobian is of
    the level below: differentiating the step gives the theorem, and nesting it gives all orders. The Jacobian is dense, n forward
    directions and one ``solve`` of n equations.

    Examples
    --------
    >>> from dualad import derivative, implicit
    >>> def newton(a):                                   # plain numbers only
    ...     x = a
    ...     for _ in range(60):
    ...         x = 0.5 * (x + a / x)
    ...     return x
    >>> root = implicit(lambda x, a: x * x - a, newton)
    >>> derivative(root)(4.0), derivative(root, order=2)(4.0)
    (0.25, -0.03125)
    """
    check_function(residual, "implicit: residual")
    check_function(solve, "implicit: solve")

    @wraps(solve)
    def solved(*given):
        params: Any = given
        top = highest([leaf for leaf in optree.tree_leaves(params) if isinstance(leaf, Traced)])
        if top is None:
            return solve(*params)  # type: ignore[call-arg]
        if top.level.abstract and top.level.id:
            raise top.level.refuse(
                "the solver of dualad.implicit is given plain values, which are known only when the program runs: compile the residual, "
                "or what the solver calls, and leave out jit around it"
            )
        below = optree.tree_map(lambda leaf: leaf._peek() if isinstance(leaf, Traced) and leaf.level is top.level else leaf, params)
        x = solved(*below)
        error = residual(x, *params)
        if np.size(error) != np.size(x):
            raise ValueError(f"implicit: the residual has shape {np.shape(error)}, the solution {np.shape(x)}: they must be of one size")
        shape, size = np.shape(x), int(np.size(primal(x)))
        slope = np.reshape(jacobian(lambda y: residual(y, *below))(x), (size, size))
        try:
            newton = np.linalg.solve(slope, np.reshape(error - strip(error, top), (size,)))
        except np.linalg.LinAlgError:
            raise np.linalg.LinAlgError(
                "implicit: the Jacobian of the residual by x is singular at the solution, which has no derivative there"
            ) from None
        return x - np.reshape(newton, shape)

    return solved  # type: ignore[return-value]


# --- parts ------------------------------------------------------------------------------------------------------------------


def strip(error, top):
    """Return the residual's value one level down, so that the Newton step is zero but its derivative is not."""
    return error._peek() if isinstance(error, Traced) and error.level is top.level else error
