"""Pictures: what is drawn is what the machine counts."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoint.report.compare import compare
from checkpoint.report.draw import STYLES, History, check_picture, curve_of, plot_schedule, plot_tradeoff
from checkpoint.schedules import CTZ, Online, Periodic, Revolve, StoreAll, Tiered
from checkpoint.schedules.machine import simulate

pytestmark = pytest.mark.slow

matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed")
SCHEDULES = [StoreAll(), CTZ(), CTZ("bisect"), Revolve(3), Periodic(), Online(3), Tiered(1, 2)]


def lines(axes):
    """Start and end of every line of a picture over time, by label."""
    return {collection.get_label(): [segment.tolist() for segment in collection.get_segments()] for collection in axes.collections}


@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
@pytest.mark.parametrize("steps", [1, 2, 3, 5, 16, 40])
def test_every_evaluation_is_drawn_once(schedule, steps):
    axes = plot_schedule(schedule, steps)
    drawn, counts = lines(axes), simulate(schedule, steps)
    length = {label: sum(int(b[0] - a[0]) for a, b in segments) for label, segments in drawn.items()}
    assert length["first sweep"] == steps - 1
    assert length["first sweep"] + length["advanced again"] == counts.advances
    assert [b[1] for a, b in drawn["reversed"]] == list(range(steps - 1, -1, -1))
    assert len(drawn["saved"]) == counts.saves
    assert axes.get_xlim() == (0, counts.advances + steps)
    assert axes.get_xlabel() == "time, in evaluations of the step" and str(counts.advances) in axes.get_title()


@pytest.mark.parametrize("family", ["Revolve", "Periodic", "Online"])
@given(steps=st.integers(2, 200))
def test_the_curves_are_those_of_the_machine(family, steps):
    points = curve_of(family, steps)
    assert points == sorted(points)
    if family == "Periodic":
        made = [Periodic(every=every) for every in range(1, steps + 1) if every * every <= steps]
        assert set(points) <= {(schedule.limit(steps), simulate(schedule, steps).advances) for schedule in made}
    else:
        kind = Revolve if family == "Revolve" else Online
        assert all(simulate(kind(slots), steps).advances == again for slots, again in points[::10])


@pytest.mark.parametrize("steps", [1, 2, 3, 1000])
def test_tradeoff(steps, tmp_path):
    table = compare(steps=steps, state_bytes="1 MB", schedules=SCHEDULES, memory="20 MB")
    axes = table.plot(tmp_path / "picture.svg")
    assert (tmp_path / "picture.svg").read_text().startswith("<?xml")
    _, labels = axes.get_legend_handles_labels()
    assert labels[0].startswith("least possible") and labels[-1] == "budget: 20 MB"
    letters = [note.get_text() for note in axes.texts]
    for row, letter, label in zip(table.rows, letters, labels[1:], strict=False):
        assert label.startswith(f"{letter}  {row.schedule}") and f"{row.work:.3g}x" in label
    assert len(set(letters)) == len(table.rows)
    points = {(line.get_xdata()[0], line.get_ydata()[0]) for line in axes.lines if len(line.get_xdata()) == 1}
    assert points == {(row.bytes, row.work) for row in table.rows}
    assert axes.get_xscale() == axes.get_yscale() == "log"


def test_long_chains_show_the_states_held_longest_and_say_so():
    axes = plot_schedule(CTZ(), 300)
    history = History(CTZ(), 300)
    (label,) = [label for label in lines(axes) if label.startswith("saved")]
    shown = lines(axes)[label]
    assert label == f"saved: the {len(shown)} of {len(history.intervals)} states saved longest" and len(shown) < len(history.intervals)
    held = sorted((end - begin for _, begin, end in history.intervals), reverse=True)
    assert sorted((b[0] - a[0] for a, b in shown), reverse=True) == held[: len(shown)]
    assert min(collection.get_linewidth()[0] for collection in axes.collections) >= 0.6


def test_every_family_has_a_marker_and_a_colour_of_its_own():
    assert all(len({*parts}) == len(STYLES) for parts in zip(*STYLES.values(), strict=True))


def test_other_endings_are_refused_by_the_names_of_those_there_are(tmp_path):
    with pytest.raises(ValueError, match=r"one of .*\.pdf, .*\.png, .*\.svg.*; got .*picture\.doc"):
        check_picture(tmp_path / "picture.doc")


def test_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"plot_schedule needs matplotlib; install it with: pip install 'dualad\[plot\]'"):
        plot_schedule(CTZ(), 10)
    with pytest.raises(ImportError, match=r"Tradeoff.plot needs matplotlib"):
        plot_tradeoff(compare(steps=10, state_bytes=8))
