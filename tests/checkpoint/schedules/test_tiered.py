"""Tiered: the actions of Revolve, the busiest places in memory."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from checkpoint.schedules import Revolve, Tiered
from checkpoint.schedules.actions import Drop, Load, Save
from checkpoint.schedules.machine import Cursor, executed, simulate
from checkpoint.schedules.tiered import traffic


def counted(steps, slots):
    """Writes and reads of each place, action by action."""
    stack, writes, reads = [], Counter(), Counter()
    for action in executed(Revolve(slots), Cursor(steps)):
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
