"""Every row of the table, compiled: its values, JVPs and VJPs are the eager ones, for every backend."""

import numpy as np
import optree
import pytest
import samples_more  # noqa: F401  (enters its samples)
from cases import all_cases
from comparing import close
from in_groups import for_each
from samples import CONSTANTS, SAMPLES
from test_directions import push_together

from checkpoint import grad, vjp
from dualad import gradient, jit, jvp
from dualad.forward.seeding import flatten_output
from dualad.jit.compiled import BACKENDS
from dualad.rules.calling import public_name
from dualad.rules.kinds import ROWS

backends = pytest.mark.parametrize("backend", BACKENDS)
#: functions that look at values, but as a test, which is a path
BY_TESTS = {np.linalg.lstsq}
COMPILED = [fn for fn in SAMPLES if not ROWS[fn].value_dependent or fn in BY_TESTS]
rows = for_each("fn", COMPILED, public_name, size=4)
refused = for_each("fn", [fn for fn in SAMPLES if ROWS[fn].value_dependent and fn not in BY_TESTS], public_name)

FIRST, DERIVED = 3, 2  # samples that are always compiled, and those whose derivatives are; all are in the long test
#: rounding of the same operations in another order, for single precision and double
CLOSE = {False: 2e-5, True: 1e-12}


def leaves_of(out):
    return flatten_output(out, "test")[0]


def assert_same(got, expected, precise, what):
    assert len(got) == len(expected), what
    for a, b in zip(got, expected, strict=True):
        assert np.shape(a) == np.shape(b), what
        scale = float(np.max(np.abs(b), initial=0.0))
        np.testing.assert_allclose(a, b, rtol=CLOSE[precise], atol=CLOSE[precise] * max(scale, 0.1), err_msg=what)


def check_row(fn, backend, chosen, derived):
    """Compare a compiled row with the eager one at the chosen samples, with derivatives at some of them."""
    for k in chosen:
        case = all_cases(fn)[k]
        if not case.leaves:
            continue
        compiled, what = jit(case.whole, backend=backend), str(case.sample)
        got, expected = leaves_of(compiled(*case.leaves)), leaves_of(case.value)
        assert_same(got, expected, case.precise, what)
        assert [np.asarray(a).dtype for a in got] == [np.asarray(b).dtype for b in expected], what
        if not any(case.inexact) or k not in derived:
            continue

        def inexact(*leaves):
            return [leaf for leaf, kept in zip(leaves_of(compiled(*leaves)), case.inexact, strict=True) if kept]

        if k % 2 == 0:  # of the first sample both modes, of the others one in turn
            assert_same(jvp(inexact, tuple(case.leaves), tuple(case.v))[1], case.pushed, case.precise, what)
        if k == 0 or k % 2:
            assert_same(list(vjp(inexact, *case.leaves)[1](case.g)), case.pulled, case.precise, what)


@backends
@rows
def test_a_compiled_row_is_the_eager_one(fn, backend):
    """The first samples; of NumPy's backend, which calls the functions as they are, every third."""
    count = len(SAMPLES[fn])
    chosen = range(0, count, 3) if backend == "numpy" else range(min(FIRST, count))
    check_row(fn, backend, chosen, range(0 if backend == "numpy" else DERIVED))  # a row's derivatives are the same program in both


@pytest.mark.long
@for_each("fn", [fn for fn in COMPILED if len(SAMPLES[fn]) > DERIVED], public_name, size=4)
def test_further_samples_and_their_derivatives(fn):
    check_row(fn, [*BACKENDS][-1], *[range(DERIVED, len(SAMPLES[fn]))] * 2)


@rows
def test_compiled_derivatives_are_the_eager_ones(fn):
    case = all_cases(fn)[0]
    if not case.leaves or not any(case.inexact):
        return

    @jit
    def push(leaves, directions):
        return push_together(case, leaves, directions, 2)

    @jit
    def pull(leaves, cotangents):
        return list(vjp(lambda *leaves: case(leaves), *leaves)[1](cotangents))

    together = [np.stack(pair) for pair in zip(case.v, case.w, strict=True)]
    assert_same(push(case.leaves, together), push_together(case, case.leaves, together, 2), case.precise, str(case.sample))
    assert_same(pull(case.leaves, case.g), case.pulled, case.precise, str(case.sample))


@refused
def test_rows_that_look_at_values_are_refused_by_name(fn):
    for case in all_cases(fn):
        looked_at = optree.tree_leaves(ROWS[fn].looked_at(case.sample.fill(case.leaves), case.sample.kwargs))
        if ROWS[fn].kind == "composite" and any(leaf is part for leaf in case.leaves for part in looked_at):
            with pytest.raises(TypeError, match=f"{public_name(fn)} looks at values"):
                jit(case.whole)(*case.leaves)


@pytest.mark.slow
@pytest.mark.filterwarnings(r"ignore:numpy\.\w+ is deprecated:DeprecationWarning")
@backends
def test_functions_without_derivative_are_compiled(backend):
    tried = 0
    for fn, samples in CONSTANTS.items():
        for sample in samples:
            try:
                compiled = jit(lambda *leaves: fn(*sample.fill(leaves), **sample.kwargs), backend=backend)
                got = compiled(*sample.leaves())
            except TypeError as error:
                assert "jit: " in str(error), (fn, error)
                continue
            np.testing.assert_equal(got, fn(*sample.fill(sample.leaves()), **sample.kwargs), err_msg=f"{public_name(fn)}{sample}")
            tried += 1
    assert tried > 60


Y, W, TIMES = np.cos(np.arange(12.0)), np.linspace(0.5, 2.0, 12), np.linspace(0.0, 1.0, 12)
BY_LINEAR_DATA = {
    "polyfit": lambda y: np.polyfit(TIMES, y, 2),
    "polyfit, all": lambda y: np.polyfit(TIMES, y, 2, w=W, cov=True),
    "polyfit, by place": lambda y: np.polyfit(TIMES, y, 2, None, True, W)[:2],
    "lstsq": lambda y: np.linalg.lstsq(np.vander(TIMES, 3), y)[:2],
    "lstsq, short of rank": lambda y: np.linalg.lstsq(np.ones((12, 3)), y)[0],
    "histogram": lambda y: np.histogram(TIMES, 4, weights=y),
    "histogram, density": lambda y: np.histogram(TIMES, bins=[0.0, 0.3, 1.0], density=True, weights=y)[0],
    "histogram of traced values": lambda y: np.histogram(y, 5, (-1.0, 0.8), weights=y * y),
    "histogram of traced values, edges": lambda y: np.histogram(y, [-1.0, -0.2, 0.5], density=True, weights=y * y),
    "histogram2d of traced values": lambda y: np.histogram2d(y, TIMES, [2, 3], [(-1.0, 1.0), (0.0, 1.0)], weights=y)[0],
    "histogramdd of traced values": lambda y: np.histogramdd(np.stack([y, y**2], axis=1), ([-1.0, 0.0, 1.0], [0.1, 0.5]), weights=y)[0],
    "histogram, counts": lambda y: y * np.histogram(y, 4, (-1.0, 1.0))[0][1],
}


@backends
@pytest.mark.parametrize("f", BY_LINEAR_DATA.values(), ids=BY_LINEAR_DATA)
def test_rows_that_look_at_the_values_of_other_arguments_only_are_compiled(f, backend):
    leaves = lambda y: optree.tree_leaves(f(y))
    loss = lambda y: sum(np.sum(np.cos(leaf)) for leaf in leaves(y))
    close(jit(leaves, backend=backend)(Y), leaves(Y), rtol=1e-11, atol=1e-13)
    for got in (jit(grad(loss), backend=backend)(Y), grad(jit(loss, backend=backend))(Y), jit(gradient(loss), backend=backend)(Y)):
        np.testing.assert_allclose(got, grad(loss)(Y), rtol=1e-10, atol=1e-13)
    with pytest.raises(TypeError, match="looks at values"):
        jit(lambda x: np.polyfit(x, Y, 2))(TIMES)
    with pytest.raises(TypeError, match="looks at values"):
        jit(lambda w: np.polyfit(TIMES, Y, 2, w=w))(W)


def test_the_rank_of_a_matrix_is_a_test():
    a, y = np.array([[1.0, 0.5], [0.2, -1.0], [0.7, 0.3]]), Y[:3]
    solved = lambda a: np.linalg.lstsq(a, y)
    loss = lambda a: np.sum(np.cos(solved(a)[0])) + np.sum(solved(a)[1])
    compiled, slope = jit(solved, backend="numpy"), jit(grad(loss), backend="numpy")
    for at in (a, np.ones((3, 2)), 1.1 * a, a):  # of rank 2, 1, 2, 2
        close(compiled(at), solved(at), rtol=1e-11, atol=1e-13)
        np.testing.assert_allclose(slope(at), grad(loss)(at), rtol=1e-10, atol=1e-13)
