"""Methods of ufuncs: axes as NumPy takes them, sums in NumPy's order."""

import numpy as np
import pytest
from in_groups import for_each

from checkpoint import grad, vjp
from dualad import jit, jvp
from dualad.testing import check_derivatives

A = np.random.default_rng(5).standard_normal((4, 3))
UFUNCS = [np.add, np.multiply, np.subtract, np.hypot, np.maximum, np.minimum, np.logaddexp, np.logaddexp2, np.fmin]


@pytest.mark.parametrize("ufunc", UFUNCS)
@for_each("axis", [0, (0,), (-1,), (1,), None, (), (0, 1)], str)
@pytest.mark.parametrize("method", ["accumulate", "reduceat", "reduce"])
def test_axes_of_methods_as_numpy_takes_them(ufunc, axis, method):
    def call(x):
        return ufunc.reduceat(x, [0, 2], axis=axis) if method == "reduceat" else getattr(ufunc, method)(x, axis=axis)

    for x in (A, A[0], A[:, ::-1]):
        try:
            plain = call(x)
        except ValueError:  # an AxisError, too
            with pytest.raises(ValueError, match="ax"):
                jvp(call, (x,), (x,))
            continue
        np.testing.assert_array_equal(jvp(call, (x,), (x,))[0], plain)
        check_derivatives(call, x, vjp=vjp)


@pytest.mark.parametrize("ufunc", UFUNCS)
def test_outer_products_and_kept_axes(ufunc):
    b = np.array([0.7, -1.4])
    for f in (
        lambda x: ufunc.outer(x, b),
        lambda x: ufunc.outer(b, x),
        lambda x: ufunc.outer(x[0], x[:, 1]),
        lambda x: ufunc.reduce(x, axis=1, keepdims=True),
        lambda x: ufunc.reduce(x),
    ):
        np.testing.assert_array_equal(jvp(f, (A,), (A,))[0], f(A))
        check_derivatives(f, A, vjp=vjp)


@pytest.mark.parametrize("f", [np.divide.accumulate, lambda x: np.divide.reduceat(x, [0, 1]), np.arctan2.reduce])
def test_methods_of_other_ufuncs_are_refused_or_right(f):
    try:
        check_derivatives(f, 2.0 + A / 4.0, vjp=vjp)
    except TypeError as error:
        assert "has no derivative rule in dualad" in str(error)


def test_the_reduction_of_one_element_begins_with_the_identity():
    """``np.hypot.reduce([-2.0])`` is hypot(0, -2)."""
    x = np.array([-2.0])
    assert np.hypot.reduce(x) == 2.0
    assert jvp(np.hypot.reduce, (x,), (np.ones(1),)) == (2.0, -1.0)
    assert jvp(lambda x: np.hypot.reduceat(x, [0]), (x,), (np.ones(1),)) == (-2.0, 1.0)


@pytest.mark.parametrize("ufunc", [np.add, np.subtract])
@pytest.mark.parametrize("layout", ["C", "F", "reversed", "strided", "float32", "complex"])
def test_positions_that_repeat_are_added_in_the_order_of_numpy(ufunc, layout):
    """Bit for bit: other last bits would be taken for a step that is not the same again (``chain(check=True)``)."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x = {
            "C": lambda a: a,
            "F": np.asfortranarray,
            "reversed": lambda a: a[::-1, ::-1],
            "strided": lambda a: a[:, ::2],
            "float32": lambda a: a.astype(np.float32),
            "complex": lambda a: a + 1j,
        }[layout](rng.random((4, 6)))
        index, v = (rng.integers(0, 4, 40), rng.integers(0, x.shape[1], 40)), rng.random(40)

        def changed(x, v, index=index):
            y = x.copy("K")
            ufunc.at(y, index, v)
            return y

        plain = changed(x, v)
        for value in (jvp(changed, (x, v), (x, v))[0], vjp(changed, x, v)[0]):
            assert value.dtype == plain.dtype and value.strides == plain.strides
            np.testing.assert_array_equal(value, plain)
    if layout == "C":
        check_derivatives(lambda x, v: changed(x, v * v) ** 2, x, v)


def at(ufunc, x, index, v):
    x = 1.0 * x
    ufunc.at(x, index, v)
    return x


@pytest.mark.parametrize("ufunc", [np.add, np.subtract])
def test_traced_positions_are_compiled(ufunc):
    x, index, v = np.ones(3), np.array([0, 1, 1]), np.array([0.1, 0.2, 0.3])
    compiled = jit(lambda x, index, v: at(ufunc, x, index, v))
    for turn in range(3):
        np.testing.assert_allclose(compiled(x, np.roll(index, turn), v), at(ufunc, x, np.roll(index, turn), v), rtol=1e-15)
    slope = jit(grad(lambda x, index, v: np.sum(at(ufunc, x, index, v) ** 2), argnums=2))(x, index, v)
    sign = 1.0 if ufunc is np.add else -1.0
    np.testing.assert_allclose(slope, sign * 2.0 * at(ufunc, x, index, v)[index], rtol=1e-15)
    with pytest.raises(TypeError, match=r"numpy\.add\.at: the array to write into is a plain ndarray, which cannot hold traced values"):
        grad(lambda v: np.add.at(np.zeros(3), index, v))(v)
    counts = jit(lambda index: at(ufunc, np.zeros(3), index, 1.0))
    np.testing.assert_array_equal(counts(index), [sign, 2.0 * sign, 0.0])


@pytest.mark.parametrize("ufunc", [np.multiply, np.maximum])
def test_traced_positions_of_other_ufuncs_are_compiled(ufunc):
    x, index, v = np.array([1.0, 2.0, -3.0]), np.array([0, 1, 1]), np.array([1.5, 0.2, 3.0])
    total = lambda x, index, v: np.sum(at(ufunc, x, index, v) ** 2)
    compiled, slopes = jit(lambda x, index, v: at(ufunc, x, index, v)), jit(grad(total, argnums=(0, 2)))
    for places in (index, np.array([2, -3, 1]), np.array([2, 2, -1])):
        np.testing.assert_array_equal(compiled(x, places, v), at(ufunc, x, places, v))
        np.testing.assert_allclose(slopes(x, places, v), grad(total, argnums=(0, 2))(x, places, v), rtol=1e-15)
