"""The shortest paths of Var: arithmetic of Python floats, compiled from the rows; arrays of one dtype, and with numbers; indexing; sums.

This file is an optimisation: `Var._interpret` records the same derivatives, several times slower. The templates are
filled with each row's partials, evaluated as the operation is recorded. Written here a second time are only
the marked partials (1, -1, "the other argument", one over it), and that indexing is linear.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy import float64, ndarray

from dualad.core.conversions import defers_to_container
from dualad.core.dispatch import apply, indexed, strengthen
from dualad.core.levels import Handle, new, shared_view
from dualad.core.traced import GETITEM, Traced
from dualad.forward.generated import SHORT, define_operators
from dualad.forward.operators import BASIC, rounds_itself
from dualad.rules.cotangents import FLOAT
from dualad.rules.indexing import getitem
from dualad.rules.kinds import ROWS, Abstract, Composite, Constant, Differentiable, Elementwise
from dualad.rules.memory import shows_memory
from dualad.rules.partials import FIRST, MINUS_ONE, ONE, SECOND, evaluate_partial

from .entries import Binary, Index, Linear, Number, Pointwise, Unary
from .fast import NO_KEYWORDS, NUMBERS, evaluate_directly, stack
from .tape import NEVER_WRITTEN, Tape, Var, append_entry, make_var, place_of_entry, pull_broadcast, pull_row

__all__: list[str] = []

APPEND = "entries = level.entries; k = len(entries); entries.append(entry); "
RESULT = "; r = new(Interpreter); r.primal = v; r.node = {node}; r.level = level; r.alias = None; return r"
PLACE = "k if entries[k] is entry else place_of_entry(entries, entry)"
NUMBER = "entry = {entry}; " + APPEND + RESULT.format(node=PLACE).removeprefix("; ")
ENTRY = "entry = new({kind}); {fields}; " + APPEND + f"entry.place = k = {PLACE}; entries[k] = None" + RESULT.format(node="entry")
MARKED = {ONE: "1.0", MINUS_ONE: "-1.0", FIRST: "a", SECOND: "b"}
DIRECT = {FIRST: ("multiply", "a"), SECOND: ("multiply", "b")}
DIVIDED = {SECOND: ("divide", "b")}


def divisor_of(partial: Any) -> Any:
    return getattr(partial, "divisor", None)


def scalar_partial(name: str, partial: Any) -> str:
    divisor = MARKED.get(divisor_of(partial))
    return MARKED.get(partial) or (f"finite(1.0 / {divisor})" if divisor else f"finite({name}(v, a, b))")


def finite(p: Any) -> float:
    """Return the partial as a float; an infinite one takes the general path, which knows what a zero times it is."""
    if p - p != 0.0:
        raise ArithmeticError
    return float(p)


def array_entry(row: Elementwise, *active: int, stretched: bool = False) -> str:
    """Return the source that records an operation by its active arguments, holding what their partials need."""
    used = set().union(*(row.uses[i] for i in active))

    def operand(k: int) -> str:
        value, variable = "ab"[k], "other" if k and len(active) == 2 else "self"
        if k not in used:
            return f"abstract({value})" if stretched else "None"
        return f"level.own({variable}) if level.borrowed else {value}" if k in active else value

    parents = ", ".join("tu"[k] for k in active)
    if stretched:
        kind, nodes = "Pointwise", f"entry.parents = ({parents},); entry.active, entry.kwargs = {active}, NO_KEYWORDS"
    elif len(active) == 2:
        kind, nodes = "Binary", f"entry.parents = ({parents})"
    else:
        kind, nodes = "Unary", f"entry.i = {active[0]}; entry.parent = {parents}"
    ans = "v" if row.uses_ans else "None"
    return ENTRY.format(kind=kind, fields=f"entry.row = row; entry.args = ({operand(0)}, {operand(1)}); entry.ans = {ans}; {nodes}")


def small_entry(row: Elementwise, *active: Any, stretched: bool = False) -> str:
    """Return the source that records an operation of small arrays by its active arguments."""
    parts = []
    for i in active:
        pullback, residuals = DIRECT.get(row.partials[i]) or DIVIDED.get(divisor_of(row.partials[i])) or (f"pullbacks[{i}]", "(v, a, b)")
        if stretched:
            pullback, residuals = "pull_broadcast", f"(pullbacks[{i}], (v, a, b), {'ab'[i]})"
        node = "tu"[i]
        parts.append(f"({node} if type({node}) is int else level.keep({node}), {pullback}, {residuals})")
    return NUMBER.format(entry=f"[{', '.join(parts)}]")


def texts(row: Elementwise, *active: int) -> dict[str, str]:
    """Return how the cases of an operator are recorded by its active arguments."""
    nodes, partials = ["tu"[i] for i in active], [scalar_partial("pq"[i], row.partials[i]) for i in active]
    pairs = ", ".join(f"{node}, {partial}" for node, partial in zip(nodes, partials, strict=True))
    fields = f"entry.parents = ({', '.join(nodes)},); entry.partials = ({', '.join(partials)},)"
    on_tape = " and ".join(f"type({node}) is int" for node in nodes)
    small, stretched = (f"if v.nbytes <= level.small:\n    {small_entry(row, *active, stretched=wide)}\n" for wide in (False, True))
    return {
        "held": "level.freeze(other) if kind is ndarray else other" if 1 - active[0] in row.uses[active[0]] else "other",
        "numbers": f"if {on_tape}:\n    {NUMBER.format(entry=f'({pairs})')}\n{ENTRY.format(kind='Number', fields=fields)}",
        "arrays": small + array_entry(row, *active),
        "stretched": stretched + array_entry(row, *active, stretched=True),
    }


def general_operator(row: Any, method: str, reflected: bool) -> Callable[[Var, Any], Any]:
    """Return the operator of all other operands."""
    slow = getattr(Traced, method)

    def general(self: Var, other: Any) -> Any:
        args, tape = (other, self) if reflected else (self, other), self.level
        if (r := evaluate_directly(row, row.of_numbers, args, NO_KEYWORDS, tape)) is not None:
            return r
        kind = type(other.primal) if type(other) is Var and other.level is tape else type(other)
        plain = of_one_level(args, tape) or (rounds_itself(type(self.primal), kind) and kind is not ndarray)
        if tape.plain and row.complex_body is None and plain:
            try:
                return self._interpret(row, args, NO_KEYWORDS, row.of_numbers)
            except (ZeroDivisionError, OverflowError):  # of Python's complex numbers, where NumPy has inf or NaN
                pass
        return slow(self, other)

    return general


# --- arrays that were never written -----------------------------------------------------------------------------------------------


def abstract(array: Any) -> Any:
    """Return the Abstract of a plain array; a float as it is."""
    if type(array) is float:
        return array
    like = new(Abstract)
    like.shape, like.dtype = array.shape, array.dtype
    return like


def array_function(self: Var, fn: Callable[..., Any], types: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Evaluate an array function of a row that is linear in its first argument, or of small arrays, directly."""
    if len(types) > 1 and defers_to_container(types):
        return Traced.__array_function__(self, fn, types, args, kwargs)
    row, tape, a = ROWS.get(fn), self.level, self.primal
    if fn is np.stack and len(args) == 1 and not kwargs and type(a) is float and tape.plain and (r := stack(args[0], tape)) is not None:
        return r
    if row is None or len(args) > row.most or (kwargs and (len(args) < row.required or (row.dtype_at is not None and "dtype" in kwargs))):
        return Traced.__array_function__(self, fn, types, args, kwargs)
    if isinstance(row, Differentiable) and tape.plain:
        if (
            row.alone
            and row.trusted
            and type(a) is ndarray
            and self.node is not None
            and args
            and args[0] is self
            and ((alias := self.alias) is None or alias.base.alias is None)
            and ((len(args) == 1 and not kwargs) or plain_rest(args, kwargs))
            and (row.canonical is None or row.canonical(args, kwargs)[0] is args)
        ):
            v = row.call(a, *args[1:], **kwargs)
            rest = map(tape.freeze, args[1:])
            small = a.nbytes <= tape.small and (type(v) is not ndarray or v.nbytes <= tape.small)
            r = linear(None if small else Linear, row, (abstract(a), *rest), kwargs and tape.freeze(kwargs), self.node, v, tape)
            if row.view is not None and shows_memory(v, a):
                r.alias = shared_view(self, alias, fn, args[1:], kwargs)
                tape.own_small_view(r)
            return r
        canonical: tuple[Any, dict[str, Any]] = (args, kwargs) if row.canonical is None or "out" in kwargs else row.canonical(args, kwargs)
        if (r := evaluate_directly(row, row.call, *canonical, tape)) is not None:
            return r
        plain = "out" not in kwargs and SETTINGS.issuperset(map(type, canonical[1].values()))
        if plain and row.complex_body is None and of_one_level(canonical[0], tape):
            first = next((arg for arg in canonical[0] if type(arg) is Var), None)
            if first is not None:
                return first._interpret(row, *canonical)
    elif (
        type(row) is Constant
        and row.complex_body is None
        and tape.plain
        and SETTINGS.issuperset(map(type, kwargs.values()))
        and (values := current_values(args, tape)) is not None
    ):
        return fn(*values, **kwargs)
    return Traced.__array_function__(self, fn, types, args, kwargs)


SETTINGS = {str, int, bool, type(None)}  # what is said by keyword besides arrays


def of_one_level(args: Any, tape: Tape) -> bool:
    """Return whether all arguments are variables of a tape, or arrays of numbers."""
    return all((type(arg) is Var and arg.level is tape) or (type(arg) is ndarray and arg.dtype != object) for arg in args)


def plain_rest(args: Any, kwargs: dict[str, Any]) -> bool:
    """Return whether nothing but the first argument is traced, and no array is to be written into."""
    for value in (*args[1:], *kwargs.values()) if kwargs else args[1:]:
        if type(value) not in NEVER_WRITTEN and isinstance(value, Handle):
            return False
    return "out" not in kwargs


def linear(kind: type[Linear] | None, row: Any, args: Any, kwargs: dict[str, Any], node: Any, v: Any, tape: Tape) -> Var:
    """Record a function that is linear in its first argument, of small arrays without an entry's kind, and return its variable."""
    entries: list[Any] = tape.entries
    entry: Any
    r = new(Var)
    k = len(entries)
    if kind is None:
        entry = [(node if type(node) is int else tape.keep(node), pull_row, (row, 0, None, args, kwargs))]
        entries.append(entry)
        r.node = k if entries[k] is entry else place_of_entry(entries, entry)
    else:
        r.node = entry = new(kind)
        entry.row, entry.parent, entry.args, entry.kwargs = row, node, args, kwargs
        entries.append(entry)
        entry.place = k = k if entries[k] is entry else place_of_entry(entries, entry)
        entries[k] = None
    r.primal = v.item() if type(v) is float64 else v
    r.level = tape
    r.alias = None
    return r


def get(self: Var, index: Any) -> Any:
    """Return ``x[index]``: an element, or a view."""
    value, tape = self.primal, self.level
    kind = type(index)
    if (
        type(value) is np.ndarray
        and self.node is not None
        and tape.plain
        and ((alias := self.alias) is None or alias.base.alias is None)
        and (kind is int or kind is slice or (kind is tuple and BASIC.issuperset(map(type, index))))
    ):
        v = value[index]
        r = linear(Index, GETITEM, (abstract(value), index), NO_KEYWORDS, self.node, v, tape)
        if type(v) is np.ndarray:
            r.alias = shared_view(self, alias, getitem, (index,))
            tape.own_small_view(r)
        else:
            r.node = tape.keep(r.node)
        return r
    if kind is ndarray and index.dtype.kind in "bi":
        return self._interpret(GETITEM, (self, index), NO_KEYWORDS)
    return indexed(self, index)


# --- the rest --------------------------------------------------------------------------------------------------------------------


def negative(self: Any) -> Any:
    """Return -x."""
    return self.__rsub__(0.0) if type(self.primal) is float and self.primal else np.negative(self)  # 0.0 - 0.0 is no -0.0


def array_ufunc(self: Var, ufunc: np.ufunc, method: str, *args: Any, **kwargs: Any) -> Any:
    """Evaluate a ufunc; one of one argument on a float, or of two with a NumPy scalar, directly."""
    row: Any
    entry: Any
    r: Var | None
    tape = self.level
    i = self.node
    if tape.plain and i is not None and method == "__call__" and not kwargs:
        a, row = self.primal, ROWS.get(ufunc)
        if (
            len(args) == 2
            and args[1] is self
            and type(args[0]) is ndarray
            and args[0].dtype is FLOAT
            and row is not None
            and row.operator in SHORT
        ):
            return getattr(self, f"__r{row.operator}__")(args[0])
        if len(args) == 1:
            if row is None or not row.short:
                pass
            elif type(a) is ndarray:
                if a.ndim and ((alias := self.alias) is None or alias.base.alias is None) and (v := ufunc(a)).dtype == a.dtype:
                    entries = tape.entries
                    r = new(Var)
                    if a.nbytes <= tape.small:
                        i = i if type(i) is int else tape.keep(i)
                        entry, k = [(i, row.pullbacks[0], (v, a))], len(entries)
                        entries.append(entry)
                        r.node = k if entries[k] is entry else place_of_entry(entries, entry)
                    else:
                        if row.brief is not None and row.enough(v):
                            row = row.brief
                        r.node = entry = new(Unary)
                        entry.row, entry.i, entry.parent = row, 0, i
                        residual = (tape.own(self) if tape.borrowed else a) if row.uses[0] else None
                        entry.args, entry.ans = (residual,), v if row.uses_ans else None
                        entry.place = append_entry(entries, entry)
                        entries[entry.place] = None
                    r.primal = v
                    r.level = tape
                    r.alias = None
                    return r
            elif type(a) is float and type(i) is int:
                v = float(ufunc(a))
                with np.errstate(all="ignore"):
                    p = float(evaluate_partial(row.partials[0], v, (a,)))
                if p - p == 0.0:
                    return make_var(v, append_entry(tape.entries, (i, p)), tape)
        if isinstance(row, Differentiable):
            if (r := evaluate_directly(row, ufunc, args, kwargs, tape)) is not None:
                return r
            if row.complex_body is None and of_one_level(args, tape):
                return self._interpret(row, args, kwargs)
        elif type(row) is Constant and row.complex_body is None and (values := current_values(args, tape)) is not None:
            return ufunc(*values)
    return Traced.__array_ufunc__(self, ufunc, method, *args, **kwargs)


def current_values(args: Any, tape: Tape) -> list[Any] | None:
    """Return the values of variables of a tape that were never written, and of numbers and arrays; None where there is something else."""
    values = []
    for arg in args:
        if type(arg) is Var:
            if arg.level is not tape or not ((alias := arg.alias) is None or alias.base.alias is None):
                return None
            arg = arg.primal
        if type(arg) not in NUMBERS and (type(arg) is not ndarray or arg.dtype == object):
            return None
        values.append(arg)
    if not tape.weak and len(args) > 1:
        strengthen(values, args)
    return values


def dualad_apply(cls: type[Var], fn: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    """Evaluate a function of our own, or of a user's; of small arrays directly."""
    row: Any = ROWS.get(fn)
    if type(row) is Composite:
        row = None if row.in_short is None else row.in_short(args, kwargs)
    if isinstance(row, Differentiable) and row.canonical is None:
        for arg in args:
            if type(arg) is Var:
                if (r := evaluate_directly(row, row.call, args, kwargs, arg.level)) is not None:
                    return r
                break
    return apply(fn, args, kwargs)


USED = Unary, Binary, Pointwise, Number, place_of_entry, finite, abstract, pull_broadcast
define_operators(
    Var, texts, general_operator, NO_KEYWORDS=NO_KEYWORDS, multiply=np.multiply, divide=np.divide, **{part.__name__: part for part in USED}
)
METHODS = {"__neg__": negative, "__array_ufunc__": array_ufunc, "__array_function__": array_function, "__getitem__": get}
for name, defined in (METHODS | {"__dualad_apply__": classmethod(dualad_apply)}).items():
    setattr(Var, name, defined)
