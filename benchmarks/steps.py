"""Everyday steps: 200 of them and their gradient, eager and compiled, with what stands between a step and compiled blocks.

A step is written once, as people write it. JAX is given the same source, or one by hand in `forms_of_jax`; where it has none, the table
says what it says. For five steps an adjoint is written by hand for numba.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from types import FunctionType

import numpy as np

from .compiled import flat
from .harness import Case, Peer, Table, main
from .published_steps import PUBLISHED, kuramoto_sivashinsky, turbulence, waves
from .scans import blocked, scanned
from .step_programs import EVERYDAY, Program, parts

FIRST = Table("Everyday steps of 16 numbers", unit="ms", versus=("dualad", "dualad.jit"), rtol=1e-7)
SECOND = Table("Steps of published codes", unit="ms", versus=("dualad", "dualad.jit"), rtol=1e-7)
SPECTRAL = Table("Spectral solvers: a run, and gradients", unit="ms", versus=("jax", "dualad.jit"), rtol=1e-7)
TABLES = [FIRST, SECOND, SPECTRAL]


def programs(quick):
    for table, named in ((FIRST, EVERYDAY), (SECOND, PUBLISHED)):
        for name, program in named.items():
            yield table.title, name, program._replace(steps=5) if quick else program


def solvers(quick):
    """Yield the spectral solvers: what is timed of them (its name, and how the gradients of JAX compute steps again), and the program."""
    made = {f"Kuramoto-Sivashinsky, {n} points, 400 steps": (kuramoto_sivashinsky(n), flame(n), (1.0,), 400) for n in (64, 128, 512)}
    made["turbulence, 256 x 256 points, 20 steps"] = turbulence(256), waves(256), (0.05,), 20
    for name, program in made.items():
        for what, remat in (("a run", None), ("gradient", "sqrt"), ("gradient, all states kept", "step")):
            program = Program(*program)
            yield f"{name}: {what}", remat, program._replace(steps=2) if quick else program


def flame(n):
    x = 2.0 * np.pi * np.arange(n) / n
    return np.cos(x) * (1.0 + np.sin(x))


def copied(state):
    return tuple(map(np.copy, state)) if isinstance(state, tuple) else state.copy()


def quiet(f):
    """Return a function without what it prints."""

    def run(*args):
        with contextlib.redirect_stdout(io.StringIO()):
            return f(*args)

    return run


def arguments(program):
    return program.state, *program.params


def leaves(gradient):
    return flat([leaf for part in gradient for leaf in parts(part)])


def plain(program):
    """The steps as a plain loop of NumPy."""

    def run():
        x = copied(program.state)
        for k in range(program.steps):
            x = program.step(k, x, *program.params)
        return x

    return run


def loss(state, np=np):
    """A real number to which every element of the last state contributes."""
    return sum(np.sum(np.real(part * np.cos(part))) for part in parts(state))


def chained(program, step, stats, schedule=None):
    from checkpoint import chain

    return lambda state, *params: loss(chain(step, state, *params, steps=program.steps, stats=stats, schedule=schedule))


def gradient(program, step, stats=None, schedule=None):
    """Return the gradient by the first state and the parameters."""
    from checkpoint import grad

    return grad(chained(program, step, stats, schedule), argnums=tuple(range(1 + len(program.params))))


def last(program, step):
    """Return the function that gives the last state, as the only part of a tuple."""
    from checkpoint import chain

    return lambda state, *params: (chain(step, state, *params, steps=program.steps),)


def in_blocks(stats):
    """Return "yes" where no Python runs between two actions of the schedule, "with calls" where compiled steps call it, "but for" so many
    steps where the plain function makes some, else "no"."""
    _, made, reason = stats.reason.partition("steps one by one, because ")
    _, called, calls = stats.reason.partition("each step calls Python ")
    plain = re.search(r"(\d+ steps?) made by the plain function", stats.reason)
    return f"no\n{reason}" if made else f"with calls\n{calls}" if called else f"but for {plain[1]}" if plain else "yes"


def agreement(program, step):
    """Return how the last state of compiled steps agrees with that of plain NumPy."""
    from checkpoint import chain

    apart = 0.0
    for a, b in zip(parts(plain(program)()), parts(chain(step, *arguments(program), steps=program.steps)), strict=True):
        if not np.array_equal(a, b, equal_nan=True):
            apart = max(apart, float(np.max(np.abs(np.asarray(a) - b)) / np.max(np.abs(a))))
    return f"{apart:.0e}: {program.last_bits or 'nothing may round otherwise'}" if apart else "same bits"


# --- peers ------------------------------------------------------------------------------------------------------------------------


def primals(quick):
    for title, name, program in programs(quick):
        yield title, name, Case(quiet(plain(program)))
    for name, _, program in solvers(quick):
        yield SPECTRAL.title, name, Case(plain(program))


def eager(quick):
    for title, name, program in programs(quick):
        yield title, name, Case(quiet(gradient(program, program.step)), arguments(program), answer=leaves)


def with_jit(quick):
    from checkpoint import Stats, StoreAll
    from dualad import jit

    for name, remat, program in solvers(quick):
        step, schedule = jit(program.step, threads=os.cpu_count()), StoreAll() if remat == "step" else None
        run = last(program, step) if remat is None else gradient(program, step, schedule=schedule)
        yield SPECTRAL.title, name, Case(run, arguments(program), leaves)
    for title, name, program in programs(quick):
        step, stats = jit(program.step), Stats()

        def columns(seconds, primal, program=program, step=step, stats=stats):
            return {"in blocks": in_blocks(stats), "value": quiet(agreement)(program, step)}

        yield title, name, Case(quiet(gradient(program, step, stats)), arguments(program), leaves, columns)


def in_jax(quick):
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    by_hand, special = forms_of_jax(), jax.scipy.special
    given = {"np": jnp, "erf": special.erf, "logsumexp": special.logsumexp}

    def translated(f):
        return FunctionType(f.__code__, {**f.__globals__, **given}, f.__name__, f.__defaults__, f.__closure__)

    def differentiated(step, program, remat):
        args = jax.tree_util.tree_map(jnp.asarray, arguments(program))

        def end(state, *params):
            return loss(scanned(step, state, params, program.steps, remat), jnp)

        return Case(blocked(jax.grad(end, argnums=tuple(range(len(args))))), args, leaves)

    for title, name, program in programs(quick):
        yield title, name, differentiated(by_hand.get(name) or translated(program.step), program, "step")
    for name, remat, program in solvers(quick):
        step = translated(program.step)
        if remat is None:
            run = lambda state, *params, step=step, program=program: (scanned(step, state, params, program.steps, "step"),)
            yield SPECTRAL.title, name, Case(blocked(run), tuple(map(jnp.asarray, arguments(program))), leaves)
        else:
            yield SPECTRAL.title, name, differentiated(step, program, remat)


def forms_of_jax():
    """Return steps written for JAX: where the source itself branches, writes or selects by masks."""
    import jax
    import jax.numpy as jnp

    def spread(x, rate):
        return x + rate * (jnp.roll(x, 1) - x)

    def branch(k, x, a):
        return spread(jax.lax.cond(x[0] > 0.7, lambda x: x * 0.98, lambda x: x + a, x), 0.01)

    def branch_on_k(k, x, a):
        return spread(jax.lax.cond(k % 10 == 0, lambda x: x * (1.0 - a), lambda x: x, x), 0.01)

    def masked_power(k, x, p):
        x = spread(x, 0.02)
        return jnp.where(x > 0.7, jnp.where(x > 0.7, x, 1.0) ** p, x)

    def masked_scaling(k, x, a):
        x = x + 0.02 * a * (jnp.roll(x, 1) - x) + 0.001
        return jnp.where(x > 0.7, 0.9 * x, x)

    def heat(k, x, a):
        return x.at[1:-1].add(0.1 * a * (x[2:] - 2.0 * x[1:-1] + x[:-2]))

    def bouncing_balls(k, state, restitution):
        x, v = state
        v = v - 9.81 * 0.01
        x = x + 0.01 * v
        hit = x < 0.0
        return jnp.where(hit, -x, x), jnp.where(hit, -restitution * v, v)

    return {
        "a branch on a value": branch,
        "a branch on k % 10": branch_on_k,
        "x[m] = x[m]**p": masked_power,
        "x[m] *= 0.9": masked_scaling,
        "heat, slices": heat,
        "bouncing balls, masks": bouncing_balls,
    }


def by_hand(quick):
    """Adjoints written by hand: all states are kept, of a step its number and state, and it is gone back through them."""
    from numba import njit

    @njit
    def branch(x, a):
        y = x * 0.98 if x[0] > 0.7 else x + a
        return 0.99 * y + 0.01 * np.roll(y, 1)

    @njit
    def branch_pulled(x, a, g):
        g = 0.99 * g + 0.01 * np.roll(g, -1)
        return (0.98 * g, 0.0) if x[0] > 0.7 else (g, np.sum(g))

    @njit
    def newton(x, a):
        y = x
        residual = 0.1 * a * y**3
        while np.max(np.abs(residual)) > 1e-10:
            y = y - residual / (1.0 + 0.3 * a * y**2)
            residual = y - x + 0.1 * a * y**3
        return y

    @njit
    def newton_pulled(x, a, g):
        y = newton(x, a)
        g = g / (1.0 + 0.3 * a * y**2)  # the implicit function theorem
        return g, -0.1 * np.sum(g * y**3)

    @njit
    def scaled(x, a):
        x = x + 0.02 * a * (np.roll(x, 1) - x) + 0.001
        for i in range(x.size):
            if x[i] > 0.7:
                x[i] *= 0.9
        return x

    @njit
    def scaled_pulled(x, a, g):
        change = np.roll(x, 1) - x
        g = np.where(x + 0.02 * a * change + 0.001 > 0.7, 0.9 * g, g)
        return g + 0.02 * a * (np.roll(g, -1) - g), 0.02 * np.sum(g * change)

    @njit
    def heat(x, a):
        y = x.copy()
        y[1:-1] += 0.1 * a * (x[2:] - 2.0 * x[1:-1] + x[:-2])
        return y

    @njit
    def heat_pulled(x, a, g):
        w, inner = g.copy(), 0.1 * a * g[1:-1]
        w[2:] += inner
        w[1:-1] -= 2.0 * inner
        w[:-2] += inner
        return w, 0.1 * np.sum(g[1:-1] * (x[2:] - 2.0 * x[1:-1] + x[:-2]))

    @njit
    def balls(s, a):
        n = s.size // 2
        y = np.empty_like(s)
        for i in range(n):
            v = s[n + i] - 9.81 * 0.01
            x = s[i] + 0.01 * v
            y[i], y[n + i] = (-x, -a * v) if x < 0.0 else (x, v)
        return y

    @njit
    def balls_pulled(s, a, g):
        n, total = s.size // 2, 0.0
        w = np.empty_like(s)
        for i in range(n):
            v, gx, gv = s[n + i] - 9.81 * 0.01, g[i], g[n + i]
            if s[i] + 0.01 * v < 0.0:
                total -= v * gv
                gx, gv = -gx, -a * gv
            w[i], w[n + i] = gx, gv + 0.01 * gx
        return w, total

    def adjoint(advance, pull, steps):
        @njit
        def run(x, a):
            states = np.empty((steps + 1, x.size))
            states[0] = x
            for k in range(steps):
                states[k + 1] = advance(states[k], a)
            x, total = states[steps], 0.0
            g = np.cos(x) - x * np.sin(x)
            for k in range(steps - 1, -1, -1):
                g, term = pull(states[k], a, g)
                total += term
            return g, total

        return lambda state, a: run(flat(parts(state)), a)

    written = {
        "a branch on a value": (branch, branch_pulled),
        "Newton, while": (newton, newton_pulled),
        "x[m] *= 0.9": (scaled, scaled_pulled),
        "heat, slices": (heat, heat_pulled),
        "bouncing balls, masks": (balls, balls_pulled),
    }
    for title, name, program in programs(quick):
        if name in written:
            f = adjoint(*written[name], program.steps)
            f(*arguments(program))  # which compiles for seconds
            yield title, name, Case(f, arguments(program), answer=leaves)


PEERS = {
    "dualad": Peer(eager, ours=True),
    "dualad.jit": Peer(with_jit, ours=True),
    "jax": Peer(in_jax, "jax"),
    "by hand in numba": Peer(by_hand, "numba"),
}

if __name__ == "__main__":
    sys.exit(main("steps", TABLES, primals, PEERS))
