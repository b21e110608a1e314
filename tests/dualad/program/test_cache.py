"""Emitted modules on disk: found again, never trusted where others may write, compiled again where damaged."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from interpreted import traced

numba = pytest.importorskip("numba")

from dualad.program import cache, machine  # noqa: E402
from dualad.program.native import compile_numba  # noqa: E402

TEXT = "from numba import njit\n\n\n@njit(cache=CACHED)\ndef part0(x):\n    return x + {}\n\n\ndef part1(x, y):\n    x[1] = y\n"
ROOT = Path(__file__).parents[3]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("DUALAD_CACHE_DIR", str(tmp_path / "own"))
    cache.warn_once.cache_clear()
    return tmp_path / "own"


def compiled(number):
    module = cache.load(TEXT.format(number))
    module.part0.compile((numba.types.float64,))
    cache.seal(module)
    return module


def test_machine_code_is_found_again(folder):
    first = compiled(1)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700 and first.part0(1.0) == 2.0
    files = cache.machine_code(Path(first.__file__))
    assert files and Path(first.__file__).with_suffix(".seal").exists()
    again = compiled(1)
    assert sum(again.part0.stats.cache_hits.values()) == 1 and cache.machine_code(Path(again.__file__)) == files
    assert compiled(2).__file__ != first.__file__


def test_what_is_damaged_is_compiled_again(folder):
    file = Path(compiled(3).__file__)
    for damaged in (*cache.machine_code(file), file, file.with_suffix(".seal")):
        damaged.write_bytes(b"damaged")
        assert compiled(3).part0(1.0) == 4.0
        assert cache.digest_of(cache.machine_code(file)) == file.with_suffix(".seal").read_bytes()


def test_damaged_machine_code_of_a_translated_function_is_made_again(folder, monkeypatch):
    for damaged in (b"damaged", b""):
        monkeypatch.setattr(machine, "made", {})  # as in another process
        module = cache.load(TEXT.format(9))
        assert machine.compiled(module, TEXT.format(9), "part1", [((3,), "float64"), "float64"])(np.zeros(3), 1.0) is None
        cache.seal(module)
        (file,) = cache.machine_code(Path(module.__file__))
        whole = file.read_bytes()
        file.write_bytes(damaged)
        cache.check(Path(module.__file__))
        assert not file.exists() and whole.startswith(b"\x7fELF") == sys.platform.startswith("linux")


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="owners of files are POSIX's")
def test_a_folder_that_others_may_write_is_refused(folder, monkeypatch):
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.warns(cache.CacheWarning, match="may be written by others"):
        assert compiled(4).part0(1.0) == 5.0
    assert not list(folder.iterdir())
    folder.chmod(0o700)
    monkeypatch.setattr(os, "getuid", lambda: folder.stat().st_uid + 1)
    with pytest.raises(OSError, match="belongs to another user"):
        cache.folder()


def test_a_folder_that_cannot_be_made_gives_one_warning(folder, monkeypatch):
    folder.write_text("a file")
    with pytest.warns(cache.CacheWarning, match="not kept on disk"):
        assert compiled(5).part0(1.0) == 6.0
    assert compiled(6).part0(1.0) == 7.0  # a second warning would be an error


def test_a_link_in_place_of_the_file_is_replaced(folder, tmp_path):
    file = Path(cache.load(TEXT.format(7)).__file__)
    victim = tmp_path / "victim"
    victim.write_bytes(file.read_bytes())
    file.unlink()
    file.symlink_to(victim)
    cache.load(TEXT.format(7))
    assert not file.is_symlink()


def test_several_at_once(folder):
    with ThreadPoolExecutor(4) as pool:
        modules = list(pool.map(cache.load, [TEXT.format(8)] * 8))
    assert len({module.__file__ for module in modules}) == 1
    assert not list(folder.glob(".writing*"))


PROGRAM = """
import numpy as np
from dualad import jit
from dualad.program import machine
compiled, optimised = [], machine.optimised
machine.optimised = lambda text: compiled.append(text) or optimised(text)
f = jit(lambda x: np.sum(np.tanh(x) * x), backend="numba")
print(f(np.arange(5.0)), len(compiled))
"""


def test_two_processes(folder):
    """Two at once, and one after them, which compiles nothing."""
    command = [sys.executable, "-c", PROGRAM]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    together = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outs = [process.communicate(timeout=120)[0].split() for process in together]
    last = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, timeout=120, check=True).stdout.split()
    assert outs[0][0] == outs[1][0] == last[0] == str(np.sum(np.tanh(np.arange(5.0)) * np.arange(5.0)))
    subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, timeout=120, check=True)
    again = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, timeout=120, check=True).stdout.split()
    assert again[1] == "0"


BY_NUMBA = """
import numpy as np
from checkpoint import chain, grad
from dualad import jit
x, p = np.random.default_rng(0).uniform(-1, 1, (2, 127))

@jit
def step(k, s, p):
    v = np.outer(s, p)
    return 0.3 * s + 0.1 * np.tanh(np.mean(np.logaddexp2(v, s), axis=0) + np.sum(v * v, axis=1) * 0.01)

print(grad(lambda p: np.sum(chain(step, x, p, steps=3) ** 2))(p).tobytes().hex())
"""


@pytest.mark.long
def test_what_numba_compiles_has_the_same_bits_where_it_is_loaded(folder):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", BY_NUMBA]
    outs = [subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, timeout=120, check=True).stdout for _ in range(2)]
    assert len(outs[0]) > 2000 and outs[0] == outs[1]


def test_results_keep_the_memory_layout():
    x = np.asfortranarray(np.arange(1200.0).reshape(40, 30))
    native = compile_numba(traced(lambda x: (x * 2.0, x.T + 1.0), x))
    twice, turned = native.call(x)
    assert twice.flags.f_contiguous and turned.flags.c_contiguous
    np.testing.assert_array_equal(twice, 2.0 * x)
