"""dualad.scipy.optimize: solutions are SciPy's bit for bit, their derivatives those of closed forms; by args and by closure."""

import numpy as np
import pytest
from scipy_calls import check_calls, check_refused

import dualad
from checkpoint import grad

pytest.importorskip("scipy")
from scipy import optimize as so

from dualad.scipy import optimize as do
from dualad.scipy.searches import FUNCTIONS

A = 2.3


def cube(x, a):
    return x**3 - a


def quadratic(x, a):
    """The minimum is H^-1 (a, a^2), with the same bits from SciPy at every call."""
    return 0.5 * (2.0 * x[0] ** 2 + x[0] * x[1] + 1.5 * x[1] ** 2) - a * x[0] - a**2 * x[1]


def slope_down(x, a):
    return np.exp(x) - a * x


H = np.linalg.inv(np.array([[2.0, 0.5], [0.5, 1.5]]))
CUBE = (A ** (1 / 3), A ** (-2 / 3) / 3, -2 / 9 * A ** (-5 / 3))
LOW = tuple(H @ v for v in (np.array([A, A**2]), np.array([1.0, 2 * A]), np.array([0.0, 2.0])))
LOG = (np.log(A), 1 / A, -1 / A**2)

#: of each search: arguments behind the function, keywords, the function of x and a, and the solution with two derivatives
SEARCHES = {
    **{name: [((0.0, 4.0), {}, cube, CUBE)] for name in ("brentq", "brenth", "ridder", "bisect", "toms748")},
    "newton": [((1.0,), {}, cube, CUBE), ((1.0,), {"fprime": lambda x, a: 3 * x**2}, cube, CUBE), ((np.ones(2),), {}, cube, CUBE)],
    "root_scalar": [((), {"bracket": (0.0, 4.0)}, cube, CUBE),
                    ((), {"x0": 1.0, "fprime": True}, lambda x, a: (x**3 - a, 3 * x**2), CUBE)],
    "root": [(([1.0, 1.0],), {}, lambda x, a: [x[0] ** 3 - a, x[1] ** 3 - a + x[0] - a ** (1 / 3)], CUBE),
             ((1.0,), {"jac": True}, lambda x, a: (x**3 - a, np.diag(3 * np.ravel(x) ** 2)), CUBE)],
    "fsolve": [((np.ones(2),), {}, cube, CUBE)],
    "fixed_point": [((1.0,), {}, lambda x, a: np.sqrt(a / x), CUBE), ((np.ones(2),), {}, lambda x, a: np.sqrt(a / x), CUBE)],
    "minimize": [((np.zeros(2),), {}, quadratic, LOW),
                 ((np.zeros(2),), {"method": "L-BFGS-B", "bounds": [(None, 9.0), (-1.0, 9.0)], "tol": 1e-12}, quadratic, LOW)],
    "least_squares": [((np.ones(2),), {}, lambda x, a: [x[0] - a, x[1] - a**2, 2.0 * x[0]], ((A / 5, A**2), (0.2, 2 * A), (0.0, 2.0))),
                      ((np.ones(1),), {"loss": "soft_l1", "f_scale": 0.5}, lambda x, a: np.stack([x[0] ** 3 - a, 2 * x[0] ** 3 - 2 * a]),
                       CUBE)],
    "minimize_scalar": [((), {"bracket": (0.0, 1.0)}, slope_down, LOG),
                        ((), {"bounds": (-3.0, 3.0), "method": "bounded"}, slope_down, LOG)],
    **{name: [((), {"brack": (0.0, 1.0)}, slope_down, LOG)] for name in ("golden", "brent")},
    "fminbound": [((-3.0, 3.0), {}, slope_down, LOG)],
    **{name: [((np.zeros(2),), {"disp": 0}, quadratic, LOW)] for name in ("fmin", "fmin_bfgs", "fmin_cg", "fmin_powell")},
    "fmin_ncg": [((np.zeros(2), lambda x, a: np.array([2 * x[0] + 0.5 * x[1] - a, 0.5 * x[0] + 1.5 * x[1] - a**2])), {"disp": 0},
                  quadratic, LOW)],
    "differential_evolution": [(([(-9.0, 9.0)] * 2,), {"seed": 1, "maxiter": 2}, quadratic, LOW)],
    "dual_annealing": [(([(-9.0, 9.0)] * 2,), {"seed": 1, "maxiter": 2}, quadratic, LOW)],
}  # fmt: skip
WEIGHTS = np.array([0.7, -1.2])


def solution(result):
    return result.root if hasattr(result, "root") else result.x if hasattr(result, "x") else result


def weighed(x):
    return np.sum((WEIGHTS if np.size(x) == 2 else 1.0) * x)


def bound(f, a):
    """Return a function with `a` in its closure."""
    return (lambda *x: f(*x, a)) if callable(f) else f


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*(precision loss|did not converge|Maximum)")
def test_solutions_and_their_derivatives():
    assert set(SEARCHES) | {"curve_fit", "leastsq", "rosen"} == set(FUNCTIONS)
    for name, calls in SEARCHES.items():
        for rest, kwargs, f, (x, slope, bend) in calls:
            ours, scipys = getattr(do, name), getattr(so, name)
            by_args = lambda a: solution(ours(f, *rest, args=(a,), **kwargs))
            by_closure = lambda a: solution(ours(bound(f, a), *(bound(r, a) for r in rest), **{k: bound(v, a) for k, v in kwargs.items()}))
            wanted = solution(scipys(f, *rest, args=(A,), **kwargs))
            exact = [weighed(np.broadcast_to(part, np.shape(wanted))) for part in (x, slope, bend)]
            np.testing.assert_allclose(weighed(wanted), exact[0], rtol=1e-3)
            for solve in (by_args, by_closure):
                number = lambda a, solve=solve: weighed(solve(a))
                assert np.all(dualad.jvp(solve, (A,), (1.0,))[0] == wanted), name
                forward = dualad.derivative(number)(A)
                np.testing.assert_allclose(forward, exact[1], rtol=2e-4, err_msg=name)
                np.testing.assert_allclose(grad(number)(A), forward, rtol=1e-12, err_msg=name)
                np.testing.assert_allclose(dualad.derivative(grad(number))(A), exact[2], rtol=1e-3, atol=1e-4, err_msg=name)


T = np.linspace(0.0, 2.0, 9)
NOISY = 1.3 * np.exp(-0.8 * T) + 0.05 * np.cos(9.0 * T)


def decay(t, a, b):
    return a * np.exp(-b * t)


@pytest.mark.parametrize(
    "options",
    [{}, {"sigma": 0.1 + 0.05 * T}, {"sigma": np.eye(9) + 0.1, "absolute_sigma": True}, {"bounds": (-9.0, 9.0)}],
    ids=["plain", "sigma", "matrix", "bounds"],
)
def test_curve_fit_by_its_data(options):
    """Parameters and covariance, by differences of SciPy's own fits."""
    tight = {
        "p0": (1.0, 1.0),
        "ftol": 1e-14,
        "xtol": 1e-14,
        "gtol": 1e-14,
        "jac": lambda t, a, b: np.stack([np.exp(-b * t), -a * t * np.exp(-b * t)], -1),
        **options,
    }
    both = lambda fit, y, t=T: np.concatenate([np.ravel(part) for part in fit(decay, t, y, **tight)])
    wanted = [part.tobytes() for part in so.curve_fit(decay, T, NOISY, **tight)]
    value = dualad.value_and_jacobian(lambda y: do.curve_fit(decay, T, y, **tight))(NOISY)[0]
    assert [part.tobytes() for part in value] == wanted
    h = 1e-4 * np.cos(T)
    traced = lambda y: np.concatenate([np.reshape(part, -1) for part in do.curve_fit(decay, T, y, **tight)])
    slope = dualad.jvp(traced, (NOISY,), (h,))[1]
    np.testing.assert_allclose(slope, 0.5 * (both(so.curve_fit, NOISY + h) - both(so.curve_fit, NOISY - h)), rtol=1e-4, atol=1e-10)
    back = grad(lambda y: np.sum(WEIGHTS * do.curve_fit(decay, T, y, **tight)[0]))(NOISY)
    np.testing.assert_allclose(back @ h, WEIGHTS @ slope[:2], rtol=1e-9)
    by_positions = dualad.jvp(lambda t: do.curve_fit(decay, t, NOISY, **tight)[0], (T,), (h,))[1]
    np.testing.assert_allclose(by_positions, 0.5 * (both(so.curve_fit, NOISY, T + h) - both(so.curve_fit, NOISY, T - h))[:2], rtol=1e-4)


def test_leastsq_by_its_data():
    def fit(y, module=do, **kwargs):
        return module.leastsq(lambda p: decay(T, *p) - y, [1.0, 0.5], ftol=1e-14, xtol=1e-14, **kwargs)

    h = 1e-3 * np.cos(T)  # the covariance has the noise of leastsq's own differences, 1e-8
    assert dualad.jvp(lambda y: fit(y)[0], (NOISY,), (h,))[0].tobytes() == fit(NOISY, so)[0].tobytes()
    for pick, options in ((lambda out: out[0], {}), (lambda out: out[1], {"full_output": True})):
        number = lambda y, module=do, pick=pick, options=options: np.sum(np.cos(pick(fit(y, module, **options))))
        step = 0.5 * (number(NOISY + h, so) - number(NOISY - h, so))
        np.testing.assert_allclose(dualad.jvp(number, (NOISY,), (h,))[1], step, rtol=1e-4)
        np.testing.assert_allclose(grad(number)(NOISY) @ h, step, rtol=1e-4)
    bent = dualad.jvp(grad(lambda y: fit(y)[0][1]), (NOISY,), (h,))[1]
    differences = 0.5 * (grad(lambda y: fit(y)[0][1])(NOISY + h) - grad(lambda y: fit(y)[0][1])(NOISY - h))
    np.testing.assert_allclose(bent, differences, rtol=1e-4, atol=1e-10)
    pytest.importorskip("llvmlite")
    np.testing.assert_allclose(dualad.jit(grad(lambda y: fit(y)[0][1]))(NOISY), grad(lambda y: fit(y)[0][1])(NOISY), rtol=1e-9)


def test_results_are_scipys_objects():
    found = []

    def solve(a):
        found[:] = [
            do.root_scalar(cube, args=(a,), bracket=(0.0, 4.0)),
            do.minimize(quadratic, np.zeros(2), args=(a,)),
            do.least_squares(lambda x: np.stack([x[0] - a, 2.0 * x[0]]), [1.0]),
            do.brentq(cube, 0.0, 4.0, args=(a,), full_output=True),
            do.newton(cube, np.ones(2), args=(a,), full_output=True),
            do.brent(slope_down, args=(a,), brack=(0.0, 1.0), full_output=True),
            do.fsolve(cube, 1.0, args=(a,), full_output=True),
        ]
        return found[1].fun + found[2].cost + np.sum(found[2].fun) + found[3][1].root + np.sum(found[4].root) + found[5][1]

    slope = dualad.derivative(solve)(A)
    lowest = -2.0 * (np.array([1.0, 2 * A]) @ H @ np.array([A, A**2])) / 2.0
    np.testing.assert_allclose(slope, lowest + 0.8 * A + (-0.8 + 0.4) + 3 * CUBE[1] - np.log(A), rtol=1e-5)
    bracketed, low, fit, (_, report), several, _, system = found
    plain = so.minimize(quadratic, np.zeros(2), args=(A,))
    assert type(bracketed) is so.RootResults and bracketed.converged is True and type(bracketed.iterations) is int
    assert type(low) is so.OptimizeResult and (low.nfev, low.message, low.success) == (plain.nfev, plain.message, True)
    assert type(low.x).__name__ == "Dual" and dualad.primal(low.x).tobytes() == plain.x.tobytes() and dualad.primal(low.fun) == plain.fun
    assert type(fit.active_mask) is np.ndarray and report.converged and several.converged.all() and type(system[1]) is dict


def test_without_traced_values_a_search_is_scipys():
    """No derivative of the function is asked for, which may be anything."""
    measured = lambda x: float((x.item() - 1.5) ** 2)
    ours, scipys = do.minimize(measured, [0.3]), so.minimize(measured, [0.3])
    assert ours.x.tobytes() == scipys.x.tobytes() and set(ours) == set(scipys)
    assert dualad.derivative(lambda s: do.brentq(lambda x: x - 1.5, 0.0 * s, 2.0) * s)(3.0) == 1.5  # where it begins does not matter


def test_a_bound_that_holds_the_solution_has_the_derivative():
    """The distance to (a, 2 a) in a box: at the bound 1 the first coordinate stays, and the other one moves as if it were a number."""
    far = lambda x, a: (x[0] - a) ** 2 + (x[1] - 2.0 * a) ** 2 + 0.5 * x[0] * x[1]
    for solve in (
        lambda a: do.minimize(far, [0.5, 0.5], args=(a,), bounds=[(0.0, 1.0), (None, None)]).x,
        lambda a: do.minimize(lambda x: far(x, a), [0.5, 0.5], method="SLSQP", bounds=so.Bounds([0.0, -9.0], [1.0, 99.0])).x,
        lambda a: do.least_squares(lambda x: [x[0] - a, x[1] - 2.0 * a, 0.5 * x[0] + 0.5 * x[1]], [0.5, 0.5], bounds=([0, 0], [1, 99])).x,
    ):
        slope = dualad.derivative(solve)(A)
        assert slope[0] == 0.0
        assert slope[1] in (pytest.approx(2.0, rel=1e-4), pytest.approx(1.6, rel=1e-4))
        np.testing.assert_allclose(grad(lambda a, solve=solve: np.sum(solve(a)))(A), np.sum(slope))
    for solve in (
        lambda a: do.minimize_scalar(slope_down, args=(a,), bounds=(-3.0, 0.5), method="bounded").x,
        lambda a: do.fminbound(lambda x: slope_down(x, a), -3.0, 0.5),
    ):
        assert dualad.derivative(solve)(A) == 0.0 == grad(solve)(A)


def test_systems_of_many_parameters_and_complex_roots():
    matrix = np.array([[3.0, 0.4, 0.1], [0.2, 2.0, 0.3], [0.5, 0.1, 4.0]])
    p = np.array([0.3, -0.8, 1.1])
    solve = lambda p: do.root(lambda x: matrix @ x + 0.1 * x**3 - p, np.zeros(3), tol=1e-13).x
    inverse = np.linalg.inv(matrix + np.diag(0.3 * solve(p) ** 2))
    np.testing.assert_allclose(dualad.jacobian(solve)(p), inverse, rtol=1e-9)
    bent = dualad.hessian(lambda p: np.sum(solve(p)))(p)
    np.testing.assert_allclose(bent, -inverse.T @ np.diag(0.6 * solve(p) * np.sum(inverse, axis=0)) @ inverse, rtol=1e-8, atol=1e-12)
    third = dualad.derivative(lambda a: do.brentq(lambda x: x**3 - a, 0.0, 4.0), order=3)(A)
    assert third == pytest.approx(10 / 27 * A ** (-8 / 3), rel=1e-9)
    slope = dualad.jvp(lambda c: do.newton(lambda z: z * z - c, 1.0 + 1.0j), (-3.0 + 1.0j,), (1.0 + 0.0j,))[1]
    np.testing.assert_allclose(slope, 0.5 / np.sqrt(-3.0 + 1.0j), rtol=1e-7)


def test_adapted_code_finds_them():
    def others(a):
        return so.brentq(lambda x: x**3 - a, 0.0, 4.0) + so.minimize(lambda x: np.sum((x - a) ** 2), [0.0]).x[0]

    assert grad(dualad.adapt(others))(A) == pytest.approx(CUBE[1] + 1.0)


@pytest.mark.slow
def test_programs_call_the_search():
    """Of data in args, and of data to fit: values and derivatives, at numbers that the trace has not seen."""
    pytest.importorskip("llvmlite")
    low = lambda a: do.minimize(quadratic, np.zeros(2), args=(a,), bounds=[(None, None), (None, 3.0)])
    for f, x, other in (
        (lambda a: np.sum(WEIGHTS * low(a).x) + low(a).fun, A, 1.1),
        (lambda y: np.sum(WEIGHTS * do.curve_fit(decay, T, y)[0]), NOISY, 1.5 * NOISY + 0.1),
    ):
        slope = dualad.jit(grad(f))
        for at in (x, other):
            np.testing.assert_allclose(slope(at), grad(f)(at), rtol=1e-10, atol=1e-14)
    brentq = dualad.jit(lambda a: do.root_scalar(cube, bracket=(0.0, 4.0), args=(a,)).root)
    assert [brentq(a) for a in (A, 5.0)] == [so.brentq(cube, 0.0, 4.0, args=(a,)) for a in (A, 5.0)]
    second = dualad.derivative(lambda a: do.root_scalar(cube, bracket=(0.0, 4.0), args=(a,)).root, order=2)(A)
    assert dualad.derivative(brentq, order=2)(A) == pytest.approx(second, rel=1e-12)
    assert grad(grad(brentq))(A) == pytest.approx(second, rel=1e-12)
    with pytest.raises(TypeError, match=r"scipy.optimize.fsolve: with full_output= it cannot be compiled"):
        dualad.jit(lambda a: do.fsolve(cube, 1.0, args=(a,), full_output=True)[0][0])(A)


@pytest.mark.parametrize("name", ["toms748", "newton", "root", "fixed_point", "least_squares", "minimize", "golden"])
def test_programs_call_searches_of_closures(name):
    args, options, f, _ = SEARCHES[name][0]
    by_closure = lambda a: np.sum(solution(getattr(do, name)(lambda x: f(x, a), *args, **options)))
    compiled, slope = (dualad.jit(fn, backend="numpy") for fn in (by_closure, grad(by_closure)))
    for a in (A, 1.1):
        assert compiled(a) == by_closure(a)
        assert grad(compiled)(a) == pytest.approx(grad(by_closure)(a), rel=1e-12)
        assert slope(a) == pytest.approx(grad(by_closure)(a), rel=1e-12)


def test_programs_call_searches_of_closures_of_installed_packages():
    space = {"so": do}
    exec(compile("def solved(a): return so.brentq(lambda x: x**3 - a, 0.0, 4.0)", so.__file__, "exec"), space)
    f = space["solved"]
    assert dualad.jit(f)(A) == f(A)
    for made in (dualad.derivative, grad, lambda f: lambda a: dualad.jvp(f, (a,), (1.0,))[1]):
        assert dualad.jit(made(f))(A) == pytest.approx(1 / (3 * f(A) ** 2), rel=1e-9)


def test_rosen():
    x = np.linspace(-1.0, 2.0, 8).reshape(4, 2)
    check_calls(do.rosen, so.rosen, [((x[:, 0],), {}), ((x,), {})])
    np.testing.assert_allclose(grad(do.rosen)(x[:, 1]), so.rosen_der(x[:, 1]), rtol=1e-12)


def test_what_cannot_be_done_is_said():
    cases = [
        (lambda a: do.minimize(quadratic, np.zeros(2), args=(a,), constraints={"type": "eq", "fun": lambda x, *a: x[0]}).x[0],
         "scipy.optimize.minimize has no derivative with constraints=.*dualad.implicit"),
        (lambda a: do.fminbound(slope_down, -a, 1.0, args=(a,)), "no derivative with respect to its argument 'x1'"),
        (lambda a: do.least_squares(lambda x: x - a, [1.0], loss=lambda z: np.stack([z, 1 + 0 * z, 0 * z])).x[0], "loss="),
        (lambda a: do.curve_fit(decay, T, a * NOISY, loss="huber", method="trf")[0][0],
         "curve_fit has no derivative with loss="),
        (lambda a: do.newton(lambda x: x**2 * a, 0.0, fprime=lambda x: 1.0), "scipy.optimize.newton: the Jacobian"),
        (lambda a: do.brentq(lambda x: x - a, 9.0, 10.0), "different signs"),
        (lambda a: do.brentq(lambda x: x - a), "missing"),
    ]  # fmt: skip
    check_refused(A, cases)


def test_a_search_without_success_warns():
    with pytest.warns(RuntimeWarning, match=r"scipy.optimize.minimize did not converge \(.*\): its result has no meaningful derivatives"):
        dualad.derivative(lambda a: do.minimize(quadratic, np.zeros(2), args=(a,), options={"maxiter": 1}).x[0])(A)
