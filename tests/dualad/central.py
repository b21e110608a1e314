"""Central differences of functions of one array."""

import numpy as np

__all__ = ["differences"]


def differences(f, x, h=1e-6):
    return np.array([(f(x + h * e) - f(x - h * e)) / (2 * h) for e in np.eye(len(x))])
