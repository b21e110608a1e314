"""Loops in blocks: the same bits for every number of threads, of every kind of nest."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from time import monotonic, sleep

import numpy as np
import optree
import pytest
from comparing import bits as bits_of
from comparing import close
from interpreted import traced

pytest.importorskip("llvmlite")

from checkpoint import Stats, chain, grad
from checkpoint.loops import traced as within
from dualad import jit, jvp
from dualad.codegen import native as backend
from dualad.codegen import team
from dualad.codegen.emit import text_of
from dualad.codegen.native import Native, compiled
from dualad.ir.nodes import ArrayType, Assign, Call, Cast, Do, For, Function, Load, Module, Store, Var, number
from dualad.ir.values import op
from dualad.jit.compiled import BACKENDS
from dualad.loops import threads as room


def spread(u):
    return np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1) - 4.0 * u


def sliced(u):
    v = np.zeros_like(u)
    v[1:-1, 2:] = np.sin(u[:-2, 2:]) * u[2:, :-2]
    return v


X, Y = (np.random.default_rng(k).uniform(-2.0, 2.0, 3001) for k in (1, 2))
U = np.random.default_rng(3).uniform(-2.0, 2.0, (61, 67))
CASES = {
    "one axis": (lambda x, y: np.sin(x) * y + 1.0, (X, Y)),
    "sum": (lambda x, y: np.sum(np.sin(x) * np.exp(-(y**2))), (X, Y)),
    "several reductions": (lambda x, y: (np.sum(x * y), np.max(x - y), np.min(x), np.prod(1.0 + 1e-4 * x), np.mean(y)), (X, Y)),
    "a sum and what it was of": (lambda x, y: (x * y, np.sum(x * y), x / np.sum(y)), (X, Y)),
    "two axes": (lambda u: u * u - 2.0 * u, (U,)),
    "rolls": (lambda u: u + 0.1 * spread(u), (U,)),
    "slices": (sliced, (U,)),
    "adjoint of slices": (lambda u: sliced(u) + np.pad(u, 1)[2:, 1:-1], (U,)),
    "sum of rolls": (lambda u: np.sum(spread(u) ** 2), (U,)),
    "all and any": (lambda x, y: (np.all(x > -9.0), np.any(x > y)), (X, Y)),
    "reduction along an axis": (lambda u: (np.sum(u * u, axis=1), np.sum(u * u, axis=0), u * 2.0), (U,)),
    "reductions of rows": (lambda u: (np.sum(spread(u), axis=1), np.max(sliced(u) * u, 1), u * 2.0, np.sum(u * u)), (U,)),
    "reductions of the middle axis": (lambda u: np.sum(np.sin(u[:, None, :] * u[:, :9, None]), 1) - np.min(u * u, 1)[:, None], (U,)),
    "a call between": (lambda u: np.linalg.det(u @ u.T / 400.0 + np.eye(61)) * u, (U,)),
    "large angles": (lambda x, y: np.sin(x * 2.0**31) + np.sum(np.cos(y * 2.0**31)), (X, Y)),
    "cumulated": (lambda x, y: np.cumsum(x) * y, (X, Y)),
    "chosen": (lambda x, y: x[np.arange(3000)[::-1] % 7] + np.where(y[1:] > 0.0, x[1:], 0.0), (X, Y)),
    "single precision": (lambda x: (np.exp(x) + x, np.sum(x)), (X.astype(np.float32),)),
}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch, tmp_path):
    monkeypatch.setenv("DUALAD_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(room, "CACHE_ELEMENTS", 100)
    monkeypatch.setattr(backend, "WOKEN_ADDITIONS", 0)


def bits(outs):
    return list(map(bits_of, outs))


@pytest.mark.parametrize("name", CASES)
def test_the_same_bits_for_every_number_of_threads(name):
    f, args = CASES[name]
    natives = [Native(traced(f, *args), threads) for threads in (1, 2, 3)]
    expected = f(*args)
    results = [native.call(*args) for native in natives]
    for got, right in zip(results[0], expected if isinstance(expected, tuple) else (expected,), strict=True):
        np.testing.assert_allclose(got, right, rtol=1e-6 if np.asarray(right).dtype == np.float32 else 1e-11, atol=1e-7)
    assert bits(results[0]) == bits(results[1]) == bits(results[2])
    assert bits(natives[2].raw(*args)) == bits(results[0]) or name == "a call between"
    assert len({native.source for native in natives}) == 1
    assert ("run(" in natives[0].source) == (name != "reduction along an axis")


def test_the_number_of_blocks_rests_on_the_shape():
    source = lambda u, threads, f=lambda u: u * 2.0: Native(traced(f, u), threads).source
    assert "run(part0_block, 31, (x0, y0,))" in source(U, 2)  # of 2 rows, 134 elements
    assert "run(" not in source(U, None) and "run(" not in source(U[:3, :50], 2)
    assert "run(part0_block, 61, (x0, y0,))" in source(U + 0j, 2) and "run(" in source(U[:3, :50] + 0j, 2)
    assert "run(part0_block, 7, (x0, y0,))" in source(U + 0j, 2, np.fft.fft)  # each prepares its factors


def test_through_jit_and_its_derivatives(monkeypatch):
    monkeypatch.setitem(BACKENDS, "llvm", Native)
    found = []
    for threads in (1, 2, 3):
        f = jit(lambda x, y: np.sum(np.sin(x) * np.exp(-(y**2))), threads=threads)
        found.append([f(X, Y), f(X, Y), jvp(f, (X, Y), (Y, X))[1], jit(lambda x, f=f: f(x, Y), threads=threads)(X)])
        made = next(iter(f.entries.values())).compiled.executable
        assert isinstance(made, Native) and "run(" in made.source
    assert bits(found[0]) == bits(found[1]) == bits(found[2])


# --- chains, and loops in programs ------------------------------------------------------------------------------------------------------


def diffuse(k, state, u, c):
    x, e = state
    x = x + 0.1 * c * spread(x) + u * np.sin(x)
    return (x, 0.5 * e + np.mean(x * x)), x[1] * e


def nested(k, state, u, c):
    return chain(lambda j, state, u, c: diffuse(j, state, u, c)[0], state, u, c, steps=3), c[:, 1]


def free(k, state, c):
    return diffuse(k, state, 0.1, c)[0]


def driven(step, x, c, **options):
    return chain(step, (x, 0.5), c, inputs=np.linspace(0.0, 0.1, 7), outputs=True, **options)


def ended(k, state):
    return state[1] > 1.5


def total(tree):
    return sum(np.sum(np.sin(leaf)) for leaf in optree.tree_leaves(tree))


C = np.linspace(0.5, 1.0, 61 * 67).reshape(61, 67)
CHAINS = {
    "steps": (diffuse, driven),
    "a loop in its step": (nested, driven),
    "an unknown number of steps": (free, lambda step, x, c, **options: chain(step, (x, 0.5), c, until=ended, max_steps=20, **options)),
}


def told(threads, what):
    """Return what the team of so many threads notes."""
    return team.TEAMS[threads].memory[team.PLACES[what]] if threads in team.TEAMS else 0


def shared(threads):
    """Return how many nests it has shared by now."""
    return told(threads, "SHARED")


@pytest.mark.slow
@pytest.mark.parametrize("name", CHAINS)
def test_threads_share_the_steps_of_compiled_chains(name):
    step, chained = CHAINS[name]
    found, counts = [], []
    for threads in (1, 2, 3, None):
        stats, compiled = Stats(), step if threads is None else jit(step, threads=threads)
        loss = lambda x, c, step=compiled, stats=stats: total(chained(step, x, c, stats=stats))
        before = shared(threads)
        found.append([loss(U, C), *grad(loss, (0, 1))(U, C)])
        counts.append(shared(threads) - before)
        assert threads is None or "compiled steps" in stats.reason
    assert bits(found[0]) == bits(found[1]) == bits(found[2])
    close(found[0], found[3], 1e-10, 1e-12)
    assert counts[0] == counts[3] == 0 and counts[1] == counts[2] > 2 * stats.steps > 0  # forward and back


@pytest.mark.slow
@pytest.mark.parametrize("room_of_states", [1 << 26, 5 * U.nbytes])
def test_threads_share_the_turns_of_loops_in_programs(room_of_states, monkeypatch):
    monkeypatch.setitem(BACKENDS, "llvm", Native)
    monkeypatch.setattr(within, "LOOP_BYTES", room_of_states)  # with little, a loop is one of loops
    loss = lambda x, c: total(chain(free, (x, 0.5), c, steps=16))
    found, counts = [], []
    for threads in (1, 2, 3):
        f = jit(grad(loss), threads=threads)
        before = shared(threads)
        found.append([f(U, C)])
        counts.append(shared(threads) - before)
        assert "run(" in f.source(U, C)
    assert bits(found[0]) == bits(found[1]) == bits(found[2])
    close(found[0], [grad(loss)(U, C)], 1e-10, 1e-12)
    assert counts[0] == 0 and counts[1] == counts[2] >= 2 * 16


def test_small_nests_are_not_shared():
    before = shared(2)
    loss = lambda x, step: total(driven(step, x, C[:3, :20]))
    one, two = (grad(loss)(U[:3, :20], jit(diffuse, threads=threads)) for threads in (None, 2))
    assert bits([one]) == bits([two]) and shared(2) == before


def test_nobody_is_woken_for_a_short_program(monkeypatch):
    counts = []
    for least in (0, 1 << 20):
        monkeypatch.setattr(backend, "WOKEN_ADDITIONS", least)
        native, before = Native(traced(lambda u: u * 2.0, U), 2), shared(2)
        np.testing.assert_array_equal(native.call(U)[0], U * 2.0)
        counts.append(shared(2) - before)
    assert counts == [1, 0]


def test_an_error_in_a_block_is_the_callers():
    index = np.arange(3001) % 3001
    native = Native(traced(lambda x, k: x[k] * 2.0, X, index), 3)
    np.testing.assert_array_equal(native.call(X, index)[0], X[index] * 2.0)
    index[2000] = 4000
    with pytest.raises(IndexError, match="index 4000 is out of bounds for axis 0 with size 3001"):
        native.call(X, index)


# --- the team ---------------------------------------------------------------------------------------------------------------------------

TURNS = 9999  # some microseconds
x, own, block, k = Var("x", ArrayType("float64", (64,))), Var("own", ArrayType("int64", (64,))), Var("block", "int64"), Var("k", "int64")
position = op("multiply", block, Cast(Load(x, (block,)), "int64"))
work = (
    Assign((k,), (Call("at_least_inside", (position, number(64)), "int64"),)),
    For(k, number(0), number(TURNS), (Store(x, (block,), Call("math.sqrt", (Load(x, (block,)),), "float64")),)),
    Store(own, (block,), Call("thread", (), "int64")),
)
ROOTS = Module((Function("root", (x, own, block), work), Function("roots", (x, own), (Do(Call("root", (x, own), None), 64),))))


def until(condition):
    """Wait until something is so, which may take other threads a while."""
    end = monotonic() + 20.0
    while not condition():
        assert monotonic() < end
        sleep(0.001)


@pytest.mark.slow
def test_helpers_compute_blocks_and_go():
    roots, seen = compiled(ROOTS, "roots", threads=3), set()

    def helped():
        x, own = np.ones(64), np.full(64, -1)
        roots(x, own)
        seen.update(own.tolist())
        return len(seen) > 1

    until(helped)
    assert seen <= {0, 1, 2} and told(3, "DONE") > 0
    until(lambda: told(3, "HELPERS") == 0)
    assert told(3, "RUNNING") == 0


def test_what_is_wrong_in_any_block_of_any_thread_is_an_error():
    roots, numbers, own = compiled(ROOTS, "roots", threads=2), np.ones(64), np.empty(64, int)
    wrong = set()

    def helped():
        for k in (1, 62):
            numbers[:] = 1.0
            numbers[k] = 1e6
            with pytest.raises(IndexError, match="out of bounds"):
                roots(numbers, own)
            wrong.add((k, own[k]))
            numbers[:] = 1.0
            roots(numbers, own)
        return any(thread for _, thread in wrong)

    until(helped)


def test_printed_blocks_run_in_python():
    space = {}
    exec(text_of(ROOTS), space)
    x, own = np.arange(64.0), np.full(64, -1)
    space["at_least_inside"] = lambda n, size: n
    space["roots"](x, own)
    np.testing.assert_array_equal(x, np.arange(64.0) > 0.0)  # roots of roots
    assert not own.any()


def test_several_callers_share_a_team_or_work_alone():
    step = jit(diffuse, threads=2)
    loss = lambda x, c: total(driven(step, x, c))
    expected = bits(grad(loss, (0, 1))(U, C))
    with ThreadPoolExecutor(3) as pool:
        assert all(bits(found) == expected for found in pool.map(lambda _: grad(loss, (0, 1))(U, C), range(12)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own():
    roots = compiled(ROOTS, "roots", threads=2)
    roots(np.ones(64), np.ones(64, int))
    before, child = team.TEAMS[2], os.fork()
    if not child:
        with suppress(BaseException):
            x = np.full(64, 0.25)
            roots(x, np.ones(64, int))
            os._exit(not (np.all(x > 0.99) and team.TEAMS[2] is not before and shared(2) == 1))
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert team.TEAMS[2] is before


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="timers")
def test_an_interrupt_is_heard_while_threads_share_a_chain():
    step = jit(lambda k, x: x + 0.1 * spread(x), threads=2)
    f = lambda steps: chain(step, U, steps=steps)
    expected = bits([f(9)])
    started = monotonic()
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    handler = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            f(100_000_000)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, handler)
    assert monotonic() < started + 10.0 and bits([f(9)]) == expected
    until(lambda: told(2, "RUNNING") == 0)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="a program of its own")
def test_a_program_ends_while_helpers_wait(tmp_path):
    code = "import numpy as np; from dualad import jit; f = jit(lambda u: np.exp(np.sin(u)), threads=3); "
    code += "u = np.ones((400, 400)); [f(u) for _ in range(20)]; from dualad.codegen.team import TEAMS; assert list(TEAMS) == [3]"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
