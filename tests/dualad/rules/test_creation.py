"""Arrays made ``like=`` a traced one: buffers of its kind, which hold derivatives."""

import io

import numpy as np
import pytest
from in_groups import for_each

from checkpoint import vjp
from dualad import jacobian, jvp
from dualad.core.traced import Traced
from dualad.testing import check_derivatives

X = np.array([0.3, -0.7, 1.2])

MAKERS = {
    "zeros": lambda x: np.zeros(3, like=x),
    "zeros shape": lambda x: np.zeros((2, 3), like=x),
    "ones": lambda x: np.ones(3, like=x),
    "eye": lambda x: np.eye(3, like=x),
    "eye k": lambda x: np.eye(3, 3, 1, like=x),
    "identity": lambda x: np.identity(3, like=x),
    "tri": lambda x: np.tri(3, like=x),
    "full": lambda x: np.full(3, 2.0, like=x),
    "arange": lambda x: np.arange(3.0, like=x),
    "arange step": lambda x: np.arange(0.0, 6.0, 2.0, like=x),
    "array": lambda x: np.array([1.0, 2.0, 3.0], like=x),
    "asarray": lambda x: np.asarray([1.0, 2.0, 3.0], like=x),
    "asanyarray": lambda x: np.asanyarray([1.0, 2.0, 3.0], like=x),
    "ascontiguousarray": lambda x: np.ascontiguousarray([1.0, 2.0, 3.0], like=x),
    "asfortranarray": lambda x: np.asfortranarray([1.0, 2.0, 3.0], like=x),
    "require": lambda x: np.require([1.0, 2.0, 3.0], float, like=x),
    "fromfunction": lambda x: np.fromfunction(lambda i: i * 2.0, (3,), like=x),
    "frombuffer": lambda x: np.frombuffer(np.ones(3).tobytes(), like=x),
    "fromiter": lambda x: np.fromiter([1.0, 2.0, 3.0], float, like=x),
    "fromstring": lambda x: np.fromstring("1 2 3", sep=" ", like=x),
    "loadtxt": lambda x: np.loadtxt(io.StringIO("1 2 3"), like=x),
    "genfromtxt": lambda x: np.genfromtxt(io.StringIO("1 2 3"), like=x),
    "float32": lambda x: np.zeros(3, np.float32, like=x),
}
TAKES = {
    "full": lambda x: np.full((2, 3), x[0], like=x),
    "full row": lambda x: np.full((2, 3), x, like=x),
    "array": lambda x: np.array(x, like=x),
    "array of rows": lambda x: np.array([x, 2.0 * x], like=x),
    "array of scalars": lambda x: np.array([x[0], 1.0, x[1] * x[2]], like=x),
    "array nested": lambda x: np.array([[x[0], 1.0], [2.0, x[1] * x[2]]], like=x),
    "array ndmin": lambda x: np.array(x, ndmin=2, like=x),
    "asarray": lambda x: np.asarray([x, x * x], like=x),
    "asarray of itself": lambda x: np.asarray(x, like=x) * 2.0,
    "array of a plain one": lambda x: np.array(np.ones(3), like=x) * x,
    "zeros written": lambda x: written(np.zeros((2, 3), like=x), x),
    "empty written": lambda x: written(np.empty((2, 3), like=x), x),
    "array copied": lambda x: copied(x),
}


def written(buffer, x):
    buffer[0] = x
    buffer[1] = x[::-1] * x
    return buffer


def copied(x):
    y = np.array(x, like=x)
    y[0] = 7.0
    return x * y


@pytest.mark.parametrize("verb", ["forward", "directions", "reverse"])
@for_each("name", MAKERS, size=30)
def test_made_arrays_are_traced_and_hold_what_numpys_do(name, verb):
    made = []

    def f(x):
        y = MAKERS[name](x)
        made.append(y)
        y[..., 0] = x[0] * 2.0
        return y

    expected = MAKERS[name](X).copy()
    expected[..., 0] = 0.6
    if verb == "forward":
        value, tangent = jvp(f, (X,), (np.ones(3),))
        assert value.dtype == expected.dtype and np.all(tangent[..., 0] == 2.0) and not np.any(tangent[..., 1:])
    else:
        value = vjp(f, X)[0] if verb == "reverse" else (jacobian(f)(X), np.copy(MAKERS[name](X)))[1]
        if verb == "directions":
            value[..., 0] = 0.6
    assert isinstance(made[0], Traced)
    np.testing.assert_allclose(value, expected, rtol=1e-7)


@pytest.mark.parametrize("name", TAKES)
def test_what_traced_values_they_take_is_differentiated(name):
    check_derivatives(TAKES[name], X, vjp=vjp)
    np.testing.assert_allclose(jacobian(TAKES[name], chunk=3)(X), jacobian(TAKES[name], chunk=1)(X))


def test_integers_stay_plain():
    seen = []
    jvp(lambda x: seen.append((np.zeros(3, int, like=x), np.arange(3, like=x))) or x, (X,), (X,))
    assert [type(made) for made in seen[0]] == [np.ndarray, np.ndarray]
    assert type(jvp(lambda x: np.array(x, dtype=int, like=x), (2.5,), (1.0,))[0]) is np.ndarray


@pytest.mark.parametrize("options", [{}, {"order": "A"}, {"order": "C"}, {"order": "F"}], ids=str)
def test_an_array_of_another_shape_has_the_layout_of_numpys(options):
    for x in (np.asfortranarray(np.ones((2, 3))), np.ones((2, 3)), np.ones((2, 3, 4)).transpose(1, 0, 2)):
        for shape in ((4, 5, 2)[: x.ndim], (7,), 3):
            f = lambda x, shape=shape: np.full_like(x, 2.0, shape=shape, **options)
            assert jvp(f, (x,), (x,))[0].strides == vjp(f, x)[0].strides == f(x).strides
