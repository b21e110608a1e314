"""scipy.signal: values are SciPy's to the last bit, derivatives those of differences; every row has samples."""

import numpy as np
import pytest
from scipy_calls import check_adapted, check_call, check_calls, check_refused

pytest.importorskip("scipy")
from scipy import signal

from dualad.rules.scipy.signal import FUNCTIONS

RNG = np.random.default_rng(3)
X, Y, Z = RNG.standard_normal(7), RNG.standard_normal(3), RNG.standard_normal(4) + 1j * RNG.standard_normal(4)
M, N, K = RNG.standard_normal((5, 4)), RNG.standard_normal((2, 3)), RNG.standard_normal((3, 3))
LONG = RNG.standard_normal((2, 40))
B, A = np.array([0.3, 0.4, 0.1]), np.array([1.1, -0.4, 0.2])
SOS = np.array([[0.3, 0.2, 0.1, 1.0, -0.3, 0.1], [0.5, 0.1, 0.2, 1.0, 0.2, 0.3]])
MODES = ("full", "same", "valid")

CALLS = {
    "convolve": [((x, y, mode), {}) for mode in MODES for x, y in ((X, Y), (Y, X), (X, Z), (Z, Y[:2]), (M, N))]
    + [((X, Y), {"method": "direct"}), ((X.astype("f4"), Y.astype("f4")), {})],
    "correlate": [((x, y, mode), {}) for mode in MODES for x, y in ((X, Y), (X, Z), (Z, Z[:2]), (M, N))] + [((Y, X, "valid"), {})],
    "fftconvolve": [((M, N), {"mode": mode}) for mode in MODES] + [((M, M[:, :2], "same"), {"axes": 1})],
    "oaconvolve": [((X, Y), {"mode": mode}) for mode in MODES] + [((M, M[:, :2], "full"), {"axes": [1]})],
    "convolve2d": [((M, N, mode, edge), {}) for mode in MODES for edge in ("fill", "wrap", "symm")]
    + [((M, N, "same", "fill", fill), {}) for fill in (1.5, 0.0)],
    "correlate2d": [((x, y, mode, edge), {}) for mode in MODES for edge in ("fill", "wrap", "symm") for x, y in ((M, K), (M, N))]
    + [((N, M, "same"), {})],
    "lfilter": [((B, A, X), {}), ((B, A[:2], M), {"axis": 0}), ((B, A, M, -1, M[:, :2]), {}), ((B[:2], A, X[:1], 0, Y[:2]), {}),
                ((B, np.array([2.0]), X), {}), ((B, A, Z), {}), ((B.astype("f4"), A.astype("f4"), X.astype("f4")), {})],
    "lfilter_zi": [((B, A), {}), ((B[:2], A), {})],
    "sosfilt": [((SOS, X), {}), ((SOS, M), {"axis": 0}), ((SOS, X, -1, N[:, :2]), {})],
    "sosfilt_zi": [((SOS,), {})],
    "filtfilt": [((B, A, X), {"padlen": 4}), ((B, A, LONG[:, :11]), {}), ((B, A, M, 0, "even", 3), {}),
                 ((B, A[:2], M, 0, "constant", 2), {}),
                 ((B, A, X), {"padtype": None})],
    "sosfiltfilt": [((SOS, X), {"padlen": 3}), ((SOS, LONG[:, :17]), {})],
    "decimate": [((LONG[0], 2), {}), ((LONG, 3, 4), {"zero_phase": False})],
    "detrend": [((X,), {}), ((M,), {"axis": 0, "type": "constant"}), ((LONG,), {"bp": [11, 17]})],
    "savgol_filter": [((X, 5, 2), {}), ((X, 4, 1), {}), ((M, 4, 2), {"mode": "wrap"}), ((M, 3, 1), {"axis": 0, "deriv": 1, "delta": 0.5})]
    + [((X, 5, 2), {"mode": mode, "cval": 0.7}) for mode in ("mirror", "constant", "nearest", "wrap")],
    "welch": [((LONG[0],), {"window": "hann", "nperseg": 8}), ((LONG, 3.0, B), {"nperseg": 3, "noverlap": 1, "nfft": 5, "detrend": False}),
              ((LONG.T,), {"window": "boxcar", "nperseg": 9, "axis": 0, "scaling": "spectrum", "detrend": "linear"}),
              ((Z,), {"window": "hann", "nperseg": 3, "return_onesided": False})],
    "periodogram": [((X,), {}), ((M, 2.0, "hann"), {"axis": 0, "nfft": 4}), ((X,), {"nfft": 10, "detrend": False})],
    "medfilt": [((X,), {}), ((M, (3, 1)), {})],
    "deconvolve": [((X, A), {}), ((A, X), {})],
    "freqz": [((B, A), {"worN": 4}), ((B, 1), {"worN": [0.1, 0.7], "fs": 3.0}), ((Y, A[:2]), {"worN": 3, "whole": True})],
    "hilbert": [((X,), {}), ((M, 6), {"axis": 0}), ((M,), {})],
    "resample": [((x, n), {"axis": -1}) for x in (X, M, Z) for n in (3, 4, 6, 8, 9)],
    "upfirdn": [((Y, X, 2, 3), {}), ((Y, M), {"up": 3, "axis": 0})],
}  # fmt: skip
PLAIN = {"sosfilt": {0}, "sosfiltfilt": {0}}


def test_every_row_has_samples():
    assert set(CALLS) == set(FUNCTIONS)


@pytest.mark.parametrize("name", CALLS)
def test_values_and_derivatives(name):
    check_calls(FUNCTIONS[name], getattr(signal, name), CALLS[name], PLAIN.get(name, ()))


def test_derivatives_by_the_coefficients_of_sections():
    """SciPy takes sections whose leading coefficient is 1 alone."""
    for name in ("sosfilt", "sosfiltfilt"):
        sections = lambda p: np.concatenate([p[:, :3], np.ones((2, 1)), p[:, 3:]], axis=1)
        filtered = lambda fn: lambda p: fn(sections(p), LONG[0])
        check_call(filtered(FUNCTIONS[name]), filtered(getattr(signal, name)), (np.delete(SOS, 3, axis=1),), {})


def test_unknown_arguments_are_refused_by_name():
    cases = [
        (lambda x: FUNCTIONS["filtfilt"](B, A, x, method="gust"), "method='gust': use method='pad'"),
        (lambda x: FUNCTIONS["resample"](x, 3, window="hann"), "scipy.signal.resample has no derivative with these arguments: .*window"),
        (lambda x: FUNCTIONS["welch"](x, nperseg=8, average="median")[1], "scipy.signal.welch has no derivative with average='median'"),
        (lambda x: FUNCTIONS["decimate"](x, 2, ftype="fir", zero_phase=False), "ftype='fir': use 'iir'"),
    ]
    check_refused(LONG[0], cases)


def test_compiled_and_adapted():
    def loss(p):
        return np.sum(signal.lfilter(p[:2], p[2:], LONG) ** 2) + np.sum(signal.fftconvolve(p * M, N) ** 3)

    check_adapted(loss, np.array([0.5, 0.2, 1.0, -0.3]))
