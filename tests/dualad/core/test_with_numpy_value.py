"""NumPy's value with the derivative of a body: whatever the body returns it in, none is lost."""

import numpy as np
import pytest

import dualad
from checkpoint import vjp
from dualad import jvp
from dualad.rules.shapes import traced_names
from dualad.testing import check_derivatives

X = np.array([1.7, 0.4])
P = np.poly1d([1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.polyadd(P, x),
        lambda x: np.polysub(x, P),
        lambda x: np.polymul(P, x),
        lambda x: np.polyval(x, P),
        lambda x: np.polydiv(P, x)[0],
        lambda x: np.polydiv(P, x)[1],
    ],
)
def test_a_polynomial_as_an_object_has_traced_coefficients(f):
    assert np.array_equal(dualad.primal(jvp(lambda x: f(x).coeffs, (X,), (X,))[0]), f(X).coeffs)
    check_derivatives(lambda x: f(x).coeffs, X, vjp=vjp)


@pytest.mark.filterwarnings("ignore:packing an object array")
@pytest.mark.parametrize("body", [lambda x: [2.0 * x[0], 2.0 * x[1]], lambda x: np.array([2.0 * x[0], 2.0 * x[1]])])
def test_traced_numbers_in_a_list_or_an_array_of_objects_keep_their_derivatives(body):
    twice = dualad.primitive(lambda x: 2.0 * np.asarray(x))
    dualad.rules.composite(twice, body, with_numpy_value=True)
    check_derivatives(twice, X, vjp=vjp)


def test_code_that_makes_arrays_by_names_that_are_not_known_keeps_derivatives_or_raises(monkeypatch):
    """As a NumPy might whose code is another one."""
    names = traced_names(np.polyadd.__wrapped__.__globals__["__name__"])
    own = names["NX"].concatenate
    for other in (lambda parts: np.array([*parts[0], *parts[1]]), lambda parts: own(parts).astype(float)):
        monkeypatch.setitem(vars(names["NX"]), "concatenate", other)
        np.testing.assert_array_equal(jvp(lambda x: np.polyadd(x, np.ones(3)), (X,), (X,))[1], [0.0, *X])
    monkeypatch.setitem(vars(names["NX"]), "concatenate", lambda parts: np.array([*parts[0], *parts[1]], float))
    with pytest.raises(TypeError, match="derivative"):
        jvp(lambda x: np.polyadd(x, np.ones(3)), (X,), (X,))


def test_as_many_elements_in_another_order_are_no_value():
    turned = dualad.primitive(lambda x: np.reshape(x, (3, 2)))
    dualad.rules.composite(turned, lambda x: x, with_numpy_value=True)
    with pytest.raises(RuntimeError, match=r"its rule in dualad gives shape \(2, 3\), NumPy \(3, 2\)"):
        jvp(turned, (np.ones((2, 3)),), (np.ones((2, 3)),))
