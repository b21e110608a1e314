"""Rules that users give: one definition serves every mode; what is missing or wrong says so."""

from functools import partial

import numpy as np
import pytest

import dualad
from checkpoint import chain, grad, hvp, vjp
from checkpoint import jacobian as reverse_jacobian
from dualad import derivative, jacobian, jvp, primitive, rules
from dualad.rules.kinds import ROWS
from dualad.testing import check_derivatives


@pytest.fixture(autouse=True)
def table_as_it_was():
    before = dict(ROWS)
    yield
    for fn in set(ROWS) - set(before):
        del ROWS[fn]


X = np.array([0.3, 1.2, -0.7])


def make_softplus():
    @primitive
    def softplus(x):
        assert not isinstance(x, dualad.Dual)
        return np.logaddexp(x, 0.0)

    rules.elementwise(softplus, lambda ans, x: 1.0 / (1.0 + np.exp(-x)))
    return softplus


def test_elementwise_rule_serves_every_mode():
    softplus = make_softplus()
    check_derivatives(softplus, X, vjp=vjp)
    assert derivative(softplus, order=2)(0.0) == pytest.approx(0.25)
    f = lambda x: np.sum(softplus(x) ** 2)
    np.testing.assert_allclose(hvp(f, X, X), dualad.hessian(f)(X) @ X)
    g = lambda x: np.sum(chain(lambda k, y: softplus(y) - 0.5, x, steps=5))
    np.testing.assert_allclose(grad(g)(X), dualad.gradient(g)(X))


def test_linear_and_explicit_rules():
    @primitive
    def reverse(x):
        return x[::-1].copy()

    rules.linear(reverse, lambda g, x: reverse(g))
    for differentiate in (jacobian, reverse_jacobian):
        np.testing.assert_array_equal(differentiate(reverse)(X), np.eye(3)[::-1])
        np.testing.assert_array_equal(differentiate(lambda x: reverse(np.stack([x, 2.0 * x])))(X)[0], 2.0 * np.eye(3))

    @primitive
    def scaled(x, c):
        return x * c

    rules.explicit(
        scaled, (lambda t, ans, x, c: t * c, lambda t, ans, x, c: x * t), (lambda g, ans, x, c: g * c, lambda g, ans, x, c: np.sum(g * x))
    )
    check_derivatives(scaled, X, 1.5, vjp=vjp)


def test_black_box_with_one_mode_only():
    @primitive
    def pushed(x):
        return np.sin(x)

    rules.explicit(pushed, jvp=lambda t, ans, x: np.cos(x) * t)
    assert derivative(pushed)(0.0) == 1.0
    with pytest.raises(TypeError, match=r"pushed has no VJP with respect to its argument 'x'"):
        grad(pushed)(0.0)

    @primitive
    def pulled(x):
        return np.sin(x)

    rules.explicit(pulled, vjp=lambda g, ans, x: np.cos(x) * g)
    assert grad(pulled)(0.0) == 1.0
    with pytest.raises(TypeError, match=r"pulled has no JVP"):
        derivative(pulled)(0.0)


def test_primitive_without_a_rule_and_two_rules():
    @primitive
    def bare(x):
        return x

    assert bare(2.0) == 2.0
    with pytest.raises(TypeError, match="bare has no derivative rule"):
        derivative(bare)(2.0)
    softplus = make_softplus()
    with pytest.raises(ValueError, match=r"softplus has a row already \(elementwise\)"):
        rules.elementwise(softplus, lambda ans, x: x)
    with pytest.raises(ValueError, match=r"numpy\.sin has a row already \(elementwise\)"):
        rules.constant(np.sin)


def test_an_unknown_option_is_named():
    """A misspelt one would be a rule that is not followed."""
    fn = dualad.primitive(lambda x: x)
    with pytest.raises(TypeError, match="has no option 'restated'"):
        dualad.rules.composite(fn, lambda x: x, restated=True)
    with pytest.raises(TypeError, match="has no option 'singlar'"):
        dualad.rules.elementwise(fn, lambda ans, x: 1.0, singlar=True)


def test_rules_of_the_wrong_shape_are_named():
    @primitive
    def total(x):
        return np.sum(x)

    rules.explicit(total, lambda t, ans, x: t, lambda g, ans, x: g)
    with pytest.raises(ValueError, match=r"rule of .*total.* tangent of shape \(3,\).*value has shape \(\)"):
        jvp(total, (X,), (X,))
    with pytest.raises(ValueError, match=r"rule of .*total.* cotangent of shape \(\).*argument 0 has shape \(3,\)"):
        grad(total)(X)


def test_buffers_that_a_rule_hands_out_are_not_written():
    table = np.array([1.0, 2.0, 3.0])

    @primitive
    def weighted(x):
        return x * table

    rules.elementwise(weighted, lambda ans, x: table)
    jvp(lambda x: weighted(weighted(x)) + weighted(x), (X,), (X,))
    grad(lambda x: np.sum(weighted(weighted(x)) + weighted(x)))(X)
    np.testing.assert_array_equal(table, [1.0, 2.0, 3.0])


def test_several_results_of_several_arguments():
    @primitive
    def both(a, b):
        return a * b, a / b

    jvps = (lambda t, ans, a, b: (t * b, t / b)), (lambda t, ans, a, b: (a * t, -a * t / b**2))
    vjps = (lambda g, ans, a, b: g[0] * b + g[1] / b), (lambda g, ans, a, b: g[0] * a - g[1] * a / b**2)
    rules.explicit(both, jvps, vjps)
    x, t = np.array([0.5, 1.5]), np.array([1.0, -2.0])
    f, plain = (lambda x: both(np.sin(x), np.exp(x))), (lambda x: (np.sin(x) * np.exp(x), np.sin(x) / np.exp(x)))
    for made, wanted in zip(jvp(f, (x,), (t,))[1], jvp(plain, (x,), (t,))[1], strict=True):
        np.testing.assert_allclose(made, wanted, rtol=1e-14)
    check_derivatives(lambda x: f(x)[0] * f(x)[1], x)


def test_argument_without_a_derivative():
    @primitive
    def order(x, n):
        return x**n

    rules.elementwise(order, lambda ans, x, n: n * x ** (n - 1), None)
    assert derivative(lambda x: order(x, 3))(2.0) == 12.0
    with pytest.raises(TypeError, match="'n'"):
        derivative(lambda n: order(2.0, n))(3.0)


class Scaled:
    """Partials that are methods: their code has one argument more."""

    def by_x(self, ans, x, y):
        return y * np.cos(x)

    def by_y(self, ans, x, y):
        return np.sin(x)


def large(x, y):
    return bool(np.any(np.greater(y, 100.0)))


@pytest.mark.parametrize("n", [0, 5, 1000])
@pytest.mark.parametrize(
    ("by_x", "by_y", "options"),
    [
        (Scaled().by_x, Scaled().by_y, {}),
        (partial(Scaled.by_x, None), partial(Scaled.by_y, None), {}),
        (lambda ans, x, y: np.cos(x) * ans / np.sin(x), lambda ans, x, y: np.sin(x), {"singular": large}),
        (lambda ans, x, *rest: rest[0] * np.cos(x), lambda *args: np.sin(args[1]), {}),
        (lambda ans, x, y: next(y * np.cos(z) for z in [x]), lambda ans, x, y: (lambda: np.sin(x))(), {}),
    ],
)
def test_what_a_partial_reads_is_held(by_x, by_y, options, n):
    @primitive
    def scaled(x, y):
        return y * np.sin(x)

    rules.elementwise(scaled, by_x, by_y, **options)
    x, y = (np.linspace(0.5, 1.0, n), np.linspace(1.0, 2.0, n)) if n else (0.5, 2.0)
    for f in (lambda x, y: scaled(x, y), lambda x, y: scaled(x, y * 1.0) * 2.0):
        got = grad(lambda x, y: np.sum(f(x, y)), argnums=(0, 1))(x, y)
        np.testing.assert_allclose(got, dualad.gradient(lambda x, y: np.sum(f(x, y)), argnums=(0, 1))(x, y), rtol=1e-12)
        np.testing.assert_allclose(grad(lambda x: np.sum(f(x, y)))(x), got[0])
        np.testing.assert_allclose(grad(lambda y: np.sum(f(x, y)))(y), got[1])


# --- keywords and defaults ----------------------------------------------------------------------------------------------------


def make_parabola(kind):
    """A function of a default and a keyword-only argument: k x**2 y."""

    @primitive
    def parabola(x, y=2.0, *, k=1.0):
        assert not isinstance(x, dualad.Dual)
        return k * x**2 * y

    if kind == "elementwise":
        rules.elementwise(parabola, lambda ans, x, y, *, k: 2 * k * x * y, lambda ans, x, y, *, k: k * x**2)
    else:
        rules.explicit(
            parabola,
            (lambda t, ans, x, y, *, k: 2 * k * x * y * t, lambda t, ans, x, y, *, k: k * x**2 * t),
            (lambda g, ans, x, y, *, k: 2 * k * x * y * g, lambda g, ans, x, y, *, k: k * x**2 * g),
        )
    return parabola


@pytest.mark.parametrize("kind", ["elementwise", "explicit"])
@pytest.mark.parametrize("n", [0, 3, 1000])
def test_rules_get_keywords_and_defaults(kind, n):
    f = make_parabola(kind)
    one = np.ones(n) if n else 1.0
    for call, by_x, by_y in (
        (lambda x, y: f(x), 6.0, 0.0),
        (lambda x, y: f(x, y), 15.0, 2.25),
        (lambda x, y: f(x, y=y), 15.0, 2.25),
        (lambda x, y: f(y=y, x=x, k=3.0), 45.0, 6.75),
        (lambda x, y: f(x, 5.0, k=3.0), 45.0, 0.0),
        (lambda x, y: f(x, y=5.0), 15.0, 0.0),
        (lambda x, y: f(1.5, y=y, k=3.0), 0.0, 6.75),
    ):
        x, y = 1.5 * one, 5.0 * one
        for i, expected in enumerate((by_x, by_y)):
            for gradient in (grad, dualad.gradient):
                got = gradient(lambda x, y: np.sum(call(x, y)), argnums=i)(x, y) if gradient is grad or n < 9 else expected * one
                np.testing.assert_allclose(got, expected * one)
    np.testing.assert_allclose(hvp(lambda x: np.sum(f(x, k=3.0)), 1.5 * one, one), 12.0 * one)


def test_a_rule_of_fewer_parameters_takes_their_defaults_only():
    @primitive
    def squared(x, tolerance=1e-6, *, name="square"):
        return x * x

    rules.elementwise(squared, lambda ans, x: 2 * x)

    @primitive
    def doubled(x, tolerance=1e-6, *, name="double"):
        return 2.0 * x

    rules.linear(doubled, lambda g, x: 2.0 * g)
    for f, expected in ((squared, 3.0), (doubled, 2.0)):
        for d in (derivative, grad):
            assert d(f)(1.5) == expected
            with pytest.raises(TypeError, match=f"{f.__name__}: its rule does not accept the argument 'tolerance', which is 0.1 here"):
                d(lambda x: f(x, 0.1))(1.5)
            with pytest.raises(TypeError, match="argument 'name'"):
                d(lambda x: f(x, name="other"))(1.5)


def test_bilinear_rules_get_keywords():
    @primitive
    def scaled_product(a, b, *, factor=1.0):
        return factor * a * b

    rules.bilinear(scaled_product, lambda g, a, b, factor: factor * g * b, lambda g, a, b, factor: factor * g * a)
    check_derivatives(lambda a, b: scaled_product(a, b=b, factor=3.0), X, X[::-1].copy(), vjp=vjp)
    check_derivatives(lambda a: scaled_product(a, a), X, vjp=vjp)
    for differentiate in (jacobian, reverse_jacobian):  # the directions are looped over
        np.testing.assert_array_equal(differentiate(lambda a: scaled_product(a, b=X, factor=3.0))(X[::-1].copy()), np.diag(3.0 * X))


def test_wrong_calls_name_the_function():
    f = make_parabola("elementwise")
    with pytest.raises(TypeError, match=r"parabola: got an unexpected keyword argument 'z'"):
        derivative(lambda x: f(x, z=1.0))(1.5)
    with pytest.raises(TypeError, match="no derivative with respect to its argument 'k'"):
        derivative(lambda k: f(1.5, k=k))(1.5)
