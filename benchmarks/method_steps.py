"""Steps of numerical methods as textbooks write them: reconstructions, sweeps, collisions, line searches, embedded errors, ranks."""

from __future__ import annotations

import numpy as np

from .step_programs import KERNELS, POWERS, SUMS, Program, numbers

# --- finite volumes and sweeps ------------------------------------------------------------------------------------------------


def weno(k, u, courant):
    """Advection, reconstructed by WENO of fifth order (Jiang & Shu)."""
    eps = 1e-6
    a, b, c, d = np.roll(u, 2), np.roll(u, 1), np.roll(u, -1), np.roll(u, -2)
    s0 = 13 / 12 * (a - 2 * b + u) ** 2 + 0.25 * (a - 4 * b + 3 * u) ** 2
    s1 = 13 / 12 * (b - 2 * u + c) ** 2 + 0.25 * (b - c) ** 2
    s2 = 13 / 12 * (u - 2 * c + d) ** 2 + 0.25 * (3 * u - 4 * c + d) ** 2
    w0, w1, w2 = 0.1 / (eps + s0) ** 2, 0.6 / (eps + s1) ** 2, 0.3 / (eps + s2) ** 2
    flux = (w0 * (2 * a - 7 * b + 11 * u) + w1 * (-b + 5 * u + 2 * c) + w2 * (2 * u + 5 * c - d)) / (6 * (w0 + w1 + w2))
    return u - courant * (flux - np.roll(flux, 1))


def superbee(k, q, courant):
    """Advection with a flux limiter, whose ratio of slopes is 0/0 where nothing changes."""
    dq = np.diff(q, append=q[:1])
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(dq != 0, np.roll(dq, 1) / dq, 0.0)
    phi = np.maximum(0, np.maximum(np.minimum(2 * ratio, 1), np.minimum(ratio, 2)))
    flux = courant * q + 0.5 * courant * (1 - courant) * phi * dq
    q -= flux - np.roll(flux, 1)
    return q


def alternating_directions(k, T, alpha):
    """Heat on a plate by Peaceman & Rachford, with an edge held warm."""
    n = T.shape[0]
    L = np.diag(-2 * np.ones(n)) + np.diag(np.ones(n - 1), 1) + np.diag(np.ones(n - 1), -1)
    A, B = np.eye(n) - 0.5 * alpha * L, np.eye(n) + 0.5 * alpha * L
    half = np.linalg.solve(A, T @ B)
    new = np.linalg.solve(A, (B @ half).T).T
    new[0, :] = 1.0
    return new


def red_and_black(k, state, omega):
    """A sweep of successive over-relaxation for Poisson's equation, row by row."""
    p, f = state
    for parity in (0, 1):
        for i in range(1, p.shape[0] - 1):
            j = 1 + (i + parity) % 2
            around = p[i + 1, j:-1:2] + p[i - 1, j:-1:2] + p[i, j + 1 :: 2] + p[i, j - 1 : -2 : 2]
            p[i, j:-1:2] += omega * 0.25 * (around - 4 * p[i, j:-1:2] - f[i, j:-1:2])
    return p, f


# --- particles and bodies -----------------------------------------------------------------------------------------------------


def granular(k, state, stiffness):
    """Discs with springs and dashpots where they touch, pair by pair, on a floor."""
    pos, vel = state
    n = len(pos)
    force = np.zeros_like(pos)
    force[:, 1] -= 9.81
    for i in range(n):
        for j in range(i + 1, n):
            d = pos[j] - pos[i]
            distance = np.sqrt(d @ d)
            overlap = 0.6 - distance
            if overlap > 0:
                normal = d / distance
                approach = (vel[j] - vel[i]) @ normal
                push = (stiffness * overlap - 0.5 * approach) * normal
                force[i] -= push
                force[j] += push
    below = pos[:, 1] < 0
    force[below, 1] += 200.0 * (-pos[below, 1])
    vel += 0.005 * force
    pos += 0.005 * vel
    return pos, vel


def smoothed_particles(k, state, width):
    """Particles on a line with the cubic spline as their kernel."""
    x, v = state
    q = np.abs(x[:, None] - x[None, :]) / width
    W = np.zeros_like(q)
    near, far = q < 1, (q >= 1) & (q < 2)
    W[near] = 1 - 1.5 * q[near] ** 2 + 0.75 * q[near] ** 3
    W[far] = 0.25 * (2 - q[far]) ** 3
    density = W.sum(axis=1) / width
    v = 0.98 * v - 0.01 * np.gradient(0.01 * (density - 1.0))
    return x + 0.01 * v, v


def attitude(k, state, inertia):
    """A tumbling body: Euler's equations, and a quaternion that is turned by their angle."""
    q, w = state
    moments = np.array([1.0, 2.0, 3.0]) * inertia
    w = w + 0.01 * np.cross(moments * w, w) / moments
    speed = np.linalg.norm(w)
    if speed > 1e-12:
        turn = np.concatenate(([np.cos(0.005 * speed)], np.sin(0.005 * speed) * w / speed))
    else:
        turn = np.concatenate(([1.0], 0.0 * w))
    a, b, c, d = q
    q = np.stack([np.stack([a, -b, -c, -d]), np.stack([b, a, -d, c]), np.stack([c, d, a, -b]), np.stack([d, -c, b, a])]) @ turn
    return q / np.linalg.norm(q), w + 0.001 * q[1:] * inertia


# --- step control -------------------------------------------------------------------------------------------------------------


def line_search(k, x, steepness):
    """Steepest descent on Rosenbrock's function, by Armijo's rule."""

    def f(x):
        return np.sum(100 * steepness * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    g = np.zeros_like(x)
    g[:-1] += -400 * steepness * x[:-1] * (x[1:] - x[:-1] ** 2) - 2 * (1 - x[:-1])
    g[1:] += 200 * steepness * (x[1:] - x[:-1] ** 2)
    t = 0.01
    while f(x - t * g) > f(x) - 1e-4 * t * (g @ g):
        t *= 0.5
    return x - t * g


def backward_differences(k, state, mu):
    """Van der Pol's oscillator by BDF2, with Newton's method until it stands still."""
    y, old = state
    h = 0.02
    z = y.copy()
    turns = 0
    while True:
        slope = np.stack([z[1], mu * (1 - z[0] ** 2) * z[1] - z[0]])
        F = z - 4 / 3 * y + 1 / 3 * old - 2 / 3 * h * slope
        J = np.stack([np.stack([0.0 * z[0], 1.0 + 0.0 * z[0]]), np.stack([-2 * mu * z[0] * z[1] - 1, mu * (1 - z[0] ** 2)])])
        dz = np.linalg.solve(np.eye(2) - 2 / 3 * h * J, -F)
        z = z + dz
        turns += 1
        if np.linalg.norm(dz) < 1e-8 or turns >= 10:
            break
    return z, y


NODES = [0, 1 / 4, 3 / 8, 12 / 13, 1, 1 / 2]
TABLEAU = [
    [],
    [1 / 4],
    [3 / 32, 9 / 32],
    [1932 / 2197, -7200 / 2197, 7296 / 2197],
    [439 / 216, -8, 3680 / 513, -845 / 4104],
    [-8 / 27, 2, -3544 / 2565, 1859 / 4104, -11 / 40],
]
FOURTH = [25 / 216, 0, 1408 / 2565, 2197 / 4104, -1 / 5, 0]
FIFTH = [16 / 135, 0, 6656 / 12825, 28561 / 56430, -9 / 50, 2 / 55]


def fehlberg(k, state, mu):
    """A trial step of RKF45: it is taken if its error is small, and the next one has another length."""
    t, y, h = state
    slopes = []
    for c, row in zip(NODES, TABLEAU, strict=True):
        z = y + h * sum((a * slope for a, slope in zip(row, slopes, strict=True)), start=np.zeros(2))
        slopes.append(np.stack([z[1], mu * (1 - z[0] ** 2) * z[1] - z[0] + 0.1 * np.sin(t + c * h)]))
    error = h * np.linalg.norm(sum((b - a) * slope for a, b, slope in zip(FOURTH, FIFTH, slopes, strict=True)))
    factor = 0.9 * (1e-6 / (error + 1e-14)) ** 0.2
    if error <= 1e-6:
        t += h
        y = y + h * sum(b * slope for b, slope in zip(FIFTH, slopes, strict=True))
    h *= min(2.0, max(0.3, factor))
    return t, y, h


# --- indices, ranks, tables -----------------------------------------------------------------------------------------------------


def ranked(k, x, pace):
    """Numbers that move towards their ranks."""
    ranks = np.empty(len(x))
    ranks[np.argsort(x)] = np.linspace(0.0, 1.0, len(x))
    return x + 0.02 * pace * (ranks - x)


def equalised(k, x, pace):
    """Grey values, equalised by their histogram."""
    counts, edges = np.histogram(x, bins=8, range=(0.0, 2.0))
    shares = np.cumsum(counts) / len(x)
    return x + 0.02 * pace * (np.interp(x, edges[1:], shares) - x)


def hottest(k, T, pace):
    """A plate that is cooled where it is hottest."""
    i, j = np.unravel_index(np.argmax(T), T.shape)
    T = T + 0.05 * (np.roll(T, 1, 0) + np.roll(T, 1, 1) - 2.0 * T) + 0.01 * (1.0 - T)
    T[i, j] -= 0.2 * pace * T[i, j]
    return T


def shortest_paths(k, D, pace):
    """Floyd & Warshall: a node a step, while the lengths of the edges change."""
    i = k % len(D)
    return np.minimum(D, D[:, i : i + 1] + D[i : i + 1, :]) + 0.01 * pace * np.cos(D)


RAIN = np.cos(0.3 * np.arange(300.0)) ** 8
SEASONS = {0: 0.1, 1: 0.4, 2: 0.8, 3: 0.3}


def reservoirs(k, level, leak):
    """Reservoirs in a row, fed by what it rained in three days; the demand is that of the season."""
    out = leak * level * SEASONS[k // 8 % 4]
    level = level - 0.1 * out
    level[1:] += 0.1 * out[:-1]
    level[0] += 0.05 * np.mean(RAIN[k : k + 3])
    return level


POINTS = numbers(10, 2, seed=9)


def nearest_means(k, centres, pace):
    """Centres that move towards the means of the points that are nearest to them."""
    label = np.argmin(np.linalg.norm(POINTS[:, None] - centres, axis=-1), axis=1)
    means = [POINTS[label == j].mean(axis=0) if (label == j).any() else centre for j, centre in enumerate(centres)]
    return centres + 0.1 * pace * (np.array(means) - centres)


def resampled(k, state, spread):
    """A particle filter, which draws its particles anew when few of them weigh."""
    x, w = state
    x = 0.95 * x + 0.05 * np.sin(x + k)
    w = w * np.exp(-0.5 * ((x - 0.4) / spread) ** 2)
    w = w / np.sum(w)
    if 1.0 / np.sum(w**2) < 8.0:
        i = np.searchsorted(np.cumsum(w), (np.arange(16) + 0.5) / 16)
        x, w = x[np.minimum(i, 15)], np.full(16, 1.0 / 16)
    return x, w


# --- all of them ----------------------------------------------------------------------------------------------------------------

DISCS = np.array([[0.0, 0.1], [0.5, 0.2], [1.0, 0.1], [0.3, 0.7]])
WAVE = 1.5 + np.sin(2.0 * np.pi * np.arange(16) / 16)
AT_REST = np.array([2.0, 0.0])

METHODS = {
    "WENO": Program(weno, WAVE, (0.2,)),
    "superbee": Program(superbee, WAVE, (0.4,)),
    "alternating directions": Program(alternating_directions, numbers(4, 4), (0.3,), last_bits=SUMS),
    "red and black": Program(red_and_black, (numbers(6, 6), numbers(6, 6, seed=4) - 0.7), (1.2,)),
    "granular discs": Program(granular, (DISCS, np.zeros((4, 2))), (300.0,), last_bits=SUMS),
    "smoothed particles": Program(smoothed_particles, (np.sort(8.0 * numbers(8)), np.zeros(8)), (0.8,), last_bits=SUMS),
    "attitude": Program(attitude, (np.array([1.0, 0.0, 0.0, 0.0]), np.array([0.1, 2.0, 0.2])), (1.1,), last_bits=SUMS),
    "line search": Program(line_search, numbers(8), (0.1,), last_bits=SUMS),
    "BDF2 with Newton": Program(backward_differences, (AT_REST, AT_REST.copy()), (1.0,), last_bits=SUMS),
    "ranks": Program(ranked, numbers(16), (0.2,)),
    "histogram, equalised": Program(equalised, numbers(16), (0.2,)),
    "hottest cell": Program(hottest, numbers(4, 4), (0.3,)),
    "shortest paths": Program(shortest_paths, 5.0 * numbers(6, 6), (0.1,), last_bits=KERNELS),
    "reservoirs": Program(reservoirs, numbers(6), (0.2,)),
    "nearest means": Program(nearest_means, numbers(3, 2), (1.0,), last_bits=SUMS),
    "particle filter": Program(resampled, (numbers(16), np.ones(16) / 16), (0.3,), last_bits=SUMS),
    "Runge-Kutta-Fehlberg": Program(fehlberg, (0.0, AT_REST, 0.1), (1.0,), last_bits=POWERS),
}
