"""SciPy's solvers with exact Jacobians against their own differences, and a Jacobian on two processes and on a cluster of dask."""

from __future__ import annotations

import atexit
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from multiprocessing import get_context
from time import sleep

import numpy as np

from dualad import jacobian, jit, value_and_jacobian

from .harness import Case, Peer, Table, main

COUNTS = "evaluations of f, and largest residual or error: differences / exact"
DENSE = Table(f"Dense Jacobians ({COUNTS})", unit="ms", rtol=1e-4)
SPARSE = Table(f"Sparse Jacobians, a pattern known to nobody ({COUNTS})", unit="ms", rtol=1e-4)
SHARED = Table("A Jacobian whose columns take a while, on two workers", unit="s")
TABLES = [DENSE, SPARSE, SHARED]


# --- the functions ----------------------------------------------------------------------------------------------------------


def broyden(x):
    """Broyden's tridiagonal function (Moré, Garbow & Hillstrom 1981, problem 30)."""
    y = (3.0 - 2.0 * x) * x + 1.0
    y[1:] -= x[:-1]
    y[:-1] -= 2.0 * x[1:]
    return y


def broyden_rate(t, x):
    return -10.0 * broyden(x)


def chained(x):
    """The residuals of the chained Rosenbrock function."""
    return np.concatenate([10.0 * (x[1:] - x[:-1] ** 2), 1.0 - x[:-1]])


def robertson(t, y):
    slow, fast = 0.04 * y[0] - 1e4 * y[1] * y[2], 3e7 * y[1] ** 2
    return np.stack([-slow, slow - fast, fast])


def front(t, u):
    """A reaction front, by finite differences on a line."""
    rate = u * (1.0 - u)
    flow = u.size**2 * 1e-3 * (u[1:] - u[:-1])
    rate[:-1] += flow
    rate[1:] -= flow
    return rate


def line(n):
    from scipy import sparse

    return sparse.diags_array([np.ones(n)] * 3, offsets=[-1, 0, 1], shape=(n, n))


class Counted:
    def __init__(self, f):
        self.f, self.calls = f, 0

    def __call__(self, *args):
        self.calls += 1
        return self.f(*args)


# --- solves: with the Jacobian that `jac` makes; they return the solution ----------------------------------


def differences(f, **options):
    return None


@cache
def exact(f, **options):
    return jacobian(f, **options)


@cache
def compiled(f, **options):
    """The Jacobian compiled; a sparse one over the compiled function."""
    return jacobian(jit(f), **options) if options.get("sparsity") else jit(jacobian(f, **options))


def grouped(f, **options):
    """What a person knows who gives SciPy the pattern."""
    return None


def fitted(jac, f, start):
    from scipy.optimize import least_squares

    if jac is exact:
        both = value_and_jacobian(f, cache=True)
        return least_squares(both.value, start, jac=both.jacobian).x
    return least_squares(f, start, jac=jac(f) or "2-point").x


def solved(jac, f, start):
    from scipy.optimize import root

    return root(f, start, jac=jac(f)).x


def integrated(jac, f, start, end, method, sparse, tolerance=1e-6):
    from scipy.integrate import solve_ivp

    known = {"jac_sparsity": line(start.size)} if jac is grouped else {"jac": jac(f, argnums=1, sparsity="auto" if sparse else None)}
    return solve_ivp(f, (0.0, end), start, method=method, rtol=tolerance, atol=1e-4 * tolerance, **known).y[:, -1]


def fitted_sparse(jac, f, start):
    from scipy.optimize import least_squares

    known = {"jac_sparsity": line(start.size)} if jac is grouped else {"jac": jac(f, sparsity="auto") or "2-point"}
    return least_squares(f, start, **known).x


def problems(quick):
    """Yield table, name, solver and function."""
    n, large = (10, 50) if quick else (100, 500)
    yield DENSE, "least_squares, chained Rosenbrock", partial(fitted, start=np.full(n, 0.9)), chained
    yield DENSE, "root, Broyden", partial(solved, start=-np.ones(n)), broyden
    yield DENSE, "solve_ivp, Robertson", partial(integrated, start=np.eye(3)[0], end=40.0, method="Radau", sparse=False), robertson
    relaxing = partial(integrated, start=-np.ones(n), end=1.0, method="BDF", sparse=False)
    yield DENSE, "solve_ivp, relaxation to Broyden's root", relaxing, broyden_rate
    yield SPARSE, "least_squares, Broyden", partial(fitted_sparse, start=-np.ones(large)), broyden
    hump = np.exp(-(np.linspace(0, 10, large) ** 2))
    for method in ("Radau", "BDF"):
        yield SPARSE, f"solve_ivp {method}, a front", partial(integrated, start=hump, end=4.0, method=method, sparse=True), front


def error_of(solve, f, found):
    """Return the largest residual of a solution; of an integrated one its largest difference from one of far smaller tolerance."""
    if solve.func is not integrated:
        return np.max(np.abs(f(found)))
    return np.max(np.abs(found - solve(exact, f, tolerance=1e-10)))


@cache
def named(quick):
    """Return table, row (with both numbers of evaluations, and both errors), solver and function."""
    rows = []
    for table, name, solve, f in problems(quick):
        counts, errors = [], []
        for jac in (differences, exact):
            counted = Counted(f)
            found = solve(jac, counted)
            counts.append(counted.calls)
            errors.append(error_of(solve, f, found))
        rows.append((table, f"{name} ({counts[0]} / {counts[1]}, {errors[0]:.0e} / {errors[1]:.0e})", solve, f))
    return rows


# --- processes --------------------------------------------------------------------------------------------------------------------


def heavy(x, turns=0):
    """A loop in Python, which holds its lock: more than a second for a column, with 15000 turns."""
    for _ in range(turns):
        x = np.sin(x) + 0.1 * np.tanh(x[::-1])
        for _ in range(20):
            x = x * 1.0001
    return x


def shared(quick, executor=None):
    return partial(jacobian(partial(heavy, turns=2 if quick else 15_000), chunk=1, executor=executor), np.linspace(0.1, 1.0, 4))


def on_two(quick):
    pool = ProcessPoolExecutor(2, get_context("forkserver"))
    atexit.register(pool.shutdown)
    list(pool.map(sleep, [0.1] * 4))  # both have begun
    yield SHARED.title, "4 columns", Case(shared(quick, pool))


def on_cluster(quick):
    import dask
    import distributed

    dask.config.set({"distributed.worker.profile.enabled": False})
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None, "silence_logs": 50}
    cluster = distributed.LocalCluster(host="127.0.0.1", **options)
    client = distributed.Client(cluster)
    for end in (cluster.close, client.close):  # the client first
        atexit.register(end)
    client.wait_for_workers(2)
    executor = client.get_executor()
    list(executor.map(sleep, [0.1] * 4))
    yield SHARED.title, "4 columns", Case(shared(quick, executor))


# --- peers ------------------------------------------------------------------------------------------------------------------------


def primals(quick):
    """SciPy's own differences, and one process."""
    yield from by(differences)(quick)
    yield SHARED.title, "4 columns", Case(shared(quick))


def alone(jac):
    """The Jacobians of a solve without the solver: what is left of its time is the solver's own."""

    def build(quick):
        for table, row, solve, f in named(quick):
            made = []

            def kept(f, made=made, **options):
                jacobian = jac(f, **options)

                def noted(*args):
                    made.append((jacobian, args))
                    return jacobian(*args)

                return noted

            solution = solve(kept, f)
            again = lambda made=made: [jacobian(*args) for jacobian, args in made]
            yield table.title, row, Case(again, (), lambda _, solution=solution: solution)

    return build


def by(jac, tables=(DENSE, SPARSE)):
    def build(quick):
        for table, row, solve, f in named(quick):
            if table in tables:
                case = Case(partial(solve, jac, f))
                case.f()  # patterns and machine code are made once
                yield table.title, row, case

    return build


PEERS = {
    "jac_sparsity=": Peer(by(grouped, [SPARSE]), "scipy"),
    "jac=": Peer(by(exact), "scipy", ours=True),
    "compiled jac=": Peer(by(compiled), "llvmlite", ours=True),
    "its Jacobians alone": Peer(alone(exact), "scipy", ours=True),
    "its compiled Jacobians alone": Peer(alone(compiled), "llvmlite", ours=True),
    "two processes": Peer(on_two, ours=True),
    "two workers of dask": Peer(on_cluster, "distributed", ours=True),
}

if __name__ == "__main__":
    sys.exit(main("solvers", TABLES, primals, PEERS))
