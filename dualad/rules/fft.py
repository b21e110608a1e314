"""Fourier transforms: four linear ones with their transposes; the others are made of them, as in NumPy.

A cotangent pairs as Re(sum(g * t)), without conjugation. The matrix of `fft` is symmetric, so that `fft` and `ifft` are
their own transposes; ``n=`` cuts the input or pads it with zeros, whose transpose pads or cuts. The real transforms know half
of a spectrum, of which all but the elements of frequency 0 and n/2 stand for two.
"""

from __future__ import annotations

from .inner import InnerLoop
from .kinds import composite, linear
from .names import np
from .shapes import by_numpy

OPPOSITE = {None: "forward", "backward": "forward", "ortho": "ortho", "forward": "backward"}


# --- transposes -------------------------------------------------------------------------------------------------------------


def fitted(g, length, axis):
    """Return `g` cut or padded with zeros to a length along an axis: the transpose of what ``n=`` does."""
    now = np.shape(g)[axis]
    if now >= length:
        return g if now == length else g[(*(slice(None),) * (axis % np.ndim(g)), slice(length))]
    rest = [length - now if i == axis % np.ndim(g) else n for i, n in enumerate(np.shape(g))]
    return np.concatenate([g, np.zeros(rest, g.dtype)], axis=axis)


def own_transpose(fn):
    def transpose(g, x, n=None, axis=-1, norm=None, out=None):
        return fitted(fn(g, n, axis, norm), x.shape[axis], axis)

    return transpose


def half_weights(n, ndim, axis, inner, dtype):
    """Return `inner` for each frequency of a half spectrum but 0 and n/2, and 1 for those."""
    weights = np.full(n // 2 + 1, inner, np.empty(0, dtype).real.dtype)
    weights[0] = 1.0
    if n % 2 == 0:
        weights[-1] = 1.0
    return np.reshape(weights, [-1 if i == axis % ndim else 1 for i in range(ndim)])


def rfft_transpose(g, x, n=None, axis=-1, norm=None, out=None):
    n = x.shape[axis] if n is None else n
    spectrum = np.conjugate(g) * half_weights(n, len(x.shape), axis, 0.5, g.dtype)
    return fitted(np.fft.irfft(spectrum, n, axis, OPPOSITE[norm]), x.shape[axis], axis)


def irfft_transpose(g, x, n=None, axis=-1, norm=None, out=None):
    n = 2 * (x.shape[axis] - 1) if n is None else n
    spectrum = np.conjugate(np.fft.rfft(g, n, axis, OPPOSITE[norm]))
    return fitted(spectrum * half_weights(n, len(x.shape), axis, 2.0, g.dtype), x.shape[axis], axis)


# --- the ufuncs underneath ---------------------------------------------------------------------------------------------------


def transform(name):
    """Return what the row of a transform says of the ufunc underneath, which takes the factor of the norm."""

    def inner(x, n=None, axis=-1, norm=None):
        if n is None:
            n = 2 * (x.shape[axis] - 1) if name == "irfft" else x.shape[axis]
        ufunc = f"rfft_n_{'odd' if n % 2 else 'even'}" if name == "rfft" else name
        factor, real = 1, np.result_type(np.empty(0, x.dtype).real.dtype, 1.0)
        if (OPPOSITE[norm] if name in ("ifft", "irfft") else norm) not in (None, "backward"):
            factor = np.reciprocal(np.sqrt(n, dtype=real) if norm == "ortho" else n, dtype=real)
        return InnerLoop(f"numpy.fft._pocketfft_umath.{ufunc}", (x, factor), axis=axis)

    return inner


# --- several axes, as NumPy's own -------------------------------------------------------------------------------------------


def lengths(x, s, axes):
    """Return the (length or None, axis) pairs of a transform over several axes."""
    axes = range(-len(s), 0) if axes is None and s is not None else range(-np.ndim(x), 0) if axes is None else axes
    return list(zip([None] * len(axes) if s is None else [None if n == -1 else n for n in s], axes, strict=True))


def several(fn):
    def body(a, s=None, axes=None, norm=None, out=None):
        for n, axis in reversed(lengths(a, s, axes)):
            a = fn(a, a.shape[axis] if n is None else n, axis, norm)
        return a

    return body


def rfftn(a, s=None, axes=None, norm=None, out=None):
    *rest, (n, axis) = [(a.shape[axis] if n is None else n, axis) for n, axis in lengths(a, s, axes)]  # an axis may stand there twice
    a = np.fft.rfft(a, n, axis, norm)
    for n, axis in reversed(rest):  # NumPy 2.0 goes the other way, which rounds otherwise
        a = np.fft.fft(a, n, axis, norm)
    return a


def in_plane(fn):
    """Make the body of a transform over the last two axes by default."""
    return lambda a, s=None, axes=(-2, -1), norm=None, out=None: fn(a, s, axes, norm)


def ihfft(a, n=None, axis=-1, norm=None, out=None):
    return np.conjugate(np.fft.rfft(a, n, axis, OPPOSITE[norm]))


# --- the table --------------------------------------------------------------------------------------------------------------

# fmt: off
linear(np.fft.fft,   own_transpose(np.fft.fft), axes="axis", inner=transform("fft"))
linear(np.fft.ifft,  own_transpose(np.fft.ifft), axes="axis", inner=transform("ifft"))
linear(np.fft.rfft,  rfft_transpose, axes="axis", inner=transform("rfft"))
linear(np.fft.irfft, irfft_transpose, axes="axis", inner=transform("irfft"))
composite(np.fft.fftn,      several(np.fft.fft), with_numpy_value=True)
composite(np.fft.ifftn,     several(np.fft.ifft), with_numpy_value=True)
composite(np.fft.rfftn,     rfftn, with_numpy_value=True)
composite(np.fft.fft2,      in_plane(np.fft.fftn), with_numpy_value=True)
composite(np.fft.ifft2,     in_plane(np.fft.ifftn), with_numpy_value=True)
composite(np.fft.ihfft,     ihfft)
for fn in (np.fft.hfft, np.fft.irfftn, np.fft.rfft2, np.fft.irfft2, np.fft.fftshift, np.fft.ifftshift):
    composite(fn, by_numpy(fn))
# fmt: on
