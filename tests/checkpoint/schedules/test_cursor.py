"""The cursor: what actions mean on indices; `test_machine` and the tests of schedules run whole schedules through it."""

from __future__ import annotations

from itertools import accumulate, islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoint import Stats, Sweep, draw
from checkpoint.schedules import CTZ, Mixed, Online, Periodic, Revolve, StoreAll, Tiered
from checkpoint.schedules.actions import Reverse, Save
from checkpoint.schedules.blocks import evaluations
from checkpoint.schedules.history import History
from checkpoint.schedules.machine import Cursor, simulate
from checkpoint.sweep import reverse

slots = st.integers(1, 9)
COSTS = [1.0, 7.0, 2.0, 3.0]


def of_known_length(steps):
    """All kinds of schedules, with any arguments."""
    return st.one_of(
        st.sampled_from([CTZ(), CTZ("bisect"), StoreAll(), Periodic(), Revolve(2, (COSTS * steps)[:steps])]),
        *(st.builds(kind, slots) for kind in (Revolve, Online, Mixed)),
        *(st.builds(Periodic, **{argument: slots}) for argument in ("every", "segments")),
        st.builds(Tiered, slots, st.integers(0, 4)),
    )


CHAINS = st.integers(1, 70).flatmap(lambda steps: st.tuples(of_known_length(steps), st.just(steps)))


@given(CHAINS)
def test_all_that_execute_or_show_a_schedule_agree(chain):
    schedule, steps = chain
    counts = simulate(schedule, steps)
    sweep = Sweep(lambda k, x: x + 1, 0, steps=steps, schedule=schedule, record=lambda k, x: (x + 1, lambda g: [*g, k]))
    with sweep:
        assert sweep.forward() == steps
        pulled = sweep.backward(lambda k, x, g: [*g, k] if x == k else None, [])
    assert pulled == [*range(steps)][::-1], "each step is pulled from its own state"
    stats = sweep.stats
    assert stats.advances == counts.advances + (steps > 0) and stats.pulls == counts.pulls == steps
    last = Save(steps - 1) in schedule.forward(steps)  # the sweep loads x_{N-1} then: it was not kept as the working state
    assert (stats.saves, stats.loads, stats.peak_states) == (counts.saves, counts.loads + last, counts.peak_states)

    history = History(schedule, steps)
    assert [line[1][1] for line in history.lines["reversed"]] == pulled
    assert len(history.saves) == len(history.intervals) == counts.saves + counts.records
    assert history.now == counts.advances + steps
    moments = sorted((time, change) for _, *ends in history.intervals for time, change in zip(ends, (1, -1), strict=True))
    assert max(accumulate((change for _, change in moments), initial=0)) <= counts.peak_states
    assert evaluations(schedule, steps, 1, False) == counts.advances + counts.records + 1

    title, *_, last = draw(schedule, steps).splitlines()
    assert f" {counts.advances} advances, at most {counts.peak_states} states saved" in title and last == "reverse 0    ^"


@pytest.mark.parametrize("schedule", [CTZ(), StoreAll(), Periodic(3), Online(1), Online(4)], ids=repr)
@given(steps=st.integers(0, 60))
def test_a_length_that_shows_only_at_the_end_is_executed_as_the_law_says(schedule, steps):
    counts, stats = simulate(schedule, steps, known=False), Stats()
    result = reverse(lambda k, x: x + 1, lambda k, x, g: g + (x == k), 0, 0, until=lambda k, x: k == steps, schedule=schedule, stats=stats)
    assert (result.final, result.cotangent) == (steps, steps)
    assert (stats.advances, stats.saves) == (counts.advances + (steps > 0), counts.saves)


@given(CHAINS, st.data())
def test_a_sweep_that_is_cut_anywhere_goes_on_from_where_the_cursor_stands(chain, data):
    schedule, steps = chain
    whole = list(schedule.forward(steps))
    cut = data.draw(st.integers(0, len(whole)))
    cursor, actions = Cursor(steps), schedule.forward(steps)
    cursor.run(islice(actions, cut))
    assert list(actions) == whole[cut:]
    cursor.run(whole[cut:])
    assert cursor.working == steps - 1
    cursor.end_forward(steps)
    reverse = list(schedule.reverse(steps, sorted(cursor.saved)))
    cut = data.draw(st.integers(0, len(reverse)))
    cursor.run(reverse[:cut])
    assert cursor.next == steps - sum(type(action) is Reverse for action in reverse[:cut])
    cursor.run(reverse[cut:])
    cursor.check_end()
