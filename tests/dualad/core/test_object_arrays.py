"""What ``np.asarray`` and ``np.array`` make of a traced array: an object array in its layout, read-only unless it is a copy."""

import numpy as np
import pytest

import dualad
from checkpoint import grad, vjp
from checkpoint import jacobian as reverse_jacobian
from dualad import Dual, gradient, jacobian, jvp, primal

both = pytest.mark.parametrize("differentiate", [gradient, grad])
LAYOUTS = {
    "C": lambda a: a,
    "F": np.asfortranarray,
    "reversed": lambda a: a[::-1],
    "strided": lambda a: a[:, ::2],
    "transposed": lambda a: a.T,
    "empty": lambda a: a[:0],
    "0-d": lambda a: np.array(a[0, 0]),
    "element": lambda a: a[0, 0],
    "float32": lambda a: a.astype(np.float32),
}


def plain(objects):
    return np.array([primal(v) for v in objects.ravel().tolist()]).reshape(objects.shape)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_elements_the_layout_and_who_may_write(layout):
    a = LAYOUTS[layout](np.arange(6.0).reshape(2, 3))
    x = Dual(a, np.ones_like(a))
    if np.ndim(a):
        x.primal = a  # of this very layout
    for objects in (np.asarray(x), np.asarray(x, dtype=object), np.asanyarray(x)):
        assert objects.dtype == object and not objects.flags.writeable
        assert np.array_equal(plain(objects), a)
        assert [primal(v) for v in objects.ravel("K")] == np.ravel(a, "K").tolist()
    for objects in (np.array(x), np.asarray(x, copy=True), np.array(x, dtype=object), np.array(x, order="F"), np.array([x])):
        assert objects.flags.writeable and np.array_equal(plain(objects).reshape(np.shape(a)), a)


@both
def test_a_write_that_would_be_lost_raises(differentiate):
    def through(x):
        np.asarray(x)[0] = 5.0
        return np.sum(x * x)

    with pytest.raises(ValueError, match="read-only") as caught:
        differentiate(through)(np.array([1.0, 2.0]))
    assert "np.array(x, copy=True), or into dualad.array(x)" in "".join(caught.value.__notes__)

    def in_place(x):
        y = np.asarray(x)
        y *= 2.0
        return np.sum(y)

    with pytest.raises(ValueError, match="read-only"):
        differentiate(in_place)(np.array([1.0, 2.0]))


@both
@pytest.mark.filterwarnings("ignore:packing an object array")
@pytest.mark.parametrize("copied", [np.array, lambda x: np.asarray(x, copy=True), lambda x: x.copy(), lambda x: np.copy(x)])
def test_a_copy_is_written_into(copied, differentiate):
    def f(x):
        y = copied(x)
        y[0] = 3.0 * x[1]
        y[1] *= 2.0
        return np.sum(y * x) + x[0]

    # y * x = 3 x1 x0 + 2 x1 x1
    np.testing.assert_array_equal(differentiate(f)(np.array([5.0, 7.0])), [3.0 * 7.0 + 1.0, 15.0 + 28.0])


@both
def test_array_is_what_asarray_is_of_a_plain_array(differentiate):
    def f(x, asarray):
        x = 1.0 * x
        y = asarray(x)
        y[0] = 3.0 * x[1]
        return np.sum(y * x)

    x = np.array([5.0, 7.0])
    value, _ = jvp(lambda x: f(x, dualad.array), (x,), (x,))
    assert value == f(x, np.asarray)
    np.testing.assert_array_equal(differentiate(lambda x: f(x, dualad.array))(x), [0.0, 20.0 * x[1]])


@both
def test_the_order_of_memory_decides_ravel(differentiate):
    A = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    weights = np.arange(1.0, 7.0)
    f = lambda x: np.sum(np.asarray(x).ravel(order="K") * weights)
    assert jvp(f, (A,), (A,))[0] == f(A)
    np.testing.assert_array_equal(differentiate(f)(A), weights.reshape(3, 2).T)


@both
def test_astype_object_keeps_the_derivative(differentiate):
    x = np.array([1.0, 2.0, 4.0])
    np.testing.assert_array_equal(differentiate(lambda x: np.sum(x.astype(object) ** 2))(x), 2.0 * x)
    np.testing.assert_array_equal(differentiate(lambda x: np.sum(x * x).astype(object))(x), 2.0 * x)
    np.testing.assert_array_equal(differentiate(lambda x: (x[0] * x[1]).astype("O"))(x), [2.0, 1.0, 0.0])
    np.testing.assert_array_equal(differentiate(lambda x: np.sum(x.astype(int) * x))(x), [1.0, 2.0, 4.0])


TIED = {
    "max": lambda x: np.max(np.asarray(x)),
    "min": lambda x: np.min(np.array([x[1], x[2]])),
    "of a list": lambda x: np.min([x[0] + 1.0, x[1]]),
    "maximum": lambda x: np.sum(np.maximum(np.asarray(x), np.array([0.0, 0.0, 2.0]))),
    "minimum of a number": lambda x: np.sum(np.minimum(np.array(x), 2.0)),
    "number first": lambda x: np.sum(np.maximum(2.0, np.array(x))),
    "reduce": lambda x: np.maximum.reduce(np.asarray(x)),
    "accumulate": lambda x: np.sum(np.maximum.accumulate(np.asarray(x))),
    "fmin of both": lambda x: np.sum(np.fmin(np.array([x[0], x[1]]), np.array([x[1] - 1.0, x[2]]))),
    "fmax": lambda x: np.sum(np.fmax(np.asarray(x), 2.0)),
    "ptp": lambda x: np.ptp(np.asarray(x)),
    "clip": lambda x: np.sum(np.clip(np.asarray(x), 0.0, 2.0)),
    "method": lambda x: np.asarray(x).max(),
}


@both
@pytest.mark.parametrize("name", TIED)
def test_ties_raise_or_are_those_of_the_table(name, differentiate):
    """Where NumPy chooses one of two equal numbers, it does not share the derivative as the kinks' table says."""
    x = np.array([1.0, 2.0, 2.0])
    f = TIED[name]
    try:
        got = differentiate(f)(x)
    except TypeError as error:
        assert "tie" in str(error) and "np.stack" in str(error)
    else:
        g = lambda x: TIED[name](dualad.array(x))  # the same on traced arrays
        assert name == "clip"
        np.testing.assert_array_equal(got, [1.0, 1.0, 1.0])
        assert g(x) == f(x)
    untied = np.array([1.0, 3.0, 1.5])
    np.testing.assert_array_equal(differentiate(f)(untied), reverse_jacobian(lambda v: np.reshape(f(v), (1,)))(untied)[0])


# --- arrays of traced numbers that NumPy packs ------------------------------------------------------------------------------------

V = np.array([0.5, -1.5, 2.0, 0.25])
OBJECTS = {
    "arithmetic": lambda a, x: a * 2.0 + a,
    "+ scalar": lambda a, x: a + x[0],
    "@": lambda a, x: a @ np.arange(3.0),
    "@ itself": lambda a, x: a @ a,
    "dot": lambda a, x: np.dot(a, a),
    "indexing": lambda a, x: a[1] * a[-1],
    "slicing": lambda a, x: a[1:] * a[:2],
    "power": lambda a, x: a**2,
    "with a Traced": lambda a, x: a * x[:3],
    "Traced first": lambda a, x: x[:3] - a,
    "returned": lambda a, x: a,
    "reshape": lambda a, x: a.reshape(3, 1) * 2,
    "comparison": lambda a, x: np.where(np.asarray(a > 0, bool), 1.0, 2.0) * x[:3],
    "dot with a Traced": lambda a, x: np.dot(a, x[:3]),
    "where": lambda a, x: np.where(V[:3] > 1.0, a, x[:3]),
    "concatenate": lambda a, x: np.concatenate([a, x]) ** 2,
    "outer": lambda a, x: np.outer(a, x),
    "solve": lambda a, x: np.linalg.solve(np.outer(x[:3], x[:3]) + np.eye(3), a),
    "einsum": lambda a, x: np.einsum("i,i->", a, x[:3]),
    "hypot": lambda a, x: np.hypot(a, x[:3]),
    "interp": lambda a, x: np.interp(0.3, a, x[:3]),
}


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


def test_asarray_of_a_complex_array():
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


LISTS = {
    "ghost cells": lambda x: np.concatenate(([2.0 * x[1]], x, (x[-1],))),
    "hstack": lambda x: np.hstack((x, [x[0] * x[1], 3.0])),
    "stack": lambda x: np.stack([[x[0], 1.0], [x[1], x[2]], x[:2]]),
    "where": lambda x: np.where([True, False, True], [x[0], 1.0, x[1]], x),
    "outer": lambda x: np.outer([x[0], 1.0], x),
    "dot": lambda x: np.dot([x[0], x[1], 1.0], x),
    "a matrix": lambda x: np.linalg.solve([[x[0], 1.0], [0.5, x[1]]], x[:2]),
    "einsum": lambda x: np.einsum("i,j->ij", [x[0], 1.0], x),
}


@pytest.mark.parametrize("name", LISTS)
def test_lists_of_traced_numbers_beside_traced_arrays(name):
    f, x, t = LISTS[name], np.array([0.7, 1.3, 2.1]), np.array([0.2, -0.4, 1.0])
    value, tangent = jvp(f, (x,), (t,))
    np.testing.assert_array_equal(value, f(x))
    assert value.dtype == tangent.dtype == float
    np.testing.assert_allclose(tangent, (f(x + 1e-6 * t) - f(x - 1e-6 * t)) / 2e-6, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(np.dot(reverse_jacobian(f)(x), t), tangent, rtol=1e-13)
    np.testing.assert_allclose(dualad.jit(reverse_jacobian(f), backend="numpy")(x) @ t, tangent, rtol=1e-13)


@pytest.mark.parametrize("name", [name for name in LISTS if name not in ("stack", "dot", "a matrix")])
def test_lists_of_traced_numbers_beside_large_arrays(name):
    large = {"where": lambda x: np.where([True, False] * 150, [x[0], 1.0, x[1]] * 100, x)}
    f, x, t = large.get(name, LISTS[name]), np.linspace(0.5, 2.0, 300), np.cos(np.arange(300.0))
    value, pull = vjp(f, x)
    np.testing.assert_array_equal(value, f(x))
    g = np.sin(np.arange(float(value.size))).reshape(value.shape)
    assert np.dot(*pull(g), t) == pytest.approx(np.sum(g * f(x + 1e-20j * t).imag) / 1e-20, rel=1e-12)
