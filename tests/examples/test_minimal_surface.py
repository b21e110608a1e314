"""The example: SciPy's root with exact Jacobians of an equation in two dimensions; Scherk's surface, with the error of the grid."""

import numpy as np
import pytest
from loaded import load

pytest.importorskip("scipy.optimize")
example = load("examples/minimal_surface.py")


def test_the_film_is_scherks_surface_to_second_order():
    errors = []
    for cells in (8, 16):
        u, solution, _ = example.film(cells)
        assert solution.success
        errors.append(np.abs(u - example.scherk(cells)).max())
    assert errors[1] < 2e-4
    assert 3.5 < errors[0] / errors[1] < 4.5


def test_every_kind_of_jacobian_leads_there_and_coloured_ones_need_the_fewest_evaluations():
    films = {kind: example.film(10, kind) for kind in ("differences", "dense", "coloured")}
    for u, _, _ in films.values():
        np.testing.assert_allclose(u, films["dense"][0], atol=1e-7)
    counts = {kind: evaluations for kind, (_, _, evaluations) in films.items()}
    assert counts["coloured"] <= counts["dense"] < counts["differences"] / 3
    unknowns = 9**2
    assert counts["differences"] - counts["coloured"] > 0.8 * unknowns  # what one Jacobian by differences takes
