"""What a function reads and no look can compare, as clocks, and what it does besides returning results."""

import sys
import time
from datetime import datetime
from threading import Event, Thread

import pytest

from dualad import jit
from dualad.jit import impure

CLOCKS = {
    "time.time": lambda x: x + time.time(),
    "time.monotonic_ns": lambda x: x + time.monotonic_ns(),
    "datetime.datetime.now": lambda x: x + datetime.now().microsecond,
}


@pytest.mark.parametrize("clock", CLOCKS)
def test_clocks_that_go_on_between_two_traces_are_refused(clock):
    number = CLOCKS[clock].__code__.co_firstlineno
    with pytest.raises(TypeError, match=rf"test_impure.py, line {number}: two traces of <lambda> with the same arguments differ"):
        jit(CLOCKS[clock])(1.0)


def test_places_that_are_watched_while_a_function_is_traced_are_as_before():
    before = {place: getattr(*place) for place in (*impure.EFFECTS, (sys, "stdout"))}
    assert jit(lambda x: jit(lambda x: x * 2.0)(x) + 1.0)(1.0) == 3.0
    with pytest.raises(TypeError, match="no array or number"):
        jit(lambda x: object())(1.0)
    assert all(getattr(*place) is held for place, held in before.items()) and not impure.Heard.traces


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
