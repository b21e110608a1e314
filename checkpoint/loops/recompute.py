"""checkpoint: a function that the reverse sweep evaluates again, instead of recording it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any

import numpy as np
import optree

from dualad.core.dispatch import highest
from dualad.core.traced import Traced
from dualad.forward.seeding import check_function, pack_leaf, scalar_kinds
from dualad.graph.handled import own
from dualad.support.hints import Rest, Result
from dualad.support.repeated import repeated

from ..reverse.entries import Adjoints, Entry, Part, place_of
from ..reverse.tape import Tape, Var, make_var
from .results import Snapshot, memory_of, sharing, was_written
from .spec import check_levels, is_floating, levels_of, one_level_down, path_of, refuse_opaque

# --- public -----------------------------------------------------------------------------------------------------------------


def checkpoint(f: Callable[Rest, Result]) -> Callable[Rest, Result]:
    """Return `f` as a function that is not recorded: the reverse sweep evaluates it again, on a tape of its own.

    For code that is not a chain, but has parts that are large to record and cheap to evaluate. On plain values and in forward mode it is
    f itself. It nests. Both evaluations run on traced values, so that a value that leaves f other than by its result raises instead of
    getting a zero derivative; for small arrays that costs more than recording them.

    Parameters
    ----------
    f : function of pytrees of numbers and arrays that returns one; deterministic, and without traced values in its closure.

    Returns
    -------
    function with f's arguments and results.

    Raises
    ------
    TypeError
        Where f closes over a traced value, whose gradient would be lost, or an argument or the result is an object that hides one.
    RuntimeError
        Where f, evaluated again, gives another result (see `chain`); where a value is used that f stored in a list or an attribute.

    Examples
    --------
    >>> import numpy as np
    >>> from checkpoint import checkpoint, grad
    >>> block = checkpoint(lambda x: np.sin(np.cos(np.sin(x))))      # records one operation instead of three
    >>> gradient = grad(lambda x: np.sum(block(block(x))))(np.ones(3))
    >>> np.allclose(gradient, grad(lambda x: np.sum(np.sin(np.cos(np.sin(np.sin(np.cos(np.sin(x))))))))(np.ones(3)))
    True
    """
    check_function(f, "checkpoint")

    @wraps(f)
    def recomputed(*args: Rest.args, **kwargs: Rest.kwargs) -> Result:
        given_tree: Any = args, kwargs
        leaves, structure = optree.tree_flatten(given_tree)
        leaves = list(map(pack_leaf, leaves))
        for i, leaf in enumerate(leaves):
            refuse_opaque(leaf, partial(path_of, given_tree, "checkpoint: argument", i), "arguments")
        top = highest([leaf for leaf in leaves if isinstance(leaf, Traced)])
        if type(top) is not Var:
            return f(*args, **kwargs)
        tape = top.level
        tape.check()
        entry = Recomputed(f, leaves, structure, tape)
        if not entry.active:
            return f(*args, **kwargs)
        # what f may write into; those that are active become variables
        given = [own(value) if node is None else value for value, node in zip(entry.values, entry.nodes, strict=True)]
        with Probe(tape.nan_safe, entry.weak, (given, entry.active)) as probe:
            for i in entry.active:
                given[i].node = None
            out = entry.evaluate(given)
            outs, out_structure = optree.tree_flatten(out)
            outs = list(map(pack_leaf, outs))
            for i, leaf in enumerate(outs):
                refuse_opaque(leaf, partial(path_of, out, "checkpoint: the result", i), "results")
            check_levels(outs, entry.below | {probe}, "checkpoint: the function")
            entry.written = [i for i, leaf in enumerate(given) if not same(leaf, entry.values[i])]
            refuse_shared(leaves, outs, given, entry.written)
            results = one_level_down([*outs, *[np.copy(given[i]) for i in entry.written]], probe)[0]
        entry.before = Snapshot(0, results)
        whole = tape.record(entry)
        results = [make_var(leaf, tape.record(Part(whole, i)), tape) if is_floating(leaf) else leaf for i, leaf in enumerate(results)]
        for i, result in zip(entry.written, results[len(outs) :], strict=True):
            leaves[i][...] = result if isinstance(leaves[i], Traced) else given[i]
        arguments = {id(leaf): i for i, leaf in enumerate(given) if memory_of(leaf) is not None}
        first = {id(out): k for k, out in reversed(list(enumerate(outs)))}
        for k, out in enumerate(outs):  # what is one array in the function is one here
            results[k] = leaves[arguments[id(out)]] if id(out) in arguments else results[first[id(out)]]
        return optree.tree_unflatten(out_structure, results[: len(outs)])  # type: ignore[return-value]

    return recomputed


# --- parts ------------------------------------------------------------------------------------------------------------------


class Probe(Tape):
    """The tape of the evaluation that is not recorded: what leaves the function elsewhere than in its result raises when it is used."""

    __slots__ = ()
    outlived = (
        "checkpoint: a value that the function computed is used outside of it, where it has no derivative: it was kept in a list, an "
        "array, an attribute or a global. Return it from the function"
    )


class Recomputed(Entry):
    """The entry of a function that is evaluated again; `written` are the leaves of its arguments that it writes into."""

    written: list[int]
    before: Snapshot  # what f returned, with what it wrote

    def __init__(self, f: Callable[..., Any], leaves: list[Any], structure: optree.PyTreeSpec, tape: Tape) -> None:
        values, self.nodes = one_level_down(leaves, tape)
        self.f, self.structure, self.nan_safe = f, structure, tape.nan_safe
        self.values = [held(value) for value in values]
        self.below = levels_of(self.values)
        self.weak = scalar_kinds(self.values)[1]
        self.active = [i for i, node in enumerate(self.nodes) if node is not None]

    def results(self, leaves: Sequence[Any]) -> list[Any]:
        """Evaluate f again, for variables; return its results with the arguments that it wrote into. Other results raise."""
        given = list(leaves)
        for i, value in enumerate(given):
            if not isinstance(value, Var):
                given[i] = own(value)
        outs = [pack_leaf(leaf) for leaf in optree.tree_leaves(self.evaluate(given))]
        outs += [given[i] for i in self.written]
        if len(outs) != len(self.before.known) or self.before.differing(0, outs) is not None:
            raise RuntimeError(
                "checkpoint: the function is not reproducible: evaluated again with the same arguments, it returned another result, so the "
                "gradient would be wrong. Likely causes: random numbers, counters or clocks; a global, an attribute or an array that it "
                "closes over has changed since (pass it as an argument)"
            )
        return outs

    def evaluate(self, leaves: list[Any]) -> Any:
        args, kwargs = optree.tree_unflatten(self.structure, leaves)  # type: ignore[misc]
        with repeated:
            return self.f(*args, **kwargs)

    def recorded(self) -> tuple[Tape, Sequence[int], list[Any]]:
        """Evaluate f again on a tape; return that with the nodes of the active arguments and of the results."""
        leaves = list(self.values)
        with Tape(self.nan_safe, self.weak, (leaves, self.active)) as tape:
            outs = self.results(leaves)
            return (
                tape,
                range(len(self.active)),
                [leaf._refresh().node if type(leaf) is Var and leaf.level is tape else None for leaf in outs],
            )

    def pull(self, k: int, g: Any, adjoints: Adjoints) -> None:
        """Evaluate f again on a tape, and pull `g` back over it."""
        tape, inputs, nodes = self.recorded()
        seeds = [(node, part) for node, part in zip(nodes, g, strict=False) if node is not None and part is not None]
        for i, share in zip(self.active, tape.pull(seeds, inputs), strict=True):
            if share is not None:
                adjoints.add(self.nodes[i], share, False)

    @property
    def parents(self) -> list[Any]:
        return [self.nodes[i] for i in self.active]

    def push(self, pushed: list[Any]) -> list[Any]:
        """Return the tangents of the results, by evaluating f again in forward mode."""
        tape, inputs, nodes = self.recorded()
        tangents = []
        for i, node in zip(self.active, inputs, strict=True):
            t = pushed[place_of(self.nodes[i])]
            tangents.append((node, np.zeros_like(self.values[i])[()] if t is None else t))
        found = iter(tape.push(tangents, [node for node in nodes if node is not None]))
        return [None if node is None else next(found) for node in nodes]


def refuse_shared(leaves: list[Any], outs: list[Any], given: list[Any], written: list[int]) -> None:
    """Raise where arrays share memory in the function whose copies outside would not, and one of them may be written."""
    for group in sharing(leaves):
        if any(i in written for i in group):
            raise ValueError(
                "checkpoint: the function writes into an argument that shares memory with another argument: pass a copy (x.copy()) of one"
            )
    owners = {id(memory_of(leaf)) for leaf in given} - {id(None)}
    made = [out for k, out in enumerate(outs) if all(out is not other for other in (*given, *outs[:k]))]
    if any(id(memory_of(out)) in owners for out in made) or sharing(made):
        raise ValueError(
            "checkpoint: the function returns a view of its argument, or two views of one array, which would not share memory with it "
            "outside: return a copy (x[1:].copy())"
        )


def held(leaf: Any) -> Any:
    """Return an array as one that its owner cannot change, nor f."""
    if isinstance(leaf, np.memmap):
        return leaf
    leaf = own(leaf)
    if type(leaf) is np.ndarray:
        leaf.flags.writeable = False
    return leaf


def same(given: Any, value: Any) -> bool:
    """Return whether f left its argument as it was."""
    return not was_written(given) and (
        not issubclass(type(given), np.ndarray) or np.array_equal(given, value, equal_nan=given.dtype.kind in "fc")
    )
