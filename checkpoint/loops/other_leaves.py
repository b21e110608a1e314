"""Chains rewritten for sweeps and compiled loops: with tangents as leaves of their own (forward over reverse), and without the strings,
flags and static arguments of a compiled step.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from copy import copy
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import optree

from dualad.core.dispatch import dtype_of
from dualad.core.levels import Level
from dualad.core.traced import Traced
from dualad.forward.dual import Dual, make_dual
from dualad.jit.arguments import exact, positional_names
from dualad.jit.jit import Jit, jit

from .spec import StepSpec, differs, is_floating, is_number, kept, parts_in

ATOMS = str | bytes | int | float | complex | np.dtype | np.ufunc  # that cannot change


class NotCompiled(Exception):
    """A chain cannot run in compiled segments; says why."""


# --- Duals ----------------------------------------------------------------------------------------------------------------------


class TangentSplit(NamedTuple):
    """A level of forward mode that was taken off leaves: how many there were, which have tangents, and whether they are rows."""

    level: Any  # None where it is not known yet
    length: int
    positions: list[int]
    rows: bool = False

    @classmethod
    def of(cls, level: Level, leaves: Sequence[Any], positions: list[int] | None = None, rows: bool = False) -> TangentSplit:
        """Return the split of leaves at a level, with tangents at these positions or where there are some."""
        if positions is None:
            of_level = (type(leaf) is Dual and leaf.level is level and leaf._refresh().tangent is not None for leaf in leaves)
            positions = [i for i, has_tangent in enumerate(of_level) if has_tangent]
        return cls(level, len(leaves), positions, rows)


def levels_without_tapes(leaves: Iterable[Traced]) -> list[Any]:
    """Return the levels of forward mode of leaves, the highest first; of another kind they raise."""
    levels = set()
    for leaf in leaves:
        for part in parts_in(leaf):
            if type(part) is not Dual:
                raise NotCompiled("it is traced or recorded by another derivative inside of a tangent")
            levels.add(part.level)
    return sorted(levels, key=lambda level: -level.id)


def split_tangents(leaves: Sequence[Any], split: TangentSplit) -> list[Any]:
    """Return the values of leaves at a level, and then the tangents of some of them."""
    level, _, positions, rows = split
    parts = [leaf._refresh().primal if type(leaf) is Dual and leaf.level is level else leaf for leaf in leaves]
    tangents = []
    for i in positions:
        t = leaves[i].tangent if type(leaves[i]) is Dual and leaves[i].level is level else None
        if t is None:
            lanes = () if level.directions is None else (level.directions,)
            t = np.zeros((*lanes, *np.shape(parts[i])), dtype_of(parts[i]))[()]
        if dtype_of(t) != dtype_of(parts[i]):
            if dtype_of(t).kind == "c":
                raise NotCompiled("a real leaf has a complex tangent")
            t = np.asarray(t, dtype_of(parts[i])) if not isinstance(t, Traced) else t.astype(dtype_of(parts[i]))
        if rows and level.directions is not None:
            t = np.moveaxis(t, 0, 1)
        tangents.append(t)
    return [*parts, *tangents]


def join_tangents(parts: Iterable[Any], splits: Sequence[TangentSplit]) -> list[Any]:
    """Return leaves as Duals again."""
    parts = list(parts)
    for level, count, positions, rows in reversed(splits):
        tangents = parts[count:]
        del parts[count:]
        for i, t in zip(positions, tangents, strict=True):
            if rows and level.directions is not None:
                t = np.moveaxis(t, 1, 0)
            parts[i] = make_dual(number(parts[i]), number(t), level)
    return parts


def number(value: Any) -> Any:
    return value.item() if issubclass(type(value), np.generic) else value


def stand_in(leaf: Any) -> Any:
    """Return a plain value of the kind of a leaf."""
    level: Any = None
    while isinstance(leaf, Traced):
        level, leaf = leaf.level, leaf._refresh().primal
    return np.float64(leaf) if type(leaf) is float and level is not None and not level.weak else leaf


# --- chains of other leaves -----------------------------------------------------------------------------------------------------


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


def without_values(spec: StepSpec) -> StepSpec:
    """Return a chain's step with its structures, without values: only what messages need of the state."""
    spec = copy(spec)
    spec.state = [stand_in(leaf) for leaf in spec.state]
    spec.params, spec.inputs, spec.traced, spec.levels = [], [], [], set()
    return spec


def with_tangents(spec: StepSpec, level: Level, until: Callable[..., Any] | None) -> OtherChain | None:
    """Return the chain of values and tangents of a chain of Duals of this level; None where a real leaf has a complex tangent."""
    groups = spec.state, spec.inputs, spec.params
    splits = [TangentSplit.of(level, leaves, positions) for leaves, positions in zip(groups, (spec.floating, None, None), strict=True)]
    splits[1] = splits[1]._replace(rows=True)
    try:
        state, inputs, params = (tuple(split_tangents(leaves, split)) for leaves, split in zip(groups, splits, strict=True))
    except NotCompiled:
        return None
    source, tree, count, outputs = spec.source, spec.tree, len(spec.state), spec.outputs
    key = (
        "values and tangents", spec.state_structure, spec.params_structure, spec.inputs_structure, outputs,
        level.directions, level.nan_safe, level.weak, *(tuple(split.positions) for split in splits),
    )  # fmt: skip
    step = step_once(source, key, lambda: step_of_pairs(without_values(spec), splits, level))
    if until is not None:
        asked = until
        of_values = lambda k, state: asked(k, tree(state[:count]))
        until = kept(source, ("until of values", id(until), key), lambda: of_values) if isinstance(source, Jit) else of_values

    def results(given: Any) -> Any:
        leaves, (out, tangents) = given if outputs else (given, ((), ()))
        final = tree(join_tangents(leaves, splits[:1]))
        if not outputs:
            return final
        leaves, structure = optree.tree_flatten(out)  # type: ignore[arg-type]
        return final, optree.tree_unflatten(structure, join_tangents([*leaves, *tangents], [split_of_all(level, leaves, rows=True)]))

    return OtherChain(StepSpec(step, step, state, params, inputs if spec.has_inputs else None, outputs), until, results)


def split_of_all(level: Level, leaves: Sequence[Any], rows: bool = False) -> TangentSplit:
    """Return the split of leaves with tangents of all that are floating."""
    return TangentSplit.of(level, leaves, [i for i, leaf in enumerate(leaves) if is_floating(leaf)], rows)


def step_of_pairs(spec: StepSpec, splits: Sequence[TangentSplit], level: Level) -> Callable[..., Any]:
    splits = [split._replace(level=None, rows=False) for split in splits]
    options = level.directions, level.nan_safe, level.weak
    flat = spec.flat_step()  # in a variable of its own: what the step reads is watched, and may be indexed by k

    def step(k: Any, state: Any, *rest: Any) -> Any:
        row, params = (rest[0], rest[1:]) if spec.has_inputs else ((), rest)
        with Level(*options) as inner:
            own = [split._replace(level=inner) for split in splits]
            x, row, leaves = (join_tangents(parts, [split]) for parts, split in zip((state, row, params), own, strict=True))
            x, out = flat(k, x, row, spec.arguments(leaves))
            made = tuple(split_tangents(x, own[0]))
            if not spec.outputs:
                return made
            leaves, structure = optree.tree_flatten(out)
            outs = split_tangents(leaves, split_of_all(inner, leaves))
            return made, (optree.tree_unflatten(structure, outs[: len(leaves)]), tuple(outs[len(leaves) :]))

    step.__name__ = getattr(spec.source, "__name__", "step")
    step.source = spec.source  # type: ignore[attr-defined]  # for what watches what a compiled function reads
    return step


def without_statics(spec: StepSpec, until: Callable[..., Any] | None) -> OtherChain | None:
    """Return the chain of the numbers alone; None where there is nothing else, or what is declared static can change."""
    source = spec.source
    parts, first = spec.params_structure.children(), 2 + spec.has_inputs
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
        "numbers", spec.state_structure, spec.params_structure, spec.inputs_structure if spec.has_inputs else None, spec.outputs,
        *((i, exact(leaf)) for group in (states, params) for i, leaf in (*group.items(), (None, None))),
    )  # fmt: skip
    step = step_once(source, key, lambda: step_of_numbers(without_values(spec), states, params))
    full, tree, outputs = partial(filled, states, len(spec.state)), spec.tree, spec.outputs
    if until is not None:
        asked = until
        until = kept(source, ("until", id(until), *key), lambda: lambda k, state: asked(k, tree(full(state))))

    def results(given: Any) -> Any:
        return (tree(full(given[0])), given[1]) if outputs else tree(full(given))

    state, given = (
        tuple(leaf for i, leaf in enumerate(leaves) if i not in out) for leaves, out in ((spec.state, states), (spec.params, params))
    )
    return OtherChain(StepSpec(step, step, state, given, tuple(spec.inputs) if spec.has_inputs else None, outputs), until, results)


def filled(statics: dict[int, Any], count: int, numbers: Iterable[Any]) -> list[Any]:
    numbers = iter(numbers)
    return [statics[i] if i in statics else next(numbers) for i in range(count)]


def step_of_numbers(spec: StepSpec, states: dict[int, Any], params: dict[int, Any]) -> Callable[..., Any]:
    flat, has_inputs, outputs, arguments = spec.flat_step(), spec.has_inputs, spec.outputs, spec.arguments
    full_state, full_params = partial(filled, states, len(spec.state)), partial(filled, params, spec.params_structure.num_leaves)

    def step(k: Any, state: Any, *rest: Any) -> Any:
        row, numbers = (rest[0], rest[1:]) if has_inputs else ([], rest)
        leaves, out = flat(k, full_state(state), row, arguments(full_params(numbers)))
        if any(differs(leaves[i], (None, leaf)) for i, leaf in states.items()):  # flags are, of steps that are not compiled
            raise NotCompiled("the step changes a leaf of its state that is no number")
        made = tuple(leaf for i, leaf in enumerate(leaves) if i not in states)
        return (made, out) if outputs else made

    step.__name__ = spec.source.__name__
    return step
