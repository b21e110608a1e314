"""The driver: right gradients, the same bits under every schedule, a step owns its states, nothing is left behind."""

import math
import weakref

import numpy as np
import pytest
from step_kinds import GRID, in_place, mix, mix_pull, spoiling_pull

from checkpoint.schedules import CTZ, Mixed, Online, Periodic, Revolve, StoreAll
from checkpoint.storage import Memory
from checkpoint.sweep import Sweep, reverse

SCHEDULES = [StoreAll(), CTZ(), CTZ("bisect"), Revolve(1), Revolve(3), Revolve(100), Periodic(), Periodic(3), Online(3)]
every_schedule = pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)


@every_schedule
def test_leaves_that_are_not_numbers_stay_verbatim(schedule):
    seen = []

    def step(k, state):
        seen.append(tuple(type(leaf) for leaf in state.values()))
        return {**state, "u": state["u"] * 2, "n": state["n"] + 1}

    state = {"u": np.ones(2), "n": 0, "flag": True, "name": "run", "none": None, "x": np.float32(2)}
    result = reverse(step, lambda k, x, g: (x["n"] == k) * 2 * g, state, 1.0, steps=12, schedule=schedule)
    assert result.final["n"] == 12 and result.final["name"] == "run" and result.final["flag"] is True
    assert result.cotangent == 2.0**12
    assert set(seen) == {(np.ndarray, int, bool, str, type(None), np.float32)}


@every_schedule
def test_history_of_a_multi_step_method_is_part_of_the_state(schedule):
    """x_{n+1} = x_n + h (3/2 f(x_n) - 1/2 f(x_{n-1})), f(x) = -x: the state is the pair; a list is mutated in place."""
    matrix = np.array([[0.85, 0.05], [1.0, 0.0]])  # h = 0.1

    def step(k, pair):
        pair[:] = matrix @ pair
        return pair

    start = [1.0, math.exp(0.1)]
    result = reverse(step, lambda k, pair, g: matrix.T @ g, start, np.array([1.0, 0.0]), steps=25, schedule=schedule)
    assert np.allclose(result.cotangent, np.linalg.matrix_power(matrix.T, 25) @ [1.0, 0.0], rtol=1e-13)
    assert start == [1.0, math.exp(0.1)]


@every_schedule
def test_a_foreign_state_is_copied_as_the_storage_says(schedule):
    class Box:
        def __init__(self, value):
            self.value = value

    def step(k, box):
        box.value = math.sin(box.value) + k
        return box

    storage = Memory(copy=lambda box: Box(box.value))
    box = Box(0.3)
    result = reverse(step, lambda k, x, g: g * math.cos(x.value), box, 1.0, steps=11, schedule=schedule, storage=storage)
    x, g = 0.3, 1.0
    for k in range(11):
        x, g = math.sin(x) + k, g * math.cos(x)
    assert result.final.value == x and result.cotangent == pytest.approx(g, rel=1e-14)
    assert box.value == 0.3


@every_schedule
def test_a_loss_along_the_trajectory(schedule):
    """sum of x_i^2 / 2 for i = 0 ... N: the share of x_i is added before the pull of step i-1."""
    result = reverse(lambda k, x: x / 3 + 2, lambda k, x, g: g / 3 + x, 1.0, lambda x: x, steps=20, schedule=schedule)
    assert result.cotangent == pytest.approx(sum((3 - 2 * 3.0**-i) * 3.0**-i for i in range(21)), rel=1e-13)


@every_schedule
def test_the_states_given_and_returned_are_the_callers_and_a_sweep_may_begin_again(schedule):
    x0, expected = GRID.copy(), reverse(mix, mix_pull, GRID, GRID, steps=13)
    sweep = Sweep(in_place, x0, steps=13, schedule=schedule)
    x0.fill(0.0)
    sweep.forward().fill(np.nan)
    assert np.array_equal(sweep.backward(mix_pull, GRID), expected.cotangent)
    advances = sweep.stats.advances
    assert np.array_equal(sweep.backward(mix_pull, 2 * GRID), 2 * expected.cotangent)
    assert sweep.stats.advances == 2 * advances and np.array_equal(sweep.forward(), expected.final)


def test_seed_may_spoil_or_return_what_it_is_given():
    def seed(x):
        x *= 0
        return x

    result = reverse(mix, spoiling_pull, GRID, seed, steps=5)
    assert np.array_equal(result.final, reverse(mix, mix_pull, GRID, GRID, steps=5).final)
    assert not np.any(result.cotangent)
    result = reverse(mix, spoiling_pull, GRID, lambda x: x, steps=5)
    assert np.all(np.isfinite(result.final))


def test_until_is_asked_in_the_first_sweep_alone_and_max_steps_ends_it():
    asked = []
    sweep = Sweep(lambda k, x: x / 2, 100.0, until=lambda k, x: asked.append(k) or x < 1.0, max_steps=7)
    assert sweep.backward(lambda k, x, g: g / 2, 1.0) == sweep.backward(lambda k, x, g: g / 2, 1.0) == 2.0**-7
    assert asked == list(range(8))
    sweep = Sweep(lambda k, x: x, 1.5, until=lambda k, x: False, max_steps=7)
    with pytest.raises(RuntimeError, match="still not true after max_steps=7"):
        sweep.forward()
    assert len(sweep._session) == 0


class Pullback:
    """What a record gives, which says how much it holds."""

    nbytes = 1000

    def __call__(self, g):
        return 2.0 * g


def test_records_count_in_the_bytes_as_they_say():
    x, record = np.ones(10), lambda k, x: (2.0 * x, Pullback())
    result = reverse(lambda k, x: 2.0 * x, lambda k, x, g: 2.0 * g, x, x, steps=10, schedule=Mixed(3), record=record)
    assert result.stats.peak_states == 3 and result.stats.peak_bytes == 3000, "three records"
    assert np.array_equal(result.cotangent, 1024.0 * x)


@every_schedule
def test_what_a_pull_was_handed_is_freed_before_the_next_one(schedule):
    handed = []

    def pull(k, x, g):
        assert not any(reference() is not None for reference in handed)
        handed[:] = weakref.ref(x), weakref.ref(g)
        return 2.0 * g

    reverse(lambda k, x: 2.0 * x, pull, np.ones(3), np.ones(3), steps=8, schedule=schedule)


def test_rows_are_kept_by_a_durable_storage_alone():
    sweep = Sweep(lambda k, x: sweep.add_row(k, [x]) or 2.0 * x, 1.0, steps=3)
    assert sweep.forward() == 8.0 and sweep.backward(lambda k, x, g: 2.0 * g, 1.0) == 8.0
