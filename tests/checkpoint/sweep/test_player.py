"""The player: actions on states, in counts and bytes."""

import numpy as np
import pytest

from checkpoint.schedules import Mixed
from checkpoint.schedules.actions import Advance, Drop, Load, Record, Reverse, Save
from checkpoint.storage import Memory
from checkpoint.sweep import reverse
from checkpoint.sweep.player import Player

X = np.ones(10)


class Pullback:
    nbytes = 1000

    def __call__(self, g):
        return 2.0 * g


def double(k, x):
    return 2.0 * x


def record(k, x):
    return 2.0 * x, Pullback()


def test_records_count_in_the_bytes_as_they_say():
    session = Memory().open()
    player = Player(session, X, double, record)
    pull = player.using_records(lambda k, x, g: 2.0 * g)
    x, _ = player.play(double, [Save(0), Advance(0, 1), Record(1), Record(2)], 0, 3, X.copy())
    assert x.tolist() == [8.0] * 10 and sorted(player.pullbacks) == [1, 2]
    assert (player.advances, player.peak_states, player.peak_bytes) == (1, 3, 2080)
    actions = [Reverse(3), Reverse(2), Reverse(1), Load(0), Drop(0), Reverse(0)]
    _, g = player.play(double, actions, 3, None, x, pull, 1.0, 4)
    assert (g, player.pulls, player.peak_bytes, player.pullbacks, len(session)) == (16.0, 4, 2080, {}, 0)
    player.play(double, [Record(0)], 0, 1, X)
    player.clear()
    player.play(double, [Record(0)], 0, 1, X)
    assert player.peak_bytes == 2080 and len(player.pullbacks) == 1


def test_stats_of_a_sweep_have_them():
    result = reverse(double, lambda k, x, g: 2.0 * g, X, X, steps=10, schedule=Mixed(3), record=record)
    assert result.stats.peak_states == 3 and result.stats.peak_bytes == 3000, "three records"


@pytest.mark.parametrize("action", [Save(1), Advance(1, 2), Record(1), Reverse(1), "save"], ids=str)
def test_actions_at_the_wrong_place_raise(action):
    with pytest.raises((RuntimeError, TypeError), match=r"asks for .* while the working state is x_0|not an action"):
        Player(Memory().open(), X, double, record).play(double, [action], 0, 3, X, double, 1.0, 2)
