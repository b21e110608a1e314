"""What compiled functions are asked in tests of loops: derivatives as in eager code, and chains of them in blocks."""

import numpy as np

from checkpoint import Stats, chain, grad, hvp
from dualad import jit


def has_eager_derivatives(f, x, t, backend, rtol, atol, in_loops=True):
    """Check a compiled function, its gradient, and the product of its Hessian and a direction: values, and that loops compute them."""
    size = np.size(f(x))
    loss = lambda x: np.sum(np.sin(np.ravel(f(x))) * np.arange(1.0, 1.0 + size))
    product = lambda x: hvp(loss, x, t)
    for made in (lambda x: f(x), *([] if backend == "numpy" else [grad(loss)]), product):
        fast = jit(made, backend=backend)
        np.testing.assert_allclose(fast(x), made(x), rtol=rtol, atol=atol)
        assert "called" not in fast.explain(x) or made is product or not in_loops, fast.explain(x)


def chain_is_made_in_blocks(turn, x, rtol, atol=0.0):
    """Check that a chain of compiled steps is one block, and its gradient."""
    stats = Stats()
    got = grad(lambda x: np.sum(chain(jit(turn), x, steps=20, stats=stats) ** 2))(x)
    assert "one block of all 20 compiled steps" in stats.reason and "calls Python" not in stats.reason
    assert got.dtype == x.dtype
    np.testing.assert_allclose(got, grad(lambda x: np.sum(chain(turn, x, steps=20) ** 2))(x), rtol=rtol, atol=atol)
