"""Loops of programs as operations: values and derivatives of every kind against the loop in Python."""

from __future__ import annotations

import numpy as np
import pytest

from checkpoint import grad, hvp, vjp
from checkpoint import jacobian as reverse_jacobian
from dualad import hessian, jacobian, jit, jvp, sparsity
from dualad.graph.nested import Scan, unrolled
from dualad.graph.trace import Trace
from dualad.jit.arguments import Call
from dualad.jit.compiled import BACKENDS, Compiled

TURNS = 7
RNG = np.random.default_rng(0)


def mixed(k, x, y, row, p):
    """Values of arrays and numbers, the index, a row, a param; an out."""
    z = np.sin(x) * p + row + 0.1 * k
    return z, x + y * 0.5, z * row


def with_numbers(k, x, s, row, p):
    """A carried number, a param that is an array, and outs of two shapes."""
    s = s * 0.5 + 0.01 * row * np.sum(x)
    return 0.5 * x * p + 0.1 * s * np.cos(x), s, s * s, x[1:] - x[:-1]


def constant_start(k, x, t, row, p):
    """A value that is carried and not changed, and one that becomes active only in the second turn."""
    return x + 0.1 * t * row, x * p, t * row


BODIES = {
    "mixed": (mixed, (RNG.standard_normal(4), RNG.standard_normal(4), RNG.standard_normal((TURNS, 4)), np.array(0.7))),
    "numbers": (with_numbers, (RNG.standard_normal(6), np.float64(0.3), RNG.standard_normal(TURNS), RNG.uniform(0.5, 1.0, 6))),
    "constant start": (constant_start, (RNG.standard_normal(40), np.zeros(40), RNG.standard_normal((TURNS, 40)), np.array(1.1))),
}


def in_python(body, backwards):
    def run(x, y, rows, p):
        outs = [None] * TURNS
        for k in range(TURNS)[:: -1 if backwards else 1]:
            x, y, *outs[k] = body(k, x, y, rows[k], p)
        return x, y, *(np.stack(column) for column in zip(*outs, strict=True))

    return run


def as_loop(body, backwards, examples):
    """Return the loop's operation."""
    x, y, rows, p = examples
    with Trace() as trace:
        program = trace.finish(body(*[trace.input(example) for example in (0, x, y, rows[0], p)]))
    return Scan(program, TURNS, 2, 1, backwards)


def compiled(loop, examples, backend):
    with Trace() as trace:
        program = trace.finish(loop(*[trace.input(example) for example in examples]))
    assert [type(operation.fn) for operation in program.operations] == [Scan]
    return Compiled(program, backend)


@pytest.fixture(params=[(name, backend, backwards) for name in BODIES for backend in BACKENDS for backwards in (False, True)], ids=str)
def pair(request):
    name, backend, backwards = request.param
    body, examples = BODIES[name]
    fast = compiled(as_loop(body, backwards, examples), examples, backend)
    if backend == "llvm":
        assert "1 compiled parts" in fast.executable.notes and "called" not in fast.executable.notes
    return (lambda *args: fast(*args)), in_python(body, backwards), examples


def close(a, b):
    for x, y in zip(a, b, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-12)


def loss(f):
    return lambda *args: sum(np.sum(out * np.cos(out)) for out in f(*args))


def test_values(pair):
    fast, slow, args = pair
    close(fast(*args), slow(*args))


def test_derivatives_of_order_one(pair):
    fast, slow, args = pair
    every = tuple(range(4))
    close(grad(loss(fast), argnums=every)(*args), grad(loss(slow), argnums=every)(*args))
    tangents = tuple(np.cos(arg) for arg in args)
    close(jvp(fast, args, tangents)[1], jvp(slow, args, tangents)[1])
    cotangents = tuple(np.sin(out) for out in slow(*args))
    close(vjp(fast, *args)[1](cotangents), vjp(slow, *args)[1](cotangents))
    for k in range(4):  # of one argument, the others constant
        close([grad(loss(fast), argnums=k)(*args)], [grad(loss(slow), argnums=k)(*args)])


def test_many_directions(pair):
    fast, slow, (x, y, rows, p) = pair
    for transform in (jacobian, reverse_jacobian):
        close([transform(lambda r: fast(x, y, r, p)[0])(rows)], [transform(lambda r: slow(x, y, r, p)[0])(rows)])
        close([transform(lambda x: fast(x, y, rows, p)[2])(x)], [transform(lambda x: slow(x, y, rows, p)[2])(x)])


def test_derivatives_of_order_two(pair):
    fast, slow, (x, y, rows, p) = pair
    f, g = (lambda x: loss(fast)(x, y, rows, p)), (lambda x: loss(slow)(x, y, rows, p))
    close([hessian(f)(x)], [hessian(g)(x)])
    close([hvp(f, x, np.cos(x))], [hvp(g, x, np.cos(x))])


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
def test_factors_of_every_turn(backend, backwards):
    """What the turns kept of a factorization is what `solve` is given while the derivative is traced: no zeros stand for it."""

    def body(k, lower, y, row, p):
        y = y * p + np.linalg.solve(lower, y)
        return np.linalg.cholesky(lower @ lower.T + row * np.eye(2)), y, y[0]

    examples = (np.array([[1.0, 0.0], [0.3, 1.0]]), np.ones(2), np.linspace(1.0, 2.0, TURNS), np.float64(0.7))
    fast, slow = compiled(as_loop(body, backwards, examples), examples, backend), in_python(body, backwards)
    close(grad(loss(fast), argnums=(0, 1, 2, 3))(*examples), grad(loss(slow), argnums=(0, 1, 2, 3))(*examples))
    x, *others = examples
    close([hvp(lambda x: loss(fast)(x, *others), x, np.cos(x))], [hvp(lambda x: loss(slow)(x, *others), x, np.cos(x))])


def test_a_loop_of_a_loop():
    body, examples = BODIES["mixed"]
    x, y, rows, p = examples
    inner = as_loop(body, False, examples)
    with Trace() as trace:
        k, *given = [trace.input(example) for example in (0, x, y, p, rows)]
        x1, y1, _ = inner(given[0], given[1], given[3], given[2])
        program = trace.finish([x1 * 0.5, y1 + 0.01 * k])
    outer = Scan(program, 5, 2, 0)

    def slow(x, y, p, rows):
        for k in range(5):
            x, y, _ = in_python(body, False)(x, y, rows, p)
            x, y = x * 0.5, y + 0.01 * k
        return x, y

    args = x, y, p, rows
    for backend in BACKENDS:
        with Trace() as trace:
            whole = trace.finish(outer(*[trace.input(arg) for arg in args]))
        fast = Compiled(whole, backend)
        close(fast(*args), slow(*args))
        f = loss(lambda *args: fast(*args))
        close(grad(f, argnums=(0, 1, 2, 3))(*args), grad(loss(slow), argnums=(0, 1, 2, 3))(*args))
        close([hvp(lambda x: f(x, y, p, rows), x, y)], [hvp(lambda x: loss(slow)(x, y, p, rows), x, y)])


def test_a_body_that_calls_functions_is_run_by_numpy():
    def solved(k, x, y, row, p):
        return np.linalg.solve(np.eye(4) * 3.0 + np.outer(x, row), x), y + x, y * p

    examples = BODIES["mixed"][1]
    for backend in BACKENDS:
        fast = compiled(as_loop(solved, False, examples), examples, backend)
        close(fast(*examples), in_python(solved, False)(*examples))
        args = tuple(range(4))
        close(grad(loss(lambda *a: fast(*a)), argnums=args)(*examples), grad(loss(in_python(solved, False)), argnums=args)(*examples))


def test_equal_loops_are_equal():
    body, examples = BODIES["mixed"]
    one, other = as_loop(body, False, examples), as_loop(body, False, examples)
    assert one == other and hash(one) == hash(other) and one != as_loop(body, True, examples)
    changed = as_loop(lambda k, x, y, row, p: (*body(k, x, y, row, p)[:2], row), False, examples)
    assert one != changed and one != 3


def test_the_program_shows_the_body():
    body, examples = BODIES["mixed"]
    program = str(compiled(as_loop(body, False, examples), examples, "numpy").program)
    assert "loop of 7 turns, 2 carried, 1 stacked:" in program and "      x5 = numpy.sin(x1)" in program


def test_the_pullback_keeps_only_what_it_reads():
    """x is linear in itself: no state is stored for its cotangent."""
    f = jit(lambda x: repeated(x), backend="numpy")

    def repeated(x):
        for _ in range(500):
            x = 0.99 * x + 0.01
        return x

    x = np.ones(3)
    pulled = grad(lambda x: np.sum(f(x)))(x)
    np.testing.assert_allclose(pulled, 0.99**500, rtol=1e-12)
    forward, backward = next(iter(f.entries.values())).compiled.derived[("split_forward_backward", False, (True,))]
    assert len(forward.program.outputs) == 1 and len(backward.program.inputs) == 2


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("name", BODIES)
def test_turns_can_be_written_out_again(name, backwards):
    body, examples = BODIES[name]
    program = compiled(as_loop(body, backwards, examples), examples, "numpy").program
    flat = unrolled(program, 1000)
    assert not any(type(operation.fn) is Scan for operation in flat.operations)
    close(flat.run(*examples), in_python(body, backwards)(*examples))
    assert len(unrolled(program, 10).operations) == 1 and unrolled(flat, 1000) is flat


def test_sparsity_is_read_turn_by_turn():
    def smoothed(x):
        for _ in range(60):
            x = x.copy()
            x[1:-1] = 0.25 * x[:-2] + 0.5 * x[1:-1] + 0.25 * x[2:]
        return x

    x, fast = np.linspace(0.0, 1.0, 200), jit(smoothed, backend="numpy")
    assert [type(operation.fn) for operation in fast.entry(Call(fast, (x,), {})).compiled.program.operations] == [Scan]
    one, other = (sparsity(f, x) for f in (fast, smoothed))
    assert one.nnz == other.nnz < 200 * 122 and (one != other).nnz == 0
