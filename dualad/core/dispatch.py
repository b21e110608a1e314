"""Dispatch: every operation on a traced value comes to `apply`.

It looks up the row of the function and hands it to the interpreter of the highest level among the arguments. A function
without a row raises; nothing falls back to plain arrays.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import optree

from ..rules.calling import argument_of, bind_user_call, positional_call, public_name, with_out_named
from ..rules.constants import stopped
from ..rules.cotangents import is_symbolic
from ..rules.indexing import getitem
from ..rules.kinds import ROWS, SYMBOLS, Composite, Constant, Differentiable, Refused, is_complex
from ..rules.late import late_row
from ..rules.ufunc_methods import method as method_of
from ..support.callers import user_frame, warn
from ..support.hints import Result
from .conversions import STANDING
from .levels import Handle
from .options import asks_for_integers, inexact

# --- the one door --------------------------------------------------------------------------------------------------------


def apply(fn, args, kwargs):
    """Evaluate `fn` where at least one argument is traced."""
    row = ROWS.get(fn)
    if row is not None and len(args) > row.out_at:
        args, kwargs = with_out_named(fn, row.out_at, args, kwargs)
    if kwargs and "out" in kwargs and not isinstance(row, Refused | None):
        kwargs = dict(kwargs)
        return write_out(row, args, kwargs, kwargs.pop("out"))
    if kwargs and row is not None and len(args) < row.required:
        args, kwargs = positional_call(fn, args, kwargs)
    if (kwargs or len(args) > 1) and row is not None and row.dtype_at is not None and asks_for_integers(row, args, kwargs):
        top = highest((*args, *kwargs.values()), deep=True)
        if not top.level.abstract:
            return top._below(fn, args, kwargs)
    if isinstance(row, Differentiable):
        if row.canonical is not None:
            args, kwargs = row.canonical(args, kwargs)
        elif not row.trusted:
            args, kwargs = bind_user_call(row, args, kwargs)
        args = pack_arguments(args, row)
        top = highest(args)
        if top is None:
            return apply_inside(row, args, kwargs)
        if row.complex_body is not None and any(map(is_complex, args)):
            return top._restate(fn, row.complex_body, args, kwargs)
        return top._interpret(row, args, kwargs)
    if isinstance(row, Composite):
        if row.value_dependent:
            refuse_abstract(row, row.looked_at(args, kwargs))
        args = pack_arguments(args)
        if row.restates(args, kwargs):
            return with_numpy_value(row.fn, row.body, args, kwargs)
        return row.body(*args, **kwargs)
    if isinstance(row, Constant):
        top = highest((*args, *kwargs.values()), deep=True)
        if row.complex_body is not None and any(map(is_complex, args)):
            return row.complex_body(*args, **kwargs) if top is None else top._restate(fn, row.complex_body, args, kwargs)
        return fn(*args, **kwargs) if top is None else top._constant(row, args, kwargs)
    if isinstance(row, Refused):
        top = highest((*args, *kwargs.values())) if type(fn) is np.ufunc else None
        if top is not None and top.level.abstract:  # in a program it is a value
            return top._below(fn, args, kwargs)
        raise TypeError(row.refusal)
    if row is None and late_row(fn) is not None:  # of a package that the user imported since
        return apply(fn, args, kwargs)
    raise TypeError(
        f"{public_name(fn)} has no derivative rule in dualad. Write it with functions that have one, give it "
        f"a rule (dualad.primitive), or pass plain values (dualad.primal) if no derivative is needed"
    )


def indexed(x, index):
    """Return ``x[index]``; where a part of the index is a symbol that chooses elements, it says what that is."""
    for part in index if type(index) is tuple else (index,):
        if isinstance(part, Handle) and part._chooses():
            return part._choose(x, index)
    return apply(getitem, (x, index), {})


def with_parts(like, parts):
    """Return parts in a tuple, a list or a named tuple, as `like` is."""
    return type(like)(parts) if type(like) in (tuple, list) else type(like)(*parts)


def with_numpy_value(fn, body, args, kwargs):
    """Evaluate a body, with NumPy's own value."""
    top = highest((*args, *kwargs.values()), deep=True)
    return body(*args, **kwargs) if top is None else top._restate(fn, body, args, kwargs)


def highest(args, deep=False):
    """Return the traced value of the highest level among the arguments, None if there is none."""
    top = None
    for arg in args:
        if isinstance(arg, Handle):
            if arg.alias is not None:
                arg._refresh()  # a view may have been promoted to a higher level through its base
            if top is None or arg.level.id > top.level.id:
                top = arg
        elif deep and type(arg) in (list, tuple):
            inner = highest(arg, deep)
            if inner is not None and (top is None or inner.level.id > top.level.id):
                top = inner
    return top


def apply_inside(row, args, kwargs):
    """Evaluate a call whose traced arguments sit inside lists and tuples, or are keywords, of which only the mask of a program may be."""
    for name, value in kwargs.items():
        if isinstance(value, Handle):
            if value.level.abstract and value.level.id and name == "where" and issubclass(type(args[0]), np.ndarray):
                return apply(row.fn, (value.level.lift(args[0]), *args[1:]), kwargs)
            raise no_derivative_for(row, name)
    inner = highest(args, deep=True)
    if inner is not None and inner.level.abstract:  # a traced integer in an index
        return inner._interpret(row, args, kwargs)
    packed = tuple(array(arg) if holds_traced(arg) else arg for arg in args)
    if highest(packed) is None:
        raise TypeError(f"{row.name}: no traced argument found in {args!r}")
    return apply(row.fn, packed, kwargs)


def refuse_abstract(row, args):
    """Raise where a function looks at values and an argument is, or is made of, a symbol that has none."""
    x = highest(args, deep=True)
    while isinstance(x, Handle):
        if x.level.abstract:
            raise x.level.refuse(
                f"{row.name} looks at values (its shape, dtype or control flow depends on them), which a traced function cannot do: "
                f"call it outside of jit"
            )
        x = x.primal


def no_derivative_for(row, name):
    return TypeError(
        f"{row.name} has no derivative with respect to {argument_of(row.fn, name)}: pass a plain value there "
        f"(dualad.primal), or write it with other functions"
    )


def write_out(row, args, kwargs, out):
    """Evaluate with ``out=``: the result is assigned to a traced array; a plain one can hold only what has no derivative."""
    outs = out if isinstance(out, tuple) else (out,)
    casting = kwargs.pop("casting", "same_kind") if isinstance(row.fn, np.ufunc) else "unsafe"
    traced = highest((*args, *kwargs.values()), deep=True)
    results = row.fn(*args, **kwargs) if traced is None else apply(row.fn, args, kwargs)
    for target, result in zip(outs, results if len(outs) > 1 else (results,), strict=True):
        if target is not None:
            if np.ndim(result) > np.ndim(target):
                raise ValueError(
                    f"{row.name}: non-broadcastable output operand with shape {np.shape(target)} does not match the broadcast shape "
                    f"{np.shape(result)}"
                )
            symbol = SYMBOLS.get(row.operator)
            if symbol is not None and target is args[0] and isinstance(result, Handle) and cannot_hold(target):
                raise TypeError(
                    f"a {symbol}= x of a traced x: a is a plain array, which cannot hold derivatives. Write a = a {symbol} x, or make a "
                    f"with np.zeros_like(x, shape=...) or, from a plain array b, with np.array(b, like=x)"
                )
            write(target, ..., result, row.name, casting)
    if len(outs) > 1:
        return tuple(result if target is None else target for target, result in zip(outs, results, strict=True))
    return results if outs[0] is None else outs[0]


def cannot_hold(target):
    """Return whether no traced value can be written into an array: into one of objects it can."""
    return not isinstance(target, Handle) and target.dtype != object and type(target) not in STANDING


def write(target, index, result, name, casting="unsafe"):
    """Assign a result to the array given as ``out=``; reductions cast to it whatever it is, as NumPy's."""
    if not isinstance(target, Handle):
        if isinstance(result, Handle) and cannot_hold(target):
            raise TypeError(
                f"{name}: out= is a plain array, which cannot hold derivatives. Use the returned value, or "
                f"make out= with np.empty_like(x) of a traced x"
            )
        casting = "same_kind"
    if not np.can_cast(dtype_of(result), dtype_of(target), casting):
        raise TypeError(f"{name}: out= has dtype {dtype_of(target)}, which cannot hold the result of {dtype_of(result)}")
    target[index] = result


def masked_call(ufunc, args, kwargs, where):
    """Evaluate a ufunc with ``where=``: only the chosen elements are computed, the others stay as they are in out=."""
    outs = kwargs.pop("out", (None,))
    if not all(isinstance(out, (Handle, *STANDING)) or (out is not None and isinstance(ROWS.get(ufunc), Constant)) for out in outs):
        raise TypeError(
            f"{public_name(ufunc)}: where= leaves the other elements undefined unless out= is a traced array "
            f"(made with np.zeros_like(x), say); np.where(mask, a, b) chooses between values"
        )
    mask = primal(where)
    if isinstance(mask, Handle):  # a program has one shape for all values: the others are computed, too, where no partial is infinite
        index: Any = ...
        results = ufunc(
            *(arg if type(arg) in (bool, int, float, complex) else np.where(mask, arg, harmless_number(dtype_of(arg))) for arg in args),
            **kwargs,
        )
    else:
        index = mask = np.broadcast_to(mask, outs[0].shape)
        results = ufunc(*(np.broadcast_to(arg, mask.shape)[mask] for arg in args), **kwargs)
    for out, result in zip(outs, results if len(outs) > 1 else (results,), strict=True):
        write(out, index, result if index is mask else np.where(mask, result, out), public_name(ufunc))
    return outs if len(outs) > 1 else outs[0]


def harmless_number(dtype):
    """Return the number that stands where a mask is false: most functions and their derivatives are finite at it."""
    return dtype.type(0.5 if dtype.kind in "fc" else dtype.kind != "b")


def apply_method(ufunc, method, args, kwargs):
    """Evaluate a ufunc's ``reduce``, ``accumulate``, ``outer``, ... through the array function that does the same."""
    if method == "at" and holds_traced(args[0]):  # an object array: of its elements, as NumPy does it
        elements, written = args[0], array(args[0])
        ufunc.at(written, *args[1:])
        for index in np.ndindex(elements.shape):
            elements[index] = written[index]
        return None
    if method == "outer":
        a, b = args
        return ufunc(np.reshape(a, np.shape(a) + (1,) * np.ndim(b)), b, **kwargs)
    row = ROWS.get(ufunc)
    dtype = kwargs.get("dtype")
    constant = False
    if method in ("reduce", "accumulate", "reduceat"):
        constant = isinstance(row, Constant) or (dtype is not None and not inexact(dtype, f"{public_name(ufunc)}.{method}"))
        if constant and (level := getattr(highest(args, deep=True), "level", None)) and level.abstract and level.id:
            constant = False  # a program records it
        if not constant and dtype is not None and ufunc not in (np.add, np.multiply):  # NumPy casts first, too
            args = (np.asarray(args[0]).astype(dtype) if not isinstance(args[0], Handle) else args[0].astype(dtype), *args[1:])
            kwargs = {key: value for key, value in kwargs.items() if key != "dtype"}
    same = method_of(ufunc, method)
    if constant:
        same = lambda *args, **kwargs: getattr(ufunc, method)(*map(primal, args), **kwargs)
    if same is None:
        raise TypeError(
            f"{public_name(ufunc)}.{method} has no derivative rule in dualad: write it as a loop or with functions that have one"
        )
    if method == "reduce" and "axis" not in kwargs and len(args) < 2:
        kwargs = {**kwargs, "axis": 0}
    if method in ("accumulate", "reduceat"):
        at = 1 if method == "accumulate" else 2
        axis = args[at] if len(args) > at else kwargs.get("axis", 0)
        axes = tuple(range(np.ndim(args[0]))) if axis is None else axis if isinstance(axis, tuple) else (axis,)
        if len(axes) != 1:
            raise ValueError(f"{method} does not allow multiple axes")
        args, kwargs = (*args[:at], *axes, *args[at + 1 :]), {key: value for key, value in kwargs.items() if key != "axis"}
    out = kwargs.pop("out", None)
    kwargs = {key: value for key, value in kwargs.items() if value is not None or key == "axis"}
    own = constant or same in ROWS or method == "at"
    result = same(*args, **kwargs) if own else with_numpy_value(getattr(ufunc, method), same, args, kwargs)
    out = out[0] if type(out) is tuple else out
    if out is None:
        return result
    write(out, ..., result, f"{public_name(ufunc)}.{method}")
    return out


# --- values ----------------------------------------------------------------------------------------------------------------


def primal(x: Result) -> Result:
    """Return the plain value of a traced value, for logging and branching; anything else is returned as it is.

    Arrays are read-only views: the recorded values must not change. Under `jit` it is a traced value without derivative.

    Parameters
    ----------
    x : traced value, also one inside of several derivative calls; an object array of them; or anything.

    Returns
    -------
    number or array: the value without derivatives.

    Examples
    --------
    >>> import dualad
    >>> dualad.primal(dualad.Dual(2.0, 1.0))
    2.0
    """
    while isinstance(x, Handle):
        x._refresh()
        if x.level.abstract and x.level.id:  # a dask array is what it is
            return stopped(x) if x.dtype.kind in "fc" else x
        x = x.primal
        if type(x) is np.ndarray:
            x = x.view()
            x.flags.writeable = False
    return primal(array(x)) if type(x) is np.ndarray and x.dtype.char == "O" and holds_traced(x) else x


def plain_of(x):
    """Return the plain value, with its levels checked; a symbol, which has none, raises."""
    while isinstance(x, Handle):
        x = x._peek()
    return x


def stop_gradient(x: Result) -> Result:
    """Return the plain value of a traced value (or of each leaf of a pytree): it counts as a constant from here on.

    Unlike `primal`, arrays are copies that may be written.

    Parameters
    ----------
    x : pytree of traced and other values.

    Returns
    -------
    pytree of the structure of x, with plain values in the place of traced ones.

    Examples
    --------
    >>> import dualad
    >>> dualad.derivative(lambda x: x * dualad.stop_gradient(x))(3.0)
    3.0
    """
    return optree.tree_map(lambda leaf: np.copy(primal(leaf))[()] if isinstance(leaf, Handle) or holds_traced(leaf) else leaf, x)  # type: ignore[return-value]


def array(values: Any, dtype: Any = None) -> Any:
    """Make one traced array of nested lists (or an object array) of numbers and traced values.

    ``np.array([dx, dy])`` cannot be intercepted and gives a slow object array; this is the fast spelling for it.

    Parameters
    ----------
    values : traced value, number, array, or nested lists of them, all rows of one shape.
    dtype : dtype of the result, by default what NumPy promotes to.

    Returns
    -------
    traced array, or a plain one where nothing in `values` is traced.

    Raises
    ------
    ValueError
        Where the rows differ in shape.

    Examples
    --------
    >>> import dualad
    >>> dualad.jvp(lambda x: dualad.array([x, 2.0 * x]), (3.0,), (1.0,))
    (array([3., 6.]), array([1., 2.]))
    """
    if issubclass(type(values), np.ndarray) and values.dtype == object:
        packed = np.reshape(array(values.ravel().tolist()), values.shape) if values.size else values.astype(float)
    elif holds_traced(values):
        rows = [value if isinstance(value, Handle) else array(value) for value in values]
        try:
            packed = np.stack(rows)
        except ValueError:
            shapes = dict.fromkeys(map(np.shape, rows))
            if len(shapes) == 1:
                raise
            raise ValueError(f"array: the rows have the shapes {', '.join(map(str, shapes))}: they must be equal") from None
    elif isinstance(values, Handle):
        packed = values
    else:
        try:
            packed = np.asarray(values)
        except ValueError as error:
            raise ValueError(f"array: the rows differ in shape ({error})") from None
    return packed if dtype is None else packed.astype(dtype)


def strengthen(values, args):
    """Make NumPy scalars of the Python floats that stand for them, where an operand of another precision could win over them (NEP 50).

    Returns whether there is such an operand.
    """
    for v in values:
        if type(v) is not float and getattr(v, "dtype", FLOAT) is not FLOAT:
            break
    else:
        return False
    for i, v in enumerate(values):
        if type(v) is float and v is not args[i]:
            values[i] = np.float64(v)
    return True


def strengthen_one(value, beside):
    """Return a Python float as one of NumPy's where what stands beside it has another precision, which would win over it (NEP 50)."""
    return np.float64(value) if type(value) is float and dtype_of(beside) is not FLOAT else value


#: kinds of rows whose positional arguments all are arrays
OPERANDS = ("elementwise", "bilinear", "multilinear")


def pack_arguments(args, row=None):
    """Return arguments with object arrays, and of a row also lists of numbers, among them as arrays of numbers."""
    for arg in args:
        kind = type(arg)
        of_objects = kind is np.ndarray and arg.dtype.char == "O"
        if of_objects or (row is not None and (kind is list or (kind is tuple and row.kind in OPERANDS))):
            return tuple(map(pack if row is None or row.kind not in OPERANDS else as_operand, args))
    return args


def as_operand(x):
    """Return a list, a tuple or an object array as one array."""
    x = pack(list(x) if type(x) is tuple else x)
    return np.asarray(x) if type(x) is list else x


def pack(x):
    """Return an object array, or a list with traced values in it, as one array; anything else as it is."""
    if type(x) is np.ndarray and x.dtype == object:
        if holds_traced(x) and not any(map(is_symbolic, x.flat)) and (frame := user_frame(sys._getframe(1))) is not None:
            warn(
                "packing an object array of traced scalars (from np.array([...])) into one traced array: correct but "
                "slow; np.stack([...]) or dualad.array([...]) is faster",
                frame,
            )
        return array(x)
    return array(x) if type(x) is list and holds_traced(x) else x


def holds_traced(x):
    """Return whether `x` is a list, tuple or object array with traced values in it."""
    if type(x) in NESTED:
        for value in x:  # a generator would take longer than it
            if isinstance(value, Handle) or (type(value) in NESTED and holds_traced(value)):
                return True
            if type(value) is np.ndarray and value.dtype.hasobject and holds_traced(value):
                return True
        return False
    return type(x) is np.ndarray and x.dtype == object and any(isinstance(value, Handle) for value in x.flat)


NESTED = {list, tuple}


FLOAT = np.dtype(float)


def dtype_of(x):
    """Return the dtype of a number, array or traced value."""
    if type(x) is float:
        return FLOAT
    dtype = getattr(x, "dtype", None)
    return np.dtype(type(x)) if dtype is None else dtype
