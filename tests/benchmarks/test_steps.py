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

#: what tracing refuses today, by what is missing
BRANCHES = {
    "a branch on a value", "a branch on k % 10", "a branch on both", "Newton, while", "for ... break", "assert all finite",
    "raise where diverged", "min(a, b)", "print every 100 steps", "bouncing ball", "stick-slip", "thermostat", "Izhikevich neurons",
    "sandpile", "snow and soil", "saturated PID", "Kepler's equation", "adaptive Heun",
}  # fmt: skip
REFUSED = BRANCHES

#: what is made step by step from Python today, by what it calls
INNER_LOOPS = {
    "rfft", "fft2", "solve, 16 rows", "eigh, 4 rows", "qr, 4 rows", "erf", "bessel", "turbulence, 16 x 16", "Schroedinger, 64 points",
    "Kuramoto-Sivashinsky, ETDRK4, 128", "particle in cell", "implicit heat, Cholesky", "Lyapunov exponents, qr",
}  # fmt: skip
NOT_IN_BLOCKS = REFUSED | INNER_LOOPS


def check(name, program):
    """Compare a few compiled steps with plain NumPy, and their gradient with that of eager code."""
    program = program._replace(steps=STEPS)
    step, stats = jit(program.step), Stats()
    with contextlib.redirect_stdout(io.StringIO()):
        expected, slopes = plain(program)(), leaves(gradient(program, program.step)(*arguments(program)))
        try:
            value = chain(step, *arguments(program), steps=STEPS)
        except TypeError:
            if name in REFUSED:
                pytest.skip("it is refused today")
            raise
        found = leaves(gradient(program, step, stats)(*arguments(program)))
    for a, b in zip(parts(value), parts(expected), strict=True):
        if program.last_bits:
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12 * np.max(np.abs(b)))
        else:
            np.testing.assert_array_equal(a, b)
    np.testing.assert_allclose(found, slopes, rtol=1e-9, atol=1e-10 * np.max(np.abs(slopes)))
    assert np.any(found != 0.0) and stats.steps == STEPS
    assert name in NOT_IN_BLOCKS or in_blocks(stats) == "yes", stats.reason


@pytest.mark.parametrize("name", EVERYDAY)
def test_everyday_steps(name):
    check(name, EVERYDAY[name])


@pytest.mark.long
@pytest.mark.parametrize("name", PUBLISHED)
def test_steps_of_published_codes(name):
    check(name, PUBLISHED[name])


def test_there_are_29_everyday_steps_and_as_many_published_ones():
    assert len(EVERYDAY) == 29 and len(PUBLISHED) >= 29
    assert {*EVERYDAY, *PUBLISHED} >= NOT_IN_BLOCKS
