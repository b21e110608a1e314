"""Traced values stand in for numbers and arrays: protocols, operators, views and writes, object arrays, refusals."""

import copy
import functools
import math
import operator
import pickle

import numpy as np
import pytest
from agreement import check
from in_groups import for_each
from optree import tree_leaves
from samples import CONSTANTS, SAMPLES, is_leaf

import dualad
from checkpoint import grad, vjp
from dualad import derivative, gradient, jacobian, jit, jvp, primal
from dualad.core.methods import SAME_METHODS
from dualad.core.traced import Traced

X = np.array([[0.3, -0.7, 1.2], [0.9, 0.4, -0.2]])
V = np.array([0.5, -1.5, 2.0, 0.25])


# --- operators and protocols ------------------------------------------------------------------------------------------------


def assert_derivative(f, x, expected):
    for value in (x, np.float64(x)):
        assert derivative(f)(value) == pytest.approx(expected, rel=1e-14)
        assert grad(f)(value) == pytest.approx(expected, rel=1e-14)
    for shape in ((), (1,), (2, 1)):
        a = np.full(shape, x)
        assert gradient(lambda x: np.sum(f(x)))(a) == pytest.approx(np.full(shape, expected), rel=1e-14)
        assert grad(lambda x: np.sum(f(x)))(a) == pytest.approx(np.full(shape, expected), rel=1e-14)


#: the partials of an operator at (a, b)
PARTIALS = {
    operator.add: lambda a, b: (1.0, 1.0),
    operator.sub: lambda a, b: (1.0, -1.0),
    operator.mul: lambda a, b: (b, a),
    operator.truediv: lambda a, b: (1.0 / b, -a / b**2),
    operator.pow: lambda a, b: (b * a ** (b - 1.0), a**b * np.log(a)),
    operator.mod: lambda a, b: (1.0, -np.floor(a / b)),
    operator.floordiv: lambda a, b: (0.0, 0.0),
    lambda a, b: divmod(a, b)[0]: lambda a, b: (0.0, 0.0),
    lambda a, b: divmod(a, b)[1]: lambda a, b: (1.0, -np.floor(a / b)),
    np.add: lambda a, b: (1.0, 1.0),
    np.maximum: lambda a, b: (float(a > b), float(b > a)),
    lambda a, b: np.multiply(a, b, dtype=float): lambda a, b: (b, a),
}
NUMBERS = [1, 4, 0.25, 7.0, True, np.float64(2.0), np.int64(3), np.array(2.0)]


@pytest.mark.parametrize("operate", PARTIALS)
def test_operators(operate):
    """Beside numbers of all kinds, on either side."""
    for other in NUMBERS:
        assert_derivative(lambda x: operate(x, other), 1.5, PARTIALS[operate](1.5, float(other))[0])
        assert_derivative(lambda x: operate(other, x), 1.5, PARTIALS[operate](float(other), 1.5)[1])


@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (lambda x: x * x, 3.0),
        (lambda x: np.float32(2) * x, 2.0),
        (lambda x: x**3, 6.75),
        (lambda x: x**x, 1.5**1.5 * (np.log(1.5) + 1)),
        (lambda x: -x, -1.0),
        (lambda x: +x, 1.0),
        (lambda x: abs(-x), 1.0),
        (lambda x: x**2 + x**2.0 + x ** np.float64(2), 9.0),
        (lambda x: np.sum(np.ones((2, *(1,) * np.ndim(x))) * x, axis=0), 2.0),
    ],
    ids=lambda value: None,
)
def test_operators_of_one_value(f, expected):
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


def asked(compare, a, b):
    """What a comparison answers: its error's type, or a list."""
    try:
        return np.asarray(compare(a, b)).tolist()
    except TypeError:
        return TypeError


@pytest.mark.parametrize("compare", [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne])
def test_comparisons_of_complex_numbers_raise_where_pythons_do(compare):
    numbers = (2j, 2.0, np.complex128(2j), np.float64(2.0), np.array([2j, 1.0]), np.array(2j), np.float32(1.0))
    for a in numbers:
        for b in (*numbers, 3, True):
            expected, answers = asked(compare, a, b), []
            f = lambda x: (answers.append(asked(compare, x, b)), x * 1.0)[1]
            g = lambda x: (answers.append(asked(compare, b, x)), x * 1.0)[1]
            jvp(f, (a,), (a,)), vjp(f, a), jvp(lambda y: jvp(f, (y,), (y,))[1], (a,), (a,))
            assert answers == [expected] * 3
            answers.clear()
            jvp(g, (a,), (a,)), vjp(g, a), jvp(lambda y: jvp(g, (y,), (y,))[1], (a,), (a,))
            assert answers == [asked(compare, b, a)] * 3
    with pytest.raises(TypeError, match="compare abs"):
        jvp(lambda tol: np.real_if_close(np.array([1.0 + 1e-20j]), tol), (100 + 0j,), (1 + 0j,))


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


METHODS = {
    "flatten": lambda x: x.flatten("F"),
    "reshape": lambda x: x.reshape(3, 2),
    "reshape -1": lambda x: x.reshape(-1),
    "reshape tuple": lambda x: x.reshape((3, -1), order="F"),
    "transpose": lambda x: x.transpose(1, 0),
    "T": lambda x: x.T,
    "copy": lambda x: x.copy(),
    "astype": lambda x: x.astype(float),
    "real": lambda x: x.real,
    "imag": lambda x: x.imag,
    "item": lambda x: x.item(1, 2) + x.item(0),
    "tolist": lambda x: np.stack([np.stack(row) for row in x.tolist()]),
    "fill": lambda x: filled(x),
    "sort": lambda x: changed(x * x, lambda y: y.sort(axis=1)),
    "partition": lambda x: changed(x * x, lambda y: y.partition(1, axis=0)),
    "put": lambda x: changed(x * x, lambda y: y.put([0, 4], 3.0 * x[0, :2])),
    "real =": lambda x: changed(x * x, lambda y: setattr(y, "real", x[0])),
    "complex parts =": lambda x: parts_assigned(x),
    "compress out": lambda x: x.compress([1, 0, 1], 1, np.empty_like(x[:, :2])),
    "flat": lambda x: np.stack(list(x.flat)),
    "flat, an operand": lambda x: x.flat * np.ravel(x) + np.sin(x.flat) / x.flat[1],
    "iteration": lambda x: sum(row @ row for row in x),
    "copy.copy": lambda x: copy.copy(x) * 2,
    "copy.deepcopy": lambda x: copy.deepcopy([x])[0] * 2,
    "unpacking": lambda x: (lambda a, b: a * b)(*x),
    "reversed": lambda x: np.stack([row * k for k, row in enumerate(reversed(x))]),
}


def filled(x):
    y = x.copy()
    y.fill(2.0)
    return y * x


def changed(y, change):
    change(y)
    return y


def parts_assigned(x):
    z = np.zeros_like(x, complex)
    z.real, z.imag = x, x * x
    with pytest.raises(TypeError, match="imaginary part"):
        x.imag = 1.0
    return np.abs(np.exp(z)) + z.imag


@for_each("name", METHODS)
def test_methods(name):
    check(METHODS[name], X)


@for_each("name", SAME_METHODS)
def test_methods_are_the_functions_of_their_names(name):
    """At every sample of the function, bit for bit."""
    fn = getattr(np, name)
    for sample in SAMPLES.get(fn) or CONSTANTS[fn]:
        if isinstance(sample.args[0], np.ndarray) and is_leaf(sample.args[0]):
            of_function = lambda *leaves: fn(*sample.fill(leaves), **sample.kwargs)
            of_method = lambda x, *rest: getattr(x, name)(*sample.fill((x, *rest))[1:], **sample.kwargs)
            leaves = tuple(sample.leaves())
            pulled = lambda f: (out := vjp(f, *leaves))[1](out[0])
            for run in (lambda f: jvp(f, leaves, leaves), *([pulled] if fn in SAMPLES else [])):
                for got, expected in zip(tree_leaves(run(of_method)), tree_leaves(run(of_function)), strict=True):
                    np.testing.assert_array_equal(got, expected, err_msg=str(sample), strict=True)


def test_every_method_with_a_numpy_function_is_there():
    older = {"itemset", "newbyteorder", "ptp", "tostring"}  # of ndarray in NumPy 2.0, where they raise or warn
    assert {name for name in dir(np.ndarray) if not name.startswith("_")} - set(dir(Traced)) <= older


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


@pytest.mark.parametrize(
    ("f", "match"),
    [
        (lambda x: float(x[0]), "np.sin, not math.sin"),
        (lambda x: np.asarray(x, dtype=float), "a plain array of float64 of a traced Dual would lose its derivative"),
        (hash, "unhashable"),
        (lambda x: {x[0]: 1}, "unhashable"),
        (functools.lru_cache(lambda x: x), "unhashable"),
        (pickle.dumps, "cannot be pickled"),
        (lambda x: np.full_like(np.ones(3), x[0]), "copyto"),
        (into_plain(lambda a, x: a.__iadd__(x)), r"a \+= x of a traced x: a is a plain array"),
        (lambda x: dualad.rules.kinds.primitive(math.gamma)(x), "math.gamma has no derivative rule in dualad"),
        (lambda x: np.left_shift(x, 1), "integers and bits"),
        (lambda x: np.matmul(x, np.ones((3, 2)), axes=[(0,), (0, 1), (0,)]), "axes= has no derivative rule"),
        (lambda x: x << 1, "integers and bits"),
        (lambda x: ~x, "integers and bits"),
        (lambda x: np.clip(x, 0.0, 1.0, out=np.zeros(4)), "out= is a plain array"),
        (lambda x: np.sum(np.ones((4, 4)), axis=x), "axis|integer"),
        (lambda x: np.roll(x, x[0]), "no derivative with respect to its argument 'shift'"),
        (lambda x: len({x, x}), "unhashable"),
    ],
)
def test_refusals(f, match):
    import re

    text = message(f)
    assert re.search(match, text), text


@pytest.mark.parametrize(("name", "value", "instead"), [("shape", (2, 2), "reshape"), ("dtype", np.float32, "astype")])
def test_attributes_that_numpy_sets_in_place_cannot_be_set(name, value, instead):
    assert f"write x = x.{instead}({name})" in message(lambda x: setattr(x, name, value), error=AttributeError)


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
    assert texts == ["Dual(2.0, tangent=1.0)", "Dual(2.0, tangent=1.0) 2.0", "Var(2.0, node=0)", "Dual([1., 2.], tangent=[0., 1.])"]


def test_numbers_say_whether_they_are_whole():
    f = lambda x: 2.0 * x if x.is_integer() else 3.0 * x
    for x in (2.0, -2.5, np.float64(0.0), float("inf"), float("nan")):
        expected = 2.0 if x.is_integer() else 3.0
        assert [derivative(f)(x), grad(f)(x), jit(grad(f))(x)] == [expected] * 3


def test_rounding_that_tidies_a_result_up_keeps_the_derivative():
    f, coarse = (lambda x: round(x * x, 10)), (lambda x: round(x, 7) * x)
    for verb in (derivative, grad, lambda f: jit(grad(f)), lambda f: grad(jit(f))):
        assert verb(f)(0.1) == 0.2 and verb(coarse)(0.1) == 0.1
    assert jvp(f, (1.0 / 3.0,), (1.0,))[0] == f(1.0 / 3.0) == 0.1111111111 and derivative(derivative(f))(0.1) == 2.0
    assert derivative(lambda x: round(x * 4, -1) * x)(3.0) == 10.0
