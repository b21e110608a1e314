"""The example of molecular dynamics: forces by its list against those of all pairs, its energy, and its gradient by differences."""

import numpy as np
from loaded import load

from checkpoint import grad

example = load("examples/molecules.py")
ALL = np.stack(np.triu_indices(len(example.START), 1))


def potential(x):
    """The energy of all pairs, whose force is zero at the cut."""
    r = np.sqrt(np.sum(example.between(x, ALL) ** 2, axis=1))
    energy = lambda r: 4.0 * (r**-12 - r**-6)
    at_cut = 24.0 * (2.0 / example.CUT**13 - 1.0 / example.CUT**7)
    return np.sum(np.where(r < example.CUT, energy(r) - energy(example.CUT) + at_cut * (r - example.CUT), 0.0))


def run(x, times):
    state = x, example.VELOCITIES
    for k in range(times):
        state = example.ten_steps(k, state)
    return state


def shifted(f, x, place):
    """The derivative of a function by one coordinate, by differences."""
    one = np.zeros_like(x)
    one[place] = 1e-5
    return (f(x + one) - f(x - one)) / 2e-5


def test_forces_and_energy():
    x, v = run(example.START, 2)
    np.testing.assert_allclose(example.forces(x, ALL)[7, 1], -shifted(potential, x, (7, 1)), rtol=1e-6)
    near = ALL[:, np.sum(example.between(x, ALL) ** 2, axis=1) < (example.CUT + example.SKIN) ** 2]
    np.testing.assert_allclose(example.forces(x, near), example.forces(x, ALL), rtol=1e-12, atol=1e-11)

    def energy(x, v):  # the velocities are those of half a step before
        return potential(x) + 0.5 * np.sum((v + 0.5 * example.H * example.forces(x, ALL)) ** 2)

    assert abs(energy(*run(x, 1)) - energy(*run(x, 4))) < 1e-3 * abs(energy(x, v))


def test_the_gradient_is_that_of_differences():
    last = lambda x: run(x, 2)[0][example.MIDDLE, 1]
    made = grad(last)(example.START)
    for place in ((example.MIDDLE, 0), (example.MIDDLE + 1, 1)):
        np.testing.assert_allclose(made[place], shifted(last, example.START, place), rtol=1e-6)
