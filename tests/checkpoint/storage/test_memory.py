"""Memory: copies in, copies out, counts, limits."""

import numpy as np
import pytest

from checkpoint.storage import Memory, Session, Storage
from checkpoint.storage.memory import ByReference


def test_copies_on_save_and_on_load():
    session = Memory().open()
    x = np.arange(3.0)
    session.save(0, x)
    x[:] = -1
    first = session.load(0)
    assert first.tolist() == [0, 1, 2]
    first[:] = -2
    assert session.load(0).tolist() == [0, 1, 2]


def test_saved_states_are_contiguous():
    session = Memory().open()
    session.save(0, np.arange(6.0).reshape(2, 3).T)
    assert session.load(0).flags.carray


def test_counts():
    session = Memory().open()
    session.save(0, np.zeros(10))
    session.save(5, (np.zeros(5), 1.0))
    session.load(5)
    assert len(session) == 2 and 5 in session and 3 not in session
    assert session.indices() == [0, 5]
    assert (session.nbytes(0), session.nbytes(5), session.nbytes()) == (80, 48, 128)
    session.drop(0)
    session.save(7, 1.0)
    assert session.nbytes() == 56
    session.clear()
    session.clear()
    assert len(session) == 0 and session.nbytes() == 0
    assert (session.saves, session.loads, session.peak_states, session.peak_bytes) == (3, 1, 2, 128)


def test_indices_ascend():
    session = Memory().open()
    for k in (0, 8, 4):
        session.save(k, 1.0)
    assert session.indices() == [0, 4, 8]


def test_sessions_do_not_meet():
    storage = Memory()
    first, second = storage.open(), storage.open()
    first.save(0, 1.0)
    assert 0 not in second and second.saves == 0
    second.save(0, 2.0)
    assert first.load(0) == 1.0


@pytest.mark.parametrize("state", [2.0, np.zeros(3)], ids=["number", "array"])
def test_misuse_is_an_error(state):
    session = Memory().open()
    session.save(0, state)
    with pytest.raises(ValueError, match="state 0 is saved already"):
        session.save(0, state)
    for verb in (session.load, session.drop, session.nbytes):
        with pytest.raises(KeyError, match=r"state 3: saved are \[0\]"):
            verb(3)
    session.drop(0)
    with pytest.raises(KeyError, match="cannot load state 0"):
        session.load(0)


def test_a_full_storage_raises_and_keeps_what_it_has():
    session = Memory(slots=2).open()
    session.save(0, 0.0)
    session.save(1, 1.0)
    with pytest.raises(RuntimeError, match=r"cannot save state 2: all 2 slots hold states \[0, 1\]"):
        session.save(2, 2.0)
    assert session.indices() == [0, 1] and session.load(0) == 0.0
    session.drop(1)
    session.save(2, 2.0)


def test_a_foreign_copy():
    class Box:
        def __init__(self, value):
            self.value = value

    session = Memory(copy=lambda box: Box(box.value)).open()
    box = Box(1)
    session.save(0, box)
    box.value = 2
    assert session.load(0).value == 1
    assert session.load(0) is not session.load(0)
    assert session.copy(box) is not box


def test_a_copy_that_fails_leaves_nothing():
    def fail(state):
        raise MemoryError

    session = Memory(copy=fail).open()
    with pytest.raises(MemoryError):
        session.save(0, np.zeros(3))
    assert len(session) == 0 and session.nbytes() == 0


def test_value():
    assert Memory() == Memory() and hash(Memory()) == hash(Memory())
    assert Memory(slots=3) != Memory()
    assert isinstance(Memory(), Storage) and isinstance(Memory().open(), Session)
    with pytest.raises(AttributeError):
        Memory().slots = 3


def test_bad_arguments():
    with pytest.raises(ValueError, match="Memory: slots must be at least 1"):
        Memory(slots=0)
    with pytest.raises(TypeError, match="Memory: slots must be an integer"):
        Memory(slots=2.5)
    with pytest.raises(TypeError, match="Memory: copy must be a function"):
        Memory(copy=3)


# ------------------------------------------------------------------------------------------------------- by reference


def test_by_reference_states_are_kept_as_they_are():
    session, states = ByReference(size=24).open(), [[float(k)] for k in range(3)]
    for k, state in enumerate(states):
        session.save(5 * k, state)
    assert session.load(5) is states[1] and session.copy(states[0]) is states[0]
    session.drop(5)
    assert session.indices() == [0, 10] and len(session) == 2 and 10 in session and 5 not in session
    assert (session.saves, session.loads, session.peak_states, session.peak_bytes) == (3, 1, 3, 72)
    assert (session.nbytes(), session.nbytes(10)) == (48, 24)
    session.clear()
    assert not len(session) and session.nbytes() == 0


def test_by_reference_what_cannot_be_is_refused_as_memory_does():
    session = ByReference(slots=2, size=8).open()
    session.save(0, "a state")
    with pytest.raises(ValueError, match=r"Memory: state 0 is saved already; drop it before saving it again"):
        session.save(0, "another")
    session.save(1, "a state")
    with pytest.raises(RuntimeError, match=r"Memory: cannot save state 2: all 2 slots hold states \[0, 1\]"):
        session.save(2, "a state")
    for verb in ("load", "drop", "nbytes"):
        with pytest.raises(KeyError, match=rf"Memory: cannot {verb.replace('nbytes', 'measure')} state 7: saved are \[0, 1\]"):
            getattr(session, verb)(7)
