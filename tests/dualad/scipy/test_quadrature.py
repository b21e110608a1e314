"""quad and fixed_quad: SciPy's values to the last bit, derivatives by limits, arguments and closures, of rough integrands too."""

import math
import sys
from functools import wraps

import numpy as np
import pytest
from central import differences
from scipy_calls import check_refused

import dualad
from checkpoint import grad, hvp, value_and_grad

pytest.importorskip("scipy")
from scipy import integrate as si

from dualad.scipy import integrate, optimize

P = np.array([1.3, 0.7])
INTEGRALS = {
    "closure": lambda s: lambda p: s.quad(lambda x: np.exp(-p[0] * x) * np.cos(p[1] * x), 0.0, 2.0)[0],
    "arguments, of numbers alone": lambda s: lambda p: s.quad(lambda x, a, b: a * x**2 + math.sin(x) * b * a, 0.0, 2.0, (p[0], p[1]))[0],
    "one argument": lambda s: lambda p: s.quad(lambda x, a: np.sin(a * x), 0.0, 2.0, p[0])[0] * p[1],
    "limits": lambda s: lambda p: s.quad(lambda x: np.exp(x * p[1]) * x, p[0] - 1.5, p[0])[0],
    "limits in the other order": lambda s: lambda p: s.quad(lambda x: np.exp(p[0] * x), p[1], -1.0)[0],
    "the whole line": lambda s: lambda p: s.quad(lambda x: np.exp(-p[0] * x**2 + p[1] * x), -np.inf, np.inf)[0],
    "to the right": lambda s: lambda p: s.quad(lambda x: np.exp(-p[0] * x), p[1], np.inf)[0],
    "from the left": lambda s: lambda p: s.quad(lambda x: np.exp(p[0] * x), -np.inf, p[1])[0],
    "backwards from infinity": lambda s: lambda p: s.quad(lambda x: np.exp(-p[0] * x), np.inf, p[1])[0],
    "dblquad": lambda s: lambda p: s.dblquad(lambda y, x: np.exp(-p[0] * x * y), 0.0, p[1], 0.1, lambda x: 1.0 + x * p[0])[0],
    "nquad": lambda s: lambda p: s.nquad(lambda x, y, a: a * x * y + p[1], [lambda y, a: (0.0, a * y), (0.0, 1.3)], args=(p[0],))[0],
    "nquad with options": lambda s: (
        lambda p: s.nquad(lambda x, y: p[1] * x * y, [(0.0, p[0]), (0.0, 2.0)], None, [{"limit": 60, "points": [0.4, 9.0]}, dict])[0]
    ),
    "fixed_quad": lambda s: lambda p: s.fixed_quad(lambda x, a: np.exp(a * x), p[1], 2.0, args=(p[0],), n=7)[0],
}
ROUGH = {
    "a kink": lambda s: lambda p: s.quad(lambda x: abs(x - 0.3) * np.exp(x * p[1]), p[0] - 1.5, p[0])[0],
    "a singular end": lambda s: lambda p: s.quad(lambda x: x ** (p[1] - 1.4) * p[0], 0.0, 1.0)[0],
    "a singular place": lambda s: lambda p: s.quad(lambda x: abs(x - 0.5) ** -0.3 * p[0] + p[1] * x, 0.0, 1.0, points=[0.5])[0],
    "a jump": lambda s: lambda p: s.quad(lambda x: 1.0 if x > 0.5 else 0.0, p[1] - 1.0, p[0], points=[0.5])[0],
}


@pytest.mark.parametrize("name", [*INTEGRALS, *ROUGH])
def test_values_and_derivatives(name):
    both = (INTEGRALS | ROUGH)[name]
    ours, scipys = both(integrate), both(si)
    assert ours(P) == scipys(P) == dualad.primal(dualad.jvp(ours, (P,), (P,))[0])
    for derived in (grad, dualad.gradient):
        np.testing.assert_allclose(derived(ours)(P), differences(scipys, P, 1e-5), rtol=1e-6, atol=1e-7)
    if name in INTEGRALS:
        v = np.array([0.4, -0.9])
        bent = np.array([grad(ours)(P + 1e-5 * v) - grad(ours)(P - 1e-5 * v)])[0] / 2e-5
        np.testing.assert_allclose(hvp(ours, P, v), bent, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", INTEGRALS)
def test_programs_call_it(name):
    f = INTEGRALS[name](integrate)
    compiled, slope = dualad.jit(f, backend="numpy"), dualad.jit(grad(f), backend="numpy")
    for p in (P, 1.1 * P):
        value, expected = value_and_grad(f)(p)
        assert compiled(p) == pytest.approx(value, rel=1e-15)
        nested = "nquad" in name or name == "dblquad"  # which take long
        for found in [slope(p)] if nested else [slope(p), grad(compiled)(p)]:
            np.testing.assert_allclose(found, expected, rtol=1e-12)
    if not nested:
        np.testing.assert_allclose(hvp(compiled, P, P), hvp(f, P, P), rtol=1e-11)


RATE = 2.0


class Decay:
    def __init__(self, rate):
        self.rate = rate

    def at(self, x):
        return np.exp(-self.rate * x)


def half_life(a):
    return optimize.brentq(lambda end: integrate.quad(lambda x: np.exp(-a * x), 0.0, end)[0] - 0.5, 0.0, 3.0)


NESTED = {
    "twice": lambda a: integrate.quad(lambda x: integrate.quad(lambda y: np.exp(-a * x * y), 0.0, x)[0], 0.0, 1.0)[0],
    "a root of integrals": half_life,
    "a method": lambda a: integrate.quad(Decay(a).at, 0.0, 1.0)[0],
    "in a list": lambda a: integrate.quad(lambda x, c=[a, a * a]: c[0] + c[1] * x, 0.0, 1.0)[0],
    "with its error": lambda a: sum(integrate.quad(lambda x: a * x, 0.0, 1.0)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", NESTED)
def test_what_an_integrand_holds_is_an_argument_of_the_program(name):
    f = NESTED[name]
    compiled, slope = dualad.jit(f, backend="numpy"), dualad.jit(grad(f), backend="numpy")
    for a in (0.7, 0.9):
        assert compiled(a) == f(a)
        assert slope(a) == pytest.approx(grad(f)(a), rel=1e-12)
    if name != "twice":  # which takes long
        assert dualad.derivative(compiled, order=2)(0.7) == pytest.approx(dualad.derivative(f, order=2)(0.7), rel=1e-10)


def test_single_precision_does_not_round_the_value():
    a = np.float32(0.7)
    for f in (lambda a: integrate.quad(lambda x: np.exp(-a * x), 0.0, 1.0)[0], lambda a: optimize.brentq(lambda x: x**3 - a, 0.0, 2.0)):
        value, slope = dualad.jvp(f, (a,), (a,))
        assert value == f(a) and value.dtype == np.float64
        assert slope == pytest.approx(dualad.derivative(f)(float(a)) * float(a), rel=1e-6)


def test_programs_see_changed_globals(monkeypatch):
    f = lambda a: integrate.quad(lambda x: RATE * a * x, 0.0, 1.0)[0]
    compiled = dualad.jit(f, backend="numpy")
    assert compiled(0.7) == f(0.7)
    monkeypatch.setattr(sys.modules[__name__], "RATE", 3.0)
    assert compiled(0.7) == f(0.7) == pytest.approx(1.05)


@pytest.mark.slow
def test_integrals_of_three_variables():
    both = lambda s, a: s.tplquad(lambda z, y, x: a * x * y * z, 0.0, 1.3, 0.1, lambda x: x, lambda x, y: y, 2.0)
    assert both(integrate, 0.7) == both(si, 0.7)
    assert dualad.derivative(lambda a: both(integrate, a)[0])(0.7) == pytest.approx(both(si, 1.0)[0], rel=1e-12)
    with pytest.raises(TypeError, match=r"scipy\.integrate\.nquad asks a traced"):
        grad(lambda a: integrate.nquad(lambda x: a * x, [(0.0, 1.0)], full_output=True)[0])(0.7)


def of_a_keyword(rate):
    return lambda x, *, rate=rate: rate * x


def of_an_attribute(rate):
    def integrand(x):
        return integrand.rate * x

    integrand.rate = rate
    return integrand


def of_a_wrapper(rate):
    @wraps(plain := lambda x: x)
    def integrand(x):
        return rate * plain(x)

    return integrand


@pytest.mark.parametrize("made", [of_a_keyword, of_an_attribute, of_a_wrapper])
def test_functions_of_the_same_code_are_told_apart_by_what_they_hold(made):
    f = lambda a: integrate.quad(made(1.0), 0.0, a)[0] + 10.0 * integrate.quad(made(2.0), 0.0, a)[0]
    assert dualad.jit(f, backend="numpy")(2.0) == f(2.0) == pytest.approx(42.0)


def test_it_is_scipys_in_all_it_returns():
    value, error, info = integrate.quad(math.cos, 0.0, 1.0, full_output=1)
    wanted = si.quad(math.cos, 0.0, 1.0, full_output=1)
    assert (value, error, info["last"]) == (*wanted[:2], wanted[2]["last"])
    with pytest.warns(si.IntegrationWarning):
        integrate.quad(lambda x: 1.0 / x, 0.0, 1.0, limit=3)
    adapted = dualad.adapt(lambda a: si.quad(lambda x: math.exp(a * x), 0.0, 1.0)[0])
    assert grad(adapted)(0.7) == pytest.approx((math.exp(0.7) * (0.7 - 1.0) + 1.0) / 0.49, rel=1e-9)


@pytest.mark.slow
def test_what_has_no_derivative_is_refused_by_name():
    cases = [
        (lambda p: integrate.quad(lambda x: p * x, 0.0, 1.0, weight="cos", wvar=2.0)[0], "quad has no derivative with weight="),
        (dualad.jit(lambda p: integrate.quad(lambda x: p * x, 0.0, 1.0, full_output=1)[0]), "full_output= it cannot be compiled"),
        (
            lambda p: integrate.quad(lambda x: p * abs(x - 1.0 / 3.0) ** -0.6, 0.0, 1.0)[0],
            "no rule with fixed nodes reproduces SciPy's value",
        ),
    ]
    check_refused(2.0, cases)
