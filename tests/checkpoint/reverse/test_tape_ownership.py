"""Whose the arrays on a tape are: what it holds, what it frees, what others may change before the pull."""

import sys
import weakref

import numpy as np
import pytest

import dualad
from checkpoint import grad, vjp
from dualad.rules.kinds import ROWS, Elementwise

LARGE = np.linspace(0.5, 1.5, 1000)


@pytest.mark.parametrize(
    "use",
    [
        lambda y: None,
        lambda y: np.sum(y * y),
        lambda y: np.sum(y[1:] - y[:-1]),
        lambda y: np.linalg.norm(np.maximum(y, 1.0)),
        lambda y: y @ y,
        lambda y: np.mean(y) + np.max(y),
        lambda y: 1.0 - np.sqrt(np.sum(y)) / np.maximum(2.0 * np.max(y), 0.1),
        lambda y: np.concatenate([y, y]).reshape(2, -1),
    ],
    ids=["itself", "sum", "slices", "norm", "dot", "mean, max", "numbers", "joined"],
)
def test_what_a_dead_value_recorded_is_freed(use):
    def f(x):
        y = np.exp(x)
        held = weakref.ref(y.primal)
        used = use(y)
        assert held() is not None
        del y, used
        assert held() is None
        return np.sum(x * x)

    np.testing.assert_array_equal(grad(f)(LARGE), 2.0 * LARGE)


def test_what_the_result_needs_is_held_by_the_pullback_alone():
    held = []

    def f(x):
        y = np.sin(x)
        held.append(weakref.ref(y.primal))
        return y * y

    _, pullback = vjp(f, LARGE)
    np.testing.assert_allclose(pullback(np.ones(1000))[0], np.sin(2.0 * LARGE))
    assert held[0]() is not None
    del pullback
    assert held[0]() is None


def test_a_constant_that_nothing_needs_any_more_is_freed():
    copies = []

    def f(x):
        for k in range(3):
            work = np.full(1000, float(k))
            y = x * work
            copies.append(weakref.ref(y.node.args[1]))
            del y, work
        assert [copy() for copy in copies] == [None] * 3
        return np.sum(x)

    grad(f)(LARGE)


def test_long_recordings_are_freed_without_recursion():
    def f(x):
        for _ in range(3 * sys.getrecursionlimit() * 10):
            x = x + 0.0
        return np.sum(x)

    np.testing.assert_array_equal(grad(f)(np.ones(200)), np.ones(200))


def test_a_callers_array_may_change_before_the_pull():
    for f, gradient in (
        (lambda x: np.sum(x * x), 2.0 * LARGE),
        (lambda x: np.sum(np.sin(x[1:])), np.append(0.0, np.cos(LARGE[1:]))),
        (lambda x: np.sum(x.reshape(2, -1).T ** 3), 3.0 * LARGE**2),
        (lambda x: np.sum(LARGE / x), -1.0 / LARGE),
        (lambda x: np.sum(np.hypot(x, 2.0)), LARGE / np.hypot(LARGE, 2.0)),
        (lambda x: x @ x, 2.0 * LARGE),
    ):
        x = LARGE.copy()
        value, pullback = vjp(f, x)
        x[:] = np.nan
        np.testing.assert_allclose(pullback(1.0)[0], gradient)
        np.testing.assert_allclose(value, f(LARGE))


@pytest.mark.parametrize(
    "given_as",
    [
        lambda x: x,
        lambda x: np.frombuffer(x.data),
        lambda x: np.asarray(np.ma.masked_array(x)),
        lambda x: np.lib.stride_tricks.as_strided(x, (999,), (8,)),
    ],
)
@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sum(x[1:] ** 2),
        lambda x: np.sum(np.sin(x[2:20])),
        lambda x: np.prod(x[1:5]),
        lambda x: np.sum(np.exp(np.diagonal(x[:900].reshape(30, 30)))),
        lambda x: x[-3:] @ x[:3],
        lambda x: np.sum(np.ravel(x[:9]) * np.split(x, 3)[1][:9]),
    ],
)
def test_views_of_a_callers_array_may_change_before_the_pull(given_as, f):
    x = LARGE[:999].copy()
    _, pullback = vjp(f, given_as(x))
    x[:] = 7.0
    np.testing.assert_array_equal(pullback(1.0)[0], grad(f)(LARGE[:999]))


def test_a_small_view_does_not_hold_a_large_array():
    def f(x):
        large = np.sin(x)
        alive = weakref.ref(large.primal)
        y = large[:3] * large[3:6] + np.reshape(large[:4], (2, 2))[0, 0]
        del large
        assert alive() is None
        return np.sum(y)

    grad(f)(LARGE)


@pytest.mark.parametrize("n", [9, 1000])
@pytest.mark.parametrize(
    "f",
    [
        lambda x, i, m: x[i],
        lambda x, i, m: x[(i,)],
        lambda x, i, m: np.take(x, i),
        lambda x, i, m: x[m],
        lambda x, i, m: np.sum(x, where=m),
        lambda x, i, m: np.max(x, where=m, initial=-9.0),
        lambda x, i, m: np.where(m, x, 0.0),
        lambda x, i, m: written(x, i),
        lambda x, i, m: written(x, m),
    ],
)
def test_indices_may_change_before_the_pull(f, n):
    x, i, m = np.linspace(0.0, 1.0, n), np.arange(3), np.arange(n) < 3

    def moving(x):
        j, k, total = i.copy(), m.copy(), 0.0
        for _ in range(3):
            total = total + np.sum(f(x, j, k) ** 2)
            j += 1
            k[:] = np.roll(k, 1)
        return total

    np.testing.assert_array_equal(grad(moving)(x), grad(lambda x: sum(np.sum(f(x, i + k, np.roll(m, k)) ** 2) for k in range(3)))(x))


def test_a_reused_work_buffer_has_first_and_second_derivatives():
    work, slope = np.zeros(3), np.array([4.0, 10.0, 18.0])

    def f(x):
        work[:] = [1.0, 2.0, 3.0]
        y = x * work
        work[:] = [4.0, 5.0, 6.0]
        return np.sum(y * work)

    np.testing.assert_array_equal(grad(f)(np.ones(3)), slope)
    np.testing.assert_array_equal(dualad.jvp(grad(lambda x: f(x) ** 2), (np.ones(3),), (np.ones(3),))[1], 2.0 * 32.0 * slope)


class Subclass(np.ndarray):
    """An array that means what a plain one means."""


@pytest.mark.parametrize("n", [3, 1000])
def test_constants_of_a_subclass_count_as_plain_arrays(n):
    x, c = np.linspace(0.1, 1.0, n), np.linspace(1.0, 0.1, n)
    for f in (
        lambda x, c: np.maximum(x, c),
        lambda x, c: np.maximum(np.abs(x * (1.0 + 1.0j)), c),
        lambda x, c: (x * c) ** 2,
        lambda x, c: x / c,
    ):
        given = c.copy().view(Subclass)
        _, pullback = vjp(lambda x: f(x, given), x)
        given[:] = 7.0
        (by_x,) = pullback(np.ones(n))
        assert type(by_x) is np.ndarray
        np.testing.assert_array_equal(by_x, vjp(lambda x: f(x, c), x)[1](np.ones(n))[0])


def written(x, index):
    y = np.zeros_like(x)
    y[index] = x[index]
    return y


@pytest.mark.parametrize(
    "fn", [np.arctan2, np.hypot, np.logaddexp, np.maximum, np.fmin, np.power, np.copysign, np.remainder], ids=lambda fn: fn.__name__
)
@pytest.mark.parametrize("n", [5, 1000])
def test_two_arrays_that_others_change(fn, n):
    a, b = np.linspace(0.5, 1.5, n), np.linspace(1.4, 0.6, n)
    b[1] = a[1]
    g = np.cos(np.arange(n))
    for f, x in ((lambda x: fn(x, y), a), (lambda x: fn(y, x), b)):
        y = b.copy() if x is a else a.copy()
        expected = dualad.jvp(f, (x,), (np.ones(n),))[1] * g
        given = x.copy()
        _, pullback = vjp(f, given)
        given[:], y[:] = np.nan, np.nan
        for _ in range(2):
            np.testing.assert_allclose(pullback(g)[0], expected, rtol=1e-13)


@pytest.mark.parametrize("n", [5, 1000])
def test_results_may_be_changed_before_the_pull(n):
    x = np.linspace(0.5, 1.5, n)

    def f(x):
        y = np.exp(x)
        return (y, y), [y]

    (value, again), pullback, aux = vjp(f, x, has_aux=True)
    assert not np.may_share_memory(value, again)
    for array in (value, again, aux[0]):
        array -= 7.0
    np.testing.assert_allclose(pullback((np.ones(n), np.zeros(n)))[0], np.exp(x))

    def inner(x):
        value, pullback = vjp(lambda x: np.exp(x) * x, x)
        value -= 3.0
        return pullback(np.ones(n))[0]

    np.testing.assert_allclose(dualad.jvp(inner, (x,), (np.ones(n),))[1], np.exp(x) * (x + 2.0))


@pytest.mark.parametrize("n", [5, 1000])
def test_what_a_users_partial_returns_is_not_written(monkeypatch, n):
    slopes = np.linspace(1.0, 2.0, n) + 0.0
    monkeypatch.setitem(ROWS, np.sin, Elementwise(np.sin, lambda ans, x: slopes))
    np.testing.assert_array_equal(vjp(lambda x: np.sin(x), np.ones(n))[1](np.full(n, 3.0))[0], 3.0 * slopes)
    np.testing.assert_array_equal(slopes, np.linspace(1.0, 2.0, n))


def test_results_do_not_show_the_callers_array():
    x = LARGE.copy()
    value, pullback, aux = vjp(lambda x: (x[1:], {"aux": x.reshape(2, -1)}), x, has_aux=True)
    assert not any(np.may_share_memory(x, array) for array in (value, aux["aux"]))
    g = np.ones(999)
    assert not np.may_share_memory(pullback(g)[0], g)


def test_a_cotangent_is_never_written():
    for f in (lambda a, b: np.linspace(a, b, 3), lambda a, b: np.stack([a, a * b + a]), lambda a, b: np.reshape(np.stack([a]), ()) + a * b):
        value, pullback = vjp(f, np.array(1.0), np.array(2.0))
        g = np.ones(np.shape(value))
        pullback(g)
        np.testing.assert_array_equal(g, np.ones(np.shape(value)))
