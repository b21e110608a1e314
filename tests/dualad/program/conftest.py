"""In these tests numba compiles only in `test_emit_numba` and its like; what jit gives to the backend numba is run by Python."""

from __future__ import annotations

import pytest
from interpreted import Interpreted

from dualad.program.compiled import BACKENDS


@pytest.fixture(autouse=True)
def no_compiler(monkeypatch):
    monkeypatch.setitem(BACKENDS, "numba", Interpreted)
