"""Compiled functions: signatures, static arguments, results of the caller's own, arrays outside, errors, threads, backends."""

import gc
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from weakref import ref

import numpy as np
import optree
import pytest
from comparing import same

import dualad
from checkpoint import grad
from dualad import jit
from dualad.jit.compiled import BACKENDS
from dualad.jit.jit import Jit

X = np.linspace(0.2, 0.9, 5)
Point = namedtuple("Point", "x y")
TABLE = np.arange(12.0).reshape(3, 4)


def wave(x, c=2.0):
    y = x.copy()
    y[1:-1] += c * (x[2:] - 2.0 * x[1:-1] + x[:-2])
    y[[0, 0, 3]] = x[:3] * x[2]
    return np.sum(np.sin(y) * x), y


# --- signatures -----------------------------------------------------------------------------------------------------------------


def test_one_program_for_each_kind_of_arguments():
    calls = []

    @jit
    def f(x, n=1.0):
        calls.append(None)
        return x * n

    for args in [(1.0,), (2.0,), (np.float64(1.0),), (np.ones(3),), (np.zeros(3),), (np.ones(3, np.float32),), (1,), (np.ones((3, 1)),)]:
        same(f(*args), args[0] * 1.0)
    assert len(f.entries) == 6 and len(calls) == 12
    same(f(np.ones((4, 3)).T), np.ones((3, 4)) * 1.0)
    assert f(2.0, n=3) == 6.0 and f(2.0, n=True) == 2.0 and f(2.0, n=False) == 0.0


def test_the_cache_is_bounded():
    f = jit(lambda x: x + 1.0, cache_size=2)
    for n in range(5):
        f(np.ones(n))
    assert len(f.entries) == 2
    f.cache_clear()
    assert not f.entries and f(1.0) == 2.0


def test_static_arguments():
    @jit(static_argnames=("n", "mode"), static_argnums=3)
    def f(x, n, mode="up", *rest):
        for _ in range(n):
            x = x * 2.0 if mode == "up" else x / 2.0
        return x, rest[0] if rest else None

    assert f(1.0, 3)[0] == 8.0 and f(1.0, n=2)[0] == 4.0 and f(1.0, 1, mode="down")[0] == 0.5
    assert f(1.0, 1, "up", (1, 2))[1] == (1, 2)
    with pytest.raises(TypeError, match="not hashable"):
        f(1.0, n=[1])
    for static in ({"static_argnames": {"n"}}, {"static_argnums": range(1, 2)}, {"static_argnums": np.array([1])}, {"static_argnums": [1]}):
        assert jit(lambda x, n: x * len(range(n)), **static)(2.0, 3) == 6.0
    for static in ({"static_argnums": True}, {"static_argnums": (1, False)}, {"static_argnames": 1.5}, {"static_argnums": {"n"}}):
        with pytest.raises(TypeError, match=r"jit: static_argn.* is .*: give (names|positions) of arguments, one or several"):
            jit(lambda x, n: x, **static)

    class Options:
        rate = 2.0

    options, scaled = Options(), jit(lambda x, options: x * options.rate, static_argnums=1)
    assert scaled(1.0, options) == 2.0
    options.rate = 3.0
    assert scaled(1.0, options) == 3.0
    cubed = jit(grad(lambda x, n: x**n * sum(range(n))), static_argnames="n")  # by the names of what grad wraps
    assert (cubed(2.0, 3), cubed(2.0, n=2)) == (36.0, 4.0)


def test_results_are_the_callers_own():
    x = np.ones(3)
    numbers = lambda x: (np.copy(np.sum(x)), np.array(2.0) * x[0] + np.zeros(()), x * 2.0)
    views = lambda x: (x.T, x.T, x[1:], np.reshape(x, (3, 1)), np.broadcast_to(x[0], (3,)))
    for f in (lambda x: x, views, numbers):
        compiled, results = jit(f), []
        for given in (x, x + 1.0, x):  # the second call takes the short way
            results += [np.asarray(leaf) for leaf in optree.tree_leaves(compiled(given))]
        for k, result in enumerate(results):
            assert result.flags.writeable and not any(np.shares_memory(result, other) for other in (x, *results[:k]))
    constant = jit(lambda x: TABLE)
    constant(1.0)[0] = -1.0
    np.testing.assert_array_equal(constant(1.0), TABLE)


def test_methods_and_partials():
    class Model:
        def __init__(self, rate):
            self.rate = rate

        @jit
        def step(self, x):
            return x * self.rate

    slow, fast = Model(0.5), Model(2.0)
    assert (slow.step(2.0), fast.step(2.0)) == (1.0, 4.0)
    slow.rate = 3.0
    assert slow.step(2.0) == 6.0 and isinstance(Model.step, Jit)
    assert jit(partial(np.multiply, 3.0))(2.0) == 6.0


def test_methods_are_those_of_their_instances_however_equal_and_hold_a_few_of_them():
    @dataclass(frozen=True)
    class Model:
        name: str
        rate: float = field(compare=False)

        @partial(jit, cache_size=2)
        def step(self, x):
            return x * self.rate

    models = [Model("one", float(rate)) for rate in range(4)]
    assert [model.step(2.0) for model in models] == [0.0, 2.0, 4.0, 6.0]
    left = [ref(model) for model in models]
    models.clear()
    gc.collect()
    assert [made() is None for made in left] == [True, True, False, False]


def test_decorator_keeps_name_and_doc():
    compiled = jit(wave)
    assert (compiled.__name__, compiled.__wrapped__) == ("wave", wave)


def test_texts():
    compiled = jit(wave, backend="numpy")
    assert "numpy.sin" in compiled.program(X) and "test_jit.py:" in compiled.program(X)
    source = compiled.source(X)
    assert source.startswith("def program(") and "# test_jit.py:" in source
    assert "operations traced" in compiled.explain(X) and "wave" in compiled.explain(X)


# --- never stale, never frozen -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrap", [jit, grad, lambda f: jit(grad(f)), lambda f: partial(jit(f))])
def test_a_change_behind_wrappers_traces_again(wrap):
    rate = 2.0

    def f(x):
        return x * rate * x

    wrapped = wrap(f)
    compiled = jit(lambda x: wrapped(x) + 0.0)
    before = compiled(1.0)
    assert jit(grad(f))(1.0) == 4.0
    rate = 3.0
    assert compiled(1.0) == before * 1.5


def test_what_the_function_changes_itself_does_not_trace_again_for_ever():
    log, count = [], {"calls": 0}

    @jit
    def f(x):
        log.append(1)
        count["calls"] += 1
        return x + 1.0

    f(1.0), f(2.0), f(3.0)
    assert len(log) == 2


def test_a_function_that_returns_no_numbers():
    assert jit(lambda x: None)(1.0) is None and jit(lambda x: {"a": None, "b": "text"})(np.ones(3)) == {"a": None, "b": "text"}


def test_results_that_are_no_floats_are_plain_under_every_interpreter():
    f, found = jit(lambda x: {"x": 2.0 * x, "name": "wave", "count": 3, "flag": True, "at": np.argmax(x)}), {}

    def total(x):
        found.update(f(x))
        return np.sum(found["x"])

    for verb in (grad, dualad.gradient):
        np.testing.assert_array_equal(verb(total)(X), np.full(5, 2.0))
        assert [(found[name], type(found[name])) for name in ("name", "count", "flag")] == [("wave", str), (3, int), (True, bool)]
        assert type(found["at"]) is not type(found["x"]) and found["at"] == 4


# --- errors --------------------------------------------------------------------------------------------------------------------------


WRONG = {
    "no function": (lambda: jit(3.0), TypeError, "not a function"),
    "backend": (lambda: jit(wave, backend="fortran"), ValueError, "backend"),
    "former name of the backend": (lambda: jit(wave, backend="numba"), ValueError, r"give one of .*; .* loops is called 'llvm' now"),
    "verify": (lambda: jit(wave, verify="always"), ValueError, "jit: verify is 'always': give True"),
    **{f"paths {n}": (lambda n=n: jit(wave, paths=n), ValueError, "jit: paths is") for n in (0, 2.0, True, None)},
    **{f"threads {n}": (lambda n=n: jit(wave, threads=n), ValueError, "give the number of threads") for n in (0, -1, 2.0, True, "2")},
}


@pytest.mark.parametrize(("call", "error", "words"), WRONG.values(), ids=WRONG)
def test_wrong_arguments(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_an_error_of_the_function_is_its_own():
    with pytest.raises(ZeroDivisionError):
        jit(lambda x: x / len([]) if not [] and 1 // 0 else x)(1.0)
    f = jit(lambda a: np.linalg.inv(a))
    f(np.eye(2))
    with pytest.raises(np.linalg.LinAlgError):
        f(np.zeros((2, 2)))
    with pytest.raises(ValueError, match="broadcast"):
        jit(lambda x: x + np.ones(4))(np.ones(3))


def test_threads():
    f = jit(lambda x, c: np.sum(np.sin(x) * c))

    def turn(n):
        x = np.linspace(0.0, 1.0, 2 + n % 3)
        return np.array_equal(grad(f)(x, 2.0), grad(f.f)(x, 2.0)) and f(x, 2.0) == f.f(x, 2.0)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(turn, range(24)))


def test_traced_values_that_were_kept_are_dead():
    kept = []
    jit(lambda x: (kept.append(x), x)[1])(1.0)
    with pytest.raises(RuntimeError, match="has returned"):
        kept[0] + 1.0


def test_only_numpys_backend_keeps_every_bit(monkeypatch):
    monkeypatch.setitem(BACKENDS, "other", BACKENDS["numpy"])
    f = jit(lambda x: x**3 / 2.0, backend="numpy")
    assert "power" in f.program(X) and "power" not in jit(f.f, backend="other").program(X)
    np.testing.assert_array_equal(f(X), f.f(X))
    np.testing.assert_allclose(grad(lambda x: np.sum(jit(f.f, backend="other")(x)))(X), 1.5 * X**2, rtol=1e-15)


def test_a_backend_that_fails_is_replaced_with_a_warning(monkeypatch):
    def broken(program):
        raise NotImplementedError("no loops today")

    monkeypatch.setitem(BACKENDS, "broken", broken)
    with pytest.warns(UserWarning, match=r"broken failed on .*no loops today"):
        assert jit(lambda x: x + 1.0, backend="broken")(1.0) == 2.0
