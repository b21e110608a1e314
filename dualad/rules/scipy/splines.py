"""Piecewise polynomials of ``scipy.interpolate``: bodies that evaluate them, and the coefficients of those through given values.

For given knots the coefficients are linear in the values, but for the shape-preserving ones; linear systems of them are solved, and
their transposes, by one sparse factorization.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import interpolate as si
from scipy.sparse import coo_array, csc_array, vstack
from scipy.sparse.linalg import splu

from ..batching import of_columns
from ..constants import stopped
from ..indexing import getitem
from ..kinds import linear, ndim_of, shape_of
from .entering import dispatching_as

# --- evaluation ---------------------------------------------------------------------------------------------------------------------


def segment(knots, x, low, high):
    """Return the positions of the knots before given places, between two bounds."""
    return np.clip(np.searchsorted(knots, stopped(x), side="right") - 1, low, high)


def clip_places(x, first, last, extrapolate):
    """Return places inside of an interval, and whether they were there (None where it does not matter)."""
    if extrapolate == "periodic":
        return x - (last - first) * np.floor(stopped(x - first) / (last - first)), None
    plain = stopped(x)
    return x, None if extrapolate else (plain >= first) & (plain <= last)


def arrange_axes(values, known, x, axis):
    """Return values with the axes of the places at `axis`; NaN where there are none."""
    if known is not None:
        values = np.where(np.reshape(known, shape_of(known) + (1,) * (ndim_of(values) - ndim_of(known))), values, np.nan)
    axes, count = list(range(ndim_of(values))), ndim_of(x)
    return np.transpose(values, axes[count : count + axis] + axes[:count] + axes[count + axis :]) if axis else values


def piecewise(t, c, k, x, nu=0, extrapolate=True, axis=0):
    """Evaluate polynomials in powers of the distance from the knot before (Horner)."""
    order = shape_of(c)[0] - 1
    places, known = clip_places(x, t[0], t[-1], extrapolate)
    j = segment(t, places, 0, shape_of(t)[0] - 2)
    distance = places - getitem(t, j)
    distance = np.reshape(distance, shape_of(distance) + (1,) * (ndim_of(c) - 2))
    total = 0.0 * distance * c[0, 0]
    for i in range(order - nu + 1):
        factor = float(np.prod(np.arange(order - i, order - i - nu, -1)))
        total = total * distance + factor * getitem(c[i], j)
    return arrange_axes(total, known, x, axis)


def b_spline(t, c, k, x, nu=0, extrapolate=True, axis=0):
    """Evaluate a spline (de Boor); its derivative is one of the differences of its coefficients."""
    size = shape_of(t)[0] - k - 1
    first, last, c = t[k], t[size], c[:size]
    places, known = clip_places(x, first, last, extrapolate)
    t, c, k = differentiate_spline(t, c, k, min(nu, k + 1))
    size = shape_of(t)[0] - k - 1
    if k < 0:
        return arrange_axes(np.reshape(0.0 * places, shape_of(x) + (1,) * (ndim_of(c) - 1)) + 0.0 * c[0], known, x, axis)
    j = segment(t, places, k, size - 1)
    spread = lambda v: np.reshape(v, shape_of(v) + (1,) * (ndim_of(c) - 1))
    parts = [getitem(c, j - k + r) for r in range(k + 1)]
    for level in range(1, k + 1):
        for r in range(k, level - 1, -1):
            left, right = getitem(t, j - k + r), getitem(t, j + 1 + r - level)
            share = spread((places - left) / (right - left))
            parts[r] = (1.0 - share) * parts[r - 1] + share * parts[r]
    return arrange_axes(parts[k] + spread(0.0 * places), known, x, axis)


def differentiate_spline(t, c, k, nu):
    """Return knots, coefficients and degree of a derivative of a spline."""
    for _ in range(nu):
        size = shape_of(t)[0] - k - 1
        gaps = t[k + 1 : k + size] - t[1:size]
        gaps = np.where(gaps > 0.0, gaps, np.inf)
        t, c, k = t[1:-1], k * np.diff(c[:size], axis=0) / column(gaps, c), k - 1
    return t, c, k


def integrate_spline(t, c, k, nu):
    """Return knots, coefficients and degree of an integral of a spline, `nu` times from its first knot on."""
    for _ in range(nu):
        size = shape_of(t)[0] - k - 1
        sums = np.cumsum(c[:size] * column(t[k + 1 :] - t[:size], c), axis=0) / (k + 1)
        t, c, k = np.concatenate([t[:1], t, t[-1:]]), np.concatenate([0.0 * sums[:1], sums]), k + 1
    return t, c, k


def column(values, like):
    """Return an array of one axis as one that broadcasts along the first axis of another."""
    return np.reshape(values, (-1,) + (1,) * (ndim_of(like) - 1))


def differentiate_polynomials(t, c, k, nu):
    """Return knots, coefficients and degree of a derivative of polynomials."""
    order = shape_of(c)[0] - 1
    if nu > order:
        return t, 0.0 * c[:1], k
    factors = np.array([float(np.prod(np.arange(p, p - nu, -1))) for p in range(order, nu - 1, -1)])
    return t, c[: order + 1 - nu] * column(factors, c), k


def antiderivative(t, c, k, nu):
    """Return knots, coefficients and degree of an integral of polynomials, `nu` times from the first knot on, which is continuous."""
    for _ in range(nu):
        order = shape_of(c)[0]
        c = c / column(np.arange(order, 0, -1.0), c)
        widths, rise = column(np.diff(t), c[0]), 0.0 * c[0]
        for i in range(order):
            rise = (rise + c[i]) * widths
        before = np.concatenate([0.0 * rise[:1], np.cumsum(rise, axis=0)[:-1]])
        c = np.concatenate([c, before[None]])
    return t, c, k


# --- linear systems -----------------------------------------------------------------------------------------------------------------


def solve(b, matrix, transposed=False):
    """Return the solution of a sparse system, or of its transpose, for each column of `b`; the matrix keeps its factors."""
    if b.dtype.kind == "c":
        return solve(b.real, matrix, transposed) + 1j * solve(b.imag, matrix, transposed)
    if not hasattr(matrix, "factors"):
        matrix.factors = splu(matrix)
    flat = np.asarray(b, float).reshape(len(b), -1)
    return matrix.factors.solve(flat, "T" if transposed else "N").reshape(b.shape)


solved: Any = dispatching_as(solve, "scipy.interpolate.make_interp_spline")
linear(solved, lambda g, b, matrix, transposed=False: solved(g, matrix, not transposed), batch=of_columns(0))


# --- cubic polynomials --------------------------------------------------------------------------------------------------------------


def hermite(x, y, slopes):
    """Return the coefficients of the cubic polynomials between values with slopes."""
    widths = column(np.diff(x), y)
    chords = np.diff(y, axis=0) / widths
    t = (slopes[:-1] + slopes[1:] - 2.0 * chords) / widths
    return np.stack([t / widths, (chords - slopes[:-1]) / widths - t, slopes[:-1], y[:-1]])


#: boundary conditions by name, as the order and the value of a derivative
CONDITIONS = {"clamped": (1, 0.0), "natural": (2, 0.0)}


def end_conditions(bc_type):
    """Return the conditions at the two ends."""
    ends = (bc_type, bc_type) if isinstance(bc_type, str) else bc_type
    return [CONDITIONS.get(end, end) if isinstance(end, str) else end for end in ends]


def cubic_slopes(x, y, bc_type):
    """Return the slopes of the cubic spline: that it bends smoothly at each knot is an equation of three of them (de Boor, ch. IV)."""
    n, dx = shape_of(x)[0], np.diff(x)
    chords = np.diff(y, axis=0) / column(dx, y)
    start, end = end_conditions(bc_type)
    if n == 2:
        start, end = ((1, chords[0]) if condition in ("not-a-knot", "periodic") else condition for condition in (start, end))
    inner = 3.0 * (column(dx[1:], y) * chords[:-1] + column(dx[:-1], y) * chords[1:])
    middle = np.arange(1, n - 1)
    rows: list[Any]
    columns: list[Any]
    rows, columns = [middle] * 3, [middle - 1, middle, middle + 1]
    entries: list[Any] = [dx[1:], 2.0 * (dx[:-1] + dx[1:]), dx[:-1]]
    if start == "periodic":
        rows, columns = [*rows, [0] * 3, [n - 1] * 2], [*columns, [n - 2, 0, 1], [0, n - 1]]
        entries = [*entries, [dx[0], 2.0 * (dx[0] + dx[-1]), dx[-1]], [1.0, -1.0]]
        ends = [3.0 * (dx[0] * chords[-1] + dx[-1] * chords[0]), 0.0 * y[0]]
    else:
        parabola = n == 3 and start == end == "not-a-knot"
        ends = []
        for condition, at, h, step, sign in ((start, 0, dx, 1, 1.0), (end, n - 1, dx[::-1], -1, -1.0)):
            first, second = (chords[0], chords[1 % (n - 1)]) if step > 0 else (chords[-1], chords[-2 % (n - 1)])
            if parabola:
                pair, value = [1.0, 1.0], 2.0 * first
            elif isinstance(condition, str):  # not-a-knot
                d = h[0] + h[1]
                pair, value = [h[1], d], ((h[0] + 2.0 * d) * h[1] * first + h[0] ** 2 * second) / d
            elif condition[0] == 1:
                pair, value = [1.0, 0.0], condition[1] + 0.0 * y[0]
            else:
                pair, value = [2.0 * h[0], h[0]], 3.0 * h[0] * first - sign * 0.5 * h[0] ** 2 * condition[1]
            rows, columns, entries = [*rows, [at] * 2], [*columns, [at, at + step]], [*entries, pair]
            ends.append(value)
    matrix = coo_array((np.concatenate(entries), (np.concatenate(rows), np.concatenate(columns))), shape=(n, n))
    return solved(np.concatenate([ends[0][None], inner, ends[1][None]]), csc_array(matrix))


def pchip_slopes(x, y):
    """Return weighted harmonic means of the chords on both sides, 0 where these have not one sign (Fritsch & Butland 1984)."""
    h = column(np.diff(x), y)
    m = np.diff(y, axis=0) / h
    if shape_of(y)[0] == 2:
        return np.concatenate([m, m])
    one_sign = stopped(m[1:]) * stopped(m[:-1]) > 0.0
    w1, w2 = 2.0 * h[1:] + h[:-1], h[1:] + 2.0 * h[:-1]
    before, after = (np.where(one_sign, part, 1.0) for part in (m[:-1], m[1:]))
    inner = np.where(one_sign, (w1 + w2) / (w1 / before + w2 / after), 0.0)

    def edge(h0, h1, m0, m1):
        d = ((2.0 * h0 + h1) * m0 - h0 * m1) / (h0 + h1)
        steep = (np.sign(m0) != np.sign(m1)) & (np.abs(d) > 3.0 * np.abs(m0))
        return np.where(np.sign(d) != np.sign(m0), 0.0, np.where(steep, 3.0 * m0, d))

    return np.concatenate([edge(h[:1], h[1:2], m[:1], m[1:2]), inner, edge(h[-1:], h[-2:-1], m[-1:], m[-2:-1])])


def akima_slopes(x, y, method):
    """Return means of the chords on both sides, weighted by how much the next ones differ (Akima 1970)."""
    m = np.diff(y, axis=0) / column(np.diff(x), y)
    if shape_of(y)[0] == 2:
        return np.concatenate([m, m])
    before, after = 2.0 * m[:1] - m[1:2], 2.0 * m[-1:] - m[-2:-1]
    m = np.concatenate([2.0 * before - m[:1], before, m, after, 2.0 * after - m[-1:]])
    bends = np.abs(np.diff(m, axis=0))
    if method == "makima":
        bends = bends + 0.5 * np.abs(m[1:] + m[:-1])
    f1, f2 = bends[2:], bends[:-2]
    total = f1 + f2
    bent = stopped(total) > 1e-9 * np.max(stopped(total))
    mean = m[1:-2] + f2 / np.where(bent, total, 1.0) * (m[2:-1] - m[1:-2])
    return np.where(bent, mean, 0.5 * (m[3:] + m[:-3]))


# --- splines ------------------------------------------------------------------------------------------------------------------------


def spline_ends(bc_type):
    """Return the (order, value) pairs of the derivatives given at the two ends."""
    ends = (bc_type, bc_type) if bc_type is None or isinstance(bc_type, str) else bc_type
    return [
        [CONDITIONS[end]] if isinstance(end, str) and end in CONDITIONS else [] if end is None or isinstance(end, str) else list(end)
        for end in ends
    ]


def end_row(t, k, at, order, last):
    """Return the derivative at an end with respect to each coefficient, of which k + 1 count there."""
    size = len(t) - k - 1
    near = t[-2 * k - 2 :] if last else t[: 2 * k + 2]
    row = np.zeros((1, size))
    row[0, slice(size - k - 1, None) if last else slice(k + 1)] = si.BSpline(near, np.eye(k + 1), k)(at, nu=order)
    return csc_array(row)


def b_spline_coefficients(x, y, t, k, bc_type):
    """Return the coefficients of the spline through values, along the first axis."""
    if k == 0 or (k == 1 and len(t) == len(x) + 2 and bc_type is None):
        return y
    if isinstance(bc_type, str) and bc_type == "periodic":
        n = len(x) - 1
        turns = coo_array((np.ones(n + k), (np.arange(n + k), np.arange(n + k) % n)))
        c = solved(y[:-1], csc_array(si.BSpline.design_matrix(x[:-1], t, k) @ turns))
        return c[np.arange(n + k) % n]
    left, right = spline_ends(bc_type)
    rows = [end_row(t, k, x[0], order, False) for order, _ in left]
    rows += [si.BSpline.design_matrix(x, t, k)]
    rows += [end_row(t, k, x[-1], order, True) for order, _ in right]
    given = [[(value + 0.0 * y[0])[None] for _, value in end] for end in (left, right)]
    return solved(np.concatenate([*given[0], y, *given[1]]), csc_array(vstack(rows)))
