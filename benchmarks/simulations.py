"""Simulations as they are published: plain NumPy code, compiled unedited, and gradients through all of their steps, against JAX.

Programs that write into arrays are written twice: for NumPy in slices, in place, as textbooks have it, and for JAX, whose arrays cannot
be written. The gradients are by the initial state and the parameters.
"""

from __future__ import annotations

import os
import sys
from functools import partial

import numpy as np

from .functions import leaves, parts
from .harness import Case, Peer, Table, main
from .scans import blocked, scanned
from .step_programs import Program, arguments, loss, plain

VALUES = Table("Simulations without derivatives: one run", unit="ms", versus=("jax", "dualad.jit"), rtol=1e-7)
GRADIENTS = Table(
    "Gradients of simulations by their initial state and parameters",
    unit="ms",
    base="compiled primal",
    versus=("jax", "jax sqrt", "dualad.jit"),
    rtol=1e-7,
)
KEPT = Table("The same, with memory for all states", unit="ms", base="compiled primal", versus=("jax", "dualad.jit"), rtol=1e-7)
TABLES = [VALUES, GRADIENTS, KEPT]


# --- lid-driven cavity: Navier-Stokes in slices, with a pressure loop ---------------------------------------------------------------


def cavity(points, iterations):
    h, dt, rho = 2.0 / (points - 1), 0.001, 1.0

    def step(k, state, nu, lid):
        u, v, p = state
        ux, uy = (u[1:-1, 2:] - u[1:-1, :-2]) / (2 * h), (u[2:, 1:-1] - u[:-2, 1:-1]) / (2 * h)
        vx, vy = (v[1:-1, 2:] - v[1:-1, :-2]) / (2 * h), (v[2:, 1:-1] - v[:-2, 1:-1]) / (2 * h)
        b = rho * ((ux + vy) / dt - ux**2 - 2 * uy * vx - vy**2)
        p = p.copy()
        for _ in range(iterations):
            old = p.copy()
            p[1:-1, 1:-1] = (old[1:-1, 2:] + old[1:-1, :-2] + old[2:, 1:-1] + old[:-2, 1:-1] - h**2 * b) / 4
            p[:, -1] = p[:, -2]
            p[0, :] = p[1, :]
            p[:, 0] = p[:, 1]
            p[-1, :] = 0
        un, vn = u.copy(), v.copy()
        u[1:-1, 1:-1] = (
            un[1:-1, 1:-1]
            - un[1:-1, 1:-1] * dt / h * (un[1:-1, 1:-1] - un[1:-1, :-2])
            - vn[1:-1, 1:-1] * dt / h * (un[1:-1, 1:-1] - un[:-2, 1:-1])
            - dt / (2 * rho * h) * (p[1:-1, 2:] - p[1:-1, :-2])
            + nu * dt / h**2 * (un[1:-1, 2:] + un[1:-1, :-2] + un[2:, 1:-1] + un[:-2, 1:-1] - 4 * un[1:-1, 1:-1])
        )
        v[1:-1, 1:-1] = (
            vn[1:-1, 1:-1]
            - un[1:-1, 1:-1] * dt / h * (vn[1:-1, 1:-1] - vn[1:-1, :-2])
            - vn[1:-1, 1:-1] * dt / h * (vn[1:-1, 1:-1] - vn[:-2, 1:-1])
            - dt / (2 * rho * h) * (p[2:, 1:-1] - p[:-2, 1:-1])
            + nu * dt / h**2 * (vn[1:-1, 2:] + vn[1:-1, :-2] + vn[2:, 1:-1] + vn[:-2, 1:-1] - 4 * vn[1:-1, 1:-1])
        )
        u[0, :] = 0
        u[:, 0] = 0
        u[:, -1] = 0
        u[-1, :] = lid
        v[0, :] = 0
        v[-1, :] = 0
        v[:, 0] = 0
        v[:, -1] = 0
        return u, v, p

    return step


def cavity_in_jax(points, iterations, jnp):
    from jax.lax import scan

    h, dt, rho = 2.0 / (points - 1), 0.001, 1.0

    def step(k, state, nu, lid):
        u, v, p = state
        c = slice(1, -1)
        ux, uy = (u[c, 2:] - u[c, :-2]) / (2 * h), (u[2:, c] - u[:-2, c]) / (2 * h)
        vx, vy = (v[c, 2:] - v[c, :-2]) / (2 * h), (v[2:, c] - v[:-2, c]) / (2 * h)
        b = rho * ((ux + vy) / dt - ux**2 - 2 * uy * vx - vy**2)

        def relax(p, _):
            inner = (p[c, 2:] + p[c, :-2] + p[2:, c] + p[:-2, c] - h**2 * b) / 4
            p = p.at[c, c].set(inner)
            p = p.at[:, -1].set(p[:, -2])
            p = p.at[0, :].set(p[1, :])
            p = p.at[:, 0].set(p[:, 1])
            return p.at[-1, :].set(0.0), None

        p, _ = scan(relax, p, None, length=iterations)
        x, y = u[c, c], v[c, c]

        def moved(a, gradient):
            m = a[c, c]
            spread = a[c, 2:] + a[c, :-2] + a[2:, c] + a[:-2, c] - 4 * m
            return m - x * dt / h * (m - a[c, :-2]) - y * dt / h * (m - a[:-2, c]) - dt / (2 * rho * h) * gradient + nu * dt / h**2 * spread

        inner_u, inner_v = moved(u, p[c, 2:] - p[c, :-2]), moved(v, p[2:, c] - p[:-2, c])
        u = jnp.pad(inner_u, 1).at[-1, :].set(lid)
        return u, jnp.pad(inner_v, 1), p

    return step


def cavity_case(quick):
    points, iterations = (9, 4) if quick else (41, 50)
    rng = np.random.default_rng(1)
    state = tuple(0.1 * rng.standard_normal((points, points)) for _ in range(3))
    in_jax = partial(cavity_in_jax, points, iterations)
    return Program(cavity(points, iterations), state, (0.1, 1.0), 5 if quick else 200, in_jax=in_jax)


# --- flow around a cylinder: lattice Boltzmann, D2Q9, with masks and rolls -----------------------------------------------------------

WEIGHTS = np.array([4 / 9, 1 / 9, 1 / 36, 1 / 9, 1 / 36, 1 / 9, 1 / 36, 1 / 9, 1 / 36])
CX, CY = np.array([0, 0, 1, 1, 1, 0, -1, -1, -1]), np.array([0, 1, 1, 0, -1, -1, -1, 0, 1])
OPPOSITE = np.array([0, 5, 6, 7, 8, 1, 2, 3, 4])


def obstacle(height, width):
    y, x = np.mgrid[:height, :width]
    return (x - width / 4) ** 2 + (y - height / 2) ** 2 < (height / 4) ** 2


def boltzmann(height, width):
    solid = obstacle(height, width)

    def step(k, f, tau):
        for i, cx, cy in zip(range(9), CX, CY, strict=True):
            f[:, :, i] = np.roll(f[:, :, i], cx, axis=1)
            f[:, :, i] = np.roll(f[:, :, i], cy, axis=0)
        bounced = f[solid, :][:, OPPOSITE]
        rho = np.sum(f, 2)
        ux, uy = np.sum(f * CX, 2) / rho, np.sum(f * CY, 2) / rho
        equilibrium = np.zeros_like(f)
        for i, cx, cy, w in zip(range(9), CX, CY, WEIGHTS, strict=True):
            c = cx * ux + cy * uy
            equilibrium[:, :, i] = rho * w * (1 + 3 * c + 4.5 * c**2 - 1.5 * (ux**2 + uy**2))
        f += -(1.0 / tau) * (f - equilibrium)
        f[solid, :] = bounced
        return f

    return step


def boltzmann_in_jax(height, width, jnp):
    solid = obstacle(height, width)

    def step(k, f, tau):
        f = jnp.stack([jnp.roll(f[:, :, i], (CY[i], CX[i]), (0, 1)) for i in range(9)], 2)
        rho = jnp.sum(f, 2)
        ux, uy = jnp.sum(f * CX, 2) / rho, jnp.sum(f * CY, 2) / rho
        c = CX * ux[:, :, None] + CY * uy[:, :, None]
        square = (ux**2 + uy**2)[:, :, None]
        equilibrium = rho[:, :, None] * WEIGHTS * (1 + 3 * c + 4.5 * c**2 - 1.5 * square)
        return jnp.where(solid[:, :, None], f[:, :, OPPOSITE], f - (f - equilibrium) / tau)

    return step


def boltzmann_case(quick):
    height, width = (8, 12) if quick else (40, 100)
    rng = np.random.default_rng(2)
    f = WEIGHTS * (1.0 + 0.01 * rng.standard_normal((height, width, 9)))
    f[:, :, 3] += 0.2 * WEIGHTS[3]
    return Program(boltzmann(height, width), f, (0.6,), 5 if quick else 200, in_jax=partial(boltzmann_in_jax, height, width))


# --- electromagnetic waves: finite differences in time, in slices, with a source at a point and one along a line ---------------------


def fdtd(k, state, epsilon, amplitude):
    ez, hx, hy = state
    hx[:, :-1] -= 0.5 * (ez[:, 1:] - ez[:, :-1])
    hy[:-1, :] += 0.5 * (ez[1:, :] - ez[:-1, :])
    ez[1:-1, 1:-1] += 0.5 / epsilon[1:-1, 1:-1] * (hy[1:-1, 1:-1] - hy[:-2, 1:-1] - hx[1:-1, 1:-1] + hx[1:-1, :-2])
    ez[ez.shape[0] // 2, ez.shape[1] // 3] += amplitude * np.exp(-((k - 30.0) ** 2) / 100.0)
    ez[2, 2:-2] += 0.1 * np.sin(0.2 * k)
    return ez, hx, hy


def fdtd_in_jax(jnp):
    def step(k, state, epsilon, amplitude):
        ez, hx, hy = state
        hx = hx.at[:, :-1].add(-0.5 * (ez[:, 1:] - ez[:, :-1]))
        hy = hy.at[:-1, :].add(0.5 * (ez[1:, :] - ez[:-1, :]))
        ez = ez.at[1:-1, 1:-1].add(0.5 / epsilon[1:-1, 1:-1] * (hy[1:-1, 1:-1] - hy[:-2, 1:-1] - hx[1:-1, 1:-1] + hx[1:-1, :-2]))
        ez = ez.at[ez.shape[0] // 2, ez.shape[1] // 3].add(amplitude * jnp.exp(-((k - 30.0) ** 2) / 100.0))
        return ez.at[2, 2:-2].add(0.1 * jnp.sin(0.2 * k)), hx, hy

    return step


def fdtd_case(quick):
    n = 12 if quick else 100
    rng = np.random.default_rng(3)
    state = tuple(0.01 * rng.standard_normal((n, n)) for _ in range(3))
    return Program(fdtd, state, (1.0 + rng.random((n, n)), 1.0), 6 if quick else 300, in_jax=fdtd_in_jax)


# --- shallow water over a bottom, in flux form, by Lax and Friedrichs --------------------------------------------------------------


def shallow_water(np):
    def step(k, state, bottom, drag):
        h, hu, hv = state
        g, dt, dx = 9.81, 0.002, 0.1
        u, v = hu / h, hv / h
        fluxes_x = (hu, hu * u + 0.5 * g * h**2, hu * v)
        fluxes_y = (hv, hu * v, hv * v + 0.5 * g * h**2)
        slopes = (0.0, -g * h * (np.roll(bottom, -1, 1) - np.roll(bottom, 1, 1)), -g * h * (np.roll(bottom, -1, 0) - np.roll(bottom, 1, 0)))
        new = []
        for q, fx, fy, slope in zip(state, fluxes_x, fluxes_y, slopes, strict=True):
            mean = 0.25 * (np.roll(q, 1, 0) + np.roll(q, -1, 0) + np.roll(q, 1, 1) + np.roll(q, -1, 1))
            new.append(mean - dt / (2 * dx) * (np.roll(fx, -1, 1) - np.roll(fx, 1, 1) + np.roll(fy, -1, 0) - np.roll(fy, 1, 0) - slope))
        return new[0], new[1] * (1 - drag * dt), new[2] * (1 - drag * dt)

    return step


def shallow_water_case(quick):
    n = 10 if quick else 100
    y, x = np.mgrid[:n, :n] / n
    h = 1.0 + 0.1 * np.exp(-100 * ((x - 0.5) ** 2 + (y - 0.5) ** 2))
    state = h, 0.01 * np.sin(2 * np.pi * x), 0.01 * np.cos(2 * np.pi * y)
    return Program(shallow_water(np), state, (0.1 * np.sin(2 * np.pi * x), 0.05), 5 if quick else 200, in_jax=shallow_water)


# --- bodies that attract each other: leapfrog, all pairs at once -------------------------------------------------------------------


def bodies(np):
    def step(k, state, masses):
        x, v = state
        dt, softening = 0.001, 0.05

        def acceleration(x):
            apart = x[None, :, :] - x[:, None, :]
            inverse = (np.sum(apart**2, axis=2) + softening**2) ** -1.5
            return np.sum(apart * inverse[:, :, None] * masses[None, :, None], axis=1)

        v = v + 0.5 * dt * acceleration(x)
        x = x + dt * v
        return x, v + 0.5 * dt * acceleration(x)

    return step


def bodies_case(quick):
    n = 5 if quick else 40
    rng = np.random.default_rng(4)
    state = rng.standard_normal((n, 3)), 0.3 * rng.standard_normal((n, 3))
    return Program(bodies(np), state, (rng.uniform(0.5, 1.5, n) / n,), 10 if quick else 500, in_jax=bodies)


# --- a neural differential equation: two dense layers, Runge-Kutta ------------------------------------------------------------------


def neural(np):
    def step(k, x, first, bias, second):
        dt = 0.05

        def slope(x):
            return np.tanh(x @ first + bias) @ second

        k1 = slope(x)
        k2 = slope(x + 0.5 * dt * k1)
        k3 = slope(x + 0.5 * dt * k2)
        k4 = slope(x + dt * k3)
        return x + dt / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)

    return step


def neural_case(quick):
    batch, width, hidden = (3, 4, 5) if quick else (32, 16, 64)
    rng = np.random.default_rng(5)
    params = rng.standard_normal((width, hidden)) / width**0.5, np.zeros(hidden), rng.standard_normal((hidden, width)) / hidden**0.5
    return Program(neural(np), rng.standard_normal((batch, width)), params, 5 if quick else 100, in_jax=neural)


# --- flame fronts: Kuramoto and Sivashinsky's equation, spectral in space, by exponential Runge-Kutta ------------------------------


def exponentials(points, dt, length=32 * np.pi):
    """The frequencies, and the coefficients of ETDRK4 by contour integrals (Kassam & Trefethen 2005)."""
    k = np.fft.rfftfreq(points, 1 / points) * 2 * np.pi / length
    linear = dt * (k**2 - k**4)
    z = linear[:, None] + np.exp(1j * np.pi * (np.arange(16) + 0.5) / 16)
    e = np.exp(z)
    weights = ((-4 - z + e * (4 - 3 * z + z**2)) / z**3, 2 * (2 + z + e * (-2 + z)) / z**3, (-4 - 3 * z - z**2 + e * (4 - z)) / z**3)
    means = [dt * np.mean(part, 1).real for part in ((np.exp(z / 2) - 1) / z, *weights)]
    return k, np.exp(linear), np.exp(linear / 2), *means


def flame(points, dt, np):
    wave, whole, half, q, f1, f2, f3 = exponentials(points, dt)

    def step(k, u, strength):
        def steepening(v):
            return -0.5j * strength * wave * np.fft.rfft(np.fft.irfft(v, points) ** 2)

        v = np.fft.rfft(u)
        n1 = steepening(v)
        a = half * v + q * n1
        n2 = steepening(a)
        n3 = steepening(half * v + q * n2)
        n4 = steepening(half * a + q * (2 * n3 - n1))
        return np.fft.irfft(whole * v + n1 * f1 + (n2 + n3) * f2 + n4 * f3, points)

    return step


def flame_case(quick):
    points = 16 if quick else 128
    x = 2 * np.pi * np.arange(points) / points
    in_jax = partial(flame, points, 0.25)
    return Program(in_jax(np), 0.3 + np.cos(x) * (1 + np.sin(x)), (1.0,), 10 if quick else 400, in_jax=in_jax)


# --- two-dimensional turbulence: vorticity, dealiased by the rule of two thirds -----------------------------------------------------


def turbulence(n, xp=np):
    kx, ky = np.fft.fftfreq(n, 1.0 / n)[:, None], np.fft.rfftfreq(n, 1.0 / n)[None, :]
    k2 = kx**2 + ky**2
    inverse = 1.0 / np.where(k2 == 0, 1.0, k2)
    dealias = (np.abs(kx) < n / 3) & (np.abs(ky) < n / 3)

    def step(k, w, nu):
        dt = 0.01
        w_hat = xp.fft.rfft2(w)
        psi = w_hat * inverse
        u, v = xp.fft.irfft2(1j * ky * psi, s=w.shape), xp.fft.irfft2(-1j * kx * psi, s=w.shape)
        wx, wy = xp.fft.irfft2(1j * kx * w_hat, s=w.shape), xp.fft.irfft2(1j * ky * w_hat, s=w.shape)
        advection = xp.fft.rfft2(u * wx + v * wy) * dealias
        return xp.fft.irfft2((w_hat - dt * advection) / (1.0 + dt * nu * k2), s=w.shape)

    return step


def waves(n):
    y, x = 2.0 * np.pi * np.mgrid[:n, :n] / n
    return np.sin(x) * np.cos(2.0 * y) + 0.5 * np.cos(3.0 * x + y)


def turbulence_case(quick):
    n = 16 if quick else 256
    return Program(turbulence(n), waves(n), (0.05,), 2 if quick else 20, in_jax=partial(turbulence, n), threads=os.cpu_count())


# --- all of them -------------------------------------------------------------------------------------------------------------------


#: in order of the table; each a function of `quick`
SIMULATIONS = {
    "lid-driven cavity, 41 x 41, 50 pressure iterations, 200 steps": cavity_case,
    "lattice Boltzmann, D2Q9, 100 x 40, 200 steps": boltzmann_case,
    "FDTD, 100 x 100, 300 steps": fdtd_case,
    "shallow water, 100 x 100, 200 steps": shallow_water_case,
    "N-body, 40 bodies, 500 steps": bodies_case,
    "neural ODE, batch of 32, 16-64-16, 100 steps": neural_case,
    "Kuramoto-Sivashinsky, spectral, 128 points, 400 steps": flame_case,
    "turbulence, spectral, 256 x 256, 20 steps, on all cores": turbulence_case,
}


def chained(simulation, step, **options):
    """The simulation as a chain of a step."""
    from checkpoint import chain

    return lambda state, *params: loss(chain(step, state, *params, steps=simulation.steps, **options))


# --- peers -------------------------------------------------------------------------------------------------------------------------


def primals(quick):
    from dualad import jit

    for name, case in SIMULATIONS.items():
        simulation = case(quick)
        yield VALUES.title, name, Case(lambda simulation=simulation: loss(plain(simulation)()))
        for table in (GRADIENTS, KEPT):
            yield table.title, name, Case(chained(simulation, jit(simulation.step)), arguments(simulation))


def enough(simulation):
    """Bytes for all states of a simulation and what a chain holds besides: JAX keeps them where each step is computed again."""
    return int(1.3 * simulation.steps * sum(part.nbytes for part in parts(simulation.state))) + 4_000_000


def gradients(quick, prepared):
    """Yield values and gradients of chains of `prepared` steps; those with all states where they are compiled."""
    from checkpoint import CTZ, grad

    for name, case in SIMULATIONS.items():
        simulation = case(quick)
        step, args = prepared(simulation), arguments(simulation)
        yield VALUES.title, name, Case(chained(simulation, step), args)
        every = tuple(range(len(args)))
        yield GRADIENTS.title, name, Case(grad(chained(simulation, step, schedule=CTZ()), argnums=every), args, answer=leaves)
        if step is not simulation.step:
            yield KEPT.title, name, Case(grad(chained(simulation, step, memory=enough(simulation)), argnums=every), args, answer=leaves)


def with_jit(quick):
    from dualad import jit

    yield from gradients(quick, lambda simulation: jit(simulation.step, threads=simulation.threads))


def eager(quick):
    yield from gradients(quick, lambda simulation: simulation.step)


def in_jax(remat):
    """Return the peer of JAX whose reverse sweeps compute steps again in one of two ways."""

    def build(quick):
        import jax
        import jax.numpy as jnp

        jax.config.update("jax_enable_x64", True)
        for name, case in SIMULATIONS.items():
            simulation = case(quick)
            args = jax.tree_util.tree_map(jnp.asarray, arguments(simulation))
            step, steps = simulation.in_jax(jnp), simulation.steps
            end = lambda state, *params, step=step, steps=steps: loss(scanned(step, state, params, steps, remat), jnp)
            if remat == "step":
                yield VALUES.title, name, Case(blocked(end), args)
            gradient = Case(blocked(jax.grad(end, argnums=tuple(range(len(args))))), args, answer=leaves)
            yield GRADIENTS.title, name, gradient
            if remat == "step":
                yield KEPT.title, name, gradient

    return build


PEERS = {
    "dualad": Peer(eager, ours=True),
    "dualad.jit": Peer(with_jit, ours=True),
    "jax": Peer(in_jax("step"), "jax"),
    "jax sqrt": Peer(in_jax("sqrt"), "jax"),
}

if __name__ == "__main__":
    sys.exit(main("simulations", TABLES, primals, PEERS))
