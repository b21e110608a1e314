"""What the examples find: against published numbers, SciPy alone, and other ways."""

import os
import sys
import warnings

import numpy as np
import pytest
from loaded import ROOT, example

from checkpoint import CTZ, Revolve, Stats, StoreAll, profile, value_and_grad


def test_the_curve_of_bratu_turns_where_it_is_known_to():
    """The five-point scheme is of second order: with two grids the error of the turning point falls fourfold."""
    module, turns = example("bratu", "scipy.sparse"), []
    for cells in (15, 31):
        points = list(module.Curve(cells, compiled=False).follow(12, 0.15))
        strengths = np.array([x[-1] for x in points])
        peak = int(np.argmax(strengths))
        near = np.polynomial.Polynomial.fit([x[:-1].max() for x in points[peak - 2 : peak + 3]], strengths[peak - 2 : peak + 3], 4)
        peaks = near.deriv().roots()
        turns.append(max(near(r.real) for r in peaks if abs(r.imag) < 1e-9 and near.domain[0] < r.real < near.domain[1]))
        assert strengths[-1] < turns[-1] - 0.5 and 0 < peak < len(points) - 1, "past the turning point"
    errors = np.array(turns) - module.LARGEST_LAMBDA
    assert errors[0] / errors[1] == pytest.approx(4.0, abs=0.4)


def radau(f, y, end):
    integrate = pytest.importorskip("scipy.integrate")
    return integrate.solve_ivp(f, (0.0, end), y, method="Radau", rtol=1e-10, atol=1e-11).y[:, -1]


def test_steps_of_the_brusselator_are_of_second_order():
    module, cells, errors = example("brusselator", "scipy.sparse"), 6, []
    method, start = module.Implicit(cells, compiled=False), module.initial(cells)
    exact = radau(lambda t, y: module.rates(y, 0.0, cells), start, 0.4)
    for steps in (20, 40):
        *_, (t, y) = method.run(start, 0.4, steps)
        assert t == pytest.approx(0.4)
        errors.append(np.max(np.abs(y - exact)))
    assert errors[0] / errors[1] == pytest.approx(4.0, abs=0.4)
    assert method.counts["Jacobians"] < method.counts["steps"] / 2


def test_where_all_cells_of_the_brusselator_are_alike_only_the_reaction_is_left_until_the_feed_begins():
    module = example("brusselator", "scipy.sparse")
    *_, (_, y) = module.Implicit(4, compiled=False).run(np.repeat([2.0, 1.0], 16), 0.5, 100)
    u, v = y.reshape(2, -1)
    alone = radau(lambda t, p: np.array([1.0 + p[0] ** 2 * p[1] - 4.4 * p[0], 3.4 * p[0] - p[0] ** 2 * p[1]]), [2.0, 1.0], 0.5)
    assert np.ptp(u) < 1e-12 and np.ptp(v) < 1e-12
    np.testing.assert_allclose([u[0], v[0]], alone, rtol=1e-4)
    method, still = module.Implicit(10, compiled=False), np.repeat([1.0, 3.4], 100)  # a state that does not change by itself
    states = dict(method.run(still, 1.2, 12))
    before, after = (states[min(states, key=lambda t: abs(t - time))] for time in (1.1, 1.2))
    np.testing.assert_allclose(before, still, atol=1e-9)
    assert np.argmax(after[:100]) in np.flatnonzero(method.feed) and method.feed.max() == 5.0


def test_what_is_counted_of_schedules_is_what_runs():
    module = example("choose_schedule")
    state, damping = module.start(8)
    for row in profile(module.step, state, damping, steps=50, schedules=[StoreAll(), CTZ(), Revolve(5)]).rows:
        assert row.measured.advances == row.advances + 1  # and the step to x_N
        assert row.measured.peak_states == row.states


def test_all_colours_of_an_ellipse_are_as_far_from_its_centre():
    """By colour-science's own measure."""
    module, colour = example("colours", "colour"), pytest.importorskip("colour")
    colours, space = module.COLOURS, module.SPACES["CIE Lab"]
    axes, ellipses = module.compared(space)
    circle = 1e-3 * np.array([np.cos(angles := np.linspace(0.0, 2.0 * np.pi, 9)), np.sin(angles)])
    edges = np.swapaxes(ellipses @ circle, 1, 2)
    moved = colours[:, None] + np.concatenate([edges, np.zeros_like(edges[..., :1])], axis=-1)
    far = colour.delta_E(space(moved), space(colours)[:, None], method="CIE 1976")
    np.testing.assert_allclose(far, 1e-3 * np.exp(np.mean(np.log(axes))), rtol=1e-3)


@pytest.mark.filterwarnings("default")
def test_dask_gives_the_same_ensemble():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        distributed = pytest.importorskip("distributed", reason="dask.distributed (the extra `distributed`) is not installed")
    module = example("ensemble")
    measured = module.measure(count=2)
    options = {"n_workers": 1, "threads_per_worker": 2, "processes": False, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client, client.get_executor() as executor:
        found = module.landscape(2, measured, executor)
    for part, expected in zip(found, module.landscape(2, measured), strict=True):
        np.testing.assert_array_equal(part, expected)


def test_the_fit_of_an_epidemic_is_that_of_differences():
    """By SciPy alone, with plain numbers; its uncertainties by differences."""
    optimize, integrate = pytest.importorskip("scipy.optimize"), pytest.importorskip("scipy.integrate")
    module = example("epidemic")
    options = {"t_eval": module.DAYS, "rtol": 1e-9, "atol": 1e-9}
    curve = lambda logs: integrate.solve_ivp(module.epidemic, (0.0, 14.0), [760.0, 3.0], args=tuple(np.exp(logs)), **options).y[1]
    found, deviations = module.fit()
    by_differences = optimize.least_squares(lambda logs: curve(logs) - module.IN_BED, np.log([1.7, 0.45]), x_scale="jac", xtol=1e-12)
    np.testing.assert_allclose(found.x, by_differences.x, atol=1e-4)
    assert found.nfev < 20
    slope = np.stack([(curve(found.x + 1e-4 * e) - curve(found.x - 1e-4 * e)) / 2e-4 for e in np.eye(2)], axis=1)
    spread = np.sqrt(np.diag(np.linalg.inv(slope.T @ slope)) * np.sum((curve(found.x) - module.IN_BED) ** 2) / 12)
    np.testing.assert_allclose(deviations, spread, rtol=1e-4)


@pytest.mark.parametrize("method", ["trf", "lm", "dogbox"])
def test_the_minimum_of_the_exponential_fit_is_the_published_one(method):
    """The Jacobian by hand; and the deviation of the curve at t = 0, where it is x1 + x2 + x3."""
    module = example("exponential_fit", "scipy.optimize")
    result, evaluations = module.fit(method=method)
    assert 2.0 * result.cost == pytest.approx(module.BEST, rel=1e-5)
    assert evaluations == result.nfev  # one a point, Jacobians included
    assert evaluations < module.fit(exact=False, method=method)[1] / 2
    result, _ = module.fit()
    x, t = result.x, module.T
    fast, slow = np.exp(-x[4] * t), np.exp(-x[3] * t)
    by_hand = np.stack([np.ones_like(t), slow, fast, -t * x[1] * slow, -t * x[2] * fast], axis=1)
    covariance = np.linalg.inv(by_hand.T @ by_hand) * np.sum((module.model(x, t) - module.Y) ** 2) / 28
    np.testing.assert_allclose(module.covariance(result), covariance, rtol=1e-5)
    assert module.deviations(x, covariance, np.zeros(1))[0] == pytest.approx(np.sqrt(np.sum(covariance[:3, :3])), rel=1e-6)


@pytest.mark.long
def test_a_long_fit_that_is_killed_goes_on(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    module = example("long_fit")
    result, fit, _ = module.fitted(tmp_path / "whole", 500)
    assert result.x == pytest.approx(module.TRUE, rel=0.05) and fit.made > 5
    lines, killed = module.killed(tmp_path / "killed", 500, 3)
    name, bits, answered, made = lines[-1].split()
    assert (name, bits, killed) == ("result", result.x.tobytes().hex(), 3) and int(answered) + int(made) == fit.made and int(answered) > 0


def test_a_gradient_by_50_000_steps_stays_within_its_limit():
    module, stats = example("long_fit", "llvmlite"), Stats()
    gradient = value_and_grad(module.make_misfit(50_000, stats))
    gradient(module.START, steps=100)
    (_, slope), grown = module.resident(lambda: gradient(module.START))
    assert stats.steps == 50_000 and stats.peak_bytes <= 4e6 and np.isfinite(slope).all()
    assert grown is None or grown <= 4e6 + 2**20, "and what the allocator rounds to"
    h = 1e-6 * np.array([1.0, -1.0, 0.5, 0.3])
    assert slope @ h == pytest.approx((gradient(module.START + h)[0] - gradient(module.START - h)[0]) / 2, rel=1e-5)


def test_the_film_is_scherks_surface_to_second_order():
    module = example("minimal_surface", "scipy.optimize")
    films = [module.film(cells) for cells in (8, 16)]
    assert all(solution.success for _, solution, _ in films)
    errors = [np.abs(u - module.scherk(cells)).max() for cells, (u, _, _) in zip((8, 16), films, strict=True)]
    assert errors[1] < 2e-4 and 3.5 < errors[0] / errors[1] < 4.5


def test_every_kind_of_jacobian_leads_to_the_film_and_coloured_ones_need_the_fewest_evaluations():
    module = example("minimal_surface", "scipy.optimize")
    films = {kind: module.film(10, kind) for kind in ("differences", "dense", "coloured")}
    for u, _, _ in films.values():
        np.testing.assert_allclose(u, films["dense"][0], atol=1e-7)
    counts = {kind: evaluations for kind, (_, _, evaluations) in films.items()}
    assert counts["coloured"] <= counts["dense"] < counts["differences"] / 3
    assert counts["differences"] - counts["coloured"] > 0.8 * 9**2  # of the unknowns: what one Jacobian by differences takes


#: at t = 40 (Hairer & Wanner, Solving Ordinary Differential Equations II, IV.10, and the test set of Mazzia & Magherini)
ROBERTSON = [0.7158270687, 9.185534764e-06, 0.2841637457]


@pytest.mark.parametrize("method", ["BDF", "Radau"])
def test_cells_of_robertsons_reaction_that_are_all_alike_react_as_one(method):
    line = example("robertson", "scipy.integrate").Line(3, spread=0.0)
    solution, _ = line.integrate(40.0, method=method, rtol=1e-8, atol=np.tile([1e-10, 1e-14, 1e-10], 3))
    np.testing.assert_allclose(solution.y[:, -1].reshape(3, 3), [ROBERTSON] * 3, rtol=1e-6)


def test_robertsons_reaction_takes_fewer_evaluations_and_keeps_the_mass():
    line = example("robertson", "scipy.integrate").Line(8)
    exact, evaluations = line.integrate(100.0)
    differences, more = line.integrate(100.0, exact=False)
    assert exact.success and evaluations < more
    np.testing.assert_allclose(exact.y.reshape(8, 3, -1).sum(axis=(0, 1)), 8.0, rtol=1e-12)
    np.testing.assert_allclose(exact.y[:, -1], differences.y[:, -1], rtol=1e-4, atol=1e-8)


@pytest.mark.long
def test_a_survey_finds_what_is_hidden_and_draws_it(capsys, monkeypatch, tmp_path):
    pytest.importorskip("matplotlib")
    picture = tmp_path / "waveform.png"
    monkeypatch.setattr(sys, "argv", ["waveform.py", "--cells", "16", "--iterations", "6", "--plot", str(picture)])
    example("waveform", "scipy.optimize").main()
    assert float(capsys.readouterr().out.split()[-1]) > 0.98 and picture.stat().st_size > 10_000
