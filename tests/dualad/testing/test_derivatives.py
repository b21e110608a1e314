"""The checker: it passes right rules, fails on every planted wrong one, and names what is wrong."""

import re

import numpy as np
import pytest

import dualad
from checkpoint import vjp
from dualad.rules import ROWS
from dualad.rules.kinds import ANS, FIRST, MINUS_ONE, ONE, SECOND, Composite, Differentiable, Elementwise, Joint, Multilinear, primitive
from dualad.testing import check_derivatives, differences

random = np.random.default_rng(5)
X, Y = random.uniform(0.3, 0.9, (2, 3)), random.uniform(1.1, 1.9, (2, 3))
S, V = random.uniform(0.2, 0.8, (3, 3)) + 3.0 * np.eye(3), random.uniform(0.3, 0.9, 3)
C = X + 1j * Y


# --- planted errors ---------------------------------------------------------------------------------------------------------


def right_jvp(fn):
    """The JVP of a function linear in its first argument."""
    return lambda t, ans, x, *args, **kwargs: fn(t, *args, **kwargs)


def elementwise(name, fn, *partials, args=(X,)):
    return pytest.param(fn, Elementwise(fn, *partials), fn, args, id=f"{fn.__name__}: {name}")


def explicit(name, fn, jvps, vjps, f, args):
    return pytest.param(fn, Differentiable(fn, jvps, vjps), f, args, id=f"{fn.__name__}: {name}")


PLANTED = [
    elementwise("sign flipped", np.sin, lambda ans, x: -np.cos(x)),
    elementwise("a small error", np.sin, lambda ans, x: 1.00001 * np.cos(x)),
    elementwise("wrong at one element", np.sin, lambda ans, x: np.where(np.equal(x, X[1, 2]), 0.0, np.cos(x))),
    elementwise("second derivative lost", np.sin, lambda ans, x: np.cos(dualad.primal(x))),
    elementwise("missing term", np.expm1, ANS),
    elementwise("sign of the second partial", np.divide, lambda ans, x, y: 1.0 / y, lambda ans, x, y: ans / y, args=(X, Y)),
    elementwise("marks swapped", np.multiply, FIRST, SECOND, args=(X, Y)),
    elementwise("marks swapped", np.subtract, MINUS_ONE, ONE, args=(X, Y)),
    elementwise(
        "the smaller", np.maximum, lambda ans, x, y: np.where(x > y, 0.0, 1.0), lambda ans, x, y: np.where(x > y, 1.0, 0.0), args=(X, Y)
    ),
    elementwise("conjugated", np.exp, lambda ans, x: np.conjugate(ans), args=(C,)),
    explicit("identity", np.conjugate, (lambda t, ans, x: t,), (lambda g, ans, x: g,), np.conjugate, (C,)),
    explicit("pulled back without conjugation", np.conjugate, (right_jvp(np.conjugate),), (lambda g, ans, x: g,), np.conjugate, (C,)),
    explicit("mean pulled back", np.sum, (right_jvp(np.sum),), (lambda g, ans, x: np.broadcast_to(g / x.size, x.shape),), np.sum, (X,)),
    explicit(
        "wrong axis",
        np.sum,
        (lambda t, ans, x, axis: np.sum(t, axis=1 - axis),),
        (lambda g, ans, x, axis: np.broadcast_to(g, x.shape),),
        lambda x: np.sum(x, 0),
        (S,),
    ),
    explicit("not flipped", np.cumsum, (right_jvp(np.cumsum),), (lambda g, ans, x: np.cumsum(g),), np.cumsum, (V,)),
    explicit(
        "permutation not inverted",
        np.transpose,
        (right_jvp(np.transpose),),
        (lambda g, ans, x, axes: np.transpose(g, axes),),
        lambda x: np.transpose(x, (1, 2, 0)),
        (random.uniform(size=(3, 3, 3)),),
    ),
    explicit(
        "not transposed",
        np.linalg.solve,
        ROWS[np.linalg.solve].jvps,
        (ROWS[np.linalg.solve].vjps[0], lambda g, ans, a, b: np.linalg.solve(a, g)),
        np.linalg.solve,
        (S, V),
    ),
    explicit(
        "not transposed",
        np.linalg.det,
        (lambda t, ans, a: ans * np.sum(np.linalg.inv(a) * t),),
        (lambda g, ans, a: g * ans * np.linalg.inv(a),),
        np.linalg.det,
        (S,),
    ),
    pytest.param(
        np.matmul,
        Multilinear(np.matmul, lambda i, g, a, b: g @ b if i == 0 else a @ g),
        np.matmul,
        (S, S + 0.1),
        id="matmul: not transposed",
    ),
    pytest.param(
        np.stack,
        Joint(np.stack, lambda i, g, *arrays: g[1 - i], call=ROWS[np.stack].call, canonical=ROWS[np.stack].canonical),
        lambda x, y: np.stack([x, y]),
        (X, Y),
        id="stack: the other part",
    ),
    pytest.param(np.mean, Composite(np.mean, lambda x: np.sum(x) / (x.size - 1)), np.mean, (X,), id="mean: n - 1"),
    pytest.param(np.trace, Composite(np.trace, lambda x: np.sum(x)), np.trace, (S,), id="trace: all elements"),
]


@pytest.mark.parametrize(("fn", "row", "f", "args"), PLANTED)
def test_a_wrong_rule_is_found(monkeypatch, fn, row, f, args):
    check_derivatives(f, *args, vjp=vjp)
    monkeypatch.setitem(ROWS, fn, row)
    with pytest.raises(AssertionError, match=r"by the rule, .* by (central )?differences"):
        check_derivatives(f, *args, vjp=vjp)


@pytest.mark.parametrize(("fn", "row", "f", "args"), [p for p in PLANTED if isinstance(p.values[1], Elementwise)])
@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_each_mode_alone_finds_a_wrong_partial(monkeypatch, fn, row, f, args, mode):
    monkeypatch.setitem(ROWS, fn, row)
    with pytest.raises(AssertionError, match=mode):
        check_derivatives(f, *args, modes=mode, vjp=vjp)


def test_there_are_enough_planted_errors():
    assert len(PLANTED) >= 20


# --- right rules --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("f", "args"),
    [
        (np.sin, (0.5,)),
        (np.sin, (np.float32(0.5),)),
        (lambda x, y: x * np.sin(y), (X, V)),
        (np.exp, (C,)),
        (np.abs, (C,)),
        (lambda z: z * np.conj(z), (C,)),
        (lambda d: {"a": d["x"] @ d["y"], "b": [np.sum(d["y"])]}, ({"x": X, "y": V},)),
        (np.frexp, (X,)),
        (lambda x: 3.0, (X,)),
        (lambda x: np.zeros(3), (X,)),
        (lambda x: x * 1e6, (X,)),
        (lambda x: x + 1e9, (X,)),
        (lambda x: 1e-6 * np.sin(x), (X,)),
        (lambda x: np.sin(x[:0]), (V,)),
        (lambda x: np.sort(x), (np.array([3.0, 1.0, 2.0]),)),
        (lambda n: n * 2.0, (3,)),
        (np.sin, (X.astype(np.float32),)),
    ],
)
def test_right_rules_pass(f, args):
    check_derivatives(f, *args, vjp=vjp)
    check_derivatives(f, *args, order=1)


def test_a_function_may_write_into_its_argument():
    def f(x):
        x[0] *= x[1]
        x += 1.0
        return x

    x = X.copy()
    check_derivatives(f, x, vjp=vjp)
    np.testing.assert_array_equal(x, X)


def test_differences_against_closed_forms():
    for f, df in ((np.exp, np.exp), (np.sin, np.cos), (lambda x: x**4, lambda x: 4 * x**3), (lambda x: 1 / x, lambda x: -1 / x**2)):
        [got] = differences(lambda leaves, f=f: [f(leaves[0])], [X], [np.ones_like(X)])
        np.testing.assert_allclose(got, df(X), rtol=2e-10)
    [got] = differences(lambda leaves: [np.abs(leaves[0])], [np.array(3 + 4j)], [np.array(1j)])
    assert got == pytest.approx(0.8)
    [x, y] = [got[0] for got in (differences(lambda leaves: [leaves[0] * leaves[1]], [2.0, 5.0], d) for d in ([1.0, None], [None, 1.0]))]
    assert (x, y) == (pytest.approx(5.0), pytest.approx(2.0))


# --- messages -----------------------------------------------------------------------------------------------------------------


def message(*args, **kwargs):
    with pytest.raises(AssertionError) as error:
        check_derivatives(*args, **kwargs)
    return str(error.value)


def test_the_message_names_mode_order_argument_and_element(monkeypatch):
    monkeypatch.setitem(ROWS, np.sin, Elementwise(np.sin, lambda ans, x: np.where(np.equal(x, X[1, 2]), 0.0, np.cos(x))))
    f = lambda p, q: (p * 2.0, q["u"] + np.sin(q["v"]))
    text = message(f, X, {"u": X, "v": X}, seed=3)
    assert re.match(
        r"check_derivatives: forward mode, order 1: the derivative of output 1 by argument 1\['v'\] at \[1, 2\] is 0\.0 "
        r"by the rule, -?\d\.\d+ by central differences",
        text,
    ), text
    text = message(f, X, {"u": X, "v": X}, modes="reverse", vjp=vjp)
    assert re.match(
        r"check_derivatives: reverse mode, order 1: the derivative of output 1\[1, 2\] by argument 1\['v'\] is -?0\.0 "
        r"by the rule",
        text,
    ), text


def test_the_message_names_the_order(monkeypatch):
    monkeypatch.setitem(ROWS, np.sin, Elementwise(np.sin, lambda ans, x: np.cos(dualad.primal(x))))
    check_derivatives(np.sin, X, order=1, vjp=vjp)
    assert "forward mode, order 2: the derivative of output by argument 0" in message(np.sin, X)
    text = message(np.sin, X, modes="reverse", vjp=vjp)
    assert "forward over reverse mode, order 2: the derivative by argument 0 of the cotangent of argument 0" in text


def test_the_seed_fixes_the_directions(monkeypatch):
    monkeypatch.setitem(ROWS, np.sin, Elementwise(np.sin, MINUS_ONE))
    assert message(np.sin, X) == message(np.sin, X) != message(np.sin, X, seed=1)


def test_tolerances_and_step(monkeypatch):
    monkeypatch.setitem(ROWS, np.sin, Elementwise(np.sin, lambda ans, x: 1.001 * np.cos(x)))
    message(np.sin, X)
    check_derivatives(np.sin, X, rtol=0.1)
    check_derivatives(np.sin, X, atol=0.1)
    check_derivatives(np.exp, X, step=1e-3)


def test_a_nan_is_an_error(monkeypatch):
    monkeypatch.setitem(ROWS, np.sin, Elementwise(np.sin, lambda ans, x: np.cos(x) * np.nan))
    assert "is nan by the rule" in message(np.sin, X)


def test_users_primitives():
    @primitive
    def cube(x):
        return x**3

    row = Elementwise(cube, lambda ans, x: 3.0 * x * x)
    ROWS[cube] = row
    try:
        check_derivatives(cube, X, vjp=vjp)
        row.partials = (lambda ans, x: 2.0 * x * x,)
        with pytest.raises(AssertionError):
            check_derivatives(cube, X)
    finally:
        del ROWS[cube]


@pytest.mark.parametrize(
    ("kwargs", "error", "match"),
    [
        ({"order": 3}, ValueError, "order is 3: give 1 or 2"),
        ({"modes": "backward"}, ValueError, "give 'forward', 'reverse' or both"),
        ({"modes": ("reverse",)}, TypeError, r"pass checkpoint\.vjp"),
        ({"modes": ()}, ValueError, "modes is"),
    ],
)
def test_wrong_calls(kwargs, error, match):
    with pytest.raises(error, match=match):
        check_derivatives(np.sin, X, **kwargs)


def test_what_is_no_function():
    with pytest.raises(TypeError, match="check_derivatives: the first argument is float"):
        check_derivatives(1.0, X)
