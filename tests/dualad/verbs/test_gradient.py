"""gradient, value_and_gradient: of functions that return one number."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize

from dualad import gradient, value_and_gradient

X = np.array([1.2, -0.5, 2.0])


def rosen(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def test_against_the_closed_form():
    np.testing.assert_allclose(gradient(rosen)(X), scipy.optimize.rosen_der(X), rtol=1e-14)


@pytest.mark.parametrize("chunk", [1, 2, 3, 100, None])
def test_chunks(chunk):
    np.testing.assert_allclose(gradient(rosen, chunk=chunk)(X), scipy.optimize.rosen_der(X), rtol=1e-14)


def test_structures_of_the_argument():
    f = lambda p: np.sum(p["w"] @ p["x"][0]) * p["x"][1]
    p = {"w": np.arange(6.0).reshape(2, 3), "x": (np.ones(3), 2.0)}
    got = gradient(f)(p)
    assert got["w"].tolist() == [[2.0] * 3] * 2 and got["x"][0].tolist() == [6.0, 10.0, 14.0] and got["x"][1] == 15.0
    assert gradient(f, chunk=2)(p)["x"][1] == 15.0


def test_shapes_of_the_argument():
    for shape in ((), (1,), (2, 3), (0,), (2, 0)):
        x = np.full(shape, 1.5)
        got = gradient(lambda x: np.sum(x * x))(x)
        assert np.shape(got) == shape and np.all(got == 3.0)
    assert gradient(lambda x: x * x)(1.5) == 3.0
    assert type(gradient(lambda x: x * x)(1.5)) in (float, np.float64)


def test_argnums():
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
def test_wrong_argnums(argnums, error, match):
    with pytest.raises(error, match=match):
        gradient(lambda x, y: x * y, argnums)(1.0, 2.0)


def test_keywords_are_passed_through_and_not_differentiated():
    assert gradient(lambda x, scale=1.0: x * x * scale)(3.0, scale=10.0) == 60.0
    with pytest.raises(ValueError, match="keywords are not differentiated"):
        gradient(lambda x: x)(x=1.0)


@pytest.mark.parametrize(
    ("f", "match"),
    [
        (lambda x: x, r"gradient: f returns shape \(3,\): use jacobian"),
        (lambda x: x[:1], "or return one number"),
        (lambda x: [x[0]], "returned a list, not a number: use jacobian"),
        (lambda x: (x[0], x[1]), "returned a tuple"),
        (lambda x: {"a": x[0]}, "returned a dict"),
        (lambda x: None, "returned None"),
        (lambda x: "text", "returned str"),
    ],
)
def test_the_wrong_verb_answers_with_the_right_one(f, match):
    with pytest.raises(TypeError, match=match):
        gradient(f)(X)


def test_aux():
    f = lambda x: (np.sum(x * x), {"x": x, "n": len(x)})
    grad, aux = gradient(f, has_aux=True)(X)
    assert grad.tolist() == (2 * X).tolist() and aux["n"] == 3 and type(aux["x"]) is np.ndarray and aux["x"].tolist() == X.tolist()
    (value, aux), grad = value_and_gradient(f, has_aux=True)(X)
    assert value == np.sum(X * X) and aux["n"] == 3 and grad.tolist() == (2 * X).tolist()
    with pytest.raises(TypeError, match="gradient: with has_aux=True"):
        gradient(np.sum, has_aux=True)(X)


def test_value_and_gradient():
    value, grad = value_and_gradient(rosen)(X)
    assert value == rosen(X)
    np.testing.assert_array_equal(grad, gradient(rosen)(X))
    value, grads = value_and_gradient(lambda x, y: x * y, (0, 1))(2.0, 3.0)
    assert value == 6.0 and grads == (3.0, 2.0)


def test_a_function_that_ignores_its_input():
    assert gradient(lambda x: 5.0)(X).tolist() == [0.0, 0.0, 0.0]
    assert gradient(lambda x: np.float64(5.0))(X.astype(np.float32)).shape == (3,)
    assert gradient(lambda x, y: y, 0)({"a": X}, 1.0)["a"].tolist() == [0.0, 0.0, 0.0]


def test_gradient_of_a_gradient():
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
