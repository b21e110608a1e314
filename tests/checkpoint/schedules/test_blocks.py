"""Blocks of compiled steps: length and saved states fit into one budget and are the best of those tried."""

from itertools import product
from math import ceil

import numpy as np
import pytest
from in_groups import for_each

from checkpoint import CTZ, Mixed, Online, Periodic, Revolve, Schedule, Stats, StoreAll, Tiered, chain, grad
from checkpoint.schedules import advances
from checkpoint.schedules.blocks import blocks_of
from checkpoint.support.costs import BLOCK_BYTES
from dualad import jit


def said(count, length):
    return f"one block of all {length:,} compiled steps" if count == 1 else f"{count:,} blocks of {length:,} compiled steps"


@pytest.mark.parametrize("steps", [1, 100, 10**6])
@for_each("nbytes", [0, 8, 24, 10_000, 10**7], str)
@pytest.mark.parametrize("schedule", [None, CTZ(), Revolve(3), StoreAll()])
def test_blocks_and_saved_states_fit_into_the_budget(steps, nbytes, schedule):
    for budget in (None,) if schedule else (None, 10**8):
        blocks = blocks_of(steps, nbytes, budget, schedule=schedule)
        count = ceil(steps / blocks.size)
        room = (budget or max(BLOCK_BYTES, (schedule or CTZ()).limit(steps) * max(nbytes, 1))) // max(nbytes, 1)
        assert 1 <= blocks.size <= steps and said(count, blocks.size) in blocks.reason
        assert blocks.schedule.limit(count) + blocks.size - 1 <= room
        assert blocks.schedule == (schedule or blocks.schedule)
        assert blocks_of(steps, nbytes, budget, schedule=schedule, block=7).size == min(7, steps)


def predicted(steps, length, slots, step_seconds, call_seconds):
    count = ceil(steps / length)
    again = advances(count, min(slots, count))
    return ((again + 1) * length + steps - count) * step_seconds + (min(again, 2 * count) + count) * call_seconds


@pytest.mark.parametrize(("step_seconds", "call_seconds"), [(1e-8, 1e-5), (1e-5, 1e-5), (1e-3, 1e-5)])
def test_no_other_length_is_predicted_to_be_much_better(step_seconds, call_seconds):
    for steps, room in ((1000, 20), (1000, 300), (10**5, 3000)):
        blocks = blocks_of(steps, 8, 8 * room, step_seconds, call_seconds)
        slots = blocks.schedule.limit(ceil(steps / blocks.size))
        chosen = predicted(steps, blocks.size, slots, step_seconds, call_seconds)
        for length in range(1, room):
            left = room - length + 1
            assert chosen <= 1.2 * predicted(steps, length, left, step_seconds, call_seconds), length


def test_dear_steps_are_not_made_in_blocks_to_spare_calls():
    assert blocks_of(500, 10**6, 12 * 10**6, step_seconds=1e-3).size == 1
    assert blocks_of(10**6, 24, step_seconds=2e-8).schedule == StoreAll()


def test_states_inside_of_the_last_block_are_kept_in_the_first_sweep():
    for steps, nbytes in ((100, 4096), (500, 1920), (7, 40_000)):
        blocks, plain = (blocks_of(steps, nbytes, schedule=CTZ(), resident=resident) for resident in (True, False))
        evaluations = [float(one.reason.split(", ")[-1].split(" ")[0]) for one in (blocks, plain)]
        assert evaluations[0] <= evaluations[1]
        assert plain.size == -(-steps // -(-steps // plain.size)), "blocks are not of one length"
    chosen = blocks_of(100, 4096, schedule=CTZ(), resident=True)
    assert chosen.size == 63 and "64 states of 4.1 kB: 2 blocks of up to 63 compiled steps" in chosen.reason
    assert "1.36 evaluations" in chosen.reason, "the last block is as long as it may be, and the first one has 37 steps"
    assert blocks_of(50, 4096, schedule=CTZ(), resident=True).reason.startswith("262 kB hold 64 states of 4.1 kB: one block")


def test_states_that_all_fit_are_kept_in_the_first_sweep():
    for steps, budget in ((10**6, 32 << 20), (10**4, None)):
        blocks = blocks_of(steps, 24, budget, step_seconds=2e-7, resident=True)
        assert blocks[:2] == (steps, StoreAll()) and "one block of all" in blocks.reason and "1.00 evaluations" in blocks.reason
    for steps, last in ((1000, 1), (1023, 24)):
        blocks = blocks_of(steps, 24, block=111, resident=True)
        assert blocks[:2] == (111, Mixed(9)) and "stay in memory" in blocks.reason
        assert f"{(steps + last - 1) / steps:.2f} evaluations" in blocks.reason, "the last block is made again"
    for options in ({"resident": False}, {"resident": True, "schedule": StoreAll()}, {"resident": True, "budget": 10**6}):
        assert not blocks_of(10**6, 24, **options).schedule.records


@jit
def swinging(k, x, c):
    return x + 0.01 * np.sin(c * x)


CHECKED = [CTZ(), CTZ("bisect"), Revolve(2), StoreAll(), Periodic(), Periodic(4), Online(3), Tiered(2, 2)]
RECORDED = [Mixed(1), Mixed(3), Mixed(90)]


@pytest.mark.parametrize(("steps", "block"), [(2047, None), (127, 30), (37, 7), (64, 64), (300, 3)])
@pytest.mark.parametrize(("schedule", "check"), [*product(CHECKED, [False, True]), *product(RECORDED, [False])], ids=str)
def test_evaluations_are_said_truly(steps, block, schedule, check):
    pytest.importorskip("llvmlite", reason="llvmlite is not installed")
    stats = Stats()
    options = {"schedule": schedule, "check": check, "block": block, "stats": stats}
    grad(lambda c: np.sum(chain(swinging, np.ones(64), c, steps=steps, **options)))(0.9)
    assert f", {stats.advances / steps:.2f} evaluations of every step" in stats.reason


def test_of_other_schedules_evaluations_are_said_about():
    class Another(Schedule):
        forward, reverse, limit = CTZ.forward, CTZ.reverse, CTZ.limit
        refill = "binomial"

    assert ", about 1." in blocks_of(100, 4096, schedule=Another(), resident=True).reason
    assert "about" not in blocks_of(10**7, 4096, schedule=CTZ(), resident=True).reason


def test_a_length_that_is_not_known_before():
    blocks = blocks_of(None, 24)
    assert blocks.size == BLOCK_BYTES // 48 and blocks.schedule == CTZ() and "not known before" in blocks.reason
    assert blocks_of(None, 10**9, schedule=Revolve(4), block=3)[:2] == (3, Revolve(4))
