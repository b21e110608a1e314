"""map_gradients: values and gradients in order, whatever computes them; members that fail, and what is kept of the others."""

import multiprocessing
import pickle
import sys
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import optree
import parallel_programs as programs
import pytest
from comparing import close

from checkpoint import MemberError, chain, map_gradients, value_and_grad
from dualad import jit

CONTEXT = multiprocessing.get_context("spawn" if sys.platform == "win32" else "forkserver")
XS = [programs.X + k for k in range(7)]


@pytest.fixture(scope="module")
def processes():
    with ProcessPoolExecutor(2, CONTEXT) as pool:
        yield pool


@pytest.fixture(params=["here", "threads", "processes"])
def executor(request):
    if request.param == "processes":
        yield request.getfixturevalue("processes")
    elif request.param == "threads":
        with ThreadPoolExecutor(2) as pool:
            yield pool
    else:
        yield None


def squared_error(example, params):
    return (np.dot(params["w"], example[0]) + params["b"] - example[1]) ** 2


PARAMS = {"w": np.array([0.3, 0.1]), "b": 0.5}
EXAMPLES = [(np.array([1.0, 2.0]), 1.0), (np.array([3.0, 4.0]), 0.0), (np.array([5.0, 6.0]), 1.0)]
MAPPED = [(programs.energy, XS, (), 0), *((squared_error, EXAMPLES, (PARAMS,), argnums) for argnums in (1, (0, 1), -1))]


@pytest.mark.parametrize(("f", "members", "args", "argnums"), MAPPED)
def test_results_are_those_of_value_and_grad(executor, f, members, args, argnums):
    for g in [f] if executor is not None or f is programs.energy else [f, jit(f)]:
        values, gradients = map_gradients(g, iter(members), *args, argnums=argnums, executor=executor)
        for member, value, gradient in zip(members, values, gradients, strict=True):
            expected, slope = value_and_grad(f, argnums=argnums)(member, *args)
            assert value == pytest.approx(expected, rel=1e-14 if args else 1e-13)
            assert optree.tree_map(np.shape, gradient) == optree.tree_map(np.shape, slope)
            close(gradient, slope, rtol=1e-14 if args else 1e-12, atol=0.0 if args else 1e-14)
    assert map_gradients(f, [], *args, executor=executor) == ([], [])


def test_trees_arguments_and_chains_under_threads():
    step = jit(lambda k, x, p: x + 0.1 * p * np.sin(x))
    f = lambda members, p: np.sum(chain(step, members["x"], p, steps=20) ** 2)
    xs = [{"x": np.linspace(0, 1, 4) + k} for k in range(3)]
    with ThreadPoolExecutor(2) as pool:
        values, gradients = map_gradients(f, xs, 0.5, executor=pool)
    for x, value, gradient in zip(xs, values, gradients, strict=True):
        expected = value_and_grad(f)(x, 0.5)
        assert value == expected[0] and np.array_equal(gradient["x"], expected[1]["x"])


def test_members_come_back_in_order_though_the_first_is_the_slowest():
    def f(x):
        time.sleep(0.2 if float(x.primal) == 0.0 else 0.0)
        return x * x

    with ThreadPoolExecutor(3) as pool:
        assert map_gradients(f, [0.0, 1.0, 2.0, 3.0], executor=pool) == ([0.0, 1.0, 4.0, 9.0], [0.0, 2.0, 4.0, 6.0])


def test_a_member_that_fails_is_named_and_the_others_are_kept(executor):
    xs = [np.full(2, float(k)) for k in (0, 3, 1, 4, 2)]
    with pytest.raises(MemberError, match=r"members 1, 3 failed \(ValueError: no solution at .*3.0.*\), 3 of 5 are done") as caught:
        map_gradients(programs.some_fail, xs, executor=executor)
    for error in (caught.value, pickle.loads(pickle.dumps(caught.value))):
        assert list(error.errors) == [1, 3] and all(type(e) is ValueError for e in error.errors.values())
        assert [value is None for value in error.values] == [False, True, False, True, False]
        np.testing.assert_array_equal(error.gradients[2], 3.0 * xs[2] ** 2)
    assert caught.value.__cause__ is caught.value.errors[1]


@pytest.mark.slow
def test_a_worker_that_dies_does_not_take_the_results_with_it():
    xs = [np.full(2, float(k)) for k in (0, 1, 2, 3)]
    with ProcessPoolExecutor(1, CONTEXT) as pool, pytest.raises(MemberError, match=r"members? .*3 failed") as caught:
        map_gradients(programs.some_die, xs, executor=pool)
    assert "a worker of the ProcessPoolExecutor died while member 3 was computed" in str(caught.value.errors[3])
    np.testing.assert_array_equal(caught.value.gradients[0], np.zeros(2))


def test_wrong_calls(processes):
    shut = ThreadPoolExecutor(1)
    shut.shutdown()
    for call, error, reason in (
        (lambda: map_gradients([1.0], np.sum), TypeError, "map_gradients: the first argument is list"),
        (lambda: map_gradients(np.sum, [1.0], executor=2), TypeError, "map_gradients: executor is 2"),
        (lambda: map_gradients(lambda x: x, [np.ones(3)]), MemberError, r"0 failed \(TypeError: value_and_grad: f returns shape \(3,\)"),
        (lambda: map_gradients(np.sum, [np.ones(3)], executor=shut), MemberError, "the ThreadPoolExecutor is shut down"),
        (
            lambda: map_gradients(programs.energy, XS, argnums=1), ValueError,
            "map_gradients: argnums names argument 1, but the function was called with 1 positional",
        ),
        (
            lambda: map_gradients(lambda x: x, [1.0, 2.0], executor=processes), TypeError,
            "map_gradients: the ProcessPoolExecutor sends the function to other processes",
        ),
        (
            lambda: map_gradients(programs.energy, [programs.X], lambda: 1.0, executor=processes), TypeError,
            "sends the members and arguments to",
        ),
    ):  # fmt: skip
        with pytest.raises(error, match=reason):
            call()


def test_an_interrupt_leaves_nothing_running():
    calls = []

    def f(x):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        time.sleep(0.01)
        return x * x

    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(KeyboardInterrupt):
            map_gradients(f, [1.0] * 50, executor=pool)
        count = len(calls)
        time.sleep(0.1)
        assert len(calls) == count <= 5


def test_a_bar(bars):
    map_gradients(np.sum, XS, progress=True)
    assert [(bar.desc, bar.unit, bar.total, bar.count, bar.closed) for bar in bars] == [("map_gradients", "member", 7, 7, True)]


def swing(state, rate):
    step = lambda k, s, rate: (s[0] + 0.01 * s[1], s[1] - 0.01 * rate * np.sin(s[0]))
    angle, speed = chain(step, (state["angle"], state["speed"]), rate, steps=30)
    return angle * angle + speed


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"threads": 2}])
def test_members_of_a_compiled_function_have_the_bits_of_single_calls_and_no_call_of_their_own(options):
    f, one = jit(swing, **options), jit(value_and_grad(swing), **options)
    numbers = np.random.default_rng(0).random((20, 2)).tolist()
    for xs in ([{"angle": a, "speed": b} for a, b in numbers], [{"angle": np.array(a), "speed": np.float64(b)} for a, b in numbers]):
        values, gradients = map_gradients(f, xs, 9.8)
        for x, value, gradient in zip(xs, values, gradients, strict=True):
            assert (value, gradient) == one(x, 9.8)
            plain = value_and_grad(f)(x, 9.8)[1]
            assert [type(leaf) for leaf in gradient.values()] == [type(leaf) for leaf in plain.values()]
    (compiled,) = f.gradients.values()
    assert compiled.traces == 2 and all(entry.compiled.made is None for entry in compiled.entries.values())  # of two kinds of numbers


def test_without_a_compiler_members_are_computed_one_by_one():
    f = jit(swing, backend="numpy")
    xs = [{"angle": 0.1 * k, "speed": 1.0} for k in range(3)]
    assert list(zip(*map_gradients(f, xs, 9.8), strict=True)) == [value_and_grad(f)(x, 9.8) for x in xs]


def test_rows_of_an_array_and_members_that_differ_in_shape():
    f = jit(lambda x, p: p * np.sum(x**3))
    xs = np.arange(6.0).reshape(3, 2)
    values, gradients = map_gradients(f, xs, 0.5)
    assert values == [0.5, 17.5, 94.5] and np.array_equal(gradients, 1.5 * xs**2)
    values, gradients = map_gradients(f, [np.ones(2), np.ones(3)], 0.5)
    assert values == [1.0, 1.5] and [len(g) for g in gradients] == [2, 3]
    assert map_gradients(f, [], 0.5) == ([], [])


def test_a_member_of_a_compiled_function_that_fails_is_named():
    f = jit(lambda x, p: p[np.rint(x["i"]).astype(int)] * x["x"])
    xs = [{"x": 1.0 + k, "i": float(i)} for k, i in enumerate((0, 1, 5, 1))]
    with pytest.raises(MemberError, match=r"member 2 failed \(IndexError.*\), 3 of 4 are done") as caught:
        map_gradients(f, xs, np.array([2.0, 3.0]))
    assert caught.value.values == [2.0, 6.0, None, 12.0] and caught.value.gradients[3] == {"i": 0.0, "x": 3.0}
    with pytest.raises(MemberError, match=r"members 0, 1 failed \(TypeError: value_and_grad: .*shape"):
        map_gradients(jit(lambda x: x), [np.ones(2), np.zeros(2)])
