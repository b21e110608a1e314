"""Derivatives that the examples take: against differences, complex steps, closed forms, and dense ones."""

import sys

import numpy as np
import pytest
from loaded import example

import dualad
from checkpoint import Stats, grad, value_and_grad


def by_differences(f, x, *steps):
    """Central differences of a function, each by the largest number of a step."""
    return [(f(x + step) - f(x - step)) / (2.0 * np.max(np.abs(step))) for step in steps]


def at(place, shape, h):
    """Zeros, but for one number."""
    one = np.zeros(shape)
    one[place] = h
    return one


def test_choose_schedule():
    module = example("choose_schedule")
    state, damping = module.start(8)
    direction = np.random.default_rng(0).normal(size=damping.shape)
    direction /= np.max(np.abs(direction))
    (slope,) = by_differences(lambda damping: module.energy(damping, state, 30), damping, 1e-5 * direction)
    assert np.sum(grad(module.energy)(damping, state, 30) * direction) == pytest.approx(slope, rel=1e-7)


def test_colours():
    module = example("colours", "colour")
    for name, space in module.SPACES.items():
        made, expected = module.jacobians(space), by_differences(space, module.COLOURS, *1e-6 * np.eye(3)[:2])
        np.testing.assert_allclose(made, np.stack(expected, axis=-1), rtol=1e-5, atol=1e-4 * np.abs(made).max(), err_msg=name)


def test_ensemble():
    module = example("ensemble")
    measured = module.measure(count=4)
    values, gradients = module.landscape(3, measured)
    angle, damping = module.members(3)
    for i, j in ((0, 0), (1, 2)):
        x = np.array([angle[i], damping[j]])
        assert values[i, j] == module.misfit(x, measured)
        expected = by_differences(lambda x: module.misfit(x, measured), x, *1e-5 * np.eye(2))
        np.testing.assert_allclose(gradients[i, j], expected, rtol=1e-6)
    values, gradients = module.map_gradients(module.misfit, [module.TRUTH], measured)
    assert values == [0.0] and not gradients[0].any(), "nothing is left at the truth"


@pytest.mark.parametrize("name", ["jax", "torch"])
@pytest.mark.filterwarnings("default")
def test_engines_agree(name):
    pytest.importorskip(name, reason=f"{name} is not installed: it takes 1 GB, and belongs to the extra `bench`")
    module = example("foreign_engines")
    loss, g_u, g_nu, stats = module.by_hand()
    other = module.ENGINES[name]()
    assert other[0] == pytest.approx(loss, rel=1e-12) and other[2] == pytest.approx(g_nu, rel=1e-10)
    np.testing.assert_allclose(other[1], g_u, rtol=1e-9, atol=1e-13)
    assert other[3].advances == stats.advances and other[3].peak_states == stats.peak_states == 10


def test_foreign_engines(monkeypatch, capsys):
    """The remainder of the first order falls with the square of the distance; what is not installed is named."""
    module = example("foreign_engines")
    loss, g_u, g_nu, _ = module.by_hand()
    direction, errors = np.cos(3 * module.X), []
    for h in (1e-4, 5e-5):
        with monkeypatch.context() as patch:
            patch.setattr(module, "START", module.START + h * direction)
            patch.setattr(module, "NU", module.NU + h * 0.1)
            errors.append(module.by_hand()[0] - loss - h * (g_u @ direction + 0.1 * g_nu))
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2, abs=0.02)
    for package in ("jax", "torch"):
        monkeypatch.setitem(sys.modules, package, None)
    module.main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("by hand  loss ") and "at most 10 states saved" in lines[0]
    assert lines[1].startswith("jax      skipped: ") and lines[2].endswith("pip install torch")
    assert lines[3].startswith("until it is calm: ") and lines[3].endswith("at most 6 states saved")


def test_gaussian_process():
    """Rasmussen & Williams (2006), equation 5.9; the curve, its deviations and its slope by plain NumPy."""
    module, logs = example("gaussian_process", "scipy.stats"), np.log([0.6, 1.1, 0.2])
    (_, length, noise), places = np.exp(logs), module.PLACES
    pure = module.kernel(places, places, logs)
    by_logs = [2.0 * pure, pure * ((places[:, None] - places) / length) ** 2, 2.0 * noise**2 * np.eye(40)]
    inverse = np.linalg.inv(pure + noise**2 * np.eye(40))
    weights = inverse @ module.HEIGHTS
    expected = [-0.5 * np.trace((np.outer(weights, weights) - inverse) @ slope) for slope in by_logs]
    np.testing.assert_allclose(grad(dualad.adapt(module.misfit))(logs), expected, rtol=1e-9)
    at = np.linspace(0.5, 9.5, 7)
    across = module.kernel(at, places, logs)
    (curve, deviations), (slope, _) = dualad.jvp(dualad.adapt(module.expected), (at, logs), (np.ones(7), np.zeros(3)))
    np.testing.assert_allclose(curve, across @ weights, rtol=1e-9)
    np.testing.assert_allclose(deviations**2, np.exp(2.0 * logs[0]) - np.diag(across @ inverse @ across.T), rtol=1e-8)
    np.testing.assert_allclose(slope, (-(at[:, None] - places) / length**2 * across) @ weights, rtol=1e-9)


def test_histogram():
    """Differences of pyhf's own likelihood, and its own fit."""
    pyhf, module = pytest.importorskip("pyhf"), example("histogram", "pyhf")
    place, plain = np.array(module.MODEL.config.suggested_init()) + 0.1 * np.cos(np.arange(8.0)), module.misfit
    with dualad.adapt(pyhf):
        value, slope = value_and_grad(plain)(place)
        bends = by_differences(dualad.gradient(plain), place, *1e-5 * np.eye(8))
        np.testing.assert_allclose(dualad.hessian(plain)(place), bends, rtol=1e-5, atol=1e-6)
    assert value == pytest.approx(plain(place), rel=1e-14)
    np.testing.assert_allclose(slope, by_differences(plain, place, *1e-5 * np.eye(8)), rtol=1e-6, atol=1e-8)
    parameters, least = pyhf.infer.mle.fit(module.DATA, module.MODEL, return_fitted_val=True)
    found, _ = module.fit()
    assert found.fun == pytest.approx(float(least), rel=1e-7) and np.max(np.abs(found.jac)) < 1e-3
    np.testing.assert_allclose(found.x, parameters, atol=2e-3)


def test_invasion():
    """Differences of SciPy's own solution."""
    module, integrate = example("invasion", "scipy.integrate"), pytest.importorskip("scipy.integrate")
    start, rate = module.landscape(8)
    total, gradients = module.worth(8, 20.0, stats := Stats())

    def scipys(start, rate):
        run = integrate.solve_ivp(module.slope, (0.0, 20.0), start.ravel(), t_eval=[20.0], args=(rate,), rtol=1e-9, atol=1e-9)
        return np.sum(run.y)

    assert total == pytest.approx(scipys(start, rate), rel=1e-3)
    assert stats.peak_states <= np.ceil(np.log2(stats.steps)) + 1
    one = at((2, 5), (8, 8), 1e-4)
    expected = by_differences(lambda start: scipys(start, rate), start, one) + by_differences(lambda rate: scipys(start, rate), rate, one)
    np.testing.assert_allclose([g[2, 5] for g in gradients], expected, rtol=2e-3)


def test_kalman():
    """Differences of filterpy's own likelihood; its levels are in `test_all`."""
    module, kalman = example("kalman", "filterpy.kalman"), pytest.importorskip("filterpy.kalman")
    _, measured = module.measurements(6)
    logs, plain = np.log([0.4, 1.5]), lambda logs: module.filtered(logs, measured)[0]
    with dualad.adapt(kalman):
        value, slope = value_and_grad(plain)(logs)
        forward = dualad.gradient(plain)(logs)
    assert value == pytest.approx(plain(logs), rel=1e-12)
    np.testing.assert_allclose(slope, by_differences(plain, logs, *1e-5 * np.eye(2)), rtol=1e-7)
    np.testing.assert_allclose(forward, slope, rtol=1e-10)


def test_lstm():
    """Complex steps through the same network in a loop, by another formula of the sigmoid, which takes complex numbers."""
    module = example("lstm", "scipy.special")
    inputs, first = module.NEW[:12, :4], module.FIRST[1, :4]
    sigmoid = lambda x: 1.0 / (1.0 + np.exp(-x))

    def plain(parameters):
        hidden = cells = np.zeros((inputs.shape[1], module.WIDTH))
        for x in inputs:
            keep, write, show, new = np.hsplit(np.hstack([x, hidden]) @ parameters["gates"] + parameters["biases"], 4)
            cells = sigmoid(keep) * cells + sigmoid(write) * np.tanh(new)
            hidden = sigmoid(show) * np.tanh(cells)
        return np.mean(np.log1p(np.exp(-2.0 * first * (hidden @ parameters["reading"]))))

    gradient = grad(module.surprise)(module.START, inputs, first)
    for name, place in (("gates", (0, 3)), ("gates", (5, 40)), ("biases", (17,)), ("reading", (2,))):
        shifted = {key: value.astype(complex) for key, value in module.START.items()}
        shifted[name][place] += 1e-30j
        assert gradient[name][place] == pytest.approx(plain(shifted).imag / 1e-30, rel=1e-10)


def test_molecules():
    """Forces by the list of neighbours against those of all pairs, and the energy; the gradient by differences."""
    module = example("molecules")
    every = np.stack(np.triu_indices(len(module.START), 1))

    def potential(x):
        """The energy of all pairs, whose force is zero at the cut."""
        r = np.sqrt(np.sum(module.between(x, every) ** 2, axis=1))
        energy = lambda r: 4.0 * (r**-12 - r**-6)
        at_cut = 24.0 * (2.0 / module.CUT**13 - 1.0 / module.CUT**7)
        return np.sum(np.where(r < module.CUT, energy(r) - energy(module.CUT) + at_cut * (r - module.CUT), 0.0))

    def run(x, times):
        state = x, module.VELOCITIES
        for k in range(times):
            state = module.ten_steps(k, state)
        return state

    def energy(x, v):  # the velocities are those of half a step before
        return potential(x) + 0.5 * np.sum((v + 0.5 * module.H * module.forces(x, every)) ** 2)

    x, v = run(module.START, 2)
    np.testing.assert_allclose(-module.forces(x, every)[7, 1], by_differences(potential, x, at((7, 1), x.shape, 1e-5))[0], rtol=1e-6)
    near = every[:, np.sum(module.between(x, every) ** 2, axis=1) < (module.CUT + module.SKIN) ** 2]
    np.testing.assert_allclose(module.forces(x, near), module.forces(x, every), rtol=1e-12, atol=1e-11)
    assert abs(energy(*run(x, 1)) - energy(*run(x, 4))) < 1e-3 * abs(energy(x, v))
    last = lambda x: run(x, 2)[0][module.MIDDLE, 1]
    made = grad(last)(module.START)
    for place in ((module.MIDDLE, 0), (module.MIDDLE + 1, 1)):
        np.testing.assert_allclose(made[place], by_differences(last, module.START, at(place, x.shape, 1e-5))[0], rtol=1e-6)


def test_waveform(waveform):
    module, survey = waveform
    truth = module.SPEED * (1.0 + survey.hidden())
    measured = [survey.records(truth, source) for source in survey.sources]
    change, direction = 0.1 * np.random.default_rng(0).normal(size=(2, 10, 10))
    value, slope = value_and_grad(survey.misfit)(change, measured)
    assert value == survey.misfit(change, measured) > 0.0 == survey.misfit(survey.hidden(), measured)
    direction /= np.max(np.abs(direction))
    (expected,) = by_differences(lambda change: survey.misfit(change, measured), change, 1e-7 * direction)
    assert np.sum(slope * direction) == pytest.approx(expected, rel=1e-6)
    assert not np.any(slope[survey.inside == 0.0])
    found, misfits = module.invert(survey, 4)
    assert misfits[-1] < 0.2 * misfits[0] and np.sum(found * survey.hidden()) > 0.0


@pytest.fixture
def waveform(monkeypatch):
    module = example("waveform", "scipy.optimize")
    monkeypatch.setattr(module, "step", module.step.f)  # compiling takes longer than so few steps
    return module, module.Survey(10, shots=2, receivers=5)


def test_sparse_jacobians_are_the_dense_ones():
    pytest.importorskip("scipy.sparse")
    rng = np.random.default_rng(0)
    curve, args = example("bratu").Curve(5, compiled=False), (*rng.random((3, 26)), 0.1)
    np.testing.assert_allclose(curve.jacobian(*args).toarray(), dualad.jacobian(curve.residual)(*args), rtol=1e-13, atol=1e-15)
    assert curve.coloring.reverse_colors == 1 and curve.coloring.forward_colors <= 8
    method = example("brusselator").Implicit(4, compiled=False)
    args = *rng.random((2, 32)), 0.01, rng.random((4, 4))
    assert method.jacobian.fill(method.matrix, *args) is method.matrix
    np.testing.assert_allclose(method.matrix.toarray(), dualad.jacobian(method.residual)(*args), rtol=1e-13, atol=1e-14)
    line, y = example("robertson").Line(6), np.abs(np.sin(np.arange(18.0)))
    sparse = dualad.jacobian(line.rate, argnums=1, sparsity=line.coloring())(0.0, y)
    np.testing.assert_allclose(sparse.toarray(), dualad.jacobian(line.rate, argnums=1)(0.0, y), rtol=1e-13)
    assert line.coloring().forward_colors == example("robertson").Line(40).coloring().forward_colors == 7
