"""Compiled programs: what jit makes of values, JVPs, VJPs and Jacobians, against loops written by hand for numba, JAX and torch.compile."""

from __future__ import annotations

import sys

import numpy as np

from .functions import DU, DV, FEED, KILL, gray_scott, leaves, rosenbrock, runge_kutta
from .harness import Case, Peer, Table, main
from .pollution import pollution
from .scans import blocked, scanned

CHAIN = Table("sum(sin(x) * exp(-x**2) / (1 + x**2))", arrays=True, versus=("by hand in numba", "dualad.jit"))
STEPS = Table("Steps of simulations", versus=("by hand in numba", "dualad.jit"))
SCALAR = Table("Scalar code: gradients at n = 100, a Jacobian of 20 x 20", versus=("dualad", "dualad.jit"))
WHOLE = Table("Gradients of whole chains", unit="ms", versus=("by hand in numba", "dualad.jit"), rtol=1e-7)
TABLES = [CHAIN, STEPS, SCALAR, WHOLE]

POLLU, CONCENTRATIONS = "POLLU, Jacobian", np.linspace(0.1, 1.0, 20)
GRAY_SCOTT, LORENZ = "VJP of a Gray-Scott step, 256 x 256", "VJP of a Lorenz RK4 step"
RUNS = "Lorenz, saved states of blocks", "Lorenz, Revolve(20) of blocks", "Gray-Scott, Revolve(12)", "Lorenz, all states in 32 MB"


# --- the functions ------------------------------------------------------------------------------------------------------------


def wave(x, np=np):
    return np.sum(np.sin(x) * np.exp(-(x**2)) / (1.0 + x**2))


def ackley(x, np=np):
    n = len(x)
    return -20.0 * np.exp(-0.2 * np.sqrt(np.sum(x**2) / n)) - np.exp(np.sum(np.cos(2.0 * np.pi * x)) / n) + 20.0 + np.e


def reacted(u, v, np=np):
    return gray_scott(0, (u, v), np=np)


def lorenz(s, p, np=np):
    def slope(s):
        return np.stack([p[0] * (s[1] - s[0]), s[0] * (p[1] - s[2]) - s[1], s[0] * s[1] - p[2] * s[2]])

    h = 0.01
    k1 = slope(s)
    k2 = slope(s + 0.5 * h * k1)
    k3 = slope(s + 0.5 * h * k2)
    k4 = slope(s + h * k3)
    return s + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)


# --- the data -----------------------------------------------------------------------------------------------------------------


def lengths(quick):
    return (100,) if quick else (100, 10_000, 1_000_000)


def numbers(*shape):
    return np.random.default_rng(3).uniform(-1.5, 2.0, shape)


def grids(quick):
    return np.random.default_rng(5).uniform(0.0, 1.0, (4, *((16, 16) if quick else (256, 256))))


STATE = np.array([1.0, 2.0, 3.0]), np.array([10.0, 28.0, 8.0 / 3.0])
SEED = np.array([0.3, -0.2, 0.5])


START = (1.0, 1.0, 1.0, 10.0, 28.0, 8.0 / 3.0)


def length(quick):
    return 1000 if quick else 1_000_000


def block(quick):
    return 100 if quick else 8192


def steps_of(quick):
    return 20 if quick else 500


def primals(quick):
    for n in lengths(quick):
        yield CHAIN.title, f"value, n = {n}", Case(wave, (numbers(n),))
        yield CHAIN.title, f"JVP, n = {n}", Case(wave, (numbers(n),))
    yield STEPS.title, GRAY_SCOTT, Case(reacted, tuple(grids(quick)[:2]))
    yield STEPS.title, LORENZ, Case(lorenz, STATE)
    for f in (rosenbrock, ackley):
        yield SCALAR.title, f.__name__, Case(f, (numbers(100),))
    yield SCALAR.title, POLLU, Case(pollution, (CONCENTRATIONS,))
    for run, primal in zip(RUNS, whole_primals(quick), strict=True):
        yield WHOLE.title, run, primal


def whole_primals(quick):
    """The same chains without a derivative: by `chain` of the compiled step, where that is there."""
    from checkpoint import chain
    from dualad import jit

    step, rate = jit(runge_kutta(2.0 / length(quick))), jit(gray_scott)
    yield from [Case(lambda *x: chain(step, x[:3], *x[3:], steps=length(quick)), START)] * 2
    yield Case(lambda u, v: chain(rate, (u, v), FEED, KILL, steps=steps_of(quick)), tuple(grids(quick)[:2]))
    yield Case(lambda *x: chain(step, x[:3], *x[3:], steps=length(quick)), START)


# --- peers --------------------------------------------------------------------------------------------------------------------


def tasks(quick, compiled, jvp, vjp, grad, jacobian, np=np, array=lambda x: x):
    """Yield the cases of a tool in the namespace `np`, with `compiled` of each function that is called."""
    for n in lengths(quick):
        x, of_wave = array(numbers(n)), lambda x: wave(x, np)
        yield CHAIN.title, f"value, n = {n}", Case(compiled(of_wave), (x,))
        yield CHAIN.title, f"JVP, n = {n}", Case(compiled(lambda x, v, f=of_wave: jvp(f, (x,), (v,))[1]), (x, np.ones(n)))
    pull = lambda u, v, g, h: vjp(lambda u, v: reacted(u, v, np), u, v)[1]((g, h))
    yield STEPS.title, GRAY_SCOTT, Case(compiled(pull), tuple(map(array, grids(quick))))
    pull = lambda s, p, g: vjp(lambda s, p: lorenz(s, p, np), s, p)[1](g)
    yield STEPS.title, LORENZ, Case(compiled(pull), tuple(map(array, (*STATE, SEED))))
    for f in (rosenbrock, ackley):
        yield SCALAR.title, f.__name__, Case(compiled(grad(lambda x, f=f: f(x, np))), (array(numbers(100)),))
    yield SCALAR.title, POLLU, Case(compiled(jacobian(lambda y: pollution(y, np))), (array(CONCENTRATIONS),))


def ours(quick, compiled):
    from checkpoint import grad, vjp
    from dualad import jacobian, jvp

    yield from tasks(quick, compiled, jvp, vjp, grad, jacobian)


def eager(quick):
    yield from ours(quick, lambda f: f)


def with_jit(quick):
    from checkpoint import Revolve, StoreAll, chain, grad
    from dualad import jit

    yield from ours(quick, jit)
    step, rate = jit(runge_kutta(2.0 / length(quick))), jit(gray_scott)

    def lorenz_end(*x, **options):
        x, y, z = chain(step, x[:3], *x[3:], steps=length(quick), **options)
        return x * x + y + z

    def gray_scott_end(u, v, feed, kill):
        u, v = chain(rate, (u, v), feed, kill, steps=steps_of(quick), schedule=Revolve(12))
        return np.sum(u * u) + np.sum(v)

    kept = {RUNS[0]: {"schedule": StoreAll(), "block": block(quick)}, RUNS[1]: {"schedule": Revolve(20), "block": block(quick)}}
    for run, options in {**kept, RUNS[3]: {"memory": "32 MB"}}.items():
        yield WHOLE.title, run, Case(grad(lambda *x, options=options: lorenz_end(*x, **options), argnums=tuple(range(6))), START)
    yield WHOLE.title, RUNS[2], Case(grad(gray_scott_end, argnums=(0, 1, 2, 3)), (*grids(quick)[:2], FEED, KILL), answer=leaves)


def by_hand(quick):
    """Loops as one writes them for numba, with the C library's elementary functions."""
    import math

    from numba import njit

    from .adjoints import FAST, gray_scott_adjoint, lorenz_adjoint, react_back

    @njit(**FAST)
    def value(x):
        total = 0.0
        for i in range(x.shape[0]):
            total += math.sin(x[i]) * math.exp(-x[i] * x[i]) / (1.0 + x[i] * x[i])
        return total

    @njit(**FAST)
    def tangent(x, v):
        total = 0.0
        for i in range(x.shape[0]):
            d = 1.0 + x[i] * x[i]
            e, s = math.exp(-x[i] * x[i]), math.sin(x[i])
            total += v[i] * e / d * (math.cos(x[i]) - 2.0 * x[i] * s - 2.0 * x[i] * s / d)
        return total

    def pull(u, v, g, h):
        pulled = np.empty_like(u), np.empty_like(v)
        react_back(u, v, g, h, *pulled, FEED, KILL, DU, DV)
        return pulled

    for n in lengths(quick):
        yield CHAIN.title, f"value, n = {n}", Case(value, (numbers(n),))
        yield CHAIN.title, f"JVP, n = {n}", Case(tangent, (numbers(n), np.ones(n)))
    yield STEPS.title, GRAY_SCOTT, Case(pull, tuple(grids(quick)))
    for run, slots in zip(RUNS, (None, 20), strict=False):
        yield WHOLE.title, run, Case(lorenz_adjoint(length(quick), block(quick), slots), START)
    yield WHOLE.title, RUNS[2], Case(gray_scott_adjoint(steps_of(quick), 12), (*grids(quick)[:2], FEED, KILL), answer=leaves)


def jax(quick):
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)

    yield from tasks(quick, blocked, jax.jvp, jax.vjp, jax.grad, jax.jacfwd, jnp, jnp.asarray)
    yield from jax_chains(quick, "step")


def jax_sqrt(quick):
    import jax

    jax.config.update("jax_enable_x64", True)
    yield from jax_chains(quick, "sqrt")


def jax_chains(quick, remat):
    """The gradients of whole chains, by scans: in the rows whose memory is of the same order."""
    import jax
    import jax.numpy as jnp

    step = runge_kutta(2.0 / length(quick))

    def lorenz_end(*x):
        x, y, z = scanned(step, x[:3], x[3:], length(quick), remat)
        return x * x + y + z

    def gray_scott_end(u, v, feed, kill):
        u, v = scanned(lambda *args: gray_scott(*args, np=jnp), (u, v), (feed, kill), steps_of(quick), remat)
        return jnp.sum(u * u) + jnp.sum(v)

    for run in RUNS[:2] if remat == "sqrt" else RUNS[3:]:
        yield WHOLE.title, run, Case(blocked(jax.grad(lorenz_end, argnums=tuple(range(6)))), START)
    end = blocked(jax.grad(gray_scott_end, argnums=(0, 1, 2, 3)))
    yield WHOLE.title, RUNS[2], Case(end, (*map(jnp.asarray, grids(quick)[:2]), FEED, KILL), answer=leaves)


def torch(quick):
    import torch

    if quick:  # it compiles for half a minute
        return
    wave_in = torch.compile(lambda x: wave(x, torch))
    tangent = torch.compile(lambda x, v: torch.func.jvp(lambda x: wave(x, torch), (x,), (v,))[1])
    for n in lengths(quick):
        x = torch.from_numpy(numbers(n))
        yield CHAIN.title, f"value, n = {n}", Case(wave_in, (x,), answer=float)
        yield CHAIN.title, f"JVP, n = {n}", Case(tangent, (x, torch.ones_like(x)), answer=float)


PEERS = {
    "by hand in numba": Peer(by_hand, "numba"),
    "dualad": Peer(eager, ours=True),
    "dualad.jit": Peer(with_jit, ours=True),
    "jax": Peer(jax, "jax"),
    "jax sqrt": Peer(jax_sqrt, "jax"),
    "torch": Peer(torch, "torch"),
}

if __name__ == "__main__":
    sys.exit(main("compiled", TABLES, primals, PEERS))
