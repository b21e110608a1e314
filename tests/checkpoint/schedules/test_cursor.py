"""The cursor: what actions mean on indices; `test_machine` and the tests of schedules run whole schedules through it."""

from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoint.schedules import CTZ, Online, Periodic, Revolve, StoreAll
from checkpoint.schedules.actions import Advance, Drop, Load, Reverse, Save
from checkpoint.schedules.cursor import Cursor, ScheduleError

SCHEDULES = [CTZ(), CTZ(refill="bisect"), Revolve(3), Periodic(4), Online(3), StoreAll()]


@given(st.sampled_from(SCHEDULES), st.integers(1, 70), st.data())
def test_a_sweep_that_is_cut_anywhere_goes_on_from_where_the_cursor_stands(schedule, steps, data):
    whole = list(schedule.forward(steps))
    cut = data.draw(st.integers(0, len(whole)))
    cursor, actions = Cursor(steps), schedule.forward(steps)
    cursor.run(islice(actions, cut))
    assert list(actions) == whole[cut:]
    cursor.run(whole[cut:])
    assert cursor.working == steps - 1
    cursor.end_forward(steps)
    reverse = list(schedule.reverse(steps, sorted(cursor.saved)))
    cut = data.draw(st.integers(0, len(reverse)))
    cursor.run(reverse[:cut])
    assert cursor.next == steps - sum(type(action) is Reverse for action in reverse[:cut])
    cursor.run(reverse[cut:])
    cursor.check_end()


@pytest.mark.parametrize(
    "actions, reason",
    [
        ([Advance(1, 2)], "working state is x_0"),
        ([Load(0)], "it is not saved"),
        ([Drop(0)], "it is not saved"),
        ([Save(0), Save(0)], "saved already"),
        ([Reverse(4)], "steps from 5 on are reversed"),
        ([Advance(0, 5)], "needed next is x_4"),
        (["save"], "not an action"),
    ],
)
def test_what_is_not_legal_raises(actions, reason):
    with pytest.raises(ScheduleError, match=reason):
        Cursor(5).run(actions)


def test_a_sweep_of_unknown_length_may_save_the_state_before_the_working_one():
    cursor = Cursor(None)
    cursor.run([Advance(0, 1), Advance(1, 2), Save(1)])
    assert cursor.saved == {1} and cursor.working == 2
    with pytest.raises(ScheduleError, match=r"Save\(index=0\)"):
        cursor.run([Save(0)])
