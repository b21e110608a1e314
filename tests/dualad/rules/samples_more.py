"""Sample calls of the rows beyond the everyday ones: enters them into the tables of `samples`."""

from __future__ import annotations

import numpy as np
import samples
from samples import APART, CONSTANTS, A, D, Fixed, M, P, Z, call, fixed, over, sample

from dualad.rules.constants import evaluate
from dualad.rules.decompositions import (
    close_pairs,
    general_eigenvalues,
    pseudo_inverse,
    qr_factors,
    singular_values,
    svd_factors,
    warn_close,
)
from dualad.rules.ufunc_methods import add_reduceat, leader

samples.random.bit_generator.state = np.random.default_rng(21).bit_generator.state  # the same samples whatever `samples` holds

#: rows tested elsewhere: they write into their first argument, or make arrays
ELSEWHERE = {f"numpy.{name}" for name in ["copyto", "put", "putmask", "place", "fill_diagonal", "put_along_axis", "zeros", "ones", "empty", "full", "eye", "identity", "tri", "arange", "array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray", "require", "fromfunction", "frombuffer", "fromfile", "fromiter", "fromstring", "loadtxt", "genfromtxt", "save", "savez", "savez_compressed", "savetxt", "einsum_path"]}
#: rows of functions that only see Hermitian matrices, or a fixed basis: tested by what calls them
ELSEWHERE |= {f"dualad.rules.decompositions.{name}" for name in ["cholesky_factor", "eigh_factors", "eigenvalues", "eig_factors", "complement"]}


def existing(names, space=np):
    """The functions called `names` that this version of NumPy has."""
    return [getattr(space, name) for name in names.split() if hasattr(space, name)]


# --- Fourier transforms -----------------------------------------------------------------------------------------------------

NORMS = [{}, {"norm": "ortho"}, {"norm": "forward"}, {"norm": "backward"}]
LENGTHS = [{"n": 3}, {"n": 4}, {"n": 7}, {"n": 8}, {"n": 1}, {"n": 2}]
sample(np.fft.fft, np.fft.ifft)(*over(*NORMS, *LENGTHS, {"axis": 0}, {"axis": -2, "n": 5, "norm": "ortho"})(Z(4, 5)), call(A(5)), call(A(4)), call(A(2, 3, 4), axis=1))
sample(np.fft.rfft, np.fft.ihfft)(*over(*NORMS, *LENGTHS, {"axis": 0}, {"axis": -2, "n": 5, "norm": "ortho"}, {"axis": 0, "n": 3})(A(4, 5)), call(A(5)), call(A(4)), call(A(1)), call(A(2, 3, 4), axis=1))
sample(np.fft.irfft, np.fft.hfft)(*over(*NORMS, *LENGTHS, {"axis": 0}, {"axis": -2, "n": 5, "norm": "ortho"}, {"axis": 0, "n": 9})(Z(4, 5)), call(Z(5)), call(Z(4)), call(A(4)), call(Z(2, 3, 4), axis=1))
PLANES = [{}, {"norm": "ortho"}, {"s": (3, 5)}, {"s": (4, 2), "norm": "forward"}, {"axes": (0, 1)}, {"axes": (-1, 0), "s": (3, 5)}]
sample(np.fft.fft2, np.fft.ifft2, np.fft.irfft2)(*over(*PLANES)(Z(2, 4, 3)), call(Z(3, 4)))
sample(np.fft.fft2, np.fft.ifft2, np.fft.rfft2)(*over(*PLANES)(A(2, 4, 3)), call(A(3, 4)))
sample(np.fft.fftn, np.fft.ifftn, np.fft.irfftn)(*over(*PLANES[:2], {"axes": (1,)}, {"s": (2, 3, 3), "axes": (0, 1, 2)}, {"axes": (2, 0), "norm": "ortho"})(Z(2, 3, 4)), call(Z(4)))
sample(np.fft.fftn, np.fft.rfftn)(*over(*PLANES[:2], {"axes": (1,)}, {"s": (2, 3, 3), "axes": (0, 1, 2)}, {"axes": (2, 0), "s": (3, 3)})(A(2, 3, 4)), call(A(4)))
sample(np.fft.fftshift, np.fft.ifftshift)(call(A(5)), call(A(4)), call(A(4, 5)), call(A(4, 5), 1), call(A(4, 5), axes=(0,)), call(Z(5)), call(A(2, 3, 4), axes=(-1, 0)))

# --- methods of ufuncs ------------------------------------------------------------------------------------------------------

sample(add_reduceat)(call(A(5), [0, 2, 1]), call(A(4, 3), [0, 3], axis=0), call(A(2, 5), np.array([1, 1, 4, 0]), -1), call(A(5), [3]))

# --- decompositions ---------------------------------------------------------------------------------------------------------

def spread(*shape):
    """Matrices whose values are far apart and whose other elements are far from 0, so that no vector changes its sign within a step."""
    return samples.random.uniform(0.4, 0.6, shape) + np.eye(*shape[-2:]) * (1.0 + 4.0 * np.arange(shape[-1]))


def S(*shape):
    """Symmetric positive definite matrices."""
    a = spread(*shape)
    return (a + np.swapaxes(a, -1, -2)) / 2.0


def H(*shape):
    """Hermitian positive definite matrices."""
    return S(*shape) + 0.3j * np.triu(np.ones(shape), 1) - 0.3j * np.tril(np.ones(shape), -1)


def W(m, n, *stack):
    """Matrices with well separated singular values."""
    return spread(*stack, m, n) - 0.2


def R(m, n, *stack):
    """Matrices with columns far from dependent."""
    return 0.3 * A(*stack, m, n) + 2.0 * np.eye(m, n)


SQUARES = [call(S(3, 3)), call(S(2, 3, 3)), call(S(1, 1)), call(S(4, 4))]
sample(np.linalg.cholesky)(*SQUARES, call(H(3, 3)), call(H(2, 2, 2)))
sample(np.linalg.cholesky)(call(S(3, 3), upper=True), call(H(2, 2), upper=True))
sample(np.linalg.eigh)(*SQUARES)
sample(np.linalg.eigh, np.linalg.eigvalsh)(call(S(3, 3), "U"), call(S(3, 3) + np.triu(A(3, 3)), UPLO="L"))
sample(np.linalg.eigvalsh)(*SQUARES, call(H(3, 3)), call(H(3, 3), "U"))
sample(np.linalg.eig)(call(spread(3, 3)), call(np.array([[1.0, 2.0], [-1.5, 0.7]])), call(spread(3, 3) + 0.3j), call(spread(2, 2, 2)))
sample(np.linalg.eigvals, general_eigenvalues)(call(spread(3, 3)), call(np.array([[1.0, 2.0], [-1.5, 0.7]])), call(spread(3, 3) + 0.3j), call(spread(2, 2, 2) * (1.0 - 0.2j)), call(A(1, 1)))
sample(np.linalg.svd, svd_factors)(call(W(3, 3)), call(W(4, 3), False), call(W(2, 4), False), call(W(3, 2, 2), False), call(A(1, 1)))
sample(np.linalg.svd)(call(W(3, 2)), call(W(2, 3)), call(W(4, 3), full_matrices=True), call(S(3, 3), hermitian=True), call(W(4, 3), compute_uv=False), call(S(3, 3), compute_uv=False, hermitian=True))
sample(singular_values, *existing("svdvals", np.linalg))(call(W(3, 3)), call(W(4, 2)), call(W(2, 3, 2)), call(Z(3, 2)), call(Z(2, 2, 2)))
sample(np.linalg.qr)(call(R(3, 3)), call(R(4, 2)), call(R(2, 4)), call(R(3, 2, 2)), call(R(3, 2) * (1.0 + 0.3j)), call(0.3 * Z(2, 3) + 2.0 * np.eye(2, 3)), call(R(4, 3), "r"), call(R(3, 2), mode="complete"),
                     call(R(2, 3), mode="complete"), call(0.3 * Z(3, 3) + 2.0 * np.eye(3)))
sample(qr_factors)(call(R(3, 3)), call(R(4, 2)), call(0.3 * Z(3, 2) + 2.0 * np.eye(3, 2)))
sample(np.linalg.pinv)(call(W(3, 3)), call(W(4, 2)), call(W(2, 4)), call(W(2, 3, 2)), call(Z(3, 2)), call(Z(2, 3)), call(S(3, 3), hermitian=True), call(W(3, 2), rcond=1e-10), call(W(3, 2), rtol=None))
sample(pseudo_inverse)(call(W(3, 2), None, False), call(Z(2, 3), None, False))
sample(np.linalg.slogdet)(call(M(3, 3)), call(M(2, 3, 3)), call(-M(3, 3)), call(Z(3, 3)), call(Z(2, 2, 2)), call(M(1, 1)))
sample(np.linalg.lstsq)(call(W(4, 2), A(4)), call(W(4, 2), A(4, 3)), call(W(2, 4), A(2)), call(W(3, 3), A(3, 1)), call(Z(4, 2), Z(4)), call(W(4, 2), Fixed(A(4))), call(W(4, 2), A(4), rcond=-1))

# --- products ---------------------------------------------------------------------------------------------------------------

sample(np.cross)(call(A(3), A(3)), call(A(2, 3), A(3)), call(A(3, 2), A(3, 2), axis=0), call(A(2, 3), A(3, 2), axisb=0), call(A(2, 3), A(2, 3), -1, -1, 0), call(Z(3), A(3)))
sample(np.linalg.cross)(call(A(3), A(3)), call(A(2, 3), A(3)), call(A(3, 2), A(3, 2), axis=0))
sample(np.linalg.outer)(call(A(3), A(2)), call(Z(3), Z(2)))
sample(np.linalg.matmul)(call(A(2, 3), A(3, 4)), call(A(2, 3), A(3)))
sample(np.linalg.tensordot)(call(A(2, 3), A(3, 4), axes=1), call(A(2, 3), A(2, 3)))
sample(np.linalg.vecdot, *existing("vecdot"))(call(A(3), A(3)), call(A(2, 3), A(3)), call(Z(3), Z(3)), call(Z(2, 3), A(2, 3)), call(A(3, 2), A(3, 2), axis=0), call(A(0), A(0)))
sample(*existing("matvec"))(call(A(2, 3), A(3)), call(A(4, 2, 3), A(3)), call(Z(2, 3), Z(4, 3)))
sample(*existing("vecmat"))(call(A(2), A(2, 3)), call(A(2), A(4, 2, 3)), call(Z(4, 2), Z(2, 3)))
sample(np.linalg.diagonal, np.linalg.trace)(call(A(3, 3)), call(A(2, 3, 4)), call(A(2, 3), offset=1))
sample(np.matrix_transpose, np.linalg.matrix_transpose)(call(A(2, 3)), call(A(2, 3, 4)))
sample(np.linalg.matrix_power)(*(call(M(2, 2), n) for n in (-2, -1, 0, 1, 2, 3, 5)), call(Z(2, 2), 3), call(M(2, 2, 2), 3))
sample(np.linalg.multi_dot)(call([A(2, 3), A(3, 4)]), call([A(3), A(3, 4), A(4, 2)]), call([A(3), A(3, 3), A(3)]), call([A(10, 2), A(2, 8), A(8, 3), A(3, 1)]))
sample(np.linalg.tensorinv)(call(A(2, 3, 6) + 3.0 * np.eye(6).reshape(2, 3, 6)), call(A(4, 2, 2) + 3.0 * np.eye(4).reshape(4, 2, 2), ind=1))
sample(np.linalg.tensorsolve)(call(A(2, 3, 6) + 3.0 * np.eye(6).reshape(2, 3, 6), A(2, 3)), call(A(2, 2, 4) + 3.0 * np.eye(4).reshape(2, 2, 4), A(2, 2)), call(A(2, 6, 3) + 3.0 * np.eye(6).reshape(2, 3, 6).swapaxes(1, 2), A(2, 3), axes=(1,)))
sample(np.linalg.cond)(*over({}, {"p": 2}, {"p": -2}, {"p": "fro"}, {"p": 1}, {"p": np.inf})(W(3, 3)), call(W(3, 3, 2)), call(W(3, 2)))
sample(np.linalg.matrix_norm)(*over({}, {"ord": 1}, {"ord": -np.inf}, {"ord": 2}, {"ord": "nuc"}, {"keepdims": True})(np.stack([APART, 1.0 - APART])))
sample(np.linalg.vector_norm)(*over({}, {"ord": 1}, {"ord": 3}, {"ord": np.inf}, {"axis": 1}, {"axis": (0, 2)}, {"axis": -1, "keepdims": True}, {"keepdims": True})(D(2, 3, 4)), call(Z(3)))

# --- without derivative -----------------------------------------------------------------------------------------------------

for fn in (np.argwhere, np.flatnonzero, np.isposinf, np.isneginf, np.common_type, np.min_scalar_type, np.fix, np.around, np.nanargmax, np.nanargmin):
    CONSTANTS[fn] = [call(A(2, 3)), call(A(3))]
for fn in (np.diag_indices_from, np.tril_indices_from, np.triu_indices_from, np.linalg.matrix_rank):
    CONSTANTS[fn] = [call(A(3, 3))]
CONSTANTS[np.array_equiv] = [call(A(2, 3), A(3)), call(A(3), Fixed(np.zeros(3)))]
CONSTANTS[np.digitize] = [call(P(4), fixed(np.array([0.5, 1.0]))), call(fixed(P(4)), np.array([0.5, 1.0]))]
CONSTANTS[np.lexsort] = [call([A(3), A(3)])]
for fn in existing("isin in1d"):
    CONSTANTS[fn] = [call(A(3), A(2)), call(A(3), Fixed(A(2)))]
CONSTANTS[evaluate] = [call(np.sin, A(3)), call(np.argsort, A(2, 3), axis=0)]
CONSTANTS[leader] = [call(np.maximum, D(5), 0), call(np.minimum, D(2, 5), 1)]
CONSTANTS[close_pairs] = [call(A(3)), call(Z(2, 3))]
CONSTANTS[warn_close] = [call("f", A(3) * 0.0)]
