"""chain: inputs, one row for each step, and outs, against the loop written out; lists of layers."""

import numpy as np
import pytest
from chains import ROWS, SCHEDULES, STATE, by_hand, trajectory_loss, with_chain
from comparing import close

import dualad
from checkpoint import chain, grad, hvp, jacobian, vjp


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_inputs_and_outputs_against_the_plain_loop(schedule):
    assert trajectory_loss(with_chain, STATE, ROWS, 0.7) == trajectory_loss(by_hand, STATE, ROWS, 0.7)
    of = lambda program, verb, **options: verb(lambda *args: trajectory_loss(program, *args, **options), argnums=(0, 1, 2))(
        STATE, ROWS, 0.7
    )
    for found in (of(with_chain, grad, schedule=schedule), of(with_chain, dualad.gradient)):
        close(found, of(by_hand, dualad.gradient), rtol=1e-11, atol=1e-13)


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
    g = lambda x, w: np.sum((np.tanh(x * w) ** 2 + 1) * w)
    args = np.array([0.2, 0.4]), 1.5
    close(grad(lambda x, w: np.sum(chain(layers, x, w)), argnums=(0, 1))(*args), grad(g, argnums=(0, 1))(*args))
