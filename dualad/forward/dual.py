"""Dual numbers: value and tangent together, computed interleaved with the evaluation (forward mode, a JVP).

One class serves scalars and arrays. The value is a Python float, a NumPy scalar or array, or a value of a lower level; the
tangent has the value's shape, or (K, *shape) where the level carries K directions. None is a tangent of exact zeros.
The shortest paths (operators on floats and on arrays of one shape, indexing) are compiled from the same rows in `operators`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core import methods as _methods  # noqa: F401  (gives Traced its operators)
from ..core.conversions import STANDING, check_result, is_container, lifter_of, refuse_kind
from ..core.dispatch import FLOAT, dtype_of, no_derivative_for, primal, strengthen, with_parts
from ..core.levels import Handle, Level, Owner, new, shared_view, version_of
from ..core.traced import Traced
from ..core.with_numpy_value import with_numpy_value
from ..dask.arrays import VERBS, lift
from ..rules.batching import aligned
from ..rules.indexing import overwritten, overwritten_directions
from ..rules.kinds import Elementwise
from ..rules.memory import copied, empty_as, own_to_write, shows_memory, writable
from ..rules.shapes import zeros_of_shape
from .directions import unwrap, wrap

MANUAL = Level()  # the level of Duals that users make by hand: below every derivative call


class Dual(Traced):
    """A value together with its tangent, the derivative of the value along one direction (or K of them).

    Arithmetic and NumPy functions on Duals give Duals: ``a + b*eps`` with ``eps**2 = 0``. The derivative verbs
    (`jvp`, `derivative`, `gradient`, `jacobian`) make and open Duals themselves; create your own to learn, or
    to inspect a computation.

    Parameters
    ----------
    primal : number or array. Integers become float64; an array is copied.
    tangent : number or array of the primal's shape, optional. None is a zero.

    Raises
    ------
    ValueError
        Where the shapes of primal and tangent differ.
    TypeError
        Where the primal is not numeric.

    Examples
    --------
    >>> from dualad import Dual
    >>> x = Dual(2.0, 1.0)
    >>> x * x + 1.0
    Dual(5.0, tangent=4.0)
    """

    __slots__ = ()
    tangent = Handle.__dict__["payload"]

    def __init__(self, primal, tangent=None, level=MANUAL):
        self.primal = copy_array(seedable(primal, "Dual", "primal"))
        if tangent is not None:
            tangent = copy_array(seedable(tangent, "Dual", "tangent"))
            if np.shape(tangent) != np.shape(self.primal):
                raise ValueError(
                    f"Dual: tangent has shape {np.shape(tangent)}, primal has shape {np.shape(self.primal)}: "
                    f"give a tangent of the primal's shape"
                )
        self.tangent, self.level, self.alias = tangent, level, None

    def __repr__(self):
        self._refresh()
        tangent = 0.0 if self.tangent is None else self.tangent
        return f"Dual({text_of(self.primal)}, tangent={text_of(tangent)})"

    # --- one operation ----------------------------------------------------------------------------------------------------

    def _interpret(self, row, args, kwargs, evaluate=None):
        level = self.level
        if not level.plain:
            level.check()
        values, tangents = list(args), [None] * len(args)
        active = written = scalar = False
        for i in row.arrays(args):
            arg = args[i]
            if type(arg) is Dual and arg.level is level:
                if arg.alias is not None and arg._shares_written():
                    written = True
                values[i] = value = arg.primal
                if type(value) is float:
                    scalar = True
                if (t := arg.tangent) is not None:
                    tangents[i] = t
                    active = True
                    if type(t) is float:
                        scalar = True
        if scalar and not level.weak and len(args) > 1 and strengthen(values, args):
            tangents = [np.float64(t) if type(t) is float else t for t in tangents]
        if not isinstance(row, Elementwise):
            refuse_traced_metadata(row, values, kwargs, level)
            if level.nan_safe and active:
                tangents = [None if is_zero(t) else t for t in tangents]
                active = any(t is not None for t in tangents)
        ans = (evaluate or row.call)(*values, **kwargs)
        if level.objects is not None:
            check_result(row, ans, level)
        if not active:
            tangent = None
        elif isinstance(row, Elementwise):
            tangent = elementwise_tangent(row, ans, values, kwargs, tangents, level)
        elif level.directions is None:
            tangent = row.jvp(ans, values, kwargs, tangents)
        else:
            tangent = row.jvp(ans, values, kwargs, [wrap(t, level) for t in tangents])
        if issubclass(type(ans), tuple | list):
            parts = [None] * len(ans) if tangent is None else tangent
            duals = [self._result(row, part, t, level, written, values) for part, t in zip(ans, parts, strict=True)]
            return with_parts(ans, duals)
        result = self._result(row, ans, tangent, level, written, values)
        if row.view is not None and row.views(args) and shows_memory(ans, values[0]):
            result.alias = shared_view(args[0], args[0].alias, row.viewed, tuple(args[1:]), kwargs)
        elif written:
            result.primal = separate(result.primal, args)
            result.tangent = separate(result.tangent, args)
        if level.watched:
            level.watch(row, values, result)
        return result

    def _result(self, row, ans, tangent, level, written, values):
        if tangent is not None:
            shape = getattr(ans, "shape", ())
            if level.directions is not None:
                tangent = unwrap(tangent, level, shape) if not isinstance(row, Elementwise) else tangent
            elif getattr(tangent, "shape", ()) != shape:
                if not row.trusted and not isinstance(row, Elementwise):
                    raise ValueError(
                        f"the rule of {row.name} gave a tangent of shape {np.shape(tangent)}, its value has shape {shape}: "
                        f"they must be equal"
                    )
                tangent = np.broadcast_to(tangent, shape)
            dtype = dtype_of(ans)
            if type(tangent) is np.float64 and dtype is FLOAT:
                tangent = tangent.item()
            elif type(tangent) is float:
                tangent = tangent if dtype is FLOAT else dtype.type(tangent)
            elif dtype_of(tangent) != dtype:
                tangent = np.asarray(tangent).astype(dtype)[()] if not isinstance(tangent, Traced) else tangent.astype(dtype)
        return make_dual(ans.item() if type(ans) is np.float64 else ans, tangent, level)

    # --- assignment -------------------------------------------------------------------------------------------------------

    def _assign(self, ops, index, v):
        level = self.level
        v_value, v_tangent = v, None
        if type(v) is Dual and v.level is level:
            shared = v._shares_written()
            v_value, v_tangent = v.primal, v.tangent
            if shared:
                v_value = copied(v_value)
                v_tangent = None if v_tangent is None else copied(v_tangent)
        self._own(v_value, v_tangent)
        overwritten(self.primal, v_value, index, ops)
        if self.tangent is not None:
            write = overwritten if level.directions is None else overwritten_directions
            write(self.tangent, 0.0 if v_tangent is None else v_tangent, index, ops)
            if level.directions is not None and isinstance(self.tangent, Traced):  # in C order: views of the value are copies of it
                self.alias.version += 1

    def _own(self, v_value, v_tangent):
        """Make the buffers this handle's alone, and able to hold what is to be written."""
        alias = self.alias
        if alias is None or not alias.exclusive:
            self.primal = own_to_write(self.primal)
            if self.tangent is not None:
                self.tangent = laid_out_like(self.primal, self.level.directions, self.tangent)
            self.alias = alias = Owner(version_of(self) + 1, True)
        if v_tangent is not None and self.tangent is None:
            self.tangent = laid_out_like(self.primal, self.level.directions, 0.0)
            alias.version += 1
        value, tangent = writable(self.primal, v_value), writable(self.tangent, v_tangent)
        if value is not self.primal or tangent is not self.tangent:
            self.primal, self.tangent = value, tangent
            alias.version += 1


Dual._restate = with_numpy_value  # type: ignore[method-assign]


def make_dual(value, tangent, level):
    """Return a Dual without checks."""
    dual = new(Dual)
    dual.primal, dual.tangent, dual.level, dual.alias = value, tangent, level, None
    return dual


def elementwise_tangent(row, ans, values, kwargs, tangents, level):
    """Return the tangent of an elementwise row, of the result's full shape."""
    lanes = level.directions
    if lanes is not None:
        ndim = getattr(ans, "ndim", 0)
        tangents = [t if t is None or t.ndim > ndim else aligned(t, ndim) for t in tangents]
    tangent = row.jvp(ans, values, kwargs, tangents, level.nan_safe)
    if lanes is not None:
        shape = (lanes, *getattr(ans, "shape", ()))
        if tangent.shape != shape:
            tangent = np.broadcast_to(tangent, shape)
    return tangent


def copy_array(x):
    """Return a copy of an array; a number is its own."""
    return np.copy(x) if np.ndim(x) else x


def is_zero(t):
    """Return whether a plain tangent or cotangent is zero throughout."""
    return t is None or (issubclass(type(t), float | np.ndarray | np.generic) and not np.any(t))


def refuse_traced_metadata(row, values, kwargs, level):
    """Raise where a traced value of this level stands in an argument that the row does not differentiate."""
    for i, value in enumerate(values):
        if isinstance(value, Traced) and value.level is level:
            raise no_derivative_for(row, i)
    for name, value in kwargs.items():
        if isinstance(value, Traced) and value.level is level:
            raise no_derivative_for(row, name)


def separate(buffer, args):
    """Return a buffer that shares no memory with the written buffers among the arguments."""
    if type(buffer) is not np.ndarray:
        return copied(buffer) if isinstance(buffer, Traced) and buffer.ndim else buffer
    own = buffer.base is None  # then it is one of theirs, or new
    for arg in args:
        if isinstance(arg, Traced):
            for part in (arg.primal, arg.payload):
                if part is buffer or (not own and type(part) is np.ndarray and np.may_share_memory(buffer, part)):
                    return copied(buffer)
    return buffer


def laid_out_like(value, directions, fill):
    """Return a fresh tangent buffer of `value`'s shape and memory layout (so views of one are views of the other)."""
    model = lift(primal(value))
    if not isinstance(model, Traced):
        buffer = empty_as(model, directions)
    else:  # a symbol, a dask array
        buffer = np.empty_like(model) if directions is None else zeros_of_shape(model, (directions, *model.shape), model.dtype)
    buffer[...] = 0.0 if isinstance(fill, Traced) else fill
    if isinstance(fill, Traced):
        buffer = writable(buffer, fill)
        buffer[...] = fill
    return buffer


def text_of(x):
    return np.array2string(x, separator=", ") if type(x) is np.ndarray else repr(x) if isinstance(x, Traced) else f"{x}"


def seedable(x, where, what):
    """Return `x` as a differentiable value: a float or an array of floats; anything not numeric raises.

    An array is not copied: a handle's buffers are copied at its first write.
    """
    if isinstance(x, Traced):
        if x.dtype.kind == "b":
            raise TypeError(f"{where}: {what} has dtype bool, which has no derivative: pass floats")
        return x.astype(float) if x.dtype.kind in "iu" else x
    if type(x) is float:
        return x
    if issubclass(type(x), bool | np.bool_ | str | bytes) or x is None:
        raise TypeError(f"{where}: {what} is {x!r}, which is not a number: pass a float or an array of floats")
    if issubclass(type(x), int):
        return float(x)
    dtype = getattr(x, "dtype", None)
    if dtype is None and not issubclass(type(x), complex):
        raise TypeError(
            f"{where}: {what} is of type {type(x).__name__}: pass a number, an array, or a tuple, list, dict or "
            f"named tuple of them; register a dataclass with dualad.register_dataclass"
        )
    if type(x) is not np.ndarray and not issubclass(type(x), complex | np.generic | np.memmap):
        kind: Any = type(x)
        if kind in STANDING:
            return seedable(STANDING[kind](x), where, what)
        if (lift := lifter_of(kind)) is not None:
            if where not in VERBS:
                raise TypeError(f"{where}: {what} is a dask array, which {', '.join(VERBS[:-2])} and {VERBS[-2]} take: use one of them")
            return seedable(lift(x), where, what)
        refuse_kind(type(x))
        if not issubclass(type(x), np.ndarray) or is_container(kind):
            raise TypeError(
                f"{where}: {what} is of type {type(x).__name__}, whose units, labels or mask a derivative would lose: pass its plain "
                f"numbers as a NumPy array (np.asarray(x), or the container's own way: x.to_numpy(), x.magnitude)"
            )
    if dtype is not None and dtype.kind not in "iufc":
        raise TypeError(f"{where}: {what} has dtype {dtype}, which has no derivative: pass floats")
    if dtype is not None and dtype.kind in "iu":
        x = x.astype(float)
    if issubclass(type(x), np.float64):
        return float(x)
    return np.asarray(x) if issubclass(type(x), np.ndarray) else x
