"""A chain on the tape: one entry, whose pull is the reverse sweep of the chain."""

from __future__ import annotations

import numpy as np
import optree

from dualad.dispatch import apply
from dualad.dual import Dual
from dualad.rules.indexing import getitem
from dualad.seeding import pack_leaf
from dualad.traced import Traced

from .closure import Closure
from .entries import Entry, Part
from .leaves import (
    added,
    check_levels,
    differs,
    flattening,
    is_floating,
    kind_of,
    levels_of,
    on_primals,
    one_level_down,
    read_only,
    was_written,
)
from .storage.states import copy_state, nbytes
from .sweep import Sweep
from .tape import Tape, Var, make_var, owner_of

__all__ = ["Link", "Links", "Stacked", "record"]


class Links:
    """A step with its state, inputs and parameters as lists of leaves."""

    def __init__(self, step, state, params, inputs, outputs):
        self.step, self.outputs = step, outputs
        self.state, self.state_structure = optree.tree_flatten(state)
        self.params, self.params_structure = optree.tree_flatten(params)
        self.inputs, self.inputs_structure = optree.tree_flatten(inputs)
        self.state, self.params, self.inputs = ([pack_leaf(leaf) for leaf in leaves] for leaves in (self.state, self.params, self.inputs))
        self.given = inputs is not None
        self.traced = [leaf for leaf in (*self.state, *self.params, *self.inputs) if isinstance(leaf, Traced)]
        self.levels = levels_of(self.traced)
        self.floating = [i for i, leaf in enumerate(self.state) if is_floating(leaf)]
        self.kinds = [kind_of(leaf) for leaf in self.state]
        self.flatten, self.tree = flattening(state, self.state_structure)
        self.arguments = flattening(params, self.params_structure)[1]

    def row(self, k, inputs):
        """Return the leaves of row k of the inputs."""
        return [apply(getitem, (leaf, k), {}) if isinstance(leaf, Traced) else leaf[k] for leaf in inputs]

    def call(self, k, x, row, params):
        """Return the state and the out (None without outputs) that step k makes of x."""
        if self.given:
            params = (optree.tree_unflatten(self.inputs_structure, row), *params)
        result = self.step(k, x, *params)
        if not self.outputs:
            return result, None
        if not isinstance(result, tuple) or len(result) != 2:
            raise TypeError(f"chain: with outputs=True a step must return a pair (state, out); step {k} returned {type(result).__name__}")
        return result

    def leaves(self, k, state):
        """Return the leaves of what step k returned; another structure, shape or dtype raises."""
        leaves = self.flatten(state)
        if leaves is None:
            raise TypeError(
                f"chain: step {k} returned a state of the structure {optree.tree_structure(state)}; it was given "
                f"{self.state_structure}. Return the structure of the initial state"
            )
        if any(map(differs, leaves, self.kinds)):
            leaves = [pack_leaf(leaf) for leaf in leaves]
            for i, (leaf, kind) in enumerate(zip(leaves, self.kinds, strict=True)):
                if differs(leaf, kind):
                    raise self.changed(k, i, leaf)
        return leaves

    def changed(self, k, i, leaf):
        path = "".join(f"[{part!r}]" for part in optree.tree_paths(self.tree(list(range(len(self.kinds)))))[i])
        shape, dtype = self.kinds[i]
        given = f"{dtype} of shape {shape}" if dtype is not None else f"{self.state[i]!r}"
        shape, dtype = kind_of(leaf)
        got = f"{dtype} of shape {shape}" if dtype is not None else f"{leaf!r}"
        return TypeError(
            f"chain: step {k} returned {got} at state{path}, which was {given}. A step must keep the shape and dtype "
            f"of every leaf: begin with a state of the right shape and dtype (1.0, not 1)"
        )

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
        """Take the leaves of the row of step k."""
        if self.columns is None:
            self.columns = [
                [] if self.count is None or isinstance(leaf, Traced) else np.empty((self.count, *np.shape(leaf)), np.result_type(leaf))
                for leaf in leaves
            ]
        for i, leaf in enumerate(leaves):
            column = self.columns[i]
            shape = np.shape(column[0]) if k else np.shape(leaf)
            if np.shape(leaf) != shape:
                raise TypeError(f"chain: step {k} put out an array of shape {np.shape(leaf)} as leaf {i}, the first step one of {shape}")
            if isinstance(leaf, Traced) and type(column) is not list:
                self.columns[i] = column = list(column[:k])
            if type(column) is list:
                column.append(np.copy(leaf)[()])
            else:
                column[k] = leaf
        self.length = k + 1

    def arrays(self):
        """Return the stacked leaves."""
        return [np.stack(column) if type(column) is list else column for column in self.columns or ()]

    def tree(self, leaves):
        """Return the tree of stacked leaves."""
        if self.structure is None:
            raise ValueError("chain: outputs=True of a chain that made no step: what a step would put out is not known")
        return optree.tree_unflatten(self.structure, leaves)


def record(links, tape, source, **options):
    """Run the chain in a sweep with these options and record it as one operation on the tape; `source` is the user's step."""
    tape.check()
    below = links.levels - {tape}
    if any(isinstance(level, Tape) for level in below):
        raise TypeError(
            "chain: reverse mode over reverse mode through a chain would keep every state of the inner sweep. For "
            "second derivatives use hvp (forward over reverse), or dualad.jacobian(grad(f))"
        )
    link = Link(links, tape, below, options["steps"])
    options["until"] = on_primals(options["until"])
    if getattr(options["storage"], "resume", False):
        link.resumes = True
        options |= {"token": (source, link.params, link.inputs, link.active, link.active_inputs), "beside": link.beside()}
    link.closure = Closure([*(source if isinstance(source, tuple) else (source,)), *link.opaque])
    link.sweep = sweep = Sweep(link.advance, links.tree(link.state), record=link.record_step, **options)
    final = sweep.forward()
    link.check_params(link.arguments, link.params)
    link.closure.settle()
    leaves = links.leaves("the last", final) if sweep.stats.steps else link.state
    links.check_closure(leaves, below)
    if links.outputs and sweep.stats.steps:
        link.know_outs()
    whole = tape.record(link)
    traced = [make_var(leaf, tape.record(Part(whole, i)), tape) if is_floating(leaf) else leaf for i, leaf in enumerate(leaves)]
    if not links.outputs:
        return links.tree(traced)
    outs = [
        make_var(leaf, tape.record(Part(whole, len(leaves) + i)), tape) if is_floating(leaf) else leaf
        for i, leaf in enumerate(link.outs.arrays())
    ]
    return links.tree(traced), link.outs.tree(outs)


class Link(Entry):
    """A chain's entry on a tape: pulls shares to the nodes of its state, parameters and inputs."""

    def __init__(self, links, tape, below, steps):
        self.links, self.below, self.nan_safe = links, below, tape.nan_safe
        self.state, self.state_nodes = one_level_down(links.state, tape)
        params, self.param_nodes = one_level_down(links.params, tape)
        inputs, self.input_nodes = one_level_down(links.inputs, tape)
        self.params, self.inputs = [read_only(leaf) for leaf in params], [read_only(leaf) for leaf in inputs]
        self.active = [i for i, node in enumerate(self.param_nodes) if node is not None]
        self.active_inputs = [i for i, node in enumerate(self.input_nodes) if node is not None]
        self.arguments = links.arguments(self.params)
        self.weak = not any(hasattr(leaf, "dtype") for leaf in (*self.state, *self.params, *self.inputs))
        self.outs = Stacked(steps)
        self.direct = not links.given and not links.outputs
        self.opaque = [leaf for leaf in (*self.state, *self.params) if kind_of(leaf) == (None, None) and not isinstance(leaf, str | bytes)]
        self.sweep, self.closure, self.resumes = None, None, False
        self.out_cotangents, self.rows = [], []

    def advance(self, k, x):
        """Evaluate step k on values one level down; the first time also keep what it puts out."""
        links = self.links
        if k and self.direct:
            return links.step(k, x, *self.arguments)
        x, out = links.call(k, x, links.row(k, self.inputs), self.arguments)
        if links.outputs and k == self.outs.length:
            links.check_closure([pack_leaf(leaf) for leaf in optree.tree_leaves(out)], self.below)
            self.put_out(k, out)
        if not k:
            links.check_closure(links.leaves(0, x), self.below)
        return x

    def pull_step(self, k, x, cotangent):
        """Pull the cotangent of the state back through step k, and add the parameters' shares to their sums."""
        return self.pull_record(k, self.record(k, x)[:3], cotangent)  # x_{k+1} is not needed

    def record_step(self, k, x):
        """Evaluate step k as `advance` does, and return x_{k+1} with the pullback of the step."""
        links = self.links
        record = tape, _, _, final, out = self.record(k, x, first=True)
        state = links.tree(self.values(final, tape))
        if links.outputs and k == self.outs.length:
            leaves, structure = optree.tree_flatten(out)
            self.put_out(k, optree.tree_unflatten(structure, self.values(map(pack_leaf, leaves), tape)))
        return copy_state(state), Pullback(self, k, record[:3])

    def check_params(self, arguments, given):
        """Raise where steps have changed the parameters or inputs that they were given, which both sweeps must see."""
        leaves, structure = optree.tree_flatten(arguments)
        if (
            structure != self.links.params_structure
            or any(leaf is not known for leaf, known in zip(leaves, given, strict=True))
            or any(map(was_written, (*leaves, *self.inputs)))
        ):
            raise ValueError(
                "chain: a step changed its parameters or inputs, which both sweeps must see as they were given: "
                "copy in the step what it changes, or put it into the state"
            )

    def put_out(self, k, out):
        """Keep what step k puts out."""
        self.outs.add(k, out)
        if self.resumes:
            self.sweep.add_row(k, [column[k] for column in self.outs.columns])

    def put_shares(self, k, shares):
        """Keep the shares of row k of the inputs."""
        for rows, share in zip(self.rows, shares, strict=True):
            rows.put(k, share)
        if self.resumes:
            self.sweep.add_row(k, shares)

    def beside(self):
        """Return the functions that take back what the steps of each sweep left behind in a process before this one."""

        def take_outs(rows):
            self.outs = Stacked(self.outs.count)
            for k, leaves in rows.items():
                self.outs.put(k, leaves)

        def take_shares(rows):
            for k, shares in rows.items():
                for column, share in zip(self.rows, shares, strict=True):
                    column.put(k, share)

        return {"first": take_outs if self.links.outputs else None, "reverse": take_shares if self.active_inputs else None}

    def know_outs(self):
        """Make step 0 again where all outs are from another process, which has left their leaves, but not their structure."""
        links = self.links
        if self.outs.structure is None:
            _, out = links.call(0, copy_state(links.tree(self.state)), links.row(0, self.inputs), self.arguments)
            self.outs.structure = optree.tree_structure(out)

    def values(self, leaves, tape):
        """Return results of a record one level down; a value of a foreign level raises."""
        values = one_level_down(leaves, tape)[0]
        self.links.check_closure(values, self.below)
        return values

    def record(self, k, x, first=False):
        """Evaluate step k on a tape of its own; return the tape, the nodes of inputs and of results, the final leaves, the out."""
        links, out, results = self.links, None, []
        with Tape(self.nan_safe, self.weak) as tape:
            state, nodes = links.flatten(x), []
            make_variables(tape, state, links.floating, nodes)
            params = self.arguments
            if self.active:
                given = list(self.params)
                make_variables(tape, given, self.active, nodes)
                params = links.arguments(given)
            if self.direct:
                final = links.leaves(k, links.step(k, links.tree(state), *params))
            else:
                row = links.row(k, self.inputs)
                make_variables(tape, row, self.active_inputs, nodes)
                final, out = links.call(k, links.tree(state), row, params)
                final = links.leaves(k, final)
            for i in links.floating:
                leaf = final[i]
                if type(leaf) is Var and leaf.level is tape and type(leaf.primal) is float:  # `node_of` without its questions
                    results.append(leaf.node)
                else:
                    results.append(self.node_of(leaf, tape))
            if links.outputs:
                results += [self.node_of(pack_leaf(leaf), tape) for leaf in optree.tree_leaves(out)]
            if first:
                self.check_params(params, given if self.active else self.params)
        return tape, nodes, results, final, out

    def node_of(self, leaf, tape):
        """Return the node of a result, None where it is constant; a value of a foreign level raises."""
        if type(leaf) is Var and leaf.level is tape:
            if leaf.alias is not None:
                leaf._refresh()
            if type(leaf.primal) is not float and isinstance(leaf.primal, Traced):
                self.links.check_closure([leaf.primal], self.below)
            return leaf.node
        if isinstance(leaf, Traced):
            self.links.check_closure([leaf], self.below)
        return None

    def pull_record(self, k, record, cotangent):
        """Pull the cotangent of the state back through a recorded step, and add the parameters' shares to their sums.

        `record` is what `record` returns, without the results themselves, of which only the nodes are needed.
        """
        (gs, sums), (tape, nodes, results) = cotangent, record
        if self.out_cotangents:
            gs = [*gs, *[None if g is None else g[k] for g in self.out_cotangents]]
        seeds = []
        for node, g in zip(results, gs, strict=False):  # without cotangents of the outs, there are more results
            if node is not None and g is not None:
                seeds.append((node, g))
        pulled = tape.sweep_back(seeds, nodes)
        n, m = len(self.links.floating), len(self.active)
        for j, share in enumerate(pulled[n : n + m]):
            if share is not None:
                sums[j] = added(sums[j], share)
        if self.rows:
            self.put_shares(k, pulled[n + m :])
        return pulled[:n], sums

    def pull(self, k, g, adjoints):
        """Run the reverse sweep, for the cotangents `g` of the final state's leaves and of the outs."""
        floating, count = self.links.floating, len(self.links.state)
        g = [*g, *[None] * (count - len(g))]
        self.out_cotangents = [*g[count:], *[None] * (len(self.outs.columns or ()) - len(g[count:]))] if len(g) > count else []
        self.rows = [Rows(self.inputs[i]) for i in self.active_inputs]
        self.closure.check("chain: in the reverse sweep")
        with np.errstate(all="ignore"):  # once, not at every step; the steps have warned in the first sweep
            gs, sums = self.sweep.backward(self.pull_step, ([g[i] for i in floating], [None] * len(self.active)), self.out_cotangents)
        shares = [
            *zip([self.state_nodes[i] for i in floating], gs, strict=True),
            *zip([self.param_nodes[i] for i in self.active], sums, strict=True),
            *zip([self.input_nodes[i] for i in self.active_inputs], [rows.array() for rows in self.rows], strict=True),
        ]
        self.out_cotangents, self.rows = [], []
        for node, share in shares:
            if node is not None and share is not None:
                adjoints.add(node, share, False)

    @property
    def parents(self):
        return [node for node in (*self.state_nodes, *self.param_nodes, *self.input_nodes) if node is not None]

    def push(self, pushed):
        """Raise: a chain's tangents need its states again."""
        raise TypeError(
            "linearize: f runs a chain, whose states are not kept for many JVPs: use dualad.jvp, which runs the chain in forward mode"
        )


class Pullback:
    """The pullback of a recorded step, which knows how much it holds."""

    def __init__(self, link, k, record):
        self.link, self.k, self.record = link, k, record

    def __call__(self, cotangent):
        return self.link.pull_record(self.k, self.record, cotangent)

    @property
    def nbytes(self):
        """Bytes of the arrays on the tape, each counted once, and of its numbers."""
        arrays, numbers = {}, 0
        tape, _, results = self.record
        held = [
            entry
            if type(entry) is list
            else entry[1::2]
            if type(entry) is tuple
            else (getattr(entry, "args", ()), getattr(entry, "ans", None))
            for entry in tape.needed([node for node in results if node is not None])
        ]
        while held:
            value = held.pop()
            if isinstance(value, tuple | list):
                held.extend(value)
            elif isinstance(value, Dual):
                held += [value.primal, value.tangent]
            elif isinstance(value, np.ndarray):
                owner = owner_of(value)
                arrays[id(owner)] = owner
            else:
                numbers += isinstance(value, float | np.generic)
        return 8 * numbers + sum(nbytes(owner) for owner in arrays.values())


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


def make_variables(tape, leaves, positions, nodes):
    """Put variables in the place of leaves, and note their nodes."""
    for i in positions:
        leaves[i] = tape.variable(leaves[i])
        nodes.append(leaves[i].node)
