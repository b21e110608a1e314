"""compare: counts of the machine, as text, Markdown and data."""

import json

import numpy as np
import pytest

from checkpoint.report.compare import compare
from checkpoint.schedules import CTZ, Mixed, Revolve, StoreAll, Tiered
from checkpoint.schedules.machine import simulate
from checkpoint.sweep.plan import plan


def test_rows():
    table = compare(steps=1000, state_bytes="8MB", schedules=[StoreAll(), CTZ(), Revolve(10)])
    found = [(row.states, row.bytes / 10**6, row.advances, row.work) for row in table.rows]
    assert found == [(1000, 8000, 999, 2.0), (11, 88, 3781, 4.782), (10, 80, 3636, 4.637)]


def test_markdown():
    lines = compare(steps=100, state_bytes=8, schedules=[CTZ()]).to_markdown().splitlines()
    assert lines == [
        "| schedule | saved states | memory | advances | work |",
        "| --- | ---: | ---: | ---: | ---: |",
        "| CTZ(refill='binomial') | 8 | 64 B | 274 | 3.75x |",
    ]


def test_dict_is_plain_data():
    data = json.loads(json.dumps(compare(steps=10, state_bytes=8, schedules=[Revolve(3)]).to_dict()))
    costs = {"pull_cost": 1.0, "record_cost": 8 / 3, "costs": ["assumed", "assumed"]}
    row = {"schedule": "Revolve(slots=3)", "states": 3, "bytes": 24, "advances": 15, "work": 2.6, "disk_bytes": 0, "records": 0}
    whole = {"steps": 10, "state_bytes": 8, "memory": None, "simulation_seconds": None, **costs}
    assert data == {**whole, "rows": [{**row, "measured": None}]}


def test_work_counts_pulls_and_kept_records():
    """Mixed(N) records every step but the last, which the turn pulls at once, and advances none."""
    table = compare(steps=50, state_bytes="1 MB", schedules=[StoreAll(), Mixed(50), Mixed(5)], pull_cost=3.0, record_cost=7.0)
    store, mixed, few = table.rows
    assert (mixed.records, mixed.advances, store.records) == (49, 0, 0)
    assert store.work == (49 + 1 + 3 * 50) / 50 and mixed.work == (1 + 3 + 7 * 49) / 50
    assert 0 < few.records < 50 and few.work == (few.advances + 1 + 3 * (50 - few.records) + 7 * few.records) / 50
    assert few.advances + few.records == simulate(Mixed(5), 50).advances + simulate(Mixed(5), 50).records
    assert table.to_text().startswith("50 steps, a state of 1 MB; a pull counts as 3 steps (given), a recorded step as 7 (given)\n"), (
        "the table says which costs it counts"
    )


@pytest.mark.parametrize(("given", "costs"), [({}, (1.0, 8 / 3)), ({"pull_cost": 2}, (2.0, 4.0)), ({"record_cost": 9}, (1.0, 9.0))])
def test_costs_that_are_not_given_are_assumed_and_named(given, costs):
    table = compare(steps=100, state_bytes=8, schedules=[StoreAll(), Mixed(99)], **given)
    assert (table.pull_cost, table.record_cost) == costs
    assert table.costs == tuple("given" if name in given else "assumed" for name in ("pull_cost", "record_cost"))
    assert table.rows[0].work < table.rows[1].work, "keeping all records takes longer than keeping all states"
    assert f"({table.costs[1]})" in str(table).splitlines()[0]
    assert compare(steps=9, state_bytes=8, schedules=[CTZ()]).to_text().startswith("9 steps, a state of 8 B\n")


def test_what_is_on_disk_has_a_column_of_its_own():
    table = compare(steps=30, state_bytes="1 MB", schedules=[Tiered(2, 2), Revolve(4)])
    assert [(row.bytes, row.disk_bytes, row.states) for row in table.rows] == [(2 * 10**6, 2 * 10**6, 4), (4 * 10**6, 0, 4)]
    assert "memory  disk  advances" in str(table) and "| memory | disk | advances |" in table.to_markdown()


def test_a_budget_adds_the_schedule_that_is_planned_for_it():
    table = compare(steps=1000, state_bytes="8 MB", memory="200 MB")
    assert table.memory == 200_000_000 and table.rows[-1].schedule == str(plan(1000, "8 MB", "200 MB").schedule)
    assert table.rows[-1].bytes <= table.memory
    assert len(compare(steps=1000, state_bytes="8 MB", memory="200 MB", schedules=[Revolve(22)]).rows) == 1


def test_a_state_may_be_given_itself_and_a_schedule_alone():
    state = {"u": np.zeros((10, 10)), "t": 0.5}
    assert compare(steps=10, state_bytes=state).state_bytes == 808
    assert compare(steps=10, state_bytes=np.zeros(())).state_bytes == 8  # an array of one number is a state, a NumPy number a size
    assert compare(steps=10, state_bytes=np.int64(100)).state_bytes == 100
    assert plan(10, state, 8080e3) == plan(10, 808, "8.08 MB")
    assert compare(steps=10, state_bytes=8, schedules=CTZ()) == compare(steps=10, state_bytes=8, schedules=[CTZ()])


def test_errors():
    for options, error, reason in (
        ({"steps": 0}, ValueError, "steps must be at least 1"),
        ({"steps": 10**9}, ValueError, "steps must be at most 10000000"),
        ({"schedules": ["ctz"]}, TypeError, "schedules must be Schedule values"),
        ({"schedules": 3}, TypeError, "schedules must be Schedule values"),
        ({"state_bytes": "8 XB"}, ValueError, "state_bytes: cannot read '8 XB'"),
        ({"memory": "much"}, ValueError, "memory: cannot read"),
        *[({name: bad}, ValueError, f"{name} must be") for name in ("pull_cost", "record_cost") for bad in (-1.0, float("nan"))],
        *[({name: "much"}, TypeError, f"{name} must be") for name in ("pull_cost", "record_cost")],
    ):
        with pytest.raises(error, match=f"compare: {reason}"):
            compare(**{"steps": 10, "state_bytes": 8} | options)
