"""Actions: immutable, hashable, told apart by their type."""

import pytest

from checkpoint.schedules.actions import Advance, Drop, Load, Reverse, Save


@pytest.mark.parametrize("kind", [Save, Load, Drop, Reverse])
def test_an_action_on_a_state_carries_its_index(kind):
    action = kind(3)
    assert action.index == 3
    assert repr(action) == f"{kind.__name__}(index=3)"
    assert action == kind(index=3) and hash(action) == hash(kind(3))
    with pytest.raises(AttributeError):
        action.index = 4


def test_advance_is_a_half_open_range():
    action = Advance(4, 7)
    assert (action.start, action.stop) == (4, 7)
    assert repr(action) == "Advance(start=4, stop=7)"
    with pytest.raises(AttributeError):
        action.stop = 8


def test_kinds_differ():
    assert len({type(kind(0)) for kind in (Save, Load, Drop, Reverse)}) == 4
