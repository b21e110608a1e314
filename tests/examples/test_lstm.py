"""The example of an LSTM: its gradient by complex steps through a plain loop."""

import numpy as np
import pytest
from loaded import load

pytest.importorskip("scipy.special")
from checkpoint import grad

example = load("examples/lstm.py")


def plain_loss(parameters, inputs, first):
    """The same network in a loop, by another formula of the sigmoid, which takes complex numbers."""
    sigmoid = lambda x: 1.0 / (1.0 + np.exp(-x))
    hidden = cells = np.zeros((inputs.shape[1], example.WIDTH))
    for x in inputs:
        gates = np.hstack([x, hidden]) @ parameters["gates"] + parameters["biases"]
        keep, write, show, new = np.hsplit(gates, 4)
        cells = sigmoid(keep) * cells + sigmoid(write) * np.tanh(new)
        hidden = sigmoid(show) * np.tanh(cells)
    return np.mean(np.log1p(np.exp(-2.0 * first * (hidden @ parameters["reading"]))))


def test_the_gradient_is_that_of_complex_steps():
    inputs, first = example.NEW[:12, :4], example.FIRST[1, :4]
    gradient = grad(example.surprise)(example.START, inputs, first)
    for name, place in (("gates", (0, 3)), ("gates", (5, 40)), ("biases", (17,)), ("reading", (2,))):
        shifted = {key: value.astype(complex) for key, value in example.START.items()}
        shifted[name][place] += 1e-30j
        assert gradient[name][place] == pytest.approx(plain_loss(shifted, inputs, first).imag / 1e-30, rel=1e-10)
