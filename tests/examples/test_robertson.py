"""The example of Robertson's reaction: the published solution, the exact Jacobian, fewer evaluations, a picture."""

import numpy as np
import pytest
from loaded import load

from dualad import jacobian

pytest.importorskip("scipy.integrate")
example = load("examples/robertson.py")

#: at t = 40 (Hairer & Wanner, Solving Ordinary Differential Equations II, IV.10, and the test set of Mazzia & Magherini)
KNOWN = [0.7158270687, 9.185534764e-06, 0.2841637457]


@pytest.mark.parametrize("method", ["BDF", "Radau"])
def test_cells_that_are_all_alike_react_as_one(method):
    line = example.Line(3, spread=0.0)
    solution, _ = line.integrate(40.0, method=method, rtol=1e-8, atol=np.tile([1e-10, 1e-14, 1e-10], 3))
    np.testing.assert_allclose(solution.y[:, -1].reshape(3, 3), [KNOWN] * 3, rtol=1e-6)


def test_the_sparse_jacobian_is_the_dense_one():
    line = example.Line(6)
    y = np.abs(np.sin(np.arange(18.0)))
    sparse = jacobian(line.rate, argnums=1, sparsity=line.coloring())(0.0, y)
    np.testing.assert_allclose(sparse.toarray(), jacobian(line.rate, argnums=1)(0.0, y), rtol=1e-13)
    assert example.Line(6).coloring().forward_colors == example.Line(40).coloring().forward_colors == 7


def test_it_takes_fewer_evaluations_and_keeps_the_mass():
    line = example.Line(8)
    exact, evaluations = line.integrate(100.0)
    differences, more = line.integrate(100.0, exact=False)
    assert exact.success and evaluations < more
    np.testing.assert_allclose(exact.y.reshape(8, 3, -1).sum(axis=(0, 1)), 8.0, rtol=1e-12)
    np.testing.assert_allclose(exact.y[:, -1], differences.y[:, -1], rtol=1e-4, atol=1e-8)
