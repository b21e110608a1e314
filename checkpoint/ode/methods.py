"""One step of each method as a function of the state, and its interpolant: SciPy's tableaus, on values that may be traced.

The explicit methods are those of Bogacki & Shampine (``RK23``: 1989), Dormand & Prince (``RK45``: 1980) and Hairer, Norsett & Wanner
(``DOP853``: 1993, section II.5), the implicit one is Radau IIA of order 5 (``Radau``: Hairer & Wanner 1996, section IV.8).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from dualad.core.dispatch import array
from dualad.core.traced import Traced
from dualad.rules.kinds import ONE, elementwise, primitive
from dualad.sparse.coloring import coloring
from dualad.verbs.implicit import implicit
from dualad.verbs.jacobian import jacobian

from ..reverse.tape import Var

NEWTON_STEPS = 50  # of an implicit step, which takes 3 to 6
ROUNDINGS = 64.0  # of the state: a smaller correction ends them


class Method:
    """One step from `y`, and what interpolates in it; `fun` is called as ``fun(t, y, *args)``."""

    C: Any  # the times of the stages, as fractions of a step
    #: ``(fun, t, h, y, args, f=None)``: returns the state at t + h, and the stages before it; `f` is the derivative at t, where it is known
    step: Callable[..., tuple[Any, list]]
    #: ``(fun, t, h, y, args, new, stages, slope=None)``: returns the interpolant of the step that gave `new` by `stages`, a row for each
    #: component; `slope` is the derivative at its end, where it is known
    coefficients: Callable[..., Any]

    def interpolated(self, y: Any, coefficients: Any, x: Any) -> Any:
        """Return the states at the fractions `x` of a step, along a trailing axis where `x` has one: a polynomial without constant."""
        powers = np.stack([x ** (k + 1) for k in range(np.shape(coefficients)[-1])])
        return (y if np.ndim(x) == 0 else y[:, None]) + np.dot(coefficients, powers)


def weighted_sum(weights: np.ndarray, stages: Sequence) -> Any:
    """Return the weighted sum of stages, as SciPy adds them."""
    return np.dot(weights, array(stages))


def by_term(weights: np.ndarray, stages: Sequence) -> Any:
    """Return the weighted sum of stages made term by term: in all programs that have it, it has the same bits."""
    return sum(weight * stage for weight, stage in zip(weights.tolist(), stages, strict=True) if weight)


def combination(weights: np.ndarray, add: Callable) -> Callable:
    """Return the function of y, a step h and stages that adds their weighted sum times h to y; on a tape it is one operation."""

    def moved(y: Any, h: Any, *stages: Any) -> Any:
        return y + add(weights, stages) * h

    def by_stage(weight: float) -> Callable:
        return lambda ans, y, h, *stages: weight * h

    operation = primitive(moved)
    elementwise(operation, ONE, None, *map(by_stage, weights.tolist()), batch=False, inlined=True, trusted=True)

    def combined(y: Any, h: Any, stages: list) -> Any:
        whole = type(y) is Var and type(y.primal) is np.ndarray and not isinstance(h, Traced)
        return (operation if whole else moved)(y, h, *stages)

    return combined


class RungeKutta(Method):
    """An explicit Runge-Kutta method with the tableau of one of SciPy's solvers."""

    def __init__(self, solver: Any, add: Callable):
        self.solver, self.add = solver, add
        count = solver.n_stages
        self.C, self.P, self.E = solver.C[:count], solver.P, solver.E
        self.error_exponent = -1.0 / (solver.error_estimator_order + 1)
        self.rows = [*(combination(solver.A[i, :i], add) for i in range(1, count)), combination(solver.B, add)]

    def step(self, fun: Callable, t: Any, h: Any, y: Any, args: tuple, f: Any = None) -> tuple[Any, list]:
        stages = [fun(t, y, *args) if f is None else f]
        for moved, c in zip(self.rows[:-1], self.C[1:], strict=True):
            stages.append(fun(t + c * h, moved(y, h, stages), *args))
        return self.rows[-1](y, h, stages), stages

    def error_norm(self, stages: list, slope: Any, h: Any, scale: Any) -> Any:
        """Return the estimated error of a step as a multiple of what is tolerated: at 1 a step is just rejected."""
        return np.linalg.norm(self.add(self.E, [*stages, slope]) * h / scale) / np.size(slope) ** 0.5

    def coefficients(self, fun: Callable, t: Any, h: Any, y: Any, args: tuple, new: Any, stages: list, slope: Any = None) -> Any:
        slope = fun(t + h, new, *args) if slope is None else slope
        return h * np.dot(np.stack([*stages, slope]).T, self.P)


class Dop853(RungeKutta):
    """The method of order 8, which interpolates with three more stages."""

    def __init__(self, solver: Any, add: Callable):
        super().__init__(solver, add)
        self.E = np.stack([solver.E5, solver.E3])
        self.C_EXTRA, self.D = solver.C_EXTRA, solver.D
        self.extra = [combination(a[: solver.n_stages + 1 + i], add) for i, a in enumerate(solver.A_EXTRA)]

    def error_norm(self, stages: list, slope: Any, h: Any, scale: Any) -> Any:
        fifth, third = (np.sum(np.abs(self.add(weights, [*stages, slope]) / scale) ** 2) for weights in self.E)
        both = fifth + 0.01 * third
        return np.where(both == 0.0, 0.0, np.abs(h) * fifth / np.sqrt(both * np.size(slope)))

    def coefficients(self, fun: Callable, t: Any, h: Any, y: Any, args: tuple, new: Any, stages: list, slope: Any = None) -> Any:
        slope = fun(t + h, new, *args) if slope is None else slope
        stages = [*stages, slope]
        for moved, c in zip(self.extra, self.C_EXTRA, strict=True):
            stages.append(fun(t + c * h, moved(y, h, stages), *args))
        change, f = new - y, stages[0]
        first = np.stack([change, h * f - change, 2.0 * change - h * (slope + f)])
        return np.concatenate([first, h * np.dot(self.D, np.stack(stages))]).T

    def interpolated(self, y: Any, coefficients: Any, x: Any) -> Any:
        total: Any = 0.0
        for place, column in enumerate(coefficients.T[::-1]):
            total = (total + (column if np.ndim(x) == 0 else column[:, None])) * (x if place % 2 == 0 else 1.0 - x)
        return (y if np.ndim(x) == 0 else y[:, None]) + total


class Radau(Method):
    """Radau IIA of three stages: their increments Z solve Z = h A f(t + c h, y + Z), by Newton's method on plain numbers.
    They are differentiated by the implicit function theorem (see `dualad.implicit`)."""

    def __init__(self, solver: Any, sparsity: Any = None):
        self.coloring = None if sparsity is None else of_stages(sparsity)
        root = 6.0**0.5
        self.C = np.array([(4.0 - root) / 10.0, (4.0 + root) / 10.0, 1.0])
        powers = np.vander(self.C, increasing=True)
        self.A = (self.C[:, None] * powers / np.arange(1.0, 4.0)) @ np.linalg.inv(powers)  # collocation: integrals of polynomials
        self.P = np.linalg.inv(self.C[:, None] * powers).T

    def step(self, fun: Callable, t: Any, h: Any, y: Any, args: tuple, f: Any = None) -> tuple[Any, list]:
        size = np.shape(y)[0]

        def residual(z: Any, t: Any, h: Any, y: Any, *args: Any) -> Any:
            z = np.reshape(z, (3, size))
            slopes = np.stack([fun(t + c * h, y + z[i], *args) for i, c in enumerate(self.C)])
            return np.reshape(z - h * np.dot(self.A, slopes), (3 * size,))

        solve = lambda *params: newton(residual, params, 3 * size, self.coloring)
        z = np.reshape(implicit(residual, solve, sparsity=self.coloring)(t, h, y, *args), (3, size))
        return y + z[2], [z[0], z[1], z[2]]

    def coefficients(self, fun: Callable, t: Any, h: Any, y: Any, args: tuple, new: Any, stages: list, slope: Any = None) -> Any:
        return np.dot(np.stack(stages).T, self.P)


def of_stages(sparsity: Any) -> Any:
    """Return the colouring of the Jacobian of a step's equations, of the pattern of that of the right-hand side."""
    from scipy import sparse

    pattern = sparse.csr_array(sparsity) != 0
    return coloring(sparse.kron(np.ones((3, 3)), pattern) + sparse.eye_array(3 * pattern.shape[0]))


def newton(residual: Callable, params: tuple, size: int, colors: Any) -> np.ndarray:
    """Return where a residual is zero, from 0; the Jacobian stays until a correction is not half as large as the one before."""
    y = params[2]
    z, jacobian_at = np.zeros(size, y.dtype), jacobian(residual, sparsity=colors)
    corrected: Any = None
    scale, last = np.max(np.abs(y), initial=np.finfo(float).tiny), np.inf
    for _ in range(NEWTON_STEPS):
        if corrected is None:
            corrected = solver(jacobian_at(z, *params), size)
        change = corrected(residual(z, *params))
        z, size_of_change = z - change, np.max(np.abs(change), initial=0.0)
        if size_of_change <= ROUNDINGS * np.finfo(float).eps * max(scale, np.max(np.abs(z), initial=0.0)):
            return z
        corrected, last = corrected if size_of_change < 0.5 * last else None, size_of_change
    raise RuntimeError(
        f"solve_ivp: Newton's method did not solve the equations of a Radau step in {NEWTON_STEPS} iterations: "
        "give smaller rtol and atol, or max_step="
    )


def solver(matrix: Any, size: int) -> Callable:
    """Return the function that solves a linear system, dense or sparse."""
    if issubclass(type(matrix), np.ndarray):
        return np.linalg.inv(np.reshape(matrix, (size, size))).__matmul__
    from scipy.sparse.linalg import splu

    return splu(matrix.tocsc()).solve


METHODS = ("RK23", "RK45", "DOP853", "Radau")


def method_of(name: str, sparsity: Any = None) -> tuple[Any, Method]:
    """Return SciPy's solver of a name, and the method that makes its steps; `sparsity` is the Jacobian's pattern, for an implicit one."""
    from scipy import integrate

    solver = getattr(integrate, name)
    return solver, Radau(solver, sparsity) if name == "Radau" else explicit_method(solver)


@cache
def explicit_method(solver: Any, add: Callable = weighted_sum) -> RungeKutta:
    """Return an explicit method, the same one again: the rows of its combinations are entered once."""
    return Dop853(solver, add) if hasattr(solver, "A_EXTRA") else RungeKutta(solver, add)
