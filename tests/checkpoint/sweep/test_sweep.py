"""The driver: right gradients, the same bits under every schedule, a step owns its states, nothing is left behind."""

import math
import weakref
from itertools import pairwise

import numpy as np
import pytest
from in_groups import for_each
from step_kinds import GRID, STEPS, in_place, mix, mix_pull, spoiling_pull

from checkpoint.schedules import CTZ, Mixed, Online, Periodic, Revolve, StoreAll, Tiered
from checkpoint.schedules.machine import simulate
from checkpoint.storage import Memory
from checkpoint.sweep import Result, Sweep, reverse
from checkpoint.sweep.stats import Stats

SCHEDULES = [StoreAll(), CTZ(), CTZ("bisect"), Revolve(1), Revolve(3), Revolve(100), Periodic(), Periodic(3), Online(3)]
every_schedule = pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)


# ---------------------------------------------------------------------------------------------------- numbers


def third(k, x):
    return x / 3 + 2


def third_pull(k, x, g):
    return g / 3


@every_schedule
@for_each("steps", [0, 1, 2, 3, 16, 17, 33], str)
def test_a_third_again_and_again(schedule, steps):
    result = reverse(third, third_pull, 1.0, 1.0, steps=steps, schedule=schedule)
    assert isinstance(result, Result)
    assert result.cotangent == pytest.approx(3.0**-steps, rel=1e-14)
    assert result.final == pytest.approx(3 - 2 * 3.0**-steps, rel=1e-14)


def test_a_long_chain():
    stats = reverse(third, third_pull, 1.0, 1.0, steps=100_000).stats
    assert (stats.advances, stats.pulls, stats.peak_states) == (595_989 + 1, 100_000, 18)


def test_no_steps_gives_everything_back():
    g = np.ones((2, 3))
    result = reverse(third, third_pull, np.zeros((2, 3)), g, steps=0)
    assert np.array_equal(result.cotangent, g) and np.array_equal(result.final, np.zeros((2, 3)))
    assert result.stats.saves == result.stats.advances == result.stats.pulls == 0


# ------------------------------------------------------------------------------------- a step with array states


@pytest.mark.parametrize("step", STEPS)
@every_schedule
def test_every_call_gets_the_canonical_layout(step, schedule):
    inner = STEPS[step]()

    def checked(k, x):
        assert x.flags.carray
        return inner(k, x)

    def checked_pull(k, x, g):
        assert x.flags.carray
        return mix_pull(k, x, g)

    reverse(checked, checked_pull, GRID.T.copy().T, GRID, steps=9, schedule=schedule)


def test_second_order_of_a_taylor_test():
    """f(x + h v) - f(x) - h <gradient, v> is of order h^2: halving h divides it by four."""

    def loss(x):
        return float(np.sum(reverse(mix, mix_pull, x, np.ones_like(x), steps=30).final ** 2))

    gradient = reverse(mix, mix_pull, GRID, lambda x: 2 * x, steps=30).cotangent
    v = np.sin(7 * GRID)
    rests = [abs(loss(GRID + h * v) - loss(GRID) - h * np.sum(gradient * v)) for h in (1e-3, 5e-4, 2.5e-4)]
    rates = [math.log2(a / b) for a, b in pairwise(rests)]
    assert min(rates) > 1.9 and max(rates) < 2.1


# ------------------------------------------------------------------------------------------ states of other kinds


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
    h = 0.1

    def step(k, pair):
        new = pair[0] + h * (-1.5 * pair[0] + 0.5 * pair[1])
        pair[1] = pair[0]
        pair[0] = new
        return pair

    def pull(k, pair, g):
        return ((1 - 1.5 * h) * g[0] + g[1], 0.5 * h * g[0])

    matrix = np.array([[1 - 1.5 * h, 0.5 * h], [1, 0]])
    expected = np.linalg.matrix_power(matrix.T, 25) @ [1.0, 0.0]
    start = [1.0, math.exp(h)]
    result = reverse(step, pull, start, (1.0, 0.0), steps=25, schedule=schedule)
    assert np.allclose(result.cotangent, expected, rtol=1e-13)
    assert start == [1.0, math.exp(h)]


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


# ----------------------------------------------------------------------------- what rides along in the cotangent


@every_schedule
def test_a_loss_along_the_trajectory(schedule):
    """sum of x_i^2 / 2 for i = 0 ... N: the share of x_i is added before the pull of step i-1."""
    result = reverse(third, lambda k, x, g: g / 3 + x, 1.0, lambda x: x, steps=20, schedule=schedule)
    expected = sum((3 - 2 * 3.0**-i) * 3.0**-i for i in range(21))
    assert result.cotangent == pytest.approx(expected, rel=1e-13)


# -------------------------------------------------------------------------------------------------- two phases


@every_schedule
def test_final_state_belongs_to_the_caller(schedule):
    sweep = Sweep(in_place, GRID, steps=6, schedule=schedule)
    final = sweep.forward()
    kept = final.copy()
    final.fill(np.nan)
    g = sweep.backward(mix_pull, GRID)
    assert np.array_equal(g, reverse(mix, mix_pull, GRID, GRID, steps=6).cotangent)
    assert np.array_equal(sweep.forward(), kept)


def test_seed_may_spoil_or_return_what_it_is_given():
    def seed(x):
        x *= 0
        return x

    result = reverse(mix, spoiling_pull, GRID, seed, steps=5)
    assert np.array_equal(result.final, reverse(mix, mix_pull, GRID, GRID, steps=5).final)
    assert not np.any(result.cotangent)
    result = reverse(mix, spoiling_pull, GRID, lambda x: x, steps=5)
    assert np.all(np.isfinite(result.final))


@every_schedule
def test_backward_again_runs_forward_again(schedule):
    sweep = Sweep(mix, GRID, steps=13, schedule=schedule)
    sweep.forward()
    first = sweep.backward(mix_pull, GRID)
    advances = sweep.stats.advances
    assert np.array_equal(sweep.backward(mix_pull, GRID), first)
    assert np.array_equal(sweep.backward(mix_pull, 2 * GRID), 2 * first)
    assert sweep.stats.advances == 3 * advances


def test_initial_state_is_copied_at_once():
    x0 = GRID.copy()
    sweep = Sweep(mix, x0, steps=5)
    x0.fill(0)
    assert np.array_equal(sweep.forward(), reverse(mix, mix_pull, GRID, GRID, steps=5).final)


@every_schedule
@pytest.mark.parametrize("steps", [0, 1, 2, 30])
def test_stats_are_those_of_the_machine(schedule, steps):
    stats = Stats(reason="because")
    reverse(third, third_pull, 1.0, 1.0, steps=steps, schedule=schedule, stats=stats)
    counts = simulate(schedule, steps)
    newest = steps > 0 and not isinstance(schedule, Revolve | Online)  # x_{N-1} is saved, and loaded once for the reverse sweep
    newest = newest or (steps == 1)
    assert (stats.steps, stats.pulls, stats.saves) == (steps, counts.pulls, counts.saves)
    assert stats.advances == counts.advances + bool(steps)
    assert stats.loads == counts.loads + newest
    assert (stats.peak_states, stats.peak_bytes) == (counts.peak_states, 8 * counts.peak_states)
    assert stats.seconds > 0 and stats.schedule == repr(schedule) and stats.reason == "because"


# --------------------------------------------------------------------------------------------- unknown length


class Below:
    """A predicate that remembers what it was asked."""

    def __init__(self, bound):
        self.bound, self.asked = bound, []

    def __call__(self, k, x):
        self.asked.append(k)
        return x < self.bound


def halve(k, x):
    return x / 2 + 0.001 * k


def halve_pull(k, x, g):
    return g / 2


@pytest.mark.parametrize("schedule", [CTZ(), CTZ("bisect"), StoreAll(), Periodic(3), Online(1), Online(3)], ids=repr)
@pytest.mark.parametrize("start", [0.5, 1.5, 3.0, 1e3])
def test_until(schedule, start):
    until = Below(1.0)
    result = reverse(halve, halve_pull, start, 1.0, until=until, schedule=schedule)
    steps = result.stats.steps
    known = reverse(halve, halve_pull, start, 1.0, steps=steps)
    assert result[:2] == known[:2] and result.final < 1.0
    assert until.asked == list(range(steps + 1)), "asked once before every step, and never again on a replay"
    counts = simulate(schedule, steps, known=False)
    assert (result.stats.saves, result.stats.advances) == (counts.saves, counts.advances + bool(steps))
    assert result.stats.peak_states == counts.peak_states


def test_until_again():
    until = Below(1.0)
    sweep = Sweep(halve, 100.0, until=until)
    sweep.forward()
    asked = len(until.asked)
    assert sweep.backward(halve_pull, 1.0) == sweep.backward(halve_pull, 1.0)
    assert len(until.asked) == asked


def test_max_steps():
    assert reverse(halve, halve_pull, 1.5, 1.0, until=lambda k, x: k == 7, max_steps=7).stats.steps == 7
    sweep = Sweep(halve, 1.5, until=lambda k, x: False, max_steps=7)
    with pytest.raises(RuntimeError, match="still not true after max_steps=7"):
        sweep.forward()
    assert len(sweep._session) == 0


@pytest.mark.parametrize("schedule", [Revolve(3), Tiered(2, 2)], ids=repr)
def test_schedules_that_need_the_length_say_so(schedule):
    with pytest.raises(ValueError, match=rf"{type(schedule).__name__}: steps is None.*CTZ\(\)"):
        reverse(halve, halve_pull, 1.5, 1.0, until=lambda k, x: k > 3, schedule=schedule)


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
