"""The example of a least-squares fit: the published minimum, its uncertainties by another way, a picture."""

import numpy as np
import pytest
from loaded import load

pytest.importorskip("scipy.optimize")
example = load("examples/exponential_fit.py")


@pytest.mark.parametrize("method", ["trf", "lm", "dogbox"])
def test_the_minimum_is_the_published_one(method):
    result, evaluations = example.fit(method=method)
    assert 2.0 * result.cost == pytest.approx(example.BEST, rel=1e-5)
    assert evaluations == result.nfev  # one a point, Jacobians included
    assert evaluations < example.fit(exact=False, method=method)[1] / 2


def test_uncertainties():
    """The Jacobian by hand; and the deviation of the curve at t = 0, where it is x1 + x2 + x3."""
    result, _ = example.fit()
    x, t = result.x, example.T
    fast, slow = np.exp(-x[4] * t), np.exp(-x[3] * t)
    by_hand = np.stack([np.ones_like(t), slow, fast, -t * x[1] * slow, -t * x[2] * fast], axis=1)
    covariance = np.linalg.inv(by_hand.T @ by_hand) * np.sum((example.model(x, t) - example.Y) ** 2) / 28
    np.testing.assert_allclose(example.covariance(result), covariance, rtol=1e-5)
    direction = np.array([1.0, 1.0, 1.0, 0.0, 0.0])
    at_start = np.sqrt(direction @ covariance @ direction)
    assert example.deviations(x, covariance, np.zeros(1))[0] == pytest.approx(at_start, rel=1e-6)
