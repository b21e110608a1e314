"""fill: the entries of a Jacobian or Hessian in a matrix that is at hand."""

from functools import partial

import numpy as np
import pytest

import checkpoint
import dualad
from dualad import jit

sparse = pytest.importorskip("scipy.sparse")
U = 1.0 + np.sin(np.arange(12.0))


def f(u):
    return np.concatenate([u[:1] ** 2, u[1:] * u[:-1]])


def energy(u):
    return np.sum(np.cos(u[1:] * u[:-1])) + u[0] ** 3


@pytest.fixture(params=["eager", "numpy", "llvm"])
def made(request):
    if request.param == "llvm":
        pytest.importorskip("llvmlite")
    return (lambda f: f) if request.param == "eager" else partial(jit, backend=request.param)


@pytest.mark.parametrize("verb", [dualad.jacobian, checkpoint.jacobian, dualad.hessian, checkpoint.hessian])
def test_matrices_are_filled_in_place(made, verb):
    g = made(energy if "hessian" in verb.__name__ else f)
    jac = verb(g, sparsity="auto")
    expected, other = jac(2.0 * U).toarray(), jac(U)
    shuffled = other.copy()  # the entries of each row in reverse order
    for row in range(shuffled.shape[0]):
        part = slice(shuffled.indptr[row], shuffled.indptr[row + 1])
        shuffled.indices[part] = shuffled.indices[part][::-1].copy()
    shuffled.has_sorted_indices = False
    strided = other.copy()
    strided.data = np.zeros(2 * other.nnz)[::2]
    wide = other.copy()
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    for matrix in (other, other.tocsc(), sparse.csr_matrix(other), shuffled, strided, wide, other.T.tocsr().T):
        data = matrix.data
        matrix.data[:] = 7.0
        for _ in range(2):
            assert jac.fill(matrix, 2.0 * U) is matrix and matrix.data is data
            np.testing.assert_allclose(matrix.toarray(), expected, rtol=1e-13, atol=1e-13)


def test_dtypes_aux_keywords_and_memory_that_is_read(made):
    with_aux = dualad.jacobian(made(lambda u, scale=1.0: (scale * f(u), u[0])), sparsity="auto", has_aux=True)
    matrix, _ = with_aux(U)
    filled, aux = with_aux.fill(matrix, U, scale=2.0)
    np.testing.assert_allclose(filled.toarray(), 2.0 * dualad.jacobian(f)(U))
    assert filled is matrix and aux == U[0]
    for u in (U.astype(np.float32), U + 1j):
        jac = dualad.jacobian(made(f), sparsity="auto", holomorphic=True)
        matrix = jac(u)
        np.testing.assert_allclose(jac.fill(matrix, u).toarray(), dualad.jacobian(f, holomorphic=True)(u), rtol=1e-6)
        for wrong in (np.float64,) if u.dtype == np.float32 else (np.complex64,):
            kept = matrix.astype(wrong)
            kept.data[:] = 7.0
            with pytest.raises(TypeError, match=rf"jacobian.fill: the matrix holds {kept.dtype}, the derivatives are {u.dtype}: give"):
                jac.fill(kept, u)
            assert (kept.data == 7.0).all()
    jac = dualad.jacobian(made(f), sparsity="auto")
    matrix = jac(U)
    matrix.data[:12] = U
    np.testing.assert_allclose(jac.fill(matrix, matrix.data[:12]).toarray(), dualad.jacobian(f)(U))


def test_matrices_of_another_pattern_are_refused(made):
    jac = dualad.jacobian(made(f), sparsity="auto")
    matrix = jac(U)
    missing = matrix.copy()
    missing.data[4] = 0.0
    missing.eliminate_zeros()
    more = sparse.csr_array(matrix + sparse.csr_array(([1.0], ([2], [9])), shape=matrix.shape))
    moved = matrix.copy()
    moved.indices[1] += 1
    twice = sparse.csr_array(
        (np.r_[matrix.data, 1.0], np.r_[matrix.indices, 11], np.r_[matrix.indptr[:-1], matrix.nnz + 1]), shape=matrix.shape
    )
    for wrong, error, message in (
        (missing, ValueError, r"jacobian.fill: the matrix misses entry \(2, 2\) of the pattern: give one"),
        (missing.tocsc(), ValueError, r"misses entry \(2, 2\)"),
        (more, ValueError, r"has entry \(2, 9\), which is not in the pattern"),
        (moved, ValueError, r"misses entry \(1, 0\)"),
        (twice, ValueError, r"has entry \(11, 11\) twice"),
        (matrix[:-1], ValueError, r"the matrix has shape \(11, 12\), the pattern \(12, 12\)"),
        (matrix.tocoo(), TypeError, r"the matrix is coo_array in coo form: give one in csr or csc form"),
        (matrix.toarray(), TypeError, r"the matrix is ndarray: give one in csr or csc form"),
    ):
        with pytest.raises(error, match=message):
            jac.fill(wrong, U)
    pattern = dualad.sparsity(f, U).toarray()
    pattern[3, 3] = False
    jac = dualad.jacobian(made(f), sparsity=pattern, verify=True)
    with pytest.raises(ValueError, match=r"misses entry \(3, 3\)"):
        jac.fill(sparse.csr_array(pattern.astype(float)), U)
