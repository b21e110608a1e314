"""The functions of `math`: Python's values, bit for bit, and derivatives against central differences."""

import cmath
import math

import numpy as np
import pytest
from in_groups import for_each

import checkpoint as ck
import dualad
from dualad.rules.python_math import COMPLEX_FUNCTIONS, FUNCTIONS
from dualad.rules.scipy.entering import by_body

#: arguments, where one number like 0.4 does not do; the first number is differentiated
ARGUMENTS = {
    "acosh": [(1.7,)],
    "atan2": [(0.3, 0.4), (-0.3, -2.0)],
    "copysign": [(1.5, -2.0)],
    "dist": [([1.0, 2.0], [0.3, 0.1])],
    "fmod": [(5.3, 2.0), (-5.3, 2.0)],
    "fsum": [([0.1] * 10,)],
    "gamma": [(0.4,), (3.3,)],
    "hypot": [(1.0, 2.0, 0.5)],
    "log": [(3.0,), (3.0, 2.5)],
    "pow": [(1.3, 2.2)],
    "remainder": [(5.3, 2.0), (-5.3, 2.0)],
}
ASK = {"isclose": (1.0, 1.0), "isfinite": (1.0,), "isinf": (math.inf,), "isnan": (math.nan,)}
CASES = [(name, args) for name in sorted(FUNCTIONS) if name not in ASK for args in ARGUMENTS.get(name, [(0.4,)])]


def of_first(fn, args):
    """Return a function of the first number among the arguments, and that number."""
    first, *rest = args
    if isinstance(first, list):
        return lambda x: fn([x, *first[1:]], *rest), first[0]
    return lambda x: fn(x, *rest), first


@for_each("name, args", CASES, lambda case: case[0])
def test_values_are_pythons_and_derivatives_are_right(name, args):
    if name in ("erf", "erfc", "gamma", "lgamma"):
        pytest.importorskip("scipy")
    plain, x = of_first(getattr(math, name), args)
    f, _ = of_first(FUNCTIONS[name], args)
    assert f(x) == plain(x)
    assert type(f(x)) is type(plain(x))
    value, slope = dualad.value_and_derivative(f)(x)
    assert value == plain(x)
    assert slope == pytest.approx((plain(x + 1e-6) - plain(x - 1e-6)) / 2e-6, rel=1e-7, abs=1e-9)
    assert ck.grad(f)(x) == pytest.approx(slope, rel=1e-14)
    assert dualad.jit(f)(x) == pytest.approx(value, rel=1e-15)
    curvature = dualad.derivative(dualad.derivative(f))(x)
    h = 1e-5
    assert curvature == pytest.approx((dualad.derivative(f)(x + h) - dualad.derivative(f)(x - h)) / (2 * h), rel=1e-6, abs=1e-8)


def test_compiled_remainders_are_exact():
    compiled = dualad.jit(FUNCTIONS["remainder"])
    for x, y in [(1e9, 0.3), (2.5, 1.0), (-3.5, 1.0), (0.5, -1.0), (1.5, 1.0), (-7e15, 0.7), (3.0, 5.0)]:
        assert compiled(x, y) == math.remainder(x, y)


@pytest.mark.parametrize("name", sorted(ASK))
def test_questions_have_pythons_answers(name):
    args = ASK[name]
    answers = []

    def f(x):
        answers.append(FUNCTIONS[name](x, *args[1:]))
        return x

    dualad.derivative(f)(args[0])
    dualad.derivative(f)(0.5)
    assert [bool(answer) for answer in answers] == [getattr(math, name)(*args), getattr(math, name)(0.5, *args[1:])]


def test_errors_are_pythons():
    for call in (FUNCTIONS["sqrt"], FUNCTIONS["log"]):
        with pytest.raises(ValueError, match=r"math domain error|expected a"):
            call(-1.0)
        with pytest.raises(ValueError, match=r"math domain error|expected a"):
            dualad.derivative(call)(-1.0)


def test_all_of_math_that_gives_floats_has_a_row():
    """What is left out gives integers, takes apart bits, or asks for whole numbers."""
    without = {
        "ceil", "comb", "factorial", "floor", "frexp", "gcd", "isqrt", "lcm", "ldexp", "modf", "nextafter", "perm", "prod",
        "sumprod", "trunc", "ulp", "fma",
    }  # fmt: skip
    assert {name for name in vars(math) if callable(getattr(math, name)) and name[0] != "_"} - set(FUNCTIONS) <= without
    assert dualad.derivative(lambda x: math.floor(x) * x)(2.5) == 2.0
    assert np.isclose(dualad.derivative(lambda x: math.prod([x, x, 2.0]))(3.0), 12.0)


@pytest.mark.parametrize("name", sorted(COMPLEX_FUNCTIONS))
def test_functions_of_complex_numbers(name):
    rest = {"rect": (0.7,), "log": (2.5,)}.get(name, ())
    path = (lambda t: t) if name == "rect" else (lambda t: t * (0.8 - 0.6j) + 0.1)
    parts = lambda fn: lambda t: sum(np.real(part) + 2.0 * np.imag(part) for part in np.atleast_1d(fn(path(t), *rest)))
    plain, f = parts(getattr(cmath, name)), parts(COMPLEX_FUNCTIONS[name])
    if name == "polar":
        f = lambda t: sum(COMPLEX_FUNCTIONS[name](path(t)))
    assert f(0.4) == plain(0.4)
    if name.startswith("is"):
        assert dualad.derivative(lambda t: t * f(t))(0.4) == plain(0.4)
        return
    slope = (plain(0.4 + 1e-6) - plain(0.4 - 1e-6)) / 2e-6
    assert dualad.derivative(f)(0.4) == pytest.approx(slope, rel=1e-7)
    assert ck.grad(f)(0.4) == pytest.approx(slope, rel=1e-7)


def test_a_body_with_arguments_in_another_order_is_no_row():
    with pytest.raises(ValueError, match=r"in another order"):
        by_body(math.atan2, lambda x, y: np.arctan2(x, y), "math.atan2")
