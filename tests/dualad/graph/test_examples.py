"""Traces of pullbacks hold few examples of large values; the program is the same as with all of them."""

import tracemalloc

import numpy as np
import pytest

import dualad
from dualad.graph import trace
from dualad.graph.differentiate import pullback, pushforward
from dualad.jit.arguments import Call

N = 48


def long(x):
    for i, f in enumerate((np.sin, np.tanh, np.cos, np.exp, np.arctan, np.sinh, np.square, np.cosh, np.expm1, np.arcsinh)):
        x = f(0.1 * x) * x + np.roll(x, i, i % 2) / 7
    return x


def layouts(x):
    y = np.cos(x)
    z = y.T[::-1, 1:] * np.exp(y).T[:, 1:]
    w = np.copy(z + 1.0, order="F").reshape(-1, order="A")
    v = np.ravel(np.moveaxis(y.reshape(N, -1, 2), 2, 0), order="K")
    return np.sum(w[::-2]) + np.sum(v * v) + np.mean(y[::-1, ::3] * 2j * y[::-1, ::3]).imag


def written(x):
    y = np.tanh(x)
    z = y.reshape(-1)
    z[::7] *= 2.0
    y[3:, 1] += x[0, :-3]
    np.add.at(y, (np.arange(N) % 5, 2), x[:, 0])
    return y * x


def chooses(x):
    i = np.argsort(x, axis=1)
    y = np.take_along_axis(np.exp(x), i, axis=1)
    return np.where(y > 1.0, y, x) + np.interp(x, np.linspace(-1, 1, N), y[0]) + y[i[:, 0]]


def raises(x):
    return np.linalg.solve(x @ x.T + N * np.eye(N), np.sin(x)) @ np.cos(np.linalg.inv(x + N * np.eye(N)))


def traced(f, x):
    program = dualad.jit(f).entry(Call(dualad.jit(f), (x,), {})).compiled.program
    ones = [np.ones(out.shape, out.dtype) for out in program.outputs]
    return program, lambda: pullback(program, [x], [True], ones)


X = np.sin(np.arange(N * N, dtype=float)).reshape(N, N)


@pytest.mark.parametrize(
    "x", [X, X.astype(np.float32), X + 0.5j * X.T, np.asfortranarray(X), X[::-1]], ids=["C", "f4", "c16", "F", "reversed"]
)
@pytest.mark.parametrize("f", [long, layouts, written, chooses, raises], ids=lambda f: f.__name__)
def test_the_program_is_the_same(f, x, monkeypatch):
    if f is chooses and x.dtype.kind == "c":
        pytest.skip("complex numbers are not compared")
    program, made = traced(f, x)
    found = []
    for small in (-1, 1 << 40):
        monkeypatch.setattr(trace, "SMALL_ARRAY_BYTES", small)
        back = made()
        (g, *_) = back.run(x, *(np.ones(out.shape, out.dtype) for out in program.outputs))
        found.append((str(back), [(v.layout, v.kind, v.shape, v.dtype) for one in back.operations for v in one.outputs], g.tobytes()))
    assert found[0] == found[1]


@pytest.mark.parametrize("verb", ["pullback", "pushforward"])
def test_a_trace_holds_few_examples_of_large_values(verb):
    x = np.ones((512, 512))
    program, back = traced(long, x)
    trace = back if verb == "pullback" else lambda: pushforward(program, [x], [x])
    trace()
    tracemalloc.start()
    try:
        trace()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= 9 * x.nbytes, "there are 60 values"
