"""What accumulates, in loops: convolutions, and cumulative sums and products along any axis."""

import numpy as np
import pytest
from in_loops import chain_is_made_in_blocks, has_eager_derivatives

from checkpoint import Stats, chain, grad
from dualad import jit
from dualad.jit.compiled import BACKENDS
from dualad.rules.kinds import ROWS
from dualad.rules.linalg import ASKED_PRODUCTS
from dualad.support.costs import LIBRARY_PRODUCTS, UNROLLED_ELEMENTS

pytest.importorskip("llvmlite", reason="llvmlite is not installed")

WEIGHTS = np.array([0.25, -1.0, 0.5, 3.0, 0.125])
FUNCTIONS = {
    "convolve": lambda x: np.convolve(x, WEIGHTS, "same"),
    "convolve in full": lambda x: np.convolve(x, WEIGHTS),
    "convolve with itself": lambda x: np.convolve(x, np.sin(x)),
    "convolve a shorter one": lambda x: np.convolve(x[:3], np.cos(x), "valid"),
    "correlate": lambda x: np.correlate(x, WEIGHTS),
    "correlate with a longer one": lambda x: np.correlate(WEIGHTS, np.tanh(x), "full"),
    "of integers": lambda x: np.convolve(np.arange(9), np.array([1, -2, 3])) * np.mean(x) / 99.0,
    "complex": lambda x: np.real(np.convolve(x + 1j * np.cos(x), WEIGHTS * 1j)),
    "cumsum along the first axis": lambda x: np.cumsum(x.reshape(4, 5), axis=0),
    "cumprod along the last but one": lambda x: np.cumprod(x.reshape(2, 5, 2), axis=-2),
    "sums of segments": lambda x: np.add.reduceat(x, [0, 4, 4, 11, 2]),
    "sums of segments of columns": lambda x: np.add.reduceat(x.reshape(5, 2, 2), np.array([1, 0, 4]), axis=-3),
    "segments of one": lambda x: np.add.reduceat(x, np.arange(20), dtype=np.float64),
    "cumsum of all": lambda x: np.cumsum(x.reshape(4, 5)),
    "differences of neighbours": lambda x: np.gradient(x) * np.gradient(x.reshape(4, 5), axis=0).ravel(),
}
functions = pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)
X, T = np.random.default_rng(5).normal(size=(2, 20))


@functions
@pytest.mark.parametrize("backend", BACKENDS)
def test_derivatives_are_the_eager_ones(f, backend):
    has_eager_derivatives(f, X, T, backend, 1e-11, 1e-12)


@pytest.mark.parametrize("name", ["convolve with itself", "cumprod along the last but one", "sums of segments of columns"])
def test_a_chain_is_made_in_blocks(name):
    f = FUNCTIONS[name]
    chain_is_made_in_blocks(lambda k, x: 0.9 * np.sin(x) + 0.01 * np.sum(np.cos(f(x)) ** 2), X, 1e-10)


@pytest.mark.parametrize("count", range(1, UNROLLED_ELEMENTS // 4 + 1))
def test_a_convolution_with_few_weights_has_numpys_bits_inside(count):
    a, v = np.random.default_rng(count).normal(size=(2, 40))
    got = jit(np.convolve)(a, v[:count], "valid")
    np.testing.assert_array_equal(got, np.convolve(a, v[:count], "valid"))


def test_a_large_convolution_is_the_librarys():
    n = int(LIBRARY_PRODUCTS**0.5) + 1
    x = np.ones(n)
    f = jit(lambda x: np.convolve(x, x))
    np.testing.assert_array_equal(f(x), np.convolve(x, x))
    assert "which the library does faster" in f.explain(x)


PRODUCTS = {
    "matrices": ((80, 70), (70, 90)),
    "a matrix and a vector": ((520, 520), (520,)),
    "a vector and a matrix": ((520,), (520, 520)),
    "vectors": ((300_000,), (300_000,)),
    "stacks": ((3, 70, 60), (3, 60, 90)),
    "a matrix and a stack": ((80, 70), (3, 70, 90)),
}


@pytest.mark.parametrize("shapes", PRODUCTS.values(), ids=PRODUCTS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=str)
def test_large_products_are_the_librarys_without_python(shapes, dtype):
    a, b = (np.random.default_rng(2).normal(size=shape).astype(dtype) for shape in shapes)
    for product in (np.matmul, np.dot) if max(a.ndim, b.ndim) < 3 else (np.matmul,):
        f = jit(lambda a, b, product=product: product(a, b) + 1)
        np.testing.assert_array_equal(f(a, b), product(a, b) + 1)
        assert "called" not in f.explain(a, b)


@pytest.mark.parametrize("shapes", [((), (3,)), ((2, 3), ()), ((), ()), ((2, 3), (4, 3, 2)), ((2, 2, 3), (2, 3, 2))], ids=str)
def test_dot_of_numbers_and_of_stacks_is_numpys(shapes):
    a, b = (np.random.default_rng(2).normal(size=shape) for shape in shapes)
    for args in ((a, b), (a.tolist(), b)):
        np.testing.assert_array_equal(jit(np.dot)(*args), np.dot(a, b))
    np.testing.assert_array_equal(jit(lambda b: np.dot(a.tolist(), b))(b), np.dot(a, b))
    assert "no ufunc computes that" in jit(np.dot).explain(a, b)


def test_products_and_solutions_take_lists():
    a, x = [[2.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, 4.0]], np.array([1.0, 2.0, 4.0])
    for fn in (np.dot, np.matmul, np.linalg.solve):
        f = jit(lambda x, fn=fn: fn(a, x))
        np.testing.assert_allclose(f(x), fn(a, x), rtol=1e-14)
        assert "called" not in f.explain(x)


def test_a_chain_with_large_products_is_made_in_blocks():
    a, x = np.random.default_rng(2).normal(size=(2, 80, 80)) / 9.0
    turn, stats = lambda k, x: np.tanh(a @ x), Stats()
    got = grad(lambda x: np.sum(chain(jit(turn), x, steps=5, stats=stats) ** 2))(x)
    assert "compiled steps" in stats.reason
    np.testing.assert_allclose(got, grad(lambda x: np.sum(chain(turn, x, steps=5) ** 2))(x), rtol=1e-9, atol=1e-12)


def test_very_large_products_are_called():
    a = np.broadcast_to(0.0, (round(ASKED_PRODUCTS ** (1 / 3)) + 1,) * 2)
    with pytest.raises(LookupError, match="a call of Python takes no time beside them"):
        ROWS[np.matmul].inner(a, a)


@pytest.mark.parametrize("dtype", [int, np.float32, float])
@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_complex_numbers_in_a_real_dtype_are_their_real_parts(dtype):
    z = np.array([[1.5 + 1j, 2.7 + 0.5j], [3.1, -4.2 - 2j]])
    for reduction in (np.sum, np.prod, np.mean, np.cumsum, np.cumprod, np.nansum, np.trace):
        f = lambda x, reduction=reduction: reduction(x, dtype=dtype)
        value, expected = jit(f)(z), f(z)  # it would warn where NumPy runs it instead
        assert value.dtype == expected.dtype
        np.testing.assert_allclose(value, expected, rtol=1e-6)
