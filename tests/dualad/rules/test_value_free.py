"""Rules touch values only through functions that have rows: every one runs on symbols, which have none."""

import math

import numpy as np
import pytest
import samples_more
from in_groups import for_each
from samples import SAMPLES

from dualad.graph.symbol import Symbol
from dualad.graph.trace import Trace, TraceError
from dualad.rules import ROWS
from dualad.rules.calling import public_name
from dualad.rules.kinds import Abstract, Composite, Differentiable, Elementwise, primitive

#: rows that look at values, because only then they are exact or know a shape; no program without values can run them
VALUE_DEPENDENT = {"numpy.linalg.lstsq": "its results have other shapes where the rank is smaller", **samples_more.VALUE_DEPENDENT}

RULED = [fn for fn in SAMPLES if isinstance(ROWS[fn], Differentiable | Composite) and ROWS[fn].name not in VALUE_DEPENDENT]
rows = for_each("fn", RULED, public_name)


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield


def alike(results, wanted):
    """The same of each part, where a function returns several."""
    if isinstance(wanted, tuple):
        return results is None or all(map(alike, results, wanted))
    return like(results, wanted.shape, wanted.dtype.kind == "c")


def like(result, shape, complex_too):
    """A tangent or cotangent may be a number, or None for a zero; else it has the shape, or broadcasts to it."""
    if result is None or isinstance(result, float):
        return True
    return np.broadcast_shapes(result.shape, shape) == shape and (complex_too or np.dtype(result.dtype).kind == "f")


@rows
def test_derivatives_touch_no_value(fn):
    """Of every sample with Symbols for leaves."""
    row = ROWS[fn]
    for sample in SAMPLES[fn]:
        trace = Trace()
        another = lambda x, trace=trace: trace.input(np.ones(x.shape, x.dtype)[()])
        args, kwargs = sample.fill([trace.input(x) for x in sample.leaves()]), sample.kwargs
        if getattr(row, "canonical", None) is not None:
            args, kwargs = row.canonical(args, kwargs)
        if row.complex_body is not None and any(arg.dtype.kind == "c" for arg in args if type(arg) is Symbol):
            assert type(row.complex_body(*args, **kwargs)) is Symbol
            continue
        if isinstance(row, Composite):
            row.body(*args, **kwargs)
            continue
        ans = trace.record(row.fn, row.call, args, kwargs)
        moving = [i for i in row.arrays(args) if type(args[i]) is Symbol]
        pushed = row.jvp(ans, args, kwargs, [another(arg) if i in moving else None for i, arg in enumerate(args)])
        assert alike(pushed, ans), f"{sample}: {pushed}"
        for i in moving:
            g = tuple(map(another, ans)) if isinstance(ans, tuple) else another(ans)
            pulled = row.vjp(i, g, ans if row.uses_ans else None, row.saved(list(args), [i]), kwargs)
            assert like(pulled, args[i].shape, args[i].dtype.kind == "c"), f"{sample}, argument {i}: {pulled}"


def test_what_is_saved_for_a_linear_row_has_no_values():
    for fn in SAMPLES:
        row = ROWS[fn]
        if isinstance(row, Differentiable) and row.kind in ("linear", "real_linear"):
            for sample in SAMPLES[fn]:
                args = list(sample.fill(sample.leaves()))
                if row.canonical is not None:
                    args = list(row.canonical(args, sample.kwargs)[0])
                saved = row.saved(args, list(row.arrays(args)))
                assert all(isinstance(saved[i], Abstract) for i in row.arrays(args)), f"{row.name}{sample}"


def test_the_value_dependent_rows():
    assert sorted(row.name for row in ROWS.values() if row.value_dependent and row.trusted) == sorted(VALUE_DEPENDENT)


# --- a Symbol catches what it is made for -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "partial",
    [
        pytest.param(lambda ans, x: math.cos(x), id="math.cos"),
        pytest.param(lambda ans, x: np.cos(float(x)), id="float"),
        pytest.param(lambda ans, x: np.cos(np.asarray(x, float)), id="asarray"),
        pytest.param(lambda ans, x: 1.0 if x > 0 else -1.0, id="branch"),
        pytest.param(lambda ans, x: np.cos(x) * int(x), id="int"),
    ],
)
def test_a_partial_that_looks_at_values_is_caught(partial):
    row = Elementwise(np.sin, partial)
    x = Trace().input(np.float64(0.5))
    with pytest.raises(TraceError):
        row.jvp(x, (x,), {}, [x])
    with pytest.raises(TraceError):
        row.vjp(0, x, x, (x,), {})


def test_a_rule_that_uses_a_function_without_a_row_is_caught():
    rowless = primitive(lambda x: x)
    row = Elementwise(np.sin, lambda ans, x: rowless(x))
    x = Trace().input(np.ones(3))
    with pytest.raises(TypeError, match="has no derivative rule"):
        row.jvp(x, (x,), {}, [x])
