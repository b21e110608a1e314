"""One simulation, three engines of differentiation: a hand-written adjoint, jax.vjp and torch, all through `sweep.reverse`.

    python examples/foreign_engines.py

Burgers' equation u_t + u u_x = nu u_xx on a ring, by explicit differences. The loss is the squared distance of the final velocity to
a target; wanted is its gradient by the initial velocity and by the viscosity nu. The state of the chain is u. The share of
every step in the gradient by nu rides in the cotangent, the pair (cotangent of u, sum of the shares so far). A few hundred
steps, at most ten of them saved, whatever engine pulls back through one step.
"""

from __future__ import annotations

import numpy as np

from checkpoint import CTZ, Memory, Online, sweep
from dualad import keep_heap

POINTS, STEPS, NU = 128, 400, 0.02
DX = 2 * np.pi / POINTS
DT = 0.2 * DX
ADVECTION, DIFFUSION = DT / (2 * DX), DT / DX**2
X = np.arange(POINTS) * DX
START, TARGET = np.sin(X) + 0.5 * np.cos(2 * X), 0.3 * np.sin(X - 0.5)


def next_velocity(u, nu, roll):
    """Return the velocity one step later; `roll` is that of the engine."""
    right, left = roll(u, -1), roll(u, 1)
    return u - ADVECTION * u * (right - left) + nu * DIFFUSION * (right - 2 * u + left)


def by_hand(schedule=CTZ(), until=None):  # noqa: B008
    """Return loss, gradients and stats with an adjoint that was derived by hand."""

    def step(k, u):
        return next_velocity(u, NU, np.roll)

    def pull(k, u, cotangent):
        g, shares = cotangent
        right, left = np.roll(u, -1), np.roll(u, 1)
        g_u = g * (1 - ADVECTION * (right - left) - 2 * NU * DIFFUSION)
        g_u += np.roll(g * (NU * DIFFUSION - ADVECTION * u), 1) + np.roll(g * (NU * DIFFUSION + ADVECTION * u), -1)
        return g_u, shares + DIFFUSION * np.sum(g * (right - 2 * u + left))

    length = {"steps": STEPS} if until is None else {"until": until}
    result = sweep.reverse(step, pull, START, lambda u: (u - TARGET, 0.0), schedule=schedule, **length)
    return 0.5 * np.sum((result.final - TARGET) ** 2), *result.cotangent, result.stats


def with_jax():
    """The same with jax.vjp, compiled once for all steps."""
    import jax

    jax.config.update("jax_enable_x64", True)
    step = jax.jit(lambda k, u: next_velocity(u, NU, jax.numpy.roll))

    @jax.jit
    def pull(k, u, cotangent):
        g, shares = cotangent
        _, vjp = jax.vjp(lambda u, nu: next_velocity(u, nu, jax.numpy.roll), u, NU)
        g_u, share = vjp(g)
        return g_u, shares + share

    result = sweep.reverse(step, pull, jax.numpy.asarray(START), lambda u: (u - TARGET, 0.0), steps=STEPS)
    g_u, g_nu = result.cotangent
    return 0.5 * float(np.sum((result.final - TARGET) ** 2)), np.asarray(g_u), float(g_nu), result.stats


def with_torch():
    """The same with torch; tensors are mutable and no NumPy arrays, so the storage is told how to copy one."""
    import torch

    nu, target = torch.tensor(NU, dtype=torch.float64), torch.tensor(TARGET)

    def step(k, u):
        with torch.no_grad():
            return next_velocity(u, nu, torch.roll)

    def pull(k, u, cotangent):
        g, shares = cotangent
        variables = u.requires_grad_(), nu.detach().requires_grad_()
        g_u, share = torch.autograd.grad(next_velocity(*variables, torch.roll), variables, g)
        return g_u, shares + share.item()

    result = sweep.reverse(
        step, pull, torch.tensor(START), lambda u: (u - target, 0.0), steps=STEPS, storage=Memory(copy=lambda u: u.detach().clone())
    )
    g_u, g_nu = result.cotangent
    return 0.5 * float(torch.sum((result.final - target) ** 2)), g_u.numpy(), g_nu, result.stats


ENGINES = {"by hand": by_hand, "jax": with_jax, "torch": with_torch}


def main():
    """Print the results of all engines that are installed."""
    keep_heap()
    for name, engine in ENGINES.items():
        try:
            loss, g_u, g_nu, stats = engine()
        except ImportError as error:
            print(f"{name:8} skipped: {error}; install it with: pip install {name}")
            continue
        print(
            f"{name:8} loss {loss:.12f}, by nu {g_nu:.12f}, by u |.| {np.linalg.norm(g_u):.12f}; "
            f"{stats.advances} advances, at most {stats.peak_states} states saved"
        )
    calm = by_hand(Online(6), until=lambda k, u: np.max(np.abs(u)) < 0.5)
    print(f"until it is calm: {calm[-1].steps} steps, by nu {calm[2]:.12f}, at most {calm[-1].peak_states} states saved")


if __name__ == "__main__":
    main()
