"""The step of a chain as a function of leaves, and the leaves that it is given: the dtype and shape each must keep, and its level."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import optree

from dualad.core.conversions import STANDING
from dualad.core.dispatch import apply, dtype_of
from dualad.core.traced import Traced, example_of
from dualad.forward.dual import Dual, make_dual
from dualad.forward.seeding import FLOAT, note_lists, pack_leaf
from dualad.graph.program import role_of
from dualad.rules.indexing import getitem

from ..reverse.tape import Tape, Var
from ..schedules import CTZ, Schedule
from ..storage import Memory, Storage
from ..storage.codec import NAMESPACE
from ..storage.states import copy_state
from ..support.checks import call_refusal
from ..support.costs import KEPT_OF_STEP
from ..sweep.stats import Stats

#: ``(k, leaves, row, params) -> (leaves, out)``: a step of the leaves of its state, one row of inputs and all of its parameters; what
#: it gives is checked. `out` is None without outputs
FlatStep: TypeAlias = Callable[[Any, list[Any], list[Any], Sequence[Any]], tuple[list[Any], Any]]
Kind: TypeAlias = tuple[Any, Any]  # the shape and dtype that a leaf must keep

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
    while len(known) > KEPT_OF_STEP:
        known.popitem(last=False)
    return made


class StepSpec:
    """A step with its state, inputs and parameters as lists of leaves; `source` is the user's step, or a tuple of layers."""

    def __init__(self, step: Callable[..., Any], source: Any, state: Any, params: Sequence[Any], inputs: Any, outputs: bool) -> None:
        self.step, self.source, self.outputs, self.has_inputs = step, source, outputs, inputs is not None
        self.direct = not self.has_inputs and not outputs  # a step takes and returns nothing besides its state and params
        self.state, self.state_structure = flattened(state, "state")
        self.params, self.params_structure = flattened(params, "params")
        self.inputs, self.inputs_structure = flattened(inputs, "inputs")
        self.traced = [leaf for leaf in (*self.state, *self.params, *self.inputs) if isinstance(leaf, Traced)]
        self.levels = levels_of(self.traced)
        self.floating: list[int] = []
        self.kinds: list[Kind] = []
        for i, leaf in enumerate(self.state):
            shape, dtype = kind = kind_of(leaf)
            self.kinds.append(kind)
            if shape is not None and dtype.kind in "fc":
                self.floating.append(i)
        self.is_number = self.state_structure.is_leaf() and self.kinds[0] is NUMBER
        self.flatten, self.tree = flattening(state, self.state_structure)
        self.arguments = flattening(params, self.params_structure)[1]

    @property
    def has_statics(self) -> bool:
        """Return whether a compiled step is given leaves that are no numbers, or has arguments that are declared static."""
        if self.source.static_argnums or self.source.static_argnames:
            return True
        return any(type(leaf) not in LEAF_TYPES and not is_number(leaf) for leaf in (*self.state, *self.params))

    # --- the ways to call a step ------------------------------------------------------------------------------------------------

    def flat_step(self, step: Callable[..., Any] | None = None) -> FlatStep:
        """Return the step, or another one like it, as a `FlatStep`; nothing here refers to it, which would be a cycle."""
        step, tree, checked = step or self.step, self.tree, self.checked
        if not self.direct:
            call = self.with_row(step)

            def flat(k: Any, leaves: list[Any], row: list[Any], params: Sequence[Any]) -> tuple[list[Any], Any]:
                x, out = call(k, tree(leaves), row, params)
                return checked(k, x), out

        else:
            number = self.is_number

            def flat(k: Any, leaves: list[Any], row: list[Any], params: Sequence[Any]) -> tuple[list[Any], Any]:
                x = step(k, leaves[0] if number else tree(leaves), *params)
                return [x] if number and type(x) is Var and type(x.primal) is float else checked(k, x), None

        return flat

    def with_row(self, step: Callable[..., Any]) -> Callable[..., tuple[Any, Any]]:
        """Return a step as a function of k, the state, a row and the parameters, which returns the state and an out."""

        def call(k: Any, x: Any, row: list[Any], params: Sequence[Any]) -> tuple[Any, Any]:
            result = step(k, x, optree.tree_unflatten(structure, row), *params) if has_inputs else step(k, x, *params)
            if not outputs:
                return result, None
            if not isinstance(result, tuple) or len(result) != 2:
                raise TypeError(
                    f"chain: with outputs=True a step must return a pair (state, out); step {example_of(k)} returned {described(result)}"
                )
            return result

        structure, has_inputs, outputs = self.inputs_structure, self.has_inputs, self.outputs
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
            pair = type(state) is tuple and len(state) == 2 and not self.outputs and self.flatten(state[0]) is not None
            raise TypeError(
                f"chain: step {k} returned a state of the structure {optree.tree_structure(state)}; it was given "
                f"{self.state_structure}. Return the structure of the initial state"
                + (", or give outputs=True, if the second part is what each step puts out" if pair else "")
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
        given, got = described(self.state[i]), described(leaf)
        if self.kinds[i][0] is None and got == given:
            kind = type(leaf).__name__
            return TypeError(
                f"chain: step {k} returned a new {kind} at {self.path(i)}. A {kind} is no registered pytree, so the numbers in it have "
                f"no derivative, and it must be returned unchanged. Make the state a tuple, list, dict or named tuple of numbers and "
                f"arrays, or register {kind} (a dataclass with dualad.register_dataclass)"
            )
        if self.kinds[i][0] is None:
            return TypeError(
                f"chain: step {k} returned {got} at {self.path(i)}, which was {given}. Non-numeric leaves must be returned unchanged: make "
                f"a state of numbers and arrays (tuple, list, dict, named tuple; register a dataclass with dualad.register_dataclass)"
            )
        (shape, dtype), rounded = self.kinds[i], ""
        if kind_of(leaf)[0] == shape != () and dtype.kind in "fc":
            rounded = f", or return it as it was, with .astype('{dtype}')"
        return TypeError(
            f"chain: step {k} returned {got} at {self.path(i)}, which was {given}. A step must keep the shape and dtype "
            f"of every leaf: begin with a state of the right shape and dtype (1.0, not 1){rounded}"
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

    def explain(self, k: int, x: Any, params: Sequence[Any], inputs: list[Any], error: Exception) -> None:
        """Raise what is behind an error in step k: a call that does not fit, a state that an earlier step changed; else note the step."""
        if not k or isinstance(self.source, tuple):
            self.check_call(k, x, params, inputs)
        if k:
            try:
                self.checked(k - 1, x)
            except TypeError as change:
                raise self.first_change(k, params, inputs) or change from None
        if type(error) is TypeError:
            note_lists(error, self.state_structure)
        error.add_note(f"chain: in step {k}")

    def check_call(self, k: int, x: Any, params: Sequence[Any], inputs: list[Any]) -> None:
        """Raise where step k does not take the arguments of a step."""
        step = self.source[k] if isinstance(self.source, tuple) else self.source
        given = [k, x, *([row_of(inputs, k)] if self.has_inputs else []), *params]
        if (refusal := call_refusal(step, *given)) is not None:
            row, said = (", row", ", row its row of inputs") if self.has_inputs else ("", "")
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

    def with_leaves(self, state: list[Any], params: list[Any], inputs: list[Any]) -> StepSpec:
        rows: Any = optree.tree_unflatten(self.inputs_structure, inputs)
        return StepSpec(self.step, self.source, self.tree(state), self.arguments(params), rows, self.outputs)


def one_level_down(leaves: Iterable[Any], tape: Tape) -> tuple[list[Any], list[Any]]:
    """Return the values of the leaves as the step sees them, and their nodes on the tape (None for constants)."""
    values, nodes = [], []
    for leaf in leaves:
        value, node = leaf, None
        if type(leaf) is Var and leaf.level is tape:
            value = leaf.primal if leaf.alias is None else leaf._refresh().primal
            if type(value) is float and not tape.weak:
                value = np.float64(value)
            node = leaf.node
        values.append(value)
        nodes.append(node)
    return values, nodes


def read_only(leaf: Any) -> Any:
    """Return a copy of a parameter that its owner cannot change, nor a step: both sweeps must see the same one."""
    if issubclass(type(leaf), np.ndarray) and not isinstance(leaf, np.memmap):
        leaf = leaf.copy()
        leaf.flags.writeable = False
    elif isinstance(leaf, Traced) and np.ndim(leaf):
        leaf = np.copy(leaf)
    return leaf


def row_of(inputs: list[Any], k: Any) -> list[Any]:
    """Return the leaves of row k of the inputs."""
    return [apply(getitem, (leaf, k), {}) if isinstance(leaf, Traced) else leaf[k] for leaf in inputs] if inputs else inputs


# --- leaves -----------------------------------------------------------------------------------------------------------------


def flattened(tree: Any, name: str) -> tuple[list[Any], optree.PyTreeSpec]:
    """Return the leaves and the structure of what a chain is given; a leaf whose derivative would vanish raises."""
    if tree is None or (type(tree) is tuple and not tree):
        return [], NOTHING if tree is None else EMPTY
    leaves, structure = optree.tree_flatten(tree)
    for i, leaf in enumerate(leaves):
        if type(leaf) not in SIMPLE:
            leaves[i] = leaf = pack_leaf(leaf)
            refuse_opaque(leaf, partial(path_of, tree, f"chain: {name}", i), name)
    return leaves, structure


def path_of(tree: Any, what: str, i: int) -> str:
    return f"{what}{optree.tree_accessors(tree)[i].codify('')}"


SIMPLE = {float, int, complex, bool, Dual, Var}
NOTHING, EMPTY = optree.tree_structure(None), optree.tree_structure(())  # type: ignore[arg-type]


parts_of_dual: Any = lambda dual: ((dual._refresh().primal, dual.tangent), dual.level)
dual_of_parts: Any = lambda level, parts: make_dual(*parts, level)  # type: ignore[call-arg]
# a Dual in a state is written to disk, and fingerprinted, as what it is made of
optree.register_pytree_node(Dual, parts_of_dual, dual_of_parts, namespace=NAMESPACE)


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
    value = leaf.primal if type(leaf) is Var or type(leaf) is Dual else leaf
    if type(value) is float:
        return NUMBER
    if issubclass(type(value), int | complex | np.ndarray | np.generic | Traced):
        shape, dtype = getattr(value, "shape", ()), dtype_of(value)
        return NUMBER if shape == () and dtype is FLOAT else (shape, dtype)
    return None, leaf


def differs(leaf: Any, kind: Kind) -> bool:
    """Return whether a leaf has another shape or dtype than it must keep, is another object that is no number, or stands for an array."""
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


def like_leaves(arrays: Iterable[np.ndarray], likes: Sequence[Any]) -> list[Any]:
    """Return arrays as the numbers that they stand for: `likes` are leaves like them, or the words that programs have for that."""
    words = [like if isinstance(like, str) else ROLES.get(type(like)) or role_of(like) for like in likes]
    return [as_kind(array, word) for array, word in zip(arrays, words, strict=True)]


def as_kind(array: np.ndarray, kind: str) -> Any:
    return array if kind == "array" else array[()] if kind == "scalar" else array.item()


ROLES = {float: "python", np.ndarray: "array", np.float64: "scalar"}  # of most leaves


def described(leaf: Any) -> str:
    shape, dtype = kind_of(leaf)
    if shape is None:
        return f"{leaf!r}" if isinstance(leaf, str | bytes) else f"an object of type {type(leaf).__name__}"
    return f"{dtype} of shape {shape}"


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
    numpy, python = sys.modules.get("numpy.random"), sys.modules.get("random")  # not imported to ask
    changing: tuple[type, ...] = (Iterator, *((numpy.Generator, numpy.RandomState) if numpy else ()), *((python.Random,) if python else ()))
    if where == "state" and isinstance(leaf, changing):
        raise TypeError(
            f"{path()} is a {type(leaf).__name__}, which changes when it is used, so steps could not be evaluated again: draw the numbers "
            f"beforehand and pass them with inputs=, or make a generator in the step, from k (np.random.default_rng([seed, k]))"
        )
    inside = sorted(
        name for name, part in parts_of(leaf) if isinstance(part, Traced) or (where == "state" and issubclass(type(part), np.ndarray))
    )
    if inside:
        raise TypeError(
            f"{path()} is of type {type(leaf).__name__}, which is not registered as a pytree, so the derivatives of what it holds "
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
