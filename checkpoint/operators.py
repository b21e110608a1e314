"""The shortest paths of Var: arithmetic of Python floats, compiled from the rows; arrays of one shape; indexing; sums.

Everything here could be left out: `Var._interpret` records the same derivatives, several times slower. No derivative is
written here: the templates are filled with each row's partials, evaluated as the operation is recorded.
"""

from __future__ import annotations

import numpy as np

from dualad.dispatch import apply
from dualad.dual import shows_memory
from dualad.levels import new, shared_view
from dualad.operators import BASIC, OPERATORS, compile_function, not_real
from dualad.rules.indexing import getitem
from dualad.rules.kinds import FIRST, MINUS_ONE, ONE, ROWS, SECOND, USED_BY_MARK, Abstract, Elementwise, evaluated
from dualad.traced import GETITEM, Traced

from .entries import Get, Record, Same
from .tape import Var

__all__ = []

BINARY = """
def {method}(self, other):
    tape = self.level
    if tape.plain:
        a = self.value
        if type(a) is float:
            kind = type(other)
            i = self.node
            if kind is Var:
                b = other.value
                j = other.node
                if other.level is tape and type(b) is float and i is not None and j is not None:
                    try:
                        v = a {symbol} b
                        {guard}
                        {two}
                    except ArithmeticError:
                        pass
            elif (kind is float or kind is int or kind is float64) and i is not None:
                b = float(other) if kind is float64 else other
                try:
                    v = a {symbol} b
                    {guard}
                    {left}
                except ArithmeticError:
                    pass
    return general(self, other)
"""

REFLECTED = """
def {method}(self, other):
    tape = self.level
    kind = type(other)
    if tape.plain and (kind is float or kind is int or kind is float64):
        b = self.value
        j = self.node
        if type(b) is float and j is not None:
            a = float(other)
            try:
                v = a {symbol} b
                {guard}
                {right}
            except ArithmeticError:
                pass
    return general(self, other)
"""

RECORDED = "entry = {entry}; nodes = tape.nodes; r = new(Var); r.value = v; r.node = len(nodes); r.level = tape; r.alias = None; " \
    "nodes.append(entry); return r"
MARKED = {ONE: "1.0", MINUS_ONE: "-1.0", FIRST: "a", SECOND: "b"}


def finite(p):
    """Return the partial as a float; an infinite one takes the general path, which knows what a zero times it is."""
    if p - p != 0.0:
        raise ArithmeticError
    return float(p)


def define_binary(name, symbol, ufunc, operate):
    row = ROWS[ufunc]
    first, second = row.partials
    p, q = MARKED.get(first, "finite(p(v, a, b))"), MARKED.get(second, "finite(q(v, a, b))")
    texts = {"symbol": symbol, "guard": "if type(v) is not float: not_real(v)" if name == "pow" else "pass",
             "two": RECORDED.format(entry=f"(i, {p}, j, {q})"), "left": RECORDED.format(entry=f"(i, {p})"),
             "right": RECORDED.format(entry=f"(j, {q})")}
    space = {"Var": Var, "new": new, "float64": np.float64, "p": first, "q": second, "finite": finite, "not_real": not_real}
    for source, method in ((BINARY, f"__{name}__"), (REFLECTED, f"__r{name}__")):
        text = source.format(method=method, **texts)
        general = general_operator(row, operate, getattr(Traced, method), method.startswith("__r"))
        setattr(Var, method, compile_function(method, text, general=general, **space))


# --- arrays that were never written -----------------------------------------------------------------------------------------------

def general_operator(row, operate, slow, reflected):
    """Return the operator for arrays of one shape and dtype, or with a number; all else goes to the general one."""
    used = [USED_BY_MARK.get(partial, (0, 1)) for partial in row.partials]
    uses_ans = row.uses_ans

    def general(self, other):
        tape, a, i = self.level, self.value, self.node
        if (tape.plain and type(a) is np.ndarray and i is not None and a.ndim
                and ((alias := self.alias) is None or alias.base.alias is None)):
            kind = type(other)
            j = None
            if kind is float or kind is int:
                b = other
            elif kind is Var:
                b, j = other.value, other.node
                if not (other.level is tape and type(b) is np.ndarray and b.shape == a.shape and b.dtype == a.dtype and j is not None
                        and ((alias := other.alias) is None or alias.base.alias is None)):
                    return slow(self, other)
            elif kind is np.ndarray and other.shape == a.shape and other.dtype == a.dtype:
                b = tape.freeze(other) if 1 - reflected in used[reflected] else other
            else:
                return slow(self, other)
            args = (b, a) if reflected else (a, b)
            v = operate(*args)
            if v.dtype != a.dtype:
                return slow(self, other)
            if j is None:
                active, parents, needed = ((1,), (i,), used[1]) if reflected else ((0,), (i,), used[0])
            else:
                active, parents, needed = (0, 1), (i, j), (*used[0], *used[1])
            if not needed:
                args = NOTHING
            elif j is None and len(needed) == 1:
                args = (args[0], None) if needed[0] == 0 else (None, args[1])
            return recorded(Same, row, active, parents, args, v if uses_ans else None, v, tape)
        return slow(self, other)
    return general


NOTHING = (None, None)
NO_KEYWORDS: dict = {}


def recorded(kind, row, active, parents, args, ans, v, tape):
    """Record an entry and return its variable."""
    entry = new(kind)
    entry.row, entry.active, entry.parents, entry.args, entry.kwargs, entry.ans = row, active, parents, args, NO_KEYWORDS, ans
    nodes = tape.nodes
    r = new(Var)
    r.value, r.node, r.level, r.alias = v, len(nodes), tape, None
    nodes.append(entry)
    return r


def abstract(array):
    """Return the Abstract of a plain array."""
    like = new(Abstract)
    like.shape, like.dtype = array.shape, array.dtype
    return like


def array_function(self, fn, types, args, kwargs):
    """Evaluate an array function; one linear in its first argument, on an array that was never written, directly."""
    row = LINEAR.get(fn)
    if (row is not None and args and args[0] is self and type(a := self.value) is np.ndarray and self.level.plain
            and self.node is not None and ((alias := self.alias) is None or alias.base.alias is None)
            and not (len(args) > 1 and any(isinstance(arg, Traced) for arg in args[1:]))
            and not (kwargs and ("out" in kwargs or any(isinstance(value, Traced) for value in kwargs.values())))):
        v = row.call(a, *args[1:], **kwargs)
        r = recorded(Record, row, (0,), (self.node,), (abstract(a), *args[1:]), None, v.item() if type(v) is np.float64 else v,
                     self.level)
        r.level.nodes[-1].kwargs = kwargs
        if row.view is not None and shows_memory(v, a):
            r.alias = shared_view(self, alias, fn, args[1:], kwargs)
        return r
    return Traced.__array_function__(self, fn, types, args, kwargs)


#: functions linear in their first argument alone
LINEAR = {row.fn: row for row in ROWS.values() if row.kind == "linear" and row.canonical is None and getattr(row, "argnums", None) == (0,)}


def get(self, index):
    """Return ``x[index]``: an element, or a view."""
    value, tape = self.value, self.level
    kind = type(index)
    if (type(value) is np.ndarray and self.node is not None and tape.plain
            and ((alias := self.alias) is None or alias.base.alias is None)
            and (kind is int or kind is slice or (kind is tuple and BASIC.issuperset(map(type, index))))):
        v = value[index]
        is_array = type(v) is np.ndarray
        r = recorded(Get, GETITEM, (0,), (self.node,), (abstract(value), index), None,
                     v if is_array or type(v) is not np.float64 else v.item(), tape)
        if is_array:
            r.alias = shared_view(self, alias, getitem, (index,))
        return r
    return apply(getitem, (self, index), {})


# --- the rest --------------------------------------------------------------------------------------------------------------------

def negative(self):
    """Return -x."""
    return self.__rsub__(0.0) if type(self.value) is float and self.value else np.negative(self)  # 0.0 - 0.0 is no -0.0


def array_ufunc(self, ufunc, method, *args, **kwargs):
    """Evaluate a ufunc; one of one argument on a float, or of two with a NumPy scalar, directly."""
    if method == "__call__" and not kwargs and self.level.plain and self.node is not None:
        row = ROWS.get(ufunc)
        if type(self.value) is not float:
            if (len(args) == 1 and type(row) is Elementwise and row.complex_body is None and type(a := self.value) is np.ndarray and a.ndim
                    and ((alias := self.alias) is None or alias.base.alias is None)):
                v = ufunc(a)
                if v.dtype == a.dtype:
                    needed = USED_BY_MARK.get(row.partials[0], (0,))
                    return recorded(Same, row, (0,), (self.node,), (a,) if needed else (None,), v if row.uses_ans else None, v, self.level)
        elif len(args) == 1 and type(row) is Elementwise and not self.level.nan_safe:
            tape, a = self.level, self.value
            v = float(ufunc(a))
            with np.errstate(all="ignore"):
                p = float(evaluated(row.partials[0], v, (a,)))
            if p - p == 0.0:
                r = new(Var)
                r.value, r.node, r.level, r.alias = v, len(tape.nodes), tape, None
                tape.nodes.append((self.node, p))
                return r
        elif len(args) == 2 and type(args[0]) is np.float64 and ufunc in REFLECTED_METHODS:
            return REFLECTED_METHODS[ufunc](self, float(args[0]))
    return Traced.__array_ufunc__(self, ufunc, method, *args, **kwargs)


for entry in OPERATORS:
    define_binary(*entry)
REFLECTED_METHODS = {ufunc: getattr(Var, f"__r{name}__") for name, _, ufunc, _ in OPERATORS}
Var.__neg__ = negative  # type: ignore[operator]
Var.__array_ufunc__ = array_ufunc
Var.__array_function__ = array_function
Var.__getitem__ = get
