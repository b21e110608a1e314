"""scipy.special at complex arguments, at 0 log 0, at poles, and in single precision; the digits of real ones are in test_accuracy."""

import numpy as np
import pytest

from checkpoint import grad, vjp
from dualad import derivative, jvp
from dualad.testing import check_derivatives

sp = pytest.importorskip("scipy.special")

U = np.array([0.2, 0.45, 0.83])


@pytest.mark.parametrize("fn", [sp.ive, sp.jve, sp.yve])
def test_scaled_bessel_functions_of_complex_numbers_are_not_holomorphic(fn):
    z = np.array([0.4 + 0.3j, -0.6 + 0.5j])
    check_derivatives(lambda z: fn(1.3, z), z, vjp=vjp)
    assert jvp(lambda z: fn(1.3, z), (z,), (z,))[0] == pytest.approx(fn(1.3, z), rel=1e-14)


@pytest.mark.parametrize("name", ["rgamma", "erfcx", "dawsn", "log_ndtr", "ellipk", "ellipe", "exprel", "spence", "expit"])
def test_single_precision_stays_single(name):
    x = U.astype(np.float32)
    value, tangent = jvp(getattr(sp, name), (x,), (x,))
    assert value.dtype == tangent.dtype == vjp(getattr(sp, name), x)[1](x)[0].dtype == np.float32


@pytest.mark.parametrize(
    ("f", "x", "slopes"),
    [
        (lambda y: sp.xlogy(0.0, y), 0.0, [0.0]),
        (lambda y: sp.xlog1py(0.0, y), -1.0, [0.0]),
        (sp.ellipk, 0.0, [np.pi / 8]),
        (sp.spence, 1.0, [-1.0]),
        (sp.exprel, 0.0, [1 / 2, 1 / 3]),
        (lambda x: sp.sici(x)[0], 0.0, [1.0]),
        (sp.entr, 0.0, [np.inf]),
        (lambda x: sp.kn(0, x), 0.0, [-np.inf]),
        (sp.k1, 0.0, [-np.inf]),
        (lambda x: sp.gammainc(0.5, x), 0.0, [np.inf]),
        (lambda x: sp.gammainc(1.0, x), 0.0, [1.0, -1.0]),
        (lambda x: sp.gammainc(2.0, x), 0.0, [0.0, 1.0]),
        (lambda x: sp.gammainc(3.0, x), 0.0, [0.0, 0.0]),
        (lambda x: sp.struve(0.0, x), 0.0, [2.0 / np.pi]),
        (lambda x: sp.kl_div(x, 1.0), 0.0, [-np.inf]),
        (lambda x: sp.pseudo_huber(x, 0.0), 0.0, [0.0]),
        (lambda x: sp.ive(1.0, x), -50.0, [-0.00055135972329911]),
        (lambda x: sp.poch(x, 5.0), -3.0, [-6.0]),  # of x (x + 1) (x + 2) (x + 3) (x + 4)
        (lambda x: sp.binom(x, 7.0), 5.0, [-1.0 / 42.0]),
    ],
)
def test_edges_have_their_limits_without_warnings(f, x, slopes):
    assert [derivative(f, order=k)(x) for k, _ in enumerate(slopes, 1)] == pytest.approx(slopes, rel=1e-13)
    assert grad(f)(x) == pytest.approx(slopes[0], rel=1e-13)
