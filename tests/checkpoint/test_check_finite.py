"""check_finite=: one warning that names the step, the operation and the line where a value or a gradient stops being finite."""

import warnings

import numpy as np
import pytest

import checkpoint as ck
import dualad

X = np.array([1.5, 1.0])


def warned(call):
    """Return the result of a call, and the texts of its warnings of ours."""
    with warnings.catch_warnings(record=True) as caught, np.errstate(all="ignore"):
        warnings.simplefilter("always")
        result = call()
    return result, [str(warning.message) for warning in caught if warning.category is UserWarning]


def logarithms(x):
    y = x - 1.0
    return np.sum(np.log(y))


def squared(k, x, a):
    return x * x * a


@pytest.mark.parametrize("verb", [ck.grad, ck.value_and_grad])
def test_the_operation_and_its_line_are_named(verb):
    found, (text,) = warned(lambda: verb(logarithms, check_finite=True)(X))
    expected, none = warned(lambda: verb(logarithms)(X))
    assert none == [] and repr(found) == repr(expected)
    said = f"{verb.__name__}: the value or the gradient is not finite: numpy.log (operation 2) gave the value -inf at index (1,)"
    assert text.startswith(said) and text.endswith(f":{logarithms.__code__.co_firstlineno + 2}")


def test_a_gradient_that_is_not_finite_where_the_value_is():
    _, (text,) = warned(lambda: ck.grad(lambda x: np.sum(np.sqrt(x - 1.0)), check_finite=True)(X))
    assert "numpy.sqrt (operation 2) gave the tangent inf at index (1,), of the operands 0.0" in text
    overflowing = ck.grad(lambda x: 1e300 * (1e-300 * (1e300 * (x * 1e10)) * 1e-10) * 1e-300, check_finite=True)
    _, (text,) = warned(lambda: overflowing(1.0))
    assert "value inf" in text or "cotangent" in text


def test_finite_values_are_evaluated_once_and_say_nothing():
    calls = []

    def f(x, scale):
        calls.append(x)
        return scale * np.sum(x * x), {"kept": "as it is"}

    (result, aux), texts = warned(lambda: ck.grad(f, check_finite=True, has_aux=True)(X, 2.0))
    assert np.array_equal(result, 4.0 * X) and aux == {"kept": "as it is"} and texts == [] and len(calls) == 1
    assert warned(lambda: ck.chain(squared, X, 0.5, steps=3, check_finite=True))[1] == []


@pytest.mark.parametrize("compiled", [False, True])
def test_the_step_of_a_chain_is_named(compiled):
    step = dualad.jit(squared) if compiled else squared
    place = f"of a chain, in squared, {__file__}:{squared.__code__.co_firstlineno + 1}"

    def chained(x, **options):
        return ck.chain(step, x, 2.0, steps=20, **options)

    loss = lambda x, **options: np.sum(chained(x, **options))
    for call in (
        lambda: chained(X, check_finite=True),
        lambda: ck.chain(step, X, 2.0, until=lambda k, x: k == 20, check_finite=True),
        lambda: dualad.jvp(lambda x: chained(x, check_finite=True), (X,), (X,)),
        lambda: ck.grad(lambda x: loss(x, check_finite=True))(X),
    ):
        _, (text,) = warned(call)
        assert text.startswith("chain: the result is not finite: numpy.multiply") and f"; step 9 {place}" in text, text
    _, (text,) = warned(lambda: ck.value_and_grad(loss, check_finite=True)(X))
    assert text.startswith("value_and_grad: ") and f"; step 9 {place}" in text


def test_outputs_inputs_and_leaves_that_are_no_numbers():
    def step(k, state, u):
        x, name = state
        return (0.5 * x + u, name), np.log(x - 2.0)

    inputs = np.array([3.0, 2.0, -0.5, 1.0])
    (_, outs), (text,) = warned(lambda: ck.chain(step, (2.5, "level"), inputs=inputs, outputs=True, check_finite=True))
    assert np.isnan(outs[3]) and "numpy.log" in text and "step 3 of a chain" in text


def test_explain_nan_names_the_step():
    report = dualad.explain_nan(lambda x: ck.chain(lambda k, x: np.sqrt(x - 1.0) if k == 3 else 1.0 * x, x, steps=6), X)
    assert "gave the tangent inf" in report and "; step 3 of a chain, in " in report


def test_what_is_compiled_around_it_is_not_looked_at():
    compiled = dualad.jit(ck.grad(logarithms, check_finite=True))
    assert warned(lambda: compiled(X))[1] == []


def test_what_is_no_flag_raises():
    with pytest.raises(TypeError, match="grad: check_finite"):
        ck.grad(logarithms, check_finite="yes")
    with pytest.raises(TypeError, match="chain: check_finite"):
        ck.chain(squared, X, 2.0, steps=1, check_finite=1.5)
