"""Derivatives of and through compiled functions: every verb, every kind of argument, masks, constants, chains."""

import numpy as np
import optree
import pytest
from comparing import close
from test_jit import TABLE, X, wave

import dualad
from checkpoint import chain, grad, hvp, jacobian, linearize, value_and_grad, vjp
from dualad import derivative, hessian, jit, jvp


def loss(x, c=2.0):
    return wave(x, c)[0]


def test_dear_values_are_kept_for_the_pullback_and_cheap_ones_computed_again():
    @jit
    def f(a, b):
        return np.sum(np.sin(np.linalg.solve(a, np.exp(b)))), a @ b

    a, b = np.eye(3) + 0.1 * np.arange(9.0).reshape(3, 3), np.arange(3.0)
    close(*(vjp(g, a, b)[1]((2.0, np.ones(3))) for g in (f, f.f)))
    (entry,) = f.entries.values()
    forward, backward = next(halves for key, halves in entry.compiled.derived.items() if key[0] == "split_forward_backward")
    assert [op.fn for op in forward.program.operations].count(np.linalg.solve) == 1
    names = [op.fn for op in backward.program.operations]
    assert np.exp in names and names.count(np.linalg.solve) == 1  # of the transposed matrix


@pytest.mark.parametrize("constant", [dualad.stop_gradient, dualad.primal])
def test_what_counts_as_a_constant_does_so_when_the_program_is_differentiated(constant):
    def f(x):
        return x * constant(np.sin(x)) + x[::-1] * constant(x[0]) + constant(x.sum())

    def step(k, x):
        return 0.5 * f(x)

    def loss(x):
        return np.sum(f(x) ** 2)

    for through in (f, lambda x: chain(step, x, steps=3)):
        expected = jacobian(through)(X)
        np.testing.assert_allclose(dualad.jacobian(through)(X), expected, rtol=1e-14)
        for derived in (jacobian(jit(through)), dualad.jacobian(jit(through)), jit(jacobian(through)), dualad.jacobian(jit(jit(through)))):
            np.testing.assert_allclose(derived(X), expected, rtol=1e-12)
    np.testing.assert_allclose(
        jacobian(lambda x: chain(jit(step), x, steps=3))(X), jacobian(lambda x: chain(step, x, steps=3))(X), rtol=1e-12
    )
    np.testing.assert_allclose(hessian(jit(loss))(X), hessian(loss)(X), rtol=1e-12)
    assert jit(lambda x: constant(x) * np.float32(2.0))(X[:1]).dtype == float
    assert dualad.sparsity(jit(lambda x: x * constant(np.roll(x, 1))), X).nnz == 5


VERBS = {
    "grad": grad,
    "grad by two": lambda f: lambda x: grad(lambda x, y: f(x) * y**2, argnums=(0, 1))(x, 2.0),
    "value_and_grad": value_and_grad,
    "gradient": dualad.gradient,
    "hessian": hessian,
    "jacobian": lambda f: dualad.jacobian(lambda x: f(x) * x),
    "jacobian in reverse": lambda f: jacobian(lambda x: f(x) * x),
    "vjp": lambda f: lambda x: vjp(lambda x: f(x) * x, x)[1](np.arange(len(x))),
    "jvp": lambda f: lambda x: jvp(f, (x,), (np.arange(len(x)),)),
    "hvp": lambda f: lambda x: hvp(f, x, np.arange(len(x))),
    "jvp of grad": lambda f: lambda x: jvp(grad(f), (x,), (np.arange(len(x)),))[1],
    "linearize": lambda f: lambda x: linearize(f, x)[1](np.arange(len(x))),
    "third derivative": lambda f: lambda x: derivative(lambda t: f(t * x), 3)(1.0),
    "of a tree": lambda f: lambda x: grad(lambda tree: f(tree["x"]))({"x": x}),
}


@pytest.mark.parametrize("name", VERBS)
def test_verbs_of_compiled_functions_and_compiled_verbs_are_the_eager_ones(name):
    verb, expected = VERBS[name], VERBS[name](loss)(X)
    for derived in (verb(jit(loss)), jit(verb(loss)), jit(verb(jit(loss)))):
        close(derived(X), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", [name for name in VERBS if name != "third derivative"])  # which is by a number
def test_integers_and_foreign_byte_orders_are_differentiated_as_eagerly(name):
    def f(x):
        return np.sum(x * x) * x[0] + x[2] ** 2

    verb = VERBS[name]
    for x in (np.array([3, 4, 5]), np.array([3, 4, 5], np.uint8), np.array([3.0, 4.0, 5.0], ">f8"), np.array([3.0, 4.0, 5.0], ">f4")):
        expected = verb(f)(x.astype(float))
        for derived in (verb(f), jit(verb(f)), verb(jit(f))):
            close(derived(x), expected, rtol=1e-6 if x.dtype == ">f4" else 1e-14, dtypes=False)
    for derived in (verb(f), jit(verb(f))):
        with pytest.raises(TypeError, match="has dtype bool, which has no derivative"):
            derived(np.ones(3, bool))


def parts_of_complex(x):
    z = np.zeros_like(x, complex)
    z.real, z.imag = x, x * x
    z.imag[1:] += x[:-1]
    return np.sum(np.abs(np.exp(1j * z)) + (1j * z).real * x)


SIGNS = np.array([-1.0, 0.0, 0.5, 2.0])
#: functions with an argument: what a mask leaves out has no share in a derivative
LOSSES = {
    "divide": (lambda x: np.divide(1.0, x, out=np.zeros_like(x), where=x != 0), SIGNS),
    "divide by itself": (lambda x: np.divide(x, x * 1.0, out=x * 1.0, where=x != 0), SIGNS),
    "log": (lambda x: np.log(x, out=x * x, where=x > 0), SIGNS),
    "power": (lambda x: np.power(x, 0.3, out=np.zeros_like(x), where=x > 0), SIGNS),
    "plain operand": (lambda x: np.divide(np.array([1, 0, 2, 3]), x, out=np.zeros_like(x), where=x != 0), SIGNS),
    "sum": (lambda x: np.sum(x * x, where=x > 0.4), X),
    "mean": (lambda x: np.mean(x, where=x > 0.4, axis=0), X),
    "prod": (lambda x: np.prod(x, where=x > 0.4), X),
    "var": (lambda x: np.var(x, where=x > 0.4, ddof=1), X),
    "std": (lambda x: x.std(where=x > 0.4), X),
    "max": (lambda x: np.max(x, where=x > 0.4, initial=0.25) ** 2, X),
    "add.reduce": (lambda x: np.add.reduce(x * x, where=x > 0.4), X),
    "of a plain array": (lambda x: x[0] * (np.sum(TABLE[:, 0], where=x[:3] > 0.4) + np.mean(TABLE[1], where=x[1:] > 0.4)), X),
    "writes through the parts of complex numbers": (parts_of_complex, X),
}


@pytest.mark.parametrize("name", LOSSES)
def test_derivatives_of_both_orders_are_the_eager_ones(name):
    function, x = LOSSES[name]
    f = lambda x: np.sum(function(x) * np.arange(1.0, 5.0))
    for verb in (grad, dualad.gradient, hessian):
        expected = verb(f)(x)
        assert np.isfinite(expected).all()
        for derived in (verb(jit(f)), jit(verb(f)), verb(jit(f, backend="numpy")), jit(verb(f), backend="numpy")):
            np.testing.assert_allclose(derived(x), expected, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(grad(f)(x), dualad.gradient(f)(x), rtol=1e-12)
    both = jacobian(jit(lambda x: np.stack([f(x), f(x * x)])))(x)
    np.testing.assert_allclose(both[1], grad(lambda x: f(x * x))(x), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("verb", [grad, dualad.gradient])
def test_nan_safe(verb):
    f = jit(lambda x: np.sum(x * np.where(x > 0, np.log(x), 0.0) + 0.0 * np.arctanh(x + 1.0)))
    x = np.array([0.0, 0.5])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(verb(f, nan_safe=True)(x), verb(f.f, nan_safe=True)(x))
        np.testing.assert_array_equal(verb(f)(x), verb(f.f)(x))


def test_outputs_without_derivative_and_inputs_that_are_none():
    f = jit(lambda x, k: (x * k, k + 1, x > 0.5, 7))
    (value, *rest), (tangent, *_) = jvp(lambda x: f(x, 3), (X,), (np.ones(5),))
    np.testing.assert_array_equal(value, 3 * X)
    np.testing.assert_array_equal(tangent, np.full(5, 3.0))
    assert rest[0] == 4 and rest[2] == 7 and not isinstance(rest[1], dualad.Dual)
    np.testing.assert_array_equal(grad(lambda x: np.sum(f(x, 3)[0]))(X), np.full(5, 3.0))


def test_single_precision_stays_single():
    x = X.astype(np.float32)
    assert grad(jit(loss))(x).dtype == np.float32 and jit(grad(loss))(x).dtype == np.float32
    assert jit(lambda x: x * 2.0)(x).dtype == np.float32


def test_an_error_of_the_function_stays_its_own_beside_computed_indices():
    def f(x):
        if np.ndim(x[np.argmax(x[:, 0]), 0]) == 0:
            raise ValueError("of the function")

    with pytest.raises(ValueError, match="of the function"):
        jit(grad(f))(np.ones((2, 2)))


def test_many_cotangents_of_what_a_sort_moves():
    x = np.random.default_rng(0).normal(size=(4, 3))
    f = lambda x: np.sort(x, axis=0)
    np.testing.assert_array_equal(jacobian(jit(f, backend="numpy"))(x), jacobian(f)(x))


CHOSEN = {
    "np.take": lambda x: np.take(x, np.argsort(x[0]), axis=1) ** 2,
    "the method": lambda x: x.take(indices=np.argsort(x.ravel())) ** 2,
    "np.roll": lambda x: np.roll(x, np.argmax(x), 1) ** 2,
    "np.choose": lambda x: np.choose((x > 0.0) * 1, [x * x, 3.0 * x]),
}


@pytest.mark.parametrize("name", CHOSEN)
def test_plain_tangents_are_chosen_by_traced_integers(name):
    f, x = CHOSEN[name], np.array([[0.3, -1.2, 0.8], [-0.4, 2.0, 0.1]])
    assert np.array_equal(jit(f, backend="numpy")(x), f(x))
    for verb in (
        lambda x: jvp(f, (x,), (np.ones_like(x),))[1],
        dualad.jacobian(f),
        lambda x: jvp(dualad.jacobian(f), (x,), (X[:3] + x,))[1],
    ):
        assert np.array_equal(jit(verb, backend="numpy")(x), verb(x))


def test_directions_through_a_sweep_that_writes_row_by_row():
    def f(x):
        v = x * 1.0
        for _ in range(3):
            for i in range(1, 5):
                v[i] = 0.5 * (v[i - 1] + v[i + 1]) + 0.1 * np.sin(x[i])
        return np.sum(v**3)

    x = np.array([0.3, 0.5, 0.7, 0.2, -0.4, 0.9])
    np.testing.assert_allclose(jit(hessian(f))(x), hessian(f)(x), rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("x", [3.0, np.float64(3.0), [1.0, 2.0], {"a": 2.0, "b": np.float64(0.5)}], ids=repr)
def test_derivatives_by_floats_of_python_are_floats_of_python(x):
    def f(x):
        leaves = optree.tree_leaves(x)
        return np.sin(leaves[0]) * leaves[-1] if leaves[0] > 0.5 else leaves[0]

    verbs = [grad(f), value_and_grad(f)] + [derivative(f), lambda x: jvp(f, (x,), (2.0,))] * (type(x) not in (list, dict))
    for verb in verbs:
        told = [[type(leaf) for leaf in optree.tree_leaves(one(x))] for one in (jit(verb, backend="numpy"), verb)]
        assert told[0] == told[1]
