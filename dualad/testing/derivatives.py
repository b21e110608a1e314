"""check_derivatives: rules against central differences, for users' own functions and rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import optree

from ..core.dispatch import dtype_of
from ..forward.seeding import check_function, flatten_input, flatten_output, shape_of
from ..rules.indexing import cast
from ..support.callers import trimmed
from ..verbs.derivative import jvp

# --- public -----------------------------------------------------------------------------------------------------------------


@trimmed
def check_derivatives(
    f: Callable[..., Any],
    *args: Any,
    order: int = 2,
    modes: str | Sequence[str] | None = None,
    vjp: Callable[..., Any] | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    step: float | None = None,
    seed: int = 0,
) -> None:
    """Compare the derivatives of `f` at `args` with central differences, along random directions.

    Each argument (each leaf of it) is varied alone, so that an error names the argument. The two modes share the partials
    of a rule: so only differences, not their agreement, find a wrong partial.

    Parameters
    ----------
    f : function of numbers, arrays or pytrees of them, real or complex; it returns one too.
    args : the point. It should not be a kink of f: the differences look `step` to both sides.
    order : 1, or 2 to check the derivative of the derivative too.
    modes : ("forward",), ("reverse",) or both; by default forward, and reverse where `vjp` is given.
    vjp : `checkpoint.vjp`, or a function like it, to check reverse mode.
    rtol, atol : allowed error, relative to the largest element of the result, and absolute. By default ``eps**0.4`` of the
        lowest precision met (5e-7 for float64, 2e-3 for float32).
    step : step of the differences, relative to ``max(1, abs(x))``; by default ``eps**0.2`` (7e-4 for float64).
    seed : of the random directions.

    Raises
    ------
    AssertionError
        Where a derivative is wrong; the message names mode, order, argument and output element, with both numbers.
    ValueError, TypeError
        Where `order` or `modes` is wrong, or reverse mode is requested without `vjp`.

    Examples
    --------
    >>> import numpy as np
    >>> from dualad.testing import check_derivatives
    >>> from checkpoint import vjp
    >>> check_derivatives(lambda x, y: np.sin(x) * y, np.array([0.5, 1.0]), 2.0, vjp=vjp)

    Notes
    -----
    The differences are the five-point ones, of error ``O(step**4)`` (Abramowitz & Stegun 1964, 25.3.6).
    """
    check_function(f, "check_derivatives")
    if order not in (1, 2):
        raise ValueError(f"check_derivatives: order is {order!r}: give 1 or 2")
    modes = ("forward", "reverse")[: 1 + (vjp is not None)] if modes is None else (modes,) if isinstance(modes, str) else modes
    if not modes or not set(modes) <= {"forward", "reverse"}:
        raise ValueError(f"check_derivatives: modes is {modes!r}: give 'forward', 'reverse' or both")
    if "reverse" in modes and vjp is None:
        raise TypeError("check_derivatives: reverse mode needs vjp=: pass checkpoint.vjp")
    check = Check(f, args, rtol, atol, step, seed)
    for n in range(1, order + 1):
        if "forward" in modes:
            check.forward(n)
        if "reverse" in modes:
            check.reverse(n, vjp)


def differences(
    f: Callable[[list[Any]], Sequence[Any]], leaves: Sequence[Any], directions: Sequence[Any], step: float | None = None
) -> list[Any]:
    """Return the derivative of `f` along a direction by five-point differences: an oracle that shares nothing with the rules.

    Parameters
    ----------
    f : function of a list of numbers and arrays, which returns a list of them.
    leaves : the point, a list.
    directions : a list of one tangent a leaf, of its shape; None leaves its leaf where it is.
    step : step of the differences, relative to ``max(1, abs(x))``; by default ``eps**0.2`` (7e-4 for float64).

    Returns
    -------
    list of derivatives, of the shapes and dtypes of f's results.

    Raises
    ------
    ValueError
        Where there are not as many directions as leaves.

    Examples
    --------
    >>> from dualad.testing import differences
    >>> [round(float(slope), 9) for slope in differences(lambda leaves: [leaves[0] ** 3], [2.0], [1.0])]
    [12.0]

    Notes
    -----
    Of error ``O(step**4)`` (Abramowitz & Stegun 1964, 25.3.6).
    """
    if len(directions) != len(leaves):
        raise ValueError(f"differences: there are {len(directions)} directions for {len(leaves)} leaves: give one for each, or None")
    largest = max((float(np.max(np.abs(x), initial=0.0)) for x in leaves), default=0.0)
    h = (precision(leaves) ** 0.2 if step is None else step) * max(1.0, largest)
    moved = [f([x if v is None else shifted(x, k * h * v) for x, v in zip(leaves, directions, strict=True)]) for k in (-2, -1, 1, 2)]
    return [
        (8.0 * (above - below) - (further - before)) / (12.0 * h)
        for before, below, above, further in zip(*(map(np.asarray, outs) for outs in moved), strict=True)
    ]


# --- parts ------------------------------------------------------------------------------------------------------------------


def shifted(x, step):
    """Return x + step in the dtype and memory layout of `x`."""
    step = cast(np.asarray(step), dtype_of(x))[()]
    return np.add(x, step, out=np.empty_like(x)) if issubclass(type(x), np.ndarray) else x + step


def precision(leaves):
    """Return the machine epsilon of the lowest precision among the inexact leaves."""
    return max((float(np.finfo(dtype_of(x)).eps) for x in leaves if is_inexact(x)), default=2.0**-52)


def is_inexact(x):
    return dtype_of(x).kind in "fc"


class Check:
    """One function at one point, its leaves numbered through all arguments; a leaf at a time is varied."""

    def __init__(self, f, args, rtol, atol, step, seed):
        self.f, self.step = f, step
        self.leaves, self.structure = flatten_input(args, "check_derivatives")
        self.names = [
            f"argument {first}" + "".join(f"[{part!r}]" for part in rest) for first, *rest in optree.treespec_paths(self.structure)
        ]
        self.outs, self.out_structure = flatten_output(f(*self.tree(self.leaves)), "check_derivatives")
        size = max((float(np.max(np.abs(out), initial=0.0)) for out in self.outs), default=0.0)
        eps = precision([*self.leaves, *self.outs])
        self.rtol = eps**0.4 if rtol is None else rtol
        self.atol = (eps**0.4 if atol is None else atol) + 8.0 * eps * size / (eps**0.2 if step is None else step)  # rounding
        self.random = np.random.default_rng(seed)

    # --- the function, between lists of leaves ----------------------------------------------------------------------------

    def tree(self, leaves):
        """Return the arguments; f gets arrays of its own, which it may write into."""
        return optree.tree_unflatten(self.structure, [np.array(x) if type(x) is np.ndarray else x for x in leaves])

    def value(self, leaves):
        """Return the inexact results."""
        return self.inexact(self.f(*self.tree(leaves)))

    def inexact(self, tree):
        """Return the leaves that belong to inexact results."""
        leaves, _ = flatten_output(tree, "check_derivatives")
        return [leaf for leaf, out in zip(leaves, self.outs, strict=True) if is_inexact(out)]

    def push(self, leaves, tangents):
        """Return the tangents of the inexact results."""
        directions: Any = optree.tree_unflatten(self.structure, tangents)
        return self.inexact(jvp(self.f, self.tree(leaves), directions)[1])

    def pull(self, vjp, leaves, cotangents):
        """Return the cotangents of the leaves."""
        pullback = vjp(self.f, *self.tree(leaves))[1]
        return optree.tree_leaves(pullback(optree.tree_unflatten(self.out_structure, cotangents)))

    def along(self, g, tangents):
        """Return the tangents of `g`, between lists of leaves, at the point."""
        return jvp(lambda leaves: g(leaves), (self.leaves,), (tangents,))[1]

    # --- directions -------------------------------------------------------------------------------------------------------

    def direction(self, like):
        """Return random numbers of the shape and dtype of a leaf."""
        numbers = self.random.standard_normal(shape_of(like))
        if dtype_of(like).kind == "c":
            numbers = numbers + 1j * self.random.standard_normal(shape_of(like))
        return np.asarray(numbers).astype(dtype_of(like))[()]

    def each(self):
        """Yield, for each leaf, its number, its name, and a direction of it alone."""
        for i, name in enumerate(self.names):
            v = self.direction(self.leaves[i])
            yield i, name, [v if k == i else np.zeros_like(x)[()] for k, x in enumerate(self.leaves)]

    def cotangents(self, of):
        """Return a cotangent for each result; zeros for what is no inexact number."""
        return [of(out) if is_inexact(out) else np.zeros(shape_of(out))[()] for out in self.outs]

    # --- the two modes ----------------------------------------------------------------------------------------------------

    def forward(self, order):
        """Compare the tangents of each result by each leaf, of f or of its tangent along one direction."""
        v = [self.direction(x) for x in self.leaves]
        g = self.value if order == 1 else lambda leaves: self.push(leaves, v)
        for _, name, tangents in self.each():
            pushed = self.along(g, tangents)
            for k, (got, wanted) in enumerate(zip(pushed, differences(g, self.leaves, tangents, self.step), strict=True)):
                self.compare(got, wanted, f"forward mode, order {order}: the derivative of output{place(k, pushed)} by {name}")

    def reverse(self, order, vjp):
        """Compare the cotangents of each leaf, or their tangents by each leaf."""
        g = self.cotangents(self.direction)
        pulled = self.pull(vjp, self.leaves, g)
        for i, name, tangents in self.each():
            if order == 1:
                wanted = differences(self.value, self.leaves, tangents, self.step)
                shares = (h for h, out in zip(g, self.outs, strict=True) if is_inexact(out))
                sums = paired(pulled[i], tangents[i]), sum(map(paired, shares, wanted))
                what = f"reverse mode, order 1: the derivative of output{{}} by {name}"
                if not self.close(*sums):
                    self.localise(vjp, i, tangents[i], wanted, what)
                self.compare(*sums, what.format(""))
                continue
            cotangents = lambda leaves: self.pull(vjp, leaves, g)
            pushed, wanted = self.along(cotangents, tangents), differences(cotangents, self.leaves, tangents, self.step)
            for got, expected, other in zip(pushed, wanted, self.names, strict=True):
                self.compare(got, expected, f"forward over reverse mode, order 2: the derivative by {name} of the cotangent of {other}")

    def localise(self, vjp, i, v, wanted, what):
        """Raise for the first element of a result whose cotangent is wrong, found by unit cotangents."""
        numbers = iter(wanted)
        for k, out in enumerate(self.outs):
            expected: Any = next(numbers) if is_inexact(out) else None
            for index in np.ndindex(shape_of(out)) if is_inexact(out) else ():
                g = self.cotangents(np.zeros_like)
                g[k] = unit = np.array(g[k])
                unit[index] = 1.0
                pulled = self.pull(vjp, self.leaves, [h[()] for h in g])
                element = str(list(map(int, index))) if index else ""
                self.compare(paired(pulled[i], v), np.real(expected[index]), what.format(place(k, self.outs) + element))

    # --- numbers ----------------------------------------------------------------------------------------------------------

    def allowed(self, expected):
        return self.atol + self.rtol * float(np.max(np.abs(expected), initial=0.0))

    def close(self, got, expected):
        return bool(np.all(np.abs(np.asarray(got) - expected) <= self.allowed(expected)))

    def compare(self, got, expected, what):
        """Raise where the rule and the differences do not agree, naming the worst element."""
        got, expected = np.asarray(got), np.asarray(expected)
        if got.shape != expected.shape:
            raise AssertionError(f"check_derivatives: {what} has shape {got.shape} by the rule, {expected.shape} by differences")
        if self.close(got, expected):
            return
        error = np.abs(got - expected)
        index = np.unravel_index(np.argmax(np.where(np.isnan(error), np.inf, error)), error.shape)
        where = f" at {[int(i) for i in index]}" if index else ""
        raise AssertionError(
            f"check_derivatives: {what}{where} is {got[index]} by the rule, {expected[index]} by central differences "
            f"(allowed error {self.allowed(expected):.1e})"
        )


def paired(g, t):
    """Return the pairing of a cotangent and a tangent."""
    return float(np.real(np.sum(np.multiply(g, t))))


def place(k, outs):
    """Return the number of a result where there are several."""
    return f" {k}" if len(outs) > 1 else ""
