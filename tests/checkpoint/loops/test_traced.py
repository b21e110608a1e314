"""A chain in code that is traced: one operation, also in derivatives; of loops where it would keep too much."""

import numpy as np
import pytest
from comparing import close

import dualad
from checkpoint import Disk, Stats, chain, grad, hvp
from checkpoint.loops import traced as within
from dualad import jit, jvp
from dualad.graph.nested import Scan
from dualad.jit.compiled import BACKENDS

N = 101
RNG = np.random.default_rng(0)


def step(k, state, row, p):
    x, v = state
    x = x + 0.01 * v * p["a"]
    v = v - 0.01 * np.sin(x) * p["b"] + 0.001 * row - 1e-4 * np.where(k > p["late"], x, 0.0)
    return (x, v), np.sum(x * v)


def loss(x, v, u, a, b):
    p = {"a": a, "b": b, "name": "pendulum", "late": 3}
    (x, v), outs = chain(step, (x, v), p, inputs=u, outputs=True)
    return np.sum(x * x) + np.sum(v) + np.sum(np.cos(outs))


ARGS = RNG.standard_normal(5), RNG.standard_normal(5), RNG.standard_normal((N, 5)), 1.3, np.array(0.7)


def turns_of(jitted):
    (entry,) = jitted.entries.values()
    return [operation.fn.count for operation in entry.compiled.program.operations if type(operation.fn) is Scan]


@pytest.mark.slow
@pytest.mark.parametrize("backend, room, turns, twice", [
    ("numpy", 1 << 26, [101], [101, 101]), *[("llvm", 100, [10, 1], [10, 1, 1, 10])] * ("llvm" in BACKENDS)
])  # fmt: skip
def test_a_chain_is_one_operation(backend, room, turns, twice, monkeypatch):
    monkeypatch.setattr(within, "LOOP_BYTES", room)
    every, tangents = tuple(range(5)), tuple(np.cos(arg) for arg in ARGS)
    fast = jit(loss, backend=backend)
    close([fast(*ARGS)], [loss(*ARGS)], atol=1e-13)
    assert turns_of(fast) == turns
    gradient = grad(loss, argnums=every)(*ARGS)
    close(grad(fast, argnums=every)(*ARGS), gradient, atol=1e-13)
    traced = jit(grad(loss, argnums=every), backend=backend)
    close(traced(*ARGS), gradient, atol=1e-13)
    assert turns_of(traced) == twice
    pushed = jvp(loss, ARGS, tangents)[1]
    close([jvp(fast, ARGS, tangents)[1], jit(lambda *args: jvp(loss, args, tangents)[1], backend=backend)(*ARGS)], [pushed] * 2, atol=1e-13)
    curved = hvp(lambda x: loss(x, *ARGS[1:]), ARGS[0], tangents[0])
    close([hvp(lambda x: fast(x, *ARGS[1:]), ARGS[0], tangents[0])], [curved], atol=1e-13)
    again = jit(lambda x: hvp(lambda x: loss(x, *ARGS[1:]), x, tangents[0]), backend=backend)
    close([again(ARGS[0])], [curved], atol=1e-13)


def test_memory_and_stats_are_heard_inside_of_compiled_code_and_a_durable_storage_is_refused(tmp_path):
    x, stats = RNG.uniform(size=10), Stats()  # 80 bytes a state
    expected = grad(lambda x: np.sum(chain(lambda k, x: x + 0.1 * np.sin(x), x, steps=100)))(x)
    for memory, turns in (("8 kB", [100, 100]), ("7.9 kB", [10, 10])):
        f = lambda x, memory=memory: np.sum(chain(lambda k, x: x + 0.1 * np.sin(x), x, steps=100, memory=memory, stats=stats))
        traced = jit(grad(f), backend="numpy")
        np.testing.assert_allclose(traced(x), expected, rtol=1e-13)
        assert turns_of(traced) == turns
    assert (stats.steps, stats.reason) == (100, "one operation of a program that jit compiles")
    durable = jit(grad(lambda x: np.sum(chain(lambda k, x: x * 0.5, x, steps=3, storage=Disk(tmp_path, resume=True)))))
    with pytest.raises(TypeError, match=r"chain: Disk\(.*resume=True.* inside a function that jit compiles"):
        durable(x)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_inner_chain_of_a_compiled_step(backend):
    """Pressure iterations inside of a flow's step, inside of a chain."""

    def relaxed(k, p, b):
        p = p.copy()
        p[1:-1] = 0.5 * (p[2:] + p[:-2] - b[1:-1])
        return p

    def outer(k, u):
        p = chain(relaxed, np.zeros_like(u), u * u, steps=50)
        return u - 0.1 * p

    u = RNG.uniform(size=12)
    f = lambda step: lambda u: np.sum(chain(step, u, steps=6) ** 2)
    fast = jit(outer, backend=backend)
    close([fast(0, u)], [outer(0, u)], atol=1e-13)
    assert turns_of(fast) == [50]
    close([grad(f(jit(outer, backend=backend)))(u)], [grad(f(outer))(u)], atol=1e-13)
    close([jit(grad(f(outer)), backend=backend)(u)], [grad(f(outer))(u)], atol=1e-13)


def test_results_that_nobody_reads():
    f = jit(lambda x, y: chain(lambda k, s: (s[0] * 0.5 + s[1], s[1] * 0.9), (x, y), steps=30)[0])
    expected = chain(lambda k, s: (s[0] * 0.5 + s[1], s[1] * 0.9), (1.0, 2.0), steps=30)[0]
    assert f(1.0, 2.0) == pytest.approx(expected, rel=1e-14)
    assert f(1.0, 2.0) == f(1.0, 2.0)


def test_what_is_no_loop_is_unrolled_or_refused():
    layers = [lambda k, x: np.sin(x), lambda k, x: x * x]
    close([jit(lambda x: chain(layers, x))(0.5)], [np.sin(0.5) ** 2], atol=1e-13)
    with pytest.raises(TypeError, match="pass it as an argument"):
        jit(lambda x, c: chain(lambda k, x: x * c, x, steps=3))(1.0, 2.0)
    with pytest.raises(TypeError, match="chain: step 0 returned float64 of shape"):
        jit(lambda x: chain(lambda k, x: x[1:], x, steps=3))(np.ones(5))


def test_steps_that_are_unrolled_make_no_object_arrays():
    """Of an unknown length, or layers: step by step, on arrays that are traced; warnings are errors here."""
    x, layers = np.linspace(0.1, 1.0, 100), [lambda k, x: (0.9 * x[0], x[1]), lambda k, x: (x[0] * x[1], x[0])]
    for f in (
        lambda x: np.sum(chain(lambda k, x: 0.9 * np.sin(x), x, until=lambda k, x: k == 3)),
        lambda x: np.sum(chain(3 * layers, (x, x), check=True)[0]),
    ):
        np.testing.assert_allclose(jit(grad(f))(x), grad(f)(x), rtol=1e-13)


def test_tangents_alone_are_traced():
    f = lambda v: jvp(lambda x: np.sum(chain(lambda k, x: x + 0.1 * np.sin(x), x, steps=7) ** 2), (np.arange(3.0),), (v,))[1]
    for g in (f, grad(f)):
        np.testing.assert_allclose(jit(g)(np.ones(3)), g(np.ones(3)), rtol=1e-13)
    np.testing.assert_allclose(jit(f)(np.eye(3)[1]), grad(f)(np.ones(3))[1], rtol=1e-13)  # f is linear


FORCING = np.linspace(0.0, 1.0, 40)


@dualad.primitive
def cubed(x):
    return x**3


dualad.rules.elementwise(cubed, lambda ans, x: 3.0 * x**2)


def forced(k, x, c):
    return x + 0.1 * FORCING[k] * c * np.sin(x)


def loops_that_read(forcing):
    inner = lambda k, x, c: x + forcing[2 * k] * c
    compiled = jit(inner)
    return {
        "one beside a primitive": lambda x, c, i: np.sum(cubed(x)) * FORCING[i] * c,
        "a global": lambda x, c, i: np.sum(chain(forced, x, c, steps=6) ** 2),
        "an enclosing one": lambda x, c, i, step=compiled: np.sum(chain(step, x, c, steps=6) ** 2),
        "one that is indexed outside, too": lambda x, c, i: np.sum(chain(inner, x, c, steps=6)) * forcing[i] * FORCING[i],
        "that of a function made here": lambda x, c, i: np.sum(chain(lambda k, x: x * FORCING[k], x, steps=6)) * c + FORCING[i],
    }


@pytest.mark.parametrize("name", loops_that_read(FORCING))
def test_a_step_reads_an_array_at_its_index(name):
    f = loops_that_read(np.linspace(-1.0, 2.0, 30))[name]
    args = np.linspace(0.2, 0.9, 3), 0.5, 7
    close([jit(f)(*args), jit(grad(f))(*args), grad(jit(f))(*args)], [f(*args), grad(f)(*args), grad(f)(*args)], atol=1e-13)


def test_a_step_of_numbers_compiles_however_long_its_expressions_are():
    def step(k, x, y):
        for _ in range(12):  # written out, its expressions have thousands of operations
            x, y = x * y - 0.5 * x, y - 0.1 * x * y
        return x, y

    f = lambda v: sum(chain(lambda k, s: step(k, *s), (v[0], v[1]), steps=5))
    x = np.array([0.3, 0.4])
    compiled = jit(grad(f), verify=False)
    close(compiled(x), grad(f)(x), atol=1e-13)
    assert "called" not in compiled.explain(x) and "failed" not in compiled.explain(x)
