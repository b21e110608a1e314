"""Results of compiled functions are compared with those of the plain ones: at calls 2, 4, 8, ...; what is stale is traced again."""

import logging
import os
import sys
import threading
import warnings

import numpy as np
import pytest

from checkpoint import grad, vjp
from dualad import StaleWarning, derivative, gradient, jacobian, jit, jvp
from dualad.jit import verify

X = np.array([1.0, 2.0, 3.0])
BACKENDS = ["numpy", "llvm"]


@pytest.fixture
def outside(monkeypatch):
    """A value outside that is not watched, and the function that sets it."""
    monkeypatch.setenv("DUALAD_TEST_VALUE", "1.0")

    def change(value):
        monkeypatch.setenv("DUALAD_TEST_VALUE", str(value))

    return change


def read():
    return float(os.environ["DUALAD_TEST_VALUE"])


# --- when -----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_calls_are_compared_at_powers_of_two(backend, monkeypatch):
    monkeypatch.setattr(verify, "COMPARISON_SHARE", 1e9)  # whatever they take
    f = jit(lambda x: np.sin(x), backend=backend)
    compared = []
    for k in range(1, 70):
        before = f.verifications
        f(0.5)
        if f.verifications > before:
            compared.append(k)
    assert compared == [2, 4, 8, 16, 32, 64] and f.traces == 1


def test_programs_are_compared_one_by_one(monkeypatch):
    monkeypatch.setattr(verify, "COMPARISON_SHARE", 1e9)
    f = jit(lambda x: np.sin(x))
    for _ in range(8):
        f(X), f(0.5)
    assert f.verifications == 6 and f.traces == 2


def test_comparisons_are_put_off_until_they_fit(monkeypatch):
    monkeypatch.setattr(verify, "COMPARISON_SHARE", 1e-9)
    f = jit(lambda x: np.sin(x))
    for _ in range(40):
        f(0.5)
    assert f.verifications == 1, "that of call 2"
    monkeypatch.setattr(verify, "COMPARISON_SHARE", 1e9)
    for _ in range(40):
        f(0.5)
    assert f.verifications >= 2


@pytest.mark.parametrize("verify", [True, False])
def test_every_call_or_none(verify, outside):
    f = jit(lambda x: x * read(), verify=verify)
    assert [f(2.0) for _ in range(5)] == [2.0] * 5
    assert f.verifications == (5 if verify else 0)
    outside(3.0)
    if verify:
        with pytest.warns(StaleWarning, match=r"the result is 6\.0, the old program gave 2\.0"):
            assert f(2.0) == 6.0
    assert f(2.0) == (6.0 if verify else 2.0)
    assert jit(verify=verify)(f.f)(2.0) == 6.0


# --- what is stale ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_stale_program_is_traced_again_and_warns_once(backend, outside):
    f = jit(lambda x: {"a": x * 2.0, "b": [x * read(), "text"]}, backend=backend)
    f(X)
    outside(5.0)
    with pytest.warns(StaleWarning, match=r"the result\['b'\]\[0\] is 5\.0 at 0, the old program gave 1\.0") as caught:
        out = f(X)
    assert len(caught) == 1 and f.traces == 2 and caught[0].filename == __file__
    np.testing.assert_array_equal(out["b"][0], 5.0 * X)
    for _ in range(9):
        np.testing.assert_array_equal(f(X)["b"][0], 5.0 * X)
    assert f.traces == 2


def test_programs_of_other_arguments_are_forgotten_too(outside):
    f = jit(lambda x: x * read())
    assert f(2.0) == f(2.0) == 2.0 and (f(X) == X).all()
    outside(2.0)
    with pytest.warns(StaleWarning):
        f(X)
    assert f(2.0) == 4.0


def test_a_change_of_structure_or_shape(outside):
    f = jit(lambda x: (x, x) if read() == 1.0 else [x])
    f(1.0)
    outside(2.0)
    with pytest.warns(StaleWarning, match="the result has another structure"):
        assert f(1.0) == [1.0]
    f = jit(lambda x: x[: int(read())])
    f(X)
    outside(1.0)
    with pytest.warns(StaleWarning, match=r"the result has the shape \(1,\), the old program gave \(2,\)"):
        np.testing.assert_array_equal(f(X), X[:1])


def test_of_derivatives(outside):
    """Compiled derivatives are compared whole; of compiled functions that are differentiated, the values."""
    square = jit(lambda x: x**2 * read())
    made = {
        "grad": (jit(grad(lambda x: np.sum(x**2) * read())), lambda v: 2 * v * X),
        "jvp": (jit(lambda x: jvp(lambda x: x * read(), (x,), (np.ones(3),))[1]), lambda v: v * np.ones(3)),
        "jacobian": (jit(jacobian(lambda x: x**2 * read())), lambda v: np.diag(2 * v * X)),
        "second": (jit(derivative(derivative(lambda t: t**3 * read()))), lambda v: 6 * v * X[0]),
        "of compiled": (grad(jit(lambda x: np.sum(x**2) * read())), lambda v: 2 * v * X),
        "forward of compiled": (gradient(jit(lambda x: np.sum(x**2) * read())), lambda v: 2 * v * X),
        "pulled": (lambda x: vjp(square, x)[1](np.ones(3))[0], lambda v: 2 * v * X),
        "directions": (jacobian(jit(lambda x: x**2 * read())), lambda v: np.diag(2 * v * X)),
    }
    for name, (f, expected) in made.items():
        outside(1.0)
        x = X[0] if name == "second" else X
        np.testing.assert_allclose(f(x), expected(1.0), rtol=1e-15, err_msg=name)
        outside(4.0)
        with pytest.warns(StaleWarning):
            got = f(x)
        np.testing.assert_allclose(got, expected(4.0), rtol=1e-15, err_msg=name)


def test_compiled_functions_in_one_that_is_compared(outside):
    """They are evaluated plainly, and traced again: a stale one does not confirm another."""
    inner = jit(lambda x: x * read())
    table = jit(lambda n: np.arange(3.0) * read() + n)
    f = jit(lambda x: inner(x) + table(0.0))
    np.testing.assert_array_equal(f(X), X + np.arange(3.0))
    outside(3.0)
    with pytest.warns(StaleWarning):
        np.testing.assert_array_equal(f(X), 3.0 * X + 3.0 * np.arange(3.0))


def test_a_function_that_calls_itself():
    def f(x, n):
        return x if n == 0 else x * g(x, n - 1)

    g = jit(f, static_argnums=1)
    assert [g(2.0, n) for n in (3, 3, 2, 2)] == [16.0, 16.0, 8.0, 8.0]
    assert g.verifications == 2 and g.traces == 2


# --- what is no staleness -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_rounding_decides_is_compared_no_more():
    x = np.random.default_rng(0).normal(size=(20, 1001))
    totals = np.array([np.sum(row * row) for row in x])
    f = jit(lambda x: np.stack([np.sum(row * row) for row in x]) - totals, backend="llvm")
    first = f(x)
    assert first.any(), "in another order than NumPy's"
    for _ in range(9):
        np.testing.assert_array_equal(f(x), first)
    assert f.traces == 2 and f.verifications == 1 and "not compared with the plain function: the result differs, by last" in f.explain(x)
    f = jit(f.f, backend="llvm", verify=True)
    for _ in range(2):
        np.testing.assert_array_equal(f(x), first)
    assert f.verifications == 2


def test_a_plain_function_that_raises_where_the_program_does_not():
    def f(x):
        if type(x) is float:
            raise ZeroDivisionError
        return 1.0 / x

    g = jit(f)
    assert [g(2.0) for _ in range(5)] == [0.5] * 5
    assert g.verifications == 1 and g.traces == 2 and "not compared with the plain function: it raises there" in g.explain(2.0)


def test_a_change_that_makes_the_function_raise(outside):
    def f(x):
        if read() > 1.0:
            raise ArithmeticError("too large")
        return x * read()

    g = jit(f)
    g(2.0)
    outside(2.0)
    for _ in range(2):
        with pytest.raises(ArithmeticError, match="too large"):
            g(2.0)
    outside(0.5)
    assert g(2.0) == 1.0


# --- what is not called again -------------------------------------------------------------------------------------------------------


def effects(tmp_path):
    records, log = [], logging.getLogger("dualad.tests")
    file = open(tmp_path / "log", "w")  # noqa: SIM115

    def counts(x):
        counts.calls += 1
        return x

    counts.calls = 0
    return {
        "appends": lambda x: (records.append(1), x)[1],
        "counts": counts,
        "prints": lambda x: (print("traced", file=file), x)[1],
        "shows": lambda x: (sys.stdout.write("traced"), x)[1],
        "writes": lambda x: (file.write("traced"), x)[1],
        "logs": lambda x: (log.warning("traced"), x)[1],
        "warns": lambda x: (warnings.warn("traced", DeprecationWarning, stacklevel=2), x)[1],
    }, file


@pytest.mark.filterwarnings("always::DeprecationWarning")
@pytest.mark.parametrize("name", ["appends", "counts", "prints", "shows", "writes", "logs", "warns"])
@pytest.mark.parametrize("every", [None, True])
@pytest.mark.filterwarnings("ignore:jit. .* while it is traced")
def test_a_function_that_does_more_is_not_called_again(name, every, tmp_path, capsys):
    functions, file = effects(tmp_path)
    calls = []

    def counted(x):
        return functions[name](x)

    f = jit(counted, verify=every)
    with file:
        for _ in range(10):
            assert f(2.0) == 2.0
    assert f.verifications == 0 and f.traces == 1 and "not compared with the plain function: it " in f.explain(2.0), calls


def test_more_than_there_is_room_for_is_left_out(monkeypatch):
    monkeypatch.setattr(verify, "MEMORY_BYTES", 1000)
    f, g = jit(lambda x: np.sin(x) * x), jit(lambda x: np.sin(x) * x, verify=True)
    x = np.ones(200)
    for _ in range(3):
        f(x), g(x), f(x[:10])
    assert f.verifications == 1 and g.verifications == 3 and "its arrays take" in f.explain(x)


@pytest.mark.slow
def test_long_loops_are_not_evaluated_step_by_step_at_call_two():
    from checkpoint import chain

    f = jit(lambda x: chain(lambda k, x: 0.5 * x + 1.0, x, steps=100_000))
    assert f(1.0) == f(1.0) == 2.0 and f.verifications == 0


# --- the caller's arrays ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_arguments_are_never_written(backend):
    def f(x, y):
        x[0] = 7.0
        y += x
        return x, y

    for x in (
        np.arange(4.0),
        np.asfortranarray(np.ones((3, 4))),
        np.ones((6, 8))[::2, ::-2],
        np.zeros((0, 2)),
        np.broadcast_to(1.0, (3, 2)),
    ):
        if not x.size:
            continue
        g, before = jit(f, backend=backend, verify=True), x.copy()
        for _ in range(4):
            a, b = g(x, x)
            np.testing.assert_array_equal(x, before)
            expected = f(x.copy(), x.copy())
            np.testing.assert_array_equal(a, expected[0])
            np.testing.assert_array_equal(b, expected[1])
        assert g.traces == 1


def test_what_an_inner_function_returns_is_not_the_data_outside():
    data = np.arange(3.0)
    inner = jit(lambda: data)

    def f(x):
        y = inner()
        y += 1.0
        return x * y

    g = jit(f, verify=True)
    for _ in range(4):
        np.testing.assert_array_equal(g(X), X * (np.arange(3.0) + 1.0))
    np.testing.assert_array_equal(data, np.arange(3.0))
    assert g.traces == 1


def test_in_threads(outside):
    f = jit(lambda x: x * read())
    f(2.0)
    got = []

    def work():
        got.extend(f(2.0) for _ in range(200))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == [2.0] * 800 and not verify.EVALUATING


def test_an_interrupted_comparison():
    """It leaves nothing behind: later calls are compiled ones."""
    asked = [KeyboardInterrupt]

    def f(x):
        if type(x) is float and asked:
            raise asked.pop()
        return 2.0 * x

    g = jit(f)
    g(1.0)
    with pytest.raises(KeyboardInterrupt):
        g(1.0)
    assert not verify.EVALUATING and [g(1.0) for _ in range(6)] == [2.0] * 6 and g.traces <= 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_child_of_a_process_that_compares(outside):
    f = jit(lambda x: x * read())
    f(2.0)
    with verify.evaluating():
        if not (child := os.fork()):
            os._exit(0 if len(verify.EVALUATING) == 1 else 1)
    assert os.waitpid(child, 0)[1] == 0 and f(2.0) == 2.0
    started, done = threading.Event(), threading.Event()

    def compare():
        with verify.evaluating():
            started.set()
            done.wait()

    thread = threading.Thread(target=compare)
    thread.start()
    started.wait()
    if not (child := os.fork()):
        os._exit(0 if not verify.EVALUATING and f(2.0) == 2.0 else 1)
    done.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0
