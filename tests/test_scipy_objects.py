"""SciPy's functions that are written in NumPy take traced values: right, if slow, by object arrays, and refused where they were wrong."""

import re

import numpy as np
import pytest
import scipy
import scipy.integrate
import scipy.linalg
import scipy.ndimage
import scipy.optimize
import scipy.signal
import scipy.special
import scipy.stats
from in_groups import for_each

import dualad
from checkpoint import grad
from checkpoint import jacobian as reverse_jacobian
from dualad import gradient, jacobian, jvp, primal

SCIPY = tuple(map(int, scipy.__version__.split(".")[:2]))
pytestmark = pytest.mark.skipif(SCIPY < (1, 15), reason="more functions of an older SciPy ask for plain numbers, and are refused by name")
X = np.array([0.3, 1.7, 0.9, 2.4, 1.1])
Y = np.linspace(0.2, 1.3, 9) ** 2
T = np.array([0.0, 0.5, 0.7, 1.1, 2.0])
A = np.array([[4.0, 1.0, 0.5], [0.2, 3.0, -1.0], [0.3, 0.7, 5.0]])

RIGHT = {
    "special.softmax": (scipy.special.softmax, X),
    "special.softmax of rows": (lambda x: scipy.special.softmax(x, axis=1), A),
    "special.softplus": (lambda x: scipy.special.softplus(x), X),
    "integrate.trapezoid": (lambda x: scipy.integrate.trapezoid(x, T), X),
    "integrate.simpson": (lambda x: scipy.integrate.simpson(x, x=T), X),
    "integrate.romb": (scipy.integrate.romb, Y),
    "integrate.cumulative_trapezoid": (lambda x: scipy.integrate.cumulative_trapezoid(x, T, initial=0.0), X),
    "integrate.cumulative_simpson": (scipy.integrate.cumulative_simpson, X),
    "linalg.norm": (scipy.linalg.norm, X),
    "linalg.norm of a matrix": (scipy.linalg.norm, A),
    "linalg.toeplitz": (scipy.linalg.toeplitz, X),
    "linalg.hankel": (scipy.linalg.hankel, X),
    "linalg.block_diag": (lambda x: scipy.linalg.block_diag(x, A), A),
    "linalg.fiedler": (scipy.linalg.fiedler, X),
    "linalg.convolution_matrix": (lambda x: scipy.linalg.convolution_matrix(x, 3), X),
    "signal.convolve": (lambda x: scipy.signal.convolve(x, T), X),
    "signal.convolve in both": (lambda x: scipy.signal.convolve(x[:3], x), X),
    "signal.correlate": (lambda x: scipy.signal.correlate(T, x), X),
    "optimize.rosen": (scipy.optimize.rosen, X),
    "optimize.rosen_der": (scipy.optimize.rosen_der, X),
    "optimize.rosen_hess": (scipy.optimize.rosen_hess, X),
    "ndimage.mean": (scipy.ndimage.mean, X),
    "ndimage.center_of_mass": (lambda x: scipy.ndimage.center_of_mass(x)[0], X),
    "stats.gmean": (scipy.stats.gmean, X),
    "stats.hmean": (scipy.stats.hmean, X),
    "stats.circmean": (scipy.stats.circmean, X),
    "stats.kstat": (scipy.stats.kstat, X),
    "stats.differential_entropy": (scipy.stats.differential_entropy, X),
    "optimize.newton": (lambda x: scipy.optimize.newton(lambda t: t**3 - x[0], 1.0), X),
    "optimize.newton of an array": (lambda x: scipy.optimize.newton(lambda t: t**3 - x, np.ones(5), fprime=lambda t: 3.0 * t * t), X),
}


def central(f, x, h=1e-5):
    """Return the Jacobian by central differences, extrapolated once."""

    def differences(h):
        columns = []
        for k in range(x.size):
            e = np.zeros(x.size)
            e[k] = h
            columns.append((np.asarray(f(x + e.reshape(x.shape))) - np.asarray(f(x - e.reshape(x.shape)))) / (2.0 * h))
        return np.stack(columns, -1)

    return (4.0 * differences(h) - differences(2.0 * h)) / 3.0


#: what newer SciPy asks for plain numbers, and is refused by name
OF_NUMBERS_SINCE_1_18 = {"linalg.norm", "linalg.norm of a matrix", "linalg.toeplitz", "linalg.convolution_matrix"}


@pytest.mark.filterwarnings("ignore:packing an object array")
@pytest.mark.parametrize("name", RIGHT)
def test_values_and_derivatives(name):
    f, x = RIGHT[name]
    expected = central(f, x)
    g = lambda v: dualad.array(f(v))
    if name in OF_NUMBERS_SINCE_1_18 and SCIPY >= (1, 18):
        with pytest.raises(TypeError, match=rf"scipy\.{name.split()[0]} asks a traced"):
            jacobian(g)(x)
        return
    for take in (jacobian, reverse_jacobian):
        got = np.asarray(take(g)(x))
        np.testing.assert_allclose(got.reshape(expected.shape), expected, rtol=1e-6, atol=1e-8)
    value, _ = jvp(g, (x,), (x,))
    np.testing.assert_allclose(np.asarray(value, float), f(x), rtol=1e-14)


# --- searches -------------------------------------------------------------------------------------------------------------------


def bowl(p):
    return lambda t: (t - p) ** 2 * (1.0 + 0.1 * (t - p))


def cubic(p):
    return lambda t: t**3 - p


def elementwise():
    return pytest.importorskip("scipy.optimize.elementwise", reason="SciPy 1.15 has it")


O = scipy.optimize
SEARCHES = {
    "golden": lambda p: O.golden(bowl(p), brack=(0.0, 1.0)),
    "brent": lambda p: O.brent(bowl(p), brack=(0.0, 1.0)),
    "fminbound": lambda p: O.fminbound(bowl(p), 0.0, 3.0),
    "bracket": lambda p: O.bracket(bowl(p))[1],
    "minimize_scalar": lambda p: O.minimize_scalar(bowl(p)).x,
    "minimize_scalar:bounded": lambda p: O.minimize_scalar(bowl(p), bounds=(0.0, 3.0), method="bounded").x,
    "minimize_scalar:golden": lambda p: O.minimize_scalar(bowl(p), method="golden").x,
    "minimize:powell": lambda p: O.minimize(lambda t: np.sum((t - p) ** 2), [0.5], method="Powell").x[0],
    "minimize:bfgs": lambda p: O.minimize(lambda t: np.sum((t - p) ** 2), [0.5]).x[0],
    "bisect": lambda p: O.bisect(cubic(p), 0.0, 3.0),
    "brentq": lambda p: O.brentq(cubic(p), 0.0, 3.0),
    "brenth": lambda p: O.brenth(cubic(p), 0.0, 3.0),
    "ridder": lambda p: O.ridder(cubic(p), 0.0, 3.0),
    "toms748": lambda p: O.toms748(cubic(p), 0.0, 3.0),
    "root_scalar:bisect": lambda p: O.root_scalar(cubic(p), bracket=(0.0, 3.0), method="bisect").root,
    "root_scalar:brentq": lambda p: O.root_scalar(cubic(p), bracket=(0.0, 3.0), method="brentq").root,
    "root_scalar:toms748": lambda p: O.root_scalar(cubic(p), bracket=(0.0, 3.0), method="toms748").root,
    "elementwise.find_root": lambda p: elementwise().find_root(cubic(p), (0.0, 3.0)).x,
    "elementwise.find_minimum": lambda p: elementwise().find_minimum(bowl(p), (0.0, 1.0, 3.0)).x,
}


@pytest.mark.parametrize("differentiate", [grad, gradient])
@for_each("name", SEARCHES)
def test_searches_are_refused_by_name(name, differentiate):
    function = name.partition(":")[0]
    with pytest.raises(TypeError, match=rf"scipy\.optimize.*{function.rpartition('.')[2]}") as caught:
        differentiate(SEARCHES[name])(1.3)
    assert "dualad.implicit" in str(caught.value) and __file__ in str(caught.value)


def test_searches_inside_of_implicit_and_on_plain_values_are_right():
    def solve(p):
        return O.brentq(cubic(p), 0.0, 3.0)

    root = dualad.implicit(lambda t, p: t**3 - p, solve)
    for differentiate in (grad, gradient):
        np.testing.assert_allclose(differentiate(root)(1.3), 1.3 ** (-2 / 3) / 3.0, rtol=1e-12)
        plain = lambda p: p * O.golden(bowl(primal(p)), brack=(0.0, 1.0))
        np.testing.assert_allclose(differentiate(plain)(1.3), 1.3, rtol=1e-6)
    # of what the user's function computes inside of a search, only the result counts
    found = O.golden(lambda t: jvp(lambda s: (s if s > 0.0 else -s) ** 1.5, (t,), (1.0,))[0], brack=(-1.0, 0.3, 2.0))
    assert abs(found) < 1e-6


# --- refused where they would be wrong ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("differentiate", [grad, gradient])
def test_what_would_be_wrong_is_refused(differentiate):
    tied = np.array([1.0, 2.0, 2.0])
    for f, x, words in (
        (lambda x: scipy.ndimage.maximum(x), tied, "tie"),
        (lambda x: np.max(np.array([x[0], x[1], x[2]])), tied, "tie"),
        (lambda x: np.sum(np.maximum(np.asarray(x), tied[::-1])), tied, "tie"),
        (lambda x: scipy.integrate.trapezoid(X, x), T, r"write dualad\.scipy\.integrate\.trapezoid"),  # sums in the dtype of y
        (lambda x: scipy.linalg.det(np.outer(x, x) + np.eye(3)), X[:3], r"write dualad\.scipy\.linalg\.det"),
        (lambda x: np.sum(scipy.linalg.inv(np.outer(x, x) + np.eye(3))), X[:3], r"write dualad\.scipy\.linalg\.inv"),
        (lambda x: np.sum(scipy.linalg.expm(np.outer(x, x))), X[:3], r"write dualad\.scipy\.linalg\.expm"),
        (lambda x: np.sum(scipy.ndimage.gaussian_filter(x, 1.0)), X, r"dualad\.primitive"),
    ):
        with pytest.raises((TypeError, ValueError, RuntimeError)) as caught:
            differentiate(f)(x)
        told = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", ())])
        assert re.search(words, told), told


def test_a_large_array_is_slow_and_says_what_is_faster():
    x = np.linspace(0.0, 1.0, 40)
    for f, words in (
        (scipy.special.softmax, r"scipy\.special\.softmax: .*dualad\.scipy\.special\.softmax"),
        (scipy.optimize.rosen, r"scipy\.optimize\.rosen: "),
    ):
        with pytest.warns(UserWarning, match=words) as caught:
            jvp(lambda x, f=f: f(x), (x,), (x,))
        assert caught[0].filename == __file__
