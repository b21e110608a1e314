"""Profiles of the property tests: the same examples on every run. Errors show all frames."""

import gc
import os
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from checkpoint.reverse.tape import Tape
from dualad.core.levels import FILLED, LIVE
from dualad.support import progress

os.environ.setdefault("DUALAD_FULL_TRACEBACK", "1")  # what users see has tests of its own
os.environ.setdefault("DUALAD_CHECK", "1")

settings.register_profile("dualad", derandomize=True, deadline=None, max_examples=30, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("dualad")


def pytest_collection_modifyitems(items):
    """Mark as quick, besides what is marked so itself: of each test that is not slow the first case."""
    seen = set()
    for item in items:
        test = item.path, getattr(item, "originalname", item.name)
        slow = item.path.parent.name in ("benchmarks", "examples", "pages")
        if test not in seen and not slow and not any(map(item.get_closest_marker, ("slow", "long", "campaign"))):
            item.add_marker(pytest.mark.quick)
        seen.add(test)


def pytest_collection_finish():
    """Keep the garbage collector from walking through all collected tests again and again."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup():
    """Begin with NumPy's own floating-point warnings, and no level: an interrupt that comes while one is entered may leave it behind."""
    np.seterr(divide="warn", over="warn", under="ignore", invalid="warn")
    LIVE.clear()
    FILLED.clear()


@pytest.fixture(params=["small", pytest.param("large", marks=pytest.mark.long)])
def entries(request, monkeypatch):
    """Run a test twice: with the short paths of small arrays, and with those of large ones, for arrays of any size."""
    if request.param == "large":
        monkeypatch.setattr(Tape, "small", -1)
    return request.param


@pytest.fixture
def bars(monkeypatch):
    """The bars that a test makes, instead of tqdm's."""
    made = []

    class Recorder:
        def __init__(self, total, initial, desc, unit):
            self.total, self.initial, self.count, self.desc, self.unit, self.closed = total, initial, initial, desc, unit, False
            made.append(self)

        def update(self, count=1):
            self.count += count

        def close(self):
            self.closed = True

    monkeypatch.setattr(progress, "import_tqdm", lambda: Recorder)
    return made


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory):
    """Keep machine code in a folder of this run, and the bytecode of its many processes where Python writes none elsewhere."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DUALAD_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        if sys.dont_write_bytecode:
            patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
            patch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path_factory.mktemp("bytecode")))
        yield
