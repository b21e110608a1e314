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


def test_a_chain_is_pulled_back(made):
    f = lambda x: chain(lambda k, s: s + 0.1 * (np.roll(s, 1) - s), x, steps=2)
    dense = jacobian(f)(X)
    np.testing.assert_allclose(jacobian(f, sparsity=coloring(dense, "reverse"))(X).toarray(), dense, rtol=1e-12)
    operator = jacobian(f).linear_operator(X)
    np.testing.assert_allclose(operator @ X, dense @ X, rtol=1e-12)


def test_linear_operators_record_once():
    calls = []

    def f(x):
        calls.append(1)
        return x**2

    operator = jacobian(f).linear_operator(X)
    np.testing.assert_allclose(operator.T @ (operator @ X), 4.0 * X**3)
    assert len(calls) == 1
    branching = lambda x: x**2 if x[0] > 0 else x
    np.testing.assert_allclose(jacobian(branching).linear_operator(X).rmatvec(X), 2.0 * X * X)
