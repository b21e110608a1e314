"""Tiered: the actions of Revolve, the busiest places in memory."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoint.schedules import CTZ, Revolve, StoreAll, Tiered
from checkpoint.schedules.actions import Drop, Load, Save
from checkpoint.schedules.machine import simulate
from checkpoint.schedules.tiered import traffic


def counted(steps, slots):
    """Writes and reads of each place, action by action."""
    stack, writes, reads = [], Counter(), Counter()
    schedule = Revolve(slots)
    forward = list(schedule.forward(steps))
    saved = [action.index for action in forward if type(action) is Save]
    for action in [*forward, *schedule.reverse(steps, saved)]:
        match action:
            case Save(k):
                writes[len(stack)] += 1
                stack.append(k)
            case Drop(k):
                assert stack.pop() == k
            case Load(k):
                reads[stack.index(k)] += 1
    return [(writes[place], reads[place]) for place in range(slots)]


@given(st.integers(1, 300), st.integers(1, 20))
def test_traffic_is_what_the_actions_do(steps, slots):
    assert traffic(steps, slots) == counted(steps, slots)


def test_published_weights():
    assert [use.total for use in traffic(30, 4)] == [4, 9, 14, 17]
    assert Tiered(2, 2).on_disk(30) == {0, 1}


def test_traffic_of_a_long_chain_is_known_at_once():
    use = traffic(10**9, 30)
    assert len(use) == 30 and sum(place.writes for place in use) > 10**8
    assert traffic(10**6, 1) == [(1, 10**6 - 1)]


@given(st.integers(0, 300), st.integers(1, 8), st.integers(0, 12))
def test_on_disk(steps, memory_slots, disk_slots):
    schedule = Tiered(memory_slots, disk_slots)
    assert simulate(schedule, steps) == simulate(Revolve(memory_slots + disk_slots), steps)
    places, on_disk = schedule.limit(steps), schedule.on_disk(steps)
    assert len(on_disk) == max(0, places - memory_slots) and on_disk <= set(range(places))
    use = traffic(steps, places)
    in_memory = set(range(places)) - on_disk
    assert all(use[a].total <= use[b].total for a in on_disk for b in in_memory)


def test_other_schedules_have_nothing_on_disk():
    assert CTZ().on_disk(10) == CTZ().on_disk(None) == Revolve(3).on_disk(10) == StoreAll().on_disk(None) == frozenset()


def test_the_length_has_to_be_known():
    for ask in (Tiered(2, 2).forward, Tiered(2, 2).on_disk):
        with pytest.raises(ValueError, match="Tiered: steps is None"):
            ask(None)


def test_value():
    assert Tiered(2, 3) == Tiered(np.int64(2), 3) and Tiered(2, 3).slots == 5
    assert repr(Tiered(2, 3)) == "Tiered(memory_slots=2, disk_slots=3)"


@pytest.mark.parametrize(("slots", "argument"), [((0, 2), "memory_slots"), ((2, -1), "disk_slots")])
def test_bad_slots(slots, argument):
    with pytest.raises(ValueError, match=f"Tiered: {argument} must be at least"):
        Tiered(*slots)
    with pytest.raises(TypeError, match="Tiered: memory_slots must be an integer"):
        Tiered(2.0, 2)
