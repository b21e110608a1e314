"""chain: the memory of a long one is that of its saved states and of one step, nearly."""

import math
import tracemalloc

import numpy as np
import pytest

from checkpoint import CTZ, Revolve, chain, grad

STEPS, X = 2000, np.linspace(0.1, 0.9, 20_000)


def step(k, x):
    return x + 0.01 * x * (1.0 - x)


def peak(f):
    """The most bytes allocated at one moment in a second call, in states."""
    f(X)
    tracemalloc.start()
    try:
        f(X)
        return tracemalloc.get_traced_memory()[1] / X.nbytes
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("schedule", [CTZ(), Revolve(12)], ids=repr)
def test_peak_memory_is_within_a_quarter_of_the_saved_states_and_one_step(schedule):
    one = peak(grad(lambda x: np.sum(step(0, x))))
    slots = math.ceil(math.log2(STEPS)) + 1
    assert peak(grad(lambda x: np.sum(chain(step, x, steps=STEPS, schedule=schedule)))) < 1.25 * (slots + one)
