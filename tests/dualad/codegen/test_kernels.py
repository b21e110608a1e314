"""The elementary functions against mpmath: at most 1 ulp everywhere, and NumPy's answers for special arguments."""

import math
import platform

import mpmath
import numpy as np
import pytest
from handmade import applied, loop_of, module_of

from dualad.codegen import kernels
from dualad.codegen.machine import assembly

ANY = math.inf
#: the functions that are measured, with the range in which they are
PRECISE = {
    "exp": (-746.0, 710.0), "expm1": (-746.0, 710.0), "log": (0.0, ANY), "log1p": (-1.0, ANY),
    **dict.fromkeys(("sin", "cos", "tan"), (-kernels.LARGEST_ANGLE, kernels.LARGEST_ANGLE)),
    "sinh": (-711.0, 711.0), "cosh": (-711.0, 711.0), "tanh": (-ANY, ANY), "arctan": (-ANY, ANY), "cbrt": (-ANY, ANY),
    "cube": (-5e102, 5e102),
}  # fmt: skip
EXACT = {"arctan": mpmath.atan, "cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)), "cube": lambda x: x**3}
ANGLES = ("sin", "cos", "tan")
SPECIAL = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1e308, -1e308, 5e-324, -5e-324, 1.0, -1.0, 2e-310, 0.5, -0.5])


def arguments(name):
    """Return arguments over the stated range: of every size, and next to where the function is delicate."""
    low, high = PRECISE[name]
    rng = np.random.default_rng(3)
    size = 10.0 ** np.concatenate([rng.uniform(-308, 308, 150), rng.uniform(-9, 4, 250)]) * rng.choice([-1, 1], 400)
    multiples = np.arange(-40, 41) * (math.pi / 2)
    near = [rng.uniform(-3, 3, 300), rng.uniform(-800, 800, 100), 1 + rng.uniform(-1e-3, 1e-3, 50), multiples, np.nextafter(multiples, 99)]
    extreme = [5e-324, 2e-310, 6381956970095103 * 2.0**-23, 2.0**30 - 1, 18.7, 19.1, 709.7, 709.79, -708.5, -745.2, 1e150]
    x = np.concatenate([size, *near, extreme])
    return x[(x >= low) & (x <= high) & (x != (-1.0 if name == "log1p" else np.nan)) & ((x != 0) | (name != "log"))]


@pytest.mark.parametrize("name", PRECISE)
def test_within_one_ulp_of_the_exact_value(name):
    exact = EXACT.get(name) or getattr(mpmath, name)
    x = arguments(name)
    with mpmath.workprec(1200 if name in ANGLES else 160):
        for argument, got in zip(x.tolist(), applied(name, x).tolist(), strict=True):
            true = exact(mpmath.mpf(argument))
            nearest = float(true)
            if math.isinf(nearest):
                assert got == nearest, argument
            else:
                assert abs(mpmath.mpf(got) - true) <= math.ulp(nearest), argument


@pytest.mark.parametrize("name", [name for name in PRECISE if name != "cube"])
def test_special_arguments_as_in_numpy(name):
    x = SPECIAL if name not in ANGLES else SPECIAL[~(abs(SPECIAL) > kernels.LARGEST_ANGLE)]
    got = applied(name, x)
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(x)
    np.testing.assert_allclose(got, expected, rtol=3e-16, atol=0.0)
    np.testing.assert_array_equal(np.signbit(got)[got == 0], np.signbit(expected)[expected == 0])


def test_sech_squared_is_the_derivative_of_tanh_wherever_it_is_not_zero():
    x = np.concatenate([arguments("tanh"), np.linspace(340.0, 380.0, 400), [0.0, -0.0, 1e308]])
    with np.errstate(invalid="ignore"):
        got = np.array([kernels.sech_squared(argument, np.tanh(argument)) for argument in x])
    with mpmath.workprec(160):
        for argument, value in zip(x.tolist(), got.tolist(), strict=True):
            true = mpmath.sech(mpmath.mpf(argument)) ** 2
            assert abs(mpmath.mpf(value) - true) <= 8 * math.ulp(float(true)), argument
    assert got[-3:].tolist() == [1.0, 1.0, 0.0] and math.isnan(kernels.sech_squared(math.nan, math.nan))
    assert kernels.sech_squared(-math.inf, -1.0) == 0.0


def test_cube_of_special_arguments():
    with np.errstate(all="ignore"):
        expected = SPECIAL * SPECIAL * SPECIAL
    np.testing.assert_array_equal(applied("cube", SPECIAL), expected)


@pytest.mark.parametrize("name", ANGLES)
def test_large_angles_go_to_the_library(name):
    x = np.array([1e10, -3e22, 1e308, np.inf, np.nan, 1.5])
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(applied(f"any_{name}", x), getattr(np, name)(x), rtol=3e-16)


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="reads x86 assembly")
@pytest.mark.parametrize("name", PRECISE)
def test_loops_of_kernels_are_vectorised(name):
    code = assembly(module_of(*loop_of(name, 4096, "float64", "float64")), "part0")
    assert any(f"{op}{form}pd" in code for op in ("vfmadd", "vfnmadd") for form in ("132", "213", "231"))
    assert "vdivsd" not in code or "vdivpd" in code
