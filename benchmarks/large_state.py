"""A chain with a large state: Gray-Scott on 256 x 256 points, its gradient by the initial fields and both rates.

The memory is the growth of the resident memory over the whole gradient, with two states of 1 MB (u and v, 0.5 MB each) at the start. A
hand-written adjoint with the same snapshots is the reference.
"""

from __future__ import annotations

import sys

import numpy as np

from .functions import DU, DV, FEED, KILL, gray_scott, leaves, spread
from .harness import Case, Memory, Peer, Table, main
from .scans import blocked, scanned

TABLE = Table("Gradient of Gray-Scott's equation", unit="s", by_peer=True)


def sizes(quick):
    """Return how many points an axis has, and the numbers of steps."""
    return (32, [20]) if quick else (256, [500, 2000])


def initial(n):
    u, v = np.ones((n, n)), np.zeros((n, n))
    middle = slice(2 * n // 5, 3 * n // 5)
    u[middle, middle], v[middle, middle] = 0.5, 0.25
    return u + 0.01 * np.random.default_rng(0).random((n, n)), v


def primals(quick):
    n, lengths = sizes(quick)
    for steps in lengths:

        def run(u, v, steps=steps):
            for k in range(steps):
                u, v = gray_scott(k, (u, v))
            return np.sum(v**2)

        yield TABLE.title, row(n, steps), Case(run, initial(n))


def row(n, steps):
    return f"{n} x {n}, {steps} steps"


# --- peers ------------------------------------------------------------------------------------------------------------------


def peer(make, ours=False, needs=None):
    """Return a peer; ``make(steps)`` is the gradient by u, v, feed and kill, and what stands in further columns beside the memory."""

    def build(quick):
        n, lengths = sizes(quick)
        for steps in lengths:
            gradient, columns = make(steps)
            measured = Memory(gradient)
            shown = lambda seconds, primal, columns=columns, measured=measured: {"memory": str(measured), **columns()}
            yield TABLE.title, row(n, steps), Case(measured, (*initial(n), FEED, KILL), leaves, shown)

    return Peer(build, needs, ours)


def counted(stats):
    return lambda: {"advances": str(stats.advances), "saved states": str(stats.peak_states)}


def adjoint(k, state, cotangent):
    """Pull back by hand; the rates' sums ride in the cotangent."""
    (u, v), (gu, gv, by_feed, by_kill) = state, cotangent
    gr = gv - gu
    by_feed, by_kill = by_feed + np.sum(gu * (1.0 - u)) - np.sum(gv * v), by_kill - np.sum(gv * v)
    return (
        gu + DU * spread(gu) - FEED * gu + gr * v * v,
        gv + DV * spread(gv) - (FEED + KILL) * gv + 2.0 * gr * u * v,
        by_feed,
        by_kill,
    )


def by_hand(steps):
    from checkpoint import Revolve, Stats, sweep

    stats, seed = Stats(), lambda x: (np.zeros_like(x[0]), 2.0 * x[1], 0.0, 0.0)

    def gradient(u, v, feed, kill):
        return sweep.reverse(gray_scott, adjoint, (u, v), seed, steps=steps, schedule=Revolve(12), stats=stats).cotangent

    return gradient, counted(stats)


def by_chain(**options):
    def make(steps):
        from checkpoint import Stats, chain, grad
        from checkpoint.schedules.parse import parse

        stats = Stats()
        chosen = {name: parse(value) if name == "schedule" else value for name, value in options.items()}
        loss = lambda u, v, *rates: np.sum(chain(gray_scott, (u, v), *rates, steps=steps, stats=stats, **chosen)[1] ** 2)
        return grad(loss, argnums=(0, 1, 2, 3)), counted(stats)

    return make


def by_torch(steps):
    """``torch.utils.checkpoint`` over sqrt(N) segments."""
    import torch
    from torch.utils.checkpoint import checkpoint

    torch.set_num_threads(1)

    def segment(u, v, feed, kill, count):
        for k in range(count):
            u, v = gray_scott(k, (u, v), feed, kill, torch)
        return u, v

    def gradient(*given):
        inputs = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in given]
        u, v = inputs[:2]
        for count in segments(steps):
            u, v = checkpoint(segment, u, v, *inputs[2:], count, use_reentrant=True)
        (v**2).sum().backward()
        return [x.grad.numpy() for x in inputs]

    return gradient, dict


def by_jax(loop):
    """Return the peer of JAX with a loop ``loop(step, state, rates, steps)``; compiled."""

    def make(steps):
        import jax
        import jax.numpy as jnp

        jax.config.update("jax_enable_x64", True)
        step = lambda k, state, *rates: gray_scott(k, state, *rates, np=jnp)
        loss = lambda u, v, *rates: jnp.sum(loop(step, (u, v), rates, steps)[1] ** 2)
        return blocked(jax.grad(loss, argnums=(0, 1, 2, 3))), dict

    return make


def online(step, state, rates, steps):
    """``equinox.internal.scan`` with 12 checkpoints, the online schedule of Stumm & Walther."""
    from equinox.internal import scan

    return scan(lambda x, _: (step(0, x, *rates), None), state, None, length=steps, kind="checkpointed", checkpoints=12)[0]


def by_autograd(steps):
    """autograd's ``checkpoint`` over sqrt(N) segments."""
    import autograd
    import autograd.numpy as anp
    from autograd.differential_operators import checkpoint

    def segment(fields, feed, kill, count):
        u, v = fields[0], fields[1]
        for k in range(count):
            u, v = gray_scott(k, (u, v), feed, kill, anp)
        return anp.stack([u, v])

    def loss(u, v, feed, kill):
        fields = anp.stack([u, v])
        for count in segments(steps):
            fields = checkpoint(segment)(fields, feed, kill, count)
        return anp.sum(fields[1] ** 2)

    return autograd.grad(loss, argnum=(0, 1, 2, 3)), dict


def segments(steps):
    """Return the lengths of about sqrt(N) segments."""
    length = max(1, round(steps**0.5))
    return [length] * (steps // length) + ([steps % length] if steps % length else [])


PEERS = {
    "by hand": peer(by_hand),
    "Revolve(12)": peer(by_chain(schedule="revolve:12"), ours=True),
    "CTZ": peer(by_chain(schedule="ctz"), ours=True),
    'memory="100 MB"': peer(by_chain(memory="100 MB"), ours=True),
    "torch": peer(by_torch, needs="torch"),
    "jax": peer(by_jax(lambda *loop: scanned(*loop, "segment")), needs="jax"),
    "equinox": peer(by_jax(online), needs="equinox"),
    "autograd": peer(by_autograd, needs="autograd"),
}

if __name__ == "__main__":
    sys.exit(main("large_state", [TABLE], primals, PEERS))
