"""Chains of a compiled step that is given settings: texts, flags, functions, arguments that are declared static.

They are compiled in: the chain that runs is that of a step of the numbers alone.
"""

from __future__ import annotations

import numpy as np
import optree

from dualad.core.traced import Traced
from dualad.jit.arguments import exact, positional_names
from dualad.jit.jit import jit

from .leaves import differs
from .spec import StepSpec
from .stepper import NotCompiled, kept

__all__ = ["StaticLeaves", "with_static_leaves"]

NUMBERS = float | int | complex | np.ndarray | np.generic | Traced
ATOMS = str | bytes | int | float | complex | np.dtype | np.ufunc  # that cannot change


def with_static_leaves(links, until):
    """Return the chain of the numbers alone; None where there is nothing else, or what is declared static is no setting."""
    source = links.source
    if not (source.static_argnums or source.static_argnames or any(map(is_setting, (*links.state, *links.params)))):
        return None
    count, first = len(links.params_structure.children()), 2 + links.given
    names = positional_names(source.f)[: first + count]
    declared = {i % (first + count) for i in source.static_argnums if -(first + count) <= i < first + count}
    declared |= {i for i, name in enumerate(names) if name in source.static_argnames}
    if any(i < first for i in declared):
        return None
    whole = [i for i, part in enumerate(links.params_structure.children()) for _ in range(part.num_leaves)]
    params = [i for i, leaf in enumerate(links.params) if first + whole[i] in declared or is_setting(leaf)]
    state = [i for i, leaf in enumerate(links.state) if is_setting(leaf)]
    settings = [*(links.state[i] for i in state), *(links.params[i] for i in params)]
    if not settings or not all(isinstance(leaf, ATOMS) for leaf in settings) or any(map(is_setting, links.inputs)):
        return None
    return StaticLeaves(links, until, state, params)


def is_setting(leaf):
    return not issubclass(type(leaf), NUMBERS) or type(leaf) is bool


class StaticLeaves:
    """The links of the chain of the numbers alone, and its predicate; `result` puts the settings back."""

    def __init__(self, links, until, state, params):
        self.outputs, self.tree = links.outputs, links.tree
        settings = [(i, links.state[i]) for i in state]
        given = [(i, links.params[i]) for i in params]
        self.full = filler(settings, len(links.state))
        key = (
            "numbers", links.state_structure, links.params_structure, links.inputs_structure if links.given else None, links.outputs,
            *((i, exact(leaf)) for pairs in (settings, given) for i, leaf in (*pairs, (None, None))),
        )  # fmt: skip
        source, full_params = links.source, filler(given, len(links.params))
        options = {"backend": source.backend, "threads": source.threads, "verify": source.verify}
        step = kept(source, key, lambda: jit(step_of(links, self.full, full_params, settings), **options))
        numbers = [
            tuple(leaf for i, leaf in enumerate(leaves) if i not in out) for leaves, out in ((links.state, state), (links.params, params))
        ]
        inputs = optree.tree_unflatten(links.inputs_structure, links.inputs) if links.given else None
        self.links = StepSpec(step, step, numbers[0], numbers[1], inputs, links.outputs)
        self.until = None
        if until is not None:
            tree, full = links.tree, self.full
            self.until = kept(source, ("until", id(until), *key), lambda: lambda k, state: until(k, tree(full(state))))

    def result(self, given):
        """Return what the chain of all leaves returns."""
        final, outs = given if self.outputs else (given, None)
        final = self.tree(self.full(final))
        return (final, outs) if self.outputs else final


def filler(pairs, count):
    """Return the function that puts settings among numbers."""
    held = dict(pairs)

    def full(numbers):
        numbers = iter(numbers)
        return [held[i] if i in held else next(numbers) for i in range(count)]

    return full


def step_of(links, full_state, full_params, settings):
    """Return the step of the numbers alone."""
    source, tree, arguments, given, outputs = links.source, links.tree, links.arguments, links.given, links.outputs
    structure, kinds = links.state_structure, [(None, leaf) for _, leaf in settings]

    def step(k, state, *rest):
        row, params = (rest[:1], rest[1:]) if given else ((), rest)
        made = source(k, tree(full_state(state)), *row, *arguments(full_params(params)))
        made, out = made if outputs and isinstance(made, tuple) and len(made) == 2 else (made, None)
        leaves, found = optree.tree_flatten(made)
        if found != structure or any(differs(leaves[i], kind) for (i, _), kind in zip(settings, kinds, strict=True)):
            raise NotCompiled("the step changes the structure of its state, or what is no number in it")
        numbers = tuple(leaf for i, leaf in enumerate(leaves) if i not in positions)
        return (numbers, out) if outputs else numbers

    positions = {i for i, _ in settings}
    step.__name__ = source.__name__
    return step
