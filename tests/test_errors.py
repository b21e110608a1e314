"""Errors name the function that was called, and what to do."""

import numpy as np
import pytest

import checkpoint
import dualad
from checkpoint import chain, grad
from dualad.testing import differences

X = np.array([1.0, 2.0])
FLAT = dualad.implicit(lambda x, p: 0.0 * x, lambda p: np.zeros(2))
ERRORS = {
    "array": (lambda: dualad.array([[1.0], [1.0, 2.0]]), ValueError, "array: the rows differ in shape"),
    "array of traced": (
        lambda: grad(lambda x: np.sum(dualad.array([x, x[:1]])))(X),
        ValueError,
        r"array: the rows have the shapes \(2,\), \(1,\)",
    ),
    "explain_nan": (lambda: dualad.explain_nan(np.sin, X, tangents=(np.ones(3),)), ValueError, "explain_nan: a tangent has shape"),
    "hessian": (lambda: dualad.hessian(np.sin)(X), TypeError, "hessian: f returns shape"),
    "checkpoint.hessian": (lambda: checkpoint.hessian(np.sin)(X), TypeError, "hessian: f returns shape"),
    "hvp": (lambda: checkpoint.hvp(np.sin, X, X), TypeError, "hvp: f returns shape"),
    "implicit": (lambda: dualad.derivative(FLAT)(1.0), np.linalg.LinAlgError, "implicit: the Jacobian of the residual by x is singular"),
    "jit": (lambda: dualad.jit(np.sin, cache_size=0), ValueError, "jit: cache_size is 0"),
    "differences": (lambda: differences(lambda leaves: leaves, [1.0], []), ValueError, "differences: there are 0 directions for 1 leaves"),
    "value_and_derivative": (lambda: dualad.value_and_derivative(np.sin)(X), TypeError, "value_and_derivative: .* use value_and_gradient"),
    "chain": (lambda: chain(lambda k, x: x, 1.0, steps=3, schedule="ctz"), TypeError, "chain: schedule must be a Schedule such as"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_name_the_function_that_was_called(name):
    call, kind, words = ERRORS[name]
    with pytest.raises(kind, match=words):
        call()
