"""Fit: whatever kills an optimizer, the same script ends with the same bits, and makes no evaluation twice."""

from collections import namedtuple
from contextvars import ContextVar
from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest
from calls import Interrupted
from fits import ending
from scipy.optimize import minimize

from checkpoint import Fit, Stats, chain, grad, hvp, value_and_grad
from checkpoint.durable import session as session_module
from checkpoint.sweep import player as player_module

DATA = np.linspace(0.5, 1.5, 4)
N = 30
Point = namedtuple("Point", "x y")


class Brief(Point):
    def __repr__(self):
        return repr(tuple(self))


CALLS = SimpleNamespace(made=0, end=None, count=lambda: None)
UNSEEN = ContextVar("calls", default=CALLS)  # which is not looked into, so that it is no part of what says that a function is the same


def step(k, state, rate, damping):
    calls = UNSEEN.get()
    calls.made += 1
    calls.count()
    if calls.made == calls.end:
        raise Interrupted
    angle, speed = state
    return angle + 0.1 * speed, speed - 0.1 * (rate * np.sin(angle) + damping * speed)


def misfit(p, storage=None, step=step):
    angle, speed = chain(step, (1.0, 0.0), p[0], p[1], steps=N, storage=storage)
    return (angle - 0.3) ** 2 + (speed + 0.2) ** 2


def fitted(fit):
    f = fit(value_and_grad(lambda p: misfit(p, fit)), name="misfit")
    return minimize(f, np.array([0.8, 0.1]), jac=True, method="L-BFGS-B", options={"maxiter": 12})


def bits(result):
    return result.x.tobytes().hex(), float(result.fun).hex(), result.nfev


PLAIN = minimize(value_and_grad(misfit), np.array([0.8, 0.1]), jac=True, method="L-BFGS-B", options={"maxiter": 12})
EXPECTED, WHOLE = bits(PLAIN), CALLS.made


pytestmark = pytest.mark.usefixtures("not_again", "no_fsync")


@pytest.fixture
def fit(durable):
    return durable


def calls_until(end=None):
    CALLS.made, CALLS.end = 0, end


@pytest.mark.slow
def test_the_same_bits_and_nothing_is_made_twice(fit, monkeypatch):
    assert bits(fitted(fit)) == EXPECTED and (fit.made, fit.answered) == (EXPECTED[2], 0)
    again = Fit(fit.path)
    calls_until(1)
    assert bits(fitted(again)) == EXPECTED
    calls_until()
    assert (again.made, again.answered) == (0, EXPECTED[2])
    assert repr(again) == f"Fit({str(fit.path)!r}): {EXPECTED[2]} evaluations answered, 0 made"
    assert {path.suffix for path in fit.path.iterdir()} == {".log", ".json", ""}


@pytest.mark.slow
@pytest.mark.parametrize("end", [2, 100, 333])
def test_interrupted_and_gone_on(fit, end):
    """Only the calls that verify are made twice: of the first step, and of those up to the state that was pulled last."""

    calls_until(end)
    with pytest.raises(Interrupted):
        fitted(fit)
    calls_until()
    again = Fit(fit.path, every=0)
    assert bits(fitted(again)) == EXPECTED and again.made + again.answered == EXPECTED[2]
    assert CALLS.made <= WHOLE - end + N + 10


def test_a_chain_that_is_done_is_not_made_again_while_another_one_of_the_evaluation_is(fit):
    noting, first = ending(lambda k, x, p: x * p)
    failing, second = ending(lambda k, x, p: np.sin(x) + p, 8)

    def both(p):
        done = grad(lambda p: chain(noting, 1.0, p, steps=N, storage=fit))(p)  # which is pulled back before the other begins
        return done + chain(failing, 1.0, p, steps=N, storage=fit)

    with pytest.raises(Interrupted):
        fit(both)(1.01)
    whole, first.made, second.left = len(first.made), [], None
    found, made = fit(both)(1.01), len(first.made)
    assert found == grad(lambda p: chain(noting, 1.0, p, steps=N))(1.01) + chain(failing, 1.0, 1.01, steps=N)
    assert made <= 4 < 3 * N < whole, "the first step and the first pull"
    assert not list(fit.path.glob("*.evaluation"))


def test_a_first_sweep_that_is_made_again_for_another_cotangent_counts_its_time_once(tmp_path, monkeypatch):
    fit, stats, ticks = Fit(tmp_path / "fit", every=0.0), Stats(), count()
    monkeypatch.setattr(player_module, "perf_counter", lambda: next(ticks))
    gradient = lambda p, scale, **options: grad(lambda p: scale * chain(lambda k, x, p: p * x, 1.0, p, steps=N, storage=fit, **options))(p)
    fit(lambda p: gradient(p, 1.0) + gradient(p, 2.0, stats=stats))(1.01)
    assert stats.seconds == 1 + 3, "the first sweep, and the reverse sweep with the other first sweep in it"


def scaled(rate, table=None):
    def f(x):
        return rate * x if table is None else table * x

    return f


def test_another_function_is_refused_by_the_name_of_what_differs(fit):
    fit(scaled(2.0, DATA))
    for other, named in ((scaled(3.0, DATA), "rate"), (scaled(2.0, DATA + 1e-15), "table")):
        with pytest.raises(ValueError, match=f"belongs to another function scaled.<locals>.f; it differs in: {named}. Use another"):
            Fit(fit.path)(other)
    with pytest.raises(ValueError, match=r"differs in: .*its code"):
        Fit(fit.path)(lambda x: x, name="scaled.<locals>.f")
    with pytest.raises(ValueError, match="differs in: token"):
        Fit(fit.path, token="table of 2025")(scaled(2.0, DATA))
    assert Fit(fit.path)(scaled(2.0, DATA))(3.0).tolist() == (3.0 * DATA).tolist()


def test_several_functions_of_one_fit(fit):
    f, h = fit(value_and_grad(misfit)), fit(lambda p: hvp(misfit, p, np.ones(2)), name="curvature")
    p = np.array([0.8, 0.1])
    assert f(p)[0] == misfit(p) and h(p).tolist() == hvp(misfit, p, np.ones(2)).tolist()
    assert fit.made == 2 and f(p)[0] == misfit(p) and fit.answered == 1
    assert f(p + 1.0)[0] == misfit(p + 1.0) and f(p, step=step)[0] == misfit(p) and fit.made == 4


def test_results_of_all_kinds_come_back_as_they_were(fit):
    value = (1.0, [np.float32(0.1), 3, True], {"b": np.arange(3), "a": None, "c": ()}, "text", 2j, b"x")
    f = lambda: value
    for answered in (0, 1):
        back = fit(f)()
        assert (repr(back) == repr(value) and fit.answered == answered and back is not value) or not answered
    back[2]["b"][:] = -1
    assert repr(fit(f)()) == repr(value), "a copy"
    for refused, said in (({1, 2}, "a set"), ([Point(1.0, 2.0)], r"\[Point\(x=0, y=1\)\]"), (Brief(1.0, 2.0), r"\(0, 1\)")):
        with pytest.raises(TypeError, match=f"the function returned {said}, which cannot be stored"):
            fit(lambda _, refused=refused: refused, name=said)(1.0)


def test_short_chains_write_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(session_module.DurableStates, "commit", lambda *arguments: pytest.fail("a point"))
    fit = Fit(tmp_path / "fit", every=1e6)
    assert bits(fitted(fit)) == EXPECTED


def test_misuse(fit, tmp_path):
    with pytest.raises(ValueError, match=r"must run inside a function wrapped by the fit: give the optimizer fit\(value_and_grad\(f\)\)"):
        value_and_grad(lambda p: misfit(p, fit))(np.ones(2))
    for call, error, reason in (
        (lambda: fit(3.0), TypeError, r"fit\(f\) takes the function"),
        (lambda: Fit(3), TypeError, "path must be the name of a folder, got 3"),
        (lambda: Fit(tmp_path, every=-1.0), ValueError, "every must be a number of seconds"),
        (lambda: Fit(tmp_path, keep=-1), ValueError, "keep must be at least 0"),
        (lambda: fit(lambda x: 1.0)(object()), TypeError, "an argument has a leaf of type object"),
    ):
        with pytest.raises(error, match=f"Fit: {reason}"):
            call()


def test_a_derivative_through_it_is_that_of_the_function(fit):
    f = fit(lambda x: np.sin(x), name="sin")
    assert grad(f)(0.5) == np.cos(0.5) and f(0.5) == np.sin(0.5) and fit.made == 1


def test_a_chain_that_was_finished_is_not_made_again_however_often_a_later_one_is_killed(fit):
    """The process that takes its result from the folder leaves the folder to the next one."""
    step, state = ending(lambda k, x, rate: x + rate * np.sin(x))
    of = lambda step, **options: lambda x: sum(grad(lambda x, r=r: np.sum(chain(step, x, r, steps=20, **options)))(x) for r in (0.1, 0.2))
    fit = Fit(fit.path, every=0)
    x, f = np.array([0.3, 0.7]), fit(of(step, storage=fit), name="f")
    expected, found, killed = of(lambda k, x, rate: x + rate * np.sin(x))(x), None, 0
    while found is None and killed < 40:
        state.left, state.made = 18, []
        try:
            found = f(x)
        except Interrupted:
            killed += 1
    assert found.tobytes() == expected.tobytes() and 3 < killed < 12
