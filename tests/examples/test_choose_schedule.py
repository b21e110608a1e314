"""The example: schedules of a step of one's own, counted, measured, and planned for a budget; the derivative by differences."""

import numpy as np
import pytest
from loaded import load

from checkpoint import CTZ, Revolve, StoreAll, grad, profile

example = load("examples/choose_schedule.py")


def test_the_derivative_is_that_of_central_differences():
    state, damping = example.start(8)
    direction = np.random.default_rng(0).normal(size=damping.shape)
    slope = np.sum(grad(example.energy)(damping, state, 30) * direction)
    ahead, behind = (example.energy(damping + h * direction, state, 30) for h in (1e-5, -1e-5))
    assert slope == pytest.approx((ahead - behind) / 2e-5, rel=1e-7)


def test_what_is_counted_is_what_runs():
    state, damping = example.start(8)
    table = profile(example.step, state, damping, steps=50, schedules=[StoreAll(), CTZ(), Revolve(5)])
    for row in table.rows:
        assert row.measured.advances == row.advances + 1  # and the step to x_N
        assert row.measured.peak_states == row.states
