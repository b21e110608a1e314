"""Differential equations: values and gradients of `solve_ivp`, eager and compiled, against SciPy's value and against diffrax."""

from __future__ import annotations

import sys

import numpy as np

from .harness import Case, Memory, Peer, Table, main

VALUE = Table("Value: three variables (Lorenz), RK45, final state", unit="ms", by_peer=True, rtol=1e-4)
GRADIENT = Table("Gradient of it by the initial state and the three parameters", unit="ms", by_peer=True, rtol=1e-3)
LARGE = Table("Gradient of a spreading population by the initial state, RK45", unit="s", by_peer=True, rtol=1e-3)
TABLES = [VALUE, GRADIENT, LARGE]

START, PARAMETERS = np.ones(3), (10.0, 28.0, 8.0 / 3.0)
TIGHT, LOOSE = {"rtol": 1e-8, "atol": 1e-10}, {"rtol": 1e-4, "atol": 1e-6, "max_step": 0.4}  # longer steps would amplify derivatives


# --- the equations: `xp` is NumPy or jax.numpy -------------------------------------------------------------------------------


def lorenz(t, y, sigma, rho, beta):
    return [sigma * (y[1] - y[0]), y[0] * (rho - y[2]) - y[1], y[0] * y[1] - beta * y[2]]


def spread(xp):
    def slope(t, y, rate):
        u = y.reshape(rate.shape)
        flow = xp.roll(u, 1, 0) + xp.roll(u, -1, 0) + xp.roll(u, 1, 1) + xp.roll(u, -1, 1) - 4.0 * u
        return (flow + rate * u * (1.0 - u)).ravel()

    return slope


def field(cells):
    x, y = np.meshgrid(*[np.linspace(-1.0, 1.0, cells, endpoint=False)] * 2)
    return np.exp(-((x**2 + y**2) * 8.0)).ravel(), 0.01 + 0.04 * np.exp(-(((y - 0.4 * np.sin(np.pi * x)) / 0.3) ** 2))


def ends(quick):
    """Return the last times, which take about 1000 steps."""
    return (0.5, 5.0, 8) if quick else (10.0, 380.0, 128)


def final(solve, fun, y0, end, args, options):
    return solve(fun, (0.0, end), y0, t_eval=[end], args=args, **options).y[:, -1]


def rows(quick):
    from scipy.integrate import RK45

    for end, fun, y0, args, options in problems(quick):
        solver = RK45(lambda t, y, f=fun, args=args: f(t, y, *args), 0.0, y0, end, **options)
        steps = 0
        while solver.status == "running":  # no states are kept, whose memory would be free later
            solver.step()
            steps += 1
        yield f"{y0.size} equations, {steps} steps"


def problems(quick):
    end, long, cells = ends(quick)
    y0, rate = field(cells)
    return [(end, lorenz, START, PARAMETERS, TIGHT), (long, spread(np), y0, (rate,), LOOSE)]


def primals(quick):
    from scipy.integrate import solve_ivp

    (small, large), (first, second) = rows(quick), problems(quick)
    for table, row, (end, fun, y0, args, options) in ((VALUE, small, first), (GRADIENT, small, first), (LARGE, large, second)):
        yield table.title, row, Case(lambda y, *p, s=(fun, end, options): final(solve_ivp, s[0], y, s[1], p, s[2]), (y0, *args))


# --- peers ------------------------------------------------------------------------------------------------------------------


def ours(compile, **saved):
    def build(quick):
        from checkpoint import grad, solve_ivp

        def value_of(end, fun, options):
            return lambda y, *p: final(solve_ivp, fun, y, end, p, options)

        def gradient(value, argnums):
            return grad(lambda *p: np.sum(value(*p)), argnums=argnums)

        (small, large), (first, second) = rows(quick), problems(quick)
        end, fun, y0, args, options = first
        value = value_of(end, compile(fun), options)
        yield case(VALUE, small, value, (y0, *args))
        yield case(GRADIENT, small, gradient(value, (0, 1, 2, 3)), (y0, *args))
        end, fun, y0, args, options = second
        fun, options = compile(fun), options | saved
        for _ in range(2):  # compiles, and compares with NumPy, which takes memory of its own
            gradient(value_of(end / 50, fun, options), 0)(y0, *args)
        yield case(LARGE, large, gradient(value_of(end, fun, options), 0), (y0, *args), memory=True)

    return build


def diffrax(quick):
    import jax

    jax.config.update("jax_enable_x64", True)
    import diffrax as dfx
    import jax.numpy as jnp

    def end_of(fun, end, options):
        def value(y, *p):
            term = dfx.ODETerm(lambda t, y, p: jnp.asarray(fun(t, y, *p)))
            controller = dfx.PIDController(options["rtol"], options["atol"], dtmax=options.get("max_step"))
            adjoint = dfx.RecursiveCheckpointAdjoint()
            made = dfx.diffeqsolve(
                term, dfx.Dopri5(), 0.0, end, None, y, p, saveat=dfx.SaveAt(t1=True), stepsize_controller=controller, adjoint=adjoint
            )
            return made.ys[-1]

        return value

    (small, large), (first, second) = rows(quick), problems(quick)
    end, fun, y0, args, options = first
    value = end_of(fun, end, options)
    for table, f in ((VALUE, value), (GRADIENT, jax.grad(lambda *p: jnp.sum(value(*p)), argnums=(0, 1, 2, 3)))):
        given = (jnp.asarray(y0), *args)
        yield case(table, small, jax.jit(f).lower(*given).compile(), given, ready=jax.block_until_ready)
    end, _, y0, args, options = second
    value = end_of(spread(jnp), end, options)
    given = (jnp.asarray(y0), *map(jnp.asarray, args))
    made = jax.jit(jax.grad(lambda *p: jnp.sum(value(*p)))).lower(*given).compile()
    yield case(LARGE, large, made, given, ready=jax.block_until_ready, memory=True)


def case(table, row, f, args, ready=lambda result: result, memory=False):
    call = Memory(lambda *args: ready(f(*args))) if memory else lambda *args: ready(f(*args))
    answer = lambda result: np.concatenate([np.atleast_1d(part) for part in result]) if isinstance(result, tuple | list) else result
    return table.title, row, Case(call, args, answer, lambda seconds, primal: {"peak memory": str(call)} if memory else {})


def jitted(fun):
    from dualad import jit

    return jit(fun)


PEERS = {
    "solve_ivp": Peer(ours(lambda fun: fun), "scipy", ours=True),
    "solve_ivp(jit(fun))": Peer(ours(jitted, memory="3.3 MB"), "llvmlite", ours=True),
    "diffrax": Peer(diffrax, "diffrax"),
}

if __name__ == "__main__":
    sys.exit(main("equations", TABLES, primals, PEERS))
