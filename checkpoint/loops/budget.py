"""What a chain holds besides its saved states, so that a budget of memory is one for everything."""

from __future__ import annotations

from ..storage.pool import slot_bytes
from ..storage.states import nbytes
from ..support.byte_sizes import format_bytes, parse_bytes
from ..support.costs import CHAIN_STATES, COUNTED_STATE_BYTES, PACKED_ROW_BYTES, SWEEP_BYTES, SWEEP_STATES
from ..sweep.plan import plan

__all__ = ["overhead_bytes", "planned", "total"]


def total(leaves):
    """Return the bytes of leaves."""
    return sum(nbytes(leaf) for leaf in leaves)


def overhead_bytes(link, outs, steps):
    """Return the bytes that a chain holds besides states: copies of parameters and inputs and their gradients, outs and their cotangents.

    `outs` are the bytes of what one step puts out. Not counted is what the rest of the program holds.
    """
    sums, rows = (total(leaves[i] for i in active) for leaves, active in ((link.params, link.active), (link.inputs, link.active_inputs)))
    return SWEEP_BYTES + total(link.params) + sums + total(link.inputs) + rows + 2 * outs * (steps or 0)


def planned(link, steps, memory, storage):
    """Return the plan for a budget, of which everything else is taken away that the chain holds.

    That is `overhead_bytes`, a few states, and what a trial of step 0 and of its pull took at most. What one that resumes
    holds is estimated, so that another process has the same plan.
    """
    budget = parse_bytes(memory, "chain", "memory")
    taken, outs = link.tried_bytes(storage is not None and storage.durable) if steps != 0 else (0, 0)
    states = link.state
    size = total(states)
    if size <= COUNTED_STATE_BYTES:  # otherwise what is around the data does not count
        size = max(slot_bytes(link.links.tree(states)) - PACKED_ROW_BYTES, 1)
    held = overhead_bytes(link, outs, steps) + CHAIN_STATES * size + taken
    try:
        schedule, storage, reason, _ = plan(steps, size, max(budget - held, 0) + SWEEP_STATES * size)
    except ValueError:
        raise ValueError(
            f"chain: memory={memory!r} is too small: the steps, their parameters, inputs and outs take {format_bytes(held)}, and one "
            f"saved state {format_bytes(size + PACKED_ROW_BYTES)} more"
        ) from None
    return (
        schedule,
        storage,
        f"of {format_bytes(budget)}, {format_bytes(max(held - SWEEP_STATES * size, 0))} are in use otherwise; {reason}",
    )
