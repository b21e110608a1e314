"""Loops of JAX whose gradients do not keep what their steps compute: the peers of a chain."""

from __future__ import annotations


def scanned(step, state, params, steps, remat):
    """Return the state after so many of ``step(k, state, *params)``.

    In the reverse sweep each step is computed again (`remat` "step", which keeps all states), or segments of about sqrt(N) steps
    ("segment"), and inside of them each step ("sqrt").
    """
    import jax
    import jax.numpy as jnp

    def one(x, k):
        return step(k, x, *params), None

    if remat == "step":
        return jax.lax.scan(jax.checkpoint(one), state, jnp.arange(steps))[0]
    inner = max(d for d in range(1, steps + 1) if steps % d == 0 and d * d <= steps)

    @jax.checkpoint
    def segment(x, ks):
        return jax.lax.scan(one if remat == "segment" else jax.checkpoint(one), x, ks)[0], None

    return jax.lax.scan(segment, state, jnp.arange(steps).reshape(-1, inner))[0]


def blocked(f):
    """Return a compiled function that waits for its results."""
    import jax

    run = jax.jit(f)
    return lambda *args: jax.block_until_ready(run(*args))
