"""A chain of a compiled step without a tape: whole segments of steps are made in one compiled call each.

One step is compared with the plain one where that is due: a stale program shows by its results, see `dualad.jit.verify`.
"""

from __future__ import annotations

from functools import partial
from time import perf_counter
from typing import Any

import optree

from dualad.graph.handled import own
from dualad.support.byte_sizes import format_bytes
from dualad.support.progress import Bar

from ..storage.states import nbytes
from ..support.checks import too_many
from ..sweep.stats import fill
from .other_leaves import NotCompiled, join_tangents
from .segments import Segments, State, like_leaves
from .spec import Loop, StepSpec
from .stepper import Stepper

__all__ = ["NotCompiled", "Retraced", "left_out", "probe", "run_compiled"]


def run_compiled(spec: StepSpec, loop: Loop) -> Any:
    """Run the chain of a compiled step on plain values or Duals; raise `NotCompiled` where it has no compiled loops."""
    steps, max_steps = loop.steps, loop.max_steps
    if steps == 0:
        raise NotCompiled("there are no steps")
    started = perf_counter()
    stepper = Stepper(spec, spec.state, spec.inputs, spec.params, loop.until)
    segments = Segments(stepper, steps)
    if stepper.due:
        probe(stepper, segments, steps)
    advance = partial(advanced_twice, segments) if loop.check else segments.advance
    x, reached = segments.start, 0
    with Bar(loop.progress, "chain") as bar:
        bar.start(steps)
        segments.told = bar.advance if loop.progress else None
        if steps is not None:
            x, reached = advance(0, steps, x)
        else:
            stop = 0
            while reached == stop and not segments.ends(reached, x):
                if reached == max_steps:
                    raise too_many(max_steps)
                segments.reserve(2 * reached + 64)
                stop = 2 * reached + 64 if max_steps is None else min(2 * reached + 64, max_steps)
                x, reached = advance(reached, stop, x)
            if not reached:
                raise NotCompiled("it makes no step")
    if loop.stats is not None:
        reason = segments.remarks.removeprefix("; ")
        fill(loop.stats, steps=reached, advances=segments.made, reason=reason, seconds=perf_counter() - started)
    final = spec.tree(join_tangents(like_leaves(x, stepper.kinds), stepper.state_splits))
    if not spec.outputs:
        return final
    outs = join_tangents([out[:reached] for out in segments.outs], stepper.out_splits())
    return final, optree.tree_unflatten(stepper.out_structure, outs)


def advanced_twice(segments: Segments, first: int, stop: int, x: State) -> tuple[State, int]:
    """Make steps, and make them again: another result raises."""
    final, reached = segments.advance(first, stop, x)
    told, segments.told = segments.told, None
    again, _ = segments.advance(first, reached, x)
    segments.told = told
    for a, b in zip(final, again, strict=True):
        if a.tobytes() != b.tobytes():
            raise RuntimeError(
                f"chain: the compiled steps {first} to {reached - 1}, made twice from the same state, gave two results, so the gradient "
                f"would be wrong. Without jit, check=True names the first step that differs"
            )
    return final, reached


class Retraced(Exception):
    """The program of a chain's step was stale: it has been traced again, and the chain is to be run once more."""


def left_out(stepper: Stepper, budget: int) -> str:
    """Return why a plain step does not fit into a budget, in the words of `stats.reason`; empty where it does."""
    checks = stepper.entry.checks
    if checks.reason is not None:
        return ""
    needed = checks.needed + stepper.nbytes + nbytes(stepper.params)
    return "" if needed <= budget else f"; not compared with a plain step, which takes {format_bytes(needed)}"


def probe(stepper: Stepper, segments: Segments, steps: int | None) -> None:
    """Compare one step, a later one each time: in x_0 a change may not show. Raise `Retraced` where the program was stale."""
    source, (kinds, outs, _) = stepper.spec.source, stepper.base.outputs
    k = source.verifications + 1 if steps is None else min(source.verifications + 1, steps - 1)
    segments.reserve(k + 1)
    x, reached = segments.advance(0, k, segments.start)
    if reached < k:
        k, x = 0, segments.start
    new, reached = segments.advance(k, k + 1, x)
    segments.made = 0
    if reached == k:  # a predicate ended it
        return
    leaves = stepper.plain_leaves(k, x)
    made = [*like_leaves(new[: len(kinds)], [out.kind for out in kinds]), *(rows[k] for rows in segments.outs[: len(outs)])]
    evaluate: Any = lambda compiled, _: compiled.program.run(*map(own, leaves))
    entry = stepper.entry  # which knows the paths by now
    del x, new
    segments.pool.clear()  # a plain step takes memory of its own
    right, _ = source.compared(entry, stepper.call, leaves, made, evaluate, 8)
    if right is not entry:
        raise Retraced
