"""Held: states themselves, with the counts and limits of Memory."""

import pytest

from checkpoint.storage.memory import ByReference


def test_states_are_kept_as_they_are():
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


def test_what_cannot_be_is_refused_as_memory_does():
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
