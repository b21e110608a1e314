"""hessian: forward over forward, and forward over reverse."""

import numpy as np
import pytest
import scipy.optimize

from checkpoint import grad, hvp
from checkpoint import hessian as reverse_hessian
from checkpoint import jacobian as reverse_jacobian
from dualad import gradient, hessian, jacobian

modes = pytest.mark.parametrize("hessian", [hessian, reverse_hessian], ids=["over forward", "over reverse"])
X = np.array([1.2, -0.5, 2.0, 0.3])


def rosen(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


@pytest.mark.parametrize("chunk", [1, 2, 3, 4, 9, None])
@modes
def test_against_the_closed_form(hessian, chunk):
    np.testing.assert_allclose(hessian(rosen, chunk=chunk)(X), scipy.optimize.rosen_hess(X), rtol=1e-13, atol=1e-12)


def test_all_ways_to_a_hessian_agree():
    expected = scipy.optimize.rosen_hess(X)
    for way in (jacobian(gradient(rosen)), jacobian(grad(rosen)), reverse_jacobian(gradient(rosen)), reverse_jacobian(grad(rosen))):
        np.testing.assert_allclose(way(X), expected, rtol=1e-13, atol=1e-12)
    np.testing.assert_allclose(np.stack([hvp(rosen, X, unit) for unit in np.eye(4)]), expected, rtol=1e-13, atol=1e-12)


@modes
def test_a_quadratic_form_is_exact(hessian):
    a = np.random.default_rng(0).standard_normal((5, 5))
    np.testing.assert_allclose(hessian(lambda x, scale: scale * (x @ a @ x))(np.ones(5), scale=2.0), 2.0 * (a + a.T), rtol=1e-14)


@modes
def test_shapes(hessian):
    assert hessian(lambda x: np.sum(x**3))(np.ones((2, 3))).shape == (2, 3, 2, 3)
    assert hessian(lambda x: x**3)(2.0) == 12.0
    assert hessian(lambda x: np.sum(x))(np.ones(0)).shape == (0, 0)
    assert hessian(lambda x: 5.0)(np.ones(2)).tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert hessian(lambda x: np.sum(x))(np.ones(2)).tolist() == [[0.0, 0.0], [0.0, 0.0]]


@modes
def test_trees_of_trees(hessian):
    f = lambda p: p["a"] ** 2 * np.sum(p["b"])
    h = hessian(f)({"a": 3.0, "b": np.array([1.0, 2.0])})
    assert h["a"]["a"] == 6.0
    assert h["a"]["b"].tolist() == h["b"]["a"].tolist() == [6.0, 6.0]
    assert h["b"]["b"].tolist() == [[0.0, 0.0], [0.0, 0.0]]


@modes
def test_argnums(hessian):
    f = lambda x, y: x**2 * y**3
    assert hessian(f)(2.0, 3.0) == 54.0 and hessian(f, 1)(2.0, 3.0) == 72.0
    blocks = hessian(f, (0, 1))(2.0, 3.0)
    assert np.array(blocks).tolist() == [[54.0, 108.0], [108.0, 72.0]]


@modes
def test_precision(hessian):
    assert hessian(rosen)(X.astype(np.float32)).dtype == np.float32


@modes
def test_refusals(hessian):
    with pytest.raises(TypeError, match=r"f returns shape \(4,\): use jacobian"):
        hessian(np.sin)(X)
    with pytest.raises(TypeError, match="not a function"):
        hessian(3.0)
