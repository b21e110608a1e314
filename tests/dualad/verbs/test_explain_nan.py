"""explain_nan: the first operation whose tangent is not finite, and its line."""

import numpy as np
import pytest

from dualad import explain_nan


def test_first_operation_and_line():
    def f(x):
        y = x * 2.0
        z = np.sqrt(y)
        return np.sum(z * y)

    report = explain_nan(f, np.array([1.0, 0.0, 4.0]))
    assert report.startswith("numpy.sqrt (operation 2) gave the tangent inf at index (1,), of the operands 0.0; in f, ")
    line = int(report.rpartition(":")[2])
    assert line == test_first_operation_and_line.__code__.co_firstlineno + 3


def test_scalars_directions_and_finite_functions():
    assert "numpy.divide" in explain_nan(lambda x, y: x / y, 1.0, 0.0)
    assert explain_nan(lambda x, y: x / y, 1.0, 2.0) is None
    assert explain_nan(np.sqrt, 0.0, tangents=(0.0,)) is None  # a zero tangent times any partial is zero
    with pytest.raises(TypeError, match="not a function"):
        explain_nan(3, 1.0)
