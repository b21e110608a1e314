"""Rows of the table of rules, one class for each kind: the interface to the interpreters.

A row says what the derivative of one function is; its kind is most of the rule. The derivative of a row with one, called
by every interpreter, is two methods::

    row.jvp(ans, args, kwargs, tangents)   -> tangent of ans; tangents[i] belongs to args[i], None is a zero
    row.vjp(i, g, ans, args, kwargs)       -> cotangent of args[i]

Besides, an interpreter asks a row how to call it (`call`, `canonical`, `complex_body`, the `body` of a composite), what to keep for the
reverse sweep (`saved`, `uses`, `uses_ans`, `shape_only`), and, for short paths, the partials themselves. For the letters see `kinds`.
"""

from __future__ import annotations

import operator as operators
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial as bind
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np

from ..support.forks import cached_property
from .batching import derived_form
from .calling import dtype_position, missing_rule, out_position, positional_count, public_name, required_count
from .cotangents import FLOAT, Abstract, is_number, like_primal, plus, unbroadcast
from .names import ABSENT, Absent
from .partials import MARKS, MINUS_ONE, ONE, evaluate_partial, fits_into, product, used_by
from .precision import in_loop_dtypes
from .primitives import all_finite, strong_multiply, zero_wins

ROWS: dict[Callable, Row] = {}
#: the rows of Python's operators, by name, and how it writes those of two numbers
OPERATORS: dict[str, Row] = {}
COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
SYMBOLS = {
    "add": "+", "sub": "-", "mul": "*", "matmul": "@", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "lshift": "<<",
    "rshift": ">>", "and": "&", "or": "|", "xor": "^", **COMPARISONS,
}  # fmt: skip
AnyRow = TypeVar("AnyRow", bound="Row")


# --- rows -------------------------------------------------------------------------------------------------------------


class Row:
    """One function's entry in the table; the subclass (its kind) says how an interpreter treats it."""

    kind: str = "row"
    fn: Any
    #: run instead of the rule when an array argument is complex
    complex_body: Callable | None = None
    #: turns a call into (positional arrays and metadata, keywords), where the function takes a sequence of arrays
    canonical: Callable | None = None
    #: "always", "maybe" or "alone" (of one array): the result is a view of the first argument, as in NumPy; `viewed` is evaluated when
    #: the array was written, in place of a function that does not take canonical arguments
    view: str | None = None
    viewed: Callable
    #: makes an array ``like=`` a traced one, which its body gets first
    like: bool = False
    #: looks at values: a shape, a dtype or the way taken depends on them (a function of the arguments: on those that it returns)
    value_dependent: bool | Callable = False
    #: answered from shapes and dtypes alone
    metadata: bool = False
    #: written in this package: its results may be used as scratch
    trusted: bool = False
    #: an elementwise function with one rule for real and complex arrays
    short: bool = False
    #: the body follows NumPy only up to rounding, or in what it takes: the value is the function's own (a predicate: for some calls)
    with_numpy_value: bool | Callable = False
    #: each element of its result is computed of those elements of its arguments that it stands at
    elementwise: bool = False
    #: each element of its result is one of its array arguments, or zero: asked by moving positions (a predicate: for some calls)
    moves: bool | Callable = False
    #: keywords that add a constant
    affine: tuple[str, ...] = ()
    #: the axes that it works along, or the argument that names them: along them all depends on all
    axes: str | tuple[int, ...] | None = None
    #: where its sparsity pattern does not follow from these: the function of `sparse/calls.py` that gives it
    pattern: str | None = None
    #: how it acts on K directions at once, where that does not follow from the other fields (`batching`); False: one after the other
    batch: Callable | Literal[False] | None = None
    #: the rule of `loops` that lowers it, where that is neither an elementwise one nor follows from the other fields
    lower: str | None = None
    #: where there is no other form, compiled code calls its inner loop: an `InnerLoop` of the arguments; of an elementwise ufunc its own
    inner: Callable | None = None
    #: in place of a call, loops are made of what its own code calls, all of which has rows (True), or another function of its arguments
    inlined: Any = False
    #: its expression in a loop, where it is elementwise (`scalars.Scalar`); others of integers, complex numbers, Python's integers
    scalar: Any = None
    of_integers: Any = None
    of_complex: Any = None
    exact: Any = None
    #: why the loops call it, where they do and that does not follow from the other fields
    called: str | None = None
    #: takes a list of arrays, which it joins: along an "axis" that they have, or as "rows" along a new one
    joins: Literal["axis", "rows"] | None = None
    #: gives its first argument where shape, dtype and layout stay; "real": where it is real, too
    neutral: bool | Literal["real"] = False
    #: sooner computed again than kept, besides what is elementwise or a view
    cheap: bool = False
    #: jumps: another rounding of an argument may give quite another result
    chooses: bool = False
    #: of truth values, whatever its arguments are
    logical: bool = False
    #: of integers and bits: without derivative, but with a value
    bits: bool = False
    #: the shape of its result depends on the values; its name in `graph/selection.py` where that has it for traced masks
    data_shaped: bool | str = False
    #: may raise LinAlgError for some values
    raises: bool = False
    #: the operator of Python that it is, as its method is named: add for __add__
    operator: str | None = None
    #: the argument at whose zero it raises where all are numbers of Python
    divides: int | None = None
    #: whether a call with a dtype makes labels, in the shape of an array
    labels: Callable | None = None
    #: gives an array to write into, also one of no axes; writes into its first argument
    buffer: bool = False
    writes: bool = False
    #: the function of `graph/ranks.py` that evaluates it on what a traced mask selects, where that is no reduction
    selected: str | None = None
    #: zeros among the elements that it adds up change nothing
    skips_zeros: bool = False
    #: the ufunc whose reduction it is
    reduces: np.ufunc | None = None
    #: where its form on dask arrays does not follow from these: the function of `dask/calls.py` that gives it
    blocks: str | None = None
    #: linear in its first argument, the only one with a derivative; and if its result is never a view
    alone: bool = False
    unary_linear_no_view: bool = False

    def __init__(self, fn: Callable, **options):
        self.fn = self.call = self.viewed = fn
        self.name = public_name(fn)
        if type(fn) is np.ufunc:
            self.elementwise = fn.signature is None and fn.nout == 1
        for option, setting in options.items():
            if not hasattr(self, option) and not any(option in vars(kind).get("__annotations__", ()) for kind in type(self).__mro__):
                raise TypeError(f"the row of {self.name} has no option {option!r}")
            setattr(self, option, setting)

    # what is read of a signature is read when it is first asked for: half of the import would go into it

    @cached_property
    def dtype_at(self) -> int | None:
        """Where its argument ``dtype`` stands, None if it has none."""
        return None if self.like else dtype_position(self.fn)

    @cached_property
    def required(self) -> int:
        """How many of its arguments have no default."""
        return 0 if self.like else required_count(self.fn)

    @cached_property
    def out_at(self) -> int:
        """How many of its arguments stand before ``out``."""
        place = None if self.like else out_position(self.fn)
        return sys.maxsize if place is None else place

    @cached_property
    def most(self) -> int:
        """How many of its arguments stand before ``dtype`` and ``out``."""
        return min(self.out_at, sys.maxsize if self.dtype_at is None else self.dtype_at)

    @cached_property
    def of_numbers(self) -> Callable | None:
        """The function for Python numbers, None where it is no operator."""
        return None if self.operator is None else getattr(operators, f"__{self.operator}__", None)

    def views(self, args):
        """Return whether a call with these arrays may return a view of the first one."""
        return self.view is not None and (self.view != "alone" or len(args) == 1)

    def looked_at(self, args, kwargs):
        """Return the arguments of a call that a shape, a dtype or the way taken depends on."""
        return self.value_dependent(*args, **kwargs) if callable(self.value_dependent) else (*args, *kwargs.values())

    def __repr__(self):
        return f"<{self.kind} row of {self.name}>"


class Refused(Row):
    """No derivative exists here: calling the function on a traced value raises, with the reason."""

    kind = "refused"

    def __init__(self, fn, reason: str, **options):
        super().__init__(fn, **options)
        self.refusal = f"{self.name} has no derivative: {reason}"


class Constant(Row):
    """Zero derivative, or a result that is no number: evaluated one level down."""

    kind = "constant"


class Composite(Row):
    """Defined by a body in functions that have rows."""

    kind = "composite"
    #: gives for ``(args, kwargs)`` a row of rules for where values are known, one entry on a tape for those of the body, or None
    in_short: Callable[..., Differentiable | None] | None = None

    def __init__(self, fn, body: Callable, **options):
        super().__init__(fn, **options)
        self.body = body

    @cached_property
    def direct(self) -> bool:
        """Whether a call without ``dtype`` and ``out`` is one of the body, unless a predicate asks for the value of NumPy."""
        return not (self.like or self.value_dependent or self.with_numpy_value is True)

    def restates(self, args, kwargs):
        """Return whether the value of a call is computed by the function itself."""
        return self.with_numpy_value if type(self.with_numpy_value) is bool else self.with_numpy_value(*args, **kwargs)


class Differentiable(Row):
    """One JVP ``jvp(t, ans, *args, **kwargs)`` and one VJP ``vjp(g, ans, *args, **kwargs)`` for each of `argnums`, None where all
    positional arguments are arrays. `shape_only`: the VJPs need the shapes and dtypes of array arguments alone."""

    kind = "explicit"
    shape_only = False
    uses_ans = True
    #: of a user's function: the parameters that some rule does not take, None before the first call
    lacking: set[str] | None = None
    #: of a linear or bilinear function: what pulls a cotangent back to each argument
    transposes: tuple[Callable, ...] = ()
    #: where its rules stand, and how many arguments they take before those of the function
    rules: ClassVar = {"jvps": 2, "vjps": 2, "transposes": 1}

    def __init__(self, fn, jvps, vjps, argnums: Sequence[int] | None = None, **options):
        super().__init__(fn, **options)
        self.jvps, self.vjps = jvps, vjps
        self.argnums = tuple(range(len(vjps))) if argnums is None else tuple(argnums)
        self.last = max(self.argnums, default=-1)

    def arrays(self, args) -> Iterable[int]:
        """Return the positions of the array arguments of a call."""
        return self.argnums if self.last < len(args) else [i for i in self.argnums if i < len(args)]

    def saved(self, args, active):
        """Return the arguments as the VJPs for the positions `active` need them: values, or only shapes and dtypes."""
        if not self.shape_only:
            return args
        arrays = self.arrays(args)
        return [Abstract(arg) if i in arrays else arg for i, arg in enumerate(args)]

    def jvp(self, ans, args, kwargs, tangents):
        """Return the tangent of ``ans``: the sum of each argument's share."""
        total = None
        for i, rule in zip(self.argnums, self.jvps, strict=True):
            if i < len(args) and tangents[i] is not None:
                if rule is None:
                    raise missing_rule(self, "JVP", i)
                share = rule(tangents[i], ans, *args, **kwargs)
                total = share if total is None else plus(total, share)
        return total

    def vjp(self, i, g, ans, args, kwargs):
        if self.alone:
            share = self.transposes[0](g, *args, **kwargs)
        elif (rule := self.vjps[self.argnums.index(i)]) is not None:
            share = rule(g, ans, *args, **kwargs)
        else:
            raise missing_rule(self, "VJP", i)
        kept = type(share) is np.ndarray and share.dtype is getattr(args[i], "dtype", None)  # asked here, because most do
        return share if kept else like_primal(share, args[i])


class Joint(Differentiable):
    """Linear in all its array arguments taken together (``concatenate``, ``where``): one call pushes all tangents."""

    kind = "linear"
    shape_only = True
    uses_ans = False
    #: where in the result each array stands, as an index (or None): a function of the arrays, the number of axes and the keywords
    parts: Callable | None = None

    def __init__(self, fn, transpose, argnums=None, zero=np.zeros_like, **options):
        super().__init__(fn, (), (), **options)
        self.transpose, self.zero, self.argnums = transpose, zero, argnums

    def arrays(self, args):
        return range(len(args)) if self.argnums is None else self.argnums

    def jvp(self, ans, args, kwargs, tangents):
        filled = list(args)
        for i in self.arrays(args):
            if tangents[i] is not None:
                filled[i] = tangents[i]
            else:
                filled[i] = np.zeros(args[i].shape, args[i].dtype) if type(args[i]) is Abstract else self.zero(args[i])
        return self.call(*filled, **kwargs)

    def vjp(self, i, g, ans, args, kwargs):
        return unbroadcast(self.transpose(i, g, *args, **kwargs), args[i])


class Multilinear(Differentiable):
    """Linear in each positional argument (``matmul``, ``einsum``): the JVP is the product rule."""

    kind = "multilinear"
    uses_ans = False

    def __init__(self, fn, transpose, **options):
        super().__init__(fn, (), (), **options)
        self.transpose = transpose

    def arrays(self, args):
        return range(len(args))

    def saved(self, args, active):
        i = active[0]
        return args if len(active) > 1 else [*args[:i], Abstract(args[i]), *args[i + 1 :]]

    def jvp(self, ans, args, kwargs, tangents):
        total = None
        args = in_loop_dtypes(self.fn, ans, args) if len(args) > 2 else args  # two constants may be multiplied first
        for i, t in enumerate(tangents):
            if t is not None:
                share = self.call(*args[:i], t, *args[i + 1 :], **kwargs)
                total = share if total is None else total + share
        return total

    def vjp(self, i, g, ans, args, kwargs):
        wide = in_loop_dtypes(self.fn, ans, args) if len(args) > 2 else args
        return like_primal(self.transpose(i, g, *wide, **kwargs), args[i])


class Elementwise(Differentiable):
    """One partial for each argument, given ``(ans, *args)`` (or a mark: ONE, ANS, FIRST, ...), by which the JVP and the VJP multiply."""

    #: True, or a predicate of the arguments: a partial may be infinite where the function is finite. Then a zero tangent (or
    #: cotangent) times the partial is zero, and the partial is evaluated without warnings
    singular = False
    kind = "elementwise"
    #: of a function of one argument: a row whose partial reads the value only, and whether that keeps its digits for a value (`enough`),
    #: so that the argument need not be held for the reverse sweep
    brief: Elementwise | None = None
    enough: Callable
    rules: ClassVar = {"partials": 1}

    def __init__(self, fn, *partials, brief=None, **options):
        super().__init__(fn, partials, partials, elementwise=True, **options)
        if brief is not None:
            self.brief = Elementwise(fn, brief, trusted=True)
        self.partials = partials
        self.short = self.complex_body is None
        #: for each argument, whether its partial is computed of the arguments, in the precision of the function
        self.computed = [getattr(partial, "divisor", partial) not in MARKS for partial in partials]
        #: for each argument, ``pullback(g, (ans, *args))`` of plain arrays of one shape; None where it is g itself
        self.pullbacks = [pullback_of(self, i, partial) for i, partial in enumerate(partials)]
        #: the arguments in the order to pull back to: last one that may take over the cotangent's buffer
        self.order = sorted(range(len(partials)), key=lambda i: partials[i] is ONE)

    @cached_property
    def used(self) -> list:
        """For each partial, what it reads of ``(ans, *args)``, by position."""
        return [used_by(partial, 1 + self.count) for partial in self.partials]

    @cached_property
    def uses(self) -> list[tuple[int, ...]]:
        """For each argument, the arguments whose values its partial uses, or the predicate."""
        asked = used_by(self.singular, self.count) if callable(self.singular) else ()
        return [tuple({*asked, *(i - 1 for i in positions if i)}) for positions in self.used]

    @cached_property
    def uses_ans(self) -> bool:  # type: ignore[override]
        return any(0 in positions for positions in self.used)

    @property
    def count(self) -> int:
        """How many arguments there may be."""
        return max(len(self.partials), positional_count(self.fn))

    def arrays(self, args):
        return range(len(args))

    def saved(self, args, active):
        used = self.uses[active[0]] if len(active) == 1 else set().union(*map(self.uses.__getitem__, active))
        return args if len(used) == len(args) else [arg if i in used or not is_number(arg) else Abstract(arg) for i, arg in enumerate(args)]

    def partial(self, i):
        partial = self.partials[i] if i < len(self.partials) else None
        if partial is None:
            raise missing_rule(self, "derivative", i)
        return partial

    def jvp(self, ans, args, kwargs, tangents, strong=False):
        total, owned = None, False
        for i, t in enumerate(tangents):
            if t is None:
                continue
            partial = self.partial(i)
            if partial is ONE:
                term, fresh = t, False
            elif partial is MINUS_ONE:
                term, fresh = -t, True
            else:
                term, fresh = self.multiply(i, t, ans, args, strong, kwargs=kwargs), True
            if total is None:
                total, owned = term, fresh
            elif owned and fits_into(total, term):
                np.add(total, term, total)
            elif fresh and fits_into(term, total):
                total, owned = np.add(total, term, term), True
            else:
                total, owned = total + term, True
        return total

    def vjp(self, i, g, ans, args, kwargs, strong=False):
        partial = self.partial(i)
        if partial is MINUS_ONE:
            g = -g
        elif partial is not ONE:
            g = self.multiply(i, g, ans, args, strong, kwargs=kwargs)
        return unbroadcast(g, args[i])

    def multiply(self, i, t, ans, args, strong=False, mine=False, kwargs=None):
        """Return partial i times the tangent or cotangent `t`, in a buffer of the partial that is fresh, or in `t` if it is `mine`."""
        partial = self.partials[i] if i < len(self.partials) else None
        if partial is None:
            raise missing_rule(self, "derivative", i)
        if self.computed[i] and (len(args) > 1 or not self.trusted):  # ours of one argument keep its dtype
            dtype = getattr(ans, "dtype", FLOAT)
            for arg in args:
                if getattr(arg, "dtype", dtype) is not dtype:  # asked here, because most calls are of one dtype
                    args = in_loop_dtypes(self.fn, ans, args)
                    break
        if kwargs and self.computed[i]:
            partial = bind(partial, **kwargs)
        return self.times(partial, t, ans, args, strong, mine)

    def times(self, partial, t, ans, args, strong=False, mine=False):
        """Return a partial times `t`, as `multiply` does, where all arrays are of one dtype."""
        if strong or (self.singular and (self.singular is True or self.singular(*args))):
            with np.errstate(all="ignore"):
                if type(t) is np.ndarray and (ans is None or type(ans) is np.ndarray) and self.trusted:
                    r = product(partial, t, ans, args)
                    if type(r) is np.ndarray:
                        return zero_wins(r, t)
                return strong_multiply(evaluate_partial(partial, ans, args), t)
        return product(partial, t, ans, args, mine) if self.trusted else evaluate_partial(partial, ans, args) * t


def pullback_of(row, i, partial):
    """Return the function ``(g, (ans, *args))`` that multiplies by partial i, under an error state that ignores; None for 1."""
    if partial is ONE:
        return None
    if partial is MINUS_ONE:
        return lambda g, held: -g
    if partial is None:
        return lambda g, held: row.partial(i)  # which raises
    if divisor := getattr(partial, "divisor", None):

        def pullback(g, held):
            return g / divisor(*held)
    else:

        def pullback(g, held):
            try:
                return partial(*held) * g
            except ZeroDivisionError:  # of a Python number among the arguments, where NumPy has inf
                return row.multiply(i, g, held[0], held[1:])

    def strong_pullback(g, held):
        share = pullback(g, held)
        return share if type(share) is np.ndarray and all_finite(share) else row.multiply(i, g, held[0], held[1:])

    return strong_pullback if row.singular else pullback


# --- the table ---------------------------------------------------------------------------------------------------------


def row_says(fn, field):
    """Return a field of a function's row, None without one."""
    return getattr(ROWS.get(fn), field, None)


def register(row: AnyRow) -> AnyRow:
    """Enter a row into the table, unless NumPy does not have its function; a second row for one function is an error."""
    if type(row.fn) is Absent:
        ABSENT.add(row.name)
        return row
    if row.batch is None:
        row.batch = derived_form(row)
    if row.fn in ROWS:
        raise ValueError(f"rules: {row.name} has a row already ({ROWS[row.fn].kind}); a function has exactly one")
    ROWS[row.fn] = row
    if row.operator is not None:
        OPERATORS[row.operator] = row
    return row
