"""Loop nests whose positions are cases of their own: slabs, short rows, wide pieces."""

import numpy as np
import pytest
from interpreted import traced
from test_emit import agrees

from checkpoint import grad, vjp
from dualad import jit
from dualad.codegen.emit import emit
from dualad.codegen.native import Native
from dualad.loops.fuse import plan


def test_slabs_share_one_loop():
    """What is another expression at each position of an axis is computed together, not case by case."""

    def f(x, y):
        r, s = x * y, np.exp(x) + y
        return np.stack([r - s, r + s, r * 2.0, s, -r, np.concatenate([r[1:], r[:1]])])

    x, y = np.linspace(-1.0, 2.0, 50), np.linspace(0.5, 1.5, 50)
    native = agrees(f, x, y, rtol=1e-14)
    assert native.emitted.nests == 1 and native.source.count("= exp(") == 1
    assert emit(plan(traced(lambda x: np.stack([x[:-1] * k for k in range(1, 6)], 1), x))).text.count("for j in range(49)") == 1
    large = emit(plan(traced(lambda x: np.stack([x[:-1], x[1:]], axis=-1), np.zeros(9000)))).text
    assert large.count("for ") == 1 and "[j, 0] = " in large and "[j, 1] = " in large  # neighbours in memory, however many there are


def test_slabs_that_something_is_scattered_into():
    """Each row of the last axis is another expression, and of some columns all rows are written once more."""
    x = np.random.default_rng(5).standard_normal((6, 7, 4))
    mask = np.zeros((6, 7), bool)
    mask[2:4, 3:5] = True

    def f(x):
        kept, total, rows = x[mask, :], np.sum(x, 2), np.zeros_like(x)
        for i in range(4):
            rows[:, :, i] = total * (i + 1.0)
        y = x - rows
        y[mask, :] = kept
        return y

    np.testing.assert_allclose(jit(f)(x), f(x), rtol=1e-14)
    np.testing.assert_allclose(grad(lambda x: np.sum(jit(f)(x) ** 2))(x), grad(lambda x: np.sum(f(x) ** 2))(x), rtol=1e-13)


def short_rows(x, w):
    """Reductions along each of three axes and over all, of which the last is too short for vectors, beside elements that are stored."""
    apart = (x[None, :, :] - x[:, None, :]) * w[:, None, None]
    angles = np.sin(apart)
    sums = np.sum(apart, 1), np.sum(angles, (0, 2)), np.sum(apart * angles, 2), np.sum(angles), np.prod(1.0 + 0.01 * angles, (1, 2))
    return *sums, np.max(apart, 0), np.min(np.where(apart > 0, apart, angles), 1), np.all(apart > -9, 2), apart


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_reductions_beside_a_last_axis_too_short_for_vectors(dtype):
    """The axis before it is the innermost loop: one sum for each position of the last one, in an order that is written down."""
    x, w = np.random.default_rng(8).uniform(-3.0, 3.0, (41, 3)).astype(dtype), np.linspace(1.0, 9.0, 41).astype(dtype)
    native = agrees(short_rows, x, w, rtol=1e-3 if dtype == np.float32 else 1e-11)
    assert "for j in range(41)" in native.source and "range(3)" not in native.source.split("large")[0]
    agrees(lambda x: (np.sum(x[::-1], 0), np.sum(x, 1), np.sum(x * x)), x[:, :2] * 1j, rtol=1e-5)
    large = np.random.default_rng(9).standard_normal((50_000, 3))
    loss = lambda x: np.sum(np.sin(x[1:] * x[:-1]) ** 2) + np.sum(np.sum(x, 1) ** 3)
    agrees(grad(loss), large, native=Native(traced(grad(loss), large), 2), rtol=1e-11)
    agrees(loss, large * 1e9, native=Native(traced(loss, large), 2), rtol=1e-11)


def joined(axis, pieces, width):
    """Return the function that joins pieces of two arrays, each times a number of its own."""

    def f(x, y):
        cut = lambda z, k: z[(slice(None),) * axis + (slice(k * width, (k + 1) * width),)]
        return np.concatenate([cut(x if k % 2 else y, k) * (k + 1.0) for k in reversed(range(pieces))], axis)

    return f


@pytest.mark.parametrize(("shape", "axis"), [((800,), 0), ((800, 30), 0), ((30, 800), 1), ((3, 800, 20), 1)])
def test_wide_pieces_have_loops_of_their_own(shape, axis):
    """None asks at each element which piece it is in, unless they are narrow or that is much code."""
    x, y, g = np.random.default_rng(4).standard_normal((3, *shape))
    wide = agrees(joined(axis, 20, 40), x, y)
    assert "choose" not in wide.source.partition("def part0")[2] and "BOXES" not in wide.source
    agrees(lambda x, y, g: vjp(joined(axis, 20, 40), x, y)[1](g), x, y, g)
    assert "choose(" in agrees(joined(axis, 25, 4), x, y).source


def test_wide_pieces_that_are_much_code_share_loops():
    """Of fifteen squares on a diagonal there would be a thousand."""
    x, y = np.random.default_rng(5).standard_normal((2, 800, 790))

    def squares(x, y):
        z = x.copy()
        for low in range(10, 750, 50):
            cut = slice(low, low + 20)
            z[cut, cut] = y[cut, cut] * 2.0
        return z + np.roll(z, 1, 0)

    assert agrees(squares, x, y).source.count("\n") < 500
