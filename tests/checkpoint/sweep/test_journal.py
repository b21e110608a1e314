"""Durability wraps a sweep: what stays in memory knows nothing of it."""

import subprocess
import sys

import pytest

from checkpoint import Disk, Memory, Tiers
from checkpoint.durable.journal import DurableJournal

ALONE = "import checkpoint"
IN_MEMORY = """
from checkpoint import chain, grad
assert grad(lambda x: chain(lambda k, x: 0.5 * x, x, steps=4))(1.0) == 0.5**4
"""
TOLD = """
import sys
from _thread import _count
unwanted = "checkpoint.durable", "checkpoint.storage.background", "checkpoint.storage.worker"
print(*(name for name in sys.modules if name.startswith(unwanted)))
print(_count(), *(name for name in sys.modules if name.startswith(("checkpoint.storage", "checkpoint.loops"))))
"""


@pytest.mark.parametrize("script", [ALONE, IN_MEMORY], ids=["import", "chain"])
def test_a_chain_in_memory_imports_nothing_that_outlives_the_process_and_no_thread(script):
    done = subprocess.run([sys.executable, "-c", script + TOLD], capture_output=True, text=True, check=True)
    durable, rest = done.stdout.splitlines()
    assert not durable and rest.startswith("0")
    assert script is IN_MEMORY or rest == "0", "what a chain needs is imported with it"


def test_only_a_durable_storage_brings_a_journal(tmp_path):
    assert [storage.durable for storage in (Memory(), Disk(), Tiers())] == [False] * 3
    kept = Disk(tmp_path / "kept", resume=True)
    assert kept.durable
    for storage, kind in (Memory(), None), (Disk(), None), (kept, DurableJournal):
        assert storage.open().journal is kind
