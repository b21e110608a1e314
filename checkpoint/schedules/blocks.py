"""Blocks of compiled steps: how many are one action of the schedule, and how many states are saved between blocks."""

from functools import lru_cache
from types import NoneType
from typing import NamedTuple

from dualad.support.byte_sizes import format_bytes

from ..support.costs import ACTION_SECONDS, BLOCK_BYTES, BLOCK_LENGTHS, COUNTED_BLOCKS, COUNTED_CHOSEN_BLOCKS
from . import CTZ, Mixed, Online, Periodic, Revolve, Schedule, StoreAll, Tiered, advances, ctz
from .actions import Advance, Record, Reverse
from .machine import Cursor, executed

#: values, so that `blocks_of` knows what was chosen once; of other schedules its ``__wrapped__`` is to be called
SCHEDULES = {NoneType, CTZ, Mixed, Online, Periodic, Revolve, StoreAll, Tiered}


class Blocks(NamedTuple):
    """How a compiled chain is cut into blocks."""

    size: int  # steps of a block; the one at an end has what is left
    schedule: Schedule  # of blocks
    reason: str  # in numbers


@lru_cache(maxsize=256)
def blocks_of(
    steps: int | None,
    state_bytes: int,
    budget: int | None = None,
    step_seconds: float = 1e-7,
    call_seconds: float = ACTION_SECONDS,
    *,
    schedule: Schedule | None = None,
    block: int | None = None,
    around: int = 0,
    resident: bool = False,
) -> Blocks:
    """Choose the block length and the number of saved states together: the shortest predicted time within `budget` bytes.
    By default 256 KiB, or what the schedule (CTZ if None) takes without blocks. `resident`: a block's states may stay until its pull."""
    size = max(state_bytes, 1)
    given = schedule or CTZ()
    if budget is None:
        budget = max(BLOCK_BYTES, given.limit(steps) * size if steps is not None else 0)
    room = budget // size
    if steps is None:
        length = block or max(room // 2, 1)
        return Blocks(length, given, f"blocks of {length:,} compiled steps; the length is not known before")
    best: tuple[float, int, Schedule, str, int] | None = None
    for length in (min(block, steps),) if block else lengths(steps, room, resident):
        count = -(-steps // length)
        left = max(budget - (length - 1) * size, 0) // (size + around)
        slots = max(given.limit(count), 1) if schedule else min(count, max(left, CTZ().limit(count) if block else 0))
        if slots < 1 or (slots > left and not block and length > 1):
            continue
        again = ctz.advances(count) if schedule == CTZ() else advances(count, slots)
        evaluated = (again + 1) * length + steps - count
        calls, chosen = min(again, 2 * count) + count, schedule or (StoreAll() if slots >= count else Revolve(slots))
        if resident:  # the states of the last block stay in memory
            evaluated -= length - 1
        saved = f"{slots:,} states between them saved"
        if resident and schedule is None and count > 1 and count * length <= room:
            calls, chosen = 3 * count, Mixed(count - 1)
            saved = "whose states stay in memory"
        if count <= COUNTED_BLOCKS:
            evaluated = evaluations(chosen, steps, length, resident) or evaluated
        seconds = evaluated * step_seconds + calls * call_seconds
        if best is None or seconds < best[0]:
            best = seconds, length, chosen, saved, evaluated
    assert best is not None  # one step in a block always fits
    _, length, chosen, saved, evaluated = best
    counted = evaluations(chosen, steps, length, resident) if -(-steps // length) <= COUNTED_CHOSEN_BLOCKS else None
    about = "" if counted or type(schedule) in (CTZ, Revolve, StoreAll, NoneType) else "about "
    times = f"{about}{(counted or evaluated) / steps:.2f} evaluations of every step"
    return Blocks(length, chosen, f"{reason(budget, room, size, steps, length, saved)}, {times}")


def evaluations(schedule: Schedule, steps: int, length: int, resident: bool) -> int | None:
    """Return how many steps a schedule of blocks evaluates; None for a foreign schedule.
    With `resident`, the last block's states stay in memory, and the short block is the first one."""
    if type(schedule) not in SCHEDULES:
        return None
    count, last_stays = -(-steps // length), resident and not schedule.records
    short, missing = 0 if last_stays else count - 1, count * length - steps

    def steps_of(start: int, stop: int) -> int:
        return (stop - start) * length - (missing if start <= short < stop else 0)

    made = steps_of(count - 1, count)
    cursor, recorded = Cursor(count), set[int]()
    for action in executed(schedule, cursor):
        if isinstance(action, Advance):
            made += steps_of(action.start, action.stop)
        elif isinstance(action, Record):
            made += steps_of(action.index, action.index + 1)
            recorded.add(action.index)
        elif isinstance(action, Reverse) and action.index not in recorded and not (last_stays and action.index == count - 1):
            made += steps_of(action.index, action.index + 1) - 1
    return made


def lengths(steps: int, room: int, resident: bool) -> list[int]:
    """The lengths that are tried: two in each power of two, or less, for as many blocks of one length; those of the longest last block."""
    most = min(steps, room)
    tried = {int(part * 2**power) for power in range(most.bit_length()) for part in (1, 1.5)}
    even = {-(-steps // -(-steps // length)) for length in {*tried, most} if 1 <= length <= most}
    return sorted(even | {length for length in range(most - BLOCK_LENGTHS, most + 1) if resident and length > 0}) or [1]


def reason(budget: int, room: int, size: int, steps: int, length: int, saved: str) -> str:
    count = -(-steps // length)
    blocks = f"{count:,} blocks of {'' if count * length - steps < count else 'up to '}{length:,} compiled steps, {saved}"
    if count == 1:
        blocks = f"one block of all {length:,} compiled steps"
    return f"{format_bytes(budget)} hold {room:,} states of {format_bytes(size)}: {blocks}"
