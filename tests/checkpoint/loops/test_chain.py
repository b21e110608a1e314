"""chain: traps of references section 3, in every mode and under every schedule."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from calls import bits
from chains import FLOATS, SCHEDULES, halve, wave_loss
from comparing import close
from in_groups import for_each

import dualad
from checkpoint import Stats, chain, grad, linearize, value_and_grad
from checkpoint.schedules.machine import simulate


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@for_each("steps", [0, 1, 2, 3, 16, 100], str)
def test_linear_map_has_its_closed_form(schedule, steps):
    stats = Stats()
    value, gradient = value_and_grad(lambda x: chain(halve, x, steps=steps, schedule=schedule, stats=stats))(1.0)
    assert value == pytest.approx(3.0 - 2.0 * 3.0**-steps, rel=1e-12)
    assert gradient == pytest.approx(3.0**-steps, rel=1e-12)
    assert (stats.steps, stats.pulls) == (steps, steps)
    assert stats.advances == simulate(schedule, steps).advances + bool(steps)


def test_gradient_against_central_differences_and_forward_mode():
    found, h = grad(wave_loss, argnums=(0, 1))(FLOATS, 0.1), 1e-6
    assert found[1] == pytest.approx((wave_loss(FLOATS, 0.1 + h) - wave_loss(FLOATS, 0.1 - h)) / (2 * h), rel=1e-7)
    close(found, dualad.gradient(wave_loss, argnums=(0, 1))(FLOATS, 0.1))


def test_chain_of_a_chain_and_several_chains():
    def inner(k, x, a):
        return chain(lambda j, y, a: y + 0.01 * np.sin(a * y), x, a, steps=5)

    def f(x, a):
        first = chain(inner, x, a, steps=4)
        return np.sum(chain(inner, first * a, a + 1.0, steps=3) * first)

    args = np.linspace(0.1, 1.0, 4), 2.0
    close(grad(f, argnums=(0, 1))(*args), dualad.gradient(f, argnums=(0, 1))(*args))


def test_mixed_precision_state_keeps_its_dtypes():
    step = lambda k, state: (state[0] * np.float32(0.5), state[1] + np.sum(state[0]))
    f = lambda a, b: np.sum(chain(step, (a, b), steps=4)[1])
    by_a, by_b = grad(f, argnums=(0, 1))(np.ones(3, np.float32), np.float64(1.0))
    assert by_a.dtype == np.float32 and by_a.tolist() == [1.875] * 3 and by_b == 1.0


def test_length_found_by_a_predicate():
    asked, stats = [], Stats()
    until = lambda k, x: asked.append((k, type(x))) or x < 0.1
    assert grad(lambda x: chain(lambda k, x: x / 2, x, until=until, max_steps=50, stats=stats))(1.0) == 2.0**-4
    assert stats.steps == 4 and asked == [(k, float) for k in range(5)], "in the first sweep only"


def test_object_arrays_in_a_state_are_packed():
    f = lambda x: np.sum(chain(lambda k, x: np.array([x[0] * 1.1, x[0] + x[1]]), x, steps=3))
    close(grad(f)(np.array([1.0, 2.0])), dualad.gradient(f)(np.array([1.0, 2.0])))


def test_many_threads_do_not_meet():
    work = lambda i: grad(lambda x: chain(lambda k, x: x * (1 + 0.01 * i), x, steps=50))(1.0)
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(8))) == pytest.approx([(1 + 0.01 * i) ** 50 for i in range(8)])


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
    assert bits((value, push(*tangents))) == bits((expected, pushed))
    zeros = tuple(map(np.zeros_like, primals[:2]))
    assert not any(map(np.any, push(*zeros, {"a": 0.0, "b": 0.0 * x})))
    along = lambda t: np.sum(push(t, u, primals[2])[0] ** 2)
    jacobian = np.stack([push(e, 0 * u, {"a": 0.0, "b": 0.0 * x})[0] for e in np.eye(3)], axis=1)
    np.testing.assert_allclose(grad(along)(v), 2 * jacobian.T @ push(v, u, primals[2])[0], rtol=1e-12)
    second = lambda x: linearize(f, x, u, primals[2])[1](*tangents)[0]
    twice = lambda x: dualad.jvp(f, (x, u, primals[2]), tangents)[1][0]
    close(dualad.jvp(second, (x,), (v,))[1], dualad.jvp(twice, (x,), (v,))[1])


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
    with pytest.raises(RuntimeError, match="gave another x_3"):
        push(1.0)
