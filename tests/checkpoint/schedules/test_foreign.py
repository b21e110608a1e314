"""Schedules of checkpoint-schedules: legal on the machine of integers, with its own step counts, and the same gradients."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoint.schedules import StoreAll, advances, from_checkpoint_schedules
from checkpoint.schedules.machine import simulate
from checkpoint.storage import Disk, Memory
from checkpoint.sweep import reverse

theirs = pytest.importorskip("checkpoint_schedules", reason="the package checkpoint-schedules is not installed")
pytestmark = pytest.mark.filterwarnings("ignore:Numba not available")

MAKERS = {
    "revolve": lambda n: theirs.Revolve(n, 3),
    "h-revolve": lambda n: theirs.HRevolve(n, 2, 3),
    "disk-revolve": lambda n: theirs.DiskRevolve(n, 2),
    "periodic disk-revolve": lambda n: theirs.PeriodicDiskRevolve(n, 2),
    "multistage": lambda n: theirs.MultistageCheckpointSchedule(n, 2, 2),
    "multistage, in memory": lambda n: theirs.MultistageCheckpointSchedule(n, 4, 0),
    "mixed": lambda n: theirs.MixedCheckpointSchedule(n, 3, storage=theirs.StorageType.RAM),
    "two-level": lambda n: theirs.TwoLevelCheckpointSchedule(6, 2, binomial_storage=theirs.StorageType.RAM),
    "all adjoint data": lambda n: theirs.SingleMemoryStorageSchedule(),
    "all on disk": lambda n: theirs.SingleDiskStorageSchedule(),
    "all moved from disk": lambda n: theirs.SingleDiskStorageSchedule(move_data=True),
}


def executed(schedule, steps):
    """Evaluations of steps that it counts itself, and how many steps it reverses from stored adjoint data."""
    total = stored = 0
    for action in schedule:
        match type(action).__name__:
            case "Forward":
                n1 = min(action.n1, steps)
                total += n1 - action.n0
                if action.write_adj_deps and (action.storage.name != "WORK" or n1 - action.n0 > 1):
                    stored += n1 - action.n0 - (n1 == steps)  # the last one is evaluated once in any case
                if action.n1 >= steps and schedule.max_n is None:
                    schedule.finalize(steps)
                last = action
            case "EndForward":
                end = not last.write_adj_deps
            case "EndReverse":
                break
    return total, stored, end


@pytest.mark.parametrize("name", MAKERS)
@given(steps=st.integers(2, 40))
def test_legal_with_its_own_step_counts(name, steps):
    counts = simulate(from_checkpoint_schedules(MAKERS[name](steps)), steps)
    total, stored, end = executed(MAKERS[name](steps), steps)
    assert counts.advances + counts.pulls == total + stored - end
    assert counts.pulls == steps


@pytest.mark.parametrize("slots", [1, 2, 3, 7])
@given(steps=st.integers(2, 60))
def test_its_revolve_is_as_good_as_ours(slots, steps):
    assert simulate(from_checkpoint_schedules(theirs.Revolve(steps, slots)), steps).advances == advances(steps, slots)


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("steps", [0, 2, 3, 23])
def test_same_gradient(name, steps, tmp_path):
    def run(schedule, storage):
        x = np.linspace(-1, 1, 5)
        pull = lambda k, x, g: g + 0.1 * np.cos(x * (k % 3)) * (k % 3) * g
        step = lambda k, x: x + 0.1 * np.sin(x * (k % 3))
        return reverse(step, pull, x, np.ones(5), steps=steps, schedule=schedule, storage=storage)

    schedule = from_checkpoint_schedules(MAKERS[name](max(steps, 1)) if steps else theirs.SingleMemoryStorageSchedule())
    expected = run(StoreAll(), Memory())
    for _ in range(2):
        result = run(schedule, Disk(tmp_path))
        assert result.cotangent.tobytes() == expected.cotangent.tobytes() and result.final.tobytes() == expected.final.tobytes()


@pytest.mark.slow
def test_places_on_disk():
    schedule = from_checkpoint_schedules(theirs.MultistageCheckpointSchedule(30, 2, 2))
    assert schedule.on_disk(30) == {0, 1} and schedule.limit(30) == 4
    assert from_checkpoint_schedules(theirs.Revolve(30, 4)).on_disk(30) == frozenset()
    assert from_checkpoint_schedules(theirs.HRevolve(30, 2, 2)).on_disk(30)


def test_misuse():
    with pytest.raises(TypeError, match="give a schedule of the package checkpoint-schedules, got 'revolve'"):
        from_checkpoint_schedules("revolve")
    begun = theirs.Revolve(10, 3)
    next(begun)
    with pytest.raises(ValueError, match="has begun already"):
        from_checkpoint_schedules(begun)
    schedule = from_checkpoint_schedules(theirs.Revolve(10, 3))
    assert repr(schedule) == "from_checkpoint_schedules(Revolve)"
    with pytest.raises(ValueError, match="made for max_n=10, but the chain has 11 steps"):
        schedule.forward(11)
    with pytest.raises(ValueError, match="saved must be"):
        schedule.reverse(10, [0])
    with pytest.raises(ValueError, match="steps is None"):
        schedule.forward(None)
