"""Forward mode: products of Duals, JVPs, K directions at once, scalar Python code."""

from __future__ import annotations

import sys

import numpy as np

from .functions import functions, loop, loop_gradient, points
from .harness import Case, Peer, Table, main

PRODUCT = Table("Product of two numbers, called as `lambda a, b: a * b`", unit="ns")
JVP = Table("One JVP", arrays=True)
LANES = Table("16 directions, n = 1000", arrays=True)
SCALAR = Table("Gradient of Rosenbrock's function written as a Python loop", unit="ms")
TABLES = [PRODUCT, JVP, LANES, SCALAR]

K = 16
SEEDS = ((1.5, 1.0), (2.5, 0.5))
FROM_ARRAY, FROM_LIST, REVERSE = "of an array", "of a list of floats", "of an array, in reverse mode"


# --- the functions ----------------------------------------------------------------------------------------------------------


multiply = lambda a, b: a * b  # called as the title says


def lengths(quick):
    return (10, 1000) if quick else (10, 1000, 100_000)


def length_scalar(quick):
    return 20 if quick else 100


def directions(n):
    return np.cos(np.arange(K)[:, None] + np.arange(n))


def primals(quick):
    yield PRODUCT.title, "product", Case(multiply, tuple(value for value, _ in SEEDS))
    for name, f in functions(np).items():
        for n in lengths(quick):
            yield JVP.title, f"{name}, n = {n}", Case(f, points(n)[:1])
        yield LANES.title, name, Case(f, points(1000)[:1])
    x, _ = points(length_scalar(quick))
    for row in (FROM_ARRAY, FROM_LIST, REVERSE):
        yield SCALAR.title, row, Case(loop, (x.tolist(),))


# --- peers ------------------------------------------------------------------------------------------------------------------


def products(quick, np, jvp, push=None, prepare=lambda array: array, answers=(lambda result: result,) * 2):
    """Yield the JVPs of a tool in NumPy code of the namespace `np`, and with ``push(f, x, tangents)`` those along many directions."""
    for name, f in functions(np).items():
        for n in lengths(quick):
            yield JVP.title, f"{name}, n = {n}", Case(jvp, (f, *map(prepare, points(n))), answers[0])
        if push is not None:
            yield LANES.title, name, Case(push, (f, prepare(points(1000)[0]), prepare(directions(1000))), answers[1])


def by_hand(quick):
    """Tangents written out in NumPy: what an optimal tool could reach without fusing loops."""
    yield PRODUCT.title, "product", Case(product_tangent, (*SEEDS[0], *SEEDS[1]))
    for name, tangent in (("Rosenbrock", rosenbrock_tangent), ("elementwise chain", chain_tangent)):
        for n in lengths(quick):
            yield JVP.title, f"{name}, n = {n}", Case(tangent, points(n))
        yield LANES.title, name, Case(tangent, (points(1000)[0], directions(1000)), answer=lambda out: out[1])
    x, _ = points(length_scalar(quick))
    for row in (FROM_ARRAY, FROM_LIST, REVERSE):
        yield SCALAR.title, row, Case(loop_gradient, (x.tolist(),))


def product_tangent(a, va, b, vb):
    return a * b, va * b + a * vb


def rosenbrock_tangent(x, v):
    """Value and tangent; `v` may have a leading axis of directions."""
    a, b, va, vb = x[:-1], x[1:], v[..., :-1], v[..., 1:]
    apart, rest = b - a**2, 1 - a
    return np.sum(100.0 * apart**2 + rest**2), np.sum(200.0 * apart * (vb - 2.0 * a * va) - 2.0 * rest * va, axis=-1)


def chain_tangent(x, v):
    e, s, r = np.exp(-0.5 * x), np.sin(x), np.sqrt(1.0 + x * x)
    out = np.tanh(s * e + r)
    return np.sum(out), np.sum((1.0 - out**2) * (np.cos(x) * e - 0.5 * s * e + x / r) * v, axis=-1)


def dualad(quick):
    from checkpoint import grad
    from dualad import gradient, jvp
    from dualad.core.levels import Level
    from dualad.forward.dual import make_dual

    def push(f, x, tangents):
        with Level(len(tangents)) as level:
            return f(make_dual(x, tangents, level)).tangent

    level = Level()
    pair = [make_dual(value, tangent, level) for value, tangent in SEEDS]
    yield PRODUCT.title, "product", Case(multiply, tuple(pair), answer=lambda out: (out.primal, out.tangent))
    yield from products(quick, np, lambda f, x, v: jvp(f, (x,), (v,)), push)
    x, _ = points(length_scalar(quick))
    yield SCALAR.title, FROM_ARRAY, Case(gradient(loop), (x,))
    yield SCALAR.title, FROM_LIST, Case(gradient(loop), (x.tolist(),))
    yield SCALAR.title, REVERSE, Case(grad(loop), (x,))


def autograd(quick):
    import autograd.numpy as anp
    from autograd import grad, make_jvp

    def jvp(f, x, v):
        return make_jvp(f)(x)(v)

    def push(f, x, vs):
        return np.stack([make_jvp(f)(x)(v)[1] for v in vs], axis=-1)

    yield from products(quick, anp, jvp, push)
    x, _ = points(length_scalar(quick))
    yield SCALAR.title, FROM_ARRAY, Case(push, (loop, x, np.eye(len(x))))
    yield SCALAR.title, REVERSE, Case(grad(loop), (x,))


def dualpy(quick):
    import dualpy

    def push(f, x, vs):
        return np.stack([dualpy.jvp(f, x, v)[1] for v in vs])

    pair = [dualpy.core.dual.DualArray(np.array(value), np.array(tangent)) for value, tangent in SEEDS]
    yield PRODUCT.title, "product", Case(multiply, tuple(pair), answer=lambda out: (out.primal, out.tangent))
    yield from products(quick, np, dualpy.jvp, push)
    x, _ = points(length_scalar(quick))
    yield SCALAR.title, FROM_ARRAY, Case(dualpy.gradient(loop), (x,))


def fastdual(quick):
    """Numbers with sparse lists of partials, in C; a JVP is one seed through every number of the array."""
    from fastdual import Dual, DualArray, der, reset

    def jvp(f, x, v):
        reset()
        t = Dual(0.0)
        seeded = np.empty(len(x), object)
        seeded[:] = [a + t * b for a, b in zip(x.tolist(), v.tolist(), strict=True)]
        out = f(DualArray(seeded))
        return out.val, out.der(t)

    def gradient(f, x):
        reset()
        seeds = [Dual(number) for number in x]
        out = f(seeds)
        return [der(out, seed) for seed in seeds]

    t = Dual(0.0)
    pair = [value + tangent * t for value, tangent in SEEDS]
    yield PRODUCT.title, "product", Case(multiply, tuple(pair), answer=lambda out: (out.val, out.der(t)))
    yield from products(quick, np, jvp)
    x, _ = points(length_scalar(quick))
    yield SCALAR.title, FROM_LIST, Case(gradient, (loop, x.tolist()))


def torch(quick):
    import torch
    from torch.func import grad, jacfwd, jvp, vmap

    torch.set_num_threads(1)

    def push(f, x, vs):
        return vmap(lambda v: jvp(f, (x,), (v,))[1])(vs)

    def numbers(out):
        return out.detach().numpy()

    answers = lambda out: [float(t) for t in out], numbers
    yield from products(quick, torch, lambda f, x, v: jvp(f, (x,), (v,)), push, torch.from_numpy, answers)
    x = torch.from_numpy(points(length_scalar(quick))[0])
    yield SCALAR.title, FROM_ARRAY, Case(jacfwd(loop), (x,), numbers)
    yield SCALAR.title, REVERSE, Case(grad(loop), (x,), numbers)


PEERS = {
    "by hand": Peer(by_hand),
    "dualad": Peer(dualad, ours=True),
    "autograd": Peer(autograd, "autograd"),
    "dualpy": Peer(dualpy, "dualpy"),
    "fastdual": Peer(fastdual, "fastdual"),
    "torch": Peer(torch, "torch"),
}

if __name__ == "__main__":
    sys.exit(main("forward", TABLES, primals, PEERS))
