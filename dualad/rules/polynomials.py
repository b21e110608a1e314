"""Polynomials, as in NumPy: coefficients from the highest power down."""

from .calculus import convolve_full
from .indexing import cast
from .kinds import composite
from .names import np
from .shapes import as_array, by_numpy


def coefficients(p):
    """Return coefficients as a vector of floats, plain or traced."""
    p = np.atleast_1d(as_array(p))
    return p if p.dtype.kind in "fc" else p.astype(float)


def poly(seq_of_zeros):
    if np.ndim(seq_of_zeros) == 2:
        seq_of_zeros = np.linalg.eigvals(seq_of_zeros)
    zeros = coefficients(seq_of_zeros)
    one = np.ones(1, zeros.dtype)
    ans = one
    for i in range(np.shape(zeros)[0]):
        ans = convolve_full(ans, np.concatenate([one, -zeros[i : i + 1]]))
    return np.real(ans) if np.iscomplexobj(ans) and conjugate_pairs(zeros) else ans


def conjugate_pairs(zeros):
    """Return whether complex numbers come in conjugate pairs, so that their polynomial is real."""
    return bool(np.all(np.equal(np.sort(zeros), np.sort(np.conjugate(zeros)))))


def trimmed(p):
    """Return coefficients without zeros in front; one zero if there is nothing else."""
    p = coefficients(p)
    filled = np.flatnonzero(p)
    return p[int(filled[0]) :] if len(filled) else np.zeros(1, p.dtype)


def polyint(p, m=1, k=None):
    if m < 0:
        raise ValueError("Order of integral must be positive (see polyder)")
    p = coefficients(p)
    k = np.zeros(m) if k is None else np.atleast_1d(as_array(k))
    k = k * np.ones(m) if np.shape(k)[0] == 1 else k
    for i in range(m):
        p = np.concatenate([p / np.arange(np.shape(p)[0], 0, -1), np.reshape(k[i], 1)])
    return p


def polydiv(u, v):
    """Divide as by hand, from the highest power down."""
    u, v = coefficients(u), coefficients(v)
    m, n = np.shape(u)[0] - 1, np.shape(v)[0] - 1
    if m < n:
        return np.zeros(1, u.dtype), without_zeros(u + 0.0 * v[0])
    quotient, rest, scale = [], u, 1.0 / v[:1]
    for k in range(m - n + 1):
        quotient.append(scale * rest[k : k + 1])
        rest = rest - np.concatenate([np.zeros(k, u.dtype), quotient[-1] * v, np.zeros(m - n - k, u.dtype)])
    return np.concatenate(quotient), without_zeros(rest)


def without_zeros(rest):
    """Return a remainder without the coefficients in front that vanish within NumPy's tolerance."""
    start = 0
    while start < np.shape(rest)[0] - 1 and np.allclose(rest[start], 0, rtol=1e-14):
        start += 1
    return rest[start:]


def polyfit(x, y, deg, rcond=None, full=False, w=None, cov=False):
    """Fit by least squares in scaled columns, as NumPy does (constant-rank derivative)."""
    x, y = as_array(x) * 1.0, as_array(y) * 1.0
    rcond = np.shape(x)[0] * np.finfo(x.dtype).eps if rcond is None else rcond
    columns = vander(x, deg + 1)
    if w is not None:
        columns, y = columns * np.reshape(w, (-1, 1)), y * (np.reshape(w, (-1, 1)) if np.ndim(y) == 2 else w)
    scale = np.sqrt(np.sum(columns * columns, axis=0))
    c, residuals, rank, s = np.linalg.lstsq(columns / scale, y, rcond)
    c = np.transpose(np.transpose(c) / scale)
    if full:
        return c, residuals, rank, s, rcond
    return (c, covariance(columns, scale, residuals, cov, np.shape(x)[0] - deg - 1, np.ndim(y))) if cov else c


def covariance(columns, scale, residuals, cov, free, ndim):
    """Return the covariance of fitted coefficients."""
    scaled = columns / scale
    base = np.linalg.inv(np.matmul(np.transpose(scaled), scaled)) / (scale[:, None] * scale[None, :])
    factor = 1.0 if cov == "unscaled" else residuals / free
    return base * factor if ndim == 1 else base[:, :, None] * factor


def roots(p):
    p = coefficients(p)
    filled = np.flatnonzero(p)
    if not len(filled):
        return np.zeros(0)
    low = np.shape(p)[0] - int(filled[-1]) - 1
    p = p[int(filled[0]) : int(filled[-1]) + 1]
    n = np.shape(p)[0]
    if n < 2:
        return np.zeros(low)
    companion = np.concatenate([np.reshape(-p[1:] / p[:1], (1, -1)), np.eye(n - 2, n - 1, dtype=p.dtype)], axis=0)
    ans = np.linalg.eigvals(companion)
    if p.dtype.kind == "f" and np.iscomplexobj(ans) and not np.any(np.imag(ans)):
        ans = np.real(ans)  # where eigvals is always complex (NumPy 2.5), roots is still real if it can be
    return np.concatenate([ans, np.zeros(low, ans.dtype)]) if low else ans


def vander(x, N=None, increasing=False):
    x = as_array(x)
    if np.ndim(x) != 1:
        raise ValueError("x must be a one-dimensional array or sequence.")
    n = np.shape(x)[0] if N is None else N
    kind = np.promote_types(x.dtype, int)
    x = x if x.dtype == kind else cast(x, kind)
    columns = [np.ones_like(x)][:n]
    for _ in range(n - 1):
        columns.append(columns[-1] * x)
    if not columns:
        return np.zeros((np.shape(x)[0], 0), x.dtype)
    return np.stack(columns if increasing else columns[::-1], axis=1)


def polyvalnd(pts, c):
    """Evaluate the sum of ``c[i, j, ...] * x**i * y**j * ...`` (``numpy.polynomial``: from the lowest power up)."""
    x, *others = pts = [as_array(x) for x in pts]
    if any(np.shape(y) != np.shape(x) for y in others):
        raise ValueError(
            f"numpy.polynomial: the coordinates of the points have the shapes {', '.join(str(np.shape(x)) for x in pts)}: give one"
        )
    c = with_axes(c, x)
    for x in pts:
        c = horner(c, x)
    return c


def polyval2d(x, y, c):
    return polyvalnd((x, y), c)


def polygrid2d(x, y, c):
    """Evaluate the sum of ``c[i, j] * x**i * y**j`` at all pairs of x and y."""
    for points in (as_array(x), as_array(y)):
        c = horner(with_axes(c, points), points)
    return c


def with_axes(c, x):
    """Return coefficients with an axis of length 1 at the end for each axis of `x`."""
    c = np.atleast_1d(as_array(c))
    return np.reshape(c, (*np.shape(c), *(1,) * np.ndim(x)))


def horner(c, x):
    """Evaluate polynomials whose coefficients stand on the first axis of `c`, from the lowest power up."""
    c = np.atleast_1d(c)
    c = c + 0.0 if c.dtype.kind in "biu" else c
    ans = c[-1] + x * 0
    for i in range(np.shape(c)[0] - 2, -1, -1):
        ans = c[i] + ans * x
    return ans


# --- the table --------------------------------------------------------------------------------------------------------------

# fmt: off
composite(np.poly,    poly, value_dependent=True, with_numpy_value=True)
composite(np.polymul, lambda a1, a2: convolve_full(trimmed(a1), trimmed(a2)), value_dependent=True, with_numpy_value=True)
for fn in (np.polyadd, np.polysub, np.polyval, np.polyder):
    composite(fn, by_numpy(fn))
composite(np.polyint, polyint, with_numpy_value=True)
composite(np.polydiv, polydiv, value_dependent=True, with_numpy_value=True)
composite(np.polyfit, polyfit, value_dependent=lambda x, y, deg, rcond=None, full=False, w=None, cov=False: (x, w), with_numpy_value=True)
composite(np.roots,   roots, value_dependent=True, with_numpy_value=True)
composite(np.vander,  vander, with_numpy_value=True)
# fmt: on
