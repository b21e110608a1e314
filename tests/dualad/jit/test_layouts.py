"""Compiled programs of arrays in any memory layout: which results are views, so what a write reaches, is what plain NumPy decides."""

import numpy as np
import pytest
from comparing import close
from in_groups import for_each

from checkpoint import grad
from dualad import gradient, jacobian, jit
from dualad.graph.program import plain_kind
from dualad.jit.arguments import Call
from dualad.rules.indexing import updated

C = np.arange(1.0, 13.0).reshape(3, 4)
LAYOUTS = {
    "C": C,
    "F": np.asfortranarray(C),
    "reversed": C[::-1].copy()[::-1],
    "last reversed": C[:, ::-1].copy()[:, ::-1],
    "every second": np.repeat(C, 2, axis=1)[:, ::2],
    "rows of more": np.concatenate([C, C], axis=1)[:, :4],
    "three axes": np.ascontiguousarray(np.arange(12.0).reshape(2, 3, 2).transpose(1, 0, 2)).transpose(1, 0, 2),
}
COPIES = {
    "method": lambda x: x.copy(),
    "method, K": lambda x: x.copy("K"),
    "method, A": lambda x: x.copy("A"),
    "method, F": lambda x: x.copy("F"),
    "function": np.copy,
    "function, C": lambda x: np.copy(x, "C"),
    "astype": lambda x: x.astype(x.dtype),
    "astype, C": lambda x: x.astype(x.dtype, order="C"),
    "positive": lambda x: +x,
    "like": lambda x: np.zeros_like(x) + x,
    "contiguous": lambda x: np.ascontiguousarray(x) * 1.0,
    "Fortran": lambda x: np.asfortranarray(x) * 1.0,
}


def writes_through_shapes(copy):
    """Return a function whose results say of each shape of a copy whether it was a view."""

    def f(x):
        y = copy(x)
        flat = y.reshape(-1)
        flat[1:3] = x.ravel()[0] * 7.0
        row = y.ravel()
        row[4] += 2.0 * flat[5]
        column = y.T.ravel()
        column[2] *= column[7]
        fortran = np.reshape(y, (-1, 2), order="F")
        fortran[1] -= x.ravel()[3]
        kept = y.ravel("K")
        kept[6:8] = 0.5 * kept[1]
        return y, flat, row, column, fortran, kept

    return f


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
@for_each("copy", COPIES, size=12)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_write_reaches_what_it_reaches_in_numpy(layout, copy, backend):
    x, f = LAYOUTS[layout], writes_through_shapes(COPIES[copy])
    compiled = jit(f, backend=backend)
    for _ in range(2):
        close(compiled(x), f(x), rtol=0.0)


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
@pytest.mark.parametrize("copy", ["method", "function"])
@pytest.mark.parametrize("layout", ["F", "reversed", "every second", "three axes"])
def test_gradients_of_what_a_write_reaches(layout, copy, backend):
    x, f = LAYOUTS[layout], writes_through_shapes(COPIES[copy])
    weights = np.random.default_rng(0).normal(size=(6, 12))
    loss = lambda x, f=f: sum(np.sum(w * np.reshape(v, -1)) for w, v in zip(weights, f(x), strict=True))
    compiled, slope = jit(f, backend=backend), by_complex_step(loss, x)
    for g in (grad(lambda x: loss(x, compiled)), jit(grad(loss), backend=backend), jit(gradient(loss), backend=backend)):
        np.testing.assert_allclose(g(x), slope, rtol=1e-12)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_many_directions_of_a_view_that_is_written_twice(layout):
    """Tangents of K directions are in another order in memory than the values: what is a view of these may be a copy of those."""

    def f(x):
        flat, turned = x.T.reshape(-1), np.ravel(x, "K")
        flat *= 2.0
        flat *= x.ravel()[0]
        turned *= 3.0
        turned[1:] += flat[0]
        return flat, turned, x

    x = LAYOUTS[layout].copy("K")
    weights = np.random.default_rng(0).normal(size=(3, 12))
    loss = lambda x: sum(np.sum(w * np.reshape(v, -1)) for w, v in zip(weights, f(x), strict=True))
    slope = by_complex_step(loss, x)
    for g in (gradient(loss), jit(gradient(loss), backend="numpy"), jit(jacobian(loss), backend="numpy")):
        np.testing.assert_allclose(g(moved(x, float)), slope, rtol=1e-12)


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
@for_each("assigned", ["C", "F", "reversed", "three axes"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_array_that_is_assigned_as_a_whole_takes_the_order_of_what_it_is_assigned_to(layout, assigned, backend):
    x, known = LAYOUTS[layout], np.cos(LAYOUTS[assigned]).reshape(LAYOUTS[layout].shape)

    def f(x, zeros):
        total = np.sum(x)
        x[...] = np.zeros(x.shape) if zeros else known
        x += total
        flat, row = x.ravel(), x.reshape(-1)
        x *= 2.0
        return total * flat, row

    for zeros in (False, True):
        compiled = jit(f, backend=backend, static_argnums=1)
        close(compiled(moved(x, float), zeros), f(moved(x, float), zeros), rtol=1e-14)
        if zeros != (backend == "numpy"):
            continue  # a gradient of each by one backend
        weights = np.random.default_rng(0).normal(size=(2, 12))
        loss = lambda x, zeros=zeros: sum(np.sum(w * v) for w, v in zip(weights, f(x, zeros), strict=True))
        np.testing.assert_allclose(jit(grad(loss), backend=backend)(moved(x, float)), by_complex_step(loss, x), rtol=1e-12)


def by_complex_step(loss, x):
    slope = np.empty(x.shape)
    for index in np.ndindex(x.shape):
        z = moved(x)
        z[index] += 1e-30j
        slope[index] = np.imag(loss(z)) / 1e-30
    return slope


def moved(x, dtype=complex):
    """Return complex or other numbers in the memory layout of an array."""
    memory = np.zeros(4 * x.size + 8, dtype)
    scale = memory.itemsize // x.itemsize
    start = sum(-s * (n - 1) for s, n in zip(x.strides, x.shape, strict=True) if s < 0) // x.itemsize
    z = np.lib.stride_tricks.as_strided(memory[start:], x.shape, [scale * s for s in x.strides])
    z[...] = x
    return z


def test_an_assignment_through_a_shape_does_not_depend_on_the_order_in_memory():
    flat = (np.reshape, (-1,), {})
    for x in LAYOUTS.values():
        y = updated(x, 5.0, slice(2, 4), [flat])
        expected = np.copy(x, "C")
        expected.reshape(-1)[2:4] = 5.0
        np.testing.assert_array_equal(y, expected)
        np.testing.assert_array_equal(updated(x, y.ravel()[3:5], slice(0, 2), [flat]).ravel()[:2], y.ravel()[3:5])


class Kind(np.ndarray):
    pass


LEAVES = [
    1.0, np.float64(2.0), np.float32(2.0), 3, 2.0j,
    np.ones(3), np.ones((2, 0)), np.array(1.0), np.broadcast_to(1.0, (2, 3)), np.ones(3)[::2], np.ones((2, 3)).T,
    np.ones(2, "f4"), np.ones(2, "i8"), np.ones(2, bool), np.ones(2, "c16"), np.ones(3, ">f8"), np.ones(3).view(Kind),
    np.frombuffer(bytes(25), np.uint8)[1:].view(float),
]  # fmt: skip


@pytest.mark.parametrize("leaf", LEAVES, ids=repr)
def test_the_short_way_to_the_kind_of_a_plain_leaf_gives_that_of_the_long_one(leaf):
    call = Call(jit(np.sin), (1.0,), {})
    short, whole = plain_kind(leaf), call.kind(leaf, 0)
    assert short in (None, whole)
    assert (short is None) == (
        type(leaf) not in (float, np.float64, np.ndarray) or whole.layout != "C" or not np.asarray(leaf).dtype.isnative
    )
