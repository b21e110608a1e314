"""Files: no link is followed, and none that is open is lost by an interrupt, wherever that comes."""

import dis
import os
import sys
from functools import cache
from itertools import count
from pathlib import Path

import pytest
from interrupting import interrupted

import checkpoint.storage
from checkpoint.durable.log import ResultFile, RowLog
from checkpoint.durable.session import DurableFolder, read_manifest, write_manifest
from checkpoint.storage.codec import read_leaves, write_leaves
from checkpoint.storage.files import GUARD, LOCKED, Lock, create_file, open_file, open_to_append, sync_file

ROOM = str(Path(checkpoint.storage.__file__).parent)


def begun(folder):
    kept = DurableFolder(folder, shared=True)
    try:
        kept.open()
        kept.begin({})
        kept.log("first").append(0, [1.0])
    finally:
        twice(kept.remove)


def locked(folder):
    lock = Lock(folder / "another")
    try:
        lock.acquire()
    finally:
        twice(lock.release)


def twice(verb):
    """Call a verb that may be called again, as a sweep does where it is interrupted."""
    try:
        verb()
    except BaseException:
        verb()
        raise


CALLS = {
    "folder": begun,
    "lock": locked,
    "new manifest": lambda folder: write_manifest(folder / "manifest.json", {}),
    "manifest": lambda folder: read_manifest(folder / "manifest.json"),
    "log": lambda folder: RowLog(folder / "first.rows").close(),
    "new log": lambda folder: RowLog(folder / "reverse.rows").close(),
    "rows": lambda folder: RowLog(folder / "first.rows").read(),
    "written": lambda folder: write_leaves(folder / "a.state", 0, [1.0]),
    "read": lambda folder: read_leaves(folder / "b.state", 0),
    "results": lambda folder: ResultFile(folder / "results.log").close(),
    "synced": lambda folder: sync_file(folder / "b.state"),
}


@cache
def names(code):
    """The instructions of a code by their place."""
    return {step.offset: step.opname for step in dis.get_instructions(code)}


def watched(code):
    return code.co_filename.startswith(ROOM) and code.co_name != "close"


def looks(code, previous):
    """Return whether CPython looks for signals behind an instruction.

    It looks where a function begins and behind calls; elsewhere, as between a lock that is taken and its block, no interrupt can come.
    """
    return previous is None or names(code)[previous].startswith(("CALL", "RESUME"))


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="not every instruction is traced there")
@pytest.mark.skipif(not os.path.exists("/dev/fd") or not hasattr(os, "fork"), reason="open files are counted in /dev/fd, and removed")
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", CALLS)
def test_an_interrupt_leaves_no_file_open(tmp_path, name):
    begun(tmp_path)
    write_leaves(tmp_path / "b.state", 0, [1.0])
    for number in count(0, 7 if name == "folder" else 1):
        before, locked = len(os.listdir("/dev/fd")), set(LOCKED)
        hit = interrupted(lambda: CALLS[name](tmp_path), number, watched, looks)
        assert len(os.listdir("/dev/fd")) == before and locked >= LOCKED and not GUARD._is_owned(), number
        (tmp_path / "manifest.json.tmp").unlink(missing_ok=True)
        if not hit:
            break
    assert number > 3


def test_links_are_not_followed(tmp_path):
    there, link, dangling = tmp_path / "file", tmp_path / "link", tmp_path / "dangling"
    there.write_bytes(b"text")
    try:
        link.symlink_to(there)
        dangling.symlink_to(tmp_path / "nothing")
    except OSError:
        pytest.skip("no links on this system")
    for path in (link, dangling):
        for verb in (open_file, open_to_append, lambda path: open_file(path, "r+")):
            with pytest.raises(OSError):
                verb(path)
        with pytest.raises(FileExistsError):
            create_file(path)
    assert there.read_bytes() == b"text" and not (tmp_path / "nothing").exists()
    with open_to_append(there) as file:
        file.write(b" and more")
    assert there.read_bytes() == b"text and more"


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_what_is_no_file_is_named_and_not_waited_for(tmp_path, kind):
    if kind == "pipe" and not hasattr(os, "mkfifo"):
        pytest.skip("no pipes on this system")
    (os.mkdir if kind == "folder" else os.mkfifo)(tmp_path / "there")
    verbs = [open_file, open_to_append, lambda path: open_file(path, "r+"), lambda path: Lock(path).acquire()]
    for verb in (*verbs, lambda path: read_leaves(path, 0)):
        with pytest.raises(OSError, match=r"not a regular file.*there|there.*not a regular file"):
            verb(tmp_path / "there")


@pytest.mark.parametrize("left", [0, 1, 10, 11, 13])
def test_a_lock_that_was_written_in_part_is_a_lock(tmp_path, left):
    """As a write that was cut short, or a process that was ended between two of them, leaves it."""
    path = tmp_path / "lock"
    path.write_text("checkpoint 123"[:left])
    lock, other = Lock(path), Lock(path)
    lock.acquire()
    assert path.read_text() == f"checkpoint {os.getpid()}"
    with pytest.raises(BlockingIOError, match=f"in process {os.getpid()} \\(this one\\)"):
        other.acquire()
    lock.release()
