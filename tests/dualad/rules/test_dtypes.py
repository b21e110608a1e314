"""Every function with every dtype: value, dtype and shape are NumPy's, bit for bit; both modes, and all directions, agree."""

from collections import Counter, defaultdict

import numpy as np
import pytest
from dtype_calls import chosen, tried
from in_groups import for_each

from checkpoint import grad, vjp
from dualad import gradient, jit, jvp
from dualad.rules.calling import public_name
from dualad.testing import check_derivatives

#: one call of so many; all of them take an hour: ``python tests/dualad/rules/dtype_calls.py 1``
EVERY = 300
CALLS = defaultdict(list)
for call in chosen(EVERY):
    CALLS[public_name(call.fn)].append(call)


@for_each("name", CALLS)
def test_calls_of_the_table(name):
    for call in CALLS[name]:
        tried(call)


def test_most_calls_say_something():
    found = Counter(tried(call) for calls in CALLS.values() for call in calls[:2])
    assert len(CALLS) > 200 and found["agrees"] > 0.5 * found.total() and found["refused"] < 0.01 * found.total()


# --- integer dtypes -----------------------------------------------------------------------------------------------------------

A = np.array([[1.5, 2.7], [3.1, -4.2]])
V = np.array([1.5, 2.7, -3.2])
INTEGERS = {
    "sum": lambda x: np.sum(x, dtype=int),
    "sum, by place": lambda x: np.sum(x, 0, int),
    "sum of booleans": lambda x: np.sum(x, dtype=bool),
    "cumsum": lambda x: np.cumsum(x, dtype=int),
    "prod": lambda x: np.prod(x, dtype=np.int8),
    "cumprod": lambda x: np.cumprod(x, axis=0, dtype=int),
    "mean": lambda x: np.mean(x, dtype=int),
    "trace": lambda x: np.trace(x, dtype=int),
    "nansum": lambda x: np.nansum(x, dtype=int),
    "method": lambda x: x.sum(dtype=int),
    "add.accumulate": lambda x: np.add.accumulate(x, dtype=int),
    "maximum.reduce": lambda x: np.maximum.reduce(x, dtype=int),
    "maximum.accumulate": lambda x: np.maximum.accumulate(x, dtype=int),
    "concatenate": lambda x: np.concatenate([x, x], dtype=int, casting="unsafe"),
    "stack": lambda x: np.stack([x, x], dtype=np.uint8, casting="unsafe"),
    "vstack": lambda x: np.vstack([x, x], dtype=int, casting="unsafe"),
    "add": lambda x: np.add(x, x, dtype=int, casting="unsafe"),
    "einsum": lambda x: np.einsum("ij->", x, dtype=int, casting="unsafe"),
}


@pytest.mark.parametrize("f", INTEGERS.values(), ids=INTEGERS)
def test_integer_dtypes_are_constant(f):
    value, t = jvp(f, (A,), (A,))
    np.testing.assert_array_equal(value, f(A))
    assert value.dtype == f(A).dtype and not np.any(t)
    assert not np.any(grad(lambda x: np.sum(f(x) * 1.0))(A))
    np.testing.assert_allclose(grad(lambda x: np.sum(x) + np.sum(f(x)))(A), 1.0)
    np.testing.assert_array_equal(jvp(lambda x: jvp(lambda y: f(x * y) * 1.0, (A,), (A,))[1], (A,), (A,))[1], 0.0 * f(A))


REDUCTIONS = [
    np.sum, np.prod, np.mean, np.var, np.std, np.nansum, np.nanprod, np.nanmean, np.nanvar, np.nanstd, np.add.reduce,
    np.multiply.accumulate, np.subtract.reduce, *([np.cumulative_sum] if hasattr(np, "cumulative_sum") else []),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore")  # NumPy discards imaginary parts
@pytest.mark.parametrize("f", REDUCTIONS, ids=public_name)
def test_reductions_of_other_dtypes_are_numpys_in_every_interpreter(f):
    for x in (V, V.astype(np.float32), V * (2.0 - 1j)):
        for dtype in (int, np.int32, np.float32, float, complex, np.complex64):
            g = lambda x, dtype=dtype: f(x, dtype=dtype)
            try:
                expected = g(x)
            except TypeError:
                for run in (lambda x: jvp(g, (x,), (x,)), lambda x: vjp(g, x), jit(g)):
                    with pytest.raises(TypeError):
                        run(x)
                continue
            value, tangent = jvp(g, (x,), (x,))
            compiled = [jit(g)(x), jit(g, backend="numpy")(x), *jit(lambda x: jvp(g, (x,), (x,)))(x)]
            for got in (value, vjp(g, x)[0]):
                assert np.array_equal(got, expected) and np.asarray(got).dtype == expected.dtype, (x.dtype, dtype)
            for got, other in zip(compiled, (expected, expected, expected, tangent), strict=True):
                assert np.asarray(got).dtype == np.asarray(other).dtype, (x.dtype, dtype)
                np.testing.assert_allclose(got, other, rtol=1e-5, atol=1e-6)


def test_compiled_moments_in_integers_round_before_they_add():
    x = np.linspace(-4.0, 4.0, 12).reshape(3, 4) ** 3 + 0.7
    for f in (np.mean, np.var, np.std):
        for dtype in (int, np.int32, bool):
            with np.errstate(invalid="ignore"):
                try:
                    expected = f(x, axis=0, dtype=dtype)
                except TypeError:
                    continue
                got = jit(lambda x, f=f, dtype=dtype: f(x, axis=0, dtype=dtype))(x)
            assert got.dtype == expected.dtype and np.array_equal(got, expected), (f, dtype)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("f", [*REDUCTIONS[:10], np.cumsum, np.cumprod, np.trace], ids=public_name)
def test_derivatives_of_reductions_of_other_dtypes(f):
    z, w = A * (2.0 - 1j) + 1j, np.flip(A) * (1.0 + 3j)
    for x, v, dtype in ((z, w, float), (A, np.flip(A), complex), (z, w, complex)):
        g = lambda x, dtype=dtype: f(x, dtype=dtype)
        slope = (g(x + 1e-6 * v) - g(x - 1e-6 * v)) / 2e-6
        tangents = jvp(g, (x,), (v,))[1], jit(lambda x, v: jvp(g, (x,), (v,))[1], backend="numpy")(x, v)
        for tangent in tangents:
            np.testing.assert_allclose(tangent, slope, rtol=1e-6, atol=1e-7)
        value, pull = vjp(g, x)
        weights = value * (0.3 + 0.7j) if dtype is complex else value
        np.testing.assert_allclose(np.sum(pull(weights)[0] * v).real, np.sum(weights * slope).real, rtol=1e-6)


@pytest.mark.parametrize("options", [("much", object), ("much", "U4"), ("much", object, "F")])
def test_labels_in_the_shape_of_an_array(options):
    def f(x):
        labels = np.full_like(x, *options)
        labels[x > 0.0] = "more"
        return np.sum(x**2 * (labels == "more"))

    for slope in (gradient(f)(A), grad(f)(A)):
        np.testing.assert_array_equal(slope, np.where(A > 0.0, 2.0 * A, 0.0))


# --- dtype=, casting=, order= ---------------------------------------------------------------------------------------------------

OPTIONS = {
    "einsum": lambda x: np.einsum("ij,jk->ik", x, x, dtype="f", casting="same_kind"),
    "einsum, order": lambda x: np.einsum("ij,jk->ik", x, x, order="F"),
    "matmul": lambda x: np.matmul(x, x, dtype="f"),
    "conjugate": lambda x: np.conjugate(x, dtype="D"),
    "floor_divide": lambda x: np.floor_divide(x, 0.3, dtype="f") * x,
    "power": lambda x: np.power(np.abs(x), np.float64(2.5), dtype="f"),
    "power of doubles": lambda x: np.multiply(x.astype("f"), np.float32(0.1), dtype="d"),
    "logaddexp.reduce": lambda x: np.logaddexp.reduce(x, dtype="f"),
    "maximum.reduce": lambda x: np.maximum.reduce(x, dtype="f"),
    "maximum.accumulate": lambda x: np.maximum.accumulate(x, dtype="f"),
    "hypot.reduce": lambda x: np.hypot.reduce(x, axis=1, dtype="f"),
    "add.reduce": lambda x: np.add.reduce(x, dtype="f"),
    "nanmean": lambda x: np.nanmean(x, dtype="f"),
    "nanvar": lambda x: np.nanvar(x, dtype="f"),
    "cov": lambda x: np.cov(x, dtype="f"),
    "corrcoef": lambda x: np.corrcoef(x, dtype="f"),
    "concatenate": lambda x: np.concatenate([x, x], dtype="f"),
    "order of a ufunc": lambda x: np.sin(x.T, order="C"),
    "subok": lambda x: np.exp(x, subok=False),
}


@pytest.mark.parametrize("f", OPTIONS.values(), ids=OPTIONS)
def test_options_are_honoured(f):
    plain = f(A)
    value, t = jvp(f, (A,), (A,))
    again, pull = vjp(f, A)
    for v in (value, again):
        assert v.dtype == plain.dtype and v.shape == plain.shape and v.tobytes("A") == plain.tobytes("A")
        assert np.ndim(v) == 0 or v.flags.f_contiguous == plain.flags.f_contiguous
    assert t.dtype == plain.dtype
    g = np.cos(np.arange(plain.size)).reshape(plain.shape).astype(plain.dtype)
    assert float(np.sum(pull(g)[0] * A)) == pytest.approx(float(np.real(np.sum(g * t))), rel=1e-5, abs=1e-6)


def test_casting_raises_what_numpy_raises():
    for f in (
        lambda x: np.einsum("ij->", x, dtype="f", casting="safe"),
        lambda x: np.matmul(x, x, dtype="f", casting="safe"),
        lambda x: np.add(x, x, dtype="f", casting="no"),
        lambda x: np.sin(x, dtype=int),
        lambda x: np.concatenate([x, x], dtype="f", casting="safe"),
    ):
        for evaluate in (lambda f: f(A), lambda f: jvp(f, (A,), (A,)), lambda f: vjp(f, A)):
            with pytest.raises(TypeError, match=r"[Cc]annot cast|could not be cast|No loop matching"):
                evaluate(f)


def test_byte_order_comes_back():
    for dtype in (">f8", ">f4", "<f8"):
        x = V.astype(dtype)
        for f in (np.sin, np.copy, np.cumsum, lambda x: x[1:] * x[:-1], lambda x: np.stack([x, x])):
            value, pull = vjp(f, x)
            assert value.dtype == f(x).dtype == jvp(f, (x,), (x,))[1].dtype
            assert pull(np.ones_like(value))[0].dtype == x.dtype


# --- values and shapes that NumPy gives ---------------------------------------------------------------------------------------------

NAN, INF = np.nan, np.inf
VALUES = {
    "cumsum of a number": (np.cumsum, np.array(2.0)),
    "cumsum along an axis of a number": (lambda x: np.cumsum(x, axis=0), np.array(2.0)),
    "cumprod along an axis of a number": (lambda x: np.cumprod(x, axis=0), np.array(2.0)),
    "letters of einsum": (lambda a: np.einsum(a, [26, 0]), np.arange(6.0).reshape(2, 3)),
    "irfftn": (lambda a: np.fft.irfftn(a, s=(3, -1), axes=(0, 1)), np.arange(9.0).reshape(3, 3)),
    "rfftn along an axis twice": (lambda a: np.real(np.fft.rfftn(a, axes=[0, 0])), np.arange(6.0)),
    "bins of single precision": (lambda a: np.histogram(a)[1], np.array([0.1, 0.2, 0.7], np.float32)),
    "weights in bins": (lambda a: np.histogram(np.array([0.1, 0.2, 0.7]), weights=a)[0], np.array([0.1, 0.2, 0.7])),
    "nanmax of nothing": (lambda a: np.nanmax(a, initial=-5.0), np.array([NAN, NAN])),
    "quantile between infinities": (lambda a: np.quantile(a, 0.3), np.array([-INF, 1.0, INF])),
    "interp beside NaN": (lambda x: np.interp(x, [0.0, 1.0, 2.0, 3.0], [1.0, NAN, 2.0, 4.0]), np.array([1.0, 2.0, 0.0, 0.5, 2.5])),
    "weights in bins of a list": (lambda a: np.histogram([0.1, 0.2, 0.7], 2, weights=a)[0], np.array([0.1, 0.2, 0.7])),
    "histogramdd of numbers": (lambda a: np.histogramdd([a[0], a[1]], 2)[1][0], V),
    "cond of zeros": (np.linalg.cond, np.zeros((2, 2))),
    "cond of a singular matrix": (lambda a: np.linalg.cond(a, 1), np.stack([np.ones((2, 2)), A])),
    "slogdet of a singular matrix": (lambda a: np.linalg.slogdet(a)[1], np.stack([np.ones((2, 2)), A])),
    "vector_norm over no axis": (lambda a: np.linalg.vector_norm(a, axis=()), V),
    "gradient over integers": (lambda a: np.gradient(a, np.array([10, 8, 5], np.uint8)), V),
    "cov with counts": (lambda a: np.cov(a, fweights=np.array([200, 200, 100], np.uint8)), V),
    "average with a list": (lambda a: np.average(a, weights=[1, 2, 3]), V),
    "interp with a traced left": (lambda x: np.interp(x, [0.0, 1.0], [1.0, 2.0], left=x[0]), np.array([-1.0, 0.5])),
    "maximum.reduce with a dtype": (lambda a: np.maximum.reduce(a, dtype=float), A),
    "dot beyond matrices": (lambda a: np.dot(a, np.ones((4, 2, 3)) / 3.0), A),
    "a name for the first argument": (lambda a: np.diff(a=a, n=1), A),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("f", "x"), VALUES.values(), ids=VALUES)
def test_values_are_numpys(f, x):
    plain = f(x)
    (value, t), (again, pull) = jvp(f, (x,), (np.ones_like(x),)), vjp(f, x)
    for v in (value, again):
        assert np.asarray(v).dtype == np.asarray(plain).dtype and np.shape(v) == np.shape(plain)
        np.testing.assert_array_equal(v, plain)
    (g,) = pull(np.ones_like(plain))
    assert g.shape == x.shape and np.shape(t) == np.shape(plain)
    if np.all(np.isfinite(t)):
        assert np.sum(g) == pytest.approx(np.sum(t), rel=1e-6, abs=1e-12)


def test_derivatives_beside_those_values():
    for name in ("gradient over integers", "cov with counts", "average with a list", "vector_norm over no axis", "dot beyond matrices"):
        check_derivatives(VALUES[name][0], VALUES[name][1], vjp=vjp)
    check_derivatives(lambda a: np.fft.irfftn(a, s=(3, -1), axes=(0, 1)), np.arange(9.0).reshape(3, 3), vjp=vjp)
    slope = grad(lambda a: np.sum(np.where([False, True], np.linalg.slogdet(a)[1], 0.0)), nan_safe=True)(np.stack([np.ones((2, 2)), A]))
    np.testing.assert_allclose(slope[1], np.linalg.inv(A).T)


RAISES = {
    "median": lambda a: np.median(a, axis=(0, 0)),
    "diff": lambda a: np.diff(a, axis=3),
    "diff of a number": lambda a: np.diff(a[0, 0]),
    "gradient": lambda a: np.gradient(a, axis=3),
    "maximum.accumulate": lambda a: np.maximum.accumulate(a, axis=5),
    "norm": lambda a: np.linalg.norm(a[0, 0], axis=0),
    "subtract.reduce": lambda a: np.subtract.reduce(a, axis=None),
    "take": lambda a: np.take(a, [0], axis=2),
    "split": lambda a: np.split(a, 2, axis=2),
    "trapezoid": lambda a: np.trapezoid(a, axis=2),
    "tensordot": lambda a: np.tensordot(a, a, axes=((5,), (0,))),
    "rollaxis": lambda a: np.rollaxis(a, 0, 9),
    "sliding_window_view": lambda a: np.lib.stride_tricks.sliding_window_view(a, 9, axis=0),
    "ix_": lambda a: np.ix_(a, a),
    "diag of a number": lambda a: np.diag(a[0, 0]),
    "diag in three dimensions": lambda a: np.diag(a[None]),
    "insert": lambda a: np.insert(a, 1, 2j),
    "insert of a list": lambda a: np.insert(a, [0, 1], [1j, 2.0], axis=1),
    **({"matvec": lambda a: np.matvec(a[0], a[0])} if hasattr(np, "matvec") else {}),
}


@pytest.mark.parametrize("f", RAISES.values(), ids=RAISES)
def test_what_numpy_refuses(f):
    with pytest.raises((ValueError, TypeError, IndexError)) as plain:
        f(A)
    for evaluate in (lambda: jvp(f, (A,), (A,)), lambda: vjp(f, A)):
        with pytest.raises((ValueError, TypeError, IndexError)) as ours:
            evaluate()
        assert isinstance(ours.value, type(plain.value) | np.exceptions.AxisError)


@pytest.mark.parametrize("shape, axis", [((70_000,), None), ((70_000, 2), 0)])
def test_a_mean_of_more_elements_than_half_precision_counts(shape, axis):
    x = np.ones(shape, np.float16)
    slope = grad(lambda x: np.sum(np.mean(x, axis=axis)) * np.float16(1000.0))(x)
    assert slope.dtype == np.float16 and (slope == np.float16(1000.0 / 70_000)).all()
