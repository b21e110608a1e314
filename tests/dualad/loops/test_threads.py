"""Loops in blocks: the same bits for every number of threads, of every kind of nest."""

from __future__ import annotations

import os
import threading
import time

import numpy as np
import optree
import pytest
from interpreted import traced

pytest.importorskip("llvmlite")

from checkpoint import Stats, chain, grad
from checkpoint.loops import traced as within
from dualad import jit, jvp
from dualad.codegen import emit
from dualad.codegen.native import Native, compile_llvm
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
    monkeypatch.setattr(emit, "SHARED_ADDITIONS", 0)


def bits(outs):
    return [(np.asarray(out).dtype, np.asarray(out).shape, np.asarray(out).tobytes()) for out in outs]


@pytest.mark.parametrize("name", CASES)
def test_the_same_bits_for_every_number_of_threads(name):
    f, args = CASES[name]
    natives = [compile_llvm(traced(f, *args), threads) for threads in (1, 2, 3)]
    expected = f(*args)
    results = [native.call(*args) for native in natives]
    for got, right in zip(results[0], expected if isinstance(expected, tuple) else (expected,), strict=True):
        np.testing.assert_allclose(got, right, rtol=1e-6 if np.asarray(right).dtype == np.float32 else 1e-11, atol=1e-7)
    assert bits(results[0]) == bits(results[1]) == bits(results[2])
    assert bits(natives[2].raw(*args)) == bits(results[0]) or name == "a call between"
    assert len({native.source for native in natives}) == 1
    assert bool(natives[0].emitted.blocks) == (name != "reduction along an axis")


def test_the_number_of_blocks_rests_on_the_shape():
    native = compile_llvm(traced(lambda u: u * 2.0, U), 2)
    (blocks,) = native.emitted.blocks.values()
    assert blocks == 31 and not compile_llvm(traced(lambda u: u * 2.0, U)).emitted.blocks  # of 2 rows, 134 elements
    assert not compile_llvm(traced(lambda u: u * 2.0, U[:3, :20]), 2).emitted.blocks


def test_through_jit_and_its_derivatives(monkeypatch):
    monkeypatch.setitem(BACKENDS, "llvm", compile_llvm)
    found = []
    for threads in (1, 2, 3):
        f = jit(lambda x, y: np.sum(np.sin(x) * np.exp(-(y**2))), threads=threads)
        found.append([f(X, Y), f(X, Y), jvp(f, (X, Y), (Y, X))[1], jit(lambda x, f=f: f(x, Y), threads=threads)(X)])
        made = next(iter(f.entries.values())).compiled.executable
        assert isinstance(made, Native) and made.emitted.blocks
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


@pytest.fixture
def submitted(monkeypatch):
    """The tasks that are given to other threads."""
    given, tasks_of = [], room.tasks_of

    class Counted:
        def __init__(self, *key):
            self.tasks = tasks_of(*key)

        def put(self, task):
            given.append(task)
            self.tasks.put(task)

    monkeypatch.setattr(room, "tasks_of", Counted)
    return given


def close(found, expected):
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", CHAINS)
def test_threads_share_the_steps_of_compiled_chains(name, submitted):
    step, chained = CHAINS[name]
    found, counts = [], []
    for threads in (1, 2, 3, None):
        stats, compiled = Stats(), step if threads is None else jit(step, threads=threads)
        loss = lambda x, c, step=compiled, stats=stats: total(chained(step, x, c, stats=stats))
        submitted.clear()
        found.append([loss(U, C), *grad(loss, (0, 1))(U, C)])
        counts.append(len(submitted))
        assert threads is None or "compiled steps" in stats.reason
    assert bits(found[0]) == bits(found[1]) == bits(found[2])
    close(found[0], found[3])
    assert counts[0] == 0 and counts[1] > 2 * stats.steps > 0 and counts[2] == 2 * counts[1]  # forward and back


@pytest.mark.parametrize("room_of_states", [1 << 26, 5 * U.nbytes])
def test_threads_share_the_turns_of_loops_in_programs(room_of_states, submitted, monkeypatch):
    monkeypatch.setitem(BACKENDS, "llvm", compile_llvm)
    monkeypatch.setattr(within, "TRACED_STATES_BYTES", room_of_states)  # with little, a loop is one of loops
    loss = lambda x, c: total(chain(free, (x, 0.5), c, steps=16))
    found, counts = [], []
    for threads in (1, 2, 3):
        f = jit(grad(loss), threads=threads)
        submitted.clear()
        found.append([f(U, C)])
        counts.append(len(submitted))
        assert "run(" in f.source(U, C)
    assert bits(found[0]) == bits(found[1]) == bits(found[2])
    close(found[0], [grad(loss)(U, C)])
    assert counts[0] == 0 and counts[1] >= 2 * 16 and counts[2] == 2 * counts[1]


def test_small_steps_stay_in_one_compiled_loop(submitted):
    loss = lambda x, step: total(driven(step, x, C[:3, :20]))
    one, two = (grad(loss)(U[:3, :20], jit(diffuse, threads=threads)) for threads in (None, 2))
    assert bits([one]) == bits([two]) and not submitted


@pytest.mark.parametrize("name", CHAINS)
def test_blocks_of_small_nests_stay_in_one_compiled_loop_with_the_same_bits(name, submitted, monkeypatch):
    step, chained = CHAINS[name]
    found = []
    for additions in (0, 1 << 40):
        monkeypatch.setattr(emit, "SHARED_ADDITIONS", additions)
        submitted.clear()
        compiled = jit(step, threads=2)
        loss = lambda x, c, compiled=compiled: total(chained(compiled, x, c))
        found.append([loss(U, C), *grad(loss, (0, 1))(U, C)])
        assert bool(submitted) is not bool(additions)
    assert bits(found[0]) == bits(found[1])


def test_an_error_in_a_block_is_the_callers():
    index = np.arange(3001) % 3001
    native = compile_llvm(traced(lambda x, k: x[k] * 2.0, X, index), 3)
    np.testing.assert_array_equal(native.call(X, index)[0], X[index] * 2.0)
    index[2000] = 4000
    with pytest.raises(IndexError, match="index 4000 is out of bounds for axis 0 with size 3001"):
        native.call(X, index)


@pytest.mark.parametrize("threads", [0, -1, 2.0, True, "2"])
def test_wrong_numbers_of_threads(threads):
    with pytest.raises(ValueError, match=r"threads is .*: give the number of threads"):
        jit(lambda x: x, threads=threads)


@pytest.mark.parametrize("where", ["here", "elsewhere"])
def test_nobody_works_on_when_an_error_is_raised(where):
    here, begun, active = threading.get_ident(), threading.Barrier(2), set()

    def part(total, block):
        active.add(block)
        if block < 2:
            begun.wait(10.0)  # one block in this thread, one in the other
        if block < 2 and (threading.get_ident() == here) == (where == "here"):
            active.remove(block)
            raise ArithmeticError
        time.sleep(0.002)
        active.remove(block)

    with pytest.raises(ArithmeticError):
        room.runner(2)(part, 9, (None,))
    assert not active
    seen = []
    room.runner(2)(lambda block: seen.append(block), 9, ())
    assert sorted(seen) == list(range(9))


def test_a_forked_process_has_threads_of_its_own():
    assert room.tasks_of(os.getpid(), 2) is room.tasks_of(os.getpid(), 2)
    assert room.tasks_of(-1, 2) is not room.tasks_of(os.getpid(), 2)
