"""Steps of codes as they are published: spectral solvers, particles, events, filters, limiters, networks, as their fields write them."""

from __future__ import annotations

import numpy as np

from dualad.scipy.linalg import cho_factor, cho_solve
from dualad.scipy.special import logsumexp

from .method_steps import METHODS
from .simulations import flame, turbulence, waves
from .step_programs import KERNELS, POWERS, SUMS, Program, numbers

# --- spectral solvers -------------------------------------------------------------------------------------------------------------


def schroedinger(n):
    """The nonlinear Schroedinger equation: split steps."""
    wave = 2.0 * np.pi * np.fft.fftfreq(n, 20.0 / n)

    def step(k, psi, g):
        dt = 0.01
        psi = psi * np.exp(-0.5j * dt * g * np.abs(psi) ** 2)
        psi = np.fft.ifft(np.exp(-0.5j * dt * wave**2) * np.fft.fft(psi))
        return psi * np.exp(-0.5j * dt * g * np.abs(psi) ** 2)

    return step


# --- particles and bodies ---------------------------------------------------------------------------------------------------------


def bodies_with_masks(k, state, G):
    """Attracting bodies; the mask leaves out each body's attraction of itself."""
    pos, vel = state
    mass = np.ones((8, 1)) / 8
    dt = 0.01
    x, y, z = pos[:, 0:1], pos[:, 1:2], pos[:, 2:3]
    dx, dy, dz = x.T - x, y.T - y, z.T - z
    inv_r3 = dx**2 + dy**2 + dz**2
    inv_r3[inv_r3 > 0] = (inv_r3[inv_r3 > 0] + 0.01) ** (-1.5)
    acc = np.hstack((G * (dx * inv_r3) @ mass, G * (dy * inv_r3) @ mass, G * (dz * inv_r3) @ mass))
    vel = vel + dt * acc
    return pos + dt * vel, vel


def lennard_jones(k, state, epsilon):
    """A periodic box with a cutoff."""
    x, v = state
    box, cutoff, dt = 5.0, 2.0, 0.001
    d = x[:, None, :] - x[None, :, :]
    d -= box * np.round(d / box)
    r2 = np.sum(d**2, axis=-1) + np.eye(len(x)) * 1e3
    near = r2 < cutoff**2
    s6 = np.zeros_like(r2)
    s6[near] = 1.0 / r2[near] ** 3
    force = np.sum((24.0 * epsilon * s6 * (2.0 * s6 - 1.0) / r2)[:, :, None] * d, axis=1)
    v = v + dt * force
    return (x + dt * v) % box, v


def cell_list(k, state, stiffness):
    """Discs on a line that push their neighbours in the next cells, found by counting sort."""
    x, v = state
    cells = 8
    cell = np.clip((x * cells).astype(int), 0, cells - 1)
    order = np.argsort(cell, kind="stable")
    x, v, cell = x[order], v[order], cell[order]
    count = np.bincount(cell, minlength=cells)
    pressure = stiffness * (count - 2.0)
    right, left = np.minimum(cell + 1, cells - 1), np.maximum(cell - 1, 0)
    push = np.maximum(0.05 - (x[1:] - x[:-1]), 0.0)
    force = 0.1 * (pressure[left] - pressure[right]) - 0.5 * v
    force[:-1] -= stiffness * push
    force[1:] += stiffness * push
    v = v + 0.01 * force
    return np.clip(x + 0.01 * v, 0.0, 1.0), v


def particle_in_cell(k, state, charge):
    """Electrons on a ring: linear weights, Poisson's equation by FFT, leapfrog."""
    x, v = state
    cells, dt = 16, 0.05
    left = np.floor(x).astype(int)
    w = x - left
    j, i = (left + 1) % cells, left % cells
    density = np.bincount(i, weights=1.0 - w, minlength=cells) + np.bincount(j, weights=w, minlength=cells)
    wave = 2.0 * np.pi * np.fft.rfftfreq(cells)
    wave[0] = 1.0
    rho_hat = np.fft.rfft(charge * (density - np.mean(density)))
    field = np.fft.irfft(-1j * rho_hat / wave, cells)
    v = v + dt * 0.1 * ((1.0 - w) * field[i] + w * field[j])
    return (x + dt * v) % cells, v


def bouncing_ball(k, state, restitution):
    y, v = state
    dt = 0.01
    v = v - 9.81 * dt
    y = y + v * dt
    if y < 0.0:
        y = -y
        v = -restitution * v
    return y, v


def bouncing_balls(k, state, restitution):
    x, v = state
    dt = 0.01
    v = v - 9.81 * dt
    x = x + dt * v
    hit = x < 0.0
    v[hit] = -restitution * v[hit]
    x[hit] = -x[hit]
    return x, v


def stick_slip(k, state, drive):
    """A block on a belt: it sticks while the spring is weaker than friction."""
    x, v = state
    dt, mu = 0.01, 0.4
    spring = drive * (0.01 * k + 0.5) - x
    if abs(v) < 1e-3 and abs(spring) < mu:
        return x, 0.0 * v
    friction = mu if v >= 0 else -mu
    v = v + dt * (spring - friction - 0.1 * v)
    return x + dt * v, v


def flock(k, state, radius):
    """Headings turn to the mean of the neighbours'."""
    x, y, heading = state
    dx, dy = x[:, None] - x, y[:, None] - y
    near = dx**2 + dy**2 < radius**2
    mean = np.arctan2((near * np.sin(heading)).sum(axis=1), (near * np.cos(heading)).sum(axis=1))
    heading = heading + 0.1 * np.sin(mean - heading)
    return (x + 0.01 * np.cos(heading)) % 1.0, (y + 0.01 * np.sin(heading)) % 1.0, heading


# --- events, control --------------------------------------------------------------------------------------------------------------


def thermostat(k, state, loss):
    temperature, heating = state
    if temperature < 19.0:
        heating = 1.0
    elif temperature > 21.0:
        heating = 0.0
    return temperature + 0.5 * (heating - loss * (temperature - 10.0)), heating


def integrate_and_fire(k, state, weight):
    v, refractory = state
    v = v + 0.1 * (1.5 - v)
    v[refractory > 0] = 0.0
    refractory = np.maximum(refractory - 1.0, 0.0)
    fired = v > 1.0
    v = v + weight * np.mean(fired)
    v[fired] = 0.0
    refractory[fired] = 3.0
    return v, refractory


def izhikevich(k, state, current):
    v, u = state
    v = v + 0.25 * (0.04 * v**2 + 5.0 * v + 140.0 - u + current)
    u = u + 0.25 * 0.02 * (0.2 * v - u)
    if np.any(v >= 30.0):
        u = np.where(v >= 30.0, u + 8.0, u)
        v = np.where(v >= 30.0, -65.0, v)
    return v, u


def sandpile(k, z, rain):
    """Grains fall; a site of more than 4 topples until none does."""
    z = z + rain * 0.1
    while np.any(z >= 4.0):
        over = z >= 4.0
        z[over] -= 4.0
        z[1:] += over[:-1]
        z[:-1] += over[1:]
        z[:, 1:] += over[:, :-1]
        z[:, :-1] += over[:, 1:]
    return z


def snow_and_soil(k, state, melt_rate):
    """A degree-day snow pack over a bucket of soil (HBV)."""
    snow, soil, flow = state
    temperature, rain = 5.0 * np.sin(0.07 * k), 3.0 * np.cos(0.31 * k) ** 2
    if temperature < 0.0:
        snow = snow + rain
        water = 0.0
    else:
        melt = min(melt_rate * temperature, snow)
        snow = snow - melt
        water = rain + melt
    recharge = water * (soil / 100.0) ** 2
    soil = soil + water - recharge
    if soil > 100.0:
        recharge = recharge + soil - 100.0
        soil = 100.0
    soil = max(soil - 0.5, 1.0)
    return snow, soil, 0.9 * flow + 0.1 * recharge


def saturated_pid(k, state, gain):
    x, v, integral = state
    error = 1.0 - x
    u = 4.0 * gain * error + integral - v
    if u > 1.5:
        u = 1.5
    elif u < -1.5:
        u = -1.5
    else:
        integral = integral + 0.02 * error  # no windup
    return x + 0.02 * v, v + 0.02 * (u - 0.5 * v), integral


# --- implicit steps, orbits, step control ---------------------------------------------------------------------------------------------


def implicit_heat(k, x, a):
    A = (1.0 + 2.0 * a) * np.eye(16) - a * np.eye(16, k=1) - a * np.eye(16, k=-1)
    return cho_solve(cho_factor(A), x) + 0.001


def thomas(k, x, a):
    """The tridiagonal solver of textbooks, element by element."""
    n = len(x)
    c, d = [-a / (1.0 + 2.0 * a)], [x[0] / (1.0 + 2.0 * a)]
    for i in range(1, n):
        pivot = 1.0 + 2.0 * a + a * c[-1]
        c.append(-a / pivot)
        d.append((x[i] + a * d[-1]) / pivot)
    y = [d[-1]]
    for i in range(n - 2, -1, -1):
        y.append(d[i] - c[i] * y[-1])
    return np.stack(y[::-1]) + 0.001


def kepler(k, state, eccentricity):
    """Kepler's equation by Newton's method, and what is seen of the orbit."""
    M, seen = state
    M = (M + 0.03) % (2.0 * np.pi)
    E = M
    for _ in range(50):
        delta = (E - eccentricity * np.sin(E) - M) / (1.0 - eccentricity * np.cos(E))
        E = E - delta
        if abs(delta) < 1e-12:
            break
    return M, 0.9 * seen + 0.1 * np.cos(E)


def adaptive_heun(k, state, a):
    """Lotka-Volterra; a step whose error is too large is not made, but halved."""
    y, dt = state

    def slope(y):
        return np.stack([y[0] * (1.0 - y[1]), a * y[1] * (y[0] - 1.0)])

    k1 = slope(y)
    k2 = slope(y + dt * k1)
    error = dt * np.max(np.abs(k2 - k1)) / 2
    if error > 1e-3:
        return y, 0.5 * dt
    y = y + dt * (k1 + k2) / 2
    if error < 1e-4:
        dt = min(2.0 * dt, 0.1)
    return y, dt


def lyapunov(k, state, rho):
    """Lyapunov exponents of Lorenz-63: the frame is made orthogonal in each step."""
    x, Q, logs = state
    h = 0.01
    J = np.stack(
        [
            np.stack([-10.0 + 0.0 * x[0], 10.0 + 0.0 * x[0], 0.0 * x[0]]),
            np.stack([rho - x[2], -1.0 + 0.0 * x[0], -x[0]]),
            np.stack([x[1], x[0], -8.0 / 3.0 + 0.0 * x[0]]),
        ]
    )
    x = x + h * np.stack([10.0 * (x[1] - x[0]), x[0] * (rho - x[2]) - x[1], x[0] * x[1] - 8.0 / 3.0 * x[2]])
    Q, R = np.linalg.qr(Q + h * J @ Q)
    return x, Q, logs + 0.01 * np.log(np.abs(np.diagonal(R)))


# --- finite volumes, level sets ------------------------------------------------------------------------------------------------------


def burgers_with_limiter(k, u, courant):
    left, right = u - np.roll(u, 1), np.roll(u, -1) - u
    slope = np.where(left * right > 0, np.where(np.abs(left) < np.abs(right), left, right), 0.0)
    minus, plus = u + 0.5 * slope, np.roll(u - 0.5 * slope, -1)
    speed = np.maximum(np.abs(minus), np.abs(plus))
    flux = 0.25 * (minus**2 + plus**2) - 0.5 * speed * (plus - minus)
    return u - courant * (flux - np.roll(flux, 1))


def gas_dynamics(k, state, gamma):
    """Euler's equations in one dimension, the fluxes of Harten, Lax and van Leer."""
    rho, mom, energy = state
    vel = mom / rho
    p = (gamma - 1.0) * (energy - 0.5 * rho * vel**2)
    c = np.sqrt(gamma * p / rho)
    U, F = np.stack([rho, mom, energy]), np.stack([mom, mom * vel + p, (energy + p) * vel])
    UL, UR, FL, FR = U[:, :-1], U[:, 1:], F[:, :-1], F[:, 1:]
    sl = np.minimum(vel[:-1] - c[:-1], vel[1:] - c[1:])
    sr = np.maximum(vel[:-1] + c[:-1], vel[1:] + c[1:])
    flux = (sr * FL - sl * FR + sl * sr * (UR - UL)) / (sr - sl)
    flux = np.where(sl > 0, FL, np.where(sr < 0, FR, flux))
    U = U.copy()
    U[:, 1:-1] -= 0.1 * (flux[:, 1:] - flux[:, :-1])
    return U[0], U[1], U[2]


def reinitialised(k, state, pace):
    """A level set turned into a distance by Godunov's scheme."""
    phi, start = state
    a, b = phi - np.roll(phi, 1, 0), np.roll(phi, -1, 0) - phi
    c, d = phi - np.roll(phi, 1, 1), np.roll(phi, -1, 1) - phi
    gradient = np.zeros_like(phi)
    inside, outside = start < 0, start > 0
    for m, low, high in ((outside, np.maximum, np.minimum), (inside, np.minimum, np.maximum)):
        gx = np.maximum(low(a[m], 0.0) ** 2, high(b[m], 0.0) ** 2)
        gy = np.maximum(low(c[m], 0.0) ** 2, high(d[m], 0.0) ** 2)
        gradient[m] = np.sqrt(gx + gy + 1e-6) - 1.0
    return phi - 0.1 * pace * start / np.sqrt(start**2 + 0.01) * gradient, start


# --- networks, filters, statistics -----------------------------------------------------------------------------------------------------


def pipe_network(k, flow, demand):
    """Flows in the pipes between 4 nodes: friction from a table, heads from a linear system."""
    incidence = np.array([[1.0, 1.0, 0.0, 0.0, 0.0], [-1.0, 0.0, 1.0, 1.0, 0.0], [0.0, -1.0, -1.0, 0.0, 1.0]])
    reynolds = np.array([0.0, 0.2, 0.4, 0.8, 1.6, 3.2])
    friction = np.array([0.9, 0.5, 0.35, 0.27, 0.23, 0.2])
    conductance = 1.0 / (np.interp(np.abs(flow), reynolds, friction) * np.abs(flow) + 0.5)
    heads = np.linalg.solve((incidence * conductance) @ incidence.T, demand * np.array([1.0, -0.2, -0.3]) + 0.001 * (k % 7))
    return 0.9 * flow + 0.1 * conductance * (incidence.T @ heads)


SEEN = np.random.default_rng(7).integers(0, 3, 200)


def hidden_markov(k, state, mixing):
    alpha, likelihood = state
    transition = (1.0 - mixing) * np.eye(4) + mixing / 4
    emission = np.array([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.1, 0.1, 0.8], [0.3, 0.4, 0.3]])
    alpha = (alpha @ transition) * emission[:, SEEN[k]]
    total = np.sum(alpha)
    return alpha / total, likelihood + np.log(total)


def log_filter(k, logs, mixing):
    transition = np.log((1.0 - mixing) * np.eye(4) + mixing / 4)
    logs = logsumexp(logs[:, None] + transition, axis=0) + 0.1 * np.cos(0.3 * k + np.arange(4.0))
    return logs - logsumexp(logs)


def kalman(k, state, noise):
    x, P = state
    F = np.eye(4) + 0.1 * np.eye(4, k=2)
    H = np.eye(2, 4)
    x, P = F @ x, F @ P @ F.T + 0.01 * noise * np.eye(4)
    S = H @ P @ H.T + noise * np.eye(2)
    K = P @ H.T @ np.linalg.inv(S)
    x = x + K @ (np.stack([np.sin(0.1 * k), np.cos(0.1 * k)]) - H @ x)
    return x, (np.eye(4) - K @ H) @ P


def on_the_simplex(k, x, pace):
    """Projected gradient descent: the projection sorts."""
    x = x - 0.1 * pace * (np.arange(1.0, 9.0) * x - 0.5)
    u = np.sort(x)[::-1]
    excess = (np.cumsum(u) - 1.0) / np.arange(1, 9)
    last = np.sum(u > excess) - 1
    return np.maximum(x - excess[last], 0.0)


def median_filter(k, x, pace):
    padded = np.pad(x, 1, mode="edge")
    middle = np.median(np.lib.stride_tricks.sliding_window_view(padded, 3), axis=1)
    return x + 0.2 * pace * (middle - x) + 0.001


def american_put(k, value, volatility):
    """A step back in a binomial tree of Cox, Ross and Rubinstein, kept at 17 nodes."""
    up = np.exp(volatility * 0.1)
    q = (1.001 - 1.0 / up) / (up - 1.0 / up)
    price = up ** np.arange(-16.0, 17.0, 2.0)
    held = (q * np.roll(value, -1) + (1.0 - q) * value) / 1.001
    return np.maximum(held, 1.0 - price)


# --- all of them ---------------------------------------------------------------------------------------------------------------------


def tube():
    rho = np.where(np.arange(16) < 8, 1.0, 0.125)
    return rho, np.zeros(16), np.where(np.arange(16) < 8, 2.5, 0.25)


GRID = 32.0 * np.pi * np.arange(128) / 128
X = np.linspace(-10.0, 10.0, 64, endpoint=False)
PACKET = np.exp(1j * X - X**2)
CIRCLE = np.hypot(*np.mgrid[-1:1:8j, -1:1:8j]) ** 2 - 0.4
LATTICE = 1.6 * np.stack(np.divmod(np.arange(6.0), 2.0), axis=1)  # so far apart that no last bit grows

PUBLISHED = {
    "turbulence, 16 x 16": Program(turbulence(16), waves(16), (0.05,), last_bits=SUMS),
    "Schroedinger, 64 points": Program(schroedinger(64), PACKET, (0.8,), last_bits=KERNELS),
    "Kuramoto-Sivashinsky, ETDRK4, 128": Program(flame(128, 0.05, np), np.cos(GRID / 16) * (1 + np.sin(GRID / 16)), (1.0,), last_bits=SUMS),
    "N-body with masks": Program(bodies_with_masks, (numbers(8, 3), numbers(8, 3, seed=2) - 0.7), (0.5,), last_bits=POWERS),
    "Lennard-Jones, cutoff": Program(lennard_jones, (LATTICE + 0.3 * numbers(6, 2), np.zeros((6, 2))), (0.1,), last_bits=SUMS),
    "cell list": Program(cell_list, (numbers(16, low=0.0, high=1.0), np.zeros(16)), (1.0,)),
    "particle in cell": Program(particle_in_cell, (16.0 * numbers(16, low=0.0, high=1.0), numbers(16) - 0.7), (0.3,), last_bits=SUMS),
    "bouncing ball": Program(bouncing_ball, (1.0, 0.0), (0.9,)),
    "bouncing balls, masks": Program(bouncing_balls, (numbers(16), np.zeros(16)), (0.9,)),
    "stick-slip": Program(stick_slip, (0.0, 0.0), (0.3,)),
    "flock": Program(flock, (numbers(8), numbers(8, seed=2), 5.0 * numbers(8, seed=3)), (0.5,), last_bits=KERNELS),
    "thermostat": Program(thermostat, (18.0, 0.0), (0.06,)),
    "integrate and fire": Program(integrate_and_fire, (numbers(16, low=0.0, high=0.9), np.zeros(16)), (0.05,)),
    "Izhikevich neurons": Program(izhikevich, (-65.0 + numbers(8), -13.0 * np.ones(8)), (10.0,)),
    "sandpile": Program(sandpile, 3.0 * numbers(4, 4), (0.31,)),
    "snow and soil": Program(snow_and_soil, (5.0, 60.0, 1.0), (0.7,), last_bits=KERNELS),
    "saturated PID": Program(saturated_pid, (0.0, 0.0, 0.0), (1.1,)),
    "implicit heat, Cholesky": Program(implicit_heat, numbers(16), (0.4,), last_bits=SUMS),
    "implicit heat, Thomas": Program(thomas, numbers(16), (0.4,)),
    "Kepler's equation": Program(kepler, (0.1, 0.0), (0.3,), last_bits=KERNELS),
    "adaptive Heun": Program(adaptive_heun, (np.array([0.7, 1.2]), 0.1), (0.9,)),
    "Lyapunov exponents, qr": Program(lyapunov, (np.array([1.0, 2.0, 20.0]), np.eye(3), np.zeros(3)), (28.0,), last_bits=SUMS),
    "Burgers with limiter": Program(burgers_with_limiter, np.sin(2.0 * np.pi * np.arange(16) / 16) + 0.3, (0.2,)),
    "gas dynamics, HLL": Program(gas_dynamics, tube(), (1.4,)),
    "level set": Program(reinitialised, (CIRCLE, CIRCLE.copy()), (1.0,)),
    "pipe network": Program(pipe_network, 0.5 * numbers(5), (0.6,), last_bits=SUMS),
    "hidden Markov filter": Program(hidden_markov, (np.ones(4) / 4, 0.0), (0.2,), last_bits=SUMS),
    "log filter, logsumexp": Program(log_filter, np.log(numbers(4)), (0.2,), last_bits=SUMS),
    "Kalman filter": Program(kalman, (np.zeros(4), np.eye(4)), (0.1,), last_bits=SUMS),
    "projection on a simplex": Program(on_the_simplex, numbers(8), (0.2,)),
    "median filter": Program(median_filter, numbers(16), (1.0,)),
    "American put": Program(american_put, np.maximum(1.0 - np.exp(0.1 * np.arange(-8.0, 9.0)), 0.0), (0.3,), last_bits=KERNELS),
    **METHODS,
}
