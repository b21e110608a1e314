"""What calls a step: how many Python calls a step of each kind of chain takes, and what is kept of its arguments."""

import gc
from importlib.util import find_spec
from weakref import ref

import numpy as np
import pytest
from walking import walked

from checkpoint import StoreAll, chain, grad
from dualad import jit

HAS_LLVM = find_spec("llvmlite") is not None


def third(k, x, c):
    return x / 3 + c


def simulate(steps, **options):
    return lambda x, c: chain(third, x, c, steps=steps, **options)


def per_step(program, **options):
    """Return the calls of ours that one step more takes, in a chain of some length."""
    more, less = (walked(program(steps, **options), 1.0, 2.0).calls for steps in (80, 40))
    return (more - less) / 40


def test_a_step_takes_few_calls():
    gradient = lambda steps, **options: grad(simulate(steps, **options), argnums=(0, 1))
    assert per_step(simulate) == 1  # what calls it
    assert per_step(gradient) <= 31
    assert per_step(gradient, schedule=StoreAll()) <= 32


def test_a_gradient_through_four_steps_is_a_short_walk():
    """Of numbers; a compiled one is now and then a longer walk, by the comparison with the plain step."""
    gradient = lambda step: grad(lambda x, c: chain(step, x, c, steps=4))
    assert walked(gradient(third), 1.0, 2.0).within(calls=310, files=20, hops=150)
    if HAS_LLVM:
        compiled = gradient(jit(third))
        shortest = min(walked(compiled, 1.0, 2.0) for _ in range(8))
        assert shortest.within(calls=190, files=18, hops=80), shortest


@pytest.mark.parametrize("compiled", [False, True])
def test_parameters_are_not_kept(compiled):
    """A compiled step remembers its program from call to call, and nothing of the arrays that it was given."""
    if compiled:
        pytest.importorskip("llvmlite")
    scale = lambda k, x, c: x * c
    step = jit(scale) if compiled else scale

    def gradient(c):
        chain(step, np.ones(500), c, steps=4)  # in whose first call the step is traced, with the caller's own array
        return grad(lambda x: np.sum(chain(step, x, c, steps=4)))(np.ones(500))

    alive = []
    for value in (1.5, 2.0):
        c = np.full(500, value)
        alive.append(ref(c))
        assert np.array_equal(gradient(c), c * c * c * c)
        del c
    gc.collect()
    assert all(array() is None for array in alive)
