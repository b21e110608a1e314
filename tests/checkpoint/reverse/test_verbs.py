"""vjp, grad, jacobian, linearize, hvp: structures, errors, nesting."""

from itertools import product

import numpy as np
import optree
import pytest
from walking import walked

import dualad
from checkpoint import grad, hvp, jacobian, linearize, value_and_grad, vjp
from dualad import gradient

X = np.linspace(0.5, 1.5, 6)


def test_auxiliary_results_pass_through():
    f = lambda x: (x**2, {"inside": x, "note": "text"})
    value, pullback, aux = vjp(f, 3.0, has_aux=True)
    assert (value, pullback(1.0), aux["note"]) == (9.0, (6.0,), "text")
    value, push, aux = linearize(f, 3.0, has_aux=True)
    assert (value, push(1.0), aux) == (9.0, 6.0, {"inside": 3.0, "note": "text"})
    assert hvp(f, 3.0, 1.0, has_aux=True) == (2.0, {"inside": 3.0, "note": "text"})


def test_a_gradient_has_the_dtype_of_its_argument():
    """In both modes, whatever the dtype that f computes in."""
    for f in (np.sum, lambda x: np.sum(x * np.ones(3)), lambda x: np.sum(x * 1j).imag):
        for dtype in (np.float32, np.float64):
            x = np.ones(3, dtype)
            assert grad(f)(x).dtype == gradient(f)(x).dtype == dtype
            assert type(grad(f)(x[0])) is type(gradient(f)(x[0])) is dtype
            both = grad(lambda x, y: f(x) * f(y), (0, 1)), gradient(lambda x, y: f(x) * f(y), (0, 1))
            assert [g.dtype for way in both for g in way(x, np.ones(3))] == [dtype, float] * 2


@pytest.mark.parametrize("bad", ["text", None, np.array(["a"]), np.array([1], dtype="M8[s]"), object(), True])
def test_inputs_that_are_no_numbers(bad):
    with pytest.raises(TypeError, match=r"no derivative|not a number|is of type|holds no number"):
        grad(lambda x: x)(bad)


def test_an_empty_container_has_an_empty_gradient():
    for empty in ([], (), {}, {"weights": [], "biases": ()}):
        assert grad(lambda parameters, x: np.sum(x**2))(empty, X) == empty
        value, gradients = value_and_grad(lambda parameters, x: x**2, argnums=(0, 1))(empty, 3.0)
        assert (value, gradients) == (9.0, (empty, 6.0))
    with pytest.raises(TypeError, match="grad: the argument is None, which holds no number"):
        grad(lambda x: 1.0)(None)


def test_cotangents_of_the_wrong_kind():
    _, pullback = vjp(lambda x: {"y": x * 2}, np.ones(3))
    with pytest.raises(TypeError, match="structure"):
        pullback(np.ones(3))
    with pytest.raises(ValueError, match=r"shape \(2,\), its value \(3,\)"):
        pullback({"y": np.ones(2)})


@pytest.mark.parametrize("n", [3, 1000])
def test_cotangents_of_another_dtype(n):
    c = np.linspace(1.0, 2.0, n) * (1.0 - 0.5j)
    (by_x,) = vjp(lambda x: x * c + x * c, c)[1](np.ones(n))
    np.testing.assert_array_equal(by_x, 2.0 * c)
    with pytest.raises(TypeError, match="a cotangent is complex and its value real"):
        vjp(lambda x: x[1:] * 2.0, c.real)[1](np.full(n - 1, 1.0 + 1.0j))
    (by_x,) = vjp(lambda x: (x + x) * x, c.real)[1](np.ones(n, int))
    np.testing.assert_array_equal(by_x, 4.0 * c.real)


@pytest.mark.parametrize("shape", [(1,), (1, 1), (3,)])
def test_a_gradient_may_be_written(shape):
    for f in (np.sum, np.mean, lambda x: np.sum(np.broadcast_to(x, (2, *shape)))):
        assert grad(f)(np.ones(shape)).flags.writeable


def test_linearize_serves_many_tangents():
    def f(x):
        out = np.zeros_like(x)
        out[0] = np.sin(x[0])
        out[1:] = x[:-1] * x[1:]
        return {"out": out, "sum": np.sum(out), "constant": np.ones(2)}

    value, push = linearize(f, X)
    for v in (np.ones(6), np.arange(6.0)):
        expected = dualad.jvp(f, (X,), (v,))
        np.testing.assert_allclose(push(v)["out"], expected[1]["out"])
        assert push(v)["sum"] == pytest.approx(expected[1]["sum"])
        np.testing.assert_array_equal(push(v)["constant"], np.zeros(2))
    np.testing.assert_array_equal(value["out"], f(X)["out"])
    with pytest.raises(TypeError, match="push was given tangents"):
        push(np.ones(5))


def test_third_order_by_every_nesting():
    f, forward = lambda x: np.sin(x) * x**2, dualad.derivative
    third = forward(f, order=3)(0.6)
    for a, b, c in product((grad, forward), repeat=3):
        assert a(b(c(f)))(0.6) == pytest.approx(third, rel=1e-12)


def test_confusion_in_reverse_mode():
    assert grad(lambda x: x * grad(lambda y: x + y)(1.0))(1.0) == 1.0
    assert grad(lambda x: grad(lambda y: x)(x))(1.0) == 0.0
    assert grad(lambda x: x * grad(lambda y: x * y)(2.0))(4.0) == 8.0
    assert grad(lambda x: x * dualad.derivative(lambda y: x * y)(2.0))(4.0) == 8.0
    assert dualad.derivative(lambda x: x * grad(lambda y: x * y)(2.0))(4.0) == 8.0


def test_compiled_jacobians_use_the_structure_and_the_cheaper_mode():
    """Few colours: as many directions; more outputs than inputs: columns; else all rows at once, not code for each chunk of them."""
    from dualad import jit

    def burgers(u):
        full = np.concatenate([np.zeros(1), u, np.zeros(1)])
        return full[1:-1] * (full[2:] - full[:-2]) - 0.1 * (full[2:] - 2.0 * full[1:-1] + full[:-2])

    rows, M = np.linspace(-1.0, 1.0, 64), np.random.default_rng(1).standard_normal((40, 5))
    tall = lambda x: np.tanh(M @ x) * np.sum(x**2)
    wide = lambda y: {"a": np.tanh(y @ M) * np.sum(y**2), "b": (y[0] * y[1], 2.0)}
    for f, x, has_aux in ((burgers, rows, False), (tall, np.ones(5), False), (wide, np.ones(40), False), (wide, np.ones(40), True)):
        g = (lambda x, f=f: (f(x), x[0])) if has_aux else f
        fast = jit(jacobian(g, has_aux=has_aux), backend="numpy")
        got, expected = fast(x), jacobian(g, has_aux=has_aux)(x)
        assert optree.tree_structure(got) == optree.tree_structure(expected)
        for a, b in zip(optree.tree_leaves(got), optree.tree_leaves(expected), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)
    assert "float64[3,64]" in str(jit(jacobian(burgers), backend="numpy").program(rows))  # of 64 rows
    assert "float64[5,40]" in str(jit(jacobian(tall), backend="numpy").program(np.ones(5)))


def test_a_gradient_is_a_short_walk():
    f, x = lambda x: np.sum(np.sin(x) * x), np.linspace(0.1, 1.0, 8)
    assert walked(lambda: grad(f)(x)).within(calls=40, files=8, hops=20), walked(lambda: grad(f)(x))
    assert walked(grad(f), x).within(calls=35, files=8, hops=19) and walked(grad(lambda x: x * x), 3.0).calls <= 26
