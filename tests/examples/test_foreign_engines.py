"""The example of foreign engines: they agree with each other, and with differences of the loss."""

import sys

import numpy as np
import pytest
from loaded import load

example = load("examples/foreign_engines.py")


@pytest.mark.parametrize("name", ["jax", "torch"])
@pytest.mark.filterwarnings("default")
def test_engines_agree(name):
    pytest.importorskip(name, reason=f"{name} is not installed: it takes 1 GB, and belongs to the extra `bench`")
    loss, g_u, g_nu, stats = example.by_hand()
    other = example.ENGINES[name]()
    assert other[0] == pytest.approx(loss, rel=1e-12) and other[2] == pytest.approx(g_nu, rel=1e-10)
    np.testing.assert_allclose(other[1], g_u, rtol=1e-9, atol=1e-13)
    assert other[3].advances == stats.advances and other[3].peak_states == stats.peak_states == 10


def test_taylor(monkeypatch):
    """The remainder of the first order falls with the square of the distance."""
    loss, g_u, g_nu, _ = example.by_hand()
    direction, errors = np.cos(3 * example.X), []
    for h in (1e-4, 5e-5):
        monkeypatch.setattr(example, "START", example.START + h * direction)
        monkeypatch.setattr(example, "NU", example.NU + h * 0.1)
        errors.append(example.by_hand()[0] - loss - h * (g_u @ direction + 0.1 * g_nu))
        monkeypatch.undo()
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2, abs=0.02)


def test_it_runs_and_says_what_is_not_installed(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    monkeypatch.setitem(sys.modules, "torch", None)
    example.main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("by hand  loss ") and "at most 10 states saved" in lines[0]
    assert lines[1].startswith("jax      skipped: ") and lines[2].endswith("pip install torch")
    assert lines[3].startswith("until it is calm: ") and lines[3].endswith("at most 6 states saved")
