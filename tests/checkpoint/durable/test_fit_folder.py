"""The folder of a fit: what is damaged, lost, full, somebody else's, or shared by threads and forks."""

import errno
import gc
import json
import os
import pickle
import re
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import ContextVar, copy_context
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from calls import Interrupted
from fits import anew, ending

from checkpoint import Fit, chain, grad, vjp
from checkpoint.durable import fit as module
from checkpoint.durable import fit_folder, log
from checkpoint.sweep import Sweep

pytestmark = pytest.mark.usefixtures("not_again")
ROOT = Path(module.__file__).parents[1]


def doubled(x):
    return 2.0 * x


def tripled(x):
    return 3.0 * x


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("notes.txt", b"mine", r"holds other files \(notes.txt\); give it a folder of its own"),
        *[
            ("fit.json", content, r"fit\.json was not made here; give another folder, or remove this one")
            for content in (b"{}", b"[1]", b'{"format": "other"}', b"mine")
        ],
        (
            "fit.json",
            b'{"format": "fit of checkpoint, 1", "token": "None"}',
            "by another version of this package; finish that fit with that",
        ),
        ("results.log", b"mine", r"was not made here; give another folder, or move it.*results\.log"),
    ],
)
def test_what_is_of_somebody_else_is_refused_and_left_alone(tmp_path, name, content, reason):
    (tmp_path / name).write_bytes(content)
    with pytest.raises((OSError, ValueError), match=reason):
        Fit(tmp_path)(doubled)
    assert (tmp_path / name).read_bytes() == content and {path.name for path in tmp_path.iterdir()} <= {name, "lock"}


@pytest.mark.slow
def test_another_process_is_refused(fit):
    fit(doubled)
    script = f"from checkpoint import Fit; Fit({str(fit.path)!r})(len)"
    other = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT)
    assert other.returncode and re.search(rf"BlockingIOError: .*Fit: process {os.getpid()} uses this folder", other.stderr)


@pytest.mark.parametrize("kind", ["folder", "pipe", "link"])
@pytest.mark.parametrize("name", ["fit.json", "lock", "results.log"])
def test_what_is_no_file_is_named_and_not_waited_for(tmp_path, name, kind):
    path = tmp_path / "fit" / name
    path.parent.mkdir()
    if kind == "pipe" and not hasattr(os, "mkfifo"):
        pytest.skip("no pipes on this system")
    {"folder": os.mkdir, "pipe": getattr(os, "mkfifo", None), "link": lambda path: os.symlink(tmp_path / "target", path)}[kind](path)
    with pytest.raises(FileExistsError, match=f"Fit: not a regular file, where a fit has one.*{re.escape(name)}"):
        Fit(path.parent)(doubled)


def test_links_are_not_written_through(tmp_path):
    target = tmp_path / "target"
    target.write_text("mine")
    (tmp_path / "fit").mkdir()
    (tmp_path / "fit" / "fit.json.tmp").symlink_to(target)
    assert Fit(tmp_path / "fit")(doubled)(1.0) == 2.0
    assert target.read_text() == "mine" and not (tmp_path / "fit" / "fit.json.tmp").exists()
    fit_folder.give_free()


@pytest.mark.parametrize("damage", ["lost", "empty", "cut", "flipped", "changed"])
def test_without_its_manifest_no_result_is_taken_for_another_function(fit, damage):
    fit(doubled, name="f")(1.5)
    path = fit.path / "fit.json"
    data = path.read_bytes()
    content = json.loads(data)
    content["functions"]["f"]["read"]["its code"] = "0" * 32
    damaged = {"empty": b"", "cut": data[:-9], "flipped": data[:50] + b"?" + data[51:], "changed": json.dumps(content).encode()}
    for function in (tripled, doubled):
        fit_folder.give_free()
        path.unlink() if damage == "lost" else path.write_bytes(damaged[damage])
        again = anew(fit)
        with pytest.warns(RuntimeWarning, match=rf"fit\.json is {'lost' if damage == 'lost' else 'damaged'} and is rewritten"):
            f = again(function, name="f")
        assert f(1.5) == function(1.5) and again.answered == (function is doubled)
    again = anew(fit)
    assert again(doubled, name="f")(1.5) == 3.0 and again.answered == 1
    with pytest.raises(ValueError, match="it differs in: its code"):
        again(tripled, name="f")


def flip(data, at):
    return data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :]


def test_a_damaged_result_costs_itself_alone(fit):
    f = fit(lambda x: np.arange(9.0) * x, name="f")
    ends = []
    for k in range(4):
        f(1.0 * k)
        ends.append((fit.path / "results.log").stat().st_size)
    path, whole = fit.path / "results.log", (fit.path / "results.log").read_bytes()
    for at in range(0, len(whole), 13):
        fit_folder.give_free()
        path.write_bytes(flip(whole, at))
        again = anew(fit)
        last = at >= ends[2]  # it may be lost in silence, as if it had not been written
        with warnings.catch_warnings() if last else pytest.warns(RuntimeWarning, match="computed again"):
            if last:
                warnings.simplefilter("ignore")
            g = again(lambda x: np.arange(9.0) * x, name="f")
            assert all(np.array_equal(g(1.0 * k), np.arange(9.0) * k) for k in range(4))
        assert again.made == 1, at


@pytest.mark.slow
def test_what_a_killed_process_wrote_in_part_is_cut_off(fit):
    f = fit(doubled)
    f(1.0)
    first = (fit.path / "results.log").stat().st_size
    f(2.0)
    path, whole = fit.path / "results.log", (fit.path / "results.log").read_bytes()
    for end in range(len(whole)):
        fit_folder.give_free()
        path.write_bytes(whole[:end])
        again = anew(fit)
        g = again(doubled)
        assert g(1.0) == 2.0 and g(2.0) == 4.0 and again.answered == (end >= first)
        assert path.read_bytes().count(b"CKPT") == 2, "and written again"


@pytest.mark.parametrize("how", ["flipped", "lost"])
def test_a_damaged_evaluation_begins_again(durable, how):
    fit, step = durable, ending(lambda k, u: u * 1.01, 9)[0]
    g = fit(grad(lambda x: np.sum(chain(step, x, steps=9, storage=fit))), name="f")
    with pytest.raises(Interrupted):
        g(np.ones(2))
    (path,) = fit.path.glob("*.evaluation/*/manifest.json")
    path.unlink() if how == "lost" else path.write_bytes(flip(path.read_bytes(), 40))
    with pytest.warns(RuntimeWarning, match=r"Fit: .*evaluation.* is damaged \(.*\); its chain begins again"):
        assert g(np.ones(2)).tolist() == grad(lambda x: np.sum(chain(lambda k, u: u * 1.01, x, steps=9)))(np.ones(2)).tolist()
    assert not list(fit.path.glob("*.evaluation"))


def test_the_oldest_are_pruned_whatever_the_clock_says(durable):
    fit, limits = durable, {}

    def f(x):
        def stops(k, state):
            if k == 5 and float(np.sum(getattr(state, "primal", state))) < 4.0:
                raise Interrupted
            return state * 1.0

        return np.sum(chain(stops, x, steps=9, storage=fit))

    g = fit(grad(f), name="f")
    for number, x in enumerate((1.0, 2.0, 3.0, 1.0)):
        with pytest.raises(Interrupted):
            g(np.array([x]))
        newest = max(fit.path.glob("*.evaluation"))
        limits.setdefault(x, newest.name.split("-")[1])
        os.utime(newest, (1e9 - number, 1e9 - number))  # the clock goes backwards
    g(np.array([4.0]))
    left = {path.name.split("-")[1].removesuffix(".evaluation") for path in fit.path.glob("*.evaluation")}
    assert left == {limits[x].removesuffix(".evaluation") for x in (3.0, 1.0)}


def test_another_version_of_numpy_is_said_once(fit, monkeypatch):
    fit(doubled)(1.0)
    monkeypatch.setattr(np, "__version__", "9.9.9")
    again = anew(fit)
    with pytest.warns(RuntimeWarning, match=r"was written with NumPy 2\.\S+, this is 9\.9\.9: stored and new results"):
        f = again(doubled)
    assert f(1.0) == 2.0 and again.answered == 1
    assert anew(fit)(doubled)(1.0) == 2.0


def test_a_full_disk_keeps_results_in_memory(fit, monkeypatch):
    made = []
    f = fit(lambda x: {"a": np.arange(3.0) * x}, name="f")
    f(1.0)
    before = (fit.path / "results.log").read_bytes()

    def full(self, key, leaves):
        self.file.seek(self.end)
        self.file.write(b"CKPT, and no more")  # as far as there is room
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(log.ResultFile, "append", full)
        for x in (2.0, 3.0):
            with pytest.warns(RuntimeWarning, match=r"Fit: cannot write a result into .*: No space left on device. It stays in memory"):
                made.append(f(x)["a"])
        for x in (2.0, 3.0):
            found = f(x)["a"]
            assert found.tolist() == [0.0, x, 2.0 * x]
            found[:] = -1.0  # a copy
            assert f(x)["a"].tolist() == [0.0, x, 2.0 * x]
        assert fit.made == 3
    f(4.0)  # there is room again
    again = anew(fit)
    g = again(lambda x: {"a": np.arange(3.0) * x}, name="f")
    assert all(g(x)["a"].tolist() == [0.0, x, 2.0 * x] for x in (1.0, 2.0, 3.0, 4.0)) and again.made == 0
    assert (fit.path / "results.log").read_bytes().startswith(before)


LAYOUTS = {
    "C": lambda x: x,
    "F": np.asfortranarray,
    "transposed": lambda x: x.transpose(2, 0, 1),
    "mixed": lambda x: np.asfortranarray(x[0]).T,
    "reversed": lambda x: x[::-1, :, ::-1],
    "strided": lambda x: x[:, ::2],
    "F strided": lambda x: np.asfortranarray(x)[::2],
    "0-d": lambda x: x[0, 0, 0, ...],
    "empty": lambda x: x[:0].T,
    "broadcast": lambda x: np.broadcast_to(x[0], x.shape),
}


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("dtype", [float, np.float32, complex, bool])
def test_answers_keep_the_order_of_memory(fit, name, dtype):
    x = LAYOUTS[name](np.random.default_rng(3).normal(size=(3, 4, 5)).astype(dtype))
    f = fit(lambda: [x], name="f")
    made, found = f()[0], f()[0]
    assert fit.answered == 1 and found.dtype == x.dtype and found.shape == x.shape and found.tobytes() == x.tobytes()
    order = lambda array: np.argsort([-abs(stride) for stride in array.strides], kind="stable").tolist()
    assert not x.size or (order(found) == order(x) == order(made) and found.flags.writeable)
    assert not x.size or found.copy(order="K").strides == x.copy(order="K").strides
    if x.size and dtype is not bool and name in ("C", "F", "transposed", "mixed"):
        assert np.sum(found).tobytes() == np.sum(x).tobytes() and found.ravel(order="K").tobytes() == x.ravel(order="K").tobytes()


def test_many_small_results_need_neither_many_files_nor_a_look_at_the_folder(fit, monkeypatch):
    f = fit(lambda x: (2.0 * x[0], x), name="f")
    f(np.zeros(3))
    looks = []

    def watched(name, verb):
        return lambda *arguments, **options: looks.append(name) or verb(*arguments, **options)

    for name in ("listdir", "scandir", "stat", "replace", "fsync", "open"):
        monkeypatch.setattr(os, name, watched(name, getattr(os, name)))
    for k in range(1, 500):
        f(np.full(3, 1.0 * k))
    for k in range(500):
        assert f(np.full(3, 1.0 * k))[0] == 2.0 * k
    monkeypatch.undo()
    assert not set(looks) and (fit.made, fit.answered) == (500, 500)
    assert sorted(path.name for path in fit.path.iterdir()) == ["fit.json", "lock", "results.log"]
    assert (fit.path / "results.log").stat().st_size < 500 * 700


def in_threads(count, ask):
    with ThreadPoolExecutor(count) as pool:
        return [task.result() for task in [pool.submit(ask) for _ in range(count)]]


def test_threads_at_one_point_evaluate_once(fit):
    calls, barrier = [], threading.Barrier(8)

    def slow(x):
        calls.append(x)
        time.sleep(0.05)
        return 2.0 * x

    f = fit(slow)
    found = in_threads(8, lambda: (barrier.wait() >= 0) and (f(1.5), f(2.5)))
    assert found == [(3.0, 5.0)] * 8 and sorted(calls) == [1.5, 2.5] and (fit.made, fit.answered) == (2, 14)


def test_where_one_thread_fails_the_next_evaluates(fit):
    failures = [None] * 3

    def fails(x):
        time.sleep(0.01)
        try:
            failures.pop()
        except IndexError:
            return x
        raise Interrupted

    f = fit(fails)

    def ask():
        with suppress(Interrupted):
            return f(1.0)

    found = in_threads(6, ask)
    assert found.count(None) == 3 and found.count(1.0) == 3 and fit.made == 1


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks on this system")
def test_forked_workers(tmp_path):
    """They answer from the folder, chains keep their states there, and the next process has what they made."""
    script = f"""
import multiprocessing, os
import numpy as np
from checkpoint import Fit, chain, grad
fit = Fit({str(tmp_path / "fit")!r}, every=0)
f = fit(grad(lambda x: np.sum(chain(lambda k, u: u + 0.1 * np.sin(u), x, steps=5, storage=fit))), name="f")
points = [np.array([0.1 * k, 1.0]) for k in range(6)]
first = [f(x) for x in points[:2]]
def work(k):
    return f(points[k]).tolist(), fit.answered
with multiprocessing.get_context("fork").Pool(3) as pool:
    found = pool.map(work, range(6), chunksize=1)
plain = grad(lambda x: np.sum(chain(lambda k, u: u + 0.1 * np.sin(u), x, steps=5)))
print([value for value, _ in found] == [plain(x).tolist() for x in points], fit.made)
"""
    run = lambda: subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, cwd=ROOT)
    done = run()
    assert done.stdout == "True 2\n", done.stderr
    assert len(list((tmp_path / "fit").glob("results-*.log"))) >= 1 and not list((tmp_path / "fit").glob("*.evaluation"))
    done = run()
    assert done.stdout == "True 0\n", done.stderr


def test_it_is_not_sent_to_other_processes(fit):
    with pytest.raises(TypeError, match="Fit: it cannot be pickled"):
        pickle.dumps(fit)


def moved(fit, x, rate=0.1):
    return np.sum(chain(lambda k, u: u + rate * np.sin(u), x, steps=8, storage=fit))


def closing(fit):
    return lambda x: sum(grad(lambda x, rate=rate: moved(fit, x, rate))(x) for rate in (0.1, 0.2, 0.1))


def overlapping(fit):
    """The sweep of the first chain is freed while the second is under way, which has its folder."""

    def f(x):
        pullback = lambda: vjp(lambda x: moved(fit, x), x)[1]
        first = pullback()
        g, second = first(1.0)[0], pullback()
        del first
        gc.collect()
        third = pullback()
        return g + second(1.0)[0] + third(1.0)[0]

    return f


def of_several_losses(fit):
    """Equal chains, one after the other, whose cotangents differ; of one of them, pulled twice."""
    losses = [lambda x: 2.0 * moved(fit, x), lambda x: moved(fit, x) ** 2, lambda x: 2.0 * moved(fit, x)]

    def f(x):
        _, pull = vjp(lambda x: moved(fit, x), x)
        return sum(grad(loss)(x) for loss in losses) + pull(3.0)[0] + pull(5.0)[0]

    return f


@pytest.mark.parametrize(
    "of",
    [lambda fit: grad(lambda x: moved(fit, x) * moved(fit, x) + moved(fit, x)), closing, overlapping, of_several_losses],
    ids=["equal", "others", "overlapping", "of several losses"],
)
def test_several_chains_in_one_evaluation(durable, of):
    """Equal ones are under way at once; one that differs in what its step closes over finds the folder of the first."""
    x = np.array([0.3, 0.7])
    assert durable(of(durable), name="f")(x).tobytes() == of(None)(x).tobytes()
    assert not list(durable.path.glob("*.evaluation"))


@pytest.mark.parametrize("at_once", [True, False])
def test_equal_chains_go_on(durable, at_once):
    x, (step, state) = np.array([0.3, 0.7]), ending(lambda k, u: u + 0.1 * np.sin(u))
    one = lambda x: np.sum(chain(step, x, steps=8, storage=durable))
    of = lambda one: grad(lambda x: one(x) * one(x)) if at_once else lambda x: grad(lambda x: one(x) ** 2)(x) + grad(one)(x)
    expected, f = of(lambda x: moved(None, x))(x), durable(of(one), name="f")
    found = None
    for killed in range(30):
        state.made, state.left = [], 6 + 2 * killed  # what is verified takes some
        try:
            found = f(x)
            break
        except Interrupted:
            assert len(list(durable.path.glob("*.evaluation"))) == 1
    assert found.tobytes() == expected.tobytes() and killed > 2 and not list(durable.path.glob("*.evaluation"))


def swept(step, rate, x, weight, **options):
    """The gradient of the weighted squares of x_8."""
    sweep = Sweep(step, x, steps=8, **options)
    final = sweep.forward()
    return sweep.backward(lambda k, x, g: g * (1.0 + rate(k) * np.cos(x)), 2.0 * weight * final)


def chained(step, rate, x, weight, **options):
    """The gradient of the weighted outs."""
    outs = lambda k, x: (x + 0.1 * np.sin(x), rate(k) * x)
    return grad(lambda x: weight * np.sum(chain(outs, x, steps=8, outputs=True, **options)[1]))(x)


@pytest.mark.parametrize("run", [swept, chained])
def test_what_was_handed_on_is_compared_where_a_chain_goes_on_in_another_folder(durable, run):
    """The steps differ late, in what a fit does not see: x_N and the outs, from which the cotangent is, are of the first chain."""
    rates = SimpleNamespace(third=0.1)
    unseen = ContextVar("rates", default=rates)
    rate = lambda k: unseen.get().third if k == 3 else 0.1
    step = lambda k, x: x + rate(k) * np.sin(x)

    def f(x, last):
        found = []
        for weight, unseen.get().third in ((1.0, 0.1), (2.0, last)):
            found.append(run(step, rate, x, weight, storage=durable))
        return found

    x, g = np.array([0.3, 0.7]), durable(f, name="f")
    for one, weight in zip(g(x, 0.1), (1.0, 2.0), strict=True):
        assert one.tobytes() == run(step, rate, x, weight).tobytes()
    with pytest.raises(ValueError, match=r"belongs to another call: running (all steps|step 3) again gave another"):
        g(x, 0.2)


@pytest.mark.parametrize("at", [0, 1, 4])
def test_an_error_of_a_step_that_is_made_again_is_no_sign_of_another_chain(durable, at):
    """An evaluation whose step fails for once, while it is compared with the process before, keeps what it has."""
    step, state = ending(lambda k, x: x + 0.1 * np.sin(x), left=75)
    state.at = None
    unseen = ContextVar("state", default=state)

    def failing(k, x):
        if len(unseen.get().made) == unseen.get().at:
            raise ValueError("for once")
        return step(k, x)

    x, of = np.array([0.3, 0.7]), lambda step, **options: grad(lambda x: np.sum(chain(step, x, steps=40, **options)))
    expected, f = of(lambda k, x: x + 0.1 * np.sin(x))(x), durable(of(failing, storage=durable), name="f")
    with pytest.raises(Interrupted):
        f(x)
    state.left, state.made[:] = None, []
    state.at = at
    with pytest.raises(ValueError, match="for once"):
        f(x)
    state.made.clear()
    state.at = None
    assert f(x).tobytes() == expected.tobytes() and len(state.made) < 70, "of 120 of the whole evaluation"


def test_evaluations_with_pools_of_their_own(durable):
    """One at a time the chains find it; of two at once only with the context, and the error says how."""

    def parts(x, given):
        with ThreadPoolExecutor(2) as pool:
            run = (lambda *work: pool.submit(copy_context().run, *work)) if given else pool.submit
            return sum(task.result() for task in [run(grad(lambda x, rate=rate: moved(durable, x, rate)), x) for rate in (0.1, 0.2)])

    points = [np.array([0.1, 0.2]), np.array([0.3, 0.4])]
    expected = [sum(grad(lambda x, rate=rate: moved(None, x, rate))(x) for rate in (0.1, 0.2)) for x in points]
    f = durable(parts)
    assert f(points[0], False).tobytes() == expected[0].tobytes()
    with ThreadPoolExecutor(2) as outer:
        found = [task.result() for task in [outer.submit(f, x, True) for x in points]]
    assert [g.tobytes() for g in found] == [g.tobytes() for g in expected]
    barrier = threading.Barrier(2)

    def waits(x):
        barrier.wait()
        return parts(x, False)

    g = durable(waits)
    with ThreadPoolExecutor(2) as outer:
        errors = [task.exception() for task in [outer.submit(g, x) for x in points]]
    said = [str(error) for error in errors if error is not None]
    assert said and all(re.search(r"2 evaluations are running.*contextvars\.copy_context\(\)\.run", text) for text in said)
