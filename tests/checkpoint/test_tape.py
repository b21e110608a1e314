"""The tape: what is recorded, in-place assignment, ownership of buffers; counted, never timed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dualad
from checkpoint import grad, hvp, jacobian, vjp
from checkpoint.gradient import Recording
from checkpoint.tape import Tape


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
        z = np.sin(y)          # needs y as it is now
        y[0] = 100.0
        return np.sum(z * y)   # and here as it is then
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
    lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, lambda a, b: a / (b * b + 1.0), lambda a, b: np.sin(a) + b * 0.0,
    lambda a, b: np.maximum(a, b), lambda a, b: a**2 - b, lambda a, b: np.exp(-a * a) + b, lambda a, b: np.hypot(a, b + 3.0),
]


@given(program=st.lists(st.tuples(st.integers(0, len(OPERATIONS) - 1), st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=12),
       arrays=st.booleans())
def test_random_programs_agree_in_both_modes(program, arrays):
    def f(x, y):
        values = [x, y]
        for operation, i, j in program:
            values.append(OPERATIONS[operation](values[i % len(values)], values[j % len(values)]))
        return np.sum(values[-1] * np.cos(values[len(values) // 2]))
    point = (np.array([0.4, -1.1, 2.3]), 0.7) if arrays else (0.4, 0.7)
    with np.errstate(all="ignore"):
        reverse, forward = grad(f, argnums=(0, 1))(*point), dualad.gradient(f, argnums=(0, 1))(*point)
    for a, b in zip(reverse, forward, strict=True):
        if np.all(np.isfinite(b)):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
