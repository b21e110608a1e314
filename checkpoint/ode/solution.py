"""The accepted steps repeated on traced values: chains between events, and the requested output of each step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import optree

from dualad.core.dispatch import array, highest, primal
from dualad.core.traced import Traced
from dualad.jit.jit import Jit
from dualad.verbs.implicit import implicit

from ..loops.chain import chain
from ..schedules import StoreAll
from ..support.costs import LEAST_ROWS, SOLUTION_BYTES, SPARE_ROW_BYTES
from .methods import Method, RungeKutta
from .steps import Accepted, as_step, compile_for, ranges_of_steps, vector_valued


class Interpolant:
    """A solution between its steps: ``sol(t)`` of a time, or of an array of m times, shape (n,) or (n, m)."""

    def __init__(self, method: Method, found: Accepted, times: Any, starts: Any, coefficients: Any):
        self.method, self.found, self.times, self.starts, self.coefficients = method, found, times, starts, coefficients
        self.t_min, self.t_max = sorted((times[0], times[-1]), key=primal)

    def __call__(self, t: Any) -> Any:
        if np.ndim(t):
            return np.stack([self(one) for one in t]).T
        k = int(self.found.step_of(np.asarray(primal(t))))
        x = (t - self.times[k]) / (self.times[k + 1] - self.times[k])
        return self.method.interpolated(self.starts[k], self.coefficients[k], x)


class Solution:
    """The result of `solve_ivp` for traced arguments, and the states between steps for plain ones."""

    found: Accepted

    def __init__(
        self, fun: Callable, method: Method, given: tuple, dense: bool, events: list, vectorized: bool, options: dict[str, Any]
    ) -> None:
        self.method, self.dense, self.events, self.vectorized, self.options = method, dense, events, vectorized, options
        self.source = fun if isinstance(fun, Jit) and isinstance(method, RungeKutta) else None  # the search of Radau is plain Python
        self.called = fun
        self.span, self.start, self.t_eval, self.args = given
        self.top = highest(optree.tree_leaves(given))  # type: ignore[arg-type]

    def begin(self) -> None:
        """Begin at the start; a function is called there before SciPy calls it, whose plain values it may keep by time and give again."""
        self.y0 = np.atleast_1d(array(self.start))
        if self.source is None or self.y0.dtype not in (float, complex):
            self.y0 = self.y0 * np.float64(1.0)  # SciPy's are of double precision, too; a function may write into it
        if not isinstance(self.y0, Traced):  # so that functions may write traced values into np.zeros_like(y)
            self.y0 = np.array(self.y0, like=self.top)
        self.fun = vector_valued(self.called, np.shape(self.y0), self.vectorized)
        self.state: tuple = (self.y0,)
        if self.source is None:
            slope = self.fun(self.span[0] * np.float64(1.0), self.y0, *self.args)
            if isinstance(self.method, RungeKutta):
                self.state = self.y0, slope

    def traced_times(self, span: tuple) -> Any:
        """Return the times between steps, of which the first and the last are those of `t_span`."""
        plain = self.found.times
        if len(plain) < 2 or not any(isinstance(end, Traced) for end in span):
            return plain
        last = span[1] if plain[-1] == primal(span[1]) else plain[-1]
        return np.concatenate([np.reshape(span[0], (1,)), plain[1:-1], np.reshape(last, (1,))])

    def take(self, found: Accepted, asked: Any, happened: Sequence = ()) -> None:
        """Take steps for those of the solution; look for those of the times asked for, and of events."""
        self.found = found
        self.places: Any = None if asked is None else found.step_of(np.asarray(asked, float))
        self.hits = [found.step_of(np.asarray(at)) for at in happened]
        self.times = self.traced_times(tuple(self.span))
        self.lengths = np.diff(self.times)
        fixed = self.source is not None and not any(isinstance(at, Traced) for at in (self.times, array(self.t_eval)))
        self.ends = int(fixed and np.size(asked) > 0 and asked is not None and asked[-1] == found.times[-1])  # no interpolant is needed

    def between(self, times: np.ndarray, asked: np.ndarray) -> Any:
        """Return the plain states at the times asked for, of steps between `times`; traced ones are made later."""
        if self.top is not None:
            return np.zeros((np.size(self.start), len(asked)))
        self.begin()
        self.take(Accepted(None, times, []), asked)
        return self.walk()[0]

    def result(self, found: Accepted) -> Any:
        """Return SciPy's result with traced values."""
        plain = found.result
        self.take(found, None if self.t_eval is None else plain.t, plain.t_events or ())
        y, notes = self.walk()
        t, crossings = plain.t, [self.crossings(*one, notes) for one in zip(self.events, plain.t_events or (), self.hits, strict=True)]
        if self.t_eval is not None:
            t = array(self.t_eval)[: len(plain.t)]
        elif isinstance(self.times, Traced):
            t = self.times
        if self.t_eval is None and plain.status == 1:
            t, y = self.ended(t, y, crossings)
        changed = {"t": t, "y": y[:, : len(plain.t)]}
        if self.events:
            changed["t_events"] = [np.stack(times) if times else np.array([]) for times, _ in crossings]
            changed["y_events"] = [np.stack(states) if states else np.array([]) for _, states in crossings]
        if self.dense:
            starts, coefficients = (np.concatenate([note[name] for note in notes.values()]) for name in ("start", "coefficients"))
            changed["sol"] = Interpolant(self.method, found, self.times, starts, coefficients)
        return type(plain)({**plain, **changed})

    # --- steps --------------------------------------------------------------------------------------------------------------

    def walk(self) -> tuple[Any, dict[int, dict]]:
        """Make all steps; return the states asked for, of shape (n, m), and by their first step what the runs put out."""
        count = len(self.found.times) - 1
        asked: Any = () if self.places is None else self.places[: len(self.places) - self.ends]
        alone = {int(k) for steps in self.hits for k in steps}
        counts = np.bincount(asked, minlength=count).tolist()
        spare = LEAST_ROWS if self.source is None else max(LEAST_ROWS, SPARE_ROW_BYTES // max(self.y0.nbytes, 1))
        ranges = ranges_of_steps(counts, alone, spare)
        longest = max(ranges, key=lambda pair: pair[1] - pair[0], default=None)
        state = self.state
        pieces = [self.y0[:, None]] if self.t_eval is None else []
        notes: dict[int, dict] = {}
        for start, stop in ranges:
            wanted = {"end"} if self.t_eval is None else {"points"} if any(counts[start:stop]) else set()
            if self.dense or start in alone:
                wanted |= {"start", "coefficients"}
            x, chosen = self.fractions(asked, start, stop) if "points" in wanted else (None, ())
            options = self.options if (start, stop) == longest else {}
            state, outs = self.steps(start, stop, state, x, wanted, self.scheduled(stop - start, options))
            notes[start] = outs
            if "end" in wanted:
                pieces.append(outs["end"].T)
            elif "points" in wanted:
                pieces.append(np.moveaxis(outs["points"], 1, 0)[:, *chosen])
        if self.ends:
            pieces.append(state[0][:, None])
        return np.concatenate(pieces, axis=1) if pieces else np.zeros((len(self.y0), 0)), notes

    def scheduled(self, count: int, options: dict[str, Any]) -> dict[str, Any]:
        """Return the options of a chain; where the states of all its steps are small, they are kept."""
        small = len(self.state) * count * self.y0.nbytes <= SOLUTION_BYTES
        chosen = any(options.get(name) is not None for name in ("schedule", "storage", "memory"))
        return options if chosen or not small else {**options, "schedule": StoreAll()}

    def fractions(self, asked: np.ndarray, start: int, stop: int) -> tuple[Any, tuple]:
        """Return the times in some steps as fractions of these, in rows of one length, and their places; `asked`: the step of each time."""
        inside = np.flatnonzero((asked >= start) & (asked < stop))
        rows = asked[inside] - start
        columns = np.arange(len(rows)) - np.searchsorted(rows, rows)
        times = array(self.t_eval)[inside]
        x = (times - self.times[start:stop][rows]) / self.lengths[start:stop][rows]
        table = np.zeros((stop - start, int(columns.max()) + 1), int)  # padded with the first
        table[rows, columns] = np.arange(len(rows))
        return x[table], (rows, columns)

    def steps(self, start: int, stop: int, state: tuple, x: Any, wanted: set[str], options: dict[str, Any]) -> tuple:
        """Make steps, as a chain if there are several; return the last state, and what each puts out."""
        rows = (self.times[start:stop], self.lengths[start:stop], *(() if x is None else (x,)))
        if stop - start > 1:
            known = self.found.states[start:stop] if wanted <= {"end"} else []
            made = chain(self.step(frozenset(wanted), known), state, *self.args, inputs=rows, outputs=bool(wanted), **options)
            return made if wanted else (made, {})
        made = as_step(self.fun, self.method, wanted)(0, state, tuple(row[0] for row in rows), *self.args)
        return (made[0], {name: out[None] for name, out in made[1].items()}) if wanted else (made, {})

    def step(self, wanted: frozenset[str], known: list) -> Callable:
        """Return the step of a chain; of a compiled function the same one again, which is compiled once."""
        if self.source is None:
            return as_step(self.fun, self.method, wanted, known)
        return compile_for(self.source, self.method, np.shape(self.y0), self.vectorized, as_step, wanted)

    # --- events -------------------------------------------------------------------------------------------------------------

    def crossings(self, event: Callable, times: Any, places: Any, notes: dict[int, dict]) -> tuple[list, list]:
        """Return the traced times and states at which an event happens."""
        found: tuple[list, list] = ([], [])
        for time, k in zip(times, places, strict=True):
            note = notes[int(k)]
            y, coefficients, begin, length = note["start"][0], note["coefficients"][0], self.times[k], self.lengths[k]

            def zero(t: Any, y: Any, coefficients: Any, begin: Any, length: Any, *args: Any) -> Any:
                return np.reshape(event(t, self.method.interpolated(y, coefficients, (t - begin) / length), *args), ())

            at = implicit(zero, lambda *_, time=time: float(time))(y, coefficients, begin, length, *self.args)
            found[0].append(at)
            found[1].append(self.method.interpolated(y, coefficients, (at - begin) / length))
        return found

    def ended(self, t: Any, y: Any, crossings: list) -> tuple:
        """Return times and states whose last ones are those of the event that ended the integration."""
        end = self.found.result.t[-1]
        at, state = next((at, state) for times, states in crossings for at, state in zip(times, states, strict=True) if primal(at) == end)
        last = len(self.found.result.t) - 1
        return np.concatenate([t[:last], np.reshape(at, (1,))]), np.concatenate([y[:, :last], state[:, None]], axis=1)
