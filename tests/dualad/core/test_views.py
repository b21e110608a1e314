"""Views of traced arrays, views of views, and what a write through them reaches: as in NumPy."""

import numpy as np
import pytest
from agreement import check
from in_groups import for_each

from checkpoint import grad, value_and_grad, vjp
from dualad import gradient, jit, jvp
from dualad.jit.compiled import BACKENDS

X = np.array([[0.3, -0.7, 1.2], [0.9, 0.4, -0.2]])


#: views that the random programs of test_random_programs do not make, and views of views
VIEWS = {
    "squeeze of nothing": lambda y: np.squeeze(y),
    "real": lambda y: y.real,
    "np.real": np.real,
    "flip": lambda y: np.flip(y),
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


@for_each("view", VIEWS)
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


@pytest.mark.slow
@for_each("view", VIEWS)
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
