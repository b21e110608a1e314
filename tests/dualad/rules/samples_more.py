"""Sample calls of the rows beyond the everyday ones: enters them into the tables of `samples`."""

from __future__ import annotations

import numpy as np
from samples import CONSTANTS, SAMPLES, A, B, D, Fixed, G, M, P, Sample, Z, call, fixed, over, sample

from dualad.rules.constants import evaluate
from dualad.rules.ufunc_methods import add_reduceat, leader

#: rows tested elsewhere: they write into their first argument, or make arrays
ELSEWHERE = {f"numpy.{name}" for name in (
    "copyto put putmask place fill_diagonal put_along_axis zeros ones empty full eye identity tri arange array asarray asanyarray "
    "ascontiguousarray asfortranarray require fromfunction frombuffer fromfile fromiter fromstring loadtxt genfromtxt save savez "
    "savez_compressed savetxt einsum_path").split()}


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
