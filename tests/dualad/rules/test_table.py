"""Every row of the table at every sample: value, both modes, both orders, K directions, precision."""

from __future__ import annotations

import numpy as np
import pytest
from samples import CONSTANTS, SAMPLES
from samples_more import ELSEWHERE

import dualad
from checkpoint import grad, vjp
from dualad import jvp
from dualad.dispatch import dtype_of
from dualad.dual import make_dual
from dualad.levels import Level
from dualad.rules import ROWS
from dualad.rules.batching import FORMS
from dualad.rules.kinds import Composite, Constant, Differentiable, Elementwise, Joint, Refused, public_name, signature
from dualad.seeding import flatten_output, split_value
from dualad.testing import differences
from dualad.traced import Traced

rows = pytest.mark.parametrize("fn", [pytest.param(fn, id=public_name(fn)) for fn in SAMPLES])


# --- what the tests share ---------------------------------------------------------------------------------------------------

def outputs(tree):
    """The inexact leaves of a result."""
    return [np.asarray(leaf) if not hasattr(leaf, "dtype") else leaf for leaf in flatten_output(tree, "test")[0]]


class Case:
    """A row at one sample, as a function of a list of leaves that returns the list of its inexact results."""

    def __init__(self, fn, sample):
        self.fn, self.sample, self.leaves = fn, sample, sample.leaves()
        self.value = fn(*sample.fill(self.leaves), **sample.kwargs)
        self.inexact = [leaf.dtype.kind in "fc" for leaf in outputs(self.value)]
        self.random = np.random.default_rng(11)

    def __call__(self, leaves):
        return self.keep(self.fn(*self.sample.fill(leaves), **self.sample.kwargs))

    def keep(self, tree):
        return [leaf for leaf, inexact in zip(flatten_output(tree, "test")[0], self.inexact, strict=True) if inexact]

    def directions(self):
        return [like(self.random, x) for x in self.leaves]

    def push(self, directions, leaves=None):
        """Tangents of the results."""
        f = lambda *leaves: self(leaves)
        return jvp(f, tuple(self.leaves if leaves is None else leaves), tuple(directions))[1]

    def pull(self, cotangents, leaves=None):
        """Cotangents of the leaves."""
        return list(vjp(lambda *leaves: self(leaves), *(self.leaves if leaves is None else leaves))[1](cotangents))


def like(random, x):
    """Random numbers of the shape and dtype of `x`."""
    numbers = random.standard_normal(np.shape(x))
    if dtype_of(x).kind == "c":
        numbers = numbers + 1j * random.standard_normal(np.shape(x))
    numbers = np.asarray(numbers).astype(dtype_of(x))
    return numbers if isinstance(x, np.ndarray) else numbers[()]


def cases(fn, differentiable=True):
    """The cases of a function; those without anything to differentiate left out."""
    found = [Case(fn, sample) for sample in SAMPLES[fn]]
    return [case for case in found if case.leaves and any(case.inexact)] if differentiable else found


def paired(cotangents, tangents):
    return sum(float(np.real(np.sum(np.multiply(g, t)))) for g, t in zip(cotangents, tangents, strict=True))


def assert_close(case, got, expected, rtol=1e-7, atol=1e-9):
    assert len(got) == len(expected)
    for a, b in zip(got, expected, strict=True):
        assert np.shape(a) == np.shape(b), f"{case.sample}: shape {np.shape(a)}, expected {np.shape(b)}"
        scale = float(np.max(np.abs(b), initial=0.0))
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol + rtol * scale, err_msg=str(case.sample))


# --- the table is complete --------------------------------------------------------------------------------------------------

def test_every_differentiable_row_has_samples():
    wanted = {row.name for row in ROWS.values() if isinstance(row, Differentiable | Composite) and row.trusted}
    assert not wanted - {public_name(fn)
                         for fn in SAMPLES} - {"numpy.empty_like"} - ELSEWHERE, "what empty_like holds is undefined"


def test_every_constant_row_has_samples():
    wanted = {row.name for row in ROWS.values() if isinstance(row, Constant) and row.trusted}
    assert not wanted - {public_name(fn) for fn in (*CONSTANTS, *SAMPLES)} - ELSEWHERE - {"numpy.isnat", "numpy.can_cast"}, \
        "isnat takes dates and can_cast types: neither takes a traced array"


def test_samples_belong_to_rows():
    assert not [public_name(fn) for fn in (*SAMPLES, *CONSTANTS) if fn not in ROWS]


def test_every_sample_differentiates_something():
    empty = {public_name(fn): str(sample) for fn in SAMPLES for sample in SAMPLES[fn] if not sample.leaves()}
    assert not empty


# --- forward ----------------------------------------------------------------------------------------------------------------

@rows
def test_value_has_the_type_shape_and_dtype_of_numpys(fn):
    for case in cases(fn, differentiable=False):
        value, tangent = jvp(lambda *leaves, case=case: case.fn(*case.sample.fill(leaves), **case.sample.kwargs),
                             tuple(case.leaves), tuple(case.directions()))
        assert type(value) is type(case.value) or isinstance(value, float), f"{case.sample}: {type(value)}, {type(case.value)}"
        for a, t, b in zip(outputs(value), outputs(tangent), outputs(case.value), strict=True):
            assert (a.shape, a.dtype) == (b.shape, b.dtype), f"{case.sample}: {a.dtype}{a.shape}, NumPy {b.dtype}{b.shape}"
            np.testing.assert_allclose(a, b, rtol=1e-14, atol=1e-15, err_msg=str(case.sample))
            assert t.shape == b.shape, f"{case.sample}: the tangent has shape {t.shape}"
            assert t.dtype == b.dtype or b.dtype.kind not in "fc", f"{case.sample}: the tangent has dtype {t.dtype}"


@rows
def test_jvp_against_differences(fn):
    for case in cases(fn):
        v = case.directions()
        assert_close(case, case.push(v), differences(case, case.leaves, v), *tolerance(case))


@rows
def test_jvp_of_jvp_against_differences(fn):
    for case in cases(fn):
        v, w = case.directions(), case.directions()
        first = lambda leaves, case=case, v=v: case.push(v, leaves)
        second = jvp(lambda *leaves, first=first: first(leaves), tuple(case.leaves), tuple(w))[1]
        assert_close(case, second, differences(first, case.leaves, w), *tolerance(case))


def tolerance(case):
    return (2e-3, 2e-3) if case.sample.casts or any(dtype_of(x).itemsize * (1 + (dtype_of(x).kind == "c")) < 8
                                                    for x in case.leaves) else (1e-7, 1e-9)


# --- reverse ----------------------------------------------------------------------------------------------------------------

@rows
def test_vjp_against_jvp_and_differences(fn):
    for case in cases(fn):
        v = case.directions()
        g = [like(case.random, out) for out in case(case.leaves)]
        cotangents = case.pull(g)
        for x, c in zip(case.leaves, cotangents, strict=True):
            now, wanted = (np.shape(c), dtype_of(c)), (np.shape(x), dtype_of(x))
            assert now == wanted, f"{case.sample}: {now} of {wanted}"
        rtol, atol = tolerance(case)
        exact = {"rel": 1e-11, "abs": 1e-12} if rtol < 1e-6 else {"rel": 1e-5, "abs": 1e-6}
        assert paired(cotangents, v) == pytest.approx(paired(g, case.push(v)), **exact), str(case.sample)
        assert paired(cotangents, v) == pytest.approx(paired(g, differences(case, case.leaves, v)), rel=10 * rtol,
                                                      abs=10 * atol), str(case.sample)


@rows
def test_vjp_leaf_by_leaf_against_differences(fn):
    for case in cases(fn):
        g = [like(case.random, out) for out in case(case.leaves)]
        cotangents, v = case.pull(g), case.directions()
        rtol, atol = tolerance(case)
        for i, x in enumerate(v):
            alone = [x if k == i else None for k in range(len(v))]
            expected = paired(g, differences(case, case.leaves, alone))
            assert paired([cotangents[i]], [x]) == pytest.approx(expected, rel=10 * rtol,
                                                                 abs=10 * atol), f"{case.sample}, leaf {i}"


@rows
def test_second_order_with_reverse_mode(fn):
    for case in cases(fn):
        g = [like(case.random, out) for out in case(case.leaves)]
        v, w = case.directions(), case.directions()
        pull = lambda leaves, case=case, g=g: case.pull(g, leaves)
        expected = differences(pull, case.leaves, w)
        forward_over_reverse = jvp(lambda *leaves, pull=pull: pull(leaves), tuple(case.leaves), tuple(w))[1]
        assert_close(case, forward_over_reverse, expected, *tolerance(case))
        product = lambda *leaves, pull=pull, v=v: total(pull(leaves), v)
        reverse_over_reverse = grad(product, tuple(range(len(case.leaves))))(*case.leaves)
        rtol, atol = tolerance(case)
        assert paired(reverse_over_reverse, w) == pytest.approx(paired(v, expected), rel=10 * rtol,
                                                                abs=10 * atol), str(case.sample)


def total(cotangents, v):
    return sum(np.real(np.sum(g * t)) for g, t in zip(cotangents, v, strict=True))


@rows
def test_reverse_over_forward(fn):
    for case in cases(fn):
        v, w = case.directions(), case.directions()
        g = [like(case.random, out) for out in case(case.leaves)]
        pushed = lambda *leaves, case=case, v=v: case.push(v, leaves)
        cotangents = vjp(pushed, *case.leaves)[1](g)
        expected = paired(g, jvp(pushed, tuple(case.leaves), tuple(w))[1])
        rtol, atol = tolerance(case)
        assert paired(cotangents, w) == pytest.approx(expected, rel=10 * rtol, abs=10 * atol), str(case.sample)


# --- K directions -----------------------------------------------------------------------------------------------------------

def push_together(f, leaves, directions, count):
    """Push `count` directions (leading axis) in one evaluation; returns tangents with that leading axis."""
    with Level(count) as level:
        outs = f([make_dual(x, v, level) for x, v in zip(leaves, directions, strict=True)])
        pairs = [split_value(out, level) for out in outs]
    return [np.zeros((count, *np.shape(value))) if t is None else t for value, t in pairs]


def counts(case):
    """K = 1, and K equal to each dimension that the call meets."""
    return sorted({1, *(n for x in (*case.leaves, *outputs(case.value)) for n in np.shape(x) if n)})


@rows
def test_directions_together_are_directions_one_by_one(fn):
    for case in cases(fn):
        for count in counts(case):
            directions = [like(case.random, np.broadcast_to(x, (count, *np.shape(x)))) for x in case.leaves]
            together = push_together(case, case.leaves, directions, count)
            single = [case.push([v[k, ...] for v in directions]) for k in range(count)]
            assert_close(case, together, [np.stack(t) for t in zip(*single, strict=True)],
                         1e-12 if tolerance(case)[0] < 1e-6 else 1e-5)


@rows
def test_some_leaves_without_directions(fn):
    for case in cases(fn):
        for i in range(len(case.leaves) if len(case.leaves) > 1 else 0):
            directions = [np.asarray(like(case.random, np.broadcast_to(x, (2, *np.shape(x))))) if k == i else None for k,
                          x in enumerate(case.leaves)]
            together = push_together(case, case.leaves, directions, 2)
            single = [case.push([np.zeros_like(x)[()] if v is None else v[k, ...] for x,
                                 v in zip(case.leaves, directions, strict=True)]) for k in range(2)]
            assert_close(case, together, [np.stack(t) for t in zip(*single, strict=True)],
                         1e-12 if tolerance(case)[0] < 1e-6 else 1e-5)


@rows
def test_second_order_with_directions(fn):
    for case in cases(fn):
        count = counts(case)[-1]
        v = case.directions()
        directions = [like(case.random, np.broadcast_to(x, (count, *np.shape(x)))) for x in case.leaves]
        inner = lambda leaves, case=case, v=v: case.push(v, leaves)
        outer = push_together(inner, case.leaves, directions, count)
        single = [jvp(lambda *leaves, inner=inner: inner(leaves), tuple(case.leaves),
                      tuple(w[k, ...] for w in directions))[1] for k in range(count)]
        expected = [np.stack(t) for t in zip(*single, strict=True)]
        assert_close(case, outer, expected, 1e-11 if tolerance(case)[0] < 1e-6 else 1e-4)
        swapped = lambda leaves, case=case: push_together(case, leaves, directions, count)
        mixed = jvp(lambda *leaves, swapped=swapped: swapped(leaves), tuple(case.leaves), tuple(v))[1]
        assert_close(case, mixed, expected, 1e-10 if tolerance(case)[0] < 1e-6 else 1e-4)


@rows
def test_cotangents_together_are_cotangents_one_by_one(fn):
    from checkpoint.tape import Tape
    from dualad.batch import unwrap, wrap
    for case in cases(fn):
        for count in counts(case):
            with Tape() as tape:
                inputs = [tape.input(x) for x in case.leaves]
                outs = case(inputs)
            seeds = [like(case.random, np.broadcast_to(out.value, (count, *np.shape(out.value)))) for out in outs if hasattr(out,
                                                                                                                             "node")]
            outs = [out for out in outs if hasattr(out, "node")]
            with Level(count) as level:
                together = tape.pull([(out.node, wrap(np.asarray(g), level)) for out,
                                      g in zip(outs, seeds, strict=True) if out.node is not None],
                                     [x.node for x in inputs])
                together = [np.zeros((count, *np.shape(x))) if g is None else unwrap(g, level, np.shape(x)) for g,
                            x in zip(together, case.leaves, strict=True)]
            for k in range(count):
                single = tape.pull([(out.node, g[k]) for out, g in zip(outs, seeds, strict=True) if out.node is not None],
                                   [x.node for x in inputs])
                single = [np.zeros(np.shape(x)) if g is None else g for g, x in zip(single, case.leaves, strict=True)]
                assert_close(case, [np.broadcast_to(g[k], np.shape(x)) for g, x in zip(together, case.leaves, strict=True)],
                             [np.broadcast_to(g, np.shape(x)) for g, x in zip(single, case.leaves, strict=True)],
                             1e-12 if tolerance(case)[0] < 1e-6 else 1e-4)


#: functions whose K directions are looped over one by one: right, but slower
LOOPED = ["dualad.rules.shapes.filled", "dualad.rules.shapes.surround", "dualad.rules.sparse.times_sparse"]


def test_functions_without_a_form_for_directions():
    looped = sorted(row.name for row in ROWS.values() if isinstance(row, Differentiable) and row.trusted and not isinstance(row,
                                                                                                                            Elementwise)
                    and not (isinstance(row.fn, np.ufunc) and row.fn.signature is None) and row.fn not in FORMS)
    assert looped == LOOPED


# --- precision, memory ------------------------------------------------------------------------------------------------------

def single(x):
    return x.astype(np.complex64 if x.dtype.kind == "c" else np.float32)


@rows
def test_single_precision_stays_single(fn):
    for case in cases(fn):
        leaves = [single(np.asarray(x))[()] if isinstance(x, np.ndarray | np.generic) else x for x in case.leaves]
        value = [np.asarray(leaf) for leaf in case(leaves)]
        directions = tuple(like(case.random, x) for x in leaves)
        got, tangents = jvp(lambda *leaves, case=case: case(leaves), tuple(leaves), directions)
        for a, t, b in zip(got, tangents, value, strict=True):
            assert dtype_of(a) == dtype_of(t) == b.dtype, f"{case.sample}: value {dtype_of(a)}, tangent {dtype_of(t)}, NumPy {b.dtype}"
        g = [like(case.random, out) for out in value]
        for x, c in zip(leaves, case.pull(g, leaves), strict=True):
            assert dtype_of(c) == dtype_of(x) or type(x) is float, f"{case.sample}: cotangent {dtype_of(c)} of {dtype_of(x)}"
        assert_close(case, tangents, case.push([v.astype(float) if dtype_of(v) == np.float32 else v for v in directions]), 2e-4,
                     2e-4)


@rows
def test_arguments_are_never_modified(fn):
    for case in cases(fn):
        before = [np.copy(x) for x in case.leaves]
        v = case.directions()
        directions_before = [np.copy(x) for x in v]
        g = [like(case.random, out) for out in case(case.leaves)]
        cotangents_before = [np.copy(x) for x in g]
        case.push(v)
        case.pull(g)
        push_together(case, case.leaves, [np.stack([x, x]) for x in v], 2)
        for now, then in zip((*case.leaves, *v, *g), (*before, *directions_before, *cotangents_before), strict=True):
            np.testing.assert_array_equal(now, then, err_msg=str(case.sample))


@rows
def test_results_are_the_callers_own(fn):
    """What a pullback and a jvp return can be changed without changing anything else."""
    for case in cases(fn):
        g = [like(case.random, out) for out in case(case.leaves)]
        for c in case.pull(g):
            if isinstance(c, np.ndarray):
                assert not any(np.may_share_memory(c, other) for other in (*case.leaves, *g) if isinstance(other,
                                                                                                           np.ndarray)), str(case.sample)


# --- rows without derivative ------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("fn", [pytest.param(fn, id=public_name(fn)) for fn in CONSTANTS])
def test_constants_give_plain_results(fn):
    for sample in CONSTANTS[fn]:
        leaves = sample.leaves()
        expected = fn(*sample.fill(leaves), **sample.kwargs)
        for verb in ("forward", "directions", "reverse"):
            seen = []
            def f(*leaves, sample=sample, seen=seen):
                seen.append(fn(*sample.fill(leaves), **sample.kwargs))
                return leaves[0]
            if verb == "forward":
                jvp(f, tuple(leaves), tuple(np.ones_like(x)[()] for x in leaves))
            elif verb == "directions":
                push_together(lambda leaves, f=f: [f(*leaves)], leaves, [np.ones((2, *np.shape(x))) for x in leaves], 2)
            else:
                vjp(f, *leaves)
            if fn in (np.may_share_memory, np.shares_memory):
                continue  # a tape copies its inputs
            a, b = (x if isinstance(x, tuple) else (x,) for x in (seen[0], expected))
            for x, y in zip(a, b, strict=True):
                assert not isinstance(x, Traced), f"{sample}: {x!r}"
                assert (np.shape(x) == np.shape(y) and type(x) is type(y)) or isinstance(x, bool | float), f"{sample}: {x!r}, {y!r}"
                assert np.all(x == y), f"{sample}: {x!r}, {y!r}"


@pytest.mark.parametrize("fn", [pytest.param(row.fn, id=row.name) for row in ROWS.values() if isinstance(row, Refused)])
def test_refused_functions_say_why(fn):
    needed = sum(p.default is p.empty for p in signature(fn).parameters.values())
    args = (np.ones(3),) * (getattr(fn, "nin", None) or max(needed, 1))
    with pytest.raises(TypeError, match=rf"^{public_name(fn)} has no derivative: .{{10}}"):
        jvp(lambda *args: fn(*args), args, args)


def test_a_function_without_a_row_raises_by_name():
    with pytest.raises(TypeError, match=r"numpy\.i0 has no derivative rule in dualad"):
        jvp(np.i0, (np.ones(3),), (np.ones(3),))


def test_a_function_has_one_row():
    with pytest.raises(ValueError, match=r"numpy\.sin has a row already \(elementwise\)"):
        dualad.rules.constant(np.sin)


def test_kinds_say_what_they_need():
    joints = [row.name for row in ROWS.values() if isinstance(row, Joint)]
    assert {"numpy.concatenate", "numpy.stack"} <= set(joints)
    assert all(row.shape_only for row in ROWS.values() if isinstance(row, Differentiable) and row.kind in ("linear",
                                                                                                           "real_linear"))
