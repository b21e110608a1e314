"""Partials are computed in the precision of the function, whatever dtype its constants have."""

import sys

import numpy as np
import pytest
import scipy.special as sp
from in_groups import for_each

from checkpoint import grad, linearize
from dualad import jvp
from dualad.rules.kinds import ROWS, Elementwise
from dualad.rules.late import late_row

late_row(None)
RARE = getattr(sys.modules.get("dualad.rules.special_rare"), "RARE", ())  # which may have been asked for
ROWS_HERE = {fn: row for fn, row in ROWS.items() if fn not in RARE}
UFUNCS = sorted((fn for fn, row in ROWS_HERE.items() if isinstance(fn, np.ufunc) and isinstance(row, Elementwise) and fn.nin > 1), key=str)
NARROW = [np.uint8, np.int8, np.int64, np.float16]
#: constants for which products and squares leave small dtypes, where the functions take them
LARGE = (100, 20, 3, 0.5)


def calls(fn):
    """Arguments of a function: the one that is differentiated of double precision, the others one constant."""
    for i, partial in enumerate(ROWS[fn].partials):
        if partial is None:
            continue
        for constant in LARGE:
            if constant == 0.5 and any(set(types[: fn.nin]) & set("iplq") for types in fn.types):
                continue
            args = [np.full(2, float(constant))] * fn.nin
            args[i] = np.full(2, 0.3)
            yield i, constant, args


@pytest.mark.slow
@for_each("fn", UFUNCS, lambda fn: fn.__name__)
def test_derivatives_do_not_depend_on_the_dtype_of_constants(fn):
    tried = 0
    for i, constant, args in calls(fn):
        for dtype in NARROW:
            if constant == 0.5 and np.dtype(dtype).kind != "f":
                continue
            narrow = [a if k == i else a.astype(dtype) for k, a in enumerate(args)]
            f = lambda x, narrow=narrow: fn(*narrow[:i], x, *narrow[i + 1 :])
            wide = [a.astype(np.int64) if k != i and np.dtype(dtype).kind in "iu" else a for k, a in enumerate(args)]
            with np.errstate(all="ignore"):
                try:
                    if f(args[i]).dtype.char not in "dD" or not np.array_equal(f(args[i]), fn(*wide)):
                        continue
                except TypeError:  # an integer is asked for
                    continue
                expected = jvp(lambda x, wide=wide: fn(*wide[:i], x, *wide[i + 1 :]), (args[i],), (np.ones(2),))[1]
                got = jvp(f, (args[i],), (np.ones(2),))[1]
                pulled = expected if np.iscomplexobj(expected) else grad(lambda x: np.sum(f(x)))(args[i])
                pushed = linearize(f, args[i])[1](np.ones(2))
                many = np.full(300, args[i][0])
                stretched = [a if k == i else a[:1] for k, a in enumerate(narrow)]
                large = grad(lambda x: np.sum(np.real(fn(*stretched[:i], x, *stretched[i + 1 :]))))(many)[:2]
                number = [a if k == i else a[0] for k, a in enumerate(narrow)]
                single = jvp(lambda x: fn(*number[:i], x, *number[i + 1 :]), (args[i][0],), (1.0,))[1]
            np.testing.assert_allclose(large, np.real(expected), rtol=1e-12)
            for other in (got, pulled, pushed, np.full(2, single)):
                np.testing.assert_allclose(other, expected, rtol=1e-12, err_msg=f"{fn} of {args[i]}, {dtype.__name__}({constant})")
            tried += 1
    assert tried


@pytest.mark.parametrize(
    ("f", "x", "expected"),
    [
        (lambda x: np.arctan2(x, np.array([100], np.int8)), 0.1, 100 / (0.01 + 1e4)),
        (lambda x: np.arctan2(x, np.array([5_000_000_000])), 0.1, 2e-10),
        (lambda x: np.arctan2(x, np.array([300], np.float16)), 0.1, 300 / (0.01 + 9e4)),
        (lambda x: sp.jv(np.uint8(0), x), 0.5, -0.24226845767487387),  # -J1(1/2)
        (lambda x: sp.hyp2f1(np.int8(20), np.int8(20), np.int8(3), x), 0.1, 548297.15900383),
        (lambda x: sp.zeta(np.array([2], np.uint8), x), 1.5, -0.8287966448),  # -2 zeta(3, 3/2)
        (lambda x: sp.xlogy(x, np.array([100], np.int8)), 1.5, np.log(100)),
        (lambda y: np.array([3.1], np.float16) ** y, 2.5, float(np.float16(3.1)) ** 2.5 * np.log(float(np.float16(3.1)))),
    ],
)
def test_closed_forms(f, x, expected):
    x = np.array([x])
    np.testing.assert_allclose(jvp(f, (x,), (np.ones(1),))[1], [expected], rtol=1e-9)
    np.testing.assert_allclose(grad(lambda x: np.sum(f(x)))(x), [expected], rtol=1e-9)


def test_single_precision_with_a_double_constant_has_the_precision_of_the_result():
    x, c = np.array([1.1], np.float32), np.array([0.7])
    for fn in (np.arctan2, np.hypot, np.power, np.logaddexp):
        wide = jvp(lambda x: fn(x, c), (x.astype(float),), (np.ones(1),))[1]
        np.testing.assert_allclose(jvp(lambda x: fn(x, c), (x,), (np.ones(1, np.float32),))[1], wide, rtol=1e-14)
