"""chain: the memory of a long one is that of its saved states and of one step, nearly."""

import gc
import math

import numpy as np
import pytest
from calls import second_peak

from checkpoint import CTZ, Disk, Memory, Mixed, Revolve, Stats, chain, grad
from dualad import jit
from dualad.jit.compiled import BACKENDS

STEPS, X = 1030, np.linspace(0.1, 0.9, 30_000)


def step(k, x):
    return x + 0.01 * x * (1.0 - x)


@pytest.mark.slow
@pytest.mark.parametrize("schedule", [CTZ(), Revolve(12)], ids=repr)
def test_peak_memory_is_within_a_quarter_of_the_saved_states_and_one_step(schedule):
    one = second_peak(grad(lambda x: np.sum(step(0, x))), X) / X.nbytes
    slots = math.ceil(math.log2(STEPS)) + 1
    gradient = grad(lambda x: np.sum(chain(step, x, steps=STEPS, schedule=schedule)))
    assert second_peak(gradient, X) < 1.25 * (slots + one) * X.nbytes


def driven(k, x, u, p):
    return x * p + u, x


def scaled(k, x, p):
    return x * p


COMPILED = jit(scaled) if "llvm" in BACKENDS else scaled
KINDS = {
    "plain": lambda x, p: chain(scaled, x, p, steps=6),
    "of a chain": lambda x, p: chain(lambda k, x, p: chain(scaled, x, p, steps=2), x, p, steps=3),
    "records": lambda x, p: chain(scaled, x, p, steps=6, schedule=Mixed(3)),
    "outs": lambda x, p: chain(driven, x, p, inputs=np.ones(6), outputs=True)[1],
    "until": lambda x, p: chain(scaled, x, p, until=lambda k, x: k == 6),
    "compiled": lambda x, p: chain(COMPILED, x, p, steps=6),
    "compiled until": lambda x, p: chain(COMPILED, x, p, until=lambda k, x: k == 6),
}


@pytest.mark.parametrize("name", [*KINDS, "resumed"])
def test_nothing_is_left_for_the_collector(name, tmp_path):
    """A gradient of large states must not hold them until Python's collector comes."""
    x, p = np.linspace(0.5, 1.0, 300), np.full(300, 0.9)
    resumed = lambda x, p: chain(driven, x, p, inputs=np.ones(6), outputs=True, storage=Disk(tmp_path, resume=True, shared=True))[0]
    f = KINDS.get(name, resumed)
    gradient = grad(lambda x, p: np.sum(f(x, p)), argnums=(0, 1))
    gradient(x, p)  # imports
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gradient(x, p)
        gc.collect()
        assert not [type(thing) for thing in gc.garbage if type(thing).__module__.startswith(("checkpoint", "dualad"))]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


@pytest.mark.parametrize("made", [lambda f: f, jit], ids=["eager", "compiled"])
@pytest.mark.parametrize("schedule", [CTZ(), Revolve(2), Mixed(2)], ids=str)
def test_states_that_are_rounded_are_not_compared(made, schedule):
    def f(x, **options):
        return np.sum(chain(made(lambda k, x: 0.9 * np.sin(x) + 0.01 * k), x, steps=20, **options))

    x = np.linspace(0.3, 0.9, 3000)
    rounded = grad(lambda x: f(x, schedule=schedule, storage=Memory(compress="float32")))(x)
    np.testing.assert_allclose(rounded, grad(f)(x), rtol=1e-4)
    with pytest.raises(RuntimeError, match=r"the storage returned another x_\d+ than was saved"):
        grad(lambda x: f(x, schedule=CTZ(), storage=Memory(compress="float32"), check=True))(x)


def test_what_compiling_takes_does_not_count_for_a_budget():
    """Of a step that is compiled but made one by one: the first call is as good as the second."""

    @jit
    def step(k, x, a):
        y = np.linalg.solve(np.eye(6) * 2.0 + x[0], x[:6])
        return 0.3 * x + 0.1 * np.tanh(np.mean(np.arctan(a)) + x + y[0])

    x, a = np.random.default_rng(1).uniform(-1, 1, (2, 10_000))
    said = []
    for _ in range(2):
        stats = Stats()
        grad(lambda a, stats=stats: np.sum(chain(step, x, a, steps=4, memory="1.3 MB", stats=stats)))(a)
        said.append(stats.reason)
    assert all("hold" in reason for reason in said)
