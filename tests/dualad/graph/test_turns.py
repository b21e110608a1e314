"""Loops that end by a test on values: one loop for all numbers of turns, with the values and the derivatives of eager code."""

import re
from collections import defaultdict, deque
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from comparing import agree, close, follows, leaves, same

import checkpoint
from dualad import jit
from dualad.graph.nested import Scan
from dualad.jit.compiled import BACKENDS


def by_while(a, x):
    while abs(x * x - a) > 1e-12 * a:
        x = 0.5 * (x + a / x)
    return x


def by_break(a, x):
    for _ in range(60):
        x = 0.5 * (x + a / x)
        if abs(x * x - a) < 1e-12 * a:
            break
    return x + a


def by_else(a, x):
    for _ in range(7):
        x = 0.5 * (x + a / x)
        if abs(x * x - a) < 1e-12 * a:
            break
    else:
        return -x
    return x


def by_return(a, x):
    while True:
        new = 0.5 * (x + a / x)
        if abs(new - x) < 1e-12 * new:
            return new * x
        x = new


def by_counter(a, x):
    n = 0
    while not abs(x * x - a) < 1e-12 * a:
        x = 0.5 * (x + a / x)
        n += 1
    return x * n, n


def by_count_of_turns(a, x):  # which says how to go on
    n = 0
    while abs(x * x - a) > 1e-12 * a:
        x = 0.5 * (x + a / x)
        n += 1
    if n <= 6:
        return x * 1.5
    return np.sin(x) if n <= 9 else x - 0.5


def by_bisection(a, x):
    low, high = 0.0 * a, a + x
    for _ in range(100):
        middle = 0.5 * (low + high)
        if middle * middle > a:
            high = middle
        else:
            low = middle
        if high - low < 1e-3:
            break
    return 0.5 * (low + high) + a * x


def by_secant(a, x):
    x0, x1 = x, x + 0.3
    f0, f1 = x0 * x0 - a, x1 * x1 - a
    while abs(f1) > 1e-8 * a:
        x0, f0, x1 = x1, f1, x1 - f1 * (x1 - x0) / (f1 - f0)
        f1 = x1 * x1 - a
    return x1 * a


def by_substeps(a, x):
    t, end, y = 0.0, 1.0 + a / 50, 1.0 / x
    while t < end:
        s = np.sin(y)
        h = min(0.3 / (1 + s * s), end - t)
        y = y + h * np.cos(t + y)
        t = t + h
    return y


def by_series(a, x):
    z = np.log(x)
    total = term = z
    for k in range(2, 100):
        term = term * z / k
        total = total + term
        if abs(term) < 1e-14:
            break
    return total * a


def by_loops_in_loops(a, x):
    t = 0.0 * x
    while t < 1.0:
        y = t + 1.0
        while abs(y * y - a) > 1e-9 * a:
            y = 0.5 * (y + a / y)
        t = t + 0.1 * (1.0 + 1 / y)
    return t * y * x


def by_object(a, x):
    held = SimpleNamespace(x=x, turns=0)
    while abs(held.x * held.x - a) > 1e-12 * a:
        held.x = 0.5 * (held.x + a / held.x)
        held.turns = held.turns + 1
    return held.x + (1.0 if held.turns % 2 else held.x * held.turns)


def by_array(a, x):
    v = np.array([1.0, 2.0, 3.0]) * x
    held = {"sum": np.zeros(3)}
    while np.any(v > 0.1):
        v = 0.7 * v * (1.0 - 0.01 * np.sin(v))
        held["sum"] = held["sum"] + v * a
    return held["sum"] * v


def by_kept(a, x):  # what is read was there before the loop, and is another thing than what changes
    first = x
    while abs(x * x - a) > 1e-10 * a:
        x = x - (x * x - a) / (2.0 * x + 0.1 * first / (1.0 + first))
    return x * first


FUNCTIONS = [by_while, by_break, by_else, by_return, by_counter, by_count_of_turns, by_bisection, by_secant, by_substeps, by_series,
             by_loops_in_loops, by_object, by_array, by_kept]  # fmt: skip


def points(count, seed=0):
    rng = np.random.default_rng(seed)
    return [(float(rng.uniform(0.5, 200.0)), float(10 ** rng.uniform(-2, 2))) for _ in range(count)]


@pytest.mark.parametrize("f", FUNCTIONS)
def test_values_and_derivatives_are_those_of_the_plain_function_for_all_numbers_of_turns(f):
    fast = jit(f, backend="numpy", paths=12)
    assert not follows(fast, f, points(20))
    assert "loop of at most" in fast.program(1.0, 2.0) and int(re.search(r"(\d+) path", fast.explain(1.0, 2.0))[1]) <= 7
    agree(fast, f, *points(2, seed=2), rtol=1e-9, order=1)
    agree(fast, f, points(2, seed=2)[1], rtol=1e-6)


def test_numbers_of_turns_from_0_to_200_are_a_few_paths():
    def decay(x, y):
        while x > y:
            x = x * 0.97 - 0.001 * np.sin(x)
        return x

    fast, turns = jit(decay, backend="numpy", paths=3), np.random.default_rng(4).integers(0, 200, 60)
    assert not follows(fast, decay, [(0.97 ** -float(n), 1.0) for n in turns])
    assert fast.traces <= 4 and re.search(r"; [123] path", fast.explain(1.0, 2.0))


def test_a_gradient_keeps_a_state_for_each_turn_up_to_a_power_of_two():
    def shrunk(x):
        while np.sum(x * x) > 1.0:
            x = 0.9 * x - 0.001 * np.sin(x)
        return np.sum(x)

    fast = jit(shrunk, backend="numpy")
    for turns, rows in ((6, 8), (20, 32), (9, 32), (37, 64)):
        x = np.full(10, 0.9**-turns / np.sqrt(10.0))
        same(checkpoint.grad(fast)(x), checkpoint.grad(shrunk)(x))
        (entry,) = fast.entries.values()
        forward, _ = entry.compiled.split_forward_backward([x], (True,), False)
        (loop,) = [operation for operation in forward.program.operations if type(operation.fn) is Scan]
        assert [kept.shape for kept in loop.outputs[loop.fn.carried :]] == [(rows, 10), (rows,)]


def limited(a, x):  # by an error after too many turns
    n = 0
    while abs(x * x - a) > 1e-12 * a:
        x = 0.5 * (x + a / x)
        n += 1
        if n == 9:
            raise RuntimeError(f"no root after {n} turns")
    return x


def breaks(a, x):  # around the loop, a for loop that ends after its own turns
    total = x
    for _ in range(3):
        while total > 0.0:
            total = total * 0.8
            if total < 0.5:
                break
        total = total + 40.0
        if total > 200.0:
            return total
    return total * a


def illinois(a, x):  # history that is not traced is not taken for a loop
    low, high = 0.0 * a, a + 1.0
    f, g, side = low * low - a, high * high - a, 0
    while abs(high - low) > 1e-6 * high:
        middle = (f * high - g * low) / (f - g)
        now = middle * middle - a
        if abs(now) < 1e-9 * a:
            break
        if now > 0:
            high, g = middle, now
            f = 0.5 * f if side == 1 else f
            side = 1
        else:
            low, f = middle, now
            g = 0.5 * g if side == -1 else g
            side = -1
    return middle * x


def damped(a, x):  # the constants around the loop are told from what may leave it
    n = 0
    while n < 7 and abs(x) > 0.08:
        n += 1
        x = 0.5 * x + 0.3 * (x + 0.5 * a) / (1.0 + abs(x + 0.5 * a))
        last, a = a, 0.4 * a + 0.1 * x
        if abs(a - last) < 0.02:
            a = a * 0.8
    return a * x


def by_middle(a, x):  # which is `low` or `high`, too
    low, high = 0.0 * a, 10.0 * a + x
    while high - low > 1e-2:
        middle = 0.5 * (low + high)
        if np.cos(middle) > a / 300:
            low = middle
        else:
            high = middle
    return middle


def by_middle_of_pair(a, x):
    low, high = 0.01 * a, 3.0 + 0.05 * x
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if np.cos(middle) > 0 else (low, middle)
        if high - low < 1e-2:
            break
    return middle


@pytest.mark.parametrize("f", [limited, breaks, illinois, damped, by_middle, by_middle_of_pair])
def test_what_may_be_taken_for_a_loop_or_for_a_constant_is_told_apart(f):
    at = [(0.9 * y, y) for y in (0.9, -0.83, 0.41, 0.17)] if f is damped else points(30 if f is limited else 12, seed=3)
    raised = follows(jit(f, backend="numpy", paths=64, verify=False), f, at)
    assert 0 < raised < 30 if f is limited else not raised
    if f is damped:
        for point in at:
            agree(jit(f, backend="numpy"), f, point, order=1)


def halved(x, n):
    return 0.5 * x + 3.0 if n == 7 else 0.5 * x


class Steps:
    """Halves; the seventh time it adds, too."""

    __slots__ = ("n",)

    def __init__(self):
        self.n = 0

    def __call__(self, x):
        self.n += 1
        return halved(x, self.n)


def by_closure():
    steps = Steps()
    return lambda x: steps(x)


def by_default():
    return lambda x, *, steps=Steps(): steps(x)  # noqa: B008


def by_class():
    class Held:
        n = 0

    def step(x):
        Held.n += 1
        return halved(x, Held.n)

    return step


def by_container(held, count):
    def step(x):
        count(held)
        return halved(x, held["n"] if isinstance(held, dict) else held[0] if len(held) > 50 else len(held))

    return step


def first_counts(held):
    held["n" if isinstance(held, dict) else 0] += 1


HIDDEN = {
    "slots": Steps,
    "method": lambda: Steps().__call__,
    "partial": lambda: partial(Steps.__call__, Steps()),
    "closure": by_closure,
    "default": by_default,
    "class": by_class,
    "deque": lambda: by_container(deque(), lambda held: held.append(0)),
    "set": lambda: by_container(set(), lambda held: held.add(len(held))),
    "defaultdict": lambda: by_container(defaultdict(int), first_counts),
    "long list": lambda: by_container([0] * 500, first_counts),
    "large array": lambda: by_container(np.zeros(5000), first_counts),
}


@pytest.mark.parametrize("made", HIDDEN.values(), ids=HIDDEN)
def test_what_a_step_keeps_to_itself_is_not_taken_for_constant(made):
    def f(a, x):
        step = made()
        while x > a:
            x = step(x)
        return x

    fast = jit(f, backend="numpy", verify=False)
    follows(fast, f, [(1.0, 0.99 * 2.0**turns) for turns in (5, 6, 8, 12)])


def by_parity(a, x):  # what is read in a turn was made in it, or in the turn before
    held = {"x": x, "n": 0}
    while held["x"] > a:
        held["x"] = held["x"] * 0.5
        held["n"] += 1
        held["even" if held["n"] % 2 else "odd"] = held["x"]
    return held["x"] + held.get("even", 0.0) * 2 + held.get("odd", 0.0) * 3


def by_equal_steps(a, x):
    for h in [0.5] * 7:
        x = x * h
        if x < a:
            break
    return x


def by_generator(a, x):
    def halves(x):
        while x > a:
            x = x * 0.5
            yield x

    y = x
    for n, y in enumerate(halves(x)):  # noqa: B007
        if n == 6:
            break
    return y


def by_answer_of_the_first_turn(a, x):
    total = 0.0 * x
    for i in range(5):
        y = x
        while y > a:
            y = y * 0.5
            total = total + y
            if total > 60.0:
                return total + i
        total = total + 1.0
    return -total


@pytest.mark.parametrize("f", [by_parity, by_equal_steps, by_generator, by_answer_of_the_first_turn])
def test_turns_that_differ_are_told_apart(f):
    for order in ((6, 5, 4, 3, 2, 1, 0, 8, 7, 11), (0, 1, 2, 3, 4, 5, 6, 7, 8, 10), (5, 9, 2, 0, 12)):
        fast = jit(f, backend="numpy", paths=40, verify=False)
        follows(fast, f, [(1.0 + 0.01 * k, 0.999 * 2.0**turns) for k, turns in enumerate(order)])


@pytest.mark.slow
@pytest.mark.skipif("llvm" not in BACKENDS, reason="llvmlite is not installed")
def test_the_gradient_of_a_chain_leaves_a_turn_where_the_step_does():
    for x in (7.0, 54.2125):
        fast, gradients = jit(lambda k, x, a: by_answer_of_the_first_turn(a, x)), []
        for at in (7.0, 54.2125):
            fast(0, at, 1.1)
        for step in (fast, fast.f):
            gradients.append(checkpoint.grad(lambda x, step=step: checkpoint.chain(step, x, 1.1, steps=1))(x))
        np.testing.assert_allclose(*gradients, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.skipif("llvm" not in BACKENDS, reason="llvmlite is not installed")
def test_loops_compile_with_the_values_of_numpy():
    for f, order in ((by_while, 0), (by_counter, 0), (by_bisection, 0), (by_array, 1)):
        fast = jit(f, backend="llvm")
        for at in points(20):
            close(fast(*at), f(*at), rtol=order * 1e-12)
            assert [type(one) for one in leaves(fast(*at))] == [type(one) for one in leaves(f(*at))]
        agree(fast, f, (3.0, 9.0), rtol=1e-10, order=1)
