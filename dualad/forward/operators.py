"""The shortest paths of Dual, compiled from the rows: operators on floats and arrays, unary ufuncs, indexing.

Everything here could be left out: `Dual._interpret` gives the same results, several times slower on small operands. The
templates below are filled with each row's partials. What of a derivative is written here a second time is how a tangent is
multiplied by a marked partial (1, -1, "the other argument", one over it, "the value"), and that minus and indexing are linear.
"""

from __future__ import annotations

import linecache
from typing import Any

import numpy as np

from ..core.dispatch import indexed
from ..core.levels import Owner, View, new, shared_view, version_of
from ..core.traced import Traced
from ..rules.indexing import getitem
from ..rules.kinds import OPERATORS, ROWS, SYMBOLS, Composite, Constant, Elementwise, strong_multiply
from ..rules.partials import ANS, FIRST, MINUS_ONE, ONE, SECOND, product, scale
from .dual import Dual

#: the operators that have short paths, here and for the reverse sweep
SHORT = ("add", "sub", "mul", "truediv", "pow")

RESULT = "r = new(Dual); r.tangent = {tangent}; r.primal = v; r.level = level; r.alias = None; return r"

BINARY = """
def {method}(self, other):
    level = self.level
    if level.plain:
        a = self.primal
        kind = type(other)
        if type(a) is float:
            if kind is Dual:
                b = other.primal
                if other.level is level and type(b) is float:
                    t = self.tangent
                    u = other.tangent
                    if t is not None and u is not None:
                        try:
                            v = a {symbol} b
                            {guard}
                            {both_floats}
                        except ArithmeticError:
                            pass
            elif kind is float or kind is int or kind is float64:
                b = float(other) if kind is float64 else other
                try:
                    t = self.tangent
                    v = a {symbol} b
                    {guard}
                    {left_float}
                except ArithmeticError:
                    pass
        elif type(a) is ndarray and (shape := a.shape) and ((alias := self.alias) is None or alias.base.alias is None):
            t = self.tangent
            if kind is Dual:
                b = other.primal
                if (other.level is level and type(b) is ndarray and b.shape == shape and a.dtype == b.dtype
                        and ((alias := other.alias) is None or alias.base.alias is None)):
                    u = other.tangent
                    if t is not None and u is not None:
                        v = a {symbol} b
                        {both_arrays}
            elif kind is float or kind is int or kind is ndarray and other.shape == shape and a.dtype == other.dtype:
                b = other
                v = a {symbol} b
                try:
                    {left_array}
                except ArithmeticError:  # of a Python float: the general path has NumPy's inf
                    pass
    return general(self, other)
"""

REFLECTED = """
def {method}(self, other):
    level = self.level
    kind = type(other)
    if level.plain:
        b = self.primal
        if type(b) is float:
            if kind is float or kind is int or kind is float64:
                a = float(other)
                try:
                    u = self.tangent
                    v = a {symbol} b
                    {guard}
                    {right_float}
                except ArithmeticError:
                    pass
        elif (type(b) is ndarray and b.shape
                and (kind is float or kind is int or kind is ndarray and b.shape == other.shape and b.dtype == other.dtype)
                and ((alias := self.alias) is None or alias.base.alias is None)):
            a = other
            u = self.tangent
            v = a {symbol} b
            try:
                {right_array}
            except ArithmeticError:
                pass
    return general(self, other)
"""


def compile_function(name, source, **space):
    """Compile a template; its lines show up in tracebacks."""
    file = f"<dualad {name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    exec(compile(source, file, "exec"), space)
    return space[name]


def define_late(owner, method, source, row, **space):
    """Give a class an operator that is compiled when it is first used: an import would spend a sixth of its time on it."""

    def first(self, other):
        compiled = compile_function(method, source, row=row, **space)
        setattr(owner, method, compiled)
        if row.reflected is first:
            row.reflected = compiled
        return compiled(self, other)

    setattr(owner, method, first)


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


def total(left, right):
    """Return the source of the sum of two terms, in place where the first is a fresh array."""
    if right[0].startswith("-"):
        return f"{left[0]} - {right[0][1:]}"
    return f"{left[0]} + {right[0]}"


def strong_scalar(p, t):
    """Return p * t for a scalar partial, with a zero tangent winning over an infinite partial."""
    return p * t if p - p == 0.0 else strong_multiply(p, t)


def not_real(v):
    raise ArithmeticError  # Python's (-8.0) ** (1/3) is complex, NumPy's is NaN: take the general path


def define_binary(name):
    row: Any = OPERATORS[name]
    first, second = row.partials
    texts = {"symbol": SYMBOLS[name], "guard": "if type(v) is not float: not_real(v)" if name == "pow" else "pass"}
    for scalar, suffix in ((True, "float"), (False, "array")):
        left = term(first, "p", "t", scalar, row.singular)
        right = term(second, "q", "u", scalar, row.singular)
        both = total(left, right)
        if not scalar and left[1] and not right[0].startswith("-"):
            both = f"add((w := {left[0]}), {right[0]}, w)"  # into the fresh first term
        texts[f"both_{suffix}s"] = RESULT.format(tangent=both)
        texts[f"left_{suffix}"] = RESULT.format(tangent=f"None if t is None else {left[0]}")
        texts[f"right_{suffix}"] = RESULT.format(tangent=f"None if u is None else {right[0]}")
    space = {
        "Dual": Dual,
        "new": new,
        "float64": np.float64,
        "ndarray": np.ndarray,
        "p": first,
        "q": second,
        "row": row,
        "strong_scalar": strong_scalar,
        "scale": scale,
        "of_dtype": of_dtype,
        "add": np.add,
        "not_real": not_real,
    }
    for source, method in ((BINARY, f"__{name}__"), (REFLECTED, f"__r{name}__")):
        general = general_operator(method, row)
        define_late(Dual, method, source.format(method=method, **texts), general=general, **space)
    row.reflected = getattr(Dual, f"__r{name}__")


def general_operator(method, row):
    """Return the operator for all other operands: by Python's operator where a value is an array, else by the ufunc."""
    slow, operate = getattr(Traced, method), row.of_numbers
    reflected = method.startswith("__r")

    def general(self, other):
        kind = type(other)
        if (
            type(self.primal) is np.ndarray
            and is_current(self)
            and (
                (kind is Dual and other.level is self.level and type(other.primal) is np.ndarray and is_current(other))
                or kind is float
                or kind is int
                or (kind is np.ndarray and other.dtype != object)
            )
        ):
            return self._interpret(row, (other, self) if reflected else (self, other), {}, operate)
        return slow(self, other)

    return general


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
    level, a, row = self.level, self.primal, ROWS.get(ufunc)
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
    elif type(a) is float and type(args[0]) is FLOAT64 and level.plain and row is not None and row.reflected is not None:
        return row.reflected(self, float(args[0]))
    return Traced.__array_ufunc__(self, ufunc, method, *args, **kwargs)


# --- linear functions of one array ----------------------------------------------------------------------------------------------


def array_function(self, fn, types, args, kwargs):
    """Evaluate an array function; one that has a body, or one of an array that was never written, directly."""
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
    elif (
        type(row) is Composite
        and not (kwargs or row.like or row.value_dependent)
        and row.required <= len(args) <= row.most
        and len(types) == 1
        and self.level.objects is None
        and not row.restates(args, kwargs)
    ):
        return row.body(*args)
    elif (
        type(row) is Constant
        and row.complex_body is None
        and len(args) == 1
        and args[0] is self
        and self.level.plain
        and SETTINGS.issuperset(map(type, kwargs.values()))
        and ((alias := self.alias) is None or alias.base.alias is None)
    ):
        return fn(self.primal, **kwargs)
    return Traced.__array_function__(self, fn, types, args, kwargs)


FLOATS, ARRAYS = {float}, {np.ndarray}
SETTINGS = {str, int, bool, type(None)}  # what is said by keyword besides arrays


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
    if kinds == FLOATS and fn is np.stack and (axis == 0 or axis == -1):
        r.primal, r.tangent = np.array(values), np.array(tangents) if level.directions is None else np.array(tangents).T.copy()
    elif kinds == ARRAYS:
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


for name in SHORT:
    define_binary(name)
Dual.__neg__ = negative  # type: ignore[operator]
Dual.__getitem__ = get  # type: ignore[method-assign]
Dual.__array_ufunc__ = array_ufunc  # type: ignore[method-assign]
Dual.__array_function__ = array_function  # type: ignore[method-assign]
