"""The machine accepts what is legal and names the first action that is not."""

import pytest
from scripted import Script

from checkpoint.schedules.actions import Advance, Drop, Load, Record, Reverse, Save
from checkpoint.schedules.machine import Counts, ScheduleError, simulate

FIRST = (Save(0), Advance(0, 1))
SECOND = (Reverse(1), Load(0), Drop(0), Reverse(0))


def test_a_legal_schedule():
    assert simulate(Script(FIRST, SECOND), 2) == Counts(saves=1, loads=1, advances=1, pulls=2, peak_states=1)


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        ((Save(1),), (), r"Save\(index=1\) is not legal: the working state is x_0"),
        ((Save(0), Save(0)), (), "saved already"),
        ((Advance(1, 2),), (), "working state is x_0"),
        ((Advance(0, 2),), (), "needed next is x_1"),
        ((Advance(0, 0),), (), "needed next"),
        ((Load(1),), (), r"Load\(index=1\).*not saved"),
        ((Drop(1),), (), r"Drop\(index=1\).*not saved"),
        ((*FIRST, Reverse(1)), (), r"Reverse\(index=1\)"),
        ((Save(0),), (), "first sweep of 2 steps ends at x_0"),
        (FIRST, (Reverse(0),), "steps from 2 on are reversed"),
        (FIRST, (Reverse(1), Reverse(0)), "there is no working state"),
        (FIRST, (Load(0), Reverse(1)), "working state is x_0"),
        (FIRST, (Reverse(1), Load(0), Advance(0, 1)), "needed next is x_0"),
        (FIRST, (Reverse(1), Reverse(1)), "steps from 1 on"),
        (FIRST, SECOND[:2], "steps below 1 are not reversed"),
        (FIRST, (Reverse(1), Load(0), Reverse(0)), r"\[0\] are left saved"),
        (("stop",), (), "not an action"),
        ((Record(1),), (), r"Record\(index=1\).*working state is x_0"),
        ((Record(0), Record(1)), (), r"Record\(index=1\).*needed next is x_1"),
        ((Record(0), Save(1)), (Reverse(1), Reverse(0)), r"\[1\] are left saved"),
    ],
)
def test_illegal(first, second, reason):
    with pytest.raises(ScheduleError, match=reason):
        simulate(Script(first, second), 2)


def test_the_limit_is_held():
    first = (Save(0), Advance(0, 1), Save(1), Advance(1, 2))
    with pytest.raises(ScheduleError, match=r"Save\(index=1\).*limit of 1 saved"):
        simulate(Script(first, most=1), 3)


def test_unknown_length_goes_step_by_step():
    with pytest.raises(ScheduleError, match="one step at a time"):
        simulate(Script((Save(0), Advance(0, 2))), 3, known=False)


def test_unknown_length_may_save_the_state_before_the_newest():
    first = (Save(0), Advance(0, 1), Advance(1, 2), Save(1), Advance(2, 3))
    second = (Reverse(2), Load(1), Drop(1), Reverse(1), Load(0), Drop(0), Reverse(0))
    assert simulate(Script(first, second), 3, known=False).saves == 2
    with pytest.raises(ScheduleError, match=r"Save\(index=0\).*working state is x_2"):
        simulate(Script((Advance(0, 1), Advance(1, 2), Save(0), Advance(2, 3))), 3, known=False)
    with pytest.raises(ScheduleError, match=r"Save\(index=1\).*working state is x_2"):
        simulate(Script(first, (Save(1),)), 3, known=True)


@pytest.mark.parametrize(("steps", "error"), [(-1, ValueError), (1.5, TypeError)])
def test_bad_steps(steps, error):
    with pytest.raises(error, match="simulate: steps"):
        simulate(Script(()), steps)
