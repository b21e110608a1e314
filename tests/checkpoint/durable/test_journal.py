"""Disk(path, resume=True): killed at any moment, the same call ends with the same bits and repeats only what was lost."""

import os
import re
import subprocess
import sys
import textwrap
import threading
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import optree
import pytest
from calls import Counted, Interrupted, bits
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoint.durable import session as session_module
from checkpoint.schedules import CTZ, Online, Periodic, Revolve, StoreAll, Tiered
from checkpoint.storage import Disk, Memory, background
from checkpoint.sweep import Sweep, player, reverse

GRID = np.linspace(-1, 1, 12).reshape(3, 4)
pytestmark = pytest.mark.usefixtures("no_fsync")
SCHEDULES = [StoreAll(), CTZ(), CTZ("bisect"), Revolve(1), Revolve(3), Revolve(3, costs=[1 + k % 3 for k in range(23)])]
SCHEDULES += [Periodic(5)]
UNKNOWN = [StoreAll(), CTZ(), Online(2), Online(4), Periodic(5)]
N = 23


def step(k, state):
    u, n, nothing = state
    return u + 0.05 * np.sin(np.roll(u, 1) * (k % 3 + 1)), n + 1, nothing


def pull(k, state, cotangent):
    g, total = cotangent
    wave = k % 3 + 1
    slope = 0.05 * wave * np.cos(np.roll(state[0], 1) * wave) * g
    return g + np.roll(slope, -1), np.sum(slope) if total is None else total + np.sum(slope)


X0, SEED = (GRID, 0, None), (np.cos(GRID), None)


class Calls(Counted):
    """The step and the pull."""

    def step(self, k, x):
        self.count(("step", k))
        return step(k, x)

    def pull(self, k, x, g):
        self.count(("pull", k))
        return pull(k, x, g)

    def run(self, **options):
        if options.get("storage", Memory()).durable:
            options = {"token": 1.5} | options
        if "until" not in options:
            options = {"steps": N} | options
        return reverse(self.step, self.pull, X0, SEED, **options)


def bits_of(result):
    return bits((result.final, result.cotangent))


EXPECTED = bits_of(Calls().run())


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path):
    yield
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("checkpoint-")]


def compared(calls, kept):
    """What is made again before anything else: the first step, the last, those to the state that was pulled last, and the first pull."""
    pulled = [k for kind, k in kept if kind == "pull"]
    turned = ("step", N - 1) in kept
    assert calls[: 1 + turned] == [("step", 0), ("step", N - 1)][: 1 + turned] * bool(kept)
    if pulled:
        steps = calls[2:-1]
        assert steps == [("step", k) for k in range(pulled[-1])][len(range(pulled[-1])) - len(steps) :] and bool(steps) == bool(pulled[-1])
        assert calls[-1] == ("pull", N - 1)


def interrupted_everywhere(schedule, end, folder, **options):
    """Interrupt at call number `end`, run again, and compare bits and calls."""
    clean = Calls()
    clean.run(schedule=schedule, **options)
    first, second = Calls(end), Calls()
    storage = Disk(folder, resume=True, every=0)
    with pytest.raises(Interrupted):
        first.run(schedule=schedule, storage=storage, **options)
    assert folder.exists()
    result = second.run(schedule=schedule, storage=storage, **options)
    assert bits_of(result) == EXPECTED
    assert first.made == clean.made[:end]
    rest = clean.made[end:]
    assert second.made[len(second.made) - len(rest) :] == rest
    compared(second.made[: len(second.made) - len(rest)], clean.made[: len(clean.made) - len(rest)])
    assert not folder.exists()


@pytest.mark.long
@pytest.mark.parametrize(("schedule", "length"), [*product(SCHEDULES, ["known"]), *product(UNKNOWN, ["until"])], ids=str)
@settings(max_examples=8)
@given(data=st.data())
def test_only_what_was_lost_is_repeated(tmp_path_factory, schedule, length, data):
    clean, options = Calls(), {"until": lambda k, state: k == N} if length == "until" else {}
    clean.run(schedule=schedule, **options)
    end = data.draw(st.integers(0, len(clean.made) - 1))
    interrupted_everywhere(schedule, end, tmp_path_factory.mktemp("at") / "folder", **options)


@pytest.mark.parametrize("length", ["known", "until"])
@pytest.mark.parametrize("state", [(), None, GRID, (GRID, GRID)], ids=["nothing", "none", "one", "two"])
def test_states_of_any_number_of_leaves(folder, state, length):
    """The working states of a point are told apart by the number of their leaves."""
    end = {"until": lambda k, x: k == 4} if length == "until" else {"steps": 4}
    sines, slopes = partial(optree.tree_map, np.sin), partial(optree.tree_map, lambda x, g: np.cos(x) * g)

    def run(calls, **options):
        step = lambda k, x: calls.count(("step", k)) or sines(x)
        pull = lambda k, x, g: calls.count(("pull", k)) or slopes(x, g)
        return bits_of(reverse(step, pull, state, state, schedule=Online(2), **end, **options))

    clean, storage = Calls(), Disk(folder, resume=True, every=0)
    expected = run(clean)
    for moment in range(len(clean.made)):
        second = Calls()
        with pytest.raises(Interrupted):
            run(Calls(moment), storage=storage)
        assert run(second, storage=storage) == expected
        rest = clean.made[moment:]
        assert second.made[len(second.made) - len(rest) :] == rest


@pytest.mark.slow
@settings(max_examples=8)
@given(ends=st.lists(st.integers(0, 12), max_size=12), schedule=st.sampled_from(SCHEDULES))
def test_interrupted_again_and_again(tmp_path_factory, ends, schedule):
    storage = Disk(tmp_path_factory.mktemp("at") / "folder", resume=True, every=0)
    for end in ends:
        try:
            assert bits_of(Calls(end).run(schedule=schedule, storage=storage)) == EXPECTED
        except Interrupted:
            continue
    assert bits_of(Calls().run(schedule=schedule, storage=storage)) == EXPECTED


def test_the_two_phases_of_a_sweep(folder):
    """The first sweep in one process; x_N and the reverse sweep in another."""

    def make(calls):
        return Sweep(calls.step, X0, steps=N, storage=Disk(folder, resume=True, every=0), token=())

    first, second = Calls(), Calls()
    sweep = make(first)
    final = sweep.forward()
    del sweep
    again = make(second)
    assert again.forward()[0].tobytes() == final[0].tobytes() and second.made == [("step", 0), ("step", N - 1)], "compared"
    assert again.backward(second.pull, SEED)[0].tobytes().hex() == EXPECTED[2]
    assert again.stats.pulls == again.stats.steps == N and not folder.exists()
    assert again.backward(second.pull, SEED)[0].tobytes().hex() == EXPECTED[2], "from the beginning, as ever"


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_short_chains(folder, steps):
    result = Calls().run(steps=steps, storage=Disk(folder, resume=True, every=0))
    plain = Calls().run(steps=steps)
    assert result.final[0].tobytes() == plain.final[0].tobytes() and result.cotangent[0].tobytes() == plain.cotangent[0].tobytes()
    assert not folder.exists()


def interrupt(folder, **options):
    with pytest.raises(Interrupted):
        Calls(30).run(storage=Disk(folder, resume=True, every=0), **options)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"steps": 24}, r"steps \(23 there, 24 here\)"),
        ({"schedule": Revolve(4)}, r"schedule \(CTZ\(refill='binomial'\) there, Revolve\(slots=4, costs=None\) here\)"),
        ({"token": 2.5}, "in: token"),
        ({"token": {"rate": 1.5}}, "in: token"),
        ({"until": lambda k, x: k == 23}, r"steps \(23 there, None here\)"),
        ({"step": step}, r"differs in: step \("),
        ({"state": (GRID, 1, None), "token": ()}, r"differs in: token \(1.5 there, .*, state\[1\] \(0 there, 1 here\)"),
        ({"seed": (GRID, None)}, "another cotangent of x_N"),
    ],
    ids=["steps", "schedule", "token", "tokens", "until", "step", "state", "cotangent"],
)
def test_another_call_is_refused(folder, options, named):
    interrupt(folder)
    calls = Calls()
    call = {"step": calls.step, "pull": calls.pull, "state": X0, "seed": SEED, "token": 1.5, "storage": Disk(folder, resume=True, every=0)}
    length = {} if "until" in options else {"steps": N}
    with pytest.raises(ValueError, match=named):
        reverse(**call | length | options)
    assert calls.made == ([("step", 0), ("step", N - 1)] if "seed" in options else []), "compared"
    assert bits_of(Calls().run(storage=Disk(folder, resume=True, every=0))) == EXPECTED, "nothing is lost by that"


def test_one_sweep_at_a_time(folder):
    sweep = Sweep(step, X0, steps=N, storage=Disk(folder, resume=True, every=0))
    sweep.forward()
    with pytest.raises(BlockingIOError, match=rf"another sweep uses this folder, in process {os.getpid()} \(this one\); .* its own folder"):
        Sweep(step, X0, steps=N, storage=Disk(folder, resume=True, every=0)).forward()
    code = """
    import sys
    from checkpoint.durable.session import DurableStates
    from pathlib import Path
    DurableStates(Path(sys.argv[1]), 1).begin({})
    """
    other = subprocess.run([sys.executable, "-c", textwrap.dedent(code), str(folder)], capture_output=True, text=True)
    assert f"BlockingIOError: [Errno 11] Disk: another sweep uses this folder, in process {os.getpid()}" in other.stderr
    assert sweep.backward(pull, SEED)[0].tobytes().hex() == EXPECTED[2]


def test_what_does_not_go_together(folder):
    with pytest.raises(ValueError, match="Tiers"):
        Sweep(step, X0, steps=30, schedule=Tiered(2, 2), storage=Disk(folder, resume=True, every=0))
    with pytest.raises(ValueError, match="check=True"):
        Sweep(step, X0, steps=N, storage=Disk(folder, resume=True, every=0), check=True)
    with pytest.raises(TypeError, match=r"Disk: state \d+ has structure"):
        reverse(lambda k, x: (x, x), pull, 1.0, 1.0, steps=3, storage=Disk(folder, resume=True, every=0))
    with pytest.raises(TypeError, match="the pull of step 2 returned a cotangent of structure"):
        reverse(lambda k, x: x, lambda k, x, g: (g, g), 1.0, 1.0, steps=3, storage=Disk(folder / "2", resume=True, every=0))


@pytest.mark.parametrize("end", [30, 45])
@pytest.mark.parametrize("damage", ["altered", "gone"])
@pytest.mark.parametrize("kind", ["state", "batch"])
def test_damaged_states_are_computed_again(folder, end, damage, kind, monkeypatch):
    if kind == "state":
        monkeypatch.setattr(background, "GATHERED_BYTES", -1)
    with pytest.raises(Interrupted):
        Calls(end).run(storage=Disk(folder, resume=True, every=0), schedule=Revolve(3))
    files = list(folder.glob(f"*.{kind}"))
    assert files and not list(folder.glob("*.batch" if kind == "state" else "*.state"))
    for file in files:
        file.write_bytes(b"nothing") if damage == "altered" else file.unlink()
    with pytest.warns(RuntimeWarning, match="is computed") as warned:
        assert bits_of(Calls().run(storage=Disk(folder, resume=True, every=0), schedule=Revolve(3))) == EXPECTED
    told = [str(warning.message) for warning in warned]
    named = [Path(path) for text in told for path in re.findall(rf"{re.escape(str(folder))}[^:; ]+", text)]
    assert set(named) <= set(files) and len(set(told)) == len(told), "a file that was there, and once"
    if kind == "batch" and damage == "altered":
        assert len(told) == len(named), "what was in a batch that was named is computed again without a word"


@pytest.mark.parametrize("damage", ["altered", "gone"])
def test_the_state_before_the_last_step_is_computed_again(folder, damage, monkeypatch):
    """It is in the file of an earlier process, which has made all steps, but has not heard that they are all."""
    options = {"storage": Disk(folder, resume=True, every=0), "schedule": StoreAll(), "until": lambda k, x: k == N}

    def fails_at_the_end(answer, *, where, k):
        if k == N:
            raise Interrupted
        return answer

    with monkeypatch.context() as patch, pytest.raises(Interrupted):
        patch.setattr(player, "truth", fails_at_the_end)
        Calls().run(**options)
    for file in folder.glob("*.batch"):
        file.write_bytes(b"nothing") if damage == "altered" else file.unlink()
    with pytest.warns(RuntimeWarning, match="computed"):
        assert bits_of(Calls().run(**options)) == EXPECTED


def test_after_an_error_of_the_writer_nothing_more_is_written(folder, monkeypatch):
    """Else a later file could claim what an earlier one lacks."""
    real = session_module.write_leaves

    def write(path, index, leaves, **options):
        if index == 1:
            raise OSError(28, "No space left on device", str(path))
        real(path, index, leaves, **options)

    monkeypatch.setattr(session_module, "write_leaves", write)
    session = Disk(folder, queue=20, resume=True, every=0).open()
    session.begin({})
    session.commit(0, ["x_0"])
    session.commit(1, ["x_1"])
    session.commit(2, ["x_2"])
    with pytest.raises(OSError, match="No space left"):
        session.ready()
    session.clear()
    assert [mark.index for mark in session.begin({})] == [0]
    session.finish()


@pytest.mark.parametrize("storage", [Memory(), Disk(), Disk("folder")], ids=repr)
def test_a_token_goes_with_a_sweep_that_goes_on(storage, folder):
    calls, told = Calls(), r"sweep: token= is used only to resume a sweep: give storage=Disk\(path, resume=True\) too"
    for sweep in (partial(Sweep, calls.step, X0), partial(reverse, calls.step, calls.pull, X0, SEED)):
        with pytest.raises(TypeError, match=told):
            sweep(steps=N, storage=storage, token=1.5)
    assert not calls.made
    assert bits_of(calls.run(storage=Disk(folder, resume=True, every=0))) == EXPECTED


def test_partial_steps_and_layers_have_a_fingerprint(folder):
    run = partial(reverse, pull=lambda k, x, g: g, state=1.0, seed=1.0, steps=3, storage=Disk(folder, resume=True, every=0))
    assert run(partial(lambda k, x, c: x + c, c=2.0), token=[step, pull, None]).final == 7.0


@pytest.mark.parametrize("small", [True, False])
def test_what_two_points_count_on_is_kept(folder, monkeypatch, small):
    """A state is removed when there are two newer points without it; one that no point has known is never kept."""
    if not small:
        monkeypatch.setattr(background, "GATHERED_BYTES", -1)
    kind = "batch" if small else "state"
    session = session_module.DurableStates(folder, queue=4)
    session.begin({})

    def point(number):
        session.commit(number, [number])
        assert session.ready()
        return [len(list(folder.glob(f"*.{suffix}"))) for suffix in ("point", kind)]

    session.save(7, 1.5)
    assert point(1) == [1, 1]
    session.drop(7)
    session.save(8, 2.5)
    session.drop(8)
    assert [point(2), point(3), point(4)] == [[2, 1], [2, 0], [2, 0]]
    session.finish()


def test_points_are_made_when_they_are_due_and_not_while_one_is_written(folder, monkeypatch):
    """With a clock of our own: one point every second, none before the last one is written, and then after a multiple of that."""
    clock, may_go, write = [0.0], threading.Semaphore(0), session_module.write_leaves

    def slow(path, index, leaves, **options):
        assert may_go.acquire(timeout=10)
        clock[0] += 2.0
        write(path, index, leaves, **options)

    monkeypatch.setattr(session_module, "write_leaves", slow)
    monkeypatch.setattr(session_module, "monotonic", lambda: clock[0])
    session = session_module.DurableStates(folder, queue=4, every=1.0)
    session.begin({})
    assert session.due == 1.0
    clock[0] = 1.0
    assert session.ready()
    session.commit(1, [1.0])
    assert session.due == 2.0
    clock[0] = 2.0
    assert not session.ready() and session.due == 2.125
    may_go.release()
    session._committed.wait()
    assert session.due == 4.0 + session_module.REST * 3.0, "from when its states began to be written"
    session.finish()


def test_the_first_point_waits_until_its_states_can_be_written_in_a_small_part_of_the_time(folder, monkeypatch):
    clock = [5.0]
    monkeypatch.setattr(background, "GATHERED_BYTES", -1)
    monkeypatch.setattr(session_module, "monotonic", lambda: clock[0])
    monkeypatch.setattr(session_module, "DISK_RATE", GRID.nbytes)  # a second for each state
    session = Disk(folder, resume=True).open()
    session.begin({})
    for index in range(2):
        session.save(index, GRID)
    clock[0] = session.due
    assert not session.ready() and session.due == 5.0 + session_module.REST * 2.0
    clock[0] = session.due
    assert session.ready()
    session.finish()


@pytest.mark.parametrize(("queue", "room", "written"), [(None, 1 << 30, 0), (None, 4 * 800, 3), (3, 1 << 30, 4), (None, 0, 5)])
def test_large_states_stay_in_main_memory_as_long_as_there_is_room(folder, monkeypatch, queue, room, written):
    """With resume and nothing said, as many as a GiB holds; the oldest is written when the next one will need its place."""
    monkeypatch.setattr(background, "GATHERED_BYTES", -1)
    monkeypatch.setattr(session_module, "WRITE_QUEUE_BYTES", room)
    session = Disk(folder, queue=queue, resume=True, every=1000.0).open()
    session.begin({})
    for index in range(6):
        session.save(index, np.full(100, float(index)))
    assert sum(file.written is not None for file in session._large.values()) == written
    for index in reversed(range(6)):
        np.testing.assert_array_equal(session.load(index), np.full(100, float(index)))
    session.finish()


@pytest.mark.parametrize("schedule", [CTZ(), StoreAll(), Revolve(3)], ids=repr)
def test_evicted_states_are_read_back(folder, schedule, monkeypatch):
    """Small states that are more than fit into main memory, interrupted and not."""
    monkeypatch.setattr(background, "UNWRITTEN_BYTES", 3 * GRID.nbytes)
    for storage in (Disk(folder), Disk(folder, resume=True, every=0)):
        assert bits_of(Calls().run(schedule=schedule, storage=storage)) == EXPECTED
    for end in (20, 30, 45):
        with pytest.raises(Interrupted):
            Calls(end).run(schedule=schedule, storage=Disk(folder / "kept", resume=True, every=0))
        assert bits_of(Calls().run(schedule=schedule, storage=Disk(folder / "kept", resume=True, every=0))) == EXPECTED
    assert list(folder.iterdir()) == []
