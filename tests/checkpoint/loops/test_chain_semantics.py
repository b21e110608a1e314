"""chain: under every schedule the plain loop, or an error that says why not. A gradient that would vanish raises."""

from collections import deque
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest

import dualad
from checkpoint import CTZ, Revolve, Stats, StoreAll, chain, grad, hvp, value_and_grad, vjp
from checkpoint import checkpoint as dualad_checkpoint
from checkpoint.schedules import Mixed
from checkpoint.sweep import reverse

SCHEDULES = [CTZ(), CTZ("bisect"), Revolve(1), Revolve(3), StoreAll(), Mixed(1), Mixed(3)]


def derivative_of_loop(step, state, rate, steps, loss):
    """The outside oracle: the plain loop at complex numbers."""

    def loop(rate):
        x = [np.array(leaf, complex) for leaf in state]
        x = tuple(x)
        for k in range(steps):
            x = step(k, x, rate)
        return loss(x)

    return loop(rate).real, loop(rate + 1e-30j).imag / 1e-30


def both(k, s, rate):
    x, best = s
    x *= rate
    return x, (x if k == 0 else best + x)


def views(k, s, rate):
    a, b = s
    a = a * rate
    a[1:] += b[:-1]
    return a, a[::-1]


def written_views(k, s, rate):
    a, b = s
    b += rate * a
    return b, b[::-1]


def swapped(k, s, rate):
    a, b = s
    b += rate * a
    return b, a


def disjoint(k, s, rate):
    whole = np.concatenate(s) * rate
    whole[:2] += 1.0
    return whole[:2], whole[2:]


def shared_but_not_written(k, s, rate):
    y = s[0] * rate + s[1]
    return y, y


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize(
    ("step", "refused"),
    [(both, True), (views, False), (written_views, True), (swapped, False), (disjoint, False), (shared_but_not_written, False)],
)
def test_leaves_that_share_memory_are_the_plain_loop_or_named(step, refused, schedule):
    state = np.array([1.0, 2.0]), np.array([0.5, -1.0])
    loss = lambda s: np.sum(s[1] * s[0])
    f = lambda rate: loss(chain(step, tuple(map(np.copy, state)), rate, steps=6, schedule=schedule))
    value, wanted = derivative_of_loop(step, state, 0.9, 6, loss)
    assert f(0.9) == pytest.approx(value, rel=1e-13)
    assert dualad.derivative(f)(0.9) == pytest.approx(wanted, rel=1e-12)
    squared = lambda p: f(p[0]) ** 2
    if refused:
        for call in (lambda: grad(f)(0.9), lambda: hvp(squared, np.array([0.9]), np.array([1.0]))):
            with pytest.raises(ValueError, match=r"wrote into an array.*\(state\[0\] and state\[1\] share their memory\)"):
                call()
        return
    assert value_and_grad(f)(0.9) == pytest.approx((value, wanted), rel=1e-12)
    np.testing.assert_allclose(hvp(squared, np.array([0.9]), np.array([1.0])), dualad.hessian(squared)(np.array([0.9]))[0], rtol=1e-11)


def test_a_parameter_returned_as_state_and_written_later_is_named():
    def step(k, x, c):
        if k == 2:
            x += c
            return x
        return c if k == 1 else x * c

    for schedule in SCHEDULES:
        with pytest.raises(ValueError, match="state and a parameter share their memory"):
            grad(lambda x, c: np.sum(chain(step, x, c, steps=4, schedule=schedule)), argnums=(0, 1))(np.ones(2), np.full(2, 0.5))


def random_step(rng):
    """A step over three arrays: in-place and other updates, aliases and views, as source."""
    lines, names = [], ["a", "b", "c"]
    for _ in range(rng.integers(1, 5)):
        x, y, z = rng.choice(names, 3)
        updates = [f"{x} = {y} * r", f"{x} = {y} + 0.5 * {z}", f"{x} *= 0.9", f"{x} += r * {y} * {z}", f"{x}[1:] += 0.1 * {y}[:-1]"]
        aliases = [f"{x} = {y}", f"{x} = {y}[::-1]", f"if k % 2: {x} = {y} - {z}", f"{x} = {y}.copy()"]
        lines.append(str(rng.choice(updates + aliases)))
    result = ", ".join(rng.choice(names, 3))
    return "def step(k, s, r):\n    a, b, c = s\n    " + "\n    ".join(lines) + f"\n    return {result}\n"


@np.errstate(all="ignore")
def check_random(seed):
    """Return whether the program was differentiated (False: refused), after comparing all schedules with the loop."""
    rng = np.random.default_rng(seed)
    source = random_step(rng)
    space = {"np": np}
    exec(source, space)
    step, steps = space["step"], int(rng.integers(1, 9))
    state = tuple(rng.uniform(-1.0, 1.0, 3) for _ in "abc")
    weights = rng.uniform(-1.0, 1.0, (3, 3))
    loss = lambda s: sum(np.sum(w * leaf) for w, leaf in zip(weights, s, strict=True))
    value, wanted = derivative_of_loop(step, state, 0.7, steps, loss)
    if not np.isfinite(value * wanted):  # it has grown beyond all bounds
        return False
    refused = 0
    schedules = [CTZ(), Revolve(1), StoreAll(), Mixed(2)]
    for schedule in schedules:
        f = lambda r: loss(chain(step, tuple(map(np.copy, state)), r, steps=steps, schedule=schedule))
        assert dualad.derivative(f)(0.7) == pytest.approx(wanted, rel=1e-10, abs=1e-12), source
        try:
            ours = value_and_grad(f)(0.7)
        except ValueError as error:
            assert "share their memory" in str(error), source
            refused += 1
        else:
            assert ours == pytest.approx((value, wanted), rel=1e-10, abs=1e-12), (schedule, source)
    assert refused in (0, len(schedules)), source
    return not refused


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, 300, 50))
def test_random_steps_with_aliases(start):
    assert 10 < sum(check_random(seed) for seed in range(start, start + 50)) < 50


@pytest.mark.parametrize("schedule", [CTZ(), Mixed(2), StoreAll()], ids=str)
def test_outs_have_the_dtype_that_numpy_promotes_them_to(schedule):
    def f(x, options):
        _, outs = chain(lambda k, x: (x * 0.5, x if k else 0), x, steps=4, outputs=True, **options)
        return np.sum(outs * np.array([1.0, 2.0, 3.0, 4.0]))

    assert f(3.0, {}) == 3.0 * (2 / 2 + 3 / 4 + 4 / 8)
    assert value_and_grad(f)(3.0, {"schedule": schedule}) == pytest.approx((f(3.0, {}), 2 / 2 + 3 / 4 + 4 / 8))
    assert dualad.derivative(lambda x: f(x, {}))(3.0) == pytest.approx(2.25)
    outs = chain(lambda k, x: (x, [1, 0.5, 0.5][k]), 1.0, steps=3, outputs=True)[1]
    assert outs.tolist() == [1.0, 0.5, 0.5] and outs.dtype == float
    mixed = chain(lambda k, x: (x, np.float32(1) if k < 2 else 1j), 1.0, steps=3, outputs=True)[1]
    assert mixed.dtype == np.stack([np.float32(1), np.float32(1), 1j]).dtype


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_a_python_float_is_weak_in_a_chain_too(schedule):
    ones = np.ones(3, np.float32)
    f = lambda s, F: np.sum(chain(lambda k, s, F: s * F, s, F, steps=4, schedule=schedule))
    assert grad(f, argnums=1)(ones, 0.5) == 1.5 == dualad.derivative(lambda F: f(ones, F))(0.5)
    by_state, by_rate = grad(f, argnums=(0, 1))(ones, 0.5)
    assert by_state.dtype == np.float32 and by_rate == 1.5
    assert f(ones, 0.5).dtype == np.float32 == value_and_grad(f, argnums=1)(ones, 0.5)[0].dtype
    block = dualad_checkpoint(lambda s, F: s * F)
    assert value_and_grad(lambda F: np.sum(block(ones, F)))(0.5)[1] == 3.0


@dataclass
class State:
    u: object


class Slotted:
    __slots__ = ("u",)

    def __init__(self, u):
        self.u = u


@pytest.mark.parametrize("kind", [State, Slotted])
def test_objects_that_hold_what_needs_a_derivative_are_refused(kind):
    step = lambda k, s, F: kind(s.u * F)
    for state in (0.5, np.ones(2)):
        with pytest.raises(TypeError, match=r"must be returned unchanged|is of type (State|Slotted), which is not registered as a pytree"):
            grad(lambda F: np.sum(chain(step, kind(state), F, steps=3).u))(0.5)
    with pytest.raises(TypeError, match=r"params\[0\] is of type (State|Slotted), .*derivatives of what it holds \(u\)"):
        grad(lambda F: chain(lambda k, x, p: x * p.u, 1.0, kind(F), steps=3))(0.5)


def test_an_object_changed_in_place_is_no_state():
    def step(k, s, F):
        s.u = s.u * F
        return s

    with pytest.raises(RuntimeError, match="used outside of the step"):
        grad(lambda F: chain(step, State(0.5), F, steps=3).u)(0.5)


@pytest.mark.parametrize("options", [{}, {"schedule": StoreAll()}, {"schedule": Mixed(3)}, {"memory": "1 MB"}], ids=repr)
@pytest.mark.parametrize("steps", [1, 2, 9])
@pytest.mark.parametrize("x", [1.1, np.array([1.1, 0.9])], ids=["number", "array"])
def test_what_a_step_leaves_outside_has_no_silent_zero(x, steps, options):
    def loss(x, use):
        left = []

        def step(k, x):
            left.append(np.sum(0.5 * x * x))
            return 0.5 * x * x

        final = np.sum(chain(step, x, steps=steps, stats=stats, **options))
        return use(left, final)

    stats = Stats()
    for use in (*(lambda left, final, i=i: left[i] for i in (-1, 0, -1 - steps // 2)), lambda left, final: final + np.sum(left)):
        with pytest.raises(RuntimeError, match=r"used outside of the step.*outputs=True"):
            grad(loss)(x, use)
    slope = grad(loss)(x, lambda left, final: final)
    z = x + 1e-30j
    for _ in range(steps):
        z = 0.5 * z * z
    np.testing.assert_allclose(slope, np.imag(z) / 1e-30, rtol=1e-13)
    if options.keys() <= {"schedule"} and options.get("schedule") != Mixed(3):
        alone = reverse(lambda k, x: x, lambda k, x, g: g, 1.0, 1.0, steps=steps, **options).stats
        assert stats.advances == alone.advances, "the last step is evaluated once"


@pytest.mark.parametrize("schedule", [CTZ(), StoreAll()], ids=repr)
def test_what_a_later_step_alone_leaves_outside_is_told(schedule):
    def loss(x, kept):
        left = []
        step = lambda k, x: (left.append(kept(x)) if k == 5 else None) or 0.5 * x * x
        return chain(step, x, steps=9, schedule=schedule) + 0.0 * left[0]

    with pytest.warns(RuntimeWarning, match=r"step 5, but not step 0, stores a traced value.*outputs=True.*dualad\.primal"):
        grad(loss)(1.1, lambda x: x)
    cycle = lambda x: (held := [x], held.append(held)) and 1.0  # the collector frees it
    assert all(grad(loss)(1.1, plain) != 0.0 for plain in (dualad.primal, cycle))


def test_settings_in_the_state_are_handed_on_unchanged():
    @dataclass(frozen=True)
    class Config:
        dt: float
        name: str = "euler"

    config = Config(0.1)
    step = lambda k, s: (s[0] * (1 + s[1].dt), s[1], None, "text")
    assert grad(lambda x: chain(step, (x, config, None, "text"), steps=3)[0])(1.0) == pytest.approx(1.1**3)
    with pytest.raises(TypeError, match=r"step 0 returned .* must be returned unchanged"):
        chain(lambda k, s: (s[0], replace(s[1], dt=0.2)), (1.0, config), steps=3)


class Sum:
    total = 0.0


@pytest.mark.parametrize("door", ["list", "array", "traced array", "attribute"])
@pytest.mark.parametrize("schedule", [CTZ(), Mixed(3), StoreAll()], ids=str)
def test_values_kept_outside_of_a_step_raise_when_used(door, schedule):
    def f(x):
        kept, array, acc = [], np.zeros(5), Sum()
        traced = np.zeros(5) * x

        def step(k, u):
            if door == "list":
                kept.append(u)
            elif door == "array":
                array[k] = u
            elif door == "traced array":
                traced[k] = u
            else:
                acc.total = acc.total + u
            return u * 0.9

        chain(step, x, steps=5, schedule=schedule)
        return {"list": lambda: sum(kept), "array": array.sum, "traced array": traced.sum, "attribute": lambda: acc.total}[door]()

    with pytest.raises((RuntimeError, ValueError, TypeError)) as caught:
        grad(f)(1.0)
    assert door == "array" or "Let the step return it: as an out (outputs=True" in str(caught.value)


def test_what_cannot_be_differentiated_fails_before_the_first_sweep():
    calls = []

    def step(k, x):
        calls.append(k)
        return x * float(x)

    with pytest.raises(TypeError, match=r"float\(\)"):
        grad(lambda x: chain(step, x, steps=1000))(1.0)
    assert calls == [0]


#: what a step reads outside, and a change of it: results tell, however hidden it is from a look at code
READERS = {
    "an item in a deque": (lambda m, x: x * m.queue[0], lambda m: m.queue.__setitem__(0, 0.5)),
    "an array in place": (lambda m, x: x * m.mask.reshape(-1)[7], lambda m: m.mask.reshape(-1).__setitem__(7, 0.0)),
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("schedule", [CTZ(), StoreAll(), Revolve(2)], ids=str)
def test_what_changes_between_the_sweeps_is_found_by_the_results(name, schedule):
    read, change = READERS[name]
    model = SimpleNamespace(queue=deque([1.1]), mask=np.ones((40, 40)))
    _, pullback = vjp(lambda x: chain(lambda k, x: read(model, x) + 1.0, x, steps=20, schedule=schedule), 0.7)
    change(model)
    with pytest.raises(RuntimeError, match=r"step \d+ is not reproducible: running it again .* gave another x_\d+ \(in state\)"):
        pullback(1.0)


def test_a_permuted_large_mask_is_found():
    mask = np.random.default_rng(0).uniform(0.5, 1.0, (300, 300))
    _, pullback = vjp(lambda x: np.sum(chain(lambda k, x: x * mask, x, steps=6)), np.ones((300, 300)))
    mask[:] = mask[::-1].copy()
    with pytest.raises(RuntimeError, match="step 5 is not reproducible"):
        pullback(1.0)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("schedule", [CTZ(), StoreAll(), Revolve(2)], ids=str)
def test_steps_with_a_memory_of_their_own_raise(schedule, exact):
    rng, counter = np.random.default_rng(0), iter(range(10**9))
    for noise in (lambda: rng.random(), lambda: 0.1 * next(counter)):
        with pytest.raises(RuntimeError, match=r"is not reproducible"):
            grad(lambda x: np.sum(chain(lambda k, x: x * (1.0 + noise()), x, steps=9, schedule=schedule, check=exact)))(np.ones(3))


def test_differences_of_rounding_do_not_count_unless_asked():
    wobble = iter([0.0, 0.0, 0.0, 1e-13] * 100)
    step = lambda k, x: x * 0.9 + next(wobble)
    grad(lambda x: chain(step, x, steps=9, schedule=StoreAll()))(1.0)
    with pytest.raises(RuntimeError, match="is not reproducible"):
        grad(lambda x: chain(step, x, steps=9, schedule=StoreAll(), check=True))(1.0)


def test_nan_and_infinite_states_compare_equal():
    with np.errstate(all="ignore"):
        gradient = grad(lambda x: np.sum(chain(lambda k, x: x * np.array([1e200, 1.0, np.nan]), x, steps=4)))(np.ones(3))
    assert gradient[1] == 1.0


def test_a_step_that_writes_into_a_plain_state_in_every_mode():
    def step(k, x, rate):
        x *= rate
        np.multiply(x, rate, out=x)
        return x

    f = lambda rate: np.sum(chain(step, np.array([1.0, 2.0]), rate, steps=3))
    assert dualad.derivative(f)(0.5) == pytest.approx(3 * 6 * 0.5**5) == grad(f)(0.5)
    assert dualad.derivative(f, order=2)(0.5) == pytest.approx(3 * 30 * 0.5**4)
    g = lambda p: f(p[0])
    assert hvp(g, np.array([0.5]), np.array([1.0])) == pytest.approx([3 * 30 * 0.5**4])
    assert dualad.hessian(g)(np.array([0.5])) == pytest.approx(np.array([[3 * 30 * 0.5**4]]))
    assert dualad.jacobian(lambda p: chain(step, np.ones(2), p[0] * p[1], steps=1))(np.ones(2)).tolist() == [[2.0, 2.0]] * 2
