"""Sparse Jacobians: detection, colouring, compressed evaluation, and their share of a Newton step; dense ones."""

from __future__ import annotations

import sys
from functools import partial

import numpy as np

from .harness import Case, Peer, Table, main

COLORED = Table("Sparse Jacobian, pattern and colouring known", arrays=True, rtol=1e-5)  # the differences of SciPy are not exact
ONCE = Table("Once for each function: its pattern, and the colouring", unit="ms")
NEWTON = Table("A Newton step of Bratu's equation", unit="ms")
DENSE = Table("Dense Jacobian", unit="ms", arrays=True)
TABLES = [COLORED, ONCE, NEWTON, DENSE]

BURGERS, LARGE, GRID = "Burgers", "tridiagonal", "Bratu"


# --- the functions ----------------------------------------------------------------------------------------------------------


def burgers(u, np=np):
    """Residual of Burgers' equation with given ends, central differences."""
    h = 1.0 / (len(u) - 1)
    inner = u[1:-1] * (u[2:] - u[:-2]) / (2 * h) - 0.01 * (u[2:] - 2 * u[1:-1] + u[:-2]) / h**2
    return np.concatenate([u[:1], inner, u[-1:]])


def burgers_in_place(u):
    """The same, written into an array."""
    h, r = 1.0 / (len(u) - 1), np.zeros_like(u)
    r[0], r[-1] = u[0], u[-1]
    r[1:-1] = u[1:-1] * (u[2:] - u[:-2]) / (2 * h) - 0.01 * (u[2:] - 2 * u[1:-1] + u[:-2]) / h**2
    return r


def layer(matrix, x, np=np):
    """A layer of a network."""
    return np.tanh(matrix @ x)


def bratu(u, np=np):
    """Residual of Bratu's equation on a square, five-point scheme."""
    h, around = 1.0 / (u.shape[0] + 1), np.pad(u, 1)
    return around[2:, 1:-1] + around[:-2, 1:-1] + around[1:-1, 2:] + around[1:-1, :-2] - 4.0 * u + h**2 * 5.0 * np.exp(u)


def problems(quick):
    """Yield the name, the function and its argument."""
    n, large, cells = (30, 100, 12) if quick else (1000, 100_000, 512)
    yield f"{BURGERS}, n = {n}", burgers, np.sin(np.linspace(0.0, 6.0, n))
    yield f"{LARGE}, n = {large}", burgers, np.sin(np.linspace(0.0, 6.0, large))
    axis = np.linspace(0.0, 1.0, cells + 2)[1:-1]
    yield f"{GRID}, {cells} x {cells}", bratu, np.outer(axis * (1 - axis), axis * (1 - axis))


def dense_problems(quick):
    """Yield the name, the function, its argument, and the Jacobian by hand."""
    n, sizes = (20, (30,)) if quick else (400, (200, 1000))
    matrix = np.sin(np.arange(n * n)).reshape(n, n) / n**0.5
    x = np.linspace(0.0, 1.0, n)
    yield f"tanh(M @ x), n = {n}", partial(layer, matrix), x, lambda x: (1.0 - np.tanh(matrix @ x) ** 2)[:, None] * matrix
    for n in sizes:
        for name, f in ((BURGERS, burgers), (f"{BURGERS} in place", burgers_in_place)):
            yield f"{name}, n = {n}", f, np.sin(np.linspace(0.0, 6.0, n)), lambda x: burgers_tangents(x, np.eye(len(x))).T


def patterns(quick):
    """Yield the same, with patterns made by hand."""
    from scipy import sparse

    for name, f, x in problems(quick):
        n = len(x)
        line = sparse.diags_array([1.0, 1.0, 1.0], offsets=[-1, 0, 1], shape=(n, n))
        if x.ndim == 2:
            eye = sparse.eye_array(n)
            pattern = sparse.kron(line, eye) + sparse.kron(eye, line)
        else:
            pattern = line.tolil()
            pattern[0, 1] = pattern[-1, -2] = 0.0
        yield name, f, x, sparse.csr_array(pattern)


def groups(x):
    """Return the colours of the columns that a person would choose."""
    if x.ndim == 1:
        return np.arange(x.size) % 3
    return ((np.arange(len(x))[:, None] + 2 * np.arange(len(x))) % 5).ravel()


def entries(jacobian):
    """Return the stored entries, rows one after the other, columns in order."""
    matrix = jacobian.tocsr()
    matrix.sort_indices()
    return matrix.data


class Recovery:
    """The entries of a pattern in the products of a Jacobian with directions, one for each colour."""

    def __init__(self, x, pattern):
        colors = groups(x)
        self.seeds = (colors == np.arange(colors.max() + 1)[:, None]).astype(float).reshape(-1, *x.shape)
        rows = np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))
        self.places = colors[pattern.indices] * pattern.shape[0] + rows
        self.pattern = pattern

    def matrix(self, products):
        """Return the Jacobian."""
        from scipy.sparse import csr_array

        return csr_array((products.ravel()[self.places], self.pattern.indices, self.pattern.indptr), shape=self.pattern.shape)


def primals(quick):
    for name, f, x in problems(quick):
        for row in (name, f"{name}: f alone, compiled"):
            yield COLORED.title, row, Case(f, (x,))
        for row in (f"{name}: pattern", f"{name}: colouring"):
            yield ONCE.title, row, Case(f, (x,))
        if f is bratu:
            for row in ("Jacobian", "compiled Jacobian", "sparse solve"):
                yield NEWTON.title, row, Case(f, (x,))
    for name, f, x, _ in dense_problems(quick):
        yield DENSE.title, name, Case(f, (x,))


# --- peers ------------------------------------------------------------------------------------------------------------------


def by_hand(quick):
    """Tangents written out in NumPy."""
    for name, f, x, pattern in patterns(quick):
        known = Recovery(x, pattern)
        push = burgers_tangents if f is burgers else bratu_tangents
        yield COLORED.title, name, Case(lambda x, known=known, push=push: known.matrix(push(x, known.seeds)), (x,), entries)

    for name, _, x, dense in dense_problems(quick):
        yield DENSE.title, name, Case(dense, (x,))


def burgers_tangents(u, v):
    h = 1.0 / (len(u) - 1)
    middle = v[:, 1:-1]
    inner = (middle * (u[2:] - u[:-2]) + u[1:-1] * (v[:, 2:] - v[:, :-2])) / (2 * h) - 0.01 * (v[:, 2:] - 2 * middle + v[:, :-2]) / h**2
    return np.concatenate([v[:, :1], inner, v[:, -1:]], axis=1)


def bratu_tangents(u, v):
    h, a = 1.0 / (u.shape[0] + 1), np.pad(v, [(0, 0), (1, 1), (1, 1)])
    return a[:, 2:, 1:-1] + a[:, :-2, 1:-1] + a[:, 1:-1, 2:] + a[:, 1:-1, :-2] - 4.0 * v + h**2 * 5.0 * np.exp(u) * v


def dualad(quick):
    from scipy.sparse.linalg import splu

    from dualad import coloring, jacobian, jit, sparsity

    for name, f, x in problems(quick):
        pattern = sparsity(f, x)
        colors = coloring(pattern, order="smallest_last" if f is bratu else None)
        jac, compiled = jacobian(f, sparsity=colors), jacobian(jit(f), sparsity=colors)
        yield COLORED.title, name, Case(jac, (x,), entries)
        yield ONCE.title, f"{name}: pattern", Case(sparsity, (f, x), lambda found: found.nnz)
        yield ONCE.title, f"{name}: colouring", Case(coloring, (pattern,), lambda found: found.lower_bound)
        if f is bratu:
            matrix, right = jac(x).tocsc(), f(x).ravel()
            yield NEWTON.title, "Jacobian", Case(jac, (x,), entries)
            yield NEWTON.title, "compiled Jacobian", Case(compiled, (x,), entries)
            yield NEWTON.title, "sparse solve", Case(lambda matrix=matrix, right=right: splu(matrix, "MMD_AT_PLUS_A").solve(right))
    for name, f, x, _ in dense_problems(quick):
        yield DENSE.title, name, Case(jacobian(f), (x,))


def dualad_columns(quick):
    """Dense Jacobians, one column at a time."""
    from dualad import jacobian

    for name, f, x, _ in dense_problems(quick):
        yield DENSE.title, name, Case(jacobian(f, chunk=1), (x,))


def dualad_compiled(quick):
    from dualad import coloring, jacobian, jit, sparsity

    for name, f, x in problems(quick):
        colors = coloring(sparsity(f, x), order="smallest_last" if f is bratu else None)
        yield COLORED.title, name, Case(jacobian(jit(f), sparsity=colors), (x,), entries)
        yield COLORED.title, f"{name}: f alone, compiled", Case(jit(f), (x,))
    for name, f, x, _ in dense_problems(quick):
        yield DENSE.title, name, Case(jit(jacobian(f)), (x,))


def dualad_filled(quick):
    """The same, into the data of a matrix at hand."""
    from dualad import coloring, jacobian, jit, sparsity

    for name, f, x in problems(quick):
        jac = jacobian(jit(f), sparsity=coloring(sparsity(f, x), order="smallest_last" if f is bratu else None))
        yield COLORED.title, name, Case(partial(jac.fill, jac(x)), (x,), entries)


def scipy(quick):
    """Differences, in groups of columns."""
    from scipy.optimize._numdiff import approx_derivative

    for name, f, x, pattern in patterns(quick):
        sparsity = pattern, groups(x)

        def differences(x, f=f, sparsity=sparsity, shape=x.shape):
            return approx_derivative(lambda x: f(x.reshape(shape)).ravel(), x.ravel(), method="3-point", sparsity=sparsity)

        yield COLORED.title, name, Case(differences, (x,), entries)


def autograd(quick):
    import autograd.numpy as anp
    from autograd import make_jvp

    for name, f, x, pattern in patterns(quick):
        if f is burgers:  # np.pad has no JVP there
            known = Recovery(x, pattern)

            def push(x, f=f, known=known):
                jvp = make_jvp(lambda x: f(x, anp))(x)
                return known.matrix(np.stack([jvp(v)[1] for v in known.seeds]))

            yield COLORED.title, name, Case(push, (x,), entries)


def jax(quick):
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    for name, f, x, pattern in patterns(quick):
        known = Recovery(x, pattern)
        seeds, places = jnp.asarray(known.seeds), jnp.asarray(known.places)

        @jax.jit
        def data(x, f=f, seeds=seeds, places=places):
            push = lambda v: jax.jvp(lambda x: f(x, jnp), (x,), (v,))[1]
            return jax.vmap(push)(seeds).ravel()[places]

        yield COLORED.title, name, Case(lambda x, data=data: data(x).block_until_ready(), (jnp.asarray(x),), np.asarray)
    for name, f, x, _ in dense_problems(quick):
        if f is not burgers_in_place:
            dense = jax.jit(jax.jacfwd(partial(f, np=jnp)))
            yield DENSE.title, name, Case(lambda x, dense=dense: dense(x).block_until_ready(), (jnp.asarray(x),), np.asarray)


def casadi(quick):
    import casadi

    for name, f, x, _ in patterns(quick):
        if f is burgers and len(x) <= 1000:
            u, n = casadi.SX.sym("u", len(x)), len(x)
            h = 1.0 / (n - 1)
            inner = u[1:-1] * (u[2:] - u[:-2]) / (2 * h) - 0.01 * (u[2:] - 2 * u[1:-1] + u[:-2]) / h**2
            jac = casadi.Function("sparse_jacobian", [u], [casadi.jacobian(casadi.vertcat(u[:1], inner, u[-1:]), u)])
            yield COLORED.title, name, Case(jac, (x,), lambda found: entries(found.sparse()))


PEERS = {
    "by hand": Peer(by_hand),
    "dualad": Peer(dualad, ours=True),
    "one column at a time": Peer(dualad_columns, ours=True),
    "dualad.jit": Peer(dualad_compiled, "llvmlite", ours=True),
    "dualad.jit filling": Peer(dualad_filled, "llvmlite", ours=True),
    "SciPy differences": Peer(scipy, "scipy"),
    "autograd": Peer(autograd, "autograd"),
    "JAX": Peer(jax, "jax"),
    "CasADi": Peer(casadi, "casadi"),
}

if __name__ == "__main__":
    sys.exit(main("jacobians", TABLES, primals, PEERS))
