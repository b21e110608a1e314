"""Reverse mode: eager gradients, and a table over the functions that NumPy code is made of."""

from __future__ import annotations

import sys

import numpy as np

from .functions import chain_gradient, functions, points, rosenbrock_gradient
from .harness import Case, Peer, Table, main

GRADIENT = Table("Gradient", arrays=True)
SIZES = {
    10: Table("Gradient of np.sum(f(x)), n = 10", versus=("autograd", "checkpoint")),
    100_000: Table("Gradient of np.sum(f(x)), n = 100000", versus=("autograd", "checkpoint"), rtol=1e-7),
}
TABLES = [GRADIENT, *SIZES.values()]


# --- common functions -------------------------------------------------------------------------------------------------------


def common(n, np):
    """Return functions of an array of n numbers between 0.5 and 1.5, in the namespace `np`.

    Those that only move numbers are weighted: the gradient of their sum would be all ones. Matrices are as square as n allows.
    """
    import numpy

    rows = 2 if n < 100 else 250
    side = int(n**0.5)
    y, w = numpy.linspace(1.5, 0.7, n), numpy.cos(numpy.arange(3 * n))
    order, mask = numpy.argsort(numpy.sin(numpy.arange(n))), y > 1.0
    matrix = lambda x: np.reshape(x, (rows, n // rows))
    square = lambda x: np.reshape(x[: side * side], (side, side)) + side * numpy.eye(side)
    other = numpy.sin(numpy.arange(n // rows * 20)).reshape(n // rows, 20)
    of_names = lambda names, *rest: {name: lambda x, name=name: getattr(np, name)(x, *rest) for name in names.split()}
    return {
        "x + y": lambda x: x + y,
        "x * y": lambda x: x * y,
        "x * x": lambda x: x * x,
        "x / y": lambda x: x / y,
        "y / x": lambda x: y / x,
        "x ** 2": lambda x: x**2,
        "x ** 1.5": lambda x: x**1.5,
        "negative": lambda x: -x,
        **of_names("sin cos tan exp log sqrt tanh arctan log1p expm1 abs square reciprocal"),
        **of_names("hypot arctan2 logaddexp maximum", y),
        "clip": lambda x: np.clip(x, 0.6, 1.2),
        "where": lambda x: np.where(mask, x, y),
        **of_names("sum mean var std"),
        "prod, axis=1": lambda x: np.prod(np.reshape(x, (-1, 10)), axis=1),
        **of_names("max"),
        "sum, axis=0": lambda x: np.sum(matrix(x), axis=0) ** 2,
        "cumsum": lambda x: np.cumsum(x),
        "diff": lambda x: np.diff(x) * w[: n - 1],
        "x[1:-1]": lambda x: x[1:-1] * w[: n - 2],
        "x[indices]": lambda x: x[order] * w[:n],
        "x[mask]": lambda x: x[mask],
        "reshape, transpose": lambda x: np.transpose(matrix(x)) * w[:n].reshape(n // rows, rows),
        "concatenate": lambda x: np.concatenate([x, y, x]) * w,
        "stack": lambda x: np.stack([x, y, x]) * w.reshape(3, n),
        "flip": lambda x: np.flip(x) * w[:n],
        "roll": lambda x: np.roll(x, 3) * w[:n],
        "repeat": lambda x: np.repeat(x, 3) * w,
        "tile": lambda x: np.tile(x, 3) * w,
        "pad": lambda x: np.pad(x, n, "constant") * w,
        "sort": lambda x: np.sort(x) * w[:n],
        "dot": lambda x: np.dot(x, y),
        "matmul": lambda x: matrix(x) @ other,
        "einsum": lambda x: np.einsum("ij,jk->ik", matrix(x), other),
        "outer": lambda x: np.outer(x[:300], y[:300]),
        "linalg.norm": lambda x: np.linalg.norm(x),
        "linalg.solve": lambda x: np.linalg.solve(square(x), y[:side]),
        "linalg.inv": lambda x: np.linalg.inv(square(x)),
        "linalg.det": lambda x: np.linalg.det(square(x) / side),
    }


def summed(f, np):
    return lambda x: np.sum(f(x))


def lengths(quick):
    return (10, 1000) if quick else (10, 1000, 100_000)


def sizes(quick):
    return [10] if quick else list(SIZES)


def primals(quick):
    for name, f in functions(np).items():
        for n in lengths(quick):
            yield GRADIENT.title, f"{name}, n = {n}", Case(f, points(n)[:1])
    for n in sizes(quick):
        for name, f in common(n, np).items():
            yield SIZES[n].title, name, Case(summed(f, np), points(n)[:1])


# --- peers ------------------------------------------------------------------------------------------------------------------


def by_hand(quick):
    """Gradients written out in NumPy."""
    for name, gradient in (("Rosenbrock", rosenbrock_gradient), ("elementwise chain", chain_gradient)):
        for n in lengths(quick):
            yield GRADIENT.title, f"{name}, n = {n}", Case(gradient, points(n)[:1])


def gradients(grad, np, quick, prepare=lambda x: x, many=True, answer=lambda g: g):
    """Return the cases of a tool whose ``grad(f)`` takes code of the namespace `np`; with `many` also those of common functions."""
    for name, f in functions(np).items():
        for n in lengths(quick):
            yield GRADIENT.title, f"{name}, n = {n}", Case(grad(f), (prepare(points(n)[0]),), answer)
    for n in sizes(quick) if many else ():
        for name, f in common(n, np).items():
            yield SIZES[n].title, name, Case(grad(summed(f, np)), points(n)[:1])


def checkpoint(quick):
    from checkpoint import grad

    yield from gradients(grad, np, quick)


def autograd(quick):
    import autograd.numpy
    from autograd import grad

    yield from gradients(grad, autograd.numpy, quick)


def torch(quick):
    import torch

    torch.set_num_threads(1)

    yield from gradients(
        lambda f: lambda x: torch.autograd.grad(f(x), x)[0],
        torch,
        quick,
        lambda x: torch.from_numpy(x).requires_grad_(),
        many=False,
        answer=lambda g: g.numpy(),
    )


PEERS = {
    "by hand": Peer(by_hand),
    "checkpoint": Peer(checkpoint, ours=True),
    "autograd": Peer(autograd, "autograd"),
    "torch": Peer(torch, "torch"),
}

if __name__ == "__main__":
    sys.exit(main("reverse", TABLES, primals, PEERS))
