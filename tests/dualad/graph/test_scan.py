"""Loops of programs as operations: values and derivatives of every kind against the loop in Python."""

import numpy as np
import pytest
from comparing import agree, close, loss

from checkpoint import grad
from checkpoint import jacobian as reverse_jacobian
from dualad import hessian, jacobian, jit, sparsity
from dualad.graph.nested import Scan
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


@pytest.fixture(
    scope="module", params=[(name, backend, backwards) for name in BODIES for backend in BACKENDS for backwards in (False, True)], ids=str
)
def pair(request):
    name, backend, backwards = request.param
    body, examples = BODIES[name]
    fast = compiled(as_loop(body, backwards, examples), examples, backend)
    if backend == "llvm":
        assert "1 compiled parts" in fast.executable.notes and "called" not in fast.executable.notes
    return (lambda *args: fast(*args)), in_python(body, backwards), examples


def check(fast, slow, args, **options):
    agree(fast, slow, args, rtol=1e-11, atol=1e-12, **options)


def test_values_and_derivatives(pair):
    fast, slow, args = pair
    check(fast, slow, args)
    for k in range(4):  # of one argument, the others constant
        check(fast, slow, args, order=1, argnums=(k,))


def test_many_directions(pair):
    fast, slow, (x, y, rows, p) = pair
    by_rows, by_x = ([lambda r, f=f: f(x, y, r, p)[0] for f in (fast, slow)], [lambda x, f=f: f(x, y, rows, p)[2] for f in (fast, slow)])
    for transform in (jacobian, reverse_jacobian):
        close(*(transform(f)(rows) for f in by_rows), rtol=1e-11, atol=1e-12)
        close(*(transform(f)(x) for f in by_x), rtol=1e-11, atol=1e-12)
    close(*(hessian(lambda x, f=f: loss(f)(x, y, rows, p))(x) for f in (fast, slow)), rtol=1e-11, atol=1e-12)


def factors(k, lower, y, row, p):
    """What the turns kept of a factorization is what `solve` is given while the derivative is traced: no zeros stand for it."""
    y = y * p + np.linalg.solve(lower, y)
    return np.linalg.cholesky(lower @ lower.T + row * np.eye(2)), y, y[0]


def solved(k, x, y, row, p):
    """A body that calls functions is run by NumPy."""
    return np.linalg.solve(np.eye(4) * 3.0 + np.outer(x, row), x), y + x, y * p


CALLED = {
    factors: (np.array([[1.0, 0.0], [0.3, 1.0]]), np.ones(2), np.linspace(1.0, 2.0, TURNS), np.float64(0.7)),
    solved: BODIES["mixed"][1],
}


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("body", CALLED)
def test_turns_that_call_functions(body, backend, backwards):
    examples = CALLED[body]
    check(compiled(as_loop(body, backwards, examples), examples, backend), in_python(body, backwards), examples)


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
        check(Compiled(whole, backend), slow, args)


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
def test_sparsity_is_that_of_the_turns_in_python(name, backwards):
    body, examples = BODIES[name]
    fast = compiled(as_loop(body, backwards, examples), examples, "numpy")
    one, other = (sparsity(f, *examples, argnums=(0, 1, 2, 3)) for f in (lambda *args: fast(*args), in_python(body, backwards)))
    assert (one != other).nnz == 0 < one.nnz


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
