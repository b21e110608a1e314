"""Operators of two operands on their shortest paths, generated from the rows, for the interpreters of both modes.

A template asks what the operands are: numbers, arrays of one dtype that were never written, or one of each. An interpreter fills in
how each case is differentiated; whatever else there is goes to its general path.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable
from functools import partial
from textwrap import indent
from typing import Any

import numpy as np

from ..core.levels import new
from ..rules.kinds import OPERATORS, SYMBOLS

#: the operators that have short paths
SHORT = ("add", "sub", "mul", "truediv", "pow")

OPERATOR = """
def {method}(self, other):
    level = self.level
    if level.plain:
        {x} = self.primal
        {payload_of_x} = self.payload
        kind = type(other)
        if kind is Interpreter:
            {of_two}
        elif {payload_of_x} is None:
            pass
        elif type({x}) is float:
            if kind is float or kind is int or kind is float64:
                try:
                    {y} = {constant}
                    v = a {symbol} b
                    {guard}
                    {numbers}
                except ArithmeticError:  # NumPy has inf or NaN there
                    pass
            elif kind is ndarray and other.ndim and other.dtype is FLOAT:
                v = {computed}
                {y} = {held}
                {stretched}
        elif (type({x}) is ndarray and (shape := {x}.shape) and ((alias := self.alias) is None or alias.base.alias is None)
                and (kind is float or kind is int or kind is ndarray and other.dtype == {x}.dtype
                     or kind is float64 and {x}.dtype is FLOAT)):
            v = {computed}
            {y} = {held}
            if kind is not ndarray or v.shape == shape:
                try:
                    {arrays}
                except ArithmeticError:
                    return general(self, other)
            {stretched}
    return general(self, other)
"""

OF_TWO = """
b = other.primal
u = other.payload
if t is None or u is None or other.level is not level:
    pass
elif type(a) is float:
    if type(b) is float:
        try:
            v = a {symbol} b
            {guard}
            {numbers}
        except ArithmeticError:
            pass
    elif type(b) is ndarray and b.ndim and b.dtype is FLOAT and ((alias := other.alias) is None or alias.base.alias is None):
        v = a {symbol} b
        {stretched}
elif (type(a) is ndarray and (shape := a.shape) and ((alias := self.alias) is None or alias.base.alias is None)
        and ((alias := other.alias) is None or alias.base.alias is None)):
    if type(b) is ndarray and b.dtype == a.dtype:
        v = a {symbol} b
        if b.shape == shape:
            {arrays}
        {stretched}
    elif type(b) is float and a.dtype is FLOAT:
        v = a {symbol} b
        {stretched}
"""


def define_operators(interpreter: type, texts: Callable[..., dict[str, str]], general: Callable[..., Any], **space: Any) -> None:
    """Give an interpreter its short operators, each compiled when it is first used: an import would spend a sixth of its time on it.

    In ``texts(row, *active)``, by the names of the cases, `a` and `b` are the operands, `t` and `u` their payloads, `v` is the value;
    `held` is how the operand is held that is a constant. ``general(row, method, reflected)`` is the operator of all other operands.
    """
    space |= {"Interpreter": interpreter, "new": new, "ndarray": np.ndarray, "float64": np.float64, "FLOAT": np.dtype(float)}
    for name in SHORT:
        row: Any = OPERATORS[name]
        first, second = row.partials
        of_row = {"row": row, "p": first, "q": second, "pullbacks": row.pullbacks, "not_real": not_real}
        common = {"symbol": SYMBOLS[name], "guard": "if type(v) is not float: not_real(v)" if name == "pow" else "pass"}
        for i, method in enumerate((f"__{name}__", f"__r{name}__")):
            source = partial(source_of, row, method, i, common, texts)
            define_late(interpreter, method, source, **space, **of_row, general=general(row, method, i == 1))


def source_of(row: Any, method: str, i: int, common: dict[str, str], texts: Callable[..., dict[str, str]]) -> str:
    """Return the source of an operator whose operand `i` is `self`."""
    roles = {"method": method, "x": "ab"[i], "y": "ba"[i], "payload_of_x": "tu"[i]}
    roles["computed"] = f"other {common['symbol']} b" if i else f"a {common['symbol']} other"
    roles["constant"] = "float(other)" if i else "float(other) if kind is float64 else other"  # an integer may be an exponent
    roles["of_two"] = "pass" if i else fill_template(OF_TWO, **common, **texts(row, 0, 1))
    return fill_template(OPERATOR, **common, **roles, **texts(row, i))


def fill_template(template: str, **texts: str) -> str:
    """Return a template with its texts, of which each line stands at the column of its name."""
    lines = template.strip().splitlines()
    return "\n".join(indent(line.lstrip().format(**texts), line[: len(line) - len(line.lstrip())]) for line in lines) + "\n"


def not_real(v: Any) -> None:
    raise ArithmeticError  # Python's (-8.0) ** (1/3) is complex, NumPy's is NaN: take the general path


def compile_method(owner: type, name: str, source: str, **space: Any) -> Any:
    """Compile a method of a class; its lines show up in tracebacks and warnings."""
    file = f"<dualad {owner.__name__}.{name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    exec(compile(source, file, "exec"), space)
    return space[name]


def define_late(owner: type, method: str, source: Callable[[], str], **space: Any) -> None:
    def first(self: Any, other: Any) -> Any:
        compiled = compile_method(owner, method, source(), **space)
        setattr(owner, method, compiled)
        return compiled(self, other)

    setattr(owner, method, first)
