"""Profiles of the property tests: the same examples on every run."""

import pytest
from hypothesis import HealthCheck, settings

import checkpoint.operators
import checkpoint.tape
from checkpoint.tape import Var

settings.register_profile("dualad", derandomize=True, deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("dualad")


@pytest.fixture(params=["small", "large"])
def entries(request, monkeypatch):
    """Run a test twice: with the short paths of small arrays, and with those of large ones, for arrays of any size."""
    if request.param == "large":
        spaces = [getattr(method, "__globals__", {}) for method in vars(Var).values()]  # of the compiled operators
        for space in (vars(checkpoint.tape), vars(checkpoint.operators), *spaces):
            if "SMALL" in space:
                monkeypatch.setitem(space, "SMALL", -1)
    return request.param
