"""Everyday steps and those of published codes: compiled, they have plain NumPy's values and the gradients of eager code."""

import contextlib
import io

import numpy as np
import pytest

from checkpoint import Stats, chain
from dualad import jit

pytest.importorskip("scipy")
pytest.importorskip("llvmlite")
from benchmarks.steps import EVERYDAY, PUBLISHED, arguments, gradient, in_blocks, leaves, parts, plain

STEPS = 24  # more than two tens, for what branches on k % 10

#: what is said of steps of which the plain function makes some: those that print
BUT_FOR = {"print every 100 steps": "but for 1 step"}


def check(name, program):
    """Compare a few compiled steps with plain NumPy, and their gradient with that of eager code."""
    program = program._replace(steps=STEPS)
    step, stats = jit(program.step), Stats()
    with contextlib.redirect_stdout(io.StringIO()):
        expected, slopes = plain(program)(), leaves(gradient(program, program.step)(*arguments(program)))
        value = chain(step, *arguments(program), steps=STEPS)
        found = leaves(gradient(program, step, stats)(*arguments(program)))
    for a, b in zip(parts(value), parts(expected), strict=True):
        if program.last_bits:
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12 * np.max(np.abs(b)))
        else:
            np.testing.assert_array_equal(a, b)
    np.testing.assert_allclose(found, slopes, rtol=1e-9, atol=1e-10 * np.max(np.abs(slopes)))
    assert np.any(found != 0.0) and stats.steps == STEPS
    assert in_blocks(stats) == BUT_FOR.get(name, "yes"), stats.reason


@pytest.mark.parametrize("name", EVERYDAY)
def test_everyday_steps(name):
    check(name, EVERYDAY[name])


@pytest.mark.long
@pytest.mark.parametrize("name", PUBLISHED)
def test_steps_of_published_codes(name):
    check(name, PUBLISHED[name])


def test_there_are_29_everyday_steps_and_as_many_published_ones():
    assert len(EVERYDAY) == 29 and len(PUBLISHED) >= 29
    assert {*EVERYDAY, *PUBLISHED} >= {*BUT_FOR}
