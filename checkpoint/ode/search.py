"""The steps that SciPy's solver would accept of a compiled right-hand side, found in compiled code: each trial is a step of a chain.

The error control is that of Hairer, Norsett & Wanner (1993, section II.4) with the constants of SciPy's explicit solvers, so that steps are
SciPy's to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from dualad.jit.jit import jit

from ..loops.chain import run_compiled_spec
from ..loops.other_leaves import NotCompiled
from ..loops.spec import Loop, StepSpec
from .methods import Method, RungeKutta
from .steps import Accepted, compiled

__all__ = ["all_at_once"]

SAFETY, MIN_FACTOR, MAX_FACTOR = 0.9, 0.2, 10.0
RUNNING, FINISHED, FAILED = 0, 1, -1


def all_at_once(
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
    """Return what SciPy's `solve_ivp` finds by a solver that makes all steps as one; None where they have no compiled loops.
    ``between(times, asked)`` gives the states at some times, of steps between `times`; `whole`: those after all steps are wanted."""
    from scipy import integrate

    wanted = frozenset({"end"} if whole else ())
    search = Search(lambda shape: compiled(source, method, shape, options["vectorized"], as_trial, wanted), options["args"] or (), between)
    try:
        result = integrate.solve_ivp(fun, span, y0, method=at_once(solver), search=search, **options)
    except NotCompiled:
        return None
    finally:
        search.end()
    if search.trials is None:  # there is nothing to integrate
        return Accepted(result, np.array(span, float), [])
    times, states = search.trials.times, search.trials.states
    if options["t_eval"] is None:
        result.t = times
    if states is not None:
        result.y = np.concatenate([result.y[:, 0][None], states]).T
    return Accepted(result, times, [])


class Search:
    """One search for steps: its solver, and what it has found."""

    solver: Any = None
    trials: Trials | None = None

    def __init__(self, trial: Callable[[tuple], Callable], args: tuple, between: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> None:
        self.trial, self.args, self.between = trial, args, between

    def run(self) -> Trials:
        self.trials = tried(self.trial(self.solver.y.shape), self.solver, self.args)
        return self.trials

    def asked(self, times: np.ndarray) -> np.ndarray:
        """Return the plain states at some times, none of them after the last step."""
        assert self.trials is not None
        solver, found = self.solver, self.trials.times
        steps = np.unique(Accepted(None, found, []).step_of(times))
        solver.nfev += len(steps) * len(getattr(solver, "C_EXTRA", ()))
        return solver.y[:, None] if times[0] == solver.t else self.between(found, times)

    def end(self) -> None:
        """Forget the solver, which refers to itself and to arrays."""
        if self.solver is not None:
            vars(self.solver).clear()


@cache
def at_once(solver: Any) -> Any:
    """Return a class of SciPy's whose first step is all steps of a search."""

    class AtOnce(solver):
        y: Any

        def __init__(self, *given: Any, search: Search, **kwargs: Any) -> None:
            super().__init__(*given, **kwargs)
            self.K = self.K_extended = None  # its places for stages
            self.search, search.solver = search, self

        def _step_impl(self) -> tuple[bool, str | None]:
            if self.search.trials is not None:  # the last of them did not reach the end
                return False, self.TOO_SMALL_STEP
            trials = self.search.run()
            self.nfev += trials.number * self.n_stages
            self.t, self.y = trials.times[-1], trials.last
            return len(trials.times) > 1, self.TOO_SMALL_STEP

        def _dense_output_impl(self) -> Callable[[np.ndarray], np.ndarray]:
            return self.search.asked

    return AtOnce


class Trials(NamedTuple):
    """What the trials of steps came to."""

    times: np.ndarray  # between the accepted ones
    states: np.ndarray | None  # after them, where they are wanted
    last: np.ndarray
    number: int  # of the steps that were tried


def tried(trial: Callable, solver: Any, args: tuple) -> Trials:
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
