"""Durability wraps a sweep: what stays in memory knows nothing of it."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import checkpoint
from checkpoint import Disk, Memory, Tiers
from checkpoint.durable.journal import DurableJournal

CHAIN = """
from checkpoint import Disk, Memory, Tiers, chain, grad, sweep
from dualad import jit
step, result = lambda k, x: 0.5 * x, 0.5**4
"""
SCRIPTS = {
    "import": "import checkpoint",
    "chain": CHAIN + "assert grad(lambda x: chain(step, x, steps=4))(1.0) == result",
    "compiled": CHAIN + "assert grad(lambda x: chain(jit(step), x, steps=4))(1.0) == result",
    "budget": CHAIN + "assert grad(lambda x: chain(step, x, steps=4, memory='1 MB'))(1.0) == result",
    "sweep": CHAIN + "assert sweep.reverse(step, lambda k, x, g: 0.5 * g, 1.0, 1.0, steps=4).cotangent == result",
    "not opened": CHAIN + "assert Tiers().disk == Disk() and chain(step, 1.0, steps=4, storage=Disk('a', resume=True)) == result",
}
TOLD = """
import sys
from _thread import _count
unwanted = "checkpoint.durable", "checkpoint.storage.background", "checkpoint.storage.worker"
print(*(name for name in sys.modules if name.startswith(unwanted)))
print(_count(), *(name for name in sys.modules if name.startswith(("checkpoint.storage", "checkpoint.loops"))))
"""


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_chain_in_memory_imports_nothing_that_outlives_the_process_and_no_thread(name):
    done = subprocess.run([sys.executable, "-c", SCRIPTS[name] + TOLD], capture_output=True, text=True, check=True)
    durable, rest = done.stdout.splitlines()
    assert not durable and rest.startswith("0")
    assert name != "import" or rest == "0", "what a chain needs is imported with it"


@pytest.mark.parametrize("room", ["sweep", "loops", "reverse"])
def test_what_runs_a_chain_does_not_know_that_it_goes_on(room):
    for file in (Path(checkpoint.__file__).parent / room).glob("*.py"):
        words = {getattr(node, field, "") for node in ast.walk(ast.parse(file.read_text())) for field in ("id", "attr", "arg", "name")}
        assert not [word for word in words if "resum" in str(word)], file


def test_only_a_durable_storage_brings_a_journal(tmp_path):
    assert [storage.durable for storage in (Memory(), Disk(), Tiers())] == [False] * 3
    kept = Disk(tmp_path / "kept", resume=True)
    assert kept.durable
    for storage, kind in (Memory(), None), (Disk(), None), (kept, DurableJournal):
        assert storage.open().journal is kind
