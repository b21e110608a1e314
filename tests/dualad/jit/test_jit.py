from __future__ import annotations

import gc
import importlib
import logging
import random
import secrets
import sys
import time
import types
from collections import Counter, deque, namedtuple
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime
from functools import partial

import numpy as np
import optree
import pytest

import dualad
from checkpoint import chain, grad, hvp, jacobian, linearize, value_and_grad, vjp
from dualad import derivative, hessian, jit, jvp
from dualad.jit import impure
from dualad.jit.compiled import BACKENDS
from dualad.jit.jit import Jit

X = np.linspace(0.2, 0.9, 5)
Point = namedtuple("Point", "x y")
SCALE, TABLE = 2.0, np.arange(12.0).reshape(3, 4)
RNG = np.random.default_rng(0)


def wave(x, c=2.0):
    y = x.copy()
    y[1:-1] += c * (x[2:] - 2.0 * x[1:-1] + x[:-2])
    y[[0, 0, 3]] = x[:3] * x[2]
    return np.sum(np.sin(y) * x), y


def assert_trees_equal(got, expected):
    assert optree.tree_structure(got) == optree.tree_structure(expected)
    for a, b in zip(optree.tree_leaves(got), optree.tree_leaves(expected), strict=True):
        np.testing.assert_array_equal(a, b)
        assert type(a) is type(b) and np.asarray(a).dtype == np.asarray(b).dtype


# --- values and signatures ------------------------------------------------------------------------------------------------------


def test_values_are_numpys_bit_by_bit():
    compiled = jit(wave)
    assert_trees_equal(compiled(X), wave(X))
    assert_trees_equal(compiled(1.0 - X, c=np.float32(0.3)), wave(1.0 - X, c=np.float32(0.3)))


def test_pytrees_in_and_out():
    def f(point, rest):
        return {"sum": point.x + point.y, "list": [rest["a"], (rest["b"][0], None)], "text": "unit", "number": 3}

    compiled = jit(f)
    args = Point(np.ones(2), 2.0), {"a": np.float32(1.0), "b": [1j]}
    assert_trees_equal(compiled(*args), f(*args))


def test_one_program_for_each_kind_of_arguments():
    calls = []

    @jit
    def f(x, n=1.0):
        calls.append(None)
        return x * n

    for args in [(1.0,), (2.0,), (np.float64(1.0),), (np.ones(3),), (np.zeros(3),), (np.ones(3, np.float32),), (1,), (np.ones((3, 1)),)]:
        assert_trees_equal(f(*args), args[0] * 1.0)
    assert len(f.entries) == 6 and len(calls) == 12
    assert_trees_equal(f(np.ones((4, 3)).T), np.ones((3, 4)) * 1.0)
    assert f(2.0, n=3) == 6.0 and f(2.0, n=True) == 2.0 and f(2.0, n=False) == 0.0


def test_what_is_a_view_depends_on_the_strides():
    def f(x):
        flat = x.reshape(-1)
        flat[0] = 5.0
        return x * 1.0

    compiled, x = jit(f), np.arange(24.0).reshape(2, 3, 4)
    for y in (x, x[:, :, ::2], x.transpose(2, 0, 1), x[::-1], np.asfortranarray(x)):
        assert bool(compiled(y).flat[0] == 5.0) is np.shares_memory(y, y.reshape(-1))


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
    cubed = jit(grad(lambda x, n: x**n * sum(range(n))), static_argnames="n")  # by the names of what grad wraps
    assert (cubed(2.0, 3), cubed(2.0, n=2)) == (36.0, 4.0)


def test_results_are_the_callers_own():
    x = np.ones(3)
    for f in (lambda x: x, lambda x: x[1:], lambda x: (x.T, x.T), lambda x: np.broadcast_to(x[0], (3,)), lambda x: np.reshape(x, (3, 1))):
        results = optree.tree_leaves(jit(f)(x))
        for k, result in enumerate(results):
            assert result.flags.writeable and not any(np.shares_memory(result, other) for other in (x, *results[:k]))
    constant = jit(lambda x: TABLE)
    constant(1.0)[0] = -1.0
    np.testing.assert_array_equal(constant(1.0), TABLE)


def test_arguments_are_not_written():
    def f(x):
        x += 1.0
        x[0] = 5.0
        return x

    x = np.zeros(3)
    np.testing.assert_array_equal(jit(f)(x), [5.0, 1.0, 1.0])
    np.testing.assert_array_equal(x, np.zeros(3))


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


def test_a_change_outside_traces_again():
    rate, table, options = 2.0, np.ones(3), {"shift": 1.0, "list": [1.0, 2.0]}

    def helper(x):
        return x * SCALE

    @jit
    def f(x):
        return helper(x) * rate + table + options["shift"] + sum(options["list"])

    global SCALE
    expected = 4.0 + 1.0 + 1.0 + 3.0
    assert f(1.0)[0] == expected and len(f.guards) == 1
    rate = 3.0
    assert f(1.0)[0] == expected + 2.0
    table[0] = 11.0
    assert f(1.0)[0] == expected + 12.0
    options["shift"] = 2.0
    options["list"].append(5.0)
    assert f(1.0)[0] == expected + 18.0
    SCALE = 4.0
    assert f(1.0)[0] == expected + 24.0
    SCALE = 2.0
    assert f(1.0)[0] == expected + 18.0
    assert len(f.entries) == 1


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


def test_default_values_and_attributes():
    class Options:
        gain = 2.0

    options = Options()
    options.gain = 3.0

    @jit
    def f(x, table=TABLE):
        return x * options.gain + table[0, 1]

    assert f(1.0) == 4.0
    options.gain = 5.0
    assert f(1.0) == 6.0


def test_attributes_that_hide_others_or_were_not_there():
    class Base:
        gain = 1.0

    class Model(Base):
        @jit
        def step(self, x):
            return abs(x) * self.gain * getattr(self, "extra", 1.0) * (2.0 if hasattr(self, "flag") else 1.0)

    model = Model()
    assert model.step(-1.0) == 1.0
    model.gain = 3.0
    assert model.step(-1.0) == 3.0, "it hides that of the class"
    model.extra = 5.0
    assert model.step(-1.0) == 15.0
    model.flag = None
    assert model.step(-1.0) == 30.0
    del model.gain
    assert model.step(-1.0) == 10.0
    Model.gain = 7.0
    assert model.step(-1.0) == 70.0
    globals()["abs"] = lambda x: 4.0 * x
    try:
        assert model.step(-1.0) == -280.0
    finally:
        del globals()["abs"]
    assert model.step(-1.0) == 70.0


def test_a_function_that_returns_no_numbers():
    assert jit(lambda x: None)(1.0) is None and jit(lambda x: {"a": None, "b": "text"})(np.ones(3)) == {"a": None, "b": "text"}


def test_attributes_of_modules_classes_and_static_arguments():
    module = types.ModuleType("settings")
    module.rate = 2.0

    class Base:
        shift = 1.0

    class Config(Base):
        pass

    config = Config()

    @jit(static_argnames="options")
    def f(x, options=None):
        return x * module.rate + Config.shift + config.shift + (0.0 if options is None else options.extra)

    assert f(1.0) == 4.0
    module.rate = 3.0
    assert f(1.0) == 5.0
    Base.shift = 2.0
    assert f(1.0) == 7.0
    options = Config()
    options.extra = 1.0
    assert f(1.0, options) == 8.0
    options.extra = 2.0
    assert f(1.0, options) == 9.0


class Settings:
    """What a use of an object reads, in all the ways in which Python lets a class say it."""

    shared = 1.0

    def __init__(self):
        self._v, self.counts = 1.0, Counter(a=1)

    @property
    def v(self):
        return 2.0 * self._v

    @classmethod
    def of_class(cls):
        return cls.shared

    def __getitem__(self, i):
        return self._v

    def __call__(self, x):
        return self._v * x

    def __matmul__(self, x):
        return self._v * x

    def __iter__(self):
        return iter([self._v])

    def __bool__(self):
        return self._v > 2.0


class Slotted:
    __slots__ = ("v",)


class Doubled:
    def __get__(self, instance, owner):
        return 2.0 * instance.inner


class Described:
    doubled = Doubled()


class Delegating:
    def __init__(self):
        self.__dict__["held"] = {"v": 1.0}

    def __getattr__(self, name):
        return self.held[name]


OBJECT, SLOTTED, DESCRIBED, DELEGATING = Settings(), Slotted(), Described(), Delegating()
LONG_LIST, LONG_DICT, QUEUE, NUMBERS, ARRAYS = (
    [1.0] * 300,
    dict.fromkeys(range(300), 1.0),
    deque([1.0]),
    {1.0},
    [np.ones(2) for _ in range(200)],
)
OUTSIDE = {
    "property": (lambda x: x * OBJECT.v, lambda v: setattr(OBJECT, "_v", v)),
    "class method": (lambda x: x * OBJECT.of_class(), lambda v: setattr(Settings, "shared", v)),
    "class method of the class": (lambda x: x * Settings.of_class(), lambda v: setattr(Settings, "shared", v)),
    "getitem": (lambda x: x * OBJECT[0], lambda v: setattr(OBJECT, "_v", v)),
    "call": (lambda x: OBJECT(x), lambda v: setattr(OBJECT, "_v", v)),
    "operator": (lambda x: OBJECT @ x, lambda v: setattr(OBJECT, "_v", v)),
    "iteration": (lambda x: x * sum(OBJECT), lambda v: setattr(OBJECT, "_v", v)),
    "truth": (lambda x: x if OBJECT else 2.0 * x, lambda v: setattr(OBJECT, "_v", v)),
    "getattr": (lambda x: x * getattr(OBJECT, "_v"), lambda v: setattr(OBJECT, "_v", v)),  # noqa: B009
    "vars": (lambda x: x * vars(OBJECT)["_v"], lambda v: setattr(OBJECT, "_v", v)),
    "slots": (lambda x: x * SLOTTED.v, lambda v: setattr(SLOTTED, "v", v)),
    "descriptor": (lambda x: x * DESCRIBED.doubled, lambda v: setattr(DESCRIBED, "inner", v)),
    "__getattr__": (lambda x: x * DELEGATING.v, lambda v: DELEGATING.held.update(v=v)),
    "long list": (lambda x: x * LONG_LIST[250], lambda v: LONG_LIST.__setitem__(250, v)),
    "long dict": (lambda x: x * LONG_DICT[250], lambda v: LONG_DICT.update({250: v})),
    "long list of arrays": (lambda x: x * ARRAYS[150][1], lambda v: ARRAYS[150].__setitem__(1, v)),
    "deque": (lambda x: x * QUEUE[0], lambda v: QUEUE.__setitem__(0, v)),
    "set": (lambda x: x * sum(NUMBERS), lambda v: NUMBERS.add(v)),
    "counter": (lambda x: x * OBJECT.counts["a"], lambda v: OBJECT.counts.update(a=int(v))),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_whatever_is_read_outside_is_looked_at(name):
    f, change = OUTSIDE[name]
    compiled = jit(f)
    for v in (1.5, 4.0, 4.0, 2.0):
        change(v)
        assert compiled(3.0) == f(3.0)
    before = list(compiled.entries.values())
    assert compiled(5.0) == f(5.0) and list(compiled.entries.values()) == before


IMPURE = {
    "random": lambda x: x * random.random(),
    "generator": lambda x: x + RNG.normal(size=3),
    "global generator": lambda x: x * np.random.normal(),  # noqa: NPY002
    "clock": lambda x: x + time.perf_counter(),
    "branch": lambda x, turns=[]: (turns.append(1), np.sin(x) if len(turns) % 2 else np.cos(x))[1],
    "length": lambda x, turns=[]: (turns.append(1), sum([x] * len(turns)))[1],
    "result": lambda x: (x, random.random()),
    "constant result": lambda x: (x, np.array([random.random()])),
    "choice of the system": lambda x: x * secrets.choice([1.0, 2.0]),
}


@pytest.mark.parametrize("name", IMPURE)
def test_impure_values_are_refused(name):
    with pytest.raises(TypeError, match=r"two traces of .* differ|draws random numbers|reads a clock"):
        jit(IMPURE[name])(np.ones(3))


CLOCKS = {
    "time.time": lambda x: x + int(time.time()),
    "time.monotonic_ns": lambda x: x + time.monotonic_ns() // 10**18,
    "time.localtime": lambda x: x + time.localtime().tm_year,
    "datetime.datetime.now": lambda x: x + datetime.now().year,
    "datetime.date.today": lambda x: x + date.today().year,
    "time.perf_counter": lambda x: (time.perf_counter(), x)[1],
    "numpy.datetime64": lambda x: x + np.datetime64("now").astype(int) // 10**9,
}


@pytest.mark.parametrize("clock", CLOCKS)
def test_clocks_that_stand_still_between_two_traces_are_refused(clock):
    number = CLOCKS[clock].__code__.co_firstlineno
    with pytest.raises(TypeError, match=rf"test_jit.py, line {number}: <lambda> reads a clock \({clock}\), which would be frozen"):
        jit(CLOCKS[clock])(1.0)
    assert sys.getprofile() is None


def test_clocks_of_libraries_and_under_a_profiler():
    logger = logging.getLogger("a jitted function")
    seen = []
    assert jit(lambda x: (logger.warning("traced"), x + 1.0)[1])(1.0) == 2.0
    sys.setprofile(profiler := lambda *event: seen.append(event))
    try:
        assert jit(lambda x: x + time.time() // 1e12)(1.0) == 1.0
        assert sys.getprofile() is profiler and seen
    finally:
        sys.setprofile(None)


def test_clocks_of_callbacks_of_the_collector_are_not_the_functions():
    seen = []
    gc.callbacks.append(callback := lambda phase, info: seen.append(time.perf_counter()))
    try:
        assert jit(lambda x: (gc.collect(), x + 1.0)[1])(1.0) == 2.0 and seen
    finally:
        gc.callbacks.remove(callback)


def test_clocks_of_installed_packages_are_found_in_another_second(monkeypatch, tmp_path):
    (tmp_path / "watches.py").write_text(
        "import time\n\nNOW = [1e9]\n\n\ndef seconds():\n    time.time()\n    return NOW[0]\n\n\ndef ignored():\n    time.time()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(impure, "PACKAGES", (str(tmp_path),))
    monkeypatch.setattr(impure, "ELSEWHERE", (*impure.ELSEWHERE, str(tmp_path)))
    watches = importlib.import_module("watches")
    monkeypatch.setattr(impure.Clocks, "wait", lambda self: watches.NOW.append(watches.NOW.pop() + 1.0))
    with pytest.raises(TypeError, match=r"two traces of <lambda> .*differ"):
        jit(lambda x: x + watches.seconds())(1.0)
    assert watches.NOW == [1e9 + 1.0]
    assert jit(lambda x: (watches.ignored(), x + 1.0)[1])(1.0) == 2.0 and watches.NOW == [1e9 + 2.0]


def test_results_that_are_no_floats_are_plain_under_every_interpreter():
    f, found = jit(lambda x: {"x": 2.0 * x, "name": "wave", "count": 3, "flag": True, "at": np.argmax(x)}), {}

    def total(x):
        found.update(f(x))
        return np.sum(found["x"])

    for verb in (grad, dualad.gradient):
        np.testing.assert_array_equal(verb(total)(X), np.full(5, 2.0))
        assert [(found[name], type(found[name])) for name in ("name", "count", "flag")] == [("wave", str), (3, int), (True, bool)]
        assert type(found["at"]) is not type(found["x"]) and found["at"] == 4


# --- derivatives -------------------------------------------------------------------------------------------------------------------


def loss(x, c=2.0):
    return wave(x, c)[0]


def test_every_verb_through_a_compiled_function():
    f, compiled, v, g = loss, jit(loss), 1.0 - X, np.arange(5.0)
    close = partial(np.testing.assert_allclose, rtol=1e-12, atol=1e-14)
    close(grad(compiled)(X), grad(f)(X))
    close(grad(compiled, argnums=(0, 1))(X, 2.0)[1], grad(f, argnums=(0, 1))(X, 2.0)[1])
    close(value_and_grad(compiled)(X)[1], grad(f)(X))
    close(jvp(compiled, (X,), (v,)), jvp(f, (X,), (v,)))
    close(dualad.gradient(compiled)(X), dualad.gradient(f)(X))
    close(hessian(compiled)(X), hessian(f)(X))
    close(hvp(compiled, X, v), hvp(f, X, v))
    close(linearize(compiled, X)[1](v), linearize(f, X)[1](v))
    close(derivative(lambda t: compiled(t * X), 2)(1.0), derivative(lambda t: f(t * X), 2)(1.0))
    second = jit(lambda x: wave(x)[1])
    close(dualad.jacobian(second)(X), dualad.jacobian(lambda x: wave(x)[1])(X))
    close(jacobian(second)(X), jacobian(lambda x: wave(x)[1])(X))
    close(vjp(second, X)[1](g)[0], vjp(lambda x: wave(x)[1], X)[1](g)[0])


def test_every_verb_compiled():
    v = 1.0 - X
    close = partial(np.testing.assert_allclose, rtol=1e-12, atol=1e-14)
    for verb in (grad, dualad.gradient, hessian, jacobian, dualad.jacobian):
        close(jit(verb(loss))(X), verb(loss)(X))
        close(jit(verb(jit(loss)))(X), verb(loss)(X))
    close(jit(lambda x, v: hvp(loss, x, v))(X, v), hvp(loss, X, v))
    close(jit(lambda x, v: jvp(jit(grad(loss)), (x,), (v,))[1])(X, v), hvp(loss, X, v))
    close(jvp(jit(grad(jit(loss))), (X,), (v,))[1], hvp(loss, X, v))
    close(jit(derivative(lambda t: loss(t * X), 3))(1.0), derivative(lambda t: loss(t * X), 3)(1.0))


def test_dear_values_are_kept_for_the_pullback_and_cheap_ones_computed_again():
    @jit
    def f(a, b):
        return np.sum(np.sin(np.linalg.solve(a, np.exp(b)))), a @ b

    a, b = np.eye(3) + 0.1 * np.arange(9.0).reshape(3, 3), np.arange(3.0)
    got = vjp(f, a, b)[1]((2.0, np.ones(3)))
    expected = vjp(f.f, a, b)[1]((2.0, np.ones(3)))
    for x, y in zip(got, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12)
    (entry,) = f.entries.values()
    forward, backward = next(halves for key, halves in entry.compiled.derived.items() if key[0] == "halves")
    assert [op.fn for op in forward.program.operations].count(np.linalg.solve) == 1
    names = [op.fn for op in backward.program.operations]
    assert np.exp in names and names.count(np.linalg.solve) == 1  # of the transposed matrix


@pytest.mark.parametrize("constant", [dualad.stop_gradient, dualad.primal])
def test_what_counts_as_a_constant_does_so_when_the_program_is_differentiated(constant):
    def f(x):
        return x * constant(np.sin(x)) + x[::-1] * constant(x[0]) + constant(x.sum())

    def step(k, x):
        return 0.5 * f(x)

    def loss(x):
        return np.sum(f(x) ** 2)

    for through in (f, lambda x: chain(step, x, steps=3)):
        expected = jacobian(through)(X)
        np.testing.assert_allclose(dualad.jacobian(through)(X), expected, rtol=1e-14)
        for derived in (jacobian(jit(through)), dualad.jacobian(jit(through)), jit(jacobian(through)), dualad.jacobian(jit(jit(through)))):
            np.testing.assert_allclose(derived(X), expected, rtol=1e-12)
    np.testing.assert_allclose(
        jacobian(lambda x: chain(jit(step), x, steps=3))(X), jacobian(lambda x: chain(step, x, steps=3))(X), rtol=1e-12
    )
    np.testing.assert_allclose(hessian(jit(loss))(X), hessian(loss)(X), rtol=1e-12)
    assert jit(lambda x: constant(x) * np.float32(2.0))(X[:1]).dtype == float
    assert dualad.sparsity(jit(lambda x: x * constant(np.roll(x, 1))), X).nnz == 5


VERBS = {
    "grad": grad,
    "value_and_grad": value_and_grad,
    "gradient": dualad.gradient,
    "hessian": hessian,
    "vjp": lambda f: lambda x: vjp(f, x)[1](1),
    "jvp": lambda f: lambda x: jvp(f, (x,), (np.arange(3),)),
    "hvp": lambda f: lambda x: hvp(f, x, np.arange(3)),
    "linearize": lambda f: lambda x: linearize(f, x)[1](np.arange(3)),
    "of a tree": lambda f: lambda x: grad(lambda tree: f(tree["x"]))({"x": x}),
}


@pytest.mark.parametrize("name", VERBS)
def test_integers_and_foreign_byte_orders_are_differentiated_as_eagerly(name):
    def f(x):
        return np.sum(x * x) * x[0] + x[2] ** 2

    verb = VERBS[name]
    for x in (np.array([3, 4, 5]), np.array([3, 4, 5], np.uint8), np.array([3.0, 4.0, 5.0], ">f8"), np.array([3.0, 4.0, 5.0], ">f4")):
        expected = verb(f)(x.astype(float))
        for derived in (verb(f), jit(verb(f)), verb(jit(f))):
            for a, b in zip(optree.tree_leaves(derived(x)), optree.tree_leaves(expected), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-6 if x.dtype == ">f4" else 1e-14)
    for derived in (verb(f), jit(verb(f))):
        with pytest.raises(TypeError, match="has dtype bool, which has no derivative"):
            derived(np.ones(3, bool))


SAFE = {
    "divide": lambda x: np.divide(1.0, x, out=np.zeros_like(x), where=x != 0),
    "divide by itself": lambda x: np.divide(x, x * 1.0, out=x * 1.0, where=x != 0),
    "log": lambda x: np.log(x, out=x * x, where=x > 0),
    "power": lambda x: np.power(x, 0.3, out=np.zeros_like(x), where=x > 0),
    "plain operand": lambda x: np.divide(np.array([1, 0, 2, 3]), x, out=np.zeros_like(x), where=x != 0),
}


@pytest.mark.parametrize("name", SAFE)
def test_what_a_mask_leaves_out_has_no_share_in_a_derivative(name):
    def f(x):
        return np.sum(SAFE[name](x) * np.arange(1.0, 5.0))

    x = np.array([-1.0, 0.0, 0.5, 2.0])
    for verb in (grad, dualad.gradient, hessian):
        expected = verb(f)(x)
        assert np.isfinite(expected).all()
        for derived in (verb(jit(f)), jit(verb(f)), verb(jit(f, backend="numpy"))):
            np.testing.assert_allclose(derived(x), expected, rtol=1e-13, atol=1e-15)


def test_writes_through_the_parts_of_complex_numbers():
    def f(x):
        z = np.zeros_like(x, complex)
        z.real, z.imag = x, x * x
        z.imag[1:] += x[:-1]
        return np.sum(np.abs(np.exp(1j * z)) + (1j * z).real * x)

    for verb in (grad, dualad.gradient, hessian):
        for derived in (verb(jit(f)), jit(verb(f)), verb(jit(f, backend="numpy"))):
            np.testing.assert_allclose(derived(X), verb(f)(X), rtol=1e-12)
    np.testing.assert_allclose(grad(f)(X), dualad.gradient(f)(X), rtol=1e-12)
    np.testing.assert_allclose(jacobian(jit(lambda x: np.stack([f(x), f(x * x)])))(X)[1], grad(lambda x: f(x * x))(X), rtol=1e-12)


MASKED = {
    "sum": lambda x, mask: np.sum(x * x, where=mask),
    "mean": lambda x, mask: np.mean(x, where=mask, axis=0),
    "prod": lambda x, mask: np.prod(x, where=mask),
    "var": lambda x, mask: np.var(x, where=mask, ddof=1),
    "std": lambda x, mask: x.std(where=mask),
    "max": lambda x, mask: np.max(x, where=mask, initial=0.25) ** 2,
    "add.reduce": lambda x, mask: np.add.reduce(x * x, where=mask),
    "of a plain array": lambda x, mask: x[0] * (np.sum(TABLE[:, 0], where=mask[:3]) + np.mean(TABLE[1], where=mask[1:])),
}


@pytest.mark.parametrize("name", MASKED)
def test_reductions_by_a_traced_mask(name):
    def f(x):
        return MASKED[name](x, x > 0.4)

    for verb in (grad, dualad.gradient, hessian):
        for derived in (verb(jit(f)), jit(verb(f)), jit(verb(f), backend="numpy")):
            np.testing.assert_allclose(derived(X), verb(f)(X), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("verb", [grad, dualad.gradient])
def test_nan_safe(verb):
    f = jit(lambda x: np.sum(x * np.where(x > 0, np.log(x), 0.0) + 0.0 * np.arctanh(x + 1.0)))
    x = np.array([0.0, 0.5])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(verb(f, nan_safe=True)(x), verb(f.f, nan_safe=True)(x))
        np.testing.assert_array_equal(verb(f)(x), verb(f.f)(x))


def test_outputs_without_derivative_and_inputs_that_are_none():
    f = jit(lambda x, k: (x * k, k + 1, x > 0.5, 7))
    (value, *rest), (tangent, *_) = jvp(lambda x: f(x, 3), (X,), (np.ones(5),))
    np.testing.assert_array_equal(value, 3 * X)
    np.testing.assert_array_equal(tangent, np.full(5, 3.0))
    assert rest[0] == 4 and rest[2] == 7 and not isinstance(rest[1], dualad.Dual)
    np.testing.assert_array_equal(grad(lambda x: np.sum(f(x, 3)[0]))(X), np.full(5, 3.0))


def test_a_type_among_the_results_is_handed_on():
    kind = dualad.gradient(jit(lambda x: (np.sum(x * x), np.common_type(x))), has_aux=True)(X)[1]
    assert kind is np.float64


def test_a_row_added_by_a_user_compiles_at_once():
    @dualad.primitive
    def cube(x):
        return x**3

    dualad.rules.elementwise(cube, lambda ans, x: 3.0 * x**2)
    assert jit(cube)(2.0) == 8.0 and grad(jit(cube))(2.0) == 12.0 and jit(grad(cube))(2.0) == 12.0


def test_single_precision_stays_single():
    x = X.astype(np.float32)
    assert grad(jit(loss))(x).dtype == np.float32 and jit(grad(loss))(x).dtype == np.float32
    assert jit(lambda x: x * 2.0)(x).dtype == np.float32


def test_in_a_chain():
    def step(k, x, c):
        return x + 0.1 * c * np.sin(x) * (k % 3) + TABLE[k % 3][:3]

    for wrt in (0, 1):
        got = grad(lambda x, c: np.sum(chain(jit(step), x, c, steps=10) ** 2), argnums=wrt)(X[:3], 0.3)
        expected = grad(lambda x, c: np.sum(chain(step, x, c, steps=10) ** 2), argnums=wrt)(X[:3], 0.3)
        np.testing.assert_allclose(got, expected, rtol=1e-12)


def test_an_array_outside_is_taken_from_at_a_traced_integer():
    f = jit(lambda k: np.take(TABLE[1], k) + TABLE[2].take(k))
    assert [f(k) for k in range(3)] == [12.0, 14.0, 16.0]


def test_an_array_outside_is_indexed_by_a_traced_integer():
    forcing = np.arange(12.0).reshape(3, 4)

    @jit
    def step(k, x):
        return np.where(k == 0, x, x + forcing[k] * TABLE[k])

    for k in range(3):
        np.testing.assert_array_equal(step(k, np.ones(4)), np.ones(4) if k == 0 else 1.0 + forcing[k] * TABLE[k])
    assert len(step.entries) == 1
    forcing[1] = 0.0
    np.testing.assert_array_equal(step(1, np.ones(4)), np.ones(4))


KNOTS, CHOICE = np.linspace(0.0, 1.0, 8) ** 2, np.array([True, False, True])


def interpolated(y, x):
    """Values between knots, of which other arrays are made besides."""
    steps = np.diff(KNOTS)
    matrix = np.eye(8)
    matrix[np.arange(1, 7), np.arange(6)] = steps[:-1]  # a plain array into a plain one
    j = np.clip(np.searchsorted(KNOTS, x) - 1, 0, 6)
    slopes = np.linalg.solve(matrix, y)
    return slopes[j] + (x - KNOTS[j]) / steps[j] * (y[j + 1] - y[j]) * (2.0 if TABLE[1, 2] > 0.0 else float(TABLE[0, 0]))


def indexed(x):
    j = np.argmax(x)
    rows = sum(row[j] * row.max() for row in TABLE)
    return (
        rows
        + TABLE.T[j, 1] * x
        + TABLE[1:, j] @ x[:2]
        + TABLE.take(j)
        + np.where(CHOICE[j % 3], x, 2.0 * x)
        + TABLE[[0, 1]][0, j] * TABLE.sum()
    )


def made_of_tables(x):
    """Arrays that NumPy's functions make of others."""
    j = np.argmax(x)
    q, r = np.linalg.qr(TABLE[:, :3] + np.eye(3))
    return x[0] * np.stack(
        [
            np.concatenate((KNOTS, KNOTS))[j],
            np.where(KNOTS > 0.5, KNOTS, 0.0)[j],
            np.stack((KNOTS, KNOTS))[1, j],
            np.outer(KNOTS, KNOTS)[j, 1],
            np.einsum("i,i->i", KNOTS, KNOTS)[j],
            np.split(np.tile(KNOTS, 2), 2)[1][j],
            np.take(KNOTS, j) + np.take(TABLE, indices=j % 3, axis=0)[0],
            KNOTS.take([1, 2, 3])[j % 3] + (q @ r)[j % 3, 1],
        ]
    )


@pytest.mark.parametrize("f", [lambda x: interpolated(np.sin(np.arange(8.0) * x[0]), x / 2.0), lambda x: indexed(x[:4]), made_of_tables])
def test_an_array_outside_that_is_indexed_by_a_traced_integer_is_a_plain_one_besides(f):
    for x in (X, X[::-1].copy()):
        got, expected = jit(f, backend="numpy")(x), f(x)
        np.testing.assert_array_equal(got, expected)
        assert type(got) is type(expected)
        np.testing.assert_allclose(jacobian(jit(f))(x), jacobian(f)(x), rtol=1e-12)


# --- errors --------------------------------------------------------------------------------------------------------------------------


def test_wrong_arguments():
    with pytest.raises(TypeError, match="not a function"):
        jit(3.0)
    with pytest.raises(ValueError, match="backend"):
        jit(loss, backend="fortran")
    f = jit(lambda x: x)
    with pytest.raises(TypeError, match="argument 0 is a object, neither array nor number"):
        f(object())
    with pytest.raises(TypeError, match="dtype object"):
        f(np.array([None]))
    with pytest.raises(TypeError, match="MaskedArray"):
        f(np.ma.masked_array(np.ones(3)))
    with pytest.raises(TypeError, match=r"dtype <U1"):
        f({"a": np.array(["a"])})


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
