"""implicit: derivatives of the solution of an equation, by the implicit function theorem."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import optree

from ..core.dispatch import plain_of, primal, strengthen_one
from ..core.traced import Traced
from ..forward.seeding import check_function
from ..rules.calling import public_name
from ..rules.constants import evaluate
from ..rules.cotangents import is_symbolic
from ..support.hints import Rest, Result
from .called import identity, interned
from .solutions import Equation, slope_of, solution, solver

# --- public -----------------------------------------------------------------------------------------------------------------


def implicit(residual: Callable[..., Any], solve: Callable[Rest, Result], *, sparsity: Any = None) -> Callable[Rest, Result]:
    """Return `solve` as a differentiable function: the derivatives of its solution come from ``residual(x, *params) = 0``.

    The solver sees plain values only, so it may be anything (SciPy's ``root``, a Newton loop, a table). Works in forward and
    reverse mode, in chains, and to every order. A compiled program (`jit`) calls the solver from Python.

    Parameters
    ----------
    residual : function ``residual(x, *params)``, zero at the solution, of x's shape; in functions that have rules.
    solve : function ``solve(*params) -> x``, a number or array.
    sparsity : the Jacobian of the residual by x, where x has one axis, is sparse: its pattern or colouring, as in `jacobian`. Its
        sparse factorisation then solves the linear systems.

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
    check_function(residual, "implicit", "residual")
    check_function(solve, "implicit", "solve")

    @wraps(solve)
    def solved(*given):
        params: Any = given
        leaves, structure = optree.tree_flatten(params)
        traced = [leaf for leaf in leaves if isinstance(leaf, Traced)]
        if not traced:
            return solve(*params)  # type: ignore[call-arg]
        if sparsity is None and any(is_symbolic(leaf) and leaf.level.id for leaf in traced):
            key = structure, identity(solve), identity(residual)
            x = evaluate(interned(Solver(solve, structure), *key), *leaves)
            equation = Equation("dualad.implicit", lambda x, *leaves: residual(x, *optree.tree_unflatten(structure, leaves)))
            return solution(interned(equation, *key), x, *leaves)
        plain: Any = optree.tree_map(lambda leaf: plain_value(leaf, WAY_OUT), params)
        x = solve(*plain)  # type: ignore[call-arg]
        return with_derivatives(x, lambda y: residual(y, *params), lambda y: residual(y, *plain), "implicit", sparsity=sparsity)

    return solved  # type: ignore[return-value]


# --- parts ------------------------------------------------------------------------------------------------------------------


class Solver:
    """A solver that a compiled program calls, with the leaves of its arguments."""

    def __init__(self, solve, structure):
        self.solve, self.structure = solve, structure

    def __call__(self, *leaves):
        x = self.solve(*optree.tree_unflatten(self.structure, leaves))
        if isinstance(x, Traced):
            raise x.level.refuse("the solver of dualad.implicit has a traced value in its closure: pass it as an argument")
        return x

    def __repr__(self):
        return f"<the solver {public_name(self.solve)}>"


WAY_OUT = (
    "the solver of dualad.implicit with sparsity= is given plain values, which are known only when the program runs: leave out sparsity=, "
    "or jit around it"
)


def plain_value(x, way_out):
    """Return the plain value that a solver receives; a symbol, which has none, raises and says the way out."""
    if isinstance(x, Traced) and is_symbolic(x) and x.level.id:
        while not x.level.abstract:
            x = x.primal
        raise x.level.refuse(way_out)
    return plain_of(x)


def with_derivatives(x, residual, plain, name, *, elementwise=False, free=None, sparsity=None):
    """Return a plain solution of ``residual(x) = 0`` with its derivatives: each Newton step adds an order to those that are right.

    All steps have the same plain Jacobian, that of `plain`. The residual's own value is taken away, so that no step moves the solution.
    `free` tells, of the Jacobian and the residual's value, which elements are free to move.
    """
    error = residual(x)
    for step in range(max(1, depth(error))):
        if step:
            error = residual(x)
        else:
            slope = slope_of(plain, x, elementwise, sparsity)
            solve = solver(x, slope if sparsity is not None else primal(slope), primal(error), name, elementwise, free)
        moved = solve(error - primal(error))
        x = strengthen_one(x, moved) - moved
    return x


def depth(x):
    """Return how many levels of derivatives a traced value stands on."""
    count = 0
    while isinstance(x, Traced) and not x.level.abstract:
        x, count = x._peek(), count + 1
    return count
