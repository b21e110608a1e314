"""Bars: one for each phase, total known or not, closed when anything raises; a clear error without tqdm."""

import sys

import pytest

from checkpoint.schedules import Mixed, StoreAll
from checkpoint.storage import Disk
from checkpoint.sweep import reverse

pytest.importorskip("tqdm", reason="the extra `progress` is not installed")


def step(k, x):
    return x / 3 + 2


def pull(k, x, g):
    return g / 3


@pytest.mark.parametrize("options", [{"steps": 20}, {"until": lambda k, x: k == 20}], ids=["known", "unknown"])
def test_one_bar_a_phase(bars, options):
    result = reverse(step, pull, 1.0, 1.0, progress=True, **options)
    first, second = bars
    assert (first.desc, first.total, first.count) == ("first sweep", options.get("steps"), 20)
    assert (second.desc, second.total, second.count) == ("reverse sweep", 20, 20)
    assert first.closed and second.closed and first.unit == "step"
    assert result.cotangent == reverse(step, pull, 1.0, 1.0, steps=20).cotangent


@pytest.mark.parametrize("options", [{"steps": 20}, {"until": lambda k, x: k == 20}], ids=["known", "unknown"])
@pytest.mark.parametrize("end", [11, 29])
def test_after_a_resume_the_bar_begins_with_what_is_done(bars, tmp_path, options, end):
    calls = []

    def counted(function):
        def call(k, *arguments):
            if len(calls) == end:
                raise InterruptedError
            calls.append(k)
            return function(k, *arguments)

        return call

    options = options | {"progress": True, "schedule": StoreAll(), "storage": Disk(tmp_path / "states", resume=True, every=0), "token": ()}
    with pytest.raises(InterruptedError):
        reverse(counted(step), counted(pull), 1.0, 1.0, **options)
    seen = len(bars)
    end = None
    reverse(counted(step), counted(pull), 1.0, 1.0, **options)
    first, second = bars[seen:]
    assert (first.total, first.initial, first.count) == ((options.get("steps"), 11, 20) if seen == 1 else (20, 20, 20))
    assert (second.total, second.initial, second.count) == (20, 0 if seen == 1 else 9, 20)


def test_recorded_steps_move_the_bars(bars):
    record = lambda k, x: (step(k, x), lambda g: g / 3)
    reverse(step, pull, 1.0, 1.0, steps=20, progress=True, schedule=Mixed(4), record=record)
    assert [(bar.total, bar.count) for bar in bars] == [(20, 20), (20, 20)]


def test_no_bar_by_default(bars):
    reverse(step, pull, 1.0, 1.0, steps=20)
    assert bars == []


def test_a_bar_is_closed_when_a_step_raises(bars):
    with pytest.raises(ZeroDivisionError):
        reverse(lambda k, x: 1 / (7 - k), pull, 1.0, 1.0, steps=20, progress=True)
    with pytest.raises(ZeroDivisionError):
        reverse(step, lambda k, x, g: 1 / (7 - k), 1.0, 1.0, steps=20, progress=True)
    assert [(bar.count, bar.closed) for bar in bars] == [(7, True), (20, True), (12, True)]


def test_the_real_bar(capsys):
    reverse(step, pull, 1.0, 1.0, steps=20, progress=True)
    shown = capsys.readouterr().err
    assert "first sweep: 100%" in shown and "reverse sweep: 100%" in shown and "20/20" in shown


def test_without_tqdm_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(ImportError, match=r'progress=True needs tqdm; install it with: pip install "dualad\[progress\]"'):
        reverse(step, pull, 1.0, 1.0, steps=20, progress=True)
    assert reverse(step, pull, 1.0, 1.0, steps=20).stats.pulls == 20
