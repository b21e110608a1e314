"""What all schedules have in common, and their names on the command line."""

import pytest
from in_groups import for_each

from checkpoint.schedules import CTZ, Mixed, Online, Periodic, Revolve, Schedule, StoreAll, Tiered, parse
from checkpoint.schedules.machine import simulate

ALL = [CTZ(), CTZ("bisect"), Revolve(1), Revolve(3), Revolve(100), StoreAll()]
ALL += [Periodic(), Periodic(3), Periodic(segments=3), Online(1), Online(4), Tiered(2, 1)]


@pytest.mark.parametrize("schedule", ALL, ids=repr)
def test_no_steps_no_actions(schedule):
    assert list(schedule.forward(0)) == list(schedule.reverse(0, [])) == []
    assert schedule.limit(0) == 0


@pytest.mark.parametrize("schedule", ALL, ids=repr)
@for_each("steps", [1, 2, 3, 4, 5, 31, 32, 33], str)
def test_small_chains(schedule, steps):
    counts = simulate(schedule, steps)
    assert counts.pulls == steps
    assert counts.peak_states <= schedule.limit(steps)


@pytest.mark.parametrize("schedule", ALL, ids=repr)
@for_each("steps, error", [(-1, ValueError), (2.0, TypeError), (True, TypeError), ("3", TypeError)])
def test_errors_name_the_schedule_at_once(schedule, steps, error):
    name = type(schedule).__name__
    with pytest.raises(error, match=f"{name}: steps must be"):
        schedule.forward(steps)
    with pytest.raises(error, match=f"{name}: steps must be"):
        schedule.reverse(steps, [0])
    with pytest.raises(error, match=f"{name}: steps must be"):
        schedule.limit(steps)


@pytest.mark.parametrize("schedule", [CTZ(), Revolve(3), Periodic(), Online(3), Tiered(2, 1)], ids=repr)
@pytest.mark.parametrize("saved", [[], [1, 2], [0, 5], [0, 2, 1], [0, 0]])
def test_reverse_checks_what_is_saved(schedule, saved):
    with pytest.raises(ValueError, match=f"{type(schedule).__name__}: saved must be ascending"):
        schedule.reverse(5, saved)


def test_unknown_length_names_the_schedules_that_take_it():
    with pytest.raises(ValueError, match=r"Revolve: steps is None.*CTZ\(\) and Online\(slots\)"):
        Revolve(3).forward(None)


def test_all_are_schedules():
    assert all(isinstance(schedule, Schedule) for schedule in ALL)
    assert len(set(ALL)) == len(ALL)


@pytest.mark.parametrize(
    ("text", "schedule"),
    [
        ("ctz", CTZ()),
        ("ctz:bisect", CTZ("bisect")),
        ("ctz:binomial", CTZ()),
        (" revolve:3 ", Revolve(3)),
        ("online:4", Online(4)),
        ("periodic", Periodic()),
        ("periodic:10", Periodic(every=10)),
        ("tiered:4+20", Tiered(4, 20)),
        ("mixed:3", Mixed(3)),
        ("store_all", StoreAll()),
    ],
)
def test_parse(text, schedule):
    assert parse(text) == schedule


NONE = ["", "ctx", "revolve", "revolve:", "revolve:x", "revolve:-1", "online", "periodic:", "tiered:4", "tiered:4+x"]
NONE += ["store_all:3"]


@pytest.mark.parametrize("text", NONE)
def test_parse_lists_the_forms(text):
    with pytest.raises(ValueError, match=r"parse: no schedule is written.*ctz:bisect.*store_all"):
        parse(text)


def test_parse_leaves_arguments_to_the_schedule():
    with pytest.raises(ValueError, match="CTZ: refill"):
        parse("ctz:")
    with pytest.raises(ValueError, match="Revolve: slots must be at least 1"):
        parse("revolve:0")
