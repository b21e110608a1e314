"""Chains of compiled steps with settings among numbers: compiled, with the derivatives of the step itself."""

import numpy as np
import pytest
from comparing import close
from interpreted import no_optimiser  # noqa: F401  (a fixture: LLVM optimises nothing)

pytest.importorskip("llvmlite")

from checkpoint import Disk, Stats, chain, grad, hvp
from dualad import jit, jvp

X, U = np.linspace(0.1, 1.0, 4), np.arange(20.0).reshape(5, 4) / 10.0


class Options:
    rate = 0.9


def by_name(k, x, mode, c):
    return c * x if mode == "slow" else np.sin(x)


def by_flag(k, x, flag, c):
    return c * x if flag else np.sin(x)


def by_function(k, x, f, c):
    return c * f(x)


def by_number(k, x, count, c):
    for _ in range(count):
        x = c * np.sin(x)
    return x


def by_object(k, x, options, c):
    return options.rate * c * x


CASES = {
    "text": (by_name, {}, "slow"),
    "flag": (by_flag, {}, False),
    "function of NumPy": (by_function, {}, np.sin),
    "declared by name": (by_number, {"static_argnames": "count"}, 3),
    "declared by position": (by_number, {"static_argnums": -2}, 3),
}
OTHERS = {"function": (by_function, {}, lambda x: 0.5 * x * x), "object": (by_object, {"static_argnames": "options"}, Options())}


@pytest.mark.parametrize("name", [*CASES, *OTHERS])
def test_settings_are_compiled_in(name):
    step, options, setting = {**CASES, **OTHERS}[name]
    fast, stats = jit(step, **options), Stats()

    def loss(step):
        return lambda x, c: np.sum(chain(step, x, setting, c, steps=5, stats=stats) ** 2)

    for verb in (
        lambda f: grad(f, argnums=(0, 1))(X, 0.7),
        lambda f: jvp(f, (X, 0.7), (np.cos(X), 1.0)),
        lambda f: (hvp(lambda x: f(x, 0.7), X, np.cos(X)),),
        lambda f: (f(X, 0.7),),
    ):
        close(verb(loss(fast)), verb(loss(step)))
    grad(loss(fast))(X, 0.7)
    assert ("compiled steps" in stats.reason) == (name in CASES), stats.reason


def test_settings_in_the_state_with_inputs_outs_and_a_predicate(tmp_path):
    def step(k, state, row, c):
        x = c * state["x"] + row["u"]
        return {"name": state["name"], "x": x, "on": state["on"]}, np.sum(x * x)

    start = lambda x: {"name": "wave", "x": x, "on": True}
    fast = jit(step)

    def loss(step, **options):
        def f(x, c):
            final, outs = chain(step, start(x), c, inputs={"u": U}, outputs=True, **options)
            assert final["name"] == "wave" and final["on"] is True
            return np.sum(final["x"]) + np.sum(np.sin(outs))

        return grad(f, argnums=(0, 1))(X, 0.7)

    stats = Stats()
    for options in ({}, {"memory": "1 MB"}, {"storage": Disk(tmp_path)}, {"check": True}, {"block": 2}):
        close(loss(fast, stats=stats, **options), loss(step))
        assert "compiled steps" in stats.reason
    damp, asked = jit(lambda k, s: {**s, "x": 0.5 * s["x"]}), lambda k, s: (s["name"] == "wave") & (np.sum(s["x"]) < 0.1)
    f = lambda step: lambda x: np.sum(chain(step, start(x), until=asked, stats=stats)["x"])
    np.testing.assert_allclose(grad(f(damp))(X), grad(f(damp.f))(X), rtol=1e-13)


def test_a_flag_that_a_step_changes_is_no_setting():
    step, stats = lambda k, s: {"x": 0.5 * s["x"] if s["on"] else s["x"] + 1.0, "on": not s["on"]}, Stats()
    f = lambda step: lambda x: np.sum(chain(step, {"x": x, "on": True}, steps=4, stats=stats)["x"] ** 2)
    for verb in (grad, lambda f: f):
        np.testing.assert_array_equal(verb(f(jit(step)))(X), verb(f(step))(X))
    grad(f(jit(step)))(X)
    assert "one by one, because the step changes a leaf of its state that is no number" in stats.reason


def test_other_settings_and_a_change_of_what_the_step_reads_compile_again():
    scale = [1.0]
    step = jit(lambda k, x, mode: scale[0] * x if mode == "a" else -x)
    f = lambda mode: grad(lambda x: np.sum(chain(step, x, mode, steps=3)))(X)[0]
    assert [f("a"), f("b"), f("a")] == [1.0, -1.0, 1.0]
    scale[0] = 2.0
    assert f("a") == 8.0
    assert [f(True), f(1)] == [-1.0, -1.0]
