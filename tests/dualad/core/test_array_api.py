"""The array API standard: the namespace of traced values, and packages that ask for it."""

import subprocess
import sys

import numpy as np
import pytest

import checkpoint
import dualad

X = np.array([[0.3, 0.7, 1.1], [0.4, 1.6, 0.2]])


def agree(f, x=X):
    """Compare the value of f with its plain one, and its derivative in both modes with central differences along a direction."""
    plain, direction, h = np.asarray(f(x)), np.cos(np.arange(x.size)).reshape(x.shape), 1e-6
    expected = (np.asarray(f(x + h * direction)) - np.asarray(f(x - h * direction))) / (2.0 * h)
    value, tangent = dualad.jvp(f, (x,), (direction,))
    np.testing.assert_array_equal(value, plain)
    np.testing.assert_allclose(tangent, expected, rtol=1e-6, atol=1e-9)
    weights = np.sin(1.0 + np.arange(plain.size)).reshape(plain.shape)
    slope = np.sum(direction * checkpoint.grad(lambda x: np.sum(weights * f(x)))(x))
    np.testing.assert_allclose(slope, np.sum(weights * expected), rtol=1e-6, atol=1e-9)


def namespace(x):
    return x.__array_namespace__()


CALLS = {
    "asarray": lambda xp, x: xp.asarray(x, dtype=xp.float64, copy=True) ** 2,
    "a list": lambda xp, x: xp.asarray([x[0, 0], 2.0, x[1, 1]]) ** 2,
    "astype": lambda xp, x: xp.astype(x, xp.float64, copy=False) ** 2,
    "full": lambda xp, x: xp.full((2,), x[0, 1] ** 2),
    "zeros_like": lambda xp, x: xp.zeros_like(x) + xp.permute_dims(x, (0, 1)) ** 2,
    "result_type": lambda xp, x: xp.asarray(2.0, dtype=xp.result_type(x, xp.float32)) * x,
    "isdtype": lambda xp, x: x * x if xp.isdtype(x.dtype, "real floating") else x,
    "linalg": lambda xp, x: xp.linalg.matrix_norm(x @ x.mT) * xp.linalg.vector_norm(x),
    "fft": lambda xp, x: xp.abs(xp.fft.rfft(x)) ** 2,
    "special": lambda xp, x: getattr(xp, "special", __import__("scipy").special).gammaln(x),
    "where": lambda xp, x: xp.where(x > 0.5, xp.acosh(1.0 + x), xp.concat([x, x], axis=0)[:2] ** 2),
    "statistics": lambda xp, x: xp.var(x, axis=0, correction=1) + xp.max(x, axis=0) + xp.take(xp.sort(x, axis=0), 1, axis=0),
    "device": lambda xp, x: x.to_device(x.device) ** 2,
}


@pytest.mark.parametrize("name", CALLS)
def test_functions_of_the_namespace(name):
    pytest.importorskip("scipy.special")
    agree(lambda x: CALLS[name](namespace(x), x))


def test_the_namespace_compiles():
    def f(x):
        xp = namespace(x)
        return xp.sum(xp.asarray(x, copy=True) ** 2 + xp.full((3,), x[0, 1]))

    compiled = dualad.jit(checkpoint.grad(f))
    np.testing.assert_array_equal(compiled(X), checkpoint.grad(f)(X))


def test_a_copy_does_not_share():
    def f(x):
        xp = namespace(x)
        shared, copied = xp.asarray(x), xp.asarray(x, copy=True)
        copied[0] = 0.0
        assert shared is x
        return xp.sum(x**2) + xp.sum(copied)

    np.testing.assert_allclose(checkpoint.grad(f)(X.copy()), 2.0 * X + np.array([[0.0], [1.0]]), rtol=1e-15)


def test_what_the_standard_asks_of_an_array():
    def f(x):
        assert namespace(x) is namespace(x[0, 0]) is x.__array_namespace__(api_version="2022.12")
        assert x.device == "cpu" and x.mT.shape == (3, 2)
        for call, message in (
            (lambda: x.__array_namespace__(api_version="1999.1"), "1999.1"),
            (lambda: x.to_device("gpu"), "to_device: a traced value is on the device 'cpu'.*'gpu'"),
            (lambda: x.to_device("cpu", stream=1), "knows no streams"),
            (lambda: x[0].mT, "axis"),
        ):
            with pytest.raises(ValueError, match=message):
                call()
        with pytest.raises((AttributeError, TypeError), match=r"no '__dlpack__'.*primal"):
            x.__dlpack__()
        assert not hasattr(x, "__dlpack__")
        return np.sum(x)

    assert np.array_equal(checkpoint.grad(f)(X), np.ones((2, 3))) and dualad.jvp(f, (X,), (X,))[1] == np.sum(X)


SCIPY = """
import numpy as np
from scipy import fft, signal, special, stats
from tests.dualad.core.test_array_api import agree

X = np.array([0.3, 0.7, 1.1, 0.4])
for f in (
    special.erf, special.gammaln, special.logsumexp, special.softmax, lambda x: special.xlogy(x, x),
    lambda x: special.betainc(2.0, 3.0, x / 2.0),
    stats.gmean, stats.zscore, stats.skew, stats.kurtosis, stats.sem, stats.circvar, lambda x: stats.moment(x, 3),
    lambda x: stats.boxcox_llf(0.5, x), lambda x: stats.entropy(x),
    lambda x: np.abs(fft.fft(x)) ** 2, fft.fftshift, lambda x: signal.convolve(x, x), lambda x: np.abs(signal.hilbert(x)) ** 2,
):
    agree(f, X)
import dualad.scipy.special as ours
agree(ours.erf, X)
import dualad
try:
    dualad.jvp(lambda x: special.logsumexp(x, b=np.ones(4)), (X,), (X,))
except TypeError as error:
    assert "Multiple namespaces" in str(error)
else:
    raise AssertionError("SciPy mixes them now: say so in the documents")
"""


@pytest.mark.slow
def test_scipy_by_the_standard():
    pytest.importorskip("scipy", minversion="1.16")
    program = f"import os; os.environ['SCIPY_ARRAY_API'] = '1'\n{SCIPY}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr


def test_array_api_compat_and_extra():
    compat, extra = pytest.importorskip("array_api_compat"), pytest.importorskip("array_api_extra")

    def scaled(x):
        xp = compat.array_namespace(x)
        return (x - xp.mean(x, axis=0)) / xp.std(x, axis=0) + compat.to_device(x, compat.device(x))

    agree(scaled)
    for f in (extra.cov, extra.sinc, lambda x: extra.at(x, 0).set(x[1] ** 2, copy=True), lambda x: extra.kron(x, x)):
        agree(f)


def test_einops():
    einops = pytest.importorskip("einops")
    agree(lambda x: einops.rearrange(x, "a b -> b a") ** 2)
    agree(lambda x: einops.reduce(x, "a b -> b", "mean") ** 2)
    agree(lambda x: einops.rearrange([x, x**2], "n a b -> a (b n)"))
    agree(lambda x: einops.einsum(x, x, "a b, c b -> a c"))


def test_xarray():
    xarray = pytest.importorskip("xarray")

    def named(x):
        return xarray.DataArray(x, dims=("a", "b"))

    agree(lambda x: (np.sin(named(x)) * xarray.DataArray(np.arange(3.0), dims="b")).sum("b").data)
    agree(lambda x: named(x).std("a").data)
    agree(lambda x: xarray.where(named(x) > 0.5, named(x) ** 2, 0.0).data)
    agree(lambda x: xarray.dot(named(x), named(x).rename(a="c")).data)
    agree(lambda x: xarray.concat([named(x), named(x).isel(a=[0]) ** 2], "a").values)
