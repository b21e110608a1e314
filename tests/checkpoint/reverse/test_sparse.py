"""Sparse Jacobians by columns, rows and both, and recorded linear operators, against dense ones."""

from functools import partial

import numpy as np
import pytest

from checkpoint import chain, jacobian
from dualad import coloring, jit, sparsity
from dualad import jacobian as forward_jacobian

sparse = pytest.importorskip("scipy.sparse")
X = np.linspace(0.3, 1.0, 9)


def arrow(x):
    return np.concatenate([np.sum(x**2)[None], x[1:] * x[0] + x[1:] ** 2])


def wide(x):
    return np.stack([np.sum(np.sin(x)), x[3] ** 2 * x[0]])


@pytest.fixture(params=["eager", "compiled"])
def made(request):
    return (lambda f: f) if request.param == "eager" else partial(jit, backend="numpy")


@pytest.mark.parametrize("f", [arrow, wide])
@pytest.mark.parametrize("chunk", [None, 1, 2])
def test_every_mode_gives_the_dense_jacobian(made, f, chunk):
    dense, pattern = forward_jacobian(f)(X), sparsity(f, X)
    for given in ("auto", pattern, *(coloring(pattern, mode) for mode in ("forward", "reverse", "both", "auto"))):
        found = jacobian(made(f), chunk=chunk, sparsity=given, verify=True)(X)
        assert isinstance(found, sparse.csr_array) and found.nnz == pattern.nnz
        np.testing.assert_allclose(found.toarray(), dense, rtol=1e-13)


def test_an_arrow_takes_three_products_and_a_wide_one_rows():
    assert coloring(sparsity(arrow, X), "auto").colors == 3
    assert coloring(sparsity(wide, X), "auto").mode == "reverse"


@pytest.mark.parametrize("mode", ["reverse", "both"])
def test_trees_dtypes_aux_and_complex_outputs(made, mode):
    def f(p, scale):
        return {"a": p["x"][1:] * p["y"] * scale, "b": np.sum(p["x"] ** 2), "c": 1.0}, scale

    for dtype in (np.float32, np.float64):
        args = {"x": np.array([1.0, 2.0, 3.0], dtype), "y": dtype(3.0)}, 2.0
        colors = coloring(sparsity(lambda *args: f(*args)[0], *args), mode)
        found, aux = jacobian(made(f), has_aux=True, sparsity=colors, verify=True)(*args)
        dense = [[0.0, 6.0, 0.0, 4.0], [0.0, 0.0, 6.0, 6.0], [2.0, 4.0, 6.0, 0.0], [0.0, 0.0, 0.0, 0.0]]
        np.testing.assert_allclose(found.toarray(), dense, rtol=1e-6)
        assert found.dtype == dtype and aux == 2.0
    g = lambda x: np.exp(1j * x) * x[0]
    found = jacobian(made(g), sparsity=coloring(sparsity(g, X), mode))(X)
    np.testing.assert_allclose(found.toarray(), forward_jacobian(g)(X), rtol=1e-12)


def test_a_chain_is_pulled_back(made):
    f = lambda x: chain(lambda k, s: s + 0.1 * (np.roll(s, 1) - s), x, steps=2)
    dense = jacobian(f)(X)
    np.testing.assert_allclose(jacobian(f, sparsity=coloring(dense, "reverse"))(X).toarray(), dense, rtol=1e-12)
    operator = jacobian(f).linear_operator(X)
    np.testing.assert_allclose(operator @ X, dense @ X, rtol=1e-12)


def test_compiled_rows_come_from_one_program():
    pytest.importorskip("llvmlite")
    found = jacobian(jit(arrow), sparsity=coloring(sparsity(arrow, X), "both"))(X)
    np.testing.assert_allclose(found.toarray(), forward_jacobian(arrow)(X), rtol=1e-12)


def test_linear_operators_record_once():
    calls = []

    def f(p, s):
        calls.append(s)
        return p["x"][1:] * p["y"] * s, np.sum(p["x"]) * np.ones((2, 2))

    operator = jacobian(f).linear_operator({"x": np.arange(1.0, 4.0), "y": 2.0}, 3.0)
    dense = np.vstack([[0.0, 6.0, 0.0, 6.0], [0.0, 0.0, 6.0, 9.0], np.tile([1.0, 1.0, 1.0, 0.0], (4, 1))])
    np.testing.assert_allclose(operator @ np.eye(4), dense)
    np.testing.assert_allclose(operator.T @ np.eye(6), dense.T)
    assert len(calls) == 1 and operator.shape == (6, 4)
    branching = lambda x: x**2 if x[0] > 0 else x
    np.testing.assert_allclose(jacobian(branching).linear_operator(X).rmatvec(X), 2.0 * X * X)


def test_wrong_calls():
    pattern = sparsity(arrow, X)
    with pytest.raises(ValueError, match="verify=True compares"):
        jacobian(arrow, verify=True)
    for mode in ("reverse", "both"):
        with pytest.raises(ValueError, match="the arguments have 9 elements, the pattern 8 columns"):
            jacobian(arrow, sparsity=coloring(pattern[:, :-1], mode))(X)
        with pytest.raises(ValueError, match="f returns 9 numbers, the pattern has 8 rows"):
            jacobian(arrow, sparsity=coloring(pattern[:-1], mode))(X)
        short = pattern.toarray()
        short[4, 0] = False
        with pytest.raises(ValueError, match=r"misses entry \(4, 0\)"):
            jacobian(arrow, sparsity=coloring(short, mode), verify=True)(X)
    with pytest.raises(TypeError, match="is complex"):
        jacobian(np.exp, sparsity=coloring(np.eye(9), "reverse"))(X + 1j)
