"""scipy.special: the rows that are not on the published grid, against differences in both modes to order 2; no ufunc is unknown."""

from importlib import import_module

import numpy as np
import pytest
from test_special import compared

from dualad.rules import ROWS
from dualad.rules.kinds import Refused
from dualad.verbs.coverage import special_ufuncs, treatment

sp = pytest.importorskip("scipy.special")

#: arguments; what stands in tuples is plain
SAMPLES: dict[str, list[tuple]] = {
    "agm": [(1.3, 0.4), (1.0, 1.2)],
    "airye": [(0.7,)],
    "bdtr": [((2.0,), (5,), 0.3)], "bdtrc": [((2.4,), (5,), 0.3)], "bdtri": [((2.0,), (5,), 0.4)],
    "besselpoly": [(0.8, (1.5,), (0.7,)), (0.8, (1.5,), (0.0,))],
    "chndtr": [(3.1, (2.5,), 1.2)], "chndtrix": [(0.4, (2.5,), 1.2)], "chndtrinc": [(3.1, (2.5,), 0.4)],
    "elliprc": [(0.7, 1.4)],
    "eval_chebyc": [((4,), 0.7), ((0,), 0.7)], "eval_chebys": [((4,), 0.7)],
    "eval_sh_jacobi": [((3,), (2.5,), (1.2,), 0.3), ((0,), (2.5,), (1.2,), 0.3)],
    "gdtria": [(0.4, (1.5,), 0.8)], "gdtrix": [(1.3, (1.5,), 0.4)],
    "it2i0k0": [(0.4,), (2.1,)], "it2j0y0": [(0.4,), (2.1,)], "it2struve0": [(0.9,)], "itairy": [(0.9,)],
    "itstruve0": [(0.9,)], "itmodstruve0": [(0.9,)],
    "kelvin": [(1.3,)],
    "kolmogorov": [(0.6,), (1.4,)], "kolmogi": [(0.6,), (0.1,)],
    "log_wright_bessel": [((0.5,), (1.2,), 0.8)], "wright_bessel": [((0.5,), (1.2,), 0.8)],
    "lpmv": [((1,), (2.0,), 0.3), ((0,), (3.0,), -0.4)],
    **{f"mathieu_{kind}em": [((2,), (0.8,), 30.0)] for kind in "cs"},
    **{f"mathieu_mod{kind}em{k}": [((2,), (0.8,), 0.6)] for kind in "cs" for k in (1, 2)},
    "modfresnelp": [(0.7,)], "modfresnelm": [(0.7,)],
    "nbdtr": [((2.0,), (5,), 0.3)], "nbdtrc": [((2.0,), (5,), 0.3)], "nbdtri": [((2,), (5,), 0.3)],
    "ncfdtr": [((3.0,), (7.0,), (1.2,), 1.4)], "ncfdtri": [((3.0,), (7.0,), (1.2,), 0.4)],
    "nrdtrimn": [(0.3, 1.4, 0.2)], "nrdtrisd": [(0.3, 0.8, 1.2)],
    "pbdv": [((0.7,), 1.3)], "pbvv": [((0.7,), 1.3)], "pbwa": [((0.7,), 1.3)],
    "pdtri": [((2,), 0.4)],
    **{name: [((1,), (2,), (0.7,), x)] for name, x in (("pro_ang1", 0.4), ("pro_rad1", 1.6), ("obl_ang1", 0.4), ("obl_rad1", 0.6))},
    **{f"{name}_cv": [((1,), (2,), (0.7,), (cv(1, 2, 0.7),), x)]
       for name, cv, x in (("pro_ang1", sp.pro_cv, 0.4), ("pro_rad1", sp.pro_cv, 1.6),
                           ("obl_ang1", sp.obl_cv, 0.4), ("obl_rad1", sp.obl_cv, 0.6))},
    "tklmbda": [(0.4, (0.3,)), (0.4, (0.0,))],
    "voigt_profile": [(0.7, 0.9, 0.4)],
}  # fmt: skip
#: whose partials have no partials, or whose value has few digits in SciPy 1.13
FIRST_ORDER = {"elliprc", *(["ncfdtri"] if pytest.importorskip("scipy").__version__ < "1.14" else [])}


def test_no_ufunc_is_unknown_and_every_row_here_has_a_sample():
    assert not [fn.__name__ for fn in special_ufuncs() if treatment(fn) == "unknown"]
    rare = import_module("dualad.rules.special_rare").RARE
    known = {name for name in SAMPLES if hasattr(sp, name)}
    assert known == {fn.__name__ for fn in rare if isinstance(fn, np.ufunc) and not isinstance(ROWS[fn], Refused)}


@pytest.mark.parametrize("name", SAMPLES)
def test_against_differences(name):
    fn = getattr(sp, name, None)
    if fn is None:
        pytest.skip("this SciPy has it not")
    for point in SAMPLES[name]:
        args = [x if isinstance(x, tuple) else np.array([x]) for x in point]
        compared(fn, args, order=1 if name in FIRST_ORDER else 2)
