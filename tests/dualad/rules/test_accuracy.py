"""The published grid of benchmarks/accuracy: every ufunc and special function to the digits promised, at ordinary and extreme points."""

from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import scipy
from in_groups import for_each
from scipy import special

from benchmarks.accuracy import EXCEPTIONS, GOAL, alone, exceptions_table, exempt, figures, quietly, relative_error
from benchmarks.accuracy_exact import as_json, derivatives, exact, kept
from benchmarks.accuracy_grid import GRID
from checkpoint import grad
from dualad import jvp
from dualad.rules import ROWS
from dualad.rules.kinds import Composite, Differentiable, Multilinear
from dualad.rules.late import late_row

late_row(None)
ROWS_EXACT = kept()
#: the figures are those of 1.17; the partials call its functions, some of which were less accurate before
SCIPY = tuple(map(int, scipy.__version__.split(".")[:2]))
README = Path(__file__).parents[3] / "dualad" / "README.md"
NAMES = list(dict.fromkeys(entry.name for entry in GRID))


def entries(name):
    return [number for number, entry in enumerate(GRID) if entry.name == name]


@for_each("name", NAMES)
def test_derivatives_have_the_digits_promised(name):
    """Orders 1 and 2 in forward mode; those that are worse are excepted by name, and those excepted are as bad as it is said."""
    seen = [figure for number in entries(name) for figure in figures(number, ROWS_EXACT[number])]
    assert seen
    missed = [figure for figure in seen if figure.counts and not figure.good]
    excused = exempt if SCIPY >= (1, 17) else lambda figure: exempt(figure) or figure.error <= 100 * GOAL[figure.order]
    assert not [figure for figure in missed if not excused(figure)]
    if SCIPY == (1, 17):
        assert missed or name not in {entry.name for entry in EXCEPTIONS}, f"{name} is no longer an exception: strike it"


@for_each("name", NAMES)
def test_reverse_mode_has_them_too(name):
    for number in entries(name):
        entry, rows = GRID[number], ROWS_EXACT[number]
        step = max(1, len(rows) // 3)
        expected = {where: row[1] for where, row in zip(derivatives(entry), rows, strict=True)}
        for figure in figures(number, rows, step=step):
            where = figure.point, figure.by
            if figure.order == 1 and figure.counts and figure.good and not isinstance(expected[where], complex):
                f = alone(entry, *where)
                slope = quietly(lambda: grad(lambda x: np.real(f(x)))(figure.point[figure.by]))
                assert relative_error(slope, expected[where]) <= GOAL[1], where


@pytest.mark.slow
def test_the_exact_values_are_those_of_mpmath():
    """A sample: the benchmark computes all of them again."""
    checked = 0
    for number in range(0, len(GRID), 5):
        entry = GRID[number]
        for (point, by), row in list(zip(derivatives(entry), ROWS_EXACT[number], strict=True))[1:2]:
            value = quietly(lambda: alone(entry, point, by)(point[by]))
            for order in (1, 2):
                if row[order] is not None and entry.name not in ("owens_t", "hankel1", "hankel2", "yv", "yve"):
                    again = as_json(exact(entry, point, by, order, value))
                    assert (complex(*again) if isinstance(again, list) else again) == pytest.approx(row[order], rel=1e-15, abs=1e-300)
                    checked += 1
    assert checked > 60


def test_every_function_with_partials_is_in_the_grid():
    rows = [row for row in ROWS.values() if row.trusted and isinstance(row.fn, np.ufunc)]
    kinds = (Differentiable, Multilinear, Composite)
    names = {row.fn.__name__.lstrip("_") for row in rows if isinstance(row, kinds)}
    several = {"fresnel", "sici", "shichi", "airy", "itj0y0", "iti0k0", "ellipj"}
    absent = {"matvec", "vecmat", "ones_like", "igam_fac", "beta_pdf"}  # matmul by another name; no ufunc of numbers; without partials
    late_row(special.zetac)
    rare = {fn.__name__ for fn in import_module("dualad.rules.special_rare").RARE}  # tested against differences alone
    assert (names | several) - absent - rare <= set(NAMES)
    assert len(names) > 180


def test_the_readme_has_the_table_of_exceptions():
    assert exceptions_table() in README.read_text()


MIXED = np.array([-1e200, -700.0, -40.0, -1e-20, 0.0, 0.3, 25.0])
PARTLY = [np.tanh, np.expm1, np.arcsinh, lambda x: np.arctan2(x, 0.1), lambda x: np.arctan2(1e-200, x), lambda x: np.hypot(x, 1e-3)]


@pytest.mark.parametrize("f", PARTLY, ids=range(len(PARTLY)))
def test_ordinary_elements_do_not_hide_extreme_ones(f):
    """One cheap look at an array decides which form its partials take; each element's is that of the element alone, to both orders."""
    for order in (lambda f: f, lambda f: lambda x: np.sum(jvp(f, (x,), (np.ones_like(x),))[1])):
        g = order(f)
        total = lambda x, g=g: np.sum(g(x))
        alone = [float(grad(total)(np.array([v]))[0]) for v in MIXED]
        for x in (MIXED, MIXED[2:], MIXED[4:6], np.stack([MIXED, MIXED])):
            expected = alone if x.size > len(MIXED) else [alone[MIXED.tolist().index(v)] for v in x]
            np.testing.assert_allclose(grad(total)(x), np.broadcast_to(expected, x.shape), rtol=1e-14)
            np.testing.assert_allclose(jvp(total, (x,), (np.ones_like(x),))[1], np.sum(np.broadcast_to(expected, x.shape)), rtol=1e-12)
