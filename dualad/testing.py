"""check_derivatives: rules against central differences, for users' own functions and rules."""

from __future__ import annotations

import numpy as np
import optree

from .derivative import jvp
from .dispatch import dtype_of
from .rules.indexing import cast
from .seeding import check_function, flatten_input, flatten_output, shape_of

__all__ = ["check_derivatives", "differences"]


# --- public -----------------------------------------------------------------------------------------------------------------

def check_derivatives(f, *args, order=2, modes=None, vjp=None, rtol=None, atol=None, step=None, seed=0):
    """Compare the derivatives of `f` at `args` with central differences, along random directions.

    Each argument (each leaf of it) is varied alone, so that an error names the argument. The two modes share the partials
    of a rule: comparing them with each other finds no wrong partial, differences do.

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
        Where `order` or `modes` is wrong, or reverse mode is asked for without `vjp`.

    Examples
    --------
    >>> import numpy as np
    >>> from dualad.testing import check_derivatives
    >>> from checkpoint import vjp
    >>> check_derivatives(lambda x, y: np.sin(x) * y, np.array([0.5, 1.0]), 2.0, vjp=vjp)

    Notes
    -----
    The differences are the five-point ones, of error O(step**4) (Abramowitz & Stegun 1964, 25.3.6).
    """
    check_function(f, "check_derivatives")
    if order not in (1, 2):
        raise ValueError(f"check_derivatives: order is {order!r}: give 1 or 2")
    modes = ("forward", "reverse")[:1 + (vjp is not None)] if modes is None else (modes,) if isinstance(modes, str) else modes
    if not modes or not set(modes) <= {"forward", "reverse"}:
        raise ValueError(f"check_derivatives: modes is {modes!r}: give 'forward', 'reverse' or both")
    if "reverse" in modes and vjp is None:
        raise TypeError("check_derivatives: reverse mode needs vjp=: pass checkpoint.vjp")
    check = Check(f, args, rtol, atol, step, seed)
    if "forward" in modes:
        check.forward(order)
    if "reverse" in modes:
        check.reverse(order, vjp)


def differences(f, leaves, directions, step=None):
    """Return the derivative of `f`, from lists of leaves to lists of leaves, along a direction by five-point differences.

    A direction of None leaves its leaf where it is. Results have the dtypes of f's.
    """
    h = (precision(leaves)**0.2 if step is None else step) * max(1.0, *(float(np.max(np.abs(x), initial=0.0)) for x in leaves))
    moved = {k: f([x if v is None else shifted(x, k * h * v) for x, v in zip(leaves, directions, strict=True)]) for k in (-2, -1,
                                                                                                                          1, 2)}
    return [(8.0 * (above - below) - (further - before)) / (12.0 * h)
            for before, below, above, further in zip(*(map(np.asarray, moved[k]) for k in (-2, -1, 1, 2)), strict=True)]


# --- parts ------------------------------------------------------------------------------------------------------------------

def shifted(x, step):
    """Return x + step in the dtype and memory layout of `x`."""
    step = cast(np.asarray(step), dtype_of(x))[()]
    return np.add(x, step, out=np.empty_like(x)) if isinstance(x, np.ndarray) else x + step


def precision(leaves):
    """Return the machine epsilon of the lowest precision among the inexact leaves."""
    return max((float(np.finfo(dtype_of(x)).eps) for x in leaves if dtype_of(x).kind in "fc"), default=2.0**-52)


class Check:
    """One function at one point, with its leaves numbered through all arguments."""

    def __init__(self, f, args, rtol, atol, step, seed):
        self.f, self.step = f, step
        self.leaves, self.structure = flatten_input(args, "check_derivatives")
        self.names = [f"argument {first}" + "".join(f"[{part!r}]" for part in rest)
                      for first, *rest in optree.treespec_paths(self.structure)]
        outs, _ = flatten_output(f(*args), "check_derivatives")
        self.inexact = [dtype_of(out).kind in "fc" for out in outs]
        self.size = max((float(np.max(np.abs(out), initial=0.0)) for out in outs), default=0.0)
        eps = precision([*self.leaves, *outs])
        self.noise = 8 * eps**0.8 * self.size if step is None else 8 * eps * self.size / step
        self.rtol = eps**0.4 if rtol is None else rtol
        self.atol = eps**0.4 if atol is None else atol
        self.random = np.random.default_rng(seed)

    def flat(self, f, keep=None):
        """Return a function of trees as one of lists of leaves; of `keep`, by default f's inexact results, only."""
        def call(leaves):
            outs, _ = flatten_output(f(*self.tree(leaves)), "check_derivatives")
            return [out for out, kept in zip(outs, self.inexact if keep is None else keep, strict=True) if kept]
        return call

    def direction(self, like):
        """Return random numbers of the shape and dtype of a leaf."""
        numbers = self.random.standard_normal(shape_of(like))
        if dtype_of(like).kind == "c":
            numbers = numbers + 1j * self.random.standard_normal(shape_of(like))
        return np.asarray(numbers).astype(dtype_of(like))[()]

    def tree(self, leaves):
        return optree.tree_unflatten(self.structure, leaves)

    def along(self, f, directions):
        """Return a function of the arguments that computes the tangent of `f` along fixed directions."""
        return lambda *args: jvp(f, args, self.tree(directions))[1]

    def alone(self, i, v):
        return [v if k == i else np.zeros_like(x)[()] for k, x in enumerate(self.leaves)]

    def forward(self, order):
        for n in range(1, order + 1):
            f = self.f if n == 1 else self.along(self.f, [self.direction(x) for x in self.leaves])
            for i, name in enumerate(self.names):
                v = self.direction(self.leaves[i])
                pushed = self.flat(self.along(f, self.alone(i, v)))(self.leaves)
                expected = differences(self.flat(f), self.leaves, [v if k == i else None for k in range(len(self.leaves))],
                                       self.step)
                for k, (a, b) in enumerate(zip(pushed, expected, strict=True)):
                    self.compare(a, b, f"forward mode, order {n}: the derivative of output{place(k, len(pushed))} by {name}")

    def reverse(self, order, vjp):
        outs, structure = flatten_output(self.f(*self.tree(self.leaves)), "check_derivatives")
        g = [self.direction(out) if dtype_of(out).kind in "fc" else np.zeros_like(out, dtype=float) for out in outs]
        pull = lambda g: lambda *args: vjp(self.f, *args)[1](optree.tree_unflatten(structure, g))
        every = [True] * len(self.leaves)
        pulled = self.flat(pull(g), every)(self.leaves)
        for i, name in enumerate(self.names):
            v = self.direction(self.leaves[i])
            alone = [v if k == i else None for k in range(len(self.leaves))]
            expected = differences(self.flat(self.f), self.leaves, alone, self.step)
            wanted = sum(paired(h, t) for h, t in zip((h for h, ok in zip(g, self.inexact, strict=True) if ok), expected,
                                                      strict=True))
            what = f"reverse mode, order 1: the derivative of output{{}} by {name}"
            if not self.close(paired(pulled[i], v), wanted):
                self.localise(outs, pull, i, v, expected, what)
            self.compare(paired(pulled[i], v), wanted, what.format(""))
            if order == 2:
                pushed = self.flat(self.along(pull(g), self.alone(i, v)), every)(self.leaves)
                expected = differences(self.flat(pull(g), every), self.leaves, alone, self.step)
                for k, (a, b) in enumerate(zip(pushed, expected, strict=True)):
                    self.compare(a, b,
                                 f"forward over reverse mode, order 2: the derivative by {name} of the cotangent of {self.names[k]}")

    def localise(self, outs, pull, i, v, expected, what):
        """Find the output element whose cotangent is wrong, by unit cotangents."""
        expected = iter(expected)
        for k, out in enumerate(outs):
            if not self.inexact[k]:
                continue
            numbers = next(expected)
            for index in np.ndindex(shape_of(out)):
                g = [np.zeros_like(h, dtype=None if ok else float) for h, ok in zip(outs, self.inexact, strict=True)]
                g[k][index] = 1.0
                got = paired(self.flat(pull([h[()] for h in g]), [True] * len(self.leaves))(self.leaves)[i], v)
                self.compare(got, np.real(numbers[index]), what.format(place(k,
                                                                             len(outs)) + (str(list(map(int,
                                                                                                        index))) if index
                                                                                           else "")))

    def allowed(self, expected):
        return self.atol + self.noise + self.rtol * float(np.max(np.abs(expected), initial=0.0))

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
        raise AssertionError(f"check_derivatives: {what}{where} is {got[index]} by the rule, {expected[index]} by central differences "
                             f"(allowed error {self.allowed(expected):.1e})")


def paired(g, t):
    """Return the pairing of a cotangent and a tangent."""
    return float(np.real(np.sum(np.multiply(g, t))))


def place(k, count):
    return f" {k}" if count > 1 else ""
