"""The example of molecular dynamics: forces by its list against those of all pairs, its energy, and its gradient by differences."""

import numpy as np
from loaded import load

example = load("examples/molecules.py")


def potential(x, box):
    """The energy of all pairs, whose force is zero at the cut."""
    i, j = np.triu_indices(len(x), 1)
    r = np.sqrt(np.sum(example.between(x, (i, j), box) ** 2, axis=1))
    energy = lambda r: 4.0 * (r**-12 - r**-6)
    at_cut = example.strength(example.CUT**2) * example.CUT
    return np.sum(np.where(r < example.CUT, energy(r) - energy(example.CUT) + at_cut * (r - example.CUT), 0.0))


def test_forces_and_energy():
    x, v, box = example.lattice(6)
    x = x + 0.05 * np.random.default_rng(1).normal(size=x.shape)
    forces = example.forces(x, example.neighbours(x, box), box)
    np.testing.assert_allclose(forces, example.forces(x, np.triu_indices(len(x), 1), box), rtol=1e-12, atol=1e-11)
    one = np.zeros_like(x)
    one[7, 1] = 1e-6
    np.testing.assert_allclose(forces[7, 1], -(potential(x + one, box) - potential(x - one, box)) / 2e-6, rtol=1e-6)
    energy = lambda x, v: potential(x, box) + 0.5 * np.sum(v**2)
    assert abs(energy(*example.run(x, v, box, 5)) - energy(x, v)) < 2e-3 * abs(energy(x, v))


def test_the_influence_is_that_of_differences():
    x, v, box = example.lattice(5)
    _, middle, matters = example.influence(5, 2)
    shifts = []
    for axis in (0, 1):
        one = np.zeros_like(x)
        one[7, axis] = 1e-5
        shifts.append((example.run(x + one, v, box, 2)[0][middle] - example.run(x - one, v, box, 2)[0][middle]) / 2e-5)
    np.testing.assert_allclose(matters[7], np.linalg.norm(shifts), rtol=1e-6)
