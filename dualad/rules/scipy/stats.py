"""``scipy.stats``: distributions by their log densities (`samples` has the statistics of samples).

A distribution is a row of `CONTINUOUS` or `DISCRETE`: its log density (or mass) in NumPy's functions and SciPy's ufuncs, of the
standard form. The derivatives of its other methods follow: that of a distribution function by x is the density. By a shape it is in
`BY_SHAPE` where it has a closed form, else it is refused by name.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy import special as sp
from scipy import stats

from ..calling import with_defaults
from ..constants import stopped
from ..cotangents import FLOAT
from ..decompositions import triangle
from ..kinds import any_traced, constant
from ..primitives import all_finite
from ..shapes import as_array
from .entering import by_body, by_partials, dispatching_as, with_short_path
from .samples import STATISTICS

HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
NUMBERS = {float, int, np.float64}


def between_zero_and(high, formula, outside):
    """Return a formula for z between 0 and `high` alone; it gets a number there where z is outside."""

    def chosen(z, *shapes):
        inside = (z > 0.0) & (z < high)
        return np.where(inside, formula(np.where(inside, z, 0.5), *shapes), outside)

    return formula if high is None else chosen


# fmt: off
#: shapes, the end of a support that begins at 0, log density, its partials by z and by each shape
CONTINUOUS: dict[str, tuple[str, float | None, Callable, tuple[Callable, ...]]] = {
    "norm": ("", None, lambda z: -0.5 * z * z - HALF_LOG_2PI, (lambda z: -z,)),
    "laplace": ("", None, lambda z: -np.abs(z) - math.log(2.0), (lambda z: -np.sign(z),)),
    "logistic": ("", None, lambda z: -np.abs(z) - 2.0 * np.log1p(np.exp(-np.abs(z))), (lambda z: -np.tanh(0.5 * z),)),
    "cauchy": ("", None, lambda z: -np.log1p(z * z) - math.log(math.pi), (lambda z: -2.0 * z / (1.0 + z * z),)),
    "expon": ("", None, lambda z: np.where(z >= 0.0, -z, -np.inf), (lambda z: np.where(z >= 0.0, -1.0, 0.0),)),
    "uniform": ("", None, lambda z: np.where((z >= 0.0) & (z <= 1.0), 0.0 * z, -np.inf), (np.zeros_like,)),
    "t": ("df", None, lambda z, df: sp.gammaln(0.5 * df + 0.5) - sp.gammaln(0.5 * df) - 0.5 * np.log(df * math.pi)
                                    - (0.5 * df + 0.5) * np.log1p(z * z / df),
          (lambda z, df: -(df + 1.0) * z / (df + z * z),
           lambda z, df: 0.5 * (sp.psi(0.5 * df + 0.5) - sp.psi(0.5 * df) - np.log1p(z * z / df)
                                + ((df + 1.0) * z * z / (df + z * z) - 1.0) / df))),
    "gamma": ("a", np.inf, lambda z, a: sp.xlogy(a - 1.0, z) - z - sp.gammaln(a),
              (lambda z, a: (a - 1.0) / z - 1.0, lambda z, a: np.log(z) - sp.psi(a))),
    "chi2": ("df", np.inf, lambda z, df: sp.xlogy(0.5 * df - 1.0, z) - 0.5 * z - sp.gammaln(0.5 * df) - 0.5 * math.log(2.0) * df,
             (lambda z, df: (0.5 * df - 1.0) / z - 0.5, lambda z, df: 0.5 * (np.log(0.5 * z) - sp.psi(0.5 * df)))),
    "beta": ("a b", 1.0, lambda z, a, b: sp.xlogy(a - 1.0, z) + sp.xlog1py(b - 1.0, -z) - sp.betaln(a, b),
             (lambda z, a, b: (a - 1.0) / z - (b - 1.0) / (1.0 - z), lambda z, a, b: np.log(z) - sp.psi(a) + sp.psi(a + b),
              lambda z, a, b: np.log1p(-z) - sp.psi(b) + sp.psi(a + b))),
    "lognorm": ("s", np.inf, lambda z, s: -0.5 * (np.log(z) / s) ** 2 - np.log(s) - np.log(z) - HALF_LOG_2PI,
                (lambda z, s: -(np.log(z) / (s * s) + 1.0) / z, lambda z, s: ((np.log(z) / s) ** 2 - 1.0) / s)),
    "gumbel_r": ("", None, lambda z: -z - np.exp(-z), (lambda z: np.expm1(-z),)),
    "gumbel_l": ("", None, lambda z: z - np.exp(z), (lambda z: -np.expm1(z),)),
    "rayleigh": ("", np.inf, lambda z: np.log(z) - 0.5 * z * z, (lambda z: 1.0 / z - z,)),
    "maxwell": ("", np.inf, lambda z: 2.0 * np.log(z) - 0.5 * z * z + 0.5 * math.log(2.0 / math.pi), (lambda z: 2.0 / z - z,)),
    "halfnorm": ("", None, lambda z: np.where(z >= 0.0, 0.5 * math.log(2.0 / math.pi) - 0.5 * z * z, -np.inf),
                 (lambda z: np.where(z >= 0.0, -z, 0.0),)),
    "invgamma": ("a", np.inf, lambda z, a: -(a + 1.0) * np.log(z) - sp.gammaln(a) - 1.0 / z,
                 (lambda z, a: (1.0 / z - a - 1.0) / z, lambda z, a: -np.log(z) - sp.psi(a))),
    "pareto": ("b", None, lambda z, b: np.where(z >= 1.0, np.log(b) - (b + 1.0) * np.log(np.maximum(z, 1.0)), -np.inf),
               (lambda z, b: np.where(z >= 1.0, -(b + 1.0) / np.maximum(z, 1.0), 0.0),
                lambda z, b: np.where(z >= 1.0, 1.0 / b - np.log(np.maximum(z, 1.0)), 0.0))),
    "f": ("dfn dfd", np.inf, lambda z, n, m: 0.5 * (m * np.log(m) + n * np.log(n) - (n + m) * np.log(m + n * z))
                                             + sp.xlogy(0.5 * n - 1.0, z) - sp.betaln(0.5 * n, 0.5 * m),
          (lambda z, n, m: (0.5 * n - 1.0) / z - 0.5 * n * (n + m) / (m + n * z),
           lambda z, n, m: 0.5 * (np.log(n * z / (m + n * z)) + (m - m * z) / (m + n * z) - sp.psi(0.5 * n) + sp.psi(0.5 * (n + m))),
           lambda z, n, m: 0.5 * (np.log(m / (m + n * z)) + (n * z - n) / (m + n * z) - sp.psi(0.5 * m) + sp.psi(0.5 * (n + m))))),
    "weibull_min": ("c", np.inf, lambda z, c: np.log(c) + sp.xlogy(c - 1.0, z) - z**c,
                    (lambda z, c: (c - 1.0 - c * z**c) / z, lambda z, c: 1.0 / c + np.log(z) * (1.0 - z**c))),
}

#: log densities as SciPy computes them, to the last bit (that of weibull_min is not: NumPy takes squares for powers of 2, SciPy none)
SCIPYS: dict[str, Callable] = {
    "t": lambda z, df: np.log(sp.poch(0.5 * df, 0.5)) - 0.5 * (np.log(df) + np.log(np.pi)) - (df + 1.0) / 2.0 * np.log1p(z * z / df),
    **{name: CONTINUOUS[name][2] for name in ("norm", "expon", "gamma", "chi2", "beta")},
}

#: partials of the distribution function by a shape, for z > 0, where they have a closed form
BY_SHAPE: dict[tuple[str, str], Callable] = {
    ("lognorm", "s"): lambda z, s: -np.log(z) / (s * s) * np.exp(-0.5 * (np.log(z) / s) ** 2 - HALF_LOG_2PI),
    ("pareto", "b"): lambda z, b: np.where(z > 1.0, np.log(z) * z**-b, 0.0),
    ("weibull_min", "c"): lambda z, c: np.exp(-(z**c)) * z**c * np.log(z),
}

#: shapes, log mass, distribution function of whole numbers and its complement, the largest number that is possible
DISCRETE: dict[str, tuple[str, Callable, Callable, Callable, Callable]] = {
    "poisson": ("mu", lambda k, mu: sp.xlogy(k, mu) - mu - sp.gammaln(k + 1.0), lambda k, mu: sp.gammaincc(k + 1.0, mu),
                lambda k, mu: sp.gammainc(k + 1.0, mu), lambda mu: np.inf),
    "binom": ("n p", lambda k, n, p: -sp.betaln(n - k + 1.0, k + 1.0) - np.log(n + 1.0) + sp.xlogy(k, p) + sp.xlog1py(n - k, -p),
              lambda k, n, p: sp.betainc(n - k, k + 1.0, 1.0 - p), lambda k, n, p: sp.betainc(k + 1.0, n - k, p),
              lambda n, p: n),
    "nbinom": ("n p", lambda k, n, p: sp.gammaln(n + k) - sp.gammaln(k + 1.0) - sp.gammaln(n) + sp.xlogy(n, p) + sp.xlog1py(k, -p),
               lambda k, n, p: sp.betainc(n, k + 1.0, p), lambda k, n, p: sp.betainc(k + 1.0, n, 1.0 - p),
               lambda n, p: np.inf),
    "bernoulli": ("p", lambda k, p: sp.xlogy(k, p) + sp.xlog1py(1.0 - k, -p), lambda k, p: 1.0 - p, lambda k, p: p,
                  lambda p: 1.0),
}
# fmt: on


# --- distributions ----------------------------------------------------------------------------------------------------------------


def method(distribution: str, name: str, parameters: list[str], enter: Callable) -> Callable:
    """Return a method of a distribution with SciPy's arguments; `enter` gives the function of all of them, by position, a row."""
    scipys = getattr(getattr(stats, distribution), name)
    computed = value_in_short(distribution, scipys) if name == "logpdf" and distribution in SCIPYS else scipys
    either = inspect.Parameter.POSITIONAL_OR_KEYWORD
    defaults = {"loc": 0.0, "scale": 1.0} if distribution in CONTINUOUS else {"loc": 0}
    signature = inspect.Signature(
        [inspect.Parameter(p, either) for p in parameters] + [inspect.Parameter(p, either, default=v) for p, v in defaults.items()]
    )

    def of_all(*args):
        return computed(*args)

    of_all.__signature__ = signature  # type: ignore[attr-defined]  # which errors name arguments by
    plain = enter(of_all, f"scipy.stats.{distribution}.{name}")

    def call(*args: Any, **kwargs: Any) -> Any:
        if not kwargs and 0 <= (given := len(args) - len(parameters)) <= len(defaults):  # for which `bind` takes longer than the rest
            args = *args, *tuple(defaults.values())[given:]
        else:
            args = with_defaults(f"scipy.stats.{distribution}.{name}{signature}", signature, args, kwargs).args
        return plain(*(as_array(arg) if type(arg) in (list, tuple) else arg for arg in args))

    call.__name__, call.__qualname__, call.__doc__ = name, f"{distribution}.{name}", scipys.__doc__
    call.__signature__ = signature  # type: ignore[attr-defined]
    return call


def methods(distribution: str, point: str, shapes: list[str], ways: dict[str, Callable]) -> SimpleNamespace:
    """Return the methods of a distribution, whose first argument is a quantile's level or a point; `ways` give them rows."""
    return SimpleNamespace(
        **{name: method(distribution, name, ["q" if name in ("ppf", "isf") else point, *shapes], enter) for name, enter in ways.items()}
    )


def log_density_of(standard: Callable) -> Callable:
    """Return the log density with a location and a scale."""

    def log_density(x, *rest):
        *given, loc, scale = rest
        return standard((x - loc) / scale, *given) - np.log(scale)

    return log_density


def value_in_short(distribution: str, scipys: Callable) -> Callable:
    """Return SciPy's log density without its checks of arguments, where they are plain and in order."""
    shapes, high, *_ = CONTINUOUS[distribution]
    log_density = log_density_of(between_zero_and(high, SCIPYS[distribution], -np.inf))

    def short(x, *rest):
        if not all(type(part) in NUMBERS or (type(part) is np.ndarray and part.dtype is FLOAT) for part in (x, *rest)):
            return None
        for part in (*rest[:-2], rest[-1]):  # NumPy's logarithms of what is in reverse have other bits
            if not (part.flags.forc and (part > 0.0).all() if type(part) is np.ndarray else part > 0.0):
                return None
        with np.errstate(all="ignore"):
            value = log_density(x, *rest)
            return value if value.size and all_finite(value) else None  # SciPy warns of more where there is nothing

    sample = np.geomspace(1e-4, 1.0 if high == 1.0 else 50.0, 99)
    return with_short_path(scipys, short, [(sample, *(1.7 + k for k in range(len(shapes.split()))), -1e-5, 1.3)])


def partials_of_log_density(slope: Callable, by_shapes: Iterable[Callable]) -> tuple[Callable, ...]:
    def by_x(ans, x, *rest):
        *given, loc, scale = rest
        return slope((x - loc) / scale, *given) / scale

    def by_scale(ans, x, *rest):
        *given, loc, scale = rest
        z = (x - loc) / scale
        return -(1.0 + z * slope(z, *given)) / scale

    def by_shape(rule):
        return lambda ans, x, *rest: rule((x - rest[-2]) / rest[-1], *rest[:-2])

    return (by_x, *map(by_shape, by_shapes), lambda *args: -by_x(*args), by_scale)


def continuous(distribution: str) -> SimpleNamespace:
    """Return the methods of a continuous distribution."""
    shapes, high, formula, slopes = CONTINUOUS[distribution]
    names = shapes.split()
    log_density = log_density_of(between_zero_and(high, formula, -np.inf))
    by_z, *by_shapes = (between_zero_and(high, slope, 0.0) for slope in slopes)
    moving = [BY_SHAPE.get((distribution, shape)) for shape in names]

    def at_point(rule, x, *rest):
        *given, loc, scale = rest
        z = (x - loc) / scale
        return np.where(z > 0.0, rule(np.where(z > 0.0, z, 1.0), *given), 0.0)

    def partials(sign, logarithm=False):
        """Return those of the distribution function (1) or its complement (-1), or of its logarithm, which does not underflow."""

        def share(ans, log_of_density=0.0):
            return sign * np.exp(log_of_density - ans if logarithm else log_of_density)

        def by_x(ans, x, *rest):
            return share(ans, log_density(x, *rest))

        def by_scale(ans, x, *rest):
            return -by_x(ans, x, *rest) * (x - rest[-2]) / rest[-1]

        by_shapes = (rule and (lambda ans, x, *rest, rule=rule: share(ans) * at_point(rule, x, *rest)) for rule in moving)
        return (by_x, *by_shapes, lambda *args: -by_x(*args), by_scale)

    of_quantile = (
        lambda ans, q, *rest: np.exp(-log_density(ans, *rest)),
        *(rule and (lambda ans, q, *rest, rule=rule: -at_point(rule, ans, *rest) * np.exp(-log_density(ans, *rest))) for rule in moving),
        lambda ans, q, *rest: np.ones(np.shape(ans)),
        lambda ans, q, *rest: (ans - rest[-2]) / rest[-1],
    )
    bodies = {
        "logpdf": (log_density, partials_of_log_density(by_z, by_shapes)),
        "pdf": (lambda x, *rest: np.exp(log_density(x, *rest)), None),
    }
    rules = {
        "cdf": partials(1.0),
        "sf": partials(-1.0),
        "logcdf": partials(1.0, logarithm=True),
        "logsf": partials(-1.0, logarithm=True),
        "ppf": of_quantile,
        "isf": (lambda ans, q, *rest: -np.exp(-log_density(ans, *rest)), *of_quantile[1:]),
    }
    ways: dict[str, Callable] = {
        name: lambda fn, title, body=body, given=given: by_body(fn, body, title, partials=given) for name, (body, given) in bodies.items()
    } | {name: lambda fn, title, given=given: by_partials(fn, *given, name=title, singular=True) for name, given in rules.items()}
    return methods(distribution, "x", names, ways)


def discrete(distribution: str) -> SimpleNamespace:
    """Return the masses and distribution functions of a discrete distribution, with derivatives by its parameters."""
    shapes, log_mass, below, above, highest = DISCRETE[distribution]
    names = shapes.split()
    quantile = dispatching_as(lambda *args: getattr(stats, distribution).ppf(*args), f"scipy.stats.{distribution}.ppf")
    constant(quantile)

    def masses(k, *rest):
        *given, loc = rest
        k = stopped(k - loc) * 1.0
        possible = (k >= 0.0) & (k == np.floor(k)) & (k <= highest(*given))
        return np.where(possible, log_mass(np.where(possible, k, 0.0), *given), -np.inf)

    def summed(formula, outside):
        """Return a sum of masses by its formula, of which only the last shape has a derivative, and by what it is outside."""

        def sums(k, *rest):
            *given, loc = rest
            for name, part in zip(names[:-1], given[:-1], strict=True):
                if any_traced(part):
                    raise TypeError(
                        f"scipy.stats.{distribution}: its distribution function has no derivative with respect to {name!r}: pass a plain "
                        f"value there (dualad.primal)"
                    )
            k = np.floor(stopped(k - loc) * 1.0)
            within = (k >= 0.0) & (k < highest(*given))
            return np.where(within, formula(np.where(within, k, 0.0), *given), outside(k))

        return sums

    up_to, beyond = summed(below, lambda k: k >= 0.0), summed(above, lambda k: k < 0.0)
    bodies = {
        "logpmf": masses,
        "pmf": lambda k, *rest: np.exp(masses(k, *rest)),
        "cdf": up_to,
        "sf": beyond,
        "logcdf": lambda k, *rest: np.log(up_to(k, *rest)),
        "logsf": lambda k, *rest: np.log(beyond(k, *rest)),
        "ppf": lambda q, *rest: quantile(q, *rest[:-1]) + rest[-1],  # steps, which only `loc` moves
    }
    ways = {name: lambda fn, title, of=of: by_body(fn, of, title) for name, of in bodies.items()}
    return methods(distribution, "k", names, ways)


DISTRIBUTIONS = {name: continuous(name) for name in CONTINUOUS} | {name: discrete(name) for name in DISCRETE}


# --- of vectors -------------------------------------------------------------------------------------------------------------------


def covariance(cov, size):
    return cov * np.eye(size) if np.ndim(cov) == 0 else np.diag(cov) if np.ndim(cov) == 1 else cov


def normal_body(x, mean=None, cov=1, allow_singular=False):
    """Return the log density by the Cholesky factor of the covariance, which raises where it is singular; of one dimension, each
    number of `x` is a point."""
    size = max([1, *(np.shape(part)[-1] for part in (mean, cov) if part is not None and np.ndim(part))])
    cov = covariance(cov, size)
    points = x[..., None] if size == 1 and np.ndim(x) < 2 else x
    rest = points if mean is None else points - mean
    rest = rest if np.shape(rest)[-1] == size else rest + np.zeros(size)  # SciPy repeats a point of one number
    if allow_singular:
        scales = np.linalg.eigvalsh(cov)
        counts = scales > NEGLIGIBLE * np.max(np.abs(scales))
        distance = np.sum(rest @ np.linalg.pinv(cov, NEGLIGIBLE, hermitian=True) * rest, axis=-1)
        out = -0.5 * distance - np.sum(0.5 * np.log(np.where(counts, scales, 1.0)) + np.where(counts, HALF_LOG_2PI, 0.0))
        return np.squeeze(out)
    factor = np.linalg.cholesky(cov)
    white = np.linalg.solve(factor, np.reshape(rest, (-1, size)).T)
    out = -0.5 * np.sum(white * white, axis=0) - np.sum(np.log(np.diagonal(factor))) - size * HALF_LOG_2PI
    return np.squeeze(np.reshape(out, np.shape(rest)[:-1]))


def full_matrix(cov):
    """Return the matrix of which a covariance holds the lower triangle: itself, where it is symmetric, at a tenth of the cost."""
    return cov if type(cov) is np.ndarray and (cov == cov.T).all() else triangle(cov)


def slope_by_covariance(x, mean, cov):
    """Return the derivative of a log density by a covariance of which both triangles change."""
    precision = np.linalg.inv(full_matrix(cov))
    pull = precision @ (x - mean)
    return 0.5 * (np.outer(pull, pull) - precision)


def fold_triangle(slope):
    """Return the derivative by the lower triangle, which alone is read."""
    return np.tril(2.0 * slope) - np.diag(np.diagonal(slope))


def pull_to(x, mean, cov):
    return np.linalg.solve(full_matrix(cov), x - mean)


#: JVPs and VJPs by the point, the mean and the covariance; of one point
NORMAL_RULES = (
    [
        lambda t, ans, x, mean, cov: -np.sum(pull_to(x, mean, cov) * t),
        lambda t, ans, x, mean, cov: np.sum(pull_to(x, mean, cov) * t),
        lambda t, ans, x, mean, cov: np.sum(slope_by_covariance(x, mean, cov) * triangle(t)),
    ],
    [
        lambda g, ans, x, mean, cov: -g * pull_to(x, mean, cov),
        lambda g, ans, x, mean, cov: g * pull_to(x, mean, cov),
        lambda g, ans, x, mean, cov: g * fold_triangle(slope_by_covariance(x, mean, cov)),
    ],
    lambda x, mean, cov, *args, **kwargs: (
        not args and not kwargs and np.ndim(cov) == 2 and np.shape(x) == np.shape(mean) == np.shape(cov)[:1]
    ),
)


def normal_entropy(mean=None, cov=1):
    cov = covariance(cov, 1 if mean is None else np.size(mean))
    return np.sum(np.log(np.diagonal(np.linalg.cholesky(cov))) + 0.5 + HALF_LOG_2PI)


def dirichlet_body(x, alpha):
    alpha = np.reshape(alpha, (-1,))
    if np.shape(x)[0] == np.shape(alpha)[0] - 1:  # the last share is what is left
        x = np.concatenate([x, 1.0 - np.sum(x, axis=0, keepdims=True)])
    powers = np.squeeze(np.sum(sp.xlogy(alpha - 1.0, np.moveaxis(x, 0, -1)), axis=-1))
    return powers + sp.gammaln(np.sum(alpha)) - np.sum(sp.gammaln(alpha))


def of_vectors(distribution: str, body: Callable, rules: tuple | None = None) -> SimpleNamespace:
    """Return a distribution of vectors: its log density and its density."""
    scipys, name = getattr(stats, distribution), f"scipy.stats.{distribution}"
    return SimpleNamespace(
        logpdf=by_body(lambda *args, **kwargs: scipys.logpdf(*args, **kwargs), body, f"{name}.logpdf", rules),
        pdf=by_body(lambda *args, **kwargs: scipys.pdf(*args, **kwargs), lambda *args, **kw: np.exp(body(*args, **kw)), f"{name}.pdf"),
    )


#: an eigenvalue of a covariance that is smaller than this times the largest one counts as zero, as in SciPy
NEGLIGIBLE = 1e6 * np.finfo(float).eps
VECTORS = {
    "multivariate_normal": of_vectors("multivariate_normal", normal_body, NORMAL_RULES),
    "dirichlet": of_vectors("dirichlet", dirichlet_body),
}
VECTORS["multivariate_normal"].entropy = by_body(
    lambda *args, **kwargs: stats.multivariate_normal.entropy(*args, **kwargs), normal_entropy, "scipy.stats.multivariate_normal.entropy"
)

FUNCTIONS: dict[str, Any] = DISTRIBUTIONS | VECTORS | STATISTICS
