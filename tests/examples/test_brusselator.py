"""The example of the Brusselator: second order in time, the reaction alone where cells are alike, the Jacobian against the dense one."""

import numpy as np
import pytest
from loaded import load

from dualad import jacobian

pytest.importorskip("scipy.sparse")
from scipy.integrate import solve_ivp

example = load("examples/brusselator.py")


def reference(f, y, end):
    return solve_ivp(f, (0.0, end), y, method="Radau", rtol=1e-10, atol=1e-11).y[:, -1]


def test_steps_are_of_second_order():
    cells = 6
    method, start = example.Implicit(cells, compiled=False), example.initial(cells)
    exact = reference(lambda t, y: example.rates(y, 0.0, cells), start, 0.4)
    errors = []
    for steps in (20, 40):
        *_, (t, y) = method.run(start, 0.4, steps)
        assert t == pytest.approx(0.4)
        errors.append(np.max(np.abs(y - exact)))
    assert errors[0] / errors[1] == pytest.approx(4.0, abs=0.4)
    assert method.counts["Jacobians"] < method.counts["steps"] / 2


def test_where_all_cells_are_alike_only_the_reaction_is_left():
    cells, end = 4, 0.5
    start = np.repeat([2.0, 1.0], cells**2)
    *_, (_, y) = example.Implicit(cells, compiled=False).run(start, end, 100)
    u, v = y.reshape(2, -1)
    alone = reference(lambda t, p: np.array([1.0 + p[0] ** 2 * p[1] - 4.4 * p[0], 3.4 * p[0] - p[0] ** 2 * p[1]]), [2.0, 1.0], end)
    assert np.ptp(u) < 1e-12 and np.ptp(v) < 1e-12
    np.testing.assert_allclose([u[0], v[0]], alone, rtol=1e-4)


def test_the_feed_begins_when_it_is_to():
    cells = 10
    method = example.Implicit(cells, compiled=False)
    states = dict(method.run(np.repeat([1.0, 3.4], cells**2), 1.2, 12))  # a state that does not change by itself
    before, after = (states[min(states, key=lambda t: abs(t - time))] for time in (1.1, 1.2))
    np.testing.assert_allclose(before, np.repeat([1.0, 3.4], cells**2), atol=1e-9)
    assert np.argmax(after[: cells**2]) in np.flatnonzero(method.feed) and method.feed.max() == 5.0


def test_the_filled_matrix_is_the_dense_jacobian():
    method = example.Implicit(4, compiled=False)
    rng = np.random.default_rng(0)
    arguments = rng.random(32), rng.random(32), 0.01, rng.random((4, 4))
    expected = jacobian(method.residual)(*arguments)
    assert method.jacobian.fill(method.matrix, *arguments) is method.matrix
    np.testing.assert_allclose(method.matrix.toarray(), expected, rtol=1e-13, atol=1e-14)
