"""What compiled functions return is of NumPy's type: an array of no axes, a scalar, a dtype; and options that are traced are read."""

import numpy as np
import pytest
from comparing import same
from in_groups import for_each

from checkpoint import grad
from dualad import gradient, jit, jvp
from dualad.scipy import special

RNG = np.random.default_rng(0)
X = RNG.normal(size=6)
INTEGERS = {
    "int64": np.arange(1, 7),
    "two axes": np.arange(1, 7, dtype=np.int32).reshape(2, 3),
    "uint8": np.arange(1, 7, dtype=np.uint8),
    "bool": np.array([True, False, True]),
    "float32": np.array([3.0, np.nan, 1.0], np.float32),
    "missing": np.array([[np.nan, np.nan], [1.0, np.nan]]),
}
BODIES = [np.nanmax, np.nanmin, np.nansum, np.nanprod, np.nancumsum, np.nancumprod]


@pytest.mark.filterwarnings("ignore:All-NaN")
@pytest.mark.parametrize("backend", ["numpy", "llvm"])
@for_each("name", INTEGERS)
@pytest.mark.parametrize("fn", BODIES)
def test_integers_stay_integers_where_there_is_no_nan(fn, name, backend):
    x = INTEGERS[name]
    for options in ({}, {"axis": -1}, {"axis": 0}):
        same(jit(lambda x, options=options: fn(x, **options), backend=backend)(x), fn(x, **options))


def test_a_median_and_a_sum_of_exponentials_are_scalars():
    same(jit(np.median)(X), np.median(X))
    assert type(jit(special.logsumexp)(X)) is type(special.logsumexp(X)) is np.float64


@pytest.mark.parametrize("power", [2, 3, True, 2.0])
def test_powers_of_truth_values_have_the_dtype_of_numpys_operator(power):
    for x in (np.array([True, False]), np.array(True), np.True_):
        expected, found = x**power, jit(lambda x: x**power)(x)
        assert found.dtype == expected.dtype and np.array_equal(found, expected)


def test_numbers_of_python_that_are_rounded_yield_to_arrays():
    f = lambda x, a: x * round(a, 2)
    same(jit(f)(np.float32([0.5, 2.0]), 0.127), f(np.float32([0.5, 2.0]), 0.127))


def test_both_parts_of_integers_are_floats():
    for x in (np.arange(-3, 4, dtype=np.int8), np.float32(-2.5), 7):
        same(tuple(jit(np.modf)(x)), tuple(np.modf(x)))


SMALL = [np.array([1, 5, 255], np.uint8), np.array([1, -5, 127], np.int8), np.int32(-7), np.array([0, 2**63 + 5], np.uint64)]
COMPARED = [np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal]
BEYOND = [-1, 200, 300, 1 << 40, -(1 << 62), (1 << 63) - 1, 1 << 63, -(1 << 70)]


@pytest.mark.parametrize("x", SMALL, ids=lambda x: x.dtype.name)
def test_integers_are_compared_with_those_that_their_dtype_cannot_hold(x):
    """They were wrapped: of uint8, 5 < 300 was False."""
    for k in BEYOND:
        same(jit(lambda x, k=k: [fn(x, k) for fn in COMPARED])(x), [fn(x, k) for fn in COMPARED])
    compiled = jit(lambda x, k: [fn(k, x) for fn in COMPARED], verify=False)
    for k in BEYOND:
        same(compiled(x, k), [fn(k, x) for fn in COMPARED])
    assert compiled.traces == 1


A = X.reshape(2, 3)
NO_AXES = {
    "tensordot": lambda a: np.tensordot(a, a),
    "tensordot of vectors": lambda a: np.tensordot(a[0], a[1], 1),
    "linalg.tensordot": lambda a: np.linalg.tensordot(a, a),
    "cov": lambda a: np.cov(a[0]),
    "corrcoef": lambda a: np.corrcoef(a[0]),
    "choose": lambda a: np.choose(1, [a[0, 0], a[1, 2]]),
    "vdot": lambda a: np.vdot(a, a),
    "squeeze": lambda a: np.squeeze(a[:1, :1]),
}


@pytest.mark.parametrize("backend", ["numpy", "llvm", None])
@pytest.mark.parametrize("name", NO_AXES)
def test_results_of_no_axes_are_arrays_or_scalars_as_in_numpy(name, backend):
    f = NO_AXES[name]
    got = jvp(f, (A,), (A,))[0] if backend is None else jit(f, backend=backend)(A)
    expected = f(A)
    assert type(got) is type(expected) and got.dtype == expected.dtype
    np.testing.assert_allclose(got, expected, rtol=1e-14)


PADDED = {
    "one": lambda x: np.pad(x, 1, constant_values=x[0]),
    "a pair": lambda x: np.pad(x, (1, 2), constant_values=(x[0], x[1])),
    "an array": lambda x: np.pad(x, (1, 2), constant_values=x[:2]),
    "corners": lambda x: np.pad(x[None] * 1.0, ((0, 1), (1, 2)), constant_values=((x[0], x[1]), (x[2], 3.0))),
    "nowhere": lambda x: np.pad(x, 0, constant_values=x[0]),
    "ramp": lambda x: np.pad(x, 2, mode="linear_ramp", end_values=(x[0], x[1])),
}


def test_a_derivative_by_an_option_without_one_is_refused_by_the_pullback_of_a_program_too():
    f = lambda x: np.sum(x, initial=x[0])
    for backend in ("numpy", "llvm"):
        with pytest.raises(TypeError, match="no derivative with respect to its argument 'initial'"):
            grad(jit(f, backend=backend))(X)
        floored = jit(lambda x: np.sum(x * x, initial=np.floor(x[0])), backend=backend)
        np.testing.assert_allclose(grad(floored)(X), 2.0 * X)


def test_einsum_of_a_number_and_computed_degrees_of_freedom_are_compiled():
    f, g = lambda x: np.einsum("i,i", x, x), lambda x: np.var(x, ddof=np.floor(x[0] * 0.0))
    np.testing.assert_allclose(jit(grad(f), backend="llvm")(X), 2.0 * X)
    np.testing.assert_allclose(jit(g, backend="llvm")(X), np.var(X))


V, AT = RNG.normal(size=40), RNG.integers(0, 6, 40)


def summed_at(copy, ufunc, index=AT, terms=slice(None)):
    def f(z):
        y = copy(z[:6])
        ufunc.at(y, index, z[6:][terms])
        return y

    return f


SUMS = {
    "add": summed_at(np.copy, np.add),
    "subtract": summed_at(np.copy, np.subtract),
    "one term": summed_at(np.copy, np.add, [0, 0, 2, 0], 3),
    "a slice": summed_at(np.copy, np.subtract, slice(1, 4), slice(3)),
    "rows": summed_at(lambda x: np.outer(x, x[:3]), np.add, (AT[:20], slice(None)), slice(3)),
    "np.array": summed_at(np.array, np.add),
    "np.array, two axes": summed_at(lambda x: np.array(np.outer(x, x[:3]).T), np.subtract, (slice(None), AT[:3]), slice(3)),
    "np.array, products": summed_at(np.array, np.multiply, [0, 0, 2], slice(3)),
}


PADDED_OR_SUMMED = {**{name: (f, X) for name, f in PADDED.items()}, **{name: (f, np.concatenate([X, V])) for name, f in SUMS.items()}}


@pytest.mark.parametrize("backend", ["numpy", "llvm", None])
@pytest.mark.parametrize("name", PADDED_OR_SUMMED)
def test_padding_with_traced_constants_and_sums_at_repeated_positions_have_the_bits_of_numpy(name, backend):
    f, z = PADDED_OR_SUMMED[name]
    if backend is not None:
        np.testing.assert_array_equal(jit(f, backend=backend)(z), f(z))
    weights = RNG.normal(size=f(z).shape)
    loss = lambda z: np.sum(weights * f(np.sin(z)) * f(z))
    slope = [np.imag(loss(z + 1e-30j * row)) / 1e-30 for row in np.eye(z.size)]
    for g in [gradient(loss), grad(loss)] if backend is None else [jit(grad(loss), backend=backend), grad(jit(loss, backend=backend))]:
        np.testing.assert_allclose(g(z), slope, rtol=1e-11, atol=1e-12)


OF_INTEGERS = {
    "unwrap": np.unwrap,
    "unwrap, integer period": lambda k: np.unwrap(k, period=4),
    "nan_to_num": np.nan_to_num,
    "angle": np.angle,
    "angle in degrees": lambda k: np.angle(k, deg=True),
    "conj": lambda k: k.conj(),
}


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
@pytest.mark.parametrize("name", OF_INTEGERS)
def test_functions_of_integers_have_the_dtype_of_numpy(name, backend):
    f = OF_INTEGERS[name]
    for dtype in ("?", "i1", "i4", "i8", "u1", "f4", "f8"):
        k = np.array([[0, 1, 3], [-1, 1, 5]]).astype(dtype) if dtype[0] != "u" else np.arange(6).reshape(2, 3).astype(dtype)
        if "period" in name and dtype in ("?", "u1"):  # NumPy refuses its own remainder
            continue
        found, expected = jit(f, backend=backend)(k), f(k)
        assert found.dtype == expected.dtype, dtype
        np.testing.assert_allclose(found, expected, rtol=4.0 * np.finfo(float if expected.dtype.kind in "iub" else expected.dtype).eps)
