"""Every keyword of every ruled array function of NumPy's is honoured, or refused by name: read off the signatures."""

from __future__ import annotations

import inspect
import warnings

import numpy as np
import pytest
from dtype_calls import UNDETERMINED, arrays, numeric, same
from samples import SAMPLES

from checkpoint import vjp
from dualad import jvp
from dualad.rules.calling import public_name, signature
from dualad.rules.kinds import ROWS, Composite, Differentiable

#: settings to try for a keyword, that are no defaults
SETTINGS = {
    "axis": (0, -1, (0,), 1),
    "axes": ((0,), (0, 1), (1, 0), ((0,), (0,)), 1),
    "dtype": (np.float32, np.complex128, np.float64),
    "casting": ("unsafe", "same_kind"),
    "keepdims": (True,),
    "initial": (0.5,),
    "where": (np.True_, np.array([True, True, False]), np.array([[True], [False]])),
    "order": ("F", "C", "A"),
    "ddof": (1,),
    "correction": (1,),
    "mean": (0.25,),
    "offset": (1,),
    "k": (1,),
    "n": (2, 3, 4),
    "s": ((2,), (2, 2)),
    "norm": ("ortho", "forward"),
    "mode": ("wrap", "clip", "edge", "same", "full", "r", "complete"),
    "method": ("lower", "hazen", "nearest"),
    "interpolation": ("lower",),
    "weights": (np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 2.0]), np.linspace(1.0, 2.0, 6)),
    "deg": (1, True),
    "edge_order": (2,),
    "bins": (3,),
    "range": ((-1.0, 1.0), [(-1.0, 1.0), (-1.0, 1.0)]),
    "density": (True,),
    "rowvar": (False,),
    "bias": (True,),
    "fweights": (np.array([1, 2, 3]), np.array([1, 2, 3, 1, 2])),
    "aweights": (np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 3.0, 1.0, 2.0])),
    "endpoint": (False,),
    "num": (4,),
    "base": (2.0,),
    "prepend": (0.5,),
    "append": (0.5,),
    "to_end": (0.5,),
    "to_begin": (0.5,),
    "period": (3.0,),
    "left": (9.0,),
    "right": (9.0,),
    "ord": (1, np.inf, 2, "fro"),
    "UPLO": ("U",),
    "upper": (True,),
    "full_matrices": (False,),
    "compute_uv": (False,),
    "hermitian": (True,),
    "rcond": (1e-3,),
    "rtol": (1e-3,),
    "shift": (1,),
    "shape": ((2, 2), (3, 2)),
    "reps": (2,),
    "repeats": (2,),
    "kind": ("stable", "quicksort", "introselect"),
    "y": (np.linspace(0.0, 1.0, 5), np.linspace(0.0, 1.0, 4), np.linspace(0.0, 1.0, 3)),
    "stable": (True,),
    "x": (np.array([0.1, 0.4, 0.9]), np.array([0.1, 0.4, 0.9, 1.5])),
    "dx": (0.5,),
    "nan": (1.0,),
    "posinf": (1.0,),
    "neginf": (1.0,),
    "tol": (1000.0,),
    "copy": (True, False),
    "descending": (True,),
    "sparse": (True,),
    "indexing": ("ij",),
    "subok": (True, False),
    "writeable": (False,),
    "trim": ("f", "b"),
    "min": (-0.3,),
    "max": (0.3,),
    "a_min": (-0.3,),
    "a_max": (0.3,),
    "include_initial": (True,),
    "increasing": (True,),
    "N": (2,),
    "m": (2,),
    "returned": (True,),
    "retstep": (True,),
    "optimize": (True, "greedy"),
    "overwrite_input": (False,),
    "minlength": (9,),
    "device": ("cpu",),
    "discont": (4.0,),
    "ind": (1,),
    "p": (1, 2, -2),
    "mask": (True,),
    "default": (2.5,),
    "return_index": (True,),
    "return_inverse": (True,),
    "return_counts": (True,),
    "equal_nan": (False,),
    "sorted": (True,),
    "assume_unique": (True,),
    "return_indices": (True,),
    "full": (True,),
    "cov": (True, "unscaled"),
    "w": (np.array([1.0, 2.0, 1.0, 2.0, 1.0]),),
    "axis1": (1, 0),
    "axis2": (0, 1),
    "axisa": (0,),
    "axisb": (0,),
    "axisc": (0,),
    "start": (1,),
    "ndmin": (2,),
    "fill_value": (0.5,),
    "side": ("right",),
}
#: keywords of which nothing can be seen here: where results go is tested in test_table and test_views, ``like=`` in test_creation
ELSEWHERE = {"out", "like"}
#: functions tested elsewhere: they write, or evaluate functions of the user
OTHERS = {"numpy.apply_along_axis", "numpy.apply_over_axes", "numpy.piecewise"}

RULED = [
    fn
    for fn in SAMPLES
    if not isinstance(fn, np.ufunc) and public_name(fn).startswith("numpy") and isinstance(ROWS.get(fn), Differentiable | Composite)
    if public_name(fn) not in UNDETERMINED | OTHERS
]


def keywords(fn):
    """Parameters that may be given by keyword, and that the samples need not give."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [name for name, p in signature(fn).parameters.items() if p.kind in kinds and p.default is not p.empty and name not in ELSEWHERE]


def calls(fn, name):
    """Samples that NumPy takes with the keyword, as functions of the leaves, and what NumPy gives."""
    for sample in SAMPLES[fn]:
        for setting in SETTINGS.get(name, ()):

            def f(*leaves, sample=sample, setting=setting):
                return fn(*sample.fill(leaves), **{**sample.kwargs, name: setting})

            try:
                plain = f(*sample.leaves())
            except Exception:
                continue
            if sample.leaves() and numeric(plain):
                yield f, sample.leaves(), plain, f"{public_name(fn)}{sample}, {name}={setting!r}"


@pytest.mark.parametrize("fn", RULED, ids=public_name)
def test_keywords(fn):
    untried = []
    for name in keywords(fn):
        tried = 0
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            for f, leaves, plain, label in calls(fn, name):
                tried += 1
                for mode in (lambda: jvp(f, tuple(leaves), tuple(map(np.ones_like, leaves)))[0], lambda: vjp(f, *leaves)[0]):
                    try:
                        value = mode()
                    except TypeError as error:
                        assert f"{name}=" in str(error), f"{label}: {error}"
                        continue
                    for got, expected in zip(arrays(value), arrays(plain), strict=True):
                        assert (got.dtype, got.shape) == (expected.dtype, expected.shape), label
                        assert same(got, expected), f"{label}: {got!r}, NumPy {expected!r}"
                if tried == 6:
                    break
        if not tried:
            untried.append(name)
    assert not set(untried) - UNTRIED.get(public_name(fn), set()), untried


#: keywords that no sample takes
UNTRIED = {
    **{name: {"order"} for name in ("numpy.sort", "numpy.partition")},  # of structured arrays
    **{name: {"where"} for name in ("numpy.amax", "numpy.amin")},  # with initial=, as np.max
    **{f"numpy.{name}": {"weights"} for name in ("quantile", "nanquantile", "percentile", "nanpercentile")},  # with method=: test_more
    "numpy.rot90": {"k"},  # all samples give it by its place
    "numpy.bincount": {"weights"},
    **{f"numpy.{name}": {"bins", "weights"} for name in ("histogram", "histogram_bin_edges", "histogram2d", "histogramdd")},
}
