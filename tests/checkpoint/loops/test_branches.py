"""Chains of compiled steps that branch on traced values, against the same steps, not compiled: bits of values, derivatives, what raises."""

import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import numpy as np
import optree
import pytest
from calls import bits, fail_at
from comparing import close
from interpreted import no_optimiser  # noqa: F401  (a fixture: LLVM optimises nothing)

pytest.importorskip("llvmlite")

import checkpoint
import dualad
from checkpoint import CTZ, Disk, Periodic, Revolve, Stats, StoreAll, chain, grad, hvp, jacobian
from checkpoint.loops import compiled as segments
from checkpoint.loops import stepper
from checkpoint.schedules import Mixed
from dualad import jvp

N = 33
X, C = np.linspace(0.2, 1.4, 5), 1.3
U = np.random.default_rng(3).uniform(size=(N, 5))


def on_a_value(k, x, c):
    if x[0] > 0.7:
        return 0.5 * x * c
    return c * x / (1.0 + x * x)


def on_the_index(k, x, c):
    x = 0.9 * x * c
    if k % 10 == 0:
        x = 1.0 / (1.0 + x * x)
    return x


def on_both(k, x, c):
    if k % 5 == 1 and np.max(x) > 0.3:
        x = np.sqrt(1.0 + x * x) - c
    elif k % 3 and not x[1] < 0.1:
        x = x * c - 0.2 * x**3
    return 0.95 * x


def newton(k, x, c):
    y = x[0]
    while abs(y * y * y + y - c - x[0]) > 1e-3:
        y = y - (y * y * y + y - c - x[0]) / (3 * y * y + 1)
    return x / (1.0 + y * x) + 0.01 * k


def sweeps(k, x, c):
    y = x
    for _ in range(6):
        new = 0.5 / (1.0 + y * y) + 0.1 * c * x
        if np.max(np.abs(new - y)) < 3e-2:
            break
        y = new
    return y + 0.1 * (k % 3)


def checked(k, x, c):
    assert np.all(np.isfinite(x))
    if np.max(np.abs(x)) > 1e6:
        raise FloatingPointError("it diverged")
    return 1.1 * c * x / (1.0 + x * x)


def smallest(k, x, c):
    a, b = x[0], x[1]
    lower, upper = min(a, b), max(a * c, b, 0.3)
    return x * upper / (1.0 + x * x) + lower * 0.2 * (k % 3)


def number(k, x, c):
    y = c * x * (1.0 - x)
    return y if y > 0.4 else y + 0.25 * x, (x * x, k if y > 0.6 else 0)


def driven(k, x, u):
    return 0.5 * x + u if u[0] > 0.3 else x * u


def ended(k, x):
    return 0.8 * x if k % 4 else 0.9 * x / (1.0 + x * x)


def until(ends):
    return ended, lambda s, **options: lambda x: chain(s, x, until=ends, **options), (X,)


def simulated(s, **options):
    return lambda *args: chain(s, *args, **({"steps": N} | options))


# name: the step, what is done with it, and of what
PROGRAMS = {
    **{step.__name__: (step, simulated, (X, C)) for step in (on_a_value, on_the_index, on_both, newton, sweeps, checked, smallest)},
    "numbers and outs": (number, lambda s, **options: simulated(s, outputs=True, **options), (0.3, 3.7)),
    "NumPy's numbers and outs": (number, lambda s, **options: simulated(s, outputs=True, **options), (np.float64(0.3), 3.7)),
    "inputs": (driven, lambda s, **options: lambda x, u: chain(s, x, inputs=u, **options), (X, U)),
    "a predicate that branches": until(lambda k, x: k > 3 and x[0] < 0.05),
    "a predicate that chooses": until(lambda k, x: x[0] < 0.01 or k == 20),
}


def loss(step, **options):
    run = simulated(step, **options) if "until" not in options else lambda x, c: chain(step, x, c, **options)
    return lambda x, c: np.sum(np.sin(run(x, c)) ** 2)


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_derivatives_are_those_of_the_plain_step(name):
    step, run, args = PROGRAMS[name]
    compiled, stats = dualad.jit(step), Stats()
    plain = run(step)(*args)
    for _ in range(2):
        assert bits(run(compiled, stats=stats)(*args)) == bits(plain)
        traces, steps = compiled.traces, stats.advances
    assert ("has taken" in stats.reason or name == "inputs") and stats.steps == steps > 4
    assert compiled.traces == traces
    compiled, argnums = dualad.jit(step), tuple(range(len(args)))
    of = lambda s, **options: lambda *args: sum(np.sum(np.sin(leaf)) for leaf in optree.tree_leaves(run(s, **options)(*args)))
    g, expected = grad(of(compiled, stats=stats), argnums=argnums)(*args), grad(of(step), argnums=argnums)(*args)
    close(g, expected, rtol=1e-11 if step is not number else 1e-9, atol=1e-13)
    assert stats.steps == stats.pulls == steps and (stats.advances == steps or "predicate" in name)  # Online makes steps again
    assert "compiled steps" in stats.reason and ("has taken" in stats.reason or name == "inputs")
    assert bits(grad(of(compiled), argnums=argnums)(*args)) == bits(g)  # where all paths are known from the start
    h, tangents = 1e-6, tuple(np.cos(arg) for arg in args)
    ahead, behind = (of(step)(*(arg + s * t for arg, t in zip(args, tangents, strict=True))) for s in (h, -h))
    pushed = [jvp(of(s), args, tangents) for s in (compiled, step)]
    close(pushed[0], pushed[1], rtol=1e-11 if step is not number else 1e-10)
    assert np.isclose(sum(np.sum(a * t) for a, t in zip(g, tangents, strict=True)), (ahead - behind) / (2 * h), rtol=1e-5, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("step", [on_both, newton])
def test_forward_mode_and_second_derivatives_find_paths_of_their_own(step):
    t = np.cos(X)
    ours, plain = (jvp(lambda x, f=f: chain(f, x, C, steps=N), (X,), (t,)) for f in (dualad.jit(step), step))
    assert bits(ours[0]) == bits(plain[0]) and np.allclose(ours[1], plain[1], rtol=1e-10)
    ours, plain = (hvp(lambda x, f=f: loss(f)(x, C), X, t) for f in (dualad.jit(step), step))
    assert np.allclose(ours, plain, rtol=1e-9, atol=1e-12)
    ours, plain = (jacobian(lambda x, f=f: chain(f, x, C, steps=N))(X) for f in (dualad.jit(step), step))
    assert np.allclose(ours, plain, rtol=1e-10, atol=1e-13)


SAVED = [
    {"schedule": CTZ()}, {"schedule": Revolve(3)}, {"schedule": StoreAll()}, {"schedule": Periodic(4)}, {"schedule": Mixed(3)},
    {"block": 1}, {"block": 4}, {"block": 4, "schedule": Revolve(2)}, {"memory": "1 MB"}, {"check": True}, {"storage": Disk(), "block": 4},
]  # fmt: skip


@pytest.mark.parametrize("options", SAVED, ids=repr)
def test_same_bits_and_counts_however_states_are_saved(options):
    """A step that takes a new path ends a block; the states saved, and the steps made, are those of a step whose paths are known."""
    known, counts = dualad.jit(on_both), []
    g = grad(loss(known), argnums=(0, 1))(X, C)
    for step in (dualad.jit(on_both), known):
        stats = Stats()
        assert bits(grad(loss(step, stats=stats, **options), argnums=(0, 1))(X, C)) == bits(g)
        counts.append((stats.advances, stats.pulls, stats.saves, stats.peak_states))
    assert counts[0] == counts[1]


@pytest.mark.slow
@pytest.mark.parametrize("ends", [{"steps": N}, {"until": lambda k, x: k >= N}], ids=["steps", "until"])
@pytest.mark.parametrize("sweep", ["advance", "fill", "pull"])
def test_a_resumed_chain_knows_no_paths(sweep, ends, tmp_path, monkeypatch):
    """Each process traces the paths that it meets, in the reverse sweep those that another one has met."""
    monkeypatch.setattr(stepper, "AHEAD_SECONDS", 0.0)
    options = {"storage": Disk(tmp_path, resume=True, every=0), "block": 1 if sweep == "pull" else 4, **ends}
    run = lambda: grad(loss(dualad.jit(on_both), **options), argnums=(0, 1))(X, C)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        fail_at(patch, 4, (segments.Segments if sweep == "advance" else segments.Reversal, sweep), error=KeyboardInterrupt)
        run()
    assert bits(run()) == bits(grad(loss(dualad.jit(on_both)), argnums=(0, 1))(X, C))


@pytest.mark.slow
def test_threads_meet_paths_together():
    g = grad(loss(dualad.jit(on_both)), argnums=(0, 1))(X, C)
    step = dualad.jit(on_both)
    with ThreadPoolExecutor(4) as pool:
        found = [pool.submit(lambda n=n: grad(loss(step, block=n), argnums=(0, 1))(X, C)) for n in (1, 4, 7, N)]
        assert all(bits(future.result()) == bits(g) for future in found)


def growing(k, x):
    if x[0] > 50.0:
        raise FloatingPointError(f"it diverged: {float(x[1]):.3f}")
    return 1.5 * x


@pytest.mark.parametrize("verb", ["plain", "grad", "jvp"])
def test_a_step_that_raises_does_so_in_its_place_with_the_error_of_the_plain_step(verb):
    def run(step):
        f = lambda x: np.sum(chain(step, x, steps=N))
        return {"plain": f, "grad": grad(f), "jvp": lambda x: jvp(f, (x,), (x,))}[verb](X)

    with pytest.raises(FloatingPointError) as plain:
        chain(growing, X, steps=N)
    with pytest.raises(FloatingPointError) as found:
        run(dualad.jit(growing))
    k = next(k for k in range(N) if 1.5**k * X[0] > 50.0)
    assert str(found.value) == str(plain.value) and f"chain: in step {k}" in found.value.__notes__
    assert found.traceback[-1].name == "growing"


def test_a_predicate_that_ends_before_the_step_that_would_raise():
    until = lambda k, x: k > 2 and x[0] > 40.0
    assert bits(chain(dualad.jit(growing), X, until=until)) == bits(chain(growing, X, until=until))


def digits(k, x):
    digit = int(20.0 * x[0])
    return x + 5e-4 * digit * x * x + 0.04


@pytest.mark.slow
def test_steps_on_more_paths_than_allowed_are_made_by_the_plain_function(recwarn):
    step, stats = dualad.jit(digits, paths=4), Stats()
    assert bits(chain(step, X, steps=40, stats=stats)) == bits(chain(digits, X, steps=40))
    assert re.fullmatch(r"the step has taken 4 paths; \d+ steps made by the plain function", stats.reason)
    assert sum("digits" in str(w.message) and "test_branches.py" in str(w.message) for w in recwarn) == 1
    for options in ({}, {"block": 3}, {"schedule": Revolve(3)}):
        g = grad(lambda x, options=options: np.sum(chain(step, x, steps=40, stats=stats, **options)))(X)
        assert np.allclose(g, grad(lambda x: np.sum(chain(digits, x, steps=40)))(X), rtol=1e-12)
        assert "compiled steps" in stats.reason and "made by the plain function" in stats.reason


def said(k, state, u, c):
    x, e = state
    if k % 4 == 0:
        print("step", k)
        x = x + u * u
    return (c * x / (1.0 + x * x), 0.5 * e + x[0]), (x * x, e)


def weighed(step, **options):
    def loss(x, u, c):
        (x, e), (squares, es) = chain(step, (x, 0.3), c, inputs=u, outputs=True, **options)
        return np.sum(x * x) + e + np.sum(squares) + np.sum(es * es)

    return loss


def quiet(k, state, u, c):
    x, e = state
    if k % 4 == 1:
        x = x + u * u
    return (c * x / (1.0 + x * x), 0.5 * e + x[0]), (x * x, e)


@pytest.mark.slow
@pytest.mark.parametrize("plain", [said, quiet])
def test_steps_of_the_plain_function_print_and_are_pulled_back_with_outs_inputs_and_tangents(plain, capsys):
    step, stats, args = dualad.jit(plain, paths=1 if plain is quiet else 16), Stats(), (X, U, C)
    warned = (
        pytest.warns(UserWarning, match=r"test_branches.py, line \d+: quiet takes more than 1 path") if plain is quiet else nullcontext()
    )
    for each in (warned, nullcontext()):  # the first call traces the paths
        with each:
            assert bits(weighed(step, stats=stats)(*args)) == bits(weighed(plain)(*args))
        printed = capsys.readouterr().out.splitlines()
        assert printed == (2 * [f"step {k}" for k in range(0, N, 4)] if plain is said else [])
        assert plain is quiet or f"{-(-N // 4)} steps made by the plain function" in stats.reason
    expected = grad(weighed(plain), argnums=(0, 1, 2))(*args)
    for options in ({}, {"block": 1}, {"block": 3, "schedule": Revolve(2)}, {"schedule": Mixed(3)}):
        close(grad(weighed(step, stats=stats, **options), argnums=(0, 1, 2))(*args), expected, rtol=1e-12, atol=1e-14)
        assert stats.pulls == N
    for k, t in enumerate((np.cos(X), np.cos(U), 0.7)):
        of = lambda s, k=k: lambda a: weighed(s)(*args[:k], a, *args[k + 1 :])
        close(*(jvp(of(s), (args[k],), (t,))[1] for s in (step, plain)), rtol=1e-12)
        close(*(hvp(of(s), args[k], t) for s in (step, plain)), rtol=1e-10, atol=1e-13)


def clipped(k, x):
    if x > 0.9:
        return 0.5
    return 1.2 * x if k % 3 else x * np.sqrt(x)


def test_numbers_that_are_of_python_on_one_path():
    stats = Stats()
    for x in (0.8, np.float64(0.8)):
        assert bits(chain(dualad.jit(clipped), x, steps=N, stats=stats)) == bits(chain(clipped, x, steps=N))
        assert stats.reason == "the step has taken 3 paths"
        ours, plain = (grad(lambda x, s=s: chain(s, x, steps=2))(x) for s in (dualad.jit(clipped), clipped))
        assert ours == pytest.approx(plain, rel=1e-13) and ours != 0.0
        inside = dualad.jit(lambda x: chain(clipped, x, steps=N))
        assert bits(inside(x)) == bits(chain(clipped, x, steps=N)) and inside.traces == 1


def test_a_path_of_a_later_chain_beside_one_that_gives_pythons_numbers():
    plain = lambda k, x: x + 0.3 if x < 0.1 else -x if x > 9.0 else clipped(k, x)
    step, stats = dualad.jit(plain), Stats()
    for x, paths in ((0.8, 3), (0.05, 4)):
        assert bits(chain(step, np.float64(x), steps=N, stats=stats)) == bits(chain(plain, np.float64(x), steps=N))
        assert stats.reason == f"the step has taken {paths} paths"


def test_a_step_whose_paths_give_other_types_is_made_one_by_one():
    stats, step = Stats(), lambda k, x: 0 if x > 0.9 else 1.2 * x
    assert chain(dualad.jit(step), 0.5, steps=7, stats=stats) == chain(step, 0.5, steps=7)
    assert "results of several types" in stats.reason


@pytest.mark.parametrize("compiled", [False, True])
def test_an_error_of_a_library_names_its_step(compiled):
    def step(k, x):
        return np.linalg.solve(np.eye(2) * (7.0 - k), x)

    run = lambda x: np.sum(chain(dualad.jit(step) if compiled else step, x, steps=20))
    for f in (run, grad(run)):
        with pytest.raises(np.linalg.LinAlgError) as found:
            f(np.ones(2))
        assert "chain: in step 7" in found.value.__notes__


@pytest.mark.parametrize("how", ["grad", "check", "recomputed"])
def test_what_is_computed_again_is_compiled_at_once_so_that_it_has_the_same_bits(how):
    compiled = dualad.jit(lambda x: x * x if x[0] > 0.5 else np.exp(-x))
    step = lambda k, x: compiled(x)
    run = lambda x: np.sum(chain(step, x, steps=9, check=how == "check"))
    {"grad": grad(run), "check": run, "recomputed": grad(checkpoint.checkpoint(lambda x: np.sum(step(1, step(0, x)))))}[how](
        np.array([0.6])
    )
    (entry,) = compiled.entries.values()
    assert len(entry.paths) == 2 and not entry.compiled.waits


def kepler(k, state, e, n):
    mean, total, y = state
    at = mean + e * np.sin(mean)
    while abs(at - e * np.sin(at) - mean) > 1e-12:
        at = at - (at - e * np.sin(at) - mean) / (1.0 - e * np.cos(at))
    t = 0.0 * e
    while t < 0.3:  # a loop of another number of turns, whose turns choose
        h = min(0.02 + 0.02 * abs(y), 0.3 - t)
        y = y + h * (np.cos(at) - y)
        t = t + h
    mean = mean + n
    return mean - 2 * np.pi * np.floor(mean / (2 * np.pi)), total + 0.01 * np.cos(at), y


@pytest.mark.slow
def test_loops_of_any_number_of_turns_in_steps_are_loops():
    compiled, stats = dualad.jit(kepler, paths=8), Stats()
    final = lambda step, stats=None: lambda e, n: sum(chain(step, (0.3, 0.0, 0.1), e, n, steps=120, stats=stats)[1:])
    for at in ((0.9, 0.37), (0.5, 0.41), (0.05, 2.0)):
        given = grad(final(compiled, stats), argnums=(0, 1))(*at)
        np.testing.assert_allclose(final(compiled)(*at), final(kepler)(*at), rtol=1e-12)
        np.testing.assert_allclose(given, grad(final(kepler), argnums=(0, 1))(*at), rtol=1e-9)
        assert "plain function" not in stats.reason
    assert compiled.traces <= 6 and "loop of at most" in compiled.program(0, (0.3, 0.0, 0.1), 0.5, 0.4)
    pushed = [jvp(final(step), at, (1.0, 0.5))[1] for step in (compiled, kepler)]
    np.testing.assert_allclose(*pushed, rtol=1e-9)
