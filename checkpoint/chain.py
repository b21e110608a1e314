"""chain: the loop that a program differentiates through.

On plain values it is a loop, on Duals a loop in forward mode, on Vars one entry of the tape: a `Sweep` runs it, saves what its
schedule says, and pulls the cotangent back step by step, each step on a small tape of its own.
"""

from __future__ import annotations

import numpy as np
import optree

from dualad.dispatch import dtype_of, highest, primal
from dualad.dual import Dual
from dualad.rules.kinds import Abstract
from dualad.seeding import FLOAT, check_function, pack_leaf
from dualad.traced import Traced

from .checks import whole_number
from .entries import Part
from .schedules import CTZ
from .stats import Stats
from .storage import Memory
from .storage.states import copy_state
from .sweep import Sweep
from .tape import Tape, Var, make_var

__all__ = ["chain"]


# --- public -----------------------------------------------------------------------------------------------------------------

def chain(step, state, *params, steps=None, schedule=None, storage=None, stats=None, until=None, max_steps=None):
    """Repeat a step, so that derivatives of long loops need only O(log N) saved states.

    An ordinary loop on plain values and a loop in forward mode on Duals. In reverse mode it is one operation, whose states are
    saved and computed again as `schedule` says. Several chains in a program, a chain inside other differentiated code, a
    chain of a chain, and forward over reverse (`hvp`) through a chain all work.

    Parameters
    ----------
    step : function ``step(k, state, *params) -> state``
        k is the absolute index of the step, on every replay too. The step must return the structure, shapes and dtypes it was
        given, and the same values whenever it is called with the same arguments. What it differentiates must come in
        through `state` and `params`; it may change its state in place.
    state : pytree of numbers and arrays
        x_0. Leaves that are no floats (integers, None, texts) are handed on and have no derivative.
    params : pytrees
        Passed to every step; their gradients are summed over the steps.
    steps : int
        How many steps N. Leave it out if `until` says when to stop.
    schedule : Schedule, optional
        What is saved; by default ``CTZ()``: at most ceil(log2 N) + 1 states.
    storage : Storage, optional
        Where saved states live; by default ``Memory()``.
    stats : Stats, optional
        Filled in place in reverse mode: steps, advances, pulls, saves, loads, peak_states, peak_bytes, seconds.
    until : function ``until(k, state) -> bool``, optional
        Asked before step k, on plain values and in the first sweep only; True ends the loop.
    max_steps : int, optional
        With `until`: raise if it is still not true after so many steps.

    Returns
    -------
    pytree : x_N.

    Raises
    ------
    TypeError, ValueError
        Where an argument is of the wrong kind; where the step returns another structure, shape or dtype than it was given
        (naming the leaf), or closes over a traced value (whose gradient would be lost).

    Examples
    --------
    The derivative of x -> x/3 + 2 repeated 1000 times, at most 11 states saved:

    >>> from checkpoint import Stats, chain, grad
    >>> stats = Stats()
    >>> def simulate(x, c):
    ...     return chain(lambda k, x, c: x / 3 + c, x, c, steps=1000, stats=stats)
    >>> grad(simulate, argnums=(0, 1))(1.0, 2.0)
    (0.0, 1.5)
    >>> stats.peak_states
    11
    """
    check_function(step, "chain")
    if until is not None:
        check_function(until, "chain: until")
    if (steps is None) == (until is None):
        raise TypeError("chain: give either steps=N or, if N is not known before, until=predicate")
    if steps is not None:
        steps = whole_number(steps, where="chain", argument="steps", least=0, hint="give the number of steps")
    if max_steps is not None:
        max_steps = whole_number(max_steps, where="chain", argument="max_steps", least=0, hint="give the largest number of steps")
        if until is None:
            raise TypeError("chain: max_steps goes with until; with a known length give steps only")
    schedule, storage = CTZ() if schedule is None else schedule, Memory() if storage is None else storage
    links = Links(step, state, params)
    top = highest(links.traced)
    if type(top) is Var:
        return record(links, top.level, steps, schedule, storage, stats, until, max_steps)
    return run(links, steps, until, max_steps)


# --- parts ------------------------------------------------------------------------------------------------------------------

class Links:
    """A step with its state and parameters as lists of leaves."""

    def __init__(self, step, state, params):
        self.step = step
        self.state, self.state_structure = optree.tree_flatten(state)
        self.params, self.params_structure = optree.tree_flatten(params)
        self.state = [pack_leaf(leaf) for leaf in self.state]
        self.params = [pack_leaf(leaf) for leaf in self.params]
        self.traced = [leaf for leaf in (*self.state, *self.params) if isinstance(leaf, Traced)]
        self.levels = levels_of(self.traced)
        self.floating = [i for i, leaf in enumerate(self.state) if is_floating(leaf)]
        self.kinds = [kind_of(leaf) for leaf in self.state]

        self.flatten, self.tree = flattening(state, self.state_structure)
        self.arguments = flattening(params, self.params_structure)[1]

    def leaves(self, k, state):
        """Return the leaves of what step k returned; another structure, shape or dtype raises."""
        leaves = self.flatten(state)
        if leaves is None:
            raise TypeError(f"chain: step {k} returned a state of the structure {optree.tree_structure(state)}; it was given "
                            f"{self.state_structure}. Return the structure of the initial state")
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
        return TypeError(f"chain: step {k} returned {got} at state{path}, which was {given}. A step must keep the shape and dtype "
                         f"of every leaf: begin with a state of the right shape and dtype (1.0, not 1)")

    def check_closure(self, leaves, levels):
        """Raise where a result is of a level that did not come in through the state and parameters."""
        check_levels(leaves, levels, "chain: the step", ", chain(step, state, value, steps=N) with step(k, state, value)")


def flattening(example, structure):
    """Return the functions that take trees like `example` apart (None for another structure) and put them together.

    Single leaves and plain tuples of leaves, the states of small systems, do without optree's general ones.
    """
    def flatten(tree):
        leaves, found = optree.tree_flatten(tree)
        return leaves if found == structure else None

    if structure == optree.tree_structure(0.0):
        return (lambda tree: [tree] if isinstance(tree, LEAF_TYPES) else flatten(tree)), lambda leaves: leaves[0]
    if type(example) is tuple and structure == optree.tree_structure((0.0,) * len(example)):
        def flatten_tuple(tree):
            if type(tree) is tuple and len(tree) == len(example) and all(map(LEAF_TYPES.__contains__, map(type, tree))):
                return list(tree)
            return flatten(tree)
        return flatten_tuple, tuple
    return flatten, lambda leaves: optree.tree_unflatten(structure, leaves)


LEAF_TYPES = (float, np.ndarray, np.float64, Dual, Var)


def check_levels(leaves, levels, where, example=""):
    """Raise where a result is of a level that did not come in through the arguments."""
    if not levels_of(leaves) <= levels:
        raise TypeError(f"{where} uses a traced value that is not among its arguments (it closes over it), so its gradient would be "
                        f"lost: pass it as a parameter{example}")


def levels_of(values):
    """Return the levels of traced values, and of what they are made of."""
    levels = set()
    for value in values:
        while isinstance(value, Traced):
            levels.add(value.level)
            value = value.value
    return levels


def is_floating(leaf):
    return isinstance(leaf, float | complex) or getattr(leaf, "dtype", INTEGER).kind in "fc"


INTEGER = np.dtype(int)


def kind_of(leaf):
    """Return the shape and dtype that a leaf must keep; (None, None) for what is no number."""
    if type(leaf) is float:
        return (), FLOAT
    if isinstance(leaf, int | complex | np.ndarray | np.generic | Traced):
        return getattr(leaf, "shape", ()), dtype_of(leaf)
    return None, None


def differs(leaf, kind):
    if type(leaf) is float or (type(leaf) is Var and type(leaf.value) is float):
        return kind[1] is not FLOAT or kind[0] != ()
    return kind_of(leaf) != kind


def on_primals(until):
    """Return the predicate as a function of plain values."""
    return None if until is None else lambda k, state: until(k, optree.tree_map(primal, state))


def run(links, steps, until, max_steps):
    """Run the chain as a loop."""
    step, params = links.step, links.arguments(links.params)
    x = copy_state(links.tree(links.state))
    until = on_primals(until)
    k = 0
    while k != steps and not (until is not None and until(k, x)):
        if k == max_steps:
            raise RuntimeError(f"chain: until(k, state) is still not true after max_steps={k} steps; give more steps, or a "
                               f"predicate that also ends")
        x = step(k, x, *params)
        if not k:
            links.check_closure(links.leaves(0, x), links.levels)
        k += 1
    if k:
        leaves = links.leaves(k - 1, x)
        links.check_closure(leaves, links.levels)
        x = links.tree(leaves)
    return x


def record(links, tape, steps, schedule, storage, stats, until, max_steps):
    """Run the chain in a sweep and record it as one operation on the tape."""
    tape.check()
    below = links.levels - {tape}
    if any(isinstance(level, Tape) for level in below):
        raise TypeError("chain: reverse mode over reverse mode through a chain would keep every state of the inner sweep. For "
                        "second derivatives use hvp (forward over reverse), or dualad.jacobian(grad(f))")
    link = Link(links, tape, below)
    sweep = Sweep(link.advance, links.tree(link.state), steps=steps, schedule=schedule, storage=storage,
                  stats=Stats() if stats is None else stats, until=on_primals(until), max_steps=max_steps)
    final = sweep.forward()
    leaves = links.leaves("the last", final) if sweep.stats.steps else link.state
    links.check_closure(leaves, below)
    link.sweep, link.likes = sweep, [Abstract(leaf) if is_floating(leaf) else None for leaf in leaves]
    whole = tape.record(link)
    return links.tree([make_var(leaf, tape.record(Part(whole, i)), tape) if is_floating(leaf) else leaf
                       for i, leaf in enumerate(leaves)])


class Link:
    """A chain's entry on a tape."""

    def __init__(self, links, tape, below):
        self.links, self.below, self.nan_safe = links, below, tape.nan_safe
        self.state, self.state_nodes = one_level_down(links.state, tape)
        params, self.param_nodes = one_level_down(links.params, tape)
        self.params = [read_only(leaf) for leaf in params]
        self.active = [i for i, node in enumerate(self.param_nodes) if node is not None]
        self.arguments = links.arguments(self.params)
        self.weak = not any(hasattr(leaf, "dtype") for leaf in (*self.state, *self.params))
        self.sweep = self.likes = None

    def advance(self, k, x):
        """Evaluate step k on values one level down."""
        if k:
            return self.links.step(k, x, *self.arguments)
        x = self.links.step(0, x, *self.arguments)
        self.links.check_closure(self.links.leaves(0, x), self.below)
        return x

    def pull_step(self, k, x, cotangent):
        """Pull the cotangent of the state back through step k, and add the parameters' shares to their sums."""
        links, (gs, sums) = self.links, cotangent
        with Tape(self.nan_safe, self.weak) as tape:
            state, nodes = links.flatten(x), []
            for i in links.floating:
                state[i] = tape.variable(state[i])
                nodes.append(state[i].node)
            params = self.arguments
            if self.active:
                params = list(self.params)
                for i in self.active:
                    params[i] = tape.variable(params[i])
                    nodes.append(params[i].node)
                params = links.arguments(params)
            out = links.leaves(k, links.step(k, links.tree(state), *params))
            seeds = []
            for i, g in zip(links.floating, gs, strict=True):
                leaf = out[i]
                if type(leaf) is Var and leaf.level is tape:
                    if leaf.alias is not None:
                        leaf._refresh()
                    if leaf.node is not None and g is not None:
                        seeds.append((leaf.node, g))
                    if type(leaf.value) is not float and isinstance(leaf.value, Traced):
                        links.check_closure([leaf.value], self.below)
                elif isinstance(leaf, Traced):
                    links.check_closure([leaf], self.below)
            pulled = tape.sweep_back(seeds, nodes)
        n = len(links.floating)
        for j, share in enumerate(pulled[n:]):
            if share is not None:
                sums[j] = added(sums[j], share)
        return pulled[:n], sums

    def pull(self, k, g, adjoints):
        """Run the reverse sweep, for the cotangents `g` of the final state's leaves."""
        floating = self.links.floating
        g = [*g, *[None] * (len(self.links.state) - len(g))]
        with np.errstate(all="ignore"):  # once, not at every step; the steps have warned in the first sweep
            gs, sums = self.sweep.backward(self.pull_step, ([g[i] for i in floating], [None] * len(self.active)))
        for i, share in zip(floating, gs, strict=True):
            if share is not None and self.state_nodes[i] is not None:
                adjoints.add(self.state_nodes[i], share, False)
        for i, share in zip(self.active, sums, strict=True):
            if share is not None:
                adjoints.add(self.param_nodes[i], share, False)

    def push(self, pushed):
        """Raise: a chain's tangents need its states again."""
        raise TypeError("linearize: f runs a chain, whose states are not kept for many JVPs: use dualad.jvp, which runs the chain in "
                        "forward mode")


def one_level_down(leaves, tape):
    """Return the values of the leaves as the step sees them, and their nodes on the tape (None for constants)."""
    values, nodes = [], []
    for leaf in leaves:
        ours = type(leaf) is Var and leaf.level is tape
        value = leaf._refresh().value if ours else leaf
        values.append(np.float64(value) if ours and type(value) is float and not tape.weak else value)
        nodes.append(leaf.node if ours else None)
    return values, nodes


def read_only(leaf):
    """Return a copy of a parameter that a step cannot change: both sweeps must see the same one."""
    if type(leaf) is np.ndarray:
        leaf = leaf.copy()
        leaf.flags.writeable = False
    return leaf


def added(total, share):
    """Return a sum over the steps; the total is this sweep's own and takes the share in place."""
    if total is None:
        return share.copy() if type(share) is np.ndarray else share
    if type(total) is np.ndarray is type(share):
        total += share
        return total
    return total + share
