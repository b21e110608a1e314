"""jvp, derivative, value_and_derivative: values, structures, types and refusals."""

import math
from collections import OrderedDict, namedtuple
from dataclasses import dataclass

import numpy as np
import optree
import pytest

import dualad
from checkpoint import grad
from dualad import derivative, jvp, value_and_derivative

Point = namedtuple("Point", "x y")


# --- jvp --------------------------------------------------------------------------------------------------------------------


def test_value_and_tangent():
    value, tangent = jvp(lambda x, y: x * np.sin(y), (2.0, 0.5), (0.3, -0.7))
    assert value == 2 * np.sin(0.5)
    assert tangent == pytest.approx(0.3 * np.sin(0.5) - 0.7 * 2 * np.cos(0.5), rel=1e-15)


def test_results_have_the_types_of_numpys():
    assert [type(part) for part in jvp(lambda x: x * 2, (1.0,), (1.0,))] == [float, float]
    assert [type(part) for part in jvp(lambda x: x * 2, (np.float64(1.0),), (1.0,))] == [np.float64, np.float64]
    assert [type(part) for part in jvp(np.sum, (np.ones(3),), (np.ones(3),))] == [np.float64, np.float64]
    assert [type(part) for part in jvp(lambda x: x[0], (np.ones(3, np.float32),), (np.ones(3, np.float32),))] == [np.float32, np.float32]
    assert [type(part) for part in jvp(lambda x: x, (1,), (1,))] == [float, float]


def test_pytrees():
    def f(p, q):
        return {"sum": p.x + q["b"][0], "parts": [p.y * q["a"], (q["b"][1],)]}

    primals = (Point(1.0, np.array([2.0, 3.0])), {"a": 4.0, "b": [5.0, 6.0]})
    tangents = (Point(1.0, np.array([0.5, 0.0])), {"a": -1.0, "b": [2.0, 0.0]})
    value, tangent = jvp(f, primals, tangents)
    assert value["sum"] == 6.0 and tangent["sum"] == 3.0
    assert value["parts"][0].tolist() == [8.0, 12.0] and tangent["parts"][0].tolist() == [0.0, -3.0]
    assert (value["parts"][1], tangent["parts"][1]) == ((6.0,), (0.0,))
    assert jvp(lambda d: d["b"] * d["a"], (OrderedDict(b=2.0, a=3.0),), (OrderedDict(b=1.0, a=0.0),)) == (6.0, 3.0)
    out = jvp(lambda x: Point(x, 2 * x), (1.0,), (1.0,))
    assert out == (Point(1.0, 2.0), Point(1.0, 2.0)) and type(out[0]) is Point


def test_registered_and_unregistered_dataclasses():
    # the namespace of all, which optree 0.13 does not yet call ""
    @optree.dataclasses.dataclass(namespace=vars(optree.registry)["__GLOBAL_NAMESPACE"])
    class Registered:
        x: float
        y: np.ndarray

    @dataclass
    class Unregistered:
        x: float

    value, tangent = jvp(lambda p: Registered(p.x * p.x, p.y), (Registered(3.0, np.ones(2)),), (Registered(1.0, np.zeros(2)),))
    assert (value.x, tangent.x) == (9.0, 6.0) and tangent.y.tolist() == [0.0, 0.0]
    with pytest.raises(TypeError, match=r"Unregistered.*dualad\.register_dataclass"):
        jvp(lambda p: p.x, (Unregistered(1.0),), (Unregistered(1.0),))
    with pytest.raises(TypeError, match=r"the function returned Unregistered .*dualad\.register_dataclass"):
        jvp(lambda x: Unregistered(x), (1.0,), (1.0,))


def test_constant_functions_give_zeros_of_the_right_shape_and_dtype():
    for constant in (5.0, np.ones(3), np.ones((2, 0)), np.float32(1.0), np.ones(2, np.complex64), [1.0, np.ones(2)], np.arange(3), 7):
        value, tangent = jvp(lambda x, c=constant: c, (np.ones(2),), (np.ones(2),))
        for a, t in zip(optree.tree_leaves(value), optree.tree_leaves(tangent), strict=True):
            assert np.shape(t) == np.shape(a) and not np.any(t)
            assert np.asarray(t).dtype == (np.asarray(a).dtype if np.asarray(a).dtype.kind in "fc" else float)


def test_complex_tangents_are_linear_over_the_reals():
    z, v = 1 + 2j, 0.3 - 0.4j
    assert jvp(lambda z: z * z, (z,), (v,))[1] == pytest.approx(2 * z * v)
    assert jvp(np.conj, (z,), (v,))[1] == v.conjugate()
    assert jvp(lambda z: z * np.conj(z), (z,), (v,))[1] == pytest.approx(2 * (z.conjugate() * v).real)
    assert jvp(lambda x: np.exp(1j * x), (0.5,), (1.0,))[1] == pytest.approx(1j * np.exp(0.5j))
    with pytest.raises(TypeError, match="a tangent is complex and its primal real: give its primal a complex dtype"):
        jvp(np.sin, (1.0,), (1j,))


def test_aux():
    def f(x):
        return x * x, {"seen": x, "name": "a", "double": 2 * x}

    value, tangent, aux = jvp(f, (3.0,), (1.0,), has_aux=True)
    assert (value, tangent) == (9.0, 6.0) and aux == {"seen": 3.0, "name": "a", "double": 6.0}
    assert type(aux["seen"]) is float
    for bad in (lambda x: x, lambda x: (x, x, x), lambda x: [x, x]):
        with pytest.raises(TypeError, match=r"with has_aux=True the function must return a pair \(result, aux\)"):
            jvp(bad, (3.0,), (1.0,), has_aux=True)


def test_aux_of_an_inner_derivative_keeps_the_outer_level():
    def outer(x):
        _, _, aux = jvp(lambda y: (y, x * y), (2.0,), (1.0,), has_aux=True)
        return aux

    assert derivative(outer)(5.0) == 2.0


@pytest.mark.parametrize(
    ("primals", "tangents", "error", "match"),
    [
        (1.0, 1.0, TypeError, r"primals is float, tangents is float: give tuples .* such as jvp\(f, \(x,\), \(v,\)\)"),
        ((1.0,), 1.0, TypeError, "tangents is float"),
        ((1.0,), (1.0, 2.0), TypeError, "primals and tangents differ in structure"),
        (({"a": 1.0},), ({"b": 1.0},), TypeError, "differ in structure"),
        ((np.ones(2),), (np.ones(3),), ValueError, r"a tangent has shape \(3,\), its primal \(2,\): they must be equal"),
        ((np.ones(2),), (1.0,), ValueError, "they must be equal"),
        ((1.0,), (np.ones(1),), ValueError, "they must be equal"),
        (("a",), ("a",), TypeError, r"primals\[0\] is 'a', which is not a number"),
        ((None,), (1.0,), TypeError, "differ in structure|primals"),
        (([1.0, "b"],), ([1.0, 1.0],), TypeError, r"primals\[0\]\[1\] is 'b'"),
        ((True,), (1.0,), TypeError, r"primals\[0\] is True"),
        ((np.array([True]),), (np.ones(1),), TypeError, "dtype bool"),
        (({"k": np.array(["x"])},), ({"k": np.ones(1)},), TypeError, r"primals\[0\]\['k'\] has dtype <U1"),
        ((1.0,), ("t",), TypeError, r"tangents\[0\] is 't'"),
        ((np.array([1.0, None]),), (np.ones(2),), TypeError, "dtype object"),
        ((np.array(["2020-01-01"], "M8[D]"),), (np.ones(1),), TypeError, "has no derivative"),
    ],
)
def test_wrong_calls(primals, tangents, error, match):
    with pytest.raises(error, match=match):
        jvp(lambda *args: args[0], primals, tangents)


@pytest.mark.parametrize(
    ("out", "match"),
    [
        (None, "holds no number or array"),
        ("text", "the function returned str 'text'"),
        ([], "holds no number"),
        ([1.0, "b"], r"at output\[1\]"),
        ({"k": object()}, r"at output\['k'\]"),
        (np.array(["a"]), "returned ndarray"),
        (len, "returned builtin_function"),
    ],
)
def test_wrong_results(out, match):
    with pytest.raises(TypeError, match=match):
        jvp(lambda x: out, (1.0,), (1.0,))


def test_what_is_no_function():
    for verb in (jvp, lambda f: derivative(f), lambda f: value_and_derivative(f)):
        with pytest.raises(TypeError, match=r"the first argument is float 2\.0, not a function"):
            verb(2.0, (1.0,), (1.0,)) if verb is jvp else verb(2.0)


# --- derivative ---------------------------------------------------------------------------------------------------------------


def test_orders():
    f = lambda x: x**4
    assert [derivative(f, order)(2.0) for order in range(6)] == [16.0, 32.0, 48.0, 48.0, 24.0, 0.0]
    assert derivative(f, np.int64(2))(2.0) == 48.0
    assert derivative(f, order=0)(2.0) == f(2.0)


@pytest.mark.parametrize("order", [-1, 1.0, "2", True, None])
def test_wrong_orders(order):
    with pytest.raises(ValueError, match=r"derivative: order is .*: give a non-negative integer"):
        derivative(np.sin, order)


def test_derivatives_of_structures_and_further_arguments():
    f = lambda x, k, scale=1.0: {"v": np.array([1.0, k]) * x**2 * scale, "s": (x,)}
    got = derivative(f)(3.0, 2.0, scale=10.0)
    assert got["v"].tolist() == [60.0, 120.0] and got["s"] == (1.0,)


def test_types_of_derivatives():
    assert type(derivative(lambda x: x * x)(2.0)) is float
    assert type(derivative(lambda x: x * x)(np.float64(2.0))) is np.float64
    assert type(derivative(lambda x: x * x)(np.float32(2.0))) is np.float32
    assert np.shape(derivative(lambda x: x * x)(np.array(2.0))) == ()
    assert derivative(lambda z: z * z)(1 + 1j) == 2 + 2j


@pytest.mark.parametrize(
    ("x", "match"),
    [
        (np.ones(3), r"x has shape \(3,\).*use (value_and_)?gradient"),
        ([1.0], "x is a list"),
        ((1.0, 2.0), "jacobian"),
        ({"a": 1.0}, "jvp along one direction"),
        (np.ones((1,)), "has shape"),
    ],
)
def test_an_array_is_answered_with_the_verb_to_use(x, match):
    for verb in (derivative, value_and_derivative):
        with pytest.raises(TypeError, match=match):
            verb(np.sum)(x)


def test_value_and_derivative():
    assert value_and_derivative(lambda x: x**3)(2.0) == (8.0, 12.0)
    assert value_and_derivative(lambda x: (x**3, "note"), has_aux=True)(2.0) == (8.0, 12.0, "note")
    calls = []
    value_and_derivative(lambda x: calls.append(1) or x)(2.0)
    assert len(calls) == 1
    assert value_and_derivative(lambda x, a, b=1: a * b * x)(2.0, 3.0, b=4.0) == (24.0, 12.0)


def test_names_and_docstrings_are_kept():
    def f(x):
        """Cube x."""
        return x**3

    for verb in (derivative, value_and_derivative, dualad.gradient, dualad.jacobian, dualad.hessian):
        assert verb(f).__name__ == "f" and verb(f).__doc__ == "Cube x."


# --- stop_gradient, primitive, explain_nan --------------------------------------------------------------------------------------


def test_stop_gradient():
    assert derivative(lambda x: x * dualad.stop_gradient(x))(3.0) == 3.0
    for verb in (derivative, grad):
        assert verb(lambda x: dualad.stop_gradient({"a": [x, "text"]})["a"][0] * x)(3.0) == 3.0
    np.testing.assert_array_equal(dualad.gradient(lambda x: np.sum(x * dualad.stop_gradient(x * x)))(np.arange(3.0)), [0.0, 1.0, 4.0])

    def f(x):
        y = dualad.stop_gradient(x)
        y[0] = 7.0
        return x * y

    assert dualad.jacobian(f)(np.array([2.0, 3.0])).tolist() == [[7.0, 0.0], [0.0, 3.0]]
    assert dualad.stop_gradient(5.0) == 5.0
    dualad.stop_gradient(np.ones(2))[0] = 5.0  # a plain array stays the caller's


@pytest.mark.parametrize(
    ("f", "tenth"),
    [
        (np.exp, lambda x: math.exp(x)),
        (np.sin, lambda x: -math.sin(x)),
        (np.cos, lambda x: -math.cos(x)),
        (np.log, lambda x: -math.factorial(9) / x**10),
        (lambda x: 1.0 / x, lambda x: math.factorial(10) / x**11),
        (lambda x: x**10, lambda x: float(math.factorial(10))),
        (lambda x: x**9, lambda x: 0.0),
        (np.sinh, math.sinh),
        (np.cosh, math.cosh),
        (np.exp2, lambda x: math.log(2.0) ** 10 * 2.0**x),
        (np.sqrt, lambda x: math.prod(0.5 - k for k in range(10)) * x**-9.5),
        (np.expm1, math.exp),
    ],
)
def test_tenth_derivatives_of_elementary_functions(f, tenth):
    assert derivative(f, order=10)(1.3) == pytest.approx(tenth(1.3), rel=1e-11, abs=1e-9)


# --- elementwise_grad ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("x", [0.5, np.float64(0.5), np.array(0.5), np.linspace(0.1, 2.0, 6).reshape(2, 3), np.zeros((0, 2))], ids=repr)
def test_the_derivative_of_each_element(x):
    slopes = dualad.elementwise_grad(np.sin)(x)
    np.testing.assert_array_equal(slopes, np.cos(x))
    assert np.shape(slopes) == np.shape(x)
    third = dualad.elementwise_grad(dualad.elementwise_grad(dualad.elementwise_grad(np.sin)))
    np.testing.assert_allclose(third(x), -np.cos(x), rtol=1e-15)


def test_elementwise_grad_of_another_argument():
    f = lambda a, x, n=2: a * x**n
    x = np.array([1.0, 2.0], np.float32)
    slopes = dualad.elementwise_grad(f, argnums=1)(3.0, x, n=3)
    np.testing.assert_array_equal(slopes, 9.0 * x**2)
    assert slopes.dtype == np.float32
    np.testing.assert_allclose(dualad.jit(dualad.elementwise_grad(f, 1))(3.0, x), 6.0 * x, rtol=1e-6)


def test_elementwise_grad_refuses_other_shapes():
    with pytest.raises(ValueError, match=r"elementwise_grad: f returns shape \(\), its argument has \(2,\)"):
        dualad.elementwise_grad(np.sum)(np.ones(2))
    with pytest.raises(ValueError, match="names argument 2, but the function was called with 2"):
        dualad.elementwise_grad(np.multiply, argnums=2)(1.0, 2.0)
    with pytest.raises(TypeError, match="argnums is 'x'"):
        dualad.elementwise_grad(np.sin, argnums="x")
    with pytest.raises(TypeError, match="elementwise_grad: the argument is a list: pass a number or an array"):
        dualad.elementwise_grad(np.sin)([1.0, 2.0])
