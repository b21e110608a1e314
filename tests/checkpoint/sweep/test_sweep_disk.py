"""Sweeps with states on disk: the same bits, damage repaired, nothing left behind."""

import errno
import os
import threading

import numpy as np
import pytest
from on_disk import written
from step_kinds import GRID, mix, mix_pull

from checkpoint.schedules import CTZ, Revolve, StoreAll, Tiered
from checkpoint.schedules.actions import Save
from checkpoint.storage import Disk
from checkpoint.storage import background as disk_module
from checkpoint.sweep import Sweep, reverse


def run(**options):
    return reverse(mix, mix_pull, GRID, np.cos(GRID), **({"steps": 23} | options))


EXPECTED = run(schedule=StoreAll())


@pytest.fixture(autouse=True)
def every_state_in_a_file_of_its_own(monkeypatch):
    monkeypatch.setattr(disk_module, "GATHERED_BYTES", -1)


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path):
    yield
    assert list(tmp_path.rglob("*.state")) == list(tmp_path.rglob("*.tmp")) == []
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("checkpoint-")]


def test_tiered_puts_the_busiest_places_in_memory(tmp_path, monkeypatch):
    on_disk, real = [], disk_module.DiskSession.save
    monkeypatch.setattr(disk_module.DiskSession, "save", lambda self, k, x: on_disk.append(k) or real(self, k, x))
    schedule = Tiered(2, 2)
    result = run(steps=30, schedule=schedule, storage=Disk(tmp_path))
    first = [action.index for action in schedule.forward(30) if type(action) is Save]
    assert schedule.on_disk(30) == {0, 1} and on_disk[:2] == first[:2] and not set(on_disk) & set(first[2:])
    assert result.cotangent.tobytes() == run(steps=30).cotangent.tobytes()
    assert run(steps=3, schedule=schedule).stats.peak_states == 2


def alter(file):
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


DAMAGE = {"cut off": lambda file: os.truncate(file, 100), "altered": alter, "gone": os.remove}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("which", [[0], [-1], [1], [0, 1], [-1, -2], "all"], ids=str)
@pytest.mark.parametrize("schedule", [CTZ(), Revolve(3), StoreAll(), Tiered(1, 3)], ids=repr)
def test_a_damaged_file_costs_advances_and_not_the_gradient(damage, which, schedule, tmp_path):
    sweep = Sweep(mix, GRID, steps=23, schedule=schedule, storage=Disk(tmp_path))
    sweep.forward()
    written(getattr(sweep._session, "disk", sweep._session))
    files = sorted(tmp_path.glob("*/*.state"))
    chosen = files if which == "all" else [files[i] for i in which]
    for file in chosen:
        DAMAGE[damage](file)
    with pytest.warns(RuntimeWarning) as warned:
        cotangent = sweep.backward(mix_pull, np.cos(GRID))
    assert cotangent.tobytes() == EXPECTED.cotangent.tobytes()
    named = {str(file) for file in chosen for warning in warned if str(file) in str(warning.message)}
    assert named == {str(file) for file in chosen}, "every damaged file is named"
    assert all("is computed again" in str(warning.message) for warning in warned)
    assert sweep.stats.advances >= run(schedule=schedule).stats.advances


def test_a_damaged_state_is_computed_again_once(tmp_path):
    sweep = Sweep(mix, GRID, steps=23, schedule=Revolve(3), storage=Disk(tmp_path))
    sweep.forward()
    clean = run(schedule=Revolve(3)).stats
    written(sweep._session)
    files = sorted(tmp_path.glob("*/*.state"))
    alter(files[2])
    first, second, third = (int(file.stem) for file in files)
    with pytest.warns(RuntimeWarning, match=f"x_{third} is computed again") as warned:
        sweep.backward(mix_pull, np.cos(GRID))
    assert len(warned) == 1 and sweep.stats.advances == clean.advances + third - second and first == 0


@pytest.mark.parametrize("room", [0, 1, 3])
def test_a_full_disk(room, tmp_path, monkeypatch):
    """Room for so many states; the next one fails in the thread, and the error ends the sweep."""
    real, written = disk_module.write_file, []

    def write(path, blocks, what):
        if len(written) == room:
            raise OSError(errno.ENOSPC, "Disk: cannot write: No space left on device", str(path))
        written.append(what)
        real(path, blocks, what)

    monkeypatch.setattr(disk_module, "write_file", write)
    with pytest.raises(OSError, match="No space left on device") as caught:
        run(storage=Disk(tmp_path))
    assert caught.value.errno == errno.ENOSPC and str(tmp_path) in caught.value.filename
    assert os.listdir(tmp_path) == []


def test_two_sweeps_in_two_threads_share_a_folder(tmp_path):
    results = []
    storage = Disk(tmp_path)
    threads = [threading.Thread(target=lambda: results.append(run(storage=storage).cotangent)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [result.tobytes() for result in results] == [EXPECTED.cotangent.tobytes()] * 4
