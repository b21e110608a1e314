"""Chains whose steps branch on values, and predicates, in code that is traced: what is traced again, and what is not."""

import numpy as np
import pytest
from calls import bits
from comparing import close

from checkpoint import chain, grad, hvp
from checkpoint.loops.traced import Turn
from dualad import jit, jvp
from dualad.graph.nested import Scan
from dualad.jit.compiled import BACKENDS

X, C = np.linspace(0.2, 1.4, 5), 1.3


def step(k, x, c):
    if x[0] > 0.7:
        return 0.5 * x * c
    if k % 5 == 3:
        x = np.maximum(x, 0.1)
    return c * x / (1.0 + 0.1 * x * x)


def loss(x, c):
    return np.sum(chain(step, x, c, steps=20) ** 2)


def ended(x, c):
    final = chain(lambda k, x: 0.8 * x if k % 3 else x / (1.0 + x * x), x * c, until=lambda k, x: k > 2 and np.max(x) < 0.05)
    return np.sum(final * final)


def loops_in(jitted):
    (entry,) = jitted.entries.values()
    return [operation.fn for operation in entry.compiled.program.operations if type(operation.fn) is Scan]


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("f", [loss, ended])
def test_a_chain_whose_steps_branch_is_one_operation(f, backend):
    fast = jit(f, backend=backend)
    assert bits(fast(X, C)) == bits(f(X, C)) and len(loops_in(fast)) == 1
    close(jit(grad(f, argnums=(0, 1)), backend=backend)(X, C), grad(f, argnums=(0, 1))(X, C), atol=1e-15)
    t = np.cos(X)
    np.testing.assert_allclose(jvp(fast, (X, C), (t, 0.3))[1], jvp(f, (X, C), (t, 0.3))[1], rtol=1e-12)
    np.testing.assert_allclose(jit(lambda x: hvp(lambda x: f(x, C), x, t), backend=backend)(X), hvp(lambda x: f(x, C), X, t), rtol=1e-11)


def either(k, x, c):
    if c > 1.0:
        return c * x / (1.0 + x * x)
    return x * x - c if x[k % 5] > 1.5 else 0.9 * x


def test_paths_of_other_arguments_are_traced_when_they_are_met_and_kept():
    f = lambda x, c: np.sum(chain(either, x, c, steps=20))
    fast, many = jit(f), [(X, C), (X, 0.5), (2.0 * X, 0.5), (X, C)]
    for args in many:
        assert bits(fast(*args)) == bits(f(*args))
    assert 2 <= fast.traces <= 4
    known = fast.traces
    for args in 2 * many:
        assert bits(fast(*args)) == bits(f(*args))
    assert fast.traces == known


def test_a_path_that_a_chain_has_learnt_is_not_traced_again():
    def mine(k, x, c):  # which no other test has made paths of
        if c > 1.0:
            return c * x / (1.0 + x * x)
        return x * x - c if x[k % 5] > 1.5 else 0.9 * x

    fast, counts = jit(lambda x, c: np.sum(chain(mine, x, c, steps=20)), verify=False), []
    for args in [(X, C), (X, 0.5), (X, 0.5), (2.0 * X, 0.5), (2.0 * X, 0.5), (X, C)]:
        fast(*args)
        counts.append(fast.traces)
    assert counts == [1, 2, 2, 3, 3, 3]


def test_more_turns_than_the_examples_took():
    fast, h = jit(ended), 1e-6
    for scale in (0.3, 1.0, 30.0, 0.1, 1.0):
        assert bits(fast(scale * X, C)) == bits(ended(scale * X, C))
    assert fast.traces <= 4
    np.testing.assert_allclose(grad(lambda c: fast(X, c))(C), (ended(X, C + h) - ended(X, C - h)) / (2 * h), rtol=1e-5, atol=1e-9)


def test_a_branch_on_what_a_chain_gives():
    def f(x):
        y = chain(lambda k, x: 0.9 * x + 0.01, x, steps=50)
        return y if y > 0.5 else -y

    fast = jit(f)
    for x in (10.0, 500.0, 20.0, 900.0):
        assert fast(x) == f(x)
    assert fast.traces == 2


def test_what_raises_in_a_turn_and_a_predicate_that_never_comes_true():
    def f(x):
        def growing(k, x):
            if x > 50.0:
                raise FloatingPointError("it diverged")
            return 1.5 * x

        return chain(growing, x, steps=9)

    fast = jit(f)
    assert fast(1.0) == f(1.0)
    with pytest.raises(FloatingPointError, match="it diverged"):
        fast(20.0)
    assert fast(0.1) == f(0.1)
    never = jit(lambda x: chain(lambda k, x: 1.1 * x, x, until=lambda k, x: x > 5.0, max_steps=9))
    assert never(4.0) == 4.0 * 1.1 * 1.1 * 1.1
    with pytest.raises(RuntimeError, match="still not true after max_steps=9 steps"):
        never(0.01)


def halved(k, x):
    low, high = 0.0, 3.0
    for _ in range(8):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if middle * middle > 1.0 + x[0] * x[0] else (middle, high)
    return 0.5 * x + 0.1 * np.sin(x[::-1] * (low + high) * x[1]) + 0.05 * k


@pytest.mark.slow
def test_steps_on_more_paths_than_are_compiled_are_those_of_the_plain_function_with_one_warning(monkeypatch):
    taken, turns = Turn.taken, []
    monkeypatch.setattr(Turn, "taken", lambda turn, *lengths: turns.append(turn) or taken(turn, *lengths))
    f = lambda x: np.sum(chain(halved, x, steps=40) ** 2)
    fast, slope = jit(f), jit(grad(f))
    line = halved.__code__.co_firstlineno + 4
    for compiled, plain in ((fast, f), (slope, grad(f))):
        with pytest.warns(UserWarning, match=rf"test_traced_branches.py, line {line}: the steps of a chain take more than 16 paths"):
            assert bits(compiled(X)) == bits(plain(X))
        assert bits(compiled(-X)) == bits(plain(-X)) and compiled.traces == 1
    fast.cache_clear()
    assert bits(fast(X)) == bits(f(X)) and fast.traces == 2
    assert 0 < len(turns) == len(set(turns))  # none is traced again with symbols, which would take as many paths
