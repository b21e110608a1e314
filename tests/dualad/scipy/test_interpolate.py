"""scipy.interpolate: values are SciPy's to the last bit, derivatives by values, coefficients and places those of differences."""

import numpy as np
import pytest
from central import differences
from scipy_calls import check_adapted, check_call, check_refused

import dualad
from checkpoint import grad

pytest.importorskip("scipy")
from scipy import interpolate

from dualad.rules.scipy.interpolate import FUNCTIONS

RNG = np.random.default_rng(5)
GRID = (np.array([0.0, 0.4]), np.array([0.0, 0.4, 1.1, 1.5, 2.4, 3.0]), np.array([0.0, 0.4, 1.1]))
KNOTS = np.array([0.0, 0.4, 1.1, 1.5, 2.4, 3.0])
Y, Z = RNG.standard_normal(6), RNG.standard_normal(6) + 1j * RNG.standard_normal(6)
Y2 = RNG.standard_normal((2, 6, 3))
INSIDE = np.array([0.17, 1.31, 2.2])
AROUND = np.array([[-0.7, 0.55], [1.33, 3.45]])
CELLS, OUTSIDE = np.array([[0.1, 2.0, 1.0], [0.3, 0.25, 0.5]]), np.array([-0.1, 4.0])
T = np.array([0.0, 0.0, 0.0, 0.7, 1.6, 2.5, 2.5, 2.5])
C = RNG.standard_normal((4, 5))
POSITIVE = np.cumsum(np.abs(RNG.standard_normal(6)))


def closed(y):
    return np.append(y, y[:1])


class Ours:
    def __getattr__(self, name):
        return FUNCTIONS[name]


#: of each class: how an interpolant is made and read, its values and the places
CALLS = {
    "PPoly": [(lambda s: lambda c, x: s.PPoly(c, KNOTS)(x), C, AROUND),
       (lambda s: lambda c, x: s.PPoly(c, KNOTS)(x, 2), C, AROUND),
              (lambda s: lambda c, x: s.PPoly(c, KNOTS).antiderivative(2)(x), C, AROUND),
              (lambda s: lambda c, x: s.PPoly(c, KNOTS, extrapolate="periodic")(x), C, AROUND),
              (lambda s: lambda c, x: s.PPoly(c, KNOTS).derivative(2)(x), C, INSIDE)],
    "CubicHermiteSpline": [(lambda s: lambda y, x: s.CubicHermiteSpline(KNOTS, y, 0.5 * Y)(x), Y, AROUND),
                           (lambda s: lambda d, x: s.CubicHermiteSpline(KNOTS, Y2, d, axis=1)(x), Y2[::-1] + 0.1, INSIDE)],
    "CubicSpline": [(lambda s, bc=bc, n=n: lambda y, x: s.CubicSpline(KNOTS[:n], y, bc_type=bc)(x), Y[:n], AROUND)
                    for n in (6, 4, 3, 2) for bc in ("not-a-knot", "natural", "clamped", ("not-a-knot", "natural"), ((1, 0.3), (2, -0.7)))]
    + [(lambda s: lambda y, x: s.CubicSpline(KNOTS, y, axis=1)(x, 1), Y2, INSIDE),
       (lambda s: lambda y, x: s.CubicSpline(KNOTS, y)(x), Z, INSIDE),
       (lambda s: lambda y, x: s.CubicSpline(KNOTS, y, extrapolate=False)(x), Y, INSIDE),
       (lambda s: lambda y, x: s.CubicSpline(KNOTS, closed(y), bc_type="periodic")(x), Y[:-1], AROUND),
       (lambda s: lambda y, x: s.CubicSpline(KNOTS[:3], closed(y), bc_type="periodic")(x), Y[:2], AROUND),
       (lambda s: lambda y, x: s.CubicSpline(KNOTS, y).integrate(x[0], x[1]), Y, INSIDE[:2])],
    "PchipInterpolator": [(lambda s: lambda y, x: s.PchipInterpolator(KNOTS, y)(x), y, AROUND) for y in (Y, POSITIVE)]
    + [(lambda s: lambda y, x: s.PchipInterpolator(KNOTS, y, axis=1)(x), Y2, INSIDE),
       (lambda s: lambda y, x: s.PchipInterpolator(KNOTS[:2], y)(x), Y[:2], INSIDE)],
    "pchip_interpolate": [(lambda s, der=der: lambda y, x: s.pchip_interpolate(KNOTS, y, x, der), Y, INSIDE) for der in (0, 1, [0, 1])]
    + [(lambda s: lambda y, x: s.pchip_interpolate(KNOTS, y, x, axis=1), Y2, INSIDE)],
    "Akima1DInterpolator": [(lambda s: lambda y, x: s.Akima1DInterpolator(KNOTS, y)(x), Y, INSIDE),
                            (lambda s: lambda y, x: s.Akima1DInterpolator(KNOTS, y, axis=1)(x, 0, True), Y2, AROUND),
                            (lambda s: lambda y, x: s.Akima1DInterpolator(KNOTS, y, method="makima")(x), Y, INSIDE)],
    "BSpline": [(lambda s, nu=nu: lambda c, x: s.BSpline(T, c, 2)(x, nu), C[0], AROUND) for nu in range(4)]
    + [(lambda s: lambda c, x: s.BSpline(T, c, 2, axis=1)(x), C, INSIDE),
       (lambda s: lambda c, x: s.BSpline(T, c, 2, extrapolate="periodic")(x), C[0], AROUND),
       (lambda s: lambda c, x: s.BSpline(T, c, 2).derivative()(x), C[0], AROUND),
       (lambda s: lambda x: s.BSpline.basis_element([0.0, 1.0, 1.5, 2.5])(x), AROUND),
       (lambda s: lambda x: s.BSpline.basis_element([0.0, 1.0, 1.5, 2.5], False)(x), np.array([0.3, 1.2])),
       (lambda s: lambda c, x: s.BSpline(T, c, 2).antiderivative(2)(x), C[0], AROUND),
       (lambda s: lambda c, x: s.BSpline(T, c, 2).integrate(x[0], x[1]), C[0], INSIDE[:2])],
    "make_interp_spline": [(lambda s, k=k: lambda y, x: s.make_interp_spline(KNOTS, y, k)(x), Y, AROUND) for k in (0, 1, 2, 3, 5)]
    + [(lambda s, bc=bc: lambda y, x: s.make_interp_spline(KNOTS, y, bc_type=bc)(x), Y, INSIDE)
       for bc in ("natural", "clamped", ([(1, 0.3)], [(2, -0.7)]))]
    + [(lambda s, k=k: lambda y, x: s.make_interp_spline(KNOTS, closed(y), k, bc_type="periodic")(x), Y[:-1], AROUND) for k in (2, 3, 5, 7)]
    + [(lambda s: lambda y, x: s.make_interp_spline(KNOTS, y, 3, np.array([0, 0, 0, 0, 1.2, 1.4, 3, 3, 3, 3.0]))(x), Y, INSIDE),
       (lambda s: lambda y, x: s.make_interp_spline(KNOTS, y, 3, axis=1)(x), Y2, INSIDE)],
    "interp1d": [(lambda s, kind=kind: lambda y, x: s.interp1d(KNOTS, y, kind)(x), Y, INSIDE)
                 for kind in ("linear", "nearest", "nearest-up", "previous", "next", "zero", "slinear", "quadratic", "cubic", 2)]
    + [(lambda s, kind=kind: lambda y, x: s.interp1d(KNOTS, y, kind, fill_value="extrapolate")(x), Y, AROUND)
       for kind in ("linear", "nearest", "cubic")]
    + [(lambda s: lambda y, x: s.interp1d(KNOTS[::-1], y, axis=1, bounds_error=False, fill_value=(1.0, 2.0))(x), Y2, AROUND)],
    "RegularGridInterpolator": [(lambda s, m=m: lambda y, x: s.RegularGridInterpolator(GRID, y, m)(x), Y2, CELLS)
                                for m in ("linear", "nearest")]
    + [(lambda s, x=x: lambda y: s.RegularGridInterpolator(GRID, y)(x), Y2)
       for x in ((0.1, 2.0, 1.0), ([0.1, 0.2, 0.3], 2.0, np.array([[0.5], [1.0]])))]
    + [(lambda s, out=out: lambda y, x: s.RegularGridInterpolator((-GRID[0], KNOTS), y, bounds_error=False, fill_value=out)(x), Y2, OUTSIDE)
       for out in (None, 0.5)],
    "interpn": [(lambda s: lambda y, x: s.interpn((KNOTS[:2], KNOTS), y, x), Y2, np.array([[[0.1, 2.0], [0.3, 0.2]]]))]
    + [(lambda s, at=at: lambda y, b: s.interpn((KNOTS[:2], KNOTS), y, (at, b)), Y2, b)
       for at, b in ((0.3, 2.0), (np.array([0.3, 0.2]), np.array([2.0, 1.3])), (np.array([0.3, 0.2, 0.1]), 2.0))],
    "splev": [(lambda s: lambda c, x: s.splev(x, (T, c, 2)), C[0], INSIDE),
       (lambda s: lambda c, x: s.splev(x, (T, c, 2), der=1, ext=3), C[0], AROUND),
              (lambda s: lambda c, x: s.splev(x, (T, c, 2), ext=3), C[0], AROUND),
       (lambda s: lambda c, x: s.splev(x, (T, c, 2), ext=1), C[0], AROUND)],
    "splrep": [(lambda s, k=k: lambda y, x: s.splev(x, s.splrep(KNOTS, y, k=k)), Y, AROUND) for k in (3, 1, 2, 4, 5)]
    + [(lambda s: lambda y, x: s.BSpline(*s.splrep(KNOTS, y, s=0))(x), Y, INSIDE)],
    "UnivariateSpline": [(lambda s: lambda x: s.UnivariateSpline(KNOTS, Y, s=0.5)(x), AROUND),
       (lambda s: lambda x: s.UnivariateSpline(KNOTS, Y, ext=1)(x, 1), AROUND),
       (lambda s: lambda y, x: s.UnivariateSpline(KNOTS, y, k=4, s=0, ext=3)(x), Y, AROUND)],
    "InterpolatedUnivariateSpline": [(lambda s: lambda x: s.InterpolatedUnivariateSpline(KNOTS, Y, k=2)(x), AROUND)]
    + [(lambda s, k=k: lambda y, x: s.InterpolatedUnivariateSpline(KNOTS, y, k=k)(x), Y, AROUND) for k in (3, 1, 5)]
    + [(lambda s: lambda y, x: s.InterpolatedUnivariateSpline(KNOTS, y)(x, 1, 1), Y, AROUND)],
    "LSQUnivariateSpline": [(lambda s: lambda x: s.LSQUnivariateSpline(KNOTS, Y, [1.4])(x), AROUND)],
}  # fmt: skip


def test_every_row_has_samples():
    assert set(CALLS) == set(FUNCTIONS)


@pytest.mark.parametrize("name", CALLS)
def test_values_and_derivatives(name):
    for k, (read, *args) in enumerate(CALLS[name]):
        check_call(read(Ours()), read(interpolate), args, {}, order=1 if k else 2)


def test_of_plain_values_they_are_scipys():
    made, theirs = FUNCTIONS["CubicSpline"](KNOTS, Y), interpolate.CubicSpline(KNOTS, Y)
    assert made.roots().tobytes() == theirs.roots().tobytes()
    assert isinstance(made, FUNCTIONS["PPoly"])
    assert FUNCTIONS["interp1d"](KNOTS, Y).x.tobytes() == KNOTS.tobytes()
    assert FUNCTIONS["BSpline"].design_matrix(INSIDE, T, 2).shape == (len(INSIDE), len(T) - 3)
    assert FUNCTIONS["PPoly"].from_spline(interpolate.splrep(KNOTS, Y)).x.size > 0
    assert FUNCTIONS["make_interp_spline"](KNOTS, Y).c.tobytes() == interpolate.make_interp_spline(KNOTS, Y).c.tobytes()
    with pytest.raises(ValueError, match="must be strictly increasing"):
        FUNCTIONS["CubicSpline"](KNOTS[::-1], Y)


def test_values_are_copied():
    def later(y):
        made = [FUNCTIONS[name](KNOTS, y) for name in ("CubicSpline", "make_interp_spline", "interp1d")]
        y[2] = 7.0
        return sum(part(1.2) for part in made)

    wanted = sum(getattr(interpolate, name)(KNOTS, Y)(1.2) for name in ("CubicSpline", "make_interp_spline", "interp1d"))
    assert dualad.jvp(later, (Y.copy(),), (Y,))[0] == wanted


def test_what_has_no_derivative_is_refused_by_name():
    cases = [
        (lambda s: FUNCTIONS["CubicSpline"](s * KNOTS, Y)(1.0), "scipy.interpolate.CubicSpline has no derivative .* argument 'x'"),
        (
            lambda s: FUNCTIONS["UnivariateSpline"](KNOTS, s * Y)(1.0),
            "interpolate.UnivariateSpline has no derivative .* argument 'y' .*: give s=0",
        ),
        (lambda s: FUNCTIONS["CubicSpline"](KNOTS, s * Y).roots(), "interpolate.CubicSpline.roots of traced values has no derivative"),
        (lambda s: FUNCTIONS["RegularGridInterpolator"]((KNOTS,), s * Y, "cubic")([1.0]), "method='cubic' .*: use 'linear' or 'nearest'"),
        (lambda s: FUNCTIONS["splrep"](KNOTS, s * Y, s=0.3)[1], "splrep has no derivative with s=0.3, .*: use s=0"),
        (lambda s: FUNCTIONS["splrep"](s * KNOTS, Y)[1], "splrep has no derivative with respect to its argument 'x'"),
        (lambda s: FUNCTIONS["splrep"](KNOTS, s * Y, per=1)[1], "splrep has no derivative with these arguments"),
        (lambda s: FUNCTIONS["PPoly"](C, KNOTS, "periodic").integrate(0.0, s), "periodic: integrate within one period"),
    ]
    check_refused(2.0, cases)


def test_knots_and_grids_that_adapted_code_makes_are_plain():
    def loss(y):
        knots, grid = np.array([0.0, 1.0, 2.5, 3.0]), (np.linspace(0.0, 1.0, 2), np.arange(2.0) * 2.0)
        table = interpolate.RegularGridInterpolator(grid, y.reshape(2, 2))
        return interpolate.CubicSpline(knots, y)(1.3) * interpolate.interp1d(knots, y)(np.array([0.7]))[0] + table((0.3, 0.2))

    y = Y[:4]
    adapted = dualad.adapt(loss)
    assert adapted(y) == loss(y)
    for derived in (grad, dualad.gradient):
        np.testing.assert_allclose(derived(adapted)(y), differences(loss, y), rtol=1e-7, atol=1e-8)


def test_compiled_and_adapted():
    def loss(y):
        spline, table = interpolate.CubicSpline(KNOTS, y), interpolate.interp1d(KNOTS, Y)
        return np.sum(spline(INSIDE + 0.1 * y[:3]) ** 2) + np.sum(table(INSIDE + 0.1 * y[3:]))

    check_adapted(loss, Y)
