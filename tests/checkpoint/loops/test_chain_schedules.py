"""chain: every schedule, storage and option gives the same bits; recorded steps."""

import numpy as np
import pytest
from calls import bits
from chains import FLOATS, ROWS, SCHEDULES, STATE, trajectory_loss, wave_loss, with_chain

from checkpoint import Disk, Memory, Online, Periodic, Revolve, Stats, StoreAll, Tiered, chain, grad, hvp, jacobian, vjp
from checkpoint.schedules import Mixed

EVERYTHING = [
    *({"schedule": schedule} for schedule in SCHEDULES),
    {"schedule": Periodic()},
    {"schedule": Periodic(every=4)},
    {"schedule": Online(3)},
    {"schedule": Tiered(2, 3)},
    {"storage": Disk()},
    {"storage": Memory(compress="zlib")},
    {"check": True},
    {"memory": 150_000},
    {"schedule": Revolve(2, costs=[1 + k % 3 for k in range(13)])},
    {"schedule": Mixed(3)},
    {"schedule": Mixed(3), "storage": Disk()},
    {"schedule": Mixed(20)},
]


@pytest.mark.parametrize("options", EVERYTHING, ids=str)
def test_same_bits_under_every_option(options):
    reference = grad(wave_loss, argnums=(0, 1))(FLOATS, 0.1, schedule=StoreAll())
    ours = grad(wave_loss, argnums=(0, 1))(FLOATS, 0.1, **options)
    assert bits(ours) == bits(reference)


@pytest.mark.parametrize("options", EVERYTHING, ids=str)
def test_second_order_under_every_option(options):
    f = lambda x: wave_loss({"field": x, "energy": 0.3}, 0.1, **options)
    x = FLOATS["field"]
    np.testing.assert_allclose(hvp(f, x, x), hvp(lambda x: wave_loss({"field": x, "energy": 0.3}, 0.1), x, x), rtol=1e-13)


def test_budget_chooses_the_schedule_and_says_why():
    stats = Stats()
    grad(lambda x: np.sum(chain(lambda k, x: x * 1.01, x, steps=100, memory="136 kB", stats=stats)))(np.ones(100))
    slots = stats.peak_states  # what a step takes is measured, and differs from system to system
    assert 8 <= slots <= 24 and stats.schedule == f"Revolve(slots={slots})"
    assert stats.reason.startswith("of 136 kB, ") and f"holds {slots + 3} states of 800 B, {slots} of them saved" in stats.reason
    assert stats.peak_bytes == slots * 800


@pytest.mark.parametrize(("steps", "slots", "total"), [(10, 2, 26), (10, 3, 19), (100, 7, 278), (100, 8, 263)])
def test_mixed_makes_the_fewest_evaluations(steps, slots, total):
    calls, stats = [], Stats()

    def step(k, x, c):
        calls.append(k)
        return x + 0.1 * np.sin(x * c)

    gradients = [
        grad(lambda x, c: np.sum(chain(step, x, c, steps=steps, schedule=schedule, stats=stats)), argnums=(0, 1))(np.ones(3), 1.1)
        for schedule in (StoreAll(), Mixed(slots))
    ]
    assert len(calls) == 2 * steps + total + 3  # and the step to x_N; step 0 is tried in each
    assert (stats.pulls, stats.peak_states) == (steps, slots)
    assert slots * 24 < stats.peak_bytes <= slots * 8 * 24, "states of 24 bytes, and records of a few such arrays"
    assert bits(gradients[0]) == bits(gradients[1])


@pytest.mark.parametrize("slots", [1, 3, 50])
def test_mixed_with_inputs_and_outputs_has_the_bits_of_store_all(slots):
    f = lambda state, rows, c, schedule: trajectory_loss(with_chain, state, rows, c, schedule=schedule)
    for mode in (
        grad(f, argnums=(0, 1, 2)),
        lambda *a: hvp(lambda c: f(STATE, ROWS, c, a[3]), 0.7, 1.0),
        lambda *a: hvp(lambda u: f(STATE, {**ROWS, "gain": u}, 0.7, a[3]), ROWS["gain"], ROWS["gain"]),
        lambda *a: jacobian(lambda u: with_chain(STATE, {**ROWS, "gain": u}, 0.7, schedule=a[3])[1]["norm"])(ROWS["gain"]),
    ):
        assert bits(mode(STATE, ROWS, 0.7, Mixed(slots))) == bits(mode(STATE, ROWS, 0.7, StoreAll()))


@pytest.mark.parametrize("slots", [1, 2, 12])
def test_a_record_is_not_touched_by_the_steps_after_it(slots):
    """Steps that hand on their state as it is, or a view of it, and the next ones write into it."""

    def step(k, x, c):
        if k % 3 == 0:
            return x
        if k % 3 == 1:
            return x[::-1]
        x[1:] += c * np.sin(x[:-1])
        return x

    x = np.array([1.0, 2.0, 3.0])
    f = lambda schedule: grad(lambda x, c: np.sum(chain(step, x, c, steps=12, schedule=schedule) ** 2), argnums=(0, 1))(x, 0.3)
    assert bits(f(Mixed(slots))) == bits(f(StoreAll()))


def test_mixed_is_nan_safe_and_keeps_float32_and_python_floats():
    ratio = lambda x: np.where(x > 0, x / np.where(x > 0, x, 0.0), 0.0)
    guarded = lambda x, schedule: np.sum(chain(lambda k, x: ratio(x), x, steps=4, schedule=schedule))
    x = np.array([0.0, 1.0])
    with np.errstate(all="ignore"):
        assert np.isnan(grad(guarded)(x, Mixed(2))[0])
        safe = [grad(guarded, nan_safe=True)(x, schedule).tolist() for schedule in (Mixed(2), StoreAll())]
    assert safe[0] == safe[1] and not np.isnan(safe[0]).any()
    half = lambda x: np.sum(chain(lambda k, x: x * 0.5 + 0.1, x, steps=5, schedule=Mixed(2)))
    assert grad(half)(np.ones(2, np.float32)).dtype == np.float32 and type(grad(half)(1.0)) is float


def test_a_pullback_of_records_may_be_called_again():
    _, pullback = vjp(lambda x, c: chain(lambda k, x, c: x * c, x, c, steps=10, schedule=Mixed(4)), 2.0, 1.1)
    assert pullback(1.0) == pullback(1.0) == pytest.approx((1.1**10, 2.0 * 10 * 1.1**9))
