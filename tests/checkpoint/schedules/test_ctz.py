"""CTZ: the rule, the sets it keeps, its picture of 16 steps, its counts."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoint.schedules import CTZ, advances
from checkpoint.schedules.actions import Advance, Drop, Load, Reverse, Save
from checkpoint.schedules.ctz import advances as advances_of_ctz
from checkpoint.schedules.ctz import saved_set
from checkpoint.schedules.machine import simulate

SETS = """0; 0 1; 0 1 2; 0 2 3; 0 2 3 4; 0 2 4 5; 0 4 5 6; 0 4 6 7; 0 4 6 7 8; 0 4 6 8 9; 0 4 8 9 10; 0 4 8 10 11;
0 8 10 11 12; 0 8 10 12 13; 0 8 12 13 14; 0 8 12 14 15; 0 8 12 14 15 16"""
SETS = [[int(k) for k in text.split()] for text in SETS.split(";")]

COUNTS = {16: (32, 28), 100: (344, 274), 1000: (5028, 3781), 10**4: (65328, 46197), 10**5: (846896, 595989)}


def saved_by_rule(newest):
    """Run the endless first sweep until x_newest is saved."""
    saved = []
    for action in CTZ().forward(None):
        if type(action) is Drop:
            saved.remove(action.index)
        elif type(action) is Save:
            saved.append(action.index)
            if action.index == newest:
                return saved


@pytest.mark.parametrize("newest", range(17))
def test_saved_sets(newest):
    assert saved_set(newest) == SETS[newest]
    assert saved_by_rule(newest) == SETS[newest]
    assert [action.index for action in CTZ().forward(newest + 1) if type(action) is Save] == SETS[newest]


@given(st.integers(1, 3000))
@settings(max_examples=50, deadline=None)
def test_rule_keeps_the_closed_set(newest):
    saved = saved_by_rule(newest)
    assert saved == saved_set(newest)
    assert len(saved) == newest.bit_length() + 1  # floor(log2 i) + 2
    gaps = [b - a for a, b in pairwise(saved)]
    assert all(gap & (gap - 1) == 0 for gap in gaps)


def test_picture_of_sixteen_steps():
    """d from c; b from 8 keeping a; 9 from 8; 7 from 0 keeping 4 and 6; 5 from 4; 3 from 0 keeping 2; 1 from 0."""
    refills, path = [], None
    for action in CTZ("bisect").reverse(16, [0, 8, 12, 14, 15]):
        match action:
            case Load():
                path = [action.index]
            case Advance():
                path.append(action.stop)
            case Reverse() if path and len(path) > 1:
                assert path[-1] == action.index
                refills.append(path)
                path = None
    golden = [[12, 13], [8, 10, 11], [8, 9], [0, 4, 6, 7], [4, 5], [0, 2, 3], [0, 1]]
    assert refills == golden
    assert sum(path[-1] - path[0] for path in refills) == 17


@pytest.mark.parametrize("steps", COUNTS)
def test_counts(steps):
    bisect, binomial = (simulate(CTZ(refill), steps) for refill in ("bisect", "binomial"))
    assert (bisect.advances, binomial.advances) == COUNTS[steps]
    most = (steps - 1).bit_length() + 1
    assert bisect.peak_states == binomial.peak_states == CTZ().limit(steps) == most


def test_the_count_of_advances_is_known_before():
    for steps in (*range(40), 100, 255, 256, 257, 1000):
        assert advances_of_ctz(steps) == simulate(CTZ(), steps).advances


def test_saves_with_and_without_the_length():
    """Knowing N spares exactly the states that would not have survived the first sweep."""
    known, unknown = simulate(CTZ(), 1000), simulate(CTZ(), 1000, known=False)
    assert (known.saves, unknown.saves) == (610, 1599)
    assert unknown.saves - known.saves == 1000 - len(saved_set(999))
    assert known._replace(saves=0) == unknown._replace(saves=0)


@given(st.integers(0, 400), st.sampled_from(["binomial", "bisect"]), st.booleans())
@settings(max_examples=150, deadline=None)
def test_legal_and_within_bounds(steps, refill, known):
    schedule = CTZ(refill)
    counts = simulate(schedule, steps, known=known)
    assert counts.pulls == steps
    levels = (steps - 1).bit_length() if steps else 0
    assert counts.peak_states <= (levels + 1 if steps else 0)
    if steps > 1:
        assert advances(steps, levels + 1) <= counts.advances <= simulate(CTZ("bisect"), steps).advances
        assert counts.advances <= steps * levels


@pytest.mark.parametrize("steps", [1, 2, 3, 16, 17, 100, 333])
def test_bisect_advances_no_step_more_than_log_times_again(steps):
    times = [0] * steps
    for action in CTZ("bisect").reverse(steps, saved_set(steps - 1)):
        if type(action) is Advance:
            for k in range(*action):
                times[k] += 1
    assert max(times) <= (steps - 1).bit_length()
