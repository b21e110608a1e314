"""The thresholds of `dualad.support.costs` and `checkpoint.support.costs`, measured again: ``python -m benchmarks.costs NAME``.

Each program is built with the threshold as it is and moved so far that the program is on its other side; the calls are timed in turn,
the least of many is shown, and the time of the first call, which compiles. Their answers must agree.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from .harness import markdown

SECONDS = 0.6  # for the calls of one program


class Measure(NamedTuple):
    """Values of a threshold on both sides of it, and the programs that it decides about."""

    values: tuple[float, ...]
    programs: tuple[str, ...]


# --- programs: each returns a call ------------------------------------------------------------------------------------------------


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape)


def compiled(f: Callable, *args: Any) -> Callable:
    from dualad import jit

    return partial(jit(f), *args)


def simulation(name: str) -> Callable:
    """The compiled gradient of one step of a published simulation."""
    from checkpoint import grad

    from .simulations import SIMULATIONS
    from .step_programs import loss

    (case,) = (make(False) for title, make in SIMULATIONS.items() if title.startswith(name))
    return compiled(grad(lambda state, *params: loss(case.step(0, state, *params))), case.state, *case.params)


def gray_scott(n: int) -> Callable:
    from checkpoint import grad

    from .functions import gray_scott

    loss = lambda u, v: sum(np.sum(part * np.cos(part)) for part in gray_scott(0, (u, v)))
    return compiled(grad(loss, argnums=(0, 1)), *normal(2, n, n))


def pollution() -> Callable:
    from dualad import jacobian

    from . import pollution as pollu

    return compiled(jacobian(pollu.pollution), np.linspace(0.1, 1.0, 20))


def burgers(n: int) -> Callable:
    from dualad import jacobian

    from .jacobians import burgers as residual

    x = np.sin(np.linspace(0.0, 6.0, n))
    return partial(jacobian(residual), x)


def sum_of_waves(n: int) -> Callable:
    return compiled(lambda x: np.sum(np.sin(x) * np.exp(-(x**2)) / (1.0 + x**2)), np.linspace(-1.0, 1.0, n))


def sum_of(n: int) -> Callable:
    return compiled(np.sum, np.linspace(-1.0, 1.0, n))


def product(n: int) -> Callable:
    return compiled(np.matmul, *normal(2, n, n))


def contraction(n: int) -> Callable:
    from dualad import jvp

    a, b, v = normal(3, n, n)
    return partial(jvp, lambda a: np.einsum("ij,jk->ik", a, b), (a,), (v,))


def directions(n: int) -> Callable:
    from dualad import jacobian

    b = normal(n, n)
    return partial(jacobian(lambda a: np.einsum("ij,jk->ik", a, b), chunk=8), normal(n, n)[:2])


def small_matrix(n: int) -> Callable:
    return compiled(lambda a: np.sin(a) @ a.T + np.cos(a), normal(n, n))


def system(n: int) -> Callable:
    return compiled(np.linalg.solve, normal(n, n) + 4.0 * np.eye(n), normal(n))


def windows(terms: int) -> Callable:
    """A reduction of few terms, read where it is made."""

    def f(x):
        return np.tanh(np.sum(np.stack([x[k : k - terms or None] for k in range(terms)]), axis=0))

    return compiled(f, np.linspace(-1.0, 1.0, 10_000))


def newton(turns: int) -> Callable:
    from checkpoint import grad

    def root(a):
        x = np.ones_like(a)
        for _ in range(turns):
            x = x - (x * x - a) / (2.0 * x)
        return np.sum(x)

    return compiled(grad(root), np.linspace(1.0, 2.0, 1000))


def relaxation(turns: int) -> Callable:
    from checkpoint import grad

    def relaxed(p):
        for _ in range(turns):
            p = p.copy()
            p[1:-1, 1:-1] = 0.25 * (p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2])
        return np.sum(p * p)

    return compiled(grad(relaxed), normal(40, 40))


def wide(roots: int) -> Callable:
    return compiled(lambda x: tuple(np.sin(x + k) * x for k in range(roots)), np.linspace(0.0, 1.0, 10_000))


def lorenz(steps: int) -> Callable:
    """The gradient through a compiled chain of small steps."""
    from checkpoint import chain, grad
    from dualad import jit

    @jit
    def step(k, state):
        x, y, z = state
        return x + 0.01 * 10.0 * (y - x), y + 0.01 * (x * (28.0 - z) - y), z + 0.01 * (x * y - 8.0 / 3.0 * z)

    return partial(grad(lambda state: sum(part**2 for part in chain(step, state, steps=steps))), (1.0, 1.0, 1.0))


def eager_chain(n: int, steps: int = 300) -> Callable:
    """The gradient through an eager chain whose states are arrays of n numbers."""
    from checkpoint import chain, grad

    return partial(grad(lambda x: np.sum(chain(lambda k, x: 0.99 * x + 0.01, x, steps=steps))), np.linspace(0.0, 1.0, n))


def recorded(n: int) -> Callable:
    """An eager gradient that holds arrays of its caller."""
    from checkpoint import grad

    a = np.linspace(0.0, 1.0, n)
    return partial(grad(lambda x: np.sum(np.sin(a * x) * a)), np.linspace(1.0, 2.0, n))


def sizes(title: str, program: Callable, *numbers: int) -> dict[str, Callable[[], Callable]]:
    """Return a program at several sizes, by its title with each of them."""
    return {title.format(n): partial(program, n) for n in numbers}


PROGRAMS: dict[str, Callable[[], Callable]] = {
    "N-body": partial(simulation, "N-body"),
    "neural ODE": partial(simulation, "neural"),
    **sizes("Gray-Scott, {0} x {0}", gray_scott, 256),
    "POLLU's Jacobian": pollution,
    **sizes("Burgers' Jacobian, n = {}, eager", burgers, 200, 1000),
    **sizes("sum of waves, n = {}", sum_of_waves, 1000, 10**5),
    **sizes("sum, n = {}", sum_of, 1000, 10**5),
    **sizes("matrix product, n = {}", product, 16, 64, 128),
    **sizes("einsum, n = {}, eager", contraction, 16, 64),
    **sizes("einsum, 8 directions, n = {}, eager", directions, 32, 64),
    **sizes("matrix functions, {0} x {0}", small_matrix, 3, 6, 10),
    **sizes("system of {}", system, 3, 4),
    **sizes("window of {}", windows, 5, 9, 20),
    **sizes("Newton, {} turns", newton, 20, 60),
    **sizes("relaxation, {} turns", relaxation, 6, 12),
    **sizes("{} results", wide, 100),
    **sizes("Lorenz, {} compiled steps", lorenz, 10**4),
    **sizes("300 eager steps, n = {}", eager_chain, 3, 300),
    **sizes("held arrays, n = {}", recorded, 100, 400),
}
WAVES, PRODUCTS = (tuple(name for name in PROGRAMS if name.startswith(first)) for first in ("sum", "matrix product"))
SMALL = tuple(name for name in PROGRAMS if name.startswith(("matrix functions", "system")))

MEASURES = {
    "SMALL_ARRAY_BYTES": Measure((0, 4096, 1 << 20), ("held arrays, n = 100", "held arrays, n = 400")),
    "CHUNK_BYTES": Measure((1, 512_000, 1 << 30), ("Burgers' Jacobian, n = 200, eager", "Burgers' Jacobian, n = 1000, eager")),
    "REROLL_OPERATIONS": Measure((64, 1 << 30), ("relaxation, 6 turns", "relaxation, 12 turns")),
    "REROLL_ALIGNED_OPERATIONS": Measure((64, 400, 1 << 30), ("Newton, 20 turns", "Newton, 60 turns")),
    "CACHE_ELEMENTS": Measure((0, 1 << 15, 1 << 30), ("sum of waves, n = 1000", "sum of waves, n = 100000", "Gray-Scott, 256 x 256")),
    "UNROLLED_ELEMENTS": Measure((0, 36, 400), ("POLLU's Jacobian", *SMALL, "window of 5", "window of 9", "window of 20")),
    "LANES": Measure((4, 8), (*WAVES, "neural ODE", *PRODUCTS, "N-body", "100 results")),
    "LIBRARY_PRODUCTS": Measure((0, 1 << 18, 1 << 40), (*PRODUCTS, *(name for name in PROGRAMS if name.startswith("einsum")))),
    "BLOCK_BYTES": Measure((1, 256 << 10, 64 << 20), ("Lorenz, 10000 compiled steps",)),
    "PACKED_BYTES": Measure((0, 4096), ("300 eager steps, n = 3", "300 eager steps, n = 300")),
    "SNAPSHOT_ELEMENTS": Measure((1, 1024, 1 << 30), ("300 eager steps, n = 300",)),
}

# --- measuring ----------------------------------------------------------------------------------------------------------------------


def thresholds() -> dict[str, float]:
    """Return all thresholds of both packages by name."""
    import checkpoint.support.costs as sweeps
    import dualad.support.costs as programs

    return {name: value for module in (programs, sweeps) for name, value in vars(module).items() if name.isupper()}


@contextmanager
def moved(name: str, value: float) -> Iterator[None]:
    """Give a threshold another value, in all modules that read it."""
    readers = [module for key, module in [*sys.modules.items()] if key.split(".")[0] in ("dualad", "checkpoint") and hasattr(module, name)]
    before = thresholds()[name]
    for module in readers:
        setattr(module, name, value)
    try:
        yield
    finally:
        for module in readers:
            setattr(module, name, before)


def measured(name: str, measure: Measure, quick: bool = False) -> Iterator[list[str]]:
    """Yield for each program its times with the values of the threshold."""
    for program in measure.programs:
        calls, first, answers = [], [], []
        for value in measure.values:
            with moved(name, value):
                call, started = PROGRAMS[program](), perf_counter()
                answers.append(flat(call()))
                first.append(perf_counter() - started)
                calls.append(call)
        if not all(np.allclose(answer, answers[0], rtol=1e-6, atol=1e-9) for answer in answers):
            raise ValueError(f"{name}: {program} gives another answer on the other side of the threshold")
        least = in_turn(name, measure.values, calls, 0.0 if quick else SECONDS)
        yield [program, *(f"{1e6 * t:.4g} ({f:.2g} s)" for t, f in zip(least, first, strict=True))]


def in_turn(name: str, values: tuple[float, ...], calls: list[Callable], seconds: float) -> list[float]:
    """Return the least time of each call; eager ones read the threshold when they are called."""
    least, ends = [np.inf] * len(calls), perf_counter() + seconds * len(calls)
    while True:
        for k, (value, call) in enumerate(zip(values, calls, strict=True)):
            with moved(name, value):
                for _ in range(5):
                    started = perf_counter()
                    call()
                    least[k] = min(least[k], perf_counter() - started)
        if perf_counter() > ends:
            return least


def flat(answer: Any) -> np.ndarray:
    import optree

    return np.concatenate([np.ravel(leaf) for leaf in optree.tree_leaves(answer)])


def main(argv: list[str] | None = None) -> int:
    """Measure the thresholds that are named, or list all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.costs", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--quick", action="store_true", help="one round: only whether it runs")
    options = parser.parse_args(argv)
    known = thresholds()
    for name in options.names:
        if name not in MEASURES:
            parser.error(f"{name} is not measured here: one of {', '.join(MEASURES)}")
    if not options.names:
        print(markdown(["threshold", "value", "measured"], [[name, f"{known[name]:g}", "yes" * (name in MEASURES)] for name in known]))
    os.environ["DUALAD_CACHE_SIZE"] = "0"  # the first call compiles
    for name in options.names:
        head = [f"{name}, us (first call)", *(f"{value:g}{' (as it is)' * (value == known[name])}" for value in MEASURES[name].values)]
        print(markdown(head, list(measured(name, MEASURES[name], options.quick))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
