"""``scipy.optimize`` with derivatives: of what a search found, by the equation that it solves.

SciPy searches on plain values: what a function of the user returns is made plain on its way to SciPy, also where it has traced values in
its closure. At the solution the equation is evaluated once more, with derivatives: of a root the function itself, of a minimum its
gradient, of a fit the gradient of its cost. Where the search starts does not matter to the solution, so the start has no derivative.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any

import numpy as np
import optree
from scipy import optimize as so

from ..core.dispatch import array, holds_traced, primal
from ..core.traced import Traced
from ..rules.constants import evaluate
from ..rules.scipy.entering import by_body
from ..support.callers import trimmed
from ..verbs.called import interned, traced_arguments
from ..verbs.gradient import gradient
from ..verbs.implicit import plain_value, with_derivatives
from ..verbs.jacobian import jacobian
from ..verbs.solutions import Equation, solution

#: arguments that a solution depends on, besides functions and what they have in their closures
DATA = {"args", "kwargs", "xdata", "ydata", "sigma"}
BOUNDS = {"bounds", "x1", "x2"}
#: arguments that are SciPy's own affair
OWN = {"method", "workers"}
SIMPLE = {float, int, bool, str, np.float64, type(None)}
#: functions of least_squares of the squares z of the residuals
LOSSES: dict[str, Callable] = {
    "linear": lambda z: z,
    "soft_l1": lambda z: 2.0 * (np.sqrt(1.0 + z) - 1.0),
    "huber": lambda z: np.where(z <= 1.0, z, 2.0 * np.sqrt(np.where(z <= 1.0, 1.0, z)) - 1.0),
    "cauchy": np.log1p,
    "arctan": np.arctan,
}


# --- what SciPy is given ----------------------------------------------------------------------------------------------------------


class Plain:
    """Makes plain what a search is given, and what functions give it; `traced` tells whether any of that was traced."""

    def __init__(self, name: str) -> None:
        self.name, self.traced = name, False

    def value(self, x: Any) -> Any:
        if isinstance(x, Traced) or holds_traced(x):
            self.traced = True
            if type(x) in (list, tuple):
                return type(x)(map(self.value, x))
            way_out = (
                f"{self.name} searches on plain values, which are known only when the program runs: pass what its function depends on as "
                f"args=, or call it outside of jit"
            )
            return plain_value(array(x), way_out)
        return x

    def function(self, f: Callable) -> Callable:
        @wraps(f)
        def plain(*args: Any, **kwargs: Any) -> Any:
            return self.value(f(*args, **kwargs))

        return plain

    def argument(self, x: Any, key: str) -> Any:
        """Return an argument of a search; those besides functions and their data have no derivative."""
        if type(x) in SIMPLE:
            return x
        before = self.traced
        if key in DATA:
            return optree.tree_map(self.value, x)
        if key not in OWN:
            x = optree.tree_map(lambda leaf: self.function(leaf) if callable(leaf) else self.value(leaf), x)
            self.traced = before
        return x


# --- equations --------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Problem:
    """The equation of a solution; of a minimum its cost, and of a fit the residuals and the covariance of what is fitted."""

    equation: Callable
    cost: Callable | None = None
    residuals: Callable | None = None
    covariance: Callable | None = None


def root(f: Callable, given: dict) -> Problem:
    return Problem(lambda x: array(f(x)))


def fixed_point(f: Callable, given: dict) -> Problem:
    return Problem(lambda x: x - array(f(x)))


def minimum(f: Callable, given: dict) -> Problem:
    def cost(x: Any) -> Any:
        return np.reshape(array(f(x)), ())[()]

    return Problem(gradient(cost), cost)


def least_squares(f: Callable, given: dict) -> Problem:
    loss, scale = given.get("loss", "linear"), given.get("f_scale", 1.0)
    if loss not in LOSSES:
        raise TypeError(f"scipy.optimize.least_squares has no derivative with loss={loss!r}: give one of {', '.join(LOSSES)}")

    def residuals(x: Any) -> Any:
        return np.reshape(array(f(x)), (-1,))

    def cost(x: Any) -> Any:
        if loss == "linear":
            return 0.5 * np.dot(r := residuals(x), r)
        return 0.5 * scale**2 * np.sum(LOSSES[loss]((residuals(x) / scale) ** 2))

    return Problem(gradient(cost), cost, residuals)


def fitted(residuals: Callable, scaled: Any) -> Problem:
    """Return the problem of a fit that tells its covariance, which may be scaled by what is left."""

    def covariance(p: Any) -> Any:
        slope, error = jacobian(residuals)(p), residuals(p)
        scale = np.dot(error, error) / (np.size(error) - np.size(p)) if scaled else 1.0
        return np.linalg.inv(slope.T @ slope) * scale

    return Problem(least_squares(residuals, {}).equation, None, residuals, covariance)


def leastsq(f: Callable, given: dict) -> Problem:
    fit = fitted(lambda x: np.reshape(array(f(x)), (-1,)), False)
    return fit if given.get("full_output") else replace(fit, covariance=None)


def curve_fit(f: Callable, given: dict) -> Problem:
    options = given.get("kwargs", {})
    for name, plain in {"loss": options.get("loss", "linear") == "linear", "nan_policy": given.get("nan_policy") is None}.items():
        if not plain:
            raise TypeError(f"scipy.optimize.curve_fit has no derivative with {name}=: leave it out")
    x, y = (array(data, float) if issubclass(type(data), list | tuple | np.ndarray) else data for data in (given["xdata"], given["ydata"]))
    sigma = None if given.get("sigma") is None else array(given["sigma"])

    def residuals(p: Any) -> Any:
        error = array(given["f"](x, *p)) - y
        if sigma is None:
            return error
        return error / sigma if np.ndim(sigma) < 2 or np.size(sigma) == 1 else np.linalg.solve(np.linalg.cholesky(sigma), error)

    return fitted(residuals, not given.get("absolute_sigma"))


def free_of(low: Any, high: Any, x: Any) -> Callable:
    """Return the predicate of free elements: those that a Newton step would not carry over a bound."""
    low, high, x = np.asarray(low, float), np.asarray(high, float), np.ravel(x)

    def free(slope: Any, value: Any) -> Any:
        bend = np.diagonal(slope)
        with np.errstate(invalid="ignore"):
            held = np.isfinite(low) & (value > 0) & (value >= bend * (x - low))
            return ~(held | (np.isfinite(high) & (value < 0) & (value <= bend * (x - high))))

    return free


def bounded(given: dict, kind: Callable, x: Any) -> Callable | None:
    """Return the predicate of free elements, None where there are no bounds."""
    bounds = (given["x1"], given["x2"]) if "x1" in given and "x2" in given else given.get("bounds")
    if bounds is None:
        return None
    if isinstance(bounds, so.Bounds):
        return free_of(bounds.lb, bounds.ub, x)
    if kind is minimum and np.ndim(x):
        lows, highs = zip(*bounds, strict=True)
        bounds = [-np.inf if low is None else low for low in lows], [np.inf if high is None else high for high in highs]
    low, high = bounds
    return free_of(low, high, x)


# --- searches ---------------------------------------------------------------------------------------------------------------------


def entered(name: str, kind: Callable, *, pair: str | None = None, elementwise: bool = False) -> Callable:
    """Return a search of SciPy that gives solutions with derivatives, of the equation of a kind of problem.

    With True for the argument `pair` the function returns two things, of which the first counts.
    """
    scipys, title = getattr(so, name), f"scipy.optimize.{name}"
    signature = inspect.signature(scipys)
    first = next(iter(signature.parameters))

    def problem(given: dict) -> Problem:
        args, words = given.get("args", ()), {} if kind is curve_fit else given.get("kwargs") or {}
        args = args if isinstance(args, tuple) else (args,)
        pick = (lambda out: out[0]) if given.get(pair) is True else lambda out: out
        return kind(lambda x: pick(given[first](x, *args, **words)), given)

    @trimmed
    @wraps(scipys)
    def search(*args: Any, **kwargs: Any) -> Any:
        try:
            call = signature.bind(*args, **kwargs)
        except TypeError:
            return scipys(*args, **kwargs)  # which says what is wrong
        plain, given = Plain(title), dict(call.arguments)
        for key in BOUNDS & given.keys():
            if any(isinstance(leaf, Traced) for leaf in optree.tree_leaves(given[key])):
                raise TypeError(f"{title} has no derivative with respect to its argument {key!r}: pass plain bounds (dualad.primal)")
        compiled = traced_arguments(given)
        if compiled:
            values, rebuild, key = compiled
            result = compiled_search(interned(Run(scipys, signature, rebuild, title), title, key), values)
        else:
            call.arguments.update({key: plain.argument(x, key) for key, x in given.items()})
            result = scipys(*call.args, **call.kwargs)
            if not plain.traced:
                return result
            told(result, title)
        if given.get("constraints"):
            raise TypeError(f"{title} has no derivative with constraints=: differentiate the conditions of the minimum (dualad.implicit)")
        exact = problem(given)

        def free(x: Any) -> Any:
            return bounded(given, kind, x)

        def residual(x: Any, *leaves: Any) -> Any:
            return problem(rebuild(leaves)).equation(x)

        def solved(x: Any) -> Any:
            if compiled:
                return solution(interned(Equation(title, residual, elementwise, free), title, key), x, *values)
            plainly = problem({**call.arguments, first: given[first]})
            return with_derivatives(x, exact.equation, plainly.equation, title, elementwise=elementwise, free=free(x))

        return with_solution(result, solved, exact)

    return search


class Run:
    """A search that a compiled program calls, with the numbers that its arguments are made of; `result` is the last one."""

    def __init__(self, scipys: Callable, signature: inspect.Signature, rebuild: Callable, title: str) -> None:
        self.scipys, self.signature, self.rebuild, self.title = scipys, signature, rebuild, title
        self.result: Any = None

    def __call__(self, *numbers: Any) -> Any:
        call = inspect.BoundArguments(self.signature, self.rebuild(numbers))
        self.result = result = self.scipys(*call.args, **call.kwargs)
        told(result, self.title)
        if isinstance(result, so.RootResults):
            return result.root
        if isinstance(result, tuple) and (len(result) > 2 or self.title.rpartition(".")[2] not in ("curve_fit", "leastsq")):
            raise TypeError(f"{self.title}: with full_output= it cannot be compiled: leave it out")
        return result.x if isinstance(result, so.OptimizeResult) else result


def compiled_search(run: Run, leaves: tuple) -> Any:
    """Return the result of a search that a compiled program calls: what has derivatives of it, and nothing else, is known by its values."""
    found = evaluate(run, *leaves)
    if isinstance(run.result, so.RootResults):
        return so.OptimizeResult(root=found)
    return so.OptimizeResult(x=found) if isinstance(run.result, so.OptimizeResult) else found


def told(result: Any, title: str) -> None:
    """Warn where a search did not converge."""
    if isinstance(result, so.RootResults):
        success, why = result.converged, result.flag
    else:
        success, why = (result.get("success", True), result.get("message")) if isinstance(result, so.OptimizeResult) else (True, "")
    if not success:
        warnings.warn(f"{title} did not converge ({why}): its result has no meaningful derivatives", RuntimeWarning, stacklevel=4)


def with_solution(result: Any, solved: Callable, problem: Problem) -> Any:
    """Return the result of a search with derivatives where it holds the solution, and its cost."""
    if isinstance(result, tuple):
        x = solved(result[0])
        if hasattr(result, "_replace"):
            return type(result)(x, *result[1:])
        second, *others = result[1:]
        if isinstance(second, so.RootResults):
            second.root = x
        if problem.cost is not None:
            second = shifted(problem.cost(x), second)
        if problem.covariance is not None and np.all(np.isfinite(primal(second))):
            second = shifted(problem.covariance(x), second)
        return (x, second, *others)
    if not isinstance(result, so.OptimizeResult | so.RootResults):
        return solved(result)
    if "root" in result:
        result.root = solved(result.root)
        return result
    result.x = solved(result.x)
    recomputed = {} if problem.cost is None else {"fun": problem.cost(result.x)}
    if problem.residuals is not None:
        recomputed = {"fun": problem.residuals(result.x), "cost": recomputed["fun"]}
    for name, value in recomputed.items():
        result[name] = shifted(value, result[name]) if name in result else value
    return result


def shifted(recomputed: Any, value: Any) -> Any:
    """Return a value with the derivatives of what equals it but for rounding."""
    return np.reshape(recomputed - primal(recomputed), np.shape(value)) + value


def rosen(x: Any) -> Any:
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2, axis=0)


# fmt: off
FUNCTIONS: dict[str, Callable] = {
    **{name: entered(name, root, elementwise=True) for name in ("brentq", "brenth", "ridder", "bisect", "toms748", "newton")},
    "root_scalar":   entered("root_scalar", root, pair="fprime", elementwise=True),
    "root":          entered("root", root, pair="jac"),
    "fsolve":        entered("fsolve", root),
    "fixed_point":   entered("fixed_point", fixed_point),
    "minimize":      entered("minimize", minimum, pair="jac"),
    **{name: entered(name, minimum) for name in (
        "minimize_scalar", "golden", "brent", "fminbound", "fmin", "fmin_bfgs", "fmin_cg", "fmin_ncg", "fmin_powell",
        "differential_evolution", "dual_annealing",
    )},
    "least_squares": entered("least_squares", least_squares),
    "leastsq":       entered("leastsq", leastsq),
    "curve_fit":     entered("curve_fit", curve_fit),
    "rosen":         by_body(so.rosen, rosen, "scipy.optimize.rosen"),
}
# fmt: on
