"""The convolution that filters of ``scipy.signal`` and ``scipy.ndimage`` are made of."""

import numpy as np
from scipy import signal as ss

from ..batching import elementwise_form
from ..kinds import multilinear, ndim_of, shape_of, unbroadcast
from .entering import dispatching_as


def convolve_whole(a, b, *, axes):
    """Return the full convolution along axes, counted from the last one; the others broadcast."""
    ndim = max(a.ndim, b.ndim)
    a, b = (x.reshape((1,) * (ndim - x.ndim) + x.shape) for x in (a, b))
    if len(axes) == ndim:
        return ss.convolve(a, b)
    if axes == (-1,) and b.size == b.shape[-1]:  # faster than by Fourier transforms
        return ss.lfilter(b.ravel(), np.ones(1, b.dtype), np.pad(a, [(0, 0)] * (ndim - 1) + [(0, b.size - 1)]))
    return ss.fftconvolve(a, b, axes=axes)


def whole_transpose(i, g, a, b, *, axes):
    x, other = (b, a) if i else (a, b)
    result = whole(g, np.flip(other, axes), axes=axes)
    return unbroadcast(cut_part(result, [(axis, shape_of(other)[axis] - 1, shape_of(x)[axis]) for axis in axes]), x)


whole = dispatching_as(convolve_whole, "scipy.signal.convolve")
multilinear(whole, whole_transpose, batch=elementwise_form)


def cut_part(x, pieces):
    """Return a part of an array: along each axis, from a start on, so many elements."""
    index = [slice(None)] * ndim_of(x)
    for axis, start, count in pieces:
        index[axis] = slice(start, start + count)
    return x[tuple(index)]


def filter_full(taps, x):
    """Return the full convolution of the last axis with taps."""
    return whole(x, np.reshape(taps, (1,) * (ndim_of(x) - 1) + (-1,)), axes=(-1,))
