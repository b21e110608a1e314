"""The step of a chain and the leaves of what it is given and gives: what must stay as it is, what is collected row by row."""

from __future__ import annotations

import numpy as np
import optree

from dualad.core.dispatch import apply, dtype_of
from dualad.core.traced import Traced, example_of
from dualad.forward.seeding import FLOAT, pack_leaf
from dualad.rules.indexing import getitem

from ..reverse.tape import Var
from ..storage.states import copy_state
from ..support.checks import refused
from .leaves import NUMBER, check_levels, described, differs, flattening, is_floating, kind_of, levels_of, refuse_opaque

__all__ = ["Rows", "Stacked", "StepSpec"]


class StepSpec:
    """A step with its state, inputs and parameters as lists of leaves; `source` is the user's step, or a tuple of layers."""

    def __init__(self, step, source, state, params, inputs, outputs):
        self.step, self.source, self.outputs = step, source, outputs
        self.state, self.state_structure = optree.tree_flatten(state)
        self.params, self.params_structure = optree.tree_flatten(params)
        self.inputs, self.inputs_structure = optree.tree_flatten(inputs)
        self.state, self.params, self.inputs = ([pack_leaf(leaf) for leaf in leaves] for leaves in (self.state, self.params, self.inputs))
        for name, leaves, tree in (("state", self.state, state), ("params", self.params, params), ("inputs", self.inputs, inputs)):
            for i, leaf in enumerate(leaves):
                refuse_opaque(leaf, lambda i=i, name=name, tree=tree: f"chain: {name}{optree.tree_accessors(tree)[i].codify('')}", name)
        self.given = inputs is not None
        self.direct = not self.given and not outputs  # a step takes and returns nothing besides its state and params
        self.traced = [leaf for leaf in (*self.state, *self.params, *self.inputs) if isinstance(leaf, Traced)]
        self.levels = levels_of(self.traced)
        self.floating = [i for i, leaf in enumerate(self.state) if is_floating(leaf)]
        self.kinds = [kind_of(leaf) for leaf in self.state]
        self.flatten, self.tree = flattening(state, self.state_structure)
        self.arguments = flattening(params, self.params_structure)[1]

    def row(self, k, inputs):
        """Return the leaves of row k of the inputs."""
        return [apply(getitem, (leaf, k), {}) if isinstance(leaf, Traced) else leaf[k] for leaf in inputs]

    def flat(self, k, leaves, row, params, step=None):
        """Return the leaves of the state, checked, and the out that step k makes of leaves: the one way to call a step from leaves."""
        if self.direct:
            return self.leaves(k, (step or self.step)(k, self.tree(leaves), *params)), None
        x, out = self.call(k, self.tree(leaves), row, params, step)
        return self.leaves(k, x), out

    def call(self, k, x, row, params, step=None):
        """Return the state and the out (None without outputs) that step k makes of x; `step` in the place of its own."""
        if self.given:
            params = (optree.tree_unflatten(self.inputs_structure, row), *params)
        result = (step or self.step)(k, x, *params)
        if not self.outputs:
            return result, None
        if not isinstance(result, tuple) or len(result) != 2:
            raise TypeError(f"chain: with outputs=True a step must return a pair (state, out); step {k} returned {described(result)}")
        return result

    def calls(self, params, inputs):
        """Return `call` as a function of k and the state."""
        step = self.step
        if self.direct:
            return lambda k, x: (step(k, x, *params), None)
        return lambda k, x: self.call(k, x, self.row(k, inputs), params)

    def leaves(self, k, state):
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
            if (kind is NUMBER and type(given) is Var and type(given.primal) is float) or not differs(given, kind):
                continue
            leaves = [pack_leaf(leaf) for leaf in leaves]
            for i, (leaf, kind) in enumerate(zip(leaves, self.kinds, strict=True)):
                if differs(leaf, kind):
                    raise self.changed(example_of(k), i, leaf)
            break
        return leaves

    def path(self, i):
        """Return the name of leaf i of the state."""
        return "state" + optree.tree_accessors(self.tree(list(range(len(self.kinds)))))[i].codify("")

    def changed(self, k, i, leaf):
        """Return the error for a leaf that is not as it was given."""
        given, got = described(self.state[i]), described(leaf)
        if self.kinds[i][0] is None and got == given:
            kind = type(leaf).__name__
            return TypeError(
                f"chain: step {k} returned a new {kind} at {self.path(i)}. A {kind} is not known as a container, so the numbers in it have "
                f"no derivative, and a step must hand on this very object. Make the state a tuple, list, dict or named tuple "
                f"of numbers and arrays, or register {kind} (a dataclass with optree.dataclasses)"
            )
        if self.kinds[i][0] is None:
            return TypeError(
                f"chain: step {k} returned {got} at {self.path(i)}, which was {given}: what is no number or array has no derivative, so "
                f"a step must hand on this very object. Make a state of numbers and arrays (tuple, list, dict, named tuple; register "
                f"a dataclass with optree.dataclasses)"
            )
        return TypeError(
            f"chain: step {k} returned {got} at {self.path(i)}, which was {given}. A step must keep the shape and dtype "
            f"of every leaf: begin with a state of the right shape and dtype (1.0, not 1)"
        )

    def explain(self, k, x, params, inputs):
        """Raise what is behind an exception in step k: a call that does not fit, or a state that an earlier step changed."""
        if not k or isinstance(self.source, tuple):
            self.check_call(k, x, params, inputs)
        if k:
            try:
                self.leaves(k - 1, x)
            except TypeError as change:
                raise self.first_change(k, params, inputs) or change from None

    def check_call(self, k, x, params, inputs):
        """Raise where step k does not take the arguments of a step."""
        step = self.source[k] if isinstance(self.source, tuple) else self.source
        given = [k, x, *([self.row(k, inputs)] if self.given else []), *params]
        if (refusal := refused(step, *given)) is not None:
            row, said = (", row", ", row its row of inputs") if self.given else ("", "")
            rest = "".join(f", params[{i}]" for i in range(len(params)))
            raise TypeError(
                f"chain: a step is called as step(k, state{row}{rest}), but {refusal}. k is the "
                f"index of the step{said}, and what follows the state are the params given to chain: chain(step, state, *params)"
            ) from None

    def first_change(self, count, params, inputs):
        """Return the error of the first of `count` steps that returned another structure, shape or dtype, None if none does again."""
        x, call = copy_state(self.tree(self.state)), self.calls(params, inputs)
        for k in range(count):
            x, _ = call(k, x)
            try:
                self.leaves(k, x)
            except TypeError as change:
                return change
        return None

    def final_leaves(self, steps, x, params, inputs):
        """Return the leaves of x_N; where they are not what they were, the step that changed them raises."""
        try:
            return self.leaves(steps - 1, x)
        except TypeError as change:
            raise self.first_change(steps, params, inputs) or change from None

    def check_closure(self, leaves, levels):
        """Raise where a result is of a level that did not come in through the arguments."""
        check_levels(leaves, levels, "chain: the step", ", chain(step, state, value, steps=N) with step(k, state, value)")


class Stacked:
    """Rows of pytrees, stacked on a leading axis; plain rows are written into arrays of the full length at once."""

    def __init__(self, count):
        self.count, self.structure, self.columns, self.length = count, None, None, 0

    def add(self, k, tree):
        """Take the row of step k."""
        leaves, structure = optree.tree_flatten(tree)
        self.structure = structure if self.structure is None else self.structure
        if structure != self.structure:
            raise TypeError(f"chain: step {k} put out the structure {structure}, the first step {self.structure}")
        self.put(k, [pack_leaf(leaf) for leaf in leaves])

    def put(self, k, leaves):
        """Take the leaves of the row of step k. The dtype of a column is what NumPy promotes its rows to."""
        if self.columns is None:
            self.columns = [
                [] if self.count is None or isinstance(leaf, Traced) else np.empty((self.count, *np.shape(leaf)), self.dtype(k, i, leaf))
                for i, leaf in enumerate(leaves)
            ]
        for i, leaf in enumerate(leaves):
            column = self.columns[i]
            shape = np.shape(column[0]) if k else np.shape(leaf)
            if np.shape(leaf) != shape:
                raise TypeError(f"chain: step {k} put out an array of shape {np.shape(leaf)} as leaf {i}, the first step one of {shape}")
            dtype = self.dtype(k, i, leaf)
            if isinstance(leaf, Traced) and type(column) is not list:
                self.columns[i] = column = list(column[:k])
            if type(column) is list:
                column.append(np.copy(leaf)[()])
                continue
            if dtype is not column.dtype and (common := np.result_type(column.dtype, dtype)) != column.dtype:
                self.columns[i] = column = column.astype(common)
            column[k] = leaf
        self.length = k + 1

    def dtype(self, k, i, leaf):
        """Return the dtype of an out; one that is no number or array of numbers raises."""
        if type(leaf) is float:
            return FLOAT
        dtype = dtype_of(leaf) if issubclass(type(leaf), int | complex | np.ndarray | np.generic | Traced) else None
        if dtype is None or dtype.kind not in "biufc":
            raise TypeError(
                f"chain: step {k} put out {described(leaf)} as leaf {i}: outs are stacked on a leading axis, so they must be numbers or "
                f"arrays of numbers, of one shape at every step"
            )
        return dtype

    def arrays(self):
        """Return the stacked leaves."""
        return [np.stack(column) if type(column) is list else column for column in self.columns or ()]

    def tree(self, leaves):
        """Return the tree of stacked leaves."""
        if self.structure is None:
            raise ValueError("chain: outputs=True of a chain that made no step: what a step would put out is not known")
        return optree.tree_unflatten(self.structure, leaves)


class Rows:
    """The cotangent of an array that is used row by row."""

    def __init__(self, like):
        self.like, self.buffer, self.rows = like, None, {}

    def put(self, k, share):
        """Write the share of row k, None where it is zero."""
        if share is None:
            return
        if isinstance(share, Traced):
            self.rows[k] = share
            return
        if self.buffer is None:
            self.buffer = np.zeros(np.shape(self.like), self.like.dtype)
        self.buffer[k] = share

    def array(self):
        """Return the whole cotangent, None where it is zero."""
        if not self.rows:
            return self.buffer
        zero = np.zeros_like(next(iter(self.rows.values())))
        plain = [zero if self.buffer is None else zero + self.buffer[k] for k in range(np.shape(self.like)[0])]
        return np.stack([self.rows.get(k, plain[k]) for k in range(len(plain))])
