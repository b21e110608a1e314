"""``scipy.fft``: each transform is one linear function, SciPy's own, and its transpose is a transform, too.

A cotangent pairs without conjugation, see `dualad.rules.fft`. The elements of half a spectrum stand for two each, but for those of
frequency 0 and n/2. The matrices of sine and cosine transforms are symmetric, and type 3 is the transpose of type 2, but for the
weights of the first and last elements, which ``orthogonalize`` evens out.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple
from scipy import fft as sf

from ..batching import natural
from ..calling import with_defaults
from ..fft import fitted, half_weights
from ..kinds import composite, is_complex, linear, real_linear, shape_of
from ..shapes import by_numpy
from .entering import by_body, dispatching_as

SWAPPED = {1: 1, 2: 3, 3: 2, 4: 4}


# --- transposes: of a transform ``dual`` ---------------------------------------------------------------------


def symmetric(dual: Callable) -> Callable:
    return lambda g, x, s, axes, **options: dual(g, s, axes, **options)


def from_numbers(dual: Callable) -> Callable:
    """Return the transpose of a transform from numbers to half a spectrum."""
    return lambda g, x, s, axes, **options: dual(g * half_weights(s[-1], len(g.shape), axes[-1], 0.5, g.dtype), s, axes, **options)


def to_numbers(dual: Callable) -> Callable:
    """Return the transpose of a transform from half a spectrum to numbers."""

    def transpose(g, x, s, axes, **options):
        spectrum = dual(g, s, axes, **options)
        return spectrum * half_weights(s[-1], len(g.shape), axes[-1], 2.0, g.dtype)

    return transpose


def trigonometric(dual: Callable) -> Callable:
    name = dual.__name__

    def transpose(g, x, s, axes, type=2, norm=None, orthogonalize=None, **options):
        if is_complex(g) and orthogonalize not in (None, norm == "ortho"):  # which SciPy ignores for complex arrays (1.17)
            raise NotImplementedError(f"scipy.fft.{name} of a complex array has no VJP with orthogonalize={orthogonalize}: leave it out")
        forward = SWAPPED.get(type, type) if name.startswith("i") else type  # but for a factor
        back = {"type": SWAPPED.get(type, type), "norm": norm, "orthogonalize": orthogonalize, **options}
        if forward == 4 or (forward == 1 and "s" in name) or (norm == "ortho" if orthogonalize is None else orthogonalize):
            return dual(g, s, axes, **back)
        ends = [0, -1] if forward == 1 else [0] if "c" in name else [-1]
        weights = end_weights(s, axes, ends, g.dtype)
        result = dual(g * weights if forward in (1, 2) else g, s, axes, **back)
        return result / weights if forward in (1, 3) else result

    return transpose


def end_weights(s, axes, ends, dtype):
    """Return 2 at the ends of axes, elsewhere 1."""
    weights = np.ones((), np.empty(0, dtype).real.dtype)
    for n, axis in zip(s, axes, strict=True):
        along = np.ones(n, weights.dtype)
        along[ends] = 2.0
        weights = weights * np.reshape(along, (-1,) + (1,) * (-1 - axis))
    return weights


# --- the table ----------------------------------------------------------------------------------------------------------------------

DUALS: dict[str, tuple[str, Callable]] = {
    "fft": ("fft", symmetric),
    "ifft": ("ifft", symmetric),
    "rfft": ("hfft", from_numbers),
    "ihfft": ("irfft", from_numbers),
    "irfft": ("ihfft", to_numbers),
    "hfft": ("rfft", to_numbers),
    **{name: (name, trigonometric) for name in ("dct", "idct", "dst", "idst")},
}


def transform(name: str) -> Callable:
    """Return a transform of all lengths, along negative axes."""
    scipys = getattr(sf, name)

    def call(x: Any, s: tuple[int, ...], axes: tuple[int, ...], **options: Any) -> Any:
        places = {"s": s, "axes": axes} if name.endswith(("2", "n")) else {"n": s[0], "axis": axes[0]}
        return scipys(x, **places, **options)

    return dispatching_as(call, f"scipy.fft.{name}")


def enter(name: str) -> Callable:
    """Enter a transform, and the function of SciPy's arguments; return that."""
    family = name.rstrip("2n")
    dual, transposed = DUALS[family]
    own, back = TRANSFORMS[name], transposed(TRANSFORMS[dual + name[len(family) :]])
    signature = inspect.signature(getattr(sf, name))

    def transpose(g, x, s, axes, **options):
        g = back(g, x, s, axes, **options)
        for axis in axes:
            g = fitted(g, shape_of(x)[axis], axis)
        return g

    def body(*args: Any, **kwargs: Any) -> Any:
        options = with_defaults(f"scipy.fft.{name}", signature, args, kwargs).arguments
        x, _ = options.pop("x"), options.pop("overwrite_x")  # what is traced is never overwritten
        several = "axes" in options
        s, axes = (options.pop(key) for key in (("s", "axes") if several else ("n", "axis")))
        s, axes = places(x, s if several or s is None else (s,), axes if several else (axes,))
        if family in ("irfft", "hfft"):
            s = (*s[:-1], 2 * (shape_of(x)[axes[-1]] - 1) if s[-1] is None else s[-1])
        return own(x, tuple(shape_of(x)[axis] if n in (None, -1) else n for n, axis in zip(s, axes, strict=True)), axes, **options)

    options: Any = {"axes": "axes", "batch": natural, "called": "the library does it faster than a loop"}
    (real_linear if "h" in family else linear)(own, transpose, **options)
    public = dispatching_as(getattr(sf, name), f"scipy.fft.{name}")
    composite(public, body)
    return public


def places(x, s, axes):
    """Return the lengths, None where they are not given, and the negative axes of a transform."""
    ndim = len(shape_of(x))
    s = s if s is None or np.iterable(s) else (s,)
    axes = range(-ndim if s is None else -len(s), 0) if axes is None else axes
    axes = tuple(axis - ndim for axis in normalize_axis_tuple(axes, ndim))
    s = (None,) * len(axes) if s is None else tuple(s)
    if len(s) != len(axes):
        raise ValueError("when given, axes and shape arguments have to be of the same length")
    return s, axes


NAMES = [f"{family}{kind}" for family in DUALS for kind in ("", "2", "n") if hasattr(sf, f"{family}{kind}")]
TRANSFORMS = {name: transform(name) for name in NAMES}
FUNCTIONS: dict[str, Callable] = {name: enter(name) for name in NAMES}
for name in ("fftshift", "ifftshift"):
    FUNCTIONS[name] = by_body(getattr(sf, name), by_numpy(getattr(np.fft, name)), f"scipy.fft.{name}")
for name, numpys in {"fftfreq": np.fft.fftfreq, "rfftfreq": np.fft.rfftfreq}.items():
    FUNCTIONS[name] = by_body(getattr(sf, name), lambda n, d=1.0, numpys=numpys: numpys(n) / d, f"scipy.fft.{name}")
for name in ("fht", "ifht"):  # symmetric: between diagonal matrices stands a cyclic one whose rows are in reverse
    FUNCTIONS[name] = dispatching_as(getattr(sf, name), f"scipy.fft.{name}")
    linear(FUNCTIONS[name], lambda g, x, *args, dual=FUNCTIONS[name], **options: dual(g, *args, **options), batch=natural)
FUNCTIONS |= {name: getattr(sf, name) for name in ("fhtoffset", "next_fast_len", "prev_fast_len") if hasattr(sf, name)}
