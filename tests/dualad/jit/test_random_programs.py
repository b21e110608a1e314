"""Random programs of slices, rolls, broadcasts, assignments, reductions and scalars: compiled against NumPy and eager derivatives."""

from __future__ import annotations

import numpy as np
import pytest

from checkpoint import chain, grad, vjp
from dualad import jit, jvp
from dualad.jit.compiled import BACKENDS

SLICES = [slice(None), slice(1, None), slice(None, -1), slice(None, None, -1), slice(1, -1), slice(None, None, 2)]
UNARY = [np.sin, np.exp, np.tanh, np.square, np.negative, np.abs, lambda x: np.sqrt(x * x + 1.0), lambda x: x**3]
BINARY = [np.add, np.subtract, np.multiply, np.maximum, np.minimum, np.hypot, lambda a, b: a / (b * b + 1.0), np.arctan2]


def whole(rng, n):
    """An array of shape (n, n) from a value, by index maps and reductions."""

    def roll(x):
        shift, axis = int(rng.integers(-2, 3)), int(rng.integers(2))
        return np.roll(x, shift, axis)

    def padded(x):
        rows = SLICES[rng.integers(len(SLICES))]
        y = np.zeros_like(x)
        part = x[rows]
        y[: part.shape[0]] = part
        return y

    def update(x):
        y = x.copy()
        y[1:-1] += 0.5 * (x[2:] - x[:-2])
        y[:, 0] = x[:, -1]
        y[[0, 1, 0]] = x[:3] * 0.5
        return y

    choices = [
        roll,
        padded,
        update,
        lambda x: x.T,
        lambda x: x[::-1, ::-1],
        lambda x: x - np.mean(x, axis=0),
        lambda x: x * np.sum(x, axis=1, keepdims=True),
        lambda x: x + np.max(x, axis=0)[:, None],
        lambda x: np.concatenate([x[2:], x[:2]]),
        lambda x: np.stack([x[k % n] for k in range(n)], axis=1),
        lambda x: np.broadcast_to(x[0], (n, n)) + x[:, :1],
        lambda x: np.cumsum(x, axis=int(rng.integers(2))),
        lambda x: x @ np.tanh(x),
        lambda x: np.where(x > 0.1, x, 0.5 * x),
        lambda x: x[rng.integers(0, n, n)],
        lambda x: np.pad(x[1:-1, 1:-1], 1, mode="edge"),
        lambda x: x * x[0, 0] + float(rng.normal()),
        lambda x: x.reshape(-1)[::-1].reshape(n, n),
        lambda x: np.diff(x, axis=0, append=x[:1]),
    ]
    return choices[rng.integers(len(choices))]


def program(seed):
    """A function of an array and a number, the same at every call."""

    def f(x, c):
        rng = np.random.default_rng(seed)
        values = [x, x * c]
        for _ in range(8):
            a, b = (values[rng.integers(len(values))] for _ in range(2))
            kind = rng.integers(3)
            if kind == 0:
                new = UNARY[rng.integers(len(UNARY))](a)
            elif kind == 1:
                new = BINARY[rng.integers(len(BINARY))](a, b)
            else:
                new = whole(rng, x.shape[0])(a)
            values.append(new / (1.0 + np.max(np.abs(new))))
        return values[-1] + values[-2], np.sum(values[-1] * values[-3])

    return f


@pytest.mark.long
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("seed", range(24))
def test_random_programs(seed, backend):
    rng = np.random.default_rng(1000 + seed)
    f = program(seed)
    compiled = jit(f, backend=backend)
    x, c = rng.normal(size=(5, 5)), 0.7
    v, w, g, h = rng.normal(size=(5, 5)), 0.3, rng.normal(size=(5, 5)), 0.9
    exact = backend == "numpy"
    for got, expected in zip(compiled(x, c), f(x, c), strict=True):
        if exact:
            np.testing.assert_array_equal(got, expected)
        else:
            np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-13)
    for got, expected in zip(jvp(compiled, (x, c), (v, w))[1], jvp(f, (x, c), (v, w))[1], strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-11)
    for got, expected in zip(vjp(compiled, x, c)[1]((g, h)), vjp(f, x, c)[1]((g, h)), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-11)


def test_pullbacks_of_a_chain_find_again_what_is_largest():
    """Their products were fused with sums, and so rounded otherwise than in the step: the largest element was none of theirs."""
    f, c = program(77028), 1.3490738833821134
    rng = np.random.default_rng(1077028)
    n = int(rng.integers(3, 13))
    x = rng.uniform(-1, 1, (n, n))

    def step(k, x, c):
        return 0.9 * x + 0.1 * f(x, c)[0]

    got, expected = (grad(lambda x, c, s=s: np.sum(np.sin(chain(s, x, c, steps=1))), argnums=(0, 1))(x, c) for s in (jit(step), step))
    np.testing.assert_allclose(got[0], expected[0], rtol=1e-10)
    assert got[1] == pytest.approx(expected[1], rel=1e-10)
