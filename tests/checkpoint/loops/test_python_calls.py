"""Compiled steps call Python for what has no loops: as often as eagerly, with values of their own, and its errors are the user's."""

from itertools import count

import numpy as np
import pytest
from comparing import close

from checkpoint import Stats, StoreAll, chain, grad
from dualad import jit, jvp, primitive
from dualad.rules import elementwise, linear

pytest.importorskip("llvmlite")
X = np.linspace(0.1, 0.9, 7)
TICKS = count()


@primitive
def engine(x, a):
    next(TICKS)
    assert type(x) is np.ndarray and isinstance(a, float)
    if np.max(x) > 3.0:
        raise ArithmeticError("the engine broke")
    return np.tanh(x) * a


elementwise(engine, lambda ans, x, a: a / np.cosh(x) ** 2, lambda ans, x, a: np.tanh(x))


@primitive
def shuffled(x):
    return x[::-1]  # a view


linear(shuffled, lambda g, x: shuffled(g))


@primitive
def stopped(x):
    if x[0] > 0.5:
        raise KeyboardInterrupt
    return x + 0.1


elementwise(stopped, lambda ans, x: np.ones_like(x))


def step(k, state, a):
    x, total = state
    return 0.9 * x + 0.1 * shuffled(engine(x * (1.0 + 0.01 * k), a)), total + np.sum(x)


def loss(step, **options):
    def f(x, a):
        y, total = chain(step, (x, 0.0), a, steps=10, **options)
        return np.sum(np.sin(y)) + total

    return f


def test_a_step_with_a_function_of_the_users_is_made_in_blocks():
    stats, compiled = Stats(), jit(step)
    got = grad(loss(compiled, stats=stats, schedule=StoreAll(), block=5), argnums=(0, 1))(X, 0.7)
    close(got, grad(loss(step), argnums=(0, 1))(X, 0.7), rtol=1e-13)
    assert "each step calls Python" in stats.reason and stats.reason.count("engine: it has no loop form") == 1
    assert f"test_python_calls.py, line {step.__code__.co_firstlineno + 2}" in stats.reason
    final, plain = (chain(s, (X, 0.0), 0.7, steps=10) for s in (compiled, step))
    np.testing.assert_array_equal(final[0], plain[0])


def test_calls_in_turns_of_a_loop_are_named_too():
    def turns(k, x, a):
        for _ in range(40):
            x = 0.5 * engine(np.roll(x, 1), a) + 0.1 * x[0]
        return x

    stats = Stats()
    chain(jit(turns), X, 0.7, steps=5, stats=stats)
    assert "each step calls Python" in stats.reason and "engine: it has no loop form" in stats.reason
    assert "called in loops: test_python_calls.py" in jit(turns).explain(0, X, 0.7)


def test_python_is_called_once_a_step():
    compiled, stats = jit(step, verify=False), Stats()
    chain(compiled, (X, 0.0), 0.7, steps=10)
    before = next(TICKS)
    chain(compiled, (X, 0.0), 0.7, steps=10, stats=stats)
    assert next(TICKS) - before == 11 and stats.reason.startswith("each step calls Python")


@pytest.mark.slow
def test_derivatives_of_derivatives_call_python_too():
    t = np.cos(X)
    second = [jvp(grad(loss(s)), (X, 0.7), (t, 0.2))[1] for s in (step, jit(step))]
    np.testing.assert_allclose(second[1], second[0], rtol=1e-12)
    whole = jit(grad(loss(step)))  # the chain is a loop of the program
    np.testing.assert_allclose(whole(X, 0.7), grad(loss(step))(X, 0.7), rtol=1e-13)


@pytest.mark.parametrize("of", [lambda f: f, grad], ids=["value", "gradient"])
def test_its_errors_are_the_users(of):
    grown = lambda k, state, a: (1.5 * step(k, state, a)[0], state[1])
    for s in (grown, jit(grown)):
        with pytest.raises(ArithmeticError, match="the engine broke"):
            of(loss(s))(X, 9.0)


def test_an_interrupt_in_python_ends_the_chain():
    compiled = jit(lambda k, x: stopped(x), verify=False)
    chain(compiled, X * 0.0, steps=2)
    with pytest.raises(KeyboardInterrupt):
        chain(compiled, X * 0.0, steps=50)


def test_an_interrupt_in_python_ends_the_chain_also_where_an_index_is_out_of_bounds_later():
    once = [KeyboardInterrupt]

    @primitive
    def stopped_once(x):
        if x[0] > 0.5 and once:
            raise once.pop()
        return x + 0.1

    elementwise(stopped_once, lambda ans, x: np.ones_like(x))
    compiled = jit(lambda k, x, table: stopped_once(x) + 0.0 * table[k], verify=False)
    assert chain(compiled, X * 0.0, np.zeros(9), steps=2)[0] > 0.0
    with pytest.raises(KeyboardInterrupt):
        chain(compiled, X * 0.0, np.zeros(9), steps=50)


def test_a_result_of_another_shape_is_an_error():
    @primitive
    def some(x):
        return x[x > 0.0]

    linear(some, lambda g, x: g)
    compiled = jit(lambda k, x: some(x) - 0.02)
    shape = r"chain: step 5 returned float64 of shape \(6,\)"
    with pytest.raises(TypeError, match=shape), pytest.warns(UserWarning, match="NumPy computed the call instead"):
        chain(compiled, X, steps=10)
