"""profile: what is counted in a real run is what was predicted; bytes are those of the arrays that are alive."""

import json
import tracemalloc

import numpy as np
import pytest

import dualad
from checkpoint.report.compare import compare
from checkpoint.report.profile import profile
from checkpoint.schedules import CTZ, Mixed, Online, Periodic, Revolve, StoreAll, Tiered
from checkpoint.schedules.machine import simulate
from checkpoint.storage import Disk
from dualad.support.byte_sizes import format_bytes

SCHEDULES = [StoreAll(), CTZ(), CTZ("bisect"), Revolve(3), Periodic(), Online(3), Tiered(1, 2)]
X = np.linspace(-1, 1, 50_000)


def step(k, x):
    return x + 0.1 * np.sin(x)


def pull(k, x, g):
    return g + 0.1 * np.cos(x) * g


@pytest.fixture(scope="module")
def table():
    return profile(step, X, pull=pull, seed=X, steps=40, schedules=SCHEDULES, memory="2 MB")


@pytest.mark.slow
def test_counts_are_those_of_the_prediction(table):
    predicted = compare(steps=40, state_bytes=X.nbytes, schedules=SCHEDULES, memory="2 MB", pull_cost=table.pull_cost)
    assert [row.schedule for row in table.rows] == [row.schedule for row in predicted.rows] and table.memory == 2_000_000
    for row, before in zip(table.rows, predicted.rows, strict=True):
        assert (row.advances, row.bytes, row.work) == (before.advances, before.bytes, before.work)
        assert row.measured.advances == row.advances + 1 and row.measured.peak_states == row.states
        assert row.measured.loads <= row.measured.advances + 40 and row.measured.saves >= row.states


def test_the_cost_of_a_kept_record_is_measured():
    table = profile(step, np.ones(20_000), steps=30, schedules=[StoreAll(), Mixed(30)])
    store, mixed = table.rows
    assert table.costs == ("measured", "measured") and table.record_cost > 0  # by the clock, so no more is asked of it
    for row in (store, mixed):  # one row determines each cost
        assert row.work == pytest.approx(row.measured.work, rel=1e-9)


@pytest.mark.slow
def test_costs_and_works_are_those_of_the_times(table):
    assert table.simulation_seconds > 0
    for measured in (row.measured for row in table.rows):
        assert measured.first_seconds > 0 and measured.reverse_seconds > 0
        assert measured.work == (measured.first_seconds + measured.reverse_seconds) / table.simulation_seconds
    costs = [row.measured.work - (row.advances + 1) / 40 for row in table.rows]
    assert min(costs) <= table.pull_cost <= max(costs) and table.costs == ("measured", "assumed")
    assert f"a pull counts as {table.pull_cost:.3g} step" in str(table).splitlines()[0]


@pytest.mark.slow
def test_peak_memory_is_that_of_the_saved_states_and_a_few_more(table):
    for row in table.rows:
        if not row.disk_bytes:
            assert row.bytes < row.measured.peak_bytes < row.bytes + 9 * X.nbytes
    assert table.rows[0].measured.peak_bytes > 3 * table.rows[1].measured.peak_bytes
    assert not tracemalloc.is_tracing()


def test_shown_beside_the_prediction(table):
    lines = str(table).splitlines()
    assert "one simulation takes" in lines[0] and len({len(line) for line in lines[1:]}) == 1
    assert table.to_markdown().splitlines()[0].split(" | ")[-7:] == [
        "work", "first sweep", "reverse sweep", "time", "peak memory", "saves", "loads |"
    ]  # fmt: skip
    for line, row in zip(table.to_markdown().splitlines()[2:], table.rows, strict=True):
        m = row.measured
        times = [f"{m.first_seconds:.3g} s", f"{m.reverse_seconds:.3g} s", f"{m.work:.2f}x"]
        assert line.split(" | ")[-6:] == [*times, format_bytes(m.peak_bytes), f"{m.saves:,}", f"{m.loads:,} |"]
    assert json.loads(json.dumps(table.to_dict()))["rows"][1]["measured"]["saves"] == table.rows[1].measured.saves


@pytest.mark.slow
def test_plot(table, tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    axes = table.plot(tmp_path / "picture.png")
    points = {(line.get_xdata()[0], line.get_ydata()[0]) for line in axes.lines if len(line.get_xdata()) == 1}
    assert points >= {(row.measured.peak_bytes, row.measured.work) for row in table.rows}
    low, high = axes.get_ylim()
    assert all(low < row.measured.work < high for row in table.rows), "what was measured is inside the picture"
    assert [note.get_text() for note in axes.texts] == [letter for letter in "abcdefgh"[: len(table.rows)] for _ in range(2)]
    assert any("measured" in label for label in axes.get_legend_handles_labels()[1])


def test_seeds_storages_and_a_trace_that_is_on_already(tmp_path):
    tracemalloc.start()
    try:
        table = profile(step, X, pull=pull, seed=lambda x: 2 * x, steps=9, schedules=iter([Revolve(2)]), storage=Disk(tmp_path))
        assert tracemalloc.is_tracing()
    finally:
        tracemalloc.stop()
    assert table.rows[0].measured.peak_states == 2 and list(tmp_path.iterdir()) == []


def test_mixed_pulls_recorded_steps_without_evaluating_them():
    evaluated = []

    def record(k, x):
        evaluated.append(k)
        return step(k, x), lambda g: pull(k, x, g)

    (row,) = profile(step, X, pull=pull, seed=X, steps=40, schedules=[Mixed(3)], record=record).rows
    assert evaluated and (row.measured.advances, row.measured.peak_states) == (row.advances + 1, row.states)
    assert simulate(Mixed(3), 40).advances < simulate(Revolve(3), 40).advances


def chained(k, state, rate, name):
    u, n = state
    return u + rate * np.sin(u), n + 1


@pytest.mark.parametrize("kind", ["plain", "compiled"])
def test_the_pull_is_derived(kind):
    step = dualad.jit(chained, static_argnames="name") if kind == "compiled" else chained
    table = profile(
        step, (np.linspace(-1, 1, 50), 0), 0.1, "run", steps=30, schedules=[StoreAll(), CTZ(), Revolve(3), Mixed(4)], memory="10 kB"
    )
    predicted = compare(steps=30, state_bytes=408, schedules=[StoreAll(), CTZ(), Revolve(3), Mixed(4)], memory="10 kB")
    for row, before in zip(table.rows, predicted.rows, strict=True):
        assert (row.schedule, row.advances) == (before.schedule, before.advances)
        assert row.measured.peak_bytes > 0 and row.measured.first_seconds > 0 and row.measured.reverse_seconds > 0
        if kind == "plain":  # blocks of compiled steps are counted in steps
            assert row.measured.advances == row.advances + 1 and row.measured.peak_states == row.states


PULLED = {"pull": pull, "seed": X}


@pytest.mark.parametrize(
    ("arguments", "options", "error", "reason"),
    [
        ((step, pull, X, X), {}, TypeError, r"a pull is given by its name: profile\(step, state, pull=pull, seed=seed, steps=N\)"),
        ((step, X), {"seed": X}, TypeError, "seed and record go with pull="),
        ((step, X, 0.1), PULLED, TypeError, "takes k and the state only"),
        ((step, X), PULLED | {"steps": 0}, ValueError, "steps must be at least 1"),
        ((step, X), PULLED | {"schedules": ["ctz"]}, TypeError, "schedules must be Schedule values"),
        ((step, X), PULLED | {"schedules": [Mixed(3)]}, TypeError, r"Mixed\(slots=3\) needs record="),
    ],
)
def test_wrong_calls(arguments, options, error, reason):
    with pytest.raises(error, match=f"(profile|sweep): .*{reason}"):
        profile(*arguments, **({"steps": 40} | options))
