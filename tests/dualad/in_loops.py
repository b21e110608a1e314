"""What compiled functions are asked in tests of loops: derivatives as in eager code, and chains of them in blocks."""

from __future__ import annotations

import numpy as np

from checkpoint import Stats, chain, grad, hvp
from dualad import jit


def has_eager_derivatives(f, x, t, backend, rtol, atol):
    """Check a compiled function, its gradient, and the product of its Hessian, in which tangents are, too, and a direction."""
    size = np.size(f(x))
    loss = lambda x: np.sum(np.sin(np.ravel(f(x))) * np.arange(1.0, 1.0 + size))
    for made in (lambda x: f(x), *([] if backend == "numpy" else [grad(loss)]), lambda x: hvp(loss, x, t)):
        np.testing.assert_allclose(jit(made, backend=backend)(x), made(x), rtol=rtol, atol=atol)


def chain_is_made_in_blocks(turn, x, rtol, atol=0.0):
    """Check that a chain of compiled steps is one block, and its gradient."""
    stats = Stats()
    got = grad(lambda x: np.sum(chain(jit(turn), x, steps=20, stats=stats) ** 2))(x)
    assert "one block of all 20 compiled steps" in stats.reason and "calls Python" not in stats.reason
    assert got.dtype == x.dtype
    np.testing.assert_allclose(got, grad(lambda x: np.sum(chain(turn, x, steps=20) ** 2))(x), rtol=rtol, atol=atol)
