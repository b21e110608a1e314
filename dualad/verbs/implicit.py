"""implicit: derivatives of the solution of an equation, by the implicit function theorem."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
import optree

from ..core.dispatch import looked_at, primal
from ..core.traced import Traced
from ..forward.seeding import check_function
from ..rules.cotangents import is_symbolic
from ..support.hints import Rest, Result
from .derivative import jvp
from .jacobian import jacobian

__all__ = ["implicit", "plain_value", "with_derivatives"]
# --- public -----------------------------------------------------------------------------------------------------------------


def implicit(residual: Callable[..., Any], solve: Callable[Rest, Result], *, sparsity: Any = None) -> Callable[Rest, Result]:
    """Return `solve` as a differentiable function: the derivatives of its solution come from ``residual(x, *params) = 0``.

    The solver sees plain values only, so it may be anything (SciPy's ``root``, a Newton loop, a table). Works in forward and
    reverse mode, in chains, and to every order.

    Parameters
    ----------
    residual : function ``residual(x, *params)``, zero at the solution, of x's shape; in functions that have rules.
    solve : function ``solve(*params) -> x``, a number or array.
    sparsity : the Jacobian of the residual by x, where x has one axis, is sparse: its pattern or colouring, as in `jacobian`. Then its
        sparse factors solve.

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
    the level below: differentiating the step gives the theorem, and nesting it gives all orders. Without `sparsity` the Jacobian is
    dense, n forward directions and one ``solve`` of n equations.

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
        if not any(isinstance(leaf, Traced) for leaf in optree.tree_leaves(params)):
            return solve(*params)  # type: ignore[call-arg]
        plain: Any = optree.tree_map(lambda leaf: plain_value(leaf, WAY_OUT), params)
        x = solve(*plain)  # type: ignore[call-arg]
        return with_derivatives(x, lambda y: residual(y, *params), lambda y: residual(y, *plain), "implicit", sparsity=sparsity)

    return solved  # type: ignore[return-value]


# --- parts ------------------------------------------------------------------------------------------------------------------

WAY_OUT = (
    "the solver of dualad.implicit is given plain values, which are known only when the program runs: compile the residual, "
    "or what the solver calls, and leave out jit around it"
)


def plain_value(x, way_out):
    """Return what a solver is given of a value; a symbol, which has none, raises and says the way out."""
    if isinstance(x, Traced) and is_symbolic(x) and x.level.id:
        while not x.level.abstract:
            x = x.primal
        raise x.level.refuse(way_out)
    return looked_at(x)


def with_derivatives(x, residual, plain, name, *, elementwise=False, free=None, sparsity=None):
    """Return a plain solution of ``residual(x) = 0`` with its derivatives: each Newton step adds an order to those that are right.

    All steps have the same plain Jacobian, that of `plain`. The residual's own value is taken away, so that no step moves the solution.
    `free` tells, of the Jacobian and the residual's value, which elements are free to move.
    """
    error = residual(x)
    for step in range(max(1, depth(error))):
        if step:
            error = residual(x)
        elif elementwise:
            solve = by_slopes(x, plain, name)
        else:
            if np.size(error) != np.size(x):
                raise ValueError(f"{name}: the residual has shape {np.shape(error)}, the solution {np.shape(x)}: they must be of one size")
            solve = by_matrix(x, plain, primal(error), name, free) if sparsity is None else by_factors(x, plain, name, sparsity)
        x = x - solve(error - primal(error))
    return x


def depth(x):
    """Return how many levels of derivatives a traced value stands on."""
    count = 0
    while isinstance(x, Traced) and not x.level.abstract:
        x, count = x._peek(), count + 1
    return count


def by_slopes(x, plain, name):
    """Return what solves equations of one unknown each."""
    slope = primal(jvp(plain, (x,), (np.ones_like(x)[()],))[1])
    if not isinstance(slope, Traced) and not np.all(slope):
        raise singular(name)
    return lambda error: error / slope


def by_matrix(x, plain, value, name, free):
    """Return what solves the linear system of the Jacobian by `x`, in which only some elements move."""
    shape, size = np.shape(x), np.size(x)
    slope = np.reshape(primal(jacobian(plain)(x)), (size, size))
    moving = None if free is None else free(slope, np.reshape(value, (size,)))
    if moving is not None:
        slope = np.where(moving[:, None] & moving, slope, np.eye(size, dtype=slope.dtype))

    def solve(error):
        error = np.reshape(error, (size,))
        try:
            return np.reshape(np.linalg.solve(slope, error if moving is None else np.where(moving, error, 0.0)), shape)
        except np.linalg.LinAlgError:
            raise singular(name) from None

    return solve


def by_factors(x, plain, name, sparsity):
    """Return what solves the linear system of the sparse Jacobian by `x`."""
    from ..rules.scipy.sparse_linalg import splu

    try:
        return splu(jacobian(plain, sparsity=sparsity)(x).tocsc()).solve
    except RuntimeError as error:  # SuperLU's word for it
        if "singular" not in str(error):
            raise
        raise singular(name) from None


def singular(name):
    return np.linalg.LinAlgError(f"{name}: the Jacobian of the residual by x is singular at the solution, which has no derivative there")
