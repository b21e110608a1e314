"""``scipy.ndimage``: filters, as valid correlations of padded arrays, and splines through an image.

All modes are one mechanism: positions outside of an array stand for positions inside of it, or for a constant.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

import numpy as np
from scipy import ndimage as sn

from ..constants import stopped
from ..indexing import getitem
from ..kinds import any_traced, is_complex, linear, ndim_of, shape_of
from ..memory import copied
from .convolutions import cut_part, filter_full, whole
from .entering import by_name, dispatching_as, enter_bodies

#: what NumPy's pad calls a mode
PADS: dict[str, Any] = {
    "reflect": "symmetric", "grid-mirror": "symmetric", "mirror": "reflect", "nearest": "edge", "wrap": "wrap", "grid-wrap": "wrap",
}  # fmt: skip


def per_axis(value, count):
    """Return a value for each axis."""
    return list(value) if type(value) is not str and np.iterable(value) else [value] * count


def axis_list(axes, ndim):
    return list(range(ndim)) if axes is None else [axis % ndim for axis in np.atleast_1d(axes).tolist()]


def pad_ends(x, widths, mode, cval):
    """Return an array with elements before and behind along each axis."""
    if mode in ("constant", "grid-constant"):
        return np.pad(x, widths, constant_values=cval)
    return np.pad(x, widths, mode=PADS[mode])


# --- correlations -------------------------------------------------------------------------------------------------------------------


def correlate1d(input, weights, axis=-1, mode="reflect", cval=0.0, origin=0):
    x, weights = np.moveaxis(input, axis, -1), np.conj(np.reshape(weights, (-1,)))
    size = shape_of(weights)[0]
    before = size // 2 + origin
    padded = pad_ends(x, [(0, 0)] * (ndim_of(x) - 1) + [(before, size - 1 - before)], mode, cval)
    return np.moveaxis(cut_part(filter_full(np.flip(weights), padded), [(-1, size - 1, shape_of(x)[-1])]), -1, axis)


def reversed_origin(origin, size):
    """Return the origin of a correlation with the weights in the reverse order."""
    return -origin - (size % 2 == 0)


def convolve1d(input, weights, axis=-1, mode="reflect", cval=0.0, origin=0):
    return correlate1d(input, np.conj(np.flip(weights)), axis, mode, cval, reversed_origin(origin, np.size(weights)))


def correlate(input, weights, mode="reflect", cval=0.0, origin=0, *, axes=None):
    ndim = ndim_of(input)
    axes = axis_list(axes, ndim)
    weights = np.expand_dims(np.conj(weights), tuple(axis for axis in range(ndim) if axis not in axes))
    origins = dict(zip(axes, per_axis(origin, len(axes)), strict=True))
    before = [m // 2 + origins.get(axis, 0) for axis, m in enumerate(shape_of(weights))]
    widths = [(b, m - 1 - b) for b, m in zip(before, shape_of(weights), strict=True)]
    result = whole(pad_ends(input, widths, mode, cval), np.flip(weights), axes=tuple(range(-ndim, 0)))
    return cut_part(result, [(axis, shape_of(weights)[axis] - 1, shape_of(input)[axis]) for axis in range(ndim)])


def convolve(input, weights, mode="reflect", cval=0.0, origin=0, *, axes=None):
    origins = [reversed_origin(o, m) for o, m in zip(per_axis(origin, ndim_of(weights)), shape_of(weights), strict=True)]
    return correlate(input, np.conj(np.flip(weights)), mode, cval, origins, axes=axes)


def gaussian_filter1d(input, sigma, axis=-1, order=0, mode="reflect", cval=0.0, truncate=4.0, *, radius=None):
    """The weights are the filter's answer to an impulse."""
    if any_traced(sigma):
        raise TypeError("scipy.ndimage: a Gaussian filter has no derivative with respect to 'sigma': pass a plain number (dualad.primal)")
    reach = int(truncate * float(sigma) + 0.5) if radius is None else radius
    impulse = np.zeros(2 * reach + 1)
    impulse[reach] = 1.0
    weights = sn.gaussian_filter1d(impulse, sigma, order=order, mode="constant", truncate=truncate, radius=radius)
    return correlate1d(input, np.flip(weights), axis, mode, cval)


def uniform_filter1d(input, size, axis=-1, mode="reflect", cval=0.0, origin=0):
    return correlate1d(input, np.full(size, 1.0 / size), axis, mode, cval, origin)


def along_axes(one, *each, nothing=lambda value: False):
    """Return the filter that filters along one axis after the other; `each` names arguments that have a value for each axis.

    Where `nothing` says so of the first of these, an axis is left out.
    """

    def several(input, *args, axes=None, mode="reflect", cval=0.0, **kwargs):
        axes = axis_list(axes, ndim_of(input))
        given = dict(zip(each, args, strict=False)) | kwargs
        split = {name: per_axis(value, len(axes)) for name, value in given.items() if name in each}
        rest = {name: value for name, value in given.items() if name not in each}
        for k, (axis, side) in enumerate(zip(axes, per_axis(mode, len(axes)), strict=True)):
            own = {name: values[k] for name, values in split.items()}
            if not nothing(own[each[0]]):
                input = one(input, axis=axis, mode=side, cval=cval, **own, **rest)
        return input

    return several


gaussian = along_axes(gaussian_filter1d, "sigma", "order", "radius", nothing=lambda sigma: sigma <= 1e-15)


def gaussian_filter(input, sigma, order=0, mode="reflect", cval=0.0, truncate=4.0, *, radius=None, axes=None):
    return gaussian(input, sigma, order, radius, mode=mode, cval=cval, truncate=truncate, axes=axes)


def uniform_filter(input, size=3, mode="reflect", cval=0.0, origin=0, *, axes=None):
    return along_axes(uniform_filter1d, "size", "origin", nothing=lambda size: size <= 1)(
        input, size, origin, mode=mode, cval=cval, axes=axes
    )


def gradient_filter(across):
    """Return the body of a filter that takes central differences along an axis, and weights along the others."""

    def body(input, axis=-1, mode="reflect", cval=0.0):
        modes = per_axis(mode, ndim_of(input))
        axis %= ndim_of(input)
        result = correlate1d(input, np.array([-1.0, 0.0, 1.0]), axis, modes[axis], cval)
        for other in range(ndim_of(input)):
            if other != axis:
                result = correlate1d(result, np.array(across), other, modes[other], cval)
        return result

    return body


def over_axes(body):
    """Of no axes, SciPy copies the input."""

    @wraps(body)
    def combined(input, **given):
        return body(input, **given) if axis_list(given.get("axes"), ndim_of(input)) else copied(input)

    return combined


@over_axes
def laplace(input, mode="reflect", cval=0.0, *, axes=None):
    axes, second = axis_list(axes, ndim_of(input)), np.array([1.0, -2.0, 1.0])
    return sum(correlate1d(input, second, axis, side, cval) for axis, side in zip(axes, per_axis(mode, len(axes)), strict=True))


def gaussians(input, sigma, order, mode, cval, axes, kwargs):
    """Return, for each axis, the Gaussian filter of an order along it and of order 0 along the others."""
    axes = axis_list(axes, ndim_of(input))
    orders = order * np.eye(len(axes), dtype=int)
    return [gaussian_filter(input, sigma, list(own), mode, cval, axes=axes, **kwargs) for own in orders]


@over_axes
def gaussian_laplace(input, sigma, mode="reflect", cval=0.0, *, axes=None, **kwargs):
    return sum(gaussians(input, sigma, 2, mode, cval, axes, kwargs))


@over_axes
def gaussian_gradient_magnitude(input, sigma, mode="reflect", cval=0.0, *, axes=None, **kwargs):
    return np.sqrt(sum(part * part for part in gaussians(input, sigma, 1, mode, cval, axes, kwargs)))


# --- filters that choose ------------------------------------------------------------------------------------------------------------


def windows(x, size, axis, mode, cval, origin):
    """Return the elements that a window has at each place, along a first axis."""
    before = size // 2 + origin
    widths = [(before, size - 1 - before) if k == axis % ndim_of(x) else (0, 0) for k in range(ndim_of(x))]
    padded = pad_ends(x, widths, mode, cval)
    return np.stack([cut_part(padded, [(axis, k, shape_of(x)[axis])]) for k in range(size)])


def sized(size, footprint, name):
    if footprint is not None or size is None:
        raise NotImplementedError(f"scipy.ndimage.{name} has no derivative with footprint=: give size=")
    return size


def extreme_filters(choose, name):
    """Return the bodies of a filter of extreme elements: along one axis, and along several."""

    def one(input, size, axis=-1, mode="reflect", cval=0.0, origin=0):
        return choose(windows(input, size, axis, mode, cval, origin), axis=0)

    def several(input, size=None, footprint=None, mode="reflect", cval=0.0, origin=0, *, axes=None):
        return along_axes(one, "size", "origin")(input, sized(size, footprint, name), origin, mode=mode, cval=cval, axes=axes)

    return one, several


def dilation_origin(size, origin):
    """Return the origin of a window that dilates where that of another erodes."""
    return [-shift - (width % 2 == 0) for width, shift in zip(size, origin, strict=True)]


def morphology(*steps, combine=lambda result, x: result):
    """Return the body of a filter that erodes (-1) and dilates (1) in turn."""

    def filtered(input, size=None, footprint=None, mode="reflect", cval=0.0, origin=0):
        sized(size, footprint, "grey_erosion and its kin")
        size, origin = (list(per_axis(given, ndim_of(input))) for given in (size, origin))
        result = input
        for step in steps:
            fn = BODIES["maximum_filter" if step > 0 else "minimum_filter"]
            result = fn(result, size, None, mode, cval, dilation_origin(size, origin) if step > 0 else origin)
        return combine(result, input)

    return filtered


def median_filter(input, size=None, footprint=None, mode="reflect", cval=0.0, origin=0, *, axes=None):
    axes, size = axis_list(axes, ndim_of(input)), sized(size, footprint, "median_filter")
    for axis, width, shift in zip(axes, per_axis(size, len(axes)), per_axis(origin, len(axes)), strict=True):
        # the windows stand in front, so that axes are counted from the end
        input = windows(input, width, axis - len(axes), mode, cval, shift)
    whole_windows = np.reshape(input, (-1, *shape_of(input)[len(axes) :]))
    return np.sort(whole_windows, axis=0)[shape_of(whole_windows)[0] // 2]


# --- splines ------------------------------------------------------------------------------------------------------------------------


def coefficients(x, order, axis, mode):
    return sn.spline_filter1d(x, order, axis, mode=mode)


def ends_halved(g, axis, factor):
    """Return `g` with its first and last elements along an axis times a factor."""
    weights = np.ones(shape_of(g)[axis])
    weights[[0, -1]] = factor
    return g * np.reshape(weights, [-1 if k == axis % ndim_of(g) else 1 for k in range(ndim_of(g))])


def coefficients_transpose(g, x, order, axis, mode):
    """The samples are symmetric in the coefficients; where these are mirrored about the last ones, but for a factor there."""
    size = shape_of(x)[axis]
    if mode in REFLECTED and size < 40:  # SciPy begins its recursion with so few elements a little off
        return np.moveaxis(np.tensordot(coefficients(np.eye(size), order, 0, mode), g, (0, axis)), 0, axis)
    if mode in (*REFLECTED, "grid-wrap") or size == 1:
        return spline_coefficients(g, order, axis, mode)
    return ends_halved(spline_coefficients(ends_halved(g, axis, 2.0), order, axis, mode), axis, 0.5)


REFLECTED = ("reflect", "grid-mirror", "nearest")
spline_coefficients = dispatching_as(coefficients, "scipy.ndimage.spline_filter1d")
linear(spline_coefficients, coefficients_transpose)


def spline_filter1d(input, order=3, axis=-1, mode="mirror"):
    return spline_coefficients(input, order, axis, mode) if order > 1 else input


def spline_filter(input, order=3, mode="mirror"):
    for axis in range(ndim_of(input)):
        input = spline_filter1d(input, order, axis, mode)
    return input


def inner_places(places, size, mode):
    """Return the places of an array that places outside of it stand for."""
    if mode in ("reflect", "grid-mirror"):
        places = places % (2 * size)
        return np.minimum(places, 2 * size - 1 - places)
    if mode == "grid-wrap":
        return places % size
    places = places % max(2 * size - 2, 1)
    return np.minimum(places, 2 * size - 2 - places)


def basis(u, order):
    """Return the B-splines of an order that reach a place `u` between two knots (Cox and de Boor), along a first axis."""
    splines = [1.0 + 0.0 * u]
    for d in range(1, order + 1):
        splines = [((u + (d - j)) * splines[j - 1] if j else 0.0) + ((j + 1 - u) * splines[j] if j < d else 0.0) for j in range(d + 1)]
        splines = [part / d for part in splines]
    return np.stack(splines)


def map_coordinates(input, coordinates, order=3, mode="constant", cval=0.0, prefilter=True):
    if type(coordinates) in (list, tuple):
        coordinates = np.stack(coordinates)
    if is_complex(input):
        parts = ((input.real, np.real(cval)), (input.imag, np.imag(cval)))
        real, imag = (map_coordinates(part, coordinates, order, mode, fill, prefilter) for part, fill in parts)
        return real + 1j * imag
    if prefilter and order > 1:
        if mode in ("nearest", "grid-constant"):
            input, coordinates = pad_ends(input, 12, mode, cval), coordinates + 12.0
        input = spline_filter(input, order, mode)
    if mode == "grid-constant":  # what is far outside meets the constant alone
        reach = order // 2 + 1
        shape = np.reshape(shape_of(input), (-1,) + (1,) * (ndim_of(coordinates) - 1))
        input, coordinates = pad_ends(input, 2 * reach, mode, cval), np.clip(coordinates, -1.0 * reach, shape + reach - 1.0) + 2.0 * reach
    known, places, weights, ndim = True, [], [], ndim_of(input)
    for axis, size in enumerate(shape_of(input)):
        at = coordinates[axis] + 0.0
        plain = stopped(at)
        if mode == "constant":
            here = (plain >= 0.0) & (plain <= size - 1.0)
            known, at = known & here, np.where(here, at, 0.0)
        elif mode == "nearest":
            at = np.clip(at, 0.0, size - 1.0)
        elif mode == "wrap":
            outside = (plain < 0.0) | (plain > size - 1.0)
            at = at - np.where(outside, np.floor(plain / max(size - 1, 1)) * (size - 1), 0.0)
        half = 0.0 if order % 2 else 0.5
        start = np.floor(stopped(at) + half)
        index = start.astype(int) - order // 2 + np.reshape(np.arange(order + 1), (-1,) + (1,) * ndim_of(at))
        lead = (1,) * axis + (order + 1,) + (1,) * (ndim - 1 - axis)
        places.append(np.reshape(inner_places(index, size, mode), lead + shape_of(at)))
        weights.append(basis(at - start + half, order))
    result = getitem(input, tuple(places))
    for part in weights:
        result = np.sum(result * np.reshape(part, (order + 1,) + (1,) * (ndim_of(result) - ndim_of(part)) + shape_of(part)[1:]), axis=0)
    return np.where(known, result, cval) if mode == "constant" else result


def as_column(values, ndim):
    """Return a number for each axis as an array that broadcasts against coordinates."""
    return np.reshape(np.zeros(ndim) + values, (-1,) + (1,) * ndim)


def shift(input, shift, order=3, mode="constant", cval=0.0, prefilter=True):
    return map_coordinates(input, np.indices(shape_of(input), float) - as_column(shift, ndim_of(input)), order, mode, cval, prefilter)


def zoom(input, zoom, order=3, mode="constant", cval=0.0, prefilter=True):
    shape = np.array(shape_of(input))
    sizes = [round(n * factor) for n, factor in zip(shape.tolist(), per_axis(zoom, shape.size), strict=True)]
    steps = [(n - 1) / (m - 1) if m > 1 else 1.0 for n, m in zip(shape.tolist(), sizes, strict=True)]
    return map_coordinates(input, np.indices(sizes, float) * as_column(steps, shape.size), order, mode, cval, prefilter)


def affine_transform(input, matrix, offset=0.0, output_shape=None, order=3, mode="constant", cval=0.0, prefilter=True):
    ndim = ndim_of(input)
    if ndim_of(matrix) == 2 and shape_of(matrix)[1] == ndim + 1:
        matrix, offset = matrix[:ndim, :ndim], matrix[:ndim, ndim]
    at = np.indices(shape_of(input) if output_shape is None else output_shape, float)
    at = np.tensordot(matrix, at, 1) if ndim_of(matrix) == 2 else as_column(matrix, ndim) * at
    return map_coordinates(input, at + np.reshape(np.zeros(ndim) + offset, (-1,) + (1,) * (ndim_of(at) - 1)), order, mode, cval, prefilter)


# --- the table ----------------------------------------------------------------------------------------------------------------------

BODIES = by_name(
    correlate1d, convolve1d, correlate, convolve, gaussian_filter1d, gaussian_filter, uniform_filter1d, uniform_filter, laplace,
    gaussian_laplace, gaussian_gradient_magnitude, median_filter, spline_filter1d, spline_filter, map_coordinates, shift, zoom,
    affine_transform,
)  # fmt: skip
BODIES |= {
    "sobel": gradient_filter([1.0, 2.0, 1.0]),
    "prewitt": gradient_filter([1.0, 1.0, 1.0]),
}
for kind, choose in {"maximum": np.max, "minimum": np.min}.items():
    BODIES[f"{kind}_filter1d"], BODIES[f"{kind}_filter"] = extreme_filters(choose, f"{kind}_filter")
BODIES |= {
    "grey_erosion": morphology(-1),
    "grey_dilation": morphology(1),
    "grey_opening": morphology(-1, 1),
    "grey_closing": morphology(1, -1),
    "white_tophat": morphology(-1, 1, combine=lambda result, x: x - result),
    "black_tophat": morphology(1, -1, combine=lambda result, x: result - x),
}
FUNCTIONS = enter_bodies(sn, BODIES)
