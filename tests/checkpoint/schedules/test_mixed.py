"""Mixed: the totals of the literature, legal actions, and gradients from records."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted import Script

from checkpoint.schedules import Mixed, advances
from checkpoint.schedules.actions import Record
from checkpoint.schedules.machine import simulate
from checkpoint.storage import Disk
from checkpoint.sweep import Sweep

X = np.linspace(-1, 1, 12).reshape(3, 4)


@cache
def fewest(n, s):
    """The recursion of the docstring, one number after another."""
    if n <= s + 1:
        return n
    if s == 1:
        return n * (n + 1) // 2 - 1
    return min(1 + fewest(n - 1, s - 1), *(i + fewest(i, s) + fewest(n - i, s - 1) for i in range(2, n)))


@given(steps=st.integers(1, 60), slots=st.integers(1, 12))
def test_legal_and_optimal(steps, slots):
    counts = simulate(Mixed(slots), steps)
    assert counts.advances + counts.pulls == fewest(steps, slots)
    assert counts.peak_states == Mixed(slots).limit(steps) == min(slots, steps - 1)
    if steps > slots:
        assert counts.advances <= advances(steps, slots)


class Engine:
    """A step, its pull and its record, and how often each was called."""

    def __init__(self):
        self.steps = self.pulls = self.records = self.alive = 0

    def step(self, k, x):
        self.steps += 1
        return x + 0.1 * np.sin(x * (k % 3 + 1))

    def pull(self, k, x, g):
        self.pulls += 1
        return g + 0.1 * np.cos(x * (k % 3 + 1)) * (k % 3 + 1) * g

    def record(self, k, x):
        self.records += 1
        slope = 0.1 * np.cos(x * (k % 3 + 1)) * (k % 3 + 1)
        return x + 0.1 * np.sin(x * (k % 3 + 1)), lambda g: g + slope * g


def test_sweeps_begin_again_and_leave_nothing():
    engine = Engine()
    with Sweep(engine.step, X, steps=20, schedule=Mixed(4), record=engine.record, progress=False) as sweep:
        sweep.forward()
        assert 0 < len(sweep._pullbacks) + len(sweep._session) <= 4
        sweep.forward()
        first = sweep.backward(engine.pull, X)
        assert sweep.backward(engine.pull, X).tobytes() == first.tobytes() and not sweep._pullbacks
        sweep.forward()
    assert not sweep._pullbacks and len(sweep._session) == 0


def test_misuse(tmp_path):
    with pytest.raises(ValueError, match="Mixed: steps must be at most 4096"):
        Mixed(3).forward(5000)
    with pytest.raises(ValueError, match="Mixed: saved must be"):
        list(Mixed(3).reverse(10, [0, 5]))
    engine = Engine()
    with pytest.raises(TypeError, match=r"Mixed\(slots=3\) needs record="):
        Sweep(engine.step, X, steps=9, schedule=Mixed(3))
    for options in ({"check": True}, {"storage": Disk(tmp_path, resume=True)}):
        with pytest.raises(ValueError, match=r"does not go with (check=True|Disk.*resume=True)"):
            Sweep(engine.step, X, steps=9, schedule=Mixed(3), record=engine.record, **options)
    with pytest.raises(RuntimeError, match=r"asks for Record\(index=0\)"):
        Sweep(engine.step, X, steps=9, schedule=Script((Record(0),))).forward()
