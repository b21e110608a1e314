"""What a function draws or reads besides its arguments, and no look can compare: random numbers and clocks are refused by name."""

from __future__ import annotations

import gc
import importlib
import logging
import sys
import time
from datetime import date, datetime
from threading import Event, Thread
from types import CodeType

import numpy as np
import pytest

from dualad import jit
from dualad.jit import impure

CLOCKS = {
    "time.time": lambda x: x + int(time.time()),
    "time.monotonic_ns": lambda x: x + time.monotonic_ns() // 10**18,
    "time.localtime": lambda x: x + time.localtime().tm_year,
    "datetime.datetime.now": lambda x: x + datetime.now().year,
    "datetime.date.today": lambda x: x + date.today().year,
    "time.perf_counter": lambda x: (time.perf_counter(), x)[1],
    "numpy.datetime64": lambda x: x + np.datetime64("now").astype(int) // 10**9,
}


@pytest.mark.parametrize("clock", CLOCKS)
def test_clocks_that_stand_still_between_two_traces_are_refused(clock):
    number = CLOCKS[clock].__code__.co_firstlineno
    with pytest.raises(TypeError, match=rf"test_impure.py, line {number}: <lambda> reads a clock \({clock}\), which would be frozen"):
        jit(CLOCKS[clock])(1.0)
    assert sys.getprofile() is None


@pytest.mark.filterwarnings("ignore:jit. .* while it is traced")
def test_clocks_of_libraries_and_under_a_profiler():
    logger = logging.getLogger("a jitted function")
    seen = []
    assert jit(lambda x: (logger.warning("traced"), x + 1.0)[1])(1.0) == 2.0
    sys.setprofile(profiler := lambda *event: seen.append(event))
    try:
        assert jit(lambda x: x + time.time() // 1e12)(1.0) == 1.0
        assert sys.getprofile() is profiler and seen
    finally:
        sys.setprofile(None)


def test_clocks_of_callbacks_of_the_collector_are_not_the_functions():
    seen = []
    gc.callbacks.append(callback := lambda phase, info: seen.append(time.perf_counter()))
    try:
        assert jit(lambda x: (gc.collect(), x + 1.0)[1])(1.0) == 2.0 and seen
    finally:
        gc.callbacks.remove(callback)


def test_clocks_of_installed_packages_are_found_in_another_second(monkeypatch, tmp_path):
    installed = tmp_path / "site-packages"
    installed.mkdir()
    (installed / "watches.py").write_text(
        "import time\n\nNOW = [1e9]\n\n\ndef seconds():\n    time.time()\n    return NOW[0]\n\n\ndef ignored():\n    time.time()\n"
    )
    monkeypatch.syspath_prepend(installed)
    watches = importlib.import_module("watches")
    monkeypatch.setattr(impure.Clocks, "wait", lambda self: watches.NOW.append(watches.NOW.pop() + 1.0))
    with pytest.raises(TypeError, match=r"two traces of <lambda> .*differ"):
        jit(lambda x: x + watches.seconds())(1.0)
    assert watches.NOW == [1e9 + 1.0]
    assert jit(lambda x: (watches.ignored(), x + 1.0)[1])(1.0) == 2.0 and watches.NOW == [1e9 + 2.0]


@pytest.mark.filterwarnings("ignore:jit. .* while it is traced")
def test_threads_that_trace_at_the_same_time_leave_standard_output_as_it_was(capsys):
    before, began, second_began, first_ended = sys.stdout, Event(), Event(), Event()

    def first(x):
        print("first")
        began.set()
        assert second_began.wait(60)
        return x * 2.0

    def second(x):
        print("second")
        second_began.set()
        assert first_ended.wait(60)
        return x * 3.0

    def trace_first():
        jit(first, verify=False)(1.0)
        print("the first ended")
        first_ended.set()

    def trace_second():
        assert began.wait(60)
        jit(second, verify=False)(1.0)

    threads = [Thread(target=run) for run in (trace_first, trace_second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sys.stdout is before
    assert capsys.readouterr().out == "first\nfirst\nthe first ended\nsecond\nsecond\n"


@pytest.mark.filterwarnings("ignore:jit. .* while it is traced")
def test_what_wraps_standard_output_while_a_function_is_traced_may_stay(capsys, monkeypatch):
    class Tee:
        def __init__(self, out):
            self.out = out

        def write(self, text):
            return self.out.write(text.upper())

    def f(x):
        if type(sys.stdout) is not Tee:
            sys.stdout = Tee(sys.stdout)
        print("traced")
        return x * 2.0

    monkeypatch.setattr(sys, "stdout", sys.stdout)
    for _ in range(3):
        jit(f, verify=False)(1.0)
        print("done")
    assert type(sys.stdout) is Tee
    assert capsys.readouterr().out == "TRACED\nTRACED\nDONE\n" * 3


def test_a_path_that_writes_outside_does_so_as_often_as_without_jit():
    class Counted:
        calls, log = 0, ()

        def __call__(self, x):
            if x > 0.0:
                self.calls += 1
                self.log = (*self.log, self.calls)
                return x * 2.0
            return x

    counted = Counted()
    fast = jit(counted)
    assert fast(-1.0) == -1.0 and counted.calls == 0
    for k in range(1, 6):
        assert (fast(2.0), fast(-2.0)) == (4.0, -2.0) and counted.calls == k + 2  # two traces counted, too
    assert counted.calls == 7 and counted.log == (1, 2, 3, 4, 5, 6, 7) and fast.traces == 2
    assert "evaluated by the plain function where it writes outside" in fast.explain(1.0)


@pytest.mark.filterwarnings("ignore:jit. .* while it is traced")
def test_functions_are_traced_where_there_is_no_standard_output(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    assert jit(lambda x: (print("nowhere"), x * 2.0)[1])(1.0) == 2.0
    assert sys.stdout is None


def test_each_code_that_is_called_while_a_function_is_traced_is_asked_once(monkeypatch):
    asked = []
    monkeypatch.setattr(impure.Clocks, "ask", lambda self, called, frame: asked.append(called))
    gc.disable()  # Hypothesis reads a clock at each collection
    try:
        assert jit(lambda x: sum(x * k + time.time_ns() * 0 for k in range(30)))(1.0) == 435.0
    finally:
        gc.enable()
    codes = [called for called in asked if type(called) is CodeType]
    assert 5 < len(codes) == len(set(map(id, codes)))
    assert [called for called in asked if type(called) is not CodeType] == [time.time_ns] * 30
