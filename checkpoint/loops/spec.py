"""The step of a chain, from leaves to leaves, and the leaves that it is given: what each of them must stay."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import optree

from dualad.core.dispatch import apply
from dualad.core.traced import Traced, example_of
from dualad.forward.dual import Dual
from dualad.forward.seeding import pack_leaf
from dualad.rules.indexing import getitem

from ..reverse.tape import Var
from ..schedules import CTZ, Schedule
from ..storage import Memory, Storage
from ..storage.states import copy_state
from ..support.checks import refused
from ..support.costs import KEPT_STEPS
from ..sweep.stats import Stats
from .leaves import NUMBER, Kind, check_levels, described, differs, flattening, is_floating, kind_of, levels_of, refuse_opaque

__all__ = ["BY_ZEROS", "IN_MEMORY", "FlatStep", "Loop", "StepSpec", "kept"]

#: ``(k, leaves, row, params) -> (leaves, out)``: a step of the leaves of its state, one row of inputs and all of its parameters; what
#: it gives is checked. `out` is None without outputs
FlatStep: TypeAlias = Callable[[Any, list[Any], list[Any], Sequence[Any]], tuple[list[Any], Any]]


IN_MEMORY, BY_ZEROS = Memory(), CTZ()  # where no storage and no schedule is given


class Loop(NamedTuple):
    """How the steps of a chain are made, and saved for its reverse sweep: the options of `chain`."""

    steps: int | None
    until: Callable[..., Any] | None = None
    max_steps: int | None = None
    stats: Stats | None = None
    progress: bool = False
    check: bool = False
    schedule: Schedule | None = None
    storage: Storage = IN_MEMORY
    memory: float | str | None = None
    token: Any = None
    block: int | None = None


def kept(owner: Any, key: Hashable, make: Callable[[], Any]) -> Any:
    """Return what was made of a compiled step or program before, or is now; what was not used for longest is forgotten."""
    known = vars(owner).setdefault("of_chains", OrderedDict())
    known[key] = made = known.pop(key, None) or make()
    while len(known) > KEPT_STEPS:
        known.popitem(last=False)
    return made


class StepSpec:
    """A step with its state, inputs and parameters as lists of leaves; `source` is the user's step, or a tuple of layers."""

    def __init__(self, step: Callable[..., Any], source: Any, state: Any, params: Sequence[Any], inputs: Any, outputs: bool) -> None:
        self.step, self.source, self.outputs, self.given = step, source, outputs, inputs is not None
        self.direct = not self.given and not outputs  # a step takes and returns nothing besides its state and params
        self.state, self.state_structure = taken_apart(state, "state")
        self.params, self.params_structure = taken_apart(params, "params")
        self.inputs, self.inputs_structure = taken_apart(inputs, "inputs")
        self.traced = [leaf for leaf in (*self.state, *self.params, *self.inputs) if isinstance(leaf, Traced)]
        self.levels = levels_of(self.traced)
        self.floating: list[int] = []
        self.kinds: list[Kind] = []
        for i, leaf in enumerate(self.state):
            self.kinds.append(kind_of(leaf))
            if is_floating(leaf):
                self.floating.append(i)
        self.flatten, self.tree = flattening(state, self.state_structure)
        self.arguments = flattening(params, self.params_structure)[1]

    # --- the ways to call a step ------------------------------------------------------------------------------------------------

    def flat_step(self, step: Callable[..., Any] | None = None) -> FlatStep:
        """Return the step, or another one like it, as a `FlatStep`; nothing here refers to it, which would be a cycle."""
        step, tree, checked = step or self.step, self.tree, self.checked
        if not self.direct:
            call = self.with_row(step)

            def flat(k: Any, leaves: list[Any], row: list[Any], params: Sequence[Any]) -> tuple[list[Any], Any]:
                x, out = call(k, tree(leaves), row, params)
                return checked(k, x), out

        elif self.state_structure.is_leaf() and self.kinds[0] is NUMBER:

            def flat(k: Any, leaves: list[Any], row: list[Any], params: Sequence[Any]) -> tuple[list[Any], Any]:
                x = step(k, leaves[0], *params)
                return [x] if type(x) is Var and type(x.primal) is float else checked(k, x), None

        else:

            def flat(k: Any, leaves: list[Any], row: list[Any], params: Sequence[Any]) -> tuple[list[Any], Any]:
                return checked(k, step(k, tree(leaves), *params)), None

        return flat

    def with_row(self, step: Callable[..., Any]) -> Callable[..., tuple[Any, Any]]:
        """Return a step as a function of k, the state, a row and the parameters, which returns the state and an out."""

        def call(k: Any, x: Any, row: list[Any], params: Sequence[Any]) -> tuple[Any, Any]:
            result = step(k, x, optree.tree_unflatten(structure, row), *params) if given else step(k, x, *params)
            if not outputs:
                return result, None
            if not isinstance(result, tuple) or len(result) != 2:
                raise TypeError(f"chain: with outputs=True a step must return a pair (state, out); step {k} returned {described(result)}")
            return result

        structure, given, outputs = self.inputs_structure, self.given, self.outputs
        return call

    def calls(self, params: Sequence[Any], inputs: list[Any]) -> Callable[[int, Any], tuple[Any, Any]]:
        """Return the step as a function of k and the state, not checked, which returns the state and an out."""
        step = self.step
        if self.direct:
            return lambda k, x: (step(k, x, *params), None)
        call = self.with_row(step)
        return lambda k, x: call(k, x, row_of(inputs, k), params)

    # --- what a step gives ------------------------------------------------------------------------------------------------------

    def checked(self, k: Any, state: Any) -> list[Any]:
        """Return the leaves of what step k returned; another structure, shape or dtype raises."""
        leaves = self.flatten(state)
        if leaves is None:
            k = example_of(k)
            if state is None:
                raise TypeError(f"chain: step {k} returned None; return the new state (is its return statement missing?)")
            raise TypeError(
                f"chain: step {k} returned a state of the structure {optree.tree_structure(state)}; it was given "
                f"{self.state_structure}. Return the structure of the initial state"
            )
        for given, kind in zip(leaves, self.kinds, strict=True):
            if differs(given, kind):
                break
        else:
            return leaves
        leaves = list(map(pack_leaf, leaves))
        for i, (leaf, kind) in enumerate(zip(leaves, self.kinds, strict=True)):
            if differs(leaf, kind):
                raise self.changed(example_of(k), i, leaf)
        return leaves

    def path(self, i: int) -> str:
        """Return the name of leaf i of the state."""
        return "state" + optree.tree_accessors(self.tree(list(range(len(self.kinds)))))[i].codify("")

    def changed(self, k: int, i: int, leaf: Any) -> TypeError:
        """Return the error for a leaf that is not as it was given."""
        given, got = described(self.state[i]), described(leaf)
        if self.kinds[i][0] is None and got == given:
            kind = type(leaf).__name__
            return TypeError(
                f"chain: step {k} returned a new {kind} at {self.path(i)}. A {kind} is not known as a container, so the numbers in it have "
                f"no derivative, and a step must hand on this very object. Make the state a tuple, list, dict or named tuple "
                f"of numbers and arrays, or register {kind} (a dataclass with dualad.register_dataclass)"
            )
        if self.kinds[i][0] is None:
            return TypeError(
                f"chain: step {k} returned {got} at {self.path(i)}, which was {given}: what is no number or array has no derivative, so "
                f"a step must hand on this very object. Make a state of numbers and arrays (tuple, list, dict, named tuple; register "
                f"a dataclass with dualad.register_dataclass)"
            )
        return TypeError(
            f"chain: step {k} returned {got} at {self.path(i)}, which was {given}. A step must keep the shape and dtype "
            f"of every leaf: begin with a state of the right shape and dtype (1.0, not 1)"
        )

    def check_closure(self, leaves: Sequence[Any], levels: set[Any]) -> None:
        """Raise where a result is of a level that did not come in through the arguments."""
        for leaf in leaves:
            if isinstance(leaf, Traced):
                break
        else:
            return
        check_levels(leaves, levels, "chain: the step", ", chain(step, state, value, steps=N) with step(k, state, value)")

    # --- errors of a step -------------------------------------------------------------------------------------------------------

    def explain(self, k: int, x: Any, params: Sequence[Any], inputs: list[Any]) -> None:
        """Raise what is behind an exception in step k: a call that does not fit, or a state that an earlier step changed."""
        if not k or isinstance(self.source, tuple):
            self.check_call(k, x, params, inputs)
        if k:
            try:
                self.checked(k - 1, x)
            except TypeError as change:
                raise self.first_change(k, params, inputs) or change from None

    def check_call(self, k: int, x: Any, params: Sequence[Any], inputs: list[Any]) -> None:
        """Raise where step k does not take the arguments of a step."""
        step = self.source[k] if isinstance(self.source, tuple) else self.source
        given = [k, x, *([row_of(inputs, k)] if self.given else []), *params]
        if (refusal := refused(step, *given)) is not None:
            row, said = (", row", ", row its row of inputs") if self.given else ("", "")
            rest = "".join(f", params[{i}]" for i in range(len(params)))
            raise TypeError(
                f"chain: a step is called as step(k, state{row}{rest}), but {refusal}. k is the "
                f"index of the step{said}, and what follows the state are the params given to chain: chain(step, state, *params)"
            ) from None

    def first_change(self, count: int, params: Sequence[Any], inputs: list[Any]) -> TypeError | None:
        """Return the error of the first of `count` steps that returned another structure, shape or dtype, None if none does again."""
        x, call = copy_state(self.tree(self.state)), self.calls(params, inputs)
        for k in range(count):
            x, _ = call(k, x)
            try:
                self.checked(k, x)
            except TypeError as change:
                return change
        return None

    def final_leaves(self, steps: int, x: Any, params: Sequence[Any], inputs: list[Any]) -> list[Any]:
        """Return the leaves of x_N; where they are not what they were, the step that changed them raises."""
        try:
            return self.checked(steps - 1, x)
        except TypeError as change:
            raise self.first_change(steps, params, inputs) or change from None

    # --- specs like this one ----------------------------------------------------------------------------------------------------

    def rows_tree(self, inputs: list[Any]) -> Any:
        """Return these leaves of inputs as a tree, None where the step is given no rows."""
        return optree.tree_unflatten(self.inputs_structure, inputs) if self.given else None

    def with_leaves(self, state: list[Any], params: list[Any], inputs: list[Any]) -> StepSpec:
        """Return the spec of the same step for other leaves."""
        return StepSpec(self.step, self.source, self.tree(state), self.arguments(params), self.rows_tree(inputs), self.outputs)


def row_of(inputs: list[Any], k: Any) -> list[Any]:
    """Return the leaves of row k of the inputs."""
    return [apply(getitem, (leaf, k), {}) if isinstance(leaf, Traced) else leaf[k] for leaf in inputs] if inputs else inputs


def taken_apart(tree: Any, name: str) -> tuple[list[Any], optree.PyTreeSpec]:
    """Return the leaves and the structure of what a chain is given; a leaf whose derivative would vanish raises."""
    if tree is None or (type(tree) is tuple and not tree):
        return [], NOTHING if tree is None else EMPTY
    leaves, structure = optree.tree_flatten(tree)
    for i, leaf in enumerate(leaves):
        if type(leaf) not in SIMPLE:
            leaves[i] = leaf = pack_leaf(leaf)
            refuse_opaque(leaf, partial(path_of, tree, name, i), name)
    return leaves, structure


def path_of(tree: Any, name: str, i: int) -> str:
    """Return the name of leaf i of an argument."""
    return f"chain: {name}{optree.tree_accessors(tree)[i].codify('')}"


SIMPLE = {float, int, complex, bool, Dual, Var}
NOTHING, EMPTY = optree.tree_structure(None), optree.tree_structure(())  # type: ignore[arg-type]
