"""Periodic: segments, remainders, counts in closed form."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoint.schedules import Periodic
from checkpoint.schedules.actions import Save
from checkpoint.schedules.machine import simulate


def bases(schedule, steps):
    """First states of the segments: what is saved, without the inner states of the last segment."""
    saved = [action.index for action in schedule.forward(steps) if type(action) is Save]
    return [k for k in saved if k - 1 not in saved or k == 0]


@pytest.mark.parametrize(
    ("schedule", "steps", "firsts"),
    [
        (Periodic(every=4), 12, [0, 4, 8]),
        (Periodic(every=4), 13, [0, 4, 8, 12]),
        (Periodic(every=4), 15, [0, 4, 8, 12]),
        (Periodic(segments=3), 12, [0, 4, 8]),
        (Periodic(segments=3), 13, [0, 5, 9]),
        (Periodic(segments=3), 14, [0, 5, 10]),
        (Periodic(), 16, [0, 4, 8, 12]),
        (Periodic(), 17, [0, 5, 10, 15]),
        (Periodic(every=100), 10, [0]),
        (Periodic(segments=1), 10, [0]),
    ],
    ids=str,
)
def test_remainders(schedule, steps, firsts):
    assert bases(schedule, steps) == firsts


@given(st.integers(1, 300), st.integers(1, 60), st.sampled_from(["every", "segments", None]))
def test_counts(steps, size, argument):
    schedule = Periodic(**({argument: size} if argument else {}))
    counts = simulate(schedule, steps)
    firsts = list(schedule._bases(steps))
    assert counts.advances == 2 * steps - (steps - firsts[-1]) - len(firsts)
    assert counts.pulls == steps and counts.peak_states <= schedule.limit(steps)
    lengths = {b - a for a, b in pairwise(firsts)}
    if argument == "segments":
        assert len(firsts) == min(size, steps)
        assert max(lengths, default=0) - (steps - firsts[-1]) <= 1
    elif argument == "every":
        assert lengths <= {size} and 0 < steps - firsts[-1] <= size
    else:
        assert schedule.limit(steps) < 2 * steps**0.5 + 1
