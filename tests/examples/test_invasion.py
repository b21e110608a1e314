"""The example of an invasion: its gradients by differences of SciPy's own solution, and what it keeps of the steps."""

import numpy as np
import pytest
from loaded import load

from checkpoint import Stats

integrate = pytest.importorskip("scipy.integrate")
example = load("examples/invasion.py")


def test_the_gradients_are_those_of_differences():
    start, rate = example.landscape(8)
    total, gradients = example.worth(8, 20.0, stats := Stats())

    def scipys(start, rate):
        run = integrate.solve_ivp(example.slope, (0.0, 20.0), start.ravel(), t_eval=[20.0], args=(rate,), rtol=1e-9, atol=1e-9)
        return np.sum(run.y)

    assert total == pytest.approx(scipys(start, rate), rel=1e-3)
    assert stats.peak_states <= np.ceil(np.log2(stats.steps)) + 1
    one = np.zeros((8, 8))
    one[2, 5] = 1e-4
    by_start = (scipys(start + one, rate) - scipys(start - one, rate)) / 2e-4
    by_rate = (scipys(start, rate + one) - scipys(start, rate - one)) / 2e-4
    np.testing.assert_allclose([g[2, 5] for g in gradients], [by_start, by_rate], rtol=2e-3)
