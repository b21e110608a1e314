"""memory= is a limit: the most that is allocated at one moment, by all that a chain and its reverse sweep hold, is within it."""

import tracemalloc

import numpy as np
import pytest

import dualad
from checkpoint import Stats, chain, grad, value_and_grad

X = np.linspace(0.1, 0.9, 2000)


def pair(k, state, rate):
    angle, speed = state
    return angle + 0.001 * speed, speed - 0.001 * rate * np.sin(angle)


def logistic(k, x, rate):
    return x + 0.01 * rate * x * (1.0 - x)


def mixed(k, state, rate):
    u, n, total = state["u"], state["n"], state["total"]
    u = u + 0.01 * rate * np.sin(u)
    return {"u": u, "n": n + 1, "total": total + np.sum(u), "name": state["name"]}


def driven(k, x, row, rate):
    x = x + 0.01 * rate * np.sin(x) * row
    return x, x[:500]


MIXED = {"u": np.linspace(0.0, 1.0, 40), "n": 0, "total": 0.0, "name": "run"}
CHAINS = {
    "numbers": (lambda rate, **options: chain(pair, (0.5, 0.0), rate, **options)[0], 3000, ["200 kB", "400 kB"]),
    "array": (lambda rate, **options: np.sum(chain(logistic, X, rate, **options)), 300, ["500 kB", "2 MB", "6 MB"]),
    "mixed": (lambda rate, **options: chain(mixed, MIXED, rate, **options)["total"], 2000, ["200 kB", "1 MB"]),
    "until": (lambda rate, steps, **options: np.sum(chain(logistic, X, rate, until=lambda k, x: k == steps, **options)), 200, ["1 MB"]),
}


def peak(f, *arguments):
    """The most bytes allocated at one moment in a second call."""
    f(*arguments)
    tracemalloc.start()
    try:
        f(*arguments)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("name", "memory"), [(name, memory) for name, case in CHAINS.items() for memory in case[2]])
def test_the_peak_is_within_the_budget(name, memory):
    loss, steps, _ = CHAINS[name]
    stats = Stats()
    f = grad(lambda rate: loss(rate, steps=steps, memory=memory, stats=stats))
    assert f(1.1) == pytest.approx(grad(lambda rate: loss(rate, steps=steps))(1.1), rel=1e-12)
    assert stats.reason.startswith(f"of {memory}, ") and stats.peak_states > 3
    assert peak(f, 1.1) <= {"kB": 1000, "MB": 10**6}[memory[-2:]] * int(memory[:-3])


@pytest.mark.parametrize("memory", ["16 MB", "20 MB"])
def test_inputs_and_outs_and_their_gradients_count(memory):
    rows, stats = np.ones((200, 2000)), Stats()

    def loss(rows):
        x, outs = chain(driven, X, 1.1, inputs=rows, outputs=True, memory=memory, stats=stats)
        return np.sum(x) + np.sum(outs)

    assert peak(value_and_grad(loss), rows) <= int(memory[:2]) * 10**6 + 2 * rows.nbytes, "the loss has a copy of its own, and the result"
    with pytest.raises(ValueError, match=r"chain: memory='3 MB' is too small: the steps, their parameters, inputs and outs take"):
        grad(lambda rows: chain(driven, X, 1.1, inputs=rows, outputs=True, memory="3 MB")[0][0])(rows)


@pytest.mark.parametrize("memory", ["200 kB", "2 MB"])
def test_blocks_of_compiled_steps(memory):
    pytest.importorskip("numba", reason="numba is not installed")
    step, stats = dualad.jit(pair), Stats()
    f = grad(lambda rate: chain(step, (0.5, 0.0), rate, steps=50_000, memory=memory, stats=stats)[0])
    assert peak(f, 1.1) <= {"k": 1000, "M": 10**6}[memory[-2]] * int(memory[:-3])
    assert (" blocks of " if memory == "200 kB" else "one block of all 50,000") in stats.reason


def test_all_states_of_a_long_chain_of_numbers_do_not_fit():
    """100,000 states of two numbers were 22.8 MB with a budget of 2 MB."""
    stats = Stats()
    f = grad(lambda rate: chain(lambda k, s, c: s, (1.0, 2.0), rate, steps=100_000, memory="2 MB", stats=stats)[0])
    f(1.0)
    assert 10_000 < stats.peak_states < 25_000


def test_step_0_is_tried_once():
    made = []
    grad(lambda x: chain(lambda k, x: (made.append(k), x * 1.1)[1], x, steps=2, memory="1 MB"))(1.0)
    budgeted, plain = len(made), []
    grad(lambda x: chain(lambda k, x: (plain.append(k), x * 1.1)[1], x, steps=2))(1.0)
    assert budgeted == len(plain)
