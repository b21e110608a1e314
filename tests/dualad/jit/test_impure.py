"""What a function reads and no look can compare, as clocks, and what it does besides returning results."""

import io
import os
import sys
import time
import warnings
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


def effect_of(f):
    """Return what a function is said to do while it is traced, None for nothing."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        jit(f)(1.0)
    return str(told[0].message).partition(": ")[2].partition(": ")[2].partition(" while")[0] if told else None


def test_what_is_written_to_standard_streams_is_an_effect_however_it_is_written(capsys):
    assert effect_of(lambda x: (sys.stdout.writelines(["a", "b"]), x)[1]) == "it writes to the standard output"
    assert effect_of(lambda x: (sys.stderr.write("c"), x)[1]) == "it writes to the standard error"
    assert effect_of(lambda x: (print("d", file=sys.stderr), x)[1]) == "it prints"
    assert capsys.readouterr() == ("abab", "ccd\nd\n")


def test_what_only_a_first_call_does_is_no_effect_of_later_ones(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("DUALAD_CACHE_DIR", str(tmp_path))
    first = ["first"]
    assert effect_of(lambda x: (first and print(first.pop()), x)[1]) is None
    assert capsys.readouterr().out == "first\n"
    inner = jit(lambda x: x * 3.25)
    assert effect_of(lambda x: x * inner(2.0)) is None  # whose machine code is written to a file


def test_functions_that_are_watched_are_one_and_refuse_what_they_did():
    def f(x):
        for given in ((), ("", 5)):
            with pytest.raises(TypeError, match=r"^open\(\) "):
                open(*given)  # noqa: SIM115
        return x * (open is io.open)

    assert effect_of(f) is None and jit(f, verify=True)(2.0) == 2.0


def test_places_that_an_interrupt_left_replaced_are_put_back_by_the_next_trace(monkeypatch):
    monkeypatch.setattr(sys, "stdout", sys.stdout)
    before = {place: getattr(*place) for place in (*impure.EFFECTS, (sys, "stdout"))}
    with monkeypatch.context() as patch:
        patch.setattr(impure.Heard, "put_back", lambda self: None)
        jit(lambda x: x * 2.0)(1.0)
    assert all(getattr(*place) is not held for place, held in before.items())
    jit(lambda x: x * 3.0)(1.0)
    assert all(getattr(*place) is held for place, held in before.items())


def test_a_debugger_shows_its_texts_at_once(capsys):
    shown = []

    def f(x):
        exec("print('at the prompt')", {"__name__": "pdb"})
        shown.append(capsys.readouterr().out)
        return x * 2.0

    assert effect_of(f) is None
    assert shown[:2] == ["at the prompt\n"] * 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_forgets_what_other_threads_trace():
    began, forked = Event(), Event()

    def f(x):
        began.set()
        assert forked.wait(60)
        return x * 2.0

    thread = Thread(target=lambda: jit(f, verify=False)(1.0))
    before = print
    thread.start()
    assert began.wait(60) and print is not before
    if not (child := os.fork()):
        os._exit(0 if print is before and not impure.Heard.traces else 1)
    forked.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0 and print is before


def test_a_file_that_others_write_to_between_calls_is_read_by_nobody(tmp_path):
    with (tmp_path / "log").open("w") as log:

        def f(x):
            if len(x) > 3:
                log.write("long")
            return [part * 2.0 for part in x]

        fast = jit(f)
        for k in range(3):
            fast([1.0, 2.0])
            log.write(f"{k}")
    assert fast.traces == 1
