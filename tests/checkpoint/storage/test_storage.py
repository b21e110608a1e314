"""What every storage does: copies in, copies out, counts, errors; one table for all."""

import math
from dataclasses import FrozenInstanceError, fields
from pathlib import Path

import numpy as np
import pytest
from in_groups import for_each

from checkpoint.storage import Disk, Memory, Session, Storage, Tiers, background
from checkpoint.storage.memory import identity
from checkpoint.storage.states import copy_state
from checkpoint.storage.storage import check_storage

STORAGES = {
    "memory": lambda path: Memory(),
    "copied": lambda path: Memory(copy=lambda state: copy_state(state)),
    "as they are": lambda path: Memory(copy=identity),
    "zlib": lambda path: Memory(compress="zlib"),
    "disk": Disk,
    "files": lambda path: Disk(path, queue=1),
    "tiers": lambda path: Tiers(Memory(), Disk(path), {0, 2}),
}


@pytest.fixture(params=STORAGES)
def storage(request, tmp_path, monkeypatch):
    if request.param == "files":
        monkeypatch.setattr(background, "GATHERED_BYTES", -1)
    yield STORAGES[request.param](tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def session(storage):
    session = storage.open()
    yield session
    session.clear()


def test_copies_on_save_and_on_load(storage, session):
    if storage == Memory(copy=identity):
        pytest.skip("it makes no copies")
    x = np.arange(6.0).reshape(2, 3)
    for k in range(4):
        session.save(k, x.T)
    x[:] = -1
    for k in reversed(range(4)):
        first = session.load(k)
        assert first.tolist() == [[0, 3], [1, 4], [2, 5]] and first.flags.carray
        first[:] = -2
        assert session.load(k).tolist() == [[0, 3], [1, 4], [2, 5]] and session.copy(first) is not first


def test_indices_ascend_and_states_are_found(session):
    for k in (0, 8, 4):
        session.save(k, np.full(3, k))
    assert session.indices() == [0, 4, 8] and len(session) == 3 and 8 in session and 3 not in session
    session.drop(8)
    session.save(6, np.zeros(3))
    assert session.indices() == [0, 4, 6] and session.load(4).tolist() == [4, 4, 4]


def test_counts(storage, session):
    session.save(0, np.zeros(10))
    session.save(5, np.zeros(6))
    session.load(5)
    sizes = session.nbytes(0), session.nbytes(5)
    assert sizes == (80, 48) or storage == Memory(compress="zlib")
    assert session.nbytes() == sum(sizes)
    session.drop(0)
    session.save(7, np.zeros(1))
    assert session.nbytes() == sizes[1] + session.nbytes(7)
    session.clear()
    session.clear()
    assert len(session) == 0 and session.nbytes() == 0
    assert (session.saves, session.loads, session.peak_states, session.peak_bytes) == (3, 1, 2, sum(sizes))
    session.save(0, np.full(2, 3.0))
    assert session.load(0).tolist() == [3.0, 3.0], "it can be used again"


def test_sessions_do_not_meet(storage):
    first, second = storage.open(), storage.open()
    first.save(0, np.zeros(1))
    assert 0 not in second and second.saves == 0
    second.save(0, np.ones(1))
    assert first.load(0) == 0.0
    first.clear()
    assert second.load(0) == 1.0
    second.clear()


@pytest.mark.parametrize("state", [2.0, np.zeros(3), (1.0, np.zeros(2))], ids=["number", "array", "pair"])
def test_misuse_is_an_error(storage, session, state):
    session.save(0, state)
    with pytest.raises(ValueError, match=r"(Memory|Disk|Tiers): state 0 is saved already; drop it before saving it again"):
        session.save(0, state)
    for verb in (session.load, session.drop, session.nbytes, *([session.prefetch] if isinstance(storage, Disk) else [])):
        with pytest.raises(KeyError, match=r"(Memory|Disk|Tiers): cannot \w+ state 3: saved are \[0?\]; save it first"):
            verb(3)
    session.drop(0)
    with pytest.raises(KeyError, match="cannot load state 0"):
        session.load(0)


def test_states_that_nobody_writes_into_are_kept_as_they_are():
    session, state = Memory(copy=identity).open(), [1.0, 2.0, 3.0]
    session.save(5, state)
    assert session.load(5) is state is session.copy(state) and session.nbytes(5) == 24


def test_no_more_states_than_slots():
    session = Memory(slots=2).open()
    for k in range(2):
        session.save(k, "a state")
    with pytest.raises(RuntimeError, match=r"Memory: cannot save state 2: all 2 slots hold states \[0, 1\]"):
        session.save(2, "a state")


def test_a_copy_that_fails_leaves_nothing():
    session = Memory(copy=len).open()
    with pytest.raises(TypeError, match="has no len"):
        session.save(0, 1.0)
    assert len(session) == session.nbytes() == 0


VALUES = {
    "Memory()": Memory(),
    "Memory(slots=3)": Memory(slots=np.int64(3)),
    "Memory(compress='float32')": Memory(compress="float32"),
    "Disk()": Disk(),
    f"Disk(path={Path('a')!r}, resume=True)": Disk("a", resume=True),
    "Tiers(memory=Memory(), disk=Disk())": Tiers(),
    "Tiers(memory=Memory(), disk=Disk(), on_disk=frozenset({0, 1}))": Tiers(on_disk=[1, 0]),
}


def test_they_are_values():
    for name, storage in VALUES.items():
        assert repr(storage) == name and isinstance(storage, Storage) and isinstance(storage.open(), Session)
        assert storage.lossy == ("float32" in name) and storage.durable == ("resume" in name)
        check_storage(storage, "chain")
        for field in fields(storage):
            with pytest.raises(FrozenInstanceError):
                setattr(storage, field.name, 3)
    assert len(set(VALUES.values())) == len(VALUES) and Disk("a", resume=True) in VALUES.values()


MISUSE = [
    (Memory, {"slots": 0}, ValueError, "slots must be at least 1"),
    (Memory, {"slots": 2.5}, TypeError, "slots must be an integer"),
    (Memory, {"copy": 3}, TypeError, "copy must be a function"),
    (Memory, {"compress": "gzip"}, ValueError, r'compress must be "zlib" or "float32" \(which is lossy\), got \'gzip\''),
    (Memory, {"compress": "zlib", "copy": copy_state}, TypeError, ".* does not go with a copy of your own"),
    (Disk, {"path": 3}, TypeError, "path must be the name of a folder, got 3"),
    (Disk, {"queue": 0}, ValueError, "queue must be at least 1"),
    (Disk, {"path": "a", "shared": True}, ValueError, "shared goes with resume=True"),
    (Disk, {"path": "a", "resume": True, "shared": "yes"}, TypeError, "shared"),
    (Disk, {"path": "a", "resume": "yes"}, TypeError, "resume must be True or False, got 'yes'"),
    (Disk, {"resume": True}, ValueError, "resume=True needs a path"),
    *[(Disk, {"every": every}, ValueError, "every must be a number of seconds, finite") for every in (-1, math.inf, True)],
    (Disk, {"every": None}, TypeError, "every must be a number of seconds, got None"),
    (Disk, {"every": "1"}, TypeError, "every must be a number of seconds, got '1'"),
    (Tiers, {"disk": "folder"}, TypeError, "disk must be a Storage"),
    (Tiers, {"disk": Disk("a", resume=True)}, ValueError, "states in memory do not outlive the process"),
]


@for_each("kind, arguments, error, reason", MISUSE)
def test_arguments_are_checked(kind, arguments, error, reason):
    with pytest.raises(error, match=f"{kind.__name__}: {reason}"):
        kind(**arguments)
    with pytest.raises(TypeError, match=r"chain: storage must be a Storage such as Memory\(\) or Disk\(path\), got 'disk'"):
        check_storage("disk", "chain")
