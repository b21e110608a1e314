"""What moves elements, in loops: to and from places that are known, and those that integers made of traced values say."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from in_loops import chain_is_made_in_blocks, has_eager_derivatives
from numpy.lib.stride_tricks import sliding_window_view

from checkpoint import chain, grad
from dualad import jit
from dualad.jit.compiled import BACKENDS

pytest.importorskip("llvmlite", reason="llvmlite is not installed")

BINS = 6


def places(x, n=BINS):
    return (np.abs(x) * 3.0).astype(int) % n


def added(x):
    f = np.zeros_like(x, shape=(BINS, 2))
    np.add.at(f, (places(x), places(2.0 * x, 2)), x)
    np.subtract.at(f, places(x), np.stack([x, x * x], -1))
    return f


def rolled(x):
    y = np.roll(np.roll(x.reshape(4, 5), places(x[1]) - 9, 1), (places(x[2]), -1), axis=(0, -1))
    return np.roll(y, places(x[3])) + np.roll(y, np.int64(2), 0)


def written(x):
    y = x * 1.0
    y.reshape(4, 5)[1:3, ::-1].T[...] *= 2.0
    y.reshape(2, -1)[:, 3] = x[:2]
    return y


def written_at_places(x):
    y = x * 1.0
    y.reshape(4, 5)[1:3, ::-1].T[places(x[:3], 5)] = x[:2] * x[2]
    y.reshape(20)[places(x[0], 20)] = x[3]
    np.flip(y.reshape(4, 5), 0)[places(x[:2], 4), 1:] = x[4:6, None]
    np.transpose(y.reshape(2, 5, 2), np.array([1, 0, 2]))[places(x[8:10], 5), 1] = x[10]
    np.transpose(y.reshape(2, 5, 2), np.array([1, 0, 2]))[1:3] *= 0.5
    y.reshape((4, 5), order="F")[1:, places(x[6], 5)] = x[7] * y[7]
    return y


def eliminated(x):
    """The tridiagonal solver of textbooks."""
    c, d = np.zeros_like(x), np.zeros_like(x)
    c, d = c.reshape(20), d.reshape(4, 5).ravel()  # as views
    d[0] = x[0]
    for i in range(1, 20):
        c[i] = 0.3 / (1.5 + 0.3 * c[i - 1])
        d[i] = (x[i] + d[i - 1]) * c[i]
    return d


def masked(x):
    mask, y = np.arange(20) % 3 > 0, x * 1.0
    y[mask] *= 0.9
    y[~mask] = 0.0
    return np.clip(y, -1, 1, out=y)


FUNCTIONS = {
    "writes through other shapes": written,
    "writes to places of views": written_at_places,
    "writes in turns of a loop": eliminated,
    "neighbours beyond edges": lambda x: np.pad(x.reshape(4, 5), 1, mode="edge")[:-2, 1:-1] - np.vstack([x[1:6], np.zeros((3, 5))]),
    "plain masks": masked,
    "delete": lambda x: np.delete(x, 3),
    "delete several": lambda x: np.delete(x, [0, 2, -1]),
    "delete a slice": lambda x: np.delete(x.reshape(4, 5), np.s_[::2], 1),
    "insert": lambda x: np.insert(x, 3, 2.0),
    "insert several": lambda x: np.insert(x.reshape(4, 5), [1, 2], x[:5], axis=0),
    "windows": lambda x: sliding_window_view(x, 3) * np.array([1.0, 2.0, 3.0]),
    "windows of two axes": lambda x: sliding_window_view(x.reshape(4, 5), (2, 3)) * x[:3],
    "windows along an axis of NumPy's": lambda x: sliding_window_view(x, 3, axis=np.int64(0)) * 2.0,
    "windows along one axis twice": lambda x: sliding_window_view(x, (3, 2), axis=(0, 0)),
    "median filter": lambda x: np.median(sliding_window_view(x, 5), axis=-1),
    "take, wrapped": lambda x: (
        np.take(x, (x * 30.0).astype(int), mode="wrap") * np.take(x.reshape(4, 5), places(x[:3]) - 9, 1, mode="wrap")[0, 0]
    ),
    "take, clipped": lambda x: np.take(x, (x * 30.0).astype(int), mode="clip") + np.take(x, [31, -2], mode="clip")[1],
    "add.at": added,
    "rolls by computed shifts": rolled,
    "bincount": lambda x: np.bincount(places(x), x, minlength=BINS),
    "bincount without weights": lambda x: np.bincount(places(x), minlength=BINS) * np.sum(x),
    "a cloud in a cell": lambda x: (
        np.bincount(places(x), (1.0 - x) * x, BINS) + np.bincount((places(x) + 1) % BINS, weights=x * x, minlength=BINS)
    ),
}


def test_what_is_written_nowhere_changes_nothing():
    def f(x):
        y = x * 1.0
        y.reshape(20)[..., 0].ravel()[1:] = x[1]
        return y * x

    np.testing.assert_array_equal(jit(f)(X), f(X))
    np.testing.assert_array_equal(jit(grad(lambda x: np.sum(f(x))))(X), 2.0 * X)


def test_parts_of_complex_numbers_are_written():
    def f(z):
        z = z * 1.0
        z.real[places(z.imag[:2], 5)] = 0.5
        z.reshape(4, 5).imag[1:3] *= 2.0
        return z

    z = X + 1j * T
    np.testing.assert_array_equal(jit(f)(z), f(z))


functions = pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)
X, T = np.random.default_rng(5).normal(size=(2, 20))


@functions
@pytest.mark.parametrize("backend", BACKENDS)
def test_values_are_those_of_numpy_and_derivatives_the_eager_ones(f, backend):
    compiled = jit(f, backend=backend)
    np.testing.assert_array_equal(compiled(X), f(X))
    assert "called" not in compiled.explain(X)
    has_eager_derivatives(f, X, T, backend, 1e-12, 1e-13, in_loops=f is not written_at_places)


@pytest.mark.parametrize("name", ["writes to places of views", "add.at", "rolls by computed shifts", "median filter"])
def test_a_chain_is_made_in_blocks(name):
    f = FUNCTIONS[name]
    chain_is_made_in_blocks(lambda k, x: 0.9 * np.sin(x) + 0.01 * np.sum(np.cos(f(x)) ** 2), X, 1e-10)


COUNTED = jit(lambda k, w: np.bincount(k % BINS, w, minlength=BINS))


@given(st.lists(st.tuples(st.integers(0, 2**40), st.floats(width=32)), max_size=12), st.sampled_from([np.int64, np.int32, np.uint8]))
@settings(max_examples=60, deadline=None)
def test_bins_are_filled_in_numpys_order(pairs, dtype):
    k = np.array([k % 200 for k, _ in pairs], dtype)
    w = np.array([w for _, w in pairs], float)
    assert COUNTED(k, w).tobytes() == np.bincount(k % dtype(BINS), w, minlength=BINS).tobytes()


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_in_no_bin(backend):
    f = jit(lambda x, w: np.bincount(x.astype(int), w, minlength=4), backend=backend)
    np.testing.assert_array_equal(f(np.array([0.0, 3.0]), np.ones(2)), [1.0, 0.0, 0.0, 1.0])
    np.testing.assert_array_equal(f(np.array([0.0, 5.0]), np.ones(2)), [1.0, 0.0, 0.0, 0.0, 0.0, 1.0])  # by the plain function
    with pytest.raises(ValueError, match="negative"):
        f(np.array([0.0, -1.0]), np.ones(2))
    turn = lambda k, x: np.sin(x) + np.bincount((x + k).astype(int), x, minlength=4)
    with pytest.raises(ValueError, match="broadcast"):  # as NumPy
        grad(lambda x: np.sum(chain(jit(turn, backend=backend), x, steps=9)))(np.full(4, 0.1))


def test_the_number_of_bins_is_asked_for():
    with pytest.raises(TypeError, match=r"numpy\.bincount: x is traced.*minlength="):
        jit(lambda x: np.bincount(x.astype(int), x))(np.arange(3.0))


def test_columns_that_are_stacked_are_one_nest():
    """None of them is stored and moved: their writes are neighbours in memory, as the entries of sparse Jacobians."""
    assert "1 loop nests in 1 compiled parts, 0 values stored" in jit(lambda x: np.stack([np.exp(x), np.sin(x), x / 3.0], axis=-1)).explain(
        np.ones(1000)
    )
