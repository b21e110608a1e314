"""Leaves of states, parameters and results: what a step must keep, and what comes from which level."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np
import optree

from dualad.core.conversions import STANDING
from dualad.core.dispatch import dtype_of, primal
from dualad.core.levels import Owner
from dualad.core.traced import Traced
from dualad.forward.dual import Dual, make_dual
from dualad.forward.seeding import FLOAT
from dualad.rules.memory import writable

from ..reverse.tape import Tape, Var
from ..storage.codec import NAMESPACE
from ..support.checks import truth

__all__ = [
    "NUMBER",
    "Kind",
    "added",
    "check_levels",
    "described",
    "differs",
    "flattening",
    "is_floating",
    "is_number",
    "kind_of",
    "levels_of",
    "lifted",
    "on_primals",
    "one_level_down",
    "parts_in",
    "read_only",
    "refuse_opaque",
    "was_written",
]


Kind: TypeAlias = tuple[Any, Any]  # the shape and dtype that a leaf must keep


def rebuild(level: Any, parts: Any) -> Any:
    value, tangent = parts
    return make_dual(value, tangent, level)


def parts_of_dual(dual: Any) -> Any:
    return (dual._refresh().primal, dual.tangent), dual.level


# a Dual in a state is written to disk, and fingerprinted, as what it is made of
optree.register_pytree_node(Dual, parts_of_dual, rebuild, namespace=NAMESPACE)


def flattening(example: Any, structure: optree.PyTreeSpec) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Return the functions that take trees like `example` apart (None for another structure) and put them together.
    Single leaves and plain tuples of leaves, the states of small systems, do without optree's general ones."""

    def flatten(tree: Any) -> list[Any] | None:
        leaves, found = optree.tree_flatten(tree)
        return leaves if found == structure else None

    if structure.is_leaf():
        return (lambda tree: [tree] if type(tree) in LEAF_TYPES else flatten(tree)), lambda leaves: leaves[0]
    if type(example) is tuple and structure.num_leaves == len(example) == structure.num_nodes - 1:
        count = len(example)

        def flatten_tuple(tree: Any) -> list[Any] | None:
            if type(tree) is tuple and len(tree) == count and all(map(LEAF_TYPES.__contains__, map(type, tree))):
                return list(tree)
            return flatten(tree)

        return flatten_tuple, tuple
    return flatten, lambda leaves: optree.tree_unflatten(structure, leaves)


LEAF_TYPES = (float, np.ndarray, np.float64, Dual, Var)


def check_levels(leaves: Iterable[Any], levels: set[Any], where: str, example: str = "") -> None:
    """Raise where a result is of a level that did not come in through the arguments."""
    if not levels_of(leaves) <= levels:
        raise TypeError(
            f"{where} uses a traced value that is not among its arguments (it closes over it), so its gradient would be "
            f"lost: pass it as a parameter{example}"
        )


def levels_of(values: Iterable[Any]) -> set[Any]:
    """Return the levels of traced values, and of what they are made of."""
    levels = set()
    for value in values:
        for part in parts_in(value) if isinstance(value, Traced) else ():
            levels.add(part.level)
    return levels


def parts_in(value: Any) -> list[Traced]:
    """Return the traced values that a value consists of."""
    parts, waiting = [], [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Traced):
            parts.append(part)
            waiting += [part.primal if part.alias is None else part._refresh().primal, part.payload]
    return parts


def is_floating(leaf: Any) -> bool:
    return issubclass(type(leaf), float | complex) or getattr(leaf, "dtype", INTEGER).kind in "fc"


INTEGER, NUMBER = np.dtype(int), ((), FLOAT)
NUMBERS = float | int | complex | np.ndarray | np.generic | Traced


def is_number(leaf: Any) -> bool:
    """Return whether a leaf is a number or an array, which compiled code takes, and no flag."""
    return issubclass(type(leaf), NUMBERS) and type(leaf) is not bool


def kind_of(leaf: Any) -> Kind:
    """Return the shape and dtype that a leaf must keep; for what is no number, None and the object that it must stay."""
    if type(leaf) is float:
        return NUMBER
    if issubclass(type(leaf), int | complex | np.ndarray | np.generic | Traced):
        shape, dtype = getattr(leaf, "shape", ()), dtype_of(leaf)
        return NUMBER if shape == () and dtype is FLOAT else (shape, dtype)
    return None, leaf


def differs(leaf: Any, kind: Kind) -> bool:
    """Return whether a leaf has another shape or dtype than it must keep, or, of what is no number, is another object; of what only
    stands for an array True, too."""
    value = leaf
    if type(leaf) is Var:
        value = leaf.primal if leaf.alias is None else leaf._refresh().primal
    if type(value) is float:
        return kind is not NUMBER
    if type(value) is np.ndarray:
        return kind != (value.shape, value.dtype)
    if kind[0] is None:
        return not (leaf is kind[1] or (isinstance(leaf, str | bytes) and type(leaf) is type(kind[1]) and leaf == kind[1]))
    return type(leaf) in STANDING or kind_of(leaf) != kind


def described(leaf: Any) -> str:
    """Return what a leaf is, for errors."""
    shape, dtype = kind_of(leaf)
    if shape is None:
        return f"{leaf!r}" if isinstance(leaf, str | bytes) else f"an object of type {type(leaf).__name__}"
    return f"{dtype} of shape {shape}"


def is_iterator(leaf: Any) -> bool:
    """Return whether calls change an object, so that no sweep can be repeated; NumPy's generators are not imported to ask."""
    numpy, python = sys.modules.get("numpy.random"), sys.modules.get("random")
    return (
        isinstance(leaf, Iterator)
        or (numpy is not None and isinstance(leaf, numpy.Generator | numpy.RandomState))
        or (python is not None and isinstance(leaf, python.Random))
    )


def refuse_opaque(leaf: Any, path: Callable[[], str], where: str) -> None:
    """Raise for a leaf of a chain's or function's arguments whose derivative would vanish; `path` returns its name.
    What is no number (texts, settings) is handed on and has no derivative, so it may not hold anything that needs one."""
    dtype: Any = getattr(leaf, "dtype", None)
    if issubclass(type(leaf), str | bytes | int | float | complex | Traced | type(None)):
        return
    if issubclass(type(leaf), np.ndarray | np.generic):
        if dtype.hasobject or (dtype.names is not None and where == "state"):
            raise TypeError(f"{path()} has dtype {dtype}, which has no derivative: give arrays of numbers, one for each field (a dict)")
        return
    if where == "state" and is_iterator(leaf):
        raise TypeError(
            f"{path()} is a {type(leaf).__name__}, which changes when it is used, so that steps could not be evaluated again: make the "
            f"numbers before and pass them with inputs=, or make a generator in the step, from k (np.random.default_rng([seed, k]))"
        )
    inside = sorted(
        name for name, part in parts_of(leaf) if isinstance(part, Traced) or (where == "state" and issubclass(type(part), np.ndarray))
    )
    if inside:
        raise TypeError(
            f"{path()} is of type {type(leaf).__name__}, which is not known as a container, so that the derivatives of what it holds "
            f"({', '.join(inside)}) would be lost: use a tuple, list, dict or named tuple, or register it (a dataclass with "
            f"dualad.register_dataclass)"
        )


def parts_of(leaf: Any) -> Iterator[tuple[str, Any]]:
    """Yield the names and leaves of what an object holds in its attributes, as far as they can be read."""
    try:
        slots = [name for kind in type(leaf).__mro__ for name in np.atleast_1d(getattr(kind, "__slots__", ())).tolist()]
        held = {**getattr(leaf, "__dict__", {}), **{name: getattr(leaf, name) for name in slots if hasattr(leaf, name)}}
    except Exception:  # an object that answers every question with an error
        return
    for name, value in held.items():
        for part in optree.tree_leaves(value) if not callable(value) else ():
            yield name, part


def on_primals(until: Callable[..., Any] | None) -> Callable[..., Any] | None:
    """Return the predicate as a function of plain values; where the chain stands in code that jit traces, one that needs them raises."""

    if until is None:
        return None

    def asked(k: int, state: Any) -> bool:
        state = optree.tree_map(primal, state)
        try:
            return truth(until(k, state), where="chain", k=k)
        except TypeError:
            traced = [leaf.level for leaf in optree.tree_leaves(state) if isinstance(leaf, Traced)]
            if not traced or traced[0].refusal is None:
                raise
            raise traced[0].refuse(
                "chain: until(k, state) asks for values of a state that jit traces, so the number of steps would depend on the data. "
                "Call the chain outside of jit, chain(jit(step), state, until=until), which is compiled by itself; or make steps=N, and "
                "keep the state when it has ended: np.where(ended, state, new)"
            ) from None

    return asked


def one_level_down(leaves: Iterable[Any], tape: Tape) -> tuple[list[Any], list[Any]]:
    """Return the values of the leaves as the step sees them, and their nodes on the tape (None for constants)."""
    values, nodes = [], []
    for leaf in leaves:
        value, node = leaf, None
        if type(leaf) is Var and leaf.level is tape:
            value = leaf._refresh().primal
            if type(value) is float and not tape.weak:
                value = np.float64(value)
            node = leaf.node
        values.append(value)
        nodes.append(node)
    return values, nodes


def lifted(leaves: list[Any], top: Any) -> list[Any]:
    """Return leaves with arrays as Duals of the level of `top`, if that is one: a step may write values of that level into them."""
    if type(top) is not Dual:
        return leaves
    return [writable(leaf, top) if type(leaf) is np.ndarray and is_floating(leaf) else leaf for leaf in leaves]


def read_only(leaf: Any) -> Any:
    """Return a copy of a parameter that its owner cannot change, nor a step: both sweeps must see the same one."""
    if issubclass(type(leaf), np.ndarray) and not isinstance(leaf, np.memmap):
        leaf = leaf.copy()
        leaf.flags.writeable = False
    elif isinstance(leaf, Traced) and np.ndim(leaf):
        leaf = np.copy(leaf)
    return leaf


def was_written(leaf: Any) -> bool:
    """Return whether a traced array, which cannot be read-only, was written into."""
    return isinstance(leaf, Traced) and type(leaf.alias) is Owner


def added(total: Any, share: Any) -> Any:
    """Return a sum over the steps; the total is this sweep's own and takes the share in place."""
    if total is None:
        return share.copy() if type(share) is np.ndarray else share
    if type(total) is np.ndarray is type(share):
        total += share
        return total
    return total + share
