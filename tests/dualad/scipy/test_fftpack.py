"""scipy.fftpack: values are SciPy's to the last bit, derivatives those of differences; every row has samples."""

import numpy as np
import pytest
from scipy_calls import check_adapted, check_calls, check_refused

pytest.importorskip("scipy")
from scipy import fftpack

from dualad.rules.scipy.fftpack import FUNCTIONS

RNG = np.random.default_rng(3)
X, M, Z = RNG.standard_normal(7), RNG.standard_normal((4, 5)), RNG.standard_normal(4) + 1j * RNG.standard_normal(4)
CALLS = {
    "rfft": [((X,), {}), ((M,), {"axis": 0}), ((M, 6), {})],
    **{name: [((Z,), {}), ((M, 3), {"axis": 0}), ((X,), {"overwrite_x": True})] for name in ("fft", "ifft")},
    **{name: [((M,), {}), ((M + 1j * M[::-1], (3, 4)), {})] for name in ("fft2", "ifft2", "fftn", "ifftn")},
    **{name: [((X,), {}), ((M, 3), {"axis": 0}), ((M, 2, 4), {"norm": "ortho"})] for name in ("dct", "idct", "dst", "idst")},
    **{name: [((M,), {}), ((M, 3, None, (0,)), {"norm": "ortho"})] for name in ("dctn", "idctn", "dstn", "idstn")},
}


def test_every_row_has_samples():
    assert set(CALLS) == set(FUNCTIONS)


@pytest.mark.parametrize("name", CALLS)
def test_values_and_derivatives(name):
    check_calls(FUNCTIONS[name], getattr(fftpack, name), CALLS[name])


def test_bad_arguments_are_refused():
    check_refused(X, [(lambda x: FUNCTIONS["dct"](x, 7), "type"), (lambda x: FUNCTIONS["fft"](x, nope=1), "nope")])


def test_compiled_and_adapted():
    check_adapted(lambda p: np.sum(np.abs(fftpack.fft(p)) * 0.3 + fftpack.dct(p, norm="ortho") ** 3), X)
