"""Accuracy: derivatives of orders 1 and 2 by each differentiable argument against mpmath, beside those of JAX and autograd."""

from __future__ import annotations

import argparse
import importlib
import sys
import warnings
from collections.abc import Callable
from multiprocessing import Pool
from typing import NamedTuple

import numpy as np

from .accuracy_exact import alone, derivatives, kept
from .accuracy_grid import GRID, GROUPS
from .harness import markdown

#: the relative errors to reach; where NumPy's or SciPy's value is worse than that, there is nothing to reach
GOAL = {1: 1e-12, 2: 1e-9}
SMALLEST = float(np.finfo(float).tiny)


class Figure(NamedTuple):
    """One derivative: where it was taken, its relative error, and that of the value; no error where the peer has no derivative."""

    group: str
    name: str
    point: tuple
    by: int
    order: int
    value_error: float
    error: float | None

    @property
    def counts(self):
        """Return whether the value is good enough to ask for the derivative."""
        return self.value_error <= GOAL[self.order]

    @property
    def good(self):
        return self.error is not None and self.error <= GOAL[self.order]


# --- what is not reached --------------------------------------------------------------------------------------------------


class Exempt(NamedTuple):
    """Where the goal is not reached: the function, a description of the points and which they are, the errors seen, and why."""

    name: str
    where: str
    holds: Callable[..., bool]
    first: float
    second: float
    reason: str


BESSEL = "SciPy's value of a neighbouring order has lost digits to the phase"
EXCEPTIONS = [
    Exempt("betainccinv", "where the result is near 1", lambda a, b, y: y <= 1e-8, 0.05, np.inf, "1 - x has no digits left in x"),
    Exempt("hyperu", "a = 0.7, b = 2.5, x = 9.5", lambda a, b, x: x == 9.5, 1e-11, 0.0, "SciPy's hyperu(1.7, 3.5, 9.5) is as far off"),
    Exempt("y1", "x = 1e4", lambda x: x == 1e4, 2e-12, 0.0, BESSEL),
    Exempt("yn", "x = 1e4", lambda n, x: x == 1e4, 2e-12, 0.0, BESSEL),
    Exempt("elliprf", "", lambda x, y, z: True, 0.0, np.inf, "refused: R_D has no derivative"),
    Exempt("angle", "abs(z) = 1e200 or 1e-200", lambda t: True, 0.0, np.inf, "a derivative of arctan2 is 1e-400 or 1e400 on the way"),
]


def exempt(figure):
    """Return the exception that a figure falls under, or None."""
    args = [a[0] if type(a) is tuple else a for a in figure.point]
    for entry in EXCEPTIONS:
        bound = entry.first if figure.order == 1 else entry.second
        if (
            entry.name == figure.name
            and entry.holds(*args)
            and (figure.good or np.isinf(bound) or (figure.error is not None and figure.error <= bound))
        ):
            return entry
    return None


def exceptions_table():
    """Return the table of exceptions that the README of `dualad` has: the worst errors of first and second derivatives, and why."""

    def shown(bound):
        return "" if not bound else "all" if np.isinf(bound) else f"{bound:.0e}"

    return markdown(
        ["function", "where", "first", "second", "why"],
        [[f"`{e.name}`", e.where, shown(e.first), shown(e.second), e.reason] for e in EXCEPTIONS],
    )


# --- who is asked ---------------------------------------------------------------------------------------------------------


def ours(f, x, order):
    from dualad import derivative

    return derivative(f, order=order)(x)


def jax(f, x, order):
    from jax import jvp

    first = lambda x: jvp(f, (x,), (1.0,))[1]
    return first(x) if order == 1 else jvp(first, (x,), (1.0,))[1]


def autograd(f, x, order):
    from autograd import elementwise_grad

    first = elementwise_grad(f)
    return first(x) if order == 1 else elementwise_grad(first)(x)


#: peers with the namespaces that stand for NumPy and scipy.special
PEERS = {
    "dualad": (ours, "numpy", "scipy.special"),
    "JAX": (jax, "jax.numpy", "jax.scipy.special"),
    "autograd": (autograd, "autograd.numpy", "autograd.scipy.special"),
}


def namespaces_of(peer):
    """Return the peer's likes of NumPy and ``scipy.special``; None where it is not installed."""
    try:
        found = tuple(importlib.import_module(name) for name in PEERS[peer][1:])
    except ImportError:
        return None
    if peer == "JAX":
        importlib.import_module("jax").config.update("jax_enable_x64", True)
    return found


# --- comparing ------------------------------------------------------------------------------------------------------------


def relative_error(answer, expected):
    """Return the relative error; numbers below the normal ones are equal."""
    if not np.isfinite(answer):
        return np.inf
    difference = abs(answer - expected)
    if difference <= 4 * SMALLEST:
        return 0.0
    with np.errstate(all="ignore"):
        return float(difference / abs(expected)) if expected else float(difference)


def quietly(call):
    """Return the value of a call without warnings."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return np.asarray(call())[()]


def figures(number, rows, peer="dualad", step=1):
    """Yield the figures of entry `number` of the grid, whose exact values are `rows`, at every `step`-th of them."""
    entry, namespaces = GRID[number], namespaces_of(peer)
    for (point, by), (exact, *slopes) in list(zip(derivatives(entry), rows, strict=True))[::step]:
        f, plain = alone(entry, point, by, namespaces), alone(entry, point, by)
        value = quietly(lambda: plain(point[by]))
        value_error = relative_error(value, exact) if exact is not None else 0.0 if np.isfinite(value) else np.nan  # beyond the floats
        for order, expected in zip(GOAL, slopes, strict=True):
            if expected is None or (expected and abs(expected) < SMALLEST):
                continue  # beyond the floats
            try:
                error = None if f is None else relative_error(quietly(lambda: PEERS[peer][0](f, point[by], order)), expected)
            except Exception:  # no derivative
                error = None
            yield Figure(entry.group, entry.name, point, by, order, value_error, error)


# --- the tables -----------------------------------------------------------------------------------------------------------


def job(arguments):
    return list(figures(*arguments))


def summary(seen):
    """Return the table of figures: for each group and peer, how many reach the goal."""
    lines = []
    for group in GROUPS:
        for peer, found in seen.items():
            mine = [f for f in found if f.group == group and f.counts]
            answered = [f for f in mine if f.error is not None]
            names, known = {f.name for f in mine}, {f.name for f in answered}
            cells = []
            for order in GOAL:
                errors = [f.error for f in answered if f.order == order]
                reached = sum(e <= GOAL[order] for e in errors)
                cells += [f"{reached} of {len(errors)}", f"{100 * reached / max(len(errors), 1):.1f} %"]
            lines.append([group, peer, f"{len(known)} of {len(names)}", *cells])
    return markdown(["", "peer", "functions", "first <= 1e-12", "", "second <= 1e-9", ""], lines)


def defects(found):
    """Return the table of values that are worse than the goals for derivatives, with the worst error of each function."""
    worst = {}
    for f in found:
        if f.order == 1 and f.value_error > GOAL[1]:
            count, error, point = worst.get(f.name, (0, 0.0, None))
            worst[f.name] = (count + 1, max(error, f.value_error), f.point if f.value_error >= error else point)
    lines = [[name, str(count), f"{error:.0e}", str(point)] for name, (count, error, point) in sorted(worst.items())]
    return markdown(["function", "points", "worst value error", "at"], lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few points of each function")
    parser.add_argument("--peers", default=",".join(PEERS), help="whom to ask")
    options = parser.parse_args()
    rows, seen = kept(), {}
    with Pool() as pool:
        for peer in options.peers.split(","):
            if namespaces_of(peer) is None:
                print(f"{peer} is not installed\n")
                continue
            jobs = [(number, exact, peer, 9 if options.quick else 1) for number, exact in enumerate(rows)]
            seen[peer] = [f for part in pool.imap(job, jobs) for f in part]
    print(summary(seen))
    found = seen.get("dualad", [])
    missed = [f for f in found if f.counts and not f.good and not exempt(f)]
    print("\nExceptions:\n\n" + exceptions_table())
    print("\nValues of NumPy and SciPy with an error above 1e-12:\n\n" + defects(found))
    for f in missed:
        print(f"\n{f.name} {f.point} by argument {f.by}, order {f.order}: {f.error} (value {f.value_error:.1e})")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
