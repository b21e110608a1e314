"""dask arrays under Dual and Var: lazily, equal to NumPy's, in both modes; what dask does not compute is refused by name."""

import subprocess
import sys

import numpy as np
import optree
import pytest

import dualad
from checkpoint import chain, grad, hvp, linearize, value_and_grad, vjp
from checkpoint import jacobian as reverse_jacobian
from dualad import Dual, gradient, hessian, jacobian, jit, jvp, primal

da = pytest.importorskip("dask.array", reason="dask (the extra `distributed`) is not installed")

import dask  # noqa: E402
from agreement import is_lazy_and_right  # noqa: E402
from cases import Case  # noqa: E402
from in_groups import for_each  # noqa: E402
from samples import SAMPLES  # noqa: E402

from dualad.dask.calls import is_lazy as has_lazy_form  # noqa: E402
from dualad.rules.calling import public_name  # noqa: E402
from dualad.rules.kinds import ROWS  # noqa: E402

X = np.linspace(0.1, 2.0, 12)
#: rows without a sample of arrays, or whose samples take what dask has not
UNSAMPLED = {"numpy.ldexp", "numpy._core.umath.clip", "clip"}


@pytest.fixture(autouse=True)
def in_this_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def lazy(x, chunks=2):
    return da.from_array(x, chunks=chunks) if isinstance(x, np.ndarray) and x.ndim else x


def plain(tree):
    return optree.tree_map(lambda x: x.compute() if isinstance(x, da.Array) else x, tree)


def is_lazy(tree):
    return any(isinstance(leaf, da.Array) for leaf in optree.tree_leaves(tree))


def assert_alike(got, expected):
    for a, b in zip(optree.tree_leaves(plain(got)), optree.tree_leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)
        assert np.shape(a) == np.shape(b) and np.asarray(a).dtype == np.asarray(b).dtype


# --- the table --------------------------------------------------------------------------------------------------------------------

CHOSEN = {}
for fn, samples in SAMPLES.items():
    of_arrays = [s for s in samples if any(isinstance(leaf, np.ndarray) and leaf.ndim and leaf.size for leaf in s.leaves())]
    if of_arrays:
        CHOSEN[fn] = [of_arrays[0], *of_arrays[len(of_arrays) // 2 :: 4][:2]]


@for_each("fn", CHOSEN, public_name)
@pytest.mark.filterwarnings("ignore")
def test_a_sample_of_every_row_is_numpys_or_refused_by_name(fn):
    if not is_lazy_and_right(Case(fn, CHOSEN[fn][0])) and has_lazy_form(ROWS[fn]) and public_name(fn) not in UNSAMPLED:
        assert any(is_lazy_and_right(Case(fn, sample)) for sample in SAMPLES[fn][1:])


@pytest.mark.long
@for_each("fn", CHOSEN, public_name)
@pytest.mark.filterwarnings("ignore")
def test_further_samples_and_reverse_mode(fn):
    first, *others = CHOSEN[fn]
    is_lazy_and_right(Case(fn, first), reverse=True)
    for sample in others:
        is_lazy_and_right(Case(fn, sample))


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
@pytest.mark.parametrize("fn", [np.maximum, np.minimum, np.fmax, np.fmin], ids=public_name)
def test_tangents_of_the_larger_have_its_dtype_with_ties_and_without(fn, dtype):
    x = np.arange(1, 5).astype(dtype)
    for y in (x + 0.5, np.array([3, 1, 4, 1]), np.array([5, 5, 3, 5]), np.array([1, 5, 3, 5], dtype), np.array([0.5]), 0.5):
        for chunks in (1, 2, 4):
            made = jvp(lambda x: fn(x, lazy(y, min(chunks, np.size(y)))), (lazy(x, chunks),), (lazy(x, chunks),))
            assert_alike(made, jvp(lambda x: fn(x, y), (x,), (x,)))
            assert [t.dtype for t in made] == [t.compute().dtype for t in made]


# --- verbs ------------------------------------------------------------------------------------------------------------------------


def f(x):
    y = np.zeros_like(x)
    y[1:-1] = np.sin(x[2:]) * x[:-2] ** 2
    y[0] += x[0]
    return np.sum(np.where(y > 0.1, y, 0.5 * y)) + np.mean(x) ** 2


def turned(x):
    return np.transpose(np.reshape(x, (3, 4)), np.array([1, 0]))


@pytest.mark.parametrize("dtype", [np.float32, complex])
def test_a_buffer_of_another_shape_has_the_dtype(dtype):
    def padded(x):
        y = np.zeros_like(x, shape=14)
        y[1:-1] = x
        return y

    x = (X * (2.0 - 1j)).astype(dtype) if dtype is complex else X.astype(dtype)
    assert_alike(jvp(padded, (lazy(x),), (lazy(x),)), jvp(padded, (x,), (x,)))


@pytest.mark.slow
def test_verbs_take_and_return_dask_arrays():
    d, v = lazy(X, 5), lazy(X[::-1].copy(), 5)
    for got, expected in (
        (jvp(f, (d,), (v,)), jvp(f, (X,), (X[::-1],))),
        (jvp(f, (d,), (X[::-1],)), jvp(f, (X,), (X[::-1],))),
        (grad(f)(d), grad(f)(X)),
        (value_and_grad(f)(d), value_and_grad(f)(X)),
        (hvp(f, d, v), hvp(f, X, X[::-1])),
        (grad(lambda p: f(p["x"]) * p["s"])({"x": d, "s": 2.0}), grad(lambda p: f(p["x"]) * p["s"])({"x": X, "s": 2.0})),
        (vjp(np.cumsum, d)[1](v)[0], vjp(np.cumsum, X)[1](X[::-1])[0]),
        (jvp(turned, (d,), (v,)), jvp(turned, (X,), (X[::-1],))),
        (linearize(f, d)[1](v), linearize(f, X)[1](X[::-1])),
        (grad(lambda x: jit(f)(x))(d), grad(f)(X)),
        (jvp(lambda x: np.ones(3), (d,), (v,)), jvp(lambda x: np.ones(3), (X,), (X,))),
        (grad(lambda x: 0.0 * np.sum(X) + np.sum(d * 0.0))(d), np.zeros(12)),
    ):
        assert_alike(got, expected)
    assert is_lazy(grad(f)(d)) and is_lazy(hvp(f, d, v)) and all(map(is_lazy, jvp(f, (d,), (v,))))
    _, aux = grad(lambda x: (np.sum(x), {"doubled": 2.0 * x}), has_aux=True)(d)
    assert_alike(aux, {"doubled": 2.0 * X})
    assert is_lazy(jvp(lambda x: (np.sum(x), 2.0 * x), (d,), (v,), has_aux=True)[2])
    assert "dask.array" in repr(Dual(d, v)) and is_lazy(primal(Dual(d, v)))


def test_a_traced_value_is_no_part_of_a_graph():
    """The functions of dask itself would take it for a constant."""
    B = lazy(np.ones((12, 12)), (5, 4))
    for f in (lambda x: da.sum(da.asarray(x) * 2.0), lambda x: da.sum(da.dot(B, x)), lambda x: da.from_array(x, chunks=4).sum()):
        for differentiate in (grad, gradient):
            with pytest.raises(TypeError, match=r"^dask\.array\..* asks a traced .* for a part of a dask graph.*called in <lambda>"):
                differentiate(f)(X)


@pytest.mark.slow
def test_constants_may_be_dask_arrays():
    A = np.random.default_rng(1).normal(size=(12, 12))
    B = lazy(A, (5, 4))
    for g, h in (
        (lambda x: np.sum(np.tanh(B @ x)), lambda x: np.sum(np.tanh(A @ x))),
        (lambda x: np.sum(x * B), lambda x: np.sum(x * A)),
        (lambda x: np.sum(B / (1.0 + x)), lambda x: np.sum(A / (1.0 + x))),
        (lambda x: np.sum(np.add(B, x) ** 2), lambda x: np.sum(np.add(A, x) ** 2)),
        (lambda x: np.sum(np.concatenate([x, B[0]]) ** 2), lambda x: np.sum(np.concatenate([x, A[0]]) ** 2)),
        (lambda x: np.sum(np.where(B > 0, B, x)), lambda x: np.sum(np.where(A > 0, A, x))),
    ):
        assert_alike(grad(g)(X), grad(h)(X))
        assert_alike(grad(g)(lazy(X, 5)), grad(h)(X))
        assert_alike(jvp(g, (X,), (X,)), jvp(h, (X,), (X,)))


def test_nothing_is_computed_before_it_is_asked_for_and_chunks_stay():
    read = []

    def chunk(block):
        read.append(block.shape)
        return block

    x = da.map_blocks(chunk, da.ones(1000, chunks=100), dtype=float, meta=np.ones(0))
    read.clear()
    g = grad(lambda x: np.sum(np.sin(x[1:]) * x[:-1]) + np.sum(x**2))(x)
    assert not read and g.chunks == x.chunks and max(map(max, hvp(lambda x: np.sum(x**3), x, x).chunks)) == 100
    assert_alike(g, grad(lambda x: np.sum(np.sin(x[1:]) * x[:-1]) + np.sum(x**2))(np.ones(1000)))
    assert set(read) == {(100,)}
    sums = jvp(lambda x: (np.sum(x), np.mean(x, keepdims=True)), (x,), (x,))
    assert is_lazy(sums)


@pytest.mark.parametrize("index", [[0, 0, 3], [-1, 5, 2, 5, 5], np.arange(12) % 3 == 1, np.zeros(12, bool), []])
def test_elements_that_are_chosen_by_integers_and_constant_masks(index):
    index = np.array(index, bool if len(index) == 12 else int)
    many = np.outer(X, X)
    indices = ((slice(2, 9, 2), index), (index, slice(None, None, -1)), (..., index), (index, slice(4, 4)), (slice(5, 2), slice(3)))
    for x, parts in ((X, index), *((many, parts) for parts in indices)):
        weights = np.cos(np.arange(x[parts].size, dtype=float)).reshape(x[parts].shape)
        f = lambda x, parts=parts, weights=weights: np.sum(np.sin(x[parts]) * weights)
        g = grad(f)(lazy(x, 5))
        assert is_lazy(g) and g.shape == x.shape
        assert_alike(g, grad(f)(x))
        assert_alike(jvp(f, (lazy(x, 5),), (lazy(x, 5),)), jvp(f, (x,), (x,)))


WHERE = np.cos(np.arange(12.0)) > 0.0

MORE = {
    "diagonal": lambda x: np.diagonal(np.outer(x, x), 2) ** 2,
    "trace": lambda x: np.trace(np.outer(x, x)[1:]),
    "diag": lambda x: np.diag(x, -1) @ np.ones(13),
    "diagonal of a stack": lambda x: np.diagonal(np.reshape(np.outer(x, x), (6, 2, 12)), 1, 2, 0),
    "pairs": lambda x: np.outer(x, x)[[3, 0, 7], [1, 1, -1]] ** 2,
    "delete": lambda x: np.delete(np.outer(x, x), WHERE, axis=1),
    "delete one": lambda x: np.delete(np.outer(x, x), 3),
    "windows": lambda x: np.lib.stride_tricks.sliding_window_view(x, 3)[:, ::2] ** 2,
    "cumsum of a number": lambda x: np.cumsum(np.sum(x), 0),
    "mask of all": lambda x: x * np.all(np.outer(x, x) > 0.5, axis=0, where=WHERE),
    "sum where": lambda x: np.sum(x * x, where=WHERE, initial=2.0),
    "mean where": lambda x: np.mean(np.outer(x, x), axis=1, where=WHERE),
    "prod where": lambda x: np.prod(x, where=WHERE),
    "max initial": lambda x: np.max(x, initial=1.0) + np.min(x, initial=1.0),
    "max where": lambda x: np.max(x, where=WHERE, initial=-np.inf),
    "logaddexp.reduce": lambda x: np.logaddexp.reduce(x),
    "interp": lambda x: np.interp(x, [0.0, 0.7, 1.5], [0.0, 1.0, 4.0]),
    "nan_to_num": lambda x: np.nan_to_num(x) ** 2,
    "norm": lambda x: np.linalg.norm(np.outer(x, x)) + np.sum(np.linalg.norm(np.outer(x, x + 1j), axis=0)),
}


@pytest.mark.parametrize("name", MORE)
def test_more_functions_are_lazy_in_both_modes(name):
    f = MORE[name]
    whole = lambda x: np.sum(np.sin(f(x)))
    g = grad(whole)(lazy(X))
    assert is_lazy(g)
    assert_alike(g, grad(whole)(X))
    value, tangent = jvp(f, (lazy(X),), (lazy(X),))
    assert is_lazy(value) and is_lazy(tangent)
    assert_alike((value, tangent), jvp(f, (X,), (X,)))


def test_branches_compute_the_value():
    g = lambda x: np.sum(x**2) if np.sum(x) > 0 else np.sum(x)
    assert_alike(grad(g)(lazy(X)), 2.0 * X)
    assert_alike(grad(g)(lazy(-X)), np.ones(12))


# --- refusals ---------------------------------------------------------------------------------------------------------------------


def test_other_verbs_name_those_that_take_them():
    d = lazy(X)
    for verb in (jacobian(np.sin), gradient(np.sum), hessian(np.sum), reverse_jacobian(np.sin)):
        with pytest.raises(TypeError, match="is a dask array, which jvp, vjp, grad, value_and_grad, hvp and linearize take"):
            verb(d)
    with pytest.raises(TypeError, match="is a dask array"):
        next(dualad.jacobian_columns(np.sin, d))
    with pytest.raises(TypeError, match=r"chain: a state, parameter or input is a dask array"):
        grad(lambda x: np.sum(chain(lambda k, x: 2.0 * x, x, steps=3)))(d)


@pytest.mark.parametrize(
    "g, message",
    [
        (lambda x: np.sum(np.sort(x)), r"numpy.argsort of a dask array has no lazy form"),
        (lambda x: np.linalg.det(np.outer(x, x)), r"numpy.linalg.det of a dask array"),
        (lambda x: np.sum(x[x > 1.0]), r"getitem of a dask array: it is indexed by a dask array: choose with np.where"),
        (lambda x: np.convolve(x, X)[0], r"convolve_full of a dask array"),
        (lambda x: np.sum(np.reshape(x, (3, 4))[np.ix_([0, 2], [1, 3])]), r"dask indexes with one array of one axis at a time"),
        (lambda x: np.sum(np.reshape(x, (3, 4))[[0, 0], [1, 2]]), r"the transpose of indexing with several arrays"),
        (lambda x: np.sum(np.reshape(x, (3, 2, 2))[[0, 1], 0, [1, 1]]), r"several arrays index it beside integers and slices"),
        (lambda x: np.var(x, where=X > 1.0), r"variance of a dask array: dask takes no where="),
        (lambda x: np.sum(np.reshape(x, (3, 4), order="F")), r"numpy.reshape of a dask array: the order is 'F'"),
        (lambda x: np.sum(np.fft.fft(x).real), r"numpy.fft.fft of a dask array"),
        (lambda x: float(np.sum(x)), r"float\(\) of a traced Var would lose its derivative"),
    ],
)
def test_what_is_not_lazy_is_refused_by_name(g, message):
    with pytest.raises(TypeError, match=message):
        grad(g)(lazy(X))


def test_arrays_of_unknown_shape_are_refused():
    d = lazy(X)
    with pytest.raises(TypeError, match=r"a dask array is of unknown shape \(nan,\): .*compute_chunk_sizes"):
        grad(np.sum)(d[d > 1.0])


@pytest.mark.slow
def test_dask_is_not_imported_unless_the_user_has():
    code = "import sys, dualad, checkpoint; checkpoint.grad(lambda x: x**2)(2.0); sys.exit('dask' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
