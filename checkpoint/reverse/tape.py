"""The tape: a Wengert list of what was computed, in recording order, and the sweeps over it.

Entry k says how node k came from earlier nodes, so a sweep is one loop from the end to the start: no sorting, no
recursion. Adjoints live in the sweep, not on the tape: one recording serves any number of cotangents.

========================  ===========================================  ==================================================
what was recorded         entry                                        referenced by
========================  ===========================================  ==================================================
an input                  None
arithmetic of numbers     ``(i, p)`` or ``(i, p, j, q)``: the share    the tape
                          of the node at i is ``p * g``
small arrays              a list of ``(i, pullback, residuals)``: the  the tape
                          share is ``pullback(g, residuals)``, or g
large arrays              an `Entry`                                   the Var of its result, and the entries that came
                                                                       from it
========================  ===========================================  ==================================================

So a value that nobody needs takes with it what it recorded of large arrays; a sweep meets an entry through those that came from
it. A node is a place on the tape or an `Entry`. An element taken out of an array is a number: its entry stays on the tape, with
those that it came from, because code that loops over elements is to be fast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextvars import copy_context
from typing import Any, TypeVar
from weakref import ref

import numpy as np

from dualad.core.conversions import check_result
from dualad.core.dispatch import strengthen, with_parts
from dualad.core.levels import Handle, Level, Owner, errors_as_in, new, shared_view, version_of
from dualad.core.traced import Traced
from dualad.core.with_numpy_value import with_numpy_value
from dualad.forward.dual import refuse_traced_metadata, separate
from dualad.rules.cotangents import is_symbolic, unbroadcast
from dualad.rules.indexing import getitem, overwritten, scatter
from dualad.rules.kinds import ROWS, Abstract, Composite, Elementwise
from dualad.rules.memory import copied, own_to_write, shows_memory, writable
from dualad.rules.partials import evaluate_partial
from dualad.rules.precision import in_loop_dtypes
from dualad.rules.primitives import all_finite
from dualad.support.costs import SMALL_ARRAY_BYTES
from dualad.support.equality import same_arrays

from .entries import ZERO, Adjoints, Assign, Entry, Evaluation, Index, Node, Number, Part, Unary, place_of

E = TypeVar("E", bound=Entry)
NUMERIC = float | int | complex | np.ndarray | np.generic | Traced | list | tuple
NEVER_WRITTEN: set[type] = {float, int, complex, bool, str, slice, type(None), type(...), type(np._NoValue), np.float64}


class Tape(Level):
    """A level that records: `entries` is the Wengert list."""

    __slots__ = ("borrowed", "entries", "frozen", "pulled_in_lanes", "sweeps")  # the last two where there are any
    pulled_in_lanes: bool
    sweeps: list[Any]

    small = 1024  # bytes of an array that the tape itself may reference

    def __init__(self, nan_safe: bool = False, weak: bool = False, *variables: tuple[list[Any], Iterable[int]]) -> None:
        """`variables` are leaves that nobody else writes, with the positions of those in whose places new input variables are put."""
        super().__init__(None, nan_safe, weak)
        self.entries: list[Any] = []
        entries = self.entries
        for leaves, positions in variables:
            for i in positions:
                leaf, var = leaves[i], new(Var)
                var.primal, var.node, var.level, var.alias = leaf.item() if type(leaf) is np.float64 else leaf, len(entries), self, None
                leaves[i] = var
                entries.append(None)
        self.frozen: dict[int, tuple[ref[np.ndarray], ref[np.ndarray]]] = {}
        self.borrowed: dict[int, np.ndarray] = {}

    def inputs(self, values: list[Any]) -> list[Any]:
        """Return the input variables. A large array stays the caller's until an entry needs it (see `own`)."""
        inputs: list[Any] = []
        for value in values:
            if type(value) is np.ndarray:
                if value.nbytes <= self.small:
                    value = value.copy() if value.flags.carray else copied(value)
                else:
                    owner = owner_of(value)
                    self.borrowed[id(owner)] = owner
            elif type(value) is np.float64:
                value = value.item()
            inputs.append(make_var(value, len(inputs), self))
        self.entries += [None] * len(inputs)
        return inputs

    def borrows(self, value: Any) -> bool:
        """Return whether a value is a caller's array or shows one."""
        return type(value) is np.ndarray and id(owner_of(value)) in self.borrowed

    def own(self, var: Var) -> Any:
        """Return the value of a variable as one that nobody else writes: a caller's array is copied the first time an entry needs it."""
        if self.borrows(var.primal):
            var.primal = copied(var.primal)
        return var.primal

    @staticmethod
    def own_small_view(var: Var) -> None:
        """Copy a small view of a large array, in its layout: a small value is kept alive as it is, and must keep nothing else alive."""
        value = var.primal
        if type(value) is np.ndarray and value.nbytes <= var.level.small < getattr(value.base, "nbytes", 0):
            var.primal = copied(value)

    def record(self, entry: E) -> E:
        """Give an entry its place and return it, as the node of what it made."""
        entry.place = append_entry(self.entries, entry)
        self.entries[entry.place] = None
        return entry

    def evaluation(
        self, kind: type[Evaluation], row: Any, ans: Any, values: list[Any], kwargs: Any, active: list[int], parents: list[Any], args: Any
    ) -> Entry:
        """Record that a row of these values gave `ans`, with what its derivatives by the active arguments need."""
        if len(active) == 1 and type(row) is Elementwise and (p := partial_now(row, active[0], ans, values, args, self)) is not None:
            node = new(Unary)
            node.row, node.i, node.parent, node.args, node.ans = ROWS[np.multiply], 0, parents[0], (None, p), None
            return self.record(node)
        saved, borrowed = row.saved(values, active), self.borrowed
        for i, v in enumerate(saved):
            if v is args[i]:
                saved[i] = self.freeze(v)
            elif borrowed and self.borrows(v):
                saved[i] = self.own(args[i])
        kwargs = kwargs and self.freeze(kwargs)
        if row.fn is getitem:
            return self.record(Index(row, parents[0], saved, kwargs))
        return self.record(kind(row, active, parents, saved, kwargs, plain_array(ans) if row.uses_ans else None))

    def keep(self, entry: Entry) -> int:
        """Reference an entry from the tape and return its place, as the node of the number that it made."""
        self.entries[entry.place] = entry
        return entry.place

    def freeze(self, constant: Any) -> Any:
        """Return a copy of a constant (or of those in a container) that the tape needs: its owner may change it before the pull.
        An array met again unchanged is not copied again; a subclass becomes a plain array, as rules expect."""
        if type(constant) in NEVER_WRITTEN:
            return constant
        if type(constant) is np.ndarray:
            if constant.nbytes <= SMALL_ARRAY_BYTES:
                return constant.copy("K")
            known = self.frozen.get(id(constant))
            copy = known[1]() if known is not None and known[0]() is constant and constant.flags.forc else None
            if copy is not None and same_arrays(copy, constant):
                return copy
            copy = constant.copy("K")
            self.frozen[id(constant)] = ref(constant), ref(copy)
            return copy
        if type(constant) in (tuple, list):
            if type(constant) is tuple and NEVER_WRITTEN.issuperset(map(type, constant)):
                return constant
            return type(constant)(map(self.freeze, constant))
        if type(constant) is dict:
            return {key: value if type(value) in NEVER_WRITTEN else self.freeze(value) for key, value in constant.items()}
        if isinstance(constant, Traced) and constant.ndim:
            return np.copy(constant)
        if issubclass(type(constant), np.ndarray):
            return np.asarray(constant) if isinstance(constant, np.memmap) else np.array(constant)
        return constant

    def pull(self, seeds: Iterable[tuple[Node | None, Any]], inputs: Sequence[int]) -> list[Any]:
        """Sweep back from (node, cotangent) seeds, of constants with node None, to input nodes; None where nothing depends on the input."""
        context = copy_context()
        try:
            return self.sweep_quietly(seeds, inputs)
        except BaseException as error:
            if not isinstance(error, Exception):
                errors_as_in(context)
            raise

    def sweep_back(self, seeds: Iterable[tuple[Node | None, Any]], inputs: Sequence[int]) -> list[Any]:
        """Do what `pull` does, under the caller's error state."""
        entries, zero = self.entries.copy(), ZERO
        values: list[Any] = [zero] * len(entries)
        adjoints, last = None, -1
        for node, g in seeds:
            if type(node) is int and values[node] is zero:
                values[node] = g
                last = max(last, node)
            elif node is not None:
                adjoints = adjoints or Adjoints(entries, values, self.nan_safe)
                last = max(last, adjoints.add(node, g, False))
        for k in range(last, -1, -1):
            g = values[k]
            if g is zero:
                continue
            entry = entries[k]
            kind = type(entry)
            if kind is tuple:
                if len(entry) == 4:
                    i, p, j, q = entry
                    values[i] = values[i] + p * g  # never in place: it may be a 0-d view of what the caller gave
                    values[j] = values[j] + q * g
                else:
                    i, p = entry
                    values[i] = values[i] + p * g
            elif kind is list:
                for i, pullback, residuals in entry:
                    share = g if pullback is None else pullback(g, residuals)
                    now = values[i]
                    values[i] = share if now is zero else now + share
            elif entry is not None:
                adjoints = adjoints or Adjoints(entries, values, self.nan_safe)
                entry.pull(k, g, adjoints)
                values[k] = zero  # its buffer may be large
        results = []
        for node in inputs:  # no comprehension, which would make `values` slow in the loop above
            g = values[node]
            results.append(None if g is zero else g)
        return results

    sweep_quietly = np.errstate(all="ignore")(sweep_back)  # half the cost of a with block

    def push(self, tangents: Iterable[tuple[int, Any]], outputs: Iterable[Node]) -> list[Any]:
        """Sweep forward from (node, tangent) pairs of inputs to the tangents of output nodes, None for zeros."""
        pushed = [None] * len(self.entries)
        for node, t in tangents:
            pushed[node] = t
        with np.errstate(all="ignore"):
            for k, entry in enumerate(self.needed(outputs)):
                if type(entry) is tuple:
                    pushed[k] = Number(entry[::2], entry[1::2]).push(pushed)
                elif type(entry) is list:
                    pushed[k] = push_small(entry, pushed)
                elif entry is not None:
                    pushed[k] = entry.push(pushed)
        return [pushed[place_of(node)] for node in outputs]

    def needed(self, outputs: Iterable[Node]) -> list[Any]:
        """Return the entries in their places: the tape's own, and those that they and the outputs came from."""
        entries = self.entries.copy()
        waiting: list[Any] = [node for node in outputs if type(node) is not int]
        for entry in filter(None, entries):
            if type(entry) not in (tuple, list):
                waiting += entry.parents
        while waiting:
            node = waiting.pop()
            if type(node) is not int and entries[node.place] is not node:
                entries[node.place] = node
                waiting += node.parents
        return entries


# --- what the tape itself references: lists of (parent, pullback, residuals) ------------------------------------------------------------


def pull_row(g: Any, residuals: Any) -> Any:
    row, i, ans, args, kwargs = residuals
    share = row.vjp(i, g, ans, args, kwargs)
    return ZERO if share is None else share


def pull_part(g: Any, residuals: Any) -> Any:
    """Return the share of an array that was joined with others; the residuals are its place in the result, and the result's shape."""
    return g[residuals[0]]


def pull_broadcast(g: Any, residuals: Any) -> Any:
    """Return the share of an elementwise row's argument that was broadcast."""
    pullback, inner, value = residuals
    share = g if pullback is None else pullback(g, inner)
    if type(share) is np.ndarray and type(value) is not np.ndarray:
        return float(np.add.reduce(share, None))
    return unbroadcast(share, value)


def push_small(entry: Any, pushed: list[Any]) -> Any:
    """Return the tangent of what such a list recorded."""
    tangents = [pushed[k] for k, _, _ in entry]
    if all(t is None for t in tangents):
        return None
    if entry[0][1] is pull_row:
        row, _, ans, args, kwargs = entry[0][2]
        filled = [None] * len(args)
        for t, (_, _, (_, i, *_)) in zip(tangents, entry, strict=True):
            filled[i] = t
        return row.jvp(ans, args, kwargs, filled)
    total: Any = 0.0
    for t, (_, pullback, residuals) in zip(tangents, entry, strict=True):
        if t is not None:  # a partial times a tangent is what it is times a cotangent, and broadcasts by itself
            shape = None
            if pullback is pull_part:
                total = total + scatter(t, *residuals)
                continue
            if pullback is pull_broadcast:
                pullback, residuals, _ = residuals
                shape = residuals[0].shape
            share = t if pullback is None else pullback(t, residuals)
            total = total + (share if shape is None else np.broadcast_to(share, shape))
    return total


def append_entry(entries: list[Any], entry: Any) -> int:
    """Append an entry and return its place, also where another thread appends at the same time."""
    place = len(entries)
    entries.append(entry)
    return place if entries[place] is entry else place_of_entry(entries, entry)


def place_of_entry(entries: list[Any], entry: Any) -> int:
    """Return the place of an entry that was just appended."""
    return next(k for k in range(len(entries) - 1, -1, -1) if entries[k] is entry)


def partial_now(row: Any, i: int, ans: Any, values: Sequence[Any], args: Any, tape: Tape) -> np.ndarray | None:
    """Return a partial of a large array, where to hold it is cheaper than to copy two arrays that others may change; else None."""
    if not (tape.plain and row.trusted):
        return None
    read = [
        k for k in row.uses[i] if k < len(values) and type(values[k]) is np.ndarray and (values[k] is args[k] or tape.borrows(values[k]))
    ]
    if len(read) < 2 or type(values[i]) is not np.ndarray or values[i].shape != ans.shape or values[i].dtype != ans.dtype or not ans.ndim:
        return None
    with np.errstate(all="ignore"):
        p = evaluate_partial(row.partials[i], ans, in_loop_dtypes(row.fn, ans, values) if row.computed[i] else values)
        usable = type(p) is np.ndarray and p.shape == ans.shape and p.dtype in (ans.dtype, np.dtype(bool))
        return p if usable and (not row.singular or all_finite(p)) else None


def owner_of(array: np.ndarray) -> np.ndarray:
    """Return the array that the views of an array have as their base: itself, also where it shows a buffer that is no such array."""
    return array.base if type(array.base) is np.ndarray else array


def plain_array(ans: Any) -> Any:
    """Return an array of a subclass as a plain one, anything else as it is."""
    return np.asarray(ans) if issubclass(type(ans), np.ndarray) else ans


class Var(Traced):
    """A value whose computation is on a tape; `node` is its place there, None for a constant."""

    __slots__ = ()
    node = Handle.__dict__["payload"]

    def __repr__(self) -> str:
        self._refresh()
        value = np.array2string(self.primal, separator=", ") if type(self.primal) is np.ndarray else self.primal
        return f"Var({value}, node={self.node})"

    def _interpret(self, row: Any, args: Any, kwargs: dict[str, Any], evaluate: Callable[..., Any] | None = None) -> Any:
        tape = self.level
        if not tape.plain:
            tape.check()
        values, active, parents, written, scalar = list(args), [], [], False, False
        arrays = row.arrays(args)
        for i in arrays:
            arg = args[i]
            if type(arg) is Var and arg.level is tape:
                if arg.alias is not None and arg._shares_written():
                    written = True
                values[i] = value = arg.primal
                scalar = scalar or type(value) is float
                if arg.node is not None:
                    active.append(i)
                    parents.append(arg.node)
        if scalar and not tape.weak and len(args) > 1:
            strengthen(values, args)
        if kwargs or len(arrays) < len(args):
            refuse_traced_metadata(row, values, kwargs, tape)
        ans = (evaluate or row.call)(*values, **kwargs)
        if tape.objects is not None:
            check_result(row, ans, tape)
        if written and parents and not row.shape_only:
            values = [
                copied(v) if type(arg) is Var and arg.alias is not None and arg._shares_written() else v
                for v, arg in zip(values, args, strict=True)
            ]
        node: Any = tape.evaluation(Evaluation, row, ans, values, kwargs, active, parents, args) if parents else None
        if type(ans) is not np.ndarray and issubclass(type(ans), tuple | list):
            return parts_of(ans, node, tape)
        if type(ans) is np.float64:
            ans = ans.item()
            node = tape.keep(node) if type(node) is Index else node
        result = make_var(ans, node, tape)
        if row.view is not None and row.views(args) and shows_memory(ans, args[0].primal):
            result.alias = shared_view(args[0], args[0].alias, row.viewed, tuple(args[1:]), kwargs)
        elif written:
            result.primal = separate(result.primal, args)
        tape.own_small_view(result)
        if tape.watched:
            tape.watch(row, args, result)
        return result

    def _restate(self, fn: Any, body: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        row = ROWS.get(fn)
        if type(row) is Composite and row.in_short is not None and self.dtype.kind == "f" and not is_symbolic(self):
            rules = row.in_short(args, kwargs)
            if rules is not None:
                return self._interpret(rules, args, kwargs)
        return with_numpy_value(self, fn, body, args, kwargs)

    def _assign(self, ops: Any, index: Any, v: Any) -> None:
        tape = self.level
        v_value, v_node = v, None
        if type(v) is Var and v.level is tape:
            shared = v._shares_written()
            v_value, v_node = copied(v.primal) if shared else v.primal, v.node
        alias = self.alias
        if alias is None or not alias.exclusive:
            self.primal = own_to_write(self.primal)
            self.alias = alias = Owner(version_of(self) + 1, True)
        value = writable(self.primal, v_value)
        if value is not self.primal:
            self.primal = value
            alias.version += 1
        overwritten(value, v_value, index, ops)
        if self.node is not None or v_node is not None:
            self.node = tape.record(Assign(self.node, v_node, (Abstract(value), Abstract(v_value), tape.freeze(index), ops)))
        alias.version += 1  # also of constants, whose small views hold a copy (`own_small_view`)


def make_var(value: Any, node: Node | None, tape: Tape) -> Var:
    var = new(Var)
    var.primal, var.node, var.level, var.alias = value, node, tape, None
    return var


def parts_of(ans: Any, node: Any, tape: Tape) -> Any:
    """Return the results of a function that returns several, of which `node` is the entry, as variables."""
    if node is not None:
        node.shapes = [Abstract(part) if isinstance(part, NUMERIC) else None for part in ans]
    return with_parts(ans, [make_var(part, None if node is None else tape.record(Part(node, i)), tape) for i, part in enumerate(ans)])
