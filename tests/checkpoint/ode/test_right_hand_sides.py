"""Right-hand sides as users write them: what they close over, take and return; derivatives are those of closed solutions."""

from functools import partial

import numpy as np
import pytest
from in_groups import for_each
from interpreted import no_optimiser  # noqa: F401  (a fixture: LLVM optimises nothing)

import dualad
from checkpoint import CTZ, grad, odeint, solve_ivp

integrate = pytest.importorskip("scipy.integrate")
interpolate = pytest.importorskip("dualad.scipy.interpolate")
TIGHT = {"rtol": 1e-9, "atol": 1e-11}
BOTH = pytest.mark.parametrize("derived", [grad, dualad.derivative])


class Model:
    def __init__(self, rate):
        self.rate = rate

    def slope(self, t, y):
        return -self.rate * y


class Slotted:
    __slots__ = ("rate",)

    def __init__(self, rate):
        self.rate = rate

    def slope(self, t, y):
        return -self.rate * y


def end(slope, **options):
    """Return y(1) of y' = -rate y, whose derivative by the rate is -exp(-rate)."""
    return solve_ivp(slope, (0.0, 1.0), [1.0], t_eval=[1.0], **TIGHT, **options).y[0, 0]


def nested(rate):
    slope = lambda t, y, parts: -parts["rates"][0] * y
    return lambda t, y: slope(t, y, {"rates": [rate]})


def later(rate):
    """The reverse sweep evaluates steps again, when the variable holds a number without derivative."""
    factor = rate
    solved = end(lambda t, y: -factor * y)
    factor = 0.5
    return solved


def tabled(rate):
    table = interpolate.interp1d([0.0, 2.0], np.stack([rate, rate]))
    return end(lambda t, y: -table(t) * y)


def splined(rate):
    spline = interpolate.CubicSpline(np.arange(4.0), np.stack([rate] * 4))
    return end(lambda t, y: -spline(t) * y)


#: functions of a rate, which give exp(-rate), by where the right-hand side has it from
WAYS = {
    "variable": lambda rate: end(lambda t, y: -rate * y),
    "variable that changes": later,
    "attribute": lambda rate: end(Model(rate).slope),
    "container in a cell": lambda rate: end(nested(rate)),
    "keyword of a partial": lambda rate: end(partial(lambda t, y, k: -k * y, k=rate)),
    "argument of a partial": lambda rate: end(partial(lambda k, t, y: -k * y, rate)),
    "partial of a method": lambda rate: end(partial(Model.slope, Model(rate))),
    "table": tabled,
    "spline": splined,
    "one equation": lambda rate: end(lambda t, y: -rate * y[0]),
    "also in the choice of steps": lambda k: end(lambda t, y, k: -k * y, args=(k,), first_step=1e-3 * k, max_step=k),
    "odeint": lambda rate: odeint(lambda y, t: -rate * y, [1.0], [0.0, 1.0], rtol=1e-10, atol=1e-12)[-1, 0],
}
#: which give exp(-rate**2)
SQUARES = {
    "object among the arguments": lambda k: end(lambda t, y, m, factor: factor * m.slope(t, y), args=(Model(0.5 * k), k / 0.5)),
    "argument and variable": lambda rate: end(lambda t, y, k: -k * rate * y, args=(rate,)),
}


@pytest.mark.slow
@BOTH
@for_each("name", WAYS | SQUARES)
def test_the_derivative_by_a_rate_is_there_wherever_it_comes_from(derived, name):
    exact = -np.exp(-0.5) if name in WAYS else -np.exp(-0.25)
    np.testing.assert_allclose(derived((WAYS | SQUARES)[name])(0.5), exact, rtol=1e-8)


@BOTH
def test_what_an_event_closes_over_is_differentiated(derived):
    half = lambda level: solve_ivp(lambda t, y: -y, (0.0, 2.0), [1.0], events=lambda t, y: y[0] - level, **TIGHT).t_events[0][0]
    np.testing.assert_allclose(derived(half)(0.5), -2.0, rtol=1e-7)


@BOTH
def test_what_a_function_keeps_by_time_has_its_derivative(derived):
    """SciPy's plain values were given again in the traced steps: the derivative lost their part."""

    class Keeping:
        def __init__(self):
            self.kept = {}

        def slope(self, t, y, rate):
            if t not in self.kept:
                self.kept[t] = rate * np.sin(rate * t)
            return -self.kept[t] * y

    exact = -np.sin(0.7) * np.exp(np.cos(0.7) - 1.0)
    for options in ({}, {"check": True}, {"method": "Radau"}):
        np.testing.assert_allclose(derived(lambda rate, o=options: end(Keeping().slope, args=(rate,), **o))(0.7), exact, rtol=1e-7)


@pytest.mark.slow
@BOTH
def test_what_a_function_first_keeps_later_has_its_derivative(derived):
    """In dicts, lists and attributes, also where y0 alone is traced."""

    class Keeping:
        def __init__(self):
            self.last, self.values = None, [None] * 1000

        def __call__(self, t, factor):
            i = int(1000 * t)
            if self.values[i] is None:
                self.last = self.values[i] = 1.0 * factor
            return self.values[i]

    def slope_of():
        kept, keeping, calls = {}, Keeping(), []

        def slope(t, y, rate):
            calls.append(1)
            if t < 0.4:
                return -rate * y
            if t > 0.7:
                return -keeping(min(t, 0.999), rate) * y
            kept[t] = kept[t] if t in kept else rate * y
            return -kept[t]

        return slope

    coarse = {"rtol": 1e-6, "atol": 1e-8, "max_step": 0.05}
    for options in ({}, {"schedule": CTZ(), "check": True}):
        read = lambda rate, y0, o=options: solve_ivp(slope_of(), (0.0, 1.0), [y0], t_eval=[1.0], args=(rate,), **coarse, **o).y[0, 0]
        np.testing.assert_allclose(derived(read)(0.7, 1.0), -np.exp(-0.7), rtol=1e-5)
        np.testing.assert_allclose(derived(lambda y0, read=read: read(0.7, y0))(1.0), np.exp(-0.7), rtol=1e-5)


def test_what_counts_the_calls_counts_those_for_derivatives():
    calls = []
    grad(lambda rate: end(lambda t, y, rate: [calls.append(1), -rate * y[0]][1:], args=(rate,)))(0.5)
    assert len(calls) > solve_ivp(lambda t, y: -0.5 * y, (0.0, 1.0), [1.0], **TIGHT).nfev


@BOTH
def test_an_array_that_a_function_keeps_to_write_into_is_refused(derived):
    def of(rate):
        room = {}

        def slope(t, y):
            array = room.setdefault("kept", np.zeros_like(y))
            array[:] = -rate * y
            return array

        return slope

    with pytest.raises((TypeError, ValueError), match=r"cannot be written into an array of plain numbers|read-only"):
        derived(lambda rate: end(of(rate)))(0.7)


@BOTH
def test_values_in_iterators_and_objects_without_a_dict_are_refused(derived):
    def hidden(rate):
        rates = iter([rate] * 1000)
        return lambda t, y: -next(rates) * y

    for made in (hidden, lambda rate: Slotted(rate).slope):
        with pytest.raises(TypeError, match=r"solve_ivp: the function uses a traced value .* args=\(value,\)"):
            derived(lambda rate, made=made: end(made(rate)))(0.5)
    with pytest.raises(TypeError, match="solve_ivp: the function uses a traced value"):
        derived(lambda rate: end(lambda t, y, k, model: model.slope(t, y), args=(rate, Slotted(rate))))(0.5)


@BOTH
def test_a_vectorized_function_is_given_a_column(derived):
    """As SciPy gives it."""

    def read(rate, method):
        decay = lambda t, y, rate: np.stack([-rate * y[0, :], -y[1, :]])
        return solve_ivp(decay, (0.0, 1.0), [1.0, 2.0], method, [1.0], vectorized=True, args=(rate,), rtol=1e-7, atol=1e-9).y[0, 0]

    for method in ("RK45", "Radau"):
        np.testing.assert_allclose(derived(read)(0.5, method), -np.exp(-0.5), rtol=1e-5)


@BOTH
def test_what_a_function_returns_becomes_an_array_as_in_scipy(derived):
    """Integers, single precision."""
    steady = lambda y0: solve_ivp(lambda t, y: [1, 2], (0.0, 2.0), np.stack([y0, 0.0]), t_eval=[2.0]).y[:, 0] @ np.array([3.0, 1.0])
    np.testing.assert_allclose(derived(steady)(0.5), 3.0, rtol=1e-12)
    rough = lambda y0: solve_ivp(lambda t, y: (-y).astype(np.float32), (0.0, 1.0), np.stack([y0]), rtol=1e-4).y[0, -1]
    np.testing.assert_allclose(derived(rough)(0.5), np.exp(-1.0), rtol=1e-3)
    for rate in (0.5, np.float64(0.5)):  # the number does not yield to the precision of the constant
        np.testing.assert_allclose(derived(lambda rate: end(lambda t, y: np.float32(-1.0) * rate * y))(rate), -np.exp(-0.5), rtol=1e-7)


@BOTH
def test_a_compiled_function_of_one_equation_may_return_a_number(derived):
    pytest.importorskip("llvmlite")
    decay = dualad.jit(lambda t, y, rate: -rate * y[0])
    np.testing.assert_allclose(derived(lambda rate: end(decay, args=(rate,)))(0.5), -np.exp(-0.5), rtol=1e-8)


def test_a_method_may_be_scipys_class():
    read = lambda rate, method: solve_ivp(lambda t, y: -rate * y, (0.0, 1.0), [1.0], method).y[0, -1]
    assert grad(read)(0.5, integrate.RK23) == grad(read)(0.5, "RK23")
    with pytest.raises(ValueError, match=r"method='LSODA' has no derivatives; .* jac_sparsity= where the Jacobian is banded"):
        read(0.5, integrate.LSODA)


@BOTH
def test_odeint_takes_a_number(derived):
    np.testing.assert_allclose(derived(lambda y0: odeint(lambda y, t: -y, y0, [0.0, 1.0])[-1, 0])(0.5), np.exp(-1.0), rtol=1e-6)
