"""Differences, integrals, convolutions, and functions of one variable that are no ufuncs."""

import math

from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from .constants import evaluate
from .indexing import cast
from .kinds import bilinear, composite, elementwise, primitive
from .names import np
from .shapes import by_numpy

NO = np._NoValue


# --- convolutions -----------------------------------------------------------------------------------------------------------


@primitive
def convolve_full(a, v):
    """Return the full discrete convolution of two vectors."""
    return np.convolve(a, v)


def correlation(g, v, n):
    """Return the sums of ``g[i + k] * v[k]``, for i < n."""
    m = np.shape(v)[0]
    return convolve_full(g, np.flip(v))[m - 1 : m - 1 + n]


def cut_mode(full, n, m, mode, late=False):
    """Return the part of a full convolution of n and m elements that `mode` names; `late` counts the middle from the end."""
    longer, shorter = max(n, m), min(n, m)
    mode = {0: "valid", 1: "same", 2: "full"}.get(mode, mode)
    if mode == "full":
        return full
    if mode == "valid":
        return full[shorter - 1 : longer]
    start = shorter // 2 if late else (shorter - 1) // 2
    return full[start : start + longer]


def vectors(a, v):
    a, v = np.atleast_1d(a), np.atleast_1d(v)
    if np.ndim(a) != 1 or np.ndim(v) != 1 or not np.shape(a)[0] or not np.shape(v)[0]:
        raise ValueError(f"convolve, correlate: shapes {np.shape(a)} and {np.shape(v)}: give two vectors that are not empty")
    return a, v


def convolve(a, v, mode="full"):
    a, v = vectors(a, v)
    return cut_mode(convolve_full(a, v), np.shape(a)[0], np.shape(v)[0], mode)


def correlate(a, v, mode="valid"):
    a, v = vectors(a, v)
    conjugate = np.conjugate(v) if np.iscomplexobj(v) else v
    full = convolve_full(a, np.flip(conjugate))
    return cut_mode(full, np.shape(a)[0], np.shape(v)[0], mode, late=np.shape(a)[0] < np.shape(v)[0])


# --- differences and integrals ----------------------------------------------------------------------------------------------


def trapezoid(y, x=None, dx=1.0, axis=-1):
    return np.sum(trapezoids(y, x, dx, axis), axis=axis)


def trapezoids(y, x, dx, axis):
    """Return the areas between neighbouring samples along an axis."""
    y = y if hasattr(y, "ndim") else np.asarray(y)
    axis = normalize_axis_index(axis, np.ndim(y))
    if x is not None:
        dx = np.diff(x, axis=axis if np.ndim(x) > 1 else -1)
        dx = np.reshape(dx, [-1 if i == axis else 1 for i in range(np.ndim(y))]) if np.ndim(x) == 1 else dx
    before = (slice(None),) * axis
    return dx * (y[(*before, slice(1, None))] + y[(*before, slice(None, -1))]) / 2.0


def ediff1d(ary, to_end=None, to_begin=None):
    middle = np.diff(np.ravel(ary))
    ends = [None if edge is None else cast(np.ravel(edge), middle.dtype) for edge in (to_begin, to_end)]
    return np.concatenate([part for part in (ends[0], middle, ends[1]) if part is not None])


def gradient(f, *varargs, axis=None, edge_order=1):
    """Differentiate by second-order differences, also on uneven grids (Quarteroni, Sacco & Saleri 2007, ch. 10.10)."""
    ndim = np.ndim(f)
    f = f if hasattr(f, "dtype") and f.dtype.kind in "fc" else np.asarray(f, float)
    axes = range(ndim) if axis is None else normalize_axis_tuple(axis, ndim)
    spacings = varargs or (1.0,)
    spacings = spacings * len(axes) if len(spacings) == 1 else spacings
    if len(spacings) != len(axes):
        raise TypeError("invalid number of arguments")
    if edge_order not in (1, 2):
        raise ValueError("'edge_order' greater than 2 not supported")
    parts = [along_axis(f, axis, h, edge_order) for axis, h in zip(axes, spacings, strict=True)]
    return parts[0] if len(parts) == 1 else tuple(parts)


def along_axis(f, axis, h, edge_order):
    """Return the derivative along one axis, from a spacing or from coordinates."""
    n = np.shape(f)[axis]
    if n < edge_order + 1:
        raise ValueError(f"numpy.gradient: {n} elements along axis {axis}: edge_order={edge_order} needs at least {edge_order + 1}")
    f = np.moveaxis(f, axis, -1)
    even = np.ndim(h) == 0
    h = h if np.result_type(h).kind in "fc" else np.multiply(h, 1.0)
    h = h if even else np.diff(h)
    slope = (f[..., 1:] - f[..., :-1]) / h
    left, right, first, second, last, before = (h,) * 6 if even else (h[:-1], h[1:], h[:1], h[1:2], h[-1:], h[-2:-1])
    inner = (left * slope[..., 1:] + right * slope[..., :-1]) / (left + right)
    start, end = slope[..., :1], slope[..., -1:]
    if edge_order == 2:  # the parabola through the three points at the edge
        start = start - first * (slope[..., 1:2] - start) / (first + second)
        end = end + last * (end - slope[..., -2:-1]) / (last + before)
    ans = np.moveaxis(np.concatenate([start, inner, end], axis=-1), -1, axis)
    return ans if ans.dtype == f.dtype else cast(ans, f.dtype)


def unwrap(p, discont=None, axis=-1, *, period=2.0 * math.pi):
    """Add the multiples of the period that NumPy adds: constants, but for jumps."""
    return p.astype(np.result_type(p, period), copy=False) + evaluate(turns_added, p, discont, axis, period)


def turns_added(p, discont, axis, period):
    ans = np.unwrap(p, discont, axis, period=period)
    return np.round((ans - p.astype(ans.dtype)) / period).astype(ans.dtype) * np.asarray(period, ans.dtype)


# --- functions of one variable ----------------------------------------------------------------------------------------------

SINC_TERMS = [(-1.0) ** k * math.pi ** (2 * k) / math.factorial(2 * k + 1) for k in range(1, 20)]


def sinc_partial(ans, x):
    """Return the derivative of sin(pi x) / (pi x): the power series for abs(x) < 1, accurate in all its derivatives at 0."""
    near = np.less(np.abs(x), 1.0)
    small, large = np.where(near, x, 0.0), np.where(near, 1.0, x)
    square, series = small * small, 0.0
    for k, c in reversed(list(enumerate(SINC_TERMS, 1))):
        series = series * square + 2.0 * k * c
    return np.where(near, series * small, (np.cos(math.pi * large) - np.where(near, 1.0, ans)) / large)


COSINES = np.cos(np.pi * (np.arange(64) + 0.5) / 128.0).tolist()


@primitive
def bessel_i0(x):
    """Return the Bessel function I0, of a number as a number."""
    return np.i0(x)[()]


def i0_partial(ans, x):
    """Return the Bessel function I1: the integral DLMF 10.32.3 by the trapezoidal rule of error I_255(x)."""  # Trefethen & Weideman 2014
    total = 0.0
    for c in COSINES:
        total = total + c * np.sinh(c * x)
    return total / 64.0


def nan_to_num(x, copy=True, nan=0.0, posinf=None, neginf=None):
    if np.iscomplexobj(x):
        return finite(np.real(x), nan, posinf, neginf) + 1j * finite(np.imag(x), nan, posinf, neginf)
    ans = finite(x, nan, posinf, neginf) if x.dtype.kind == "f" else np.copy(x)
    if not copy:
        x[...] = ans
    return ans if copy else x


def finite(x, nan, posinf, neginf):
    """Return `x` with numbers for NaN and infinities; the derivative there is 0, or that of the numbers."""
    limits = np.finfo(x.dtype if x.dtype.kind == "f" else float)
    x = np.where(np.isnan(x), nan, x)
    x = np.where(np.isposinf(x), limits.max if posinf is None else posinf, x)
    return np.where(np.isneginf(x), limits.min if neginf is None else neginf, x)[()]


# --- the table --------------------------------------------------------------------------------------------------------------

# fmt: off
bilinear(convolve_full,  lambda g, a, v: correlation(g, v, np.shape(a)[0]), lambda g, a, v: correlation(g, a, np.shape(v)[0]),
         pattern="convolved", lower="convolve")
elementwise(np.sinc,     sinc_partial, called="NumPy evaluates it by a series of its own")  # sinc''(0) = -pi^2/3
elementwise(bessel_i0,   i0_partial, called="NumPy evaluates it by a series of its own")
composite(np.i0,         lambda x: bessel_i0(x))
composite(np.convolve,   convolve, with_numpy_value=True)
composite(np.correlate,  correlate, with_numpy_value=True)
composite(np.trapezoid,  trapezoid, with_numpy_value=True)
composite(np.gradient,   gradient, with_numpy_value=True)
composite(np.nan_to_num, nan_to_num, with_numpy_value=lambda x, copy=True, *rest, **options: bool(copy))
composite(np.ediff1d,    ediff1d, with_numpy_value=True)
composite(np.unwrap,     unwrap, with_numpy_value=True)
composite(np.angle,      by_numpy(np.angle))
composite(np.real_if_close, by_numpy(np.real_if_close), value_dependent=True)
composite(np.trapz,      trapezoid, with_numpy_value=True)
# fmt: on
