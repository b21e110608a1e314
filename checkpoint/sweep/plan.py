"""From a budget to a schedule: how much memory there is, and what a step and a write to disk cost."""

from numbers import Number
from typing import Any, NamedTuple

from dualad.support.byte_sizes import format_bytes, parse_bytes
from dualad.support.callers import trimmed

from ..schedules import Online, Revolve, Schedule, StoreAll, Tiered, advances
from ..schedules.blocks import blocks_of
from ..schedules.tiered import traffic
from ..storage import Disk, Memory, Storage, Tiers
from ..storage.memory import overhead_of
from ..storage.states import nbytes
from ..support.checks import amount, whole_number
from ..support.costs import TABLE_STEPS, WRITE_QUEUE
from ..support.tables import html, markdown
from .player import BLOCK_STATES, SWEEP_STATES


class Plan(NamedTuple):
    """What `plan` chose.

    Attributes
    ----------
    schedule : which states are saved.
    storage : where.
    reason : why, in numbers.
    block : steps of a compiled step that are one action of the schedule; 1 where none is compiled.
    """

    schedule: Schedule
    storage: Storage
    reason: str
    block: int = 1

    def __str__(self) -> str:
        return f"schedule  {self.schedule}\nstorage   {self.storage}\nreason    {self.reason}"

    def _cells(self) -> list[tuple[str, str]]:
        return [("plan", ""), *((name, str(value)) for name, value in self._asdict().items())]

    def _repr_html_(self) -> str:
        return html(self._cells(), left=2)

    def _repr_markdown_(self) -> str:
        return markdown(self._cells(), left=2)


@trimmed
def plan(
    steps: int | None,
    state_bytes: Any,
    memory: float | str,
    step_seconds: float | None = None,
    save_seconds: float | None = None,
    call_seconds: float | None = None,
) -> Plan:
    """Choose the schedule and storage of the shortest predicted time that a budget of memory allows.

    The budget is for all copies of states that a sweep holds: the saved ones, with the 84 bytes that keep a small one, and three
    more (x_0, x_{N-1} between the two sweeps, the working state), with a disk another three (waiting to be written, or read ahead).
    What one step and its pull need for themselves comes on top; ``chain(..., memory=)`` takes that from its budget first.

    Predicted is: one `step_seconds` for each of the A advances, for the step to x_N, and for the evaluation inside each of
    the N pulls; one `save_seconds` for each state written to disk or read from it, as if nothing of that overlapped with
    the steps. Without the two times only memory is used, where the fewest advances take the shortest time.

    Of a step that is compiled by `dualad.jit`, blocks of steps are made and pulled back in one call each. With `call_seconds` the length
    of blocks and the number of saved states are chosen together: the states inside of one block take a part of the budget, each of
    them is computed once more, and one `call_seconds` is predicted for each block that is advanced or pulled.

    Parameters
    ----------
    steps : N, or None if it is not known before.
    state_bytes : size of one state, for instance ``8_000_000`` or ``"8 MB"``; or a state, an array or a container of leaves, which is
        measured.
    memory : the budget.
    step_seconds : time of one step.
    save_seconds : time to write one state to disk, or to read it. Only if this is given, the disk may be used; it needs `step_seconds` and
        `steps`.
    call_seconds : of a compiled step: what an action of the schedule costs besides its steps, about 5e-6. It needs `step_seconds` and
        `steps`.

    Returns
    -------
    Plan
        ``schedule``, ``storage``, ``reason`` and ``block``.

    Raises
    ------
    ValueError, TypeError
        If an argument cannot be used, or the budget does not hold four states.

    Examples
    --------
    >>> schedule, storage, reason, block = plan(100_000, "8 MB", "2 GB")
    >>> schedule
    Revolve(slots=247)
    >>> print(reason)
    2 GB holds 250 states of 8 MB, 247 of them saved: 268,875 advances, 3.69 evaluations of every step
    >>> plan(100_000, "8 MB", "2 GB", step_seconds=0.1, save_seconds=0.01).schedule
    Tiered(memory_slots=244, disk_slots=215)
    >>> print(plan(1_000_000, 24, "256 kB", step_seconds=2e-8, call_seconds=2e-5).reason)
    256 kB hold 10,660 states of 24 B: 123 blocks of 8,131 compiled steps, 123 states between them saved,
    2.00 evaluations of every step
    """
    if steps is not None:
        steps = whole_number(steps, where="plan", argument="steps", least=0, hint="give the length of the chain, or None")
    size, budget = max(state_size(state_bytes, "plan"), 1), parse_bytes(memory, "plan", "memory")
    given = {"step_seconds": step_seconds, "save_seconds": save_seconds, "call_seconds": call_seconds}
    step, save, call = (value if value is None else amount(value, "seconds", where="plan", argument=name) for name, value in given.items())
    if save is not None and (step is None or steps is None):
        raise TypeError("plan: save_seconds= (states may go to disk) requires step_seconds= and steps=")
    if call is not None:
        return in_blocks(steps, size, budget, step, save, call)
    slots = max(budget - SWEEP_STATES * size, 0) // (size + overhead_of(size))
    if slots < 1:
        raise too_small(budget, size, SWEEP_STATES)
    room = f"{format_bytes(budget)} holds {slots + SWEEP_STATES:,} states of {format_bytes(size)}, {slots:,} of them saved"
    if steps is None:
        return Plan(Online(slots), Memory(), f"{room}; the length is not known before")
    if slots >= steps:
        return Plan(StoreAll(), Memory(), f"{room}: all {steps:,} fit, and no step is computed again")
    best = Plan(Revolve(slots), Memory(), reason_for(room, steps, advances(steps, slots), step))
    if step is None or save is None:
        return best
    seconds = predicted_seconds(steps, advances(steps, slots), step)
    for schedule in with_disk(steps, slots - WRITE_QUEUE - 1):  # waiting to be written, and one read ahead
        again, use = advances(steps, schedule.slots), traffic(steps, schedule.limit(steps))
        moved = sum(use[place].total for place in schedule.on_disk(steps))  # states written to disk or read from it
        predicted = predicted_seconds(steps, again, step) + moved * save
        if predicted < seconds:
            seconds = predicted
            reason = f"{reason_for(room, steps, again, step)} and {moved * save:.3g} s for {moved:,} states to and from disk"
            best = Plan(schedule, Tiers(Memory(), Disk()), reason)
    return best


def state_size(given: Any, where: str) -> int:
    """Bytes of one state: those that are given, as a number or a text, or those of a state that is given itself."""
    is_size: bool = given is None or issubclass(type(given), str | Number)
    return parse_bytes(given, where, "state_bytes") if is_size else nbytes(given)


def in_blocks(steps: int | None, size: int, budget: int, step: float | None, save: float | None, call: float) -> Plan:
    if step is None or steps is None:
        raise TypeError("plan: call_seconds= (steps run in blocks) requires step_seconds= and steps=")
    if save is not None:
        raise TypeError("plan: states between blocks stay in memory; give either save_seconds= or call_seconds=")
    if budget < (1 + BLOCK_STATES) * size:
        raise too_small(budget, size, BLOCK_STATES)
    chosen = blocks_of(max(steps, 1), size, budget - BLOCK_STATES * size, step, call)
    return Plan(chosen.schedule, Memory(), chosen.reason, chosen.size)


def too_small(budget: int, size: int, held: int) -> ValueError:
    return ValueError(
        f"plan: a budget of {format_bytes(budget)} is too small for states of {format_bytes(size)}: at least "
        f"{format_bytes((1 + held) * size)} are needed, for one that is saved and {held} that are in use"
    )


def with_disk(steps: int, slots: int) -> list[Tiered]:
    """Schedules of two tiers to try: twice as many places on disk in four tries."""
    if slots < 1:
        return []
    most = min(steps - 1, TABLE_STEPS) - slots
    tried = {min(round(2 ** (power / 4)), most) for power in range(4 * max(most, 1).bit_length() + 1)}
    return [Tiered(slots, places) for places in sorted(tried) if places > 0]


def predicted_seconds(steps: int, again: int, step_seconds: float) -> float:
    return (again + 1 + steps) * step_seconds


def reason_for(room: str, steps: int, again: int, step_seconds: float | None) -> str:
    text = f"{room}: {again:,} advances, {(again + 1 + steps) / steps:.2f} evaluations of every step"
    return text if step_seconds is None else f"{text}, {predicted_seconds(steps, again, step_seconds):.3g} s"
