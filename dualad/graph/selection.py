"""Selection: ``x[mask]`` with a traced mask, whose length depends on the data: the full array and the mask.

A Selection stands above every derivative: what is done with it is done with the full array, at whatever level that is, so the rules of
the table see arrays whose shapes are known. What enters (an element of `x`, a number that is traced) is replaced by a harmless number
where the mask is false, what leaves (a reduction, an assignment) looks only where it is true. In between, anything may stand where
the mask is false: no value, tangent or cotangent of it gets out.
"""

import math
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from ..core.dispatch import dtype_of, harmless_number
from ..core.levels import Handle, Level, new
from ..core.traced import Traced, example_of
from ..rules.calling import signature
from ..rules.indexing import expand_index, getitem, is_basic, updated
from ..rules.kinds import ROWS, row_says
from ..rules.reductions import defined
from ..rules.shapes import blank, length
from . import ranks
from .program import same

BOOL = np.dtype(bool)


class SelectionLevel(Level):
    """The level of the selections of a trace, above all others."""

    __slots__ = ("counts", "trace")
    abstract = True

    def __init__(self, trace):
        super().__init__()
        self.id, self.trace, self.counts = math.inf, trace, []

    def check(self):
        self.trace.check()

    def lift(self, constant):
        return self.trace.lift(constant)

    def refuse(self, message, indexed=False, line=None):
        return self.trace.refuse(message, indexed, line=line)


class Selection(Traced):
    """What a traced `mask` selects of a full array, `primal`; the axes that it meets begin `at` one and count as one.

    `axis`: it holds the positions of the mask's elements along this axis of it, None if it holds anything else. `line` is the user's.
    `viewed`: the selection that it is a part of, and the index of that part in the full array; None where it has memory of its own.
    """

    __slots__ = ("at", "axis", "full", "line", "mask", "viewed")

    def __repr__(self):
        return f"Selection({self.primal!r}, {self.mask!r})"

    @property
    def primal(self):
        """The full array."""
        if self.viewed is None:
            return self.full
        whole, index = self.viewed
        return whole.primal[index]

    @primal.setter
    def primal(self, full):
        self.axis = None
        if self.viewed is None:
            self.full = full
            return
        whole, index = self.viewed
        written = np.copy(whole.primal)
        written[index] = full
        whole.primal = written

    @property
    def behind(self):
        """How many axes of the full array are behind those that the mask meets."""
        return self.primal.ndim - self.at - self.mask.ndim

    @property
    def shape(self):
        """The shape, in which the length along the axis that the mask made is traced."""
        counts, mask, program = self.level.counts, self.mask.primal, self.level.trace.program
        known = next((count for other, count in counts if same(program, other, mask)), None)
        if known is None:
            known = length(self.mask)
            counts.append((mask, known))
        full = self.primal.shape
        return (*full[: self.at], known, *full[self.at + self.mask.ndim :])

    @property
    def ndim(self):
        """The number of axes."""
        return self.primal.ndim - self.mask.ndim + 1

    @property
    def size(self):
        """The number of elements, which is traced."""
        shape = self.shape
        others = math.prod((*shape[: self.at], *shape[self.at + 1 :]))
        return shape[self.at] if others == 1 else shape[self.at] * others

    # --- operations -------------------------------------------------------------------------------------------------------

    def _interpret(self, row, args, kwargs, evaluate=None):
        self.level.check()
        if row.fn is getitem:
            return self.indexed(*args)
        if row.selected is not None:
            return getattr(ranks, row.selected)(self, row, *args, **kwargs)
        if row.fn is updated and type(args[2]) is Selection:
            return updated(*args[:2], with_masks(args[2], self.level.trace)[0], *args[3:])
        if row.elementwise or row.fn is blank or (type(row.fn) is np.ufunc and row.fn.signature is None):
            return self.elementwise(row, args, kwargs)
        parameters = signature(row.fn).parameters
        if "where" in parameters or row.skips_zeros:
            return self.reduced(row, parameters, args, kwargs)
        raise self.needs_length(f"{row.name} of x[mask]")

    def _constant(self, row, args, kwargs):
        if not row.metadata or row.selected is not None:
            return self._interpret(row, args, kwargs)
        answers = [row.fn(*(arg.stand_in(n) if type(arg) is Selection else arg for arg in args), **kwargs) for n in (0, 3)]
        if repr(answers[0]) != repr(answers[1]):
            raise self.needs_length(f"{row.name} of x[mask]")
        return answers[0]

    def _restate(self, fn, body, args, kwargs):
        if (selected := row_says(fn, "selected")) is not None:
            return getattr(ranks, selected)(self, ROWS[fn], *args, **kwargs)
        return self.elementwise(ROWS[fn], args, kwargs) if row_says(fn, "elementwise") else body(*args, **kwargs)

    def __array_ufunc__(self, ufunc, method, *args, **kwargs):
        if not any(isinstance(arg, Traced) for arg in args):
            raise self.needs_length(f"numpy.{ufunc.__name__} with x[mask] as where= or out=")
        if method == "__call__" and not kwargs and ROWS[ufunc].bits:
            return self.elementwise(ROWS[ufunc], args, kwargs)
        return super().__array_ufunc__(ufunc, method, *args, **kwargs)

    def stand_in(self, length):
        """Return an array of this length that has the dtype and the other axes of this one."""
        full = self.primal.shape
        return np.empty((*full[: self.at], length, *full[self.at + self.mask.ndim :]), self.dtype)

    def elementwise(self, row, args, kwargs):
        """Evaluate a function of elements on the full arrays."""
        args = self.entering(args)
        results = row.call(*args, **dict(zip(kwargs, self.entering(kwargs.values()), strict=True)))
        if isinstance(results, tuple):
            return tuple(self.selection(full, self.behind) for full in results)
        made = self.selection(results, self.behind)
        made.axis = self.axis if row.alone and row.moves is True else None  # a copy
        return made

    def entering(self, args):
        """Return arguments as they meet the full array: with harmless numbers where the mask is false."""
        dtypes = [dtype_of(arg) for arg in args if issubclass(type(arg), np.ndarray | np.generic | Handle) and not is_weak(arg)]
        return [self.entered(arg, dtypes) for arg in args]

    def entered(self, arg, dtypes):
        if type(arg) is Selection:
            self.check_mask(arg)
            if arg.behind != self.behind:
                raise self.needs_length("x[mask] together with an array in which another axis meets the mask")
            return arg.primal
        arg = np.asarray(arg) if type(arg) is list and not any(isinstance(part, Handle) for part in arg) else arg
        if not issubclass(type(arg), Handle | np.ndarray):
            return arg
        if arg.ndim > self.behind:
            counted = arg.ndim - self.behind - 1
            if arg.shape[counted] != 1:
                raise self.needs_length(f"x[mask] together with an array of {arg.shape[counted]} elements along it")
            arg = np.reshape(arg, (*arg.shape[:counted], *(1,) * self.mask.ndim, *arg.shape[counted + 1 :]))
        if not isinstance(arg, Handle) or arg.dtype.kind not in "fc":
            return arg
        dtype = np.result_type(*dtypes, arg.dtype.type(0).item()) if is_weak(arg) else arg.dtype
        return np.where(self.spread_mask(self.behind), arg, harmless_number(dtype))

    def reduced(self, row, parameters, args, kwargs):
        """Evaluate a reduction: of the elements that the mask selects, where the axis that it made is among the axes."""
        options = signature(row.fn).bind(*args, **kwargs).arguments
        x = options.pop(next(iter(parameters)))
        if type(x) is not Selection:
            raise self.needs_length(f"{row.name} with x[mask] as another argument than the first")
        options = {name: value for name, value in options.items() if value is not np._NoValue}
        axis, keepdims = options.pop("axis", None), options.get("keepdims", False)
        axes = range(x.ndim) if axis is None else normalize_axis_tuple(axis, x.ndim)
        count = x.mask.ndim
        wide = [a if a < x.at else a + count - 1 for a in axes if a != x.at]
        full, chosen = x.cleaned(), x.spread_mask(x.behind)
        if options.get("where", True) is not True:
            chosen = np.logical_and(chosen, x.entered(options["where"], []))
            if x.at not in axes:
                options["where"] = chosen
        if x.at not in axes:
            result = row.fn(full, axis=tuple(wide), **options)
            return self.selection(result, x.behind - (0 if keepdims else sum(a > x.at for a in axes)))
        if row.skips_zeros:
            full = np.where(chosen, full, full.dtype.type(0))
        else:
            options["where"] = np.broadcast_to(chosen, full.shape)
        empty_raises = row.reduces is not None and row.reduces.identity is None and "initial" not in options
        if empty_raises:
            options["initial"] = extreme(full.dtype, row.reduces)
        over = tuple(sorted((*wide, *range(x.at, x.at + count))))
        result = row.fn(full, axis=None if len(over) == full.ndim else over, **options)
        if empty_raises:
            result = defined(result, x.shape[x.at], f"zero-size array to reduction operation {row.reduces.__name__} which has no identity")
        return np.reshape(result, tuple(1 if a in axes else n for a, n in enumerate(x.shape))) if keepdims and count != 1 else result

    def summed(self):
        """Return the sum along the axis that the mask made, which keeps the length 1 (see `rules.indexing.updated_transpose`)."""
        return np.sum(self, axis=self.at, keepdims=True)

    # --- parts and assignment ---------------------------------------------------------------------------------------------

    def indexed(self, x, index, shown=True):
        """Return a part of a selection, which may be `shown` as a view, or what a selection chooses of an array."""
        if type(x) is not Selection:
            return selected(x, index, self.level.trace)
        if (inner := x.inner(index)) is not None:
            return inner.selection(inner.cleaned(), inner.behind)
        if ranks.is_integer(index):
            return ranks.element(x, index)
        index, at = x.in_full(index)
        part = x.primal[index]
        made = x.selection(part, part.ndim - at - x.mask.ndim)
        made.viewed = (x, index) if shown else None
        return made

    def inner(self, index):
        """Return, for ``s[condition]`` of a selection s, a selection by the mask and the condition; None for any other index."""
        if type(index) is not Selection or index.dtype != BOOL or self.at or index.at:
            return None
        self.check_mask(index)
        return selection(self.primal, np.logical_and(self.spread_mask(index.behind), index.primal), 0, self.level)

    def in_full(self, index):
        """Return a basic index as one of the full array, and the axis where those of the mask begin in its part."""
        if not is_basic(index):
            raise self.needs_length("an element or a part of x[mask]")
        parts, axis, at = list[Any](), 0, 0
        for part in expand_index(index, self.ndim):
            if part is not None and axis == self.at:
                if type(part) is not slice or part != slice(None):
                    raise self.needs_length("an element or a part of x[mask]")
                at = sum(one is None or type(one) is slice for one in parts)
                parts += [slice(None)] * self.mask.ndim
            else:
                parts.append(part)
            axis += part is not None
        return tuple(parts), at

    def __setitem__(self, index, v):
        if (inner := self.inner(index)) is not None:
            self.primal = np.where(inner.spread_mask(inner.behind), inner.entering([v])[0], self.primal).astype(self.dtype)
            return
        self.in_full(index)  # which raises for an element
        part = self[index]
        (part.primal,) = part.entering([v])

    def _in_place(self, operate, other):
        result = operate(self, other)
        if not np.can_cast(result.dtype, self.dtype, "same_kind"):
            raise TypeError(f"cannot cast the result from {result.dtype} to {self.dtype} in place: write x = x op y")
        self.primal = result.primal.astype(self.dtype, copy=False)
        return self

    def _put(self, y, index):
        """Assign to what the same mask selects of `y`."""
        parts, corner = with_masks(index, self.level.trace)
        at = [k for k, part in enumerate(parts) if isinstance(part, Traced) and part._chooses()]
        if len(at) != 1 or not is_basic((*parts[: at[0]], *parts[at[0] + 1 :])):
            raise self.needs_length("an assignment of x[mask] to elements that are not chosen by the same mask")
        self.check_mask(parts[at[0]])
        region, place, _ = met_by_mask(y, parts, at[0], corner)
        count, full = self.mask.ndim, self.primal
        first = apart(parts)
        if self.behind != region.ndim - count - (0 if first else place):
            raise self.needs_length("an assignment of x[mask] along another axis")
        if first:
            full = np.moveaxis(full, tuple(range(self.at, self.at + count)), tuple(range(place, place + count)))
        chosen = self.spread_mask(region.ndim - place - count)
        region[...] = np.where(chosen, full.astype(region.dtype, copy=False), region)
        return True

    # --- the mask -----------------------------------------------------------------------------------------------------------

    def selection(self, full, behind):
        """Return what the mask selects of a full array with so many axes behind those of the mask."""
        return selection(full, self.mask, np.ndim(full) - behind - self.mask.ndim, self.level)

    def selected_by(self, mask):
        """Return what another mask selects of the full array."""
        return selection(self.primal, mask, 0, self.level)

    def spread_mask(self, behind):
        """Return the mask, of a shape that broadcasts with the full array."""
        return np.reshape(self.mask, (*self.mask.shape, *(1,) * behind)) if behind else self.mask

    def cleaned(self, number=None):
        """Return the full array with a number, or harmless ones, where the mask is false."""
        dtype = dtype_of(self.primal)
        return np.where(self.spread_mask(self.behind), self.primal, harmless_number(dtype) if number is None else dtype.type(number))

    def check_mask(self, other):
        """Raise where another selection is not known to be of the same mask."""
        mask = other.mask if type(other) is Selection else other
        if mask is not self.mask and not same(self.level.trace.program, mask._refresh().primal, self.mask._refresh().primal):
            raise self.level.refuse(
                "selections by different masks meet, whose lengths depend on the data: select by one mask (m = x > 0.0; y[m] = z[m]), or "
                "write np.where(mask, a, b) of the whole arrays"
            )

    # --- what needs a value, or the length ------------------------------------------------------------------------------------

    def needs_length(self, what, line=None):
        """Return the error that something depends on how many elements are selected."""
        return self.level.refuse(
            f"{what} needs to know how many elements a traced boolean mask selects, which depends on the data: elementwise functions, sums "
            f"and other reductions of x[mask], and its assignment back (y[mask] = ...) are compiled; else use np.where(mask, x, 0.0)",
            line=line,
        )

    def _peek(self):
        raise self.needs_length("the plain value (to print, format, compare or index with it) of x[mask]")

    def __len__(self):
        raise self.needs_length("len(x[mask])")

    def __float__(self):
        raise self.needs_length("a plain number of x[mask] (or a place in a plain array)")

    __complex__ = __int__ = __index__ = __float__

    def __iter__(self):
        raise self.needs_length("a loop over x[mask]")

    def __array__(self, dtype=None, copy=None):
        raise self.level.refuse(
            "a plain array is made of x[mask], or indexed by it, and the mask is traced: pass the array that is indexed as an argument",
            indexed=True,
        )

    def _chooses(self):
        return True

    def _choose(self, x, index):
        return selected(x, index, self.level.trace)


# --- making selections ------------------------------------------------------------------------------------------------------


def selection(full, mask, at, level, axis=None):
    """Return what a mask selects of a full array."""
    made: Any = new(Selection)
    made.full, made.payload, made.level, made.alias, made.viewed = full, example_of(full), level, None, None
    made.mask, made.at, made.axis, made.line = mask, at, axis, level.trace.here()
    return made


def level_of(trace):
    """Return the level of a trace's selections."""
    if trace.selections is None:
        trace.selections = SelectionLevel(trace)
    return trace.selections


def as_of_now(mask):
    """Return a mask that keeps its elements when the one given is assigned to."""
    return mask.level.symbol(mask._refresh().payload, mask.primal)


def positions(mask):
    """Return ``np.nonzero(mask)`` of a traced mask."""
    mask, level = mask if mask.dtype == BOOL else np.not_equal(mask, 0), level_of(mask.level)
    if not mask.ndim:
        raise level.refuse("numpy.nonzero of a number: use np.where(mask, a, b)")
    mask = as_of_now(mask)
    return tuple(selection(grid, mask, 0, level, axis) for axis, grid in enumerate(np.indices(mask.shape)))


def flat_positions(mask):
    """Return ``np.flatnonzero(mask)`` of a traced mask."""
    return positions(mask if mask.ndim == 1 else np.ravel(mask))[0]


def selected(x, index, trace):
    """Return ``x[index]``, a selection: a part of the index is a traced mask, or holds integers that one selects."""
    level = level_of(trace)
    if type(x) is Selection:
        return x[index]
    parts, corner = with_masks(index, trace, computed=True)
    choosers = [k for k, part in enumerate(parts) if isinstance(part, Traced) and part._chooses()]
    first, others = choosers[0], [part for k, part in enumerate(parts) if k not in choosers]
    if not is_basic(tuple(others)) or (len(choosers) > 1 and not all(type(parts[k]) is Selection for k in choosers)):
        raise level.refuse("elements are selected by a traced mask and other arrays: use np.where(mask, x, 0.0)")
    if type(parts[first]) is not Selection:
        mask = as_of_now(parts[first])
        region, at, _ = met_by_mask(x, parts, first, corner)
        if apart(parts):
            region, at = np.moveaxis(region, tuple(range(at, at + mask.ndim)), tuple(range(mask.ndim))), 0
    else:
        chooser = parts[first]
        mask = chooser.mask
        for k in choosers:
            chooser.check_mask(parts[k])
            if parts[k].ndim > 1 or parts[k].dtype.kind not in "iu":
                raise level.refuse("an array is indexed by x[mask]: only integers of one axis can be, or the mask itself")
        region = x[tuple(np.where(mask, part.primal, 0) if type(part) is Selection else part for part in parts)]
        before, after = parts[:first], parts[choosers[-1] + 1 :]
        at = 0 if apart(parts) else axes_before(before, after, region.ndim - mask.ndim)
    made = selection(region, mask, at, level)
    made.primal = made.cleaned()
    return made


def with_masks(index, trace, computed=False):
    """Return the parts of an index, with the mask in the place of its positions along all axes (``np.nonzero(mask)``), and whether it is.

    Other integers that a mask selects raise, unless they are `computed` with.
    """
    parts = list(index) if type(index) is tuple else [index]
    at = [k for k, part in enumerate(parts) if type(part) is Selection]
    if not at:
        return tuple(parts), False
    chosen = [parts[k] for k in at]
    count = chosen[0].mask.ndim
    if [part.axis for part in chosen] == list(range(count)) and at == list(range(at[0], at[0] + count)):
        for part in chosen:
            chosen[0].check_mask(part)
        parts[at[0] : at[0] + count] = [chosen[0].mask]
        return tuple(parts), True
    if not computed:
        raise trace.refuse(
            "an assignment to elements at positions that were computed of a traced mask: assign by the mask itself, or by np.nonzero of it"
        )
    return tuple(parts), False


def met_by_mask(x, parts, at, corner=False):
    """Return the part of `x` that an index leaves apart from the mask at a place, the axis where the mask begins in it, and the index of
    that part, None if it is all. Of positions (`corner`) the array may be longer than the mask."""
    before, mask, after = parts[:at], parts[at], parts[at + 1 :]
    axes = [slice(n) for n in mask.shape] if corner else [slice(None)] * mask.ndim
    index = (*before, *axes, *after) if before or after or (corner and np.shape(x)[: mask.ndim] != mask.shape) else None
    part = x if index is None else x[index]
    place = axes_before(before, after, np.ndim(part) - mask.ndim)
    met = np.shape(part)[place : place + mask.ndim]
    if met != mask.shape:
        raise IndexError(f"boolean index did not match indexed array: the mask has shape {mask.shape}, the axes that it meets {met}")
    return part, place, index


def axes_before(before, after, ndim):
    """Return how many of so many axes, besides those that arrays choose, the parts of an index before these give."""
    kept = lambda parts: sum(part is None or type(part) is slice for part in parts)
    return ndim - kept(after) if any(part is Ellipsis for part in before) else kept(before)


def apart(parts):
    """Return whether slices part the integers and the mask of an index: NumPy then puts what the mask chooses first."""
    chooses = [not (part is None or part is Ellipsis or type(part) is slice) for part in parts]
    return not all(chooses[chooses.index(True) : len(parts) - chooses[::-1].index(True)])


# --- numbers and masks --------------------------------------------------------------------------------------------------------


def extreme(dtype, ufunc):
    """Return the number that is less, or for `np.minimum` more, than all others of a dtype."""
    sign = -int(ufunc(-1, 1))
    if dtype.kind == "b":
        return sign > 0
    if dtype.kind in "iu":
        return np.iinfo(dtype).min if sign < 0 else np.iinfo(dtype).max
    return dtype.type(sign * math.inf * (1 + 1j) if dtype.kind == "c" else sign * math.inf)


def is_weak(x):
    """Return whether a traced value stands for a Python number, whose dtype yields to that of arrays."""
    while isinstance(x, Handle):
        if x.level.abstract:
            return type(x) is not Selection and x.primal.kind == "python"
        if not x.level.weak or x.ndim:
            return False
        x = x.primal
    return type(x) in (bool, int, float, complex)
