"""The tape: what is recorded, in-place assignment, ownership of buffers; counted, never timed."""

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dualad
from checkpoint import grad, jacobian, vjp
from checkpoint.reverse.recording import Recording
from checkpoint.reverse.tape import Tape


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


def test_numbers_are_stacked_directly():
    """With constants among them, NumPy's numbers too; arrays, other precisions and other axes as ever."""
    x = np.array([0.5, 2.0, 3.0])
    mixed = lambda x: np.stack([x[0] * x[1], 4.0, np.float64(5.0), x[2], x[2]])
    np.testing.assert_array_equal(vjp(mixed, x)[0], mixed(x))
    assert recorded(mixed, x) == 6  # four reads, the product, the stack
    np.testing.assert_array_equal(jacobian(mixed)(x), dualad.jacobian(mixed)(x))
    for others in (
        lambda x: np.stack([x[0], np.float32(2.0)]),
        lambda x: np.stack([x[0], x[1]], axis=-1),
        lambda x: np.stack([x[:2], x[1:]]),
    ):
        np.testing.assert_array_equal(jacobian(others)(x), dualad.jacobian(others)(x))
