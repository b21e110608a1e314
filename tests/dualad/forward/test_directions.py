"""K directions at once: every place where an array can see past, or trip over, the leading axis."""

import numpy as np
import pytest
from comparing import leaves
from hypothesis import given
from hypothesis import strategies as st

from checkpoint import jacobian as reverse_jacobian
from checkpoint import vjp
from dualad import jacobian, jvp
from dualad.core.levels import Level
from dualad.forward.directions import Directions, unwrap, wrap

T = np.linspace(0.3, 1.7, 24).reshape(2, 3, 4)
M, V = T[0], T[0, 0]

#: traps for a leading axis; each function by itself is in rules/test_directions
TRAPS = {
    "x[0, mask]": lambda x: x[0, x[0, :, 0] > 0.4],
    "T": lambda x: x.T,
    "clip": lambda x: np.clip(x, 0.5, x[0, 0]),
    "constant result": lambda x: np.ones(3),
    "a scalar and a vector": lambda x: (x[0, 0, 0], x[0, 0]),
    "angle of parts": lambda x: np.arctan2(x.imag, x.real + 1),
    "zeros_like": lambda x: written(x),
    "astype": lambda x: x.astype(complex).imag + x,
    "fancy assignment": lambda x: fancy(x),
    "slice assignment": lambda x: sliced(x),
}


def written(x):
    y = np.zeros_like(x)
    y[0] = x[1, 0]
    y[:, 1:, ::2] += x[:, :1, :1]
    return y


def fancy(x):
    y = x * 1.0
    y[[0, 1], :, [2, 3]] = x[0, :, :2].T
    y[x > 1.5] = 2.0
    y[..., [0, 1]] *= x[..., [1, 0]]
    y[:, np.array([True, False, True])] += x[0, 0]
    return y


def sliced(x):
    y = np.sin(x)
    z = np.swapaxes(y, 0, 2)[1:]
    z[..., 0] = x[0].T[1:]
    z *= z
    y.reshape(-1)[3:7] = x[0, 0]
    return y


@pytest.mark.parametrize("name", TRAPS)
def test_all_directions_together_or_one_by_one(name):
    f = TRAPS[name]
    single = leaves(jacobian(f, chunk=1)(T))
    one = [jvp(f, (T,), (unit,))[1] for unit in np.eye(24).reshape(24, 2, 3, 4)]
    one = [np.stack(columns, axis=-1).reshape(*np.shape(columns[0]), 2, 3, 4) for columns in zip(*map(leaves, one), strict=True)]
    for chunk in (2, 3, 4, 24, None):
        together = leaves(jacobian(f, chunk=chunk)(T))
        for a, b, c in zip(together, single, one, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-14)
            np.testing.assert_allclose(a, c, rtol=1e-13, atol=1e-14)
    for chunk in (1, 2, 3, 4, None):
        for a, b in zip(leaves(reverse_jacobian(f, chunk=chunk)(T)), single, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)


def test_three_directions_do_not_line_up_with_three_elements():
    jac = jacobian(lambda x: (x[0] * np.arange(1.0, 4.0)) * x[1], chunk=3)(np.array([2.0, 3.0, 5.0]))
    np.testing.assert_array_equal(jac, [[3, 2, 0], [6, 4, 0], [9, 6, 0]])
    jac = jacobian(lambda x: np.where([True, False, True], x[0] + x[1], np.zeros((2, 1))), chunk=2)(np.ones(2))
    np.testing.assert_array_equal(jac, np.broadcast_to(np.array([1.0, 0.0, 1.0])[:, None], (2, 3, 2)))


@pytest.mark.slow
@given(
    st.lists(st.sampled_from(sorted(set(TRAPS) - {"constant result", "a scalar and a vector"})), min_size=2, max_size=2), st.integers(1, 5)
)
def test_pairs_of_traps(names, chunk):
    def f(x):
        y = TRAPS[names[0]](x)
        return TRAPS[names[1]](x * np.tanh(np.sum(y * y))) + np.sum(y)

    np.testing.assert_allclose(jacobian(f, chunk=chunk)(T), jacobian(f, chunk=1)(T), rtol=1e-11, atol=1e-11)


# --- Directions themselves ---------------------------------------------------------------------------------------------------------


def test_a_batch_looks_like_one_direction():
    with Level(5) as level:
        batch = wrap(np.ones((5, 2, 3)), level)
        assert (batch.shape, batch.ndim, batch.dtype, len(batch), np.shape(batch)) == ((2, 3), 2, float, 2, (2, 3))
        assert repr(batch) == "Directions(K=5, shape=(2, 3))"
        assert type(np.sum(batch, axis=0)) is Directions and np.sum(batch, axis=0).primal.shape == (5, 3)
        assert wrap(None, level) is None


def test_unwrap_broadcasts_what_does_not_depend_on_the_direction():
    with Level(5) as level:
        assert unwrap(2.0, level, (3,)).shape == (5, 3)
        assert unwrap(np.ones(3), level, (2, 3)).shape == (5, 2, 3)
        assert unwrap(None, level, (3,)) is None
        assert unwrap(wrap(np.arange(5.0)[:, None] * np.ones(3), level), level, (5, 3))[:, 0, 0].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("options", [{}, {"axis": 0}, {"axis": -1}])
def test_positions_of_each_direction(options):
    x = np.random.default_rng(3).standard_normal((4, 2, 3))
    with Level(4) as level:
        for fn in (np.argmax, np.argmin, np.argsort):
            assert fn(wrap(x, level), **options).primal.tolist() == [fn(one, **options).tolist() for one in x]


def test_nested_directions():
    f = lambda x: np.sum(np.tanh(x) * x[::-1]) * x
    x = np.array([0.5, -1.0, 2.0])
    expected = jacobian(lambda x: jacobian(f, chunk=1)(x), chunk=1)(x)
    for inner in (1, 2, 3):
        for outer in (1, 2, 3):
            np.testing.assert_allclose(jacobian(lambda x, inner=inner: jacobian(f, chunk=inner)(x), chunk=outer)(x), expected, rtol=1e-12)
    np.testing.assert_allclose(jacobian(lambda x: reverse_jacobian(f)(x), chunk=2)(x), expected, rtol=1e-12)
    np.testing.assert_allclose(reverse_jacobian(lambda x: jacobian(f, chunk=2)(x))(x), expected, rtol=1e-12)
    np.testing.assert_allclose(reverse_jacobian(lambda x: reverse_jacobian(f, chunk=2)(x), chunk=3)(x), expected, rtol=1e-12)


def test_a_cotangent_that_no_direction_changes():
    _, pull = vjp(lambda x: x[:2] * 0.0 + 1.0, V)
    assert pull(np.ones(2))[0].tolist() == [0.0, 0.0, 0.0, 0.0]


# --- products with constants ------------------------------------------------------------------------------------------------

P, Q, R, S3 = (np.sin(np.arange(n, dtype=float)).reshape(s) for n, s in [(4, 4), (12, (4, 3)), (20, (5, 4)), (40, (2, 5, 4))])

#: functions of x and a constant, and x
PRODUCTS = {
    "A @ x": (lambda x, c: c(R) @ x, P),
    "x @ A": (lambda x, c: x @ c(R).T, P),
    "v @ x": (lambda x, c: c(P) @ x, P),
    "x @ v": (lambda x, c: x @ c(P), P),
    "stack @ x": (lambda x, c: c(S3) @ x, P),
    "X @ v": (lambda x, c: x.T @ c(P), Q),
    "X @ A": (lambda x, c: x.T @ c(R).T, Q),
    "X @ stack": (lambda x, c: x.T @ np.swapaxes(c(S3), 1, 2), Q),
    "dot(A, x)": (lambda x, c: np.dot(c(R), x), P),
    "dot(x, stack)": (lambda x, c: np.dot(x, np.swapaxes(c(S3), 1, 2)), P),
    "dot(stack, x)": (lambda x, c: np.dot(c(S3), x), P),
    "inner": (lambda x, c: np.inner(c(R), x), P),
    "vdot": (lambda x, c: np.vdot(c(P), x), P),
    "tensordot": (lambda x, c: np.tensordot(x, c(R), ([0], [1])), Q),
    "dot of three": (lambda x, c: np.linalg.multi_dot([c(R), x, c(P)[:3]]), Q),
}
KINDS_OF_CONSTANTS = {
    "complex": lambda c: c * (1 + 2j),
    "float32": lambda c: c.astype(np.float32),
    "F order": np.asfortranarray,
    "every other": lambda c: np.repeat(c, 2, axis=-1)[..., ::2],
    "broadcast": lambda c: np.broadcast_to(c.ravel()[1], c.shape),
    "integers": lambda c: np.round(3 * c).astype(int),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_directions_with_constants_of_all_kinds(name):
    f, x = PRODUCTS[name]
    for constant in KINDS_OF_CONSTANTS.values():
        for point in (x, x.astype(np.float32), x + 1j * x[::-1]):
            one = [jvp(lambda x: f(x, constant), (point,), (unit.reshape(x.shape),))[1] for unit in np.eye(x.size, dtype=x.dtype)]
            expected = np.stack(one, axis=-1).reshape(*np.shape(one[0]), *x.shape)
            close = 1e-5 if np.dtype(np.float32) in (point.dtype, constant(P).dtype) else 1e-13
            jac = jacobian(f, holomorphic=np.iscomplexobj(point))(point, constant)
            assert jac.dtype == np.result_type(expected)
            np.testing.assert_allclose(jac, expected, rtol=close, atol=close)
            if not np.iscomplexobj(expected):
                np.testing.assert_allclose(reverse_jacobian(f)(point, constant), expected, rtol=close, atol=close)
    twice = lambda x: f(x * x, KINDS_OF_CONSTANTS["F order"])
    inner = jacobian(jacobian(twice, chunk=1), chunk=1)(x)
    for outer in (jacobian, reverse_jacobian):
        for verb in (jacobian, reverse_jacobian):
            np.testing.assert_allclose(outer(verb(twice))(x), inner, rtol=1e-12, atol=1e-12)


def test_products_of_directions_with_nothing_in_them():
    for m, n in [(0, 3), (3, 0), (0, 0)]:
        for a in (np.ones((m, n)), np.ones((2, m, n))):
            assert jacobian(lambda x, a=a: a @ x)(np.ones(n)).shape == (*a.shape[:-1], n)
            assert jacobian(lambda x, a=a: x @ a)(np.ones(m)).shape == (*a.shape[:-2], n, m)
        a = np.ones((m, n))
        assert jacobian(lambda x, a=a: x @ a)(np.ones((2, m))).tolist() == jacobian(lambda x, a=a: x @ a, chunk=1)(np.ones((2, m))).tolist()
        assert reverse_jacobian(lambda x, a=a: a @ x)(np.ones(n)).shape == (m, n)


def test_an_einsum_of_many_directions():
    matrix = np.sin(np.arange(90.0 * 60)).reshape(90, 60)
    for a in (matrix, matrix.astype(np.float32), matrix * 1j, np.asfortranarray(matrix)):
        for subscripts in ("ij,j->i", "ij,j->j", "ij,j->ij", "ij,j->"):
            f, expected = (
                lambda x, a=a, s=subscripts: np.einsum(s, a, x),
                {"i": a, "j": np.diag(a.sum(axis=0)), "ij": a[..., None] * np.eye(60), "": a.sum(axis=0)}[subscripts[6:]],
            )
            np.testing.assert_allclose(jacobian(f, chunk=60)(np.ones(60)), expected, rtol=1e-12 if a.dtype != np.float32 else 1e-4)
