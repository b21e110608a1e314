"""What a sweep does when something goes wrong: it frees every saved state, and says what to do."""

import gc
import sys
import threading

import numpy as np
import pytest
from scripted import Script

from checkpoint.schedules import CTZ, Revolve, StoreAll
from checkpoint.schedules.actions import Advance, Load, Record, Reverse, Save
from checkpoint.storage import Disk, Memory
from checkpoint.storage.memory import MemorySession
from checkpoint.sweep import Sweep, reverse
from checkpoint.sweep.stats import Stats

every_schedule = pytest.mark.parametrize("schedule", [StoreAll(), CTZ(), CTZ("bisect"), Revolve(1), Revolve(3)], ids=repr)


def third(k, x):
    return x / 3 + 2


def third_pull(k, x, g):
    return g / 3


# --------------------------------------------------------------------------------------------- nothing is left


class Spy(Memory):
    """A Memory that shows its sessions."""

    def open(self):
        session = super().open()
        SESSIONS.append(session)
        return session


SESSIONS: list[MemorySession] = []


def failing(function, at, error, after=0):
    """Raises `error` when called for step `at` for the time number `after`."""
    times = 0

    def wrapped(k, *rest):
        nonlocal times
        if k == at:
            times += 1
            if times > after:
                raise error
        return function(k, *rest)

    return wrapped


@pytest.mark.parametrize("storage", [lambda folder: Memory(), Disk], ids=["memory", "disk"])
@pytest.mark.parametrize("error", [ZeroDivisionError("here"), KeyboardInterrupt()], ids=["error", "interrupt"])
@every_schedule
def test_an_exception_frees_everything(schedule, error, storage, tmp_path):
    cases = [
        (failing(third, 7, error), third_pull),
        (failing(third, 19, error), third_pull),  # the last step, made by the driver
        (third, failing(third_pull, 11, error)),
        (third, failing(third_pull, 19, error)),
    ]
    for step, pull in cases:
        sweep = Sweep(step, np.ones(1000), steps=20, schedule=schedule, storage=storage(tmp_path))
        with pytest.raises(type(error)):
            sweep.backward(pull, 1.0)
        assert len(sweep._session) == 0 and list(tmp_path.iterdir()) == []


def test_an_exception_in_a_replay_frees_everything():
    step = failing(third, 3, ZeroDivisionError("on the replay"), after=1)
    stats = Stats()
    sweep = Sweep(step, 1.0, steps=20, stats=stats)
    sweep.forward()
    assert len(sweep._session) == 6
    with pytest.raises(ZeroDivisionError):
        sweep.backward(third_pull, 1.0)
    assert len(sweep._session) == 0 and 0 < stats.pulls < 20


def test_an_exception_in_until_or_in_the_seed_frees_everything():
    SESSIONS.clear()
    with pytest.raises(ZeroDivisionError):
        reverse(third, third_pull, 1.0, 1.0, until=failing(lambda k, x: False, 9, ZeroDivisionError()), storage=Spy())
    with pytest.raises(ZeroDivisionError):
        reverse(third, third_pull, 1.0, lambda x: 1 / 0, steps=9, storage=Spy())
    assert len(SESSIONS) == 2 and all(len(session) == 0 for session in SESSIONS)


def test_a_full_storage_raises_and_is_emptied():
    sweep = Sweep(third, 1.0, steps=20, storage=Memory(slots=3))
    with pytest.raises(RuntimeError, match="all 3 slots hold"):
        sweep.forward()
    assert len(sweep._session) == 0
    assert reverse(third, third_pull, 1.0, 1.0, steps=20, schedule=Revolve(3), storage=Memory(slots=3)).final


def test_a_sweep_that_is_lost_between_its_phases_frees_its_states():
    sweep = Sweep(third, 1.0, steps=20)
    session = sweep._session
    sweep.forward()
    assert len(session) == 6
    del sweep
    gc.collect()
    assert len(session) == 0


def test_with_block_and_release():
    with Sweep(third, 1.0, steps=20) as sweep:
        sweep.forward()
        assert len(sweep._session) == 6
    assert len(sweep._session) == 0
    assert sweep.backward(third_pull, 1.0) == pytest.approx(3.0**-20)


def test_one_storage_and_schedule_for_nested_and_parallel_sweeps():
    schedule, storage = CTZ(), Memory()

    def inner(k, x):
        return reverse(third, third_pull, x, 1.0, steps=10, schedule=schedule, storage=storage).final

    def inner_pull(k, x, g):
        return reverse(third, third_pull, x, g, steps=10, schedule=schedule, storage=storage).cotangent

    results = [None] * 4

    def run(i):
        results[i] = reverse(inner, inner_pull, 1.0 + i, 1.0, steps=5, schedule=schedule, storage=storage)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [result.cotangent for result in results] == pytest.approx([3.0**-50] * 4)


def test_no_recursion():
    """A thousand states are saved one inside another, in a hundred frames of stack at most."""
    frame, depth, limit = sys._getframe(), 0, sys.getrecursionlimit()
    while frame is not None:
        frame, depth = frame.f_back, depth + 1
    sys.setrecursionlimit(depth + 100)
    try:
        reverse(third, third_pull, 1.0, 1.0, steps=3000, schedule=Revolve(1000))
    finally:
        sys.setrecursionlimit(limit)


# ---------------------------------------------------------------------------------------------------- misuse


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((Save(0), Advance(1, 2)), ()),
        ((Save(1),), ()),
        ((Save(0), Reverse(0)), ()),
        ((Save(0), Advance(0, 1)), (Reverse(0),)),
        ((Save(0), Advance(0, 1)), (Reverse(1), Reverse(0))),
        ((Save(0), Advance(0, 1)), (Reverse(1), Load(0), Reverse(1))),
        ((Save(0), Advance(0, 1)), (Reverse(1), Load(0), Advance(0, 1), Reverse(1))),
        ((Save(0), Advance(0, 1)), (Reverse(1), Load(0))),
        ((Save(0), Advance(0, 1)), (Reverse(1),)),
        ((Save(0),), ()),
        ((Save(0), Record(0)), ()),
    ],
)
def test_a_wrong_schedule_is_an_error_and_not_a_wrong_gradient(first, second):
    with pytest.raises(RuntimeError, match="sweep: the schedule"):
        reverse(third, third_pull, 1.0, 1.0, steps=2, schedule=Script(first, second))


@pytest.mark.parametrize("first", [(Save(1),), (Load(0),), (Save(0), Advance(0, 1), Save(0))])
def test_a_wrong_schedule_of_unknown_length(first):
    with pytest.raises(RuntimeError, match="sweep: the schedule asks for"):
        reverse(third, third_pull, 1.0, 1.0, until=lambda k, x: k == 3, schedule=Script(first))


def test_something_else_in_a_schedule():
    with pytest.raises(TypeError, match="'stop', which is not an action"):
        reverse(third, third_pull, 1.0, 1.0, steps=2, schedule=Script(("stop",)))


@pytest.mark.parametrize(("steps", "error"), [(-1, ValueError), (2.0, TypeError), (True, TypeError), ("9", TypeError)])
def test_bad_steps(steps, error):
    with pytest.raises(error, match=r"sweep: steps must be .*; give the number of steps"):
        Sweep(third, 1.0, steps=steps)


def test_numpy_integers_are_integers():
    assert reverse(third, third_pull, 1.0, 1.0, steps=np.int32(4)).stats.steps == 4


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "give either steps=N or"),
        ({"steps": 3, "until": lambda k, x: True}, "give either steps=N or"),
        ({"steps": 3, "max_steps": 5}, "max_steps goes with until"),
        ({"steps": 3, "schedule": "ctz"}, r"schedule must be a Schedule such as CTZ\(\)"),
        ({"steps": 3, "schedule": CTZ}, "schedule must be a Schedule"),
        ({"steps": 3, "storage": {}}, r"storage must be a Storage such as Memory\(\)"),
        ({"steps": 3, "storage": Memory}, "storage must be a Storage"),
    ],
)
def test_bad_options(options, reason):
    with pytest.raises(TypeError, match=f"sweep: {reason}"):
        Sweep(third, 1.0, **options)
