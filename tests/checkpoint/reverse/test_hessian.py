"""hessian: forward over reverse, dense and sparse, against forward over forward."""

import numpy as np
import pytest

from checkpoint import chain, hessian
from dualad import hessian as forward_hessian
from dualad import jit, sparsity

X = np.linspace(0.3, 1.0, 8)


def energy(x, scale=1.0):
    return scale * np.sum(np.cos(x[1:] * x[:-1])) + np.sum(x) * x[0]


@pytest.mark.parametrize("given", [None, "auto", "pattern"])
@pytest.mark.parametrize("verb", [hessian, forward_hessian], ids=["over_reverse", "over_forward"])
def test_auxiliary_results_pass_through(verb, given):
    pytest.importorskip("scipy.sparse")
    f = lambda x, scale=1.0: (energy(x, scale), {"inside": 2.0 * x, "note": "text"})
    options = {} if given is None else {"sparsity": sparsity(energy, X, order=2) if given == "pattern" else given, "verify": True}
    for g in (f, jit(f, backend="numpy")):
        found, aux = verb(g, has_aux=True, chunk=3, **options)(X, scale=2.0)
        np.testing.assert_allclose(found.toarray() if options else found, forward_hessian(energy)(X, scale=2.0), rtol=1e-12, atol=1e-14)
        assert type(aux["inside"]) is np.ndarray
        np.testing.assert_array_equal(aux["inside"], 2.0 * X)
        assert aux["note"] == "text"
    for without in (energy, jit(energy, backend="numpy")):
        with pytest.raises(TypeError, match="hessian: with has_aux=True the function must return a pair"):
            verb(without, has_aux=True, **options)(X)
    if options:
        matrix, aux = verb(f, has_aux=True, sparsity=options["sparsity"]).fill(found, X)
        assert matrix is found
        np.testing.assert_allclose(found.toarray(), forward_hessian(energy)(X), rtol=1e-12, atol=1e-14)
        np.testing.assert_array_equal(aux["inside"], 2.0 * X)


def test_functions_that_branch_and_chains():
    pytest.importorskip("scipy.sparse")
    branching = lambda x: np.sum(x[1:] ** 2 * x[:-1]) if x[0] > 0 else np.sum(x)
    pattern = sparsity(branching, X, order=2, local=True)
    np.testing.assert_allclose(hessian(branching, sparsity=pattern, verify=True)(X).toarray(), forward_hessian(branching)(X), rtol=1e-12)
    stepped = lambda x: np.sum(chain(lambda k, s: s + 0.1 * s**2, x, steps=3) ** 2)
    found = hessian(stepped, sparsity="auto", verify=True)(X)
    assert found.nnz == 8
    np.testing.assert_allclose(found.toarray(), forward_hessian(stepped)(X), rtol=1e-10)
