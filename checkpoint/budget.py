"""What a chain holds besides its saved states, so that a budget of memory is one for everything."""

from __future__ import annotations

from .plan import plan
from .storage.pool import PLACE, slot_bytes
from .storage.states import nbytes
from .units import format_bytes, parse_bytes

__all__ = ["BASE", "planned", "total"]

BASE = 96 << 10  # bytes of the objects of a sweep, whatever its states are
STATES = 4  # copies of a state besides the saved ones and the three of `plan`: x_N, two cotangents, what the loss makes of x_N
RECORDS = 2  # a step's record, and the adjoints that its pull makes


def total(leaves):
    """Return the bytes of leaves."""
    return sum(nbytes(leaf) for leaf in leaves)


def planned(link, steps, memory):
    """Return the plan for a budget, of which everything else is taken away that the chain holds.

    Counted are the copies of parameters and inputs with their gradients, the outs with their cotangents, x_N and its cotangents, and,
    of a trial of step 0, the record of one step. Not counted is what a step allocates while it is evaluated and frees again, nor
    what the rest of the program holds.
    """
    budget, (record, outs) = parse_bytes(memory, "chain", "memory"), link.measured()
    states = link.state
    size = total(states)
    if size <= 1 << 16:  # otherwise what is around the data does not count
        size = max(slot_bytes(link.links.tree(states)) - PLACE, 1)
    beside = BASE + 3 * total(link.params) + total(link.inputs) * (2 if link.active_inputs else 1) + 2 * outs * (steps or 0)
    beside += STATES * size + RECORDS * record
    try:
        schedule, storage, reason, _ = plan(steps, size, max(budget - beside, 0))
    except ValueError:
        raise ValueError(
            f"chain: memory={memory!r} is too small: the steps, their parameters, inputs and outs take {format_bytes(beside)}, and one "
            f"saved state with the copies in use {format_bytes(5 * (size + PLACE))} more"
        ) from None
    return schedule, storage, f"of {format_bytes(budget)}, {format_bytes(beside)} are in use otherwise; {reason}"
