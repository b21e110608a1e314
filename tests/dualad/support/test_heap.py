import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

from dualad import keep_heap
from dualad.support import heap

ROOT = Path(__file__).parents[3]

#: counts the pages that twenty temporaries of 8 MB take from the system
PROGRAM = """
import resource, sys
import numpy as np
import dualad
if sys.argv[1] == "keep":
    assert dualad.keep_heap() is True and dualad.keep_heap() is True
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
x = np.ones(1_000_000)
for _ in range(3):
    x + 1.0
before = faults()
for _ in range(20):
    x + 1.0
print(faults() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(heap.glibc() is None, reason="glibc alone has mallopt")
def test_freed_memory_is_taken_again_without_the_system():
    def faults(how):
        command = [sys.executable, "-c", PROGRAM, how]
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, env={"GLIBC_TUNABLES": ""})
        return int(done.stdout)

    assert faults("keep") < 20
    assert faults("keep") <= faults("default")


def test_elsewhere_nothing_happens(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    assert heap.glibc() is None and keep_heap() is False


@pytest.mark.parametrize("error", [TypeError, OSError])
def test_where_the_process_has_no_library(monkeypatch, error):
    def raises(name):
        raise error

    monkeypatch.setattr(ctypes, "CDLL", raises)
    assert heap.glibc() is None
