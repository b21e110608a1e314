"""Functions that write into an array: into a traced one what they write is differentiated, a plain one refuses."""

import numpy as np
import pytest

from checkpoint import grad, vjp
from dualad import gradient, jacobian, jvp
from dualad.testing import check_derivatives

X = np.array([[0.3, -0.7, 1.2], [0.9, 0.4, -0.2]])

WRITES = {
    "copyto": lambda y, x: np.copyto(y, x[0]),
    "copyto where": lambda y, x: np.copyto(y, 2.0 * x, where=X > 0),
    "copyto constant": lambda y, x: np.copyto(y, 3.0),
    "put": lambda y, x: np.put(y, [0, 4, -1], x[0]),
    "put cycles": lambda y, x: np.put(y, [0, 4, 5], x[0, :2]),
    "put one": lambda y, x: np.put(y, 2, x[1, 1]),
    "put repeated": lambda y, x: np.put(y, [1, 1], x[0, :2]),
    "put wrap": lambda y, x: np.put(y, [7, -8], x[0, :2], mode="wrap"),
    "put clip": lambda y, x: np.put(y, [9, -3], x[0, :2], mode="clip"),
    "putmask": lambda y, x: np.putmask(y, X > 0, x * x),
    "putmask cycles": lambda y, x: np.putmask(y, X > 0, x[0, :2]),
    "place": lambda y, x: np.place(y, X > 0, x[0, :2]),
    "fill_diagonal": lambda y, x: np.fill_diagonal(y, x[0, 0]),
    "fill_diagonal values": lambda y, x: np.fill_diagonal(y, x[0, :2]),
    "put_along_axis": lambda y, x: np.put_along_axis(y, np.array([[2], [0]]), x[:, :1] * 3.0, 1),
    "put_along_axis None": lambda y, x: np.put_along_axis(y, np.array([4, 0]), x[0, :2], None),
    "add.at": lambda y, x: np.add.at(y, ([0, 0, 1], [1, 1, 2]), x[0] * x[1]),
    "subtract.at": lambda y, x: np.subtract.at(y, (slice(None), [0, 0]), x[0, :2] ** 2),
    "multiply.at": lambda y, x: np.multiply.at(y, ([0, 0, 1], [1, 1, 2]), x[0] * x[1]),
    "exp.at": lambda y, x: np.exp.at(y, ([0, 0], [1, 1])),
    "into a view": lambda y, x: np.put(y[1], [0, 2], x[0, :2]),
    "into a transpose": lambda y, x: np.copyto(y.T[1:], x[:, :1].T),
}


@pytest.mark.parametrize("name", WRITES)
def test_writes_into_a_traced_array_are_those_of_numpy(name):
    def f(x):
        y = np.sin(x)
        WRITES[name](y, x)
        return y * x

    check_derivatives(f, X, vjp=vjp)
    np.testing.assert_allclose(jacobian(f, chunk=3)(X), jacobian(f, chunk=1)(X), rtol=1e-14)


@pytest.mark.parametrize("name", sorted(set(WRITES) - {"copyto constant", "exp.at"}))
def test_writes_into_a_plain_array_are_refused(name):
    with pytest.raises(
        TypeError,
        match=r"(write into is a plain ndarray|cannot be written into an array of plain numbers).*"
        r"np\.zeros_like\(x, shape=\.\.\.\) or, from a plain array a, "
        r"with np\.array\(a, like=x\) of a traced array x",
    ):
        jvp(lambda x: WRITES[name](np.zeros((2, 3)), x) or x, (X,), (X,))


def test_a_first_power_of_a_matrix_is_the_matrix():
    def f(a):
        b = a + 0.0
        np.linalg.matrix_power(b, 1)[0, 0] = 5.0
        return np.sum(b * b)

    a = np.array([[1.0, 2.0], [3.0, 4.0]])
    for derived in (gradient, grad):
        np.testing.assert_array_equal(derived(f)(a), [[0.0, 4.0], [6.0, 8.0]])


def test_a_mask_may_be_traced():
    def f(x):
        y = np.sin(x)
        np.copyto(y, 2.0 * x, where=x > 0)
        np.putmask(y, x < -0.5, x * x)
        return y

    check_derivatives(f, X, vjp=vjp)


def test_positions_out_of_bounds_raise_as_in_numpy():
    for ind in (6, [-7], [0, 99]):
        with pytest.raises(IndexError, match="out of bounds"):
            jvp(lambda x: np.put(x, ind, x[0, 0]), (X,), (X,))


@pytest.mark.parametrize("ufunc", [np.add, np.subtract, np.multiply, np.divide, np.maximum, np.minimum, np.power])
def test_ufunc_at(ufunc):
    def f(x):
        y = x[0] * x[0] + 1.0
        ufunc.at(y, [0, 0, 2], x[1])
        ufunc.at(y, slice(1, None), x[0, 0] + 2.0)
        return y

    check_derivatives(f, X, vjp=vjp)
