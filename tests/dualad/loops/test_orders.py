"""What searches and sorts, in loops: NumPy's answers bit for bit, also of ties, NaN, -0.0 and infinities, and eager derivatives."""

import numpy as np
import pytest
from comparing import same
from hypothesis import given, settings
from hypothesis import strategies as st
from in_loops import chain_is_made_in_blocks, has_eager_derivatives

from checkpoint import chain, grad
from dualad import jit
from dualad.jit.compiled import BACKENDS
from dualad.support.costs import ONE_BY_ONE

pytest.importorskip("llvmlite", reason="llvmlite is not installed")

EDGES = np.array([-2.0, -0.0, 0.0, 0.5, 0.5, 3.0])
TABLE = np.cos(np.arange(80.0))

#: functions of an array, and NumPy's answer that they must have: equal elements keep their order
FUNCTIONS = {
    "sort": (np.sort, lambda x: np.sort(x, kind="stable")),
    "sort along the first axis": (lambda x: np.sort(x, 0), lambda x: np.sort(x, 0, kind="stable")),
    "sort all": (lambda x: np.sort(x, None), lambda x: np.sort(x, None, kind="stable")),
    "argsort": (np.argsort, lambda x: np.argsort(x, kind="stable")),
    "argsort along the first axis": (lambda x: np.argsort(x, 0), lambda x: np.argsort(x, 0, kind="stable")),
    "argsort all": (lambda x: np.argsort(x, axis=None), lambda x: np.argsort(x, axis=None, kind="stable")),
    "argmax": (np.argmax, np.argmax),
    "argmin of the last axis": (lambda x: np.argmin(x, -1, keepdims=True), lambda x: np.argmin(x, -1, keepdims=True)),
    "lexsort": (lambda x: np.lexsort((x, np.sign(x))), lambda x: np.lexsort((x, np.sign(x)))),
    "lexsort of rows": (lambda x: np.lexsort(np.atleast_2d(x), 0), lambda x: np.lexsort(np.atleast_2d(x), 0)),
    "searchsorted": (lambda x: np.searchsorted(EDGES, x), lambda x: np.searchsorted(EDGES, x)),
    "searchsorted on the right": (lambda x: np.searchsorted(EDGES, x, "right"), lambda x: np.searchsorted(EDGES, x, "right")),
    "searchsorted in itself": (
        lambda x: np.searchsorted(np.ravel(x), x, sorter=np.argsort(x, None)),
        lambda x: np.searchsorted(np.sort(x, None), x),
    ),
    "digitize": (lambda x: np.digitize(x, EDGES), lambda x: np.digitize(x, EDGES)),
    "digitize downwards": (lambda x: np.digitize(x, EDGES[::-1], True), lambda x: np.digitize(x, EDGES[::-1], True)),
    "running maximum": (lambda x: np.maximum.accumulate(x), lambda x: np.maximum.accumulate(x)),
    "running minimum": (lambda x: np.minimum.accumulate(x, -1), lambda x: np.minimum.accumulate(x, -1)),
}
functions = pytest.mark.parametrize("name", FUNCTIONS)
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0, -7.25, np.inf, -np.inf, np.nan, 1e-310, 1e300]
SHAPES = [(1,), (2,), (7,), (3, 5), (1, 4), (2, 3, 4), (50,), (40, 2)]
JITTED = {name: jit(f, verify=False) for name, (f, _) in FUNCTIONS.items()}


@functions
@given(st.sampled_from(SHAPES), st.sampled_from([np.float64, np.float32, np.int64, np.int32, np.uint8]), st.data())
@settings(max_examples=15, deadline=None)
def test_values_are_those_of_numpy(name, shape, dtype, data):
    pool = SPECIAL if np.dtype(dtype).kind == "f" else [0, 1, 2, 3, 100, 127]
    count = int(np.prod(shape))
    with np.errstate(over="ignore"):
        x = np.array(data.draw(st.lists(st.sampled_from(pool), min_size=count, max_size=count)), dtype).reshape(shape)
    if "running" in name:  # of zeros of both signs the first one
        x = x + x.dtype.type(0)
    same(np.asarray(JITTED[name](x)), np.asarray(FUNCTIONS[name][1](x)))
    assert "called" not in JITTED[name].explain(x)


@functions
def test_the_other_backend_and_a_long_array(name):
    x = np.random.default_rng(0).integers(-99, 99, 1000) / 4.0
    for f in (jit(FUNCTIONS[name][0], backend="numpy"), JITTED[name]):
        got = f(x)
        if "arg" not in name:
            same(np.asarray(got), np.asarray(FUNCTIONS[name][1](x)))
        else:
            same(x[got], x[FUNCTIONS[name][1](x)])


def test_many_numbers_are_sorted_by_numpy():
    f, x = jit(lambda k, x: np.sort(x)[::-1] * 0.5 + k), np.cos(np.arange(ONE_BY_ONE + 1.0))
    same(f(1.0, x), np.sort(x)[::-1] * 0.5 + 1.0)
    assert "argsort" in f.explain(1.0, x) and "called" not in f.explain(1.0, x[:-1])
    loss = lambda step: lambda x: np.sum(chain(step, x, steps=5) * x)
    np.testing.assert_allclose(grad(loss(f))(x), grad(loss(lambda k, x: np.sort(x)[::-1] * 0.5 + k))(x), rtol=1e-12)


def test_numbers_and_edges_that_are_not_numbers():
    x = np.linspace(-1.0, 2.0, 7)
    for f in (lambda x: np.argsort(x[0]), lambda x: np.argmax(x[0]), lambda x: np.argmin(x[:1], 0)):
        same(np.asarray(jit(f)(x)), np.asarray(f(x)))
        assert "called" not in jit(f).explain(x)
    for edges in ([0.0, 1.0, np.nan], [np.nan, 1.0, 0.0]):
        same(jit(lambda x: np.digitize(x, np.array(edges)))(x), np.digitize(x, edges))


STEPS = {
    "sort": lambda x: np.sort(x, 0),
    "descending": lambda x: -np.sort(-x, -1),
    "argsort": lambda x: np.take_along_axis(np.exp(x), np.argsort(x, -1), -1),
    "argmax": lambda x: np.sin(x) + np.ravel(x)[np.argmax(x)] * np.max(x),
    "searchsorted": lambda x: x * TABLE[np.searchsorted(EDGES, x)],
    "searchsorted in itself": lambda x: x * TABLE[np.searchsorted(np.sort(np.ravel(x)), x * 1.1)],
    "digitize": lambda x: x * TABLE[np.digitize(x, EDGES)],
    "interp": lambda x: np.interp(x, EDGES[[0, 2, 3, 5]], TABLE[:4]),
    "interp in itself": lambda x: np.interp(x * 0.9, np.sort(np.ravel(x)), np.cos(np.ravel(x))),
    "median": lambda x: x * np.median(x, axis=0),
    "quantile": lambda x: x * np.quantile(x, 0.3),
    "quantiles": lambda x: x + np.sum(np.quantile(x, [0.1, 0.75], axis=-1) ** 2),
    "percentile": lambda x: x - np.percentile(x, 20, method="weibull"),
    "nanmedian": lambda x: x * np.nanmedian(x),
    "running maximum": lambda x: np.maximum.accumulate(np.sin(x), 0),
    "assignment at traced places": lambda x: assigned(x, np.argsort(np.cos(x), 0)),
}
steps = pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)


def assigned(x, places):
    y = x * 1.0
    y[places[..., 0] if x.ndim > 1 else places // 2] = np.sin(x)
    return y


@steps
@pytest.mark.parametrize("shape", [(4, 3), (45,)], ids=str)
def test_derivatives_are_the_eager_ones(step, shape):
    x, t = np.random.default_rng(3).normal(size=(2, *shape))
    for backend in BACKENDS if shape == (4, 3) else ["llvm"]:
        has_eager_derivatives(step, x, t, backend, 1e-12, 1e-13)


@pytest.mark.parametrize(("dtype", "accuracy"), [(np.float64, 1e-10), (np.float32, 1e-3)])
@pytest.mark.parametrize("name", ["sort", "interp in itself", "running maximum", "assignment at traced places"])
def test_a_chain_is_made_in_blocks(name, dtype, accuracy):
    x, step = np.random.default_rng(1).normal(size=16).astype(dtype), lambda x: STEPS[name](x).astype(x.dtype)
    chain_is_made_in_blocks(lambda k, x: 0.9 * np.sin(x) + 0.05 * step(x), x, accuracy, accuracy)


def at_knots(rng):
    knots = np.sort(rng.normal(size=9))
    return np.concatenate([knots, rng.choice(knots, 20), knots[[0, -1]] + [-1.0, 1.0]]), knots, rng.normal(size=9)


def of_specials(rng):
    return (
        rng.choice(SPECIAL, 24),
        np.sort(rng.choice([-np.inf, -3.0, -1.0, 0.0, 0.5, 1.0, 2.0, 3.0, np.inf], 5, False)),
        rng.choice(SPECIAL, 5),
    )


INTERPOLATED = {
    "interp": (np.interp, lambda rng: (rng.normal(size=30), np.sort(rng.normal(size=9)), rng.normal(size=9))),
    "interp at knots": (np.interp, at_knots),
    "interp of infinities and NaN": (np.interp, of_specials),
    "interp with ends": (lambda x, xp, fp: np.interp(x, xp, fp, left=-1.0, right=7.0), at_knots),
    "median of an even number": (np.median, lambda rng: (rng.normal(size=8),)),
    "median of an odd number, single": (lambda x: np.median(x, 0), lambda rng: (rng.normal(size=(9, 3)).astype(np.float32),)),
    "median of specials": (lambda x: np.median(x, 1), lambda rng: (rng.choice(SPECIAL, (3, 6)),)),
    "quantile": (lambda x: np.quantile(x, 0.3), lambda rng: (rng.normal(size=21),)),
    "quantiles but for NaN": (
        lambda x: np.stack([np.nanmedian(x, 1), np.nanquantile(x, 0.3, 1), np.nanpercentile(x, 100.0, 1)]),
        lambda rng: (rng.choice([*rng.normal(size=9), np.nan, np.inf], (20, 7)),),
    ),
    "quantiles": (lambda x: np.quantile(x, [0.3, 0.5, 0.77, 1.0, 0.0], axis=1), lambda rng: (rng.normal(size=(3, 8)),)),
    "a quantile that is given": (np.quantile, lambda rng: (rng.normal(size=8), rng.random())),
    "quantile, single": (lambda x: np.quantile(x, 0.3), lambda rng: (rng.normal(size=9).astype(np.float32),)),
    "percentile": (lambda x: np.percentile(x, 33, method="weibull"), lambda rng: (rng.normal(size=8),)),
}


@pytest.mark.parametrize(("f", "arguments"), INTERPOLATED.values(), ids=INTERPOLATED)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_is_between_has_numpys_bits(f, arguments, backend):
    compiled = jit(f, backend=backend, verify=False)
    for seed in range(60):
        given = arguments(np.random.default_rng(seed))
        np.testing.assert_array_equal(compiled(*given), f(*given))


def test_places_of_several_axes_are_in_the_loops():
    f = jit(lambda x, shape: np.unravel_index(np.argmax(x), shape), static_argnames="shape")
    at, isin = jit(lambda i: np.unravel_index(i, (2, 3), order="F")), jit(lambda i: np.isin(i, [1, 4, 7], invert=True))
    for x in (TABLE[:6], -TABLE[:6]):
        for shape in (6, (3, 2)):
            np.testing.assert_array_equal(f(x, shape), np.unravel_index(np.argmax(x), shape))
    for i in (np.array([[5, 0], [1, 4]]), np.array([[2, 2], [3, 1]])):
        np.testing.assert_array_equal(at(i), np.unravel_index(i, (2, 3), order="F"))
        np.testing.assert_array_equal(isin(i), np.isin(i, [1, 4, 7], invert=True))
    for wrong in (i + 3, -i):
        with pytest.raises(ValueError, match="is out of bounds for array with size 6"):
            at(wrong)
    assert not any("called" in explained for explained in (f.explain(x, shape), at.explain(i), isin.explain(i)))
