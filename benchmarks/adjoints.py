"""Adjoints of whole chains as one writes them by hand for numba."""

from __future__ import annotations

import numpy as np
from numba import njit

from checkpoint import Revolve, StoreAll, sweep

from .functions import DU, DV

FAST = {"error_model": "numpy", "fastmath": {"reassoc", "nsz", "contract"}}


# --- Lorenz-63 ----------------------------------------------------------------------------------------------------------------


@njit(**FAST)
def slope(x, y, z, s, r, b):
    return s * (y - x), x * (r - z) - y, x * y - b * z


@njit(**FAST)
def slope_back(x, y, z, s, r, b, u, v, w):
    return -s * u + (r - z) * v + y * w, s * u - v + x * w, -x * v - b * w, (y - x) * u, x * v, -z * w


@njit(**FAST)
def step(x, y, z, s, r, b, h):
    a1, b1, c1 = slope(x, y, z, s, r, b)
    a2, b2, c2 = slope(x + 0.5 * h * a1, y + 0.5 * h * b1, z + 0.5 * h * c1, s, r, b)
    a3, b3, c3 = slope(x + 0.5 * h * a2, y + 0.5 * h * b2, z + 0.5 * h * c2, s, r, b)
    a4, b4, c4 = slope(x + h * a3, y + h * b3, z + h * c3, s, r, b)
    w = h / 6.0
    return x + w * (a1 + 2 * a2 + 2 * a3 + a4), y + w * (b1 + 2 * b2 + 2 * b3 + b4), z + w * (c1 + 2 * c2 + 2 * c3 + c4)


@njit(**FAST)
def step_back(x, y, z, s, r, b, h, gx, gy, gz):
    a1, b1, c1 = slope(x, y, z, s, r, b)
    x2, y2, z2 = x + 0.5 * h * a1, y + 0.5 * h * b1, z + 0.5 * h * c1
    a2, b2, c2 = slope(x2, y2, z2, s, r, b)
    x3, y3, z3 = x + 0.5 * h * a2, y + 0.5 * h * b2, z + 0.5 * h * c2
    a3, b3, c3 = slope(x3, y3, z3, s, r, b)
    w = h / 6.0
    u4, v4, w4, s4, r4, q4 = slope_back(x + h * a3, y + h * b3, z + h * c3, s, r, b, w * gx, w * gy, w * gz)
    u3, v3, w3, s3, r3, q3 = slope_back(x3, y3, z3, s, r, b, 2 * w * gx + h * u4, 2 * w * gy + h * v4, 2 * w * gz + h * w4)
    k = 0.5 * h
    u2, v2, w2, s2, r2, q2 = slope_back(x2, y2, z2, s, r, b, 2 * w * gx + k * u3, 2 * w * gy + k * v3, 2 * w * gz + k * w3)
    u1, v1, w1, s1, r1, q1 = slope_back(x, y, z, s, r, b, w * gx + k * u2, w * gy + k * v2, w * gz + k * w2)
    shares = s1 + s2 + s3 + s4, r1 + r2 + r3 + r4, q1 + q2 + q3 + q4
    return gx + u1 + u2 + u3 + u4, gy + v1 + v2 + v3 + v4, gz + w1 + w2 + w3 + w4, *shares


@njit(**FAST)
def advance(state, p, h, n):
    x, y, z = state
    for _ in range(n):
        x, y, z = step(x, y, z, p[0], p[1], p[2], h)
    return x, y, z


@njit(**FAST)
def pull(state, p, h, n, held, g, sums):
    x, y, z = state
    for j in range(n):
        held[j, 0], held[j, 1], held[j, 2] = x, y, z
        if j < n - 1:
            x, y, z = step(x, y, z, p[0], p[1], p[2], h)
    gx, gy, gz = g
    a, b, c = sums
    for j in range(n - 1, -1, -1):
        gx, gy, gz, u, v, w = step_back(held[j, 0], held[j, 1], held[j, 2], p[0], p[1], p[2], h, gx, gy, gz)
        a, b, c = a + u, b + v, c + w
    return (gx, gy, gz), (a, b, c)


def lorenz_adjoint(steps, block, slots):
    """Return the gradient of x^2 + y + z after so many steps, in blocks; `slots` saved states, or all where it is None."""
    count, h, held = -(-steps // block), 2.0 / steps, np.empty((block, 3))

    def gradient(x, y, z, *p):
        length = lambda k: min((k + 1) * block, steps) - k * block
        by_state, by_parameters = sweep.reverse(
            lambda k, state: advance(state, p, h, length(k)),
            lambda k, state, g: pull(state, p, h, length(k), held, *g),
            (x, y, z),
            lambda last: ((2.0 * last[0], 1.0, 1.0), (0.0, 0.0, 0.0)),
            steps=count,
            schedule=StoreAll() if slots is None else Revolve(slots),
        ).cotangent
        return *by_state, *by_parameters

    return gradient


# --- Gray-Scott ---------------------------------------------------------------------------------------------------------------


@njit(**FAST)
def react(u, v, a, b, F, K, DU, DV):
    n, m = u.shape
    for i in range(n):
        up, down = (i - 1 if i > 0 else n - 1), (i + 1 if i < n - 1 else 0)
        u0, um, up_, v0, vm, vp, a0, b0 = u[i], u[up], u[down], v[i], v[up], v[down], a[i], b[i]
        for j in (0, m - 1):
            left, right = (j - 1 if j > 0 else m - 1), (j + 1 if j < m - 1 else 0)
            x, y = u0[j], v0[j]
            r = x * y * y
            a0[j] = x + DU * (um[j] + up_[j] + u0[left] + u0[right] - 4 * x) - r + F * (1 - x)
            b0[j] = y + DV * (vm[j] + vp[j] + v0[left] + v0[right] - 4 * y) + r - (F + K) * y
        uc, ul, ur, umc, upc = u0[1 : m - 1], u0[0 : m - 2], u0[2:m], um[1 : m - 1], up_[1 : m - 1]
        vc, vl, vr, vmc, vpc = v0[1 : m - 1], v0[0 : m - 2], v0[2:m], vm[1 : m - 1], vp[1 : m - 1]
        ac, bc = a0[1 : m - 1], b0[1 : m - 1]
        for j in range(m - 2):
            x, y = uc[j], vc[j]
            r = x * y * y
            ac[j] = x + DU * (umc[j] + upc[j] + ul[j] + ur[j] - 4 * x) - r + F * (1 - x)
            bc[j] = y + DV * (vmc[j] + vpc[j] + vl[j] + vr[j] - 4 * y) + r - (F + K) * y


@njit(**FAST)
def react_back(u, v, g, h, a, b, F, K, DU, DV):
    n, m = u.shape
    by_f, by_k = 0.0, 0.0
    for i in range(n):
        up, down = (i - 1 if i > 0 else n - 1), (i + 1 if i < n - 1 else 0)
        u0, v0, g0, gm, gp, h0, hm, hp, a0, b0 = u[i], v[i], g[i], g[up], g[down], h[i], h[up], h[down], a[i], b[i]
        for j in (0, m - 1):
            left, right = (j - 1 if j > 0 else m - 1), (j + 1 if j < m - 1 else 0)
            x, y, s, t = u0[j], v0[j], g0[j], h0[j]
            a0[j] = s * (1 - F) + DU * (gm[j] + gp[j] + g0[left] + g0[right] - 4 * s) + y * y * (t - s)
            b0[j] = t * (1 - F - K) + DV * (hm[j] + hp[j] + h0[left] + h0[right] - 4 * t) + 2 * x * y * (t - s)
            by_f += s * (1 - x) - t * y
            by_k -= t * y
        uc, vc, gc, gl, gr, gmc, gpc = u0[1 : m - 1], v0[1 : m - 1], g0[1 : m - 1], g0[0 : m - 2], g0[2:m], gm[1 : m - 1], gp[1 : m - 1]
        hc, hl, hr, hmc, hpc = h0[1 : m - 1], h0[0 : m - 2], h0[2:m], hm[1 : m - 1], hp[1 : m - 1]
        ac, bc = a0[1 : m - 1], b0[1 : m - 1]
        for j in range(m - 2):
            x, y, s, t = uc[j], vc[j], gc[j], hc[j]
            ac[j] = s * (1 - F) + DU * (gmc[j] + gpc[j] + gl[j] + gr[j] - 4 * s) + y * y * (t - s)
            bc[j] = t * (1 - F - K) + DV * (hmc[j] + hpc[j] + hl[j] + hr[j] - 4 * t) + 2 * x * y * (t - s)
            by_f += s * (1 - x) - t * y
            by_k -= t * y
    return by_f, by_k


def gray_scott_adjoint(steps, slots):
    """Return the gradient of sum(u^2) + sum(v) after so many steps, with so many saved states."""

    def gradient(u, v, feed, kill):
        def step(k, state):
            new = np.empty_like(u), np.empty_like(v)
            react(*state, *new, feed, kill, DU, DV)
            return new

        def pull(k, state, cotangent):
            gs, others, by_feed, by_kill = cotangent
            f, k = react_back(*state, *gs, *others, feed, kill, DU, DV)
            return others, gs, by_feed + f, by_kill + k

        seed = lambda last: ((2.0 * last[0], np.ones_like(v)), (np.empty_like(u), np.empty_like(v)), 0.0, 0.0)
        gs, _, *rates = sweep.reverse(step, pull, (u, v), seed, steps=steps, schedule=Revolve(slots)).cotangent
        return *gs, *rates

    return gradient
