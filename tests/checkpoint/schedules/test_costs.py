"""Steps of unequal cost: against exhaustive search, and against the closed form where they are equal."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoint.schedules import Revolve, advances
from checkpoint.schedules.actions import Advance
from checkpoint.schedules.machine import Cursor, executed, simulate
from checkpoint.schedules.revolve import table_of_costs
from checkpoint.support.costs import TABLE_STEPS

COSTS = st.lists(st.integers(0, 20), min_size=1, max_size=14)


def exhaustive(costs, slots):
    @cache
    def least(i, j, s):
        if j - i == 1:
            return 0
        middles = range(i + 1, j) if s > 1 else [j - 1]
        return min(sum(costs[i:m]) + (least(m, j, s - 1) if j - m > 1 else 0) + least(i, m, s) for m in middles)

    return least(0, len(costs), slots)


def spent(schedule, costs):
    """Cost of all advances of a schedule."""
    return sum(sum(costs[slice(*action)]) for action in executed(schedule, Cursor(len(costs))) if type(action) is Advance)


@given(COSTS, st.integers(1, 5))
def test_the_least_cost(costs, slots):
    schedule = Revolve(slots, costs)
    least = exhaustive(tuple(costs), slots)
    assert table_of_costs(schedule.costs, slots).cost == least
    assert spent(schedule, costs) == least <= spent(Revolve(slots), costs)


@given(st.integers(1, 120), st.integers(1, 9), st.sampled_from([1, 0.25, 3]))
def test_equal_costs_are_the_closed_form(steps, slots, cost):
    schedule = Revolve(slots, [cost] * steps)
    assert simulate(schedule, steps).advances == advances(steps, slots)
    assert table_of_costs(schedule.costs, slots).cost == cost * advances(steps, slots)


def test_a_chain_of_some_hundreds():
    costs = np.random.default_rng(3).lognormal(sigma=2.0, size=600)
    assert spent(Revolve(8, costs), costs) == pytest.approx(table_of_costs(tuple(costs), 8).cost, rel=1e-12)
    assert table_of_costs(tuple(costs), 8).cost < 0.8 * spent(Revolve(8), costs)


@pytest.mark.parametrize(
    ("costs", "error", "reason"),
    [
        ([1, -1], ValueError, r"costs\[1\] is -1"),
        ([float("nan")], ValueError, r"costs\[0\] is nan"),
        ([1.0] * (TABLE_STEPS + 1), ValueError, "at most 4096 steps"),
        (3, TypeError, "sequence of numbers"),
        ([None], TypeError, "sequence of numbers"),
    ],
)
def test_bad_costs(costs, error, reason):
    with pytest.raises(error, match=f"Revolve: .*{reason}"):
        Revolve(3, costs)


def test_as_many_costs_as_steps():
    with pytest.raises(ValueError, match="Revolve: costs has 3 entries, but the chain has 4"):
        Revolve(3, [1, 1, 1]).forward(4)
    with pytest.raises(ValueError, match="Revolve: costs has 3 entries"):
        Revolve(3, [1, 1, 1]).reverse(4, [0])
