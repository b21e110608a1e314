"""Everyday steps: 200 of them and their gradient, eager and compiled, with what stands between a step and compiled blocks."""

from __future__ import annotations

import contextlib
import io
import re
import sys

import numpy as np

from .functions import leaves, parts
from .harness import Case, Peer, Table, main
from .published_steps import PUBLISHED
from .step_programs import EVERYDAY, arguments, loss, plain

FIRST = Table("Everyday steps of 16 numbers", unit="ms", versus=("dualad", "dualad.jit"), rtol=1e-7)
SECOND = Table("Steps of published codes", unit="ms", versus=("dualad", "dualad.jit"), rtol=1e-7)
TABLES = [FIRST, SECOND]


def programs(quick):
    for table, named in ((FIRST, EVERYDAY), (SECOND, PUBLISHED)):
        for name, program in named.items():
            yield table.title, name, program._replace(steps=5) if quick else program


def quiet(f):
    """Return a function without what it prints."""

    def run(*args):
        with contextlib.redirect_stdout(io.StringIO()):
            return f(*args)

    return run


def gradient(program, step, stats=None):
    """Return the gradient by the first state and the parameters."""
    from checkpoint import chain, grad

    end = lambda state, *params: loss(chain(step, state, *params, steps=program.steps, stats=stats))
    return grad(end, argnums=tuple(range(1 + len(program.params))))


def in_blocks(stats):
    """Return "yes" where no Python runs between two actions of the schedule, "with calls" where compiled steps call it, "but for" so many
    steps where the plain function makes some, else "no"."""
    _, made, reason = stats.reason.partition("steps one by one, because ")
    _, called, calls = stats.reason.partition("each step calls Python ")
    plain = re.search(r"(\d+ steps?) made by the plain function", stats.reason)
    return f"no\n{reason}" if made else f"with calls\n{calls}" if called else f"but for {plain[1]}" if plain else "yes"


def agreement(program, step):
    """Return how the last state of compiled steps agrees with that of plain NumPy."""
    from checkpoint import chain

    apart = 0.0
    for a, b in zip(parts(plain(program)()), parts(chain(step, *arguments(program), steps=program.steps)), strict=True):
        if not np.array_equal(a, b, equal_nan=True):
            apart = max(apart, float(np.max(np.abs(np.asarray(a) - b)) / np.max(np.abs(a))))
    return f"{apart:.0e}: {program.last_bits or 'nothing may round otherwise'}" if apart else "same bits"


# --- peers ------------------------------------------------------------------------------------------------------------------------


def primals(quick):
    for title, name, program in programs(quick):
        yield title, name, Case(quiet(plain(program)))


def eager(quick):
    for title, name, program in programs(quick):
        yield title, name, Case(quiet(gradient(program, program.step)), arguments(program), answer=leaves)


def with_jit(quick):
    from checkpoint import Stats
    from dualad import jit

    for title, name, program in programs(quick):
        step, stats = jit(program.step), Stats()

        def columns(seconds, primal, program=program, step=step, stats=stats):
            return {"in blocks": in_blocks(stats), "value": quiet(agreement)(program, step)}

        yield title, name, Case(quiet(gradient(program, step, stats)), arguments(program), leaves, columns)


PEERS = {
    "dualad": Peer(eager, ours=True),
    "dualad.jit": Peer(with_jit, ours=True),
}

if __name__ == "__main__":
    sys.exit(main("steps", TABLES, primals, PEERS))
