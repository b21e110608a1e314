"""Random programs with branches, loops that end by conditions, early returns and errors: compiled against plain code on all paths."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import checkpoint
import dualad
from dualad import jit
from dualad.jit.compiled import BACKENDS

UNARY = [np.sin, np.tanh, np.square, np.negative, lambda x: np.exp(-x * x), lambda x: x[::-1], lambda x: x.copy()]
BINARY = [np.add, np.multiply, np.subtract, np.maximum, lambda a, b: a / (b * b + 1.0), lambda a, b: np.concatenate([a[1:], b[:1]])]
NUMBER = [np.sum, lambda x: x[0], lambda x: x[-1] * 2.0, lambda x: np.max(np.abs(x)), lambda x: np.mean(x * x)]


class Low(Exception):
    pass


places = st.integers(0, 7)
#: thresholds that no rounding reaches
bounds = st.sampled_from([-0.8123456, -0.312345, 0.0612345, 0.4123456, 0.9123456, 1.7123456])
tests = st.tuples(st.sampled_from(["less", "both", "either", "not", "all"]), st.integers(0, 4), places, bounds, bounds)


def blocks(statements):
    return st.lists(statements, min_size=1, max_size=3)


simple = st.one_of(
    st.tuples(st.just("unary"), st.integers(0, len(UNARY) - 1), places),
    st.tuples(st.just("binary"), st.integers(0, len(BINARY) - 1), places, places),
    st.tuples(st.just("assign"), places, places, st.integers(0, 2)),
    st.tuples(st.just("clamp"), places, bounds),
    st.tuples(st.just("shrink"), places, st.sampled_from([0.7123, 0.31234])),
)
statements = st.recursive(
    simple,
    lambda inner: st.one_of(
        st.tuples(st.just("if"), tests, blocks(inner), blocks(inner)),
        st.tuples(st.just("for"), st.integers(1, 3), tests, blocks(inner)),
        st.tuples(st.just("return if"), tests, places),
        st.tuples(st.just("raise if"), st.tuples(st.just("both"), st.integers(0, 4), places, st.just(1.3123), st.just(1.1123))),
    ),
    max_leaves=7,
)
programs = st.lists(statements, min_size=2, max_size=6)


def answer(test, values):
    kind, number, place, low, high = test
    x = values[place % len(values)]
    s = NUMBER[number](x)
    if kind == "less":
        return s < low
    if kind == "both":
        return low < s and NUMBER[(number + 1) % len(NUMBER)](x) > high
    if kind == "either":
        return s < low or NUMBER[(number + 2) % len(NUMBER)](x) > high
    return not s > high if kind == "not" else np.all(x > low)


def run(block, values):
    """Return what a block returns early, None where it does not; `values` grow."""
    for kind, *parts in block:
        pick = lambda k: values[k % len(values)]
        if kind == "unary":
            values.append(UNARY[parts[0]](pick(parts[1])))
        elif kind == "binary":
            new = BINARY[parts[0]](pick(parts[1]), pick(parts[2]))
            values.append(new / (1.0 + np.sum(new * new)))
        elif kind == "assign":
            new = pick(parts[0]).copy()
            new[parts[2]] = pick(parts[1])[0] * 0.5
            values.append(new)
        elif kind == "clamp":
            values.append(pick(parts[0]) * max(min(pick(parts[0])[0], parts[1] + 1.0), parts[1]))
        elif kind == "shrink":
            x = pick(parts[0])
            while np.sum(x * x) > 0.612345:
                x = x * parts[1]
            values.append(x)
        elif kind == "if":
            out = run(parts[1] if answer(parts[0], values) else parts[2], values)
            if out is not None:
                return out
        elif kind == "for":
            for _ in range(parts[0]):
                out = run(parts[2], values)
                if out is not None:
                    return out
                if answer(parts[1], values):
                    break
        elif kind == "return if" and answer(parts[0], values):
            return pick(parts[1]) * 1.5
        elif kind == "raise if" and answer(parts[0], values):
            raise Low(f"{NUMBER[parts[0][1]](pick(parts[0][2])):.6f}")
    return None


def function(block):
    def f(x):
        values = [x, x * 0.5]
        out = run(block, values)
        return out if out is not None else values[-1] + values[-2]

    return f


POINTS = [np.random.default_rng(k).uniform(-1.5, 1.5, 4) * (0.3, 1.0, 2.0)[k % 3] for k in range(6)]


def of(f, *args):
    try:
        return f(*args), None
    except Low as error:
        return None, str(error)


@settings(max_examples=5, deadline=None)
@given(block=programs)
def test_random_programs_with_branches(block):
    check(block, "numpy")


@pytest.mark.skipif("llvm" not in BACKENDS, reason="llvmlite is not installed")
@settings(max_examples=2, deadline=None)
@given(block=programs)
def test_random_programs_with_branches_in_loops(block):
    check(block, "llvm")


@pytest.mark.long
@pytest.mark.parametrize("backend", BACKENDS)
@settings(max_examples=4, deadline=None)
@given(block=programs)
def test_more_random_programs_with_branches(backend, block):
    check(block, backend)


def check(block, backend):
    f = function(block)
    total = lambda x: np.sum(f(x) ** 2)
    fast, slope, inner = (jit(g, backend=backend) for g in (f, checkpoint.grad(total), total))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "jit: .* takes more than 16 paths")
        for x in POINTS:
            (expected, error), (got, same) = of(f, x), of(fast, x)
            assert error == same
            if error is not None:
                continue
            if backend == "numpy":
                assert got.tobytes() == expected.tobytes()
            np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-14)
            gradient = checkpoint.grad(total)(x)
            for other in (slope(x), checkpoint.grad(inner)(x), dualad.jacobian(inner)(x)):
                np.testing.assert_allclose(other, gradient, rtol=1e-9, atol=1e-12)


@pytest.mark.long
@pytest.mark.parametrize("backend", BACKENDS)
@settings(max_examples=6, deadline=None)
@given(block=programs, dtype=st.sampled_from(["float32", "float64"]))
def test_random_second_derivatives_with_branches(backend, block, dtype):
    f = function(block)
    total = lambda x: np.sum(f(x) ** 2)
    inner, tol = jit(total, backend=backend), 1e-8 if dtype == "float64" else 2e-2
    whole = jit(dualad.hessian(total), backend=backend)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "jit: .* takes more than 16 paths")
        for x in POINTS[::2]:
            x = x.astype(dtype)
            expected, error = of(dualad.hessian(total), x)
            if error is None:
                for got in (whole(x), dualad.hessian(inner)(x), checkpoint.hessian(inner)(x)):
                    assert got.dtype == expected.dtype
                    np.testing.assert_allclose(got, expected, rtol=tol, atol=tol)
