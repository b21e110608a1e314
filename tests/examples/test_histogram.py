"""The example of pyhf's likelihood: its derivatives by differences of pyhf's own, and its fit by pyhf's own."""

import numpy as np
import pytest
from loaded import load

from checkpoint import value_and_grad
from dualad import adapt, gradient, hessian

pyhf = pytest.importorskip("pyhf")
example = load("examples/histogram.py")
PLACE = np.array(example.MODEL.config.suggested_init()) + 0.1 * np.cos(np.arange(8.0))


def test_the_derivatives_are_those_of_differences():
    plain = example.misfit
    with adapt(pyhf):
        value, slope = value_and_grad(plain)(PLACE)
        bends = hessian(plain)(PLACE)
        for bend, e in zip(bends, 1e-5 * np.eye(8), strict=True):
            np.testing.assert_allclose(bend, (gradient(plain)(PLACE + e) - gradient(plain)(PLACE - e)) / 2e-5, rtol=1e-5, atol=1e-6)
    assert value == pytest.approx(plain(PLACE), rel=1e-14)
    np.testing.assert_allclose(slope, [(plain(PLACE + e) - plain(PLACE - e)) / 2e-5 for e in 1e-5 * np.eye(8)], rtol=1e-6, atol=1e-8)


def test_the_fit_is_that_of_pyhf():
    parameters, least = pyhf.infer.mle.fit(example.DATA, example.MODEL, return_fitted_val=True)
    found, _ = example.fit()
    assert found.fun == pytest.approx(float(least), rel=1e-7) and np.max(np.abs(found.jac)) < 1e-3
    np.testing.assert_allclose(found.x, parameters, atol=2e-3)
