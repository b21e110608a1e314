"""Every keyword of every ruled array function of NumPy's is honoured, or refused by name: read off the signatures."""

import inspect
import warnings

import numpy as np
from dtype_calls import UNDETERMINED, arrays, numeric, same
from in_groups import for_each
from samples import SAMPLES

from checkpoint import vjp
from dualad import jvp
from dualad.rules.calling import public_name, signature
from dualad.rules.kinds import ROWS, Composite, Differentiable


def each(names, *settings):
    """Return the same settings for several keywords."""
    return dict.fromkeys(names.split(), settings)


THREE, FOUR, FIVE = np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 2.0, 1.0, 2.0, 1.0])
#: settings to try for a keyword, that are no defaults
SETTINGS = {
    **each(
        "keepdims density bias upper hermitian stable descending sparse include_initial increasing returned retstep mask return_index "
        "return_inverse return_counts sorted assume_unique return_indices full",
        True,
    ),
    **each("rowvar endpoint full_matrices compute_uv writeable overwrite_input equal_nan", False),
    **each("copy subok", True, False),
    **each("ddof correction offset k shift ind start", 1),
    **each("ndmin reps repeats edge_order N m", 2),
    **each("initial prepend append to_end to_begin dx fill_value", 0.5),
    **each("nan posinf neginf", 1.0),
    **each("left right", 9.0),
    **each("rcond rtol", 1e-3),
    **each("axisa axisb axisc", 0),
    **each("a_min min", -0.3),
    **each("a_max max", 0.3),
    **each("axis", 0, -1, (0,), 1),
    **each("axes", (0,), (0, 1), (1, 0), ((0,), (0,)), 1),
    **each("axis1", 1, 0),
    **each("axis2", 0, 1),
    **each("dtype", np.float32, np.complex128, np.float64),
    **each("casting", "unsafe", "same_kind"),
    **each("where", np.True_, np.array([True, True, False]), np.array([[True], [False]])),
    **each("order", "F", "C", "A"),
    **each("mean", 0.25),
    **each("n", 2, 3, 4),
    **each("s", (2,), (2, 2)),
    **each("norm", "ortho", "forward"),
    **each("mode", "wrap", "clip", "edge", "same", "full", "r", "complete"),
    **each("method", "lower", "hazen", "nearest"),
    **each("interpolation", "lower"),
    **each("weights", THREE, FOUR, THREE[:2], np.linspace(1.0, 2.0, 6)),
    **each("fweights", np.array([1, 2, 3]), np.array([1, 2, 3, 1, 2])),
    **each("aweights", THREE, np.array([1.0, 2.0, 3.0, 1.0, 2.0])),
    **each("w", FIVE),
    **each("x", np.array([0.1, 0.4, 0.9]), np.array([0.1, 0.4, 0.9, 1.5])),
    **each("y", *(np.linspace(0.0, 1.0, n) for n in (5, 4, 3))),
    **each("deg", 1, True),
    **each("bins", 3),
    **each("range", (-1.0, 1.0), [(-1.0, 1.0), (-1.0, 1.0)]),
    **each("num", 4),
    **each("base", 2.0),
    **each("default", 2.5),
    **each("period", 3.0),
    **each("discont", 4.0),
    **each("tol", 1000.0),
    **each("minlength", 9),
    **each("ord", 1, np.inf, 2, "fro"),
    **each("p", 1, 2, -2),
    **each("UPLO", "U"),
    **each("shape", (2, 2), (3, 2)),
    **each("kind", "stable", "quicksort", "introselect"),
    **each("indexing", "ij"),
    **each("trim", "f", "b"),
    **each("optimize", True, "greedy"),
    **each("cov", True, "unscaled"),
    **each("side", "right"),
    **each("device", "cpu"),
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


@for_each("fn", RULED, public_name)
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
