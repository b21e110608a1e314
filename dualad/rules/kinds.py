"""The kinds of rows, as functions that enter one into the table of rules: the kind is most of the rule.

The letters are the same everywhere: ``t`` a tangent, ``g`` a cotangent, ``ans`` the value of the function. Rules are written in NumPy
functions that have rows themselves, so each of them nests, reverses and compiles. The pairing of cotangents is Re(g * t), without
conjugation, as in autograd and JAX.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .cotangents import Abstract, any_traced, is_complex, ndim_of, restore_axes, shape_of, unbroadcast
from .partials import ANS, FIRST, MINUS_ONE, ONE, SECOND, one_over
from .primitives import primitive, strong_multiply
from .rows import (
    COMPARISONS,
    OPERATORS,
    ROWS,
    SYMBOLS,
    Composite,
    Constant,
    Differentiable,
    Elementwise,
    Joint,
    Multilinear,
    Refused,
    Row,
    register,
    row_says,
)

__all__ = [
    "ANS", "COMPARISONS", "FIRST", "MINUS_ONE", "ONE", "OPERATORS", "ROWS", "SECOND", "SYMBOLS", "Abstract", "Composite", "Constant",
    "Differentiable", "Elementwise", "Refused", "Row", "any_traced", "bilinear", "composite", "constant", "elementwise", "explicit",
    "is_complex", "joined", "linear", "multilinear", "ndim_of", "one_over", "primitive", "real_linear", "refused", "restore_axes",
    "row_says", "shape_of", "strong_multiply", "unbroadcast",
]  # fmt: skip

Rule = Callable[..., Any]
Rules = Rule | tuple[Rule | None, ...] | None


def elementwise(fn: Callable[..., Any], *partials: Rule | None, **options: Any) -> Elementwise:
    """Enter a function that computes each element of its result from the elements of its arguments at the same position.

    Parameters
    ----------
    fn : function made with `dualad.primitive`, of positional arrays that broadcast.
    partials : one partial derivative for each argument, a function ``partial(ans, *args)``; None where an argument has no derivative.
    options : ``singular=True`` (or a predicate of the arguments) where a partial may be infinite although the function is finite: then a
        zero tangent times the partial is zero.

    Returns
    -------
    Elementwise, the row.

    Raises
    ------
    ValueError
        Where the function has a row already.

    Examples
    --------
    >>> import dualad
    >>> import numpy as np
    >>> @dualad.primitive
    ... def softplus(x):
    ...     return np.logaddexp(x, 0.0)
    >>> _ = dualad.rules.elementwise(softplus, lambda ans, x: 1.0 / (1.0 + np.exp(-x)))
    >>> dualad.derivative(softplus)(0.0), dualad.derivative(softplus, order=2)(0.0)
    (0.5, 0.25)
    """
    return register(Elementwise(fn, *partials, **options))


def linear(fn: Callable[..., Any], transpose: Rule, *, affine: tuple[str, ...] = (), argnum: int = 0, **options: Any) -> Differentiable:
    """Enter a function that is linear in one array argument: its tangent is the function of the tangent.

    Parameters
    ----------
    fn : function made with `dualad.primitive`.
    transpose : function ``transpose(g, x, *rest, **kwargs)`` that returns the cotangent of x; it may use the shape and dtype of x only.
    affine : names of keywords (``initial``, ``constant_values``) that add a constant: they are left out for tangents.
    argnum : position of the array argument.
    options : of the row, as those of NumPy's functions have them (`dualad.rules.rows.Row`).

    Returns
    -------
    Differentiable, the row.

    Raises
    ------
    ValueError
        Where the function has a row already.

    Examples
    --------
    >>> import dualad
    >>> import numpy as np
    >>> @dualad.primitive
    ... def differences(x):
    ...     return x[1:] - x[:-1]
    >>> _ = dualad.rules.linear(differences, lambda g, x: np.pad(g, (1, 0)) - np.pad(g, (0, 1)))
    >>> dualad.jacobian(differences)(np.array([1.0, 4.0, 9.0]))
    array([[-1.,  1.,  0.],
           [ 0., -1.,  1.]])
    """

    def jvp(t, ans, *args, **kwargs):
        if affine:
            kwargs = {key: value for key, value in kwargs.items() if key not in affine}
        return row.call(*args[:argnum], t, *args[argnum + 1 :], **kwargs)

    def vjp(g, ans, *args, **kwargs):
        return row.transposes[0](g, *args, **kwargs)

    options = {"kind": "linear", "affine": affine, "shape_only": True, "uses_ans": False, "transposes": (transpose,), **options}
    row = Differentiable(fn, (jvp,), (vjp,), (argnum,), **options)
    row.alone = argnum == 0
    row.unary_linear_no_view = row.alone and row.view is None
    return register(row)


def real_linear(fn: Callable[..., Any], transpose: Rule, **options: Any) -> Differentiable:
    """Enter a function that is linear over the reals only, as ``real`` and ``conj`` are; cotangents of real primals stay real.

    Parameters
    ----------
    fn : function made with `dualad.primitive`.
    transpose : function ``transpose(g, x, *rest, **kwargs)``, see `linear`, for the pairing Re(g * t).
    options : see `linear`.

    Returns
    -------
    Differentiable, the row.

    Raises
    ------
    ValueError
        Where the function has a row already.

    Examples
    --------
    >>> import dualad
    >>> import numpy as np
    >>> @dualad.primitive
    ... def conjugate(z):
    ...     return np.conj(z)
    >>> _ = dualad.rules.real_linear(conjugate, lambda g, z: np.conj(g))
    >>> dualad.jvp(conjugate, (1.0 + 2.0j,), (1.0j,))
    (np.complex128(1-2j), np.complex128(-1j))
    """
    row = linear(fn, transpose, **options)
    row.kind, row.alone, row.unary_linear_no_view = "real_linear", False, False
    return row


def joined(
    fn: Callable[..., Any],
    transpose: Rule,
    *,
    call: Callable[..., Any] | None = None,
    canonical: Callable[..., Any] | None = None,
    argnums: tuple[int, ...] | None = None,
    zero: Callable[..., Any] = np.zeros_like,
    **options: Any,
) -> Joint:
    """Enter a function that is linear in several array arguments taken together, as ``concatenate`` and ``where`` are.

    Parameters
    ----------
    fn : function made with `dualad.primitive`.
    transpose : function ``transpose(i, g, *args, **kwargs)`` that returns the cotangent of argument i, before it is summed over
        axes along which the argument was broadcast.
    call, canonical : where the arrays are not positional arguments of `fn`: ``canonical(args, kwargs)`` returns the arguments and
        keywords of `call`, where they are.
    argnums : positions of the array arguments; by default all.
    zero : gives the zero tangent of an argument that has none.
    options : see `linear`.

    Returns
    -------
    Joint, the row.

    Raises
    ------
    ValueError
        Where the function has a row already.

    Examples
    --------
    >>> import dualad
    >>> import numpy as np
    >>> @dualad.primitive
    ... def ends(x, y):
    ...     return np.stack([x[0], y[-1]])
    >>> def cotangent(i, g, x, y):
    ...     return np.concatenate([0.0 * y[1:], g[1:]] if i else [g[:1], 0.0 * x[1:]])
    >>> _ = dualad.rules.joined(ends, cotangent)
    >>> dualad.jacobian(lambda x: ends(x, x**2))(np.array([1.0, 3.0]))
    array([[1., 0.],
           [0., 6.]])
    """
    row = Joint(fn, transpose, argnums, zero, canonical=canonical, **options)
    row.call = call or fn
    return register(row)


def multilinear(fn: Callable[..., Any], transpose: Rule, *, call: Callable[..., Any] | None = None, **options: Any) -> Multilinear:
    """Enter a function linear in each of its positional arguments; ``transpose(i, g, *args, **kwargs)``."""
    row = Multilinear(fn, transpose, **options)
    row.call = call or fn
    return register(row)


def bilinear(fn: Callable[..., Any], transpose0: Rule, transpose1: Rule, **options: Any) -> Multilinear:
    """Enter a function that is linear in each of its two arguments, as ``matmul`` is: the product rule gives its tangent.

    Parameters
    ----------
    fn : function ``fn(a, b, **kwargs)`` made with `dualad.primitive`.
    transpose0, transpose1 : functions ``transpose(g, a, b, **kwargs)`` that return the cotangents of a and of b.
    options : see `linear`.

    Returns
    -------
    Multilinear, the row.

    Raises
    ------
    ValueError
        Where the function has a row already.

    Examples
    --------
    >>> import dualad
    >>> import numpy as np
    >>> from checkpoint import grad
    >>> @dualad.primitive
    ... def pair(a, b):
    ...     return np.sum(a * b)
    >>> _ = dualad.rules.bilinear(pair, lambda g, a, b: g * b, lambda g, a, b: g * a)
    >>> grad(pair, argnums=(0, 1))(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    (array([3., 4.]), array([1., 2.]))
    """

    def transpose(i, *rest, **kwargs):
        return row.transposes[i](*rest, **kwargs)

    row = multilinear(fn, transpose, kind="bilinear", transposes=(transpose0, transpose1), **options)
    return row


def explicit(fn: Callable[..., Any], jvp: Rules = None, vjp: Rules = None, **options: Any) -> Differentiable:
    """Enter a function with both products written out.

    Parameters
    ----------
    fn : function made with `dualad.primitive`.
    jvp : function ``jvp(t, ans, *args, **kwargs)`` that returns the share of one argument's tangent, or a tuple of one for each
        argument; None where there is none.
    vjp : function ``vjp(g, ans, *args, **kwargs)`` that returns the cotangent of one argument, or a tuple.
    options : ``argnums=``, the positions that the rules are for, where these are not the first arguments.

    Returns
    -------
    Differentiable, the row. One of the two may be left out, for a black box that has only the other: the missing mode raises and
    names the function.

    Raises
    ------
    ValueError
        Where the function has a row already.

    Examples
    --------
    >>> import dualad
    >>> from checkpoint import grad
    >>> @dualad.primitive
    ... def cube(x):
    ...     return x * x * x
    >>> _ = dualad.rules.explicit(cube, lambda t, ans, x: 3.0 * x**2 * t, lambda g, ans, x: 3.0 * x**2 * g)
    >>> dualad.derivative(cube)(2.0), grad(cube)(2.0)
    (12.0, 12.0)
    """
    jvps, vjps = as_tuple(jvp), as_tuple(vjp)
    count = max(len(jvps), len(vjps))
    return register(
        Differentiable(fn, jvps if jvp is not None else (None,) * count, vjps if vjp is not None else (None,) * count, **options)
    )


def composite(fn: Callable[..., Any], body: Callable[..., Any], **options: Any) -> Composite:
    """Enter a function by a body in functions that have rows: its derivative is that of the body.

    Parameters
    ----------
    fn : function made with `dualad.primitive`, whose own code may be anything (compiled, say).
    body : function of the same arguments, which computes the same.
    options : ``with_numpy_value=True`` where the body gives the value only up to rounding: the value comes from `fn`, the derivative from
        `body`.

    Returns
    -------
    Composite, the row.

    Raises
    ------
    ValueError
        Where the function has a row already.

    Examples
    --------
    >>> import dualad
    >>> import numpy as np
    >>> @dualad.primitive
    ... def rms(x):
    ...     return float(np.linalg.norm(np.asarray(x)) / len(x) ** 0.5)
    >>> _ = dualad.rules.composite(rms, lambda x: np.sqrt(np.mean(x * x)))
    >>> dualad.gradient(rms)(np.array([3.0, 3.0]))
    array([0.5, 0.5])
    """
    return register(Composite(fn, body, **options))


def constant(*fns: Callable[..., Any], **options: Any) -> None:
    """Enter functions whose derivative is zero, or whose result is no number.

    Parameters
    ----------
    fns : functions made with `dualad.primitive`.
    options : of the rows, as those of NumPy's functions have them (`dualad.rules.rows.Row`).

    Raises
    ------
    ValueError
        Where a function has a row already.

    Examples
    --------
    >>> import dualad
    >>> import numpy as np
    >>> @dualad.primitive
    ... def nearest(x):
    ...     return np.rint(x)
    >>> dualad.rules.constant(nearest)
    >>> dualad.derivative(lambda x: x * nearest(x))(2.2)
    2.0
    """
    for fn in fns:
        register(Constant(fn, **options))


def refused(reason: str, *fns: Callable[..., Any], **options: Any) -> None:
    """Enter functions that have no derivative, so that they raise on traced values.

    Parameters
    ----------
    reason : why, and what to use instead; the error says it.
    fns : functions made with `dualad.primitive`.
    options : of the rows, as those of NumPy's functions have them (`dualad.rules.rows.Row`).

    Raises
    ------
    ValueError
        Where a function has a row already.

    Examples
    --------
    >>> import dualad
    >>> @dualad.primitive
    ... def digits(x):
    ...     return str(x)
    >>> dualad.rules.refused("it makes a text: give it dualad.primal(x)", digits)
    >>> dualad.derivative(digits)(2.0)                   # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    TypeError: ...digits has no derivative: it makes a text: give it dualad.primal(x)
    """
    for fn in fns:
        register(Refused(fn, reason, **options))


#: functions of packages that only some users import, which have got their rows since
brought: set[Callable] = set()


def trust_rows(before: set[Callable] | None = None) -> None:
    """Mark rows as written in this package: all so far, or those of functions that had none `before`, which are noted."""
    fresh = set(ROWS) - (before or set())
    for fn in fresh:
        ROWS[fn].trusted = True
    if before is not None:
        brought.update(fresh)


def as_tuple(rules):
    return rules if isinstance(rules, tuple) else (rules,)
