"""Chains that stand for others, with leaves that a sweep or compiled loops can take: their states are saved and computed again like any.

- A chain of Duals that a tape records (reverse over forward mode) is one of their values and tangents: a loop of Duals would record
  every step.
- A chain of a compiled step that is given texts, flags, functions or arguments that are declared static is one of the numbers alone.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from copy import copy
from typing import Any, NamedTuple

import numpy as np
import optree

from dualad.core.levels import Level
from dualad.jit.arguments import exact, positional_names
from dualad.jit.jit import Jit, jit

from .spec import StepSpec, differs, is_floating, is_number, kept
from .tangents import NotCompiled, TangentSplit, join_tangents, split_tangents, stand_in

__all__ = ["OtherChain", "with_tangents", "without_statics"]

ATOMS = str | bytes | int | float | complex | np.dtype | np.ufunc  # that cannot change


class OtherChain(NamedTuple):
    """A chain that stands for another one: `results` makes what that one returns of what it returns."""

    spec: StepSpec
    until: Callable[..., Any] | None
    results: Callable[[Any], Any]


def step_once(source: Any, key: Hashable, make: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
    """Return a step that is made of another one; of a compiled one it is compiled, and the same one for arguments of the same kind."""
    if not isinstance(source, Jit):
        return make()
    return kept(source, key, lambda: jit(make(), backend=source.backend, threads=source.threads, verify=source.verify))


# --- values and tangents ------------------------------------------------------------------------------------------------------


def with_tangents(spec: StepSpec, level: Level, until: Callable[..., Any] | None) -> OtherChain | None:
    """Return the chain of values and tangents of a chain of Duals of this level; None where a real leaf has a complex tangent."""
    splits = (
        TangentSplit.of(level, spec.state, spec.floating),
        TangentSplit.of(level, spec.inputs, rows=True),
        TangentSplit.of(level, spec.params),
    )
    try:
        parts = [split_tangents(leaves, split) for leaves, split in zip((spec.state, spec.inputs, spec.params), splits, strict=True)]
    except NotCompiled:
        return None
    (xs, dxs), (rows, drows), (params, dparams) = (halves(part, split.length) for part, split in zip(parts, splits, strict=True))
    source, state_split = spec.source, splits[0]
    key = (
        "values and tangents", spec.state_structure, spec.params_structure, spec.inputs_structure, spec.outputs,
        level.directions, level.nan_safe, level.weak, *(tuple(split.positions) for split in splits),
    )  # fmt: skip
    step = step_once(source, key, lambda: step_of_pairs(without_values(spec), splits, level))
    if until is not None:
        of_pairs, asked = until, lambda k, state: of_pairs(k, state[0])
        until = kept(source, ("until of values", id(until)), lambda: asked) if isinstance(source, Jit) else asked

    def results(given: Any) -> Any:
        (x, ts), (out, out_ts) = given if spec.outputs else (given, NOTHING)
        final = spec.tree(join_tangents([*optree.tree_leaves(x), *ts], [state_split]))
        if not spec.outputs:
            return final
        leaves, structure = optree.tree_flatten(out)
        split = TangentSplit.of(level, leaves, floating(leaves), rows=True)
        return final, optree.tree_unflatten(structure, join_tangents([*leaves, *out_ts], [split]))

    state = optree.tree_unflatten(spec.state_structure, xs), dxs
    inputs = (optree.tree_unflatten(spec.inputs_structure, rows), drows) if spec.given else None
    return OtherChain(StepSpec(step, step, state, (*spec.arguments(params), dparams), inputs, spec.outputs), until, results)


NOTHING: Any = None, ()


def step_of_pairs(spec: StepSpec, splits: Sequence[TangentSplit], level: Level) -> Callable[..., Any]:
    splits = [split._replace(level=None) for split in splits]
    options = level.directions, level.nan_safe, level.weak
    flat = spec.flat_step()  # in a variable of its own: what the step reads is watched, and may be indexed by k

    def step(k: Any, state: Any, *rest: Any) -> Any:
        row: Any
        params: Any
        row, params = (rest[0], rest[1:]) if spec.given else (NOTHING, rest)
        with Level(*options) as inner:
            state_split, row_split, param_split = (split._replace(level=inner) for split in splits)
            x = join_tangents([*optree.tree_leaves(state[0]), *state[1]], [state_split])
            row = join_tangents([*optree.tree_leaves(row[0]), *row[1]], [row_split._replace(rows=False)])
            arguments = spec.arguments(join_tangents([*optree.tree_leaves(params[:-1]), *params[-1]], [param_split]))
            x, out = flat(k, x, row, arguments)
            xs, dxs = halves(split_tangents(x, state_split), state_split.length)
            state = optree.tree_unflatten(spec.state_structure, xs), dxs
            if not spec.outputs:
                return state
            leaves, structure = optree.tree_flatten(out)
            outs, douts = halves(split_tangents(leaves, TangentSplit.of(inner, leaves, floating(leaves))), len(leaves))
            return state, (optree.tree_unflatten(structure, outs), douts)

    step.__name__ = getattr(spec.source, "__name__", "step")
    step.source = spec.source  # type: ignore[attr-defined]  # for what watches what a compiled function reads
    return step


def without_values(spec: StepSpec) -> StepSpec:
    """Return a chain's step with its structures, without values: only what messages need of the state."""
    spec = copy(spec)
    spec.state = [stand_in(leaf) for leaf in spec.state]
    spec.params, spec.inputs, spec.traced, spec.levels = [], [], [], set()
    return spec


def floating(leaves: Sequence[Any]) -> list[int]:
    return [i for i, leaf in enumerate(leaves) if is_floating(leaf)]


def halves(parts: list[Any], count: int) -> tuple[list[Any], tuple[Any, ...]]:
    """Return the values of leaves and their tangents."""
    return parts[:count], tuple(parts[count:])


# --- numbers alone ------------------------------------------------------------------------------------------------------------


def without_statics(spec: StepSpec, until: Callable[..., Any] | None) -> OtherChain | None:
    """Return the chain of the numbers alone; None where there is nothing else, or what is declared static can change."""
    source = spec.source
    parts, first = spec.params_structure.children(), 2 + spec.given
    count = first + len(parts)
    names = positional_names(source.f)[:count]
    declared = {i % count for i in source.static_argnums if -count <= i < count}
    declared |= {i for i, name in enumerate(names) if name in source.static_argnames}
    if any(i < first for i in declared):
        return None
    whole = [i for i, part in enumerate(parts) for _ in range(part.num_leaves)]
    states = {i: leaf for i, leaf in enumerate(spec.state) if not is_number(leaf)}
    params = {i: leaf for i, leaf in enumerate(spec.params) if first + whole[i] in declared or not is_number(leaf)}
    statics = [*states.values(), *params.values()]
    if not statics or not all(isinstance(leaf, ATOMS) for leaf in statics) or not all(map(is_number, spec.inputs)):
        return None
    key = (
        "numbers", spec.state_structure, spec.params_structure, spec.inputs_structure if spec.given else None, spec.outputs,
        *((i, exact(leaf)) for group in (states, params) for i, leaf in (*group.items(), (None, None))),
    )  # fmt: skip
    step = step_once(source, key, lambda: step_of_numbers(without_values(spec), states, params))
    full, tree, outputs = filler(states, len(spec.state)), spec.tree, spec.outputs
    if until is not None:
        asked = until
        until = kept(source, ("until", id(until), *key), lambda: lambda k, state: asked(k, tree(full(state))))

    def results(given: Any) -> Any:
        final, outs = given if outputs else (given, None)
        final = tree(full(final))
        return (final, outs) if outputs else final

    state, given = (
        tuple(leaf for i, leaf in enumerate(leaves) if i not in out) for leaves, out in ((spec.state, states), (spec.params, params))
    )
    return OtherChain(StepSpec(step, step, state, given, spec.rows_tree(spec.inputs), outputs), until, results)


def filler(statics: dict[int, Any], count: int) -> Callable[[Any], list[Any]]:
    def full(numbers: Any) -> list[Any]:
        numbers = iter(numbers)
        return [statics[i] if i in statics else next(numbers) for i in range(count)]

    return full


def step_of_numbers(spec: StepSpec, states: dict[int, Any], params: dict[int, Any]) -> Callable[..., Any]:
    source, tree, arguments, given, outputs = spec.source, spec.tree, spec.arguments, spec.given, spec.outputs
    structure = spec.state_structure
    full_state, full_params = filler(states, structure.num_leaves), filler(params, spec.params_structure.num_leaves)

    def step(k: Any, state: Any, *rest: Any) -> Any:
        row, numbers = (rest[:1], rest[1:]) if given else ((), rest)
        made = source(k, tree(full_state(state)), *row, *arguments(full_params(numbers)))
        made, out = made if outputs and isinstance(made, tuple) and len(made) == 2 else (made, None)
        leaves, found = optree.tree_flatten(made)
        if found != structure or any(differs(leaves[i], (None, leaf)) for i, leaf in states.items()):
            raise NotCompiled("the step changes the structure of its state, or what is no number in it")
        numbers = tuple(leaf for i, leaf in enumerate(leaves) if i not in states)
        return (numbers, out) if outputs else numbers

    step.__name__ = source.__name__
    return step
