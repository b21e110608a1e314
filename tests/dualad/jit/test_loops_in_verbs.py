"""Loops that end by a test in functions that verbs differentiate: compiled, they are loops of any number of turns."""

import re

import numpy as np
import pytest
from comparing import close, follows

import checkpoint
import dualad
from checkpoint import grad, value_and_grad
from dualad import derivative, jit, jvp


def root(a, x):
    while abs(x * x - a) > 1e-12 * a:
        x = 0.5 * (x + a / x)
    return x


def march(x, p):
    t = 0.0
    while t < p:
        x = x + 0.1 * np.sin(x)
        t = t + 0.4
    return x


def halved(x, p):
    while x > 1.0:
        x = x * 0.7 if x > p else x * 0.9 - 0.01
    return x


def fixed_point(x, p):
    for _ in range(100):
        old, x = x, np.cos(x) / (1.0 + p)
        if abs(x - old) < 1e-9:
            break
    return x


def reads_outside(x, p):
    q = np.sin(p) + 2.0

    def f(y):
        while abs(y) > 0.01 * q:
            y = y * q / (q + 1.0)
        return y * q

    return grad(f)(x) + p


def verb_in_verb(x, p):
    return grad(lambda p: derivative(lambda x: root(p * p + x, x))(x))(p)


def with_aux(x, p):
    return value_and_grad(lambda x: (root(p, x), {"twice": 2.0 * x, "name": "root"}), has_aux=True)(x)


def of_compiled(x, p):
    return grad(jit(root), argnums=(0, 1))(x, p)


def descent(x, p):
    for _ in range(3):
        x = x - 0.01 * grad(lambda y: (root(p, y) - y) ** 2)(x)
    return x


FUNCTIONS = {
    "grad": grad(root),
    "grad by both": grad(root, argnums=(0, 1)),
    "gradient of a loop by time alone": grad(march),
    "turns that branch": grad(halved),
    "for with break": grad(fixed_point, argnums=(0, 1)),
    "values outside": reads_outside,
    "verb in verb": verb_in_verb,
    "aux": with_aux,
    "compiled": of_compiled,
    "verb in a loop": descent,
    "value_and_grad": value_and_grad(root),
    "jvp": lambda x, p: jvp(root, (x, p), (1.0, 0.5)),
    "vjp": lambda x, p: checkpoint.vjp(root, x, p)[1](2.0),
    "hessian": dualad.hessian(root),
    "jvp of grad": lambda x, p: jvp(grad(root, argnums=(0, 1)), (x, p), (1.0, 0.5)),
    "jacobian": lambda x, p: dualad.jacobian(lambda v: np.stack([root(v[0], v[1]), fixed_point(v[1], v[0])]))(np.stack([x, p])),
    "jacobian in reverse": lambda x, p: checkpoint.jacobian(lambda v: root(v[0], v[1]) * v)(np.stack([x, p])),
}


def points(count, seed=0):
    rng = np.random.default_rng(seed)
    return [(float(rng.uniform(0.5, 200.0)), float(10 ** rng.uniform(-1.0, 0.5))) for _ in range(count)]


@pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)
def test_derivatives_are_those_of_eager_code_for_all_numbers_of_turns(f):
    fast = jit(f, backend="numpy", paths=8)
    for at in points(6):
        close(fast(*at), f(*at), rtol=1e-13)
    assert "loop of at most" in fast.program(1.0, 2.0) and int(re.search(r"(\d+) path", fast.explain(1.0, 2.0))[1]) <= 4


def test_numbers_of_turns_are_no_paths_and_gradients_have_the_bits_of_eager_code():
    def decay(x, y):
        while x > y:
            x = x * 0.97 - 0.001 * np.sin(x)
        return x

    fast = jit(grad(decay), backend="numpy", paths=3)
    follows(fast, grad(decay), [(0.97 ** -float(turns), 1.0) for turns in (20, 3, 0, 30, 1)])
    assert fast.traces <= 4


def test_loops_are_compiled():
    fast = jit(grad(root, argnums=(0, 1)))
    for at in points(4, seed=1):
        np.testing.assert_allclose(fast(*at), grad(root, argnums=(0, 1))(*at), rtol=1e-13)
    assert len(next(iter(fast.entries.values())).paths) == 1


def keeps_variables(x, p):
    log, n = [0.0 * x], 0

    def f(y):
        nonlocal n
        while abs(y) > 0.3 * p:
            y, n = y * 0.5, n + 1
        log.append(n)
        log[0] = log[0] + 1.0
        return y

    return grad(f)(x), log[0], len(log), n


def keeps_attributes(x, p):
    def f(y):
        f.calls = f.calls + 1
        while abs(y) > 0.3 * p:
            y = y * 0.5
        return y

    f.calls = 0
    return grad(f)(x), f.calls


def raises(x, p):
    def f(x):
        n = 0
        while abs(x * x - p) > 1e-9:
            x, n = 0.5 * (x + p / x), n + 1
            if n > 7:
                raise ArithmeticError(f"no root of {p} after {n} turns")
        return x

    return grad(f)(x)


def returns_types(x, p):
    def f(y):
        while y > 1.0:
            y = y * 0.5
        return y if y > 0.7 else np.stack([y, y])[0:1].sum() if y > 0.6 else 0.5 * p

    return derivative(f)(x)


@pytest.mark.parametrize("f", [keeps_variables, keeps_attributes, raises, returns_types])
def test_what_is_more_than_a_function_is_traced_as_it_stands(f):
    assert (follows(jit(f, backend="numpy"), f, points(8, seed=2)) > 0) == (f is raises)


@pytest.mark.slow
def test_loops_that_print_do_so_as_often_as_without_jit(capsys):
    def f(x):
        while x > 1.0:
            x = x * 0.8
            if x > 30.0:
                print("large")
        return x

    fast, printed = jit(grad(f), backend="numpy"), []
    fast(20.0), fast(50.0), capsys.readouterr()
    for one in (fast, grad(f)):
        results = [one(x) for x in (20.0, 50.0, 70.0, 50.0, 10.0)]
        printed.append((results, capsys.readouterr().out))
    assert printed[0] == printed[1] and printed[0][1].count("large") == 7
