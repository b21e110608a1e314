"""The example of colour spaces: its Jacobians by differences, and its ellipses by colour-science's own measure of colour differences."""

import numpy as np
import pytest
from loaded import load

colour = pytest.importorskip("colour")
example = load("examples/colours.py")


@pytest.mark.parametrize("name", example.SPACES)
def test_the_jacobians_are_those_of_differences(name):
    colours, space = example.COLOURS, example.SPACES[name]
    made = example.jacobians(space)
    for k, e in enumerate(1e-6 * np.eye(3)[:2]):
        np.testing.assert_allclose(
            made[..., k], (space(colours + e) - space(colours - e)) / 2e-6, rtol=1e-5, atol=1e-4 * np.abs(made).max()
        )


def test_all_colours_of_an_ellipse_are_as_far_from_its_centre():
    colours, space = example.COLOURS, example.SPACES["CIE Lab"]
    axes, ellipses = example.compared(space)
    circle = 1e-3 * np.array([np.cos(angles := np.linspace(0.0, 2.0 * np.pi, 9)), np.sin(angles)])
    edges = np.swapaxes(ellipses @ circle, 1, 2)
    moved = colours[:, None] + np.concatenate([edges, np.zeros_like(edges[..., :1])], axis=-1)
    far = colour.delta_E(space(moved), space(colours)[:, None], method="CIE 1976")
    np.testing.assert_allclose(far, 1e-3 * np.exp(np.mean(np.log(axes))), rtol=1e-3)
