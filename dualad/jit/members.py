"""Members of an ensemble: a compiled function of many arguments of one kind, in one compiled loop."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import optree

from ..core.levels import Handle
from ..core.traced import example_of
from ..graph.nested import Scan
from ..graph.program import Value
from ..graph.trace import Trace
from ..support.callers import trimmed
from ..support.costs import KEPT_VARIANTS
from .arguments import Call, native, positional_names
from .compiled import Compiled
from .verify import EVALUATING


class Mapped:
    """What compiled functions do for many members."""

    @trimmed
    def map(self, *args: Any, over: int | str | Iterable[int | str] = 0, **kwargs: Any) -> Any:
        """Call the function for each member of an ensemble, in one compiled loop, and stack the results.

        Parameters
        ----------
        args, kwargs : the arguments of the function. Those that differ from member to member are arrays, or pytrees of arrays, with one
            more axis in front, which counts the members. The others are the same for all.
        over : positions or names of the arguments that differ; the first one by default. Booleans, texts and functions in them are
            the same for all members.

        Returns
        -------
        What the function returns, with an axis of members in front of each array and number.

        Raises
        ------
        TypeError, ValueError
            Where an argument has no axis of members, or they have different numbers of members. The message names them.
        Exception
            What a member raises, with a note that names it.

        Examples
        --------
        >>> import numpy as np
        >>> from checkpoint import grad
        >>> from dualad import jit
        >>> energy = jit(lambda x, p: p * np.sum(x**2))
        >>> energy.map(np.array([[1.0, 2.0], [3.0, 4.0]]), 0.5)
        array([ 2.5, 12.5])
        >>> energy.map(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([0.5, 2.0]), over=(0, 1))
        array([ 2.5, 50. ])
        >>> jit(grad(energy)).map(np.array([[1.0, 2.0], [3.0, 4.0]]), 0.5)
        array([[1., 2.],
               [3., 4.]])

        Notes
        -----
        With ``jit(f, threads=2)`` two threads share the members. The bits of a result do not depend on the number of threads, nor on the
        other members. Functions of numbers and of short arrays are computed for some members at a time in vectors, which is
        several times as fast as calls one after the other. With "numpy", and where a program calls functions that have no
        compiled form, members are computed one by one. Of traced values the whole call is one loop, with derivatives.
        """
        members = stacked(self, args, kwargs, over)
        made = members.together()
        leaves, structure = members.one_by_one() if made is None else (made[0], made[1].structure)
        return optree.tree_unflatten(structure, leaves)


class Members:
    """The arguments of all members of an ensemble, `given` by position and name; those with keys in `over` have a leading axis of `count`.

    ``one(k)`` gives the ``(args, kwargs)`` of a member, for calls one by one.
    """

    def __init__(self, jitted, given: dict, over: set, count: int, one: Callable | None = None):
        self.jitted, self.given, self.over, self.count = jitted, given, over, count
        self.one = one or (lambda k: self.rows(k, lambda leaf: leaf))

    def rows(self, k, seen):
        """Return the arguments of a member, with what is `seen` of stacked leaves; of an ensemble without members those of some."""

        def row(leaf):
            if not has_rows(leaf):
                return leaf
            return seen(leaf)[k] if self.count else np.ones(leaf.shape[1:], leaf.dtype)[()]

        given = {key: optree.tree_map(row, x) if key in self.over else x for key, x in self.given.items()}
        return tuple(x for key, x in given.items() if type(key) is int), {key: x for key, x in given.items() if type(key) is str}

    def example(self):
        """Return the call of one member, another one each time that results are compared."""
        k = self.jitted.verifications % max(self.count, 1)
        given: Any = self.one(k) if self.plain else self.rows(k, example_of)
        call = Call(self.jitted, *given)
        return Call(self.jitted, *optree.tree_map(example_of, given)) if call.abstract else call

    @property
    def plain(self):
        given: Any = self.given
        return not any(isinstance(leaf, Handle) for leaf in optree.tree_leaves(given))

    def together(self) -> tuple[list, Any] | None:
        """Return the leaves of the results, stacked, and the entry whose program gave them; None where calls one by one are to."""
        jitted = self.jitted
        if self.count and self.plain and (jitted.verify is True or EVALUATING):
            return None
        try:
            call = self.example()
            entry = None if call.abstract else jitted.entry(call)
        except Exception:  # calls one by one say which member it was, and why
            if not self.count:
                raise
            entry = None
        if entry is None or (self.count and (entry.several or (entry.left and not self.plain))):
            return None
        trees: Any = {key: self.given[key] for key in call.moving}
        flags: Any = {key: optree.tree_map(lambda leaf, key=key: key in self.over and has_rows(leaf), x) for key, x in trees.items()}
        slots = zip(optree.tree_leaves(trees), optree.tree_leaves(flags), call.slots, strict=True)
        values, moving = zip(*[(native(leaf), moves) for leaf, moves, slot in slots if slot is Value], strict=True)
        outs = self.computed(entry.compiled, call.examples(), values, moving)
        if outs is None:
            return None
        if entry.left and np.any(left := outs[-1]):
            return None if np.any(left == 2) else self.on_new_paths(entry, np.flatnonzero(left))
        outs = outs[: entry.structure.num_leaves]
        if self.count and self.plain and entry.checks.due():
            k = jitted.verifications % self.count
            one = [results_of(x, out, k, k + 1)[0] for x, out in zip(outs, entry.compiled.program.outputs, strict=False)]
            right, _ = jitted.compared(entry, call, call.examples(), one)
            if right is not entry:
                return self.together()
        return outs, entry

    def on_new_paths(self, entry, members):
        """Return what `together` does where these are on paths that are not known: they are learnt, until several met no other."""
        new, learnt = entry, 0
        for i, k in enumerate(members.tolist()):
            before = new
            new, found, _ = self.jitted.on_new_path(before, Call(self.jitted, *self.one(k)))
            if found is None:
                return None
            learnt = learnt if new is before else i
            if i - learnt == KEPT_VARIANTS:
                break
        return None if new is entry else self.together()

    def computed(self, compiled, examples, values, moving):
        """Return the outputs of a program for all members, stacked; None where they are computed one by one."""
        outputs = compiled.program.outputs
        if not self.count:
            made = [np.empty((0, *out.shape), out.dtype) for out in outputs if type(out) is Value]
        elif not self.plain:
            first = lambda flag: [x for x, moves in zip(values, moving, strict=True) if moves is flag]
            made = loop_of(compiled, examples, moving, self.count)(*first(True), *first(False))
        else:
            kernels = compiled.members(examples, moving)
            if kernels is None:
                return None
            try:
                made = kernels(values, self.count)
            except (IndexError, OverflowError):  # calls one by one say which member it was
                return None
            except Exception as error:
                what = f"the compiled loop over members of {self.jitted.__name__} ended with {error!r}"
                warnings.warn(f"jit: {what}, they are computed one by one, which is slower: please report this", stacklevel=5)
                return None
        arrays = iter(made)
        return [next(arrays) if type(out) is Value else self.repeated(out) for out in outputs]

    def repeated(self, x):
        """Return a result that is the same for all members: numbers and arrays are stacked."""
        return np.stack([np.asarray(x)] * self.count) if is_numeric(x) and self.count else x

    def one_by_one(self):
        """Return the leaves of the results of calls for each member, stacked, and their structure; an error names the member."""
        columns, structure = [], None
        for k in range(self.count):
            args, kwargs = self.one(k)
            try:
                leaves, structure = optree.tree_flatten(self.jitted(*args, **kwargs))
            except Exception as error:
                error.add_note(f"jit: {self.jitted.__name__}.map: in member {k} of {self.count}")
                raise
            columns.append(leaves)
        return [np.stack(column) if is_numeric(column[0]) else column[0] for column in zip(*columns, strict=True)], structure


def loop_of(compiled, examples, moving, count):
    """Return the program of all members as one operation, a loop without carried values, which is traced and differentiated as any."""
    key = "loop of members", moving, count
    if key not in compiled.derived:
        program = compiled.program
        order = sorted(range(len(moving)), key=lambda i: not moving[i])
        k = Value(program.count, (), np.dtype(int), "python")
        inputs, outputs = [k, *(program.inputs[i] for i in order)], [out for out in program.outputs if type(out) is Value]
        body = program.replace(inputs=inputs, outputs=outputs, count=program.count + 1, adjoint=False)
        with Trace() as trace:
            given = [trace.input(np.stack([examples[i]] * count) if moving[i] else examples[i]) for i in order]
            whole = trace.finish(list(Scan(body, count, 0, sum(moving))(*given)))
        compiled.derived[key] = Compiled(whole, compiled.backend, f"members of {compiled.__name__}", compiled.threads)
    return compiled.derived[key]


def stacked(jitted, args: tuple, kwargs: dict, over: int | str | Iterable[int | str]) -> Members:
    """Return the members of a call of `map`."""
    where = f"jit: {jitted.__name__}.map"
    given = {**dict(enumerate(args)), **kwargs}
    names = [over] if isinstance(over, str) or not isinstance(over, Iterable) else list(over)
    keys = {key_of(name, jitted.f, args, kwargs, where) for name in names}
    counts: dict[str, int] = {}
    for key in sorted(keys, key=list(given).index):
        for path, leaf in zip(optree.tree_paths(given[key]), optree.tree_leaves(given[key]), strict=True):
            named = f"argument {key!r}" + "".join(f"[{part!r}]" for part in path)
            if has_rows(leaf):
                counts[named] = leaf.shape[0]
            elif is_numeric(leaf):
                raise TypeError(
                    f"{where}: {named} is a {type(leaf).__name__} without an axis of members: stack those of all members along a first "
                    f"axis (np.array, np.stack), or leave the argument out of over={over!r} if it is the same for all"
                )
    if not counts:
        raise TypeError(f"{where}: there is no array among the arguments over={over!r}, so it is not known how many members there are")
    (first, count), *others = counts.items()
    for named, other in others:
        if other != count:
            raise ValueError(f"{where}: {first} has {count} members along its first axis, {named} has {other}: give as many of each")
    return Members(jitted, given, keys, count)


def key_of(name, f, args, kwargs, where):
    """Return the position or the name under which an argument is given."""
    names = positional_names(f)
    if isinstance(name, str) and name not in kwargs and name in names[: len(args)]:
        return names.index(name)
    if issubclass(type(name), int | np.integer) and len(args) <= name < len(names) and names[name] in kwargs:
        return names[name]
    if isinstance(name, str) and name in kwargs:
        return name
    if issubclass(type(name), int | np.integer) and -len(args) <= name < len(args):
        return int(name) % len(args)
    raise TypeError(f"{where}: over names the argument {name!r}, which is not given: there are {[*range(len(args)), *kwargs]}")


def has_rows(leaf):
    """Return whether a leaf has an axis of members."""
    return issubclass(type(leaf), np.ndarray | Handle) and leaf.ndim > 0


def is_numeric(leaf):
    """Return whether a leaf holds numbers, plain or traced."""
    return issubclass(type(leaf), np.ndarray | np.generic | Handle | int | float | complex) and type(leaf) is not bool


def results_of(x, out, first, stop):
    """Return the results of some members, each as its own call gives it."""
    if type(out) is not Value:
        return [out] * (stop - first)
    rows = x[first:stop]
    return rows.tolist() if out.kind == "python" else list(rows) if out.kind == "scalar" else [rows[k, ...] for k in range(len(rows))]
