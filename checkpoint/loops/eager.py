"""A chain without a tape: a loop in Python, on plain values or Duals."""

from __future__ import annotations

from time import perf_counter

from dualad.support.progress import Bar

from ..storage.states import copy_state
from ..sweep.stats import fill
from .leaves import lifted, on_primals
from .snapshot import Snapshot, not_repeatable
from .spec import Stacked

__all__ = ["run", "too_many"]


def run(links, top, steps, until=None, max_steps=None, stats=None, progress=False, check=False):
    """Run the chain as a loop; arrays of a plain state become traced ones of the level of `top`, because a step may write into them."""
    params, outs, until, k = links.arguments(links.params), Stacked(steps), on_primals(until), 0
    x = links.tree(lifted(links.flatten(copy_state(links.tree(links.state))), top))
    call, started, bar = links.calls(params, links.inputs), perf_counter(), Bar(progress, "chain")
    call = twice(links, call) if check else call
    bar.start(steps)
    try:
        while k != steps and not (until is not None and until(k, x)):
            if k == max_steps:
                raise too_many(k)
            try:
                x, out = call(k, x)
            except Exception:
                links.explain(k, x, params, links.inputs)
                raise
            if links.outputs:
                outs.add(k, out)
            if not k:
                links.check_closure(links.leaves(0, x), links.levels)
            k += 1
            if progress:
                bar.advance(1)
    finally:
        bar.close()
        if stats is not None:
            fill(stats, steps=k, advances=2 * k if check else k, seconds=perf_counter() - started)
    if k:
        leaves = links.final_leaves(k, x, params, links.inputs)
        links.check_closure(leaves, links.levels)
        x = links.tree(leaves)
    return (x, outs.tree(outs.arrays())) if links.outputs else x


def twice(links, once):
    """Return the call of a step, made a second time from a copy of its state: another result raises."""

    def call(k, x):
        given = copy_state(x)
        result = once(k, x)
        first = Snapshot(k + 1, links.leaves(k, result[0]), exact=True)
        i = first.differing(k + 1, links.leaves(k, once(k, given)[0]))
        if i is not None:
            raise not_repeatable(k, links.path(i))
        return result

    return call


def too_many(max_steps):
    return RuntimeError(
        f"chain: until(k, state) is still not true after max_steps={max_steps} steps; give more steps, or a predicate that also ends"
    )
