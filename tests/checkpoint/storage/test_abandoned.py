"""Temporary folders of processes that a signal has ended are removed by the next process, those of living ones are not."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from checkpoint.storage import Disk, background

SCRIPT = """
import signal, sys
from checkpoint.storage import Disk
if hasattr(signal, "SIGHUP"):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores it
session = Disk(sys.argv[1]).open()
session.save(0, 1.5)
session._open()
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def process(tmp_path):
    """A process that has saved a state in a folder of its own."""
    words = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    root = Path(background.__file__).parents[2]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root) as running:
        assert running.stdout.readline() == "ready\n"
        yield running
        running.kill()


def folders(path):
    return {name for name in os.listdir(path) if name.startswith("checkpoint-")}


@pytest.fixture
def saves(tmp_path, monkeypatch):
    """Save a state, as a new process does; returns the folders that are there then."""

    def save():
        monkeypatch.setattr(background, "SURVEYED", set())
        session = Disk(tmp_path).open()
        session.save(0, 1.5)
        own = session._open().path
        found = folders(tmp_path)
        session.clear()
        assert not own.exists() and own.name in found
        return found - {own.name}

    return save


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")
@pytest.mark.parametrize("number", ["SIGTERM", "SIGHUP", "SIGKILL"])
def test_a_folder_outlives_its_process_until_the_next_one(tmp_path, process, saves, number):
    (there,) = folders(tmp_path)
    assert saves() == {there}, "its process lives"
    process.send_signal(getattr(signal, number))
    process.wait()
    assert folders(tmp_path) == {there}
    assert saves() == set()


def test_what_is_not_known_to_be_abandoned_stays(tmp_path, saves):
    """A folder without a lock, one with another file of this name, a link, other names."""
    for name in ("checkpoint-0123456789abcdef", "checkpoint-0123456789abcdee", "checkpoint-mine", "else"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("mine")
    (tmp_path / "checkpoint-0123456789abcdee" / "lock").write_text("mine")
    (tmp_path / "else" / "lock").write_text("")
    (tmp_path / "checkpoint-0123456789abcded").symlink_to(tmp_path / "else")
    saves()
    assert len(list(tmp_path.glob("*/file"))) == 5
