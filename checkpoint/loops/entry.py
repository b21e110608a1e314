"""A chain on the tape: one entry, whose pull is the reverse sweep of the chain."""

from __future__ import annotations

from weakref import ref

import numpy as np
import optree

from dualad.core.dispatch import highest
from dualad.core.levels import Level
from dualad.core.traced import Traced
from dualad.forward.dual import Dual, make_dual
from dualad.forward.seeding import pack_leaf, scalar_kinds, split_value
from dualad.jit.jit import Jit
from dualad.support.forks import lock_of
from dualad.support.measured import measured

from ..reverse.entries import Entry, Part, place_of
from ..reverse.tape import Tape, Var, make_var, owner_of
from ..storage.states import copy_state, has_arrays, nbytes
from ..support.costs import COUNTED_STATE_BYTES
from ..sweep.sweep import Sweep
from .aliasing import Aliases
from .budget import planned, total
from .eager import run
from .leaves import added, is_floating, lifted, on_primals, one_level_down, read_only, was_written
from .snapshot import Snapshot, not_repeatable
from .spec import Rows, Stacked, StepSpec

__all__ = ["ChainEntry", "record", "record_chain", "unowned"]


class StepTape(Tape):
    """The tape of one step of a chain, closed when the step is recorded."""

    __slots__ = ()
    outlived = (
        "chain: a value that a step computed is used outside of the step, where it has no derivative: it was kept in a list, an array, "
        "an attribute or a global. Let the step return it: as an out (outputs=True, and chain returns all of them stacked), or in its state"
    )


def record(links, tape, **options):
    """Run the chain in a sweep with these options and record it as one operation on the tape."""
    tape.check()
    below = links.levels - {tape}
    if any(isinstance(level, Tape) for level in below):
        raise TypeError(
            "chain: reverse mode over reverse mode through a chain would keep every state of the inner sweep. For "
            "second derivatives use hvp (forward over reverse), or dualad.jacobian(grad(f))"
        )
    exact = options["check"] and not isinstance(links.source, Jit)  # whose recorded program may sum in another order
    link = ChainEntry(links, tape, below, options["steps"], exact)
    memory = options.pop("memory")
    if memory is not None:
        options["schedule"], storage, reason = planned(link, options["steps"], memory, options["storage"])
        options["storage"] = options["storage"] or storage
        options["stats"].reason = "; ".join(filter(None, (options["stats"].reason, reason)))
    options["until"], link.lossy = on_primals(options["until"]), options["storage"].lossy
    if options["storage"].durable:
        options |= link.durable_options(tape, options["token"])
    link.sweep = sweep = Sweep(link.advancing(), links.tree(link.state), record=unowned(link.record_step), **options)
    tape.sweeps = [*getattr(tape, "sweeps", ()), sweep]
    final = sweep.forward()
    link.aliases.watching = False
    link.check_params(link.arguments, link.params)
    link.steps = steps = sweep.stats.steps
    leaves = links.final_leaves(steps, final, link.arguments, link.inputs) if steps else link.state
    links.check_closure(leaves, below)
    link.last = Snapshot(steps, leaves, exact, final=True)
    return record_chain(link, tape, leaves, link.outs.arrays(), link.outs.tree)


def record_chain(link, tape, leaves, outs, tree_of_outs):
    """Record a chain that was run, and return what it returns, as variables."""
    whole = tape.record(link)
    links, results = link.links, [*leaves, *(outs if link.links.outputs else ())]
    traced = [make_var(leaf, tape.record(Part(whole, i)), tape) if is_floating(leaf) else leaf for i, leaf in enumerate(results)]
    final = links.tree(traced[: len(leaves)])
    return (final, tree_of_outs(traced[len(leaves) :])) if links.outputs else final


def unowned(method):
    """Return a method as a function that does not keep its object.

    A link hands such functions to its sweep: a cycle of the two would keep their arrays until Python's collector comes.
    """
    function, owner = method.__func__, ref(method.__self__)
    return lambda *args: function(owner(), *args)


class ChainEntry(Entry):
    """A chain's entry on a tape: pulls shares to the nodes of its state, parameters and inputs."""

    title = "chain"

    def __init__(self, links, tape, below, steps, exact):
        self.links, self.below, self.nan_safe = links, below, tape.nan_safe
        self.state, self.state_nodes = one_level_down(links.state, tape)
        params, self.param_nodes = one_level_down(links.params, tape)
        inputs, self.input_nodes = one_level_down(links.inputs, tape)
        self.params, self.inputs = [read_only(leaf) for leaf in params], [read_only(leaf) for leaf in inputs]
        self.state = lifted(self.state, highest([*self.state, *params, *inputs]))
        self.active = [i for i, node in enumerate(self.param_nodes) if node is not None]
        self.active_inputs = [i for i, node in enumerate(self.input_nodes) if node is not None]
        self.arguments = links.arguments(self.params)
        self.weak = scalar_kinds((*self.state, *self.params, *self.inputs))[1]
        self.outs = Stacked(steps)
        self.traced_step = -1 if steps is None or isinstance(links.source, Jit) else steps - 1  # a program leaves nothing elsewhere
        self.sweep, self.keeps_rows, self.exact, self.tried, self.lossy = None, False, exact, False, False
        self.out_cotangents, self.rows = [], []
        self.before = self.last = Snapshot(-1, ())  # the state that was met last, and x_N
        self.aliases = Aliases(links.path)
        self.lock = None  # a sweep uses up its states: two threads cannot pull at once

    def advancing(self):
        """Return the function that evaluates step k on values one level down, which does not keep this entry (see `unowned`)."""
        step, arguments, owner = self.links.step, self.arguments, ref(self)
        direct, watched, last = self.links.direct, True, self.traced_step

        def advance(k, x):
            nonlocal watched
            try:
                if k and not watched and k != last:
                    return step(k, x, *arguments)
                entry = owner()
                x = entry.advance_watched(k, x)
                watched = not direct or entry.aliases.watching
                return x
            except Exception as error:
                owner().explain(k, x, error)
                raise

        return advance

    def advance_watched(self, k, x):
        """Evaluate step k; in the first sweep also try step 0, keep what the steps put out, and see to it that no two leaves are one.

        The last step is evaluated on traced values: what it leaves elsewhere than in its results raises when it is used.
        """
        links, aliases = self.links, self.aliases
        if not k and aliases.watching and not self.tried:
            self.try_step(x)
        if k == self.traced_step:
            return self.record_step(k, x)[0]
        handed = ()
        if aliases.before(k):
            handed = aliases.guard(k, links.flatten(x))
            x = links.tree(handed)
        x, out = links.call(k, x, links.row(k, self.inputs), self.arguments)
        aliases.check(k, handed)
        if links.outputs and k == self.outs.length:
            links.check_closure([pack_leaf(leaf) for leaf in optree.tree_leaves(out)], self.below)
            self.put_out(k, out)
        if not aliases.watching:
            return x
        leaves = links.flatten(x)
        if not k:
            leaves = links.leaves(0, x)
            links.check_closure(leaves, self.below)
            self.compare(0, leaves)
            aliases.watching = has_arrays(x) or any(isinstance(leaf, Traced) for leaf in leaves)  # numbers share nothing
        if leaves is not None:
            aliases.note(k, leaves, (*self.params, *self.inputs), handed)
        return x

    def explain(self, k, x, error):
        """Raise what is behind an exception in step k, if something is."""
        if isinstance(error, ValueError) and "read-only" in str(error):
            groups = self.aliases.before(k)
            raise (self.aliases.written(k, groups) if groups else changed_arguments(f"step {k}")) from error
        self.links.explain(k, x, self.arguments, self.inputs)

    def try_step(self, x):
        """Record step 0 before the first sweep.

        So what cannot be differentiated fails before a long run, not after it, and what a step leaves elsewhere than in its results
        is a traced value of a closed level there, which raises when it is used.
        """
        with np.errstate(all="ignore"):  # the step itself will warn
            record = tape, _, _, final, _ = self.record(0, self.links.flatten(copy_state(x)), first=True)
        self.before = Snapshot(1, self.values(final, tape), self.exact)
        return record

    def tried_bytes(self, repeatable):
        """Return the bytes that a trial of step 0 and of its pull takes at most, and those of what the step puts out.

        A measure differs by a few bytes from process to process. Where another one is to find the same plan, they are estimated from
        what is on the tape instead.
        """
        x, floating = copy_state(self.links.tree(self.state)), self.links.floating
        gs = [np.ones_like(self.state[i])[()] for i in floating]

        def trial():
            record = self.try_step(x)
            outs = self.values([pack_leaf(leaf) for leaf in optree.tree_leaves(record[4])], record[0])
            estimate = 3 * total(self.state) + 2 * Pullback(self, 0, record[:3], None).nbytes if repeatable else 0
            with np.errstate(all="ignore"):
                self.pull_record(0, record[:3], (gs, [None] * len(self.active)))
            return sum(map(nbytes, outs)), estimate

        try:
            if not repeatable and (total(self.state) <= COUNTED_STATE_BYTES or isinstance(self.links.source, Jit)):
                trial()  # what is made once for all calls, such as the code of a rule, or of the step, would count
            (outs, estimate), taken = (trial(), 0) if repeatable else measured(trial)
        except Exception as error:
            self.explain(0, x, error)
            raise
        self.tried = True
        return taken or estimate, outs

    def compare(self, k, leaves, before=None):
        """Raise where step k, evaluated again, gave another state than `before`."""
        i = None if self.lossy else (before or self.before).differing(k + 1, leaves)
        if i is not None:
            raise not_repeatable(k, self.links.path(i))

    def pull_step(self, k, x, cotangent):
        """Pull the cotangent of the state back through step k, and add the parameters' shares to their sums."""
        leaves = self.links.flatten(x)
        record = self.record(k, leaves)
        self.compare(k, record[3])
        self.before = Snapshot(k, leaves, self.exact)
        return self.pull_record(k, record[:3], cotangent)  # x_{k+1} is not needed

    def record_step(self, k, x):
        """Evaluate step k as `advance` does, and return x_{k+1} with the pullback of the step."""
        links, given = self.links, self.links.flatten(x)
        try:
            record = tape, _, _, final, out = self.record(k, given, first=True)
        except Exception as error:
            self.explain(k, x, error)
            raise
        state = links.tree(self.values(final, tape))
        if not self.aliases.watching:
            self.compare(k, final)
        if links.outputs and k == self.outs.length:
            leaves, structure = optree.tree_flatten(out)
            self.put_out(k, optree.tree_unflatten(structure, self.values(map(pack_leaf, leaves), tape)))
        return copy_state(state), Pullback(self, k, record[:3], Snapshot(k, given, self.exact))

    def check_params(self, arguments, given):
        """Raise where steps have changed the parameters or inputs that they were given, which both sweeps must see."""
        leaves, structure = optree.tree_flatten(arguments)
        if (
            structure != self.links.params_structure
            or any(leaf is not known for leaf, known in zip(leaves, given, strict=True))
            or any(map(was_written, (*leaves, *self.inputs)))
        ):
            raise changed_arguments("a step")

    def put_out(self, k, out):
        """Keep what step k puts out."""
        self.outs.add(k, out)
        if self.keeps_rows:
            self.sweep.add_row(k, [column[k] for column in self.outs.columns])

    def put_shares(self, k, shares):
        """Keep the shares of row k of the inputs."""
        for rows, share in zip(self.rows, shares, strict=True):
            rows.put(k, share)
        if self.keeps_rows:
            self.sweep.add_row(k, shares)

    def durable_options(self, tape, token, block=None, until=None):
        """Return the options of a sweep that another process may go on with; `token` is what else says that it is the same call."""
        from ..durable.identity import function_digest
        from ..durable.points import Named, named

        if getattr(tape, "pulled_in_lanes", False):
            raise TypeError(
                "chain: jacobian pulls many cotangents back, one sweep each, and a durable storage keeps one sweep: use Disk(path), "
                "or vjp for each row"
            )
        self.keeps_rows = True
        inputs = optree.tree_unflatten(self.links.inputs_structure, self.inputs)
        parts = {"step": self.links.source} | named("params", self.arguments) | named("inputs", inputs) | named("token", token)
        parts |= {"what is differentiated": (self.active, self.active_inputs), "block": block}
        parts["until"] = None if until is None else function_digest(until)
        return {"token": Named(parts), "restorers": self.row_restorers()}

    def row_restorers(self):
        """Return the functions that take back what the steps of each sweep left behind in a process before this one."""
        return {
            "first": unowned(self.take_outs) if self.links.outputs else None,
            "reverse": unowned(self.take_shares) if self.active_inputs else None,
        }

    def take_outs(self, rows):
        structure = self.outs.structure  # of the first step, which is made again before
        self.outs = Stacked(self.outs.count)
        self.outs.structure = structure
        for k, leaves in rows.items():
            self.outs.put(k, leaves)

    def take_shares(self, rows):
        for k, shares in rows.items():
            for column, share in zip(self.rows, shares, strict=True):
                column.put(k, share)

    def values(self, leaves, tape):
        """Return results of a record one level down; a value of a foreign level raises."""
        values = one_level_down(leaves, tape)[0]
        self.links.check_closure(values, self.below)
        return values

    def record(self, k, leaves, first=False):
        """Evaluate step k on a tape of its own; return the tape, the nodes of inputs and of results, the final leaves, the out."""
        links, results, state = self.links, [], leaves.copy()
        with StepTape(self.nan_safe, self.weak) as tape:
            nodes = [*tape.variables(state, links.floating)]
            given, params, row = self.params, self.arguments, []
            handed = state.copy() if first and self.aliases.before(k) else ()
            if self.active:
                given = given.copy()
                nodes += tape.variables(given, self.active)
                params = links.arguments(given)
            if links.given:
                row = links.row(k, self.inputs)
                nodes += tape.variables(row, self.active_inputs)
            final, out = links.flat(k, state, row, params)
            for i in links.floating:
                leaf = final[i]
                if type(leaf) is Var and leaf.level is tape and type(leaf.primal) is float:  # `node_of` without its questions
                    results.append(leaf.node)
                else:
                    results.append(self.node_of(leaf, tape))
            if links.outputs:
                results += [self.node_of(pack_leaf(leaf), tape) for leaf in optree.tree_leaves(out)]
            if first:
                self.check_params(params, given)
                self.aliases.check(k, handed)
                self.aliases.note(k, final, (*given, *row), handed)
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
                now = sums[j]
                sums[j] = now + share if type(now) is float else added(now, share)
        if self.rows:
            self.put_shares(k, pulled[n + m :])
        return pulled[:n], sums

    def pull(self, k, g, adjoints):
        """Run the reverse sweep, for the cotangents `g` of the final state's leaves and of the outs."""
        with lock_of(self):
            shares = self.shares(g)
        for node, share in shares:
            if node is not None and share is not None:
                adjoints.add(node, share, False)

    def shares(self, g):
        """Return the nodes of state, parameters and inputs with their shares of the cotangents."""
        floating, count = self.links.floating, len(self.links.state)
        g = [*g, *[None] * (count - len(g))]
        self.out_cotangents = [*g[count:], *[None] * (len(self.outs.columns or ()) - len(g[count:]))] if len(g) > count else []
        self.rows = [Rows(self.inputs[i]) for i in self.active_inputs]
        self.before = self.last
        with np.errstate(all="ignore"):  # once, not at every step; the steps have warned in the first sweep
            gs, sums = self.sweep.backward(self.pull_step, ([g[i] for i in floating], [None] * len(self.active)), self.out_cotangents)
        shares = [
            *zip([self.state_nodes[i] for i in floating], gs, strict=True),
            *zip([self.param_nodes[i] for i in self.active], sums, strict=True),
            *zip([self.input_nodes[i] for i in self.active_inputs], [rows.array() for rows in self.rows], strict=True),
        ]
        self.out_cotangents, self.rows = [], []
        return shares

    @property
    def parents(self):
        return [node for node in (*self.state_nodes, *self.param_nodes, *self.input_nodes) if node is not None]

    def push(self, pushed):
        """Return the tangents of the results, by running the chain again in forward mode."""
        links = self.links
        with Level(None, self.nan_safe, self.weak) as level:

            def moving(leaves, nodes):
                tangents = [None if node is None else pushed[place_of(node)] for node in nodes]
                return [leaf if t is None else make_dual(leaf, t, level) for leaf, t in zip(leaves, tangents, strict=True)]

            inputs = moving(self.inputs, self.input_nodes)
            again = StepSpec(
                links.step,
                links.source,
                links.tree(moving(self.state, self.state_nodes)),
                links.arguments(moving(self.params, self.param_nodes)),
                optree.tree_unflatten(links.inputs_structure, inputs) if links.given else None,
                links.outputs,
            )
            leaves = optree.tree_leaves(self.forward(again))
            pairs = [split_value(pack_leaf(leaf), level) for leaf in leaves]
        self.compare(self.steps - 1, [value for value, _ in pairs[: len(self.state)]], self.last)
        return [t for _, t in pairs]

    def forward(self, links):
        """Run the chain without a tape."""
        return run(links, highest(links.traced), self.steps)


def changed_arguments(who):
    return ValueError(
        f"chain: {who} changed its parameters or inputs, which both sweeps must see as they were given: copy in the step what it "
        f"changes, or put it into the state"
    )


class Pullback:
    """The pullback of a recorded step, which knows how much it holds."""

    def __init__(self, link, k, record, before):
        self.link, self.k, self.record, self.before = link, k, record, before

    def __call__(self, cotangent):
        self.link.before = self.before
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
            elif issubclass(type(value), np.ndarray):
                owner = owner_of(value)
                arrays[id(owner)] = owner
            else:
                numbers += issubclass(type(value), float | np.generic)
        return 8 * numbers + sum(nbytes(owner) for owner in arrays.values())
