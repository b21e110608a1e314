"""Branches: the paths of functions merged into one program, its values and derivatives against the plain function."""

import numpy as np
import optree
import pytest

import checkpoint
import dualad
from dualad.graph.nested import Branch
from dualad.graph.passes import optimised
from dualad.graph.paths import Path, counted
from dualad.graph.trace import Trace
from dualad.jit.compiled import Compiled


def path_of(f, *xs):
    with Trace(tests=True) as trace:
        out = f(*map(trace.input, xs))
        return Path(trace.finish(optree.tree_leaves(out)), trace.tests)


def two_tests(x, y):
    if x > 0:
        y = y * 2.0
    if np.sum(y) > 1 and x < 5:
        return np.sin(y) * x
    return y * x


POINTS = [(1.0, np.ones(3)), (-1.0, np.ones(3)), (1.0, -np.ones(3)), (7.0, np.ones(3)), (-1.0, -np.ones(3))]


def test_a_program_without_tests_is_the_trace_and_one_of_all_paths_says_nothing_more():
    path = path_of(lambda x: x * 2.0, 1.0)
    assert counted([path])[0] is path.program
    program = counted([path_of(abs_of, 1.0), path_of(abs_of, -1.0)])[0]
    assert len(program.outputs) == 1 and [program.run(x)[0] for x in (2.0, -3.0)] == [2.0, 3.0]


def abs_of(x):
    return x if x > 0 else -x


def test_constants_are_no_tests():
    with Trace(tests=True) as trace:
        assert trace.lift(np.array(True)) and not trace.lift(np.array(False))
        assert trace.tests == []


def test_a_certain_program_makes_no_test_of_which_one_answer_is_known():
    """It is what pulls back: the step was made, so a test that is computed with other roundings must not lead to a path of zeros."""
    for count, tests in zip(range(1, len(POINTS) + 1), (0, 1, 2, 3, 4), strict=True):
        program = counted([path_of(two_tests, *point) for point in POINTS[:count]], certain=True)[0]
        assert len(program.outputs) == 1 and sum(map(branches_in, program.operations)) == tests
        for point in POINTS[:count]:
            assert program.run(*point)[0].tobytes() == two_tests(*point).tobytes()


def branches_in(operation):
    if type(operation.fn) is not Branch:
        return 0
    return 1 + sum(branches_in(inner) for body in operation.fn.bodies.values() for inner in body.operations)


@pytest.mark.parametrize(
    "test", [lambda x: x, lambda x: x > 0, lambda x: x[None] != 0, lambda x: (x * 2).astype(int)], ids=["x", "greater", "array", "int"]
)
@pytest.mark.parametrize("x", [np.array(2.0), np.array(0.0), np.array(np.nan)], ids=str)
def test_what_is_asked_may_be_a_number_or_an_array_of_one_element(test, x):
    f = lambda x: x * 3.0 if test(x) else x - 1.0
    with np.errstate(invalid="ignore"):
        assert np.array_equal(counted([path_of(f, x)])[0].run(x)[0], f(x), equal_nan=True)


def test_branches_of_equal_programs_are_equal_and_text_shows_their_arms():
    functions = abs_of, lambda x: x if x > 0 else -x, lambda x: x if x > 0 else 2.0 * x
    programs = [counted([path_of(f, 1.0), path_of(f, -1.0)])[0] for f in functions]
    one, same, other = (program.operations[-1].fn for program in programs)
    assert type(one) is Branch and one == same and hash(one) == hash(same) and one != other
    assert "then:" in str(programs[0]) and "otherwise:" in str(programs[0])


def test_outputs_of_branches_that_nobody_reads_need_no_operations():
    program = counted([path_of(lambda x: (x, np.sin(x)) if x > 0 else (-x, np.cos(x)), x) for x in (1.0, -1.0)])[0]
    del program.outputs[1]
    bodies = optimised(program).operations[-1].fn.bodies.values()
    assert [len(body.operations) for body in bodies] == [0, 1]


def test_a_branch_whose_test_is_known_is_one_arm():
    inner = Branch(*(path_of(f, 1.0).program for f in (np.sin, np.cos)))
    for truth, f in ((True, np.sin), (False, np.cos)):
        with Trace() as trace:
            program = optimised(trace.finish(list(inner(truth, trace.input(0.5)))))
        assert [operation.fn for operation in program.operations] == [f]


def test_an_arm_may_raise_at_the_values_of_the_other():
    def f(a, i):
        return np.sum(np.linalg.solve(a, a[i])) if np.abs(np.linalg.det(a)) > 0.5 else np.sum(a) * a[0, i]

    regular, singular = np.array([[2.0, 1.0], [0.5, 3.0]]), np.ones((2, 2))
    compiled = Compiled(counted([path_of(f, regular, 1), path_of(f, singular, 0)])[0])
    fast = lambda a: compiled(a, 1)[0]
    for a in (np.zeros((2, 2)), singular, regular):
        np.testing.assert_array_equal(checkpoint.grad(fast)(a), checkpoint.grad(lambda a: f(a, 1))(a))
        np.testing.assert_array_equal(dualad.jvp(fast, (a,), (a + 1.0,))[1], dualad.jvp(lambda a: f(a, 1), (a,), (a + 1.0,))[1])
