"""The example of Bratu's equation: the turning point, both branches, and the Jacobian against the dense one."""

import numpy as np
import pytest
from loaded import load

from dualad import jacobian

pytest.importorskip("scipy.sparse")
example = load("examples/bratu.py")


def test_the_curve_turns_where_it_is_known_to():
    """The five-point scheme is of second order: with two grids the error of the turning point falls fourfold."""
    turns = []
    for cells in (15, 31):
        points = list(example.Curve(cells, compiled=False).follow(12, 0.15))
        strengths = np.array([x[-1] for x in points])
        peak = int(np.argmax(strengths))
        near = np.polynomial.Polynomial.fit([x[:-1].max() for x in points[peak - 2 : peak + 3]], strengths[peak - 2 : peak + 3], 4)
        peaks = near.deriv().roots()
        turns.append(max(near(r.real) for r in peaks if abs(r.imag) < 1e-9 and near.domain[0] < r.real < near.domain[1]))
        assert strengths[-1] < turns[-1] - 0.5 and 0 < peak < len(points) - 1, "past the turning point"
    errors = np.array(turns) - example.LARGEST_LAMBDA
    assert errors[0] / errors[1] == pytest.approx(4.0, abs=0.4)


def test_the_jacobian_is_the_dense_one():
    curve = example.Curve(5, compiled=False)
    rng = np.random.default_rng(0)
    args = rng.random(26), rng.random(26), rng.random(26), 0.1
    np.testing.assert_allclose(curve.jacobian(*args).toarray(), jacobian(curve.residual)(*args), rtol=1e-13, atol=1e-15)
    assert curve.coloring.reverse_colors == 1 and curve.coloring.forward_colors <= 8
