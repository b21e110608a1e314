"""Loops in Python are rolled up again: what is left of their operations, values, derivatives."""

import numpy as np
import pytest
from comparing import agree, close, leaves
from loop_examples import EXAMPLES

from checkpoint import grad
from dualad import jit
from dualad.graph.nested import Scan
from dualad.jit.compiled import BACKENDS

#: how many operations are left of each function, and of its gradient, and how many turns the loops have
LEFT = {
    "relaxed": (1, 61, [40]),
    "attracted": (1, 71, [56]),
    "marched": (14, 164, [89]),
    "layered": (2, 154, [70]),
    "delayed": (13, 47, [59]),
}


def loss(f):
    return lambda *args: sum(np.sum(out * np.cos(out)) for out in leaves(f(*args)))


def program_of(jitted):
    (entry,) = jitted.entries.values()
    return entry.compiled.program


def turns_of(program):
    return [operation.fn.count for operation in program.operations if type(operation.fn) is Scan]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", EXAMPLES)
def test_python_loops_are_one_operation(name, backend):
    f, args = EXAMPLES[name]
    fast = jit(f, backend=backend)
    agree(fast, f, args, rtol=1e-11, atol=1e-12, argnums=tuple({0, len(args) - 1}))
    program = program_of(fast)
    most, _, turns = LEFT[name]
    assert len(program.operations) <= most and turns_of(program) == turns


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", EXAMPLES)
def test_traced_derivatives_are_rolled_up_too(name, backend):
    f, args = EXAMPLES[name]
    some = tuple({0, len(args) - 1})
    fast = jit(grad(loss(f), argnums=some), backend=backend)
    close(fast(*args), grad(loss(f), argnums=some)(*args), rtol=1e-11, atol=1e-12)
    program = program_of(fast)
    assert len(program.operations) <= LEFT[name][1] and len(turns_of(program)) == 2


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_random_loops(seed):
    """Turns of random operations, with values of the turn before, marching numbers and indices, stacked results, some of which are read."""
    rng = np.random.default_rng(seed)
    turns = int(rng.integers(30, 60))
    plan = [(int(rng.integers(6)), *map(int, rng.integers(0, 9, 2))) for _ in range(400 // turns + 3)]
    late, table = int(rng.integers(turns)), rng.standard_normal(turns)

    def f(x, w):
        carried, path = [x, 0.5 * x, np.cos(x)], []
        for k in range(turns):
            here = list(carried)
            for kind, i, j in plan:
                a, b = here[i % len(here)], here[j % len(here)]
                here.append(
                    [
                        lambda a, b, k: 0.5 * a + 0.25 * np.sin(b),
                        lambda a, b, k: a * np.cos(table[k]) / (1.0 + b * b),
                        lambda a, b, k: np.sin(a * w[k % 5]) + 0.1 * b[::-1],
                        lambda a, b, k: np.where(a > b, a, 0.5 * b) + 0.01 * k,
                        lambda a, b, k: np.concatenate([a[1:], b[:1]]) * 0.9,
                        lambda a, b, k: np.tanh(a + np.sum(b) * (k + 1.0) * 0.01),
                    ][kind](a, b, k)
                )
            carried = [here[-1], here[-2] * 0.5, carried[int(plan[0][1]) % 3]]
            path.append(carried[0][1])
        return carried[0] + carried[1], np.stack(path), path[late] * x, carried[2]

    args = rng.standard_normal(5), rng.standard_normal(5)
    for backend in BACKENDS:
        fast = jit(f, backend=backend)
        agree(fast, f, args, rtol=1e-11, atol=1e-12)
        assert turns_of(program_of(fast))


def newton(x, turns):
    y = x
    for _ in range(turns):
        y = y - (y * y * y - x) / (3.0 * y * y + 0.1)
    return y


def test_what_is_short_or_no_loop_stays_as_it_is():
    """Turns that read other elements than they write are rolled up early, those of which one loop nest can be made late."""
    f, args = EXAMPLES["relaxed"]
    for g, given, turns, expected in (
        (f, args, 3, []),
        (f, args, 8, [8]),
        (newton, [np.linspace(1.0, 2.0, 50)], 20, []),
        (newton, [np.linspace(1.0, 2.0, 50)], 60, [60]),
    ):
        compiled = jit(lambda *args, g=g, turns=turns: g(*args, turns), backend="numpy")
        np.testing.assert_array_equal(compiled(*given), g(*given, turns))
        assert turns_of(program_of(compiled)) == expected

    def unlike(x):  # the operands of each turn stand elsewhere
        values = [x, np.cos(x)]
        for k in range(300):
            values.append(np.sin(values[k // 2]) + values[k])
        return values[-1]

    plain = jit(unlike, backend="numpy")
    np.testing.assert_array_equal(plain(np.ones(3)), unlike(np.ones(3)))
    assert not turns_of(program_of(plain))


@pytest.mark.slow
def test_results_that_turns_leave_to_be_read_one_by_one_end():
    """So many turns that reading a row in each would be rolled up too, again and again: it made the program longer."""

    def f(x):
        y = x[0]
        for _ in range(420):
            y = y + 0.001 * np.sin(y) * x[1]
        return y

    x = np.array([1.0, 2.0])
    fast = jit(grad(f), backend="numpy")
    close(fast(x), grad(f)(x), rtol=1e-11)
    program = program_of(fast)
    assert turns_of(program) == [420, 419] and len(program.operations) <= 20
