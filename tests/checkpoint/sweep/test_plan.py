"""plan: within the budget, the best of what there is, and it says why."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoint.schedules import Online, Revolve, StoreAll, Tiered, advances
from checkpoint.schedules.blocks import blocks_of
from checkpoint.schedules.tiered import traffic
from checkpoint.storage import Memory, Tiers
from checkpoint.support.costs import WRITE_QUEUE
from checkpoint.sweep import reverse
from checkpoint.sweep.plan import plan
from checkpoint.sweep.player import SWEEP_STATES

pytestmark = pytest.mark.slow

WAITING = WRITE_QUEUE + 1  # states in main memory: waiting to be written, and one read ahead


def sweep(chosen, x, steps):
    """Do what was chosen."""
    where = {"schedule": chosen.schedule, "storage": chosen.storage}
    return reverse(lambda k, x: x + 1, lambda k, x, g: g, x, x, steps=steps, **where).stats


def test_all_states_if_they_fit():
    schedule, storage, reason, block = plan(50, "8 MB", "2 GB")
    assert (schedule, storage, block) == (StoreAll(), Memory(), 1)
    assert reason == "2 GB holds 250 states of 8 MB, 247 of them saved: all 50 fit, and no step is computed again"
    assert plan(247, "8 MB", "2 GB").schedule == StoreAll() and plan(248, "8 MB", "2 GB").schedule == Revolve(247)


def test_as_many_as_fit():
    assert [plan(*few).schedule for few in ((0, 8, 200), (1, 8, 200), (10, 0, 1000))] == [StoreAll()] * 3
    assert plan(1000, "8 MB", "32 MB").schedule == Revolve(1)
    unknown = plan(None, "8 MB", "100 MB", step_seconds=1.0)
    assert unknown[:2] == (Online(9), Memory()) and "length is not known" in unknown.reason
    small = plan(1000, 16, 3 * 16 + 50 * 100)  # whose keeping counts
    assert small.schedule == Revolve(50) == plan(1000, 10_000, 3 * 10_000 + 50 * 10_480).schedule
    assert small.reason.startswith("5.05 kB holds 53 states of 16 B, 50 of them saved")
    chosen = plan(1000, "8 MB", "100 MB", step_seconds=2.0)
    assert (chosen.schedule, chosen.storage) == (Revolve(9), Memory())
    again = advances(1000, 9)
    assert chosen.reason == (
        f"100 MB holds 12 states of 8 MB, 9 of them saved: {again:,} advances, {(again + 1001) / 1000:.2f} evaluations of every "
        f"step, {2 * (again + 1001):.3g} s"
    )


@given(st.integers(1, 60), st.integers(4, 30))
def test_the_budget_holds(steps, states):
    """Counted in a real sweep: what is saved, and the three copies that come on top."""
    x = np.zeros(10_000)
    chosen = plan(steps, x.nbytes, states * x.nbytes)
    stats = sweep(chosen, x, steps)
    assert stats.peak_bytes + SWEEP_STATES * x.nbytes <= states * x.nbytes
    assert stats.advances == advances(steps, states - SWEEP_STATES) + 1


def seconds(schedule, steps, step, save):
    """The time that plan predicts."""
    use = traffic(steps, schedule.limit(steps))
    moved = sum(use[place].total for place in schedule.on_disk(steps))
    return (advances(steps, schedule.limit(steps)) + 1 + steps) * step + moved * save


@given(st.integers(2, 400), st.integers(4, 30), st.sampled_from([0.0, 0.01, 0.1, 1.0, 10.0]))
def test_the_disk_is_used_where_it_pays(steps, states, save):
    chosen = plan(steps, 80_000, 80_000 * states, step_seconds=1.0, save_seconds=save).schedule
    slots = states - SWEEP_STATES
    if slots >= steps:
        assert chosen == StoreAll()
        return
    without = (advances(steps, slots) + 1 + steps) * 1.0
    if isinstance(chosen, Tiered):
        assert chosen.memory_slots == slots - WAITING
        assert seconds(chosen, steps, 1.0, save) < without
    else:
        assert chosen == Revolve(slots)
    spent = seconds(chosen, steps, 1.0, save)
    for disk_slots in (1, 2, 4, 8, 16, 64):
        if slots > WAITING and slots - WAITING + disk_slots < steps:
            assert spent <= seconds(Tiered(slots - WAITING, disk_slots), steps, 1.0, save)


def test_a_fast_disk_holds_all_and_a_slow_one_nothing():
    fast, slow = (plan(1000, "8 MB", "200 MB", step_seconds=1.0, save_seconds=save) for save in (0.001, 100.0))
    assert fast.schedule.slots == 999 and fast.storage == Tiers() and "states to and from disk" in fast.reason
    assert slow.schedule == Revolve(22) and slow.storage == Memory()
    assert sweep(fast, 0.0, 1000).advances == 1000


def test_blocks_of_compiled_steps():
    chosen = plan(10**6, 24, "256 kB", step_seconds=2e-8, call_seconds=2e-5)
    blocks = blocks_of(10**6, 24, 256_000 - 6 * 24, 2e-8, 2e-5)
    assert chosen == (blocks.schedule, Memory(), blocks.reason, blocks.size) and chosen.block > 1000
    assert plan(500, "1 MB", "20 MB", step_seconds=1e-2, call_seconds=2e-5).block == 1


@pytest.mark.parametrize(
    ("arguments", "error", "reason"),
    [
        ((-1, 8, 100), ValueError, "plan: steps must be at least 0"),
        ((1.5, 8, 100), TypeError, "plan: steps must be an integer"),
        ((10, "8 XB", 100), ValueError, "plan: state_bytes: cannot read '8 XB'"),
        ((10, 8, "100 XB"), ValueError, "plan: memory: cannot read '100 XB'"),
        ((10, None, 100), TypeError, "plan: state_bytes: cannot read None"),
        ((10, 8, 100, "fast"), TypeError, "plan: step_seconds must be a number"),
        ((10, 8, 100, -1.0), ValueError, "plan: step_seconds must be a number of seconds, finite"),
        ((10, 8, 100, 1.0, float("nan")), ValueError, "plan: save_seconds must be a number of seconds, finite"),
        ((10, 8, 100, None, 1.0), TypeError, "plan: save_seconds.*requires step_seconds"),
        ((None, 8, 100, 1.0, 1.0), TypeError, "plan: save_seconds.*requires step_seconds= and steps"),
        ((10, 8, 100, None, None, 1.0), TypeError, "plan: call_seconds.*requires step_seconds= and steps"),
        ((10, 8, 100, 1.0, 1.0, 1.0), TypeError, "plan: states between blocks stay in memory"),
        ((1000, "8 MB", "31 MB"), ValueError, "a budget of 31 MB is too small for states of 8 MB: at least 32 MB are needed"),
        ((10, 8, 55, 1.0, None, 1.0), ValueError, "at least 56 B are needed, for one that is saved and 6 that are in use"),
    ],
)
def test_errors(arguments, error, reason):
    with pytest.raises(error, match=reason):
        plan(*arguments)
