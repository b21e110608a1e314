"""``scipy.spatial.distance``: each metric is a body along the last axis, of vectors and of all pairs of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import special as sp
from scipy.spatial import distance as sd

from ...indexing import getitem
from ...kinds import is_complex, ndim_of, shape_of
from ...linalg import mT
from ..entering import by_name, enter_bodies


def total(x, w=None):
    return np.sum(x if w is None else w * x, axis=-1)


def square(x):
    return x**2 if not is_complex(x) else np.real(x) ** 2 + np.imag(x) ** 2


def root(x, power=0.5):
    """Return a root that has the derivative 0 at 0: equal points do not move apart in one direction or another."""
    zero = np.equal(x, 0.0)
    return np.where(zero, 0.0, np.where(zero, 1.0, x) ** power)


def refuse_complex(name, *vectors):
    if any(map(is_complex, vectors)):
        raise NotImplementedError(f"scipy.spatial.distance.{name} has no derivative of complex vectors: give real ones")


def sqeuclidean(u, v, w=None):
    refuse_complex("sqeuclidean", u, v)  # SciPy's squares of them differ by version
    return total((u - v) ** 2, w)


def minkowski(u, v, p=2, w=None):
    if p == np.inf:
        return chebyshev(u, v, w)
    return root(total(np.abs(u - v) ** p, w), 1.0 / p)


def chebyshev(u, v, w=None):
    apart = np.abs(u - v)
    return np.max(apart if w is None else np.where(np.asarray(w) > 0.0, apart, 0.0), axis=-1)


def canberra(u, v, w=None):
    refuse_complex("canberra", v)  # of which SciPy takes the real parts
    size = np.abs(u) + np.abs(v)
    return total(np.abs(u - v) / np.where(np.equal(size, 0.0), 1.0, size), w)


def braycurtis(u, v, w=None):
    refuse_complex("braycurtis", v)  # as canberra
    return total(np.abs(u - v), w) / total(np.abs(u + v), w)


def correlation(u, v, w=None, centered=True):
    if centered:
        share = np.full(shape_of(u)[-1], 1.0 / shape_of(u)[-1]) if w is None else w / np.sum(w)
        u, v = (x - total(x, share)[..., None] for x in (u, v))
    return 1.0 - total(u * v, w) / np.sqrt(total(u * u, w) * total(v * v, w))


def jensenshannon(p, q, base=None, *, axis=0, keepdims=False):
    p, q = (x / np.sum(x, axis=axis, keepdims=True) for x in (p, q))
    middle = (p + q) / 2.0
    mean = np.sum(sp.rel_entr(p, middle) + sp.rel_entr(q, middle), axis=axis, keepdims=keepdims) / 2.0
    return root(mean if base is None else mean / np.log(base))


METRICS: dict[str, Callable] = {
    "euclidean": lambda u, v, w=None: root(total(square(u - v), w)),
    "sqeuclidean": sqeuclidean,
    "seuclidean": lambda u, v, V: root(total(square(u - v) / V)),
    "cityblock": lambda u, v, w=None: total(np.abs(u - v), w),
    "chebyshev": chebyshev,
    "minkowski": minkowski,
    "canberra": canberra,
    "braycurtis": braycurtis,
    "cosine": lambda u, v, w=None: correlation(u, v, w, centered=False),
    "correlation": correlation,
    "mahalanobis": lambda u, v, VI: root(total(((u - v) @ VI) * (u - v))),
    "jensenshannon": jensenshannon,
}


def pairwise(name, metric, all_points, options):
    """Return the metric of pairs, with what it takes from all points where that is not given."""
    if callable(metric):
        return lambda u, v: np.stack([metric(a, b, **options) for a, b in zip(u, v, strict=True)])
    if metric not in METRICS:
        raise NotImplementedError(f"scipy.spatial.distance.{name} has no derivative with metric={metric!r}: use {', '.join(METRICS)}")
    refuse_complex(name, all_points)
    if metric == "seuclidean" and options.get("V") is None:
        options = {"V": np.var(all_points, axis=0, ddof=1)}
    elif metric == "mahalanobis" and options.get("VI") is None:
        options = {"VI": mT(np.linalg.inv(np.cov(mT(all_points))))}
    elif metric == "jensenshannon":
        options = {**options, "axis": -1}
    return lambda u, v: METRICS[metric](u, v, **options)


def cdist(XA, XB, metric="euclidean", **options):
    n, m = shape_of(XA)[0], shape_of(XB)[0]
    of_pairs = pairwise("cdist", metric, np.concatenate([XA, XB]), options)
    if callable(metric):
        first, second = np.divmod(np.arange(n * m), m)
        return np.reshape(of_pairs(getitem(XA, first), getitem(XB, second)), (n, m))
    return of_pairs(XA[:, None], XB[None])


def pdist(X, metric="euclidean", **options):
    first, second = np.triu_indices(shape_of(X)[0], 1)
    return pairwise("pdist", metric, X, options)(getitem(X, first), getitem(X, second))


def squareform(X, force="no", checks=True):
    if ndim_of(X) == 2:
        return getitem(X, np.triu_indices(shape_of(X)[0], 1))
    size = int(np.ceil(np.sqrt(2 * shape_of(X)[0])))
    places = np.zeros((size, size), int)
    places[np.triu_indices(size, 1)] = np.arange(1, shape_of(X)[0] + 1)
    return getitem(np.concatenate([np.zeros(1), X]), places + places.T)


FUNCTIONS = enter_bodies(sd, METRICS | by_name(cdist, pdist, squareform))
