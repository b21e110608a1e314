"""Products with SciPy's sparse matrices."""

import numpy as np
import pytest

from checkpoint import grad, hvp
from checkpoint import jacobian as reverse_jacobian
from dualad import jacobian, jit, jvp

sparse = pytest.importorskip("scipy.sparse")
DENSE = np.array([[0.0, 2.0, 0.0, 1.0], [3.0, 0.0, 0.0, 0.0], [0.0, -1.0, 4.0, 0.0]])
X = np.array([1.0, -2.0, 0.5, 3.0])


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csc_array, sparse.coo_matrix, sparse.csr_array])
def test_both_spellings_in_both_modes(kind):
    matrix = kind(DENSE)
    np.testing.assert_array_equal(X @ matrix.T, DENSE @ X)
    for product in (lambda x: np.matmul(matrix, x), lambda x: x @ matrix.T):
        np.testing.assert_array_equal(jvp(product, (X,), (X,))[0], DENSE @ X)
        np.testing.assert_array_equal(jacobian(product)(X), DENSE)
        np.testing.assert_array_equal(jacobian(product, chunk=1)(X), DENSE)
        np.testing.assert_array_equal(reverse_jacobian(product)(X), DENSE)
    f = lambda x: np.sum(np.sin(np.matmul(matrix, x)) ** 2)
    g = lambda x: np.sum(np.sin(DENSE @ x) ** 2)
    np.testing.assert_allclose(grad(f)(X), grad(g)(X))
    np.testing.assert_allclose(hvp(f, X, X), hvp(g, X, X))


@pytest.mark.parametrize("kind", [sparse.coo_array, sparse.csr_array])
def test_one_row(kind):
    """A vector times a coo_array of one row is a number, as it is for SciPy."""
    column = kind(DENSE[:1].T)
    f, shape = lambda x: x @ column, np.shape(X @ column)
    assert shape == (() if kind is sparse.coo_array else (1,))
    for verb in (jacobian, reverse_jacobian):
        for g in (f, jit(f, backend="numpy")):
            got = verb(g)(X)
            assert got.shape == (*shape, 4)
            np.testing.assert_array_equal(got.ravel(), DENSE[0])


def test_the_product_that_scipy_refuses_names_the_one_that_works():
    matrix = sparse.csr_array(DENSE)
    for differentiate in (jacobian, reverse_jacobian):
        with pytest.raises(TypeError, match=r"^scipy\.sparse\..*write x @ M\.T"):
            differentiate(lambda x: matrix @ x)(X)


def test_matrices_of_vectors():
    matrix, many = sparse.csr_matrix(DENSE), np.arange(8.0).reshape(4, 2)
    f = lambda y: np.sum(np.matmul(matrix, y) ** 3)
    np.testing.assert_allclose(grad(f)(many), grad(lambda y: np.sum((DENSE @ y) ** 3))(many))
    np.testing.assert_allclose(jacobian(lambda y: np.matmul(matrix, y))(many), jacobian(lambda y: DENSE @ y)(many))
    np.testing.assert_allclose((many.T @ matrix.T).T, DENSE @ many)
    np.testing.assert_allclose(jacobian(lambda y: (y.T @ matrix.T).T)(many), jacobian(lambda y: DENSE @ y)(many))
    with pytest.raises(ValueError, match="one or two axes"):
        grad(lambda y: np.sum(np.matmul(matrix, y)))(np.ones((2, 4, 2)))
