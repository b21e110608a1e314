"""How results of any structure are compared, bit by bit or nearly; and the derivatives of one function with those of another."""

import numpy as np
import optree

from checkpoint import grad
from dualad import jit, jvp


def leaves(tree):
    return optree.tree_leaves(tree)


def bits(x, nan=None):
    """Return what tells a number or an array apart, with `nan` in place of each NaN."""
    x = np.asarray(x)
    if x.dtype.char in "gG":  # some of whose bytes are of no number
        return x.dtype, x.shape, str(x.tolist())
    return x.dtype, x.shape, (x if nan is None or x.dtype.kind not in "fc" else np.where(np.isnan(x), x.dtype.type(nan), x)).tobytes()


def same(got, expected, nan=None):
    """Check that two results are of the same structure, types and bits; with `nan` one NaN is as good as another."""
    assert optree.tree_structure(got) == optree.tree_structure(expected)
    for a, b in zip(leaves(got), leaves(expected), strict=True):
        assert type(a) is type(b), f"{type(a)} instead of {type(b)}"
        if isinstance(b, np.ndarray | np.generic | float | complex):
            assert bits(a, nan) == bits(b, nan), f"{a!r} instead of {b!r}"
        else:
            assert a == b, f"{a!r} instead of {b!r}"


def close(got, expected, rtol=1e-12, atol=0.0, dtypes=True):
    """Check that two results have the same shapes and, unless it is said, dtypes, and nearly the same numbers; texts are equal."""
    for a, b in zip(leaves(got), leaves(expected), strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert a.shape == b.shape and (a.dtype == b.dtype or not dtypes), f"{a.dtype} {a.shape} instead of {b.dtype} {b.shape}"
        if b.dtype.kind == "U":
            assert a == b
        else:
            np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)


def outcome(f, *args):
    """Return what a call returns, or the type and the text of the error that it raises."""
    try:
        return f(*args)
    except Exception as error:
        return type(error), str(error)


def loss(f):
    """Return a function that makes one number of all results of another, but texts."""

    def total(*args):
        outs = [np.ravel(out) for out in leaves(f(*args)) if not isinstance(out, str)]
        return sum(np.sum((np.sin(np.real(out)) + np.imag(out) ** 2) * np.cos(np.arange(out.size) + k)) for k, out in enumerate(outs))

    return total


def inexact(args):
    return tuple(k for k, x in enumerate(args) if all(np.result_type(leaf).kind in "fc" for leaf in leaves(x)))


def slope(f, argnums=None):
    """Return the gradient of the loss of a function by these arguments, or by all that are inexact."""
    return lambda *args: grad(loss(f), argnums=argnums or inexact(args))(*args)


def tangent(f, argnums=None):
    """Return the tangents of a function along cosines of these arguments, or of all that are inexact."""

    def pushed(*args):
        moving = argnums or inexact(args)

        def of_moving(*moved):
            given = dict(zip(moving, moved, strict=True))
            return f(*(given.get(k, x) for k, x in enumerate(args)))

        moved = tuple(args[k] for k in moving)
        return jvp(of_moving, moved, optree.tree_map(np.cos, moved))[1]

    return pushed


def derivatives(f, order=2, argnums=None):
    """Return the functions of the value, the slope, the tangent and, of order 2, the tangent of the slope."""
    first = slope(f, argnums)
    return [f, *([first, tangent(loss(f), argnums)] if order else []), *([tangent(first, argnums)] if order > 1 else [])]


def all_close(found, expected, points, rtol, atol, second):
    """Compare functions, values first, with what is expected at points; for second derivatives tolerances are `second` times as large."""
    for args, values in zip(points, expected, strict=True):
        for k, (one, value) in enumerate(zip(found, values, strict=True)):
            scale = second if k == 3 else 1.0
            close(one(*args), value, scale * rtol, scale * atol)


def values_at(points, functions):
    """Return what functions give at each point."""
    return [[f(*args) for f in functions] for args in points]


def agree(fast, f, *points, rtol=1e-12, atol=0.0, second=1.0, **options):
    """Check that two functions have nearly the same values and derivatives at points, which are tuples of arguments."""
    all_close(derivatives(fast, **options), values_at(points, derivatives(f, **options)), points, rtol, atol, second)


def eager(f, *points, backend=None, rtol=1e-12, atol=0.0, second=1.0, **options):
    """Check that derivatives of a compiled function, and compiled derivatives, are nearly the eager ones at points."""
    compiled, plain = (lambda f: jit(f, backend=backend)), derivatives(f, **options)
    fast, expected = compiled(f), values_at(points, plain)
    for found in (derivatives(fast, **options), [fast, *map(compiled, plain[1:])]):
        all_close(found, expected, points, rtol, atol, second)


def follows(fast, f, points):
    """Check that a function has the bits of another at points, or raises what it raises; return how often that was."""
    outcomes = [(outcome(fast, *args), outcome(f, *args)) for args in points]
    for got, expected in outcomes:
        same(got, expected, nan=np.nan)
    return sum(type(expected) is tuple and isinstance(expected[0], type) for _, expected in outcomes)
