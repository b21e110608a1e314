import math
import re

import numpy as np
import pytest
from comparing import close
from interpreted import recorded as traced

import dualad
from dualad.core.levels import Level
from dualad.graph.program import Value
from dualad.graph.symbol import Symbol
from dualad.graph.trace import Trace, TraceError, user_line
from dualad.rules.indexing import getitem, updated

X = np.linspace(0.2, 0.9, 6).reshape(2, 3)

FUNCTIONS = {
    "operators": lambda x: -x + 2 * x / (1.0 - x) ** 2 - abs(x) % 0.3 // 0.1,
    "reflected": lambda x: (2 - x, 2.0**x, 1 / x, np.float64(3.0) * x, np.ones(3) - x),
    "methods": lambda x: (x.sum(axis=0), x.mean(), x.reshape(3, 2).T, x.astype(np.float32), x.copy(), x.ravel()[::2]),
    "comparisons": lambda x: (x > 0.5, (x > 0.3) & (x < 0.6), ~(x == 0.2), (x > 0.3).any()),
    "views": lambda x: change_view(x),
    "assignments": lambda x: assign(x),
    "masks": lambda x: mask(x),
    "masks and slices": lambda x: masks_and_slices(x),
    "buffers": lambda x: fill(x),
    "joins": lambda x: (np.concatenate([x, x], axis=1), np.stack([x[0], x[1]]), np.array([x[0, 0], 1.0, x[1, 2]])),
    "several": lambda x: np.divmod(x, 0.3),
    "ufunc methods": lambda x: (np.add.reduce(x), np.multiply.outer(x[0], x[1]), np.logical_and.reduce(x > 0.1), np.maximum.accumulate(x)),
    "out": lambda x: np.add(x, 1.0, out=np.empty_like(x)),
    "masked ufunc": lambda x: np.sqrt(x, where=x > 0.4, out=np.zeros_like(x)),
    "masked ufunc of two results": lambda x: np.modf(3.0 * x, where=x > 0.4, out=(np.zeros_like(x), x * 2.0)),
    "sorted": lambda x: (np.sort(x), x[0][np.argsort(-x[0])]),
    "bits": lambda x: np.bitwise_xor(x > 0.3, x > 0.6),
}


def change_view(x):
    y = x.copy()
    row = y[1]
    row += 1.0
    y.T[0] *= 3.0
    return y, row, y[1:][0]


def assign(x):
    y = np.zeros_like(x)
    y[0] = x[1]
    y[1, ::2] = 2.0
    y[:, [0, 2]] += x[:, 1:]
    y[...] = y * 2.0
    return y


def mask(x):
    y = x.copy()
    y[x > 0.5] = 0.0
    y[0][y[0] < 0.3] = 7.0
    return y, np.where(x > 0.4, x, 1.0)


def masks_and_slices(x):
    y = np.multiply.outer(x[0], x)
    y[:, x > 0.5] = 2.0
    y[1:, x[:, 0] > 0.4, ::2] = x[1, :2]
    y[0, ..., x[0] > 0.6] = x[:1, 0]
    y[x[0] > 0.7] = x[:, :1]
    y[..., None, x[1] > 0.7] = x[:, 1:2, None]
    y[1, :, :2][x[:, :2] > 0.4] = 0.5
    y[2, 1, 0, x[0, 0] > 5.0] = 3.0
    y[1, :, x[0] > 0.3] = x[:, 0]  # a slice between the integer and the mask: of shape (chosen, 2)
    y[2, ..., x[0] > 0.5] = x[None, :, 2]
    y[:, x[:, 0] > 0.4, ..., 1] = x[0]
    y[:, x[:, 0] > 0.4, None, 0] = x[:1, :1]
    return y


def fill(x):
    y = np.empty_like(x)
    y.fill(2.0)
    z = np.zeros(4, like=x)
    z[1:] = x[0]
    return y, z, np.ones_like(x) * x


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_trace_computes_what_numpy_does(name):
    f = FUNCTIONS[name]
    program = traced(f, X)
    for x in (X, 1.0 - X):
        got, expected = program.run(x), f(x.copy())
        for a, b in zip(got, expected if isinstance(expected, tuple) else (expected,), strict=True):
            np.testing.assert_array_equal(a, np.asarray(b))
            assert np.asarray(a).dtype == np.asarray(b).dtype


def test_the_arguments_are_not_written():
    x = X.copy()
    traced(change_view, x).run(x)
    np.testing.assert_array_equal(x, X)


@pytest.mark.parametrize("k", [0, 3])
def test_a_traced_integer(k):
    f = np.arange(20.0).reshape(5, 4)
    program = traced(lambda k, x, f: (np.where(k == 0, x, x + f[k]), k + 1, 2 * k // 3 % 2, x * k), 2, np.ones(4), f)
    got = program.run(k, np.ones(4), f)
    close(got, (np.ones(4) if k == 0 else 1.0 + f[k], k + 1, 2 * k // 3 % 2, np.ones(4) * k), rtol=0.0)


def test_python_numbers_stay_weak():
    program = traced(lambda c, x: (c * 2.0 + 1, np.multiply(c, 2.0), (c * 2.0) * x, np.sin(c) * x), 0.5, np.ones(2, np.float32))
    a, b, c, d = program.run(0.5, np.ones(2, np.float32))
    assert (type(a), type(b), c.dtype, d.dtype) == (float, np.float64, np.float32, np.float64)
    assert [out.kind for out in program.outputs] == ["python", "scalar", "array", "array"]
    assert math.isnan(traced(lambda c: 1.0 / c, 0.0).run(math.nan)[0])


def test_what_is_a_symbol_to_those_who_ask():
    with Trace() as trace:
        x = trace.input(X)
        assert (x.shape, x.dtype, len(x), x.ndim, x.size) == ((2, 3), np.float64, 2, 2, 6)
        assert np.shape(x) == (2, 3) and np.result_type(x, np.float32) == np.float64 and not np.iscomplexobj(x)
        assert type(dualad.primal(x)) is Symbol
        assert repr(x) == "Symbol(x0: float64[2,3])"
        assert user_line()[0] == __file__


NEEDED = {
    "if": (lambda x: x if x[0, 0] > 0 else -x, "truth"),
    "max": (lambda x: max(x[0, 0], x[0, 1]), "truth"),
    "math": (lambda x: math.sin(x[0, 0]), "np.sin"),
    "int": (lambda x: int(x[0, 0]), "astype"),
    "complex": (lambda x: complex(x[0, 0]), "complex"),
    "asarray": (lambda x: np.asarray(x, float), "zeros_like"),
    "values by a mask apart": (lambda x: np.stack([x, x]).__setitem__((1, slice(None), x[0] > 0.1), x[:, :1]), "np.where"),
    "floor": (lambda x: math.floor(x[0, 0]), "np.floor"),
    "histogram": (lambda x: np.histogram(x), "numpy.histogram looks at values"),
    "objects": (lambda x: x * np.array([None, 1, 2]), "Python objects"),
}


@pytest.mark.parametrize("name", NEEDED)
def test_what_needs_a_value_names_the_line_and_the_way_out(name):
    f, words = NEEDED[name]
    with Trace() as trace, pytest.raises((TypeError, ValueError)) as caught:
        f(trace.input(X))
    assert caught.value is trace.refusal or trace.refusal is not None  # NumPy may raise its own over it; jit raises the refusal
    assert f"test_symbol.py, line {f.__code__.co_firstlineno}" in str(trace.refusal)
    assert re.search(words, str(trace.refusal))


@pytest.mark.parametrize("f", [lambda k: list(range(k)), lambda k: np.zeros(k), lambda k: [1, 2, 3][k], lambda k: np.ones(3)[k]])
def test_a_traced_integer_is_no_length_and_no_index_of_what_is_plain(f):
    with Trace() as trace, pytest.raises((TypeError, IndexError)):
        f(trace.input(1))
    assert (trace.refusal.indexed and "static_argnames" in str(trace.refusal)) or "as an argument" in str(trace.refusal)


def test_values_of_others_are_refused():
    with Level() as level:
        dual = dualad.forward.dual.make_dual(1.0, 1.0, level)
    with Trace() as trace, pytest.raises(TraceError, match="uses a Dual that it was not given"):
        trace.input(X) * dual if dual.level.id > trace.id else trace.record(np.multiply, np.multiply, (trace.input(X), dual), {})
    with Trace() as first:
        x = first.input(X)
    with pytest.raises(RuntimeError, match="has returned"):
        x + 1.0


def test_assignments_are_operations_and_whole_ones_none():
    program = traced(lambda x: assign(x), X)
    fns = [operation.fn for operation in program.operations]
    assert fns.count(updated) == 3 and getitem in fns
    assert all(type(arg) is Value for operation in program.operations if operation.fn is updated for arg in operation.args[:1])


def test_a_constant_met_again_is_the_same_unless_it_changed():
    c = np.ones(3)

    def f(x):
        y = x + c + c
        c[0] += 1.0
        return y + c

    assert len(traced(f, np.zeros(3)).constants) == 2


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.__setitem__(slice(1, None), 0.5),
        lambda x: x.__setitem__(..., x * 2.0),
        lambda x: x.__itruediv__(3.0),
        lambda x: x.__iadd__(x[::-1]),
    ],
    ids=["a part", "all", "in place", "in place, overlapping"],
)
@pytest.mark.parametrize("gaps", [lambda a: np.concatenate([a, a], 1)[:, : a.shape[1]], np.asfortranarray, lambda a: a[::-1]])
def test_what_is_written_keeps_its_layout(change, gaps):
    def f(x):
        change(x)
        y = x.ravel()  # a view, or a copy
        y[:3] = 7.0
        return x

    x = gaps(np.arange(12.0).reshape(4, 3))
    np.testing.assert_array_equal(dualad.jit(f, backend="numpy")(x), f(gaps(np.arange(12.0).reshape(4, 3))))
