"""What a chain holds besides its saved states, so that a budget of memory is one for everything."""

from __future__ import annotations

from ..storage.pool import PLACE, slot_bytes
from ..storage.states import nbytes
from ..support.byte_sizes import format_bytes, parse_bytes
from ..sweep.plan import SMALL, WORKING_COPIES, plan

__all__ = ["BASE", "overhead_bytes", "planned", "total"]

BASE = 112 << 10  # bytes of the objects of a sweep, whatever its states are
STATES = 4  # copies of a state besides the saved ones: x_0, x_N, a cotangent, what the loss makes of x_N


def total(leaves):
    """Return the bytes of leaves."""
    return sum(nbytes(leaf) for leaf in leaves)


def overhead_bytes(link, outs, steps):
    """Return the bytes that a chain holds besides states: copies of parameters and inputs and their gradients, outs and their cotangents.

    `outs` are the bytes of what one step puts out. Not counted is what the rest of the program holds.
    """
    sums, rows = (total(leaves[i] for i in active) for leaves, active in ((link.params, link.active), (link.inputs, link.active_inputs)))
    return BASE + total(link.params) + sums + total(link.inputs) + rows + 2 * outs * (steps or 0)


def planned(link, steps, memory, storage):
    """Return the plan for a budget, of which everything else is taken away that the chain holds.

    That is `overhead_bytes`, a few states, and what a trial of step 0 and of its pull took at most. What one that resumes
    holds is estimated, so that another process has the same plan.
    """
    budget = parse_bytes(memory, "chain", "memory")
    taken, outs = link.tried_bytes(storage is not None and storage.durable) if steps != 0 else (0, 0)
    states = link.state
    size = total(states)
    if size <= SMALL:  # otherwise what is around the data does not count
        size = max(slot_bytes(link.links.tree(states)) - PLACE, 1)
    held = overhead_bytes(link, outs, steps) + STATES * size + taken
    try:
        schedule, storage, reason, _ = plan(steps, size, max(budget - held, 0) + WORKING_COPIES * size)
    except ValueError:
        raise ValueError(
            f"chain: memory={memory!r} is too small: the steps, their parameters, inputs and outs take {format_bytes(held)}, and one "
            f"saved state {format_bytes(size + PLACE)} more"
        ) from None
    return (
        schedule,
        storage,
        f"of {format_bytes(budget)}, {format_bytes(max(held - WORKING_COPIES * size, 0))} are in use otherwise; {reason}",
    )
