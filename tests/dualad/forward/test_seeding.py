"""What the verbs share: as decorators with options, flags that are no flags."""

import numpy as np
import pytest

import checkpoint
import dualad

X = np.array([1.0, 2.0])
CURRIED = {
    f"{package.__name__}.{name}": getattr(package, name)
    for package, names in (
        (dualad, "derivative value_and_derivative gradient value_and_gradient jacobian value_and_jacobian hessian"),
        (checkpoint, "grad value_and_grad jacobian hessian"),
    )
    for name in names.split()
}
ONCE = {
    "jvp": lambda **flags: dualad.jvp(np.sum, (X,), (X,), **flags),
    "vjp": lambda **flags: checkpoint.vjp(np.sum, X, **flags),
    "linearize": lambda **flags: checkpoint.linearize(np.sum, X, **flags),
    "hvp": lambda **flags: checkpoint.hvp(np.sum, X, X, **flags),
    "jacobian_columns": lambda **flags: dualad.jacobian_columns(np.sin, X, **flags),
    "jacobian_rows": lambda **flags: checkpoint.jacobian_rows(np.sin, X, **flags),
    "map_gradients": lambda **flags: checkpoint.map_gradients(np.sum, [X], **flags),
}


@pytest.mark.parametrize("name", CURRIED)
def test_a_verb_without_a_function_is_a_decorator(name):
    verb = CURRIED[name]
    x = 2.0 if "derivative" in name else X

    @verb(nan_safe=True)
    def decorated(x):
        """Text."""
        return np.sum(x**3)

    assert decorated.__name__ == "decorated" and decorated.__doc__ == "Text."
    plain = verb(lambda x: np.sum(x**3))
    for result, same in ((decorated(x), plain(x)), (verb()(lambda x: np.sum(x**3))(x), plain(x))):
        for a, b in zip(result if isinstance(result, tuple) else (result,), same if isinstance(same, tuple) else (same,), strict=True):
            np.testing.assert_array_equal(a, b)
    with pytest.raises(TypeError, match=rf"^{verb.__name__}: the first argument is int 3, not a function"):
        verb(nan_safe=True)(3)


def test_positions_are_options_of_the_decorator():
    @checkpoint.grad(argnums=(0, 1))
    def slopes(x, y):
        return x * y**2

    assert slopes(2.0, 3.0) == (9.0, 12.0)


@pytest.mark.parametrize("given", ["no", 1, None], ids=repr)
@pytest.mark.parametrize("name", CURRIED)
def test_flags_of_verbs_are_true_or_false(name, given):
    with pytest.raises(TypeError, match=rf"^{CURRIED[name].__name__}: nan_safe must be True or False, got {given!r}"):
        CURRIED[name](np.sum, nan_safe=given)


@pytest.mark.parametrize("name", ONCE)
def test_flags_of_calls_are_true_or_false(name):
    with pytest.raises(TypeError, match=rf"^{name}: nan_safe must be True or False, got 'no'"):
        ONCE[name](nan_safe="no")


VIEWS = {
    "itself": lambda x: (x,),
    "twice": lambda x: (x, x),
    "parts": lambda x: (x[:1], x[1:]),
    "reversed": lambda x: (x[::-1],),
    "reshaped": lambda x: (np.reshape(x, (3, 2)), x.T),
    "of a new one": lambda x: ((2.0 * x)[1:],),
    "broadcast": lambda x: (np.broadcast_to(x[0], (4, 3)),),
}


@pytest.mark.parametrize("name", VIEWS)
def test_tangents_and_cotangents_share_no_memory(name):
    x, v = np.arange(6.0).reshape(2, 3), np.ones((2, 3))
    tangents = dualad.jvp(VIEWS[name], (x,), (v,))[1]
    value, pull = checkpoint.vjp(VIEWS[name], x)
    for array, *others in ((tangents[0], v, *tangents[1:]), (pull(value)[0], *value)):
        assert array.flags.writeable and not any(np.shares_memory(array, other) for other in others)
        assert array.base is None or array.base.size == array.size
    for tangent, part in zip(tangents, VIEWS[name](v), strict=True):
        np.testing.assert_array_equal(tangent, part)
