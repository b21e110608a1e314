"""Compiled steps in every kind of chain against the same steps, not compiled: what runs in segments, and what says why it does not."""

import re
import sys
from types import SimpleNamespace

import numpy as np
import optree
import pytest
from calls import bits
from compiled_chains import total
from interpreted import no_optimiser  # noqa: F401  (a fixture: LLVM optimises nothing)

pytest.importorskip("llvmlite")

import dualad
from checkpoint import Revolve, Stats, chain, grad, hvp, jacobian, value_and_grad
from checkpoint.loops import stepper
from checkpoint.schedules import Mixed

X, U = np.array([0.3, 0.5, 0.7]), np.linspace(0.0, 1.0, 18).reshape(6, 3)


def turn(k, x):
    return np.sin(x) * 1.1 + 0.1 * x[::-1] * x


def drive(k, state, u, c):
    x, e = state
    return (np.sin(x) * c + u * x, 0.5 * e + np.sum(u)), {"x": x * x, "e": e * c}


def shrink(k, x):
    return 0.9 * np.sin(x)


def along(k, x):
    return 0.9 * np.sin(x), (x[0], [x * k])


def spiral(k, z, p):
    return z * p + 0.1, [z * 1j, np.abs(z)]


def ended(k, x):
    return np.max(x) < 0.05


def turned(f, **options):
    return lambda x: chain(f, x, steps=6, **options)


def driven(f):
    return lambda x, u, c: chain(f, (x, 0.5), c, inputs=u, outputs=True)


def loss(chained):
    return lambda *args: total(chained(*args))


def at(place, f, *others):
    return lambda value: f(*others[:place], value, *others[place:])


# name: the step, and what is done with a chain of it
DONE = {
    "values": (turn, lambda f: turned(f)(X)),
    "values, a number in the state and outs": (drive, lambda f: driven(f)(X, U, 0.7)),
    "values, Fortran order and strides": (turn, lambda f: chain(f, np.asfortranarray(np.stack([X, 2 * X]))[:, ::-1], steps=3)),
    "values, of layers": (turn, lambda f: chain([f] * 4, X)),
    "values, one step": (turn, lambda f: chain(f, X, steps=1)),
    "forward": (turn, lambda f: dualad.jvp(turned(f), (X,), (U[1],))),
    "forward, in three directions": (turn, lambda f: dualad.jacobian(turned(f))(X)),
    "forward, by the inputs": (drive, lambda f: dualad.jacobian(lambda u: driven(f)(X, u, 0.7)[1]["x"])(U)),
    "forward, by a parameter": (drive, lambda f: dualad.derivative(lambda c: driven(f)(X, U, c)[1]["e"])(0.7)),
    "forward, order 3": (turn, lambda f: dualad.derivative(lambda t: total(turned(f)(t * X)), order=3)(0.5)),
    "reverse": (drive, lambda f: grad(loss(driven(f)), argnums=(0, 1, 2))(X, U, 0.7)),
    "reverse, three cotangents": (turn, lambda f: jacobian(turned(f))(X)),
    "reverse, of layers": (turn, lambda f: grad(lambda x: total(chain([f] * 4, x)))(X)),
    "reverse, of mixed records": (turn, lambda f: [grad(loss(turned(f, schedule=Mixed(n))))(X) for n in (1, 3, 20)]),
    "forward over reverse": (turn, lambda f: hvp(loss(turned(f)), X, U[1])),
    "forward over reverse, by the inputs": (drive, lambda f: hvp(lambda u: total(driven(f)(X, u, 0.7)), U, np.cos(U))),
    "forward over reverse, all directions": (drive, lambda f: dualad.jacobian(grad(at(1, loss(driven(f)), X, 0.7)))(U)),
    "forward twice over reverse": (drive, lambda f: dualad.jacobian(lambda c: hvp(lambda x: total(driven(f)(x, U, c)), X, X))(0.7)),
    "until": (shrink, lambda f: chain(f, X, until=ended)),
    "until, of the index": (along, lambda f: chain(f, X, until=lambda k, x: k == 5, outputs=True)),
    "until, after many steps": (shrink, lambda f: chain(f, 1e-9 * X, until=lambda k, x: k > 900, max_steps=2000)),
    "until, forward": (shrink, lambda f: dualad.jvp(lambda x: chain(f, x, until=ended), (X,), (X,))),
    "until, reverse": (along, lambda f: grad(lambda x: total(chain(f, x, until=ended, outputs=True)))(X)),
    "until, forward over reverse": (shrink, lambda f: hvp(lambda x: total(chain(f, x, until=ended)), X, X)),
    "complex, and lists of outs": (spiral, lambda f: grad(lambda p: sum(np.sum(abs(leaf)) for leaf in optree.tree_leaves(
        chain(f, X * (1 + 0.5j), p * (1 - 0.2j), steps=4, outputs=True))))(0.7)),
}  # fmt: skip


@pytest.fixture
def reasons(monkeypatch):
    """Why chains were not compiled: None for those that were."""
    module, found = sys.modules["checkpoint.loops.chain"], []
    inner = module.run_compiled_spec

    def watched(*args, **options):
        result = inner(*args, **options)
        found.append(result[1])
        return result

    monkeypatch.setattr(module, "run_compiled_spec", watched)
    return found


@pytest.mark.parametrize("name", DONE)
def test_everything_that_is_done_with_a_chain_is_done_compiled(name, reasons):
    step, done = DONE[name]
    found = done(dualad.jit(step))
    assert set(reasons) == {None}
    expected = done(step)
    for a, b in zip(optree.tree_leaves(found), optree.tree_leaves(expected), strict=True):
        assert type(a) is type(b) and getattr(a, "dtype", None) == getattr(b, "dtype", None)
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("of", [lambda until: until, dualad.jit], ids=["plain", "compiled"])
def test_chains_end_where_the_predicate_says(of, monkeypatch):
    """Also at the ends of segments, and where `max_steps` ends the chain; it is traced once, and asked before a segment only."""
    step, asked, own = dualad.jit(shrink), [], stepper.Stepper.asked
    monkeypatch.setattr(stepper.Stepper, "asked", lambda self, k, x: asked.append(k) or own(self, k, x))
    for last in (2, 64, 65, 192, 500):
        until, stats = of(lambda k, x, last=last: k == last), Stats()
        expected = chain(shrink, X, steps=last)
        for most in (None, last, 2000):
            asked.clear()
            assert chain(step, X, until=until, max_steps=most, stats=stats).tobytes() == expected.tobytes()
            assert stats.steps == last and asked == [k for k in (0, 64, 192, 448) if k <= last] + [last] * (most == last not in (64, 192))
        with pytest.raises(RuntimeError, match="max_steps"):
            chain(step, X, until=until, max_steps=last - 1)


def test_until_has_the_same_bits_in_every_block():
    step = dualad.jit(along)
    gradient = lambda **options: tuple(bits(grad(lambda x: total(chain(step, x, until=ended, outputs=True, **options)))(X)))
    assert len({gradient(**options) for options in ({}, {"block": 1}, {"block": 7}, {"block": 10**6}, {"max_steps": 10**4})}) == 1


CLOCK = [0]


def ticking(k, x):
    CLOCK[0] += 1
    return CLOCK[0] > 20


def first_only(k, state):
    return (0.9 * state[0], state[1])


def half(k, x):
    return (0.5 * x.astype(np.float16)).astype(float)


# what a chain says that is not compiled: the step, how it is compiled, the options of the chain, and the words
SAID = {
    "float16": (half, {}, {"steps": 3}, "compiled loops have no float16"),
    "a predicate that counts": (shrink, {}, {"until": ticking}, "until cannot be traced: its answer is no function of k"),
    "a predicate that counts besides": (shrink, {}, {"until": lambda k, x: (x[0] < 0) | ticking(k, x)}, "until cannot be traced"),
    "NumPy's backend": (shrink, {"backend": "numpy"}, {"steps": 3}, "NumPy's backend"),
    "other leaves": (first_only, {}, {"steps": 3}, "neither numbers nor arrays"),
    "static arguments": (shrink, {"static_argnums": 0}, {"steps": 3}, "static"),
    "a block besides": (shrink, {"backend": "numpy"}, {"steps": 3, "block": 2}, "block=2 is not used"),
}


@pytest.mark.parametrize("name", SAID)
def test_what_is_not_compiled_says_why(name):
    step, compiled, options, words = SAID[name]
    stats, state = Stats(), (lambda x: (x, len)) if step is first_only else lambda x: x
    CLOCK[0] = 0
    grad(lambda x: total(optree.tree_leaves(chain(dualad.jit(step, **compiled), state(x), stats=stats, **options))[:1]))(X)
    assert stats.reason.startswith("steps one by one, because ") and re.search(words, stats.reason)


def test_a_number_that_becomes_an_array_is_told_what_to_begin_with():
    def step(k, x):
        return np.where(x < 0.0, -0.5 * x, 0.9 * x - 0.3)  # an array without axes, of a number too

    reasons = []
    for begin in (lambda x: x, np.asarray):
        stats = Stats()
        value, slope = value_and_grad(lambda x, stats=stats, begin=begin: chain(dualad.jit(step), begin(x), steps=9, stats=stats))(1.1)
        reasons.append(stats.reason)
        assert (value, slope) == value_and_grad(lambda x: chain(step, x, steps=9))(1.1)
    assert "the step makes state an array without axes, which was a number: begin with np.asarray(number)" in reasons[0]
    assert "one by one" not in reasons[1]


def test_an_index_out_of_bounds_names_its_line():
    step, row = dualad.jit(lambda k, x, f: x * f[k]), np.ones(30)
    for f in (lambda x: chain(step, x, row, steps=50), grad(lambda x: np.sum(chain(step, x, row, steps=50)))):
        with pytest.raises(IndexError, match=r"test_stepper.py, line \d+.*index 30 is out of bounds for axis 0 with size 30"):
            f(X)


def test_an_index_out_of_bounds_in_a_step_that_is_never_made():
    table = np.zeros(0)
    f = lambda x: chain(dualad.jit(lambda k, x: x * table[0]), x, until=lambda k, x: k == len(table))
    assert (f(2.0), grad(f)(2.0)) == (2.0, 1.0)


def test_integers_beyond_64_bits_do_not_wrap():
    step = dualad.jit(lambda k, n: n * 3)
    assert [chain(step, begin, steps=n) for begin, n in ((1, 30), (1, 50), (3**40, 10), (3**50, 3))] == [3**30, 3**50, 3**50, 3**53]
    compared = dualad.jit(lambda k, n: n * 3, verify=True)
    assert chain(compared, 1, steps=50) == 3**50


def test_integers_beyond_64_bits_do_not_wrap_in_steps_of_the_plain_function():
    step = lambda k, n: n * 3 if k < 20 else n * 5
    with pytest.warns(UserWarning, match="takes more than 1 paths"):
        assert chain(dualad.jit(step, paths=1), 1, steps=40) == 3**20 * 5**20


def test_outs_and_results_are_the_callers_own():
    step = dualad.jit(drive)
    (x, _), outs = driven(step)(X, U, 0.7)
    before = [leaf.copy() for leaf in (x, outs["x"], outs["e"])]
    driven(step)(X + 1.0, U, 0.9)
    for leaf, old in zip((x, outs["x"], outs["e"]), before, strict=True):
        assert leaf.flags.writeable and np.array_equal(leaf, old)


def test_the_value_is_the_same_bits_with_and_without_a_derivative():
    step, kept = dualad.jit(drive), []

    def f(x):
        kept.append(optree.tree_map(dualad.primal, driven(step)(x, U, 0.7)))
        return total(kept[-1]) + np.sum(x)

    grad(f)(X)
    dualad.jvp(f, (X,), (X,))
    assert all(bits(other) == bits(driven(step)(X, U, 0.7)) for other in kept)


def test_a_large_state_is_handed_on_without_copies():
    big, stats = np.linspace(0.0, 1.0, 10_000), Stats()
    f = lambda x: np.sum(chain(dualad.jit(shrink), x, steps=60, schedule=Revolve(4), stats=stats) ** 2)
    g = lambda x: np.sum(chain(shrink, x, steps=60, schedule=Revolve(4)) ** 2)
    np.testing.assert_allclose(grad(f)(big), grad(g)(big), rtol=1e-12)
    assert stats.peak_states == 4 and stats.peak_bytes == 4 * big.nbytes


def test_predicates_and_their_loops_are_not_kept_for_ever(monkeypatch):
    monkeypatch.setattr("checkpoint.loops.spec.KEPT_OF_STEP", 3)
    plain, set_up = dualad.jit(lambda k, x: 0.5 * x), dualad.jit(lambda k, x, mode: 0.5 * x if mode == "half" else x)
    stops = [lambda k, x, n=n: k == n for n in range(1, 5)]
    for run in (lambda until: chain(set_up, 8.0, "half", until=until), lambda until: chain(plain, 8.0, until=until)):
        assert [run(until) for until in stops] == [4.0, 2.0, 1.0, 0.5]
    (entry,) = plain.entries.values()
    assert len(set_up.of_chains) == len(entry.compiled.of_chains) == 3


def test_a_predicate_that_is_made_again_for_each_call_is_traced_once(monkeypatch):
    monkeypatch.setattr(stepper, "PREDICATES", SimpleNamespace())
    step, scale = dualad.jit(lambda k, x: x * 0.5), np.ones(3)

    def run(tolerance, power=1):
        return chain(step, np.ones(3), until=lambda k, x: np.max(x * scale) ** power < tolerance)[0]

    assert [run(0.3), run(0.3), run(0.1), run(0.3, 2), run(0.1)] == [0.25, 0.25, 0.0625, 0.5, 0.0625]
    assert [made.traces for made in stepper.PREDICATES.of_chains.values()] == [1, 1, 1]
    scale[:] = 4.0  # which all of them close over
    assert [run(0.3), run(0.1), run(0.1)] == [0.0625, 0.015625, 0.015625]
    assert len(stepper.PREDICATES.of_chains) == 3


def test_predicates_that_are_methods_are_those_of_their_objects():
    class Below:
        def __init__(self, limit):
            self.limit = limit

        def until(self, k, x):
            return x[0] < self.limit

    step = dualad.jit(lambda k, x: x * 0.5)
    assert [chain(step, np.ones(3), until=Below(limit).until)[0] for limit in (0.3, 0.1, 0.6)] == [0.25, 0.0625, 0.5]


def test_a_state_of_no_axes_that_becomes_a_number_is_one_from_the_second_step_on():
    def step(k, x):
        shown, before = x[...], x * 1.0
        shown *= 0.5  # reaches x where that is an array, in the first step
        return np.sin(x) + 0.1 * before

    at = np.array(0.7)
    x = at.copy()
    for k in range(4):
        x = step(k, x)
    slope = lambda step: grad(lambda x: chain(step, x, steps=4))(at)
    for backend in ("numpy", "llvm"):
        made = dualad.jit(step, backend=backend)
        assert chain(made, at, steps=4) == pytest.approx(x, rel=1e-13)
        assert slope(made) == pytest.approx(slope(step), rel=1e-13)
