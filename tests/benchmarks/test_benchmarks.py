"""The benchmarks run and print their tables, and show no time of a peer whose answer is wrong."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def harness():
    spec = importlib.util.spec_from_file_location("benchmarks_harness", ROOT / "benchmarks" / "harness.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look for it
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def quick(workload, *options):
    command = [sys.executable, "-m", f"benchmarks.{workload}", "--quick", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)


#: which say other things beside their tables
BY_THEMSELVES = ("simulations", "accuracy")


@pytest.mark.long
@pytest.mark.parametrize(
    ("workload", "tables", "peers"),
    [
        ("forward", 4, []),
        ("reverse", 2, []),
        ("lorenz", 2, ["complex steps", "closed form", "CTZ", "no chain"]),
        ("compiled", 4, ["by hand in numba", "dualad.jit"]),
        ("calls", 2, []),
        ("jacobians", 4, ["by hand", "dualad", "one column at a time", "dualad.jit filling"]),
        ("steps", 2, ["dualad"]),
        ("autograd_examples", 1, ["checkpoint"]),
        ("equations", 3, ["solve_ivp", "solve_ivp(jit(fun))"]),
        ("simulations", 3, ["dualad", "dualad.jit"]),  # JAX takes half a minute to compile them
        ("accuracy", 3, ["dualad"]),  # against mpmath
        ("large_state", 1, []),
        ("solvers", 3, ["jac=", "compiled jac=", "two processes", "two workers of dask"]),
    ],
)
def test_quick_run_prints_its_tables(workload, tables, peers):
    run = quick(workload, *(["--peers", ",".join(peers)] if peers else []))
    assert run.returncode == 0, run.stdout + run.stderr
    rules = [line for line in run.stdout.splitlines() if line.startswith("| ---")]
    assert len(rules) == tables, run.stdout
    assert "Allocator: pinned" in run.stdout or workload in BY_THEMSELVES
    assert str(ROOT) not in run.stdout or workload in BY_THEMSELVES
    assert "Fails" not in run.stdout or workload != "simulations"


def test_unknown_peer_is_named():
    run = quick("lorenz", "--peers", "nobody")
    assert run.returncode == 2
    assert "no such peer: nobody; there are complex steps" in run.stderr


@pytest.mark.parametrize(
    ("answer", "reference", "expected"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0),
        ([1.0, np.nan, np.inf], [1.0, np.nan, np.inf], 0.0),
        ([1.0, 2.5], [1.0, 2.0], 0.25),
        ([0.0, 0.0], [0.0, 0.0], 0.0),
        ([1e-9, 0.0], [0.0, 0.0], np.inf),
        ([1.0, np.inf], [1.0, 2.0], np.inf),
        ([1.0, np.nan], [1.0, 2.0], np.nan),
        ([1.0], [1.0, 2.0], np.inf),
        ([], [], 0.0),
    ],
)
def test_difference(harness, answer, reference, expected):
    np.testing.assert_equal(harness.difference(np.array(answer), np.array(reference)), expected)


class Fake:
    """A child that answers what it is told, and counts how often it is timed."""

    def __init__(self, answer):
        self.answer, self.timed = answer, 0

    def ask(self, what, key, *rest):
        if what == "answer":
            if isinstance(self.answer, str):
                return {"error": self.answer}
            np.save(rest[0], np.array(self.answer))
            return {}
        if what == "time":
            self.timed += 1
            return {"primal": 0.5, "seconds": float(self.timed)}
        return {}


def test_answers_are_compared_before_anything_is_timed(harness, tmp_path):
    children = {
        "good": Fake([1.0, 2.0]),
        "same": Fake([1.0, 2.0 + 1e-12]),
        "wrong": Fake([1.0, 2.1]),
        "nan": Fake([1.0, np.nan]),
        "unable": Fake("TypeError: no"),
    }
    table = harness.Table("table", unit="s", versus=("good", "same"))
    outcomes = {peer: harness.Outcome() for peer in children}
    harness.measure(table, {"row": outcomes}, children, 3, tmp_path)
    assert {peer: child.timed for peer, child in children.items()} == {"good": 3, "same": 3, "wrong": 0, "nan": 0, "unable": 0}
    assert outcomes["good"].ratio == 4.0  # the median of 1, 2, 3 seconds over 0.5
    assert outcomes["wrong"].error == "disagrees with good by 5.0e-02"
    text = harness.task_table(table, {"row": outcomes}, list(children))
    head, _, row, *rest = text.splitlines()
    assert cells(head)[-1] == "good / same"
    quickest = harness.Table("table", unit="s", versus=("slow", "good", "same"))
    slow = harness.Outcome()
    slow.seconds, slow.primal = [9.0] * 3, [1.0] * 3
    head, _, last, *_ = harness.task_table(quickest, {"row": {"slow": slow, **outcomes}}, ["slow", *children]).splitlines()
    assert cells(head)[-1] == "the quickest of slow, good / same" and cells(last)[-1] == "1.00"
    assert cells(row) == ["row", "0.5", "2 (4.0x)", "2 (4.0x)", "fails", "fails", "fails", "1.00"]
    assert "- unable, row: TypeError: no" in rest
    assert "reference" in harness.peer_table(table, {"row": outcomes}).splitlines()[3]


def cells(line):
    return [cell.strip() for cell in line.split("|")[1:-1]]


@pytest.mark.long
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="resident memory begins anew only on Linux")
def test_storage_shows_limits_and_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    run = quick("storage", "--peers", "CTZ,on disk,Revolve(20)")
    assert run.returncode == 0, run.stderr
    heads = [cells(line) for line in run.stdout.splitlines() if line.startswith("|") and "difference" in line]
    assert [any(title.startswith("limit") for title in head) for head in heads] == [True] * 4
    assert "MISSED" not in run.stdout and not list(tmp_path.iterdir())


@pytest.mark.parametrize(("quickest", "kept"), [(0.5, {}), (2.0, {"seconds": (2.0,) * 3, "primal": (0.25,) * 3})])
def test_long_calls_are_timed_in_turn_with_the_primal(harness, monkeypatch, tmp_path, quickest, kept):
    class Timed:
        def __init__(self, case, quick):
            self.seconds = case.args[0]

        def once(self):
            return self.seconds

    monkeypatch.setattr(harness, "perf_counter", iter([0.0, 3.0]).__next__)
    monkeypatch.setattr(harness, "Repeat", Timed)
    own, plain = harness.Case(lambda seconds: 1.0, (quickest,)), harness.Case(lambda seconds: 1.0, (0.25,))
    assert harness.give_answer(own, plain, tmp_path / "answer.npy") == kept
