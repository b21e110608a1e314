"""The shortest path of Var: arithmetic of Python floats, compiled from the rows.

Everything here could be left out: `Var._interpret` records the same derivatives, several times slower. No derivative is
written here: the templates are filled with each row's partials, evaluated as the operation is recorded.
"""

from __future__ import annotations

import numpy as np

from dualad.operators import OPERATORS, compile_function, not_real
from dualad.rules.kinds import FIRST, MINUS_ONE, ONE, ROWS, SECOND, Elementwise
from dualad.traced import Traced, new

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
                        entry = (i, {p}, j, {q})
                        nodes = tape.nodes
                        r = new(Var)
                        r.value = v
                        r.node = len(nodes)
                        r.level = tape
                        r.alias = None
                        nodes.append(entry)
                        return r
                    except ArithmeticError:
                        pass
            elif (kind is float or kind is int or kind is float64) and i is not None:
                b = float(other) if kind is float64 else other
                try:
                    v = a {symbol} b
                    {guard}
                    entry = (i, {p})
                    nodes = tape.nodes
                    r = new(Var)
                    r.value = v
                    r.node = len(nodes)
                    r.level = tape
                    r.alias = None
                    nodes.append(entry)
                    return r
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
                entry = (j, {q})
                nodes = tape.nodes
                r = new(Var)
                r.value = v
                r.node = len(nodes)
                r.level = tape
                r.alias = None
                nodes.append(entry)
                return r
            except ArithmeticError:
                pass
    return general(self, other)
"""

MARKED = {ONE: "1.0", MINUS_ONE: "-1.0", FIRST: "a", SECOND: "b"}


def finite(p):
    """Return the partial as a float; an infinite one takes the general path, which knows what a zero times it is."""
    if p - p != 0.0:
        raise ArithmeticError
    return float(p)


def define_binary(name, symbol, ufunc, operate):
    row = ROWS[ufunc]
    first, second = row.partials
    texts = {"symbol": symbol, "guard": "if type(v) is not float: not_real(v)" if name == "pow" else "pass",
             "p": MARKED.get(first, "finite(p(v, a, b))"), "q": MARKED.get(second, "finite(q(v, a, b))")}
    space = {"Var": Var, "new": new, "float64": np.float64, "p": first, "q": second, "finite": finite, "not_real": not_real}
    for source, method in ((BINARY, f"__{name}__"), (REFLECTED, f"__r{name}__")):
        text = source.format(method=method, **texts)
        setattr(Var, method, compile_function(method, text, general=getattr(Traced, method), **space))


def negative(self):
    """Return -x."""
    return self.__rsub__(0.0) if type(self.value) is float and self.value else np.negative(self)  # 0.0 - 0.0 is not -0.0


def array_ufunc(self, ufunc, method, *args, **kwargs):
    """Evaluate a ufunc; one of one argument on a float, or of two with a NumPy scalar, directly."""
    if type(self.value) is float and method == "__call__" and not kwargs and self.level.plain and self.node is not None:
        row = ROWS.get(ufunc)
        if len(args) == 1 and type(row) is Elementwise and not self.level.nan_safe:
            tape, a = self.level, self.value
            v = float(ufunc(a))
            with np.errstate(all="ignore"):
                p = float(row.partials[0](v, a))
            if p - p == 0.0:
                r = new(Var)
                r.value, r.node, r.level, r.alias = v, len(tape.nodes), tape, None
                tape.nodes.append((self.node, p))
                return r
        elif len(args) == 2 and type(args[0]) is np.float64 and ufunc in REFLECTED_METHODS:
            return REFLECTED_METHODS[ufunc](self, args[0])
    return Traced.__array_ufunc__(self, ufunc, method, *args, **kwargs)


for entry in OPERATORS:
    define_binary(*entry)
REFLECTED_METHODS = {ufunc: getattr(Var, f"__r{name}__") for name, _, ufunc, _ in OPERATORS}
Var.__neg__ = negative
Var.__array_ufunc__ = array_ufunc
