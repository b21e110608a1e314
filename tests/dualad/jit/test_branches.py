"""Branches on values compile as they stand: all of Python's ways to ask for a truth, against the plain function on all paths."""

import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from comparing import close, eager, outcome, same

import checkpoint
import dualad
from dualad import jit
from dualad.graph.to_numpy import compile_python
from dualad.graph.trace import TraceError
from dualad.jit import tracing
from dualad.jit.compiled import BACKENDS, Compiled

pytestmark = pytest.mark.parametrize("backend", BACKENDS)


def by_if(x):
    if x[0] > 0.5:
        x = x * 2.0
    elif x[1] > 0.5:
        return x[::-1] ** 2
    return np.sin(x)


def by_while(x):
    while np.sum(x * x) > 1.0:
        x = x / 2.0 + 0.01 * np.cos(x)
    return x


def by_break(x):
    y = x
    for k in range(5):
        y = y + k * x
        if y[0] > 2.0:
            break
    else:
        return y * y
    return y + 1.0


def by_and_or(x):
    if (x[0] > 0.2 and x[1] > 0.3) or not x[2] > 0.1:
        return x * 3.0
    return x * x


def by_assert(x):
    assert np.all(np.isfinite(x)), "not finite"
    assert x[0] > -5.0
    return np.exp(-x)


def by_min_max(x):
    return max(x[0], x[1], x[2]) * min(x[1], 0.3) + sorted([x[0], x[1]])[1]


def by_clamp(x):
    s = np.sum(x)
    return x * min(max(s, 0.5), 2.0)


def by_any_all(x):
    return x * 2.0 if any(v > 1.0 for v in x) or all([x[0] > 0, x[1] > 0]) else x - 1.0


def by_return(x):
    norm = np.sqrt(np.sum(x**2))
    if norm < 1.0:
        return norm * x
    if norm < 2.0:
        return x / norm
    return x


def by_truth(x):
    return x if np.round(x[0]) else x[:1] * x


def nested(x):
    y = x * 1.5
    if y[0] > 0:
        if y[1] > 0:
            y = y * y[0]
        else:
            y = y - y[1]
    if y[2] > y[0]:
        y = np.tanh(y)
    return y * 2.0


def by_match(x):
    return x * {True: 1.0, False: -2.0}[bool(x[0] > 0)]


def by_loop_of_tests(x):
    y = np.zeros_like(x)
    for i in range(3):
        y[i] = x[i] if x[i] > 0 else 0.1 * x[i]
    return y


FUNCTIONS = [by_if, by_while, by_break, by_and_or, by_assert, by_min_max, by_clamp, by_any_all, by_return, by_truth, nested, by_match,
             by_loop_of_tests]  # fmt: skip
RNG = np.random.default_rng(3)
POINTS = [RNG.uniform(-1.0, 1.0, 3) * scale for scale in (0.3, 1.0, 1.0, 1.0, 2.0, 3.0) for _ in range(3)]


@pytest.mark.parametrize("f", FUNCTIONS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_values_are_those_of_the_plain_function_on_all_paths(f, dtype, backend):
    fast = jit(f, backend=backend)
    for _ in range(2):
        for x in POINTS:
            x = x.astype(dtype)
            result, plain = fast(x), f(x)
            assert type(result) is type(plain)
            if backend == "numpy":
                same(result, plain)
            close(result, plain, *[1e-14 if dtype == "float64" else 1e-6] * 2)
    assert 1 <= fast.traces <= 16
    assert f"{fast.traces} path" in fast.explain(POINTS[0].astype(dtype)) and f.__name__ in fast.explain(POINTS[0].astype(dtype))


@pytest.mark.parametrize("f", FUNCTIONS)
def test_derivatives_are_those_of_eager_code(f, backend):
    order = 2 if f in ((by_if, by_while, by_min_max, nested) if backend == "numpy" else (nested,)) else 1
    eager(f, *((x,) for x in POINTS[::3]), backend=backend, rtol=1e-13, atol=1e-13, second=100.0, order=order)
    inner = jit(f, backend=backend)
    for x in POINTS[::6]:
        for jacobian in (dualad.jacobian, checkpoint.jacobian):
            close(jacobian(inner)(x), jacobian(f)(x), 1e-13, 1e-13)


def test_compiled_functions_in_compiled_functions_branch(backend):
    inner = jit(by_if, backend=backend)
    outer = jit(lambda x: inner(x) * 2.0 if np.sum(inner(x)) > 0 else inner(-x), backend=backend)
    for x in POINTS:
        close(outer(x), by_if(x) * 2.0 if np.sum(by_if(x)) > 0 else by_if(-x), 1e-13)


def newton(a):
    x = a
    while abs(x * x - a) > 1e-10 * a:
        x = 0.5 * (x + a / x)
    return x


def test_a_loop_that_ends_by_a_condition_has_a_path_for_each_number_of_turns(backend):
    fast, slope = jit(newton, backend=backend), jit(checkpoint.grad(newton), backend=backend)
    for a in (2.0, 1e4, 3.0, 1e-3, 2.5):
        for x in (a, np.float64(a), np.array(a)):
            assert type(fast(x)) is type(newton(x)) and fast(x) == newton(x)
        close(slope(a), checkpoint.grad(newton)(a))
        np.testing.assert_allclose(slope(a), 0.5 / np.sqrt(a), rtol=1e-4)


def test_complex_numbers_integers_and_flags(backend):
    def f(z, n, flag):
        if abs(z) > 1.0 and n % 3 == 1:
            z = z / abs(z)
        return (z * n, n + 1) if not flag else (z + 2.0, n)

    fast = jit(f, backend=backend)
    for z in (0.5 + 0.1j, 2.0 - 1.0j):
        for n in (1, 2, 4):
            for flag in (np.bool_(True), np.bool_(False)):
                for a, b in zip(fast(z, n, flag), f(z, n, flag), strict=True):
                    assert type(a) is type(b)
                    np.testing.assert_allclose(a, b, rtol=1e-14)


def test_a_branch_on_nan_goes_python_s_way(backend):
    f = lambda x: x * 2.0 if x > 0 else x - 1.0 if x <= 0 else x * 0.0 + 7.0 if not x < 0 else x
    fast = jit(f, backend=backend)
    for x in (1.0, np.nan, -1.0, np.nan, np.inf, -np.inf, 0.0, -0.0):
        np.testing.assert_array_equal(fast(x), f(x))


def test_a_path_that_raises_raises_what_the_function_does(backend):
    class Diverged(Exception):
        pass

    def f(x):
        if not np.all(np.isfinite(x)):
            raise Diverged(f"at {x[0]:.1f}")
        if x[0] > 100.0:
            raise ValueError(f"too large: {x}")
        return x * 2.0

    for first in (np.ones(2), np.array([np.nan, 1.0])):
        fast = jit(f, backend=backend)
        for x in (first, np.ones(2), np.array([np.inf, 1.0]), np.full(2, 200.0), np.ones(2)):
            same(outcome(fast, x), outcome(f, x))


def test_an_index_out_of_bounds_on_one_path_is_numpy_s_error(backend):
    def f(x, i):
        return x[i] if x[0] > 0 else x[i + 2]

    fast = jit(f, backend=backend)
    assert (fast(np.arange(3.0) + 1.0, 2), fast(-np.arange(3.0), 0)) == (3.0, -2.0)
    with pytest.raises(IndexError, match="out of bounds"):
        fast(-np.arange(3.0), 1)
    assert fast(-np.arange(3.0), 0) == -2.0


def test_a_mask_of_several_elements_has_no_truth_value(backend):
    fast = jit(lambda x: x if x > 0 else -x, backend=backend)
    with pytest.raises(ValueError, match="truth value of an array with more than one element is ambiguous"):
        fast(np.ones(3))
    assert fast(np.full(1, -2.0)) == 2.0


def test_more_paths_than_allowed_are_evaluated_by_the_plain_function_with_one_warning(backend):
    def f(x):
        for bound in range(8):
            if x < bound:
                return x * bound
        return x

    fast = jit(f, backend=backend, paths=3)
    for x in (0.5, 1.5, 2.5):
        assert fast(x) == f(x)
    with pytest.warns(UserWarning, match=rf"test_branches.py, line {f.__code__.co_firstlineno + 2}: f takes more than 3 paths.*paths=6"):
        assert fast(3.5) == f(3.5)
    assert [fast(x) for x in (0.5, 3.5, 4.5, 9.0, 2.5)] == [f(x) for x in (0.5, 3.5, 4.5, 9.0, 2.5)]
    assert fast.traces == 3
    assert checkpoint.grad(fast)(5.5) == 6.0 and dualad.derivative(fast)(5.5) == 6.0


TYPES = [
    lambda x: x * 2.0 if x[0] > 0 else (x, 1),
    lambda x: max(x[0], 0),
    lambda x: "positive" if x[0] > 0 else x,
    lambda x: x if x[0] > 0 else None,
    lambda x: {"a": x[0], "b": True} if x[0] > 0 else {"a": x, "b": False},
    lambda x: np.sum(x) if x[0] > 0 else np.asarray(x[0]),
]


@pytest.mark.parametrize("f", TYPES)
def test_results_of_several_types(f, backend):
    fast = jit(f, backend=backend)
    for x in (np.ones(2), -np.ones(2), np.full(2, 0.5), np.full(2, -0.5), np.zeros(2)) * 2:
        same(fast(x), f(x))
    assert len(fast.entries[next(iter(fast.entries))].paths) == 2


def test_derivatives_of_results_of_several_types(backend):
    f = lambda x: max(x, 0) if x < 2.0 else np.sin(x) * x
    fast, inner = jit(checkpoint.grad(lambda x: f(x) * 1.0), backend=backend), jit(f, backend=backend)
    for x in (1.0, -1.0, 3.0, 0.5, 2.5):
        expected = 1.0 if 0 < x < 2 else np.cos(x) * x + np.sin(x) if x > 2 else 0.0
        assert fast(x) == pytest.approx(expected, rel=1e-14)
        assert dualad.derivative(lambda x: inner(x) * 1.0)(x) == pytest.approx(expected, rel=1e-14)


def test_a_path_that_cannot_be_traced_is_evaluated_by_the_plain_function_with_one_warning(backend):
    f = lambda x: x * 2.0 if x > 0 else float(x) * 3.0
    fast = jit(f, backend=backend)
    assert fast(np.float64(1.0)) == 2.0
    with pytest.warns(UserWarning, match=r"float\(\) .* evaluated by the plain function"):
        assert fast(np.float64(-1.0)) == -3.0
    assert fast(np.float64(-1.0)) == -3.0 and fast(np.float64(1.0)) == 2.0


def test_a_loop_that_never_ends_is_an_error_that_names_its_line(backend, monkeypatch):
    monkeypatch.setattr("dualad.graph.trace.PROGRAM_OPERATIONS", 60)

    def f(x):
        while x > 0:
            x = x + 1.0
        return x

    fast = jit(f, backend=backend)
    assert fast(-1.0) == -1.0
    with pytest.raises(TraceError, match=rf"test_branches.py, line {f.__code__.co_firstlineno + 1}"):
        jit(f, backend=backend)(1.0)


def test_recursion_on_traced_values(backend):
    def power(x, n):
        return 1.0 if n == 0 else x * power(x, n - 1)

    fast = jit(power, backend=backend)
    for n in (3, 1, 5):
        assert fast(2.0, n) == power(2.0, n)
    endless = lambda x: endless(x) if x > 0 else x
    with pytest.raises(RecursionError):
        jit(endless, backend=backend)(1.0)


def test_branches_on_what_is_not_traced_need_no_test(backend):
    table = np.array([1.0, -1.0])

    def f(x, n):
        return x * 2.0 if table[0] > 0 and len(x) > n and x.ndim == 1 else x

    fast = jit(f, backend=backend, static_argnames="n")
    assert fast(np.ones(3), n=2)[0] == 2.0 and "paths" not in fast.explain(np.ones(3), n=2)
    table[0] = -1.0
    assert fast(np.ones(3), n=2)[0] == 1.0


def test_a_change_of_what_paths_read_traces_again(backend):
    table = np.array([1.0, 2.0])

    def f(x):
        return x * table[0] if x > 0 else x * table[1]

    fast = jit(f, backend=backend)
    assert (fast(1.0), fast(-1.0), fast.traces) == (1.0, -2.0, 2)
    table[:] = 5.0
    assert (fast(-1.0), fast(1.0), fast.traces) == (-5.0, 5.0, 4)


def test_every_call_is_compared_on_all_paths(backend):
    fast = jit(by_if, backend=backend, verify=True)
    for x in POINTS:
        close(fast(x), by_if(x))
    assert fast.verifications == len(POINTS)


def test_threads_that_meet_a_new_path_make_one(backend):
    fast = jit(by_if, backend=backend)
    points = [x for x in POINTS if x[0] <= 0.5][:1] * 4 + [x for x in POINTS if x[0] > 0.5][:1] * 4
    fast(points[0])
    with ThreadPoolExecutor(8) as pool:
        for result, x in zip(pool.map(fast, points * 4), points * 4, strict=True):
            close(result, by_if(x))
    assert fast.traces == 2


def test_the_text_of_a_program_shows_its_arms(backend):
    fast = jit(by_return, backend=backend)
    fast(np.full(3, 0.1))
    fast(np.full(3, 5.0))
    text = fast.program(np.ones(3))
    assert "then:" in text and "otherwise:" in text and f"test_branches.py:{by_return.__code__.co_firstlineno + 2}" in text
    assert "2 paths" in fast.explain(np.ones(3)) and "others are traced when they are met" in fast.explain(np.ones(3))


@pytest.mark.parametrize("text", [lambda k, x: f"step {k}: {x[0]:.1f}", lambda k, x: x[:1], lambda k, x: f"{x[0]} and {3:d}"])
def test_what_a_path_prints_is_printed_as_often_as_without_jit(text, backend, capsys):
    def f(k, x):
        if k % 3 == 0:
            print(text(k, x))
        return x * 2.0

    fast = jit(f, backend=backend)
    for order in ((0, 1, 3, 4, 6), (1, 2, 3, 4, 6)):
        for k in order:
            x = np.full(2, float(k))
            assert fast(k, x)[0] == 2.0 * k
            assert capsys.readouterr().out == (f"{text(k, x)}\n" if k % 3 == 0 else "")
            assert dualad.jvp(lambda x, k=k: fast(k, x), (x,), (np.ones(2),))[1][0] == 2.0
            capsys.readouterr()
        fast.cache_clear()
    fast(1, np.ones(2))
    assert "the plain function where" not in fast.explain(1, np.ones(2))
    fast(3, np.ones(2))
    assert "evaluated by the plain function where it " in fast.explain(1, np.ones(2))


def test_what_a_function_prints_that_does_not_branch_is_printed_while_it_is_traced(backend, capsys):
    fast = jit(lambda x: (print("here"), x * 2.0)[1], backend=backend, verify=False)
    with pytest.warns(UserWarning, match=r"^jit: <lambda>: it prints while it is traced, and not in later calls"):
        fast(1.0), fast(2.0)
    assert capsys.readouterr().out == "here\n" * 2


def test_programs_that_learn_paths_are_compiled_when_they_learn_no_more(backend, monkeypatch):
    if backend == "numpy":
        pytest.skip("what NumPy runs need not wait")
    made = []
    monkeypatch.setitem(BACKENDS, backend, lambda program: made.append(program) or compile_python(program))
    monkeypatch.setattr(tracing, "Compiled", Compiled)
    f = lambda x: next((x * k for k in range(1, 12) if x < k), x)
    fast = jit(f, backend=backend)
    slope = checkpoint.grad(fast)
    for _ in range(3):
        for k in range(12):
            assert (fast(k + 0.5), slope(k + 0.5)) == (f(k + 0.5), min(k + 1.0, 11.0 if k < 11 else 1.0))
    assert fast.traces == 12 and len(made) == 6  # the first path and the halves of its gradient, the program of all and those of its own


@pytest.mark.parametrize(
    ("find", "good", "bad"), [(np.quantile, 0.4, 1.5), (np.percentile, np.array([0.0, 100.0]), np.array([50.0, -1.0]))]
)
def test_quantiles_that_are_no_shares_raise_the_error_of_numpy(find, good, bad, backend):
    x, fast = np.array([3.0, 1.0, 2.0]), jit(find, backend=backend)
    np.testing.assert_allclose(fast(x, good), find(x, good), rtol=1e-15)
    with pytest.raises(ValueError, match="must be in the range") as expected:
        find(x, bad)
    for q in (bad, np.nan * bad, bad):
        with pytest.raises(ValueError, match=re.escape(str(expected.value))):
            fast(x, q)


@pytest.mark.slow
def test_many_tests_one_after_the_other(backend):
    """They are no branches in each other: what follows may be computed where they are answered otherwise, and raise there."""
    tests = [f"    if np.sum(np.sin(x * {k + 1})) > {k + 9}:\n        x = x * {1 - k / 1000}" for k in range(32)]
    ends = ["    if np.min(x) <= 0:\n        return x * x", "    return np.linalg.solve(np.eye(2) * x, x) + np.log(x)"]
    space = {"np": np}
    exec("\n".join(["def f(x):", *tests, *ends]), space)
    f = space["f"]
    fast = jit(f, backend=backend)
    total = lambda f: lambda x: np.sum(f(x) * np.array([1.0, 0.3]))
    for x in np.array([[0.3, 0.4], [-1.0, 0.0], [0.3, 0.41]]):
        for _ in range(2):
            np.testing.assert_allclose(fast(x), f(x), rtol=1e-12)
            np.testing.assert_allclose(checkpoint.grad(total(fast))(x), checkpoint.grad(total(f))(x), rtol=1e-10)
    assert fast.traces <= 3


def test_a_loop_that_is_too_long_to_trace_is_told_before_the_plain_function_runs(backend, monkeypatch):
    monkeypatch.setattr("dualad.graph.trace.PROGRAM_OPERATIONS", 200)

    def endless(x):
        while x > 0.0:
            x = x + 1.0
            if x > 1000.0:
                raise OverflowError("it never ends")
        return x

    fast = jit(endless, backend=backend)
    assert fast(-1.0) == -1.0
    with pytest.warns(UserWarning, match=r"test_branches.py, line \d+: more than 200 operations"), pytest.raises(OverflowError):
        fast(0.5)
