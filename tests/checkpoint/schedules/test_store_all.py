"""StoreAll: everything is saved, nothing is computed twice."""

import pytest

from checkpoint.schedules import StoreAll
from checkpoint.schedules.actions import Advance, Save
from checkpoint.schedules.machine import Counts, simulate


@pytest.mark.parametrize("steps", [1, 2, 3, 50])
@pytest.mark.parametrize("known", [True, False])
def test_counts(steps, known):
    assert simulate(StoreAll(), steps, known=known) == Counts(steps, steps - 1, steps - 1, steps, steps)


def test_actions():
    assert list(StoreAll().forward(3)) == [Save(0), Advance(0, 1), Save(1), Advance(1, 2), Save(2)]
    assert StoreAll().limit(7) == 7
    assert repr(StoreAll()) == "StoreAll()"


def test_reverse_wants_every_state():
    with pytest.raises(ValueError, match="StoreAll: saved must hold all 3 states, got 2"):
        StoreAll().reverse(3, [0, 2])
