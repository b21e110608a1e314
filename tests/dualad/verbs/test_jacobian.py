"""jacobian, value_and_jacobian: shapes, trees, chunks, memory."""

import numpy as np
import pytest

from checkpoint import jacobian as reverse_jacobian
from dualad import derivative, jacobian, jacobian_columns, value_and_jacobian

X = np.array([0.5, -1.5, 2.0])
modes = pytest.mark.parametrize("jacobian", [jacobian, reverse_jacobian], ids=["forward", "reverse"])


def f(x):
    return np.stack([x[0] * x[1], np.sin(x[2]), np.sum(x * x), x[0] - x[2]])


EXPECTED = np.array([[-1.5, 0.5, 0.0], [0.0, 0.0, np.cos(2.0)], [1.0, -3.0, 4.0], [1.0, 0.0, -1.0]])


@pytest.mark.parametrize("chunk", [1, 2, 3, 50, None, np.int64(2)])
@modes
def test_chunks(jacobian, chunk):
    np.testing.assert_allclose(jacobian(f, chunk=chunk)(X), EXPECTED, rtol=1e-15)


@pytest.mark.parametrize("chunk", [0, -1, 1.5, "3", True])
@modes
def test_wrong_chunks(jacobian, chunk):
    for ask in (lambda: jacobian(f, chunk=chunk), lambda: jacobian_columns(f, X, chunk=chunk)):
        with pytest.raises(ValueError, match=r"chunk is .*: give how many"):
            ask()


@pytest.mark.parametrize("out", [(), (1,), (2,), (2, 3), (0,)])
@pytest.mark.parametrize("shape", [(), (1,), (3,), (3, 2), (0,)])
@modes
def test_shapes(jacobian, out, shape):
    x = np.full(shape, 0.5)
    jac = jacobian(lambda x: np.ones(out) * np.sum(x))(x)
    assert np.shape(jac) == (*out, *shape) and np.all(jac == 1.0)


@modes
def test_python_scalars(jacobian):
    assert jacobian(lambda x: x * x)(3.0) == 6.0
    assert jacobian(lambda x: [x, x * x])(3.0) == [1.0, 6.0]
    assert jacobian(lambda p: p[0] * p[1])([2.0, 3.0]) == [3.0, 2.0]


@modes
def test_trees_of_trees(jacobian):
    g = lambda p, q: {"a": p["x"] * q, "b": (np.sum(p["x"]), p["y"] ** 2)}
    p = {"x": np.array([1.0, 2.0]), "y": 3.0}
    jac = jacobian(g)(p, 5.0)
    assert set(jac) == {"a", "b"} and set(jac["a"]) == {"x", "y"}
    assert jac["a"]["x"].tolist() == [[5.0, 0.0], [0.0, 5.0]] and jac["a"]["y"].tolist() == [0.0, 0.0]
    assert jac["b"][0]["x"].tolist() == [1.0, 1.0] and jac["b"][1]["y"] == 6.0 and jac["b"][1]["x"].tolist() == [0.0, 0.0]
    both = jacobian(g, (0, 1))(p, 5.0)
    assert type(both["a"]) is tuple and both["a"][1].tolist() == [1.0, 2.0]
    for chunk in (1, 2, 3):
        assert jacobian(g, chunk=chunk)(p, 5.0)["b"][1]["y"] == 6.0


def test_value_and_jacobian():
    value, jac = value_and_jacobian(f)(X)
    np.testing.assert_array_equal(value, f(X))
    np.testing.assert_array_equal(jac, jacobian(f)(X))
    value, jac, aux = value_and_jacobian(lambda x: (x * 2, "note"), has_aux=True)(X)
    assert aux == "note" and value.tolist() == (2 * X).tolist() and jac.tolist() == (2 * np.eye(3)).tolist()
    assert jacobian(lambda x: (x * 2, "note"), has_aux=True)(X)[1] == "note"


@modes
def test_dtypes(jacobian):
    assert jacobian(f)(X.astype(np.float32)).dtype == np.float32
    assert jacobian(lambda x: np.exp(1j * x))(X).dtype == complex
    np.testing.assert_allclose(np.diag(jacobian(lambda x: np.exp(1j * x))(X)), 1j * np.exp(1j * X))
    np.testing.assert_allclose(np.diag(jacobian(lambda z: z * z, holomorphic=True)(X + 1j)), 2 * (X + 1j))
    assert jacobian(lambda n: n * n)(np.arange(3)).dtype == float


@modes
def test_complex_inputs_are_differentiated_only_where_the_caller_says_how(jacobian):
    with pytest.raises(TypeError, match="an input is complex: give holomorphic=True if f is complex-differentiable"):
        jacobian(lambda z: z * z)(X + 1j)


def test_the_chunk_size_follows_the_bytes():
    counts = []
    g = lambda x: counts.append(1) or x * 2.0
    jacobian(g)(np.ones(100))
    assert len(counts) == 1
    counts.clear()
    jacobian(g)(np.ones(3000))
    assert 1 < len(counts) <= 750


@modes
def test_results_are_contiguous_enough_and_own_their_memory(jacobian):
    jac = jacobian(f)(X)
    jac[0] = 9.0
    np.testing.assert_allclose(jacobian(f)(X), EXPECTED)


# --- use ----------------------------------------------------------------------------------------------------------------------


def test_inside_a_derivative():
    got = derivative(lambda a: jacobian(lambda x: a * x * x)(X))(3.0)
    np.testing.assert_allclose(got, np.diag(2 * X))
    got = derivative(lambda a: sum(column @ column for _, column in jacobian_columns(lambda x: a * x, X)))(3.0)
    assert got == pytest.approx(18.0)
    assert derivative(lambda a: np.sum(jacobian(lambda x: a * 2.0)(X)))(3.0) == 0.0


@modes
def test_errors_of_the_function_pass_through(jacobian):
    with pytest.raises(ZeroDivisionError):
        jacobian(lambda x: 1 // 0)(X)
    with pytest.raises(TypeError, match="jacobian: the first argument is"):
        jacobian(X)
    with pytest.raises(TypeError, match=r"jacobian: the argument is 'a'"):
        jacobian(f)("a")


def test_aux_is_that_of_the_last_chunk_with_plain_values():
    _, aux = jacobian(lambda x: (x, x), chunk=1, has_aux=True)(X)
    assert type(aux) is np.ndarray and aux.tolist() == X.tolist()
