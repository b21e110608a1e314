"""A chain without a tape: a loop in Python, on plain values or Duals."""

from __future__ import annotations

from .leaves import lifted, on_primals
from .links import Stacked
from .storage.states import copy_state

__all__ = ["run", "too_many"]


def run(links, top, steps, until=None, max_steps=None):
    """Run the chain as a loop; arrays of a plain state become traced ones of the level of `top`, because a step may write into them."""
    params, outs = links.arguments(links.params), Stacked(steps)
    x = links.tree(lifted(links.flatten(copy_state(links.tree(links.state))), top))
    until, k = on_primals(until), 0
    while k != steps and not (until is not None and until(k, x)):
        if k == max_steps:
            raise too_many(k)
        try:
            x, out = links.call(k, x, links.row(k, links.inputs), params)
        except Exception:
            links.explain(k, x, params, links.inputs)
            raise
        if links.outputs:
            outs.add(k, out)
        if not k:
            links.check_closure(links.leaves(0, x), links.levels)
        k += 1
    if k:
        leaves = links.final_leaves(k, x, params, links.inputs)
        links.check_closure(leaves, links.levels)
        x = links.tree(leaves)
    return (x, outs.tree(outs.arrays())) if links.outputs else x


def too_many(max_steps):
    return RuntimeError(
        f"chain: until(k, state) is still not true after max_steps={max_steps} steps; give more steps, or a predicate that also ends"
    )
