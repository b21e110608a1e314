"""What a call costs: compiled functions that compute next to nothing, called with numbers, arrays, pytrees and names."""

from __future__ import annotations

import sys

import numpy as np

from .functions import rosenbrock
from .harness import Case, Peer, Table, main

CALLS = Table("A call of a compiled function", versus=("jax", "dualad.jit"))
DERIVED = Table("Derivatives of Rosenbrock's function, n = 10", versus=("dualad", "dualad.jit"))
X = np.linspace(-1.0, 1.0, 10)


def square(x):
    return x * x + 3.0 * x


def scaled(x, c):
    return x * c


def tree(d):
    return {"out": d["a"] * d["b"][0] + d["b"][1]}


ROWS = {
    "a float": (square, (1.5,), {}),
    "a np.float64": (square, (np.float64(1.5),), {}),
    "an array, n = 10": (square, (X,), {}),
    "two arrays": (scaled, (X, X), {}),
    "by name": (scaled, (X,), {"c": X}),
    "a dict of a tuple": (tree, ({"a": X, "b": (2.0, X)},), {}),
}


def primals(quick):
    for row, (f, args, kwargs) in ROWS.items():
        yield CALLS.title, row, Case(with_names(f, kwargs), args, first)
    for row in ("jit(grad(f))", "grad(jit(f))", "jit of a JVP", "JVP of jit(f)"):
        yield DERIVED.title, row, Case(rosenbrock, (X,))


def with_names(f, kwargs):
    return (lambda *args: f(*args, **kwargs)) if kwargs else f


def first(out):
    return np.asarray(out["out"] if isinstance(out, dict) else out)


def derivatives(jit):
    from checkpoint import grad
    from dualad import jvp

    inner = jit(rosenbrock)
    yield DERIVED.title, "jit(grad(f))", Case(jit(grad(rosenbrock)), (X,))
    yield DERIVED.title, "grad(jit(f))", Case(grad(inner), (X,))
    yield DERIVED.title, "jit of a JVP", Case(jit(lambda x, v: jvp(rosenbrock, (x,), (v,))[1]), (X, X))
    yield DERIVED.title, "JVP of jit(f)", Case(lambda x, v: jvp(inner, (x,), (v,))[1], (X, X))


def eager(quick):
    yield from derivatives(lambda f: f)


def compiled(backend):
    def cases(quick):
        from dualad import jit

        for row, (f, args, kwargs) in ROWS.items():
            yield CALLS.title, row, Case(with_names(jit(f, backend=backend), kwargs), args, first)
        yield from derivatives(lambda f: jit(f, backend=backend))

    return cases


def jax(quick):
    import jax

    jax.config.update("jax_enable_x64", True)
    for row, (f, args, kwargs) in ROWS.items():
        args, kwargs = jax.tree.map(jax.numpy.asarray, (args, kwargs))
        run = jax.jit(f)
        yield CALLS.title, row, Case(lambda *args, run=run, kwargs=kwargs: jax.block_until_ready(run(*args, **kwargs)), args, first)


PEERS = {
    "dualad": Peer(eager, ours=True),
    "dualad.jit": Peer(compiled("llvm"), "llvmlite", ours=True),
    "jit, NumPy's backend": Peer(compiled("numpy"), ours=True),
    "jax": Peer(jax, "jax"),
}

if __name__ == "__main__":
    sys.exit(main("calls", [CALLS, DERIVED], primals, PEERS))
