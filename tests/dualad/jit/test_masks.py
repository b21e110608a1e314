"""Elements that a traced mask selects: values and derivatives of compiled functions are those of eager code, whatever is not selected."""

import warnings

import numpy as np
import pytest
from comparing import close
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from in_groups import for_each

from checkpoint import Stats, chain, grad, value_and_grad, vjp
from dualad import derivative, gradient, hessian, jit, jvp, sparsity
from dualad.testing import check_derivatives

X = np.array([0.3, -0.7, 0.0, 0.9, -0.2, 0.55])
A = np.array([[0.3, -0.8, 0.5], [-0.4, 0.0, 0.2], [0.7, 0.1, -0.6], [0.2, 0.9, 0.4]])
TABLE = np.arange(1.0, 7.0)


def written(y, index, v):
    y = y.copy()
    y[index] = v
    return y


def scaled(y, index, factor):
    y = y * 1.0
    y[index] *= factor
    return y


def filled(fill, y, mask, v):
    fill(y, mask, v)
    return y


def accelerations(p):
    """The N-body code that is copied everywhere."""
    d = p[None, :, :] - p[:, None, :]
    inv_r3 = np.sum(d**2, axis=-1)
    inv_r3[inv_r3 > 0] = inv_r3[inv_r3 > 0] ** (-1.5)
    return np.sum(d * inv_r3[:, :, None], axis=1)


def changed(s):
    """What a selection may be used for as an array of its own."""
    s[s > 0.4] = s[s > 0.4] * 3.0
    s[s < 0.35] = 0.25
    s += 0.5
    return s


def normalized(rows):
    return rows / np.sqrt((rows**2).sum(axis=1))[:, None]


def copied_first(x):
    x, m = x * 1.0, x > 0.0
    s = x[m]
    x[m] *= 10.0  # of which the selection sees nothing
    s += 1.0
    return written(x, m, s * x[0])


def with_rows(x):
    rows = x[x[:, 0] > 0.25]
    rows[:, 1] = rows[:, 0] * 2.0
    return rows.sum(axis=0)


def with_views(x):
    rows = x[x[:, 0] > 0.25]
    column, whole = rows[:, 1], rows[:]
    column *= 3.0
    rows += x[0]
    corner = whole[:, 1:][:, 0]
    corner[...] = np.take(rows, 0, axis=1) * column
    whole[:, None] *= 2.0
    taken = np.take(rows, 0, axis=1)
    taken += 7.0
    return rows.sum(axis=0) + np.sum(column * corner * taken)


def with_masks_written_later(x):
    m = x > 0.0
    s, i = x[m], np.nonzero(m)[0]
    m[:2] = ~m[:2]
    t = x[m]
    m &= x < 0.5
    return np.sum(s**2) + 3.0 * np.sum(t) + 5.0 * np.sum(x[i]) + 7.0 * np.sum(x[m])


def neighbours(x):
    i = np.where(x[:-1] > 0.1)[0]
    return np.sum((x[i + 1] - x[i]) ** 2)


def two_masks(x):
    y, m = x.copy(), x > 0.0
    y[m], y[~m] = np.sqrt(y[m]), y[~m] ** 2
    return y


def positions_of_two_axes(x):
    i, j = np.nonzero(x > 0.1)
    y = x.copy()
    y[i, j] = np.log(x[i, j])
    return y


#: values in which nothing is added up: the bits of eager code
EXACT = {
    "power": (lambda x: written(x, x > 0, x[x > 0] ** (-1.5)), X),
    "fractional power of the positive": (lambda x: written(x, x > 0, x[x > 0] ** 0.3), X),
    "in place": (lambda x: scaled(x, x > 0, 0.9), X),
    "putmask": (lambda x: filled(np.putmask, x * 2.0, x > 0, x[:4] ** 2), X),
    "place": (lambda x: filled(np.place, x * 2.0, x > 0, x[:2] ** 2), X),
    "place of a list": (lambda x: filled(np.place, x * 2.0, x > 0, [1.0, 2.0]), X),
    "another array's": (lambda x: written(x, x > 0, np.sin(3.0 * x)[x > 0]), X),
    "both sides": (two_masks, X),
    "a traced number": (lambda x: written(x, x > 0, x[x > 0] * x[0] + x[3]), X),
    "a number for all": (lambda x: written(x, x > 0, x[1] * 2.0), X),
    "quotient": (lambda x: written(x, x != 0, 1.0 / x[x != 0]), X),
    "changed": (lambda x: written(x, x > 0.1, changed(x[x > 0.1])), X),
    "where": (lambda x: written(x, x > 0, np.where(x[x > 0] > 0.5, x[x > 0], 2.0)), X),
    "clip": (lambda x: written(x, x > -0.5, np.clip(x[x > -0.5], -0.1, x[0])), X),
    "rounded": (lambda x: written(x, x > 0, np.round(3.0 * x[x > 0]) * x[x > 0]), X),
    "parts": (lambda x: written(x, x > 0, np.modf(3.0 * x[x > 0])[0]), X),
    "cast": (lambda x: written(x, x > 0, (10.0 * x[x > 0]).astype(int) * x[x > 0]), X),
    "like it": (lambda x: written(x, x > 0, np.full_like(x[x > 0], x[0]) + np.zeros_like(x[x > 0]) + np.ones_like(x[x > 0])), X),
    "complex": (lambda x: written(x + 0j, x > 0, np.sqrt(x[x > 0] + 1j)), X),
    "imaginary": (lambda x: np.imag(written(x * (1 + 2j), x > 0, np.conj(x * (1 + 2j))[x > 0])), X),
    "rows": (lambda x: written(x, x[:, 0] > 0, x[x[:, 0] > 0] * x[0]), A),
    "first column of rows": (lambda x: written(x, (x[:, 0] > 0.25, 1), x[x[:, 0] > 0.25, 0] * 2.0), A),
    "a row for all": (lambda x: written(np.outer(x, x[:3]), x > 0.0, x[3] * x[:3]), X),
    "a column for all": (lambda x: written(np.outer(x, x[:3]), (slice(None), x[:3] > 0.1), (x * x[0])[:, None]), X),
    "written into": (copied_first, X),
    "columns": (lambda x: written(x, (slice(None), x[0] > 0), x[:, x[0] > 0] ** 2), A),
    "mask apart": (lambda x: written(np.stack([x, x]), (1, slice(None), x[0] > 0), 2.0 * np.stack([x, x])[1, :, x[0] > 0]), A),
    "last axis": (lambda x: written(x, (..., x[0] > 0), x[..., x[0] > 0] ** 2), A),
    "two axes": (lambda x: written(x, x > 0.1, np.log(x[x > 0.1])), A),
    "positions": (lambda x: written(x, np.where(x > 0)[0], np.sqrt(x[np.where(x > 0)[0]])), X),
    "positions of two axes": (positions_of_two_axes, A),
    "a number at positions": (lambda x: written(x, np.nonzero(x > 0), x[0, 0]), A),
    "positions in a longer array": (lambda x: written(x, np.flatnonzero(x[:-2] > 0), 2.0 * x[:-2][x[:-2] > 0]), X),
    "piecewise": (lambda x: np.piecewise(x, [x < -0.5, x > 0], [lambda v: v**2, np.sqrt, 0.25]), X),
    "piecewise, with arguments": (lambda x: np.piecewise(x, x > 0, [lambda v, a: a * np.log(v), lambda v, a: a - v], x[0]), X),
    "piecewise of a number": (lambda x: np.piecewise(x[0], [x[0] < 0, x[0] >= 0], [lambda v: v**2, np.sqrt]), X),
    "extrema": (lambda x: np.stack([x[x < 0.6].max(), np.min(x[x > 0]), np.ptp(x[x > 0])]), X),
    "extrema of rows": (lambda x: np.max(np.compress(x[:, 0] > 0, x, axis=0), axis=0), A),
    "truth": (lambda x: x * np.any(x[x > 0] > 0.8) + np.all(x[x > 0] > 0.1) + np.count_nonzero(x[x > 0] < 0.5), X),
    "length": (lambda x: x * x[x > 0].size + x[x > 0].shape[0], X),
    "elements": (lambda x: np.stack([x[x > 0][0], x[x > 0][-1], x[np.nonzero(x < 0)[0][-1]]]) * x[x[x > 0][-2] > x][0], X),
    "a row": (lambda x: x[x[:, 0] > 0][-1] * x[0], A),
    "places of extrema": (lambda x: x[x > -0.5][np.argmin(x[x > -0.5])] * x[: x.size] * np.argmax(x[x > 0]), X),
    "in one axis": (lambda x: written(x, x > 0, np.ravel(x[x > 0]) * x[x > 0].reshape(-1) * x[x > 0].flatten()), X),
    "rows in one axis": (lambda x: np.max(x[x[:, 0] > 0].ravel()) * x, A),
    "running sums": (lambda x: written(x, x > -0.5, np.cumsum(x[x > -0.5]) * np.cumprod(x[x > -0.5])), X),
}
#: values that NumPy adds up in another order
SUMS = {
    "bodies": (accelerations, A),
    "sum": (lambda x: np.sum(np.log(x[x > 0])), X),
    "mean": (lambda x: x[(x > -0.5) & (x < 0.8)].mean() ** 2, X),
    "product": (lambda x: np.prod(x[x != 0]), X),
    "spread": (lambda x: np.var(x[x > -0.5]) + x[x > -0.5].std(ddof=1), X),
    "mean by its length": (lambda x: np.sum(x[x > 0]) / x[x > 0].size, X),
    "of numbers": (lambda x: np.sum(x[4] + x[3] ** x[x > 0] * x[3]), X),
    "weighted": (lambda x: np.average(x[x > 0], weights=np.exp(x[x > 0])), X),
    "without NaN": (lambda x: np.nansum(x[x > -0.5] ** 2) + np.nanmean(np.exp(x[x > -0.5])), X),
    "selected again": (lambda x: np.sum(x[x > -0.5][x[x > -0.5] > 0] ** 0.3), X),
    "a plain array": (lambda x: np.sum(TABLE[x > 0] * x[x > 0]), X),
    "rows, normalized": (lambda x: np.sum(normalized(x[x[:, 0] > 0.25])) + x[x[:, 0] > 0].mean(axis=0, keepdims=True), A),
    "rows that are changed": (with_rows, A),
    "rows and views of them that are changed": (with_views, A),
    "masks that are written later": (with_masks_written_later, X),
    "logarithm of a sum": (lambda x: np.logaddexp.reduce(x[x > 0]), X),
    "columns, added up": (lambda x: x[:, x[0] > 0].sum(axis=1) + np.sum(x[:, x[0] > 0].sum(axis=0) ** 2), A),
    "two axes, added up": (lambda x: np.sum(x[x > 0.1] ** 2, keepdims=True), A),
    "neighbours": (neighbours, X),
    "taken": (lambda x: np.sum(np.take(x, np.flatnonzero(x > 0)) + np.extract(x > 0, x) + np.compress(np.ravel(x > 0), x)), A),
    "products": (lambda x: np.dot(x[x > 0], np.sin(x)[x > 0]) + x[x[:, 0] > 0, 1] @ x[x[:, 0] > 0] + np.linalg.norm(x[x > -0.3]), A),
    "products of several": (lambda x: np.einsum("i,i,i", x[x > 0], x[x > 0], x[x > 0]) + np.vdot(x[x > 0], x[x > 0]), X),
    "products of rows": (lambda x: np.einsum("ij,ik->jk", x[x[:, 0] > 0], x[x[:, 0] > 0]), A),
    "averages": (lambda x: np.average(x[x > 0]) * x, X),
    "medians": (lambda x: np.median(x[x > -0.5]) + np.percentile(x[x > 0], 30.0) * np.quantile(x[x > 0], [0.1, 0.5]), X),
    "medians that keep axes": (lambda x: np.median(x[x > -0.5], keepdims=True) + np.median(np.rint(8 * x).astype(int)[x > 0]), A),
    "nothing": (lambda x: x[0] * (np.sum(x[x > 5.0]) + np.prod(x[x > 5.0])), X),
}
ALL = EXACT | SUMS
#: whose gradients NumPy computes in part, though not those of steps
IN_STEPS = ["a number for all", "a number at positions", "a row for all", "a column for all", "piecewise"]
BACKENDS = pytest.mark.parametrize("backend", [None, "numpy"])


@BACKENDS
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@for_each("name", ALL)
def test_values_are_those_of_eager_code(name, dtype, backend):
    f, x = ALL[name]
    compiled = jit(f) if backend is None else jit(f, backend=backend)
    for data in (x, -x, 0.5 * x + 0.25):  # other masks in the same program
        data = data.astype(dtype)
        with np.errstate(all="ignore"):
            expected = f(data)
            if np.ndim(expected) == 0 and not np.isfinite(expected):
                continue
        got = compiled(data)
        assert got.dtype == expected.dtype and np.shape(got) == np.shape(expected)
        if name in EXACT and backend == "numpy":
            np.testing.assert_array_equal(got, expected)
        else:  # kernels of ours, sums in another order
            np.testing.assert_allclose(
                got, expected, rtol=1e-13 if dtype is np.float64 else 2e-5, atol=1e-14 if dtype is np.float64 else 1e-5
            )


@pytest.mark.parametrize("name", ALL)
def test_derivatives_are_those_of_eager_code(name):
    f, x = ALL[name]

    def loss(x):
        y = f(x)
        return np.sum(np.real(y * np.conj(y)) * 0.5 + np.real(y) * np.reshape(TABLE[0] + np.arange(np.size(y)), np.shape(y)))

    expected, compiled = grad(loss)(x), jit(loss)
    reverse = jit(grad(loss))
    for derived in (grad(compiled)(x), reverse(x), gradient(compiled)(x), jit(gradient(loss), backend="numpy")(x)):
        np.testing.assert_allclose(derived, expected, rtol=1e-11, atol=1e-12)
    assert "called" not in reverse.explain(x) or name in ("parts", "complex", *IN_STEPS), "the first two are functions of NumPy's"
    np.testing.assert_allclose(jit(hessian(loss))(x), hessian(loss)(x), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(
    "name", ["fractional power of the positive", "bodies", "rows that are changed", "columns, added up", "positions of two axes", "spread"]
)
def test_derivatives_against_differences(name):
    f, x = ALL[name]
    check_derivatives(jit(f), x + 0.07)


def test_piecewise_is_one_path():
    """Whether a condition holds anywhere is not asked: no program is traced for each answer, and patterns are found."""
    f = lambda x: np.piecewise(x, [x < -0.5, x > 0], [lambda v: v**2, np.sqrt, 0.25])
    compiled = jit(f, backend="numpy")
    for x in (X, np.abs(X), -np.abs(X)):
        np.testing.assert_array_equal(compiled(x), f(x))
    assert compiled.traces == 1
    pytest.importorskip("scipy.sparse")
    np.testing.assert_array_equal(sparsity(f, X).toarray(), np.eye(X.size))


SELECTED = {
    "log": lambda x, m: np.sum(np.log(x[m])),
    "power": lambda x, m: np.sum(x[m] ** 0.3 + x[m] ** (-1.5)),
    "number to a power": lambda x, m: np.sum(x[m] ** x[0] + x[0] ** x[m]),
    "inverse": lambda x, m: np.sum(1.0 / x[m]) + np.mean(np.sqrt(x[m])),
    "arccosh": lambda x, m: np.max(np.arccosh(x[m] + 1.0) / x[0]),
    "product": lambda x, m: np.prod(np.log(x[m])),
    "written": lambda x, m: np.sum(written(np.zeros_like(x), m, np.sqrt(x[m])) * TABLE[: x.size]),
    "spread": lambda x, m: np.std(np.sqrt(x[m])),
}


@pytest.mark.parametrize("name", SELECTED)
def test_what_is_not_selected_has_no_share(name):
    """Zeros, negative numbers, infinities and NaN that are not selected change no value; their derivative is zero."""
    f = SELECTED[name]
    x = np.array([0.3, 0.0, -2.0, 0.7, np.inf, np.nan, 1.2, -np.inf])[: TABLE.size]
    m = np.array([True, False, False, True, False, False])
    t = np.array([1.0, 2.0, np.inf, -1.0, np.nan, 3.0])
    expected, whole = grad(f)(x, m), np.where(m, x, 0.5)
    assert np.isfinite(expected).all() and not expected[~m].any()
    compiled, together = jit(f), jit(lambda x, m: (grad(f)(x, m), gradient(f)(x, m), hessian(f)(x, m)))(x, m)
    for derived in (grad(compiled)(x, m), gradient(compiled)(x, m), *together[:2], jit(grad(f), backend="numpy")(x, m)):
        np.testing.assert_allclose(derived, expected, rtol=1e-12)
    np.testing.assert_allclose(together[2], hessian(f)(x, m), rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(jvp(lambda x: compiled(x, m), (x,), (t,))[1], expected[m] @ t[m], rtol=1e-12)
    third, expected = (derivative(lambda s, f=f: f(whole * s, m), 3)(1.0) for f in (compiled, f))
    np.testing.assert_allclose(third, expected, rtol=1e-9)


def step(k, state, drag):
    x, v = state
    out = (x < 0.0) | (x > 1.0)
    v = v * 1.0
    v[out] = -drag * v[out]
    slow = np.abs(v) < 0.3
    v[slow] = v[slow] + 0.1 * x[slow] ** 2
    return x + 0.1 * v, v


@pytest.mark.slow
def test_steps_of_a_chain_with_masks():
    rng = np.random.default_rng(5)
    x, v = rng.uniform(0.1, 0.9, 8), rng.normal(size=8)

    def loss(step):
        def f(x, v, drag):
            x, v = chain(step, (x, v), drag, steps=40)
            return np.sum(x * x) + x[v > 0].sum()

        return f

    expected = value_and_grad(loss(step), argnums=(0, 1, 2))(x, v, 0.9)
    for f in (loss(jit(step)), jit(loss(step)), jit(loss(jit(step)))):
        value, gradients = value_and_grad(f, argnums=(0, 1, 2))(x, v, 0.9)
        close(value, expected[0])
        close(gradients, expected[1], 1e-10, 1e-12)
    np.testing.assert_allclose(jit(grad(loss(step)))(x, v, 0.9), expected[1][0], rtol=1e-10, atol=1e-12)


numbers = st.floats(-2.0, 2.0).map(lambda x: round(x, 3))


def of_any_mask(x, m):
    y = x * 1.0
    y[m] = np.exp(y[m]) * x[0]
    y[m] += 1.0
    return y, np.sum(y[~m]), x[m].size, np.any(x[m] > 0), np.all(x[m] > 0), np.prod(x[m]), np.count_nonzero(x[m])


COMPILED = jit(of_any_mask), jit(of_any_mask, backend="numpy")


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(arrays(float, 5, elements=numbers), arrays(bool, 5))
def test_any_mask(x, m):
    for masks in (m, np.zeros(5, bool), np.ones(5, bool)):
        expected = of_any_mask(x, masks)
        for compiled in COMPILED:
            close(compiled(x, masks), expected, rtol=1e-13, atol=1e-14)
        cotangents = (np.arange(5.0), 1.0, 0, False, False, 2.0, 0)
        derived = [vjp(lambda x, f=f: f(x, masks)[:2], x)[1](cotangents[:2])[0] for f in (of_any_mask, *COMPILED)]
        for got in derived[1:]:
            np.testing.assert_allclose(got, derived[0], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", ["bodies", "positions of two axes", "running sums", "medians that keep axes", *IN_STEPS])
def test_steps_that_select_are_made_in_blocks(name):
    f, x = ALL[name]
    step, stats = jit(lambda k, x: 0.99 * x + 0.001 * np.sum(np.real(f(x)))), Stats()
    grad(lambda x: np.sum(chain(step, x, steps=5, stats=stats)))(x)
    assert "steps one by one" not in stats.reason, stats.reason


@BACKENDS
def test_an_extremum_of_nothing_raises_as_in_eager_code(backend):
    f = lambda x, c: 2.0 * x[x > c].max() - np.min(x[x > c])
    compiled = jit(f) if backend is None else jit(f, backend=backend)
    np.testing.assert_array_equal(compiled(X, 0.1), f(X, 0.1))
    for call in (lambda: f(X, 2.0), lambda: compiled(X, 2.0), lambda: jit(f)(X, 2.0), lambda: grad(compiled)(X, 2.0)):
        with pytest.raises(ValueError, match=r"zero-size array to reduction operation (maximum|minimum) which has no identity"):
            call()
    np.testing.assert_array_equal(compiled(X, 0.1), f(X, 0.1))
    np.testing.assert_array_equal(grad(compiled)(X, 0.1), grad(f)(X, 0.1))


def test_quantiles_of_nothing_and_means_without_weights_raise_as_in_eager_code():
    for f, error in (
        (lambda x, c: np.quantile(x[x > c], 0.3), IndexError),
        (lambda x, c: np.average(x, weights=(x > c) * 1.0), ZeroDivisionError),
    ):
        for call in (f, jit(f), grad(jit(f)), jit(grad(f))):
            np.testing.assert_allclose(call(X, 0.1), (f if np.ndim(call(X, 0.1)) == 0 else grad(f))(X, 0.1), rtol=1e-14)
            with pytest.raises(error):
                call(X, 2.0)


def test_an_extremum_of_nothing_in_a_step_raises_as_in_eager_code():
    step = lambda k, x: x - 0.2 + 0.0 * x[x > 0.0].max()
    for made in (step, jit(step)):
        with pytest.raises(ValueError, match="zero-size array to reduction operation maximum"):
            chain(made, X, steps=20)


@pytest.mark.parametrize("backend", ["llvm", "numpy"])
def test_an_extremum_behind_a_test_that_something_is_selected(backend):
    def f(x):
        m = x > 0.5
        return np.sum(np.max(x[m]) * x if np.any(m) else x * 0.1)

    some, none = np.array([0.1, 0.7, 0.9]), np.array([0.1, 0.2, 0.3])
    for xs in ((some, none, some), (none, some, none)):
        compiled = jit(f, backend=backend)
        for x in xs:
            assert compiled(x) == pytest.approx(f(x), rel=1e-15)
            for slopes in (grad(compiled)(x), jit(grad(f), backend=backend)(x), gradient(compiled)(x)):
                np.testing.assert_allclose(slopes, grad(f)(x), rtol=1e-14)


def test_the_mean_of_nothing_is_nan():
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of NumPy's, as in eager code
        assert np.isnan(jit(lambda x: np.mean(x[x > 5.0]))(X))


def test_integers_and_truth_values_are_selected_too():
    def f(k):
        y = k.copy()
        y[k > 2] = y[k > 2] // 3 % 2 | 4
        return y, np.sum(k[k > 2]), np.max(k[k < 3]), np.min(k[k > 2]), np.sum((k > 1)[k > 2])

    k = np.array([0, 3, -5, 7, 2, 9])
    for compiled in (jit(f), jit(f, backend="numpy")):
        close(compiled(k), f(k), rtol=0.0)


REFUSED = {
    "len": lambda x: len(x[x > 0]) * x,
    "concatenate": lambda x: np.concatenate([x[x > 0], x]),
    "reshape": lambda x: x[x > 0].reshape(1, -1),
    "loop": lambda x: sum(v for v in x[x > 0]),
    "sort": lambda x: np.sort(x[x > 0]),
    "sums along another axis": lambda x: np.cumsum(np.outer(x[x > 0], np.ones(2)), axis=1),
    "stack": lambda x: np.stack([x[x > 0], x[x > 0]]),
    "repeat": lambda x: np.repeat(x[x > 0], 2),
    "difference": lambda x: np.diff(x[x > 0]),
    "element of a column": lambda x: np.stack([x, x])[:, x > 0][0, 1],
    "part": lambda x: x[x > 0][1:],
    "assigned part": lambda x: written(x[x > 0], slice(1, None), 0.0),
    "assigned element": lambda x: written(x[x > 0], 1, 0.0),
    "indices": lambda x: np.tril_indices_from(x[x > 0] * np.ones((2, 1))),
    "product with another array": lambda x: x[x > 0] @ np.ones(3),
    "mask of another array": lambda x: np.sum(np.ones(6), where=x[x > 0] > 0.5) * x,
    "outer product": lambda x: np.einsum("i,j->ij", x[x > 0], x[x > 0]),
    "places along axes": lambda x: np.argmax(np.stack([x, x], 1)[x > 0], axis=1),
    "places that keep axes": lambda x: np.argmin(x[x > 0], keepdims=True) * x,
    "quantiles of integers": lambda x: np.quantile(np.rint(x).astype(int)[x > 0], 0.3) * x,
    "one more axis": lambda x: x[x > 0][True] * 2.0,
    "another array": lambda x: x[x > 0] * x,
    "printed": lambda x: print(f"{x[x > 0]:.3f}"),
    "result": lambda x: [x[x > 0] * 2.0],
    "float": lambda x: float(x[x > 0]),
    "int": lambda x: int(x[x > 0]) * x,
    "two masks": lambda x: x[x > 0] + x[x < 0.5],
    "another mask": lambda x: written(x, x < 0.5, x[x > 0]),
    "written before": lambda x: written(x, written(x, 0, 1.0) > 0, x[x > 0]),
    "plain array": lambda x: written(np.zeros(6), 0, x[x > 0]),
}


def test_the_shape_of_an_array_may_be_a_length():
    f = lambda x: np.sum(np.zeros(x[x > 0].shape) + x[0])
    compiled = jit(grad(f))
    for x in (X, -X, np.abs(X) + 1.0, -np.abs(X)):
        assert np.array_equal(compiled(x), grad(f)(x))


@pytest.mark.parametrize("name", REFUSED)
def test_what_needs_the_length_names_the_line(name):
    f = REFUSED[name]
    lines = f"({f.__code__.co_firstlineno}|{written.__code__.co_firstlineno + 2})"
    for compiled in (jit(f), *([jit(grad(lambda x: np.sum(f(x))))] if name != "result" else [])):
        with pytest.raises(TypeError, match=rf"^jit: test_masks\.py, line {lines}: .*(length|how many|integer|mask)"):
            compiled(X)
