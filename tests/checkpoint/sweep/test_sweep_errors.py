"""What a sweep does when something goes wrong: it frees every saved state, and says what to do."""

import sys
import threading
from weakref import ref

import numpy as np
import pytest

from checkpoint.schedules import CTZ, Revolve, StoreAll
from checkpoint.storage import Disk, Memory
from checkpoint.sweep import Sweep, reverse
from checkpoint.sweep.stats import Stats

every_schedule = pytest.mark.parametrize("schedule", [StoreAll(), CTZ(), CTZ("bisect"), Revolve(1), Revolve(3)], ids=repr)


def third(k, x):
    return x / 3 + 2


def third_pull(k, x, g):
    return g / 3


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
    known, options = {"steps": 20}, {"schedule": schedule, "storage": storage(tmp_path)}
    cases = [
        (failing(third, 7, error), third_pull, known),
        (failing(third, 19, error), third_pull, known),  # the last step, made by the driver
        (third, failing(third_pull, 11, error), known),
        (third, failing(third_pull, 19, error), known),
        *([(third, third_pull, {"until": failing(lambda k, x: False, 9, error)})] if type(schedule) is not Revolve else []),
    ]
    for step, pull, length in cases:
        sweep = Sweep(step, np.ones(1000), **length, **options)
        with pytest.raises(type(error)):
            sweep.backward(pull, 1.0)
        assert len(sweep._session) == 0 and list(tmp_path.iterdir()) == []
    with pytest.raises(ZeroDivisionError):
        reverse(third, third_pull, np.ones(1000), lambda x: 1 / 0, steps=9, **options)
    assert list(tmp_path.iterdir()) == []


def test_an_exception_in_a_replay_frees_everything():
    step = failing(third, 3, ZeroDivisionError("on the replay"), after=1)
    stats = Stats()
    sweep = Sweep(step, 1.0, steps=20, stats=stats)
    sweep.forward()
    assert len(sweep._session) == 6
    with pytest.raises(ZeroDivisionError):
        sweep.backward(third_pull, 1.0)
    assert len(sweep._session) == 0 and 0 < stats.pulls < 20


def test_a_full_storage_raises_and_is_emptied():
    sweep = Sweep(third, 1.0, steps=20, storage=Memory(slots=3))
    with pytest.raises(RuntimeError, match="all 3 slots hold"):
        sweep.forward()
    assert len(sweep._session) == 0
    assert reverse(third, third_pull, 1.0, 1.0, steps=20, schedule=Revolve(3), storage=Memory(slots=3)).final


def test_a_sweep_that_is_lost_between_its_phases_or_whose_block_ends_frees_its_states():
    sweep = Sweep(third, 1.0, steps=20)
    session = ref(sweep._session)
    sweep.forward()
    assert len(session()) == 6
    del sweep
    assert session() is None
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


LENGTH, COUNT = "give either steps=N or", "steps must be .*; give the number of steps"


@pytest.mark.parametrize(
    ("options", "reason", "error"),
    [
        ({}, LENGTH, TypeError),
        ({"steps": 3, "until": lambda k, x: True}, LENGTH, TypeError),
        ({"steps": 3, "max_steps": 5}, "max_steps= requires until=", TypeError),
        ({"steps": 3, "schedule": "ctz"}, r"schedule must be a Schedule such as CTZ\(\)", TypeError),
        ({"steps": 3, "schedule": CTZ}, "schedule must be a Schedule", TypeError),
        ({"steps": 3, "storage": {}}, r"storage must be a Storage such as Memory\(\)", TypeError),
        ({"steps": 3, "storage": Memory}, "storage must be a Storage", TypeError),
        ({"steps": -1}, COUNT, ValueError),
        *[({"steps": steps}, COUNT, TypeError) for steps in (2.0, True, "9")],
    ],
)
def test_bad_options(options, reason, error):
    with pytest.raises(error, match=f"sweep: {reason}"):
        Sweep(third, 1.0, **options)
    assert reverse(third, third_pull, 1.0, 1.0, steps=np.int32(4)).stats.steps == 4
