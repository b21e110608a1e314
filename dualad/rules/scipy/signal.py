"""``scipy.signal``: convolutions and filters, made of two primitives: the whole convolution, and the recursion of a filter.

A filter y of x solves a * y = b * x (* a convolution), so that the tangent of y by a is the recursion of -a' * y. The transpose of a
recursion is itself, backwards in time.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from scipy import signal as ss

from ..fft import half_weights
from ..kinds import explicit, is_complex, ndim_of, shape_of
from .convolutions import cut_part, filter_full, whole
from .entering import by_name, dispatching_as, enter_bodies
from .ndimage import convolve1d, median_filter

# --- convolutions -------------------------------------------------------------------------------------------------------------------


def middle(full, a, b, mode, axes):
    """Return the part of a full convolution that a mode names."""
    if mode == "full":
        return full
    if mode not in ("same", "valid"):
        raise ValueError(f"mode must be 'full', 'same' or 'valid', not {mode!r}")
    pieces = []
    for axis in axes:
        n, m = shape_of(a)[axis], shape_of(b)[axis]
        count = n if mode == "same" else abs(n - m) + 1
        pieces.append((axis, (n + m - 1 - count) // 2, count))
    return cut_part(full, pieces)


def convolve(in1, in2, mode="full", axes=None):
    ndim = ndim_of(in1)
    if not ndim:
        return in1 * in2
    listed = range(ndim) if axes is None else np.atleast_1d(axes).tolist()
    axes = tuple(sorted(axis % ndim - ndim for axis in listed))
    return middle(whole(in1, in2, axes=axes), in1, in2, mode, axes)


def correlate(in1, in2, mode="full"):
    return convolve(in1, np.conj(np.flip(in2)), mode)


BOUNDARIES: dict[str, Any] = {"wrap": "wrap", "symm": "symmetric"}


def convolve2d(in1, in2, mode="full", boundary="fill", fillvalue=0):
    if mode == "valid" or (boundary == "fill" and type(fillvalue) in (int, float) and fillvalue == 0):
        return convolve(in1, in2, mode)
    widths = [(m - 1, m - 1) for m in shape_of(in2)]
    padded = np.pad(in1, widths, constant_values=fillvalue) if boundary == "fill" else np.pad(in1, widths, mode=BOUNDARIES[boundary])
    return middle(convolve(padded, in2, "valid"), in1, in2, mode, (-2, -1))


def correlate2d(in1, in2, mode="full", boundary="fill", fillvalue=0):
    """Of a kernel of even size, SciPy takes another middle than `correlate` does: that of the convolution from behind."""
    return np.flip(convolve2d(np.flip(in1), np.conj(in2), mode, boundary, fillvalue))


# --- filters ------------------------------------------------------------------------------------------------------------------------


def recurse(a, u):
    """Return the y of a * y = u along the last axis, from rest."""
    return ss.lfilter(np.ones(1, np.result_type(a, u)), a, u)


def delayed_products(x, y, count):
    """Return the sums of x[n] y[n - k] for each k < count."""
    n = shape_of(x)[-1]
    return np.stack([np.sum(x[..., k:] * y[..., : max(n - k, 0)]) for k in range(count)])


def backwards(a, g):
    return np.flip(recursion(a, np.flip(g, -1)), -1)


recursion: Any = dispatching_as(recurse, "scipy.signal.lfilter")
explicit(
    recursion,
    (lambda t, ans, a, u: -recursion(a, first(filter_full(t, ans), ans)), lambda t, ans, a, u: recursion(a, t)),
    (lambda g, ans, a, u: -delayed_products(backwards(a, g), ans, shape_of(a)[0]), lambda g, ans, a, u: backwards(a, g)),
    batch=lambda fn, args, kwargs, batched: fn(*args) if batched == {1} else NotImplemented,
)


def first(x, like):
    return x[..., : shape_of(like)[-1]]


def pad_behind(x, size):
    """Return an array with zeros behind, along the last axis."""
    return np.pad(x, [(0, 0)] * (ndim_of(x) - 1) + [(0, size - shape_of(x)[-1])])


def lfilter(b, a, x, axis=-1, zi=None):
    b, a, x = np.reshape(b, (-1,)), np.reshape(a, (-1,)), np.moveaxis(x, axis, -1)
    size = shape_of(x)[-1]
    order = max(shape_of(a)[0], shape_of(b)[0]) - 1
    forced = pad_behind(filter_full(b, x), size + order)
    if zi is not None:
        forced = forced + a[0] * pad_behind(np.moveaxis(zi, axis, -1), size + order)
    y = recursion(a, forced[..., :size])
    if zi is None:
        return np.moveaxis(y, -1, axis)
    rest = (forced - pad_behind(filter_full(a, y), size + order))[..., size:] / a[0]
    return np.moveaxis(y, -1, axis), np.moveaxis(rest, -1, axis)


def lfilter_zi(b, a):
    """Return the state of a filter that answers ones by its gain at frequency 0, each a sum of what is still to come."""
    b, a = (pad_behind(np.reshape(x, (-1,)), max(np.size(b), np.size(a))) for x in (b, a))
    steps = (b - a * (np.sum(b) / np.sum(a))) / a[0]
    return np.flip(np.cumsum(np.flip(steps)))[1:]


def sosfilt(sos, x, axis=-1, zi=None):
    ends = []
    for k in range(shape_of(sos)[0]):
        section = sos[k, :3], sos[k, 3:]
        if zi is None:
            x = lfilter(*section, x, axis)
        else:
            x, end = lfilter(*section, x, axis, zi[k])
            ends.append(end)
    return x if zi is None else (x, np.stack(ends))


def sosfilt_zi(sos):
    states, gain = [], 1.0
    for k in range(shape_of(sos)[0]):
        b, a = sos[k, :3], sos[k, 3:]
        states.append(gain * lfilter_zi(b, a))
        gain = gain * np.sum(b) / np.sum(a)
    return np.stack(states)


PADDINGS: dict[str, Any] = {"odd": {"mode": "reflect", "reflect_type": "odd"}, "even": {"mode": "reflect"}, "constant": {"mode": "edge"}}


def filter_both_ways(step, x, axis, padtype, edge):
    """Filter a signal, lengthened at its ends, forwards and backwards; `step` filters along the last axis, from the state of its start."""
    x = np.moveaxis(x, axis, -1)
    if padtype is not None and edge > 0:
        x = np.pad(x, [(0, 0)] * (ndim_of(x) - 1) + [(edge, edge)], **PADDINGS[padtype])
    else:
        edge = 0
    y = np.flip(step(np.flip(step(x), -1)), -1)
    return np.moveaxis(y[..., edge : shape_of(y)[-1] - edge], -1, axis)


def filtfilt(b, a, x, axis=-1, padtype="odd", padlen=None, method="pad"):
    if method != "pad":
        raise NotImplementedError(f"scipy.signal.filtfilt has no derivative with method={method!r}: use method='pad'")
    b, a = np.reshape(b, (-1,)), np.reshape(a, (-1,))
    zi = lfilter_zi(b, a)
    edge = 3 * max(shape_of(a)[0], shape_of(b)[0]) if padlen is None else padlen
    return filter_both_ways(lambda x: lfilter(b, a, x, zi=zi * x[..., :1])[0], x, axis, padtype, edge)


def sosfiltfilt(sos, x, axis=-1, padtype="odd", padlen=None):
    taps = 2 * shape_of(sos)[0] + 1
    taps -= int(min(np.count_nonzero(np.equal(sos[:, 2], 0)), np.count_nonzero(np.equal(sos[:, 5], 0))))
    zi = sosfilt_zi(sos)

    def step(x):
        states = np.reshape(zi, (shape_of(sos)[0], *(1,) * (ndim_of(x) - 1), 2))
        return sosfilt(sos, x, zi=states * x[..., :1])[0]

    return filter_both_ways(step, x, axis, padtype, 3 * taps if padlen is None else padlen)


def decimate(x, q, n=None, ftype="iir", axis=-1, zero_phase=True):
    if ftype != "iir":
        raise NotImplementedError(f"scipy.signal.decimate has no derivative with ftype={ftype!r}: use 'iir', or signal.lfilter and x[::q]")
    sos = ss.cheby1(8 if n is None else n, 0.05, 0.8 / q, output="sos")
    y = sosfiltfilt(sos, x, axis) if zero_phase else sosfilt(sos, x, axis)
    return np.moveaxis(np.moveaxis(y, axis, -1)[..., ::q], -1, axis)


# --- what is linear in a signal -----------------------------------------------------------------------------------------------------


def detrended(data, axis=-1, type="linear", bp=0):
    if type in ("constant", "c"):
        return data - np.mean(data, axis=axis, keepdims=True)
    data = np.moveaxis(data, axis, -1)
    size, parts = shape_of(data)[-1], []
    ends = np.unique(np.concatenate([[0, size], np.ravel(bp)])).tolist()
    for start, stop in pairwise(ends):
        base = np.linalg.qr(np.stack([np.ones(stop - start), np.linspace(-1.0, 1.0, stop - start)], -1))[0][:, : stop - start]
        piece = data[..., start:stop]
        parts.append(piece - (piece @ base) @ base.T)
    return np.moveaxis(np.concatenate(parts, -1), -1, axis)


def savgol_filter(x, window_length, polyorder, deriv=0, delta=1.0, axis=-1, mode="interp", cval=0.0):
    """The edges of a signal are filtered as those of the unit signals."""
    x, half = np.moveaxis(x, axis, -1), window_length // 2
    taps = ss.savgol_coeffs(window_length, polyorder, deriv=deriv, delta=delta)
    y = convolve1d(x, taps, mode="constant" if mode == "interp" else mode, cval=cval)
    if mode == "interp":
        edges = ss.savgol_filter(np.eye(window_length), window_length, polyorder, deriv, delta, axis=-1)
        inner = cut_part(y, [(-1, half, shape_of(x)[-1] - 2 * half)])
        y = np.concatenate([x[..., :window_length] @ edges[:, :half], inner, x[..., -window_length:] @ edges[:, -half:]], -1)
    return np.moveaxis(y, -1, axis)


def hilbert(x, N=None, axis=-1):
    size = shape_of(x)[axis] if N is None else N
    weights = np.zeros(size)
    weights[0] = weights[size // 2] = 1.0
    weights[1 : (size + 1) // 2] = 2.0
    spectrum = np.moveaxis(np.fft.fft(x, size, axis), axis, -1) * weights
    return np.moveaxis(np.fft.ifft(spectrum), -1, axis)


def resample(x, num, axis=0, domain="time"):
    """Cut the spectrum, or fill it with zeros; half of what stands in the middle of an even one belongs to each of its ends."""
    if domain != "time":
        raise NotImplementedError(f"scipy.signal.resample has no derivative with domain={domain!r}: use domain='time'")
    if is_complex(x):
        return resample(x.real, num, axis) + 1j * resample(x.imag, num, axis)
    x = np.moveaxis(x, axis, -1)
    size = shape_of(x)[-1]
    shared = min(num, size)
    weights = np.full(shared // 2 + 1, num / size)
    if shared % 2 == 0 and num != size:
        weights[-1] *= 2.0 if num < size else 0.5
    return np.moveaxis(np.fft.irfft(np.fft.rfft(x)[..., : shared // 2 + 1] * weights, num), -1, axis)


def upfirdn(h, x, up=1, down=1, axis=-1):
    x = np.moveaxis(x, axis, -1)
    spread = np.reshape(np.pad(x[..., None], [(0, 0)] * ndim_of(x) + [(0, up - 1)]), (*shape_of(x)[:-1], -1))
    spread = spread[..., : shape_of(spread)[-1] - up + 1]
    return np.moveaxis(filter_full(h, spread)[..., ::down], -1, axis)


def deconvolve(signal, divisor):
    """Return the quotient and the remainder of polynomials."""
    size = shape_of(signal)[0] - shape_of(divisor)[0] + 1
    if size < 1:
        return np.zeros(0), signal
    quotient = lfilter(signal, divisor, np.eye(1, size)[0])
    return quotient, signal - convolve(divisor, quotient)


def freqz(b, a=1, worN=512, whole=False, fs=2.0 * np.pi, include_nyquist=False):
    w = ss.freqz([1.0], worN=worN, whole=whole, fs=fs, include_nyquist=include_nyquist)[0]
    z = np.exp(-2j * np.pi / fs * w)
    over, under = (np.vander(z, shape_of(part)[0], increasing=True) @ part for part in (np.reshape(b, (-1,)), np.reshape(a, (-1,))))
    return w, over / under


def welch(
    x, fs=1.0, window="hann", nperseg=None, noverlap=None, nfft=None, detrend="constant", return_onesided=True, scaling="density",
    axis=-1, average="mean",
):  # fmt: skip
    if average != "mean" or callable(detrend):
        raise NotImplementedError("scipy.signal.welch has no derivative with average='median', or a function for detrend=: leave them out")
    x = np.moveaxis(x, axis, -1)
    if isinstance(window, str | tuple):
        window = ss.get_window(window, min(256 if nperseg is None else nperseg, shape_of(x)[-1]))
    window = np.reshape(window, (-1,))
    size = shape_of(window)[0]
    starts = np.arange(0, shape_of(x)[-1] - size + 1, size - (size // 2 if noverlap is None else noverlap))
    parts = x[..., starts[:, None] + np.arange(size)]
    nfft, both_sides = nfft or size, is_complex(x) or not return_onesided
    spectrum = (np.fft.fft if both_sides else np.fft.rfft)((detrended(parts, type=detrend) if detrend else parts) * window, nfft)
    scale = 1.0 / (fs * np.sum(window**2)) if scaling == "density" else 1.0 / np.sum(window) ** 2
    power = np.mean(spectrum.real**2 + spectrum.imag**2, axis=-2) * scale
    if both_sides:
        return np.fft.fftfreq(nfft, 1.0 / fs), np.moveaxis(power, -1, axis)
    return np.fft.rfftfreq(nfft, 1.0 / fs), np.moveaxis(power * half_weights(nfft, 1, -1, 2.0, power.dtype), -1, axis)


def periodogram(x, fs=1.0, window="boxcar", nfft=None, detrend="constant", return_onesided=True, scaling="density", axis=-1):
    x = np.moveaxis(x, axis, -1)[..., :nfft]
    size = shape_of(x)[-1]
    f, power = welch(x, fs, "boxcar" if window is None else window, size, 0, nfft, detrend, return_onesided, scaling)
    return f, np.moveaxis(power, -1, axis)


# --- the table ----------------------------------------------------------------------------------------------------------------------

BODIES = by_name(
    convolve2d, correlate2d, lfilter, lfilter_zi, sosfilt, sosfilt_zi, filtfilt, sosfiltfilt, decimate, savgol_filter, welch, periodogram,
    deconvolve, freqz, hilbert, resample, upfirdn,
)  # fmt: skip
BODIES |= {  # how a convolution is computed changes no derivative
    "convolve": lambda in1, in2, mode="full", method="auto": convolve(in1, in2, mode),
    "correlate": lambda in1, in2, mode="full", method="auto": correlate(in1, in2, mode),
    "fftconvolve": convolve,
    "oaconvolve": convolve,
    "detrend": detrended,
    "medfilt": lambda volume, kernel_size=None: median_filter(volume, 3 if kernel_size is None else kernel_size, mode="constant"),
}
FUNCTIONS = enter_bodies(ss, BODIES)
