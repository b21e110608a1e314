"""Chains on plain values and in forward mode honour what they are given: progress=, check=, max_steps=, stats=, token=."""

import gc
from itertools import count

import numpy as np
import optree
import pytest
from calls import bits

import dualad
from checkpoint import Disk, Stats, chain, grad, hvp, value_and_grad, vjp
from dualad import derivative, gradient, jvp

X = np.linspace(0.1, 0.9, 5)


def halve(k, x):
    return x / 2 + 0.01 * k


def norm(x, **options):
    return np.sum(chain(halve, x, steps=10, **options) ** 2)


def compiled_norm(x, **options):
    pytest.importorskip("llvmlite", reason="llvmlite is not installed")
    return np.sum(chain(compiled, x, steps=10, **options) ** 2)


compiled = dualad.jit(halve)
MODES = {
    "plain": lambda f: f(X),
    "forward": lambda f: gradient(f)(X),
    "second order": lambda f: jvp(lambda x: jvp(f, (x,), (X,))[1], (X,), (X,)),
    "constants of a tape": lambda f: vjp(lambda x, y: f(x) + y[0], X, X),
    "reverse": lambda f: grad(f)(X),
    "forward over reverse": lambda f: hvp(f, X, X),
}
LOOPS = {"python": norm, "compiled": compiled_norm}


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_a_bar_is_shown_in_every_mode(mode, loop, capsys):
    pytest.importorskip("tqdm")
    mode(lambda x: loop(x, progress=True, **({"block": 1} if loop is compiled_norm else {})))
    assert "10/10" in capsys.readouterr().err
    mode(loop)
    assert not capsys.readouterr().err


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_stats_are_those_of_the_last_call_and_a_check_changes_no_bit(mode, loop):
    stats = Stats(steps=99, pulls=99, saves=99, peak_states=99, schedule="of another call", reason="of another call")
    known = mode(lambda x: loop(x, stats=stats))
    assert stats.steps == 10 and stats.advances >= 10 and stats.pulls < 99 and stats.saves < 99
    assert "another" not in f"{stats.schedule}{stats.reason}" and stats.seconds > 0
    if mode in (MODES["plain"], MODES["forward"]):
        assert (stats.advances, stats.pulls, stats.saves, stats.loads, stats.peak_states, stats.peak_bytes) == (10, 0, 0, 0, 0, 0)
    of = lambda result: bits([dualad.primal(leaf) for leaf in optree.tree_leaves(result) if not callable(leaf)])
    assert of(mode(lambda x: loop(x, check=True))) == of(known)


def test_stats_say_why_compiled_steps_are_made_one_by_one():
    stats, step = Stats(), dualad.jit(halve, backend="numpy")
    np.testing.assert_array_equal(chain(step, X, steps=10, stats=stats), chain(halve, X, steps=10))
    assert stats.reason.startswith("steps one by one, because")
    assert stats.steps == stats.advances == 10


@pytest.mark.parametrize("start", [1.0, X, (X, 1.0)], ids=["number", "array", "tuple"])
@pytest.mark.parametrize("mode", ["plain", "forward", "forward twice"])
def test_check_names_the_step_that_is_not_repeatable(mode, start):
    rng = np.random.default_rng(0)

    def step(k, x, c):
        noise = rng.random() if k == 5 else 0.0
        return tuple(part * c + noise for part in x) if isinstance(x, tuple) else x * c + noise

    def run(c):
        final = chain(step, start, c, steps=9, check=True)
        return np.sum(final[0] if isinstance(final, tuple) else final)

    runs = {"plain": run, "forward": derivative(run), "forward twice": derivative(derivative(run))}
    with pytest.raises(RuntimeError, match=r"chain: step 5 is not reproducible: running it again .* gave another x_6 \(in state"):
        runs[mode](1.5)


@pytest.mark.parametrize("kind", [float, np.float32, complex])
def test_a_step_that_writes_into_its_state_is_repeatable(kind):
    x, buffer = np.asfortranarray(np.arange(6.0).reshape(2, 3)[:, ::-1].astype(kind)), np.zeros((2, 3), kind)
    x[0, 0] = np.nan

    def step(k, x):
        np.multiply(x, kind(0.5), out=buffer)  # its own buffer, which is the state of the next step
        return buffer

    np.testing.assert_array_equal(chain(step, x, steps=7, check=True), chain(step, x, steps=7))

    def in_place(k, x, row):
        x[0] += row
        return x, x[1]

    rows = np.ones((4, 3), kind)
    for a, b in zip(*(chain(in_place, x, inputs=rows, outputs=True, check=check) for check in (True, False)), strict=True):
        np.testing.assert_array_equal(a, b)


def test_compiled_steps_that_are_not_repeatable():
    pytest.importorskip("llvmlite", reason="llvmlite is not installed")
    calls = count()
    drifting = dualad.primitive(lambda x: x + 1e-15 * next(calls))
    dualad.rules.elementwise(drifting, lambda ans, x: np.ones_like(x))
    step = dualad.jit(lambda k, x: 0.5 * drifting(x), verify=False)
    with pytest.raises(RuntimeError, match=r"the compiled steps 0 to 8, made twice from the same state, gave two results"):
        chain(step, X, steps=9, check=True)


def test_checked_steps_are_made_twice():
    made, stats = [], Stats()
    chain(lambda k, x: made.append(k) or x, 1.0, steps=3, check=True, stats=stats)
    assert made == [0, 0, 1, 1, 2, 2] and (stats.steps, stats.advances) == (3, 6)
    pytest.importorskip("llvmlite", reason="llvmlite is not installed")
    chain(compiled, X, steps=300, check=True, stats=stats)
    assert (stats.steps, stats.advances) == (300, 600)


@pytest.mark.parametrize("f", [halve, compiled], ids=["python", "compiled"])
def test_max_steps_in_every_mode(f):
    never = lambda k, x: k < 0
    run = lambda x: np.sum(chain(f, x, until=never, max_steps=7))
    for mode in (run, gradient(run), grad(run), lambda x: hvp(run, x, x)):
        with pytest.raises(RuntimeError, match="still not true after max_steps=7"):
            mode(X)
    stats = Stats()
    with pytest.raises(RuntimeError, match="max_steps=0"):
        chain(f, X, until=never, max_steps=0, stats=stats)
    assert stats.steps == 0


def test_until_with_stats_and_a_check():
    stats = Stats()
    for f in (halve, compiled):
        final = chain(f, X, until=lambda k, x: k == 130, max_steps=130, check=True, stats=stats)
        np.testing.assert_array_equal(final, chain(halve, X, steps=130))
        assert (stats.steps, stats.advances) == (130, 260)


@pytest.mark.parametrize("mode", [lambda f: f(X), lambda f: gradient(f)(X), lambda f: grad(f)(X)], ids=["plain", "forward", "reverse"])
def test_a_token_goes_with_a_call_that_goes_on(mode, tmp_path):
    with pytest.raises(TypeError, match=r"chain: token= is used only to resume a sweep: give storage=Disk\(path, resume=True\) too"):
        mode(lambda x: norm(x, token="table of 2024"))
    mode(lambda x: norm(x, token="table of 2024", storage=Disk(tmp_path / "run", resume=True)))


def test_a_step_that_raises_leaves_the_count():
    stats = Stats()
    with pytest.raises(ZeroDivisionError):
        chain(lambda k, x: x / (3 - k), 1.0, steps=9, stats=stats)
    assert stats.steps == 3
    assert value_and_grad(lambda x: norm(x, stats=stats))(X)[0] == norm(X)


@pytest.mark.parametrize("memory", [None, "1 MB"])
@pytest.mark.parametrize("first", [0, 5], ids="from step {}".format)
def test_circles_of_references_keep_nothing(first, memory):
    def step(k, x):
        if k < first:
            return 0.81 * x

        def powers(n):  # which refers to itself, and to x
            return x if not n else 0.9 * powers(n - 1)

        gc.collect(1)  # which finds them in use: they become old
        gc.collect(1)
        return powers(2)

    assert grad(lambda x: chain(step, x, steps=9, memory=memory))(1.1) == pytest.approx(0.81**9, rel=1e-14)  # no warning


def test_a_value_that_is_kept_is_told_beside_circles_of_references():
    def loss(x):
        left = []

        def step(k, x):
            if k == 5:
                left.append(0.5 * x)
            if k <= 5:
                return 0.81 * x

            def powers(n):
                return x if not n else 0.9 * powers(n - 1)

            return powers(2)

        return chain(step, x, steps=9) + 0.0 * left[0]

    with pytest.warns(RuntimeWarning, match="step 5, but not step 0, stores a traced value"):
        grad(loss)(1.1)


def test_what_holds_a_step_for_moments_is_no_value_that_it_keeps():
    left = []

    def step(k, x):
        if k == 5:
            left.append(0.5 * x)  # as the sampler of a profiler does, in another thread
        return 0.81 * x

    full = []

    def let_go(phase, info):
        if phase == "stop" and info["generation"] == 2:
            full.append(1)
            if len(full) > 1:
                left.clear()

    gc.callbacks.append(let_go)
    try:
        assert grad(lambda x: chain(step, x, steps=9))(1.1) == pytest.approx(0.81**9, rel=1e-15)
    finally:
        gc.callbacks.remove(let_go)
    assert len(full) > 1  # it was looked at again


def test_steps_that_keep_values_are_traced_in_the_first_sweep_and_where_they_are_pulled():
    left = []

    def step(k, x):
        left.append(0.5 * x)
        return left[-1]

    assert grad(lambda x: chain(step, x, steps=20))(1.1) == 0.5**20
    traced = [x for x in left if type(x) is not float]  # isinstance says yes of traced numbers
    assert len(traced) == 1 + 20 + 20 < len(left)  # the first is a trial
