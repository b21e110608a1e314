"""push: a function evaluated on Duals, and how short the way of a JVP through the rooms is."""

import numpy as np
import pytest
from walking import walked

from dualad import jvp
from dualad.core.levels import Level
from dualad.dask.arrays import LAZY
from dualad.forward.push import push
from dualad.forward.seeding import flatten_input


def test_a_jvp_is_a_short_walk(monkeypatch):
    monkeypatch.setattr(LAZY, "met", False)  # another test may have used dask arrays, which are looked for from then on
    x = np.linspace(0.1, 1.0, 8)
    walk = walked(jvp, lambda x: np.sum(np.sin(x) * x), (x,), (np.ones(8),))
    assert walk.within(calls=16, files=8, hops=12), walk
    assert walked(jvp, lambda x: x * x, (2.0,), (1.0,)).calls <= 8


@pytest.mark.parametrize("directions", [None, 3])
def test_values_tangents_structure_and_aux_come_back_together(directions):
    lanes = () if directions is None else (directions,)
    x, t = np.array([0.5, 2.0]), np.random.default_rng(0).normal(size=(*lanes, 2))
    leaves, structure = flatten_input(({"x": x, "k": 3.0},), "push")

    def f(given):
        y = given["x"] * given["k"]
        y[0] = 7.0  # written: what is returned is brought up to date
        return (y[:1], y[1:], 5), {"aux": given["x"]}

    level = Level(directions)
    order = [leaf is x or np.shape(leaf) == (2,) for leaf in leaves]
    values, tangents, made, aux = push(f, structure, leaves, [t if is_x else None for is_x in order], level, "push", True)
    assert not level.alive and made.num_leaves == 3
    np.testing.assert_array_equal([*values[0], *values[1]], [7.0, 6.0])
    np.testing.assert_array_equal(tangents[0], np.zeros((*lanes, 1)))
    np.testing.assert_array_equal(tangents[1], 3.0 * t[..., 1:])
    assert values[2] == 5 and tangents[2] is None and aux["aux"] is x
