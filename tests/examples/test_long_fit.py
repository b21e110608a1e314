"""The example of a long fit: killed and gone on it ends with the same bits, near the truth; a gradient stays within its limit."""

import os

import numpy as np
import pytest
from loaded import ROOT, load

from checkpoint import Stats, value_and_grad

example = load("examples/long_fit.py")


@pytest.mark.long
def test_killed_and_gone_on(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    result, fit, _ = example.fitted(tmp_path / "whole", 500)
    assert result.x == pytest.approx(example.TRUE, rel=0.05) and fit.made > 5
    lines, killed = example.killed(tmp_path / "killed", 500, 3)
    name, bits, answered, made = lines[-1].split()
    assert (name, bits, killed) == ("result", result.x.tobytes().hex(), 3) and int(answered) + int(made) == fit.made and int(answered) > 0


@pytest.mark.skipif(not example.COMPILED, reason="llvmlite is not installed")
def test_a_gradient_by_50_000_steps_stays_within_its_limit():
    stats = Stats()
    gradient = value_and_grad(example.make_misfit(50_000, stats))
    gradient(example.START, steps=100)
    (_, slope), grown = example.resident(lambda: gradient(example.START))
    assert stats.steps == 50_000 and stats.peak_bytes <= 4e6 and np.isfinite(slope).all()
    assert grown is None or grown <= 4e6 + 2**20, "and what the allocator rounds to"
    h = 1e-6 * np.array([1.0, -1.0, 0.5, 0.3])
    assert slope @ h == pytest.approx((gradient(example.START + h)[0] - gradient(example.START - h)[0]) / 2, rel=1e-5)
