"""A folder that outlives the process: what is not of the sweep is never touched, and what is damaged is named."""

import errno
import json
import os
import shutil

import numpy as np
import pytest

from checkpoint.durable import session as module
from checkpoint.durable.session import DurableStates
from checkpoint.storage import DamagedState, Disk
from checkpoint.storage import files as lock_module
from checkpoint.sweep import reverse

FOREIGN = ["notes.txt", "data.tmp", "mine.rows", "000.state", "manifest.json.bak", ".hidden", "other"]
OURS = ["lock", "manifest.json", "first.rows", "finished.json", "manifest.json.tmp"]
OURS += ["000000000000001-000000000000.state", "000000000000001-000000000000.point"]


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "folder"
    path.mkdir()
    return path


def run(folder, fail_at=None, **options):
    def step(k, x):
        if k == fail_at:
            raise ZeroDivisionError
        return np.sin(x) + 1.0

    return reverse(
        step, lambda k, x, g: np.cos(x) * g, np.ones(3), np.ones(3), steps=9, storage=Disk(folder, resume=True, every=0, **options)
    )


def interrupt(folder, **options):
    with pytest.raises(ZeroDivisionError):
        run(folder, 7, **options)


def contents(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_folder_with_other_files_is_refused_and_left_as_it_is(folder, name):
    (folder / name).write_text("mine")
    with pytest.raises(FileExistsError, match=rf"has other files \({name}\).*shared=True"):
        run(folder)
    assert contents(folder) == {name: b"mine"}


def test_in_a_shared_folder_other_files_are_left_alone(folder):
    for name in FOREIGN:
        (folder / name).write_text(name)
    (folder / "sub").mkdir()
    before = contents(folder)
    interrupt(folder, shared=True)
    assert contents(folder).items() > before.items()
    with pytest.raises(FileExistsError, match=r"has other files \(.*, .*, .* and 5 more\)"):
        run(folder)
    run(folder, shared=True)
    assert contents(folder) == before and (folder / "sub").is_dir()


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("name", OURS)
def test_a_foreign_file_with_a_name_of_ours_is_never_touched(folder, name, shared):
    (folder / name).write_text("mine")
    with pytest.raises(OSError, match=name) as caught:
        run(folder, shared=shared)
    assert str(folder) in str(caught.value)
    found = contents(folder)
    assert found.pop(name) == b"mine" and found.keys() <= {"lock"}


@pytest.mark.skipif(not hasattr(os, "O_NOFOLLOW"), reason="links are not told apart when a file is opened, and need a privilege")
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("name", OURS)
def test_links_are_not_followed(folder, name, shared, tmp_path):
    target = tmp_path / "target"
    target.write_text("")
    (folder / name).symlink_to(target)
    with pytest.raises(FileExistsError, match="not a regular file"):
        run(folder, shared=shared)
    assert target.read_text() == "" and (folder / name).is_symlink()
    with pytest.raises(OSError, match=r"(?i)link") as caught:
        lock_module.Lock(folder / name).acquire()
    assert caught.value.errno == errno.ELOOP


def test_nothing_is_removed_before_the_call_is_known_to_be_the_same(folder):
    interrupt(folder)
    (folder / "000000000000099-000000000000.state.tmp").write_bytes(b"part")
    before = contents(folder)
    with pytest.raises(ValueError, match="belongs to another call; it differs in: step"):
        reverse(lambda k, x: x, lambda k, x, g: g, np.ones(3), 1.0, steps=9, token=3, storage=Disk(folder, resume=True, every=0))
    assert contents(folder).keys() == before.keys()
    run(folder)
    assert not folder.exists()


def test_a_sweep_that_was_ended_while_it_removed_its_files_begins_anew(folder, monkeypatch):
    def end(folder):
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(module.DurableFolder, "remove_all", end)
        with pytest.raises(ZeroDivisionError):
            run(folder)
    assert "finished.json" in contents(folder) and "manifest.json" not in contents(folder)
    run(folder)
    assert not folder.exists()


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "gone"])
def test_a_damaged_manifest_is_named(folder, damage):
    interrupt(folder)
    path = folder / "manifest.json"
    data = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        content = json.loads(data)
        content["call"]["steps"] = 10
        path.write_bytes({"cut": data[:-1], "flipped": json.dumps(content).encode(), "empty": b""}[damage])
    with pytest.raises(OSError, match=r"manifest\.json.*remove the folder to begin anew") as caught:
        run(folder)
    assert type(caught.value) is (FileExistsError if damage == "gone" else DamagedState)
    shutil.rmtree(folder)
    run(folder)


def test_the_beginning_of_a_manifest_is_of_no_use(folder):
    (folder / "lock").write_text("checkpoint 12")
    (folder / "manifest.json.tmp").write_bytes(module.SIGNATURE[:9])
    run(folder)
    assert not folder.exists()


@pytest.mark.parametrize("kind", ["state", "batch", "final", "point"])
def test_files_of_another_run_do_not_count(folder, tmp_path, kind):
    """Two runs of the same call have files of the same names."""

    def write(path, value):
        session = DurableStates(path, 1)
        session.begin({"steps": 9})
        if kind == "point":
            session.commit(4, [value])
        elif kind == "final":
            session.write_final(4, [value])
        else:
            session.save(4, value if kind == "batch" else np.full(2 * 10**6, value))
            session.commit(4, [])
        session.clear()

    for name, value in (("folder", 1.0), ("other", 2.0)):
        write(tmp_path / name, value)
    (name,) = (file.name for file in folder.iterdir() if file.suffix == f".{kind}")
    shutil.copy(tmp_path / "other" / name, folder / name)
    session = DurableStates(folder, 1)
    (mark,) = [mark for mark in session.begin({"steps": 9}) if mark.kind == kind]
    with pytest.raises(DamagedState, match=f"{name}: it is of another run"):
        session.read(mark)
    session.finish()


def full(*arguments):
    raise OSError(errno.ENOSPC, "No space left on device")


class Full(lock_module.io.FileIO):
    write = full


@pytest.mark.parametrize(
    ("place", "name", "what", "reason"),
    [
        (lock_module.io, "FileIO", Full, "cannot write the lock of the folder: No space left on device.*lock"),
        (os, "replace", full, r"cannot write the manifest, which takes \d+ B: No space left on device.*manifest\.json"),
    ],
    ids=["lock", "manifest"],
)
def test_a_full_disk_is_reported_as_such(folder, monkeypatch, place, name, what, reason):
    with monkeypatch.context() as patch:
        patch.setattr(place, name, what)
        with pytest.raises(OSError, match=reason) as caught:
            run(folder)
    assert caught.value.errno == errno.ENOSPC
    run(folder)
    assert not folder.exists()
