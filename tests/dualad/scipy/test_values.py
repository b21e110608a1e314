"""What takes SciPy's value in a shorter way has its bits and types for all inputs, its warnings and errors; its derivative is one entry."""

import warnings

import numpy as np
import pytest

import dualad
from checkpoint import grad
from checkpoint.reverse.recording import Recording

pytest.importorskip("scipy")
from scipy import special as scipys_special
from scipy import stats as scipys_stats

from dualad.rules.scipy.entering import with_short_path
from dualad.rules.scipy.stats import CONTINUOUS
from dualad.scipy import special, stats

EXTREMES = [0.0, -0.0, 1.0, np.inf, -np.inf, np.nan, 1e200, -1e200, 1e-200, 5e-324, 0.5, -3.0]
RNG = np.random.default_rng(3)


def outcome(fn, *args, **kwargs):
    """Return type, shape and bits of a result, or its error, and the warnings on the way."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            value = fn(*args, **kwargs)
            found = type(value), np.shape(value), np.asarray(value).tobytes()
        except Exception as error:
            found = type(error), str(error)
    return found, sorted({str(warning.message) for warning in caught})


def points():
    yield from EXTREMES
    yield np.array(EXTREMES)
    yield np.array(0.4)
    yield np.zeros((0, 3))
    yield [0.3, 0.8]
    yield np.arange(5)
    yield RNG.random((7, 9)).astype("f4")
    for scale in (1e-3, 1.0, 1e3):
        yield (scale * RNG.standard_normal((11, 8)))[::2].T


@pytest.mark.parametrize("name", CONTINUOUS)
def test_log_densities_are_those_of_scipy(name):
    shapes = [1.7, 0.6][: len(CONTINUOUS[name][0].split())]
    ours, scipys = getattr(stats, name).logpdf, getattr(scipys_stats, name).logpdf
    for x in points():
        for rest in ((*shapes,), (*shapes, 0.1, 1.3), (*shapes, 0.0, np.array([[2.0], [-1.0]]) if np.ndim(x) == 1 else 0.0)):
            assert outcome(ours, x, *rest) == outcome(scipys, x, *rest)
    if shapes:
        for shape in (0.0, -2.0, np.inf, np.nan):
            assert outcome(ours, 0.4, shape, *shapes[1:]) == outcome(scipys, 0.4, shape, *shapes[1:])


def test_powers_reversed_and_empty_arrays_are_those_of_scipy():
    x = 3.0 * RNG.random(50)
    for c in (2, 0.5, np.array([2.0])):
        assert outcome(stats.weibull_min.logpdf, x, c, -0.4) == outcome(scipys_stats.weibull_min.logpdf, x, c, -0.4)
    scale = np.geomspace(0.1, 1e3, 5000)[::-1]
    for args in ((0.1, scale), (0.0, scale[::2])):
        assert outcome(stats.norm.logpdf, 0.7, *args) == outcome(scipys_stats.norm.logpdf, 0.7, *args)
        assert outcome(stats.t.logpdf, 0.7, args[1]) == outcome(scipys_stats.t.logpdf, 0.7, args[1])
    for shape in (np.inf, np.array([])):
        assert outcome(stats.t.logpdf, 0.7, np.array([]), shape, np.inf) == outcome(scipys_stats.t.logpdf, 0.7, np.array([]), shape, np.inf)


def test_partials_of_extreme_arguments_are_finite():
    x = np.array([0.3, 0.8])
    with np.errstate(over="ignore"):  # in SciPy
        np.testing.assert_allclose(grad(lambda x: np.sum(stats.lognorm.logpdf(x, 1e200)))(x), -1.0 / x)
        assert grad(lambda s: np.sum(stats.lognorm.cdf(x, s)))(1e200) == 0.0
    assert grad(lambda loc: np.sum(np.exp(stats.uniform.logpdf(np.array([0.5, np.inf]), loc))))(0.1) == 0.0


def test_masks_are_refused_and_lists_are_arrays():
    x = np.array([0.3, 0.5, 0.8])
    for derivative in (grad, dualad.derivative):
        with pytest.raises(TypeError, match="mask"):
            derivative(lambda s: np.sum(stats.norm.logpdf(np.ma.masked_array(x, [0, 1, 0]), 0.1, s)))(1.3)
        for method in (stats.norm.logpdf, stats.norm.cdf, stats.gamma.sf):
            assert derivative(lambda s, f=method: np.sum(f(list(x), 0.1, scale=s)))(1.3) == derivative(
                lambda s, f=method: np.sum(f(x, 0.1, scale=s))
            )(1.3)
            found = derivative(lambda s, f=method: np.sum(f([[s], [0.5]], [0.1, 0.2])))(1.3)
            assert found == derivative(lambda s, f=method: np.sum(f(s, np.array([0.1, 0.2]))))(1.3)
    assert grad(lambda mu: np.sum(stats.poisson.logpmf([1, 2], mu)))(1.5) == pytest.approx(0.0)


def test_the_logarithm_of_a_sum_is_that_of_scipy():
    for x in [*points(), np.full((3, 2), -np.inf), np.ones((2, 3), complex), np.array([[1e308, -1e308], [2.0, np.nan]])]:
        for kwargs in ({}, {"axis": -1}, {"axis": 1, "keepdims": True}, {"axis": (0,)}, {"b": 2.0}, {"return_sign": True}, {"axis": 5}):
            assert outcome(special.logsumexp, x, **kwargs) == outcome(scipys_special.logsumexp, x, **kwargs)


def test_where_the_bits_of_another_scipy_differ_they_are_taken():
    asked = []
    theirs = lambda x: asked.append(x) or x * 1.1
    assert with_short_path(theirs, lambda x: x + 0.1 * x, [(np.arange(9.0),)])(3.0) == theirs(3.0)
    taken = with_short_path(theirs, lambda x: x * 1.1, [(np.arange(9.0),)])
    assert taken(3.0) == 3.0 * 1.1 and asked
    del asked[:]
    assert taken(4.0) == 4.0 * 1.1 and not asked


@pytest.mark.parametrize("name", CONTINUOUS)
def test_a_log_density_is_one_entry_of_the_tape(name):
    shapes = [1.7, 2.6][: len(CONTINUOUS[name][0].split())]
    density, x = getattr(stats, name).logpdf, np.array([0.2, 0.7, -0.5, 0.9, 1.5])
    args = (x, *shapes, 0.05, 1.2)
    assert len(Recording(density, args, "test", False, False).tape.entries) - len(args) == 1
    for at in (x, 0.7, -0.5):
        loss = lambda *args: np.sum(density(*args))
        args = (at, *shapes, 0.05, 1.2)
        for i, found in enumerate(grad(loss, argnums=tuple(range(len(args))))(*args)):
            along = lambda x, args=args, i=i: loss(*args[:i], x, *args[i + 1 :])
            forward = dualad.gradient if np.ndim(args[i]) else dualad.derivative
            np.testing.assert_allclose(found, forward(along)(args[i]), rtol=1e-13, atol=1e-15)


def test_lists_of_traced_numbers_are_arrays():
    a, calls = np.array([0.3, 0.4]), (special.logsumexp, special.softmax, special.lambertw, stats.gmean, stats.entropy)
    for fn in calls:
        listed, stacked = lambda a, fn=fn: np.sum(fn([a[0], 0.5]).real), lambda a, fn=fn: np.sum(fn(np.stack([a[0], 0.5])).real)
        assert listed(a) == stacked(a)
        of_objects = lambda a, fn=fn: np.sum(fn(np.array([a[0], 0.5])).real)
        for derived in (grad, dualad.gradient):
            np.testing.assert_allclose(derived(listed)(a), derived(stacked)(a), rtol=1e-14)
            np.testing.assert_allclose(derived(of_objects)(a), derived(listed)(a), rtol=1e-14)
    density = lambda a: np.sum(stats.norm.logpdf([0.1, 0.2], np.array([a[0], a[1]]), 1.3))
    np.testing.assert_allclose(grad(density)(a), grad(lambda a: np.sum(stats.norm.logpdf([0.1, 0.2], a, 1.3)))(a), rtol=1e-14)
    nested = lambda a: special.logsumexp([[a[0], 0.5], [0.2, a[1]]])
    assert dualad.jvp(nested, (a,), (a,))[0] == nested(a)
