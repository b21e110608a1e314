"""``scipy.fftpack``: the transforms of ``scipy.fft`` with older arguments; it lays out half a spectrum as an array of real numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import fftpack

from ..kinds import shape_of
from .entering import enter_bodies
from .fft import FUNCTIONS as TRANSFORMS

INVERSE = {2: 3, 3: 2}


def along_one(transform: Callable) -> Callable:
    return lambda x, n=None, axis=-1: transform(x, n, axis)


def along_several(transform: Callable, axes: tuple | None) -> Callable:
    return lambda x, shape=None, axes=axes: transform(x, shape, axes)


def trigonometric(name: str) -> Callable:
    """An inverse is the transform of the inverse type, without its factor."""
    transform, types = TRANSFORMS[name.removeprefix("i")], INVERSE if name.startswith("i") else {}
    if name.endswith("n"):
        return lambda x, type=2, shape=None, axes=None, norm=None: transform(x, types.get(type, type), shape, axes, norm)
    return lambda x, type=2, n=None, axis=-1, norm=None: transform(x, types.get(type, type), n, axis, norm)


def rfft(x, n=None, axis=-1):
    """The real and imaginary parts stand in turn, but for those that are zero."""
    spectrum = np.moveaxis(TRANSFORMS["rfft"](x, n, axis), axis, -1)
    size = shape_of(x)[axis] if n is None else n
    parts = np.reshape(np.stack([spectrum.real, spectrum.imag], -1), (*shape_of(spectrum)[:-1], -1))
    return np.moveaxis(np.concatenate([parts[..., :1], parts[..., 2 : size + 1]], -1), -1, axis)


BODIES: dict[str, Callable] = {
    "rfft": rfft,
    **{name: along_one(TRANSFORMS[name]) for name in ("fft", "ifft")},
    **{name: along_several(TRANSFORMS[name], (-2, -1) if name.endswith("2") else None) for name in ("fft2", "ifft2", "fftn", "ifftn")},
    **{name: trigonometric(name) for name in ("dct", "idct", "dst", "idst", "dctn", "idctn", "dstn", "idstn")},
}
FUNCTIONS = enter_bodies(fftpack, BODIES)
