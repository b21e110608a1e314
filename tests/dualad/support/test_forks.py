"""A process that forks while its other threads are at work: no lock stays locked in the child, and nothing is half done there."""

import ast
import os
import subprocess
import sys
import threading
from pathlib import Path
from textwrap import dedent

import pytest

from dualad.support import forks

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
FORKS = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")

COMMON = """
import os, sys, threading, time
import numpy as np

entered = threading.Event()

def pause(seconds=60.0):
    entered.set()
    time.sleep(seconds)

def begin(work):
    threading.Thread(target=work, daemon=True).start()
    assert entered.wait(30)

def fork(child):
    pid = os.fork()
    if not pid:
        try:
            child()
            print("right", flush=True)
        finally:
            os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
"""
#: in each a thread is in something for a minute (or as long as it may take) when the process forks
PROGRAMS = {
    "a write": """
        from dualad import jvp

        def f(x):
            y = x * 1.0

            def work():
                with y.level.writing:
                    pause()

            def child():
                y[0] = 5.0
                assert y.primal[0] == 5.0

            begin(work)
            fork(child)
            return y

        jvp(f, (np.ones(3),), (np.ones(3),))
    """,
    "a cached point": """
        from dualad import value_and_jacobian
        waits = [True]
        both = value_and_jacobian(lambda x: (pause() if waits else None, x**3)[1], cache=True)

        def child():
            waits.clear()
            assert np.array_equal(both.jacobian(np.ones(3)), 3.0 * np.eye(3))

        begin(lambda: both.value(np.ones(3)))
        fork(child)
    """,
    "a measurement": """
        import tracemalloc
        from dualad.support.measured import measure_peak

        def child():
            assert not tracemalloc.is_tracing()
            assert measure_peak(lambda: len(bytes(100_000)))[1] >= 100_000 and not tracemalloc.is_tracing()

        begin(lambda: measure_peak(pause))
        fork(child)
    """,
    "a pull": """
        from checkpoint import chain, vjp
        waits = []

        def step(k, x):
            if waits and k == 7:
                pause()
            return 0.4 + 0.3 * x * x

        x = y = np.array([0.5, 1.0, 2.0])
        slope = 1.0
        for _ in range(16):
            slope, y = slope * 0.6 * y, 0.4 + 0.3 * y * y
        value, pull = vjp(lambda x: chain(step, x, steps=16), x)

        def work():
            waits.append(True)
            pull(np.ones(3))

        def child():
            waits.clear()
            np.testing.assert_allclose(pull(np.ones(3))[0], slope, rtol=1e-13)

        begin(work)
        fork(child)
    """,
    "a property": """
        from dualad.support.forks import cached_property

        class Slow:
            waits = True

            @cached_property
            def value(self):
                return pause() if self.waits else 3

        def child():
            other = Slow()
            other.waits = False
            assert other.value == 3

        begin(lambda: Slow().value)
        fork(child)
    """,
    "the first import of LLVM": """
        import dualad
        assert "logging" not in sys.modules  # its hook is younger than that of dualad
        from dualad import jit

        class Slow:
            def find_spec(name, path=None, target=None):
                if name == "llvmlite":
                    sys.meta_path.remove(Slow)
                    pause(1.0)  # in which the process begins to fork
                    import logging
                    logging.getLogger(name)

        def child():
            assert jit(lambda x: 2.0 * x, backend="llvm")(np.ones(3))[1] == 2.0

        sys.meta_path.insert(0, Slow)
        begin(lambda: jit(lambda x: 3.0 * x, backend="llvm")(np.ones(3)))
        fork(child)
    """,
    "a compilation": """
        from dualad import gradient, jit

        def work():
            for k in range(1000):
                jit(gradient(lambda x: np.sum(np.tanh(x * (2.0 + k)))), backend="llvm")(np.ones(3))
                entered.set()

        def child():
            g = jit(gradient(lambda x: np.sum(x**turn)), backend="llvm")(np.array([1.0, 2.0]))
            np.testing.assert_allclose(g, turn * np.array([1.0, 2.0]) ** (turn - 1.0))

        begin(work)
        for turn in range(2, 2 + TURNS):
            time.sleep(0.013 * turn)
            fork(child)
    """,
}


def told(program, folder, turns=2):
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", COMMON + f"TURNS = {turns}\n" + dedent(program) + "\nos._exit(0)"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "DUALAD_CACHE_DIR": str(folder)}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as process:
        try:
            out = process.communicate(timeout=60 + turns)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)  # with its children
            raise
    assert process.returncode == 0, out
    return out


@FORKS
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_child_of_a_process_whose_other_thread_is_in(name, tmp_path):
    if name in ("the first import of LLVM", "a compilation"):
        pytest.importorskip("llvmlite")
    if name == "the first import of LLVM" and sys.version_info >= (3, 12):
        pytest.skip("CPython's own module locks are not given free in the child there: seen to hang on 3.13")
    out = told(PROGRAMS[name], tmp_path)
    assert out.split() == ["right"] * max(1, PROGRAMS[name].count("TURNS") * 2)


@FORKS
@pytest.mark.campaign
def test_many_children_of_a_process_that_compiles(tmp_path):
    pytest.importorskip("llvmlite")
    assert told(PROGRAMS["a compilation"], tmp_path, 30).split() == ["right"] * 30


def test_locks_are_taken_in_any_order(monkeypatch):
    first, second = threading.RLock(), threading.RLock()
    monkeypatch.setattr(forks, "HELD", [first, second])
    has_second = threading.Event()

    def work():
        with second:
            has_second.set()
            assert first.acquire(timeout=30)  # taken first by the fork
            first.release()

    thread = threading.Thread(target=work)
    thread.start()
    has_second.wait(30)
    forks.acquire_locks()
    assert {*map(id, forks.TAKEN)} == {id(first), id(second)}
    thread.join(30)
    assert not thread.is_alive()
    forks.release_locks()
    assert not forks.TAKEN and first.acquire(blocking=False) and second.acquire(blocking=False)


#: locks that forks need not know: a job of a thread that the child does not have; a child's folder of a fit has a new table of them
APART = {"checkpoint/storage/worker.py", "checkpoint/durable/fit_folder.py"}


def test_every_lock_is_known_to_forks():
    made = {"Lock", "RLock", "Condition", "Semaphore", "BoundedSemaphore", "Barrier", "allocate_lock", "cached_property"}
    for path in sorted(path for package in ("dualad", "checkpoint") for path in (ROOT / package).rglob("*.py")):
        text = path.read_text()
        if str(path.relative_to(ROOT)) in APART or path == Path(forks.__file__) or not any(name in text for name in made):
            continue
        nodes = list(ast.walk(ast.parse(text)))
        taken = {
            name.name
            for node in nodes
            if isinstance(node, ast.ImportFrom) and node.module in ("threading", "_thread", "multiprocessing", "functools")
            for name in node.names
        }
        attributes = [node for node in nodes if isinstance(node, ast.Attribute)]
        taken |= {node.attr for node in attributes if ast.unparse(node.value) in ("threading", "functools")}
        if path.name in ("reads.py", "places.py"):
            taken.discard("cached_property")  # they ask whether a member is one
        assert not taken & made, path
