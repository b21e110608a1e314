"""Writing into traced arrays: views, views of views, in-place operators, promotion by inner levels; all as NumPy does it."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from agreement import check
from hypothesis import given, settings
from hypothesis import strategies as st

import dualad
from checkpoint import grad, hvp, value_and_grad, vjp
from checkpoint import jacobian as reverse_jacobian
from dualad import derivative, gradient, hessian, jacobian, jit, jvp
from dualad.jit.compiled import BACKENDS
from dualad.testing import check_derivatives

X = np.array([[0.3, -0.7, 1.2], [0.9, 0.4, -0.2]])
V = np.array([0.5, -1.5, 2.0, 0.25])


# --- writing ------------------------------------------------------------------------------------------------------------------


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


def write_elements(x):
    y = np.zeros_like(x)
    y[0] = x[1] * 2
    y[1, 2] = x[0, 0] * x[0, 1]
    y[1, :2] += x[0, 1:]
    y[:, 0] *= x[:, 1]
    return y


def write_through_a_name(x):
    y = np.sin(x)
    z = y[1:]
    z += 1.0
    z *= z
    return y * x


def shared_tangent_is_not_written(x):
    y = x + 1.0
    y[0] = 0.0
    y += x
    return x * x + y


def write_advanced(x):
    y = np.cos(x)
    y[:, [0, 2]] = x[:, [1, 1]] * 3
    y[np.array([0, 1]), np.array([1, 1])] += x[:, 0]
    y[y > 0.5] = 0.25
    y[x > 0] *= x[x > 0]
    return y


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


def write_overlapping(x):
    y = x * 1.0
    y[:, 1:] = y[:, :-1]
    y[0] = y[1]
    y[:, ::-1] -= y
    return y


def write_a_constant(x):
    y = x * x
    y[0, 1] = 7.0
    y[1] = np.array([1.0, 2.0, 3.0])
    y[:, 2] = [4.0, 5.0]
    return y * x


def write_scalars_in_lists(x):
    y = np.zeros_like(x)
    y[0] = [x[0, 0], 2.0 * x[0, 1], 0.0]
    y[1] = x[1, 0]
    return y


def write_with_broadcasting(x):
    y = np.ones_like(x)
    y[...] = x[0]
    y[:, :] += x[:, :1]
    y[None, :, 1] = x[:, 2]
    return y


def write_full_like(x):
    y = np.full_like(x, x[0, 0])
    y[1, 1] -= x[1, 1]
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


def a_copy_is_independent(x):
    y = x * 2
    z = y.copy()
    y += x
    z[0] = 0.0
    return y * z


def reads_before_and_after_a_write(x):
    y = x * x
    before = y[0] * 1.0
    view = y[0]
    y[0] = x[1]
    return before * view + y[1]


WRITES = [
    write_elements,
    write_through_a_name,
    shared_tangent_is_not_written,
    write_advanced,
    write_repeated_indices,
    write_a_buffer,
    write_overlapping,
    write_a_constant,
    write_with_broadcasting,
    write_full_like,
    write_in_a_loop,
    augmented_everything,
    a_copy_is_independent,
    reads_before_and_after_a_write,
]


@pytest.mark.parametrize("f", WRITES)
def test_writes(f):
    check(f, X)


def test_writes_of_lists_of_scalars():
    np.testing.assert_array_equal(jvp(write_scalars_in_lists, (X,), (X,))[1], [[0.3, -1.4, 0.0], [0.9, 0.9, 0.9]])


VIEWS = {
    "slice": lambda y: y[1:],
    "slice of two": lambda y: y[:, 1:],
    "step": lambda y: y[:, ::2],
    "negative step": lambda y: y[:, ::-1],
    "row": lambda y: y[0],
    "column": lambda y: y[:, 1],
    "newaxis": lambda y: y[:, None, :],
    "ellipsis": lambda y: y[..., 1:],
    "all": lambda y: y[...],
    "reshape": lambda y: y.reshape(3, 2),
    "np.reshape": lambda y: np.reshape(y, -1),
    "ravel": lambda y: y.ravel(),
    "np.ravel": lambda y: np.ravel(y),
    "T": lambda y: y.T,
    "np.transpose": lambda y: np.transpose(y, (1, 0)),
    "swapaxes": lambda y: y.swapaxes(0, 1),
    "moveaxis": lambda y: np.moveaxis(y, 0, -1),
    "expand_dims": lambda y: np.expand_dims(y, 1),
    "squeeze": lambda y: np.squeeze(y[:1]),
    "squeeze of nothing": lambda y: np.squeeze(y),
    "real": lambda y: y.real,
    "np.real": np.real,
    "flip": lambda y: np.flip(y),
    "flip axis": lambda y: np.flip(y, 0),
    "flipud": lambda y: y[::-1],
    "atleast_3d": lambda y: np.atleast_3d(y),
    "split": lambda y: np.split(y, 3, axis=1)[1],
    "iteration": lambda y: next(iter(y)),
    "mT": lambda y: y.mT,
    "view of a view": lambda y: y[:, 1:][:, ::-1],
    "slice of T": lambda y: y.T[1:],
    "T of reshape": lambda y: y.reshape(3, 2).T,
    "row of ravel": lambda y: y.ravel()[1:4],
    "ravel of row": lambda y: y[1].ravel(),
    "flip of T of row": lambda y: np.flip(y.T[0]),
    "reshape of a row": lambda y: y[0].reshape(3, 1),
    "reshape of T": lambda y: y.T.reshape(-1),
    "ravel of T": lambda y: np.ravel(y.T),
    "three deep": lambda y: y[:, 1:].T[::-1][0],
}
CHANGES = {
    "+=": lambda v: v.__iadd__(1.5),
    "*=": lambda v: v.__imul__(v),
    "[...] =": lambda v: v.__setitem__(Ellipsis, np.sin(v)),
    "[0] =": lambda v: v.__setitem__(0, 2.0 * v[-1]),
    "out=": lambda v: np.multiply(v, 3.0, out=v),
    "fill": lambda v: v.fill(0.5),
    "nested": lambda v: v[:1].__iadd__(2.0),
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("change", CHANGES)
def test_writes_through_views_are_those_of_numpy(view, change):
    def f(x):
        y = np.sin(x)
        v = VIEWS[view](y)
        CHANGES[change](v)
        first = y * 1.0
        y[0] *= 2.0
        y[:, -1:] += x[:, :1]
        return first, y, v * v

    check(f, X)


@pytest.mark.parametrize("view", VIEWS)
def test_views_of_arrays_in_fortran_order_are_those_of_numpy(view):
    def f(x):
        y = np.sin(x).T * 1.0
        y = y.T
        y[0] = x[1]
        y *= y
        v = VIEWS[view](y)
        v += 1.0
        y *= 2.0
        return y, v

    check(f, X)
    check(f, np.asfortranarray(X))


@pytest.mark.parametrize("part", ["real", "imag"])
def test_writes_through_parts_of_complex_arrays(part):
    def f(x):
        z = np.exp(1j * x)
        v = getattr(z, part)
        v += x
        v[0] *= 2.0
        z[1] *= 1j
        return z, v * v

    check(f, X)


def test_read_only_views_stay_read_only():
    for make in (lambda y: np.diagonal(y), lambda y: np.broadcast_to(y, (2, 2, 3))):
        for x in (X, None):

            def f(x, make=make):
                make(x * 1.0)[...] = 0.0
                return x

            with pytest.raises(ValueError, match="read-only"):
                f(X) if x is not None else jvp(f, (X,), (X,))


def test_axes_that_repeat_one_element_are_laid_out_as_numpy_does():
    """Where an axis has one element its stride says nothing."""
    spread = {
        "in front": lambda x: np.broadcast_to(x, (4, *x.shape)),
        "behind": lambda x: np.broadcast_to(x[..., None], (*x.shape, 3)).T,
        "between": lambda x: np.broadcast_to(x[:, None], (x.shape[0], 5, *x.shape[1:]))[::-1],
    }
    a = np.arange(6.0).reshape(2, 3)
    a[0, 0] = np.nan
    for x in (a, np.asfortranarray(a), a[::-1], a[:1], np.broadcast_to(a[:1], (2, 3)), np.broadcast_to(a[:, 1:2], (2, 3))):
        for of in spread.values():
            for fn in (np.nan_to_num, np.abs, np.copy):
                f = lambda x, fn=fn, of=of: fn(of(x))
                plain = f(x)
                for value in (jvp(f, (x,), (x,))[0], vjp(f, x)[0]):
                    np.testing.assert_array_equal(value, plain)
                    pairs = zip(plain.shape, plain.strides, value.strides, strict=True)
                    assert all(n == 1 or stride == own for n, stride, own in pairs)


def test_reading_diagonals_and_broadcasts_after_a_write():
    def f(x):
        y = x * x
        d, b = np.diagonal(y), np.broadcast_to(y, (2, 2, 3))
        y[0] = 3.0 * x[1]
        y += 1.0
        return d * 1.0, b * 1.0

    check(f, X)


def test_elements_taken_as_arrays_of_shape_zero():
    """``x[..., 1]`` of a vector is a 0-d array and a view, unlike ``x[1]``."""
    x, v = np.array([2.0, 3.0, 5.0]), np.array([1.0, 10.0, 100.0])
    f = lambda x: x[..., 1] * x[..., 2]
    np.testing.assert_array_equal(grad(f)(x), [0.0, 5.0, 3.0])
    for first in (grad, gradient):
        for second in (grad, gradient):
            np.testing.assert_array_equal(first(lambda x, second=second: np.sum(second(f)(x) * v))(x), [0.0, 100.0, 10.0])

    def g(x):
        y = x * 1.0
        t = y[..., 1]
        t += 7.0 * x[0]
        y[..., 2] *= t
        return y

    check(g, x)


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
    vjp(f, x)[1](v)
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


def test_a_plain_array_captured_and_changed_later():
    def f(x):
        work = np.ones(4)
        total = 0.0
        for k in range(3):
            work[...] = k
            total = total + np.sum(x * work * x)
            work += 1.0
        return total

    np.testing.assert_allclose(gradient(f)(V), 6 * V)
    np.testing.assert_allclose(grad(f)(V), 6 * V)


def test_zero_dimensional_arrays():
    def f(x):
        y = np.zeros_like(x)
        y[...] = x * x
        y += x
        y[()] = y * 2
        return y

    for x in (np.array(1.5),):
        value, tangent = jvp(f, (x,), (np.array(1.0),))
        assert (value, tangent) == (7.5, 8.0)
        assert np.shape(value) == np.shape(tangent) == ()
        assert gradient(f)(x) == 8.0 and grad(f)(x) == 8.0
    assert jvp(lambda x: x[()], (np.array(1.5),), (1.0,)) == (1.5, 1.0)
    assert jvp(lambda x: x[None], (np.array(1.5),), (2.0,))[1].tolist() == [2.0]


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

    np.testing.assert_allclose(gradient(outer)(V), [4.0 * V[1], 4.0 * V[0] + 1.0, 0.0, 0.0])


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


# --- random programs ------------------------------------------------------------------------------------------------------------

LOOKS = [
    lambda a: a[1:],
    lambda a: a[..., ::-1],
    lambda a: a[0],
    lambda a: a.T,
    lambda a: a[..., None],
    lambda a: a.reshape(-1),
    np.ravel,
    np.flip,
    lambda a: np.swapaxes(a, 0, -1),
    lambda a: np.expand_dims(a, 0),
    lambda a: a[..., 1:],
    np.squeeze,
    lambda a: a[:-1],
    lambda a: a[..., 0],
    lambda a: np.moveaxis(a, 0, -1),
    np.atleast_2d,
    lambda a: np.split(a, [1])[0],
    lambda a: a[()],
    lambda a: np.broadcast_to(a, (2, *a.shape)),
    np.sin,
    lambda a: a * 1.0,
    np.copy,
    np.zeros_like,
    lambda a: -a,
    lambda a: a[[0, -1]],
    lambda a: np.concatenate([a, a]) * 0.5,
    lambda a: np.roll(a, 1),
    lambda a: a.astype(float),
    lambda a: np.tanh(a).T,
]
ACTIONS = [
    lambda a, b, x: a.__iadd__(b if np.shape(b) == np.shape(a) else 0.5),
    lambda a, b, x: a.__isub__(np.sum(b) * 0.3),
    lambda a, b, x: a.__imul__(b if np.shape(b) == np.shape(a) else x[0, 0]),
    lambda a, b, x: a.__imul__(a),
    lambda a, b, x: a.__setitem__(Ellipsis, b if np.shape(b) == np.shape(a) else x[1, 2]),
    lambda a, b, x: a.__setitem__(0, 0.7 * x[0, 1]),
    lambda a, b, x: a.__setitem__([0, -1], a[[0, -1]] + x[1, 1]),
    lambda a, b, x: a.__setitem__(Ellipsis, a[::-1] * 1.0),
    lambda a, b, x: a.__setitem__(np.arange(a.size).reshape(a.shape) % 2 == 0, x[0, 2]),
    lambda a, b, x: np.multiply(a, x[1, 0], out=a),
    lambda a, b, x: a[..., -1].fill(0.3) if np.ndim(a) > 1 else a.fill(0.3),
    lambda a, b, x: a[-1:].__imul__(x[1, 1]),
]
#: what NumPy raises for a program that makes no sense; then it is left out
SENSELESS = (IndexError, np.exceptions.AxisError)
FUTILE = ("read-only", "broadcast", "reshape", "sequence", "0-dimensional", "unsized", "not equal")


def program(steps):
    def f(x):
        known = [np.sin(x) + 0.1]
        for looks, k, i, j in steps:
            a, b = known[i % len(known)], known[j % len(known)]
            try:
                known += [LOOKS[k % len(LOOKS)](a)] if looks else []
                if not looks:
                    ACTIONS[k % len(ACTIONS)](a, b, x)
            except SENSELESS:
                continue
            except (ValueError, TypeError) as error:
                if not any(word in str(error) for word in FUTILE):
                    raise
        return [np.ravel(a) * 1.0 for a in known]

    return f


number = st.integers(0, 10**6)


@settings(max_examples=120)
@given(
    steps=st.lists(st.tuples(st.booleans(), number, number, number), min_size=2, max_size=6), fortran=st.booleans(), chunk=st.integers(2, 6)
)
def test_random_programs_of_views_and_writes(steps, fortran, chunk):
    x = np.asfortranarray(X) if fortran else X
    f = program(steps)
    if any(np.max(np.abs(out), initial=0.0) > 20.0 for out in f(x)):
        return  # too steep for differences
    check_derivatives(f, x, vjp=vjp, rtol=1e-5, atol=1e-5)
    expected = jacobian(f, chunk=1)(x)
    for jac in (jacobian(f, chunk=chunk)(x), reverse_jacobian(f, chunk=chunk)(x)):
        for a, b in zip(jac, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-11)
    g = lambda x: sum(np.sum(out * out) for out in f(x))
    expected = hessian(g)(x)
    np.testing.assert_allclose(np.tensordot(expected, np.ones((2, 3)), 2), hvp(g, x, np.ones((2, 3))), rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(reverse_jacobian(grad(g))(x), expected, rtol=1e-8, atol=1e-8)


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


EINSUMS = {
    "a diagonal": lambda a: np.einsum("ii->i", a),
    "a transpose": lambda a: np.einsum("ij->ji", a),
    "itself": lambda a: np.einsum(a, [0, 1]),
    "an ellipsis": lambda a: np.einsum("i...->...i", a),
    "no view": lambda a: np.einsum("ij,jk->ik", a, a),
    "a sum": lambda a: np.einsum("ij->i", a),
}


@pytest.mark.parametrize("f", EINSUMS.values(), ids=EINSUMS)
def test_what_einsum_returns_is_a_view_where_it_is_in_numpy(f):
    def written(a):
        b = a * 1.0
        view = f(b)
        view[0] = 2.0 * b[1, 0]
        b[1] *= 3.0
        view += 1.0
        return np.sum(view**2) + np.sum(b**3)

    a = np.arange(1.0, 10.0).reshape(3, 3)
    expected, (pushed, slope), (value, g) = written(a), jvp(written, (a,), (a,)), value_and_grad(written)(a)
    assert pushed == value == expected
    difference = (written(a * (1 + 1e-6)) - written(a * (1 - 1e-6))) / 2e-6
    np.testing.assert_allclose([slope, np.sum(g * a)], difference, rtol=1e-8)
    for backend in BACKENDS:
        kept = a.copy()
        assert jit(written, backend=backend)(kept) == pytest.approx(expected, rel=1e-14)
        np.testing.assert_array_equal(jit(lambda a: f(a) * 2.0, backend=backend)(kept), 2.0 * f(a))
        np.testing.assert_array_equal(kept, a)
