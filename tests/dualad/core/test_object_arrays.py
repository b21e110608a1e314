"""What ``np.asarray`` and ``np.array`` make of a traced array: an object array in its layout, read-only unless it is a copy."""

from __future__ import annotations

import numpy as np
import pytest

import dualad
from checkpoint import grad, jacobian
from dualad import Dual, gradient, jvp, primal

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
    "maximum": lambda x: np.sum(np.maximum(np.asarray(x), np.array([0.0, 0.0, 2.0]))),
    "minimum of a number": lambda x: np.sum(np.minimum(np.array(x), 2.0)),
    "number first": lambda x: np.sum(np.maximum(2.0, np.array(x))),
    "reduce": lambda x: np.maximum.reduce(np.asarray(x)),
    "accumulate": lambda x: np.sum(np.maximum.accumulate(np.asarray(x))),
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
    np.testing.assert_array_equal(differentiate(f)(untied), jacobian(lambda v: np.reshape(f(v), (1,)))(untied)[0])
