"""The numbers of the texts that this project grew from (value, tangents, adjoints), in both modes."""

from itertools import pairwise

import numpy as np
import pytest

import dualad
from checkpoint import explain, grad, value_and_grad, vjp


def test_textbook_function_of_two_variables():
    def f(x1, x2):
        return np.log(x1) + x1 * x2 - np.sin(x2)

    value, (by_x1, by_x2) = value_and_grad(f, argnums=(0, 1))(2.0, 5.0)
    assert value == pytest.approx(11.652, abs=5e-4)
    assert by_x1 == pytest.approx(5.5)
    assert by_x2 == pytest.approx(1.716, abs=5e-4)
    assert dualad.gradient(f, argnums=(0, 1))(2.0, 5.0) == pytest.approx((by_x1, by_x2))
    lines = {line.number: line for line in explain(f, 2.0, 5.0).lines}
    assert [round(float(lines[i].value), 3) for i in (1, 2, 3, 4, 5)] == [0.693, 10.0, 10.693, -0.959, 11.652]
    assert [float(lines[i].adjoint) for i in (5, 3, 4, 2, 1)] == [1, 1, -1, 1, 1]
    _, pullback = vjp(np.sin, 5.0)
    assert pullback(-1.0)[0] == pytest.approx(-0.284, abs=5e-4)  # x2's first share


def h(a, b, c):
    f = np.sin(a * b) + np.exp(c - a / b)
    return np.log(f * f) * c


#: functions, their arguments, and their gradients to a relative accuracy
GRADIENTS = {
    "quadratic": (lambda a, b, c, x: a * x**2 + b * x + c, (2.0, 3.0, 4.0, 1.5), (2.25, 1.5, 1.0, 9.0), 1e-6),
    "quadratic, falling": (lambda a, b, c, x: a * x**2 + b * x + c, (-1.0, 0.5, 2.0, -2.0), (4.0, -2.0, 1.0, 4.5), 1e-6),
    "product plus sine": (lambda x, y: x * y + np.sin(x), (0.7, -1.3), (-1.3 + np.cos(0.7), 0.7), 1e-6),
    "routes": (lambda a, b: a * (a + b), (4.0, 3.0), (11.0, 4.0), 0.0),
    "many routes": (lambda a, b: (a / b - a) * (b / a + a + b) * (a - b), (230.3, 33.2), (-153284.83150602411, 3815.0389441500993), 1e-13),
    "functions": (h, (43.0, 3.0, 2.0), (60.85353612046653, 872.2331479536114, -3.2853671032530305), 1e-11),
}


@pytest.mark.parametrize("verb", [grad, dualad.gradient])
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name, verb):
    f, at, expected, accuracy = GRADIENTS[name]
    assert verb(f, argnums=tuple(range(len(at))))(*at) == pytest.approx(expected, rel=accuracy, abs=0.0)


def test_two_results_from_one_pass():
    f = lambda x: (2 * x + np.sin(x), 4 * x + np.cos(x))
    expected = (2 + np.cos(0.4), 4 - np.sin(0.4))
    assert dualad.jvp(f, (0.4,), (1.0,))[1] == pytest.approx(expected)
    _, pullback = vjp(f, 0.4)  # one recording, two cotangents
    assert (pullback((1.0, 0.0))[0], pullback((0.0, 1.0))[0]) == pytest.approx(expected)


def test_layer_of_relus():
    a, b = np.arange(-4.0, 4.0).reshape(2, 4), np.arange(-2.0, 2.0).reshape(4, 1)
    by_a, by_b = grad(lambda a, b: np.sum(np.maximum(np.dot(a, b), 0.0)), argnums=(0, 1))(a, b)
    np.testing.assert_array_equal(by_a, [[-2, -1, 0, 1], [-2, -1, 0, 1]])
    np.testing.assert_array_equal(by_b, [[-4], [-2], [0], [2]])


def test_training_a_linear_layer_lowers_the_loss():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(32, 50)), rng.normal(size=(32, 10))
    loss = lambda w, b: np.mean((x @ w + b - y) ** 2)
    w, b = rng.normal(size=(50, 10)), np.zeros(10)
    losses = []
    for _ in range(100):
        value, (by_w, by_b) = value_and_grad(loss, argnums=(0, 1))(w, b)
        losses.append(value)
        w, b = w - 0.1 * by_w, b - 0.1 * by_b
    assert losses[-1] < 0.5 * losses[0]
    assert all(later < earlier for earlier, later in pairwise(losses))
