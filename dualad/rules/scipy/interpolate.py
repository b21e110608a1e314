"""``scipy.interpolate``: interpolants that may be made of traced values and read at traced places.

The value of an interpolant is that of SciPy's own, on plain numbers. The derivative is that of a body (`splines`): by the places, the
values and the coefficients. Knots, grids and boundary conditions are plain.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
from scipy import interpolate as si

from ..constants import stopped
from ..indexing import getitem
from ..kinds import composite, ndim_of, shape_of
from . import splines
from .entering import by_body, named

__all__ = ["FUNCTIONS"]

FUNCTIONS: dict[str, Any] = {}


def traced(x: Any) -> bool:
    return hasattr(type(x), "__dualad_apply__") or (type(x) in (list, tuple) and any(map(traced, x)))


copied: Any = named(np.copy, "scipy.interpolate.copied")
composite(copied, np.copy)


def settled(x: Any) -> Any:
    """Return copies of traced arrays, which their owners may write: a plain one of a buffer in which nothing traced is."""
    if not traced(x):
        return x
    return type(x)(map(settled, x)) if type(x) in (list, tuple) else copied(x)


def packed(x: Any) -> Any:
    """Return traced values in lists as one array, and a copy of an array."""
    return np.stack(list(map(packed, x))) if traced(x) and type(x) in (list, tuple) else settled(x)


def places(x: Any) -> Any:
    return packed(x) if traced(x) else np.asarray(x, float)


def like(x: Any) -> Any:
    """Return a plain array that stands for a traced one where SciPy looks at shapes."""
    return np.zeros(shape_of(x), complex if x.dtype.kind == "c" else float) if traced(x) else x


class Interpolant:
    """What has SciPy's attributes as long as nothing in it is traced."""

    title: str
    made: Any = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or self.made is None:
            if not name.startswith("_"):
                name = f"{self.title}.{name} of traced values has no derivative here: make it of plain values (dualad.primal)"
            raise AttributeError(name)
        return getattr(self.made, name)


def fix(fn: Callable, name: str, body: Callable) -> Callable:
    return by_body(fn, body, f"scipy.interpolate.{name}")


def called(scipys: Any, args: tuple, kwargs: dict[str, Any], places: tuple[str, ...]) -> dict[str, Any]:
    """Return the arguments of a call by name, those with values packed; traced others are refused."""
    bound = inspect.signature(scipys).bind(*args, **kwargs)
    bound.apply_defaults()
    given = {name: packed(x) if name in places else settled(x) for name, x in bound.arguments.items()}
    for name, x in given.items():
        if traced(x) and name not in places:
            raise TypeError(
                f"scipy.interpolate.{scipys.__name__} has no derivative with respect to its argument {name!r}: pass a plain value there "
                f"(dualad.primal)"
            )
    return given


# --- piecewise polynomials ----------------------------------------------------------------------------------------------------------


def poly(c, knots, extrapolate, axis):
    return si.PPoly.construct_fast(c, knots, extrapolate, axis)


def integral(primitive, a, b, first, last, extrapolate):
    """Return a definite integral by its primitive function."""
    if extrapolate == "periodic":
        raise NotImplementedError("integrate has no derivative where the interpolant is periodic: integrate within one period")
    if not extrapolate:
        a, b = (np.clip(end, first, last) for end in (a, b))
    return primitive(b) - primitive(a)


def polynomial_integral(c, knots, a, b, extrapolate):
    whole = splines.antiderivative(c, knots, 1)
    return integral(lambda x: splines.piecewise(whole, knots, x), a, b, knots[0], knots[-1], extrapolate)


evaluated = fix(lambda c, knots, x, nu, extrapolate, axis: poly(c, knots, extrapolate, axis)(x, nu), "PPoly", splines.piecewise)
raised = fix(lambda c, knots, nu: poly(c, knots, True, 0).antiderivative(nu).c, "PPoly.antiderivative", splines.antiderivative)
integrated = fix(lambda c, knots, a, b, extrapolate: poly(c, knots, extrapolate, 0).integrate(a, b), "PPoly.integrate", polynomial_integral)


class Piecewise(Interpolant):
    """Polynomials between knots, by coefficients whose first two axes are the powers and the pieces."""

    title = "scipy.interpolate.PPoly"

    def hold(self, c: Any, knots: Any, extrapolate: Any, axis: int) -> Piecewise:
        self.c, self.x, self.extrapolate, self.axis = c, knots, extrapolate, axis
        if not traced(c):
            self.made = poly(c, knots, extrapolate, axis)
        return self

    def another(self, c: Any, extrapolate: Any) -> Piecewise:
        return Piecewise().hold(c, self.x, extrapolate, self.axis)

    def __call__(self, x: Any, nu: int = 0, extrapolate: Any = None) -> Any:
        return evaluated(self.c, self.x, places(x), nu, self.extrapolate if extrapolate is None else extrapolate, self.axis)

    def derivative(self, nu: int = 1) -> Piecewise:
        if nu < 0:
            return self.antiderivative(-nu)
        order = shape_of(self.c)[0] - 1
        if nu > order:
            return self.another(0.0 * self.c[:1], self.extrapolate)
        factors = np.array([float(np.prod(np.arange(p, p - nu, -1))) for p in range(order, nu - 1, -1)])
        return self.another(self.c[: order + 1 - nu] * splines.column(factors, self.c), self.extrapolate)

    def antiderivative(self, nu: int = 1) -> Piecewise:
        if nu <= 0:
            return self.derivative(-nu)
        return self.another(raised(self.c, self.x, nu), self.extrapolate is True)

    def integrate(self, a: Any, b: Any, extrapolate: Any = None) -> Any:
        return integrated(self.c, self.x, a, b, self.extrapolate if extrapolate is None else extrapolate)


def of_values(scipys: Any, body: Callable, *places: str) -> type[Piecewise]:
    """Return the class of piecewise polynomials through values; `body` gives the coefficients of all arguments but `extrapolate`."""

    def plain(**given):
        return scipys(**given).c

    coefficients = fix(plain, scipys.__name__, body)

    class Through(Piecewise):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            given = called(scipys, args, kwargs, places)
            made = scipys(**{name: like(x) for name, x in given.items()})
            if any(map(traced, given.values())):
                given.pop("extrapolate", None)
                self.hold(coefficients(**given), made.x, made.extrapolate, made.axis)
            else:
                self.hold(made.c, made.x, made.extrapolate, made.axis)
                self.made = made

    return public(Through, scipys)


def public(ours: type, scipys: Any) -> type:
    """Enter a class under SciPy's name."""
    ours.__name__ = ours.__qualname__ = scipys.__name__
    ours.__module__, ours.__doc__ = "scipy.interpolate", scipys.__doc__
    ours.title = f"scipy.interpolate.{scipys.__name__}"  # type: ignore[attr-defined]
    FUNCTIONS[scipys.__name__] = ours
    return ours


def first(y, axis):
    return np.moveaxis(y, axis, 0)


def polynomials(c, x, axis=0):
    return np.moveaxis(c, (axis, axis + 1), (0, 1))


def cubic_hermite(x, y, dydx, axis=0):
    return splines.hermite(x, first(y, axis), first(dydx, axis))


def cubic(x, y, axis=0, bc_type="not-a-knot"):
    y = first(y, axis)
    return splines.hermite(x, y, splines.cubic_slopes(x, y, bc_type))


def pchip(x, y, axis=0):
    y = first(y, axis)
    return splines.hermite(x, y, splines.pchip_slopes(x, y))


def akima(x, y, axis=0, *, method="akima"):
    y = first(y, axis)
    return splines.hermite(x, y, splines.akima_slopes(x, y, method))


of_values(si.PPoly, polynomials, "c")
of_values(si.CubicHermiteSpline, cubic_hermite, "y", "dydx")
of_values(si.CubicSpline, cubic, "y")
of_values(si.PchipInterpolator, pchip, "y")
of_values(si.Akima1DInterpolator, akima, "y")


# --- splines ------------------------------------------------------------------------------------------------------------------------


def spline(t, c, k, extrapolate=True, axis=0):
    return si.BSpline.construct_fast(t, c, k, extrapolate, axis)


def spline_integral(t, c, k, a, b, extrapolate):
    knots, whole, degree = splines.integrated(t, c, k)
    return integral(lambda x: splines.b_spline(knots, whole, degree, x), a, b, t[k], t[-k - 1], extrapolate)


def known_part(made):
    """Return the coefficients that count, without the zeros behind them."""
    return made.c[: len(made.t) - made.k - 1]


spline_evaluated = fix(lambda t, c, k, x, nu, extrapolate, axis: spline(t, c, k, extrapolate, axis)(x, nu), "BSpline", splines.b_spline)
spline_derived = fix(
    lambda t, c, k: known_part(spline(t, c, k).derivative()), "BSpline.derivative", lambda t, c, k: splines.differentiated(t, c, k)[1]
)
spline_raised = fix(
    lambda t, c, k: known_part(spline(t, c, k).antiderivative()),
    "BSpline.antiderivative",
    lambda t, c, k: splines.integrated(t, c, k)[1],
)
spline_integrated = fix(
    lambda t, c, k, a, b, extrapolate: spline(t, c, k, extrapolate).integrate(a, b), "BSpline.integrate", spline_integral
)


class BSpline(Interpolant):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        given = called(si.BSpline, args, kwargs, ("c",))
        made = si.BSpline(**{name: like(x) for name, x in given.items()})
        self.hold(made.t, first(given["c"], made.axis) if traced(given["c"]) else made.c, made.k, made.extrapolate, made.axis)

    def hold(self, t: Any, c: Any, k: int, extrapolate: Any, axis: int) -> BSpline:
        self.t, self.c, self.k, self.extrapolate, self.axis = t, c, k, extrapolate, axis
        if not traced(c):
            self.made = spline(t, c, k, extrapolate, axis)
        return self

    @staticmethod
    def construct_fast(t: Any, c: Any, k: int, extrapolate: Any = True, axis: int = 0) -> BSpline:
        return object.__new__(BSpline).hold(t, c, k, extrapolate, axis)

    @property
    def tck(self) -> tuple:
        return self.t, self.c, self.k

    def __call__(self, x: Any, nu: int = 0, extrapolate: Any = None) -> Any:
        return spline_evaluated(self.t, self.c, self.k, places(x), nu, self.extrapolate if extrapolate is None else extrapolate, self.axis)

    def derivative(self, nu: int = 1) -> BSpline:
        t, c, k = self.tck
        for _ in range(nu):
            t, c, k = t[1:-1], spline_derived(t, c, k), k - 1
        return self.construct_fast(t, c, k, self.extrapolate, self.axis)

    def antiderivative(self, nu: int = 1) -> BSpline:
        t, c, k = self.tck
        for _ in range(nu):
            t, c, k = np.r_[t[:1], t, t[-1:]], spline_raised(t, c, k), k + 1
        return self.construct_fast(t, c, k, self.extrapolate is True, self.axis)

    def integrate(self, a: Any, b: Any, extrapolate: Any = None) -> Any:
        return spline_integrated(*self.tck, a, b, self.extrapolate if extrapolate is None else extrapolate)


public(BSpline, si.BSpline)


def interpolating(x, y, k=3, t=None, bc_type=None, axis=0):
    return splines.b_spline_coefficients(np.asarray(x, float), first(y, axis), t, k, bc_type)


interpolating_coefficients = fix(
    lambda x, y, k, t, bc_type, axis, asked: si.make_interp_spline(x, y, k, asked, bc_type, axis).c,
    "make_interp_spline",
    lambda x, y, k, t, bc_type, axis, asked: interpolating(x, y, k, t, bc_type, axis),
)


def make_interp_spline(x: Any, y: Any, k: int = 3, t: Any = None, bc_type: Any = None, axis: int = 0, check_finite: bool = True) -> BSpline:
    given = called(si.make_interp_spline, (x, y, k, t, bc_type, axis, check_finite), {}, ("y",))
    made = si.make_interp_spline(**{name: like(x) for name, x in given.items()})
    c = made.c
    if traced(given["y"]):
        c = interpolating_coefficients(given["x"], given["y"], made.k, made.t, bc_type, axis, t)
    return BSpline.construct_fast(made.t, c, made.k, made.extrapolate, made.axis)


FUNCTIONS["make_interp_spline"] = make_interp_spline


def splev_body(x, tck, der=0, ext=0):
    t, c, k = tck
    plain = stopped(x)
    outside = (plain < t[k]) | (plain > t[-k - 1])
    if ext in (3, "const") and der == 0:  # of a derivative, SciPy's is that of the polynomial at the end
        x = np.clip(x, t[k], t[-k - 1])
    made = splines.b_spline(t, c, k, x, der)
    return np.where(outside, 0.0, made) if ext in (1, "zeros") else made


FUNCTIONS["splev"] = fix(si.splev, "splev", splev_body)
univariate = fix(
    lambda x, made, nu, ext: made(x, nu, ext),
    "UnivariateSpline",
    lambda x, made, nu, ext: splev_body(x, made._eval_args, nu, made.ext if ext is None else ext),
)


def smoothing(scipys: Any) -> None:
    """Enter a class of splines whose knots depend on the values: they are plain, the places may be traced."""

    class Smoothing(Interpolant):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self.made = scipys(**called(scipys, args, kwargs, ()))

        def __call__(self, x: Any, nu: int = 0, ext: Any = None) -> Any:
            return univariate(places(x), self.made, nu, ext)

    public(Smoothing, scipys)


for _kind in (si.UnivariateSpline, si.InterpolatedUnivariateSpline, si.LSQUnivariateSpline):
    smoothing(_kind)


# --- tables -------------------------------------------------------------------------------------------------------------------------


class Table:
    """What SciPy makes of values, with the same options; the last one is kept."""

    def __init__(self, make: Callable[[Any], Any]) -> None:
        self.make, self.last = make, (None, None)

    def of(self, values: Any) -> Any:
        if self.last[0] is not values:
            self.last = values, self.make(values)
        return self.last[1]


ORDERS = {"zero": 0, "slinear": 1, "quadratic": 2, "cubic": 3}


def read(y, x, knots, kind):
    """Read a table with sorted knots along the first axis of values."""
    plain = stopped(x)
    if kind == "linear":
        j = np.clip(np.searchsorted(knots, plain) - 1, 0, len(knots) - 2)
        low, high = getitem(y, j), getitem(y, j + 1)
        share = (x - getitem(knots, j)) / getitem(np.diff(knots), j)
        made = low + np.reshape(share, shape_of(share) + (1,) * (ndim_of(y) - 1)) * (high - low)
    elif kind in ("nearest", "nearest-up"):
        made = getitem(y, np.searchsorted(0.5 * (knots[1:] + knots[:-1]), plain, side="left" if kind == "nearest" else "right"))
    elif kind == "previous":
        made = getitem(y, np.clip(np.searchsorted(knots, plain, side="right") - 1, 0, len(knots) - 1))
    elif kind == "next":
        made = getitem(y, np.clip(np.searchsorted(knots, plain), 0, len(knots) - 1))
    else:
        order = ORDERS.get(kind, kind)
        t = si.make_interp_spline(knots, np.zeros(len(knots)), order).t
        made = splines.b_spline(t, splines.b_spline_coefficients(knots, y, t, order, None), order, x)
    return made


def interp1d_body(y, x, table, options):
    """Read the table inside, and what fills it outside."""
    knots, axis, kind, fill = np.asarray(options["x"], float), options["axis"], options["kind"], options["fill_value"]
    y, plain = first(y, axis), stopped(x)
    if not options["assume_sorted"]:
        order = np.argsort(knots, kind="mergesort")
        knots, y = knots[order], getitem(y, order)
    made = read(y, x, knots, kind)
    sides = [plain < knots[0], plain > knots[-1]]
    if isinstance(fill, str):  # extrapolate
        fills = [y[0] if kind == "next" else None, y[-1] if kind == "previous" else None]
        fills = fills if kind not in ("next", "previous") else [np.nan if part is None else part for part in fills]
    else:
        fills = list(fill) if isinstance(fill, tuple) else [fill, fill]
    for side, value in zip(sides, fills, strict=True):
        if value is not None:
            made = np.where(np.reshape(side, shape_of(side) + (1,) * (ndim_of(y) - 1)), value, made)
    return splines.arranged(made, None, x, axis % ndim_of(y))


tabulated = fix(lambda y, x, table, options: table.of(y)(x), "interp1d", interp1d_body)


class Interp1d(Interpolant):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.options = called(si.interp1d, args, kwargs, ("y",))
        self.values = self.options.pop("y")
        self.table = Table(lambda y: si.interp1d(y=y, **self.options))
        made = self.table.of(like(self.values))
        if not traced(self.values):
            self.made = made

    def __call__(self, x: Any) -> Any:
        return tabulated(self.values, places(x), self.table, self.options)


public(Interp1d, si.interp1d)


def grid_body(values, xi, table, points, method, fill_value):
    """Read a table on a grid: a mean of the corners of a cell, or its nearest corner."""
    xi = np.reshape(xi, (*shape_of(xi), 1)) if len(points) == 1 and (not ndim_of(xi) or shape_of(xi)[-1] != 1) else xi
    cells, shares, outside = [], [], False
    for axis, knots in enumerate(points):
        knots = np.asarray(knots, float)
        if knots[-1] < knots[0]:
            knots, values = knots[::-1], np.flip(values, axis)
        x = xi[..., axis]
        plain = stopped(x)
        outside = outside | (plain < knots[0]) | (plain > knots[-1])
        j = segment(knots, plain)
        cells.append(j)
        shares.append((x - getitem(knots, j)) / getitem(np.diff(knots), j))
    spread = lambda share: np.reshape(share, shape_of(share) + (1,) * (ndim_of(values) - len(points)))
    if method == "nearest":
        made = getitem(values, tuple(j + (stopped(share) > 0.5) for j, share in zip(cells, shares, strict=True)))
        made = made + spread(0.0 * sum(shares))
    else:
        made = 0.0
        for corner in product((0, 1), repeat=len(points)):
            weight = 1.0
            for side, share in zip(corner, shares, strict=True):
                weight = weight * (share if side else 1.0 - share)
            made = made + spread(weight) * getitem(values, tuple(j + side for j, side in zip(cells, corner, strict=True)))
    return made if fill_value is None else np.where(spread(outside), fill_value, made)


def segment(knots, x):
    return splines.segment(knots, x, 0, len(knots) - 2)


gridded = fix(lambda values, xi, table, points, method, fill_value: table.of(values)(xi, method), "RegularGridInterpolator", grid_body)


class RegularGrid(Interpolant):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.options = called(si.RegularGridInterpolator, args, kwargs, ("values",))
        self.table = Table(lambda values: si.RegularGridInterpolator(**{**self.options, "values": values}))
        made = self.table.of(like(self.options["values"]))
        if not traced(self.options["values"]):
            self.made = made

    def __call__(self, xi: Any, method: str | None = None, *, nu: Any = None) -> Any:
        values, method = self.options["values"], method or self.options["method"]
        at = coordinates(xi)
        if not (traced(values) or traced(at)):
            return self.made(xi, method, nu=nu)
        if method not in ("linear", "nearest") or nu is not None:
            raise NotImplementedError(
                f"scipy.interpolate.RegularGridInterpolator has no derivative with method={method!r} (nu={nu}): use 'linear' or 'nearest'"
            )
        made = gridded(values, at, self.table, self.options["points"], method, self.options["fill_value"])
        return made[0] if type(xi) is tuple and ndim_of(at) == 1 and len(xi) > 1 else made


def coordinates(xi):
    """Return places as one array; a tuple has an array for each coordinate, and they broadcast."""
    if type(xi) is not tuple:
        return places(xi)
    parts = [places(part) for part in xi]
    return np.stack(np.broadcast_arrays(*parts), -1) if len(parts) > 1 else parts[0]


public(RegularGrid, si.RegularGridInterpolator)


def interpn(points: Any, values: Any, xi: Any, method: str = "linear", bounds_error: bool = True, fill_value: Any = np.nan) -> Any:
    values, at = packed(values), coordinates(xi)
    if not (traced(values) or traced(at)):
        return si.interpn(points, values, xi, method, bounds_error, fill_value)
    return RegularGrid(points, values, method, bounds_error, fill_value)(at)


FUNCTIONS["interpn"] = interpn
