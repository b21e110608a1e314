"""In these tests numba compiles only in `test_emit_numba` and its like; what jit gives to the backend numba is run by Python."""

from __future__ import annotations

import pytest
from interpreted import Interpreted

from dualad.program.compiled import BACKENDS


@pytest.fixture(autouse=True)
def no_compiler(monkeypatch):
    monkeypatch.setitem(BACKENDS, "numba", Interpreted)


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory):
    """Keep machine code in a folder of this run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DUALAD_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield
