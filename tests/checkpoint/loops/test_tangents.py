"""Reverse over forward mode through a chain: states are saved, steps are compiled; derivatives of the loop written out."""

import numpy as np
import pytest
from comparing import close

pytest.importorskip("llvmlite")

import dualad
from checkpoint import Disk, Revolve, Stats, chain, grad, hvp
from dualad import jit, jvp

X, C, U = np.linspace(0.1, 1.0, 4), 0.7, np.arange(24.0).reshape(6, 4) / 10.0
N = 40


def damped(k, x, c):
    return x + 0.1 * np.sin(x * c)


def in_place(k, x, c):
    x[1:-1] += 0.1 * c * (x[2:] - 2.0 * x[1:-1] + x[:-2])
    return x


def driven(k, state, row, c):
    y, energy, settings = state["y"], state["energy"], state["settings"]
    y = y * c + row["force"]
    return {"y": y, "energy": energy + np.sum(y * y), "settings": settings}, {"cubes": np.sum(y**3), "y": y}


def loss(step):
    return lambda x, c: np.sum(chain(step, x, c, steps=N) ** 2)


def written_out(step):
    def f(x, c):
        x = np.copy(x)
        for k in range(N):
            x = step(k, x, c)
        return np.sum(x**2)

    return f


def path(step):
    def f(x, c, u):
        final, outs = chain(step, {"y": x, "energy": 0.0, "settings": 3}, c, inputs={"force": u}, outputs=True)
        return np.sum(final["y"]) + final["energy"] + np.sum(np.sin(outs["cubes"])) + np.sum(np.sin(outs["y"]))

    return f


def path_written_out(x, c, u):
    state, cubes, ys = {"y": x, "energy": 0.0, "settings": 3}, [], []
    for k in range(len(u)):
        state, out = driven(k, state, {"force": u[k]}, c)
        cubes.append(out["cubes"])
        ys.append(out["y"])
    return np.sum(state["y"]) + state["energy"] + np.sum(np.sin(np.stack(cubes))) + np.sum(np.sin(np.stack(ys)))


SECOND = {
    "both": lambda f: grad(lambda x, c: jvp(f, (x, c), (np.cos(x), 0.3))[1], argnums=(0, 1))(X, C),
    "a parameter": lambda f: grad(lambda x, c: jvp(lambda c: f(x, c), (c,), (0.3,))[1], argnums=(0, 1))(X, C),
    "directions": lambda f: grad(lambda x, c: np.sum(np.cos(dualad.jacobian(lambda x: f(x, c) * x)(x))), argnums=(0, 1))(X, C),
    "the tangent": lambda f: (grad(lambda v: jvp(lambda x: f(x, C), (X,), (v,))[1])(X),),
    "third": lambda f: (hvp(lambda x: jvp(lambda x: f(x, C), (x,), (np.cos(x),))[1], X, np.sin(X)),),
    "forward twice": lambda f: (grad(lambda x: jvp(lambda x: jvp(lambda x: f(x, C), (x,), (np.cos(x),))[1], (x,), (np.sin(x),))[1])(X),),
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("step", [damped, in_place])
@pytest.mark.parametrize("name", SECOND)
def test_derivatives_are_those_of_the_loop(name, step, compiled):
    f = loss(jit(step) if compiled else step)
    close(SECOND[name](f), SECOND[name](written_out(step)), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("compiled", [False, True])
def test_inputs_and_outs(compiled):
    f = path(jit(driven) if compiled else driven)
    for verb in (
        lambda f: grad(lambda x, c, u: jvp(f, (x, c, u), (np.cos(x), 0.3, np.sin(u)))[1], argnums=(0, 1, 2))(X, C, U),
        lambda f: grad(lambda x, c, u: np.sum(np.cos(dualad.jacobian(f, argnums=2)(x, c, u))), argnums=(0, 1, 2))(X, C, U),
    ):
        close(verb(f), verb(path_written_out), rtol=1e-11)


@pytest.mark.parametrize("compiled", [False, True])
def test_states_are_saved_and_steps_compiled(compiled, tmp_path):
    stats, step = Stats(), jit(damped) if compiled else damped
    second = lambda **options: grad(lambda x: jvp(lambda x: np.sum(chain(step, x, C, **options) ** 2), (x,), (np.cos(x),))[1])(X)
    reference = second(steps=N, stats=stats)
    assert stats.steps == N and stats.peak_states < N + 2 and ("compiled steps" in stats.reason) == compiled
    for options in ({"schedule": Revolve(2)}, {"storage": Disk(tmp_path)}, {"memory": "1 MB"}, {"check": True}):
        np.testing.assert_array_equal(second(steps=N, **options), reference)
    asked = []
    found = second(until=lambda k, x: asked.append(type(x)) or k == N)
    np.testing.assert_allclose(found, reference, rtol=1e-12)
    assert asked and not any(issubclass(kind, dualad.Dual) for kind in asked)


def test_a_compiled_step_and_its_predicate_are_traced_once_for_arguments_of_a_kind():
    calls = []

    def ended(k, x):
        if not isinstance(k, int):  # it is traced, not asked
            calls.append(k)
        return k == 3

    def step(k, x, c):
        calls.append(k)
        return damped(k, x, c)

    compiled = jit(step)
    for options in ({"steps": N}, {"until": ended}):
        f, counts = lambda x: np.sum(chain(compiled, x, C, **options) ** 2), []
        for scale in (1.0, 2.0, 3.0):
            grad(lambda x: jvp(f, (x,), (np.cos(x),))[1])(scale * X)
            counts.append(len(calls))
        assert counts[0] == counts[2]


TABLE = np.random.default_rng(5).normal(size=(20, 3))


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
def test_a_compiled_step_may_read_a_table_outside_at_its_own_index(backend):
    table = TABLE.copy()

    def step(k, x, c):
        return np.sin(x) * table[k % 20, 0] + c * table[k % 7, 1]

    def along(step):
        return grad(lambda x, c: jvp(loss(step), (x, c), (np.ones(4), 0.5))[1], argnums=(0, 1))

    compiled = along(jit(step, backend=backend))
    for _ in range(2):
        close(compiled(X, C), along(lambda k, x, c: step(k, x, c))(X, C), rtol=1e-10)
        table *= 0.9


def test_the_gradient_of_a_tangent_does_not_go_on_from_a_folder_but_the_tangent_of_a_gradient_does(tmp_path):
    f = lambda x: np.sum(chain(damped, x, C, steps=N, storage=Disk(tmp_path, resume=True)) ** 2)
    with pytest.raises(ValueError, match=r"chain: Disk\(.*resume=True.* gradient of a tangent .*Use hvp"):
        grad(lambda x: jvp(f, (x,), (X,))[1])(X)
    np.testing.assert_array_equal(hvp(f, X, X), hvp(lambda x: loss(damped)(x, C), X, X))
    value, tangent = jvp(f, (X,), (X,))
    assert (value, tangent) == jvp(lambda x: loss(damped)(x, C), (X,), (X,))
