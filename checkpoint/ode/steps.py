"""The steps that SciPy's solver accepts, on plain numbers, and which of them hold the times that are asked for; steps as functions."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Sequence, Set
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np

from dualad.core.dispatch import array
from dualad.jit.jit import Jit, jit

from ..support.costs import LEAST_ROWS, ROWS_PER_TIME, SOLUTION_BYTES
from .methods import Method, RungeKutta, by_term, explicit

__all__ = ["Accepted", "accepted", "as_step", "compiled", "runs", "vector_valued"]

#: the compiled steps of compiled right-hand sides
known_steps: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


@dataclass(frozen=True)
class Accepted:
    """What SciPy found."""

    result: Any
    times: np.ndarray  # between its steps, t_0 < ... < t_N or falling
    states: list[tuple[np.ndarray, np.ndarray]]  # after each step, with the derivative there, where they are kept

    def step_of(self, times: np.ndarray) -> np.ndarray:
        """Return the step that each time is in; one between two steps is in the first."""
        sign = 1.0 if self.times[-1] >= self.times[0] else -1.0
        found = np.searchsorted(sign * self.times[1:], sign * times, side="left")
        return np.minimum(found, max(len(self.times) - 2, 0))


def accepted(
    solver: Any, method: Method, source: Callable, fun: Any, span: tuple, y0: np.ndarray, options: dict[str, Any], keep: bool
) -> Accepted:
    """Return what SciPy's `solve_ivp` finds by a solver, and the steps that this took; of a compiled `source` its stages are one call.
    `keep` asks for the states after its steps: where they are not small, or the steps made again are others, none are there."""
    from scipy import integrate

    times: list[float] = []
    states: list[tuple[np.ndarray, np.ndarray]] = []
    args = options["args"] or ()
    staged = isinstance(method, RungeKutta)
    keep = keep and staged and not isinstance(source, Jit)

    class Noted(solver):  # type: ignore[misc]
        f: Any

        def __init__(self, *given: Any, **kwargs: Any) -> None:
            super().__init__(*given, **kwargs)
            times.append(self.t)
            own = solver._step_impl
            if isinstance(source, Jit) and staged and "rk_step" in own.__code__.co_names:
                self.f = np.array(np.broadcast_to(self.f, self.y.shape))  # of one equation a number may be given
                self.stages = compiled(source, method, self.y.shape, self.vectorized, as_stages)
                self._step_impl = FunctionType(own.__code__, {**own.__globals__, "rk_step": self.rk_step}).__get__(self)

        def rk_step(self, fun: Any, t: Any, y: Any, f: Any, h: Any, A: Any, B: Any, C: Any, K: Any) -> tuple:
            new, K[:] = self.stages(np.float64(t), np.float64(h), y, f, *args)
            self.nfev += len(C)
            return new, K[-1].copy()

        def step(self) -> Any:
            message = super().step()
            if self.status != "failed":
                times.append(self.t)
                if keep and 2 * len(times) * self.y.nbytes <= SOLUTION_BYTES:
                    states.append((self.y, np.array(np.broadcast_to(self.f, self.y.shape))))
            return message

    result = integrate.solve_ivp(fun, span, y0, method=Noted, **options)
    return Accepted(result, np.array(times, float), states if len(states) == len(times) - 1 else [])


def vector_valued(fun: Callable, shape: tuple, vectorized: bool = False) -> Callable:
    """Return a right-hand side that returns arrays, of one that may return lists; a vectorized one is given a column."""

    def slope(t: Any, y: Any, *args: Any) -> Any:
        found = array(fun(t, y[:, None] if vectorized else y, *args))
        if found.dtype != y.dtype:  # SciPy's are of one dtype, too
            found = found.astype(y.dtype)
        if found.shape == shape:
            return found
        if np.size(found) != shape[0]:
            raise ValueError(f"solve_ivp: the function returned an array of shape {np.shape(found)}, the state has the shape {shape}")
        return np.reshape(found, shape)

    return slope


def as_step(fun: Callable, method: Method, wanted: Set[str], known: Sequence[tuple] = ()) -> Callable:
    """Return the step of a chain of states, which puts out what is wanted; of plain ones the results may be `known`.
    Where a state has the derivative, too, it is handed on; else the first stage is made again, which takes as long and less memory."""

    def step(k: int, state: tuple, row: tuple, *args: Any) -> Any:
        if known and type(state[0]) is np.ndarray:
            return (known[k], {"end": known[k][0]}) if wanted else known[k]
        (t, h, *x), (y, *f) = row, state
        new, stages = method.step(fun, t, h, y, args, *f)
        after = (new, fun(t + h, new, *args)) if f else (new,)
        outs = {"end": new} if "end" in wanted else {}
        if x or "coefficients" in wanted:
            coefficients = method.coefficients(fun, t, h, y, args, new, stages, *after[1:])
        if x:
            outs["points"] = method.interpolated(y, coefficients, x[0])
        if "coefficients" in wanted:
            outs |= {"start": y, "coefficients": coefficients}
        return (after, outs) if wanted else after

    return step


def as_stages(fun: Callable, method: Method) -> Callable:
    """Return the function of a step that gives what SciPy's solvers keep of it: the state behind it, and all stages."""

    def stages(t: Any, h: Any, y: Any, f: Any, *args: Any) -> tuple:
        new, made = method.step(fun, t, h, y, args, f)
        return new, np.stack([*made, fun(t + h, new, *args)])

    return stages


def compiled(source: Jit, method: Any, shape: tuple, vectorized: bool, make: Callable, *options: Hashable) -> Callable:
    """Return what ``make(fun, method, *options)`` makes of a compiled right-hand side, compiled, the same one for the same arguments."""
    known, method = known_steps.setdefault(source, {}), explicit(method.solver, by_term)
    key = make, method, shape, vectorized, options
    if key not in known:
        known[key] = jit(make(vector_valued(weakref.proxy(source), shape, vectorized), method, *options))
    return known[key]


def runs(counts: list[int], alone: set[int], spare: int = LEAST_ROWS) -> list[tuple[int, int]]:
    """Return ranges of steps, of which each is one chain: rows for the times in a step are alike in all steps of one.
    `counts` says how many times there are in each step; the steps in `alone` are a range each, and `spare` rows cost less than a range."""
    found: list[tuple[int, int]] = []
    start = 0
    while start < len(counts):
        stop, total, most = start, 0, 0
        while stop < len(counts) and not (stop in alone and stop > start):
            total, most = total + counts[stop], max(most, counts[stop])
            if stop > start and (stop + 1 - start) * most > ROWS_PER_TIME * total + spare:
                break
            stop += 1
            if stop - 1 in alone:
                break
        found.append((start, stop))
        start = stop
    return found
