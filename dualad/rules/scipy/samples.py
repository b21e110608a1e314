"""``scipy.stats``: statistics of samples."""

from __future__ import annotations

import inspect
import math
from functools import wraps
from typing import Any, NamedTuple

import numpy as np
from scipy import special as sp
from scipy import stats

from ..kinds import any_traced, ndim_of, shape_of
from .entering import by_body, by_name, enter_bodies


def subtract_mean(a, axis):
    return a - np.mean(a, axis=axis, keepdims=True)


def moment_ratio(a, axis, order):
    """Return a central moment by the same power of the standard deviation."""
    rest = subtract_mean(a, axis)
    return np.mean(rest**order, axis=axis) / np.mean(rest**2, axis=axis) ** (0.5 * order)


def trim_mean(a, proportiontocut, axis=0):
    """Return the mean of what is neither among the smallest nor the largest."""
    a, axis = (np.reshape(a, (-1,)), 0) if axis is None else (a, axis)
    size = shape_of(a)[axis]
    cut = int(proportiontocut * size)
    return np.mean(np.moveaxis(np.sort(a, axis=axis), axis, 0)[cut : size - cut], axis=0)


def moment(a, order=1, axis=0, *, center=None):
    rest = subtract_mean(a, axis) if center is None else a - center
    return np.mean(rest**order, axis=axis)


def entropy(pk, qk=None, base=None, axis=0):
    if qk is not None:
        whole = np.broadcast_shapes(np.shape(pk), np.shape(qk))
        shapes = [(1,) * (len(whole) - ndim_of(x)) + np.shape(x) for x in (pk, qk)]
        if axis is not None and shapes[0][axis] != shapes[1][axis]:  # SciPy normalises them before (1.13), or broadcast (1.15)
            raise NotImplementedError(f"scipy.stats.entropy has no derivative where axis {axis} of pk or qk is broadcast: repeat it")
        pk, qk = np.broadcast_arrays(pk, qk)
    pk = pk / np.sum(pk, axis=axis, keepdims=True)
    terms = sp.entr(pk) if qk is None else sp.rel_entr(pk, qk / np.sum(qk, axis=axis, keepdims=True))
    total = np.sum(terms, axis=axis)
    return total if base is None else total / np.log(base)


class Correlation(NamedTuple):
    """The result of SciPy's functions of correlations."""

    statistic: Any
    pvalue: Any


def pearsonr(x, y, *, axis=0):
    """The probability is that of a beta distribution on (-1, 1)."""
    size = shape_of(x)[axis]
    x, y = (part / np.sqrt(np.sum(part * part, axis=axis, keepdims=True)) for part in (subtract_mean(x, axis), subtract_mean(y, axis)))
    r = np.sum(x * y, axis=axis)
    half = 0.5 * size - 1.0
    return Correlation(r, 2.0 * sp.betainc(half, half, 0.5 * (1.0 - np.abs(r))))


def mean(a, axis, weights):
    return np.mean(a, axis=axis) if weights is None else np.average(a, axis=axis, weights=weights)


def skew(a, axis=0, bias=True):
    n, ratio = sample_count(a, axis), moment_ratio(a, axis, 3)
    return ratio if bias or n < 3 else ratio * (np.sqrt(n * (n - 1.0)) / (n - 2.0))


def kurtosis(a, axis=0, fisher=True, bias=True):
    n, ratio = sample_count(a, axis), moment_ratio(a, axis, 4)
    if not bias and n > 3:
        ratio = ((n * n - 1.0) * ratio - 3.0 * (n - 1.0) ** 2) / ((n - 2.0) * (n - 3.0)) + 3.0
    return ratio - (3.0 if fisher else 0.0)


def sample_count(a, axis):
    """Return how many numbers a statistic along some axes is of."""
    shape = shape_of(a)
    return math.prod(shape if axis is None else (shape[k] for k in np.atleast_1d(axis)))


def statistic(body):
    """Return a statistic, of arguments by name, that takes numbers and `keepdims=`, too."""
    signature = inspect.signature(body)
    sample = next(iter(signature.parameters))

    def of_sample(keepdims=False, **given):
        a, axis = given[sample], given.get("axis", signature.parameters["axis"].default)
        if ndim_of(a) == 0:
            a = given[sample] = np.reshape(a, (1,))
        result = body(**given)
        return np.expand_dims(result, tuple(range(ndim_of(a))) if axis is None else axis) if keepdims else result

    keepdims = inspect.Parameter("keepdims", inspect.Parameter.KEYWORD_ONLY, default=False)
    of_sample.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*signature.parameters.values(), keepdims]
    )
    return of_sample


BODIES = by_name(trim_mean, moment, entropy, skew, kurtosis)
BODIES |= {
    "variation": lambda a, axis=0, *, ddof=0: np.std(a, axis=axis, ddof=ddof) / np.mean(a, axis=axis),
    "gstd": lambda a, axis=0, ddof=1: np.exp(np.std(np.log(a), axis=axis, ddof=ddof)),
    "pmean": lambda a, p, *, axis=0, weights=None: mean(a**p, axis, weights) ** (1.0 / p),
    "gmean": lambda a, axis=0, *, weights=None: np.exp(mean(np.log(a), axis, weights)),
    "hmean": lambda a, axis=0, *, weights=None: 1.0 / mean(1.0 / a, axis, weights),
    "sem": lambda a, axis=0, ddof=1: np.std(a, axis=axis, ddof=ddof) / np.sqrt(sample_count(a, axis)),
}
BODIES = {name: statistic(body) for name, body in BODIES.items()} | {
    "zscore": lambda a, axis=0, ddof=0: subtract_mean(a, axis) / np.std(a, axis=axis, ddof=ddof, keepdims=True),
    "zmap": lambda scores, compare, axis=0, ddof=0: (
        (scores - np.mean(compare, axis=axis, keepdims=True)) / np.std(compare, axis=axis, ddof=ddof, keepdims=True)
    ),
}
STATISTICS = enter_bodies(stats, BODIES)


def correlated(*args, **kwargs):
    """Return SciPy's result without its methods, which compute with plain samples."""
    result = stats.pearsonr(*args, **kwargs)
    return Correlation(result.statistic, result.pvalue)


correlated.__signature__ = inspect.signature(stats.pearsonr)  # type: ignore[attr-defined]
of_traced = by_body(correlated, pearsonr, "scipy.stats.pearsonr")


@wraps(stats.pearsonr)
def pearson(x, y, **kwargs):
    return (of_traced if any_traced((x, y)) else stats.pearsonr)(x, y, **kwargs)


STATISTICS["pearsonr"] = pearson
