"""Online: the published optimum, then within a bound of it, whether the length is known or not."""

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoint.schedules import Online, advances, beta
from checkpoint.schedules.actions import Advance, Drop, Save
from checkpoint.schedules.machine import simulate

FIRST_MISS = {3: (12, 22, 21), 5: (23, 42, 41), 10: (68, 127, 126)}
WORST = {3: 1.21, 5: 1.28, 8: 1.32, 10: 1.33, 21: 1.39}


@pytest.mark.parametrize("slots", [1, 2, 3, 4, 5, 8, 10])
def test_optimal_as_far_as_published(slots):
    for steps in range(beta(slots, 2) + 2):
        assert simulate(Online(slots), steps).advances == advances(steps, slots)


@pytest.mark.parametrize("slots", FIRST_MISS)
def test_the_first_miss(slots):
    steps, here, least = FIRST_MISS[slots]
    assert steps == beta(slots, 2) + 2
    assert (simulate(Online(slots), steps).advances, advances(steps, slots)) == (here, least)


@pytest.mark.parametrize("slots", WORST)
def test_never_far_from_the_optimum(slots):
    lengths = [*range(2, 150), *range(150, 4001, 137), 272, 285, 291]
    worst = max(simulate(Online(slots), steps).advances / advances(steps, slots) for steps in lengths)
    assert worst <= WORST[slots]


@given(st.integers(0, 300), st.integers(1, 12))
def test_no_better_than_the_optimum(steps, slots):
    assert Online(slots).limit(steps) <= slots
    assert advances(steps, slots) <= simulate(Online(slots), steps).advances


def test_unknown_length_saves_one_round_later():
    actions = Online(2).forward(None)
    first = [Save(0), Advance(0, 1), Advance(1, 2), Save(1), Advance(2, 3), Drop(1), Save(2), Advance(3, 4)]
    assert [(type(action), *action) for action in islice(actions, len(first))] == [(type(a), *a) for a in first]
