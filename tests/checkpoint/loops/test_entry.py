"""What a chain leaves behind besides its state (outs, gradients by inputs) is there again after a process was killed."""

import shutil
import signal
import warnings

import numpy as np
import pytest
from calls import Counted, Interrupted, bits
from hypothesis import given, settings
from hypothesis import strategies as st
from interpreted import no_optimiser  # noqa: F401  (a fixture: LLVM optimises nothing)
from killing import kill_again_and_again

from checkpoint import CTZ, Disk, Online, Periodic, Revolve, StoreAll, chain, grad, vjp

N = 17
STATE = (np.array([0.3, -0.2, 0.9]), 0.5)
ROWS = {"force": np.sin(np.arange(2.0 * N)).reshape(N, 2), "gain": np.linspace(1.0, 2.0, N)}
SCHEDULES = [StoreAll(), CTZ(), Revolve(1), Revolve(3), Periodic(5)]

pytestmark = pytest.mark.usefixtures("no_fsync")


class Calls(Counted):
    """The steps of a chain."""

    def driven(self, k, state, row, c):
        self.count(k)
        x, v = state
        v = v * c + 0.1 * np.sum(np.sin(x)) * row["gain"]
        return (x + 0.1 * v * np.cos(x), v), {"x2": x * x, "more": (v, k), "force": row["force"]}

    def free(self, k, state, c):
        return self.driven(k, state, {"gain": 1.5, "force": np.ones(2)}, c)

    def loss(self, state, rows, c, **options):
        if "until" in options:
            final, outs = chain(self.free, state, c, outputs=True, **options)
        else:
            final, outs = chain(self.driven, state, c, inputs=rows, outputs=True, **options)
        weights = np.cos(np.arange(1.0 * N))
        v, index = outs["more"]
        assert index.tolist() == list(range(N))
        return np.sum(final[0]) * np.sum(outs["x2"] @ np.ones(3) * weights) + np.sum(v * weights) + np.sum(outs["force"] ** 2)

    def gradient(self, **options):
        return bits(grad(self.loss, argnums=(0, 1, 2))(STATE, ROWS, 0.9, **options))


def until(k, state):
    return k == N


EXPECTED = {"known": Calls().gradient(), "until": Calls().gradient(until=until)}


@pytest.mark.slow
@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
@pytest.mark.parametrize("length", ["known", "until"])
@settings(max_examples=8)
@given(data=st.data())
def test_only_what_was_lost_is_repeated(tmp_path_factory, length, schedule, data):
    if length == "until" and type(schedule) is Revolve:
        schedule = Online(schedule.slots + 1)
    options = {"schedule": schedule} | ({"until": until} if length == "until" else {})
    clean = Calls()
    clean.gradient(**options)
    folder = tmp_path_factory.mktemp("at") / "folder"
    end = data.draw(st.integers(0, len(clean.made) - 1))
    first, second = Calls(end), Calls()
    with pytest.raises(Interrupted):
        first.gradient(storage=Disk(folder, resume=True, every=0), **options)
    assert second.gradient(storage=Disk(folder, resume=True, every=0), **options) == EXPECTED[length]
    assert not folder.exists()
    again = second.made
    kept = plain_kept(clean.made, end, schedule)
    if kept > 1:
        assert again[:2] == [0, 0], "tried, and compared"
        gap = 1 if type(schedule) is StoreAll else N
        assert len(again) <= len(clean.made) - kept + 3 + gap


def plain_kept(made, end, schedule):
    """At least this many of the first calls are not repeated: of StoreAll all but one and the trial, of the others a sweep that is done."""
    return end - 2 if type(schedule) is StoreAll else N if end > N else 0


def test_the_pullback_is_called_again_and_interrupted_there(folder):
    """The second call runs the chain anew, and so its rows are written anew."""
    calls = Calls()
    f = lambda rows: chain(calls.driven, STATE, 0.9, inputs=rows, outputs=True, storage=Disk(folder, resume=True, every=0))[1]["x2"]
    _, pullback = vjp(f, ROWS)
    first, second = pullback(np.ones((N, 3))), pullback(np.ones((N, 3)))
    assert bits(first) == bits(second) and not folder.exists()
    calls.end.at = len(calls.made) + 8
    with pytest.raises(Interrupted):
        pullback(np.ones((N, 3)))
    calls.end.at = None
    assert bits(pullback(np.ones((N, 3)))) == bits(first) and not folder.exists()


def test_another_cotangent_of_the_outs_and_other_parameters_are_refused(folder):
    calls = Calls()
    f = lambda state, c: chain(calls.driven, state, c, inputs=ROWS, outputs=True, storage=Disk(folder, resume=True, every=0))[1]["x2"]
    _, pullback = vjp(lambda state: f(state, 0.9), STATE)
    calls.end.at = N + 5
    with pytest.raises(Interrupted):
        pullback(np.ones((N, 3)))
    calls.end.at = None
    with pytest.raises(ValueError, match="another cotangent"):
        pullback(np.zeros((N, 3)))
    with pytest.raises(ValueError, match=r"differs in: params\[0\] \(0.9 there, 0.8 here\)"):
        vjp(lambda state: f(state, 0.8), STATE)
    with pytest.raises(ValueError, match="differs in: what is differentiated"):
        vjp(
            lambda rows: chain(calls.driven, STATE, 0.9, inputs=rows, outputs=True, storage=Disk(folder, resume=True, every=0))[1]["x2"],
            ROWS,
        )


@pytest.mark.parametrize(("end", "name"), [(9, "first"), (N + 6, "first"), (N + 6, "reverse")])
@pytest.mark.parametrize("damage", ["cut", "gone", "longer"])
def test_lost_rows_are_made_again(folder, end, name, damage):
    """Part of a row behind the last one counts for nothing."""
    options = {"storage": Disk(folder, resume=True, every=0), "schedule": StoreAll()}
    with pytest.raises(Interrupted):
        Calls(end).gradient(**options)
    path = folder / f"{name}.rows"
    data = path.read_bytes()
    path.unlink() if damage == "gone" else path.write_bytes(data[:100] if damage == "cut" else data + data[:70])
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        assert Calls().gradient(**options) == EXPECTED["known"]
    assert [f"{path} has lost rows" in str(one.message) for one in warned[:1]] == ([] if damage == "longer" else [True])


SCRIPT = """
import sys
from checkpoint import Disk, Online, Revolve
from checkpoint.durable import log
from checkpoint.durable import session as room
from checkpoint.storage import background, codec, files
from killing import counted
from test_entry import Calls, until

moment, folder, length = int(sys.argv[1]), sys.argv[2], sys.argv[3]
os = files.os
os.fsync = lambda file: None  # it only takes time
encoders = [(module, "encode_records") for module in (codec, background, log)]
before = counted(moment, (os, "replace"), (os, "fsync"), (os, "write"), (room, "remove_files"), *encoders)
Calls.count = before(Calls.count)
options = {"until": until, "schedule": Online(3)} if length == "until" else {"schedule": Revolve(3)}
print(" ".join(Calls().gradient(storage=Disk(folder, resume=True, every=0), **options)))
"""


@pytest.mark.long
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")
@pytest.mark.parametrize("length", ["known", "until"])
def test_killed(tmp_path, folder, length):
    """At random calls of the step and the system; on one folder until one process comes through, then anew."""
    kill_again_and_again(tmp_path, folder, SCRIPT, length, module=__name__, kills=16, latest=560, expected=" ".join(EXPECTED[length]))


DAMAGES = {
    "flipped": lambda data: data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 4]) + data[len(data) // 2 + 1 :],
    "flipped in the header": lambda data: data[:40] + bytes([data[40] ^ 1]) + data[41:],
    "cut": lambda data: data[:-3],
    "empty": lambda data: b"",
    "longer": lambda data: data + b"more",
}


@pytest.mark.long
@pytest.mark.parametrize("length", ["known", "until"])
@pytest.mark.parametrize("end", [13, N + 4])
def test_whatever_is_damaged_is_named_and_made_again(tmp_path, length, end):
    """Each file in turn, in each way; only without the manifest nothing can be done."""
    options = {"schedule": CTZ()} | ({"until": until} if length == "until" else {})
    original = tmp_path / "original"
    with pytest.raises(Interrupted):
        Calls(end).gradient(storage=Disk(original, resume=True, every=0), **options)
    names = sorted(file.name for file in original.iterdir() if file.name not in ("lock", "manifest.json"))
    kinds = {name.split(".")[-1] for name in names}
    assert kinds == {"rows", "batch", "point"} | ({"final"} if end > N else set())
    folder = tmp_path / "folder"
    for name in names:
        for how in (*DAMAGES, "gone"):
            shutil.copytree(original, folder)
            path = folder / name
            path.unlink() if how == "gone" else path.write_bytes(DAMAGES[how](path.read_bytes()))
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                assert Calls().gradient(storage=Disk(folder, resume=True, every=0), **options) == EXPECTED[length], (name, how)
            assert not folder.exists() and all(str(folder) in str(warning.message) for warning in warned)
