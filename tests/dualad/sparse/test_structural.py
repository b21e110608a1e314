"""A dense Jacobian under jit: as many directions as colours, where the function is sparse; the same numbers."""

import numpy as np
import optree
import pytest

from dualad import jacobian, jit, value_and_jacobian
from dualad.sparse import structural

X = np.linspace(0.3, 1.4, 40)


def ring(u):
    return u * (np.roll(u, 1) - np.roll(u, -1)) + np.sin(u)


def stencil(u):
    v = np.zeros_like(u)
    v[1:-1] = u[2:] - 2.0 * u[1:-1] + u[:-2]
    v[0], v[-1] = u[0] ** 2, u[-1]
    return v


def masked(u):
    v = u * u
    v[v > 1.0] = u[0, 0]
    v[1:, u[2] > 0.7] = u[1:, :1]
    v[u[:, 1] < 0.5] = 2.0
    return v


#: functions, arguments, options, and how many directions are pushed (None: all of them)
CASES = {
    "ring": (ring, (X,), {}, 4),
    "stencil": (stencil, (X,), {}, 3),
    "rows": (lambda u: np.stack([u * u, np.exp(u)]), (X,), {}, 1),
    "matrix": (lambda u: u * u[:, ::-1], (X.reshape(8, 5),), {}, 2),
    "sums": (lambda u: np.sum(u.reshape(8, 5), axis=1), (X,), {}, 5),
    "a number": (lambda u: u[3] * u[7], (X,), {}, 2),
    "pytree": (lambda u: {"a": stencil(u), "b": (u[0] * u[1], u[::2] ** 3)}, (X,), {}, 3),
    "two arguments": (lambda u, v: u * v + stencil(u), (X, X[::-1].copy()), {"argnums": (0, 1)}, 4),
    "one of two": (lambda u, v: stencil(u) * np.sum(v), (X, X), {}, 3),
    "leaves": (lambda state: state["u"] * state["v"], ({"u": X, "v": 1.0 + X},), {}, 2),
    "aux": (lambda u: (stencil(u), u[0]), (X,), {"has_aux": True}, 3),
    "nan_safe": (lambda u: np.where(u > 0.7, np.log(u - 0.7), 0.0) + stencil(u), (X,), {"nan_safe": True}, 3),
    "single": (stencil, (X.astype(np.float32),), {}, 3),
    "complex": (lambda u: u * u[::-1], (X + 0.5j,), {"holomorphic": True}, 2),
    "masks": (lambda u: masked(u), (X.reshape(8, 5),), {}, 3),
    "dense": (lambda u: u * np.sum(u), (X,), {}, None),
    "few inputs": (lambda u: u * u, (X[:20],), {}, None),
    "chunk": (stencil, (X,), {"chunk": 7}, None),
    "constant": (lambda u: np.ones(3) + 0.0 * np.floor(u[:3]), (X,), {}, 1),
}


@pytest.fixture
def counted(monkeypatch):
    """The numbers of directions that are pushed."""
    lanes = []

    def counting(f, args, kwargs, positions, colors, *rest, push=structural.push_colors, **options):
        lanes.append(colors.forward_colors)
        return push(f, args, kwargs, positions, colors, *rest, **options)

    monkeypatch.setattr(structural, "push_colors", counting)
    return lanes


@pytest.mark.parametrize("name", CASES)
def test_equals_the_dense_one(name, counted):
    f, args, options, directions = CASES[name]
    with np.errstate(all="ignore"):
        expected = value_and_jacobian(f, **options)(*args)
        got = jit(value_and_jacobian(f, **options), backend="numpy")(*args)
    assert optree.tree_structure(got) == optree.tree_structure(expected)
    for a, b in zip(optree.tree_leaves(got), optree.tree_leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6 if np.asarray(b).dtype == np.float32 else 1e-14, atol=1e-30)
        assert np.shape(a) == np.shape(b) and np.asarray(a).dtype == np.asarray(b).dtype
    assert counted == ([] if directions is None else [directions] * 2)  # every function is traced twice


def test_what_has_no_pattern_is_pushed_densely(counted, monkeypatch):
    inner = jit(lambda c, u: jacobian(lambda u: c * u * u)(u), backend="numpy")  # the pattern's trace is another one than c's
    np.testing.assert_allclose(inner(2.0, X), np.diag(4.0 * X))

    def missing(*args):
        raise ImportError("no SciPy")

    monkeypatch.setattr(structural, "find_pattern", missing)
    np.testing.assert_allclose(jit(jacobian(stencil), backend="numpy")(X), jacobian(stencil)(X))
    assert not counted


def test_zeros_of_the_structure_are_zeros():
    """Where a factor is infinite, a direction's zero times it is not a number; what never depends on an input stays zero."""
    x = X.copy()
    x[5] = np.inf
    compiled = jit(jacobian(lambda u: u * u), backend="numpy")(x)
    assert np.isinf(compiled[5, 5]) and np.count_nonzero(compiled) == 40


def test_all_directions_are_one_chunk():
    """Every chunk would be code of its own."""
    m = np.random.default_rng(0).normal(size=(300, 300))
    f = jit(jacobian(lambda x: np.tanh(m @ x)), backend="numpy")
    x = np.linspace(0.0, 0.1, 300)
    np.testing.assert_allclose(f(x), jacobian(lambda x: np.tanh(m @ x))(x), rtol=1e-12, atol=1e-12)
    assert f.program(x).count("numpy.matmul") <= 2
