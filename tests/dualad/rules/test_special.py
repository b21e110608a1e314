"""scipy.special: every row against central differences by all its arguments in both modes; closed forms; third derivatives."""

import subprocess
import sys

import mpmath
import numpy as np
import pytest
from in_groups import for_each

from benchmarks.accuracy import GRID
from checkpoint import grad, vjp
from dualad import derivative, jvp
from dualad.rules import ROWS
from dualad.rules.late import late_row
from dualad.testing import check_derivatives

sp = pytest.importorskip("scipy.special")
late_row(None)


Z = np.array([0.4 + 0.3j, -0.6 + 0.5j])
#: of complex arguments; in what stands in tuples nothing is differentiated
COMPLEX = {"loggamma": (Z + 2.0,), "gamma": (Z + 2.0,), "erf": (Z,), "wofz": (Z,), "lambertw": (Z,), "jv": ((0.7,), Z)}
#: the partials have no partials, and say why: SciPy has no complex trigamma, and that of RD cancels
FIRST_ORDER = {"loggamma", "gamma", "elliprf"}
REAL: dict[str, list[tuple]] = {}
for entry in GRID:
    if getattr(sp, entry.name, None) in ROWS:
        REAL.setdefault(entry.name, []).extend(entry.points)


def compared(fn, args, order):
    """Compare all derivatives with differences, together, and values with SciPy's bits."""
    free = [arg for arg in args if not isinstance(arg, tuple)]

    def f(*leaves):
        left = iter(leaves)
        return fn(*(arg[0] if isinstance(arg, tuple) else next(left) for arg in args))

    value, expected = jvp(f, tuple(free), tuple(free))[0], f(*free)
    for a, b in zip(*(part if isinstance(part, tuple) else (part,) for part in (value, expected)), strict=True):
        assert a.dtype == b.dtype and a.tobytes() == b.tobytes()
    check_derivatives(f, *free, order=order, vjp=vjp)


@for_each("name", REAL)
def test_derivatives_by_all_arguments_against_differences(name):
    """At an ordinary point of the published grid; its digits are tested in test_accuracy."""
    plain = lambda x: x[0] if isinstance(x, tuple) else x
    ordinary = [point for point in REAL[name] if all(0.2 <= abs(x) <= 3.0 for x in point if type(x) is float)] or REAL[name]
    point = min(ordinary, key=lambda point: (min(map(plain, point)) < 0, max(abs(plain(x)) for x in point)))
    args = [np.array([x]) if type(x) is float else (plain(x),) for x in point]
    compared(getattr(sp, name), args, 1 if name in FIRST_ORDER else 2)


@pytest.mark.parametrize("name", COMPLEX)
def test_derivatives_at_complex_numbers(name):
    compared(getattr(sp, name), COMPLEX[name], 1 if name in FIRST_ORDER else 2)


@pytest.mark.parametrize("name", sorted(FIRST_ORDER))
def test_what_has_no_second_derivative_says_why(name):
    args = COMPLEX.get(name, (np.array([0.31]), np.array([0.2]), np.array([1.31])))
    with pytest.raises(TypeError, match=r"scipy\.special\.(psi|elliprd) has no derivative"):
        check_derivatives(getattr(sp, name), *args, order=2, vjp=vjp)


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


def test_zero_times_the_logarithm_of_zero_is_flat_in_both_arguments():
    assert jvp(sp.xlogy, (0.0, 0.0), (0.0, 0.0))[1] == 0.0


REFUSED = [
    (lambda v: sp.jv(v, 1.0), 0.5, r"scipy\.special\.jv has no derivative with respect to its first argument"),
    (lambda a: sp.gammainc(a, 1.0), 0.5, r"scipy\.special\.gammainc has no derivative"),
    (lambda df: sp.chndtr(3.1, df, 1.2), 2.5, r"scipy\.special\.chndtr has no derivative with respect to its second argument"),
    (lambda x: sp.zetac(x), 2.5, r"scipy\.special\.zetac has no derivative: it has none in closed form"),
    (lambda x: sp.pro_rad2(1, 2, 0.7, x)[0], 1.6, r"few digits: pass plain values"),
    (lambda x: np.frompyfunc(lambda x: x, 1, 1)(x), 0.5, r"<lambda>.* has no derivative rule in dualad"),
]


@pytest.mark.parametrize(("f", "x", "words"), REFUSED)
def test_what_has_no_derivative_is_refused_by_name(f, x, words):
    for derived, at in ((derivative(f), x), (grad(f), x), (grad(lambda x: np.sum(f(x))), np.full(2, x))):
        for _ in range(2):  # the second time, the shortest path
            with pytest.raises(TypeError, match=words):
                derived(at)


MET = """
import sys, threading
import dualad, scipy.special as sp
sys.setswitchinterval(1e-5)
both, found = threading.Barrier(2), []
def meet():
    both.wait()
    found.append(dualad.derivative(sp.erf)(0.0))
threads = [threading.Thread(target=meet) for _ in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert len(found) == 2 and max(found) - 1.1283791670955126 < 1e-15
"""


@pytest.mark.slow
def test_rows_are_entered_when_first_met():
    subprocess.run([sys.executable, "-c", MET], check=True, timeout=60)


@pytest.mark.slow
def test_rows_are_trusted_whoever_imports_their_module():
    code = "import dualad.rules.special_rare as rare; assert rare.RARE and all(row.trusted for row in rare.ROWS.values())"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_scipy_is_not_imported():
    code = "import dualad, sys; assert not any(m.startswith('scipy') for m in sys.modules), 'scipy was imported'"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
