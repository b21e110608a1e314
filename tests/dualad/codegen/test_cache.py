"""Machine code on disk: found again, whole or not at all, never more than its share, never where others may write."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from handmade import compiled, variables

pytest.importorskip("llvmlite")

import dualad
from dualad.__main__ import main
from dualad.codegen import cache, machine, trusted
from dualad.ir.nodes import Store, number

ROOT = Path(__file__).parents[3]
POSIX = pytest.mark.skipif(not trusted.POSIX, reason="owners and rights are POSIX's")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    machine.enter()  # which all functions share
    monkeypatch.setenv("DUALAD_CACHE_DIR", str(tmp_path / "own"))
    cache.warn_once.cache_clear()
    return tmp_path / "own"


def made(digest, size=100):
    """Return machine code, and how often it was made."""
    calls = []
    return cache.stored(digest, lambda: calls.append(0) or digest.encode() * size), len(calls)


def test_what_is_on_disk_is_not_made_again(folder):
    assert [made("a")[1], made("a")[1], made("b")[1], made("b")[1]] == [1, 0, 1, 0]
    assert made("a")[0] == b"a" * 100 and len(list(folder.iterdir())) == 2


@pytest.mark.parametrize("damage", [lambda whole: whole[:-1], lambda whole: whole[:20], lambda whole: b"", lambda whole: whole + b"1"])
def test_what_is_damaged_is_made_again(folder, damage):
    made("a")
    (file,) = folder.iterdir()
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    assert made("a") == (b"a" * 100, 1) and file.read_bytes() == whole


def test_damaged_machine_code_of_a_function_is_compiled_again(folder, monkeypatch):
    a, b = variables(x=((3,), "float64"), y="float64")
    for damaged in (b"damaged", b"", None):
        monkeypatch.setattr(machine, "made", {})  # as in another process
        x = np.zeros(3)
        compiled((a, b), Store(a, (number(1),), b))(x, 1.0)
        assert x[1] == 1.0
        (file,) = folder.iterdir()
        assert file.read_bytes()[32:].startswith(b"\x7fELF") == sys.platform.startswith("linux")
        if damaged is not None:
            file.write_bytes(damaged)


def test_the_least_recently_used_go(folder, monkeypatch):
    monkeypatch.setenv("DUALAD_CACHE_SIZE", "10 kB")
    for k in range(9):  # 1032 bytes each
        before = {*folder.iterdir()} if k else set()
        made(str(k), 1000)
        (file,) = {*folder.iterdir()} - before
        os.utime(file, (1000.0 + k, 1000.0 + k))
    assert made("0", 1000)[1] == 0
    for name in "abc":
        made(name, 1000)
    assert sum(file.stat().st_size for file in folder.iterdir()) <= 10_000
    assert made("0", 1000)[1] == 0 and made("c", 1000)[1] == 0 and made("1", 1000)[1] == 1


def test_the_size_holds_for_whatever_is_written(folder, monkeypatch):
    monkeypatch.setenv("DUALAD_CACHE_SIZE", "20000")
    rng = np.random.default_rng(0)
    for k in range(60):
        made(f"{k:02}", int(rng.integers(1, 4000)))
        assert sum(file.stat().st_size for file in folder.iterdir()) <= 20_000
    before = sorted(folder.iterdir())
    assert made("xx", 20_000)[1] == 1 and sorted(folder.iterdir()) == before  # larger than all together may be


def test_files_of_others_are_left_alone_and_those_of_killed_processes_go(folder, monkeypatch):
    monkeypatch.setenv("DUALAD_CACHE_SIZE", "4000")
    folder.mkdir(mode=0o700)
    for name in ("notes.txt", ".writing-0123456789abcdef", ".writing-0000000000000000"):
        (folder / name).write_bytes(b"1" * 3000)
    os.utime(folder / ".writing-0123456789abcdef", (0, 0))
    for k in range(9):
        made(str(k), 1000)
    left = {file.name for file in folder.iterdir() if file.suffix != ".code"}
    assert left == {"notes.txt", ".writing-0000000000000000"}
    dualad.clear_cache()
    assert [file.name for file in folder.iterdir()] == ["notes.txt"]


def test_it_is_switched_off(folder, monkeypatch):
    monkeypatch.setenv("DUALAD_CACHE_SIZE", "0")
    assert made("a")[1] == made("a")[1] == 1 and not folder.exists()
    monkeypatch.setenv("DUALAD_CACHE_SIZE", "much")
    with pytest.warns(cache.CacheWarning, match="DUALAD_CACHE_SIZE: cannot read 'much'"):
        assert made("a")[1] == 1
    assert not folder.exists()


def test_what_cannot_be_done_with_it_is_said_in_a_line(capsys):
    with pytest.raises(SystemExit):
        main(["cache", "wipe"])
    assert "\npython -m dualad cache: error: argument action: invalid choice: 'wipe'" in capsys.readouterr().err


def test_it_is_shown_and_cleared(folder, monkeypatch, capsys):
    assert dualad.clear_cache() == 0 and not folder.exists()
    made("a"), made("b")
    assert main(["cache"]) == 0 and capsys.readouterr().out == f"{folder}: 2 functions, 264 B of 256 MB\n"
    assert main(["cache", "clear"]) == 0 and capsys.readouterr().out == "264 B freed\n"
    assert made("a")[1] == 1 and dualad.clear_cache() == 132 and not list(folder.iterdir())
    monkeypatch.setenv("DUALAD_CACHE_SIZE", "0")
    assert main(["cache", "show"]) == 0 and "switched off" in capsys.readouterr().out


@POSIX
def test_a_folder_that_others_may_write_is_not_used(folder, capsys):
    made("a")
    folder.chmod(0o770)
    with pytest.warns(cache.CacheWarning, match=f"{folder}: it may be written by others; set DUALAD_CACHE_DIR to") as caught:
        assert made("a")[1] == 1
    assert "chmod" not in str(caught[0].message)
    assert made("a")[1] == 1  # a second warning would be an error
    with pytest.raises(PermissionError, match="may be written by others"):
        dualad.clear_cache()
    assert main(["cache", "clear"]) == 1 and "may be written by others" in capsys.readouterr().err
    assert main(["cache"]) == 0 and capsys.readouterr().out.startswith("not used: ")
    assert len(list(folder.iterdir())) == 1


@POSIX
def test_a_parent_that_a_group_may_write_is_not_used(tmp_path, folder, monkeypatch):
    (tmp_path / "caches").mkdir()
    (tmp_path / "caches").chmod(0o775)
    monkeypatch.delenv("DUALAD_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    with pytest.warns(cache.CacheWarning, match="a folder on the way to it may be written by others"):
        assert made("a")[1] == 1
    assert not list((tmp_path / "caches").iterdir())


def test_a_user_without_a_home(folder, monkeypatch):
    monkeypatch.delenv("DUALAD_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    with pytest.warns(cache.CacheWarning, match="this user has no home folder; set DUALAD_CACHE_DIR"):
        assert made("a")[1] == 1
    assert not os.path.exists("relative")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is full")
def test_a_full_disk_is_no_error(folder, monkeypatch):
    def full(*arguments):
        with open("/dev/full", "wb") as file:
            file.write(b"1")

    monkeypatch.setattr(trusted.TrustedFolder, "write", full)
    with pytest.warns(cache.CacheWarning, match="No space left"):
        assert made("a") == (b"a" * 100, 1)


def test_several_threads_at_once(folder):
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda k: made(str(k % 3))[0], range(60)))
    assert results == [str(k % 3).encode() * 100 for k in range(60)]
    assert len(list(folder.iterdir())) == 3


def run(program, **environment):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True)


PROGRAM = """
import numpy as np
from dualad import jit
from dualad.codegen import machine
made, optimised = [], machine.optimised
machine.optimised = lambda text: made.append(text) or optimised(text)
f = jit(lambda x: np.sum(np.tanh(x) * x), backend="llvm")
print(f(np.arange(5.0)), len(made))
"""


@pytest.mark.slow
def test_two_processes(folder):
    """Two at once, which compile how functions are entered and one function, and one after them, which compiles nothing."""
    together = [run(PROGRAM) for _ in range(2)]
    outs = [process.communicate(timeout=120)[0].split() for process in together]
    last = run(PROGRAM).communicate(timeout=120)[0].split()
    assert outs[0][0] == outs[1][0] == last[0] == str(np.sum(np.tanh(np.arange(5.0)) * np.arange(5.0)))
    assert 2 <= int(outs[0][1]) + int(outs[1][1]) <= 4 and last[1] == "0"
