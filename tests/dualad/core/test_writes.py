"""Writing into traced arrays: elements, slices, in-place operators, buffers of other levels, threads; all as NumPy does it."""

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from agreement import check

import dualad
from checkpoint import grad, hvp, vjp
from checkpoint import jacobian as reverse_jacobian
from dualad import derivative, gradient, jacobian, jit, jvp

X = np.array([[0.3, -0.7, 1.2], [0.9, 0.4, -0.2]])
V = np.array([0.5, -1.5, 2.0, 0.25])


@pytest.mark.parametrize("jacobian", [jacobian, reverse_jacobian], ids=["forward", "reverse"])
def test_what_was_read_of_a_written_array_stays_as_it_was(jacobian):
    def f(x):
        y = 2.0 * x
        y[0] = x[1]
        first, part, total = y[0], y[:2] + 0.0, y[1:] + y[:-1]
        y[0] = 5.0 * x[2]
        y[1:] -= 3.0 * x[:-1]
        return np.concatenate([np.stack([first, y[0]]), part, total[:1], y])

    expected = [[0, 1, 0], [0, 0, 5], [0, 1, 0], [0, 2, 0], [0, 3, 0], [0, 0, 5], [-3, 2, 0], [0, -3, 2]]
    np.testing.assert_array_equal(jacobian(f)(V[:3]), expected)


def test_stacked_numbers_join_in_the_layout_of_directions():
    for axis in (0, -1):
        np.testing.assert_array_equal(jacobian(lambda x: np.stack([x[0], 2.0 * x[1]], axis))(V), [[1, 0, 0, 0], [0, 2, 0, 0]])
        np.testing.assert_array_equal(jvp(lambda x: np.stack([x[0], 2.0 * x[1]], axis), (V,), (V,))[1], [V[0], 2.0 * V[1]])
    with pytest.raises(ValueError, match="axis 1 is out of bounds"):
        jacobian(lambda x: np.stack([x[0], x[1]], 1))(V)


def shared_tangent_is_not_written(x):
    y = x + 1.0
    y[0] = 0.0
    y += x
    return x * x + y


def write_repeated_indices(x):
    y = np.zeros_like(x[0])
    y[[0, 0, 1]] = x[0]
    y[[2, 2]] += x[1, :2]
    return y


def write_a_buffer(x):
    out = np.zeros((4, 3), like=x)
    for i in range(4):
        out[i] = x[i % 2] * i
    out[...] = out[::-1]
    return out


def write_scalars_in_lists(x):
    y = np.zeros_like(x)
    y[0] = [x[0, 0], 2.0 * x[0, 1], 0.0]
    y[1] = x[1, 0]
    return y


def write_in_a_loop(x):
    u = x.copy()
    for _ in range(3):
        u[:, 1:-1] += 0.1 * (u[:, 2:] - 2 * u[:, 1:-1] + u[:, :-2])
        u[0], u[1] = u[1] * 1.0, u[0] * 1.0
    return u


def augmented_everything(x):
    y = x * 1.0
    y += 1.0
    y -= x
    y *= 2.0
    y *= x
    y /= 3.0
    y **= 2
    y %= 5.0
    return y


def reads_before_and_after_a_write(x):
    y = x * x
    before = y[0] * 1.0
    view = y[0]
    y[0] = x[1]
    return before * view + y[1]


#: what the random programs of test_random_programs do not write
WRITES = [
    shared_tangent_is_not_written, write_repeated_indices, write_a_buffer, write_in_a_loop, augmented_everything,
    reads_before_and_after_a_write,
]  # fmt: skip


@pytest.mark.parametrize("f", WRITES)
def test_writes(f):
    check(f, X)


def test_writes_of_lists_of_scalars():
    np.testing.assert_array_equal(jvp(write_scalars_in_lists, (X,), (X,))[1], [[0.3, -1.4, 0.0], [0.9, 0.9, 0.9]])


def test_the_callers_arrays_are_never_touched():
    x, v = X.copy(), X.copy()

    def f(x):
        x[0] = 0.0
        x += 1.0
        x[1:] *= x[1:]
        np.add(x, 1.0, out=x)
        x.fill(2.0)
        return x

    jvp(f, (x,), (v,))
    jacobian(f)(x)
    pullback = vjp(f, x)[1]
    pullback(v)[0][:] = 7.0
    np.testing.assert_array_equal(pullback(v)[0], 0.0 * x)
    linear = dualad.value_and_jacobian(f)(x)
    linear[0][...] = 9.0
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(v, X)


def test_a_write_to_the_input_is_what_is_returned():
    def f(x):
        x[0] = 2 * x[1]
        return x

    np.testing.assert_array_equal(jvp(f, (V,), (V,))[0], [-3.0, -1.5, 2.0, 0.25])
    np.testing.assert_array_equal(jvp(f, (V,), (V,))[1], [-3.0, -1.5, 2.0, 0.25])


def test_zero_dimensional_arrays():
    def f(x):
        y = np.zeros_like(x)
        y[...] = x * x
        y += x
        y[()] = y * 2
        return y

    x = np.array(1.5)
    value, tangent = jvp(f, (x,), (np.array(1.0),))
    assert (value, tangent) == (7.5, 8.0)
    assert np.shape(value) == np.shape(tangent) == ()
    assert gradient(f)(x) == 8.0 and grad(f)(x) == 8.0
    assert jvp(lambda x: x[()], (x,), (1.0,)) == (1.5, 1.0)
    assert jvp(lambda x: x[None], (x,), (2.0,))[1].tolist() == [2.0]


def test_a_write_to_no_element_of_an_array_without_axes():
    def f(x):
        v = np.where(np.asarray(x > 0.0), np.sin(x), 0.0)
        v[np.asarray(False)] *= 0.5
        v.flat[0] -= 0.3 * v**2
        return np.sum(v)

    s, c = np.sin(0.7), np.cos(0.7)
    assert grad(f)(0.7) == pytest.approx(c * (1.0 - 0.6 * s), rel=1e-14)
    second = pytest.approx(-s * (1.0 - 0.6 * s) - 0.6 * c**2, rel=1e-14)
    assert hvp(f, 0.7, 1.0) == second == grad(derivative(f))(0.7) == derivative(derivative(f))(0.7)


def test_scalars_are_immutable():
    with pytest.raises(TypeError, match="does not support assignment to its elements: it is immutable"):
        derivative(lambda x: x.__setitem__((), 1.0))(1.5)

    def f(x):
        y = x
        y += 1.0
        y *= y
        return x * y

    assert derivative(f)(2.0) == 9.0 + 2.0 * 6.0
    assert grad(f)(2.0) == 21.0


def test_in_place_errors_are_numpys():
    with pytest.raises(ValueError, match="non-broadcastable output operand with shape"):
        jvp(lambda x: x[0].__iadd__(x), (X,), (X,))
    with pytest.raises(TypeError, match="cannot cast the result from complex128 to float64 in place"):
        jvp(lambda x: x.__iadd__(1j), (X,), (X,))
    with pytest.raises(ValueError, match="could not broadcast"):
        jvp(lambda x: x.__setitem__(0, np.ones(2)), (X,), (X,))
    with pytest.raises(IndexError):
        jvp(lambda x: x.__setitem__(5, 1.0), (X,), (X,))
    with pytest.raises(IndexError):
        jvp(lambda x: x[2], (X,), (X,))


def test_single_precision_arrays_stay_single_when_written():
    def f(x):
        y = np.zeros_like(x)
        y[0] = x[1] * 2.0
        y += 1.0
        y[1:] = np.ones(1)
        return y

    value, tangent = jvp(f, (X.astype(np.float32),), (X.astype(np.float32),))
    assert value.dtype == tangent.dtype == np.float32
    assert jacobian(f)(X.astype(np.float32)).dtype == np.float32


# --- writing higher levels into lower ones --------------------------------------------------------------------------------------


def test_a_buffer_of_an_outer_level_is_promoted_by_an_inner_derivative():
    def outer(x):
        out = np.zeros_like(x)

        def inner(y):
            out[0] = y * y * x[0]
            return out[0] + y

        slope = derivative(inner)(2.0)
        return slope * x[1]

    for verb in (gradient, grad):
        np.testing.assert_allclose(verb(outer)(V), [4.0 * V[1], 4.0 * V[0] + 1.0, 0.0, 0.0])


def test_promotion_of_a_plain_buffer_made_like_an_outer_value():
    def outer(x):
        def inner(y):
            out = np.zeros_like(x)
            out[0] = y
            out[1] = x[0] * y
            out[2:] += y
            return np.sum(out * x)

        return derivative(inner)(3.0)

    expected = gradient(lambda x: x[0] + x[0] * x[1] + x[2] + x[3])(V)
    np.testing.assert_allclose(gradient(outer)(V), expected)
    np.testing.assert_allclose(grad(outer)(V), expected)
    np.testing.assert_allclose(gradient(lambda x: grad(lambda y: np.sum(write(x, y)))(3.0))(V), [1.0, 0.0, 0.0, 0.0])


def write(x, y):
    out = np.zeros_like(x)
    out[0] = y * x[0]
    return out


def test_a_view_of_a_promoted_buffer():
    def outer(x):
        def inner(y):
            out = np.zeros_like(x)
            view = out[1:3]
            view[0] = y * x[0]
            out[2] = view[0] * y
            return view[1]

        return derivative(inner)(2.0)

    np.testing.assert_allclose(gradient(outer)(V), [4.0, 0.0, 0.0, 0.0])


# --- threads ----------------------------------------------------------------------------------------------------------------------


def test_threads_that_write_different_parts_of_one_array_lose_nothing():
    def by_row(write):
        def f(x):
            y = np.zeros((8, 20), like=x)

            def row(k):
                for i in range(20):
                    y[k, i] = x[k % 4] * x[i % 4]
                y[k] *= x[0]

            write(row)
            return np.sum(y * y)

        return f

    alone = by_row(lambda row: [row(k) for k in range(8)])
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(8) as pool:
            together = by_row(lambda row: list(pool.map(row, range(8))))
            for verb in (grad, gradient):
                expected = verb(alone)(V)
                for _ in range(10):
                    np.testing.assert_allclose(verb(together)(V), expected, rtol=1e-12)
            pullback = vjp(alone, V)[1]
            for (g,) in pool.map(lambda _: pullback(1.0), range(40)):
                np.testing.assert_array_equal(g, grad(alone)(V))
    finally:
        sys.setswitchinterval(before)


@pytest.mark.parametrize("name", ["conj", "conjugate"])
def test_conjugates_of_real_arrays_are_no_copies(name):
    def f(x):
        y = x * 1.0
        getattr(y.T, name)()[0] *= 3.0
        return y

    x = np.arange(6.0).reshape(2, 3)
    expected, slope = f(x), np.array([[3.0, 1.0, 1.0]] * 2)
    for found in (
        jvp(f, (x,), (x,)),
        (vjp(f, x)[0], grad(lambda x: np.sum(f(x)))(x) * x),
        (jit(f)(x), jit(lambda x: jvp(f, (x,), (x,))[1])(x)),
    ):
        np.testing.assert_array_equal(found[0], expected)
        np.testing.assert_array_equal(found[1], slope * x)
