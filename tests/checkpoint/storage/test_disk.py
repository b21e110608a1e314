"""Disk: states in files, written and read in the background; nothing is left behind."""

import gc
import os
import stat
import subprocess
import sys
import tempfile
import threading
import time
import tracemalloc
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest
from on_disk import written

from checkpoint.storage import DamagedState, Disk
from checkpoint.storage import background as module

FORKS = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
Binary = namedtuple("Binary", "u v")
STATE = {"u": np.arange(6.0).reshape(2, 3), "pair": Binary(1.5, None), "list": [1, True, "name"], "x": np.float32(2)}


@pytest.fixture(autouse=True)
def every_state_in_a_file_of_its_own(monkeypatch):
    monkeypatch.setattr(module, "GATHERED_BYTES", -1)


@pytest.fixture
def session(tmp_path):
    session = Disk(tmp_path).open()
    yield session
    session.clear()
    assert os.listdir(tmp_path) == []
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("checkpoint-")]


@pytest.mark.parametrize("state", [2.5, 3, None, "text", (), [], {"a": ()}, (None, [None]), STATE], ids=str)
def test_any_pytree_comes_back(session, state):
    session.save(0, state)
    with pytest.raises(TypeError, match="leaf of type set"):
        session.save(1, {"a": {1, 2}})
    assert len(session) == 1
    for back in (session.load(0), written(session) or session.load(0)):
        assert repr(back) == repr(state) and back is not STATE


def test_one_private_file_a_state_in_a_private_folder(session, tmp_path):
    session.save(0, STATE)
    session.save(17, STATE)
    written(session)
    (folder,) = tmp_path.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700 or os.name == "nt"
    assert sorted(os.listdir(folder)) == ["000000000000.state", "000000000017.state", "lock"]
    session.drop(0)
    assert sorted(os.listdir(folder)) == ["000000000017.state", "lock"]


def test_a_new_parent_is_private_too_and_the_default_is_the_folder_for_temporary_files(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "a" / "b"))
    sessions = [Disk(str(tmp_path / "a" / "b")).open(), Disk().open()]
    assert not (tmp_path / "a").exists(), "made when something is saved"
    for session in sessions:
        session.save(0, 1.0)
        assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o700 or os.name == "nt"
        assert len(os.listdir(tmp_path / "a" / "b")) == 1
        session.clear()
        assert os.listdir(tmp_path / "a" / "b") == []


class Gate:
    """Stands in for a function of files: it is entered, and waits until it may go on. `calls`: the states that it was called for."""

    def __init__(self, monkeypatch, name):
        self.real = getattr(module, name)
        self.entered, self.open, self.calls = threading.Semaphore(0), threading.Event(), []
        monkeypatch.setattr(module, name, self)

    def __call__(self, path, *rest):
        self.calls.append(int(path.stem))
        self.entered.release()
        assert self.open.wait(timeout=10)
        return self.real(path, *rest)


def test_saving_does_not_wait_for_the_disk(session, monkeypatch):
    gate = Gate(monkeypatch, "write_file")
    session.save(0, np.zeros(3))
    session.save(1, np.ones(3))
    assert gate.entered.acquire(timeout=10)
    assert session.load(1).tolist() == [1, 1, 1], "a state that is not written yet is in main memory"
    third = threading.Thread(target=session.save, args=(2, 2.0))
    third.start()
    third.join(timeout=0.1)
    assert third.is_alive(), "the queue is bounded"
    gate.open.set()
    third.join(timeout=10)
    assert gate.entered.acquire(timeout=10), "the oldest in main memory is being written, before its place is needed"
    assert session.indices() == [0, 1, 2] and gate.calls == [0, 1]


def test_states_that_are_soon_dropped_are_never_written(tmp_path, monkeypatch):
    session = Disk(tmp_path, queue=3).open()
    reads = Gate(monkeypatch, "read_records")
    gate = Gate(monkeypatch, "write_file")
    gate.open.set()
    session.save(0, 0.0)
    for k in range(1, 20):
        session.save(k, float(k))
        assert session.load(k) == k
        session.drop(k)
    assert gate.calls == []
    session.save(1, 1.0)
    session.save(2, 2.0)
    assert gate.entered.acquire(timeout=10) and gate.calls == [0], "three places, three states: the oldest leaves next"
    assert [session.load(k) for k in (0, 1, 2)] == [0.0, 1.0, 2.0] and reads.calls == []
    session.clear()


def test_the_next_state_is_read_ahead(session, monkeypatch):
    for k in range(4):
        session.save(k, float(k))
    written(session)
    gate = Gate(monkeypatch, "read_records")
    gate.open.set()
    assert session.load(3) == 3 and gate.calls == [3]
    assert session.load(3) == 3 and gate.calls == [3], "the newest stays in main memory"
    assert gate.entered.acquire(timeout=10)
    session.drop(3)
    assert gate.entered.acquire(timeout=10), "nobody has asked for it yet"
    assert gate.calls == [3, 2] and session.load(2) == 2
    session.save(5, 5.0)
    assert session.load(5) == 5 and gate.calls == [3, 2], "what was just saved is the newest"
    session.prefetch(0)
    assert gate.entered.acquire(timeout=10) and session.load(0) == 0 and gate.calls == [3, 2, 0]
    assert session.load(1) == 1


def test_an_error_of_the_thread_reaches_the_caller(session, monkeypatch):
    def fail(path, blocks, what):
        raise OSError(28, f"cannot write {what}")

    monkeypatch.setattr(module, "write_file", fail)
    for verb in (lambda: session.save(1, 1.0), lambda: session.drop(0)):
        session.save(0, 0.0)
        for call in (lambda: written(session), verb):
            with pytest.raises(OSError, match="cannot write state 0"):
                call()
        session.clear()


SCRIPT = """
import os, sys, numpy as np
from checkpoint.storage import Disk, background
background.GATHERED_BYTES = -1
sessions = [Disk(sys.argv[1]).open() for _ in range(3)]
for session in sessions:
    session.save(0, np.zeros(100_000))
    session.save(1, np.zeros(100_000))
if sys.argv[2] == "raise":
    raise SystemExit(3)
if sys.argv[2] == "fork" and not os.fork():
    sys.exit(0)
if sys.argv[2] == "fork":
    os.wait()
    assert len(os.listdir(sys.argv[1])) == 3, "a forked process leaves the folders of its parent alone"
"""


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(("how", "code"), [("end", 0), ("raise", 3), pytest.param("fork", 0, marks=FORKS)])
def test_the_interpreter_removes_the_folders_when_it_exits(tmp_path, how, code):
    root = Path(module.__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", SCRIPT, tmp_path, how], cwd=root, capture_output=True, timeout=60)
    assert done.returncode == code, done.stderr.decode()
    assert os.listdir(tmp_path) == []


@pytest.mark.slow
def test_hundreds_of_sessions_leave_no_thread_and_no_open_file(tmp_path):
    if not os.path.exists("/dev/fd"):
        pytest.skip("open files are counted in /dev/fd")
    threads, files = threading.active_count(), len(os.listdir("/dev/fd"))
    for k in range(200):
        session = Disk(tmp_path).open()
        session.save(0, np.zeros(10))
        session.load(0)
        if k % 2:
            session.clear()
    del session
    gc.collect()
    assert os.listdir(tmp_path) == []
    assert (threading.active_count(), len(os.listdir("/dev/fd"))) == (threads, files)


@pytest.fixture
def small(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "GATHERED_BYTES", 1000)
    monkeypatch.setattr(module, "UNWRITTEN_BYTES", 100)
    session = Disk(tmp_path).open()
    yield session
    session.clear()
    assert os.listdir(tmp_path) == []


def test_small_states_and_those_that_are_being_written_fit_into_the_pool(tmp_path, monkeypatch):
    """The older half of the pool was copied while it was written: 1.5 of it."""
    monkeypatch.setattr(module, "UNWRITTEN_BYTES", 1 << 20)
    session, state, peaks = Disk(tmp_path).open(), np.ones(4000), []
    for _ in range(3):  # threads that other tests have left may allocate meanwhile
        tracemalloc.start()
        try:
            for k in range(100):
                session.save(k, state)
            saved = tracemalloc.get_traced_memory()[1]
            for k in reversed(range(100)):
                assert (session.load(k) == state).all()
                session.drop(k)
            peaks.append((saved, tracemalloc.get_traced_memory()[1]))
        finally:
            tracemalloc.stop()
    session.clear()
    saved, loaded = map(min, zip(*peaks, strict=True))
    assert saved <= (1 << 20) + 3 * state.nbytes and loaded <= (1 << 20) + (1 << 18)


def test_small_states_are_written_together_and_read_back_together(small, tmp_path):
    states = {k: (1.0 * k, np.float64(k), k, None, "name", k % 2 == 0, 1j * k, np.float32(k), np.arange(2.0)) for k in range(6)}
    for k, state in states.items():
        small.save(k, state)
    files = sorted(tmp_path.glob("*/*[!k]"))
    assert len(files) < 6 and {file.suffix for file in files} <= {".batch", ".tmp"} and small.indices() == list(range(6))
    assert small.nbytes() == 6 * small.nbytes(3) == 6 * 68
    for k in reversed(range(6)):
        back = small.load(k)
        assert [type(leaf) for leaf in back] == [type(leaf) for leaf in states[k]]
        assert back[:-1] == states[k][:-1] and back[-1].tolist() == [0.0, 1.0] and back[-1].flags.carray
        small.drop(k)
    assert list(tmp_path.glob("*/*.batch")) == [] and small.nbytes() == 0


def test_a_damaged_batch_is_named(small, tmp_path):
    for k in range(20):
        small.save(k, 1.0 * k)
    for file in tuple(small._writing):
        file.written.result()
    for file in tmp_path.glob("*/*.batch"):
        file.write_bytes(b"nothing")
    with pytest.raises(DamagedState, match=r"cannot be read back from .*\.batch"):
        small.load(0)
    small.drop(0)
    assert small.load(19) == 19.0


def test_what_cannot_be_packed_has_a_file(small, tmp_path):
    for k, state in enumerate([2**70, "x" * 5000, np.zeros(1000)]):
        small.save(k, state)
        assert np.array_equal(small.load(k), state)
    assert list(tmp_path.glob("*/*.state")) and not list(tmp_path.glob("*/*.batch"))


def test_it_warns_once_where_writing_outlasts_stepping(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "write_file", lambda path, blocks, what: time.sleep(0.02))
    monkeypatch.setattr(module, "GATHERED_BYTES", -1)
    monkeypatch.setattr(module, "WAIT_WARNING_SECONDS", 0.05)
    session = Disk(tmp_path, queue=1).open()
    with pytest.warns(RuntimeWarning, match=r"Disk: the sweep waited .* s of .* s for states of 80 B.*Disk\(queue=6\)") as warned:
        for k in range(20):
            session.save(k, np.zeros(10))
    assert len(warned) == 1
    session.clear()
