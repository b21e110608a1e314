"""A chain without a tape: a loop in Python, on plain values or Duals."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
import optree

from dualad.core.dispatch import highest, primal
from dualad.core.traced import Traced
from dualad.forward.dual import Dual
from dualad.rules.memory import writable
from dualad.support.progress import Bar
from dualad.support.repeated import repeated
from dualad.verbs.explain_nan import warn_not_finite

from ..storage.states import copy_state
from ..support.checks import too_many, truth
from ..sweep.stats import fill
from .results import Snapshot, Stacked
from .spec import Loop, StepSpec, is_floating


def run(spec: StepSpec, top: Any, loop: Loop) -> Any:
    """Run the chain as a loop; arrays of a plain state become traced ones of the level of `top`, because a step may write into them."""
    steps, progress, until = loop.steps, loop.progress, None if loop.until is None else on_primals(loop.until)
    params, outs, k = spec.arguments(spec.params), Stacked(steps), 0
    x = spec.tree(lifted(spec.flatten(copy_state(spec.tree(spec.state))), top))
    call, started, bar = spec.calls(params, spec.inputs), perf_counter(), Bar(progress, "chain")
    call = making_twice(spec, call) if loop.check else call
    call = naming_steps(call, top.level) if top is not None and top.level.watched else call
    bar.start(steps)
    try:
        while k != steps and not (until is not None and until(k, x)):
            if k == loop.max_steps:
                raise too_many(k)
            try:
                x, out = call(k, x)
            except Exception as error:
                spec.explain(k, x, params, spec.inputs, error)
                raise
            if spec.outputs:
                outs.add(k, out)
            if not k:
                spec.check_closure(spec.checked(0, x), spec.levels)
            k += 1
            if progress:
                bar.advance(1)
    finally:
        bar.close()
        if loop.stats is not None:
            fill(loop.stats, steps=k, advances=2 * k if loop.check else k, seconds=perf_counter() - started)
    if k:
        leaves = spec.final_leaves(k, x, params, spec.inputs)
        spec.check_closure(leaves, spec.levels)
        x = spec.tree(leaves)
    return (x, outs.tree(outs.arrays())) if spec.outputs else x


def on_primals(until: Callable[..., Any]) -> Callable[..., Any]:
    """Return the predicate as a function of plain values; where the chain stands in code that jit traces, one that needs them raises."""

    def asked(k: int, state: Any) -> bool:
        state = optree.tree_map(primal, state)
        try:
            return truth(until(k, state), where="chain", k=k)
        except TypeError:
            traced = [leaf.level for leaf in optree.tree_leaves(state) if isinstance(leaf, Traced)]
            if not traced or traced[0].refusal is None:
                raise
            raise traced[0].refuse(
                "chain: until(k, state) asks for values of a state that jit traces, so the number of steps would depend on the data. "
                "Call the chain outside of jit, chain(jit(step), state, until=until), which jit compiles as a loop; or give steps=N, and "
                "freeze the state once it has ended: np.where(ended, state, new)"
            ) from None

    return asked


def lifted(leaves: list[Any], top: Any) -> list[Any]:
    """Return leaves with arrays as Duals of the level of `top`, if that is one: a step may write values of that level into them."""
    if type(top) is not Dual:
        return leaves
    return [writable(leaf, top) if type(leaf) is np.ndarray and is_floating(leaf) else leaf for leaf in leaves]


def naming_steps(once: Callable[..., Any], level: Any) -> Callable[..., Any]:
    """Return the call of a step, of which a level is told that it is under way."""

    def call(k: int, x: Any) -> Any:
        before, level.step = level.step, f"{level.step}step {k} of a chain, "
        try:
            return once(k, x)
        finally:
            level.step = before

    return call


def warn_of_result(spec: StepSpec, result: Any, loop: Loop) -> None:
    """Warn if the result of a chain is not finite: a chain on watched values says which step made it so."""

    def again(*floating: Any) -> None:
        state, params, inputs = ([primal(leaf) for leaf in leaves] for leaves in (spec.state, spec.params, spec.inputs))
        for i, leaf in zip(spec.floating, floating, strict=True):
            state[i] = leaf
        other = spec.with_leaves(state, params, inputs)
        run(other, highest(other.traced), Loop(*loop[:3]))

    warn_not_finite("chain", "result", result, again, *(spec.state[i] for i in spec.floating))


def making_twice(spec: StepSpec, once: Callable[..., Any]) -> Callable[..., Any]:
    """Return the call of a step, made a second time from a copy of its state: another result raises."""

    def call(k: int, x: Any) -> Any:
        given = copy_state(x)
        with repeated:
            result = once(k, x)
        first = Snapshot(k + 1, spec.checked(k, result[0]), exact=True)
        first.compare(k + 1, spec.checked(k, once(k, given)[0]), spec.path)
        return result

    return call
