"""dualad.scipy: values are SciPy's own, derivatives those of differences of SciPy's functions; a new row tests itself by a sample."""

import inspect
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from central import differences
from in_groups import for_each
from scipy_calls import check_call, check_refused

import dualad
from checkpoint import grad, vjp
from dualad.rules import ROWS as ROWS_OF_ALL
from dualad.testing import check_derivatives

pytest.importorskip("scipy")
import scipy
from scipy import integrate as scipys_integrate
from scipy import linalg as sl
from scipy import special as sc
from scipy import stats as scipys_stats

from dualad.scipy import integrate, linalg, special, stats

MODULES = {name: import_module(f"dualad.rules.scipy.{name}").FUNCTIONS for name in ("integrate", "linalg", "special", "stats")}
X = np.array([0.35, 0.8, 1.7, 2.6])
P = X / 3.0
ROWS = np.array([[0.3, 1.2, -0.7, 2.0, 0.9], [1.5, -0.2, 0.6, 0.1, 2.2], [0.4, 1.1, 0.8, -0.5, 1.3]])
A = np.array([[2.0, 0.3, 0.1], [0.2, 1.5, 0.4], [0.6, 0.1, 1.8]])
S = A + A.T
B = np.array([[1.0, 0.5], [0.2, -1.0], [0.7, 0.3]])
TURNED = np.array([[0.4, 1.9, -0.3], [2.0, -0.5, 0.6], [-1.1, 0.2, 0.7]])  # its rows change places, and its eigenvalues are no real ones
PLACES = np.cumsum(0.4 + ROWS**2, axis=1)
BAND = np.array([[0.5, 0.2, -0.4, 0.3], [0.1, 0.7, 0.3, -0.2], [3.0, 2.5, 4.0, 3.5]])

STACKS = tuple(map(int, scipy.__version__.split(".")[:2])) >= (1, 16)  # SciPy's functions of matrices take them
BY_POSITION = "x=None, *" in str(inspect.signature(scipys_integrate.simpson))  # in SciPy 1.13 x is a keyword

#: of each function: calls, as positional arguments and keywords
SAMPLES: dict[str, list[tuple[tuple, dict]]] = {
    "special.logsumexp": [((ROWS,), {}), ((ROWS,), {"axis": 1}), ((ROWS,), {"axis": (0, 1), "keepdims": True}), ((X, None, P), {})],
    "special.softmax": [((ROWS,), {}), ((ROWS,), {"axis": 1})],
    "special.log_softmax": [((ROWS,), {}), ((ROWS,), {"axis": 0})],
    "special.multigammaln": [((X + 2.0, 3), {})],
    "special.comb": [((X + 2.0, P), {}), ((P, X), {})],
    "special.perm": [((X + 2.0, P), {}), ((3.7, 1.2), {})],
    "special.factorial": [((X,), {}), ((-X - 0.3,), {}), ((2.3,), {})],
    "special.polygamma": [((0, X), {}), ((2, X), {})],
    **{f"special.spherical_{kind}": [((2, X), {}), ((3, X), {"derivative": True})] for kind in ("jn", "yn", "in", "kn")},
    **{f"special.{name}": [((1, X), {})] for name in ("jvp", "yvp", "ivp", "kvp")},
    **{f"special.{name}": [((1, X.astype(complex)), {})] for name in ("h1vp", "h2vp")},
    **{f"special.{name}": [((X,), {})] for name in ("lambertw", "sinc", "softplus") if hasattr(sc, name)},  # softplus is new
    "special.zeta": [((2.5, X), {})],
    "integrate.trapezoid": [((ROWS,), {}), ((ROWS, np.array([0.0, 0.5, 0.7, 1.5, 2.0])), {}), ((ROWS,), {"dx": 0.3, "axis": 0}),
                            ((ROWS, np.cumsum(ROWS**2 + 0.1, axis=1)), {})],
    "integrate.cumulative_trapezoid": [((ROWS,), {}), ((ROWS, np.array([0.0, 0.5, 1.5])), {"axis": 0, "initial": 0})],
    "integrate.simpson": [((ROWS,), {}), ((ROWS,), {"dx": 0.3, "axis": 0}), ((ROWS,), {"x": np.array([0.0, 0.5, 0.7, 1.5, 2.0])}),
                          *([((ROWS[:, :4], PLACES[0, :4]), {}), ((ROWS, PLACES), {}), ((ROWS[:2], PLACES[:2]), {"axis": 0})]
                            if BY_POSITION else [])],
    "integrate.romb": [((ROWS,), {}), ((ROWS, 0.7), {}), ((ROWS[:, :3], 2, 0), {})],
    "integrate.cumulative_simpson": [((ROWS,), {"dx": 0.3}), ((ROWS,), {"axis": 0}), ((ROWS,), {"x": X[:3], "axis": 0}),
                                     ((ROWS,), {"initial": 0.7}),
                                     ((ROWS,), {"initial": B[:, :1]})],
    "linalg.solve": [((A, B), {}), ((A, B[:, 0]), {"transposed": True}), ((S, B), {"assume_a": "pos"}),
                     ((A, B), {"assume_a": "sym", "lower": True})],
    "linalg.solve_triangular": [((A, B), {}), ((A, B), {"lower": True, "trans": 1}),
                                ((A, B[:, 0]), {"unit_diagonal": True, "check_finite": False})],
    "linalg.inv": [((A,), {}), *([((S,), {"assume_a": "pos", "lower": True})] if "assume_a" in str(inspect.signature(sl.inv)) else [])],
    "linalg.det": [((A,), {"check_finite": False})],
    "linalg.pinv": [((B,), {})],
    "linalg.pinvh": [((S,), {}), ((S + TURNED,), {"lower": False})],
    "linalg.polar": [((A,), {}), ((B,), {}), ((A,), {"side": "left"}),
                     *([((np.stack([A, S]),), {"side": side}) for side in ("left", "right")] if STACKS else [])],
    "linalg.orthogonal_procrustes": [((B, TURNED[:, :2]), {}), ((A, TURNED), {"check_finite": False})],
    "linalg.companion": [((X,), {}), ((P[:2],), {})],
    "linalg.cholesky": [((S,), {}), ((S + A - A.T,), {"lower": True})],
    "linalg.cho_factor": [],  # whose other triangle is anything, tested below
    "linalg.cho_solve": [(((np.linalg.cholesky(S), True), B), {}), (((np.linalg.cholesky(S).T, False), B[:, 0]), {})],
    "linalg.block_diag": [((A, B, X), {})],
    "linalg.toeplitz": [((X,), {}), ((X, P[:2]), {})],
    "linalg.norm": [((A,), {}), ((X,), {"ord": 3}), ((A,), {"axis": 1})],
    "linalg.solve_sylvester": [((A, -S[:2, :2], B), {})],
    "linalg.solve_continuous_lyapunov": [((A, S), {})],
    "linalg.solve_discrete_lyapunov": [((0.4 * A, S), {}), ((0.4 * A, S), {"method": "bilinear"})],
    "linalg.solve_continuous_are": [((A, B, S, np.eye(2)), {})],
    "linalg.solve_discrete_are": [((A, B, S, np.eye(2)), {"balanced": False})],
    "linalg.solve_banded": [(((1, 1), BAND[[0, 2, 1]], X), {}), (((0, 2), BAND, np.stack([X, P], -1)), {"check_finite": False}),
                            (((2, 0), BAND[::-1], X), {"check_finite": False})],
    "linalg.solveh_banded": [((BAND[[2, 1]], X), {"lower": True}), ((BAND[[0, 2]], np.stack([X, P], -1)), {})],
    "linalg.solve_toeplitz": [(((X[::-1], P[::-1]), B[:1].repeat(4, 0)), {}), ((X[::-1], X), {})],
    "linalg.matmul_toeplitz": [(((X, P), ROWS[0, :4]), {})],
    "linalg.solve_circulant": [((X, P), {}), ((X, np.stack([X, P], -1)), {})],
    "linalg.circulant": [((X,), {}), ((0.7,), {})],
    "linalg.hankel": [((X,), {}), ((X, P[:2]), {})],
    "linalg.khatri_rao": [((A[:2], S), {})],
    "linalg.lu": [((A,), {}), ((TURNED,), {"permute_l": True}), ((TURNED,), {"p_indices": True})],
    "linalg.lu_factor": [((TURNED,), {"overwrite_a": True})],
    "linalg.lu_solve": [((sl.lu_factor(TURNED), B), {}), ((sl.lu_factor(TURNED), B[:, 0]), {"trans": 1})],
    "linalg.qr": [((A,), {}), ((B,), {"mode": "economic"}), ((ROWS,), {"mode": "r"}), ((TURNED,), {"pivoting": True})],
    "linalg.svd": [((A,), {}), ((ROWS,), {"full_matrices": False}), ((ROWS,), {"compute_uv": False}), ((A,), {"lapack_driver": "gesvd"})],
    "linalg.svdvals": [((ROWS,), {})],
    "linalg.eigh": [((S,), {"driver": "evd"}), ((S, A @ A.T + np.eye(3)), {"driver": "gvd"}),
                    ((S, A @ A.T + np.eye(3)), {"lower": False, "driver": "gvd"}),
                    ((S + TURNED,), {"lower": False, "eigvals_only": True}), ((S,), {"subset_by_index": [1, 2]}),
                    ((S, A @ A.T + np.eye(3)), {"subset_by_index": (0, 1)}), ((S,), {"subset_by_index": [1, 1], "driver": "evx"}),
                    ((S,), {"subset_by_index": [1, 1], "eigvals_only": True})],
    "linalg.eigvalsh": [((S,), {}), ((S, A @ A.T + np.eye(3)), {"lower": False}), ((S,), {"subset_by_index": [0, 1]})],
    "linalg.eig": [((A,), {}), ((TURNED,), {})],
    "linalg.eigvals": [((A,), {}), ((TURNED,), {})],
    "linalg.eigvalsh_tridiagonal": [((X, P[:3]), {})],
    "linalg.lstsq": [((B, S[:, 0]), {}), ((B, S), {"cond": 1e-9})],
    "linalg.fractional_matrix_power": [((S[:2, :2], 0.3), {})],
    "linalg.expm": [((0.3 * A,), {})],
    **{f"linalg.{name}": [((0.4 * A[:2, :2],), {})] for name in ("logm", "cosm", "sinm", "tanm", "coshm", "sinhm", "tanhm")},
    "linalg.signm": [((TURNED[:2, :2],), {})],
    "linalg.sqrtm": [((S,), {})],
    "stats.gmean": [((ROWS**2 + 0.1,), {}), ((X,), {"axis": None}), ((X,), {"weights": P}), ((0.7,), {}),
                    ((ROWS**2 + 0.1,), {"axis": (0, 1), "keepdims": True})],
    "stats.hmean": [((ROWS**2 + 0.1,), {"axis": 1}), ((ROWS**2 + 0.1,), {"axis": 1, "weights": ROWS**2, "keepdims": True})],
    "stats.sem": [((ROWS,), {}), ((ROWS,), {"axis": None, "ddof": 0}), ((ROWS,), {"axis": (0, 1), "keepdims": True})],
    "stats.trim_mean": [((ROWS, 0.2), {"axis": 1}), ((ROWS, 0.1), {"axis": None})],
    "stats.moment": [((ROWS, 3), {"axis": 1}), ((X, 2), {"center": 0.4})],
    "stats.variation": [((ROWS + 2.0,), {"axis": 1, "ddof": 1})],
    "stats.gstd": [((X,), {})],
    "stats.pmean": [((X, 3.0), {}), ((X, -0.5), {"weights": P})],
    "stats.entropy": [((X,), {}), ((X, P[::-1]), {"base": 2.0}), ((ROWS**2, X[:3, None] * ROWS[0] ** 2), {"axis": 1}),
                      ((ROWS**2, ROWS[0] ** 2), {"axis": 1})],
    "stats.pearsonr": [],  # of two results, tested below
    "stats.zmap": [((X, P), {}), ((ROWS, ROWS**2), {"axis": 1, "ddof": 1})],
    "stats.zscore": [((ROWS,), {}), ((ROWS,), {"axis": 1, "ddof": 1})],
    "stats.skew": [((ROWS,), {"axis": 1}), ((ROWS,), {"bias": False, "keepdims": True}), ((ROWS[:2],), {"bias": False})],
    "stats.kurtosis": [((ROWS,), {"axis": 1}), ((ROWS,), {"fisher": False}), ((ROWS,), {"axis": 1, "bias": False}),
                       ((ROWS,), {"axis": None, "bias": False, "fisher": False})],
    "stats.multivariate_normal.logpdf": [((X[:3], P[:3], S), {}), ((X[:3], P[:3], S + A - A.T), {}), ((ROWS[:, :3], X[:3], S), {}),
                                         ((X[:3], P[:3]), {"cov": np.diag(P[:3])}), ((X, 0.3, 2.0), {}),
                                         ((X[:1],), {"cov": S}), ((X[:1],), {"cov": S, "allow_singular": True}),
                                         ((X[:3], P[:3], S), {"allow_singular": True})],
    "stats.dirichlet.logpdf": [((np.array([0.2, 0.3, 0.5]), X[:3]), {}), ((np.array([0.2, 0.3]), X[:3]), {})],
    "stats.poisson.logpmf": [((np.array([0.0, 1.0, 4.0, 2.0]), X), {}), ((3, 1.5), {"loc": 1})],
    "stats.binom.logpmf": [((np.array([0.0, 1.0, 4.0, 5.0]), 5, P), {})],
    "stats.nbinom.logpmf": [((np.array([0.0, 1.0, 4.0, 7.0]), X, P), {})],
    "stats.bernoulli.logpmf": [((np.array([0.0, 1.0, 1.0, 0.0]), P), {})],
}  # fmt: skip
SHAPES = {
    "t": (3.5,), "gamma": (2.3,), "chi2": (3.2,), "beta": (1.7, 2.4), "lognorm": (0.8,), "weibull_min": (1.6,), "invgamma": (2.3,),
    "pareto": (1.7,), "f": (2.4, 3.7),
}  # fmt: skip
CLOSED = {"lognorm", "pareto", "weibull_min"}  # whose distribution functions have partials by shapes
#: arguments that are plain numbers to these functions
PLAIN = {"special.multigammaln": {1}, "special.polygamma": {0}, "special.zeta": {0},
         "stats.poisson.logpmf": {0}, "stats.binom.logpmf": {0, 1},
         "stats.nbinom.logpmf": {0}, "stats.bernoulli.logpmf": {0},
         "stats.dirichlet.logpdf": {0}, "stats.trim_mean": {1}, "stats.moment": {1}, "stats.pmean": {1},
         "integrate.romb": {1, 2},
         "linalg.solve_continuous_are": {2, 3}, "linalg.solve_discrete_are": {2, 3}}  # fmt: skip

for _name in ("poisson", "binom", "nbinom", "bernoulli"):
    for _method in ("pmf", "cdf", "sf", "logcdf", "logsf", "ppf"):
        SAMPLES[f"stats.{_name}.{_method}"] = (
            [((P, *call[0][1:]), call[1]) for call in SAMPLES[f"stats.{_name}.logpmf"]]
            if _method == "ppf"
            else SAMPLES[f"stats.{_name}.logpmf"]
        )
        counts = {0} if _name in ("bernoulli", "poisson") or _method in ("pmf", "ppf") else {0, 1}
        PLAIN[f"stats.{_name}.{_method}"] = PLAIN[f"stats.{_name}.logpmf"] | counts
SAMPLES["stats.bernoulli.logsf"] = [((np.zeros(4), P), {})]
SAMPLES["stats.binom.logsf"] = [((np.array([0.0, 1.0, 4.0, 2.0]), 5, P), {})]  # finite
SAMPLES["stats.multivariate_normal.entropy"] = [((None, S), {}), ((X[:3], 0.7), {})]
for _name in ("multivariate_normal", "dirichlet"):
    SAMPLES[f"stats.{_name}.pdf"] = SAMPLES[f"stats.{_name}.logpdf"]
PLAIN["stats.dirichlet.pdf"] = {0}
for _name in MODULES["stats"]:
    if hasattr(MODULES["stats"][_name], "logcdf") and hasattr(MODULES["stats"][_name], "logpdf"):
        given = SHAPES.get(_name, ())
        for _method in ("logpdf", "pdf", "cdf", "sf", "logcdf", "logsf", "ppf", "isf"):
            x = P if _method in ("ppf", "isf") or _name in ("beta", "uniform") else X + 1.5 * (_name == "pareto")
            SAMPLES[f"stats.{_name}.{_method}"] = [((x, *given, 0.05, 1.3), {}), ((x, *given), {"scale": np.array([0.9, 1.0, 1.1, 1.2])})]
            if "pdf" not in _method and _name not in CLOSED:
                PLAIN[f"stats.{_name}.{_method}"] = set(range(1, 1 + len(given)))


def looked_up(name, root):
    module, *rest = name.split(".")
    thing = import_module(f"{root}.{module}")
    for part in rest:
        thing = getattr(thing, part)
    return thing


def public():
    for module, functions in MODULES.items():
        for name, thing in functions.items():
            yield from (f"{module}.{name}.{method}" for method in vars(thing)) if not callable(thing) else [f"{module}.{name}"]


def test_every_row_has_a_sample():
    assert set(public()) == set(SAMPLES)
    for name in set(dualad.scipy.__all__) - set(MODULES):
        assert (Path(__file__).parent / f"test_{name}.py").exists(), "a module that has no samples here has tests of its own"


CALLS = [(name, k, *call) for name, calls in SAMPLES.items() for k, call in enumerate(calls)]


@pytest.mark.filterwarnings("ignore")
@for_each("name, k, args, kwargs", CALLS, lambda call: call[0])
def test_values_and_derivatives_are_those_of_scipy(name, k, args, kwargs):
    ours, scipys = (looked_up(name, root) for root in ("dualad.scipy", "scipy"))
    check_call(ours, scipys, args, kwargs, PLAIN.get(name, ()), order=1 if k else 2, step=1e-4)


@pytest.mark.parametrize(
    "name",
    ["special.logsumexp", "stats.norm.logpdf", "stats.gamma.logpdf", "linalg.solve", "integrate.trapezoid", "stats.skew", "stats.sem"],
)
def test_they_compile(name):
    pytest.importorskip("llvmlite")
    args, kwargs = SAMPLES[name][1 if name in ("stats.skew", "stats.sem") else 0]
    ours = looked_up(name, "dualad.scipy")
    loss = lambda x: np.sum(ours(x, *args[1:], **kwargs))
    np.testing.assert_allclose(dualad.jit(loss)(args[0]), loss(args[0]), rtol=1e-12)
    np.testing.assert_allclose(dualad.jit(grad(loss))(args[0]), grad(loss)(args[0]), rtol=1e-10)


def test_cho_factor_and_cho_solve_go_together():
    loss = lambda s: np.sum(linalg.cho_solve(linalg.cho_factor(s), B))
    np.testing.assert_allclose(grad(loss)(S), -np.triu(2.0 * np.ones((3, 3)) - np.eye(3)) * symmetric_share(), rtol=1e-9)


def symmetric_share():
    """Return the gradient of sum(inv(S) @ B) by the entries of S, symmetrised: the upper triangle alone is read."""
    inverse = np.linalg.inv(S)
    full = np.outer(inverse @ np.ones(3), inverse @ B @ np.ones(2))
    return 0.5 * (full + full.T)


def test_correlation_with_its_probability():
    x, y = ROWS[0], ROWS[1]
    ours, theirs = lambda x: tuple(stats.pearsonr(x, y))[:2], scipys_stats.pearsonr(x, y)
    value, _ = dualad.jvp(ours, (x,), (y,))
    assert (value[0], value[1]) == (theirs.statistic, theirs.pvalue)
    check_derivatives(ours, x, vjp=vjp)
    assert stats.pearsonr(x, y).confidence_interval() == theirs.confidence_interval()
    with pytest.raises(TypeError, match=r"scipy.stats.pearsonr has no derivative with these arguments: .*alternative"):
        grad(lambda x: stats.pearsonr(x, y, alternative="less").statistic)(x)


def test_distributions_with_their_parameters():
    assert grad(lambda s: np.sum(stats.norm(0.3, scale=s).logpdf(X)))(1.3) == grad(lambda s: np.sum(stats.norm.logpdf(X, 0.3, s)))(1.3)
    assert stats.norm(0.3, 1.3).mean() == 0.3
    assert stats.multivariate_normal(X[:3], S).logpdf(ROWS[:, :3]).shape == (3,)


def test_places_that_are_traced_alone_move_integrals():
    for name in ("simpson", "cumulative_simpson"):
        ours, scipys = (lambda x, s=s, name=name: getattr(s, name)(ROWS, x=x)[..., -1].sum() for s in (integrate, scipys_integrate))
        for derived in (grad, dualad.gradient):
            np.testing.assert_allclose(derived(ours)(PLACES[0]), differences(scipys, PLACES[0], 1e-5), rtol=1e-7)


def test_counts_without_a_derivative_are_refused_by_name():
    for name in ("binom", "nbinom"):
        check_refused(3.3, [(lambda n, name=name: getattr(stats, name).logsf(2, n, 0.4), rf"scipy.stats.{name}: .*with respect to 'n'")])
    check_refused(
        0.3, [(lambda x: linalg.inv(np.eye(2) * x, overwrit_a=True), r"scipy.linalg.inv.* unexpected keyword argument 'overwrit_a'")]
    )


def test_unknown_keywords_are_refused_by_name():
    for name, calls in SAMPLES.items():
        ours = looked_up(name, "dualad.scipy")
        for args, kwargs in [call for call in calls if type(call[0][0]) is np.ndarray][:1]:
            with pytest.raises(TypeError, match="unexpected keyword argument 'wrong'") as error:
                dualad.jvp(lambda x, f=ours, a=args, k=kwargs: f(x, *a[1:], **k, wrong=1), args[:1], args[:1])
            assert name.split(".")[-1] in str(error.value) or name == "special.softplus"  # which is logaddexp's


def test_log_densities_do_not_underflow():
    far = grad(lambda x: stats.norm.logcdf(x))(-40.0)
    assert far == pytest.approx(40.0249688, rel=1e-6)  # the inverse of Mills' ratio, x + 1 / x
    assert dualad.derivative(lambda x: stats.norm.logsf(x))(40.0) == pytest.approx(-40.0249688, rel=1e-6)


def test_distributions_are_those_of_scipy_but_for_their_rows():
    assert stats.norm.rvs(size=3, random_state=1).tolist() == scipys_stats.norm.rvs(size=3, random_state=1).tolist()
    assert isinstance(stats.norm, scipys_stats.rv_continuous) and isinstance(stats.poisson, scipys_stats.rv_discrete)
    assert stats.norm(1.0, 2.0).std() == 2.0 and stats.norm.support() == scipys_stats.norm.support()
    with pytest.raises(TypeError, match=r"entropy asks a traced Dual"):
        dualad.derivative(lambda scale: stats.norm.entropy(scale=scale))(2.0)


def test_the_density_of_a_singular_normal_distribution():
    directions = np.array([[1.0, 0.5], [0.0, 1.0], [1.0, 1.5]])
    cov, x = directions @ directions.T, directions @ np.array([0.3, -0.8])
    wanted = -np.linalg.pinv(cov, hermitian=True) @ x
    for found in (grad, dualad.gradient):
        np.testing.assert_allclose(
            found(lambda x: stats.multivariate_normal.logpdf(x, None, cov, allow_singular=True))(x), wanted, rtol=1e-9
        )
    pytest.importorskip("llvmlite")
    compiled = dualad.jit(grad(lambda x, cov: stats.multivariate_normal.logpdf(x, None, cov, allow_singular=True)))
    np.testing.assert_allclose(compiled(x, cov), wanted, rtol=1e-9)
    assert "called" not in compiled.explain(x, cov), "no Python runs in a Kalman filter's likelihood"


@pytest.mark.parametrize("singular", [False, True])
def test_densities_of_vectors_have_scipys_shapes_under_jit(singular):
    for shape in ((1,), (1, 3, 1)):
        x, cov = np.full(shape, 0.3), np.array([[2.0]])
        value = dualad.jit(lambda x, cov=cov: stats.multivariate_normal.logpdf(x, None, cov, singular))(x)
        assert np.shape(value) == np.shape(scipys_stats.multivariate_normal.logpdf(x, None, cov, singular))
    x, alpha = np.array([[0.3], [0.7]]), [2.0, 3.0]
    assert np.shape(dualad.jit(lambda x: stats.dirichlet.logpdf(x, alpha))(x)) == np.shape(scipys_stats.dirichlet.logpdf(x, alpha))


def test_outside_of_the_support_the_derivative_is_zero():
    assert grad(special.logsumexp)(np.array([-np.inf, 1.0, 800.0])).tolist() == [0.0, 0.0, 1.0]
    for name, *plain in (("poisson",), ("binom", 5)):
        masses = getattr(stats, name).logpmf
        slopes = grad(lambda p, masses=masses, plain=plain: np.sum(masses(np.array([2.5, 7.0, 2.0]), *plain, p)[[0, 2]]))(P[:3])
        assert slopes[0] == 0.0 != slopes[2]
    x = np.array([-1.0, 0.5])
    for name in ("gamma", "chi2", "lognorm", "weibull_min"):
        dist = getattr(stats, name)
        at_zero, inside = grad(lambda x, dist=dist: np.sum(dist.pdf(x, 2.5)))(x)
        assert at_zero == 0.0
        assert np.isfinite(inside)


def test_what_has_no_derivative_is_refused_by_name():
    cases = [
        (lambda x: stats.gamma.cdf(1.0, x), "scipy.stats.gamma.cdf has no derivative .* argument 'a'"),
        (lambda x: stats.norm.logpdf(x, sigma=2.0), r"scipy.stats.norm.logpdf\(x, loc=0.0, scale=1.0\)"),
        (lambda x: stats.skew(x, nan_policy="omit"), "scipy.stats.skew has no derivative with these arguments"),
        (lambda x: linalg.expm(x[0, 0]), r"a function of matrices has no derivative of a number: give a matrix of shape \(1, 1\)"),
        (lambda x: linalg.sqrtm(x[0, 0]), "of matrices has no derivative of a number|[Nn]on-matrix"),  # SciPy 1.13 refuses it itself
        (lambda x: linalg.lu_factor(x[0, 0]), r"of a square matrix, not of shape \(\)|expected matrix|at least two-dim"),
        (lambda x: linalg.solve(x, B, assume_a="banded"), "banded"),  # a ValueError of SciPy 1.13, which does not know it
    ]
    check_refused(A, cases)


#: calls with a word that SciPy does not know
WORDS = {
    "signal.convolve": (lambda m, x: m.convolve(x, x, method="nope"), X),
    "signal.detrend": (lambda m, x: m.detrend(x, type="nope"), X),
    "ndimage.map_coordinates": (lambda m, x: m.map_coordinates(x, [[0.5]], mode="nope"), X),
    "linalg.solve_discrete_lyapunov": (lambda m, x: m.solve_discrete_lyapunov(x, x, "nope"), A),
    "linalg.eigvalsh": (lambda m, x: m.eigvalsh(x, driver="nope"), S),
    "linalg.eigvalsh_tridiagonal": (lambda m, x: m.eigvalsh_tridiagonal(x, x[1:], lapack_driver="nope"), X),
    "linalg.lstsq": (lambda m, x: m.lstsq(x, X[:3], lapack_driver="nope")[0], A),
}


@pytest.mark.parametrize("name", WORDS)
def test_words_that_scipy_refuses_are_refused_in_programs(name):
    call, x = WORDS[name]
    module = name.partition(".")[0]
    with pytest.raises((ValueError, RuntimeError)) as scipys:
        call(import_module(f"scipy.{module}"), x)
    ours = import_module(f"dualad.scipy.{module}")
    for f in (lambda x: np.sum(call(ours, x)), grad(lambda x: np.sum(call(ours, x)))):
        with pytest.raises(type(scipys.value)) as error:
            dualad.jit(f)(x)
        assert str(scipys.value) in str(error.value)


def test_ufuncs_take_lists_of_traced_numbers():
    for f in (lambda x: special.expit([x[0], 2.0])[0] * special.xlogy([[x[1]]], [x[2], 0.3])[0, 1], lambda x: special.erf(x[:1])[0]):
        np.testing.assert_allclose(grad(f)(X), differences(f, X), rtol=1e-6)
        np.testing.assert_allclose(dualad.gradient(f)(X), differences(f, X), rtol=1e-6)
    for words in ("not supported", "unexpected keyword"):
        with pytest.raises(TypeError, match=words):
            grad(lambda x, words=words: special.expit([x[0], "a"]) if "not" in words else special.expit(x, nope=1))(X)


def test_defaults_of_bodies_are_scipys():
    """Derivatives often do not show them, values of eager code never: those are SciPy's own."""
    checked = 0
    for name in ("fft", "fftpack", "integrate", "interpolate", "linalg", "ndimage", "signal", "special", "stats"):
        import_module(f"dualad.rules.scipy.{name}")
    for row in ROWS_OF_ALL.values():
        closure = inspect.getclosurevars(row.body).nonlocals if inspect.isfunction(getattr(row, "body", None)) else {}
        for name, parameter in closure["known"].parameters.items() if {"known", "scipys"} <= closure.keys() else ():
            scipys = closure["scipys"].parameters.get(name, parameter).default
            if scipys is not inspect.Parameter.empty and not isinstance(scipys, str):
                assert parameter.default == scipys, f"{closure['name']}: {name}"
                checked += 1
    assert checked > 300


def test_entropies_whose_axis_is_broadcast_are_refused():
    """SciPy 1.13 normalises both first, later ones what was broadcast."""
    check_refused(
        ROWS**2, [(lambda q: stats.entropy(X[:1].repeat(5), q), "entropy has no derivative where axis 0 of pk or qk is broadcast")]
    )


def test_names_are_scipys():
    assert special.erf is special.erf
    assert special.erf.__wrapped__ is sc.erf
    assert special.xlogy.nin == 2
    assert {"erf", "logsumexp", "gammaln"} <= set(dir(special))
    with pytest.raises(AttributeError, match=r"scipy.stats.levy_stable has no derivative here: .*dualad.primitive"):
        _ = stats.levy_stable
    with pytest.raises(AttributeError, match=r"module 'scipy.stats' has no attribute 'nonesuch'"):
        _ = stats.nonesuch
    with pytest.raises(AttributeError, match=r"it has .*integrate, .*linalg, .*special, .*stats"):
        _ = dualad.scipy.nonesuch
