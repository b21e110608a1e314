"""Every row of the table at every sample: value, both modes, both orders, precision, memory."""

from contextlib import contextmanager
from functools import cache

import numpy as np
import pytest
from cases import all_cases, arrays, cases, like, paired, rows
from in_groups import for_each
from samples import CONSTANTS, SAMPLES
from samples_more import ELSEWHERE

import dualad
from checkpoint import grad, linearize, vjp
from dualad import jvp
from dualad.core.dispatch import dtype_of
from dualad.core.traced import Traced
from dualad.rules import ROWS
from dualad.rules.calling import public_name, signature
from dualad.rules.kinds import Composite, Constant, Differentiable, Joint, Refused, brought
from dualad.testing import differences

#: rows without samples, with the reason
UNSAMPLED = {
    "numpy.empty_like": "what it holds is undefined",
    "numpy.isnat": "takes dates",
    "numpy.can_cast": "takes types",
    "dualad.rules.indexing.stated": "its derivative is not that of its value",
    **dict.fromkeys(("numpy.unravel_index", "numpy.ravel_multi_index", "dualad.rules.statistics.bins_of"), "takes integers"),
    "dualad.rules.shapes.length": "takes the mask of a selection",
    "checkpoint.ode.methods.moved": "one for each line of a tableau, tested with the steps",
    "dualad.rules.decompositions.reflectors": "a step of qr",
    **dict.fromkeys((f"dualad.rules.decompositions.{name}" for name in ("reflected", "reflected_square", "null_basis")), "a step of qr"),
    "dualad.rules.decompositions.complex_eigen": "a step of eig",
    "dualad.rules.least_squares.least_squares": "a step of lstsq",
}


# --- the table is complete --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kinds", "samples"), [((Differentiable, Composite), SAMPLES), (Constant, {**SAMPLES, **CONSTANTS})], ids=["differentiable", "constant"]
)
def test_every_row_has_samples(kinds, samples):
    rows = {row.name for row in ROWS.values() if isinstance(row, kinds) and row.trusted}
    late = {ROWS[fn].name for fn in brought}  # some come only when they are asked for
    missing = rows - {ROWS[fn].name for fn in samples} - set(UNSAMPLED) - ELSEWHERE - late
    assert not missing


def test_samples_belong_to_rows():
    assert not [public_name(fn) for fn in (*SAMPLES, *CONSTANTS) if fn not in ROWS]


def test_every_sample_differentiates_something():
    assert not [(public_name(fn), str(sample)) for fn in SAMPLES for sample in SAMPLES[fn] if not sample.leaves()]


# --- forward ----------------------------------------------------------------------------------------------------------------


@rows
@pytest.mark.quick
def test_value_has_the_type_shape_and_dtype_of_numpys(fn):
    for case in all_cases(fn):
        value, tangent = jvp(case.whole, tuple(case.leaves), tuple(case.v))
        assert type(value) is type(case.value) or isinstance(value, float), f"{case.sample}: {type(value)}, {type(case.value)}"
        for a, t, b in zip(arrays(value), arrays(tangent), arrays(case.value), strict=True):
            assert (a.shape, a.dtype) == (b.shape, b.dtype), f"{case.sample}: {a.dtype}{a.shape}, NumPy {b.dtype}{b.shape}"
            np.testing.assert_allclose(a, b, rtol=1e-14, atol=1e-15, err_msg=str(case.sample))
            assert t.shape == b.shape, f"{case.sample}: the tangent has shape {t.shape}"
            assert t.dtype == b.dtype or b.dtype.kind not in "fc", f"{case.sample}: the tangent has dtype {t.dtype}"


@rows
@pytest.mark.quick
def test_jvp_against_differences(fn):
    for case in cases(fn):
        case.assert_close(case.pushed, differences(case, case.leaves, case.v))


@rows
def test_jvp_of_jvp_against_differences(fn):
    for case in cases(fn):
        pushed = lambda leaves: case.push(case.v, leaves)
        second = jvp(lambda *leaves: pushed(leaves), tuple(case.leaves), tuple(case.w))[1]
        case.assert_close(second, differences(pushed, case.leaves, case.w))


# --- reverse ----------------------------------------------------------------------------------------------------------------


@rows
@pytest.mark.quick
def test_vjp_against_jvp(fn, entries):
    for case in cases(fn):
        cotangents = case.pull(case.g)
        for x, c in zip(case.leaves, cotangents, strict=True):
            now, wanted = (np.shape(c), dtype_of(c)), (np.shape(x), dtype_of(x))
            assert now == wanted, f"{case.sample}: {now} of {wanted}"
        case.assert_paired(paired(cotangents, case.v), paired(case.g, case.pushed), exact=1e-11)


@rows
def test_pushing_over_a_recording_is_forward_mode(fn, entries):
    for case in cases(fn):
        case.assert_close(linearize(lambda *leaves: case(leaves), *case.leaves)[1](*case.v), case.pushed, exact=1e-11)


@cache
def pulled_differences(fn):
    """The cases of a function, each with the differences of its pull along `w`."""
    return [(case, differences(lambda leaves, case=case: case.pull(case.g, leaves), case.leaves, case.w)) for case in cases(fn)]


@rows
def test_second_order_with_reverse_mode(fn, entries):
    for case, expected in pulled_differences(fn):
        pulled = lambda *leaves: case.pull(case.g, leaves)
        case.assert_close(jvp(pulled, tuple(case.leaves), tuple(case.w))[1], expected)
        product = lambda *leaves: sum(np.real(np.sum(c * t)) for c, t in zip(pulled(*leaves), case.v, strict=True))
        reverse_over_reverse = grad(product, tuple(range(len(case.leaves))))(*case.leaves)
        case.assert_paired(paired(reverse_over_reverse, case.w), paired(case.v, expected))


@rows
def test_reverse_over_forward(fn, entries):
    for case in cases(fn):
        pushed = lambda *leaves: case.push(case.v, leaves)
        cotangents = vjp(pushed, *case.leaves)[1](case.g)
        case.assert_paired(paired(cotangents, case.w), paired(case.g, jvp(pushed, tuple(case.leaves), tuple(case.w))[1]))


# --- precision, memory ------------------------------------------------------------------------------------------------------


def single(x):
    """A leaf in single precision; a Python float takes the precision of what it meets."""
    return x if type(x) is float else np.asarray(x).astype(np.complex64 if dtype_of(x).kind == "c" else np.float32)[()]


@rows
def test_single_precision_stays_single(fn, entries):
    for case in cases(fn):
        leaves = list(map(single, case.leaves))
        expected = [np.asarray(leaf) for leaf in case(leaves)]
        random = np.random.default_rng(14)
        v = [like(random, x) for x in leaves]
        g = [like(random, x) for x in expected]
        got, tangents = jvp(lambda *leaves: case(leaves), tuple(leaves), tuple(v))
        for a, t, b in zip(got, tangents, expected, strict=True):
            assert dtype_of(a) == dtype_of(t) == b.dtype, f"{case.sample}: value {dtype_of(a)}, tangent {dtype_of(t)}, NumPy {b.dtype}"
        for x, c in zip(leaves, case.pull(g, leaves), strict=True):
            assert dtype_of(c) == dtype_of(x) or type(x) is float, f"{case.sample}: cotangent {dtype_of(c)} of {dtype_of(x)}"
        for a, b in zip(tangents, case.push(v), strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-4 * (1.0 + np.max(np.abs(b), initial=0.0)), err_msg=str(case.sample))


@rows
def test_forward_mode_never_modifies_arguments(fn):
    for case in cases(fn):
        with unmodified(case, *case.v):
            case.push(case.v)
            dualad.jacobian(lambda *leaves: case(leaves), tuple(range(len(case.leaves))), holomorphic=True)(*case.leaves)


@rows
def test_reverse_mode_never_modifies_arguments(fn, entries):
    for case in cases(fn):
        with unmodified(case, *case.g):
            case.pull(case.g)


@contextmanager
def unmodified(case, *given):
    given = [*case.leaves, *given]
    before = [np.copy(x) for x in given]
    yield
    for now, then in zip(given, before, strict=True):
        np.testing.assert_array_equal(now, then, err_msg=str(case.sample))


@rows
def test_results_are_the_callers_own(fn, entries):
    """What a pullback and a jvp return may be changed: it shares memory with nothing that was given, nor with one another."""
    for case in cases(fn):
        for results, given in ((case.pull(case.g), case.g), (case.push(case.v), case.v)):
            results = [x for x in results if isinstance(x, np.ndarray)]
            given = [x for x in (*case.leaves, *given) if isinstance(x, np.ndarray)]
            for i, x in enumerate(results):
                assert not any(np.may_share_memory(x, y) for y in (*given, *results[:i])), str(case.sample)


# --- rows without derivative ------------------------------------------------------------------------------------------------

VERBS = {
    "forward": lambda f, leaves: jvp(f, leaves, tuple(np.ones_like(x) for x in leaves)),
    "directions": lambda f, leaves: dualad.jacobian(f, tuple(range(len(leaves))), holomorphic=True)(*leaves),
    "reverse": lambda f, leaves: vjp(f, *leaves),
}


@pytest.mark.filterwarnings(r"ignore:numpy\.\w+ is deprecated:DeprecationWarning")
@for_each("fn", CONSTANTS, public_name)
@pytest.mark.parametrize("verb", VERBS)
def test_constants_give_plain_results(fn, verb):
    if verb == "reverse" and fn in (np.may_share_memory, np.shares_memory):
        return  # a tape copies its inputs
    for sample in CONSTANTS[fn]:
        seen = []

        def f(*leaves):
            seen.append(fn(*sample.fill(leaves), **sample.kwargs))
            return leaves[0]

        VERBS[verb](f, tuple(sample.leaves()))
        expected = fn(*sample.fill(sample.leaves()), **sample.kwargs)
        got, wanted = (x if isinstance(x, tuple) else (x,) for x in (seen[0], expected))
        for x, y in zip(got, wanted, strict=True):
            assert not isinstance(x, Traced), f"{sample}: {x!r}"
            assert (np.shape(x) == np.shape(y) and type(x) is type(y)) or isinstance(x, bool | float), f"{sample}: {x!r}, {y!r}"
            assert np.all(x == y), f"{sample}: {x!r}, {y!r}"


@for_each("fn", [row.fn for row in ROWS.values() if isinstance(row, Refused)], public_name)
def test_refused_functions_say_why(fn):
    parameters = signature(fn).parameters.values()
    needed = sum(p.default is p.empty for p in parameters) if parameters else 2  # NumPy 2.0 does not tell those of C functions
    args = (np.ones(3),) * (getattr(fn, "nin", None) or max(needed, 1))
    with pytest.raises(TypeError, match=rf"^{public_name(fn)} has no derivative: .{{10}}"):
        jvp(lambda *args: fn(*args), args, args)


# --- the table itself ---------------------------------------------------------------------------------------------------------


def test_a_function_without_a_row_raises_by_name(monkeypatch):
    monkeypatch.delitem(ROWS, np.sinh)
    for verb in VERBS.values():
        with pytest.raises(TypeError, match=r"numpy\.sinh has no derivative rule in dualad\. Write it .*dualad\.primitive.*dualad\.primal"):
            verb(np.sinh, (np.ones(3),))


def test_kinds_say_what_they_need():
    assert {"numpy.concatenate", "numpy.stack"} <= {row.name for row in ROWS.values() if isinstance(row, Joint)}
    assert all(row.shape_only for row in ROWS.values() if getattr(row, "kind", "") in ("linear", "real_linear"))


@pytest.mark.parametrize("i", [0, 1])
def test_a_missing_partial_raises_and_names_the_argument(i):
    exponents = np.array([1.0, 2.0])
    with pytest.raises(TypeError, match=r"numpy\.ldexp has no derivative with respect to its second argument"):
        jvp(lambda n: dualad.rules.ROWS[np.ldexp].jvp(1.0, (1.0, n), {}, (None, n)), (exponents[i],), (1.0,))
