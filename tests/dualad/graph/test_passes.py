import numpy as np
import pytest
from comparing import close
from interpreted import recorded as traced
from test_symbol import FUNCTIONS, X

from dualad.graph.differentiate import pullback
from dualad.graph.passes import common, dead, fold, forwarded, optimised, relaxed, restored, simpler
from dualad.rules.indexing import getitem, scatter, updated
from dualad.rules.shapes import blank


def fns(program):
    return [operation.fn for operation in program.operations]


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("exact", [True, False])
def test_an_optimised_program_computes_the_same(name, exact):
    program = traced(FUNCTIONS[name], X)
    short = optimised(program, exact)
    assert len(short.operations) <= len(program.operations) + 2
    for a, b in zip(short.run(X), program.run(X), strict=True):
        (np.testing.assert_array_equal if exact else np.testing.assert_allclose)(a, b)
        assert np.asarray(a).dtype == np.asarray(b).dtype


def test_dead_code_goes_and_its_constants():
    program = traced(lambda x: (np.sin(x + np.arange(3.0)), x * 2.0)[1], X)
    assert (len(program.operations), len(program.constants)) == (3, 1)
    short = dead(program)
    assert (fns(short), len(short.constants), len(short.inputs)) == ([np.multiply], 0, 1)


def test_common_operations_and_constants_are_evaluated_once():
    program = traced(lambda x: np.sin(x) * np.sin(x) + np.arange(3.0) - np.arange(3.0), X)
    short = dead(common(program))
    assert fns(short) == [np.sin, np.multiply, np.add, np.subtract] and len(short.constants) == 1


def test_zeros_of_both_signs_and_numbers_of_other_types_are_not_common():
    program = traced(lambda x: (x * 0.0, x * -0.0, x * 1, x * 1.0, x + np.float64(2.0), x + 2.0), X)
    assert len(common(program).operations) == 6


def test_weak_and_strong_results_are_not_common():
    program = traced(lambda c: (c * 2.0, np.multiply(c, 2.0)), 0.5)
    assert [type(out) for out in common(program).run(0.5)] == [float, np.float64]


def test_constants_are_folded_unless_they_grow():
    program = traced(lambda x: x + np.zeros(3, like=x)[:1] * 2.0, X)
    assert fns(dead(fold(simpler(program)))) == [np.add]

    def large(x):
        y = np.zeros((100, 100), like=x)
        y[0] = x
        return y

    assert fns(dead(fold(simpler(traced(large, 0.5))))) == [np.zeros, updated]


def test_a_fold_that_raises_waits_until_the_program_runs():
    program = traced(lambda x: x[0] * np.linalg.inv(np.zeros((2, 2), like=x) + 1.0)[0, 0] if False else x, X)
    assert fold(program).outputs == program.outputs


def test_copies_reshapes_and_factors_of_one_go():
    program = traced(lambda x: np.reshape(x.copy(), (2, 3)) * 1.0 * 1, X)
    assert fns(dead(simpler(program))) == []
    kept = traced(lambda x: (np.conjugate(x), 1.0 * x), X + 1j)
    assert fns(simpler(kept))[0] is np.conjugate
    assert fns(simpler(traced(lambda x: x * 1.0, np.ones(3, np.int64)))) == [np.multiply]  # ints become floats
    assert fns(simpler(traced(lambda x: np.transpose(x), np.ones((3, 3))))) == [np.transpose]


def test_powers_and_buffers_are_named():
    program = simpler(traced(lambda x: (x**2, x**0.5, x**3, np.power(2.0, x)), X))
    assert fns(program) == [np.square, np.sqrt, np.power, np.power]
    assert blank not in fns(simpler(traced(lambda x: np.zeros_like(x) + x, X)))


def test_what_was_assigned_is_read_where_it_came_from():
    def f(x):
        y = np.zeros_like(x)
        y[:, 1:] = x[:, 1:] * 2.0
        return y[:, 1:] + 1.0

    assert updated not in fns(dead(forwarded(traced(f, X))))


def test_assignments_elsewhere_and_before_are_not_read():
    def f(x):
        x[:, 0] = x[:, 0] * 2.0
        x[:, 0] = np.roll(x[:, 0], 1)
        x[1:, -1] = np.roll(x[1:, -1], 2)
        x[0] = 0.0
        return x, x[0] + x[1], x[1:, 1]

    program = traced(f, np.arange(12.0).reshape(4, 3))
    short = dead(forwarded(program))
    close(short.run(np.arange(12.0).reshape(4, 3)), f(np.arange(12.0).reshape(4, 3)), rtol=0.0)
    first = {operation.args[0] for operation in short.operations if operation.fn is getitem}
    assert fns(program).count(updated) == 4 and fns(short).count(updated) == 3
    assert short.inputs[0] in first and np.zeros in fns(short)


def test_adjoints_of_quotients_stay_within_range_as_they_do_uncompiled():
    """Quotients that were divided once for both arguments overflowed, or were zero, where the rows' are not."""
    x, y, g = np.array([[1e300, 1e-300, 1.0, 1e-310, 3.0], [1e200, 1e-200, 1e-310, 1e-310, np.inf], [1e-150, 1e200, 1e-200, 1e-100, 1.0]])
    for f in (lambda x, y: x / y, lambda x, y: np.tanh(0.5 / y) * x, lambda x, y: 1.0 / y + x / y):
        pull = pullback(traced(f, x, y), [x, y], [True, True], [g])
        del pull.outputs[2:]
        with np.errstate(all="ignore"):
            close(optimised(pull, exact=False, adjoint=True).run(x, y, g), pull.run(x, y, g), rtol=1e-15)


def test_what_is_cleared_and_put_back_stays_as_it_is():
    """The adjoint of an assignment that adds: two updates of a part, of which nothing is left."""

    def adds(x, v):
        x[1:-1, 2] += np.sin(v)
        x[0, 0] += v[0]
        return x

    def writes(x, v):  # what was there before has no cotangent
        x[1:-1, 2] = x[1:-1, 2] * np.sin(v)
        x[:, 0] = v[0]
        return x

    x, v, g = np.random.default_rng(4).standard_normal((3, 4, 4))
    for f, left in ((adds, 0), (writes, 2)):
        step = traced(f, x, v[0, :2])
        pull = pullback(step, [x, v[0, :2]], [True, True], [g])
        del pull.outputs[2:]
        short = optimised(pull, exact=False)
        assert fns(short).count(updated) == left < fns(pull).count(updated)
        close(short.run(x, v[0, :2], g), pull.run(x, v[0, :2], g), rtol=0.0)
    other = traced(lambda x, v: updated(x, 0.0, slice(1, 3)) + scatter(v, slice(0, 2), x), X[0], X[0, :2])
    assert fns(restored(other)) == fns(other)


def test_slices_of_joined_arrays_are_slices_of_their_parts():
    def f(x):
        y = np.concatenate([x[:1], np.sin(x), 2.0 * x])
        return y[1 : 1 + len(x)], y[len(x) + 2 : -1], y[:3], y[:1] + y[-1:]

    program = dead(forwarded(traced(f, X)))
    close(program.run(X), f(X), rtol=0.0)
    (sine,) = (operation for operation in program.operations if operation.fn is np.sin)
    assert sine.outputs[0] is program.outputs[0]
    assert fns(dead(forwarded(traced(lambda x: np.concatenate([x, np.exp(x)])[len(x) :], X)))) == [np.exp]


def test_only_relaxed_rules_rewrite_quotients_and_cubes():
    program = traced(lambda x: (1.0 / x) * np.sin(x) + x**3, X)
    assert fns(dead(relaxed(program))) == [np.sin, np.divide, np.multiply, np.multiply, np.add]


@pytest.mark.parametrize(("shape", "run", "count"), [((64, 3), 1, 65), ((64, 3), 2, 33), ((64, 3), 64, 1), ((64,), 2, 65), ((64,), 8, 9)])
def test_a_stack_of_rows_that_follow_one_another_is_of_slices(shape, run, count):
    """Numbers are read one by one, unless many follow one another."""
    blocks = 64 // run
    order = [27 * k % blocks * run + i for k in range(blocks) for i in range(run)]
    x = np.random.default_rng(1).normal(size=shape)
    program = optimised(traced(lambda x: np.stack([x[k] for k in order]), x))
    assert len(program.operations) == count
    np.testing.assert_array_equal(program.run(x)[0], x[order])
