"""Right-hand sides as users write them: what they close over, take and return; derivatives are those of closed solutions."""

from functools import partial

import numpy as np
import pytest

import dualad
from checkpoint import CTZ, grad, odeint, solve_ivp

integrate = pytest.importorskip("scipy.integrate")
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


@BOTH
def test_what_a_function_closes_over_is_differentiated(derived):
    """In cells, in functions that it calls, in attributes, in containers; also that of an event."""
    for made in (lambda rate: lambda t, y: -rate * y, lambda rate: Model(rate).slope, nested):
        np.testing.assert_allclose(derived(lambda rate, made=made: end(made(rate)))(0.5), -np.exp(-0.5), rtol=1e-8)
    half = lambda level: solve_ivp(lambda t, y: -y, (0.0, 2.0), [1.0], events=lambda t, y: y[0] - level, **TIGHT).t_events[0][0]
    np.testing.assert_allclose(derived(half)(0.5), -2.0, rtol=1e-7)
    by_odeint = lambda rate: odeint(lambda y, t: -rate * y, [1.0], [0.0, 1.0])[-1, 0]
    np.testing.assert_allclose(derived(by_odeint)(0.5), -np.exp(-0.5), rtol=1e-6)


@BOTH
def test_what_becomes_of_variables_later_does_not_matter(derived):
    """The reverse sweep evaluates steps again, when the variables may hold the same numbers without derivatives."""

    def later(rate):
        factor = rate
        solved = end(lambda t, y: -factor * y)
        factor = 0.5
        return solved

    np.testing.assert_allclose(derived(later)(0.5), -np.exp(-0.5), rtol=1e-8)


@BOTH
def test_partials_and_interpolants_hold_parameters(derived):
    interpolate = pytest.importorskip("dualad.scipy.interpolate")

    def by_table(rate):
        table = interpolate.interp1d([0.0, 2.0], np.stack([rate, rate]))
        return lambda t, y: -table(t) * y

    def by_spline(rate):
        spline = interpolate.CubicSpline(np.arange(4.0), np.stack([rate] * 4))
        return lambda t, y: -spline(t) * y

    by_keyword = lambda rate: partial(lambda t, y, k: -k * y, k=rate)
    by_place = lambda rate: partial(lambda k, t, y: -k * y, rate)
    of_method = lambda rate: partial(Model.slope, Model(rate))
    for made in (by_keyword, by_place, of_method, by_table, by_spline):
        np.testing.assert_allclose(derived(lambda rate, made=made: end(made(rate)))(0.5), -np.exp(-0.5), rtol=1e-8)


@BOTH
def test_objects_among_the_arguments_hold_parameters(derived):
    def read(rate):
        return end(lambda t, y, model, factor: factor * model.slope(t, y), args=(Model(0.5 * rate), rate / 0.5))

    np.testing.assert_allclose(derived(read)(0.5), -np.exp(-0.25), rtol=1e-8)  # of exp(-rate**2)


@BOTH
def test_one_value_may_be_an_argument_and_closed_over(derived):
    np.testing.assert_allclose(derived(lambda rate: end(lambda t, y, k: -k * rate * y, args=(rate,)))(0.5), -np.exp(-0.25), rtol=1e-8)


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
    """Numbers for one equation, integers, single precision."""
    np.testing.assert_allclose(derived(lambda rate: end(lambda t, y: -rate * y[0]))(0.5), -np.exp(-0.5), rtol=1e-8)
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


@BOTH
def test_what_chooses_the_steps_may_be_traced(derived):
    read = lambda rate: end(lambda t, y, rate: -rate * y, args=(rate,), first_step=1e-3 * rate, max_step=rate)
    np.testing.assert_allclose(derived(read)(0.5), -np.exp(-0.5), rtol=1e-8)


def test_a_method_may_be_scipys_class():
    read = lambda rate, method: solve_ivp(lambda t, y: -rate * y, (0.0, 1.0), [1.0], method).y[0, -1]
    assert grad(read)(0.5, integrate.RK23) == grad(read)(0.5, "RK23")
    with pytest.raises(ValueError, match=r"method='LSODA' has no derivatives; .* jac_sparsity= where the Jacobian is banded"):
        read(0.5, integrate.LSODA)


@BOTH
def test_odeint_takes_a_number(derived):
    np.testing.assert_allclose(derived(lambda y0: odeint(lambda y, t: -y, y0, [0.0, 1.0])[-1, 0])(0.5), np.exp(-1.0), rtol=1e-6)
