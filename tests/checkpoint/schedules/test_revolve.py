"""Revolve: the published sequence, the closed form, laziness."""

import tracemalloc
from collections import deque
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoint.schedules import CTZ, Revolve, StoreAll, advances
from checkpoint.schedules.actions import Advance, Drop, Load, Reverse, Save
from checkpoint.schedules.machine import Cursor, executed, simulate

GOLDEN = """
T0 A0-4 T4 A4-7 T7 A7-9 Y9 R7 A7-8 Y8 R7 Y7 R4 A4-5 T5 A5-6 Y6 R5 Y5 R4 Y4
R0 A0-1 T1 A1-2 T2 A2-3 Y3 R2 Y2 R1 Y1 R0 Y0"""


def letters(sequence):
    for action in sequence:
        match action:
            case Save(k):
                yield f"T{k}"
            case Advance(a, b):
                yield f"A{a}-{b}"
            case Load(k):
                yield f"R{k}"
            case Reverse(k):
                yield f"Y{k}"


def test_published_sequence():
    assert list(letters(executed(Revolve(3), Cursor(10)))) == GOLDEN.split()


@pytest.mark.parametrize(
    ("steps", "slots", "advances_", "saves"), [(10, 3, 15, 6), (14, 3, 27, 6), (50, 7, 105, 28), (1000, 10, 3636, 714)]
)
def test_counts(steps, slots, advances_, saves):
    counts = simulate(Revolve(slots), steps)
    assert (counts.advances, counts.saves, counts.peak_states) == (advances_, saves, slots)


@given(st.integers(0, 400), st.integers(1, 40))
@settings(max_examples=150, deadline=None)
def test_legal_and_optimal(steps, slots):
    counts = simulate(Revolve(slots), steps)
    assert counts.advances == advances(steps, slots)
    assert counts.pulls == steps
    assert counts.peak_states == Revolve(slots).limit(steps) <= slots


def test_lazy_without_limits():
    schedule = Revolve(30)
    forward = list(schedule.forward(10**9))
    saved = [action.index for action in forward if type(action) is Save]
    assert forward[0] == Save(0) and len(saved) == 30 and forward[-1].stop == 10**9 - 1
    reverse = [action for action in islice(schedule.reverse(10**9, saved), 10**4) if type(action) is Reverse]
    assert [action.index for action in reverse] == list(range(10**9 - 1, 10**9 - 1 - len(reverse), -1))


def test_memory_is_that_of_the_slots():
    schedule = Revolve(10)
    saved = [action.index for action in schedule.forward(20_000) if type(action) is Save]
    deque(schedule.reverse(20_000, saved), maxlen=0)  # fill the cache of splits, which is bounded
    tracemalloc.start()
    deque(schedule.reverse(20_000, saved), maxlen=0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20_000


@pytest.mark.parametrize("schedule", [CTZ(), Revolve(3), StoreAll()], ids=repr)
def test_a_state_is_dropped_before_the_pull_that_uses_it_up(schedule):
    """A pull needs memory of its own: nothing is kept during it that is not needed later."""
    saved = set()
    for action in executed(schedule, Cursor(60)):
        match action:
            case Save(k):
                saved.add(k)
            case Drop(k):
                saved.remove(k)
            case Reverse(k):
                assert k not in saved
