"""``scipy.special``: what is written in Python there (the ufuncs stand in `dualad.rules.special`)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from scipy import special as sp

from ..constants import stopped
from ..cotangents import FLOAT, restore_axes
from ..primitives import all_finite
from .entering import by_body, by_name, by_partials, taking_lists, with_short_path


def top_of(a, axis):
    """Return the largest elements along axes, of which an infinite one is 0; without derivative."""
    top = stopped(np.max(a, axis=axis, keepdims=True))
    return np.where(np.isfinite(top), top, 0.0)


def logsumexp_body(a, axis=None, b=None, keepdims=False, return_sign=False):
    top = top_of(a if b is None else np.where(np.equal(b, 0), -np.inf, a), axis)
    terms = np.exp(a - top) if b is None else b * np.exp(a - top)
    total = np.sum(terms, axis=axis, keepdims=True)
    out = np.log(np.abs(total) if return_sign else total) + top
    sign = np.sign(total)
    if not keepdims:
        out, sign = (np.squeeze(part, axis=axis)[()] for part in (out, sign))
    return (out, sign) if return_sign else out


def logsumexp_in_short(a, axis=None, b=None, keepdims=False):
    """Return SciPy's value where all is real and finite: the largest elements are left out of the sum, and counted."""
    if type(a) is not np.ndarray or a.dtype is not FLOAT or not a.size or b is not None:
        return None
    with np.errstate(all="ignore"):
        top = np.maximum.reduce(a, axis, keepdims=True)
        largest = a == top
        powers = np.exp(a - top)
        powers[largest] = 0.0
        count = np.add.reduce(largest, axis, FLOAT, keepdims=True)
        value = np.log1p(np.add.reduce(powers, axis, keepdims=True) / count) + np.log(count) + top
        if not all_finite(value):
            return None
    return value if keepdims else np.squeeze(value, axis)[()]


def softmax_body(x, axis=None):
    powers = np.exp(x - top_of(x, axis))
    return powers / np.sum(powers, axis=axis, keepdims=True)


def log_softmax_body(x, axis=None):
    centred = x - top_of(x, axis)
    return centred - np.log(np.sum(np.exp(centred), axis=axis, keepdims=True))


def multigammaln_body(a, d):
    """Return the sum of DLMF 35.3.4."""
    whole = sum(sp.gammaln(a - 0.5 * k) for k in range(int(d)))
    return 0.25 * d * (d - 1) * math.log(math.pi) + whole


def where_possible(possible, formula, *args):
    """Return a number of ways to choose, 0 where there are none."""
    return np.where(possible, formula(*(np.where(possible, x, 1.0) for x in args)), 0.0)[()]


def share_of(ans, a, axis):
    """Return the shares of the elements of `a` in the sum of their powers of e, whose logarithm is `ans`."""
    return np.exp(a - restore_axes(ans, a, axis))


def centred_by(x, weights, axis):
    return x - np.sum(x * weights, axis=axis, keepdims=True)


def along_axes(x, *args, **kwargs):
    """Return whether a call has no arguments besides `x` and `axis`."""
    return len(args) < 2 and kwargs.keys() <= {"axis"}


#: JVP and VJP of the first argument, if real, and for which calls; the derivative of softmax is symmetric
RULES: dict[str, tuple] = {
    "logsumexp": (
        [lambda t, ans, a, axis=None, keepdims=False: np.sum(share_of(ans, a, axis) * t, axis=axis, keepdims=keepdims)],
        [lambda g, ans, a, axis=None, keepdims=False: share_of(ans, a, axis) * restore_axes(g, a, axis)],
        lambda a, *args, **kwargs: len(args) < 2 and kwargs.keys() <= {"axis", "keepdims"},
    ),
    "softmax": (
        [lambda t, ans, x, axis=None: ans * centred_by(t, ans, axis)],
        [lambda g, ans, x, axis=None: ans * centred_by(g, ans, axis)],
        along_axes,
    ),
    "log_softmax": (
        [lambda t, ans, x, axis=None: centred_by(t, np.exp(ans), axis)],
        [lambda g, ans, x, axis=None: g - np.exp(ans) * np.sum(g, axis=axis, keepdims=True)],
        along_axes,
    ),
}
BODIES = by_name(logsumexp_body, softmax_body, log_softmax_body, multigammaln_body)
BODIES |= {
    "comb": lambda N, k: where_possible((k <= N) & (k >= 0), sp.binom, N, k),
    "perm": lambda N, k: where_possible((k <= N) & (k >= 0), lambda n, k: sp.poch(n - k + 1.0, k), N, k),
    "factorial": lambda n: where_possible(n >= 0, lambda n: sp.gamma(n + 1.0), n),
}
SAMPLE = np.sin(np.arange(91.0) ** 2).reshape(7, 13)
SCIPYS = {name: getattr(sp, name) for name in BODIES}
SCIPYS["logsumexp"] = with_short_path(sp.logsumexp, logsumexp_in_short, [(SAMPLE, axis) for axis in (None, 0, 1)])
FUNCTIONS = {name: by_body(SCIPYS[name], body, f"scipy.special.{name}", RULES.get(name)) for name, body in BODIES.items()}
polygamma: Any = by_partials(sp.polygamma, None, lambda ans, n, x: polygamma(n + 1, x), name="scipy.special.polygamma")
FUNCTIONS["polygamma"] = polygamma


def spherical(name: str, sign: float) -> Callable:
    """Return a spherical Bessel function, with the derivatives of its equation (DLMF 10.47.1 and 10.47.2)."""
    scipys = getattr(sp, name)

    def curvature(ans, n, z):
        return (n * (n + 1.0) / z**2 - sign) * value(n, z) - 2.0 * ans / z

    value = by_partials(lambda n, z: scipys(n, z), None, lambda ans, n, z: slope(n, z), name=f"scipy.special.{name}")
    slope = by_partials(lambda n, z: scipys(n, z, derivative=True), None, curvature, name=f"scipy.special.{name}")

    @wraps(scipys)
    def call(n, z, derivative=False):
        return (slope if derivative else value)(n, z)

    return call


FUNCTIONS |= {f"spherical_{kind}": spherical(f"spherical_{kind}", 1.0 if kind[0] in "jy" else -1.0) for kind in ("jn", "yn", "in", "kn")}
#: what SciPy writes with ufuncs that have rows
OF_UFUNCS = ("lambertw", "zeta", "sinc", "softplus", "jvp", "yvp", "ivp", "kvp", "h1vp", "h2vp")
FUNCTIONS |= {name: taking_lists(getattr(sp, name)) for name in OF_UFUNCS if hasattr(sp, name)}
