"""One check for whole functions: both modes, both orders and all K against each other and against differences."""

import numpy as np

from checkpoint import jacobian as reverse_jacobian
from checkpoint import vjp
from dualad import jacobian
from dualad.testing import check_derivatives


def check(f, *args):
    """Derivatives of both modes and orders against differences of the same function on plain arrays; all K agree."""
    check_derivatives(f, *args, vjp=vjp)
    if any(isinstance(x, np.ndarray) for x in args):
        argnums = tuple(range(len(args)))
        expected = flat(jacobian(f, argnums, chunk=1)(*args))
        for chunk in {n for x in args for n in np.shape(x)} - {0, 1}:
            for a, b in zip(flat(jacobian(f, argnums, chunk=chunk)(*args)), expected, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-14)
        for a, b in zip(flat(reverse_jacobian(f, argnums)(*args)), expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)


def flat(tree):
    return [leaf for part in tree for leaf in flat(part)] if isinstance(tree, tuple | list) else [tree]
