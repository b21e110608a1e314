"""scipy.special: every row against central differences, in both modes, and closed forms and mpmath's derivatives."""

from __future__ import annotations

import subprocess
import sys

import mpmath
import numpy as np
import pytest

from checkpoint import vjp
from dualad import derivative, jvp
from dualad.rules import ROWS
from dualad.rules.late import late_row
from dualad.testing import check_derivatives

sp = pytest.importorskip("scipy.special")
late_row(None)


def words(text):
    return text.split()


X = np.array([0.31, 0.72, 1.4])
U = np.array([0.2, 0.45, 0.83])
Z = np.array([0.4 + 0.3j, -0.6 + 0.5j])
N = np.array([0, 1, 3])
#: calls; integers and what stands in tuples is not differentiated
SAMPLES = {
    **{
        name: [(X,)]
        for name in words(
            "gamma gammaln loggamma rgamma psi erf erfc erfcx erfi dawsn ndtr log_ndtr expit log_expit cbrt exp2 exp10 "
            "expm1 log1p cosm1 exprel sindg cosdg tandg cotdg entr "
            "wrightomega exp1 expi spence j0 j1 y0 y1 i0 i1 k0 k1 i0e i1e k0e k1e ber bei ker kei berp beip kerp keip "
            "fresnel sici shichi airy itj0y0 iti0k0 "
        )
    },
    **{name: [(U,)] for name in words("erfinv erfcinv ndtri logit ellipk ellipe ellipkm1")},
    **{
        name: [(X, U)]
        for name in words(
            "beta betaln poch binom owens_t xlogy xlog1py rel_entr kl_div boxcox boxcox1p pseudo_huber ellipeinc ellipkinc "
            "powm1 inv_boxcox inv_boxcox1p"
        )
    },
    **{
        name: [((1.7,), X)]
        for name in words(
            "gammainc gammaincc jv yv jve yve iv kv ive kve hankel1 hankel2 hankel1e hankel2e struve modstruve chdtr chdtrc stdtr hyp0f1"
        )
    },
    **{name: [((1.7,), U)] for name in words("gammaincinv gammainccinv chdtri stdtrit")},
    **{name: [((1.7,), (2.2,), U)] for name in words("betainc betaincc betaincinv betainccinv hyp1f1 hyperu")},
    **{
        name: [(N, X)]
        for name in words(
            "expn yn kn pdtr pdtrc eval_legendre eval_chebyt eval_chebyu eval_sh_legendre eval_sh_chebyt "
            "eval_sh_chebyu eval_hermite eval_hermitenorm eval_laguerre "
        )
    },
    "loggamma_": [(Z + 2.0,)],
    "wofz": [(Z,)],
    "lambertw": [(X,), (Z,)],
    "zeta": [((2.3,), X)],
    "hyp2f1": [((0.7,), (1.2,), (2.1,), U)],
    "ndtri_exp": [(-X,)],
    "gdtr": [(X, (1.3,), U)],
    "gdtrc": [(X, (1.3,), U)],
    "radian": [(X, U, X)],
    "huber": [(U, 3.0 * X), (X + 2.0, U)],
    "elliprf": [(X, U, X + 1.0)],
    "ellipj": [(X, (0.3,))],
    "fdtr": [((3.0,), (4.0,), X)],
    "fdtrc": [((3.0,), (4.0,), X)],
    "fdtri": [((3.0,), (4.0,), U)],
    "eval_gegenbauer": [(N, (0.8,), U)],
    "eval_genlaguerre": [(N, (0.8,), U)],
    "eval_jacobi": [(N, (0.8,), (0.3,), U)],
    "erf_": [(Z,)],
    "jv_": [((0.7,), Z)],
    "gamma_": [(Z + 2.0,)],
}


#: the partials have no partials, and say why: SciPy has no complex trigamma, and that of RD cancels
FIRST_ORDER = {"loggamma_", "gamma_", "elliprf"}


def split(args):
    """The function of the differentiable arguments alone, and those arguments."""
    free = [arg for arg in args if isinstance(arg, np.ndarray) and arg.dtype.kind in "fc"]

    def fill(leaves):
        left = iter(leaves)
        return [
            next(left) if isinstance(arg, np.ndarray) and arg.dtype.kind in "fc" else arg[0] if isinstance(arg, tuple) else arg
            for arg in args
        ]

    return fill, free


@pytest.mark.parametrize("name", SAMPLES)
def test_derivatives_against_differences(name):
    fn = getattr(sp, name.rstrip("_"), None)
    if fn is None:
        pytest.skip("this version of SciPy does not have it")
    for args in SAMPLES[name]:
        fill, free = split(args)
        f = lambda *leaves, fn=fn, fill=fill: fn(*fill(leaves))
        check_derivatives(f, *free, order=1 if name in FIRST_ORDER else 2, vjp=vjp)
        if name in FIRST_ORDER:
            with pytest.raises(TypeError, match=r"scipy\.special\.(psi|elliprd) has no derivative"):
                check_derivatives(f, *free, order=2, vjp=vjp)
        value, expected = jvp(f, tuple(free), tuple(free))[0], f(*free)
        for a, b in zip(
            value if isinstance(value, tuple) else [value], expected if isinstance(expected, tuple) else [expected], strict=True
        ):
            assert a.dtype == b.dtype and np.array_equal(a, b)


def test_every_row_has_samples():
    sampled = {name.rstrip("_") for name in SAMPLES}
    names = {
        row.name.split(".")[-1].lstrip("_")
        for row in ROWS.values()
        if row.name.startswith("scipy.special.") and row.kind not in ("constant", "refused")
    }
    assert not names - sampled
    assert len(names) >= 100


@pytest.mark.parametrize(
    ("ours", "exact", "x"),
    [
        (sp.gamma, mpmath.gamma, 1.3),
        (sp.erf, mpmath.erf, 0.4),
        (sp.j0, lambda x: mpmath.besselj(0, x), 2.2),
        (sp.psi, mpmath.digamma, 0.7),
        (sp.expi, mpmath.ei, 1.1),
        (sp.k1, lambda x: mpmath.besselk(1, x), 0.9),
        (sp.spence, lambda x: mpmath.polylog(2, 1 - x), 0.4),
        (sp.ellipk, mpmath.ellipk, 0.3),
        (sp.exprel, lambda x: mpmath.expm1(x) / x, 0.05),
        (lambda x: sp.eval_legendre(4, x), lambda x: mpmath.legendre(4, x), 0.3),
        (lambda x: sp.hyp1f1(0.7, 1.9, x), lambda x: mpmath.hyp1f1(0.7, 1.9, x), 0.8),
    ],
)
def test_third_derivatives_against_mpmath(ours, exact, x):
    assert derivative(ours, order=3)(x) == pytest.approx(float(mpmath.diff(exact, x, 3)), rel=1e-9)


def test_limits():
    assert jvp(sp.xlogy, (0.0, 0.0), (0.0, 0.0))[1] == 0.0
    assert derivative(sp.ellipk)(0.0) == pytest.approx(np.pi / 8)
    assert derivative(sp.spence)(1.0) == -1.0
    assert derivative(sp.exprel)(0.0) == 0.5 and derivative(sp.exprel, order=2)(0.0) == pytest.approx(1 / 3)
    assert derivative(lambda x: sp.sici(x)[0])(0.0) == 1.0
    assert derivative(sp.entr)(0.0) == np.inf


def test_an_order_has_no_derivative():
    with pytest.raises(TypeError, match=r"scipy\.special\.jv has no derivative with respect to its argument"):
        derivative(lambda v: sp.jv(v, 1.0))(0.5)
    with pytest.raises(TypeError, match=r"scipy\.special\.gammainc has no derivative"):
        derivative(lambda a: sp.gammainc(a, 1.0))(0.5)


def test_functions_without_a_row_raise_by_name():
    with pytest.raises(TypeError, match=r"pro_ang1.* has no derivative rule in dualad"):
        derivative(lambda x: sp.pro_ang1(1, 2, 0.5, x)[0])(0.5)


def test_rows_are_entered_when_first_met():
    code = "import scipy.special as sp, dualad; assert abs(dualad.derivative(sp.erf)(0.0) - 1.1283791670955126) < 1e-15"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_scipy_is_not_imported():
    code = "import dualad, sys; assert not any(m.startswith('scipy') for m in sys.modules), 'scipy was imported'"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
