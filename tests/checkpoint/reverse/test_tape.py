"""The tape: what is recorded, in-place assignment, ownership of buffers; counted, never timed."""

import sys
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dualad
from checkpoint import grad, hvp, jacobian, vjp
from checkpoint.reverse.recording import Recording
from checkpoint.reverse.tape import Tape
from dualad.rules.kinds import ROWS, Elementwise


def recorded(f, *args):
    return len(Recording(f, args, "test", False, False).tape.entries) - len(args)


def test_one_entry_an_operation():
    assert recorded(lambda x: np.sin(x) * x + 2.0, 1.5) == 3
    assert recorded(lambda x: np.sum(x * x), np.ones(4)) == 2
    assert recorded(lambda x: dualad.primal(x) * 2.0, 1.5) == 0
    assert recorded(lambda x: (x > 0) * 1.0, np.ones(3)) == 0


@pytest.mark.parametrize("n", [10, 100, 1000])
def test_scalar_loops_record_linearly(n):
    def f(x):
        out = np.zeros_like(x)
        out[0] = x[0]
        for i in range(1, n):
            out[i] = out[i - 1] * 0.5 + x[i]
        return np.sum(out)

    assert recorded(f, np.ones(n)) == 2 + 1 + 5 * (n - 1) + 1  # zeros, first read and write; two reads, *, +, write; sum


def test_cotangent_of_an_index_goes_into_one_buffer(monkeypatch):
    made = []
    original = np.zeros
    monkeypatch.setattr(np, "zeros", lambda *args, **kwargs: made.append(args) or original(*args, **kwargs))
    n = 200

    def f(x):
        total = 0.0
        for i in range(n):
            total = total + x[i] * x[n - 1 - i]
        return total

    gradient = grad(f)(np.arange(float(n)))
    assert sum(args[0] == (n,) for args in made if args) <= 2
    np.testing.assert_array_equal(gradient, 2.0 * np.arange(float(n))[::-1])


def writes(x):
    y = np.zeros_like(x)
    y[1:] = x[:-1] ** 2
    y[0] += x[-1]
    tail = y[2:]
    tail *= x[0]
    tail[::2] = tail[::2] + 1.0
    y.reshape(2, 3)[:, 1] -= x[:2]
    y[y > 2.0] *= 0.5
    y[[0, 5]] = x[[1, 1]] * 3.0
    z = y.T
    z[-1] = np.sin(z[-1])
    return y


def test_assignments_and_views_in_reverse_mode():
    x = np.array([1.5, 0.3, -0.7, 2.0, 1.1, 0.9])
    reference = dualad.jacobian(writes)(x)
    np.testing.assert_allclose(jacobian(writes)(x), reference, atol=1e-14)
    h = 1e-6
    numeric = np.stack([(writes(x + h * e) - writes(x - h * e)) / (2 * h) for e in np.eye(6)], axis=1)
    np.testing.assert_allclose(reference, numeric, atol=1e-8)
    f = lambda x: np.sum(writes(x) ** 3)
    np.testing.assert_allclose(hvp(f, x, np.ones(6)), dualad.hessian(f)(x) @ np.ones(6), rtol=1e-10)
    np.testing.assert_allclose(jacobian(grad(f))(x), dualad.hessian(f)(x), rtol=1e-9, atol=1e-12)


def test_last_write_wins_at_a_repeated_index():
    def f(x):
        y = np.zeros_like(x)
        y[np.array([0, 0, 1])] = x
        return np.sum(y * np.array([1.0, 10.0, 100.0]))

    np.testing.assert_array_equal(grad(f)(np.ones(3)), [0.0, 1.0, 10.0])


def test_recorded_values_survive_later_writes():
    def f(x):
        y = x * 1.0
        z = np.sin(y)  # needs y as it is now
        y[0] = 100.0
        return np.sum(z * y)  # and here as it is then

    h = 1e-6
    x = np.array([0.3, 0.8])
    numeric = [(f(x + h * e) - f(x - h * e)) / (2 * h) for e in np.eye(2)]
    np.testing.assert_allclose(grad(f)(x), numeric, atol=1e-7)


def test_callers_arrays_are_never_touched():
    x, g = np.arange(4.0), np.ones(4)
    before = x.copy()

    def f(x):
        x[0] = 5.0
        x += 1.0
        return x * 2.0

    _, pullback = vjp(f, x)
    first = pullback(g)[0]
    first[:] = 0.0
    np.testing.assert_array_equal(pullback(g)[0], [0.0, 2.0, 2.0, 2.0])
    np.testing.assert_array_equal(x, before)
    np.testing.assert_array_equal(g, np.ones(4))


def test_lower_level_buffers_are_promoted_by_a_write():
    def f(x):
        out = np.zeros_like(x)

        def inner(y):
            out2 = np.zeros_like(x)
            out2[0] = y * x[0]
            return np.sum(out2)

        out[1] = grad(inner)(2.0) * x[1]
        return np.sum(out)

    np.testing.assert_array_equal(grad(f)(np.array([3.0, 5.0])), [5.0, 3.0])


def test_frozen_constants_are_copied_once_while_unchanged():
    tape = Tape()
    constant = np.arange(1000.0)
    first = tape.freeze(constant)
    assert tape.freeze(constant) is first
    constant[0] = -1.0
    second = tape.freeze(constant)
    assert second is not first and first[0] == 0.0 and second[0] == -1.0
    constant[1] = np.nan
    third = tape.freeze(constant)
    assert tape.freeze(constant) is third  # NaN compares by its bits


OPERATIONS = [
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: a * b,
    lambda a, b: a / (b * b + 1.0),
    lambda a, b: np.sin(a) + b * 0.0,
    lambda a, b: np.maximum(a, b),
    lambda a, b: a**2 - b,
    lambda a, b: np.exp(-a * a) + b,
    lambda a, b: np.hypot(a, b + 3.0),
    lambda a, b: a * np.mean(b) - 1.0 / (2.0 + np.max(b)),
    lambda a, b: np.where(np.less(a, b), a, 0.3 * b),
    lambda a, b: np.linalg.norm(a) + b,
    lambda a, b: np.ravel(a) @ np.ravel(a) * 0.1 + np.roll(b, 1),
    lambda a, b: reused_buffer(a) + np.cumsum(np.ravel(a))[-1] * 0.1 * b,
]


def reused_buffer(a):
    """Multiply by a work array that changes before the pull."""
    work = np.full(np.shape(a), 0.7)
    y = a * work
    work[...] = -0.4
    return y * work + a / work


@given(
    program=st.lists(st.tuples(st.integers(0, len(OPERATIONS) - 1), st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=12),
    size=st.sampled_from([0, 3, 200]),
)
def test_random_programs_agree_in_both_modes(program, size):
    def f(x, y):
        values = [x, y]
        for operation, i, j in program:
            values.append(OPERATIONS[operation](values[i % len(values)], values[j % len(values)]))
        return np.sum(values[-1] * np.cos(values[len(values) // 2]))

    point = (np.resize([0.4, -1.1, 2.3], size), 0.7) if size else (0.4, 0.7)
    with np.errstate(all="ignore"):
        reverse, forward = grad(f, argnums=(0, 1))(*point), dualad.gradient(f, argnums=(0, 1))(*point)
        if np.max(np.abs(forward[0]), initial=0.0) > 1e100:  # it overflows on the way, in one mode or the other
            return
    for a, b in zip(reverse, forward, strict=True):
        if np.all(np.isfinite(b)):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


# --- what a tape holds ------------------------------------------------------------------------------------------------------

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


def test_a_singular_partial_times_zero_is_zero_also_with_a_constant():
    x, y = np.zeros(1000), np.linspace(0.2, 1.0, 1000)
    g = (np.arange(1000) % 2).astype(float)
    (by_x,) = vjp(lambda x: np.power(x, y), x)[1](g)
    np.testing.assert_array_equal(by_x, np.where(g == 0, 0.0, np.where(y == 1.0, 1.0, np.inf)))


@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize(("f", "slope"), [(np.tanh, lambda x: np.cosh(x) ** -2.0), (np.expm1, np.exp)])
def test_an_argument_is_held_only_where_the_value_has_lost_digits(f, slope, far):
    x = np.linspace(-1.0, 1.0, 1000)
    x[7] = -20.0 if far else 0.25
    expected = slope(x)
    recording = Recording(f, (x,), "test", False, False)
    assert (recording.nodes[0].args[0] is None) != far
    _, pullback = vjp(f, x)
    x[:] = 0.3
    np.testing.assert_allclose(pullback(np.ones(1000))[0], expected, rtol=1e-14)


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


def test_the_callers_array_is_not_written():
    def f(x):
        x[0] = 3.0
        x *= 2.0
        y = x[1:]
        y += 1.0
        return np.sum(x)

    x = LARGE.copy()
    grad(f)(x)
    np.testing.assert_array_equal(x, LARGE)


def test_a_cotangent_is_never_written():
    for f in (lambda a, b: np.linspace(a, b, 3), lambda a, b: np.stack([a, a * b + a]), lambda a, b: np.reshape(np.stack([a]), ()) + a * b):
        value, pullback = vjp(f, np.array(1.0), np.array(2.0))
        g = np.ones(np.shape(value))
        pullback(g)
        np.testing.assert_array_equal(g, np.ones(np.shape(value)))


@pytest.mark.parametrize("n", [3, 1000])
def test_division_by_a_python_zero_is_numpys(n):
    with np.errstate(all="ignore"):
        assert np.all(grad(lambda x: np.sum(x / 0.0))(np.ones(n)) == np.inf)
        assert grad(lambda x: x / 0.0 + np.sum(np.ones(n)) * x)(1.0) == np.inf


@pytest.mark.parametrize("n", [3, 1000])
def test_a_number_that_was_broadcast(n):
    x = np.linspace(0.5, 1.5, n)
    f = lambda a, b, x: np.sum(a * np.exp(-b * x) / (a + x) - np.maximum(a, x) ** b)
    a, b = 0.7, 1.3
    by_a, by_b, by_x = grad(f, argnums=(0, 1, 2))(a, b, x)
    forward = dualad.gradient(f, argnums=(0, 1))(a, b, x)
    np.testing.assert_allclose((by_a, by_b), forward, rtol=1e-12)
    h = 1e-6
    np.testing.assert_allclose(by_a, (f(a + h, b, x) - f(a - h, b, x)) / (2 * h), rtol=1e-7)
    np.testing.assert_allclose(by_x[0], (f(a, b, np.append(x[0] + h, x[1:])) - f(a, b, np.append(x[0] - h, x[1:]))) / (2 * h), rtol=1e-5)
    assert type(by_a) is type(by_b) is np.float64


@pytest.mark.parametrize("size", [8, 400])
def test_several_threads_record_on_one_tape(size):
    """Entries keep their places, however the threads take turns."""

    def work(x, i):
        s, y = x[i], np.sin(x * (i + 1))
        for k in range(15):
            s = np.exp(-s) * 0.5 + x[(i + k) % 8] * s
            y = y * 0.9 + np.cos(y) * x
        return s + np.sum(y)

    x, interval = np.linspace(0.5, 1.5, size), sys.getswitchinterval()
    wanted = grad(lambda x: sum(work(x, i) for i in range(8)))(x)
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            for _ in range(15):
                np.testing.assert_allclose(grad(lambda x: sum(pool.map(lambda i: work(x, i), range(8))))(x), wanted, rtol=1e-10)
    finally:
        sys.setswitchinterval(interval)
