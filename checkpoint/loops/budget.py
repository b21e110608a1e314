"""What a chain holds besides its saved states, so that a budget of memory is one for everything."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..schedules import Schedule
from ..storage.pool import slot_bytes
from ..storage.states import nbytes
from ..support.byte_sizes import format_bytes, parse_bytes
from ..support.costs import CHAIN_STATES, COUNTED_STATE_BYTES, PACKED_ROW_BYTES, SWEEP_BYTES, SWEEP_STATES
from ..sweep.plan import plan
from .entry import Lowered

__all__ = ["overhead_bytes", "planned", "total"]


def total(leaves: Iterable[Any]) -> int:
    """Return the bytes of leaves."""
    return sum(map(nbytes, leaves))


def overhead_bytes(given: Lowered, outs: int, steps: int | None) -> int:
    """Return the bytes that a chain holds besides states: copies of parameters and inputs and their gradients, outs and their cotangents.

    `outs` are the bytes of what one step puts out. Not counted is what the rest of the program holds.
    """
    sums, rows = [given.params[i] for i in given.active], [given.inputs[i] for i in given.active_inputs]
    return SWEEP_BYTES + sum(map(total, (given.params, sums, given.inputs, rows))) + 2 * outs * (steps or 0)


def planned(given: Lowered, steps: int | None, memory: float | str, taken: int, outs: int) -> tuple[Schedule, str]:
    """Return the schedule for a budget, and why; the budget, of which everything else is taken away that the chain holds.

    That is `overhead_bytes`, a few states, and what a trial of step 0 and of its pull has `taken` at most.
    """
    budget = parse_bytes(memory, "chain", "memory")
    size = total(given.state)
    if size <= COUNTED_STATE_BYTES:  # otherwise what is around the data does not count
        size = max(slot_bytes(given.spec.tree(given.state)) - PACKED_ROW_BYTES, 1)
    held = overhead_bytes(given, outs, steps) + CHAIN_STATES * size + taken
    try:
        schedule, _, reason, _ = plan(steps, size, max(budget - held, 0) + SWEEP_STATES * size)
    except ValueError:
        raise ValueError(
            f"chain: memory={memory!r} is too small: the steps, their parameters, inputs and outs take {format_bytes(held)}, and one "
            f"saved state {format_bytes(size + PACKED_ROW_BYTES)} more"
        ) from None
    in_use = format_bytes(max(held - SWEEP_STATES * size, 0))
    return schedule, f"of {format_bytes(budget)}, {in_use} are in use otherwise; {reason}"
