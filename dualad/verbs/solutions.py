"""Solutions of equations in compiled programs, and their derivatives by the implicit function theorem.

dx = -(dr/dx)^-1 (dr/dp) dp (Griewank & Walther 2008, section 15.2) with all of it taken one level below, where the solution is one
again: so a program is right to every order, whoever differentiates it later.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.dispatch import array
from ..core.traced import Traced, example_of
from ..forward.seeding import with_arguments
from ..graph.differentiate import pullback
from ..graph.trace import Trace
from ..rules.kinds import Differentiable, primitive
from ..rules.rows import register
from .derivative import jvp
from .jacobian import jacobian

# --- linear systems ---------------------------------------------------------------------------------------------------------


def slope_of(residual, x, elementwise, sparsity=None):
    """Return the Jacobian of a residual; of equations of one unknown each its diagonal."""
    if elementwise:
        return jvp(residual, (x,), (np.ones_like(x)[()],))[1]
    return jacobian(residual, sparsity=sparsity)(x)


def solver(x, slope, value, name, elementwise=False, free=None, transposed=False):
    """Return the function that solves linear systems with the Jacobian `slope` of a residual of this value; some elements may be fixed."""
    shape, size = np.shape(x), np.size(x)
    if elementwise:
        if not isinstance(slope, Traced) and not np.all(slope):
            raise singular(name)
        return lambda error: error / slope
    if np.size(value) != size:
        raise ValueError(f"{name}: the residual has shape {np.shape(value)}, the solution {shape}: they must have the same size")
    if hasattr(slope, "tocsc"):
        return by_factors(slope, name)
    slope = np.reshape(slope, (size, size))
    moving = None if free is None else free(slope, np.reshape(value, (size,)))
    if moving is not None:
        slope = np.where(moving[:, None] & moving, slope, np.eye(size, dtype=slope.dtype))
    slope = slope.T if transposed else slope

    def solve(error):
        error = np.reshape(error, (size,))
        try:
            return np.reshape(np.linalg.solve(slope, error if moving is None else np.where(moving, error, 0.0)), shape)
        except np.linalg.LinAlgError:
            raise singular(name) from None

    return solve


def by_factors(slope, name):
    """Return the function that solves linear systems with a sparse Jacobian."""
    from ..rules.scipy.sparse_linalg import splu

    try:
        return splu(slope.tocsc()).solve
    except RuntimeError as error:  # SuperLU's word for it
        if "singular" not in str(error):
            raise
        raise singular(name) from None


def singular(name):
    return np.linalg.LinAlgError(f"{name}: the Jacobian of the residual by x is singular at the solution, which has no derivative there")


# --- equations --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Equation:
    """The equation ``residual(x, *leaves) = 0``; the other fields as in `solver`, `free` of x."""

    name: str
    residual: Callable
    elementwise: bool = False
    free: Callable = lambda x: None

    def __repr__(self):
        return f"<the equation of {self.name}>"

    def solver(self, x: Any, leaves: Any, transposed: bool = False) -> Callable:
        residual = lambda y: array(self.residual(y, *leaves))
        slope = slope_of(residual, x, self.elementwise)
        return solver(x, slope, residual(x), self.name, self.elementwise, self.free(x), transposed)


@primitive
def solution(equation: Equation, x: Any, *leaves: Any) -> Any:
    """Return the solution `x` of an equation, which was found by its `leaves`, with its derivatives by them."""
    return x


class Solution(Differentiable):
    """The row of `solution`."""

    def arrays(self, args):
        return range(2, len(args))

    def jvp(self, ans, args, kwargs, tangents):
        equation, _, *leaves = args
        moving = [i for i, t in enumerate(tangents) if t is not None]
        residual = with_arguments(lambda equation, x, *leaves: array(equation.residual(ans, *leaves)), args, {}, moving)
        t = jvp(residual, tuple(args[i] for i in moving), tuple(tangents[i] for i in moving))[1]
        return -equation.solver(ans, leaves)(t)

    def vjp(self, i, g, ans, args, kwargs):
        equation, _, *leaves = args
        given = ans, *leaves
        examples = list(map(example_of, given))
        with Trace() as trace:
            out = array(equation.residual(*map(trace.input, examples)))
            program = trace.finish([out])
        g = np.reshape(equation.solver(ans, leaves, transposed=True)(g), out.shape)
        return -pullback(program, examples, [k == i - 1 for k in range(len(given))], [out.payload]).run(*given, g)[0]


register(Solution(solution, (), (), batch=False, called="it searches"))
