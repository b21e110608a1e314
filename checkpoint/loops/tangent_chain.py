"""Reverse mode over forward mode: a chain of Duals that are recorded is a chain of values and tangents.

So its states are saved and computed again like any chain's, where a loop of Duals would record every step.
"""

from __future__ import annotations

from copy import copy

import optree

from dualad.core.levels import Level
from dualad.jit.jit import Jit, jit

from ..reverse.tape import Tape
from .leaves import is_floating
from .stepper import NotCompiled, TangentSplit, has_tangent, join_tangents, kept, split_tangents, stand_in

__all__ = ["Paired", "tangent_chain"]


def tangent_chain(links, level, until):
    """Return the chain of values and tangents of a chain of Duals of this level; None where no tape records it."""
    if not any(isinstance(other, Tape) for other in links.levels):
        return None
    try:
        return Paired(links, level, until)
    except NotCompiled:  # a real leaf with a complex tangent
        return None


class Paired:
    """The arguments of the chain of values and tangents of one level; `results` makes Duals of what it returns."""

    def __init__(self, links, level, until):
        self.links = links
        groups = (links.state, links.floating, False), (links.inputs, None, True), (links.params, None, False)
        self.peels = [peel(level, *group) for group in groups]
        (xs, dxs), (rows, drows), (params, dparams) = (
            split(split_tangents(leaves, made), len(leaves)) for (leaves, *_), made in zip(groups, self.peels, strict=True)
        )
        self.state = optree.tree_unflatten(links.state_structure, xs), dxs
        self.inputs = (optree.tree_unflatten(links.inputs_structure, rows), drows) if links.given else None
        self.params = *links.arguments(params), dparams
        self.until = None if until is None else self.on_values(until)
        self.step = self.made(level)

    def made(self, level):
        """Return the step; of a compiled one it is compiled, and the same one for arguments of the same kind."""
        links, source = bare(self.links), self.links.source
        if not isinstance(source, Jit):
            return step_of(links, self.peels, level)
        key = (
            "values and tangents", links.state_structure, links.params_structure, links.inputs_structure, links.outputs,
            level.directions, level.nan_safe, level.weak, *(tuple(made.positions) for made in self.peels),
        )  # fmt: skip
        options = {"backend": source.backend, "threads": source.threads, "verify": source.verify}
        return kept(source, key, lambda: jit(step_of(links, self.peels, level), **options))

    def on_values(self, until):
        """Return the predicate; of a compiled step it is the same one each time, so that it is compiled once."""
        asked, source = lambda k, state: until(k, state[0]), self.links.source
        return kept(source, ("until of values", id(until)), lambda: asked) if isinstance(source, Jit) else asked

    def results(self, given):
        """Return what the chain of Duals returns."""
        links, (state_peel, *_) = self.links, self.peels
        (x, ts), (out, out_ts) = given if links.outputs else (given, (None, ()))
        final = links.tree(join_tangents([*optree.tree_leaves(x), *ts], [state_peel]))
        if not links.outputs:
            return final
        leaves, structure = optree.tree_flatten(out)
        made = state_peel._replace(count=len(leaves), positions=floating(leaves), rows=True)
        return final, optree.tree_unflatten(structure, join_tangents([*leaves, *out_ts], [made]))


def step_of(links, peels, level):
    """Return the step of values and tangents."""
    peels = [made._replace(level=None) for made in peels]
    options = level.directions, level.nan_safe, level.weak
    run = links.step  # in a variable of its own: what it reads is watched, and may be indexed by k

    def step(k, state, *rest):
        row, params = (rest[0], rest[1:]) if links.given else ((None, ()), rest)
        with Level(*options) as inner:
            state_peel, row_peel, param_peel = (made._replace(level=inner) for made in peels)
            x = join_tangents([*optree.tree_leaves(state[0]), *state[1]], [state_peel])
            row = join_tangents([*optree.tree_leaves(row[0]), *row[1]], [row_peel._replace(rows=False)])
            arguments = links.arguments(join_tangents([*optree.tree_leaves(params[:-1]), *params[-1]], [param_peel]))
            x, out = links.flat(k, x, row, arguments, run)
            xs, dxs = split(split_tangents(x, state_peel), state_peel.count)
            state = optree.tree_unflatten(links.state_structure, xs), dxs
            if not links.outputs:
                return state
            leaves, structure = optree.tree_flatten(out)
            outs, douts = split(split_tangents(leaves, peel(inner, leaves, floating(leaves), False)), len(leaves))
            return state, (optree.tree_unflatten(structure, outs), douts)

    step.__name__ = getattr(links.source, "__name__", "step")
    step.source = links.source  # for what watches what a compiled function reads
    return step


def bare(links):
    """Return a chain's step with its structures, without values: only what messages need of the state."""
    links = copy(links)
    links.state = [stand_in(leaf) for leaf in links.state]
    links.params, links.inputs, links.traced, links.levels = [], [], [], set()
    return links


def peel(level, leaves, positions, rows):
    if positions is None:
        positions = [i for i, leaf in enumerate(leaves) if has_tangent(leaf, level)]
    return TangentSplit(level, len(leaves), positions, rows)


def floating(leaves):
    return [i for i, leaf in enumerate(leaves) if is_floating(leaf)]


def split(parts, count):
    """Return the values of leaves and their tangents."""
    return parts[:count], tuple(parts[count:])
