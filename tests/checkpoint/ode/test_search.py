"""Steps found in compiled code: they are SciPy's to rounding, with its counts and messages, and those made again have the same bits."""

import numpy as np
import pytest

import dualad
from checkpoint import grad, solve_ivp
from checkpoint.ode import steps as search
from dualad.jit.compiled import BACKENDS

integrate = pytest.importorskip("scipy.integrate")
pytest.importorskip("llvmlite")

EXPLICIT = ("RK23", "RK45", "DOP853")


@dualad.jit
def forced(t, y, w):
    return np.array([y[1] - 0.1 * y[0], np.cos(3.0 * t) - w * np.sin(y[0])])


@dualad.jit
def exploding(t, y):
    return y * y


@pytest.fixture
def searches(monkeypatch):
    """Return the list of the trials that were made in compiled code."""
    made = []
    try_steps = search.try_steps
    monkeypatch.setattr(search, "try_steps", lambda *args: made.append(try_steps(*args)) or made[-1])
    return made


def agree(found, wanted, rtol=1e-9):
    assert found.keys() == wanted.keys()
    assert [found[name] for name in ("nfev", "status", "message")] == [wanted[name] for name in ("nfev", "status", "message")]
    assert (np.shape(found.t), np.shape(found.y)) == (np.shape(wanted.t), np.shape(wanted.y))
    np.testing.assert_allclose(found.t, wanted.t, rtol=1e-6, atol=1e-12)  # small errors of a step are known to some digits
    np.testing.assert_allclose(found.y, wanted.y, rtol=rtol)


@pytest.mark.slow
@pytest.mark.parametrize("method", EXPLICIT)
def test_the_steps_are_scipys(method, searches):
    cases = [
        {"t_eval": [3.0]},
        {"t_eval": np.linspace(0.0, 3.0, 7), "rtol": 1e-6},
        {"t_eval": [0.0, 1e-3, 2.0], "max_step": 0.05},
        {"t_eval": [3.0], "first_step": 0.7, "atol": [1e-4, 1e-9]},
        {"t_eval": [3.0, 0.1], "t_span": (3.0, 0.0)},
        {"t_eval": [3.0], "rtol": 1e-12 if method == "DOP853" else 1e-7, "atol": 1e-12},
    ]
    for case in cases:
        options = {"t_span": (0.0, 3.0), "y0": [1.0, 0.5], "method": method, "args": (1.3,), **case}
        agree(solve_ivp(forced, **options), integrate.solve_ivp(forced.f, **options))
        options["t_eval"] = None
        agree(solve_ivp(forced, **options), integrate.solve_ivp(forced.f, **options), rtol=1e-5)
    assert len(searches) == 2 * len(cases)


@pytest.mark.parametrize("t_eval", [None, [0.5, 0.9, 2.0]], ids=["steps", "times"])
def test_a_step_that_becomes_too_small_has_scipys_message(t_eval, searches):
    """y = 1 / (1 - t) ends at t = 1."""
    options = {"t_span": (0.0, 3.0), "y0": [1.0], "t_eval": t_eval}
    found = solve_ivp(exploding, **options)
    assert (found.status, found.message, len(searches)) == (-1, "Required step size is less than spacing between numbers.", 1)
    agree(found, integrate.solve_ivp(exploding.f, **options), rtol=0.2 if t_eval is None else 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["RK45", "DOP853"])
def test_states_made_again_have_the_bits_of_those_of_the_search(method, searches):
    """So that in chaotic systems, too, steps are those of the path that is differentiated."""
    slope = dualad.jit(lambda t, y, w: np.sin(y[::-1] * w) - y * np.cos(t))
    made = []

    def end(w):
        found = solve_ivp(slope, (0.0, 10.0), np.linspace(0.5, 1.0, 9), method, args=(w,))
        made.append((dualad.primal(found.t), dualad.primal(found.y)))
        return found.y[0, -1]

    end(10.0)
    (grad if method == "RK45" else dualad.derivative)(end)(10.0)
    last = solve_ivp(slope, (0.0, 10.0), np.linspace(0.5, 1.0, 9), method, t_eval=[10.0], args=(10.0,))
    assert np.array_equal(last.y[:, 0], made[0][1][:, -1])
    (t, y), again = made
    assert y.shape[1] > 30
    assert again[0].tobytes() == t.tobytes()
    assert np.array_equal(again[1], y)
    assert len(searches) == 3


def test_what_asks_for_each_step_and_what_is_not_compiled_goes_step_by_step(searches, monkeypatch):
    crossing = lambda t, y, w: y[0]
    for options in ({"events": crossing}, {"dense_output": True}):
        wanted = integrate.solve_ivp(forced.f, (0.0, 3.0), [1.0, 0.5], args=(1.3,), **options)
        found = solve_ivp(forced, (0.0, 3.0), [1.0, 0.5], args=(1.3,), **options)
        assert found.nfev == wanted.nfev
        np.testing.assert_allclose(found.y, wanted.y, rtol=1e-6)
    monkeypatch.setitem(BACKENDS, "llvm", BACKENDS["numpy"])
    agree(solve_ivp(forced, (0.0, 3.0), [1.0, 0.5], args=(1.3,)), integrate.solve_ivp(forced.f, (0.0, 3.0), [1.0, 0.5], args=(1.3,)))
    assert not searches


@pytest.mark.slow
def test_complex_states_and_right_hand_sides_that_branch():
    turning = dualad.jit(lambda t, y, w: 1j * w * y)
    options = {"t_span": (0.0, 3.0), "y0": [1.0 + 0.0j, 0.5j], "args": (2.0,)}
    agree(solve_ivp(turning, **options), integrate.solve_ivp(turning.f, **options), rtol=1e-6)
    leaking = dualad.jit(lambda t, y: -y if y[0] > 0.5 else -2.0 * y)
    agree(solve_ivp(leaking, (0.0, 3.0), [1.0]), integrate.solve_ivp(leaking.f, (0.0, 3.0), [1.0]), rtol=1e-6)


def test_the_last_time_has_derivatives():
    """Of exp(-w t1), where the time asked for moves with the end, and where it stays."""
    decay = dualad.jit(lambda t, y, w: -w * y)
    tight = {"rtol": 1e-9, "atol": 1e-12}

    def asked(end, t1):
        return solve_ivp(decay, (0.0, end), [1.0], t_eval=[0.5, t1], args=(0.7,), **tight).y[0, 1]

    by_both = grad(lambda t1: asked(t1, t1)), -0.7 * np.exp(-1.4)
    by_asked = grad(lambda t1: asked(2.0, t1)), -0.7 * np.exp(-1.4)
    by_end = grad(lambda end: asked(end, 2.0)), 0.0
    for derivative, wanted in (by_both, by_asked, by_end):
        assert derivative(2.0) == pytest.approx(wanted, abs=1e-6)


def test_nothing_to_integrate():
    for options in ({}, {"t_eval": [0.0]}):
        found, wanted = (solve(exploding, (0.0, 0.0), [1.0], **options) for solve in (solve_ivp, integrate.solve_ivp))
        assert (found.nfev, found.status, np.shape(found.t), np.shape(found.y)) == (wanted.nfev, 0, np.shape(wanted.t), np.shape(wanted.y))
