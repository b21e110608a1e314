"""gradient and grad, value_and_gradient and value_and_grad: of functions that return one number."""

from typing import NamedTuple

import numpy as np
import pytest
import scipy.optimize

from checkpoint import grad, value_and_grad
from dualad import gradient, value_and_gradient

X = np.array([1.2, -0.5, 2.0])
modes = pytest.mark.parametrize("gradient", [gradient, grad])


def rosen(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


@modes
def test_against_the_closed_form(gradient):
    np.testing.assert_allclose(gradient(rosen)(X), scipy.optimize.rosen_der(X), rtol=1e-14)


@pytest.mark.parametrize("chunk", [1, 2, 3, 100, None])
def test_chunks(chunk):
    np.testing.assert_allclose(gradient(rosen, chunk=chunk)(X), scipy.optimize.rosen_der(X), rtol=1e-14)


class Pair(NamedTuple):
    values: object
    factor: object


@modes
def test_structures_of_the_argument(gradient):
    f = lambda p: np.sum(p["w"] @ p["x"][0]) * p["x"].factor
    p = {"w": np.arange(6.0).reshape(2, 3), "x": Pair(np.ones(3), 2), "unused": 5.0}  # an integer is promoted
    got = gradient(f)(p)
    assert type(got["x"]) is Pair and got["unused"] == 0.0
    assert got["w"].tolist() == [[2.0] * 3] * 2 and got["x"][0].tolist() == [6.0, 10.0, 14.0] and got["x"][1] == 15.0


@modes
def test_shapes_of_the_argument(gradient):
    for shape in ((), (1,), (2, 3), (0,), (2, 0)):
        x = np.full(shape, 1.5)
        got = gradient(lambda x: np.sum(x * x))(x)
        assert np.shape(got) == shape and np.all(got == 3.0)
    assert gradient(lambda x: x * x)(1.5) == 3.0
    assert type(gradient(lambda x: x * x)(1.5)) in (float, np.float64)


@modes
def test_argnums(gradient):
    f = lambda x, y, z: np.sum(x * y) * z
    x, y = np.ones(2), np.array([2.0, 3.0])
    assert gradient(f, 1)(x, y, 4.0).tolist() == [4.0, 4.0]
    assert gradient(f, -1)(x, y, 4.0) == 5.0
    got = gradient(f, (2, 0))(x, y, 4.0)
    assert type(got) is tuple and got[0] == 5.0 and got[1].tolist() == [8.0, 12.0]
    assert type(gradient(f, (0,))(x, y, 4.0)) is tuple
    assert gradient(f, [0, 1])(x, y, 4.0)[1].tolist() == [4.0, 4.0]


@pytest.mark.parametrize(
    ("argnums", "error", "match"),
    [
        (3, ValueError, "names argument 3, but the function was called with 2 positional"),
        (-3, ValueError, "names argument -3"),
        ("x", TypeError, "give an integer or a tuple"),
        (1.0, TypeError, "argnums is 1.0"),
        ((0, 0), ValueError, "name each argument once"),
        ((), ValueError, "at least one"),
        ((0, -2), ValueError, "name each argument once"),
        (None, TypeError, "argnums is None"),
        (True, TypeError, "argnums is True"),
    ],
)
@modes
def test_wrong_argnums(gradient, argnums, error, match):
    with pytest.raises(error, match=match):
        gradient(lambda x, y: x * y, argnums)(1.0, 2.0)


@modes
def test_keywords_are_passed_through_and_not_differentiated(gradient):
    assert gradient(lambda x, scale=1.0: x * x * scale)(3.0, scale=10.0) == 60.0
    with pytest.raises(ValueError, match="keywords are not differentiated"):
        gradient(lambda x: x)(x=1.0)


@pytest.mark.parametrize(
    ("f", "match"),
    [
        (lambda x: x, r"grad(ient)?: f returns shape \(3,\): use jacobian"),
        (lambda x: x[:1], "or return one number"),
        (lambda x: [x[0]], "returned a list, not a number: use jacobian"),
        (lambda x: (x[0], x[1]), "returned a tuple"),
        (lambda x: {"a": x[0]}, "returned a dict"),
        (lambda x: None, r"returned None, not a number: return the result \(is its return statement missing"),
        (lambda x: "text", "returned str"),
        (lambda x: x[0] * (1.0 + 0.2j), r"complex number.*use jacobian \(holomorphic"),
        (lambda x: x[0] > 0.0, "f returns bool, whose derivative is zero"),
        (lambda x: np.floor(x[0]).astype(int), "f returns int64, whose derivative is zero"),
        (lambda x: 3, "f returns int64"),
        (lambda x: True, "f returns bool"),
    ],
)
@modes
def test_the_wrong_verb_answers_with_the_right_one(gradient, f, match):
    with pytest.raises(TypeError, match=match):
        gradient(f)(X)


@pytest.mark.parametrize(("gradient", "both"), [(gradient, value_and_gradient), (grad, value_and_grad)])
def test_values_and_aux(gradient, both):
    value, slope = both(rosen)(X)
    assert value == rosen(X)
    np.testing.assert_array_equal(slope, gradient(rosen)(X))
    assert both(lambda x, y: x * y, (0, 1))(2.0, 3.0) == (6.0, (3.0, 2.0))
    f = lambda x: (np.sum(x * x), {"x": x, "n": len(x)})
    slope, aux = gradient(f, has_aux=True)(X)
    assert slope.tolist() == (2 * X).tolist() and aux["n"] == 3 and type(aux["x"]) is np.ndarray and aux["x"].tolist() == X.tolist()
    (value, aux), slope = both(f, has_aux=True)(X)
    assert value == np.sum(X * X) and aux["n"] == 3 and slope.tolist() == (2 * X).tolist()
    with pytest.raises(TypeError, match=f"{gradient.__name__}: with has_aux=True"):
        gradient(np.sum, has_aux=True)(X)


@modes
def test_a_function_that_ignores_its_input(gradient):
    assert gradient(lambda x: 5.0)(X).tolist() == [0.0, 0.0, 0.0]
    assert gradient(lambda x: np.float64(5.0))(X.astype(np.float32)).shape == (3,)
    assert gradient(lambda x, y: y, 0)({"a": X}, 1.0)["a"].tolist() == [0.0, 0.0, 0.0]


@modes
def test_gradient_of_a_gradient(gradient):
    f = lambda x: np.sum(gradient(rosen)(x) ** 2)
    expected = 2 * scipy.optimize.rosen_hess(X) @ scipy.optimize.rosen_der(X)
    np.testing.assert_allclose(gradient(f)(X), expected, rtol=1e-12)


def test_evaluations_are_counted():
    calls = []
    gradient(lambda x: calls.append(1) or np.sum(x), chunk=2)(np.ones(5))
    assert len(calls) == 3
    calls.clear()
    gradient(lambda x: calls.append(1) or np.sum(x))(np.ones(5))
    assert len(calls) == 1
