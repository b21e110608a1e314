"""What all schedules have in common: values, legal actions, checked arguments, and names on the command line."""

from dataclasses import FrozenInstanceError, fields
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from in_groups import for_each

from checkpoint.schedules import CTZ, Mixed, Online, Periodic, Revolve, Schedule, StoreAll, Tiered, parse
from checkpoint.schedules.actions import Save
from checkpoint.schedules.machine import Counts, simulate

NAMES = {
    "CTZ(refill='binomial')": CTZ(),
    "CTZ(refill='bisect')": CTZ("bisect"),
    "Mixed(slots=3)": Mixed(np.int64(3)),
    "Online(slots=1)": Online(1),
    "Online(slots=4)": Online(np.int64(4)),
    "Periodic()": Periodic(),
    "Periodic(every=3)": Periodic(np.int64(3)),
    "Periodic(segments=3)": Periodic(segments=3),
    "Revolve(slots=1)": Revolve(1),
    "Revolve(slots=3)": Revolve(np.int64(3)),
    "Revolve(slots=100)": Revolve(100),
    "Revolve(slots=3, costs=...)": Revolve(3, np.ones(3)),
    "StoreAll()": StoreAll(),
    "Tiered(memory_slots=2, disk_slots=1)": Tiered(np.int64(2), 1),
}
ALL = [schedule for schedule in NAMES.values() if schedule.__dict__.get("costs") is None]
ENDLESS = [CTZ(), CTZ("bisect"), Online(1), Online(4), Periodic(3), StoreAll()]


def test_they_are_values():
    for name, schedule in NAMES.items():
        assert repr(schedule) == name and isinstance(schedule, Schedule)
        values = {field.name: getattr(schedule, field.name) for field in fields(schedule)}
        assert type(schedule)(**values) == schedule and not any(isinstance(value, np.generic) for value in values.values())
        for field in values:
            with pytest.raises(FrozenInstanceError):
                setattr(schedule, field, 5)
        assert bool(schedule.on_disk(9)) == isinstance(schedule, Tiered)
    assert len(set(NAMES.values())) == len(NAMES)


@pytest.mark.parametrize("schedule", ALL, ids=repr)
def test_small_chains(schedule):
    for steps in (0, 1, 2, 3, 4, 5, 31, 32, 33):
        counts = simulate(schedule, steps)
        assert counts.pulls == steps and counts.peak_states <= schedule.limit(steps)
        assert schedule != StoreAll() or counts == Counts(steps, max(steps - 1, 0), max(steps - 1, 0), steps, steps)


@pytest.mark.parametrize("make", [lambda n: CTZ(), lambda n: CTZ("bisect"), lambda n: StoreAll(), Online, Periodic])
@given(steps=st.integers(0, 300), slots=st.integers(1, 60))
def test_the_same_whether_the_length_is_known(make, steps, slots):
    schedule = make(slots)
    known, unknown = (simulate(schedule, steps, known=known) for known in (True, False))
    assert known._replace(saves=0, peak_states=0) == unknown._replace(saves=0, peak_states=0)
    assert max(known.peak_states, unknown.peak_states) <= schedule.limit(steps)
    assert unknown.peak_states == schedule.limit(steps) or not isinstance(schedule, Periodic)


@pytest.mark.parametrize("schedule", [CTZ(), Online(20), Revolve(20), Tiered(4, 20)], ids=repr)
def test_a_long_chain_starts_at_once(schedule):
    assert next(schedule.forward(10**15)) == Save(0)
    assert len([*islice(schedule.reverse(10**15, [0, 5 * 10**14]), 1000)]) == 1000


@pytest.mark.parametrize("schedule", ALL, ids=repr)
@for_each("steps, error", [(-1, ValueError), (2.0, TypeError), (True, TypeError), ("3", TypeError)])
def test_errors_name_the_schedule_at_once(schedule, steps, error):
    for ask in (schedule.forward, lambda steps: schedule.reverse(steps, [0]), schedule.limit):
        with pytest.raises(error, match=f"{type(schedule).__name__}: steps must be"):
            ask(steps)
    if schedule not in ENDLESS:
        with pytest.raises(ValueError, match=rf"{type(schedule).__name__}: steps is None.*CTZ\(\) and Online\(slots\)"):
            schedule.forward(None)


@pytest.mark.parametrize("schedule", [CTZ(), Revolve(3), Periodic(), Online(3), Tiered(2, 1)], ids=repr)
@for_each("saved", [[], [1, 2], [0, 5], [0, 2, 1], [0, 0]])
def test_reverse_checks_what_is_saved(schedule, saved):
    with pytest.raises(ValueError, match=f"{type(schedule).__name__}: saved must be ascending"):
        schedule.reverse(5, saved)
    with pytest.raises(ValueError, match="StoreAll: saved must hold all 3 states, got 2"):
        StoreAll().reverse(3, [0, 2])


MISUSE = [
    *[(CTZ, {"refill": refill}, ValueError, 'refill must be "binomial".*got') for refill in ("binary", None, 3, [])],
    *[(kind, {"slots": 0}, ValueError, "slots must be at least 1, got 0; give the number of") for kind in (Mixed, Online, Revolve)],
    *[(kind, {"slots": x}, TypeError, "slots must be an integer, got .*; give") for kind in (Mixed, Online, Revolve) for x in (2.0, True)],
    *[(Periodic, {name: 0}, ValueError, f"{name} must be at least 1, got 0; leave it out") for name in ("every", "segments")],
    *[(Periodic, {name: 2.0}, TypeError, f"{name} must be an integer, got .*; leave it out") for name in ("every", "segments")],
    (Periodic, {"every": 3, "segments": 3}, TypeError, "give either every"),
    (Tiered, {"memory_slots": 0, "disk_slots": 2}, ValueError, "memory_slots must be at least 1"),
    (Tiered, {"memory_slots": 2, "disk_slots": -1}, ValueError, "disk_slots must be at least 0"),
    (Tiered, {"memory_slots": 2.0, "disk_slots": 2}, TypeError, "memory_slots must be an integer"),
]


@for_each("kind, arguments, error, reason", MISUSE)
def test_arguments_are_checked(kind, arguments, error, reason):
    with pytest.raises(error, match=f"{kind.__name__}: {reason}"):
        kind(**arguments)


TEXTS = {"ctz": CTZ(), "ctz:bisect": CTZ("bisect"), "ctz:binomial": CTZ(), " revolve:3 ": Revolve(3), "online:4": Online(4)}
TEXTS |= {"periodic": Periodic(), "periodic:10": Periodic(every=10), "tiered:4+20": Tiered(4, 20), "mixed:3": Mixed(3)}
NONE = ["", "ctx", "revolve", "revolve:", "revolve:x", "revolve:-1", "online", "periodic:", "tiered:4", "tiered:4+x", "store_all:3"]


def test_names_on_the_command_line():
    assert {text: parse(text) for text in TEXTS} == TEXTS and parse("store_all") == StoreAll()
    for text in NONE:
        with pytest.raises(ValueError, match=r"parse: no schedule is written.*ctz:bisect.*store_all"):
            parse(text)
    for text, reason in (("ctz:", "CTZ: refill"), ("revolve:0", "Revolve: slots must be at least 1")):
        with pytest.raises(ValueError, match=reason):
            parse(text)
