"""Traced values stand in for numbers and arrays: protocols, operators, views and writes, object arrays, refusals."""

from __future__ import annotations

import copy
import functools
import math
import pickle

import numpy as np
import pytest

import dualad
from checkpoint import grad, vjp
from checkpoint import jacobian as reverse_jacobian
from dualad import derivative, gradient, jacobian, jvp, primal
from dualad.testing import check_derivatives
from dualad.traced import Traced

X = np.array([[0.3, -0.7, 1.2], [0.9, 0.4, -0.2]])
V = np.array([0.5, -1.5, 2.0, 0.25])
both = pytest.mark.parametrize("differentiate", [lambda f: jacobian(f), lambda f: reverse_jacobian(f)],
                               ids=["forward", "reverse"])


def check(f, *args):
    """Derivatives of both modes and orders against differences of the same function on plain arrays; all K agree."""
    check_derivatives(f, *args, vjp=vjp)
    if any(isinstance(x, np.ndarray) for x in args):
        argnums = tuple(range(len(args)))
        expected = flat(jacobian(f, argnums, chunk=1)(*args))
        for chunk in {n for x in args for n in np.shape(x)} - {0, 1}:
            for a, b in zip(flat(jacobian(f, argnums, chunk=chunk)(*args)), expected, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-14)
        for a, b in zip(flat(reverse_jacobian(f, argnums)(*args)), expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)


def flat(tree):
    return [leaf for part in tree for leaf in flat(part)] if isinstance(tree, tuple | list) else [tree]


# --- operators and protocols ------------------------------------------------------------------------------------------------

def assert_derivative(f, x, expected):
    for value in (x, np.float64(x)):
        assert derivative(f)(value) == pytest.approx(expected, rel=1e-14)
        assert grad(f)(value) == pytest.approx(expected, rel=1e-14)
    for shape in ((), (1,), (2, 1)):
        a = np.full(shape, x)
        assert gradient(lambda x: np.sum(f(x)))(a) == pytest.approx(np.full(shape, expected), rel=1e-14)
        assert grad(lambda x: np.sum(f(x)))(a) == pytest.approx(np.full(shape, expected), rel=1e-14)


@pytest.mark.parametrize(("f", "expected"), [
    (lambda x: x + 1, 1.0), (lambda x: 1 + x, 1.0), (lambda x: x - 2.0, 1.0), (lambda x: 2.0 - x, -1.0), (lambda x: 3 * x, 3.0),
    (lambda x: x * x, 3.0),
    (lambda x: x / 4, 0.25), (lambda x: 6.0 / x, -6 / 2.25), (lambda x: x**3, 6.75), (lambda x: 2**x, 2**1.5 * np.log(2)),
    (lambda x: x**x, 1.5**1.5 * (np.log(1.5) + 1)),
    (lambda x: x % 1, 1.0), (lambda x: 7 % x, -4.0), (lambda x: x // 0.4, 0.0), (lambda x: 7.0 // x, 0.0),
    (lambda x: divmod(x, 0.4)[1], 1.0),
    (lambda x: divmod(7.0, x)[1], -4.0), (lambda x: -x, -1.0), (lambda x: +x, 1.0), (lambda x: abs(-x), 1.0),
    (lambda x: x**2 + x**2.0 + x**np.float64(2), 9.0),
    (lambda x: np.float64(2) * x, 2.0), (lambda x: x * np.float64(2), 2.0), (lambda x: np.float64(2) + x, 1.0),
    (lambda x: np.float64(2) - x, -1.0),
    (lambda x: np.float64(2) / x, -2 / 2.25), (lambda x: np.float64(2)**x, 2**1.5 * np.log(2)), (lambda x: x * np.int64(3), 3.0),
    (lambda x: np.int64(3) * x, 3.0),
    (lambda x: True * x, 1.0), (lambda x: np.sum(np.ones((2, *(1,) * np.ndim(x))) * x, axis=0), 2.0),
    (lambda x: np.float32(2) * x, 2.0),
    (lambda x: np.maximum(x, 0.0), 1.0), (lambda x: np.maximum(2.0, x), 0.0), (lambda x: np.add(x, 1.0), 1.0),
    (lambda x: np.add(1, x), 1.0),
    (lambda x: np.multiply(x, 2, dtype=float), 2.0), (lambda x: x * np.array(2.0), 2.0), (lambda x: np.array(2.0) * x, 2.0),
], ids=lambda value: None)
def test_operators(f, expected):
    assert_derivative(f, 1.5, expected)


def test_scalars_in_python_containers_and_builtins():
    f = lambda x: sum([x * k for k in range(4)]) + max(x, 1.0) + min(x, 1.0) + sorted([3 * x, x, 2 * x])[1]
    assert derivative(f)(1.5) == grad(f)(1.5) == 6.0 + 1.0 + 0.0 + 2.0
    assert derivative(lambda x: math.prod([x, x, 2.0]))(1.5) == 6.0
    assert derivative(lambda x: math.fsum([1.0]) * x)(1.5) == 1.0
    assert derivative(lambda x: functools.reduce(lambda a, b: a * b, [x] * 4))(2.0) == 32.0
    assert jvp(lambda x: [y * 2 for y in x], (V,), (np.ones(4),))[1] == [2.0] * 4
    assert gradient(lambda x: sum(x))(V).tolist() == [1.0] * 4
    assert derivative(lambda x: {"a": x * 2, "b": (x, x**2)})(3.0) == {"a": 2.0, "b": (1.0, 6.0)}


@both
def test_matrix_products(differentiate):
    m = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(differentiate(lambda v: m @ v)(V[:3]), m)
    np.testing.assert_array_equal(differentiate(lambda v: v @ m.T)(V[:3]), m)
    np.testing.assert_array_equal(differentiate(lambda v: np.eye(3) @ v)(V[:3]), np.eye(3))
    np.testing.assert_array_equal(differentiate(lambda v: v.dot(m.T))(V[:3]), m)
    np.testing.assert_array_equal(differentiate(lambda a: (a @ V[:3]).sum())(m), np.tile(V[:3], (2, 1)))


def test_comparisons_and_conversions_use_the_value():
    def f(x):
        assert (x > 1.0, x < 1.0, x >= 1.5, x <= 1.5, x == 1.5, x != 1.5) == (True, False, True, True, True, False)
        assert (x > 1.0, x < 2, x == x) == (True, True, True)
        assert all(type(b) in (bool, np.bool_) for b in (x > 1.0, x < 2.0, x == 1.5))
        assert bool(x) and not bool(x - 1.5) and int(x) == 1 and round(x) == 2 and round(x, 1) == 1.5
        assert (math.floor(x), math.ceil(x), math.trunc(x)) == (1, 2, 1)
        assert f"{x:.3f}" == "1.500" and f"{x:8.1e}" == " 1.5e+00"
        assert [10, 20, 30][int(x)] == 20
        assert np.isfinite(x) and not np.isnan(x) and x.is_integer() is False if hasattr(x, "is_integer") else True
        return x
    assert derivative(f)(1.5) == 1.0
    assert grad(f)(1.5) == 1.0


def test_comparisons_of_arrays():
    def f(x):
        assert isinstance(x > 0, np.ndarray) and (x > 0).dtype == bool
        assert (x > 0).tolist() == (V > 0).tolist() and (x > 0).tolist() == (V > 0).tolist() and (x == V).all() and (x == V).all()
        assert 2.0 in x and 3.0 not in x
        assert np.argmax(x) == 2 and x.argmin() == 1 and np.argsort(x).tolist() == np.argsort(V).tolist()
        return np.sum(x[x > 0])
    np.testing.assert_array_equal(gradient(f)(V), V > 0)
    np.testing.assert_array_equal(grad(f)(V), V > 0)


def test_attributes():
    def f(x):
        assert (x.shape, x.ndim, x.size, x.dtype, x.itemsize, x.nbytes, len(x)) == ((2, 3), 2, 6, float, 8, 48, 2)
        assert x.T.shape == x.transpose().shape == (3, 2) and x.mT.shape == (3, 2)
        assert np.shape(x) == (2, 3) and np.ndim(x) == 2 and np.size(x) == 6
        s = x[0, 0]
        assert (s.shape, s.ndim, s.size, s.dtype) == ((), 0, 1, float)
        with pytest.raises(TypeError, match=r"len\(\) of an unsized"):
            len(s)
        with pytest.raises(TypeError, match="iteration over a 0-dimensional"):
            iter(s)
        return x
    jvp(f, (X,), (X,))
    jacobian(f)(X)
    vjp(f, X)


METHODS = {"sum": lambda x: x.sum(0), "mean": lambda x: x.mean(axis=1, keepdims=True), "std": lambda x: x.std(ddof=1),
           "var": lambda x: x.var(1), "prod": lambda x: x.prod(axis=0), "max": lambda x: x.max(axis=1), "min": lambda x: x.min(),
           "cumsum": lambda x: x.cumsum(1), "cumprod": lambda x: x.cumprod(), "trace": lambda x: x.trace(),
           "diagonal": lambda x: x.diagonal(1), "dot": lambda x: x.dot(V[:3]), "clip": lambda x: x.clip(-0.5, 0.8),
           "ravel": lambda x: x.ravel(), "flatten": lambda x: x.flatten("F"), "reshape": lambda x: x.reshape(3, 2),
           "reshape -1": lambda x: x.reshape(-1), "reshape tuple": lambda x: x.reshape((3, -1), order="F"),
           "swapaxes": lambda x: x.swapaxes(0, 1), "squeeze": lambda x: x[None].squeeze(),
           "repeat": lambda x: x.repeat(2, axis=0), "take": lambda x: x.take([0, 2], axis=1),
           "transpose": lambda x: x.transpose(1, 0), "T": lambda x: x.T, "copy": lambda x: x.copy(),
           "astype": lambda x: x.astype(float), "conj": lambda x: x.conj(), "real": lambda x: x.real, "imag": lambda x: x.imag,
           "item": lambda x: x.item(1, 2) + x.item(0), "tolist": lambda x: np.stack([np.stack(row) for row in x.tolist()]),
           "fill": lambda x: filled(x), "sort": lambda x: sorted_in_place(x), "flat": lambda x: np.stack(list(x.flat)),
           "iteration": lambda x: sum(row @ row for row in x), "copy.copy": lambda x: copy.copy(x) * 2,
           "copy.deepcopy": lambda x: copy.deepcopy([x])[0] * 2, "unpacking": lambda x: (lambda a, b: a * b)(*x),
           "reversed": lambda x: np.stack([row * k for k, row in enumerate(reversed(x))]), }


def filled(x):
    y = x.copy()
    y.fill(2.0)
    return y * x


def sorted_in_place(x):
    y = x.copy()
    y.sort(axis=1)
    return y


@pytest.mark.parametrize("name", METHODS)
def test_methods(name):
    check(METHODS[name], X)


def test_every_method_with_a_numpy_function_is_there():
    """Methods of ndarray that are missing, with the reason."""
    missing = {name for name in dir(np.ndarray) if not name.startswith("_")} - set(dir(Traced))
    about_memory = {"base", "byteswap", "ctypes", "data", "device", "dump", "dumps", "flags", "getfield", "resize", "setfield",
                    "setflags", "strides", "to_device", "tobytes", "tofile", "view"}
    in_place_by_index = {"partition", "put", "itemset", "newbyteorder", "ptp"}  # partition, put: written as x[...] = ...
    assert missing - about_memory <= in_place_by_index


# --- ufunc methods, out=, where=, dtype= --------------------------------------------------------------------------------------

UFUNC_METHODS = {"add.reduce": lambda x: np.add.reduce(x), "add.reduce axis": lambda x: np.add.reduce(x, axis=1),
                 "add.reduce None": lambda x: np.add.reduce(x, axis=None),
                 "multiply.reduce": lambda x: np.multiply.reduce(x, axis=0),
                 "maximum.reduce": lambda x: np.maximum.reduce(x, axis=1),
                 "minimum.reduce": lambda x: np.minimum.reduce(x, keepdims=True),
                 "add.accumulate": lambda x: np.add.accumulate(x), "add.accumulate axis": lambda x: np.add.accumulate(x, 1),
                 "multiply.accumulate": lambda x: np.multiply.accumulate(x, axis=1),
                 "multiply.outer": lambda x: np.multiply.outer(x, V), "subtract.outer": lambda x: np.subtract.outer(V, x),
                 "add.outer": lambda x: np.add.outer(x[0], x[1]), "power.outer": lambda x: np.power.outer(x * x, V), }


@pytest.mark.parametrize("name", UFUNC_METHODS)
def test_ufunc_methods(name):
    check(UFUNC_METHODS[name], X)


@pytest.mark.parametrize("f", [
    lambda x: np.subtract.reduce(x), lambda x: np.add.reduceat(x, [0, 1]), lambda x: np.divide.accumulate(x),
    lambda x: np.hypot.reduce(x),
])
def test_other_ufunc_methods_are_refused_or_right(f):
    try:
        check(f, X)
    except TypeError as error:
        assert "has no derivative rule in dualad" in str(error)


@pytest.mark.parametrize("ufunc", [np.add, np.subtract, np.multiply, np.maximum, np.minimum])
def test_ufunc_at(ufunc):
    def f(x):
        y = x * 1.0
        ufunc.at(y, [0, 0, 2], x[1:] * 0.7)
        ufunc.at(y, 3, x[0])
        return y
    check(f, V)


def test_ufunc_at_of_a_plain_array_is_refused():
    with pytest.raises(TypeError, match=r"numpy\.add\.at"):
        jvp(lambda x: np.add.at(np.zeros(4), [0, 0], x[0]), (V,), (V,))


def test_predicates_reduce_to_plain_results():
    seen = []
    jvp(lambda x: seen.append(np.logical_and.reduce(x)) or x, (V,), (V,))
    assert seen == [True]


def out_of_a_ufunc(x):
    out = np.empty_like(x)
    result = np.multiply(x, 2.0, out=out)
    assert result is out
    np.add(out, x, out=out)
    np.sin(out, out)
    return out


def out_of_a_reduction(x):
    out = np.zeros_like(x[0])
    np.sum(x, axis=0, out=out)
    np.add.reduce(x, axis=0, out=out[:])
    return out * out


def where_of_a_ufunc(x):
    out = np.zeros_like(x)
    np.divide(1.0, x, out=out, where=x > 0)
    return out


@pytest.mark.parametrize("f", [out_of_a_ufunc, out_of_a_reduction, where_of_a_ufunc, lambda x: np.add(x, 1, dtype=float),
                               lambda x: np.multiply(x, x, dtype=complex).real])
def test_keywords_of_ufuncs(f):
    check(f, X)


def test_plain_out_is_refused():
    for f in (lambda x: np.add(x, 1.0, out=np.zeros((2, 3))), lambda x: np.sum(x, axis=0, out=np.zeros(3)),
              lambda x: np.sin(x, np.zeros((2, 3)))):
        with pytest.raises(TypeError, match=r"out= is a plain array, which cannot hold derivatives.*np\.empty_like"):
            jvp(f, (X,), (X,))
        with pytest.raises(TypeError, match="out= is a plain array"):
            vjp(f, X)


def test_where_without_out_is_refused():
    with pytest.raises(TypeError, match=r"numpy\.sin: where= leaves the other elements undefined"):
        jvp(lambda x: np.sin(x, where=x > 0), (X,), (X,))


def test_dtype_of_ufuncs():
    value, tangent = jvp(lambda x: np.sin(x, dtype=np.float32), (X,), (X,))
    assert value.dtype == tangent.dtype == np.float32


# --- writing ------------------------------------------------------------------------------------------------------------------

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


WRITES = [write_elements, write_through_a_name, shared_tangent_is_not_written, write_advanced, write_repeated_indices,
          write_a_buffer, write_overlapping, write_a_constant, write_with_broadcasting, write_full_like, write_in_a_loop,
          augmented_everything, a_copy_is_independent, reads_before_and_after_a_write]


@pytest.mark.parametrize("f", WRITES)
def test_writes(f):
    check(f, X)


def test_writes_of_lists_of_scalars():
    np.testing.assert_array_equal(jvp(write_scalars_in_lists, (X,), (X,))[1], [[0.3, -1.4, 0.0], [0.9, 0.9, 0.9]])


VIEWS = {"slice": lambda y: y[1:], "slice of two": lambda y: y[:, 1:], "step": lambda y: y[:, ::2],
         "negative step": lambda y: y[:, ::-1], "row": lambda y: y[0], "column": lambda y: y[:, 1],
         "newaxis": lambda y: y[:, None, :], "ellipsis": lambda y: y[..., 1:], "all": lambda y: y[...],
         "reshape": lambda y: y.reshape(3, 2), "np.reshape": lambda y: np.reshape(y, -1), "ravel": lambda y: y.ravel(),
         "np.ravel": lambda y: np.ravel(y), "T": lambda y: y.T, "np.transpose": lambda y: np.transpose(y, (1, 0)),
         "swapaxes": lambda y: y.swapaxes(0, 1), "moveaxis": lambda y: np.moveaxis(y, 0, -1),
         "expand_dims": lambda y: np.expand_dims(y, 1), "squeeze": lambda y: np.squeeze(y[:1]), "flip": lambda y: np.flip(y),
         "flip axis": lambda y: np.flip(y, 0), "flipud": lambda y: y[::-1], "atleast_3d": lambda y: np.atleast_3d(y),
         "split": lambda y: np.split(y, 3, axis=1)[1], "iteration": lambda y: next(iter(y)), "mT": lambda y: y.mT,
         "view of a view": lambda y: y[:, 1:][:, ::-1], "slice of T": lambda y: y.T[1:],
         "T of reshape": lambda y: y.reshape(3, 2).T, "row of ravel": lambda y: y.ravel()[1:4],
         "ravel of row": lambda y: y[1].ravel(), "flip of T of row": lambda y: np.flip(y.T[0]),
         "reshape of a row": lambda y: y[0].reshape(3, 1), "reshape of T": lambda y: y.T.reshape(-1),
         "ravel of T": lambda y: np.ravel(y.T), "three deep": lambda y: y[:, 1:].T[::-1][0], }
CHANGES = {"+=": lambda v: v.__iadd__(1.5), "*=": lambda v: v.__imul__(v),
           "[...] =": lambda v: v.__setitem__(Ellipsis, np.sin(v)), "[0] =": lambda v: v.__setitem__(0, 2.0 * v[-1]),
           "out=": lambda v: np.multiply(v, 3.0, out=v), "fill": lambda v: v.fill(0.5), "nested": lambda v: v[:1].__iadd__(2.0), }


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


# --- object arrays --------------------------------------------------------------------------------------------------------------

OBJECTS = {"arithmetic": lambda a, x: a * 2.0 + a, "+ scalar": lambda a, x: a + x[0], "@": lambda a, x: a @ np.arange(3.0),
           "@ itself": lambda a, x: a @ a, "sum": lambda a, x: a.sum(), "np.sum": lambda a, x: np.sum(a), "dot": lambda a,
           x: np.dot(a, a), "indexing": lambda a, x: a[1] * a[-1], "slicing": lambda a, x: a[1:] * a[:2], "sin": lambda a,
           x: np.sin(a), "exp": lambda a, x: np.exp(-a), "sqrt": lambda a, x: np.sqrt(a * a), "power": lambda a, x: a**2,
           "with a Traced": lambda a, x: a * x[:3], "Traced first": lambda a, x: x[:3] - a, "returned": lambda a, x: a,
           "reshape": lambda a, x: a.reshape(3, 1) * 2, "comparison": lambda a,
           x: np.where(np.asarray(a > 0, bool), 1.0, 2.0) * x[:3], }


@pytest.mark.parametrize("name", OBJECTS)
@pytest.mark.filterwarnings("ignore:packing an object array")
def test_object_arrays_are_slow_but_right(name):
    f = OBJECTS[name]
    slow = lambda x: f(np.array([x[0] * x[1], np.sin(x[2]), 2.0 * x[3]]), x)
    fast = lambda x: f(dualad.array([x[0] * x[1], np.sin(x[2]), 2.0 * x[3]]), x)
    np.testing.assert_allclose(jvp(slow, (V,), (V,))[1], jvp(fast, (V,), (V,))[1], rtol=1e-15)
    np.testing.assert_allclose(jacobian(slow)(V), jacobian(fast)(V), rtol=1e-15)
    np.testing.assert_allclose(reverse_jacobian(slow)(V), jacobian(fast)(V), rtol=1e-14, atol=1e-16)


def test_packing_warns_once_and_names_the_faster_spelling():
    with pytest.warns(UserWarning, match=r"packing an object array.*np\.stack.*dualad\.array") as caught:
        jvp(lambda x: np.array([x[0], x[1]]) * x[:2], (V,), (V,))
    assert len(caught) == 1


@pytest.mark.parametrize("f", [lambda a: np.linalg.solve(np.eye(2), a), np.fft.fft, np.linalg.inv,
                               lambda a: np.interp(0.5, a, a)])
def test_what_numpy_cannot_do_on_objects_raises(f):
    with pytest.raises((TypeError, ValueError, np.linalg.LinAlgError)):
        jvp(lambda x: f(np.array([x[0], x[1]])), (V,), (V,))


def test_asarray_of_a_traced_array():
    if True:
        np.testing.assert_allclose(jvp(lambda x: np.asarray(x)[0] * 2.0, (V,), (V,))[1], 1.0)
    with pytest.raises(TypeError, match="Drop the dtype"):
        jvp(lambda x: np.asarray(x, dtype=float), (V,), (V,))
    with pytest.raises(TypeError, match=r"a complex traced value cannot sit in an object array .*np\.stack"):
        jvp(lambda z: np.asarray(z), (V + 1j,), (V + 1j,))


def test_dualad_array():
    f = lambda x: dualad.array([[x[0], 1.0], [x[1] * x[2], x[3]]])
    jac = jacobian(f)(V)
    assert jac.shape == (2, 2, 4)
    np.testing.assert_array_equal(jac[0, 0], [1, 0, 0, 0])
    np.testing.assert_array_equal(jac[0, 1], [0, 0, 0, 0])
    np.testing.assert_array_equal(jac[1, 0], [0, V[2], V[1], 0])
    assert jvp(lambda x: dualad.array([x[0]], dtype=np.float32), (V,), (V,))[1].dtype == np.float32
    assert type(dualad.array([1, 2])) is np.ndarray
    assert dualad.array(3.0) == 3.0
    np.testing.assert_array_equal(jvp(lambda x: dualad.array([x, 2 * x]), (V,), (V,))[1], [V, 2 * V])


# --- refusals -------------------------------------------------------------------------------------------------------------------

def message(f, x=V, error=TypeError):
    """The text of the error that `f` raises in every mode; of its cause where NumPy's own stands before it."""
    texts = []
    for run in (lambda: jvp(f, (x,), (x,)), lambda: jacobian(f)(x), lambda: vjp(f, x)):
        with pytest.raises(error) as caught:
            run()
        texts.append(f"{caught.value} | {caught.value.__cause__}")
    return texts[0]


def into_plain(write):
    def f(x):
        write(np.zeros(4), x)
        return x
    return f


@pytest.mark.parametrize(("f", "match"), [
    (lambda x: math.sin(x[0]), r"float\(\) of a traced Dual would lose its derivative: use NumPy functions"),
    (lambda x: float(x[0]), "np.sin, not math.sin"),
    (lambda x: complex(x[0]), r"complex\(\) of a traced Dual"),
    (lambda x: np.asarray(x, dtype=float), "cannot become a plain array of float64"),
    (lambda x: np.array(x, dtype=float), "Drop the dtype"),
    (hash, "unhashable"), (lambda x: {x[0]: 1}, "unhashable"), (functools.lru_cache(lambda x: x), "unhashable"),
    (pickle.dumps, "cannot be pickled"),
    (into_plain(lambda a, x: np.copyto(a, x)), "copyto"), (into_plain(lambda a, x: np.put(a, [0], x[0])), "put"),
    (into_plain(lambda a, x: np.putmask(a, a == 0, x)), "putmask"),
    (into_plain(lambda a, x: np.place(a, a == 0, x)), "place"),
    (into_plain(lambda a, x: a.__setitem__(slice(None), x)), r"np\.zeros_like"),
    (lambda x: np.full_like(np.ones(3), x[0]), "copyto"),
    (into_plain(lambda a, x: a.__iadd__(x)), "out= is a plain array|in place"),
    (into_plain(lambda a, x: np.add.at(a, [0], x[0])), r"numpy\.add\.at"),
    (lambda x: np.i0(x), "numpy.i0 has no derivative rule in dualad"), (lambda x: np.left_shift(x, 1), "integers and bits"),
    (lambda x: x << 1, "integers and bits"), (lambda x: ~x, "integers and bits"),
    (lambda x: np.clip(x, 0.0, 1.0, out=np.zeros(4)), "out= is a plain array"),
    (lambda x: np.sum(np.ones((4, 4)), axis=x), "axis|integer"),
])
def test_refusals(f, match):
    import re
    text = message(f)
    assert re.search(match, text), text


@pytest.mark.parametrize("index", [0, slice(0, 1), [0, 1], np.array([True, False, False, False])], ids=str)
def test_writing_into_a_plain_array_raises_with_our_message(index):
    def f(x):
        a = np.zeros(4)
        a[index] = x[0]
        return a
    text = message(f, error=(TypeError, ValueError))
    assert "np.zeros_like(x)" in text and "np.stack" in text


def test_a_traced_argument_where_none_is_allowed():
    with pytest.raises(TypeError, match=r"no derivative with respect to its argument"):
        jvp(lambda x: np.roll(x, x[0]), (V,), (V,))


def test_two_traced_arrays_are_unhashable_but_comparable():
    assert Traced.__hash__ is None
    with pytest.raises(TypeError, match="unhashable"):
        derivative(lambda x: len({x, x}))(1.0)


# --- primal ---------------------------------------------------------------------------------------------------------------------

def test_primal():
    seen = []
    derivative(lambda x: derivative(lambda y: seen.append((primal(x), primal(y), primal(x * y))) or x * y)(3.0))(2.0)
    assert seen == [(2.0, 3.0, 6.0)]
    assert primal(5.0) == 5.0 and primal("a") == "a"

    def f(x):
        value = primal(x)
        assert type(value) is np.ndarray
        with pytest.raises(ValueError, match="read-only"):
            value[0] = 1.0
        return x * value
    np.testing.assert_array_equal(jvp(f, (V,), (np.ones(4),))[1], V)


def test_printing():
    texts = []
    derivative(lambda x: texts.append(repr(x)) or x)(2.0)
    derivative(lambda x: texts.append(f"{x} {x:.1f}") or x)(2.0)
    grad(lambda x: texts.append(repr(x)) or x)(2.0)
    jvp(lambda x: texts.append(repr(x)) or x, (np.array([1.0, 2.0]),), (np.array([0.0, 1.0]),))
    assert texts == ["Dual(2.0, tangent=1.0)", "Dual(2.0, tangent=1.0) 2.0", "Var(2.0, node=0)",
                     "Dual([1., 2.], tangent=[0., 1.])"]
