"""``scipy.integrate``: the rules that integrate samples."""

import numpy as np
from scipy import integrate as si

from ..calculus import trapezoid, trapezoids
from ..kinds import any_traced, ndim_of, shape_of
from .entering import by_name, enter_bodies


def prepend_initial(sums, axis, initial):
    """Return running sums with an initial value before them."""
    first = np.zeros([1 if k == axis % ndim_of(sums) else n for k, n in enumerate(shape_of(sums))]) + initial
    return np.concatenate([first, sums], axis=axis)


def cumulative_trapezoid(y, x=None, dx=1.0, axis=-1, initial=None):
    sums = np.cumsum(trapezoids(y, x, dx, axis), axis=axis)
    return sums if initial is None else prepend_initial(sums, axis, 0.0)


def weighted_integral(fn, y, axis, **options):
    """Return the integral by a rule that is linear in the samples; its weights are its values for unit samples, at plain positions."""
    weights = np.asarray(fn(np.eye(shape_of(y)[axis]), axis=-1, **options))
    result = np.tensordot(np.moveaxis(y, axis, -1), weights, axes=(-1, 0))
    return result if weights.ndim == 1 else np.moveaxis(result, -1, axis)


def under_parabola(h, following, first, second, third):
    """Return the area from the first to the second of three points, whose distances are `h` and `following`."""
    share = h / (h + following)
    bend = share * h / following
    return h / 6.0 * ((3.0 - share) * first + (3.0 + share + bend) * second - bend * third)


def parabolas(y, x, axis):
    """Return the areas between neighbouring samples: under the parabolas through samples 0, 1, 2, through 2, 3, 4, and so on."""
    n = shape_of(y)[axis]
    if n < 3:
        return trapezoids(y, x, 1.0, axis)
    y, x = np.moveaxis(y, axis, -1), np.moveaxis(x, axis, -1) if ndim_of(x) > 1 else x
    points = y[..., :-2], y[..., 1:-1], y[..., 2:]
    h = np.diff(x)
    left = under_parabola(h[..., :-1], h[..., 1:], *points)
    right = under_parabola(h[..., 1:], h[..., :-1], *points[::-1])
    chosen = [k if k % 2 == 0 and k < n - 2 else n - 3 + k for k in range(n - 1)]
    return np.moveaxis(np.concatenate([left, right], axis=-1)[..., chosen], -1, axis)


def simpson(y, x=None, *, dx=1.0, axis=-1):
    if any_traced(x) or np.ndim(x) > 1:
        return np.sum(parabolas(y, x, axis), axis=axis)
    return weighted_integral(si.simpson, y, axis) * dx if x is None else weighted_integral(si.simpson, y, axis, x=x)


def cumulative_simpson(y, *, x=None, dx=1.0, axis=-1, initial=None):
    sums = weighted_integral(si.cumulative_simpson, y, axis) * dx if x is None else np.cumsum(parabolas(y, x, axis), axis=axis)
    return sums if initial is None else prepend_initial(sums + initial, axis, initial)


BODIES = by_name(trapezoid, cumulative_trapezoid, simpson, cumulative_simpson)
BODIES["romb"] = lambda y, dx=1.0, axis=-1: weighted_integral(si.romb, y, axis) * dx
FUNCTIONS = enter_bodies(si, BODIES)
