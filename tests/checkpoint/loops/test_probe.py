"""A step of a compiled chain is compared with the plain one: stale programs are traced again."""

import os

import numpy as np
import pytest
from interpreted import no_optimiser  # noqa: F401  (a fixture: LLVM optimises nothing)

pytest.importorskip("llvmlite")

from checkpoint import Revolve, Stats, chain, grad, hvp
from dualad import StaleWarning, gradient, jit, jvp
from dualad.jit import verify

X, N = np.zeros(4), 20


@pytest.fixture
def outside(monkeypatch):
    """The function that sets a value that is not watched."""
    monkeypatch.setenv("DUALAD_TEST_VALUE", "0.5")
    return lambda value: monkeypatch.setenv("DUALAD_TEST_VALUE", str(value))


def plain(k, u, p):
    """A step in whose first state, zeros, a change of the factor does not show."""
    return u * float(os.environ["DUALAD_TEST_VALUE"]) + p * np.sin(u + 1.0)


def simulated(step, **options):
    return lambda u, p: chain(step, u, p, **(options or {"steps": N}))


def summed(step, **options):
    return lambda p: np.sum(simulated(step, **options)(X, p) ** 2)


def driven(k, u, row, p):
    return plain(k, u, p) + row, u


FORMS = {
    "plain": lambda step: simulated(step)(X, 2.0),
    "until": lambda step: simulated(step, until=lambda k, u: k == 7)(X, 2.0),
    "one step": lambda step: simulated(step, steps=1)(X + 1.0, 2.0),
    "grad": lambda step: grad(summed(step))(2.0),
    "grad, until": lambda step: grad(summed(step, until=lambda k, u: k == 7))(2.0),
    "grad, schedule": lambda step: grad(summed(step, steps=N, schedule=Revolve(3)))(2.0),
    "grad, memory": lambda step: grad(summed(step, steps=N, memory="200 kB"))(2.0),
    "forward": lambda step: gradient(summed(step))(2.0),
    "jvp": lambda step: jvp(summed(step), (2.0,), (1.0,))[1],
    "hvp": lambda step: hvp(summed(step), 2.0, 1.0),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_stale_step_is_traced_again(form, outside):
    run, compiled = FORMS[form], jit(lambda k, u, p: plain(k, u, p))
    np.testing.assert_allclose(run(compiled), run(plain), rtol=1e-12)
    outside(0.25)
    with pytest.warns(StaleWarning, match=r"was stale: the result.* is .*, the old program gave") as caught:
        found = run(compiled)
    np.testing.assert_allclose(found, run(plain), rtol=1e-12)
    assert len(caught) == 1
    for _ in range(3):
        np.testing.assert_allclose(run(compiled), run(plain), rtol=1e-12)


@pytest.mark.slow
def test_inputs_outs_and_settings(outside):
    rows, compiled = np.arange(3.0 * N).reshape(N, 3), jit(driven)
    run = lambda step: grad(lambda p: np.sum(chain(step, X[:3], p, inputs=rows, outputs=True)[1]))(0.5)
    np.testing.assert_allclose(run(compiled), run(driven), rtol=1e-12)
    outside(0.25)
    with pytest.warns(StaleWarning):
        found = run(compiled)
    np.testing.assert_allclose(found, run(driven), rtol=1e-12)
    named = lambda k, u, kind, p: plain(k, u, p) if kind == "a" else u
    compiled, run = jit(named), lambda step: grad(lambda p: np.sum(chain(step, X, "a", p, steps=N)))(0.5)
    run(compiled)
    outside(0.75)
    with pytest.warns(StaleWarning):
        found = run(compiled)
    np.testing.assert_allclose(found, run(named), rtol=1e-12)


def test_comparisons_change_no_count_and_no_bit(monkeypatch, outside):
    monkeypatch.setattr(verify, "COMPARISON_SHARE", 1e9)
    counts, found = {}, {}
    for every in (False, None, True):
        compiled, stats = jit(plain, verify=every), Stats()
        for _ in range(4):
            found[every] = grad(summed(compiled, steps=N, schedule=Revolve(3), stats=stats))(2.0)
        counts[every] = stats.advances, stats.pulls, stats.saves, stats.peak_states
        assert compiled.verifications == {False: 0, None: 2, True: 4}[every] and compiled.traces == 1
    assert counts[False] == counts[None] == counts[True] and found[False] == found[None] == found[True]


def test_a_step_that_writes_outside_is_not_called_again(outside):
    calls = []

    @jit
    def step(k, u, p):
        calls.append(k)
        return plain(k, u, p)

    for run in (FORMS["grad"], FORMS["hvp"]):
        run(step)
        count = len(calls)
        for _ in range(3):
            run(step)
        assert len(calls) == count and step.verifications == 0


@pytest.mark.slow
def test_what_exceeds_a_budget_is_left_out(outside):
    """Temporaries of a plain step count; the reason says so."""
    u, stats = np.zeros(20_000), Stats()

    def step(k, u, p):
        parts = [np.sin(u + i) for i in range(30)]
        return sum(parts, 0.1 * u) * p

    compiled = jit(step)
    for _ in range(3):
        grad(lambda p: np.sum(chain(compiled, u, p, steps=4, memory="3 MB", stats=stats)))(0.1)
    assert compiled.verifications == 0 and "; not compared with a plain step, which takes 5" in stats.reason
    for _ in range(3):
        grad(lambda p: np.sum(chain(compiled, u, p, steps=4, memory="30 MB", stats=stats)))(0.1)
    assert compiled.verifications == 1 and "not compared" not in stats.reason


def test_chains_in_compiled_functions(outside):
    step = jit(lambda k, u, p: plain(k, u, p))
    f = jit(grad(summed(step)))
    f(2.0)
    outside(0.25)
    with pytest.warns(StaleWarning):
        found = f(2.0)
    np.testing.assert_allclose(found, grad(summed(plain))(2.0), rtol=1e-12)
