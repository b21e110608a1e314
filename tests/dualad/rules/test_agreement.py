"""All interpretations of a row agree on random shapes, dtypes and layouts: a new row with a sample is tested by itself."""

import importlib.util
import itertools
import warnings

import numpy as np
import optree
import pytest
from agreement import is_lazy_and_right
from cases import Case, paired
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from samples import SAMPLES, Fixed, Sample
from test_directions import lane, push_together, stacked

from dualad import jit, jvp, sparsity
from dualad.rules.calling import public_name
from dualad.rules.kinds import ROWS

#: functions of our own and of matrices take what they were made for; of no numbers a Fourier transform of NumPy's reads what is not there
KEPT = ("dualad.", "numpy.linalg.", "numpy.fft.")
DASK = importlib.util.find_spec("dask") and importlib.util.find_spec("dask.array")
MOST = 40  # numbers in the arguments of an example

LAYOUTS = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "backwards": lambda x: np.flip(np.flip(x).copy()),
    "every second": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
    "turned": lambda x: np.moveaxis(np.moveaxis(x, 0, -1).copy(), -1, 0),
}


def relaid(data, x):
    """Draw an array of the same elements in another layout."""
    return LAYOUTS[data.draw(st.sampled_from(sorted(LAYOUTS)))](x) if x.ndim else x


def reshaped(data, x, least):
    """Draw an array of as many axes of other lengths, with elements of x."""
    shape = data.draw(st.tuples(*[st.integers(least, 4)] * x.ndim))
    places = data.draw(st.integers(0, 99)) + np.arange(int(np.prod(shape, dtype=int)))
    return np.ravel(x)[places % x.size].reshape(shape)


def broadcasting(data, leaves):
    """Draw shapes that broadcast, with elements of the leaves."""
    whole = data.draw(st.lists(st.integers(0, 3), max_size=3))
    for x in leaves:
        lead = data.draw(st.integers(0, len(whole)))
        shape = tuple(n if data.draw(st.booleans()) else 1 for n in whole[lead:])
        places = data.draw(st.integers(0, 99)) + np.arange(int(np.prod(shape, dtype=int)))
        yield np.ravel(x)[places % np.size(x)].reshape(shape)


def drawn(data, fn):
    """Draw a sample of a row, of other shapes where its function takes them, in other layouts and precisions."""
    sample = data.draw(st.sampled_from([s for s in SAMPLES[fn] if s.leaves()]))
    row, leaves = ROWS[fn], sample.leaves()
    filled = [x for x in leaves if np.size(x)]
    elements = row.elementwise and len(filled) == len(leaves) == len(sample.args) and not sample.kwargs
    if elements and data.draw(st.booleans()):
        leaves = list(broadcasting(data, leaves))
    elif not row.name.startswith(KEPT) and row.axes != (-2, -1) and data.draw(st.booleans()):
        least = int(fn is np.einsum)  # NumPy reads behind the end of an array of shape (0, 2) whose diagonal is asked for
        leaves = [reshaped(data, x, least) if isinstance(x, np.ndarray) and x.size else x for x in leaves]
    if data.draw(st.booleans()):
        single = {"d": np.float32, "D": np.complex64}
        leaves = [np.asarray(x, single.get(x.dtype.char))[()] if hasattr(x, "dtype") else x for x in leaves]
    leaves = iter([relaid(data, x) if isinstance(x, np.ndarray) else x for x in leaves])
    return Sample(tuple(with_leaves(arg, leaves) for arg in sample.args), sample.kwargs, sample.casts)


def with_leaves(arg, leaves):
    if type(arg) is list:
        return [with_leaves(item, leaves) for item in arg]
    return arg if type(arg) is Fixed or not Sample((arg,)).leaves() else next(leaves)


def case_of(fn, sample):
    """Return a case, None where NumPy itself does not take it, or warns."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            case = Case(fn, sample)
    except (ValueError, IndexError, TypeError, ArithmeticError, RuntimeError, Warning):
        return None
    return case if case.leaves and any(case.inexact) and sum(map(np.size, case.leaves)) <= MOST else None


def assert_bits(got, expected):
    for a, b in zip(*(optree.tree_leaves(tree) for tree in (got, expected)), strict=True):
        assert (np.shape(a), np.asarray(a).dtype) == (np.shape(b), np.asarray(b).dtype)
        np.testing.assert_array_equal(a, b)


def agreement(examples):
    """Return the test of every row on so many examples, the same ones each time; of many, every other one is computed lazily, too."""
    numbers = itertools.count()

    @pytest.mark.parametrize("fn", SAMPLES, ids=public_name)
    @settings(max_examples=examples, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
    @given(data=st.data())
    def test(fn, data):
        case = case_of(fn, drawn(data, fn))
        assume(case is not None)
        with np.errstate(all="ignore"):
            assert_agreement(case, data)
            if DASK and (examples == 1 or next(numbers) % 2) and all(map(np.size, case.leaves)):  # dask's own functions want elements
                is_lazy_and_right(case)

    return test


test_all_interpretations_agree = agreement(1)
test_all_interpretations_agree_on_more_examples = pytest.mark.long(agreement(4))
test_all_interpretations_agree_on_many_examples = pytest.mark.campaign(agreement(12))


def assert_agreement(case, data):
    assert_bits(jvp(case.whole, tuple(case.leaves), tuple(case.v))[0], case.value)
    case.assert_paired(paired(case.g, case.pushed), paired(case.pulled, case.v), exact=1e-10)
    directions = case.directions(3, 3)
    together = push_together(case, case.leaves, directions, 3)
    case.assert_close(together, stacked(case.push(lane(directions, k)) for k in range(3)), exact=1e-12)
    if not ROWS[case.fn].value_dependent:
        pushed = jit(lambda leaves, v: jvp(lambda *leaves: case(leaves), tuple(leaves), tuple(v)), backend="numpy")
        for got, expected in zip(pushed(case.leaves, case.v), (case(case.leaves), case.pushed), strict=True):
            case.assert_close(got, expected, exact=1e-11)
    if importlib.util.find_spec("scipy") is not None and sum(map(np.size, case.leaves)):
        assert_covered(case, data.draw(st.integers(0, sum(map(np.size, case.leaves)) - 1)))


def assert_covered(case, entry):
    """Compare the column of an entry of the leaves in the sparsity pattern with the tangents along it."""
    unit, start = [np.zeros_like(x) for x in case.leaves], 0
    for x in unit:
        if start <= entry < start + x.size:
            x.reshape(-1)[entry - start] = 1.0
        start += x.size
    slopes = np.concatenate([np.abs(np.ravel(t)) for t in case.push([v[()] for v in unit])])
    for local in (True,) if ROWS[case.fn].value_dependent else (False, True):
        pattern = sparsity(lambda leaves: case(leaves), list(case.leaves), local=local).toarray()
        assert pattern.shape == (slopes.size, start)
        assert not np.any(slopes[~pattern[:, entry]] > case.rtol * np.max(slopes, initial=0.0)), f"{case.sample}, local={local}"
