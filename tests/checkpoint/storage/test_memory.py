"""Memory: copies in, copies out, counts, limits."""

import numpy as np
import pytest

from checkpoint.storage import Memory, Session, Storage


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
