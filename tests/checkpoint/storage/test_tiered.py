"""Tiers: two storages, by place in the stack of saved states."""

import pytest

from checkpoint.storage import Disk, Memory, Tiers
from checkpoint.storage.tiered import with_tiers


@pytest.fixture
def session(tmp_path):
    session = Tiers(Memory(), Disk(tmp_path), on_disk={0, 2}).open()
    yield session
    session.clear()


def test_a_place_is_the_number_of_states_saved_before(session):
    for k in (0, 5, 9, 11):
        session.save(k, float(k))
    assert (session.disk.indices(), session.memory.indices()) == ([0, 9], [5, 11])
    session.drop(11)
    session.drop(9)
    session.save(6, 6.0)
    assert (session.disk.indices(), session.memory.indices()) == ([0, 6], [5])
    assert session.indices() == [0, 5, 6] and len(session) == 3 and 6 in session and 9 not in session
    assert [session.load(k) for k in (0, 5, 6)] == [0.0, 5.0, 6.0]


@pytest.mark.parametrize("after", [True, False])
def test_a_drop_that_fails_leaves_both_tiers_with_the_same_states(session, monkeypatch, after):
    """Before the state is gone, or after it, where the thread could not write a file."""

    def failing(index):
        if after:
            dropped(index)
        raise OSError("cannot write")

    for k in range(3):
        session.save(k, float(k))
    dropped = session.disk.drop
    monkeypatch.setattr(session.disk, "drop", failing)
    with pytest.raises(OSError, match="cannot write"):
        session.drop(2)
    tiers = session.memory, session.disk
    assert session.indices() == sorted(k for tier in tiers for k in tier.indices()) == ([0, 1] if after else [0, 1, 2])
    assert session.nbytes() == sum(tier.nbytes() for tier in tiers)
    monkeypatch.undo()
    assert [session.load(k) for k in session.indices()] == [float(k) for k in session.indices()]


def test_what_a_user_chose_becomes_one_tier():
    places = frozenset({0})
    assert with_tiers(Memory(), places) == Tiers(Memory(), Disk(), places)
    assert with_tiers(Memory(compress="zlib"), places) == Tiers(Memory(compress="zlib"), Disk(), places)
    assert with_tiers(Disk("a"), places) == Tiers(Memory(), Disk("a"), places)
    assert with_tiers(Tiers(Memory(), Disk("a")), places) == Tiers(Memory(), Disk("a"), places)
    assert with_tiers(Disk("a"), frozenset()) == Disk("a")
