"""The steps that SciPy's solver accepts, on plain numbers, and which of them contain requested times; steps as functions.

Of a compiled right-hand side they are found in compiled code: each trial is a step of a chain, whose error control is that of Hairer,
Norsett & Wanner (1993, section II.4) with the constants of SciPy's explicit solvers, so that steps are SciPy's to rounding.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Sequence, Set
from dataclasses import dataclass
from functools import cache
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from dualad.core.dispatch import array
from dualad.jit.jit import Jit, jit

from ..loops.chain import run_compiled_spec
from ..loops.other_leaves import NotCompiled
from ..loops.spec import Loop, StepSpec, kept
from ..support.costs import LEAST_ROWS, ROWS_PER_TIME, SOLUTION_BYTES
from .methods import Method, RungeKutta, by_term, explicit_method


@dataclass(frozen=True)
class Accepted:
    """The steps that SciPy accepted, and its result."""

    result: Any
    times: np.ndarray  # between its steps, t_0 < ... < t_N or falling
    states: list[tuple[np.ndarray, np.ndarray]]  # after each step, with the derivative there, where they are kept

    def step_of(self, times: np.ndarray) -> np.ndarray:
        """Return the step that each time is in; one between two steps is in the first."""
        sign = 1.0 if self.times[-1] >= self.times[0] else -1.0
        found = np.searchsorted(sign * self.times[1:], sign * times, side="left")
        return np.minimum(found, max(len(self.times) - 2, 0))


def accepted_steps(
    solver: Any, method: Method, source: Callable, fun: Any, span: tuple, y0: np.ndarray, options: dict[str, Any], keep: bool
) -> Accepted:
    """Return the result of SciPy's `solve_ivp` with a solver, and its steps; with a compiled `source` the stages of a step are one call.
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
                self.stages = compile_for(source, method, self.y.shape, self.vectorized, as_stages)
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


def compile_for(source: Jit, method: Any, shape: tuple, vectorized: bool, make: Callable, *options: Hashable) -> Callable:
    """Return ``make(fun, method, *options)`` of a compiled right-hand side, compiled; the same object for the same arguments."""
    method = explicit_method(method.solver, by_term)
    made = lambda: jit(make(vector_valued(weakref.proxy(source), shape, vectorized), method, *options))
    return kept(source, (make, method, shape, vectorized, options), made)


def ranges_of_steps(counts: list[int], alone: set[int], spare: int = LEAST_ROWS) -> list[tuple[int, int]]:
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


# --- found in compiled code --------------------------------------------------------------------------------------------------------


SAFETY, MIN_FACTOR, MAX_FACTOR = 0.9, 0.2, 10.0
RUNNING, FINISHED, FAILED = 0, 1, -1


def accepted_in_compiled_code(
    solver: Any,
    method: Method,
    source: Any,
    fun: Any,
    span: tuple,
    y0: np.ndarray,
    options: dict[str, Any],
    between: Callable[[np.ndarray, np.ndarray], np.ndarray],
    whole: bool,
) -> Accepted | None:
    """Return the result of SciPy's `solve_ivp` with a solver that makes all steps as one; None where they have no compiled loops.
    ``between(times, asked)`` gives the states at some times, of steps between `times`; `whole`: those after all steps are wanted."""
    from scipy import integrate

    wanted = frozenset({"end"} if whole else ())
    search = Search(
        lambda shape: compile_for(source, method, shape, options["vectorized"], as_trial, wanted), options["args"] or (), between
    )
    try:
        result = integrate.solve_ivp(fun, span, y0, method=solver_of_all_steps(solver), search=search, **options)
    except NotCompiled:
        return None
    finally:
        if search.solver is not None:  # which refers to itself and to arrays
            vars(search.solver).clear()
    if search.trials is None:  # there is nothing to integrate
        return Accepted(result, np.array(span, float), [])
    times, states = search.trials.times, search.trials.states
    if options["t_eval"] is None:
        result.t = times
    if states is not None:
        result.y = np.concatenate([result.y[:, 0][None], states]).T
    return Accepted(result, times, [])


@dataclass(eq=False)
class Search:
    """One search for steps: its solver, and what it has found."""

    trial: Callable[[tuple], Callable]
    args: tuple
    between: Callable[[np.ndarray, np.ndarray], np.ndarray]
    solver: Any = None
    trials: Trials | None = None

    def asked(self, times: np.ndarray) -> np.ndarray:
        """Return the plain states at some times, none of them after the last step."""
        assert self.trials is not None
        solver, found = self.solver, self.trials.times
        steps = np.unique(Accepted(None, found, []).step_of(times))
        solver.nfev += len(steps) * len(getattr(solver, "C_EXTRA", ()))
        return solver.y[:, None] if times[0] == solver.t else self.between(found, times)


@cache
def solver_of_all_steps(solver: Any) -> Any:
    """Return a class of SciPy's whose first step is all steps of a search."""

    class AtOnce(solver):
        y: Any

        def __init__(self, *given: Any, search: Search, **kwargs: Any) -> None:
            super().__init__(*given, **kwargs)
            self.K = self.K_extended = None  # its places for stages
            self.search, search.solver = search, self

        def _step_impl(self) -> tuple[bool, str | None]:
            search = self.search
            if search.trials is not None:  # the last of them did not reach the end
                return False, self.TOO_SMALL_STEP
            search.trials = trials = try_steps(search.trial(self.y.shape), self, search.args)
            self.nfev += trials.number * self.n_stages
            self.t, self.y = trials.times[-1], trials.last
            return len(trials.times) > 1, self.TOO_SMALL_STEP

        def _dense_output_impl(self) -> Callable[[np.ndarray], np.ndarray]:
            return self.search.asked

    return AtOnce


class Trials(NamedTuple):
    """The results of trial steps."""

    times: np.ndarray  # between the accepted ones
    states: np.ndarray | None  # after them, where they are wanted
    last: np.ndarray
    number: int  # of the steps that were tried


def try_steps(trial: Callable, solver: Any, args: tuple) -> Trials:
    """Try steps from where SciPy's solver is to the end, or to a step that is too small."""
    slope = np.array(np.broadcast_to(solver.f, solver.y.shape), solver.y.dtype)  # of one equation a number may be given
    state = np.array(solver.t, float), solver.y, slope, np.array(solver.h_abs, float), np.array(False), np.array(RUNNING)
    tolerances = np.asarray(solver.rtol, float), np.asarray(solver.atol, float)
    settings = float(solver.t_bound), float(solver.direction), float(solver.max_step), *tolerances
    spec = StepSpec(trial, trial, state, (*settings, *args), None, True)  # flat, which is looked up faster
    made, reason = run_compiled_spec(spec, None, Loop(None, until=ended))
    if reason is not None:
        raise NotCompiled(reason)
    (_, last, *_, status), outs = made
    accepted = outs["accepted"]
    times = np.concatenate([state[0][None], outs["t"][accepted]])
    return Trials(times, outs["end"][accepted] if "end" in outs else None, last, len(accepted) - (status == FAILED))


@jit
def ended(k: Any, state: tuple) -> Any:
    return state[-1] != RUNNING


def as_trial(fun: Callable, method: RungeKutta, wanted: Set[str]) -> Callable:
    """Return the trial of a step: where its error is too large, the state stays and the next step is shorter."""

    def trial(k: int, state: tuple, end: Any, direction: Any, max_size: Any, rtol: Any, atol: Any, *args: Any) -> tuple:
        t, y, f, size, again, _ = state  # `again`: the trial before was rejected
        min_size = 10.0 * np.abs(np.nextafter(t, direction * np.inf) - t)
        size = np.where(again, size, np.where(size > max_size, max_size, np.maximum(size, min_size)))
        too_small = size < min_size
        target = t + size * direction
        target = np.where(direction * (target - end) > 0.0, end, target)
        h = target - t
        new, stages = method.step(fun, t, h, y, args, f)
        slope = fun(t + h, new, *args)
        scale = atol + np.maximum(np.abs(y), np.abs(new)) * rtol
        error = method.error_norm(stages, slope, h, scale)
        accepted = np.logical_and(error < 1.0, np.logical_not(too_small))
        factor = SAFETY * error**method.error_exponent
        grown = np.minimum(np.where(again, 1.0, MAX_FACTOR), factor)
        shrunk = np.where(factor > MIN_FACTOR, factor, MIN_FACTOR)  # also where it is NaN
        at_end = np.logical_and(accepted, target == end)
        status = np.where(too_small, FAILED, np.where(at_end, FINISHED, RUNNING))
        t, y, f = np.where(accepted, target, t), np.where(accepted, new, y), np.where(accepted, slope, f)
        size = np.where(accepted, np.abs(h) * grown, np.abs(h) * shrunk)
        outs = {"t": t, "accepted": accepted, **({"end": y} if "end" in wanted else {})}
        return (t, y, f, size, np.where(accepted, False, True), status), outs

    return trial
