"""Dual numbers: arithmetic by hand, levels, confusion, threads, exceptions, escaped values, precision."""

import contextlib
import copy
import pickle
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from in_groups import for_each

from checkpoint import grad, vjp
from dualad import Dual, derivative, gradient, hessian, jacobian, jit, jvp, primal
from dualad.core.levels import Level

D = derivative


# --- made by hand -----------------------------------------------------------------------------------------------------------


def test_dual_numbers_by_hand():
    x, y = Dual(2.0, 1.0), Dual(3.0)
    z = x * y + x / y - np.sin(x)
    assert (z.primal, z.tangent) == (2 * 3 + 2 / 3 - np.sin(2), 3 + 1 / 3 - np.cos(2))
    assert (y * y).tangent is None
    assert repr(x * x) == "Dual(4.0, tangent=4.0)" and repr(y) == "Dual(3.0, tangent=0.0)"
    assert str(Dual(np.array([1.0, 2.0]), np.array([0.0, 1.0]))) == "Dual([1., 2.], tangent=[0., 1.])"


def test_the_defining_relation():
    """eps**2 is 0."""
    eps = Dual(0.0, 1.0)
    assert ((eps * eps).primal, (eps * eps).tangent) == (0.0, 0.0)
    z = (2.0 + 3.0 * eps) * (5.0 + 7.0 * eps)
    assert (z.primal, z.tangent) == (10.0, 2 * 7 + 3 * 5)


def test_a_dual_copies_its_arrays():
    a, t = np.ones(3), np.ones(3)
    x = Dual(a, t)
    a[0] = t[0] = 9.0
    assert x.primal.tolist() == x.tangent.tolist() == [1.0, 1.0, 1.0]
    assert Dual(2, 1).primal == 2.0 and type(Dual(2).primal) is float
    assert Dual(np.array([1, 2])).dtype == float


@pytest.mark.parametrize(
    ("args", "error", "match"),
    [
        (("a",), TypeError, "primal is 'a', which is not a number"),
        ((None,), TypeError, "primal is None"),
        ((True,), TypeError, "primal is True"),
        (([1.0],), TypeError, "of type list"),
        ((np.array(["a"]),), TypeError, "dtype <U1, which has no derivative"),
        ((1.0, np.ones(2)), ValueError, r"tangent has shape \(2,\), primal has shape \(\)"),
        ((np.ones(2), np.ones(3)), ValueError, "give a tangent of the primal's shape"),
        ((1.0, "t"), TypeError, "tangent is 't'"),
    ],
)
def test_wrong_duals(args, error, match):
    with pytest.raises(error, match=match):
        Dual(*args)


# --- confusion --------------------------------------------------------------------------------------------------------------


def test_perturbation_confusion():
    assert D(lambda x: x * D(lambda y: x + y)(1.0))(1.0) == 1.0
    assert D(lambda x: D(lambda y: x)(x))(1.0) == 0.0
    assert D(lambda x: x * D(lambda y: x * y)(2.0))(4.0) == 8.0
    assert D(lambda x: D(lambda y: x * y * y)(x))(3.0) == 4 * 3.0
    assert D(lambda x: D(lambda y: D(lambda z: x * y * z)(1.0))(1.0))(1.0) == 1.0


def test_confusion_through_a_function_that_makes_functions():
    """Siskind & Pearlmutter 2005: d/dx of a derivative at a point that depends on x."""

    def shifted(f, a):
        return lambda x: f(x + a)

    first = D(lambda a: D(shifted(lambda x: x * x * x, a))(2.0))
    assert first(1.0) == 6 * 3.0
    assert D(lambda a: grad(shifted(lambda x: x * x * x, a))(2.0))(1.0) == 6 * 3.0
    assert grad(lambda a: D(shifted(lambda x: x * x * x, a))(2.0))(1.0) == 6 * 3.0


def test_confusion_of_arrays():
    x = np.array([1.0, 2.0, 3.0])
    f = lambda x: np.sum(x * gradient(lambda y: np.sum(x * y * y))(x))
    np.testing.assert_allclose(gradient(f)(x), 6 * x * x)
    np.testing.assert_allclose(grad(f)(x), 6 * x * x)
    np.testing.assert_allclose(jacobian(lambda x: jacobian(lambda y: x * y)(x) @ x)(x), np.diag(2 * x))
    np.testing.assert_allclose(
        jacobian(lambda x: jacobian(lambda y: x[0] * y, chunk=2)(x) @ x, chunk=1)(x), x[0] * np.eye(3) + np.outer(x, [1, 0, 0])
    )


def test_the_same_derivative_nested_in_itself():
    def f(x, depth=3):
        return x**3 if depth == 0 else D(lambda y: f(y, depth - 1) * x)(x)

    assert D(lambda x: f(x, 1))(2.0) == pytest.approx(D(lambda x: 3 * x**3)(2.0))


def test_threads_nest_without_confusion():
    barrier, results = threading.Barrier(4, timeout=30), {}

    def run(k):
        def inner(x, y):
            barrier.wait()
            return x * y

        for _ in range(5):
            results[k] = D(lambda x: x * D(lambda y: inner(x, y))(2.0))(float(k))

    threads = [threading.Thread(target=run, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {k: 2.0 * k for k in range(4)}


def test_a_thread_inside_a_derivative():
    def f(x):
        box = []
        thread = threading.Thread(target=lambda: box.append(x * D(lambda y: x * y)(1.0)))
        thread.start()
        thread.join()
        return box[0]

    assert D(f)(3.0) == 6.0


def test_an_exception_leaves_no_level_behind():
    def broken(y):
        raise KeyError("in the middle")

    def f(x):
        with contextlib.suppress(KeyError):
            D(broken)(x)
        return x * D(lambda y: x + y)(1.0)

    assert D(f)(1.0) == 1.0
    with pytest.raises(KeyError, match="in the middle"):
        jacobian(broken)(np.ones(2))
    assert D(lambda x: x * x)(3.0) == 6.0


def test_levels_are_fresh_and_closed():
    a, b = Level(), Level()
    assert b.id > a.id and a.alive
    with pytest.raises(ValueError, match="stop"), Level() as level:
        raise ValueError("stop")
    assert not level.alive
    with pytest.raises(RuntimeError, match="after the derivative call"):
        level.check()


# --- escaped values -----------------------------------------------------------------------------------------------------------

ESCAPES = {
    "+": lambda x: x + 1.0,
    "*": lambda x: x * x,
    "ufunc": np.sin,
    "function": np.sum,
    "getitem": lambda x: x[0],
    "setitem": lambda x: x.__setitem__(0, 1.0),
    "bool": lambda x: bool(x[0] > 0),
    "comparison": lambda x: x > 0,
    "negative": lambda x: -x,
    "matmul": lambda x: x @ x,
    "augmented": lambda x: x.__iadd__(1.0),
    "method": lambda x: x.sum(),
    "inner": lambda x: D(lambda y: np.sum(y * x))(1.0),
    "plain first": lambda x: np.ones(3) * x,
    "list": lambda x: np.stack([x, x]),
    "constant": lambda x: np.argmax(x),
}


@for_each("use", ESCAPES)
@pytest.mark.parametrize("keep", ["forward", "directions", "reverse"])
def test_a_value_that_escaped_raises_when_it_is_met_again(use, keep):
    kept = []
    run = {
        "forward": lambda f: jvp(f, (np.ones(3),), (np.ones(3),)),
        "directions": lambda f: jacobian(f)(np.ones(3)),
        "reverse": lambda f: vjp(f, np.ones(3)),
    }[keep]
    run(lambda x: kept.append(x) or x * 2.0)
    with pytest.raises(RuntimeError, match=r"used after the derivative call that made it has returned.*dualad\.primal"):
        ESCAPES[use](kept[0])


def test_an_escaped_scalar_raises():
    kept = []
    D(lambda x: kept.append(x) or x)(2.0)
    for use in (
        lambda x: x + 1.0,
        lambda x: 1.0 - x,
        lambda x: x * x,
        lambda x: x**2,
        lambda x: 2.0 / x,
        abs,
        np.sin,
        bool,
        int,
        lambda x: x > 1,
        lambda x: D(lambda y: x * y)(1.0),
    ):
        with pytest.raises(RuntimeError, match="used after the derivative call"):
            use(kept[0])
    assert primal(kept[0]) == 2.0


def test_duals_are_not_pickled_but_copied():
    def f(x):
        with pytest.raises(TypeError, match=r"cannot be pickled.*dualad\.primal"):
            pickle.dumps(x)
        y = copy.deepcopy({"x": x})["x"]
        y[0] = 0.0
        return x * copy.copy(x)

    np.testing.assert_array_equal(jvp(f, (np.ones(2),), (np.ones(2),))[1], [2.0, 2.0])


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
@pytest.mark.parametrize("verb", [gradient, grad, lambda f: jit(grad(f))])
def test_a_copy_of_an_array_is_its_own_and_keeps_the_derivative(copied, verb):
    """Also of order 2, and of one of shape (), which is written in place, too."""

    def f(x):
        cell = np.zeros((), like=x)
        cell[...] = x[0]
        y, z = copied(x), copied(cell)
        x, cell[...] = 1.0 * x, 7.0 * x[1]
        x[0] = 5.0
        return np.sum(y**3) + z * z

    x = np.array([2.0, 3.0])
    expected = np.array([3.0 * 4.0 + 2.0 * 2.0, 3.0 * 9.0])
    np.testing.assert_array_equal(verb(f)(x), expected)
    np.testing.assert_array_equal(jacobian(verb(f))(x), np.diag([6.0 * 2.0 + 2.0, 6.0 * 3.0]))


# --- zero tangents -------------------------------------------------------------------------------------------------------------


def test_a_path_that_is_not_perturbed_has_no_tangent():
    seen = []

    def f(x, y):
        seen.append((x * 2.0).tangent is None)
        return np.sqrt(x) * y

    value, tangent = jacobian(lambda y: f(Dual(0.0), y))(np.ones(2)), None
    assert tangent is None and value.tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert seen == [True]


# --- precision -----------------------------------------------------------------------------------------------------------------


@given(
    dtype=st.sampled_from([np.float16, np.float32, np.float64, np.complex64, np.complex128]),
    shape=hnp.array_shapes(min_dims=0, max_dims=3, max_side=3),
    f=st.sampled_from(
        [
            lambda x: x * 2.0,
            lambda x: 1 / x,
            lambda x: x**2,
            lambda x: x - 1,
            np.exp,
            lambda x: np.sum(x),
            lambda x: x[None] * x,
            lambda x: np.sqrt(x) + 3,
            lambda x: -x,
            lambda x: np.float32(2) * x,
            lambda x: x * np.ones(np.shape(x), np.float16),
            lambda x: np.mean(x, axis=-1, keepdims=True) if np.ndim(x) else x,
        ]
    ),
)
def test_dtypes_are_those_of_numpy(dtype, shape, f):
    x = np.full(shape, 0.5, dtype)
    expected = np.asarray(f(x))
    value, tangent = jvp(f, (x,), (x,))
    assert np.asarray(value).dtype == np.asarray(tangent).dtype == expected.dtype
    assert np.shape(value) == np.shape(tangent) == expected.shape
    assert vjp(f, x)[1](np.ones_like(expected)[()])[0].dtype == dtype


# --- no elements ----------------------------------------------------------------------------------------------------------------


def test_empty_arrays():
    x = np.zeros((0, 3))
    assert jvp(np.sin, (x,), (x,))[1].shape == (0, 3)
    assert jacobian(lambda x: x * 2.0)(x).shape == (0, 3, 0, 3)
    assert gradient(lambda x: np.sum(x * x))(x).shape == (0, 3)
    assert grad(lambda x: np.sum(x * x))(x).shape == (0, 3)
    assert hessian(lambda x: np.sum(x * x))(np.zeros(0)).shape == (0, 0)
    assert jvp(lambda x: np.concatenate([x, np.ones((2, 3)) * np.sum(x)]), (x,), (x,))[1].shape == (2, 3)
