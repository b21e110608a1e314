"""scipy.special where textbook formulas cancel, overflow or divide zero by zero: both orders against mpmath, at 60 digits."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from mpmath import mp, mpf

from checkpoint import grad, vjp
from dualad import derivative, jvp
from dualad.testing import check_derivatives

sp = pytest.importorskip("scipy.special")

MODULI = [1e-9, 1e-4, 0.009, 0.011, 0.24, 0.26, 0.5, 0.99, -0.5, -3.0]
POINTS = {
    "rgamma": (sp.rgamma, mp.rgamma, [-3.0, 0.0, -2.5, 0.3, 4.0]),
    "erfcx": (sp.erfcx, lambda x: mp.exp(x * x) * mp.erfc(x), [-2.0, 0.5, 29.0, 31.0, 1e3, 1e5]),
    "dawsn": (sp.dawsn, lambda x: mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x), [0.7, 29.0, -31.0, 1e3]),
    "expit": (sp.expit, lambda x: 1 / (1 + mp.exp(-x)), [-40.0, 0.3, 30.0, 40.0]),
    "log_ndtr": (sp.log_ndtr, lambda x: mp.log(mp.erfc(-x / mp.sqrt(2)) / 2), [-1e4, -30.0, 0.0, 3.0]),
    "exprel": (sp.exprel, lambda x: mp.expm1(x) / x, [1e-9, 1e-3, 0.09, 0.11, 3.0, -30.0, 600.0]),
    "spence": (sp.spence, lambda z: mp.polylog(2, 1 - z), [1.0001, 1.09, 1.11, 0.5, 3.0]),
    "ellipk": (sp.ellipk, mp.ellipk, [*MODULI, -100.0, 0.999999]),
    "ellipe": (sp.ellipe, mp.ellipe, [*MODULI, -100.0, 0.999999]),
    "ellipkm1": (sp.ellipkm1, lambda p: mp.ellipk(1 - p), [1.0 - 1e-9, 0.9, 0.5, 1e-6, 3.0]),
    "ellipkinc": (lambda m: sp.ellipkinc(0.8, m), lambda m: mp.ellipf(mpf(0.8), m), MODULI),
    "ellipeinc": (lambda m: sp.ellipeinc(0.8, m), lambda m: mp.ellipe(mpf(0.8), m), MODULI),
    "pseudo_huber": (lambda d: sp.pseudo_huber(d, 1e-3), lambda d: d * d * (mp.sqrt(1 + (mpf(1e-3) / d) ** 2) - 1), [2.0, 1e-3]),
    "boxcox": (lambda c: sp.boxcox(2.5, c), lambda c: (mpf(2.5) ** c - 1) / c, [1e-9, 1e-3, 0.5, -2.0]),
    "inv_boxcox": (lambda c: sp.inv_boxcox(0.7, c), lambda c: (c * mpf(0.7) + 1) ** (1 / c), [1e-9, 1e-3, 0.013, 0.5]),
    "struve": (lambda x: sp.struve(1.5, x), lambda x: mp.struveh(1.5, x), [1e-3, 0.5, 10.0]),
    "modstruve": (lambda x: sp.modstruve(1.5, x), lambda x: mp.struvel(1.5, x), [1e-3, 0.5, 10.0]),
    "psi": (sp.psi, mp.digamma, [-0.5, -3.3, 0.2, 50.0]),
    "gammainc": (lambda x: sp.gammainc(40.0, x), lambda x: mp.gammainc(40, 0, x, regularized=True), [5.0, 40.0, 90.0]),
}
U = np.array([0.2, 0.45, 0.83])


@pytest.mark.parametrize("name", POINTS)
def test_both_orders_keep_their_digits(name):
    f, reference, points = POINTS[name]
    with mpmath.workdps(60):
        for x in points:
            first, second = (float(mp.re(mp.diff(reference, mpf(x), n, h=mpf(10) ** -20))) for n in (1, 2))
            assert derivative(f)(x) == pytest.approx(first, rel=1e-11), x
            assert derivative(f, order=2)(x) == pytest.approx(second, rel=1e-8), x
            assert grad(f)(x) == pytest.approx(first, rel=1e-11), x


@pytest.mark.parametrize("fn", [sp.ive, sp.jve, sp.yve])
def test_scaled_bessel_functions_of_complex_numbers_are_not_holomorphic(fn):
    z = np.array([0.4 + 0.3j, -0.6 + 0.5j])
    check_derivatives(lambda z: fn(1.3, z), z, vjp=vjp)
    assert jvp(lambda z: fn(1.3, z), (z,), (z,))[0] == pytest.approx(fn(1.3, z), rel=1e-14)


@pytest.mark.parametrize(("fn", "slope"), [(sp.xlogy, 0.0), (sp.xlog1py, 0.0)])
def test_zero_times_the_logarithm_of_zero_is_flat(fn, slope):
    y = 0.0 if fn is sp.xlogy else -1.0
    assert jvp(lambda y: fn(0.0, y), (y,), (1.0,))[1] == slope
    assert grad(lambda y: fn(0.0, y))(y) == slope


@pytest.mark.parametrize("name", ["rgamma", "erfcx", "dawsn", "log_ndtr", "ellipk", "ellipe", "exprel", "spence", "expit"])
def test_single_precision_stays_single(name):
    x = U.astype(np.float32)
    value, tangent = jvp(getattr(sp, name), (x,), (x,))
    assert value.dtype == tangent.dtype == vjp(getattr(sp, name), x)[1](x)[0].dtype == np.float32
