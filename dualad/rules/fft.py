"""Fourier transforms: four linear ones with their transposes; the others are made of them, as in NumPy.

A cotangent pairs as Re(sum(g * t)), without conjugation. The matrix of `fft` is symmetric, so that `fft` and `ifft` are
their own transposes; ``n=`` cuts the input or pads it with zeros, whose transpose pads or cuts. The real transforms know half
of a spectrum, of which all but the elements of frequency 0 and n/2 stand for two.
"""

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
    """Return the `InnerLoop` of a transform, whose ufunc takes the factor of the norm."""

    def inner(x, n=None, axis=-1, norm=None):
        if n is None:
            n = 2 * (x.shape[axis] - 1) if name == "irfft" else x.shape[axis]
        ufunc = f"rfft_n_{'odd' if n % 2 else 'even'}" if name == "rfft" else name
        factor, real = 1, np.result_type(np.empty(0, x.dtype).real.dtype, 1.0)
        if (OPPOSITE[norm] if name in ("ifft", "irfft") else norm) not in (None, "backward"):
            factor = np.reciprocal(np.sqrt(n, dtype=real) if norm == "ortho" else n, dtype=real)
        return InnerLoop(f"numpy.fft._pocketfft_umath.{ufunc}", (x, factor), axis=axis)

    return inner


# --- the table --------------------------------------------------------------------------------------------------------------

# fmt: off
linear(np.fft.fft,   own_transpose(np.fft.fft), axes="axis", inner=transform("fft"))
linear(np.fft.ifft,  own_transpose(np.fft.ifft), axes="axis", inner=transform("ifft"))
linear(np.fft.rfft,  rfft_transpose, axes="axis", inner=transform("rfft"))
linear(np.fft.irfft, irfft_transpose, axes="axis", inner=transform("irfft"))
for fn in (np.fft.fftn, np.fft.ifftn, np.fft.rfftn, np.fft.irfftn, np.fft.fft2, np.fft.ifft2, np.fft.rfft2, np.fft.irfft2,
           np.fft.hfft, np.fft.ihfft, np.fft.fftshift, np.fft.ifftshift):
    composite(fn, by_numpy(fn))
# fmt: on
