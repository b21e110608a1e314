"""chain: traps of references section 3, in every mode and under every schedule."""

import threading

import numpy as np
import optree
import pytest

import dualad
from checkpoint import (
    CTZ,
    Disk,
    Memory,
    Online,
    Periodic,
    Revolve,
    Stats,
    StoreAll,
    Tiered,
    chain,
    grad,
    hvp,
    jacobian,
    linearize,
    value_and_grad,
    vjp,
)
from checkpoint.schedules import Mixed, advances

SCHEDULES = [CTZ(), CTZ("bisect"), Revolve(1), Revolve(3), Revolve(50), StoreAll(), Mixed(1), Mixed(4)]


def halve(k, x):
    return x / 3 + 2


def wave(k, state, speed):
    """A mixed state: arrays, a number, an integer, None and a text."""
    field, energy, label = state["field"], state["energy"], state["label"]
    field = field + speed * (np.roll(field, 1) - 2 * field + np.roll(field, -1)) * np.cos(energy)
    return {"field": field, "energy": energy + 0.1 * np.sum(field**2) * (1 + k), "label": label, "none": None, "count": state["count"]}


FLOATS = {"field": np.array([1.0, -0.5, 0.25, 2.0]), "energy": 0.3}


def wave_loss(floats, speed, steps=13, **options):
    """Differentiate by the floats; the other leaves join here."""
    final = chain(wave, {**floats, "label": "wave", "none": None, "count": 7}, speed, steps=steps, **options)
    assert final["label"] == "wave" and final["none"] is None and final["count"] == 7
    return np.sum(np.sin(final["field"])) * final["energy"]


# --- values and gradients -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("steps", [0, 1, 2, 3, 16, 100])
def test_linear_map_has_its_closed_form(schedule, steps):
    stats = Stats()
    value, gradient = value_and_grad(lambda x: chain(halve, x, steps=steps, schedule=schedule, stats=stats))(1.0)
    assert value == pytest.approx(3.0 - 2.0 * 3.0**-steps, rel=1e-12)
    assert gradient == pytest.approx(3.0**-steps, rel=1e-12)
    assert (stats.steps, stats.pulls) == (steps, steps)


def test_power_chain():
    gradient = grad(lambda x: chain(lambda k, x: x**1.01, x, steps=100))(4.2)
    exponent = 1.01**100
    assert gradient == pytest.approx(exponent * 4.2 ** (exponent - 1), rel=1e-12)


@pytest.mark.parametrize("schedule", [Revolve(3), Revolve(10), Revolve(1000)], ids=str)
def test_advances_are_the_closed_form(schedule):
    stats = Stats()
    grad(lambda x: chain(halve, x, steps=100, schedule=schedule, stats=stats))(1.0)
    assert stats.advances == advances(100, schedule.slots) + 1
    assert stats.peak_states <= schedule.slots


@pytest.mark.parametrize(("steps", "count"), [(16, 28), (100, 274), (1000, 3781)])
def test_advances_of_ctz(steps, count):
    stats = Stats()
    grad(lambda x: chain(halve, x, steps=steps, stats=stats))(1.0)
    assert stats.advances == count + 1
    assert stats.peak_states <= (steps - 1).bit_length() + 1


def test_gradient_has_the_same_bits_under_every_schedule():
    def gradient(schedule):
        by_state, by_speed = grad(wave_loss, argnums=(0, 1))(FLOATS, 0.1, schedule=schedule)
        return [*map(np.asarray, (by_state["field"], by_state["energy"], by_speed))]

    reference = gradient(StoreAll())
    for schedule in SCHEDULES:
        for ours, theirs in zip(gradient(schedule), reference, strict=True):
            assert ours.tobytes() == theirs.tobytes(), schedule


def test_gradient_against_central_differences_and_forward_mode():
    by_state, by_speed = grad(wave_loss, argnums=(0, 1))(FLOATS, 0.1)
    h = 1e-6
    numeric = (wave_loss(FLOATS, 0.1 + h) - wave_loss(FLOATS, 0.1 - h)) / (2 * h)
    assert by_speed == pytest.approx(numeric, rel=1e-7)
    forward = dualad.gradient(wave_loss, argnums=(0, 1))(FLOATS, 0.1)
    np.testing.assert_allclose(by_state["field"], forward[0]["field"], rtol=1e-12)
    assert (by_state["energy"], by_speed) == pytest.approx((forward[0]["energy"], forward[1]), rel=1e-12)


def test_taylor_rate_is_two():
    gradient = grad(lambda c: wave_loss(FLOATS, c))(0.1)
    value = wave_loss(FLOATS, 0.1)
    remainders = [abs(wave_loss(FLOATS, 0.1 + h) - value - h * gradient) for h in (4e-5, 2e-5, 1e-5)]
    rates = np.log2(np.divide(remainders[:-1], remainders[1:]))
    assert np.all(np.abs(rates - 2.0) < 0.05)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_hvp_through_a_chain(schedule):
    x, v = np.array([0.4, 1.2, -0.3]), np.array([1.0, -2.0, 0.5])

    def f(x):
        return np.sum(chain(lambda k, y, a: y + 0.1 * np.sin(a * y + k), x, x[0], steps=9, schedule=schedule) ** 2)

    np.testing.assert_allclose(hvp(f, x, v), dualad.hessian(f)(x) @ v, rtol=1e-10)


def test_reverse_over_forward_through_a_chain():
    def f(x):
        return chain(lambda k, y: np.sin(y) * 1.1, x, steps=6)

    ours = grad(lambda x: dualad.derivative(f)(x))(0.7)
    assert ours == pytest.approx(dualad.derivative(f, order=2)(0.7), rel=1e-12)


def test_chain_of_a_chain_and_several_chains():
    def inner(k, x, a):
        return chain(lambda j, y, a: y + 0.01 * np.sin(a * y), x, a, steps=5)

    def f(x, a):
        first = chain(inner, x, a, steps=4)
        return np.sum(chain(inner, first * a, a + 1.0, steps=3) * first)

    x = np.linspace(0.1, 1.0, 4)
    for ours, theirs in zip(grad(f, argnums=(0, 1))(x, 2.0), dualad.gradient(f, argnums=(0, 1))(x, 2.0), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_pullback_may_be_called_again():
    _, pullback = vjp(lambda x, c: chain(lambda k, x, c: x * c, x, c, steps=10), 2.0, 1.1)
    first, second = pullback(1.0), pullback(1.0)
    assert first == second == pytest.approx((1.1**10, 2.0 * 10 * 1.1**9))


def test_jacobian_pulls_many_cotangents_through_one_chain():
    def f(x):
        return chain(lambda k, y: np.tanh(y @ MATRIX), x, steps=7)

    x = np.array([0.1, 0.2, 0.3])
    np.testing.assert_allclose(jacobian(f)(x), dualad.jacobian(f)(x), rtol=1e-12)


MATRIX = np.array([[1.0, 0.2, 0.0], [0.1, 0.9, 0.3], [0.0, -0.4, 1.1]])


# --- inputs and outputs --------------------------------------------------------------------------------------------------


def driven(k, state, row, c):
    x, v = state
    force, gain = row["force"], row["gain"]
    v = v + 0.1 * (np.sin(x) * c + force * gain)
    return (x + 0.1 * v, v), {"x2": x * x, "norm": np.sum(v**2), "k": k}


def by_hand(state, rows, c):
    outs = []
    for k in range(len(rows["force"])):
        state, out = driven(k, state, {name: rows[name][k] for name in rows}, c)
        outs.append(out)
    return state, {name: np.stack([out[name] for out in outs]) for name in outs[0]}


STATE = (np.array([0.3, -0.2]), np.array([0.0, 1.0]))
ROWS = {"force": np.arange(14.0).reshape(7, 2) / 10, "gain": np.linspace(1.0, 2.0, 7)}


def trajectory_loss(program, state, rows, c, **options):
    final, outs = program(state, rows, c, **options)
    return np.sum(final[0]) * np.sum(np.cos(outs["x2"])) + np.sum(outs["norm"] * np.arange(7.0)) + np.sum(outs["k"])


def with_chain(state, rows, c, **options):
    return chain(driven, state, c, inputs=rows, outputs=True, **options)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_inputs_and_outputs_against_the_plain_loop(schedule):
    plain = trajectory_loss(by_hand, STATE, ROWS, 0.7)
    assert trajectory_loss(with_chain, STATE, ROWS, 0.7) == plain
    argnums = (1, 2, 3)
    ours = grad(lambda *a: trajectory_loss(with_chain, *a[1:], schedule=schedule), argnums=argnums)(None, STATE, ROWS, 0.7)
    theirs = dualad.gradient(lambda *a: trajectory_loss(by_hand, *a[1:]), argnums=argnums)(None, STATE, ROWS, 0.7)
    forward = dualad.gradient(lambda *a: trajectory_loss(with_chain, *a[1:]), argnums=argnums)(None, STATE, ROWS, 0.7)
    for mode in (ours, forward):
        for a, b in zip(optree.tree_leaves(mode), optree.tree_leaves(theirs), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13)


def test_inputs_and_outputs_of_second_order_and_many_cotangents():
    f = lambda u: trajectory_loss(with_chain, STATE, {**ROWS, "gain": u}, 0.7)
    u = ROWS["gain"]
    np.testing.assert_allclose(hvp(f, u, u), dualad.hessian(f)(u) @ u, rtol=1e-9)
    path = lambda u: with_chain(STATE, {**ROWS, "gain": u}, 0.7)[1]["norm"]
    np.testing.assert_allclose(jacobian(path)(u), dualad.jacobian(path)(u), atol=1e-13)


def test_pullback_with_outputs_may_be_called_again():
    _, pullback = vjp(lambda x: chain(lambda k, x: (x * 1.1, x), x, steps=4, outputs=True), 2.0)
    assert pullback((1.0, np.zeros(4)))[0] == pytest.approx(1.1**4)
    assert pullback((0.0, np.ones(4)))[0] == pytest.approx(sum(1.1**k for k in range(4)))
    assert pullback((1.0, np.zeros(4)))[0] == pytest.approx(1.1**4)


def test_outputs_of_a_length_found_by_a_predicate():
    def f(x):
        final, outs = chain(lambda k, x: (x / 2, x), x, until=lambda k, x: x < 0.1, outputs=True)
        return final + np.sum(outs)

    assert f(1.0) == pytest.approx(1.9375)
    assert grad(f)(1.0) == dualad.derivative(f)(1.0) == pytest.approx(1.9375)


def test_list_of_layers():
    layers = [lambda k, x, w: np.tanh(x * w), lambda k, x, w: x**2 + k, lambda k, x, w: x * w]
    f = lambda x, w: np.sum(chain(layers, x, w))
    g = lambda x, w: np.sum((np.tanh(x * w) ** 2 + 1) * w)
    x = np.array([0.2, 0.4])
    for ours, theirs in zip(grad(f, argnums=(0, 1))(x, 1.5), grad(g, argnums=(0, 1))(x, 1.5), strict=True):
        np.testing.assert_allclose(ours, theirs)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"inputs": np.ones(3), "steps": 4}, ValueError, "lengths differ: steps 4, inputs 3"),
        ({"inputs": {"a": np.ones(3), "b": np.ones(2)}}, ValueError, r"inputs\['a'\] 3, inputs\['b'\] 2"),
        ({"inputs": 1.0, "steps": 1}, TypeError, "leading axis"),
        ({"inputs": np.ones(3), "until": lambda k, x: True}, TypeError, "until goes with a length"),
        ({"steps": 0, "outputs": True}, ValueError, "at least one step"),
        ({"steps": 2, "outputs": True}, TypeError, r"must return a pair \(state, out\); step 0 returned float64"),
    ],
)
def test_bad_inputs_and_outputs(options, error, text):
    step = (lambda k, x, u: x) if "inputs" in options else (lambda k, x: x)
    for call in (lambda x: chain(step, x, **options), grad(lambda x: chain(step, x, **options))):
        with pytest.raises(error, match=text):
            call(1.0)


# --- schedules and storages of every kind --------------------------------------------------------------------------------

EVERYTHING = [
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
    for a, b in zip(optree.tree_leaves(ours), optree.tree_leaves(reference), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


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
    with pytest.raises(TypeError, match="both given"):
        grad(lambda x: chain(halve, x, steps=3, memory="1 kB", schedule=CTZ()))(1.0)
    with pytest.raises(ValueError, match="too small"):
        grad(lambda x: np.sum(chain(lambda k, x: x * 1.01, x, steps=100, memory="1 kB")))(np.ones(100))


def test_step_that_is_not_deterministic_is_named():
    rng = np.random.default_rng(0)
    f = lambda x: chain(lambda k, x: x * (1.0 + (rng.random() if k == 5 else 0.0)), x, steps=20, check=True)
    with pytest.raises(RuntimeError, match="step 5"):
        grad(f)(1.0)


def test_progress_is_shown_in_both_sweeps(capsys):
    pytest.importorskip("tqdm")
    grad(lambda x: chain(halve, x, steps=10, progress=True))(1.0)
    shown = capsys.readouterr().err
    assert "10/10" in shown


# --- recorded steps --------------------------------------------------------------------------------------------------------


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
    for a, b in zip(*gradients, strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


@pytest.mark.parametrize("slots", [1, 3, 50])
def test_mixed_with_inputs_and_outputs_has_the_bits_of_store_all(slots):
    f = lambda state, rows, c, schedule: trajectory_loss(with_chain, state, rows, c, schedule=schedule)
    for mode in (
        grad(f, argnums=(0, 1, 2)),
        lambda *a: hvp(lambda c: f(STATE, ROWS, c, a[3]), 0.7, 1.0),
        lambda *a: hvp(lambda u: f(STATE, {**ROWS, "gain": u}, 0.7, a[3]), ROWS["gain"], ROWS["gain"]),
        lambda *a: jacobian(lambda u: with_chain(STATE, {**ROWS, "gain": u}, 0.7, schedule=a[3])[1]["norm"])(ROWS["gain"]),
    ):
        for a, b in zip(*(optree.tree_leaves(mode(STATE, ROWS, 0.7, schedule)) for schedule in (Mixed(slots), StoreAll())), strict=True):
            assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


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
    for a, b in zip(f(Mixed(slots)), f(StoreAll()), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


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


def test_records_check_the_closure_and_are_released():
    with pytest.raises(TypeError, match="closes over"):
        grad(lambda c: chain(lambda k, x: x * c, 1.0, steps=9, schedule=Mixed(8)))(2.0)
    _, pullback = vjp(lambda x, c: chain(lambda k, x, c: x * c, x, c, steps=10, schedule=Mixed(4)), 2.0, 1.1)
    assert pullback(1.0) == pullback(1.0) == pytest.approx((1.1**10, 2.0 * 10 * 1.1**9))
    with pytest.raises(ValueError, match=r"does not go with (check=True|Disk.*resume=True)"):
        grad(lambda x: chain(halve, x, steps=3, schedule=Mixed(2), check=True))(1.0)
    with pytest.raises(ValueError, match="Mixed: steps is None"):
        grad(lambda x: chain(halve, x, until=lambda k, x: k == 3, schedule=Mixed(2)))(1.0)


# --- resume ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fail_at", [3, 20, 24, 40, 55])
def test_chain_goes_on_where_it_was_interrupted(tmp_path, fail_at):
    calls = []

    def step(k, x, c):
        calls.append(k)
        if len(calls) == fail_at:
            raise KeyboardInterrupt
        return np.sin(x) * c

    def gradient(storage):
        return grad(lambda x, c: np.sum(chain(step, x, c, steps=20, storage=storage)), argnums=(0, 1))(np.array([0.3, 0.8]), 1.1)

    with pytest.raises(KeyboardInterrupt):
        gradient(Disk(tmp_path / "states", resume=True, every=0))
    before = len(calls)
    resumed = gradient(Disk(tmp_path / "states", resume=True, every=0))
    repeated = len(calls) - before
    calls.clear()
    fail_at = -1
    reference = gradient(Memory())
    for a, b in zip(resumed, reference, strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
    assert repeated <= len(calls) - before + 12  # no more than the lost part again
    assert not (tmp_path / "states").exists() or not list((tmp_path / "states").iterdir())


def test_other_parameters_do_not_resume(tmp_path):
    def step(k, x, c):
        if k == 7 and c == 1.1:
            raise KeyboardInterrupt
        return np.sin(x) * c

    gradient = grad(lambda x, c: chain(step, x, c, steps=20, storage=Disk(tmp_path / "states", resume=True, every=0)))
    with pytest.raises(KeyboardInterrupt):
        gradient(0.3, 1.1)
    with pytest.raises(ValueError, match="differ"):
        gradient(0.3, 1.2)


# --- traps ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_index_is_absolute_on_every_replay(schedule):
    forcing = np.linspace(1.0, 2.0, 20)
    gradient = grad(lambda x: chain(lambda k, x: x * forcing[k], x, steps=20, schedule=schedule))(1.0)
    assert gradient == pytest.approx(np.prod(forcing), rel=1e-12)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_steps_that_write_into_their_state(schedule):
    def in_place(k, x, c):
        x[1:] += c * x[:-1]
        x *= 1.01
        return x

    def pure(k, x, c):
        return np.concatenate([x[:1], x[1:] + c * x[:-1]]) * 1.01

    x = np.array([1.0, 2.0, 3.0])
    f = lambda step: lambda x, c: np.sum(chain(step, x, c, steps=11, schedule=schedule) ** 2)
    for ours, theirs in zip(grad(f(in_place), argnums=(0, 1))(x, 0.3), grad(f(pure), argnums=(0, 1))(x, 0.3), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    assert x.tolist() == [1.0, 2.0, 3.0]


def test_parameter_changed_by_its_owner_after_the_first_sweep():
    c = np.array([1.1, 0.9])
    _, pullback = vjp(lambda x: chain(lambda k, x, c: x * c, x, c, steps=5), np.ones(2))
    c[:] = 0.0
    np.testing.assert_allclose(pullback(np.ones(2))[0], [1.1**5, 0.9**5])


def test_parameter_used_at_every_third_step():
    def step(k, x, c):
        return x * c if k % 3 == 0 else x + 1.0

    gradient = grad(lambda c: chain(step, 2.0, c, steps=10))(1.2)
    h = 1e-6
    numeric = (chain(step, 2.0, 1.2 + h, steps=10) - chain(step, 2.0, 1.2 - h, steps=10)) / (2 * h)
    assert gradient == pytest.approx(numeric, rel=1e-8)


def test_same_function_at_new_parameters():
    f = grad(lambda c: chain(lambda k, x, c: x * c, 1.0, c, steps=5))
    assert f(1.0) == pytest.approx(5.0)
    assert f(2.0) == pytest.approx(5 * 2.0**4)


def test_mixed_precision_state_keeps_its_dtypes():
    def step(k, state):
        return state[0] * np.float32(0.5), state[1] + np.sum(state[0])

    f = lambda a, b: np.sum(chain(step, (a, b), steps=4)[1])
    by_a, by_b = grad(f, argnums=(0, 1))(np.ones(3, np.float32), np.float64(1.0))
    assert by_a.dtype == np.float32
    np.testing.assert_allclose(by_a, np.full(3, 1.875))
    assert by_b == 1.0


def test_length_found_by_a_predicate():
    asked = []

    def until(k, x):
        assert isinstance(x, float)
        asked.append(k)
        return x < 0.1

    stats = Stats()
    gradient = grad(lambda x: chain(lambda k, x: x / 2, x, until=until, max_steps=50, stats=stats))(1.0)
    assert gradient == 2.0**-4
    assert stats.steps == 4
    assert asked == [0, 1, 2, 3, 4]  # in the first sweep only
    with pytest.raises(RuntimeError, match="still not true after max_steps=2"):
        chain(lambda k, x: x / 2, 1.0, until=lambda k, x: x < 0.1, max_steps=2)


def test_object_arrays_in_a_state_are_packed():
    def step(k, x):
        return np.array([x[0] * 1.1, x[0] + x[1]])

    gradient = grad(lambda x: np.sum(chain(step, x, steps=3)))(np.array([1.0, 2.0]))
    np.testing.assert_allclose(gradient, dualad.gradient(lambda x: np.sum(chain(step, x, steps=3)))(np.array([1.0, 2.0])))


def test_many_threads_do_not_meet():
    results = {}

    def work(i):
        results[i] = grad(lambda x: chain(lambda k, x: x * (1 + 0.01 * i), x, steps=50))(1.0)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i, result in results.items():
        assert result == pytest.approx((1 + 0.01 * i) ** 50)
    assert len(results) == 8


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_exception_in_either_sweep_releases_every_state(error):
    calls = []

    def step(k, x):
        calls.append(k)
        if len(calls) == fail_at:
            raise error("stop")
        return x * 1.1

    for fail_at in (5, 30):  # noqa: B007  (read by the step)
        calls.clear()
        storage = Memory()
        sessions = []
        opened = Memory.open
        try:
            Memory.open = lambda self: sessions.append(opened(self)) or sessions[-1]
            with pytest.raises(error):
                grad(lambda x: chain(step, x, steps=20, storage=storage))(1.0)
        finally:
            Memory.open = opened
        assert sessions and all(len(session) == 0 for session in sessions)


# --- bad input ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("steps", "error", "text"),
    [
        (-1, ValueError, "steps must be at least 0, got -1"),
        (2.5, TypeError, "steps must be an integer, got 2.5"),
        (True, TypeError, "steps must be an integer"),
        (None, TypeError, "give either steps=N or"),
    ],
)
@pytest.mark.parametrize("mode", ["plain", "forward", "reverse"])
def test_bad_lengths(steps, error, text, mode):
    f = lambda x: chain(halve, x, steps=steps)
    call = {"plain": f, "forward": dualad.derivative(f), "reverse": grad(f)}[mode]
    with pytest.raises(error, match=text):
        call(1.0)


@pytest.mark.parametrize("mode", ["plain", "forward", "reverse"])
@pytest.mark.parametrize(
    ("step", "text"),
    [
        (lambda k, x: (x, x), "structure"),
        (lambda k, x: x[:-1], r"float64 of shape \(2,\) at state, which was float64 of shape \(3,\)"),
        (lambda k, x: x + 1j, "complex128 of shape"),
        (lambda k, x: x.astype(np.float32), "float32"),
        (lambda k, x: None, "step 0 returned None; return the new state"),
    ],
)
def test_steps_that_change_the_state(step, text, mode):
    f = lambda x: np.sum(np.real(chain(step, x, steps=3)))
    call = {"plain": f, "forward": dualad.gradient(f), "reverse": grad(f)}[mode]
    with pytest.raises(TypeError, match=text):
        call(np.ones(3))


@pytest.mark.parametrize("mode", ["plain", "reverse"])
def test_integer_leaf_that_becomes_a_float_is_named(mode):
    def step(k, state):
        return {"x": state["x"] * 1.5, "n": state["n"] * 0.5}

    f = lambda x: chain(step, {"x": x, "n": 3}, steps=3)["x"]
    with pytest.raises(TypeError, match=r"state\['n'\], which was int64"):
        (f if mode == "plain" else grad(f))(1.0)


def test_closure_over_a_traced_value_raises():
    def f(c):
        return chain(lambda k, x: x * c, 1.0, steps=3)

    for call in (grad(f), dualad.derivative(f)):
        with pytest.raises(TypeError, match="closes over"):
            call(2.0)

    def g(x, c):
        return chain(lambda k, x: x * c if k == 2 else x, x, steps=4)

    with pytest.raises((TypeError, RuntimeError), match=r"closes over|derivative call"):
        grad(g, argnums=(0, 1))(1.0, 2.0)


def test_reverse_over_reverse_names_hvp():
    with pytest.raises(TypeError, match="hvp"):
        grad(grad(lambda x: chain(halve, x, steps=3)))(1.0)


def counted(k, state, row, p):
    x, n = state["x"], state["n"]
    x = np.sin(x) * p["a"] + row + 0.1 * k
    return {"x": x, "n": n + 1}, np.sum(x * p["b"])


@pytest.mark.parametrize("made", [lambda f: f, dualad.jit], ids=["eager", "compiled"])
def test_linearize_runs_a_chain_again_in_forward_mode(made):
    step, u = made(counted), np.linspace(0.0, 1.0, 12).reshape(4, 3)
    x, v = np.array([0.3, -0.5, 1.0]), np.array([1.0, 2.0, -0.5])

    def f(x, u, p):
        final, path = chain(step, {"x": x, "n": 0}, p, inputs=u, outputs=True)
        return final["x"], path

    primals, tangents = (x, u, {"a": 0.7, "b": x[::-1]}), (v, -u, {"a": 0.3, "b": x})
    value, push = linearize(f, *primals)
    expected, pushed = dualad.jvp(f, primals, tangents)
    for got, known in zip((*value, *push(*tangents)), (*expected, *pushed), strict=True):
        np.testing.assert_array_equal(got, known)
    zeros = tuple(map(np.zeros_like, primals[:2]))
    assert not any(map(np.any, push(*zeros, {"a": 0.0, "b": 0.0 * x})))
    along = lambda t: np.sum(push(t, u, primals[2])[0] ** 2)
    jacobian = np.stack([push(e, 0 * u, {"a": 0.0, "b": 0.0 * x})[0] for e in np.eye(3)], axis=1)
    np.testing.assert_allclose(grad(along)(v), 2 * jacobian.T @ push(v, u, primals[2])[0], rtol=1e-12)
    second = lambda x: linearize(f, x, u, primals[2])[1](*tangents)[0]
    np.testing.assert_allclose(
        dualad.jvp(second, (x,), (v,))[1],
        dualad.jvp(lambda x: dualad.jvp(f, (x, u, primals[2]), tangents)[1][0], (x,), (v,))[1],
        rtol=1e-12,
    )


def test_linearize_through_chains_of_unknown_length_and_without_steps():
    def f(x):
        return chain(lambda k, x: x / 2, x, until=lambda k, x: x < 0.1)

    value, push = linearize(f, 1.0)
    assert (value, push(1.0)) == (0.0625, 0.0625)
    assert linearize(lambda x: chain(halve, x, steps=0), 3.0)[1](2.0) == 2.0
    assert linearize(lambda x, c: chain(halve, c, steps=3) + x, 3.0, 8.0)[1](2.0, 0.0) == 2.0


def test_linearize_notices_that_a_chain_has_changed():
    held = [2.0]
    _, push = linearize(lambda x: chain(lambda k, x: x * held[0], x, steps=3), 1.0)
    held[0] = 3.0
    with pytest.raises(RuntimeError, match="returned another x_3"):
        push(1.0)


def test_wrong_kinds_of_arguments():
    with pytest.raises(TypeError, match="not a function"):
        chain(3, 1.0, steps=2)
    with pytest.raises(TypeError, match="max_steps goes with until"):
        chain(halve, 1.0, steps=2, max_steps=3)
    with pytest.raises(TypeError, match="schedule must be a Schedule"):
        grad(lambda x: chain(halve, x, steps=2, schedule="ctz"))(1.0)
    with pytest.raises(TypeError, match="storage must be a Storage"):
        grad(lambda x: chain(halve, x, steps=2, storage={}))(1.0)


# --- what changes between the sweeps --------------------------------------------------------------------------------------


class Kind(np.ndarray):
    pass


@pytest.mark.parametrize("schedule", [CTZ(), StoreAll(), Mixed(3)], ids=str)
@pytest.mark.parametrize("held", [np.array([1.5, 0.5]), np.array([2, 3]), np.array([1.5, 0.5]).view(Kind)], ids=["float", "int", "kind"])
@pytest.mark.parametrize("tree", [lambda c: c, lambda c: {"a": [c]}], ids=["leaf", "tree"])
def test_parameters_changed_between_value_and_pullback(schedule, held, tree):
    def step(k, x, c):
        return np.sin(x) * (c["a"][0] if type(c) is dict else c)

    def pull(change):
        c = held.copy()
        given = tree(c)
        _, pullback = vjp(lambda x: chain(step, x, given, steps=9, schedule=schedule), np.ones(2))
        if change:
            c[:] = 0
            if type(given) is dict:
                given["a"][0] = 7.0
                given["a"] = None
        return pullback(np.ones(2))[0]

    assert np.asarray(pull(True)).tobytes() == np.asarray(pull(False)).tobytes() and pull(True).any()


@pytest.mark.parametrize("where", ["param", "inputs", "state"])
@pytest.mark.parametrize("by", ["x", "c"])
def test_an_array_changed_in_place_by_the_program_after_the_chain(where, by):
    """In reverse mode, and in forward over reverse, where the array is a Dual for the chain."""

    def f(x, c, change):
        c = c * 1.0
        y = {
            "param": lambda: chain(lambda k, x, c: x * c[0], x, c, steps=2),
            "inputs": lambda: chain(lambda k, x, c: x * c, x, inputs=c),
            "state": lambda: chain(lambda k, c, x: c * x, c, x, steps=2),
        }[where]()
        if change:
            c[:] = 0.0
        return np.sum(y**2)

    x, c = np.array([1.5, 0.5]), np.array([[1.1, 0.9], [0.7, 2.0]])
    x = c * 2.0 if where == "state" else x
    for verb in (
        lambda change: grad(lambda x, c: f(x, c, change), argnums=(0, 1))(x, c),
        lambda change: dualad.jvp(lambda c: grad(lambda x: f(x, c, change))(x), (c,), (c,)),
        lambda change: hvp(lambda v: f(v, c, change) if by == "x" else f(x, v, change), *[x if by == "x" else c] * 2),
    ):
        for a, b in zip(optree.tree_leaves(verb(True)), optree.tree_leaves(verb(False)), strict=True):
            np.testing.assert_array_equal(a, b)


def write(k, x, c):
    c["a"][0] += 1.0
    return x * c["a"]


def rebind(k, x, c):
    c["a"] = c["a"] * 2.0
    return x * c["a"]


def grow(k, x, c):
    c["b"] = 1.0
    return x * c["a"]


@pytest.mark.parametrize("schedule", [CTZ(), Mixed(4)], ids=str)
@pytest.mark.parametrize("step", [write, rebind, grow])
def test_step_that_changes_its_parameters_raises(step, schedule):
    f = lambda x, c: np.sum(chain(step, x, {"a": c}, steps=5, schedule=schedule))
    x = np.ones(2)
    for call in (
        lambda: grad(f)(x, x),
        lambda: grad(f, argnums=1)(x, x),
        lambda: grad(f, argnums=(0, 1))(x, x),
        lambda: hvp(lambda x: f(x, np.ones(2)), x, x),
        lambda: hvp(lambda c: f(x, c), x, x),
        lambda: dualad.jvp(lambda c: grad(lambda x: f(x, c))(x), (x,), (x,)),
    ):
        with pytest.raises(ValueError, match=r"step( 0)? changed its parameters"):
            call()


def test_step_that_writes_into_its_input_raises():
    def step(k, x, row):
        row *= 2.0
        return x * row

    f = lambda x, u: np.sum(chain(step, x, inputs=u))
    x, u = np.ones(2), np.ones((3, 2))
    for call in (lambda: grad(f)(x, u), lambda: dualad.jvp(lambda u: grad(lambda x: f(x, u))(x), (u,), (u,))):
        with pytest.raises(ValueError, match=r"step( 0)? changed its parameters or inputs"):
            call()


class Model:
    def __init__(self):
        self.rate, self.calls = np.array([1.1, 0.9]), 0

    def step(self, k, x):
        self.calls += 1
        return x * self.rate


RATE = 2.0


@pytest.mark.parametrize("case", ["array", "nonlocal", "global", "attribute", "method", "object", "layers"])
def test_what_a_step_closes_over_changed_between_the_sweeps_raises(case):
    global RATE
    model, array, rate, calls = Model(), np.array([1.1, 0.9]), 0.5, []

    def counted(k, x):
        calls.append(k)
        return x * rate

    step, params = {
        "array": (lambda k, x: x * array, ()),
        "nonlocal": (counted, ()),
        "global": (lambda k, x: x * RATE, ()),
        "attribute": (lambda k, x: x * model.rate, ()),
        "method": (model.step, ()),
        "object": (lambda k, x, m: x * m.rate, (model,)),
        "layers": ([halve, counted, halve, halve, halve], ()),
    }[case]
    f = lambda x: chain(step, x, *params, steps=5)
    _, pullback = vjp(f, np.ones(2))
    vjp(f, np.ones(2))  # counts on
    pullback(np.ones(2))
    array[0], rate, RATE, model.rate = 3.0, 0.25, 3.0, np.ones(2)
    try:
        with pytest.raises(RuntimeError, match=r"step \d, evaluated again from the same state, returned another x_\d"):
            pullback(np.ones(2))
    finally:
        RATE = 2.0
