"""solve_ivp and odeint: the values are SciPy's, the derivatives those of closed solutions and of differences."""

from fractions import Fraction

import numpy as np
import pytest
from interpreted import no_optimiser  # noqa: F401  (a fixture: LLVM optimises nothing)

import dualad
from checkpoint import CTZ, Disk, Revolve, Stats, StoreAll, chain, grad, hessian, hvp, jacobian, odeint, solve_ivp
from checkpoint.ode.methods import METHODS, method_of

integrate = pytest.importorskip("scipy.integrate")

TIGHT = {"rtol": 1e-10, "atol": 1e-12}
LOOSE = {"rtol": 1e-5, "atol": 1e-7}  # methods of low order, and implicit ones, take very many steps for more


def tolerance(method):
    return LOOSE if method in ("RK23", "Radau") else TIGHT


def tolerated(method):
    return 1e-3 if method in ("RK23", "Radau") else 1e-6


def lotka_volterra(t, y, a, b):
    return [a * y[0] - b * y[0] * y[1], b * y[0] * y[1] - 0.7 * y[1]]


def oscillator(t, y, w):
    return np.array([y[1], -w * w * y[0]])


def central(f, x, h=1e-5):
    return (f(x + h) - f(x - h)) / (2 * h)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("t_eval", [None, [3.0], np.linspace(0.0, 3.0, 9), [0.0, 0.001, 0.002, 3.0]], ids=["steps", "end", "grid", "dense"])
def test_the_value_is_scipys(method, t_eval):
    """Of plain arguments it is SciPy's result, and the one made again of traced ones agrees."""
    options = {"t_eval": t_eval, "args": (1.3, 0.9), **tolerance(method)}
    wanted = integrate.solve_ivp(lotka_volterra, (0.0, 3.0), [1.0, 0.5], method, **options)
    plain = solve_ivp(lotka_volterra, (0.0, 3.0), [1.0, 0.5], method, **options)
    assert type(plain) is type(wanted)
    assert plain.y.tobytes() == wanted.y.tobytes()
    assert plain.t.tobytes() == wanted.t.tobytes()
    made = []

    def traced(y0):
        found = solve_ivp(lotka_volterra, (0.0, 3.0), y0, method, **options)
        made.append(found)
        return found.y

    value, _ = dualad.value_and_jacobian(traced)(np.array([1.0, 0.5]))
    exact = method != "Radau"  # SciPy solves the equations of its steps up to its tolerance
    np.testing.assert_allclose(value, wanted.y, rtol=1e-12 if exact else 1e-3, atol=1e-13)
    assert made[0].t.tobytes() == wanted.t.tobytes()
    assert made[0].keys() == wanted.keys()
    assert (made[0].nfev, made[0].status, made[0].message, made[0].success) == (wanted.nfev, 0, wanted.message, True)


@pytest.mark.parametrize("method", METHODS)
def test_gradients_agree_with_differences_of_scipy(method):
    grid = np.linspace(0.0, 3.0, 7)

    def loss(a, b, solver=solve_ivp):
        return np.sum(np.sin(solver(lotka_volterra, (0.0, 3.0), [1.0, 0.5], method, t_eval=grid, args=(a, b), **tolerance(method)).y))

    pulled = grad(loss, argnums=(0, 1))(1.3, 0.9)
    pushed = dualad.gradient(lambda p: loss(p[0], p[1]))(np.array([1.3, 0.9]))
    np.testing.assert_allclose(pulled, pushed, rtol=1e-11)
    scipys = central(lambda a: loss(a, 0.9, integrate.solve_ivp), 1.3), central(lambda b: loss(1.3, b, integrate.solve_ivp), 0.9)
    np.testing.assert_allclose(pulled, scipys, rtol=tolerated(method))


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_the_ends_and_the_times_have_derivatives(method):
    """Of cos(w (t - t0)), forwards and backwards in time."""

    def read(t0, t1):
        return solve_ivp(
            oscillator, (t0, t1), [1.0, 0.0], method, t_eval=np.stack([0.5 * (t0 + t1), t1]), args=(1.9,), **tolerance(method)
        ).y[0]

    def closed(t0, t1):
        return np.cos(1.9 * (np.stack([0.5 * (t0 + t1), t1]) - t0))

    for ends in [(0.5, 4.0), (4.0, 0.5)]:
        np.testing.assert_allclose(jacobian(read, argnums=(0, 1))(*ends), jacobian(closed, argnums=(0, 1))(*ends), atol=tolerated(method))
        np.testing.assert_allclose(dualad.jacobian(read)(*ends), dualad.jacobian(closed)(*ends), atol=tolerated(method))


@pytest.mark.parametrize("method", METHODS)
def test_dense_output_is_differentiated(method):
    def read(t1):
        found = solve_ivp(oscillator, (0.0, t1), [1.0, 0.0], method, dense_output=True, args=(1.9,), **tolerance(method))
        assert (dualad.primal(found.sol.t_min), dualad.primal(found.sol.t_max)) == (0.0, 4.0)
        return found.sol(np.stack([0.3 * t1, t1]))[0] + found.sol(0.5)[0]

    def closed(t1):
        return np.cos(1.9 * np.stack([0.3 * t1, t1])) + np.cos(0.95)

    np.testing.assert_allclose(read(4.0), closed(4.0), atol=tolerated(method))
    np.testing.assert_allclose(jacobian(read)(4.0), jacobian(closed)(4.0), atol=tolerated(method))


def hit_the_ground(t, y, g):
    return y[0]


hit_the_ground.terminal, hit_the_ground.direction = True, -1.0


@pytest.mark.parametrize("method", METHODS)
def test_the_time_of_an_event_is_differentiated_to_order_two(method):
    """A stone from 10 m lands after sqrt(20 / g) at -sqrt(20 g): polynomials, which all methods integrate exactly."""

    def landing(g):
        found = solve_ivp(lambda t, y, g: [y[1], -g], (0.0, 10.0), [10.0, 0.0], method, events=hit_the_ground, args=(g,), **TIGHT)
        assert found.status == 1
        return np.stack([found.t_events[0][0], found.y_events[0][0][1], found.t[-1], found.y[1, -1]])

    def closed(g):
        return np.stack([np.sqrt(20.0 / g), -np.sqrt(20.0 * g)] * 2)

    np.testing.assert_allclose(landing(9.81), closed(9.81), rtol=1e-12)
    for derived in (jacobian, dualad.jacobian):
        np.testing.assert_allclose(derived(landing)(9.81), derived(closed)(9.81), rtol=1e-10)
    bent = hessian(lambda g: np.sum(landing(g)))(9.81)
    np.testing.assert_allclose(bent, dualad.derivative(lambda g: np.sum(closed(g)), order=2)(9.81), rtol=1e-9)


def test_events_that_repeat_and_events_that_never_happen():
    def times(w):
        never = lambda t, y, w: y[0] - 2.0
        found = solve_ivp(
            oscillator, (0.0, 10.0), [1.0, 0.0], "DOP853", events=[never, lambda t, y, w: y[0]], args=(w,), t_eval=[10.0], **TIGHT
        )
        assert [len(at) for at in found.t_events] == [0, 6]
        assert np.shape(found.y_events[1]) == (6, 2)
        return found.t_events[1]

    closed = lambda w: (np.arange(6) + 0.5) * np.pi / w
    np.testing.assert_allclose(times(1.9), closed(1.9), atol=1e-8)
    np.testing.assert_allclose(jacobian(times)(1.9), jacobian(closed)(1.9), atol=1e-7)


@pytest.mark.slow
def test_a_hessian_and_products_with_it():
    loss = lambda y0: np.sum(solve_ivp(lotka_volterra, (0.0, 2.0), y0, t_eval=[1.0, 2.0], args=(1.3, 0.9), **TIGHT).y ** 2)
    y0 = np.array([1.0, 0.5])
    bent = hessian(loss)(y0)
    np.testing.assert_allclose(bent, central(lambda h: np.stack([grad(loss)(y0 + h * e) for e in np.eye(2)]), 0.0), rtol=1e-6)
    np.testing.assert_allclose(hvp(loss, y0, np.array([1.0, -2.0])), bent @ np.array([1.0, -2.0]), rtol=1e-10)
    np.testing.assert_allclose(dualad.hessian(loss)(y0), bent, rtol=1e-10)


@pytest.mark.parametrize("method", ["RK23", "RK45", "DOP853"])
def test_complex_states(method):
    """|exp((i w - 0.1 w) t)| does not depend on the rotation."""
    end = lambda w: np.abs(
        solve_ivp(lambda t, y, w: (1j - 0.1) * w * y, (0.0, 3.0), [1.0 + 0j], method, t_eval=[3.0], args=(w,), **LOOSE).y[0, 0]
    )
    np.testing.assert_allclose(grad(end)(1.0), -0.3 * np.exp(-0.3), rtol=1e-3)


@pytest.mark.slow
def test_a_stiff_problem():
    """Robertson's reaction over 40 s: SciPy's own solution, and differences of it."""

    def reaction(t, y, k):
        slow, fast = k * y[0], 1e4 * y[1] * y[2]
        return [fast - slow, slow - fast - 3e7 * y[1] ** 2, 3e7 * y[1] ** 2]

    def end(k, solver=solve_ivp):
        return solver(reaction, (0.0, 40.0), [1.0, 0.0, 0.0], "Radau", t_eval=[40.0], args=(k,), rtol=1e-8, atol=1e-12).y[:, 0]

    wanted = central(lambda k: end(k, integrate.solve_ivp), 0.04, 1e-4)
    np.testing.assert_allclose(end(0.04), end(0.04, integrate.solve_ivp), rtol=1e-12)
    found = jacobian(end)(0.04)
    np.testing.assert_allclose(found, wanted, rtol=2e-5)
    np.testing.assert_allclose(dualad.jacobian(end)(0.04), found, rtol=1e-9)


@pytest.mark.slow
def test_all_schedules_and_storages_give_the_same_bits(tmp_path):
    def gradient(**options):
        loss = lambda y0: np.sum(solve_ivp(lotka_volterra, (0.0, 9.0), y0, t_eval=[9.0], args=(1.3, 0.9), **TIGHT, **options).y)
        return grad(loss)(np.array([1.0, 0.5]))

    wanted = gradient()
    many = [{"schedule": CTZ()}, {"schedule": Revolve(3)}, {"schedule": StoreAll()}, {"memory": "1 MB"}, {"storage": Disk(tmp_path)}]
    for options in many:
        assert gradient(**options).tobytes() == wanted.tobytes()


@pytest.mark.slow
def test_states_are_saved_as_the_schedule_says():
    stats = Stats()
    end = lambda y0: np.sum(
        solve_ivp(lotka_volterra, (0.0, 30.0), y0, t_eval=[30.0], args=(1.3, 0.9), schedule=CTZ(), stats=stats, **TIGHT).y
    )
    grad(end)(np.array([1.0, 0.5]))
    assert stats.steps > 300
    assert stats.peak_states <= int(np.ceil(np.log2(stats.steps))) + 1


@pytest.mark.parametrize("method", ["RK23", "RK45", "DOP853"])
def test_the_states_that_scipy_found_are_not_computed_again(method):
    """Each step of a gradient takes SciPy's calls, those of a record, and no more; a step beside them is tried and one is the last."""
    calls = []

    def slope(t, y):
        calls.append(t)
        return -y * y

    found = []

    def end(y0):
        found.append(solve_ivp(slope, (0.0, 3.0), y0, method, **TIGHT))
        return found[0].y[0, -1]

    assert grad(end)(np.array([1.0]))[0] == pytest.approx(1 / 16, rel=1e-4)
    stages, steps = len(method_of(method)[1].C), found[0].t.size - 1
    assert len(calls) - found[0].nfev == stages * (steps + 2) + 1


@pytest.mark.slow
def test_a_compiled_function_has_compiled_steps():
    pytest.importorskip("llvmlite")
    calls = []

    def slope(t, y, w):
        calls.append(t)
        return np.stack([y[1], -w * w * y[0]])

    compiled = dualad.jit(slope)
    stats = Stats()
    read = lambda fun: grad(lambda w: np.sum(solve_ivp(fun, (0.0, 4.0), [1.0, 0.0], t_eval=[4.0], args=(w,), stats=stats, **TIGHT).y))
    np.testing.assert_allclose(read(compiled)(1.9), read(slope)(1.9), rtol=1e-11)
    calls.clear()
    read(compiled)(2.1)
    assert len(calls) < 60  # those of traces, as the list changes, and the last step; several hundreds by Python
    assert stats.peak_bytes == stats.peak_states * 2 * 8  # of both numbers, without their derivative


@pytest.mark.parametrize("method", ["RK45", "DOP853"])
def test_a_compiled_function_takes_scipys_steps(method):
    """Also in SciPy's own solver all stages of a step are one call, which it counts as several."""
    pytest.importorskip("llvmlite")
    compiled = dualad.jit(lotka_volterra)
    options = {"args": (1.3, 0.9), "dense_output": True, **TIGHT}
    wanted = integrate.solve_ivp(lotka_volterra, (0.0, 5.0), [1.0, 0.5], method, **options)
    found = solve_ivp(compiled, (0.0, 5.0), [1.0, 0.5], method, **options)
    np.testing.assert_allclose(found.t, wanted.t, rtol=1e-6)  # the estimated errors, which choose them, are of the size of roundings
    np.testing.assert_allclose(found.sol(wanted.t), wanted.y, rtol=1e-9)
    assert found.nfev == wanted.nfev
    assert solve_ivp(compiled, (0.0, 5.0), [1.0 + 0j, 0.5], method, **options).y.dtype == complex


def test_parameters_are_trees_and_functions():
    slope = lambda t, y, p, f: f(p["rate"][0] * y) + p["shift"]
    end = lambda p: np.sum(solve_ivp(slope, (0.0, 1.0), [1.0, 2.0], t_eval=[1.0], args=(p, np.tanh)).y)
    p = {"rate": [np.array([0.3, 0.4])], "shift": 0.1}
    found = grad(end)(p)
    assert found.keys() == p.keys()
    moved = lambda h: end({"rate": p["rate"], "shift": 0.1 + h})
    np.testing.assert_allclose(found["shift"], central(moved, 0.0), rtol=1e-6)


def test_single_precision_numbers_and_no_times():
    """SciPy computes in double precision, whatever y0 is; the gradient has the precision of y0."""
    end = lambda y0: np.sum(solve_ivp(lambda t, y: -0.5 * y, (0, 2), y0, t_eval=[2], **TIGHT).y)
    found = grad(end)(np.array([1.5, 2.0], np.float32))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, np.exp(-1.0), rtol=1e-6)
    np.testing.assert_allclose(grad(lambda a: end([a, 2.0]))(1.5), np.exp(-1.0), rtol=1e-8)  # a list with a traced number
    assert jacobian(lambda y0: solve_ivp(lambda t, y: -y, (0.0, 2.0), y0, t_eval=[]).y)(np.ones(2)).shape == (2, 0, 2)
    still = jacobian(lambda y0: solve_ivp(lambda t, y: -y, (1.0, 1.0), y0).y)(np.ones(1))
    np.testing.assert_allclose(still, np.ones((1, 2, 1)))


def test_a_solution_in_a_step_of_a_chain():
    step = lambda k, x, rate: solve_ivp(lambda t, y, rate: -rate * y, (0.0, 0.5), x, t_eval=[0.5], args=(rate,), **TIGHT).y[:, 0]
    by_rate = grad(lambda rate: np.sum(chain(step, np.array([1.0, 2.0]), rate, steps=4)))(0.5)
    np.testing.assert_allclose(by_rate, -6.0 * np.exp(-1.0), rtol=1e-9)


def test_odeint_agrees_with_scipys():
    times = np.linspace(0.0, 5.0, 11)
    slope = lambda y, t, w: [y[1], -w * w * y[0]]
    wanted = integrate.odeint(slope, [1.0, 0.0], times, args=(1.9,))
    np.testing.assert_allclose(odeint(slope, [1.0, 0.0], times, args=(1.9,)), wanted, atol=2e-6)
    np.testing.assert_allclose(odeint(oscillator, [1.0, 0.0], times, args=(1.9,), tfirst=True), wanted, atol=2e-6)
    pulled = jacobian(lambda w: odeint(slope, [1.0, 0.0], times, args=(w,))[:, 0])(1.9)
    np.testing.assert_allclose(pulled, -times * np.sin(1.9 * times), atol=1e-6)
    by_times = jacobian(lambda t: odeint(slope, [1.0, 0.0], t, args=(1.9,))[:, 0])(times)
    np.testing.assert_allclose(np.diag(by_times)[1:], -1.9 * np.sin(1.9 * times[1:]), atol=1e-5)


def decay(t, y, rate=1.0):
    return -rate * y


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: solve_ivp(decay, (0.0, 1.0), [1.0], "LSODA"), ValueError, "'LSODA' has no derivatives.*'Radau' is for stiff problems"),
        (lambda: solve_ivp(decay, (0.0, 1.0), [1.0], "BDF"), ValueError, "'Radau' is for stiff problems"),
        (lambda: solve_ivp(decay, (0.0, 1.0), [1.0], "RK4"), ValueError, "give one of 'RK23', 'RK45', 'DOP853', 'Radau'"),
        (lambda: solve_ivp(decay, (0.0, 1.0), [1.0], args=2.0), TypeError, "args must be a tuple"),
        (lambda: solve_ivp(3.0, (0.0, 1.0), [1.0]), TypeError, "solve_ivp"),
        (lambda: solve_ivp(decay, 1.0, [1.0]), ValueError, r"solve_ivp: t_span must be a pair of times, \(t0, t1\), got 1.0"),
        (lambda: solve_ivp(decay, (0.0, 1.0), [1.0], t_eval=[2.0]), ValueError, "not within `t_span`"),
        (lambda: solve_ivp(decay, (0.0, 1.0), [1.0], events=3.0), TypeError, "event"),
        (lambda: solve_ivp(lambda t, y: None, (0.0, 1.0), [1.0]), ValueError, "returned None at the start"),
        (lambda: grad(lambda a: np.sum(solve_ivp(decay, (0.0, 1.0), [1.0], args=(a,)).y))(np.nan), ValueError, r"\[nan\] at the start"),
        (lambda: odeint(lambda y, t: -y, [1.0], [0.0]), ValueError, "at least two times"),
        (lambda: odeint(lambda y, t: -y, [1.0], [0.0, 1.0, 0.5]), ValueError, "odeint: t must be strictly increasing or"),
        (
            lambda: grad(lambda y: np.sum(solve_ivp(lambda t, y: y[:1], (0.0, 1.0), y).y))(np.ones(2)),
            ValueError,
            r"shape \(1,\), the state",
        ),
    ],
)
def test_bad_arguments_are_named(call, kind, words):
    with pytest.raises(kind, match=words):
        call()


def test_a_right_hand_side_may_return_objects_that_are_numbers():
    found = solve_ivp(lambda t, y: [Fraction(1, 2)], (0.0, 1.0), [1.0])
    np.testing.assert_allclose(found.y[0, -1], 1.5, rtol=1e-14)


def test_inside_of_jit_it_is_refused():
    with pytest.raises(TypeError, match="solve_ivp chooses its steps by plain values"):
        dualad.jit(lambda rate: solve_ivp(decay, (0.0, 1.0), [1.0], args=(rate,)).y[0, -1])(0.5)
    with pytest.raises(TypeError, match="solve_ivp chooses its steps by plain values"):
        dualad.jit(grad(lambda rate: solve_ivp(lambda t, y: -rate * y, (0.0, 1.0), [1.0]).y[0, -1]))(0.5)


def test_a_step_that_becomes_too_small_ends_as_in_scipy():
    """y' = y**2 ends at t = 1: what SciPy found until then is there, with its message."""

    def run(y0):
        found = solve_ivp(lambda t, y: y * y, (0.0, 2.0), y0, rtol=1e-6)
        assert not found.success
        assert "step size" in found.message
        return found.y[0, 1]

    with np.errstate(all="ignore"):
        assert np.isfinite(jacobian(run)(np.array([1.0]))).all()
    with pytest.raises(RuntimeError, match="odeint: the integration ended before t = "), np.errstate(all="ignore"):
        odeint(lambda y, t: y * y, [1.0], [0.0, 2.0])
