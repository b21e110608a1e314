"""``scipy.interpolate``: interpolants that may be made of traced values and read at traced places.

The value of an interpolant is that of SciPy's own, on plain numbers. The derivative is that of a body (`splines`): by the places, the
values and the coefficients. Knots, grids and boundary conditions are plain.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy import interpolate as si

from ..calling import with_defaults
from ..constants import stopped
from ..indexing import getitem
from ..kinds import any_traced, ndim_of, shape_of
from ..shapes import as_array
from . import splines
from .entering import by_body, plain_copies

FUNCTIONS: dict[str, Any] = {}


def pack_values(x: Any) -> Any:
    """Return traced values in lists as one array, and a copy of an array."""
    return plain_copies(as_array(x)) if any_traced(x) else x


def places(x: Any) -> Any:
    return pack_values(x) if any_traced(x) else np.asarray(x, float)


def plain_like(x: Any) -> Any:
    """Return a plain array that stands for a traced one where SciPy looks at shapes."""
    return np.zeros(shape_of(x), complex if x.dtype.kind == "c" else float) if any_traced(x) else x


class Interpolant:
    """An object that has SciPy's attributes as long as nothing in it is traced."""

    title: str
    interpolant: Any = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or self.interpolant is None:
            if not name.startswith("_"):
                name = f"{self.title}.{name} of traced values has no derivative here: make it of plain values (dualad.primal)"
            raise AttributeError(name)
        return getattr(self.interpolant, name)


def fix(fn: Callable, name: str, body: Callable) -> Callable:
    return by_body(fn, body, f"scipy.interpolate.{name}")


def bind_call(scipys: Any, args: tuple, kwargs: dict[str, Any], places: tuple[str, ...]) -> tuple[dict[str, Any], Any]:
    """Return the arguments of a call by name, those with values packed, and what SciPy makes of them; traced others are refused."""
    bound = with_defaults(f"scipy.interpolate.{scipys.__name__}", inspect.signature(scipys), args, kwargs)
    given = {name: pack_values(x) if name in places else plain_copies(x) for name, x in bound.arguments.items()}
    for name, x in given.items():
        if any_traced(x) and name not in places:
            raise TypeError(
                f"scipy.interpolate.{scipys.__name__} has no derivative with respect to its argument {name!r}: pass a plain value there "
                f"(dualad.primal)"
            )
    return given, scipys(**{name: plain_like(x) for name, x in given.items()})


# --- piecewise polynomials, and splines: of knots, coefficients and a degree, which says nothing of polynomials -----------------------


def enter_class(name: str, build: Callable, evaluate: Callable, lower: Callable, lift: Callable) -> SimpleNamespace:
    """Enter what a class of SciPy's does: bodies evaluate it, and return knots, coefficients and degree of derivative and integral."""

    def changed(method: str, body: Callable) -> Callable:
        value = lambda t, c, k, nu: spline_parts(getattr(build(t, c, k), method)(nu))[1]
        return fix(value, f"{name}.{method}", lambda t, c, k, nu: body(t, c, k, nu)[1])

    def integral(t, c, k, a, b, extrapolate):
        if extrapolate == "periodic":
            raise NotImplementedError("integrate has no derivative where the interpolant is periodic: integrate within one period")
        if not extrapolate:
            a, b = (np.clip(end, t[k], t[-k - 1]) for end in (a, b))
        primitive = lift(t, c, k, 1)
        return evaluate(*primitive, b) - evaluate(*primitive, a)

    return SimpleNamespace(
        build=build,
        evaluated=fix(lambda t, c, k, x, nu, extrapolate, axis: build(t, c, k, extrapolate, axis)(x, nu), name, evaluate),
        derivative=changed("derivative", lower),
        antiderivative=changed("antiderivative", lift),
        integrate=fix(lambda t, c, k, a, b, extrapolate: build(t, c, k, extrapolate).integrate(a, b), f"{name}.integrate", integral),
    )


def spline_parts(interpolant: Any) -> tuple:
    """Return knots, coefficients and degree of what is SciPy's; of a spline without the zeros behind the coefficients."""
    if isinstance(interpolant, si.BSpline):
        return interpolant.t, interpolant.c[: len(interpolant.t) - interpolant.k - 1], interpolant.k
    return interpolant.x, interpolant.c, 0


class Piecewise(Interpolant):
    """An interpolant given by knots, coefficients and a degree."""

    rows: SimpleNamespace

    def hold(self, t: Any, c: Any, k: int, extrapolate: Any, axis: int) -> Any:
        self.t, self.c, self.k, self.extrapolate, self.axis = t, c, k, extrapolate, axis
        if not any_traced(c):
            self.interpolant = self.rows.build(t, c, k, extrapolate, axis)
        return self

    def another(self, name: str, nu: int) -> Any:
        """Return a derivative or an integral; SciPy's own tells its knots."""
        interpolant = getattr(self.rows.build(self.t, plain_like(self.c), self.k, self.extrapolate, self.axis), name)(nu)
        (t, _, k), kind = spline_parts(interpolant), BSpline if isinstance(self, BSpline) else Polynomials
        c = getattr(self.rows, name)(self.t, self.c, self.k, nu)
        return object.__new__(kind).hold(t, c, k, interpolant.extrapolate, self.axis)

    def __call__(self, x: Any, nu: int = 0, extrapolate: Any = None) -> Any:
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        return self.rows.evaluated(self.t, self.c, self.k, places(x), nu, extrapolate, self.axis)

    def derivative(self, nu: int = 1) -> Any:
        return self.antiderivative(-nu) if nu < 0 else self.another("derivative", nu)

    def antiderivative(self, nu: int = 1) -> Any:
        return self.derivative(-nu) if nu < 0 else self.another("antiderivative", nu)

    def integrate(self, a: Any, b: Any, extrapolate: Any = None) -> Any:
        return self.rows.integrate(self.t, self.c, self.k, a, b, self.extrapolate if extrapolate is None else extrapolate)


class Polynomials(Piecewise):
    """Polynomials between knots, by coefficients whose first two axes are the powers and the pieces."""

    title = "scipy.interpolate.PPoly"
    rows = enter_class(
        "PPoly",
        lambda t, c, k, extrapolate=True, axis=0: si.PPoly.construct_fast(c, t, extrapolate, axis),
        splines.piecewise,
        splines.differentiate_polynomials,
        splines.antiderivative,
    )
    x = property(lambda self: self.t)


class BSpline(Piecewise):
    rows = enter_class(
        "BSpline",
        lambda t, c, k, extrapolate=True, axis=0: si.BSpline.construct_fast(t, c, k, extrapolate, axis),
        splines.b_spline,
        splines.differentiate_spline,
        splines.integrate_spline,
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        given, interpolant = bind_call(si.BSpline, args, kwargs, ("c",))
        c = interpolant.c
        if any_traced(given["c"]):
            c = first(given["c"], interpolant.axis)
            c = c if c.dtype == interpolant.c.dtype else c.astype(interpolant.c.dtype)
        self.hold(interpolant.t, c, interpolant.k, interpolant.extrapolate, interpolant.axis)

    @staticmethod
    def construct_fast(t: Any, c: Any, k: int, extrapolate: Any = True, axis: int = 0) -> BSpline:
        return object.__new__(BSpline).hold(t, c, k, extrapolate, axis)

    @staticmethod
    def basis_element(t: Any, extrapolate: Any = True) -> BSpline:
        return BSpline(*si.BSpline.basis_element(t, extrapolate).tck, extrapolate)

    @property
    def tck(self) -> tuple:
        return self.t, self.c, self.k


def of_values(scipys: Any, body: Callable, *places: str) -> type:
    """Return the class of piecewise polynomials through values; `body` gives the coefficients of all arguments but `extrapolate`."""

    def plain(**given):
        return scipys(**given).c

    coefficients = fix(plain, scipys.__name__, body)

    class Through(FUNCTIONS.get("PPoly", Polynomials)):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            given, interpolant = bind_call(scipys, args, kwargs, places)
            plain = not any_traced(list(given.values()))
            given.pop("extrapolate", None)
            self.hold(interpolant.x, interpolant.c if plain else coefficients(**given), 0, interpolant.extrapolate, interpolant.axis)
            if plain:
                self.interpolant = interpolant

    return enter_public(Through, scipys)


def enter_public(ours: type, scipys: Any) -> type:
    """Enter a class under SciPy's name."""
    ours.__name__ = ours.__qualname__ = scipys.__name__
    ours.__module__, ours.__doc__ = "scipy.interpolate", scipys.__doc__
    ours.title = f"scipy.interpolate.{scipys.__name__}"  # type: ignore[attr-defined]
    for name in dir(scipys):
        if isinstance(inspect.getattr_static(scipys, name), classmethod | staticmethod) and not hasattr(ours, name):
            setattr(ours, name, staticmethod(getattr(scipys, name)))  # what it makes of plain values
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


def pchip_interpolate(xi: Any, yi: Any, x: Any, der: Any = 0, axis: int = 0) -> Any:
    interpolant = FUNCTIONS["PchipInterpolator"](xi, yi, axis=axis)
    return [interpolant.derivative(nu)(x) for nu in der] if np.iterable(der) else interpolant.derivative(der)(x) if der else interpolant(x)


FUNCTIONS["pchip_interpolate"] = pchip_interpolate

# --- splines ------------------------------------------------------------------------------------------------------------------------

enter_public(BSpline, si.BSpline)


interpolating_coefficients = fix(
    lambda x, y, k, t, bc_type, axis, asked: si.make_interp_spline(x, y, k, asked, bc_type, axis).c,
    "make_interp_spline",
    lambda x, y, k, t, bc_type, axis, asked: splines.b_spline_coefficients(np.asarray(x, float), first(y, axis), t, k, bc_type),
)


def make_interp_spline(x: Any, y: Any, k: int = 3, t: Any = None, bc_type: Any = None, axis: int = 0, check_finite: bool = True) -> BSpline:
    given, interpolant = bind_call(si.make_interp_spline, (x, y, k, t, bc_type, axis, check_finite), {}, ("y",))
    c = interpolant.c
    if any_traced(given["y"]):
        c = interpolating_coefficients(given["x"], given["y"], interpolant.k, interpolant.t, bc_type, axis, t)
    return BSpline.construct_fast(interpolant.t, c, interpolant.k, interpolant.extrapolate, interpolant.axis)


FUNCTIONS["make_interp_spline"] = make_interp_spline


def splev_body(x, tck, der=0, ext=0):
    t, c, k = tck
    plain = stopped(x)
    outside = (plain < t[k]) | (plain > t[-k - 1])
    if ext in (3, "const") and der == 0:  # of a derivative, SciPy's is that of the polynomial at the end
        x = np.clip(x, t[k], t[-k - 1])
    result = splines.b_spline(t, c, k, x, der)
    return np.where(outside, 0.0, result) if ext in (1, "zeros") else result


def splrep_body(x, y, k=3, s=None):
    """SciPy chooses the knots by the places alone, where it does not smooth."""
    if s:
        raise NotImplementedError(
            f"scipy.interpolate.splrep has no derivative with s={s!r}, which makes the knots depend on the values: use s=0"
        )
    if any_traced(x):
        raise TypeError(
            "scipy.interpolate.splrep has no derivative with respect to its argument 'x': pass a plain value there (dualad.primal)"
        )
    x = np.asarray(x, float)
    t = si.splrep(x, np.zeros(len(x)), k=k, s=0)[0]
    return t, np.concatenate([splines.b_spline_coefficients(x, y, t, k, None), np.zeros(k + 1)]), k


FUNCTIONS["splev"] = fix(si.splev, "splev", splev_body)
FUNCTIONS["splrep"] = fix(si.splrep, "splrep", splrep_body)


def univariate_body(y, x, table, places, tck, nu, ext):
    t, c, k = tck
    if any_traced(y):
        c = np.concatenate([splines.b_spline_coefficients(places, y, t, k, None), np.zeros(k + 1)])
    return splev_body(x, (t, c, k), nu, ext)


univariate = fix(lambda y, x, table, places, tck, nu, ext: table.of(y)(x, nu, ext), "UnivariateSpline", univariate_body)


def smoothing(scipys: Any) -> None:
    """Enter a class of splines; where their knots depend on the values, these are plain."""

    class Smoothing(Interpolant):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            given, interpolant = bind_call(scipys, args, kwargs, ("y",))
            self.y, self.places, self.tck, self.ext = given.pop("y"), given["x"], interpolant._eval_args, interpolant.ext
            if any_traced(self.y) and (given.get("s", 0) != 0 or "t" in given or list(given["bbox"]) != [None, None]):
                raise TypeError(
                    f"scipy.interpolate.{scipys.__name__} has no derivative with respect to its argument 'y' where its knots are not those "
                    f"of interpolation: give s=0, or use InterpolatedUnivariateSpline, without bbox="
                )
            self.table = Table(lambda y: scipys(**given, y=y))
            if not any_traced(self.y):
                self.interpolant, self.table.last = interpolant, (self.y, interpolant)

        def __call__(self, x: Any, nu: int = 0, ext: Any = None) -> Any:
            return univariate(self.y, places(x), self.table, self.places, self.tck, nu, self.ext if ext is None else ext)

    enter_public(Smoothing, scipys)


for _kind in (si.UnivariateSpline, si.InterpolatedUnivariateSpline, si.LSQUnivariateSpline):
    smoothing(_kind)


# --- tables -------------------------------------------------------------------------------------------------------------------------


class Table:
    """SciPy's interpolant of values, with the same options; the last one is kept."""

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
        result = low + np.reshape(share, shape_of(share) + (1,) * (ndim_of(y) - 1)) * (high - low)
    elif kind in ("nearest", "nearest-up"):
        result = getitem(y, np.searchsorted(0.5 * (knots[1:] + knots[:-1]), plain, side="left" if kind == "nearest" else "right"))
    elif kind == "previous":
        result = getitem(y, np.clip(np.searchsorted(knots, plain, side="right") - 1, 0, len(knots) - 1))
    elif kind == "next":
        result = getitem(y, np.clip(np.searchsorted(knots, plain), 0, len(knots) - 1))
    else:
        order = ORDERS.get(kind, kind)
        t = si.make_interp_spline(knots, np.zeros(len(knots)), order).t
        result = splines.b_spline(t, splines.b_spline_coefficients(knots, y, t, order, None), order, x)
    return result


def interp1d_body(y, x, table, options):
    """Read the table inside, and what fills it outside."""
    knots, axis, kind, fill = np.asarray(options["x"], float), options["axis"], options["kind"], options["fill_value"]
    y, plain = first(y, axis), stopped(x)
    if not options["assume_sorted"]:
        order = np.argsort(knots, kind="mergesort")
        knots, y = knots[order], getitem(y, order)
    result = read(y, x, knots, kind)
    sides = [plain < knots[0], plain > knots[-1]]
    if isinstance(fill, str):  # extrapolate
        fills = [y[0] if kind == "next" else None, y[-1] if kind == "previous" else None]
        fills = fills if kind not in ("next", "previous") else [np.nan if part is None else part for part in fills]
    else:
        fills = list(fill) if isinstance(fill, tuple) else [fill, fill]
    for side, value in zip(sides, fills, strict=True):
        if value is not None:
            result = np.where(np.reshape(side, shape_of(side) + (1,) * (ndim_of(y) - 1)), value, result)
    return splines.arrange_axes(result, None, x, axis % ndim_of(y))


tabulated = fix(lambda y, x, table, options: table.of(y)(x), "interp1d", interp1d_body)


class Tabulated(Interpolant):
    """Values by name, at `key`, and what SciPy makes of plain ones."""

    scipys: Any
    key: str

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.options, interpolant = bind_call(self.scipys, args, kwargs, (self.key,))
        self.values = self.options.pop(self.key)
        self.table = Table(lambda values: self.scipys(**self.options, **{self.key: values}))
        self.interpolant = None if any_traced(self.values) else interpolant


class Interp1d(Tabulated):
    scipys, key = si.interp1d, "y"

    def __call__(self, x: Any) -> Any:
        return tabulated(self.values, places(x), self.table, self.options)


enter_public(Interp1d, si.interp1d)


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
        j = splines.segment(knots, plain, 0, len(knots) - 2)
        cells.append(j)
        shares.append((x - getitem(knots, j)) / getitem(np.diff(knots), j))
    spread = lambda share: np.reshape(share, shape_of(share) + (1,) * (ndim_of(values) - len(points)))
    if method == "nearest":
        result = getitem(values, tuple(j + (stopped(share) > 0.5) for j, share in zip(cells, shares, strict=True)))
        result = result + spread(0.0 * sum(shares))
    else:
        result = 0.0
        for corner in product((0, 1), repeat=len(points)):
            weight = 1.0
            for side, share in zip(corner, shares, strict=True):
                weight = weight * (share if side else 1.0 - share)
            result = result + spread(weight) * getitem(values, tuple(j + side for j, side in zip(cells, corner, strict=True)))
    return result if fill_value is None else np.where(spread(outside), fill_value, result)


gridded = fix(lambda values, xi, table, points, method, fill_value: table.of(values)(xi, method), "RegularGridInterpolator", grid_body)


class RegularGrid(Tabulated):
    scipys, key = si.RegularGridInterpolator, "values"

    def __call__(self, xi: Any, method: str | None = None, *, nu: Any = None) -> Any:
        method, at = method or self.options["method"], coordinates(xi)
        if not any_traced((self.values, at)):
            return self.interpolant(xi, method, nu=nu)
        if method not in ("linear", "nearest") or nu is not None:
            raise NotImplementedError(
                f"scipy.interpolate.RegularGridInterpolator has no derivative with method={method!r} (nu={nu}): use 'linear' or 'nearest'"
            )
        result = gridded(self.values, at, self.table, self.options["points"], method, self.options["fill_value"])
        return result[0] if type(xi) is tuple and ndim_of(at) == 1 and len(xi) > 1 else result


def coordinates(xi):
    """Return places as one array; a tuple has an array for each coordinate, and they broadcast."""
    if type(xi) is not tuple:
        return places(xi)
    parts = [places(part) for part in xi]
    return np.stack(np.broadcast_arrays(*parts), -1) if len(parts) > 1 else parts[0]


enter_public(RegularGrid, si.RegularGridInterpolator)


def interpn(points: Any, values: Any, xi: Any, method: str = "linear", bounds_error: bool = True, fill_value: Any = np.nan) -> Any:
    values, at = pack_values(values), coordinates(xi)
    if not any_traced((values, at)):
        return si.interpn(points, values, xi, method, bounds_error, fill_value)
    return RegularGrid(points, values, method, bounds_error, fill_value)(at)


FUNCTIONS["interpn"] = interpn
