"""The shortest paths of Dual, compiled from the rows: operators on floats and arrays, unary ufuncs, indexing.

This file is an optimisation: `Dual._interpret` gives the same results, several times slower on small operands. The
templates of `generated.py` are filled with each row's partials. Written here a second time are only how a tangent is
multiplied by a marked partial (1, -1, "the other argument", one over it, "the value"), and that minus and indexing are linear.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.dispatch import indexed
from ..core.levels import Owner, View, new, shared_view, version_of
from ..core.traced import Traced
from ..rules.indexing import getitem
from ..rules.kinds import ROWS, Elementwise, strong_multiply
from ..rules.partials import ANS, FIRST, MINUS_ONE, ONE, SECOND, product, scale
from .dual import Dual
from .generated import SHORT, define_operators

RESULT = "r = new(Interpreter); r.tangent = {tangent}; r.primal = v; r.level = level; r.alias = None; return r"


def term(partial, name, t, scalar, singular):
    """Return the source of partial times tangent, and whether its value is a fresh buffer."""
    if partial in MARKED:
        return MARKED[partial].format(t=t), partial is not ONE
    if getattr(partial, "divisor", None) is SECOND:
        return f"{t} / b", True
    if scalar:
        return (f"strong_scalar({name}(v, a, b), {t})" if singular else f"{name}(v, a, b) * {t}"), True
    plain = f"scale({name}(v, a, b), {t}, v, (a, b))"
    strong = f"row.multiply({0 if name == 'p' else 1}, {t}, v, (a, b))"
    return f"of_dtype({strong} if row.singular(a, b) else {plain}, v)" if singular else f"of_dtype({plain}, v)", True


def of_dtype(t, v):
    """Return a tangent in the dtype of its value."""
    return t if t.dtype is v.dtype else t.astype(v.dtype)


MARKED = {ONE: "{t}", MINUS_ONE: "-{t}", FIRST: "a * {t}", SECOND: "b * {t}"}


def strong_scalar(p, t):
    """Return p * t for a scalar partial, with a zero tangent winning over an infinite partial."""
    return p * t if p - p == 0.0 else strong_multiply(p, t)


def texts(row, *active):
    """Return how the cases of an operator are differentiated by its active arguments."""

    def result(scalar):
        (text, fresh), *others = [term(row.partials[i], "pq"[i], "tu"[i], scalar, row.singular) for i in active]
        for other, _ in others:
            if other.startswith("-"):
                text = f"{text} - {other[1:]}"
            else:
                text = f"{text} + {other}" if scalar or not fresh else f"add((w := {text}), {other}, w)"
        return RESULT.format(tangent=text)

    args = "(self, other)" if 0 in active else "(other, self)"
    return {
        "held": "other",
        "numbers": result(True),
        "arrays": result(False),
        "stretched": f"return self._interpret(row, {args}, {{}}, lambda a, b, v=v: v)",
    }


def general_operator(row, method, reflected):
    """Return the operator for all other operands: by Python's operator where that rounds itself, else by the ufunc."""
    slow, operate = getattr(Traced, method), row.of_numbers

    def general(self, other):
        x, kind = self.primal, type(other)
        if kind is Dual:
            y = other.primal if other.level is self.level else other
            plainly = other.level.id <= self.level.id and is_current(other)
        else:
            y, plainly = other, kind is not np.ndarray or other.dtype != object
        kinds = {type(x), type(y)}
        if plainly and is_current(self) and (rounds_itself(type(x), type(y)) or (Dual in kinds and kinds <= OF_DUALS)):
            try:
                return self._interpret(row, (other, self) if reflected else (self, other), {}, operate)
            except (ZeroDivisionError, OverflowError):  # of Python's complex numbers, where NumPy has inf or NaN
                pass
        return slow(self, other)

    return general


ROUNDING = {np.ndarray, complex, np.complex128, np.complex64, np.float64, np.float32, np.float16}
OF_DUALS = ROUNDING | {Dual, float, int}


def rounds_itself(first, second):
    """Return whether these are the types of plain operands, and not of two reals of Python: operators round others than ufuncs do."""
    return (first in ROUNDING and (second in ROUNDING or second is float or second is int)) or (second in ROUNDING and first is float)


def is_current(x):
    """Return whether a Dual shows what its base holds: it is no view, or that of the last version."""
    alias = x.alias
    return alias is None or type(alias) is Owner or alias.version == version_of(alias.base)


def negative(self):
    """Return -x."""
    level, t = self.level, self.tangent
    if level.plain and ((alias := self.alias) is None or alias.base.alias is None):
        r = new(Dual)
        r.primal, r.tangent, r.level, r.alias = -self.primal, None if t is None else -t, level, None
        return r
    return np.negative(self)


FLOAT64 = np.float64


# --- ufuncs of one argument ---------------------------------------------------------------------------------------------------


def array_ufunc(self, ufunc, method, *args, **kwargs):
    """Evaluate a ufunc; one of one argument, on an array that was never written, directly."""
    if method != "__call__" or kwargs:
        return Traced.__array_ufunc__(self, ufunc, method, *args, **kwargs)
    level, a = self.level, self.primal
    row: Any = ROWS.get(ufunc)
    if len(args) == 1:
        if type(a) is float and type(row) is Elementwise and level.plain and not row.singular:
            v, t = ufunc(a).item(), self.tangent
            if t is not None:
                t = product(row.partials[0], t, v, (a,))
                t = t.item() if type(t) is np.float64 else t
            r = new(Dual)
            r.primal, r.tangent, r.level, r.alias = v, t, level, None
            return r
        if (
            type(row) is Elementwise
            and level.plain
            and type(a) is np.ndarray
            and a.shape
            and row.complex_body is None
            and ((alias := self.alias) is None or alias.base.alias is None)
        ):
            v = ufunc(a)
            t = self.tangent
            if t is not None:
                t = (
                    v * t
                    if row.partials[0] is ANS
                    else row.jvp(v, args, kwargs, (t,))
                    if row.partials[0] in MARKED
                    else product(row.partials[0], t, v, (a,))
                    if row.trusted and not row.singular
                    else row.times(row.partials[0], t, v, (a,))
                    if row.trusted
                    else row.multiply(0, t, v, (a,))
                )
            r = new(Dual)
            r.primal, r.tangent, r.level, r.alias = v, t, level, None
            if t is None or (t.shape[-v.ndim :] == v.shape and t.dtype == v.dtype):
                return r
            return self._interpret(row, args, kwargs)
    elif type(a) is float and type(args[0]) is FLOAT64 and level.plain and row is not None and row.operator in SHORT:
        return row.of_numbers(float(args[0]), self)
    return Traced.__array_ufunc__(self, ufunc, method, *args, **kwargs)


# --- linear functions of one array ----------------------------------------------------------------------------------------------


def array_function(self, fn, types, args, kwargs):
    """Evaluate an array function; one of an array that was never written directly."""
    row = ROWS.get(fn)
    if row is not None and row.unary_linear_no_view and len(args) == 1 and not kwargs:
        level, a, t = self.level, self.primal, self.tangent
        if (
            level.plain
            and level.directions is None
            and t is not None
            and type(a) is np.ndarray
            and ((alias := self.alias) is None or alias.base.alias is None)
        ):
            v, t = row.call(a), row.call(t)
            r = new(Dual)
            r.primal, r.tangent, r.level, r.alias = v.item() if type(v) is np.float64 else v, t, level, None
            return r
    elif row is not None and row.joins and len(args) == 1 and type(args[0]) is list and self.level.plain:
        joined = join(fn, self.level, args[0], **kwargs)
        if joined is not None:
            return joined
    return Traced.__array_function__(self, fn, types, args, kwargs)


def join(fn, level, parts, axis=0, **options):
    """Join arrays of one dtype that were never written, or numbers, values and tangents alike; None where the general path is needed."""
    if options or type(axis) is not int:
        return None
    values, tangents, dtype = [], [], getattr(parts[0].primal, "dtype", None) if parts and type(parts[0]) is Dual else None
    for part in parts:
        if (
            type(part) is not Dual
            or part.level is not level
            or part.tangent is None
            or (type(value := part.primal) is not float and (type(value) is not np.ndarray or value.dtype != dtype))
            or ((alias := part.alias) is not None and alias.base.alias is not None)
        ):
            return None
        values.append(value)
        tangents.append(part.tangent)
    kinds = set(map(type, values))
    r = new(Dual)
    if kinds == {float} and fn is np.stack and (axis == 0 or axis == -1):
        r.primal, r.tangent = np.array(values), np.array(tangents) if level.directions is None else np.array(tangents).T.copy()
    elif kinds == {np.ndarray}:
        r.primal = fn(values, axis=axis)
        r.tangent = fn(tangents, axis=axis if level.directions is None or axis < 0 else axis + 1)
    else:
        return None
    r.level, r.alias = level, None
    return r


# --- indexing -----------------------------------------------------------------------------------------------------------------


def get(self, index):
    """Return ``x[index]``: an element, or a view."""
    value, level = self.primal, self.level
    kind = type(index)
    if (
        type(value) is np.ndarray
        and level.plain
        and ((alias := self.alias) is None or alias.base.alias is None or type(alias) is Owner)
        and (kind is int or kind is slice or (kind is tuple and BASIC.issuperset(map(type, index))))
    ):
        v = value[index]
        t = self.tangent
        if t is not None:
            if level.directions is None:
                t = t[index]
            else:
                t = t[(ALL, *index) if kind is tuple else (ALL, index)]
        r = new(Dual)
        r.tangent = t
        r.level = level
        if type(v) is np.ndarray:
            r.primal = v
            if alias is None:
                r.alias = view = new(View)
                view.base, view.ops, view.version = self, ((getitem, (index,), NO_KEYWORDS),), 0
            else:
                r.alias = shared_view(self, alias, getitem, (index,))
        else:
            r.primal, r.alias = v.item() if type(v) is np.float64 else v, None
            if type(t) is np.float64:
                r.tangent = t.item()
            elif alias is not None and type(t) is np.ndarray:  # of an array that is written in place
                r.tangent = t.copy()
        return r
    return indexed(self, index)


BASIC, ALL = {int, np.int64, slice, type(None)}, slice(None)
NO_KEYWORDS: dict = {}


define_operators(Dual, texts, general_operator, strong_scalar=strong_scalar, scale=scale, of_dtype=of_dtype, add=np.add)
Dual.__neg__ = negative  # type: ignore[operator]
Dual.__getitem__ = get  # type: ignore[method-assign]
Dual.__array_ufunc__ = array_ufunc  # type: ignore[method-assign]
Dual.__array_function__ = array_function  # type: ignore[method-assign]
